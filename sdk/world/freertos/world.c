/*
 * The non-secure world as tasks of the kernel (SG-8, SG-41).
 *
 * A server task gives the core to the other world again and again; when the kernel preempts it, the other world stops with it. Who gave the
 * core away goes on waiting when an interrupt of the payload brought it back (SG-26): the interrupt is taken inside the loop.
 */
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS 512U

static const struct bulkhead_world_plan *plan;
static struct world_counts counts;

const struct world_counts *world_counts(void) { return &counts; }

/* The first start, or a restart: a job of an ordinary task, so that it is preempted as any other. */
static void load(void)
{
    struct bulkhead_world_loading loading = { 0, 0, 0, 0 };

    for (;;) {
        switch (bulkhead_world_load(plan, &loading)) {
        case BULKHEAD_WORLD_MORE:
            break;
        case BULKHEAD_WORLD_DONE:
            bulkhead_world_reset(plan);
            return;
        default:
            board_print("rtos: FAILED: CRC of a segment of the other world\n");
            board_power_off();
        }
    }
}

static void serve(void *unused)
{
    uint64_t words[2];

    (void)unused;
    load();
    for (;;) {
        if (bulkhead_world_enter() == BULKHEAD_WORLD_INTERRUPT) {
            counts.interrupted++;
            continue;
        }
        counts.calls++;
        switch (bulkhead_world_answer(plan, words)) {
        case BULKHEAD_WORLD_HEARTBEAT:
            counts.heartbeats++;
            break;
        case BULKHEAD_WORLD_OFF:
            world_is_off();
            vTaskSuspend(NULL);
            break;
        case BULKHEAD_WORLD_RESET:
            world_wants_reset();
            load();
            break;
        default:
            break;
        }
    }
}

void world_start(const struct bulkhead_world_plan *world_plan, UBaseType_t priority)
{
    plan = world_plan;
    configASSERT(xTaskCreate(serve, "btask", STACK_WORDS, NULL, priority, NULL) == pdPASS);
}
