//! What is compared: sizes with their ceilings, the ways with what each world is to find, privileged words with the places that may have
//! them.
//!
//! The lists of registers are `core/world`'s, from which the program's instructions are made; here they are found again in its bytes, so
//! that a register that is saved to a wrong word, loaded from the other world's context or left out shows.

use crate::configuration::Configuration;
use crate::instruction::{Instruction, read};
use crate::program::Program;
use crate::registers::{encoding, name};
use crate::ways::{Place, Value, Way, ways};
use bulkhead_world::context::{CORE_BYTES, Context, REGISTERS, REGISTERS_OFFSET, SECURE_OFFSET};
use bulkhead_world::control::{NON_SECURE_RESET, Reason, ResetValue, SCR_NON_SECURE, SCR_SECURE};
use bulkhead_world::cores::{KICKED_STATE, KICKED_VECTOR, LINE_BYTES, MOST_CORES, StateLine};
use bulkhead_world::flash::{WorldPlan, secure_ram};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

/// Most bytes of the configuration `dual`, padding counted: those of SafeG's monitor with its contexts (SG-10).
pub const MOST_BYTES: u64 = 1_968;
/// Most bytes without padding and with both contexts, which is how SafeG's paper counts.
pub const MOST_UNPADDED_BYTES: u64 = 1_968;
/// Most bytes of a core's contexts.
pub const MOST_CONTEXT_BYTES: u64 = 1_024;
/// Most conditional branches at run time: the forks of SafeG's monitor.
pub const MOST_BRANCHES: usize = 4;

/// Most instructions of path 2, from the interrupt to the first one at S-EL1.
pub const MOST_PATH_2: u64 = 115;
/// Most instructions of path 4.
pub const MOST_PATH_4: u64 = 115;
/// Most instructions of path 5.
pub const MOST_PATH_5: u64 = 120;
/// Most instructions of an access to group 0, which does nothing.
pub const MOST_SKIP: u64 = 16;

/// Bytes of both contexts of a core, without what lies between them.
#[must_use]
pub const fn context_bytes() -> u64 {
    2 * size_of::<Context>() as u64
}

/// What a way does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The core goes to the secure world.
    ToSecure(Reason),
    /// The core goes to the non-secure world.
    ToNonSecure,
    /// The world goes on behind an instruction that did nothing.
    Skip,
    /// Registers of the non-secure world are reset for the secure one.
    Reset,
    /// What cannot happen is written down, and the core stops.
    Fault,
    /// The core comes to its EL2, as by an interrupt.
    Kick,
    /// A core that cannot be kicked yet goes on.
    Again,
    /// The caller goes on with an answer; these registers are written besides, and `lines` says whether requests are.
    Answer {
        /// Operands.
        writes: &'static [&'static str],
        /// Requests to start a core.
        lines: bool,
    },
    /// The core has no world any more.
    End,
    /// It was woken for nothing.
    Nothing,
    /// It begins a world.
    Begin,
}

/// A way that the program is to have.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Its name: a number is that of SafeG's paper.
    pub name: &'static str,
    /// The vector.
    pub slot: u64,
    /// A label that it passes, and no other way from that vector.
    pub passes: &'static str,
    /// What it does.
    pub kind: Kind,
    /// Most instructions.
    pub ceiling: Option<u64>,
}

pub(crate) const fn path(
    name: &'static str,
    slot: u64,
    passes: &'static str,
    kind: Kind,
    ceiling: Option<u64>,
) -> Path {
    Path { name, slot, passes, kind, ceiling }
}

/// Every way of the configuration `dual`. Paths 1 and 3 are not among them: no instruction of EL3 is.
pub static PATHS: &[Path] = &[
    path("2", 0x500, "to_secure", Kind::ToSecure(Reason::Interrupt), Some(MOST_PATH_2)),
    path("4", 0x400, "load_non_secure", Kind::ToNonSecure, Some(MOST_PATH_4)),
    path("5", 0x400, "to_secure", Kind::ToSecure(Reason::Call), Some(MOST_PATH_5)),
    path("skip", 0x400, "skip", Kind::Skip, Some(MOST_SKIP)),
    path("reset", 0x400, "reset_asked", Kind::Reset, None),
    path("fault", 0x200, "park", Kind::Fault, None),
    path("fault, IRQ in EL3", 0x280, "park", Kind::Fault, None),
    path("fault, SError in EL3", 0x380, "park", Kind::Fault, None),
    path("fault, IRQ from below", 0x480, "park", Kind::Fault, None),
    path("fault, SError from below", 0x580, "park", Kind::Fault, None),
];

