//! Start, stop, suspend and restart of a partition.
//!
//! A first start is a restart: scrub, load the pristine segments and check them, reset interrupts, channels and registers,
//! enter. So there is one path, and it is exercised at every boot (SG-62, QV-74). The core of vCPU 0 does the work; its
//! siblings stand parked at EL2 meanwhile. No other partition's core executes anything for it: peers read the status page.

use crate::interrupts::MONITOR_SGI;
use crate::life::boot::security_states;
use crate::life::powers::{Route, Stop};
use crate::observe::at;
use crate::state::{EMPTY_FAST_TABLE, FAST_ENTRIES, Restore, RunState, Vcpu, VcpuShared, report, vcpu_state};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{Counter, TRACE_GUEST_START, TRACE_STATE};
use bulkhead_abi::status::{self, StatusPage};
use bulkhead_arch::Machine;
use bulkhead_arm::el2::interface::EVERY_PRIORITY;
use bulkhead_emulation::gic::MOST_URGENT_PHYSICAL;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Longest wait for a sibling core to stand, in counter ticks (17 s at 62.5 MHz). A sibling is at most one handler away; the
/// limit is for an emulated one that the host does not run.
const STAND_LIMIT_TICKS: u64 = 1 << 30;

/// The smallest priority mask of five bits that is not zero.
const SMALLEST_MASK: u8 = 8;

impl<M: Machine> Vcpu<M> {
    /// Waits at EL2 until the guest can run, on a core that this vCPU owns. Interrupts of guests stay pending
    /// meanwhile, as they do on a machine whose core is off: so they are there for the next start, or go where the
    /// guest routes them.
    // A core that comes here has nothing else to do: kept out of the end of every handler.
    #[cold]
    pub(crate) fn wait_until_running(&mut self) {
        if self.is_mapped() {
            self.machine.enable_virtual_interface(false);
            self.mask_guest_interrupts();
        }
        while self.run != RunState::Running {
            if self.kicked() {
                continue;
            }
            if self.run == RunState::BackOff && self.machine.counter_ticks() >= self.backoff_until {
                self.end_back_off();
                continue;
            }
            self.wait_once();
        }
        if self.is_mapped() {
            self.machine.set_priority_mask(EVERY_PRIORITY);
            self.machine.enable_virtual_interface(true);
            self.machine.set_underflow_interrupt(self.waits_for_list_register());
        }
    }

    /// Lets only the monitor's own interrupts be signalled to this core.
    ///
    /// EL2 sees the mask as it sees priorities; but with two security states only if firmware takes the interrupts of group 0
    /// (SCR_EL3.FIQ). Otherwise the mask is physical, and there a priority is 0x80 and half of what EL2 sees (IHI 0069, 4.8 and
    /// ICC_PMR_EL1). The smallest mask tells: in the non-secure view of five bits it is zero.
    pub(crate) fn mask_guest_interrupts(&self) {
        self.machine.set_priority_mask(SMALLEST_MASK);
        let is_physical = self.machine.priority_mask() != 0 && security_states(&self.machine, self.plan.gicd) == 2;
        let half = u32::from(is_physical);
        self.machine.set_priority_mask((half << 7) as u8 | MOST_URGENT_PHYSICAL >> half);
    }

    /// Restarts. The guest and its peers see why it was started, as they do without a back-off.
    pub(crate) fn end_back_off(&mut self) {
        let reason = self.machine.load32(self.status_place(offset_of!(StatusPage, reason)));
        self.restart(reason);
    }

    /// Waits for one event. In `direct` mode this core has no interrupt of its own, so a back-off is polled.
    fn wait_once(&mut self) {
        #[cfg(feature = "hybrid")]
        if !self.is_mapped() && self.run != RunState::BackOff {
            return self.machine.wait_for_kick();
        }
        if !self.is_mapped() {
            if self.run == RunState::BackOff {
                self.machine.spin_hint();
            } else {
                self.machine.wait_for_interrupt();
            }
            return;
        }
        if self.run == RunState::BackOff {
            self.machine.set_timer(self.backoff_until);
        }
        self.machine.wait_for_interrupt();
        self.take_interrupt();
    }

