//! The interrupt controller: enables and priorities in the redistributor, interrupts that are pending and active.

use crate::{Pattern, expect};
use bulkhead_sdk::{
    arm::gic,
    interrupt::{self, InterruptId},
    mmio,
};
use core::arch::asm;

const ISENABLER0: u64 = gic::SGI_FRAME + gic::ISENABLER;
const ICENABLER0: u64 = gic::SGI_FRAME + gic::ICENABLER;
const IPRIORITYR: u64 = gic::SGI_FRAME + gic::IPRIORITYR;
/// Software-generated interrupts of a guest, and its two timers.
const OWN: u32 = 0x7fff | InterruptId::VIRTUAL_TIMER.bit() | InterruptId::PHYSICAL_TIMER.bit();
const SOFTWARE: u32 = 15;
/// Most urgent priority of a guest's interrupt.
const MOST_URGENT: u64 = 8;
/// No interrupt.
const NONE: u64 = InterruptId::NONE.0 as u64;
/// Priority when nothing is active.
const IDLE_PRIORITY: u64 = 0xff;

macro_rules! get {
    ($register:literal) => {{
        let value: u64;
        // SAFETY: reads a register of this guest's CPU interface; interrupts are masked.
        unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

macro_rules! set {
    ($register:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: a register of this guest's CPU interface; interrupts are masked.
        unsafe { asm!(concat!("msr ", $register, ", {}"), "isb", in(reg) value, options(nostack, preserves_flags)) };
    }};
}

fn frame() -> u64 {
    interrupt::redistributor()
}

fn own() -> impl Iterator<Item = u32> {
    (0..32).filter(|intid| OWN & (1 << intid) != 0)
}

fn priority(intid: u32) -> u64 {
    // SAFETY: a redistributor register without a side effect.
    let word = unsafe { mmio::read32(frame() + IPRIORITYR + u64::from(intid & !3)) };
    u64::from(word >> ((intid & 3) * 8) & 0xff)
}

fn enabled() -> u64 {
    // SAFETY: a redistributor register without a side effect.
    u64::from(unsafe { mmio::read32(frame() + ISENABLER0) })
}

/// A start finds nothing enabled, pending or active.
pub(crate) fn expect_start() {
    expect("enabled interrupts at start", 0, enabled(), 0);
    for intid in own() {
        expect("priority at start of interrupt", intid.into(), priority(intid), 0xa0);
    }
    expect("running priority at start", 0, get!("ICC_RPR_EL1"), IDLE_PRIORITY);
    set!("ICC_PMR_EL1", 0xff);
    set!("ICC_IGRPEN1_EL1", 1);
    expect("interrupt pending at start", 0, get!("ICC_HPPIR1_EL1"), NONE);
    set!("ICC_IGRPEN1_EL1", 0);
    set!("ICC_PMR_EL1", 0);
}

/// What is pending and active during a round.
pub(crate) struct Raised {
    enabled: u32,
    priorities: [u64; 32],
    pending: u32,
    active: u64,
    running_priority: u64,
    point: u64,
}

/// Gives the interrupts priorities of their own, makes some pending and takes one of them.
pub(crate) fn raise(pattern: &mut Pattern) -> Raised {
    let mut priorities = [0; 32];
    for intid in own() {
        // Five bits; the least urgent one is what a priority mask of 0xff still holds back.
        let value = MOST_URGENT * (1 + pattern.next() % 30);
        priorities[intid as usize] = value;
        interrupt::set_priority(InterruptId(intid), value as u8);
    }
    let mut pending = 0u32;
    for _ in 0..2 + pattern.next() % 3 {
        pending |= 1 << (pattern.next() % u64::from(SOFTWARE));
    }
    let enabled = pending | pattern.next() as u32 & OWN;
    // SAFETY: redistributor registers of this guest. Timers may be enabled: they are off or masked.
    unsafe {
        mmio::write32(frame() + ICENABLER0, u32::MAX);
        mmio::write32(frame() + ISENABLER0, enabled);
    }
    set!("ICC_PMR_EL1", 0xff);
    set!("ICC_BPR1_EL1", 0);
    set!("ICC_IGRPEN1_EL1", 1);
    for intid in (0..SOFTWARE).filter(|intid| pending & (1 << intid) != 0) {
        interrupt::send(InterruptId(intid), 1);
    }
    let most_urgent = (0..SOFTWARE).filter(|intid| pending & (1 << intid) != 0).map(|intid| priorities[intid as usize]);
    let running_priority = most_urgent.min().unwrap_or(IDLE_PRIORITY);
    let active = get!("ICC_IAR1_EL1");
    let is_pending = active < u64::from(SOFTWARE) && pending & (1 << active) != 0;
    expect("taken interrupt is a pending one", active, u64::from(is_pending), 1);
    // Smaller points split priorities in fewer groups.
    let point = 3 + pattern.next() % 4;
    set!("ICC_BPR1_EL1", point);
    Raised { enabled, priorities, pending, active, running_priority, point }
}

impl Raised {
    /// Looks whether all of it is still so, and takes what is pending, each once.
    pub(crate) fn expect(self) {
        expect("binary point", 0, get!("ICC_BPR1_EL1"), self.point);
        expect("group enable", 0, get!("ICC_IGRPEN1_EL1"), 1);
        set!("ICC_BPR1_EL1", 0);
        set!("ICC_PMR_EL1", 0xff);
        set!("ICC_CTLR_EL1", 0);
        expect("running priority", self.active, get!("ICC_RPR_EL1"), self.running_priority);
        expect("enabled interrupts", 0, enabled(), u64::from(self.enabled));
        for intid in own() {
            expect("priority of interrupt", intid.into(), priority(intid), self.priorities[intid as usize]);
        }
        set!("ICC_EOIR1_EL1", self.active);
        let mut left = self.pending & !(1 << (self.active & 31));
        for _ in 0..SOFTWARE {
            let intid = get!("ICC_IAR1_EL1");
            if intid == NONE {
                break;
            }
            let waited = intid < u64::from(SOFTWARE) && left & (1 << intid) != 0;
            expect("taken interrupt is one that was left", intid, u64::from(waited), 1);
            left &= !(1 << (intid & 31));
            set!("ICC_EOIR1_EL1", intid);
        }
        expect("interrupts that were lost", 0, left.into(), 0);
        expect("running priority of nothing", 0, get!("ICC_RPR_EL1"), IDLE_PRIORITY);
    }
}
