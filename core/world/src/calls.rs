//! Calls of the non-secure world, which arrive at S-EL1 by path 5 (SG-14, SG-31, SG-32).
//!
//! The server task that ran the world decodes x0 to x7 of its context, so a storm of calls eats the world's own budget. What PSCI and
//! the calling convention have is the table of `core/emulation`: a world below a gate and a guest of the monitor are answered
//! alike, by one allow-list. Here is what the answers come to where the machine is one core: nothing can be switched on, and an end or
//! a reset is an event of the world's health, never one of the machine.
//!
//! No call reads or writes memory: addresses are compared with the world's window and go no further. SafeG's calls for caches,
//! secure registers and copies are not provided, because each is a hole (record 0030; the non-secure world has caches of its own).
//!
//! This is the configuration `dual`. In `multi` EL3 answers CPU_ON, CPU_OFF and AFFINITY_INFO before anything arrives here, so that cores
//! without a payload are served; kick and watch are EL3's too.
//!
//! Rejected: a table of our own, with a test that compares. Two lists of the same facts in code that ships, to save a dependency of
//! which nothing else is linked.

use bulkhead_abi::ABI_VERSION;
use bulkhead_abi::hypercall::{
    CALL_DOORBELL, CALL_HEARTBEAT, CALL_VERSION, INVALID_PARAMETERS, NOT_SUPPORTED, SUCCESS,
};
use bulkhead_arm::psci::{AffinityState, Error};
use bulkhead_emulation::psci::{self, Call};

/// `(argument, argument) -> SUCCESS`: the world has nothing urgent left, so that the activation of its server may end (SG-45). The
/// next id behind those that guests of the monitor have.
pub const CALL_YIELD: u64 = 0xc600_0020;

/// Registers that carry a call: x0 to x7.
pub const CALL_REGISTERS: usize = 8;

/// Memory of the non-secure world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its first address.
    pub first: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl Window {
    /// States whether all these bytes are in it; no bytes are in no window.
    #[must_use]
    pub const fn holds(&self, address: u64, bytes: u64) -> bool {
        match self.bytes.checked_sub(address.wrapping_sub(self.first)) {
            Some(left) => address >= self.first && bytes != 0 && bytes <= left,
            None => false,
        }
    }
}

/// What the plan says of a world that calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its memory.
    pub window: Window,
    /// Channels whose doorbell it may ring, a bit for each.
    pub doorbells: u32,
}

/// What the payload has to do besides writing x0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: run the world again.
    Nothing,
    /// Note a heartbeat (SG-61).
    Heartbeat,
    /// The world gives the rest of the activation back, with two words for the payload (SG-30, SG-45).
    Yield([u64; 2]),
    /// Tell the reader of this channel.
    Doorbell(u32),
    /// The world waits for an interrupt. It may be run at once: a standby that ended early.
    Standby,
    /// The world switched itself off: an event of its health.
    Off,
    /// The world asks for a reset: an event of its health.
    Reset,
}

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The world's x0. Of [`Action::Off`] and [`Action::Reset`] it is seen only by a world that is run on all the same.
    pub x0: u64,
    /// What else there is to do.
    pub action: Action,
}

const fn only(x0: u64) -> Answer {
    Answer { x0, action: Action::Nothing }
}

const fn done(action: Action) -> Answer {
    Answer { x0: SUCCESS, action }
}

/// An end must not return, so to a world that goes on the firmware has failed.
const fn ends(action: Action) -> Answer {
    Answer { x0: Error::InternalFailure.answer(), action }
}

