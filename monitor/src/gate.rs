//! Cores below a payload (part `hybrid`): EL3 brings a core to its EL2 whatever its guest masks, so a `direct` guest need not be trusted
//! (QV-5, QV-16, CF-9; `docs/specification/secure-world.md`, part 11; design record 0033).
//!
//! What one core asks of another lies in words, as in the other parts; a kick only makes the other core look at them, and may come twice, late
//! or for nothing. While EL2 itself runs, EL3 tries again, by the timer that watches have too: a watch takes the place of a kick that is tried again. So
//! a watch for a date is asked for in one place alone, [`Vcpu::kicked`], before everything that a kick can be for is looked at; who has a new date
//! asks to be kicked at once. Rejected: EL3 that keeps the earlier of two dates, so that a core that waits at EL2 would be woken every 10 us.
//!
//! Every door of this room that others use is in `no_gate.rs` too, where it does nothing; what is no question is left out of the other parts
//! where it stands.

mod again;
mod input;

use crate::interrupts::{MONITOR_SGI, OWN_INTERRUPTS};
use crate::observe::at;
use crate::state::{RunState, Vcpu};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::plan::FLAG_FILTERED;
use bulkhead_abi::status;
use bulkhead_arch::Machine;
use bulkhead_arm::{Affinity, Intid, gic};
use bulkhead_emulation::sysreg::{self, SgiTargets};
use bulkhead_emulation::trap::{Syndrome, SystemAccess, encoding};
use bulkhead_sched::Members;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Acquire;

/// ICC_PMR_EL1.
const PRIORITY_MASK: u32 = encoding(3, 0, 4, 6, 0);
/// ICC_DIR_EL1.
const DEACTIVATE: u32 = encoding(3, 0, 12, 11, 1);
/// ICC_RPR_EL1.
const RUNNING_PRIORITY: u32 = encoding(3, 0, 12, 11, 3);
/// ICC_SGI1R_EL1.
const SEND_SGI: u32 = encoding(3, 0, 12, 11, 5);
/// ICC_CTLR_EL1.
const CONTROL: u32 = encoding(3, 0, 12, 12, 4);
/// The SGI with which EL3 brings a core to its EL2, in group 0.
const SGI_OF_KICKS: Intid = Intid(8);
/// The one with which EL3 tells the payload of other cores, on its core.
const SGI_OF_PAYLOAD: Intid = Intid(9);
/// GICR_ICFGR1: all of them level-sensitive.
const PRIVATE_TRIGGERS: u64 = gic::ICFGR + 4;
/// The affinity of the core on which the machine starts, which the payload has.
const OF_PAYLOAD: u64 = 0;

impl<M: Machine> Vcpu<M> {
    /// Sends a request of the monitor as a kick. False for every other interrupt, and for the payload's core, which nobody kicks: its SGI 15
    /// is open.
    pub(crate) fn kicks(&self, mpidr: u64, intid: u32) -> bool {
        intid == MONITOR_SGI && self.machine.kick(mpidr)
    }

    /// Looks at everything that a kick can be for. Returns whether the guest runs.
    pub(crate) fn kicked(&mut self) -> bool {
        let (now, due) = (self.machine.counter_ticks(), self.heartbeat_due());
        // While no guest runs, the longest one ends EL3's attempts to bring this core here.
        if due != u64::MAX || self.run != RunState::Running {
            self.watch(due.saturating_sub(now));
        }
        if now >= due {
            self.timer_expired();
        }
        self.serve_requests();
        self.take_handed_input();
        self.run == RunState::Running
    }

    /// When a `direct` guest must have shown a sign of life; `u64::MAX` when nobody waits for one.
    fn heartbeat_due(&self) -> u64 {
        let period = self.partition.health.watchdog_ticks;
        if self.is_mapped() || !self.is_lead() || period == 0 || self.state() != status::STATE_RUNNING {
            return u64::MAX;
        }
        // As in `timer_expired`: no need for the Acquire is known.
        self.shared.heartbeat_ticks.load(Acquire).wrapping_add(period)
    }

    /// A `direct` guest would get the timer's interrupt: EL3 kicks the core at once, which then asks for the date. False for other guests.
    pub(crate) fn watches(&self) -> bool {
        if !self.is_mapped() {
            self.watch(0);
        }
        !self.is_mapped()
    }

    /// On the payload's core EL3's timer is the payload's.
    fn watch(&self, ticks: u64) {
        if !self.has_payload() {
            self.machine.watch(ticks);
        }
    }

    fn has_payload(&self) -> bool {
        is_payloads(self.plan.mpidr)
    }

