//! Round robin with a quantum and the interrupt policies of the MIPS seed (MZ-5, MZ-10 to MZ-24).
//!
//! Guest 0 owns the wire and computes between requests; all others compute always. The next request is raised when the one before was
//! answered, at once if its time has passed (a NIC whose driver polls behaves so).

use super::statistics::{Random, Served, Source};

/// What an interrupt does whose owner does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It waits for its owner's turn.
    None,
    /// Its owner runs for what is left of the quantum.
    Recycle,
    /// Its owner gets a whole quantum.
    Reset,
    /// As reset, and an interrupt of the running owner gives it a new quantum.
    ResetExtend,
}

/// What happens to an interrupt that met a guest which may not be pre-empted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It acts when the ring starts a guest that may be pre-empted.
    Masked,
    /// Its owner runs at the end of the current quantum.
    Latched,
}

/// Where the guests that may not be pre-empted stand on the ring (MZ-R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In one block, whose turns end with the owner's.
    Before,
    /// In one block, whose turns begin after the owner's.
    Behind,
    /// Every other one.
    Alternating,
}

impl Placement {
    /// All of them, in the order of the requirement.
    pub const ALL: [Self; 3] = [Self::Before, Self::Behind, Self::Alternating];

    /// States which guests of a ring may be pre-empted when half of the guests may not.
    #[must_use]
    pub fn preemptible(self, guests: usize) -> Vec<bool> {
        let half = guests / 2;
        (0..guests)
            .map(|guest| match self {
                Self::Before => guest < guests - half,
                Self::Behind => guest == 0 || guest > half,
                Self::Alternating => guest % 2 == 0,
            })
            .collect()
    }
}

/// A ring.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Quantum.
    pub quantum_ns: u64,
    /// Interrupt policy.
    pub policy: Policy,
    /// What waiting means.
    pub reading: Reading,
    /// A reset moves the ring to the owner.
    pub ring_moves: bool,
    /// Per guest: interrupts of others may end its turn. Its length is the number of guests.
    pub preemptible: Vec<bool>,
    /// Work of the handler.
    pub handler_ns: u64,
    /// Time that a change of guests takes from the guest that starts.
    pub switch_ns: u64,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests in order.
    pub served: Vec<Served>,
    /// Time that each guest ran.
    pub ran_ns: Vec<u64>,
}

struct State<'a> {
    ring: &'a Ring,
    now: u64,
    pointer: usize,
    running: usize,
    quantum_end: u64,
    latched: bool,
    /// Time of the request that is next or being served.
    request: u64,
    /// The interrupt stands and its handler has not begun.
    raised: bool,
    entered: Option<u64>,
    work_left: u64,
    outcome: Outcome,
}

impl State<'_> {
    fn advance(&mut self, to: u64) {
        let spent = to - self.now;
        self.now = to;
        if let Some(ran) = self.outcome.ran_ns.get_mut(self.running) {
            *ran += spent;
        }
        if self.running == 0 && self.entered.is_some() {
            self.work_left -= spent;
        }
    }

    fn run(&mut self, guest: usize) {
        if guest != self.running {
            // The one that starts pays for the switch: the time passes and nothing is done in it.
            self.running = guest;
            self.now += self.ring.switch_ns;
        }
        if guest == 0 && self.raised {
            self.enter();
        }
    }

    fn enter(&mut self) {
        self.raised = false;
        self.latched = false;
        self.entered = Some(self.now);
        self.work_left = self.ring.handler_ns;
    }

    /// The owner runs outside its turn.
    fn pre_empt(&mut self) {
        if matches!(self.ring.policy, Policy::Reset | Policy::ResetExtend) {
            self.quantum_end = self.now + self.ring.quantum_ns;
            if self.ring.ring_moves {
                self.pointer = 0;
            }
        }
        self.run(0);
    }

    fn is_preemptible(&self) -> bool {
        self.ring.preemptible.get(self.running).copied().unwrap_or(true)
    }

    fn raise(&mut self) {
        self.raised = true;
        if self.running == 0 {
            if self.ring.policy == Policy::ResetExtend {
                self.quantum_end = self.now + self.ring.quantum_ns;
            }
            self.enter();
        } else if self.ring.policy == Policy::None {
        } else if self.is_preemptible() {
            self.pre_empt();
        } else if self.ring.reading == Reading::Latched {
            self.latched = true;
        }
    }

    fn end_quantum(&mut self) {
        self.quantum_end = self.now + self.ring.quantum_ns;
        if self.latched {
            self.run(0);
            return;
        }
        self.pointer = (self.pointer + 1) % self.ring.preemptible.len();
        self.run(self.pointer);
        if self.raised && self.ring.policy != Policy::None && self.is_preemptible() {
            self.pre_empt();
        }
    }
}

