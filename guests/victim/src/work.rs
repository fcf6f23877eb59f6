//! One round of the victim's work and its digest.

use bulkhead_sdk::{cpu, interrupt, mmio};
use core::arch::asm;

/// Words of memory that keep their content from round to round.
const WORDS: usize = 8192;
/// Words between two hints that let an emulator run other cores.
const WORDS_PER_YIELD: usize = 256;
const GICR_ISENABLER0: u64 = 0x1_0100;
/// Multiplier and increment of a 64-bit linear congruential generator (Knuth, TAOCP 3.3.4).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

static mut MEMORY: [u64; WORDS] = [0; WORDS];

/// The victim's memory and the digest so far.
pub(crate) struct Work {
    memory: &'static mut [u64; WORDS],
    digest: u64,
}

impl Work {
    /// Takes the memory and fills it; made once.
    pub(crate) fn new() -> Self {
        // SAFETY: the one vCPU calls this once, and nothing else names the array.
        let memory = unsafe { (&raw mut MEMORY).as_mut_unchecked() };
        let mut value = 1;
        for word in memory.iter_mut() {
            value = next(value);
            *word = value;
        }
        write_scratch_registers(0);
        Self { memory, digest: 0 }
    }

    /// Does one round and returns the digest of everything since the start.
    pub(crate) fn round(&mut self, line: u64) -> u64 {
        for (index, word) in self.memory.iter_mut().enumerate() {
            self.digest = next(self.digest ^ *word);
            *word = self.digest;
            if index.is_multiple_of(WORDS_PER_YIELD) {
                cpu::yield_now();
            }
        }
        for value in read_scratch_registers() {
            self.digest = next(self.digest ^ value);
        }
        write_scratch_registers(line);
        self.digest = next(self.digest ^ enabled_interrupts());
        self.digest
    }
}

fn next(value: u64) -> u64 {
    value.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)
}

/// Interrupts 0 to 31 that are enabled on this core; a foreign write to the redistributor would show here.
fn enabled_interrupts() -> u64 {
    // SAFETY: a redistributor register of this guest without a side effect.
    u64::from(unsafe { mmio::read32(interrupt::redistributor() + GICR_ISENABLER0) })
}

/// Registers of EL1 that nothing in this guest uses.
fn read_scratch_registers() -> [u64; 4] {
    let (first, second, third, fourth): (u64, u64, u64, u64);
    // SAFETY: reads registers that only this file uses.
    unsafe {
        asm!(
            "mrs {}, TPIDR_EL1", "mrs {}, TPIDR_EL0", "mrs {}, TPIDRRO_EL0", "mrs {}, CONTEXTIDR_EL1",
            out(reg) first, out(reg) second, out(reg) third, out(reg) fourth,
            options(nomem, nostack, preserves_flags),
        );
    }
    [first, second, third, fourth]
}

fn write_scratch_registers(value: u64) {
    // SAFETY: writes registers that only this file uses; CONTEXTIDR is compared by debug hardware alone.
    unsafe {
        asm!(
            "msr TPIDR_EL1, {0}", "msr TPIDR_EL0, {1}", "msr TPIDRRO_EL0, {2}", "msr CONTEXTIDR_EL1, {3}",
            in(reg) value, in(reg) value.wrapping_add(1), in(reg) value.wrapping_add(2), in(reg) value & 0xffff_ffff,
            options(nomem, nostack, preserves_flags),
        );
    }
}
