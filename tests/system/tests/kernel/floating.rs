//! Floating point on declaration (`kernel.md` 1 and 5; CH-8, CH-61): components that compute share a core with others that compute and with some that do not. On the board and in `direct`.

use crate::servers::numbers;
use bulkhead_description::Options;
use bulkhead_description::kernel::load_native_text;
use bulkhead_pid::{smoothed, trajectory};
use bulkhead_system_tests::kernel::{Place, described, rows, run};
use std::path::Path;

/// What the control component does (`components/pid`).
const CONTROL: u64 = 0;
const ALONE: u64 = 1;
const PATTERNS: u64 = 2;
const COUNTS: u64 = 3;

/// One that calls, one that computes alone, one that is called and computes itself, and two that do not declare floating point. Each has a server of its own, whose budgets end all the time.
fn instance(what: u64, times: u64, declared: [bool; 2], steps: u64) -> Vec<u8> {
    let [calls, called] = declared;
    let argument = |what: u64, times: u64, target: u64| times << 16 | target << 8 | what;
    let (control, alone, filter) = (argument(what, times, 40), argument(ALONE, steps, 25), steps << 8 | 60);
    let text = format!(
        r#"version = 1
server = [
  {{ name = "fast", budget = "100 us", period = "1200 us" }},
  {{ name = "middle", budget = "100 us", period = "1300 us" }},
  {{ name = "slow", budget = "100 us", period = "1400 us" }},
  {{ name = "rest", budget = "100 us", period = "1500 us" }},
]

[[component]]
name = "control"
program = "component:pid.elf"
threads = [{{ name = "main", server = "fast", argument = {control} }}]
bind = {{ smooth = "filter.smooth", plant_all = "filter.plant_all" }}
floating_point = {calls}

[[component]]
name = "alone"
program = "component:pid.elf"
threads = [{{ name = "main", server = "middle", argument = {alone} }}]
bind = {{ smooth = "filter.smooth", plant_all = "filter.plant_all" }}
floating_point = true

[[component]]
name = "filter"
program = "component:filter.elf"
threads = [{{ name = "main", server = "slow", argument = {filter} }}]
callers = {{ stacks = 2, bytes = "8 KiB" }}
floating_point = {called}

[[component]]
name = "asker"
program = "component:asker.elf"
threads = [{{ name = "main", server = "rest", argument = 40 }}]
bind = {{ sum = "adder.add" }}

[[component]]
name = "adder"
program = "component:adder.elf"
callers = {{ stacks = 1, bytes = "4 KiB" }}
"#
    );
    described(&text).bytes
}

/// One in C that computes and calls the filter at each step, and is called by one in Rust.
fn instance_in_c(steps: u64, declared: bool) -> String {
    let (control, in_c) = (40 << 16 | 40 << 8 | PATTERNS, steps << 8 | 50);
    format!(
        r#"version = 1
server = [{{ name = "loop", budget = "100 us", period = "1200 us" }}, {{ name = "rest", budget = "100 us", period = "1300 us" }}]

[[component]]
name = "in-c"
program = "component:c-loop.elf"
threads = [{{ name = "main", server = "loop", argument = {in_c} }}]
callers = {{ stacks = 1, bytes = "4 KiB" }}
bind = {{ plant = "filter.plant_all" }}
{floating_point}

[[component]]
name = "control"
program = "component:pid.elf"
threads = [{{ name = "main", server = "rest", argument = {control} }}]
bind = {{ smooth = "filter.smooth", plant_all = "in-c.plant_all" }}
floating_point = true

[[component]]
name = "filter"
program = "component:filter.elf"
callers = {{ stacks = 2, bytes = "8 KiB" }}
floating_point = true
"#,
        floating_point = if declared { "floating_point = true" } else { "" }
    )
}

/// What is said on both places.
fn said(image: &[u8]) -> [Vec<String>; 2] {
    [Place::Board, Place::Direct].map(|place| {
        let lines = run(image, place);
        println!("{place:?}: {lines:#?}");
        lines
    })
}

/// The line of a loop, computed here.
fn line(name: &str, target: u32, steps: u64) -> String {
    format!("{name} to {target}: {:016x}", trajectory(f64::from(target), steps, smoothed))
}

