//! Health of the non-secure world, and what follows from it (SG-60, SG-61).
//!
//! States, reasons and policies are those of partitions (`core/abi`), so one vocabulary says what is wrong with a guest wherever it runs:
//! to be off is an end and no fault; a reset that the world asks for, silence, lack of progress and a fault that somebody reports go to the
//! policy; a payload that asks for a restart gets it in any state, and it does not count.
//!
//! Heartbeats may lie. Progress needs no cooperation: a world that was run, and all the same neither called nor took an interrupt that it
//! has enabled, has it masked; when its program counter stays within [`LOOP_BYTES`] meanwhile, for as many samples in a row as the plan says, it
//! is stuck. Each of the three alone is found in healthy worlds: long masked stretches, waiting for an interrupt, tight loops.
//!
//! This is a machine of states: it is told what happened, and says what to do ([`Order`]). Nothing here stops or starts anything.

use bulkhead_abi::plan::{MAX_RESTARTS, POLICY_HALT, POLICY_RESTART};
use bulkhead_abi::status;

/// How far the program counter of a stuck world moves.
pub const LOOP_BYTES: u64 = 4096;

/// How a world is watched, and what happens after its faults. Zeros: the system says nothing about it, so its payload does what it likes; a
/// fault leaves the world stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HealthPlan {
    /// A sign of life is due this often; 0 = nobody waits for one.
    pub heartbeat_ticks: u64,
    /// So many in a row have to be missing. 0: the system says nothing about health, and everything here is 0.
    pub missed: u32,
    /// So many samples in a row without progress are a fault; 0 = progress is not judged.
    pub stuck_samples: u32,
    /// One of the `POLICY_` constants of `core/abi`; another number is taken for `POLICY_STOP`.
    pub policy: u32,
    /// Restarts allowed within `within_ticks`, at most [`MAX_RESTARTS`].
    pub max_restarts: u32,
    /// Window of `max_restarts`.
    pub within_ticks: u64,
    /// Wait before a restart.
    pub backoff_ticks: u64,
}

impl HealthPlan {
    /// The plan of a system that says nothing about health.
    #[must_use]
    pub const fn nobody() -> Self {
        Self {
            heartbeat_ticks: 0,
            missed: 0,
            stuck_samples: 0,
            policy: 0,
            max_restarts: 0,
            within_ticks: 0,
            backoff_ticks: 0,
        }
    }

    /// The system says what happens when the world fails.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.missed != 0
    }
}

/// A state, with the number that partitions have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// It is being run.
    Running = status::STATE_RUNNING,
    /// Somebody suspended it.
    Suspended = status::STATE_SUSPENDED,
    /// It switched itself off.
    Off = status::STATE_OFF,
    /// A restart is under way, or its back-off; so is the first start.
    Restarting = status::STATE_RESTARTING,
    /// Stopped by its policy after a fault.
    Stopped = status::STATE_STOPPED,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The world shows a sign of life: a call, or a word that changed.
    Heartbeat,
    /// It called SYSTEM_OFF.
    Off,
    /// It called SYSTEM_RESET.
    Reset,
    /// Somebody reports a fault, by one of the `REASON_` constants of `core/abi`.
    Fault(u32),
    /// What it was found doing when an interrupt of the payload took the core from it.
    Sample(Sample),
    /// A task of the payload suspends it.
    Suspend,
    /// A task of the payload lets it go on.
    Resume,
    /// A task of the payload restarts it.
    Restart,
    /// The restart that was ordered is done: it runs.
    Started,
    /// The restart that was ordered found its image damaged.
    Damaged,
}

/// What is seen of a world without its help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// ELR_EL3 of its context.
    pub program_counter: u64,
    /// Calls that it has made so far, without its signs of life: a loop may well send them.
    pub calls: u64,
    /// Its interrupts that are enabled and pending, 64 of them, by any numbering that does not change.
    pub waiting: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing changes.
    Nothing,
    /// No server may run it from now on.
    Stand,
    /// Servers may run it again.
    Run,
    /// No server may run it from now on, and it is started again: [`crate::restart`]. Ordered when the back-off is over. A start that is under
    /// way begins from its first step.
    Restart,
    /// No server may run it, and the machine is switched off.
    Halt,
}

/// Samples since the latest progress.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    last: Sample,
    lowest: u64,
    highest: u64,
    count: u32,
}

/// The health of one world.
#[derive(Clone, Debug)]
pub struct Health {
    plan: HealthPlan,
    state: State,
    reason: u32,
    /// The latest sign of life, or the start.
    alive_ticks: u64,
    /// When the back-off ends, while there is one.
    backoff_until_ticks: Option<u64>,
    progress: Progress,
    restarts: u32,
    faults: u32,
    /// When the policy's restarts were ordered, the oldest overwritten first.
    ordered_ticks: [u64; MAX_RESTARTS as usize],
    ordered: usize,
}

