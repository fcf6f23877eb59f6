//! The interrupt controller as EL2 sees it, in each form that boards have (IHI 0069, 4.8, and 12.9 for the registers).
//!
//! Its words hold physical priorities of five bits. With two security states what EL2 reads and writes is the non-secure half, and
//! interrupts that firmware kept read as zero and cannot be written.

use super::*;
use bulkhead_arm::gic::{GICD_CTLR, GICD_TYPER, bit_word, priority_byte};

/// What the security states of a board make of the interrupt controller that EL2 sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// One security state: EL2 sees everything.
    #[default]
    One,
    /// Two, and firmware takes the interrupts of group 0 (SCR_EL3.FIQ): EL2 has the non-secure view of the priority mask too.
    Two,
    /// Two, and firmware takes none: the priority mask is the physical one. So it is on QEMU without firmware.
    TwoPhysicalMask,
}

impl View {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::TwoPhysicalMask];

    /// Security states, as a board file says.
    #[must_use]
    pub const fn security_states(self) -> u32 {
        if matches!(self, Self::One) { 1 } else { 2 }
    }

    /// The physical priority of what EL2 writes.
    const fn physical(self, written: u8) -> u8 {
        let physical = if matches!(self, Self::One) { written } else { 0x80 | written >> 1 };
        physical & FIVE_BITS
    }

    /// What EL2 reads of a physical priority.
    const fn seen(self, physical: u8) -> u8 {
        if matches!(self, Self::One) { physical } else { physical << 1 }
    }
}

const FIVE_BITS: u8 = 0xf8;

impl FakeMachine {
    /// A machine whose interrupt controller has these frames and this form: reset, with all interrupts in non-secure group 1 but the
    /// ones that a test puts into [`FakeState::secure`].
    #[must_use]
    pub fn with_controller(view: View, gicd: PhysicalAddress, gicr: PhysicalAddress) -> Self {
        let machine = Self::default();
        machine.view.set(view);
        machine.mask.set(if view == View::Two { FIVE_BITS } else { 0 }); // firmware has let the non-secure world have it
        machine.frames.set([gicd.0, gicr.0 + gic::SGI_FRAME]);
        machine
    }
}

impl FakeState {
    /// The frame of an address, as the first INTID that it has, and the offset in it.
    fn place(&self, address: u64) -> Option<(u32, u64)> {
        let offsets = self.frames.get().map(|frame| address.wrapping_sub(frame));
        let number = offsets.iter().position(|offset| *offset < gic::ICFGR)?;
        let is_there = self.frames.get()[number] != 0;
        is_there.then_some((if number == 0 { 32 } else { 0 }, offsets[number]))
    }

    /// Firmware kept this interrupt for the secure world, and there is one.
    fn is_secure(&self, intid: u32) -> bool {
        self.view.get() != View::One && self.secure.borrow().contains(&intid)
    }

    /// The interrupts of a register with one bit for each that are not EL2's.
    fn secure_bits(&self, first_intid: u32, register: u64) -> u32 {
        let first = (register as u32 & 0x7c) * 8;
        let own = |intid: u32| (intid >= 32) == (first_intid == 32) && self.is_secure(intid);
        (0..32).filter(|bit| own(first + bit)).fold(0, |bits, bit| bits | 1 << bit)
    }

    /// What a byte of a register reads as to EL2, when its word holds this.
    pub(super) fn seen8(&self, address: u64, byte: u8) -> u8 {
        let Some((_, register @ gic::IPRIORITYR..gic::ITARGETSR)) = self.place(address) else { return byte };
        if self.is_secure((register - gic::IPRIORITYR) as u32) { 0 } else { self.view.get().seen(byte) }
    }

    /// What a byte holds after EL2 wrote this; `None` when the write has no effect.
    pub(super) fn stored8(&self, address: u64, value: u8) -> Option<u8> {
        let Some((_, register @ gic::IPRIORITYR..gic::ITARGETSR)) = self.place(address) else { return Some(value) };
        let is_secure = self.is_secure((register - gic::IPRIORITYR) as u32);
        (!is_secure).then(|| self.view.get().physical(value))
    }

