//! EL3 that notes what it is asked for, where there is one.

use super::*;
use crate::Gate;

impl FakeMachine {
    /// Shortest and longest watch.
    pub const WATCH_LIMITS_TICKS: [u64; 2] = [625, 625_000_000];

    /// A kick of this core that finds EL2 itself: EL3 tries again.
    pub fn kick_finds_el2(&self) {
        self.kick_date.set(Some(self.now.get() + Self::WATCH_LIMITS_TICKS[0]));
    }
}

impl Gate for FakeMachine {
    fn kick(&self, mpidr: u64) -> bool {
        self.before_access();
        let payload = self.payload_mpidr.get();
        let is_kicked = payload.is_some_and(|payload| payload != mpidr);
        if is_kicked {
            self.note(Event::Kick(mpidr));
        }
        is_kicked
    }
    fn watch(&self, ticks: u64) {
        self.before_access();
        if self.payload_mpidr.get().is_some() {
            self.note(Event::Watch(ticks));
            let [least, most] = FakeMachine::WATCH_LIMITS_TICKS;
            self.kick_date.set(Some(self.now.get() + ticks.clamp(least, most)));
        }
    }
    fn wait_for_kick(&self) {
        let signals = self.signals.replace(false);
        self.wait_for_interrupt();
        self.signals.set(signals);
    }
    fn reset_interface(&self, traps: bool) {
        self.interface_traps.set(traps);
    }
    fn running_priority(&self) -> u64 {
        0xff
    }
    fn interface_control(&self) -> u64 {
        self.interface_control.get()
    }
    fn set_interface_control(&self, value: u64) {
        self.interface_control.set(value);
    }
}
