/*
 * Console, tick and power of the payload.
 *
 * The tick is CNTPS, which EL3 keeps from the other world. It compares against absolute times: when the payload was held up, the missed
 * ticks follow one after the other and none is lost, so the tick count stays true to the system counter.
 */
#include "board.h"
#include "FreeRTOS.h"
#include "overrun.h"
#include "task.h"
#include "trace.h"
#include "world.h"

#define UART_BASE           0x09040000UL
#define UART_DATA           0x00
#define UART_FLAGS          0x18
#define UART_FLAG_TX_FULL   (1U << 5)

/* Secure PL061: line 0 switches the machine off. A write to the data register reaches the lines that its address names (bits 9:2). */
#define GPIO_BASE           0x090b0000UL
#define GPIO_DIRECTION      0x400
#define GPIO_LINE_0         0x004

#define GICR_SGI_FRAME      0x080b0000UL
#define GICR_ISENABLER0     0x100
#define GICR_IPRIORITYR     0x400

#define TICK_INTERRUPT      29U
#define SPECIAL_INTERRUPTS  1020U

volatile uint64_t board_vector_counter;

static uint64_t ticks_per_period;
static uint64_t next_tick;
static uint64_t origin;
static struct board_lateness lateness[BOARD_INTERRUPTED];

static uint32_t read32(uintptr_t address) { return *(volatile uint32_t *)address; }
static void write32(uintptr_t address, uint32_t value) { *(volatile uint32_t *)address = value; }
static void write8(uintptr_t address, uint8_t value) { *(volatile uint8_t *)address = value; }

void board_write(uint8_t byte)
{
    while (read32(UART_BASE + UART_FLAGS) & UART_FLAG_TX_FULL) {
    }
    write32(UART_BASE + UART_DATA, byte);
}

static void print_character(char character) { board_write((uint8_t)character); }

void board_print(const char *text)
{
    for (; *text != '\0'; text++)
        print_character(*text);
}

static void print_in_base(uint64_t number, unsigned base)
{
    char digits[24];
    unsigned length = 0;

    do {
        digits[length++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number != 0);
    while (length != 0)
        print_character(digits[--length]);
}

void board_print_number(uint64_t number) { print_in_base(number, 10); }

void board_power_off(void)
{
    __asm__ volatile("msr DAIFSet, #15" : : : "memory");
    trace_finish();
    write32(GPIO_BASE + GPIO_DIRECTION, 0xff);
    write32(GPIO_BASE + GPIO_LINE_0, 0);
    write32(GPIO_BASE + GPIO_LINE_0, 1);
    for (;;)
        __asm__ volatile("wfi");
}

void board_unexpected_exception(uint64_t slot, uint64_t syndrome, uint64_t pc, uint64_t address)
{
    board_print("rtos: FAILED: exception in vector ");
    print_in_base(slot, 10);
    board_print(", ESR 0x");
    print_in_base(syndrome, 16);
    board_print(", ELR 0x");
    print_in_base(pc, 16);
    board_print(", FAR 0x");
    print_in_base(address, 16);
    board_print("\n");
    board_power_off();
}

void board_assertion_failed(const char *file, int line)
{
    board_print("rtos: FAILED: assertion in ");
    board_print(file);
    board_print(" line ");
    board_print_number((uint64_t)line);
    board_print("\n");
    board_power_off();
}

void board_initialise(const struct bulkhead_world_plan *plan)
{
    uint64_t frequency_hz;

    bulkhead_world_start(plan);
    __asm__ volatile("mrs %0, CNTFRQ_EL0" : "=r"(frequency_hz));
    ticks_per_period = frequency_hz / configTICK_RATE_HZ;
    origin = board_counter();
    next_tick = origin + ticks_per_period;
    write8(GICR_SGI_FRAME + GICR_IPRIORITYR + TICK_INTERRUPT, portLOWEST_USABLE_INTERRUPT_PRIORITY << portPRIORITY_SHIFT);
    write32(GICR_SGI_FRAME + GICR_ISENABLER0, 1U << TICK_INTERRUPT | 1U << BULKHEAD_WORLD_EVENT);

    __asm__ volatile("msr S3_0_C4_C6_0, %0" : : "r"(0xffUL));          /* ICC_PMR_EL1: nothing masked */
    __asm__ volatile("msr S3_0_C12_C12_3, %0" : : "r"(0UL));           /* ICC_BPR1_EL1: all bits preempt */
    __asm__ volatile("msr S3_0_C12_C12_7, %0\n\tisb" : : "r"(1UL));    /* ICC_IGRPEN1_EL1 */
}

const struct board_lateness *board_tick_lateness(enum board_interrupted what) { return &lateness[what]; }

uint64_t board_ticks_due(void) { return (board_counter() - origin) / ticks_per_period; }

/* To be called before the tick's handler sets the next date. The return address still is the interrupt's: nothing that is more urgent
   can interrupt this. */
static void account(void)
{
    uint64_t late = board_vector_counter - next_tick, from;

    __asm__ volatile("mrs %0, ELR_EL1" : "=r"(from));
    struct board_lateness *kind = &lateness[from == (uint64_t)bulkhead_world_returned ? BOARD_OTHER_WORLD : BOARD_PAYLOAD];
    kind->ticks++;
    /* The end of a budget rang just before the tick, which it then found due as well: the tick had no vector of its own. */
    if (board_vector_counter < next_tick)
        return;
    if (kind->least == 0 || late < kind->least)
        kind->least = late;
    if (late > kind->most)
        kind->most = late;
}

/* One compare register serves the tick and the end of a budget. */
static uint64_t event = BULKHEAD_TIME_NOTHING;

static void set_timer(void)
{
    uint64_t compare = event < next_tick ? event : next_tick;

    __asm__ volatile("msr S3_7_C14_C2_2, %0\n\tisb" : : "r"(compare)); /* CNTPS_CVAL_EL1 */
}

void board_set_event(uint64_t counter)
{
    event = counter;
    set_timer();
}

uint64_t board_origin(void) { return origin; }

void board_start_tick(void)
{
    set_timer();
    __asm__ volatile("msr S3_7_C14_C2_1, %0\n\tisb" : : "r"(1UL));     /* CNTPS_CTL_EL1 */
}

void board_next_tick(void)
{
    next_tick += ticks_per_period;
    set_timer();
}

/* Called by the port with what it read from ICC_IAR1_EL1; it writes the end of the interrupt itself. */
void vApplicationIRQHandler(uint32_t acknowledged)
{
    uint32_t interrupt = acknowledged & 0xffffffU;

    if (interrupt == TICK_INTERRUPT) {
        uint64_t now = board_counter();

        /* The kernel's handler first: it wants interrupts masked, which no function of the kernel leaves them. They cannot nest: all of
           the payload have the running priority or a less urgent one. */
        if (now >= next_tick) {
            account();
            FreeRTOS_Tick_Handler();
        }
        if (now >= event) {
            ovr_timer(now);
            world_timer(now);
            board_set_event(bulkhead_time_next(now));
        }
    } else
        configASSERT(world_interrupt(interrupt) || interrupt >= SPECIAL_INTERRUPTS);
}

void vApplicationIdleHook(void)
{
    __asm__ volatile("wfi");
}
