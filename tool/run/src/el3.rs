//! What is executed at EL3, seen by an emulator plugin (`tests/plugin/el3.c` says how): each direction of each branch, and the length of
//! each way through it.
//!
//! [`Watch`] reads the program, has a machine watched from its start on, and says at any time what its cores executed there.

use crate::error::RunError;
use crate::plugin;
use crate::qemu::MachineOptions;
use bulkhead_el3::ways::PARKED;
use bulkhead_el3::{Program, branches, promises};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const SOURCE: &str = include_str!("../../../tests/plugin/el3.c");
const MAGIC: u64 = u64::from_le_bytes(*b"BEL31001");
// Words of the results; see `struct head` and `struct block` in the plugin.
const HEAD_WORDS: usize = 4 + TEXT_BYTES / 8;
const TEXT_BYTES: usize = 4096;
const MAX_BRANCHES: usize = 16;
const MAX_WAYS: usize = 32;
const BRANCH_WORDS: usize = 3;
const WAY_WORDS: usize = 5;
const BLOCK_WORDS: usize = MAX_BRANCHES * BRANCH_WORDS + MAX_WAYS * WAY_WORDS + 8;

/// A conditional branch in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// How often it was executed.
    pub executed: u64,
    /// How often the next instruction was its target.
    pub taken: u64,
    /// How often it was the one behind it.
    pub not_taken: u64,
}

/// A way through EL3 in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Address of its first instruction.
    pub start: u64,
    /// Its branches by their number among all, in order, and whether each was taken. Of the boot with its loops the last twelve.
    pub decisions: Vec<(usize, bool)>,
    /// How often it was gone.
    pub count: u64,
    /// Instructions of the shortest time.
    pub shortest: u64,
    /// And of the longest.
    pub longest: u64,
}

/// What a core executed at EL3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Each branch, by address.
    pub branches: Vec<Directions>,
    /// Each way.
    pub passages: Vec<Passage>,
    /// What has no place among them: 0.
    pub elsewhere: u64,
}

/// The program at EL3 with what is watched of it.
pub struct Watch {
    program: Program,
    branches: Vec<branches::Found>,
}

impl Watch {
    /// Watches a program.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(elf: &[u8]) -> Result<Self, String> {
        let program = Program::read(elf)?;
        let branches = branches::found(&program)?;
        Ok(Self { program, branches })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its conditional branches, in the order of [`Core::branches`].
    #[must_use]
    pub fn branches(&self) -> &[branches::Found] {
        &self.branches
    }

    /// Has a machine watched that starts with these options. They have to count instructions.
    ///
    /// # Errors
    /// When the host has no compiler for the plugin, or no place for the results.
    pub fn of(&self, options: &mut MachineOptions) -> Result<Results, RunError> {
        let results = Results::create().map_err(RunError::host("cannot make a file for what is counted at EL3"))?;
        let mut argument = plugin::library_of("el3", SOURCE)?.to_string_lossy().replace(',', ",,");
        argument.push_str(&format!(",results={}", results.path.display().to_string().replace(',', ",,")));
        argument.push_str(&format!(",text={}", self.program.text().len()));
        for branch in &self.branches {
            argument.push_str(&format!(",branch={:#x}-{:#x}", branch.address, branch.target));
        }
        options.plugins.push(argument);
        Ok(results)
    }

    /// What the cores of a machine executed by now.
    ///
    /// # Errors
    /// When the plugin wrote nothing, or QEMU executed other words than the program's.
    pub fn read(&self, results: &Results) -> Result<Vec<Core>, String> {
        let words = results.words().map_err(|error| format!("what was counted: {error}"))?;
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        if word(0) != MAGIC || word(2) != BLOCK_WORDS as u64 || word(3) != 1 {
            return Err("the plugin did not find the flash, or wrote no results".to_owned());
        }
        for (address, expected) in self.program.instructions() {
            let half = word(4 + address as usize / 8) >> (8 * (address % 8)) & 0xffff_ffff;
            if half != 0 && half != u64::from(expected) {
                return Err(format!("QEMU fetched {half:#010x} at {address:#x} and not {expected:#010x}"));
            }
        }
        (0..word(1) as usize).map(|core| self.core(&words, HEAD_WORDS + core * BLOCK_WORDS)).collect()
    }

