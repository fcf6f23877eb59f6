//! Quest's figure 4 on the servers of an instance (QV-E10): what the theory says of it, and what a machine shows.

use super::{Place, described, run};

/// Ticks of a millisecond.
const MILLISECOND: u64 = 62_500;
/// Row 9 of the kernel: most instructions from one thread to another when a budget is used up or comes back. A test of its own holds it.
pub const EXCHANGE_TICKS: u64 = 1_310;

/// When the figure ends.
const END_TICKS: u64 = 130 * MILLISECOND;

/// SS-03 of the theory, to the end of the figure: who runs, from when to when, in milliseconds. What follows itself is one run, with budget and without.
pub const SS_03: [(&str, u64, u64); 12] = [
    ("v1", 0, 1),
    ("v0", 1, 11),
    ("v1", 11, 25),
    ("io", 25, 27),
    ("v1", 27, 32),
    ("v0", 32, 51),
    ("v1", 51, 71),
    ("v0", 71, 75),
    ("io", 75, 76),
    ("v0", 76, 100),
    ("v1", 100, 120),
    ("v0", 120, 130),
];

/// The servers of the figure, with a driver of the kernel's second timer for the request.
const TEXT: &str = r#"
version = 1
server = [
  { name = "v0", budget = "10 ms", period = "40 ms", anchor = "eligible" },
  { name = "v1", budget = "20 ms", period = "50 ms", anchor = "eligible" },
  { name = "io", kind = "io", share = "4 %", clients = ["v1"] },
]

[[component]]
name = "figure"
program = "component:figure.elf"
trust = "trusted"
threads = [
  { name = "v0", server = "v0", argument = 0 },
  { name = "v1", server = "v1", argument = 1 },
  { name = "io", server = "io", argument = 0x202 },
]
end_points = [
  { thread = "v0", signals = ["first"] },
  { thread = "v1", signals = ["second"] },
  { thread = "io", signals = ["beat"] },
]
interrupts = [{ name = "periodic", signal = "beat", period = "25 ms" }]
bind = { first = "receive:v0", second = "receive:v1", beats = "receive:io", line = "interrupt:periodic", begin_first = "send:figure.first", begin_second = "send:figure.second" }
"#;

/// A run of one of the three: who, from when and to when, in ticks since the figure began.
pub type Run = (&'static str, u64, u64);

/// Runs the figure; returns who ran when, in order, one run where somebody follows himself.
///
/// # Panics
/// When a thread did not say all.
#[must_use]
pub fn runs(place: Place) -> Vec<Run> {
    let lines = run(&described(TEXT).bytes, place);
    let mut found: Vec<Run> = Vec::new();
    for name in ["v0", "v1", "io"] {
        assert!(lines.iter().any(|line| *line == format!("{name} said")), "{name}: {lines:?}");
        for line in &lines {
            let numbers: Vec<u64> = line
                .strip_prefix(name)
                .map_or_else(Vec::new, |rest| rest.split_whitespace().filter_map(|word| word.parse().ok()).collect());
            // Who finds that it is over when somebody else stops ran no more.
            if let [from, to] = numbers[..]
                && from < END_TICKS
            {
                found.push((name, from, to));
            }
        }
    }
    found.sort_by_key(|(_, from, _)| *from);
    let mut merged: Vec<Run> = Vec::new();
    for one in found {
        match merged.last_mut().filter(|last| last.0 == one.0) {
            Some(last) => last.2 = one.2,
            None => merged.push(one),
        }
    }
    merged
}

/// What differs from the theory: the order, or an instant by more than an exchange for each switch so far.
#[must_use]
pub fn differences(runs: &[Run]) -> Vec<String> {
    let names = |name: &str| name.to_owned();
    let (order, wanted): (Vec<String>, Vec<String>) =
        (runs.iter().map(|run| names(run.0)).collect(), SS_03.iter().map(|run| names(run.0)).collect());
    if order != wanted {
        return vec![format!("the order is {order:?} and not {wanted:?}")];
    }
    let late = |(switches, (run, wanted)): (u64, (&Run, &(&str, u64, u64)))| {
        let (found, exact) = (run.1, wanted.1 * MILLISECOND);
        let allowed = (switches + 1) * EXCHANGE_TICKS;
        let text = || {
            format!(
                "switch {switches} to {} at {found} ticks, {} from {exact}; {allowed} are allowed",
                run.0,
                found.abs_diff(exact)
            )
        };
        (found.abs_diff(exact) > allowed).then(text)
    };
    (0..).zip(runs.iter().zip(&SS_03)).filter_map(late).collect()
}
