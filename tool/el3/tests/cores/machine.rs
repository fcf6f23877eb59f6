//! Cores that execute the program's own words, one instruction at a time, so that their orders can be mixed as a machine might.

use bulkhead_el3::Program;
use bulkhead_el3::program::Word;
use bulkhead_el3::registers::encoding;
use std::collections::BTreeMap;

/// Where a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the program, at this address.
    El3(u64),
    /// It waits there for an interrupt.
    Waits(u64),
    /// Below: in the secure world, or in the other one.
    Below { is_secure: bool },
}

/// A core: what the program reads and writes of it.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) number: usize,
    pub(crate) x: [u64; 31],
    pub(crate) stack: u64,
    pub(crate) place: Place,
    flags: u8,
    system: BTreeMap<u16, u64>,
    /// Interrupts of group 0 that wait, a bit for each number.
    pub(crate) waits: u32,
    /// Ends of interrupts of the other world since it waited.
    pub(crate) ended: u32,
}

/// What an instruction did that others see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// Address and bytes.
    Stored(u64, u64),
    /// It returned below.
    Returned,
}

const NEGATIVE: u8 = 8;
const ZERO: u8 = 4;
const CARRY: u8 = 2;
const OVERFLOW: u8 = 1;
const KICK: u32 = 8;
const TIMER: u32 = 29;
const NONE: u64 = 1023;

/// All cores, and the memory that they share.
pub(crate) struct Machine {
    words: BTreeMap<u64, u32>,
    pub(crate) memory: BTreeMap<u64, u64>,
    pub(crate) cores: Vec<Core>,
    pub(crate) now: u64,
    /// Events that the payload was sent.
    pub(crate) events: u64,
}

/// As bits 20:5 of MRS and MSR have them.
const fn number(op1: u16, crn: u16, crm: u16, op2: u16) -> u16 {
    3 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}

const ACKNOWLEDGE: u16 = number(0, 12, 8, 0);
const END: u16 = number(0, 12, 8, 1);
const END_OF_WORLD: u16 = number(0, 12, 12, 1);
const SEND: u16 = number(0, 12, 11, 7);
const EVENT: u16 = number(0, 12, 11, 5);
const COUNTER: u16 = number(3, 14, 0, 1);
const TIMER_CONTROL: u16 = number(7, 14, 2, 1);
const TIMER_COMPARE: u16 = number(7, 14, 2, 2);
const AFFINITY: u16 = number(0, 0, 0, 5);
const STATE: u16 = number(6, 4, 0, 0);
const ADDRESS: u16 = number(6, 4, 0, 1);
const CONFIGURATION: u16 = number(6, 1, 1, 0);

pub(crate) fn system(name: &str) -> u16 {
    encoding(name).unwrap_or_else(|| panic!("no register {name}"))
}

fn field(word: u32, first: u32, bits: u32) -> u32 {
    word >> first & ((1 << bits) - 1)
}

fn signed(word: u32, first: u32, bits: u32) -> u64 {
    i64::from((word << (32 - first - bits)) as i32 >> (32 - bits)) as u64
}

impl Core {
    fn new(number: usize) -> Self {
        let place = Place::Below { is_secure: false };
        Self { number, x: [0; 31], stack: 0, place, flags: 0, system: BTreeMap::new(), waits: 0, ended: 0 }
    }

    pub(crate) fn read(&self, name: &str) -> u64 {
        self.system.get(&system(name)).copied().unwrap_or(0)
    }

    pub(crate) fn write(&mut self, name: &str, value: u64) {
        self.system.insert(system(name), value);
    }

    fn value(&self, register: u32) -> u64 {
        self.x.get(register as usize).copied().unwrap_or(0)
    }

    fn address(&self, register: u32) -> u64 {
        if register == 31 { self.stack } else { self.x[register as usize] }
    }

