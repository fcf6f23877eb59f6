//! A guest that executes one instruction of the test's choice at a time, on memory that its own stage 1 maps as Normal: so an access may be unaligned, or
//! of a kind that device memory does not have, and what happens is stage 2's alone.
//!
//! The instruction finds in x0 to x3 what the test puts there, and the test finds what it leaves there. An exception that the guest itself takes
//! is an answer too: its syndrome.

use crate::assemble::Program;
use crate::remote::{GUEST_LOAD, GUEST_RAM};
use crate::{LIMIT, Running};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::status::STATE_RUNNING;

/// Where the mailbox and the translation table are, from the start of the guest's RAM.
const MAILBOX: u64 = 0x10_0000;
const TABLE: u64 = 0x20_0000;

const REQUESTED: u32 = 0;
const DONE: u32 = 8;
const INSTRUCTION: u32 = 16;
const REGISTERS: u32 = 24;
const SYNDROME: u32 = 56;

/// Vectors are at a multiple of this, and the one for an exception of the guest's own level is so far behind their start.
const VECTORS: u64 = 0x800;
const OWN_LEVEL: u64 = 0x200;

/// What became of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was executed; x0 to x3 are these.
    Done([u64; 4]),
    /// The guest took an exception of this class itself (ESR_EL1.EC).
    Own(u64),
    /// The partition was restarted for this reason.
    Fault(u32),
}

/// Returns the program of this guest.
#[must_use]
pub fn program() -> Program {
    // x20 mailbox, x21 instructions done, x23 the place of the instruction, x24 and x25 for an exception.
    let mut program = Program::new();
    // What follows is written at its place: the slot is the last word but one of a page that the rest does not reach.
    let slot = GUEST_LOAD + 0xc00;
    program.constant(0, GUEST_RAM + TABLE);
    for (entry, address) in [(0, 0), (8, GUEST_RAM)] {
        // A block of Normal write-back memory, inner shareable, with the access flag.
        program.constant(1, address | 3 << 8 | 1 << 10 | 1).store(1, 0, entry);
    }
    program.barrier();
    let registers = [
        (0xd518_a200, 0xff),                                                // MAIR_EL1
        (0xd518_2040, 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32), // TCR_EL1
        (0xd518_2000, GUEST_RAM + TABLE),                                   // TTBR0_EL1
        (0xd518_c000, GUEST_LOAD + VECTORS),                                // VBAR_EL1
        (0xd518_1040, 3 << 20),                                             // CPACR_EL1: SIMD is allowed
        (0xd518_1000, 0x30d0_0800 | 1 | 1 << 2 | 1 << 12),                  // SCTLR_EL1: M, C, I
    ];
    for (write, value) in registers {
        program.constant(0, value).word(write).word(ISB);
    }
    program.constant(20, GUEST_RAM + MAILBOX).constant(23, slot).load(21, 20, DONE);
    let poll = program.here();
    program.load(22, 20, REQUESTED).compare(22, 21).branch_equal(poll);
    program.add(21, 21, 1).barrier().load32(22, 20, INSTRUCTION).store32(22, 23, 0);
    program.word(0xd50b_7b37).barrier().word(0xd50b_7537).barrier().word(ISB); // DC CVAU, x23; IC IVAU, x23
    program.store(31, 20, SYNDROME);
    for register in 0..4 {
        program.load(register, 20, REGISTERS + 8 * register);
    }
    program.jump(23);
    let finish = program.here();
    for register in 0..4 {
        program.store(register, 20, REGISTERS + 8 * register);
    }
    program.barrier().store(21, 20, DONE).branch(poll);
    pad(&mut program, VECTORS + OWN_LEVEL);
    program.word(0xd538_5218).store(24, 20, SYNDROME); // MRS x24, ESR_EL1
    program.word(0xd538_4039).add(25, 25, 4).word(0xd518_4039).word(0xd69f_03e0); // ELR_EL1 + 4; ERET
    pad(&mut program, slot - GUEST_LOAD);
    program.word(NOP).branch(finish);
    program
}

const ISB: u32 = 0xd503_3fdf;
const NOP: u32 = 0xd503_201f;

fn pad(program: &mut Program, offset: u64) {
    assert!(program.offset() <= offset);
    while program.offset() < offset {
        program.word(NOP);
    }
}

/// The host's side of one such guest.
#[derive(Clone, Debug)]
pub struct Executor {
    partition: String,
    mailbox: PhysicalAddress,
    sequence: u64,
    generation: u32,
}

impl Executor {
    /// Takes control of a partition that runs [`program`] and is restarted after a fault.
    ///
    /// # Panics
    /// When the partition does not start within [`LIMIT`].
    #[must_use]
    pub fn new(running: &mut Running, partition: &str) -> Self {
        let generation = running.wait_for_state(partition, STATE_RUNNING).generation;
        let ram = running.watch().plan().partitions[running.index(partition)].ram[0].physical;
        Self { partition: partition.to_owned(), mailbox: PhysicalAddress(ram.0 + MAILBOX), sequence: 0, generation }
    }

    fn word(&self, offset: u32) -> PhysicalAddress {
        PhysicalAddress(self.mailbox.0 + u64::from(offset))
    }

    /// Executes an instruction with these registers.
    ///
    /// # Panics
    /// When nothing comes of it within [`LIMIT`].
    pub fn execute(&mut self, running: &mut Running, instruction: u32, registers: [u64; 4]) -> Outcome {
        self.sequence += 1;
        let write = |offset: u32, value: u64| {
            running.ram().write_at(self.word(offset), &value.to_le_bytes()).expect("the mailbox is in RAM");
        };
        write(INSTRUCTION, instruction.into());
        (0..).zip(registers).for_each(|(index, value)| write(REGISTERS + 8 * index, value));
        write(REQUESTED, self.sequence);
        let (index, done) = (running.index(&self.partition), self.word(DONE));
        let (sequence, generation) = (self.sequence, self.generation);
        let waited = running.wait_for("an instruction or a restart", LIMIT, |view| {
            let status = view.observer?.status(index);
            let is_again = status.state == STATE_RUNNING && status.generation != generation;
            (is_again || view.ram.load_u64(done)? == sequence).then_some(status)
        });
        let status = waited.unwrap_or_else(|error| panic!("{instruction:#x}: {error}"));
        if status.generation != generation {
            // Its RAM was scrubbed.
            (self.generation, self.sequence) = (status.generation, 0);
            return Outcome::Fault(status.reason);
        }
        let read = |offset: u32| running.ram().load_u64(self.word(offset)).expect("the mailbox is in RAM");
        match read(SYNDROME) {
            0 => Outcome::Done([0, 8, 16, 24].map(|offset| read(REGISTERS + offset))),
            syndrome => Outcome::Own(syndrome >> 26),
        }
    }
}
