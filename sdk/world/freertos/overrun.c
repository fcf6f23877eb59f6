/* Overrun handlers over the library's accounts. Which task has which is in the first of the kernel's thread-local words. */
#include "overrun.h"
#include "board.h"

/* The first are the world's servers. */
#define SERVERS 5U
#define PLACES  16U
#define FILLED  (UINT64_C(1) << 32)

struct place {
    ovr_handler handler;
    void *argument;
    TaskHandle_t task;
};

static struct place places[PLACES];
static unsigned used = SERVERS;

/* One more than the task's place, so that tasks without one have 0, as the kernel makes them. */
static uint64_t number_of(TaskHandle_t task)
{
    return (uint64_t)(uintptr_t)pvTaskGetThreadLocalStoragePointer(task, 0) - 1;
}

static void take(unsigned number, TaskHandle_t task, ovr_handler handler, void *argument)
{
    places[number] = (struct place){ handler, argument, task };
    vTaskSetThreadLocalStoragePointer(task, 0, (void *)(uintptr_t)(number + 1));
    /* It runs already, so the hook of its switch knew nothing of it. */
    if (task == xTaskGetCurrentTaskHandle() && xTaskGetSchedulerState() == taskSCHEDULER_RUNNING)
        world_switched_in((const void *)(uintptr_t)(number + 1));
}

_Bool ovr_define(TaskHandle_t task, ovr_handler handler, void *argument)
{
    _Bool fits;

    taskENTER_CRITICAL();
    fits = used < PLACES;
    if (fits)
        take(used++, task, handler, argument);
    taskEXIT_CRITICAL();
    return fits;
}

_Bool ovr_open_server(TaskHandle_t task, unsigned number, ovr_handler handler, uint64_t budget, uint64_t period)
{
    uint64_t now = board_counter();
    _Bool is_open;

    configASSERT(number < SERVERS);
    taskENTER_CRITICAL();
    take(number, task, handler, (void *)(uintptr_t)number);
    is_open = budget == 0 || bulkhead_time_open(number, budget, period, board_origin(), now);
    taskEXIT_CRITICAL();
    return is_open;
}

_Bool ovr_start_from_isr(TaskHandle_t task, uint64_t ticks)
{
    uint64_t now = board_counter();
    _Bool is_started = bulkhead_time_start(number_of(task), ticks, now);

    board_set_event(bulkhead_time_next(now));
    return is_started;
}

uint64_t ovr_stop_from_isr(TaskHandle_t task)
{
    uint64_t now = board_counter();
    uint64_t left = bulkhead_time_stop(number_of(task), now);

    board_set_event(bulkhead_time_next(now));
    return left;
}

uint64_t ovr_remaining_from_isr(TaskHandle_t task) { return bulkhead_time_remaining(number_of(task), board_counter()); }

_Bool ovr_start(TaskHandle_t task, uint64_t ticks)
{
    taskENTER_CRITICAL();
    _Bool is_started = ovr_start_from_isr(task, ticks);
    taskEXIT_CRITICAL();
    return is_started;
}

uint64_t ovr_stop(TaskHandle_t task)
{
    taskENTER_CRITICAL();
    uint64_t left = ovr_stop_from_isr(task);
    taskEXIT_CRITICAL();
    return left;
}

uint64_t ovr_remaining(TaskHandle_t task)
{
    taskENTER_CRITICAL();
    uint64_t left = ovr_remaining_from_isr(task);
    taskEXIT_CRITICAL();
    return left;
}

void ovr_timer(uint64_t now)
{
    uint64_t event;

    while ((event = bulkhead_time_event(now)) != BULKHEAD_TIME_NOTHING) {
        struct place *place = &places[event & (PLACES - 1)];

        if (event & FILLED)
            world_is_filled((unsigned)event);
        else if (place->handler != NULL)
            place->handler(place->task, place->argument);
    }
}
