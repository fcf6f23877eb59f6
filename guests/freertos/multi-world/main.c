/*
 * A payload beside a world of several cores: the tasks of a controller that miss no tick, and an eye on cores whose world ended. The
 * arguments are the address at which such a world begins again.
 */
#include "board.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define FAST_PRIORITY   12
#define SLOW_PRIORITY   10
#define LOADER_PRIORITY 2
#define SLOW_TICKS      10U
#define CORES           4U
/* GICR_ISPENDR0 and GICR_ISACTIVER0 of the boot core, and the distance to the next one's: what the other world cannot see of them. */
#define PENDING         0x080b0200UL
#define ACTIVE          0x080b0300UL
#define NEXT_CORE       0x20000UL

static const struct bulkhead_world_plan *plan;
static uint64_t fast_rounds, again;

static void print_pair(const char *what, uint64_t number)
{
    board_print(what);
    board_print_number(number);
}

static void report(void)
{
    print_pair("rtos: rounds ", fast_rounds);
    print_pair(" of ", xTaskGetTickCount());
    print_pair(" events ", world_counts()->events);
    board_print("\nrtos: pending and active SGIs");
    for (unsigned core = 0; core < CORES; core++) {
        print_pair(" ", *(volatile uint32_t *)(PENDING + core * NEXT_CORE) & 0xffff);
        print_pair(" ", *(volatile uint32_t *)(ACTIVE + core * NEXT_CORE) & 0xffff);
    }
    board_print("\nrtos: end\n");
}

static void fast(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, 1);
        fast_rounds++;
    }
}

/* The fast task has run as often as it was due, or this says so. More often when ticks came together: cores take turns in the emulator. */
static void slow(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, SLOW_TICKS);
        configASSERT(fast_rounds >= due);
        for (uint32_t core = 1; core < CORES; core++) {
            uint64_t ended = bulkhead_world_ended(plan, core);

            if (ended == 0)
                continue;
            print_pair("rtos: core ", core);
            board_print(ended == 0x84000008 ? " is off\n" : " wants to be reset\n");
            configASSERT(bulkhead_world_begin(plan, core, again, core));
        }
    }
}

void world_is_off(void)
{
    report();
    board_power_off();
}

_Bool world_wants_reset(void)
{
    board_print("rtos: FAILED: the world of this core wants to be reset\n");
    return 0;
}

void world_is_damaged(void)
{
    board_print("rtos: FAILED: CRC of a segment of the other world\n");
    board_power_off();
}

void payload_main(const struct bulkhead_world_plan *given)
{
    plan = given;
    for (const char *digit = bulkhead_world_arguments(plan); *digit != '\0'; digit++)
        again = again * 16 + (uint64_t)(*digit - '0');
    board_initialise(plan);
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, FAST_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(slow, "slow", STACK_WORDS, NULL, SLOW_PRIORITY, NULL) == pdPASS);
    world_start(plan, LOADER_PRIORITY);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
