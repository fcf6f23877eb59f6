//! Two worlds under test: a flash file made of programs of the test, and the machine that leaves reset from it.

mod cores;

use crate::LIMIT;
use crate::joined::{ended, joined};
use crate::slot::Slot;
use crate::system::guest;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::RamBank;
use bulkhead_abi::status::StatusPage;
use bulkhead_flash::{NonSecure, Parts, World, device_tree};
use bulkhead_plan::model::QemuUart;
use bulkhead_run::{Boot, Machine, MachineOptions, QemuFacts};
use bulkhead_world::context::{Context, EntryLevel};
use bulkhead_world::cores::CoresPlan;
use bulkhead_world::flash::{ChannelPlan, ServerKind, ServerPlan, UrgentPlan, WindowsPlan, WishPlan};
use bulkhead_world::health::HealthPlan;
pub use cores::{Kicked, LONGEST_WATCH, flash_of_cores, kicked_world};
use cores::{devices_of_four, four_cores};
use std::ops::{Deref, DerefMut};

/// QEMU's machine with EL3, and how a run of it repeats exactly.
const MACHINE: &str = "virt,gic-version=3,secure=on,virtualization=on";
/// Name of the payload's console in a test; the other world's is [`OTHER`].
pub const SECURE: &str = "secure";
/// Name of the console of the non-secure world.
pub const OTHER: &str = "linux";
/// First address and bytes of the machine's memory, all of it the non-secure world's.
pub const MEMORY: (u64, u64) = (0x4000_0000, 512 << 20);
/// Interrupt controller (distributor; redistributor of core 0), secure UART, secure GPIO: registers that a payload reaches.
pub(crate) const DEVICES: [(u64, u64); 4] =
    [(0x0800_0000, 0x1_0000), (0x080a_0000, 0x2_0000), (0x0904_0000, 0x1000), (0x090b_0000, 0x1000)];
/// Ticks of the system counter in a second.
pub(crate) const COUNTER_HZ: u64 = 62_500_000;
/// CNTPS, and the secure UART.
const INTERRUPTS: [u32; 2] = [29, 40];

/// One server: the world runs when the payload has nothing else to do.
pub(crate) const BACKGROUND: [ServerPlan; 1] =
    [ServerPlan { kind: ServerKind::Background as u32, priority: 1, budget_ticks: 0, period: 0, voluntary: 0 }];

/// A flash file of the reference payload and another world.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn flash(payload: &[u8], non_secure: Option<NonSecure<'_>>) -> Vec<u8> {
    bulkhead_flash::build(&parts(&secure_monitor(), payload, non_secure)).unwrap_or_else(|error| panic!("{error}"))
}

/// A flash file of this payload with these arguments and no other world.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn alone(file: &str, arguments: &str) -> Vec<u8> {
    let (monitor, file) = (secure_monitor(), guest(file));
    let parts = Parts { arguments, ..parts(&monitor, &file, None) };
    bulkhead_flash::build(&parts).unwrap_or_else(|error| panic!("{error}"))
}

/// A payload and what the plan says of it.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// Name of the built ELF file.
    pub file: &'a str,
    /// Tasks that run the other world.
    pub servers: &'a [ServerPlan],
    /// Urgent interrupts.
    pub urgent: &'a [UrgentPlan],
    /// How the other world is watched.
    pub health: HealthPlan,
    /// Its arguments.
    pub arguments: &'a str,
}

/// A flash file of a payload with servers, and another world.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn flash_of(payload: Payload<'_>, non_secure: NonSecure<'_>) -> Vec<u8> {
    let Payload { file, servers, urgent, health, arguments } = payload;
    let (monitor, file) = (secure_monitor(), guest(file));
    let parts = Parts { servers, urgent, health, arguments, ..parts(&monitor, &file, Some(non_secure)) };
    bulkhead_flash::build(&parts).unwrap_or_else(|error| panic!("{error}"))
}

/// A flash file of a payload with servers that keeps so many records of who runs, and another world.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn flash_with_records(payload: Payload<'_>, trace_records: u64, non_secure: NonSecure<'_>) -> Vec<u8> {
    flash_with_windows(payload, trace_records, (WindowsPlan::NONE, WishPlan::NONE), non_secure)
}

/// The same with windows for some of its servers, and the page of a wish.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn flash_with_windows(
    payload: Payload<'_>,
    trace_records: u64,
    (windows, wish): (WindowsPlan, WishPlan),
    non_secure: NonSecure<'_>,
) -> Vec<u8> {
    let Payload { file, servers, urgent, health, arguments } = payload;
    let (monitor, file) = (secure_monitor(), guest(file));
    let base = parts(&monitor, &file, Some(non_secure));
    let parts = Parts { servers, urgent, health, arguments, trace_records, windows, wish, ..base };
    bulkhead_flash::build(&parts).unwrap_or_else(|error| panic!("{error}"))
}

