//! A job on core 0, and instances on other cores that are at it while it runs: what `kernel.flood` and `kernel.lock` share.
//!
//! The job says when the others begin and when they end, over wires. All of them give their turns away at a distance in instructions: the quantum at which the cores are interleaved.

use crate::Failure;
use crate::lab::Lab;
use bulkhead_abi::observe::Counter;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member, UNLIMITED};

/// Roles of the component `crowd`.
pub(super) const FLOODS: u64 = 3;
pub(super) const WORKS: u64 = 4;
const LISTENS: u64 = 5;
pub(super) const CALLS: u64 = 6;
pub(super) const FLOODS_CALLS: u64 = 7;

/// Most floods.
pub(super) const MOST: usize = 3;
/// Partitions, wires to the job's instance, and wires from there.
const FLOOD: [&str; MOST] = ["flood-1", "flood-2", "flood-3"];
const UP: [&str; MOST] = ["up-1", "up-2", "up-3"];
const DOWN: [&str; MOST] = ["down-1", "down-2", "down-3"];
const JOB: &str = "job";

/// What bounds the doorbells of floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Nothing.
    None,
    /// This many in each window, of each flood.
    Each(u64),
    /// This many in each window, of all together.
    Together(u64),
}

/// The window of limits: 1 ms.
pub(super) const WINDOW_TICKS: u64 = 62_500;

impl Limit {
    fn doorbell(limit: u64) -> String {
        format!("{{ limit = {limit}, per = \"1 ms\" }}")
    }
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Role of the job, and of floods.
    pub(super) roles: [u64; 2],
    /// Floods, at most [`MOST`].
    pub(super) floods: usize,
    /// Instructions between two looks at other cores.
    pub(super) distance: u64,
    /// What a flood does at once.
    pub(super) at_once: u64,
    /// The job's own instructions.
    pub(super) instructions: u64,
    pub(super) limit: Limit,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    /// How long the job took, by the counter that all cores advance.
    pub(super) ticks: u64,
    /// Rounds of the job.
    pub(super) rounds: u64,
    /// Instructions of the monitor and of the kernel on the job's core, from boot to end.
    pub(super) monitor: u64,
    pub(super) kernel: u64,
    /// Interrupts that the monitor handed to the job's instance.
    pub(super) interrupts: u64,
    /// Doorbells that were held back.
    pub(super) limited: u64,
    /// What floods did, and what there was no room for.
    pub(super) done: u64,
    pub(super) busy: u64,
    /// What the flood did that did least; none of none.
    pub(super) least: Option<u64>,
    /// Signals that were told to the listener.
    pub(super) taken: u64,
}

impl Ran {
    /// Instructions on the job's core beside it and the listener.
    pub(super) const fn outside(&self) -> u64 {
        self.monitor + self.kernel
    }
}

/// A flood's instance: its thread, a wire that says when, and one to the job.
fn flood(run: &Run, number: usize) -> Member {
    let argument = run.roles[1] | run.distance << 8 | run.at_once << 32;
    let (up, down) = (UP[number], DOWN[number]);
    let text = format!(
        r#"version = 1
server = [{{ name = "main", quantum = "100 s" }}, {{ name = "wire" }}]
wire = [{{ port = "{down}", server = "wire", exports = {{ turn = "crowd.turn" }} }}]

[[component]]
name = "crowd"
program = "component:crowd.elf"
threads = [{{ name = "main", server = "main", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["turn"] }}]
bind = {{ told = "receive:main", one = "wire:{up}.news", two = "empty:1", three = "empty:1", over = "empty:1" }}
"#
    );
    Member { name: FLOOD[number], text, keys: String::new() }
}

