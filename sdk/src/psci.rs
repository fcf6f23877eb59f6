//! Power calls (PSCI, Arm DEN 0022).

use crate::psci_error::error_of;
use crate::{cpu, hypercall::call, information};
use bulkhead_arm::psci::{Function, SUCCESS};

pub use bulkhead_arm::psci::Error as PsciError;

/// Reads the version: major in bits 31:16, minor in bits 15:0.
#[must_use]
pub fn version() -> u32 {
    // A 32-bit call answers in 32 bits.
    (call(Function::Version.id(), [0; 3])[0] & 0xffff_ffff) as u32
}

/// Starts a vCPU of this guest at a guest address with `context` in x0 and translation off.
///
/// # Errors
/// [`PsciError::InvalidParameters`] when there is no such vCPU, [`PsciError::AlreadyOn`] and [`PsciError::OnPending`] when it runs
/// or is about to; [`PsciError::InternalFailure`] for an answer that PSCI does not name.
///
/// # Safety
/// `entry` is the address of code that can run with translation off and uses `context` as intended.
pub unsafe fn cpu_on(affinity: u64, entry: u64, context: u64) -> Result<(), PsciError> {
    match call(Function::CpuOn64.id(), [affinity, entry, context])[0] {
        SUCCESS => Ok(()),
        answer => Err(error_of(answer)),
    }
}

/// Switches this vCPU off.
pub fn cpu_off() -> ! {
    call(Function::CpuOff.id(), [0; 3]);
    stop()
}

/// Switches the guest off. Under Bulkhead this is the state `off` and no fault.
pub fn system_off() -> ! {
    call(Function::SystemOff.id(), [0; 3]);
    stop()
}

/// Asks for a restart. Under Bulkhead the partition's health policy decides.
pub fn system_reset() -> ! {
    call(Function::SystemReset.id(), [0; 3]);
    stop()
}

/// Ends a guest that cannot continue: its health policy decides; the bare board is switched off.
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
