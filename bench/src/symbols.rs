//! Functions of a program, from the symbols of its ELF file. Those of the monitor are counted from its first byte, since an image says where that is.

use crate::Failure;
use std::ops::Range;

const SECTION_SYMBOLS: u32 = 2;
const KIND_NONE: u8 = 0;
const KIND_FUNCTION: u8 = 2;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;

fn word(elf: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let raw = elf.get(at..at.checked_add(bytes)?)?;
    Some(raw.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

fn place(elf: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(elf, at, 8)?).ok()
}

/// A function of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// Mangled name.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where it is in the file.
    at: usize,
}

impl Code {
    /// States whether the address is in it.
    pub(crate) fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset < self.bytes)
    }

    /// Its instructions, as far as the file has them.
    pub(crate) fn words<'a>(&self, elf: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let end = usize::try_from(self.bytes).ok().and_then(|bytes| self.at.checked_add(bytes));
        let code = end.and_then(|end| elf.get(self.at..end)).unwrap_or_default();
        code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
    }
}

/// Bytes in memory of an ELF file's sections: text with constants, data, and what begins as zeros.
pub(crate) fn section_sizes(elf: &[u8]) -> Option<[u64; 3]> {
    const ZEROS: u64 = 8; // SHT_NOBITS
    const WRITE: u64 = 1;
    const IN_MEMORY: u64 = 2;
    let first = place(elf, 0x28)?;
    let count = usize::try_from(word(elf, 0x3c, 2)?).ok()?;
    let mut sizes = [0; 3];
    for number in 0..count {
        let at = first.checked_add(number.checked_mul(SECTION_BYTES)?)?;
        let (kind, flags, bytes) = (word(elf, at + 4, 4)?, word(elf, at + 8, 8)?, word(elf, at + 0x20, 8)?);
        let [text, data, zeros] = &mut sizes;
        match (flags & IN_MEMORY, flags & WRITE, kind) {
            (0, ..) => {}
            (_, _, ZEROS) => *zeros += bytes,
            (_, 0, _) => *text += bytes,
            _ => *data += bytes,
        }
    }
    (count != 0).then_some(sizes)
}

/// Every function.
pub(crate) fn functions(elf: &[u8]) -> Option<Vec<Code>> {
    symbols(elf, KIND_FUNCTION)
}

/// The first instruction of a function in assembly, whose symbol says neither that it is one nor how long, counted from the first byte of the program.
pub(crate) fn assembly(elf: &[u8], name: &str) -> Result<Range<u64>, Failure> {
    let first = word(elf, 0x18, 8).unwrap_or(0);
    let labels = symbols(elf, KIND_NONE).unwrap_or_default();
    let found = labels.iter().find(|code| code.name == name).map(|code| code.start.saturating_sub(first));
    let start = found.ok_or_else(|| Failure::wrong(format!("the monitor has no `{name}`")))?;
    Ok(start..start.saturating_add(4))
}

fn symbols(elf: &[u8], kind: u8) -> Option<Vec<Code>> {
    let sections = place(elf, 0x28)?;
    let count = usize::try_from(word(elf, 0x3c, 2)?).ok()?;
    let header = |number: usize| sections.checked_add(number.checked_mul(SECTION_BYTES)?);
    let symbols = (0..count).filter_map(header).find(|at| word(elf, at + 4, 4) == Some(SECTION_SYMBOLS.into()))?;
    let (start, bytes) = (place(elf, symbols + 0x18)?, place(elf, symbols + 0x20)?);
    let names = place(elf, header(usize::try_from(word(elf, symbols + 0x28, 4)?).ok()?)? + 0x18)?;
    let name = |at: usize| {
        let first = names.checked_add(usize::try_from(word(elf, at, 4)?).ok()?)?;
        let rest = elf.get(first..)?;
        std::str::from_utf8(rest.get(..rest.iter().position(|byte| *byte == 0)?)?).ok()
    };
    let code = |at: usize| {
        let (start, bytes) = (word(elf, at + 8, 8)?, word(elf, at + 16, 8)?);
        let section = header(usize::try_from(word(elf, at + 6, 2)?).ok()?)?;
        let offset = start.checked_sub(word(elf, section + 0x10, 8)?)?;
        let at_file = place(elf, section + 0x18)?.checked_add(usize::try_from(offset).ok()?)?;
        let is_meant = elf.get(at + 4)? & 0xf == kind;
        Some(Code { name: name(at)?.to_owned(), start, bytes, at: at_file }).filter(|_| is_meant)
    };
    Some((start..start.checked_add(bytes)?).step_by(SYMBOL_BYTES).filter_map(code).collect())
}

/// The functions whose mangled name contains `part`, counted from the first byte of the program.
fn found(elf: &[u8], part: &str) -> Option<Vec<Range<u64>>> {
    let first = word(elf, 0x18, 8)?;
    let range = |code: &Code| {
        let start = code.start.checked_sub(first)?;
        code.name.contains(part).then(|| start..start.saturating_add(code.bytes))
    };
    Some(functions(elf)?.iter().filter_map(range).collect())
}

/// Where the instructions are that are meant, counted from the first byte of the program.
pub(crate) fn instructions(elf: &[u8], is_meant: impl Fn(u32) -> bool) -> Vec<Range<u64>> {
    let first = word(elf, 0x18, 8).unwrap_or(0);
    let all = functions(elf).unwrap_or_default();
    let starts = all.iter().flat_map(|code| {
        let words = (code.start..).step_by(4).zip(code.words(elf));
        words.filter(|(_, word)| is_meant(*word)).map(|(start, _)| start.saturating_sub(first)).collect::<Vec<_>>()
    });
    starts.map(|start| start..start.saturating_add(4)).collect()
}

/// The one function whose name contains `part`.
pub(crate) fn function(elf: &[u8], part: &str) -> Result<Range<u64>, Failure> {
    match found(elf, part).unwrap_or_default().as_slice() {
        [one] => Ok(one.clone()),
        all => Err(Failure::wrong(format!(
            "the monitor has {} functions `{part}`, and `./x bench costs` looks for one",
            all.len()
        ))),
    }
}
