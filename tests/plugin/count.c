/*
 * Counts instructions per core, and among them those fetched from given ranges of physical memory.
 *
 * Why physical: the monitor's text and a guest's text can have the same virtual address, but never the same place in RAM.
 * QEMU tells a plugin where in its own address space an instruction lies; the start of the mapping of the RAM file turns
 * that into a physical address. So "instructions in monitor text" means instructions at EL2, whatever the guests do.
 *
 * What is exact: instructions in a counted range are counted one by one as they begin to execute, also those that then
 * fault. Everything else is counted per translated block when it is entered, so a block left early by a fault counts in
 * full; `exact=on` counts those one by one too, at several times the cost.
 *
 * Passages: a run of counted instructions between two looks for interrupts, that is, at most one visit of the monitor. It ends
 * with an ERET (interrupts are unmasked in the guest), a WFI or a read of ISR_EL1 (the monitor looks by itself), all known by
 * their encodings. A passage that leaves another guest running than the one that it interrupted, or that executed WFI, is a
 * switch; starts and ends of guests are none. `apart` ranges belong to passages and not to switches: work that the monitor
 * does now and then, on the way. Counted from a core's first guest instruction on.
 *
 * Reactions: what a guest's handler waits for on its core. From the last instruction of any guest (or the look for interrupts before the
 * last one: an interrupt that arrived between the two waited from there) to the first instruction of a `handler`, the instructions of
 * the monitor. The guests on the core have to be in the arming ranges. A handler that its own guest masks is not waited for by this.
 *
 * Milestones: instructions of the monitor from a passage's first one up to the last one in a `milestone` range, as a function that decides or an
 * instruction that sends; summed over the passages that executed one, so that two readings say what lies between them.
 *
 * Results live in a file that the host maps too: one line of words per core, written by that core's thread alone. So they
 * can be read at any time, and survive any end of QEMU. Layout: see `struct head` and `struct block`.
 *
 * Arguments: counts=FILE  bank=START-END (may repeat)  range=START-END (may repeat)  after=START-END (may repeat)
 *            apart=START-END (may repeat)  handler=ADDRESS (may repeat)  milestone=START-END (may repeat)
 *            exact=on
 * The `after` ranges arm a core: from the first block fetched there on, the words "since" count as well.
 */
#include "qemu_plugin_api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNTS_MAGIC 0x3430544e43494842ull /* "BHICNT04" */
#define MAX_RANGES 8
#define NO_RANGE MAX_RANGES

PLUGIN_EXPORT int qemu_plugin_version = PLUGIN_API_VERSION;

struct head {
    uint64_t magic;
    uint64_t cores;
    uint64_t ranges;
    uint64_t block_words;
    uint64_t ram_found; /* 1 once the RAM mapping was found; counts in ranges mean nothing before */
    uint64_t reserved[3];
};

/* What passages a core made; 0 where there was none. */
struct passages {
    uint64_t count;
    uint64_t longest;
    uint64_t longest_start; /* physical address of its first instruction */
    uint64_t longest_apart; /* most instructions of one call of an `apart` range */
    uint64_t switches;
    uint64_t longest_switch;
    uint64_t shortest_enter, longest_enter; /* of switches, up to the first read of the counter */
    uint64_t shortest_leave, longest_leave; /* and from there on */
    uint64_t longest_interrupt; /* of those that took an interrupt and went on with the same guest */
    uint64_t shortest_chained; /* of those that took one and were followed by another before a guest's instruction */
    uint64_t longest_after; /* of switches that read the counter more than once, from the last time on */
    uint64_t reactions; /* how often the handler was entered */
    uint64_t longest_reaction; /* instructions of the monitor in front of it */
    uint64_t milestones; /* passages that executed something in a `milestone` range */
    uint64_t milestone_sum; /* instructions up to the last one in it, of all of them */
};

/* The passage under way. */
struct passage {
    uint64_t instructions;
    uint64_t apart;
    uint64_t apart_call; /* of the latest call of an `apart` range: a core that becomes idle may make a second one */
    uint64_t clock; /* instructions up to the first read of the counter; 0 = not yet */
    uint64_t clock_again; /* instructions up to the last one after it; 0 = there was none */
    uint64_t start;
    uint64_t left; /* it ended with an ERET; who runs next is not known yet */
    uint64_t guest; /* place of the last guest in the arming ranges, plus one; 0 = nobody since the last WFI */
    uint64_t acknowledged; /* it took an interrupt */
    uint64_t slept; /* the last block of a guest ended with WFI */
    uint64_t since_look; /* instructions since a guest's last one or the last look for interrupts */
    uint64_t before_look; /* and of what that look ended */
    uint64_t milestone; /* instructions up to the last one in a `milestone` range; 0 = not yet */
};

