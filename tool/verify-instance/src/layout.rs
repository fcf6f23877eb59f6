//! Where the rows of the boot tables lie, and how many there are: what everything else that reads them goes by.
//!
//! More rows than the kernel has room for are refused before anything looks at one, so whatever a number in them says, reading an instance takes steps in proportion to its bytes. And each byte
//! of the head's page and of the tables is a field of somebody's row, or zero: what nobody reads can carry nothing.

use crate::finding::{Findings, Kind};
use crate::{PAGE, View};
use bulkhead_guest_abi::guest::MAX_PORTS;
use bulkhead_kernel_abi::boot::{
    ALIGNMENT, BandRow, BindingRow, BootHeader, ComponentRow, DataRow, DeviceRow, EndPointRow, EntryRow, ExportRow,
    NameRow, PortRow, ProgramRow, QuotaRow, RegionRow, SchedulerRow, SegmentRow, ServerRow, Span, StackRow, TcapRow,
    ThreadRow, WireRow,
};
use bulkhead_kernel_abi::image::{Head, LOAD, SLOTS};
use bulkhead_kernel_abi::{
    Capability, MAX_BANDS, MAX_BINDINGS, MAX_COMPONENTS, MAX_DEVICES, MAX_END_POINTS, MAX_EXPORTS, MAX_PROGRAMS,
    MAX_QUOTAS, MAX_SCHEDULERS, MAX_SEGMENTS, MAX_SERVERS, MAX_STACKS, MAX_TCAPS, MAX_THREADS, MAX_WIRES,
};

/// Rows of one kind: what they are, where they lie, bytes of one, and the most that there can be.
type Rows = (&'static str, Span, usize, usize);

fn rows(header: &BootHeader, pages: usize) -> [Rows; 21] {
    // A region of the host is nothing that this version can judge. Each entry, and each row of data, is of a page of its own at least.
    [
        ("components", header.components, size_of::<ComponentRow>(), MAX_COMPONENTS),
        ("entries", header.entries, size_of::<EntryRow>(), pages * (PAGE as usize / 4)),
        ("stacks for callers", header.stacks, size_of::<StackRow>(), MAX_COMPONENTS * MAX_STACKS),
        ("capability slots", header.capabilities, size_of::<Capability>(), SLOTS),
        ("threads", header.threads, size_of::<ThreadRow>(), MAX_THREADS),
        ("servers", header.servers, size_of::<ServerRow>(), MAX_SERVERS),
        ("bands", header.bands, size_of::<BandRow>(), MAX_BANDS),
        ("schedulers", header.schedulers, size_of::<SchedulerRow>(), MAX_SCHEDULERS),
        ("temporal capabilities", header.tcaps, size_of::<TcapRow>(), MAX_TCAPS),
        ("end points", header.end_points, size_of::<EndPointRow>(), MAX_END_POINTS),
        ("bindings", header.bindings, size_of::<BindingRow>(), MAX_BINDINGS),
        ("wires", header.wires, size_of::<WireRow>(), MAX_WIRES),
        ("exports", header.exports, size_of::<ExportRow>(), MAX_WIRES * MAX_EXPORTS),
        ("quotas", header.quotas, size_of::<QuotaRow>(), MAX_QUOTAS),
        ("regions", header.regions, size_of::<RegionRow>(), 0),
        ("programs", header.programs, size_of::<ProgramRow>(), MAX_PROGRAMS),
        ("segments", header.segments, size_of::<SegmentRow>(), MAX_PROGRAMS * MAX_SEGMENTS),
        ("devices", header.devices, size_of::<DeviceRow>(), MAX_DEVICES),
        ("ports", header.ports, size_of::<PortRow>(), MAX_PORTS),
        ("pieces of data", header.data, size_of::<DataRow>(), pages),
        ("names", header.names, size_of::<NameRow>(), MAX_THREADS + MAX_SERVERS),
    ]
}

/// States whether there are no more rows than there can be; others are not to be looked at.
pub(crate) fn has_room(view: &View<'_>, findings: &mut Findings) -> bool {
    let all = rows(view.tables.header, view.bytes.len() / PAGE as usize);
    let mut has_room = true;
    for (what, span, _, most) in all {
        has_room &= findings.require(span.count as usize <= most, Kind::Row, || {
            format!("there are {} {what}, and this version knows of {most} at most", span.count)
        });
    }
    has_room
}

/// Rows are one behind the other, each kind at the first place where it can be, and nothing but zeros is beside them.
pub(crate) fn check(view: &View<'_>, findings: &mut Findings) {
    let header = view.tables.header;
    findings.require(header.regions == Span::default(), Kind::Row, || "there are regions, somewhere".to_owned());
    let written = rows(header, 1).into_iter().filter(|(.., most)| *most != 0);
    let mut all: Vec<_> =
        written.map(|(what, span, bytes, _)| (span.offset, span.count as usize * bytes, what)).collect();
    all.sort_unstable();
    let mut end = size_of::<BootHeader>();
    for (offset, bytes, what) in all {
        let is_next = end.next_multiple_of(ALIGNMENT) == offset as usize
            && is_zero(view, table(view, end), table(view, offset as usize));
        findings.require(is_next, Kind::Tables, || {
            format!("the {what} are {offset:#x} bytes into the boot tables, and those before them end at {end:#x}, or there is something between them")
        });
        end = (offset as usize).saturating_add(bytes);
    }
    let is_end = (end as u64, end as u64) == (header.bytes, view.head.tables_bytes);
    findings.require(is_end && is_zero(view, table(view, end), view.tables_end()), Kind::Tables, || {
        format!(
            "the rows end at {end:#x} and the boot tables at {:#x} and {:#x}, or there is something behind them",
            header.bytes, view.head.tables_bytes
        )
    });
    let head_end = view.head_address.saturating_add(size_of::<Head>() as u64);
    findings.require(is_zero(view, head_end, view.head_address.saturating_add(PAGE)), Kind::Head, || {
        "there is something behind the head".to_owned()
    });
}

/// Address of a byte of the boot tables.
fn table(view: &View<'_>, offset: usize) -> u64 {
    view.head_address.saturating_add(PAGE).saturating_add(offset as u64)
}

/// States whether the bytes from an address to another one are zeros.
fn is_zero(view: &View<'_>, start: u64, end: u64) -> bool {
    let place = |address: u64| usize::try_from(address.checked_sub(LOAD)?).ok();
    let bytes = place(start).zip(place(end)).and_then(|(start, end)| view.bytes.get(start..end));
    bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}
