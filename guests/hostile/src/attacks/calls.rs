//! Calls: every function id range, by both conduits, and calls about others.

use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::{
    abi::{
        MAX_PARTITIONS,
        hypercall::{
            CALL_DOORBELL, CALL_HEARTBEAT, CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_STATUS,
            CALL_PARTITION_SUSPEND, DENIED, INVALID_PARAMETERS, LIMITED, NOT_SUPPORTED, SUCCESS,
        },
    },
    arm::{
        psci::{Error, Function},
        smccc,
    },
    guest_abi::guest::GUEST_STOLEN_TIME,
    hypercall, information,
};
use core::arch::asm;

const FAST: u64 = smccc::FAST as u64;
const SIXTY_FOUR: u64 = smccc::SIXTY_FOUR as u64;
/// Owners of SMC Calling Convention: Arm, CPU, SiP, OEM, standard, hypervisor, vendor hypervisor, ..., trusted OS.
const OWNERS: u64 = 64;
/// Functions tried of each owner and convention.
const FUNCTIONS: u64 = 0x40;
const PSCI: u64 = Function::Version.id();
const CPU_ON: u64 = Function::CpuOn64.id();
const AFFINITY_INFO: u64 = Function::AffinityInfo64.id();
const CPU_SUSPEND: u64 = Function::CpuSuspend64.id();
const ALREADY_ON: u64 = Error::AlreadyOn.answer();
const INVALID_ADDRESS: u64 = Error::InvalidAddress.answer();
/// Affinities that name no vCPU of this partition.
const FOREIGN: [u64; 12] =
    [8, 9, 15, 16, 0xff, 0x100, 0x101, 0x1_0000, 0x100_0000, 0x1_0000_0000, 0x8000_0000, u64::MAX];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Conduit {
    Hypervisor,
    Secure,
}

fn secure_call(function: u64, arguments: [u64; 3]) -> u64 {
    let mut x0 = function;
    // SAFETY: as for `hypercall::call`; what the callee may change is declared.
    unsafe {
        asm!("smc #0", inout("x0") x0, in("x1") arguments[0], in("x2") arguments[1], in("x3") arguments[2], clobber_abi("C"));
    }
    x0
}

fn call(conduit: Conduit, function: u64, arguments: [u64; 3]) -> u64 {
    match conduit {
        Conduit::Hypervisor => hypercall::call(function, arguments)[0],
        Conduit::Secure => secure_call(function, arguments),
    }
}

/// States whether a function id is defined: the SMCCC's own, PSCI's, or Bulkhead's.
fn is_defined(function: u64) -> bool {
    let owner = function & 0x3f00_0000;
    let number = function & 0xffff;
    let is_fast = function & FAST != 0;
    match owner {
        0x0000_0000 => is_fast && number <= 1,
        0x0400_0000 => is_fast && number <= 0x20,
        0x0600_0000 => is_fast && function & SIXTY_FOUR != 0 && number <= 0x1f,
        _ => false,
    }
}

/// States whether an answer says that there is no such function. PV_TIME_ST (DEN 0057A) may say where stolen time is instead, on a shared core.
fn is_refused(function: u64, answer: u64) -> bool {
    answer == NOT_SUPPORTED || function == 0xc500_0021 && answer == GUEST_STOLEN_TIME.0
}

/// Calls each undefined function of each owner: all answer "not supported".
fn sweep(conduit: Conduit, convention: u64) -> Outcome {
    let mut calls = 0;
    let mut wrong = 0;
    let exception = trial::attempt(|| {
        for owner in 0..OWNERS {
            for number in (0..FUNCTIONS).chain([0xff00, 0xff01, 0xff03, 0xffff]) {
                let function = convention | (owner << 24) | number;
                if is_defined(function) {
                    continue;
                }
                calls += 1;
                if !is_refused(function, call(conduit, function, [u64::MAX, 0x4000_0000, 1])) {
                    wrong = function;
                }
            }
        }
    });
    match (exception, wrong) {
        (Some(syndrome), _) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
        (None, 0) => Outcome::contained("calls not supported", calls),
        (None, function) => Outcome::escaped("another answer for function", function),
    }
}

/// PSCI functions that this monitor does not offer.
fn optional_psci() -> Outcome {
    let refused = [5, 7, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10, 0x11, 0x13, 0x14, 0x15];
    let wrong = refused.iter().find(|number| call(Conduit::Hypervisor, PSCI | **number, [0, 0, 0]) != NOT_SUPPORTED);
    match wrong {
        None => Outcome::contained("calls not supported", refused.len() as u64),
        Some(number) => Outcome::escaped("another answer for function", PSCI | number),
    }
}

