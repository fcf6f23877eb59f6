//! Guest images: which bytes lie where in a partition's RAM when its first instruction runs.
//!
//! Linux follows the arm64 boot protocol (kernel `Documentation/arm64/booting.rst`): the Image sits `text_offset` bytes
//! from a 2 MiB-aligned base, the device tree on a 2 MiB boundary of its own after the kernel's memory, the initial RAM
//! file system after that. ELF and raw images say where they go; their device tree takes the last 64 KiB of RAM. A boot loader
//! that looks for the tree at a place of its own is told so by the description; then the tree has 64 KiB there.
//!
//! The monitor copies whole 16-byte units, so pieces that start inside a unit are widened with zeros and pieces that
//! then touch are joined. Memory that no piece covers is zero: the monitor scrubs RAM before it copies.

use crate::error::PlanError;
use crate::model::{ElfSegment, GuestImage, Partition, World};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::GuestAddress;
use bulkhead_abi::image::ARM64_IMAGE_MAGIC;
use bulkhead_abi::plan::MAX_SEGMENTS;

/// Destinations are multiples of this.
pub const SEGMENT_ALIGNMENT: u64 = 16;
/// Pristine copies start at multiples of this and are padded to it.
pub const PRISTINE_ALIGNMENT: u64 = 64;
/// Room for a device tree.
pub const DEVICE_TREE_BYTES: u64 = 64 << 10;
const LINUX_ALIGNMENT: u64 = 2 << 20;
const INITRD_ALIGNMENT: u64 = 4096;
/// A device tree starts at a multiple of this (Devicetree Specification 5.6).
const DEVICE_TREE_ALIGNMENT: u64 = 8;
/// `text_offset` of kernels before 3.17, whose header says nothing.
const OLD_TEXT_OFFSET: u64 = 0x8_0000;

/// A guest's memory and what is loaded into it: a partition's, or that of the world below a payload.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Name, for errors.
    pub name: &'a str,
    /// What is loaded.
    pub image: &'a GuestImage,
    /// First byte of RAM, as the guest sees it.
    pub ram: GuestAddress,
    /// Bytes of RAM.
    pub memory_bytes: u64,
    /// Where the device tree goes; `None`: where there is room.
    pub device_tree_address: Option<GuestAddress>,
}

impl<'a> From<&'a Partition> for Guest<'a> {
    fn from(partition: &'a Partition) -> Self {
        Self {
            name: &partition.name,
            image: &partition.image,
            ram: partition.guest_ram,
            memory_bytes: partition.memory_bytes,
            device_tree_address: partition.device_tree_address,
        }
    }
}

impl<'a> From<&'a World> for Guest<'a> {
    fn from(world: &'a World) -> Self {
        let ram = GuestAddress(world.memory.start.0);
        Self {
            name: &world.name,
            image: &world.image,
            ram,
            memory_bytes: world.memory.bytes,
            device_tree_address: None,
        }
    }
}

/// Where the parts of a guest go, decided before the device tree is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Entry point of vCPU 0.
    pub entry: GuestAddress,
    /// The device tree.
    pub device_tree: GuestAddress,
    /// Bytes there are for the device tree.
    pub device_tree_limit: u64,
    /// Initial RAM file system: first byte and bytes.
    pub initrd: Option<(GuestAddress, u64)>,
}

/// One piece of a guest's RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte, a multiple of [`SEGMENT_ALIGNMENT`].
    pub guest: GuestAddress,
    /// Bytes.
    pub bytes: Vec<u8>,
}

/// A part of an image in its guest's RAM: what it is called, first byte, bytes.
type Part = (&'static str, u64, u64);

/// Decides where the parts of a guest's image go.
///
/// # Errors
/// When the image is of the wrong kind or does not fit into the guest's memory, or the device tree cannot lie where the
/// description puts it.
pub fn place<'a>(guest: impl Into<Guest<'a>>) -> Result<Placement, PlanError> {
    let guest = &guest.into();
    let (mut placement, parts) = match guest.image {
        GuestImage::Linux { kernel, initrd, .. } => place_linux(guest, kernel, initrd.len() as u64)?,
        GuestImage::Elf { segments, entry } => {
            let bytes = |segment: &ElfSegment| segment.memory_bytes.max(segment.bytes.len() as u64);
            let part = |segment: &ElfSegment| ("an ELF segment", segment.address.0, bytes(segment));
            place_bare(guest, *entry, segments.iter().map(part).collect())?
        }
        GuestImage::Raw { bytes, load } => {
            place_bare(guest, *load, vec![("the raw image", load.0, bytes.len() as u64)])?
        }
        GuestImage::Kernel { bytes, load, .. } => {
            place_bare(guest, *load, vec![("the instance of the kernel", load.0, bytes.len() as u64)])?
        }
    };
    if let Some(address) = guest.device_tree_address {
        check_tree(guest, address, &parts)
            .map_err(|reason| PlanError::DeviceTree { partition: guest.name.to_string(), reason })?;
        placement.device_tree = address;
    }
    Ok(placement)
}

