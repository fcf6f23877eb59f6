//! Console input below a payload, of a guest that has its interrupts to itself too: another core takes the UART's interrupt and hands it over.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_RUNNING;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::hybrid::HEAD;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::{LIMIT, Running, System};

const UART: u64 = 0x0900_0000;
const FLAGS: u32 = 0x18;
const DISTRIBUTOR: u64 = 0x0800_0000;
const TEXT: u64 = GUEST_RAM + 0x10_0000;
const COUNT: u64 = GUEST_RAM + 0x30_0000;
const NEXT: u8 = 0x1d;
/// The board's UART.
const UART_INTERRUPT: u64 = 33;
const ISB: u32 = 0xd503_3fdf;
const IAR1: u32 = 0xd538_cc01; // MRS x1, ICC_IAR1_EL1
const EOIR1: u32 = 0xd518_cc21; // MSR ICC_EOIR1_EL1, x1
const EMPTY: u32 = 0x927c_0022; // AND x2, x1, #16
const FULL: u32 = 0x927a_0022; // AND x2, x1, #64

fn places() -> Program {
    let mut program = Program::new();
    program.constant(0, UART).constant(3, TEXT).constant(4, COUNT).constant(5, 0);
    program
}

/// Takes the byte in x1 down, and counts it.
fn keep(program: &mut Program) -> &mut Program {
    program.store32(1, 3, 0).add(3, 3, 4).add(5, 5, 1).barrier().store(5, 4, 0)
}

/// Reads its virtual UART, byte after byte.
fn polling() -> Program {
    let mut program = places();
    let again = program.here();
    program.load32(1, 0, FLAGS).word(EMPTY).branch_not_zero(2, again).load32(1, 0, 0);
    keep(&mut program).branch(again);
    program
}

/// Sleeps until the interrupt of its virtual UART is pending, acknowledges it as the owner of its CPU interface, and reads until nothing is left.
fn listening() -> Program {
    let mut program = places();
    program.constant(1, 0x50).store32(1, 0, 0x38); // UARTIMSC: receive, receive timeout
    program.constant(6, DISTRIBUTOR).constant(1, 0x12).store32(1, 6, 0).constant(1, 0xffff_ffff);
    (1..8).for_each(|word| _ = program.store32(1, 6, 0x100 + 4 * word));
    program.constant(0, 0xff).word(0xd518_4600).constant(0, 1).word(0xd518_cce0).word(ISB); // ICC_PMR_EL1, ICC_IGRPEN1_EL1
    program.constant(0, UART).constant(7, 1023).store(7, 4, 8);
    let again = program.here();
    program.wait().word(IAR1).compare(1, 7).branch_equal(again).word(EOIR1);
    let drain = program.here();
    program.load32(1, 0, FLAGS).word(EMPTY).branch_not_zero(2, again).load32(1, 0, 0);
    keep(&mut program).branch(drain);
    program
}

/// Waits for a full FIFO. If its first byte is a `!`, it faults with the others unread; otherwise it reads on.
fn dying() -> Program {
    let mut program = places();
    program.constant(7, u64::from(b'!')).constant(9, 0).constant(2, 1);
    let over = program.skip_not_zero(2);
    let fault = program.here();
    program.load(1, 9, 0).land(over);
    let again = program.here();
    program.load32(1, 0, FLAGS).word(FULL);
    let full = program.skip_not_zero(2);
    program.branch(again).land(full).load32(1, 0, 0).compare(1, 7).branch_equal(fault);
    keep(&mut program);
    let drain = program.here();
    program.load32(1, 0, FLAGS).word(EMPTY).branch_not_zero(2, drain).load32(1, 0, 0);
    keep(&mut program).branch(drain);
    program
}

/// Masks everything, and writes the end of the UART's interrupt for ever, or nothing at all.
fn stubborn(steals: bool) -> Program {
    let mut program = Program::new();
    program.word(0xd503_4fdf).constant(0, 0).word(0xd518_4600).word(0xd518_cce0).word(ISB); // DAIF, ICC_PMR_EL1, ICC_IGRPEN1_EL1
    program.constant(1, UART_INTERRUPT);
    let again = program.here();
    program.word(if steals { EOIR1 } else { ISB }).branch(again);
    program
}

/// A `mapped` reader on the payload's core, the guest with its interrupts, and another reader: in this order they have the focus.
fn three(drive: &Program, rest: &str) -> Running {
    let partition = |name: &str, core: u32, rest: &str| {
        format!(
            "\n[[partition]]\nname = \"{name}\"\ncores = [{core}]\nmemory = \"4 MiB\"\nconsole = \"pl011\"\n\
             image = {{ kind = \"raw\", file = \"{name}.bin\", load = 0x4008_0000 }}\n{rest}"
        )
    };
    let direct = format!("interrupts = \"direct\"\nsgi = \"filtered\"\n{rest}");
    let text = [HEAD, &partition("first", 0, ""), &partition("drive", 1, &direct), &partition("last", 2, "")].concat();
    let programs = [("first", &polling()), ("drive", drive), ("last", &polling())];
    let mut running = System::from_text_with_programs("input", &text, &programs).start();
    for partition in ["first", "drive", "last"] {
        running.wait_for_state(partition, STATE_RUNNING);
    }
    running
}

fn type_text(running: &mut Running, text: &[u8]) {
    let sent = running.send_serial(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sent, text.len());
}

