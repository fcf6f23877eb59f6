/*
 * What is made at run time, for components of the real-time kernel in C: processes from programs of the image, and memory from a quota. The same calls as
 * `sdk/component/src/process.rs` has for Rust. Every function answers a code of bulkhead_component.h; one that is not BULKHEAD_OK has changed nothing.
 */
#ifndef BULKHEAD_PROCESS_H
#define BULKHEAD_PROCESS_H

#include "bulkhead_component.h"

/* Slots of a process, and the one in which it has its own quota. */
#define BULKHEAD_PROCESS_SLOTS 64
#define BULKHEAD_PROCESS_QUOTA_SLOT 1

/* What a process is given of the quota that it is made from. */
struct bulkhead_share {
    uint32_t pages;     /* of the pool, those that it begins with among them */
    uint8_t components; /* that it may make; each takes a thread as well */
    uint8_t threads;
    uint8_t regions; /* of memory */
};

/* What of its maker's table a new process is made of, and where the maker has it: slots. */
struct bulkhead_made {
    uint64_t quota; /* the quota that pays */
    uint64_t payer; /* server or scheduler that pays for its thread */
    uint64_t to;    /* an empty slot, which gets the process */
};

/* A component's latest fault, or how it ended: a number of BULKHEAD_FAULT_, and for BULKHEAD_FAULT_EXITED the code in `syndrome`. */
struct bulkhead_fault {
    uint64_t kind;
    uint64_t thread;
    uint64_t number; /* faults so far, modulo 2^16 */
    uint64_t syndrome;
    uint64_t address;
    uint64_t program_counter;
};

/* What a server may use, and what it has used of it so far, all threads on it together. In ticks of the counter. */
struct bulkhead_server {
    uint64_t budget_ticks; /* in each period */
    uint64_t period_ticks;
    uint64_t used_ticks;
};

/* What of two threads comes back from bulkhead_fork. */
#define BULKHEAD_FORK_CHILD 0
#define BULKHEAD_FORK_PARENT 1

static inline uint64_t bulkhead_share_word(struct bulkhead_share share) {
    return share.pages | (uint64_t)share.components << 32 | (uint64_t)share.threads << 40 | (uint64_t)share.regions << 48;
}

#ifdef __aarch64__

/* Names a slot that the description fills with something that is no function: name() answers its number. */
#define BULKHEAD_SLOT(name)                                                                                                       \
    BULKHEAD_IMPORTED_(name, 0)                                                                                                   \
    static inline uint64_t name(void) { return BULKHEAD_SLOT_(name); }

/*
 * Makes a process of a program by its number, whose thread finds `argument` (48 bits) as its argument, and gives it the capabilities of `count` slots from
 * `first` on, from its slot 2 on. Stores the bits by which the caller's end point is told its end. BULKHEAD_FULL, BULKHEAD_DENIED, BULKHEAD_BAD_ARGUMENT.
 */
static inline uint64_t bulkhead_spawn(uint64_t program, uint64_t argument, struct bulkhead_made made, uint64_t first, uint64_t count,
                                      struct bulkhead_share share, uint64_t *bits) {
    uint64_t words[8] = {BULKHEAD_COMPONENT_SPAWN, program | argument << 16, made.quota, made.payer, first, count, made.to,
                         bulkhead_share_word(share)};
    bulkhead_call(BULKHEAD_CALL_COMPONENT, words);
    *bits = words[1];
    return words[0];
}

/*
 * Makes a copy of the caller's process: what it may write is copied now, and both continue here. Stores which of two this is, BULKHEAD_FORK_CHILD or
 * BULKHEAD_FORK_PARENT, and in the parent the bits by which its end point is told the child's end. BULKHEAD_DENIED for a component of the host, or
 * inside a call; BULKHEAD_BUSY with a second thread; otherwise as bulkhead_spawn. The child's floating-point registers are zeros.
 */
static inline uint64_t bulkhead_fork(struct bulkhead_made made, struct bulkhead_share share, uint64_t *which, uint64_t *bits) {
    uint64_t words[8] = {BULKHEAD_COMPONENT_FORK, made.quota, made.payer, made.to, bulkhead_share_word(share)};
    BULKHEAD_CALL_(BULKHEAD_CALL_COMPONENT, words, BULKHEAD_LOST_);
    *which = words[1];
    *bits = words[2];
    return words[0];
}

/* Replaces the memory of the caller's process by a program's, whose thread finds `argument`. Comes back with a code that is not BULKHEAD_OK only. */
static inline uint64_t bulkhead_exec(uint64_t program, uint64_t argument) {
    uint64_t words[8] = {BULKHEAD_COMPONENT_EXEC, program, argument};
    bulkhead_call(BULKHEAD_CALL_COMPONENT, words);
    return words[0];
}

/* Ends the caller's component; its maker is told, and finds the code in the record of its fault. */
static inline _Noreturn void bulkhead_exit(uint64_t code) {
    for (;;) {
        uint64_t words[8] = {BULKHEAD_COMPONENT_EXIT, code};
        bulkhead_call(BULKHEAD_CALL_COMPONENT, words);
    }
}

