//! Interrupts: a small GICv3 driver for a guest's own interrupts.
//!
//! Works the same behind Bulkhead's filter and on the bare board. Under Bulkhead the distributor shows only the
//! partition's interrupts and ignores the rest, so the driver never needs to know the plan.

use crate::{cpu, information, mmio};
use core::{
    arch::asm,
    sync::atomic::{AtomicPtr, Ordering},
};

/// An interrupt's number (INTID): 0-15 software generated, 16-31 of one core, 32 and up shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterruptId(pub u32);

/// The virtual timer of each core.
pub const VIRTUAL_TIMER: InterruptId = InterruptId(27);

/// Priority given to an interrupt by [`enable`]; lower is more urgent.
pub const DEFAULT_PRIORITY: u8 = 0xa0;

/// Distributor of the bare board (QEMU `virt`).
const BOARD_GICD: u64 = 0x0800_0000;
/// First redistributor of the bare board.
const BOARD_GICR: u64 = 0x080a_0000;

const GICD_CTLR: u64 = 0x0000;
const IGROUPR: u64 = 0x0080;
const ISENABLER: u64 = 0x0100;
const ICENABLER: u64 = 0x0180;
const IPRIORITYR: u64 = 0x0400;
const ICFGR: u64 = 0x0c00;
const GICD_IROUTER: u64 = 0x6000;
const GICR_TYPER_AFFINITY: u64 = 0x000c;
const GICR_TYPER: u64 = 0x0008;
const GICR_WAKER: u64 = 0x0014;
const GICR_FRAME_BYTES: u64 = 0x2_0000;
const GICR_SGI_OFFSET: u64 = 0x1_0000;

/// GICD_CTLR: affinity routing and group 1 on (one security state).
const CTLR_ARE_GROUP1: u32 = (1 << 4) | (1 << 1);
/// GICD_CTLR: a write is still on its way.
const CTLR_WRITE_PENDING: u32 = 1 << 31;
const WAKER_PROCESSOR_SLEEP: u32 = 1 << 1;
const WAKER_CHILDREN_ASLEEP: u32 = 1 << 2;
/// First of the numbers that mean "no interrupt".
const SPECIAL_IDS: u32 = 1020;

/// Called for each interrupt, with interrupts masked; its end is signalled when it returns.
pub type InterruptHandler = fn(InterruptId);

static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Installs the interrupt handler, on all vCPUs.
pub fn on_interrupt(handler: InterruptHandler) {
    HANDLER.store(handler as *mut (), Ordering::Release);
}

/// Returns the guest address of the distributor.
#[must_use]
pub fn distributor() -> u64 {
    information::information().map_or(BOARD_GICD, |page| page.gicd.0)
}

/// Returns the guest address of this core's redistributor (its first frame).
#[must_use]
pub fn redistributor() -> u64 {
    let affinity = cpu::affinity();
    // In a partition vCPU n has affinity n and frame n, so nothing needs to be read (and trapped).
    if let Some(page) = information::information() {
        return page.gicr.0 + (affinity & 0xff) * GICR_FRAME_BYTES;
    }
    let first = BOARD_GICR;
    // The redistributor reports Aff3..Aff0 in 32 bits.
    let wanted = ((affinity >> 8) & 0xff00_0000) | (affinity & 0x00ff_ffff);
    let mut frame = first;
    loop {
        // SAFETY: the walk stays within the redistributors: it ends at the frame marked last.
        let (found, lower) = unsafe { (mmio::read32(frame + GICR_TYPER_AFFINITY), mmio::read32(frame + GICR_TYPER)) };
        let is_last = lower & (1 << 4) != 0;
        if u64::from(found) == wanted || is_last {
            return frame;
        }
        frame += GICR_FRAME_BYTES;
    }
}

/// Makes this core able to take interrupts: distributor, redistributor and CPU interface. Each vCPU calls it once.
///
/// Interrupts stay masked; enable the ones wanted, then [`cpu::unmask_interrupts`].
pub fn start() {
    let redistributor = redistributor();
    if information::information().is_none() {
        start_board(distributor(), redistributor);
    }
    start_cpu_interface();
}

/// What the monitor has done already when the guest runs in a partition: distributor on, redistributor awake, group 1.
fn start_board(distributor: u64, redistributor: u64) {
    // SAFETY: GIC registers of this guest; the driver is their only user, and no interrupt is unmasked yet.
    unsafe {
        let control = mmio::read32(distributor + GICD_CTLR);
        mmio::write32(distributor + GICD_CTLR, control | CTLR_ARE_GROUP1);
        while mmio::read32(distributor + GICD_CTLR) & CTLR_WRITE_PENDING != 0 {
            cpu::yield_now();
        }
        let waker = mmio::read32(redistributor + GICR_WAKER);
        mmio::write32(redistributor + GICR_WAKER, waker & !WAKER_PROCESSOR_SLEEP);
        while mmio::read32(redistributor + GICR_WAKER) & WAKER_CHILDREN_ASLEEP != 0 {
            cpu::yield_now();
        }
        mmio::write32(redistributor + GICR_SGI_OFFSET + IGROUPR, u32::MAX);
    }
}

