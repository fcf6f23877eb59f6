//! Chaos.

use super::Family;

const COMPONENTS: &str =
    "isolation is between partitions; components and calls: [kernel.md](specification/kernel.md) 5, 9";
const PROXIES: &str = "partitions talk through channels; proxies: [kernel.md](specification/kernel.md) 13";
const CLAIMS: &str = "a rule of `core/sched`, compared with a model on random histories, and used by the kernel, whose calls and choice were tested on a fake core; on a core only claims of one \
                      subsystem were: [kernel.md](specification/kernel.md) 4";

const CALLS: &str = "calls by thread migration run on the board and in partitions; no asynchronous proxy yet: \
                     [kernel.md](specification/kernel.md) 5, 13";

const OBJECTS: &str = "the rule is in `core/objects`, tested on the host against a fake of machine and time; on a core only calls, capabilities and one server were used yet: \
                       [kernel.md](specification/kernel.md)";

const BINDING: &str = "the host binds each function that a component's program calls by its name, to a call or a signal, and stubs use it on the board and in partitions; no proxy, no \
                       library of a system below it: \
                       [kernel.md](specification/kernel.md) 5";

pub(super) const FAMILY: Family = Family {
    title: "Chaos",
    prefix: "CH",
    shown: &["CH-11", "CH-30", "CH-31", "CH-32", "CH-34", "CH-35", "CH-36", "CH-37", "CH-38", "CH-41", "CH-42"],
    in_part: &[
        (
            "CH-22",
            "time of a client that is delegated with a notification is used at its level and charged to its server, by the kernel on a fake core and in all phases of who gives, who works and who is between them, and on a core (`./x bench kernel.delegation`); no proxy delegates it yet ([kernel.md](specification/kernel.md) 4, 13)",
        ),
        ("CH-23", CLAIMS),
        (
            "CH-33",
            "the limiter is in the monitor, because a sender may be hostile ([0021](design-records/0021-shared-cores.md)); it is reached by index, without search and lock. At user level it is in ChaosRT, on a core, reached by a number in the capability ([0054](design-records/0054-time-that-is-given.md)): [kernel.md](specification/kernel.md) 6",
        ),
        (
            "CH-3",
            "ChaosRT as a component on the board and in `direct`: fixed priorities, turns among equals, memory in blocks; one core is one instance: [kernel.md](specification/kernel.md) 9",
        ),
        (
            "CH-39",
            "one interrupt per exit of the monitor; a kernel takes what its wires held when it heard a doorbell, which was counted between two cores of QEMU, and its worst state was not measured ([kernel.md](specification/kernel.md) 6)",
        ),
        ("CH-4", BINDING),
        ("CH-5", BINDING),
        ("CH-6", OBJECTS),
        ("CH-7", BINDING),
        ("CH-8", CALLS),
        ("CH-10", OBJECTS),
        ("CH-55", OBJECTS),
        ("CH-57", OBJECTS),
        (
            "CH-60",
            "each call of the kernel has a bound, and a largest count that a test holds; four of them look away for longer than was promised ([caveats](caveats.md))",
        ),
        ("CH-61", OBJECTS),
        (
            "CH-62",
            "translation tables of processes change one entry at a time, and the core forgets what was there, in `core/objects` against a fake; no core was seen to: [kernel.md](specification/kernel.md) 7",
        ),
        ("CH-63", OBJECTS),
        (
            "CH-E1",
            "a null call takes as many instructions beside three cores as alone, and one of a model with a lock more with each; waiting is counted in instructions",
        ),
        (
            "CH-E2",
            "what a flood adds to the job's core grows with it, and no interrupt takes in more than a ring; in instructions of cores that take turns (PF-7), and not recorded",
        ),
        (
            "CH-E7",
            "interrupts in a job and what they cost stay below the bound, in aggregate and by sender, and grow with the limit; in instructions of cores that take turns (PF-7), and not recorded",
        ),
        (
            "CH-E4",
            "call and return of a component, signals and switches of threads on one core, all runs equal, a million of them by `./x bench kernel.micro`, which is not recorded; notifications across cores: [kernel.md](specification/kernel.md)",
        ),
        (
            "CH-E5",
            "a limited signal is within 5 % of its parts, in each of 100,000 runs; a yield; notifications across cores: [kernel.md](specification/kernel.md)",
        ),
        (
            "CH-E6",
            "round trips on one core, and timers, are the same in each run, on the board and in a partition; between the depths they differ by 6.9 % and 5.5 %, where 2 % are promised (`./x bench kernel.depth`); across cores each question gets its answer, which is not timed",
        ),
        (
            "CH-E8",
            "on one core the mean lateness of messages is the model's within one way of a signal, for limits of 10 to 60 and three distances of polls (`./x bench kernel.latency`); across cores as many doorbells pass in each window as the limit says and no message is lost, and lateness is not measured; a million messages for each are not recorded",
        ),
        (
            "CH-E9",
            "a poll takes the same at each period, from a thread and from a scheduler (`./x bench kernel.poll`); a tenth of a percent at 1 ms is missed on the emulator's clock, and a job of 10 s is not recorded",
        ),
        (
            "CH-64",
            "an interrupt is an end point and preempts by its server's level on a core; by numbers of schedulers only in `core/objects`: [kernel.md](specification/kernel.md) 6",
        ),
        (
            "CH-40",
            "one ring per wire, in turns by pieces; a core has one instance, so pairs of cores are pairs of instances: [kernel.md](specification/kernel.md) 6",
        ),
        ("CH-50", CLAIMS),
        ("CH-51", CLAIMS),
        ("CH-52", CLAIMS),
        ("CH-53", CLAIMS),
        ("CH-54", CLAIMS),
        (
            "CH-56",
            "one timer, for the end of a budget, a turn, a limit and who sleeps; off when none of these would change who runs. Ends of given time were seen on the host alone: [kernel.md](specification/kernel.md) 3",
        ),
    ],
    not_built: &[
        (
            &["CH-1"],
            "partitions have criticality and trust, and faults stay in them (QV-9); no order of assurance is judged",
        ),
        (&["CH-2"], COMPONENTS),
        (&["CH-9", "CH-12", "CH-13", "CH-20", "CH-21"], PROXIES),
        (&["CH-70", "CH-71"], "`systems/demo` has a controller, an RTOS, Linux and an intruder, and not this software"),
        (&["CH-72"], "the system description has partitions and channels; there are no components"),
        (&["CH-E3", "CH-E10", "CH-E11"], "not made yet; bounds of floods are in CH-32 and SG-48"),
    ],
};
