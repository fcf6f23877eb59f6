//! Round robin with a quantum and the published interrupt policies of the MIPS seed (`real-time.md` 3.1; MZ-10..MZ-26).
//!
//! It exists for the experiments and for continuity. It does not isolate: under a storm, `recycle` and `reset` give one
//! guest nearly all of the core (RR-03). Our recommendation is a server behind an interrupt gate with a budget of its own
//! ([`crate::server::Gate::InterruptPending`]): delivery is immediate while the budget lasts, and peers lose at most that
//! budget per period (UNI-02).
//!
//! An interrupt of the guest that runs is delivered at once and changes nothing, also when the guest runs in somebody
//! else's quantum (MZ-24). One that arrives while another guest runs acts by [`Scheme`] if that guest may be pre-empted,
//! and otherwise waits as [`Reading`] says. A wait ends whenever its guest runs.
//!
//! The seed leaves open what happens to several waiting interrupts under the masked reading; here the guest with the
//! lowest number is served, one for each quantum that the ring starts.

/// Most guests: waiting guests are a bit set.
pub const MAX_GUESTS: usize = 32;

/// What an interrupt does to the quantum of the guest that it pre-empts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Nothing: the interrupt waits for its guest's turn (MZ-20).
    None,
    /// Its guest runs for what is left of the quantum (MZ-21).
    Recycle,
    /// Its guest gets a whole quantum (MZ-22).
    Reset,
    /// As `Reset`, and an interrupt of the running guest starts its quantum anew. Not published; it bounds completion.
    ResetExtend,
}

/// When an interrupt acts that arrived while a guest ran that may not be pre-empted (MZ-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// When the ring starts the quantum of a guest that may be pre-empted.
    Masked,
    /// At the end of the current quantum, in the order of arrival (MZ-16).
    Latched,
}

/// Settings of a [`QuantumRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingParameters {
    /// Guests, 1 to [`MAX_GUESTS`], in the order of the ring.
    pub guests: u8,
    /// Quantum, at least 1.
    pub quantum_ticks: u64,
    /// Interrupt policy.
    pub scheme: Scheme,
    /// What waiting means.
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
    running: u8,
    left_ticks: u64,
    waiting: u32,
    /// Latched guests in the order of arrival, a guest at most once.
    latched: [u8; MAX_GUESTS],
    latched_count: usize,
    used_ticks: [u64; MAX_GUESTS],
    stolen_ticks: [u64; MAX_GUESTS],
}

impl QuantumRing {
    /// A ring whose first guest starts its quantum now. `None` when there are no guests, too many, or no quantum.
    #[must_use]
    pub fn new(parameters: RingParameters) -> Option<Self> {
        let guests = usize::from(parameters.guests);
        (guests > 0 && guests <= MAX_GUESTS && parameters.quantum_ticks > 0).then_some(Self {
            parameters,
            pointer: 0,
            running: 0,
            left_ticks: parameters.quantum_ticks,
            waiting: 0,
            latched: [0; MAX_GUESTS],
            latched_count: 0,
            used_ticks: [0; MAX_GUESTS],
            stolen_ticks: [0; MAX_GUESTS],
        })
    }

    /// The guest that runs.
    #[must_use]
    pub const fn running(&self) -> u8 {
        self.running
    }

    /// How long it runs if nothing happens.
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

    fn may_be_preempted(&self, guest: u8) -> bool {
        self.parameters.preemptible & bit(guest) != 0
    }

    /// An interrupt for `guest`. Returns true when it is delivered at once, which is when its guest runs afterwards.
    pub fn interrupt(&mut self, guest: u8) -> bool {
        if guest >= self.parameters.guests {
            return false;
        }
        if guest == self.running {
            if self.parameters.scheme == Scheme::ResetExtend {
                self.left_ticks = self.parameters.quantum_ticks;
            }
            return true;
        }
        if self.parameters.scheme != Scheme::None && self.may_be_preempted(self.running) {
            self.dispatch(guest);
            return true;
        }
        let latches = self.parameters.reading == Reading::Latched && self.parameters.scheme != Scheme::None;
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
        if matches!(self.parameters.scheme, Scheme::Reset | Scheme::ResetExtend) {
            self.left_ticks = self.parameters.quantum_ticks;
            if self.parameters.ring_moves {
                self.pointer = guest;
            }
        }
        self.enter(guest);
    }

    /// A guest that runs waits for nothing any more.
    fn enter(&mut self, guest: u8) {
        self.running = guest;
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

    /// The running guest ran for `used_ticks`, at most [`Self::left_ticks`]; more is counted and ends one quantum only.
    pub fn advance(&mut self, used_ticks: u64) {
        let guest = usize::from(self.running);
        let stolen = self.running != self.pointer;
        for (list, counts) in [(&mut self.used_ticks, true), (&mut self.stolen_ticks, stolen)] {
            if let Some(ticks) = list.get_mut(guest).filter(|_| counts) {
                *ticks = ticks.saturating_add(used_ticks);
            }
        }
        self.left_ticks = self.left_ticks.saturating_sub(used_ticks);
        if self.left_ticks == 0 {
            self.end_quantum();
        }
    }

    fn end_quantum(&mut self) {
        self.left_ticks = self.parameters.quantum_ticks;
        if let Some(guest) = self.latched.first().copied().filter(|_| self.latched_count > 0) {
            self.enter(guest);
            return;
        }
        let next = self.pointer.saturating_add(1);
        self.pointer = if next < self.parameters.guests { next } else { 0 };
        self.enter(self.pointer);
        let acts = self.parameters.scheme != Scheme::None && self.parameters.reading == Reading::Masked;
        if acts && self.waiting != 0 && self.may_be_preempted(self.running) {
            self.dispatch(u8::try_from(self.waiting.trailing_zeros()).unwrap_or(0));
        }
    }
}

const fn bit(guest: u8) -> u32 {
    1u32.wrapping_shl(guest as u32)
}
