//! What each word of the disk says: who wrote it, and where it belongs. No word is zero, so cleared memory that reaches the disk shows.

/// Bytes of a request's data.
pub(crate) const REQUEST_BYTES: u32 = 64 << 10;
/// Requests that the disk has room for.
pub(crate) const PLACES: u32 = 8;
/// Bytes of a word.
pub(crate) const WORD_BYTES: u32 = 8;
/// The life that writes to every place. Each other one writes to the place that its number leads to.
pub(crate) const FIRST: u64 = 1;

const MARK: u64 = 0x5eed << 48;

/// The word of a life, by its number on the disk.
pub(crate) const fn word(life: u64, number: u32) -> u64 {
    MARK | (life & 0xffff_ffff) << 16 | number as u64 & 0xffff
}

/// Where a life writes.
pub(crate) const fn place_of(life: u64) -> u32 {
    (life % PLACES as u64) as u32
}

/// States whether a word can be on the disk when this life reads it.
pub(crate) const fn is_right(value: u64, number: u32, reader: u64) -> bool {
    let life = value >> 16 & 0xffff_ffff;
    let place = number / (REQUEST_BYTES / WORD_BYTES);
    let is_place = life == FIRST || place_of(life) == place;
    // What the reader itself wrote stays until its end.
    let is_time =
        if place_of(reader) == place || reader == FIRST { life == reader } else { FIRST <= life && life < reader };
    value == word(life, number) && is_place && is_time
}
