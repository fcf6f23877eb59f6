//! Sizes of the part that drives PCI functions and virtio fronts.

use super::{Row, Unit};
use crate::static_size::{functions_each, functions_once, more_bytes, more_lines, part_bytes};
use bulkhead_abi::Part;

/// What a system with functions has at EL2 beside what every system with shared cores has (`devices.md` section 9).
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "size.devices_bytes",
        what: "text and read-only data that the part `devices` of the monitor has more than `shared`",
        how: "the segments of both ELF files, without what fills pages up",
        peers: "",
        ceiling: Some(7_168.0),
        unit: Unit::Bytes,
        requirements: &["QV-3", "QV-10"],
        slow: false,
        measure: |lab| more_bytes(lab, Part::Devices, Part::Shared),
    },
    Row {
        name: "size.devices_all_bytes",
        what: "text and read-only data of the part `devices` in all: shared cores, PCI functions, virtio fronts",
        how: "as size.own_bytes",
        peers: "Bao 81,686, without shared cores and functions",
        ceiling: Some(81_920.0),
        unit: Unit::Bytes,
        requirements: &["QV-3", "QV-10"],
        slow: false,
        measure: |lab| part_bytes(lab, Part::Devices),
    },
    Row {
        name: "size.functions_once",
        what: "monitor memory for PCI functions, once in a system that has them: stream table, commands, events, boot scripts. 48 KiB were promised; 24 scripts with 240 steps take two pages instead of one",
        how: "the plan of a Linux with two functions",
        peers: "",
        ceiling: Some(53_248.0),
        unit: Unit::Bytes,
        requirements: &["QV-3", "QV-10"],
        slow: false,
        measure: functions_once,
    },
    Row {
        name: "size.functions_each",
        what: "monitor memory for each partition with functions: scripts, filter and translation of their DMA",
        how: "the plan of a Linux of 256 MiB with two functions",
        peers: "",
        ceiling: Some(24_576.0),
        unit: Unit::Bytes,
        requirements: &["QV-3", "QV-10"],
        slow: false,
        measure: functions_each,
    },
    Row {
        name: "size.devices_lines",
        what: "code lines of ours that the part `devices` has more than `shared`; 420 were promised, record 0041 says why that is not met",
        how: "as size.own_lines",
        peers: "",
        ceiling: Some(1_400.0),
        unit: Unit::Lines,
        requirements: &["QV-3", "QV-10"],
        slow: false,
        measure: |_| more_lines(Part::Devices, Part::Shared),
    },
];