impl Ring {
    /// Serves requests, from time 0, at which `first` starts a quantum that ends at `first_end_ns`.
    #[must_use]
    pub fn run(&self, source: &Source<'_>, seed: u64, first: usize, first_end_ns: u64) -> Outcome {
        let mut random = Random::new(seed);
        let (count, request) = (source.count(), source.first(&mut random));
        let mut state = State {
            ring: self,
            now: 0,
            pointer: first,
            running: first,
            quantum_end: first_end_ns.max(1),
            latched: false,
            request,
            raised: false,
            entered: None,
            work_left: 0,
            outcome: Outcome { served: Vec::with_capacity(count), ran_ns: vec![0; self.preemptible.len()] },
        };
        while state.outcome.served.len() < count {
            let done = match state.entered {
                Some(_) if state.running == 0 => state.now + state.work_left,
                _ => u64::MAX,
            };
            let raise = if state.raised || state.entered.is_some() { u64::MAX } else { state.request.max(state.now) };
            // At one instant the answer is first, then the end of the quantum, then the request.
            if done <= state.quantum_end.min(raise) {
                state.advance(done);
                let entered_ns = state.entered.take().unwrap_or(done);
                state.outcome.served.push(Served { request_ns: state.request, entered_ns, done_ns: done });
                let number = state.outcome.served.len();
                state.request = source.next(number, state.request, done, &mut random);
            } else if state.quantum_end <= raise {
                let end = state.quantum_end.max(state.now);
                state.advance(end);
                state.end_quantum();
            } else {
                state.advance(raise);
                state.raise();
            }
        }
        state.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::statistics::{Arrivals, Summary};

    const MS: u64 = 1_000_000;

    fn ring(guests: usize, policy: Policy) -> Ring {
        Ring {
            quantum_ns: 30 * MS,
            policy,
            reading: Reading::Masked,
            ring_moves: false,
            preemptible: vec![true; guests],
            handler_ns: 2 * MS,
            switch_ns: 0,
        }
    }

    /// Worst (start, completion) over all phases in steps of 1 ms, for one request.
    fn worst(ring: &Ring) -> (u64, u64) {
        let cycle = ring.preemptible.len() as u64 * 30;
        let each = (0..cycle).map(|at| {
            let outcome = ring.run(&Source::Times(&[at * MS]), 1, 0, 30 * MS);
            let served = outcome.served[0];
            ((served.entered_ns - served.request_ns) / MS, (served.done_ns - served.request_ns) / MS)
        });
        each.fold((0, 0), |worst, one| (worst.0.max(one.0), worst.1.max(one.1)))
    }

    /// RR-01 and MZ-20: worst start and completion, N = 4, Q = 30, h = 2.
    #[test]
    fn worst_cases_of_the_policies_are_those_derived_by_hand() {
        assert_eq!(worst(&ring(4, Policy::None)), (90, 92));
        assert_eq!(worst(&ring(4, Policy::Recycle)), (0, 92));
        assert_eq!(worst(&ring(4, Policy::Reset)), (0, 92), "an interrupt near the end of the own slice is cut off");
        assert_eq!(worst(&ring(4, Policy::ResetExtend)), (0, 2));
    }

    /// RR-02: two guests that may not be pre-empted, side by side and apart.
    #[test]
    fn guests_that_may_not_be_pre_empted_delay_by_their_longest_run() {
        let with = |placement: Placement, policy| Ring { preemptible: placement.preemptible(4), ..ring(4, policy) };
        assert_eq!(worst(&with(Placement::Behind, Policy::ResetExtend)), (60, 62));
        assert_eq!(worst(&with(Placement::Before, Policy::ResetExtend)), (60, 62));
        assert_eq!(worst(&with(Placement::Alternating, Policy::ResetExtend)), (30, 32));
        let latched = Ring { reading: Reading::Latched, ..with(Placement::Behind, Policy::ResetExtend) };
        assert_eq!(worst(&latched), (30, 32), "MZ-E1 (iv): at most a quantum and the handler");
    }

    /// MZ-E1 (ii): without policy the published means lie within 15 %.
    #[test]
    fn without_policy_the_published_means_are_near() {
        for (guests, published) in [(2, 9.35), (4, 36.33), (6, 66.29)] {
            let ring = Ring { handler_ns: 350_000, ..ring(guests, Policy::None) };
            let source = Source::Pattern(Arrivals::open(50 * MS, MS / 2), 20_000);
            let served = ring.run(&source, 7, 0, 30 * MS).served;
            let mean = Summary::of(&served.iter().map(Served::answer_ms).collect::<Vec<_>>()).mean + 0.723;
            assert!((mean / published - 1.0).abs() < 0.15, "{guests} guests: {mean} against {published}");
        }
    }

    /// RR-03 and MZ-26: a storm of one owner starves the others under every published policy.
    #[test]
    fn a_storm_takes_the_core() {
        // Percent of the core that each guest got.
        let shares = |policy, ring_moves, spacing| {
            let ring = Ring { handler_ns: 0, ring_moves, ..ring(3, policy) };
            let count = usize::try_from(3000 * MS / spacing).expect("a small number");
            let ran = ring.run(&Source::Pattern(Arrivals::open(spacing, 0), count), 3, 0, 30 * MS).ran_ns;
            let all: u64 = ran.iter().sum();
            ran.iter().map(|ran| 100.0 * *ran as f64 / all as f64).collect::<Vec<_>>()
        };
        let moving = shares(Policy::Reset, true, 31 * MS);
        assert!(moving[0] > 96.0 && moving[2] == 0.0, "{moving:?}");
        let staying = shares(Policy::Reset, false, 31 * MS);
        assert!(staying[0] > 96.0 && staying[1] > 1.5 * staying[2] && staying[2] > 0.9, "{staying:?}");
        for policy in [Policy::Recycle, Policy::Reset] {
            let continuous = shares(policy, false, MS / 100);
            assert!(continuous[0] > 99.9, "{continuous:?}");
        }
    }
}
