//! A thread that makes random calls about who runs, and on whose time, and makes as much as it can fall into one instant: dates are those of a grid.

use crate::{BAND, FIRST_CLAIM, FIRST_SCHEDULER, FIRST_THREAD, MILLISECOND, spin};
use bulkhead_component::call::{call, counter_ticks, receive};
use bulkhead_component::driver::interrupt_done;
use bulkhead_component::interface::invoke;
use bulkhead_component::process::delete_capability;
use bulkhead_component::schedule::{bind, create_server, delegate, destroy_server, events};
use bulkhead_component::{mixed, println, task};
use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::call::{Call, TcapOperation};
use core::sync::atomic::{AtomicU64, Ordering};

/// What each thread takes from.
const FIRST_RECEIVE: u64 = 24;
/// What sends to each.
const FIRST_SEND: u64 = 192;
/// Threads with a number below this have an end point.
const ENDS: u64 = 40;
/// Servers that are made, and claims.
const FIRST_MADE: u64 = 232;
/// The interrupt of a device.
const DEVICE: u64 = 248;

/// Kinds of calls, as they are counted.
#[derive(Clone, Copy)]
enum Kind {
    Receive,
    Delegate,
    Claims,
    Schedule,
    Send,
    Threads,
    Servers,
    Bind,
    Done,
}
const KINDS: usize = 9;