    fn set(&mut self, register: u32, is_wide: bool, value: u64) {
        if let Some(place) = self.x.get_mut(register as usize) {
            *place = if is_wide { value } else { value & 0xffff_ffff };
        }
    }

    fn set_or_stack(&mut self, register: u32, value: u64) {
        if register == 31 {
            self.stack = value;
        } else {
            self.x[register as usize] = value;
        }
    }

    fn holds(&self, condition: u32) -> bool {
        let is = |flag: u8| self.flags & flag != 0;
        let found = match condition >> 1 {
            0 => is(ZERO),
            1 => is(CARRY),
            2 => is(NEGATIVE),
            3 => is(OVERFLOW),
            4 => is(CARRY) && !is(ZERO),
            5 => is(NEGATIVE) == is(OVERFLOW),
            6 => is(NEGATIVE) == is(OVERFLOW) && !is(ZERO),
            _ => return true,
        };
        found != (condition & 1 == 1)
    }

    /// `first + second + carry`, of 64 or 32 bits, and its flags.
    fn sum(&self, is_wide: bool, first: u64, second: u64, carry: bool) -> (u64, u8) {
        let mask = if is_wide { u64::MAX } else { 0xffff_ffff };
        let top = if is_wide { 63 } else { 31 };
        let (first, second) = (first & mask, second & mask);
        let whole = u128::from(first) + u128::from(second) + u128::from(carry);
        let value = whole as u64 & mask;
        let mut flags = 0;
        flags |= if value >> top & 1 == 1 { NEGATIVE } else { 0 };
        flags |= if value == 0 { ZERO } else { 0 };
        flags |= if whole > u128::from(mask) { CARRY } else { 0 };
        flags |= if (first ^ value) & (second ^ value) & (1 << top) != 0 { OVERFLOW } else { 0 };
        (value, flags)
    }

    fn difference(&self, is_wide: bool, first: u64, second: u64) -> (u64, u8) {
        self.sum(is_wide, first, !second, true)
    }

    /// Branches. Returns whether it is one.
    fn branch(&mut self, word: u32, at: u64) -> bool {
        let to = field(word, 0, 5);
        let is_wide = word >> 31 == 1;
        let goes = |first, bits| Place::El3(at.wrapping_add(signed(word, first, bits).wrapping_mul(4)));
        match word {
            _ if word & 0x7c00_0000 == 0x1400_0000 => {
                self.place = goes(0, 26);
                if word >> 31 == 1 {
                    self.x[30] = at + 4;
                }
            }
            _ if word & 0xff00_0010 == 0x5400_0000 => {
                if self.holds(field(word, 0, 4)) {
                    self.place = goes(5, 19);
                }
            }
            _ if word & 0x7e00_0000 == 0x3400_0000 => {
                let value = if is_wide { self.value(to) } else { self.value(to) & 0xffff_ffff };
                if (value == 0) == (word >> 24 & 1 == 0) {
                    self.place = goes(5, 19);
                }
            }
            _ if word & 0x7e00_0000 == 0x3600_0000 => {
                let bit = field(word, 31, 1) << 5 | field(word, 19, 5);
                if (self.value(to) >> bit & 1 == 0) == (word >> 24 & 1 == 0) {
                    self.place = goes(5, 14);
                }
            }
            _ => return false,
        }
        true
    }