    /// Serves what other cores asked of this one (SGI 15).
    pub fn serve_requests(&mut self) {
        self.follow_own_state();
        if self.is_lead() {
            self.serve_reports();
            self.serve_managers();
        }
    }

    /// Gives the shared interrupts that this vCPU has not taken back to the distributor, at CPU_OFF.
    pub(crate) fn return_shared_interrupts(&mut self) {
        #[cfg(feature = "hybrid")]
        self.silent_ones_ended();
        for index in 0..4 {
            let value = self.machine.list_register(index);
            #[cfg(feature = "hybrid")]
            if value >> 62 != 0 {
                self.listen_to(value as u32);
            }
            if value >> 62 == 1 && value as u32 >= 32 {
                self.machine.set_list_register(index, 0);
                self.set_waiting(value as u32, true);
            }
        }
        let waiting = core::mem::take(&mut self.waiting);
        for intid in 32..FAST_ENTRIES as u32 {
            if waiting.get(intid as usize >> 6).is_some_and(|word| word.get() >> (intid & 63) & 1 != 0) {
                // Noted by an instance before on a shared core, it was taken back with that.
                #[cfg(feature = "shared")]
                if !self.is_active(intid) {
                    continue;
                }
                self.pend_spare(intid, true);
                self.machine.deactivate(intid);
                #[cfg(feature = "hybrid")]
                self.listen_to(intid);
            }
        }
    }

    /// Ends the guest's run on this vCPU and tells the core that speaks for the partition. The report comes first: once this vCPU
    /// stands, everything that it says is there, and nothing of it can reach the next instance. A core that sees the
    /// report sees the facts of the fault, too, even before this vCPU stands: hence its release order. CPU_OFF reports
    /// nothing, so an earlier run's report that is not taken yet stays.
    pub(crate) fn leave(&mut self, reason: u32) {
        self.run = RunState::Off;
        #[cfg(feature = "shared")]
        if self.has_siblings() {
            // Others use this core's interrupt controller meanwhile, which has this guest's timers.
            self.reset_private_interrupts(Stop(()));
        }
        let own = self.own_vcpu();
        if !self.is_lead() && reason != report::NONE {
            // Release: the facts of the fault come before the report, which `serve_reports` takes with Acquire.
            own.report.store(reason, Release);
        }
        // Release: a core that sees this vCPU off sees its report, and all that its run wrote.
        own.state.fetch_and(!vcpu_state::ON, Release);
        if !self.is_lead() {
            self.send_sgi_to_vcpu(0, MONITOR_SGI);
        } else if reason == report::NONE {
            self.serve_reports();
        } else {
            self.serve_report(0, reason);
        }
    }

    /// Does what the word of this vCPU says ([`vcpu_state`]).
    pub(super) fn follow_own_state(&mut self) {
        const TO_STAND: u32 = vcpu_state::ON | vcpu_state::STAND;
        let own = self.own_vcpu();
        // Acquire, for the Release in `let_go` and `enter_partition`: what the core of vCPU 0 did meanwhile comes
        // before the guest resumes.
        match own.state.load(Acquire) {
            // Where the partition was just told to stand, the start waits.
            vcpu_state::ON_PENDING => {
                // Acquire, for the Release of `POSTED`: the entry point is that of this CPU_ON, and Relaxed is enough
                // to read it. When the exchange fails nothing is read by it.
                let started = own.state.compare_exchange(vcpu_state::ON_PENDING, vcpu_state::ON, Acquire, Relaxed);
                if started.is_ok() {
                    self.start_vcpu(own.entry.load(Relaxed), own.context.load(Relaxed));
                }
            }
            TO_STAND => {
                self.run = RunState::Parked;
                #[cfg(feature = "shared")]
                self.note_standing();
                // Release: what the guest wrote comes before `stand` sees this. The memory may be scrubbed next.
                own.state.fetch_or(vcpu_state::PARKED, Release);
            }
            vcpu_state::ON if self.run == RunState::Parked => self.run = RunState::Running,
            _ => {}
        }
    }

    fn vcpus(&self) -> impl Iterator<Item = (u32, &'static VcpuShared)> + use<M> {
        (0..self.partition.vcpu_count).zip(&self.shared.vcpus)
    }

