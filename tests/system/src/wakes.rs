//! Wake-ups of guests `experiment role=relay`: how they are asked for, and what the guests saw of each.

use crate::Running;
use crate::sharing::{Description, field};
use bulkhead_abi::schedule::UsagePage;
use std::fmt::Write;
use std::ops::Range;

/// Arguments of a relay; times are ticks.
#[derive(Clone, Debug)]
pub struct Relay(String);

impl Relay {
    /// Woken by its own timer at `count` dates.
    #[must_use]
    pub fn by_timer(first: u64, period: u64, count: u64) -> Self {
        Self(format!("role=relay first={first} period={period} count={count}"))
    }

    /// Woken by this many doorbells, or for as long as `end` says.
    #[must_use]
    pub fn by_bells(bells: u64, end: u64) -> Self {
        Self("role=relay".to_owned()).with("bells", bells).with("end", end)
    }

    /// Adds an argument: `work`, `rings`, `after`, `bells`, `end` or `float`.
    #[must_use]
    pub fn with(mut self, key: &str, value: u64) -> Self {
        write!(self.0, " {key}={value}").expect("a text takes more text");
        self
    }

    /// It computes rather than sleep between its dates.
    #[must_use]
    pub fn computing(mut self) -> Self {
        self.0.push_str(" background=compute");
        self
    }

    /// It ends its interrupts before the work rather than after it.
    #[must_use]
    pub fn ending_first(mut self) -> Self {
        self.0.push_str(" ends=first");
        self
    }
}

impl Description {
    /// Adds a relay on core 0 with the servers and other lines of `rest`.
    #[must_use]
    pub fn relay(self, name: &str, relay: &Relay, rest: &str) -> Self {
        self.guest(name, 0, "experiment", &relay.0, rest)
    }

    /// Adds a channel with a doorbell; the ports are the partitions' `out` and `in` with this number.
    #[must_use]
    pub fn bell(self, number: u32, from: &str, to: &str) -> Self {
        self.table(&format!(
            "[[channel]]\nname = \"{from}-{to}-{number}\"\nsource = \"{from}.out{number}\"\n\
             destination = \"{to}.in{number}\"\ndoorbell = true"
        ))
    }
}

/// The lines of a partition with these ports `out` and `in`.
#[must_use]
pub fn ports(out: Range<u32>, into: Range<u32>) -> String {
    let port = |name: &str, number: u32, direction: &str| {
        format!("{{ name = \"{name}{number}\", direction = \"{direction}\", kind = \"sampling\", message_bytes = 8 }}")
    };
    let all =
        out.map(|number| port("out", number, "source")).chain(into.map(|number| port("in", number, "destination")));
    format!("ports = [ {} ]", all.collect::<Vec<_>>().join(", "))
}

/// What a relay saw of one wake-up, in ticks of the machine's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Date of its timer; 0 for a doorbell.
    pub date: u64,
    /// When it took the interrupt.
    pub entered: u64,
    /// Start of its longest absence during the work; 0 when there was none.
    pub left: u64,
    /// End of that absence.
    pub back: u64,
    /// When it rang its first doorbell; 0 when it rang none.
    pub rang: u64,
    /// When the work was done.
    pub done: u64,
}

impl Wake {
    /// From the timer's date to the guest.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.entered - self.date
    }

    /// States whether another one's wake-up lies in its longest absence, from beginning to end.
    #[must_use]
    pub const fn holds(&self, other: &Self) -> bool {
        self.left < other.entered && other.done < self.back
    }
}

/// What a relay said at its end, and each of its wake-ups.
#[derive(Clone, Debug)]
pub struct Wakes {
    /// In order.
    pub all: Vec<Wake>,
    /// Interrupts of its timer.
    pub timers: u64,
    /// Doorbells that it received.
    pub bells: u64,
    /// Doorbells that it rang.
    pub sent: u64,
}

impl Wakes {
    /// Reads what a relay left. Its floating-point registers kept their values, if it looked.
    ///
    /// # Panics
    /// When it has not ended, or a register changed.
    #[must_use]
    pub fn of(running: &Running, partition: &str) -> Self {
        let line = running.printed(partition, "relay ");
        assert_eq!(field(&line, "differences"), 0, "floating point of {partition} changed: {line}");
        let wake = |words: Vec<u64>| match words[..] {
            [date, entered, left, back, rang, done] => Wake { date, entered, left, back, rang, done },
            _ => panic!("a record of {partition} has {} words", words.len()),
        };
        let all = running.records(partition).into_iter().map(wake).collect();
        let [timers, bells, sent] = ["timers", "bells", "sent"].map(|key| field(&line, key));
        Self { all, timers, bells, sent }
    }

    /// States that each of the timer's dates woke it once and in order, and nothing else did.
    ///
    /// # Panics
    /// With the first difference.
    pub fn assert_dates(&self, name: &str, first: u64, period: u64, count: u64) {
        let dates = self.all.iter().map(|wake| wake.date).filter(|date| *date != 0);
        let expected = (0..count).map(|number| first + number * period);
        assert!(dates.eq(expected), "{name} was woken {} times by its timer, expected {count}", self.timers);
        assert!(self.all.iter().all(|wake| wake.entered >= wake.date), "{name} was woken before a date");
    }

    /// Longest time from a date of its timer to the guest.
    ///
    /// # Panics
    /// When it was never woken.
    #[must_use]
    pub fn latest(&self) -> u64 {
        let timers = self.all.iter().filter(|wake| wake.date != 0);
        timers.map(Wake::late).max().expect("there are wake-ups by the timer")
    }
}

/// Ticks of a core by its usage page that nobody used and in which it did not idle either: what was before it began.
#[must_use]
pub fn unaccounted(usage: &UsagePage) -> u64 {
    let used: u64 = usage.servers.iter().map(|server| server.budgeted_ticks + server.background_ticks).sum();
    usage.time_ticks - usage.idle_ticks - used
}
