//! Round robin with a quantum and the published interrupt policies of the MIPS seed (`real-time.md` 3.1; MZ-10..MZ-26).
//!
//! It exists for the experiments and for continuity. It does not isolate: under a storm, `recycle` and `reset` give one
//! guest nearly all of the core (RR-03). Our recommendation is a server behind an interrupt gate with a budget of its own
//! ([`crate::server::Gate::InterruptPending`]): delivery is immediate while the budget lasts, and peers lose at most that
//! budget per period (UNI-02).
//!
//! An interrupt of the guest that runs is delivered at once and changes nothing, also when the guest runs in somebody
//! else's quantum (MZ-24). One that arrives while another guest runs acts by [`OnInterrupt`] if that guest may be pre-empted,
//! and otherwise waits as [`Reading`] says. A wait ends whenever its guest runs.
//!
//! The seed leaves open what happens to several waiting interrupts under the masked reading; here the guest with the
//! lowest number is served, one for each quantum that the ring starts.
//!
//! The seed's guests never sleep. Ours may, and that is our extension: a guest that is not ready is skipped, a guest that
//! blocks ends its turn (what is left of it is nobody's, as after a pre-emption), and when nobody is ready the core is
//! idle until somebody wakes, who then starts a whole quantum. A guest that runs alone starts a new quantum whenever one
//! ends, without a timer. With guests that are always ready none of this happens, and what remains is the published policy.

use crate::Members;
use crate::dates::NEVER;
use crate::dispatch::{Next, Stint};
pub use bulkhead_words::{OnInterrupt, Reading};

/// Most guests: waiting guests are a bit set.
pub const MAX_GUESTS: usize = 32;

/// Settings of a [`QuantumRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingParameters {
    /// Guests, 1 to [`MAX_GUESTS`], in the order of the ring.
    pub guests: u8,
    /// Quantum, at least 1.
    pub quantum_ticks: u64,
    /// What an interrupt does to the turn of the guest that it pre-empts: nothing (MZ-20), `Recycle` (MZ-21), `Reset` (MZ-22), or
    /// `ResetExtend`, which is not published and bounds completion.
    pub on_interrupt: OnInterrupt,
    /// When an interrupt acts that arrived while a guest ran that may not be pre-empted (MZ-15); `Latched` in the order of
    /// arrival (MZ-16).
    pub reading: Reading,
    /// A `Reset` moves the ring to the interrupt's guest, instead of leaving it at the pre-empted one (MZ-23).
    pub ring_moves: bool,
    /// Guests that may be pre-empted by interrupts, as a bit set.
    pub preemptible: u32,
}

/// State of the ring.
#[derive(Clone, Debug)]
pub struct QuantumRing {
    parameters: RingParameters,
    pointer: u8,
    running: Option<u8>,
    left_ticks: u64,
    now_ticks: u64,
    idle_ticks: u64,
    /// Guests that have something to do.
    ready: u32,
    /// Guests whose interrupt has not acted yet; all of them are ready.
    waiting: u32,
    /// Latched guests in the order of arrival, a guest at most once.
    latched: [u8; MAX_GUESTS],
    latched_count: usize,
    used_ticks: [u64; MAX_GUESTS],
    stolen_ticks: [u64; MAX_GUESTS],
}

impl QuantumRing {
    /// A ring at `start_ticks` whose guests all sleep. `None` when there are no guests, too many, or no quantum.
    #[must_use]
    pub fn new(start_ticks: u64, parameters: RingParameters) -> Option<Self> {
        let guests = usize::from(parameters.guests);
        (guests > 0 && guests <= MAX_GUESTS && parameters.quantum_ticks > 0).then_some(Self {
            parameters,
            pointer: 0,
            running: None,
            left_ticks: parameters.quantum_ticks,
            now_ticks: start_ticks,
            idle_ticks: 0,
            ready: 0,
            waiting: 0,
            latched: [0; MAX_GUESTS],
            latched_count: 0,
            used_ticks: [0; MAX_GUESTS],
            stolen_ticks: [0; MAX_GUESTS],
        })
    }

