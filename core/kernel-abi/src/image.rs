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
