/*
 * A controller in the secure world of core 0, above a monitor with partitions on up to four cores. Each millisecond its fast task does its
 * round; the slow one compares rounds with ticks, and says after each second how many there are, and how late they came.
 */
#include "board.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define FAST_PRIORITY   12
#define SLOW_PRIORITY   10
#define LOADER_PRIORITY 2
#define SLOW_TICKS      10U
#define REPORT_TICKS    1000U
#define CORES           4U

static const struct bulkhead_world_plan *plan;
static volatile uint64_t rounds;

static void print_pair(const char *what, uint64_t number)
{
    board_print(what);
    board_print_number(number);
}

static void print_lateness(const char *what, const struct board_lateness *late)
{
    print_pair(what, late->ticks);
    print_pair(" late ", late->least);
    print_pair(" to ", late->most);
}

/* Ticks that came may be more than those that were due a moment before, and never less. How late they were is exact where no other core of
   the emulator has its turn meanwhile. */
static void print_ticks(void)
{
    uint64_t due = board_ticks_due();
    struct board_lateness own = *board_tick_lateness(BOARD_PAYLOAD), other = *board_tick_lateness(BOARD_OTHER_WORLD);

    print_pair("rtos: ticks due: ", due);
    print_lateness("\nrtos: ticks in the payload: ", &own);
    print_lateness("; in the other world: ", &other);
    print_pair("; calls ", world_counts()->calls);
    board_print("\n");
}

static void fast(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, 1);
        rounds++;
    }
}

/* Partitions that ended their monitor with them: there is nobody left to control for. */
static void end(const char *why)
{
    board_print(why);
    board_power_off();
}

static void slow(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, SLOW_TICKS);
        /* A round for each tick that the kernel counted. */
        configASSERT(rounds >= due);
        if (due % REPORT_TICKS == 0) {
            /* What is due by the counter is read first: each of these ticks is taken, and has its round, before this task continues. */
            uint64_t ticks = board_ticks_due(), done = rounds;

            print_pair("rtos: rounds ", done);
            print_pair(" of ", ticks);
            print_pair(" ticks; the world was interrupted ", world_counts()->interrupted);
            print_pair(" times, called ", world_counts()->calls);
            print_pair(", and had urgent interrupts ", world_counts()->urgent);
            board_print("\n");
            print_ticks();
        }
        for (uint32_t core = 1; core < CORES; core++)
            if (bulkhead_world_ended(plan, core) != 0)
                end("rtos: the partitions are off\n");
    }
}

void world_is_off(void) { end("rtos: the partitions are off\n"); }

_Bool world_wants_reset(void)
{
    end("rtos: FAILED: the monitor wants to be reset\n");
    return 0;
}

void world_is_damaged(void) { end("rtos: FAILED: CRC of the image of the partitions\n"); }

void payload_main(const struct bulkhead_world_plan *given)
{
    plan = given;
    board_initialise(plan);
    board_print("rtos: in the secure world of core 0\n");
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, FAST_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(slow, "slow", STACK_WORDS, NULL, SLOW_PRIORITY, NULL) == pdPASS);
    world_start(plan, LOADER_PRIORITY);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
