//! Attacks with this guest's own translation tables, stack, vectors and odd kinds of access.

use super::memory::{past_ram, survived};
use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::{interrupt, syndrome::Syndrome};
use core::arch::asm;

const GICD_CTLR: u64 = 0x0000;
const GICD_TYPER: u64 = 0x0004;
/// Valid table descriptor; valid block with access flag, Normal write-back (MAIR index 1), inner shareable.
const TABLE: u64 = 3;
const BLOCK: u64 = 1 | (1 << 10) | (1 << 2) | (3 << 8);
/// Second GiB above this guest's own map: level-1 entry 4.
const ALIAS: u64 = 0x1_0000_0000;
const ALIAS_INDEX: usize = 4;

/// A translation table of this guest's own making.
#[repr(C, align(4096))]
struct Table([u64; 512]);

static mut LEVEL1: Table = Table([0; 512]);

/// Copies the first entries of the table in use, sets entry 4 and switches to the copy while `work` runs.
fn with_alias(entry: u64, work: impl FnOnce()) {
    let used: u64;
    // SAFETY: reads the base of the SDK's level-1 table.
    unsafe { asm!("mrs {}, TTBR0_EL1", out(reg) used, options(nomem, nostack, preserves_flags)) };
    // SAFETY: one vCPU, and this function alone uses the table; the SDK's table has 512 entries. Entries 0 to 3 are kept,
    // so the program's own map stays.
    unsafe {
        let table = (&raw mut LEVEL1).as_mut_unchecked();
        let source = used as *const u64;
        for (index, slot) in table.0.iter_mut().enumerate().take(ALIAS_INDEX) {
            *slot = source.add(index).read_volatile();
        }
        table.0[ALIAS_INDEX] = entry;
    }
    set_tables((&raw const LEVEL1) as u64);
    work();
    set_tables(used);
}

fn set_tables(base: u64) {
    // SAFETY: the callers give a table with this program's own map; the memory is barriered before.
    unsafe {
        asm!("dsb ish", "msr TTBR0_EL1, {}", "isb", "tlbi vmalle1", "dsb nsh", "isb", in(reg) base, options(nostack))
    };
}

/// Maps foreign memory by an entry of one's own table and reads through it.
fn read_through_alias(entry: u64) -> Option<Syndrome> {
    trial::attempt(|| {
        with_alias(entry, || {
            trial::read(ALIAS);
        });
    })
}

fn beyond_physical() -> Outcome {
    match read_through_alias(BLOCK | (1 << 40)) {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("the access went through", 0),
    }
}

/// Puts the root of one's own tables into foreign memory: the next fetch walks there.
fn foreign_tables() -> Outcome {
    survived(trial::attempt(|| set_tables(past_ram().next_multiple_of(4096))))
}

/// Takes an exception on a stack in foreign memory.
fn foreign_stack() -> Outcome {
    let stack = past_ram() + 0x1000;
    survived(trial::attempt(|| {
        // SAFETY: the exception's frame goes to foreign memory, which is being tried; should it come back, the stack
        // pointer is put back.
        unsafe { asm!("mov x20, sp", "mov sp, {}", "svc #0", "mov sp, x20", in(reg) stack, out("x20") _) };
    }))
}

/// Takes an exception with vectors in foreign memory.
fn foreign_vectors() -> Outcome {
    let vectors = past_ram().next_multiple_of(2048);
    survived(trial::attempt(|| {
        // SAFETY: the fetch of the vector is being tried; should the SVC come back, the vectors are put back.
        unsafe {
            asm!("mrs x20, VBAR_EL1", "msr VBAR_EL1, {}", "isb", "svc #0", "msr VBAR_EL1, x20", "isb", in(reg) vectors, out("x20") _);
        }
    }))
}

/// Asks for translations that belong to EL2: UNDEFINED at EL1.
fn translate_as_el2() -> Outcome {
    let address = past_ram();
    let undefined = trial::attempt(|| {
        // SAFETY: address translation instructions change PAR_EL1 alone.
        unsafe { asm!("at s12e1r, {}", "isb", in(reg) address, options(nostack)) };
    });
    match undefined {
        Some(syndrome) if syndrome.class() == 0 => Outcome::contained("undefined, ESR", syndrome.0),
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("the instruction was done", 0),
    }
}

