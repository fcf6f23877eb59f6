//! Several cores at once, each executing the words of `multi` one instruction after the other, in orders that a seed chooses: calls with hostile
//! registers, kicks, watches, starts and ends of worlds, and a payload that lets an ended one begin again. What must hold is said here in a few lines
//! that share none with the program.
//!
//! The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases. Memory is sequentially consistent, as the program's
//! barriers and its Device memory make it; what weaker memory would do is not tried.

#[path = "../../../../core/sched/tests/support/random.rs"]
mod random;

mod machine;
mod rules;

use bulkhead_el3::Program;
use bulkhead_world::context::{CORE_BYTES, Context, EntryLevel, REGISTERS_OFFSET};
use bulkhead_world::cores::{CALL_KICK, CALL_WATCH, CoresPlan, LINE_BYTES, MOST_CORES, StateLine, ticket_after_end};
use bulkhead_world::flash::{WorldPlan, secure_ram};
use machine::{Effect, Machine, Place};
use random::Random;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

const DIVISOR: u64 = 400;
const SWEEP_DIVISOR: u64 = 450;
/// Orders in which a missing instruction is looked for.
const MOST_SEEDS: u64 = 2_000;
/// ISB.
const NOTHING: u32 = 0xd503_3fdf;
const STEPS: u64 = 20_000;
const WINDOW: (u64, u64) = (0x4000_0000, 0x1000_0000);
const CPU_OFF: u64 = 0x8400_0002;
const CPU_ON: u64 = 0xc400_0003;
const AFFINITY_INFO: u64 = 0xc400_0004;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const VECTORS: u64 = 0x5000_0000;
const EL2: u64 = 0x3c9;
const EL1: u64 = 0x3c5;
const AARCH32: u64 = 0x1d3;
const TURN: usize = offset_of!(StateLine, turn);
const ENDED: usize = offset_of!(StateLine, ended);
const STARTS: usize = offset_of!(StateLine, starts);
/// Closed to all: a kick from here to there.
const KICKS: [u32; MOST_CORES] = [0b1110, 0b1110, 0b1010, 0];

fn program() -> Program {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    let guests = std::env::var_os("BULKHEAD_GUESTS").map_or_else(usual, PathBuf::from);
    let file = guests.join("../secure-monitor/multi.elf");
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run ./x build first", file.display()));
    Program::read(&bytes).unwrap_or_else(|why| panic!("{why}"))
}

fn line(core: usize) -> u64 {
    secure_ram::STATE + LINE_BYTES * core as u64
}

/// A call that is under way or was answered.
#[derive(Clone, Copy, Debug)]
struct Call {
    by: usize,
    x: [u64; 31],
    state: u64,
    address: u64,
    /// The target's turn when it was made.
    turn: u64,
    /// Its request to that core, as it was.
    request: [u64; 3],
    /// The same caller's latest start of that core was accepted and has not happened.
    is_pending: bool,
    /// A call, and not an access to a register of group 0 or an interrupt.
    is_call: bool,
}

impl Call {
    /// It ends the caller's world; the payload's core has none that EL3 ends.
    fn is_end(&self) -> bool {
        let is_it = [CPU_OFF, SYSTEM_OFF, SYSTEM_RESET].contains(&(self.x[0] & 0xffff_ffff));
        self.is_call && self.by != 0 && self.state == EL2 && is_it
    }
}

/// A start that was asked for and may happen.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    by: usize,
    core: usize,
    entry: u64,
    argument: u64,
    is_accepted: bool,
    /// A start uses it up. One that is answered with SUCCESS while another one won is never used.
    is_used: bool,
    /// By the payload, for a world that ended.
    is_payloads: bool,
    /// Worlds that had begun on the core before.
    before: u64,
}

/// What the payload does with a world that ended, store by store.
#[derive(Clone, Copy, Debug)]
struct Begin {
    core: usize,
    step: u32,
    entry: u64,
    argument: u64,
    ticket: u64,
}

