//! What the siblings of a vCPU of a shared core tell it: software-generated interrupts, posted in a word; that it is to start; that
//! it is to stand or to go on, because its partition does.
//!
//! Its core hears of all that by one software-generated interrupt of the machine, whose number is that of the partition: guests of a
//! shared core have none there, and a core runs at most one vCPU of a partition, so that the number says whose words are to be
//! looked at. Nobody but a sibling sends it. What has to be done at once is done at once, also for a vCPU that is not loaded: it
//! is parked without a turn, so that no core waits for its budget. What takes time is done in its own.

use super::scheduler::Scheduler;
#[cfg(test)]
use crate::state::AtomicU32;
use crate::state::{RunState, Vcpu, VcpuShared, vcpu_state};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::schedule::RouteRule;
use bulkhead_arch::Machine;
use bulkhead_arm::{Intid, gic};
use bulkhead_emulation::gic::MOST_URGENT_PHYSICAL;
use bulkhead_sched::Members;
use bulkhead_schedule::posts;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// In the word of posts: a start was posted, and the vCPU's core has not heard of it yet. A guest's software-generated interrupts do not
/// reach as far.
const START_POSTED: u32 = 1 << crate::interrupts::MONITOR_SGI;

/// The state of a vCPU that is to stand and does not yet.
const TO_STAND: u32 = vcpu_state::ON | vcpu_state::STAND;

// The word of tests, in the orders of the real one.
#[cfg(test)]
impl posts::Word for AtomicU32 {
    fn fill(&self, bits: u32) -> u32 {
        self.fetch_or(bits, Release)
    }
    fn empty(&self) -> u32 {
        self.swap(0, Acquire)
    }
    fn peek(&self) -> u32 {
        self.load(Relaxed)
    }
}

impl<M: Machine> Vcpu<M> {
    /// States whether a vCPU of the partition shares its core.
    // One load and a shift, in each software-generated interrupt.
    #[inline(always)]
    pub(crate) fn shares_core(&self, vcpu: u32) -> bool {
        self.partition.shared_vcpus.checked_shr(vcpu).is_some_and(|bits| bits & 1 != 0)
    }

    /// The software-generated interrupt of the machine by which a vCPU is told something.
    pub(crate) fn call_of(&self, vcpu: u32, intid: u32) -> u32 {
        if self.shares_core(vcpu) { self.partition.index } else { intid }
    }

    /// States whether this vCPU shares its core and has siblings, of which vCPU 0 speaks for the partition.
    pub(crate) fn has_siblings(&self) -> bool {
        !self.is_lead() && self.is_shared()
    }

    /// Takes this vCPU's words into its core's scheduler, if siblings can tell it something, and listens to them.
    pub(super) fn listen_to_siblings(&self, scheduler: &mut Scheduler) {
        if self.is_lead() {
            return;
        }
        let (number, call) = (self.plan.slot as u8, Intid(self.partition.index));
        if let Some(slot) = scheduler.slot_mut(number) {
            // Managers speak to vCPU 0.
            (slot.registers.words, slot.partition) = (Some(self.own_vcpu()), None);
        }
        if let Some(place) = scheduler.owners.get_mut(call.0 as usize) {
            *place = number.wrapping_add(1);
        }
        // It is no interrupt that goes straight to a guest.
        if let Some(route) = scheduler.routes.get_mut(call.0 as usize) {
            *route = RouteRule::Defer.number() as u8;
        }
        // As urgent as anything of a guest: priority 0 is for the monitor's interrupts that every core has.
        self.machine.store8(self.priority_place(call.0), MOST_URGENT_PHYSICAL);
        let frame = crate::observe::at(self.plan.gicr, gic::SGI_FRAME);
        self.machine.store32(crate::observe::at(frame, gic::ISENABLER), call.bit());
    }

    /// Posts a guest's software-generated interrupt for a vCPU that shares its core; false when it has its core to itself.
    pub(crate) fn posts_to(&self, vcpu: u32, intid: u32) -> bool {
        let Some(words) = self.shared.vcpus.get(vcpu as usize).filter(|_| self.shares_core(vcpu)) else { return false };
        if posts::post(&words.posted, 1u32.wrapping_shl(intid)) {
            self.send_sgi_to_vcpu(vcpu, intid);
        }
        true
    }

    /// Before a start becomes visible: what was posted for an earlier run is not for this one, and a post that can see the start is.
    pub(crate) fn begin_posts(&self, words: &VcpuShared) {
        // No need for this Release is known: that of `POSTED` comes behind it.
        words.posted.store(START_POSTED, Release);
    }