/// Labels behind which an ERET stands, one each, in `dual`.
pub const EXCEPTION_RETURNS: &[&str] = &["reset", "go_on", "load_upper"];
/// Labels behind which SCR_EL3 is written, and with what, in the order of the text, in `dual`.
pub const SECURE_CONFIGURATIONS: &[(&str, u64)] = &[
    ("reset_non_secure", SCR_NON_SECURE),
    ("reset_non_secure", SCR_SECURE),
    ("slot 0x400", SCR_NON_SECURE),
    ("to_secure", SCR_SECURE),
];

/// A way of the program with its row of [`PATHS`].
#[derive(Clone, Debug)]
pub struct Known {
    /// The row.
    pub path: &'static Path,
    /// The way.
    pub way: Way,
}

/// Compares a program with all that it promises.
///
/// # Errors
/// With everything that does not hold.
pub fn check(program: &Program) -> Result<Vec<Known>, Vec<String>> {
    let mut wrong = sizes(program);
    wrong.extend(words(program));
    let known = match known(program) {
        Err(why) => {
            wrong.extend(why);
            return Err(wrong);
        }
        Ok(known) => known,
    };
    for one in &known {
        let complaints = one.path.kind.check(&one.way);
        wrong.extend(complaints.into_iter().map(|why| format!("path {}: {why}", one.path.name)));
        let length = one.way.steps.len() as u64;
        if let Some(most) = one.path.ceiling.filter(|most| length > *most) {
            wrong.push(format!("path {} has {length} instructions, at most {most} may be", one.path.name));
        }
    }
    let branches: BTreeSet<u64> = known.iter().flat_map(|one| &one.way.decisions).map(|(at, _)| *at).collect();
    let most = Configuration::of(program).most_branches;
    if branches.len() > most {
        wrong.push(format!("{} conditional branches at run time, at most {most} may be", branches.len()));
    }
    if wrong.is_empty() { Ok(known) } else { Err(wrong) }
}

/// The ways of a program with their rows of [`PATHS`], whatever their lengths and sizes are.
///
/// # Errors
/// As [`ways`], and with ways that have no row and rows that have no way.
pub fn known(program: &Program) -> Result<Vec<Known>, Vec<String>> {
    let mut wrong = Vec::new();
    let known = matched(program, ways(program).map_err(|why| vec![why])?, &mut wrong);
    if wrong.is_empty() { Ok(known) } else { Err(wrong) }
}

fn sizes(program: &Program) -> Vec<String> {
    let size = program.size();
    let unpadded = size.unpadded_bytes() + context_bytes();
    let Configuration { most_bytes, most_unpadded_bytes, .. } = Configuration::of(program);
    let rows = [
        ("text, constants and data, padding counted", size.bytes, *most_bytes),
        ("the same without padding, with both contexts", unpadded, *most_unpadded_bytes),
        ("contexts of a core", CORE_BYTES as u64, MOST_CONTEXT_BYTES),
        ("sections beside text", size.bytes_beside_text, 0),
    ];
    let too_large = rows.iter().filter(|(_, bytes, most)| bytes > most);
    too_large.map(|(what, bytes, most)| format!("{what}: {bytes} bytes, at most {most} may be")).collect()
}

