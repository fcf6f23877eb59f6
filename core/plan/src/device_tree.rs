//! The device tree of a guest: what Linux (and any guest that reads it) is told of its partition.
//!
//! Everything that is described exists in the partition and nothing else: its vCPUs with PSCI, its RAM, the timer, the
//! GIC with as many redistributors as vCPUs, the virtual PL011, passed-through devices, and the virtual PCI bus with
//! its channels. A user overlay is applied last. The bytes depend on the system alone. Library: `dtoolkit`, which also
//! reads overlays and prints DTS; `vm-fdt` writes only.

use crate::channels::{PCI_MEMORY_STEP, PCI_REGISTERS_STEP};
use crate::error::PlanError;
use crate::fronts::{self, FrontEnd};
use crate::interrupts::FIRST_SPI;
use crate::loading::Placement;
use crate::maps::{self, GICD_BYTES, GICR_BYTES};
use crate::model::{BoardDevice, GuestImage, Partition, System};
use crate::narrow;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::plan::{MAX_PCI_FUNCTIONS, PCI_DEVICE, PciFunction};
use bulkhead_guest_abi::guest::{
    GUEST_ECAM, GUEST_FRONTS, GUEST_GICD, GUEST_GICR, GUEST_PCI_DEVICES, GUEST_PCI_MEMORY, GUEST_PCI_REGISTERS,
    GUEST_POOL, GUEST_UART,
};
use dtoolkit::ToPropertyValue;
use dtoolkit::fdt::Fdt;
use dtoolkit::model::overlay::OverlayApplier;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

/// Bytes of the configuration space of one PCI bus.
pub const ECAM_BYTES: u64 = 1 << 20;

/// Most bytes of an overlay: as many as Linux takes of a device tree.
const MOST_OVERLAY_BYTES: usize = 2 << 20;
/// Most nodes inside each other in an overlay. Real ones have half a dozen.
const MOST_OVERLAY_DEPTH: usize = 64;
// Tokens of a flattened device tree (Devicetree Specification 0.4, 5.4.1).
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;

/// What makes a kernel take its bounce buffers, of which there are 8 MiB, from the pool, and nothing else.
const FRONT_OPTIONS: &str = "swiotlb=4096 cma=0";
/// Bytes of a virtio-mmio register frame that drivers use, configuration space included.
const FRAME_BYTES: u64 = 0x200;

const GIC: u32 = 1;
const FIRST_CLOCK: u32 = 2;
/// Clock of a PL011 as QEMU's own device tree gives it; nothing depends on it, the UART is virtual.
const UART_CLOCK_HZ: u64 = 24_000_000;

// Interrupt specifiers, Linux `Documentation/devicetree/bindings/interrupt-controller/arm,gic-v3.yaml`.
const SPI: u32 = 0;
const PPI: u32 = 1;
const EDGE_RISING: u32 = 1;
const LEVEL_HIGH: u32 = 4;
/// PPIs of the timer binding, INTID - 16: secure, EL1 physical (30), EL1 virtual (27), hypervisor.
const TIMER_PPIS: [u32; 4] = [13, 14, 11, 10];

/// Parts of the plan that a device tree describes.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The system.
    pub system: &'a System,
    /// Index of the partition.
    pub index: usize,
    /// The partition.
    pub partition: &'a Partition,
    /// Where its image goes.
    pub placement: &'a Placement,
    /// INTID of its virtual PL011.
    pub console: Option<u32>,
    /// Its PCI functions.
    pub functions: &'a [PciFunction],
    /// The virtio devices that it has.
    pub fronts: &'a [FrontEnd],
}

/// Writes the flattened device tree of a partition.
///
/// # Errors
/// When the overlay is damaged or does not fit the tree.
pub fn build(facts: &Facts<'_>) -> Result<Vec<u8>, PlanError> {
    let mut tree = DeviceTree::new();
    let mut clocks = Clocks(Vec::new());
    let root = &mut tree.root;
    set(root, "#address-cells", 2_u32);
    set(root, "#size-cells", 2_u32);
    set(root, "compatible", strings(&["bulkhead,partition", "linux,dummy-virt"]));
    set(root, "model", format!("Bulkhead partition {}", facts.partition.name));
    set(root, "interrupt-parent", GIC);
    root.add_child(chosen(facts));
    let pool = fronts::pool_of(facts.system, facts.index);
    root.add_child(memory(facts.partition.guest_ram.0, facts.partition.memory_bytes));
    if let Some(bytes) = pool {
        root.add_child(memory(GUEST_POOL.0, bytes));
    }
    root.add_child(processors(facts.partition));
    root.add_child(psci());
    root.add_child(timer());
    root.add_child(interrupt_controller(facts));
    if let Some(intid) = facts.console {
        root.add_child(uart(intid, &mut clocks));
    }
    let pages = maps::device_pages(facts.system, facts.partition);
    for device in facts.partition.devices.iter().filter_map(|index| facts.system.board.devices.get(*index)) {
        root.add_child(passed_through(device, maps::guest_address(&pages, device.address), &mut clocks));
    }
    if !facts.functions.is_empty() {
        root.add_child(pci_bus(facts.functions));
    }
    if let Some(bytes) = pool {
        root.add_child(virtio_bus(facts.fronts, bytes));
    }
    for (index, frequency_hz) in clocks.0.iter().enumerate() {
        root.add_child(fixed_clock(index, *frequency_hz));
    }
    apply_overlay(&mut tree, facts)?;
    Ok(tree.to_dtb())
}

