//! The distributor and the redistributors of a GICv3: offsets within their frames, and the place of an interrupt in registers
//! that hold one field for each. IHI 0069 has the offsets in 12.8 and 12.10, and describes the registers by name in 12.9
//! (distributor) and 12.11 (redistributor).

use crate::Intid;

/// Bytes of the distributor's frame (12.8).
pub const DISTRIBUTOR_BYTES: u64 = 0x1_0000;
/// Bytes of a redistributor without virtual LPIs: RD frame and SGI frame (12.10).
pub const REDISTRIBUTOR_BYTES: u64 = 0x2_0000;
/// Offset of the SGI frame in a redistributor (12.10).
pub const SGI_FRAME: u64 = 0x1_0000;

/// GICD_CTLR.
pub const GICD_CTLR: u64 = 0x0000;
/// GICD_TYPER.
pub const GICD_TYPER: u64 = 0x0004;
/// GICD_IIDR.
pub const GICD_IIDR: u64 = 0x0008;
/// GICR_CTLR.
pub const GICR_CTLR: u64 = 0x0000;
/// GICR_IIDR.
pub const GICR_IIDR: u64 = 0x0004;
/// GICR_TYPER, 64 bits.
pub const GICR_TYPER: u64 = 0x0008;
/// Upper half of GICR_TYPER: the affinity, Aff3 to Aff0 in 32 bits.
pub const GICR_TYPER_AFFINITY: u64 = 0x000c;
/// GICR_WAKER.
pub const GICR_WAKER: u64 = 0x0014;
/// PIDR2 of every frame of 64 KiB (12.9, GICD_PIDR2).
pub const PERIPHERAL_ID2: u64 = 0xffe8;

// Registers that distributor and SGI frame have at the same offsets, in the SGI frame for the private interrupts alone.
/// IGROUPR: one bit for each interrupt, 1 for group 1.
pub const IGROUPR: u64 = 0x080;
/// ISENABLER: a one enables.
pub const ISENABLER: u64 = 0x100;
/// ICENABLER: a one disables.
pub const ICENABLER: u64 = 0x180;
/// ISPENDR: a one makes pending.
pub const ISPENDR: u64 = 0x200;
/// ICPENDR: a one takes the pending state.
pub const ICPENDR: u64 = 0x280;
/// ISACTIVER: a one makes active.
pub const ISACTIVER: u64 = 0x300;
/// ICACTIVER: a one takes the active state.
pub const ICACTIVER: u64 = 0x380;
/// IPRIORITYR: one byte for each interrupt; lower is more urgent.
pub const IPRIORITYR: u64 = 0x400;
/// ITARGETSR, which affinity routing makes RES0: one past IPRIORITYR.
pub const ITARGETSR: u64 = 0x800;
/// ICFGR: two bits for each interrupt.
pub const ICFGR: u64 = 0xc00;
/// One past ICFGR of 1,024 interrupts.
pub const ICFGR_END: u64 = 0xd00;
/// Bytes of a register with one bit for each of 1,024 interrupts; ICENABLER follows ISENABLER at this distance, and the others likewise.
pub const BIT_REGISTER_BYTES: u64 = 0x80;
/// First of these offsets, and one past the last.
pub const BANK: core::ops::Range<u64> = IGROUPR..0x1000;
/// Where GICD_IROUTER of INTID 0 would be; the first that exists is that of INTID 32.
pub const IROUTER: u64 = 0x6000;

