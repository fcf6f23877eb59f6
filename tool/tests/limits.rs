//! How much a check searches, and how long the commands take (`real-time.md` 4.7): three systems that were slow, and random ones at the
//! limits of the format.
//!
//! What every run asserts are steps of the analysis, which are the same on every host, and that what `check` accepts is built and
//! verified. Processor time is for the long run, which asserts the most of each command and prints it:
//! `BULKHEAD_LIMITS=10000 cargo test --release -p bulkhead-tool --test limits -- --nocapture`. It may be divided: it begins at
//! the description that `BULKHEAD_LIMITS_FROM` names.

#[path = "support/limits.rs"]
mod limits;
#[path = "../../core/sched/tests/support/random.rs"]
mod random;

use bulkhead_analysis::costs::Costs;
use bulkhead_analysis::steps::Steps;
use bulkhead_description::{Options, load_text_unchecked};
use bulkhead_timing::suggest::suggest;
use bulkhead_timing::{Assumptions, bounds};
use random::Random;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Descriptions of a usual run, which is not optimised throughout.
const USUAL_COUNT: u64 = 40;
/// Most steps of all their bounds, and of all searches for suggestions: a twentieth more than they need. With a tenth less something
/// would not be counted, or not be searched.
const USUAL_STEPS: (u64, u64) = (400_000_000, 265_000_000);
/// What a command may take of a processor in the long run.
const MOST_MS: u64 = 2_000;

/// Costs of no build, so that the steps do not change when the measured ones do.
const COSTS: Costs = Costs {
    switch: 2_400,
    interrupt_entry: 900,
    longest_passage: 9_000,
    timer_latency: 100,
    doorbell: 170,
    publication: 1_300,
    trace: 700,
    least_stint: 370,
    after_loading: 170,
};

/// Steps of the bounds of a system, and of the search for a suggestion.
fn steps(text: &str, options: &Options) -> Option<(u64, u64)> {
    let system = load_text_unchecked(Path::new("system.toml"), text, options).ok()?.system;
    let assumptions = Assumptions { costs: COSTS, instruction_ps: 16_000, provenance: "costs of a test" };
    let suggestion = Steps::of_a_suggestion();
    let _ = suggest(&system, &assumptions, &suggestion);
    Some((bounds(&system, &assumptions).steps, suggestion.taken()))
}

/// One of the random descriptions.
fn description(number: u64) -> String {
    limits::description(&mut Random(number.wrapping_mul(0xd6e8_feb8_6659_fd93)))
}

/// Systems that were slow, with their names.
fn slow_systems() -> [(&'static str, String); 3] {
    ["eight-tasks-each", "one-without-budget", "suggested"].map(|name| {
        let text = fs::read_to_string(format!("tests/slow/{name}.toml"));
        (name, text.expect("a fixture can be read"))
    })
}

/// A directory of its own for a test, with a guest.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("limits-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory can be made");
    fs::write(directory.join("tiny.bin"), [0; 16]).expect("a guest can be written");
    directory
}

fn options(name: &str) -> Options {
    Options { guests: Some(directory(name)), board: None }
}

/// Such systems took 4.2 s, 18.4 s and, with `--suggest`, 13.9 s before there was one search for all bounds. The ceilings are a tenth
/// above what they need.
#[test]
fn systems_that_were_slow_need_few_steps() {
    let options = options("slow");
    for (name, text) in slow_systems() {
        let (most_for_bounds, most_for_a_suggestion) = match name {
            "eight-tasks-each" => (36_200, 426_000),
            "one-without-budget" => (6_700, 35_600),
            _ => (9_700, 333_000),
        };
        let (bounds, suggestion) = steps(&text, &options).expect("nothing but its time is wrong");
        println!("{name}: {bounds} steps for bounds, {suggestion} for a suggestion");
        assert!(bounds <= most_for_bounds && suggestion <= most_for_a_suggestion, "{name}: {bounds}, {suggestion}");
    }
}

