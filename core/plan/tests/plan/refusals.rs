//! What the planner refuses, with words that help.

use bulkhead_abi::{GuestAddress, PhysicalAddress};
use bulkhead_plan::model::{Limiter, PortKind, System};
use bulkhead_plan::{PlanError, plan, samples};

fn refused(change: impl FnOnce(&mut System)) -> PlanError {
    let mut system = samples::demo();
    change(&mut system);
    plan(&system, &samples::monitor()).expect_err("must be refused")
}

#[test]
fn unused_boot_core() {
    assert_eq!(refused(|system| system.partitions[0].cores = vec![5]), PlanError::BootCoreUnused);
}

#[test]
fn core_given_twice() {
    assert_eq!(refused(|system| system.partitions[1].cores = vec![0]), PlanError::CoreUsedTwice { core: 0 });
}

#[test]
fn core_that_the_board_does_not_have() {
    let error = refused(|system| system.partitions[1].cores = vec![8]);
    assert!(matches!(error, PlanError::BadReference { .. }), "{error}");
}

#[test]
fn too_few_spare_interrupts() {
    let error = refused(|system| system.board.spare_interrupts.truncate(4));
    assert_eq!(error, PlanError::SpareInterrupts { needed: 5, available: 4 });
    assert!(error.to_string().contains("needs 5") || error.to_string().contains("need 5"), "{error}");
}

#[test]
fn interrupt_beyond_the_monitors_tables() {
    let error = refused(|system| system.board.spare_interrupts[0] = 256);
    assert!(error.to_string().contains("interrupt 256"), "{error}");
}

#[test]
fn ram_that_is_not_there() {
    let error = refused(|system| system.partitions[2].memory_bytes = 4 << 30);
    assert!(matches!(error, PlanError::OutOfMemory { .. }), "{error}");
}

#[test]
fn machine_smaller_than_the_monitor() {
    let error = refused(|system| system.memory_bytes = 3 << 20);
    assert!(error.to_string().contains("the monitor"), "{error}");
}

#[test]
fn fixed_ram_over_the_monitor() {
    let error = refused(|system| system.partitions[0].physical_ram = Some(PhysicalAddress(0x4020_0000)));
    assert!(error.to_string().contains("the monitor"), "{error}");
}

#[test]
fn fixed_ram_over_a_reserved_region() {
    let mut system = samples::far();
    system.partitions[0].physical_ram = Some(PhysicalAddress(system.board.reserved[0].range.end() - 0x1000));
    let error = plan(&system, &samples::monitor()).expect_err("must be refused");
    assert!(error.to_string().contains("\"near\"") && error.to_string().contains("\"firmware\""), "{error}");
}

#[test]
fn monitor_over_a_reserved_region() {
    let mut system = samples::far();
    system.board.reserved[0].range.start = system.board.load_address;
    let error = plan(&system, &samples::monitor()).expect_err("must be refused");
    assert!(error.to_string().contains("the monitor") && error.to_string().contains("\"firmware\""), "{error}");
}

#[test]
fn fixed_ram_across_two_banks() {
    let mut system = samples::far();
    // The second bank follows the first: as memory that is one range, but not as two banks.
    system.board.banks[1].start = PhysicalAddress(system.board.banks[0].end());
    system.board.reserved.truncate(1);
    system.partitions[1].physical_ram = Some(PhysicalAddress(system.board.banks[0].end() - 0x1000));
    let error = plan(&system, &samples::monitor()).expect_err("must be refused");
    assert!(matches!(error, PlanError::OutOfMemory { .. }), "{error}");
}

#[test]
fn ram_and_registers_beyond_physical_addresses() {
    let mut system = samples::far();
    system.board.physical_address_bits = 42;
    let error = plan(&system, &samples::monitor()).expect_err("must be refused");
    assert!(matches!(error, PlanError::OutOfMemory { .. }), "{error}");
    let mut system = samples::demo();
    system.board.gicd = PhysicalAddress(samples::FAR_END);
    let error = plan(&system, &samples::monitor()).expect_err("must be refused");
    assert!(error.to_string().contains("core 0") && error.to_string().contains("the 40 of a physical one"), "{error}");
    let mut system = samples::demo();
    system.board.devices[0].address = PhysicalAddress(samples::FAR_END);
    let error = plan(&system, &samples::monitor()).expect_err("must be refused");
    assert!(
        error.to_string().contains("\"linux\"") && error.to_string().contains("the 40 of a physical one"),
        "{error}"
    );
}

