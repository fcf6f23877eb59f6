//! Calls of a component of the host, but for those of schedulers.

use crate::{FROM, Row, TOOK, counted, driver, empty, note, once, sleep, threads};
use bulkhead_component::call::{self, counter_ticks};
use bulkhead_component::interface::invoke;
use bulkhead_component::println;
use bulkhead_kernel_abi::call::{
    Call, CapabilityOperation as Slot, Flag, InterruptOperation as Line, ServerOperation, ThreadOperation as Task,
};
use bulkhead_kernel_abi::capability::right;
use core::sync::atomic::Ordering;

const OWN: u64 = 1;
const SEND_OWN: u64 = 3;
const SEND_FOLLOWER: u64 = 4;
const SEND_END: u64 = 5;
pub(crate) const INTERRUPT: u64 = 6;
const DEEP: u64 = 7;
const JOBS: u64 = 8;
const BAND: u64 = 9;
const QUOTA: u64 = 10;
const TABLE: u64 = 12;
/// To an end point that nothing else is about.
const OTHERS: u64 = 13;
/// To the driver.
const SEND_DRIVER: u64 = 15;
/// Empty slots.
const FIRST: u64 = 100;
/// Those of threads, up to the last one that can be.
const THREADS: core::ops::Range<u64> = 101..161;
/// 10 ms, as the band has it.
const PERIOD: u64 = 625_000;
/// 1 ms.
const A_WHILE: u64 = 62_500;

static STACK: [core::sync::atomic::AtomicU64; 64] = [const { core::sync::atomic::AtomicU64::new(0) }; 64];

pub(crate) fn count() {
    // The other threads begin, and the first interrupt comes: it is held until its calls are counted, so that none comes in between.
    sleep(2 * PERIOD);
    print();
    once::<{ Call::Version.number() }>("version", [0; 8]);
    capabilities();
    notifications();
    interrupts();
    servers();
    controlled();
    println!("bench done");
}

/// Twenty-eight lines behind an unfinished one of somebody else: on a UART as many of them as there may be have something in front.
fn print() {
    let [x1, x2, x3, x4, x5, x6, x7] = [u64::from_le_bytes(*b".\n.\n.\n.\n"); 7];
    let mut row = Row::new("print");
    row.add(counted::<{ Call::Print.number() }>([56, x1, x2, x3, x4, x5, x6, x7]));
    // The last line end became another letter.
    call::print("\n");
    row.say();
}

/// Between tables of two components.
fn capabilities() {
    const CAPABILITY: u16 = Call::Capability.number();
    let of = |operation: Slot, x: [u64; 5]| {
        let [x1, x2, x3, x4, x5] = x;
        [operation.number(), x1, x2, x3, x4, x5, 0, 0]
    };
    once::<CAPABILITY>(
        "capability.copy",
        of(Slot::Copy, [0, OTHERS, TABLE, FIRST, u64::from(right::USE | right::REVOKE)]),
    );
    once::<CAPABILITY>("capability.read", of(Slot::Read, [TABLE, FIRST, 0, 0, 0]));
    once::<CAPABILITY>("capability.move", of(Slot::Move, [TABLE, FIRST, 0, FIRST, 0]));
    once::<CAPABILITY>("capability.delete", of(Slot::Delete, [0, FIRST, 0, 0, 0]));
    once::<CAPABILITY>("capability.revoke", of(Slot::Revoke, [OTHERS, 0, 0, 0, 0]));
}

/// What somebody else runs after: up to that one's first look.
fn next(name: &'static str, told: u64, ends: impl FnOnce()) {
    let _ = invoke(told, [0; 8]);
    ends();
    let mut row = Row::new(name);
    row.range.add(TOOK.load(Ordering::Relaxed));
    row.say();
}

