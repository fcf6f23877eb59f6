//! Urgent interrupts of the other world, for a kernel in C (SG-44, SG-85).

use crate::cell::Cell;
use crate::servers::note;
use crate::wish;
use bulkhead_arm::Intid;
use bulkhead_arm::gic::SGI_FRAME;
use bulkhead_world::flash::WorldPlan;
use bulkhead_world::handover::{HandOver, Registers};

/// Of nobody here.
const NONE: u64 = u64::MAX;
/// Of [`bulkhead_world_arm`].
const WISH: u64 = 1 << 31;

struct Urgent {
    sources: HandOver,
    frames: Frames,
}

/// Where the interrupt controller is. Functions work on a copy, which no write to a register can change.
#[derive(Clone, Copy)]
struct Frames {
    distributor: u64,
    private: u64,
}

static URGENT: Cell<Urgent> =
    Cell::new(Urgent { sources: HandOver::none(), frames: Frames { distributor: 0, private: 0 } });

impl Frames {
    fn of(&self, intid: Intid, offset: u64) -> usize {
        let frame = if intid.0 < Intid::FIRST_SHARED { self.private } else { self.distributor };
        frame.wrapping_add(offset) as usize
    }
}

impl Registers for Frames {
    fn read(&self, of: Intid, offset: u64) -> u32 {
        // SAFETY: a register of the interrupt controller, which the plan gives and the host's tables map as a device.
        unsafe { core::ptr::with_exposed_provenance::<u32>(self.of(of, offset)).read_volatile() }
    }

    fn write(&mut self, of: Intid, offset: u64, value: u32) {
        // SAFETY: as above; no memory is there.
        unsafe { core::ptr::with_exposed_provenance_mut::<u32>(self.of(of, offset)).write_volatile(value) }
    }

    fn read_byte(&self, of: Intid, offset: u64) -> u8 {
        // SAFETY: as above: priorities have bytes.
        unsafe { core::ptr::with_exposed_provenance::<u8>(self.of(of, offset)).read_volatile() }
    }

    fn write_byte(&mut self, of: Intid, offset: u64, value: u8) {
        // SAFETY: as above.
        unsafe { core::ptr::with_exposed_provenance_mut::<u8>(self.of(of, offset)).write_volatile(value) }
    }
}

/// Takes the urgent interrupts from the plan; all are the other world's.
///
/// # Safety
/// Interrupts are masked, and `plan` is what the payload was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_urgent(plan: *const WorldPlan) {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    let plan = unsafe { &*plan };
    let frames = Frames { distributor: plan.distributor, private: plan.redistributor.wrapping_add(SGI_FRAME) };
    // SAFETY: the caller's.
    unsafe { *URGENT.get() = Urgent { sources: HandOver::new(&plan.urgent), frames } };
}

/// No server runs any more: urgent interrupts are the payload's. Returns the servers, a bit for each, in whose interrupts' handlers the
/// other world stands; with bit 31 when the world has written another wish.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_arm() -> u64 {
    // SAFETY: the caller's.
    let Urgent { sources, frames } = unsafe { URGENT.get() };
    let mut frames = *frames;
    let cut_off = u64::from(sources.arm(&mut frames));
    // SAFETY: the caller's.
    if unsafe { wish::has_changed() } { cut_off | WISH } else { cut_off }
}

/// An interrupt arrived at the payload, which may start a server. Returns which servers may run now that could not before, a bit for each;
/// `u64::MAX` if it is no urgent one.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_interrupt(intid: u32) -> u64 {
    // SAFETY: the caller's.
    let Urgent { sources, frames } = unsafe { URGENT.get() };
    let mut frames = *frames;
    match sources.fire(Intid(intid), &mut frames) {
        // SAFETY: the caller's.
        Some(server) => unsafe { note(|servers| servers.fired(server)) },
        None => NONE,
    }
}

/// A server is going to run: urgent interrupts are the other world's. Returns false when the payload still handles one.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_hand_back() -> bool {
    // SAFETY: the caller's.
    let Urgent { sources, frames } = unsafe { URGENT.get() };
    let mut frames = *frames;
    sources.hand_back(&mut frames)
}
