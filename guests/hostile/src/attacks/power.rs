//! Power calls and silence: the health policy decides.

use super::interrupts;
use crate::attack::{Attack, Expectation, Outcome};
use bulkhead_sdk::{arguments, arm::psci::Function, cpu, hypercall, information};

/// Where the image begins in RAM (`sdk/bulkhead-guest.ld`).
const IMAGE_OFFSET: u64 = 0x8_0000;

fn call(function: Function) -> Outcome {
    let answer = hypercall::call(function.id(), [0; 3])[0];
    Outcome::unexpected("the call came back with", answer)
}

/// Left in RAM before a restart.
const LEFT_OVER: u64 = 0x1ef7_0e5e_c4e7_5eed;
const PAGE: usize = 4096;

/// Words of RAM where a mark is left: one of each page below the image, which this program and its device tree do not use.
fn marked_words() -> impl Iterator<Item = *mut u64> {
    let ram = information::information().map(|page| page.ram.0);
    ram.into_iter().flat_map(|ram| (ram..ram + IMAGE_OFFSET).step_by(PAGE).map(|address| address as *mut u64))
}

/// Leaves marks in RAM and asks for a restart; [`words_left_over`] looks for them.
fn leave_words() -> Outcome {
    for word in marked_words() {
        // SAFETY: a word of this guest's RAM in front of its image, where nothing of this program is.
        unsafe { word.write_volatile(LEFT_OVER) };
    }
    call(Function::SystemReset)
}

/// Returns how many words of the run before the restart are still there.
pub(crate) fn words_left_over() -> u64 {
    // SAFETY: words of this guest's RAM.
    marked_words().filter(|word| unsafe { word.read_volatile() } == LEFT_OVER).count() as u64
}

/// Gives no sign of life, with everything masked.
fn silence() -> Outcome {
    silence_after(|| 0)
}

/// Provokes something and gives no sign of life from then on: the watchdog must work whatever the interrupt state is.
fn silence_after(provoke: fn() -> u64) -> Outcome {
    if arguments::number(information::arguments(), "watchdog") != Some(1) {
        return Outcome::skipped("no watchdog=1 in the arguments");
    }
    provoke();
    cpu::mask_interrupts();
    let end = cpu::counter_ticks() + 5 * cpu::frequency_hz();
    while cpu::counter_ticks() < end {
        cpu::yield_now();
    }
    Outcome::escaped("seconds of silence", 5)
}

macro_rules! silent {
    ($name:literal, $provoke:path) => {
        Attack { name: $name, expectation: Expectation::Fault, run: || silence_after($provoke) }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "PSCI: SYSTEM_RESET", expectation: Expectation::Restart, run: || call(Function::SystemReset) },
    Attack { name: "PSCI: SYSTEM_RESET2", expectation: Expectation::Restart, run: || call(Function::SystemReset264) },
    Attack { name: "find words of before a restart", expectation: Expectation::Restart, run: leave_words },
    Attack { name: "silence", expectation: Expectation::Fault, run: silence },
    silent!("silence after A1", interrupts::mask_by_priority),
    silent!("silence after A2", interrupts::disable_group_0),
    silent!("silence after A3", interrupts::acknowledge_group_0),
    silent!("silence after A4", interrupts::binary_point_0),
    silent!("silence after A5", interrupts::active_priority_0),
    silent!("silence after A6", interrupts::never_end),
    silent!("silence after A7", interrupts::control_register),
    silent!("silence after A8", interrupts::priority_zero),
    silent!("silence after A9", interrupts::active_priority_1),
    silent!("silence after A10", interrupts::groups_and_enables),
    silent!("silence after A11", interrupts::distributor_off),
    silent!("silence after A12", interrupts::end_foreign),
    Attack { name: "PSCI: CPU_OFF of the last core", expectation: Expectation::Off, run: || call(Function::CpuOff) },
    Attack { name: "PSCI: SYSTEM_OFF", expectation: Expectation::Off, run: || call(Function::SystemOff) },
];