fn apply_overlay(tree: &mut DeviceTree, facts: &Facts<'_>) -> Result<(), PlanError> {
    let Some(overlay) = &facts.partition.overlay else { return Ok(()) };
    // Labels that an overlay may refer to.
    let mut symbols = node("__symbols__");
    set(&mut symbols, "gic", format!("/{}", unit("intc", GUEST_GICD.0)));
    if facts.console.is_some() {
        set(&mut symbols, "uart", uart_path());
    }
    tree.root.add_child(symbols);
    let failed = |reason: String| PlanError::Overlay { partition: facts.partition.name.clone(), reason };
    check_size(overlay).map_err(|reason| failed(String::from(reason)))?;
    let overlay = Fdt::new(overlay).map_err(|error| failed(format!("{error}")))?;
    OverlayApplier::new(tree).apply_overlay(&overlay).map_err(|error| failed(format!("{error}")))
}

/// Refuses an overlay that is large, or whose nodes lie deep inside each other: the library takes a stack frame for each of them.
fn check_size(overlay: &[u8]) -> Result<(), &'static str> {
    if overlay.len() > MOST_OVERLAY_BYTES {
        return Err("it has more than 2 MiB");
    }
    let word = |at: usize| overlay.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    let offset = |at| word(at).and_then(|word| usize::try_from(word).ok());
    let mut at = offset(8).ok_or("it is cut off")?;
    let mut depth = 0_usize;
    loop {
        let token = word(at).ok_or("its structure block is cut off")?;
        let past = match token {
            BEGIN_NODE => {
                let name = overlay.get(at.saturating_add(4)..).unwrap_or_default();
                depth = depth.saturating_add(1);
                name.iter().position(|byte| *byte == 0).and_then(|bytes| bytes.checked_add(5))
            }
            PROPERTY => offset(at.saturating_add(4)).and_then(|bytes| bytes.checked_add(12)),
            END_NODE => {
                depth = depth.checked_sub(1).ok_or("a node ends that did not begin")?;
                Some(4)
            }
            NOP => Some(4),
            // What else is wrong, the library says.
            _ => return Ok(()),
        };
        if depth > MOST_OVERLAY_DEPTH {
            return Err("its nodes lie inside each other more than 64 deep");
        }
        let next = past.and_then(|bytes| at.checked_add(bytes)).and_then(|next| next.checked_next_multiple_of(4));
        at = next.ok_or("its structure block is cut off")?;
    }
}

