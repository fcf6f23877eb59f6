//! Where a function of the monitor is, from the symbols of its ELF file: counted from its first byte, since an image says where that is.

use crate::Failure;
use std::ops::Range;

const SECTION_SYMBOLS: u32 = 2;
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

/// The functions whose mangled name contains `part`.
fn found(elf: &[u8], part: &str) -> Option<Vec<Range<u64>>> {
    let first = word(elf, 0x18, 8)?;
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
    let range = |at: usize| {
        let (value, size) = (word(elf, at + 8, 8)?, word(elf, at + 16, 8)?);
        let start = value.checked_sub(first)?;
        (elf.get(at + 4)? & 0xf == KIND_FUNCTION && name(at)?.contains(part)).then(|| start..start.saturating_add(size))
    };
    Some((start..start.checked_add(bytes)?).step_by(SYMBOL_BYTES).filter_map(range).collect())
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
