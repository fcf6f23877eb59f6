//! Time of the kernel on a fake core: servers with budgets, turns, the one timer, who pays for interrupts and for a change of who runs.

use bulkhead_abi::observe::{TRACE_BLOCK, TRACE_BUDGET, TRACE_SWITCH, TRACE_WAKE};
use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::Entry;
use bulkhead_arm::Intid;
use bulkhead_kernel::Kernel;
use bulkhead_kernel_abi::boot::{ComponentRow, EntryRow, ServerRow, StackRow, ThreadRow};
use bulkhead_kernel_abi::call::{Call, Flag};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind};
use bulkhead_objects::Hold;
use bulkhead_words::Rule;
use instance::{DEVICE, END_POINT, INTERRUPT, Test, sporadic, tables, unlimited};
use support::{room, time_room};

#[path = "time/instance.rs"]
mod instance;
mod support;

/// QV-21, QV-23, QV-24, QV-40: the shorter period first, as long as its budget lasts, and again when it comes back.
#[test]
fn a_budget_ends_and_comes_back_and_preempts() {
    let mut test = Test::new(&[sporadic(0, 200, 1000, false), unlimited(1)], &[0, 1]);
    test.spin(3000);
    assert_eq!(test.ran, [(Some(0), 200), (Some(1), 800)].repeat(3));
    assert_eq!((test.charged(0), test.charged(1)), ((600, 0), (2400, 0)));
    let accounts = test.kernel.accounts();
    assert_eq!((accounts.servers[0].dispatches, accounts.servers[0].exhaustions, accounts.idle_ticks), (4, 3, 0));
    assert_eq!((accounts.threads[0].ran_ticks, accounts.threads[0].switches), (600, 4));
}

/// QV-23, CH-60: while the kernel wakes somebody its timer is off; a date of somebody more important that comes meanwhile is seen before anything else is done, and one of
/// somebody less important rings behind it.
#[test]
fn who_is_more_important_is_woken_though_the_timer_is_off() {
    for (dates, woken, times) in [([105, 100], 0, 2), ([100, 105], 0, 1), ([100, 100], 0, 1), ([120, 100], 1, 1)] {
        let mut test =
            Test::new(&[sporadic(0, 200, 1000, false), sporadic(1, 200, 1000, false), unlimited(2)], &[0, 1, 2]);
        assert_eq!((test.running, test.sleep(dates[0]), test.sleep(dates[1])), (0, 1, 2));
        // The first one's date comes while that of the second one is acknowledged.
        test.core().acknowledging_ticks = 7;
        test.core().now_ticks = 100;
        test.enter(Entry::Interrupt);
        assert_eq!((test.running, test.core().acknowledged[&Intid::VIRTUAL_TIMER.0]), (woken, times), "{dates:?}");
        // What is still due rings when that one waits.
        test.core().acknowledging_ticks = 0;
        test.sleep(900);
        test.spin(130);
        assert_eq!(test.running, 1 - woken, "{dates:?}");
    }
}

/// CH-10: nobody has budget to pay for the end of a component that begins again, so it is ended while nobody runs; with the last slice somebody does, and the core
/// does not wait until something else happens.
#[test]
fn the_core_does_not_wait_when_the_last_slice_of_an_end_starts_somebody() {
    let mut tables = tables(&[sporadic(0, 200, 1000, false), unlimited(1)], &[0, 1], 0);
    let call = Capability { kind: Kind::Call.number(), rights: right::USE, object: 1, grant: 1, word: 0 };
    tables.capabilities = Vec::leak(vec![Capability::NULL, call, Capability::NULL]);
    (tables.entries, tables.stacks) = (&[EntryRow { address: 0x8000, signature: 0 }], &[StackRow { top: 0x9000 }]);
    let callee = ComponentRow { entries: 1, stacks: 1, on_fault: 1, ..tables.components[1] };
    tables.components = Vec::leak(vec![tables.components[0], callee]);
    tables.threads = Vec::leak(vec![tables.threads[0], ThreadRow { started: 0, ..tables.threads[1] }]);
    let mut test = Test::of(&tables);
    test.kernel.registers().expect("it runs").x[8] = END_POINT;
    assert_eq!(test.call(Call::Invoke, &[]), 0);
    assert_eq!(test.kernel.objects().room().threads[0].component, 1);
    // It faults there with the last tick of its budget, and the timer is not up yet.
    test.core().now_ticks = 200;
    test.core().enabled.remove(&Intid::VIRTUAL_TIMER.0);
    test.enter(Entry::Synchronous { syndrome: 0x24 << 26, address: 0 });
    assert_eq!((test.running, test.core().now_ticks, test.core().waits), (1, 200, 0));
}

