//! Processes that fork as often as they can, and their forks, beside a control loop: they have what their quota has, and the loop loses nothing (QV-E6, QV-21, CH-60).

use crate::described::Described;
use crate::places::{Place, run};

/// The longest passage of the kernel without a look for interrupts (row 13), in ticks of the counter, which are instructions on this clock.
const LONGEST_PASSAGE: u64 = 2_500;

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
threads = [{{ name = "main", server = "control", argument = 50 }}]

[[component]]
name = "spawner"
program = "component:spawner.elf"
threads = [{{ name = "main", server = "maker", argument = {children} }}]
end_points = [{{ thread = "main", signals = ["told"] }}]
quota = "1600 KiB"
processes = 14
bind = {{ told = "receive:main", quota = "quota", jobs = "server:jobs", worker = "program:worker", room = "empty:2" }}
"#
    );
    let image = Described::new(&format!("bombs-{children}"), &text).laid().bytes;
    [Place::Board, Place::Direct].map(|place| run(&image, place))
}

fn worst(lines: &[String]) -> u64 {
    let line = lines.iter().find_map(|line| line.strip_prefix("loop: 50 periods, 0 lost, worst response "));
    let line = line.unwrap_or_else(|| panic!("a period was lost: {lines:?}"));
    line.trim_end_matches(" ticks").parse().expect("a number")
}

/// Three trees of forks, one after the other: each has its quota and no more, and all of it comes back. The kernel's slices are interrupted by the loop's periods.
#[test]
fn a_fork_bomb_has_its_quota_and_a_control_loop_loses_no_period() {
    // 0xff ends the list of children, and another one says that it is all of it.
    let [quiet, busy] = [lines(0xffff), lines(0xff_ff06_0606)];
    for (quiet, busy) in quiet.iter().zip(&busy) {
        let of = |start: &str| busy.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(
            (of("spawner: 6 is taken apart Ok(())"), of("spawner: over"), of("kernel: ")),
            (3, 1, 0),
            "{busy:?}"
        );
        assert!(of("bomb: ") >= 3, "{busy:?}");
        let (quiet, busy) = (worst(quiet), worst(busy));
        println!("worst response {quiet} alone, {busy} beside three trees of forks");
        assert!(busy < quiet + 2 * LONGEST_PASSAGE, "{quiet} alone, {busy} beside three trees of forks");
    }
}
