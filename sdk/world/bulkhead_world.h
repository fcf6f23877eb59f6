/*
 * Bulkhead: what a payload of the secure world calls and finds. The library behind it is libbulkhead_world_library.a.
 */
#ifndef BULKHEAD_WORLD_H
#define BULKHEAD_WORLD_H

/* Offset of the translation table of the payload in the plan. */
#define BULKHEAD_WORLD_PLAN_TABLES 48

#ifndef __ASSEMBLER__
#include <stdint.h>

/* The world plan, which the host made and EL3 checked: x0 of the payload's first instruction. */
struct bulkhead_world_plan;

/* Gives each interrupt to its world. Once, before anything else, with interrupts masked. */
void bulkhead_world_start(const struct bulkhead_world_plan *plan);

/* There is a world besides the payload. */
_Bool bulkhead_world_has_other(const struct bulkhead_world_plan *plan);

/* Where the work of a start has come to; zeros to begin with. */
struct bulkhead_world_loading {
    uint64_t phase;
    uint64_t segment;
    uint64_t offset;
    uint64_t crc;
};

enum bulkhead_world_step {
    BULKHEAD_WORLD_MORE,
    BULKHEAD_WORLD_DONE,
    BULKHEAD_WORLD_DAMAGED /* a segment is not what was built */
};

/* Does the next 4 KiB of a start of the non-secure world: fills its memory with zeros, copies its segments out of flash, reads them again.
   An enum bulkhead_world_step. */
uint64_t bulkhead_world_load(const struct bulkhead_world_plan *plan, struct bulkhead_world_loading *loading);

/* Makes the non-secure world begin at its first instruction when it runs next. */
void bulkhead_world_reset(const struct bulkhead_world_plan *plan);

/* Why the core came back from the non-secure world. */
#define BULKHEAD_WORLD_INTERRUPT 0
#define BULKHEAD_WORLD_CALL 1

/* Gives the core to the non-secure world; returns why it came back. An interrupt is taken as soon as it is unmasked. */
uint64_t bulkhead_world_enter(void);

/* Where an interrupt finds the core that came back for it: its return address then. */
extern const char bulkhead_world_returned[];

/* What the payload has to do about a call, besides the answer that its caller gets. */
enum bulkhead_world_asked {
    BULKHEAD_WORLD_NOTHING,
    BULKHEAD_WORLD_HEARTBEAT, /* the other world says that it is well */
    BULKHEAD_WORLD_YIELD,     /* it has nothing urgent left; two words of its own */
    BULKHEAD_WORLD_OFF,
    BULKHEAD_WORLD_RESET,
    BULKHEAD_WORLD_DOORBELL   /* the first word is the channel */
};

/* Answers the call that brought the core back; an enum bulkhead_world_asked. */
uint64_t bulkhead_world_answer(const struct bulkhead_world_plan *plan, uint64_t words[2]);
#endif

#endif
