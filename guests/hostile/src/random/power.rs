//! Steps that switch vCPUs on and off, and those that end the run.

use super::{Step, frames::vcpus, other_vcpu};
use crate::trial;
use bulkhead_sdk::{arm::psci::Function, cpu, hypercall, psci, secondary::SecondaryStack};

const SYSTEM_RESET: u64 = Function::SystemReset.id();
const SYSTEM_RESET2: u64 = Function::SystemReset264.id();
/// Outside every guest's map: flash, the physical UART's neighbours, PCI, memory of others, and beyond everything.
const OUTSIDE: [u64; 8] = [0, 0x0901_0000, 0x0a00_0000, 0x1100_0000, 0x4040_0000, 0x6000_0000, 0x40_1000_0000, 1 << 39];
const STARTS: usize = 6;

/// Stacks: each serves one start.
static STACKS: [SecondaryStack<4096>; STARTS] = [const { SecondaryStack::new() }; STARTS];

/// Switches another vCPU on, asks about one, or switches itself off if it is not the first.
pub(super) fn vcpu(step: &mut Step<'_>) {
    let (target, stack, way) =
        (step.random.below(vcpus() + 1) as u32, step.random.below(STARTS as u64) as usize, step.random.below(6));
    step.announce(&[u64::from(target), stack as u64, way]);
    match (way, STACKS.get(stack)) {
        (0, _) if cpu::vcpu() != 0 => psci::cpu_off(),
        (1, _) => {
            hypercall::call(Function::AffinityInfo64.id(), [u64::from(target), 0, 0]);
        }
        (_, Some(stack)) if target != 0 => {
            let _ = stack.start(target, other_vcpu);
        }
        _ => {}
    }
}

/// A load, a store or a jump where this guest has nothing.
pub(super) fn outside(step: &mut Step<'_>) {
    let address = step.random.pick(&OUTSIDE, 0) + (step.random.below(0x1000) & !3);
    let way = step.random.below(4);
    step.announce(&[address, way]);
    match way {
        0 => drop(trial::read_untranslated(address)),
        1 => trial::write(address, 0xbad0_cafe),
        2 => drop(trial::read(address)),
        _ => trial::jump_untranslated(address),
    }
}

/// Asks for a restart in the middle of everything.
pub(super) fn reset(step: &mut Step<'_>) {
    let function = step.random.pick(&[SYSTEM_RESET, SYSTEM_RESET2], SYSTEM_RESET);
    step.announce(&[function]);
    hypercall::call(function, [0; 3]);
}
