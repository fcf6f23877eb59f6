//! Interrupts: limits that limit, and handlers that run in time.

use super::{Scope, at};
use crate::bounds::{CoreTiming, InterruptBound, InterruptSource};
use crate::clock::{Clock, readable};
use crate::cores::SharedModel;
use bulkhead_description::source::Span;
use bulkhead_description::{Code, Diagnostic};
use bulkhead_plan::model::{Limiter, RouteRule};

pub(super) fn check(scope: &Scope, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    found.extend(core.interrupts.iter().filter_map(|interrupt| deadline(scope, core, interrupt)));
}

/// Limits of a core's routes.
pub(super) fn check_limits(scope: &Scope, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    found.extend(core.interrupts.iter().filter_map(|interrupt| limit(scope, interrupt)));
}

/// The name of a source in messages.
pub(crate) fn source_name(scope_system: &bulkhead_plan::model::System, interrupt: &InterruptBound) -> String {
    let device = |place: usize| {
        let partition = scope_system.partitions.get(interrupt.vcpu.partition)?;
        let device = scope_system.board.devices.get(*partition.devices.get(place)?)?;
        Some(device.name.clone())
    };
    match interrupt.source {
        InterruptSource::Device(place) => device(place).unwrap_or_default(),
        InterruptSource::Others => String::from("timer, console, doorbells"),
    }
}

pub(super) fn place(scope: &Scope, interrupt: &InterruptBound) -> Option<Span> {
    let spans = scope.partition_spans(interrupt.vcpu.partition)?;
    match interrupt.source {
        InterruptSource::Device(place) => {
            let device = spans.devices.get(place)?;
            Some(device.deadline.unwrap_or(device.whole))
        }
        InterruptSource::Others => Some(spans.route.unwrap_or(spans.name)),
    }
}

/// BH0804 for the routes of a core.
fn limit(scope: &Scope, interrupt: &InterruptBound) -> Option<Diagnostic> {
    let limit = interrupt.limit?;
    let spans = scope.partition_spans(interrupt.vcpu.partition)?;
    let place = match interrupt.source {
        InterruptSource::Device(place) => spans.devices.get(place).map(|device| device.limit.unwrap_or(device.whole)),
        InterruptSource::Others => spans.route,
    };
    too_wide(scope, limit, place)
}

/// BH0804 for doorbells whose receiver is on a shared core.
pub(super) fn check_doorbells(scope: &Scope, found: &mut Vec<Diagnostic>) {
    let shares = |partition: usize| scope.bounds.cores.iter().any(|core| core.core.core_use.runs(partition));
    for (number, channel) in scope.system.channels.iter().enumerate() {
        // A limit of all senders together is one limit, whose place is the partition.
        let limit = channel.doorbell.and_then(|doorbell| doorbell.limiter);
        if let Some(limit) = limit.filter(|_| shares(channel.destination.partition)) {
            let place = scope.spans.channels.get(number).map(|spans| spans.doorbell.unwrap_or(spans.name));
            found.extend(too_wide(scope, limit, place));
        }
    }
    for (number, device) in scope.system.virtio.iter().enumerate() {
        let own =
            |receiver: usize| scope.system.partitions.get(receiver).is_some_and(|one| one.doorbell_limit.is_none());
        if [device.front, device.back].into_iter().any(|receiver| shares(receiver) && own(receiver)) {
            let place = scope.spans.virtio.get(number).map(|spans| spans.doorbell.unwrap_or(spans.name));
            found.extend(too_wide(scope, device.limiter, place));
        }
    }
    for (receiver, partition) in scope.system.partitions.iter().enumerate() {
        if let Some(limit) = partition.doorbell_limit.filter(|_| shares(receiver)) {
            let place = scope.partition_spans(receiver).map(|spans| spans.doorbell_limit.unwrap_or(spans.name));
            found.extend(too_wide(scope, limit, place));
        }
    }
}

fn too_wide(scope: &Scope, limit: Limiter, place: Option<Span>) -> Option<Diagnostic> {
    let clock = Clock::new(scope.hz());
    let cost = scope.costs.entry.saturating_mul(u64::from(limit.events));
    if cost < clock.ticks_down(limit.period_ns) {
        return None;
    }
    let message = format!(
        "{} interrupts in {} are no limit: the core would do nothing else",
        limit.events,
        readable(limit.period_ns)
    );
    let each = readable(clock.ns_up(scope.costs.entry));
    let diagnostic = at(Diagnostic::new(Code::LimitTooWide, message), place, format!("each costs {each} at EL2"));
    Some(diagnostic.help("allow fewer, or make the window longer"))
}

/// BH0806 and BH0820.
fn deadline(scope: &Scope, core: &CoreTiming, interrupt: &InterruptBound) -> Option<Diagnostic> {
    let deadline = interrupt.deadline_ns.filter(|_| interrupt.is_found)?;
    let is_late = |bound: Option<u64>| bound.is_none_or(|bound| bound > deadline);
    let is_ring = matches!(core.core.model, SharedModel::Ring { .. });
    // Under the round robin both amounts are of one interrupt: its handler's first and last instruction.
    let certain = if is_ring { interrupt.drained_ns } else { interrupt.conforming_ns };
    let name = source_name(scope.system, interrupt);
    let partition = scope.partition_name(interrupt.vcpu.partition);
    let what = if interrupt.handler_ns.is_some() { "handled" } else { "noticed" };
    if is_late(certain) {
        let message = format!("interrupts of `{partition}` ({name}) are not certain to be {what} in time");
        let label = match certain {
            Some(bound) => {
                format!("{what} within {} at worst, the deadline is {}", readable(bound), readable(deadline))
            }
            None => format!("no bound, the deadline is {}", readable(deadline)),
        };
        let diagnostic = at(Diagnostic::new(Code::InterruptLate, message), place(scope, interrupt), label);
        return Some(match interrupt.rule {
            RouteRule::Defer => diagnostic.help("the route `defer` waits for an idle core: use `priority`"),
            _ if is_ring => diagnostic
                .help("use `kind = \"fixed-priority\"` and a server with `gate = \"interrupt\"` and a small budget"),
            _ => diagnostic
                .help("give it a server with `gate = \"interrupt\"`, a small budget and an important priority"),
        });
    }
    if !is_late(interrupt.drained_ns) {
        return None;
    }
    let message = format!("interrupts of `{partition}` ({name}) are late when the budget was just used up");
    let label = match interrupt.drained_ns {
        Some(bound) => format!("then {what} within {}, the deadline is {}", readable(bound), readable(deadline)),
        None => format!("then no bound, the deadline is {}", readable(deadline)),
    };
    let diagnostic = at(Diagnostic::new(Code::DrainedLate, message), place(scope, interrupt), label);
    let in_hand = interrupt.conforming_ns.map_or_else(String::new, readable);
    Some(
        diagnostic
            .note(format!("with the budget in hand it takes {in_hand}"))
            .help("a shorter period of its server with a smaller budget makes the wait shorter"),
    )
}
