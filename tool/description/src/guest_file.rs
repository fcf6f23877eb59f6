//! Reading guest files and checking that they are what the description says.
//!
//! The planner and the monitor trust what comes out of here: an Image header that is one, ELF segments with their sizes.
//! What a file *is* is found out first, so that the message for a compressed kernel or an x86 program says so.

use crate::Options;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::{Diagnostic, Report};
use bulkhead_abi::image::{ARM64_IMAGE_HEADER_BYTES, ARM64_IMAGE_MAGIC};
use bulkhead_abi::{GuestAddress, plan::MAX_SEGMENTS};
use bulkhead_plan::model::ElfSegment;
use elf::ElfBytes;
use elf::endian::AnyEndian;
use elf::segment::ProgramHeader;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Prefix of paths in the directory of built guests.
const GUEST_PREFIX: &str = "guest:";

/// Segments that an ELF file may have: the guest's device tree takes one of the plan's places.
pub(crate) const MAX_ELF_SEGMENTS: usize = MAX_SEGMENTS - 1;
/// A Linux kernel larger than this in memory is a damaged header.
const MAX_KERNEL_BYTES: u64 = 1 << 32;
/// The boot protocol loads a kernel at a multiple of 2 MiB plus a text offset below it.
const TEXT_OFFSET_LIMIT: u64 = 0x20_0000;

/// Finds and reads guest files, and hashes what it read.
pub(crate) struct GuestFiles {
    directory: PathBuf,
    guests: Option<PathBuf>,
    hash: Sha256,
}

impl GuestFiles {
    /// Makes a reader for paths in a description at `description`.
    pub(crate) fn new(description: &Path, options: &Options) -> Self {
        let directory = description.parent().map(Path::to_path_buf).unwrap_or_default();
        Self { directory, guests: options.guests.clone(), hash: Sha256::new() }
    }

    /// A reader of the same files again, whose hash is nobody's.
    pub(crate) fn again(&self) -> Self {
        Self { directory: self.directory.clone(), guests: self.guests.clone(), hash: Sha256::new() }
    }

    /// Adds a text to the hash.
    pub(crate) fn hash(&mut self, bytes: &[u8]) {
        // The length in front keeps two files from being taken for one.
        self.hash.update((bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }

    /// Returns the hash over everything read.
    pub(crate) fn finish(self) -> [u8; 32] {
        self.hash.finalize().into()
    }

    /// The place of a file that the description names; `None` for one of the built guests when their directory is not known.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        match name.strip_prefix(GUEST_PREFIX) {
            Some(rest) => self.guests.as_ref().map(|guests| guests.join(rest)),
            None => Some(self.directory.join(name)),
        }
    }

    /// Reads a file that the description names.
    pub(crate) fn read(&mut self, name: &Located<String>, report: &mut Report) -> Option<Vec<u8>> {
        let (path, help) = match (self.path(name), name.starts_with(GUEST_PREFIX)) {
            (Some(path), true) => (
                path,
                "`./x guests` builds the guests of this repository; `--guests DIR` or BULKHEAD_GUESTS names another directory",
            ),
            (None, _) => {
                let message =
                    format!("guest file `{}` cannot be found: there is no directory of built guests", name.value);
                report.push(
                    Diagnostic::new(Code::GuestFileMissing, message)
                        .at(name.span, "")
                        .help("`./x guests` builds the guests of this repository; `--guests DIR` or BULKHEAD_GUESTS names their directory"),
                );
                return None;
            }
            (Some(path), false) => {
                (path, "paths are relative to the description; the prefix `guest:` means the directory of built guests")
            }
        };
        match bulkhead_files::read::bytes(&path, bulkhead_files::read::GUEST) {
            Ok(bytes) => {
                self.hash(&bytes);
                Some(bytes)
            }
            Err(error) => {
                let message = format!("guest file `{}` cannot be read: {}", name.value, crate::reason(&error));
                let diagnostic = Diagnostic::new(Code::GuestFileMissing, message)
                    .at(name.span, "")
                    .note(format!("looked for it at {}", path.display()));
                report.push(diagnostic.help(help));
                None
            }
        }
    }
}

/// What the arm64 Image header says (Linux `Documentation/arm64/booting.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinuxHeader {
    /// Bytes from a multiple of 2 MiB to where the kernel is loaded.
    pub(crate) text_offset: u64,
    /// Bytes of memory that the kernel needs from there, more than the file.
    pub(crate) image_bytes: u64,
}

