/*
 * Two tasks and a queue: a producer that wakes every 10 ticks, and a consumer that checks order and prints some. The
 * boot arguments say which: `every=N` each N-th message (default 10), `rounds=N` ends after N lines (default: never).
 * The tick in a message is the one the producer was due at, so the output is the same whatever the host does.
 *
 * `idle=1`: no task at all, only the tick. `dispatch=N`: one task that wakes at every tick and measures, N times, how long
 * after the tick's compare value the tick's handler and the task itself began, from tick `from=N` on (default 500); it
 * prints both and ends.
 */
#include "board.h"
#include "FreeRTOS.h"
#include "queue.h"
#include "task.h"

#define PERIOD_TICKS        10U
#define QUEUE_MESSAGES      4U
#define STACK_WORDS         512U
#define FIRST_TICK          500U

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

struct delay {
    uint64_t least, most, sum;
};

static void delay_add(struct delay *delay, uint64_t ticks)
{
    if (ticks < delay->least)
        delay->least = ticks;
    if (ticks > delay->most)
        delay->most = ticks;
    delay->sum += ticks;
}

static void delay_print(const char *what, const struct delay *delay, uint64_t samples)
{
    board_print("rtos: ");
    board_print(what);
    board_print(" min=");
    board_print_number(delay->least);
    board_print(" mean=");
    board_print_number(delay->sum / samples);
    board_print(" max=");
    board_print_number(delay->most);
    board_print(" n=");
    board_print_number(samples);
    board_print("\n");
}

/* Samples to take, 0 = other work, and the tick after which to take them. */
static uint64_t samples;
static uint64_t first_tick;

static void measure(void *unused)
{
    static struct delay handler = { .least = UINT64_MAX }, task = { .least = UINT64_MAX };
    TickType_t due_tick = 0;

    (void)unused;
    /* What happens while other partitions start is no part of it. */
    vTaskDelayUntil(&due_tick, first_tick);
    for (uint64_t taken = 0; taken < samples; taken++) {
        vTaskDelayUntil(&due_tick, 1);
        uint64_t now = board_counter();
        delay_add(&task, now - board_tick_compare());
        delay_add(&handler, board_tick_lateness());
    }
    delay_print("tick handler", &handler, samples);
    delay_print("task", &task, samples);
    board_print("rtos: end\n");
    board_power_off();
}

void guest_main(const void *device_tree)
{
    board_print("rtos: FreeRTOS " tskKERNEL_VERSION_NUMBER "\n");
    samples = arguments_number(device_tree, "dispatch", 0);
    first_tick = arguments_number(device_tree, "from", FIRST_TICK);
    if (samples != 0 || arguments_number(device_tree, "idle", 0) != 0) {
        board_initialise();
        if (samples != 0)
            configASSERT(xTaskCreate(measure, "measure", STACK_WORDS, NULL, 3, NULL) == pdPASS);
        vTaskStartScheduler();
        configASSERT(!"the scheduler returned");
    }
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
