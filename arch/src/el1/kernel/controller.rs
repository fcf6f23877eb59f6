//! The GICv3 with an end of interrupt in two steps: the priority is dropped at once, and the interrupt stays active, so the controller masks it, until
//! it is deactivated (IHI 0069, 4.1.1 and ICC_CTLR_EL1.EOImode).

use super::HALF;
use crate::el1::{cpu, mmio};
use bulkhead_arm::{Intid, gic};
use bulkhead_guest_abi::guest::{GUEST_GICD, GUEST_GICR, GuestInformation};
use core::arch::asm;

/// Priority of every interrupt: which one comes first is the servers' affair.
const PRIORITY: u8 = 0xa0;
/// Most looks at a register that shows when the controller is ready; it takes a few cycles (IHI 0069 gives no bound).
const MOST_LOOKS: u32 = 100_000;

/// Distributor and this core's redistributor.
pub struct Controller {
    distributor: u64,
    redistributor: u64,
}

impl Controller {
    /// Starts the core's interface and, on the board, what a monitor has done for a partition.
    #[must_use]
    pub fn start(information: Option<&GuestInformation>) -> Self {
        let (distributor, redistributor) = information.map_or((GUEST_GICD, GUEST_GICR), |page| (page.gicd, page.gicr));
        let controller = Self { distributor: HALF | distributor.0, redistributor: HALF | redistributor.0 };
        if information.is_none() {
            controller.start_board();
        }
        start_interface();
        controller
    }

    /// What the kernel does on core 0 of the bare board: its redistributor is the first.
    fn start_board(&self) {
        let (control, waker) = (self.at_distributor(gic::GICD_CTLR), self.at_redistributor(gic::GICR_WAKER));
        // SAFETY: registers of the controller, which the kernel's tables map and the kernel alone uses; interrupts are masked.
        unsafe {
            let on = gic::GICD_CTLR_AFFINITY_ROUTING | gic::GICD_CTLR_GROUP_1;
            mmio::write32(control, mmio::read32(control) | on);
            wait_until(|| mmio::read32(control) & gic::GICD_CTLR_WRITE_PENDING == 0);
            mmio::write32(waker, mmio::read32(waker) & !gic::GICR_WAKER_PROCESSOR_SLEEP);
            wait_until(|| mmio::read32(waker) & gic::GICR_WAKER_CHILDREN_ASLEEP == 0);
            mmio::write32(self.at_private(gic::IGROUPR), u32::MAX);
        }
    }

    /// Enables an interrupt for this core.
    pub fn enable(&self, intid: Intid) {
        let frame = if intid.is_private() { self.at_private(0) } else { self.distributor };
        // SAFETY: registers of the controller, which the kernel's tables map and the kernel alone uses; interrupts are masked. A partition's controller
        // ignores what is not the partition's.
        unsafe {
            mmio::write8(frame.wrapping_add(gic::priority_byte(intid)), PRIORITY);
            if !intid.is_private() {
                let group = frame.wrapping_add(gic::bit_word(gic::IGROUPR, intid));
                mmio::write32(group, mmio::read32(group) | intid.bit());
                mmio::write64(frame.wrapping_add(gic::route(intid)), cpu::affinity());
            }
            mmio::write32(frame.wrapping_add(gic::bit_word(gic::ISENABLER, intid)), intid.bit());
        }
    }

    /// Says how a device signals its interrupt. Those of the core itself are as they are (IHI 0069, GICR_ICFGR1: an implementation may fix them).
    pub fn set_edge(&self, intid: Intid, edge: bool) {
        if intid.is_private() {
            return;
        }
        let register = self.distributor.wrapping_add(gic::configuration_word(intid));
        let bit = gic::configuration_edge(intid);
        // SAFETY: a register of the controller, as for `enable`; the interrupt is not enabled yet.
        unsafe {
            let word = mmio::read32(register);
            mmio::write32(register, if edge { word | bit } else { word & !bit });
        }
    }

    /// Disables an interrupt; it stays pending.
    pub fn disable(&self, intid: Intid) {
        let frame = if intid.is_private() { self.at_private(0) } else { self.distributor };
        // SAFETY: a register of the controller, as for `enable`; writing one bit disables one interrupt.
        unsafe { mmio::write32(frame.wrapping_add(gic::bit_word(gic::ICENABLER, intid)), intid.bit()) };
    }

    /// Deactivates an interrupt whose priority was dropped: it can be signalled again.
    pub fn deactivate(&self, intid: Intid) {
        // ISB: it is in force before the thread goes on that asked for it.
        // SAFETY: changes the state of one interrupt of this core.
        unsafe { asm!("msr ICC_DIR_EL1, {}", "isb", in(reg) u64::from(intid.0), options(nostack, preserves_flags)) };
    }

    const fn at_distributor(&self, register: u64) -> u64 {
        self.distributor.wrapping_add(register)
    }

    const fn at_redistributor(&self, register: u64) -> u64 {
        self.redistributor.wrapping_add(register)
    }

    const fn at_private(&self, register: u64) -> u64 {
        self.redistributor.wrapping_add(gic::SGI_FRAME).wrapping_add(register)
    }
}

/// Looks until it is so, or for [`MOST_LOOKS`] times: then the board is broken, and no interrupt will come.
fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..MOST_LOOKS {
        if is_so() {
            return;
        }
        cpu::yield_now();
    }
}

/// No priority is filtered, there are no pre-emption groups, the end of an interrupt drops its priority alone, group 1 is on.
fn start_interface() {
    // Without SRE, in force by the first ISB, the other registers cannot be accessed. Signalling is switched on last.
    // SAFETY: registers of this core's interface alone; no interrupt is taken before EL0 runs.
    unsafe {
        asm!(
            "mrs {scratch}, ICC_SRE_EL1",
            "orr {scratch}, {scratch}, #1",
            "msr ICC_SRE_EL1, {scratch}",
            "isb",
            "mov {scratch}, #0xff",
            "msr ICC_PMR_EL1, {scratch}",
            "msr ICC_BPR1_EL1, xzr",
            "mov {scratch}, #2",
            "msr ICC_CTLR_EL1, {scratch}",
            "mov {scratch}, #1",
            "msr ICC_IGRPEN1_EL1, {scratch}",
            "isb",
            scratch = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}
