/*
 * Payload that talks with the other world over the channels `telemetry` (to it) and `answers` (from it), for tests.
 *
 * Arguments: `echo`: every message comes back with its bytes inverted, under its own tag. `talk`: texts instead, as busy-tasks/telemetry.h says.
 * `pattern`: as `echo`, and the bytes of a message are looked at: each is the low byte of tag plus place. `measure`: the
 * answer is the counter as the message was taken. With `,reports` behind it, for worlds that do not end: a report each second, and a line for each
 * change of a partition (partitions.h).
 */
#include "../busy-tasks/telemetry.h"
#include "board.h"
#include "messages.h"
#include "partitions.h"
#include "world.h"
#include "FreeRTOS.h"
#include "task.h"

#define STACK_WORDS     512U
#define FAST_PRIORITY   12
#define SLOW_PRIORITY   10
#define TALK_PRIORITY   8
#define LOADER_PRIORITY 2
#define SLOW_TICKS      100U
#define REPORT_TICKS    1000U
#define PARTITION_TICKS 10U
/* Of both channels in the descriptions of the tests. */
#define BLOCK_BYTES     32U
#define MOST_BYTES      256U
/* No more messages than a pool has for each time that the task was woken, whatever the other world does meanwhile. */
#define MOST_MESSAGES   32

static const struct bulkhead_world_plan *world_plan;
static int64_t telemetry, answers;
static char kind;
static _Bool reports_each_second;
static uint64_t reported;

/* Received with the bytes or the text that they must have; others; refused as nonsense. Sent; not sent, because no block was free. */
static struct {
    uint64_t good, wrong, corrupt, sent, full, events;
} counts;
/* Tags go up by one: how often they did not, and the last one. */
static uint64_t gaps;
static uint32_t latest;

static void print_count(const char *what, uint64_t count)
{
    board_print(what);
    board_print_number(count);
}

static void report(void)
{
    const struct board_lateness *payload = board_tick_lateness(BOARD_PAYLOAD), *other = board_tick_lateness(BOARD_OTHER_WORLD);

    telemetry_print();
    print_count("rtos: messages: good ", counts.good);
    print_count(" wrong ", counts.wrong);
    print_count(" corrupt ", counts.corrupt);
    print_count(" sent ", counts.sent);
    print_count(" full ", counts.full);
    print_count(" gaps ", gaps);
    print_count(" latest ", latest);
    print_count(" events ", counts.events);
    print_count(" urgent ", world_counts()->urgent);
    print_count(" starts ", world_counts()->starts);
    print_count("; own_ticks ", payload->ticks);
    print_count(" own_late ", payload->most);
    print_count("; other_ticks ", other->ticks);
    print_count(" other_late ", other->most);
    print_count(" report ", ++reported);
    board_print("\n");
}

static uint64_t fast_rounds;
/* Data of the payload that nobody writes to: a word says where it is. */
static uint64_t victim[512];

static uint64_t victim_word(unsigned place) { return UINT64_C(0x9e3779b97f4a7c15) * (place + 1); }

static void fast(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, 1);
        fast_rounds++;
    }
}

static void slow(void *unused)
{
    TickType_t due = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, SLOW_TICKS);
        /* More often when ticks came together: beside a Linux that computes on another core, cores take turns in the emulator. */
        configASSERT(kind == 't' && reports_each_second ? fast_rounds >= due : fast_rounds == due);
        for (unsigned place = 0; place < sizeof victim / sizeof *victim; place++)
            configASSERT(victim[place] == victim_word(place));
        if (reports_each_second && due % REPORT_TICKS == 0)
            report();
    }
}

static void send(const void *bytes, uint32_t length, uint32_t tag)
{
    int64_t result = bulkhead_messages_send((uint32_t)telemetry, bytes, length, tag);

    configASSERT(result == 0 || result == BULKHEAD_MESSAGES_NOTHING || result == BULKHEAD_MESSAGES_CLOSED);
    if (result == 0)
        counts.sent++;
    else
        counts.full++;
}

