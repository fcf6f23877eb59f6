//! Health of the non-secure world: each source, each policy, and that nothing starts or stops a world twice (SG-60, SG-61).

use bulkhead_abi::plan::{POLICY_HALT, POLICY_RESTART, POLICY_STOP};
use bulkhead_abi::status;
use bulkhead_world::health::{Event, Health, HealthPlan, LOOP_BYTES, Order, Sample, State};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

const PLAN: HealthPlan = HealthPlan {
    heartbeat_ticks: 100,
    missed: 3,
    stuck_samples: 4,
    policy: POLICY_RESTART,
    max_restarts: 2,
    within_ticks: 10_000,
    backoff_ticks: 50,
};

fn running(plan: HealthPlan, now: u64) -> Health {
    let mut health = Health::new(plan);
    assert_eq!(health.happened(Event::Started, now), Order::Run);
    assert_eq!((health.state(), health.restarts()), (State::Running, 0));
    health
}

/// SG-61: silence of so many heartbeats is a fault, at that instant and not before.
#[test]
fn silence_is_a_fault() {
    let mut health = running(PLAN, 1000);
    assert_eq!((health.elapse(1299), health.next_event_ticks()), (Order::Nothing, Some(1300)));
    health.happened(Event::Heartbeat, 1250);
    assert_eq!((health.elapse(1300), health.next_event_ticks()), (Order::Nothing, Some(1550)));
    assert_eq!(health.elapse(1550), Order::Stand);
    assert_eq!((health.state(), health.reason()), (State::Restarting, status::REASON_WATCHDOG));
    assert_eq!(health.happened(Event::Started, 1560), Order::Nothing, "nobody has ordered it yet");
    // The back-off, then the restart, once.
    assert_eq!((health.elapse(1599), health.next_event_ticks()), (Order::Nothing, Some(1600)));
    assert_eq!((health.elapse(1600), health.elapse(1601)), (Order::Restart, Order::Nothing));
    assert_eq!(health.happened(Event::Started, 1700), Order::Run);
    assert_eq!((health.restarts(), health.faults(), health.next_event_ticks()), (1, 1, Some(2000)));
    let mut unwatched = running(HealthPlan { heartbeat_ticks: 0, ..PLAN }, 0);
    assert_eq!((unwatched.next_event_ticks(), unwatched.elapse(u64::MAX)), (None, Order::Nothing));
}

/// SG-60: the world is suspended, and goes on, and its heart need not beat meanwhile; a restart by the payload is served in any state.
#[test]
fn the_payload_suspends_resumes_and_restarts() {
    let mut health = running(PLAN, 0);
    assert_eq!(health.happened(Event::Suspend, 10), Order::Stand);
    assert_eq!((health.state(), health.elapse(100_000)), (State::Suspended, Order::Nothing));
    for late in [Event::Suspend, Event::Off, Event::Reset, Event::Fault(status::REASON_DATA_ABORT), Event::Started] {
        assert_eq!((health.happened(late, 20), health.state()), (Order::Nothing, State::Suspended), "{late:?}");
    }
    assert_eq!((health.happened(Event::Resume, 100_000), health.next_event_ticks()), (Order::Run, Some(100_300)));
    for before in [Event::Off, Event::Suspend, Event::Reset, Event::Heartbeat] {
        let mut health = running(PLAN, 0);
        health.happened(before, 10);
        assert_eq!(
            (health.happened(Event::Restart, 11), health.state()),
            (Order::Restart, State::Restarting),
            "{before:?}"
        );
        assert_eq!(health.elapse(100_000), Order::Nothing, "a back-off of before is over");
        assert_eq!((health.happened(Event::Started, 20), health.restarts()), (Order::Run, 1));
    }
}

/// SG-61, SG-14: off is an end and no fault; a reset and a reported fault go to the policy.
#[test]
fn ends_and_faults_are_told_apart() {
    let mut off = running(PLAN, 0);
    assert_eq!((off.happened(Event::Off, 1), off.state(), off.faults()), (Order::Stand, State::Off, 0));
    assert_eq!((off.elapse(100_000), off.happened(Event::Resume, 100_000)), (Order::Nothing, Order::Nothing));
    for (event, reason) in
        [(Event::Reset, status::REASON_REQUESTED), (Event::Fault(status::REASON_DATA_ABORT), status::REASON_DATA_ABORT)]
    {
        for (policy, order, state) in [
            (POLICY_STOP, Order::Stand, State::Stopped),
            (POLICY_HALT, Order::Halt, State::Stopped),
            (77, Order::Stand, State::Stopped),
            (POLICY_RESTART, Order::Stand, State::Restarting),
        ] {
            let mut health = running(HealthPlan { policy, ..PLAN }, 0);
            assert_eq!((health.happened(event, 5), health.state(), health.reason()), (order, state, reason));
            assert_eq!(health.happened(event, 6), Order::Nothing, "it stands already");
        }
        let mut health = running(HealthPlan { backoff_ticks: 0, ..PLAN }, 0);
        assert_eq!(health.happened(event, 5), Order::Restart, "at once");
    }
}

