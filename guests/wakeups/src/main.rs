//! Waits for interrupts in every way and counts: what was sent must have come, and come in time (SP-14, SP-16, SP-17).
//!
//! Arguments: `role=own` (its own timer, at random dates, some of them past, and software-generated interrupts to itself),
//! `role=ping` (rings the doorbell of its first source port, waits for an answer, and so on; sometimes it spins, so on one core
//! it must not be more important than who answers) and `role=pong` (answers);
//! `count=N` (default 1000), `seed=N`, `start_us=N` (when it begins, default at once).
//!
//! A wait is one of two: masked, as idle loops of operating systems have it, where no interrupt may be missed, or open, where
//! the interrupt can be handled just before the WFI and nothing else would end it. So a second timer guards every wait. A wait
//! that only the guard ended is a lost wake-up, unless the handler had run before.
//!
//! Output: `wakeups done sent=N received=N lost=N guarded=N late=TICKS slept=TICKS`, late being the longest time from a
//! timer's date to its handler, slept the longest WFI with an interrupt already pending.
#![no_std]
#![no_main]

use bulkhead_sdk::{
    arguments, cpu, hypercall, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    println, timer,
};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

bulkhead_sdk::entry!(main);

const OWN_SGI: InterruptId = InterruptId(6);
const PHYSICAL_TIMER: InterruptId = InterruptId(30);
/// Longest wait that can be right, in microseconds.
const GUARD_MICROSECONDS: u64 = 200_000;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
const NEVER: u64 = u64::MAX;

static RECEIVED: AtomicU64 = AtomicU64::new(0);
/// Date of the virtual timer.
static DATE: AtomicU64 = AtomicU64::new(NEVER);
static LATEST: AtomicU64 = AtomicU64::new(0);
static GUARDS: AtomicU64 = AtomicU64::new(0);
/// Interrupts received when the guard rang.
static RECEIVED_AT_GUARD: AtomicU64 = AtomicU64::new(0);

/// Sets or stops the physical timer.
fn set_guard(ticks: Option<u64>) {
    let (compare, control) = ticks.map_or((NEVER, 0u64), |ticks| (ticks, 1));
    // SAFETY: this guest's own timer.
    unsafe {
        asm!("msr CNTP_CVAL_EL0, {}", "msr CNTP_CTL_EL0, {}", "isb", in(reg) compare, in(reg) control, options(nostack, preserves_flags));
    }
}

fn ticks_of_us(us: u64) -> u64 {
    cpu::frequency_hz() * us / MICROSECONDS_PER_SECOND
}

fn take(id: InterruptId) {
    match id {
        PHYSICAL_TIMER => {
            set_guard(None);
            GUARDS.fetch_add(1, Relaxed);
            RECEIVED_AT_GUARD.store(RECEIVED.load(Relaxed), Relaxed);
            return;
        }
        VIRTUAL_TIMER => {
            let late = cpu::counter_ticks().saturating_sub(DATE.load(Relaxed));
            timer::stop();
            LATEST.fetch_max(late, Relaxed);
        }
        _ => {}
    }
    RECEIVED.fetch_add(1, Relaxed);
}

/// How to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Masked,
    Open,
    /// Without WFI.
    Spinning,
}

/// Random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }

    fn wait(&mut self) -> Wait {
        match self.below(4) {
            0 => Wait::Open,
            1 => Wait::Spinning,
            _ => Wait::Masked,
        }
    }
}

/// What came of all waits.
#[derive(Default)]
struct Totals {
    sent: u64,
    lost: u64,
    slept_ticks: u64,
}

impl Totals {
    /// Waits until this many interrupts have come; interrupts are masked before and after.
    fn wait(&mut self, expected: u64, how: Wait) {
        let guards = GUARDS.load(Relaxed);
        set_guard(Some(cpu::counter_ticks() + ticks_of_us(GUARD_MICROSECONDS)));
        loop {
            if RECEIVED.load(Relaxed) >= expected {
                break;
            }
            if GUARDS.load(Relaxed) != guards {
                self.lost += 1;
                break;
            }
            match how {
                Wait::Masked => {
                    cpu::wait_for_interrupt();
                    cpu::unmask_interrupts();
                    cpu::mask_interrupts();
                }
                Wait::Open => {
                    cpu::unmask_interrupts();
                    cpu::wait_for_interrupt();
                    cpu::mask_interrupts();
                }
                Wait::Spinning => {
                    cpu::unmask_interrupts();
                    cpu::mask_interrupts();
                }
            }
        }
        set_guard(None);
        // The handler may have run just before an open WFI; then the guard has seen what was waited for.
        if GUARDS.load(Relaxed) != guards && how != Wait::Open && RECEIVED_AT_GUARD.load(Relaxed) < expected {
            self.lost += 1;
        }
    }

