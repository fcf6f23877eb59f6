//! What interrupts of less important drivers take from who is in front of them (`real-time.md` 4.2; QV-35, CH-64).
//!
//! A top half is paid by the driver's server, so those behind that server have it in the budget before them, and those in front have it nowhere. But it comes once only while one of those
//! runs: the interrupt rings again when somebody says `done` on the driver's own time, and that is behind.
//!
//! Rejected: *one top half for all of them*, as the longest passage is counted once. A passage is what somebody less important had begun; interrupts are begun by devices, all of them at
//! once if they like. *A demand above everybody with the driver's budget.* That is what all top halves of a storm may cost, and only those behind the driver wait for a storm.

use super::Line;
use super::times::{INSTRUCTION_NS, TOP_HALF};
use crate::kernel::file::{Component, Interrupt};
use crate::kernel::resolve::Resolver;
use bulkhead_plan::ticks;

impl Resolver<'_> {
    /// For each server how many ticks top halves of drivers behind it take from it, by its place.
    pub(super) fn top_halves(&self, lines: &[Line]) -> Vec<(usize, u64)> {
        let bound = |one: &'_ Component| one.interrupts.iter().filter_map(|it| self.driver(one, it, lines)).collect();
        let drivers: Vec<(usize, u8)> = self.file.component.iter().flat_map(|one| -> Vec<_> { bound(one) }).collect();
        let each_ticks = ticks::round_up(TOP_HALF * INSTRUCTION_NS, self.around.counter_hz);
        let behind = |place: usize, line: &Line| {
            drivers.iter().filter(|(driver, worst)| *driver > place || *worst > line.level && *driver != place).count()
        };
        let taken = |(place, line): (usize, &Line)| (place, each_ticks.saturating_mul(behind(place, line) as u64));
        lines.iter().enumerate().map(taken).filter(|(_, ticks)| *ticks != 0).collect()
    }

    /// The place of the server that pays for an interrupt, and its worst level: with clients, that of its work for the last of them. What is not there is reported elsewhere.
    fn driver(&self, component: &Component, interrupt: &Interrupt, lines: &[Line]) -> Option<(usize, u8)> {
        let takes = |signal: &crate::Located<String>| signal.value == interrupt.signal.value;
        let end_point = component.end_points.iter().find(|one| one.signals.value.iter().any(takes))?;
        let thread = component.threads.iter().find(|thread| thread.name.value == end_point.thread.value)?;
        let name = self.server_of(thread)?;
        let place = lines.iter().position(|line| line.name == name && line.slots.is_none())?;
        let line = lines.get(place)?;
        let clients = line.rule.pibs().map_or(&[][..], |pibs| &pibs.clients);
        let worst = clients.iter().map(|client| client.priority).chain([line.level]).max()?;
        Some((place, worst))
    }
}