/// QV-41: a kernel that records tells who is awake, who runs, and when a budget ends and comes back, in order.
#[test]
fn what_happens_is_recorded() {
    let mut test = Test::new(&[sporadic(0, 200, 1000, false), unlimited(1)], &[0, 1]);
    test.spin(1100);
    test.sleep(1500);
    let found: Vec<(u64, u16, u32, u64)> =
        test.core().records.iter().map(|one| (one.time_ticks, one.kind, one.small, one.first)).collect();
    let second = 1 | 1 << 8;
    let expected = [
        (0, TRACE_WAKE, 0, 0),
        (0, TRACE_WAKE, 0, 1),
        (0, TRACE_SWITCH, 0, u64::MAX),
        (200, TRACE_BUDGET, 0, 1),
        (200, TRACE_SWITCH, second, u64::MAX),
        (1000, TRACE_BUDGET, 0, 2),
        (1000, TRACE_SWITCH, 0, u64::MAX),
        (1100, TRACE_BLOCK, 0, 0),
        (1100, TRACE_SWITCH, second, u64::MAX),
    ];
    assert_eq!(found, expected);
}

/// QV-22: without budget below everybody who has some, and for nothing.
#[test]
fn without_budget_it_goes_on_in_the_background() {
    let mut test = Test::new(&[sporadic(0, 200, 1000, true), sporadic(1, 300, 1000, false)], &[0, 1]);
    test.spin(2000);
    assert_eq!(test.ran, [(Some(0), 200), (Some(1), 300), (Some(0), 700), (Some(1), 300), (Some(0), 500)]);
    assert_eq!((test.charged(0), test.charged(1)), ((400, 1000), (600, 0)));
}

/// QV-20, QV-21: a quantum of the server's own time, which passes only while it runs.
#[test]
fn turns_are_of_the_servers_own_time() {
    let server = ServerRow { quantum_ticks: 100, ..sporadic(0, 250, 1000, false) };
    let mut test = Test::new(&[server, unlimited(1)], &[0, 0, 1]);
    test.spin(2000);
    let expected = [(0, 100), (1, 100), (0, 50), (2, 750), (0, 50), (1, 100), (0, 100), (2, 750)]
        .map(|(who, ticks)| (Some(who), ticks));
    assert_eq!(test.ran, expected);
    // Alone it has no turns, and no timer but its budget's.
    let mut alone = Test::new(&[ServerRow { quantum_ticks: 100, ..sporadic(0, 250, 1000, false) }], &[0]);
    assert_eq!(alone.core().timer_ticks, 250);
}

/// QV-23, CH-56: the timer is off when nothing would change, and no sleeper sets it who would wait all the same.
#[test]
fn the_timer_rings_for_nobody_who_would_wait() {
    let mut test = Test::new(&[unlimited(0), unlimited(1)], &[0, 1]);
    assert_eq!(test.core().timer_ticks, u64::MAX);
    assert_eq!((test.sleep(100), test.core().timer_ticks), (1, 100));
    // Both sleep: the core waits for the first.
    assert_eq!((test.sleep(500), test.core().now_ticks, test.code(0)), (0, 100, Code::TimedOut));
    assert_eq!(test.core().timer_ticks, u64::MAX, "thread 1 is less important");
    test.spin(600);
    assert_eq!(test.ran.last(), Some(&(Some(0), 500)));
    assert_eq!((test.sleep(1000), test.code(1)), (1, Code::TimedOut));
    assert_eq!(test.core().timer_ticks, 1000, "a more important one sleeps");
}

