//! Hostile world: the non-secure world as attacker of the secure one, at NS-EL1 or NS-EL2, an attack for each time it begins.
//!
//! It begins with x0 = number of the attack (0: it says how many there are, by a call), x1 = memory of the payload whose content is checked,
//! x2 = code of the payload, x3 = seed of random attacks. Each attack is tried again and again until the payload ends it: the payload
//! counts how late its interrupts come meanwhile (`guests/freertos/attacked-world`). Output is a line before and one after the first try, and
//! another one when a later try ends otherwise:
//!
//! ```text
//! attack 7 calls, SG-32: every range of function identifiers: expect -1 each time
//! attack 7 contained
//! ```
//!
//! The second word says what the payload may see of it: `quiet` = no instruction at EL3 is spent on it; `calls` = it enters EL3 itself, so an
//! interrupt may have to wait for the end of another way; `ends` = the world ends itself. Verdicts: `contained` (as stated), `unexpected`
//! (otherwise, nothing gained), `escaped` (something gained), `skipped` (makes no sense at this level).
//!
//! Bare: there is nothing below that an SDK could speak to, and it runs at two levels.
//!
//! Without a memory to check (x1 = 0) it is a partition of an EL2 monitor, which restarts it when its watchdog expires or it faults: the number of the
//! start is the number of the attack, and the last start switches the partition off. It says the reason of each start, which is how the attack before ended.
#![no_std]
#![no_main]

mod attacks;
mod machine;
mod numbers;

use attacks::{ATTACKS, Noise, Outcome, PSCI_OFF};
use machine::{be_partition, level, run, stay};

/// SMC #0.
pub(crate) const SMC: u32 = 0xd400_0003;
/// Calls to the test: how many attacks there are; that this one needs so many ticks.
const CALL_ATTACKS: u64 = 0x8300_0001;
const CALL_TICKS: u64 = 0x8300_0002;

/// The information page of a partition: the word with its index.
const OWN_INDEX: u64 = 0x1000_000c;
/// Call of a partition: its state, the reason of it, and how often it was started.
const CALL_STATUS: u64 = 0xc600_0010;
/// Places in the payload, of which a partition knows nothing.
const SOME_CANARY: u64 = 0x0e02_0000;
const SOME_CODE: u64 = 0x0e01_0000;

/// What an attack knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// The level it runs at: 1 or 2.
    pub(crate) level: u64,
    /// Memory of the payload whose content is checked, a page.
    pub(crate) canary: u64,
    /// Code of the payload.
    pub(crate) code: u64,
    /// For random attacks.
    pub(crate) seed: u64,
    /// The attack.
    number: u64,
    /// A monitor at EL2 is below it, and no payload starts it.
    pub(crate) is_partition: bool,
}

impl World {
    fn of_partition() -> Self {
        be_partition();
        let mut words = [0; 32];
        [words[0], words[1]] = [CALL_STATUS, u64::from(machine::read32(OWN_INDEX))];
        let answer = machine::filled(&words, machine::Wait::Call);
        let (reason, start) = (answer[2], answer[3]);
        say!("start {start} after {reason}");
        Self { level: level(), canary: SOME_CANARY, code: SOME_CODE, seed: start, number: start, is_partition: true }
    }
}

impl World {
    /// The verdict of an attack that does not come back.
    pub(crate) fn conclude(&self, outcome: Outcome) {
        let number = self.number;
        machine::conclude();
        match outcome {
            Outcome::Contained => say!("attack {number} contained"),
            Outcome::Skipped => say!("attack {number} skipped"),
            Outcome::Unexpected(what, value) => say!("attack {number} unexpected: {what} {value:#x}"),
            Outcome::Escaped(what, value) => say!("attack {number} escaped: {what} {value:#x}"),
        }
    }

    /// Asks for so many ticks for this attack.
    pub(crate) fn needs_ticks(&self, ticks: u64) {
        let _ = run(&[SMC], [CALL_TICKS, ticks, 0]);
    }
}

#[unsafe(no_mangle)]
extern "C" fn main(number: u64, canary: u64, code: u64, seed: u64) -> ! {
    let world = match canary {
        0 => World::of_partition(),
        _ => World { level: level(), canary, code, seed, number, is_partition: false },
    };
    let number = world.number;
    let attack = usize::try_from(number).ok().and_then(|number| ATTACKS.get(number.wrapping_sub(1)));
    let Some(attack) = attack else {
        if world.is_partition {
            say!("attacks {}", ATTACKS.len());
            let _ = run(&[SMC], [PSCI_OFF, 0, 0]);
        }
        let _ = run(&[SMC], [CALL_ATTACKS, ATTACKS.len() as u64, 0]);
        stay()
    };
    let noise = match attack.noise {
        Noise::Quiet => "quiet",
        Noise::Calls => "calls",
        Noise::Ends => "ends",
    };
    say!("attack {number} {noise}, {}: {}: expect {}", attack.requirement, attack.name, attack.expected);
    let mut said = None;
    loop {
        let outcome = (attack.run)(&world);
        if said != Some(outcome) && !matches!(said, Some(Outcome::Escaped(..))) {
            world.conclude(outcome);
            said = Some(outcome);
        }
    }
}