/// Checks that bytes are an arm64 Linux Image.
pub(crate) fn linux_header(name: &Located<String>, bytes: &[u8], report: &mut Report) -> Option<LinuxHeader> {
    let word =
        |offset: usize| bytes.get(offset..offset + 8).and_then(|slice| slice.try_into().ok()).map(u64::from_le_bytes);
    let is_image =
        bytes.len() >= ARM64_IMAGE_HEADER_BYTES && bytes.get(56..60) == Some(&ARM64_IMAGE_MAGIC.to_le_bytes());
    let (Some(text_offset), Some(image_size), Some(flags), true) = (word(8), word(16), word(24), is_image) else {
        let message = format!("`{}` is not an arm64 Linux Image: it is {}", name.value, what_is(bytes));
        let mut diagnostic = Diagnostic::new(Code::NotLinuxImage, message)
            .at(name.span, "expected the uncompressed `Image` of an arm64 kernel");
        if bytes.starts_with(&[0x1f, 0x8b]) {
            diagnostic = diagnostic.help("unpack it first: `gunzip -c vmlinuz > Image`");
        } else if bytes.starts_with(&elf::abi::ELFMAGIC) {
            diagnostic = diagnostic
                .help("an ELF guest has `kind = \"elf\"`; of a kernel take `arch/arm64/boot/Image`, not `vmlinux`");
        }
        report.push(diagnostic);
        return None;
    };
    if flags & 1 != 0 {
        let message = format!("`{}` is a big-endian arm64 kernel", name.value);
        report.push(Diagnostic::new(Code::NotLinuxImage, message).at(name.span, "expected a little-endian one"));
        return None;
    }
    if text_offset >= TEXT_OFFSET_LIMIT || image_size > MAX_KERNEL_BYTES || image_size == 0 {
        let message = format!("`{}` has a damaged arm64 Image header", name.value);
        let label = format!("says text offset {text_offset:#x}, {image_size:#x} bytes in memory");
        report.push(
            Diagnostic::new(Code::NotLinuxImage, message).at(name.span, label).help("kernels since 3.17 are supported"),
        );
        return None;
    }
    Some(LinuxHeader { text_offset, image_bytes: image_size.max(bytes.len() as u64) })
}

/// Says what bytes look like.
fn what_is(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "empty",
        [0x7f, b'E', b'L', b'F', ..] => "an ELF file",
        [0x1f, 0x8b, ..] => "gzip-compressed",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz-compressed",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd-compressed",
        [b'0', b'7', b'0', b'7', b'0', ..] => "a cpio archive",
        [0xd0, 0x0d, 0xfe, 0xed, ..] => "a device tree",
        [b'M', b'Z', ..] if bytes.get(4..8) == Some(b"zimg") => "a compressed EFI kernel (zboot)",
        [b'M', b'Z', ..] => "an EFI program for another machine",
        _ => "something else",
    }
}

/// What an executable consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    /// Loadable segments.
    pub(crate) segments: Vec<ElfSegment>,
    /// Entry point, as a guest address.
    pub(crate) entry: GuestAddress,
}

/// Reads an AArch64 executable.
pub(crate) fn executable(name: &Located<String>, bytes: &[u8], report: &mut Report) -> Option<Executable> {
    let refuse = |code: Code, message: String| Diagnostic::new(code, message).at(name.span, "");
    if !bytes.starts_with(&elf::abi::ELFMAGIC) {
        let message = format!("`{}` is not an ELF file: it is {}", name.value, what_is(bytes));
        let help = "an arm64 Linux Image has `kind = \"linux\"`, bytes without a header have `kind = \"raw\"`";
        report.push(refuse(Code::NotElf, message).help(help));
        return None;
    }
    let parsed = ElfBytes::<AnyEndian>::minimal_parse(bytes)
        .map(|file| (file.ehdr, file.segments().map(|table| table.iter().collect::<Vec<_>>())));
    let (header, segments) = match parsed {
        Ok((header, Some(segments))) => (header, segments),
        Ok((_, None)) => {
            report
                .push(refuse(Code::WrongMachine, format!("`{}` has no program headers: it is not linked", name.value)));
            return None;
        }
        Err(error) => {
            report.push(refuse(Code::NotElf, format!("`{}` is a damaged ELF file: {error}", name.value)));
            return None;
        }
    };
    if let Some(problem) = wrong_kind(&header, &segments) {
        let message = format!("`{}` cannot run in a partition: {problem}", name.value);
        let help = "link it statically for AArch64 at fixed addresses, for example with the target aarch64-unknown-none-softfloat";
        report.push(refuse(Code::WrongMachine, message).help(help));
        return None;
    }
    match load_segments(header.e_entry, &segments, bytes) {
        Ok(executable) => Some(executable),
        Err(problem) => {
            let diagnostic = refuse(problem.code, format!("`{}` {}", name.value, problem.text));
            report.push(problem.help.into_iter().fold(diagnostic, Diagnostic::help));
            None
        }
    }
}

