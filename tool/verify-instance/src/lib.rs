//! Reads a finished instance of the real-time kernel again and proves that its components are isolated.
//!
//! As `bulkhead verify` does with an image of the monitor: the claim is about the bytes that will boot. This crate shares the layouts of
//! `core/kernel-abi` and `core/guest-abi` with the writer and nothing else, states the bits of translation tables itself, and compares with what must be:
//! a mapping that nobody expects is refused even if no rule names it, and every page of the image is somebody's.
//!
//! What it shows: the kernel is the one that was meant, at the place where it was linked; nothing is writable and executable; EL0 reaches none of the
//! kernel's pages, no boot table and no translation table; each page is in one component at most; stacks have an empty page below; entries are in
//! executable pages; registers of devices are in the one component that the boot tables say; pages of the pool and of programs are in
//! no component, and quotas are parts of the pool; each capability names an object that there is, with rights that its kind has; each interrupt has one owner;
//! wires have pages of channels, exports of end points that there are, and senders that name one of them; each port is one component's, which writes its own part alone.
#![forbid(unsafe_code)]

mod data;
mod finding;
mod layout;
mod names;
mod objects;
mod ports;
mod processes;
mod schedulers;
mod servers;
mod spaces;
mod summary;
mod walk;
mod wires;

pub use finding::{Finding, Kind};
pub use summary::{Component, Device, Page, Port, Program, Quota, Summary, Wire, summary};

use bulkhead_kernel_abi::KERNEL_ABI_VERSION;
use bulkhead_kernel_abi::boot::Tables;
use bulkhead_kernel_abi::image::{Head, LOAD, MAGIC};
use finding::Findings;
use sha2::{Digest, Sha256};
use zerocopy::FromBytes;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// The kernel that an instance must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// SHA-256 of its text, whole pages, with zeros where an arm64 Image says how long it is.
    pub text: [u8; 32],
    /// The same of its first page.
    pub front: [u8; 32],
    /// Bytes of its own memory: the head follows.
    pub bytes: u64,
    /// Or this one: text, front and bytes.
    pub other: Option<([u8; 32], [u8; 32], u64)>,
}

impl Expected {
    /// Describes a kernel by its text and the bytes of its memory.
    #[must_use]
    pub fn of(text: &[u8], bytes: u64) -> Self {
        let front = text.get(..text.len().min(PAGE as usize)).map(hash).unwrap_or_default();
        Self { text: hash(text), front, bytes, other: None }
    }

    /// This kernel, or the other one: an instance that records has a kernel of its own.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { other: Some((other.text, other.front, other.bytes)), ..self }
    }

    /// The one of both behind which these bytes have a head; the first one where neither has.
    fn chosen(&self, bytes: &[u8]) -> Self {
        let Some((text, front, length)) = self.other else { return *self };
        let has_head = |length: u64| {
            let head = usize::try_from(length).ok().and_then(|start| bytes.get(start..));
            head.is_some_and(|head| head.starts_with(&MAGIC.to_le_bytes()))
        };
        match has_head(length) && !has_head(self.bytes) {
            true => Self { text, front, bytes: length, other: None },
            false => Self { other: None, ..*self },
        }
    }

    /// States whether some bytes, a page, are the first ones of the kernel's text.
    #[must_use]
    pub fn begins(&self, page: &[u8]) -> bool {
        let front = hash(page);
        front == self.front || self.other.is_some_and(|(_, other, _)| front == other)
    }
}

/// SHA-256 of text without the length that an arm64 Image has in bytes 16 to 24.
fn hash(text: &[u8]) -> [u8; 32] {
    let (start, rest) = text.split_at(text.len().min(16));
    let mut digest = Sha256::new();
    digest.update(start);
    digest.update([0; 8]);
    digest.update(rest.get(8..).unwrap_or_default());
    digest.finalize().into()
}

/// An instance that was read far enough to be examined.
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) head: Head,
    /// Physical address of the head.
    pub(crate) head_address: u64,
    pub(crate) tables: Tables<'a>,
}