fn node(name: &str) -> DeviceTreeNode {
    DeviceTreeNode::new_unchecked(name)
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

/// Cells of 64-bit values in pairs.
fn cells_64(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

fn unit(name: &str, address: u64) -> String {
    format!("{name}@{address:x}")
}

/// High and low cell of a 64-bit value.
fn split(value: u64) -> [u32; 2] {
    [value >> 32, value & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or(u32::MAX))
}

fn spi(intid: u32, edge: bool) -> [u32; 3] {
    [SPI, intid.saturating_sub(FIRST_SPI), if edge { EDGE_RISING } else { LEVEL_HIGH }]
}

fn chosen(facts: &Facts<'_>) -> DeviceTreeNode {
    let mut chosen = node("chosen");
    let command_line = match &facts.partition.image {
        GuestImage::Linux { command_line, .. } if !facts.fronts.is_empty() => {
            format!("{command_line} {FRONT_OPTIONS}").trim_start().to_string()
        }
        GuestImage::Linux { command_line, .. } => command_line.clone(),
        GuestImage::Elf { .. } | GuestImage::Raw { .. } | GuestImage::Kernel { .. } => {
            facts.partition.arguments.clone()
        }
    };
    set(&mut chosen, "bootargs", command_line.as_str());
    if facts.console.is_some() {
        set(&mut chosen, "stdout-path", uart_path());
    }
    if let Some((address, bytes)) = facts.placement.initrd {
        set(&mut chosen, "linux,initrd-start", address.0);
        set(&mut chosen, "linux,initrd-end", address.0 + bytes);
    }
    if !facts.functions.is_empty() {
        // BARs are fixed by the plan.
        set(&mut chosen, "linux,pci-probe-only", 1_u32);
    }
    chosen
}

fn memory(address: u64, bytes: u64) -> DeviceTreeNode {
    let mut memory = node(&unit("memory", address));
    set(&mut memory, "device_type", "memory");
    set(&mut memory, "reg", cells_64(&[address, bytes]));
    memory
}

/// The bus of virtio devices (Linux `Documentation/devicetree/bindings/virtio/mmio.yaml`). What it says of DMA makes the pool the one memory
/// that its devices reach, so a kernel keeps rings there and copies everything else through it.
fn virtio_bus(fronts: &[FrontEnd], pool_bytes: u64) -> DeviceTreeNode {
    let mut bus = node(&unit("virtio-bus", GUEST_FRONTS.0));
    set(&mut bus, "compatible", "simple-bus");
    set(&mut bus, "#address-cells", 2_u32);
    set(&mut bus, "#size-cells", 2_u32);
    mark(&mut bus, "ranges");
    set(&mut bus, "dma-ranges", cells_64(&[GUEST_POOL.0, GUEST_POOL.0, pool_bytes]));
    for front in fronts {
        let mut device = node(&unit("virtio_mmio", front.registers.0));
        set(&mut device, "compatible", "virtio,mmio");
        set(&mut device, "reg", cells_64(&[front.registers.0, FRAME_BYTES]));
        set(&mut device, "interrupts", spi(front.interrupt, true));
        mark(&mut device, "dma-coherent");
        bus.add_child(device);
    }
    bus
}

fn processors(partition: &Partition) -> DeviceTreeNode {
    let mut cpus = node("cpus");
    set(&mut cpus, "#address-cells", 1_u32);
    set(&mut cpus, "#size-cells", 0_u32);
    for vcpu in 0..narrow(partition.cores.len()) {
        let mut cpu = node(&unit("cpu", u64::from(vcpu)));
        set(&mut cpu, "device_type", "cpu");
        set(&mut cpu, "compatible", "arm,armv8");
        set(&mut cpu, "enable-method", "psci");
        set(&mut cpu, "reg", vcpu);
        cpus.add_child(cpu);
    }
    cpus
}

fn psci() -> DeviceTreeNode {
    let mut psci = node("psci");
    set(&mut psci, "compatible", strings(&["arm,psci-1.0", "arm,psci-0.2"]));
    set(&mut psci, "method", "smc");
    psci
}

fn timer() -> DeviceTreeNode {
    let mut timer = node("timer");
    set(&mut timer, "compatible", "arm,armv8-timer");
    let interrupts: Vec<u32> = TIMER_PPIS.iter().flat_map(|ppi| [PPI, *ppi, LEVEL_HIGH]).collect();
    set(&mut timer, "interrupts", interrupts);
    mark(&mut timer, "always-on");
    timer
}

fn interrupt_controller(facts: &Facts<'_>) -> DeviceTreeNode {
    let mut gic = node(&unit("intc", GUEST_GICD.0));
    set(&mut gic, "compatible", "arm,gic-v3");
    set(&mut gic, "#interrupt-cells", 3_u32);
    set(&mut gic, "#address-cells", 0_u32);
    mark(&mut gic, "interrupt-controller");
    let redistributors = facts.partition.cores.len() as u64 * GICR_BYTES;
    set(&mut gic, "#redistributor-regions", 1_u32);
    set(&mut gic, "reg", cells_64(&[GUEST_GICD.0, GICD_BYTES, GUEST_GICR.0, redistributors]));
    set(&mut gic, "phandle", GIC);
    gic
}

fn uart_path() -> String {
    format!("/{}", unit("pl011", GUEST_UART.0))
}

fn uart(intid: u32, clocks: &mut Clocks) -> DeviceTreeNode {
    let clock = clocks.handle(UART_CLOCK_HZ);
    let mut uart = node(&unit("pl011", GUEST_UART.0));
    set(&mut uart, "compatible", strings(&["arm,pl011", "arm,primecell"]));
    set(&mut uart, "reg", cells_64(&[GUEST_UART.0, PAGE_BYTES]));
    set(&mut uart, "interrupts", spi(intid, true));
    set(&mut uart, "clocks", [clock, clock]);
    set(&mut uart, "clock-names", strings(&["uartclk", "apb_pclk"]));
    uart
}

fn passed_through(device: &BoardDevice, address: u64, clocks: &mut Clocks) -> DeviceTreeNode {
    let mut description = node(&unit(&device.name, address));
    let compatible: Vec<&str> = device.compatible.iter().map(String::as_str).collect();
    set(&mut description, "compatible", strings(&compatible));
    set(&mut description, "reg", cells_64(&[address, device.bytes]));
    if !device.interrupts.is_empty() {
        let interrupts: Vec<u32> =
            device.interrupts.iter().flat_map(|interrupt| spi(interrupt.intid, interrupt.edge)).collect();
        set(&mut description, "interrupts", interrupts);
    }
    if device.clock_hz != 0 {
        // Linux `Documentation/devicetree/bindings/serial/pl011.yaml`: the clock of the baud rate comes before that of the bus.
        let is_pl011 = compatible.contains(&"arm,pl011");
        let names: &[&str] = if is_pl011 { &["uartclk", "apb_pclk"] } else { &["apb_pclk"] };
        let clock = clocks.handle(device.clock_hz);
        set(&mut description, "clocks", vec![clock; names.len()]);
        set(&mut description, "clock-names", strings(names));
    }
    description
}

/// Fixed clocks by frequency, in the order of first use.
struct Clocks(Vec<u64>);

impl Clocks {
    fn handle(&mut self, frequency_hz: u64) -> u32 {
        let index = self.0.iter().position(|known| *known == frequency_hz).unwrap_or_else(|| {
            self.0.push(frequency_hz);
            self.0.len() - 1
        });
        FIRST_CLOCK + narrow(index)
    }
}

fn fixed_clock(index: usize, frequency_hz: u64) -> DeviceTreeNode {
    let mut clock = node(&format!("clock-{index}"));
    set(&mut clock, "compatible", "fixed-clock");
    set(&mut clock, "#clock-cells", 0_u32);
    set(&mut clock, "clock-frequency", u32::try_from(frequency_hz).unwrap_or(u32::MAX));
    set(&mut clock, "phandle", FIRST_CLOCK + narrow(index));
    clock
}

/// The virtual PCI bus, binding `pci-host-ecam-generic`. Function n sits at device n + 1.
fn pci_bus(functions: &[PciFunction]) -> DeviceTreeNode {
    const MEMORY_32: u32 = 0x0200_0000;
    const MEMORY_64_PREFETCHABLE: u32 = 0x4300_0000;
    const INTA: u32 = 1;
    let device_cell = |index: usize| (narrow(index) + 1) << 11;
    let mut bus = node(&unit("pcie", GUEST_ECAM.0));
    set(&mut bus, "compatible", "pci-host-ecam-generic");
    set(&mut bus, "device_type", "pci");
    set(&mut bus, "#address-cells", 3_u32);
    set(&mut bus, "#size-cells", 2_u32);
    set(&mut bus, "#interrupt-cells", 1_u32);
    set(&mut bus, "reg", cells_64(&[GUEST_ECAM.0, ECAM_BYTES]));
    set(&mut bus, "bus-range", [0_u32, 0]);
    let mut ranges: Vec<u32> = Vec::new();
    let slots = MAX_PCI_FUNCTIONS as u64;
    let of_channels = [
        (MEMORY_32, GUEST_PCI_REGISTERS.0, slots * PCI_REGISTERS_STEP),
        (MEMORY_64_PREFETCHABLE, GUEST_PCI_MEMORY.0, slots * PCI_MEMORY_STEP),
    ];
    let devices = &GUEST_PCI_DEVICES;
    let of_devices = (MEMORY_32, devices.start, devices.end - devices.start);
    let has_devices = functions.iter().any(|function| function.kind == PCI_DEVICE);
    for (space, base, bytes) in of_channels.into_iter().chain(has_devices.then_some(of_devices)) {
        ranges.push(space);
        ranges.extend(split(base).into_iter().chain(split(base)).chain(split(bytes)));
    }
    set(&mut bus, "ranges", ranges);
    let mut map: Vec<u32> = Vec::new();
    for (index, function) in functions.iter().enumerate().filter(|(_, function)| function.interrupt != 0) {
        map.extend([device_cell(index), 0, 0, INTA, GIC]);
        // INTx of a device is level-sensitive; what a channel rings is not.
        map.extend(spi(function.interrupt, function.kind != PCI_DEVICE));
    }
    if !map.is_empty() {
        set(&mut bus, "interrupt-map-mask", vec![0xf800_u32, 0, 0, 7]);
        set(&mut bus, "interrupt-map", map);
    }
    if has_devices {
        // The SMMU reads and writes memory through the caches (SMMU_IDR0.COHACC).
        mark(&mut bus, "dma-coherent");
    }
    bus
}
