//! BAR 0 of the functions: ivshmem revision 0 (QEMU `docs/specs/ivshmem-spec.txt`) and the management device.

use super::{Bus, FunctionState, ManagementPort, PciEffect, part};
use bulkhead_abi::hypercall::{INVALID_PARAMETERS, management};
use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::plan::{PCI_IVSHMEM, PCI_MANAGEMENT, PciFunction};
use bulkhead_abi::status::StatusPage;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

const INTERRUPT_MASK: u64 = 0x0;
const INTERRUPT_STATUS: u64 = 0x4;
const POSITION: u64 = 0x8;
const DOORBELL: u64 = 0xc;
/// The description of the port begins here; a channel function alone has it. Not part of ivshmem, whose registers end at
/// 0x10.
pub const PORT_INFORMATION: u64 = 0x100;
const PORT_INFORMATION_LAST: u64 = PORT_INFORMATION + size_of::<PortInformation>() as u64 - 1;
/// Last byte of the name of the selected partition.
const NAME_LAST: u64 = management::NAME + 31;

impl Bus<'_> {
    /// Reads BAR 0 of a function. Registers have 32 bits; the description and the name may be read in pieces.
    #[must_use]
    pub fn register_read(&self, index: u32, offset: u64, bytes: u8, port: &impl ManagementPort) -> u64 {
        let Some((function, state)) = self.state.function(self.plan, index) else { return 0 };
        match (function.kind, offset) {
            (PCI_IVSHMEM, PORT_INFORMATION..=PORT_INFORMATION_LAST) => {
                pieces(offset, bytes, |at| port.port_word(index, (at.wrapping_sub(PORT_INFORMATION) >> 2) as u32))
            }
            (PCI_MANAGEMENT, management::NAME..=NAME_LAST) => {
                let name = offset_of!(StatusPage, name);
                pieces(offset, bytes, |at| {
                    status_word(state, port, name.wrapping_add(at.wrapping_sub(management::NAME) as usize))
                })
            }
            (PCI_IVSHMEM, _) if is_word(offset, bytes) => u64::from(channel_read(function, state, offset)),
            (PCI_MANAGEMENT, _) if is_word(offset, bytes) => u64::from(management_read(state, offset, port)),
            _ => 0,
        }
    }

    /// Writes BAR 0 of a function. Anything but an aligned 32-bit write is ignored.
    #[must_use = "the monitor acts on the effect"]
    pub fn register_write(
        &self,
        index: u32,
        offset: u64,
        bytes: u8,
        value: u64,
        port: &impl ManagementPort,
    ) -> PciEffect {
        let Some((function, state)) = self.state.function(self.plan, index) else { return PciEffect::None };
        let value = value as u32;
        match (function.kind, offset) {
            _ if !is_word(offset, bytes) => {}
            (PCI_IVSHMEM, INTERRUPT_MASK) => {
                let before = state.silent.swap(!value, SeqCst);
                if before & value != 0 {
                    return state.rearmed(function);
                }
            }
            // Any value rings: a channel has one peer and one vector.
            (PCI_IVSHMEM, DOORBELL) if function.doorbell < self.plan.doorbell_count => {
                return PciEffect::Doorbell(function.doorbell);
            }
            (PCI_MANAGEMENT, management::SELECT) => state.selected.store(value, Relaxed),
            (PCI_MANAGEMENT, management::COMMAND) => {
                let target = selected(state, port);
                let answer = target.map_or(INVALID_PARAMETERS, |partition| port.command(partition, value));
                state.result.store(answer as u32, Relaxed);
            }
            (PCI_MANAGEMENT, management::HEARTBEAT) => return PciEffect::Heartbeat,
            _ => {}
        }
        PciEffect::None
    }
}

fn channel_read(function: &PciFunction, state: &FunctionState, offset: u64) -> u32 {
    match offset {
        INTERRUPT_MASK => !state.silent.load(Relaxed),
        // Reading acknowledges.
        INTERRUPT_STATUS => state.status.swap(0, SeqCst),
        POSITION => function.position,
        _ => 0,
    }
}

fn management_read(state: &FunctionState, offset: u64, port: &impl ManagementPort) -> u32 {
    match offset {
        management::MAGIC => management::MAGIC_VALUE,
        management::COUNT => port.partition_count(),
        management::OWN => port.own_index(),
        management::SELECT => state.selected.load(Relaxed),
        management::RESULT => state.result.load(Relaxed),
        management::STATE => status_word(state, port, offset_of!(StatusPage, state)),
        management::REASON => status_word(state, port, offset_of!(StatusPage, reason)),
        management::GENERATION => status_word(state, port, offset_of!(StatusPage, generation)),
        management::RESTARTS => status_word(state, port, offset_of!(StatusPage, restarts)),
        _ => 0,
    }
}

/// A word of the selected partition's status page.
fn status_word(state: &FunctionState, port: &impl ManagementPort, offset: usize) -> u32 {
    selected(state, port).map_or(0, |partition| port.status_word(partition, offset))
}

/// The selected partition, if this guest may see it: one of `count`, or itself.
fn selected(state: &FunctionState, port: &impl ManagementPort) -> Option<u32> {
    let partition = state.selected.load(Relaxed);
    let manages = port.partition_count() > 1;
    let visible = partition == port.own_index() || (manages && partition < port.partition_count());
    visible.then_some(partition)
}

const fn is_word(offset: u64, bytes: u8) -> bool {
    bytes == 4 && offset & 3 == 0
}

/// Reads 1, 2, 4 or 8 aligned bytes from a read-only area of 32-bit words.
fn pieces(offset: u64, bytes: u8, word: impl Fn(u64) -> u32) -> u64 {
    if bytes == 8 && offset & 7 == 0 {
        return u64::from(word(offset)) | (u64::from(word(offset | 4)) << 32);
    }
    part(word(offset & !3), offset, bytes).unwrap_or(0)
}
