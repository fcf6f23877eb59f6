/*
 * What happens to partitions below the payload, as the monitor at EL2 says.
 */
#ifndef BULKHEAD_PARTITIONS_H
#define BULKHEAD_PARTITIONS_H

#include "bulkhead_world.h"
#include "FreeRTOS.h"

/* Creates a task that looks at all partitions once in a period. Nothing below decides how often it runs. */
void partitions_watch(const struct bulkhead_world_plan *plan, UBaseType_t priority, TickType_t period);

/* Of the application, called by that task: since the last look the partition has another state, was started again, or had a fault. Of several
   between two looks the latest is told, and `faults` and `starts` say how many there were. */
void partition_event(uint32_t partition, const struct bulkhead_partition *now);

#endif
