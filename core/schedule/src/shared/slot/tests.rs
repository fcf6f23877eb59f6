//! All states of a vCPU against all steps, and what the policy is told of them.

extern crate std;
use super::*;
use Step::{Asks, Does};
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

/// The policy is told something: of a gate, or of clients.
const fn tells((gate, _, clients): (bool, u8, u8)) -> bool {
    gate || clients != 0
}

/// A step, and whether it returns something.
#[derive(Clone, Copy)]
enum Step {
    Does(fn(&mut Slot<()>)),
    Asks(fn(&mut Slot<()>) -> bool),
}

impl Step {
    fn take(self, slot: &mut Slot<()>) -> bool {
        match self {
            Self::Does(step) => {
                step(slot);
                false
            }
            Self::Asks(step) => step(slot),
        }
    }
}

/// Every step of a guest and of what the policy was told, at the date 5.
const STEPS: [(&str, Step); 12] = [
    ("sleep", Does(Slot::fall_asleep)),
    ("rouse", Asks(Slot::rouse)),
    ("defer", Does(Slot::defer)),
    ("release", Asks(Slot::release)),
    ("restart", Does(Slot::restart)),
    ("ready", Asks(|slot| slot.set_ready(5))),
    ("book", Does(Slot::book_wake)),
    ("idle", Asks(Slot::set_idle)),
    ("give", Does(Slot::give_work)),
    ("take", Asks(Slot::take_work)),
    ("stop", Does(|slot| slot.stop(5))),
    ("start", Asks(|slot| slot.start(5, |_, _| ()))),
];
/// Every step of a role: whether interrupts are pending, a budget that is used up, a client's doorbell.
const ROLE_STEPS: [(&str, Step); 4] = [
    ("pending", Asks(|slot| tells(slot.note_pending(true)))),
    ("none", Asks(|slot| tells(slot.note_pending(false)))),
    ("spend", Does(Slot::spend)),
    ("ring 0", Does(|slot| slot.ask_for(0b10))),
];

fn guests() -> Vec<(Guest, bool)> {
    [Guest::Runs, Guest::Sleeps].into_iter().flat_map(|guest| [false, true].map(|deferred| (guest, deferred))).collect()
}

fn told() -> Vec<Option<(Turn, bool)>> {
    let turns = [Turn::Woken(1), Turn::Waits(1), Turn::Runs];
    let known = [false, true].into_iter().flat_map(|work| turns.map(|turn| Some((turn, work))));
    [None].into_iter().chain(known).collect()
}

fn clients() -> impl Iterator<Item = Clients> {
    let sets = [0, 0b10, 0b100, 0b110];
    let all = sets.into_iter().flat_map(move |asked| sets.map(|served| (asked, served)));
    all.map(|(asked, served)| Clients { asked, served, server: 7, default: 0b100 })
}

fn roles() -> Vec<Role> {
    let gates = |closes| [Gate::Closed, Gate::Open, Gate::Spent].map(|gate| Role::Gated(closes, gate));
    let mut roles = vec![Role::Plain, Role::Preempts];
    roles.extend([Closes::Late, Closes::AtEnd].into_iter().flat_map(gates));
    for closes in [None, Some(Closes::Late), Some(Closes::AtEnd)] {
        roles.extend(clients().map(|clients| Role::Serves(closes, clients)));
    }
    roles
}

fn slot((guest, deferred): (Guest, bool), told: Option<(Turn, bool)>, role: Role) -> Slot<()> {
    Slot { guest, deferred, told, role, ..Slot::new() }
}

/// `R`uns or `S`leeps, `d`eferred; `-` the policy knows of nothing, or it was `w`oken, `s`topped or `h`as the core; `!`
/// work.
fn guest_name(slot: &Slot<()>) -> String {
    let turn = |turn| match turn {
        Turn::Woken(since) => format!("w{since}"),
        Turn::Waits(since) => format!("s{since}"),
        Turn::Runs => String::from("h"),
    };
    let told = slot.told.map_or(String::from("-"), |(one, work)| turn(one) + if work { "!" } else { "" });
    format!("{}{}{told}", if slot.is_asleep() { "S" } else { "R" }, if slot.deferred { "d" } else { "" })
}

/// A set of clients by their numbers.
fn set(clients: u8) -> String {
    (0..2u8).filter(|client| clients >> client & 2 != 0).map(|client| format!("{client}")).collect()
}

