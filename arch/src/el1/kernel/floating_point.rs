//! Floating-point and SIMD registers of threads: where those are that are not in the core, and whether EL0 may use the core's (CPACR_EL1.FPEN).
//!
//! While EL0 may use them, VBAR_EL1 names a second table of vectors (`vectors.s`), whose entries close them and continue in the first one. So they are closed
//! whenever the kernel runs and whenever it returns, but for the one return behind [`open`]; and no other way of the kernel knows of them.

use super::HALF;
use crate::FloatingPoint;
use bulkhead_kernel_abi::FLOATING_POINT_BYTES;
use core::arch::asm;
use core::cell::UnsafeCell;

/// CPACR_EL1.FPEN: neither EL1 nor EL0 is trapped (Arm ARM D17.2.33).
const OPEN: u64 = 3 << 20;

/// The place of a thread's registers.
#[repr(C)]
struct Place {
    registers: FloatingPoint,
    stay: u64,
    rest: u64,
}

const _: () = assert!(size_of::<Place>() == FLOATING_POINT_BYTES);

unsafe extern "C" {
    fn bulkhead_kernel_save_floating_point(registers: *mut FloatingPoint);
    fn bulkhead_kernel_load_floating_point(registers: *const FloatingPoint);
    fn bulkhead_kernel_clear_floating_point();
    /// The second table of `vectors.s`.
    static bulkhead_kernel_open_vectors: u8;
}

/// What the instance says of places, and whose registers are in the core.
struct State {
    address: u64,
    threads: u16,
    owner: Option<u16>,
}

struct Only(UnsafeCell<State>);

// SAFETY: one core, and the kernel runs with interrupts masked from an entry to its return: what runs here is alone.
unsafe impl Sync for Only {}

/// Not in [`super::Core`]: what the kernel's own ways work on stays where it is, in each kernel, no matter who declares floating point.
static STATE: Only = Only(UnsafeCell::new(State { address: 0, threads: 0, owner: None }));

/// Says where the places of this number of threads are, from a physical address on. Without it there are none.
///
/// # Safety
/// Called once, at boot. The kernel's half maps [`FLOATING_POINT_BYTES`] for each of them there at their physical addresses, writable and never executable, from the start
/// of a page on, and nothing in Rust is in them.
pub unsafe fn set_places(address: u64, threads: u16) {
    // SAFETY: see `Only`; nobody has a reference.
    unsafe { *STATE.0.get() = State { address, threads, owner: None } };
}

fn place(thread: u16) -> Option<*mut Place> {
    // SAFETY: see `Only`; nobody has a reference.
    let State { address, threads, .. } = unsafe { &*STATE.0.get() };
    let place = (HALF | *address).wrapping_add(u64::from(thread).wrapping_mul(FLOATING_POINT_BYTES as u64));
    (thread < *threads).then_some(core::ptr::with_exposed_provenance_mut(place as usize))
}

pub(super) fn owner() -> Option<u16> {
    // SAFETY: see `Only`.
    unsafe { (*STATE.0.get()).owner }
}

pub(super) fn stay(thread: u16) -> Option<u64> {
    // SAFETY: a place is one of those of `set_places`, aligned to 16 bytes, by its number; all bytes are values.
    place(thread).map(|place| unsafe { (&raw const (*place).stay).read() })
}

pub(super) fn set_stay(thread: u16, stay: u64) {
    if let Some(place) = place(thread) {
        // SAFETY: as above.
        unsafe { (&raw mut (*place).stay).write(stay) };
    }
}

/// Behind [`open`]: makes a thread the owner.
pub(super) fn load(thread: u16, is_kept: bool) {
    let other = owner().filter(|owner| *owner != thread);
    // SAFETY: (1) `open` lets this level use the registers; (2) a place is one of those of `set_places`, aligned to 16 bytes, by its number; (3) the compiler uses none
    // of these registers, since the kernel is built without; (4) see `Only`.
    unsafe {
        if let Some(place) = other.and_then(place) {
            bulkhead_kernel_save_floating_point(&raw mut (*place).registers);
        }
        match place(thread).filter(|_| is_kept) {
            Some(place) => bulkhead_kernel_load_floating_point(&raw const (*place).registers),
            None => bulkhead_kernel_clear_floating_point(),
        }
        (*STATE.0.get()).owner = Some(thread);
    }
}

/// Lets EL0 use the registers from the return of this entry up to the next one.
pub(super) fn open() {
    let vectors = &raw const bulkhead_kernel_open_vectors;
    // ISB: the kernel itself saves or loads the registers behind it.
    // SAFETY: the second table does what the first one does; a control that only says who may use registers that the kernel's own code has not.
    unsafe {
        asm!("msr CPACR_EL1, {}", "msr VBAR_EL1, {}", "isb", in(reg) OPEN, in(reg) vectors, options(nostack, preserves_flags));
    }
}
