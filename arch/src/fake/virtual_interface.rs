//! Four list registers.

use super::*;

impl VirtualInterrupts for FakeMachine {
    fn free_list_registers(&self) -> u32 {
        let asks = |value: ListRegister| value.0 & ListRegister::END_OF_INTERRUPT != 0 && !value.is_hardware();
        let held = |value: u64| ListRegister(value).is_in_use() || asks(ListRegister(value));
        (0..).zip(&self.list).fold(0, |bits, (index, value)| bits | u32::from(!held(value.get())) << index)
    }
    fn list_register(&self, index: u32) -> u64 {
        self.list.get(index as usize).map_or(0, Cell::get)
    }
    fn set_list_register(&self, index: u32, value: u64) {
        if let Some(slot) = self.list.get(index as usize) {
            slot.set(value);
        }
    }
    fn ended_list_registers(&self) -> u32 {
        let unused = |value: ListRegister| !value.is_in_use() && !value.is_hardware();
        let ended = |value: u64| unused(ListRegister(value)) && value & ListRegister::END_OF_INTERRUPT != 0;
        (0..).zip(&self.list).fold(0, |bits, (index, value)| bits | u32::from(ended(value.get())) << index)
    }
    fn set_underflow_interrupt(&self, on: bool) {
        self.underflow.set(on);
    }
    fn enable_virtual_interface(&self, _on: bool) {}
    fn reset_virtual_interface(&self, mapped: bool) {
        for slot in &self.list {
            slot.set(0);
        }
        self.underflow.set(false);
        if !mapped {
            // The interface is the guest's own, and is as after a reset.
            self.signals.set(false);
            self.set_mask(0);
        }
    }
}
