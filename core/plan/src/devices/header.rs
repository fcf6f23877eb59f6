//! What a guest reads of a function's configuration space where no register is live.
//!
//! Taken from what the model shows after reset: identity, class and subsystem; base addresses as the plan places them; INTA; and of the
//! capabilities those alone that are the vendor's own. Everything else is zero, so there is nothing to arm: no MSI, no MSI-X, no
//! power management, no PCI Express and no extended space (QV-13).

use super::bars;
use super::pci::{
    BAR_PREFETCHABLE, BAR_WIDE, CAN_RESET, DEVICE_CAPABILITIES, EXPRESS, FIRST_CAPABILITY, HAS_CAPABILITIES, MSI_X,
    VENDOR_SPECIFIC,
};
use crate::model::PciModel;
use alloc::vec::Vec;
use bulkhead_abi::devices::{Bar, HEADER_WORDS, MAX_BARS};

/// First byte that a capability may have.
const FIRST: usize = 0x40;
/// Most capabilities: each has a word, from 0x40 on.
const MOST: usize = 48;
/// Word of the first base address register.
const BARS: usize = 4;
/// Words that are the model's own: identity, class, subsystem.
const OWN: [usize; 3] = [0, 2, 11];
/// Word of interrupt line and pin, and INTA there.
const PIN: (usize, u32) = (15, 1 << 8);

/// Vendor of virtio functions (virtio 1.2, 4.1.2).
const VIRTIO: u32 = 0x1af4;
/// `cfg_type` of a virtio capability, from its first byte on (4.1.4).
const VIRTIO_TYPE: usize = 3;
/// `bar` of a virtio capability.
const VIRTIO_BAR: usize = 4;
/// Least bytes of a virtio capability.
const VIRTIO_BYTES: usize = 16;
/// VIRTIO_PCI_CAP_PCI_CFG: a window through which configuration space reads and writes base addresses (4.1.4.9).
const VIRTIO_ACCESS: u8 = 5;

/// The bytes of a model's configuration space.
struct Bytes<'a>(&'a [u32; HEADER_WORDS]);

impl Bytes<'_> {
    fn byte(&self, offset: usize) -> u8 {
        let word = self.0.get(offset / 4).copied().unwrap_or(0);
        word.to_le_bytes().get(offset % 4).copied().unwrap_or(0)
    }

    fn word(&self, offset: usize) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|byte| self.byte(offset + byte)))
    }
}

/// A capability of a model: its number and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it is.
    pub id: u8,
    /// Where it begins.
    pub offset: usize,
}

/// Returns the capabilities of a model in their order.
///
/// # Errors
/// When the chain leaves its room or does not end.
pub fn capabilities(configuration: &[u32; HEADER_WORDS]) -> Result<Vec<Capability>, &'static str> {
    let bytes = Bytes(configuration);
    let mut chain = Vec::new();
    if bytes.word(4) & HAS_CAPABILITIES == 0 {
        return Ok(chain);
    }
    let mut offset = usize::from(bytes.byte(FIRST_CAPABILITY) & !3);
    while offset != 0 {
        if offset < FIRST {
            return Err("a capability lies among the registers in front of offset 0x40");
        }
        if chain.len() == MOST {
            return Err("its chain of capabilities does not end");
        }
        chain.push(Capability { id: bytes.byte(offset), offset });
        offset = usize::from(bytes.byte(offset + 1) & !3);
    }
    Ok(chain)
}

/// States whether a PCI Express capability at this offset can reset the function.
#[must_use]
pub fn can_reset(configuration: &[u32; HEADER_WORDS], offset: usize) -> bool {
    let is_there = capabilities(configuration).is_ok_and(|chain| chain.contains(&Capability { id: EXPRESS, offset }));
    is_there && Bytes(configuration).word(offset + DEVICE_CAPABILITIES) & CAN_RESET != 0
}

/// A table of message-signalled interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTable {
    /// Base address register.
    pub register: usize,
    /// First byte behind it.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Returns the tables of MSI-X (PCI Local Bus 3.0, 6.8.2): vectors of 16 bytes, and a pending bit for each in whole 64-bit words.
