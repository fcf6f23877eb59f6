//! What an instance used, read from the partition's RAM.

use crate::described::Described;
use bulkhead_kernel_abi::call::Call;
use bulkhead_run::End;
use bulkhead_run::command::{stats_json, stats_text};
use bulkhead_system_tests::System;

/// QV-41, CH-60: servers, threads and calls of an instance are counted, and the tool shows them: three calls with their returns and the end of the thread, and nothing that did not happen.
#[test]
fn what_an_instance_used_is_shown() {
    let mut running = System::example("components", &[]).start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    let observer = running.watch();
    let instance = observer.instance(0).expect("an instance");
    assert_eq!(
        (instance.components.as_slice(), instance.threads.as_slice()),
        (&["asker".to_owned(), "adder".to_owned()][..], &[0][..])
    );
    let times = |call: Call| instance.accounts.calls[usize::from(call.number())];
    assert_eq!([Call::Invoke, Call::Return, Call::Receive, Call::Version].map(times), [3, 4, 0, 0]);
    let accounts = &instance.accounts.accounts;
    let longest = |call: Call| accounts.longest_ticks[usize::from(call.number())];
    // Calls with a fast path did not go through what is timed, but for the last return, which ended the thread.
    assert_eq!((longest(Call::Invoke), longest(Call::Receive)), (0, 0));
    assert!(
        longest(Call::Print) > 0
            && longest(Call::Return) > 0
            && accounts.call_ticks >= longest(Call::Print) + longest(Call::Return)
    );
    let (server, thread) = (&accounts.servers[0], &accounts.threads[0]);
    assert_eq!((server.dispatches, thread.switches, accounts.faults), (1, 1, 0));
    assert!(thread.ran_ticks > 0 && thread.ran_ticks <= server.charged_ticks, "{server:?} {thread:?}");
    assert!(accounts.servers[1..].iter().all(|other| other.dispatches == 0));
    let text = stats_text(observer);
    let shown =
        ["partition sums, instance of the kernel: idle ", "0       asker      ", "invoke      3  ", "return      4  "];
    assert!(shown.iter().all(|part| text.contains(part)), "{text}");
    let json = stats_json(observer);
    let of = &json["instances"][0];
    assert_eq!(
        (&of["partition"], &of["calls"][0]["call"], &of["calls"][0]["times"]),
        (&"sums".into(), &"invoke".into(), &3.into())
    );
}

/// A component that waits, one that faults, and one with the accounts, on servers in this order: when the last one looks, the others have ended.
pub(crate) fn accounts(argument: u64) -> Described {
    let component = |name: &str, server: &str, argument: u64, rest: &str| {
        format!(
            "\n[[component]]\nname = \"{name}\"\nprogram = \"component:{name}.elf\"\n\
             threads = [{{ name = \"main\", server = \"{server}\", argument = {argument} }}]\n{rest}"
        )
    };
    let servers = "version = 1\nserver = [{ name = \"first\" }, { name = \"last\" }]\n";
    let (first, last) = (
        component("probe", "first", 10, ""),
        component("watcher", "last", argument, "bind = { used = \"accounts\" }\n"),
    );
    Described::new(&format!("accounts-{argument}"), &format!("{servers}{first}{last}"))
}

/// QV-41, CH-42: a component that has the accounts reads what the tool shows of the instance, from the same words.
#[test]
fn a_component_reads_what_the_tool_shows() {
    let mut running = accounts(0).system("").start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    let instance = running.watch().instance(0).expect("an instance");
    let accounts = &instance.accounts.accounts;
    let (server, thread) = (&accounts.servers[0], &accounts.threads[0]);
    let times = instance.accounts.calls[usize::from(Call::Version.number())];
    assert!(thread.ran_ticks > 0 && (server.dispatches, accounts.faults, times) == (1, 1, 1), "{server:?} {thread:?}");
    let expected = [
        format!(
            "server 0: {} and {} ticks, {} times",
            server.charged_ticks, server.background_ticks, server.dispatches
        ),
        format!("thread 0: {} ticks, loaded {} times", thread.ran_ticks, thread.switches),
        format!("faults 1, versions 1, idle {}, beyond false", accounts.idle_ticks),
    ];
    let lines = running.texts("kernel");
    assert!(lines.ends_with(&expected), "{lines:?}\n{expected:?}");
}

/// CH-61: it reads them, and nothing else: a store is a fault, and the kernel's words stay.
#[test]
fn a_component_cannot_write_the_accounts() {
    let mut running = accounts(1).system("").start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    let lines = running.texts("kernel");
    let last = lines.last().expect("a line");
    // A permission fault of the third level, by a store (ESR_EL1.ISS), at the first of the pages.
    let said = "kernel: component 0x1, thread 0x1, fault 0x1, syndrome 0x9200004f, address 0xc2000000, ";
    assert!(last.starts_with(said), "{lines:?}");
    assert_eq!(running.watch().instance(0).expect("an instance").accounts.accounts.faults, 2);
}
