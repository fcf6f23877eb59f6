//! Conflicts between the papers, with the reading that was proposed for one system.

use super::Family;

pub(super) const FAMILY: Family = Family {
    title: "Conflicts between the papers",
    prefix: "CF",
    shown: &[],
    in_part: &[
        (
            "CF-1",
            "partitions at EL2, and the gate at EL3 above one image at EL2 or EL1; the gate above partitions is not built, and there is no composition at EL1",
        ),
        (
            "CF-2",
            "`mapped`, and `direct` for trusted partitions; the hybrid's stops and watches at EL3, whatever a core masks, but below them a test's program and no partition yet",
        ),
        (
            "CF-7",
            "the secure half is the payload's, by groups and priorities that the other world cannot write, and no PMR of that world holds its ticks up; the other half is not split, as there is no composition",
        ),
        (
            "CF-8",
            "CNTPS with the payload, CNTP and CNTV with the world below or the guests of a partition, CNTHP with the monitor at EL2; never all four in one system yet",
        ),
        (
            "CF-9",
            "group 0 is EL3's alone, kicks of other cores with it, and registers of group 0 below trap; no partition is stopped by it yet",
        ),
        (
            "CF-11",
            "each guest has an answer of its own, decoded by one crate: a partition from its monitor, the world below a payload from the payload's library, starts of its cores from EL3; the two have not met in one system",
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
