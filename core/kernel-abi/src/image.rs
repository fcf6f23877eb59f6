//! An instance as bytes: one flat arm64 Image of kernel, head, boot tables, components and translation tables (`kernel.md` 8).
//!
//! | from | what |
//! | --- | --- |
//! | [`LOAD`] | the kernel: text, constants, an empty page, stack and state (zeros) |
//! | its end, a page | [`Head`] |
//! | a page further | boot tables ([`crate::boot`]), whole pages |
//! | behind them | what components have, each page in one component |
//! | behind them | translation tables |
//!
//! All addresses are those of the board, which a partition sees as well: so the bytes are the same in both places. The kernel reads the head before its
//! translation is on and trusts no other byte before the checksum over all of them is right. The rejected alternative, the checksum of the
//! boot tables alone, would leave pages of components and translation tables to the one who loaded them; on the bare board nobody else looks.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First byte of RAM.
pub const RAM: u64 = 0x4000_0000;
/// Where the image is loaded: text offset of the arm64 Image protocol.
pub const LOAD: u64 = RAM + 0x8_0000;
/// What is added to a physical address in the kernel's half of 39 bits.
pub const KERNEL_HALF: u64 = 0xffff_ff80_0000_0000;
/// First addresses of a component, a page at least, that are never mapped.
pub const COMPONENT_TEXT: u64 = 0x40_0000;
/// One past the highest byte of the first stack of a component; others lie below, each with an empty page below it.
pub const COMPONENT_STACKS: u64 = 0x4000_0000;
/// Address of the registers of a component's first device; those of the next ones follow, each with an empty page in front. Programs know it by name
/// ([`DEVICE_SIGNATURE`]).
pub const COMPONENT_DEVICES: u64 = 0x8000_0000;
/// One past the last address that registers of devices can have.
pub const COMPONENT_DEVICES_END: u64 = 0xc000_0000;
/// Address of the pages of a component that a device of its may read and write by itself, if it has some.
pub const COMPONENT_DMA: u64 = 0xc000_0000;
/// One past the last address that they can have.
pub const COMPONENT_DMA_END: u64 = 0xc100_0000;
/// Address of the pages of the accounts ([`crate::accounts::AccountPages`]) in a component that reads them. Programs know it by name
/// ([`ACCOUNTS_SIGNATURE`]).
pub const COMPONENT_ACCOUNTS: u64 = 0xc200_0000;
/// Address of the window of a component's first port; those of the next ones follow, each with an empty page in front. Programs know it by name
/// ([`PortUse::signature`]).
pub const COMPONENT_PORTS: u64 = 0x1_0000_0000;
/// One past the last address that windows of ports can have.
pub const COMPONENT_PORTS_END: u64 = 0x1_4000_0000;

/// How far in front of the head the pages of the accounts are, the kernel's last memory: see [`crate::accounts::AccountPages`].
pub const ACCOUNTS_BYTES_BEFORE_HEAD: u64 = 0x8000;
/// Records of the trace of a kernel that records, a power of two.
pub const TRACE_RECORDS: u64 = 4096;
/// Bytes of its trace, a page and the records of 32 bytes: they end where the accounts begin. A kernel that does not record has other memory there.
pub const TRACE_BYTES: u64 = 4096 + TRACE_RECORDS * 32;

/// Capability slots of all components together that a kernel has memory for.
pub const SLOTS: usize = 1024;

/// First eight bytes of the head.
pub const MAGIC: u64 = u64::from_le_bytes(*b"BHINST01");
/// First eight bytes of a component's text.
pub const COMPONENT_MAGIC: u64 = u64::from_le_bytes(*b"BHCOMP01");
/// First eight bytes of an epitaph.
pub const EPITAPH_MAGIC: u64 = u64::from_le_bytes(*b"BHKEPIT1");

