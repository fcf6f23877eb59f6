//! What a non-secure world is told of the machine: its cores, its memory, the interrupt controller, a console.
//!
//! Apart from a partition's tree (`core/plan`), because here the registers are the board's and the console is a real one: its interrupt
//! is a level.

use bulkhead_abi::PAGE_BYTES;
use bulkhead_world::flash::{ChannelDirection, ChannelPlan};
use dtoolkit::ToPropertyValue;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

/// What the tree describes.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// First address and bytes of its memory.
    pub memory: (u64, u64),
    /// Distributor and redistributor, with the bytes of each.
    pub interrupt_controller: [(u64, u64); 2],
    /// PL011: address, INTID, clock in Hz.
    pub console: (u64, u32, u64),
    /// First address and bytes of an initial file system.
    pub initrd: Option<(u64, u64)>,
    /// Its cores.
    pub cores: u32,
    /// Command line of the kernel.
    pub command_line: &'a str,
    /// Channels to the payload and from it.
    pub channels: &'a [ChannelPlan],
    /// Latency tasks by their places, of which the names are told with the page of the wish.
    pub latency: &'a [LatencyTask<'a>],
    /// The page in which it says which of them it wants; 0 = there is none.
    pub wish: u64,
}

/// A latency task: its name, and the first and last priority of threads that want it.
pub type LatencyTask<'a> = (&'a str, Option<(u32, u32)>);

const GIC: u32 = 1;
const CLOCK: u32 = 2;
// Interrupt specifiers, Linux `Documentation/devicetree/bindings/interrupt-controller/arm,gic-v3.yaml`.
const SPI: u32 = 0;
const PPI: u32 = 1;
const EDGE_RISING: u32 = 1;
const LEVEL_HIGH: u32 = 4;
/// PPIs of the timer binding, INTID - 16: secure, EL1 physical (30), EL1 virtual (27), hypervisor (26).
const TIMER_PPIS: [u32; 4] = [13, 14, 11, 10];

/// Writes the flattened device tree.
#[must_use]
pub fn device_tree(world: &World<'_>) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    let root = &mut tree.root;
    set(root, "#address-cells", 2_u32);
    set(root, "#size-cells", 2_u32);
    set(root, "compatible", strings(&["bulkhead,world", "linux,dummy-virt"]));
    set(root, "model", "Bulkhead non-secure world");
    set(root, "interrupt-parent", GIC);
    root.add_child(chosen(world));
    let mut memory = unit("memory", world.memory.0);
    set(&mut memory, "device_type", "memory");
    set(&mut memory, "reg", cells(&[world.memory.0, world.memory.1]));
    root.add_child(memory);
    root.add_child(processors(world.cores));
    let mut psci = node("psci");
    set(&mut psci, "compatible", strings(&["arm,psci-1.0", "arm,psci-0.2"]));
    set(&mut psci, "method", "smc");
    root.add_child(psci);
    let mut timer = node("timer");
    set(&mut timer, "compatible", "arm,armv8-timer");
    set(&mut timer, "interrupts", TIMER_PPIS.iter().flat_map(|ppi| [PPI, *ppi, LEVEL_HIGH]).collect::<Vec<u32>>());
    mark(&mut timer, "always-on");
    root.add_child(timer);
    root.add_child(interrupt_controller(world));
    add_console(root, world);
    add_channels(root, world.channels);
    add_wish(root, world);
    tree.to_dtb()
}

fn chosen(world: &World<'_>) -> DeviceTreeNode {
    let mut chosen = node("chosen");
    set(&mut chosen, "bootargs", world.command_line);
    set(&mut chosen, "stdout-path", format!("/pl011@{:x}", world.console.0));
    if let Some((address, bytes)) = world.initrd {
        set(&mut chosen, "linux,initrd-start", address);
        set(&mut chosen, "linux,initrd-end", address + bytes);
    }
    chosen
}

fn processors(count: u32) -> DeviceTreeNode {
    let mut cpus = node("cpus");
    set(&mut cpus, "#address-cells", 1_u32);
    set(&mut cpus, "#size-cells", 0_u32);
    for core in 0..count {
        let mut cpu = unit("cpu", core.into());
        set(&mut cpu, "device_type", "cpu");
        set(&mut cpu, "compatible", "arm,armv8");
        set(&mut cpu, "enable-method", "psci");
        set(&mut cpu, "reg", core);
        cpus.add_child(cpu);
    }
    cpus
}