/// Says what is wrong with the place that a description gives the device tree.
fn check_tree(guest: &Guest<'_>, address: GuestAddress, parts: &[Part]) -> Result<(), String> {
    let (start, end) = (address.0, address.0.saturating_add(DEVICE_TREE_BYTES));
    if !start.is_multiple_of(DEVICE_TREE_ALIGNMENT) {
        return Err(format!("{start:#x} is not a multiple of {DEVICE_TREE_ALIGNMENT}"));
    }
    if start < guest.ram.0 || end > ram_end(guest) {
        let (first, last) = (guest.ram.0, ram_end(guest) - 1);
        return Err(format!("it needs 64 KiB from {start:#x}, and the RAM is {first:#x} to {last:#x}"));
    }
    match parts.iter().find(|(_, first, bytes)| *first < end && start < first.saturating_add(*bytes)) {
        None => Ok(()),
        Some((what, first, bytes)) => {
            let last = first.saturating_add(*bytes).saturating_sub(1);
            Err(format!("its 64 KiB from {start:#x} lie over {what}, {first:#x} to {last:#x}"))
        }
    }
}

fn ram_end(guest: &Guest<'_>) -> u64 {
    guest.ram.0 + guest.memory_bytes
}

/// First byte of the device tree of ELF and raw guests.
fn tree_start(guest: &Guest<'_>) -> u64 {
    ram_end(guest).saturating_sub(DEVICE_TREE_BYTES)
}

fn within(guest: &Guest<'_>, what: &str, start: u64, bytes: u64, end: u64) -> Result<(), PlanError> {
    let fits = start >= guest.ram.0 && start.checked_add(bytes).is_some_and(|last| last <= end);
    if fits {
        return Ok(());
    }
    Err(PlanError::TooBig {
        what: format!("{what} of partition \"{}\" at {start:#x}", guest.name),
        bytes,
        limit: end.saturating_sub(start.max(guest.ram.0)),
    })
}

fn place_bare(guest: &Guest<'_>, entry: GuestAddress, parts: Vec<Part>) -> Result<(Placement, Vec<Part>), PlanError> {
    let start = tree_start(guest);
    // With a place of its own the device tree leaves the end of RAM to the image.
    let end = if guest.device_tree_address.is_some() { ram_end(guest) } else { start };
    for (what, first, bytes) in &parts {
        within(guest, what, *first, *bytes, end)?;
    }
    within(guest, "the entry point", entry.0, 4, end)?;
    within(guest, "the device tree", start, DEVICE_TREE_BYTES, ram_end(guest))?;
    let placement =
        Placement { entry, device_tree: GuestAddress(start), device_tree_limit: DEVICE_TREE_BYTES, initrd: None };
    Ok((placement, parts))
}

fn place_linux(guest: &Guest<'_>, kernel: &[u8], initrd_bytes: u64) -> Result<(Placement, Vec<Part>), PlanError> {
    let image = LinuxImage::read(kernel)
        .map_err(|reason| PlanError::NotAnImage { partition: guest.name.to_string(), reason })?;
    if !guest.ram.0.is_multiple_of(LINUX_ALIGNMENT) {
        return Err(PlanError::Misaligned {
            what: format!("guest address of Linux partition \"{}\"", guest.name),
            value: guest.ram.0,
            alignment: LINUX_ALIGNMENT,
        });
    }
    let end = ram_end(guest);
    let entry = guest.ram.0.saturating_add(image.text_offset);
    within(guest, "the Linux kernel", entry, image.memory_bytes, end)?;
    let device_tree = (entry + image.memory_bytes).next_multiple_of(LINUX_ALIGNMENT);
    within(guest, "the device tree", device_tree, DEVICE_TREE_BYTES, end)?;
    let initrd = (device_tree + DEVICE_TREE_BYTES).next_multiple_of(INITRD_ALIGNMENT);
    within(guest, "the initial RAM file system", initrd, initrd_bytes, end)?;
    let parts =
        vec![("the Linux kernel", entry, image.memory_bytes), ("the initial RAM file system", initrd, initrd_bytes)];
    let placement = Placement {
        entry: GuestAddress(entry),
        device_tree: GuestAddress(device_tree),
        device_tree_limit: DEVICE_TREE_BYTES,
        initrd: (initrd_bytes > 0).then_some((GuestAddress(initrd), initrd_bytes)),
    };
    Ok((placement, parts))
}

