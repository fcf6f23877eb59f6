//! Who is inside whom: stacks for callers, depth of calls, trust and needs (`kernel.md` 5; CH-8, CH-10).

use super::resolve::{DEPTH, Resolver};
use crate::code::Code;
use crate::description::Trust;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::unit::format_duration;
use std::collections::BTreeSet;

/// A component can call another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) caller: usize,
    pub(super) callee: usize,
    /// Where it is bound.
    pub(super) span: Span,
}

/// What one thread that starts in a component can do: how often it is inside `callee` at once, at most, and whether its calls may be as deep as its frames.
fn visits(edges: &[Edge], home: usize, callee: usize) -> (usize, bool) {
    // By component: most visits of a walk that ends there, after each number of calls. Walks are at most as long as a thread has frames.
    let mut most: Vec<(usize, usize)> = vec![(home, 0)];
    let mut answer = 0;
    for depth in 0..=DEPTH {
        if depth == DEPTH {
            return (answer, edges.iter().any(|edge| most.iter().any(|(at, _)| *at == edge.caller)));
        }
        let mut next: Vec<(usize, usize)> = Vec::new();
        for edge in edges {
            let Some((_, count)) = most.iter().find(|(at, _)| *at == edge.caller) else { continue };
            let count = count + usize::from(edge.callee == callee);
            answer = answer.max(count);
            match next.iter_mut().find(|(at, _)| *at == edge.callee) {
                Some((_, known)) => *known = count.max(*known),
                None => next.push((edge.callee, count)),
            }
        }
        most = next;
    }
    (answer, false)
}

