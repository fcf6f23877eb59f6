/*
 * The payload of `systems/dual-world`: two periodic tasks of a controller in the secure world, more of them by its arguments
 * (busy-tasks/busy.h), one that tells the other world of itself where there are channels (busy-tasks/telemetry.h), and below them that world.
 */
#include "../busy-tasks/busy.h"
#include "../busy-tasks/telemetry.h"
#include "board.h"
#include "health.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define FAST_PRIORITY   12
#define SLOW_PRIORITY   10
#define TELL_PRIORITY   9
#define LOADER_PRIORITY 2
#define SLOW_TICKS      100U
/* Without another world it ends after so many of them, unless its arguments begin with `rounds=N`. */
#define ROUNDS_ALONE    5U

static void print_lateness(const char *what, enum board_interrupted interrupted)
{
    const struct board_lateness *late = board_tick_lateness(interrupted);

    board_print(what);
    board_print_number(late->ticks);
    board_print(" late ");
    board_print_number(late->least);
    board_print(" to ");
    board_print_number(late->most);
}

static void report(void)
{
    busy_print();
    telemetry_print();
    board_print("rtos: starts of the other world: ");
    board_print_number(world_counts()->starts);
    board_print("\n");
    board_print("rtos: ticks due: ");
    board_print_number(board_ticks_due());
    board_print("\n");
    print_lateness("rtos: ticks in the payload: ", BOARD_PAYLOAD);
    print_lateness("; in the other world: ", BOARD_OTHER_WORLD);
    board_print("; calls ");
    board_print_number(world_counts()->calls);
    board_print("\n");
}

static uint64_t fast_rounds;

static void fast(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, 1);
        fast_rounds++;
    }
}

/* Once in each of its periods the fast task has run as often as it was due, or this says so. */
static void slow(void *rounds)
{
    TickType_t due = 0;

    for (;;) {
        vTaskDelayUntil(&due, SLOW_TICKS);
        configASSERT(fast_rounds == due);
        if (rounds != NULL && due == (uintptr_t)rounds * SLOW_TICKS) {
            report();
            board_print("rtos: end\n");
            board_power_off();
        }
    }
}

void world_is_off(void)
{
    board_print("rtos: the other world is off\n");
    report();
    board_power_off();
}

_Bool world_wants_reset(void)
{
    board_print("rtos: the other world is reset\n");
    return 1;
}

/* Where the description has a section on health, which then decides. */
void world_health_event(enum world_state state, enum world_reason reason)
{
    static const char *const states[] = { "initial", "running", "suspended", "off", "restarting", "stopped" };
    static uint64_t ordered;
    static const char *const reasons[] = { "no reason", "data abort", "instruction abort", "?", "?", "no progress", "a reset", "managed", "?", "damaged" };

    if (state == WORLD_RESTARTING)
        ordered = board_counter();
    if (state == WORLD_RUNNING && ordered != 0) {
        board_print("rtos: the other world is started again, after counter ticks: ");
        board_print_number(board_counter() - ordered);
        board_print("\n");
        return;
    }
    if (state == WORLD_OFF) {
        world_is_off();
        return;
    }
    board_print(state == WORLD_STOPPED ? "rtos: FAILED: the other world is " : "rtos: the other world is ");
    board_print(states[state]);
    if (reason != WORLD_NO_REASON && state != WORLD_RUNNING) {
        board_print(": ");
        board_print(reasons[reason]);
    }
    board_print("\n");
    if (state == WORLD_STOPPED) {
        report();
        board_power_off();
    }
}

void world_is_damaged(void)
{
    board_print("rtos: FAILED: CRC of a segment of the other world\n");
    board_power_off();
}

void payload_main(const struct bulkhead_world_plan *plan)
{
    _Bool has_other_world = bulkhead_world_has_other(plan);
    const char *text = bulkhead_world_arguments(plan);
    uint64_t rounds = ROUNDS_ALONE;

    board_print("rtos: FreeRTOS " tskKERNEL_VERSION_NUMBER " in the secure world\n");
    board_initialise(plan);
    if (busy_has_key(&text, "rounds="))
        rounds = busy_number(&text);
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, FAST_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(slow, "slow", STACK_WORDS, (void *)(uintptr_t)(has_other_world ? 0 : rounds), SLOW_PRIORITY, NULL) == pdPASS);
    if (has_other_world)
        world_start(plan, LOADER_PRIORITY);
    telemetry_create(plan, TELL_PRIORITY);
    busy_create(text);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
