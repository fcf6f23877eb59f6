//! What follows from faults: each policy, back-off, and that a crash loop is bounded.

use bulkhead_abi::plan::{POLICY_HALT, POLICY_RESTART, POLICY_STOP};
use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_supervisor::{Kernel, Supervisor};
use bulkhead_world::health::{HealthPlan, State};

const PLAN: HealthPlan = HealthPlan {
    heartbeat_ticks: 0,
    missed: 1,
    stuck_samples: 0,
    policy: POLICY_RESTART,
    max_restarts: 3,
    within_ticks: 1_000,
    backoff_ticks: 50,
};

/// Components that fault as they are told.
#[derive(Default)]
struct Fake {
    now: u64,
    faults: [u16; 2],
    resets: Vec<(usize, u64)>,
    stops: Vec<usize>,
    halts: u32,
    is_gone: bool,
}

impl Kernel for Fake {
    fn now_ticks(&mut self) -> u64 {
        self.now
    }
    fn fault(&mut self, child: usize) -> Result<FaultRecord, Code> {
        Ok(FaultRecord { number: self.faults[child], ..Default::default() })
    }
    fn reset(&mut self, child: usize) -> Result<(), Code> {
        if self.is_gone {
            return Err(Code::Gone);
        }
        self.resets.push((child, self.now));
        Ok(())
    }
    fn stop(&mut self, child: usize) {
        self.stops.push(child);
    }
    fn halt(&mut self) {
        self.halts += 1;
    }
}

#[test]
fn a_fault_is_followed_by_a_reset_after_the_back_off() {
    let mut kernel = Fake { now: 100, ..Default::default() };
    let mut supervisor = Supervisor::new([PLAN; 2], 0);
    kernel.faults[1] = 1;
    assert_eq!(supervisor.told(&mut kernel, 2), 150);
    assert_eq!((kernel.resets.len(), supervisor.health(1).expect("a child").state()), (0, State::Restarting));
    // The same fault told twice is one.
    kernel.now = 120;
    assert_eq!(supervisor.told(&mut kernel, 2), 150);
    kernel.now = 150;
    assert_eq!(supervisor.told(&mut kernel, 0), u64::MAX);
    assert_eq!(kernel.resets, [(1, 150)]);
    // Nor is it a fault of the one that runs now.
    supervisor.told(&mut kernel, 2);
    assert_eq!(supervisor.health(1).map(|health| (health.restarts(), health.faults())), Some((1, 1)));
    assert_eq!(supervisor.health(0).map(|health| health.state()), Some(State::Running), "the other one is left alone");
    assert!(supervisor.health(2).is_none());
}

/// A component that faults at once each time it is reset: in any window there are `max_restarts` resets, and then none.
#[test]
fn a_crash_loop_is_bounded() {
    let mut kernel = Fake::default();
    let mut supervisor = Supervisor::new([PLAN; 2], 0);
    for _ in 0..100 {
        kernel.now += 10;
        let runs = supervisor.health(0).expect("a child").state() == State::Running;
        kernel.faults[0] += u16::from(runs);
        supervisor.told(&mut kernel, u64::from(runs));
    }
    assert_eq!(kernel.resets.len(), 3, "{:?}", kernel.resets);
    assert_eq!(supervisor.health(0).map(|health| health.state()), Some(State::Stopped));
    // Slowly enough it may crash for ever, and any window of it keeps the bound.
    let mut supervisor = Supervisor::new([HealthPlan { max_restarts: 3, ..PLAN }; 2], 0);
    let mut kernel = Fake::default();
    for _ in 0..200 {
        kernel.now += 400;
        kernel.faults[0] += 1;
        supervisor.told(&mut kernel, 1);
        kernel.now += 50;
        supervisor.told(&mut kernel, 0);
    }
    assert_eq!(kernel.resets.len(), 200);
    let times: Vec<u64> = kernel.resets.iter().map(|(_, time)| *time).collect();
    assert!(times.windows(4).all(|four| four[3] - four[0] > PLAN.within_ticks), "four in a window");
}

#[test]
fn each_policy_does_what_it_says() {
    for (policy, state, halts) in [(POLICY_STOP, State::Stopped, 0), (POLICY_HALT, State::Stopped, 1)] {
        let mut kernel = Fake { now: 10, ..Default::default() };
        let mut supervisor = Supervisor::new([HealthPlan { policy, ..PLAN }; 1], 0);
        kernel.faults[0] = 1;
        assert_eq!(supervisor.told(&mut kernel, 1), u64::MAX);
        assert_eq!(supervisor.health(0).map(|health| health.state()), Some(state));
        assert_eq!((kernel.halts, kernel.resets.len()), (halts, 0));
    }
    // A child that is not there any more stays stopped, and is not asked for again and again.
    let mut kernel = Fake { now: 10, is_gone: true, ..Default::default() };
    let mut supervisor = Supervisor::new([HealthPlan { backoff_ticks: 0, ..PLAN }; 1], 0);
    kernel.faults[0] = 1;
    assert_eq!(supervisor.told(&mut kernel, 1), u64::MAX);
    assert_eq!(supervisor.health(0).map(|health| health.state()), Some(State::Stopped));
}

#[test]
fn silence_is_a_fault_and_the_child_is_stopped_first() {
    let plan = HealthPlan { heartbeat_ticks: 100, missed: 2, ..PLAN };
    let mut kernel = Fake::default();
    let mut supervisor = Supervisor::new([plan; 1], 0);
    assert_eq!(supervisor.told(&mut kernel, 0), 200);
    kernel.now = 150;
    assert_eq!(supervisor.told(&mut kernel, 1 << 32), 350, "a sign of life");
    kernel.now = 350;
    assert_eq!(supervisor.told(&mut kernel, 0), 400);
    assert_eq!((&kernel.stops[..], kernel.resets.len()), (&[0][..], 0));
    kernel.now = 400;
    supervisor.told(&mut kernel, 0);
    assert_eq!((kernel.resets.len(), supervisor.health(0).map(|health| health.state())), (1, Some(State::Running)));
}
