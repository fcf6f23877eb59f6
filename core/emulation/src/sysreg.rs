//! Trapped system registers and cache maintenance by set/way.
//!
//! Which accesses trap is decided by HCR_EL2, MDCR_EL2 and CPTR_EL2 in the plan; [`classify`] answers every encoding that
//! can arrive, so that a sweep over all of them finds a defined answer (QV-13). The rule per group and its reason are in
//! [`crate::registers`], which a test compares with this code.
//!
//! The rejected alternative, emulating the debug and performance registers per vCPU, is 200 words of guest state for
//! features that no guest of this system needs to run; stock Linux boots with "read zero, ignore writes".

use crate::trap::{SystemAccess, encoding};
use bulkhead_arm::SgiRequest;

/// What the monitor does with a trapped access. Every action but `Undefined` is followed by skipping the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemAction {
    /// Write of ICC_SGI1R_EL1: [`sgi_targets`] decodes its value.
    SendSgi1,
    /// A write without effect.
    IgnoreWrite,
    /// A read of this value.
    Read(u64),
    /// DC ISW, CSW or CISW: nothing is done and the access is counted. By set/way a guest would reach other partitions'
    /// lines, and no system that keeps caches coherent needs it (Arm ARM B2.8, "not suitable in a coherent system").
    SetWay,
    /// Inject UNDEFINED into the guest.
    Undefined,
}

/// ICC_SGI1R_EL1.
const ICC_SGI1R: u32 = encoding(3, 0, 12, 11, 5);
/// ICC_ASGI1R_EL1.
const ICC_ASGI1R: u32 = encoding(3, 0, 12, 11, 6);
/// ICC_SGI0R_EL1.
const ICC_SGI0R: u32 = encoding(3, 0, 12, 11, 7);
/// ICC_SRE_EL1.
const ICC_SRE: u32 = encoding(3, 0, 12, 12, 5);
/// ICC_IGRPEN0_EL1.
const ICC_IGRPEN0: u32 = encoding(3, 0, 12, 12, 6);
/// ICC_IAR0_EL1 and ICC_HPPIR0_EL1.
const ICC_IAR0: u32 = encoding(3, 0, 12, 8, 0);
const ICC_HPPIR0: u32 = encoding(3, 0, 12, 8, 2);
/// ACTLR_EL1.
const ACTLR: u32 = encoding(3, 0, 1, 0, 1);
/// OSLSR_EL1.
const OSLSR: u32 = encoding(2, 0, 1, 1, 4);
/// DC ISW.
const DC_ISW: u32 = encoding(1, 0, 7, 6, 2);
/// DC CSW.
const DC_CSW: u32 = encoding(1, 0, 7, 10, 2);
/// DC CISW.
const DC_CISW: u32 = encoding(1, 0, 7, 14, 2);

/// INTID that says that there is no interrupt.
const NO_INTERRUPT: u64 = 1023;
/// ICC_SRE_EL1: system registers on (SRE), no bypass of the interrupt controller (DFB, DIB).
const SYSTEM_REGISTERS_ON: u64 = 7;
/// OSLSR_EL1: OS lock implemented (OSLM = 0b10), not locked.
const OS_LOCK_OPEN: u64 = 0x8;

/// Decides about a trapped access.
#[must_use]
#[inline]
pub fn classify(access: SystemAccess) -> SystemAction {
    match (access.encoding, access.read) {
        (ICC_SGI1R, false) => SystemAction::SendSgi1,
        // Group 0 and the other security state do not exist for the guest.
        (ICC_SGI0R | ICC_ASGI1R, false) => SystemAction::IgnoreWrite,
        (DC_ISW | DC_CSW | DC_CISW, false) => SystemAction::SetWay,
        (OSLSR, true) => SystemAction::Read(OS_LOCK_OPEN),
        (ICC_IAR0 | ICC_HPPIR0, true) => SystemAction::Read(NO_INTERRUPT),
        (ICC_SRE, true) => SystemAction::Read(SYSTEM_REGISTERS_ON),
        (encoding, true) if reads_as_zero(encoding) => SystemAction::Read(0),
        (encoding, false) if reads_as_zero(encoding) => SystemAction::IgnoreWrite,
        _ => SystemAction::Undefined,
    }
}