    fn core(&self, words: &[u64], first: usize) -> Result<Core, String> {
        let word = |index: usize| words.get(first + index).copied().unwrap_or(0);
        let branch = |index: usize| Directions {
            executed: word(BRANCH_WORDS * index),
            taken: word(BRANCH_WORDS * index + 1),
            not_taken: word(BRANCH_WORDS * index + 2),
        };
        let ways = MAX_BRANCHES * BRANCH_WORDS;
        let passage = |index: usize| {
            let at = |offset: usize| word(ways + WAY_WORDS * index + offset);
            let decisions = (0..12).rev().map(|place| at(1) >> (5 * place) & 0x1f).filter(|one| *one != 0);
            let decisions = decisions.map(|one| ((one as usize - 1) / 2, one % 2 == 0)).collect();
            Passage { start: at(0), decisions, count: at(2), shortest: at(3), longest: at(4) }
        };
        Ok(Core {
            branches: (0..self.branches.len()).map(branch).collect(),
            passages: (0..MAX_WAYS).map(passage).filter(|passage| passage.count != 0).collect(),
            elsewhere: word(ways + MAX_WAYS * WAY_WORDS),
        })
    }

    /// The passages of all cores by the names of [`promises::PATHS`]; the boot itself is not among them.
    ///
    /// # Errors
    /// When a way was gone that the program does not have, or it has others than the design, or some were not counted by their way.
    pub fn paths(&self, cores: &[Core]) -> Result<BTreeMap<&'static str, Passage>, String> {
        let elsewhere: u64 = cores.iter().map(|core| core.elsewhere).sum();
        if elsewhere != 0 {
            return Err(format!("{elsewhere} times something was executed at EL3 that has no place among its ways"));
        }
        let known = promises::known(&self.program).map_err(|wrong| wrong.join("\n"))?;
        let number = |address: u64| self.branches.iter().position(|branch| branch.address == address);
        let mut paths: BTreeMap<&'static str, Passage> = BTreeMap::new();
        // A core that has no world meanwhile comes out elsewhere, after a time of its own.
        let parks = |passage: &&Passage| {
            let waits = |number: usize| self.branches.get(number).is_some_and(|branch| branch.label == PARKED);
            passage.decisions.iter().any(|(number, _)| waits(*number))
        };
        let passages = cores.iter().flat_map(|core| &core.passages);
        for passage in passages.filter(|passage| passage.start != 0 && !parks(passage)) {
            let matches = |one: &&promises::Known| {
                let decisions = one.way.decisions.iter().map(|(at, taken)| (number(*at), *taken));
                one.path.slot == passage.start
                    && decisions.eq(passage.decisions.iter().map(|(number, taken)| (Some(*number), *taken)))
            };
            let path = known.iter().find(matches).ok_or_else(|| format!("no path is {passage:?}"))?.path;
            let known = paths.entry(path.name).or_insert_with(|| Passage { count: 0, ..passage.clone() });
            known.count += passage.count;
            known.shortest = known.shortest.min(passage.shortest);
            known.longest = known.longest.max(passage.longest);
        }
        Ok(paths)
    }
}

/// The file that a plugin writes to; removed at the end.
pub struct Results {
    path: PathBuf,
}

impl Results {
    /// Makes an empty one.
    ///
    /// # Errors
    /// When the host cannot.
    pub fn create() -> std::io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bulkhead-el3-{}-{number}", std::process::id()));
        // One that is there was left by a process of that number that is gone.
        remove(&path);
        let file: File = OpenOptions::new().write(true).create_new(true).open(&path)?;
        drop(file);
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its words as they are now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn words(&self) -> std::io::Result<Vec<u64>> {
        let bytes = std::fs::read(&self.path)?;
        Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Nothing depends on it: a file that stays takes some kilobytes of a folder for temporary files.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}
