//! Functions in the image: areas, maps, interrupts and device trees, and what they cost.

use super::planned;
use bulkhead_abi::plan::{
    INTERRUPT_DEVICE, PCI_DEVICE, PCI_IVSHMEM, PCI_MANAGEMENT, WINDOW_ECAM, WINDOW_PCI_REGISTERS,
};
use bulkhead_plan::devices::configuration_of;
use bulkhead_plan::model::{PciReset, Route, RouteRule, System};
use bulkhead_plan::tables::{Attributes, Mapping};
use bulkhead_plan::{AreaKind, Plan, samples};
use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use std::collections::BTreeSet;

const PAGE: u64 = 4096;

fn touches(mapping: &Mapping, start: u64, bytes: u64) -> bool {
    mapping.output.0 < start + bytes && start < mapping.output.0 + mapping.bytes
}

/// How the monitor of each core maps an area.
fn maps_of(plan: &Plan, kind: AreaKind) -> Vec<(usize, Attributes)> {
    let Some(area) = plan.layout.area(kind) else { return Vec::new() };
    let of_core = |(core, mappings): (usize, &Vec<Mapping>)| {
        let here = mappings.iter().filter(|mapping| touches(mapping, area.address.0, area.page_bytes()));
        here.map(|mapping| (core, mapping.attributes)).collect::<Vec<_>>()
    };
    plan.el2.iter().enumerate().flat_map(of_core).collect()
}

/// Tables are in nobody's map; plans are read where they are needed; registers are mapped where a script names them; guests reach what is
/// behind their own base addresses, as device memory.
pub(super) fn is_in_the_right_maps(system: &System, plan: &Plan) {
    let host = system.board.pci.as_ref().unwrap();
    let tables = (0..plan.reach.len()).map(AreaKind::DeviceTables);
    for kind in tables.chain([AreaKind::StreamTable, AreaKind::Commands]) {
        assert_eq!(maps_of(plan, kind), [], "{kind:?} is in a map");
    }
    assert_eq!(maps_of(plan, AreaKind::BootDevices), [(0, Attributes::EL2_READ)]);
    let of = |partition: usize| system.functions.iter().filter(move |function| function.partition == partition);
    let looks =
        |partition: usize| system.partitions[partition].device_events.look_ns.is_some() && of(partition).count() > 0;
    let lookers = plan.core_uses.iter().enumerate().filter(|(_, one)| one.partitions().into_iter().any(looks));
    let lookers: Vec<(usize, Attributes)> = lookers.map(|(core, _)| (core, Attributes::EL2_READ)).collect();
    assert_eq!(maps_of(plan, AreaKind::Events), lookers);
    for partition in 0..system.partitions.len() {
        let cores =
            plan.core_uses.iter().enumerate().filter(|(_, one)| one.runs(partition) && of(partition).count() > 0);
        let cores: Vec<(usize, Attributes)> = cores.map(|(core, _)| (core, Attributes::EL2_READ)).collect();
        assert_eq!(maps_of(plan, AreaKind::DevicePlan(partition)), cores);
    }
    for (core, core_use) in plan.core_uses.iter().enumerate() {
        let mut expected = BTreeSet::new();
        if core == 0 {
            expected.extend((1..=12).chain([16]).map(|slot| host.configuration.0 + (slot << 15)));
            expected.extend([0x0905_0000, 0x0906_0000]);
        }
        for (index, function) in system.functions.iter().enumerate() {
            if core == 0 || core_use.runs(function.partition) {
                expected.insert(configuration_of(host, function).0);
                if let PciReset::Virtio { bar, offset } = host.models[function.model].reset {
                    expected.insert((plan.places.of(index)[bar].physical.0 + offset) & !(PAGE - 1));
                }
            }
        }
        expected.extend(core_use.partitions().into_iter().any(looks).then_some(0x0906_0000));
        let is_board = |page: u64| (0x0800_0000..0x0902_0000).contains(&page);
        let devices = plan.el2[core].iter().filter(|mapping| mapping.attributes == Attributes::EL2_DEVICE);
        let pages = devices.flat_map(|mapping| (mapping.input..mapping.input + mapping.bytes).step_by(PAGE as usize));
        assert_eq!(pages.filter(|page| !is_board(*page)).collect::<BTreeSet<_>>(), expected, "core {core}");
        assert!(plan.el2[core].iter().all(|mapping| mapping.input == mapping.output.0));
    }
    for (partition, planned) in plan.partitions.iter().enumerate() {
        let mut expected = BTreeSet::new();
        for (index, function) in system.functions.iter().enumerate().filter(|(_, one)| one.partition == partition) {
            for bar in plan.places.of(index).into_iter().filter(|bar| bar.guest.0 != 0) {
                // The NVMe controller's tables of messages are behind its first 8 KiB.
                let bytes = if host.models[function.model].name == "nvme" { 0x2000 } else { bar.bytes };
                let pages = (0..bytes).step_by(PAGE as usize);
                expected.extend(pages.map(|at| (bar.guest.0 + at, bar.physical.0 + at)));
            }
        }
        let is_device = |mapping: &&Mapping| (0x2800_0000..0x3000_0000).contains(&mapping.input);
        let mut found = BTreeSet::new();
        for mapping in planned.stage2.iter().filter(is_device) {
            assert_eq!(mapping.attributes, Attributes::STAGE2_DEVICE, "not executable");
            let pages = (0..mapping.bytes).step_by(PAGE as usize);
            found.extend(pages.map(|at| (mapping.input + at, mapping.output.0 + at)));
        }
        assert_eq!(found, expected, "partition {partition}");
        let others = planned.stage2.iter().filter(|mapping| !is_device(mapping));
        let is_ram = |mapping: &Mapping| mapping.output.0 >= 0x4000_0000 || touches(mapping, 0x080a_0000, 0x10_0000);
        assert!(others.clone().all(is_ram), "nothing else of the bus is mapped");
        for kind in [AreaKind::StreamTable, AreaKind::Commands, AreaKind::Events, AreaKind::BootDevices] {
            let area = plan.layout.area(kind).unwrap();
            assert!(!planned.stage2.iter().any(|mapping| touches(mapping, area.address.0, area.page_bytes())));
        }
    }
}