macro_rules! call_with_immediate {
    ($($immediate:literal),+) => {[$({
        let mut x0: u64 = 0xdead_0000;
        // SAFETY: as for `hypercall::call`.
        unsafe { asm!(concat!("hvc #", $immediate), inout("x0") x0, clobber_abi("C")) };
        x0
    }),+]};
}

/// The immediate of HVC has no meaning.
fn immediates() -> Outcome {
    let mut answers = [0; 4];
    let exception = trial::attempt(|| answers = call_with_immediate!(1, 0x4a48, 0x7fff, 0xffff));
    match exception {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped_unless(answers == [NOT_SUPPORTED; 4], "answer", answers[0]),
    }
}

/// Registers behind an unknown call hold what they held: nothing of the monitor's leaks.
fn leak() -> Outcome {
    let mut changed: u64;
    // SAFETY: an unknown call; all registers used are declared (x19 and x29 to x30 are left alone).
    unsafe {
        asm!(
            "mov x0, #0xffff",
            "mov x1, x20", "mov x2, x20", "mov x3, x20", "mov x4, x20", "mov x5, x20",
            "mov x6, x20", "mov x7, x20", "mov x8, x20", "mov x9, x20", "mov x10, x20",
            "mov x11, x20", "mov x12, x20", "mov x13, x20", "mov x14, x20",
            "mov x15, x20", "mov x16, x20", "mov x17, x20",
            "hvc #0",
            "eor x1, x1, x20", "eor x2, x2, x20", "orr x1, x1, x2", "eor x3, x3, x20",
            "orr x1, x1, x3", "eor x4, x4, x20", "orr x1, x1, x4", "eor x5, x5, x20", "orr x1, x1, x5",
            "eor x6, x6, x20", "orr x1, x1, x6", "eor x7, x7, x20", "orr x1, x1, x7",
            "eor x8, x8, x20", "orr x1, x1, x8", "eor x9, x9, x20", "orr x1, x1, x9",
            "eor x10, x10, x20", "orr x1, x1, x10", "eor x11, x11, x20", "orr x1, x1, x11",
            "eor x12, x12, x20", "orr x1, x1, x12", "eor x13, x13, x20", "orr x1, x1, x13",
            "eor x14, x14, x20", "orr x1, x1, x14", "eor x15, x15, x20", "orr x1, x1, x15",
            "eor x16, x16, x20", "orr x1, x1, x16", "eor x17, x17, x20", "orr x1, x1, x17",
            in("x20") 0x5aa5_c33c_0ff0_6996_u64,
            out("x1") changed,
            clobber_abi("C"),
        );
    }
    Outcome::escaped_unless(changed == 0, "bits changed in x1 to x17", changed)
}

fn vcpus() -> u64 {
    information::information().map_or(1, |page| u64::from(page.vcpu_count))
}

/// Asks all foreign affinities something; each must be answered `wanted`.
fn ask_foreign(function: u64, arguments: [u64; 2], wanted: u64) -> Outcome {
    let foreign = (vcpus()..8).chain(FOREIGN);
    let mut asked = 0;
    for affinity in foreign {
        asked += 1;
        let answer = call(Conduit::Hypervisor, function, [affinity, arguments[0], arguments[1]]);
        if answer != wanted {
            return Outcome::escaped("another answer for affinity", affinity);
        }
    }
    Outcome::contained("affinities refused", asked)
}

fn switch_on_own(entry: u64) -> Outcome {
    let answer = call(Conduit::Secure, CPU_ON, [bulkhead_sdk::cpu::affinity(), entry, 0]);
    Outcome::escaped_unless(answer == ALREADY_ON || answer == INVALID_ADDRESS, "answer", answer)
}

fn suspend() -> Outcome {
    let answer = call(Conduit::Secure, CPU_SUSPEND, [0x1_0000, 0x6000_0000, 0]);
    Outcome::escaped_unless(answer == SUCCESS || answer.cast_signed() < 0, "answer", answer)
}

