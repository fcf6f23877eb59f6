/*
 * Two tasks and a queue: a producer that wakes every 10 ticks, and a consumer that checks order and prints some. The
 * boot arguments say which: `every=N` each N-th message (default 10), `rounds=N` ends after N lines (default: never).
 * The tick in a message is the one the producer was due at, so the output is the same whatever the host does.
 */
#include "board.h"
#include "FreeRTOS.h"
#include "queue.h"
#include "task.h"

#define PERIOD_TICKS        10U
#define QUEUE_MESSAGES      4U
#define STACK_WORDS         512U

struct message {
    uint64_t number;
    uint64_t due_tick;
};

static QueueHandle_t queue;
static uint64_t messages_per_line;
/* Lines to print before the end; 0 = no end. */
static uint64_t rounds;

static void produce(void *unused)
{
    TickType_t due_tick = 0;

    (void)unused;
    for (uint64_t number = 1;; number++) {
        struct message message;

        vTaskDelayUntil(&due_tick, PERIOD_TICKS);
        message.number = number;
        message.due_tick = due_tick;
        configASSERT(xQueueSend(queue, &message, portMAX_DELAY) == pdTRUE);
    }
}

static void consume(void *unused)
{
    (void)unused;
    for (uint64_t expected = 1;; expected++) {
        struct message message;

        configASSERT(xQueueReceive(queue, &message, portMAX_DELAY) == pdTRUE);
        configASSERT(message.number == expected);
        if (expected % messages_per_line != 0)
            continue;
        board_print("rtos: tick ");
        board_print_number(message.due_tick);
        board_print(" message ");
        board_print_number(message.number);
        board_print("\n");
        if (rounds != 0 && expected == rounds * messages_per_line) {
            board_print("rtos: end\n");
            board_power_off();
        }
    }
}

void guest_main(const void *device_tree)
{
    board_print("rtos: FreeRTOS " tskKERNEL_VERSION_NUMBER "\n");
    rounds = arguments_number(device_tree, "rounds", 0);
    messages_per_line = arguments_number(device_tree, "every", 10);
    configASSERT(messages_per_line != 0);
    board_initialise();
    queue = xQueueCreate(QUEUE_MESSAGES, sizeof(struct message));
    configASSERT(queue != NULL);
    configASSERT(xTaskCreate(produce, "produce", STACK_WORDS, NULL, 3, NULL) == pdPASS);
    configASSERT(xTaskCreate(consume, "consume", STACK_WORDS, NULL, 2, NULL) == pdPASS);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
