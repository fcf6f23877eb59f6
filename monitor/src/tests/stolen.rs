//! What guests of a shared core are told of the time that others had (Arm DEN 0057A).

use super::shared::{Core, STOLEN_TIME, WFI, budgeted, schedule, server};
use super::*;
use bulkhead_abi::hypercall::{NOT_SUPPORTED, SUCCESS};
use bulkhead_arch::fake::Event;

const FEATURES: u64 = 0xc500_0020;
const PLACE: u64 = 0xc500_0021;

/// A tick of this clock takes 16 ns.
fn core(servers: &[bulkhead_abi::schedule::ServerPlan]) -> Core {
    Core::new(schedule(servers, 2))
}

fn stolen(core: &Core, slot: u64) -> u64 {
    core.machine.load64(PhysicalAddress(STOLEN_TIME + 0x1000 * slot + 8))
}

fn call(vcpu: &mut Vcpu<FakeMachine>, function: u64, argument: u64) -> u64 {
    vcpu.head.frame.set_register(0, function);
    vcpu.head.frame.set_register(1, argument);
    vcpu.call();
    vcpu.head.frame.x[0]
}

/// 3.1 and 3.2: discovery, and the place of the structure.
#[test]
fn a_guest_finds_its_structure_as_linux_looks_for_it() {
    let mut core = core(&[server(0, 1), server(1, 5)]);
    let vcpu = core.own();
    assert_eq!(call(vcpu, 0x8000_0001, FEATURES), SUCCESS, "SMCCC_ARCH_FEATURES");
    assert_eq!([FEATURES, PLACE].map(|asked| call(vcpu, FEATURES, asked)), [SUCCESS; 2]);
    assert_eq!(call(vcpu, FEATURES, 0xc500_0022), NOT_SUPPORTED);
    assert_eq!(call(vcpu, PLACE, 0), 0x1000_8000);
    assert_eq!([PLACE, 0x8000_8000].map(|asked| call(vcpu, 0x8000_0001, asked)), [NOT_SUPPORTED; 2]);
    assert_eq!(call(vcpu, 0x8000_0001, 0x8000_0000), SUCCESS, "as before");
    // Where nobody shares a core, nothing of it exists.
    let mut alone = running(partition(1));
    assert_eq!([0x8000_0001, FEATURES, PLACE].map(|function| call(&mut alone, function, FEATURES)), [NOT_SUPPORTED; 3]);
}

/// What another one had is stolen from a guest that could have gone on, and nothing from one that slept: neither when it is woken and
/// runs at once, by either way to it.
#[test]
fn what_others_had_is_stolen_from_who_could_have_gone_on() {
    for is_general in [false, true] {
        let mut core = core(&[server(0, 1), server(1, 5)]);
        core.is_general = is_general;
        core.exit(WFI);
        // It waited for the first one to sleep.
        let before = stolen(&core, 1);
        core.pass(1000);
        core.interrupt(40);
        core.pass(300);
        core.machine.list[0].set(0);
        core.exit(WFI);
        assert_eq!((core.loaded, stolen(&core, 1) - before, stolen(&core, 0)), (1, 300 * 16, 0), "{is_general}");
        core.interrupt(40);
        core.pass(20);
        core.machine.list[0].set(0);
        core.exit(WFI);
        assert_eq!((stolen(&core, 1) - before, stolen(&core, 0)), (320 * 16, 0), "it adds up");
    }
}

/// A guest without budget is not asleep, even while nobody has the core; nor is one that was woken and waits.
#[test]
fn who_waits_for_its_budget_is_robbed() {
    let mut core = core(&[budgeted(0, 1, 1_000, 10_000), budgeted(1, 5, 2_000, 10_000)]);
    core.exit(WFI);
    let before = stolen(&core, 1);
    core.pass(2_500);
    core.interrupt(crate::interrupts::HYPERVISOR_TIMER);
    assert_eq!((core.loaded, core.machine.now.get()), (1, 1_010_000));
    assert_eq!(stolen(&core, 1) - before, (10_000 - 2_500) * 16);
}

/// A structure begins at zero with each start of the partition, whatever was in memory or was stolen from the instance before.
#[test]
fn a_start_begins_at_zero() {
    let mut core = core(&[server(0, 1), server(1, 5)]);
    core.exit(WFI);
    core.pass(500);
    core.interrupt(40);
    core.pass(500);
    core.machine.list[0].set(0);
    core.exit(WFI);
    assert!(stolen(&core, 1) >= 500 * 16);
    core.machine.store64(PhysicalAddress(STOLEN_TIME + 0x1000), u64::MAX);
    core.own().start_partition(0);
    core.go_on();
    let words = (0..8).map(|word| core.machine.load64(PhysicalAddress(STOLEN_TIME + 0x1000 + 8 * word)));
    assert_eq!(words.collect::<Vec<_>>(), [0; 8]);
}

/// What memory held before the monitor is nobody's business, and a guest reads with its caches off at first: the whole page is zeroed and
/// written back, before the first instance and before each one.
#[test]
fn the_page_is_scrubbed_before_each_instance() {
    let mut core = core(&[server(0, 1), server(1, 5)]);
    let scrubs = |core: &Core| {
        let events = core.machine.take_events();
        events.iter().filter(|event| **event == Event::Scrub(STOLEN_TIME, 4096)).count()
    };
    assert_eq!(scrubs(&core), 2, "when its core joins, and at its start");
    core.machine.store64(PhysicalAddress(STOLEN_TIME + 4088), u64::MAX);
    core.own().start_partition(0);
    core.go_on();
    assert_eq!((scrubs(&core), core.machine.load64(PhysicalAddress(STOLEN_TIME + 4088))), (1, 0));
}