/// Registers that read as zero and ignore writes: ACTLR_EL1, group 0 of the interrupt controller's CPU interface (S3_0_C12_C8
/// and ICC_IGRPEN0_EL1), debug and performance monitors by op0, op1, CRn and CRm. ICC_SRE_EL1 ignores writes only.
///
/// Debug: op0 = 2 with op1 = 0 (EL1) or 3 (debug communication channel at EL0). op1 = 1 is trace (Arm ARM D17.1.2, table of
/// debug registers), which is not announced to the guest. Performance monitors (Arm ARM D17.5): PMINTEN*, PMMIR at
/// S3_0_C9_C14, the EL0 registers at S3_3_C9_C12..14, the event counters, types and the cycle filter at S3_3_C14_C8..15.
const fn reads_as_zero(encoding: u32) -> bool {
    let group = (encoding >> 20 & 3, encoding >> 14 & 7, encoding >> 10 & 15, encoding >> 1 & 15);
    let is_listed =
        matches!(group, (2, 0 | 3, _, _) | (3, 0, 9, 14) | (3, 0, 12, 8) | (3, 3, 9, 12..=14) | (3, 3, 14, 8..=15));
    matches!(encoding, ACTLR | ICC_IGRPEN0 | ICC_SRE) || is_listed
}

/// The SGI that belongs to the monitor (design record 0002).
const MONITOR_SGI: u32 = 15;

/// A decoded ICC_SGI1R_EL1 write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SgiTargets {
    /// SGI number, 0-14 whenever `vcpus` is not zero.
    pub intid: u32,
    /// Bit n: send to vCPU n.
    pub vcpus: u32,
    /// Targets named outside the partition, or named with an SGI that is not the guest's; not delivered, counted.
    pub refused: u32,
}

