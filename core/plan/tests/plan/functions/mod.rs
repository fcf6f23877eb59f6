//! PCI functions: what is decided about them, exactly for one system and as properties for many.

mod headers;
mod image;
mod machine;
mod places;
mod refusals;
mod scripts;
mod smmu;

use bulkhead_abi::devices::{STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step};
use bulkhead_abi::{PAGE_BYTES, Part, PhysicalAddress};
use bulkhead_plan::model::{Bank, Board, Reach, System};
use bulkhead_plan::{AreaKind, MonitorImage, Plan, plan, samples};
use proptest::prelude::*;

/// A monitor of the part that serves a system.
fn monitor(system: &System) -> MonitorImage {
    let mut monitor = samples::monitor();
    let part = bulkhead_plan::part_of(system);
    if !part.is_served_by(Part::Shared) {
        monitor.part = part;
        monitor.text.splice(64..72, part.mark());
    }
    monitor
}

fn planned(system: &System) -> Plan {
    plan(system, &monitor(system)).unwrap_or_else(|error| panic!("{error}"))
}

/// The bytes of an area as they are in the image.
fn bytes(plan: &Plan, kind: AreaKind) -> &[u8] {
    let area = plan.layout.area(kind).unwrap_or_else(|| panic!("{kind:?} is missing"));
    let at = (area.address.0 - plan.header.image_start.0) as usize;
    &plan.bytes[at..at + area.page_bytes() as usize]
}

fn words(plan: &Plan, address: PhysicalAddress, count: usize) -> Vec<u64> {
    let at = (address.0 - plan.header.image_start.0) as usize;
    plan.bytes[at..at + count * 8].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Steps as lines of text: operation and width in bytes, address, mask, value.
fn text(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| {
        let (name, is_masked) = match step.operation {
            STEP_WRITE => ("write", false),
            STEP_UPDATE => ("update", true),
            STEP_WAIT => ("wait", true),
            STEP_EXPECT => ("expect", true),
            STEP_DELAY => return format!("delay {}", step.value),
            other => panic!("operation {other}"),
        };
        let mask = if is_masked { format!(" & {:#x}", step.mask) } else { String::new() };
        format!("{name}{} {:#x}{mask} = {:#x}", step.width, step.address.0, step.value)
    };
    steps.iter().map(line).collect()
}

/// Systems of up to four partitions with functions in random slots: each line has one owner, and what functions reach is random. Six are
/// as many as a script of a partition always has room for.
fn any_system() -> impl Strategy<Value = System> {
    let slots = proptest::sample::subsequence((1..=12_u32).collect::<Vec<_>>(), 1..=5);
    let kinds = proptest::collection::vec((0..4_usize, proptest::option::of(any_regions())), 5);
    let partitions = proptest::collection::vec((1024..3000_u64, any::<bool>()), 1..=4);
    let owners = proptest::collection::vec(0..4_usize, 4);
    let window = (0..300_u64, any::<bool>());
    (slots, kinds, partitions, owners, window).prop_map(|(slots, kinds, partitions, owners, (first, has_far))| {
        let count = partitions.len();
        let described = partitions.iter().enumerate().map(|(index, (pages, looks))| {
            let mut partition = samples::native(&format!("p{index}"), &[index]);
            partition.memory_bytes = pages * PAGE_BYTES;
            partition.device_events.look_ns = looks.then_some(5_000_000);
            partition
        });
        let mut system = samples::system(described.collect(), vec![]);
        let owner = |slot: u32| owners[slot as usize % 4] % count;
        for (number, (slot, (kind, regions))) in slots.into_iter().zip(kinds).enumerate() {
            let function = samples::function(&format!("f{number}"), kind, owner(slot), (0, slot));
            let reach = regions.map_or(Reach::Partition, |regions| Reach::Regions(regions.clone()));
            system.functions.push(function.reaching(reach));
        }
        if has_far {
            system.functions.push(samples::function("far", 4, owner(16), (1, 0)));
        }
        let mut host = samples::pci_host();
        host.window.start.0 += first * PAGE_BYTES;
        host.window.bytes -= first * PAGE_BYTES;
        system.board = Board { pci: Some(host), ..system.board };
        system
    })
}

/// Disjoint pieces of the first 4 MiB of RAM.
fn any_regions() -> impl Strategy<Value = Vec<Bank>> {
    proptest::collection::vec((0..4_u64, 1..200_u64), 1..4).prop_map(|pieces| {
        let mut next = 0x4000_0000;
        let mut regions: Vec<Bank> = Vec::new();
        for (gap, pages) in pieces {
            let start = next + gap * PAGE_BYTES;
            regions.push(Bank { start: PhysicalAddress(start), bytes: pages * PAGE_BYTES });
            next = start + pages * PAGE_BYTES;
        }
        regions.reverse();
        regions
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// QV-10, QV-11, QV-13: whatever functions there are, they reach RAM of their partition alone, have places of their own, and boot.
    #[test]
    fn functions_of_any_system_are_confined(system in any_system()) {
        let plan = planned(&system);
        smmu::streams_reach_what_they_may(&system, &plan);
        places::are_apart(&system, &plan);
        image::is_in_the_right_maps(&system, &plan);
        scripts::boots_and_restarts(&system, &plan);
    }
}