/// Every word is an instruction that is known, and those that give or take power stand where they may.
fn words(program: &Program) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut returns, mut configurations) = (Vec::new(), Vec::new());
    let scr = encoding("scr_el3");
    for (address, word) in program.instructions() {
        match read(word, address) {
            None => {
                wrong.push(format!("{word:#010x} at {} is no instruction that it may have", program.place(address)))
            }
            Some(Instruction::ExceptionReturn) => returns.push(program.label(address)),
            Some(Instruction::WriteSystem { system, from }) if Some(system) == scr => {
                configurations.push((program.label(address), constant_before(program, address, from)));
            }
            Some(_) => {}
        }
    }
    let configuration = Configuration::of(program);
    let mut expected = configuration.exception_returns.to_vec();
    expected.sort_by_key(|label| program.address(label));
    if returns != expected {
        wrong.push(format!("ERET stands behind {returns:?} and not behind {expected:?}"));
    }
    let mut expected: Vec<_> =
        configuration.secure_configurations.iter().map(|(label, value)| (*label, Some(*value))).collect();
    expected.sort_by_key(|(label, _)| program.address(label));
    if configurations != expected {
        wrong.push(format!("SCR_EL3 is written as {configurations:x?} and not as {expected:x?}"));
    }
    wrong
}

/// The constant that the instructions right before an address put into a register.
fn constant_before(program: &Program, address: u64, register: u32) -> Option<u64> {
    let mut value = 0;
    let before: Vec<_> = program.instructions().take_while(|(at, _)| *at < address).collect();
    for (at, word) in before.into_iter().rev() {
        match read(word, at)? {
            Instruction::Constant { to, value: bits, keeps } if to == register => {
                value |= bits;
                if keeps == 0 {
                    return Some(value);
                }
            }
            _ => return None,
        }
    }
    None
}

/// Pairs ways with rows; what has no partner is wrong.
fn matched(program: &Program, found: Vec<Way>, wrong: &mut Vec<String>) -> Vec<Known> {
    let paths = Configuration::of(program).paths;
    let mut known: Vec<Known> = Vec::new();
    for way in found {
        let passes = |label: &str| program.address(label).is_some_and(|at| way.steps.contains(&at));
        match paths.iter().find(|path| path.slot == way.slot && passes(path.passes)) {
            Some(path) if !known.iter().any(|one| std::ptr::eq(one.path, path)) => known.push(Known { path, way }),
            Some(path) => wrong.push(format!("path {} is there twice", path.name)),
            None => wrong.push(format!("a way from slot {:#05x} that the design does not have", way.slot)),
        }
    }
    for path in paths.iter().filter(|path| !known.iter().any(|one| std::ptr::eq(one.path, *path))) {
        wrong.push(format!("there is no path {}", path.name));
    }
    known
}

/// Distance of a general register's word from the front of its context.
fn general(number: u32) -> i64 {
    8 * i64::from(number)
}

/// The registers behind the general ones: encoding and distance.
fn switched() -> impl Iterator<Item = (u16, i64)> {
    REGISTERS.iter().enumerate().map(|(index, register)| {
        (encoding(register.operand).unwrap_or_default(), (REGISTERS_OFFSET + 8 * index) as i64)
    })
}

/// What a way leaves, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    stack: i64,
    words: BTreeMap<i64, Value>,
    system: BTreeMap<u16, Value>,
}

impl Kind {
    /// What a way of this kind leaves otherwise than it should.
    fn check(self, way: &Way) -> Vec<String> {
        let state = &way.state;
        let mut wrong = Vec::new();
        for number in 0..31 {
            let value = state.registers[number as usize];
            if let Some(expected) = self.register(number).filter(|expected| value != *expected) {
                wrong.push(format!("x{number} is {value}, and should be {expected}"));
            }
        }
        let expected = self.left();
        if state.stack != expected.stack {
            wrong.push(format!("SP_EL3 is moved by {} and not by {}", state.stack, expected.stack));
        }
        compare(|distance| format!("the word at SP_EL3 {distance:+}"), &state.words, &expected.words, &mut wrong);
        let system = state.system.iter().map(|(register, _)| (*register, state.system(*register))).collect();
        compare(|register| name(*register), &system, &self.system(system.clone(), expected.system), &mut wrong);
        let writes = state.elsewhere.iter().filter(|place| !self.may_write(**place));
        wrong.extend(writes.map(|place| format!("writes to {place:x?}")));
        let reads = state.read.iter().filter(|place| !self.may_read(**place));
        wrong.extend(reads.map(|place| format!("reads from {place:x?}")));
        wrong
    }

