//! Synchronous exits: why the guest stopped, as an exhaustive match.
//!
//! Every exception class that EL1 or EL0 can cause has an answer here, and none of them loops or panics: an answered call,
//! an emulated access, an UNDEFINED exception injected into the guest, or a fault for the health policy.

mod access;
pub mod call;

use crate::life::health::Fault;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::observe::{Counter, TRACE_EXIT};
use bulkhead_abi::status;
use bulkhead_arch::Machine;
use bulkhead_arm::gic;
use bulkhead_arm::{Affinity, Intid, SgiRequest};
use bulkhead_emulation::sysreg::{self, SystemAction};
use bulkhead_emulation::trap::{ExceptionClass, STATE_AARCH32, Syndrome, state_after_instruction};
use bulkhead_sched::Members;

/// ESR_EL1 of an UNDEFINED exception: class 0, for which IL is set whatever the instruction's length.
const UNDEFINED: u64 = 1 << 25;

impl<M: Machine> Vcpu<M> {
    /// Handles a synchronous exception from the guest, as the vectors send it on.
    #[cfg(test)]
    pub(crate) fn synchronous(&mut self, esr: u64) {
        if Syndrome(esr).exception_class() == ExceptionClass::DATA_ABORT {
            self.data_abort(esr);
        } else {
            self.other_exception(esr);
        }
    }

    /// Handles every exception class but data aborts, which the vectors send to [`Self::data_abort`] at once.
    pub fn other_exception(&mut self, esr: u64) {
        let syndrome = Syndrome(esr);
        let class = syndrome.exception_class();
        if !matches!(class, ExceptionClass::HVC64 | ExceptionClass::SMC64) {
            let at = self.machine.guest_program_counter();
            self.trace(TRACE_EXIT, 0, esr, at);
        }
        match class {
            ExceptionClass::HVC64 => self.call(),
            ExceptionClass::SMC64 => {
                self.skip_instruction(syndrome);
                self.call();
            }
            ExceptionClass::SYSTEM_REGISTER => {
                self.count(Counter::Exits);
                self.system_register(syndrome);
            }
            ExceptionClass::INSTRUCTION_ABORT => {
                self.count(Counter::Exits);
                self.fault(Fault::with_guest_address(status::REASON_INSTRUCTION_ABORT, esr));
            }
            // Trapped on shared cores: WFI gives the core away. WFE (ISS.TI bit 0) is not trapped and harmless.
            ExceptionClass::WAIT => {
                self.count(Counter::Exits);
                let executes = self.skip_instruction(syndrome);
                if esr & 1 == 0 && executes {
                    self.count(Counter::WaitForInterrupt);
                    self.wait_for_interrupt();
                }
            }
            ExceptionClass::FLOATING_POINT if self.is_shared() => {
                self.count(Counter::Exits);
                self.take_floating_point();
            }
            // AArch32 programs at EL0, trace registers, SVE, pointer authentication and whatever comes later: the guest's own
            // kernel is told that there is no such thing.
            _ => {
                self.count(Counter::Exits);
                if syndrome.condition_holds(self.machine.guest_state()) {
                    self.inject_undefined();
                } else {
                    self.skip_instruction(syndrome);
                }
            }
        }
    }

    /// Handles a physical SError that arrived while the guest ran: contained to this partition.
    pub fn system_error(&mut self, esr: u64) {
        self.count(Counter::Exits);
        self.fault(Fault::new(status::REASON_SERROR, esr));
    }

    /// Handles a data abort, the exit of every emulated register.
    // One caller, the handler: the first steps of the path that `call.gicd_read` measures.
    #[inline(always)]
    pub fn data_abort(&mut self, esr: u64) {
        self.count(Counter::Exits);
        if self.core.trace.enabled {
            let at = self.machine.guest_program_counter();
            self.write_trace(TRACE_EXIT, 0, esr, at);
        }
        self.access(Syndrome(esr));
    }

