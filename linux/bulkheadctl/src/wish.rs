//! `world priority`: which latency task of the payload this Linux wants to run in.
//!
//! The payload runs Linux in one of several tasks, each for threads of certain priorities. Linux's kernel does not tell whom it runs, so a program says
//! it: a word of memory that is nobody's holds the priority for which Linux is to be run from now on, until another one is written.

use crate::arguments::Format;
use crate::failure::{Failure, MACHINE, NOT_FOUND, NOTHING, USAGE};
use crate::hardware::Mapping;
use crate::interrupt::Deadline;
use crate::json::Object;
use crate::sysfs::Machine;
use crate::tree;
use bulkhead_channel::{MappedWindow, SharedMemory};
use bulkhead_world::flash::wish_words;
use bulkhead_world::servers::MOST_PRIORITY;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Node of the page in the device tree, below its root.
const NODE: &str = "bulkhead-latency";
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// A latency task.
#[derive(Debug)]
struct Task {
    name: String,
    /// First and last priority of threads that want it; zeros: none do.
    priorities: (u32, u32),
}

/// What the device tree says of latency tasks.
#[derive(Debug)]
struct Wish {
    /// Address and length.
    memory: (u64, usize),
    tasks: Vec<Task>,
}

impl Wish {
    fn find(machine: &Machine) -> Result<Self, Failure> {
        let node = tree::nodes(machine, NODE, "tasks").and_then(|nodes| nodes.into_iter().next());
        let Some(node) = node else {
            let message =
                "this Linux has no latency tasks with priorities: its device tree has no node /bulkhead-latency";
            return Err(Failure::new(NOT_FOUND, message));
        };
        Self::read(&node).ok_or_else(|| tree::damaged(&node))
    }

    fn read(node: &Path) -> Option<Self> {
        let memory = tree::memory(node)?;
        let names = String::from_utf8(tree::bytes(node, "tasks")?).ok()?;
        let cells = tree::bytes(node, "priorities")?;
        let mut cells = cells.chunks(4).map(|cell| cell.try_into().ok().map(u32::from_be_bytes));
        let mut tasks = Vec::new();
        for name in names.split_terminator('\0') {
            tasks.push(Task { name: name.to_owned(), priorities: (cells.next()??, cells.next()??) });
        }
        Some(Self { memory, tasks })
    }

    fn map(&self, machine: &Machine) -> Result<Mapping, Failure> {
        tree::map(machine, self.memory, "the shared word")
    }

    /// The name of what a priority wants.
    fn wanted(&self, priority: u64) -> &str {
        let holds = |task: &&Task| {
            let (from, to) = task.priorities;
            from != 0 && (u64::from(from)..=u64::from(to)).contains(&priority)
        };
        self.tasks.iter().find(holds).map_or("the background task", |task| task.name.as_str())
    }
}

/// Prints the latency tasks, what is wanted and what the payload has read.
pub(crate) fn show(machine: &Machine, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let wish = Wish::find(machine)?;
    let mapping = wish.map(machine)?;
    let window = window(&mapping)?;
    let (wanted, read) = (window.load(word(wish_words::WANTED)), window.load(word(wish_words::READ)));
    if format == Format::Json {
        let tasks: Vec<String> = wish
            .tasks
            .iter()
            .map(|task| {
                let (from, to) = task.priorities;
                Object::default().text("name", &task.name).number("from", from.into()).number("to", to.into()).finish()
            })
            .collect();
        let object = Object::default().number("wanted", wanted).text("task", wish.wanted(wanted)).number("read", read);
        writeln!(output, "{}", object.list("tasks", &tasks).finish())?;
        return Ok(());
    }
    for task in &wish.tasks {
        match task.priorities {
            (0, _) => writeln!(output, "{:<24} no priority wants it", task.name)?,
            (from, to) => writeln!(output, "{:<24} priorities {from} to {to}", task.name)?,
        }
    }
    writeln!(output, "wanted: {wanted}, which is {}; the payload has read {read}", wish.wanted(wanted))?;
    Ok(())
}

/// Wants the latency task of this priority from now on. With a time the payload has to read it within that.
pub(crate) fn want(
    machine: &Machine,
    priority: u32,
    timeout: Option<Duration>,
    format: Format,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    if priority > MOST_PRIORITY {
        let message = format!("priorities are 1 to {MOST_PRIORITY}, and 0 wants the background task; got {priority}");
        return Err(Failure::new(USAGE, message));
    }
    let wish = Wish::find(machine)?;
    let mapping = wish.map(machine)?;
    let window = window(&mapping)?;
    window.store_release(word(wish_words::WANTED), priority.into());
    if let Some(timeout) = timeout {
        let deadline = Deadline::after(Some(timeout));
        while window.load(word(wish_words::READ)) != u64::from(priority) {
            if deadline.is_over() {
                return Err(Failure::new(NOTHING, "the payload has not read it within the time (--timeout)"));
            }
            std::thread::sleep(deadline.remaining(LOOK));
        }
    }
    let task = wish.wanted(priority.into());
    if format == Format::Json {
        writeln!(output, "{}", Object::default().number("wanted", priority.into()).text("task", task).finish())?;
    } else {
        writeln!(output, "priority {priority} wants {task}")?;
    }
    Ok(())
}

fn window(mapping: &Mapping) -> Result<MappedWindow<'_>, Failure> {
    mapping.window().ok_or_else(|| Failure::new(MACHINE, "the memory of the shared word is not aligned"))
}

/// The place of a word of the page.
const fn word(place: u64) -> usize {
    place as usize
}
