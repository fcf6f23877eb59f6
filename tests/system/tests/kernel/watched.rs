//! What an instance used, read from the partition's RAM.

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
