//! SafeG.

use super::Family;

const TODAY: &str =
    "extension of today's product of that line; ours are descriptions, time tables and channels of our own form";

pub(super) const FAMILY: Family = Family {
    title: "SafeG",
    prefix: "SG",
    shown: &[
        "SG-70", "SG-71", "SG-72", "SG-1", "SG-2", "SG-7", "SG-3", "SG-5", "SG-11", "SG-22", "SG-25", "SG-E1", "SG-E3",
        "SG-6", "SG-12", "SG-21", "SG-23", "SG-24", "SG-9", "SG-10", "SG-15", "SG-26", "SG-20", "SG-40", "SG-43",
        "SG-44", "SG-41", "SG-42", "SG-45", "SG-46", "SG-47", "SG-48", "SG-50", "SG-60", "SG-61", "SG-E6", "SG-80",
        "SG-83", "SG-84", "SG-85", "SG-86", "SG-14", "SG-E8", "SG-8", "SG-E2", "SG-E4", "SG-32",
    ],
    in_part: &[
        ("SG-13", "one to four cores, each with contexts of its own; the boot core alone has a payload"),
        (
            "SG-87",
            "one time line of both worlds, for Perfetto, with all that the monitor records where partitions are below; what a Linux alone does inside its servers is not in it, nor is there TLV's form",
        ),
        (
            "SG-4",
            "where partitions are below the payload: their monitor stops who does it, and the payload is told which one and at which address. A world of one image that does not survive its access is found by its missing progress and restarted; the access itself is told to nobody, because QEMU 7.2 takes external aborts at the level that caused them, whatever SCR_EL3.EA says ([0028](design-records/0028-secure-aborts.md))",
        ),
        (
            "SG-51",
            "both kinds; integrated with a bare world alone, by an interrupt at each start of a window: no description of a run has `window_interrupt`, because no driver of Debian's cloud kernel hands a spare interrupt to a program (`uio_pdrv_genirq` is not among its modules)",
        ),
        (
            "SG-52",
            "the bound of each window, with tasks and handlers of the payload; a run records what tasks took, and of handlers only those that end with a switch of tasks ([0036](design-records/0036-windows-and-wishes.md))",
        ),
        (
            "SG-30",
            "the core to the other world, with the two words of its return of it; its restart; messages in place of the FIFO; records of who runs (SG-33) in place of a profile, with no call to begin and read one",
        ),
        (
            "SG-33",
            "counts and records of switches in the payload's library, records off unless the description asks for them; no hook at EL3, and none is compiled out",
        ),
        ("SG-63", "messages (SG-70), which are SafeG's answer too; no driver of a device speaks through them"),
        (
            "SG-31",
            "the end of an activation, a doorbell and a heartbeat; channels in place of the FIFO. Calls for caches, registers and copies are left out on purpose: each is a hole ([0030](design-records/0030-calls-that-are-not-there.md))",
        ),
        (
            "SG-81",
            "all maps in the plan, from a description; of stock Linux the priority is that which a program there says for all of it, because its kernel does not tell those of its threads ([0031](design-records/0031-priorities-of-threads.md), [0036](design-records/0036-windows-and-wishes.md))",
        ),
        (
            "SG-82",
            "the hook of a bare guest's switch, which names the task that it wants by the call that gives the core back, also when that is the same; a word of stock Linux, which a program writes and the payload reads when it takes the core, and no hook of the switch there ([0036](design-records/0036-windows-and-wishes.md))",
        ),
        (
            "SG-34",
            "paths, entry and timers of both worlds, measured from outside, so that nothing is compiled in; the timer of Linux in dozens of samples and that of a small world in hundreds, rather than 100,000, and no flush of caches, which the emulator has not",
        ),
        (
            "SG-62",
            "DMA of PCI functions alone: another device that is trusted with it is not stopped. In slices on a shared core alone",
        ),
        (
            "SG-E5",
            "everything, at EL2 and at EL3, but the mean of the idle approach, which is 22.2 to 22.6 ms after answers and 25.7 to 30.3 ms at fixed distances, where 23 to 29 ms are claimed for an arrival pattern that was not published",
        ),
        (
            "SG-E7",
            "the published grid as a simulation, and in a bare world in a sweep of phases, at its bounds within 3 %, of which that of priority 30 is 130 ms and not 120, because another job of T1 fits into its wait; in stock Linux a program at three places of its server, and the shared word with and without a wish; its timer in an ITask (`systems/dual-world`) and in LTASK0, of which an idle Linux uses up the budget, so that its waits are not those of the grid",
        ),
    ],
    not_built: &[(&["SG-90", "SG-91", "SG-92", "SG-93", "SG-94"], TODAY)],
};
