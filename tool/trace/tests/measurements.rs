//! Measured worst cases against hand-made schedules, and sliding windows against the plain definition.

mod support;

use bulkhead_abi::observe::TRACE_CHARGE;
use bulkhead_trace::{Intervals, Measurements};
use support::{DEVICE, DOORBELL, Random, timeline};

/// A tick of the hand-made schedule.
const TICK: u64 = 16;

#[test]
fn worst_cases_of_the_hand_made_schedule() {
    let measured = Measurements::of(&timeline());
    let core = &measured.cores[0];
    let control = &core.slots[0];
    assert_eq!((control.wakes, control.responses), (2, 1));
    assert_eq!(control.startup_ns, Some(55 * TICK), "woken at 1000 for the first time, done at 1055");
    assert_eq!(control.longest_response_ns, Some(1020 * TICK), "woken at 2000, done at 3020");
    assert_eq!(control.mean_response_ns(), Some(1020 * TICK), "its start is no response");
    assert_eq!(control.longest_wait_ns, Some(10 * TICK));
    assert_eq!(control.longest_blackout_ns(), Some(900 * TICK), "between its exhaustion and the replenishment");
    assert_eq!(control.running.total_ns(), 160 * TICK);
    let linux = &core.slots[1];
    assert_eq!((linux.wakes, linux.longest_response_ns, linux.startup_ns), (1, None, Some(3500 * TICK)));
    assert_eq!(linux.longest_blackout_ns(), Some(100 * TICK), "while control used its whole budget");
    // Control takes at most 100 of any 1000 ticks, so linux always gets 900.
    assert_eq!(linux.least_supply_ns(1000 * TICK), Some(900 * TICK));
    assert_eq!(linux.least_supply_ns(100 * TICK), Some(0));
    assert_eq!(linux.least_supply_ns(3501 * TICK), None, "it was never ready that long");
    let server = &core.servers[0];
    assert_eq!((server.starts, server.exhaustions, server.replenishments), (3, 1, 1));
    assert_eq!(server.most_in_period_ns, Some(100 * TICK));
    assert_eq!(server.budgeted.most_in(1010 * TICK), 110 * TICK, "both turns of its second job");
    assert_eq!((core.switches, core.busy_ns), (7, 3490 * TICK));
}

#[test]
fn interrupts_are_counted_by_owner_and_their_wait_is_measured() {
    let measured = Measurements::of(&timeline());
    let device = measured.cores[0].interrupts[&(Some(0), DEVICE)];
    assert_eq!((device.count, device.held, device.longest_delivery_ns), (2, 1, Some(5 * TICK)));
    let doorbell = measured.cores[0].interrupts[&(Some(0), DOORBELL)];
    assert_eq!((doorbell.count, doorbell.held, doorbell.longest_delivery_ns), (1, 1, Some(10 * TICK)));
}

#[test]
fn one_who_starves_until_the_end_is_seen() {
    let mut timeline = timeline();
    timeline.push(3600 * TICK, 0, bulkhead_trace::EventKind::Wake { slot: 0, interrupt: None });
    timeline.finish(9600 * TICK);
    let control = Measurements::of(&timeline).cores[0].slots[0].clone();
    assert_eq!(control.longest_wait_ns, Some(6000 * TICK));
    assert_eq!(control.longest_blackout_ns(), Some(6000 * TICK));
    assert_eq!(control.responses, 1, "what did not end is no response");
}

/// A guest that is started again starts up again; the longest counts.
#[test]
fn each_start_of_a_guest_is_a_start_up() {
    use bulkhead_abi::status::{STATE_RESTARTING, STATE_RUNNING};
    use bulkhead_trace::EventKind::{Block, State, Wake};
    let mut timeline = timeline();
    let state = |state| State { partition: 0, state, reason: 0 };
    for (ticks, kind) in [
        (4000, state(STATE_RESTARTING)),
        (5000, state(STATE_RUNNING)),
        (5000, Wake { slot: 0, interrupt: None }),
        (5700, Block { slot: 0 }),
        (6000, Wake { slot: 0, interrupt: None }),
        (6100, Block { slot: 0 }),
    ] {
        timeline.push(ticks * TICK, 0, kind);
    }
    timeline.finish(0);
    let control = Measurements::of(&timeline).cores[0].slots[0].clone();
    assert_eq!((control.startup_ns, control.responses), (Some(700 * TICK), 2));
    assert_eq!(control.mean_response_ns(), Some((1020 + 100) * TICK / 2));
}

