//! Resets everything of a guest that lives in registers, so that a restart starts as a first start does.
//!
//! The list is the "switched" column of the register table in the documentation (`core/emulation`): what vCPUs of a shared core
//! take turns with is loaded from a context of zeros, the rest is written here. PAR_EL1 is in it (seL4 16.0.0's lesson).

use crate::{FloatingPoint, GuestContext};
use bulkhead_arm::el2::{CNTHCTL_GUEST, sctlr};
use bulkhead_arm::exception;

/// SPSR_EL2 for entry.
const SPSR_ENTRY: u64 = exception::STATE_MASKED | exception::STATE_EL1H;

static NO_FLOATING_POINT: FloatingPoint = FloatingPoint { words: [0; 66] };

macro_rules! clear_registers {
    // No ISB: the guest alone uses what these registers hold, from its ERET on.
    ($($name:literal),* $(,)?) => { $( write_register!($name, 0); )* };
}

pub(super) fn guest_registers(entry: u64) {
    let mut context = GuestContext::default();
    let [program_counter, state, control, ..] = &mut context.registers;
    (*program_counter, *state, *control) = (entry, SPSR_ENTRY, sctlr::EL1_RESET);
    // SAFETY: reads the two contexts; the registers it writes belong to the guest, and none is used by EL2 code, which is
    // compiled without floating point.
    unsafe {
        super::bulkhead_load_guest(&context);
        super::bulkhead_load_floating_point(&NO_FLOATING_POINT);
    }
    // Not in the context, because vCPUs do not take turns with it: what guests cannot reach (trapped, or of an AArch32
    // EL1), and settings of EL2 that are the same for all. What firmware left there is not to act on a guest.
    clear_registers!(
        "mdscr_el1",
        "spsr_abt",
        "spsr_und",
        "spsr_irq",
        "spsr_fiq",
        "dacr32_el2",
        "ifsr32_el2",
        "fpexc32_el2",
        "cntvoff_el2",
        "hstr_el2",
        "pmuserenr_el0",
    );
    // The guest has the physical counter and timer without exits, and sees the identity of the real core.
    write_register!("cnthctl_el2", CNTHCTL_GUEST);
    write_register!("vpidr_el2", read_register!("midr_el1"));
}
