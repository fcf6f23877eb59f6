//! From a distribution's `vmlinuz` to the raw arm64 `Image`.
//!
//! Three forms are in use: the raw Image itself (Debian 12), a gzip'ed Image, and a *zboot* EFI program that carries a
//! compressed Image as its payload (newer distributions). The arm64 boot protocol knows only the first.

use std::fmt;

/// Magic number at byte 56 of a raw Image (Linux `Documentation/arm64/booting.rst`).
const IMAGE_MAGIC: &[u8] = b"ARM\x64";
const IMAGE_MAGIC_OFFSET: usize = 56;
/// First bytes of a gzip file.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// Bytes 4..8 of a zboot program (Linux `drivers/firmware/efi/libstub/zboot-header.S`).
const ZBOOT_MAGIC: &[u8] = b"zimg";
const ZBOOT_PAYLOAD_OFFSET: usize = 8;
const ZBOOT_PAYLOAD_BYTES: usize = 12;
const ZBOOT_COMPRESSION: std::ops::Range<usize> = 24..56;

/// How the kernel is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing<'a> {
    /// The bytes are the raw Image.
    Raw,
    /// These bytes, once decompressed by the program named here, are the raw Image.
    Compressed {
        /// `gzip` or `zstd`.
        program: &'static str,
        /// What to decompress.
        payload: &'a [u8],
    },
}

/// The bytes are no arm64 kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAKernel {
    /// None of the known forms.
    UnknownForm,
    /// A zboot program whose payload lies outside the file.
    PayloadOutside,
    /// A zboot program with a compression that is not supported.
    Compression(String),
}

impl fmt::Display for NotAKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownForm => write!(formatter, "neither a raw arm64 Image, nor gzip, nor an EFI zboot program"),
            Self::PayloadOutside => write!(formatter, "an EFI zboot program whose payload lies outside the file"),
            Self::Compression(name) => {
                write!(formatter, "an EFI zboot program compressed with `{name}`; gzip and zstd are supported")
            }
        }
    }
}

impl std::error::Error for NotAKernel {}

/// Finds out how `vmlinuz` is packed.
///
/// # Errors
/// The bytes are none of the known forms.
pub fn packing(vmlinuz: &[u8]) -> Result<Packing<'_>, NotAKernel> {
    if is_raw_image(vmlinuz) {
        return Ok(Packing::Raw);
    }
    if vmlinuz.starts_with(GZIP_MAGIC) {
        return Ok(Packing::Compressed { program: "gzip", payload: vmlinuz });
    }
    if vmlinuz.get(4..8) != Some(ZBOOT_MAGIC) {
        return Err(NotAKernel::UnknownForm);
    }
    let start = word(vmlinuz, ZBOOT_PAYLOAD_OFFSET).ok_or(NotAKernel::PayloadOutside)?;
    let bytes = word(vmlinuz, ZBOOT_PAYLOAD_BYTES).ok_or(NotAKernel::PayloadOutside)?;
    let end = start.checked_add(bytes).ok_or(NotAKernel::PayloadOutside)?;
    let payload = vmlinuz.get(start..end).ok_or(NotAKernel::PayloadOutside)?;
    let name = vmlinuz.get(ZBOOT_COMPRESSION).ok_or(NotAKernel::PayloadOutside)?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    match name {
        b"gzip" => Ok(Packing::Compressed { program: "gzip", payload }),
        b"zstd" | b"zstd22" => Ok(Packing::Compressed { program: "zstd", payload }),
        other => Err(NotAKernel::Compression(String::from_utf8_lossy(other).into_owned())),
    }
}

/// Whether the bytes start with the header of a raw arm64 Image.
#[must_use]
pub fn is_raw_image(bytes: &[u8]) -> bool {
    bytes.get(IMAGE_MAGIC_OFFSET..IMAGE_MAGIC_OFFSET + IMAGE_MAGIC.len()) == Some(IMAGE_MAGIC)
}

fn word(bytes: &[u8], offset: usize) -> Option<usize> {
    let word = bytes.get(offset..offset.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes(word.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zboot(payload_offset: u32, payload_bytes: u32, compression: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 128];
        bytes[0..2].copy_from_slice(b"MZ");
        bytes[4..8].copy_from_slice(ZBOOT_MAGIC);
        bytes[8..12].copy_from_slice(&payload_offset.to_le_bytes());
        bytes[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
        bytes[24..24 + compression.len()].copy_from_slice(compression);
        bytes[100..104].copy_from_slice(b"data");
        bytes
    }

    #[test]
    fn a_raw_image_is_taken_as_it_is() {
        let mut image = vec![0; 64];
        image[56..60].copy_from_slice(IMAGE_MAGIC);
        assert_eq!(packing(&image), Ok(Packing::Raw));
    }

    #[test]
    fn gzip_and_zboot_payloads_are_found() {
        let gzip = [0x1f, 0x8b, 8, 0];
        assert_eq!(packing(&gzip), Ok(Packing::Compressed { program: "gzip", payload: &gzip }));
        let image = zboot(100, 4, b"zstd22");
        assert_eq!(packing(&image), Ok(Packing::Compressed { program: "zstd", payload: b"data" }));
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        assert_eq!(packing(b"\x7fELF"), Err(NotAKernel::UnknownForm));
        assert_eq!(packing(&[]), Err(NotAKernel::UnknownForm));
        assert_eq!(packing(&zboot(100, 40, b"gzip")), Err(NotAKernel::PayloadOutside));
        assert_eq!(packing(&zboot(u32::MAX, u32::MAX, b"gzip")), Err(NotAKernel::PayloadOutside));
        assert_eq!(packing(&zboot(100, 4, b"lzma")), Err(NotAKernel::Compression("lzma".into())));
    }
}
