/*
 * Counts what is executed at EL3: each direction of each conditional branch, and the length of each way through it.
 *
 * What is an instruction at EL3: one that lies in the text of the secure monitor, which is executed in place, at the front of the flash
 * file. QEMU tells a plugin where in its own address space an instruction lies. All cores leave reset at the first byte of the flash with
 * translation off, so the first block that QEMU translates at all tells where the flash lies there; its address is checked, and its bytes
 * are compared when the results are read. Addresses as cores see them would not do: 0 is something else to a non-secure world
 * with translation on. Nobody but EL3 executes the text: the payload's tables map flash as never executable, and the
 * other world cannot reach it.
 *
 * What is exact: each instruction of the text is counted as it begins. EL3 masks everything and its instructions do not fault, so the
 * next one that the core executes is the next one here, and says which direction a branch took. A passage begins with the first
 * instruction after an ERET and ends with an ERET; its way is its first instruction and what its branches decided.
 *
 * Results live in a file that the host maps too, one block per core, written by that core alone. To be used with instruction counting,
 * where cores take turns in one thread: the place of the flash is found without a lock.
 *
 * Arguments: results=FILE  text=BYTES  branch=ADDRESS-TARGET (may repeat)
 */
#include "qemu_plugin_api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESULTS_MAGIC 0x31303031334c4542ull /* "BEL31001" */
#define MAX_BRANCHES 16
#define MAX_WAYS 32
#define MAX_TEXT 4096
#define NO_BRANCH MAX_BRANCHES
#define CODE_ERET 0xd69f03e0u

PLUGIN_EXPORT int qemu_plugin_version = PLUGIN_API_VERSION;

struct head {
    uint64_t magic;
    uint64_t cores;
    uint64_t block_words;
    uint64_t found; /* 1 once the flash was found, 2 when the first block was not that of reset */
    uint8_t text[MAX_TEXT]; /* the bytes of what was executed, as QEMU fetched them */
};

struct branch {
    uint64_t executed;
    uint64_t taken;
    uint64_t not_taken;
};

/* A way: its first instruction, and for each branch in order (2 * index + taken + 1) in five bits. */
struct way {
    uint64_t start;
    uint64_t decisions;
    uint64_t count;
    uint64_t shortest;
    uint64_t longest;
};

struct block {
    struct branch branches[MAX_BRANCHES];
    struct way ways[MAX_WAYS];
    uint64_t elsewhere; /* instructions behind a branch that are in neither of its directions; passages without a place */
    uint64_t instructions;
    /* The passage under way. */
    uint64_t under_way; /* an instruction of it was executed, and no ERET yet */
    uint64_t start;
    uint64_t decisions;
    uint64_t steps;
    uint64_t latest; /* index of the branch that was just executed, plus one; 0 = the latest instruction was none */
    uint64_t pad;
} __attribute__((aligned(64)));

struct place {
    uint64_t address;
    uint64_t target;
};

static struct head *head;
static struct block *blocks;
static struct place branches[MAX_BRANCHES];
static size_t branch_count;
static uint64_t text_bytes;
static uintptr_t flash; /* written once, when nothing was executed yet */

#define IS_ERET 0x10000u

static void decide(struct block *block, size_t index, uint64_t address) {
    struct branch *branch = &block->branches[index];
    uint64_t taken = address == branches[index].target;
    if (taken)
        branch->taken++;
    else if (address == branches[index].address + 4)
        branch->not_taken++;
    else
        block->elsewhere++;
    block->decisions = block->decisions << 5 | (2 * index + taken + 1);
}

static void end_passage(struct block *block) {
    for (size_t index = 0; index < MAX_WAYS; index++) {
        struct way *way = &block->ways[index];
        if (way->count == 0)
            *way = (struct way){block->start, block->decisions, 0, block->steps, block->steps};
        if (way->start == block->start && way->decisions == block->decisions) {
            way->count++;
            if (block->steps < way->shortest)
                way->shortest = block->steps;
            if (block->steps > way->longest)
                way->longest = block->steps;
            return;
        }
    }
    block->elsewhere++;
}

static void on_instruction(unsigned int core, void *data) {
    uint64_t word = (uint64_t)(uintptr_t)data, address = word & 0xffff;
    struct block *block = &blocks[core];
    block->instructions++;
    if (block->latest != 0)
        decide(block, block->latest - 1, address);
    block->latest = 0;
    if (!block->under_way) {
        block->under_way = 1;
        block->start = address;
        block->decisions = block->steps = 0;
    }
    block->steps++;
    for (size_t index = 0; index < branch_count; index++)
        if (branches[index].address == address) {
            block->branches[index].executed++;
            block->latest = index + 1;
        }
    if (word & IS_ERET) {
        end_passage(block);
        block->under_way = 0;
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t total = qemu_plugin_tb_n_insns(block);
    if (head->found == 0 && total != 0) {
        struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(block, 0);
        flash = (uintptr_t)qemu_plugin_insn_haddr(first);
        head->found = qemu_plugin_insn_vaddr(first) == 0 && flash != 0 ? 1 : 2;
    }
    if (head->found != 1)
        return;
    for (size_t index = 0; index < total; index++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, index);
        uintptr_t place = (uintptr_t)qemu_plugin_insn_haddr(instruction);
        if (place < flash || place - flash >= text_bytes)
            continue;
        uint64_t address = place - flash;
        uint32_t code;
        memcpy(&code, qemu_plugin_insn_data(instruction), sizeof code);
        memcpy(head->text + address, &code, sizeof code);
        uint64_t word = address | (code == CODE_ERET ? IS_ERET : 0);
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction, QEMU_PLUGIN_CB_NO_REGS,
                                               (void *)(uintptr_t)word);
    }
}

static int refuse(const char *what, const char *argument) {
    fprintf(stderr, "bulkhead EL3 plugin: %s: %s\n", what, argument);
    return 1;
}

/* Returns the value if the argument is `key=value`. */
static const char *value_of(const char *argument, const char *key) {
    size_t length = strlen(key);
    return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static bool add_branch(const char *text) {
    char *rest;
    uint64_t address = strtoull(text, &rest, 0);
    if (branch_count == MAX_BRANCHES || *rest != '-')
        return false;
    uint64_t target = strtoull(rest + 1, &rest, 0);
    if (*rest != '\0')
        return false;
    branches[branch_count++] = (struct place){address, target};
    return true;
}

static int map_results(const char *path, uint64_t cores) {
    size_t bytes = sizeof(struct head) + cores * sizeof(struct block);
    int file = open(path, O_RDWR);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        return refuse("cannot open the results file", path);
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapping == MAP_FAILED)
        return refuse("cannot map the results file", path);
    head = mapping;
    blocks = (struct block *)(head + 1);
    head->cores = cores;
    head->block_words = sizeof(struct block) / sizeof(uint64_t);
    __atomic_store_n(&head->magic, RESULTS_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    const char *results = NULL, *value;
    for (int index = 0; index < argc; index++) {
        if ((value = value_of(argv[index], "results")) != NULL)
            results = value;
        else if ((value = value_of(argv[index], "text")) != NULL)
            text_bytes = strtoull(value, NULL, 0);
        else if ((value = value_of(argv[index], "branch")) != NULL) {
            if (!add_branch(value))
                return refuse("not a branch, or too many", argv[index]);
        } else
            return refuse("unknown argument", argv[index]);
    }
    if (!info->system_emulation || results == NULL || text_bytes == 0 || text_bytes > MAX_TEXT)
        return refuse("needs system emulation and arguments", "results=FILE text=BYTES");
    if (map_results(results, (uint64_t)info->system.max_vcpus) != 0)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
