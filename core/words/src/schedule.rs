//! Words about a shared core: its schedule, its round robin, and what interrupts do on it.

use crate::words;

words! {
    /// How a shared core chooses who runs.
    pub enum ScheduleKind {
        /// Servers by priority; equals take turns where `quanta` say so.
        FixedPriority = 1, "fixed-priority";
        /// Everybody in turn for a quantum, with the published interrupt policies; there are no servers.
        RoundRobin = 2, "round-robin";
        /// Windows of a time table; inside them servers by priority.
        Cyclic = 3, "cyclic";
    }
}

words! {
    /// Under `round-robin`, what an interrupt with the route `preempt` does to the turn of another guest.
    pub enum OnInterrupt {
        /// Nothing: it waits for its guest's turn.
        None = 0, "none";
        /// Its guest runs for what is left of the quantum.
        Recycle = 1, "recycle";
        /// Its guest gets a whole quantum.
        Reset = 2, "reset";
        /// As `reset`, and an interrupt of the guest that runs starts its quantum again.
        ResetExtend = 3, "reset-extend";
    }
}

words! {
    /// Under `round-robin`, when an interrupt acts that came while a guest ran that may not be pre-empted.
    pub enum Reading {
        /// When the ring starts a guest that may be pre-empted.
        Masked = 0, "masked";
        /// At the end of the current quantum.
        Latched = 1, "latched";
    }
}

words! {
    /// Under `round-robin`, what a reset does to the ring.
    pub enum Ring {
        /// The guest whose turn it was stays next in the order.
        Stays = 0, "stays";
        /// The ring continues from the interrupt's guest.
        Moves = 1, "moves";
    }
}

words! {
    /// When floating-point registers are switched.
    pub enum FloatingPoint {
        /// At the first use after another vCPU used them.
        Lazy = 0, "lazy";
        /// With all other registers.
        Eager = 1, "eager";
    }
}

words! {
    /// What an interrupt does on a shared core while another vCPU runs.
    pub enum RouteRule {
        /// Its vCPU becomes ready; the priorities of the servers decide.
        Priority = 0, "priority";
        /// Its vCPU runs at once by the policy of the round robin.
        Preempt = 1, "preempt";
        /// It waits until its vCPU runs anyway, or the core has nothing better to do.
        Defer = 2, "defer";
    }
}