/// Decodes and answers a call: `x` is what the world had in x0 to x7. The function id is W0 (DEN 0028, 3.1), whatever the upper half holds.
#[must_use]
pub fn answer(x: &[u64; CALL_REGISTERS], caller: &Caller) -> Answer {
    let [function, x1, x2, x3, ..] = *x;
    match u64::from(function as u32) {
        CALL_VERSION => return only(ABI_VERSION as u64),
        CALL_HEARTBEAT => return done(Action::Heartbeat),
        CALL_YIELD => return done(Action::Yield([x1, x2])),
        CALL_DOORBELL => return doorbell(x1, caller.doorbells),
        _ => (),
    }
    match psci::decode::<()>(None, function, x1, x2, x3) {
        // Its row is "not done by decoding", and an id that has no row above is none of ours.
        Call::First | Call::NotSupported => only(NOT_SUPPORTED),
        // Partitions do not exist here, nor does anybody who manages them.
        Call::Denied | Call::PartitionStatus(_) | Call::Manage(..) => only(NOT_SUPPORTED),
        Call::Answer(value) if is_standby(function) => Answer { x0: value, action: Action::Standby },
        Call::Answer(value) => only(value),
        Call::Features(id) => only(psci::features(id)),
        Call::CpuOn { target, entry, .. } => only(cpu_on(target, entry, caller)),
        Call::AffinityInfo(target) => only(affinity_info(target)),
        // The only core: the world is off then, as a partition is with its last vCPU.
        Call::CpuOff | Call::SystemOff => ends(Action::Off),
        Call::SystemReset => ends(Action::Reset),
    }
}

fn doorbell(channel: u64, allowed: u32) -> Answer {
    match u32::try_from(channel) {
        Ok(channel) if allowed.checked_shr(channel).unwrap_or(0) & 1 == 1 => done(Action::Doorbell(channel)),
        _ => only(INVALID_PARAMETERS),
    }
}

/// CPU_SUSPEND of either convention.
fn is_standby(function: u64) -> bool {
    use bulkhead_arm::psci::Function;
    [Function::CpuSuspend, Function::CpuSuspend64].iter().any(|one| one.id() == u64::from(function as u32))
}

/// DEN 0022, 5.6. The caller's own core is the only one, so that it is never off.
fn cpu_on(target: u64, entry: u64, caller: &Caller) -> u64 {
    if psci::vcpu_of(target, 1).is_none() {
        Error::InvalidParameters.answer()
    } else if !caller.window.holds(entry, INSTRUCTION_BYTES) || !entry.is_multiple_of(INSTRUCTION_BYTES) {
        Error::InvalidAddress.answer()
    } else {
        Error::AlreadyOn.answer()
    }
}

const INSTRUCTION_BYTES: u64 = 4;

