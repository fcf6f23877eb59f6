/*
 * Bulkhead: what a component of the real-time kernel written in C links. One self-contained header, beside component.ld.
 *
 * It says in C what bulkhead-kernel-abi and bulkhead-component say in Rust; a test (sdk/component/tests/c_header.rs) compares every
 * number, size and offset by a C compiler. C11 with the builtins of GCC and Clang; no C library. All functions are static
 * inline: a component pays for what it uses. build.sh beside this folder calls the cross compiler.
 *
 *     #include "bulkhead_component.h"
 *     BULKHEAD_IMPORT(sum, first, second)
 *     BULKHEAD_EXPORT(twice, token, value) { return sum(value, value).value; }
 *     BULKHEAD_ENTRY(run)
 *     static void run(uint64_t argument) { bulkhead_print("hello\n"); }
 */
#ifndef BULKHEAD_COMPONENT_H
#define BULKHEAD_COMPONENT_H

#include <stddef.h>
#include <stdint.h>

#define BULKHEAD_KERNEL_ABI_VERSION 6
#define BULKHEAD_COMPONENT_MAGIC 0x3130504d4f434842 /* BHCOMP01, as a little-endian number */
#define BULKHEAD_PRINT_BYTES 56u
#define BULKHEAD_NAME_BYTES 48u
#define BULKHEAD_ALL_TICKS UINT64_MAX

/* Calls, by the number of their SVC instruction. */
#define BULKHEAD_CALL_INVOKE 0
#define BULKHEAD_CALL_RETURN 1
#define BULKHEAD_CALL_RECEIVE 2
#define BULKHEAD_CALL_EVENTS 3
#define BULKHEAD_CALL_SWITCH 4
#define BULKHEAD_CALL_YIELD 5
#define BULKHEAD_CALL_DELEGATE 6
#define BULKHEAD_CALL_TCAP 7
#define BULKHEAD_CALL_INTERRUPT 8
#define BULKHEAD_CALL_THREAD 9
#define BULKHEAD_CALL_SERVER 10
#define BULKHEAD_CALL_MEMORY 11
#define BULKHEAD_CALL_CAPABILITY 12
#define BULKHEAD_CALL_COMPONENT 13
#define BULKHEAD_CALL_PRINT 14
#define BULKHEAD_CALL_VERSION 15

/* Operations of calls that have several: x0. */
#define BULKHEAD_TCAP_CREATE 0
#define BULKHEAD_TCAP_TRANSFER 1
#define BULKHEAD_TCAP_MERGE 2
#define BULKHEAD_TCAP_PRIORITY 3
#define BULKHEAD_TCAP_READ 4
#define BULKHEAD_INTERRUPT_DONE 0
#define BULKHEAD_INTERRUPT_EXPECT 1
#define BULKHEAD_INTERRUPT_CANCEL 2
#define BULKHEAD_INTERRUPT_SERVE 3
#define BULKHEAD_INTERRUPT_FINISH 4
#define BULKHEAD_THREAD_CREATE 0
#define BULKHEAD_THREAD_START 1
#define BULKHEAD_THREAD_SUSPEND 2
#define BULKHEAD_THREAD_RESUME 3
#define BULKHEAD_THREAD_STOP 4
#define BULKHEAD_THREAD_ABORT 5
#define BULKHEAD_THREAD_BIND 6
#define BULKHEAD_THREAD_LIMIT 7
#define BULKHEAD_THREAD_UNLIMIT 8
#define BULKHEAD_THREAD_READ 9
#define BULKHEAD_SERVER_CREATE 0
#define BULKHEAD_SERVER_SET 1
#define BULKHEAD_SERVER_DESTROY 2
#define BULKHEAD_SERVER_READ 3
#define BULKHEAD_MEMORY_MAP 0
#define BULKHEAD_MEMORY_UNMAP 1
#define BULKHEAD_MEMORY_PROTECT 2
#define BULKHEAD_MEMORY_SHARE 3
#define BULKHEAD_MEMORY_CREATE 4
#define BULKHEAD_CAPABILITY_COPY 0
#define BULKHEAD_CAPABILITY_MOVE 1
#define BULKHEAD_CAPABILITY_DELETE 2
#define BULKHEAD_CAPABILITY_REVOKE 3
#define BULKHEAD_CAPABILITY_READ 4
#define BULKHEAD_COMPONENT_SPAWN 0
#define BULKHEAD_COMPONENT_FORK 1
#define BULKHEAD_COMPONENT_EXEC 2
#define BULKHEAD_COMPONENT_EXIT 3
#define BULKHEAD_COMPONENT_DESTROY 4
#define BULKHEAD_COMPONENT_RESET 5
#define BULKHEAD_COMPONENT_FAULT 6
#define BULKHEAD_COMPONENT_READ 7