static void received(uint8_t *bytes, uint32_t length, uint32_t tag)
{
    uint64_t taken = board_counter();
    _Bool is_good = 1;

    /* Whatever the other world writes. */
    configASSERT(length <= BLOCK_BYTES);
    for (uint32_t place = 0; kind == 'p' && place < length; place++)
        is_good = is_good && bytes[place] == (uint8_t)(tag + place);
    if (is_good)
        counts.good++;
    else
        counts.wrong++;
    if (tag != latest + 1)
        gaps++;
    latest = tag;
    if (kind == 'm') {
        send(&taken, sizeof taken, tag);
        return;
    }
    for (uint32_t place = 0; place < length; place++)
        bytes[place] = (uint8_t)~bytes[place];
    send(bytes, length, tag);
}

static void talk(void *unused)
{
    static uint8_t bytes[MOST_BYTES];

    (void)unused;
    messages_subscribe(world_plan, 1U << answers);
    for (;;) {
        if (messages_wait(1U << answers, portMAX_DELAY) != 0)
            counts.events++;
        for (unsigned count = 0; count < MOST_MESSAGES; count++) {
            uint32_t tag = 0;
            int64_t length = bulkhead_messages_receive((uint32_t)answers, bytes, sizeof bytes, &tag);

            if (length == BULKHEAD_MESSAGES_CORRUPT) {
                counts.corrupt++;
                continue;
            }
            if (length < 0)
                break;
            received(bytes, (uint32_t)length, tag);
        }
    }
}

void partition_event(uint32_t partition, const struct bulkhead_partition *now)
{
    print_count("rtos: partition ", partition);
    print_count(" state ", now->state);
    print_count(" reason ", now->reason);
    print_count(" starts ", now->starts);
    print_count(" faults ", now->faults);
    print_count(" address ", now->address);
    board_print("\n");
}

void world_is_off(void)
{
    board_print("rtos: the other world is off\n");
    report();
    board_power_off();
}

_Bool world_wants_reset(void)
{
    board_print("rtos: the other world is reset\n");
    report();
    latest = 0;
    return 1;
}

void world_is_damaged(void)
{
    board_print("rtos: FAILED: CRC of a segment of the other world\n");
    board_power_off();
}

void payload_main(const struct bulkhead_world_plan *plan)
{
    world_plan = plan;
    kind = bulkhead_world_arguments(plan)[0];
    for (const char *argument = bulkhead_world_arguments(plan); *argument != '\0'; argument++)
        reports_each_second = reports_each_second || *argument == ',';
    telemetry = bulkhead_messages_find(plan, "telemetry");
    answers = bulkhead_messages_find(plan, "answers");
    board_print("rtos: FreeRTOS " tskKERNEL_VERSION_NUMBER " in the secure world\n");
    board_initialise(plan);
    for (unsigned place = 0; place < sizeof victim / sizeof *victim; place++)
        victim[place] = victim_word(place);
    configASSERT(telemetry >= 0 && answers >= 0);
    configASSERT(xTaskCreate(fast, "fast", STACK_WORDS, NULL, FAST_PRIORITY, NULL) == pdPASS);
    configASSERT(xTaskCreate(slow, "slow", STACK_WORDS, NULL, SLOW_PRIORITY, NULL) == pdPASS);
    if (kind == 't')
        telemetry_create(plan, TALK_PRIORITY);
    else
        configASSERT(xTaskCreate(talk, "talk", STACK_WORDS, NULL, TALK_PRIORITY, NULL) == pdPASS);
    if (reports_each_second)
        partitions_watch(plan, SLOW_PRIORITY, PARTITION_TICKS);
    world_start(plan, LOADER_PRIORITY);
    vTaskStartScheduler();
    configASSERT(!"the scheduler returned");
}
