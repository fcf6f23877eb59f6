//! A queue of interrupts in place of the CPU interface.

use super::*;

impl PhysicalInterrupts for FakeMachine {
    fn start_interrupts(&self, _mapped: bool) {}
    fn acknowledge(&self) -> u32 {
        let mut pending = self.pending.borrow_mut();
        let signalled = |intid: &u32| {
            !self.guest_interrupts_masked.get()
                || matches!(Intid(*intid), Intid(15) | Intid::MAINTENANCE | Intid::HYPERVISOR_TIMER)
        };
        let first = pending.iter().position(signalled);
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
    fn mask_guest_interrupts(&self, masked: bool) {
        self.guest_interrupts_masked.set(masked);
    }
    fn interrupt_waits(&self) -> bool {
        let quiet = self.quiet_polls.get();
        self.quiet_polls.set(quiet.saturating_sub(1));
        quiet == 0 && !self.pending.borrow().is_empty()
    }
}