    /// No vCPU is on or about to be. Exact while the partition stands.
    fn all_are_off(&self) -> bool {
        // Acquire, for the Release in `leave`: a vCPU that is seen off has reported, and its report is read after this.
        self.vcpus().all(|(_, words)| words.state.load(Acquire) & (vcpu_state::ON | vcpu_state::CLAIMED) == 0)
    }

    /// Acts on what the siblings reported, or on that nobody is left. A vCPU reports before it is off, so one that is
    /// seen off has said what it had to say.
    pub(super) fn serve_reports(&mut self) {
        let nobody_is_left = self.nobody_is_left();
        for (vcpu, words) in self.vcpus().skip(1) {
            // Its core was not set up yet when it was told to start, and lost the interrupt.
            // No need for the Acquire is known: nothing is read by the word.
            if words.state.load(Acquire) == vcpu_state::ON_PENDING {
                #[cfg(feature = "shared")]
                let vcpu = self.unless_heard(vcpu);
                self.send_sgi_to_vcpu(vcpu, MONITOR_SGI);
            }
            // Acquire, for the Release in `leave`: the facts of the fault are read next.
            let reported = words.report.swap(report::NONE, Acquire);
            if reported != report::NONE {
                return self.serve_report(vcpu, reported);
            }
        }
        if nobody_is_left {
            self.stop(status::STATE_OFF, status::REASON_NONE);
        }
    }

    /// States whether all vCPUs of a started partition are off. What is seen while others run is not one instant: the last one
    /// may have switched on another one before. So it is seen twice, the second time while all stand.
    fn nobody_is_left(&mut self) -> bool {
        let state = self.state();
        if !matches!(state, status::STATE_RUNNING | status::STATE_SUSPENDED) || !self.all_are_off() {
            return false;
        }
        self.stand(Stop(()));
        let nobody = self.all_are_off();
        if !nobody && state == status::STATE_RUNNING {
            self.let_go();
        }
        nobody
    }

    /// Acts on what a vCPU of the partition reported (its own one included).
    pub(super) fn serve_report(&mut self, vcpu: u32, reported: u32) {
        match reported {
            report::SYSTEM_OFF => self.stop(status::STATE_OFF, status::REASON_NONE),
            reason => self.apply_policy(vcpu, reason),
        }
    }

    /// Makes the partition stand with its registers kept.
    pub(super) fn suspend(&mut self) {
        self.set_own_date(u64::MAX);
        let (state, reason) = if self.stand(Stop(())) {
            (status::STATE_SUSPENDED, status::REASON_MANAGED)
        } else {
            (status::STATE_STOPPED, status::REASON_CORE_STUCK)
        };
        #[cfg(feature = "devices")]
        self.suspend_functions();
        #[cfg(feature = "devices")]
        let (state, reason) = self.allowed_state(state, reason);
        self.publish_state(state, reason);
    }

    /// Tells every vCPU to stand, and waits until all do; false when a core does not come. From the first moment on none is
    /// started, so that nobody can pass a start on behind the back of this loop.
    pub(crate) fn stand(&mut self, _: Stop) -> bool {
        for (vcpu, words) in self.vcpus() {
            // One operation, so that no CPU_ON is missed: its callers claim the same word. No need for the order is
            // known, since the words are read with Acquire below before anything is done by them.
            let state = words.state.fetch_or(vcpu_state::STAND, AcqRel);
            if vcpu != self.plan.vcpu && state & (vcpu_state::ON | vcpu_state::PARKED) == vcpu_state::ON {
                self.send_sgi_to_vcpu(vcpu, MONITOR_SGI);
            }
        }
        self.follow_own_state();
        let limit = self.machine.counter_ticks().wrapping_add(STAND_LIMIT_TICKS);
        self.vcpus().all(|(_, words)| {
            // Acquire, for the Release with which each parked or left: nothing that a guest wrote may come after what
            // is done once all stand.
            let runs = || words.state.load(Acquire) & (vcpu_state::ON | vcpu_state::PARKED) == vcpu_state::ON;
            self.wait_while(limit, runs)
        })
    }

