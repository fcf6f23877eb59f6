//! Plans of small systems: layout, structures and bytes.

use bulkhead_abi::image::ImageHeader;
use bulkhead_plan::samples;
use bulkhead_plan::{AreaKind, PlanError, plan};
use zerocopy::FromBytes;

#[test]
fn one_native_partition_is_planned() {
    let system = samples::system(vec![samples::native("solo", &[0])], vec![]);
    let plan = plan(&system, &samples::monitor()).unwrap();
    assert_eq!(plan.cores.len(), 1);
    assert_eq!(plan.header.core_count, 1);
    assert_eq!(plan.header.text_bytes, 3 * 4096, "10,000 bytes are three pages");
    let header_at = (plan.header.text_bytes + plan.header.rodata_bytes) as usize;
    let (header, _) = ImageHeader::read_from_prefix(&plan.bytes[header_at..]).unwrap();
    assert_eq!(header, plan.header, "the header page follows the monitor's read-only data");
    assert_eq!(plan.bytes.len() as u64, header.image_bytes);
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
    assert_eq!(plan.cores.iter().map(|core| (core.partition, core.vcpu)).collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 0), (2, 1), (3, 0)]);
    let linux = &plan.partitions[2].plan;
    assert_eq!(linux.pci_count, 4, "management, telemetry, orders, noise");
    assert_eq!(linux.channel_clear_count, 1);
    assert_eq!(linux.status[..4], core::array::from_fn::<_, 4, _>(|index| plan.layout.address(AreaKind::Status(index))));
}

#[test]
fn same_input_gives_the_same_bytes() {
    let (first, second) = (plan(&samples::demo(), &samples::monitor()).unwrap(), plan(&samples::demo(), &samples::monitor()).unwrap());
    assert!(first.bytes == second.bytes);
}

#[test]
fn unused_boot_core_is_refused() {
    let system = samples::system(vec![samples::native("solo", &[1])], vec![]);
    assert_eq!(plan(&system, &samples::monitor()).unwrap_err(), PlanError::BootCoreUnused);
}
