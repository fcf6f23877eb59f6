//! Two instances on two cores of one system, with wires between them: contents and counts, and no time (CH-39 to CH-42).

use crate::described::Files;
use bulkhead_run::End;
use bulkhead_system_tests::System;
use std::path::Path;

/// One that throws or catches, over the wires `there` and `back` of the two partitions.
fn ball(argument: u64, to: &str, from: &str) -> String {
    format!(
        r#"version = 1
server = [{{ name = "main" }}, {{ name = "wire", budget = "2 ms", period = "10 ms" }}]
wire = [{{ port = "{from}", server = "wire", exports = {{ nobody = "ball.nobody", ball = "ball.ball" }} }}]

[[component]]
name = "ball"
program = "component:ball.elf"
threads = [{{ name = "main", server = "main", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["ball", "nobody"] }}]
bind = {{ throw = "wire:{to}.ball", caught = "receive:main" }}
"#
    )
}

fn partition(name: &str, core: u32, mode: &str, file: &Path, [source, destination]: [&str; 2]) -> String {
    let port = |name: &str, direction: &str| {
        format!(
            "{{ name = \"{name}\", direction = \"{direction}\", kind = \"queuing\", message_bytes = 8, depth = 16 }}"
        )
    };
    format!(
        "[[partition]]\nname = \"{name}\"\ntrust = \"trusted\"\ncores = [{core}]\nmemory = \"8 MiB\"\ninterrupts = \"{mode}\"\n\
         image = {{ kind = \"kernel\", file = {file:?} }}\nports = [{}, {}]\n",
        port(source, "source"),
        port(destination, "destination")
    )
}

/// A channel whose doorbell is never held back in these tests.
fn channel(name: &str, from: &str, to: &str) -> String {
    format!(
        "[[channel]]\nname = \"{name}\"\nsource = \"{from}.{name}\"\ndestination = \"{to}.{name}\"\n\
         doorbell = {{ limit = 1000000, per = \"1 s\" }}\n"
    )
}

fn system(files: &Files, mode: &str) -> System {
    let text = format!(
        "version = 1\nname = \"wires\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n{}{}{}{}",
        partition("one", 0, mode, &files.path("one"), ["there", "back"]),
        partition("two", 1, mode, &files.path("two"), ["back", "there"]),
        channel("there", "one", "two"),
        channel("back", "two", "one"),
    );
    System::from_text("wires", &text)
}

/// CH-39, CH-42: a signal of a component in one instance wakes one in the other, as often as it was sent.
#[test]
fn a_ball_goes_from_core_to_core_and_back() {
    const ROUNDS: u64 = 200;
    let files = Files::new(
        "ball",
        &[("one", &ball(2 * ROUNDS + 1, "there", "back")), ("two", &ball(2 * ROUNDS, "back", "there"))],
    );
    for mode in ["mapped", "direct"] {
        let mut running = system(&files, mode).start_exact(4);
        assert_eq!(running.end(), End::AllEnded);
        let said = format!("ball: caught {ROUNDS}, refused 0, other signals 0x0, quiet true");
        assert_eq!([running.texts("one"), running.texts("two")], [vec![said.clone()], vec![said]], "{mode}");
    }
}