/// Sleepers of one server come in the order of their dates, whatever the order in which they went to sleep.
#[test]
fn sleepers_of_one_server_wake_by_their_dates() {
    let mut test = Test::new(&[unlimited(0), unlimited(1)], &[0, 0, 0, 1]);
    assert_eq!((test.sleep(300), test.sleep(100), test.sleep(200)), (1, 2, 3));
    let mut woken = Vec::new();
    for until in [101, 201, 301] {
        test.spin(until);
        woken.push((test.running, test.core().timer_ticks));
        test.sleep(1000 - until);
    }
    assert_eq!(woken, [(1, 200), (2, 300), (0, 799)]);
}

/// QV-35: the top half is charged to the server of its driver, and the victim pays nothing.
#[test]
fn a_top_half_is_charged_to_its_drivers_server() {
    let mut test = Test::new(&[sporadic(0, 400, 1000, false), sporadic(1, 100, 1000, false)], &[1, 0]);
    assert_eq!(test.running, 1);
    test.spin(400);
    assert_eq!(test.running, 0, "its budget is used up");
    // The driver of this binding is thread 1's server; thread 0 runs.
    test.core().acknowledging_ticks = 7;
    test.core().now_ticks = 430;
    test.core().pending.insert(DEVICE);
    let next = test.kernel.enter(Entry::Interrupt);
    test.take(next);
    assert_eq!((test.charged(0).0, test.charged(1).0, test.running), (407, 30, 0));
    let accounts = test.kernel.accounts();
    assert_eq!((accounts.servers[0].top_half_ticks, accounts.threads[0].ran_ticks), (7, 30));
    // A debt: seven ticks of the next budget are gone.
    test.core().acknowledging_ticks = 0;
    test.ran.clear();
    test.spin(2000);
    let of_thread_1: u64 = test.ran.iter().filter(|(who, _)| *who == Some(1)).map(|(_, ticks)| ticks).sum();
    assert_eq!(of_thread_1, 393);
}

/// QV-35: dates that pass in the same entry, of anybody who sleeps, are no work of the driver.
#[test]
fn a_driver_does_not_pay_for_dates_that_pass_with_its_interrupt() {
    let mut test = Test::with_payer(&[sporadic(0, 400, 1000, false), unlimited(1)], &[1, 1, 0], 0);
    assert_eq!((test.running, test.sleep(5000)), (2, 0));
    assert_eq!((test.sleep(100), test.charged(0).0), (1, 0));
    test.spin(99);
    test.core().acknowledging_ticks = 7;
    test.core().now_ticks = 100;
    test.core().pending.insert(DEVICE);
    test.enter(Entry::Interrupt);
    let accounts = test.kernel.accounts();
    assert_eq!((accounts.servers[0].top_half_ticks, accounts.servers[1].charged_ticks), (7, 107));
    assert_eq!((test.charged(0).0, test.running), (7, 1));
}

/// QV-23, QV-41, SG-43: time in which nobody has budget is nobody's: no thread's account has it, no turn ends by it, and the core waits for what comes.
#[test]
fn time_without_budget_is_no_threads_time() {
    let server = ServerRow { quantum_ticks: 150, ..sporadic(0, 200, 1000, false) };
    let mut test = Test::new(&[server], &[0, 0]);
    test.spin(200);
    assert_eq!((test.running, test.core().now_ticks, test.core().waits), (1, 1000, 1));
    test.spin(2000);
    let expected = [(Some(0), 150), (Some(1), 50), (None, 800), (Some(1), 100), (Some(0), 100), (None, 800)];
    assert_eq!(test.ran, expected);
    let accounts = test.kernel.accounts();
    assert_eq!((accounts.threads[0].ran_ticks, accounts.threads[1].ran_ticks, accounts.idle_ticks), (250, 150, 1600));
}

