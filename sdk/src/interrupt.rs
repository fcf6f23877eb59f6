//! Interrupts: a small GICv3 driver for a guest's own interrupts.
//!
//! Works the same behind Bulkhead's filter and on the bare board. Under Bulkhead the distributor shows only the
//! partition's interrupts and ignores the rest, so the driver never needs to know the plan.

use crate::{cpu, information, mmio};
use bulkhead_arch::el1::interface;
use bulkhead_arm::{Affinity, SgiRequest, gic};
use bulkhead_guest_abi::guest::{GUEST_GICD, GUEST_GICR};
use core::sync::atomic::{AtomicPtr, Ordering};

pub use bulkhead_arm::Intid as InterruptId;

/// The virtual timer of each core.
pub const VIRTUAL_TIMER: InterruptId = InterruptId::VIRTUAL_TIMER;

/// Priority given to an interrupt by [`enable`]; lower is more urgent.
pub const DEFAULT_PRIORITY: u8 = 0xa0;

/// Distributor of the bare board (QEMU `virt`), which guests find at the same place.
const BOARD_GICD: u64 = GUEST_GICD.0;
/// First redistributor of the bare board.
const BOARD_GICR: u64 = GUEST_GICR.0;

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
        return page.gicr.0 + (affinity & 0xff) * gic::REDISTRIBUTOR_BYTES;
    }
    let first = BOARD_GICR;
    let wanted = Affinity::of_mpidr(affinity).packed();
    let mut frame = first;
    loop {
        // SAFETY: the walk stays within the redistributors: it ends at the frame marked last.
        let (found, lower) =
            unsafe { (mmio::read32(frame + gic::GICR_TYPER_AFFINITY), mmio::read32(frame + gic::GICR_TYPER)) };
        let is_last = lower & gic::GICR_TYPER_LAST != 0;
        if found == wanted || is_last {
            return frame;
        }
        frame += gic::REDISTRIBUTOR_BYTES;
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
    interface::start();
}

/// What the monitor has done already when the guest runs in a partition: distributor on, redistributor awake, group 1.
fn start_board(distributor: u64, redistributor: u64) {
    // SAFETY: GIC registers of this guest; the driver is their only user, and no interrupt is unmasked yet.
    unsafe {
        let control = mmio::read32(distributor + gic::GICD_CTLR);
        mmio::write32(distributor + gic::GICD_CTLR, control | gic::GICD_CTLR_AFFINITY_ROUTING | gic::GICD_CTLR_GROUP_1);
        while mmio::read32(distributor + gic::GICD_CTLR) & gic::GICD_CTLR_WRITE_PENDING != 0 {
            cpu::yield_now();
        }
        let waker = mmio::read32(redistributor + gic::GICR_WAKER);
        mmio::write32(redistributor + gic::GICR_WAKER, waker & !gic::GICR_WAKER_PROCESSOR_SLEEP);
        while mmio::read32(redistributor + gic::GICR_WAKER) & gic::GICR_WAKER_CHILDREN_ASLEEP != 0 {
            cpu::yield_now();
        }
        mmio::write32(redistributor + gic::SGI_FRAME + gic::IGROUPR, u32::MAX);
    }
}

/// Base of the register frame that holds `id`: this core's for 0..31, the distributor's for the rest.
fn frame_of(id: InterruptId) -> u64 {
    if id.is_private() { redistributor() + gic::SGI_FRAME } else { distributor() }
}

/// Enables an interrupt on this core with [`DEFAULT_PRIORITY`]; a shared one is routed here.
pub fn enable(id: InterruptId) {
    let frame = frame_of(id);
    set_priority(id, DEFAULT_PRIORITY);
    // SAFETY: GIC registers of this guest; the driver is their only user.
    unsafe {
        if !id.is_private() {
            let group = frame + gic::bit_word(gic::IGROUPR, id);
            mmio::write32(group, mmio::read32(group) | id.bit());
            mmio::write64(frame + gic::route(id), cpu::affinity());
        }
        mmio::write32(frame + gic::bit_word(gic::ISENABLER, id), id.bit());
    }
}

/// Disables an interrupt.
pub fn disable(id: InterruptId) {
    let register = frame_of(id) + gic::bit_word(gic::ICENABLER, id);
    // SAFETY: a GIC register of this guest; writing one bit disables one interrupt.
    unsafe { mmio::write32(register, id.bit()) };
}

/// Sets an interrupt's priority; lower is more urgent.
pub fn set_priority(id: InterruptId, priority: u8) {
    // SAFETY: a byte-wide GIC register of this guest.
    unsafe { mmio::write8(frame_of(id) + gic::priority_byte(id), priority) };
}

/// Makes a shared interrupt edge-triggered or level-sensitive. Under Bulkhead the plan decides and a write has no effect.
pub fn set_edge(id: InterruptId, is_edge: bool) {
    let register = frame_of(id) + gic::configuration_word(id);
    let bit = gic::configuration_edge(id);
    // SAFETY: a GIC register of this guest, changed before the interrupt is enabled.
    unsafe {
        let value = mmio::read32(register);
        mmio::write32(register, if is_edge { value | bit } else { value & !bit });
    }
}

/// Sends a software generated interrupt (0 to 15) to vCPUs, given as a bit per vCPU number (0 to 15).
pub fn send(id: InterruptId, vcpus: u16) {
    let value = (u64::from(id.0 & 0xf) << SgiRequest::INTID_SHIFT) | u64::from(vcpus);
    interface::send(value);
}

/// Takes the interrupt that brought us here, if it is still there.
pub(crate) fn take() {
    let id = interface::acknowledge();
    if id.is_special() {
        return;
    }
    let handler = HANDLER.load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: the only store is in `on_interrupt`, of a function pointer of exactly this type.
        let handler = unsafe { core::mem::transmute::<*mut (), InterruptHandler>(handler) };
        handler(id);
    }
    interface::end(id);
}
