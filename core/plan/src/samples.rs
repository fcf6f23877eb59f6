//! Small systems by hand, for tests of this crate, of the image builder and of the verifier (feature `samples`).
//!
//! The board has the shape of QEMU `virt`. Nothing here reads `boards/`: tests of the planner must not change when a
//! board file does.

use crate::model::{
    Board, BoardDevice, BoardInterrupt, Channel, Criticality, Doorbell, ElfSegment, GuestImage, HealthPolicy,
    InterruptMode, Limiter, Partition, Port, PortKind, System,
};
use crate::planner::MonitorImage;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::{GuestAddress, PhysicalAddress};

const RAM: u64 = 0x4000_0000;

/// Returns a board with eight cores and 8 GiB of RAM.
#[must_use]
pub fn board() -> Board {
    Board {
        name: String::from("sample"),
        ram: PhysicalAddress(RAM),
        ram_bytes: 8 << 30,
        load_address: PhysicalAddress(0x4020_0000),
        core_mpidr: (0..8).collect(),
        counter_hz: 62_500_000,
        gicd: PhysicalAddress(0x0800_0000),
        gicr: PhysicalAddress(0x080a_0000),
        spare_interrupts: (80..112).collect(),
        uart: PhysicalAddress(0x0900_0000),
        uart_interrupt: 33,
        devices: vec![
            device("rtc", 0x0901_0000, 0x1000, 34, "arm,pl031"),
            device("gpio", 0x0903_0000, 0x1000, 39, "arm,pl061"),
            device("wide", 0x0c00_0800, 0x3000, 40, "sample,wide"),
        ],
        qemu: None,
    }
}

fn device(name: &str, address: u64, bytes: u64, intid: u32, compatible: &str) -> BoardDevice {
    BoardDevice {
        name: name.to_string(),
        address: PhysicalAddress(address),
        bytes,
        interrupts: vec![BoardInterrupt { intid, edge: false }],
        dma: false,
        compatible: vec![compatible.to_string(), String::from("arm,primecell")],
        clock_hz: 24_000_000,
    }
}

/// Returns a monitor of a few kilobytes with a valid arm64 Image header.
#[must_use]
pub fn monitor() -> MonitorImage {
    let mut text: Vec<u8> = (0..10_000_u32).map(|index| (index % 251) as u8).collect();
    text.splice(0..64, arm64_header(0));
    MonitorImage { text, rodata: vec![0x5a; 5_000], load: PhysicalAddress(0x4020_0000) }
}

/// Returns the 64 bytes in front of an arm64 Image.
#[must_use]
pub fn arm64_header(image_bytes: u64) -> Vec<u8> {
    let mut header = vec![0; 64];
    header.splice(16..24, image_bytes.to_le_bytes());
    header.splice(56..60, *b"ARM\x64");
    header
}

/// Returns a system with partitions and channels.
#[must_use]
pub fn system(partitions: Vec<Partition>, channels: Vec<Channel>) -> System {
    System {
        name: String::from("sample"),
        board: board(),
        memory_bytes: 2 << 30,
        trace_records: 4096,
        trace_enabled: false,
        partitions,
        channels,
        source_hash: [7; 32],
    }
}

/// Returns a native partition with 4 MiB of RAM and a small ELF image.
#[must_use]
pub fn native(name: &str, cores: &[usize]) -> Partition {
    let code = ElfSegment { address: GuestAddress(RAM + 0x8_0000), bytes: vec![0x1f; 3000], memory_bytes: 0x4000 };
    let data = ElfSegment { address: GuestAddress(RAM + 0x9_0008), bytes: vec![0x2e; 777], memory_bytes: 0x2000 };
    Partition {
        name: name.to_string(),
        criticality: Criticality::High,
        trusted: true,
        cores: cores.to_vec(),
        memory_bytes: 4 << 20,
        guest_ram: GuestAddress(RAM),
        physical_ram: None,
        image: GuestImage::Elf { segments: vec![code, data], entry: GuestAddress(RAM + 0x8_0000) },
        arguments: format!("name={name}"),
        mode: InterruptMode::Mapped,
        devices: Vec::new(),
        virtual_uart: false,
        own_console: true,
        pci_channels: false,
        health: HealthPolicy::Stop,
        watchdog_ns: None,
        manages: false,
        overlay: None,
    }
}

/// Returns a Linux partition with 64 MiB of RAM, a kernel of 2.2 MB and an initial RAM file system.
#[must_use]
pub fn linux(name: &str, cores: &[usize]) -> Partition {
    let mut kernel = arm64_header(5 << 20);
    kernel.resize(2_200_000, 0x11);
    Partition {
        memory_bytes: 64 << 20,
        image: GuestImage::Linux { kernel, initrd: vec![0x70; 70_001], command_line: String::from("quiet panic=1") },
        arguments: String::new(),
        trusted: false,
        criticality: Criticality::BestEffort,
        virtual_uart: true,
        own_console: false,
        pci_channels: true,
        health: HealthPolicy::Restart { max: 3, within_ns: 10_000_000_000, backoff_ns: 10_000_000 },
        ..native(name, cores)
    }
}

/// Returns a channel with a limited doorbell.
#[must_use]
pub fn channel(name: &str, source: usize, destination: usize, kind: PortKind, message_bytes: u32) -> Channel {
    let port = |partition| Port { partition, name: name.to_string() };
    Channel {
        name: name.to_string(),
        source: port(source),
        destination: port(destination),
        kind,
        message_bytes,
        doorbell: Some(Doorbell { limiter: Some(Limiter { events: 10, period_ns: 100_000_000 }) }),
    }
}

/// Returns a system like the demo: `direct` control, a mapped native guest, a managing Linux with two cores, an
/// intruder.
#[must_use]
pub fn demo() -> System {
    let mut control = native("control", &[0]);
    control.mode = InterruptMode::Direct;
    let mut linux = linux("linux", &[2, 3]);
    linux.manages = true;
    linux.devices = vec![0];
    let mut intruder = native("intruder", &[4]);
    intruder.trusted = false;
    intruder.virtual_uart = true;
    let partitions = vec![control, native("rtos", &[1]), linux, intruder];
    let mut silent = channel("orders", 2, 0, PortKind::Queuing { depth: 16 }, 200);
    silent.doorbell = None;
    let channels = vec![
        channel("telemetry", 0, 2, PortKind::Sampling, 64),
        silent,
        channel("ticks", 1, 0, PortKind::Queuing { depth: 4 }, 4032),
        channel("noise", 3, 2, PortKind::Sampling, 8),
    ];
    system(partitions, channels)
}
