/* Records of who runs and when, for `bulkhead run --trace` (docs/specification/secure-world.md, part 8). */
#ifndef TRACE_H
#define TRACE_H

#include "board.h"
#include "FreeRTOS.h"

/* Kinds of records, as core/world/src/records.rs has them. */
enum trace_kind {
    TRACE_RUNS = 1,
    TRACE_NAMED,
    TRACE_NAMED_ON,
    TRACE_LOST,
    TRACE_STATE,
    TRACE_USED_UP,
    TRACE_FILLED
};

/* The plan asks for records. */
extern _Bool trace_is_on;

/* Creates the task that writes records out, of this priority, if the plan asks for any, and returns that. Before the scheduler is started. */
_Bool trace_start(const struct bulkhead_world_plan *plan, UBaseType_t priority);

/* Keeps a record, with interrupts masked. One that finds no room is counted. */
__attribute__((cold, noinline)) void trace_keep(enum trace_kind kind, uint64_t argument);

/* The task that the kernel has just chosen runs. */
__attribute__((cold, noinline)) void trace_runs(void);

static inline void trace_note(enum trace_kind kind, uint64_t argument)
{
    if (__builtin_expect(trace_is_on, 0))
        trace_keep(kind, argument);
}

/* Writes out what is kept, at the end of everything: nothing else runs any more. */
void trace_finish(void);

#endif
