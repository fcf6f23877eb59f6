//! Shared cores: data whose doorbell a limiter held back is found by the receiver's next look, within the bound of `check`.

use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, TICKS_PER_MILLISECOND as MS, finish};
use bulkhead_system_tests::wakes::{Relay, Wakes};
use bulkhead_timing::{Assumptions, bounds};

/// When every guest has been prepared.
const START: u64 = 150 * MS;
const MESSAGES: u64 = 300;
/// Between two messages: no divisor of the time between two looks, so that messages come at all distances from the next one.
const MESSAGE_TICKS: u64 = 3 * MS + 14_321;
const LOOK_TICKS: u64 = 10 * MS;
const NANOSECONDS_PER_TICK: u64 = 16;

/// CH-38: a sender rings far beyond its limit, and the receiver looks at its port every 10 ms by a timer of its own, on a server
/// below the sender's. The worst time from a message to the end of the look that finds it keeps the bound, and comes near to it.
#[test]
fn what_was_held_back_is_found_by_the_next_look() {
    let port = |name: &str, direction: &str, rest: &str| {
        format!(
            "ports = [{{ name = \"{name}\", direction = \"{direction}\", kind = \"sampling\", message_bytes = 8{rest} }}]"
        )
    };
    let receiver = Relay::by_timer(START, LOOK_TICKS, 110).with("work", MS * 4 / 10);
    let sender = Relay::by_timer(START + MS, MESSAGE_TICKS, MESSAGES).with("rings", 1);
    let trusted = |priority: u32, budget: &str, period: &str| {
        format!(
            "trust = \"trusted\"\nservers = [{{ priority = {priority}, budget = \"{budget}\", period = \"{period}\" }}]"
        )
    };
    let calls = "tasks = [{ name = \"call\", cost = \"50 us\", period = \"3200 us\" }]";
    let system = Description::new("shared-looks")
        .schedule(0, BY_PRIORITY)
        .relay(
            "receiver",
            &receiver,
            &format!(
                "{}\n{}\nroute = {{ handler = \"500 us\" }}",
                trusted(2, "2 ms", "4 ms"),
                port("in", "destination", ", polls = \"10 ms\"")
            ),
        )
        .relay("sender", &sender, &format!("{}\n{calls}\n{}", trusted(1, "400 us", "3 ms"), port("out", "source", "")))
        .table(
            "[[channel]]\nname = \"orders\"\nsource = \"sender.out\"\ndestination = \"receiver.in\"\n\
             doorbell = { limit = 1, per = \"50 ms\" }",
        )
        .build();
    let bound = bounds(&system.model, &Assumptions::default()).channels.remove(0);
    let held_back = bound.held_back_ns.expect("the receiver says how often it looks") / NANOSECONDS_PER_TICK;
    let running = finish(&system);
    let (sent, looks) = (Wakes::of(&running, "sender"), Wakes::of(&running, "receiver"));
    assert_eq!(sent.all.len() as u64, MESSAGES);
    assert!((10..=30).contains(&sent.sent), "{} of {MESSAGES} doorbells got through", sent.sent);
    assert_eq!(looks.bells, sent.sent, "each that got through woke the receiver");
    let found = |rang: u64| looks.all.iter().find(|look| look.entered >= rang).map(|look| look.done - rang);
    let worst = sent.all.iter().map(|one| found(one.rang).expect("it is found")).max().unwrap_or(0);
    assert!(worst <= held_back, "a message was found after {worst} ticks, and the bound is {held_back}");
    assert!(worst * 3 >= held_back * 2, "the bound of {held_back} says little beside {worst}");
    // Without looks nobody would have found most of them: a doorbell comes every 50 ms.
    assert!(worst < 50 * MS / 2);
}
