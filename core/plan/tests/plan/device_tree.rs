//! Guest device trees, read back with the parser half of the library.

use crate::random::Random;
use bulkhead_plan::model::{BoardDevice, GuestImage, System};
use bulkhead_plan::{PlanError, plan, samples};
use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use dtoolkit::{Node, Property};

fn tree(system: &System, partition: usize) -> Vec<u8> {
    plan(system, &samples::monitor()).unwrap().partitions[partition].device_tree.clone()
}

fn value(bytes: &[u8], path: &str, property: &str) -> Vec<u8> {
    let tree = Fdt::new(bytes).unwrap();
    let node = tree.find_node(path).unwrap_or_else(|| panic!("{path} is missing"));
    let property = node.property(property).unwrap_or_else(|| panic!("{path}/{property} is missing"));
    property.value().to_vec()
}

fn cells(bytes: &[u8], path: &str, property: &str) -> Vec<u32> {
    let value = value(bytes, path, property);
    value.chunks(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect()
}

fn text(bytes: &[u8], path: &str, property: &str) -> String {
    String::from_utf8(value(bytes, path, property)).unwrap()
}

#[test]
fn linux_is_told_its_memory_cpus_and_controller() {
    let bytes = tree(&samples::demo(), 2);
    assert_eq!(cells(&bytes, "/memory@40000000", "reg"), [0, 0x4000_0000, 0, 64 << 20]);
    assert_eq!(cells(&bytes, "/cpus/cpu@1", "reg"), [1]);
    let gic = cells(&bytes, "/intc@8000000", "reg");
    assert_eq!(gic, [0, 0x0800_0000, 0, 0x1_0000, 0, 0x080a_0000, 0, 0x4_0000], "two redistributors");
    assert_eq!(text(&bytes, "/psci", "method"), "smc\0");
    assert_eq!(text(&bytes, "/chosen", "bootargs"), "quiet panic=1\0");
    assert_eq!(cells(&bytes, "/chosen", "linux,pci-probe-only"), [1]);
}

#[test]
fn console_interrupt_is_the_spare_one_and_edge_triggered() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    let linux = &plan.partitions[2];
    let console = linux.plan.interrupts.iter().find(|interrupt| interrupt.kind == 3).unwrap();
    assert_eq!(cells(&linux.device_tree, "/pl011@9000000", "interrupts"), [0, console.intid - 32, 1]);
}

#[test]
fn passed_through_device_is_described() {
    let bytes = tree(&samples::demo(), 2);
    assert_eq!(cells(&bytes, "/rtc@9010000", "reg"), [0, 0x0901_0000, 0, 0x1000]);
    assert_eq!(cells(&bytes, "/rtc@9010000", "interrupts"), [0, 2, 4], "SPI 34, level");
    assert_eq!(text(&bytes, "/rtc@9010000", "compatible"), "arm,pl031\0arm,primecell\0");
}

/// `Documentation/devicetree/bindings/serial/pl011.yaml` wants both clocks by their names; other PrimeCell devices have that of the bus.
#[test]
fn a_uart_that_was_passed_through_has_two_clocks() {
    let mut system = samples::demo();
    let index = system.partitions[2].devices[0];
    let rtc = system.board.devices[index].clone();
    system.board.devices[index].clock_hz = 125_000_000;
    assert_eq!(text(&tree(&system, 2), "/rtc@9010000", "clock-names"), "apb_pclk\0");
    let compatible = ["arm,pl011", "arm,primecell"].map(String::from).to_vec();
    system.board.devices[index] = BoardDevice { name: "uart1".into(), compatible, clock_hz: 125_000_000, ..rtc };
    let bytes = tree(&system, 2);
    assert_eq!(text(&bytes, "/uart1@9010000", "clock-names"), "uartclk\0apb_pclk\0");
    let clocks = cells(&bytes, "/uart1@9010000", "clocks");
    assert_eq!(clocks.len(), 2);
    // The virtual console has another frequency and with it another clock.
    assert_eq!(cells(&bytes, "/clock-1", "clock-frequency"), [125_000_000]);
    assert_eq!(cells(&bytes, "/clock-1", "phandle"), [clocks[0]]);
    assert_eq!(clocks[0], clocks[1]);
}

#[test]
fn every_inbound_doorbell_is_in_the_interrupt_map() {
    let plan = plan(&samples::demo(), &samples::monitor()).unwrap();
    let linux = &plan.partitions[2];
    let map = cells(&linux.device_tree, "/pcie@3f000000", "interrupt-map");
    let rows: Vec<&[u32]> = map.chunks(8).collect();
    assert_eq!(rows.len(), 2, "telemetry and noise; orders leave, the management function has no interrupt");
    for row in rows {
        let device = (row[0] >> 11) as usize;
        let function = linux.plan.pci[device - 1];
        assert_eq!(row[1..], [0, 0, 1, 1, 0, function.interrupt - 32, 1]);
    }
}

