//! Power calls and silence: the health policy decides.

use crate::attack::{Attack, Expectation, Outcome};
use bulkhead_sdk::{arguments, cpu, hypercall, information};

const CPU_OFF: u64 = 0x8400_0002;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const SYSTEM_RESET2: u64 = 0xc400_0012;

fn call(function: u64) -> Outcome {
    let answer = hypercall::call(function, [0; 3])[0];
    Outcome::unexpected("the call came back with", answer)
}

/// Gives no sign of life, with everything masked.
fn silence() -> Outcome {
    if arguments::number(information::arguments(), "watchdog") != Some(1) {
        return Outcome::skipped("no watchdog=1 in the arguments");
    }
    cpu::mask_interrupts();
    let end = cpu::counter_ticks() + 5 * cpu::frequency_hz();
    while cpu::counter_ticks() < end {
        cpu::yield_now();
    }
    Outcome::escaped("seconds of silence", 5)
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "PSCI: SYSTEM_RESET", expectation: Expectation::Restart, run: || call(SYSTEM_RESET) },
    Attack { name: "PSCI: SYSTEM_RESET2", expectation: Expectation::Restart, run: || call(SYSTEM_RESET2) },
    Attack { name: "silence", expectation: Expectation::Fault, run: silence },
    Attack { name: "PSCI: CPU_OFF of the last core", expectation: Expectation::Off, run: || call(CPU_OFF) },
    Attack { name: "PSCI: SYSTEM_OFF", expectation: Expectation::Off, run: || call(SYSTEM_OFF) },
];