    /// Constants, sums and differences. Returns whether it is one.
    fn add(&mut self, word: u32) -> bool {
        let (to, from, other) = (field(word, 0, 5), field(word, 5, 5), field(word, 16, 5));
        let is_wide = word >> 31 == 1;
        match word {
            _ if word & 0x1f80_0000 == 0x1280_0000 => {
                let shift = field(word, 21, 2) * 16;
                let value = u64::from(field(word, 5, 16)) << shift;
                let value = match field(word, 29, 2) {
                    0 => !value,
                    2 => value,
                    _ => self.value(to) & !(0xffff << shift) | value,
                };
                self.set(to, is_wide, value);
            }
            _ if word & 0x1f00_0000 == 0x1100_0000 => {
                let amount = u64::from(field(word, 10, 12)) << (12 * field(word, 22, 1));
                let first = self.address(from);
                let (value, flags) = if field(word, 30, 1) == 1 {
                    self.difference(is_wide, first, amount)
                } else {
                    self.sum(is_wide, first, amount, false)
                };
                if field(word, 29, 1) == 1 {
                    self.flags = flags;
                    self.set(to, is_wide, value);
                } else {
                    self.set_or_stack(to, value);
                }
            }
            _ if word & 0x1f20_0000 == 0x0b00_0000 => {
                let second = self.value(other) << field(word, 10, 6);
                assert_eq!(field(word, 22, 2), 0, "LSL alone");
                let (value, flags) = if field(word, 30, 1) == 1 {
                    self.difference(is_wide, self.value(from), second)
                } else {
                    self.sum(is_wide, self.value(from), second, false)
                };
                if field(word, 29, 1) == 1 {
                    self.flags = flags;
                }
                self.set(to, is_wide, value);
            }
            _ => return false,
        }
        true
    }

    /// Bits of registers and of constants, and shifts. Returns whether it is one.
    fn combine(&mut self, word: u32) -> bool {
        let (to, from, other) = (field(word, 0, 5), field(word, 5, 5), field(word, 16, 5));
        let is_wide = word >> 31 == 1;
        let bits = if is_wide { 64 } else { 32 };
        match word {
            _ if word & 0x1f00_0000 == 0x0a00_0000 || word & 0x1f80_0000 == 0x1200_0000 => {
                let second = if word & 0x1000_0000 != 0 {
                    logical_constant(word)
                } else {
                    assert_eq!(field(word, 21, 3), 0, "LSL alone, not inverted");
                    self.value(other) << field(word, 10, 6)
                };
                let mask = if is_wide { u64::MAX } else { 0xffff_ffff };
                let value = match field(word, 29, 2) {
                    1 => self.value(from) | second,
                    2 => self.value(from) ^ second,
                    _ => self.value(from) & second,
                } & mask;
                if field(word, 29, 2) == 3 {
                    self.flags = if value == 0 { ZERO } else { (value >> (bits - 1) << 3) as u8 };
                }
                self.set(to, is_wide, value);
            }
            _ if word & 0x7f80_0000 == 0x5300_0000 => {
                let (right, top) = (field(word, 16, 6), field(word, 10, 6));
                let mask = if is_wide { u64::MAX } else { 0xffff_ffff };
                let value = self.value(from) & mask;
                let low = |count: u32| if count >= 64 { u64::MAX } else { (1 << count) - 1 };
                let value = if top >= right {
                    value >> right & low(top - right + 1)
                } else {
                    (value & low(top + 1)) << (bits - right)
                };
                self.set(to, is_wide, value);
            }
            _ if word & 0x7fe0_f800 == 0x1ac0_2000 => {
                let by = self.value(other) % u64::from(bits);
                let mask = if is_wide { u64::MAX } else { 0xffff_ffff };
                let value = self.value(from) & mask;
                self.set(to, is_wide, if field(word, 10, 1) == 1 { value >> by } else { value << by });
            }
            _ => return false,
        }
        true
    }

    /// Choices by the flags. Returns whether it is one.
    fn choose(&mut self, word: u32) -> bool {
        let (to, from, other) = (field(word, 0, 5), field(word, 5, 5), field(word, 16, 5));
        let is_wide = word >> 31 == 1;
        match word {
            _ if word & 0x3fe0_0800 == 0x1a80_0000 => {
                let second = self.value(other);
                let second = match (field(word, 30, 1), field(word, 10, 1)) {
                    (0, 0) => second,
                    (0, _) => second.wrapping_add(1),
                    (_, 0) => !second,
                    _ => second.wrapping_neg(),
                };
                let value = if self.holds(field(word, 12, 4)) { self.value(from) } else { second };
                self.set(to, is_wide, value);
            }
            _ if word & 0x7fe0_0410 == 0x7a40_0000 => {
                let second = if field(word, 11, 1) == 1 { u64::from(other) } else { self.value(other) };
                self.flags = if self.holds(field(word, 12, 4)) {
                    self.difference(is_wide, self.value(from), second).1
                } else {
                    field(word, 0, 4) as u8
                };
            }
            _ => return false,
        }
        true
    }
}