/* What a call answers. */
#define BULKHEAD_OK 0
#define BULKHEAD_WOULD_BLOCK 1
#define BULKHEAD_BUSY 2
#define BULKHEAD_NO_TIME 3
#define BULKHEAD_NOT_ADMITTED 4
#define BULKHEAD_DENIED 5
#define BULKHEAD_BAD_CAPABILITY 6
#define BULKHEAD_BAD_ARGUMENT 7
#define BULKHEAD_STALE 8
#define BULKHEAD_GONE 9
#define BULKHEAD_FAULTED 10
#define BULKHEAD_TIMED_OUT 11
#define BULKHEAD_NO_STACK 12
#define BULKHEAD_TOO_DEEP 13
#define BULKHEAD_FULL 14
#define BULKHEAD_BAD_CALL 15

/* Flags of receive, events and delegate. */
#define BULKHEAD_FLAG_NO_WAIT 1
#define BULKHEAD_FLAG_ALL 2
#define BULKHEAD_FLAG_NOTIFY 4

/* Kinds of capabilities, as `capability read` tells them. */
#define BULKHEAD_KIND_NULL 0
#define BULKHEAD_KIND_CALL 1
#define BULKHEAD_KIND_SEND 2
#define BULKHEAD_KIND_REMOTE_SEND 3
#define BULKHEAD_KIND_RECEIVE 4
#define BULKHEAD_KIND_THREAD 5
#define BULKHEAD_KIND_SCHEDULER 6
#define BULKHEAD_KIND_TCAP 7
#define BULKHEAD_KIND_SERVER 8
#define BULKHEAD_KIND_BAND 9
#define BULKHEAD_KIND_INTERRUPT 10
#define BULKHEAD_KIND_MEMORY 11
#define BULKHEAD_KIND_TABLE 12
#define BULKHEAD_KIND_COMPONENT 13
#define BULKHEAD_KIND_QUOTA 14

/* Rights; what a bit is good for depends on the kind. */
#define BULKHEAD_RIGHT_USE 1
#define BULKHEAD_RIGHT_STOP 2
#define BULKHEAD_RIGHT_WRITE 2
#define BULKHEAD_RIGHT_PRIORITY 2
#define BULKHEAD_RIGHT_BIND 4
#define BULKHEAD_RIGHT_EXECUTE 4
#define BULKHEAD_RIGHT_LIMIT 8
#define BULKHEAD_RIGHT_DELEGATE 8
#define BULKHEAD_RIGHT_EXPECT 8
#define BULKHEAD_RIGHT_READ 16
#define BULKHEAD_RIGHT_REVOKE 128

/* Kinds of faults, as `component fault` tells them. */
#define BULKHEAD_FAULT_NONE 0
#define BULKHEAD_FAULT_MEMORY 1
#define BULKHEAD_FAULT_INSTRUCTION 2
#define BULKHEAD_FAULT_FLOATING_POINT 3
#define BULKHEAD_FAULT_ALIGNMENT 4
#define BULKHEAD_FAULT_DEBUG 5
#define BULKHEAD_FAULT_OVERSTAY 6
#define BULKHEAD_FAULT_ABORTED 7
#define BULKHEAD_FAULT_EXITED 8

/* Hashes of what functions take and answer, by number of parameters: all are words, and so is the answer. */
#define BULKHEAD_SIGNATURE_0 UINT64_C(0x73f976f594eed044)
#define BULKHEAD_SIGNATURE_1 UINT64_C(0xc566f71ef7451f73)
#define BULKHEAD_SIGNATURE_2 UINT64_C(0xf447e73e50d4918a)
#define BULKHEAD_SIGNATURE_3 UINT64_C(0x92c4f2cb0fa38b1d)
#define BULKHEAD_SIGNATURE_4 UINT64_C(0xe48a5df6562c28dc)
#define BULKHEAD_SIGNATURE_5 UINT64_C(0xfd5cc71bfaece20f)
#define BULKHEAD_SIGNATURE_6 UINT64_C(0x311d18822ab83d0e)
#define BULKHEAD_SIGNATURE_7 UINT64_C(0xed5d91779e1e9109)
#define BULKHEAD_SIGNATURE_8 UINT64_C(0x8ac260dc4609e990)

