//! Plans of small systems: layout, structures and bytes.

use bulkhead_abi::image::ImageHeader;
use bulkhead_plan::samples;
use bulkhead_plan::{AreaKind, plan};
use zerocopy::FromBytes;

#[test]
fn one_native_partition_is_planned() {
    let system = samples::system(vec![samples::native("solo", &[0])], vec![]);
    let plan = plan(&system, &samples::monitor()).unwrap();
    assert_eq!(plan.vcpus.len(), 1);
    assert_eq!(plan.schedules, [None], "nobody shares");
    assert_eq!(plan.header.core_count, 1);
    assert_eq!(plan.header.text_bytes, 3 * 4096, "10,000 bytes are three pages");
    let header_at = (plan.header.text_bytes + plan.header.rodata_bytes) as usize;
    let (header, _) = ImageHeader::read_from_prefix(&plan.bytes[header_at..]).unwrap();
    assert_eq!(header, plan.header, "the header page follows the monitor's read-only data");
    assert_eq!(plan.bytes.len() as u64, header.memory_bytes);
    assert!(header.image_bytes < header.memory_bytes);
    assert!(plan.bytes[header.image_bytes as usize..].iter().all(|byte| *byte == 0), "state begins as zeros");
}

#[test]
fn areas_never_overlap() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    for pair in plan.areas().windows(2) {
        assert!(pair[0].end() <= pair[1].address.0, "{pair:?}");
    }
}

#[test]
fn demo_is_planned_with_one_plan_per_core() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    assert_eq!(
        plan.vcpus.iter().flatten().map(|vcpu| (vcpu.core, vcpu.partition, vcpu.vcpu)).collect::<Vec<_>>(),
        [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 3, 0)]
    );
    let linux = &plan.partitions[2].plan;
    assert_eq!(linux.pci_count, 4, "management, telemetry, orders, noise");
    assert_eq!(linux.channel_clear_count, 1);
    assert_eq!(
        linux.status[..4],
        core::array::from_fn::<_, 4, _>(|index| plan.layout.address(AreaKind::Status(index)))
    );
}

#[test]
fn same_input_gives_the_same_bytes() {
    let (first, second) =
        (plan(&samples::demo(), &samples::monitor()).unwrap(), plan(&samples::demo(), &samples::monitor()).unwrap());
    assert!(first.bytes == second.bytes);
}

/// QV-1: private RAM; two partitions never share a byte, and none touches the monitor.
#[test]
fn ram_of_partitions_is_block_aligned_and_behind_the_monitor() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    for index in 0..4 {
        let ram = plan.layout.area(AreaKind::Ram(index)).unwrap();
        assert!(ram.address.0.is_multiple_of(2 << 20));
        assert!(ram.address >= plan.layout.monitor_end);
    }
}

#[test]
fn large_pristine_images_start_at_a_block() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    assert!(plan.layout.address(AreaKind::Pristine(2)).0.is_multiple_of(2 << 20), "the kernel is larger than 2 MiB");
    assert!(!plan.layout.address(AreaKind::Pristine(1)).0.is_multiple_of(2 << 20), "small images are packed");
}

/// The page below each stack is the guard, or data of another core.
#[test]
fn page_below_each_stack_is_not_the_cores_own() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    for core in 0..5 {
        let below = plan.layout.address(AreaKind::Stack(core)).0 - 4096;
        let area = plan.areas().into_iter().find(|area| area.address.0 <= below && below < area.end()).unwrap();
        let expected = if core == 0 { AreaKind::Guard } else { AreaKind::Data(core - 1) };
        assert_eq!(area.kind, expected);
    }
}

/// At most 64 KiB per core are promised; what the fixed layouts need is asserted, so that growth is seen.
#[test]
fn tables_of_a_one_gibibyte_partition_are_few() {
    let mut partition = samples::native("big", &[0]);
    partition.memory_bytes = 1 << 30;
    let plan = plan(&samples::system(vec![partition], vec![]), &samples::monitor()).unwrap();
    let pages = |kind| plan.layout.area(kind).unwrap().bytes / 4096;
    assert_eq!(pages(AreaKind::El2Tables(0)), 5, "root, low GiB, GIC, GiB of the monitor, monitor");
    assert_eq!(pages(AreaKind::Stage2Tables(0)), 3, "root, low GiB, shared pages; the RAM is one entry");
}

/// RAM below the load address is only for those who ask for it.
#[test]
fn fixed_place_below_the_load_address_is_respected() {
    let mut first = samples::native("first", &[0]);
    first.memory_bytes = 2 << 20;
    first.physical_ram = Some(bulkhead_abi::PhysicalAddress(0x4000_0000));
    let mut second = samples::native("second", &[1]);
    second.memory_bytes = 2 << 20;
    let plan = plan(&samples::system(vec![first, second], vec![]), &samples::monitor()).unwrap();
    assert_eq!(plan.layout.address(AreaKind::Ram(0)).0, 0x4000_0000);
    assert!(plan.layout.address(AreaKind::Ram(1)) >= plan.layout.monitor_end);
}

/// Firmware's memory, and that of other processors: not for RAM of partitions, and in no map at all.
#[test]
fn reserved_memory_is_in_nobodys_map() {
    let mut system = samples::far();
    // More than there is in front of the first reserved region, and more than there is behind the second one.
    system.partitions[0].memory_bytes = 100 << 20;
    system.partitions[1].memory_bytes = 950 << 20;
    system.partitions[1].physical_ram = None;
    let plan = plan(&system, &samples::monitor()).unwrap();
    let [firmware, other] = [0, 1].map(|index| system.board.reserved[index].range);
    assert_eq!(plan.layout.address(AreaKind::Ram(0)).0, firmware.end(), "the first place that is free");
    assert_eq!(plan.layout.address(AreaKind::Ram(1)).0, system.board.banks[1].start.0, "the first bank has no room");
    assert!(plan.layout.area(AreaKind::Ram(1)).unwrap().end() <= other.start.0);
    let maps = plan.el2.iter().chain(plan.partitions.iter().map(|partition| &partition.stage2));
    let mut mappings = 0;
    for mapping in maps.flatten() {
        let end = mapping.output.0 + mapping.bytes;
        for range in [firmware, other] {
            assert!(mapping.output.0 >= range.end() || end <= range.start.0, "{mapping:x?} touches {range:x?}");
        }
        mappings += 1;
    }
    assert!(mappings > 20);
}

/// What needs more than 39 bits at EL2 costs a root of level 0 and a table; all else of a plan is as it would be.
#[test]
fn a_far_bank_that_nobody_uses_costs_a_page_of_tables() {
    let near = samples::system(vec![samples::native("solo", &[0])], vec![]);
    let mut far = near.clone();
    far.board.banks.push(samples::far().board.banks.remove(1));
    far.board.physical_address_bits = 44;
    let [near, far] = [&near, &far].map(|system| plan(system, &samples::monitor()).unwrap());
    let pages = |plan: &bulkhead_plan::Plan| plan.layout.area(AreaKind::El2Tables(0)).unwrap().bytes / 4096;
    assert_eq!(pages(&far), pages(&near) + 1);
    assert_eq!([near.header.tcr, far.header.tcr], [0x8082_3519, 0x8084_3514]);
    assert_eq!([near.vcpus[0][0].vtcr, far.vcpus[0][0].vtcr], [0x8002_3559, 0x8004_3559]);
    assert_eq!(near.partitions[0].stage2.len(), far.partitions[0].stage2.len());
}
