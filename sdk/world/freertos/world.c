/*
 * The non-secure world as tasks of the kernel (SG-8, SG-41).
 *
 * A server task gives the core to the other world again and again; when the kernel preempts it, the other world stops with it. Who gave the
 * core away goes on waiting when an interrupt of the payload brought it back (SG-26): the interrupt is taken inside the loop. All servers run
 * the same context: who is chosen continues it.
 */
#include "world.h"
#include "FreeRTOS.h"
#include "health.h"
#include "messages.h"
#include "overrun.h"
#include "task.h"
#include "trace.h"

#define STACK_WORDS 512U

static const struct bulkhead_world_plan *plan;
static struct world_counts counts;
static TaskHandle_t servers[BULKHEAD_WORLD_SERVERS];
static TaskHandle_t loader;
/* Beside each other: what the hook of a switch looks at, which is part of each path between the worlds. */
static struct {
    const void *running_place; /* the place in the library's accounts of the task that runs, or 0 */
    _Bool keeps_records;
} hook;

const struct world_counts *world_counts(void) { return &counts; }

TaskHandle_t world_task(unsigned place)
{
    return place < BULKHEAD_WORLD_SERVERS && servers[place] != loader ? servers[place] : NULL;
}

/* Of the kernel, in a critical section: a task is deleted. If it was a server, who loads is woken in its place, and ignores it: a test for no server
   would be part of the way of each urgent interrupt. The world runs in the others. */
void world_task_deleted(const void *task)
{
    for (unsigned place = 0; place < BULKHEAD_WORLD_SERVERS; place++)
        if (servers[place] == task)
            servers[place] = loader;
}

/* Wakes the tasks of the servers that may run now. */
static void wake_from_isr(uint64_t woken)
{
    BaseType_t is_better = pdFALSE;

    for (; woken != 0; woken &= woken - 1)
        vTaskNotifyGiveFromISR(servers[__builtin_ctzll(woken)], &is_better);
    portYIELD_FROM_ISR(is_better);
}

static void happened_from_isr(enum bulkhead_world_what what, unsigned server)
{
    wake_from_isr(bulkhead_world_happened((struct bulkhead_world_happened){ what, server, 0 }));
}

/* The same in a task, with interrupts open. */
void world_wake(uint64_t woken)
{
    for (; woken != 0; woken &= woken - 1) {
        /* Between the look and the notification nobody deletes it. */
        taskENTER_CRITICAL();
        xTaskNotifyGive(servers[__builtin_ctzll(woken)]);
        taskEXIT_CRITICAL();
    }
}

static void happened(enum bulkhead_world_what what, unsigned server, uint64_t wanted)
{
    uint64_t woken;

    taskENTER_CRITICAL();
    woken = bulkhead_world_happened((struct bulkhead_world_happened){ what, server, wanted });
    taskEXIT_CRITICAL();
    world_wake(woken);
}

void world_use_servers(_Bool on) { happened(on ? BULKHEAD_WORLD_SERVERS_ON : BULKHEAD_WORLD_SERVERS_OFF, 0, 0); }

uint64_t world_set_running(_Bool runs)
{
    enum bulkhead_world_what what = runs ? BULKHEAD_WORLD_MAY_RUN : BULKHEAD_WORLD_MUST_NOT_RUN;

    return bulkhead_world_happened((struct bulkhead_world_happened){ what, 0, 0 });
}

void world_load(void) { xTaskNotifyGive(loader); }

/* Servers whose interrupts' handlers were cut off by a switch, and whether the world has another wish. */
static uint64_t cut_off;

static _Bool is_server(const void *place) { return (uintptr_t)place - 1 < BULKHEAD_WORLD_SERVERS; }

/* The kernel's hook of a switch, with interrupts masked; its lists must not be touched here, so what starts a server is done in the
   handler of an interrupt that waits until they are no more masked. */
void world_switched_in(const void *place)
{
    if (__builtin_expect(hook.keeps_records, 0))
        trace_runs();
    if (place == hook.running_place)
        return;
    if (is_server(place) && !is_server(hook.running_place))
        configASSERT(bulkhead_world_hand_back());
    else if (is_server(hook.running_place) && !is_server(place)) {
        cut_off |= bulkhead_world_arm();
        if (cut_off != 0)
            __asm__ volatile("dsb ishst\n\tmsr S3_0_C12_C11_5, %0\n\tisb" : : "r"((UINT64_C(BULKHEAD_WORLD_EVENT) << 24) | 1)); /* ICC_SGI1R_EL1 */
    }
    hook.running_place = place;
    board_set_event(bulkhead_time_switch((uint64_t)(uintptr_t)place - 1, board_counter()));
}

/* Apart: what it needs would be saved on the way of each urgent interrupt. */
static __attribute__((noinline)) void event(void)
{
    uint64_t servers_of = cut_off;

    counts.events++;
    cut_off = 0;
    if (servers_of & BULKHEAD_WORLD_WISH_CHANGED)
        happened_from_isr(BULKHEAD_WORLD_WISHES, 0);
    servers_of &= ~BULKHEAD_WORLD_WISH_CHANGED;
    for (; servers_of != 0; servers_of &= servers_of - 1)
        happened_from_isr(BULKHEAD_WORLD_FIRED, (unsigned)__builtin_ctzll(servers_of));
}

_Bool world_interrupt(uint32_t intid)
{
    if (intid == BULKHEAD_WORLD_EVENT) {
        event();
        return 1;
    }
    uint64_t woken = bulkhead_world_interrupt(intid);

    if (woken == BULKHEAD_WORLD_NOT_URGENT)
        return 0;
    counts.urgent++;
    wake_from_isr(woken);
    return 1;
}

