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
#endif

#endif