struct Search<'a> {
    machine: Machine,
    random: &'a mut Random,
    vectors: [u64; 2],
    calls: Vec<Option<Call>>,
    wanted: Vec<Wanted>,
    begin: Option<Begin>,
    next: u64,
    /// Worlds that began, by core.
    begun: [u64; MOST_CORES],
    /// Turns of cores when they waited last.
    turns: [u64; MOST_CORES],
    /// Which core each one started last.
    latest: [Option<u64>; MOST_CORES],
    /// By which call the latest world of each core ended; 0 while it has not, and before its first.
    ends: [u64; MOST_CORES],
    /// SYSTEM_OFF and SYSTEM_RESET so far.
    events: u64,
    /// Starts, kicks that arrived, refusals: that all of them happen.
    seen: [u64; 4],
}

impl Search<'_> {
    fn new<'a>(program: &Program, random: &'a mut Random) -> Search<'a> {
        let mut machine = Machine::new(program, MOST_CORES);
        let words = |bytes: &[u64], at: u64, machine: &mut Machine| {
            bytes.iter().enumerate().for_each(|(place, word)| {
                machine.memory.insert(at + 8 * place as u64, *word);
            });
        };
        let cores = secure_ram::PLAN + offset_of!(WorldPlan, cores) as u64;
        machine.memory.insert(secure_ram::PLAN + offset_of!(WorldPlan, window) as u64, WINDOW.0);
        machine.memory.insert(secure_ram::PLAN + offset_of!(WorldPlan, window_bytes) as u64, WINDOW.1);
        machine.memory.insert(cores, MOST_CORES as u64 | 2 << 32);
        let kicks = cores + offset_of!(CoresPlan, kicks) as u64;
        words(
            &[0, 1].map(|pair| u64::from(KICKS[2 * pair]) | u64::from(KICKS[2 * pair + 1]) << 32),
            kicks,
            &mut machine,
        );
        words(&[625, 625_000_000], cores + offset_of!(CoresPlan, watch_least_ticks) as u64, &mut machine);
        let parked = program.address("parked").expect("cores wait");
        for core in 0..MOST_CORES {
            let context = Context::non_secure(0, 0, EntryLevel::El2);
            let place = secure_ram::CONTEXTS + (CORE_BYTES * core) as u64;
            for (register, value) in [(1, context.spsr_el3), (23, context.icc_pmr_el1), (24, context.icc_igrpen1_el3)] {
                machine.memory.insert(place + REGISTERS_OFFSET as u64 + 8 * register, value);
            }
            let one = &mut machine.cores[core];
            one.stack = place;
            one.write("vbar_el2", VECTORS);
            one.write("scr_el3", 0xf35);
            if core == 0 {
                machine.memory.insert(line(0) + TURN as u64, 1);
                machine.enter(0, 0, 0x4020_0000, EL2);
                machine.cores[0].place = Place::Below { is_secure: false };
            } else {
                one.write("tpidr_el3", line(core));
                one.place = Place::El3(parked);
            }
        }
        Search {
            machine,
            random,
            vectors: [0x400, 0x500],
            calls: vec![None; MOST_CORES],
            wanted: Vec::new(),
            begin: None,
            next: 0,
            begun: [0; MOST_CORES],
            turns: [0; MOST_CORES],
            latest: [None; MOST_CORES],
            ends: [0; MOST_CORES],
            events: 0,
            seen: [0; 4],
        }
    }

    fn word(&self, core: usize, offset: usize) -> u64 {
        self.machine.load(line(core) + offset as u64)
    }

    fn request(&self, by: usize, core: u64) -> [u64; 3] {
        let word = |place: usize| {
            if core < MOST_CORES as u64 { self.word(core as usize, STARTS + 32 * by + 8 * place) } else { 0 }
        };
        [0, 1, 2].map(word)
    }

    /// A number that is nearly right, or any.
    fn nearly(&mut self, right: &[u64]) -> u64 {
        match self.random.below(24) {
            0 => self.random.next(),
            1 => right[self.random.index(right.len())] ^ 1 << self.random.below(64),
            2 => [0, 4, 0x100, 1 << 32, u64::MAX, 1 << 63][self.random.index(6)],
            _ => right[self.random.index(right.len())],
        }
    }

    /// Registers of a call: what it wants, often nearly right, and anything in the others.
    fn choose(&mut self, by: usize) {
        for register in 0..31 {
            self.machine.cores[by].x[register] = self.random.next();
        }
        self.next += 0x40;
        let entry = WINDOW.0 + self.next % WINDOW.1;
        let edge =
            [entry, entry, entry, WINDOW.0 + WINDOW.1 - 4, WINDOW.0 + WINDOW.1, WINDOW.0 - 4, secure_ram::PAYLOAD];
        let functions = match self.random.below(16) {
            0 => &[CPU_OFF, SYSTEM_OFF, SYSTEM_RESET][..],
            1..5 => &[CALL_KICK],
            5 => &[CALL_WATCH],
            6 => &[AFFINITY_INFO, AFFINITY_INFO, 0x8400_0005, 0x8400_0006, 0x8400_0007], // that are no functions here
            _ => &[CPU_ON, CPU_ON, CPU_ON & !(1 << 30)],
        };
        let function = self.nearly(functions);
        let first = self.nearly(&[1, 2, 3, 1, 2, 3, 0]);
        // Twice the same, before it happens; and times for a watch.
        let first = match self.latest[by] {
            Some(core) if function == CPU_ON && self.random.flip() => core,
            _ if function == CALL_WATCH => [0, 624, 700_000, 1 << 29, 1 << 30, u64::MAX][self.random.index(6)],
            _ => first,
        };
        let second =
            if function & 0xbfff_ffff == AFFINITY_INFO & 0xbfff_ffff { self.nearly(&[0]) } else { self.nearly(&edge) };
        let x = &mut self.machine.cores[by].x;
        (x[0], x[1], x[2], x[3]) = (function, first, second, self.next);
    }

    /// The core below asks for something, with anything in its registers.
    fn call(&mut self, by: usize) {
        let (address, _) = self.machine.returned(by);
        self.choose(by);
        // By itself a world changes its level as it likes.
        let state = [EL2, EL2, EL2, EL1, AARCH32][self.random.index(5)];
        let x = self.machine.cores[by].x;
        let (first, second) = (x[1], x[2]);
        let turn = if first < 4 { self.word(first as usize, TURN) } else { 0 };
        let accepted =
            |one: &Wanted| (one.by as u64, one.core as u64) == (by as u64, first) && one.is_accepted && !one.is_used;
        let is_pending = self.wanted.iter().any(|one| accepted(one) && one.before == self.begun[one.core]);
        let request = self.request(by, first);
        let call = Call { by, x, state, address, turn, request, is_pending, is_call: self.random.below(16) != 0 };
        self.calls[by] = Some(call);
        for timer in ["cntp_ctl_el0", "cntv_ctl_el0"] {
            let is_on = self.random.below(2);
            self.machine.cores[by].write(timer, is_on);
        }
        // A call, or an access to a register of group 0.
        self.machine.cores[by].write("esr_el3", if call.is_call { 0x17 << 26 } else { 0x18 << 26 });
        self.machine.enter(by, self.vectors[0], if call.is_call { address + 4 } else { address }, state);
        if call.is_call && self.is_start(&call) {
            let (core, before) = (first as usize, self.begun[first as usize]);
            let (entry, argument) = (second, self.next);
            self.wanted.push(Wanted {
                by,
                core,
                entry,
                argument,
                is_accepted: false,
                is_used: false,
                is_payloads: false,
                before,
            });
        }
        if call.is_end() {
            self.ends[by] = call.x[0] & 0xffff_ffff;
            self.events += u64::from(self.ends[by] != CPU_OFF);
        }
    }

    /// A core returned: to its world after a call, at a vector of its EL2, or into a world that begins.
    fn returned(&mut self, core: usize) {
        let (address, state) = self.machine.returned(core);
        let call = self.calls[core].take();
        let Place::Below { is_secure } = self.machine.cores[core].place else { unreachable!() };
        if is_secure {
            let call = call.expect("the payload is called by calls");
            assert_eq!(core, 0, "the payload has one core");
            return self.payload(&call);
        }
        let context = self.machine.cores[core].x;
        match call {
            Some(call) if !call.is_end() && address == call.address + 4 && state == call.state => {
                assert_eq!(context[1..], call.x[1..], "registers of a caller: {call:x?}");
                if call.is_call {
                    self.answered(&call, context[0]);
                } else {
                    assert_eq!(context[0], call.x[0], "a register of group 0 was read");
                }
            }
            Some(call) => self.begins(core, address, state, Some(&call)),
            None => self.begins(core, address, state, None),
        }
    }

    /// The payload answers what came by path 5, as the library does.
    fn payload(&mut self, call: &Call) {
        assert_eq!(self.machine.cores[0].x[0], u64::from(call.is_call), "the reason");
        let context = secure_ram::CONTEXTS;
        let found: Vec<u64> = (0..31).map(|place| self.machine.load(context + 8 * place)).collect();
        assert_eq!(found, call.x, "the context of a caller");
        if call.is_call {
            assert_ne!(call.x[0] & 0xffff_ffff, CALL_KICK, "a kick is EL3's");
            self.machine.memory.insert(context, -1_i64 as u64);
        }
        self.calls[0] = Some(*call);
        // The library gives the core away, and keeps nothing in x0 to x18.
        self.machine.cores[0].x = std::array::from_fn(|_| self.random.next());
        self.machine.cores[0].x[0] = 0;
        let core = &mut self.machine.cores[0];
        core.write("esr_el3", 0x17 << 26);
        self.machine.enter(0, self.vectors[0], secure_ram::PAYLOAD, EL1);
    }

    /// One store of what the payload does for a world that ended (`sdk/world/src/cores.rs`).
    fn payload_begins(&mut self) {
        let Some(begin) = &mut self.begin else {
            let core = self.random.within(1, 3) as usize;
            let (ended, turn, before) = (self.word(core, ENDED), self.word(core, TURN), self.word(core, STARTS));
            if let Some(ticket) = ticket_after_end(ended, turn, before) {
                self.next += 0x40;
                self.begin =
                    Some(Begin { core, step: 0, entry: WINDOW.0 + self.next % WINDOW.1, argument: self.next, ticket });
                let entry = WINDOW.0 + self.next % WINDOW.1;
                self.wanted.push(Wanted {
                    by: 0,
                    is_accepted: false,
                    core,
                    entry,
                    argument: self.next,
                    is_used: false,
                    is_payloads: true,
                    before: self.begun[core],
                });
            }
            return;
        };
        let place = line(begin.core) + STARTS as u64;
        let Begin { core, step, entry, argument, ticket } = *begin;
        begin.step += 1;
        match step {
            0 => drop(self.machine.memory.insert(place, 0)),
            1 => drop(self.machine.memory.insert(place + 8, entry)),
            2 => drop(self.machine.memory.insert(place + 16, argument)),
            3 => drop(self.machine.memory.insert(place, ticket)),
            _ => {
                self.machine.cores[core].waits |= 1 << 8;
                self.begin = None;
            }
        }
    }

    /// One thing of one core.
    fn one(&mut self, may_call: bool) {
        let core = self.random.index(MOST_CORES);
        match self.machine.cores[core].place {
            Place::El3(_) => match self.machine.step(core) {
                Effect::Returned => self.returned(core),
                Effect::Stored(address, bytes) => self.stored(core, address, bytes),
                Effect::Nothing => {}
            },
            Place::Waits(at) => {
                self.waits(core);
                if self.machine.pending(core).is_some() {
                    self.machine.cores[core].place = Place::El3(at);
                }
            }
            Place::Below { .. } => {
                if core != 0 && self.machine.pending(core).is_some() {
                    self.interrupted(core);
                } else if core == 0 && self.random.below(4) == 0 && (may_call || self.begin.is_some()) {
                    self.payload_begins();
                } else if may_call && core == 0 && self.random.below(8) == 0 {
                    self.secure_interrupt();
                } else if may_call {
                    self.call(core);
                }
                self.machine.now += 7;
            }
        }
    }

    /// An interrupt of the payload takes its core from the other world (path 2), and it gives it back at once.
    fn secure_interrupt(&mut self) {
        let (address, state) = (self.machine.returned(0).0, [EL2, EL1, AARCH32][self.random.index(3)]);
        let x: [u64; 31] = std::array::from_fn(|_| self.random.next());
        self.machine.cores[0].x = x;
        // It continues where it was: a call would continue behind itself.
        self.calls[0] = Some(Call {
            by: 0,
            x,
            state,
            address: address - 4,
            turn: 0,
            request: [0; 3],
            is_pending: false,
            is_call: false,
        });
        self.machine.enter(0, self.vectors[1], address, state);
    }

    /// An interrupt of EL3 takes a core from its world, whatever that has masked; the ways are followed to their end, as one.
    fn interrupted(&mut self, core: usize) {
        let (address, _) = self.machine.returned(core);
        let state = [EL2, EL1, AARCH32][self.random.index(3)];
        let x: [u64; 31] = std::array::from_fn(|_| self.random.next());
        self.machine.cores[core].x = x;
        self.machine.enter(core, self.vectors[1], address, state);
        let mut effect = Effect::Nothing;
        while effect != Effect::Returned {
            effect = self.machine.step(core);
            if let Effect::Stored(address, bytes) = effect {
                self.stored(core, address, bytes);
            }
        }
        let one = &self.machine.cores[core];
        assert_eq!(one.x, x, "registers of what was interrupted");
        assert_eq!(self.machine.pending(core), None, "an interrupt that was taken waits still");
        let found = self.machine.returned(core);
        if state == EL2 {
            assert_eq!(found, (address, EL2), "EL2 continues");
            assert!(
                one.read("S3_7_C14_C2_1") == 1
                    && (1..700).contains(&one.read("S3_7_C14_C2_2").saturating_sub(self.machine.now)),
                "and is asked again"
            );
        } else {
            assert_eq!(found, (VECTORS + 0x500, EL2), "the vector of EL2");
            assert_eq!(one.read("S3_7_C14_C2_1"), 0, "and by nothing else soon");
            assert_eq!((one.read("elr_el2"), one.read("spsr_el2")), (address, state), "from where it was");
            self.seen[1] += 1;
        }
    }
}

