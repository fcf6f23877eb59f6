//! Exits in steady state, exactly: two runs on a virtual clock that differ in length alone, and what the longer one adds.

use bulkhead_abi::observe::{COUNTER_NAMES, Counter};
use bulkhead_run::End;
use bulkhead_system_tests::{System, sharing};

/// Counters of a whole run to its end, by counter number.
fn counters(system: &System, partition: &str) -> Vec<u64> {
    let mut running = system.start_exact(0);
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    COUNTER_NAMES.iter().map(|(counter, _)| running.counter(partition, *counter)).collect()
}

/// What the longer run has more, as (name, difference), without zeros.
fn difference(shorter: &[u64], longer: &[u64]) -> Vec<(&'static str, u64)> {
    let all = COUNTER_NAMES.iter().zip(shorter.iter().zip(longer));
    all.map(|((_, name), (short, long))| (*name, long - short)).filter(|(_, more)| *more != 0).collect()
}

fn name(counter: Counter) -> &'static str {
    COUNTER_NAMES.iter().find(|(known, _)| *known == counter).expect("every counter has a name").1
}

/// The controller at 100 Hz for this many periods, without a line in between.
fn control(periods: u64, mode: &str) -> System {
    let arguments = format!("periods={periods} report=1000000");
    let mode = format!("interrupts = \"{mode}\"");
    System::changed("control", &[("period_us=5000 report=20", &arguments), ("interrupts = \"direct\"", &mode)])
}

/// QV-5, CF-2, MZ-4, MZ-19, MZ-E6: in `direct` mode ten seconds of a control loop cost no exit of any kind, not even for its 1000 interrupts.
#[test]
fn a_direct_guest_has_no_exits_in_ten_seconds() {
    let shorter = counters(&control(100, "direct"), "control");
    let longer = counters(&control(1100, "direct"), "control");
    assert_eq!(difference(&shorter, &longer), [], "exits and calls of 1000 periods");
}

/// MZ-2, MZ-4, MZ-19, MZ-E6: in `mapped` mode the same costs one exit per interrupt and none at its end.
#[test]
fn a_mapped_guest_has_one_exit_per_interrupt() {
    let shorter = counters(&control(100, "mapped"), "control");
    let longer = counters(&control(1100, "mapped"), "control");
    let expected = [(name(Counter::Exits), 1000), (name(Counter::Interrupt), 1000)];
    assert_eq!(difference(&shorter, &longer), expected);
}

/// The number behind a word in the last line of the guest `process`.
fn did(lines: &[String], what: &str) -> u64 {
    let line = lines.iter().find(|line| line.starts_with("process ticks="));
    sharing::field(line.unwrap_or_else(|| panic!("the guest printed {lines:?}")), what)
}

/// Runs the guest `process` for 100 ticks and for 1100; returns what the longer run adds to the counters, after it was seen that both did
/// their work.
fn process(mode: &str) -> Vec<(&'static str, u64)> {
    let mode = format!("interrupts = \"{mode}\"");
    let run = |ticks: u64| {
        let arguments = format!("ticks={ticks} ");
        let system = System::changed("process", &[("ticks=100 ", &arguments), ("interrupts = \"direct\"", &mode)]);
        let mut running = system.start_exact(0);
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        let lines = running.texts("kernel");
        assert_eq!((did(&lines, "ticks"), did(&lines, "wrong")), (ticks, 0), "{lines:?}");
        let counters = COUNTER_NAMES.iter().map(|(counter, _)| running.counter("kernel", *counter));
        (counters.collect::<Vec<u64>>(), lines)
    };
    let ((shorter, _), (longer, lines)) = (run(100), run(1100));
    println!("{lines:?}");
    let (calls, changes) = (did(&lines, "calls"), did(&lines, "changes"));
    assert!(calls >= 100_000 && changes == calls, "{calls} system calls, {changes} changes of page tables");
    for what in ["switches", "messages", "readings"] {
        assert_eq!(did(&lines, what), 1099, "{what}: one at each tick but the last");
    }
    difference(&shorter, &longer)
}

/// QV-5, MZ-2, MZ-3, MZ-4: in `direct` mode 100,000 system calls of processes at EL0, as many changes of page tables with TLB maintenance, and at
/// each of 1000 timer interrupts a change of the address space, a message and an access to a device cost no exit of any kind.
#[test]
fn processes_of_a_direct_guest_cost_no_exit() {
    assert_eq!(process("direct"), []);
}

/// QV-5, MZ-2, MZ-3: in `mapped` mode the same costs one exit for each of the interrupts.
#[test]
fn processes_of_a_mapped_guest_cost_its_interrupts_alone() {
    assert_eq!(process("mapped"), [(name(Counter::Exits), 1000), (name(Counter::Interrupt), 1000)]);
}

/// MZ-2: an SGI that a mapped guest sends to itself costs one exit; its arrival and its end cost none.
#[test]
fn a_sent_sgi_is_one_exit_more() {
    let longer = System::changed("victim", &[("lines=100\"", "lines=1100\"")]);
    let (shorter, longer) = (counters(&System::named("victim"), "victim"), counters(&longer, "victim"));
    let expected = [
        // The victim's timer, the SGI, and a look at its redistributor, once a round.
        (name(Counter::Exits), 3000),
        (name(Counter::Interrupt), 1000),
        (name(Counter::SystemRegister), 1000),
        (name(Counter::SendSgi), 1000),
        (name(Counter::Redistributor), 1000),
    ];
    assert_eq!(difference(&shorter, &longer), expected);
}

/// MZ-2, MZ-4: ten seconds of an idle Linux cost its interrupts and nothing else.
#[test]
fn an_idle_linux_exits_for_its_interrupts_alone() {
    let idle = |seconds: u32| {
        let run = format!("bulkhead.mode=hello bulkhead.run=sleep,{seconds}\"");
        counters(&System::example("linux", &[("bulkhead.mode=hello\"", &run)]), "linux")
    };
    let added = difference(&idle(1), &idle(11));
    println!("ten seconds of idle Linux: {added:?}");
    let of = |counter| added.iter().find(|(known, _)| *known == name(counter)).map_or(0, |(_, more)| *more);
    // The one byte more on the command line is printed by nobody.
    assert_eq!(of(Counter::Console), 0);
    assert!(of(Counter::Interrupt) > 0);
    assert_eq!(of(Counter::Exits), of(Counter::Interrupt) + of(Counter::SendSgi));
}
