//! Systems with PCI functions, in the shape of those of QEMU `virt`.

use super::{channel, linux, native, system};
use crate::devices;
use crate::model::{
    Bank, Board, DeviceEvents, InterruptMode, ModelBar, PciBacking, PciFunction, PciHost, PciModel, PciReset, PortKind,
    Reach, Smmu, SmmuStage, System,
};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{HEADER_WORDS, MAX_BARS};

/// Returns a host bridge with slots 1 to 12, a root port at 16 and an SMMU of stage 1. Its models are `block`, `network`, `nvme`, `edu` and, behind
/// the root port, `express`.
#[must_use]
pub fn pci_host() -> PciHost {
    PciHost {
        configuration: PhysicalAddress(0x40_1000_0000),
        buses: 2,
        window: Bank { start: PhysicalAddress(0x1000_0000), bytes: 0x2eff_0000 },
        first_interrupt: 35,
        slots: (1..=12).collect(),
        root_port: Some(16),
        smmu: Some(Smmu { address: PhysicalAddress(0x0905_0000), stage: SmmuStage::One }),
        reset_delay_ticks: 6_250_000,
        wait_limit: 10_000,
        models: vec![
            virtio("block", 0x1042, 0x01_0000, PciBacking::Disk),
            virtio("network", 0x1041, 0x02_0000, PciBacking::Network),
            nvme(),
            edu(),
            express(),
        ],
    }
}

/// The first 256 bytes of a configuration space: identity, class, revision and subsystem, and capabilities in the order of their chain.
fn configuration(identity: [u16; 2], class: u32, capabilities: &[(u8, &[u8])]) -> [u32; HEADER_WORDS] {
    let mut bytes = [0_u8; HEADER_WORDS * 4];
    let mut put = |offset: usize, values: &[u8]| {
        bytes.iter_mut().skip(offset).zip(values).for_each(|(byte, value)| *byte = *value);
    };
    let [vendor, device] = identity.map(u16::to_le_bytes);
    put(0, &[vendor, device].concat());
    put(8, &(class << 8 | 1).to_le_bytes());
    put(0x2c, &[0xf4, 0x1a, 0, 0x11]);
    put(0x3d, &[1]);
    if let Some((first, _)) = capabilities.first() {
        put(6, &[0x10]);
        put(0x34, &[*first]);
    }
    for (offset, capability) in capabilities {
        put(usize::from(*offset), capability);
    }
    let mut words = [0; HEADER_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(4)) {
        *word = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
    }
    words
}

fn bars(used: &[(usize, ModelBar)]) -> [ModelBar; MAX_BARS] {
    let mut bars = [ModelBar::default(); MAX_BARS];
    for (register, bar) in used {
        if let Some(slot) = bars.get_mut(*register) {
            *slot = *bar;
        }
    }
    bars
}

const NONE: ModelBar =
    ModelBar { bytes: 0, is_wide: false, is_prefetchable: false, is_ports: false, is_messages: false };

/// Capabilities of virtio, newest first: MSI-X, the access window, notification, device, ISR and common registers.
const VIRTIO: [(u8, &[u8]); 6] = [
    (0x98, &[0x11, 0x84, 1, 0, 1, 0, 0, 0, 1, 8]),
    (0x84, &[0x09, 0x70, 20, 5]),
    (0x70, &[0x09, 0x60, 20, 2, 4, 0, 0, 0, 0, 0x30, 0, 0, 0, 0x10, 0, 0, 4]),
    (0x60, &[0x09, 0x50, 16, 4, 4, 0, 0, 0, 0, 0x20, 0, 0, 0, 0x10]),
    (0x50, &[0x09, 0x40, 16, 3, 4, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x10]),
    (0x40, &[0x09, 0, 16, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0x10]),
];

fn virtio(name: &str, device: u16, class: u32, backing: PciBacking) -> PciModel {
    let messages = ModelBar { bytes: 0x1000, is_messages: true, ..NONE };
    let registers = ModelBar { bytes: 0x4000, is_wide: true, is_prefetchable: true, ..NONE };
    PciModel {
        name: name.to_string(),
        qemu: name.to_string(),
        backing,
        configuration: configuration([0x1af4, device], class, &VIRTIO),
        bars: bars(&[(1, messages), (4, registers)]),
        reset: PciReset::Virtio { bar: 4, offset: 0x14 },
        is_confined: true,
        is_behind_root_port: false,
    }
}

