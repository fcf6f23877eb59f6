//! Who pays for what the monitor does for a partition: that partition, and nobody who gives the core away to it or takes it from it
//! (SP-13, QV-24; A20 of docs/base-findings.md).

use super::prepared::sporadic;
use super::shared::{Core, WFI, schedule, server};
use super::*;
use crate::interrupts::HYPERVISOR_TIMER;
use crate::life::health::Fault;
use bulkhead_abi::status::REASON_DATA_ABORT;
use bulkhead_schedule::shared::Policy;

const WATCHDOG: u64 = 50_000;

/// A victim with a budget above an attacker that may restart.
fn victim_above_attacker(backoff_ticks: u64) -> Core {
    Core::with(schedule(&[sporadic(0, 1, 20_000, 100_000), server(1, 5)], 2), |slot, partition| {
        (partition.health.policy, partition.health.max_restarts) = (POLICY_RESTART, 8);
        partition.health.backoff_ticks = backoff_ticks;
        partition.health.watchdog_ticks = WATCHDOG * u64::from(slot);
    })
}

impl Core {
    /// What the budget of the first server was charged.
    pub(super) fn charged(&mut self) -> u64 {
        match &self.scheduler().policy {
            Policy::Servers(servers) => servers.usage(0).budgeted_ticks,
            Policy::Ring(_) => unreachable!("a core with servers"),
        }
    }
}

/// The victim interrupts a restart, works for 300 ticks and gives the core back. From then on it pays nothing: the
/// restart continues, and what is done until the new instance's guest runs belongs to that.
#[test]
fn a_restart_is_not_paid_by_who_gives_the_core_away() {
    for is_general in [false, true] {
        let mut core = victim_above_attacker(0);
        core.is_general = is_general;
        core.exit(WFI);
        core.machine.pending.borrow_mut().push_back(40);
        core.own().fault(Fault::new(REASON_DATA_ABORT, 0));
        core.go_on();
        assert_eq!((core.loaded, core.vcpus[1].run), (0, RunState::Restoring));
        let before = core.charged();
        core.machine.list[0].set(0);
        core.pass(300);
        core.machine.ticks_per_reading.set(7);
        core.exit(WFI);
        assert_eq!((core.loaded, core.vcpus[1].run), (1, RunState::Running), "the restart is done");
        assert_eq!(core.charged() - before, 300, "and paid by whom it is for");
    }
}

/// The attacker has its watchdog bite at the very date of the victim's timer. The victim waits until that is dealt with, and is charged
/// from then on.
#[test]
fn the_end_of_a_partition_is_not_paid_by_who_wakes_meanwhile() {
    let mut core = victim_above_attacker(1000);
    let date = core.machine.now.get() + WATCHDOG;
    core.set_timer(date, 1);
    core.exit(WFI);
    assert_eq!((core.loaded, core.armed()), (1, Some(date)));
    core.machine.now.set(date);
    let before = core.charged();
    core.machine.ticks_per_store.set(10);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!((core.loaded, core.vcpus[1].run), (0, RunState::BackOff));
    let took = core.machine.now.get() - date;
    assert!(took > 50, "{took} ticks for stopping it");
    core.set_timer(0, 0);
    core.pass(300);
    core.exit(WFI);
    assert_eq!(core.charged() - before, 300, "{took} ticks were the attacker's");
}