/// How many calls of each kind were made, and how many of them were obeyed: of all threads. One that waits when it is stopped was neither.
static MADE: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];
static OBEYED: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// A call was made.
fn note<T>(kind: Kind, answer: Result<T, Code>) {
    MADE[kind as usize].fetch_add(1, Ordering::Relaxed);
    // A date that came is what a wait was for.
    if matches!(answer, Ok(_) | Err(Code::TimedOut)) {
        OBEYED[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// What a call says of itself that is made by its number.
fn answered([code, ..]: [u64; 8]) -> Result<(), Code> {
    match Code::from_number(code) {
        Some(Code::Ok) | None => Ok(()),
        Some(code) => Err(code),
    }
}

/// When all others were stopped: says how many calls were made and obeyed, of each kind.
pub(crate) fn report(milliseconds: u64) {
    let _ = receive(0, counter_ticks() + milliseconds * MILLISECOND);
    for (number, (made, obeyed)) in MADE.iter().zip(&OBEYED).enumerate() {
        println!("acts {number}: {} {}", obeyed.load(Ordering::Relaxed), made.load(Ordering::Relaxed));
    }
}

/// A seed, and how many were taken.
struct Random(u64, u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.1 += 1;
        mixed(self.0, self.1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn one_of<const N: usize>(&mut self, choices: [u64; N]) -> u64 {
        choices[self.below(N as u64) as usize]
    }
}

/// A thread of many, and of what there is.
struct Actor {
    random: Random,
    number: u64,
    threads: u64,
    claims: u64,
    schedulers: u64,
}

/// The argument of a thread: its role, its number, how many threads, claims and schedulers there are, a byte each, and a seed of 24 bits.
pub(crate) fn act(argument: u64) {
    let byte = |place: u32| argument >> (8 * place) & 0xff;
    let number = byte(1);
    let random = Random((argument >> 40 << 8) + number, 0);
    let mut actor = Actor { random, number, threads: byte(2), claims: byte(3), schedulers: byte(4) };
    // Who measures stops it.
    loop {
        actor.step();
    }
}

impl Actor {
    fn step(&mut self) {
        // A scheduler's thread schedules, mostly.
        let is_scheduler = self.number < self.schedulers && self.random.below(3) != 0;
        match if is_scheduler { 60 } else { self.random.below(100) } {
            0..22 => self.sleep(),
            22..25 => note(Kind::Done, interrupt_done(DEVICE)),
            25..33 => spin(counter_ticks() + self.random.below(20_000)),
            33..48 => self.give(),
            48..56 => self.change_claims(),
            56..68 => self.schedule(),
            68..80 => {
                let to = FIRST_SEND + self.random.below(self.threads.min(ENDS));
                note(Kind::Send, invoke(to, [1 << self.random.below(64); 8]));
            }
            80..91 => self.stop_and_start(),
            91..97 => self.change_servers(),
            _ => {
                let to = self.random.one_of([FIRST_SCHEDULER, FIRST_MADE]) + self.random.below(4);
                note(Kind::Bind, bind(self.thread(), to));
            }
        }
    }

    fn thread(&mut self) -> u64 {
        FIRST_THREAD + self.random.below(self.threads)
    }

    fn claim(&mut self) -> u64 {
        FIRST_CLAIM + self.random.below(self.claims)
    }

    /// An instant at which others are awake too, or just behind it.
    fn date_ticks(&mut self) -> u64 {
        let grid = self.random.one_of([MILLISECOND / 4, MILLISECOND, 4 * MILLISECOND]);
        let behind = self.random.one_of([0, 0, 0, 37, 1_000]);
        (counter_ticks() / grid + 1) * grid + behind
    }

    fn sleep(&mut self) {
        let date_ticks = self.date_ticks();
        // Signals wake it, or nothing does.
        let own = if self.number < ENDS { FIRST_RECEIVE + self.number } else { 0 };
        let slot = self.random.one_of([0, own]);
        let answer = receive(slot, date_ticks);
        note(Kind::Receive, answer);
        // It may be from somebody else: a driver cannot tell either.
        if answer.is_ok_and(|(bits, _)| bits & 1 == 1) {
            note(Kind::Done, interrupt_done(DEVICE));
        }
    }

    fn give(&mut self) {
        let to = if self.random.below(3) == 0 {
            FIRST_SEND + self.random.below(self.threads.min(ENDS))
        } else {
            self.claim()
        };
        let (from, ticks) = (self.claim(), self.random.one_of([0, 0, 1_100, 5_000, MILLISECOND, u64::MAX]));
        let (number, notify) = (self.random.below(3), self.random.below(3) == 0);
        note(Kind::Delegate, delegate(to, from, ticks, number, notify));
    }

    fn change_claims(&mut self) {
        let made = FIRST_MADE + 8 + self.random.below(8);
        let (to, from, ticks) = (self.claim(), self.claim(), self.random.one_of([0, 1_100, MILLISECOND]));
        let scheduler = FIRST_SCHEDULER + self.random.below(self.schedulers);
        let [operation, first, second, third] = match self.random.below(5) {
            0 => [TcapOperation::Create.number(), scheduler, made, 0],
            1 => [TcapOperation::Merge.number(), to, made, 0],
            2 => [TcapOperation::Transfer.number(), made, from, ticks],
            3 => [TcapOperation::Priority.number(), to, 1 + self.random.below(3), 0],
            _ => [TcapOperation::Transfer.number(), to, from, ticks],
        };
        let x = [operation, first, second, third, 0, 0, 0, 0];
        note(Kind::Claims, answered(call::<{ Call::Tcap.number() }>(x)));
    }

    /// As a scheduler that decides at random; in another thread all of it is refused.
    fn schedule(&mut self) {
        let scheduler =
            FIRST_SCHEDULER + if self.number < self.schedulers { self.number } else { self.random.below(8) };
        let date_ticks = self.date_ticks();
        let deadline_ticks = if self.random.below(2) == 0 { Some(date_ticks) } else { None };
        // Mostly of whom it is told that it is awake.
        let mut event = events(scheduler, deadline_ticks).ok();
        while event.is_some_and(|event| event.what & 1 == 0) && self.random.below(8) != 0 {
            event = events(scheduler, None).ok();
        }
        if event.is_none() && self.random.below(4) != 0 {
            return;
        }
        let claim = if self.random.below(4) != 0 { 0 } else { self.claim() };
        let timeout_ticks = if self.random.below(2) == 0 { 0 } else { date_ticks };
        let number = self.random.below(4);
        let (told, token) = event.map_or((None, self.random.below(4)), |event| (Some(event.label), event.token));
        let thread = told.filter(|_| self.random.below(8) != 0).map_or(self.thread(), |label| FIRST_THREAD + label);
        let x = [scheduler, thread, claim, number, timeout_ticks, token, 0, 0];
        note(Kind::Schedule, answered(call::<{ Call::Switch.number() }>(x)));
    }

    fn stop_and_start(&mut self) {
        let thread = self.thread();
        let answer = match self.random.below(4) {
            0 => task::suspend(thread),
            1 => task::limit(thread, self.random.one_of([1, 1_000, MILLISECOND]), FIRST_SEND + self.number),
            _ => task::resume(thread),
        };
        note(Kind::Threads, answer);
    }

    fn change_servers(&mut self) {
        let slot = FIRST_MADE + self.random.below(8);
        let (budget_ticks, period_ticks) = (1_000 + self.random.below(MILLISECOND), 10 * MILLISECOND);
        if self.random.below(2) == 0 {
            note(Kind::Servers, create_server(BAND, budget_ticks, period_ticks, slot));
        } else {
            let answer = destroy_server(slot);
            if answer.is_ok() {
                let _ = delete_capability(slot);
            }
            note(Kind::Servers, answer);
        }
    }
}
