/* The non-secure world as tasks of FreeRTOS. */
#ifndef WORLD_H
#define WORLD_H

#include "board.h"
#include "FreeRTOS.h"

/* Why the core came back from the non-secure world, and what it asked for. */
struct world_counts {
    uint64_t interrupted;
    uint64_t calls;
    uint64_t heartbeats;
};

/* Creates the task of this priority that runs the non-secure world. Before the scheduler is started. */
void world_start(const struct bulkhead_world_plan *plan, UBaseType_t priority);

/* What was counted so far. */
const struct world_counts *world_counts(void);

/* Of the application: the other world has switched itself off; it runs no more when this returns. */
void world_is_off(void);

/* Of the application: the other world wants to be reset, and is when this returns. */
void world_wants_reset(void);

#endif
