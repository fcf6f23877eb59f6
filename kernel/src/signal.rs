//! A signal by the fast path: one report to `core/sched`, and for who may not preempt not even that. It does what [`Kernel::enter`] does for `invoke` on a
//! Send, in the usual cases; whether it is one is known before anything changes.

use crate::{Kernel, Next};
use bulkhead_arch::kernel::KernelMachine;
use bulkhead_kernel_abi::Capability;
use bulkhead_objects::{Machine, Notified};

/// What is left to do for a signal; the vectors know the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Signal {
    /// Everything: nothing has changed.
    All = 0,
    /// Nothing: the sender continues.
    Nothing = 1,
    /// To store the sender, and to ask [`Kernel::switch`] who runs.
    Switch = 2,
}

impl<M: KernelMachine> Kernel<'_, M> {
    /// The thread that runs sends to an end point, by a capability of this grant with this badge. Who continues is charged for it with its next report: no
    /// time passes for anybody else.
    pub fn signal(&mut self, end_point: u16, grant: u32, bits: u64) -> Signal {
        // Where schedulers may have a word in it, nobody is known to wait without them.
        match self.objects.notify_by(end_point, grant, bits, |_| None) {
            Notified::Otherwise if self.outside.servers.divides => self.signal_held(end_point, grant, bits),
            Notified::Otherwise => Signal::All,
            Notified::Nobody | Notified::Behind(_, false) => Signal::Nothing,
            Notified::Behind(_, true) => {
                self.end_turn_sooner();
                Signal::Nothing
            }
            Notified::First(server) => self.wake(server),
        }
    }

    /// The thread that runs sends by a wire, with a RemoteSend that may be used. Nobody here is woken by that, so all but the entry of the ring and the doorbell is left to the next
    /// entry of the kernel. What a full ring comes to is said by the call.
    pub fn remote_signal(&mut self, capability: &Capability) -> Signal {
        let Capability { object: wire, grant, .. } = *capability;
        let is_valid = self.objects.has_wire(wire, grant);
        if !is_valid || !self.outside.wires.has_room(&self.outside.machine, wire) {
            return Signal::All;
        }
        match self.outside.remote_send(wire, capability.entry(), capability.token()) {
            Ok(()) => Signal::Nothing,
            Err(_) => Signal::All,
        }
    }

    /// A server has somebody to run. Nothing else is left to do by then, so what this keeps in registers is no work for the other ends.
    #[inline(never)]
    fn wake(&mut self, server: u16) -> Signal {
        let now = self.outside.machine.counter_ticks();
        if self.outside.servers.room.core.wake_behind(now, server as u8) {
            return Signal::Nothing;
        }
        let _ = self.outside.servers.room.core.signal(now, server as u8);
        Signal::Switch
    }

    /// Somebody waits now for the end of a turn, which began when he was alone.
    #[inline(never)] // Few servers have turns.
    fn end_turn_sooner(&mut self) {
        let own_ticks = self.outside.servers.now_ticks().saturating_add(self.objects.left_ticks());
        if own_ticks < self.armed_ticks {
            self.armed_ticks = own_ticks;
            self.outside.machine.set_timer(own_ticks);
        }
    }

    /// Charges the sender, whose registers are stored, up to the signal, and chooses who runs; or that is known already.
    pub fn switch(&mut self) -> Next {
        // With schedulers nobody is known to wait without them, so what brings here is `signal_held` alone.
        if self.outside.servers.divides
            && let Some(thread) = self.objects.running()
        {
            return Next::Thread(thread);
        }
        let ticks = self.outside.servers.settle();
        self.count(ticks);
        let next = self.choose();
        self.compare_with_choice(next);
        next
    }
}
