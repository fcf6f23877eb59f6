//! Drivers of real devices: what is described, on the board and in a partition.

use crate::described::Described;
use crate::places::{Place, run};
use bulkhead_run::End;
use bulkhead_system_tests::system::guest;
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
