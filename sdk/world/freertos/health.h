/*
 * Health of the non-secure world: what is a fault of it, and what follows (SG-60, SG-61).
 *
 * With a section `[secure.health]` in the description a task here watches the world, and its faults go to the policy of the plan; the
 * application is told (`world_health_event`). Without one the application decides, by the three functions at the end of `world.h`.
 */
#ifndef HEALTH_H
#define HEALTH_H

#include "board.h"
#include "FreeRTOS.h"
#include "task.h"

/* How the world is, and why; numbers as those of partitions. */
enum world_state { WORLD_RUNNING = 1, WORLD_SUSPENDED, WORLD_OFF, WORLD_RESTARTING, WORLD_STOPPED };
enum world_reason {
    WORLD_NO_REASON,
    WORLD_DATA_ABORT,
    WORLD_INSTRUCTION_ABORT,
    WORLD_SILENT = 5, /* no sign of life, or no progress */
    WORLD_REQUESTED,  /* it asked for a reset */
    WORLD_MANAGED,    /* a task of the payload wanted it */
    WORLD_DAMAGED = 9 /* it is not what was built */
};

/* For tasks. What makes no sense in the world's state changes nothing. */
void world_suspend(void);
void world_resume(void);
/* From the pristine copy; in every state, and it does not count as one of the policy's restarts. */
void world_restart(void);
/* Somebody has seen a fault of the world: it goes to the policy. */
void world_report_fault(enum world_reason reason);
/* How the world is now. */
struct bulkhead_health world_health(void);

/* Of the application, called by the task of health, in the order of the changes: the world has another state, or another reason for it. When
   the policy is to halt, the machine is switched off afterwards. An application that does not care has none. */
void world_health_event(enum world_state state, enum world_reason reason);

/* Of the world. */

/* Creates the task of health. The first start is under way. */
void health_start(const struct bulkhead_world_plan *plan, UBaseType_t priority);

/* The world shows a sign of life. */
void health_beats(void);

/* An interrupt of the payload took the core from the world, or a sign of life did: where is it? At most once in each tick of the kernel. */
void health_look(void);

/* Something happened to the world. */
void health_happened(enum bulkhead_health_event what, enum world_reason reason);

/* A number for each start that was ordered; who loads begins again when it changes. */
uint32_t health_start_wanted(void);

/* The start of this number came to its end. Returns whether it still was the one that is wanted. */
_Bool health_start_ends(uint32_t start, enum bulkhead_health_event how);

#endif
