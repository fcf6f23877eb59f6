//! Data of components: a reset gives each what its program began with, all of it, and from pages that nobody writes.

use crate::finding::{Findings, Kind};
use crate::processes::{Owned, inside};
use crate::walk::Map;
use crate::{PAGE, View};
use bulkhead_kernel_abi::boot::DataRow;
use bulkhead_kernel_abi::image::{COMPONENT_STACKS, COMPONENT_TEXT};
use core::ops::Range;
use std::collections::BTreeSet;

/// Pages of components that the kernel writes, as far as their rows are sound.
pub(crate) fn written<'v>(view: &'v View<'_>) -> impl Iterator<Item = Range<u64>> + 'v {
    let restored = view.tables.data.iter().filter(|row| row.outlives == 0);
    restored.filter_map(|row| inside(view, row.physical, row.pages))
}

/// Pages of the copies.
pub(crate) fn kept<'v>(view: &'v View<'_>) -> impl Iterator<Item = Owned> + 'v {
    let of = |(number, row): (usize, &DataRow)| {
        let pages = inside(view, row.kept, row.kept_pages).filter(|_| row.kept_pages != 0)?;
        Some(Owned { pages, owner: format!("the copy {number} of data"), kernel_writes: Some(false) })
    };
    view.tables.data.iter().enumerate().filter_map(of)
}

/// Compares copies with data, and rows with what components can write beside their stacks.
pub(crate) fn check(view: &View<'_>, spaces: &[Map], findings: &mut Findings) {
    let mut of_rows = BTreeSet::new();
    for (number, row) in view.tables.data.iter().enumerate() {
        let is_sound = is_sound(view, row);
        findings.require(is_sound, Kind::Data, || {
            format!(
                "row {number} of data, {} pages at {:#x} of component {}, has a copy that is not what these pages begin with",
                row.pages, row.physical, row.component
            )
        });
        if is_sound {
            let pages = (row.physical..row.physical + u64::from(row.pages) * PAGE).step_by(PAGE as usize);
            let twice = pages.filter(|page| !of_rows.insert((usize::from(row.component), *page))).count();
            findings.require(twice == 0, Kind::Data, || {
                format!("row {number} of data is of pages that another one has, too")
            });
        }
    }
    let of_components: BTreeSet<_> = spaces
        .iter()
        .enumerate()
        .flat_map(|(number, space)| data(view, number, space).into_iter().map(move |page| (number, page)))
        .collect();
    if let Some((component, page)) = of_components.symmetric_difference(&of_rows).next() {
        let message = format!(
            "the data of component {component} at {page:#x} would not be what it was after a reset, or is none"
        );
        findings.add(Kind::Data, message);
    }
}

/// Pages of the image, of which the first ones begin as the copy is and the others as zeros.
fn is_sound(view: &View<'_>, row: &DataRow) -> bool {
    let page = |from: u64, number: u32| view.page(from.checked_add(u64::from(number) * PAGE)?);
    let begins = |number: u32| match number < row.kept_pages {
        true => page(row.physical, number) == page(row.kept, number),
        false => page(row.physical, number).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)),
    };
    row.pages != 0
        && row.kept_pages <= row.pages
        && row.reserved == 0
        && (row.outlives == 0 || row.outlives == 1 && row.kept_pages == 0)
        && inside(view, row.physical, row.pages).is_some()
        && (row.kept_pages != 0 || row.kept == 0)
        && (row.kept_pages == 0 || inside(view, row.kept, row.kept_pages).is_some())
        && (0..row.pages).all(begins)
}

/// What a component writes that is no stack: physical addresses of pages.
fn data(view: &View<'_>, component: usize, space: &Map) -> Vec<u64> {
    let threads = view.tables.threads.iter().filter(|row| usize::from(row.component) == component).map(|row| row.stack);
    let row = view.tables.components.get(component);
    let callers = row.map_or(&[][..], |row| view.tables.stacks(row)).iter().map(|row| row.top);
    let stacks: Vec<Range<u64>> = threads.chain(callers).map(|top| crate::objects::bottom(space, top)..top).collect();
    let pages = space.mappings.range(COMPONENT_TEXT..COMPONENT_STACKS).filter(|(_, mapping)| mapping.write);
    let is_stack = |address: &u64| stacks.iter().any(|stack| stack.contains(address));
    pages.filter(|(address, _)| !is_stack(address)).map(|(_, mapping)| mapping.output).collect()
}
