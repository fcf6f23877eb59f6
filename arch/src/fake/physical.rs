//! A queue of interrupts in place of the CPU interface.

use super::*;

impl PhysicalInterrupts for FakeMachine {
    fn start_interrupts(&self, mapped: bool) {
        self.reset_virtual_interface(mapped);
    }
    fn signal_interrupts(&self) {
        self.signals.set(true);
    }
    fn acknowledge(&self) -> u32 {
        let mut pending = self.pending.borrow_mut();
        let first = pending.iter().position(|intid| self.is_signalled(*intid));
        first.and_then(|first| pending.remove(first)).unwrap_or(Intid::NONE.0)
    }
    fn priority_drop(&self, intid: u32) {
        self.active.borrow_mut().insert(intid);
        self.note(Event::PriorityDrop(intid));
    }
    fn deactivate(&self, intid: u32) {
        self.active.borrow_mut().remove(&intid);
        self.note(Event::Deactivate(intid));
    }
    fn send_sgi(&self, value: u64) {
        self.note(Event::SendSgi(value));
    }
    fn set_priority_mask(&self, mask: u8) {
        self.set_mask(mask);
    }
    fn priority_mask(&self) -> u8 {
        self.seen_mask()
    }
    fn interrupt_waits(&self) -> bool {
        let quiet = self.quiet_polls.get();
        self.quiet_polls.set(quiet.saturating_sub(1));
        quiet == 0 && !self.pending.borrow().is_empty()
    }
}