    /// Lets all vCPUs be again what they were when they were told to stand. The own one hears of it as the others do, since the
    /// handler of a call that ended its run must not start it: the vectors would not load all of its registers.
    pub(crate) fn let_go(&mut self) {
        for (vcpu, words) in self.vcpus() {
            // Release: what was done while they stood comes before they go on; they look with Acquire.
            words.state.fetch_and(!(vcpu_state::STAND | vcpu_state::PARKED), Release);
            // Others have the core of one that is off. Relaxed: who switches it on now calls it.
            #[cfg(feature = "shared")]
            if self.shares_core(vcpu) && words.state.load(Relaxed) & (vcpu_state::ON | vcpu_state::CLAIMED) == 0 {
                continue;
            }
            if !self.is_shared() {
                self.send_sgi_to_vcpu(vcpu, MONITOR_SGI);
            }
        }
    }

    /// Waits while a condition on a word of the partition's own cores holds; false when the time is up.
    fn wait_while(&self, limit_ticks: u64, condition: impl Fn() -> bool) -> bool {
        while condition() {
            if self.machine.counter_ticks() > limit_ticks {
                return false;
            }
            self.machine.spin_hint();
        }
        true
    }

    /// Stops the partition: its vCPUs, its interrupts, its timer.
    pub(super) fn stop(&mut self, state: u32, reason: u32) {
        let (state, reason) =
            if self.quiesce() { (state, reason) } else { (status::STATE_STOPPED, status::REASON_CORE_STUCK) };
        #[cfg(feature = "devices")]
        let (state, reason) = self.allowed_state(state, reason);
        self.publish_state(state, reason);
    }

    /// Takes the partition out of service; false when one of its cores did not stop.
    fn quiesce(&mut self) -> bool {
        let all_stand = self.stand(Stop(()));
        if all_stand {
            // What this instance was about to do or to say ends with it.
            for (_, words) in self.vcpus() {
                // Nobody else changes these words while all stand, so a store will do in place of an exchange. No need
                // for this Release is known: the one in `enter_partition` comes before anybody is started.
                words.state.store(vcpu_state::STAND, Release);
                words.report.store(report::NONE, Relaxed);
            }
        }
        self.run = RunState::Off;
        self.set_own_date(u64::MAX);
        self.reset_shared_interrupts(Stop(()), Route(()));
        self.reset_private_interrupts(Stop(()));
        #[cfg(feature = "devices")]
        {
            self.silence_functions();
            self.stop_fronts();
        }
        all_stand
    }

    /// Stops what runs and starts the partition from its pristine image.
    pub(super) fn restart(&mut self, reason: u32) {
        if !self.quiesce() {
            self.publish_state(status::STATE_STOPPED, status::REASON_CORE_STUCK);
            return;
        }
        self.count(Counter::Restart);
        self.add_status(offset_of!(StatusPage, restarts));
        self.start_partition(reason);
    }

    /// Starts the partition from its pristine image. Interrupts are quiet and siblings stand. On a shared core the memory is
    /// prepared in slices, in the partition's own time ([`Self::restore_step`]).
    pub fn start_partition(&mut self, reason: u32) {
        self.restore = Restore { reason, ..Restore::default() };
        #[cfg(feature = "devices")]
        if !self.begin_functions() {
            return;
        }
        self.run = RunState::Restoring;
        if !self.is_shared() {
            while self.run == RunState::Restoring {
                self.restore_step(u64::MAX);
            }
        }
    }

    /// Scrubs or copies at most `most_bytes` (a multiple of 64), or, when all of it is done, enters the guest.
    pub(crate) fn restore_step(&mut self, most_bytes: u64) {
        #[cfg(feature = "devices")]
        if self.functions_step(most_bytes) {
            return;
        }
        let plan = self.partition;
        let Restore { piece, offset, crc, reason } = self.restore;
        let rams = plan.ram().iter();
        let mut regions = rams.chain(plan.channel_clear().iter());
        let region_count = (plan.ram_count as usize).wrapping_add(plan.channel_clear_count as usize);
        let bytes_left = if let Some(region) = regions.nth(piece) {
            let bytes = region.bytes.saturating_sub(offset).min(most_bytes);
            self.machine.scrub(at(region.physical, offset), bytes);
            self.restore.offset = offset.wrapping_add(bytes);
            region.bytes.saturating_sub(self.restore.offset)
        } else {
            let segments = plan.segments().iter();
            let Some(segment) = segments.into_iter().nth(piece.wrapping_sub(region_count)) else {
                return self.enter_partition(reason);
            };
            let bytes = segment.bytes.saturating_sub(offset).min(most_bytes);
            let (to, from) = (at(segment.destination, offset), at(segment.source, offset));
            self.restore.crc = self.machine.copy_and_check(to, from, bytes, crc);
            self.restore.offset = offset.wrapping_add(bytes);
            let left = segment.bytes.saturating_sub(self.restore.offset);
            if left == 0 && self.restore.crc != segment.crc {
                self.run = RunState::Off;
                return self.publish_state(status::STATE_STOPPED, status::REASON_IMAGE_DAMAGED);
            }
            left
        };
        if bytes_left == 0 {
            self.restore = Restore { piece: piece.wrapping_add(1), offset: 0, crc: 0, reason };
        }
    }

