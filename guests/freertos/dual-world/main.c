/*
 * The payload of `systems/dual-world`: two periodic tasks of a controller in the secure world.
 */
#include "board.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define LINES           5U

static void print_pair(const char *name, uint64_t number)
{
    board_print(name);
    board_print_number(number);
}

/* Late ticks of the kernel, from its start on. */
static uint64_t least = UINT64_MAX, most;

static void fast(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, 1);
        uint64_t lateness = board_tick_lateness();
        if (lateness < least)
            least = lateness;
        if (lateness > most)
            most = lateness;
    }
}

static void slow(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (unsigned line = 0; line < LINES; line++) {
        vTaskDelayUntil(&due, 100);
        print_pair("rtos: tick ", due);
        print_pair(" lateness ", least);
        print_pair(" to ", most);
        board_print("\n");
    }
    board_print("rtos: end\n");
    board_power_off();
}

void payload_main(const struct bulkhead_world_plan *plan)
{
    board_print("rtos: FreeRTOS " tskKERNEL_VERSION_NUMBER " in the secure world\n");
    board_initialise(plan);
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, 10, NULL) == pdPASS);
    configASSERT(xTaskCreate(slow, "slow", STACK_WORDS, NULL, 5, NULL) == pdPASS);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