/// The header fields of an arm64 Image that placement needs.
struct LinuxImage {
    text_offset: u64,
    memory_bytes: u64,
}

impl LinuxImage {
    fn read(kernel: &[u8]) -> Result<Self, &'static str> {
        let word = |offset: usize| {
            let bytes = kernel.get(offset..offset + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (Some(text_offset), Some(image_bytes), Some(flags), Some(tail)) = (word(8), word(16), word(24), word(56))
        else {
            return Err("it is shorter than the 64-byte header");
        };
        if tail & u64::from(u32::MAX) != u64::from(ARM64_IMAGE_MAGIC) {
            return Err("the magic number at byte 56 is missing");
        }
        if flags & 1 != 0 {
            return Err("it is big-endian");
        }
        if text_offset >= LINUX_ALIGNMENT {
            return Err("its text offset is 2 MiB or more");
        }
        let file_bytes = kernel.len() as u64;
        let text_offset = if image_bytes == 0 { OLD_TEXT_OFFSET } else { text_offset };
        if image_bytes > 1 << 32 {
            return Err("its size in memory is beyond 4 GiB");
        }
        Ok(Self { text_offset, memory_bytes: image_bytes.max(file_bytes) })
    }
}

/// Returns the pieces of a guest's RAM, sorted, widened and joined.
///
/// # Errors
/// When segments overlap or there are too many.
pub fn pieces<'a>(
    guest: impl Into<Guest<'a>>,
    placement: &Placement,
    device_tree: Vec<u8>,
) -> Result<Vec<Piece>, PlanError> {
    let guest = &guest.into();
    let tree_bytes = device_tree.len() as u64;
    if tree_bytes > placement.device_tree_limit {
        let what = format!("the device tree of partition \"{}\"", guest.name);
        return Err(PlanError::TooBig { what, bytes: tree_bytes, limit: placement.device_tree_limit });
    }
    let mut parts: Vec<(u64, Vec<u8>)> = match guest.image {
        GuestImage::Linux { kernel, initrd, .. } => {
            let initrd_at = placement.initrd.map_or(0, |(address, _)| address.0);
            vec![(placement.entry.0, kernel.clone()), (initrd_at, initrd.clone())]
        }
        GuestImage::Elf { segments, .. } => {
            segments.iter().map(|segment| (segment.address.0, segment.bytes.clone())).collect()
        }
        GuestImage::Raw { bytes, load } | GuestImage::Kernel { bytes, load, .. } => vec![(load.0, bytes.clone())],
    };
    parts.push((placement.device_tree.0, device_tree));
    parts.retain(|(_, bytes)| !bytes.is_empty());
    parts.sort_by_key(|(address, _)| *address);
    let mut pieces: Vec<Piece> = Vec::new();
    for (address, bytes) in parts {
        add_piece(&mut pieces, guest, address, bytes)?;
    }
    crate::limits::at_most("image segments", &format!("partition \"{}\"", guest.name), pieces.len(), MAX_SEGMENTS)?;
    Ok(pieces)
}

fn add_piece(pieces: &mut Vec<Piece>, guest: &Guest<'_>, address: u64, bytes: Vec<u8>) -> Result<(), PlanError> {
    let start = address - address % SEGMENT_ALIGNMENT;
    let last_end = pieces.last().map_or(0, |piece| piece.guest.0 + piece.bytes.len() as u64);
    if address < last_end {
        let first = format!("an image segment of partition \"{}\"", guest.name);
        return Err(PlanError::Overlap { first, second: String::from("the segment before it"), address });
    }
    // Joined when the gap is smaller than a unit: the copies must not overwrite each other's padding.
    if let Some(last) =
        pieces.last_mut().filter(|_| last_end > 0 && start < last_end.next_multiple_of(SEGMENT_ALIGNMENT))
    {
        last.bytes.resize(usize::try_from(address - last.guest.0).unwrap_or(usize::MAX), 0);
        last.bytes.extend(bytes);
        return Ok(());
    }
    let mut padded = vec![0; usize::try_from(address - start).unwrap_or(0)];
    padded.extend(bytes);
    pieces.push(Piece { guest: GuestAddress(start), bytes: padded });
    Ok(())
}

/// Returns the pristine bytes of a partition and the offset of each piece in them.
#[must_use]
pub fn pristine(pieces: &[Piece]) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = Vec::new();
    let mut offsets = Vec::new();
    for piece in pieces {
        offsets.push(bytes.len() as u64);
        bytes.extend_from_slice(&piece.bytes);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
    }
    (bytes, offsets)
}

const _: () = assert!(PRISTINE_ALIGNMENT == 64, "`pristine` pads to the alignment of the image format");
