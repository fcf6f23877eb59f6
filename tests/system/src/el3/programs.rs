//! Two worlds of a few instructions, assembled here: what they do at EL3 is known to the instruction.
//!
//! The payload runs with translation off. It gives each interrupt to its world, puts the other world's program and context into their
//! places, and then either gives the core away again and again or computes. Its timer's handler notes how late it was. What it found is
//! in non-secure memory at [`RESULTS`], where the host reads it.

use crate::assemble::Program;
use bulkhead_el3::registers::encoding;
use bulkhead_world::context::{Context, EntryLevel, REGISTERS, REGISTERS_OFFSET};
use bulkhead_world::control::SecureCall;
use bulkhead_world::flash::{Segment, WorldPlan, secure_ram};
use bulkhead_world::interrupts::{of_distributor, of_redistributor};
use std::mem::offset_of;

/// Where the non-secure program is: its vectors, and behind them its first instruction.
pub(super) const NON_SECURE: u64 = 0x4020_0000;
/// Distance of that.
pub(super) const NON_SECURE_ENTRY: u64 = 0x800;
/// What the payload found: the word of the last call, how many calls, how many ticks, then how late each tick was.
pub(super) const RESULTS: u64 = 0x4200_0000;
/// Distance of the first sample.
pub(super) const SAMPLES: u64 = 64;

const DISTRIBUTOR: u64 = 0x0800_0000;
const REDISTRIBUTOR: u64 = 0x080a_0000;
const GICR_WAKER: u64 = REDISTRIBUTOR + 0x14;
const GICR_ISENABLER0: u64 = REDISTRIBUTOR + 0x1_0100;
const GICR_IPRIORITYR6: u64 = REDISTRIBUTOR + 0x1_0418;
/// Words of INTIDs of this machine's distributor.
const WORDS: u32 = 9;
const GPIO: u64 = 0x090b_0000;
const SECURE_TIMER: u32 = 29;
const VIRTUAL_TIMER: u32 = 27;
const VECTOR_BYTES: u64 = 0x80;
/// The vector of an IRQ on the own stack pointer.
const IRQ_VECTOR: u64 = 5;

const PRIORITY_MASK: &str = "S3_0_C4_C6_0";
const ACKNOWLEDGE: &str = "S3_0_C12_C12_0";
const END: &str = "S3_0_C12_C12_1";
const GROUP_ENABLE: &str = "S3_0_C12_C12_7";
const COUNTER: &str = "S3_3_C14_C0_1";
const SECURE_COMPARE: &str = "S3_7_C14_C2_2";
const SECURE_CONTROL: &str = "S3_7_C14_C2_1";
const VIRTUAL_COUNTER: &str = "S3_3_C14_C0_2";
const VIRTUAL_COMPARE: &str = "S3_3_C14_C3_2";
const VIRTUAL_CONTROL: &str = "S3_3_C14_C3_1";
/// ICC_IAR0_EL1 and ICC_IGRPEN0_EL1: group 0, which is EL3's.
const GROUP_0_ACKNOWLEDGE: &str = "S3_0_C12_C8_0";
const GROUP_0_ENABLE: &str = "S3_0_C12_C12_6";

/// What a call of the non-secure world means to the payload; none is a number of CPU_ON or AFFINITY_INFO, which EL3 may keep.
const CALL_ANSWER: u32 = 2;
const CALL_RESET: u32 = 6;
/// The last call: everything was as it should, or not.
pub(super) const CALL_GOOD: u32 = 1;
const CALL_BAD: u32 = 5;

// Registers of the payload that a call keeps.
const TICKS: u32 = 20;
const MOST_TICKS: u32 = 21;
const PERIOD: u32 = 22;
const NEXT_SAMPLE: u32 = 23;
const CALLS: u32 = 25;
const CONTEXT: u32 = 26;
const FOUND: u32 = 27;

/// How often the payload's timer ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ticks {
    /// The payload switches the machine off at this one; 0 = there is no timer.
    pub(super) count: u64,
    /// Instructions from one to the next.
    pub(super) period: u64,
}

trait Registers {
    fn read(&mut self, to: u32, operand: &str) -> &mut Self;
    fn write(&mut self, operand: &str, from: u32) -> &mut Self;
    fn secure_call(&mut self) -> &mut Self;
    fn store32_at(&mut self, address: u64, value: u64) -> &mut Self;
}

