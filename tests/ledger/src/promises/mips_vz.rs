//! The hypervisor for MIPS-VZ.

use super::Family;

pub(super) const FAMILY: Family = Family {
    title: "MIPS-VZ",
    prefix: "MZ",
    shown: &[
        "MZ-1", "MZ-3", "MZ-5", "MZ-8", "MZ-10", "MZ-11", "MZ-12", "MZ-13", "MZ-14", "MZ-15", "MZ-16", "MZ-17",
        "MZ-18", "MZ-19", "MZ-20", "MZ-21", "MZ-22", "MZ-23", "MZ-24", "MZ-25", "MZ-26", "MZ-E1", "MZ-E2", "MZ-E3",
        "MZ-E4", "MZ-E6",
    ],
    in_part: &[
        (
            "MZ-2",
            "in `direct` alone, on a core of one trusted partition; `mapped` pays one exit per interrupt ([0003](design-records/0003-one-exit-per-mapped-interrupt.md))",
        ),
        ("MZ-4", "as MZ-2"),
        (
            "MZ-6",
            "a timer that expires wakes its vCPU or waits for its turn; that nothing is made up for the time away is not shown",
        ),
        (
            "MZ-E5",
            "the source of one guest of three, while each of the three runs, under five settings of policy and route; not every source of every guest, and by what guests saw instead of by a trace",
        ),
    ],
    not_built: &[
        (&["MZ-7"], "sizes are measured (QV-3) and larger"),
        (&["MZ-27", "MZ-50", "MZ-51", "MZ-E7", "MZ-E8"], "no EDF ([real-time.md](specification/real-time.md) 2.4)"),
        (
            &["MZ-40", "MZ-41", "MZ-42", "MZ-43", "MZ-44", "MZ-45", "MZ-46"],
            "configuration and calls of the public code; ours are the system description and the guest interface",
        ),
        (&["MZ-52", "MZ-E9"], "messages go through channels, and the monitor copies nothing (QV-50)"),
    ],
};
