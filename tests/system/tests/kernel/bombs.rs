//! Components and processes that make processes as often as they can, and what they make does, beside a control loop: they have what their quota has, and the loop loses nothing (QV-E6, QV-21, CH-60).

use crate::described::Described;
use crate::places::{Place, run};
use bulkhead_hostile_kernel::attacks;

/// The longest passage of the kernel without a look for interrupts (row 13), in ticks of the counter, which are instructions on this clock.
const LONGEST_PASSAGE: u64 = 2_500;

/// Periods of the loop, of 10 ms each.
const PERIODS: u64 = 150;

/// A loop, and a spawner whose children's threads have a server of their own.
fn lines(children: u64) -> [Vec<String>; 2] {
    let text = format!(
        r#"version = 1
pool = "2 MiB"
server = [
    {{ name = "control", budget = "2 ms", period = "10 ms", on_empty = "stop" }},
    {{ name = "maker", budget = "5 ms", period = "20 ms", on_empty = "stop" }},
    {{ name = "jobs", budget = "10 ms", period = "40 ms", on_empty = "stop" }},
]
program = [{{ name = "worker", file = "component:worker.elf", stack = "16 KiB", slots = ["payer"] }}]

[[component]]
name = "loop"
program = "component:cycle.elf"
threads = [{{ name = "main", server = "control", argument = {PERIODS} }}]

[[component]]
name = "spawner"
program = "component:spawner.elf"
threads = [{{ name = "main", server = "maker", argument = {children} }}]
end_points = [{{ thread = "main", signals = ["told"] }}]
quota = "1600 KiB"
processes = 14
bind = {{ told = "receive:main", quota = "quota", jobs = "server:jobs", worker = "program:worker", room = "empty:16" }}
"#
    );
    let image = Described::new(&format!("bombs-{children}"), &text).laid().bytes;
    [Place::Board, Place::Direct].map(|place| run(&image, place))
}

fn worst(lines: &[String]) -> u64 {
    let line =
        lines.iter().find_map(|line| line.strip_prefix(&format!("loop: {PERIODS} periods, 0 lost, worst response ")));
    let line = line.unwrap_or_else(|| panic!("a period was lost: {lines:?}"));
    line.trim_end_matches(" ticks").parse().expect("a number")
}

/// Attacks by number, and what the spawner's children do; 11 is that it spawns by itself.
const BOMBS: [(u64, u64); 3] = [(370, 11), (371, 10), (372, 6)];

/// Ten bombs of each kind, one after the other: each has its quota and no more, and all of it comes back. The kernel's slices are interrupted by the loop's periods.
#[test]
fn a_bomb_of_processes_has_its_quota_and_a_control_loop_loses_no_period() {
    // 0xff ends the list of children, and the byte behind it says how often it is made: 0xff is once.
    let quiet = lines(0xffff);
    let mut late = Vec::new();
    for (number, role) in BOMBS {
        let busy = lines(2 << 48 | 0xff << 40 | (role * 0x1_0101_0101));
        let attack = attacks().find(|attack| attack.number == number).expect("it is in the table");
        for (quiet, busy) in quiet.iter().zip(&busy) {
            let of = |start: &str| busy.iter().filter(|line| line.starts_with(start)).count();
            let apart = of(&format!("spawner: {role} is taken apart Ok(())"));
            assert_eq!((of("spawner: over"), of("kernel: ")), (1, 0), "{busy:?}");
            assert!(of("bomb: ") >= 10, "{busy:?}");
            let (quiet, worst) = (worst(quiet), worst(busy));
            assert_eq!(attack.says, [format!("taken apart {apart}"), "lost 0".to_owned()], "{number}: {busy:?}");
            println!("worst response {quiet} alone, {worst} beside attack {number}");
            if worst >= quiet + 2 * LONGEST_PASSAGE {
                late.push((number, worst));
            }
        }
    }
    assert!(late.is_empty(), "{late:?}, {quiet:?}");
}