/// PCI Express with function-level reset, linked to another capability.
const fn can_reset(next: u8) -> [u8; 8] {
    [0x10, next, 2, 0, 0, 0x80, 0, 0x10]
}

/// Its tables of messages are in the third and fourth page of its registers.
fn nvme() -> PciModel {
    let messages: &[u8] = &[0x11, 0x80, 0x40, 0, 0, 0x20, 0, 0, 0, 0x30];
    let capabilities: [(u8, &[u8]); 3] = [(0x40, messages), (0x80, &can_reset(0x60)), (0x60, &[1, 0, 3, 0, 8])];
    PciModel {
        name: "nvme".to_string(),
        configuration: configuration([0x1b36, 0x10], 0x01_0802, &capabilities),
        bars: bars(&[(0, ModelBar { bytes: 0x4000, is_wide: true, ..NONE })]),
        reset: PciReset::FunctionLevel { capability: 0x80 },
        ..virtio("nvme", 0, 0, PciBacking::Disk)
    }
}

/// It has registers, ports and less than a page, MSI and no reset.
fn edu() -> PciModel {
    let used = [
        (0, ModelBar { bytes: 1 << 20, ..NONE }),
        (2, ModelBar { bytes: 0x20, is_ports: true, ..NONE }),
        (3, ModelBar { bytes: 0x100, ..NONE }),
    ];
    PciModel {
        name: "edu".to_string(),
        configuration: configuration([0x1234, 0x11e8], 0xff_0000, &[(0x40, &[5, 0, 0x80])]),
        bars: bars(&used),
        reset: PciReset::None,
        ..virtio("edu", 0, 0, PciBacking::Nothing)
    }
}

fn express() -> PciModel {
    let mut capabilities: Vec<(u8, &[u8])> = VIRTIO.to_vec();
    let express = can_reset(0x98);
    capabilities.insert(0, (0xa4, &express));
    PciModel {
        configuration: configuration([0x1af4, 0x1041], 0x02_0000, &capabilities),
        reset: PciReset::FunctionLevel { capability: 0xa4 },
        is_behind_root_port: true,
        ..virtio("express", 0, 0, PciBacking::Network)
    }
}

/// Returns a function of a partition, on the line of its slot, that reaches its partition.
#[must_use]
pub fn function(name: &str, model: usize, partition: usize, (bus, device): (u32, u32)) -> PciFunction {
    let interrupt = devices::line(&pci_host(), bus, device);
    PciFunction { name: name.to_string(), model, partition, bus, device, interrupt, reach: Reach::Partition }
}

/// Returns a system of four partitions. `linux` (two cores) has a disk and a network on one line and looks at events; `intruder` has an NVMe
/// controller, and an edu that reaches two regions of it; `office` has what is behind the root port; `quiet` has none.
#[must_use]
pub fn functions() -> System {
    let mut office = linux("office", &[3]);
    office.memory_bytes = 32 << 20;
    let mut first = linux("linux", &[1, 2]);
    first.device_events = DeviceEvents { look_ns: Some(10_000_000), are_faults: true };
    let mut quiet = native("quiet", &[4]);
    quiet.mode = InterruptMode::Direct;
    let partitions = vec![native("intruder", &[0]), first, office, quiet];
    let channels = vec![channel("news", 1, 2, PortKind::Sampling, 64), channel("alarm", 3, 1, PortKind::Sampling, 8)];
    let region = |start, bytes| Bank { start: PhysicalAddress(start), bytes };
    let regions = Reach::Regions(vec![region(0x4030_0000, 0x2000), region(0x4010_0000, 0x1000)]);
    let mut sample = system(partitions, channels);
    sample.board = Board { pci: Some(pci_host()), ..sample.board };
    sample.functions = vec![
        function("disk", 0, 1, (0, 1)),
        function("copier", 3, 0, (0, 2)).reaching(regions),
        function("net", 1, 1, (0, 5)),
        function("store", 2, 0, (0, 6)),
        function("far", 4, 2, (1, 0)),
    ];
    sample
}

impl PciFunction {
    /// Returns the function with another reach.
    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }
}
