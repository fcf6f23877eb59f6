//! Private interrupts of a shared core: its redistributor serves several guests, so what they set there is kept for each guest.

use super::decide::GUEST_TIMERS;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::PhysicalAddress;
use bulkhead_arch::Machine;
use bulkhead_arm::gic::{self, SGI_FRAME};
use bulkhead_sched::Members;
use core::cell::Cell;

/// Software-generated interrupts of guests; the last one is the monitor's.
const SOFTWARE_INTERRUPTS: u32 = 0x7fff;

/// What a guest on a shared core has set for its private interrupts.
#[derive(Debug)]
pub struct PrivateInterrupts {
    /// GICR_ISENABLER0. The redistributor has what the loaded vCPU needs of it.
    pub enabled: Cell<u32>,
    /// Software-generated interrupts that the guest has raised by writing to the redistributor.
    pub raised: Cell<u32>,
}

impl PrivateInterrupts {
    /// As after a reset.
    pub(crate) const fn new() -> Self {
        Self { enabled: Cell::new(0), raised: Cell::new(0) }
    }
}

impl<M: Machine> Vcpu<M> {
    /// After a guest's write to the redistributor of a shared core: acts on what the filter kept.
    pub(crate) fn private_interrupts_changed(&mut self) {
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        scheduler.private_enabled = self.private.enabled.get() & GUEST_TIMERS;
        let raised = self.private.raised.take();
        for intid in Members(u64::from(raised & SOFTWARE_INTERRUPTS)).map(u32::from) {
            self.make_pending(intid);
        }
        // One that waited because it was disabled may be deliverable now.
        self.refill_list_registers();
    }

    /// On a shared core software-generated interrupts never pass the redistributor, so a disabled one waits here.
    pub(crate) fn hold_disabled(&mut self, intid: u32) -> bool {
        let hold = self.is_shared() && self.private.enabled.get() & (1 << intid) == 0;
        if hold {
            self.set_waiting(intid, true);
        }
        hold
    }

    /// On a shared core: only what is the loaded vCPU's.
    pub(crate) fn reset_own_timers(&mut self, frame: PhysicalAddress) {
        for register in [gic::ICENABLER, gic::ICPENDR, gic::ICACTIVER] {
            self.machine.store32(at(frame, register), GUEST_TIMERS);
        }
        self.private.enabled.set(0);
        if let Some(scheduler) = self.core.scheduler.as_deref_mut() {
            scheduler.private_enabled = 0;
            if let Some(slot) = scheduler.own() {
                slot.restart();
            }
        }
        self.waiting = Default::default();
        self.machine.reset_virtual_interface(true);
    }

    /// Private interrupts that may be delivered: on a shared core, software-generated ones that are disabled wait here.
    pub(crate) fn deliverable_private(&self) -> u64 {
        if self.is_shared() { u64::from(self.private.enabled.get() | !0xffff) | !0xffff_ffff } else { u64::MAX }
    }

    /// States whether a frame of the interrupt controller is one that the guests of this core have in common.
    fn is_kept(&self, frame: PhysicalAddress) -> bool {
        self.is_shared() && frame == self.plan.gicr
    }

    /// What a guest reads of its private interrupts; `None` when it is in the frame.
    pub(crate) fn kept_private(&self, frame: PhysicalAddress, offset: u64) -> Option<u32> {
        let register = offset.checked_sub(SGI_FRAME).filter(|_| self.is_kept(frame))?;
        // ISENABLER or ICENABLER, in fewer instructions (`call.gicr_isenabler_shared`).
        if register & !gic::BIT_REGISTER_BYTES == gic::ISENABLER {
            return Some(self.private.enabled.get());
        }
        // Software-generated interrupts are pending in this monitor and not in the redistributor.
        let software = self.waiting.first().map_or(0, Cell::get) as u32 & 0xffff;
        let is_pending = (gic::ISPENDR..gic::ISACTIVER).contains(&register);
        is_pending.then(|| self.machine.load32(at(frame, offset)) & !0xffff | software)
    }

    /// Keeps what a write changes of the guest's own state; returns the bits that go to the redistributor.
    pub(crate) fn keep_private(&self, frame: PhysicalAddress, offset: u64, value: u32) -> u32 {
        if !self.is_kept(frame) {
            return value;
        }
        let enabled = self.private.enabled.get();
        match offset.checked_sub(SGI_FRAME) {
            Some(gic::ISENABLER) => self.private.enabled.set(enabled | value),
            Some(gic::ICENABLER) => self.private.enabled.set(enabled & !value),
            Some(gic::ISPENDR) => self.private.raised.set(self.private.raised.get() | value & SOFTWARE_INTERRUPTS),
            _ => {}
        }
        // Pending and active bits that a guest set would stay for the next guest of the core.
        if matches!(offset & 0xffff, gic::ISPENDR..gic::ICPENDR | gic::ISACTIVER..gic::ICACTIVER) {
            0
        } else {
            value & GUEST_TIMERS
        }
    }
}
