//! The schedule of the Quest seed's figure 4, tick by tick from the published rules (QV-22 to QV-28, QV-32 to QV-34).
//!
//! A main VCPU keeps a list of replenishments and what it has used of the first; an I/O VCPU keeps one grant. Nothing of
//! it is taken from `real-time.md`, which formulates the same rules with chunks that move: the two must agree (SS-03).

/// Who runs in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// Main VCPU with this index, within its budget.
    Main(usize),
    /// Main VCPU with this index, in the background.
    Background(usize),
    /// The I/O VCPU.
    Io,
    /// Nobody.
    Nobody,
}

/// A main VCPU that always has work from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Main {
    /// Budget.
    pub budget: u64,
    /// Period.
    pub period: u64,
    /// First tick with work.
    pub start: u64,
}

/// The I/O VCPU, and its one request on behalf of a main VCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Share of the core in percent.
    pub share_percent: u64,
    /// Period of the client.
    pub period: u64,
    /// When the request comes.
    pub request_at: u64,
    /// Ticks that it takes.
    pub request_ticks: u64,
}

struct MainState {
    entries: Vec<(u64, u64)>,
    used: u64,
}

impl MainState {
    fn capacity(&self, now: u64) -> u64 {
        match self.entries.first() {
            Some((at, amount)) if *at <= now => amount - self.used,
            _ => 0,
        }
    }

    /// QV-25, for ticks that never overrun.
    fn charge(&mut self, period: u64) {
        self.used += 1;
        let (at, amount) = self.entries[0];
        if self.used == amount {
            self.entries.remove(0);
            self.entries.push((at + period, amount));
            self.entries.sort_unstable();
            self.used = 0;
        }
    }
}

/// Runs `ticks` ticks; shorter periods come first, the I/O VCPU before a main one of its period, earlier list entries before later.
#[must_use]
pub fn schedule(mains: &[Main], io: Io, ticks: u64) -> Vec<Runner> {
    let mut states: Vec<MainState> =
        mains.iter().map(|main| MainState { entries: vec![(main.start, main.budget)], used: 0 }).collect();
    let grant = io.period * io.share_percent / 100;
    let (mut io_left, mut io_budget, mut io_used, mut eligible) = (0, grant, 0, 0);
    let mut order: Vec<usize> = (0..mains.len()).collect();
    order.sort_by_key(|index| mains[*index].period);
    let mut runs = Vec::new();
    for now in 0..ticks {
        if now == io.request_at {
            io_left = io.request_ticks;
            eligible = now.max(eligible);
        }
        let io_runs = io_left > 0 && eligible <= now && io_budget > 0;
        let main = order.iter().copied().find(|index| states[*index].capacity(now) > 0 && mains[*index].start <= now);
        let runner = match main {
            Some(main) if !io_runs || mains[main].period < io.period => Runner::Main(main),
            _ if io_runs => Runner::Io,
            // The idle time goes to the first one in the order, and is not charged (QV-22).
            _ => match order.iter().copied().find(|index| mains[*index].start <= now) {
                Some(main) => Runner::Background(main),
                None => Runner::Nobody,
            },
        };
        match runner {
            Runner::Main(main) => states[main].charge(mains[main].period),
            Runner::Io => {
                io_left -= 1;
                io_budget -= 1;
                io_used += 1;
                // QV-34: blocked or empty, what was used comes back after it has been paid for at the share.
                if io_left == 0 || io_budget == 0 {
                    eligible += io_used * 100 / io.share_percent;
                    (io_used, io_budget) = (0, grant);
                }
            }
            Runner::Background(_) | Runner::Nobody => {}
        }
        runs.push(runner);
    }
    runs
}

/// The intervals [first, end) in which `wanted` holds.
#[must_use]
pub fn intervals(runs: &[Runner], wanted: impl Fn(Runner) -> bool) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (now, _) in (0u64..).zip(runs).filter(|(_, runner)| wanted(**runner)) {
        match found.last_mut() {
            Some((_, end)) if *end == now => *end += 1,
            _ => found.push((now, now + 1)),
        }
    }
    found
}

/// Most ticks of `runs` for which `wanted` holds in any window of this many ticks.
#[must_use]
pub fn most_in_window(runs: &[Runner], window: usize, wanted: impl Fn(Runner) -> bool) -> usize {
    runs.windows(window).map(|window| window.iter().filter(|runner| wanted(**runner)).count()).max().unwrap_or(0)
}

/// Figure 4: V1 20/50, V0 10/40 from 1 on, and an I/O VCPU of 4 % for a client of period 50 with a request of 3 at 25.
pub const FIGURE_4: ([Main; 2], Io) = (
    [Main { budget: 10, period: 40, start: 1 }, Main { budget: 20, period: 50, start: 0 }],
    Io { share_percent: 4, period: 50, request_at: 25, request_ticks: 3 },
);

#[cfg(test)]
mod tests {
    use super::*;

    /// QV-E10, SS-03: the golden schedule, from other rules than those it was derived with.
    #[test]
    fn figure_4_is_the_golden_schedule() {
        let (mains, io) = FIGURE_4;
        let runs = schedule(&mains, io, 121);
        assert_eq!(
            intervals(&runs, |runner| runner == Runner::Main(1)),
            [(0, 1), (11, 25), (27, 32), (51, 71), (100, 120)]
        );
        assert_eq!(intervals(&runs, |runner| runner == Runner::Main(0))[..3], [(1, 11), (41, 51), (81, 91)]);
        assert_eq!(intervals(&runs, |runner| runner == Runner::Io), [(25, 27), (75, 76)]);
        assert_eq!(most_in_window(&runs, 50, |runner| runner == Runner::Main(1)), 29, "more than its budget of 20");
        assert_eq!(intervals(&runs, |runner| runner == Runner::Background(1)), [], "background goes to the other one");
    }
}