    /// The core of a vCPU whose start is pending may not have heard of it: returns whom to call again. A shared core that has heard is not
    /// called with each report, since the start may have to wait for its turn: then this is nobody.
    pub(crate) fn unless_heard(&self, vcpu: u32) -> u32 {
        let words = self.shared.vcpus.get(vcpu as usize).filter(|_| self.shares_core(vcpu));
        // Relaxed: nothing is read by it, and one interrupt too many does no harm.
        let has_heard = words.is_some_and(|words| words.posted.load(Relaxed) & START_POSTED == 0);
        if has_heard { u32::MAX } else { vcpu }
    }

    /// A sibling of one of the core's vCPUs has something to tell it.
    pub(crate) fn sibling_calls(&mut self, intid: u32) {
        self.count(Counter::MonitorInterrupt);
        self.machine.priority_drop(intid);
        if self.heed_siblings(intid) {
            // Who is loaded can be called as fast as it answers, and nothing of a guest is more urgent. Until this call is deactivated it
            // does not come again, so all others that have an interrupt here come first.
            self.take_interrupt();
        }
        self.machine.deactivate(intid);
    }

    /// Does what siblings want of a vCPU of the core; returns whether it is the loaded one.
    fn heed_siblings(&mut self, intid: u32) -> bool {
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return false };
        let Some(number) = scheduler.owner(intid) else { return false };
        let is_loaded = number == scheduler.loaded;
        let Some(slot) = scheduler.slot(number) else { return false };
        let Some(words) = slot.registers.words else { return false };
        // Acquire, for the Release of who wrote it: what comes with a start, or with the end of a suspension, is there.
        match words.state.load(Acquire) {
            vcpu_state::ON if slot.stands() => scheduler.let_go(number, now),
            vcpu_state::ON if is_loaded => {}
            vcpu_state::ON if posts::is_posted(&words.posted) => scheduler.posted(number, now),
            TO_STAND => {
                scheduler.park(number, now);
                if is_loaded {
                    self.run = RunState::Parked;
                }
                // Release: what its guest wrote comes before `stand` sees this. The memory may be scrubbed next.
                words.state.fetch_or(vcpu_state::PARKED, Release);
            }
            vcpu_state::ON_PENDING => {
                // Relaxed: it only says that nobody needs to call again.
                words.posted.fetch_and(!START_POSTED, Relaxed);
                scheduler.ask(number, now);
            }
            _ => {}
        }
        if is_loaded {
            self.take_posts();
        }
        is_loaded
    }

    /// Before the loaded vCPU does what its word says: it may have been parked while it was not loaded.
    pub(super) fn heed_parking(&mut self) {
        if self.run == RunState::Running && self.own_slot().is_some_and(|slot| slot.stands()) {
            self.run = RunState::Parked;
        }
    }

    /// Its core's scheduler is to know that this vCPU, which is loaded, stands.
    pub(crate) fn note_standing(&mut self) {
        if self.has_siblings()
            && let Some(slot) = self.own_slot()
        {
            slot.stand();
        }
    }

    /// And that it continues, if it stood.
    pub(super) fn note_going_on(&mut self) {
        if self.run == RunState::Running
            && let Some(slot) = self.own_slot()
        {
            slot.go_on();
        }
    }

    /// What is posted for this vCPU, which is just loaded, is taken before its guest continues, in its own time: who made room for it does not
    /// pay for what its siblings sent.
    pub(super) fn ask_for_posts(&mut self) {
        if self.has_siblings()
            && posts::is_posted(&self.own_vcpu().posted)
            && let Some(scheduler) = self.core.scheduler.as_deref_mut()
        {
            let own = scheduler.loaded;
            scheduler.ask(own, self.machine.counter_ticks());
        }
    }

    /// Makes pending what is posted for this vCPU, which is loaded. One that is off keeps it for its start, and one that stands until it
    /// continues: as soon as all stand a new instance may begin, and what is posted then is for that one.
    pub(crate) fn take_posts(&mut self) {
        let own = self.own_vcpu();
        // Relaxed: only this core switches it on or off, and nobody continues before it stands.
        if !self.has_siblings() || own.state.load(Relaxed) != vcpu_state::ON {
            return;
        }
        for intid in Members(u64::from(posts::take(&own.posted) & !START_POSTED)).map(u32::from) {
            self.make_pending(intid);
            self.own_interrupt_arrived(intid);
        }
    }
}
