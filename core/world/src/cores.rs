//! Several cores: which of them have a world, what their EL2 may ask EL3 for, and the words by which cores tell EL3 of others (SG-13).
//!
//! This is the configuration `multi`. The boot core has the payload; the others have non-secure code alone, or are parked in EL3. There is
//! no lock: every word has one writer. A core's [`StateLine::turn`] is its own; a request to start it lies in a word that belongs to
//! who asks, and names the turn that it is for, so that a request that came too late is never taken for a new one.
//!
//! Rejected: one start word for each core with an exclusive store. EL3 has stage 1 off, its accesses are to Device memory, and exclusives
//! do not work there.

/// Most cores: their contexts fill a page.
pub const MOST_CORES: usize = 4;

pub use bulkhead_abi::hypercall::{CALL_KICK, CALL_WATCH};

/// The software-generated interrupt of a kick, on cores without a payload: group 0, which is EL3's.
pub const KICK: u32 = 8;
/// The secure timer's interrupt: the payload's on its own core, EL3's on the others.
pub const SECURE_TIMER: u32 = 29;
/// INTIDs of EL3 on a core without a payload, as bits of the first word.
pub const OF_EL3: u32 = 1 << KICK | 1 << SECURE_TIMER;

/// Where a kicked core continues, behind VBAR_EL2: the vector of an FIQ from AArch64 below, which nothing else comes to, because
/// group 0 is EL3's. In that of an interrupt an EL2 acknowledges one, and would take it from a guest that has them all to itself, or
/// take it for what it was kicked for (design record 0033).
pub const KICKED_VECTOR: u64 = 0x500;
/// Its state there: EL2 on its own stack pointer, everything masked.
pub const KICKED_STATE: u64 = 0x3c9;

/// What the plan says of the cores; zeros in the configuration `dual`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CoresPlan {
    /// How many cores may have a world, the boot core counted.
    pub count: u32,
    /// The least level whose calls EL3 answers: 2 where an EL2 keeps those below it from calling, 1 where a kernel calls that left EL2.
    pub caller_level: u32,
    /// The redistributors of the cores behind the boot core; 0 = there is none.
    pub redistributors: [u64; MOST_CORES - 1],
    /// Software-generated interrupts that no other world makes arrive at this core: bit n = number n. The firewall of
    /// SGIs is on the receiver (QV-16).
    pub closed: [u32; MOST_CORES],
    /// Which cores EL2 of this one may kick: bit n = core n. Never the payload's.
    pub kicks: [u32; MOST_CORES],
    /// The shortest watch, and the time after which a kick that found EL2 itself is tried again.
    pub watch_least_ticks: u64,
    /// The longest.
    pub watch_most_ticks: u64,
}

impl CoresPlan {
    /// The plan of the configuration `dual`.
    pub const NONE: Self = Self {
        count: 0,
        caller_level: 0,
        redistributors: [0; MOST_CORES - 1],
        closed: [0; MOST_CORES],
        kicks: [0; MOST_CORES],
        watch_least_ticks: 0,
        watch_most_ticks: 0,
    };
}

/// Shortest and longest watch, in microseconds.
pub const WATCH_LIMITS_US: [u64; 2] = [10, 10_000_000];

/// Bytes from a core's line to the next one's.
pub const LINE_BYTES: u64 = 256;

/// What EL3 knows of a core, at [`crate::flash::secure_ram::STATE`]: written by that core alone, but for the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StateLine {
    /// ESR_EL3, ELR_EL3 and FAR_EL3 of an exception in EL3 itself, which nothing can cause.
    pub fault: [u64; 3],
    /// Odd: the core has a world. Even: it has none, and may be started. It grows with each start and each end.
    pub turn: u64,
    /// The function id of SYSTEM_OFF or SYSTEM_RESET, after which the core waits for the payload; 0 = it does not.
    pub ended: u64,
    /// Fills up a line.
    pub pad: [u64; 3],
    /// Requests to start this core, one for each core that may ask.
    pub starts: [Start; MOST_CORES],
}

/// A request to start a core, written by one core alone. It holds for one turn, so nobody takes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Start {
    /// The turn before which it was made, and one more. Written last.
    pub ticket: u64,
    /// First instruction.
    pub entry: u64,
    /// x0.
    pub argument: u64,
    /// Fills up.
    pub pad: u64,
}

/// The ticket by which the payload lets a world begin again, from the words of its line: what ended it, its turn, and the ticket of the payload's
/// request there. `None` when it has not ended, or a request waits already: EL3 may be reading that one.
#[must_use]
pub const fn ticket_after_end(ended: u64, turn: u64, ticket: u64) -> Option<u64> {
    let wanted = turn.wrapping_add(1);
    if ended == 0 || ticket == wanted { None } else { Some(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::CORE_BYTES;

    #[test]
    fn a_request_that_waits_is_not_written_over() {
        assert_eq!(ticket_after_end(0x8400_0008, 3, 0), Some(4));
        assert_eq!(ticket_after_end(0x8400_0009, 5, 4), Some(6), "one of an earlier end");
        assert_eq!(ticket_after_end(0x8400_0008, 3, 4), None, "it waits");
        assert_eq!(ticket_after_end(0, 3, 0), None, "it has not ended");
    }

    #[test]
    fn all_cores_have_room() {
        assert!(size_of::<StateLine>() as u64 <= LINE_BYTES && LINE_BYTES.is_power_of_two());
        assert!(LINE_BYTES * MOST_CORES as u64 <= 0x1000 && CORE_BYTES * MOST_CORES <= 0x1000);
        assert_eq!(size_of::<Start>(), 32);
    }

    #[test]
    fn ids_are_those_of_the_platform_and_of_nobody_else() {
        for id in [CALL_KICK, CALL_WATCH] {
            assert_eq!(id >> 24, 0xc3, "fast, 64 bits, of the platform");
            assert!(
                bulkhead_emulation::psci::CALLS.iter().all(|(.., ids)| ids.iter().all(|one| u64::from(*one) != id))
            );
        }
    }
}