/// The job's instance: the job on the most important server, and who listens on the least.
fn job(run: &Run) -> Member {
    let argument = run.roles[0] | run.distance << 8 | run.instructions << 32;
    let wires = UP[..run.floods]
        .iter()
        .map(|up| format!("{{ port = \"{up}\", server = \"wire\", exports = {{ news = \"crowd.news\" }} }}"));
    let wires = wires.collect::<Vec<_>>().join(", ");
    let wires = if run.floods == 0 { String::new() } else { format!("wire = [{wires}]") };
    let told = ["one", "two", "three"].iter().zip(DOWN).enumerate().map(|(place, (slot, down))| {
        let target = if place < run.floods { format!("wire:{down}.turn") } else { "empty:1".to_owned() };
        format!("{slot} = \"{target}\"")
    });
    let text = format!(
        r#"version = 1
server = [{{ name = "job", quantum = "100 s" }}, {{ name = "wire" }}, {{ name = "rest", quantum = "100 s" }}]
{wires}

[[component]]
name = "crowd"
program = "component:crowd.elf"
threads = [
  {{ name = "job", server = "job", argument = {argument} }},
  {{ name = "listener", server = "rest", argument = {LISTENS} }},
]
end_points = [{{ thread = "listener", signals = ["over", "news"] }}]
bind = {{ told = "receive:listener", over = "send:crowd.over", {} }}
"#,
        told.collect::<Vec<_>>().join(", ")
    );
    let keys = match run.limit {
        Limit::Together(limit) => format!("doorbell_limit = {}", Limit::doorbell(limit)),
        Limit::None | Limit::Each(_) => String::new(),
    };
    Member { name: JOB, text, keys }
}

/// The numbers of a partition's first line that begins so.
pub(super) fn numbers<const COUNT: usize>(lines: &[String], start: &str) -> Result<[u64; COUNT], Failure> {
    let line = lines.iter().find_map(|line| line.strip_prefix(start));
    let line = line.ok_or_else(|| Failure::wrong(format!("no line `{start}` in {lines:#?}")))?;
    let all: Vec<u64> = line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    all.try_into().map_err(|all| Failure::wrong(format!("`{start}` has the numbers {all:?} and not {COUNT}")))
}

impl Run {
    /// Runs it.
    pub(super) fn go(&self, lab: &Lab) -> Result<Ran, Failure> {
        for file in ["kernel", "crowd"] {
            lab.guest(&format!("kernel/{file}.elf"))?;
        }
        let mut members = vec![job(self)];
        members.extend((0..self.floods).map(|number| flood(self, number)));
        let mut channels = Vec::new();
        for number in 0..self.floods {
            let doorbell = match self.limit {
                Limit::None => UNLIMITED.to_owned(),
                Limit::Each(limit) => Limit::doorbell(limit),
                Limit::Together(_) => "true".to_owned(),
            };
            channels.push(Channel { doorbell, ..Channel::wire(UP[number], FLOOD[number], JOB) });
            channels.push(Channel::wire(DOWN[number], JOB, FLOOD[number]));
        }
        let system = cores::system("crowd", "mapped", &members, &channels);
        let mut running = system.start_with(|options| {
            options.icount_shift = Some(4);
            options.counting = Some(cores::counting(&system));
        });
        let end = running.end();
        if end != End::AllEnded {
            return Err(Failure::wrong(format!("{self:?}: {end:?}")));
        }
        running.assert_no_crash();
        let counts = running.counts()?;
        let count = |range: &str| counts.cores[0].range(range).map_or(0, |range| range.total);
        let lines = running.texts(JOB);
        let [ticks, rounds] = numbers(&lines, "job: ")?;
        let [taken, _] = numbers(&lines, "listener: ")?;
        let (mut done, mut busy, mut least) = (0, 0, None);
        for name in &FLOOD[..self.floods] {
            let [one_done, one_busy] = numbers(&running.texts(name), "flood: ")?;
            (done, busy) = (done + one_done, busy + one_busy);
            least = Some(least.unwrap_or(one_done).min(one_done));
        }
        let limited = FLOOD[..self.floods].iter().map(|name| running.counter(name, Counter::DoorbellLimited)).sum();
        let interrupts = running.counter(JOB, Counter::Interrupt);
        let (monitor, kernel) = (count("monitor"), count("kernel job"));
        Ok(Ran { ticks, rounds, monitor, kernel, interrupts, limited, done, busy, least, taken })
    }
}
