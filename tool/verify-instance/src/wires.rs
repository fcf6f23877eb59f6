//! Wires: rows and exports, and which pages of channels the kernel has for them.

use crate::PAGE;
use crate::finding::{Findings, Kind};
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET};
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_PCI_REGISTERS};
use bulkhead_kernel_abi::boot::{ExportRow, Tables, WireRow};
use bulkhead_kernel_abi::capability::TOKEN_MASK;
use bulkhead_kernel_abi::{Capability, MAX_EXPORTS, NONE};
use std::collections::BTreeSet;
use std::ops::Range;

/// Interrupts of devices, among which doorbells are.
const DOORBELLS: Range<u32> = 32..1020;
/// No doorbell.
const NO_DOORBELL: u32 = u32::MAX;

/// Each wire is one end of a channel, and its exports are its own.
pub(crate) fn check(tables: &Tables<'_>, findings: &mut Findings) {
    let (mut first, mut windows) = (0_u64, BTreeSet::new());
    let mut doorbells: BTreeSet<u32> = tables.bindings.iter().map(|row| row.intid).collect();
    for (number, row) in tables.wires.iter().enumerate() {
        let own = u64::from(row.first_export) == first && row.exports as usize <= MAX_EXPORTS;
        first += u64::from(row.exports);
        findings.require(own && row.reserved == 0, Kind::Wire, || {
            format!("the exports of wire {number} are another one's, or are too many")
        });
        let is_sound = if row.source == 1 { source(row) } else { destination(row, tables, &mut doorbells) };
        findings.require(is_sound && row.source <= 1, Kind::Wire, || {
            format!("wire {number} has a doorbell, an interrupt, a server or exports that none of its direction has")
        });
        let is_place = row.window.is_multiple_of(PAGE)
            && (GUEST_CHANNELS.0..GUEST_PCI_REGISTERS.0).contains(&row.window)
            && windows.insert(row.window);
        findings.require(is_place || row.window == 0, Kind::Wire, || {
            format!("wire {number} is at {:#x}, where no channel is, or another wire", row.window)
        });
        for (index, export) in exports(row, tables).iter().enumerate() {
            let is_object = if row.source == 1 {
                export.end_point == NONE
            } else {
                usize::from(export.end_point) < tables.end_points.len()
            };
            let is_plain = export.bits != 0 && export.bits & !TOKEN_MASK == 0 && export.reserved == [0; 3];
            findings.require(is_object && is_plain, Kind::Wire, || {
                format!(
                    "export {index} of wire {number} is {:#x} of end point {}, which nobody can be sent",
                    export.bits, export.end_point
                )
            });
        }
    }
    findings.require(first == tables.exports.len() as u64, Kind::Wire, || "there are exports of no wire".to_owned());
}

/// A wire that is written here has the partition's doorbell.
fn source(row: &WireRow) -> bool {
    let rings_only = row.window == 0;
    row.doorbell != NO_DOORBELL && row.intid == 0 && row.server == NONE && (row.exports == 0) == rings_only
}

/// A wire that is taken from has an interrupt that is no binding's, and somebody pays.
fn destination(row: &WireRow, tables: &Tables<'_>, doorbells: &mut BTreeSet<u32>) -> bool {
    let is_heard = DOORBELLS.contains(&row.intid) && doorbells.insert(row.intid);
    let is_paid = usize::from(row.server) < tables.servers.len();
    is_heard && is_paid && row.doorbell == NO_DOORBELL && row.window != 0 && row.exports != 0
}

/// The exports of a wire.
pub(crate) fn exports<'t>(row: &WireRow, tables: &Tables<'t>) -> &'t [ExportRow] {
    let rows = tables.exports.get(row.first_export as usize..).unwrap_or_default();
    rows.get(..row.exports as usize).unwrap_or_default()
}

/// States whether a capability names an export of a wire that is written here, and bits of it; of one that only rings, nothing.
pub(crate) fn can_send(capability: &Capability, tables: &Tables<'_>) -> bool {
    let Some(row) = tables.wires.get(usize::from(capability.object)).filter(|row| row.source == 1) else {
        return false;
    };
    match exports(row, tables).get(usize::from(capability.entry())) {
        Some(export) => capability.token() != 0 && capability.token() & !export.bits == 0,
        None => row.window == 0 && capability.word == 0,
    }
}

/// The pages that the kernel has for wires, and whether it writes each.
pub(crate) fn pages(tables: &Tables<'_>) -> impl Iterator<Item = (Range<u64>, bool)> {
    tables.wires.iter().filter(|row| row.window != 0).flat_map(|row| {
        let page = |offset: u64| {
            let start = row.window.saturating_add(offset);
            start..start.saturating_add(PAGE)
        };
        let is_source = row.source == 1;
        [(page(CHANNEL_READER_OFFSET), !is_source), (page(CHANNEL_WRITER_OFFSET), is_source)]
    })
}
