//! Small systems by hand, for tests of this crate, of the image builder and of the verifier (feature `samples`).
//!
//! The board has the shape of QEMU `virt`. Nothing here reads `boards/`: tests of the planner must not change when a
//! board file does.

mod functions;
mod virtio;

use crate::model::{
    Bank, Below, Board, BoardDevice, BoardInterrupt, BoardUart, BudgetRule, Channel, CoreType, Criticality,
    DeviceEvents, Doorbell, ElfSegment, Gate, GuestImage, HealthPolicy, Heartbeat, Hybrid, InterruptMode, Limiter,
    OnEmpty, OnInterrupt, Partition, Payload, PayloadKind, Port, PortKind, Reading, Reserved, Route, RouteRule,
    Schedule, ScheduleKind, Secure, SecureDevice, SecureFacts, SecureGpio, Server, ServerReference, System,
    TableWindow, World, WorldBudget, WorldChannel, WorldDirection, WorldHealth, WorldLevel, WorldServer,
};
use crate::planner::MonitorImage;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::{GuestAddress, Part, PhysicalAddress};
pub use functions::{function, functions, pci_host};
pub use virtio::{virtio, virtio_device};

const RAM: u64 = 0x4000_0000;

/// Returns a board with eight cores and 8 GiB of RAM.
#[must_use]
pub fn board() -> Board {
    Board {
        name: String::from("sample"),
        banks: vec![Bank { start: PhysicalAddress(RAM), bytes: 8 << 30 }],
        reserved: Vec::new(),
        load_address: PhysicalAddress(0x4020_0000),
        physical_address_bits: 40,
        core_mpidr: (0..8).collect(),
        core_types: vec![CoreType::named("cortex-a53"); 8],
        counter_hz: 62_500_000,
        gicd: PhysicalAddress(0x0800_0000),
        gicr: (0..8).map(|core| PhysicalAddress(0x080a_0000 + core * 0x2_0000)).collect(),
        security_states: 1,
        shared_interrupts: 224,
        spare_interrupts: (80..112).collect(),
        uart: Some(BoardUart { address: PhysicalAddress(0x0900_0000), intid: 33 }),
        devices: vec![
            device("rtc", 0x0901_0000, 0x1000, 34, "arm,pl031"),
            device("gpio", 0x0903_0000, 0x1000, 39, "arm,pl061"),
            device("wide", 0x0c00_0800, 0x3000, 40, "sample,wide"),
        ],
        pci: None,
        secure: None,
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
    text.splice(64..72, Part::Shared.mark());
    MonitorImage { text, rodata: vec![0x5a; 5_000], part: Part::Shared }
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
        schedules: Vec::new(),
        functions: Vec::new(),
        virtio: Vec::new(),
        secure: None,
        source_hash: [7; 32],
    }
}

/// Where payloads of the secure world are linked (`core/world`, which knows no samples).
const PAYLOAD: u64 = 0x0e02_0000;

