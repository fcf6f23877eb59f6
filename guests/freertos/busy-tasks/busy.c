/*
 * Periodic tasks that only compute, whose deadlines are the ends of their periods.
 *
 * What a task computes is counted by its overrun handler (SG-43), so it takes its cost of its own time, whatever interrupts it. What the
 * kernel does to begin and to end a job is a part of its cost.
 */
#include "busy.h"
#include "board.h"
#include "overrun.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS 512U
#define MOST_TASKS  4U
/* Ticks of the counter that the kernel needs for a job beside what its handler counts. */
#define JOB         1700U

struct busy {
    uint64_t period_ms, cost_ms, priority;
    /* Response times in ticks of the counter. */
    uint64_t least, most, jobs, missed;
    volatile _Bool is_done;
};

static struct busy tasks[MOST_TASKS];
static unsigned task_count;

static uint64_t counter_per_ms, started;

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
        /* The first job begins when the kernel has started, and not at tick 0. */
        uint64_t response = board_counter() - (due == 0 ? started : board_origin() + due * counter_per_ms);
        if (busy->jobs++ == 0 || response < busy->least)
            busy->least = response;
        if (response > busy->most)
            busy->most = response;
        if (response > busy->period_ms * counter_per_ms)
            busy->missed++;
        vTaskDelayUntil(&due, busy->period_ms);
    }
}

uint64_t busy_number(const char **text)
{
    uint64_t value = 0;

    while (**text >= '0' && **text <= '9')
        value = value * 10 + (uint64_t)(*(*text)++ - '0');
    if (**text != '\0' && **text != ' ')
        (*text)++;
    return value;
}

_Bool busy_has_key(const char **text, const char *key)
{
    const char *at = *text;

    for (; *key != '\0'; key++)
        if (*at++ != *key)
            return 0;
    *text = at;
    return 1;
}

const char *busy_create(const char *text)
{
    uint64_t frequency_hz;

    __asm__ volatile("mrs %0, CNTFRQ_EL0" : "=r"(frequency_hz));
    counter_per_ms = frequency_hz / 1000;
    if (busy_has_key(&text, "tasks="))
        for (; *text != '\0' && *text != ' ' && task_count < MOST_TASKS; task_count++) {
            tasks[task_count].period_ms = busy_number(&text);
            tasks[task_count].cost_ms = busy_number(&text);
            tasks[task_count].priority = busy_number(&text);
        }
    for (unsigned number = 0; number < task_count; number++)
        configASSERT(xTaskCreate(compute, "busy", STACK_WORDS, &tasks[number], tasks[number].priority, NULL) == pdPASS);
    started = board_counter();
    return text;
}

static void print_pair(const char *name, uint64_t number)
{
    board_print(name);
    board_print_number(number);
}

void busy_print(void)
{
    for (unsigned number = 0; number < task_count; number++) {
        print_pair("rtos: task ", number);
        print_pair(" jobs ", tasks[number].jobs);
        print_pair(" response ", tasks[number].least);
        print_pair(" to ", tasks[number].most);
        print_pair(" missed ", tasks[number].missed);
        board_print("\n");
    }
}
