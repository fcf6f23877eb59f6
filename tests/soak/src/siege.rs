//! An arrangement with an attack, ready to run: description, computed bounds, image.

use crate::arrangement::{ARRANGEMENTS, Arrangement, Extras, Promise};
use bulkhead_description::board::{BUILT_IN, built_in_board};
use bulkhead_description::{Options, load_text_unchecked};
use bulkhead_plan::maps::{device_pages, guest_address};
use bulkhead_plan::model::{Board, BoardDevice, GuestImage, System};
use bulkhead_run::MachineOptions;
use bulkhead_timing::Assumptions;
use bulkhead_timing::bounds::{Bounds, bounds};
use std::fmt::Write;
use std::path::Path;

/// `-icount shift=4`: what the analysis counts an instruction with, and one tick of the board's counter.
const SHIFT: u8 = 4;
/// Steps of a seed.
pub const STEPS: u64 = 150;

/// What the attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Every attack of the list.
    List,
    /// Random steps, by these seeds in this order.
    Seeds {
        /// The first one; it says which arrangement.
        first: u64,
        /// How many; each next one is that of the same arrangement.
        count: u64,
    },
    /// It sleeps.
    Nothing,
}

impl Attack {
    fn arguments(self) -> String {
        match self {
            Self::List => format!("start_us={START_MICROSECONDS} watchdog=1"),
            Self::Seeds { first, count } => format!(
                "start_us={START_MICROSECONDS} seed={first} stride={} count={count} steps={STEPS} self=3",
                ARRANGEMENTS.len()
            ),
            Self::Nothing => String::new(),
        }
    }
}

/// When the victims begin: all have been prepared by then, whichever is more important.
const FIRST_TICK_MICROSECONDS: u64 = 200_000;
/// When the attacks begin.
const START_MICROSECONDS: u64 = 250_000;

/// Bounds of a victim, in ticks of the counter; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VictimBounds {
    /// From a tick's date to the end of its handler.
    pub tick: u64,
    /// From a tick's date to the end of its chain.
    pub chain: u64,
}

/// Names of the victims, in the order of the description.
pub const VICTIMS: [&str; 3] = ["tick", "wake", "woken"];
/// Name of the attacker.
pub const ATTACKER: &str = "attacker";
/// The attacker as a flat binary, in the directory of built guests.
const FLAT_ATTACKER: &str = "hostile-flat.img";
/// What the victims do from their first instruction to the end of a handler, in nanoseconds; `wake` handles three links of its
/// chain at once. No way through them is half as long.
const HANDLERS_NS: [u64; 3] = [10_000, 60_000, 20_000];

/// An arrangement ready to run.
#[derive(Clone, Debug)]
pub struct Siege {
    /// The arrangement.
    pub arrangement: Arrangement,
    /// What the attacker does.
    pub attack: Attack,
    /// The checked description.
    pub system: System,
    /// The boot image.
    pub image: Vec<u8>,
    /// Bounds of `tick` and `wake`.
    pub bounds: [VictimBounds; 2],
    /// The description, as somebody would write it.
    pub description: String,
}

impl Siege {
    /// Computes the bounds and builds the image, for a built-in board, or that of the environment, or the default one.
    ///
    /// # Errors
    /// With what the checker says, or what is missing.
    pub fn prepare(arrangement: &Arrangement, attack: Attack, board: Option<&str>) -> Result<Self, String> {
        let options = Options::from_environment(None);
        let name = board.or(options.board.as_deref()).unwrap_or(BUILT_IN.default);
        let board = built_in_board(name).ok_or_else(|| format!("there is no built-in board `{name}`"))?;
        let mut plan = Plan { arrangement, attack, board: &board, bounds: [VictimBounds::default(); 2], device: None };
        let unbounded = plan.load(&options)?;
        plan.device = own_device(&unbounded);
        if arrangement.promise != Promise::Counts {
            plan.bounds = victim_bounds(&unbounded, arrangement.promise)?;
        }
        let (system, bounds, description) = (plan.load(&options)?, plan.bounds, plan.description());
        let monitor =
            bulkhead_image::read_monitor(None, bulkhead_plan::part_of(&system)).map_err(|error| error.to_string())?;
        let image = bulkhead_image::build_image(&system, &monitor).map_err(|error| error.to_string())?.bytes;
        Ok(Self { arrangement: *arrangement, attack, system, image, bounds, description })
    }

    /// How the machine is started: on one clock, so that a run repeats.
    ///
    /// # Errors
    /// When QEMU does not have the board.
    pub fn options(&self) -> Result<MachineOptions, String> {
        let options = MachineOptions::for_system(&self.system, self.image.clone());
        let mut options = options.map_err(|error| error.to_string())?;
        options.icount_shift = Some(SHIFT);
        Ok(options)
    }
}

/// The arrangement of a seed.
#[must_use]
pub fn arrangement_of(seed: u64) -> &'static Arrangement {
    let place = seed % ARRANGEMENTS.len() as u64;
    ARRANGEMENTS.iter().zip(0..).find(|(_, number)| *number == place).map_or(&ARRANGEMENTS[0], |(found, _)| found)
}