fn system(operand: &str) -> u32 {
    u32::from(encoding(operand).unwrap_or_else(|| panic!("{operand} has no encoding"))) << 5
}

impl Registers for Program {
    fn read(&mut self, to: u32, operand: &str) -> &mut Self {
        self.word(0xd520_0000 | system(operand) | to)
    }

    fn write(&mut self, operand: &str, from: u32) -> &mut Self {
        self.word(0xd500_0000 | system(operand) | from)
    }

    fn secure_call(&mut self) -> &mut Self {
        self.word(0xd400_0003)
    }

    fn store32_at(&mut self, address: u64, value: u64) -> &mut Self {
        self.constant(1, address).constant(2, value).store32(2, 1, 0)
    }
}

const ISB: u32 = 0xd503_3fdf;
const ERET: u32 = 0xd69f_03e0;
const UNMASK_INTERRUPTS: u32 = 0xd503_42ff;

fn subtract(to: u32, from: u32, value: u32) -> u32 {
    0xcb00_0000 | value << 16 | from << 5 | to
}

fn add(to: u32, from: u32, value: u32) -> u32 {
    0x8b00_0000 | value << 16 | from << 5 | to
}

/// LSR (immediate).
fn shift_right(to: u32, from: u32, bits: u32) -> u32 {
    0xd340_fc00 | bits << 16 | from << 5 | to
}

/// Stores 64 bits and adds 8 to the base: STR, post-indexed.
fn store_and_advance(from: u32, base: u32) -> u32 {
    0xf800_0400 | 8 << 12 | base << 5 | from
}

/// Fills with zeros up to an offset.
fn fill(program: &mut Program, offset: u64) {
    while program.offset() < offset {
        program.word(0);
    }
}

/// The payload as an ELF file. It gives the core away, or computes for ever when there is no other world.
pub(super) fn payload(ticks: Ticks, has_other_world: bool) -> Vec<u8> {
    let mut program = Program::new();
    let off = program.here();
    program.store(1, FOUND, 0).store(CALLS, FOUND, 8).store(TICKS, FOUND, 16);
    program.store32_at(GPIO + 0x400, 0xff).store32_at(GPIO + 4, 0).store32_at(GPIO + 4, 1).stay();
    let vectors = 0x800;
    fill(&mut program, vectors);
    for vector in 0..16 {
        fill(&mut program, vectors + vector * VECTOR_BYTES);
        if vector == IRQ_VECTOR {
            program.read(9, COUNTER).read(10, ACKNOWLEDGE).read(11, SECURE_COMPARE);
            program.word(subtract(12, 9, 11)).word(store_and_advance(12, NEXT_SAMPLE));
            program.word(add(11, 11, PERIOD)).write(SECURE_COMPARE, 11).word(ISB).write(END, 10);
            program.add(TICKS, TICKS, 1).word(subtract(13, MOST_TICKS, TICKS));
            let more = program.skip_not_zero(13);
            program.constant(1, u64::from(CALL_GOOD)).branch(off).land(more).word(ERET);
        } else {
            program.constant(1, u64::from(CALL_BAD)).branch(off);
        }
    }
    fill(&mut program, vectors + 16 * VECTOR_BYTES);
    let entry = program.offset();
    begin(&mut program, ticks, vectors);
    if has_other_world {
        copy_segment(&mut program, 0);
        first_context(&mut program, &Context::non_secure(NON_SECURE + NON_SECURE_ENTRY, 0, EntryLevel::El1));
    }
    if ticks.count != 0 {
        program.read(11, COUNTER).word(add(11, 11, PERIOD)).write(SECURE_COMPARE, 11);
        program.constant(11, 1).write(SECURE_CONTROL, 11);
    }
    program.word(ISB).word(UNMASK_INTERRUPTS);
    if !has_other_world {
        program.spin();
        return elf_file(&program, entry);
    }
    let give = program.here();
    program.constant(0, SecureCall::Enter as u64).secure_call();
    let called = program.skip_not_zero(0);
    program.branch(give).land(called).load(1, CONTEXT, 0).add(CALLS, CALLS, 1);
    program.subtract(2, 1, CALL_ANSWER);
    let other = program.skip_not_zero(2);
    program.add(1, 1, 1).store(1, CONTEXT, 0).branch(give).land(other).subtract(2, 1, CALL_RESET);
    let other = program.skip_not_zero(2);
    program.constant(0, SecureCall::Reset as u64).secure_call().branch(give).land(other).branch(off);
    elf_file(&program, entry)
}

