/* The board as the guest sees it: QEMU `virt` with GICv3, bare or as a partition. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* Interrupt controller. Interrupts stay masked until the scheduler starts the first task. */
void board_initialise(void);

/* Writes text to the console, waiting while the UART is full. */
void board_print(const char *text);

/* Writes a number in decimal. */
void board_print_number(uint64_t number);

/* Switches the machine, or the partition, off. */
__attribute__((noreturn)) void board_power_off(void);

/* Called by the vector table. */
__attribute__((noreturn)) void board_unexpected_exception(uint64_t slot, uint64_t syndrome, uint64_t pc, uint64_t address);

/* Value of the number `name=` in the boot arguments of the device tree, or `otherwise`. */
uint64_t arguments_number(const void *device_tree, const char *name, uint64_t otherwise);

#endif
