/*
 * Counts all instructions of a machine of one core, and among them those of the secure world: EL3 and S-EL1.
 *
 * What is an instruction of the secure world: one that a core fetches from a given range of addresses, where the flash and the secure RAM
 * are. EL3 runs with translation off and the payload's tables map its program at its own address; Linux has its kernel in the upper half
 * and links no program to these addresses. Blocks of translated code are counted when they are entered, which is exact for the secure
 * world: nothing in it faults. A block of Linux that a fault leaves early counts in full.
 *
 * Results live in a file that the host reads at the end: magic, all, secure.
 *
 * Arguments: results=FILE  secure=START-END (up to four)
 */
#include "qemu_plugin_api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESULTS_MAGIC 0x3130303145524853ull /* "SHRE1001" */
#define MAX_RANGES 4
#define IS_SECURE 0x10000u

PLUGIN_EXPORT int qemu_plugin_version = PLUGIN_API_VERSION;

struct results {
    uint64_t magic;
    uint64_t all;
    uint64_t secure;
};

static struct results *results;
static struct {
    uint64_t start, end;
} ranges[MAX_RANGES];
static size_t range_count;

static void on_block(unsigned int core, void *data) {
    (void)core;
    uint64_t word = (uint64_t)(uintptr_t)data, count = word & (IS_SECURE - 1);
    results->all += count;
    if (word & IS_SECURE)
        results->secure += count;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    uint64_t word = qemu_plugin_tb_n_insns(block);
    uint64_t address = word == 0 ? 0 : qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0));
    for (size_t index = 0; index < range_count; index++)
        if (ranges[index].start <= address && address < ranges[index].end)
            word |= IS_SECURE;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)word);
}

static int refuse(const char *what, const char *argument) {
    fprintf(stderr, "bulkhead share plugin: %s: %s\n", what, argument);
    return 1;
}

/* Returns the value if the argument is `key=value`. */
static const char *value_of(const char *argument, const char *key) {
    size_t length = strlen(key);
    return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static bool add_range(const char *text) {
    char *rest;
    uint64_t start = strtoull(text, &rest, 0);
    if (range_count == MAX_RANGES || *rest != '-')
        return false;
    ranges[range_count].start = start;
    ranges[range_count++].end = strtoull(rest + 1, &rest, 0);
    return *rest == '\0';
}

static int map_results(const char *path) {
    int file = open(path, O_RDWR);
    if (file < 0 || ftruncate(file, sizeof(struct results)) != 0)
        return refuse("cannot open the results file", path);
    void *mapping = mmap(NULL, sizeof(struct results), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapping == MAP_FAILED)
        return refuse("cannot map the results file", path);
    results = mapping;
    results->magic = RESULTS_MAGIC;
    return 0;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    const char *path = NULL, *value;
    for (int index = 0; index < argc; index++) {
        if ((value = value_of(argv[index], "results")) != NULL)
            path = value;
        else if ((value = value_of(argv[index], "secure")) == NULL || !add_range(value))
            return refuse("unknown argument, not a range, or too many", argv[index]);
    }
    if (!info->system_emulation || info->system.max_vcpus != 1 || path == NULL || range_count == 0)
        return refuse("needs system emulation with one core, and arguments", "results=FILE secure=START-END");
    if (map_results(path) != 0)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