/* One per core; whole cache lines, so that cores do not disturb each other. */
struct block {
    uint64_t all;
    uint64_t armed;
    uint64_t all_since;
    uint64_t waits; /* WFI executed outside the counted ranges */
    uint64_t in_range[MAX_RANGES];
    uint64_t in_range_since[MAX_RANGES];
    struct passages passages;
    struct passage now;
} __attribute__((aligned(64)));

struct range {
    uint64_t start;
    uint64_t end;
};

static struct head *head;
static struct block *blocks;
static struct range counted[MAX_RANGES], arming[MAX_RANGES], apart[MAX_RANGES], milestones[MAX_RANGES];
static size_t counted_count, arming_count, apart_count, milestone_count;
static struct range banks[MAX_RANGES]; /* of RAM, one behind the other in the RAM file */
static size_t bank_count;
static uintptr_t ram_base; /* 0 until found; several threads may look for it at once and find the same */
static uint64_t handlers[MAX_RANGES]; /* the addresses of their first instructions */
static size_t handler_count;
static bool exact;

/* Finds where QEMU mapped the RAM file, by its name: it is unlinked, and no other mapping is called so. */
static uintptr_t find_ram(void) {
    uintptr_t found = __atomic_load_n(&ram_base, __ATOMIC_ACQUIRE);
    if (found != 0)
        return found;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL)
        return 0;
    char line[1024];
    while (found == 0 && fgets(line, sizeof line, maps) != NULL) {
        unsigned long first, offset;
        char flags[8];
        if (sscanf(line, "%lx-%*x %7s %lx", &first, flags, &offset) == 3 && flags[3] == 's' && offset == 0 &&
            strstr(line, "/bulkhead-") != NULL && strstr(line, "/ram (deleted)") != NULL)
            found = first;
    }
    fclose(maps);
    if (found != 0) {
        __atomic_store_n(&ram_base, found, __ATOMIC_RELEASE);
        head->ram_found = 1;
    }
    return found;
}

/* Turns the place of an instruction in QEMU's memory into a physical address; all ones when it is not in RAM. */
static uint64_t physical(const struct qemu_plugin_insn *instruction) {
    uintptr_t place = (uintptr_t)qemu_plugin_insn_haddr(instruction);
    uintptr_t base = find_ram();
    if (base == 0 || place < base)
        return UINT64_MAX;
    uint64_t offset = place - base;
    for (size_t index = 0; index < bank_count; index++) {
        uint64_t bytes = banks[index].end - banks[index].start;
        if (offset < bytes)
            return banks[index].start + offset;
        offset -= bytes;
    }
    return UINT64_MAX;
}

static size_t range_of(const struct range *ranges, size_t count, uint64_t address) {
    for (size_t index = 0; index < count; index++)
        if (address >= ranges[index].start && address < ranges[index].end)
            return index;
    return NO_RANGE;
}

static bool is_handler(uint64_t address) {
    for (size_t index = 0; index < handler_count; index++)
        if (handlers[index] == address)
            return true;
    return false;
}

static inline void count(struct block *block, uint64_t instructions) {
    block->all += instructions;
    if (block->armed)
        block->all_since += instructions;
}

static inline void keep_most(uint64_t *most, uint64_t value) {
    if (value > *most)
        *most = value;
}

static inline void keep_least(uint64_t *least, uint64_t value) {
    if (*least == 0 || value < *least)
        *least = value;
}

/* The passage under way is over and `guest` runs next, or nobody (0). */
static void end_passage(struct block *block, uint64_t guest) {
    struct passage *now = &block->now;
    struct passages *all = &block->passages;
    if (now->instructions != 0 && block->armed) {
        all->count++;
        if (now->instructions > all->longest) {
            all->longest = now->instructions;
            all->longest_start = now->start;
        }
        if (now->milestone != 0) {
            all->milestones++;
            all->milestone_sum += now->milestone;
        }
        uint64_t ours = now->instructions - now->apart;
        if (guest != 0 && guest == now->guest && now->acknowledged)
            keep_most(&all->longest_interrupt, ours);
        if (guest != 0 && now->guest != 0 && guest != now->guest && (now->acknowledged || now->slept)) {
            uint64_t enter = now->clock == 0 ? ours : now->clock;
            all->switches++;
            keep_most(&all->longest_switch, ours);
            keep_least(&all->shortest_enter, enter);
            keep_most(&all->longest_enter, enter);
            keep_least(&all->shortest_leave, ours - enter);
            keep_most(&all->longest_leave, ours - enter);
            if (now->clock_again != 0)
                keep_most(&all->longest_after, ours - now->clock_again);
        }
    }
    now->instructions = now->apart = now->clock = now->clock_again = now->left = now->acknowledged = now->milestone = 0;
}

