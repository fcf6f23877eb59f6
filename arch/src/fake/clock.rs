//! A counter that tests move, and a timer that remembers its date.

use super::*;

impl Clock for FakeMachine {
    fn counter_ticks(&self) -> u64 {
        self.before_access();
        let now = self.now.get();
        self.now.set(now + self.ticks_per_reading.get());
        now
    }
    fn set_timer(&self, deadline_ticks: u64) {
        let deadline = Some(deadline_ticks).filter(|deadline| *deadline != u64::MAX);
        self.deadline.set(deadline);
        self.note(Event::Timer(deadline));
    }
    fn wait_for_interrupt(&self) {
        if let Some(world) = self.on_wait.get() {
            world(self);
        } else if let Some(deadline) = self.deadline.get() {
            self.now.set(self.now.get().max(deadline));
        }
    }
    fn spin_hint(&self) {
        self.now.set(self.now.get() + self.ticks_per_spin.get());
    }
}
