//! The filter in front of the GICv3 distributor and redistributors (Arm IHI 0069, chapter 12).
//!
//! A guest sees the physical INTIDs that it owns and nothing else (design record 0002). Enable, pending, active state and
//! route live in the real GIC; this module masks each access to the partition's own interrupts and forwards it through
//! set/clear words and single bytes, so that two cores of different partitions never write the same bits and no lock is
//! needed. Priorities are kept as guests write them, and those of the GIC are made from them ([`physical_priority`]), because
//! EL2 may see fewer levels than a guest has. Registers that pack several owners into one word without such a form (GICD_CTLR,
//! IGROUPR, ICFGR) are written once at boot from the plan; a guest's write to them is compared with what it reads and has no
//! effect.
//!
//! What the filter closes (`platform-facts.md` part 1): **A8** no interrupt of a `mapped` guest has priority 0, the monitor's own (one
//! of a `direct` guest may: it is routed to a core where the monitor takes none); **A10** group and enable bits of others are
//! never written; **A11** the distributor cannot be switched off.
//!
//! Rejected: a software distributor. It needs state per interrupt, a lock or a message between cores, and re-injection
//! code, all of it at EL2; the filter needs eight words that never change.

mod bank;
mod distributor;
mod redistributor;

pub use redistributor::FRAME_BYTES;

use bulkhead_abi::plan::{MAX_INTID, PartitionPlan};
use bulkhead_arm::{Intid, gic};

/// Words of 32 INTIDs in a partition's ownership table.
pub const WORDS: usize = (MAX_INTID / 32) as usize;

/// Bits of a priority that list registers have on the boards in use (ICH_VTR_EL2.PRIbits): a guest has 32 levels on every board.
pub const PRIORITY_BITS: u8 = 0xf8;
/// Most urgent priority that the interrupt controller has for an interrupt of a guest, as EL2 sees it. A mask of this value
/// lets the monitor's own interrupts through and no guest's.
pub const MOST_URGENT_PHYSICAL: u8 = 0x10;
/// Least urgent one.
pub const LEAST_URGENT_PHYSICAL: u8 = 0xe0;

/// The priority that the interrupt controller has for an interrupt to which a `mapped` guest gave this one.
///
/// It decides which of several pending interrupts EL2 acknowledges first and nothing else: what the guest wrote is what it reads
/// and what its list registers have, so it loses nothing by levels that fall together here. With two security states EL2 has
/// 16 levels, 0x00 to 0xf0 (IHI 0069, 4.8): the first is the monitor's own (attack A8), and the last is never signalled, since the
/// largest mask is no less urgent. With one there are 32, 0x00 to 0xf8; the limits are the same, because what does not depend on the
/// board cannot be wrong for it.
#[must_use]
pub fn physical_priority(priority: u8) -> u8 {
    priority.clamp(MOST_URGENT_PHYSICAL, LEAST_URGENT_PHYSICAL)
}

/// SGIs and PPIs of every core that belong to its partition: SGI 0-14, PPI 27 (CNTV), PPI 30 (CNTP). SGI 15, PPI 25
/// (maintenance) and PPI 26 (CNTHP) are the monitor's.
pub const PRIVATE_INTERRUPTS: u32 = 0x7fff | Intid::VIRTUAL_TIMER.bit() | Intid::PHYSICAL_TIMER.bit();

/// GICD_CTLR as the guest reads it: DS, ARE, EnableGrp1 (one security state).
const DISTRIBUTOR_CONTROL: u32 =
    gic::GICD_CTLR_ONE_SECURITY_STATE | gic::GICD_CTLR_AFFINITY_ROUTING | gic::GICD_CTLR_GROUP_1;
/// GICD_IIDR and GICR_IIDR: implementer Arm (0x43b), product `B`. Guests select errata by it, so no real product.
const IMPLEMENTER: u32 = 0x4200_043b;
/// GICD_PIDR2 and GICR_PIDR2: architecture revision 3 (GICv3).
const PERIPHERAL_ID2: u32 = 0x3b;

/// [`PRIVATE_INTERRUPTS`] as an ownership table: redistributors have SGIs and PPIs in word 0 and nothing else.
static PRIVATE_WORDS: [u32; WORDS] = [PRIVATE_INTERRUPTS, 0, 0, 0, 0, 0, 0, 0];

/// Which interrupts a partition owns. Built once from its plan; 32 bytes that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OwnedInterrupts {
    /// Bit n of word w: SPI 32w + n is the partition's. Word 0 is empty: with affinity routing the distributor has no
    /// SGIs or PPIs (GICD_ISENABLER0 and its kin are RES0).
    shared: [u32; WORDS],
}

impl OwnedInterrupts {
    /// Collects the interrupts of a plan. Numbers below 32 or outside the table are left out.
    #[must_use]
    pub fn from_plan(plan: &PartitionPlan) -> Self {
        let mut shared = [0u32; WORDS];
        let planned = plan.interrupts().iter();
        for interrupt in planned.filter(|interrupt| !Intid(interrupt.intid).is_private()) {
            if let Some(word) = shared.get_mut(Intid(interrupt.intid).word() as usize) {
                *word |= Intid(interrupt.intid).bit();
            }
        }
        Self { shared }
    }

    /// States whether the partition owns this interrupt, private ones included.
    #[must_use]
    pub fn owns(&self, intid: u32) -> bool {
        let intid = Intid(intid);
        let words = if intid.is_private() { &PRIVATE_WORDS } else { &self.shared };
        words.get(intid.word() as usize).is_some_and(|word| word & intid.bit() != 0)
    }

    /// Returns the owned SPIs, one word per 32 INTIDs; word 0 is zero. For initialisation and restart.
    #[must_use]
    pub const fn shared_words(&self) -> &[u32; WORDS] {
        &self.shared
    }
}

/// Access to the physical frame: the distributor, or the own redistributor pair (RD frame, SGI frame at +64 KiB).
///
/// `offset` is relative to the frame's base, naturally aligned, and always that of a register named in this module. The
/// implementer performs exactly one access of the given width.
pub trait GicPort {
    /// Reads 32 bits.
    fn read32(&self, offset: u64) -> u32;
    /// Writes 32 bits.
    fn write32(&self, offset: u64, value: u32);
    /// Reads the priority of an own interrupt (GICD_IPRIORITYR or GICR_IPRIORITYR), as its guest wrote it.
    fn priority(&self, intid: u32) -> u8;
    /// Takes what the guest wrote as the priority of an own interrupt.
    fn write_priority(&self, intid: u32, priority: u8);
    /// Reads 64 bits (GICD_IROUTER).
    fn read64(&self, offset: u64) -> u64;
    /// Routes an own interrupt to the core with this affinity (GICD_IROUTER).
    fn write_route(&self, intid: u32, affinity: u64);
}

/// A frame of the GIC as a partition may use it.
///
/// A read without an answer has no register of that width behind it (IHI 0069, 12.1, access sizes), or one of another vCPU;
/// the guest reads zero. A write answers whether everything was done that the guest asked for, or was so already; if not, a bit
/// concerned an interrupt that is not its own, or a register that only the plan sets. The monitor counts both and
/// continues.
pub struct Filter<'a, Port> {
    /// The partition's interrupts.
    pub owned: &'a OwnedInterrupts,
    /// The partition's plan.
    pub plan: &'a PartitionPlan,
    /// The frame itself.
    pub port: Port,
}

/// Takes the half of a 64-bit register that a 32-bit access at this offset means.
const fn half(value: u64, offset: u64) -> u64 {
    if offset & 4 == 0 { value & 0xffff_ffff } else { value >> 32 }
}
