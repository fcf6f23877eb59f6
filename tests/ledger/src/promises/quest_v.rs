//! Quest-V.

use super::Family;

const MIGRATION: &str = "nothing moves between partitions; the formulas of QV-61 and QV-68 are in `core/analysis`; \
                         [kernel.md](specification/kernel.md) 13";
const RECOVERY: &str = "what recovers is a partition as a whole (QV-74); drivers and services inside one: \
                        [kernel.md](specification/kernel.md) 13";
const KERNEL: &str = "there is no kernel of ours yet: [kernel.md](specification/kernel.md)";

pub(super) const FAMILY: Family = Family {
    title: "Quest-V",
    prefix: "QV",
    shown: &[
        "QV-7", "QV-8", "QV-9", "QV-21", "QV-22", "QV-23", "QV-24", "QV-27", "QV-29", "QV-38", "QV-39", "QV-40",
        "QV-50", "QV-51", "QV-52", "QV-53", "QV-55", "QV-70", "QV-E10",
    ],
    in_part: &[
        ("QV-1", "partitions of a shared core share its scheduler's queues, which the monitor keeps"),
        (
            "QV-2",
            "on cores of one partition; on a shared core the monitor exchanges stage-2 roots ([0021](design-records/0021-shared-cores.md))",
        ),
        ("QV-3", "sizes are measured and have ceilings, but those of the monitor are far above 4 KB"),
        (
            "QV-5",
            "in `direct` alone, for one core; of a trusted partition, or below a payload of any. `mapped` pays one exit per interrupt ([0003](design-records/0003-one-exit-per-mapped-interrupt.md)), and for SGIs and accesses to the controller's frames",
        ),
        ("QV-6", "`mapped` also exits for interrupts, for accesses to the controller's frames and for SGIs"),
        (
            "QV-10",
            "PCI functions behind an SMMU ([0037](design-records/0037-pci-functions-in-the-plan.md)), attacked with one that copies wherever it is told, and across ends and restarts with an NVMe controller and a virtio disk. Other devices need a promise ([0006](design-records/0006-no-dma-without-trust.md))",
        ),
        (
            "QV-11",
            "transfers to the ITS, to the register of interrupts by message and to a redistributor are refused, no guest sees a capability for messages, and no access of any width to configuration space or to tables of messages switches one on; below a guest that found another way only the SMMU is left",
        ),
        ("QV-12", "one owner per interrupt, others get none ([0004](design-records/0004-one-owner-per-interrupt.md))"),
        (
            "QV-13",
            "the interrupt controller, our own PCI functions, and those of the board behind the monitor's filter, whose whole space is swept ([devices.md](specification/devices.md) 5)",
        ),
        ("QV-15", "different kernels run beside each other, unmodified; no service is replicated in any test"),
        (
            "QV-16",
            "modes are chosen per partition; the SGIs of a `direct` one are held back below a payload alone, by groups of the receiver and by `sgi = \"filtered\"`",
        ),
        (
            "QV-25",
            "an overrun is charged to the following chunks as a debt; the published form, which delays them and keeps the usage, loses supply (SS-06) and is a model of `bench` alone",
        ),
        (
            "QV-26",
            "the split happens when time is charged; a full list delays its last chunk instead of enlarging its second",
        ),
        (
            "QV-28",
            "a pre-emption splits a chunk, and with the anchor `dispatch` gives it a new date; at most 16 chunks",
        ),
        ("QV-30", "parameters change in tests of `core/sched` alone; no running system changes a budget"),
        (
            "QV-31",
            "literally with the anchor `dispatch`; with `eligible` the computed envelope holds instead ([requirements.md](specification/requirements.md) 10.1, item 3)",
        ),
        (
            "QV-20",
            "threads in the FIFO of a server, with turns of its own time, on a core; servers that come and go are made by a call, on the board: [kernel.md](specification/kernel.md) 3",
        ),
        (
            "QV-32",
            "the published rule is for experiments; systems use a constant grant ([real-time.md](specification/real-time.md) 2.3)",
        ),
        ("QV-33", "as QV-32"),
        ("QV-34", "as QV-32"),
        (
            "QV-35",
            "for guests as a whole: interrupts wake servers behind gates and those of payers, a client is known by its doorbell and anything else is the default's. In a kernel top halves are charged to the server of their driver, and what it cannot serve is masked; io servers for clients are described and checked: [kernel.md](specification/kernel.md) 6",
        ),
        (
            "QV-36",
            "an io server is that of the driver threads that a description puts on it; no classes are matched, as the host decides",
        ),
        (
            "QV-37",
            "computed for each core as information, where QV-38 decides; `check` counts a band of an instance as one server, the kernel makes servers in it with the published test or without, on the board, and no simulated history of random instances is later than a bound of `check`; a description has bands, and no program of this repository makes servers in one that is described",
        ),
        (
            "QV-41",
            "consumed and idle time and the longest overrun, in a kernel by server and thread in its accounts, which `bulkhead stats` shows and a component that is given them reads; the scheduler's own time is not a number of its own",
        ),
        (
            "QV-E1",
            "claims A and B on 1 to 512 pages, by `./x bench kernel.stage2`; no TLB under emulation (PF-13), and entries of tables that a walk touches are not counted",
        ),
        ("QV-E6", "tests fork 40 times; the 40,000 of the seed, by `./x bench kernel.fork`, are recorded"),
        ("QV-E7", "tests make 60 requests; the 30,000 of the seed, by `./x bench kernel.interrupts`, are recorded"),
        (
            "QV-E9",
            "two components on one core, alone and with a shell above, against a simulation (`./x bench kernel.messages`); both ends on one server; tests make two messages of each size, and the 5,000 of the seed are not recorded; between two sandboxes on two cores each word arrives in order and once, and nothing is timed",
        ),
        ("QV-74", "a partition as a whole, in its own place; no fail-over to another one"),
    ],
    not_built: &[
        (&["QV-4"], "one monitor for all cores ([0005](design-records/0005-one-image-per-core-type.md))"),
        (&["QV-14"], "Linux is loaded by the monitor, and guests load nobody"),
        (&["QV-42"], "no EDF ([real-time.md](specification/real-time.md) 2.4)"),
        (&["QV-54"], "channels are in the description; nothing maps one at run time"),
        (
            &["QV-60", "QV-61", "QV-62", "QV-63", "QV-64", "QV-65", "QV-66", "QV-67", "QV-68", "QV-69", "QV-E4"],
            MIGRATION,
        ),
        (&["QV-71", "QV-72", "QV-73", "QV-75", "QV-76", "QV-E3", "QV-E5"], RECOVERY),
        (&["QV-E2"], "its parts are: QV-9, QV-50, QV-53, QV-74"),
        (&["QV-E8"], KERNEL),
    ],
};
