//! A link in a chain of wake-ups: sleeps, is woken, works, rings others, works on, and sleeps again; all exact to the tick.
//!
//! Arguments, times in ticks of the machine's counter: `first=N period=N count=N` (its own timer's dates), `work=N` (own time
//! before it rings), `grow=N` (more of it from one date to the next), `bell_work=N` (instead of it, after a doorbell), `rings=N`
//! (how often it rings all its doorbells then, default 0), `after=N` (own time after that), `ends=first` (the interrupt ends
//! before the work rather than after it), `background=compute` (looks for interrupts rather than sleep), `bells=N` (doorbells to
//! receive before it ends), `end=N` (when it gives up), `float=SEED` (keeps values in all floating-point registers and looks for
//! changes after each wait and after each piece of work).
//!
//! Own time is counted by a loop of a few instructions that reads the counter, so it also sees when the core was taken away.
//! Interrupts are masked throughout and taken by reading ICC_IAR1_EL1, with no vectors and no stack in between.
//! Record: date (0 for a doorbell), tick at which it was taken, longest absence during the work (left, back; 0 if none), tick of
//! the first ring (0 if none), tick of the end of the work.

use crate::{Settings, log::Log};
use bulkhead_sdk::{
    cpu, hypercall, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    println, timer,
};
use core::arch::{asm, global_asm};

global_asm!(include_str!("float.s"));

unsafe extern "C" {
    fn bulkhead_experiment_float_load(words: *const u64);
    fn bulkhead_experiment_float_store(words: *mut u64);
}

const PHYSICAL_TIMER: InterruptId = InterruptId(30);
/// Shorter times between two looks at the counter are the loop itself and interrupts that the monitor passes on.
const ABSENCE_TICKS: u64 = 200;
const FLOAT_WORDS: usize = 64;
const NEVER: u64 = u64::MAX;

/// What one wake-up saw.
#[derive(Default)]
struct Seen {
    left: u64,
    back: u64,
    rang: u64,
}

impl Seen {
    /// Works for this many ticks of own time, counted from a tick on; returns the tick of the end.
    fn work(&mut self, from: u64, ticks: u64) -> u64 {
        let (mut last, mut own) = (from, 0);
        while own < ticks {
            let now = cpu::counter_ticks();
            let step = now - last;
            if step < ABSENCE_TICKS {
                own += step;
            } else if step > self.back - self.left {
                (self.left, self.back) = (last, now);
            }
            last = now;
        }
        last
    }
}

/// Values in the floating-point registers.
struct Float {
    expected: [u64; FLOAT_WORDS],
    next: u64,
    differences: u64,
}

impl Float {
    fn new(seed: u64) -> Self {
        let mut float = Self { expected: [0; FLOAT_WORDS], next: seed, differences: 0 };
        // SAFETY: floating point belongs to this guest, whose code is built without it.
        unsafe { asm!("msr CPACR_EL1, {}", "isb", in(reg) 3u64 << 20, options(nomem, nostack, preserves_flags)) };
        float.refill();
        float
    }

    fn refill(&mut self) {
        for word in &mut self.expected {
            self.next = self.next.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            *word = self.next;
        }
        // SAFETY: the array has the 64 words that are read.
        unsafe { bulkhead_experiment_float_load(self.expected.as_ptr()) };
    }

    fn check(&mut self) {
        let mut found = [0u64; FLOAT_WORDS];
        // SAFETY: the array has the 64 words that are written.
        unsafe { bulkhead_experiment_float_store(found.as_mut_ptr()) };
        self.differences +=
            found.iter().zip(&self.expected).filter(|(found, expected)| found != expected).count() as u64;
    }
}

/// Takes the next interrupt; returns the tick and its number.
fn take(computes: bool) -> (u64, u32) {
    loop {
        if !computes {
            cpu::wait_for_interrupt();
        }
        let (id, entered): (u64, u64);
        // SAFETY: acknowledges an interrupt of this guest; it is ended by `end_of_interrupt`. The counter is read afterwards, or
        // an interrupt between the two would come before its date.
        unsafe {
            asm!("mrs {}, ICC_IAR1_EL1", "mrs {}, CNTVCT_EL0", out(reg) id, out(reg) entered, options(nostack, preserves_flags));
        }
        if id < 1020 {
            return (entered, id as u32);
        }
    }
}

