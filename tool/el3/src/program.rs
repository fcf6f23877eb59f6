//! The ELF file of the secure monitor as words, labels and sizes.

use elf::ElfBytes;
use elf::abi::{PT_LOAD, SHF_ALLOC};
use elf::endian::LittleEndian;
use std::collections::BTreeMap;

/// The largest file that is read: far more than a program of one page needs.
const MOST_TEXT_BYTES: u64 = 0x1000;
/// First and last slot of the vectors, which have names of their own where the source gives them no label.
const SLOTS: std::ops::RangeInclusive<u64> = 0x200..=0x580;
const SLOT_BYTES: u64 = 0x80;

/// What the text holds at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// An instruction.
    Instruction(u32),
    /// A word of zeros, which fills the text up to a vector.
    Padding,
    /// Text for the console.
    Constants,
}

/// The program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Each word of the text by its address.
    words: BTreeMap<u64, Word>,
    /// Names by address; several where a label stands twice.
    labels: BTreeMap<u64, String>,
    /// Bytes of each allocated section.
    sections: Vec<(String, u64)>,
    /// Bytes of text that are neither instructions nor padding.
    constant_bytes: u64,
    text: Vec<u8>,
}

/// Sizes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// `.text`, `.rodata`, `.data` and `.bss`, boot and padding included.
    pub bytes: u64,
    /// What of it is not text.
    pub bytes_beside_text: u64,
    /// Instructions.
    pub instructions: u64,
    /// Texts for the console, each with the zero that ends it.
    pub constant_bytes: u64,
}

impl Size {
    /// Bytes that fill the text up to the next vector.
    #[must_use]
    pub fn padding_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.unpadded_bytes())
    }

    /// Bytes without padding.
    #[must_use]
    pub fn unpadded_bytes(&self) -> u64 {
        4 * self.instructions + self.constant_bytes + self.bytes_beside_text
    }
}

impl Program {
    /// Reads an ELF file.
    ///
    /// # Errors
    /// When it is no program of one text section at address 0 that fits into a page.
    pub fn read(file: &[u8]) -> Result<Self, String> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| error.to_string())?;
        let sections = allocated(&elf)?;
        let loaded: Vec<_> = elf.segments().into_iter().flatten().filter(|one| one.p_type == PT_LOAD).collect();
        let [segment] = loaded.as_slice() else { return Err(format!("it has {} loadable segments", loaded.len())) };
        if segment.p_vaddr != 0 || elf.ehdr.e_entry != 0 || segment.p_memsz > MOST_TEXT_BYTES {
            return Err("it is no program of one page at address 0".to_owned());
        }
        if segment.p_filesz != segment.p_memsz {
            return Err("it has memory that is not in the file".to_owned());
        }
        let text = elf.segment_data(segment).map_err(|error| error.to_string())?.to_vec();
        let (labels, kinds) = symbols(&elf, text.len() as u64)?;
        let (words, constant_bytes) = words(&text, &kinds);
        Ok(Self { words, labels, sections, constant_bytes, text })
    }

    /// The text's bytes.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What the text holds at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<Word> {
        self.words.get(&address).copied()
    }

    /// Every instruction with its address.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.words.iter().filter_map(|(address, word)| match word {
            Word::Instruction(word) => Some((*address, *word)),
            _ => None,
        })
    }

    /// Its sizes.
    #[must_use]
    pub fn size(&self) -> Size {
        let bytes = self.sections.iter().map(|(_, bytes)| bytes).sum();
        Size {
            bytes,
            bytes_beside_text: u64::saturating_sub(bytes, self.text.len() as u64),
            instructions: self.instructions().count() as u64,
            constant_bytes: self.constant_bytes,
        }
    }

    /// Bytes of a section; 0 when there is none.
    #[must_use]
    pub fn section_bytes(&self, name: &str) -> u64 {
        self.sections.iter().filter(|(known, _)| known == name).map(|(_, bytes)| bytes).sum()
    }

    /// The label before an address: a name of the source or a slot of the vectors.
    #[must_use]
    pub fn label(&self, address: u64) -> &str {
        self.labels.range(..=address).next_back().map_or("", |(_, name)| name.as_str())
    }

    /// The label before an address with the distance to it, as in `copy+0x4`.
    #[must_use]
    pub fn place(&self, address: u64) -> String {
        match self.labels.range(..=address).next_back() {
            Some((start, name)) if *start == address => name.clone(),
            Some((start, name)) => format!("{name}+{:#x}", address - start),
            None => format!("{address:#x}"),
        }
    }

    /// The address of a label.
    #[must_use]
    pub fn address(&self, label: &str) -> Option<u64> {
        self.labels.iter().find(|(_, name)| *name == label).map(|(address, _)| *address)
    }
}