/// Returns a system with a payload in the secure world and a raw image below it, run by two servers that are not in the order of their
/// priorities.
#[must_use]
pub fn two_worlds() -> System {
    let device =
        |name: &str, address, intid| SecureDevice { name: name.to_string(), address: PhysicalAddress(address), intid };
    let bank = |start, bytes| Bank { start: PhysicalAddress(start), bytes };
    let facts = SecureFacts {
        ram: bank(0x0e00_0000, 16 << 20),
        flash: bank(0, 64 << 20),
        timer: 29,
        uart: device("secure-uart", 0x0904_0000, Some(60)),
        gpio: Some(SecureGpio { device: device("secure-gpio", 0x090b_0000, None), power_off: 0, restart: 1 }),
    };
    let server = |name: &str, priority, budget, interrupts: &[u32]| WorldServer {
        name: name.to_string(),
        priority,
        budget,
        interrupts: interrupts.to_vec(),
        voluntary_return: !interrupts.is_empty(),
        latency: None,
    };
    let budget = WorldBudget { budget_ns: 2_000_000, period_ns: 30_000_000 };
    let image = GuestImage::Raw { bytes: vec![0x5a; 0x1800], load: GuestAddress(RAM + 0x20_0040) };
    let secure = Secure {
        payload: Payload {
            kind: PayloadKind::Elf,
            elf: executable(PAYLOAD, 5, 0x900),
            memory_bytes: 1 << 20,
            arguments: String::from("sample"),
        },
        core: 0,
        devices: vec![0, 1],
        interrupts: vec![29, 60],
        tasks: Vec::new(),
        handlers: Vec::new(),
        below: Below::Image(World {
            name: String::from("below"),
            memory: bank(RAM, 16 << 20),
            image,
            level: WorldLevel::El1,
            console_clock_hz: 24_000_000,
        }),
        servers: vec![server("rest", 1, None, &[]), server("urgent", 9, Some(budget), &[27, 33])],
        windows: None,
        wish: None,
        channels: vec![
            WorldChannel {
                name: String::from("telemetry"),
                direction: WorldDirection::ToWorld,
                blocks: 10,
                block_bytes: 32,
                partition: None,
                pool_bytes: 0x1000,
                address: PhysicalAddress(RAM + (16 << 20)),
                interrupt: Some(50),
                poll_ns: None,
            },
            WorldChannel {
                name: String::from("answers"),
                direction: WorldDirection::ToPayload,
                blocks: 5,
                block_bytes: 8,
                partition: None,
                pool_bytes: 0x1000,
                address: PhysicalAddress(RAM + (16 << 20) + 0x1000),
                interrupt: None,
                poll_ns: Some(2_000_000),
            },
        ],
        health: Some(WorldHealth {
            heartbeat: Some(Heartbeat { period_ns: 100_000_000, missed: 3 }),
            stuck_samples: 500,
            policy: HealthPolicy::Restart { max: 4, within_ns: 60_000_000_000, backoff_ns: 20_000_000 },
        }),
    };
    let system = system(Vec::new(), Vec::new());
    System { board: Board { secure: Some(facts), security_states: 2, ..board() }, secure: Some(secure), ..system }
}

/// Returns a system of four cores with a payload above a partition on its core, one with two cores, and one with direct interrupts.
#[must_use]
pub fn hybrid() -> System {
    let mut sample = two_worlds();
    let below = Hybrid { name: String::from("world"), memory: Bank { start: PhysicalAddress(RAM), bytes: 64 << 20 } };
    sample.secure = sample.secure.map(|secure| Secure {
        below: Below::Partitions(below),
        interrupts: vec![29, 60],
        servers: secure.servers.into_iter().filter(|server| server.interrupts.is_empty()).collect(),
        channels: Vec::new(),
        health: None,
        ..secure
    });
    let mut drive = native("drive", &[3]);
    drive.mode = InterruptMode::Direct;
    sample.partitions = vec![native("control", &[0]), native("office", &[1, 2]), drive];
    sample.memory_bytes = 64 << 20;
    sample
}

/// Returns the same with consoles: `drive`, which has its interrupts to itself, gets what is typed from the core of `office`.
#[must_use]
pub fn hybrid_with_consoles() -> System {
    let mut sample = hybrid();
    sample.partitions.iter_mut().for_each(|partition| partition.virtual_uart = true);
    sample
}

/// Returns the same with channels between the payload and two partitions: `telemetry` to the first one, which has an interrupt for it, and
/// `answers` of the second one, which sees it as a PCI function.
#[must_use]
pub fn hybrid_with_channels() -> System {
    let mut sample = hybrid();
    let channels = two_worlds().secure.map(|secure| secure.channels).unwrap_or_default();
    let to = |(channel, partition): (WorldChannel, usize)| WorldChannel {
        partition: Some(partition),
        address: PhysicalAddress(0),
        interrupt: channel.interrupt.and(sample.board.spare_interrupts.first().copied()),
        ..channel
    };
    let channels = channels.into_iter().zip(0..).map(to).collect();
    sample.secure = sample.secure.map(|secure| Secure { channels, ..secure });
    if let Some(office) = sample.partitions.get_mut(1) {
        office.pci_channels = true;
    }
    sample
}

/// Returns an ELF file of a secure monitor that does nothing.
#[must_use]
pub fn secure_monitor() -> Vec<u8> {
    executable(0, 5, 0x700)
}

