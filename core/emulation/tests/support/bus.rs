//! A bus of three functions and the monitor behind it.

use super::plan;
use bulkhead_abi::GuestAddress;
use bulkhead_abi::plan::{PCI_IVSHMEM, PCI_MANAGEMENT, PartitionPlan, PciFunction};
use bulkhead_abi::status::StatusPage;
use bulkhead_emulation::pci::{ManagementPort, PciState};
use std::cell::RefCell;
use std::mem::offset_of;
use zerocopy::FromZeros;

/// Function 0: receiving end; 1: sending end with a doorbell; 2: management.
pub(crate) fn bus() -> (PartitionPlan, PciState) {
    let mut plan = plan(&[40, 41]);
    let channel = PciFunction {
        kind: PCI_IVSHMEM,
        interrupt: 40,
        registers: GuestAddress(0x1800_0000),
        memory: GuestAddress(0x2000_0000),
        memory_bytes: 0x8000,
        doorbell: u32::MAX,
        position: 1,
    };
    plan.pci[0] = channel;
    plan.pci[1] =
        PciFunction { interrupt: 0, doorbell: 0, position: 0, memory: GuestAddress(0x12_2100_0000), ..channel };
    plan.pci[2] = PciFunction { kind: PCI_MANAGEMENT, interrupt: 0, memory_bytes: 0, ..channel };
    plan.pci_count = 3;
    plan.doorbell_count = 1;
    (plan, PciState::new_zeroed())
}

/// ECAM offset of a register of device `device`.
pub(crate) const fn at(device: u64, register: u64) -> u64 {
    device << 15 | register
}

/// Partition 3 of 5 asks; it manages if `count` is 5.
pub(crate) struct Monitor {
    count: u32,
    pub(crate) commands: RefCell<Vec<(u32, u32)>>,
}

impl Monitor {
    pub(crate) fn new(count: u32) -> Self {
        Self { count, commands: RefCell::default() }
    }

    fn visible(&self, partition: u32) {
        assert!(partition == 3 || (self.count == 5 && partition < 5), "partition {partition} was looked at");
    }
}

impl ManagementPort for Monitor {
    fn partition_count(&self) -> u32 {
        self.count
    }
    fn own_index(&self) -> u32 {
        3
    }
    fn status_word(&self, partition: u32, offset: usize) -> u32 {
        self.visible(partition);
        let words = [
            offset_of!(StatusPage, state),
            offset_of!(StatusPage, reason),
            offset_of!(StatusPage, generation),
            offset_of!(StatusPage, restarts),
        ];
        match words.iter().position(|word| *word == offset) {
            Some(place) => 100 * (place as u32 + 1) + partition,
            None => {
                let byte = offset - offset_of!(StatusPage, name);
                assert!(byte < 32 && byte.is_multiple_of(4));
                0x3020_1000 + 0x0101_0101 * (byte as u32 / 4)
            }
        }
    }
    fn command(&self, partition: u32, command: u32) -> u64 {
        self.visible(partition);
        self.commands.borrow_mut().push((partition, command));
        0
    }
    fn port_word(&self, function: u32, word: u32) -> u32 {
        assert!(word < 18);
        function << 16 | word
    }
}