/// A flash file of a payload with channels, and another world.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn flash_with_channels(payload: Payload<'_>, channels: &[ChannelPlan], non_secure: NonSecure<'_>) -> Vec<u8> {
    let Payload { file, servers, urgent, health, arguments } = payload;
    let (monitor, file) = (secure_monitor(), guest(file));
    let parts = Parts { servers, urgent, health, arguments, channels, ..parts(&monitor, &file, Some(non_secure)) };
    bulkhead_flash::build(&parts).unwrap_or_else(|error| panic!("{error}"))
}

/// What a flash file of this machine is made of.
pub(crate) fn parts<'a>(monitor: &'a [u8], payload: &'a [u8], non_secure: Option<NonSecure<'a>>) -> Parts<'a> {
    Parts {
        monitor,
        payload,
        counter_hz: COUNTER_HZ,
        devices: &DEVICES,
        interrupt_controller: (DEVICES[0].0, DEVICES[1].0),
        interrupts: &INTERRUPTS,
        servers: &BACKGROUND,
        urgent: &[],
        cores: CoresPlan::NONE,
        channels: &[],
        health: HealthPlan::nobody(),
        arguments: "",
        trace_records: 0,
        windows: WindowsPlan::NONE,
        wish: WishPlan::NONE,
        partitions: &[],
        non_secure,
    }
}

/// The same of the configuration `multi`.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn secure_monitor_of_cores() -> Vec<u8> {
    guest("../secure-monitor/multi.elf")
}

/// The secure monitor's ELF file.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn secure_monitor() -> Vec<u8> {
    guest("../secure-monitor/dual.elf")
}

/// Where the image of Linux, its device tree and its first file system are.
const LINUX: u64 = MEMORY.0 + (2 << 20);
const DEVICE_TREE: u64 = MEMORY.0 + (128 << 20);
const FILE_SYSTEM: u64 = DEVICE_TREE + (2 << 20);

/// Programs of a system with Linux below the payload.
#[derive(Clone, Copy, Debug)]
pub struct WithLinux<'a> {
    /// ELF file of the secure monitor.
    pub monitor: &'a [u8],
    /// ELF file of the payload.
    pub payload: &'a [u8],
    /// The kernel.
    pub image: &'a [u8],
    /// Its first file system.
    pub file_system: &'a [u8],
    /// Where it begins.
    pub level: EntryLevel,
    /// What its init is told besides the console.
    pub arguments: &'a str,
    /// How it is watched.
    pub health: HealthPlan,
}

/// The first context of a Linux, and how many segments it has.
#[must_use]
pub fn first_of_linux(level: EntryLevel) -> (Context, usize) {
    (Context::non_secure(LINUX, DEVICE_TREE, level), 3)
}

impl WithLinux<'_> {
    /// The flash file.
    ///
    /// # Errors
    /// When a part does not fit.
    pub fn flash(&self) -> Result<Vec<u8>, bulkhead_flash::Error> {
        self.flash_in(MEMORY)
    }

    /// The same in this memory of the machine's.
    ///
    /// # Errors
    /// As [`Self::flash`].
    pub fn flash_in(&self, memory: (u64, u64)) -> Result<Vec<u8>, bulkhead_flash::Error> {
        self.flash_told(memory, "")
    }

    /// The same with arguments for the payload.
    ///
    /// # Errors
    /// As [`Self::flash`].
    pub fn flash_told(&self, memory: (u64, u64), arguments: &str) -> Result<Vec<u8>, bulkhead_flash::Error> {
        self.flash_on(memory, DEVICES, CoresPlan::NONE, (arguments, 0))
    }

    /// The same of a payload that keeps this number of records of who runs.
    ///
    /// # Errors
    /// As [`Self::flash`].
    pub fn flash_recorded(&self, arguments: &str, trace_records: u64) -> Result<Vec<u8>, bulkhead_flash::Error> {
        self.flash_on(MEMORY, DEVICES, CoresPlan::NONE, (arguments, trace_records))
    }

    /// The same with four cores, under a secure monitor of several. A kernel that begins at EL2 leaves it, and calls from EL1.
    ///
    /// # Errors
    /// As [`Self::flash`].
    pub fn flash_of_four_cores(&self) -> Result<Vec<u8>, bulkhead_flash::Error> {
        self.flash_on(MEMORY, devices_of_four(), four_cores(1), ("", 0))
    }

    fn flash_on(
        &self,
        memory: (u64, u64),
        devices: [(u64, u64); 4],
        cores: CoresPlan,
        (arguments, trace_records): (&str, u64),
    ) -> Result<Vec<u8>, bulkhead_flash::Error> {
        let tree = device_tree(&World {
            memory,
            cores: cores.count.max(1),
            interrupt_controller: [devices[0], devices[1]],
            console: (0x0900_0000, 33, 24_000_000),
            initrd: Some((FILE_SYSTEM, self.file_system.len() as u64)),
            channels: &[],
            latency: &[],
            wish: 0,
            command_line: &format!("console=ttyAMA0 quiet panic=1 {}", self.arguments),
        });
        let segments = vec![(LINUX, self.image), (DEVICE_TREE, tree.as_slice()), (FILE_SYSTEM, self.file_system)];
        let world = NonSecure { memory, segments, entry: LINUX, argument: DEVICE_TREE, level: self.level };
        let all = parts(self.monitor, self.payload, Some(world));
        bulkhead_flash::build(&Parts { devices: &devices, cores, health: self.health, arguments, trace_records, ..all })
    }
}

