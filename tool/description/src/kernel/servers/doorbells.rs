//! What doorbells of wires take from the servers of the instance that hears them (`real-time.md` 4.2, limited interrupts; CH-32, CH-37).
//!
//! A doorbell interrupts whatever runs. The wire's server is charged for the work, as a debt if it has nothing, so the work is above every server and no budget holds it back: the
//! limiter of the monitor does, and nothing else that the receiving side can rely on. `limits` of components are not counted. Within an instance the kernel's part of a signal is
//! time of the server that sends (`kernel.md` 3, *who pays*), which can only send while it is chosen, so no limit makes another server's response shorter or longer. To another
//! instance they are a promise of that instance about itself.
//!
//! Rejected: *entries instead of doorbells*. A sender may fill the ring before it rings, and each doorbell that is let through finds sixteen entries then. *To refuse what does not fit*:
//! a peer that is known to send less is common, and CH-37 warns of a doorbell without any limit too; but no bound is promised then.

use super::Line;
use super::times::{INSTRUCTION_NS, PASSAGE};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::kernel::devices::Rings;
use crate::kernel::resolve::Resolver;
use crate::unit::format_duration;
use bulkhead_analysis::core_bounds::{CoreBounds, Verdict};
use bulkhead_analysis::demand::Demand;
use bulkhead_plan::model::Limiter;
use bulkhead_plan::ticks;

/// Passages of the kernel for a doorbell: one with the entry and four signals, four with the rest of a full ring of sixteen and the look that finds it empty, and one up to the thread.
/// None is longer than [`PASSAGE`], whose test fills eight rings.
const PASSAGES: u64 = 6;
/// What the monitor takes for a doorbell, both sides together, as `./x bench costs.doorbell` is promised, and somewhat more.
const MONITOR: u64 = 200;
/// Instructions that a doorbell takes at most from who is interrupted.
const DOORBELL: u64 = PASSAGES * PASSAGE + MONITOR;

impl Resolver<'_> {
    /// What the doorbells of wires take, above every server. A limiter for all doorbells together is counted once.
    pub(super) fn doorbells(&self) -> Vec<Demand> {
        let mut limiters: Vec<Rings> = Vec::new();
        for wire in &self.file.wire {
            let rings = self.around.port(&wire.port.value).map_or(Rings::Never, |port| port.rings);
            if !matches!(rings, Rings::Together(_)) || !limiters.contains(&rings) {
                limiters.push(rings);
            }
        }
        limiters.into_iter().filter_map(|rings| demand(rings, self.around.counter_hz)).collect()
    }

    /// Warns of the first server whose budget is certain without doorbells, and is not beside as many as the limiters let through.
    pub(super) fn rung(&mut self, lines: &[Line], alone: &CoreBounds, rung: &CoreBounds) {
        let hz = self.around.counter_hz;
        let both = lines.iter().zip(alone.servers.iter().zip(&rung.servers));
        let mut late = both.filter(|(_, (alone, rung))| {
            matches!(alone.verdict, Verdict::Fits { .. }) && !matches!(rung.verdict, Verdict::Fits { .. })
        });
        let Some((line, (_, found))) = late.next() else { return };
        let more = late.count();
        let (_, period_ticks) = line.rule.budget().unwrap_or_default();
        let time = |ticks: u64| format_duration(ticks::to_ns(ticks, hz));
        let takes = match found.response_ticks() {
            Some(ticks) => {
                format!("has it after {}, which is {} too late", time(ticks), time(ticks.saturating_sub(period_ticks)))
            }
            None => String::from("has it at no time that was found"),
        };
        let message =
            format!("server `{}` is promised nothing: others may ring the doorbells of wires too often", line.name);
        let others = match more {
            0 => String::new(),
            1 => String::from("; so is one more server"),
            more => format!("; so are {more} more servers"),
        };
        let mut diagnostic = Diagnostic::new(Code::DoorbellsAbove, message)
            .at(line.span, format!("is due within {} and {takes}{others}", time(period_ticks)));
        for wire in &self.file.wire {
            if let Some(label) = self.around.port(&wire.port.value).and_then(|port| label(port.rings)) {
                diagnostic = diagnostic.at(wire.port.span, label);
            }
        }
        let each = format_duration(DOORBELL * INSTRUCTION_NS);
        self.push(
            diagnostic
                .note(format!("a doorbell is counted as {each} of the kernel's time: it may find a full ring"))
                .help("let the channel's doorbell ring less often, for example `doorbell = { limit = 2, per = \"10 ms\" }`"),
        );
    }
}

/// What a wire's doorbell takes.
fn demand(rings: Rings, hz: u64) -> Option<Demand> {
    match rings {
        Rings::Never => None,
        Rings::Unlimited => Some(Demand::Unlimited),
        Rings::Own(limiter) | Rings::Together(limiter) => Some(Demand::Events {
            cost_ticks: ticks::round_up(DOORBELL * INSTRUCTION_NS, hz),
            events: u64::from(limiter.events),
            // As the monitor's plan has it.
            period_ticks: ticks::round_up(limiter.period_ns, hz),
        }),
    }
}

/// How often it may ring, in words.
fn label(rings: Rings) -> Option<String> {
    let often = |limiter: Limiter| format!("{} in each {}", limiter.events, format_duration(limiter.period_ns));
    match rings {
        Rings::Never => None,
        Rings::Unlimited => Some(String::from("may ring without a limit")),
        Rings::Own(limiter) => Some(format!("may ring {}", often(limiter))),
        Rings::Together(limiter) => Some(format!("may ring {}, with all others to the partition", often(limiter))),
    }
}