    /// What should be in system registers: of what an answer may write the value does not matter.
    fn system(self, found: BTreeMap<u16, Value>, exact: BTreeMap<u16, Value>) -> BTreeMap<u16, Value> {
        let free: &[&str] = match self {
            Self::Answer { writes, .. } => writes,
            Self::Again => &["cntps_cval_el1"],
            Self::End => &["icc_sgi1r_el1"],
            _ => &[],
        };
        let free = free.iter().filter_map(|operand| encoding(operand));
        free.filter_map(|register| found.get_key_value(&register))
            .map(|(at, value)| (*at, *value))
            .chain(exact)
            .collect()
    }

    /// Memory that is no context, where words may be written: the core's own line, and of others the requests to start them.
    fn may_write(self, place: Place) -> bool {
        let lines = secure_ram::STATE..secure_ram::STATE + LINE_BYTES * MOST_CORES as u64;
        let inside = |(first, last): (u64, u64)| lines.contains(&first) && lines.contains(&last);
        match (self, place) {
            // In `multi` the line of each core; its words are the first of a line.
            (Self::Fault, Place::At(first, last)) => {
                inside((first, last)) && first % LINE_BYTES + 7 < secure_ram::STATE_BYTES
            }
            (Self::Answer { lines: true, .. }, Place::At(first, last)) => {
                inside((first, last)) && first % LINE_BYTES >= offset_of!(StateLine, starts) as u64
            }
            // Turn and end, its own words.
            (Self::End | Self::Begin, Place::Line(first, last)) => {
                first >= offset_of!(StateLine, turn) as i64 && last < offset_of!(StateLine, pad) as i64
            }
            _ => false,
        }
    }

    /// The plan, and lines.
    fn may_read(self, place: Place) -> bool {
        let areas = [
            secure_ram::PLAN..secure_ram::PLAN + size_of::<WorldPlan>() as u64,
            secure_ram::STATE..secure_ram::STATE + LINE_BYTES * MOST_CORES as u64,
        ];
        match (self, place) {
            (Self::Answer { .. } | Self::Again | Self::End | Self::Nothing | Self::Begin, Place::At(first, last)) => {
                areas.iter().any(|area| area.contains(&first) && area.contains(&last))
            }
            (Self::End | Self::Nothing | Self::Begin, Place::Line(first, last)) => {
                first >= 0 && last < size_of::<StateLine>() as i64
            }
            _ => false,
        }
    }

    /// What a general register should hold at the end; nothing where it does not matter.
    fn register(self, number: u32) -> Option<Value> {
        match (self, number) {
            (Self::ToSecure(reason), 0) => Some(Value::Constant(reason as u64)),
            // The secure world gave the core away by a call, which may change x1 to x18.
            (Self::ToSecure(_), 19..) => Some(Value::Word(SECURE_OFFSET as i64 + general(number))),
            (Self::ToNonSecure, _) => Some(Value::Word(general(number) - SECURE_OFFSET as i64)),
            (Self::Skip | Self::Kick | Self::Again, _) | (Self::Reset, 0 | 1 | 3..) | (Self::Answer { .. }, 1..) => {
                Some(Value::Entry(number))
            }
            // x0 is what the request says; the words above are those of a world that begins, or of no call.
            (Self::Begin, 1..24) => Some(Value::Word(general(number))),
            (Self::Begin, 24..) => Some(Value::Constant(0)),
            (Self::Begin, 0) => Some(Value::Computed),
            (Self::ToSecure(_) | Self::Reset | Self::Fault | Self::Answer { .. } | Self::End | Self::Nothing, _) => {
                None
            }
        }
    }

