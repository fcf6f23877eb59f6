//! `./x bench soak`: the random attacker beside its victims, for as many seeds as one likes.
//!
//! Seeds go in batches: a batch is one boot of one arrangement. What is done is kept in a file, so that a soak that was
//! stopped continues where it was; a failure is printed with its seed, the attacker's latest steps and the commands
//! that repeat it.

use crate::{Failure, boards};
use bulkhead_files::read::SOAK;
use bulkhead_files::write::whole;
use bulkhead_run::{Machine, exit_code};
use bulkhead_soak::{ARRANGEMENTS, Attack, Siege, arrangement_of, watch};
use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Seeds of a batch.
const BATCH: u64 = 64;
/// Where progress is kept unless the user says otherwise, without its ending.
const STATE_FILE: &str = "target/bench/soak";

/// Options of `./x bench soak`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SoakArguments {
    /// Seeds in all, those of earlier runs with the same state file included.
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,

    /// Start no batch after this many minutes; a later run continues.
    #[arg(long)]
    minutes: Option<u64>,

    /// Built-in board on which it all happens, in place of the default one; with a state file of its own
    #[arg(long, value_name = "BOARD", value_parser = board)]
    board: Option<String>,

    /// Where it is written down what is done [default: target/bench/soak.txt, or soak-BOARD.txt]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Machines at once.
    #[arg(long, default_value_t = 2)]
    machines: usize,

    /// Continue after a failure, with the seed after it.
    #[arg(long)]
    keep_going: bool,

    /// Replay this seed alone, and keep no state.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// With --seed: run this many seeds of its arrangement in one boot.
    #[arg(long, default_value_t = 1, requires = "seed")]
    count: u64,

    /// With --seed: print the description of its system instead, for `bulkhead run --icount 4`, with a trace perhaps.
    #[arg(long, requires = "seed")]
    describe: bool,
}

const AFTER_HELP: &str = "\
What is done is written to the state file: a run that was stopped continues where it was. A failure is printed with its
seed, the attacker's latest steps and the commands that repeat it.

Examples:
  ./x bench soak --minutes 60             runs for an hour; the next run continues
  ./x bench soak --seeds 400000           runs until 400,000 seeds are done
  ./x bench soak --seed 4711              replays one seed
  ./x bench soak --seed 4711 --describe   prints the system of that seed, for `bulkhead run`
  ./x bench soak --board xlnx-versal-virt lets the attacker run on that board

Exit codes:
  0  no victim missed a bound
  1  a victim missed one, or a run did not do what it should
  2  wrong usage
  3  the host lacks something, or the state file cannot be used
  4  QEMU failed";

/// What is done, as the file says it: `done FIRST_BATCH_NOT_DONE`, `also BATCH`, `failed SEED`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// All batches before this one are done.
    before: u64,
    /// Batches done out of order.
    also: BTreeSet<u64>,
    failed: BTreeSet<u64>,
}

impl Progress {
    fn parse(text: &str) -> Result<Self, String> {
        let mut progress = Self::default();
        for line in text.lines() {
            let (key, number) = line.split_once(' ').ok_or_else(|| format!("`{line}` is no line of a soak's state"))?;
            let number: u64 = number.parse().map_err(|error| format!("`{line}`: {error}"))?;
            match key {
                "done" => progress.before = number,
                "also" => drop(progress.also.insert(number)),
                "failed" => drop(progress.failed.insert(number)),
                _ => return Err(format!("`{line}` is no line of a soak's state")),
            }
        }
        Ok(progress)
    }

    fn text(&self) -> String {
        let also = self.also.iter().map(|batch| format!("also {batch}\n"));
        let failed = self.failed.iter().map(|seed| format!("failed {seed}\n"));
        std::iter::once(format!("done {}\n", self.before)).chain(also).chain(failed).collect()
    }

    fn is_done(&self, batch: u64) -> bool {
        batch < self.before || self.also.contains(&batch)
    }

    fn finish(&mut self, batch: u64) {
        self.also.insert(batch);
        while self.also.remove(&self.before) {
            self.before += 1;
        }
    }

    fn batches(&self) -> u64 {
        self.before + self.also.len() as u64
    }
}

/// What the machines share.
struct Shared {
    progress: Progress,
    next: u64,
    error: Option<Failure>,
    stops: bool,
}

struct Soak<'a> {
    arguments: &'a SoakArguments,
    file: PathBuf,
    begun: Instant,
    shared: Mutex<Shared>,
}

/// Runs a soak, or replays a seed.
pub(crate) fn run(arguments: &SoakArguments) -> Result<u8, Failure> {
    let board = arguments.board.as_deref();
    if let Some(seed) = arguments.seed {
        if arguments.describe {
            bulkhead_files::output::print(&prepare(seed, arguments.count, board)?.description);
            return Ok(exit_code::SUCCESS);
        }
        return Ok(match batch(seed, arguments.count, board)? {
            Ok(text) => {
                bulkhead_files::say!("{text}");
                exit_code::SUCCESS
            }
            Err(failure) => {
                bulkhead_files::say!("{failure}");
                exit_code::FAILURE
            }
        });
    }
    let usual =
        || PathBuf::from(board.map_or(format!("{STATE_FILE}.txt"), |board| format!("{STATE_FILE}-{board}.txt")));
    let file = arguments.state.clone().unwrap_or_else(usual);
    let progress = read(&file)?;
    bulkhead_files::say!("{} seeds done before, by {}", progress.batches() * BATCH, file.display());
    let shared = Shared { progress, next: 0, error: None, stops: false };
    let soak = Soak { arguments, file, begun: Instant::now(), shared: Mutex::new(shared) };
    std::thread::scope(|scope| {
        for _ in 0..arguments.machines.max(1) {
            scope.spawn(|| soak.work());
        }
    });
    let shared = soak.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = shared.error {
        return Err(error);
    }
    let failed: Vec<String> = shared.progress.failed.iter().map(u64::to_string).collect();
    bulkhead_files::say!(
        "{} seeds done, {} failed: {}",
        shared.progress.batches() * BATCH,
        failed.len(),
        failed.join(" ")
    );
    Ok(if failed.is_empty() { exit_code::SUCCESS } else { exit_code::FAILURE })
}

