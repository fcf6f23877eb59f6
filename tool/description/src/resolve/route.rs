//! What interrupts do on shared cores, and what guests run.

use super::Resolver;
use super::partition::span;
use crate::code::Code;
use crate::decode::{Duration, Located};
use crate::description::{Device, Limit, Partition};
use crate::diagnostic::Diagnostic;
use crate::sharing::{Route, RouteRule, ScheduleKind, Task};
use crate::source::Span;
use crate::unit::format_duration;
use bulkhead_abi::plan::MAX_LIMITED_INTERRUPTS;
use bulkhead_plan::interrupts::limited_count;
use bulkhead_plan::maps::core_use;
use bulkhead_plan::model;

/// Without a shared core there is nobody else to run.
const ALONE: &str = "a partition whose cores nobody shares";

/// Route of a partition and of each of its devices.
type Routes = (model::Route, Vec<model::Route>);

/// The keys of a route as written.
#[derive(Clone, Copy)]
struct Written<'d> {
    rule: Option<&'d Located<RouteRule>>,
    limit: Option<&'d Located<Limit>>,
    handler: Option<&'d Located<Duration>>,
    deadline: Option<&'d Located<Duration>>,
}

impl Resolver<'_> {
    /// Resolves the routes of every partition.
    pub(super) fn routes(&mut self) -> Vec<Option<Routes>> {
        let description = self.description;
        description.partition.iter().map(|partition| self.routes_of(partition)).collect()
    }

    fn routes_of(&mut self, partition: &Partition) -> Option<Routes> {
        self.preemptible(partition);
        let own = match partition.route.as_ref().map(|route| &route.value) {
            None => Written { rule: None, limit: None, handler: None, deadline: None },
            Some(Route::Rule(rule)) => Written { rule: Some(rule), limit: None, handler: None, deadline: None },
            Some(Route::Table(table)) => Written {
                rule: table.rule.as_ref(),
                limit: table.limit.as_ref(),
                handler: table.handler.as_ref(),
                deadline: table.deadline.as_ref(),
            },
        };
        let route = self.route(partition, own, RouteRule::Priority);
        let default = route.map_or(RouteRule::Priority, |route| route.rule);
        let devices: Vec<Option<model::Route>> = partition
            .devices
            .iter()
            .map(|device| match &device.value {
                Device::Name(_) => Some(model::Route { rule: default, ..model::Route::default() }),
                Device::Table(table) => {
                    let written = Written {
                        rule: table.route.as_ref(),
                        limit: table.limit.as_ref(),
                        handler: table.handler.as_ref(),
                        deadline: table.deadline.as_ref(),
                    };
                    self.route(partition, written, default)
                }
            })
            .collect();
        Some((route?, devices.into_iter().collect::<Option<_>>()?))
    }

    fn route(&mut self, partition: &Partition, written: Written<'_>, default: RouteRule) -> Option<model::Route> {
        if !self.shares_a_core(partition) {
            self.does_not_apply(written.rule.map(|rule| rule.span), "route", ALONE);
            self.does_not_apply(written.limit.map(|limit| limit.span), "limit", ALONE);
        } else if let Some(rule) = written.rule.filter(|rule| rule.value == RouteRule::Preempt) {
            self.needs_turns(partition, rule.span, "the route `preempt`");
        }
        let limit = match written.limit {
            None => Some(None),
            Some(limit) => self.limiter(limit, "leave `limit` out for no limit").map(Some),
        };
        let mut duration = |text: Option<&Located<Duration>>| match text {
            None => Some(None),
            Some(text) => self.duration(text).map(Some),
        };
        let (handler_ns, deadline_ns) = (duration(written.handler), duration(written.deadline));
        Some(model::Route {
            rule: written.rule.map_or(default, |rule| rule.value),
            limit: limit?,
            handler_ns: handler_ns?,
            deadline_ns: deadline_ns?,
        })
    }

    fn shares_a_core(&self, partition: &Partition) -> bool {
        partition.cores.iter().any(|core| self.schedule_of(core.value).is_some())
    }

    /// Checks `preemptible = false`.
    fn preemptible(&mut self, partition: &Partition) {
        let place = span(&partition.preemptible);
        if !self.shares_a_core(partition) {
            self.does_not_apply(place, "preemptible", ALONE);
        } else if let Some(state) = partition.preemptible.as_ref().filter(|state| !state.value) {
            self.needs_turns(partition, state.span, "`preemptible = false`");
        }
    }

    /// Checks that some core of the partition goes round.
    fn needs_turns(&mut self, partition: &Partition, place: Span, what: &str) {
        let mut schedules = (0..partition.cores.len()).filter_map(|vcpu| self.schedule_of_vcpu(partition, vcpu));
        let first = schedules.clone().next();
        if schedules.any(|schedule| schedule.kind.value == ScheduleKind::RoundRobin) {
            return;
        }
        let message = format!("{what} is a rule of the round robin");
        let mut diagnostic = Diagnostic::new(Code::RouteNeedsTurns, message).at(place, "");
        if let Some(schedule) = first {
            diagnostic = diagnostic.at(schedule.kind.span, "this core is given by servers");
        }
        self.push(diagnostic.help(
            "for an interrupt that must not wait, give its vCPU a server with `gate = \"interrupt\"`, an important \
             priority and a budget",
        ));
    }

    /// Counts the interrupts with a limit on each shared core: its scheduler has [`MAX_LIMITED_INTERRUPTS`] places, and
    /// those beyond would always wait.
    pub(super) fn limited_interrupts(&mut self, system: &model::System) {
        let description = self.description;
        for (written, schedule) in description.schedule.iter().zip(&system.schedules) {
            let here = core_use(system, schedule.board_core).partitions().into_iter();
            let counts: Vec<(usize, usize)> = here
                .map(|partition| (partition, limited_count(system, partition)))
                .filter(|(_, count)| *count > 0)
                .collect();
            let count: usize = counts.iter().map(|(_, count)| count).sum();
            if count <= MAX_LIMITED_INTERRUPTS {
                continue;
            }
            let core = schedule.board_core;
            let message =
                format!("core {core} has {count} interrupts with a limit and can have {MAX_LIMITED_INTERRUPTS}");
            let mut diagnostic = Diagnostic::new(Code::TooManyLimits, message).at(written.core.span, "shared core");
            for (partition, count) in counts {
                let place = description.partition.get(partition).map(|partition| partition.name.span);
                diagnostic = place
                    .into_iter()
                    .fold(diagnostic, |diagnostic, place| diagnostic.at(place, format!("{count} of them")));
            }
            self.push(
                diagnostic
                    .note(
                        "each interrupt of a device, doorbell or console counts; one without a place would always wait",
                    )
                    .help("leave `limit` out where the device cannot storm, or give the partition another core"),
            );
        }
    }

    /// Resolves the tasks of every partition.
    pub(super) fn tasks(&mut self) -> Vec<Option<Vec<model::Task>>> {
        let description = self.description;
        let all = description.partition.iter();
        all.map(|partition| {
            let tasks: Vec<_> = partition.tasks.iter().map(|task| self.task(task)).collect();
            tasks.into_iter().collect()
        })
        .collect()
    }

    pub(super) fn task(&mut self, task: &Located<Task>) -> Option<model::Task> {
        let (cost_ns, period_ns) = (self.duration(&task.cost), self.duration(&task.period));
        let deadline_ns = match &task.deadline {
            None => period_ns,
            Some(deadline) => self.duration(deadline),
        };
        let (cost_ns, period_ns, deadline_ns) = (cost_ns?, period_ns?, deadline_ns?);
        let name = task.name.value.as_str();
        if cost_ns == 0 || period_ns == 0 {
            let place = if cost_ns == 0 { task.cost.span } else { task.period.span };
            let message = format!("task `{name}` takes or waits no time");
            self.push(Diagnostic::new(Code::BadTask, message).at(place, "expected a time"));
            return None;
        }
        if cost_ns > deadline_ns {
            let message = format!("task `{name}` cannot meet its deadline of {}", format_duration(deadline_ns));
            let place = span(&task.deadline).unwrap_or(task.period.span);
            let diagnostic = Diagnostic::new(Code::BadTask, message).at(task.cost.span, "takes longer than");
            self.push(diagnostic.at(place, "this, even on a core of its own"));
            return None;
        }
        Some(model::Task { name: name.to_owned(), cost_ns, period_ns, deadline_ns })
    }
}
