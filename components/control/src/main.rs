//! A control loop: computes in each period of 10 ms, as often as its argument says, and notifies a logger, which asks it how far it is when it has time. A
//! period is lost if its work is not done before the next one begins.
//!
//! It waits for nobody: a notification is answered at once, and who calls [`state`] brings its own thread and time along.
#![no_std]
#![no_main]

use bulkhead_component::{call, mixed, println};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

bulkhead_component::import! {
    /// Tells the logger that a period is done.
    fn report();
}

bulkhead_component::counts! {
    /// Periods that it computed in.
    periods;
    /// Those whose work was not done before the next one began.
    lost_periods;
    /// Ticks of the counter from the beginning of a period until its work was done, at most.
    worst_response_ticks;
    /// Periods whose result was not that of the first one: somebody changed its memory or its registers.
    wrong_results;
    /// How often it was called.
    calls;
}

/// Words that it computes with.
const WORDS: u64 = 256;
/// Rounds over them in each period: about 20,000 instructions.
const ROUNDS: u64 = 8;
/// The highest bit of what [`state`] answers.
const OVER: u64 = 1 << 63;

/// Periods that are done, and [`OVER`].
static STATE: AtomicU64 = AtomicU64::new(0);

bulkhead_component::export! {
    /// How many periods are done; the highest bit says that there will be no more.
    fn state(_token) {
        calls::count().add(1);
        STATE.load(Ordering::Relaxed)
    }
}

/// The work of a period.
fn work(table: &[u64]) -> u64 {
    (0..ROUNDS).fold(0, |sum, _| black_box(table).iter().copied().fold(sum, mixed))
}

fn main(argument: u64) {
    let Ok(version) = call::version() else { return };
    let table: [u64; WORDS as usize] = core::array::from_fn(|place| mixed(7, place as u64));
    let expected = work(&table);
    let period = version.counter_hz / 100;
    let first = call::counter_ticks() + period;
    for number in 0..argument {
        let release = first + number * period;
        // The end of a sleep is a deadline that has passed.
        let _ = call::receive(0, release);
        let result = work(&table);
        let response = call::counter_ticks() - release;
        periods::count().add(1);
        lost_periods::count().add(u64::from(response > period));
        worst_response_ticks::count().raise(response);
        wrong_results::count().add(u64::from(result != expected));
        STATE.store(number + 1, Ordering::Relaxed);
        // A logger that is gone has nothing to write.
        let _ = report();
    }
    STATE.fetch_or(OVER, Ordering::Relaxed);
    let _ = report();
    let (lost, worst) = (lost_periods::count().get(), worst_response_ticks::count().get());
    println!("loop: {argument} periods, {lost} lost, at most {worst} ticks");
}
