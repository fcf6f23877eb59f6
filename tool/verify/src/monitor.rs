//! The monitor that an image must hold, byte for byte. The checksum in the header finds damage; this finds a change.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::{PAGE, View, page_end};
use crate::instance::{self, Kernel};
use bulkhead_abi::Part;
use bulkhead_abi::image::{ARM64_IMAGE_PLACE_OFFSET, ARM64_IMAGE_SIZE_OFFSET};
use bulkhead_files::read;
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::Path;

/// Most bytes of text and read-only data; whatever is larger is no monitor.
const LIMIT_BYTES: u64 = 16 << 20;
/// `e_machine` of AArch64.
const AARCH64: u64 = 183;
/// `p_type` of a segment to load, and the flag of one that is executed.
const LOAD: u64 = 1;
const EXECUTABLE: u64 = 1;

/// A monitor as it lies at the front of an image, but with zeroes where the planner writes its place in RAM and the size in memory.
/// The rest is the same at every load address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    text_bytes: u64,
    bytes: Vec<u8>,
}

/// Reads a little-endian number of a file.
fn number(file: &[u8], offset: u64, bytes: usize) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let field = file.get(start..start.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A segment to load: where, its bytes in the file, and whether they are executed.
struct Segment<'a> {
    addresses: Range<u64>,
    content: &'a [u8],
    is_text: bool,
}

/// Reads a program header (ELF-64 object file format, figure 6); `None` in the outer option when it is damaged.
fn segment(file: &[u8], offset: u64) -> Option<Option<Segment<'_>>> {
    let word = |field: u64| number(file, offset.checked_add(field)?, 8);
    let (kind, flags) = (number(file, offset, 4)?, number(file, offset.checked_add(4)?, 4)?);
    let (position, address, in_file, in_memory) = (word(8)?, word(24)?, word(32)?, word(40)?);
    if kind != LOAD || in_memory == 0 {
        return Some(None);
    }
    let start = usize::try_from(position).ok()?;
    let content = file.get(start..start.checked_add(usize::try_from(in_file).ok()?)?)?;
    let addresses = address..address.checked_add(in_memory)?;
    (in_file <= in_memory).then_some(Some(Segment { addresses, content, is_text: flags & EXECUTABLE != 0 }))
}

/// The segments of an ELF file of AArch64, with their first page and the end of their last one.
fn segments_of(file: &[u8]) -> Option<(Vec<Segment<'_>>, u64, u64)> {
    // A little-endian ELF file of 64 bits, version 1.
    let kind = file.starts_with(b"\x7fELF\x02\x01\x01") && number(file, 18, 2)? == AARCH64;
    let (table, entry, count) = (number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?);
    let places = (0..count).map(|index| table.checked_add(index * entry));
    let segments: Option<Vec<_>> = places.map(|place| segment(file, place?)).collect();
    let segments: Vec<Segment<'_>> = segments?.into_iter().flatten().collect();
    let first = segments.iter().map(|segment| segment.addresses.start).min()?;
    let end = page_end(segments.iter().map(|segment| segment.addresses.end).max()?);
    (kind && first % PAGE == 0 && end - first <= LIMIT_BYTES).then_some((segments, first, end))
}

fn flatten(segments: &[Segment<'_>], first: u64, end: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end - first).ok()?];
    for segment in segments {
        let start = usize::try_from(segment.addresses.start - first).ok()?;
        bytes.get_mut(start..start + segment.content.len())?.copy_from_slice(segment.content);
    }
    Some(bytes)
}

impl Monitor {
    /// A monitor of known text and read-only data.
    #[must_use]
    pub fn new(text: &[u8], rodata: &[u8]) -> Self {
        let mut bytes = text.to_vec();
        bytes.resize(page_end(bytes.len() as u64) as usize, 0);
        let text_bytes = bytes.len() as u64;
        bytes.extend_from_slice(rodata);
        bytes.resize(page_end(bytes.len() as u64) as usize, 0);
        clear_written(&mut bytes);
        Self { text_bytes, bytes }
    }

    /// Reads a monitor's ELF file, with code of its own and not the builder's; `None` when it is none.
    #[must_use]
    pub fn read(file: &[u8]) -> Option<Self> {
        let (segments, first, end) = segments_of(file)?;
        let constants = segments.iter().filter(|segment| !segment.is_text).map(|segment| segment.addresses.start).min();
        let text_bytes = constants.unwrap_or(end).checked_sub(first)?;
        let mut bytes = flatten(&segments, first, end)?;
        clear_written(&mut bytes);
        Some(Self { text_bytes, bytes })
    }

    /// The bytes of an ELF file of AArch64 from its first loaded page to its last one.
    pub(crate) fn flat(file: &[u8]) -> Option<Vec<u8>> {
        let (segments, first, end) = segments_of(file)?;
        flatten(&segments, first, end)
    }

    /// The text of an ELF file in whole pages, and the bytes of all that is loaded of it.
    pub(crate) fn text_of(file: &[u8]) -> Option<(Vec<u8>, u64)> {
        let (segments, first, end) = segments_of(file)?;
        let text = segments.iter().find(|segment| segment.is_text && segment.addresses.start == first)?;
        let bytes = flatten(&segments, first, end)?;
        let text_end = usize::try_from(page_end(text.addresses.end) - first).ok()?;
        Some((bytes.get(..text_end)?.to_vec(), end - first))
    }

    /// Which part of the monitor its text says it is.
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        Part::of_text(&self.bytes)
    }

    /// Returns the SHA-256 of text and read-only data in whole pages, with zeroes in the fields for place and size in memory.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    /// Takes the monitor out of an image; the header's layout was checked.
    pub(crate) fn of_image(view: &View<'_>) -> Option<Self> {
        let header = &view.header;
        let mut bytes = view.slice(header.image_start.0, view.header_offset)?.to_vec();
        clear_written(&mut bytes);
        Some(Self { text_bytes: header.text_bytes, bytes })
    }
}

