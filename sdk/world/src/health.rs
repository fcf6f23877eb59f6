//! Health of the other world, for a kernel in C (SG-60, SG-61).
//!
//! `bulkhead-world`'s machine of states decides; here is what only the payload's core sees of that world without its help: where it stands, and
//! which of its interrupts wait.

use crate::cell::Cell;
use bulkhead_arm::gic::{ISENABLER, ISPENDR, SGI_FRAME};
use bulkhead_world::context::Context;
use bulkhead_world::flash::{WorldPlan, secure_ram};
use bulkhead_world::health::{Event, Health, HealthPlan, Order, Sample};

/// No instant.
const NONE: u64 = u64::MAX;

static HEALTH: Cell<Health> = Cell::new(Health::new(HealthPlan::nobody()));

/// Takes from the plan how the other world is watched; its first start is under way. Returns whether the system says anything about it: if not,
/// nothing is judged, and a fault leaves the world stopped for the payload to decide.
///
/// # Safety
/// Interrupts are masked, and `plan` is what the payload was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_start(plan: *const WorldPlan) -> bool {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    let plan = unsafe { &*plan };
    // SAFETY: the caller's: nobody else is in a function of this file.
    unsafe { *HEALTH.get() = Health::new(plan.health) };
    plan.health.is_watched()
}

/// Looks where the other world stands. `sample.calls` is left to the caller, who counts them.
///
/// The interrupts that wait are those of the first 64 INTIDs which are that world's, enabled and pending: its timers, its console, and the first
/// devices. A world that has masked its interrupts has a timer among them, or nothing ever wakes it and there is nothing to miss.
///
/// # Safety
/// `plan` is what the payload was given; `sample` is the caller's. The other world does not run, as the payload does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_look(plan: *const WorldPlan, sample: *mut Sample) {
    // SAFETY: as above, and the caller's own structure.
    let (plan, sample) = unsafe { (&*plan, &mut *sample) };
    let context = core::ptr::with_exposed_provenance::<Context>(secure_ram::CONTEXTS as usize);
    // SAFETY: the context's place in secure RAM, which the host's tables map.
    sample.program_counter = unsafe { (&raw const (*context).elr_el3).read_volatile() };
    let private = waiting(plan.redistributor.wrapping_add(SGI_FRAME), 0) & !word(plan, 0);
    let shared = waiting(plan.distributor, 4) & !word(plan, 1);
    sample.waiting = u64::from(private) | u64::from(shared) << 32;
}

fn word(plan: &WorldPlan, place: usize) -> u32 {
    plan.secure_interrupts.get(place).copied().unwrap_or(u32::MAX)
}

fn waiting(frame: u64, offset: u64) -> u32 {
    let read = |register: u64| {
        let address = frame.wrapping_add(register).wrapping_add(offset) as usize;
        // SAFETY: a register of the interrupt controller, which the plan gives and the host's tables map as a device; reading it changes nothing.
        unsafe { core::ptr::with_exposed_provenance::<u32>(address).read_volatile() }
    };
    read(ISENABLER) & read(ISPENDR)
}

/// A sample was taken. Returns an order, as [`bulkhead_health_happened`].
///
/// # Safety
/// Interrupts are masked; `sample` is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_sampled(sample: *const Sample, now: u64) -> u64 {
    // SAFETY: the caller's.
    let (health, sample) = unsafe { (HEALTH.get(), *sample) };
    number(health.happened(Event::Sample(sample), now))
}

/// Something happened: 1: a sign of life; 2: the world called SYSTEM_OFF; 3: SYSTEM_RESET; 4: somebody reports a fault, of this reason; 5: a
/// task suspends it; 6: lets it go on; 7: restarts it; 8: the restart that was ordered is done; 9: its image is damaged. Returns what to do:
/// 0: nothing; 1: no server may run the world; 2: servers may run it; 3: none may, and it is started again; 4: none may, and the machine is
/// switched off.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_happened(what: u32, reason: u32, now: u64) -> u64 {
    let event = match what {
        1 => Event::Heartbeat,
        2 => Event::Off,
        3 => Event::Reset,
        4 => Event::Fault(reason),
        5 => Event::Suspend,
        6 => Event::Resume,
        7 => Event::Restart,
        8 => Event::Started,
        9 => Event::Damaged,
        _ => return 0,
    };
    // SAFETY: the caller's.
    number(unsafe { HEALTH.get() }.happened(event, now))
}

/// Time has passed. Returns an order.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_elapsed(now: u64) -> u64 {
    // SAFETY: the caller's.
    number(unsafe { HEALTH.get() }.elapse(now))
}

/// When [`bulkhead_health_elapsed`] has something to say if nothing happens before; `u64::MAX` if never.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_next() -> u64 {
    // SAFETY: the caller's.
    unsafe { HEALTH.get() }.next_event_ticks().unwrap_or(NONE)
}

/// How the other world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Found {
    /// One of the `STATE_` constants of `core/abi`.
    pub state: u32,
    /// One of its `REASON_` constants.
    pub reason: u32,
    /// Restarts that were done; the first start is none.
    pub restarts: u32,
    /// Faults so far.
    pub faults: u32,
}

/// How it is.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_health_state() -> Found {
    // SAFETY: the caller's.
    let health = unsafe { HEALTH.get() };
    Found {
        state: health.state() as u32,
        reason: health.reason(),
        restarts: health.restarts(),
        faults: health.faults(),
    }
}

const fn number(order: Order) -> u64 {
    match order {
        Order::Nothing => 0,
        Order::Stand => 1,
        Order::Run => 2,
        Order::Restart => 3,
        Order::Halt => 4,
    }
}
