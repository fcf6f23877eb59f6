/*
 * A payload that watches a failing world: what happened to it is said, and what the payload's own tasks noticed of that. Arguments, one or more,
 * with commas between them:
 *
 * `restarts=N` ends after so many restarts of the world, `ms=N` after so many milliseconds; either way when the world is off or stopped.
 * `load=N` has a task in the middle that computes N of each 10 ms. `manage` suspends the world, resumes and restarts it;
 * `tasks` does to its server what the kernel can do with a task.
 */
#include "board.h"
#include "health.h"
#include "overrun.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS      512U
#define FAST_PRIORITY    12
#define SLOW_PRIORITY    10
#define BUSY_PRIORITY    8
#define MANAGER_PRIORITY 6
#define LOADER_PRIORITY  2
#define SPIN_PRIORITY    4
#define SLOW_TICKS       100U
#define BUSY_TICKS       10U

static uint64_t fast_rounds, end_restarts, end_ticks, load_ms, counter_per_tick;
static _Bool is_managed, is_quiet, is_task;
/* Of restarts by the policy, from the order to the first moment in which the world may run: ticks of the counter. */
static uint64_t ordered, shortest = UINT64_MAX, longest;

static const char *const states[] = { "initial", "running", "suspended", "off", "restarting", "stopped" };

static void print_pair(const char *name, uint64_t number)
{
    board_print(name);
    board_print_number(number);
}

static void print_lateness(const char *what, enum board_interrupted interrupted)
{
    const struct board_lateness *late = board_tick_lateness(interrupted);

    print_pair(what, late->ticks);
    print_pair(" late ", late->least);
    print_pair(" to ", late->most);
}

/* rtos: ticks 812 counted 812 fast 812; in the payload 300 late 2 to 2; in the other world 512 late 116 to 116
   rtos: state 1 restarts 50 faults 50; restart took 1 to 2; calls 200 heartbeats 200 */
static __attribute__((noreturn)) void end(void)
{
    struct bulkhead_health health = world_health();
    uint64_t tick, now;

    taskENTER_CRITICAL();
    tick = xTaskGetTickCount();
    now = board_counter();
    taskEXIT_CRITICAL();
    print_pair("rtos: ticks ", tick);
    print_pair(" counted ", (now - board_origin()) / counter_per_tick);
    print_pair(" fast ", fast_rounds);
    print_lateness("; in the payload ", BOARD_PAYLOAD);
    print_lateness("; in the other world ", BOARD_OTHER_WORLD);
    print_pair("\nrtos: state ", health.state);
    print_pair(" reason ", health.reason);
    print_pair(" restarts ", health.restarts);
    print_pair(" faults ", health.faults);
    print_pair("; restart took ", shortest);
    print_pair(" to ", longest);
    print_pair("; calls ", world_counts()->calls);
    print_pair(" heartbeats ", world_counts()->heartbeats);
    board_print("\nrtos: end\n");
    board_power_off();
}

void world_health_event(enum world_state state, enum world_reason reason)
{
    uint64_t now = board_counter();

    if (state == WORLD_RESTARTING)
        ordered = now;
    if (state == WORLD_RUNNING && reason != WORLD_NO_REASON && ordered != 0) {
        uint64_t took = now - ordered;

        shortest = took < shortest ? took : shortest;
        longest = took > longest ? took : longest;
    }
    if (!is_quiet) {
        board_print("rtos: world ");
        board_print(states[state]);
        print_pair(", reason ", reason);
        print_pair(", ms ", xTaskGetTickCount());
        board_print("\n");
    }
    if (state == WORLD_OFF || state == WORLD_STOPPED)
        end();
}

void world_is_off(void) { board_print("rtos: the other world is off\n"); end(); }
_Bool world_wants_reset(void) { board_print("rtos: the other world wants a reset\n"); end(); }
void world_is_damaged(void) { board_print("rtos: the other world is damaged\n"); end(); }

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
static void slow(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, SLOW_TICKS);
        configASSERT(fast_rounds == due);
        /* The world that was started last shall work as well. */
        if ((end_restarts != 0 && world_health().restarts >= end_restarts) || (end_ticks != 0 && due >= end_ticks))
            end();
    }
}

static volatile _Bool is_done;

static void has_computed(TaskHandle_t task, void *unused)
{
    (void)task;
    (void)unused;
    is_done = 1;
}

static void busy(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    configASSERT(ovr_define(xTaskGetCurrentTaskHandle(), has_computed, NULL));
    for (;;) {
        is_done = 0;
        configASSERT(ovr_start(xTaskGetCurrentTaskHandle(), load_ms * counter_per_tick));
        while (!is_done) {
        }
        vTaskDelayUntil(&due, BUSY_TICKS);
    }
}