fn allocated(elf: &ElfBytes<'_, LittleEndian>) -> Result<Vec<(String, u64)>, String> {
    let (headers, names) = elf.section_headers_with_strtab().map_err(|error| error.to_string())?;
    let (Some(headers), Some(names)) = (headers, names) else { return Err("it has no sections".to_owned()) };
    let allocated = headers.iter().filter(|one| one.sh_flags & u64::from(SHF_ALLOC) != 0);
    allocated
        .map(|one| {
            let name = names.get(one.sh_name as usize).map_err(|error| error.to_string())?;
            Ok((name.to_owned(), one.sh_size))
        })
        .collect()
}

/// Labels and kinds (true = instructions) by the address from which they hold.
type Symbols = (BTreeMap<u64, String>, BTreeMap<u64, bool>);

fn symbols(elf: &ElfBytes<'_, LittleEndian>, end: u64) -> Result<Symbols, String> {
    let found = elf.symbol_table().map_err(|error| error.to_string())?;
    let (symbols, names) = found.ok_or("it has no symbols; it was stripped")?;
    let (mut labels, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for slot in SLOTS.step_by(SLOT_BYTES as usize) {
        labels.insert(slot, format!("slot {slot:#05x}"));
    }
    for symbol in symbols.iter().filter(|one| one.st_shndx != 0 && one.st_shndx < 0xff00 && one.st_value < end) {
        let name = names.get(symbol.st_name as usize).map_err(|error| error.to_string())?;
        match name.split('.').next().unwrap_or_default() {
            "$x" => drop(kinds.insert(symbol.st_value, true)),
            "$d" => drop(kinds.insert(symbol.st_value, false)),
            // The front of the text is the table of vectors, which begins with reset.
            "gate" | "" => {}
            name => drop(labels.insert(symbol.st_value, name.to_owned())),
        }
    }
    Ok((labels, kinds))
}

/// The words of the text, and how many bytes are constants.
fn words(text: &[u8], kinds: &BTreeMap<u64, bool>) -> (BTreeMap<u64, Word>, u64) {
    let is_code = |address: u64| kinds.range(..=address).next_back().is_none_or(|(_, code)| *code);
    let mut words = BTreeMap::new();
    let mut constant_bytes = 0;
    let mut starts: Vec<u64> = kinds.iter().filter(|(_, code)| !**code).map(|(start, _)| *start).collect();
    starts.dedup();
    // Constants end with the zero behind the last byte that is none; what follows up to the next kind is padding.
    let mut ends = Vec::new();
    for start in starts {
        let until = kinds.range(start + 1..).next().map_or(text.len() as u64, |(next, _)| *next);
        let used = text[start as usize..until as usize].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 2);
        constant_bytes += used as u64;
        ends.push((start, start + used as u64));
    }
    for (index, bytes) in text.chunks(4).enumerate() {
        let address = 4 * index as u64;
        let word = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let is_constant = ends.iter().any(|(start, end)| (*start & !3..*end).contains(&address));
        let kind = match (is_code(address), word) {
            (false, _) if is_constant => Word::Constants,
            (false, _) | (true, 0) => Word::Padding,
            (true, word) => Word::Instruction(word),
        };
        words.insert(address, kind);
    }
    (words, constant_bytes)
}