    /// The monitor's own interrupts on a `mapped` core. Where it is kicked nobody sends SGI 15, which is closed there (QV-16).
    pub(crate) fn own_interrupts(&self) -> u32 {
        if self.has_payload() { OWN_INTERRUPTS } else { OWN_INTERRUPTS & !Intid(MONITOR_SGI).bit() }
    }

    /// The plan closes SGIs on cores that need none, and everywhere that of EL3's kicks: a guest that has one does not get it.
    pub(crate) const fn may_be_kept(&self, intid: u32) -> bool {
        Intid(intid).is_software_generated()
    }

    /// A guest that comes to EL2 all the time by itself, by calls or accesses, would be there whenever EL3 tries to bring it: each attempt
    /// finds EL2 and is put off. So every exit of a `direct` guest ends with the look that a kick is for.
    /// The look may start the guest again, so calls save the whole frame in this part (`vectors.s`).
    pub fn looks_at_each_exit(&self) -> bool {
        !self.is_mapped()
    }

    /// What the run before left in the registers that a `direct` guest has itself and that others do not reset: triggers of its private
    /// interrupts, and the split of priorities. Makes EL2 see which SGIs a filtered one sends.
    pub(crate) fn reset_interface(&self) {
        if !self.is_mapped() {
            self.machine.store32(at(self.plan.gicr, gic::SGI_FRAME | PRIVATE_TRIGGERS), 0);
            self.machine.reset_interface(self.is_filtered());
        }
    }

    fn is_filtered(&self) -> bool {
        !self.is_mapped() && self.partition.flags & FLAG_FILTERED != 0
    }

    /// Does what a filtered guest wants of its CPU interface, unless others would feel it; false when the access is another one. Its
    /// SGIs go to its own vCPUs, and it deactivates its own interrupts alone.
    pub(crate) fn interface_accessed(&mut self, syndrome: Syndrome) -> bool {
        let SystemAccess { encoding, register, read } = syndrome.system_access();
        if !self.is_filtered() {
            return false;
        }
        let value = self.head.frame.register(register);
        let found = match (encoding, read) {
            (PRIORITY_MASK, true) => u64::from(self.machine.priority_mask()),
            (RUNNING_PRIORITY, true) => self.machine.running_priority(),
            (CONTROL, true) => self.machine.interface_control(),
            (PRIORITY_MASK, false) => return self.then(|this| this.machine.set_priority_mask(value as u8)),
            (CONTROL, false) => return self.then(|this| this.machine.set_interface_control(value)),
            (SEND_SGI, false) => return self.then(|this| this.send_filtered(value)),
            (DEACTIVATE, false) => return self.then(|this| this.deactivate_own(value as u32 & 0xff_ffff)),
            _ => return false,
        };
        self.head.frame.set_register(register, found);
        true
    }

    fn then(&self, effect: impl FnOnce(&Self)) -> bool {
        effect(self);
        true
    }

    /// A guest sends nothing that is EL3's, or the payload's to its core: there would be no effect, and nobody would be told.
    pub(crate) fn below_el3(&self, sgi: SgiTargets) -> SgiTargets {
        let unheard = match Intid(sgi.intid) {
            SGI_OF_KICKS => sgi.vcpus,
            SGI_OF_PAYLOAD => sgi.vcpus & self.on_payloads_core(),
            _ => 0,
        };
        let refused = sgi.refused.wrapping_add(unheard.count_ones());
        SgiTargets { vcpus: sgi.vcpus & !unheard, refused, ..sgi }
    }

    /// The vCPUs of the partition on the payload's core, a bit for each.
    fn on_payloads_core(&self) -> u32 {
        let is_there = |(vcpu, mpidr): (u32, &u64)| if is_payloads(*mpidr) { Intid(vcpu).bit() } else { 0 };
        (0..).zip(&self.partition.vcpu_mpidr).map(is_there).fold(0, |bits, bit| bits | bit)
    }

    fn send_filtered(&self, value: u64) {
        self.count(Counter::SendSgi);
        let sgi = self.below_el3(sysreg::sgi_targets(value, self.plan.vcpu, self.partition.vcpu_count));
        if sgi.refused != 0 {
            self.count(Counter::SgiOutside);
        }
        for vcpu in Members(u64::from(sgi.vcpus)).map(u32::from) {
            self.send_sgi_to_vcpu(vcpu, sgi.intid);
        }
    }

    fn deactivate_own(&self, intid: u32) {
        if Intid(intid).is_private() || self.owned.owns(intid) {
            self.machine.deactivate(intid);
        }
    }
}

const fn is_payloads(mpidr: u64) -> bool {
    mpidr & Affinity::FIELDS == OF_PAYLOAD
}
