/*
 * What components/caller does, in C: calls a component in Rust, which calls it back. It is there for tests.
 */
#include "bulkhead_component.h"

BULKHEAD_ENTRY(run)

/* What it calls: components/callee. */
BULKHEAD_IMPORT(add, a, b)
BULKHEAD_IMPORT(twice, value)
BULKHEAD_IMPORT(fault)
BULKHEAD_IMPORT(mirror, a, b, c, d, e, f, g, h)
BULKHEAD_IMPORT(seen, number)

/* One more. */
BULKHEAD_EXPORT(back, token, value) { return value + 1; }

/* Whether every argument arrived where it belongs, and the token. */
BULKHEAD_EXPORT(up, token, levels, seed) { return token + levels * 10 + seed; }

static void say(const char *what, struct bulkhead_answer answer) {
    bulkhead_print(what);
    bulkhead_print_number(answer.code);
    bulkhead_print(" ");
    bulkhead_print_number(answer.value);
    bulkhead_print("\n");
}

static void run(uint64_t argument) {
    say("add: ", add(2, 3));
    say("twice: ", twice(40));
    /* The callee has found these registers as a call says: arguments, nothing behind them, and zeros for what is this one's. */
    (void)mirror(11, 12, 13, 14, 15, 16, 17, 18);
    uint64_t arguments = 0, others = 0;
    for (uint64_t number = 0; number < 8; number++)
        arguments = arguments * 100 + seen(number).value;
    for (uint64_t number = 9; number < 31; number++)
        others |= seen(number).value;
    bulkhead_print("seen: ");
    bulkhead_print_number(arguments);
    bulkhead_print(" ");
    bulkhead_print_number(others);
    bulkhead_print("\n");
    /* More often than the callee has stacks; nothing of this one is lost. */
    uint64_t faults = 0;
    for (uint64_t number = 0; number < 4; number++)
        faults += fault().code == BULKHEAD_FAULTED;
    bulkhead_print("faults: ");
    bulkhead_print_number(faults);
    bulkhead_print("\n");
    say("add: ", add(argument, 1));
    uint64_t bits = 1, count = 1;
    struct bulkhead_version version = bulkhead_version();
    uint64_t before = bulkhead_counter_ticks();
    uint64_t code = bulkhead_receive(0, before + version.counter_hz / 1000, &bits, &count);
    bulkhead_print(code == BULKHEAD_TIMED_OUT && bulkhead_counter_ticks() - before >= version.counter_hz / 1000 ? "slept\n" : "awake\n");
    say("receive without an end point: ", (struct bulkhead_answer){bulkhead_receive(60, 0, &bits, &count), 0});
    say("interrupt without one: ", (struct bulkhead_answer){bulkhead_interrupt_done(60), 0});
    say("limit without a thread: ", (struct bulkhead_answer){bulkhead_thread_limit(60, 1, 60), bulkhead_thread_unlimit(60)});
    say("abort without one: ", (struct bulkhead_answer){bulkhead_thread_abort(60), 0});
    bulkhead_finish();
}
