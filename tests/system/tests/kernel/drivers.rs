//! Drivers of real devices: what is described, on the board and in a partition.

use crate::described::Described;
use crate::places::{Place, run};
use bulkhead_abi::observe::Counter;
use bulkhead_run::{End, MachineOptions};
use bulkhead_system_tests::kernel::plain;
use bulkhead_system_tests::system::guest;
use bulkhead_system_tests::{LIMIT, Running, System};
use bulkhead_verify::instance::{kernel, verify_instance};

/// A client of a clock, and the clock, for three alarms.
const ALARMS: &str = r#"version = 1
server = [{ name = "main" }]

[[component]]
name = "alarms"
program = "component:alarms.elf"
threads = [{ name = "main", server = "main", argument = 3 }]
end_points = [{ thread = "main", signals = ["rings"] }]
bind = { set_alarm = "rtc.set_alarm", rings = "receive:main" }

[[component]]
name = "rtc"
program = "component:rtc.elf"
threads = [{ name = "main", server = "main", argument = 3 }]
end_points = [{ thread = "main", signals = ["alarm"] }]
devices = ["rtc"]
interrupts = [{ name = "rtc", signal = "alarm" }]
callers = { stacks = 1, bytes = "4 KiB" }
bind = { clock = "device:rtc", alarm = "receive:main", line = "interrupt:rtc", answer = "send:alarms.rings" }
"#;

/// QV-35, CH-10, CH-64: each request rings once, is answered by one signal, and nothing comes afterwards; what the driver refuses changes nothing. The
/// clock is the board's, which a partition has for itself.
#[test]
fn an_alarm_rings_once_per_request_everywhere() {
    let described = Described::new("alarms", ALARMS);
    let laid = described.laid();
    let expected = kernel(&guest("kernel/kernel.elf")).expect("a kernel");
    assert_eq!(verify_instance(&laid.bytes, Some(&expected)).findings, []);
    let rings = |number: u64| format!("alarm {number}: Ok(Ok), again Ok(Busy), bits 0x1, 1 time(s)");
    let expected = [
        "no time: Ok(BadArgument), too much: Ok(BadArgument)".to_owned(),
        rings(1),
        rings(2),
        "rtc: 3 alarms, 0 spurious, 0 repaired".to_owned(),
        rings(3),
        "late: Err(TimedOut)".to_owned(),
    ];
    assert_eq!(run(&laid.bytes, Place::Board), expected);
    for mode in ["direct", "mapped"] {
        let system = described.system(&format!("trust = \"trusted\"\ninterrupts = \"{mode}\"\ndevices = [\"rtc\"]"));
        let mut running = system.start_exact(4);
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        assert_eq!(running.texts("kernel"), expected, "{mode}");
    }
}

/// Beats of 3 ms, 100 of them, of which the tenth is held for two periods and a half; a thread beside them that never stops.
const BEATS: &str = r#"version = 1
server = [{ name = "driver", budget = "1 ms", period = "3 ms" }, { name = "rest" }]

[[component]]
name = "beats"
program = "component:beats.elf"
threads = [{ name = "main", server = "driver", argument = ARGUMENT }]
end_points = [{ thread = "main", signals = ["beat"] }]
interrupts = [{ name = "periodic", signal = "beat", period = "3 ms" }]
bind = { rings = "receive:main", line = "interrupt:periodic" }

[[component]]
name = "hog"
program = "component:probe.elf"
threads = [{ name = "main", server = "rest", argument = 111 }]
"#;

/// QV-35, CH-64: the kernel's second timer rings on an absolute grid. What is late makes no later date, and dates that passed while a beat was held are
/// one: in all places the last beat comes as many whole periods after the first as the description says.
#[test]
fn beats_stay_on_their_grid_everywhere() {
    const PERIOD_TICKS: u64 = 187_500;
    let held_ticks = PERIOD_TICKS * 5 / 2;
    let text = BEATS.replace("ARGUMENT", &(100 | held_ticks << 32).to_string());
    let described = Described::new("beats", &text);
    let image = described.laid().bytes;
    let expected = kernel(&guest("kernel/kernel.elf")).expect("a kernel");
    assert_eq!(verify_instance(&image, Some(&expected)).findings, []);
    for place in [Place::Board, Place::Direct, Place::Mapped] {
        let lines = run(&image, place);
        let line = lines.iter().find(|line| line.starts_with("beats: ")).unwrap_or_else(|| panic!("{lines:?}"));
        let numbers: Vec<u64> =
            line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        let [beats, signals, ticks, shortest, longest] = numbers[..] else { panic!("{line}") };
        println!("{place:?}: {line}");
        // The two dates that pass while the tenth beat is held are one, which comes when it is done; the next one is on the grid again.
        let off = |ticks: u64, periods: u64| ticks.abs_diff(periods * PERIOD_TICKS);
        assert_eq!((beats, signals), (100, 100), "{place:?}: {line}");
        assert!(off(ticks, 100) < 3000 && off(shortest + longest, 3) < 3000, "{place:?}: {line}");
        assert!((held_ticks..held_ticks + 20_000).contains(&longest), "{place:?}: {line}");
    }
}

