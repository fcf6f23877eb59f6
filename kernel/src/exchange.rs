//! A `switch` and a notification by a short way: a thread takes the place of another one on their server, which runs on. What is charged and chosen at every other entry is left to
//! the next one.

use crate::signal::Signal;
use crate::{Kernel, Next};
use bulkhead_arch::kernel::KernelMachine;

impl<M: KernelMachine> Kernel<'_, M> {
    /// Does what [`Self::enter`] does for a `switch` of the thread that runs, in the usual case; `None`, with nothing changed, in all others.
    pub fn exchange(&mut self) -> Option<Next> {
        let (leaver, now, ticks) = self.nothing_is_due()?;
        let (thread, own_ticks) = self.objects.exchange(&mut self.outside, now, ticks)?;
        self.take_place(leaver, thread, now, [ticks, own_ticks]);
        Some(Next::Thread(thread))
    }

    /// The same for a notification of a thread of the server that runs, which a scheduler holds.
    #[inline(never)] // Not on the way of instances without schedulers.
    pub(crate) fn signal_held(&mut self, end_point: u16, grant: u32, bits: u64) -> Signal {
        let Some((leaver, now, ticks)) = self.nothing_is_due() else { return Signal::All };
        match self.objects.notify_held(&mut self.outside, (end_point, grant, bits), now, ticks) {
            None => Signal::All,
            Some(None) => Signal::Nothing,
            Some(Some((thread, own_ticks))) => {
                self.take_place(leaver, thread, now, [ticks, own_ticks]);
                Signal::Switch
            }
        }
    }

    /// Who runs, now, and the time since that one was charged, by which no budget, limit or date ends: what is due comes first. `None` as well where claims are not as usual, so that little is
    /// looked at in vain.
    #[inline(always)] // On a way that is counted.
    fn nothing_is_due(&self) -> Option<(u16, u64, u64)> {
        let leaver = self.objects.running()?;
        let now = self.outside.machine.counter_ticks();
        if !self.outside.servers.is_whole_and_alone(now) || self.outside.wires.is_due() {
            return None;
        }
        let is_due = now >= self.armed_ticks || self.outside.machine.is_interrupted();
        (!is_due).then(|| (leaver, now, now.saturating_sub(self.outside.servers.now_ticks())))
    }

    #[inline(always)] // The same.
    fn take_place(&mut self, leaver: u16, thread: u16, now: u64, [ticks, own_ticks]: [u64; 2]) {
        self.outside.servers.count_ran(leaver, ticks);
        self.start(thread);
        // The server's own dates are those of the last choice, but for the time-out of a `switch`.
        self.dates_ticks = self.outside.servers.dates_again(self.dates_ticks);
        self.arm(self.dates_ticks.min(now.saturating_add(own_ticks)));
    }
}
