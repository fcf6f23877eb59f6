//! The published interrupt policies: bounds over every phase, and what storms do to them.

use bulkhead_sched::dispatch::Decision;
use bulkhead_sched::quantum::{OnInterrupt, QuantumRing, Reading, RingParameters};

fn ring(guests: u8, on_interrupt: OnInterrupt, preemptible: u32) -> RingParameters {
    RingParameters { guests, quantum_ticks: 30, on_interrupt, reading: Reading::Masked, ring_moves: false, preemptible }
}

/// A ring whose guests are all busy from 0 on, as the seed's are.
fn awake(parameters: RingParameters) -> QuantumRing {
    let mut ring = QuantumRing::new(0, parameters).expect("valid");
    (0..parameters.guests).for_each(|guest| ring.set_ready(guest, true));
    ring
}

/// Worst start and completion of a handler of 2 ticks for guest 0, over every phase of the ring. All guests are busy.
fn worst(parameters: RingParameters) -> (u64, u64) {
    let round = u64::from(parameters.guests) * parameters.quantum_ticks;
    let mut worst = (0, 0);
    for phase in 0..round {
        let mut ring = awake(parameters);
        (1..=phase).for_each(|now| ring.advance(now));
        ring.interrupt(0);
        let (mut waited, mut handled, mut started) = (0, 0, None);
        while handled < 2 {
            if ring.running() == Some(0) {
                started = started.or(Some(waited));
                handled += 1;
            }
            waited += 1;
            ring.advance(phase + waited);
        }
        worst = (worst.0.max(started.expect("handled")), worst.1.max(waited));
    }
    worst
}

/// MZ-20, MZ-21, MZ-22.
#[test]
fn rr_01_worst_start_and_completion_of_each_policy() {
    assert_eq!(worst(ring(4, OnInterrupt::None, !0)), (90, 92));
    assert_eq!(worst(ring(4, OnInterrupt::Recycle, !0)), (0, 92));
    assert_eq!(worst(ring(4, OnInterrupt::Reset, !0)), (0, 92));
    assert_eq!(worst(ring(4, OnInterrupt::ResetExtend, !0)), (0, 2));
}

/// MZ-14.
#[test]
fn rr_02_guests_that_may_not_be_preempted() {
    let adjacent = !0b0110;
    assert_eq!(worst(ring(4, OnInterrupt::Recycle, adjacent)), (60, 92));
    assert_eq!(worst(ring(4, OnInterrupt::ResetExtend, adjacent)), (60, 62));
    let apart = !0b1010;
    assert_eq!(worst(ring(4, OnInterrupt::Recycle, apart)), (30, 92));
    assert_eq!(worst(ring(4, OnInterrupt::ResetExtend, apart)), (30, 32));
    assert_eq!(worst(ring(2, OnInterrupt::ResetExtend, !0b10)), (30, 32));
    // MZ-15: latched waits for one quantum at most, whatever the order of the ring.
    let latched = RingParameters { reading: Reading::Latched, ..ring(4, OnInterrupt::ResetExtend, adjacent) };
    assert_eq!(worst(latched), (30, 32));
}

/// Processor time of three guests in 3000 ticks when guest 0 is interrupted at every multiple of `gap`.
fn storm(on_interrupt: OnInterrupt, ring_moves: bool, gap: u64) -> [u64; 3] {
    let mut ring = awake(RingParameters { ring_moves, ..ring(3, on_interrupt, !0) });
    for now in 0..3_000u64 {
        if now.is_multiple_of(gap) {
            ring.interrupt(0);
        }
        ring.advance(now + 1);
    }
    [0, 1, 2].map(|guest| ring.used_and_stolen_ticks(guest).0)
}

/// MZ-23, MZ-26: also with the ring that moves.
#[test]
fn rr_03_neither_policy_isolates_under_a_storm() {
    assert_eq!(storm(OnInterrupt::Reset, true, 31), [2_904, 96, 0]);
    assert_eq!(storm(OnInterrupt::Reset, false, 31), [2_905, 63, 32]);
    assert_eq!(storm(OnInterrupt::Recycle, false, 1), [3_000, 0, 0]);
    assert_eq!(storm(OnInterrupt::Reset, false, 1), [3_000, 0, 0]);
    assert_eq!(storm(OnInterrupt::None, false, 1), [1_020, 990, 990], "without a policy a storm takes nothing");
}