fn read(file: &Path) -> Result<Progress, Failure> {
    match bulkhead_files::read::text(file, SOAK) {
        Ok(text) => Progress::parse(&text)
            .map_err(|error| Failure::host(format!("cannot continue from {}: {error}", file.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Progress::default()),
        Err(error) => Err(Failure::host(format!("cannot read {}: {error}", file.display()))),
    }
}

/// Name of a built-in board for partitions, or which there are.
fn board(name: &str) -> Result<String, String> {
    let known: Vec<&str> = boards::built_in().collect();
    known
        .contains(&name)
        .then(|| name.to_owned())
        .ok_or_else(|| format!("the built-in boards are {}", known.join(", ")))
}

fn prepare(first: u64, count: u64, board: Option<&str>) -> Result<Siege, Failure> {
    Siege::prepare(arrangement_of(first), Attack::Seeds { first, count }, board).map_err(Failure::wrong)
}

/// Runs seeds of one arrangement in one boot.
fn batch(first: u64, count: u64, board: Option<&str>) -> Result<Result<String, bulkhead_soak::Failure>, Failure> {
    let siege = prepare(first, count, board)?;
    let arrangement = siege.arrangement;
    let mut machine = Machine::start(siege.options().map_err(Failure::host)?)?;
    Ok(watch(&mut machine, &siege).map(|seen| {
        let [tick, wake, _] = seen.victims;
        let [tick_bounds, wake_bounds] = siege.bounds;
        format!(
            "{} from seed {first}, {count} seeds, {} steps: {} ticks, latest {} of {} ticks of the counter; {} chains, longest {} of {}",
            arrangement.name, seen.steps, tick.ticks, tick.latest, tick_bounds.tick, wake.ended, wake.longest, wake_bounds.chain
        )
    }))
}

impl Soak<'_> {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        // A machine's thread that panicked leaves a state that is true.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.arguments.minutes.is_some_and(|minutes| self.begun.elapsed() >= Duration::from_secs(60 * minutes))
    }

    /// The next batch that nobody did or does.
    fn take(&self) -> Option<u64> {
        let mut shared = self.shared();
        let all = self.arguments.seeds.div_ceil(BATCH);
        while shared.progress.is_done(shared.next) {
            shared.next += 1;
        }
        if shared.stops || self.is_over() || shared.next >= all {
            return None;
        }
        shared.next += 1;
        Some(shared.next - 1)
    }

    fn work(&self) {
        while let Some(number) = self.take() {
            if let Err(error) = self.run_batch(number) {
                let mut shared = self.shared();
                shared.stops = true;
                shared.error.get_or_insert(error);
                return;
            }
        }
    }

    fn run_batch(&self, number: u64) -> Result<(), Failure> {
        let arrangements = ARRANGEMENTS.len() as u64;
        let first = number % arrangements + number / arrangements * BATCH * arrangements;
        let end = first + BATCH * arrangements;
        let mut next = first;
        while next < end {
            let left = (end - next).div_ceil(arrangements);
            match batch(next, left, self.arguments.board.as_deref())? {
                Ok(text) => {
                    bulkhead_files::say!("{text}");
                    break;
                }
                Err(failure) => {
                    bulkhead_files::say!("{failure}");
                    let seed = failure.seed.unwrap_or(next);
                    let mut shared = self.shared();
                    shared.progress.failed.insert(seed);
                    self.write(&shared.progress)?;
                    if !self.arguments.keep_going {
                        shared.stops = true;
                        return Ok(());
                    }
                    next = seed.max(next) + arrangements;
                }
            }
        }
        let mut shared = self.shared();
        shared.progress.finish(number);
        self.write(&shared.progress)
    }

    fn write(&self, progress: &Progress) -> Result<(), Failure> {
        let cannot = |error: std::io::Error| Failure::host(format!("cannot write {}: {error}", self.file.display()));
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder).map_err(cannot)?;
        }
        whole(&self.file, progress.text().as_bytes()).map_err(|error| cannot(error.cause))
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn progress_is_written_and_read_again() {
        let mut progress = Progress::default();
        for batch in [0, 3, 1] {
            progress.finish(batch);
        }
        progress.failed.insert(77);
        assert_eq!((progress.before, progress.batches()), (2, 3));
        assert!(progress.is_done(1) && !progress.is_done(2) && progress.is_done(3));
        assert_eq!(Progress::parse(&progress.text()), Ok(progress.clone()));
        progress.finish(2);
        assert_eq!(progress.text(), "done 4\nfailed 77\n");
        assert!(Progress::parse("done many\n").is_err() && Progress::parse("undone 1\n").is_err());
    }
}