fn end_of_interrupt(id: u32) {
    // SAFETY: ends the interrupt that `take` acknowledged.
    unsafe { asm!("msr ICC_EOIR1_EL1, {}", in(reg) u64::from(id), options(nostack, preserves_flags)) };
}

/// Sets the date at which the guest gives up.
fn set_guard(ticks: u64) {
    // SAFETY: this guest's own timer.
    unsafe {
        asm!("msr CNTP_CVAL_EL0, {}", "msr CNTP_CTL_EL0, {}", "isb", in(reg) ticks, in(reg) u64::from(ticks != NEVER), options(nostack, preserves_flags));
    }
}

fn ring(rings: u64) -> (u64, u64) {
    let begun = cpu::counter_ticks();
    let mut sent = 0;
    for _ in 0..rings {
        for port in information::ports().iter().filter(|port| port.doorbell != u32::MAX) {
            sent += u64::from(hypercall::doorbell(port.doorbell) == Ok(hypercall::Doorbell::Sent));
        }
    }
    (if rings == 0 { 0 } else { begun }, sent)
}

/// What the arguments ask for.
struct Link {
    period: u64,
    count: u64,
    bells: u64,
    work: u64,
    bell_work: u64,
    grow: u64,
    rings: u64,
    after: u64,
    computes: bool,
    ends_first: bool,
}

impl Link {
    fn read(settings: &Settings) -> Self {
        let number = |key| settings.number(key, 0);
        Self {
            period: number("period"),
            count: number("count"),
            bells: number("bells"),
            work: number("work"),
            bell_work: settings.number("bell_work", number("work")),
            grow: number("grow"),
            rings: number("rings"),
            after: number("after"),
            computes: settings.word("background") == "compute",
            ends_first: settings.word("ends") == "first",
        }
    }

    /// The work of one wake-up and what was seen of it, the tick of its end, and how many doorbells were rung.
    fn serve(&self, entered: u64, work: u64, float: &mut Option<Float>) -> (Seen, u64, u64) {
        let mut begun = entered;
        if let Some(float) = float {
            float.check();
            float.refill();
            // That takes longer than what is taken for an absence.
            begun = cpu::counter_ticks();
        }
        let mut seen = Seen::default();
        seen.work(begun, work);
        let (rang, sent) = ring(self.rings);
        seen.rang = rang;
        let done = seen.work(cpu::counter_ticks(), self.after);
        if let Some(float) = float {
            float.check();
        }
        (seen, done, sent)
    }
}

pub(crate) fn run(settings: &Settings) {
    let link = Link::read(settings);
    let mut date = if link.count == 0 { NEVER } else { settings.number("first", 0) };
    let seed = settings.number("float", 0);
    let mut float = (seed != 0).then(|| Float::new(seed));
    let mut log = Log::new(6);
    let (mut timers, mut bells, mut sent) = (0, 0, 0);
    interrupt::enable(PHYSICAL_TIMER);
    for port in information::ports().iter().filter(|port| port.interrupt != 0) {
        interrupt::enable(InterruptId(port.interrupt));
    }
    set_guard(settings.number("end", NEVER));
    if date != NEVER {
        timer::set_compare_ticks(date);
    }
    while timers < link.count || bells < link.bells {
        let (entered, id) = take(link.computes);
        let (mut of_this, mut work) = (0, link.bell_work);
        match InterruptId(id) {
            PHYSICAL_TIMER => {
                set_guard(NEVER);
                end_of_interrupt(id);
                break;
            }
            VIRTUAL_TIMER => {
                (of_this, work) = (date, link.work + timers * link.grow);
                timers += 1;
                date += link.period;
                if timers < link.count { timer::set_compare_ticks(date) } else { timer::stop() }
            }
            _ => bells += 1,
        }
        if link.ends_first {
            end_of_interrupt(id);
        }
        let (seen, done, rung) = link.serve(entered, work, &mut float);
        sent += rung;
        log.add(&[of_this, entered, seen.left, seen.back, seen.rang, done]);
        if !link.ends_first {
            end_of_interrupt(id);
        }
    }
    set_guard(NEVER);
    let differences = float.map_or(0, |float| float.differences);
    println!("relay timers={timers} bells={bells} sent={sent} differences={differences}");
    log.announce();
}
