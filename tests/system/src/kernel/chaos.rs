//! A subsystem with a scheduler of its own: ChaosRT as a component, tasks of another one, and a more important server beside them.

use super::{Counted, Place, described, rows, run};
use std::fmt::Write;

/// Spins for so many milliseconds, and says how much it ran.
pub const SPINS: u64 = 0;
/// Yields this often to an equal that does the same, and counts.
pub const YIELDS: u64 = 1;
/// Notifies as often as it can for so many milliseconds.
pub const NOTIFIES: u64 = 2;
/// Takes notifications, and looks once in a millisecond, for so many milliseconds.
pub const POLLS: u64 = 3;
/// Waits this often to be woken by the task after it.
pub const WAITS: u64 = 4;
/// Wakes the task before it this often.
pub const WAKES: u64 = 5;
/// Sleeps for a millisecond this often.
pub const SLEEPS: u64 = 6;
/// Takes blocks of memory and gives them back.
pub const TAKES: u64 = 7;

/// A probe with this argument, and tasks: what each does, how much of it, and its priority. The way of all senders leads to the last task.
///
/// # Panics
/// When a program is not there or has another interface.
#[must_use]
pub fn subsystem(probe: u64, tasks: &[(u64, u64, u8)]) -> Vec<u8> {
    const BINDINGS: &str = "end = \"rt.end\", give_way = \"rt.give_way\", block = \"rt.block\", sleep = \"rt.sleep\", wake = \"rt.wake\", notify = \"rt.notify#0\", allocate = \"rt.allocate\", release = \"rt.release\"";
    of_program("tasks", BINDINGS, probe, tasks)
}

fn of_program(program: &str, bindings: &str, probe: u64, tasks: &[(u64, u64, u8)]) -> Vec<u8> {
    let (mut threads, mut priorities) = (String::new(), 0_u64);
    for (number, (what, much, priority)) in (0..).zip(tasks) {
        let argument = much << 16 | number << 8 | what;
        let number_of_claim = 2 * u64::from(*priority) + 4;
        let _ = writeln!(
            threads,
            "  {{ name = \"task-{number}\", server = \"vm\", argument = {argument}, priority = {number_of_claim}, stack = \"8 KiB\" }},"
        );
        priorities |= u64::from(priority + 1) << (8 * number);
    }
    let (last, count) = (tasks.len() - 1, tasks.len());
    let text = format!(
        r#"version = 1
server = [
  {{ name = "control", budget = "2 ms", period = "10 ms", on_empty = "stop" }},
  {{ name = "vm", holder = "rt" }},
]
scheduler = [{{ name = "rt", component = "rt" }}]

[[component]]
name = "probe"
program = "component:probe.elf"
threads = [{{ name = "main", server = "control", argument = {probe} }}]

[[component]]
name = "rt"
program = "component:chaosrt.elf"
threads = [{{ name = "main", server = "vm", argument = {priorities} }}]
callers = {{ stacks = {count}, bytes = "4 KiB" }}
bind = {{ scheduler = "scheduler:rt", threads = "threads:rt", ways = "send:tasks.news" }}

[[component]]
name = "tasks"
program = "component:{program}.elf"
threads = [
{threads}]
end_points = [{{ thread = "task-{last}", signals = ["news"] }}]
bind = {{ {bindings}, news = "receive:task-{last}" }}
"#
    );
    described(&text).bytes
}

/// What tasks that yield this often count, on one place, by name.
///
/// # Panics
/// When they do not come to their end.
#[must_use]
pub fn count_yields(times: u64, place: Place) -> Vec<Counted> {
    rows(&run(&yields_image(times), place))
}

/// Their instance.
///
/// # Panics
/// When a program is not there.
#[must_use]
pub fn yields_image(times: u64) -> Vec<u8> {
    subsystem(0, &[(YIELDS, times, 3), (YIELDS, times, 3)])
}

/// What a signal through the limiter takes, one without a limit in the same state, and the limiter alone.
///
/// # Panics
/// When they do not come to their end.
#[must_use]
pub fn count_limited(times: u64, place: Place) -> Vec<Counted> {
    const BINDINGS: &str =
        "end = \"rt.end\", sleep = \"rt.sleep\", notify = \"rt.notify#0\", way = \"send:tasks.news\"";
    // Who sends, and who receives.
    rows(&run(&of_program("limited", BINDINGS, 0, &[(0, times, 3), (1, times, 4)]), place))
}