/// What a description is made of.
#[derive(Clone, Copy)]
struct Plan<'a> {
    arrangement: &'a Arrangement,
    attack: Attack,
    board: &'a Board,
    bounds: [VictimBounds; 2],
    /// Address for the guest and INTID of the attacker's own device; not known before the description was resolved once.
    device: Option<(u64, u32)>,
}

impl Plan<'_> {
    fn load(&self, options: &Options) -> Result<System, String> {
        if extras(self.arrangement, self.attack).has_pci {
            self.write_flat_attacker(options)?;
        }
        let path = format!("soak-{}.toml", self.arrangement.name);
        let options = Options { board: Some(self.board.name.clone()), ..options.clone() };
        let loaded = load_text_unchecked(Path::new(&path), &self.description(), &options);
        loaded.map(|loaded| loaded.system).map_err(|report| report.to_text(false))
    }

    /// Writes the attacker as the flat binary that a partition with a PCI bus is started with, beside its ELF file: as it lies in
    /// memory, it begins with the header of a Linux Image.
    fn write_flat_attacker(&self, options: &Options) -> Result<(), String> {
        let as_elf = Arrangement { extras: Extras::default(), ..*self.arrangement };
        let system = Plan { arrangement: &as_elf, ..*self }.load(options)?;
        let attacker = system.partitions.iter().find(|partition| partition.name == ATTACKER);
        let Some(GuestImage::Elf { segments, entry }) = attacker.map(|attacker| &attacker.image) else {
            return Err("the attacker is no ELF file".to_owned());
        };
        let mut bytes: Vec<u8> = Vec::new();
        for segment in segments {
            let offset = segment.address.0.checked_sub(entry.0).and_then(|offset| usize::try_from(offset).ok());
            let offset = offset.ok_or("the attacker begins before its entry")?;
            bytes.resize(bytes.len().max(offset + segment.bytes.len()), 0);
            let place = bytes.get_mut(offset..offset + segment.bytes.len());
            place.ok_or("the attacker has no such place")?.copy_from_slice(&segment.bytes);
        }
        let guests = options.guests.as_ref().ok_or("there is no directory of built guests")?;
        // As a whole or not at all: another thread or process may do so now.
        bulkhead_files::write::whole(&guests.join(FLAT_ATTACKER), &bytes)
            .map_err(|error| format!("cannot write {FLAT_ATTACKER}: {}", error.cause))
    }

    /// The description, as somebody would write it.
    fn description(&self) -> String {
        let Self { arrangement, attack, board, bounds, device } = *self;
        let mut text = format!(
            "version = 1\nname = \"soak-{}\"\nboard = \"{}\"\nmemory = \"256 MiB\"\n\n[[schedule]]\ncore = 0\n{}\n",
            arrangement.name, board.name, arrangement.schedule
        );
        let both = [port("out", "source"), port("in", "destination")].join(", ");
        let ports = [
            String::new(),
            both.clone(),
            [both.clone(), port("foreign", "destination"), port("values", "source")].join(", "),
        ];
        let ticks = bounds.map(|bounds| format!("bound={} round={}", bounds.tick, bounds.chain));
        let arguments = [
            format!("role=tick start_us={FIRST_TICK_MICROSECONDS} {} {}", ticks[0], arrangement.tick_arguments),
            format!("role=wake start_us={FIRST_TICK_MICROSECONDS} period_us=2000 {}", ticks[1]),
            "role=woken".to_owned(),
        ];
        let victims = VICTIMS.iter().zip(arrangement.victims).zip(ports.iter().zip(arguments));
        for ((name, rest), (ports, arguments)) in victims {
            let lines = format!("{rest}\nports = [{ports}]");
            partition(&mut text, name, "[0]", "ticker", &arguments, &lines);
        }
        let image = if attack == Attack::Nothing { "hello" } else { "hostile" };
        let is_random = matches!(attack, Attack::Seeds { .. });
        let extras = extras(arrangement, attack);
        let mut attack_arguments = attack.arguments();
        let mut more = String::new();
        if extras.has_uart {
            more.push_str("console = \"pl011\"\n");
        }
        if let (Some(rest), Some(device)) = (extras.device, device_of(board)) {
            let _ = writeln!(more, "devices = [{{ name = \"{}\"{rest} }}]", device.name);
        }
        if let Some((address, intid)) = device {
            let _ = write!(attack_arguments, " device={address:#x} interrupt={intid}");
        }
        let cores: Vec<String> =
            (1..board.core_mpidr.len()).take(arrangement.own_cores as usize).map(|core| core.to_string()).collect();
        let cores = if cores.is_empty() { "[0]".to_owned() } else { format!("[{}]", cores.join(", ")) };
        let watchdog = match attack {
            Attack::Seeds { .. } => "watchdog = \"50 ms\"",
            // One attack is a storm of ten thousand doorbells, in turns with the victims perhaps.
            Attack::List => "watchdog = \"400 ms\"",
            Attack::Nothing => "",
        };
        let rest = format!(
            "{}\n{more}{watchdog}\nports = [{both}]\nhealth = {{ on_fault = \"restart\", max = 128, within = \"10 ms\", backoff = \"0 ms\" }}",
            arrangement.attacker
        );
        if extras.has_pci {
            let _ = write!(
                text,
                "\n[[partition]]\nname = \"{ATTACKER}\"\ncores = {cores}\nmemory = \"4 MiB\"\n\
             image = {{ kind = \"linux\", file = \"guest:{FLAT_ATTACKER}\", command_line = \"{attack_arguments}\" }}\n{rest}\n"
            );
        } else {
            partition(&mut text, ATTACKER, &cores, image, &attack_arguments, &rest);
        }
        for (name, source, destination, doorbell) in [
            ("there", "wake.out", "woken.in", "{ limit = 40, per = \"10 ms\" }"),
            ("back", "woken.out", "wake.in", "{ limit = 40, per = \"10 ms\" }"),
            ("rubbish", "attacker.out", "woken.foreign", "{ limit = 1, per = \"10 ms\" }"),
            (
                "values",
                "woken.values",
                "attacker.in",
                if is_random { "{ limit = 10, per = \"10 ms\" }" } else { "false" },
            ),
        ] {
            let _ = write!(
                text,
                "\n[[channel]]\nname = \"{name}\"\nsource = \"{source}\"\ndestination = \"{destination}\"\ndoorbell = {doorbell}\n"
            );
        }
        text
    }
}