/// The constant of a logical instruction (Arm ARM, DecodeBitMasks).
fn logical_constant(word: u32) -> u64 {
    let (n, rotation, ones) = (field(word, 22, 1), field(word, 16, 6), field(word, 10, 6));
    let mut width = 64;
    if n == 0 {
        width = 32;
        while ones & width != 0 {
            width >>= 1;
        }
    }
    let run = (ones & (width - 1)) + 1;
    let element: Vec<bool> = (0..width).map(|place| (place + rotation) % width < run).collect();
    (0..64).filter(|place| element[(place % width) as usize]).fold(0, |all, place| all | 1 << place)
}

impl Machine {
    pub(crate) fn new(program: &Program, cores: usize) -> Self {
        let word = |(address, _)| match program.at(address) {
            Some(Word::Instruction(word)) => Some((address, word)),
            _ => None,
        };
        Self {
            words: program.instructions().filter_map(word).collect(),
            memory: BTreeMap::new(),
            cores: (0..cores).map(Core::new).collect(),
            now: 0,
            events: 0,
        }
    }

    /// Puts another word there.
    pub(crate) fn replace(&mut self, address: u64, word: u32) {
        self.words.insert(address, word);
    }

    pub(crate) fn load(&self, address: u64) -> u64 {
        assert_eq!(address % 8, 0);
        self.memory.get(&address).copied().unwrap_or(0)
    }

    /// What of group 0 waits at a core, its timer included.
    pub(crate) fn pending(&self, core: usize) -> Option<u32> {
        let one = &self.cores[core];
        let of = |register: u16| one.system.get(&register).copied().unwrap_or(0);
        let rings = of(TIMER_CONTROL) & 1 == 1 && of(TIMER_COMPARE) <= self.now;
        match (one.waits, rings) {
            (0, false) => None,
            (0, true) => Some(TIMER),
            (waits, _) => Some(waits.trailing_zeros()),
        }
    }

    fn read_system(&mut self, core: usize, register: u16) -> u64 {
        if register == ACKNOWLEDGE {
            let found = self.pending(core);
            if let Some(KICK) = found {
                self.cores[core].waits &= !(1 << KICK);
            }
            return found.map_or(NONE, u64::from);
        }
        match register {
            _ if register == COUNTER => self.now,
            _ if register == AFFINITY => 1 << 31 | core as u64,
            _ => self.cores[core].system.get(&register).copied().unwrap_or(0),
        }
    }

    fn write_system(&mut self, core: usize, register: u16, value: u64) {
        if register == SEND {
            assert_eq!(value & !0xffff, u64::from(KICK) << 24, "an SGI of group 0 that is no kick, by core {core}");
            let all = self.cores.iter_mut().filter(|one| value >> one.number & 1 == 1);
            all.for_each(|one| one.waits |= 1 << KICK);
            assert_eq!(value & 0xffff & !((1 << self.cores.len()) - 1), 0, "a core that is not there is kicked");
        } else if register == EVENT {
            self.events += u64::from(value == 9 << 24 | 1);
            assert!(value == 9 << 24 || value == 9 << 24 | 1, "an SGI that is no event: {value:#x}");
        } else if register == END_OF_WORLD {
            self.cores[core].ended += 1;
        } else if register != END {
            self.cores[core].system.insert(register, value);
        }
    }

