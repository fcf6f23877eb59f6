//! Rows of partitions below a payload (`systems/hybrid`), and sizes of what runs in both worlds.

use super::{Row, Unit};
use crate::static_size::{more_bytes, more_lines};
use crate::{hybrid, secure_sizes};
use bulkhead_abi::Part;
use bulkhead_el3::configuration::MOST_KICK;

/// They are in the group of the secure monitor.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "secure.hybrid_bytes",
        what: "text and read-only data that the part `hybrid` of the monitor has more than `own`",
        how: "the segments of both ELF files, without what fills pages up",
        peers: "",
        ceiling: Some(4_096.0),
        unit: Unit::Bytes,
        requirements: &["QV-3", "QV-5"],
        slow: false,
        measure: |lab| more_bytes(lab, Part::Hybrid, Part::Own),
    },
    Row {
        name: "secure.hybrid_lines",
        what: "code lines of ours that it has more",
        how: "as size.own_lines",
        peers: "",
        ceiling: Some(340.0),
        unit: Unit::Lines,
        requirements: &["QV-3", "QV-5"],
        slow: false,
        measure: |_| more_lines(Part::Hybrid, Part::Own),
    },
    Row {
        name: "secure.hybrid_exits",
        what: "exits and calls of an untrusted partition with direct interrupts below a payload, in 10 virtual seconds of its 1 kHz timer",
        how: "counters of a whole run with 10,000 ticks, less those of one with a single tick",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Entries,
        requirements: &["QV-5", "CF-2"],
        slow: false,
        measure: hybrid::exits,
    },
    Row {
        name: "secure.hybrid_stop",
        what: "stop of such a partition once it masks everything: at EL3 of its core, from the kick's interrupt to the vector of its EL2",
        how: "counted by an emulator plugin, each of one length, in 1,000 of 1,000 stops that a manager asks for",
        peers: "",
        ceiling: Some(MOST_KICK as f64),
        unit: Unit::Instructions,
        requirements: &["QV-5", "CF-9"],
        slow: false,
        measure: hybrid::stop,
    },
    Row {
        name: "secure.hybrid_sgis",
        what: "software-generated interrupts of an unfiltered guest with direct interrupts that a core accepts which has none open",
        how: "the receiver opens all that it can and counts; beside it the same with a receiver that has a kernel's open, which takes some",
        peers: "",
        ceiling: Some(0.0),
        unit: Unit::Accepted,
        requirements: &["QV-16"],
        slow: false,
        measure: hybrid::sgis,
    },
    Row {
        name: "secure.payload_bytes",
        what: "stock FreeRTOS with the library of the secure world and the application of `systems/dual-world`: text with constants, data and bss",
        how: "the sections of its ELF file that take memory",
        peers: "SafeG's ASP 34,796 text + 0 data + 83,140 bss = 117,936, 60 times its monitor",
        ceiling: None,
        unit: Unit::Bytes,
        requirements: &["SG-E2"],
        slow: false,
        measure: secure_sizes::payload,
    },
    Row {
        name: "secure.linux_bytes",
        what: "stock Debian Linux: its image with what it clears behind it",
        how: "the header of the Image; its text and data are not apart in it",
        peers: "SafeG's Linux 1,092,652 text + 148,336 data + 89,308 bss = 1,330,296",
        ceiling: None,
        unit: Unit::Bytes,
        requirements: &["SG-E2"],
        slow: false,
        measure: secure_sizes::linux,
    },
];