/* What a component's text begins with. */
struct bulkhead_component_head {
    uint64_t magic;
    uint32_t abi_version;
    uint32_t reserved;
};

/* A function that a component exports or imports, for the host: in no page of the component. */
struct bulkhead_function {
    char name[BULKHEAD_NAME_BYTES];
    uint64_t signature; /* BULKHEAD_SIGNATURE_ */
    uintptr_t address;  /* where callers enter; of an import, where the slot's number is */
};

/* What a function of another component answers; `value` is 0 unless `code` is BULKHEAD_OK. */
struct bulkhead_answer {
    uint64_t code;
    uint64_t value;
};

/* What `version` answers. */
struct bulkhead_version {
    uint64_t abi;
    uint64_t build;
    uint64_t counter_hz;
};

#ifdef __aarch64__

/*
 * What is lost where floating-point registers are another's: in a program that may use them (build.sh --floating-point), all of them, v8 to v15 as well. Behind a
 * call into another component they are the caller's own or zeros, and FPCR with them; a function keeps what it needs on its own stack.
 */
#ifdef __ARM_NEON
#define BULKHEAD_LOST_                                                                                                            \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",    \
        "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory"
#else
#define BULKHEAD_LOST_ "cc", "memory"
#endif

/*
 * Makes call NUMBER, a constant, with x0 to x7 from `words`, and puts what comes back there: the code in words[0], values behind it.
 * The kernel keeps x8 to x30 and touches no memory of a component; a call may hand on memory that was written before.
 */
#define BULKHEAD_CALL_(NUMBER, words, ...)                                                                                       \
    do {                                                                                                                         \
        uint64_t *bulkhead_words_ = (words);                                                                                     \
        register uint64_t x0_ __asm__("x0") = bulkhead_words_[0];                                                                \
        register uint64_t x1_ __asm__("x1") = bulkhead_words_[1];                                                                \
        register uint64_t x2_ __asm__("x2") = bulkhead_words_[2];                                                                \
        register uint64_t x3_ __asm__("x3") = bulkhead_words_[3];                                                                \
        register uint64_t x4_ __asm__("x4") = bulkhead_words_[4];                                                                \
        register uint64_t x5_ __asm__("x5") = bulkhead_words_[5];                                                                \
        register uint64_t x6_ __asm__("x6") = bulkhead_words_[6];                                                                \
        register uint64_t x7_ __asm__("x7") = bulkhead_words_[7];                                                                \
        __asm__ volatile("svc #%c8"                                                                                              \
                         : "+r"(x0_), "+r"(x1_), "+r"(x2_), "+r"(x3_), "+r"(x4_), "+r"(x5_), "+r"(x6_), "+r"(x7_)                 \
                         : "i"(NUMBER)                                                                                           \
                         : __VA_ARGS__);                                                                                         \
        bulkhead_words_[0] = x0_;                                                                                                \
        bulkhead_words_[1] = x1_;                                                                                                \
        bulkhead_words_[2] = x2_;                                                                                                \
        bulkhead_words_[3] = x3_;                                                                                                \
        bulkhead_words_[4] = x4_;                                                                                                \
        bulkhead_words_[5] = x5_;                                                                                                \
        bulkhead_words_[6] = x6_;                                                                                                \
        bulkhead_words_[7] = x7_;                                                                                                \
    } while (0)

#define bulkhead_call(NUMBER, words) BULKHEAD_CALL_(NUMBER, words, "cc", "memory")

/* Asks which kernel this is: also the null call. */
static inline struct bulkhead_version bulkhead_version(void) {
    uint64_t words[8] = {0};
    bulkhead_call(BULKHEAD_CALL_VERSION, words);
    return (struct bulkhead_version){words[1], words[2], words[3]};
}