/// A payload that gives the core to the other world, of this many segments, and has nothing else to do: no timer and no interrupt of it. Each call of the
/// other world is answered as unknown, but that which switches it off ends the run.
pub(super) fn gate(context: &Context, segments: usize) -> Vec<u8> {
    const SYSTEM_OFF: u64 = 0x8400_0008;
    let mut program = Program::new();
    let off = program.here();
    program.store32_at(GPIO + 0x400, 0xff).store32_at(GPIO + 4, 0).store32_at(GPIO + 4, 1).stay();
    let vectors = 0x800;
    for vector in 0..16 {
        fill(&mut program, vectors + vector * VECTOR_BYTES);
        program.stay();
    }
    fill(&mut program, vectors + 16 * VECTOR_BYTES);
    let entry = program.offset();
    begin(&mut program, Ticks::default(), vectors);
    (0..segments).for_each(|place| copy_segment(&mut program, place));
    first_context(&mut program, context);
    let give = program.here();
    program.constant(0, SecureCall::Enter as u64).secure_call();
    program.load(1, CONTEXT, 0).constant(2, SYSTEM_OFF).compare(1, 2).branch_equal(off);
    program.constant(1, u64::MAX).store(1, CONTEXT, 0).branch(give);
    elf_file(&program, entry)
}

/// Registers, vectors, groups and the timer's interrupt; x19 keeps the plan.
fn begin(program: &mut Program, ticks: Ticks, vectors: u64) {
    program.copy(19, 0).constant(TICKS, 0).constant(MOST_TICKS, ticks.count).constant(PERIOD, ticks.period);
    program.constant(CALLS, 0).constant(CONTEXT, secure_ram::CONTEXTS).constant(FOUND, RESULTS);
    program.constant(NEXT_SAMPLE, RESULTS + SAMPLES);
    program.constant(1, secure_ram::PAYLOAD + vectors).write("vbar_el1", 1);
    let mut secure = [0; 32];
    secure[0] = 1 << SECURE_TIMER;
    program.store32_at(GICR_WAKER, 0);
    for write in of_distributor(DISTRIBUTOR, WORDS, &secure).chain(of_redistributor(REDISTRIBUTOR, &secure, 0)) {
        program.store32_at(write.address, write.value.into());
    }
    program.store32_at(GICR_ISENABLER0, 1 << SECURE_TIMER);
    program.constant(1, 0xff).write(PRIORITY_MASK, 1).constant(1, 1).write(GROUP_ENABLE, 1);
}

/// Copies a segment of the plan, as the library does.
fn copy_segment(program: &mut Program, place: usize) {
    let segment = offset_of!(WorldPlan, segments) + place * size_of::<Segment>();
    for (register, field) in
        [offset_of!(Segment, from), offset_of!(Segment, to), offset_of!(Segment, bytes)].into_iter().enumerate()
    {
        program.load(1 + register as u32, 19, (segment + field) as u32);
    }
    // Whole words.
    program.add(3, 3, 7).word(shift_right(3, 3, 3));
    let copy = program.here();
    program.load(4, 1, 0).store(4, 2, 0).add(1, 1, 8).add(2, 2, 8).subtract(3, 3, 1).branch_not_zero(3, copy);
}

/// Makes the first context of the other world, as the library does.
fn first_context(program: &mut Program, context: &Context) {
    program.constant(1, context.x[0]).store(1, CONTEXT, 0);
    for (name, value) in [
        ("ELR_EL3", context.elr_el3),
        ("SPSR_EL3", context.spsr_el3),
        ("SCTLR_EL1", context.sctlr_el1),
        ("ICC_PMR_EL1", context.icc_pmr_el1),
        ("ICC_IGRPEN1_EL3", context.icc_igrpen1_el3),
    ] {
        let index = REGISTERS.iter().position(|register| register.name == name).expect("a register of the list");
        program.constant(1, value).store(1, CONTEXT, (REGISTERS_OFFSET + 8 * index) as u32);
    }
    program.constant(0, SecureCall::Reset as u64).secure_call();
}

