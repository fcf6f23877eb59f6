//! What is refused and what is doubtful about the time of a system (`real-time.md` 4.5).
//!
//! What can be said without bounds (too few chunks for the ring, a remainder above its budget, windows that overlap, a payer that
//! cannot pay) was refused when the description was read. Here every shared core has a model, and so a bound or a reason
//! why there is none.

pub(crate) mod interrupts;
mod not_found;
pub(crate) mod servers;
mod siblings;
mod tables;
mod tasks;

use crate::assumption::Assumptions;
use crate::bounds::{Bounds, CoreTiming, bounds};
use crate::cores::TickCosts;
use bulkhead_analysis::steps::Steps;
use bulkhead_description::source::Span;
use bulkhead_description::spans::{PartitionSpans, ServerSpans, Spans};
use bulkhead_description::{Check, Code, Diagnostic};
use bulkhead_plan::model::{Partition, Server, ServerReference, System};
use std::cell::OnceCell;

impl Check for Assumptions {
    fn check(&self, system: &System, spans: &Spans) -> Vec<Diagnostic> {
        judge(system, spans, &bounds(system, self), &Steps::of_advice())
    }
}

/// The check of time that keeps the bounds that it computed, for callers that show them afterwards.
#[derive(Debug)]
pub(crate) struct Keeping {
    assumptions: Assumptions,
    bounds: OnceCell<Bounds>,
}

impl Keeping {
    /// A check with these assumptions.
    #[must_use]
    pub(crate) fn new(assumptions: Assumptions) -> Self {
        Self { assumptions, bounds: OnceCell::new() }
    }

    /// Bounds of the system that was checked, or of this one when none was.
    pub(crate) fn bounds(&self, system: &System) -> &Bounds {
        self.bounds.get_or_init(|| bounds(system, &self.assumptions))
    }
}

impl Check for Keeping {
    fn check(&self, system: &System, spans: &Spans) -> Vec<Diagnostic> {
        judge(system, spans, self.bounds(system), &Steps::of_advice())
    }
}

/// Judges the time of every shared core. Advice is looked for within these steps.
fn judge(system: &System, spans: &Spans, bounds: &Bounds, steps: &Steps) -> Vec<Diagnostic> {
    let scope = Scope { system, spans, bounds, costs: TickCosts::of(system, &bounds.assumptions), steps };
    let mut found = crate::payload::judge(system, spans, &bounds.assumptions);
    interrupts::check_doorbells(&scope, &mut found);
    for core in &bounds.cores {
        // A limit that takes the whole core makes everybody late, which nobody needs to be told server by server.
        interrupts::check_limits(&scope, core, &mut found);
        if found.iter().any(|one| one.code == Code::LimitTooWide) {
            continue;
        }
        servers::check(&scope, core, &mut found);
        not_found::check(&scope, core, &mut found);
        tasks::check(&scope, core, &mut found);
        interrupts::check(&scope, core, &mut found);
        tables::check(&scope, core, &mut found);
        siblings::check(&scope, core, &mut found);
    }
    found
}

/// What every check looks at.
pub(crate) struct Scope<'a> {
    pub(crate) system: &'a System,
    pub(crate) spans: &'a Spans,
    pub(crate) bounds: &'a Bounds,
    pub(crate) costs: TickCosts,
    /// The allowance for advice.
    pub(crate) steps: &'a Steps,
}

impl Scope<'_> {
    pub(crate) fn hz(&self) -> u64 {
        self.system.board.counter_hz
    }

    pub(crate) fn partition(&self, reference: ServerReference) -> Option<&Partition> {
        self.system.partitions.get(reference.partition)
    }

    pub(crate) fn partition_name(&self, partition: usize) -> &str {
        self.system.partitions.get(partition).map_or("", |partition| &partition.name)
    }

    pub(crate) fn partition_spans(&self, partition: usize) -> Option<&PartitionSpans> {
        self.spans.partitions.get(partition)
    }

    pub(crate) fn server(&self, reference: ServerReference) -> Option<&Server> {
        bulkhead_plan::schedule::server(self.system, reference)
    }

    pub(crate) fn server_spans(&self, reference: ServerReference) -> Option<&ServerSpans> {
        self.spans.partitions.get(reference.partition)?.servers.get(reference.server)
    }

    /// A server as messages name it: the one of its partition, by its name, or by its place where there are several.
    pub(crate) fn server_name(&self, reference: ServerReference) -> String {
        let partition = self.partition_name(reference.partition);
        let named = self.server_spans(reference).and_then(|spans| spans.name.clone());
        let alone = self.partition(reference).is_none_or(|partition| partition.servers.len() == 1);
        match named {
            Some(name) => format!("server `{partition}.{name}`"),
            None if alone => format!("the server of `{partition}`"),
            None => format!("server {} of `{partition}`", reference.server + 1),
        }
    }

    /// The place of a server, or of something in it.
    pub(crate) fn place(&self, reference: ServerReference, of: fn(&ServerSpans) -> Option<Span>) -> Option<Span> {
        self.server_spans(reference).map(|spans| spans.or_whole(of(spans)))
    }

    pub(crate) fn reference(&self, core: &CoreTiming, number: usize) -> Option<ServerReference> {
        core.servers.get(number).map(|server| server.reference)
    }
}

/// Adds a place if there is one.
pub(crate) fn at(diagnostic: Diagnostic, place: Option<Span>, text: impl Into<String>) -> Diagnostic {
    match place {
        Some(span) => diagnostic.at(span, text),
        None => diagnostic,
    }
}
