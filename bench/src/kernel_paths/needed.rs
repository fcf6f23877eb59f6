//! What the parts of a path are for, and what would be needed where a row is missed.

use super::Path;
use bulkhead_system_tests::ways::Way;

/// Files, or folders of them, with what their code is for; the first that fits counts.
const PURPOSES: &[(&[&str], &str)] = &[
    (&["assembly", "arch/"], "the way in and out: vectors and registers"),
    (
        &["kernel/src/entry.rs", "kernel/src/lib.rs", "kernel/src/outside.rs", "kernel/src/rows.rs"],
        "around each entry: clock, accounts, timer",
    ),
    (&["core/sched/src/budget"], "budgets: what was used, and when it comes back"),
    (&["core/sched/src/band"], "bands: may this server be"),
    (&["core/sched/src/tcap", "kernel/src/claims.rs", "kernel/src/late.rs"], "claims on time"),
    (&["core/sched/", "kernel/src/servers.rs"], "servers: who is next, and dates"),
    (
        &["core/objects/src/endpoint.rs", "core/objects/src/binding.rs", "kernel/src/signal.rs"],
        "end points: bits, and who waits",
    ),
    (&["core/objects/src/events.rs"], "events of schedulers"),
    (
        &["core/objects/src/position.rs", "core/objects/src/thread.rs", "core/objects/src/dates.rs"],
        "threads, their turns and their dates",
    ),
    (&["core/objects/", "core/kernel-abi/"], "the call: arguments, capabilities, objects"),
    (&["kernel/"], "the rest of the kernel: wires, names, memory"),
    (&["library"], "memory copied and cleared, and checks of Rust's own library"),
];

/// What all code of the component that is called is for.
pub(super) const CALLED: &str = "the scheduler in user space: its stubs, and what it decides";

/// What the code of a file is for.
pub(super) fn purpose(file: &str) -> &'static str {
    let fits = |(files, _): &&(&[&str], &'static str)| files.iter().any(|one| file.starts_with(one));
    PURPOSES.iter().find(fits).map_or("other", |(_, purpose)| purpose)
}

/// What a path has too much, and what would be needed to reach the promise. Nothing where it is reached.
pub(super) fn needed(path: Path) -> Option<&'static str> {
    match path {
        Path::Way(way) => of_way(way),
        Path::Yield => Some(
            "a shorter ChaosRT, a shorter `switch`, and then another promise: what ChaosRT executes is nearly all of the 420, and a call with its return (115) and a `switch` as promised (220) leave 85 to it. It decides \
             twice: who yields chooses, and who comes back from `switch` takes the lock and chooses again, as something may have happened meanwhile; and each step looks for the task (`one`, `change`) and its sets. Needed: the \
             token says whether an event came since, so without one the second choice is a comparison; and a yield among equals changes the place of its level alone. In the kernel, what `kernel.switch` needs.",
        ),
        Path::Fork => None,
    }
}

fn of_way(way: Way) -> Option<&'static str> {
    Some(match way {
        Way::SignalHeld => {
            "fewer looks at what is known. Nothing is charged and nobody is chosen any more; what is left finds the thread twice (in the vectors' short way of a notification and again here), asks for the scheduler's \
             server, compares two vectors word by word, and stores and loads all registers. Needed: a wait that knows its scheduler from its beginning on, as `waits_on` knows a server, and one word that says that \
             two claims have nothing but their own scheduler in common."
        }
        Way::SignalMore => {
            "charge, wake and choice as one passage of 150, as the issue says: `settle`, `advance`, `signal` and `choose` each find the server and the date again, and the way out is \
             that of any entry. Needed: the one who wakes is known to be more important, so it is the choice."
        }
        Way::Switch => {
            "the three slots are looked up one after the other, and the number of the claim is set and that of the one before ended. Nothing is charged and nobody is chosen any more. Needed: a scheduler keeps the \
             objects of its last `switch`, valid as long as token and grants are, and a place for the number beside the position instead of in two claims."
        }
        Way::Interrupt => {
            "two charges and two looks for the next date: the victim is charged up to the entry, the top half is charged to the driver's server, and each files dates. Needed: one charge from the instant of \
             entry when the driver's server gets the core anyway (a draft took 1,044), and the choice that the wake already knows, as for `kernel.signal_more`."
        }
        Way::InterruptPibs => {
            "the same, and the server is placed for its client twice: `of_other` and `place` read the client's budget and file the server again when it is told of the client and again when it wakes. Needed: to tell \
             and to wake in one step (with one charge a draft took 1,494)."
        }
        Way::ComesBack => {
            "the way in looks for interrupts as for a device, the date's end is played for each server in `advance_in_full`, and the choice begins at the top though the one whose budget came back is known. Needed: \
             the earliest date names its server, and if that one is more important it is the choice."
        }
        Way::UsedUp => {
            "the spent server is charged, filed behind its next date, and the choice asks everybody. Needed: the charge of a spent budget knows that nothing of it is left, so its chunk can move to its next date \
             without the general `charge` and `place`; and two levels of the queue decide who follows."
        }
        Way::Delegate => {
            "the way in and out is that of any call, both claims are looked for by scheduler, and afterwards the server is charged and its dates filed as if its budget had changed. Needed: a server whose own claim \
             keeps its number files nothing, and a way of its own behind the vectors."
        }
        Way::DelegateAll => "what `kernel.delegate` needs; two vectors of 16 equal words are compared in 84.",
        Way::Create => {
            "the vectors, accounts and timer of any slow call take a quarter, and charging who asks, whose ring of parts is full, a seventh; the rest is two looks at the table, the date at which the slot was \
             free again, what the band counts, and the claim. Needed: a way of its own behind the vectors for this call, and no charge of who asks before the next entry."
        }
        Way::SignalPeer
        | Way::SignalLess
        | Way::CreateTested
        | Way::SignalDivided
        | Way::SwitchDivided
        | Way::NullComputing
        | Way::SignalMoreComputing => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Path, Way, needed, purpose};
    use crate::kernel_paths::ALL;

    #[test]
    fn files_have_the_first_purpose_that_fits() {
        assert_eq!(purpose("core/sched/src/budget/sporadic.rs"), purpose("core/sched/src/budget.rs"));
        assert_ne!(purpose("core/sched/src/kernel.rs"), purpose("core/sched/src/budget.rs"));
        assert_eq!(purpose("kernel/src/wires.rs"), "the rest of the kernel: wires, names, memory");
        assert_eq!(purpose("library"), "memory copied and cleared, and checks of Rust's own library");
    }

    /// Each way is once in the table, and its row is there.
    #[test]
    fn each_way_has_a_path_of_its_row() {
        for way in Way::ALL {
            assert_eq!(ALL.iter().filter(|one| one.path == Path::Way(way)).count(), 1, "{way:?}");
        }
        assert!(ALL.iter().all(|one| crate::rows::all().any(|row| row.name == one.row)));
        assert_eq!(ALL.iter().filter(|one| needed(one.path).is_none()).count(), 8);
        assert!(ALL.iter().any(|one| one.row == "kernel.yield" && needed(one.path).is_some()));
    }
}
