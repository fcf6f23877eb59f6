//! A device that was passed through: the PL031 clock with its interrupt.

use bulkhead_abi::observe::{COUNTER_NAMES, Counter};
use bulkhead_abi::status::{REASON_DATA_ABORT, STATE_STOPPED};
use bulkhead_run::End;
use bulkhead_system_tests::System;

/// QV-12, QV-13, MZ-3: the owner uses the registers without an exit and gets the interrupt; each alarm costs the one exit.
#[test]
fn its_owner_gets_registers_and_interrupt() {
    let run = |alarms: u32| {
        let system = System::changed("rtc", &[("alarms=3", &format!("alarms={alarms}"))]);
        let mut running = system.start_exact(0);
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        let mut expected = vec!["rtc start"];
        expected.extend((0..alarms).map(|_| "rtc alarm"));
        expected.push("rtc done");
        let texts = running.texts("clock");
        let said: Vec<_> = texts.into_iter().filter(|text| !text.starts_with("bench ")).collect();
        assert_eq!(said, expected);
        COUNTER_NAMES.iter().map(|(counter, _)| running.counter("clock", *counter)).collect::<Vec<_>>()
    };
    let (short, long) = (run(1), run(11));
    for ((counter, name), (short, long)) in COUNTER_NAMES.iter().zip(short.iter().zip(&long)) {
        let more = if matches!(counter, Counter::Exits | Counter::Interrupt) { 10 } else { 0 };
        assert_eq!(long - short, more, "{name} of ten more alarms");
    }
}

/// QV-9, QV-12, MZ-3: the same guest without the device faults at its first access to it.
#[test]
fn nobody_else_reaches_it() {
    let mut running = System::changed("rtc", &[("devices = [\"rtc\"]", "devices = []")]).start();
    let status = running.wait_for_state("clock", STATE_STOPPED);
    assert_eq!((status.fault.reason, status.fault.guest_address & !0xfff), (REASON_DATA_ABORT, 0x0901_0000));
    assert_eq!(running.texts("clock"), ["rtc start"]);
    running.assert_no_crash();
}
