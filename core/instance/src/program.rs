//! Segments of an ELF file: of the kernel, or of a component.

use crate::interface::Interface;
use crate::translation::PAGE;
use crate::{Import, ProgramError};
use bulkhead_kernel_abi::image::OUTLIVES_RESET;
use elf::ElfBytes;
use elf::abi::{EM_AARCH64, PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;

/// What a segment's pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Text,
    Constants,
    Data,
}

/// Whole pages.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// First address, of a page.
    pub(crate) address: u64,
    /// Its bytes, the rest of the last page as zeros.
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: Use,
    /// A reset leaves it as it is.
    pub(crate) outlives: bool,
}

impl Segment {
    /// One past its last page.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }
}

/// A program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) entry: u64,
    /// By address.
    pub(crate) segments: Vec<Segment>,
    pub(crate) interface: Interface,
}

impl Program {
    /// States whether an instruction is there.
    fn is_text(&self, address: u64) -> bool {
        let mut texts = self.segments.iter().filter(|segment| segment.kind == Use::Text);
        address.is_multiple_of(4) && texts.any(|text| (text.address..text.end()).contains(&address))
    }

    /// States whether a word of 64 bits is there that the program can write.
    fn is_data(&self, address: u64) -> bool {
        let mut data = self.segments.iter().filter(|segment| segment.kind == Use::Data);
        address.is_multiple_of(8) && data.any(|data| (data.address..data.end()).contains(&address))
    }

    /// Writes what an import is bound to where the program looks for it: the number of a slot, or more.
    pub(crate) fn bind(&mut self, import: usize, bytes: &[u8]) -> Option<()> {
        let address = self.interface.imports.get(import)?.address;
        let of =
            |segment: &&mut Segment| segment.kind != Use::Text && (segment.address..segment.end()).contains(&address);
        let segment = self.segments.iter_mut().find(of)?;
        let start = usize::try_from(address - segment.address).ok()?;
        segment.bytes.get_mut(start..start.checked_add(bytes.len())?)?.copy_from_slice(bytes);
        Some(())
    }
}

/// What the word of an import is bound to.
pub(crate) fn slot(import: &Import) -> (&str, Vec<u8>) {
    (import.name.as_str(), import.slot.to_le_bytes().to_vec())
}

/// Writes slots' numbers and records of ports into the program: of all that it imports, and of nothing else.
pub(crate) fn bind(imports: Vec<(&str, Vec<u8>)>, program: &mut Program) -> Result<(), String> {
    let names: Vec<String> = program.interface.imports.iter().map(|function| function.name.clone()).collect();
    if let Some((other, _)) = imports.iter().find(|(import, _)| !names.iter().any(|name| name == import)) {
        return Err(format!("it does not import `{other}`, which is bound"));
    }
    for (number, name) in names.iter().enumerate() {
        let mut bound = imports.iter().filter(|(import, _)| import == name);
        let (Some((_, bytes)), None) = (bound.next(), bound.next()) else {
            return Err(format!("`{name}`, which it imports, is not bound exactly once"));
        };
        program.bind(number, bytes).ok_or_else(|| format!("the word of its import `{name}` is not in its data"))?;
    }
    Ok(())
}

/// Most bytes of a segment.
const LIMIT_BYTES: u64 = 64 << 20;

/// Reads a program whose segments each have pages of their own within `addresses`.
pub(crate) fn read(file: &[u8], addresses: core::ops::Range<u64>) -> Result<Program, ProgramError> {
    let damaged = |error: elf::ParseError| ProgramError::Elf(error.to_string());
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(damaged)?;
    if elf.ehdr.e_machine != EM_AARCH64 {
        return Err(ProgramError::Elf("it is not for AArch64".to_owned()));
    }
    let headers = elf.segments().ok_or_else(|| ProgramError::Elf("it has no program headers".to_owned()))?;
    let mut segments = Vec::new();
    for header in headers.iter().filter(|header| header.p_type == PT_LOAD && header.p_memsz > 0) {
        let kind = match (header.p_flags & PF_X != 0, header.p_flags & PF_W != 0) {
            (true, true) => return Err(ProgramError::WritableText(header.p_vaddr)),
            (true, false) => Use::Text,
            (false, true) => Use::Data,
            (false, false) => Use::Constants,
        };
        let end = header.p_vaddr.checked_add(header.p_memsz).filter(|_| header.p_memsz <= LIMIT_BYTES);
        let is_inside = end.is_some_and(|end| addresses.contains(&header.p_vaddr) && end <= addresses.end);
        if !is_inside || !header.p_vaddr.is_multiple_of(PAGE) {
            return Err(ProgramError::Outside(header.p_vaddr, addresses));
        }
        let mut bytes = elf.segment_data(&header).map_err(damaged)?.to_vec();
        // At most the limit, which every host can count.
        bytes.resize(header.p_memsz.next_multiple_of(PAGE) as usize, 0);
        let outlives = kind == Use::Data && header.p_flags & OUTLIVES_RESET != 0;
        if outlives && bytes.iter().any(|byte| *byte != 0) {
            return Err(ProgramError::Elf(format!(
                "what outlives a reset, at {:#x}, does not begin as zeros",
                header.p_vaddr
            )));
        }
        segments.push(Segment { address: header.p_vaddr, bytes, kind, outlives });
    }
    segments.sort_by_key(|segment| segment.address);
    if let Some(pair) = segments.windows(2).find(|pair| pair[0].end() > pair[1].address) {
        return Err(ProgramError::Overlap(pair[1].address));
    }
    let program = Program { entry: elf.ehdr.e_entry, segments, interface: Interface::read(file)? };
    if !program.is_text(program.entry) {
        return Err(ProgramError::Entry(program.entry));
    }
    let wrong = |what: String| Err(ProgramError::Interface(what));
    if let Some(function) = program.interface.exports.iter().find(|function| !program.is_text(function.address)) {
        return wrong(format!("its function `{}` is not in its text", function.name));
    }
    match program.interface.counts.iter().find(|count| !program.is_data(count.address)) {
        Some(count) => wrong(format!("its count `{}` is no word of its data", count.name)),
        None => Ok(program),
    }
}
