//! AArch64 at EL2: registers, boot and vector assembly, and the [`Machine`] that runs on them.
//!
//! Register settings are those of `platform-facts.md` part 1b (`mapped`) and of the architecture (`direct`).

#[macro_use]
mod registers;
#[cfg(feature = "hybrid")]
mod gate;
mod machine;
mod reset;

pub use machine::Hardware;

use crate::{CoreHead, FloatingPoint, GuestContext};
use bulkhead_abi::image::{CoreBoot, IMAGE_MAGIC, ImageHeader};
use bulkhead_arm::el2;
use bulkhead_arm::exception::ExceptionClass;
use core::mem::offset_of;

core::arch::global_asm!(
    include_str!("boot.s"),
    HEADER_MAGIC = const offset_of!(ImageHeader, magic),
    IMAGE_MAGIC = const IMAGE_MAGIC,
    HEADER_IMAGE_START = const offset_of!(ImageHeader, image_start),
    HEADER_CORE_COUNT = const offset_of!(ImageHeader, core_count),
    HEADER_CORES = const offset_of!(ImageHeader, cores),
    HEADER_PLAN = const offset_of!(ImageHeader, plan),
    HEADER_PLAN_BYTES = const offset_of!(ImageHeader, plan_bytes),
    HEADER_TCR = const offset_of!(ImageHeader, tcr),
    HEADER_MAIR = const offset_of!(ImageHeader, mair),
    BOOT_MPIDR = const offset_of!(CoreBoot, mpidr),
    BOOT_SIZE = const size_of::<CoreBoot>(),
    BOOT_ROOT = const offset_of!(CoreBoot, el2_root),
    BOOT_DATA = const offset_of!(CoreBoot, data),
    BOOT_DATA_BYTES = const offset_of!(CoreBoot, data_bytes),
    BOOT_STACK = const offset_of!(CoreBoot, stack_top),
    HEAD_STACK = const offset_of!(CoreHead, stack_top),
    SCTLR = const el2::sctlr::MONITOR,
);

core::arch::global_asm!(
    include_str!("vectors.s"),
    BELOW_PAYLOAD = const cfg!(feature = "hybrid") as u8,
    HEAD_STACK = const offset_of!(CoreHead, stack_top),
    HEAD_FAST = const offset_of!(CoreHead, fast_table),
    HEAD_COUNTERS = const offset_of!(CoreHead, counters),
    CLASS_HVC64 = const ExceptionClass::HVC64.0,
    CLASS_DATA_ABORT = const ExceptionClass::DATA_ABORT.0,
    FAST_ENTRIES = const bulkhead_abi::plan::MAX_INTID,
);

core::arch::global_asm!(include_str!("switch.s"));

#[cfg(feature = "devices")]
core::arch::global_asm!(include_str!("devices.s"));

const _: () = assert!(offset_of!(GuestContext, registers) == 0 && offset_of!(GuestContext, virtual_interface) == 240);
const _: () = assert!(size_of::<FloatingPoint>() == 528);

/// What the handler of a call or of a data abort returns to the vectors, in x0 and x1.
#[derive(Debug)]
#[repr(C)]
pub struct HandlerReturn {
    /// The head it was given.
    pub head: *mut CoreHead,
    /// 1 when registers that Rust keeps (x19 to x29) are new in the frame too, so that all must be loaded.
    pub whole_frame: u64,
}

unsafe extern "C" {
    fn bulkhead_enter(head: *mut CoreHead) -> !;
    fn bulkhead_secondary();
    #[cfg(feature = "devices")]
    fn bulkhead_secondary_told();
    fn bulkhead_save_guest(context: *mut GuestContext);
    fn bulkhead_load_guest(context: *const GuestContext);
    fn bulkhead_save_floating_point(registers: *mut FloatingPoint);
    fn bulkhead_load_floating_point(registers: *const FloatingPoint);
}

/// Enters the guest whose registers are in the head's frame and in the EL1/EL2 registers. Exits come back through the
/// vectors on a fresh stack.
///
/// # Safety
/// `head` must be the value of TPIDR_EL2 of this core, and the control registers must be loaded.
pub unsafe fn enter(head: *mut CoreHead) -> ! {
    // SAFETY: the caller promises what the assembly needs.
    unsafe { bulkhead_enter(head) }
}

/// What the boot core told this one when it started it, or told itself by [`tell_oneself`]; lost when a guest starts.
#[cfg(feature = "devices")]
#[must_use]
pub fn told() -> u64 {
    read_register!("tpidr_el0")
}

/// Keeps a word for [`told`] on the boot core.
#[cfg(feature = "devices")]
pub fn tell_oneself(word: u64) {
    // No guest has run on this core yet, and each start resets this register.
    write_register!("tpidr_el0", word);
}

/// Returns the core's head from TPIDR_EL2.
#[must_use]
pub fn core_head() -> *mut CoreHead {
    read_register!("tpidr_el2") as *mut CoreHead
}

/// Makes `head` the one that [`core_head`] returns.
///
/// # Safety
/// `head` must be the head of a vCPU of this core, in the core's private data.
pub unsafe fn set_core_head(head: *mut CoreHead) {
    // Panics and exceptions of EL2 itself find the vCPU by it, so it names the one that is loaded.
    write_register!("tpidr_el2", head as u64);
}

/// Reads what this core says of itself: MIDR_EL1, ID_AA64MMFR0_EL1, CTR_EL0, DCZID_EL0.
#[must_use]
pub fn identity() -> [u64; 4] {
    [
        read_register!("midr_el1"),
        read_register!("id_aa64mmfr0_el1"),
        read_register!("ctr_el0"),
        read_register!("dczid_el0"),
    ]
}

/// Returns ESR_EL2.
#[must_use]
pub fn syndrome() -> u64 {
    read_register!("esr_el2")
}