/// A role; of a PIBS server the clients who asked, and those whom it has.
fn role_name(slot: &Slot<()>) -> String {
    match slot.role {
        Role::Gated(closes, gate) => format!("{closes:?} {gate:?}"),
        Role::Serves(_, clients) => format!("asks{} has{}", set(clients.asked), set(clients.served)),
        plain => format!("{plain:?}"),
    }
}

/// What a step comes to: the new state or `.` for the old one, and `*` when it returns `true`.
fn cell(slot: &Slot<()>, step: Step, name: impl Fn(&Slot<()>) -> String) -> String {
    let mut next = self::slot((slot.guest, slot.deferred), slot.told, slot.role);
    let returned = if step.take(&mut next) { "*" } else { "" };
    let (before, after) = (name(slot), name(&next));
    format!("{}{returned}", if before == after { "." } else { &after })
}

/// Rows of all these slots: their state, and what each step comes to.
fn table(
    slots: impl Iterator<Item = Slot<()>>,
    steps: &[(&str, Step)],
    name: fn(&Slot<()>) -> String,
    wide: usize,
) -> String {
    let head = steps.iter().map(|(step, _)| format!("{step:>wide$}")).collect::<String>();
    let row = |slot: Slot<()>| {
        let cells = steps.iter().map(|(_, step)| format!("{:>wide$}", cell(&slot, *step, name))).collect::<String>();
        format!("{:<wide$}{cells}\n", name(&slot))
    };
    format!("\n{:wide$}{head}\n{}", "", slots.map(row).collect::<String>())
}

/// A deferred interrupt outlives the wake-up of its guest by another one when the policy knew of the vCPU already, and
/// when it is told of the wake-up later; so the rows that begin with `Rd` happen. `Sh` and `Ss` without work do not.
const GUEST_TABLE: &str = "
           sleep   rouse   defer release restart   ready    book    idle    give    take    stop   start
R-            S-       .       .       .       .    Rw5*      Rh       .       .       .       .       .
Rw1          Sw1       .       .       .       .       .       .     R-*    Rw1!       .     Rw5     Rh*
Rs1          Ss1       .       .       .       .       .       .     R-*    Rs1!       .     Rs5      Rh
Rh            Sh       .       .       .       .       .       .     R-*     Rh!       .     Rs5       .
Rw1!        Sw1!       .       .       .       .       .       .       .       .    Rw1*    Rw5!    Rh!*
Rs1!        Ss1!       .       .       .       .       .       .       .       .    Rs1*    Rs5!     Rh!
Rh!          Sh!       .       .       .       .       .       .       .       .     Rh*    Rs5!       .
Rd-          Sd-       .       .     R-*      R-    Rw5*     Rdh       .       .       .       .       .
Rdw1        Sdw1       .       .    Rw1*     Rw1       .       .    Rd-*   Rdw1!       .    Rdw5    Rdh*
Rds1        Sds1       .       .    Rs1*     Rs1       .       .    Rd-*   Rds1!       .    Rds5     Rdh
Rdh          Sdh       .       .     Rh*      Rh       .       .    Rd-*    Rdh!       .    Rds5       .
Rdw1!      Sdw1!       .       .   Rw1!*    Rw1!       .       .       .       .   Rdw1*   Rdw5!   Rdh!*
Rds1!      Sds1!       .       .   Rs1!*    Rs1!       .       .       .       .   Rds1*   Rds5!    Rdh!
Rdh!        Sdh!       .       .    Rh!*     Rh!       .       .       .       .    Rdh*   Rds5!       .
S-             .     R-*     Sd-       .      R-    Sw5*      Sh       .       .       .       .       .
Sw1            .    Rw1*    Sdw1       .     Rw1       .       .     S-*    Sw1!       .     Sw5     Sh*
Ss1            .    Rs1*    Sds1       .     Rs1       .       .     S-*    Ss1!       .     Ss5      Sh
Sh             .     Rh*     Sdh       .      Rh       .       .     S-*     Sh!       .     Ss5       .
Sw1!           .   Rw1!*   Sdw1!       .    Rw1!       .       .       .       .    Sw1*    Sw5!    Sh!*
Ss1!           .   Rs1!*   Sds1!       .    Rs1!       .       .       .       .    Ss1*    Ss5!     Sh!
Sh!            .    Rh!*    Sdh!       .     Rh!       .       .       .       .     Sh*    Ss5!       .
Sd-            .    Rd-*       .     R-*      R-   Sdw5*     Sdh       .       .       .       .       .
Sdw1           .   Rdw1*       .    Rw1*     Rw1       .       .    Sd-*   Sdw1!       .    Sdw5    Sdh*
Sds1           .   Rds1*       .    Rs1*     Rs1       .       .    Sd-*   Sds1!       .    Sds5     Sdh
Sdh            .    Rdh*       .     Rh*      Rh       .       .    Sd-*    Sdh!       .    Sds5       .
Sdw1!          .  Rdw1!*       .   Rw1!*    Rw1!       .       .       .       .   Sdw1*   Sdw5!   Sdh!*
Sds1!          .  Rds1!*       .   Rs1!*    Rs1!       .       .       .       .   Sds1*   Sds5!    Sdh!
Sdh!           .   Rdh!*       .    Rh!*     Rh!       .       .       .       .    Sdh*   Sds5!       .
";

