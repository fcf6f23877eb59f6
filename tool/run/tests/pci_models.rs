//! What a board file says of PCI functions, against what QEMU shows of them: configuration space as it is out of reset, base address
//! registers, root port and SMMU (QV-13). A program of a few words opens the buses behind root ports; nothing else touches a function.

mod common;

use bulkhead_abi::PhysicalAddress;
use bulkhead_description::board::{built_in, built_in_board};
use bulkhead_plan::model::{PciBacking, PciHost, PciModel, QemuFacts, SmmuStage};
use bulkhead_run::{Machine, MachineOptions};
use common::*;
use serde_json::{Value, json};
use std::time::Duration;

/// Generous: the host may be busy, and a passing test never waits for it.
const LIMIT: Duration = Duration::from_secs(600);
/// Where the program says that it is done.
const DONE: PhysicalAddress = PhysicalAddress(RAM_START.0 + (48 << 20));
/// The registers of a bridge with its bus numbers (PCI-to-PCI bridge 1.2, 3.2.5.3).
const BUS_NUMBERS: u64 = 0x18;

/// A function of the machine: its model, bus and slot.
struct Placed<'b> {
    model: &'b PciModel,
    bus: u64,
    slot: u64,
}

impl Placed<'_> {
    fn page(&self, host: &PciHost) -> u64 {
        host.configuration.0 + (self.bus << 20) + (self.slot << 15)
    }
}

/// Every model once: those of bus 0 in their slots, each of the others behind a root port of its own, from the board's on.
fn places<'b>(host: &'b PciHost) -> Vec<Placed<'b>> {
    let mut slots = host.slots.iter().map(|slot| u64::from(*slot));
    let mut buses = 1..;
    let place = |model: &'b PciModel| {
        if model.is_behind_root_port {
            Placed { model, bus: buses.next().expect("a bus"), slot: 0 }
        } else {
            Placed { model, bus: 0, slot: slots.next().expect("a slot for each model") }
        }
    };
    host.models.iter().map(place).collect()
}

fn port_slot(host: &PciHost, bus: u64) -> u64 {
    u64::from(host.root_port.expect("a root port")) + bus - 1
}

fn arguments(host: &PciHost, qemu: &QemuFacts, places: &[Placed<'_>]) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut add = |words: [String; 2]| arguments.extend(words);
    for (index, placed) in places.iter().enumerate() {
        let behind = match placed.model.backing {
            PciBacking::Nothing => String::new(),
            PciBacking::Disk => {
                add(["-blockdev".to_owned(), format!("null-co,node-name=d{index},size=1048576")]);
                format!(",drive=d{index}")
            }
            PciBacking::Network => {
                add(["-netdev".to_owned(), format!("hubport,id=n{index},hubid=0")]);
                format!(",netdev=n{index}")
            }
        };
        let bus = match placed.bus {
            0 => "pcie.0".to_owned(),
            bus => {
                let (port, slot) = (qemu.root_port.as_ref().expect("a root port"), port_slot(host, bus));
                add(["-device".to_owned(), format!("{port},id=port{bus},chassis={bus},addr={slot:#x}")]);
                format!("port{bus}")
            }
        };
        add(["-device".to_owned(), format!("{}{behind},bus={bus},addr={:#x}", placed.model.qemu, placed.slot)]);
    }
    arguments
}

/// Words of physical memory, as QEMU reads them.
fn words(machine: &mut Machine, address: u64, count: usize) -> Vec<u32> {
    let command = json!({ "command-line": format!("xp /{count}xw {address:#x}") });
    let answer = machine.qmp().execute_with("human-monitor-command", command).expect("QEMU answers");
    let lines = answer.as_str().expect("text").lines().filter_map(|line| line.split_once(": "));
    let words = lines.flat_map(|(_, words)| words.split_ascii_whitespace());
    words.map(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).expect("a word")).collect()
}

/// All functions of a bus and of those behind its bridges.
fn all_devices(devices: &Value) -> Vec<&Value> {
    let devices = devices.as_array().into_iter().flatten();
    devices.flat_map(|one| std::iter::once(one).chain(all_devices(&one["pci_bridge"]["devices"]))).collect()
}

/// Base address registers as QEMU lists them: register, bytes, memory, prefetchable, wide.
type Region = (u64, u64, bool, bool, bool);