/* Prints these bytes, at most BULKHEAD_PRINT_BYTES of them in one call. What the console has no room for is lost, and counted by the kernel. */
static inline void bulkhead_print_bytes(const char *text, size_t bytes) {
    while (bytes > 0) {
        size_t part = bytes < BULKHEAD_PRINT_BYTES ? bytes : BULKHEAD_PRINT_BYTES;
        uint64_t words[8] = {part};
        for (size_t index = 0; index < part; index++)
            words[1 + index / 8] |= (uint64_t)(uint8_t)text[index] << (index % 8 * 8);
        bulkhead_call(BULKHEAD_CALL_PRINT, words);
        text += part;
        bytes -= part;
    }
}

/* Prints text that ends with a zero. */
static inline void bulkhead_print(const char *text) {
    size_t bytes = 0;
    while (text[bytes] != 0)
        bytes++;
    bulkhead_print_bytes(text, bytes);
}

/* Prints a number in decimal. */
static inline void bulkhead_print_number(uint64_t number) {
    char digits[20]; /* of 2^64 - 1 */
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    bulkhead_print_bytes(digits + first, sizeof digits - first);
}

/* Ends the thread; inside a call, returns zeros to the caller. */
static inline _Noreturn void bulkhead_finish(void) {
    for (;;) {
        uint64_t words[8] = {0};
        bulkhead_call(BULKHEAD_CALL_RETURN, words);
    }
}

/*
 * Waits for what was sent to the end point of a slot, until the counter reaches `deadline_ticks` (0: for ever), and stores bits and
 * number of sends. Slot 0 only sleeps. BULKHEAD_TIMED_OUT, BULKHEAD_BAD_CAPABILITY, or BULKHEAD_DENIED for another thread's.
 */
static inline uint64_t bulkhead_receive(uint64_t slot, uint64_t deadline_ticks, uint64_t *bits, uint64_t *count) {
    uint64_t words[8] = {slot, BULKHEAD_FLAG_ALL, deadline_ticks};
    bulkhead_call(BULKHEAD_CALL_RECEIVE, words);
    *bits = words[1];
    *count = words[2];
    return words[0];
}

/* Tells the kernel that a held interrupt of a slot is served: it may come again. BULKHEAD_BUSY when it is not held,
 * BULKHEAD_DENIED to a thread on the time of another server than that which pays for it. */
static inline uint64_t bulkhead_interrupt_done(uint64_t slot) {
    uint64_t words[8] = {BULKHEAD_INTERRUPT_DONE, slot};
    bulkhead_call(BULKHEAD_CALL_INTERRUPT, words);
    return words[0];
}

/*
 * Bounds the time that the thread of a slot runs from now on, in callees as well: when these ticks are used up the Send of the slot `told`
 * is made, once. BULKHEAD_BAD_ARGUMENT for no time, BULKHEAD_BAD_CAPABILITY, BULKHEAD_DENIED.
 */
static inline uint64_t bulkhead_thread_limit(uint64_t slot, uint64_t ticks, uint64_t told) {
    uint64_t words[8] = {BULKHEAD_THREAD_LIMIT, slot, ticks, told};
    bulkhead_call(BULKHEAD_CALL_THREAD, words);
    return words[0];
}

/* Takes the bound away. */
static inline uint64_t bulkhead_thread_unlimit(uint64_t slot) {
    uint64_t words[8] = {BULKHEAD_THREAD_UNLIMIT, slot};
    bulkhead_call(BULKHEAD_CALL_THREAD, words);
    return words[0];
}

/*
 * Ends the innermost call of the thread of a slot: its caller finds BULKHEAD_TIMED_OUT. BULKHEAD_BUSY when it is in no call, BULKHEAD_DENIED
 * when the callee is not abortable.
 */
static inline uint64_t bulkhead_thread_abort(uint64_t slot) {
    uint64_t words[8] = {BULKHEAD_THREAD_ABORT, slot};
    bulkhead_call(BULKHEAD_CALL_THREAD, words);
    return words[0];
}

/* The counter, in ticks of bulkhead_version.counter_hz. */
static inline uint64_t bulkhead_counter_ticks(void) {
    uint64_t ticks;
    /* ISB: the counter is read after what comes before. */
    __asm__ volatile("isb\n\tmrs %0, CNTVCT_EL0" : "=r"(ticks));
    return ticks;
}

/*
 * Uses the capability of a slot: a Call comes back with the callee's x0, anything else with 0. As the stub in Rust it keeps x19 to x30 on
 * its own stack and hands zeros over in their place, so a callee that faulted and lost them does no harm.
 */
