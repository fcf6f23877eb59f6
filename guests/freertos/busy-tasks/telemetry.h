/* Texts to the other world over the channel `telemetry`, which come back on the channel `answers`. */
#ifndef TELEMETRY_H
#define TELEMETRY_H

#include "board.h"
#include "FreeRTOS.h"
#include "task.h"

/* Creates a task that sends `start S round N` every 20 ms while the world runs, S being the number of its start, and takes what came back; none where the system has no such channels. Before the scheduler is
   started. */
void telemetry_create(const struct bulkhead_world_plan *plan, UBaseType_t priority);

/* Prints how many were sent, how many were not because no block was free, how many came back in order, and how many other texts did; nothing
   without channels. */
void telemetry_print(void);

#endif
