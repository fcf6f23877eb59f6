//! How late a message is found whose signals a limiter holds back (CH-E8).
//!
//! The model: in each window of the limiter's grid the first `e` signals pass, and their messages are found at once. What is held back is found when the receiver looks next: at its poll, on a grid of its own,
//! or at the next signal that passes, which is the first one of the next window. So each message has one lateness, the messages of as many windows as the grids have in common have all of them, and
//! their mean is the model's. A signal takes a way to the receiver, and so does a date; the model has one of each, which is what a message takes that nobody holds back. What a machine shows is to be
//! that mean within one of these ways.

use super::latency_cores::between_cores;
use super::{Ran, instance, iterations, name_of, within};
use crate::Failure;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::Place;

const TEXT: &str = include_str!("../../../systems/latency.kernel.toml");
/// What the component `late` does: a window of the limiter, sends in it, and distances of polls. The longest one is two windows.
const WINDOW_TICKS: u64 = 250_000;
const SENDS: u64 = 50;
const DISTANCE_TICKS: u64 = WINDOW_TICKS / SENDS;
const POLLS_TICKS: [u64; 3] = [WINDOW_TICKS / 5, WINDOW_TICKS / 2, 2 * WINDOW_TICKS];
const LIMITS: [u64; 6] = [10, 20, 30, 40, 50, 60];
const COMMON_WINDOWS: u64 = 2;
/// A sender looks at the counter until its date has come; one look takes less.
const LOOK_TICKS: f64 = 8.0;

/// The mean lateness of all messages, without the way to the receiver, with a limit of `events` in each window and a poll at each multiple of `poll_ticks`.
fn mean_ticks(events: u64, poll_ticks: u64) -> f64 {
    let late = |number: u64| {
        let sent = DISTANCE_TICKS / 2 + number * DISTANCE_TICKS;
        if number % SENDS < events {
            return 0;
        }
        let (next_poll, next_window) = ((sent / poll_ticks + 1) * poll_ticks, (number / SENDS + 1) * WINDOW_TICKS);
        // Without a signal that passes there is the poll alone.
        let passes = if events == 0 { u64::MAX } else { next_window + DISTANCE_TICKS / 2 };
        next_poll.min(passes) - sent
    };
    let count = COMMON_WINDOWS * SENDS;
    (0..count).map(late).sum::<u64>() as f64 / count as f64
}

/// CH-E8.
pub(super) fn latency(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let windows = iterations("kernel.latency", length)?;
    let image = instance(lab, "latency", TEXT, &[("WINDOWS", windows)])?.bytes;
    let (board, direct) = (Ran::of(&image, Place::Board)?, Ran::of(&image, Place::Direct)?);
    let messages = windows * SENDS;
    let counts = |ran: &Ran, events: u64, poll_ticks: u64| ran.first(&format!("limit {events} poll {poll_ticks}: "));
    let mean = |late: u64| late as f64 / messages as f64;
    let (mut findings, mut wrong, mut apart) = (Findings::default(), 0, 0.0_f64);
    // Nobody is held back: the way of a signal.
    let [_, _, late] = counts(&board, 60, POLLS_TICKS[0])?;
    let way = mean(late);
    for events in LIMITS {
        for poll_ticks in POLLS_TICKS {
            let [found, passed, late] = counts(&board, events, poll_ticks)?;
            let [also_found, also_passed, also_late] = counts(&direct, events, poll_ticks)?;
            apart = apart.max((mean(late) - mean(also_late)).abs());
            let label = format!(
                "{events} signals in a window, a poll each {:.1} windows: late in the mean",
                poll_ticks as f64 / WINDOW_TICKS as f64
            );
            findings.cells.push(within(label, "instructions", mean_ticks(events, poll_ticks) + way, mean(late), way));
            let pass = windows * events.min(SENDS);
            wrong += u64::from([found, passed, also_found, also_passed] != [messages, pass, messages, pass]);
        }
    }
    findings.claim(
        wrong == 0,
        format!(
            "all {messages} messages are found each time, and as many signals pass as the limit says; {wrong} times not"
        ),
    );
    findings.claim(
        apart <= LOOK_TICKS,
        format!("{} has the same means, within {apart:.2} instructions of a sender's look", name_of(Place::Direct)),
    );
    between_cores(lab, windows / COMMON_WINDOWS, &mut findings)?;
    findings.notes.push(format!("a signal through the limiter, to the receiver's look: {way} instructions; a window is {WINDOW_TICKS}, a millisecond of a core of 250 million instructions per second"));
    findings.notes.push("the published curves are of senders on another core: flat from 50 on, and below higher with fewer signals and longer polls".to_owned());
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::{DISTANCE_TICKS, POLLS_TICKS, mean_ticks};

    /// Worked out by hand, in distances between two sends.
    #[test]
    fn the_model_has_the_mean_of_each_message() {
        let mean = |events, poll: usize| mean_ticks(events, POLLS_TICKS[poll]) / DISTANCE_TICKS as f64;
        // 40 of 50 wait for a poll of each 10: five in the mean.
        assert_eq!(mean(10, 0), 4.0);
        // 15 wait until 25, and 25 until the end of the window.
        assert_eq!(mean(10, 1), 8.5);
        // In one window 40 to 1 until the next signal passes, in the other one half a distance less until the poll.
        assert_eq!(mean(10, 2), 16.2);
        assert_eq!(mean(0, 2), 50.0);
        for poll in 0..3 {
            assert_eq!([mean(50, poll), mean(60, poll)], [0.0, 0.0]);
            assert!([10, 20, 30, 40].map(|events| mean(events, poll)).is_sorted_by(|less, more| less > more));
        }
    }
}
