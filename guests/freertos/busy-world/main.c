/*
 * A payload for experiments: periodic tasks that only compute, and beside them the servers of its plan. The arguments say which tasks.
 * They end with the other world. Behind a space `off=900/1800` switches the servers off at the one instant and on again at the other, in
 * milliseconds (SG-86).
 */
#include "../busy-tasks/busy.h"
#include "board.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define LOADER_PRIORITY 2
#define SWITCH_PRIORITY 15

/* When servers are off, in milliseconds. */
static struct { uint64_t from_ms, to_ms; } off;

static void switch_servers(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    vTaskDelayUntil(&due, off.from_ms);
    world_use_servers(0);
    vTaskDelayUntil(&due, off.to_ms - off.from_ms);
    world_use_servers(1);
    vTaskDelete(NULL);
}

static void print_pair(const char *name, uint64_t number)
{
    board_print(name);
    board_print_number(number);
}

/* What the windows of the plan have suffered (SG-52). */
static void print_windows(void)
{
    for (unsigned place = 0;; place++) {
        struct bulkhead_window window = world_window(place);

        if (window.rounds == 0)
            break;
        print_pair("rtos: window ", place);
        print_pair(" rounds ", window.rounds);
        print_pair(" latest ", window.latest_start);
        print_pair(" lost ", window.most_lost);
        board_print("\n");
    }
}

static void end(void)
{
    busy_print();
    print_windows();
    print_pair("rtos: budgets used up ", world_counts()->used_up);
    print_pair(" urgent ", world_counts()->urgent);
    print_pair(" calls ", world_counts()->calls);
    print_pair("\nrtos: origin ", board_origin());
    board_print("\nrtos: end\n");
    board_power_off();
}

void world_is_off(void) { end(); }
_Bool world_wants_reset(void) { board_print("rtos: FAILED: the other world wants to be reset\n"); end(); return 0; }
void world_is_damaged(void) { board_print("rtos: FAILED: the other world is damaged\n"); end(); }

void payload_main(const struct bulkhead_world_plan *plan)
{
    const char *text;

    board_initialise(plan);
    world_start(plan, LOADER_PRIORITY);
    text = busy_create(bulkhead_world_arguments(plan));
    if (busy_has_key(&text, " off=")) {
        off.from_ms = busy_number(&text);
        off.to_ms = busy_number(&text);
        configASSERT(xTaskCreate(switch_servers, "switch", STACK_WORDS, NULL, SWITCH_PRIORITY, NULL) == pdPASS);
    }
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
