//! Synchronous exits: why the guest stopped, as an exhaustive match.
//!
//! Every exception class that EL1 or EL0 can cause has an answer here, and none of them loops or panics: an answered call,
//! an emulated access, an UNDEFINED exception injected into the guest, or a fault for the health policy.

use crate::health::Fault;
use crate::state::Vcpu;
use bulkhead_abi::observe::{Counter, TRACE_EXIT};
use bulkhead_abi::status;
use bulkhead_arch::Machine;
use bulkhead_emulation::sysreg::{self, SystemAction};
use bulkhead_emulation::trap::{ExceptionClass, Syndrome, SystemAccess};

/// ESR_EL1 of an UNDEFINED exception: class 0, 32-bit instruction.
const UNDEFINED: u64 = 1 << 25;

impl<M: Machine> Vcpu<M> {
    /// Handles a synchronous exception from the guest.
    pub fn synchronous(&mut self, esr: u64) {
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
                self.skip_instruction();
                self.call();
            }
            ExceptionClass::SYSTEM_REGISTER => {
                self.count(Counter::Exits);
                self.system_register(syndrome.system_access());
            }
            ExceptionClass::INSTRUCTION_ABORT => {
                self.count(Counter::Exits);
                self.fault(Fault::with_guest_address(status::REASON_INSTRUCTION_ABORT, esr));
            }
            // Trapped on shared cores: WFI gives the core away. WFE (ISS.TI bit 0) is not trapped and harmless.
            ExceptionClass::WAIT => {
                self.count(Counter::Exits);
                self.skip_instruction();
                if esr & 1 == 0 {
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
                self.inject_undefined();
            }
        }
    }

    /// Handles a physical SError that arrived while the guest ran: contained to this partition.
    pub fn system_error(&mut self, esr: u64) {
        self.count(Counter::Exits);
        self.fault(Fault::new(status::REASON_SERROR, esr));
    }

    /// Handles a data abort, the exit of every emulated register.
    #[inline(always)]
    pub fn data_abort(&mut self, esr: u64) {
        self.count(Counter::Exits);
        if self.trace_enabled {
            let at = self.machine.guest_program_counter();
            self.write_trace(TRACE_EXIT, 0, esr, at);
        }
        self.access(Syndrome(esr));
    }

    fn skip_instruction(&self) {
        self.machine.set_guest_program_counter(self.machine.guest_program_counter().wrapping_add(4));
    }

    /// Makes the guest take an UNDEFINED exception at the trapped instruction.
    pub fn inject_undefined(&self) {
        self.count(Counter::UndefinedInjected);
        self.machine.inject_synchronous(UNDEFINED);
    }

    fn system_register(&mut self, access: SystemAccess) {
        self.count(Counter::SystemRegister);
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
        self.skip_instruction();
    }

    /// Sends a guest's SGI to those of its vCPUs that it names, by the physical SGI of the same number.
    fn send_guest_sgi(&mut self, value: u64) {
        self.count(Counter::SendSgi);
        let sgi = sysreg::sgi_targets(value, self.plan.vcpu, self.partition.vcpu_count);
        if sgi.refused != 0 {
            self.count(Counter::SgiOutside);
        }
        for vcpu in 0..self.partition.vcpu_count.min(8) {
            if sgi.vcpus & (1 << vcpu) != 0 {
                self.send_sgi_to_vcpu(vcpu, sgi.intid);
            }
        }
    }

    /// Sends a physical SGI to the core of one of the partition's own vCPUs.
    pub fn send_sgi_to_vcpu(&mut self, vcpu: u32, intid: u32) {
        if self.is_shared() && vcpu == self.plan.vcpu {
            return self.make_pending(intid);
        }
        if let Some(mpidr) = self.partition.vcpu_mpidr.get(vcpu as usize) {
            self.send_physical_sgi(*mpidr, intid);
        }
    }

    /// Sends a physical SGI to a core (ICC_SGI1R_EL1: Aff3 55:48, Aff2 39:32, INTID 27:24, Aff1 23:16, target list).
    pub fn send_physical_sgi(&self, mpidr: u64, intid: u32) {
        let aff0 = mpidr & 0xff;
        let value = ((mpidr >> 32) & 0xff) << 48
            | ((mpidr >> 16) & 0xff) << 32
            | u64::from(intid & 0xf) << 24
            | ((mpidr >> 8) & 0xff) << 16
            | ((aff0 >> 4) & 0xf) << 44
            | 1u64 << (aff0 & 0xf);
        self.machine.send_sgi(value);
    }
}
