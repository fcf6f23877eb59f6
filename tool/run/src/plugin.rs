//! Plugins of the emulator: one counts instructions per core and tells those of the monitor from the guests', one makes
//! guests' sleeps exact under instruction counting (`tests/plugin/sleep.c` says what is wrong without it).
//!
//! Each is one C file (`tests/plugin`), compiled with the host's `cc` when it is first needed. The counting one writes its
//! counts into a memory file that this process maps, so they can be read at any time at no cost. Counts are of
//! instructions *begun*; with `-icount` on one core they repeat exactly. They are not cycles.

use crate::error::RunError;
use crate::image_file::ImagePlan;
use crate::os::Mapping;
use crate::qemu::MachineOptions;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::RamBank;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

const COUNT: &str = include_str!("../../../tests/plugin/count.c");
const SLEEP: &str = include_str!("../../../tests/plugin/sleep.c");
const API: &str = include_str!("../../../tests/plugin/qemu_plugin_api.h");
/// First word of the counts file; see `struct head` in the plugin.
const MAGIC: u64 = u64::from_le_bytes(*b"BHICNT04");
const HEAD_WORDS: usize = 8;
/// Words per core; see `struct block` in the plugin.
const BLOCK_WORDS: usize = 56;
const RANGE_WORD: usize = 4;
/// First word of what passages a core made.
const PASSAGE_WORD: usize = RANGE_WORD + 2 * MAX_RANGES;
/// Most ranges of a kind.
const MAX_RANGES: usize = 8;

/// A named range of physical addresses.
pub type NamedRange = (String, Range<PhysicalAddress>);

/// What to count.
#[derive(Clone, Debug, Default)]
pub struct CountingOptions {
    /// Instructions fetched from these ranges are counted apart, exactly. At most 8.
    pub ranges: Vec<NamedRange>,
    /// From its first instruction in one of these ranges on, a core's "since" counts run. At most 8.
    pub after: Vec<Range<PhysicalAddress>>,
    /// Instructions fetched from these ranges belong to passages ([`Passages`]) and not to switches. At most 8.
    pub apart: Vec<Range<PhysicalAddress>>,
    /// First instructions of a guest's handlers: what they wait for on their core is counted ([`Passages::longest_reaction`]). At most 8.
    pub handlers: Vec<PhysicalAddress>,
    /// What a passage is counted up to: the last instruction in one of these ranges ([`Passages::milestones`]). At most 8.
    pub milestones: Vec<Range<PhysicalAddress>>,
    /// Count everything else exactly too, at several times the cost. Otherwise a block of instructions that a fault
    /// leaves early counts in full.
    pub exact: bool,
}

impl CountingOptions {
    /// Counts the monitor's instructions apart, and since each core's guest was first entered.
    #[must_use]
    pub fn for_monitor(plan: &ImagePlan) -> Self {
        let header = &plan.header;
        let text = header.text..PhysicalAddress(header.text.0.saturating_add(header.text_bytes));
        let regions = plan.partitions.iter().flat_map(|partition| partition.ram());
        let after =
            regions.map(|ram| ram.physical..PhysicalAddress(ram.physical.0.saturating_add(ram.bytes))).collect();
        Self { ranges: vec![("monitor".to_owned(), text)], after, ..Self::default() }
    }
}

/// The file that the plugin writes its counts into.
pub(crate) struct CountsFile {
    file: File,
    mapping: Mapping,
    names: Vec<String>,
    cores: usize,
}