#[must_use]
pub fn message_tables(configuration: &[u32; HEADER_WORDS]) -> Vec<MessageTable> {
    let bytes = Bytes(configuration);
    let chain = capabilities(configuration).unwrap_or_default();
    let mut tables = Vec::new();
    for capability in chain.iter().filter(|capability| capability.id == MSI_X) {
        let vectors = u64::from(bytes.word(capability.offset) >> 16 & 0x7ff) + 1;
        for (at, bytes_of) in [(4, vectors * 16), (8, vectors.div_ceil(64) * 8)] {
            let place = bytes.word(capability.offset + at);
            let register = usize::try_from(place & 7).unwrap_or(MAX_BARS);
            tables.push(MessageTable { register, offset: u64::from(place & !7), bytes: bytes_of });
        }
    }
    tables
}

/// States whether a guest may see a vendor's capability: not the window of virtio, nothing that is cut short, and nothing that lies where
/// the guest sees nothing.
fn is_kept(model: &PciModel, offset: usize) -> bool {
    let bytes = Bytes(&model.configuration);
    if bytes.byte(offset + VIRTIO_TYPE) == VIRTIO_ACCESS {
        return false;
    }
    let is_virtio = bytes.word(0) & 0xffff == VIRTIO;
    let length = usize::from(bytes.byte(offset + 2));
    let least = if is_virtio { VIRTIO_BYTES } else { 3 };
    if length < least || offset + length > HEADER_WORDS * 4 {
        return false;
    }
    let register = model.bars.get(usize::from(bytes.byte(offset + VIRTIO_BAR)));
    !is_virtio || register.is_some_and(bars::is_shown)
}

/// Returns the header of a function whose registers the plan placed.
#[must_use]
pub fn build(model: &PciModel, places: &[Bar; MAX_BARS]) -> [u32; HEADER_WORDS] {
    let mut words = [0; HEADER_WORDS];
    let mut set = |index: usize, value: u32| {
        if let Some(word) = words.get_mut(index) {
            *word = value;
        }
    };
    for index in OWN {
        set(index, model.configuration.get(index).copied().unwrap_or(0));
    }
    set(PIN.0, PIN.1);
    for (register, (bar, place)) in
        model.bars.iter().zip(places).enumerate().filter(|(_, (bar, _))| bars::is_shown(bar))
    {
        let flags = if bar.is_wide { BAR_WIDE } else { 0 } | if bar.is_prefetchable { BAR_PREFETCHABLE } else { 0 };
        set(BARS + register, u32::try_from(place.guest.0).unwrap_or(0) | flags);
    }
    chain(model, &mut words);
    words
}

/// Writes the capabilities that are kept at their own offsets, and a chain through them.
fn chain(model: &PciModel, words: &mut [u32; HEADER_WORDS]) {
    let bytes = Bytes(&model.configuration);
    let mut put = |offset: usize, value: u8| {
        if let Some(word) = words.get_mut(offset / 4) {
            *word = *word & !(0xff << (offset % 4 * 8)) | u32::from(value) << (offset % 4 * 8);
        }
    };
    let capabilities = capabilities(&model.configuration).unwrap_or_default();
    let kept = capabilities.iter().filter(|one| one.id == VENDOR_SPECIFIC && is_kept(model, one.offset));
    let mut link = FIRST_CAPABILITY;
    for Capability { offset, .. } in kept {
        // Number and link, then the length of all of it and what is the vendor's.
        put(link, u8::try_from(*offset).unwrap_or(0));
        put(*offset, VENDOR_SPECIFIC);
        let length = usize::from(bytes.byte(offset + 2));
        (2..length).for_each(|byte| put(offset + byte, bytes.byte(offset + byte)));
        link = offset + 1;
    }
    if let (true, Some(word)) = (link != FIRST_CAPABILITY, words.get_mut(1)) {
        *word |= HAS_CAPABILITIES;
    }
}