/// SG-60: at most so many restarts within the window, then it stays stopped; those outside the window do not count.
#[test]
fn restarts_are_limited_within_a_window() {
    let plan = HealthPlan { backoff_ticks: 0, ..PLAN };
    let mut health = running(plan, 0);
    for now in [0, 10_000, 10_001, 20_002] {
        assert_eq!(health.happened(Event::Reset, now), Order::Restart, "{now}");
        health.happened(Event::Started, now);
    }
    assert_eq!((health.happened(Event::Reset, 20_001), health.state()), (Order::Stand, State::Stopped));
    let mut never = running(HealthPlan { max_restarts: 0, ..plan }, 0);
    assert_eq!(never.happened(Event::Reset, u64::MAX), Order::Stand);
    let mut often = running(HealthPlan { max_restarts: u32::MAX, ..plan }, 0);
    for now in 0..128 {
        assert_eq!(often.happened(Event::Reset, now), Order::Restart);
        often.happened(Event::Started, now);
    }
    assert_eq!(often.happened(Event::Reset, 128), Order::Stand, "no more are remembered");
}

/// SG-62: a damaged image stops it whatever the policy.
#[test]
fn a_damaged_image_is_not_tried_again() {
    let mut health = Health::new(PLAN);
    assert_eq!(health.happened(Event::Damaged, 1), Order::Stand);
    assert_eq!((health.state(), health.reason()), (State::Stopped, status::REASON_IMAGE_DAMAGED));
    assert_eq!(health.happened(Event::Started, 2), Order::Nothing);
}

/// SG-61: a world that hangs with everything masked is found without its help; healthy worlds are not.
#[test]
fn lack_of_progress_is_a_fault_and_three_healthy_habits_are_not() {
    let at = |program_counter, calls, waiting| Event::Sample(Sample { program_counter, calls, waiting });
    let orders = |samples: &dyn Fn(u64) -> Event| {
        let mut health = running(HealthPlan { heartbeat_ticks: 0, ..PLAN }, 0);
        (0..50).map(|number| health.happened(samples(number), number)).position(|order| order != Order::Nothing)
    };
    // A loop of one instruction and one of many; an interrupt waits from the first sample on. Four without progress after the first.
    assert_eq!(orders(&|_| at(0x4000, 7, 1)), Some(4));
    assert_eq!(orders(&|number| at(0x4000 + number * 8 % 64, 7, 1 | number << 4)), Some(4));
    // It waits for an interrupt; a loop that calls; a long way with interrupts masked; interrupts that come and go.
    assert_eq!(orders(&|_| at(0x4000, 7, 0)), None);
    assert_eq!(orders(&|number| at(0x4000, number / 3, 1)), None);
    assert_eq!(orders(&|number| at(number * (LOOP_BYTES / 2), 7, 1)), None);
    assert_eq!(orders(&|number| at(0x4000, 7, 1 << (number / 3 % 64))), None);
    // Each interrupt is served, though another one always waits by then.
    assert_eq!(orders(&|number| at(0x4000, 7, 3 << (number % 60))), None);
    // The samples before a suspension or a restart do not count.
    let mut health = running(PLAN, 0);
    for number in 0..40 {
        assert_eq!(health.happened(at(0x4000, 7, 1), number), Order::Nothing);
        if number % 4 == 3 {
            health.happened(Event::Suspend, number);
            health.happened(Event::Resume, number);
        }
    }
    let mut unjudged = running(HealthPlan { stuck_samples: 0, ..PLAN }, 0);
    assert!((0..100).all(|number| unjudged.happened(at(0x4000, 7, 1), number) == Order::Nothing));
}

fn events() -> impl Strategy<Value = Vec<(Option<Event>, u64)>> {
    let sample = (0..3u64, 0..2u64, 0..4u64)
        .prop_map(|(program_counter, calls, waiting)| Event::Sample(Sample { program_counter, calls, waiting }));
    let event = prop_oneof![
        sample,
        Just(Event::Heartbeat),
        Just(Event::Off),
        Just(Event::Reset),
        any::<u32>().prop_map(Event::Fault),
        Just(Event::Suspend),
        Just(Event::Resume),
        Just(Event::Restart),
        Just(Event::Started),
        Just(Event::Damaged),
    ];
    vec((proptest::option::of(event), 0..200u64), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// SG-60: in any history the world runs exactly between an order to run and the next other order, and its state says so; nothing is
    /// due in the past, and a policy restarts no more than it may.
    #[test]
    fn orders_and_states_agree(events in events(), policy in 0..5u32, max in 0..4u32) {
        let plan = HealthPlan { policy, max_restarts: max, within_ticks: u64::MAX, ..PLAN };
        let (mut health, mut now, mut runs, mut asked) = (Health::new(plan), 0, false, 0);
        for (event, later) in events {
            now += later;
            let order = match event {
                Some(event) => { asked += u32::from(event == Event::Restart); health.happened(event, now) }
                None => health.elapse(now),
            };
            match order {
                Order::Nothing => (),
                Order::Run => { assert!(!runs); runs = true; }
                Order::Stand => { runs = false; }
                Order::Restart => { runs = false; assert_eq!(health.state(), State::Restarting); }
                Order::Halt => { assert_eq!(policy, POLICY_HALT); runs = false; }
            }
            assert_eq!(health.state() == State::Running, runs);
            if event.is_none() {
                assert!(health.next_event_ticks().is_none_or(|due| due > now));
            }
            assert!(health.restarts() <= asked + max);
        }
    }
}
