//! A guest that does what the test says: it executes one command at a time from a mailbox in its RAM.
//!
//! So a test tries a call, a load, a store or a jump at any address without a guest of its own, and sees the answer. The
//! mailbox is in the guest's RAM, which the host maps; nothing of the monitor is involved in reading it.

use crate::assemble::Program;
use crate::{LIMIT, Running};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::status::STATE_RUNNING;

/// Where the mailbox is, from the start of the guest's RAM.
const MAILBOX: u64 = 0x10_0000;
/// Guest address of the RAM of every partition in these tests.
pub const GUEST_RAM: u64 = 0x4000_0000;
/// Where these tests load raw images.
pub const GUEST_LOAD: u64 = 0x4008_0000;

const REQUESTED: u32 = 0;
const DONE: u32 = 8;
const OPERATION: u32 = 16;
const ARGUMENTS: u32 = 24;
const RESULTS: u32 = 56;

const CALL: u64 = 0;
const LOAD: u64 = 1;
const STORE: u64 = 2;
const JUMP: u64 = 3;

/// Returns the program of the remote-controlled guest.
#[must_use]
pub fn program() -> Program {
    // x20 mailbox, x21 commands done, x22 operation.
    let mut program = Program::new();
    program.constant(20, GUEST_RAM + MAILBOX).load(21, 20, DONE);
    let poll = program.here();
    program.load(22, 20, REQUESTED).compare(22, 21).branch_equal(poll);
    program.add(21, 21, 1).barrier().load(22, 20, OPERATION);
    for register in 0..4 {
        program.load(register, 20, ARGUMENTS + 8 * register);
    }
    let not_call = program.skip_not_zero(22);
    program.call();
    let finish = program.here();
    for register in 0..4 {
        program.store(register, 20, RESULTS + 8 * register);
    }
    program.barrier().store(21, 20, DONE).branch(poll);
    program.land(not_call).subtract(22, 22, 1);
    let not_load = program.skip_not_zero(22);
    program.load32(0, 0, 0).branch(finish);
    program.land(not_load).subtract(22, 22, 1);
    let not_store = program.skip_not_zero(22);
    program.store32(1, 0, 0).branch(finish);
    program.land(not_store).jump(0);
    program
}

/// Offsets of the instructions of [`program`] that can fault, from its first word: load, store.
#[must_use]
pub fn fault_offsets() -> (u64, u64) {
    let bytes = program().bytes();
    let find = |wanted: u32| {
        let place = bytes.chunks_exact(4).position(|word| word == wanted.to_le_bytes());
        place.expect("the instruction is in the program") as u64 * 4
    };
    (find(0xb940_0000), find(0xb900_0001)) // LDR w0, [x0]; STR w1, [x0]
}

/// The host's side of one remote-controlled guest.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    mailbox: PhysicalAddress,
    sequence: u64,
}

impl Remote {
    /// Takes control of a partition that runs [`program`], once its RAM is scrubbed and loaded.
    ///
    /// # Panics
    /// When the partition does not start within [`LIMIT`].
    #[must_use]
    pub fn new(running: &mut Running, partition: &str) -> Self {
        running.wait_for_state(partition, STATE_RUNNING);
        let ram = running.watch().plan().partitions[running.index(partition)].ram[0].physical;
        Self { mailbox: PhysicalAddress(ram.0 + MAILBOX), sequence: 0 }
    }

    /// Counts from the start again: the guest's RAM was scrubbed by a restart.
    pub fn forget(&mut self) {
        self.sequence = 0;
    }

    fn word(self, offset: u32) -> PhysicalAddress {
        PhysicalAddress(self.mailbox.0 + u64::from(offset))
    }

    /// Gives a command and does not wait: the guest may not come back from it.
    fn post(&mut self, running: &Running, operation: u64, arguments: [u64; 4]) {
        let remote = *self;
        let write = |offset: u32, value: u64| {
            running.ram().write_at(remote.word(offset), &value.to_le_bytes()).expect("the mailbox is in RAM");
        };
        write(OPERATION, operation);
        for (index, argument) in (0..).zip(arguments) {
            write(ARGUMENTS + 8 * index, argument);
        }
        self.sequence += 1;
        write(REQUESTED, self.sequence);
    }

    fn run(&mut self, running: &mut Running, operation: u64, arguments: [u64; 4]) -> [u64; 4] {
        self.post(running, operation, arguments);
        let (done, sequence) = (self.word(DONE), self.sequence);
        let waited = running
            .wait_for("the guest to do a command", LIMIT, |view| (view.ram.load_u64(done)? == sequence).then_some(()));
        waited.unwrap_or_else(|error| panic!("{error}"));
        std::array::from_fn(|index| {
            running.ram().load_u64(self.word(RESULTS + 8 * index as u32)).expect("the mailbox is in RAM")
        })
    }

    /// Makes a call by HVC and returns x0 to x3.
    pub fn call(&mut self, running: &mut Running, function: u64, argument: u64) -> [u64; 4] {
        self.run(running, CALL, [function, argument, 0, 0])
    }

    /// Makes a call that does not come back.
    pub fn call_and_leave(&mut self, running: &Running, function: u64) {
        self.post(running, CALL, [function, 0, 0, 0]);
    }

    /// Loads 32 bits from a guest address.
    pub fn load(&mut self, running: &mut Running, address: u64) -> u64 {
        self.run(running, LOAD, [address, 0, 0, 0])[0]
    }

    /// Loads from an address where the guest is expected to fault.
    pub fn load_and_fault(&mut self, running: &Running, address: u64) {
        self.post(running, LOAD, [address, 0, 0, 0]);
    }

    /// Stores 32 bits to a guest address.
    pub fn store(&mut self, running: &mut Running, address: u64, value: u64) {
        self.run(running, STORE, [address, value, 0, 0]);
    }

    /// Stores to an address where the guest is expected to fault.
    pub fn store_and_fault(&mut self, running: &Running, address: u64, value: u64) {
        self.post(running, STORE, [address, value, 0, 0]);
    }

    /// Jumps to a guest address.
    pub fn jump(&mut self, running: &Running, address: u64) {
        self.post(running, JUMP, [address, 0, 0, 0]);
    }

    /// Waits until the guest has started polling again after a restart.
    ///
    /// A fresh guest begins with a mailbox of zeros, so a command given now is its first.
    pub fn answers(&mut self, running: &mut Running) -> bool {
        self.call(running, bulkhead_abi::hypercall::CALL_VERSION, 0)[0] == u64::from(bulkhead_abi::ABI_VERSION)
    }
}