    /// The guest that runs; `None` when all of them sleep.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn running(&self) -> Option<u8> {
        self.running
    }

    /// What is left of the quantum.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn left_ticks(&self) -> u64 {
        self.left_ticks
    }

    /// What a guest used in all, and how much of it in turns of others (MZ-26).
    #[must_use]
    pub fn used_and_stolen_ticks(&self, guest: u8) -> (u64, u64) {
        let of = |list: &[u64; MAX_GUESTS]| list.get(usize::from(guest)).copied().unwrap_or(0);
        (of(&self.used_ticks), of(&self.stolen_ticks))
    }

    /// Time in which nobody ran, up to the last [`Self::advance`].
    #[must_use]
    pub const fn idle_ticks(&self) -> u64 {
        self.idle_ticks
    }

    fn is_ready(&self, guest: u8) -> bool {
        self.ready & bit(guest) != 0
    }

    fn may_be_preempted(&self, guest: u8) -> bool {
        self.parameters.preemptible & bit(guest) != 0
    }

    /// A guest has something to do, or nothing any more, from the instant of the last [`Self::advance`] on. An
    /// interrupt that has not acted is forgotten when its guest blocks.
    pub fn set_ready(&mut self, guest: u8, ready: bool) {
        if guest >= self.parameters.guests || self.is_ready(guest) == ready {
            return;
        }
        self.ready ^= bit(guest);
        if ready {
            if self.running.is_none() {
                self.left_ticks = self.parameters.quantum_ticks;
                self.pointer = guest;
                self.enter(guest);
            }
            return;
        }
        self.forget(guest);
        if self.running == Some(guest) {
            self.end_turn();
        }
    }

    /// An interrupt for `guest`, at the instant of the last [`Self::advance`]. Returns true when it is delivered at once,
    /// which is when its guest runs afterwards. A guest that sleeps has to be made ready first; otherwise nothing happens.
    pub fn interrupt(&mut self, guest: u8) -> bool {
        let Some(running) = self.running.filter(|_| guest < self.parameters.guests && self.is_ready(guest)) else {
            return false;
        };
        if guest == running {
            if self.parameters.on_interrupt == OnInterrupt::ResetExtend {
                self.left_ticks = self.parameters.quantum_ticks;
            }
            return true;
        }
        if self.parameters.on_interrupt != OnInterrupt::None && self.may_be_preempted(running) {
            self.dispatch(guest);
            return true;
        }
        let latches = self.parameters.reading == Reading::Latched && self.parameters.on_interrupt != OnInterrupt::None;
        if latches
            && self.waiting & bit(guest) == 0
            && let Some(place) = self.latched.get_mut(self.latched_count)
        {
            *place = guest;
            self.latched_count = self.latched_count.saturating_add(1);
        }
        self.waiting |= bit(guest);
        false
    }

    /// Runs a guest outside its turn. The pre-empted guest loses the rest of its quantum.
    fn dispatch(&mut self, guest: u8) {
        if matches!(self.parameters.on_interrupt, OnInterrupt::Reset | OnInterrupt::ResetExtend) {
            self.left_ticks = self.parameters.quantum_ticks;
            if self.parameters.ring_moves {
                self.pointer = guest;
            }
        }
        self.enter(guest);
    }

    /// A guest that runs waits for nothing any more.
    fn enter(&mut self, guest: u8) {
        self.running = Some(guest);
        self.forget(guest);
    }

    /// A guest's interrupt has acted, or nobody is left on whom it could.
    fn forget(&mut self, guest: u8) {
        if self.waiting & bit(guest) == 0 {
            return;
        }
        self.waiting &= !bit(guest);
        let mut kept = 0usize;
        for place in 0..self.latched_count {
            let one = self.latched.get(place).copied().unwrap_or(guest);
            if one != guest {
                if let Some(to) = self.latched.get_mut(kept) {
                    *to = one;
                }
                kept = kept.saturating_add(1);
            }
        }
        self.latched_count = kept;
    }

    /// Time has passed until `now`: charges the guest that ran. Lateness is counted and ends one quantum only, because
    /// the next one begins when its guest really starts.
    pub fn advance(&mut self, now: u64) {
        let used_ticks = now.saturating_sub(self.now_ticks);
        self.now_ticks = now;
        let Some(running) = self.running else {
            self.idle_ticks = self.idle_ticks.saturating_add(used_ticks);
            return;
        };
        let stolen_ticks = if running == self.pointer { 0 } else { used_ticks };
        for (list, ticks) in [(&mut self.used_ticks, used_ticks), (&mut self.stolen_ticks, stolen_ticks)] {
            if let Some(total) = list.get_mut(usize::from(running)) {
                *total = total.saturating_add(ticks);
            }
        }
        if used_ticks < self.left_ticks {
            self.left_ticks = self.left_ticks.saturating_sub(used_ticks);
        } else if self.is_alone() {
            let late_ticks = used_ticks.saturating_sub(self.left_ticks);
            let into = late_ticks.checked_rem(self.parameters.quantum_ticks).unwrap_or(0);
            self.left_ticks = self.parameters.quantum_ticks.saturating_sub(into);
            self.pointer = running;
        } else {
            self.end_turn();
        }
    }

    /// Nobody else could take the next turn.
    const fn is_alone(&self) -> bool {
        self.ready.count_ones() <= 1
    }

    /// Says who runs from `now` on, and until when. `server` is the guest's number.
    pub fn pick(&mut self, now: u64) -> Next {
        self.advance(now);
        let stint = self.running.map_or(Stint::IDLE, |guest| Stint::new(guest, guest, 0, false));
        let turns = self.running.is_some() && !self.is_alone();
        Next { stint, deadline_ticks: if turns { now.saturating_add(self.left_ticks) } else { NEVER } }
    }

    /// The next ready guest behind the pointer, the pointer's own last.
    fn next_ready(&self) -> Option<u8> {
        let behind = self.ready & u32::MAX.wrapping_shl(u32::from(self.pointer)) & !bit(self.pointer);
        Members(u64::from(if behind == 0 { self.ready } else { behind })).next()
    }

    fn end_turn(&mut self) {
        self.left_ticks = self.parameters.quantum_ticks;
        if let Some(guest) = self.latched.first().copied().filter(|_| self.latched_count > 0) {
            self.enter(guest);
            return;
        }
        let Some(next) = self.next_ready() else {
            self.running = None;
            return;
        };
        self.pointer = next;
        // An interrupt of the next one itself is served by its turn. Taking that turn away would forget it.
        let served = self.waiting & bit(next) != 0;
        self.enter(next);
        let acts = self.parameters.on_interrupt != OnInterrupt::None && self.parameters.reading == Reading::Masked;
        if acts
            && !served
            && self.may_be_preempted(next)
            && let Some(first) = Members(u64::from(self.waiting)).next()
        {
            self.dispatch(first);
        }
    }
}

const fn bit(guest: u8) -> u32 {
    1u32.wrapping_shl(guest as u32)
}