/* A suspended world stands, a resumed one goes on where it stood, a restarted one begins again. */
static void manage(void *unused)
{
    uint64_t calls;

    (void)unused;
    vTaskDelay(20);
    for (unsigned round = 0; round < 3; round++) {
        world_suspend();
        calls = world_counts()->calls;
        configASSERT(calls != 0 && world_health().state == WORLD_SUSPENDED);
        vTaskDelay(10);
        configASSERT(world_counts()->calls == calls);
        world_resume();
        vTaskDelay(10);
        configASSERT(world_counts()->calls > calls && world_health().state == WORLD_RUNNING);
    }
    world_suspend();
    calls = world_counts()->starts;
    world_restart();
    /* A second one, while the first is loading: one start comes of both. */
    vTaskDelay(1);
    world_restart();
    vTaskDelay(60);
    configASSERT(world_counts()->starts == calls + 1 && world_health().state == WORLD_RUNNING);
    end();
}

static void spin(void *unused)
{
    (void)unused;
    for (;;) {
    }
}

/* Whether the world calls within ten milliseconds. */
static _Bool calls(void)
{
    uint64_t before = world_counts()->calls;

    vTaskDelay(10);
    return world_counts()->calls != before;
}

/* The server without a budget is a task as any other: suspended and resumed, below another one and above it, and deleted at last, when nobody is left to
   run the world. Nobody wakes it then, and its memory may be another task's. */
static void handle(void *unused)
{
    TaskHandle_t server = world_task(0), spinner, other;

    (void)unused;
    vTaskDelay(20);
    configASSERT(calls());
    vTaskSuspend(server);
    configASSERT(!calls());
    vTaskResume(server);
    configASSERT(calls());
    configASSERT(xTaskCreate(spin, "spin", STACK_WORDS, NULL, SPIN_PRIORITY, &spinner) == pdPASS);
    configASSERT(!calls());
    vTaskPrioritySet(server, SPIN_PRIORITY + 1);
    configASSERT(calls());
    vTaskPrioritySet(server, 1);
    configASSERT(!calls());
    vTaskDelete(spinner);
    configASSERT(calls());
    vTaskDelete(server);
    configASSERT(world_task(0) == NULL);
    configASSERT(xTaskCreate(spin, "other", STACK_WORDS, NULL, 0, &other) == pdPASS);
    configASSERT(!calls());
    world_suspend();
    world_resume();
    configASSERT(!calls() && ulTaskNotifyValueClear(other, 0) == 0);
    end();
}

/* The number behind `key`, if the text begins with that. */
static _Bool is_key(const char **text, const char *key, uint64_t *number)
{
    const char *at = *text;

    for (; *key != '\0'; key++)
        if (*at++ != *key)
            return 0;
    for (*number = 0; *at >= '0' && *at <= '9'; at++)
        *number = *number * 10 + (uint64_t)(*at - '0');
    *text = at;
    return 1;
}

static void read_arguments(const char *text)
{
    uint64_t none;

    while (*text != '\0') {
        if (is_key(&text, "manage", &none))
            is_managed = 1;
        else if (is_key(&text, "tasks", &none))
            is_task = 1;
        else if (is_key(&text, "quiet", &none))
            is_quiet = 1;
        else if (!is_key(&text, "restarts=", &end_restarts) && !is_key(&text, "ms=", &end_ticks) && !is_key(&text, "load=", &load_ms))
            text++;
    }
}

void payload_main(const struct bulkhead_world_plan *plan)
{
    uint64_t frequency_hz;

    __asm__ volatile("mrs %0, CNTFRQ_EL0" : "=r"(frequency_hz));
    counter_per_tick = frequency_hz / configTICK_RATE_HZ;
    board_initialise(plan);
    read_arguments(bulkhead_world_arguments(plan));
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, FAST_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(slow, "slow", STACK_WORDS, NULL, SLOW_PRIORITY, NULL) == pdPASS);
    if (load_ms != 0)
        configASSERT(xTaskCreate(busy, "busy", STACK_WORDS, NULL, BUSY_PRIORITY, NULL) == pdPASS);
    if (is_managed)
        configASSERT(xTaskCreate(manage, "manager", STACK_WORDS, NULL, MANAGER_PRIORITY, NULL) == pdPASS);
    if (is_task)
        configASSERT(xTaskCreate(handle, "handle", STACK_WORDS, NULL, MANAGER_PRIORITY, NULL) == pdPASS);
    world_start(plan, LOADER_PRIORITY);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