static inline struct bulkhead_answer bulkhead_invoke(uint64_t slot, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                                     uint64_t f, uint64_t g, uint64_t h) {
    register uint64_t x0 __asm__("x0") = a;
    register uint64_t x1 __asm__("x1") = b;
    register uint64_t x2 __asm__("x2") = c;
    register uint64_t x3 __asm__("x3") = d;
    register uint64_t x4 __asm__("x4") = e;
    register uint64_t x5 __asm__("x5") = f;
    register uint64_t x6 __asm__("x6") = g;
    register uint64_t x7 __asm__("x7") = h;
    register uint64_t x8 __asm__("x8") = slot;
    __asm__ volatile("stp x29, x30, [sp, #-96]!\n\t"
                     "stp x19, x20, [sp, #16]\n\t"
                     "stp x21, x22, [sp, #32]\n\t"
                     "stp x23, x24, [sp, #48]\n\t"
                     "stp x25, x26, [sp, #64]\n\t"
                     "stp x27, x28, [sp, #80]\n\t"
                     "mov x19, xzr\n\tmov x20, xzr\n\tmov x21, xzr\n\tmov x22, xzr\n\t"
                     "mov x23, xzr\n\tmov x24, xzr\n\tmov x25, xzr\n\tmov x26, xzr\n\t"
                     "mov x27, xzr\n\tmov x28, xzr\n\tmov x29, xzr\n\tmov x30, xzr\n\t"
                     "svc #0\n\t"
                     "ldp x19, x20, [sp, #16]\n\t"
                     "ldp x21, x22, [sp, #32]\n\t"
                     "ldp x23, x24, [sp, #48]\n\t"
                     "ldp x25, x26, [sp, #64]\n\t"
                     "ldp x27, x28, [sp, #80]\n\t"
                     "ldp x29, x30, [sp], #96"
                     : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3), "+r"(x4), "+r"(x5), "+r"(x6), "+r"(x7), "+r"(x8)
                     :
                     : "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", BULKHEAD_LOST_);
    return (struct bulkhead_answer){x8, x8 == BULKHEAD_OK ? x0 : 0};
}

/* Number of parameters behind a name, at most 8; what is behind the pick has a longer list to take it from. */
#define BULKHEAD_PICK_(name, a, b, c, d, e, f, g, h, count, ...) count
#define BULKHEAD_COUNT_(...) BULKHEAD_PICK_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0, )
#define BULKHEAD_JOIN_(a, b) a##b
#define BULKHEAD_JOINED_(a, b) BULKHEAD_JOIN_(a, b)

#define BULKHEAD_RECORD_(section_name, variable, name, parameters, where)                                                         \
    _Static_assert(sizeof #name <= BULKHEAD_NAME_BYTES, "the name of the function is too long");                                  \
    static const struct bulkhead_function variable __attribute__((used, section(section_name))) = {                               \
        #name, BULKHEAD_JOIN_(BULKHEAD_SIGNATURE_, parameters), (uintptr_t)(where)};

/*
 * BULKHEAD_IMPORT(name, parameters...) imports a function of another component: here it is
 * `static inline struct bulkhead_answer name(uint64_t parameters...)`. The description of the instance says whose it is.
 */
#define BULKHEAD_IMPORT(...) BULKHEAD_JOINED_(BULKHEAD_IMPORT_, BULKHEAD_COUNT_(__VA_ARGS__))(__VA_ARGS__)

/*
 * The slot's number is written by the host. The word is made by the assembler: of one that the compiler knows it would assume the value,
 * and that two functions with equal words are one function.
 */
#define BULKHEAD_IMPORTED_(name, parameters)                                                                                      \
    __asm__(".pushsection .rodata.bulkhead_slots, \"a\"\n\t"                                                                     \
            ".balign 8\n"                                                                                                         \
            "bulkhead_slot_" #name ":\n\t"                                                                                        \
            ".quad 0\n\t"                                                                                                         \
            ".popsection");                                                                                                       \
    extern const volatile uint64_t bulkhead_slot_##name;                                                                          \
    BULKHEAD_RECORD_(".bulkhead.imports", bulkhead_import_##name, name, parameters, &bulkhead_slot_##name)

#define BULKHEAD_SLOT_(name) bulkhead_slot_##name
#define BULKHEAD_STUB_(name) static inline struct bulkhead_answer name

#define BULKHEAD_IMPORT_0(name)                                                                                                   \
    BULKHEAD_IMPORTED_(name, 0)                                                                                                   \
    BULKHEAD_STUB_(name)(void) { return bulkhead_invoke(BULKHEAD_SLOT_(name), 0, 0, 0, 0, 0, 0, 0, 0); }
#define BULKHEAD_IMPORT_1(name, a)                                                                                                \
    BULKHEAD_IMPORTED_(name, 1)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a) { return bulkhead_invoke(BULKHEAD_SLOT_(name), a, 0, 0, 0, 0, 0, 0, 0); }
#define BULKHEAD_IMPORT_2(name, a, b)                                                                                             \
    BULKHEAD_IMPORTED_(name, 2)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b) { return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, 0, 0, 0, 0, 0, 0); }