#[test]
fn native_guest_sees_no_pci_bus() {
    let bytes = tree(&samples::demo(), 0);
    assert!(Fdt::new(&bytes).unwrap().find_node("/pcie@3f000000").is_none());
    assert_eq!(text(&bytes, "/chosen", "bootargs"), "name=control\0");
}

/// An overlay with one fragment that targets a path.
fn overlay(path: &str) -> Vec<u8> {
    let mut content = DeviceTreeNode::new("__overlay__").unwrap();
    content.add_property(DeviceTreeProperty::new("extra", "yes").unwrap());
    let mut fragment = DeviceTreeNode::new("fragment@0").unwrap();
    fragment.add_property(DeviceTreeProperty::new("target-path", path).unwrap());
    fragment.add_child(content);
    let mut tree = DeviceTree::new();
    tree.root.add_child(fragment);
    tree.to_dtb()
}

#[test]
fn overlay_is_applied_last() {
    let mut system = samples::demo();
    system.partitions[2].overlay = Some(overlay("/chosen"));
    let bytes = tree(&system, 2);
    assert_eq!(text(&bytes, "/chosen", "extra"), "yes\0");
    assert_eq!(text(&bytes, "/chosen", "bootargs"), "quiet panic=1\0", "what was there stays");
}

#[test]
fn damaged_overlay_is_refused() {
    for bytes in [vec![], vec![0; 100], overlay("/chosen")[..60].to_vec(), overlay("/no/such/node")] {
        let mut system = samples::demo();
        system.partitions[2].overlay = Some(bytes);
        let error = plan(&system, &samples::monitor()).unwrap_err();
        assert!(matches!(error, PlanError::Overlay { .. }), "{error}");
    }
}

#[test]
fn a_damaged_overlay_breaks_nothing() {
    let good = overlay("/chosen");
    let (mut applied, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut bytes = good.clone();
        for _ in 0..=random.index(3) {
            let place = random.index(bytes.len());
            bytes[place] = [0, 1, 2, 3, 9, 0x7f, 0xff, random.next() as u8][random.index(8)];
        }
        let mut system = samples::demo();
        system.partitions[2].overlay = Some(bytes);
        match plan(&system, &samples::monitor()) {
            Ok(_) => applied += 1,
            Err(error) => {
                assert!(matches!(error, PlanError::Overlay { .. }), "seed {seed}: {error}");
                refused += 1;
            }
        }
    }
    assert!(applied > 10 && refused > 100, "no mixture any more: {applied} applied, {refused} refused");
}

/// The library would take a stack frame for each node inside another one, and so would everything that prints the tree.
#[test]
fn an_overlay_is_no_deeper_than_a_real_one() {
    let nested = |levels: usize| {
        let (begin, end) = (&b"\0\0\0\x01a\0\0\0"[..], &b"\0\0\0\x02"[..]);
        let flat = overlay("/chosen");
        // In front of the end of `__overlay__`: three ends and the token that ends the tree.
        let field = |at: usize| u32::from_be_bytes(flat[at..at + 4].try_into().unwrap());
        let place = (field(8) + field(36)) as usize - 16;
        let mut deep = [&flat[..place], &begin.repeat(levels), &end.repeat(levels), &flat[place..]].concat();
        let added = levels * (begin.len() + end.len());
        for field in [4, 12, 36] {
            let value = u32::from_be_bytes(deep[field..field + 4].try_into().unwrap()) + added as u32;
            deep[field..field + 4].copy_from_slice(&value.to_be_bytes());
        }
        let mut system = samples::demo();
        system.partitions[2].overlay = Some(deep);
        plan(&system, &samples::monitor()).map(|_| ())
    };
    // The root, the fragment and `__overlay__` are around them.
    assert_eq!(nested(61), Ok(()));
    for levels in [62, 20_000, 160_000, 2_000_000] {
        let Err(PlanError::Overlay { reason, .. }) = nested(levels) else { panic!("{levels} levels") };
        assert!(reason.contains("64 deep") || reason.contains("2 MiB"), "{reason}");
    }
}

#[test]
fn kernel_command_line_is_passed_as_it_is() {
    let mut system = samples::demo();
    let GuestImage::Linux { command_line, .. } = &mut system.partitions[2].image else { unreachable!() };
    *command_line = String::from("quoted=\"a b\" last");
    assert_eq!(text(&tree(&system, 2), "/chosen", "bootargs"), "quoted=\"a b\" last\0");
}
