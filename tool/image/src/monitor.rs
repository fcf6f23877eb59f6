//! The monitor's ELF file: two segments, text (read, execute) and read-only data, nothing writable. Where they are linked does not
//! matter: the bytes are the same at every address.

use crate::Error;
use bulkhead_abi::{PAGE_BYTES, Part};
use bulkhead_plan::MonitorImage;
use elf::ElfBytes;
use elf::abi::{EM_AARCH64, PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;

/// Most bytes of monitor text and read-only data; a larger file is not a monitor.
const LIMIT_BYTES: u64 = 16 << 20;

/// Reads text and read-only data from an ELF file.
///
/// # Errors
/// When the file is no AArch64 ELF, has a writable segment, or its segments do not lie as the image format needs.
pub fn read(file: &[u8]) -> Result<MonitorImage, Error> {
    let wrong = |reason: &str| Error::Monitor(reason.to_string());
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| Error::Monitor(error.to_string()))?;
    if elf.ehdr.e_machine != EM_AARCH64 {
        return Err(wrong("it is not for AArch64"));
    }
    let segments = elf.segments().ok_or_else(|| wrong("it has no program headers"))?;
    let loadable: Vec<ProgramHeader> =
        segments.iter().filter(|segment| segment.p_type == PT_LOAD && segment.p_memsz > 0).collect();
    if loadable.iter().any(|segment| segment.p_flags & PF_W != 0) {
        return Err(wrong("it has a writable segment, but the monitor's data is planned memory"));
    }
    let (text, rodata): (Vec<&ProgramHeader>, Vec<&ProgramHeader>) =
        loadable.iter().partition(|segment| segment.p_flags & PF_X != 0);
    let [text] = text.as_slice() else { return Err(wrong("it does not have exactly one executable segment")) };
    let start = text.p_paddr;
    if start % PAGE_BYTES != 0 {
        return Err(wrong("its text does not start on a page"));
    }
    if elf.ehdr.e_entry != start {
        return Err(wrong("its entry point is not the first byte of text"));
    }
    let rodata_end =
        rodata.iter().map(|segment| segment.p_paddr.saturating_add(segment.p_memsz)).max().unwrap_or(start);
    if rodata_end.saturating_sub(start) > LIMIT_BYTES || text.p_memsz > LIMIT_BYTES {
        return Err(wrong("it is larger than 16 MiB"));
    }
    // Read-only data starts on the first page after the text, or later when the linker aligned it: then text is padded.
    let text_end = start + text.p_memsz.next_multiple_of(PAGE_BYTES);
    let rodata_start = rodata.iter().map(|segment| segment.p_paddr).min().unwrap_or(text_end);
    if rodata_start % PAGE_BYTES != 0 || rodata_start < text_end {
        return Err(wrong("its read-only data does not start on a page of its own after the text"));
    }
    let text_bytes = flatten(&elf, &[text], start, rodata_start - start)?;
    let rodata_bytes = flatten(&elf, &rodata, rodata_start, rodata_end.max(rodata_start) - rodata_start)?;
    if !crate::has_arm64_header(&text_bytes) {
        return Err(Error::NoArm64Header);
    }
    let unknown = "it does not say which part of the monitor it is, or was built for other layouts of images than this tool writes";
    let part = Part::of_text(&text_bytes).ok_or_else(|| wrong(unknown))?;
    Ok(MonitorImage { text: text_bytes, rodata: rodata_bytes, part })
}

/// Counts the bytes of text and read-only data, without what fills pages up.
///
/// # Errors
/// When the file is no ELF file.
pub fn exact_bytes(file: &[u8]) -> Result<u64, Error> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|error| Error::Monitor(error.to_string()))?;
    let segments = elf.segments().ok_or_else(|| Error::Monitor(String::from("it has no program headers")))?;
    Ok(segments.iter().filter(|segment| segment.p_type == PT_LOAD).map(|segment| segment.p_filesz).sum())
}

/// Copies segments into one run of bytes that starts at `base`.
fn flatten(
    elf: &ElfBytes<'_, LittleEndian>,
    segments: &[&ProgramHeader],
    base: u64,
    bytes: u64,
) -> Result<Vec<u8>, Error> {
    let damaged = || Error::Monitor(String::from("a segment lies outside the file"));
    let size = |value: u64| usize::try_from(value).map_err(|_| damaged());
    let mut flat = vec![0; size(bytes)?];
    for segment in segments {
        let content = elf.segment_data(segment).map_err(|_| damaged())?;
        let start = size(segment.p_paddr.checked_sub(base).ok_or_else(damaged)?)?;
        let end = start.checked_add(content.len()).ok_or_else(damaged)?;
        flat.get_mut(start..end).ok_or_else(damaged)?.copy_from_slice(content);
    }
    Ok(flat)
}
