//! Steps by calls, system registers and instructions, floating point, EL0 and doorbells.

use super::{Step, ends_emulator};
use crate::attacks::registers::{Encoding, SYSTEM, execute, read_register, write_register};
use crate::trial;
use bulkhead_sdk::{
    abi::hypercall::CALL_VERSION,
    arm::{psci::Function, smccc},
    cpu, hypercall, information,
};
use core::arch::asm;

const SYSTEM_OFF: u64 = Function::SystemOff.id();
const CPU_OFF: u64 = Function::CpuOff.id();
const PSCI: u64 = Function::Version.id();
const SIXTY_FOUR: u64 = smccc::SIXTY_FOUR as u64;
/// Owners of functions that this monitor answers: SMCCC, PSCI, Bulkhead.
const OWNERS: [u64; 3] = [smccc::VERSION as u64, PSCI, CALL_VERSION & !SIXTY_FOUR];
/// Instructions that may run at EL0 before an SVC: WFI, WFE, UDF, HVC, MSR DAIFClr, DC ZVA of x0, MRS of a timer, NOP.
const AT_EL0: [u32; 8] = [0xd503_207f, 0xd503_205f, 0, 0xd400_0002, 0xd503_42ff, 0xd50b_7420, 0xd53b_e040, 0xd503_201f];
/// The same in AArch32 (WFI, WFE, UDF, NOP, SVC) and as Thumb.
const AT_EL0_32: [u32; 6] = [0xe320_f003, 0xe320_f002, 0xe7f0_00f0, 0xe320_f000, 0xef00_0000, 0xdf00_bf30];
const STATES_32: [u64; 2] = [0x1d0, 0x1f0];
const SVC_64: u32 = 0xd400_0001;
const SVC_32: u32 = 0xef00_0000;
const VCPUS: usize = 8;

/// Programs for EL0, one for each vCPU.
static mut PROGRAMS: [[u32; 4]; VCPUS] = [[0; 4]; VCPUS];

/// Any call by either conduit, but none that ends this attacker for good.
pub(super) fn call(step: &mut Step<'_>) {
    let owner = step.random.pick(&OWNERS, PSCI);
    let wide = if step.random.once_in(2) { SIXTY_FOUR } else { 0 };
    let function = if step.random.once_in(6) { step.random.value() } else { owner | wide | step.random.below(0x20) };
    let short = function & 0xffff_ffff & !SIXTY_FOUR;
    let arguments = [step.random.value(), step.random.value(), step.random.value()];
    let secure = step.random.once_in(2);
    step.announce(&[function, arguments[0], arguments[1], arguments[2], u64::from(secure)]);
    if short == SYSTEM_OFF || short == CPU_OFF {
        return;
    }
    if secure {
        // SAFETY: as for `hypercall::call`; what the callee may change is declared.
        unsafe {
            asm!("smc #0", inout("x0") function => _, in("x1") arguments[0], in("x2") arguments[1], in("x3") arguments[2], clobber_abi("C"));
        }
    } else {
        hypercall::call(function, arguments);
    }
}

/// Any register that EL1 may reach, and some that it may not.
pub(super) fn system_register(step: &mut Step<'_>) {
    for _ in 0..=step.random.below(4) {
        let near = !step.random.once_in(3);
        let encoding = if near {
            let level = step.random.pick(&[0, 3], 0);
            Encoding(3, level, below(step, 15), below(step, 5), below(step, 8))
        } else {
            Encoding(2 + below(step, 2), below(step, 8), below(step, 16), below(step, 16), below(step, 8))
        };
        let value = step.random.value();
        let reads = step.random.once_in(2);
        step.announce(&[u64::from(encoding.bits()), u64::from(!reads), value]);
        if reads || ends_emulator(encoding, value) {
            read_register(encoding);
        } else {
            write_register(encoding, value);
        }
    }
}

fn below(step: &mut Step<'_>, bound: u64) -> u32 {
    step.random.below(bound) as u32
}

/// Maintenance of caches and translations, address translation, and what else there is of SYS.
pub(super) fn system_instruction(step: &mut Step<'_>) {
    let crn = step.random.pick(&[7, 8], 7);
    let encoding = Encoding(0, below(step, 8), crn, below(step, 16), below(step, 8));
    // Not this guest's RAM: DC ZVA and DC IVAC would change it, and nothing would be learned.
    let value = step.random.value() | (1 << 44);
    step.announce(&[u64::from(encoding.bits()), value]);
    execute(&[SYSTEM | encoding.bits()], value);
}

/// Floating-point registers, which are switched late.
pub(super) fn float(step: &mut Step<'_>) {
    let (enable, value) = (step.random.below(4) << 20, step.random.next());
    step.announce(&[enable, value]);
    write_register(Encoding(3, 0, 1, 0, 2), enable);
    // MOV V31.D[0], x0; MSR FPCR, x0; MSR FPSR, x0; MOV x0, V31.D[0].
    execute(&[0xd503_3fdf, 0x4e08_1c1f, 0xd51b_4400, 0xd51b_4420, 0x4e08_3fe0], value);
}

/// One instruction at EL0 in either state, with interrupts masked or not.
pub(super) fn el0(step: &mut Step<'_>) {
    let wide = step.random.once_in(2);
    let instruction = if wide { step.random.pick(&AT_EL0, 0) } else { step.random.pick(&AT_EL0_32, 0) };
    let masks = step.random.pick(&[0x3c0, 0x340], 0x3c0);
    let state = if wide { masks } else { (step.random.pick(&STATES_32, 0x1d0) & 0x3f) | masks & 0x1c0 };
    step.announce(&[u64::from(instruction), state]);
    let end = if wide { SVC_64 } else { SVC_32 };
    let programs = (&raw mut PROGRAMS).cast::<[u32; 4]>();
    let code = [instruction, end, end, end];
    let place = cpu::vcpu() as usize % VCPUS;
    // SAFETY: the place is in the array, and no other vCPU uses it.
    let program = unsafe { programs.add(place) };
    // SAFETY: as above; made visible to instruction fetch before it is run.
    unsafe {
        program.write_volatile(code);
        asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) program, options(nostack));
    }
    trial::return_to(program.cast::<u32>(), state);
}

/// Rings its doorbell, and others.
pub(super) fn doorbell(step: &mut Step<'_>) {
    let own = information::ports().iter().find(|port| port.doorbell != u32::MAX).map_or(0, |port| port.doorbell);
    let bell = if step.random.once_in(8) { step.random.below(64) as u32 } else { own };
    let rings = 1 + step.random.below(4);
    step.announce(&[u64::from(bell), rings]);
    for _ in 0..rings {
        let _ = hypercall::doorbell(bell);
    }
}