fn shown_regions(device: &Value) -> Vec<Region> {
    let is = |region: &Value, key: &str| region[key].as_bool().unwrap_or(false);
    let region = |one: &Value| {
        let (register, bytes) = (one["bar"].as_u64().expect("a register"), one["size"].as_u64().expect("bytes"));
        (register, bytes, one["type"] == "memory", is(one, "prefetch"), is(one, "mem_type_64"))
    };
    device["regions"].as_array().expect("a list").iter().map(region).collect()
}

fn known_regions(model: &PciModel) -> Vec<Region> {
    let bars = model.bars.iter().zip(0..).filter(|(bar, _)| bar.bytes != 0);
    bars.map(|(bar, register)| (register, bar.bytes, !bar.is_ports, bar.is_prefetchable, bar.is_wide)).collect()
}

/// States that a machine of the board shows what its file says.
fn compare(host: &PciHost, qemu: &QemuFacts) {
    let places = places(host);
    let buses = places.iter().filter(|placed| placed.bus != 0).map(|placed| placed.bus);
    let bridge = |bus: u64| host.configuration.0 + (port_slot(host, bus) << 15);
    let mut opened: Vec<_> = buses.clone().map(|bus| (bridge(bus) + BUS_NUMBERS, bus << 8 | bus << 16)).collect();
    opened.push((DONE.0, 1));
    let mut program = stores(&opened);
    program.extend(WAIT_FOR_EVER);
    let mut options = MachineOptions::for_image(image(&two_partitions(), &program)).expect("the image is valid");
    options.facts = qemu.clone();
    options.facts.machine = qemu.pci_machine.clone().expect("a machine with functions");
    options.extra = arguments(host, qemu, &places);
    let mut machine = Machine::start(options).expect("QEMU starts");
    machine.wait_for("open buses", LIMIT, |view| (view.ram.load_u64(DONE)? == 1).then_some(())).expect("opened");

    let listed = machine.qmp().execute("query-pci").expect("QEMU answers");
    let devices: Vec<&Value> =
        listed.as_array().expect("a list").iter().flat_map(|bus| all_devices(&bus["devices"])).collect();
    for placed in &places {
        let name = &placed.model.name;
        let shown = words(&mut machine, placed.page(host), placed.model.configuration.len());
        for (index, (known, shown)) in placed.model.configuration.iter().zip(&shown).enumerate() {
            assert_eq!(
                known,
                shown,
                "{name}: the word at {:#04x}: {known:#010x}, and QEMU shows {shown:#010x}",
                4 * index
            );
        }
        assert_eq!(shown.len(), placed.model.configuration.len(), "{name}");
        let here = |one: &&&Value| one["bus"] == placed.bus && one["slot"] == placed.slot;
        let device = devices.iter().find(here).unwrap_or_else(|| panic!("{name} is not listed: {listed}"));
        assert_eq!(known_regions(placed.model), shown_regions(device), "{name}: base address registers");
    }
    for bus in buses {
        let class = words(&mut machine, bridge(bus) + 0x08, 1);
        assert_eq!(class[0] >> 8, 0x06_0400, "the root port of bus {bus}");
    }
    if let Some(smmu) = host.smmu {
        // SMMU_IDR0: bit 0 is S2P, bit 1 is S1P (IHI 0070, 6.3.1).
        let stages = words(&mut machine, smmu.address.0, 1)[0] & 3;
        let wanted = if smmu.stage == SmmuStage::One { 2 } else { 1 };
        assert_eq!(stages & wanted, wanted, "stages {stages:#x}");
    }
    machine.quit();
}

#[test]
fn every_model_is_what_qemu_shows() {
    let mut models = Vec::new();
    for board in built_in() {
        if let (Some(host), Some(qemu)) = (&board.pci, &board.qemu) {
            compare(host, qemu);
            models.extend(host.models.iter().map(|model| model.name.clone()));
        }
    }
    let expected = ["virtio-blk", "virtio-net", "virtio-rng", "nvme", "edu", "virtio-blk-flr", "virtio-net-flr"];
    assert_eq!(models, expected);
}

/// A system without functions runs on the machine that it always had.
#[test]
fn only_functions_change_the_machine() {
    let board = built_in_board("qemu-virt").expect("built in");
    let qemu = board.qemu.expect("QEMU is this machine");
    assert_eq!(qemu.machine, "virt,gic-version=3,virtualization=on");
    assert_eq!(qemu.pci_machine.as_deref(), Some("virt,gic-version=3,virtualization=on,iommu=smmuv3"));
}