/* Overrun handler of a server. It stops at its own next turn, which is now: the interrupt has brought the core back to its loop. */
static void is_used_up(TaskHandle_t task, void *place)
{
    (void)task;
    counts.used_up++;
    trace_note(TRACE_USED_UP, (uintptr_t)place);
    happened_from_isr(BULKHEAD_WORLD_USED_UP, (unsigned)(uintptr_t)place);
}

void world_is_filled(unsigned place)
{
    trace_note(TRACE_FILLED, place);
    happened_from_isr(BULKHEAD_WORLD_FILLED, place);
}

void world_timer(uint64_t now) { wake_from_isr(bulkhead_windows_event(now)); }

struct bulkhead_window world_window(unsigned place)
{
    taskENTER_CRITICAL();
    struct bulkhead_window record = bulkhead_windows_record(place);
    taskEXIT_CRITICAL();
    return record;
}

static void answer(unsigned place)
{
    uint64_t words[2];

    counts.calls++;
    switch (bulkhead_world_answer(plan, words)) {
    case BULKHEAD_WORLD_HEARTBEAT:
        counts.heartbeats++;
        health_beats();
        /* Of a storm of them few interrupts find the world itself. */
        health_look();
        break;
    case BULKHEAD_WORLD_YIELD:
        happened(BULKHEAD_WORLD_YIELDED, place, words[0]);
        break;
    case BULKHEAD_WORLD_OFF:
        health_happened(BULKHEAD_HEALTH_OFF, WORLD_NO_REASON);
        break;
    case BULKHEAD_WORLD_RESET:
        health_happened(BULKHEAD_HEALTH_RESET, WORLD_NO_REASON);
        break;
    case BULKHEAD_WORLD_DOORBELL:
        messages_rung((uint32_t)words[0]);
        break;
    default:
        break;
    }
}

static void serve(void *number)
{
    unsigned place = (unsigned)(uintptr_t)number;

    for (;;) {
        switch (bulkhead_world_enter(&BULKHEAD_WORLD_READY, 1U << place)) {
        case BULKHEAD_WORLD_INTERRUPT:
            counts.interrupted++;
            health_look();
            break;
        case BULKHEAD_WORLD_CALL:
            answer(place);
            break;
        default:
            (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
            break;
        }
    }
}

/* The first start, and every other: a job of an ordinary task, so that it is preempted as any other. One that is ordered meanwhile begins
   from the first step. Nothing of the library masks interrupts here; what is between sections of the kernel is some loads and stores. */
static void load(void *unused)
{
    (void)unused;
    for (uint32_t done = 0;;) {
        uint32_t start = health_start_wanted();
        struct bulkhead_world_loading loading = { 0, 0, 0, 0 };
        uint64_t step;

        if (start == done) {
            (void)ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
            continue;
        }
        done = start;
        /* No server runs, so what the payload had is given back. */
        taskENTER_CRITICAL();
        (void)bulkhead_world_hand_back();
        taskEXIT_CRITICAL();
        for (uint32_t word = 0; bulkhead_world_rest(plan, word); word++) {
        }
        do
            step = bulkhead_world_load(plan, &loading);
        while (step == BULKHEAD_WORLD_MORE && start == health_start_wanted());
        if (step == BULKHEAD_WORLD_DONE) {
            messages_restart(plan);
            taskENTER_CRITICAL();
            bulkhead_world_forget_call();
            taskEXIT_CRITICAL();
            bulkhead_world_reset(plan);
            if (health_start_ends(start, BULKHEAD_HEALTH_STARTED))
                counts.starts++;
        } else if (step == BULKHEAD_WORLD_DAMAGED)
            (void)health_start_ends(start, BULKHEAD_HEALTH_DAMAGED);
    }
}

static const char *const names[] = { "none", "itask", "rtask", "btask", "ltask", "window" };

void world_start(const struct bulkhead_world_plan *world_plan, UBaseType_t loader_priority)
{
    uint64_t frequency_hz, used;
    UBaseType_t least = tskIDLE_PRIORITY + 1;

    plan = world_plan;
    __asm__ volatile("mrs %0, CNTFRQ_EL0" : "=r"(frequency_hz));
    used = bulkhead_world_servers(plan);
    bulkhead_world_urgent(plan);
    for (unsigned place = 0; place < used; place++) {
        struct bulkhead_world_server server = bulkhead_world_server(plan, place);

        configASSERT(server.kind < sizeof names / sizeof *names && server.priority < configMAX_PRIORITIES);
        /* It never waits: who is less urgent than it never runs. */
        if (server.kind == BULKHEAD_WORLD_BACKGROUND_TASK)
            least = server.priority;
        configASSERT(xTaskCreate(serve, names[server.kind], STACK_WORDS, (void *)(uintptr_t)place, server.priority, &servers[place]) == pdPASS);
        configASSERT(ovr_open_server(servers[place], place, is_used_up, server.budget, server.period * (frequency_hz / configTICK_RATE_HZ)));
    }
    configASSERT(bulkhead_windows_start(plan, board_origin()) != UINT64_MAX);
    health_start(plan, loader_priority + 1);
    configASSERT(xTaskCreate(load, "loader", STACK_WORDS, NULL, loader_priority, &loader) == pdPASS);
    /* A start of the world takes seconds; records that waited for its end would find no room. */
    hook.keeps_records = trace_start(plan, least > loader_priority ? least : loader_priority);
}
