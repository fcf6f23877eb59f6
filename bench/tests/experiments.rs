//! The short form of every experiment holds and finds what was recorded with its full form; `./x bench` runs them in full.

use bulkhead_bench::experiments::{self, Bound, Done, EXPERIMENTS, LEAST_TIGHTNESS, Length, median_tightness};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Runs an experiment, once in this program.
fn done(name: &str) -> Done {
    static DONE: Mutex<BTreeMap<&str, Arc<OnceLock<Done>>>> = Mutex::new(BTreeMap::new());
    let experiment = experiments::named(name).unwrap_or_else(|| panic!("{name} is an experiment"));
    let cell = DONE.lock().unwrap_or_else(PoisonError::into_inner).entry(experiment.name).or_default().clone();
    let run = || experiments::run(experiment, Length::Short).unwrap_or_else(|failure| panic!("{}", failure.message));
    cell.get_or_init(run).clone()
}

fn assert_holds(name: &str) {
    let done = done(name);
    println!("{}", done.text(false));
    let findings = done.findings.as_ref().unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(findings.misses(), 0, "{}", done.text(false));
    let difference = experiments::difference(&done).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(difference, None);
}

/// QV-38, SG-47, SG-48: no measured worst case is beyond its bound, and half of the bounds are reached to six tenths.
#[test]
fn bounds_hold_and_are_tight() {
    let all: Vec<Done> = EXPERIMENTS.iter().map(|experiment| done(experiment.name)).collect();
    let bounds = || all.iter().filter_map(|done| done.findings.as_ref().ok()).flat_map(|findings| &findings.bounds);
    let broken: Vec<String> = bounds().filter(|bound| !bound.holds()).map(Bound::text).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let median = median_tightness(bounds()).expect("experiments have bounds");
    println!("median tightness of {} bounds: {median:.2}", bounds().count());
    assert!(median >= LEAST_TIGHTNESS, "median tightness {median:.2}");
}

/// MZ-E1, MZ-E2, MZ-E3, MZ-E4, MZ-5, MZ-15, MZ-20, MZ-21, MZ-22: answer times by policy equal the model's.
#[test]
fn mips_rtt() {
    assert_holds("mips-rtt");
}

/// RR-03, MZ-17, MZ-23, MZ-26: a storm starves the owner's peers under the published policies and not under ours.
#[test]
fn mips_storm() {
    assert_holds("mips-storm");
}

/// SG-E5, SG-40, SG-41, SG-42, SG-45, SG-46, SG-47: delays with and without an ITask equal the model's.
#[test]
fn safeg_itask() {
    assert_holds("safeg-itask");
}

/// SG-E6: wake-up latency, and a share in every period, with an RTask.
#[test]
fn safeg_rtask() {
    assert_holds("safeg-rtask");
}

/// SG-E6, SG-E7: lateness of a program in stock Linux.
#[test]
fn safeg_linux() {
    assert_holds("safeg-linux");
}

/// SG-E5, SG-34, SG-40, SG-41, SG-42, SG-45, SG-46, SG-47: the same at EL3, as the seed had it: a payload in the secure world, the world below in its servers.
#[test]
fn secure_itask() {
    assert_holds("secure-itask");
}

/// SG-E6, SG-41, SG-42, SG-46, SG-47: delays and shares with an RTask of the payload.
#[test]
fn secure_rtask() {
    assert_holds("secure-rtask");
}

/// SG-E7, SG-80, SG-81, SG-82, SG-83, SG-84, SG-85: threads of three priorities wait as long as their latency task must, and no longer.
#[test]
fn secure_latency_tasks() {
    assert_holds("secure-latency-tasks");
}

/// SP-E2, SP-E4, SP-E5, SP-15, SP-18: what the other guest masks does not delay the RTOS.
#[test]
fn spumone_dispatch() {
    assert_holds("spumone-dispatch");
}

/// SP-E4, SP-11, SP-13, QV-15: FreeRTOS beside Linux, both as they are, each with its own scheduler, of which the description says nothing.
#[test]
fn spumone_freertos() {
    assert_holds("spumone-freertos");
}

/// SP-E3, SP-13: what a tick costs Linux, which boots and ends beside FreeRTOS as it does alone.
#[test]
fn spumone_throughput() {
    assert_holds("spumone-throughput");
}

/// QV-E10, QV-22, QV-24, QV-32, QV-34: the schedule of figure 4.
#[test]
fn quest_figure_4() {
    assert_holds("quest-fig4");
}

/// QV-22, QV-31, QV-39, QV-41, SG-48: a victim's supply is never below its bound.
#[test]
fn quest_isolation_of_time() {
    assert_holds("quest-isolation-of-time");
}

/// No experiment is left out above.
#[test]
fn every_experiment_has_a_test() {
    let source = include_str!("experiments.rs");
    for experiment in EXPERIMENTS {
        assert!(source.contains(&format!("assert_holds(\"{}\")", experiment.name)), "{}", experiment.name);
    }
}
