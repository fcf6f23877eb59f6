//! Fronts of virtio devices whose back end is another partition (part `devices`): their trapped registers, and a restart of the
//! partition that has them.
//!
//! What the registers do is `bulkhead_emulation::virtio`'s, and a notification goes the way of every doorbell, limiter included. Here is the
//! device page in memory, and the order of a restart: as soon as the partition stops, every front withdraws its generation, and before a start
//! the back end is waited for, so that nothing that it was storing comes behind the clear. Then pool and pages are cleared, in slices on a
//! shared core, and one new generation is given to all fronts.
//!
//! **The wait has an end.** A back end that never leaves is held against nobody but these two: it is counted, said as the reason of the
//! start, and the front starts all the same. What is left is one store of that back end into the cleared pool (`caveats.md`).
//!
//! **A suspended front keeps its generation.** Its requests are done while it stands, and its driver finds them in the used ring.

use super::functions::NEVER;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{DeviceFront, DevicePlan, MAX_FRONTS};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{self, StatusPage};
use bulkhead_abi::virtio::{CONFIGURATION, DEVICE_PAGE_BYTES, GENERATION, INTERRUPT_STATUS, INTERRUPT_USED};
use bulkhead_arch::Machine;
use bulkhead_emulation::virtio::{DevicePage, Front, FrontEffect};
use core::mem::offset_of;

/// Looks at a back end while it is waited for.
const LOOKS: u64 = 64;

/// What is to be done to the fronts before a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Nothing,
    /// Wait until the back end has left, at most to this date.
    Leave {
        limit_ticks: u64,
    },
    /// Clear the pool from here on.
    Pool {
        offset: u64,
    },
    /// Clear the page of this front and of those behind it.
    Pages {
        index: usize,
    },
}

/// How far the fronts of a partition are, at the core of its vCPU 0.
#[derive(Debug)]
pub struct Fronts {
    work: Work,
    /// The generation given last; 0 = none yet.
    generation: u32,
}

impl Fronts {
    pub(super) const fn new() -> Self {
        Self { work: Work::Nothing, generation: 0 }
    }

    /// The back end is waited for.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.work, Work::Leave { .. })
    }
}

/// A device page in memory.
struct Page<'a, M> {
    machine: &'a M,
    page: PhysicalAddress,
}

impl<M: Machine> DevicePage for Page<'_, M> {
    fn load(&self, offset: u32) -> u32 {
        self.machine.load32(at(self.page, offset.into()))
    }
    fn store(&self, offset: u32, value: u32) {
        self.machine.store32(at(self.page, offset.into()), value);
    }
    fn full_barrier(&self) {
        // The trait's duty: what is before it comes first for the core of the back end, too.
        self.machine.barrier();
    }
}

impl<M: Machine> Page<'_, M> {
    /// Clears the page, but for the two words of which one is 0 by now and the other the back end's; then it is as the plan says.
    fn clear(&self, planned: &DeviceFront) {
        const KEPT: u64 = GENERATION as u64 & !7;
        for offset in (0..u64::from(DEVICE_PAGE_BYTES)).step_by(8).filter(|offset| *offset != KEPT) {
            self.machine.store64(at(self.page, offset), 0);
        }
        self.store(INTERRUPT_STATUS, INTERRUPT_USED);
        for (offset, word) in (CONFIGURATION..).step_by(4).zip(planned.configuration) {
            self.store(offset, word);
        }
    }
}

impl<M: Machine> Vcpu<M> {
    /// Lets something be done to a front; `None` when there is none of this index.
    fn with_front<T>(&self, index: usize, act: impl FnOnce(&Front<'_, Page<'_, M>>) -> T) -> Option<T> {
        let planned = self.functions.plan?.fronts().get(index)?;
        let state = self.shared.fronts.get(index)?;
        let page = Page { machine: &self.machine, page: planned.page };
        Some(act(&Front { plan: &planned.plan, state, page: &page }))
    }

    fn each_front(&self, act: impl Fn(&Front<'_, Page<'_, M>>)) {
        (0..MAX_FRONTS).for_each(|index| _ = self.with_front(index, &act));
    }

