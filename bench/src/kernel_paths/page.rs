//! A path as text: by function for people, instruction by instruction, and as the page of the documentation.

use super::Taken;
use super::code::Owner;
use super::needed::{CALLED, needed, purpose};
use crate::report;
use std::collections::HashMap;
use std::fmt::Write;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr $(, $($argument:tt)*)?) => {
        let _ = writeln!($out $(, $($argument)*)?);
    };
}

/// What is executed for one thing.
struct Group {
    purpose: &'static str,
    /// Of all functions.
    sum: u64,
    /// In the order in which they are first entered.
    functions: Vec<(Owner, u64)>,
}

impl Group {
    /// Functions by name alone, and what each executes.
    fn names(&self) -> Vec<(&str, u64)> {
        let mut found: Vec<(&str, u64)> = Vec::new();
        for (owner, count) in &self.functions {
            match found.iter_mut().find(|(name, _)| *name == owner.function) {
                Some((_, sum)) => *sum += count,
                None => found.push((&owner.function, *count)),
            }
        }
        found
    }
}

/// Functions by what they are for, in the order in which that is first done.
fn grouped(taken: &Taken) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (owner, count) in taken.functions() {
        let purpose = if owner.is_called { CALLED } else { purpose(&owner.file) };
        match groups.iter_mut().find(|group| group.purpose == purpose) {
            Some(group) => {
                group.sum += count;
                group.functions.push((owner, count));
            }
            None => groups.push(Group { purpose, sum: count, functions: vec![(owner, count)] }),
        }
    }
    groups
}

fn head(taken: &Taken) -> String {
    let promised = taken.row.ceiling.map_or(String::new(), |ceiling| format!("; at most {ceiling} are promised"));
    let own = match taken.of_component {
        0 => String::new(),
        own => format!(", {own} of which are the component's own"),
    };
    format!("{} instructions{own}{promised}", taken.printed.most)
}

/// By function.
pub(super) fn text(taken: &Taken) -> String {
    let mut out = String::new();
    line!(out, "{}: {}", taken.row.name, head(taken));
    for group in grouped(taken) {
        line!(out, "{:>6}  {}", group.sum, group.purpose);
        for (owner, count) in group.functions {
            line!(out, "        {count:>6}  {:<34} {}", owner.function, owner.file);
        }
    }
    if let Some(needed) = needed(taken.measured.path) {
        line!(out, "  needed  {needed}");
    }
    line!(out);
    out
}

/// Every instruction.
pub(super) fn instructions(taken: &Taken, texts: &HashMap<u64, String>) -> String {
    let mut out = String::new();
    line!(out, "{}: {}", taken.row.name, head(taken));
    for (number, address) in taken.executed.iter().enumerate() {
        let text = texts.get(address).map_or("?", String::as_str);
        let text = text.split_once("//").map_or(text, |(text, _)| text).trim_end();
        let owner = taken.owner(*address);
        line!(out, "{:>5}  {address:x}  {text:<44} {} {}:{}", number + 1, owner.function, owner.file, owner.line);
    }
    line!(out);
    out
}

/// The page of the documentation.
pub(super) fn page(all: &[Taken]) -> String {
    let mut out = String::from("# Paths of the kernel\n\nWritten by `./x bench kernel-paths --record`; do not edit. ");
    line!(out, "{}\n", report::INSTRUCTIONS);
    line!(
        out,
        "What the kernel, and ChaosRT where it is called, executes between two looks of a component at the counter, on the bare board: the longest of {} runs, by what it is for. `--instructions` prints each \
         instruction. A row of 100,000 runs may have a longer one where dates decide (`docs/measurements.md`). The sum is what the component counted, to the instruction.\n",
        super::RUNS
    );
    for taken in all {
        line!(out, "## `{}`\n", taken.row.name);
        line!(out, "{}: {}.\n", taken.row.what, head(taken));
        if let Some(needed) = needed(taken.measured.path) {
            line!(out, "What would be needed: {needed}\n");
        }
        line!(out, "| instructions | for | functions |\n| ---: | --- | --- |");
        for group in grouped(taken) {
            let each: Vec<String> = group.names().iter().map(|(name, count)| format!("`{name}` {count}")).collect();
            line!(out, "| {} | {} | {} |", group.sum, group.purpose, each.join(", "));
        }
        line!(out);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
