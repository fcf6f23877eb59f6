//! A hostile scheduler. It has nothing that its description does not give it: servers, claims on their time, threads, a band, schedulers below schedulers. It makes as much as it may
//! of them happen at one instant, beside a more important thread that is to be woken then. How long the kernel looks away meanwhile is for the test to say.
//!
//! The lowest byte of a thread's argument is its role, the next one how many claims and threads there are, or which one it is, the rest how often it is done.
#![no_std]
#![no_main]

use bulkhead_component::call::{counter_ticks, receive};
use bulkhead_component::driver::interrupt_done;
use bulkhead_component::println;
use bulkhead_component::schedule::{claim, create_server, delegate, destroy_server, events, switch};
use bulkhead_component::task;

mod random;

bulkhead_component::entry!(main);

/// Is woken each quarter of a millisecond, and says how late at most.
const WAKES: u64 = 1;
/// Is told of its time's end, as all of its like at once.
const IS_TOLD: u64 = 2;
/// Lends its time to all claims, so that it ends for all of them at once.
const LENDS: u64 = 3;
/// Ends all servers of its band at once, and makes one when all of their time is back.
const MAKES: u64 = 4;
/// A scheduler that lets in of whom it is told, and waits.
const TAKES: u64 = 5;
/// Sleeps below all schedulers: each of them waits when it wakes.
const SLEEPS: u64 = 6;
/// Reserves all that its server has for a claim that nobody runs on, and wants to run all the same.
const HOARDS: u64 = 7;
/// Reserves the time of others, who are less important and want to run, for claims that nobody runs on.
const TAKES_AWAY: u64 = 8;
/// Wants to run when that one does.
const WANTS: u64 = 9;
/// Is woken behind those, each time, and may run though they may not.
const MAY: u64 = 10;
/// Makes random calls.
const ACTS: u64 = 11;
/// Says without an end that an interrupt is served which it does not take.
const RINGS: u64 = 12;
/// Serves the interrupt.
const SERVES: u64 = 13;
/// Looks at the counter all the time, and says for how long it was away.
const LOOKS: u64 = 14;
/// Says what came of the random calls.
const REPORTS: u64 = 15;

const INTERRUPT: u64 = 3;
const RECEIVE: u64 = 4;

const OWN_CLAIM: u64 = 1;
const BAND: u64 = 2;
const FIRST_SCHEDULER: u64 = 16;
const FIRST_THREAD: u64 = 64;
const FIRST_CLAIM: u64 = 128;
const SECOND_CLAIM: u64 = 160;
const FIRST_SERVER: u64 = 192;
/// 1 ms.
const MILLISECOND: u64 = 62_500;
/// A claim has this: the smallest chunk, and something.
const PART_TICKS: u64 = 1_100;
/// Period of servers that are made.
const PERIOD_TICKS: u64 = 10 * MILLISECOND;

fn main(argument: u64) {
    let (count, times) = (argument >> 8 & 0xff, argument >> 16);
    match argument & 0xff {
        WAKES => wake(count, times),
        LENDS => lend(count, times),
        MAKES => make(count, times),
        IS_TOLD => spin(u64::MAX),
        TAKES => take(count),
        SLEEPS => sleep(count, times),
        HOARDS => hoard(count, times),
        TAKES_AWAY => take_away(count, times),
        WANTS => want(),
        MAY => may(count, times),
        ACTS => random::act(argument),
        RINGS => ring(times),
        SERVES => serve(),
        LOOKS => look(count, times),
        REPORTS => random::report(times),
        _ => {}
    }
}

/// Takes time without a call.
fn spin(until_ticks: u64) {
    while counter_ticks() < until_ticks {
        core::hint::spin_loop();
    }
}

fn wake(count: u64, times: u64) {
    // What it takes until all others have begun is not counted.
    let (mut date_ticks, mut latest) = (counter_ticks() + 10 * MILLISECOND, 0);
    for _ in 0..times {
        date_ticks += MILLISECOND / 4;
        // Nothing is received: it sleeps.
        let _ = receive(0, date_ticks);
        latest = latest.max(counter_ticks() - date_ticks);
    }
    stop_threads(count);
    println!("woken: {latest}");
}

/// Looks for that many milliseconds: the longest time between two looks is that of the others.
fn look(count: u64, milliseconds: u64) {
    // Until all others have begun.
    let _ = receive(0, counter_ticks() + 40 * MILLISECOND);
    let (mut before, mut longest) = (counter_ticks(), 0);
    let end_ticks = before + milliseconds * MILLISECOND;
    while before < end_ticks {
        let now = counter_ticks();
        longest = longest.max(now - before);
        before = now;
    }
    stop_threads(count);
    println!("away: {longest}");
}

fn serve() {
    while receive(RECEIVE, 0).is_ok() {
        let _ = interrupt_done(INTERRUPT);
    }
}