    /// The memory is ready: resets everything else and lets the guest run.
    fn enter_partition(&mut self, reason: u32) {
        let plan = self.partition;
        self.machine.synchronise_instructions();
        self.machine.invalidate_guest_translations();
        for _ in 0..self.shared.uart.reset() {
            self.count(Counter::ConsoleLost);
        }
        self.shared.pci.reset();
        self.reset_shared_interrupts(Stop(()), Route(()));
        for (_, words) in self.vcpus() {
            // Release: a core that switches a vCPU on, and that vCPU's core after it, finds memory, interrupts and
            // devices of this instance.
            words.state.store(vcpu_state::OFF, Release);
        }
        // Release, as for the siblings' words: a core that sees this vCPU on finds the instance that it belongs to.
        self.own_vcpu().state.store(vcpu_state::ON, Release);
        self.add_status(offset_of!(StatusPage, generation));
        self.start_vcpu(plan.entry.0, plan.device_tree.0);
        let now = self.machine.counter_ticks();
        self.machine.store64(self.status_place(offset_of!(StatusPage, started_ticks)), now);
        if self.fault_ticks != 0 {
            let took = now.wrapping_sub(self.fault_ticks);
            self.machine.store64(self.status_place(offset_of!(StatusPage, restart_ticks)), took);
        }
        if self.suspended {
            self.suspend();
        } else {
            self.start_watchdog();
            self.publish_state(status::STATE_RUNNING, reason);
        }
    }

    fn start_vcpu(&mut self, entry: u64, context: u64) {
        #[cfg(feature = "shared")]
        self.begin_run();
        self.reset_private_interrupts(Stop(()));
        if self.is_shared() {
            self.take_floating_point();
        }
        self.machine.reset_guest(entry);
        self.head.frame = bulkhead_arch::GuestFrame::zero();
        self.head.frame.set_register(0, context);
        let fast = self.is_mapped() && !self.core.trace.enabled && !self.sees_every_interrupt();
        self.head.fast_table =
            if fast { self.fast_entries().as_ptr() as usize as u64 } else { EMPTY_FAST_TABLE.as_ptr() as usize as u64 };
        self.run = RunState::Running;
        // Its core may have been told of posts since its start became visible, and the reset forgot that.
        #[cfg(feature = "shared")]
        self.take_posts();
        self.set_phase(2);
        self.trace(TRACE_GUEST_START, self.plan.vcpu, entry, 0);
    }

    /// Where a word of the partition's status page is.
    pub(crate) const fn status_place(&self, offset: usize) -> PhysicalAddress {
        at(self.plan.status, offset as u64)
    }

    /// Reads the partition's published state.
    pub fn state(&self) -> u32 {
        self.machine.load32(self.status_place(offset_of!(StatusPage, state)))
    }

    /// Publishes a state: the one store that peers see.
    pub(crate) fn publish_state(&mut self, state: u32, reason: u32) {
        self.machine.store32(self.status_place(offset_of!(StatusPage, reason)), reason);
        self.machine.publish32(self.status_place(offset_of!(StatusPage, state)), state);
        self.trace(TRACE_STATE, state, u64::from(reason), 0);
    }

    pub(crate) fn add_status(&self, offset: usize) {
        let word = self.status_place(offset);
        self.machine.store32(word, self.machine.load32(word).wrapping_add(1));
    }
}
