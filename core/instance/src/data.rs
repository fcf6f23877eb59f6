//! Writable data of components, and what they begin with (`kernel.md` 7, `reset`).
//!
//! A component that is begun again finds its data as its program has them: a page that has something but zeros is copied back from pages that nobody
//! writes, and the others are cleared. So the kernel maps the data of components, beside its own memory and the pool: for this alone, and never executable.
//! What a program says must outlive a reset is left out, and only the component has it.
//!
//! Rejected: that the supervisor's program copies. It would have the data of all that it supervises, to be written at any time, and who has a copy of the
//! constants of another program has its secrets. Rejected as well: data of components in the pool, where the kernel is already. What the host lays out for a component
//! would be pages like those that processes take, and the pool is zero at boot.

use crate::program::{Program, Segment, Use};
use crate::translation::{Access, PAGE, Space};
use crate::write::Image;
use bulkhead_kernel_abi::boot::DataRow;

fn data(program: &Program) -> impl Iterator<Item = &Segment> {
    program.segments.iter().filter(|segment| segment.kind == Use::Data)
}

/// The pages up to the last one that does not begin as zeros.
fn kept_bytes(segment: &Segment) -> usize {
    let last = segment.bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| (last + 1).next_multiple_of(PAGE as usize))
}

/// The rows of all components, whose places are not known yet.
pub(crate) fn rows(programs: &[Program]) -> Vec<DataRow> {
    let of = |(component, program)| {
        data(program).map(move |segment| DataRow {
            pages: (segment.bytes.len() as u64 / PAGE) as u32,
            kept_pages: (kept_bytes(segment) as u64 / PAGE) as u32,
            component,
            outlives: segment.outlives.into(),
            ..DataRow::default()
        })
    };
    (0..).zip(programs).flat_map(of).collect()
}

/// Writes the copies, says where they and the data are, and lets the kernel map both.
pub(crate) fn lay(rows: &mut [DataRow], programs: &[Program], spaces: &[Space], image: &mut Image, kernel: &mut Space) {
    let segments = programs.iter().zip(spaces).flat_map(|(program, space)| data(program).map(move |one| (one, space)));
    for (row, (segment, space)) in rows.iter_mut().zip(segments) {
        row.physical = space.physical(segment.address).unwrap_or(0);
        if segment.outlives {
            continue;
        }
        kernel.map(row.physical, row.physical, segment.bytes.len() as u64, Access::KernelData);
        let kept = kept_bytes(segment);
        if kept != 0 {
            row.kept = image.reserve(kept as u64);
            image.put(row.kept, &segment.bytes[..kept]);
            kernel.map(row.kept, row.kept, kept as u64, Access::KernelConstants);
        }
    }
}
