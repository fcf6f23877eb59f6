//! Facts of a machine: what `boards/*.toml` say.

use super::PciHost;
use crate::maps::{GICD_BYTES, GICR_BYTES};
use crate::tables::{MOST_ADDRESS_BITS, address_end};
use alloc::{string::String, vec::Vec};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_arm::core_type::CoreType;
use bulkhead_arm::el2::GUEST_ADDRESS_BITS;

/// Facts of a machine, from `boards/*.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// Name, as in `board = "qemu-virt"`.
    pub name: String,
    /// Banks of RAM of the largest configuration the description may use, by address.
    pub banks: Vec<Bank>,
    /// Memory inside the banks that is in nobody's map.
    pub reserved: Vec<Reserved>,
    /// Where the image is loaded.
    pub load_address: PhysicalAddress,
    /// Bits of a physical address.
    pub physical_address_bits: u32,
    /// MPIDR affinity of each core, by core index.
    pub core_mpidr: Vec<u64>,
    /// Type of each core, by core index; `None` for one that the register list does not know.
    pub core_types: Vec<Option<CoreType>>,
    /// CNTFRQ_EL0 in Hz.
    pub counter_hz: u64,
    /// GICv3 distributor (64 KiB).
    pub gicd: PhysicalAddress,
    /// Redistributor of each core, by core index.
    pub gicr: Vec<PhysicalAddress>,
    /// Security states of the interrupt controller: with 2, EL2 has the non-secure view.
    pub security_states: u32,
    /// SPIs that the distributor has.
    pub shared_interrupts: u32,
    /// SPIs that no device uses, for doorbells and consoles, in order of use.
    pub spare_interrupts: Vec<u32>,
    /// The UART (PL011) that the monitor takes console input from.
    pub uart: Option<BoardUart>,
    /// Devices that may be passed through.
    pub devices: Vec<BoardDevice>,
    /// Its PCI host bridge, if partitions may have functions behind it.
    pub pci: Option<PciHost>,
    /// What only the secure world reaches; `None` for a board that is entered below EL3.
    pub secure: Option<SecureFacts>,
    /// QEMU machine facts; `None` for a board that QEMU does not emulate.
    pub qemu: Option<QemuFacts>,
}

/// A bank of RAM, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// First byte.
    pub start: PhysicalAddress,
    /// Bytes.
    pub bytes: u64,
}

impl Bank {
    /// One past the last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start.0.saturating_add(self.bytes)
    }
}

/// Memory that the plan leaves alone: firmware's, or that of other processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// What it is.
    pub name: String,
    /// Where it is.
    pub range: Bank,
}

/// A UART of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardUart {
    /// Registers, a page.
    pub address: PhysicalAddress,
    /// INTID.
    pub intid: u32,
}

/// What only the secure world of a board reaches, and what is entered there at EL3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureFacts {
    /// Secure RAM.
    pub ram: Bank,
    /// Flash from which every core leaves reset.
    pub flash: Bank,
    /// INTID of CNTPS, the secure timer of each core.
    pub timer: u32,
    /// The secure console, a PL011.
    pub uart: SecureDevice,
    /// The secure GPIO, a PL061, if there is one.
    pub gpio: Option<SecureGpio>,
}

impl SecureFacts {
    /// The devices, by which a description names them.
    pub fn devices(&self) -> impl Iterator<Item = &SecureDevice> {
        core::iter::once(&self.uart).chain(self.gpio.as_ref().map(|gpio| &gpio.device))
    }
}

/// A device of the secure world: one page of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureDevice {
    /// Name used in descriptions.
    pub name: String,
    /// Registers.
    pub address: PhysicalAddress,
    /// INTID, if it has one.
    pub intid: Option<u32>,
}

/// The secure GPIO and its lines that end the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureGpio {
    /// Its registers.
    pub device: SecureDevice,
    /// Line that switches the machine off.
    pub power_off: u32,
    /// Line that resets it.
    pub restart: u32,
}

