//! Builds and runs the systems of the benchmark, and keeps what a run found for the rows that share it.

use crate::Failure;
use bulkhead_abi::Part;
use bulkhead_description::{Loaded, Options, load_text_unchecked};
use bulkhead_image::{Image, build_image};
use bulkhead_plan::model::System;
use bulkhead_plan::part_of;
use bulkhead_run::{Machine, MachineOptions};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The longest a run may take on a slow host; no run that works comes near it.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(900);

/// The descriptions, by file name below `bench/systems`, or below `systems` those that readers may copy.
const SYSTEMS: &[(&str, &str)] = &[
    ("control", include_str!("../systems/control.toml")),
    ("costs-attack", include_str!("../systems/costs-attack.toml")),
    ("costs-crowd", include_str!("../systems/costs-crowd.toml")),
    ("costs-entries", include_str!("../systems/costs-entries.toml")),
    ("costs-leave", include_str!("../systems/costs-leave.toml")),
    ("devices", include_str!("../systems/devices.toml")),
    ("doorbell", include_str!("../systems/doorbell.toml")),
    ("fronts", include_str!("../systems/fronts.toml")),
    ("linux", include_str!("../systems/linux.toml")),
    ("notify", include_str!("../systems/notify.toml")),
    ("paths", include_str!("../systems/paths.toml")),
    ("process", include_str!("../systems/process.toml")),
    ("rtos", include_str!("../systems/rtos.toml")),
    ("sgi", include_str!("../systems/sgi.toml")),
    ("shared", include_str!("../systems/shared.toml")),
    ("shared-doorbell", include_str!("../systems/shared-doorbell.toml")),
    ("sleeper", include_str!("../systems/sleeper.toml")),
    ("experiments/isolation-of-time", include_str!("../../systems/experiments/isolation-of-time.toml")),
    ("experiments/mips-2", include_str!("../../systems/experiments/mips-2.toml")),
    ("experiments/mips-4", include_str!("../../systems/experiments/mips-4.toml")),
    ("experiments/mips-6", include_str!("../../systems/experiments/mips-6.toml")),
    ("experiments/mips-budgeted", include_str!("../../systems/experiments/mips-budgeted.toml")),
    ("experiments/mips-storm", include_str!("../../systems/experiments/mips-storm.toml")),
    ("experiments/quest-fig4", include_str!("../../systems/experiments/quest-fig4.toml")),
    ("experiments/safeg-itask", include_str!("../../systems/experiments/safeg-itask.toml")),
    ("experiments/safeg-linux", include_str!("../../systems/experiments/safeg-linux.toml")),
    ("experiments/spumone-dispatch", include_str!("../../systems/experiments/spumone-dispatch.toml")),
    ("experiments/spumone-freertos", include_str!("../../systems/experiments/spumone-freertos.toml")),
    ("experiments/spumone-throughput", include_str!("../../systems/experiments/spumone-throughput.toml")),
    ("experiments/wire-alone", include_str!("../../systems/experiments/wire-alone.toml")),
];

/// Where the description of that name is in the repository.
fn file_of(name: &str) -> String {
    let folder = if name.starts_with("experiments/") { "systems" } else { "bench/systems" };
    format!("{folder}/{name}.toml")
}

/// A description with some of its text replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant<'a> {
    /// Name of the file without its ending.
    pub(crate) name: &'static str,
    /// (text, its replacement).
    pub(crate) changes: &'a [(&'a str, &'a str)],
}

/// Everything rows need to measure.
pub(crate) struct Lab {
    /// The smallest part of the monitor that is taken.
    least_part: Part,
    options: Options,
    cache: RefCell<HashMap<String, Rc<dyn Any>>>,
    runs: RefCell<Vec<String>>,
}

impl Lab {
    /// Finds monitor and guests.
    pub(crate) fn open() -> Result<Self, Failure> {
        let options = Options::from_environment(None);
        Ok(Self { least_part: Part::Own, options, cache: RefCell::default(), runs: RefCell::default() })
    }

    /// As [`Self::open`], with another board than the one that descriptions name.
    pub(crate) fn on(board: &str) -> Result<Self, Failure> {
        let mut lab = Self::open()?;
        lab.options.board = Some(board.to_owned());
        Ok(lab)
    }

    /// As [`Self::open`], with one part for all: what a guest does alone and beside others is compared, and not two parts.
    pub(crate) fn with_part(part: Part) -> Result<Self, Failure> {
        Ok(Self { least_part: part, ..Self::open()? })
    }

    /// Returns what `make` found when it was first called for this key.
    pub(crate) fn once<T: Any>(&self, key: &str, make: impl FnOnce() -> Result<T, Failure>) -> Result<Rc<T>, Failure> {
        let known = self.cache.borrow().get(key).cloned();
        if let Some(known) = known.and_then(|known| known.downcast::<T>().ok()) {
            return Ok(known);
        }
        let made = Rc::new(make()?);
        self.cache.borrow_mut().insert(key.to_owned(), made.clone());
        Ok(made)
    }

    /// Returns the commands of the runs since the last call.
    pub(crate) fn take_runs(&self) -> Vec<String> {
        self.runs.take()
    }

