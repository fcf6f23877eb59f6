/*
 * Health of the non-secure world (SG-60, SG-61). The library decides; here is what a kernel adds: a task that waits for silence and for the end of
 * a back-off, and tells the application.
 *
 * An order is obeyed where it was given, before interrupts are open again: a world that must not run does not run one instruction more, and no
 * second order comes between. Rejected: a queue to the task of health, which a server that is more urgent would run ahead of.
 */
#include "health.h"
#include "trace.h"
#include "world.h"

#define STACK_WORDS 512U
/* Changes that the application was not told of yet; of more, the oldest are left out. */
#define CHANGES     16U

struct change {
    struct bulkhead_health health;
    uint64_t order;
};

static const struct bulkhead_world_plan *plan;
static _Bool is_watched;
static TaskHandle_t judge;
static struct change changes[CHANGES];
static unsigned noted, told;
static volatile uint32_t start_wanted = 1;
/* The counter at the latest sign of life. */
static volatile uint64_t beat;
/* The tick in which it was looked last. */
static TickType_t looked;

uint32_t health_start_wanted(void) { return start_wanted; }

/* With interrupts masked. */
static void note(struct bulkhead_health now, uint64_t order)
{
    changes[noted++ % CHANGES] = (struct change){ now, order };
    trace_note(TRACE_STATE, (uint64_t)now.reason << 32 | now.state);
}

/* Does what is ordered, with interrupts masked. Returns the servers that are to be woken. */
static uint64_t obey(uint64_t order)
{
    if (order == BULKHEAD_HEALTH_NOTHING)
        return 0;
    struct bulkhead_health now = bulkhead_health_state();
    const struct bulkhead_health *last = &changes[(noted - 1) % CHANGES].health;

    if (order == BULKHEAD_HEALTH_RESTART)
        start_wanted++;
    if (noted == 0 || order == BULKHEAD_HEALTH_HALT || now.state != last->state || now.reason != last->reason)
        note(now, order);
    return world_set_running(order == BULKHEAD_HEALTH_RUN);
}

/* Wakes who has to do with it, with interrupts open. */
static void tell_tasks(uint64_t order, uint64_t woken)
{
    if (order == BULKHEAD_HEALTH_NOTHING)
        return;
    /* The task of health first: to a server, those that follow are more urgent too. */
    xTaskNotifyGive(judge);
    world_wake(woken);
    if (order == BULKHEAD_HEALTH_RESTART)
        world_load();
}

void health_happened(enum bulkhead_health_event what, enum world_reason reason)
{
    uint64_t order, woken;

    taskENTER_CRITICAL();
    order = bulkhead_health_happened(what, reason, board_counter());
    woken = obey(order);
    taskEXIT_CRITICAL();
    tell_tasks(order, woken);
}

void world_suspend(void) { health_happened(BULKHEAD_HEALTH_SUSPEND, WORLD_NO_REASON); }
void world_resume(void) { health_happened(BULKHEAD_HEALTH_RESUME, WORLD_NO_REASON); }
void world_restart(void) { health_happened(BULKHEAD_HEALTH_START_AGAIN, WORLD_NO_REASON); }
void world_report_fault(enum world_reason reason) { health_happened(BULKHEAD_HEALTH_FAULT, reason); }

struct bulkhead_health world_health(void)
{
    struct bulkhead_health now;

    taskENTER_CRITICAL();
    now = bulkhead_health_state();
    taskEXIT_CRITICAL();
    return now;
}

_Bool health_start_ends(uint32_t start, enum bulkhead_health_event how)
{
    uint64_t order = BULKHEAD_HEALTH_NOTHING, woken = 0;
    _Bool is_wanted;

    taskENTER_CRITICAL();
    is_wanted = start == start_wanted;
    if (is_wanted) {
        order = bulkhead_health_happened(how, WORLD_NO_REASON, board_counter());
        woken = obey(order);
    }
    taskEXIT_CRITICAL();
    tell_tasks(order, woken);
    return is_wanted;
}

/* No critical section: a storm of them must not hold up the payload's interrupts. */
void health_beats(void) { beat = board_counter(); }

void health_look(void)
{
    TickType_t tick = xTaskGetTickCount();
    struct bulkhead_health_sample sample;
    uint64_t order, woken;

    if (!is_watched || tick == looked)
        return;
    looked = tick;
    bulkhead_health_look(plan, &sample);
    /* Signs of life are no progress: a world that loops may well send them. */
    sample.calls = world_counts()->calls - world_counts()->heartbeats;
    taskENTER_CRITICAL();
    order = bulkhead_health_sampled(&sample, board_counter());
    woken = obey(order);
    taskEXIT_CRITICAL();
    tell_tasks(order, woken);
}

__attribute__((weak)) void world_health_event(enum world_state state, enum world_reason reason)
{
    (void)state;
    (void)reason;
}

/* What follows where the description says nothing. */
static void leave_to_application(const struct bulkhead_health *health)
{
    if (health->state == WORLD_OFF)
        world_is_off();
    else if (health->state == WORLD_STOPPED && health->reason == WORLD_DAMAGED)
        world_is_damaged();
    else if (health->state == WORLD_STOPPED && health->reason == WORLD_REQUESTED && world_wants_reset())
        world_restart();
}

static void tell_application(void)
{
    while (told != noted) {
        struct change change;

        taskENTER_CRITICAL();
        if (noted - told > CHANGES)
            told = noted - CHANGES;
        change = changes[told++ % CHANGES];
        taskEXIT_CRITICAL();
        if (!is_watched) {
            leave_to_application(&change.health);
            continue;
        }
        world_health_event(change.health.state, change.health.reason);
        if (change.order == BULKHEAD_HEALTH_HALT)
            board_power_off();
    }
}

/* Silence and the end of a back-off are noticed here, at the tick after their date. */
static void watch(void *counter_per_tick)
{
    for (;;) {
        uint64_t now, next, order, woken;

        tell_application();
        taskENTER_CRITICAL();
        now = board_counter();
        (void)bulkhead_health_happened(BULKHEAD_HEALTH_BEAT, WORLD_NO_REASON, beat);
        order = bulkhead_health_elapsed(now);
        woken = obey(order);
        next = bulkhead_health_next();
        taskEXIT_CRITICAL();
        tell_tasks(order, woken);
        if (next == BULKHEAD_TIME_NOTHING)
            (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
        else if (next > now)
            (void)ulTaskNotifyTake(pdTRUE, (next - now + (uintptr_t)counter_per_tick - 1) / (uintptr_t)counter_per_tick);
    }
}

void health_start(const struct bulkhead_world_plan *world_plan, UBaseType_t priority)
{
    uint64_t frequency_hz;

    plan = world_plan;
    __asm__ volatile("mrs %0, CNTFRQ_EL0" : "=r"(frequency_hz));
    is_watched = bulkhead_health_start(plan);
    configASSERT(priority < configMAX_PRIORITIES);
    configASSERT(xTaskCreate(watch, "health", STACK_WORDS, (void *)(uintptr_t)(frequency_hz / configTICK_RATE_HZ), priority, &judge) == pdPASS);
}