fn ram_of(running: &Running, partition: &str) -> u64 {
    running.watch().plan().partitions[running.index(partition)].ram[0].physical.0
}

/// Waits until a partition has read as many bytes as are expected, and compares them.
fn assert_read(running: &mut Running, partition: &str, expected: &[u8]) {
    let ram = ram_of(running, partition);
    let place = PhysicalAddress(ram + (COUNT - GUEST_RAM));
    let wanted = expected.len() as u64;
    let waited = running.wait_for("all input", LIMIT, |view| (view.ram.load_u64(place)? >= wanted).then_some(()));
    waited
        .unwrap_or_else(|error| panic!("{partition}: received, read, lost: {:?}: {error}", counts(running, partition)));
    let words = running.copy(PhysicalAddress(ram + (TEXT - GUEST_RAM)), 4 * wanted);
    let read: Vec<u8> = words.chunks_exact(4).map(|word| word[0]).collect();
    assert!(read == expected, "{partition}: {} for {}", read.escape_ascii(), expected.escape_ascii());
}

fn counts(running: &Running, partition: &str) -> [u64; 3] {
    [Counter::ConsoleReceived, Counter::ConsoleRead, Counter::ConsoleLost]
        .map(|counter| running.counter(partition, counter))
}

fn pasted(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|number| (number * 7 + number / 251) as u8).filter(|byte| *byte != NEXT).collect()
}

/// QV-5, CF-2: what is typed comes to the partition in focus, the one with its interrupts among them; the focus goes round, and what is for others costs
/// that one not a single exit.
#[test]
fn a_guest_with_its_interrupts_reads_what_is_typed() {
    let mut running = three(&listening(), "");
    let text = pasted(2_000);
    // Its exits of the start are over when it has written behind its count.
    let ready = PhysicalAddress(ram_of(&running, "drive") + (COUNT + 8 - GUEST_RAM));
    let waited = running.wait_for("a guest that listens", LIMIT, |view| (view.ram.load_u64(ready)? != 0).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    let before = running.counter("drive", Counter::Exits);
    type_text(&mut running, &text);
    assert_read(&mut running, "first", &text);
    assert_eq!(running.counter("drive", Counter::Exits), before, "input of others");
    type_text(&mut running, &[NEXT]);
    type_text(&mut running, &text);
    assert_read(&mut running, "drive", &text);
    let [received, read, lost] = counts(&running, "drive");
    assert_eq!((received, read, lost), (text.len() as u64, received, 0));
    type_text(&mut running, &[NEXT]);
    type_text(&mut running, b"last");
    assert_read(&mut running, "last", b"last");
    let before = running.counter("drive", Counter::Exits);
    type_text(&mut running, &[NEXT]);
    type_text(&mut running, b" and first");
    assert_read(&mut running, "first", &[&text[..], b" and first"].concat());
    assert_eq!(running.counter("drive", Counter::Exits), before, "input of others, once more");
    assert_eq!(running.dropped_input(), 0);
    running.assert_no_crash();
}

/// A guest that is started again finds nothing of what was typed before.
#[test]
fn a_restart_leaves_no_input() {
    let mut running = three(&dying(), "health = { on_fault = \"restart\", max = 2, within = \"60 s\" }\n");
    type_text(&mut running, &[NEXT]);
    type_text(&mut running, b"!23456789.123456789.123456789.12");
    let drive = running.index("drive");
    let waited = running.wait_for("a restart", LIMIT, |view| {
        let observer = view.observer?;
        let (status, lost) = (observer.status(drive), observer.partition_counter(drive, Counter::ConsoleLost));
        (status.restarts == 1 && status.state == STATE_RUNNING && lost != 0).then_some(())
    });
    waited.unwrap_or_else(|error| panic!("{:?}: {error}", counts(&running, "drive")));
    let fresh = b"after the restart: all of it, 32";
    type_text(&mut running, fresh);
    assert_read(&mut running, "drive", fresh);
    assert_eq!(counts(&running, "drive"), [64, 33, 31], "what was not read is lost, and counted");
    running.assert_no_crash();
}

/// A guest that masks everything and reads nothing gets what its FIFO holds, and loses the focus by the next byte on the line: its core is kicked. One that
/// ends the UART's interrupt all the time (A12) changes nothing for the others and delays nothing for good.
#[test]
fn a_hostile_guest_keeps_no_input_from_others() {
    for steals in [false, true] {
        let mut running = three(&stubborn(steals), "");
        let text = pasted(2_000);
        type_text(&mut running, &text);
        assert_read(&mut running, "first", &text);
        type_text(&mut running, &[NEXT]);
        type_text(&mut running, &text);
        let drive = running.index("drive");
        let waited = running.wait_for("a full FIFO", LIMIT, |view| {
            (view.observer?.partition_counter(drive, Counter::ConsoleReceived) == 32).then_some(())
        });
        waited.unwrap_or_else(|error| panic!("{:?}: {error}", counts(&running, "drive")));
        type_text(&mut running, &[NEXT]);
        type_text(&mut running, &text);
        assert_read(&mut running, "last", &text);
        assert_eq!(counts(&running, "drive"), [32, 0, 0], "and no byte more");
        assert_eq!(running.dropped_input(), text.len() as u64 - 32);
        // Each batch is one kick at most: of one byte at least, and the Ctrl-].
        let exits = running.counter("drive", Counter::Exits);
        assert!(exits <= 60, "{exits} exits");
        running.assert_no_crash();
    }
}
