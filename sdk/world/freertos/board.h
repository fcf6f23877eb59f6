/* The board as a payload sees it: what FreeRTOS needs of S-EL1. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

#include "bulkhead_world.h"

/* The application: called once, on the stack of start-up, with interrupts masked. It creates tasks and starts the scheduler. */
void payload_main(const struct bulkhead_world_plan *plan);

/* Interrupts: to their worlds, and the payload's own on. They stay masked until the scheduler starts the first task. */
void board_initialise(const struct bulkhead_world_plan *plan);

/* Writes a byte to the secure console, waiting while the UART is full. */
void board_write(uint8_t byte);

/* Writes text to the secure console, waiting while the UART is full. */
void board_print(const char *text);

/* Writes a number in decimal. */
void board_print_number(uint64_t number);

/* Switches the machine off, with both worlds. */
__attribute__((noreturn)) void board_power_off(void);

/* The system counter. */
static inline uint64_t board_counter(void)
{
    uint64_t now;

    __asm__ volatile("isb\n\tmrs %0, CNTPCT_EL0" : "=r"(now));
    return now;
}

/* When the timer is to ring besides the tick; BULKHEAD_TIME_NOTHING if it need not. With interrupts masked. */
void board_set_event(uint64_t counter);

/* The counter at tick 0: periods of tasks and servers begin at multiples of their length from here. */
uint64_t board_origin(void);

/* The counter as the latest interrupt's vector was entered. */
extern volatile uint64_t board_vector_counter;

/* How late the vector of the tick was entered, in ticks of the counter, and how often. */
struct board_lateness {
    uint64_t least;
    uint64_t most;
    uint64_t ticks;
};

/* How many ticks were due so far, by the counter. */
uint64_t board_ticks_due(void);

/* By what the tick interrupted: the payload, or the other world. */
enum board_interrupted { BOARD_PAYLOAD, BOARD_OTHER_WORLD, BOARD_INTERRUPTED };
const struct board_lateness *board_tick_lateness(enum board_interrupted what);

/* Called by the vector table. */
__attribute__((noreturn)) void board_unexpected_exception(uint64_t slot, uint64_t syndrome, uint64_t pc, uint64_t address);

#endif
