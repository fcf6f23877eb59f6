//! virtio between partitions (QV-50, QV-51): what front, back end and their monitors are given.

use bulkhead_abi::devices::DevicePlan;
use bulkhead_abi::plan::{
    INTERRUPT_DOORBELL, PCI_IVSHMEM, PartitionPlan, PortInformation, WINDOW_ECAM, WINDOW_GICD, WINDOW_PCI_REGISTERS,
    WINDOW_VIRTIO,
};
use bulkhead_abi::virtio::{
    BLOCK_FLUSH, BLOCK_READ_ONLY, BLOCK_SEGMENTS, BlockConfiguration, DEVICE_BLOCK, DEVICE_NET, FrontPlan, NET_MAC,
    NetConfiguration,
};
use bulkhead_abi::{PAGE_BYTES, Part};
use bulkhead_guest_abi::channel::{PORT_BLOCK, PORT_NET};
use bulkhead_guest_abi::name_text;
use bulkhead_plan::model::{InterruptMode, Limiter, System, VirtioKind, pool_bytes};
use bulkhead_plan::tables::{Attributes, Mapping};
use bulkhead_plan::{AreaKind, Plan, PlanError, plan, samples};
use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use zerocopy::IntoBytes;

const LINUX: usize = 0;
const OFFICE: usize = 1;
const SERVER: usize = 2;
const LAB: usize = 3;

fn planned(system: &System) -> Plan {
    let mut monitor = samples::monitor();
    monitor.part = Part::Devices;
    monitor.text.splice(64..72, Part::Devices.mark());
    plan(system, &monitor).unwrap_or_else(|error| panic!("{error}"))
}

fn devices(plan: &Plan, partition: usize) -> DevicePlan {
    plan.partitions[partition].devices.expect("it has fronts")
}

fn of(plan: &Plan, partition: usize) -> &PartitionPlan {
    &plan.partitions[partition].plan
}

/// What maps a physical page: input addresses with their attributes.
fn mapped(mappings: &[Mapping], kind: AreaKind, plan: &Plan) -> Vec<(u64, Attributes)> {
    let area = plan.layout.area(kind).unwrap_or_else(|| panic!("{kind:?} is missing"));
    let covers = |one: &&Mapping| {
        let offset = area.address.0.checked_sub(one.output.0);
        offset.is_some_and(|offset| offset + area.page_bytes() <= one.bytes)
    };
    mappings.iter().filter(covers).map(|one| (one.input + area.address.0 - one.output.0, one.attributes)).collect()
}

#[test]
fn the_part_devices_serves_fronts() {
    assert_eq!(bulkhead_plan::part_of(&samples::virtio()), Part::Devices);
    let refused = plan(&samples::virtio(), &samples::monitor()).unwrap_err();
    assert!(matches!(refused, PlanError::Monitor { .. }), "{refused}");
    let plan = planned(&samples::virtio());
    assert!(plan.boot_devices.is_none(), "there are no functions to prepare");
    let has_plan: Vec<bool> = plan.partitions.iter().map(|one| one.devices.is_some()).collect();
    assert_eq!(has_plan, [false, true, false, true], "a back end needs nothing of it");
}

/// 8 MiB of bounce buffers and a 320th part of RAM, whole pages, at most 1 MiB (`devices.md` section 6).
#[test]
fn a_pool_grows_with_its_partition() {
    assert_eq!(pool_bytes(64 << 20), (8 << 20) + 51 * PAGE_BYTES, "209,715 bytes are 51 pages");
    assert_eq!(pool_bytes(256 << 20), (8 << 20) + 204 * PAGE_BYTES);
    assert_eq!(pool_bytes(320 << 20), (8 << 20) + (1 << 20));
    assert_eq!(pool_bytes(4 << 30), (8 << 20) + (1 << 20));
}