/// Asks where foreign memory is: the answer is this guest's own map, never a physical address.
fn translate_foreign() -> Outcome {
    let address = past_ram().next_multiple_of(4096);
    let mut result = 0;
    let exception = trial::attempt(|| {
        // SAFETY: as above.
        unsafe { asm!("at s1e1r, {}", "isb", "mrs {}, PAR_EL1", in(reg) address, out(reg) result, options(nostack)) };
    });
    let found = result & 0xff_ffff_f000;
    match exception {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped_unless(result & 1 != 0 || found == address, "PAR_EL1", result),
    }
}

fn zero_foreign_line() -> Outcome {
    let address = past_ram();
    survived(trial::attempt(|| {
        // SAFETY: the line is outside this guest's RAM; that it is not zeroed is being tried.
        unsafe { asm!("dc zva, {}", in(reg) address, options(nostack)) };
    }))
}

fn exclusive_on_foreign() -> Outcome {
    let address = past_ram();
    survived(trial::attempt(|| {
        // SAFETY: as for every foreign access here.
        unsafe {
            asm!("ldxr w20, [{0}]", "stxr w21, w20, [{0}]", in(reg) address, out("x20") _, out("x21") _, options(nostack))
        };
    }))
}

/// Accesses to an emulated window for which the core gives no description.
macro_rules! odd_access {
    ($name:ident, $instruction:literal) => {
        fn $name() -> Outcome {
            let address = interrupt::distributor() + GICD_CTLR;
            survived(trial::attempt(|| {
                // SAFETY: a read of an emulated register; x20 to x22 are declared.
                unsafe {
                    asm!($instruction, inout("x20") address => _, out("x21") _, out("x22") _, options(nostack));
                }
            }))
        }
    };
}

odd_access!(pair_access, "ldp x21, x22, [x20]");
odd_access!(writeback_access, "ldr w21, [x20], #4");
odd_access!(exclusive_access, "ldxr w21, [x20]");

/// A well-formed access of a width that the register does not have.
fn wrong_width() -> Outcome {
    let address = interrupt::distributor() + GICD_TYPER + 4;
    let mut value = 0;
    let exception = trial::attempt(|| {
        // SAFETY: a read of an emulated register.
        unsafe { asm!("ldr {}, [{}]", out(reg) value, in(reg) address, options(nostack)) };
    });
    match exception {
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped_unless(value == 0, "value", value),
    }
}

fn unaligned_access() -> Outcome {
    let address = interrupt::distributor() + GICD_TYPER + 1;
    let mut value = 0;
    match trial::attempt(|| value = trial::read(address)) {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        // The emulated core lets it through to the monitor, which has no such register.
        None => Outcome::escaped_unless(value == 0, "value", u64::from(value)),
    }
}

fn jump_to_distributor() -> Outcome {
    survived(trial::attempt(|| trial::jump_untranslated(interrupt::distributor())))
}

macro_rules! attack {
    ($name:literal, $expectation:ident, $run:expr) => {
        Attack { name: $name, expectation: Expectation::$expectation, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    attack!("map foreign memory as a block", Fault, || {
        survived(read_through_alias(BLOCK | (past_ram().next_multiple_of(1 << 30))))
    }),
    attack!("hang a foreign page into own tables", Fault, || {
        survived(read_through_alias(TABLE | past_ram().next_multiple_of(4096)))
    }),
    attack!("map beyond the physical address space", Answer, beyond_physical),
    attack!("own tables in foreign memory", Fault, foreign_tables),
    attack!("own stack in foreign memory", Fault, foreign_stack),
    attack!("own vectors in foreign memory", Fault, foreign_vectors),
    attack!("translate by EL2's tables", Answer, translate_as_el2),
    attack!("translate a foreign address", Answer, translate_foreign),
    attack!("zero a foreign cache line", Fault, zero_foreign_line),
    attack!("exclusive access to foreign memory", Fault, exclusive_on_foreign),
    attack!("load pair from the distributor", Fault, pair_access),
    attack!("load with write-back from the distributor", Fault, writeback_access),
    attack!("load exclusive from the distributor", Fault, exclusive_access),
    attack!("jump into the distributor", Fault, jump_to_distributor),
    attack!("wrong width on the distributor", Answer, wrong_width),
    attack!("unaligned access to the distributor", Answer, unaligned_access),
];
