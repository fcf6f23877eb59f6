//! End points: notifications without payload, and who waits for them (`kernel.md` 6; CH-10, CH-11, CH-38).
//!
//! A send sets bits and counts; data went before, in a ring of its own, so nothing is lost when several sends become one. Who may
//! not wait without bound gives a deadline.
//!
//! `receive` without `all` takes the lowest bit that is set; the count is answered with the last one, since it counts sends and not
//! bits.

use crate::{Objects, ThreadState, World};
use bulkhead_kernel_abi::boot::EndPointRow;
use bulkhead_kernel_abi::{Code, NONE};

/// An end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPoint {
    /// Life and grant.
    pub counters: crate::Counters,
    /// Bits that are pending.
    pub bits: u64,
    /// Sends since it was taken last; it stays at its largest value.
    pub count: u32,
    /// Thread that takes from it, or [`NONE`].
    pub thread: u16,
    /// On what it wakes that thread; [`NONE`] for the thread's own.
    pub tcap: u16,
}

impl EndPoint {
    /// No end point.
    pub const EMPTY: Self =
        Self { counters: crate::Counters { life: 1, grant: 1 }, bits: 0, count: 0, thread: NONE, tcap: NONE };

    /// An end point as the host described it.
    #[must_use]
    pub const fn new(row: &EndPointRow) -> Self {
        Self { thread: row.thread, tcap: row.tcap, ..Self::EMPTY }
    }

    /// Takes what is pending: bits and count.
    fn take(&mut self, all: bool) -> Option<[u64; 2]> {
        if self.count == 0 {
            return None;
        }
        let lowest = self.bits & self.bits.wrapping_neg();
        let taken = if all { self.bits } else { lowest };
        self.bits &= !taken;
        let count = if self.bits == 0 { core::mem::take(&mut self.count) } else { 0 };
        Some([taken, u64::from(count)])
    }
}

impl Objects<'_> {
    /// Notifies an end point, and wakes the thread that waits for it.
    pub fn send<W: World>(&mut self, world: &mut W, end_point: u16, bits: u64) {
        let Some(one) = self.room.end_points.get_mut(usize::from(end_point)) else { return };
        one.bits |= bits;
        one.count = one.count.saturating_add(1);
        let (thread, tcap) = (one.thread, one.tcap);
        let Some(waiting) = self.thread(thread).filter(|thread| thread.state == ThreadState::Receiving) else { return };
        // A suspended thread finds it when it is resumed.
        if waiting.end_point != end_point || waiting.is_suspended {
            return;
        }
        let tcap = if tcap == NONE { waiting.tcap } else { tcap };
        self.answer_receive(world, end_point, thread);
        self.activate(world, thread, tcap);
    }

    /// Ends a `receive` with what is pending.
    fn answer_receive<W: World>(&mut self, world: &mut W, end_point: u16, thread: u16) -> bool {
        let Some(all) = self.thread(thread).map(|thread| thread.takes_all) else { return false };
        let taken = self.room.end_points.get_mut(usize::from(end_point)).and_then(|one| one.take(all));
        let Some(values) = taken else { return false };
        self.end_waiting(world, thread);
        if let Some(thread) = self.thread_mut(thread) {
            thread.answer(Code::Ok.number(), &values);
        }
        true
    }

    /// What a thread waits for may be there since it was suspended.
    pub(crate) fn look_again<W: World>(&mut self, world: &mut W, thread: u16) {
        let Some(one) = self.thread(thread) else { return };
        match one.state {
            ThreadState::Receiving => {
                let end_point = one.end_point;
                self.answer_receive(world, end_point, thread);
            }
            ThreadState::WaitingForEvents => self.offer_position(world, thread),
            _ => {}
        }
    }

    /// What came for a scheduler while its thread was suspended is there when it is resumed (N5).
    fn offer_position<W: World>(&mut self, world: &mut W, thread: u16) {
        let scheduler = (0..u16::MAX).zip(self.room.schedulers.iter()).find(|(_, one)| one.thread == thread);
        if let Some((scheduler, _)) = scheduler
            && let Some(server) = self.server_of_scheduler(world, scheduler)
            && self.next_of(server).is_none()
        {
            self.takes_over(world, server, scheduler);
        }
    }

    /// Takes from an end point; `None` when nothing is pending.
    pub(crate) fn take(&mut self, end_point: u16, all: bool) -> Option<[u64; 2]> {
        self.room.end_points.get_mut(usize::from(end_point))?.take(all)
    }
}
