//! Every way from a vector to its end, with what each register holds there.
//!
//! A way is followed with values that say where they are from: what a register held when the vector was entered, what a word of a context
//! held, a constant. Conditional branches are followed both ways. Since nothing loops, all ways are few and short, and their lengths are
//! exact: the emulator's counts are compared with them.

use crate::instruction::{Instruction, STACK_POINTER, read};
use crate::program::{Program, Word};
use crate::registers::{encoding, name};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Offsets of the vectors that can be entered: exceptions in EL3 itself, and from AArch64 below.
pub const SLOTS: [u64; 8] = [0x200, 0x280, 0x300, 0x380, 0x400, 0x480, 0x500, 0x580];
/// Far more than a program of one page has without a loop.
const MOST_WAYS: usize = 256;
const LINK: usize = 30;

/// Where a value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// What this register held when the vector was entered.
    Entry(u32),
    /// A number.
    Constant(u64),
    /// What a system register held then, and something added to it.
    System(u16, i64),
    /// A 64-bit word, by its distance from where SP_EL3 was then.
    Word(i64),
    /// One of a few numbers.
    Few(Few),
    /// An address in the core's own line of words (TPIDR_EL3), from the first to the last of these distances, or 0.
    Line(i64, i64),
    /// Something computed.
    Computed,
}

/// A few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Few {
    /// The first [`Self::count`] are.
    values: [u64; 16],
    count: usize,
}

impl Few {
    /// Nothing when they are none or too many.
    fn of(mut numbers: impl Iterator<Item = u64>) -> Option<Self> {
        let mut few = Self { values: [0; 16], count: 0 };
        for (place, value) in few.values.iter_mut().zip(numbers.by_ref()) {
            (*place, few.count) = (value, few.count + 1);
        }
        (few.count > 0 && numbers.next().is_none()).then_some(few)
    }

    /// Them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.values.iter().copied().take(self.count)
    }

    /// What a sum of one of each may be.
    fn sums(self, other: Self, shift: u32) -> Option<Self> {
        Self::of(self.iter().flat_map(|one| other.iter().map(move |two| one.wrapping_add(two << shift))))
    }

    /// What an AND with these bits may leave.
    fn masks(bits: u64) -> Option<Self> {
        // The next one of the numbers that have no other bits.
        let next = |number: &u64| (*number != bits).then(|| number.wrapping_sub(bits) & bits);
        Self::of(std::iter::successors(Some(0), next))
    }
}

impl Value {
    /// The numbers that it may be, where they are few.
    fn few(self) -> Option<Few> {
        match self {
            Self::Constant(value) => Few::of([value].into_iter()),
            Self::Few(few) => Some(few),
            _ => None,
        }
    }

    fn of_few(few: Option<Few>) -> Self {
        match few {
            Some(Few { values, count: 1 }) => Self::Constant(values[0]),
            Some(few) => Self::Few(few),
            None => Self::Computed,
        }
    }

    /// Distances in the core's own line.
    fn line(self) -> Option<(i64, i64)> {
        match self {
            Self::System(register, distance) if Some(register) == encoding("tpidr_el3") => Some((distance, distance)),
            Self::Line(least, most) => Some((least, most)),
            _ => None,
        }
    }

    /// One of two.
    fn either(self, other: Self) -> Self {
        let zero = Self::Constant(0);
        match (self.line(), other.line()) {
            _ if self == other => self,
            (Some(one), Some(two)) => Self::Line(one.0.min(two.0), one.1.max(two.1)),
            (Some((least, most)), _) if other == zero => Self::Line(least, most),
            (_, Some((least, most))) if self == zero => Self::Line(least, most),
            _ => Self::Computed,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(number) => write!(f, "x{number} as it was"),
            Self::Constant(value) => write!(f, "{value:#x}"),
            Self::System(register, 0) => write!(f, "{} as it was", name(*register)),
            Self::System(register, more) => write!(f, "{} + {more}", name(*register)),
            Self::Word(distance) => write!(f, "the word at SP_EL3 {distance:+}"),
            Self::Few(few) => write!(f, "one of {:x?}", few.iter().collect::<Vec<_>>()),
            Self::Line(least, most) => write!(f, "TPIDR_EL3 {least:+} to {most:+}"),
            Self::Computed => f.write_str("computed"),
        }
    }
}

/// How a way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// With the ERET at this address.
    Return(u64),
    /// With the WFI at this address, for ever.
    Park(u64),
}

/// Bytes that are no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// From the first to the last of them.
    At(u64, u64),
    /// The same in the core's own line of words, by their distance from its front.
    Line(i64, i64),
}

/// What a way leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// x0 to x30.
    pub registers: [Value; 31],
    /// SP_EL3, as a distance from where it was.
    pub stack: i64,
    /// 64-bit words that were stored, by their distance from there.
    pub words: BTreeMap<i64, Value>,
    /// What was stored to elsewhere.
    pub elsewhere: BTreeSet<Place>,
    /// What was read elsewhere.
    pub read: BTreeSet<Place>,
    /// Writes to system registers, in their order.
    pub system: Vec<(u16, Value)>,
}

