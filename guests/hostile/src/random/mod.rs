//! Random steps of every kind, by a seed: what nobody thought of as an attack.
//!
//! A life of the partition is a seed: it does `steps` steps, or fewer when one of them ends its run, and asks for a restart,
//! which is the next seed. After `count` seeds, each `stride` further, it switches itself off. The partition's generation says
//! which seed it is, so nothing has to outlive a restart. Other vCPUs do steps of their own, when a step switches them on.
//!
//! Output is a line `seed N begins`, one before each step (`step NUMBER vcpu NAME VALUES`), one about an own shared interrupt after
//! accesses to it (`held NUMBER vcpu NAME INTID ENABLED PENDING ACTIVE`), and `seeds done count=N` in the end. `device=ADDRESS` and
//! `interrupt=INTID` name a device of the partition's own, a clock (PL031) or a UART (PL011).
//! Left out is what ends the attacker for good (PSCI SYSTEM_OFF, CPU_OFF of vCPU 0) and what ends or stops QEMU
//! ([`ends_emulator`]).

mod frames;
mod interface;
mod numbers;
mod others;
mod power;

use crate::{attacks, trial};
use bulkhead_sdk::{
    arguments, console, cpu, hypercall, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    println, psci, timer,
};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use numbers::Random;

pub(super) const PHYSICAL_TIMER: u32 = 30;
pub(super) const TICKS_PER_MICROSECOND: u64 = 62;

static SEED: AtomicU64 = AtomicU64::new(0);

/// A step under way: it is announced with its values before it is done.
pub(super) struct Step<'a> {
    number: u64,
    name: &'static str,
    pub(super) random: &'a mut Random,
}

impl Step<'_> {
    /// Prints the step; what follows may not come back.
    pub(super) fn announce(&self, values: &[u64]) {
        self.say("step", values);
    }

    /// Prints something about the step.
    pub(super) fn say(&self, what: &str, values: &[u64]) {
        let mut line = Line { bytes: [0; 128], length: 0 };
        let _ = write!(line, "{what} {} {} {}", self.number, cpu::vcpu(), self.name);
        for value in values {
            let _ = write!(line, " {value:x}");
        }
        let _ = line.write_str("\n");
        // At once, so that lines of several vCPUs do not mix.
        console::write_bytes(line.bytes.split_at(line.length).0);
    }
}

struct Line {
    bytes: [u8; 128],
    length: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

type Kind = (u64, &'static str, fn(&mut Step<'_>));

/// Kinds of steps with how often they come.
const KINDS: &[Kind] = &[
    (10, "private", frames::private_set),
    (5, "shared", frames::shared_set),
    (10, "own", frames::own_set),
    (6, "frame", frames::any_access),
    (4, "uart", frames::uart_registers),
    (4, "device", frames::device),
    (2, "whole", frames::whole_frame),
    (10, "sgi", interface::own_sgis),
    (2, "sgi-any", interface::any_sgi),
    (10, "timer", interface::timer_soon),
    (4, "timer-any", interface::timer_any),
    (10, "interface", interface::register),
    (8, "take", interface::take_some),
    (6, "end", interface::end_any),
    (6, "open", interface::open),
    (8, "wait", interface::wait),
    (6, "compute", interface::compute),
    (10, "crowd", interface::crowd),
    (6, "call", others::call),
    (8, "register", others::system_register),
    (4, "system", others::system_instruction),
    (3, "float", others::float),
    (3, "el0", others::el0),
    (3, "bell", others::doorbell),
    (3, "vcpu", power::vcpu),
    (1, "outside", power::outside),
    (1, "reset", power::reset),
];

/// Does seed after seed; never comes back.
pub(crate) fn run(first: u64) -> ! {
    let number = |key, default| arguments::number(information::arguments(), key).unwrap_or(default);
    let own = information::information().map_or(number("self", 0) as u32, |page| page.partition);
    let generation = hypercall::partition_status(own).map_or(1, |status| status.generation);
    let place = generation.saturating_sub(1);
    let count = number("count", 1);
    if place >= count {
        println!("\nseeds done count={count}");
        psci::system_off();
    }
    let seed = first + place * number("stride", 1);
    // What the one before left on a line of its UART is not of this line.
    println!("\nseed {seed} begins");
    SEED.store(seed, Relaxed);
    interrupt::on_interrupt(interface::take_interrupt);
    prepare();
    steps(&mut Random::new(seed, 0), number("steps", 100));
    println!("seed {seed} ends");
    psci::system_reset();
}

/// Interrupts as most guests have them.
fn prepare() {
    interrupt::start();
    for id in [VIRTUAL_TIMER, InterruptId(PHYSICAL_TIMER)] {
        interrupt::enable(id);
    }
    timer::stop();
    frames::enable_shared();
}

fn steps(random: &mut Random, count: u64) {
    let all: u64 = KINDS.iter().map(|kind| kind.0).sum();
    for number in 1..=count {
        // A partition that waits for ever is restarted by its watchdog.
        let _ = hypercall::heartbeat();
        // On an emulator where cores take turns, others get theirs.
        cpu::yield_now();
        let mut place = random.below(all);
        for (weight, name, act) in KINDS {
            if place < *weight {
                trial::attempt(|| act(&mut Step { number, name, random }));
                break;
            }
            place -= weight;
        }
    }
}

/// What a vCPU does that a step switched on.
pub(super) fn other_vcpu() {
    prepare();
    let number = arguments::number(information::arguments(), "steps").unwrap_or(100);
    steps(&mut Random::new(SEED.load(Relaxed), cpu::vcpu()), number);
}

/// States whether a write of a system register is left out, because it ends the emulator.
///
/// ICC_BPR1_EL1: `icv_gprio_mask` of QEMU 7.2 asserts that the binary point is not 0, and only values below its three bits are
/// raised to the least one. Vectors and stage 1: an exception whose vector cannot be fetched is taken again without an
/// instruction in between, and under `-icount` time passes by instructions alone, so it stands still for everybody.
pub(super) fn ends_emulator(encoding: attacks::registers::Encoding, value: u64) -> bool {
    let stops_time = attacks::registers::NEEDED_BY_VECTORS.contains(&encoding);
    stops_time || encoding == attacks::registers::BINARY_POINT_1 && value & 7 == 0 && value > 7
}