/// Tries a management call on every partition but oneself.
fn manage(function: u64) -> Outcome {
    let Some(page) = information::information() else {
        return Outcome::skipped("no information page, so the own index is not known");
    };
    let own = u64::from(page.partition);
    let others = (0..MAX_PARTITIONS as u64).chain([u64::MAX, 1 << 32, 1 << 63]).filter(|index| *index != own);
    let mut asked = 0;
    for index in others {
        asked += 1;
        let answer = call(Conduit::Hypervisor, function, [index, 0, 0]);
        if answer != DENIED && answer != INVALID_PARAMETERS {
            return Outcome::escaped("another answer for partition", index);
        }
    }
    Outcome::contained("partitions refused", asked)
}

fn foreign_doorbells() -> Outcome {
    if information::information().is_none() {
        return Outcome::skipped("no information page, so the own doorbells are not known");
    }
    let own = |index: u64| information::ports().iter().any(|port| u64::from(port.doorbell) == index);
    for index in (0..64).chain([u64::from(u32::MAX), 1 << 32, u64::MAX]).filter(|index| !own(*index)) {
        if call(Conduit::Hypervisor, CALL_DOORBELL, [index, 0, 0]) != INVALID_PARAMETERS {
            return Outcome::escaped("another answer for doorbell", index);
        }
    }
    Outcome::contained("doorbells refused", 67)
}

/// Rings one's own doorbell without end: the limiter lets few through.
fn doorbell_storm() -> Outcome {
    const RINGS: u64 = 10_000;
    let Some(port) = information::ports().iter().find(|port| port.doorbell != u32::MAX) else {
        return Outcome::skipped("no doorbell");
    };
    let mut sent = 0;
    for _ in 0..RINGS {
        match call(Conduit::Hypervisor, CALL_DOORBELL, [u64::from(port.doorbell), 0, 0]) {
            SUCCESS => sent += 1,
            LIMITED => {}
            answer => return Outcome::unexpected("another answer", answer),
        }
    }
    // How many were sent depends on how long it took; the sender's counters tell.
    if sent < RINGS {
        Outcome::contained("rings, of which few were sent", RINGS)
    } else {
        Outcome::escaped("rings sent", sent)
    }
}

fn heartbeat_storm() -> Outcome {
    const HEARTBEATS: u64 = 10_000;
    let refused = (0..HEARTBEATS).filter(|_| call(Conduit::Secure, CALL_HEARTBEAT, [0; 3]) != SUCCESS).count();
    Outcome::contained("heartbeats refused", refused as u64)
}

macro_rules! answer {
    ($name:literal, $run:expr) => {
        Attack { name: $name, expectation: Expectation::Answer, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    answer!("HVC: fast 32-bit calls of all owners", || sweep(Conduit::Hypervisor, FAST)),
    answer!("HVC: fast 64-bit calls of all owners", || sweep(Conduit::Hypervisor, FAST | SIXTY_FOUR)),
    answer!("HVC: yielding calls of all owners", || sweep(Conduit::Hypervisor, 0)),
    answer!("SMC: fast 32-bit calls of all owners", || sweep(Conduit::Secure, FAST)),
    answer!("SMC: fast 64-bit calls of all owners", || sweep(Conduit::Secure, FAST | SIXTY_FOUR)),
    answer!("SMC: yielding calls of all owners", || sweep(Conduit::Secure, SIXTY_FOUR)),
    answer!("HVC with other immediates", immediates),
    answer!("registers after an unknown call", leak),
    answer!("PSCI: optional functions", optional_psci),
    answer!("PSCI: CPU_ON of foreign cores", || ask_foreign(CPU_ON, [0x4008_0000, 0], INVALID_PARAMETERS)),
    answer!("PSCI: CPU_ON of oneself", || switch_on_own(0x4008_0000)),
    answer!("PSCI: CPU_ON into foreign memory", || switch_on_own(0x6000_0000)),
    answer!("PSCI: AFFINITY_INFO of foreign cores", || ask_foreign(AFFINITY_INFO, [0, 0], INVALID_PARAMETERS)),
    answer!("PSCI: CPU_SUSPEND with power down", suspend),
    answer!("suspend other partitions", || manage(CALL_PARTITION_SUSPEND)),
    answer!("resume other partitions", || manage(CALL_PARTITION_RESUME)),
    answer!("restart other partitions", || manage(CALL_PARTITION_RESTART)),
    answer!("read the status of other partitions", || manage(CALL_PARTITION_STATUS)),
    answer!("doorbells of others", foreign_doorbells),
    answer!("doorbell storm", doorbell_storm),
    answer!("heartbeat storm", heartbeat_storm),
];
