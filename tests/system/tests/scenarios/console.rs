//! Console input: from the machine's serial line to the partition in focus.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_OFF;
use bulkhead_system_tests::{Running, System};

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