fn notifications() {
    const RECEIVE: u16 = Call::Receive.number();
    let mut row = Row::new("receive");
    let all = Flag::All.number() | Flag::NoWait.number();
    let _ = invoke(SEND_OWN, [0; 8]);
    row.add(counted::<RECEIVE>([OWN, all, 0, 0, 0, 0, 0, 0]));
    let _ = invoke(SEND_FOLLOWER, [0; 8]);
    note();
    let _ = call::receive(0, counter_ticks() + A_WHILE);
    row.range.add(TOOK.load(Ordering::Relaxed));
    row.say();
    next("yield", SEND_FOLLOWER, || {
        note();
        call::call::<{ Call::Yield.number() }>([0; 8]);
    });
    // The other one ends, and this one is the next.
    let _ = invoke(SEND_END, [0; 8]);
    call::call::<{ Call::Yield.number() }>([0; 8]);
    let took = counter_ticks() - FROM.load(Ordering::Relaxed);
    let mut row = Row::new("return");
    row.range.add(took);
    row.say();
}

/// A client of a PIBS server expects the interrupt, or does not; the driver counts the rest while this one sleeps.
fn interrupts() {
    const INTERRUPT_CALL: u16 = Call::Interrupt.number();
    let of = |operation: Line| [operation.number(), INTERRUPT, 0, 0, 0, 0, 0, 0];
    once::<INTERRUPT_CALL>("interrupt.expect", of(Line::Expect));
    once::<INTERRUPT_CALL>("interrupt.cancel", of(Line::Cancel));
    let _ = invoke(SEND_DRIVER, [0; 8]);
    sleep(2 * A_WHILE);
    for _ in 0..driver::ROUNDS {
        // It comes meanwhile, long before the driver runs: what that uses up is back already when its server is raised.
        let until = counter_ticks() + 2 * PERIOD;
        while counter_ticks() < until {}
        sleep(2 * A_WHILE);
    }
}

/// In a band with the published test, beside as many servers as there can be.
fn servers() {
    const SERVER: u16 = Call::Server.number();
    let of = |operation: ServerOperation, slot: u64, budget: u64, to: u64| {
        [operation.number(), slot, budget, PERIOD, to, 0, 0, 0]
    };
    let mut rows = ["server.create", "server.set", "server.read", "server.destroy"].map(Row::new);
    let [create, set, read, destroy] = &mut rows;
    for _ in 0..4 {
        create.add(counted::<SERVER>(of(ServerOperation::Create, BAND, PERIOD / 200, FIRST)));
        set.add(counted::<SERVER>(of(ServerOperation::Set, FIRST, PERIOD / 100, 0)));
        read.add(counted::<SERVER>(of(ServerOperation::Read, FIRST, 0, 0)));
        destroy.add(counted::<SERVER>(of(ServerOperation::Destroy, FIRST, 0, 0)));
        empty(FIRST);
        // Its time has to come back first.
        sleep(2 * PERIOD);
    }
    rows.iter().for_each(Row::say);
}

/// Threads: one that is eight calls deep in another component, and one that is made.
fn controlled() {
    const THREAD: u16 = Call::Thread.number();
    let of = |operation: Task, slot: u64, x2: u64, x3: u64| [operation.number(), slot, x2, x3, 0, 0, 0, 0];
    sleep(A_WHILE);
    once::<THREAD>("thread.read", of(Task::Read, DEEP, 0, 0));
    once::<THREAD>("thread.limit", of(Task::Limit, DEEP, PERIOD, SEND_END));
    once::<THREAD>("thread.unlimit", of(Task::Unlimit, DEEP, 0, 0));
    once::<THREAD>("thread.suspend", of(Task::Suspend, DEEP, 0, 0));
    once::<THREAD>("thread.resume", of(Task::Resume, DEEP, 0, 0));
    once::<THREAD>("thread.bind", of(Task::Bind, DEEP, JOBS, 0));
    once::<THREAD>("thread.abort", of(Task::Abort, DEEP, 0, 0));
    call::call::<THREAD>(of(Task::Stop, DEEP, 0, 0));
    once::<THREAD>("thread.start", of(Task::Start, DEEP, 3, 0));
    sleep(A_WHILE);
    once::<THREAD>("thread.stop", of(Task::Stop, DEEP, 0, 0));
    let entry = threads::made as *const () as u64;
    let top = STACK.as_ptr_range().end as u64;
    let mut create = Row::new("thread.create");
    for to in THREADS {
        create.add(counted::<THREAD>([Task::Create.number(), QUOTA, JOBS, entry, top, to, 0, 0]));
    }
    create.say();
}