/// The board's device whose interrupt, a level, a guest can raise: a clock (PL031), or a UART (PL011) that is not the monitor's.
fn device_of(board: &Board) -> Option<&BoardDevice> {
    let has = |name: &'static str| {
        move |device: &&BoardDevice| device.compatible.first().is_some_and(|compatible| compatible == name)
    };
    ["arm,pl031", "arm,pl011"].into_iter().find_map(|name| board.devices.iter().find(has(name)))
}

/// Address for the guest and INTID of the attacker's device, if it has one.
fn own_device(system: &System) -> Option<(u64, u32)> {
    let attacker = system.partitions.iter().find(|partition| partition.name == ATTACKER)?;
    let device = system.board.devices.get(*attacker.devices.first()?)?;
    let address = guest_address(&device_pages(system, attacker), device.address);
    device.interrupts.first().map(|interrupt| (address, interrupt.intid))
}

/// What the attacker has beside its doorbell.
fn extras(arrangement: &Arrangement, attack: Attack) -> Extras {
    if matches!(attack, Attack::Seeds { .. }) { arrangement.extras } else { Extras::default() }
}

fn port(name: &str, direction: &str) -> String {
    format!("{{ name = \"{name}\", direction = \"{direction}\", kind = \"sampling\", message_bytes = 64 }}")
}

fn partition(text: &mut String, name: &str, cores: &str, image: &str, arguments: &str, rest: &str) {
    // Writing to a text cannot fail.
    let _ = write!(
        text,
        "\n[[partition]]\nname = \"{name}\"\ncores = {cores}\nmemory = \"2 MiB\"\n\
         image = {{ kind = \"elf\", file = \"guest:{image}.elf\" }}\narguments = \"{}\"\n{rest}\n",
        arguments.trim()
    );
}

/// The bounds of the victims by the analysis that `check` prints.
fn victim_bounds(system: &System, promise: Promise) -> Result<[VictimBounds; 2], String> {
    let assumptions = Assumptions::default();
    let bounds = bounds(system, &assumptions);
    let [tick, wake, woken] = [0, 1, 2].map(|victim| {
        let handled = assumptions.instructions_ns(assumptions.costs.switch) + HANDLERS_NS[victim];
        chosen_ns(system, &bounds, VICTIMS[victim], promise).map(|chosen| chosen.saturating_add(handled))
    });
    let (tick, wake, woken) = (tick?, wake?, woken?);
    // A tick wakes the first one, its doorbell the other one, and the doorbell back the first one again; each bound is up to
    // the end of the handler, in which the next doorbell is rung.
    let chain = wake.saturating_add(woken).saturating_add(wake);
    let ticks = |ns: u64| u64::try_from(u128::from(ns) * u128::from(system.board.counter_hz) / 1_000_000_000);
    let ticks = |ns: u64| ticks(ns).map_err(|_| "a bound is too long".to_owned());
    Ok([VictimBounds { tick: ticks(tick)?, chain: 0 }, VictimBounds { tick: ticks(wake)?, chain: ticks(chain)? }])
}

/// From a wake-up of a victim until it is chosen; its guest's first instruction is a switch later.
fn chosen_ns(system: &System, bounds: &Bounds, victim: &str, promise: Promise) -> Result<u64, String> {
    let mut all = bounds.cores.iter().flat_map(|core| &core.vcpus);
    let found = all.find(|vcpu| {
        let partition = system.partitions.get(vcpu.vcpu.partition);
        partition.is_some_and(|partition| partition.name == victim)
    });
    let found = found.ok_or_else(|| format!("there is no bound for {victim}"))?;
    let bound = if promise == Promise::InHand { found.conforming_wait_ns } else { found.blackout_ns };
    bound.ok_or_else(|| format!("the analysis promises {victim} nothing"))
}
