//! Counts the instructions of the scheduler of shared cores (`core/sched`) on the target.
//!
//! Run it on the bare board with `-icount shift=4,sleep=off`, where a tick of the counter is an instruction. It prints
//! `bench NAME min=.. max=.. n=..` for cores of 4, 16 and 64 servers. The scheduler is the monitor's own code and is
//! compiled with the same profile; a call and its arguments are part of each number.
//!
//! Two kinds of rows. A *path* is a fixed story, the one that the monitor's latency is made of: somebody is charged, a more
//! important vCPU wakes, the core picks it. A *history* is a long random one (wakes, blocks, exhaustion, replenishments on
//! every server), and its largest number is the one that a ceiling must hold for.
#![no_std]
#![no_main]

mod histories;
mod paths;

use bulkhead_sched::budget::{Anchor, Budget, Sporadic, SporadicParameters};
use bulkhead_sched::dispatch::{Core, Next};
use bulkhead_sched::server::{Gate, OnEmpty, Server};
use bulkhead_sdk::{cpu, println};
use core::hint::black_box;

bulkhead_sdk::entry!(main);

fn main() {
    println!("bench start partition=false samples=0");
    // A scheduler is not at an address that the compiler knows.
    let places = black_box(&raw mut PLACES);
    // SAFETY: the one core of this guest runs main once, and no handler touches the places.
    let places = unsafe { &mut *places };
    measure(&mut places.four);
    measure(&mut places.sixteen);
    measure(&mut places.many);
    println!("bench done");
}

/// Where the cores are: a guest's stack has no room for one of 64 servers and a copy of it.
struct Places {
    four: Option<Core<4, 2>>,
    sixteen: Option<Core<16, 8>>,
    many: Option<Core<64, 32>>,
}

static mut PLACES: Places = Places { four: None, sixteen: None, many: None };

#[inline(never)]
fn measure<const SERVERS: usize, const VCPUS: usize>(place: &mut Option<Core<SERVERS, VCPUS>>) {
    println!("bench size_{SERVERS} min={0} max={0} n=1", size_of::<Core<SERVERS, VCPUS>>());
    for story in [
        paths::wake_above,
        paths::wake_alone,
        paths::interrupt_above,
        paths::exhaustion,
        paths::nothing_happens,
        paths::replenishment,
        histories::run,
    ] {
        story(renew(place));
    }
}

/// A core at time 0.
#[inline(never)]
fn renew<const SERVERS: usize, const VCPUS: usize>(
    place: &mut Option<Core<SERVERS, VCPUS>>,
) -> &mut Core<SERVERS, VCPUS> {
    let core = place.insert(Core::empty());
    if let Err(error) = core.configure(0, servers::<SERVERS, VCPUS>()) {
        panic!("the servers contradict each other: {error:?}");
    }
    core
}

/// Smallest and largest of some samples.
struct Range {
    minimum: u64,
    maximum: u64,
    samples: u64,
}

impl Range {
    const fn new() -> Self {
        Self { minimum: u64::MAX, maximum: 0, samples: 0 }
    }

    fn add(&mut self, instructions: u64) {
        self.minimum = self.minimum.min(instructions);
        self.maximum = self.maximum.max(instructions);
        self.samples += 1;
    }

    fn print(&self, name: &str, servers: usize) {
        println!("bench {name}_{servers} min={} max={} n={}", self.minimum, self.maximum, self.samples);
    }
}

/// Instructions of `work`. Each counter read is an ISB and the read; the second ISB and one read lie between the values.
#[inline(always)]
fn count<R>(work: impl FnOnce() -> R) -> u64 {
    let before = cpu::counter_ticks();
    let result = work();
    let after = cpu::counter_ticks();
    black_box(result);
    after.wrapping_sub(before).saturating_sub(2)
}

/// A mix as systems have it: a quarter of the servers behind interrupt gates at the top, half with reserved budgets (every
/// other one falls to the background), a quarter in the background without a limit. One less
/// than there is room for, so that the last vCPU has a reserved server alone.
fn servers<const SERVERS: usize, const VCPUS: usize>() -> impl Iterator<Item = (u8, Server)> {
    let quarter = SERVERS / 4;
    (0..SERVERS - 1).map(move |number| {
        let priority = number.min(62) as u8;
        let server = if number < quarter {
            Server::new(priority, sporadic(40, 400 * SERVERS as u64, 4, Anchor::Dispatch))
                .gated(Gate::InterruptPending(1))
        } else if number < SERVERS - quarter {
            let server = Server::new(priority, sporadic(200, 300 * SERVERS as u64, 8, Anchor::Eligible));
            if number % 2 == 0 { server.on_empty(OnEmpty::Background(63)) } else { server }
        } else {
            Server::new(priority, Budget::Unlimited)
        };
        ((number % VCPUS) as u8, server)
    })
}

fn sporadic(budget_ticks: u64, period_ticks: u64, chunks: u8, anchor: Anchor) -> Budget {
    let parameters =
        SporadicParameters { budget_ticks, period_ticks, smallest_chunk_ticks: 5, chunks, anchor, lag_clamp: true };
    match Sporadic::new(parameters, 0) {
        Ok(rule) => Budget::Sporadic(rule),
        Err(error) => panic!("the parameters contradict each other: {error:?}"),
    }
}

// The reports as the monitor makes them: calls that the compiler does not merge with what is around them.

#[inline(never)]
fn wake<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>, now: u64, vcpu: u8) {
    core.wake(now, vcpu);
}

#[inline(never)]
fn block<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>, now: u64, vcpu: u8) {
    core.block(now, vcpu);
}

#[inline(never)]
fn set_pending<const SERVERS: usize, const VCPUS: usize>(
    core: &mut Core<SERVERS, VCPUS>,
    now: u64,
    vcpu: u8,
    sources: u64,
) {
    core.set_pending(now, vcpu, sources);
}

#[inline(never)]
fn advance<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>, now: u64) {
    core.advance(now);
}

#[inline(never)]
fn pick<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>, now: u64) -> Next {
    core.next(now)
}
