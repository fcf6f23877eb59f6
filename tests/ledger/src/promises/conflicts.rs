//! Conflicts between the papers, with the reading that was proposed for one system.

use super::Family;

pub(super) const FAMILY: Family = Family {
    title: "Conflicts between the papers",
    prefix: "CF",
    shown: &["CF-11"],
    in_part: &[
        (
            "CF-1",
            "partitions at EL2, the gate at EL3 above one image at EL2 or EL1, and above partitions; there is no composition at EL1",
        ),
        ("CF-2", "`mapped`, `direct` for trusted partitions, and below a payload for any; a `direct` one has one vCPU"),
        (
            "CF-7",
            "the secure half is the payload's, by groups and priorities that the other world cannot write, and no PMR of that world holds its ticks up; the other half is not split, as there is no composition",
        ),
        (
            "CF-8",
            "CNTPS with the payload, CNTP and CNTV with the guests of a partition, CNTHP with the monitor at EL2, all in `systems/hybrid`; there is no composition",
        ),
        (
            "CF-9",
            "group 0 is EL3's alone, kicks of other cores with it, and registers of group 0 below trap; partitions are stopped by it, but on the payload's core",
        ),
    ],
    not_built: &[
        (&["CF-3"], "there is no composition; two guests of one core are two partitions, isolated"),
        (
            &["CF-4", "CF-5", "CF-6", "CF-10", "CF-12"],
            "a reading without a test of its own; the specification says beside it what is built ([requirements.md](specification/requirements.md) 8.1)",
        ),
    ],
};