/// DEN 0022, 5.7; other levels than 0 were refused by the decoder.
fn affinity_info(target: u64) -> u64 {
    if psci::vcpu_of(target, 1).is_some() { AffinityState::On.answer() } else { Error::InvalidParameters.answer() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_emulation::psci::CALLS;

    const LINUX: Caller = Caller { window: Window { first: 0x4000_0000, bytes: 0x1000_0000 }, doorbells: 0b10 };

    fn call(id: u64, x1: u64, x2: u64, x3: u64) -> Answer {
        answer(&[id, x1, x2, x3, 0, 0, 0, 0], &LINUX)
    }

    /// SG-14: what Linux asks when it boots, and what it is told.
    #[test]
    fn linux_is_answered_as_the_manual_says() {
        let minus = |number: i64| number as u64;
        let expected = [
            ([0x8400_0000, 0, 0, 0], 0x1_0001),
            ([0x8400_0006, 0, 0, 0], 2),
            ([0x8000_0000, 0, 0, 0], 0x1_0001),
            ([0x8400_000a, 0x8000_0000, 0, 0], 0),
            // TRNG_VERSION, and the workarounds of ARCH_FEATURES.
            ([0x8400_0050, 0, 0, 0], minus(-1)),
            ([0x8000_0001, 0x8000_8000, 0, 0], minus(-1)),
            ([0x8000_0001, 0x8000_3fff, 0, 0], minus(-1)),
            // The only core is on; no other exists, and no entry is outside the world's memory or between instructions.
            ([0xc400_0003, 0, 0x4020_0000, 7], minus(-4)),
            ([0xc400_0003, 1, 0x4020_0000, 7], minus(-2)),
            ([0xc400_0003, 0x8000_0000, 0x4020_0000, 7], minus(-2)),
            ([0xc400_0003, 0, 0x0e02_0000, 7], minus(-9)),
            ([0xc400_0003, 0, 0x4fff_fffe, 7], minus(-9)),
            ([0x8400_0003, 0, 0x4020_0002, 7], minus(-9)),
            ([0xc400_0004, 0, 0, 0], 0),
            ([0xc400_0004, 0, 1, 0], minus(-2)),
            ([0x8400_0004, 1, 0, 0], minus(-2)),
            // MIGRATE, CPU_FREEZE, SYSTEM_SUSPEND, MEM_PROTECT; a call of no convention.
            ([0x8400_0005, 0, 0, 0], minus(-1)),
            ([0x8400_000b, 0, 0, 0], minus(-1)),
            ([0xc400_000e, 0, 0, 0], minus(-1)),
            ([0x8400_0013, 0, 0, 0], minus(-1)),
            ([0, 0, 0, 0], minus(-1)),
            ([0xc600_0000, 0, 0, 0], 4),
        ];
        for ([id, x1, x2, x3], x0) in expected {
            assert_eq!(call(id, x1, x2, x3), only(x0), "{id:#x} {x1:#x} {x2:#x}");
        }
    }

    /// SG-14: an end or a reset is an event and no machine reset. SG-31: calls of our own have the ids that guests of the monitor use.
    #[test]
    fn calls_that_act() {
        for off in [0x8400_0008, 0x8400_0002] {
            assert_eq!(call(off, 0, 0, 0).action, Action::Off);
        }
        assert_eq!(call(0x8400_0009, 0, 0, 0).action, Action::Reset);
        assert_eq!(call(0xc400_0012, 0, 0, 0).action, Action::Reset);
        assert_eq!(call(0xc400_0012, 1, 0, 0), only(INVALID_PARAMETERS), "no such kind of reset");
        assert_eq!(call(0xc400_0001, 1 << 16, 0, 0), done(Action::Standby));
        assert_eq!(call(CALL_HEARTBEAT, 0, 0, 0), done(Action::Heartbeat));
        assert_eq!(call(CALL_DOORBELL, 1, 0, 0), done(Action::Doorbell(1)));
        for absent in [0, 2, 33, 1 << 32, (1 << 32) + 1, u64::MAX] {
            assert_eq!(call(CALL_DOORBELL, absent, 0, 0), only(INVALID_PARAMETERS), "{absent:#x}");
        }
        assert_eq!(call(CALL_YIELD, 5, u64::MAX, 0), done(Action::Yield([5, u64::MAX])));
    }

    /// SG-14: PSCI_FEATURES announces a call exactly when it is answered.
    #[test]
    fn what_is_announced_is_answered() {
        let mut announced = 0;
        for base in [0x8400_0000, 0xc400_0000] {
            for id in base..base + 0x100 {
                let is_announced = call(0x8400_000a, id, 0, 0).x0 == SUCCESS;
                assert_eq!(is_announced, call(id, 0x8400_0000, 0, 0).x0 != NOT_SUPPORTED, "{id:#x}");
                announced += u32::from(is_announced);
            }
        }
        assert_eq!(announced, 14, "a row more than this world was meant to have?");
        assert_eq!(call(0x8400_000a, CALL_HEARTBEAT, 0, 0).x0, NOT_SUPPORTED);
    }

    #[test]
    fn the_id_of_a_yield_is_no_other_call() {
        assert!(CALLS.iter().all(|(.., ids)| ids.iter().all(|id| u64::from(*id) != CALL_YIELD)));
    }
}