/// A way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Offset of its vector.
    pub slot: u64,
    /// Its instructions, first to last.
    pub steps: Vec<u64>,
    /// Its conditional branches, and whether each was taken.
    pub decisions: Vec<(u64, bool)>,
    /// Its end.
    pub end: End,
    /// What it leaves.
    pub state: State,
}

impl Way {
    /// What it leaves in a system register.
    #[must_use]
    pub fn system(&self, register: u16) -> Value {
        self.state.system(register)
    }
}

impl State {
    fn at_entry() -> Self {
        Self {
            registers: std::array::from_fn(|number| Value::Entry(number as u32)),
            stack: 0,
            words: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            read: BTreeSet::new(),
            system: Vec::new(),
        }
    }

    pub(crate) fn system(&self, register: u16) -> Value {
        let written = self.system.iter().rev().find(|(known, _)| *known == register);
        written.map_or(Value::System(register, 0), |(_, value)| *value)
    }

    /// A general register; 31 is zero.
    fn value(&self, register: u32) -> Value {
        self.registers.get(register as usize).copied().unwrap_or(Value::Constant(0))
    }

    fn set(&mut self, register: u32, value: Value) {
        if let Some(place) = self.registers.get_mut(register as usize) {
            *place = value;
        }
    }

    /// Does what an instruction does that goes on to the next one.
    fn apply(&mut self, instruction: Instruction) -> Result<(), &'static str> {
        match instruction {
            Instruction::Constant { to, value, keeps: 0 } => self.set(to, Value::Constant(value)),
            Instruction::Constant { to, value, keeps } => {
                let kept = match self.value(to) {
                    Value::Constant(known) => Value::Constant(known & keeps | value),
                    _ => Value::Computed,
                };
                self.set(to, kept);
            }
            Instruction::Address { to, address } => self.set(to, Value::Constant(address)),
            Instruction::Copy { to, from } => self.set(to, self.value(from)),
            Instruction::Computes(to) => self.set(to, Value::Computed),
            Instruction::ReadSystem { to, system } => self.set(to, self.system(system)),
            Instruction::WriteSystem { system, from } => self.system.push((system, self.value(from))),
            Instruction::Add { to: STACK_POINTER, from: STACK_POINTER, value } => self.stack += value,
            Instruction::Add { to, from, .. } if to == STACK_POINTER || from == STACK_POINTER => {
                return Err("the stack pointer is neither moved by a constant nor an address of a context");
            }
            Instruction::Add { to, from, value } => {
                let sum = match self.value(from) {
                    Value::Constant(known) => Value::Constant(known.wrapping_add_signed(value)),
                    Value::System(register, known) => Value::System(register, known + value),
                    Value::Few(few) => Value::of_few(Few::of(few.iter().map(|one| one.wrapping_add_signed(value)))),
                    _ => Value::Computed,
                };
                self.set(to, sum);
            }
            Instruction::Mask { to, bits, .. } => self.set(to, Value::of_few(Few::masks(bits))),
            Instruction::AddShifted { to, from, other, shift } => {
                let terms = self.value(from).few().zip(self.value(other).few());
                self.set(to, Value::of_few(terms.and_then(|(one, two)| one.sums(two, shift))));
            }
            Instruction::Select { to, either } => {
                self.set(to, self.value(either.0).either(self.value(either.1)));
            }
            Instruction::Memory { loads, registers, base, offset, bytes, changes_base } => {
                let is_part = bytes == 4 && loads && base != STACK_POINTER;
                if bytes != 8 && !is_part || changes_base {
                    return Err("memory is accessed otherwise than by whole words at a constant distance");
                }
                // A pair whose first register is its base reads the address before it loads.
                let address = if base == STACK_POINTER { Value::Computed } else { self.value(base) };
                self.access(loads, (registers.0, base, offset), address)?;
                if let Some(second) = registers.1 {
                    self.access(loads, (second, base, offset + 8), address)?;
                }
            }
            Instruction::Barrier => {}
            _ => return Err("an instruction that ends a way is in the middle of it"),
        }
        Ok(())
    }

    fn access(
        &mut self,
        loads: bool,
        (register, base, offset): (u32, u32, i64),
        address: Value,
    ) -> Result<(), &'static str> {
        const LAST: i64 = 7;
        let place = self.stack + offset;
        let at = |first: u64| Place::At(first.wrapping_add_signed(offset), first.wrapping_add_signed(offset + LAST));
        let line = address.line().map(|(least, most)| vec![Place::Line(least + offset, most + offset + LAST)]);
        let known = line.or_else(|| address.few().map(|few| few.iter().map(at).collect()));
        match (base, loads) {
            (STACK_POINTER, true) => {
                let value = self.words.get(&place).copied().unwrap_or(Value::Word(place));
                self.set(register, value);
            }
            (STACK_POINTER, false) => drop(self.words.insert(place, self.value(register))),
            (_, true) => {
                self.read.extend(known.ok_or("memory is read that is no context")?);
                self.set(register, Value::Computed);
            }
            (_, false) => {
                self.elsewhere.extend(known.ok_or("memory is written at an address that is not known")?);
            }
        }
        Ok(())
    }
}