/// The UART of the board, its driver and its client.
const TERMINAL: &str = r#"version = 1
server = [{ name = "driver", budget = "1 ms", period = "10 ms" }, { name = "rest" }]

[[component]]
name = "uart"
program = "component:uart.elf"
threads = [{ name = "main", server = "driver", argument = 6 }]
end_points = [{ thread = "main", signals = ["device", "line"] }]
devices = ["UART"]
interrupts = [{ name = "UART", signal = "device" }]
callers = { stacks = 1, bytes = "4 KiB" }
bind = { uart = "device:UART", events = "receive:main", line = "interrupt:UART", wake = "send:uart.line", input = "send:terminal.input" }

[[component]]
name = "terminal"
program = "component:terminal.elf"
threads = [{ name = "main", server = "rest", argument = 2 }]
end_points = [{ thread = "main", signals = ["input"] }]
bind = { write = "uart.write", typed = "uart.typed", input = "receive:main" }
"#;

const HELLO: &str = "terminal: a line that is longer than a FIFO is";
const TYPED: [&str; 2] = ["short", "a line with as many bytes as are in its FIFO"];

/// What the driver says at its end: 6 lines, and at least an interrupt for each piece that was typed, and for each line that was longer than the FIFO.
fn assert_told(line: &str) {
    let numbers: Vec<u64> =
        line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [lines, interrupts, lost] = numbers[..] else { panic!("{line}") };
    println!("{line}");
    assert!(lines == 6 && interrupts >= 6 && lost == 0, "{line}");
}

/// QV-35, CH-8, CH-64: a component drives the UART of the bare board: lines of another one that are longer than its FIFO go out whole and in their order, and what is
/// typed comes in, all by its interrupt. The kernel prints to the same UART.
#[test]
fn a_terminal_on_the_uart_of_the_board() {
    let described = Described::new("terminal", &TERMINAL.replace("UART", "uart"));
    let laid = described.laid();
    assert!(laid.warnings.to_text(false).contains("BH1267"), "{}", laid.warnings.to_text(false));
    let expected = kernel(&guest("kernel/kernel.elf")).expect("a kernel");
    assert_eq!(verify_instance(&laid.bytes, Some(&expected)).findings, []);
    let mut options = MachineOptions::bare(laid.bytes);
    options.icount_shift = Some(4);
    let mut machine = Running::start(options);
    let has = |count: usize, text: &str, serial: &[u8]| String::from_utf8_lossy(serial).matches(text).count() >= count;
    let wait = |machine: &mut Running, count: usize, text: &str| {
        let found = machine.wait_for(text, LIMIT, |view| has(count, text, view.serial).then_some(()));
        found.unwrap_or_else(|error| panic!("{error}"));
    };
    wait(&mut machine, 4, HELLO);
    for text in TYPED {
        let sent = machine.send_serial(format!("{text}\n").as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(sent, text.len() + 1);
        wait(&mut machine, 1, &format!("> {text}"));
    }
    machine.end();
    let lines = plain(machine.serial_text());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let typed = TYPED.map(|text| format!("> {text}"));
    let told = lines.iter().find(|line| line.starts_with("uart: ")).unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(lines[0], "empty: Ok(BadArgument), too long: Ok(BadArgument)");
    let ours: Vec<&&str> =
        lines.iter().filter(|line| line.starts_with("terminal: ") || line.starts_with('>')).collect();
    assert_eq!(ours, [HELLO, HELLO, HELLO, HELLO, &typed[0], &typed[1]].iter().collect::<Vec<_>>());
    assert_told(told);
}

/// QV-12, QV-35: the same program drives the second UART of the second board, which a partition has for itself.
#[test]
fn a_terminal_on_the_second_uart_of_the_second_board() {
    let described = Described::new("terminal-versal", &TERMINAL.replace("UART", "uart1"));
    let text = described.system_text("xlnx-versal-virt", "devices = [\"uart1\"]");
    let mut running = System::on_board("xlnx-versal-virt", "kernel", &text, &[]).start();
    for _ in 0..4 {
        running.line("uart1", HELLO);
    }
    for text in TYPED {
        let sent = running.send_uart("uart1", format!("{text}\n").as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(sent, text.len() + 1);
        running.line("uart1", &format!("> {text}"));
    }
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    let typed = TYPED.map(|text| format!("> {text}"));
    assert_eq!(running.texts("uart1"), [HELLO, HELLO, HELLO, HELLO, &typed[0], &typed[1]]);
    let told = running.texts("kernel");
    assert_eq!(told.len(), 2, "{told:?}");
    assert_told(&told[1]);
    assert_eq!(running.counter("kernel", Counter::Fault), 0);
}