    /// Lets the guest continue after the instruction that trapped; returns whether the instruction was to be executed.
    // A few instructions at the end of each emulated access.
    #[inline(always)]
    pub(crate) fn skip_instruction(&self, syndrome: Syndrome) -> bool {
        let state = self.machine.guest_state();
        if state & STATE_AARCH32 != 0 {
            return self.skip_aarch32(syndrome, state);
        }
        self.machine.set_guest_program_counter(self.machine.guest_program_counter().wrapping_add(4));
        true
    }

    // Programs of 32 bits at EL0 that trap are rare: their way is apart from everybody's. `cold` is enough for that
    // today; the other attribute changes nothing beside it.
    #[cold]
    #[inline(never)]
    fn skip_aarch32(&self, syndrome: Syndrome, state: u64) -> bool {
        let next = self.machine.guest_program_counter().wrapping_add(syndrome.instruction_bytes());
        self.machine.set_guest_program_counter(next);
        self.machine.set_guest_state(state_after_instruction(state));
        syndrome.condition_holds(state)
    }

    /// Makes the guest take an UNDEFINED exception at the trapped instruction.
    pub fn inject_undefined(&self) {
        self.count(Counter::UndefinedInjected);
        self.machine.inject_synchronous(UNDEFINED);
    }

    fn system_register(&mut self, syndrome: Syndrome) {
        self.count(Counter::SystemRegister);
        if self.interface_accessed(syndrome) {
            self.skip_instruction(syndrome);
            return;
        }
        let access = syndrome.system_access();
        match sysreg::classify(access) {
            SystemAction::SendSgi1 => self.send_guest_sgi(self.head.frame.register(access.register)),
            SystemAction::Read(value) => self.head.frame.set_register(access.register, value),
            SystemAction::IgnoreWrite => {}
            SystemAction::SetWay => self.count(Counter::SetWay),
            SystemAction::Undefined => {
                self.inject_undefined();
                return;
            }
        }
        self.skip_instruction(syndrome);
    }

    /// Sends a guest's SGI to those of its vCPUs that it names: to another one by the physical SGI of the same number.
    fn send_guest_sgi(&mut self, value: u64) {
        self.count(Counter::SendSgi);
        let sgi = sysreg::sgi_targets(value, self.plan.vcpu, self.partition.vcpu_count);
        #[cfg(feature = "hybrid")]
        let sgi = self.below_el3(sgi);
        if sgi.refused != 0 {
            self.count(Counter::SgiOutside);
        }
        for vcpu in Members(u64::from(sgi.vcpus)).map(u32::from) {
            if vcpu == self.plan.vcpu && self.delivers_to_itself(sgi.intid) {
                self.make_pending(sgi.intid);
            } else {
                #[cfg(feature = "shared")]
                if self.posts_to(vcpu, sgi.intid) {
                    continue;
                }
                self.send_sgi_to_vcpu(vcpu, sgi.intid);
            }
        }
    }

    /// States whether an SGI of the guest to its own vCPU goes straight to a list register (only `mapped` guests send any through
    /// here). On a core of its own one that is disabled does not: it is to be pending in the redistributor, where the guest
    /// sees it and can take it back.
    fn delivers_to_itself(&self, intid: u32) -> bool {
        let enabled = at(self.plan.gicr, gic::SGI_FRAME | gic::ISENABLER);
        self.is_shared() || self.machine.load32(enabled) & Intid(intid).bit() != 0
    }

    /// Sends a physical SGI to the core of one of the partition's own vCPUs.
    pub fn send_sgi_to_vcpu(&self, vcpu: u32, intid: u32) {
        #[cfg(feature = "shared")]
        let intid = self.call_of(vcpu, intid);
        if let Some(mpidr) = self.partition.vcpu_mpidr.get(vcpu as usize) {
            self.send_physical_sgi(*mpidr, intid);
        }
    }

    /// Sends a physical SGI to a core.
    pub fn send_physical_sgi(&self, mpidr: u64, intid: u32) {
        if self.kicks(mpidr, intid) {
            return;
        }
        self.machine.send_sgi(SgiRequest::to_core(Affinity::of_mpidr(mpidr), Intid(intid)).0);
    }
}
