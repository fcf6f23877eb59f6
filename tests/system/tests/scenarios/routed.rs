//! A shared interrupt that is routed to a vCPU which is off.

use bulkhead_abi::PhysicalAddress;
use bulkhead_system_tests::assemble::{Label, Program};
use bulkhead_system_tests::remote::{GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::{LIMIT, System, boards};

const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
const AFFINITY_INFO: u64 = 0xc400_0004;
/// Interrupts that vCPU 1 took, in the partition's RAM.
const TAKEN: u64 = 0x20_0000;
const GICD: u64 = 0x0800_0000;
/// Turns in which the monitor has time to do what it did with an interrupt of a core that is off.
const DELAY_TURNS: u64 = 20_000;
const ROUNDS: u64 = 40;

fn store32(program: &mut Program, address: u64, value: u64) {
    program.constant(1, address).constant(0, value).store32(0, 1, 0);
}

fn branch_not_equal(program: &mut Program, target: Label) {
    program.word(0x5400_0040).branch(target); // B.EQ over the branch
}

/// Where the bit of an interrupt is in registers with a bit for each: offset of its word, and its value.
fn bit_of(intid: u64) -> (u64, u64) {
    (intid / 32 * 4, 1 << (intid % 32))
}

/// Makes the interrupt pending when the count in x20 is odd, and lets some time pass.
fn pend_when_odd(program: &mut Program, intid: u64) {
    let (word, bit) = bit_of(intid);
    program.word(0x3600_0000 | 10 << 5 | 20); // TBZ x20, #0, over the nine instructions of the store
    store32(program, GICD + 0x200 + word, bit);
    program.constant(21, DELAY_TURNS);
    let wait = program.here();
    program.subtract(21, 21, 1).branch_not_zero(21, wait);
}

/// In odd rounds vCPU 0 makes the interrupt pending while vCPU 1 is off, in even ones vCPU 1 does so just before it goes.
fn program(intid: u64) -> Program {
    let (word, bit) = bit_of(intid);
    let build = |second: u64| {
        let mut program = Program::new();
        program.constant(19, GUEST_RAM + TAKEN).constant(20, 0);
        store32(&mut program, GICD, 0x12);
        store32(&mut program, GICD + 0x100 + word, bit);
        program.constant(1, GICD + 0x6000 + 8 * intid).constant(0, 1).store(0, 1, 0);
        let again = program.here();
        program.add(20, 20, 1).constant(5, 1);
        let off = program.here();
        program.constant(0, AFFINITY_INFO).constant(1, 1).constant(2, 0).call().compare(0, 5);
        branch_not_equal(&mut program, off);
        pend_when_odd(&mut program, intid);
        program.constant(0, CPU_ON).constant(1, 1).constant(2, second).call();
        let taken = program.here();
        program.load(0, 19, 0).compare(0, 20);
        branch_not_equal(&mut program, taken);
        program.branch(again);
        let second = GUEST_LOAD + program.offset();
        program.constant(19, GUEST_RAM + TAKEN).constant(2, intid);
        program.constant(0, 0xff).word(0xd518_4600); // ICC_PMR_EL1
        program.constant(0, 1).word(0xd518_cce0); // ICC_IGRPEN1_EL1
        let poll = program.here();
        program.word(0xd538_cc01).compare(1, 2); // ICC_IAR1_EL1
        branch_not_equal(&mut program, poll);
        program.word(0xd518_cc21); // ICC_EOIR1_EL1
        program.load(20, 19, 0).add(20, 20, 1).store(20, 19, 0);
        pend_when_odd(&mut program, intid);
        program.constant(0, CPU_OFF).call().stay();
        (program, second)
    };
    // A constant takes four instructions whatever it is, so the second pass has the same offsets.
    build(build(0).1).0
}

/// PSCI, QV-16: the interrupt is there at the next CPU_ON, whether it arrived while the vCPU was off or waited for it when it left.
#[test]
fn an_interrupt_waits_for_a_vcpu_that_is_off() {
    let clock = boards::board().devices.into_iter().find(|device| device.name == "rtc").expect("the board has a clock");
    let intid = clock.interrupts[0].intid;
    let program = program(u64::from(intid));
    let mut running = System::with_programs("routed", &[], &[("routed", &program)]).start();
    let plan = &running.watch().plan().partitions[0];
    assert_eq!(plan.interrupts[0].intid, intid, "the clock's interrupt is the first of its owner");
    let taken = PhysicalAddress(plan.ram[0].physical.0 + TAKEN);
    let waited = running
        .wait_for("vCPU 1 to take its interrupts", LIMIT, |view| (view.ram.load_u64(taken)? >= ROUNDS).then_some(()));
    let count = running.ram().load_u64(taken);
    waited.unwrap_or_else(|error| panic!("{count:?} of {ROUNDS} interrupts came: {error}"));
    running.assert_no_crash();
}
