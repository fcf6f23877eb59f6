/* The non-secure world as tasks of FreeRTOS. */
#ifndef WORLD_H
#define WORLD_H

#include "board.h"
#include "FreeRTOS.h"
#include "task.h"

/* Why the core came back from the non-secure world, what it asked for, and what happened to its servers. */
struct world_counts {
    uint64_t interrupted;
    uint64_t calls;
    uint64_t heartbeats;
    uint64_t used_up;
    uint64_t urgent;
    uint64_t starts;
    uint64_t events;
};

/* Creates a task for each server of the plan, one of this priority that loads the other world, and one of the next higher priority that watches
   its health. Before the scheduler is started. A server without a budget belongs below both. */
void world_start(const struct bulkhead_world_plan *plan, UBaseType_t loader_priority);

/* The task of a server, by its place in the plan: an ordinary task, for all that the kernel can do with one (SG-8). NULL: there is none, or it was deleted. */
TaskHandle_t world_task(unsigned place);

/* Switches all servers but the background one on or off (SG-86); they are on at first. In a task. */
void world_use_servers(_Bool on);

/* What was counted so far. */
const struct world_counts *world_counts(void);

/* What the window at this place of the description's table has suffered so far (SG-52). In a task. */
struct bulkhead_window world_window(unsigned place);

/* Of the board: its timer has rung for something else than the tick. */
void world_timer(uint64_t now);

/* Of the board: an interrupt of no device of the payload arrived. Returns whether it was the world's. */
_Bool world_interrupt(uint32_t intid);

/* Of health: servers may run the other world from now on, or none may. Returns those that are to be woken, with interrupts masked. */
uint64_t world_set_running(_Bool runs);

/* Of health: wakes servers, and the task that loads the other world. With interrupts open. */
void world_wake(uint64_t woken);
void world_load(void);

/* The following are of the application, and called by the task of health when the description has no section `[secure.health]`. */

/* The other world has switched itself off. It runs no more. */
void world_is_off(void);

/* The other world asks for a reset. Returns whether it gets it; else it runs no more. */
_Bool world_wants_reset(void);

/* The other world was not started, because it is not what was built. */
void world_is_damaged(void);

#endif