impl Resolver<'_> {
    /// Checks the graph of calls.
    pub(super) fn calls(&mut self, edges: &[Edge]) {
        self.trust(edges);
        self.depths(edges);
        let called: BTreeSet<usize> = edges.iter().map(|edge| edge.callee).collect();
        for callee in called {
            self.stacks(edges, callee);
            self.needs(edges, callee);
        }
    }

    /// A call goes to a component that is not less trusted, or out of which it can be aborted.
    fn trust(&mut self, edges: &[Edge]) {
        let file = self.file;
        for edge in edges {
            let (Some(caller), Some(callee)) = (file.component.get(edge.caller), file.component.get(edge.callee))
            else {
                continue;
            };
            let is_trusted = |trust: &Option<crate::Located<Trust>>| {
                trust.as_ref().is_some_and(|trust| trust.value == Trust::Trusted)
            };
            let is_abortable = callee.abortable.as_ref().is_some_and(|state| state.value);
            if !is_trusted(&caller.trust) || is_trusted(&callee.trust) || is_abortable {
                continue;
            }
            let message =
                format!("trusted component `{}` calls `{}`, which is not", caller.name.value, callee.name.value);
            let place = callee.trust.as_ref().map_or(callee.name.span, |trust| trust.span);
            let diagnostic = Diagnostic::new(Code::LessTrusted, message)
                .at(edge.span, "goes in with its own thread")
                .at(place, "nothing is promised of this one, and it may keep the thread")
                .note("a call takes the caller's thread along, so the callee can keep it for ever");
            self.push(diagnostic.help(
                "send to an end point instead (\"send:COMPONENT.SIGNAL\"), or let calls out of it be aborted: `abortable = true`",
            ));
        }
    }

    /// Calls that may be deeper than a thread has frames.
    fn depths(&mut self, edges: &[Edge]) {
        let file = self.file;
        for (number, component) in file.component.iter().enumerate().filter(|(_, one)| !one.threads.is_empty()) {
            let (_, is_deep) = visits(edges, number, usize::MAX);
            let first = edges.iter().find(|edge| edge.caller == number);
            if let (true, Some(edge)) = (is_deep, first) {
                let message = format!("calls of component `{}` can be deeper than {DEPTH}", component.name.value);
                let diagnostic = Diagnostic::new(Code::CallsTooDeep, message)
                    .at(edge.span, "begins here")
                    .note(format!("a thread is inside at most {DEPTH} calls; the next one answers `TooDeep`"));
                self.push(diagnostic.help("make the chain shorter, or let the callers handle `TooDeep`"));
            }
        }
    }

    /// As many stacks as threads can be inside at once.
    fn stacks(&mut self, edges: &[Edge], callee: usize) {
        let file = self.file;
        let Some(component) = file.component.get(callee) else { return };
        let homes = file.component.iter().enumerate();
        let counts: Vec<(&str, usize)> = homes
            .map(|(number, home)| (home.name.as_str(), home.threads.len() * visits(edges, number, callee).0))
            .filter(|(_, count)| *count > 0)
            .collect();
        let needed: usize = counts.iter().map(|(_, count)| count).sum();
        let given = component.callers.as_ref().map_or(0, |callers| callers.stacks.value);
        if needed as u64 <= given {
            return;
        }
        let name = component.name.as_str();
        let message = match component.callers {
            None => format!("component `{name}` is called and has no stacks for callers"),
            Some(_) => format!("component `{name}` has {given} stacks for callers, and {needed} can be inside at once"),
        };
        let from: Vec<String> = counts.iter().map(|(home, count)| format!("{count} from `{home}`")).collect();
        let mut diagnostic = Diagnostic::new(Code::TooFewStacks, message);
        diagnostic = match &component.callers {
            Some(callers) => diagnostic.at(callers.stacks.span, format!("expected at least {needed}")).suggest(
                callers.stacks.span,
                needed.to_string(),
                "one for each",
            ),
            None => diagnostic
                .at(component.name.span, "")
                .help(format!("for example `callers = {{ stacks = {needed}, bytes = \"4 KiB\" }}`")),
        };
        self.push(diagnostic.note(format!("each thread inside has a stack of its own: {}", from.join(", "))));
    }

    /// The threads that can come into a scheduler's component are that scheduler's, or of one below it: what it decides about others would come to nothing.
    pub(super) fn callers(&mut self, edges: &[Edge]) {
        let file = self.file;
        for (number, scheduler) in file.scheduler.iter().enumerate() {
            let Some(callee) = self.find(&scheduler.component) else { continue };
            for (home, component) in file.component.iter().enumerate() {
                if home == callee || visits(edges, home, callee).0 == 0 {
                    continue;
                }
                for thread in &component.threads {
                    let Some(server) = self.server_of(thread) else { continue };
                    let written = thread.scheduler.as_ref().and_then(|name| self.scheduler_number(name));
                    let own = written.or_else(|| self.holder_of(server));
                    if own.is_some_and(|own| self.above(own).contains(&number)) {
                        continue;
                    }
                    let message = format!(
                        "thread `{}` of component `{}` can call scheduler `{}`, which does not hold its server `{server}`",
                        thread.name.value, component.name.value, scheduler.name.value
                    );
                    let place =
                        edges.iter().find(|edge| edge.caller == home).map_or(thread.name.span, |edge| edge.span);
                    let diagnostic = Diagnostic::new(Code::CallerNotHeld, message)
                        .at(place, "leads into it")
                        .at(thread.name.span, "this thread")
                        .note("what a scheduler decides of a thread means nothing on another server, and while that thread is inside, all others of the scheduler wait for it");
                    self.push(diagnostic.help(format!(
                        "put it on a server with `holder = \"{}\"`, or let it send to an end point of the scheduler's component",
                        scheduler.name.value
                    )));
                }
            }
        }
    }

    /// No callee needs more time than a caller's server ever has.
    fn needs(&mut self, edges: &[Edge], callee: usize) {
        let file = self.file;
        let Some(component) = file.component.get(callee) else { return };
        let Some(needs) = component.callers.as_ref().and_then(|callers| callers.needs.as_ref()) else { return };
        let Some(needs_ns) = self.duration(needs) else { return };
        for (number, home) in file.component.iter().enumerate() {
            if visits(edges, number, callee).0 == 0 {
                continue;
            }
            for thread in &home.threads {
                let Some(name) = self.server_of(thread) else { continue };
                let Some(server) = file.server.iter().find(|server| server.name.value == name) else { continue };
                let Some(budget) = &server.budget else { continue };
                let Some(budget_ns) = self.duration(budget).filter(|budget_ns| *budget_ns < needs_ns) else { continue };
                let message = format!(
                    "component `{}` needs {} and server `{}` never has more than {}",
                    component.name.value,
                    format_duration(needs_ns),
                    name,
                    format_duration(budget_ns)
                );
                let diagnostic = Diagnostic::new(Code::NeedsTooMuch, message)
                    .at(needs.span, "is asked of every caller")
                    .at(budget.span, "is all that this one has")
                    .at(thread.name.span, "this thread can come in");
                self.push(diagnostic.note("each of its calls would be refused with `NoTime`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Edge, visits};
    use crate::source::{Sources, Span};

    fn edges(pairs: &[(usize, usize)]) -> Vec<Edge> {
        let span = Span::new(Sources::default().add("", ""), 0..0);
        pairs.iter().map(|(caller, callee)| Edge { caller: *caller, callee: *callee, span }).collect()
    }

    /// CH-8: how often a thread can be inside, recursion included.
    #[test]
    fn visits_are_those_of_the_longest_walk() {
        let chain = edges(&[(0, 1), (1, 2)]);
        assert_eq!(
            (visits(&chain, 0, 2), visits(&chain, 1, 2), visits(&chain, 2, 2)),
            ((1, false), (1, false), (0, false))
        );
        let alone = edges(&[(0, 0)]);
        assert_eq!(visits(&alone, 0, 0), (8, true));
        let pair = edges(&[(0, 1), (1, 0)]);
        assert_eq!((visits(&pair, 0, 1), visits(&pair, 0, 0)), ((4, true), (4, true)));
        let two_ways = edges(&[(0, 1), (0, 2), (1, 2), (2, 3), (3, 2)]);
        assert_eq!(visits(&two_ways, 0, 2), (4, true), "each second call of the rest");
    }

    #[test]
    fn a_chain_of_eight_fits_and_one_of_nine_does_not() {
        let chain = |length: usize| edges(&(0..length).map(|one| (one, one + 1)).collect::<Vec<_>>());
        assert_eq!(visits(&chain(8), 0, 8), (1, false));
        assert_eq!(visits(&chain(9), 0, 9), (0, true));
    }
}
