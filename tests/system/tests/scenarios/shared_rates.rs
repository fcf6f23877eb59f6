//! Shared cores: budget and period of either end of a channel set the rate of its messages (QV-52), and others' damage does not (QV-53).

use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::status::REASON_DATA_ABORT;
use bulkhead_guest_abi::channel::CHANNEL_WRITER_OFFSET;
use bulkhead_guest_abi::guest::{GUEST_INFORMATION, GuestInformation};
use bulkhead_system_tests::Running;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::{
    BY_PRIORITY, Description, EXCHANGE, Supply, TICKS_PER_MILLISECOND as MS, WAY_IN, field, finish,
};
use std::mem::offset_of;

const START_MS: u64 = 100;
const END_MS: u64 = 1300;
/// Instructions for each message of the end that is slow here.
const SLOW: u64 = 2000;
/// And of the one that waits for it.
const QUICK: u64 = 10;
/// Windows in which the third guest's share is taken: a whole number of periods of every pair.
const WINDOW_MS: u64 = 120;
/// Budgets and periods in milliseconds: the same share by other periods, and others by the same period. Each is a part of 1200 ms.
const PAIRS: [(u64, u64); 6] = [(2, 20), (4, 40), (4, 20), (6, 20), (6, 60), (8, 20)];

fn server(priority: u32, (budget, period): (u64, u64)) -> String {
    format!(
        "servers = [ {{ priority = {priority}, rule = \"sporadic\", budget = \"{budget} ms\", period = \"{period} ms\" }} ]"
    )
}

fn port(direction: &str) -> String {
    format!(
        "ports = [ {{ name = \"queue\", direction = \"{direction}\", kind = \"queuing\", message_bytes = 64, depth = 512 }} ]"
    )
}

fn stream(work: u64, more: &str) -> String {
    format!("work={work} start_us={} end_us={}{more}", START_MS * 1000, END_MS * 1000)
}

/// A sender, a receiver, and a guest below that computes and has to do with neither.
fn run(sender: (u64, u64), send_work: u64, receiver: (u64, u64), receive_work: u64) -> Running {
    let description = Description::new("shared-rates").schedule(0, BY_PRIORITY);
    let ends = [
        ("sender", server(1, sender), port("source"), send_work),
        ("receiver", server(2, receiver), port("destination"), receive_work),
    ];
    let description = ends.iter().fold(description, |description, (name, server, port, work)| {
        description.guest(name, 0, "stream", &stream(*work, ""), &format!("{server}\n{port}"))
    });
    let hog = format!("role=hog start_us={} end_us={}", START_MS * 1000, END_MS * 1000);
    let description = description.guest("rest", 0, "experiment", &hog, "servers = [ { priority = 30 } ]");
    let channel = "[[channel]]\nname = \"queue\"\nsource = \"sender.queue\"\ndestination = \"receiver.queue\"";
    finish(&description.table(channel).build())
}

/// Server of the end that waits for the other one.
const AMPLE: (u64, u64) = (6, 20);

/// Messages between start and end, with the server of one end as given.
fn messages(slow: &str, pair: (u64, u64)) -> (u64, Running) {
    let running = match slow {
        "sender" => run(pair, SLOW, AMPLE, QUICK),
        _ => run(AMPLE, QUICK, pair, SLOW),
    };
    (field(&running.printed("receiver", "stream received"), "received"), running)
}

/// Own time of the slow end in the whole run.
fn own_ticks((budget, period): (u64, u64)) -> u64 {
    (END_MS - START_MS) / period * budget * MS
}

/// QV-52: whichever end is the slow one, messages come in proportion to its budget by its period; each takes the same of its time.
#[test]
fn budget_and_period_of_either_end_set_the_rate() {
    for slow in ["sender", "receiver"] {
        let mut rates = Vec::new();
        for pair in PAIRS {
            let (count, running) = messages(slow, pair);
            // What one message takes of the slow end's budget, exchanges included.
            let each = own_ticks(pair) as f64 / count as f64;
            let own =
                field(&running.printed(slow, if slow == "sender" { "stream sent" } else { "stream received" }), "each");
            println!("{slow} {pair:?}: {count} messages, {each:.1} of its instructions for each, {own} uninterrupted");
            // Of a budget an exchange takes its length twice at most, and of the whole run a budget may be cut off at either end.
            let exchanges = 2.0 * EXCHANGE as f64 / (pair.0 * MS) as f64;
            let ends = 2.0 * pair.1 as f64 / (END_MS - START_MS) as f64;
            let part = each / own as f64 - 1.0;
            assert!((-ends..=exchanges + ends).contains(&part), "{slow} {pair:?}: {each} for {own}");
            assert!(own >= SLOW, "{slow}: a message takes {own} instructions, its work alone {SLOW}");
            rates.push((pair, count));
            // Who does not communicate keeps what both ends leave, but for their exchanges and what of a period is cut off at either end.
            let rest = Supply::of(&running, "rest");
            let least = rest.least_in(WINDOW_MS * MS);
            let (used, lost) = [pair, AMPLE].iter().fold((0, 0), |(used, lost), (budget, period)| {
                let periods = WINDOW_MS / period;
                (used + periods * budget * MS, lost + budget * MS + (periods + 1) * (WAY_IN + Supply::BLUR))
            });
            println!("  the third guest has {least} ticks in {WINDOW_MS} ms, {} by the budgets", WINDOW_MS * MS - used);
            assert!(least + lost + used >= WINDOW_MS * MS, "{slow} {pair:?}: {least} ticks");
        }
        // Four times the share is four times the rate: nothing else holds the messages up.
        let count_of =
            |wanted: (u64, u64)| rates.iter().find(|(pair, _)| *pair == wanted).map_or(0, |(_, count)| *count);
        let ratio = count_of((8, 20)) as f64 / count_of((2, 20)) as f64;
        assert!((3.9..=4.25).contains(&ratio), "{slow}: {ratio:.2} times the messages for four times the budget");
    }
}