    /// Everything else that should be left, and nothing more.
    fn left(self) -> Left {
        let saved = |first: u32| {
            let words = (first..31).map(|number| (general(number), Value::Entry(number)));
            words.chain(switched().map(|(register, at)| (at, Value::System(register, 0))))
        };
        let configured = |value| (encoding("scr_el3").unwrap_or_default(), Value::Constant(value));
        let loaded = |distance: i64, configuration| {
            let registers = switched().map(move |(register, at)| (register, Value::Word(distance + at)));
            registers.chain([configured(configuration)]).collect()
        };
        let spilled = [29, 30].map(|number| (general(number), Value::Entry(number))).into();
        let distance = SECURE_OFFSET as i64;
        match self {
            Self::ToSecure(_) => {
                Left { stack: distance, words: saved(0).collect(), system: loaded(distance, SCR_SECURE) }
            }
            Self::ToNonSecure => {
                Left { stack: -distance, words: saved(18).collect(), system: loaded(-distance, SCR_NON_SECURE) }
            }
            Self::Skip => {
                let back = encoding("elr_el3").unwrap_or_default();
                Left { stack: 0, words: spilled, system: [(back, Value::System(back, 4))].into() }
            }
            Self::Reset => {
                let reset = NON_SECURE_RESET.iter().map(|(register, value)| {
                    let value = match value {
                        ResetValue::Constant(value) => Value::Constant(*value),
                        ResetValue::Copy(from) => Value::System(encoding(from).unwrap_or_default(), 0),
                    };
                    (encoding(register.operand).unwrap_or_default(), value)
                });
                Left { stack: 0, words: spilled, system: reset.chain([configured(SCR_SECURE)]).collect() }
            }
            Self::Fault => Left { stack: 0, words: BTreeMap::new(), system: BTreeMap::new() },
            _ => self.left_by_cores(),
        }
    }
}

impl Kind {
    /// The same of the ways that `multi` alone has.
    fn left_by_cores(self) -> Left {
        let at = |operand: &str| encoding(operand).unwrap_or_default();
        let found = |operand: &str, more| Value::System(at(operand), more);
        let spilled = |first: u32| (first..31).map(|number| (general(number), Value::Entry(number))).collect();
        let acknowledged = (at("icc_eoir0_el1"), found("icc_iar0_el1", 0));
        let left = |words, system: &[(u16, Value)]| Left { stack: 0, words, system: system.iter().copied().collect() };
        let (off, on) = (Value::Constant(0), Value::Constant(1));
        match self {
            Self::Kick => left(
                spilled(29),
                &[
                    acknowledged,
                    (at("cntps_ctl_el1"), off),
                    (at("spsr_el2"), found("spsr_el3", 0)),
                    (at("elr_el2"), found("elr_el3", 0)),
                    (at("elr_el3"), found("vbar_el2", KICKED_VECTOR as i64)),
                    (at("spsr_el3"), Value::Constant(KICKED_STATE)),
                ],
            ),
            Self::Again => left(spilled(29), &[acknowledged, (at("cntps_ctl_el1"), on)]),
            Self::End => {
                let registers = ["cntps_ctl_el1", "cntp_ctl_el0", "cntv_ctl_el0", "icc_igrpen1_el3"];
                left(spilled(24), &registers.map(|operand| (at(operand), off)))
            }
            Self::Nothing => left(BTreeMap::new(), &[acknowledged]),
            Self::Begin => {
                let Left { system: reset, .. } = Self::Reset.left();
                let place = offset_of!(Context, elr_el3) as i64;
                let words = (24..31).map(|number| (general(number), off));
                let words = words.chain([(general(0), Value::Computed), (place, Value::Computed)]).collect();
                let switched = switched().map(|(register, at)| (register, Value::Word(at)));
                let own =
                    [acknowledged, (at("elr_el3"), Value::Computed), (at("scr_el3"), Value::Constant(SCR_NON_SECURE))];
                Left { stack: 0, words, system: reset.into_iter().chain(switched).chain(own).collect() }
            }
            _ => left(spilled(24), &[]),
        }
    }
}

fn compare<K: Ord + Copy>(
    name: impl Fn(&K) -> String,
    found: &BTreeMap<K, Value>,
    expected: &BTreeMap<K, Value>,
    wrong: &mut Vec<String>,
) {
    let all: BTreeSet<K> = found.keys().chain(expected.keys()).copied().collect();
    for key in all.into_iter().filter(|key| found.get(key) != expected.get(key)) {
        let text = |value: Option<&Value>| value.map_or_else(|| "not written".to_owned(), Value::to_string);
        let (found, expected) = (text(found.get(&key)), text(expected.get(&key)));
        wrong.push(format!("{} is {found}, and should be {expected}", name(&key)));
    }
}