/// A program that computes for ever with everything masked.
pub(super) fn computes() -> Vec<u8> {
    let mut program = Program::new();
    fill(&mut program, NON_SECURE_ENTRY);
    program.spin();
    padded(&program)
}

/// A program that sleeps for ever.
pub(super) fn sleeps() -> Vec<u8> {
    let mut program = Program::new();
    fill(&mut program, NON_SECURE_ENTRY);
    program.stay();
    padded(&program)
}

/// A program that, this often, calls, asks for a reset, reads a register of group 0 and writes one. A call's answer and a register that
/// was read are compared with what they should be (SG-15).
pub(super) fn calls(count: u64) -> Vec<u8> {
    const PATTERN: u64 = 0x5a5a_1234_8765_a5a5;
    let mut program = Program::new();
    fill(&mut program, NON_SECURE_ENTRY);
    program.constant(20, count).constant(21, PATTERN);
    let again = program.here();
    program.constant(0, u64::from(CALL_ANSWER)).secure_call().subtract(1, 0, CALL_ANSWER + 1);
    let wrong_answer = program.skip_not_zero(1);
    program.constant(0, u64::from(CALL_RESET)).secure_call();
    program.copy(1, 21).read(1, GROUP_0_ACKNOWLEDGE).write(GROUP_0_ENABLE, 21).word(subtract(1, 1, 21));
    let wrong_value = program.skip_not_zero(1);
    program.subtract(20, 20, 1).branch_not_zero(20, again);
    program.constant(0, u64::from(CALL_GOOD)).secure_call();
    program.land(wrong_answer).land(wrong_value).constant(0, u64::from(CALL_BAD)).secure_call();
    padded(&program)
}

/// A program that takes this many interrupts of its own timer.
pub(super) fn interrupts(count: u64) -> Vec<u8> {
    const PERIOD_TICKS: u64 = 500;
    let mut program = Program::new();
    for vector in 0..16 {
        fill(&mut program, vector * VECTOR_BYTES);
        if vector == IRQ_VECTOR {
            program.read(10, ACKNOWLEDGE).read(11, VIRTUAL_COMPARE).add(11, 11, PERIOD_TICKS as u32);
            program.write(VIRTUAL_COMPARE, 11).word(ISB).write(END, 10).subtract(20, 20, 1);
            let more = program.skip_not_zero(20);
            program.constant(0, u64::from(CALL_GOOD)).secure_call().land(more).word(ERET);
        }
    }
    fill(&mut program, NON_SECURE_ENTRY);
    program.constant(20, count).constant(1, NON_SECURE).write("vbar_el1", 1);
    program.store32_at(GICR_IPRIORITYR6, 0x8080_8080).store32_at(GICR_ISENABLER0, 1 << VIRTUAL_TIMER);
    program.constant(1, 0xff).write(PRIORITY_MASK, 1).constant(1, 1).write(GROUP_ENABLE, 1);
    program.read(1, VIRTUAL_COUNTER).add(1, 1, PERIOD_TICKS as u32).write(VIRTUAL_COMPARE, 1);
    program.constant(1, 1).write(VIRTUAL_CONTROL, 1).word(ISB).word(UNMASK_INTERRUPTS).spin();
    padded(&program)
}

/// The bytes of a program; the payload copies whole words.
fn padded(program: &Program) -> Vec<u8> {
    let mut bytes = program.bytes();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// An ELF file of one segment where payloads are linked, which is text: with translation off it needs no rights.
fn elf_file(program: &Program, entry: u64) -> Vec<u8> {
    const HEADER_BYTES: u16 = 64;
    const SEGMENT_HEADER_BYTES: u16 = 56;
    let content = program.bytes();
    let bytes = content.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2_u16, 183].iter().flat_map(|half| half.to_le_bytes())); // an executable for AArch64
    file.extend(1_u32.to_le_bytes());
    file.extend([secure_ram::PAYLOAD + entry, HEADER_BYTES.into(), 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    let halves = [HEADER_BYTES, SEGMENT_HEADER_BYTES, 1, 64, 0, 0];
    file.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    file.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes())); // loadable; readable and executable
    let offset = u64::from(HEADER_BYTES + SEGMENT_HEADER_BYTES);
    let words = [offset, secure_ram::PAYLOAD, secure_ram::PAYLOAD, bytes, bytes, 8];
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    file.extend(content);
    file
}
