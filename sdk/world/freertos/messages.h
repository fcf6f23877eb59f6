/* Messages between the worlds, for tasks of FreeRTOS: who waits for which channels. What is sent and received is in bulkhead_messages.h. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "bulkhead_messages.h"
#include "FreeRTOS.h"
#include "task.h"

/* The calling task waits for these channels from now on, a bit for each: its group. Its notification belongs to them. */
void messages_subscribe(const struct bulkhead_world_plan *plan, uint32_t group);

/* Waits until a channel of the group has messages, or so many ticks. Returns the channels that may have some: those that were rung, and those that
   the plan looks for, once in the shortest of their times; a wait that is shorter looks for none. */
uint32_t messages_wait(uint32_t group, TickType_t ticks);

/* Of the world: the other world rings a channel; it is going to be started. */
void messages_rung(uint32_t channel);
void messages_restart(const struct bulkhead_world_plan *plan);

#endif
