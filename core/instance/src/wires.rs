//! Wires of an instance: their rows, and the pages of channels that the kernel has for them.

use crate::translation::{Access, PAGE, Space};
use crate::{Wire, WireEnd};
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET};
use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::WireRow;

/// A wire as the boot tables have it.
pub(crate) fn row(wire: &Wire, first_export: u32) -> WireRow {
    let row = WireRow { window: wire.window, first_export, exports: wire.exports.len() as u32, ..WireRow::default() };
    match wire.end {
        WireEnd::Source { doorbell } => WireRow { doorbell, server: NONE, source: 1, ..row },
        WireEnd::Destination { intid, server } => WireRow { intid, doorbell: u32::MAX, server, ..row },
    }
}

/// Maps what a wire uses of a channel's window: the page of the end that takes, and the first one of the end that writes, each writable at its own end.
pub(crate) fn map(space: &mut Space, wire: &Wire) {
    let [own, other] = match wire.end {
        WireEnd::Source { .. } => [CHANNEL_WRITER_OFFSET, CHANNEL_READER_OFFSET],
        WireEnd::Destination { .. } => [CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET],
    };
    for (offset, access) in [(own, Access::SharedData), (other, Access::SharedConstants)] {
        let address = wire.window + offset;
        space.map(address, address, PAGE, access);
    }
}