impl Board {
    /// Bytes of RAM in all banks.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        self.banks.iter().map(|bank| bank.bytes).sum()
    }

    /// The banks of a machine of this board with `memory_bytes` of RAM: filled in the order of their addresses.
    #[must_use]
    pub fn banks_of(&self, memory_bytes: u64) -> Vec<Bank> {
        let mut left = memory_bytes;
        let mut banks = Vec::new();
        for bank in &self.banks {
            let bytes = bank.bytes.min(left);
            left -= bytes;
            banks.extend((bytes != 0).then_some(Bank { bytes, ..*bank }));
        }
        banks
    }

    /// What of the reserved memory is in these banks, by address: a machine may have less RAM than the board can have. In whole pages, and
    /// what overlaps or lies side by side in a bank is one region, because an image lists few.
    #[must_use]
    pub fn reserved_in(&self, banks: &[Bank]) -> Vec<Bank> {
        let cut = |bank: &Bank, range: Bank| {
            let start = (range.start.0 - range.start.0 % PAGE_BYTES).max(bank.start.0);
            let end = range.end().next_multiple_of(PAGE_BYTES).min(bank.end());
            (start < end).then(|| Bank { start: PhysicalAddress(start), bytes: end - start })
        };
        let mut joined: Vec<Bank> = Vec::new();
        for bank in banks {
            let mut parts: Vec<Bank> = self.reserved.iter().filter_map(|one| cut(bank, one.range)).collect();
            parts.sort_unstable_by_key(|part| part.start);
            let before = joined.len();
            for part in parts {
                match joined.get_mut(before..).and_then(<[Bank]>::last_mut) {
                    Some(last) if part.start.0 <= last.end() => last.bytes = last.end().max(part.end()) - last.start.0,
                    _ => joined.push(part),
                }
            }
        }
        joined
    }

    /// Bytes of RAM in front of an address, of all banks: its place in a machine's RAM file.
    #[must_use]
    pub fn ram_offset(&self, address: u64) -> u64 {
        let before = |bank: &Bank| address.saturating_sub(bank.start.0).min(bank.bytes);
        self.banks.iter().map(before).sum()
    }

    /// One past the highest physical address that the tables of the board can hold.
    #[must_use]
    pub fn physical_address_end(&self) -> u64 {
        address_end(self.physical_address_bits)
    }

    /// Bits that an address of EL2 needs, whose map is identity: enough for RAM, interrupt controller, UART and PCI host bridge of the board, and not fewer
    /// than 39, so that a board whose memory ends below 512 GiB has tables from level 1 on.
    #[must_use]
    pub fn el2_address_bits(&self) -> u32 {
        let frames = self.gicr.iter().map(|frame| frame.0.saturating_add(GICR_BYTES));
        let ends = self.banks.iter().map(Bank::end).chain(frames);
        let ends = ends.chain([self.gicd.0.saturating_add(GICD_BYTES)]);
        let ends = ends.chain(self.uart.map(|uart| uart.address.0.saturating_add(PAGE_BYTES)));
        let ends = ends.chain(self.pci.iter().flat_map(PciHost::ends));
        let last = ends.max().unwrap_or(0).saturating_sub(1);
        (u64::BITS - last.leading_zeros()).clamp(GUEST_ADDRESS_BITS, MOST_ADDRESS_BITS)
    }

    /// First byte of RAM.
    #[must_use]
    pub fn ram_start(&self) -> PhysicalAddress {
        self.banks.first().map_or(PhysicalAddress(0), |bank| bank.start)
    }
}

/// A device of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardDevice {
    /// Name used in descriptions.
    pub name: String,
    /// Registers.
    pub address: PhysicalAddress,
    /// Bytes of registers (may be less than a page).
    pub bytes: u64,
    /// Interrupts.
    pub interrupts: Vec<BoardInterrupt>,
    /// The device can write memory by itself.
    pub dma: bool,
    /// `compatible` strings for the guest's device tree.
    pub compatible: Vec<String>,
    /// Needs a fixed clock of this many Hz named `apb_pclk` in the device tree (PrimeCell devices); 0 for none.
    pub clock_hz: u64,
}

/// An interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardInterrupt {
    /// INTID (32 and up).
    pub intid: u32,
    /// Edge-triggered rather than level-sensitive.
    pub edge: bool,
}

/// How QEMU is told to be this board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QemuFacts {
    /// `-M` argument, e.g. `virt,gic-version=3,virtualization=on`.
    pub machine: String,
    /// `-M` argument for a guest without a monitor, entered at EL1; `None` if the machine cannot.
    pub bare_machine: Option<String>,
    /// `-M` argument for a system with PCI functions; `None` for the same machine.
    pub pci_machine: Option<String>,
    /// `-device` argument for the root port of the host bridge.
    pub root_port: Option<String>,
    /// `-cpu` argument; `None` for the machine's own.
    pub cpu: Option<String>,
    /// Processors that the machine has always, those of other kinds included; `None` if `-smp` says it.
    pub cores: Option<usize>,
    /// Further arguments every run needs, e.g. `-rtc clock=vm`.
    pub arguments: Vec<String>,
    /// File of a boot loader for this machine; `None` if none is known.
    pub boot_loader: Option<String>,
    /// UARTs of the machine in the order of `-serial`.
    pub uarts: Vec<QemuUart>,
}

/// A UART as QEMU connects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuUart {
    /// Name, as in the board file.
    pub name: String,
    /// The monitor takes console input from it; otherwise it is a device.
    pub is_monitors: bool,
}