#[test]
fn random_descriptions_need_few_steps() {
    let options = options("random");
    let needed: Vec<_> = (0..USUAL_COUNT).filter_map(|number| steps(&description(number), &options)).collect();
    assert!(needed.len() as u64 > USUAL_COUNT * 9 / 10, "only {} have nothing wrong but their times", needed.len());
    let sum = |of: fn(&(u64, u64)) -> u64| needed.iter().map(of).sum::<u64>();
    let (bounds, suggestions) = (sum(|one| one.0), sum(|one| one.1));
    let most = needed.iter().map(|one| one.0).max();
    println!("{bounds} steps for bounds, at most {most:?}; {suggestions} for suggestions");
    let is_usual = |steps: u64, most: u64| (most - most / 10..=most).contains(&steps);
    assert!(
        is_usual(bounds, USUAL_STEPS.0) && is_usual(suggestions, USUAL_STEPS.1),
        "{bounds} and {suggestions} steps"
    );
}

/// A command, how often it was called, and the most processor time that it took with the description that did.
struct Called {
    arguments: &'static [&'static str],
    times: u64,
    most_ms: u64,
    worst: String,
}

impl Called {
    const fn new(arguments: &'static [&'static str]) -> Self {
        Self { arguments, times: 0, most_ms: 0, worst: String::new() }
    }

    /// Calls it for a description; states whether it succeeded. A refusal is an answer, anything else is none.
    fn call(&mut self, directory: &Path, name: &str) -> bool {
        let before_ms = children_ms();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.args(self.arguments).current_dir(directory).env("BULKHEAD_GUESTS", directory);
        let output = command.stdin(Stdio::null()).output().expect("the command can be started");
        let took_ms = children_ms() - before_ms;
        self.times += 1;
        if took_ms >= self.most_ms {
            (self.most_ms, self.worst) = (took_ms, name.to_owned());
        }
        let code = output.status.code();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(code, Some(0 | 1)), "{:?} of {name}: {code:?}\n{errors}", self.arguments);
        code == Some(0)
    }
}

/// Processor time of all commands that ended, in milliseconds. Linux counts it in hundredths of a second.
fn children_ms() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux tells it");
    let (_, fields) = text.rsplit_once(") ").expect("a name in brackets");
    let ticks = fields.split(' ').skip(13).take(2).map(|field| field.parse::<u64>().expect("a number"));
    ticks.sum::<u64>() * 10
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What is accepted is built, and what is built passes the verifier, which knows nothing of descriptions.
#[test]
fn what_is_accepted_at_the_limits_is_built_and_verified() {
    let directory = directory("commands");
    let long = number("BULKHEAD_LIMITS");
    let from = number("BULKHEAD_LIMITS_FROM").unwrap_or(0);
    let mut check = Called::new(&["check", "system.toml"]);
    let mut suggest = Called::new(&["check", "system.toml", "--suggest"]);
    let mut build = Called::new(&["build", "system.toml", "-o", "limits.img"]);
    let mut verify = Called::new(&["verify", "limits.img"]);
    let slow = slow_systems().into_iter().map(|(name, text)| (name.to_owned(), text));
    let random = (from..from + long.unwrap_or(USUAL_COUNT)).map(|number| (number.to_string(), description(number)));
    for (name, text) in slow.chain(random) {
        fs::write(directory.join("system.toml"), text).expect("a description can be written");
        if check.call(&directory, &name) {
            assert!(build.call(&directory, &name), "{name} is accepted and not built");
            assert!(verify.call(&directory, &name), "{name} is built and not verified");
        } else if long.is_some() {
            suggest.call(&directory, &name);
        }
    }
    for one in [&check, &suggest, &build, &verify] {
        println!("{:?}: {} times, at most {} ms, {}", one.arguments, one.times, one.most_ms, one.worst);
        assert!(long.is_none() || one.most_ms < MOST_MS, "{:?} takes {} ms", one.arguments, one.most_ms);
    }
    assert!(verify.times > 0, "none is accepted");
    let _ = fs::remove_dir_all(directory);
}