/// What entry looks at, in this order, before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: u64,
    /// CRC-32C of the whole image without these eight bytes; the upper half is zero.
    pub checksum: u64,
    /// Bytes of the whole image from [`LOAD`] on, whole pages.
    pub image_bytes: u64,
    /// [`crate::KERNEL_ABI_VERSION`].
    pub abi_version: u32,
    /// Zero.
    pub reserved: u32,
    /// Root of the kernel's half, for TTBR1_EL1.
    pub kernel_root: u64,
    /// Root that maps the kernel's first 2 MiB where they are, read-only, for the moment in which translation is switched on.
    pub boot_root: u64,
    /// Bytes of the boot tables, which begin a page behind the head.
    pub tables_bytes: u64,
    /// Zero.
    pub more: u64,
}

const _: () = assert!(size_of::<Head>() == 64);

/// What a component's text begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ComponentHead {
    /// [`COMPONENT_MAGIC`].
    pub magic: u64,
    /// [`crate::KERNEL_ABI_VERSION`] that it was built for.
    pub abi_version: u32,
    /// Zero.
    pub reserved: u32,
}

/// A bit of a program's segment, among those that ELF leaves to the operating system (PF_MASKOS): a reset of the component leaves its pages as they are.
pub const OUTLIVES_RESET: u32 = 1 << 20;

/// Section of a component's ELF file with a [`Function`] for each function that others may call, by number of the entry. Neither it nor [`IMPORTS`] is loaded:
/// they are for the host.
pub const EXPORTS: &str = ".bulkhead.exports";
/// Section with a [`Function`] for each function that it calls. The address is that of a word in its constants, in which it finds the capability's slot:
/// the writer of the instance puts that number there, so binding another component is a number as well (CH-4, CH-5).
pub const IMPORTS: &str = ".bulkhead.imports";
/// Section with a [`Function`] for each number that the component keeps for the host: the address is that of a word in its data, which the host reads in
/// the machine's RAM. The signature is 0.
pub const COUNTS: &str = ".bulkhead.counts";
/// Bytes of a function's name, zero-filled.
pub const NAME_BYTES: usize = 48;

/// A function that a component exports or imports, bound by name if the signatures are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Function {
    /// Name, zero-filled.
    pub name: [u8; NAME_BYTES],
    /// [`signature`] of what the function takes and answers.
    pub signature: u64,
    /// Where callers enter; of an import, where the slot's number is.
    pub address: u64,
}

const _: () = assert!(size_of::<Function>() == 64);

/// The name of a function as its record has it; what is over is left out, so names are shorter.
#[must_use]
pub const fn function_name(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let (mut rest, mut room) = (name.as_bytes(), bytes.as_mut_slice());
    while let ([byte, after @ ..], [slot, left @ ..]) = (rest, room) {
        *slot = *byte;
        (rest, room) = (after, left);
    }
    bytes
}

/// Hash of a function's signature, text without a name as `(u64, u64) -> u64`: FNV-1a of 64 bits.
#[must_use]
pub const fn signature(text: &str) -> u64 {
    continued(0xcbf2_9ce4_8422_2325, text)
}

/// The hash of a text of which this is the hash of what is in front, and that continues like this.
#[must_use]
pub const fn continued(hash: u64, text: &str) -> u64 {
    let (mut hash, mut rest) = (hash, text.as_bytes());
    while let [byte, after @ ..] = rest {
        hash = (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3);
        rest = after;
    }
    hash
}

/// What an import has for a signature that is no function and is bound to a device: its word is the address of the registers, and no slot.
pub const DEVICE_SIGNATURE: u64 = signature("device");

/// What an import has for a signature whose word is the address of the component's pages for DMA, as a device sees it.
pub const DMA_SIGNATURE: u64 = signature("dma");

/// What an import has for a signature whose word is the address of the pages of the accounts.
pub const ACCOUNTS_SIGNATURE: u64 = signature("accounts");

/// What an import has for a signature whose word is a limit of notifications ([`limit_word`]).
pub const LIMIT_SIGNATURE: u64 = signature("limit");
/// Bits of a limit's word that are the window.
const WINDOW_BITS: u32 = 48;
/// Longest window of a limit, in ticks.
pub const MAX_WINDOW_TICKS: u64 = (1 << WINDOW_BITS) - 1;

