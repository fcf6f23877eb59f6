/*
 * Processes in C: a component makes one of this same program, which maps memory, forks and waits for its child. Each says by its exit code what it found.
 */
#include "bulkhead_process.h"

BULKHEAD_ENTRY(run)

/* Where the maker is told of the end, what it makes processes from and runs them on, the program, and two empty slots. A process has what it is given in slot 2. */
BULKHEAD_SLOT(told)
BULKHEAD_SLOT(quota)
BULKHEAD_SLOT(jobs)
BULKHEAD_SLOT(program)
BULKHEAD_SLOT(room)

#define PAYER 2
#define CHILD (BULKHEAD_PROCESS_SLOTS - 1)
#define REGION (BULKHEAD_PROCESS_SLOTS - 2)
#define ADDRESS UINT64_C(0x10000000)

static void say(const char *what, uint64_t code, uint64_t value) {
    bulkhead_print(what);
    bulkhead_print_number(code);
    bulkhead_print(", ");
    bulkhead_print_number(value);
    bulkhead_print("\n");
}

static void process(void) {
    uint64_t done = 0, which = 0, bits = 0;
    uint64_t code = bulkhead_region_create(BULKHEAD_PROCESS_QUOTA_SLOT, 1, REGION);
    code |= bulkhead_map(REGION, 0, ADDRESS, 1, BULKHEAD_RIGHT_READ | BULKHEAD_RIGHT_WRITE, &done);
    if (code != BULKHEAD_OK)
        bulkhead_exit(code);
    volatile uint64_t *word = (volatile uint64_t *)ADDRESS;
    *word = 40;
    code = bulkhead_protect(ADDRESS, 1, BULKHEAD_RIGHT_READ, &done);
    struct bulkhead_made made = {BULKHEAD_PROCESS_QUOTA_SLOT, PAYER, CHILD};
    code |= bulkhead_fork(made, (struct bulkhead_share){.pages = 32}, &which, &bits);
    if (code != BULKHEAD_OK)
        bulkhead_exit(code);
    /* Pages of a region are not the child's. */
    if (which == BULKHEAD_FORK_CHILD)
        bulkhead_exit(2);
    struct bulkhead_fault fault = {0};
    while (bulkhead_component_fault(CHILD, &fault) == BULKHEAD_OK && fault.number == 0) {
        uint64_t words[8] = {0};
        bulkhead_call(BULKHEAD_CALL_YIELD, words);
    }
    code = bulkhead_destroy(CHILD);
    bulkhead_exit(code == BULKHEAD_OK ? *word + fault.syndrome : code);
}

static void run(uint64_t argument) {
    if (argument == 1)
        process();
    uint64_t bits = 0, got = 0, count = 0;
    uint64_t code = bulkhead_capability_copy(jobs(), room(), BULKHEAD_RIGHT_BIND);
    struct bulkhead_made made = {quota(), jobs(), room() + 1};
    code |= bulkhead_spawn(program(), 1, made, room(), 1, (struct bulkhead_share){96, 1, 1, 1}, &bits);
    if (code == BULKHEAD_OK)
        code = bulkhead_receive(told(), 0, &got, &count);
    struct bulkhead_fault fault = {0};
    code |= bulkhead_component_fault(room() + 1, &fault);
    say("exited ", fault.kind, fault.syndrome);
    code |= bulkhead_destroy(room() + 1);
    say("over ", code, got == bits);
}