#define BULKHEAD_IMPORT_3(name, a, b, c)                                                                                          \
    BULKHEAD_IMPORTED_(name, 3)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b, uint64_t c) {                                                                    \
        return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, c, 0, 0, 0, 0, 0);                                                     \
    }
#define BULKHEAD_IMPORT_4(name, a, b, c, d)                                                                                       \
    BULKHEAD_IMPORTED_(name, 4)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {                                                        \
        return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, c, d, 0, 0, 0, 0);                                                     \
    }
#define BULKHEAD_IMPORT_5(name, a, b, c, d, e)                                                                                    \
    BULKHEAD_IMPORTED_(name, 5)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e) {                                            \
        return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, c, d, e, 0, 0, 0);                                                     \
    }
#define BULKHEAD_IMPORT_6(name, a, b, c, d, e, f)                                                                                 \
    BULKHEAD_IMPORTED_(name, 6)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {                                \
        return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, c, d, e, f, 0, 0);                                                     \
    }
#define BULKHEAD_IMPORT_7(name, a, b, c, d, e, f, g)                                                                              \
    BULKHEAD_IMPORTED_(name, 7)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g) {                    \
        return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, c, d, e, f, g, 0);                                                     \
    }
#define BULKHEAD_IMPORT_8(name, a, b, c, d, e, f, g, h)                                                                           \
    BULKHEAD_IMPORTED_(name, 8)                                                                                                   \
    BULKHEAD_STUB_(name)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {        \
        return bulkhead_invoke(BULKHEAD_SLOT_(name), a, b, c, d, e, f, g, h);                                                     \
    }

/*
 * BULKHEAD_EXPORT(name, token, parameters...) { body } exports `uint64_t name(uint64_t token, uint64_t parameters...)`: the token is what
 * the caller's capability says of it.
 */
#define BULKHEAD_EXPORT(...) BULKHEAD_JOINED_(BULKHEAD_EXPORT_, BULKHEAD_COUNTED_(__VA_ARGS__))(__VA_ARGS__)
/* The token is no parameter of the function's signature. */
#define BULKHEAD_COUNTED_(name, ...) BULKHEAD_COUNT_(__VA_ARGS__)

/*
 * The kernel enters on a stack of this component with the token in x8; of nine arguments the last one lies on the stack. Neither
 * answers nor what was computed passes to the caller but x0.
 */