impl Health {
    /// A world whose first start is under way; the caller has ordered it.
    #[must_use]
    pub const fn new(plan: HealthPlan) -> Self {
        Self {
            plan,
            state: State::Restarting,
            reason: status::REASON_NONE,
            alive_ticks: 0,
            backoff_until_ticks: None,
            progress: Progress {
                last: Sample { program_counter: 0, calls: 0, waiting: 0 },
                lowest: 0,
                highest: 0,
                count: 0,
            },
            restarts: 0,
            faults: 0,
            ordered_ticks: [0; MAX_RESTARTS as usize],
            ordered: 0,
        }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Why it is in that state: one of the `REASON_` constants.
    #[must_use]
    pub const fn reason(&self) -> u32 {
        self.reason
    }

    /// Restarts that were done; the first start is none.
    #[must_use]
    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Faults so far.
    #[must_use]
    pub const fn faults(&self) -> u32 {
        self.faults
    }

    /// When [`Health::elapse`] has something to say if nothing happens before.
    #[must_use]
    pub fn next_event_ticks(&self) -> Option<u64> {
        match self.state {
            State::Running if self.plan.heartbeat_ticks != 0 => Some(self.silence_ends_ticks()),
            State::Restarting => self.backoff_until_ticks,
            _ => None,
        }
    }

    /// Time has passed: is the latest sign of life too old, or the back-off over?
    pub fn elapse(&mut self, now: u64) -> Order {
        if self.next_event_ticks().is_none_or(|due| now < due) {
            return Order::Nothing;
        }
        if self.state == State::Running {
            return self.fault(status::REASON_WATCHDOG, now);
        }
        self.backoff_until_ticks = None;
        Order::Restart
    }

    /// Something happened. What makes no sense in a state changes nothing.
    pub fn happened(&mut self, event: Event, now: u64) -> Order {
        let runs = self.state == State::Running;
        let is_loading = self.state == State::Restarting && self.backoff_until_ticks.is_none();
        match event {
            Event::Heartbeat => {
                self.alive_ticks = self.alive_ticks.max(now);
                Order::Nothing
            }
            Event::Off if runs => self.stand(State::Off, status::REASON_NONE),
            Event::Reset if runs => self.fault(status::REASON_REQUESTED, now),
            // A fault of a world that stands is one of before, and noticed late.
            Event::Fault(reason) if runs => self.fault(reason, now),
            Event::Sample(sample) if runs && self.is_stuck(sample) => self.fault(status::REASON_WATCHDOG, now),
            Event::Suspend if runs => self.stand(State::Suspended, status::REASON_MANAGED),
            Event::Resume if self.state == State::Suspended => {
                self.run(status::REASON_NONE, now);
                Order::Run
            }
            Event::Restart => {
                (self.state, self.reason, self.backoff_until_ticks) = (State::Restarting, status::REASON_MANAGED, None);
                Order::Restart
            }
            Event::Started if is_loading => {
                // The first start has no reason before it.
                self.restarts = self.restarts.saturating_add(u32::from(self.reason != status::REASON_NONE));
                self.run(self.reason, now);
                Order::Run
            }
            // Another copy would find the same, so the policy is not asked again and again.
            Event::Damaged if is_loading => self.stand(State::Stopped, status::REASON_IMAGE_DAMAGED),
            _ => Order::Nothing,
        }
    }

    fn silence_ends_ticks(&self) -> u64 {
        let missed = u64::from(self.plan.missed.max(1));
        self.alive_ticks.saturating_add(self.plan.heartbeat_ticks.saturating_mul(missed))
    }

    fn run(&mut self, reason: u32, now: u64) {
        (self.state, self.reason, self.alive_ticks) = (State::Running, reason, now);
        self.progress = Progress::default();
    }

    fn stand(&mut self, state: State, reason: u32) -> Order {
        (self.state, self.reason) = (state, reason);
        Order::Stand
    }

    /// A fault goes to the policy.
    fn fault(&mut self, reason: u32, now: u64) -> Order {
        self.faults = self.faults.saturating_add(1);
        let policy = self.plan.policy;
        match policy {
            POLICY_RESTART if self.may_restart(now) => {
                let until = now.saturating_add(self.plan.backoff_ticks);
                self.backoff_until_ticks = (self.plan.backoff_ticks != 0).then_some(until);
                self.stand(State::Restarting, reason);
                if self.backoff_until_ticks.is_some() { Order::Stand } else { Order::Restart }
            }
            POLICY_HALT => {
                self.stand(State::Stopped, reason);
                Order::Halt
            }
            _ => self.stand(State::Stopped, reason),
        }
    }

    /// States whether one more restart is within the policy's limit, and remembers it: the one that is `max` before it must be longer ago
    /// than the window.
    fn may_restart(&mut self, now: u64) -> bool {
        let most = MAX_RESTARTS as usize;
        let allowed = (self.plan.max_restarts as usize).min(most);
        if let Some(oldest) = self.ordered.checked_sub(allowed) {
            let then = self.ordered_ticks.get(oldest.checked_rem(most).unwrap_or(0)).copied().unwrap_or(0);
            if allowed == 0 || now.saturating_sub(then) <= self.plan.within_ticks {
                return false;
            }
        }
        if let Some(place) = self.ordered_ticks.get_mut(self.ordered.checked_rem(most).unwrap_or(0)) {
            *place = now;
        }
        self.ordered = self.ordered.saturating_add(1);
        true
    }

    /// Takes a sample; true when there were enough of them without progress.
    fn is_stuck(&mut self, sample: Sample) -> bool {
        let before = self.progress;
        let lowest = before.lowest.min(sample.program_counter);
        let highest = before.highest.max(sample.program_counter);
        // What waited before and still waits, beside what came and went.
        let waiting = before.last.waiting & sample.waiting;
        let moves = before.count == 0
            || sample.calls != before.last.calls
            || waiting == 0
            || highest.saturating_sub(lowest) > LOOP_BYTES;
        self.progress = if moves {
            let at = sample.program_counter;
            Progress { last: sample, lowest: at, highest: at, count: 1 }
        } else {
            Progress { last: Sample { waiting, ..sample }, lowest, highest, count: before.count.saturating_add(1) }
        };
        self.plan.stuck_samples != 0 && !moves && self.progress.count > self.plan.stuck_samples
    }
}