#[test]
fn registers_say_what_the_device_is() {
    let plan = planned(&samples::virtio());
    let office = devices(&plan, OFFICE);
    let [disk, net] = office.fronts() else { panic!("two fronts") };
    let features = BLOCK_SEGMENTS | BLOCK_FLUSH;
    assert_eq!(disk.plan, FrontPlan { device: DEVICE_BLOCK, features, doorbell: 0, padding: 0 });
    let words = |bytes: &[u8]| bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let expected: Vec<u32> =
        words(BlockConfiguration { sectors: 0x2_0000, most_bytes: 0, most_segments: 254 }.as_bytes());
    assert_eq!(disk.configuration.as_slice(), expected, "254 pieces, header and status are a queue");
    assert_eq!(net.plan, FrontPlan { device: DEVICE_NET, features: NET_MAC, doorbell: 1, padding: 0 });
    let expected: Vec<u32> =
        words(NetConfiguration { address: [0x02, 0x42, 0x48, 0, 0, 7], padding: [0; 2] }.as_bytes());
    assert_eq!(net.configuration[..2], expected);
    assert_eq!(net.configuration[2..], [0, 0]);
    let lab = devices(&plan, LAB);
    let [store] = lab.fronts() else { panic!("one front") };
    assert_eq!(store.plan.features, features | BLOCK_READ_ONLY);
    assert_eq!(store.configuration, [3, 0, 0, 254]);
}

/// QV-50: the two of a pair and the front's monitor, each as Normal non-cacheable memory that nobody executes; nobody else.
#[test]
fn pool_and_device_pages_are_in_two_partitions_and_one_monitor() {
    let plan = planned(&samples::virtio());
    let shared = Attributes::STAGE2_SHARED_WRITE;
    let pages = |kind: AreaKind| -> Vec<Vec<(u64, Attributes)>> {
        plan.partitions.iter().map(|one| mapped(&one.stage2, kind, &plan)).collect()
    };
    // Functions 1 and 2 of the back end are the two devices: its channel to `office` is function 1.
    let (first, second) = (0x2000_0000 + (2 << 24), 0x2000_0000 + (3 << 24));
    assert_eq!(
        pages(AreaKind::FrontPool(OFFICE)),
        [
            vec![(first + PAGE_BYTES, shared), (second + PAGE_BYTES, shared)],
            vec![(0x3000_0000, shared)],
            vec![],
            vec![]
        ]
    );
    assert_eq!(pages(AreaKind::DevicePage(0)), [vec![(first, shared)], vec![(0x1900_1000, shared)], vec![], vec![]]);
    assert_eq!(pages(AreaKind::DevicePage(1)), [vec![(second, shared)], vec![(0x1900_3000, shared)], vec![], vec![]]);
    let native = 0x1010_0000;
    assert_eq!(
        pages(AreaKind::FrontPool(LAB)),
        [vec![], vec![], vec![(native + PAGE_BYTES, shared)], vec![(0x3000_0000, shared)]]
    );
    let monitors = |kind: AreaKind| -> Vec<Vec<(u64, Attributes)>> {
        plan.el2.iter().map(|mappings| mapped(mappings, kind, &plan)).collect()
    };
    let own = |kind: AreaKind, attributes| vec![(plan.layout.address(kind).0, attributes)];
    for (kind, attributes) in [
        (AreaKind::FrontPool(OFFICE), Attributes::EL2_SHARED_WRITE),
        (AreaKind::DevicePage(1), Attributes::EL2_SHARED_WRITE),
        (AreaKind::Notifications(0), Attributes::EL2_WRITE),
    ] {
        assert_eq!(monitors(kind), [vec![], own(kind, attributes), vec![], vec![]], "{kind:?}");
    }
    let kind = AreaKind::Interrupts(0);
    assert_eq!(monitors(kind), [own(kind, Attributes::EL2_WRITE), vec![], vec![], vec![]]);
}

#[test]
fn the_plan_says_where_pool_and_pages_are() {
    let plan = planned(&samples::virtio());
    let office = devices(&plan, OFFICE);
    let pool = plan.layout.area(AreaKind::FrontPool(OFFICE)).unwrap();
    assert_eq!((office.pool, office.pool_bytes), (pool.address, pool_bytes(64 << 20)));
    assert!(pool.address.0.is_multiple_of(2 << 20), "blocks map it");
    let pages = [0, 1].map(|device| plan.layout.address(AreaKind::DevicePage(device)));
    assert_eq!([office.fronts[0].page, office.fronts[1].page], pages);
    assert_eq!((office.step_count, office.poll_ticks), (0, 0), "there are no functions");
    assert_eq!(office.leave_ticks, 6_250_000, "100 ms");
    let end = plan.header.image_start.0 + plan.header.memory_bytes;
    assert!(pool.end() <= end, "all of it is zero at boot");
}

