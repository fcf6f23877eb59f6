//! EL3 that notes what it is asked for, where there is one.

use super::*;
use crate::Gate;

impl Gate for FakeMachine {
    fn kick(&self, mpidr: u64) -> bool {
        let payload = self.payload_mpidr.get();
        let is_kicked = payload.is_some_and(|payload| payload != mpidr);
        if is_kicked {
            self.note(Event::Kick(mpidr));
        }
        is_kicked
    }
    fn watch(&self, ticks: u64) {
        if self.payload_mpidr.get().is_some() {
            self.note(Event::Watch(ticks));
        }
    }
    fn trap_interface(&self) {
        self.interface_traps.set(true);
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
