//! Our form of fast interrupts: a plain ring, and above it a server of the owner behind an interrupt gate with a budget.
//!
//! The budget is dated when it is spent: what ran from `s` on comes back at `s` + period, so no window of one period holds more
//! than one budget. All guests compute; guest 0 owns the wire.

use super::mips::Outcome;
use super::statistics::{Arrivals, Random, Served};

/// A ring with a gated server for guest 0.
#[derive(Clone, Copy, Debug)]
pub struct BudgetedRing {
    /// Guests.
    pub guests: usize,
    /// Quantum.
    pub quantum_ns: u64,
    /// Budget of the gated server.
    pub budget_ns: u64,
    /// Its period.
    pub period_ns: u64,
    /// The gate closes when the handler has ended, rather than when the budget is used up.
    pub voluntary: bool,
    /// Work of the handler.
    pub handler_ns: u64,
}

struct State {
    now: u64,
    pointer: usize,
    left: u64,
    available: u64,
    spent: Vec<(u64, u64)>,
    request: u64,
    raised: bool,
    open: bool,
    entered: Option<u64>,
    work_left: u64,
    outcome: Outcome,
}

impl State {
    fn replenish(&mut self) {
        let now = self.now;
        self.available += self.spent.iter().filter(|(at, _)| *at <= now).map(|(_, amount)| amount).sum::<u64>();
        self.spent.retain(|(at, _)| *at > now);
    }

    fn uses_gate(&self) -> bool {
        self.open && self.available > 0
    }
}

impl BudgetedRing {
    /// Serves requests until `end_ns`.
    #[must_use]
    pub fn run(&self, arrivals: &Arrivals, end_ns: u64, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut state = State {
            now: 0,
            pointer: 0,
            left: self.quantum_ns,
            available: self.budget_ns,
            spent: Vec::new(),
            request: random.below(arrivals.spacing_ns.max(1)),
            raised: false,
            open: false,
            entered: None,
            work_left: 0,
            outcome: Outcome { served: Vec::new(), ran_ns: vec![0; self.guests] },
        };
        while state.now < end_ns {
            self.step(&mut state, end_ns, arrivals, &mut random);
        }
        state.outcome
    }

    fn step(&self, state: &mut State, end_ns: u64, arrivals: &Arrivals, random: &mut Random) {
        state.replenish();
        if state.entered.is_none() && state.request <= state.now {
            state.raised = true;
            state.open = true;
        }
        let gated = state.uses_gate();
        let runner = if gated { 0 } else { state.pointer };
        if runner == 0 && state.raised {
            state.raised = false;
            state.entered = Some(state.now);
            state.work_left = self.handler_ns;
        }
        let own = if gated { state.available } else { state.left };
        let work = if runner == 0 && state.entered.is_some() { state.work_left } else { u64::MAX };
        let request = if state.raised || state.entered.is_some() { u64::MAX } else { state.request - state.now };
        let refill = state.spent.iter().map(|(at, _)| at - state.now).min().unwrap_or(u64::MAX);
        let ran = own.min(work).min(request).min(refill).min(end_ns - state.now);
        if gated {
            state.available -= ran;
            state.spent.push((state.now + self.period_ns, ran));
        } else {
            state.left -= ran;
        }
        state.now += ran;
        state.outcome.ran_ns[runner] += ran;
        if runner == 0 && state.entered.is_some() {
            state.work_left -= ran;
            if state.work_left == 0 {
                self.answer(state, arrivals, random);
            }
        }
        if gated && !self.voluntary && state.available == 0 && !state.raised && state.entered.is_none() {
            state.open = false;
        }
        if state.left == 0 {
            state.left = self.quantum_ns;
            state.pointer = (state.pointer + 1) % self.guests;
        }
    }

    fn answer(&self, state: &mut State, arrivals: &Arrivals, random: &mut Random) {
        let entered_ns = state.entered.take().unwrap_or(state.now);
        state.outcome.served.push(Served { request_ns: state.request, entered_ns, done_ns: state.now });
        state.request = arrivals.next(state.outcome.served.len() as u64, state.request, state.now, random);
        if self.voluntary && state.request > state.now {
            state.open = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RING: BudgetedRing = BudgetedRing {
        guests: 3,
        quantum_ns: 30 * MS,
        budget_ns: 2 * MS,
        period_ns: 30 * MS,
        voluntary: true,
        handler_ns: 350_000,
    };

    /// UNI-02: requests within the budget are answered after their handler alone.
    #[test]
    fn conforming_requests_do_not_wait() {
        let served = RING.run(&Arrivals::open(50 * MS, MS / 2), 10_000 * MS, 3).served;
        assert!(served.len() > 190);
        assert!(served.iter().all(|one| one.done_ns - one.request_ns == 350_000));
    }

    /// UNI-02, MZ-26: a storm costs the peers a budget per period and no more.
    #[test]
    fn a_storm_takes_its_budget_and_its_turns() {
        for voluntary in [false, true] {
            let ran = BudgetedRing { voluntary, ..RING }.run(&Arrivals::open(MS / 2, 0), 9_000 * MS, 3).ran_ns;
            for peer in [1, 2] {
                assert!(ran[peer] >= 9_000 * MS * 28 / 30 / 3 - 30 * MS, "{ran:?}");
            }
        }
    }
}