/// Random stretches between 0 and 400, and the same as one flag per unit of time.
fn random_set(random: &mut Random) -> (Intervals, [bool; 400]) {
    let (mut set, mut flags, mut at) = (Intervals::default(), [false; 400], 0);
    while at < 380 {
        let from = at + random.below(12);
        let to = (from + random.below(20)).min(400);
        set.push(from, to);
        (from..to).for_each(|time| flags[time as usize] = true);
        at = to;
    }
    (set, flags)
}

fn amount(flags: &[bool]) -> u64 {
    flags.iter().filter(|flag| **flag).count() as u64
}

#[test]
fn sliding_windows_agree_with_their_definition() {
    let mut random = Random(0x5eed_0002);
    for case in 0..300 {
        let (ours, flags) = random_set(&mut random);
        let (ready, ready_flags) = random_set(&mut random);
        assert_eq!(ours.total_ns(), amount(&flags), "case {case}");
        for window in [1, 3, 10, 50, 200] {
            let windows = || flags.windows(window).zip(ready_flags.windows(window));
            let most = windows().map(|(flags, _)| amount(flags)).max();
            let padded: Vec<_> = flags.iter().copied().chain(vec![false; window]).collect();
            let most = most.max(padded.windows(window).map(amount).max());
            assert_eq!(Some(ours.most_in(window as u64)), most, "case {case}, window {window}");
            let inside = windows().filter(|(_, ready)| ready.iter().all(|flag| *flag));
            let least = inside.map(|(flags, _)| amount(flags)).min();
            assert_eq!(ours.least_in(window as u64, &ready), least, "case {case}, window {window}");
        }
        let rest = ours.without(&ready);
        let rest_flags: Vec<_> = flags.iter().zip(&ready_flags).map(|(ours, ready)| *ours && !*ready).collect();
        assert_eq!(rest.total_ns(), amount(&rest_flags), "case {case}");
        let starts = rest.as_slice().iter().filter(|piece| !rest_flags[piece.from_ns as usize]).count();
        assert_eq!(starts, 0, "case {case}: every piece begins in the rest");
    }
}

/// QV-41: control takes 100 ticks, and 40 more to load its successor, which it gives the core away to; that is charged to it and not
/// to linux, which pays for itself from its first instruction on.
#[test]
fn loading_is_charged_to_who_gives_the_core_away() {
    let charged =
        |until: u64, from: u64, payer: u32| support::record(until + 3, 0, 0xff, TRACE_CHARGE, payer, from, until);
    let records = vec![
        charged(990, 0, 0),
        support::control_runs(1000, 100),
        charged(1090, 0, 0),
        support::linux_runs(1100),
        // Control paid for the loading, from its last charge on.
        charged(1300, 1130, 0),
        support::control_runs(1310, 100),
        // It took the core, and pays for its own loading.
        charged(1350, 0, 0),
        support::idle(1360),
        charged(1400, 0, 0),
    ];
    let timeline = support::of_records(&records);
    let charges: Vec<_> =
        timeline.charges(0).iter().map(|run| (run.server, run.from_ns / TICK, run.to_ns / TICK)).collect();
    let expected = [(Some(0), 990, 1090), (Some(0), 1090, 1130), (Some(1), 1130, 1300), (Some(0), 1300, 1350)];
    assert_eq!(charges, expected);
    let core = &Measurements::of(&timeline).cores[0];
    assert_eq!(core.servers[0].budgeted.total_ns(), 190 * TICK);
    assert_eq!(core.servers[0].most_in_period_ns, Some(190 * TICK));
    assert_eq!(core.servers[1].budgeted.total_ns(), 170 * TICK);
    // Who had the core is another question.
    assert_eq!(core.slots[0].running.total_ns(), (100 + 50) * TICK);
}