/// A guest that fills the head of its own end of a channel with ones, leaves it so for 20 ms, and then reads where it may not.
fn liar() -> Program {
    let place = offset_of!(GuestInformation, ports) + offset_of!(PortInformation, window);
    let mut program = Program::new();
    program.constant(0, GUEST_INFORMATION.0 + place as u64).load(0, 0, 0).constant(1, CHANNEL_WRITER_OFFSET);
    // ADD x0, x0, x1
    program.word(0x8b01_0000).constant(2, u64::MAX);
    for offset in (0..64).step_by(8) {
        program.store(2, 0, offset);
    }
    program.barrier().counter(3).constant(4, 20 * MS);
    // ADD x3, x3, x4
    program.word(0x8b04_0063);
    let again = program.here();
    program.counter(5).compare(5, 3).branch_below(again);
    program.constant(0, 0).load(1, 0, 0);
    program
}

/// QV-53, QV-74: a guest damages its channel, faults and is restarted, five times. The other end of that channel says that it is rubbish;
/// the messages of two others on the same core are all there, as without it, and none comes later than by a slice of a restart.
#[test]
fn damage_and_restarts_change_nothing_in_the_messages_of_others() {
    let run = |damages: bool| {
        let description = Description::unjudged("shared-rates").schedule(0, BY_PRIORITY);
        let sends = stream(QUICK, " period_us=7000");
        let rest = format!("{}\n{}", server(1, (1, 7)), port("source"));
        let description = description.guest("sender", 0, "stream", &sends, &rest);
        let rest = format!("{}\n{}", server(2, (1, 7)), port("destination"));
        let description = description.guest("receiver", 0, "stream", &stream(QUICK, " sleeps=1"), &rest);
        let mut description = description
            .table("[[channel]]\nname = \"queue\"\nsource = \"sender.queue\"\ndestination = \"receiver.queue\"\ndoorbell = true");
        if damages {
            let health = "health = { on_fault = \"restart\", max = 5, within = \"600 s\" }";
            let rest = format!("servers = [ {{ priority = 9 }} ]\n{}\n{health}", port("source"));
            description = description.program("liar", 0, "liar", &rest);
            let rest = format!("{}\n{}", server(3, (1, 10)), port("destination"));
            description = description.guest("reader", 0, "listener", "messages=1", &rest);
            let channel = "[[channel]]\nname = \"lies\"\nsource = \"liar.queue\"\ndestination = \"reader.queue\"";
            description = description.table(channel);
        }
        let running = finish(&description.build_with(&[("liar", &liar())]));
        let line = running.printed("receiver", "stream received");
        println!("damage {damages}: {line}");
        if damages {
            let status = running.status("liar");
            assert_eq!((status.restarts, status.fault.reason), (5, REASON_DATA_ABORT));
            assert!(running.texts("reader").contains(&"listener failed: the source's memory is rubbish".to_owned()));
        }
        (field(&line, "received"), field(&line, "longest"))
    };
    let (alone, beside) = (run(false), run(true));
    assert_eq!(beside.0, alone.0, "messages received");
    assert!(beside.0 >= (END_MS - START_MS) / 7 - 2);
    assert!(beside.1 <= alone.1 + EXCHANGE, "{} ticks instead of {}", beside.1, alone.1);
}

/// QV-52: a receiver above others that compute has its messages sooner than one below them.
#[test]
fn a_higher_priority_of_the_receiver_lowers_the_latency() {
    let longest = |priority: u32| {
        let description = Description::new("shared-rates").schedule(0, BY_PRIORITY);
        let sends = stream(QUICK, " period_us=7000");
        let description =
            description.guest("sender", 0, "stream", &sends, &format!("{}\n{}", server(1, (1, 7)), port("source")));
        let takes = stream(QUICK, " sleeps=1");
        let rest = format!("{}\n{}", server(priority, (1, 7)), port("destination"));
        let description = description.guest("receiver", 0, "stream", &takes, &rest);
        let hog = format!("role=hog start_us={} end_us={}", START_MS * 1000, END_MS * 1000);
        let description = description.guest("rest", 0, "experiment", &hog, &server(5, (4, 10)));
        let channel = "[[channel]]\nname = \"queue\"\nsource = \"sender.queue\"\ndestination = \"receiver.queue\"\ndoorbell = true";
        let running = finish(&description.table(channel).build());
        let line = running.printed("receiver", "stream received");
        println!("priority {priority}: {line}");
        assert!(field(&line, "received") >= (END_MS - START_MS) / 7 - 2);
        field(&line, "longest")
    };
    let (above, below) = (longest(2), longest(8));
    // The sender runs after its doorbell until it sleeps, then there is one exchange; or the hog has its whole budget first.
    assert!(above <= 2 * EXCHANGE, "{above} ticks above the other guest");
    assert!((2 * MS..=4 * MS + 4 * EXCHANGE).contains(&below), "{below} ticks below the other guest");
}