    /// A WFI with an interrupt pending returns at once.
    fn wait_with_pending(&mut self) {
        let before = cpu::counter_ticks();
        cpu::wait_for_interrupt();
        self.slept_ticks = self.slept_ticks.max(cpu::counter_ticks() - before);
    }

    fn own(&mut self, count: u64, random: &mut Random) {
        for number in 1..=count {
            let kind = random.below(4);
            let how = match random.wait() {
                // One that is pending is handled before the WFI.
                Wait::Open if kind < 2 => Wait::Masked,
                how => how,
            };
            self.sent += 1;
            match kind {
                0 => {
                    interrupt::send(OWN_SGI, 1 << cpu::vcpu());
                    if how == Wait::Masked {
                        self.wait_with_pending();
                    }
                }
                1 => {
                    // A date in the past.
                    let date = cpu::counter_ticks();
                    DATE.store(date, Relaxed);
                    timer::set_compare_ticks(date.saturating_sub(random.below(1000)));
                    if how == Wait::Masked {
                        self.wait_with_pending();
                    }
                }
                _ => {
                    let date = cpu::counter_ticks() + random.below(ticks_of_us(400));
                    DATE.store(date, Relaxed);
                    timer::set_compare_ticks(date);
                }
            }
            self.wait(number, how);
        }
    }

    fn ring(&mut self) {
        let port = information::ports().iter().find(|port| port.doorbell != u32::MAX);
        match port.map(|port| hypercall::doorbell(port.doorbell)) {
            Some(Ok(hypercall::Doorbell::Sent)) => self.sent += 1,
            answer => println!("wakeups FAILED: the doorbell answers {answer:?}"),
        }
    }

    fn bells(&mut self, count: u64, begins: bool, random: &mut Random) {
        for number in 1..=count {
            if begins {
                self.ring();
            }
            let how = if begins && random.below(3) == 0 { Wait::Spinning } else { Wait::Masked };
            self.wait(number, how);
            if !begins {
                self.ring();
            }
        }
    }
}

fn main() {
    let text = information::arguments();
    let number = |key, default| arguments::number(text, key).unwrap_or(default);
    cpu::mask_interrupts();
    interrupt::on_interrupt(take);
    interrupt::start();
    for id in [VIRTUAL_TIMER, PHYSICAL_TIMER, OWN_SGI] {
        interrupt::enable(id);
    }
    for port in information::ports().iter().filter(|port| port.interrupt != 0) {
        interrupt::enable(InterruptId(port.interrupt));
    }
    let (count, mut random) =
        (number("count", 1000), Random(number("seed", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
    println!("wakeups start");
    let start = ticks_of_us(number("start_us", 0));
    if cpu::counter_ticks() < start {
        // Others may have to be prepared meanwhile, so this is a sleep.
        DATE.store(start, Relaxed);
        timer::set_compare_ticks(start);
        cpu::wait_until(|| RECEIVED.load(Relaxed) != 0);
        cpu::mask_interrupts();
        RECEIVED.store(0, Relaxed);
        LATEST.store(0, Relaxed);
    }
    let mut totals = Totals::default();
    match arguments::value(text, "role").unwrap_or("") {
        "own" => totals.own(count, &mut random),
        "ping" => totals.bells(count, true, &mut random),
        "pong" => totals.bells(count, false, &mut random),
        other => println!("wakeups FAILED: no role is called `{other}`"),
    }
    println!(
        "wakeups done sent={} received={} lost={} guarded={} late={} slept={}",
        totals.sent,
        RECEIVED.load(Relaxed),
        totals.lost,
        GUARDS.load(Relaxed),
        LATEST.load(Relaxed),
        totals.slept_ticks,
    );
}
