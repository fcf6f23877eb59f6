//! Channels between native guests: order, doorbells, the limiter, and who may write what.

use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::hypercall::{CALL_DOORBELL, INVALID_PARAMETERS, LIMITED, SUCCESS};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::status::{REASON_DATA_ABORT, STATE_RUNNING, StatusPage};
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET};
use bulkhead_guest_abi::guest::{GUEST_INFORMATION, GuestInformation};
use bulkhead_run::End;
use bulkhead_system_tests::remote;
use bulkhead_system_tests::sharing::{Description, TICKS_PER_MILLISECOND, field};
use bulkhead_system_tests::{Remote, Running, System};
use std::mem::offset_of;

/// Number in the guest's last line, `doorbells N`.
fn doorbells(running: &Running, partition: &str) -> u64 {
    let texts = running.texts(partition);
    let number = texts.last().and_then(|line| line.strip_prefix("doorbells ")?.parse().ok());
    number.unwrap_or_else(|| panic!("{partition} printed {texts:?}"))
}

/// QV-50, QV-53, CH-30, CH-42: newest values never go back; every write rings, and the limiter lets 10 through in each
/// window of 100 ms, 10 or 11 of which are in one second.
#[test]
fn newest_values_arrive_and_the_limiter_holds() {
    let mut running = System::named("channels").start_exact(0);
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    assert_eq!(running.texts("reader")[1], "listener saw values up to 1000 in order");
    let (sent, limited) =
        (running.counter("control", Counter::DoorbellSent), running.counter("control", Counter::DoorbellLimited));
    assert_eq!(sent + limited, 1000, "one doorbell per period");
    assert!((100..=110).contains(&sent), "{sent} doorbells let through");
    let received = doorbells(&running, "reader");
    println!("{sent} doorbells sent, {limited} limited, {received} interrupts received");
    assert!(received <= sent && received >= 10, "{received} received of {sent}");
    assert_eq!(running.counter("control", Counter::Interrupt), 0);
}

/// QV-50, QV-53, CH-11, CH-31: messages arrive in order, and a receiver that sleeps until its doorbell rings misses none: data
/// first, doorbell second.
#[test]
fn messages_arrive_in_order_by_doorbell_alone() {
    let mut running = System::named("queue").start();
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    assert_eq!(running.texts("sender")[1], "listener sent 500 in order");
    assert_eq!(running.texts("receiver")[1], "listener received 500 in order");
    assert_eq!(running.counter("sender", Counter::DoorbellSent), 500);
    assert_eq!(running.counter("sender", Counter::DoorbellLimited), 0);
    assert!((1..=500).contains(&doorbells(&running, "receiver")));
}

/// CH-11, CH-31: what the limiter holds back is the notification, never the data.
#[test]
fn limited_doorbells_lose_no_message() {
    let changes = [("doorbell = true", "doorbell = { limit = 1, per = \"1 s\" }"), (" greedy=1", "")];
    let mut running = System::changed("queue", &changes).start();
    assert_eq!(running.end(), End::AllEnded);
    assert_eq!(running.texts("receiver")[1], "listener received 500 in order");
    assert!(running.counter("sender", Counter::DoorbellLimited) > 400);
    running.assert_no_crash();
}

/// Guest address of the partition's first channel window, as its information page says.
fn window(guest: &mut Remote, running: &mut Running) -> u64 {
    let place = offset_of!(GuestInformation, ports) + offset_of!(PortInformation, window);
    guest.load(running, GUEST_INFORMATION.0 + place as u64)
}

fn start() -> (Running, Remote, Remote) {
    let mut running = System::with_programs("window", &[], &[("remote", &remote::program())]).start();
    let source = Remote::new(&mut running, "source");
    let destination = Remote::new(&mut running, "destination");
    (running, source, destination)
}

