//! Memory: sizes, alignment, what covers what.
//!
//! Where a partition's RAM goes is decided by the planner unless the description fixes it; here it is checked that fixed
//! ranges do not collide. Whether everything fits beside the monitor is the last check of all ([`super::fit`]).

use super::Resolver;
use crate::code::Code;
use crate::description::{ImageKind, Memory, Partition};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::unit::format_size;
use bulkhead_abi::{GuestAddress, PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::guest::{
    GUEST_DEVICES, GUEST_ECAM, GUEST_GICD, GUEST_GICR, GUEST_INFORMATION, GUEST_RAM, GUEST_UART,
};
use bulkhead_plan::model;
use bulkhead_plan::tables::GUEST_ADDRESS_END;

/// Smallest RAM of a partition: the device tree has 64 KiB of it, image and stack need some pages each.
const MINIMUM_BYTES: u64 = 128 * 1024;
/// End of the addresses at which guests find information page, rings, channels and PCI.
const GUEST_WINDOWS_END: u64 = GUEST_ECAM.0 + 0x10_0000;
/// Alignment that the arm64 boot protocol wants of the RAM a Linux Image is loaded to.
const LINUX_ALIGNMENT: u64 = 0x20_0000;

/// RAM of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionMemory {
    /// Bytes.
    pub(super) bytes: u64,
    /// Where the guest sees it.
    pub(super) guest: GuestAddress,
    /// Where it is, if fixed.
    pub(super) physical: Option<PhysicalAddress>,
    /// Where the size is written.
    pub(super) span: Span,
}

impl PartitionMemory {
    /// One past the last guest address.
    pub(super) fn guest_end(&self) -> u64 {
        self.guest.0.saturating_add(self.bytes)
    }
}

