//! Power calls (PSCI, Arm DEN 0022).

use crate::{cpu, hypercall::call, information};

const CPU_OFF: u64 = 0x8400_0002;
const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const VERSION: u64 = 0x8400_0000;

/// A PSCI error (a negative number of the specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PsciError(pub i32);

/// Reads the version: major in bits 31:16, minor in bits 15:0.
#[must_use]
pub fn version() -> u32 {
    // A 32-bit call answers in 32 bits.
    (call(VERSION, [0; 3])[0] & 0xffff_ffff) as u32
}

/// Starts a vCPU of this guest at a guest address with `context` in x0 and translation off.
///
/// # Errors
/// The PSCI error: -2 invalid vCPU, -4 already on.
///
/// # Safety
/// `entry` is the address of code that can run with translation off and uses `context` as intended.
pub unsafe fn cpu_on(affinity: u64, entry: u64, context: u64) -> Result<(), PsciError> {
    // PSCI answers are 32-bit signed numbers, sign-extended.
    let answer = call(CPU_ON, [affinity, entry, context])[0] as i32;
    if answer == 0 { Ok(()) } else { Err(PsciError(answer)) }
}

/// Switches this vCPU off.
pub fn cpu_off() -> ! {
    call(CPU_OFF, [0; 3]);
    stop()
}

/// Switches the guest off. Under Bulkhead this is the state `off` and no fault.
pub fn system_off() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    stop()
}

/// Asks for a restart. Under Bulkhead the partition's health policy decides.
pub fn system_reset() -> ! {
    call(SYSTEM_RESET, [0; 3]);
    stop()
}

/// Ends a guest that cannot go on: its health policy decides; the bare board is switched off.
pub(crate) fn give_up() -> ! {
    if information::information().is_some() { system_reset() } else { system_off() }
}

/// Nothing is left to do: the call above did not stop this vCPU at once.
fn stop() -> ! {
    cpu::mask_interrupts();
    loop {
        cpu::wait_for_interrupt();
    }
}
