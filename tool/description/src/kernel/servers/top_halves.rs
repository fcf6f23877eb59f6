//! What interrupts of other servers' drivers take from a server (`real-time.md` 4.2; QV-35, CH-64).
//!
//! A top half is paid by the driver's server, as a debt if nothing is left. Those in front of that server have it in no budget, but it comes once only while one of those runs: the interrupt
//! rings again when somebody says `done` on the driver's own time, and that is behind. Those behind have in the budget before them what that budget pays; beyond it there is one top half
//! for each interrupt, since a debt is repaid before more is used.
//!
//! Rejected: *one top half for all of them*, as the longest passage is counted once. A passage is what somebody less important had begun; interrupts are begun by devices, all of them at
//! once if they like. *A demand above everybody with the driver's budget.* That is what all top halves of a storm may cost, and only those behind the driver wait for a storm.

use super::Line;
use super::times::{INSTRUCTION_NS, TOP_HALF};
use crate::kernel::file::{Component, Interrupt};
use crate::kernel::resolve::Resolver;
use bulkhead_plan::ticks;

impl Resolver<'_> {
    /// For each server how many ticks top halves of other servers' drivers take from it, by its place.
    pub(super) fn top_halves(&self, lines: &[Line]) -> Vec<(usize, u64)> {
        let bound = |one: &'_ Component| one.interrupts.iter().filter_map(|it| self.driver(one, it, lines)).collect();
        let drivers: Vec<usize> = self.file.component.iter().flat_map(|one| -> Vec<_> { bound(one) }).collect();
        let each_ticks = ticks::round_up(TOP_HALF * INSTRUCTION_NS, self.around.counter_hz);
        let others = |place: usize| drivers.iter().filter(|driver| **driver != place).count() as u64;
        let taken = (0..lines.len()).map(|place| (place, each_ticks.saturating_mul(others(place))));
        taken.filter(|(_, ticks)| *ticks != 0).collect()
    }

    /// The place of the server that pays for an interrupt. What is not there is reported elsewhere.
    fn driver(&self, component: &Component, interrupt: &Interrupt, lines: &[Line]) -> Option<usize> {
        let takes = |signal: &crate::Located<String>| signal.value == interrupt.signal.value;
        let end_point = component.end_points.iter().find(|one| one.signals.value.iter().any(takes))?;
        let thread = component.threads.iter().find(|thread| thread.name.value == end_point.thread.value)?;
        let name = self.server_of(thread)?;
        lines.iter().position(|line| line.name == name && line.slots.is_none())
    }
}