#[test]
fn the_sample_is_in_the_right_maps() {
    let system = samples::functions();
    is_in_the_right_maps(&system, &planned(&system));
}

/// On a board with a host bridge and an SMMU, a system without functions has the bytes that it has without them.
#[test]
fn systems_without_functions_have_the_same_bytes() {
    for system in [samples::demo(), samples::shared_cores()] {
        let mut with = system.clone();
        with.board.pci = Some(samples::pci_host());
        assert!(planned(&with).bytes == planned(&system).bytes);
    }
}

#[test]
fn plans_point_at_functions() {
    let plan = planned(&samples::functions());
    let devices: Vec<u64> = plan.vcpus.iter().flatten().map(|vcpu| vcpu.devices.0).collect();
    let of = |partition| plan.layout.address(AreaKind::DevicePlan(partition)).0;
    assert_eq!(devices, [of(0), of(1), of(1), of(2), 0]);
    let boot: Vec<u64> = plan.vcpus.iter().flatten().map(|vcpu| vcpu.boot_devices.0).collect();
    assert_eq!(boot, [plan.layout.address(AreaKind::BootDevices).0, 0, 0, 0, 0]);
    let linux = plan.partitions[1].devices.unwrap();
    assert_eq!((linux.event_registers.0, linux.events), (0x0906_0000, plan.layout.address(AreaKind::Events)));
    assert_eq!((linux.poll_ticks, linux.events_are_faults), (625_000, 1));
    let office = plan.partitions[2].devices.unwrap();
    assert_eq!((office.event_registers.0, office.events.0, office.poll_ticks), (0, 0, 0), "it never looks");
    assert_eq!(plan.partitions[3].devices, None);
}

/// Two functions of one partition share a line, which is level-sensitive and no doorbell.
#[test]
fn lines_are_level_sensitive_routes_to_one_owner() {
    let plan = planned(&samples::functions());
    let lines = |partition: usize| {
        let plan = &plan.partitions[partition].plan;
        let lines = plan.interrupts().iter().filter(|interrupt| interrupt.kind == INTERRUPT_DEVICE);
        lines.map(|line| (line.intid, line.edge, line.pci_function)).collect::<Vec<_>>()
    };
    assert_eq!(
        [lines(0), lines(1), lines(2), lines(3)],
        [vec![(37, 0, 0)], vec![(36, 0, 0)], vec![(35, 0, 0)], vec![]]
    );
    assert_eq!(plan.header.gicd_icfgr[2], 0);
    let kinds = |partition: usize| plan.partitions[partition].plan.pci().iter().map(|one| one.kind).collect::<Vec<_>>();
    assert_eq!(kinds(0), [PCI_DEVICE, PCI_DEVICE], "a native guest has no other functions");
    assert_eq!(kinds(1), [PCI_MANAGEMENT, PCI_IVSHMEM, PCI_IVSHMEM, PCI_DEVICE, PCI_DEVICE]);
    let windows = plan.partitions[1].plan.windows().iter();
    let windows: Vec<u32> = windows.map(|window| window.kind).filter(|kind| *kind >= WINDOW_ECAM).collect();
    let registers = WINDOW_PCI_REGISTERS;
    assert_eq!(windows, [WINDOW_ECAM, registers, registers, registers], "registers of devices are not emulated");
}

