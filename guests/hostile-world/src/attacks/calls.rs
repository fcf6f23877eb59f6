//! Calls with every kind of identifier and argument (SG-14, SG-31, SG-32, SG-48).

use super::{Outcome, all, expect};
use crate::machine::{Wait, filled, level, run};
use crate::{SMC, World};

const REFUSED: u64 = !0;
const PSCI_CPU_OFF: u64 = 0x8400_0002;
pub(crate) const PSCI_OFF: u64 = 0x8400_0008;
const PSCI_RESET: u64 = 0x8400_0009;
const PSCI_RESET_2: u64 = 0x8400_0012;
const CPU_ON: [u64; 2] = [0x8400_0003, 0xc400_0003];

/// A call with four arguments.
fn call(arguments: [u64; 4]) -> u64 {
    let mut words = [0; 32];
    words[..4].copy_from_slice(&arguments);
    filled(&words, Wait::Call)[0]
}

fn refused(arguments: [u64; 4]) -> Outcome {
    let answer = call(arguments);
    expect(answer == REFUSED, "an answer", answer)
}

pub(super) fn every_range(world: &World) -> Outcome {
    // Bits 31 (fast), 30 (64 bits), 29:24 (owner), each with a function that nobody has and with the first of the range.
    all((0..256)
        .flat_map(|range: u64| [range << 24 | 0xfff0, range << 24 | 0x00ee])
        .map(|function| refused([function, world.canary, 1 << 63, !0])))
}

pub(super) fn powers_of_two(_: &World) -> Outcome {
    all((2..64).map(|bit| match 1_u64 << bit {
        // SMCCC_VERSION has an answer.
        0x8000_0000 => Outcome::Contained,
        function => refused([function, function, !function, 1 << 47]),
    }))
}

pub(super) fn immediates(_: &World) -> Outcome {
    all([1, 0xff, 0x7fff, 0x8000, 0xffff].map(|immediate: u32| match run(&[SMC | immediate << 5], [0xdead, 0, 0]) {
        Ok([answer, _, _]) => expect(answer == REFUSED, "an answer", answer),
        Err(exception) => Outcome::Unexpected("ESR", exception.syndrome),
    }))
}

pub(super) fn of_the_payload(_: &World) -> Outcome {
    // Enter and Reset, and what might come after them.
    all((0..8).map(|function| refused([function, 0, 0, 0])))
}

pub(super) fn secure_addresses(world: &World) -> Outcome {
    // CPU_ON, CPU_SUSPEND with an entry, SYSTEM_SUSPEND, STAT, MEM_PROTECT_CHECK_RANGE.
    let functions = [0xc400_0003, 0xc400_0001, 0xc400_000e, 0xc400_0010, 0xc400_0014];
    let addresses = [0, 0x0e00_0000, world.canary, world.code, 0x0904_0000, !0xfff];
    all(functions.into_iter().flat_map(|function| addresses.map(|address| (function, address))).map(
        |(function, address)| {
            let answer = call([function, address, address, address]);
            // What is refused is a negative number; nothing may have started.
            expect(answer as i32 <= 0, "an answer", answer)
        },
    ))
}

pub(super) fn cpu_on(world: &World) -> Outcome {
    let cores = [0, 1, 3, 0xff, 0x100, 1 << 32, !0];
    let entries = [0x4020_0000, world.code, 0, 1];
    all(CPU_ON.into_iter().flat_map(|function| cores.map(|core| (function, core))).flat_map(|(function, core)| {
        entries.map(|entry| {
            let answer = call([function, core, entry, 0]);
            expect((answer as i32) < 0, "an answer", answer)
        })
    }))
}

pub(super) fn psci(_: &World) -> Outcome {
    for function in (0..0x20).flat_map(|function| [0x8400_0000 + function, 0xc400_0000 + function]) {
        if ![PSCI_CPU_OFF, PSCI_OFF, PSCI_RESET, PSCI_RESET_2].contains(&(function & !(1 << 30))) {
            let _ = call([function, 0, 0, 0]);
        }
    }
    Outcome::Contained
}

pub(super) fn storm(world: &World) -> Outcome {
    world.conclude(Outcome::Contained);
    // SMC; B .-4: nothing in between.
    let _ = run(&[SMC, 0x17ff_ffff], [0xdead, 0, 0]);
    Outcome::Unexpected("the storm ended", 0)
}

pub(super) fn hypervisor_call(_: &World) -> Outcome {
    if level() == 1 {
        return Outcome::Skipped;
    }
    match run(&[0xd400_0002], [0; 3]) {
        Err(exception) => expect(exception.class() == 0x16, "ESR", exception.syndrome),
        Ok(_) => Outcome::Unexpected("it came back", 0),
    }
}

fn end(world: &World, function: u64) -> Outcome {
    // Nobody starts a partition again that is off by its own wish.
    if world.is_partition && function != PSCI_RESET {
        return Outcome::Skipped;
    }
    world.conclude(Outcome::Contained);
    Outcome::Unexpected("the world goes on", call([function, 0, 0, 0]))
}

pub(super) fn cpu_off(world: &World) -> Outcome {
    end(world, PSCI_CPU_OFF)
}

pub(super) fn system_off(world: &World) -> Outcome {
    end(world, PSCI_OFF)
}

pub(super) fn system_reset(world: &World) -> Outcome {
    end(world, PSCI_RESET)
}