/// Lets a guest store where it may not, and waits for its restart.
fn store_faults(running: &mut Running, guest: &mut Remote, partition: &str, address: u64) {
    let generation = running.status(partition).generation;
    guest.store_and_fault(running, address, 1);
    let status = running.wait_for_status(partition, "a fault and a restart", |status| {
        status.state == STATE_RUNNING && status.generation == generation + 1
    });
    assert_eq!((status.fault.reason, status.fault.guest_address), (REASON_DATA_ABORT, address), "{partition}");
    guest.forget();
}

/// QV-50, QV-8: every page of a channel has one writer. Each end reads all of it and writes its own pages alone.
#[test]
fn each_page_of_a_channel_has_one_writer() {
    let (mut running, mut source, mut destination) = start();
    let at = window(&mut source, &mut running);
    assert_eq!(window(&mut destination, &mut running), at, "both ends see it at the same place");
    source.store(&mut running, at + CHANNEL_WRITER_OFFSET + 8, 0x1111);
    destination.store(&mut running, at + CHANNEL_READER_OFFSET + 8, 0x2222);
    assert_eq!(destination.load(&mut running, at + CHANNEL_WRITER_OFFSET + 8), 0x1111);
    assert_eq!(source.load(&mut running, at + CHANNEL_READER_OFFSET + 8), 0x2222);
    for offset in [CHANNEL_STATUS_OFFSET, CHANNEL_READER_OFFSET] {
        store_faults(&mut running, &mut source, "source", at + offset);
    }
    for offset in [CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET] {
        store_faults(&mut running, &mut destination, "destination", at + offset);
    }
    // Behind the last page there is nothing for anybody.
    let end = at + CHANNEL_WRITER_OFFSET + PAGE_BYTES;
    store_faults(&mut running, &mut source, "source", end);
    store_faults(&mut running, &mut destination, "destination", end);
    running.assert_no_crash();
}

/// QV-74, SG-62: a restart clears what the partition wrote into its channels, and its peer sees a new generation.
#[test]
fn a_peer_sees_the_restart_and_an_empty_channel() {
    let (mut running, mut source, mut destination) = start();
    let at = window(&mut source, &mut running);
    let generation = at + CHANNEL_STATUS_OFFSET + offset_of!(StatusPage, generation) as u64;
    let state = at + CHANNEL_STATUS_OFFSET + offset_of!(StatusPage, state) as u64;
    source.store(&mut running, at + CHANNEL_WRITER_OFFSET + 8, 0x1111);
    destination.store(&mut running, at + CHANNEL_READER_OFFSET + 8, 0x2222);
    assert_eq!(destination.load(&mut running, generation), 1);
    store_faults(&mut running, &mut source, "source", 0);
    assert_eq!(destination.load(&mut running, generation), 2);
    assert_eq!(destination.load(&mut running, state), u64::from(STATE_RUNNING));
    assert_eq!(destination.load(&mut running, at + CHANNEL_WRITER_OFFSET + 8), 0, "what the source wrote is gone");
    assert_eq!(
        destination.load(&mut running, at + CHANNEL_READER_OFFSET + 8),
        0x2222,
        "what the destination wrote stays"
    );
    assert_eq!(running.status("destination").generation, 1);
    running.assert_no_crash();
}

/// CH-30, CH-31, CH-37, CH-42: two notifications in ten minutes are let through; the sender is told. Nobody rings what it has not.
#[test]
fn the_sender_is_told_when_it_is_limited() {
    let (mut running, mut source, mut destination) = start();
    for expected in [SUCCESS, SUCCESS, LIMITED, LIMITED, LIMITED] {
        assert_eq!(source.call(&mut running, CALL_DOORBELL, 0)[0], expected);
    }
    for index in [1, 8, u64::MAX] {
        assert_eq!(source.call(&mut running, CALL_DOORBELL, index)[0], INVALID_PARAMETERS, "doorbell {index}");
    }
    assert_eq!(destination.call(&mut running, CALL_DOORBELL, 0)[0], INVALID_PARAMETERS, "the other end has none");
    assert_eq!(running.counter("source", Counter::DoorbellSent), 2);
    assert_eq!(running.counter("source", Counter::DoorbellLimited), 3);
    running.assert_no_crash();
}

