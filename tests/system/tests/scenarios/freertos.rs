//! Stock FreeRTOS: the same file in a partition and on the bare board, with its tick undisturbed.

use crate::support::lines;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_OFF;
use bulkhead_plan::AreaKind;
use bulkhead_plan::model::GuestImage;
use bulkhead_run::{End, MachineOptions};
use bulkhead_system_tests::system::guest;
use bulkhead_system_tests::{LIMIT, Running, System};

/// `-icount shift=4`: an instruction takes 16 ns, one tick of the counter.
const SHIFT: u8 = 4;
/// Counter ticks of one tick of FreeRTOS, 1 ms.
const TICK: u64 = 62_500;
/// Ticks of FreeRTOS between two lines.
const TICKS_PER_LINE: u64 = 100;
const LINES: u64 = 10;

/// Checks what it prints, whatever runs below it: all but the version is known.
fn assert_output(printed: &[String]) {
    let (version, rest) = printed.split_first().expect("it prints something");
    assert!(version.starts_with("rtos: FreeRTOS V11."), "{version}");
    let line = |round: u64| format!("rtos: tick {} message {}", round * TICKS_PER_LINE, round * 10);
    let mut expected: Vec<String> = (1..=LINES).map(line).collect();
    expected.push("rtos: end".to_owned());
    assert_eq!(rest, expected);
}

/// MZ-2, QV-5: one exit per interrupt and none at its end; QV-53: no byte of the console is lost.
#[test]
fn its_ticks_come_at_exactly_one_kilohertz() {
    let mut running = System::example("freertos", &[]).start_exact(SHIFT);
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    assert_output(&running.texts("rtos"));
    let status = running.status("rtos");
    assert_eq!((status.state, status.generation, status.faults), (STATE_OFF, 1, 0));
    let times: Vec<u64> = running.lines("rtos").map(|line| line.time_ticks).collect();
    for pair in times[1..=LINES as usize].windows(2) {
        let late = (pair[1] - pair[0]).abs_diff(TICKS_PER_LINE * TICK);
        assert!(late <= 1000, "two lines are {} ticks apart instead of {}", pair[1] - pair[0], TICKS_PER_LINE * TICK);
    }
    // As many interrupts as ticks of FreeRTOS: none was lost, doubled or made up.
    assert_eq!(running.counter("rtos", Counter::Interrupt), LINES * TICKS_PER_LINE);
    assert_eq!(running.counter("rtos", Counter::MonitorInterrupt), 0);
    assert_eq!(running.counter("rtos", Counter::ListRegisterFull), 0);
}

/// MZ-1: a guest needs no change to run under Bulkhead. The image holds every byte of the file that the board runs.
#[test]
fn the_same_file_runs_on_the_bare_board() {
    let file = guest("freertos.elf");
    let system = System::example("freertos", &[]);
    let GuestImage::Elf { segments, .. } = &system.model.partitions[0].image else { panic!("it is an ELF file") };
    for segment in segments.iter().filter(|segment| !segment.bytes.is_empty()) {
        let holds = |bytes: &[u8]| bytes.windows(segment.bytes.len()).any(|window| window == segment.bytes);
        assert!(holds(&file) && holds(&system.image), "the segment at {} is the file's, unchanged", segment.address);
    }
    let mut options = MachineOptions::bare(file);
    options.icount_shift = Some(SHIFT);
    options.extra = vec!["-append".to_owned(), format!("rounds={LINES}")];
    let mut board = Running::start(options);
    assert_eq!(board.wait_for_end(LIMIT).expect("the guest powers the board off"), End::PoweredOff);
    assert_output(&lines(board.serial_text()));
}

/// The tree is at the guest address that the description names: in RAM, and in `x0`, from where the guest knows when to end.
#[test]
fn a_device_tree_lies_where_the_description_puts_it() {
    let image = r#"file = "guest:freertos.elf""#;
    let placed = format!("{image}, device_tree_address = 0x4000_0008");
    let system = System::example("freertos", &[(image, &placed)]);
    let mut running = system.start_exact(SHIFT);
    assert_eq!(running.end(), End::AllEnded);
    assert_output(&running.texts("rtos"));
    let ram = system.area(AreaKind::Ram(0)).address;
    assert_eq!(running.copy(PhysicalAddress(ram.0 + 8), 4), [0xd0, 0x0d, 0xfe, 0xed]);
}

/// The guest does not notice other cores: three of them at once, on one clock, print the same.
#[test]
fn three_of_them_on_three_cores_print_the_same() {
    let mut running = System::named("freertos-3").start();
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    for name in ["first", "second", "third"] {
        assert_output(&running.texts(name));
    }
}
