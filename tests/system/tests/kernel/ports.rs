//! Ports of components: guests of other partitions send to a component and take from it, by channels; contents and counts, and no time (QV-50, QV-53).

use bulkhead_abi::observe::Counter;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::files::Files;
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
fn system(name: &str, mode: &str, messages: u64, (arguments, sender): (&str, &str)) -> Running {
    let files = Files::new(name, &[("courier", &courier(messages))]);
    let channel = |name: &str, from: &str, to: &str| {
        format!(
            "[[channel]]\nname = \"{name}\"\nsource = \"{from}\"\ndestination = \"{to}\"\n\
             doorbell = {{ limit = 1000000, per = \"1 s\" }}\n"
        )
    };
    let text = format!(
        "version = 1\nname = \"{name}\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n{}{}{}{}{}",
        listener("sender", 0, arguments, &port("out", "source")) + sender,
        listener("receiver", 1, &format!("messages={messages}"), &port("in", "destination")),
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
        let running = system("ports", mode, MESSAGES, (&arguments, ""));
        running.assert_no_crash();
        assert_eq!(running.texts("sender")[1], format!("listener sent {MESSAGES} in order"), "{mode}");
        let said = format!("courier: {MESSAGES} messages, 0 more lives, woken true");
        assert_eq!(running.texts("instance"), [said], "{mode}");
        assert_eq!(running.texts("receiver")[1], format!("listener received {MESSAGES} in order"), "{mode}");
        // Each message that a component sends rings once, by its own capability.
        assert_eq!(running.counter("instance", Counter::DoorbellSent), MESSAGES, "{mode}");
    }
}

/// QV-50, QV-55: a partition that faults behind its last message is begun again, and its second life talks with the same component: that one is told once, believes no number of the
/// first life, and loses no message of either.
#[test]
fn a_component_talks_with_the_next_life_of_a_partition() {
    let arguments = format!("messages={MESSAGES} faults=1");
    let policy = "health = { on_fault = \"restart\", max = 1, within = \"600 s\", backoff = \"1 us\" }\n";
    let running = system("ports-lives", "mapped", 2 * MESSAGES, (&arguments, policy));
    let lives =
        running.texts("sender").iter().filter(|line| **line == format!("listener sent {MESSAGES} and faults")).count();
    assert_eq!(lives, 2, "{:?}", running.texts("sender"));
    let said = format!("courier: {} messages, 1 more lives, woken true", 2 * MESSAGES);
    assert_eq!(running.texts("instance"), [said]);
    assert_eq!(running.texts("receiver")[1], format!("listener received {} in order", 2 * MESSAGES));
}
