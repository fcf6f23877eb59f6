//! BH0807: promises whose bounds were not found, because the search took too many steps.

use super::interrupts::{self, source_name};
use super::{Scope, at};
use crate::bounds::CoreTiming;
use crate::clock::readable;
use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_description::source::Span;
use bulkhead_description::{Code, Diagnostic};

pub(super) fn check(scope: &Scope, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    for server in core.servers.iter().filter(|server| server.verdict == Verdict::NotFound) {
        let Some((budget_ns, period_ns)) = server.budget_and_period_ns else { continue };
        let name = scope.server_name(server.reference);
        let label = format!("promises {} in every {}", readable(budget_ns), readable(period_ns));
        let place = scope.place(server.reference, |spans| spans.budget.or(spans.share));
        found.push(refuse(format!("no response of {name} was found"), place, label));
    }
    for vcpu in &core.vcpus {
        // Without a bound for its server that is said already.
        let without = |server: &crate::bounds::ServerBound| {
            server.reference.partition == vcpu.vcpu.partition && server.verdict == Verdict::NotFound
        };
        let late = vcpu.tasks.iter().filter(|task| !task.is_found && !core.servers.iter().any(without));
        let Some(first) = late.clone().next() else { continue };
        let partition = scope.partition_name(vcpu.vcpu.partition);
        let message = match late.count() {
            1 => format!("no response of a task of `{partition}` was found"),
            count => format!("no responses of {count} tasks of `{partition}` were found"),
        };
        let spans = scope.partition_spans(vcpu.vcpu.partition).and_then(|spans| spans.tasks.get(first.task));
        let place = spans.map(|spans| spans.deadline.unwrap_or(spans.period));
        found.push(refuse(message, place, format!("has {}", readable(first.deadline_ns))));
    }
    for interrupt in core.interrupts.iter().filter(|interrupt| !interrupt.is_found) {
        let Some(deadline_ns) = interrupt.deadline_ns else { continue };
        let partition = scope.partition_name(interrupt.vcpu.partition);
        let message =
            format!("no bound for interrupts of `{partition}` ({}) was found", source_name(scope.system, interrupt));
        let label = format!("the deadline is {}", readable(deadline_ns));
        found.push(refuse(message, interrupts::place(scope, interrupt), label));
    }
}

fn refuse(message: String, place: Option<Span>, label: String) -> Diagnostic {
    at(Diagnostic::new(Code::BoundNotFound, message), place, label)
        .note("the search took too many steps: the core is all but full, or its periods have no common divisor")
        .help("leave more of the core to those below, or use periods that are multiples of each other")
}