/// GICD_CTLR.EnableGrp1, as a system of one security state has it; with two, EnableGrp1A, as a non-secure access has it.
pub const GICD_CTLR_GROUP_1: u32 = 1 << 1;
/// GICD_CTLR.ARE: affinity routing; with two security states ARE_NS, as a non-secure access has it.
pub const GICD_CTLR_AFFINITY_ROUTING: u32 = 1 << 4;
/// GICD_CTLR.DS: one security state.
pub const GICD_CTLR_ONE_SECURITY_STATE: u32 = 1 << 6;
/// GICD_CTLR.RWP: a write is still on its way.
pub const GICD_CTLR_WRITE_PENDING: u32 = 1 << 31;
/// GICD_TYPER.SecurityExtn: two security states.
pub const GICD_TYPER_SECURITY_STATES: u32 = 1 << 10;
/// GICD_TYPER.ITLinesNumber: one less than the words of 32 interrupts.
pub const GICD_TYPER_LINES: u32 = 0x1f;
/// GICD_TYPER.IDbits: one less than the bits of an INTID, from bit 19 on.
pub const GICD_TYPER_INTID_BITS_SHIFT: u32 = 19;
/// GICD_TYPER.No1N: no interrupt is routed to "any core".
pub const GICD_TYPER_NO_1_OF_N: u32 = 1 << 25;
/// GICD_IROUTER.Interrupt_Routing_Mode: any core.
pub const IROUTER_ANY_CORE: u64 = 1 << 31;
/// GICR_CTLR.EnableLPIs: the redistributor keeps message-signalled interrupts, in tables in memory, which it writes.
pub const GICR_CTLR_MESSAGE_SIGNALLED: u32 = 1;
/// GICR_TYPER.Last: no redistributor follows this one.
pub const GICR_TYPER_LAST: u32 = 1 << 4;
/// GICR_TYPER.Processor_Number, from this bit on.
pub const GICR_TYPER_PROCESSOR_SHIFT: u32 = 8;
/// GICR_TYPER.Affinity_Value, from this bit on.
pub const GICR_TYPER_AFFINITY_SHIFT: u32 = 32;
/// GICR_WAKER.ProcessorSleep.
pub const GICR_WAKER_PROCESSOR_SLEEP: u32 = 1 << 1;
/// GICR_WAKER.ChildrenAsleep.
pub const GICR_WAKER_CHILDREN_ASLEEP: u32 = 1 << 2;
/// In each pair of ICFGR the bit that says "edge"; the other one is RES0.
pub const ICFGR_EDGE: u32 = 0b10;
/// [`ICFGR_EDGE`] of all sixteen interrupts of a word.
pub const ICFGR_EDGES: u32 = 0xaaaa_aaaa;

/// Offset of the word that holds an interrupt's bit, in a register with one bit for each such as [`ISENABLER`].
#[inline]
#[must_use]
pub const fn bit_word(register: u64, intid: Intid) -> u64 {
    register.wrapping_add((intid.word() as u64).wrapping_mul(4))
}

/// Offset of an interrupt's byte in IPRIORITYR.
#[inline]
#[must_use]
pub const fn priority_byte(intid: Intid) -> u64 {
    IPRIORITYR.wrapping_add(intid.0 as u64)
}

/// Offset of the ICFGR word that holds an interrupt's pair.
#[cfg(any(test, feature = "el1"))]
#[inline]
#[must_use]
pub const fn configuration_word(intid: Intid) -> u64 {
    ICFGR.wrapping_add((intid.0 as u64 >> 4).wrapping_mul(4))
}

/// An interrupt's "edge" bit in its ICFGR word.
#[cfg(any(test, feature = "el1"))]
#[inline]
#[must_use]
pub const fn configuration_edge(intid: Intid) -> u32 {
    ICFGR_EDGE << ((intid.0 & 15) << 1)
}

/// Offset of a shared interrupt's GICD_IROUTER, 64 bits.
#[inline]
#[must_use]
pub const fn route(intid: Intid) -> u64 {
    IROUTER.wrapping_add((intid.0 as u64).wrapping_mul(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets that 12.9 names for single registers.
    #[test]
    fn places_are_those_of_the_manual() {
        assert_eq!(bit_word(ISENABLER, Intid(0)), 0x100);
        assert_eq!(bit_word(ICENABLER, Intid(32)), 0x184);
        assert_eq!(bit_word(ICACTIVER, Intid(1019)), 0x3fc);
        assert_eq!((priority_byte(Intid(46)), priority_byte(Intid(1019))), (0x42e, 0x7fb));
        assert_eq!((configuration_word(Intid(31)), configuration_edge(Intid(31))), (0xc04, 0x8000_0000));
        assert_eq!((configuration_word(Intid(32)), configuration_edge(Intid(33))), (0xc08, 0b1000));
        assert_eq!((route(Intid(32)), route(Intid(1019))), (0x6100, 0x7fd8));
        assert_eq!((0..16).fold(0, |word, intid| word | configuration_edge(Intid(intid))), ICFGR_EDGES);
        assert_eq!(
            [IGROUPR, ISENABLER, ICENABLER, ISPENDR, ICPENDR, ISACTIVER, ICACTIVER],
            [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380]
        );
    }
}