/// The monitors that images may hold, one for each part, and the real-time kernel of instances.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    monitors: Vec<Monitor>,
    kernel: Option<Kernel>,
}

impl Expected {
    /// This monitor and no other, and no kernel.
    #[must_use]
    pub fn only(monitor: Monitor) -> Self {
        Self { monitors: vec![monitor], kernel: None }
    }

    /// The same, with this kernel in instances.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    /// The kernel of instances.
    #[must_use]
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// Reads the kernel that instances must hold: that of an ELF file that the user names, else the ones that the tool contains, of
    /// which one records.
    ///
    /// # Errors
    /// When the file that was named is none.
    pub fn read_kernel(given: Option<&Path>) -> Result<Option<Kernel>, String> {
        let Some(path) = given else {
            let kernel = bulkhead_contained_monitor::kernel_elf().and_then(instance::kernel);
            let traced = bulkhead_contained_monitor::traced_kernel_elf().and_then(instance::kernel);
            return Ok(kernel.map(|kernel| traced.map_or(kernel, |traced| kernel.or(traced))));
        };
        let file = read::bytes(path, read::MONITOR)
            .map_err(|error| format!("cannot read the kernel {}: {error}", path.display()))?;
        let kernel = instance::kernel(&file);
        kernel.map(Some).ok_or_else(|| format!("{} is not a kernel's ELF file", path.display()))
    }

    /// Reads the monitors that images must hold: of a file or a folder of parts that the user names, else those that the tool
    /// contains. No variable names others: somebody who can set it could also have changed the image.
    ///
    /// # Errors
    /// When there is none, with what to do about it.
    pub fn read(given: Option<&Path>) -> Result<Self, String> {
        let kernel = Self::read_kernel(None)?;
        let Some(path) = given else {
            let contained = Part::ALL.into_iter().filter_map(bulkhead_contained_monitor::elf).filter_map(Monitor::read);
            let found = Self { monitors: contained.collect(), kernel };
            return if found.monitors.is_empty() {
                Err(String::from(
                    "this tool contains no monitor, because it was compiled before one was built; build both with ./x, or name \
                     the monitor by --monitor",
                ))
            } else {
                Ok(found)
            };
        };
        let read = |path: &Path| {
            let file = read::bytes(path, read::MONITOR)
                .map_err(|error| format!("cannot read the monitor {}: {error}", path.display()))?;
            Monitor::read(&file).ok_or_else(|| format!("{} is not a monitor's ELF file", path.display()))
        };
        if path.is_dir() {
            let parts = Part::ALL.iter().map(|part| read(&path.join(format!("{}.elf", part.name()))));
            return Ok(Self { monitors: parts.collect::<Result<_, _>>()?, kernel });
        }
        Ok(Self { monitors: vec![read(path)?], kernel })
    }

    /// Compares the monitor in an image with the one of the part that its header names.
    pub(crate) fn check(&self, view: &View<'_>, findings: &mut Findings) {
        let Some(found) = Monitor::of_image(view) else { return };
        let named = Part::ALL.into_iter().find(|part| *part as u32 == view.header.part);
        findings.require(named.is_some() && found.part() == named, Code::Part, || {
            let says = |part: Option<Part>| part.map_or("none", Part::name);
            format!("the header names the part {}, the monitor itself {}", says(named), says(found.part()))
        });
        let Some(expected) = self.monitors.iter().find(|monitor| monitor.part() == named) else {
            findings.add(
                Code::OtherMonitor,
                String::from(
                    "no monitor of its part is known to compare it with; name the folder of both parts by --monitor",
                ),
            );
            return;
        };
        expected.compare(&found, findings);
    }
}

impl Monitor {
    fn compare(&self, found: &Self, findings: &mut Findings) {
        if *found == *self {
            return;
        }
        let differs = self.bytes.iter().zip(&found.bytes).position(|(own, other)| own != other);
        let what = match differs {
            Some(offset) => format!("differs from byte {offset:#x} on"),
            None => String::from("has another size"),
        };
        findings.add(
            Code::OtherMonitor,
            format!(
                "its text and constants (sha256 {}) are not those expected (sha256 {}): the monitor {what}; if the image was \
                 built with another monitor, name that by --monitor",
                hash_text(&found.sha256()),
                hash_text(&self.sha256())
            ),
        );
    }
}

fn clear_written(bytes: &mut [u8]) {
    for offset in [ARM64_IMAGE_PLACE_OFFSET, ARM64_IMAGE_SIZE_OFFSET] {
        if let Some(field) = bytes.get_mut(offset..offset + 8) {
            field.fill(0);
        }
    }
}

/// Returns a hash as 64 hexadecimal digits.
pub(crate) fn hash_text(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
