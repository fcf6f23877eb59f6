//! The same system on both boards: apart from the second UART only the line `board` differs, and the guests cannot tell.

use bulkhead_plan::Plan;
use bulkhead_plan::model::{Partition, System as Model};
use bulkhead_system_tests::System;
use dtoolkit::fdt::Fdt;

const SECOND: &str = "board = \"xlnx-versal-virt\"";
const REFERENCE: &str = "board = \"qemu-virt\"";
const UART: &str = "devices = [\"uart1\"]\n";
/// Properties of a device tree that name interrupts: which SPIs are spare is a fact of the board.
const INTERRUPTS: [&str; 2] = ["interrupts = ", "interrupt-map = "];

fn planned(changes: &[(&str, &str)]) -> (Model, Plan) {
    let model = System::example("versal", changes).model;
    let monitor = bulkhead_image::read_monitor(None, bulkhead_plan::part_of(&model)).expect("a built monitor");
    let plan = bulkhead_image::build_image(&model, &monitor).expect("an image").plan;
    (model, plan)
}

/// A device tree as text, line by line, with the numbers of interrupts left out.
fn tree(bytes: &[u8]) -> Vec<String> {
    let text = Fdt::new(bytes).expect("a device tree").to_string();
    let without_numbers = |line: &str| match INTERRUPTS.iter().find(|start| line.trim_start().starts_with(**start)) {
        Some(start) => (*start).to_owned(),
        None => line.trim().to_owned(),
    };
    text.lines().map(without_numbers).filter(|line| !line.is_empty()).collect()
}

/// Takes a node without children out of a tree.
fn without(mut lines: Vec<String>, node: &str) -> Vec<String> {
    let start = lines.iter().position(|line| line == &format!("{node} {{"));
    let start = start.unwrap_or_else(|| panic!("no node {node} in {lines:#?}"));
    let length = lines[start..].iter().position(|line| line == "};").expect("the end of a node");
    lines.drain(start..=start + length);
    lines
}

/// Addresses, sizes and rights of everything that a guest can reach.
fn guest_map(plan: &Plan, partition: usize) -> Vec<(u64, u64, String)> {
    let mappings = plan.partitions[partition].stage2.iter();
    mappings.map(|one| (one.input, one.bytes, format!("{:?}", one.attributes))).collect()
}

/// MZ-1: what a guest is made of and what it sees of its machine is the same on both boards, and the second UART adds a page and
/// two nodes to Linux's alone.
#[test]
fn guests_are_the_same_on_both_boards() {
    let (reference, on_reference) = planned(&[(SECOND, REFERENCE), (UART, "")]);
    let (second, on_second) = planned(&[(UART, "")]);
    let (full, on_full) = planned(&[]);
    assert_ne!(reference.board.name, second.board.name);
    assert_eq!(reference.partitions, second.partitions, "images, memory, servers and policies");
    assert_eq!((&reference.channels, &reference.schedules), (&second.channels, &second.schedules));
    for (number, partition) in reference.partitions.iter().enumerate() {
        let name = &partition.name;
        let plans = [&on_reference, &on_second, &on_full].map(|plan| &plan.partitions[number]);
        assert_eq!(tree(&plans[0].device_tree), tree(&plans[1].device_tree), "device tree of {name}");
        assert_eq!(guest_map(&on_reference, number), guest_map(&on_second, number), "address map of {name}");
        if name != "linux" {
            assert_eq!(full.partitions[number], *partition);
            assert_eq!(plans[1].device_tree, plans[2].device_tree);
        }
    }
    let linux = full.partitions.iter().position(|partition| partition.name == "linux").expect("a partition");
    let plain = &second.partitions[linux];
    let Partition { devices, device_routes, .. } = full.partitions[linux].clone();
    assert_eq!(full.partitions[linux], Partition { devices, device_routes, ..plain.clone() });
    let with_uart = tree(&on_full.partitions[linux].device_tree);
    let without_uart = without(without(with_uart, "uart1@c000000"), "clock-1");
    assert_eq!(without_uart, tree(&on_second.partitions[linux].device_tree));
    let mut map = guest_map(&on_full, linux);
    map.retain(|(input, ..)| *input != 0x0c00_0000);
    assert_eq!(map, guest_map(&on_second, linux), "one page more");
}
