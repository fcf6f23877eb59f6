//! What the experiments of the real-time kernel run beside the components of systems: who is asked, who watches and who disturbs. A thread's argument says what it
//! does (bits 7:0) and how much of it (from bit 8 on). Nothing is printed before what is measured: consoles differ.
#![no_std]
#![no_main]

mod disturbs;
mod gives;
mod polls;
mod requests;
mod trips;

use bulkhead_component::println;

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where its interrupt is signalled.
    told;
    /// The interrupt.
    line;
    /// Whom it tells: who waits for the end of what it does, or who is to answer.
    over;
    /// The scheduler whose events it takes.
    scheduler;
    /// The scheduler's own thread, and the one that it lets run.
    threads;
    /// The time that it gives to others.
    claim;
}

/// Serves this many requests.
const SERVES: u8 = 1;
/// Watches how long the thread that serves is at it.
const WATCHES: u8 = 2;
/// Computes for a number of milliseconds, and then says that it is over.
const SPINS: u8 = 3;
/// Takes interrupts for a number of milliseconds.
const STORM: u8 = 4;
/// Does a number of rounds of a job, and says how long it took.
const WORKS: u8 = 5;
/// Polls at a distance in microseconds until the job is done.
const POLLS: u8 = 6;
/// The same as the job's scheduler.
const SCHEDULES: u8 = 7;
/// Makes a number of round trips to who answers, and then sleeps as often.
const TRAVELS: u8 = 8;
/// Answers as often.
const ANSWERS: u8 = 9;
/// Schedules one thread, until that has ended.
const LEADS: u8 = 10;
/// Is told of a number of schedulers below, until they have ended.
const LISTENS: u8 = 11;
/// Gives time to whom it tells, a number of times.
const GIVES: u8 = 12;
/// Works on time that it is given.
const TAKES: u8 = 13;

/// 1 ms at 62.5 MHz.
const MILLISECOND: u64 = 62_500;

fn main(argument: u64) {
    let much = argument >> 8;
    match argument as u8 {
        SERVES => requests::serve(much),
        WATCHES => requests::watch(),
        SPINS => disturbs::spin(much),
        STORM => disturbs::storm(much),
        WORKS => polls::work(much),
        POLLS => polls::poll(much),
        SCHEDULES => polls::schedule(much),
        TRAVELS => trips::travel(much),
        ANSWERS => trips::answer(much),
        LEADS => trips::lead(),
        LISTENS => trips::listen(much),
        GIVES => gives::give(much),
        TAKES => gives::take(),
        other => println!("trials: {other} is nothing that it does"),
    }
}
