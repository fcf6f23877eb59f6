/*
 * Overrun handlers of FreeRTOS tasks (SG-43): an amount of time that counts only while its task runs. When it is used up the handler is called
 * and nothing else happens. Times are ticks of the system counter.
 */
#ifndef OVERRUN_H
#define OVERRUN_H

#include <stdint.h>

#include "FreeRTOS.h"
#include "task.h"

/* What `ovr_stop` and `ovr_remaining` return for a task that has nothing. */
#define OVR_NOTHING UINT64_MAX

/* Called in the timer's interrupt: only functions of the kernel whose names end with FromISR may be called. */
typedef void (*ovr_handler)(TaskHandle_t task, void *argument);

/* Makes `handler` what is called for `task`. Once for a task. False when too many tasks have one: there are places for 11. */
_Bool ovr_define(TaskHandle_t task, ovr_handler handler, void *argument);

/* Gives a task an amount, in place of what it had; after the handler was called it has none. False for 0, or a task without a handler. */
_Bool ovr_start(TaskHandle_t task, uint64_t ticks);

/* Takes what a task has; returns what was left. */
uint64_t ovr_stop(TaskHandle_t task);

/* What is left of what a task has. */
uint64_t ovr_remaining(TaskHandle_t task);

/* The same, in interrupt handlers. */
_Bool ovr_start_from_isr(TaskHandle_t task, uint64_t ticks);
uint64_t ovr_stop_from_isr(TaskHandle_t task);
uint64_t ovr_remaining_from_isr(TaskHandle_t task);

/* Of the library: this task is the server of this number, with an account that is filled in each period, or without one (budget 0). */
_Bool ovr_open_server(TaskHandle_t task, unsigned number, ovr_handler handler, uint64_t budget, uint64_t period);

/* Of the world: the account of this server has something again. In the timer's interrupt. */
void world_is_filled(unsigned number);

/* Of the board: calls handlers for what has happened until now. In the timer's interrupt. */
void ovr_timer(uint64_t now);

#endif
