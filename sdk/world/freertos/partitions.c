/*
 * Events of partitions (SG-4, SG-61). The payload looks, because nothing below EL3 may interrupt it as often as it likes (record 0035).
 */
#include "partitions.h"
#include "health.h"
#include "task.h"

#define STACK_WORDS 512U

static const struct bulkhead_world_plan *plan;

__attribute__((weak)) void partition_event(uint32_t partition, const struct bulkhead_partition *now)
{
    (void)partition;
    (void)now;
}

static void watch(void *period)
{
    static struct bulkhead_partition last[BULKHEAD_WORLD_PARTITIONS];
    TickType_t due = xTaskGetTickCount();

    for (;;) {
        /* While the world is loaded nobody has written these pages yet. */
        _Bool is_loaded = world_health().state != WORLD_RESTARTING;

        for (uint32_t partition = 0; is_loaded && partition < BULKHEAD_WORLD_PARTITIONS; partition++) {
            struct bulkhead_partition now, *before = &last[partition];

            if (!bulkhead_partition_look(plan, partition, &now))
                break;
            if (now.state != before->state || now.starts != before->starts || now.faults != before->faults)
                partition_event(partition, &now);
            *before = now;
        }
        vTaskDelayUntil(&due, (TickType_t)(uintptr_t)period);
    }
}

void partitions_watch(const struct bulkhead_world_plan *world_plan, UBaseType_t priority, TickType_t period)
{
    plan = world_plan;
    configASSERT(xTaskCreate(watch, "partitions", STACK_WORDS, (void *)(uintptr_t)period, priority, NULL) == pdPASS);
}
