//! The attacks, numbered from 1 by their place here.

mod calls;
mod interrupts;
mod lower;
mod memory;
mod random;
mod registers;
mod state;

pub(crate) use calls::PSCI_OFF;

use crate::World;

/// What the payload may see of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noise {
    /// EL3 is not entered for it.
    Quiet,
    /// It enters EL3 itself.
    Calls,
    /// It ends this world.
    Ends,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As stated.
    Contained,
    /// It makes no sense at this level.
    Skipped,
    /// Otherwise, but nothing was gained.
    Unexpected(&'static str, u64),
    /// Something was gained.
    Escaped(&'static str, u64),
}

/// An attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) expected: &'static str,
    pub(crate) requirement: &'static str,
    pub(crate) noise: Noise,
    pub(crate) run: fn(&World) -> Outcome,
}

const fn attack(
    noise: Noise,
    requirement: &'static str,
    name: &'static str,
    expected: &'static str,
    run: fn(&World) -> Outcome,
) -> Attack {
    Attack { name, expected, requirement, noise, run }
}

use Noise::{Calls, Ends, Quiet};

/// All of them.
#[rustfmt::skip]
pub(crate) static ATTACKS: &[Attack] = &[
    // Priorities and masks.
    attack(Quiet, "SG-6", "own interrupt of priority 0, never ended", "priority 0x80 for the secure side", interrupts::never_ended),
    attack(Quiet, "SG-7", "all active priorities set in ICC_AP1R0_EL1", "only those of this world", interrupts::active_priorities),
    attack(Quiet, "SG-7", "every value of ICC_PMR_EL1, 0 last", "a mask of this world's half", interrupts::priority_masks),
    attack(Quiet, "SG-7", "every value of ICC_BPR1_EL1", "no effect", interrupts::binary_points),
    attack(Quiet, "SG-7", "EOImode and all other bits of ICC_CTLR_EL1", "no effect", interrupts::interface_control),
    attack(Quiet, "SG-6", "group enable off and on", "no effect", interrupts::group_enable),
    attack(Quiet, "SG-6", "everything masked, for ever", "no effect", interrupts::masked_for_ever),
    attack(Quiet, "SG-6", "everything masked, asleep", "no effect", interrupts::masked_asleep),
    attack(Calls, "SG-15", "every register of group 0, read and written", "skipped, registers unchanged", interrupts::group_0),
    attack(Quiet, "SG-6", "storm of own interrupts, taken and ended", "no effect", interrupts::own_storm),
    attack(Quiet, "SG-6", "own timers asserted, taken for ever", "no effect", interrupts::asserted_for_ever),
    attack(Calls, "SG-7", "SGIs of the other groups, to every core and number", "none arrives", interrupts::foreign_sgis),
    attack(Quiet, "SG-7", "SGIs of this group to absent cores, of every number", "no effect", interrupts::absent_cores),
    attack(Quiet, "SG-7", "end of foreign interrupts", "no effect on the payload", interrupts::foreign_end),
    attack(Quiet, "SG-7", "deactivation of foreign interrupts", "no effect on the payload", interrupts::foreign_deactivation),
    attack(Quiet, "SG-7", "payload's private interrupt by its redistributor", "reads as zero, ignores writes", interrupts::private_of_payload),
    attack(Quiet, "SG-7", "payload's shared interrupt by the distributor", "reads as zero, ignores writes", interrupts::shared_of_payload),
    attack(Quiet, "SG-7", "distributor off, all groups, routing off", "own half alone", interrupts::distributor_control),
    attack(Quiet, "SG-7", "redistributor asleep and LPIs on", "no effect on the payload", interrupts::redistributor_control),
    attack(Quiet, "SG-3", "tables of the translation service in secure memory", "nothing changes there", interrupts::translation_tables),
    // Registers.
    attack(Quiet, "SG-7", "secure timer read, written and started", "undefined each time", registers::secure_timer),
    attack(Quiet, "SG-1", "registers of EL3 by name, read and written", "undefined each time", registers::of_el3),
    attack(Quiet, "SG-9", "breakpoints and watchpoints on the payload", "none is hit", registers::breakpoints),
    attack(Quiet, "SG-1", "OS lock, double lock, reset request", "no effect", registers::locks),
    attack(Quiet, "SG-1", "performance counters count everything, with interrupts", "no effect on the payload", registers::counters),
    attack(Quiet, "SG-1", "all traps of EL2 on", "none in the secure state", registers::traps_of_el2),
    attack(Quiet, "SG-1", "identity of the core changed, virtual offset, timer of EL2", "none in the secure state", registers::identity),
    attack(Quiet, "SG-9", "control and translation registers of EL1 with rubbish", "kept apart", registers::rubbish_in_el1),
    attack(Quiet, "SG-9", "big-endian data across switches", "kept apart", registers::big_endian),
    attack(Quiet, "SG-9", "values planted in system registers, looked for after switches", "its own, nothing of the payload", state::planted),
    attack(Quiet, "SG-9", "x0 to x30 and flags over interrupts", "its own, nothing of the payload", state::general_over_interrupts),
    attack(Calls, "SG-9", "x1 to x30 and flags over calls", "its own, nothing of the payload", state::general_over_calls),
    attack(Quiet, "SG-9", "floating point over interrupts", "its own, nothing of the payload", state::floating_over_interrupts),
    attack(Calls, "SG-9", "floating point over calls", "its own, nothing of the payload", state::floating_over_calls),
    attack(Quiet, "SG-9", "exclusive monitor held over a switch", "its own memory changes as it stored", state::exclusive),
    attack(Quiet, "SG-9", "own interrupt mask and group enable over switches", "its own", state::interface),
    // Calls.
    attack(Calls, "SG-32", "every range of function identifiers", "-1 each time", calls::every_range),
    attack(Calls, "SG-32", "every power of two as identifier and argument", "-1 each time", calls::powers_of_two),
    attack(Calls, "SG-32", "SMC with other immediates", "as 0", calls::immediates),
    attack(Calls, "SG-32", "calls of the secure world, from here", "-1 each time", calls::of_the_payload),
    attack(Calls, "SG-32", "secure addresses as arguments of PSCI", "-1 each time", calls::secure_addresses),
    attack(Calls, "SG-14", "CPU_ON of running, foreign and absurd cores", "refused each time", calls::cpu_on),
    attack(Calls, "SG-14", "SUSPEND and the rest of PSCI", "the world goes on", calls::psci),
    attack(Calls, "SG-48", "storm of calls", "no effect", calls::storm),
    attack(Quiet, "SG-31", "SMC and secure registers from EL0", "undefined", lower::call_from_el0),
    attack(Quiet, "SG-1", "HVC", "its own EL2", calls::hypervisor_call),
    attack(Ends, "SG-14", "CPU_OFF of the only core", "the world alone", calls::cpu_off),
    attack(Ends, "SG-14", "SYSTEM_OFF", "the world alone", calls::system_off),
    attack(Ends, "SG-14", "SYSTEM_RESET", "the world alone", calls::system_reset),
    // Memory.
    attack(Quiet, "SG-3", "reads of secure memory and devices, every size", "0x96000010 each time", memory::reads),
    attack(Quiet, "SG-3", "writes of secure memory and devices, every size", "0x96000050 each time", memory::writes),
    attack(Quiet, "SG-3", "reads and writes at each alignment, through own tables", "external abort each time", memory::unaligned),
    attack(Quiet, "SG-3", "pairs, exclusives, vectors, zeroing", "external abort each time", memory::other_accesses),
    attack(Quiet, "SG-3", "jumps into secure memory, flash and devices", "0x86000010 each time", memory::jumps),
    attack(Quiet, "SG-3", "translation tables in secure memory", "external abort of the walk", memory::foreign_tables),
    attack(Quiet, "SG-3", "translation of secure addresses, secure attribute in own tables", "no way in", memory::secure_attribute),
    attack(Quiet, "SG-3", "cache maintenance by set and way, and of secure addresses", "nothing of the payload is lost", memory::caches),
    attack(Quiet, "SG-1", "translation lookaside buffers invalidated without end", "no effect", memory::translations),
    attack(Quiet, "SG-3", "DMA of the configuration device into secure memory", "nothing changes there", memory::configuration_device),
    attack(Quiet, "SG-3", "DMA of a PCI device from and into secure memory", "reads zeros, nothing changes", memory::pci_device),
    // States.
    attack(Quiet, "SG-9", "AArch32 at EL0 over switches", "its own registers", lower::aarch32_at_el0),
    attack(Calls, "SG-15", "calls from AArch32 at EL1", "answered, nothing else", lower::aarch32_at_el1),
    attack(Calls, "SG-15", "AArch32 at EL1: group 0", "asks for ever, harms itself", lower::aarch32_group_0),
    attack(Quiet, "SG-48", "wild jump, again and again", "its own exception", state::wild_jump),
    attack(Quiet, "SG-48", "illegal return to EL3", "an illegal state of its own", state::illegal_return),
    attack(Quiet, "SG-48", "single steps of itself", "its own exceptions", state::single_steps),
    // Random, by seed, and sweeps.
    attack(Calls, "SG-32", "random calls, x0 to x17", "-1 each time", random::calls),
    attack(Quiet, "SG-7", "random writes to distributor and redistributor", "no effect on the payload", random::controller),
    attack(Calls, "SG-1", "every register read", "none of EL3 or the payload", random::every_read),
    attack(Calls, "SG-1", "every register written", "none of EL3 or the payload", random::every_write),
    attack(Calls, "SG-9", "every register that keeps what is written, over a switch", "keeps it", random::every_register_over_a_switch),
    attack(Quiet, "SG-48", "exception whose handler faults, for ever", "no effect", state::endless_fault),
];

/// Contained if it is as expected.
fn expect(is_expected: bool, what: &'static str, value: u64) -> Outcome {
    if is_expected { Outcome::Contained } else { Outcome::Unexpected(what, value) }
}

/// The first outcome that is not contained.
fn all(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    outcomes.into_iter().find(|outcome| *outcome != Outcome::Contained).unwrap_or(Outcome::Contained)
}
