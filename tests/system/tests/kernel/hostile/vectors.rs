//! Attacks with floating-point registers by number (`components/vectors`): across calls, `switch`, processes and their ends, beside a loop that is cut off all the time and must compute
//! what the host computes.

use crate::places::{Place, run};
use bulkhead_hostile_kernel::attacks;
use bulkhead_pid::{smoothed, trajectory};
use bulkhead_system_tests::kernel::described;

const NUMBERS: std::ops::RangeInclusive<u64> = 340..=354;
/// Steps of the victim's loop, and where it is to get.
const STEPS: u64 = 1_500;
const TARGET: u32 = 25;

fn image() -> Vec<u8> {
    let victim = STEPS << 16 | u64::from(TARGET) << 8 | 1;
    let calls = "plant_all = \"filter.plant_all\", plant_and_fault = \"filter.plant_and_fault\", quotient = \"filter.quotient\"";
    let text = format!(
        r#"version = 1
pool = "1 MiB"
server = [
  {{ name = "victim", budget = "100 us", period = "1300 us" }},
  {{ name = "attacker" }},
  {{ name = "jobs" }},
  {{ name = "vm", holder = "rt" }},
]
scheduler = [{{ name = "rt", component = "rt" }}]

[[program]]
name = "vectors"
file = "component:vectors.elf"
stack = "16 KiB"
slots = ["jobs", "told", "quota", "program", "room", "plant_all", "plant_and_fault", "quotient", "give_way", "end"]
floating_point = true

[[component]]
name = "victim"
program = "component:pid.elf"
threads = [{{ name = "main", server = "victim", argument = {victim} }}]
bind = {{ smooth = "filter.smooth", plant_all = "filter.plant_all" }}
floating_point = true

[[component]]
name = "attacker"
program = "component:vectors.elf"
threads = [{{ name = "main", server = "attacker", argument = 0 }}]
end_points = [{{ thread = "main", signals = ["ends"] }}]
quota = "1 MiB"
processes = 4
bind = {{ told = "receive:main", quota = "quota", jobs = "server:jobs", program = "program:vectors", room = "empty:2", give_way = "empty:1", end = "empty:1", {calls} }}
floating_point = true

[[component]]
name = "filter"
program = "component:filter.elf"
callers = {{ stacks = 4, bytes = "8 KiB" }}
floating_point = true

[[component]]
name = "rt"
program = "component:chaosrt.elf"
threads = [{{ name = "main", server = "vm", argument = 0x404 }}]
callers = {{ stacks = 4, bytes = "4 KiB" }}
bind = {{ scheduler = "scheduler:rt", threads = "threads:rt", ways = "send:tasks.news" }}

[[component]]
name = "tasks"
program = "component:vectors.elf"
threads = [
  {{ name = "task-0", server = "vm", argument = 0x001, priority = 10, stack = "8 KiB" }},
  {{ name = "task-1", server = "vm", argument = 0x101, priority = 10, stack = "8 KiB" }},
]
end_points = [{{ thread = "task-1", signals = ["news"] }}]
bind = {{ told = "receive:task-1", quota = "empty:1", jobs = "empty:1", program = "empty:1", room = "empty:2", give_way = "rt.give_way", end = "rt.end", {calls} }}
floating_point = true
"#
    );
    described(&text).bytes
}

/// CH-61: nobody finds what another one left in registers, or computes by its rounding mode; a process begins with zeros, however it is made.
#[test]
fn what_is_left_in_floating_point_registers_is_nobodys() {
    let image = image();
    for place in [Place::Board, Place::Direct] {
        let lines = run(&image, place);
        let victim = trajectory(f64::from(TARGET), STEPS, smoothed);
        assert!(lines.contains(&format!("alone to {TARGET}: {victim:016x}")), "{place:?}: {lines:#?}");
        for number in NUMBERS {
            let attack = attacks().find(|attack| attack.number == number);
            let expected = attack.unwrap_or_else(|| panic!("attack {number} is in the table")).says;
            let begins = format!("{number}: ");
            let said: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(&begins)).collect();
            assert_eq!(said, expected, "{place:?}, attack {number}: {lines:#?}");
        }
    }
}