/// When the storms below begin and end.
const STORM_MS: (u64, u64) = (1000, 2000);
/// Rings of the bystander, and how many its own limit lets through in one window: it is never reached.
const RINGS: u64 = 100;

fn ports(ports: &[(&str, &str)]) -> String {
    let port = |(name, direction): &(&str, &str)| {
        format!("{{ name = \"{name}\", direction = \"{direction}\", kind = \"sampling\", message_bytes = 64 }}")
    };
    format!("ports = [ {} ]", ports.iter().map(port).collect::<Vec<_>>().join(", "))
}

fn bell(source: &str, destination: &str, limit: &str) -> String {
    format!(
        "[[channel]]\nname = \"{source}\"\nsource = \"{source}.out\"\ndestination = \"{destination}\"\ndoorbell = {limit}"
    )
}

/// Two stormers on two cores and one receiver, which limits both together; a bystander rings one of the stormers, which
/// limits that channel by itself.
fn storms_from_two_cores() -> System {
    let storm = format!("role=storm start_us={} end_us={}", STORM_MS.0 * 1000, STORM_MS.1 * 1000);
    let take = format!("role=relay bells=1000000 end={}", (STORM_MS.1 + 100) * TICKS_PER_MILLISECOND);
    let limit = "doorbell_limit = { limit = 10, per = \"100 ms\" }";
    let receiver = format!("{limit}\n{}", ports(&[("first", "destination"), ("second", "destination")]));
    let calm = format!("role=storm start_us={} rings={RINGS} pause_ns=2000000", STORM_MS.0 * 1000);
    let own_limit = format!("{{ limit = {RINGS}, per = \"100 ms\" }}");
    Description::new("doorbell-limit")
        .guest("receiver", 0, "experiment", &take, &receiver)
        .guest("first", 1, "experiment", &storm, &ports(&[("out", "source"), ("in", "destination")]))
        .guest("second", 2, "experiment", &storm, &ports(&[("out", "source")]))
        .guest("bystander", 3, "experiment", &calm, &ports(&[("out", "source")]))
        .table(&bell("first", "receiver.first", "true"))
        .table(&bell("second", "receiver.second", "true"))
        .table(&bell("bystander", "first.in", &own_limit))
        .build()
}

/// CH-32, CH-35, CH-36: of two storms at the same time on two cores no more comes through together than the receiver's
/// limit allows, though each of them alone would use it up; who rings somebody else is not counted there.
#[test]
fn a_receivers_limit_holds_for_all_senders_together() {
    let system = storms_from_two_cores();
    let plan = system.plan();
    let [first, second, other] = [1, 2, 3].map(|partition| plan.partitions[partition].doorbells[0]);
    assert_eq!((first.words, first.period_ticks, first.events), (second.words, second.period_ticks, second.events));
    assert_ne!(other.words, first.words, "the bystander rings another receiver");
    let mut running = system.start();
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    let sent = ["first", "second"].map(|stormer| running.counter(stormer, Counter::DoorbellSent));
    let limited = ["first", "second"].map(|stormer| running.counter(stormer, Counter::DoorbellLimited));
    let windows = (STORM_MS.1 - STORM_MS.0) * TICKS_PER_MILLISECOND / first.period_ticks;
    let most = (windows + 2) * u64::from(first.events);
    let through = sent[0] + sent[1];
    let taken = field(&running.printed("receiver", "relay "), "bells");
    println!("{sent:?} sent, {limited:?} limited, {taken} taken; at most {most} in {windows} windows");
    assert!(through <= most, "{through} came through, at most {most}");
    // Less than all of it comes through only while the host stands still for whole windows, as a busy one may.
    assert!(through > most / 4, "{through} came through, {most} are allowed");
    assert!(limited.iter().all(|count| *count > 1000), "{limited:?} rings beyond the limit make two storms");
    assert!((1..=through).contains(&taken), "{taken} interrupts taken of {through}");
    let calm = [Counter::DoorbellSent, Counter::DoorbellLimited].map(|counter| running.counter("bystander", counter));
    assert_eq!(calm, [RINGS, 0], "the bystander's own limit is never reached");
}