/// The numbers of the payload's last report: how many of its ticks came in itself, how late at least and at most, the same of those in the
/// other world, and calls.
#[must_use]
pub fn report(lines: &[String]) -> Vec<u64> {
    let line = lines.iter().rev().find(|line| line.starts_with("rtos: ticks")).map_or("", String::as_str);
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// The machine that leaves reset from a flash file.
#[must_use]
pub fn options(flash: Vec<u8>) -> MachineOptions {
    let bare = MachineOptions::bare(flash);
    let uart = |name: &str| QemuUart { name: name.to_owned(), is_monitors: false };
    let facts = QemuFacts { machine: MACHINE.to_owned(), uarts: vec![uart(OTHER), uart(SECURE)], ..bare.facts.clone() };
    let banks = vec![RamBank { start: PhysicalAddress(MEMORY.0), bytes: MEMORY.1 }];
    MachineOptions { boot: Boot::Flash, facts, banks, ..bare }
}

/// A machine with two worlds.
pub struct Worlds {
    machine: Machine,
    _slot: Slot,
}

impl Worlds {
    /// Starts a machine with this flash, on one exact clock: an instruction takes 16 ns.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start(flash: Vec<u8>) -> Self {
        Self::start_with(flash, |options| options.icount_shift = Some(4))
    }

    /// Starts a machine with options changed by the test.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start_with(flash: Vec<u8>, change: impl FnOnce(&mut MachineOptions)) -> Self {
        let mut options = options(flash);
        change(&mut options);
        Self::of(options)
    }

    /// Starts a machine with these options.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn of(options: MachineOptions) -> Self {
        let slot = Slot::take();
        let machine = Machine::start(options).unwrap_or_else(|error| panic!("{error}"));
        Self { machine, _slot: slot }
    }

    /// Waits until a partition below the payload is in a state.
    ///
    /// # Panics
    /// When it does not come there.
    pub fn wait_for_state(&mut self, partition: usize, state: u32) -> StatusPage {
        let found = self.machine.wait_for("a state of a partition", LIMIT, |view| {
            view.observer.map(|observer| observer.status(partition)).filter(|status| status.state == state)
        });
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits for a whole line of a console that contains `pattern`, and returns its text.
    ///
    /// # Panics
    /// When that does not happen within [`LIMIT`].
    pub fn line(&mut self, console: &str, pattern: &str) -> String {
        self.machine.wait_for_line(console, pattern, LIMIT).unwrap_or_else(|error| panic!("{error}")).text
    }

    /// Waits until the machine is off, and returns what the payload printed.
    ///
    /// # Panics
    /// When that does not happen within [`LIMIT`].
    pub fn end(&mut self) -> Vec<String> {
        self.machine.wait_for_end(LIMIT).unwrap_or_else(|error| panic!("{error}"));
        self.texts(SECURE)
    }

    /// The lines that a console printed so far.
    #[must_use]
    pub fn texts(&self, console: &str) -> Vec<String> {
        joined(self.machine.lines(console))
    }

    /// Those of them that it has ended.
    #[must_use]
    pub fn ended_texts(&self, console: &str) -> Vec<String> {
        ended(self.machine.lines(console)).0
    }
}

impl Deref for Worlds {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl DerefMut for Worlds {
    fn deref_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}
