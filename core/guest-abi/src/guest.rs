//! What a guest finds at fixed addresses, on every board: RAM, interrupt controller, console and, if it is native, its information
//! page, console ring and channels.
//!
//! The addresses of RAM, interrupt controller, console and devices are those of QEMU's machine `virt`, which stock guests know best.
//! The rejected alternative, the addresses of the board, would need a guest for each board, and RAM at 0 would cover the others.
//!
//! The information page spares bare guests a device-tree parser. Linux ignores it and uses its device tree and PCI.

use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::{GuestAddress, MAX_CORES, Name};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Guest address of RAM, unless the description says otherwise.
pub const GUEST_RAM: GuestAddress = GuestAddress(0x4000_0000);
/// Guest address of the distributor.
pub const GUEST_GICD: GuestAddress = GuestAddress(0x0800_0000);
/// Guest address of vCPU 0's redistributor; that of vCPU n is at + n * 128 KiB.
pub const GUEST_GICR: GuestAddress = GuestAddress(0x080a_0000);
/// Guest address of the virtual PL011.
pub const GUEST_UART: GuestAddress = GuestAddress(0x0900_0000);
/// Guest addresses for passed-through devices. A device whose board addresses are among them is found there, any other one where
/// the plan puts it, from [`GUEST_MOVED_DEVICES`] on.
pub const GUEST_DEVICES: core::ops::Range<u64> = 0x0901_0000..0x1000_0000;
/// First of the guest addresses for devices that a guest cannot have at their board addresses.
pub const GUEST_MOVED_DEVICES: GuestAddress = GuestAddress(0x0c00_0000);
/// Guest address of the [`GuestInformation`] page, read-only to the guest.
pub const GUEST_INFORMATION: GuestAddress = GuestAddress(0x1000_0000);
/// Guest address of the page with vCPU 0's stolen time, read-only to the guest, if it shares its core; that of vCPU n at + n * 4 KiB. A
/// guest asks for it by Arm's calls (DEN 0057A) and maps it cacheable.
pub const GUEST_STOLEN_TIME: GuestAddress = GuestAddress(0x1000_8000);
/// Guest address of the console ring that a native guest writes itself.
pub const GUEST_CONSOLE: GuestAddress = GuestAddress(0x1001_0000);
/// Guest address of the first channel window of a native guest; each window starts at a multiple of 64 KiB.
pub const GUEST_CHANNELS: GuestAddress = GuestAddress(0x1010_0000);
/// Guest address of BAR 0 of PCI function 0; function n at + n * 64 KiB.
pub const GUEST_PCI_REGISTERS: GuestAddress = GuestAddress(0x1800_0000);
/// Guest address of the page in whose end the registers of the first front of virtio begin; front n at + n * [`GUEST_FRONT_STEP`].
pub const GUEST_FRONTS: GuestAddress = GuestAddress(0x1900_0000);
/// Distance between the pages of two fronts: one page with the registers that trap, and the device page behind it.
pub const GUEST_FRONT_STEP: u64 = 0x2000;
/// Guest address of BAR 2 of PCI function 0; function n at + n * 16 MiB.
pub const GUEST_PCI_MEMORY: GuestAddress = GuestAddress(0x2000_0000);
/// Guest addresses for what is behind the base addresses of PCI functions of the board.
pub const GUEST_PCI_DEVICES: core::ops::Range<u64> = 0x2800_0000..0x3000_0000;
/// Guest address of the pool of a partition with fronts of virtio: below RAM, and what their devices see.
pub const GUEST_POOL: GuestAddress = GuestAddress(0x3000_0000);
/// Guest address of the configuration space of the virtual PCI bus, 1 MiB.
pub const GUEST_ECAM: GuestAddress = GuestAddress(0x3f00_0000);

/// First eight bytes of the information page.
pub const GUEST_MAGIC: u64 = u64::from_le_bytes(*b"BHGUEST1");
/// Most ports that a guest can have.
pub const MAX_PORTS: usize = 16;

/// The port writes.
pub const DIRECTION_SOURCE: u32 = 1;
/// The port reads.
pub const DIRECTION_DESTINATION: u32 = 2;

/// The information page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GuestInformation {
    /// [`GUEST_MAGIC`].
    pub magic: u64,
    /// [`bulkhead_abi::ABI_VERSION`].
    pub abi_version: u32,
    /// Index of the partition.
    pub partition: u32,
    /// Partition name.
    pub name: Name,
    /// Counter frequency in Hz.
    pub counter_hz: u64,
    /// Distributor, as the guest sees it.
    pub gicd: GuestAddress,
    /// First redistributor, as the guest sees it.
    pub gicr: GuestAddress,
    /// Virtual PL011, or zero.
    pub uart: GuestAddress,
    /// Own console ring ([`bulkhead_abi::console`]), or zero.
    pub console: GuestAddress,
    /// Bytes of the console ring.
    pub console_bytes: u64,
    /// First byte of RAM.
    pub ram: GuestAddress,
    /// Bytes of RAM.
    pub ram_bytes: u64,
    /// vCPUs.
    pub vcpu_count: u32,
    /// Entries used in `ports`.
    pub port_count: u32,
    /// Command line from the description, zero-terminated.
    pub arguments: [u8; 256],
    /// Ports.
    pub ports: [PortInformation; MAX_PORTS],
}

const _: () = assert!(GUEST_STOLEN_TIME.0 + ((MAX_CORES as u64) << 12) <= GUEST_CONSOLE.0, "a page for each vCPU");
const _: () = assert!(size_of::<GuestInformation>() <= 4096, "the information page is one page");
