//! SPUMONE.

use super::Family;

const NO_LAYER: &str = "there is no layer at EL1: shared cores at EL2 take its place, isolate the guests and change none of them \
                        ([requirements.md](specification/requirements.md) 8.1, CF-1)";
const NO_HALVES: &str = "interrupts are taken at EL2 and wait there, so guests need no halves of the priorities \
                         ([0021](design-records/0021-shared-cores.md))";

pub(super) const FAMILY: Family = Family {
    title: "SPUMONE",
    prefix: "SP",
    shown: &[
        "SP-10", "SP-11", "SP-12", "SP-13", "SP-14", "SP-15", "SP-16", "SP-17", "SP-18", "SP-19", "SP-E2", "SP-E3",
    ],
    in_part: &[
        (
            "SP-E4",
            "nothing that the other guest masks adds to the delay; the form without IPL does not exist, and fewer samples are taken",
        ),
        (
            "SP-E5",
            "(1) with interrupts masked by PSTATE, as there is no GPOS mask of priorities; (2) in order and within the longest exchange, which is not compared with the voluntary switch",
        ),
    ],
    not_built: &[
        (&["SP-1", "SP-2", "SP-3", "SP-4", "SP-5", "SP-6", "SP-7", "SP-8"], NO_LAYER),
        (
            &[
                "SP-20", "SP-21", "SP-22", "SP-23", "SP-24", "SP-25", "SP-26", "SP-32", "SP-35", "SP-51", "SP-52",
                "SP-54",
            ],
            NO_LAYER,
        ),
        (&["SP-27", "SP-28", "SP-29", "SP-30", "SP-31", "SP-33", "SP-34"], NO_HALVES),
        (
            &["SP-40", "SP-41", "SP-42", "SP-43", "SP-44", "SP-50", "SP-53"],
            "of the layer at EL1, which is not there; partitions have memory, devices, timers, a VMID and PSCI of their own (QV-1, MZ-3)",
        ),
        (&["SP-60", "SP-62"], "optional, and nobody needed it"),
        (&["SP-61"], "of the layer at EL1; a partition restarts while others continue (QV-74)"),
        (&["SP-63"], "of the layer at EL1; partitions of one core have channels and doorbells (QV-50)"),
        (&["SP-E1"], "guests are not changed, so there is nothing to count (MZ-1)"),
        (&["SP-E6"], "kernels are exchanged in descriptions, but no test makes this table"),
    ],
};
