//! Words about servers: how their time is spent and comes back, and when they may be used.

use crate::words;

words! {
    /// How the time of a server is spent and comes back.
    pub enum Rule {
        /// No limit.
        Unlimited = 0, "unlimited";
        /// Used time comes back one period after it was used.
        Sporadic = 1, "sporadic";
        /// The budget is there until the period ends, and whole again at the next.
        Deferrable = 2, "deferrable";
        /// As `deferrable`, but what is not wanted at once is lost.
        Polling = 3, "polling";
        /// A share of the core for work on behalf of clients, at their priorities.
        Pibs = 4, "pibs";
    }
}

// For tools alone: a monitor is given rules, and asks none what it is given by.
#[cfg(not(target_os = "none"))]
words! {
    /// What a rule is given by: keys of a server in a description.
    pub enum Parameter {
        /// Time per period.
        Budget = 0, "budget";
        /// The period.
        Period = 1, "period";
        /// Which instant dates a chunk ([`Anchor`]).
        Anchor = 2, "anchor";
        /// Pieces of the budget that are dated apart.
        Chunks = 3, "chunks";
        /// Whether starvation gathers no credit.
        Clamp = 4, "clamp";
        /// Smallest remainder that is worth a switch.
        Minimum = 5, "minimum";
        /// Share of the core.
        Share = 6, "share";
        /// On whose behalf it works.
        Clients = 7, "clients";
        /// The published rule instead of the corrected one.
        Published = 8, "published";
        /// What each wake-up or replenishment costs at least.
        LeastCharge = 9, "least_charge";
        /// What happens when the time is used up ([`OnEmpty`]).
        OnEmpty = 10, "on_empty";
    }
}

impl Rule {
    /// Returns what the rule is given by. It has no other parameter.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub const fn parameters(self) -> &'static [Parameter] {
        use Parameter::{
            Anchor, Budget, Chunks, Clamp, Clients, LeastCharge, Minimum, OnEmpty, Period, Published, Share,
        };
        match self {
            Self::Unlimited => &[],
            Self::Sporadic => &[Budget, Period, Anchor, Chunks, Clamp, Minimum, LeastCharge, OnEmpty],
            Self::Deferrable | Self::Polling => &[Budget, Period, LeastCharge, OnEmpty],
            Self::Pibs => &[Minimum, Share, Clients, Published, LeastCharge, OnEmpty],
        }
    }

    /// States whether its time belongs to clients, whose requests open it and whose priorities it has.
    #[must_use]
    pub const fn serves_clients(self) -> bool {
        matches!(self, Self::Pibs)
    }

    /// States whether the rule is given by this parameter.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub fn has(self, parameter: Parameter) -> bool {
        self.parameters().contains(&parameter)
    }
}

words! {
    /// When a chunk of a sporadic server counts as used.
    pub enum Anchor {
        /// From when it could have been used: a guarantee for its guest.
        Eligible = 0, "eligible";
        /// From when it was used: a cap for the others' sake.
        Dispatch = 1, "dispatch";
    }
}

words! {
    /// When a server may be used.
    pub enum Gate {
        /// Whenever its vCPU has something to do.
        Always = 0, "always";
        /// While an interrupt of its vCPU is pending or active; needs a budget.
        Interrupt = 1, "interrupt";
        /// While a window of its partition is open; on `cyclic` cores.
        Window = 2, "window";
        /// Never.
        Never = 3, "never";
    }
}

words! {
    /// What happens when a budget is used up.
    pub enum OnEmpty {
        /// The server waits for time to come back.
        Stop = 0, "stop";
        /// It continues at `background_priority` and pays nothing.
        Background = 1, "background";
        /// It waits, and the event is counted.
        Notify = 2, "notify";
    }
}

words! {
    /// What a server is or is not, a bit each: the number is the bit's value.
    pub enum ServerFlag {
        /// Sporadic: a chunk is dated when it executes rather than when it became eligible ([`Anchor::Dispatch`]).
        DispatchAnchor = 1, "dispatch anchor";
        /// Sporadic: starvation does not gather credit.
        LagClamp = 2, "lag clamp";
        /// Interrupt gate: it closes when the guest has ended its interrupt, not only when the budget is used up (SG-45).
        VoluntaryReturn = 4, "voluntary return";
        /// PIBS: the published rule, for experiments.
        PublishedPibs = 8, "published rule";
    }
}

impl ServerFlag {
    /// States whether the flag is among these bits.
    #[inline]
    #[must_use]
    pub const fn is_in(self, bits: u32) -> bool {
        bits & self.number() != 0
    }

    /// Returns the bits of the flag when it holds, otherwise none.
    #[cfg(not(target_os = "none"))]
    #[inline]
    #[must_use]
    pub const fn bits_if(self, holds: bool) -> u32 {
        if holds { self.number() } else { 0 }
    }
}
