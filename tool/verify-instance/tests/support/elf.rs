//! ELF files of programs, made by tests of this crate and of the descriptions. Sections have names, as real programs have them.

/// A segment: address, flags, bytes, bytes in memory.
pub(crate) type Segment<'a> = (u64, u32, &'a [u8], u64);
/// A section that is not loaded: name, bytes.
pub(crate) type Section<'a> = (&'a str, &'a [u8]);

/// An ELF file with these segments and sections.
pub(crate) fn elf(entry: u64, segments: &[Segment<'_>], sections: &[Section<'_>]) -> Vec<u8> {
    let mut names = vec![0_u8];
    let mut place = |name: &str| {
        let place = names.len() as u32;
        names.extend(name.as_bytes());
        names.push(0);
        place
    };
    let places: Vec<u32> = sections.iter().map(|(name, _)| place(name)).collect();
    let own_name = place(".shstrtab");
    let first = 64 + 56 * segments.len() as u64;
    let loaded: u64 = segments.iter().map(|(_, _, bytes, _)| bytes.len() as u64).sum();
    let contents: Vec<&[u8]> = sections.iter().map(|(_, bytes)| *bytes).chain([names.as_slice()]).collect();
    let table = first + loaded + contents.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2_u16, 183].into_iter().flat_map(u16::to_le_bytes));
    file.extend(1_u32.to_le_bytes());
    file.extend([entry, 64, table].into_iter().flat_map(u64::to_le_bytes));
    file.extend(0_u32.to_le_bytes());
    let count = contents.len() as u16 + 1;
    file.extend([64, 56, segments.len() as u16, 64, count, count - 1].into_iter().flat_map(u16::to_le_bytes));
    let mut offset = first;
    for (address, flags, bytes, memory) in segments {
        file.extend([1, *flags].into_iter().flat_map(u32::to_le_bytes));
        let words = [offset, *address, *address, bytes.len() as u64, *memory, 1];
        file.extend(words.into_iter().flat_map(u64::to_le_bytes));
        offset += bytes.len() as u64;
    }
    segments.iter().for_each(|(_, _, bytes, _)| file.extend(*bytes));
    contents.iter().for_each(|bytes| file.extend(*bytes));
    file.extend([0; 64]);
    for (name, bytes) in places.into_iter().chain([own_name]).zip(contents) {
        // Of bytes (1), or of names (3).
        file.extend([name, if name == own_name { 3 } else { 1 }].into_iter().flat_map(u32::to_le_bytes));
        file.extend([0, 0, offset, bytes.len() as u64].into_iter().flat_map(u64::to_le_bytes));
        file.extend([0_u32; 2].into_iter().flat_map(u32::to_le_bytes));
        file.extend([1_u64, 0].into_iter().flat_map(u64::to_le_bytes));
        offset += bytes.len() as u64;
    }
    file
}
