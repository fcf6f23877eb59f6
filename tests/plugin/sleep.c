/*
 * Makes a guest's sleep as exact as its work under `-icount sleep=off`.
 *
 * What is wrong without it (QEMU 7.2, read in softmmu/icount.c and accel/tcg/tcg-accel-ops-rr.c, and seen): a core that executes
 * WFI marks itself halted first and adds the instructions that it executed to the virtual clock afterwards, without the lock of
 * the main loop. When the main loop's thread runs in between, it sees every core asleep, takes the clock as it was before those
 * instructions, and moves it to the next timer. Then they are added, and the interrupt that ends the sleep is late by them. The
 * main loop does run there now and then, because QEMU notifies it twice of each sleep; how often depends on the host.
 *
 * What this does: before a WFI is executed it waits until the main loop's thread sleeps in poll without a time limit. Nobody but the
 * core itself wakes it from there as long as the control connection is silent, so the gap above is closed. It is a wait for a
 * condition and not for a time; it changes nothing that a guest could see but the lateness.
 */
#include "qemu_plugin_api.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CODE_WFI 0xd503207fu
/* A main loop that never sleeps without a limit, as with a display, would be waited for in vain. */
#define PATIENCE_S 20
#define TEXT_BYTES 512

PLUGIN_EXPORT int qemu_plugin_version = PLUGIN_API_VERSION;

/* Says in which system call the main loop's thread sleeps; "running" when it does not. */
static int main_loop = -1;
/* Its state, after the name in brackets: S when it sleeps and nobody has woken it. */
static int main_loop_state = -1;
static bool given_up; /* cores take turns in one thread under -icount, so this has one writer */

/* Reads what such a file says now, as a string of TEXT_BYTES. */
static bool look(int file, char *text) {
    ssize_t length = pread(file, text, TEXT_BYTES - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/*
 * Linux shows the system call also of a thread that was woken and is not on its processor's queue yet (TASK_WAKING is a state as any
 * other to task_current_syscall in lib/syscall.c), and as running in its state (fs/proc/array.c). The state is looked at first: nobody
 * but this core wakes the thread, so that one that sleeps now has no notification on its way to it. Without this one run in a
 * hundred of fifty thousand sleeps had a late one, beside two busy emulators on two cores.
 */
static bool is_asleep(void) {
    char text[TEXT_BYTES];
    const char *name_end = look(main_loop_state, text) ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

/* Waiting in poll for an event, or by a condition variable for the cores to stop: then a core that waits would be waited for. */
static bool sleeps_without_limit(void) {
    char text[TEXT_BYTES];
    if (!look(main_loop, text))
        return false;
    long call;
    unsigned long second, third;
    if (sscanf(text, "%ld %*x %lx %lx", &call, &second, &third) != 3)
        return false;
    return (call == SYS_ppoll && third == 0) || (call == SYS_futex && (second & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET);
}

static bool rests(void) {
    return is_asleep() && sleeps_without_limit();
}

static void before_wfi(unsigned int core, void *data) {
    (void)core, (void)data;
    if (given_up || rests())
        return;
    time_t begun = time(NULL);
    while (!rests()) {
        if (time(NULL) - begun > PATIENCE_S) {
            fprintf(stderr, "bulkhead sleep plugin: QEMU's main loop does not rest; sleeps of guests may end late\n");
            given_up = true;
            return;
        }
        sched_yield();
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t total = qemu_plugin_tb_n_insns(block);
    for (size_t index = 0; index < total; index++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, index);
        uint32_t code;
        memcpy(&code, qemu_plugin_insn_data(instruction), sizeof code);
        if (code == CODE_WFI)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, before_wfi, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
}

static int open_own(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/%s", (long)getpid(), name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fprintf(stderr, "bulkhead sleep plugin: cannot see whether the main loop sleeps: %s\n", path);
    return file;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    /* The main loop's thread is the one that the process began with. */
    main_loop = open_own("syscall");
    main_loop_state = open_own("stat");
    if (main_loop < 0 || main_loop_state < 0)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