/// QV-35, CH-64: what is held is masked when the driver's budget ends, and what comes to an empty server is masked at once.
#[test]
fn a_driver_without_budget_holds_nothing() {
    let mut test = Test::new(&[sporadic(0, 100, 1000, false), unlimited(1)], &[0, 1]);
    let hold = |test: &Test| test.kernel.objects().room().bindings[0].hold;
    test.core().pending.insert(DEVICE);
    test.enter(Entry::Interrupt);
    assert_eq!((hold(&test), test.core().active.len()), (Hold::Held, 1));
    test.spin(150);
    assert_eq!((hold(&test), test.core().active.len(), test.running), (Hold::Masked, 0, 1));
    assert!(!test.core().enabled.contains(&DEVICE));
    // The device rings on, and nothing is heard until the driver has budget and says that it is through.
    test.core().pending.insert(DEVICE);
    test.spin(1010);
    assert_eq!((test.running, test.core().signalled()), (0, None));
    test.call(Call::Interrupt, &[0, INTERRUPT]);
    assert_eq!((test.code(0), hold(&test), test.core().signalled()), (Code::Ok, Hold::Idle, Some(DEVICE)));
    test.enter(Entry::Interrupt);
    assert_eq!(hold(&test), Hold::Held);
    test.call(Call::Interrupt, &[0, INTERRUPT]);
    // Empty, and one comes: masked at once, and the driver is told when it can run.
    test.call(Call::Receive, &[END_POINT, Flag::All.number()]);
    assert_eq!(test.code(0), Code::Ok, "two came");
    test.spin(1150);
    assert_eq!(test.running, 1);
    test.core().pending.insert(DEVICE);
    test.enter(Entry::Interrupt);
    assert_eq!((hold(&test), test.running), (Hold::Masked, 1));
    // The signal is kept: with its budget the driver takes what came while it had none, though the device rings no more, and the next one is heard.
    test.spin(2010);
    assert_eq!((test.running, test.core().signalled()), (0, None));
    assert_eq!((test.call(Call::Receive, &[END_POINT, Flag::NoWait.number()]), test.code(0)), (0, Code::Ok));
    assert_eq!(test.kernel.registers().expect("it runs").x[1], 1, "the bits of its binding");
    test.call(Call::Interrupt, &[0, INTERRUPT]);
    test.core().pending.insert(DEVICE);
    assert_eq!((test.code(0), hold(&test), test.core().signalled()), (Code::Ok, Hold::Idle, Some(DEVICE)));
}

/// QV-35, CH-64: a driver that waits, and whose server is empty when its interrupt comes, wakes when budget comes back.
#[test]
fn a_driver_that_waits_without_budget_hears_of_its_interrupt() {
    let server = ServerRow { quantum_ticks: 30, ..sporadic(0, 100, 1000, false) };
    let mut test = Test::new(&[server, unlimited(1)], &[0, 0, 1]);
    assert_eq!(test.call(Call::Receive, &[END_POINT, Flag::All.number(), 5000]), 1);
    // The other thread of its server uses up what there is.
    test.spin(150);
    assert_eq!(test.running, 2);
    test.core().pending.insert(DEVICE);
    test.enter(Entry::Interrupt);
    assert_eq!((test.kernel.objects().room().bindings[0].hold, test.running), (Hold::Masked, 2));
    // Nothing rings any more.
    test.spin(1000);
    assert_eq!(test.running, 1, "its turn is not over");
    while test.running == 1 {
        let now = test.core().now_ticks;
        test.spin(now + 1);
    }
    assert_eq!((test.running, test.code(0)), (0, Code::Ok));
    assert!(test.core().now_ticks <= 1030, "{}", test.core().now_ticks);
}