    /// As [`Self::seen8`] for a word.
    pub(super) fn seen32(&self, address: u64, word: u32) -> u32 {
        let is_one = self.view.get() == View::One;
        match self.place(address) {
            Some((32, GICD_CTLR)) if is_one => word | gic::GICD_CTLR_ONE_SECURITY_STATE,
            Some((32, GICD_TYPER)) if is_one => word | LINES,
            Some((32, GICD_TYPER)) => word | LINES | gic::GICD_TYPER_SECURITY_STATES,
            Some((_, gic::IGROUPR..gic::ISENABLER)) if !is_one => 0,
            Some((first, register @ gic::ISENABLER..gic::IPRIORITYR)) => word & !self.secure_bits(first, register),
            Some((_, gic::IPRIORITYR..gic::ITARGETSR)) => {
                by_byte(address, word, |address, byte| self.seen8(address, byte))
            }
            _ => word,
        }
    }

    /// As [`Self::stored8`] for a word.
    pub(super) fn stored32(&self, address: u64, value: u32) -> Option<u32> {
        match self.place(address) {
            Some((32, GICD_CTLR)) => Some(value & (gic::GICD_CTLR_AFFINITY_ROUTING | gic::GICD_CTLR_GROUP_1)),
            Some((_, gic::IGROUPR..gic::ISENABLER)) if self.view.get() != View::One => None,
            Some((first, register @ gic::ISENABLER..gic::IPRIORITYR)) => {
                Some(value & !self.secure_bits(first, register))
            }
            Some((_, gic::IPRIORITYR..gic::ITARGETSR)) => {
                Some(by_byte(address, value, |address, byte| self.stored8(address, byte).unwrap_or(0)))
            }
            _ => Some(value),
        }
    }

    /// ICC_PMR_EL1 := `mask`. In the non-secure view there is no writing while the mask is a secure one.
    pub(super) fn set_mask(&self, mask: u8) {
        match self.view.get() {
            View::Two if self.mask.get() < 0x80 => {}
            view @ View::Two => self.mask.set(view.physical(mask)),
            View::One | View::TwoPhysicalMask => self.mask.set(mask & FIVE_BITS),
        }
    }

    /// Reads ICC_PMR_EL1. In the non-secure view a secure mask reads as zero.
    pub(super) fn seen_mask(&self) -> u8 {
        match self.view.get() {
            View::Two if self.mask.get() < 0x80 => 0,
            view @ View::Two => view.seen(self.mask.get()),
            View::One | View::TwoPhysicalMask => self.mask.get(),
        }
    }

    /// States whether a pending interrupt is signalled to this core: its group is enabled in distributor and CPU interface, and it is
    /// more urgent than the mask.
    pub(super) fn is_signalled(&self, intid: u32) -> bool {
        let intid = Intid(intid);
        let [gicd, private] = self.frames.get();
        let frame = if intid.is_private() { private } else { gicd };
        let word = |address: u64| (self.word(address) >> ((address & 4) * 8)) as u32;
        let in_group = match self.view.get() {
            View::One => word(frame + bit_word(gic::IGROUPR, intid)) & intid.bit() != 0,
            View::Two | View::TwoPhysicalMask => !self.is_secure(intid.0),
        };
        let enables = gic::GICD_CTLR_AFFINITY_ROUTING | gic::GICD_CTLR_GROUP_1;
        let priority = frame + priority_byte(intid);
        let priority = (self.word(priority) >> ((priority & 7) * 8)) as u8;
        self.signals.get() && word(gicd) & enables == enables && in_group && priority < self.mask.get()
    }
}

/// The word at an address with each of its bytes changed.
fn by_byte(address: u64, word: u32, change: impl Fn(u64, u8) -> u8) -> u32 {
    let bytes = word.to_le_bytes();
    u32::from_le_bytes(std::array::from_fn(|place| change(address + place as u64, bytes[place])))
}

/// GICD_TYPER.ITLinesNumber of 256 INTIDs.
const LINES: u32 = 7;