/// An ELF file for AArch64 with one segment of these flags, entered at its start.
fn executable(address: u64, flags: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 183, 0, 1, 0, 0, 0];
    bytes.extend([address, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([0_u16, 0, 64, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    bytes.extend([1, flags].iter().flat_map(|word: &u32| word.to_le_bytes()));
    let bytes_in_file = size as u64;
    bytes
        .extend([120, address, address, bytes_in_file, bytes_in_file, 4096].iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(120 + size, 0xa5);
    bytes
}

/// One past the last address of 44 bits.
pub const FAR_END: u64 = 1 << 44;

/// Returns a system on a board with physical addresses of 44 bits and two banks of RAM, the second of which ends at the last of them,
/// with something reserved in each. Partition `near` is in the first bank; `far` has the last 4 MiB of the second.
#[must_use]
pub fn far() -> System {
    let bank = |start, bytes| Bank { start: PhysicalAddress(start), bytes };
    let reserved = |name: &str, start, bytes| Reserved { name: name.to_string(), range: bank(start, bytes) };
    let mut far = native("far", &[1]);
    far.physical_ram = Some(PhysicalAddress(FAR_END - (4 << 20)));
    let board = Board {
        banks: vec![bank(RAM, 1 << 30), bank(FAR_END - (1 << 30), 1 << 30)],
        reserved: vec![
            reserved("firmware", RAM + (64 << 20), 2 << 20),
            reserved("other processors", FAR_END - (8 << 20), 4 << 20),
        ],
        physical_address_bits: 44,
        core_types: vec![CoreType::named("cortex-a72"); 8],
        ..board()
    };
    System { board, ..system(vec![native("near", &[0]), far], vec![channel("news", 0, 1, PortKind::Sampling, 64)]) }
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
        device_routes: Vec::new(),
        route: Route::default(),
        doorbell_limit: None,
        servers: Vec::new(),
        preemptible: true,
        tasks: Vec::new(),
        virtual_uart: false,
        own_console: true,
        pci_channels: false,
        health: HealthPolicy::Stop,
        watchdog_ns: None,
        manages: false,
        sgi_filtered: false,
        manage_limit: Limiter::OF_MANAGERS,
        device_tree_address: None,
        overlay: None,
        device_events: DeviceEvents::default(),
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
        polls_ns: None,
    }
}

/// Limits all doorbells to a partition together, in the measure of [`channel`], and none of them by itself (CH-36).
pub fn limit_together(system: &mut System, receiver: usize) {
    let limiter = Limiter { events: 10, period_ns: 100_000_000 };
    if let Some(partition) = system.partitions.get_mut(receiver) {
        partition.doorbell_limit = Some(limiter);
    }
    let to_it = system.channels.iter_mut().filter(|channel| channel.destination.partition == receiver);
    to_it.filter_map(|channel| channel.doorbell.as_mut()).for_each(|doorbell| doorbell.limiter = None);
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
    linux.device_routes = vec![Route::default()];
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

/// Returns a sporadic server of vCPU 0 that is always open and stops when its budget is used up.
#[must_use]
pub fn sporadic(priority: u8, budget_ns: u64, period_ns: u64) -> Server {
    let minimum_ns = if budget_ns >= 40_000 { 20_000 } else { budget_ns / 2 };
    let rule =
        BudgetRule::Sporadic { budget_ns, period_ns, minimum_ns, chunks: 8, dispatch_anchor: false, lag_clamp: true };
    Server { vcpu: 0, priority, rule, gate: Gate::Always, payer: None, on_empty: OnEmpty::Stop, least_charge_ns: 0 }
}

/// Returns a server of vCPU 0 without a limit.
#[must_use]
pub fn unlimited(priority: u8) -> Server {
    let (gate, on_empty) = (Gate::Always, OnEmpty::Stop);
    Server { vcpu: 0, priority, rule: BudgetRule::Unlimited, gate, payer: None, on_empty, least_charge_ns: 0 }
}

/// Returns three partitions: `control` on core 0, `wide` with core 1 and half of core 0, `other` with the rest of core 0.
#[must_use]
pub fn siblings() -> System {
    let mut siblings = shared();
    let mut wide = native("wide", &[1, 0]);
    wide.servers = vec![Server { vcpu: 1, ..sporadic(5, 5_000_000, 10_000_000) }];
    siblings.partitions.insert(1, wide);
    siblings
}

/// Returns two native partitions on core 0 with fixed priorities: `control` has 2 ms of every 10 ms at priority 1, and
/// `other` has the rest at priority 9.
#[must_use]
pub fn shared() -> System {
    let mut control = native("control", &[0]);
    control.servers = vec![sporadic(1, 2_000_000, 10_000_000)];
    let mut other = native("other", &[0]);
    other.trusted = false;
    other.servers = vec![unlimited(9)];
    let mut shared = system(vec![control, other], Vec::new());
    shared.schedules = vec![Schedule {
        board_core: 0,
        kind: ScheduleKind::FixedPriority { quanta: Vec::new() },
        eager_floating_point: false,
    }];
    shared
}

/// Returns a system with one shared core of each kind and one that is not shared: core 0 by fixed priorities with every
/// budget rule, core 1 under a time table, core 2 in turns, core 3 for `alone`.
#[must_use]
pub fn shared_cores() -> System {
    let client = ServerReference { partition: 0, server: 0 };
    let mut control = native("control", &[0]);
    control.manages = true;
    control.devices = vec![0];
    let limit = Some(Limiter { events: 10, period_ns: 100_000_000 });
    control.device_routes = vec![Route { rule: RouteRule::Defer, limit, ..Route::default() }];
    control.servers = vec![sporadic(1, 2_000_000, 10_000_000), interrupts(0, 1_000_000, 20_000_000)];
    let mut driver = native("driver", &[0]);
    let clients = vec![client, ServerReference { partition: 2, server: 0 }];
    let share = BudgetRule::Pibs { share: (1, 20), minimum_ns: 20_000, clients, published: false };
    driver.servers = vec![Server { rule: share, ..unlimited(0) }];
    let mut other = native("other", &[0]);
    other.trusted = false;
    other.virtual_uart = true;
    let deferrable = BudgetRule::Deferrable { budget_ns: 6_000_000, period_ns: 30_000_000 };
    let helper = Gate::Interrupt { voluntary_return: false };
    other.servers = vec![
        Server { rule: deferrable, on_empty: OnEmpty::Background(40), least_charge_ns: 100_000, ..unlimited(9) },
        Server { gate: helper, payer: Some(client), ..unlimited(20) },
    ];
    let mut table = native("table", &[1]);
    let polling = BudgetRule::Polling { budget_ns: 1_000_000, period_ns: 50_000_000 };
    table.servers = vec![
        Server { gate: Gate::Window, ..unlimited(5) },
        Server { rule: polling, gate: Gate::Never, ..unlimited(3) },
    ];
    let mut plain = native("plain", &[1]);
    plain.virtual_uart = true;
    plain.servers =
        vec![Server { gate: Gate::Window, on_empty: OnEmpty::Notify, ..sporadic(5, 4_000_000, 50_000_000) }];
    let mut first = native("first", &[2]);
    first.preemptible = false;
    first.virtual_uart = true;
    let mut second = native("second", &[2]);
    second.virtual_uart = true;
    second.route = Route { rule: RouteRule::Preempt, ..Route::default() };
    let partitions = vec![control, driver, other, table, plain, first, second, native("alone", &[3])];
    let channels = vec![
        channel("report", 0, 2, PortKind::Sampling, 64),
        channel("orders", 4, 5, PortKind::Sampling, 64),
        channel("asks", 2, 1, PortKind::Sampling, 64),
    ];
    let mut shared = system(partitions, channels);
    shared.schedules = one_of_each_kind();
    shared
}

fn one_of_each_kind() -> Vec<Schedule> {
    let windows = vec![
        TableWindow { partition: 3, offset_ns: 0, length_ns: 20_000_000 },
        TableWindow { partition: 4, offset_ns: 20_000_000, length_ns: 30_000_000 },
    ];
    let schedule = |board_core, kind| Schedule { board_core, kind, eager_floating_point: board_core == 1 };
    vec![
        schedule(0, ScheduleKind::FixedPriority { quanta: vec![(9, 10_000_000)] }),
        schedule(1, ScheduleKind::Cyclic { major_ns: 100_000_000, windows }),
        schedule(
            2,
            ScheduleKind::RoundRobin {
                quantum_ns: 30_000_000,
                on_interrupt: OnInterrupt::Recycle,
                reading: Reading::Latched,
                ring_moves: true,
            },
        ),
    ]
}

/// Returns a server of vCPU 0 for its interrupts.
#[must_use]
pub fn interrupts(priority: u8, budget_ns: u64, period_ns: u64) -> Server {
    let rule = BudgetRule::Sporadic {
        budget_ns,
        period_ns,
        minimum_ns: 20_000,
        chunks: 4,
        dispatch_anchor: true,
        lag_clamp: true,
    };
    Server { rule, gate: Gate::Interrupt { voluntary_return: true }, ..unlimited(priority) }
}