    /// Reads a trapped register.
    pub(crate) fn front_read(&self, index: u32, offset: u64, bytes: u8) -> u64 {
        self.count(Counter::PciRegisters);
        self.with_front(index as usize, |front| front.read(offset as u32, bytes)).unwrap_or(0).into()
    }

    /// Writes it.
    pub(crate) fn front_write(&mut self, index: u32, offset: u64, bytes: u8, value: u64) {
        self.count(Counter::PciRegisters);
        let effect = self.with_front(index as usize, |front| front.write(offset as u32, bytes, value as u32));
        if let Some(FrontEffect::Doorbell(doorbell)) = effect {
            // Beyond the limit it is lost: the back end looks by itself.
            self.ring_doorbell(doorbell.into());
        }
    }

    /// The partition stands: the back end stores nothing any more but what it announced before.
    pub(crate) fn stop_fronts(&self) {
        self.each_front(|front| front.stop());
    }

    /// Before a start: pool and pages are to be cleared, when the back end has left.
    pub(super) fn begin_fronts(&mut self) {
        let Some(plan) = self.functions.plan.filter(|plan| plan.front_count != 0) else { return };
        // Before the first start memory holds what firmware left there, a generation perhaps.
        self.stop_fronts();
        let limit_ticks = self.machine.counter_ticks().wrapping_add(plan.leave_ticks);
        // Nobody can be storing for a front that never had a generation.
        let is_first = self.functions.fronts.generation == 0;
        self.functions.fronts.work = if is_first { Work::Pool { offset: 0 } } else { Work::Leave { limit_ticks } };
    }

    /// Does the next piece of it, clearing at most `most_bytes` of the pool; false when nothing is left.
    pub(super) fn fronts_step(&mut self, plan: &'static DevicePlan, most_bytes: u64) -> bool {
        self.functions.fronts.work = match self.functions.fronts.work {
            Work::Nothing => return false,
            Work::Leave { limit_ticks } => self.wait_for_back_end(plan, limit_ticks),
            Work::Pool { offset } => {
                let bytes = plan.pool_bytes.saturating_sub(offset).min(most_bytes);
                self.machine.scrub(at(plan.pool, offset), bytes);
                let offset = offset.wrapping_add(bytes);
                if offset < plan.pool_bytes { Work::Pool { offset } } else { Work::Pages { index: 0 } }
            }
            Work::Pages { index } => {
                if let Some(planned) = plan.fronts().get(index) {
                    Page { machine: &self.machine, page: planned.page }.clear(planned);
                    Work::Pages { index: index.wrapping_add(1) }
                } else {
                    self.start_fronts();
                    Work::Nothing
                }
            }
        };
        true
    }

    fn wait_for_back_end(&mut self, plan: &DevicePlan, limit_ticks: u64) -> Work {
        let now = self.machine.counter_ticks();
        if now < self.functions.rests_until {
            return Work::Leave { limit_ticks };
        }
        let has_left = (0..MAX_FRONTS).all(|index| self.with_front(index, |front| front.is_left()) != Some(false));
        if !has_left && now < limit_ticks {
            let next = now.saturating_add(plan.leave_ticks.wrapping_div(LOOKS)).min(limit_ticks);
            self.functions.rests_until = next;
            self.set_own_date(next);
            return Work::Leave { limit_ticks };
        }
        if !has_left {
            self.add_status(offset_of!(StatusPage, back_end_busy));
            self.restore.reason = status::REASON_BACK_END_BUSY;
        }
        self.set_own_date(NEVER);
        Work::Pool { offset: 0 }
    }

    /// Gives all fronts a generation, which differs from the last one, and whose next nobody can know.
    fn start_fronts(&mut self) {
        let now = self.machine.counter_ticks() as u32;
        let differs = |generation: &u32| *generation != 0 && *generation != self.functions.fronts.generation;
        let generation = [0, 1, 2].map(|more| now.wrapping_add(more)).into_iter().find(differs).unwrap_or(1);
        self.functions.fronts.generation = generation;
        self.each_front(|front| front.start(generation));
    }
}