/// SG-13, SG-14, SG-32: the one address that a call takes, the entry of CPU_ON, is in the world's window, or nothing begins.
#[test]
fn no_order_of_calls_starts_or_stops_a_core_wrongly() {
    let program = program();
    let mut seen = [0; 4];
    random::check_some("orders of several cores", DIVISOR, |random| {
        let mut search = Search::new(&program, random);
        for _ in 0..STEPS {
            search.one(true);
        }
        search.settle();
        seen.iter_mut().zip(search.seen).for_each(|(all, one)| *all += one);
    });
    println!("worlds that began, kicks, cores that wait in the end, refusals: {seen:?}");
    assert!(seen.iter().all(|count| *count > 100) || std::env::var_os("BULKHEAD_CASES").is_some(), "{seen:?}");
}

/// What is not seen: barriers, because memory here is ordered; ends of interrupts, because nothing waits for them; that a core whose words nobody has
/// made looks at none; code that is never entered.
const NOT_SEEN: &[(&str, u64)] = &[
    ("group_0", 8),
    ("slot 0x580", 0),
    ("parked", 8),
    ("parked", 0x60),
    ("targets", 0xa0),
    ("targets", 0xa8),
    ("ends", 0x28),
];

/// The search sees an instruction that is not there, whichever it is, of those that several cores have besides and of group 0.
#[test]
fn an_instruction_that_is_missing_is_seen() {
    let program = program();
    let first = program.address("parked").expect("cores wait");
    let hidden: Vec<u64> =
        NOT_SEEN.iter().map(|(label, offset)| program.address(label).map_or(0x580, |at| at + offset)).collect();
    let is_tried = |at: &u64| (*at >= first || (0x508..0x5bc).contains(at)) && !hidden.contains(at);
    let all: Vec<u64> = program.instructions().map(|(at, _)| at).filter(is_tried).collect();
    // A prime: the usual number of cases comes to each of them, and fewer are spread over all.
    let mut walk = (0..).step_by(97).map(|place: usize| all[place % all.len()]);
    random::check_some("missing instructions", SWEEP_DIVISOR, |random| {
        let at = walk.next().expect("it has no end");
        let is_seen = (0..MOST_SEEDS).any(|_| {
            let seed = random.next();
            std::panic::catch_unwind(|| {
                let mut random = Random(seed);
                let mut search = Search::new(&program, &mut random);
                search.machine.replace(at, NOTHING);
                (0..STEPS).for_each(|_| search.one(true));
                search.settle();
            })
            .is_err()
        });
        assert!(is_seen, "nothing is wrong without the instruction at {}", program.place(at));
    });
}
