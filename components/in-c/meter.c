/*
 * Stands between a caller and the component whose function it wanted, and counts: to the caller it is that function, to the callee a
 * caller. In C; which languages the two are written in, it does not know.
 */
#include "bulkhead_component.h"

BULKHEAD_ENTRY(run)

/* What it passes calls on to. */
BULKHEAD_IMPORT(sum, first, second)

static uint64_t calls;

static void run(uint64_t argument) {
    bulkhead_print("meter ");
    bulkhead_print_number(argument);
    bulkhead_print(": ABI version ");
    bulkhead_print_number(bulkhead_version().abi);
    bulkhead_print("\n");
}

/* What it was bound to before, and a line about it. */
BULKHEAD_EXPORT(add, token, first, second) {
    struct bulkhead_answer answer = sum(first, second);
    bulkhead_print("call ");
    bulkhead_print_number(++calls);
    bulkhead_print(answer.code == BULKHEAD_OK ? ": done\n" : ": failed\n");
    return answer.value;
}
