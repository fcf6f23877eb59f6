/* What telemetry.h says. */
#include "telemetry.h"
#include "health.h"
#include "messages.h"

#define STACK_WORDS  512U
#define PERIOD_TICKS 20U
#define MOST_BYTES   32U
/* No more for each round than a pool has, whatever the other world does meanwhile. */
#define MOST_ANSWERS 32U

static int64_t telemetry = -1, answers = -1;
static struct {
    uint64_t sent, not_sent, answered, wrong;
} counts;

static uint32_t append_word(char *text, uint32_t length, const char *word)
{
    for (; *word != '\0'; word++)
        text[length++] = *word;
    return length;
}

static uint32_t append_number(char *text, uint32_t length, uint64_t number)
{
    char digits[20];
    uint32_t count = 0;

    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count != 0)
        text[length++] = digits[--count];
    return length;
}

/* start 1 round 17: a world that reads it knows which of its starts this is. */
static uint32_t text_of(char *text, uint64_t start, uint64_t round)
{
    uint32_t length = append_number(text, append_word(text, 0, "start "), start);

    return append_number(text, append_word(text, length, " round "), round);
}

/* The round of a text, if the text is one of this start; otherwise 0. */
static uint64_t round_of(const char *text, uint32_t length, uint64_t start)
{
    char expected[MOST_BYTES];
    uint32_t front = append_word(expected, append_number(expected, append_word(expected, 0, "start "), start), " round ");
    uint64_t round = 0;

    for (uint32_t place = 0; place < length; place++) {
        if (place < front) {
            if (text[place] != expected[place])
                return 0;
        } else if (text[place] < '0' || text[place] > '9')
            return 0;
        else
            round = round * 10 + (uint64_t)(text[place] - '0');
    }
    return round;
}

static void take_answers(uint64_t start, uint64_t round)
{
    static uint64_t latest;
    char text[MOST_BYTES];

    for (unsigned count = 0; count < MOST_ANSWERS; count++) {
        uint32_t tag;
        int64_t length = bulkhead_messages_receive((uint32_t)answers, text, sizeof text, &tag);
        uint64_t answered = length < 0 ? 0 : round_of(text, (uint32_t)length, start);

        if (length == BULKHEAD_MESSAGES_NOTHING || length == BULKHEAD_MESSAGES_CLOSED)
            break;
        if (answered > latest && answered <= round) {
            counts.answered++;
            latest = answered;
            /* Where the description waits for signs of life, this is one: stock Linux has no call for it. */
            health_beats();
        } else
            counts.wrong++;
    }
}

static void tell(void *unused)
{
    char text[MOST_BYTES];
    TickType_t due = 0;
    uint64_t round = 0;

    (void)unused;
    for (;;) {
        vTaskDelayUntil(&due, PERIOD_TICKS);
        struct bulkhead_health health = world_health();
        uint64_t start = health.restarts + 1;

        /* A text that is sent between two starts would name the wrong one. */
        if (health.state != WORLD_RUNNING)
            continue;
        round++;
        if (bulkhead_messages_send((uint32_t)telemetry, text, text_of(text, start, round), (uint32_t)round) == 0)
            counts.sent++;
        else
            counts.not_sent++;
        take_answers(start, round);
    }
}

void telemetry_create(const struct bulkhead_world_plan *plan, UBaseType_t priority)
{
    telemetry = bulkhead_messages_find(plan, "telemetry");
    answers = bulkhead_messages_find(plan, "answers");
    if (telemetry >= 0 && answers >= 0)
        configASSERT(xTaskCreate(tell, "telemetry", STACK_WORDS, NULL, priority, NULL) == pdPASS);
}

void telemetry_print(void)
{
    if (telemetry < 0 || answers < 0)
        return;
    board_print("rtos: telemetry: sent ");
    board_print_number(counts.sent);
    board_print(" not-sent ");
    board_print_number(counts.not_sent);
    board_print(" answered ");
    board_print_number(counts.answered);
    board_print(" wrong ");
    board_print_number(counts.wrong);
    board_print("\n");
}
