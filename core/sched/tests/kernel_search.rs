//! Every small history of a kernel's core, by somebody who did not write it: all sequences of what can be reported, up to a length, for servers of
//! each rule beside each other. Nothing here knows how a rule works: what a server may use in a window is the bound of `real-time.md`, and who runs is
//! the most important one that asks and has budget.
//!
//! `BULKHEAD_DEPTH` makes the histories longer; with 8 it takes minutes.

mod support;

use bulkhead_sched::budget::{Anchor, Budget, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic};
use bulkhead_sched::kernel::{BACKGROUND, KernelCore, Next, Stint};

/// Things that are reported in one history.
const DEPTH: u32 = 6;
/// All times of a history are bits of a word.
const END: u64 = 64;
/// Longest step to a deadline.
const FAR: u64 = 6;
const BUDGET: u64 = 2;
const PERIOD: u64 = 5;
/// Of the io server: a third, in grants of two.
const SHARE: u64 = 3;
const GRANT: u64 = 2;

/// Most that a server uses in a window of `d`.
type Bound = fn(d: u64) -> u64;

fn stair(d: u64) -> u64 {
    d / PERIOD * BUDGET + BUDGET.min(d % PERIOD)
}

/// A rule: the server, its level's clients, what it can use at most.
#[derive(Clone, Copy)]
struct Rule {
    name: &'static str,
    make: fn(level: u8) -> Budget,
    bound: Bound,
    /// Without budget it continues.
    goes_on: bool,
    /// In each window so long, in which it asks all the time and nobody keeps it away, it has its budget; 0 where it may come back later.
    within: u64,
}

fn sporadic(anchor: Anchor, chunks: u8) -> Budget {
    let parameters = *support::sporadic(BUDGET, PERIOD, anchor).parameters();
    let lag_clamp = anchor == Anchor::Eligible;
    let parameters = bulkhead_sched::budget::SporadicParameters { chunks, lag_clamp, ..parameters };
    Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
}

fn io(level: u8) -> Budget {
    let share = Share { numerator: 1, denominator: SHARE as u32 };
    let clients = [Client { period_ticks: SHARE * GRANT, priority: level }];
    Budget::Pibs(Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("valid"))
}

const RULES: &[Rule] = &[
    Rule { name: "dispatch", make: |_| sporadic(Anchor::Dispatch, 4), bound: stair, goes_on: false, within: PERIOD },
    Rule {
        name: "dispatch, two chunks",
        make: |_| sporadic(Anchor::Dispatch, 2),
        bound: stair,
        goes_on: true,
        within: 0,
    },
    Rule {
        name: "eligible",
        make: |_| sporadic(Anchor::Eligible, 4),
        bound: |d| stair(d + PERIOD - BUDGET),
        goes_on: true,
        within: PERIOD,
    },
    Rule {
        name: "deferrable",
        make: |_| Budget::Deferrable(Deferrable::new(BUDGET, PERIOD, 0).expect("valid")),
        bound: |d| stair(d + PERIOD - BUDGET),
        goes_on: false,
        within: PERIOD,
    },
    Rule {
        // Who blocks at the instant of a poll has lost that period.
        name: "polling",
        make: |_| Budget::Polling(Polling::new(BUDGET, PERIOD, 0).expect("valid")),
        bound: |d| stair(d + PERIOD - BUDGET),
        goes_on: true,
        within: 0,
    },
    // J is at most the period less the grant for one that is not starved (2.3); who is more important here takes less than that. Who
    // blocks has given the rest of its grant back.
    Rule {
        name: "io",
        make: io,
        bound: |d| (d + 2 * (SHARE * GRANT - GRANT)).div_ceil(SHARE).max(GRANT),
        goes_on: false,
        within: 0,
    },
];

/// What a server did at each instant, a bit each.
#[derive(Clone, Copy, Default)]
struct Used {
    /// It ran on its budget, or a top half of its was done.
    charged: u64,
    /// That was a top half when it had nothing.
    owed: u64,
    /// It asked, and no top half of another one was done.
    free: u64,
}

#[derive(Clone)]
struct State {
    core: KernelCore<4>,
    now: u64,
    asks: [bool; 3],
    next: Next,
    used: [Used; 3],
    /// What was done: when, and which action.
    trail: [(u64, usize); 16],
}

struct Search<'a> {
    rules: &'a [Rule],
    histories: u64,
}

