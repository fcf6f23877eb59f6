//! Time tables and the published round robin.

use super::{Scope, at};
use crate::bounds::CoreTiming;
use crate::clock::{Clock, readable};
use crate::cores::SharedModel;
use bulkhead_analysis::core_model::{CoreModel, Gate, TimeTable};
use bulkhead_analysis::table::{Share, ShareFault, TableFault, faults, share_fault};
use bulkhead_description::{Code, Diagnostic};
use bulkhead_plan::model::{OnInterrupt, RouteRule, ScheduleKind};

pub(super) fn check(scope: &Scope, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    match &core.core.model {
        SharedModel::Servers(model) => {
            if let Some(table) = &model.table {
                found.extend(gaps(scope, core, table));
                shares(scope, core, model, table, found);
            }
        }
        SharedModel::Ring { .. } => found.extend(policy(scope, core)),
    }
}

/// BH0827, one diagnostic for the whole table.
fn gaps(scope: &Scope, core: &CoreTiming, table: &TimeTable) -> Option<Diagnostic> {
    let clock = Clock::new(scope.hz());
    let faults = faults(table.major_ticks, &table.windows, table.passage_ticks);
    let lost = |fault: &TableFault| match fault {
        TableFault::NoGap { window, lost_ticks } => Some((*window, clock.ns_up(*lost_ticks))),
        _ => None,
    };
    let losses: Vec<(usize, u64)> = faults.iter().filter_map(lost).collect();
    let worst = losses.iter().map(|(_, lost)| *lost).max()?;
    let spans = scope.spans.schedules.get(core.core.schedule)?;
    let message = format!(
        "windows of core {} begin where those of others end, and lose up to {}",
        core.core.board_core,
        readable(worst)
    );
    let mut diagnostic = Diagnostic::new(Code::WindowGap, message);
    for (window, lost) in &losses {
        diagnostic = at(diagnostic, spans.windows.get(*window).copied(), format!("loses up to {}", readable(*lost)));
    }
    Some(diagnostic.help(format!("leave {} in front of each of them", readable(worst))))
}

/// BH0828.
fn shares(scope: &Scope, core: &CoreTiming, model: &CoreModel, table: &TimeTable, found: &mut Vec<Diagnostic>) {
    let clock = Clock::new(scope.hz());
    for (server, bound) in model.servers.iter().zip(&core.servers) {
        let (Gate::Window(owner), Some((duration_ticks, period_ticks))) = (server.gate, server.budget()) else {
            continue;
        };
        let share = Share { owner, period_ticks, duration_ticks };
        let Some(fault) = share_fault(table.major_ticks, &table.windows, &share) else {
            continue;
        };
        let name = scope.server_name(bound.reference);
        let message = format!("the period of {name} does not fit the time table");
        let label = match fault {
            ShareFault::Period => {
                format!("does not divide the major frame of {}", readable(clock.ns_up(table.major_ticks)))
            }
            ShareFault::Short { period_start_ticks, given_ticks } => format!(
                "in the one that begins at {}, windows give {}",
                readable(clock.ns_up(period_start_ticks)),
                readable(clock.ns_down(given_ticks))
            ),
        };
        let place = scope.place(bound.reference, |spans| spans.period);
        let diagnostic = at(Diagnostic::new(Code::WindowPeriod, message), place, label);
        found.push(
            diagnostic
                .help("choose a period that divides the major frame and has the budget's time in windows in each"),
        );
    }
}

/// BH0829.
fn policy(scope: &Scope, core: &CoreTiming) -> Option<Diagnostic> {
    let schedule = scope.system.schedules.get(core.core.schedule)?;
    let ScheduleKind::RoundRobin { on_interrupt, .. } = schedule.kind else {
        return None;
    };
    let partitions = core.core.core_use.partitions();
    let routes = partitions
        .iter()
        .filter_map(|partition| scope.system.partitions.get(*partition))
        .flat_map(|partition| partition.device_routes.iter().chain([&partition.route]));
    let unlimited = routes.filter(|route| route.rule == RouteRule::Preempt && route.limit.is_none()).count();
    if on_interrupt == OnInterrupt::None || unlimited == 0 {
        return None;
    }
    let spans = scope.spans.schedules.get(core.core.schedule)?;
    let message = format!("a storm of interrupts may take core {} from all guests but one", core.core.board_core);
    let diagnostic = at(Diagnostic::new(Code::PolicyStorm, message), Some(spans.kind), "interrupts may end a turn");
    Some(
        diagnostic.note("none of the published policies isolates: they are for experiments").help(
            "use `kind = \"fixed-priority\"` with servers behind an interrupt gate, or limit every route `preempt`",
        ),
    )
}
