//! Keeps another component running: it is told of its fault, reads the record, and begins it again after a while; after too many faults in a second it
//! gives up. All of that is paid by its own server. Who may send it another signal than the child's fault ends it.
//!
//! Its argument says how often and how long: 3020 is three times within a second, each after 20 ms; 0 is the same. A supervisor of several components, or by
//! other policies, is a program of this size: `components/supervisor` has the policies.
#![no_std]
#![no_main]

use bulkhead_abi::plan::POLICY_RESTART;
use bulkhead_component::{call, println};
use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_supervisor::{Kernel, Supervisor};
use bulkhead_world::health::{HealthPlan, State};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where it is told: the end point of its thread, whose first signal is the child's fault.
    told;
    /// The component that it keeps running.
    child;
}

bulkhead_component::counts! {
    /// How often it began the child again.
    resets;
    /// It gave the child up.
    given_up;
}

/// The child's fault, among the bits that it is told.
const FAULT: u64 = 1;

/// The kernel's calls.
struct Calls;

impl Kernel for Calls {
    fn now_ticks(&mut self) -> u64 {
        call::counter_ticks()
    }

    fn fault(&mut self, _child: usize) -> Result<FaultRecord, Code> {
        let record = call::component_fault(child())?;
        println!("child: fault {} of kind {}, at {:#x}", record.number, record.kind, record.program_counter);
        Ok(record)
    }

    fn reset(&mut self, _child: usize) -> Result<(), Code> {
        call::component_reset(child()).inspect(|()| resets::count().add(1))
    }

    // Nobody waits for signs of life of this child, so it is never stopped for silence.
    fn stop(&mut self, _child: usize) {}

    // Not its policy.
    fn halt(&mut self) {}
}

/// What `argument` says.
fn plan(argument: u64, second: u64) -> HealthPlan {
    let argument = if argument == 0 { 3020 } else { argument };
    HealthPlan {
        missed: 1,
        policy: POLICY_RESTART,
        max_restarts: (argument / 1000) as u32,
        within_ticks: second,
        backoff_ticks: argument % 1000 * (second / 1000),
        ..HealthPlan::nobody()
    }
}

fn main(argument: u64) {
    let Ok(version) = call::version() else { return };
    let mut supervisor = Supervisor::new([plan(argument, version.counter_hz)], call::counter_ticks());
    let mut deadline_ticks = 0;
    while supervisor.health(0).is_some_and(|health| health.state() != State::Stopped) {
        let bits = match call::receive(told(), deadline_ticks) {
            // Another signal, and no fault that it would have to look at first.
            Ok((bits, _)) if bits & FAULT == 0 => return println!("keeper: told to end"),
            Ok((bits, _)) => bits & FAULT,
            Err(Code::TimedOut) => 0,
            Err(code) => return println!("keeper: {code:?}"),
        };
        let next_ticks = supervisor.told(&mut Calls, bits);
        deadline_ticks = if next_ticks == u64::MAX { 0 } else { next_ticks };
    }
    given_up::count().add(1);
    println!("child: given up");
}
