//! A flash file of four cores: the payload that watches over several, and the world of `guests/kicked`.

use super::{BACKGROUND, COUNTER_HZ, DEVICES, MEMORY, parts, secure_monitor_of_cores};
use crate::system::guest;
use bulkhead_flash::{NonSecure, Parts, flat};
use bulkhead_world::context::EntryLevel;
use bulkhead_world::cores::{CoresPlan, MOST_CORES, WATCH_LIMITS_US};

/// Where the world reads what it is to do.
const PARAMETERS: u64 = 0x4100_0000;
const WINDOW: (u64, u64) = (MEMORY.0, 32 << 20);
/// Nobody sends to the payload's core, nor to core 1; core 2 has one number open, core 3 the lower half.
const CLOSED: [u32; MOST_CORES] = [0xffff, 0xffff, 0xffff & !(1 << 5), 0xff00];
/// Core 0 kicks all others, core 1 itself and core 2, core 2 nobody.
const KICKS: [u32; MOST_CORES] = [0b1110, 0b0110, 0, 0b0010];
/// The longest watch: 2 ms.
pub const LONGEST_WATCH: u64 = 125_000;

/// What the world does.
#[derive(Clone, Copy, Debug)]
pub struct Kicked {
    /// Of its random calls.
    pub seed: u64,
    /// How many of them.
    pub calls: u64,
    /// How often each core is kicked out of its loop.
    pub kicks: u64,
}

/// Four cores that take the SGIs of a kernel from each other, and kick nobody; EL3 answers calls from this level on.
pub(super) fn four_cores(caller_level: u32) -> CoresPlan {
    let (first, bytes) = DEVICES[1];
    let [least, most] = WATCH_LIMITS_US.map(|limit| COUNTER_HZ * limit / 1_000_000);
    CoresPlan {
        count: MOST_CORES as u32,
        caller_level,
        redistributors: [1, 2, 3].map(|core| first + core * bytes),
        closed: [0xff00; MOST_CORES],
        kicks: [0; MOST_CORES],
        watch_least_ticks: least,
        watch_most_ticks: most,
    }
}

/// A flash file of a payload that has the only core of a secure monitor of several, and another world.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn flash_of_cores(payload: &[u8], non_secure: NonSecure<'_>) -> Vec<u8> {
    let monitor = secure_monitor_of_cores();
    let cores = CoresPlan { count: 1, redistributors: [0; MOST_CORES - 1], closed: [0; MOST_CORES], ..four_cores(1) };
    let parts = Parts { cores, ..parts(&monitor, payload, Some(non_secure)) };
    bulkhead_flash::build(&parts).unwrap_or_else(|error| panic!("{error}"))
}

/// The payload's devices, with the redistributors of all cores.
pub(super) fn devices_of_four() -> [(u64, u64); 4] {
    let mut devices = DEVICES;
    devices[1].1 *= MOST_CORES as u64;
    devices
}

/// The flash file, with this secure monitor of several cores.
///
/// # Panics
/// When a part was not built or does not fit.
#[must_use]
pub fn kicked_world(monitor: &[u8], what: Kicked) -> Vec<u8> {
    let world = flat(&guest("kicked.elf"), "the kicked world").unwrap_or_else(|error| panic!("{error}"));
    let masks = |four: [u32; MOST_CORES]| [0, 2].map(|one| u64::from(four[one]) | u64::from(four[one + 1]) << 32);
    let numbers = [what.seed, what.calls, what.kicks];
    let words = numbers.into_iter().chain(masks(KICKS)).chain(masks(CLOSED)).chain([WINDOW.0, WINDOW.1, LONGEST_WATCH]);
    let parameters: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let segments = vec![(world.base, world.bytes.as_slice()), (PARAMETERS, parameters.as_slice())];
    let other = NonSecure { memory: WINDOW, segments, entry: world.entry, argument: 0, level: EntryLevel::El2 };
    let payload = guest("multi-world.elf");
    let devices = devices_of_four();
    let cores = CoresPlan { closed: CLOSED, kicks: KICKS, watch_most_ticks: LONGEST_WATCH, ..four_cores(2) };
    // Where a world of another core begins again.
    let arguments = format!("{:x}", world.entry);
    let parts = Parts {
        devices: &devices,
        servers: &BACKGROUND,
        cores,
        arguments: &arguments,
        ..parts(monitor, &payload, Some(other))
    };
    bulkhead_flash::build(&parts).unwrap_or_else(|error| panic!("{error}"))
}
