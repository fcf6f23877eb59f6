//! Processes in C that compute with floating point: what their quota and their server let them have, beside a control loop (`components/in-c/floating-point/bounded.c`; QV-21, QV-E6, CH-8).

use crate::described::Described;
use crate::places::{Place, run};
use crate::servers::{MILLISECOND, numbers};
use bulkhead_description::kernel::{EXCHANGE, PASSAGE};

/// What the processes may use in each period: more important than the loop, so nothing but this bounds them.
const BUDGET: u64 = MILLISECOND;
const PERIOD: u64 = 5 * MILLISECOND;
/// What the maker may use, more important than both; and what the loop takes alone.
const MAKER: u64 = 4 * MILLISECOND / 10;
const LOOP: u64 = 25_000;
/// How long they are let, and how many terms one of them sums: more than in one budget.
const LET_MS: u64 = 100;
const TERMS: u64 = 50_000;
const EXITED: u64 = 8;
const FULL: u64 = 14;

/// A maker, its processes' server and a loop, in the order of importance.
fn lines(milliseconds: u64) -> [Vec<String>; 2] {
    let argument = milliseconds << 8 | TERMS << 16;
    let text = format!(
        r#"version = 1
pool = "1 MiB"
server = [
  {{ name = "maker", budget = "400 us", period = "4 ms" }},
  {{ name = "jobs", budget = "1 ms", period = "5 ms", on_empty = "stop" }},
  {{ name = "control", budget = "2 ms", period = "10 ms", on_empty = "stop" }},
]
program = [{{ name = "bounded", file = "component:bounded.elf", slots = ["told", "quota", "jobs", "program", "room"], floating_point = true }}]

[[component]]
name = "loop"
program = "component:cycle.elf"
threads = [{{ name = "main", server = "control", argument = 10 }}]

[[component]]
name = "maker"
program = "component:bounded.elf"
threads = [{{ name = "main", server = "maker", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["ends"] }}]
quota = "512 KiB"
processes = 2
floating_point = true
bind = {{ told = "receive:main", quota = "quota", jobs = "server:jobs", program = "program:bounded", room = "empty:4" }}
"#
    );
    let image = Described::new("bounded", &text).laid().bytes;
    [Place::Board, Place::Direct].map(|place| {
        let lines = run(&image, place);
        println!("{place:?}: {lines:#?}");
        lines
    })
}

/// What one of them sums, as the host computes it.
fn sum() -> f64 {
    (1..=TERMS).fold(0.0, |all, number| all + 1.0 / (number as f64 * number as f64))
}

/// Two processes that always have something to compute use what their server has and no more, though it is the more important one; the sum is the host's, bit for bit; memory ends where the share
/// ends; a loop behind them loses no period; and when they are gone there is as much as before.
#[test]
fn processes_in_c_that_compute_have_what_their_quota_and_their_server_have() {
    for lines in lines(LET_MS) {
        assert_eq!(numbers(&lines, "budget and period: "), [BUDGET, PERIOD]);
        let [used, passed] = numbers(&lines, "used, and passed: ")[..] else { panic!("{lines:?}") };
        let periods = passed / PERIOD;
        assert!(passed >= LET_MS * MILLISECOND, "{lines:?}");
        // A budget in each period that began, and what the kernel is late with at its end is paid back.
        let most = (periods + 1) * BUDGET + PASSAGE;
        assert!(used <= most && used >= (periods - 1) * BUDGET, "{used} of {most} in {periods} periods");
        assert_eq!(numbers(&lines, "ends, and faults of the one that spins: "), [1, 0]);
        assert_eq!(numbers(&lines, "exited, bits: "), [EXITED, sum().to_bits()]);
        let shares: Vec<Vec<u64>> = lines
            .iter()
            .filter(|line| line.starts_with("asked for "))
            .map(|line| numbers(std::slice::from_ref(line), "asked for more pages, code and pages: "))
            .collect();
        let [first, second] = &shares[..] else { panic!("{lines:?}") };
        assert!(first[0] == FULL && (24..40).contains(&first[1]) && first == second, "{shares:?}");
        assert_eq!(numbers(&lines, "again, and end: "), [0, 0]);
        let [periods, lost, worst] = numbers(&lines, "loop: ")[..] else { panic!("{lines:?}") };
        assert_eq!((periods, lost), (10, 0));
        // In front of it, until it has done its work, are one budget of theirs and the maker's.
        assert!(worst <= LOOP + BUDGET + MAKER + 3 * (PASSAGE + EXCHANGE), "{worst}");
    }
}
