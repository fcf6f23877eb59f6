//! Configuration space of a function and of a root port: offsets and bits (PCI Local Bus 3.0 section 6, PCI-to-PCI Bridge 1.2 section 3.2, PCI
//! Express Base 4.0 section 7.5.3).

/// Vendor and device.
pub const IDENTITY: u64 = 0x0;
/// Command, 16 bits; Status is behind it.
pub const COMMAND: u64 = 0x4;
/// Class in the upper 24 bits, revision in the lower 8.
pub const CLASS: u64 = 0x8;
/// Class, without the revision.
pub const CLASS_MASK: u64 = 0xffff_ff00;
/// Header type, 8 bits.
pub const HEADER_TYPE: u64 = 0xe;
/// First base address register.
pub const BAR: u64 = 0x10;

/// Command: ports answer.
pub const PORTS: u64 = 1;
/// Command: memory answers.
pub const MEMORY: u64 = 1 << 1;
/// Command: the function may master the bus.
pub const MASTER: u64 = 1 << 2;
/// Command: INTx is silent.
pub const SILENT: u64 = 1 << 10;

/// Status, in word 1: there is a list of capabilities.
pub const HAS_CAPABILITIES: u32 = 1 << 20;
/// Byte with the first capability's offset.
pub const FIRST_CAPABILITY: usize = 0x34;
/// Base address register: 64 bits wide.
pub const BAR_WIDE: u32 = 0b10 << 1;
/// Base address register: reads have no side effects.
pub const BAR_PREFETCHABLE: u32 = 1 << 3;

/// Capability: vendor-specific.
pub const VENDOR_SPECIFIC: u8 = 0x09;
/// Capability: PCI Express.
pub const EXPRESS: u8 = 0x10;
/// Capability: MSI-X.
pub const MSI_X: u8 = 0x11;

/// PCI Express Device Capabilities, from the capability on.
pub const DEVICE_CAPABILITIES: usize = 0x4;
/// Function-level reset, in Device Capabilities.
pub const CAN_RESET: u32 = 1 << 28;
/// PCI Express Device Control, 16 bits, from the capability on.
pub const DEVICE_CONTROL: u64 = 0x8;
/// Initiate Function Level Reset, in Device Control.
pub const RESET: u64 = 1 << 15;
/// PCI Express Device Status, 16 bits, from the capability on.
pub const DEVICE_STATUS: u64 = 0xa;
/// Transactions Pending, in Device Status.
pub const TRANSACTIONS_PENDING: u64 = 1 << 5;

/// Registers of a root port.
pub mod bridge {
    /// Header type of a bridge, without the bit for several functions.
    pub const TYPE: u64 = 1;
    /// Bits of the header type.
    pub const TYPE_MASK: u64 = 0x7f;
    /// Primary, secondary and subordinate bus numbers, a byte each.
    pub const BUSES: u64 = 0x18;
    /// Primary bus 0, secondary and subordinate bus 1.
    pub const BUS_1: u64 = 1 << 8 | 1 << 16;
    /// I/O base and limit, a byte each.
    pub const PORTS: u64 = 0x1c;
    /// A base above its limit: nothing passes.
    pub const NO_PORTS: u64 = 0x00f0;
    /// Memory base and limit: address bits 31:20 in bits 15:4 of either half.
    pub const MEMORY: u64 = 0x20;
    /// Bytes that a memory window is a multiple of.
    pub const MEMORY_GRAIN: u64 = 1 << 20;
    /// Prefetchable memory base and limit.
    pub const PREFETCHABLE: u64 = 0x24;
    /// A base above its limit.
    pub const NO_MEMORY: u64 = 0x0000_fff0;
    /// Upper halves of prefetchable base and limit, a word each.
    pub const PREFETCHABLE_UPPER: [u64; 2] = [0x28, 0x2c];
    /// Upper halves of I/O base and limit.
    pub const PORTS_UPPER: u64 = 0x30;
}