impl CountsFile {
    /// Makes an empty file for a machine with this many cores.
    pub(crate) fn create(options: &CountingOptions, cores: usize) -> Result<Self, RunError> {
        let CountingOptions { ranges, after, apart, handlers, milestones, .. } = options;
        let counts = [ranges.len(), after.len(), apart.len(), handlers.len(), milestones.len()];
        if counts.iter().any(|count| *count > MAX_RANGES) {
            return Err(RunError::Plugin(format!("the counting plugin takes at most {MAX_RANGES} ranges of a kind")));
        }
        let bytes = (HEAD_WORDS + cores * BLOCK_WORDS) * 8;
        let create = || -> std::io::Result<(File, Mapping)> {
            let file = File::from(rustix::fs::memfd_create("bulkhead-counts", MemfdFlags::CLOEXEC)?);
            file.set_len(bytes as u64)?;
            let mapping = Mapping::new(&file, bytes)?;
            Ok((file, mapping))
        };
        let (file, mapping) = create().map_err(RunError::host("cannot make the file for instruction counts"))?;
        let names = options.ranges.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self { file, mapping, names, cores })
    }

    /// Returns the descriptor that QEMU must inherit.
    pub(crate) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Returns the argument of `-plugin`.
    pub(crate) fn argument(&self, library: &Path, options: &CountingOptions, banks: &[RamBank]) -> String {
        let mut argument = library.to_string_lossy().replace(',', ",,");
        argument.push_str(&format!(",counts=/proc/self/fd/{}", self.descriptor()));
        for bank in banks {
            argument.push_str(&format!(",bank={:#x}-{:#x}", bank.start.0, bank.start.0.saturating_add(bank.bytes)));
        }
        for (_, range) in &options.ranges {
            argument.push_str(&format!(",range={}-{}", range.start, range.end));
        }
        for range in &options.after {
            argument.push_str(&format!(",after={}-{}", range.start, range.end));
        }
        for range in &options.apart {
            argument.push_str(&format!(",apart={:#x}-{:#x}", range.start.0, range.end.0));
        }
        for handler in &options.handlers {
            argument.push_str(&format!(",handler={handler}"));
        }
        for range in &options.milestones {
            argument.push_str(&format!(",milestone={}-{}", range.start, range.end));
        }
        if options.exact {
            argument.push_str(",exact=on");
        }
        argument
    }

    /// Reads the counts as they are now.
    pub(crate) fn read(&self) -> Result<Counts, RunError> {
        let word = |index: usize| self.mapping.load_u64(index * 8).unwrap_or(0);
        if word(0) != MAGIC || word(1) != self.cores as u64 || word(3) != BLOCK_WORDS as u64 {
            return Err(RunError::Plugin("the counting plugin has not written its counts file".to_owned()));
        }
        let cores = (0..self.cores).map(|core| self.read_core(HEAD_WORDS + core * BLOCK_WORDS)).collect();
        Ok(Counts { cores, ram_found: word(4) == 1 })
    }

    fn read_core(&self, first: usize) -> CoreCounts {
        let word = |index: usize| self.mapping.load_u64((first + index) * 8).unwrap_or(0);
        let ranges = self.names.iter().enumerate().map(|(index, name)| RangeCount {
            name: name.clone(),
            total: word(RANGE_WORD + index),
            since: word(RANGE_WORD + MAX_RANGES + index),
        });
        let passage = |index: usize| word(PASSAGE_WORD + index);
        let passages = Passages {
            count: passage(0),
            longest: passage(1),
            longest_start: PhysicalAddress(passage(2)),
            longest_apart: passage(3),
            switches: passage(4),
            longest_switch: passage(5),
            enter: (passage(6), passage(7)),
            leave: (passage(8), passage(9)),
            longest_interrupt: passage(10),
            shortest_chained: passage(11),
            longest_after: passage(12),
            reactions: passage(13),
            longest_reaction: passage(14),
            milestones: passage(15),
            milestone_sum: passage(16),
            under_way: passage(17),
        };
        CoreCounts {
            all: word(0),
            entered: word(1) != 0,
            all_since: word(2),
            waits: word(3),
            ranges: ranges.collect(),
            passages,
        }
    }
}

/// Instructions per core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// One entry per core of the machine, by core number.
    pub cores: Vec<CoreCounts>,
    /// The plugin found the machine's RAM, so the ranges mean something.
    pub ram_found: bool,
}

/// Instructions of one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreCounts {
    /// All instructions.
    pub all: u64,
    /// It has executed something in one of the `after` ranges.
    pub entered: bool,
    /// All instructions since then.
    pub all_since: u64,
    /// How often WFI was executed outside the named ranges.
    pub waits: u64,
    /// Instructions in each named range.
    pub ranges: Vec<RangeCount>,
    /// How long it was in the counted ranges at a time.
    pub passages: Passages,
}

