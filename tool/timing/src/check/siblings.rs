//! vCPUs of one partition that wait for one of them on a shared core.

use super::{Scope, at};
use crate::bounds::{CoreTiming, VcpuBound};
use crate::clock::readable;
use bulkhead_description::{Code, Diagnostic, Severity};
use bulkhead_plan::model::ServerReference;

/// A wait that Linux takes for a CPU that is stuck is many times as long.
const LONG_ANSWER_NS: u64 = 1_000_000_000;

pub(super) fn check(scope: &Scope<'_>, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    // What is said of its servers, or of those above them, is the reason.
    if found.iter().any(|one| one.code.severity() == Severity::Error) {
        return;
    }
    let siblings = core.vcpus.iter().filter(|vcpu| {
        scope.system.partitions.get(vcpu.vcpu.partition).is_some_and(|partition| partition.cores.len() > 1)
    });
    found.extend(siblings.filter(|vcpu| vcpu.is_found).filter_map(|vcpu| judge(scope, core, vcpu)));
}

fn judge(scope: &Scope<'_>, core: &CoreTiming, vcpu: &VcpuBound) -> Option<Diagnostic> {
    let name = format!("vCPU {} of `{}`", vcpu.vcpu.vcpu, scope.partition_name(vcpu.vcpu.partition));
    let mut servers = core.servers.iter().map(|server| server.reference);
    let own = servers.find(|one: &ServerReference| {
        one.partition == vcpu.vcpu.partition && scope.server(*one).is_some_and(|server| server.vcpu == vcpu.vcpu.vcpu)
    });
    let core_span = || scope.partition_spans(vcpu.vcpu.partition)?.cores.get(vcpu.vcpu.vcpu).copied();
    let place = own.and_then(|own| scope.place(own, |_| None)).or_else(core_span);
    match vcpu.answer_ns {
        Some(answer) if vcpu.supply_ppm > 0 && answer <= LONG_ANSWER_NS => None,
        Some(answer) if vcpu.supply_ppm > 0 => {
            let message = format!("{name} may not answer its siblings for {}", readable(answer));
            let diagnostic = at(Diagnostic::new(Code::SlowSibling, message), place, "others have its core so long");
            Some(diagnostic.help("give it the same share of the core in shorter periods"))
        }
        _ => {
            let message = format!("{name} is promised no time, and its siblings may wait for it");
            let diagnostic =
                at(Diagnostic::new(Code::SiblingStarves, message), place, "others may keep its core for ever");
            Some(diagnostic.help("give budgets to the servers above it, or tasks to a trusted guest there"))
        }
    }
}