impl View<'_> {
    /// The bytes of a page of the image.
    pub(crate) fn page(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(LOAD)?).ok()?;
        self.bytes.get(offset..offset.checked_add(PAGE as usize)?)
    }

    /// One past the pages of the boot tables.
    pub(crate) fn tables_end(&self) -> u64 {
        self.head_address.saturating_add(PAGE).saturating_add(self.head.tables_bytes.next_multiple_of(PAGE))
    }

    /// One past the last byte.
    pub(crate) fn end(&self) -> u64 {
        LOAD + self.bytes.len() as u64
    }
}

/// Examines an instance; no finding is a good one.
#[must_use]
pub fn verify(bytes: &[u8], expected: &Expected) -> Vec<Finding> {
    let mut findings = Findings::default();
    let expected = &expected.chosen(bytes);
    if let Some(view) = open(bytes, expected, &mut findings) {
        layout::check(&view, &mut findings);
        names::check(&view.tables, &mut findings);
        let spaces = spaces::check(&view, expected, &mut findings);
        objects::check(&view, &spaces, &mut findings);
        data::check(&view, &spaces, &mut findings);
        ports::check(&view, &spaces, &mut findings);
        processes::check(&view, &mut findings);
    }
    findings.0
}

/// Reads the head and the boot tables.
fn open<'a>(bytes: &'a [u8], expected: &Expected, findings: &mut Findings) -> Option<View<'a>> {
    let length = bytes.len() as u64;
    let word = |offset: usize| bytes.get(offset..)?.first_chunk().copied().map(u64::from_le_bytes);
    // arm64 Image: text offset, length, flags (little endian, 4 KiB pages, near the start of RAM), three zeros, magic.
    let header = [8, 16, 24, 32, 40, 48, 56].map(word);
    let fixed = [LOAD & 0x1f_ffff, length, 2, 0, 0, 0, u64::from(u32::from_le_bytes(*b"ARM\x64"))].map(Some);
    findings.require(header == fixed && length.is_multiple_of(PAGE), Kind::Image, || {
        format!("the {length} bytes do not begin as an arm64 Image of this length that is loaded at {LOAD:#x}")
    });
    let head_address = LOAD.checked_add(expected.bytes)?;
    let start = usize::try_from(expected.bytes).ok()?;
    let Some((head, _)) = bytes.get(start..).and_then(|bytes| Head::read_from_prefix(bytes).ok()) else {
        findings.add(Kind::Head, format!("the image ends before its head, which is {start:#x} bytes into it"));
        return None;
    };
    let ours = (head.magic, head.abi_version) == (MAGIC, KERNEL_ABI_VERSION);
    if !findings.require(ours, Kind::Head, || {
        format!("the head behind the kernel has not the magic and the version, {KERNEL_ABI_VERSION}, of this tool")
    }) {
        return None;
    }
    findings
        .require((head.reserved, head.more) == (0, 0), Kind::Head, || "the head has bits that mean nothing".to_owned());
    let is_whole = head.image_bytes == length;
    if !findings.require(is_whole, Kind::Head, || {
        format!("the head says that the image has {:#x} bytes, and it has {length:#x}", head.image_bytes)
    }) {
        return None;
    }
    let place = start + core::mem::offset_of!(Head, checksum);
    let (before, after) = (bytes.get(..place)?, bytes.get(place + 8..)?);
    let crc = crc32c::crc32c_append(crc32c::crc32c(before), after);
    findings.require(head.checksum == u64::from(crc), Kind::Checksum, || {
        format!("the checksum of the image is {crc:#x}, and the head says {:#x}", head.checksum)
    });
    let from = start.checked_add(PAGE as usize)?;
    let Some(tables) = bytes.get(from..).and_then(|bytes| bytes.get(..usize::try_from(head.tables_bytes).ok()?)) else {
        findings
            .add(Kind::Tables, format!("the boot tables of {:#x} bytes do not lie in the image", head.tables_bytes));
        return None;
    };
    match Tables::read(tables, crc32c::crc32c) {
        Ok(tables) => {
            let view = View { bytes, head, head_address, tables };
            layout::has_room(&view, findings).then_some(view)
        }
        Err(error) => {
            findings.add(Kind::Tables, format!("the boot tables are not taken: {error:?}"));
            None
        }
    }
}
