/*
 * Records of who runs and when. The kernel's hook of a switch keeps them in a ring in secure RAM, which the host cannot read; the least urgent
 * task that runs at all writes them to the secure console, between the text.
 *
 * A full ring loses what is new, and says how much: a reader who knows what came before a gap can tell who ran until then.
 */
#include "trace.h"
#include "task.h"
#include "world.h"

#define STACK_WORDS 512U
/* Tasks that have been named. Of more, names are sent again. */
#define NAMED       24U
/* Ticks of the kernel between two looks. */
#define PAUSE       4U
#define NAME_PART   8U
#define FRAME_BYTES BULKHEAD_WORLD_FRAME_BYTES

struct record {
    uint64_t counter;
    uint64_t argument;
    enum trace_kind kind;
};

_Bool trace_is_on;

static struct record *ring;
static uint32_t mask;
/* How many were kept and written out in all, and how many found no room since the last that did. */
static volatile uint32_t kept, written;
static uint64_t lost;
static const void *named[NAMED];
static unsigned names;

static void put(enum trace_kind kind, uint64_t argument)
{
    ring[kept & mask] = (struct record){ board_counter(), argument, kind };
    kept++;
}

void trace_keep(enum trace_kind kind, uint64_t argument)
{
    uint32_t room = mask + 1 - (kept - written);

    /* One place is for the number of those that are lost. */
    if (room < 2 || (lost != 0 && room < 3)) {
        lost++;
        return;
    }
    if (lost != 0) {
        put(TRACE_LOST, lost);
        lost = 0;
    }
    put(kind, argument);
}

void trace_runs(void) { trace_keep(TRACE_RUNS, (uint64_t)(uintptr_t)xTaskGetCurrentTaskHandle()); }

static void write_out(enum trace_kind kind, uint64_t counter, uint64_t argument)
{
    uint8_t frame[FRAME_BYTES];

    bulkhead_world_frame(kind, counter, argument, &frame);
    for (unsigned byte = 0; byte < FRAME_BYTES; byte++)
        board_write(frame[byte]);
}

/* Its name in two halves; in the last byte one more than its place among the servers. */
static void name(const void *task)
{
    const char *text = pcTaskGetName((TaskHandle_t)task);
    uint64_t place = (uint64_t)(uintptr_t)pvTaskGetThreadLocalStoragePointer((TaskHandle_t)task, 0), parts[2] = { 0, 0 };

    for (unsigned known = 0; known < names && known < NAMED; known++)
        if (named[known] == task)
            return;
    named[names++ % NAMED] = task;
    for (unsigned at = 0; at < 2 * NAME_PART - 1 && text[at] != '\0'; at++)
        parts[at / NAME_PART] |= (uint64_t)(uint8_t)text[at] << at % NAME_PART * 8;
    if (place <= BULKHEAD_WORLD_SERVERS)
        parts[1] |= place << 56;
    write_out(TRACE_NAMED, (uint64_t)(uintptr_t)task, parts[0]);
    write_out(TRACE_NAMED_ON, (uint64_t)(uintptr_t)task, parts[1]);
}

/* One is gone from the ring when all of it is on the line: who is cut off in the middle by the end of everything is written again. */
static void write_all(void)
{
    while (written != kept) {
        struct record next = ring[written & mask];

        if (next.kind == TRACE_RUNS)
            name((const void *)(uintptr_t)next.argument);
        write_out(next.kind, next.counter, next.argument);
        written++;
    }
}

void trace_finish(void)
{
    if (!trace_is_on)
        return;
    write_all();
    if (lost != 0)
        write_out(TRACE_LOST, board_counter(), lost);
}

static void write_records(void *unused)
{
    (void)unused;
    for (;;) {
        write_all();
        vTaskDelay(PAUSE);
    }
}

_Bool trace_start(const struct bulkhead_world_plan *plan, UBaseType_t priority)
{
    uint64_t records = bulkhead_world_trace_records(plan);

    if (records == 0)
        return 0;
    ring = pvPortMalloc(records * sizeof *ring);
    configASSERT(ring != NULL);
    mask = (uint32_t)records - 1;
    configASSERT(xTaskCreate(write_records, "records", STACK_WORDS, NULL, priority, NULL) == pdPASS);
    trace_is_on = 1;
    return 1;
}