/// `real-time.md` 1.2: who gives the core away pays for loading its successor.
#[test]
fn who_gives_the_core_away_pays_for_loading_the_other() {
    let mut test = Test::new(&[sporadic(0, 200, 1000, false), unlimited(1)], &[0, 1]);
    test.core().loading_ticks = 9;
    test.core().now_ticks = 50;
    assert_eq!(test.sleep(500), 1);
    assert_eq!((test.charged(0).0, test.charged(1).0), (59, 0));
    // Who is preempted pays nothing: the other side came.
    test.spin(500);
    assert_eq!((test.running, test.core().now_ticks, test.charged(1).0), (0, 509, 441));
}

/// QV-32, QV-33: an io server works at one level above its client's, on a share.
#[test]
fn an_io_server_has_the_level_of_its_client() {
    let io = ServerRow {
        rule: Rule::Pibs.number(),
        budget_ticks: 1,
        period_ticks: 10,
        smallest_chunk_ticks: 1,
        clients: 0b110,
        ..unlimited(0)
    };
    let rows = [io, sporadic(3, 100, 1000, true), sporadic(5, 200, 2000, true)];
    let mut test = Test::with_payer(&rows, &[0, 1, 2], 0);
    // Its grant of 1/10 of the shortest period, and nothing before its share has come in again.
    test.spin(1000);
    let ran: Vec<_> = test.ran.iter().take(3).copied().collect();
    assert_eq!(ran, [(Some(0), 100), (Some(1), 100), (Some(2), 200)]);
}

/// QV-21, QV-32: a driver that wakes does not wait for the client at whose level it works.
#[test]
fn an_io_server_preempts_its_client() {
    let io = ServerRow {
        rule: Rule::Pibs.number(),
        budget_ticks: 1,
        period_ticks: 10,
        smallest_chunk_ticks: 1,
        clients: 0b10,
        ..unlimited(0)
    };
    let mut test = Test::with_payer(&[io, sporadic(3, 500, 1000, true)], &[0, 1], 0);
    assert_eq!((test.running, test.sleep(50)), (0, 1));
    test.spin(60);
    assert_eq!(test.ran, [(Some(1), 50), (Some(0), 10)]);
}

/// Rows of servers that are not sorted, or promise more than there is, are no instance.
#[test]
fn servers_that_contradict_each_other_are_refused() {
    let start = |servers: &[ServerRow]| {
        Kernel::new(FakeCore::default(), room(), time_room(), &tables(servers, &[0], 0), 62_500_000).is_some()
    };
    assert!(start(&[unlimited(0), unlimited(0), sporadic(7, 1, 2, false)]));
    assert!(!start(&[unlimited(1), unlimited(0)]));
    assert!(!start(&[sporadic(0, 3, 2, false)]));
    assert!(!start(&[ServerRow { rule: 9, ..unlimited(0) }]));
    assert!(!start(&[unlimited(64)]));
    assert!(!start(&[ServerRow { chunks: 256 + 4, ..sporadic(0, 1, 2, false) }]));
}

/// QV-23, CH-60: a component that faulted begins again in slices at its own cost, and between two of them a date wakes who is more important: after
/// the timer rang for somebody who does not run before, too, and if it was set while only more important dates mattered.
#[test]
fn dates_pass_between_slices_of_an_end() {
    const DATA_ABORT: u64 = 0x24 << 26;
    for first_date in [100, 1_000] {
        let servers = [unlimited(0), unlimited(1), unlimited(2)];
        let mut tables = tables(&servers, &[0, 1, 2, 2], 0);
        let resets = |row: &ComponentRow| ComponentRow { on_fault: 1, ..*row };
        tables.components = Vec::leak(tables.components.iter().map(resets).collect());
        let mut test = Test::of(&tables);
        assert_eq!((test.sleep(10_000), test.sleep(300), test.sleep(first_date)), (1, 2, 3));
        test.core().now_ticks = 95;
        // The end has four slices, and the date is passed with the third one.
        test.core().looking_ticks = 70;
        test.enter(Entry::Synchronous { syndrome: DATA_ABORT, address: 0 });
        let now = test.core().now_ticks;
        assert!(test.running == 1 && (300..=320).contains(&now), "thread {} at {now}", test.running);
    }
}