/// Each of them gets what the host gets, bit for bit, though each is cut off by the others again and again.
#[test]
fn loops_that_share_a_core_compute_what_the_host_computes() {
    const STEPS: u64 = 1_500;
    for said in said(&instance(CONTROL, STEPS, [true, true], STEPS)) {
        for expected in [line("control", 40, STEPS), line("alone", 25, STEPS), line("filter", 60, STEPS)] {
            assert!(said.contains(&expected), "{expected}: {said:?}");
        }
        assert!(said.contains(&"3 + 40 = Ok(43)".to_owned()), "{said:?}");
    }
}

/// CH-61: patterns in q0 to q31, FPCR and FPSR on both sides of calls, while others compute: a callee finds zeros, its caller nothing of the callee's, and nobody loses its own to who cuts it off.
#[test]
fn patterns_stay_on_their_side_of_a_call() {
    for said in said(&instance(PATTERNS, 60, [true, true], 1_500)) {
        assert_eq!(numbers(&said, "patterns: "), [0, 0, 0, 0]);
    }
}

/// CH-4, CH-61: a component in C computes what the host computes, with what it needs in registers that a function keeps across each call of one in Rust, which leaves patterns in all of them; and who
/// calls it from Rust finds nothing of it.
#[test]
fn a_component_in_c_computes_calls_and_is_called() {
    const STEPS: u64 = 400;
    let word = trajectory(50.0, STEPS, smoothed);
    for said in said(&described(&instance_in_c(STEPS, true)).bytes) {
        assert!(said.contains(&format!("in C: {word}")), "{word}: {said:?}");
        assert_eq!((numbers(&said, "in C, callee found: "), numbers(&said, "in C, refused: ")), (vec![0], vec![0]));
        assert_eq!(numbers(&said, "patterns: "), [0, 0, 0, 0], "{said:?}");
    }
}

/// A program in C that was built with floating point and does not declare it is refused as one in Rust is.
#[test]
fn a_component_in_c_declares_it_as_one_in_rust() {
    let text = instance_in_c(1, false);
    let refused = load_native_text(Path::new("test.kernel.toml"), &text, &Options::from_environment(None));
    let report = refused.map(|_| ()).expect_err("nobody would keep its registers").to_text(false);
    assert!(report.starts_with("error[BH1295]: `component:c-loop.elf` uses floating-point registers"), "{report}");
}

/// Where it is not declared its use is a fault of the component: of one that runs, and of one that is called by who declares it and has just used it.
#[test]
fn its_use_is_a_fault_where_it_is_not_declared() {
    let fault = |said: &[String], component: u64| {
        let begins = format!("kernel: component {component:#x}, ");
        said.iter().filter(|line| line.starts_with(&begins) && line.contains(", fault 0x3,")).count()
    };
    for said in said(&instance(CONTROL, 10, [false, true], 500)) {
        assert_eq!(fault(&said, 0), 1, "{said:?}");
        assert!(said.contains(&line("alone", 25, 500)) && said.contains(&line("filter", 60, 500)), "{said:?}");
    }
    for said in said(&instance(PATTERNS, 5, [true, false], 500)) {
        assert_eq!((fault(&said, 2), numbers(&said, "patterns: ")), (1, vec![0, 0, 0, 5]), "{said:?}");
        assert!(said.contains(&line("alone", 25, 500)), "{said:?}");
    }
}

/// What it costs who uses them, in instructions, with the look at the counter: the first use behind a call of the kernel, and a call between two that compute, with a use on both sides.
#[test]
fn a_use_behind_an_entry_costs_one_exception() {
    let image = instance(COUNTS, 200, [true, true], 0);
    let counted = [Place::Board, Place::Direct].map(|place| rows(&run(&image, place)));
    println!("{counted:#?}");
    for counted in &counted {
        let least = |name: &str| counted.iter().find(|one| one.name == name).map_or(0, |one| one.least);
        assert!((1..=250).contains(&least("opened")), "{counted:?}");
        assert!((1..=750).contains(&least("computing-call")), "{counted:?}");
    }
}
