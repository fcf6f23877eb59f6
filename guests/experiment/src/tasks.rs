//! A set of periodic tasks with fixed priorities, as an RTOS runs it: the most important ready task works, and nobody ready
//! means WFI.
//!
//! Arguments: `period_us=A/B/..` and `cost_us=A/B/..`, most important first, deadline = period; all are released at the start.
//! Between two short blocks the set is looked at again, so a release takes effect within about 200 instructions: a
//! thousandth of the shortest cost, for a scheduler without stacks to switch. A block in which another partition ran counts
//! as one block.
//! Record: task, tick of release, of completion.

use crate::{Settings, log::Log, work};
use bulkhead_sdk::{cpu, println};

const MOST_TASKS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Task {
    period: u64,
    cost: u64,
    next_release: u64,
    release: u64,
    left: u64,
    jobs: u64,
    worst: u64,
    missed: u64,
}

impl Task {
    /// Takes its next release when it is due and the job before is done; one that is late begins late.
    fn release_if_due(&mut self, now: u64) {
        if self.left == 0 && self.next_release <= now {
            self.release = self.next_release;
            self.next_release += self.period;
            self.left = self.cost;
        }
    }

    fn complete(&mut self, now: u64) {
        self.left = 0;
        self.jobs += 1;
        let response = now - self.release;
        self.worst = self.worst.max(response);
        self.missed += u64::from(response > self.period);
    }
}

/// Reads `key=A/B/..` in microseconds.
fn numbers(settings: &Settings, key: &str) -> impl Iterator<Item = u64> {
    let settings = *settings;
    settings
        .word(key)
        .split('/')
        .filter_map(|text| text.parse::<u64>().ok())
        .map(move |us| settings.ticks_of_ns(us * 1000))
}

pub(crate) fn run(settings: &Settings) {
    let (start, end) = (settings.start_ticks(), settings.end_ticks());
    let mut tasks = [Task::default(); MOST_TASKS];
    let mut count = 0;
    for ((task, period), cost) in tasks.iter_mut().zip(numbers(settings, "period_us")).zip(numbers(settings, "cost_us"))
    {
        *task = Task { period, cost, next_release: start, ..Task::default() };
        count += 1;
    }
    let tasks = tasks.split_at_mut(count).0;
    let nominal = (0..32).fold(u64::MAX, |least, _| {
        let before = cpu::counter_ticks();
        work::short_block();
        least.min(cpu::counter_ticks() - before)
    });
    let mut log = Log::new(3);
    let mut now = work::sleep_until(start);
    while now < end {
        tasks.iter_mut().for_each(|task| task.release_if_due(now));
        let Some(index) = tasks.iter().position(|task| task.left != 0) else {
            let next = tasks.iter().map(|task| task.next_release).min().unwrap_or(end).min(end);
            now = work::sleep_until(next);
            continue;
        };
        work::short_block();
        let after = cpu::counter_ticks();
        let Some(task) = tasks.get_mut(index) else { break };
        // Twice a block is more than a look at the set takes, and less than a switch to another partition and back.
        let spent = if after - now > 2 * nominal { nominal } else { after - now };
        now = after;
        if task.left > spent {
            task.left -= spent;
            continue;
        }
        task.complete(now);
        log.add(&[index as u64, task.release, now]);
    }
    for (index, task) in tasks.iter().enumerate() {
        println!("task {index} jobs={} worst={} missed={}", task.jobs, task.worst, task.missed);
    }
    log.announce();
}
