//! Ports of components: guests of other partitions send to a component and take from it, by channels; contents and counts, and no time (QV-50, QV-53).

use crate::described::Files;
use bulkhead_abi::observe::Counter;
use bulkhead_run::End;
use bulkhead_system_tests::{Running, System};

const MESSAGES: u64 = 200;

/// An instance with one component that takes messages and sends them on.
fn courier(messages: u64) -> String {
    format!(
        r#"version = 1
server = [{{ name = "main", budget = "5 ms", period = "10 ms" }}]

[[component]]
name = "courier"
program = "component:courier.elf"
threads = [{{ name = "main", server = "main", argument = {messages} }}]
end_points = [{{ thread = "main", signals = ["arrived"] }}]
ports = ["inbox", "outbox"]
interrupts = [{{ name = "inbox", signal = "arrived" }}]
bind = {{ inbox = "port:inbox", outbox = "port:outbox", arrived = "receive:main", bell = "interrupt:inbox" }}
"#
    )
}

fn port(name: &str, direction: &str) -> String {
    format!("{{ name = \"{name}\", direction = \"{direction}\", kind = \"queuing\", message_bytes = 64, depth = 16 }}")
}

fn listener(name: &str, core: u32, arguments: &str, port: &str) -> String {
    format!(
        "[[partition]]\nname = \"{name}\"\ntrust = \"trusted\"\ncores = [{core}]\nmemory = \"8 MiB\"\n\
         image = {{ kind = \"elf\", file = \"guest:listener.elf\" }}\narguments = \"{arguments}\"\nports = [{port}]\n"
    )
}

/// A sender, the instance and a receiver, each on a core of its own.
fn system(name: &str, mode: &str, arguments: &str) -> Running {
    let files = Files::new(name, &[("courier", &courier(MESSAGES))]);
    let channel = |name: &str, from: &str, to: &str| {
        format!(
            "[[channel]]\nname = \"{name}\"\nsource = \"{from}\"\ndestination = \"{to}\"\n\
             doorbell = {{ limit = 1000000, per = \"1 s\" }}\n"
        )
    };
    let text = format!(
        "version = 1\nname = \"{name}\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n{}{}{}{}{}",
        listener("sender", 0, arguments, &port("out", "source")),
        listener("receiver", 1, arguments, &port("in", "destination")),
        format_args!(
            "[[partition]]\nname = \"instance\"\ntrust = \"trusted\"\ncores = [2]\nmemory = \"8 MiB\"\ninterrupts = \"{mode}\"\n\
             image = {{ kind = \"kernel\", file = {:?} }}\nports = [{}, {}]\n",
            files.path("courier"),
            port("inbox", "destination"),
            port("outbox", "source")
        ),
        channel("there", "sender.out", "instance.inbox"),
        channel("further", "instance.outbox", "receiver.in"),
    );
    let mut running = System::from_text(name, &text).start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    running
}

/// QV-50, QV-53, CH-11: messages of a guest reach a component in order, woken by a doorbell, and what it sends reaches the guest of a third partition, each message once.
#[test]
fn a_component_talks_with_guests_of_other_partitions() {
    for mode in ["mapped", "direct"] {
        let arguments = format!("messages={MESSAGES}");
        let running = system("ports", mode, &arguments);
        running.assert_no_crash();
        assert_eq!(running.texts("sender")[1], format!("listener sent {MESSAGES} in order"), "{mode}");
        let said = format!("courier: {MESSAGES} messages, 0 more lives, woken true");
        assert_eq!(running.texts("instance"), [said], "{mode}");
        assert_eq!(running.texts("receiver")[1], format!("listener received {MESSAGES} in order"), "{mode}");
        // Each message that a component sends rings once, by its own capability.
        assert_eq!(running.counter("instance", Counter::DoorbellSent), MESSAGES, "{mode}");
    }
}
