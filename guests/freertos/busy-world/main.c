/*
 * A payload for experiments: periodic tasks that only compute, and beside them the servers of its plan. The arguments say which tasks:
 * `tasks=50/10/8,300/100/4` = period and cost in milliseconds, and priority. They end with the other world. Behind a space `off=900/1800`
 * switches the servers off at the one instant and on again at the other, in milliseconds (SG-86).
 *
 * What a task computes is counted by its overrun handler (SG-43), so it takes its cost of its own time, whatever interrupts it. What the
 * kernel does to begin and to end a job is a part of its cost.
 */
#include "board.h"
#include "overrun.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define LOADER_PRIORITY 2
#define MOST_TASKS      4U
#define SWITCH_PRIORITY 15
/* Ticks of the counter that the kernel needs for a job beside what its handler counts. */
#define JOB             1600U

struct busy {
    uint64_t period_ms, cost_ms, priority;
    /* Response times in ticks of the counter. */
    uint64_t least, most, jobs, missed;
    volatile _Bool is_done;
};

static struct busy tasks[MOST_TASKS];
static unsigned task_count;
static uint64_t counter_per_ms;
/* The counter at tick 0, and when the kernel was started. */
static uint64_t origin, started;

static void is_done(TaskHandle_t task, void *busy)
{
    (void)task;
    ((struct busy *)busy)->is_done = 1;
}

static void compute(void *what)
{
    struct busy *busy = what;
    TickType_t due = 0;

    configASSERT(ovr_define(xTaskGetCurrentTaskHandle(), is_done, busy));
    for (;;) {
        busy->is_done = 0;
        configASSERT(ovr_start(xTaskGetCurrentTaskHandle(), busy->cost_ms * counter_per_ms - JOB));
        while (!busy->is_done) {
        }
        uint64_t response = board_counter() - (origin + due * counter_per_ms);
        /* The first job began when the kernel had started, and not at tick 0. */
        if (due == 0)
            response -= started - origin;
        if (busy->jobs++ == 0 || response < busy->least)
            busy->least = response;
        if (response > busy->most)
            busy->most = response;
        if (response > busy->period_ms * counter_per_ms)
            busy->missed++;
        vTaskDelayUntil(&due, busy->period_ms);
    }
}

/* When servers are off, in milliseconds. */
static struct { uint64_t from_ms, to_ms; } off;

static void switch_servers(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    vTaskDelayUntil(&due, off.from_ms);
    world_use_servers(0);
    vTaskDelayUntil(&due, off.to_ms - off.from_ms);
    world_use_servers(1);
    vTaskDelete(NULL);
}

static void print_pair(const char *name, uint64_t number)
{
    board_print(name);
    board_print_number(number);
}

static void end(void)
{
    for (unsigned number = 0; number < task_count; number++) {
        print_pair("rtos: task ", number);
        print_pair(" jobs ", tasks[number].jobs);
        print_pair(" response ", tasks[number].least);
        print_pair(" to ", tasks[number].most);
        print_pair(" missed ", tasks[number].missed);
        board_print("\n");
    }
    print_pair("rtos: budgets used up ", world_counts()->used_up);
    print_pair(" urgent ", world_counts()->urgent);
    print_pair(" calls ", world_counts()->calls);
    print_pair("\nrtos: origin ", origin);
    board_print("\nrtos: end\n");
    board_power_off();
}

void world_is_off(void) { end(); }
_Bool world_wants_reset(void) { board_print("rtos: FAILED: the other world wants to be reset\n"); end(); return 0; }
void world_is_damaged(void) { board_print("rtos: FAILED: the other world is damaged\n"); end(); }

/* The number at `text`, which is moved behind it and the character that follows, unless that is a space. */
static uint64_t number(const char **text)
{
    uint64_t value = 0;

    while (**text >= '0' && **text <= '9')
        value = value * 10 + (uint64_t)(*(*text)++ - '0');
    if (**text != '\0' && **text != ' ')
        (*text)++;
    return value;
}

static _Bool has_key(const char **text, const char *key)
{
    const char *at = *text;

    for (; *key != '\0'; key++)
        if (*at++ != *key)
            return 0;
    *text = at;
    return 1;
}

static void read_arguments(const char *text)
{
    if (has_key(&text, "tasks="))
        for (; *text != '\0' && *text != ' ' && task_count < MOST_TASKS; task_count++) {
            tasks[task_count].period_ms = number(&text);
            tasks[task_count].cost_ms = number(&text);
            tasks[task_count].priority = number(&text);
        }
    if (has_key(&text, " off=")) {
        off.from_ms = number(&text);
        off.to_ms = number(&text);
    }
}

void payload_main(const struct bulkhead_world_plan *plan)
{
    uint64_t frequency_hz;

    __asm__ volatile("mrs %0, CNTFRQ_EL0" : "=r"(frequency_hz));
    counter_per_ms = frequency_hz / 1000;
    board_initialise(plan);
    read_arguments(bulkhead_world_arguments(plan));
    for (unsigned number = 0; number < task_count; number++)
        configASSERT(xTaskCreate(compute, "busy", STACK_WORDS, &tasks[number], tasks[number].priority, NULL) == pdPASS);
    if (off.to_ms > off.from_ms)
        configASSERT(xTaskCreate(switch_servers, "switch", STACK_WORDS, NULL, SWITCH_PRIORITY, NULL) == pdPASS);
    world_start(plan, LOADER_PRIORITY);
    origin = board_origin();
    started = board_counter();
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
