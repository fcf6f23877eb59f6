//! What a component's program exports and imports, by name (`bulkhead_kernel_abi::image::Function`).

use crate::ProgramError;
use bulkhead_kernel_abi::image::{self, COUNTS, EXPORTS, IMPORTS};
use elf::ElfBytes;
use elf::endian::LittleEndian;
use zerocopy::FromBytes;

/// A function of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Hash of what it takes and answers; equal on both sides, or they are not bound.
    pub signature: u64,
    /// Where callers enter; of an import, where the slot's number is.
    pub address: u64,
}

/// The functions of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// What others may call, by number of the entry.
    pub exports: Vec<Function>,
    /// What it calls.
    pub imports: Vec<Function>,
    /// Numbers that it keeps for the host: where each is in its data.
    pub counts: Vec<Function>,
}

impl Interface {
    /// Reads the interface of a program.
    ///
    /// # Errors
    /// When the file is none, or has a section that is none of functions.
    pub fn read(file: &[u8]) -> Result<Self, ProgramError> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(damaged)?;
        let of = |section| functions(&elf, section);
        Ok(Self { exports: of(EXPORTS)?, imports: of(IMPORTS)?, counts: of(COUNTS)? })
    }

    /// The number of the entry of that name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<u16> {
        let found = self.exports.iter().position(|function| function.name == name)?;
        u16::try_from(found).ok()
    }
}

fn damaged(error: elf::ParseError) -> ProgramError {
    ProgramError::Elf(error.to_string())
}

fn functions(elf: &ElfBytes<'_, LittleEndian>, name: &'static str) -> Result<Vec<Function>, ProgramError> {
    let wrong = |what: &str| ProgramError::Interface(format!("its section `{name}` {what}"));
    let Some(section) = elf.section_header_by_name(name).map_err(damaged)? else {
        return Ok(Vec::new());
    };
    let (bytes, _) = elf.section_data(&section).map_err(damaged)?;
    let chunks = bytes.chunks_exact(size_of::<image::Function>());
    if !chunks.remainder().is_empty() {
        return Err(wrong("does not hold whole records"));
    }
    let mut all: Vec<Function> = Vec::new();
    for chunk in chunks {
        let record = image::Function::read_from_bytes(chunk).map_err(|_| wrong("does not hold whole records"))?;
        let length = record.name.iter().position(|byte| *byte == 0).unwrap_or(record.name.len());
        let text = core::str::from_utf8(&record.name[..length]).map_err(|_| wrong("has a name that is no text"))?;
        if all.iter().any(|function| function.name == text) {
            return Err(ProgramError::Twice(text.to_owned(), name));
        }
        all.push(Function { name: text.to_owned(), signature: record.signature, address: record.address });
    }
    Ok(all)
}