    /// Reads a built guest.
    pub(crate) fn guest(&self, file: &str) -> Result<Vec<u8>, Failure> {
        let path = self.guest_path(file);
        bulkhead_files::read::bytes(&path, bulkhead_files::read::GUEST).map_err(|cause| {
            Failure::host(format!("cannot read the guest {}: {cause}. Build it with `./x guests`.", path.display()))
        })
    }

    /// Returns where a built guest is.
    pub(crate) fn guest_path(&self, file: &str) -> PathBuf {
        self.options.guests.clone().unwrap_or_else(|| PathBuf::from("target/guests")).join(file)
    }

    /// Checks a description.
    pub(crate) fn system(&self, variant: Variant<'_>) -> Result<System, Failure> {
        Ok(self.load(variant)?.system)
    }

    /// Checks a description, and keeps what is behind its functions on this host.
    pub(crate) fn load(&self, variant: Variant<'_>) -> Result<Loaded, Failure> {
        let file = file_of(variant.name);
        let known = SYSTEMS.iter().find(|(name, _)| *name == variant.name);
        let (_, text) = known.ok_or_else(|| Failure::wrong(format!("there is no {file}")))?;
        let mut text = (*text).to_owned();
        for (from, to) in variant.changes {
            if !text.contains(from) {
                return Err(Failure::wrong(format!("{file} has no `{from}` to replace")));
            }
            text = text.replace(from, to);
        }
        load_text_unchecked(Path::new(&file), &text, &self.options).map_err(|report| {
            let message = report.to_text(false);
            if report.has_environment_errors() { Failure::host(message) } else { Failure::wrong(message) }
        })
    }

    /// Reads a part of the monitor: its ELF file.
    pub(crate) fn monitor(&self, part: Part) -> Result<Rc<Vec<u8>>, Failure> {
        self.once(&format!("monitor {}", part.name()), || {
            bulkhead_image::read_monitor(None, part).map_err(|error| Failure::host(error.to_string()))
        })
    }

    /// Builds the image of a system with the part of the monitor that it needs.
    pub(crate) fn image(&self, system: &System) -> Result<Image, Failure> {
        let needed = part_of(system);
        let part = if needed.is_served_by(self.least_part) { self.least_part } else { needed };
        build_image(system, &self.monitor(part)?).map_err(|error| Failure::wrong(error.to_string()))
    }

    /// Runs a system to its end, with options changed by the caller.
    pub(crate) fn run(
        &self,
        variant: Variant<'_>,
        change: impl FnOnce(&mut MachineOptions),
    ) -> Result<Machine, Failure> {
        finish(self.start(variant, change)?)
    }

    /// Starts a system, with options changed by the caller.
    pub(crate) fn start(
        &self,
        variant: Variant<'_>,
        change: impl FnOnce(&mut MachineOptions),
    ) -> Result<Machine, Failure> {
        let Loaded { system, host, .. } = self.load(variant)?;
        let image = self.image(&system)?;
        let mut options = MachineOptions::for_system(&system, image.bytes)?;
        options.give(&system, &host)?;
        change(&mut options);
        let mut built = format!("bulkhead build {} -o IMAGE", file_of(variant.name));
        // A disk and a port are this host's, for one run.
        let is_same = |(from, to): &&(&str, &str)| from != to && !matches!(*from, "DISK" | "PORT");
        for (from, to) in variant.changes.iter().filter(is_same) {
            built.push_str(&format!("\n  with `{to}` instead of `{from}`"));
        }
        self.start_options(&built, options)
    }

    /// Runs a guest on the bare board to its end.
    pub(crate) fn run_bare(&self, file: &str, change: impl FnOnce(&mut MachineOptions)) -> Result<Machine, Failure> {
        finish(self.start_bare(file, change)?)
    }

    /// Starts a guest on the bare board.
    pub(crate) fn start_bare(&self, file: &str, change: impl FnOnce(&mut MachineOptions)) -> Result<Machine, Failure> {
        let mut options = MachineOptions::bare(self.guest(file)?);
        change(&mut options);
        self.start_options(&format!("cp target/guests/{file} IMAGE"), options)
    }

    fn start_options(&self, preparation: &str, options: MachineOptions) -> Result<Machine, Failure> {
        let counted = if options.counting.is_some() { "\n  with the plugin tests/plugin/count.c" } else { "" };
        let mut command = options.shell_command("IMAGE", "RAM");
        if let Some(guests) = &self.options.guests {
            // As a reader has it, without the path of this machine.
            command = command.replace(&guests.display().to_string(), "target/guests");
        }
        for forward in options.functions.forwards() {
            command = command.replace(&format!("{}:{}", forward.address, forward.port), "127.0.0.1:PORT");
        }
        self.runs.borrow_mut().push(format!("{preparation}\n{command}{counted}"));
        Ok(Machine::start(options)?)
    }
}

/// Waits for the end of a run.
fn finish(mut machine: Machine) -> Result<Machine, Failure> {
    machine.wait_for_end(RUN_LIMIT)?;
    Ok(machine)
}

/// Returns the lines that the machine's own serial line printed.
pub(crate) fn serial_lines(machine: &Machine) -> Vec<String> {
    String::from_utf8_lossy(machine.serial_text()).lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Returns the lines of a partition.
pub(crate) fn partition_lines(machine: &Machine, partition: &str) -> Vec<String> {
    machine.lines(partition).map(|line| line.text.clone()).collect()
}