impl Search<'_> {
    /// Asks who runs, and compares.
    fn choose(&self, state: &mut State) {
        let now = state.now;
        state.next = state.core.next(now);
        let mut seen = state.core.clone();
        let mut of = |slot: usize| state.asks[slot].then(|| seen.capacity_ticks(slot as u8, now));
        let capacities: Vec<_> = (0..self.rules.len()).map(&mut of).collect();
        let first = |is_it: fn(u64, bool) -> bool| {
            (0..self.rules.len())
                .find(|slot| capacities[*slot].is_some_and(|left| is_it(left, self.rules[*slot].goes_on)))
        };
        let level = |slot: usize| slot as u8;
        let (with, without) = (first(|left, _| left > 0), first(|_, goes_on| goes_on));
        let expected = match (with, without) {
            (Some(slot), _) => Stint::new(slot as u8, slot as u8, level(slot), false),
            (None, Some(slot)) => Stint::new(slot as u8, slot as u8, level(slot) + BACKGROUND, true),
            (None, None) => Stint::IDLE,
        };
        assert_eq!(state.next.stint, expected, "at {now}: the most important one that asks and has budget");
        assert!(state.next.deadline_ticks > now, "at {now}: a deadline lies ahead");
        if expected == Stint::IDLE && state.asks.contains(&true) {
            assert!(state.next.deadline_ticks <= now + 2 * END, "at {now}: somebody waits, and nothing would wake it");
        }
    }

    /// Time passes, tick by tick: nobody else would be chosen before the deadline.
    fn pass(&self, state: &mut State, ticks: u64) {
        let stint = state.next.stint;
        for _ in 0..ticks {
            let at = state.now;
            let early = state.core.clone().next(at);
            assert!(
                at >= state.next.deadline_ticks || early.stint == stint,
                "at {at}: {early:?} came without a deadline"
            );
            if stint != Stint::IDLE && !stint.is_background() {
                state.used[usize::from(stint.server())].charged |= 1 << at;
            }
            for slot in 0..self.rules.len() {
                state.used[slot].free |= u64::from(state.asks[slot]) << at;
            }
            state.now += 1;
        }
        state.core.advance(state.now);
    }

    /// What each has used in each window that ends now, beyond what it owes.
    fn compare(&self, state: &State) {
        for ((rule, used), slot) in self.rules.iter().zip(state.used).zip(0..) {
            for from in 0..state.now {
                let window = u64::MAX << from;
                let ticks = u64::from((used.charged & window).count_ones());
                let owed = u64::from((used.owed & window).count_ones());
                let bound = (rule.bound)(state.now - from) + owed;
                assert!(
                    ticks <= bound,
                    "server {slot} ({}) used {ticks} from {from} to {}: {bound}; {:?}",
                    rule.name,
                    state.now,
                    state.trail
                );
            }
        }
    }

    /// The most important one has its budget in each window in which nothing keeps it away, if it owes nothing.
    fn compare_least(&self, state: &State) {
        let (within, used) = (self.rules[0].within, state.used[0]);
        let Some(from) = state.now.checked_sub(within).filter(|_| within != 0) else { return };
        let window = ((1 << within) - 1) << from;
        let ticks = (used.charged & window).count_ones();
        assert!(
            used.owed != 0 || used.free & window != window || u64::from(ticks) >= BUDGET,
            "{} had {ticks} from {from} to {}; {:?}",
            self.rules[0].name,
            state.now,
            state.trail
        );
    }

    fn step(&mut self, state: &State, depth: u32) {
        self.histories += 1;
        if depth == 0 || state.now + FAR + 1 >= END {
            return;
        }
        for action in 0..2 + 2 * self.rules.len() {
            let mut then = state.clone();
            then.trail.rotate_left(1);
            then.trail[15] = (state.now, action);
            match action {
                0 => self.pass(&mut then, 1),
                1 => {
                    let ticks = (state.next.deadline_ticks - state.now).min(FAR);
                    if ticks < 2 {
                        continue;
                    }
                    self.pass(&mut then, ticks);
                }
                _ => self.report(&mut then, action - 2),
            }
            self.choose(&mut then);
            self.compare(&then);
            self.compare_least(&then);
            self.step(&then, depth - 1);
        }
    }

    /// A server begins or ceases to ask, or a top half of its takes a tick.
    fn report(&self, state: &mut State, action: usize) {
        let (slot, now) = (action / 2, state.now);
        let number = slot as u8;
        if action.is_multiple_of(2) {
            state.asks[slot] = !state.asks[slot];
            if state.asks[slot] {
                state.core.wake(now, number)
            } else {
                state.core.block(now, number)
            }
            return;
        }
        let is_empty = state.core.clone().capacity_ticks(number, now) == 0;
        state.core.charge_for(now + 1, number);
        state.used[slot].charged |= 1 << now;
        state.used[slot].owed |= u64::from(is_empty) << now;
        state.now += 1;
    }

    fn run(rules: &[Rule], depth: u32) -> u64 {
        let mut core = KernelCore::<4>::empty();
        assert!(core.configure(0, (0..rules.len()).map(|level| 1 << level)));
        for (slot, rule) in rules.iter().enumerate() {
            core.activate(0, slot as u8, (rule.make)(slot as u8), rule.goes_on).expect("free");
        }
        let next = core.next(0);
        let mut search = Search { rules, histories: 0 };
        let state = State { core, now: 0, asks: [false; 3], next, used: [Used::default(); 3], trail: [(0, 0); 16] };
        search.step(&state, depth);
        search.histories
    }
}

fn depth() -> u32 {
    std::env::var("BULKHEAD_DEPTH").map_or(DEPTH, |text| text.parse().expect("a number"))
}

/// QV-21, QV-22, QV-23, QV-24, QV-32, QV-35, QV-40: two servers of each rule beside each other.
#[test]
fn no_history_of_two_servers_gains_or_loses_time() {
    let mut histories = 0;
    for first in RULES {
        for second in RULES {
            histories += Search::run(&[*first, *second], depth());
        }
    }
    println!("{histories} histories");
}

/// Three, of which the first has the shortest histories that starve the others.
#[test]
fn no_history_of_three_servers_gains_or_loses_time() {
    let mut histories = 0;
    for first in 0..RULES.len() {
        let rules = [0, 1, 3].map(|offset| RULES[(first + offset) % RULES.len()]);
        histories += Search::run(&rules, depth() - 1);
    }
    println!("{histories} histories");
}