/// How long a core was in the counted ranges (the monitor) at a time, since it entered one of the `after` ranges (a guest).
///
/// A passage ends with an ERET, with a WFI and where ISR_EL1 is read: interrupts that arrive meanwhile wait for its end. A
/// passage after an interrupt or a guest's WFI that ends in another guest is a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passages {
    /// How many.
    pub count: u64,
    /// Instructions of the longest one.
    pub longest: u64,
    /// Where it began: in the vectors, that says why.
    pub longest_start: PhysicalAddress,
    /// Most instructions of one call of an `apart` range.
    pub longest_apart: u64,
    /// Switches.
    pub switches: u64,
    /// Instructions of the longest switch, without those in `apart` ranges.
    pub longest_switch: u64,
    /// Least and most instructions of a switch up to its first read of the counter, the instant from which the next
    /// vCPU is charged.
    pub enter: (u64, u64),
    /// Least and most instructions from there on.
    pub leave: (u64, u64),
    /// Instructions of the longest passage that took an interrupt and returned to the same guest.
    pub longest_interrupt: u64,
    /// Instructions of the shortest passage that took an interrupt and was followed by the next one before the guest began an
    /// instruction, as when a guest is loaded whose own timer has fired; 0 = there was none.
    pub shortest_chained: u64,
    /// Most instructions of a switch that reads the counter more than once, from the last time on.
    pub longest_after: u64,
    /// How often one of [`CountingOptions::handlers`] was entered.
    pub reactions: u64,
    /// Most instructions of the monitor in front of it, since the last instruction of any guest. An interrupt that arrived before the
    /// monitor last looked for some waited longer: then from the look before.
    pub longest_reaction: u64,
    /// Passages that executed something in one of [`CountingOptions::milestones`].
    pub milestones: u64,
    /// Instructions up to the last one there, from their first on, of all of them together.
    pub milestone_sum: u64,
    /// Instructions so far of the one that is under way and is not among the others; 0 = none is.
    pub under_way: u64,
}

impl CoreCounts {
    /// Returns the count of a named range.
    #[must_use]
    pub fn range(&self, name: &str) -> Option<&RangeCount> {
        self.ranges.iter().find(|range| range.name == name)
    }
}

/// Instructions in a named range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeCount {
    /// Its name.
    pub name: String,
    /// Instructions since the machine started.
    pub total: u64,
    /// Instructions since the core entered one of the `after` ranges.
    pub since: u64,
}

/// Compiles the plugin that counts, unless that was done before, and returns its path.
pub fn library() -> Result<PathBuf, RunError> {
    library_of("count", COUNT)
}

/// A machine that counts instructions is to repeat: its sleeps are made exact, and it starts when the control connection is
/// set up, whose traffic would disturb them. Returns whether it waits for that.
pub(crate) fn make_exact(options: &mut MachineOptions) -> Result<bool, RunError> {
    if options.icount_shift.is_none() {
        return Ok(false);
    }
    if options.exact_sleeps {
        options.plugins.push(library_of("sleep", SLEEP)?.to_string_lossy().replace(',', ",,"));
    }
    let is_held = !options.paused && options.gdb_port.is_none();
    options.paused |= is_held;
    Ok(is_held)
}

/// Compiles a plugin from its source, unless that was done before, and returns its path.
///
/// The library lies beside the running program, under a name that changes with its source; a directory for temporary
/// files takes its place when that one cannot be written.
///
/// # Errors
/// When there is no compiler, or it refuses the source.
pub fn library_of(plugin: &str, source: &str) -> Result<PathBuf, RunError> {
    let name = format!("bulkhead-{plugin}-{:08x}.so", crc32c::crc32c(format!("{API}{source}").as_bytes()));
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_path_buf()));
    let directories: Vec<_> = beside.into_iter().chain([std::env::temp_dir()]).collect();
    if let Some(built) = directories.iter().map(|directory| directory.join(&name)).find(|path| owned_by_us(path)) {
        return Ok(built);
    }
    let mut problem = String::new();
    for directory in directories {
        match compile(&directory, &name, source) {
            Ok(path) => return Ok(path),
            Err(error) => problem = error,
        }
    }
    Err(RunError::Plugin(format!(
        "the emulator plugin `{plugin}` could not be compiled: {problem} It needs a C compiler for this host; on Debian \
         or Ubuntu install one with `apt-get install gcc libc6-dev`."
    )))
}

/// States whether a library was put there by this user: code that QEMU loads is taken from nobody else.
fn owned_by_us(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file() && facts.uid() == user)
}

fn compile(directory: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let work = crate::ram::PrivateDirectory::create(directory)
        .map_err(|error| format!("{}: {error}.", directory.display()))?;
    let source = work.path().join("plugin.c");
    let write = |file: &str, text: &str| std::fs::write(work.path().join(file), text);
    write("qemu_plugin_api.h", API).and_then(|()| write("plugin.c", text)).map_err(|error| format!("{error}."))?;
    let built = work.path().join("plugin.so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&built, &source])
        .output()
        .map_err(|error| format!("`cc`: {error}."))?;
    if !output.status.success() {
        return Err(format!("`cc` said: {}", String::from_utf8_lossy(&output.stderr)));
    }
    // A rename is atomic: another process finds no library or a whole one.
    let path = directory.join(name);
    std::fs::rename(&built, &path).map_err(|error| format!("{}: {error}.", path.display()))?;
    Ok(path)
}