/// Decodes ICC_SGI1R_EL1 with virtual affinities: vCPU n has affinity 0.0.0.n.
///
/// "All but self" (IRM) means all other vCPUs of the partition, never of the board (QV-16).
#[must_use]
#[inline]
pub fn sgi_targets(value: u64, sender: u32, vcpu_count: u32) -> SgiTargets {
    let request = SgiRequest(value);
    let intid = request.intid().0;
    let own = (1u32 << (vcpu_count & 31)).wrapping_sub(1);
    let named = if request.is_all_but_self() { own & !(1 << (sender & 31)) } else { request.targets() };
    // The fields that name a cluster are zero for every vCPU.
    let foreign = !request.is_all_but_self() && value & SgiRequest::CLUSTER != 0;
    let vcpus = if foreign || intid == MONITOR_SGI { 0 } else { named & own };
    SgiTargets { intid, vcpus, refused: (named & !vcpus).count_ones() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use crate::trap::Syndrome;

    fn access(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32, read: bool) -> SystemAccess {
        SystemAccess { encoding: encoding(op0, op1, crn, crm, op2), register: 0, read }
    }

    #[test]
    fn what_stock_linux_touches_is_not_undefined() {
        // arm64 6.1 on a Cortex-A53 that announces debug v8 and PMUv3: head.S, debug-monitors.c, hw_breakpoint.c.
        let touched = [
            ((2, 0, 1, 0, 4), "OSLAR_EL1"),
            ((2, 0, 1, 3, 4), "OSDLR_EL1"),
            ((2, 0, 0, 2, 2), "MDSCR_EL1"),
            ((2, 0, 0, 5, 4), "DBGBVR5_EL1"),
            ((2, 0, 0, 5, 5), "DBGBCR5_EL1"),
            ((2, 0, 0, 3, 6), "DBGWVR3_EL1"),
            ((2, 0, 0, 3, 7), "DBGWCR3_EL1"),
            ((3, 3, 9, 14, 0), "PMUSERENR_EL0"),
            ((3, 3, 9, 12, 0), "PMCR_EL0"),
            ((3, 0, 12, 8, 4), "ICC_AP0R0_EL1"),
        ];
        for ((op0, op1, crn, crm, op2), name) in touched {
            assert_eq!(classify(access(op0, op1, crn, crm, op2, false)), SystemAction::IgnoreWrite, "{name}");
            assert_eq!(classify(access(op0, op1, crn, crm, op2, true)), SystemAction::Read(0), "{name}");
        }
    }

    #[test]
    fn named_registers_have_their_action() {
        assert_eq!(classify(access(3, 0, 12, 11, 5, false)), SystemAction::SendSgi1);
        assert_eq!(classify(access(3, 0, 12, 11, 5, true)), SystemAction::Undefined); // write-only
        assert_eq!(classify(access(3, 0, 12, 11, 6, false)), SystemAction::IgnoreWrite);
        assert_eq!(classify(access(3, 0, 12, 11, 7, false)), SystemAction::IgnoreWrite);
        assert_eq!(classify(access(1, 0, 7, 6, 2, false)), SystemAction::SetWay);
        assert_eq!(classify(access(1, 0, 7, 10, 2, false)), SystemAction::SetWay);
        assert_eq!(classify(access(1, 0, 7, 14, 2, false)), SystemAction::SetWay);
        assert_eq!(classify(access(2, 0, 1, 1, 4, true)), SystemAction::Read(8));
        assert_eq!(classify(access(3, 0, 12, 8, 0, true)), SystemAction::Read(1023)); // ICC_IAR0_EL1
        assert_eq!(classify(access(3, 0, 12, 12, 5, true)), SystemAction::Read(7)); // ICC_SRE_EL1
        assert_eq!(classify(access(3, 1, 15, 2, 0, true)), SystemAction::Undefined); // CPUACTLR_EL1
        assert_eq!(classify(access(2, 1, 0, 0, 2, true)), SystemAction::Undefined); // trace
    }

    #[test]
    fn a_sweep_over_all_encodings_sends_nothing_but_sgi1r() {
        // QV-13: all 65,536 encodings in both directions.
        let mut sends = 0;
        for bits in 0..=0xffffu64 {
            for read in 0..2u64 {
                let syndrome = Syndrome(
                    (0x18 << 26)
                        | (bits >> 14) << 20
                        | ((bits & 7) << 17)
                        | ((bits >> 11 & 7) << 14)
                        | ((bits >> 7 & 15) << 10)
                        | ((bits >> 3 & 15) << 1)
                        | read,
                );
                let access = syndrome.system_access();
                match classify(access) {
                    SystemAction::SendSgi1 => sends += 1,
                    SystemAction::Read(_) => assert!(access.read),
                    SystemAction::IgnoreWrite | SystemAction::SetWay => assert!(!access.read),
                    SystemAction::Undefined => {}
                }
            }
        }
        assert_eq!(sends, 1);
    }

    #[test]
    fn sgi_decoding_stays_inside_the_partition() {
        assert_eq!(sgi_targets(0x0300_0003, 0, 2), SgiTargets { intid: 3, vcpus: 0b11, refused: 0 });
        // IRM: all but the sender.
        assert_eq!(sgi_targets((1 << 40) | (5 << 24), 1, 4), SgiTargets { intid: 5, vcpus: 0b1101, refused: 0 });
        // A list beyond the vCPUs, another cluster, the monitor's SGI.
        assert_eq!(sgi_targets(0xffff, 0, 2), SgiTargets { intid: 0, vcpus: 0b11, refused: 14 });
        assert_eq!(sgi_targets(0x0001_0003, 0, 2), SgiTargets { intid: 0, vcpus: 0, refused: 2 });
        assert_eq!(sgi_targets(0x0f00_0001, 0, 2), SgiTargets { intid: 15, vcpus: 0, refused: 1 });
        let mut random = Random::new(4);
        for _ in 0..100_000 {
            let count = 1 + random.below(8) as u32;
            let sender = random.below(u64::from(count)) as u32;
            let value = random.hostile();
            let targets = sgi_targets(value, sender, count);
            assert_eq!(targets.vcpus >> count, 0, "{value:#x}");
            assert!(targets.intid < 15 || targets.vcpus == 0);
            if value & (1 << 40) != 0 {
                assert_eq!(targets.vcpus & (1 << sender), 0);
            } else if value & 0x00ff_f0ff_00ff_0000 != 0 {
                assert_eq!(targets.vcpus, 0);
            }
        }
    }
}
