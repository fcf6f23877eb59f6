/*
 * Events of channels as notifications of tasks (SG-71).
 *
 * A doorbell of the other world is a call, so it arrives in the server task that ran it; the first one of a group wakes the task that waits, so
 * a storm of them costs the payload as much as it costs the world's budget. A channel that is polled has no calls: the waiting task looks
 * itself, once in a period at most. Whatever the other world writes, it wakes nobody more often than the plan says.
 */
#include "messages.h"

struct subscription {
    TaskHandle_t task;
    uint32_t group;
};

static struct subscription subscriptions[BULKHEAD_MESSAGES_CHANNELS];
static TickType_t periods[BULKHEAD_MESSAGES_CHANNELS];

void messages_subscribe(const struct bulkhead_world_plan *plan, uint32_t group)
{
    for (uint32_t channel = 0; channel < BULKHEAD_MESSAGES_CHANNELS; channel++) {
        if ((group >> channel & 1) == 0)
            continue;
        taskENTER_CRITICAL();
        subscriptions[channel] = (struct subscription){ xTaskGetCurrentTaskHandle(), group };
        periods[channel] = bulkhead_messages_poll(plan, channel);
        taskEXIT_CRITICAL();
    }
}

void messages_rung(uint32_t channel)
{
    TaskHandle_t woken = NULL;

    if (channel >= BULKHEAD_MESSAGES_CHANNELS)
        return;
    taskENTER_CRITICAL();
    if (bulkhead_messages_ring(channel, subscriptions[channel].group))
        woken = subscriptions[channel].task;
    taskEXIT_CRITICAL();
    if (woken != NULL)
        xTaskNotifyGive(woken);
}

/* The shortest time between two looks at channels of the group; portMAX_DELAY when nobody looks. */
static TickType_t period_of(uint32_t group)
{
    TickType_t period = portMAX_DELAY;

    for (uint32_t channel = 0; channel < BULKHEAD_MESSAGES_CHANNELS; channel++)
        if ((group >> channel & 1) != 0 && periods[channel] != 0 && periods[channel] < period)
            period = periods[channel];
    return period;
}

static uint32_t looked_for(uint32_t group)
{
    uint32_t found = 0;

    for (uint32_t channel = 0; channel < BULKHEAD_MESSAGES_CHANNELS; channel++)
        if ((group >> channel & 1) != 0 && periods[channel] != 0 && bulkhead_messages_look(channel) > 0)
            found |= 1U << channel;
    return found;
}

static uint32_t taken(uint32_t group)
{
    uint32_t rung;

    taskENTER_CRITICAL();
    rung = bulkhead_messages_take(group);
    taskEXIT_CRITICAL();
    return rung;
}

uint32_t messages_wait(uint32_t group, TickType_t ticks)
{
    TickType_t period = period_of(group);

    for (;;) {
        TickType_t step = ticks < period ? ticks : period;
        uint32_t found = taken(group);

        if (found != 0)
            return found;
        /* Before a look there is always a whole period. */
        if (ulTaskNotifyTake(pdTRUE, step) != 0)
            continue;
        found = step == period ? looked_for(group) : 0;
        if (ticks != portMAX_DELAY)
            ticks -= step;
        if (found != 0 || ticks == 0)
            return found;
    }
}

void messages_restart(const struct bulkhead_world_plan *plan)
{
    /* Who is in the middle of a call may be less urgent than the loader. */
    while (!bulkhead_messages_close())
        vTaskDelay(1);
    (void)taken(UINT32_MAX);
    bulkhead_messages_open(plan);
}
