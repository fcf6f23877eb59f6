//! Requests from a wire: a device interrupt at given times, and a handler that works for a given time.
//!
//! Arguments: `requests=N`, `spacing_us=N`, `dither_us=N` (uniform, plus or minus), `handler_ns=N` (work of the handler),
//! `background=compute|sleep` (what the guest does between requests), `seed=N`, `closed=1` (the spacing counts from the answer
//! rather than from the request before), `burst=N` and `burst_gap_us=N` (requests that come together).
//! The next request is raised when the one before was answered, at once if its time has passed: a device with one buffer
//! and a queue on the other end of its wire. All requests are made before the first one, and the handler raises the next.
//! Record: tick of the request, of the handler's first instruction, of its end.

use crate::{
    Settings,
    log::Log,
    work::{self, Pace, Record, Service},
};
use bulkhead_sdk::println;

/// A small generator of random numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`, 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(value) * u128::from(bound)) >> 64) as u64
    }
}

/// Sum, smallest and largest of a delay.
#[derive(Default)]
struct Delay {
    sum: u64,
    least: Option<u64>,
    most: u64,
}

impl Delay {
    fn add(&mut self, ticks: u64) {
        self.sum += ticks;
        self.least = Some(self.least.map_or(ticks, |least| least.min(ticks)));
        self.most = self.most.max(ticks);
    }

    fn print(&self, what: &str, samples: u64) {
        let mean = self.sum.checked_div(samples).unwrap_or(0);
        println!("wire {what} min={} mean={mean} max={} n={samples}", self.least.unwrap_or(0), self.most);
    }
}

/// What the requests of a wire are like.
struct Pattern {
    requests: u64,
    spacing: u64,
    dither: u64,
    burst: u64,
    burst_gap: u64,
    closed: bool,
}

impl Pattern {
    fn read(settings: &Settings) -> Self {
        Self {
            requests: settings.number("requests", 1000),
            spacing: settings.us("spacing_us", 50_000),
            dither: settings.us("dither_us", 0),
            burst: settings.number("burst", 1).max(1),
            burst_gap: settings.us("burst_gap_us", 0),
            closed: settings.number("closed", 0) != 0,
        }
    }

    /// Fills in when requests come, those from `end` on left out; returns how many there are.
    fn fill(&self, records: &mut [Record], start: u64, end: u64, random: &mut Random) -> usize {
        // The first one is somewhere in the first spacing, so that seeds differ in phase as well.
        let mut request = start + random.below(self.spacing);
        let mut count = 0;
        for (number, record) in (1..=self.requests).zip(records) {
            if request >= end {
                break;
            }
            *record = Record { request_ticks: request, ..Record::default() };
            count += 1;
            let pause = if number % self.burst == 0 {
                (self.spacing + random.below(2 * self.dither + 1)).saturating_sub(self.dither)
            } else {
                self.burst_gap
            };
            request = if self.closed { pause } else { request + pause };
        }
        count
    }
}

pub(crate) fn run(settings: &Settings) {
    let mut pattern = Pattern::read(settings);
    let end = settings.end_ticks();
    let records = Log::requests();
    let mut random = Random::new(settings.number("seed", 1));
    let service = Service {
        handler_blocks: Pace::measure().blocks(settings.ns("handler_ns", 0)),
        closed: pattern.closed,
        sleeps: settings.word("background") == "sleep",
        until_ticks: end,
    };
    let (mut entry, mut answer) = (Delay::default(), Delay::default());
    let (mut start, mut all, mut latest) = (settings.start_ticks(), 0, 0);
    // What the log has no room for is served in further rounds, of which the last one stays in the log.
    while pattern.requests != 0 {
        let count = pattern.fill(records, start, end, &mut random);
        if count == 0 {
            break;
        }
        latest = work::serve(records.split_at_mut(count).0, &service);
        for record in records.iter().take(latest) {
            entry.add(record.entered_ticks - record.request_ticks);
            answer.add(record.done_ticks - record.request_ticks);
            start = record.request_ticks + 1;
        }
        all += latest as u64;
        let is_cut = latest == count && count == records.len();
        pattern.requests = if is_cut { pattern.requests.saturating_sub(count as u64) } else { 0 };
    }
    entry.print("entry", all);
    answer.print("answer", all);
    Log::announce_requests(latest);
}
