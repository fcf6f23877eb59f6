//! How late the kernel wakes a program that sleeps to an instant: what a partition's share of a core means to its programs.
//!
//! The instants are absolute, one period apart, and none is left out: a program that was held up works off what it missed, and
//! each missed instant counts with its own lateness. So the mean is that of all instants rather than of those that happened to
//! find the program asleep. Run it with a real-time priority (`chrt -f 99`) to leave the guest's own scheduler out.

use crate::arguments::Format;
use crate::failure::{Failure, MACHINE};
use crate::hardware::counter_ticks;
use crate::json::Object;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};
use std::io::Write;
use std::time::Duration;

const NANOSECONDS: u64 = 1_000_000_000;

/// Lateness of all instants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lateness {
    samples: u64,
    least_ns: u64,
    most_ns: u64,
    sum_ns: u64,
}

impl Lateness {
    fn add(&mut self, ns: u64) {
        self.least_ns = if self.samples == 0 { ns } else { self.least_ns.min(ns) };
        self.most_ns = self.most_ns.max(ns);
        self.sum_ns += ns;
        self.samples += 1;
    }

    fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.samples).unwrap_or(0)
    }

    fn print(&self, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
        if format == Format::Json {
            let object = Object::default().number("samples", self.samples).number("minimum_ns", self.least_ns);
            let object = object.number("mean_ns", self.mean_ns()).number("maximum_ns", self.most_ns);
            writeln!(output, "{}", object.finish())?;
        } else {
            let (least, mean, most) = (self.least_ns, self.mean_ns(), self.most_ns);
            writeln!(output, "latency min={least} mean={mean} max={most} ns n={}", self.samples)?;
        }
        Ok(())
    }
}

/// An instant: how late it was, and the system counter right behind, which all partitions and a payload of the secure world share.
#[derive(Debug, PartialEq, Eq)]
struct Instant {
    late_ns: u64,
    counter: u64,
}

impl Instant {
    fn print(&self, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
        let Self { late_ns, counter } = self;
        if format == Format::Json {
            let object = Object::default().number("late_ns", *late_ns).number("counter", *counter);
            writeln!(output, "{}", object.finish())?;
        } else {
            writeln!(output, "instant late={late_ns} ns counter={counter}")?;
        }
        Ok(())
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts up from the start.
    now.tv_sec.cast_unsigned() * NANOSECONDS + now.tv_nsec.cast_unsigned()
}

/// Sleeps to `count` instants, the first one a period from now, and prints their lateness, that of each of them too if that is wanted: at
/// the end, because what prints is late itself.
pub(crate) fn measure(
    every: Duration,
    count: u64,
    each: bool,
    format: Format,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let period_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX / 2);
    let (mut lateness, mut instants) = (Lateness::default(), Vec::new());
    let mut instant_ns = now_ns();
    for _ in 0..count {
        instant_ns = instant_ns.saturating_add(period_ns);
        let request = Timespec {
            tv_sec: (instant_ns / NANOSECONDS).cast_signed(),
            tv_nsec: (instant_ns % NANOSECONDS).cast_signed(),
        };
        loop {
            match clock_nanosleep_absolute(ClockId::Monotonic, &request) {
                Ok(()) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::new(MACHINE, format!("cannot sleep to an instant: {error}"))),
            }
        }
        let late_ns = now_ns().saturating_sub(instant_ns);
        lateness.add(late_ns);
        if each {
            instants.push(Instant { late_ns, counter: counter_ticks() });
        }
    }
    instants.iter().try_for_each(|instant| instant.print(format, output))?;
    lateness.print(format, output)
}

#[cfg(test)]
mod tests {
    use super::{Instant, Lateness, measure};
    use crate::arguments::Format;
    use std::time::Duration;

    #[test]
    fn lateness_is_summed_up() {
        let mut lateness = Lateness::default();
        [5, 1, 3].into_iter().for_each(|ns| lateness.add(ns));
        assert_eq!(lateness, Lateness { samples: 3, least_ns: 1, most_ns: 5, sum_ns: 9 });
        let mut text = Vec::new();
        lateness.print(Format::Text, &mut text).expect("memory");
        assert_eq!(text, b"latency min=1 mean=3 max=5 ns n=3\n");
    }

    #[test]
    fn every_instant_is_slept_to() {
        let mut text = Vec::new();
        let before = std::time::Instant::now();
        measure(Duration::from_millis(2), 5, false, Format::Json, &mut text).expect("a sleep");
        assert!(before.elapsed() >= Duration::from_millis(10), "five periods");
        assert!(text.starts_with(b"{\"samples\":5,"), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn each_instant_is_printed_before_their_sum() {
        let mut text = Vec::new();
        measure(Duration::from_micros(10), 2, true, Format::Text, &mut text).expect("a sleep");
        let text = String::from_utf8(text).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let [first, second, sum] = lines[..] else { panic!("{text}") };
        let counter = |line: &str| line.rsplit_once(" ns counter=").and_then(|(_, number)| number.parse::<u64>().ok());
        assert!(first.starts_with("instant late=") && counter(first) < counter(second), "{text}");
        assert!(counter(first).is_some() && sum.starts_with("latency min="), "{text}");
        let mut json = Vec::new();
        Instant { late_ns: 3, counter: 5 }.print(Format::Json, &mut json).expect("memory");
        assert_eq!(json, b"{\"late_ns\":3,\"counter\":5}\n");
    }
}