#define BULKHEAD_EXPORTED_(name, parameters, declared, given)                                                                     \
    static uint64_t name declared;                                                                                                \
    __attribute__((used)) static uint64_t bulkhead_body_##name(uint64_t x0, uint64_t x1, uint64_t x2, uint64_t x3, uint64_t x4,    \
                                                               uint64_t x5, uint64_t x6, uint64_t x7, uint64_t x8) {              \
        (void)x0, (void)x1, (void)x2, (void)x3, (void)x4, (void)x5, (void)x6, (void)x7;                                           \
        return name given;                                                                                                        \
    }                                                                                                                             \
    __asm__(".pushsection .text.bulkhead_entry_" #name ", \"ax\"\n\t"                                                             \
            ".balign 4\n"                                                                                                         \
            "bulkhead_entry_" #name ":\n\t"                                                                                       \
            "str x8, [sp, #-16]!\n\t"                                                                                             \
            "bl bulkhead_body_" #name "\n\t"                                                                                      \
            "mov x1, #0\n\tmov x2, #0\n\tmov x3, #0\n\tmov x4, #0\n\tmov x5, #0\n\tmov x6, #0\n\tmov x7, #0\n\t"                  \
            "svc #1\n\t"                                                                                                          \
            "brk #0\n\t"                                                                                                          \
            ".popsection");                                                                                                       \
    extern const char bulkhead_entry_##name[];                                                                                    \
    BULKHEAD_RECORD_(".bulkhead.exports", bulkhead_export_##name, name, parameters, bulkhead_entry_##name)                        \
    static uint64_t name declared

#define BULKHEAD_TOKEN_(token) uint64_t token __attribute__((unused))

#define BULKHEAD_EXPORT_0(name, t) BULKHEAD_EXPORTED_(name, 0, (BULKHEAD_TOKEN_(t)), (x8))
#define BULKHEAD_EXPORT_1(name, t, a) BULKHEAD_EXPORTED_(name, 1, (BULKHEAD_TOKEN_(t), uint64_t a), (x8, x0))
#define BULKHEAD_EXPORT_2(name, t, a, b) BULKHEAD_EXPORTED_(name, 2, (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b), (x8, x0, x1))
#define BULKHEAD_EXPORT_3(name, t, a, b, c)                                                                                       \
    BULKHEAD_EXPORTED_(name, 3, (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b, uint64_t c), (x8, x0, x1, x2))
#define BULKHEAD_EXPORT_4(name, t, a, b, c, d)                                                                                    \
    BULKHEAD_EXPORTED_(name, 4, (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b, uint64_t c, uint64_t d), (x8, x0, x1, x2, x3))
#define BULKHEAD_EXPORT_5(name, t, a, b, c, d, e)                                                                                 \
    BULKHEAD_EXPORTED_(name, 5, (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e),                 \
                       (x8, x0, x1, x2, x3, x4))
#define BULKHEAD_EXPORT_6(name, t, a, b, c, d, e, f)                                                                              \
    BULKHEAD_EXPORTED_(name, 6, (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f),     \
                       (x8, x0, x1, x2, x3, x4, x5))
#define BULKHEAD_EXPORT_7(name, t, a, b, c, d, e, f, g)                                                                           \
    BULKHEAD_EXPORTED_(name, 7,                                                                                                   \
                       (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g),  \
                       (x8, x0, x1, x2, x3, x4, x5, x6))
#define BULKHEAD_EXPORT_8(name, t, a, b, c, d, e, f, g, h)                                                                        \
    BULKHEAD_EXPORTED_(name, 8,                                                                                                   \
                       (BULKHEAD_TOKEN_(t), uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,   \
                        uint64_t h),                                                                                              \
                       (x8, x0, x1, x2, x3, x4, x5, x6, x7))

#define BULKHEAD_TEXT_(value) #value
#define BULKHEAD_TEXTED_(value) BULKHEAD_TEXT_(value)

/*
 * BULKHEAD_ENTRY(main) names the component's main function, `static void main(uint64_t)`: the argument is the thread's. When it returns, the
 * thread ends. Once in a component: it makes the head by which the host knows the file.
 */
#define BULKHEAD_ENTRY(main_function)                                                                                             \
    static void main_function(uint64_t argument);                                                                                 \
    __attribute__((used)) static void bulkhead_component_main(uint64_t argument) { main_function(argument); }                     \
    __asm__(".pushsection .text.component_head, \"ax\"\n\t"                                                                       \
            ".balign 16\n\t"                                                                                                      \
            ".quad " BULKHEAD_TEXTED_(BULKHEAD_COMPONENT_MAGIC) "\n\t"                                                            \
            ".word " BULKHEAD_TEXTED_(BULKHEAD_KERNEL_ABI_VERSION) "\n\t"                                                         \
            ".word 0\n\t"                                                                                                         \
            ".globl bulkhead_component_entry\n"                                                                                   \
            "bulkhead_component_entry:\n\t"                                                                                       \
            "mov x29, xzr\n\t"                                                                                                    \
            "mov x30, xzr\n\t"                                                                                                    \
            "bl bulkhead_component_main\n\t"                                                                                      \
            "svc #1\n\t"                                                                                                          \
            "brk #0\n\t"                                                                                                          \
            ".popsection");

#endif /* __aarch64__ */

#endif /* BULKHEAD_COMPONENT_H */
