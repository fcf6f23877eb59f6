//! What can be made at run time: the pool, its quotas, and the programs of processes.

use crate::finding::{Findings, Kind};
use crate::{PAGE, View};
use bulkhead_kernel_abi::boot::{ProgramRow, QuotaRow, SegmentRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::{COMPONENT_MAGIC, COMPONENT_STACKS, COMPONENT_TEXT, ComponentHead, SLOTS};
use bulkhead_kernel_abi::{
    FLOATING_POINT_BYTES, KERNEL_ABI_VERSION, MAX_COMPONENTS, MAX_POOL_PAGES, MAX_REGIONS, MAX_SEGMENTS, MAX_THREADS,
    PROCESS_SLOTS,
};
use core::ops::Range;
use std::collections::BTreeSet;
use zerocopy::FromBytes;

const READ: u32 = right::READ as u32;
const TEXT: u32 = READ | right::EXECUTE as u32;
const DATA: u32 = READ | right::WRITE as u32;
/// Bytes that a translation table of the last level covers.
const TABLE_BYTES: u64 = PAGE * 512;

/// Pages whose owner is known without a translation table: physical addresses, whose they are, and whether the kernel's half maps them, writable or not.
pub(crate) struct Owned {
    pub(crate) pages: Range<u64>,
    pub(crate) owner: String,
    pub(crate) kernel_writes: Option<bool>,
}

/// The pages of the pool and of programs, as far as their rows are sound.
pub(crate) fn owned(view: &View<'_>) -> Vec<Owned> {
    let mut owned = Vec::new();
    if let Some(pages) = pool(view) {
        owned.push(Owned { pages, owner: "the pool".to_owned(), kernel_writes: Some(true) });
    }
    if let Some(pages) = registers(view) {
        owned.push(Owned { pages, owner: "floating-point registers".to_owned(), kernel_writes: Some(true) });
    }
    for (number, row) in view.tables.programs.iter().enumerate() {
        for segment in segments(view, row) {
            if let Some(pages) = place(view, segment) {
                let kernel_writes = (segment.rights == DATA).then_some(false);
                owned.push(Owned { pages, owner: format!("program {number}"), kernel_writes });
            }
        }
    }
    owned
}

/// Judges the rows.
pub(crate) fn check(view: &View<'_>, findings: &mut Findings) {
    let tables = &view.tables;
    let header = tables.header;
    let fits = header.pool_pages as usize <= MAX_POOL_PAGES;
    let is_there = match header.pool_pages {
        0 => header.pool_address == 0,
        _ => pool(view).is_some_and(|pages| is_zero(view, pages)),
    };
    findings.require(fits && is_there, Kind::Pool, || {
        format!(
            "the pool of {} pages from {:#x} on is not pages of zeros in the image",
            header.pool_pages, header.pool_address
        )
    });
    floating_point(view, findings);
    quotas(view, findings);
    let mut next = 0;
    for (number, row) in tables.programs.iter().enumerate() {
        findings.require(row.first_segment == next, Kind::Program, || {
            format!("the segments of program {number} are another one's, too")
        });
        next = row.first_segment.saturating_add(row.segments);
        if let Err(wrong) = program(view, row) {
            findings.add(Kind::Program, format!("program {number} {wrong}"));
        }
    }
    findings.require(next as usize == tables.segments.len(), Kind::Program, || {
        "there are segments of no program".to_owned()
    });
}

fn is_zero(view: &View<'_>, pages: Range<u64>) -> bool {
    let mut pages = pages.step_by(PAGE as usize);
    pages.all(|page| view.page(page).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)))
}

/// Where a component or a program declares floating point, every thread that there can be has a place for the registers, of zeros; elsewhere there are none.
fn floating_point(view: &View<'_>, findings: &mut Findings) {
    let (tables, header) = (&view.tables, view.tables.header);
    let declares = tables.components.iter().any(|row| row.floating_point != 0)
        || tables.programs.iter().any(|row| row.floating_point != 0);
    let expected = match tables.quotas.iter().any(|row| row.threads != 0) {
        _ if !declares => 0,
        true => MAX_THREADS,
        false => tables.threads.len(),
    };
    let is_there = match expected {
        0 => header.floating_point_address == 0,
        _ => registers(view).is_some_and(|pages| is_zero(view, pages)),
    };
    findings.require(header.floating_point_threads as usize == expected && is_there, Kind::FloatingPoint, || {
        format!(
            "there are places for the floating-point registers of {} threads from {:#x} on, and must be of {expected}, of zeros in the image",
            header.floating_point_threads, header.floating_point_address
        )
    });
}

/// Pages with places for registers, if all are in the image behind the boot tables.
fn registers(view: &View<'_>) -> Option<Range<u64>> {
    let header = view.tables.header;
    let bytes = u64::from(header.floating_point_threads) * FLOATING_POINT_BYTES as u64;
    let pages = u32::try_from(bytes.div_ceil(PAGE)).ok().filter(|pages| *pages != 0)?;
    inside(view, header.floating_point_address, pages)
}

