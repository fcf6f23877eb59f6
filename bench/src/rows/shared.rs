//! Rows of shared cores.

use super::{Row, Unit};
use crate::{paths, shared};

/// Interrupts on a core that several vCPUs share.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "shared.timer",
        what: "guest timer interrupt of the running guest on a shared core, extra over the bare board",
        how: "as timer.mapped, with a schedule for the core",
        peers: "Xen 1,083; no small peer shares cores",
        ceiling: Some(70.0),
        unit: Unit::Instructions,
        requirements: &["SP-10", "MZ-2"],
        slow: false,
        measure: paths::timer_shared,
    },
    Row {
        name: "shared.switch",
        what: "interrupt of another vCPU's device to the first instruction of that vCPU's handler, on a shared core: decision and full switch, floating point apart",
        how: "the clock's alarm wakes a guest while another one computes; its handler's counter, less that on the bare board; largest of 5",
        peers: "",
        ceiling: Some(362.0),
        unit: Unit::Instructions,
        requirements: &["SP-10", "SP-14", "SP-18"],
        slow: false,
        measure: shared::switch_lazy,
    },
    Row {
        name: "shared.switch_eager",
        what: "the same with floating-point registers switched at once",
        how: "as shared.switch, with `floating_point = \"eager\"`",
        peers: "",
        ceiling: Some(410.0),
        unit: Unit::Instructions,
        requirements: &["SP-10", "SP-18"],
        slow: false,
        measure: shared::switch_eager,
    },
    Row {
        name: "shared.own_timer",
        what: "own timer of a sleeping vCPU on a shared core, date to the first instruction of its handler: from an idle core and while a less important guest computes; no other date falls due meanwhile",
        how: "1000 sleeps of 8 to 32 and of 15 to 39 us, from when the core has been given away, each after one of 1.1 ms; the guest reads the counter in its first handler instruction; the largest",
        peers: "",
        ceiling: Some(500.0),
        unit: Unit::Instructions,
        requirements: &["SP-10", "SP-16"],
        slow: false,
        measure: shared::own_timer,
    },
    Row {
        name: "shared.doorbell",
        what: "doorbell from another core to a sleeping vCPU of a shared core while another one computes there: monitor instructions of the sender, the switch, the sleep after it and the switch back",
        how: "as doorbell.sleeping",
        peers: "",
        ceiling: Some(1_350.0),
        unit: Unit::Instructions,
        requirements: &["QV-51", "SP-10", "SP-14"],
        slow: false,
        measure: paths::doorbell_shared,
    },
];
