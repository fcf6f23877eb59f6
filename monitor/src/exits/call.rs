//! Calls: PSCI, SMCCC and Bulkhead's own, by HVC or SMC. Everything not listed is "not supported".

use crate::observe::at;
use crate::state::{Vcpu, report, vcpu_state};
use bulkhead_abi::ABI_VERSION;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{
    CALL_DOORBELL, CALL_HEARTBEAT, CALL_VERSION, DENIED, INVALID_PARAMETERS, LIMITED, NOT_SUPPORTED, SUCCESS,
};
use bulkhead_abi::observe::{Counter, TRACE_CALL, TRACE_DOORBELL};
use bulkhead_abi::status::{MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND, REASON_REQUESTED, StatusPage};
use bulkhead_arch::Machine;
use bulkhead_arm::psci::{AffinityState, Error, Function, VERSION_1_1};
use bulkhead_arm::smccc;
use bulkhead_emulation::pci::ManagementPort;
use bulkhead_emulation::psci::{self, Call};
use bulkhead_sched::limiter::{self, Verdict};
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use zerocopy::IntoBytes;

impl<M: Machine> Vcpu<M> {
    /// Answers the call in the guest's x0 to x3.
    pub fn call(&mut self) {
        let [function, x1, ..] = self.head.frame.x;
        self.trace(TRACE_CALL, 0, function, x1);
        // The calls of a running control loop first: their cost is asserted.
        let answer = match u64::from(function as u32) {
            CALL_VERSION => u64::from(ABI_VERSION),
            CALL_DOORBELL => self.ring_doorbell(x1),
            CALL_HEARTBEAT => {
                self.heartbeat();
                SUCCESS
            }
            _ => return self.other_call(),
        };
        self.count(Counter::Hypercall);
        self.head.frame.set_register(0, answer);
    }

    /// Calls that change states or only happen at start: PSCI, SMCCC, management. A parked vCPU keeps its frame, and a left
    /// one gets a new one at its next start, so `x0` is written only while the guest still runs.
    // Some 460 instructions that the shortest calls do not need, nor the registers that they use.
    #[inline(never)]
    fn other_call(&mut self) {
        let [function, x1, x2, x3, ..] = self.head.frame.x;
        // Others are compared by it, so its cost is asserted too; it needs none of the decoding.
        if u64::from(function as u32) == Function::Version.id() {
            self.count(Counter::Psci);
            return self.head.frame.set_register(0, VERSION_1_1);
        }
        let call = psci::decode(self.power_of_manager(), function, x1, x2, x3);
        #[cfg(feature = "shared")]
        let call = self.stolen_time_call(function, x1).map_or(call, Call::Answer);
        if smccc::is_hypervisor_service(function as u32) {
            self.count(Counter::Hypercall);
        } else {
            self.count(Counter::Psci);
        }
        let answer = match call {
            Call::Answer(value) => value,
            Call::Features(function) => psci::features(function),
            Call::First | Call::NotSupported => self.deny(NOT_SUPPORTED),
            Call::Denied => self.deny(DENIED),
            Call::PartitionStatus(target) => self.partition_status(target),
            Call::Manage(power, request, target) => self.manage(power, target, request),
            Call::CpuOn { target, entry, context } => self.cpu_on(target, entry, context),
            Call::AffinityInfo(target) => self.affinity_info(target),
            Call::CpuOff => {
                self.return_shared_interrupts();
                return self.leave(report::NONE);
            }
            Call::SystemOff => return self.leave(report::SYSTEM_OFF),
            Call::SystemReset => return self.leave(REASON_REQUESTED),
        };
        self.head.frame.set_register(0, answer);
    }

    pub(crate) fn deny(&self, answer: u64) -> u64 {
        self.count(Counter::DeniedCall);
        answer
    }

    /// Rings a doorbell: the limiter decides, then the receiver's spare interrupt becomes pending (CH-30, CH-31, CH-35).
    pub fn ring_doorbell(&mut self, index: u64) -> u64 {
        let count = u64::from(self.partition.doorbell_count);
        let entry =
            usize::try_from(index).ok().filter(|_| index < count).and_then(|at| self.partition.doorbells.get(at));
        let Some(doorbell) = entry else { return self.deny(INVALID_PARAMETERS) };
        let passed = doorbell.period_ticks == 0 || {
            let word = self.machine.atomic(doorbell.words);
            let now = self.machine.counter_ticks();
            limiter::try_pass(word, now, doorbell.period_ticks, doorbell.events) == Verdict::Send
        };
        self.trace(TRACE_DOORBELL, doorbell.channel, u64::from(passed), 0);
        if passed {
            // What the guest wrote for the receiver comes before the interrupt, whether the guest has a barrier or not.
            self.machine.barrier();
            self.pend_spare(doorbell.intid, true);
            self.count(Counter::DoorbellSent);
            SUCCESS
        } else {
            self.count(Counter::DoorbellLimited);
            LIMITED
        }
    }

