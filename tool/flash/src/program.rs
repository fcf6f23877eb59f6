//! ELF files as the bytes that lie in memory.

use crate::Error;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_world::flash::{MOST_BYTES, secure_ram};
use elf::ElfBytes;
use elf::abi::{EM_AARCH64, PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;

/// What a payload may do with a range of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Read and execute.
    Text,
    /// Read.
    Constants,
    /// Read and write.
    Data,
}

/// A payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its bytes from [`secure_ram::PAYLOAD`] on, without what begins as zeros behind them.
    pub bytes: Vec<u8>,
    /// Its first instruction.
    pub entry: u64,
    /// Its ranges, whole pages: first address, bytes, rights.
    pub ranges: Vec<(u64, u64, Rights)>,
}

/// Bytes of a program and where they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    /// Their first address.
    pub base: u64,
    /// First instruction.
    pub entry: u64,
    /// The bytes, without zeros at their end that the file does not hold.
    pub bytes: Vec<u8>,
}

/// Reads a payload.
pub(crate) fn read(file: &[u8]) -> Result<Program, Error> {
    let what = "the payload";
    let elf = parse(file, what)?;
    let mut ranges: Vec<(u64, u64, Rights)> = Vec::new();
    for segment in loadable(&elf, what)? {
        let address = segment.p_paddr;
        if address < secure_ram::PAYLOAD || address % PAGE_BYTES != 0 {
            return Err(Error::PayloadPlace { address });
        }
        let rights = match (segment.p_flags & PF_W != 0, segment.p_flags & PF_X != 0) {
            (true, true) => return Err(Error::PayloadRights { address }),
            (true, false) => Rights::Data,
            (false, true) => Rights::Text,
            (false, false) => Rights::Constants,
        };
        ranges.push((address, segment.p_memsz.next_multiple_of(PAGE_BYTES), rights));
    }
    let flat = flat(file, what)?;
    let mut bytes = vec![0; (flat.base - secure_ram::PAYLOAD) as usize];
    bytes.extend(flat.bytes);
    Ok(Program { bytes, entry: flat.entry, ranges })
}

/// Reads a program as one run of bytes; `what` is its name in errors.
///
/// # Errors
/// When it is no ELF file for AArch64, or damaged, or its segments are far apart.
pub fn flat(file: &[u8], what: &'static str) -> Result<Flat, Error> {
    let elf = parse(file, what)?;
    let wrong = |why: &str| Error::Elf { what, why: why.to_owned() };
    let segments = loadable(&elf, what)?;
    let base = segments.iter().map(|segment| segment.p_paddr).min().ok_or_else(|| wrong("it has nothing to load"))?;
    let mut bytes = Vec::new();
    for segment in &segments {
        let content = elf.segment_data(segment).map_err(|error| wrong(&error.to_string()))?;
        let offset = segment.p_paddr - base;
        let end = offset.checked_add(content.len() as u64).filter(|end| *end <= MOST_BYTES);
        let end = end.ok_or_else(|| wrong("its segments are too far apart"))? as usize;
        bytes.resize(bytes.len().max(end), 0);
        bytes[end - content.len()..end].copy_from_slice(content);
    }
    Ok(Flat { base, entry: elf.ehdr.e_entry, bytes })
}

fn parse<'a>(file: &'a [u8], what: &'static str) -> Result<ElfBytes<'a, LittleEndian>, Error> {
    let wrong = |why: String| Error::Elf { what, why };
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| wrong(error.to_string()))?;
    if elf.ehdr.e_machine != EM_AARCH64 {
        return Err(wrong("it is not for AArch64".to_owned()));
    }
    Ok(elf)
}

fn loadable(elf: &ElfBytes<'_, LittleEndian>, what: &'static str) -> Result<Vec<elf::segment::ProgramHeader>, Error> {
    let segments = elf.segments().ok_or(Error::Elf { what, why: "it has no program headers".to_owned() })?;
    Ok(segments.iter().filter(|segment| segment.p_type == PT_LOAD && segment.p_memsz > 0).collect())
}
