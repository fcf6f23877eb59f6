//! Console input: from the machine's serial line to the partition in focus.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::{LIMIT, Running, System};

fn type_text(running: &mut Running, text: &[u8]) {
    let mut sent = 0;
    while sent < text.len() {
        sent += running.send_serial(&text[sent..]).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A shell of stock Linux reads what is typed and answers: input by the board's UART, output by the virtual one.
#[test]
fn a_shell_answers_what_is_typed() {
    let mut running = System::example("linux", &[("bulkhead.mode=hello", "bulkhead.mode=shell")]).start();
    running.line("linux", "a shell on the console");
    // The prompt is not the end of a line.
    running.prompt("linux", "# ");
    type_text(&mut running, b"echo $((6 * 7)) is the answer\n");
    running.line("linux", "42 is the answer");
    type_text(&mut running, b"exit\n");
    running.line("linux", "linux: end: poweroff");
    running.wait_for_state("linux", STATE_OFF);
    assert_eq!(running.counter("linux", Counter::Fault), 0);
    running.assert_no_crash();
}

const PASTED: usize = 64 * 1024;
const UART: u64 = 0x0900_0000;
const TEXT: u64 = GUEST_RAM + 0x10_0000;
const COUNT: u64 = GUEST_RAM + 0x30_0000;
const NEXT: u8 = 0x1d;

/// Reads its virtual UART, byte after byte, into words of its RAM, and counts them.
fn reading() -> Program {
    let mut program = Program::new();
    program.constant(0, UART).constant(3, TEXT).constant(4, COUNT).constant(5, 0);
    let again = program.here();
    program.load32(1, 0, 0x18).word(0x927c_0022).branch_not_zero(2, again); // AND x2, x1, #16: receive FIFO empty
    program.load32(1, 0, 0).store32(1, 3, 0).add(3, 3, 4).add(5, 5, 1).barrier().store(5, 4, 0).branch(again);
    program
}

/// Two partitions with a virtual UART; the first one has the focus at boot.
fn two(first: &Program, schedule: &str, rest: [&str; 2], second_core: u32) -> Running {
    let head = "version = 1\nname = \"console\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n";
    let partition = |name: &str, core: u32, rest: &str| {
        format!(
            "[[partition]]\nname = \"{name}\"\ncores = [{core}]\nmemory = \"4 MiB\"\nconsole = \"pl011\"\n\
             image = {{ kind = \"raw\", file = \"{name}.bin\", load = 0x4008_0000 }}\n{rest}\n"
        )
    };
    let text =
        format!("{head}{schedule}{}{}", partition("first", 0, rest[0]), partition("reader", second_core, rest[1]));
    System::from_text_with_programs("console", &text, &[("first", first), ("reader", &reading())]).start()
}

/// Waits until a partition has read as many bytes as are expected, and compares them.
fn assert_read(running: &mut Running, partition: &str, expected: &[u8]) {
    let ram = running.watch().plan().partitions[running.index(partition)].ram[0].physical.0;
    let place = PhysicalAddress(ram + (COUNT - GUEST_RAM));
    let wanted = expected.len() as u64;
    let waited = running.wait_for("all input", LIMIT, |view| (view.ram.load_u64(place)? >= wanted).then_some(()));
    let counts = [Counter::ConsoleReceived, Counter::ConsoleRead, Counter::ConsoleLost];
    let counts = counts.map(|counter| running.counter(partition, counter));
    waited.unwrap_or_else(|error| panic!("received, read, lost: {counts:?}: {error}"));
    assert_eq!(counts, [wanted, wanted, 0]);
    let words = running.copy(PhysicalAddress(ram + (TEXT - GUEST_RAM)), 4 * wanted);
    let read: Vec<u8> = words.chunks_exact(4).map(|word| word[0]).collect();
    assert!(read == expected, "the bytes differ");
}

fn pasted() -> Vec<u8> {
    let mut random = 1u32;
    let bytes = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    });
    bytes.filter(|byte| *byte != NEXT).take(PASTED).collect()
}

/// 64 KiB in one piece arrive whole and in order at a guest that reads them.
#[test]
fn what_is_pasted_arrives_whole() {
    let mut running = two(&reading(), "", ["", ""], 1);
    let text = pasted();
    type_text(&mut running, &text);
    assert_read(&mut running, "first", &text);
    assert_eq!(running.dropped_input(), 0);
    running.assert_no_crash();
}

/// The same on a core that is shared with a guest that computes.
#[test]
fn what_is_pasted_arrives_whole_on_a_shared_core() {
    let schedule = "[[schedule]]\ncore = 0\nkind = \"round-robin\"\nquantum = \"1 ms\"\n";
    let mut running = two(&reading(), schedule, ["", ""], 0);
    let text = pasted();
    type_text(&mut running, &text);
    assert_read(&mut running, "first", &text);
    running.assert_no_crash();
}

/// A guest that reads nothing gets what its FIFO holds and not one interrupt more, loses the focus by the next byte on the line,
/// and what waited for it is counted. No time is measured: the line holds nothing in front of the Ctrl-].
#[test]
fn a_guest_that_does_not_read_loses_the_focus() {
    let mut deaf = Program::new();
    deaf.spin();
    let mut running = two(&deaf, "", ["", ""], 1);
    running.wait_for_state("first", STATE_RUNNING);
    type_text(&mut running, &pasted());
    let first = running.index("first");
    let full = |running: &Running| running.counter("first", Counter::ConsoleReceived) == 32;
    let waited = running.wait_for("a full FIFO", LIMIT, |view| {
        (view.observer?.partition_counter(first, Counter::ConsoleReceived) == 32).then_some(())
    });
    waited.unwrap_or_else(|error| panic!("{error}"));
    let before = running.counter("first", Counter::Exits);
    type_text(&mut running, &[NEXT]);
    type_text(&mut running, b"hello, reader");
    assert_read(&mut running, "reader", b"hello, reader");
    assert!(full(&running), "and no byte more");
    assert_eq!(running.dropped_input(), PASTED as u64 - 32);
    // The Ctrl-] is the one interrupt that it has cost meanwhile.
    assert_eq!(running.counter("first", Counter::Exits), before + 1);
    assert_eq!(running.counter("first", Counter::ConsoleLost), 0);
    running.assert_no_crash();
}

/// 64 KiB of lines arrive whole and in order at a program of stock Linux, by Linux's own driver.
#[test]
fn what_is_pasted_arrives_whole_at_linux() {
    let mut running = System::example("linux", &[("bulkhead.mode=hello", "bulkhead.mode=shell")]).start();
    running.line("linux", "a shell on the console");
    running.prompt("linux", "# ");
    type_text(&mut running, b"stty -echo; seq 10000 20922 >/tmp/sent; echo go''on; head -c 65538 >/tmp/read\n");
    running.line("linux", "goon");
    let lines: String = (10_000..=20_922).map(|number| format!("{number}\n")).collect();
    type_text(&mut running, lines.as_bytes());
    type_text(&mut running, b"cmp /tmp/sent /tmp/read && echo sa''me\n");
    running.line("linux", "same");
    assert_eq!((running.dropped_input(), running.counter("linux", Counter::ConsoleLost)), (0, 0));
    running.assert_no_crash();
}
