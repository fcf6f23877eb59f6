//! Rows of PCI functions of a stock Linux, and of devices that are another partition's.

use super::{Row, Unit};
use crate::{devices, paths};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "devices.exits",
        what: "entries into the monitor beyond one for each physical interrupt, in 8,000 direct reads of 4 KiB by stock Linux from a virtio disk of its own: ends of interrupts, registers of the disk, its configuration space",
        how: "counters of a run of 9,000 reads less those of a run of 1,000",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-12", "MZ-2", "MZ-3"],
        slow: true,
        measure: devices::beyond_interrupts,
    },
    Row {
        name: "devices.read_exits",
        what: "entries into the monitor for each direct read of 4 KiB",
        how: "as devices.exits; of three runs of each length the one with the fewest ticks of Linux's own timer; these follow the host and are left out, and the details have them",
        peers: "",
        ceiling: Some(1.1),
        unit: Unit::EntriesEach,
        requirements: &["QV-12", "MZ-2"],
        slow: true,
        measure: devices::entries,
    },
    Row {
        name: "devices.read_share",
        what: "instructions at EL2 of all, in direct reads of 4 KiB",
        how: "counted by an emulator plugin, in the same runs",
        peers: "",
        ceiling: Some(0.3),
        unit: Unit::Percent,
        requirements: &["QV-6"],
        slow: true,
        measure: devices::share,
    },
    Row {
        name: "devices.read_work",
        what: "direct reads of 4 KiB: instructions of the whole machine beyond those of the same kernel, devices and command line on the bare board",
        how: "counted by an emulator plugin, with lines for interrupts on both sides: the bare machine has no SMMU and no ITS. Ticks of an idle Linux, which follow the host, are taken out: what runs that did the same differ in says what one costs",
        peers: "",
        ceiling: Some(1.0),
        unit: Unit::Percent,
        requirements: &["QV-6", "MZ-3"],
        slow: true,
        measure: devices::above_bare,
    },
    Row {
        name: "devices.front_notify",
        what: "notification of a virtio device whose back end is another partition, to the handler of that sleeping guest: monitor instructions on both sides, limiter included",
        how: "two runs that differ in 1,000 notifications, uncontended; a notification beyond the limit would not arrive",
        peers: "",
        ceiling: Some(260.0),
        unit: Unit::Instructions,
        requirements: &["QV-51"],
        slow: false,
        measure: paths::notification,
    },
];