/// MZ-15, MZ-16.
#[test]
fn latched_guests_run_in_the_order_of_arrival_and_the_ring_stays() {
    let parameters = RingParameters { reading: Reading::Latched, ..ring(4, OnInterrupt::Reset, !1) };
    let mut ring = awake(parameters);
    assert!(!ring.interrupt(3) && !ring.interrupt(2) && !ring.interrupt(3), "guest 0 may not be pre-empted");
    let mut order = Vec::new();
    for round in 1..=6 {
        ring.advance(30 * round);
        order.push(ring.running().expect("all are ready"));
    }
    assert_eq!(order, [3, 2, 1, 2, 3, 0]);
    assert_eq!(ring.used_and_stolen_ticks(3), (60, 30), "the extra quantum shows in the accounts");
}

#[test]
fn rings_that_cannot_turn_are_refused() {
    assert!(QuantumRing::new(0, ring(0, OnInterrupt::None, 0)).is_none());
    assert!(QuantumRing::new(0, ring(33, OnInterrupt::None, 0)).is_none());
    assert!(QuantumRing::new(0, RingParameters { quantum_ticks: 0, ..ring(2, OnInterrupt::None, 0) }).is_none());
    assert!(!awake(ring(2, OnInterrupt::Reset, !0)).interrupt(2), "no such guest");
}

/// Starts of turns until the given instant, asking at deadlines alone.
fn turns(ring: &mut QuantumRing, from: u64, until: u64) -> Vec<(u64, Option<u8>)> {
    let mut now = from;
    let mut turns = Vec::new();
    while now < until {
        let decision = Decision::from(ring.pick(now));
        turns.push((now, decision.choice.map(|choice| choice.vcpu)));
        now = decision.deadline_ticks.unwrap_or(until);
    }
    turns
}

#[test]
fn a_guest_that_sleeps_is_skipped_and_an_idle_core_starts_whoever_wakes() {
    let mut ring = QuantumRing::new(100, ring(3, OnInterrupt::None, !0)).expect("valid");
    assert_eq!(turns(&mut ring, 100, 200), [(100, None)]);
    ring.advance(200);
    ring.set_ready(1, true);
    assert_eq!(turns(&mut ring, 200, 245), [(200, Some(1))], "nobody waits, so no timer");
    ring.advance(245);
    assert_eq!((ring.idle_ticks(), ring.left_ticks()), (100, 15), "the second quantum began at 230");
    ring.set_ready(0, true);
    assert_eq!(turns(&mut ring, 245, 320), [(245, Some(1)), (260, Some(0)), (290, Some(1))], "guest 2 sleeps");
    ring.advance(300);
    ring.set_ready(1, false);
    assert_eq!(Decision::from(ring.pick(300)).choice.map(|choice| choice.vcpu), Some(0), "who blocks ends the turn");
    ring.set_ready(0, false);
    assert_eq!(Decision::from(ring.pick(300)).choice, None);
    assert_eq!(ring.used_and_stolen_ticks(1), (45 + 15 + 10, 0));
}

#[test]
fn an_interrupt_of_a_guest_that_blocks_is_forgotten() {
    for reading in [Reading::Masked, Reading::Latched] {
        let mut ring = awake(RingParameters { reading, ..ring(3, OnInterrupt::Reset, !1) });
        assert!(!ring.interrupt(2), "guest 0 may not be pre-empted");
        ring.set_ready(2, false);
        assert!(!ring.interrupt(2), "it sleeps");
        ring.set_ready(2, true);
        assert_eq!(turns(&mut ring, 0, 90), [(0, Some(0)), (30, Some(1)), (60, Some(2))], "{reading:?}");
    }
}

/// MZ-24: an interrupt of the guest that runs gives it no new quantum, neither in its own turn nor in one that it took.
#[test]
fn an_interrupt_of_who_runs_starts_no_quantum() {
    for (at, ends) in [(20, 30), (40, 70)] {
        let mut ring = awake(ring(3, OnInterrupt::Reset, !0));
        ring.advance(at);
        ring.interrupt(0);
        assert_eq!((ring.running(), ring.pick(at).deadline_ticks), (Some(0), ends), "at {at}");
        ring.advance(ends - 5);
        ring.interrupt(0);
        assert_eq!((ring.running(), ring.pick(ends - 5).deadline_ticks), (Some(0), ends), "at {at}, again");
    }
}