/// Why the segments of an executable cannot be loaded; the text follows the file's name.
struct SegmentProblem {
    code: Code,
    text: String,
    help: Option<&'static str>,
}

/// Takes the loadable segments out of an executable, in the order of their addresses.
fn load_segments(entry: u64, segments: &[ProgramHeader], bytes: &[u8]) -> Result<Executable, SegmentProblem> {
    let problem = |code, text, help| Err(SegmentProblem { code, text, help });
    let mut loaded = Vec::new();
    let mut entry_address = None;
    for segment in segments.iter().filter(|segment| is_loaded(segment)) {
        let range = usize::try_from(segment.p_offset).ok().zip(usize::try_from(segment.p_filesz).ok());
        let file_bytes = range.and_then(|(start, length)| bytes.get(start..start.checked_add(length)?));
        let (Some(file_bytes), true) = (file_bytes, segment.p_filesz <= segment.p_memsz) else {
            return problem(
                Code::NotElf,
                format!("is a damaged ELF file: its segment at {:#x} reaches past its end", segment.p_paddr),
                None,
            );
        };
        // The guest starts with its translation off, so the entry point is wanted as a physical address.
        let offset = entry
            .checked_sub(segment.p_vaddr)
            .filter(|offset| *offset < segment.p_memsz && segment.p_flags & elf::abi::PF_X != 0);
        entry_address = entry_address.or(offset.and_then(|offset| segment.p_paddr.checked_add(offset)));
        loaded.push(ElfSegment {
            address: GuestAddress(segment.p_paddr),
            bytes: file_bytes.to_vec(),
            memory_bytes: segment.p_memsz,
        });
    }
    loaded.sort_by_key(|segment| segment.address);
    if loaded.len() > MAX_ELF_SEGMENTS {
        let text = format!("has {} loadable segments; a partition can have {MAX_ELF_SEGMENTS}", loaded.len());
        return problem(Code::TooManySegments, text, Some("merge sections in the linker script"));
    }
    let overlap = loaded
        .windows(2)
        .find(|pair| matches!(pair, [low, high] if low.address.0.saturating_add(low.memory_bytes) > high.address.0));
    if let Some([low, high]) = overlap {
        return problem(
            Code::SegmentsOverlap,
            format!("has segments at {} and {} that overlap", low.address, high.address),
            None,
        );
    }
    match entry_address {
        Some(entry) => Ok(Executable { segments: loaded, entry: GuestAddress(entry) }),
        None => problem(
            Code::BadEntry,
            format!("has its entry point at {entry:#x}, in none of its executable segments"),
            None,
        ),
    }
}

/// Bytes from the first to the last one that the loadable segments of an ELF file bring along; 0 of what is none.
pub(crate) fn loaded_bytes(file: &[u8]) -> u64 {
    let parsed = ElfBytes::<AnyEndian>::minimal_parse(file).ok().and_then(|file| file.segments());
    let segments: Vec<ProgramHeader> = parsed.into_iter().flatten().filter(is_loaded).collect();
    let first = segments.iter().map(|one| one.p_paddr).min().unwrap_or(0);
    let end = segments.iter().map(|one| one.p_paddr.saturating_add(one.p_filesz)).max().unwrap_or(0);
    end.saturating_sub(first)
}

/// States whether a segment takes part in loading.
fn is_loaded(segment: &ProgramHeader) -> bool {
    segment.p_type == elf::abi::PT_LOAD && segment.p_memsz > 0
}

/// Says why an ELF file is not a static AArch64 executable.
fn wrong_kind(header: &elf::file::FileHeader<AnyEndian>, segments: &[ProgramHeader]) -> Option<String> {
    if header.class != elf::file::Class::ELF64 {
        return Some(String::from("it is a 32-bit file"));
    }
    if header.e_machine != elf::abi::EM_AARCH64 {
        let machine = elf::to_str::e_machine_to_str(header.e_machine)
            .map_or_else(|| format!("number {}", header.e_machine), str::to_owned);
        return Some(format!("its machine is {machine}, not EM_AARCH64"));
    }
    if header.endianness != AnyEndian::Little {
        return Some(String::from("it is big-endian"));
    }
    if segments.iter().any(|segment| segment.p_type == elf::abi::PT_INTERP) {
        return Some(String::from("it is dynamically linked and needs an operating system"));
    }
    if header.e_type != elf::abi::ET_EXEC {
        return Some(String::from("it is not an executable with fixed addresses (type ET_EXEC)"));
    }
    if !segments.iter().any(is_loaded) {
        return Some(String::from("nothing in it is loaded"));
    }
    None
}
