//! Computes and prints while others attack. Everything that it sees is its own: registers, flags, memory, the length of its rounds.

use bulkhead_component::call::{counter_ticks, version};
use bulkhead_component::{Code, println};
use bulkhead_hostile::kernel::poll;
use bulkhead_hostile::registers::{FLAGS, LOOP, exchange, pattern};
use bulkhead_kernel_abi::call::Call;
use core::fmt;
use core::hint::black_box;

/// Its end point, by which the umpire tells it that all is over.
const END_POINT: u64 = 1;
/// Its mark in patterns.
const MARK: u64 = 0x7163;
/// Words of memory that it looks at.
const WORDS: usize = 512;
/// Rounds between two lines.
const ROUNDS_PER_LINE: u64 = 512;
/// Turns of the loop in which interrupts come.
const TURNS: u64 = 400;

/// What was not as it should be.
#[derive(Default)]
struct Wrong {
    registers: u64,
    memory: u64,
    results: u64,
    calls: u64,
}

/// Lengths that something had, of which there are few.
#[derive(Default)]
struct Lengths([(u64, u64); 8]);

impl Lengths {
    fn count(&mut self, length: u64) {
        if let Some(one) = self.0.iter_mut().find(|(known, count)| *known == length || *count == 0) {
            *one = (length, one.1 + 1);
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .filter(|(_, count)| *count != 0)
            .try_for_each(|(length, count)| write!(formatter, " {length}: {count}"))
    }
}

pub(crate) fn run() {
    let mut memory = [0u64; WORDS];
    fill(&mut memory, 0);
    let expected = sum(&memory);
    let (mut rounds, mut calls, mut wrong) = (Lengths::default(), Lengths::default(), Wrong::default());
    let mut round = 0;
    while poll(END_POINT) != Code::Ok {
        round += 1;
        let before = counter_ticks();
        let result = sum(black_box(&memory));
        let between = counter_ticks();
        let answer = version();
        calls.count(counter_ticks() - between);
        rounds.count(between - before);
        wrong.results += u64::from(result != expected);
        wrong.calls += u64::from(answer.is_err());
        across(usize::from(Call::Yield.number()), round, &mut wrong);
        across(LOOP, round, &mut wrong);
        wrong.memory += memory.iter().zip(0..).filter(|(word, place)| **word != own(*place)).count() as u64;
        if round % ROUNDS_PER_LINE == 0 {
            println!("\nvictim: {expected:#x}");
        }
    }
    println!("\nvictim: rounds {rounds}");
    println!("victim: calls {calls}");
    let Wrong { registers, memory, results, calls } = wrong;
    println!("victim: wrong: registers {registers}, memory {memory}, results {results}, calls {calls}");
}

/// All registers behind something that keeps them, but for x0.
fn across(number: usize, round: u64, wrong: &mut Wrong) {
    let mut put = pattern(MARK, round);
    if number == LOOP {
        put[0] = TURNS;
    }
    let found = exchange(number, &put);
    put[0] = 0;
    put[FLAGS] &= bulkhead_hostile::registers::FLAG_BITS;
    wrong.registers += put.iter().zip(found).filter(|(put, found)| **put != *found).count() as u64;
}

fn own(place: u64) -> u64 {
    MARK << 48 | place.wrapping_mul(0x9e37_79b9)
}

fn fill(memory: &mut [u64], first: u64) {
    memory.iter_mut().zip(first..).for_each(|(word, place)| *word = own(place));
}

/// A sum that takes as many instructions whatever the words are.
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum: u64, word| sum.rotate_left(5) ^ *word)
}