/// MZ-17: a guest, and what the policy knows of its vCPU.
#[test]
fn every_state_of_a_guest_with_every_step() {
    let slots =
        guests().into_iter().flat_map(|guest| told().into_iter().map(move |told| slot(guest, told, Role::Plain)));
    assert_eq!(table(slots, &STEPS, guest_name, 8), GUEST_TABLE);
}

const READY_TABLE: &str = "
                     pending          none         spend        ring 0
Plain                      .             .             .             .
Preempts                   .             .             .             .
Late Closed       Late Open*             .             .             .
Late Open                  .             .    Late Spent             .
Late Spent                 .  Late Closed*             .             .
AtEnd Closed     AtEnd Open*             .             .             .
AtEnd Open                 . AtEnd Closed*   AtEnd Spent             .
AtEnd Spent                . AtEnd Closed*             .             .
asks has          asks has1*             .             .     asks0 has
asks has0                  .             .             .    asks0 has0
asks has1                  .             .             .    asks0 has1
asks has01                 .             .             .   asks0 has01
asks0 has         asks has0*             .             .             .
asks0 has0                 .             .             .             .
asks0 has1       asks has01*             .             .             .
asks0 has01                .             .             .             .
asks1 has         asks has1*             .             .    asks01 has
asks1 has0       asks has01*             .             .   asks01 has0
asks1 has1                 .             .             .   asks01 has1
asks1 has01                .             .             .  asks01 has01
asks01 has       asks has01*             .             .             .
asks01 has0      asks has01*             .             .             .
asks01 has1      asks has01*             .             .             .
asks01 has01               .             .             .             .
";
const IDLE_TABLE: &str = "
                     pending          none         spend        ring 0
Plain                      .             .             .             .
Preempts                   .             .             .             .
Late Closed       Late Open*             .             .             .
Late Open                  .  Late Closed*    Late Spent             .
Late Spent                 .  Late Closed*             .             .
AtEnd Closed     AtEnd Open*             .             .             .
AtEnd Open                 . AtEnd Closed*   AtEnd Spent             .
AtEnd Spent                . AtEnd Closed*             .             .
asks has                   .             .             .     asks0 has
asks has0                  .     asks has*             .    asks0 has0
asks has1                  .     asks has*             .    asks0 has1
asks has01                 .     asks has*             .   asks0 has01
asks0 has                  .             .             .             .
asks0 has0                 .     asks has*             .             .
asks0 has1                 .     asks has*             .             .
asks0 has01                .     asks has*             .             .
asks1 has                  .             .             .    asks01 has
asks1 has0                 .     asks has*             .   asks01 has0
asks1 has1                 .     asks has*             .   asks01 has1
asks1 has01                .     asks has*             .  asks01 has01
asks01 has                 .             .             .             .
asks01 has0                .     asks has*             .             .
asks01 has1                .     asks has*             .             .
asks01 has01               .     asks has*             .             .
";

/// SG-45, QV-32: gates and requests, of a vCPU that the policy knows to be ready and of one that it does not.
#[test]
fn every_state_of_a_role_with_every_step() {
    let slots = |told| roles().into_iter().map(move |role| slot((Guest::Runs, false), told, role));
    let without_both = |slot: &Slot<()>| !matches!(slot.role, Role::Serves(Some(_), _));
    for told in told() {
        let expected = if told.is_none() { IDLE_TABLE } else { READY_TABLE };
        assert_eq!(table(slots(told).filter(without_both), &ROLE_STEPS, role_name, 14), expected, "{told:?}");
    }
}