/// On a shared core a line goes by its partition's route, with a limit in a place of its own.
#[test]
fn lines_have_their_partitions_route() {
    let mut system = samples::shared();
    system.board.pci = Some(samples::pci_host());
    system.partitions[0].route = Route { rule: RouteRule::Defer, ..Route::default() };
    system.functions = vec![samples::function("a", 0, 0, (0, 1)), samples::function("b", 0, 0, (0, 5))];
    let plan = planned(&system);
    assert_eq!(plan.partitions[0].plan.interrupts()[0].route, RouteRule::Defer.number());
    system.partitions[0].route.limit = Some(bulkhead_plan::model::Limiter { events: 3, period_ns: 1_000_000 });
    assert_eq!(bulkhead_plan::interrupts::limited_count(&system, 0), 1, "one line, not two");
}

#[test]
fn guests_find_their_functions_in_the_device_tree() {
    let plan = planned(&samples::functions());
    let bus = |partition: usize, property: &str| {
        let tree = Fdt::new(&plan.partitions[partition].device_tree).unwrap();
        let node = tree.find_node("/pcie@3f000000")?;
        let value = node.property(property)?.value().to_vec();
        Some(value.chunks(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect::<Vec<_>>())
    };
    let map = bus(1, "interrupt-map").unwrap();
    let rows: Vec<&[u32]> = map.chunks(8).collect();
    let alarm = plan.partitions[1].plan.pci()[2].interrupt;
    let expected =
        [[3 << 11, 0, 0, 1, 1, 0, alarm - 32, 1], [4 << 11, 0, 0, 1, 1, 0, 4, 4], [5 << 11, 0, 0, 1, 1, 0, 4, 4]];
    assert_eq!(rows, expected, "a doorbell is an edge, a line a level");
    let ranges = bus(1, "ranges").unwrap();
    assert_eq!(ranges[14..], [0x0200_0000, 0, 0x2800_0000, 0, 0x2800_0000, 0, 0x0800_0000]);
    assert_eq!(bus(1, "dma-coherent"), Some(vec![]));
    assert_eq!([bus(1, "msi-map"), bus(1, "iommu-map"), bus(1, "msi-parent")], [None, None, None]);
    assert!(bus(0, "interrupt-map").is_some(), "a native guest has its bus in the tree too");
    assert_eq!(bus(3, "reg"), None);
    let demo = planned(&samples::demo());
    let tree = Fdt::new(&demo.partitions[2].device_tree).unwrap();
    let node = tree.find_node("/pcie@3f000000").unwrap();
    assert!(node.property("dma-coherent").is_none(), "channels alone need no DMA");
}

/// What functions cost: once, for each partition with some, and in table pages of processors, which other cores do not pay.
#[test]
fn memory_for_functions_is_bounded() {
    let system = samples::functions();
    let mut without = system.clone();
    without.functions.clear();
    let [with, without] = [&system, &without].map(planned);
    let bytes = |plan: &Plan, kind: AreaKind| plan.layout.area(kind).map_or(0, |area| area.page_bytes());
    let once = [AreaKind::StreamTable, AreaKind::Commands, AreaKind::BootDevices, AreaKind::Events];
    assert_eq!(once.map(|kind| bytes(&with, kind)), [32 << 10, 4 << 10, 8 << 10, 8 << 10]);
    // A plan, and tables for one context; the intruder's copier has its own, with two regions in two blocks.
    let of = |partition: usize, contexts: &[usize]| {
        let tables: u64 = contexts.iter().map(|context| bytes(&with, AreaKind::DeviceTables(*context))).sum();
        bytes(&with, AreaKind::DevicePlan(partition)) + tables
    };
    assert_eq!([of(0, &[0, 3]), of(1, &[1]), of(2, &[2]), of(3, &[])], [32 << 10, 16 << 10, 16 << 10, 0]);
    let pages = |kind: fn(usize) -> AreaKind, count: usize| {
        let more = |index| (bytes(&with, kind(index)) - bytes(&without, kind(index))) / PAGE;
        (0..count).map(more).collect::<Vec<u64>>()
    };
    assert_eq!(pages(AreaKind::El2Tables, 5), [4, 3, 4, 2, 0], "configuration space 2, status registers 1, SMMU 1");
    assert_eq!(pages(AreaKind::Stage2Tables, 4), [1, 1, 1, 0]);
    let sum = |plan: &Plan| plan.areas().iter().map(|area| area.page_bytes()).sum::<u64>();
    let more = sum(&with) - sum(&without);
    assert_eq!(more, (52 << 10) + (64 << 10) + 16 * PAGE, "and nothing beside that");
    let added = |bytes_of: fn(&Plan) -> u64| bytes_of(&with) - bytes_of(&without);
    let state = |plan: &Plan| plan.layout.monitor_end.0 - plan.layout.file_end.0;
    assert_eq!(
        added(|plan| plan.layout.plan_bytes),
        more - (8 << 10),
        "what the stream table's alignment leaves is filled"
    );
    assert_eq!(added(state), 8 << 10, "and what the event queue's leaves");
    let monitor = |plan: &Plan| plan.areas().iter().filter(|area| !matches!(area.kind, AreaKind::Ram(_))).count();
    assert_eq!(monitor(&with) - monitor(&without), 4 + 3 + 4);
}