/* Reads the latest fault of the component of a slot. BULKHEAD_DENIED without a right to read; BULKHEAD_GONE. */
static inline uint64_t bulkhead_component_fault(uint64_t slot, struct bulkhead_fault *fault) {
    uint64_t words[8] = {BULKHEAD_COMPONENT_FAULT, slot};
    bulkhead_call(BULKHEAD_CALL_COMPONENT, words);
    *fault = (struct bulkhead_fault){words[1], words[2], words[3], words[4], words[5], words[6]};
    return words[0];
}

/* Reads what the server of a slot has used, up to this call; zeros with a code. BULKHEAD_DENIED without a right to read. */
static inline uint64_t bulkhead_server_read(uint64_t slot, struct bulkhead_server *server) {
    uint64_t words[8] = {BULKHEAD_SERVER_READ, slot};
    bulkhead_call(BULKHEAD_CALL_SERVER, words);
    if (words[0] != BULKHEAD_OK) {
        words[1] = words[2] = words[3] = 0;
    }
    *server = (struct bulkhead_server){words[1], words[2], words[3]};
    return words[0];
}

/* Begins the component of a slot again: who is inside is brought out, and its first thread starts. */
static inline uint64_t bulkhead_component_reset(uint64_t slot) {
    uint64_t words[8] = {BULKHEAD_COMPONENT_RESET, slot};
    bulkhead_call(BULKHEAD_CALL_COMPONENT, words);
    return words[0];
}

/* Empties a slot. */
static inline uint64_t bulkhead_capability_delete(uint64_t slot) {
    uint64_t words[8] = {BULKHEAD_CAPABILITY_DELETE, 0, slot};
    bulkhead_call(BULKHEAD_CALL_CAPABILITY, words);
    return words[0];
}

/* Copies the capability of a slot into an empty one, with these rights (BULKHEAD_RIGHT_) at most. */
static inline uint64_t bulkhead_capability_copy(uint64_t slot, uint64_t to, uint64_t rights) {
    uint64_t words[8] = {BULKHEAD_CAPABILITY_COPY, 0, slot, 0, to, rights};
    bulkhead_call(BULKHEAD_CALL_CAPABILITY, words);
    return words[0];
}

/* Takes the process of a slot apart, and first those that were made from its quota, and empties the slot. */
static inline uint64_t bulkhead_destroy(uint64_t slot) {
    uint64_t words[8] = {BULKHEAD_COMPONENT_DESTROY, slot};
    bulkhead_call(BULKHEAD_CALL_COMPONENT, words);
    return words[0] == BULKHEAD_OK ? bulkhead_capability_delete(slot) : words[0];
}

/* Makes a region of this number of pages, which are zeros when they are mapped first and are the quota's until then. */
static inline uint64_t bulkhead_region_create(uint64_t quota, uint64_t pages, uint64_t to) {
    uint64_t words[8] = {BULKHEAD_MEMORY_CREATE, quota, pages, to};
    bulkhead_call(BULKHEAD_CALL_MEMORY, words);
    return words[0];
}

/* Maps pages of the region of a slot from its page `first` on at an address, with rights (BULKHEAD_RIGHT_). Stores how many are mapped, 0 with a code. */
static inline uint64_t bulkhead_map(uint64_t slot, uint64_t first, uint64_t address, uint64_t pages, uint64_t rights, uint64_t *mapped) {
    uint64_t words[8] = {BULKHEAD_MEMORY_MAP, slot, first, address, pages, rights};
    bulkhead_call(BULKHEAD_CALL_MEMORY, words);
    *mapped = words[0] == BULKHEAD_OK ? words[1] : 0;
    return words[0];
}

/* Takes pages out of the map. Stores how many. */
static inline uint64_t bulkhead_unmap(uint64_t address, uint64_t pages, uint64_t *unmapped) {
    uint64_t words[8] = {BULKHEAD_MEMORY_UNMAP, 0, address, pages};
    bulkhead_call(BULKHEAD_CALL_MEMORY, words);
    *unmapped = words[0] == BULKHEAD_OK ? words[1] : 0;
    return words[0];
}

/* Leaves these rights of mapped pages. Stores of how many. */
static inline uint64_t bulkhead_protect(uint64_t address, uint64_t pages, uint64_t rights, uint64_t *changed) {
    uint64_t words[8] = {BULKHEAD_MEMORY_PROTECT, 0, address, pages, rights};
    bulkhead_call(BULKHEAD_CALL_MEMORY, words);
    *changed = words[0] == BULKHEAD_OK ? words[1] : 0;
    return words[0];
}

/* Puts a capability to a part of a region into an empty slot, with these rights at most. */
static inline uint64_t bulkhead_share_region(uint64_t slot, uint64_t first, uint64_t pages, uint64_t rights, uint64_t to) {
    uint64_t words[8] = {BULKHEAD_MEMORY_SHARE, slot, first, pages, rights, to};
    bulkhead_call(BULKHEAD_CALL_MEMORY, words);
    return words[0];
}

#endif /* __aarch64__ */

#endif /* BULKHEAD_PROCESS_H */