#[test]
fn fixed_rams_over_each_other() {
    let error = refused(|system| {
        system.partitions[0].physical_ram = Some(PhysicalAddress(0x8000_0000));
        system.partitions[1].physical_ram = Some(PhysicalAddress(0x8000_1000));
    });
    let PlanError::Overlap { first, second, address } = &error else { panic!("{error}") };
    assert!(first.contains("rtos") && second.contains("control") && *address == 0x8000_1000, "{error}");
}

#[test]
fn ram_over_an_emulated_device() {
    let error = refused(|system| {
        system.partitions[2].guest_ram = GuestAddress(0x0800_0000);
    });
    assert!(matches!(error, PlanError::Overlap { .. }), "{error}");
}

#[test]
fn ram_over_the_channels() {
    let error = refused(|system| {
        system.partitions[2].guest_ram = GuestAddress(0x2000_0000);
    });
    assert!(matches!(error, PlanError::Map { .. }), "{error}");
}

#[test]
fn more_channels_than_pci_functions() {
    let error = refused(|system| {
        let more = (0..5).map(|index| samples::channel(&format!("more{index}"), 1, 2, PortKind::Sampling, 8));
        system.channels.extend(more.map(|mut channel| {
            channel.doorbell = None;
            channel
        }));
    });
    assert!(matches!(error, PlanError::TooMany { limit: 7, .. }), "{error}");
}

#[test]
fn channel_to_oneself() {
    let error = refused(|system| system.channels[0].destination.partition = 0);
    assert!(matches!(error, PlanError::BadReference { .. }), "{error}");
}

#[test]
fn queue_larger_than_its_window() {
    let error = refused(|system| {
        system.channels[0].kind = PortKind::Queuing { depth: 4000 };
        system.channels[0].message_bytes = 4032 + 64;
    });
    assert!(matches!(error, PlanError::TooBig { .. }), "{error}");
}

#[test]
fn arguments_too_long() {
    let error = refused(|system| system.partitions[0].arguments = "x".repeat(256));
    assert!(error.to_string().contains("arguments"), "{error}");
}

#[test]
fn trace_ring_of_no_power_of_two() {
    let error = refused(|system| system.trace_records = 1000);
    assert!(error.to_string().contains("trace.records"), "{error}");
}

/// CH-36: a doorbell counts in one word.
#[test]
fn doorbell_with_a_limiter_of_its_own_beside_the_receivers() {
    let error = refused(|system| {
        let own = system.channels[0].doorbell;
        samples::limit_together(system, 2);
        system.channels[0].doorbell = own;
    });
    assert!(matches!(error, PlanError::TooMany { what: "limiters of its doorbell", .. }), "{error}");
}

/// MZ-26: a shared core has places for 16 limits, and what is beyond them would always wait.
#[test]
fn more_interrupts_with_a_limit_than_a_shared_core_keeps() {
    let limited = |limited: usize| {
        let mut system = samples::shared();
        system.partitions[0].route.limit = Some(Limiter { events: 10, period_ns: 100_000_000 });
        for core in 1..=3 {
            system.partitions.push(samples::native(&format!("sender{core}"), &[core]));
        }
        for index in 0..limited {
            let name = format!("c{index}");
            system.channels.push(samples::channel(&name, 2 + index % 3, 0, PortKind::Sampling, 8));
        }
        plan(&system, &samples::monitor())
    };
    assert!(limited(16).is_ok(), "16 fit: {:?}", limited(16).err());
    let error = limited(17).expect_err("must be refused");
    assert!(matches!(error, PlanError::TooMany { found: 17, limit: 16, .. }), "{error}");
}
