//! A guest that takes exception after exception without executing an instruction: the vector of each cannot be fetched.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::status::{REASON_INSTRUCTION_ABORT, REASON_WATCHDOG, STATE_STOPPED};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, field};
use bulkhead_system_tests::{LIMIT, Running, System};

/// Beyond the physical addresses of the core: without its MMU, a fault of the guest's own (an address size fault), of which the
/// monitor hears nothing.
const BEYOND: u64 = 1 << 47;
/// An address like any other, where nothing is mapped: a fault of stage 2, which is the monitor's.
const NOWHERE: u64 = 0x7000_0000;
/// 100 ms at 62.5 MHz.
const LATER: u64 = 6_250_000;
/// The attacker says here that it begins.
const BEGINS: u64 = 0x20_0000;

/// Takes an exception whose vector is at `vectors`, some time after its start.
fn storm(vectors: u64) -> Program {
    let mut program = Program::new();
    program.constant(20, LATER).counter(21).word(0x8b14_02b5); // ADD x21, x21, x20
    let wait = program.here();
    program.counter(22).compare(22, 21).branch_below(wait);
    program.constant(1, GUEST_RAM + BEGINS).store(1, 1, 0);
    program.word(0xd503_4fdf).constant(0, vectors).word(0xd518_c000).word(0xd503_3fdf); // MSR DAIFSet, #15; MSR VBAR_EL1, x0; ISB
    program.word(0xd400_0001).stay(); // SVC #0
    program
}

/// A guest that lives by a timer of 1 kHz, and the attacker below it on the same core or on the next one.
fn beside(vectors: u64, is_shared: bool) -> System {
    let description = Description::unjudged("vectors");
    let description = if is_shared { description.schedule(0, BY_PRIORITY) } else { description };
    let priority =
        |level: u32| if is_shared { format!("servers = [ {{ priority = {level} }} ]\n") } else { String::new() };
    let description = description.guest("victim", 0, "ticker", "role=tick", &priority(1));
    let policy = format!("{}watchdog = \"1 s\"\nhealth = {{ on_fault = \"stop\" }}", priority(5));
    let description = description.program("storm", u32::from(!is_shared), "storm", &policy);
    description.build_with(&[("storm", &storm(vectors))])
}

fn wait_for_word(running: &mut Running, partition: &str, address: u64, least: u64) {
    let ram = running.watch().plan().partitions[running.index(partition)].ram[0].physical.0;
    let place = PhysicalAddress(ram + address - GUEST_RAM);
    let waited = running.wait_for(partition, LIMIT, |view| (view.ram.load_u64(place)? >= least).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// Threat model: without `-icount` the victim's ticks continue, above the storm on its core and on another core, and
/// the storm ends at its watchdog at the latest. A vector where nothing is mapped is a fault like any other.
#[test]
fn exceptions_without_instructions_stop_nobody_else() {
    for is_shared in [true, false] {
        for (vectors, reasons) in
            [(NOWHERE, &[REASON_INSTRUCTION_ABORT, REASON_WATCHDOG][..]), (BEYOND, &[REASON_WATCHDOG])]
        {
            let mut running = beside(vectors, is_shared).start();
            let words = field(&running.line("victim", "ticker start"), "words");
            wait_for_word(&mut running, "storm", GUEST_RAM + BEGINS, 1);
            let then = running.guest_word("victim", words);
            wait_for_word(&mut running, "victim", words, then + 100);
            let status = running.wait_for_state("storm", STATE_STOPPED);
            assert!(reasons.contains(&status.reason), "shared: {is_shared}, {vectors:#x}: {}", status.reason);
            let then = running.guest_word("victim", words);
            wait_for_word(&mut running, "victim", words, then + 100);
            running.assert_no_crash();
        }
    }
}