fn interrupt_controller(world: &World<'_>) -> DeviceTreeNode {
    let [distributor, redistributor] = world.interrupt_controller;
    let mut gic = unit("intc", distributor.0);
    set(&mut gic, "compatible", "arm,gic-v3");
    set(&mut gic, "#interrupt-cells", 3_u32);
    set(&mut gic, "#address-cells", 0_u32);
    mark(&mut gic, "interrupt-controller");
    set(&mut gic, "#redistributor-regions", 1_u32);
    set(&mut gic, "reg", cells(&[distributor.0, distributor.1, redistributor.0, redistributor.1]));
    set(&mut gic, "phandle", GIC);
    gic
}

fn add_console(root: &mut DeviceTreeNode, world: &World<'_>) {
    let (address, intid, clock_hz) = world.console;
    let mut clock = node("clock");
    set(&mut clock, "compatible", "fixed-clock");
    set(&mut clock, "#clock-cells", 0_u32);
    set(&mut clock, "clock-frequency", u32::try_from(clock_hz).unwrap_or(u32::MAX));
    set(&mut clock, "phandle", CLOCK);
    root.add_child(clock);
    let mut uart = unit("pl011", address);
    set(&mut uart, "compatible", strings(&["arm,pl011", "arm,primecell"]));
    set(&mut uart, "reg", cells(&[address, PAGE_BYTES]));
    set(&mut uart, "interrupts", [SPI, intid.saturating_sub(32), LEVEL_HIGH]);
    set(&mut uart, "clocks", [CLOCK, CLOCK]);
    set(&mut uart, "clock-names", strings(&["uartclk", "apb_pclk"]));
    root.add_child(uart);
}

/// Channels, outside of `/memory` so that no kernel takes their pages, and a program may map them through `/dev/mem`. Nodes of a bus without
/// `compatible`, for which no kernel makes devices: `bulkheadctl` and bare programs read them.
fn add_channels(root: &mut DeviceTreeNode, channels: &[ChannelPlan]) {
    if channels.is_empty() {
        return;
    }
    let mut all = node("bulkhead-channels");
    set(&mut all, "#address-cells", 2_u32);
    set(&mut all, "#size-cells", 2_u32);
    mark(&mut all, "ranges");
    for channel in channels {
        let name: Vec<u8> = channel.name.iter().copied().take_while(|byte| *byte != 0).collect();
        let mut one = unit("channel", channel.address);
        set(&mut one, "label", strings(&[&String::from_utf8_lossy(&name)]));
        set(&mut one, "reg", cells(&[channel.address, channel.pool_bytes().unwrap_or(0)]));
        let is_to_world = channel.direction == ChannelDirection::ToWorld as u32;
        set(&mut one, "direction", if is_to_world { "to-world" } else { "to-payload" });
        set(&mut one, "blocks", channel.blocks);
        set(&mut one, "block-bytes", channel.block_bytes);
        if channel.interrupt != 0 {
            set(&mut one, "interrupts", [SPI, channel.interrupt.saturating_sub(32), EDGE_RISING]);
        }
        all.add_child(one);
    }
    root.add_child(all);
}

/// The page of the wish, as a channel is told: outside of `/memory`, on a bus for which no kernel makes devices.
fn add_wish(root: &mut DeviceTreeNode, world: &World<'_>) {
    if world.wish == 0 {
        return;
    }
    let mut all = node("bulkhead-latency");
    set(&mut all, "#address-cells", 2_u32);
    set(&mut all, "#size-cells", 2_u32);
    mark(&mut all, "ranges");
    let mut wish = unit("wish", world.wish);
    set(&mut wish, "reg", cells(&[world.wish, PAGE_BYTES]));
    let names: Vec<&str> = world.latency.iter().map(|(name, _)| *name).collect();
    set(&mut wish, "tasks", strings(&names));
    // First and last priority of each task's threads; zeros where none want it.
    let priorities = world.latency.iter().flat_map(|(_, threads)| threads.map_or([0, 0], |(from, to)| [from, to]));
    set(&mut wish, "priorities", priorities.collect::<Vec<u32>>());
    all.add_child(wish);
    root.add_child(all);
}

fn node(name: &str) -> DeviceTreeNode {
    DeviceTreeNode::new_unchecked(name)
}

fn unit(name: &str, address: u64) -> DeviceTreeNode {
    node(&format!("{name}@{address:x}"))
}

fn set<T: ToPropertyValue>(node: &mut DeviceTreeNode, name: &str, value: T) {
    node.add_property(DeviceTreeProperty::new_unchecked(name, value));
}

fn mark(node: &mut DeviceTreeNode, name: &str) {
    set(node, name, Vec::<u8>::new());
}

fn strings(list: &[&str]) -> Vec<u8> {
    list.iter().flat_map(|text| text.bytes().chain([0])).collect()
}

fn cells(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}