    /// PSCI CPU_ON: one caller wins; the target's core resets the vCPU itself. Where the partition is to stand, the
    /// core does so when the partition resumes; the caller will stand in a moment too, and is not told.
    fn cpu_on(&mut self, target: u64, entry: u64, context: u64) -> u64 {
        let Some(vcpu) = psci::vcpu_of(target, self.partition.vcpu_count) else { return self.deny(INVALID_PARAMETERS) };
        let Some(words) = self.shared.vcpus.get(vcpu as usize) else { return self.deny(INVALID_PARAMETERS) };
        if !self.is_own_ram(entry) {
            return self.deny(Error::InvalidAddress.answer());
        }
        // Acquire, for the Release with which the vCPU went off: its core has read the former entry point by then. When
        // the claim fails nothing is read by it.
        let claim = |off| words.state.compare_exchange(off, off | vcpu_state::CLAIMED, Acquire, Relaxed);
        match claim(vcpu_state::OFF).or_else(|_| claim(vcpu_state::STAND)) {
            Ok(_) => {
                #[cfg(feature = "shared")]
                self.begin_posts(words);
                // Relaxed: the Release of `POSTED` puts both before it, and the target's core takes that with Acquire.
                words.entry.store(entry, Relaxed);
                words.context.store(context, Relaxed);
                words.state.fetch_or(vcpu_state::POSTED, Release);
                self.send_sgi_to_vcpu(vcpu, crate::interrupts::MONITOR_SGI);
                SUCCESS
            }
            Err(state) if state & vcpu_state::CLAIMED != 0 => Error::OnPending.answer(),
            Err(_) => Error::AlreadyOn.answer(),
        }
    }

    fn is_own_ram(&self, guest: u64) -> bool {
        let regions = self.partition.ram().iter();
        regions.into_iter().any(|region| guest.wrapping_sub(region.guest.0) < region.bytes)
    }

    fn affinity_info(&self, target: u64) -> u64 {
        let words =
            psci::vcpu_of(target, self.partition.vcpu_count).and_then(|vcpu| self.shared.vcpus.get(vcpu as usize));
        // Acquire, for the Release in `leave`: a caller that is told that a vCPU is off may use its memory again, so
        // what it wrote last comes first.
        match words.map(|words| words.state.load(Acquire)) {
            None => self.deny(INVALID_PARAMETERS),
            Some(state) if state & vcpu_state::ON != 0 => AffinityState::On.answer(),
            Some(state) if state & vcpu_state::CLAIMED != 0 => AffinityState::OnPending.answer(),
            Some(_) => AffinityState::Off.answer(),
        }
    }

    /// Returns the status page of a partition that this one may read.
    pub(crate) fn readable_status(&self, target: u64) -> Option<PhysicalAddress> {
        let own = target == u64::from(self.partition.index);
        let page = usize::try_from(target).ok().and_then(|at| self.partition.status.get(at)).copied();
        match page {
            _ if own => Some(self.plan.status),
            Some(page) if page.0 != 0 && self.power_of_manager().is_some() => Some(page),
            _ => None,
        }
    }

    pub(crate) fn readable_word(&self, target: u64, offset: usize) -> Option<u32> {
        self.readable_status(target).map(|page| self.machine.load32(at(page, offset as u64)))
    }

    fn partition_status(&mut self, target: u64) -> u64 {
        let word = |offset| self.readable_word(target, offset).map(u64::from);
        let (Some(state), Some(reason), Some(generation)) = (
            word(offset_of!(StatusPage, state)),
            word(offset_of!(StatusPage, reason)),
            word(offset_of!(StatusPage, generation)),
        ) else {
            return self.deny(DENIED);
        };
        self.head.frame.set_register(1, state);
        self.head.frame.set_register(2, reason);
        self.head.frame.set_register(3, generation);
        SUCCESS
    }
}

/// The management PCI function's view of the system, for the vCPU that makes the access.
impl<M: Machine> ManagementPort for Vcpu<M> {
    fn partition_count(&self) -> u32 {
        let known = self.partition.status.iter().filter(|page| page.0 != 0);
        // `count` could overflow, for all that the compiler knows, and a panic is an address.
        known.fold(0u32, |count, _| count.wrapping_add(1)).max(1)
    }
    fn own_index(&self) -> u32 {
        self.partition.index
    }
    fn status_word(&self, partition: u32, offset: usize) -> u32 {
        self.readable_word(u64::from(partition), offset).unwrap_or(0)
    }
    fn port_word(&self, function: u32, word: u32) -> u32 {
        let port = self.partition.ports.get(function as usize);
        let chunk = port.and_then(|port| port.as_bytes().chunks_exact(4).nth(word as usize));
        chunk.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }
    fn command(&self, partition: u32, command: u32) -> u64 {
        match command {
            MANAGE_SUSPEND | MANAGE_RESUME | MANAGE_RESTART => match self.power_of_manager() {
                Some(power) => self.manage(power, u64::from(partition), command),
                None => self.deny(DENIED),
            },
            _ => INVALID_PARAMETERS,
        }
    }
}
