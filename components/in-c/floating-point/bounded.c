/*
 * Processes in C that compute with floating point, and what bounds them: a quota of memory and the server that pays. A component makes two of this same program. One takes all the
 * memory that it gets, computes a sum and exits with its bits; the other one computes for ever. After some milliseconds the maker says what their server has used, and takes the
 * second one apart. build.sh --floating-point builds it, and the description says `floating_point = true` of the component and of the program.
 */
#include "bulkhead_process.h"

BULKHEAD_ENTRY(run)

/* Where the maker is told of ends, what it makes processes from and runs them on, the program, and empty slots. A process has what it is given in slot 2. */
BULKHEAD_SLOT(told)
BULKHEAD_SLOT(quota)
BULKHEAD_SLOT(jobs)
BULKHEAD_SLOT(program)
BULKHEAD_SLOT(room)

#define REGION (BULKHEAD_PROCESS_SLOTS - 1)
#define ADDRESS UINT64_C(0x10000000)
/* Pages that a process asks for, which are more than it is given. */
#define ASKED 64
#define GIVEN 40
/* What the lowest byte of a process's argument says; of one that sums, how many terms is above. */
#define SUMS 1
#define SPINS 2

/* 1 + 1/4 + 1/9 and so on, which comes to pi squared by 6. */
static double sum(uint64_t terms) {
    double all = 0;
    for (uint64_t number = 1; number <= terms; number++)
        all += 1.0 / ((double)number * (double)number);
    return all;
}

static void say(const char *what, uint64_t first, uint64_t second) {
    bulkhead_print(what);
    bulkhead_print_number(first);
    bulkhead_print(" ");
    bulkhead_print_number(second);
    bulkhead_print("\n");
}

static _Noreturn void process(uint64_t argument) {
    if ((argument & 0xff) == SPINS)
        for (volatile double kept = 0;;)
            kept = kept + sum(1000);
    uint64_t mapped = 0, more = 0;
    uint64_t code = bulkhead_region_create(BULKHEAD_PROCESS_QUOTA_SLOT, ASKED, REGION);
    for (; code == BULKHEAD_OK && mapped < ASKED; mapped += more)
        code = bulkhead_map(REGION, mapped, ADDRESS + mapped * 4096, 1, BULKHEAD_RIGHT_READ | BULKHEAD_RIGHT_WRITE, &more);
    say("asked for more pages, code and pages: ", code, mapped);
    union {
        double value;
        uint64_t bits;
    } result = {sum(argument >> 8)};
    bulkhead_exit(result.bits);
}

/* Makes the process of a slot. */
static uint64_t make(uint64_t to, uint64_t argument) {
    uint64_t bits = 0;
    struct bulkhead_made made = {quota(), jobs(), to};
    return bulkhead_spawn(program(), argument, made, room(), 1, (struct bulkhead_share){GIVEN, 0, 0, 1}, &bits);
}

/* For how many milliseconds they are let (15:8), and how many terms one of them sums, which is also above a process's lowest byte. */
static void run(uint64_t argument) {
    if ((argument & 0xff) != 0)
        process(argument);
    uint64_t milliseconds = argument >> 8 & 0xff, terms = argument >> 16;
    uint64_t begun = bulkhead_counter_ticks(), until = begun + milliseconds * (bulkhead_version().counter_hz / 1000);
    struct bulkhead_server before = {0}, after = {0};
    uint64_t code = bulkhead_server_read(jobs(), &before);
    code |= bulkhead_capability_copy(jobs(), room(), BULKHEAD_RIGHT_BIND);
    code |= make(room() + 1, terms << 8 | SUMS);
    code |= make(room() + 2, SPINS);
    uint64_t bits = 0, count = 0, ends = 0;
    while (bulkhead_receive(told(), until, &bits, &count) == BULKHEAD_OK)
        ends += count;
    code |= bulkhead_server_read(jobs(), &after);
    uint64_t elapsed = bulkhead_counter_ticks() - begun;
    struct bulkhead_fault summed = {0}, spinning = {0};
    code |= bulkhead_component_fault(room() + 1, &summed) | bulkhead_component_fault(room() + 2, &spinning);
    say("budget and period: ", after.budget_ticks, after.period_ticks);
    say("used, and passed: ", after.used_ticks - before.used_ticks, elapsed);
    say("ends, and faults of the one that spins: ", ends, spinning.number);
    say("exited, bits: ", summed.kind, summed.syndrome);
    code |= bulkhead_destroy(room() + 2) | bulkhead_destroy(room() + 1);
    /* All of it came back: a second one gets as much. */
    code |= make(room() + 1, SUMS);
    say("again, and end: ", code, bulkhead_receive(told(), 0, &bits, &count));
}