impl Resolver<'_> {
    /// The machine's memory, checked against the board.
    pub(super) fn machine_memory(&mut self) -> Option<u64> {
        let memory = &self.description.memory;
        let bytes = self.size(memory)?;
        let most = self.board.board.ram_bytes();
        if bytes > most {
            let message = format!("{} is more memory than the board can have", format_size(bytes));
            let label = format!("board `{}` has at most {}", self.board.board.name, format_size(most));
            self.push(Diagnostic::new(Code::TooMuchMemory, message).at(memory.span, label));
            return None;
        }
        self.aligned(bytes, 0x10_0000, memory.span, "the machine's memory")?;
        Some(bytes)
    }

    /// RAM of a partition.
    pub(super) fn partition_memory(&mut self, partition: &Partition) -> Option<PartitionMemory> {
        let (size, guest, physical) = match &partition.memory.value {
            Memory::Size(size) => (size, None, None),
            Memory::Table(table) => (&table.size, table.guest_address.as_ref(), table.physical_address.as_ref()),
        };
        let bytes = self.size(size)?;
        self.aligned(bytes, PAGE_BYTES, size.span, "the size of a partition")?;
        if bytes < MINIMUM_BYTES {
            let message = format!("{} is too small for a partition", format_size(bytes));
            self.push(
                Diagnostic::new(Code::MemoryTooSmall, message)
                    .at(size.span, format!("expected at least {}", format_size(MINIMUM_BYTES))),
            );
            return None;
        }
        let memory = PartitionMemory {
            bytes,
            guest: GuestAddress(guest.map_or(GUEST_RAM.0, |address| address.value)),
            physical: physical.map(|address| PhysicalAddress(address.value)),
            span: size.span,
        };
        if let Some(guest) = guest {
            let is_linux = partition.image.kind.value == ImageKind::Linux;
            self.aligned(
                guest.value,
                if is_linux { LINUX_ALIGNMENT } else { PAGE_BYTES },
                guest.span,
                "the guest address of RAM",
            )?;
        }
        if let Some(physical) = physical {
            self.aligned(physical.value, PAGE_BYTES, physical.span, "the physical address of RAM")?;
        }
        self.guest_addresses_free(partition, &memory, guest.map_or(size.span, |address| address.span))?;
        Some(memory)
    }

    /// Reports a number that is not a multiple of a power of two.
    pub(super) fn aligned(&mut self, number: u64, alignment: u64, span: Span, what: &str) -> Option<()> {
        if number.is_multiple_of(alignment) {
            return Some(());
        }
        let message = format!("{what} must be a multiple of {}", format_size(alignment));
        let down = number - number % alignment;
        let mut diagnostic = Diagnostic::new(Code::NotAligned, message).at(span, format!("{number:#x} is not"));
        diagnostic = match down.checked_add(alignment) {
            Some(up) => diagnostic.help(format!("the nearest are {down:#x} and {up:#x}")),
            None => diagnostic.help(format!("the nearest is {down:#x}")),
        };
        self.push(diagnostic);
        None
    }

    /// Checks that a guest's RAM leaves the guest's devices and windows free.
    fn guest_addresses_free(&mut self, partition: &Partition, memory: &PartitionMemory, span: Span) -> Option<()> {
        let end = memory.guest.0.checked_add(memory.bytes);
        if end.is_none_or(|end| end > GUEST_ADDRESS_END) {
            let message = format!(
                "RAM of `{}` ends above {GUEST_ADDRESS_END:#x}, the last address a guest can have",
                partition.name.value
            );
            self.push(Diagnostic::new(Code::GuestAddressTaken, message).at(span, ""));
            return None;
        }
        let cores = partition.cores.len() as u64;
        let taken = [
            (GUEST_GICD.0, 0x1_0000, "the interrupt distributor"),
            (GUEST_GICR.0, cores * 0x2_0000, "the interrupt redistributors"),
            (GUEST_UART.0, PAGE_BYTES, "the virtual UART"),
            (GUEST_DEVICES.start, GUEST_DEVICES.end - GUEST_DEVICES.start, "passed-through devices"),
            (GUEST_INFORMATION.0, GUEST_WINDOWS_END - GUEST_INFORMATION.0, "channels and the information page"),
        ];
        let hit = taken
            .iter()
            .find(|(start, bytes, _)| memory.guest.0 < start.saturating_add(*bytes) && *start < memory.guest_end());
        let Some((start, bytes, what)) = hit else {
            return Some(());
        };
        let message = format!("RAM of `{}` at guest address {} covers {what}", partition.name.value, memory.guest);
        let note = format!("{start:#x} to {:#x} belong to {what}", start.saturating_add(*bytes).saturating_sub(1));
        let help = format!("RAM at {GUEST_RAM}, where it is without a `guest_address`, covers nothing");
        self.push(Diagnostic::new(Code::GuestAddressTaken, message).at(span, "").note(note).help(help));
        None
    }

    /// Checks fixed ranges against each other and the machine.
    pub(super) fn memory(&mut self, memory_bytes: Option<u64>, partitions: &[Option<model::Partition>]) {
        let Some(memory_bytes) = memory_bytes else {
            return;
        };
        let banks = self.board.board.banks_of(memory_bytes);
        let list = |bank: &model::Bank| format!("{:#x} to {:#x}", bank.start.0, bank.end().saturating_sub(1));
        let machine = format!("the machine's RAM is {}", banks.iter().map(list).collect::<Vec<_>>().join(" and "));
        let reserved = self.board.board.reserved.clone();
        let mut fixed: Vec<(u64, u64, Span, String)> = Vec::new();
        for (index, partition) in partitions.iter().enumerate() {
            let Some((start, bytes, span)) = partition.as_ref().and_then(|one| self.fixed_range(index, one)) else {
                continue;
            };
            let name = self.partition_name(index).to_owned();
            let in_bank = |end: &u64| banks.iter().any(|bank| bank.start.0 <= start && *end <= bank.end());
            let Some(end) = start.checked_add(bytes).filter(in_bank) else {
                let message = format!("RAM of `{name}` is outside the machine's RAM");
                let label = format!("{} from {start:#x}", format_size(bytes));
                self.push(
                    Diagnostic::new(Code::MemoryOutsideRam, message)
                        .at(span, label)
                        .at(self.description.memory.span, machine.clone()),
                );
                continue;
            };
            if let Some(one) = reserved.iter().find(|one| start < one.range.end() && one.range.start.0 < end) {
                let message = format!("RAM of `{name}` covers the reserved region `{}` of the board", one.name);
                let note = format!("{} is in nobody's map", list(&one.range));
                self.push(Diagnostic::new(Code::MemoryOutsideRam, message).at(span, "").note(note));
            }
            if let Some((from, to, other, owner)) = fixed.iter().find(|(from, to, ..)| start < *to && *from < end) {
                let message = format!("RAM of `{name}` and `{owner}` overlaps");
                let label = format!("{start:#x} to {:#x}", end - 1);
                self.push(
                    Diagnostic::new(Code::MemoryOverlap, message)
                        .at(span, label)
                        .at(*other, format!("{from:#x} to {:#x}", to - 1)),
                );
            }
            fixed.push((start, end, span, name));
        }
    }

    /// The physical range that a description fixes for a partition, and where it says so.
    fn fixed_range(&self, index: usize, partition: &model::Partition) -> Option<(u64, u64, Span)> {
        let span = match &self.description.partition.get(index)?.memory.value {
            Memory::Size(size) => size.span,
            Memory::Table(table) => table.physical_address.as_ref()?.span,
        };
        Some((partition.physical_ram?.0, partition.memory_bytes, span))
    }
}
