//! Tasks inside guests.

use super::{Scope, at};
use crate::bounds::{CoreTiming, TaskBound, VcpuBound};
use crate::clock::readable;
use crate::suggest;
use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_description::unit::format_duration;
use bulkhead_description::{Code, Diagnostic};
use bulkhead_plan::model::ServerReference;

pub(super) fn check(scope: &Scope, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    // While a server gets nothing for certain, that is reported; the tasks would only repeat it.
    let reported = |vcpu: &VcpuBound| {
        core.servers.iter().any(|server| {
            server.reference.partition == vcpu.vcpu.partition
                && server.vcpu == vcpu.vcpu.vcpu
                && matches!(server.verdict, Verdict::Late { .. } | Verdict::NotFound | Verdict::NoBound { .. })
        })
    };
    for vcpu in core.vcpus.iter().filter(|vcpu| !reported(vcpu)) {
        let mut late_ones = vcpu.tasks.iter().filter(|task| task.is_found && !task.is_kept()).peekable();
        if late_ones.peek().is_some() {
            let advice = suggest::budget_for_tasks(scope.system, &scope.bounds.assumptions, vcpu.vcpu, scope.steps);
            found.extend(late_ones.map(|task| late(scope, vcpu, task, advice)));
        }
    }
}

/// BH0803.
fn late(scope: &Scope, vcpu: &VcpuBound, bound: &TaskBound, advice: Option<(ServerReference, u64)>) -> Diagnostic {
    let partition = vcpu.vcpu.partition;
    let task = scope.system.partitions.get(partition).and_then(|partition| partition.tasks.get(bound.task));
    let name = task.map_or("", |task| &task.name);
    let message = match bound.response_ns {
        Some(response) => format!(
            "task `{name}` of `{}` misses its deadline by {}",
            scope.partition_name(partition),
            readable(response.saturating_sub(bound.deadline_ns))
        ),
        None => format!("task `{name}` of `{}` is never certain to end", scope.partition_name(partition)),
    };
    let spans = scope.partition_spans(partition).and_then(|spans| spans.tasks.get(bound.task));
    let place = spans.map(|spans| spans.deadline.unwrap_or(spans.period));
    let label = match bound.response_ns {
        Some(response) => {
            format!("ends {} after its release at worst, and has {}", readable(response), readable(bound.deadline_ns))
        }
        None => format!("has {}", readable(bound.deadline_ns)),
    };
    let mut diagnostic = at(Diagnostic::new(Code::TaskLate, message), place, label);
    let servers = scope.system.partitions.get(partition).map_or(0, |partition| partition.servers.len());
    if let Some(blackout) = vcpu.blackout_ns {
        let text = format!("its guest may have to wait {} before it runs at all", readable(blackout));
        diagnostic = diagnostic.note(text);
    }
    match advice {
        Some((reference, budget_ns)) => {
            let text = format!("a budget of {} is enough", format_duration(budget_ns));
            match scope.server_spans(reference).and_then(|spans| spans.budget) {
                Some(span) => diagnostic.suggest(span, format!("\"{}\"", format_duration(budget_ns)), text),
                None => diagnostic.help(text),
            }
        }
        None if servers > 0 => {
            diagnostic.help("no budget was found that is enough with this period of its server: choose a shorter one")
        }
        None => diagnostic.help("a shorter quantum or fewer guests on the core would bring its turn sooner"),
    }
}