fn ring(times: u64) {
    let mut rung = 0;
    loop {
        for _ in 0..times {
            rung += u64::from(interrupt_done(INTERRUPT).is_ok());
        }
        println!("rung {rung}");
    }
}

/// Gives each claim a part; returns when the first one's ends, which may be over already.
fn lend_parts(count: u64) -> u64 {
    let mut lent = 0;
    for number in 0..count {
        lent += u64::from(delegate(FIRST_CLAIM + number, OWN_CLAIM, PART_TICKS, 0, false).is_ok());
    }
    let expires_ticks = claim(FIRST_CLAIM).map_or(0, |[_, expires_ticks, _]| expires_ticks);
    if lent != count {
        println!("lent {lent} of {count}");
    }
    if expires_ticks == u64::MAX { counter_ticks() } else { expires_ticks }
}

fn lend(count: u64, times: u64) {
    for round in 0..times {
        let expires_ticks = lend_parts(count);
        if round == 0 {
            // They began without time: what they run on is looked for again.
            let again = |thread: u64| task::suspend(thread).and_then(|()| task::resume(thread)).is_ok();
            println!("awake {}", (0..count).filter(|number| again(FIRST_THREAD + number)).count());
        }
        spin(expires_ticks + 2 * MILLISECOND);
    }
    stop_threads(count);
    println!("lender: over");
}

fn take(number: u64) {
    let scheduler = FIRST_SCHEDULER + number;
    while let Ok(event) = events(scheduler, Some(u64::MAX - 1)) {
        // Who woke while this one ran is to run; a scheduler below has a server of its own, and is refused.
        let _ = switch(scheduler, FIRST_THREAD + event.label, 0, 0, event.token);
    }
}

fn stop_threads(count: u64) {
    for number in 0..count {
        let _ = task::stop(FIRST_THREAD + number);
    }
}

fn sleep(count: u64, times: u64) {
    // Others' dates are passed in steps, so that one of them falls into what is done here.
    let mut date_ticks = counter_ticks() + 10 * MILLISECOND;
    for _ in 0..times {
        date_ticks += MILLISECOND / 4 + 37;
        let _ = receive(0, date_ticks);
    }
    stop_threads(count);
    println!("sleeper: over");
}

fn hoard(number: u64, times: u64) {
    let mut reserved = 0;
    for _ in 0..times {
        reserved += u64::from(delegate(SECOND_CLAIM + number, FIRST_CLAIM + number, 0, 0, false).is_ok());
        // It has nothing until its budget is back, which is what it waits for without a call.
        spin(counter_ticks() + 2 * PERIOD_TICKS);
    }
    if number == 0 {
        println!("hoarder: over");
        println!("reserved {reserved} of {times}");
    }
}

/// Sleeps until some ticks behind an instant that is the same for all.
fn sleep_until_behind(ticks: u64) {
    const APART: u64 = 4 * PERIOD_TICKS;
    let _ = receive(0, (counter_ticks() / APART + 1) * APART + ticks);
}

fn want() {
    loop {
        sleep_until_behind(0);
        spin(counter_ticks() + MILLISECOND);
    }
}

fn may(count: u64, times: u64) {
    for _ in 0..times {
        // By then they are awake, and were passed over.
        sleep_until_behind(MILLISECOND / 2);
    }
    // Itself is the last but one.
    stop_threads(count - 2);
    let _ = task::stop(FIRST_THREAD + count - 1);
    println!("who may: over");
}

fn take_away(count: u64, times: u64) {
    let mut reserved = 0;
    for _ in 0..times {
        // By then they are awake, and have not run.
        sleep_until_behind(MILLISECOND / 4);
        let is_reserved = |number: &u64| delegate(SECOND_CLAIM + number, FIRST_CLAIM + number, 0, 0, false).is_ok();
        reserved += (0..count).filter(is_reserved).count() as u64;
    }
    stop_threads(count);
    println!("taker: over");
    println!("reserved {reserved} of {}", times * count);
}

/// Makes all servers of the band; how many there were.
fn make_servers(count: u64, budget_ticks: u64) -> u64 {
    (0..count)
        .take_while(|number| create_server(BAND, budget_ticks, PERIOD_TICKS, FIRST_SERVER + number).is_ok())
        .count() as u64
}

fn end_servers(made: u64) -> u64 {
    let is_ended = |number: &u64| destroy_server(FIRST_SERVER + number) == Ok(());
    let ended = (0..made).filter(is_ended).count() as u64;
    for number in 0..made {
        let _ = bulkhead_component::process::delete_capability(FIRST_SERVER + number);
    }
    ended
}

fn make(count: u64, times: u64) {
    for _ in 0..times {
        let made = make_servers(count, PART_TICKS);
        let ended = end_servers(made);
        println!("made {made}, ended {ended}");
        // All of it is back.
        spin(counter_ticks() + 3 * PERIOD_TICKS);
    }
    println!("maker: over");
}