/// The word of a limit: notifications in each window, and the window in ticks, at least 1 and at most [`MAX_WINDOW_TICKS`]; no notifications are no limit. 0 is the
/// word of a limit about which the description says nothing.
#[must_use]
pub const fn limit_word(events: u16, window_ticks: u64) -> u64 {
    let window_ticks = if window_ticks == 0 { 1 } else { window_ticks & MAX_WINDOW_TICKS };
    (events as u64) << WINDOW_BITS | window_ticks
}

/// Events and window of a limit's word; `None` where the description says nothing.
#[must_use]
pub const fn limit_of(word: u64) -> Option<(u16, u64)> {
    if word == 0 { None } else { Some(((word >> WINDOW_BITS) as u16, word & MAX_WINDOW_TICKS)) }
}

/// What a program does with a port, which the signature of its import says: a port of the partition that is another one is not bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortUse {
    /// Publishes newest values.
    SamplingSource,
    /// Reads newest values.
    SamplingDestination,
    /// Sends messages in order.
    QueuingSource,
    /// Receives messages in order.
    QueuingDestination,
}

impl PortUse {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::SamplingSource, Self::SamplingDestination, Self::QueuingSource, Self::QueuingDestination];

    /// What an import of it has for a signature. Its address is that of a [`Port`] in the program's constants.
    #[must_use]
    pub const fn signature(self) -> u64 {
        signature(match self {
            Self::SamplingSource => "port sampling source",
            Self::SamplingDestination => "port sampling destination",
            Self::QueuingSource => "port queuing source",
            Self::QueuingDestination => "port queuing destination",
        })
    }

    /// The use that has this signature; `None` for an import that is no port.
    #[must_use]
    pub fn of_signature(signature: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.signature() == signature)
    }

    /// States whether it writes.
    #[must_use]
    pub const fn is_source(self) -> bool {
        matches!(self, Self::SamplingSource | Self::QueuingSource)
    }

    /// States whether it keeps one value, and no queue.
    #[must_use]
    pub const fn is_sampling(self) -> bool {
        matches!(self, Self::SamplingSource | Self::SamplingDestination)
    }
}

/// What a component finds of a port of its: the writer of the instance puts it where the program's import says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Port {
    /// Where its window is for the component, from [`COMPONENT_PORTS`] on: status of the peer, page of the destination, pages of the source.
    pub window: u64,
    /// Bytes of the window, whole pages.
    pub bytes: u64,
    /// Slot of the capability that rings the channel's doorbell; 0 without one.
    pub bell: u64,
    /// Payload bytes of a message.
    pub message_bytes: u32,
    /// Slots: four of a sampling port, the depth of a queuing one.
    pub slots: u32,
}

const _: () = assert!(size_of::<Port>() == 32);

/// The head has another magic.
pub const REFUSED_MAGIC: u64 = 1;
/// It was written for another version.
pub const REFUSED_VERSION: u64 = 2;
/// Its length is none that an image can have.
pub const REFUSED_BYTES: u64 = 3;
/// A byte is not what was written.
pub const REFUSED_CHECKSUM: u64 = 4;
/// The boot tables are not taken.
pub const REFUSED_TABLES: u64 = 5;

/// The image was loaded at another address than [`LOAD`].
pub const REFUSED_PLACE: u64 = 6;

/// What a kernel leaves that could not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Epitaph {
    /// [`EPITAPH_MAGIC`].
    pub magic: u64,
    /// Why the instance was refused ([`REFUSED_MAGIC`] and the others), or 256 and the number of the vector.
    pub reason: u64,
    /// ESR_EL1.
    pub syndrome: u64,
    /// FAR_EL1.
    pub address: u64,
    /// ELR_EL1.
    pub program_counter: u64,
    /// SP_EL1.
    pub stack_pointer: u64,
}