fn start_cpu_interface() {
    // SAFETY: CPU interface of this core: system registers on, no priority filtered, no preemption groups, end of
    // interrupt also deactivates, group 1 on.
    unsafe {
        asm!(
            "mrs {scratch}, ICC_SRE_EL1",
            "orr {scratch}, {scratch}, #1",
            "msr ICC_SRE_EL1, {scratch}",
            "isb",
            "mov {scratch}, #0xff",
            "msr ICC_PMR_EL1, {scratch}",
            "msr ICC_BPR1_EL1, xzr",
            "msr ICC_CTLR_EL1, xzr",
            "mov {scratch}, #1",
            "msr ICC_IGRPEN1_EL1, {scratch}",
            "isb",
            scratch = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Base of the register frame that holds `id`: this core's for 0..31, the distributor's for the rest.
fn frame_of(id: InterruptId) -> u64 {
    if id.0 < 32 { redistributor() + GICR_SGI_OFFSET } else { distributor() }
}

/// Address of the bit register of `id` in a set of bit registers, and its bit.
fn bit_of(frame: u64, set: u64, id: InterruptId) -> (u64, u32) {
    (frame + set + u64::from(id.0 / 32) * 4, 1 << (id.0 % 32))
}

/// Enables an interrupt on this core with [`DEFAULT_PRIORITY`]; a shared one is routed here.
pub fn enable(id: InterruptId) {
    let frame = frame_of(id);
    set_priority(id, DEFAULT_PRIORITY);
    // SAFETY: GIC registers of this guest; the driver is their only user.
    unsafe {
        if id.0 >= 32 {
            let (group, bit) = bit_of(frame, IGROUPR, id);
            mmio::write32(group, mmio::read32(group) | bit);
            mmio::write64(frame + GICD_IROUTER + u64::from(id.0) * 8, cpu::affinity());
        }
        let (enable, bit) = bit_of(frame, ISENABLER, id);
        mmio::write32(enable, bit);
    }
}

/// Disables an interrupt.
pub fn disable(id: InterruptId) {
    let (register, bit) = bit_of(frame_of(id), ICENABLER, id);
    // SAFETY: a GIC register of this guest; writing one bit disables one interrupt.
    unsafe { mmio::write32(register, bit) };
}

/// Sets an interrupt's priority; lower is more urgent.
pub fn set_priority(id: InterruptId, priority: u8) {
    // SAFETY: a byte-wide GIC register of this guest.
    unsafe { mmio::write8(frame_of(id) + IPRIORITYR + u64::from(id.0), priority) };
}

/// Makes a shared interrupt edge-triggered or level-sensitive. Under Bulkhead the plan decides and a write has no effect.
pub fn set_edge(id: InterruptId, is_edge: bool) {
    let register = frame_of(id) + ICFGR + u64::from(id.0 / 16) * 4;
    let bit = 2 << ((id.0 % 16) * 2);
    // SAFETY: a GIC register of this guest, changed before the interrupt is enabled.
    unsafe {
        let value = mmio::read32(register);
        mmio::write32(register, if is_edge { value | bit } else { value & !bit });
    }
}

/// Sends a software generated interrupt (0 to 15) to vCPUs, given as a bit per vCPU number (0 to 15).
pub fn send(id: InterruptId, vcpus: u16) {
    let value = (u64::from(id.0 & 0xf) << 24) | u64::from(vcpus);
    // SAFETY: makes an interrupt pending on cores of this guest. The barrier puts earlier stores before it.
    unsafe { asm!("dsb ish", "msr ICC_SGI1R_EL1, {}", "isb", in(reg) value, options(nostack, preserves_flags)) };
}

/// Takes the interrupt that brought us here, if it is still there.
pub(crate) fn take() {
    let acknowledged: u64;
    // SAFETY: acknowledges the highest pending interrupt; its end is signalled below.
    unsafe { asm!("mrs {}, ICC_IAR1_EL1", "dsb sy", out(reg) acknowledged, options(nostack, preserves_flags)) };
    // The register holds 24 bits.
    let id = InterruptId((acknowledged & 0xff_ffff) as u32);
    if (SPECIAL_IDS..SPECIAL_IDS + 4).contains(&id.0) {
        return;
    }
    let handler = HANDLER.load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: the only store is in `on_interrupt`, of a function pointer of exactly this type.
        let handler = unsafe { core::mem::transmute::<*mut (), InterruptHandler>(handler) };
        handler(id);
    }
    // SAFETY: ends the interrupt acknowledged above.
    unsafe { asm!("msr ICC_EOIR1_EL1, {}", "isb", in(reg) acknowledged, options(nostack, preserves_flags)) };
}
