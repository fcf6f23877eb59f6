//! Storms to a vCPU that shares its core and is away: the guest that has the core meanwhile is entered at most once by each kind, and by nothing
//! that is no message to that vCPU (MZ-17, H24).

use bulkhead_abi::observe::Counter;
use bulkhead_system_tests::siblings::{AT_ONCE, AWAKE, NEVER_LOADED, PAIR, SEND, SWITCH_ON, Stage, Storm};

const STORM: u64 = 100_000;
/// Pairs of CPU_ON and CPU_OFF: each is a start with all that belongs to it, some 100 times an interrupt. With 100,000 the counts were the same.
const PAIRS: u64 = 2_000;
/// The same of a vCPU that shares its core.
const OWN_PAIRS: u64 = 1_000;

/// An entry that changes nobody's turn, in instructions: `./x bench costs.interrupt_entry`.
const ENTRY: u64 = bulkhead_analysis::costs::RECORDED.interrupt_entry;

/// Entries on the keeper's core, what it lost by them, and what succeeded.
fn cost(storm: Storm) -> (u64, u64, u64) {
    println!("{storm:?}");
    (storm.entries, storm.lost, storm.done)
}

/// The target is on, was loaded, and has used its budget: of each storm the first interrupt enters the keeper's core.
#[test]
fn storms_to_a_sibling_that_has_used_its_budget() {
    let mut stage = Stage::away(|_| vec![]);
    let present = stage.word("attacker", AWAKE);
    let sent = stage.storm(SEND, 1, STORM);
    assert_eq!((sent.entries, sent.done), (1, STORM), "the first one says what is to be decided");
    assert!(sent.lost <= ENTRY, "the keeper lost {} instructions", sent.lost);
    assert_eq!(cost(stage.storm(SEND, 1, STORM)), (0, 0, STORM), "in the same absence");
    assert_eq!(cost(stage.storm(SWITCH_ON, 1, STORM)), (0, 0, 0), "it is on");
    assert_eq!(cost(stage.storm(PAIR, 2, PAIRS)), (0, 0, PAIRS), "reports of another sibling");
    assert_eq!(stage.word("attacker", AWAKE), present, "vCPU 1 was away all the time");
    assert_eq!(stage.running.counter("attacker", Counter::SendSgi), 2 * STORM);
}

/// The start of the target waits for a turn: one entry for the first CPU_ON, one for what is posted behind it, none for anything
/// that another sibling reports meanwhile.
#[test]
fn storms_to_a_sibling_whose_start_waits() {
    let mut stage = Stage::new(NEVER_LOADED, |_| vec![]);
    let started = stage.storm(SWITCH_ON, 1, STORM);
    assert_eq!((started.entries, started.done), (1, 1), "the others are told that it is pending");
    assert!(started.lost <= ENTRY, "the keeper lost {} instructions", started.lost);
    assert_eq!(
        cost(stage.storm(PAIR, 2, PAIRS)),
        (0, 0, PAIRS),
        "each report looks for starts that nobody has heard of"
    );
    let sent = stage.storm(SEND, 1, STORM);
    assert_eq!((sent.entries, sent.done), (1, STORM), "the first one");
    assert!(sent.lost <= ENTRY, "the keeper lost {} instructions", sent.lost);
    assert_eq!(cost(stage.storm(SWITCH_ON, 1, STORM)), (0, 0, 0), "still pending");
    assert_eq!(stage.word("attacker", AWAKE), 0, "vCPU 1 was never loaded");
}

/// The target itself is switched on and off: each time that it is on again its core has heard of it once. Its report that it is off may
/// come behind the next start, of which its core takes the interrupt at that instant and has not said so yet: the core of vCPU 0, which cannot
/// know that, calls it once more. So a start enters twice at most; a host that stops a core between these two steps shows it.
#[test]
fn a_sibling_is_switched_on_and_off() {
    let mut stage = Stage::new(AT_ONCE, |_| vec![]);
    let pairs = stage.storm(PAIR, 1, OWN_PAIRS);
    assert_eq!(pairs.done, OWN_PAIRS);
    assert!(pairs.entries <= 2 * OWN_PAIRS, "{} entries by {OWN_PAIRS} starts", pairs.entries);
    assert_eq!(stage.word("attacker", AWAKE), 0);
}

/// Bytes of the stack that nested calls may take: half of what even a core that is not shared has.
const MOST_STACK: u64 = 2 << 10;

/// A call to one that is loaded takes another interrupt before it is ended, which may be a call as well: the deepest that the monitor's stack is used
/// by siblings is far from its end.
#[test]
fn calls_inside_of_calls_leave_the_stack_room() {
    let mut stage = Stage::two_at_one_core();
    let (calls, starts) = (stage.stack_used_by(STORM, 0), stage.stack_used_by(0, 50));
    let nested = stage.stack_used_by(STORM, OWN_PAIRS);
    println!("of {} bytes calls use {calls}, starts {starts}, and both together {nested}", stage.stack_bytes());
    assert!(calls > 0 && starts > 0 && nested >= calls.max(starts), "{calls}, {starts} and both {nested}");
    assert!(nested <= MOST_STACK && MOST_STACK <= stage.stack_bytes() / 2, "{nested} bytes");
}
