//! GICR, 128 KiB per vCPU: the RD frame and the SGI frame (Arm IHI 0069, 12.10 and 12.11).
//!
//! Frame n is vCPU n's. A vCPU reaches the SGI frame of its own core; of the others it sees the identification alone,
//! which is what an operating system needs to find its own frame. So no monitor ever touches another core's redistributor.

use super::bank::{Bank, is_priority};
use super::{GicPort, IMPLEMENTER, OwnedInterrupts, PERIPHERAL_ID2, PERIPHERAL_ID2_OFFSET, Rejected, Written, half};
use bulkhead_abi::plan::PartitionPlan;

/// Bytes of a redistributor: RD frame and SGI frame.
pub const FRAME_BYTES: u64 = 0x2_0000;

const CONTROL: u64 = 0x0000;
const IIDR: u64 = 0x0004;
const TYPER: u64 = 0x0008;
const TYPER_HIGH: u64 = 0x000c;
/// The SGI frame within the pair.
const SGI_FRAME: u64 = 0x1_0000;
/// End of its bit, byte and pair registers.
const SGI_BANK_FIRST: u64 = SGI_FRAME | 0x080;
const SGI_BANK_END: u64 = SGI_FRAME | 0x1000;

/// Reads a redistributor. `offset` is relative to the frame of vCPU 0, `vcpu` is the one that asks, `port` its own core's.
///
/// # Errors
///
/// [`Rejected`] when the register has no access of this width or is another vCPU's; the guest then reads zero.
#[inline]
pub fn redistributor_read(
    owned: &OwnedInterrupts,
    plan: &PartitionPlan,
    vcpu: u32,
    port: &impl GicPort,
    offset: u64,
    bytes: u8,
) -> Result<u64, Rejected> {
    let (frame, register) = locate(plan, offset)?;
    let bank = Bank { port, base: SGI_FRAME, owned: &owned.private };
    let own = frame == u64::from(vcpu);
    match bytes {
        4 if register & 3 == 0 => match register {
            SGI_BANK_FIRST..SGI_BANK_END if own => Ok(u64::from(bank.read(register & 0xffff))),
            CONTROL | IIDR | TYPER | TYPER_HIGH | PERIPHERAL_ID2_OFFSET => Ok(identification(plan, frame, register)),
            // GICR_WAKER reads "awake", everything about LPIs zero.
            _ if own => Ok(0),
            _ => Err(Rejected::OtherFrame),
        },
        8 if register == TYPER => Ok(type_register(plan, frame)),
        1 if own && is_private_priority(register) => Ok(u64::from(bank.read_priority(register & 0xffff))),
        _ => Err(if own { Rejected::Width } else { Rejected::OtherFrame }),
    }
}

/// Writes a redistributor; parameters as in [`redistributor_read`].
///
/// # Errors
///
/// [`Rejected`] when the register has no access of this width or is another vCPU's; nothing was written.
#[inline]
pub fn redistributor_write(
    owned: &OwnedInterrupts,
    plan: &PartitionPlan,
    vcpu: u32,
    port: &impl GicPort,
    offset: u64,
    bytes: u8,
    value: u64,
) -> Result<Written, Rejected> {
    let (frame, register) = locate(plan, offset)?;
    if frame != u64::from(vcpu) {
        return Err(Rejected::OtherFrame);
    }
    let bank = Bank { port, base: SGI_FRAME, owned: &owned.private };
    match bytes {
        4 if register & 3 == 0 => Ok(match register {
            SGI_BANK_FIRST..SGI_BANK_END => bank.write(register & 0xffff, value as u32),
            _ => Written::done_if(value & 0xffff_ffff == identification(plan, frame, register)),
        }),
        1 if is_private_priority(register) => Ok(bank.write_priority(register & 0xffff, value as u8)),
        _ => Err(Rejected::Width),
    }
}

/// Splits an offset into the vCPU's number and the offset within its pair of frames.
fn locate(plan: &PartitionPlan, offset: u64) -> Result<(u64, u64), Rejected> {
    let frame = offset / FRAME_BYTES;
    if frame >= u64::from(plan.vcpu_count) {
        return Err(Rejected::OutOfRange);
    }
    Ok((frame, offset % FRAME_BYTES))
}

fn is_private_priority(register: u64) -> bool {
    matches!(register, SGI_BANK_FIRST..SGI_BANK_END) && is_priority(register & 0xffff)
}

/// The read-only registers; everything that is not listed is RAZ/WI: GICR_WAKER (a guest that cannot set
/// ProcessorSleep skips power management), STATUSR, everything about LPIs (GICR_TYPER.PLPIS = 0).
fn identification(plan: &PartitionPlan, frame: u64, register: u64) -> u64 {
    match register {
        IIDR => u64::from(IMPLEMENTER),
        TYPER | TYPER_HIGH => half(type_register(plan, frame), register),
        PERIPHERAL_ID2_OFFSET => u64::from(PERIPHERAL_ID2),
        _ => 0,
    }
}

/// GICR_TYPER: affinity and processor number are the vCPU's number; Last on the final frame.
fn type_register(plan: &PartitionPlan, frame: u64) -> u64 {
    const LAST: u64 = 1 << 4;
    let is_last = frame.wrapping_add(1) == u64::from(plan.vcpu_count);
    (frame << 32) | (frame << 8) | if is_last { LAST } else { 0 }
}