/// Quotas are of components that are there, one for each at most; together they are the pool and what the kernel has room for.
fn quotas(view: &View<'_>, findings: &mut Findings) {
    let tables = &view.tables;
    let mut owners = BTreeSet::new();
    for (number, row) in tables.quotas.iter().enumerate() {
        let is_its = usize::from(row.component) < tables.components.len() && owners.insert(row.component);
        let is_plain = (row.reserved, row.end_points, row.tcaps) == (0, 0, 0);
        findings.require(is_its && is_plain, Kind::Quota, || {
            format!("quota {number} is of component {}, which is not there or has another one, or has bits that mean nothing", row.component)
        });
        let there = u32::try_from(tables.programs.len()).unwrap_or(u32::MAX);
        findings.require(row.programs.checked_shr(there).unwrap_or(0) == 0, Kind::Quota, || {
            format!("of quota {number} processes of programs may be made that are not there")
        });
    }
    let sum = |of: fn(&QuotaRow) -> u64| tables.quotas.iter().map(of).fold(0, u64::saturating_add);
    let (pages, pool) = (sum(|row| row.pages.into()), u64::from(tables.header.pool_pages));
    findings.require(pages == pool, Kind::Quota, || format!("quotas have {pages} pages of a pool of {pool}"));
    let made = sum(|row| row.components.into());
    let has_room = tables.components.len() as u64 + made <= MAX_COMPONENTS as u64
        && tables.threads.len() as u64 + sum(|row| row.threads.into()) <= MAX_THREADS as u64
        && tables.regions.len() as u64 + sum(|row| row.regions.into()) <= MAX_REGIONS as u64
        && tables.capabilities.len() as u64 + made * PROCESS_SLOTS as u64 <= SLOTS as u64;
    findings.require(has_room, Kind::Quota, || {
        "quotas have more components, threads, regions or slots than the kernel has room for".to_owned()
    });
}

/// Pages of the pool, if all are in the image behind the boot tables.
fn pool(view: &View<'_>) -> Option<Range<u64>> {
    let header = view.tables.header;
    inside(view, header.pool_address, header.pool_pages).filter(|_| header.pool_pages != 0)
}

/// Whole pages of the image that are not the kernel's.
pub(crate) fn inside(view: &View<'_>, address: u64, pages: u32) -> Option<Range<u64>> {
    let end = address.checked_add(u64::from(pages) * PAGE)?;
    (address.is_multiple_of(PAGE) && address >= view.tables_end() && end <= view.end()).then_some(address..end)
}

fn segments<'t>(view: &View<'t>, row: &ProgramRow) -> &'t [SegmentRow] {
    let from = view.tables.segments.get(row.first_segment as usize..).unwrap_or_default();
    from.get(..row.segments as usize).unwrap_or_default()
}

fn place(view: &View<'_>, segment: &SegmentRow) -> Option<Range<u64>> {
    inside(view, segment.physical, segment.pages).filter(|_| segment.pages != 0)
}

/// States what is wrong with a program.
fn program(view: &View<'_>, row: &ProgramRow) -> Result<(), String> {
    let segments = segments(view, row);
    if segments.is_empty() || segments.len() != row.segments as usize || segments.len() > MAX_SEGMENTS {
        return Err(format!("has {} segments from {} on, which are not there", row.segments, row.first_segment));
    }
    let stack = u64::from(row.stack_pages).saturating_mul(PAGE);
    let bottom = COMPONENT_STACKS.checked_sub(stack).filter(|bottom| stack != 0 && *bottom > COMPONENT_TEXT);
    let bottom = bottom.ok_or_else(|| format!("has a stack of {} pages", row.stack_pages))?;
    // An empty page is below the stack.
    let (mut end, last) = (COMPONENT_TEXT, bottom - PAGE);
    let (mut pages, mut tables) = (u64::from(row.stack_pages), BTreeSet::new());
    tables.extend(bottom / TABLE_BYTES..COMPONENT_STACKS.div_ceil(TABLE_BYTES));
    for one in segments {
        let bytes = u64::from(one.pages) * PAGE;
        let is_behind = one.address.is_multiple_of(PAGE) && one.address >= end;
        let after = one.address.checked_add(bytes).filter(|after| is_behind && *after <= last);
        end = after.ok_or_else(|| {
            format!("has {bytes:#x} bytes at {:#x}, which are another one's or too high", one.address)
        })?;
        if place(view, one).is_none() {
            return Err(format!("has pages at {:#x} that are not the image's own", one.physical));
        }
        if ![READ, TEXT, DATA].contains(&one.rights) {
            return Err(format!("has rights {:#x} to its pages at {:#x}", one.rights, one.address));
        }
        pages += if one.rights == DATA { u64::from(one.pages) } else { 0 };
        tables.extend(one.address / TABLE_BYTES..end.div_ceil(TABLE_BYTES));
    }
    let is_text = |one: &&SegmentRow| {
        let offset = row.entry.checked_sub(one.address);
        one.rights == TEXT && offset.is_some_and(|offset| offset < u64::from(one.pages) * PAGE)
    };
    if !row.entry.is_multiple_of(4) || !segments.iter().any(|one| is_text(&one)) {
        return Err(format!("begins at {:#x}, where it has no text", row.entry));
    }
    let first = segments.first().filter(|one| one.address == COMPONENT_TEXT).and_then(|one| view.page(one.physical));
    let head = first.and_then(|page| ComponentHead::read_from_prefix(page).ok()).map(|(head, _)| head);
    if head.is_none_or(|head| (head.magic, head.abi_version) != (COMPONENT_MAGIC, KERNEL_ABI_VERSION)) {
        return Err(format!("does not begin as one of version {KERNEL_ABI_VERSION} of the kernel's ABI does"));
    }
    if row.floating_point > 1 || row.reserved != 0 {
        return Err("has bits that mean nothing".to_owned());
    }
    let needed = pages + 2 + tables.len() as u64;
    if needed == u64::from(row.pages) { Ok(()) } else { Err(format!("needs {needed} pages, and says {}", row.pages)) }
}
