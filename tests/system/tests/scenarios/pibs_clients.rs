//! A PIBS server with two clients on the machine: whose doorbell rang decides at what priority it works.

use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, EXCHANGE, TICKS_PER_MILLISECOND as MS, finish};
use bulkhead_system_tests::wakes::{Relay, Wake, Wakes, ports};

const START: u64 = 400 * MS;
/// Periods of the clients, and how often the driver is asked.
const FAST: u64 = 20 * MS;
const SLOW: u64 = 100 * MS;
const SLOW_REQUESTS: u64 = 20;
const FAST_REQUESTS: u64 = SLOW_REQUESTS * SLOW / FAST;
/// Between two requests of the fast client, when the one before is paid back: 2 ms at 40 % take 5 ms.
const SLOW_OFFSET: u64 = 10 * MS;
/// Work of the driver at each request, and of the guest between the clients, which wakes in the middle of each.
const WORK: u64 = 2 * MS;
const BETWEEN: u64 = MS;

/// The wake-ups of the driver that one client's doorbells caused, in order, but the last one: behind that one its client says what it saw.
fn of_client<'w>(driver: &'w Wakes, client: &'w Wakes) -> impl Iterator<Item = (&'w Wake, &'w Wake)> {
    client.all.iter().take(client.all.len() - 1).map(|rung| {
        let entered = driver.all.iter().find(|wake| wake.entered > rung.rang);
        (rung, entered.expect("each request is served"))
    })
}

/// QV-32, QV-33, QV-34: the driver works at the priority of the client whose doorbell rang. For the fast one it is served at once and
/// computes through the wake-ups of the guest between the two; for the slow one that guest pre-empts it.
#[test]
fn the_client_whose_doorbell_rang_sets_the_priority() {
    let server = |priority: u32, budget: &str, period: &str| {
        format!(
            "{{ name = \"main\", priority = {priority}, rule = \"sporadic\", budget = \"{budget}\", period = \"{period}\" }}"
        )
    };
    let description = Description::unjudged("pibs-clients").schedule(0, BY_PRIORITY);
    let io = "servers = [ { rule = \"pibs\", share = \"40 %\", clients = [\"fast.main\", \"slow.main\"] } ]";
    let end = START + SLOW_REQUESTS * SLOW;
    let driver = Relay::by_bells(FAST_REQUESTS + SLOW_REQUESTS, end).with("work", WORK);
    let description = description.relay("driver", &driver, &format!("{io}\n{}", ports(0..0, 0..2)));
    let client = |number: u32, server: String| format!("servers = [ {server} ]\n{}", ports(number..number + 1, 0..0));
    let fast = Relay::by_timer(START, FAST, FAST_REQUESTS).with("rings", 1);
    let description = description.relay("fast", &fast, &client(0, server(1, "2 ms", "20 ms")));
    let slow = Relay::by_timer(START + SLOW_OFFSET, SLOW, SLOW_REQUESTS).with("rings", 1);
    let description = description.relay("slow", &slow, &client(1, server(7, "10 ms", "100 ms")));
    let between = Relay::by_timer(START + MS, FAST / 2, 2 * FAST_REQUESTS).with("work", BETWEEN);
    let description = description.relay("between", &between, "servers = [ { priority = 4 } ]");
    let running = finish(&description.bell(0, "fast", "driver").bell(1, "slow", "driver").build());

    let [driver, fast, slow, between] = ["driver", "fast", "slow", "between"].map(|name| Wakes::of(&running, name));
    assert_eq!((fast.sent, slow.sent, driver.bells), (FAST_REQUESTS, SLOW_REQUESTS, FAST_REQUESTS + SLOW_REQUESTS));
    let away = |wake: &Wake| wake.back - wake.left;
    for (rung, served) in of_client(&driver, &fast) {
        assert!(served.entered - rung.rang <= 2 * EXCHANGE, "the fast client waits: {rung:?} {served:?}");
        assert!(away(served) < BETWEEN, "its work is pre-empted from below the client: {served:?}");
    }
    for (rung, served) in of_client(&driver, &slow) {
        assert!(served.entered - rung.rang <= 2 * EXCHANGE, "nobody else is ready: {rung:?} {served:?}");
        assert!(away(served) >= BETWEEN, "its work goes before more important work: {served:?}");
    }
    // The same from the other side: the guest between waits for the fast client's work and not for the slow one's.
    let late: Vec<u64> = between.all.iter().map(Wake::late).collect();
    assert!(late.iter().filter(|late| **late >= WORK - MS - EXCHANGE).count() as u64 >= FAST_REQUESTS, "{late:?}");
    for wake in between.all.iter().filter(|wake| wake.date % SLOW == (START + SLOW_OFFSET + MS) % SLOW) {
        assert!(wake.late() <= EXCHANGE, "it waits for the slow client's work: {wake:?}");
    }
}
