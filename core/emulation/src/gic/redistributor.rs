//! GICR, 128 KiB per vCPU: the RD frame and the SGI frame (Arm IHI 0069, 12.10 and 12.11).
//!
//! Frame n is vCPU n's. A vCPU reaches the SGI frame of its own core; of the others it sees the identification alone,
//! which is what an operating system needs to find its own frame. So no monitor ever touches another core's redistributor.

use super::bank::{Bank, is_set_clear};
use super::{Filter, GicPort, IMPLEMENTER, PERIPHERAL_ID2, PRIVATE_WORDS, half};
use bulkhead_arm::gic::{self, GICR_CTLR, GICR_IIDR, GICR_TYPER, GICR_TYPER_AFFINITY, SGI_FRAME};

/// Bytes of a redistributor: RD frame and SGI frame.
pub const FRAME_BYTES: u64 = gic::REDISTRIBUTOR_BYTES;

/// Bit, byte and pair registers of the SGI frame.
const SGI_BANK_FIRST: u64 = SGI_FRAME | gic::BANK.start;
const SGI_BANK_END: u64 = SGI_FRAME | gic::BANK.end;

impl<Port: GicPort> Filter<'_, Port> {
    fn private_bank(&self) -> Bank<'_, Port> {
        Bank { port: &self.port, base: SGI_FRAME, owned: &PRIVATE_WORDS }
    }

    /// As [`Self::redistributor_read`], for the asking vCPU's own write-one registers alone: drivers use them at run time, so they have
    /// an instruction budget.
    #[must_use]
    #[inline(always)]
    pub fn own_set_clear_read(&self, vcpu: u32, offset: u64, bytes: u8) -> Option<u64> {
        let register = offset.wrapping_sub(u64::from(vcpu).wrapping_mul(FRAME_BYTES) | SGI_FRAME);
        let is_one = bytes == 4 && register & 3 == 0 && is_set_clear(register);
        is_one.then(|| u64::from(self.private_bank().read_set_clear(register)))
    }

    /// Reads a redistributor. `offset` is relative to the frame of vCPU 0, `vcpu` is the one that asks, the port its own
    /// core's.
    #[must_use]
    #[inline]
    pub fn redistributor_read(&self, vcpu: u32, offset: u64, bytes: u8) -> Option<u64> {
        let (frame, register) = self.locate(offset)?;
        let own = frame == u64::from(vcpu);
        match (register, bytes) {
            (SGI_BANK_FIRST..SGI_BANK_END, _) if own => self.private_bank().read(register & 0xffff, bytes),
            (GICR_TYPER, 8) => Some(self.frame_type(frame)),
            // GICR_WAKER reads "awake", everything about LPIs zero.
            (_, 4) if register & 3 == 0 => self.frame_identification(frame, register).or(own.then_some(0)),
            _ => None,
        }
    }

    /// Writes a redistributor; parameters as in [`Self::redistributor_read`].
    #[must_use = "the monitor counts ignored writes"]
    #[inline]
    pub fn redistributor_write(&self, vcpu: u32, offset: u64, bytes: u8, value: u64) -> bool {
        let Some((frame, register)) = self.locate(offset).filter(|(frame, _)| *frame == u64::from(vcpu)) else {
            return false;
        };
        match (register, bytes) {
            (SGI_BANK_FIRST..SGI_BANK_END, _) => self.private_bank().write(register & 0xffff, bytes, value),
            (_, 4) if register & 3 == 0 => {
                value & 0xffff_ffff == self.frame_identification(frame, register).unwrap_or(0)
            }
            _ => false,
        }
    }

    /// Splits an offset into the vCPU's number and the offset within its pair of frames.
    fn locate(&self, offset: u64) -> Option<(u64, u64)> {
        let frame = offset / FRAME_BYTES;
        (frame < u64::from(self.plan.vcpu_count)).then_some((frame, offset % FRAME_BYTES))
    }

    /// The read-only registers, which every vCPU may read; everything else is RAZ/WI: GICR_WAKER (a guest that cannot set
    /// ProcessorSleep skips power management), STATUSR, everything about LPIs (GICR_TYPER.PLPIS = 0).
    fn frame_identification(&self, frame: u64, register: u64) -> Option<u64> {
        match register {
            GICR_CTLR => Some(0),
            GICR_IIDR => Some(u64::from(IMPLEMENTER)),
            GICR_TYPER | GICR_TYPER_AFFINITY => Some(half(self.frame_type(frame), register)),
            gic::PERIPHERAL_ID2 => Some(u64::from(PERIPHERAL_ID2)),
            _ => None,
        }
    }

    /// GICR_TYPER: affinity and processor number are the vCPU's number; Last on the final frame.
    fn frame_type(&self, frame: u64) -> u64 {
        let is_last = frame.wrapping_add(1) == u64::from(self.plan.vcpu_count);
        let last = if is_last { u64::from(gic::GICR_TYPER_LAST) } else { 0 };
        frame << gic::GICR_TYPER_AFFINITY_SHIFT | frame << gic::GICR_TYPER_PROCESSOR_SHIFT | last
    }
}
