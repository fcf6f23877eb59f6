//! A system under test: its description, its image, and the machine that runs it.

use crate::LIMIT;
use crate::assemble::Program;
use crate::joined::{ended, joined};
use crate::slot::Slot;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::StatusPage;
use bulkhead_description::host::HostSide;
use bulkhead_description::{Loaded, Options, Report, load_text, load_text_unchecked};
use bulkhead_plan::{Area, AreaKind, model};
use bulkhead_run::{CrashReport, ImagePlan, Line, Machine, MachineOptions, Observer};
use bulkhead_timing::Assumptions;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

/// A system whose image was built in memory.
#[derive(Clone, Debug)]
pub struct System {
    /// The checked description.
    pub model: model::System,
    /// The boot image; a test may damage it before the start.
    pub image: Vec<u8>,
    /// What lies where in physical memory.
    pub areas: Vec<Area>,
    /// The flash file with the image in it, where a payload is above the partitions.
    pub flash: Option<Vec<u8>>,
    /// What is behind its PCI functions on this host.
    pub host: Vec<HostSide>,
}

impl System {
    /// Builds the system of a description in `tests/system/systems`.
    ///
    /// # Panics
    /// With what the checker says when the description is refused.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::build(&systems().join(format!("{name}.toml")), &read(&systems().join(format!("{name}.toml"))))
    }

    /// Builds the system of one of the repository's own examples in `systems`, with some of its text replaced.
    ///
    /// # Panics
    /// When the text to replace is not there, or the description is refused.
    #[must_use]
    pub fn example(name: &str, replacements: &[(&str, &str)]) -> Self {
        let path = repository().join("systems").join(name).join("system.toml");
        Self::build(&path, &replaced(&read(&path), replacements))
    }

    /// Builds the named system with some of its text replaced.
    ///
    /// # Panics
    /// When the text to replace is not there, or the description is refused.
    #[must_use]
    pub fn changed(name: &str, replacements: &[(&str, &str)]) -> Self {
        let path = systems().join(format!("{name}.toml"));
        Self::build(&path, &replaced(&read(&path), replacements))
    }

    /// Builds the named system with programs of the test as the raw images `NAME.bin` that it mentions.
    ///
    /// # Panics
    /// When a file cannot be written, or the description is refused.
    #[must_use]
    pub fn with_programs(name: &str, replacements: &[(&str, &str)], programs: &[(&str, &Program)]) -> Self {
        let text = replaced(&read(&systems().join(format!("{name}.toml"))), replacements);
        Self::from_text_with_programs(name, &text, programs)
    }

    /// Builds the system of a description that a test wrote itself, with its programs as the raw images `NAME.bin`.
    ///
    /// # Panics
    /// When a file cannot be written, or the description is refused.
    #[must_use]
    pub fn from_text_with_programs(name: &str, text: &str, programs: &[(&str, &Program)]) -> Self {
        let directory = Scratch::with(programs);
        Self::build(&directory.0.join(format!("{name}.toml")), text)
    }

    /// As [`Self::from_text_with_programs`], for a test of what happens where nobody can promise anything about time.
    ///
    /// # Panics
    /// When a file cannot be written, or the description is refused for another reason.
    #[must_use]
    pub fn unjudged(name: &str, text: &str, programs: &[(&str, &Program)]) -> Self {
        let directory = Scratch::with(programs);
        let path = directory.0.join(format!("{name}.toml"));
        Self::of_loaded(&path, load_text_unchecked(&path, text, &Options::from_environment(None)))
    }

    /// Builds the system of a description that a test wrote itself.
    ///
    /// # Panics
    /// When the description is refused.
    #[must_use]
    pub fn from_text(name: &str, text: &str) -> Self {
        Self::build(&systems().join(format!("{name}.toml")), text)
    }

    /// Builds the system of a description that a test wrote itself for one board, whatever `BULKHEAD_BOARD` says: a built-in one, or the
    /// path of a board file.
    ///
    /// # Panics
    /// As [`Self::from_text_with_programs`].
    #[must_use]
    pub fn on_board(board: &str, name: &str, text: &str, programs: &[(&str, &Program)]) -> Self {
        let directory = Scratch::with(programs);
        let path = directory.0.join(format!("{name}.toml"));
        let options = Options { board: Some(board.to_owned()), ..Options::from_environment(None) };
        Self::of_loaded(&path, load_text(&path, text, &options, &Assumptions::default()))
    }

    fn build(path: &Path, text: &str) -> Self {
        Self::of_loaded(path, load_text(path, text, &Options::from_environment(None), &Assumptions::default()))
    }

    fn of_loaded(path: &Path, loaded: Result<Loaded, Report>) -> Self {
        let loaded = loaded.unwrap_or_else(|report| {
            let advice =
                "If a guest is missing, run `./x build`. If the test is about time that nobody promises: `unjudged`.";
            panic!("{}\n{advice}", report.to_text(false))
        });
        let is_hybrid = loaded.system.secure.as_ref().is_some_and(|secure| secure.hybrid().is_some());
        let built = if is_hybrid {
            let built = bulkhead_image::build_flash(&loaded.system, None);
            built.map(|built| (built.below.expect("partitions below"), Some(built.flash.bytes)))
        } else {
            bulkhead_image::build_image(&loaded.system, &monitor(&loaded.system)).map(|image| (image, None))
        };
        let (image, flash) = built.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let areas = image.plan.areas();
        Self { model: loaded.system, image: image.bytes, areas, flash, host: loaded.host }
    }

    /// Builds the image again, of a description that a test has changed.
    ///
    /// # Panics
    /// When it cannot be built.
    pub fn rebuild(&mut self) {
        let image = bulkhead_image::build_image(&self.model, &monitor(&self.model));
        let image = image.unwrap_or_else(|error| panic!("{error}"));
        (self.areas, self.image) = (image.plan.areas(), image.bytes);
    }

    /// Starts the system.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start(&self) -> Running {
        self.start_with(|_| ())
    }

    /// Starts the system on one clock for all cores: one instruction takes 2^`shift` virtual nanoseconds and, with one
    /// core, runs repeat exactly.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start_exact(&self, shift: u8) -> Running {
        self.start_with(|options| options.icount_shift = Some(shift))
    }

    /// Starts the system with options changed by the test.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start_with(&self, change: impl FnOnce(&mut MachineOptions)) -> Running {
        let options = match &self.flash {
            Some(flash) => MachineOptions::for_worlds(&self.model, flash.clone(), Some(&self.image)),
            None => MachineOptions::for_system(&self.model, self.image.clone()),
        };
        let mut options = options.unwrap_or_else(|error| panic!("{error}"));
        options.give(&self.model, &self.host).unwrap_or_else(|error| panic!("{error}"));
        change(&mut options);
        Running::start(options)
    }

    /// Returns an area of physical memory by its use.
    ///
    /// # Panics
    /// When the system has none of that use.
    #[must_use]
    pub fn area(&self, kind: AreaKind) -> Area {
        let found = self.areas.iter().find(|area| area.kind == kind);
        *found.unwrap_or_else(|| panic!("the system has no area {kind:?}"))
    }

    /// Returns the plan in the image.
    ///
    /// # Panics
    /// When the image holds none.
    #[must_use]
    pub fn plan(&self) -> ImagePlan {
        ImagePlan::from_bytes(&self.image).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A running machine and its place on this host.
pub struct Running {
    machine: Machine,
    _slot: Slot,
}

impl Running {
    /// Starts a machine when there is a place for it.
    ///
    /// # Panics
    /// When QEMU cannot be started.
    #[must_use]
    pub fn start(options: MachineOptions) -> Self {
        let slot = Slot::take();
        let machine = Machine::start(options).unwrap_or_else(|error| panic!("{error}"));
        Self { machine, _slot: slot }
    }

    /// Returns the live view of RAM.
    ///
    /// # Panics
    /// When the machine runs without a monitor.
    #[must_use]
    pub fn watch(&self) -> &Observer {
        self.machine.observer().expect("the machine runs a monitor")
    }

    /// Returns the index of a partition.
    ///
    /// # Panics
    /// When there is none of that name.
    #[must_use]
    pub fn index(&self, partition: &str) -> usize {
        let found = self.watch().plan().partition_named(partition);
        found.unwrap_or_else(|| panic!("the system has no partition {partition}"))
    }

    /// Reads a partition's status page.
    #[must_use]
    pub fn status(&self, partition: &str) -> StatusPage {
        self.watch().status(self.index(partition))
    }

    /// Reads a counter, summed over a partition's cores.
    #[must_use]
    pub fn counter(&self, partition: &str, counter: Counter) -> u64 {
        self.watch().partition_counter(self.index(partition), counter)
    }

    /// Waits until a partition's status page satisfies a condition, and returns the page.
    ///
    /// # Panics
    /// When that does not happen within [`LIMIT`].
    pub fn wait_for_status(
        &mut self,
        partition: &str,
        what: &str,
        condition: impl Fn(&StatusPage) -> bool,
    ) -> StatusPage {
        let index = self.index(partition);
        let found = self.machine.wait_for(&format!("{partition}: {what}"), LIMIT, |view| {
            Some(view.observer?.status(index)).filter(&condition)
        });
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a partition is in a state, and returns its status page.
    ///
    /// # Panics
    /// When that does not happen within [`LIMIT`].
    pub fn wait_for_state(&mut self, partition: &str, state: u32) -> StatusPage {
        self.wait_for_status(partition, bulkhead_run::diagnosis::state_name(state), |status| status.state == state)
    }

    /// Waits for a whole line of a partition that contains `pattern`, and returns its text.
    ///
    /// # Panics
    /// When that does not happen within [`LIMIT`].
    pub fn line(&mut self, partition: &str, pattern: &str) -> String {
        self.machine.wait_for_line(partition, pattern, LIMIT).unwrap_or_else(|error| panic!("{error}")).text
    }

    /// As [`Self::line`], for a prompt, which is not a whole line.
    ///
    /// # Panics
    /// When it is not printed within [`LIMIT`].
    pub fn prompt(&mut self, partition: &str, pattern: &str) {
        self.machine.wait_for_prompt(partition, pattern, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until every partition is off or stopped, or the machine is powered off.
    ///
    /// # Panics
    /// When that does not happen within [`LIMIT`].
    pub fn end(&mut self) -> bulkhead_run::End {
        self.machine.wait_for_end(LIMIT).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the lines that a partition printed so far.
    #[must_use]
    pub fn texts(&self, partition: &str) -> Vec<String> {
        joined(self.lines(partition))
    }

    /// Returns those of them that it has ended.
    #[must_use]
    pub fn ended_texts(&self, partition: &str) -> Vec<String> {
        ended(self.lines(partition)).0
    }

    /// Returns all lines of a partition so far.
    pub fn lines(&self, partition: &str) -> impl Iterator<Item = &Line> {
        self.machine.lines(partition)
    }

    /// Copies physical memory.
    ///
    /// # Panics
    /// When the range is not in RAM.
    #[must_use]
    pub fn copy(&self, address: PhysicalAddress, bytes: u64) -> Vec<u8> {
        let mut copy = vec![0; usize::try_from(bytes).expect("it fits this host")];
        assert!(self.machine.ram().copy_at(address, &mut copy), "{bytes} bytes at {address} are in RAM");
        copy
    }

    /// Fails the test if a byte of the image in RAM is not what it was: monitor text, read-only data, plans, tables and
    /// pristine guest images are never written.
    ///
    /// # Panics
    /// With the first address that differs.
    pub fn assert_image_intact(&self, system: &System) {
        let header = &self.watch().plan().header;
        let start = header.image_start;
        let now = self.copy(start, header.image_bytes);
        let differs = now.iter().zip(&system.image).position(|(now, built)| now != built);
        if let Some(offset) = differs {
            let address = start.0 + offset as u64;
            let area = system.areas.iter().find(|area| (area.address.0..area.end()).contains(&address));
            panic!("the image in RAM changed at {address:#x}, in {:?}", area.map(|area| area.kind));
        }
    }

    /// Fails the test if a monitor left a crash record.
    ///
    /// # Panics
    /// With the record.
    pub fn assert_no_crash(&self) {
        if let Some(report) = CrashReport::find(self.watch()) {
            panic!("{report}");
        }
    }
}

impl Deref for Running {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

/// Returns the bytes of a built guest.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn guest(name: &str) -> Vec<u8> {
    let guests = Options::from_environment(None).guests;
    let path = guests.unwrap_or_else(|| panic!("there are no built guests; run `./x build`")).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `./x build`", path.display()))
}

fn monitor(system: &bulkhead_plan::model::System) -> Vec<u8> {
    bulkhead_image::read_monitor(None, bulkhead_plan::part_of(system))
        .unwrap_or_else(|error| panic!("{error}; run `./x build`"))
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn systems() -> PathBuf {
    package().join("systems")
}

fn repository() -> &'static Path {
    package().ancestors().nth(2).expect("the package is two levels down")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn replaced(text: &str, replacements: &[(&str, &str)]) -> String {
    replacements.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "the description does not contain {old:?}");
        text.replace(old, new)
    })
}

/// A directory for the raw images of one system; gone when the image is built.
struct Scratch(PathBuf);

impl Scratch {
    fn with(programs: &[(&str, &Program)]) -> Self {
        let directory = Self::create();
        for (file, program) in programs {
            let path = directory.0.join(format!("{file}.bin"));
            std::fs::write(&path, program.bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        directory
    }

    fn create() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bulkhead-system-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is a directory of a few bytes among the temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP-19, QV-38: a system of a test is judged as a user's is; its budgets have to fit.
    #[test]
    #[should_panic(expected = "BH0801")]
    fn a_system_whose_time_does_not_suffice_is_refused() {
        let text = read(&systems().join("../../../tool/timing/tests/bad/late-server.toml"));
        let text = text.replace("guest:tiny.bin", "late.bin");
        let _ = System::from_text_with_programs("late", &text, &[("late", Program::new().barrier())]);
    }
}