#define GUEST_MASK 0xffu
#define ENDS_WITH_WFI 0x100u
#define IS_HANDLER 0x200u

/* A guest executes. */
static inline void guest_runs(struct block *block, uint64_t guest) {
    if (block->now.instructions != 0)
        end_passage(block, guest & GUEST_MASK);
    block->now.guest = guest & GUEST_MASK;
    block->now.slept = guest & ENDS_WITH_WFI;
    if (guest & IS_HANDLER) {
        block->passages.reactions++;
        keep_most(&block->passages.longest_reaction, block->now.before_look + block->now.since_look);
    }
    block->now.before_look = block->now.since_look = 0;
}

/* Entering a block: `data` holds how many of its instructions are not counted one by one, and above bit 32 the arming range
 * they are in, plus one. */
static void on_block(unsigned int core, void *data) {
    uint64_t word = (uint64_t)(uintptr_t)data, guest = word >> 32;
    if (guest != 0) {
        guest_runs(&blocks[core], guest);
        blocks[core].armed = 1;
    }
    count(&blocks[core], word & 0xffffffff);
}

/* Beginning an instruction that is counted one by one: `data` holds its range, what it does, and its place in RAM. */
#define READS_CLOCK 0x100u
#define LEAVES 0x200u
#define LOOKS 0x400u
#define APART 0x800u
#define IN_GUEST 0x1000u
#define ACKNOWLEDGES 0x2000u
#define APART_BEGINS 0x4000u
#define MILESTONE 0x8000u
#define PLACE_SHIFT 16 /* above all of these */

static void on_instruction(unsigned int core, void *data) {
    uint64_t word = (uint64_t)(uintptr_t)data;
    size_t index = word & 0xff;
    struct block *block = &blocks[core];
    struct passage *now = &block->now;
    count(block, 1);
    if (index >= MAX_RANGES)
        return;
    block->in_range[index]++;
    if (block->armed)
        block->in_range_since[index]++;
    if (word & IN_GUEST)
        return;
    if (now->left) { /* taken again before the guest began an instruction: who it was is not known */
        if (now->acknowledged && block->armed)
            keep_least(&block->passages.shortest_chained, now->instructions - now->apart);
        end_passage(block, 0);
        now->guest = 0;
    }
    now->since_look++;
    if (now->instructions++ == 0)
        now->start = banks[0].start + (word >> PLACE_SHIFT);
    if (word & APART) {
        now->apart++;
        now->apart_call = word & APART_BEGINS ? 1 : now->apart_call + 1;
        if (block->armed)
            keep_most(&block->passages.longest_apart, now->apart_call);
    }
    if (word & MILESTONE)
        now->milestone = now->instructions;
    if (word & READS_CLOCK)
        *(now->clock == 0 ? &now->clock : &now->clock_again) = now->instructions - now->apart;
    if (word & ACKNOWLEDGES)
        now->acknowledged = 1;
    if (word & LEAVES)
        now->left = 1;
    if (word & LOOKS) {
        now->before_look = now->since_look;
        now->since_look = 0;
        end_passage(block, 0);
        now->guest = 0;
    }
}

#define CODE_WFI 0xd503207fu

static void on_wait(unsigned int core, void *data) {
    (void)data;
    blocks[core].waits++;
}

static uint32_t code_of(const struct qemu_plugin_insn *instruction) {
    uint32_t code;
    memcpy(&code, qemu_plugin_insn_data(instruction), sizeof code);
    return code;
}