/// A way that is being followed.
#[derive(Clone)]
struct Walk {
    at: u64,
    seen: BTreeSet<(u64, Option<u64>)>,
    way: Way,
}

/// The label of a core without a world, which waits there; what follows the wait is a way of its own ([`WOKEN`]).
pub const PARKED: &str = "parked";
/// In place of a vector: behind the wait of [`PARKED`].
pub const WOKEN: u64 = u64::MAX;

/// Follows every way from the vectors, and from the wait of a core without a world.
///
/// # Errors
/// With the first place where the program does what it must not at run time: a loop, an instruction that the reader does not know,
/// memory that is no context, a call within a call.
pub fn ways(program: &Program) -> Result<Vec<Way>, String> {
    let mut found = Vec::new();
    let slots = SLOTS.into_iter().filter(|slot| is_entered(program, *slot)).map(|slot| (slot, slot));
    let woken = program.address(PARKED).map(|at| (WOKEN, at + 4));
    for (slot, start) in slots.chain(woken) {
        let way =
            Way { slot, steps: Vec::new(), decisions: Vec::new(), end: End::Park(slot), state: State::at_entry() };
        let mut open = vec![Walk { at: start, seen: BTreeSet::new(), way }];
        while let Some(walk) = open.pop() {
            let at = walk.way.steps.last().copied().unwrap_or(start);
            follow(program, walk, &mut open, &mut found).map_err(|why| format!("{}: {why}", program.place(at)))?;
            if open.len() + found.len() > MOST_WAYS {
                return Err(format!("more than {MOST_WAYS} ways"));
            }
        }
    }
    found.sort_by_key(|way| (way.slot, way.end, way.steps.len()));
    Ok(found)
}

/// A slot without code holds padding, an undefined instruction that leads to slot 0x200; code of another slot may reach into it.
fn is_entered(program: &Program, slot: u64) -> bool {
    let word = |address| match program.at(address) {
        Some(Word::Instruction(word)) => read(word, address),
        _ => None,
    };
    let goes_on = word(slot - 4).is_some_and(|before| {
        !matches!(before, Instruction::Branch(_) | Instruction::Return | Instruction::ExceptionReturn)
    });
    word(slot).is_some() && !goes_on
}

/// Follows one way to its end; a conditional branch that is taken becomes another one.
fn follow(program: &Program, mut walk: Walk, open: &mut Vec<Walk>, found: &mut Vec<Way>) -> Result<(), String> {
    loop {
        let at = walk.at;
        let Some(Word::Instruction(word)) = program.at(at) else {
            return Err(format!("the way goes on to {}, where no instruction is", program.place(at)));
        };
        let instruction =
            read(word, at).ok_or_else(|| format!("{word:#010x} at {at:#x} is no instruction that it may have"))?;
        let link = match walk.way.state.registers[LINK] {
            Value::Constant(address) => Some(address),
            _ => None,
        };
        if !walk.seen.insert((at, link)) {
            return Err(format!("a loop at run time, at {}", program.place(at)));
        }
        walk.way.steps.push(at);
        walk.at = at + 4;
        match instruction {
            Instruction::Branch(target) => walk.at = target,
            Instruction::Conditional { target, zero, .. } => {
                let mut taken = walk.clone();
                if let Some(register) = zero {
                    taken.way.state.set(register, Value::Constant(0));
                }
                taken.way.decisions.push((at, true));
                taken.at = target;
                open.push(taken);
                walk.way.decisions.push((at, false));
            }
            Instruction::Call(target) => {
                walk.way.state.registers[LINK] = Value::Constant(at + 4);
                walk.at = target;
            }
            Instruction::Return => {
                walk.at = link.ok_or("RET to no place that is known: a call within a call, or x30 is used")?;
            }
            Instruction::ExceptionReturn | Instruction::Wait => {
                walk.way.end = match instruction {
                    Instruction::Wait => parked(program, at)?,
                    _ => End::Return(at),
                };
                found.push(walk.way);
                return Ok(());
            }
            other => walk.way.state.apply(other)?,
        }
    }
}

/// A WFI, with a branch behind it that leads back.
fn parked(program: &Program, at: u64) -> Result<End, String> {
    let behind = match program.at(at + 4) {
        Some(Word::Instruction(word)) => read(word, at + 4),
        _ => None,
    };
    let waits = program.address(PARKED) == Some(at);
    (waits || behind == Some(Instruction::Branch(at)))
        .then_some(End::Park(at))
        .ok_or_else(|| "WFI that goes on".to_owned())
}