    /// Executes one instruction of a core that is in the program.
    pub(crate) fn step(&mut self, number: usize) -> Effect {
        let Place::El3(at) = self.cores[number].place else { panic!("core {number} is not at EL3") };
        let word = *self.words.get(&at).unwrap_or_else(|| panic!("core {number} executes {at:#x}"));
        self.cores[number].place = Place::El3(at + 4);
        self.now += 1;
        match word {
            0xd69f_03e0 => return self.leave(number),
            0xd65f_03c0 => self.cores[number].place = Place::El3(self.cores[number].x[30]),
            0xd503_207f => {
                self.cores[number].place = Place::Waits(at + 4);
                self.cores[number].ended = 0;
            }
            0xd503_3fdf | 0xd503_3f9f | 0xd508_751f => {}
            _ => return self.execute(number, word, at),
        }
        Effect::Nothing
    }

    fn leave(&mut self, number: usize) -> Effect {
        let core = &mut self.cores[number];
        let of = |register: u16| core.system.get(&register).copied().unwrap_or(0);
        core.place = Place::Below { is_secure: of(CONFIGURATION) & 1 == 0 };
        Effect::Returned
    }

    /// Takes an exception to a vector.
    pub(crate) fn enter(&mut self, number: usize, vector: u64, address: u64, state: u64) {
        let core = &mut self.cores[number];
        core.system.insert(ADDRESS, address);
        core.system.insert(STATE, state);
        core.place = Place::El3(vector);
    }

    /// Where a core continues that returned.
    pub(crate) fn returned(&self, number: usize) -> (u64, u64) {
        let of = |register: u16| self.cores[number].system.get(&register).copied().unwrap_or(0);
        (of(ADDRESS), of(STATE))
    }

    fn execute(&mut self, number: usize, word: u32, at: u64) -> Effect {
        let to = field(word, 0, 5);
        match word & 0xfff0_0000 {
            0xd530_0000 => {
                let value = self.read_system(number, field(word, 5, 16) as u16);
                self.cores[number].set(to, true, value);
                return Effect::Nothing;
            }
            0xd510_0000 => {
                let value = self.cores[number].value(to);
                self.write_system(number, field(word, 5, 16) as u16, value);
                return Effect::Nothing;
            }
            _ => {}
        }
        if word & 0xff80_0000 == 0xa900_0000 || word & 0xbf80_0000 == 0xb900_0000 {
            return self.access(number, word);
        }
        let core = &mut self.cores[number];
        let is_known = core.branch(word, at) || core.add(word) || core.combine(word) || core.choose(word);
        assert!(is_known, "{word:#010x} at {at:#x} is not known");
        Effect::Nothing
    }

    fn access(&mut self, number: usize, word: u32) -> Effect {
        let (to, from) = (field(word, 0, 5), field(word, 5, 5));
        let loads = field(word, 22, 1) == 1;
        let base = self.cores[number].address(from);
        if word & 0xff80_0000 == 0xa900_0000 {
            let address = base.wrapping_add(signed(word, 15, 7).wrapping_mul(8));
            let second = field(word, 10, 5);
            if loads {
                let found = [self.load(address), self.load(address + 8)];
                self.cores[number].set(to, true, found[0]);
                self.cores[number].set(second, true, found[1]);
                return Effect::Nothing;
            }
            self.memory.insert(address, self.cores[number].value(to));
            self.memory.insert(address + 8, self.cores[number].value(second));
            return Effect::Stored(address, 16);
        }
        let size = if field(word, 30, 2) == 3 { 8 } else { 4 };
        let address = base.wrapping_add(u64::from(field(word, 10, 12)) * size);
        if loads {
            let whole = self.load(address & !7);
            let value = if size == 8 { whole } else { whole >> (8 * (address & 4)) & 0xffff_ffff };
            self.cores[number].set(to, true, value);
            return Effect::Nothing;
        }
        assert_eq!(size, 8, "words of 64 bits are stored");
        self.memory.insert(address, self.cores[number].value(to));
        Effect::Stored(address, 8)
    }
}