/// Steps of a guest and of what the policy was told leave the role as it is, and the other way round.
#[test]
fn guest_and_role_are_apart() {
    let state = |slot: &Slot<()>| (slot.guest, slot.deferred, slot.told);
    for (guest, told) in guests().into_iter().flat_map(|guest| told().into_iter().map(move |told| (guest, told))) {
        for role in roles() {
            for (name, step) in STEPS {
                let (mut with, mut plain) = (slot(guest, told, role), slot(guest, told, Role::Plain));
                assert_eq!(step.take(&mut with), step.take(&mut plain), "{guest:?} {told:?} {role:?} {name}");
                assert_eq!((state(&with), with.role), (state(&plain), role), "{guest:?} {told:?} {role:?} {name}");
            }
            for (name, step) in ROLE_STEPS {
                let mut slot = slot(guest, told, role);
                step.take(&mut slot);
                assert_eq!(state(&slot), (guest.0, guest.1, told), "{role:?} {name}");
            }
        }
    }
}

/// SG-45, QV-32: what the policy is told. A gate beside a PIBS server opens and closes with its requests.
#[test]
fn the_policy_is_told_of_what_changes() {
    for told in told() {
        for (role, pending) in roles().into_iter().flat_map(|role| [(role, false), (role, true)]) {
            let mut slot = slot((Guest::Runs, false), told, role);
            let change = slot.note_pending(pending);
            let expected = match (role, slot.role) {
                _ if slot.role == role => (false, change.1, 0),
                (Role::Gated(_, before), Role::Gated(_, after)) => {
                    assert!((before == Gate::Closed) != (after == Gate::Closed), "{role:?}");
                    (true, 0, 0)
                }
                (Role::Serves(closes, before), Role::Serves(_, after)) => {
                    let mut alone = self::slot((Guest::Runs, false), told, Role::Serves(None, before));
                    let (gate, server, clients) = alone.note_pending(pending);
                    assert_eq!((gate, server, alone.role), (false, 7, Role::Serves(None, after)));
                    assert_eq!(clients, before.served ^ after.served);
                    (closes.is_some(), 7, clients)
                }
                _ => panic!("{role:?} has become {:?}", slot.role),
            };
            assert_eq!(change, expected, "{role:?}");
        }
    }
}

/// Whose timers matter while they are away, and whose dates are not to act twice.
#[test]
fn dates_are_kept_for_whom_they_matter() {
    for role in roles() {
        let (watches, acts) = match role {
            Role::Plain => (false, false),
            Role::Preempts => (true, true),
            Role::Gated(_, gate) => (true, gate != Gate::Closed),
            Role::Serves(closes, clients) => (closes.is_some(), clients.served != 0),
        };
        let slot = slot((Guest::Runs, false), None, role);
        assert_eq!([true, false].map(|asleep| slot.watches_timer(asleep)), [true, watches], "{role:?}");
        assert_eq!(slot.has_acted(), acts, "{role:?}");
    }
}

#[test]
fn a_wait_is_counted_once_and_from_its_beginning() {
    let mut slot = slot((Guest::Runs, false), None, Role::Plain);
    let mut stolen = vec![];
    let mut start = |slot: &mut Slot<()>, now| slot.start(now, |_, ticks| stolen.push(ticks));
    assert!(slot.set_ready(10) && !slot.set_ready(11));
    assert!(start(&mut slot, 17));
    slot.stop(20);
    assert!(!start(&mut slot, 40) && !start(&mut slot, 90), "not woken");
    // Nor is anything stolen from one that waits for the monitor's work alone, or that runs again at once.
    slot.stop(91);
    slot.fall_asleep();
    assert!(!start(&mut slot, 95) && slot.rouse());
    slot.stop(96);
    assert!(!start(&mut slot, 96));
    assert!(slot.set_idle());
    slot.book_wake();
    assert!(!start(&mut slot, 99), "it never waited");
    assert_eq!((stolen, slot.stolen_ticks), (vec![7, 27], 27));
    let usage = slot.usage;
    assert_eq!((usage.wakes, usage.longest_wait_ticks, usage.longest_blackout_ticks), (1, 7, 20));
}

#[test]
fn held_interrupts_are_one_or_several() {
    let mut slot = slot((Guest::Sleeps, false), None, Role::Plain);
    assert!(slot.only_sleeps());
    slot.hold(40);
    assert_eq!((slot.held, slot.waiting.iter().sum::<u64>(), slot.only_sleeps()), (Held::One(40), 0, false));
    slot.hold(70);
    slot.hold(70);
    assert_eq!((slot.held, slot.waiting[0], slot.waiting[1]), (Held::Several, 1 << 40, 1 << 6));
    assert_eq!(slot.usage.interrupts_held, 3);
    slot.restart();
    assert_eq!((slot.held, slot.waiting, slot.is_asleep()), (Held::Nothing, Default::default(), false));
}