/* What an instruction of a counted range means for a passage. */
static uint64_t meaning(const struct qemu_plugin_insn *instruction) {
    uint32_t code = code_of(instruction);
    if (code == 0xd69f03e0) /* ERET */
        return LEAVES;
    if (code == CODE_WFI || (code & ~0x1fu) == 0xd538c100) /* WFI; MRS Xt, ISR_EL1 */
        return LOOKS;
    if ((code & ~0x1fu) == 0xd53be020 || (code & ~0x1fu) == 0xd53be040) /* MRS Xt, CNTPCT_EL0 or CNTVCT_EL0 */
        return READS_CLOCK;
    if ((code & ~0x1fu) == 0xd538cc00) /* MRS Xt, ICC_IAR1_EL1 */
        return ACKNOWLEDGES;
    return 0;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t total = qemu_plugin_tb_n_insns(block);
    uint64_t together = 0, arms = 0;
    for (size_t index = 0; index < total; index++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, index);
        uint64_t address = physical(instruction);
        size_t range = range_of(counted, counted_count, address);
        size_t guest = range_of(arming, arming_count, address);
        if (guest != NO_RANGE)
            arms = (arms & IS_HANDLER) | (is_handler(address) ? IS_HANDLER : 0) | (guest + 1) |
                   (code_of(instruction) == CODE_WFI ? ENDS_WITH_WFI : 0);
        uint64_t word = range;
        if (range != NO_RANGE)
            word |= meaning(instruction) | (address - banks[0].start) << PLACE_SHIFT;
        if (guest != NO_RANGE)
            word |= IN_GUEST;
        size_t aside = range != NO_RANGE ? range_of(apart, apart_count, address) : NO_RANGE;
        if (aside != NO_RANGE)
            word |= APART | (address == apart[aside].start ? APART_BEGINS : 0);
        if (range != NO_RANGE && range_of(milestones, milestone_count, address) != NO_RANGE)
            word |= MILESTONE;
        if (exact || range != NO_RANGE)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction, QEMU_PLUGIN_CB_NO_REGS,
                                                   (void *)(uintptr_t)word);
        else
            together++;
        if (range == NO_RANGE && code_of(instruction) == CODE_WFI)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_wait, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    if (together != 0 || arms != 0)
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)(together | arms << 32));
}

static int refuse(const char *what, const char *argument) {
    fprintf(stderr, "bulkhead counting plugin: %s: %s\n", what, argument);
    return 1;
}

static bool add_range(struct range *ranges, size_t *count, const char *text) {
    char *rest;
    uint64_t start = strtoull(text, &rest, 0);
    if (*count == MAX_RANGES || *rest != '-')
        return false;
    uint64_t end = strtoull(rest + 1, &rest, 0);
    if (*rest != '\0' || start >= end)
        return false;
    ranges[(*count)++] = (struct range){start, end};
    return true;
}

/* Returns the value if the argument is `key=value`. */
static const char *value_of(const char *argument, const char *key) {
    size_t length = strlen(key);
    return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static int map_counts(const char *path, uint64_t cores) {
    size_t bytes = sizeof(struct head) + cores * sizeof(struct block);
    int file = open(path, O_RDWR);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        return refuse("cannot open the counts file", path);
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapping == MAP_FAILED)
        return refuse("cannot map the counts file", path);
    head = mapping;
    blocks = (struct block *)(head + 1);
    head->cores = cores;
    head->ranges = counted_count;
    head->block_words = sizeof(struct block) / sizeof(uint64_t);
    __atomic_store_n(&head->magic, COUNTS_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    const char *counts = NULL, *value;
    for (int index = 0; index < argc; index++) {
        if ((value = value_of(argv[index], "counts")) != NULL)
            counts = value;
        else if ((value = value_of(argv[index], "bank")) != NULL) {
            if (!add_range(banks, &bank_count, value))
                return refuse("not a range, or too many", argv[index]);
        }
        else if ((value = value_of(argv[index], "handler")) != NULL) {
            if (handler_count == MAX_RANGES)
                return refuse("too many", argv[index]);
            handlers[handler_count++] = strtoull(value, NULL, 0);
        }
        else if ((value = value_of(argv[index], "exact")) != NULL)
            exact = strcmp(value, "on") == 0;
        else if ((value = value_of(argv[index], "range")) != NULL) {
            if (!add_range(counted, &counted_count, value))
                return refuse("not a range, or too many", argv[index]);
        } else if ((value = value_of(argv[index], "after")) != NULL) {
            if (!add_range(arming, &arming_count, value))
                return refuse("not a range, or too many", argv[index]);
        } else if ((value = value_of(argv[index], "apart")) != NULL) {
            if (!add_range(apart, &apart_count, value))
                return refuse("not a range, or too many", argv[index]);
        } else if ((value = value_of(argv[index], "milestone")) != NULL) {
            if (!add_range(milestones, &milestone_count, value))
                return refuse("not a range, or too many", argv[index]);
        } else
            return refuse("unknown argument", argv[index]);
    }
    if (!info->system_emulation || counts == NULL)
        return refuse("needs system emulation and an argument", "counts=FILE");
    if (map_counts(counts, (uint64_t)info->system.max_vcpus) != 0)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