/// QV-51: the notification of a front is the doorbell of its back end, and the other way round.
#[test]
fn the_doorbells_of_a_pair_lead_to_each_other() {
    let plan = planned(&samples::virtio());
    let (linux, office) = (of(&plan, LINUX), of(&plan, OFFICE));
    let functions: Vec<_> = linux.pci().iter().filter(|one| one.kind == PCI_IVSHMEM).collect();
    for (index, front) in devices(&plan, OFFICE).fronts().iter().enumerate() {
        let notification = office.doorbells()[front.plan.doorbell as usize];
        let function = functions[index + 1];
        assert_eq!((notification.peer as usize, notification.intid), (LINUX, function.interrupt));
        let interrupt = linux.doorbells()[function.doorbell as usize];
        assert_eq!(interrupt.peer as usize, OFFICE);
        let tree = Fdt::new(&plan.partitions[OFFICE].device_tree).unwrap();
        let path = format!("/virtio-bus@19000000/virtio_mmio@{:x}", 0x1900_0fa0 + 0x2000 * index);
        let node = tree.find_node(&path).unwrap();
        let cells = node.property("interrupts").unwrap().value().to_vec();
        let cells: Vec<u32> = cells.chunks(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect();
        assert_eq!(cells, [0, interrupt.intid - 32, 1], "edge-triggered");
        for (receiver, intid) in [(linux, notification.intid), (office, interrupt.intid)] {
            let owned = receiver.interrupts().iter().find(|one| one.intid == intid).expect("its receiver owns it");
            assert_eq!((owned.kind, owned.edge), (INTERRUPT_DOORBELL, 1));
        }
        assert_eq!((notification.events, notification.period_ticks), (1_000, 625_000));
        let number = 1 + 2 * index as u32;
        assert_eq!([notification.channel, interrupt.channel], [number, number + 1], "behind the channels");
    }
}

/// A receiver that limits all doorbells to it together limits these, too (CH-36).
#[test]
fn a_limit_of_all_doorbells_counts_those_of_virtio() {
    let mut system = samples::virtio();
    system.partitions[LINUX].doorbell_limit = Some(Limiter { events: 3, period_ns: 1_000_000 });
    let plan = planned(&system);
    let words: Vec<_> = of(&plan, OFFICE).doorbells().iter().map(|one| (one.words, one.events)).collect();
    let together = plan.layout.address(AreaKind::AllDoorbells(LINUX));
    assert_eq!(words, [(together, 3), (together, 3)]);
    assert!(plan.layout.area(AreaKind::Notifications(0)).is_none(), "nothing counts there");
    assert_eq!(of(&plan, LINUX).doorbells()[1].events, 1_000, "the other direction has its own");
}

#[test]
fn trapped_registers_are_the_end_of_a_page() {
    let plan = planned(&samples::virtio());
    let windows = of(&plan, OFFICE).windows().iter().filter(|window| window.kind == WINDOW_VIRTIO);
    let windows: Vec<_> = windows.map(|window| (window.guest.0, window.bytes, window.index)).collect();
    assert_eq!(windows, [(0x1900_0fa0, 0x60, 0), (0x1900_2fa0, 0x60, 1)]);
    let kinds: Vec<u32> = of(&plan, OFFICE).windows().iter().map(|window| window.kind).collect();
    assert_eq!(kinds[..3], [WINDOW_VIRTIO, WINDOW_VIRTIO, WINDOW_GICD], "the most frequent first");
    let kinds: Vec<u32> = of(&plan, LINUX).windows().iter().map(|window| window.kind).collect();
    assert_eq!(
        kinds[3..],
        [WINDOW_ECAM, WINDOW_PCI_REGISTERS, WINDOW_PCI_REGISTERS, WINDOW_PCI_REGISTERS, WINDOW_PCI_REGISTERS]
    );
}

#[test]
fn a_back_end_has_a_port_for_each_device() {
    let plan = planned(&samples::virtio());
    let described = |port: &PortInformation| (name_text(&port.name).to_owned(), port.kind, port.slots, port.doorbell);
    let pages = (pool_bytes(64 << 20) / PAGE_BYTES) as u32;
    let ports: Vec<_> = of(&plan, LINUX).ports[2..4].iter().map(described).collect();
    assert_eq!(ports, [("disk".to_owned(), PORT_BLOCK, pages, 1), ("net".to_owned(), PORT_NET, pages, 2)]);
    for port in 2..4 {
        let function = of(&plan, LINUX).pci()[port];
        assert_eq!((function.memory_bytes, function.position), (16 << 20, 0));
    }
    let information = plan.partitions[SERVER].information.expect("it is native");
    assert_eq!(information.port_count, 1);
    let port = information.ports[0];
    assert_eq!(described(&port), ("store".to_owned(), PORT_BLOCK, (9 << 20 >> 12) as u32, 0));
    assert_eq!((port.window.0, port.window_bytes), (0x1010_0000, (9 << 20) + PAGE_BYTES));
    assert_eq!(of(&plan, SERVER).interrupts()[0].intid, port.interrupt);
}

/// What makes a stock kernel keep rings and bounce buffers in the pool, and all else out of it.
#[test]
fn a_front_is_told_that_its_devices_reach_the_pool_alone() {
    let plan = planned(&samples::virtio());
    let value = |partition: usize, path: &str, property: &str| {
        let tree = Fdt::new(&plan.partitions[partition].device_tree).unwrap();
        tree.find_node(path).and_then(|node| Some(node.property(property)?.value().to_vec()))
    };
    let wide = |words: &[u64]| Some(words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>());
    let (bus, pool) = ("/virtio-bus@19000000", pool_bytes(64 << 20));
    assert_eq!(value(OFFICE, "/memory@30000000", "reg"), wide(&[0x3000_0000, pool]));
    assert_eq!(value(OFFICE, "/memory@40000000", "reg"), wide(&[0x4000_0000, 64 << 20]));
    assert_eq!(value(OFFICE, bus, "compatible"), Some(b"simple-bus\0".to_vec()));
    assert_eq!(value(OFFICE, bus, "ranges"), Some(Vec::new()));
    assert_eq!(value(OFFICE, bus, "dma-ranges"), wide(&[0x3000_0000, 0x3000_0000, pool]));
    let device = "/virtio-bus@19000000/virtio_mmio@19002fa0";
    assert_eq!(value(OFFICE, device, "compatible"), Some(b"virtio,mmio\0".to_vec()));
    assert_eq!(value(OFFICE, device, "reg"), wide(&[0x1900_2fa0, 0x200]));
    assert_eq!(value(OFFICE, device, "dma-coherent"), Some(Vec::new()));
    let options = value(OFFICE, "/chosen", "bootargs");
    assert_eq!(options, Some(b"quiet panic=1 swiotlb=4096 cma=0\0".to_vec()));
    for path in [bus, "/memory@30000000"] {
        assert_eq!(value(LINUX, path, "compatible").or(value(LINUX, path, "reg")), None, "a back end has no pool");
    }
    assert_eq!(value(LINUX, "/chosen", "bootargs"), Some(b"quiet panic=1\0".to_vec()));
}

#[test]
fn what_cannot_be_is_refused() {
    let refusal = |change: &dyn Fn(&mut System)| {
        let mut system = samples::virtio();
        change(&mut system);
        let mut monitor = samples::monitor();
        monitor.part = bulkhead_plan::part_of(&system);
        plan(&system, &monitor).map(|_| ()).unwrap_err().to_string()
    };
    type Case<'a> = (&'a dyn Fn(&mut System), &'a str);
    let cases: [Case<'_>; 10] = [
        (&|system| system.virtio[0].back = OFFICE, "its front serves it"),
        (&|system| system.virtio[0].back = 7, "refers to a partition"),
        (&|system| system.virtio[0].back = SERVER, "two partitions serve its virtio devices"),
        (&|system| system.partitions[OFFICE].memory_bytes -= 4096, "less than 64 MiB"),
        (&|system| system.partitions[LAB].mode = InterruptMode::Direct, "direct interrupts"),
        (
            &|system| system.virtio[0].kind = VirtioKind::Block { bytes: 1000, is_read_only: false },
            "not a multiple of 512",
        ),
        (&|system| system.virtio[1].kind = VirtioKind::Net { address: [1, 0, 0, 0, 0, 1] }, "a group's"),
        (&|system| system.virtio[0].kind = system.virtio[1].kind, "another one has its MAC address"),
        (&|system| system.virtio[0].limiter.events = 0, "its limiter is zero"),
        (
            &|system| {
                let disk = system.virtio[2].clone();
                system.virtio.extend(vec![disk; 4]);
            },
            "has 5 virtio devices",
        ),
    ];
    for (change, expected) in cases {
        let message = refusal(change);
        assert!(message.contains(expected), "{message}");
    }
}
