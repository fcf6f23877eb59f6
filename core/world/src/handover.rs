//! Urgent interrupts of the non-secure world change hands while it does not run (SG-44, SG-85).
//!
//! An interrupt of the non-secure world is not signalled while the secure one runs, so one that is urgent is made the payload's for as
//! long as the world is absent:
//!
//! | when | what | function |
//! | --- | --- | --- |
//! | a server task is switched out | *armed*: group 1 secure, priority [`PRIORITY`] | [`HandOver::arm`] |
//! | it arrives | *fired*: disabled, its server starts; the payload's port ends it | [`HandOver::fire`] |
//! | a server task is switched in | group, priority and, if it fired, enable bit and lost edge are as the world left them | [`HandOver::hand_back`] |
//!
//! What holds, whatever the world does (the test below goes through every instant):
//!
//! - The group of an interrupt does not change while it is active (IHI 0069, 4.6.2). One whose handler was cut off is not armed, and [`HandOver::arm`] names
//!   its server, so that the handler goes on there.
//! - No interrupt is of group 0 at any instant: IGRPMODR is written first on the way out and last on the way back.
//! - The world never runs while one is armed, so its own enable bit counts: one that it has disabled is not armed.
//! - An interrupt fires once per absence at most, because it is disabled then, and no edge is lost: who took it makes it pending again. Two edges
//!   in one absence are one interrupt, as they are in a world whose interrupts are masked.
//!
//! The world's own priority is worth nothing against what it has not ended: an interrupt of equal priority would be hidden. So an armed
//! one has the least urgent priority of the secure half, below all that the payload has.
//!
//! All functions run with interrupts masked and change words that hold bits of other interrupts too. Groups are written by the payload
//! alone; the other registers have one bit per write, or bytes.

use crate::flash::{MOST_URGENT, UrgentPlan};
use crate::interrupts::IGRPMODR;
use bulkhead_arm::Intid;
use bulkhead_arm::gic::{
    ICENABLER, ICFGR, ICFGR_EDGE, IGROUPR, ISACTIVER, ISENABLER, ISPENDR, bit_word, priority_byte,
};

/// Priority of an armed interrupt: in the secure half, and less urgent than all interrupts of the payload.
pub const PRIORITY: u8 = 0x78;

/// Registers of the interrupt controller, as the secure world sees them. The frame follows from the interrupt: the SGI frame of the core's
/// redistributor for private ones, else the distributor.
pub trait Registers {
    /// Reads 32 bits at an offset.
    fn read(&self, of: Intid, offset: u64) -> u32;
    /// Writes 32 bits at an offset.
    fn write(&mut self, of: Intid, offset: u64, value: u32);
    /// Reads a byte at an offset.
    fn read_byte(&self, of: Intid, offset: u64) -> u8;
    /// Writes a byte at an offset.
    fn write_byte(&mut self, of: Intid, offset: u64, value: u8);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The world's.
    Theirs,
    /// The payload's, with the priority that the world gave it.
    Armed(u8),
    /// It arrived, and is disabled.
    Fired(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    intid: Intid,
    server: usize,
    state: State,
}

/// The urgent interrupts of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    sources: [Option<Source>; MOST_URGENT],
}

impl HandOver {
    /// No urgent interrupt.
    #[must_use]
    pub const fn none() -> Self {
        Self { sources: [None; MOST_URGENT] }
    }

    /// Those of a plan, which are the world's. Software-generated ones (and 0, which stands for none) and special numbers are left out.
    #[must_use]
    pub fn new(plan: &[UrgentPlan; MOST_URGENT]) -> Self {
        let of = |urgent: &UrgentPlan| {
            let intid = Intid(urgent.intid);
            let is_line = !intid.is_software_generated() && intid.0 < Intid::FIRST_SPECIAL;
            is_line.then_some(Source { intid, server: urgent.server as usize, state: State::Theirs })
        };
        // One behind the other, so that a look at all of them ends behind the last.
        let mut sources = [None; MOST_URGENT];
        for (place, source) in sources.iter_mut().zip(plan.iter().filter_map(of)) {
            *place = Some(source);
        }
        Self { sources }
    }

    /// The world does not run any more: its urgent interrupts are the payload's. Returns the servers, a bit for each, in whose interrupts'
    /// handlers the world stands.
    pub fn arm(&mut self, registers: &mut impl Registers) -> u32 {
        let mut cut_off = 0;
        for source in self.sources.iter_mut().map_while(Option::as_mut).filter(|source| source.state == State::Theirs) {
            if has_bit(registers, ISACTIVER, source.intid) {
                cut_off |= 1u32.checked_shl(source.server as u32).unwrap_or(0);
            } else if has_bit(registers, ISENABLER, source.intid) {
                let at = priority_byte(source.intid);
                source.state = State::Armed(registers.read_byte(source.intid, at));
                registers.write_byte(source.intid, at, PRIORITY);
                set_group_bit(registers, IGRPMODR, source.intid, true);
                set_group_bit(registers, IGROUPR, source.intid, false);
            }
        }
        cut_off
    }

    /// An interrupt arrived at the payload. Returns the server to start; `None` if it is none of these, or has fired already.
    pub fn fire(&mut self, intid: Intid, registers: &mut impl Registers) -> Option<usize> {
        let source = self.sources.iter_mut().map_while(Option::as_mut).find(|source| source.intid == intid)?;
        let State::Armed(priority) = source.state else { return None };
        registers.write(intid, bit_word(ICENABLER, intid), intid.bit());
        source.state = State::Fired(priority);
        Some(source.server)
    }

    /// The world is going to run: its interrupts are its own again. Returns false when one is still being handled by the payload: then the world
    /// must not run yet, and the caller asks again after that handler.
    #[must_use]
    pub fn hand_back(&mut self, registers: &mut impl Registers) -> bool {
        let mut all = true;
        for source in self.sources.iter_mut().map_while(Option::as_mut) {
            let Source { intid, state, .. } = *source;
            let (State::Armed(priority) | State::Fired(priority)) = state else { continue };
            if has_bit(registers, ISACTIVER, intid) {
                all = false;
                continue;
            }
            source.state = State::Theirs;
            set_group_bit(registers, IGROUPR, intid, true);
            set_group_bit(registers, IGRPMODR, intid, false);
            registers.write_byte(intid, priority_byte(intid), priority);
            if matches!(state, State::Fired(_)) {
                if is_edge(registers, intid) {
                    registers.write(intid, bit_word(ISPENDR, intid), intid.bit());
                }
                registers.write(intid, bit_word(ISENABLER, intid), intid.bit());
            }
        }
        all
    }

    /// States whether one is the payload's: then the world must not run.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.sources.iter().map_while(Option::as_ref).any(|source| source.state != State::Theirs)
    }
}

fn has_bit(registers: &impl Registers, register: u64, intid: Intid) -> bool {
    registers.read(intid, bit_word(register, intid)) & intid.bit() != 0
}

fn set_group_bit(registers: &mut impl Registers, register: u64, intid: Intid, is_set: bool) {
    let offset = bit_word(register, intid);
    let others = registers.read(intid, offset) & !intid.bit();
    registers.write(intid, offset, others | if is_set { intid.bit() } else { 0 });
}

/// Two bits for each interrupt, 16 in a word.
fn is_edge(registers: &impl Registers, intid: Intid) -> bool {
    let offset = ICFGR.wrapping_add(u64::from(intid.0 >> 4).wrapping_mul(4));
    let pair = registers.read(intid, offset).wrapping_shr((intid.0 & 15).wrapping_mul(2));
    pair & ICFGR_EDGE != 0
}
