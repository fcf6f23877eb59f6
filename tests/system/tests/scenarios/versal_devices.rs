//! Devices of the second board, passed through: a UART with its interrupt, and a clock whose model raises none.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_DATA_ABORT, STATE_OFF, STATE_STOPPED};
use bulkhead_system_tests::sharing::field;
use bulkhead_system_tests::{Remote, Running, System, remote};

/// Sends all bytes to the second UART.
fn type_text(running: &mut Running, text: &[u8]) {
    let mut sent = 0;
    while sent < text.len() {
        sent += running.send_uart("uart1", &text[sent..]).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// QV-1, QV-12, QV-13, MZ-3: stock Linux drives the board's second PL011, at another guest address than the board's, with its own
/// driver: lines longer than a FIFO go out whole and in order, and every byte that comes in does so by the UART's interrupt.
#[test]
fn linux_drives_the_second_uart() {
    let mut running = System::named("versal-uart").start();
    let long = "a line that is much longer than the thirty-two bytes of the FIFO of a PL011";
    for answer in ["short", long] {
        running.line("uart1", "a line, please");
        type_text(&mut running, format!("{answer}\n").as_bytes());
        running.line("linux", &format!("linux: uart: read: {answer}"));
    }
    let told = running.line("linux", "linux: uart: written=3 read=2 interrupts=");
    running.wait_for_state("linux", STATE_OFF);
    let out = |number| format!("linux: line {number} of 3 over ttyAMA1, which is longer than what its FIFO holds");
    let ask = || "linux: a line, please".to_owned();
    assert_eq!(running.texts("uart1"), [out(1), out(2), out(3), ask(), ask()]);
    println!("{told}");
    // The second answer was sent when the first had been read: each found an empty FIFO, and Linux has no other way to learn of it.
    assert!(field(&told, "interrupts") >= 2, "{told}");
    assert_eq!((running.counter("linux", Counter::Fault), running.serial_text()), (0, b"".as_slice()));
    running.assert_no_crash();
}

/// The UART that the monitor keeps is nobody's, and one that the board does not have is refused by name.
#[test]
fn bytes_for_a_uart_that_is_no_device_are_refused() {
    let program = remote::program();
    let mut running = System::with_programs("versal-devices", &[], &[("remote", &program)]).start();
    for name in ["uart0", "uart2", "owner"] {
        let error = running.send_uart(name, b"x").expect_err(name).to_string();
        assert!(error.contains(&format!("no UART `{name}`")), "{error}");
    }
}

/// The clock of the board, in guest addresses: the first device that is not at the board's address.
const CLOCK: u64 = 0x0c00_0000;
const CURRENT_TIME: u64 = CLOCK + 0x10;
const ALARM: u64 = CLOCK + 0x18;
const INTERRUPT_STATUS: u64 = CLOCK + 0x20;
const INTERRUPT_MASK: u64 = CLOCK + 0x24;
const INTERRUPT_ENABLE: u64 = CLOCK + 0x28;
/// GICD_ISPENDR5 in guest addresses: INTIDs 160 to 191, with the alarm (174) and the second (175).
const PENDING: u64 = 0x0800_0214;
const BOTH: u64 = 3 << 14;

/// QV-9, QV-12, MZ-3: the owner of the clock reads and sets its registers without an exit; the other partition faults at its place in the
/// guest and at its place on the board. QEMU's model keeps the alarm and never rings (`boards/xlnx-versal-virt.toml`): when this turns
/// red, a newer QEMU does, and `its_owner_gets_registers_and_interrupt` can have a twin here.
#[test]
fn the_clock_is_its_owners_alone_and_never_rings() {
    let program = remote::program();
    let system = System::with_programs("versal-devices", &[], &[("remote", &program)]);
    let mut running = system.start();
    let mut owner = Remote::new(&mut running, "owner");
    assert!(owner.answers(&mut running));
    let exits = running.counter("owner", Counter::Exits);
    assert_eq!(owner.load(&mut running, INTERRUPT_MASK), 3, "both are masked at reset");
    owner.store(&mut running, INTERRUPT_ENABLE, 3);
    assert_eq!(owner.load(&mut running, INTERRUPT_MASK), 0);
    let start = owner.load(&mut running, CURRENT_TIME);
    owner.store(&mut running, ALARM, start + 1);
    // Seconds pass on the machine's clock, however long this host takes for them.
    while owner.load(&mut running, CURRENT_TIME) < start + 3 {}
    assert_eq!(owner.load(&mut running, ALARM), start + 1);
    assert_eq!(owner.load(&mut running, INTERRUPT_STATUS), 0, "no alarm and no second");
    assert_eq!(running.counter("owner", Counter::Exits), exits, "registers of its own cost no exit");
    assert_eq!(owner.load(&mut running, PENDING) & BOTH, 0);
    running.assert_no_crash();
    drop(running);

    for address in [CURRENT_TIME, 0xf12a_0010] {
        let mut running = system.start();
        let mut other = Remote::new(&mut running, "other");
        assert!(other.answers(&mut running));
        other.load_and_fault(&running, address);
        let status = running.wait_for_state("other", STATE_STOPPED);
        assert_eq!((status.fault.reason, status.fault.guest_address), (REASON_DATA_ABORT, address));
        let mut owner = Remote::new(&mut running, "owner");
        assert!(owner.answers(&mut running));
        running.assert_no_crash();
    }
}
