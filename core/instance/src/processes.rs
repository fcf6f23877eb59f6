//! What is made at run time: the pool, whose quotas it is, and the programs of which processes are made.
//!
//! A program's pages are in the image once, and in no component's map at boot. Text and constants are shared by all processes of it; what they write is
//! copied for each, so the kernel reads those pages, and no others. The pool follows as zeros: so the loader of the image has looked that there is
//! memory for it, and a page that nobody has yet is nobody's in the image as well. The price is as many bytes of zeros in a file.

use crate::program::{Program, Use, bind, slot};
use crate::translation::PAGE;
use crate::write::{Image, read_program};
use crate::{Error, Import, Instance, ProgramError};
use bulkhead_kernel_abi::boot::{ProgramRow, QuotaRow, SegmentRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::{COMPONENT_STACKS, COMPONENT_TEXT, SLOTS};
use bulkhead_kernel_abi::{
    MAX_COMPONENTS, MAX_POOL_PAGES, MAX_PROGRAMS, MAX_REGIONS, MAX_SEGMENTS, MAX_THREADS, PROCESS_SLOTS,
};
use std::collections::BTreeSet;

/// Bytes that a table of the last level covers.
const TABLE_BYTES: u64 = PAGE * 512;

/// What components may make at run time.
#[derive(Clone, Debug, Default)]
pub struct Processes<'a> {
    /// By number.
    pub programs: Vec<ProcessProgram<'a>>,
    /// By number: at most one for a component. The pool has as many pages as all of them.
    pub quotas: Vec<QuotaRow>,
}

/// A program of which processes are made.
#[derive(Clone, Debug)]
pub struct ProcessProgram<'a> {
    /// Its name, at most 15 bytes of UTF-8.
    pub name: String,
    /// An ELF file.
    pub file: &'a [u8],
    /// In which slots it finds what it imports; each import is named once. A process has its own quota in slot
    /// [`bulkhead_kernel_abi::PROCESS_QUOTA_SLOT`], and what its maker gives behind it, in that order.
    pub imports: Vec<Import>,
    /// Bytes of its first thread's stack, whole pages.
    pub stack_bytes: u64,
    /// Its processes may use floating-point registers.
    pub floating_point: bool,
}

/// Rows of programs, and where their writable pages are in the image.
#[derive(Debug, Default)]
pub(crate) struct Laid {
    pub(crate) programs: Vec<ProgramRow>,
    pub(crate) segments: Vec<SegmentRow>,
    /// Physical addresses and bytes that the kernel reads.
    pub(crate) copied: Vec<(u64, u64)>,
}

impl Processes<'_> {
    /// Pages of the pool.
    pub(crate) fn pool_pages(&self) -> u32 {
        self.quotas.iter().fold(0, |sum, quota| sum.saturating_add(quota.pages))
    }

    /// Reads the programs.
    pub(crate) fn read(&self) -> Result<Vec<Program>, Error> {
        self.programs.iter().map(read).collect()
    }

    /// What the kernel has room for, beside what is there at boot.
    pub(crate) fn count(&self, instance: &Instance<'_>) -> Result<(), Error> {
        let components = instance.components.len();
        let threads: usize = instance.components.iter().map(|one| one.threads.len()).sum();
        let slots: usize = instance.components.iter().map(|one| one.capabilities.len()).sum();
        let all = |of: fn(&QuotaRow) -> u16| self.quotas.iter().map(|quota| usize::from(of(quota))).sum::<usize>();
        let made = all(|quota| quota.components);
        let counts = [
            ("pages of the pool", self.pool_pages() as usize, MAX_POOL_PAGES),
            ("programs of processes", self.programs.len(), MAX_PROGRAMS),
            ("components with all that may be made", components + made, MAX_COMPONENTS),
            ("threads with all that may be made", threads + all(|quota| quota.threads), MAX_THREADS),
            ("regions of memory", all(|quota| quota.regions), MAX_REGIONS),
            ("capability slots with those of processes", slots + made * PROCESS_SLOTS, SLOTS),
        ];
        if let Some((what, count, most)) = counts.iter().find(|(_, count, most)| count > most) {
            return Err(Error::Description(format!("an instance has at most {most} {what}, and this one {count}")));
        }
        let mut owners = BTreeSet::new();
        match self.quotas.iter().find(|one| usize::from(one.component) >= components || !owners.insert(one.component)) {
            Some(one) => Err(Error::Description(format!(
                "a quota is of component {}, which is not there or has another one",
                one.component
            ))),
            None => Ok(()),
        }
    }

    /// Writes the programs' pages.
    pub(crate) fn lay(&self, programs: &[Program], image: &mut Image) -> Laid {
        let mut laid = Laid::default();
        for (written, program) in self.programs.iter().zip(programs) {
            let mut row = ProgramRow {
                entry: program.entry,
                name: crate::names::name(&written.name),
                first_segment: laid.segments.len() as u32,
                segments: program.segments.len() as u32,
                stack_pages: (written.stack_bytes / PAGE) as u32,
                pages: 0,
                floating_point: written.floating_point.into(),
                reserved: 0,
            };
            row.pages = pages(program, row.stack_pages);
            for segment in &program.segments {
                let bytes = segment.bytes.len() as u64;
                let physical = image.reserve(bytes);
                image.put(physical, &segment.bytes);
                let more = match segment.kind {
                    Use::Text => right::EXECUTE,
                    Use::Constants => 0,
                    Use::Data => {
                        laid.copied.push((physical, bytes));
                        right::WRITE
                    }
                };
                let rights = (right::READ | more).into();
                let (address, pages) = (segment.address, (bytes / PAGE) as u32);
                laid.segments.push(SegmentRow { address, physical, pages, rights });
            }
            laid.programs.push(row);
        }
        laid
    }
}

/// Pages of the pool that a process has when it starts: what it writes, and its tables: two, and one for each 2 MiB in which it has something.
fn pages(program: &Program, stack_pages: u32) -> u32 {
    let written = program.segments.iter().filter(|segment| segment.kind == Use::Data);
    let data: u64 = written.map(|segment| segment.bytes.len() as u64 / PAGE).sum();
    let stack = COMPONENT_STACKS - u64::from(stack_pages) * PAGE..COMPONENT_STACKS;
    let ranges = program.segments.iter().map(|segment| segment.address..segment.end()).chain([stack]);
    let tables: BTreeSet<u64> =
        ranges.flat_map(|range| range.start / TABLE_BYTES..range.end.div_ceil(TABLE_BYTES)).collect();
    stack_pages + data as u32 + 2 + tables.len() as u32
}

/// Reads a program, and binds what it imports to the slots that a process is given.
fn read(written: &ProcessProgram<'_>) -> Result<Program, Error> {
    let wrong = |reason: ProgramError| Error::Program { component: written.name.clone(), reason };
    let bytes = written.stack_bytes;
    let end = bytes.checked_add(PAGE).and_then(|bytes| COMPONENT_STACKS.checked_sub(bytes));
    let end = end.filter(|end| bytes != 0 && bytes.is_multiple_of(PAGE) && *end > COMPONENT_TEXT);
    let mut program = read_program(written.file, end.ok_or_else(|| wrong(ProgramError::Stacks))?).map_err(wrong)?;
    if program.segments.len() > MAX_SEGMENTS {
        let reason = format!("it has {} segments, and a process at most {MAX_SEGMENTS}", program.segments.len());
        return Err(wrong(ProgramError::Elf(reason)));
    }
    bind(written.imports.iter().map(slot).collect(), &mut program)
        .map_err(|reason| wrong(ProgramError::Binding(reason)))?;
    Ok(program)
}
