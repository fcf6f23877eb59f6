//! A callee that does not come back: its caller is told when the time that it set itself is over, and ends the call, if the callee may be aborted.

use crate::described::Described;
use crate::places::{Place, run};

/// The supervisor of the callee, which gives up at once.
const KEEPER: &str = r#"supervisor = "keeper.fault"

[[component]]
name = "keeper"
program = "component:keeper.elf"
threads = [{ name = "main", server = "keeper", argument = 20 }]
end_points = [{ thread = "main", signals = ["fault"] }]
bind = { told = "receive:main", child = "component:slow" }
"#;

/// A caller with its watcher, and a callee; `rest` is about that one.
fn image(name: &str, rest: &str) -> Vec<u8> {
    let text = format!(
        r#"version = 1
server = [
    {{ name = "watch", budget = "1 ms", period = "20 ms" }},
    {{ name = "keeper", budget = "1 ms", period = "30 ms" }},
    {{ name = "rest" }},
]

[[component]]
name = "patient"
program = "component:patient.elf"
threads = [
    {{ name = "caller", server = "rest" }},
    {{ name = "watcher", server = "watch", argument = 1 }},
]
end_points = [{{ thread = "watcher", signals = ["late", "over"] }}]
bind = {{ caller = "thread:caller", late = "send:patient.late", told = "receive:watcher", over = "send:patient.over", work = "slow.work" }}

[[component]]
name = "slow"
program = "component:slow.elf"
callers = {{ stacks = 2, bytes = "4 KiB" }}
{rest}"#
    );
    Described::new(&format!("aborted-{name}"), &text).laid().bytes
}

/// SG-8, SG-43, CH-10, and CH-8 in part: the limit counts what the thread runs inside, its handler ends the call, the caller continues with `TimedOut`, the callee's supervisor is told, and the
/// callee's stack is free again.
#[test]
fn a_call_that_takes_too_long_is_aborted() {
    let image = image("told", &format!("abortable = true\n{KEEPER}"));
    let board = run(&image, Place::Board);
    let starts = [
        "work 62500: Ok(62500) in 1 ms, limit Ok(()) Ok(())",
        "late: Ok(Task { state: 2, depth: 0, limit_ticks: 0 }), Ok(())",
        "child: fault 1 of kind 7, at 0x4",
        "child: given up",
        "work 0: Err(TimedOut) in 10 ms, limit Ok(()) Ok(())",
        "work 62500: Ok(62500) in 1 ms, limit Ok(()) Ok(())",
    ];
    let is_it = board.len() == starts.len() && board.iter().zip(starts).all(|(line, start)| line.starts_with(start));
    assert!(is_it, "{board:?}");
    assert_eq!(run(&image, Place::Direct), board);
}

/// A callee that is not declared so keeps the thread: it can be stopped, and nothing else.
#[test]
fn a_call_is_not_aborted_out_of_who_does_not_allow_it() {
    let board = run(&image("stopped", ""), Place::Board);
    assert_eq!(
        board,
        [
            "work 62500: Ok(62500) in 1 ms, limit Ok(()) Ok(())",
            "late: Ok(Task { state: 2, depth: 1, limit_ticks: 0 }), Err(Denied)",
            "stopped: Ok(())",
        ]
    );
}
