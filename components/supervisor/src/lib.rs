//! The supervisor's library half: what follows from the fault of a component (`kernel.md` 5, 7 and 9).
//!
//! The kernel ends what faulted and notifies the supervisor's end point. What happens then is a policy, the one that partitions have (`health`): stop,
//! halt, or begin again after a wait, so often in so long. The machine of states is that of `core/world`, so one vocabulary says what is wrong
//! with a component, a partition and a world.
//!
//! Each child has two bits of the end point: bit n says that child n faulted, bit n + 32 is its sign of life. A notification says that
//! there is news and no more: whether there was a fault is told by the number in its record, so one that is sent twice counts once.
//!
//! **A crash loop is bounded twice.** A child is reset at most `max_restarts` times within `within_ticks`, and then stays stopped; and each fault is one notification
//! and one turn of [`Supervisor::told`], which the supervisor's own server pays for. Several faults between two turns of it are one, since
//! a child that was not reset cannot fault again.
//!
//! Nothing here touches a register: the kernel is a trait.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

use bulkhead_abi::status;
use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_world::health::{Event, Health, HealthPlan, Order};

/// Most children: each has two bits of one end point.
pub const MOST_CHILDREN: usize = 32;

/// The kernel's calls that a supervisor makes.
pub trait Kernel {
    /// The counter.
    fn now_ticks(&mut self) -> u64;

    /// The latest fault of a child.
    ///
    /// # Errors
    /// What `component fault` answers.
    fn fault(&mut self, child: usize) -> Result<FaultRecord, Code>;

    /// Begins a child again.
    ///
    /// # Errors
    /// What `component reset` answers.
    fn reset(&mut self, child: usize) -> Result<(), Code>;

    /// Stops a child that runs: it was silent. One that faulted stands already.
    fn stop(&mut self, child: usize);

    /// Ends the instance: the policy of a child is `halt`.
    fn halt(&mut self);
}

#[derive(Clone, Debug)]
struct Child {
    health: Health,
    /// Number of the latest fault that was counted.
    faults: u16,
}

/// A supervisor of a number of children.
#[derive(Clone, Debug)]
pub struct Supervisor<const CHILDREN: usize> {
    children: [Child; CHILDREN],
}

impl<const CHILDREN: usize> Supervisor<CHILDREN> {
    /// Children that were started just now, with these policies.
    #[must_use]
    pub fn new(plans: [HealthPlan; CHILDREN], now_ticks: u64) -> Self {
        const { assert!(CHILDREN <= MOST_CHILDREN) };
        let children = plans.map(|plan| {
            let mut health = Health::new(plan);
            // The kernel has started it at boot.
            let _ = health.happened(Event::Started, now_ticks);
            Child { health, faults: 0 }
        });
        Self { children }
    }

    /// A child's health.
    #[must_use]
    pub fn health(&self, child: usize) -> Option<&Health> {
        self.children.get(child).map(|child| &child.health)
    }

    /// Acts on what was sent to the end point (0: nothing, its deadline has passed). Returns the next deadline; `u64::MAX` for none.
    pub fn told(&mut self, kernel: &mut impl Kernel, bits: u64) -> u64 {
        let now = kernel.now_ticks();
        let mut next_ticks = u64::MAX;
        for (number, child) in self.children.iter_mut().enumerate() {
            let bit = 1u64.wrapping_shl(number as u32);
            if bits & bit.wrapping_shl(MOST_CHILDREN as u32) != 0 {
                let _ = child.health.happened(Event::Heartbeat, now);
            }
            if bits & bit != 0 {
                let order = child.look(kernel, number, now);
                child.obey(kernel, number, order, now);
            }
            let was_running = child.health.state() == bulkhead_world::health::State::Running;
            let order = child.health.elapse(now);
            if was_running && order != Order::Nothing {
                kernel.stop(number);
            }
            child.obey(kernel, number, order, now);
            next_ticks = next_ticks.min(child.health.next_event_ticks().unwrap_or(u64::MAX));
        }
        next_ticks
    }
}

impl Child {
    /// Looks whether there is a fault that was not counted.
    fn look(&mut self, kernel: &mut impl Kernel, number: usize, now: u64) -> Order {
        match kernel.fault(number) {
            Ok(record) if record.number != self.faults => {
                self.faults = record.number;
                self.health.happened(Event::Fault(status::REASON_BAD_ACCESS), now)
            }
            _ => Order::Nothing,
        }
    }

    fn obey(&mut self, kernel: &mut impl Kernel, number: usize, order: Order, now: u64) {
        match order {
            Order::Nothing | Order::Stand | Order::Run => {}
            Order::Halt => kernel.halt(),
            Order::Restart => {
                let event = if kernel.reset(number).is_ok() { Event::Started } else { Event::Damaged };
                let _ = self.health.happened(event, now);
            }
        }
    }
}
