//! Schedulers in user space: whose threads take their events, and which threads are theirs (`kernel.md` 1 and 3; CH-53, CH-63).
//!
//! A thread on a server that a scheduler holds is that scheduler's. The thread that takes a scheduler's events is not its own: it is its parent's, or nobody's.

use super::file::{Component, Scheduler, Thread};
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_kernel_abi::MAX_SCHEDULER_DEPTH;

impl<'r> Resolver<'r> {
    /// The number of a scheduler.
    pub(super) fn scheduler_number(&self, name: &str) -> Option<usize> {
        self.file.scheduler.iter().position(|one| one.name.value == name)
    }

    /// The scheduler that holds a server.
    pub(super) fn holder_of(&self, server: &str) -> Option<usize> {
        let server = self.file.server.iter().find(|one| one.name.value == server)?;
        self.scheduler_number(server.holder.as_ref()?)
    }

    /// A scheduler and those above it, itself first.
    pub(super) fn above(&self, scheduler: usize) -> Vec<usize> {
        let mut chain = vec![scheduler];
        while let Some(parent) =
            chain.last().and_then(|one| self.file.scheduler.get(*one)).and_then(|one| one.parent.as_ref())
            && let Some(parent) = self.scheduler_number(parent)
            && chain.len() < MAX_SCHEDULER_DEPTH
            && !chain.contains(&parent)
        {
            chain.push(parent);
        }
        chain
    }

    /// The server that pays for a thread: the one that it names, or the one that its scheduler holds, or the nearest one above that.
    pub(super) fn server_of(&self, thread: &'r Thread) -> Option<&'r str> {
        if let Some(server) = &thread.server {
            return Some(server.as_str());
        }
        let chain = self.above(self.scheduler_number(thread.scheduler.as_ref()?)?);
        let held = |scheduler: &usize| {
            let mut servers = self.file.server.iter().filter(|one| self.holder_of(&one.name) == Some(*scheduler));
            servers.next().map(|server| server.name.as_str())
        };
        chain.iter().find_map(held)
    }

    /// Checks the schedulers, and whose each thread is.
    pub(super) fn schedulers(&mut self) {
        self.tree();
        let file = self.file;
        let own: Vec<Option<usize>> = file.scheduler.iter().map(|scheduler| self.own_thread(scheduler)).collect();
        self.leads_one(&own);
        let threads: Vec<_> = self.threads().collect();
        for (number, (component, thread)) in threads.into_iter().enumerate() {
            let Some(server) = self.server_of(thread) else { continue };
            match own.iter().position(|one| *one == Some(number)) {
                Some(leads) => self.leader(thread, server, leads),
                None => self.member(component, thread, server),
            }
        }
    }

    /// No thread takes the events of two schedulers.
    fn leads_one(&mut self, own: &[Option<usize>]) {
        let file = self.file;
        for (number, (scheduler, thread)) in file.scheduler.iter().zip(own).enumerate() {
            let first = own.iter().take(number).position(|other| thread.is_some() && other == thread);
            if let Some(first) = first.and_then(|first| file.scheduler.get(first)) {
                let (name, other) = (&scheduler.name.value, &first.name.value);
                let message = format!("one thread takes the events of schedulers `{other}` and `{name}`");
                let diagnostic =
                    Diagnostic::new(Code::SchedulerThread, message).at(scheduler.component.span, "the second one");
                let diagnostic = diagnostic.at(first.component.span, "the first one");
                self.push(diagnostic.help("give each scheduler a thread of its own: `thread = \"main\"` names it"));
            }
        }
    }

    /// The thread that takes a scheduler's events runs on a server that it holds, or as one of its parent's.
    fn leader(&mut self, thread: &Located<Thread>, server: &str, leads: usize) {
        let Some(scheduler) = self.file.scheduler.get(leads) else { return };
        let holder = self.holder_of(server);
        let parent = scheduler.parent.as_ref().and_then(|parent| self.scheduler_number(parent));
        if holder == Some(leads) || parent.is_some() && holder == parent {
            return;
        }
        let name = &scheduler.name.value;
        let message = format!("the thread of scheduler `{name}` runs on server `{server}`, which is not its own");
        let diagnostic =
            Diagnostic::new(Code::SchedulerThread, message).at(thread.span, "takes the scheduler's events");
        self.push(diagnostic.help(format!(
            "let it hold that server: `holder = \"{name}\"`; or put the thread on a server that it or its parent holds"
        )));
    }

    /// A thread of a scheduler runs on a server that this one holds, or one above it.
    fn member(&mut self, component: &Component, thread: &Located<Thread>, server: &str) {
        let Some(written) = &thread.scheduler else { return };
        let Some(scheduler) = self.scheduler_number(written) else { return };
        if self.holder_of(server).is_some_and(|holder| self.above(scheduler).contains(&holder)) {
            return;
        }
        let message = format!(
            "thread `{}` of component `{}` is of scheduler `{}`, which does not hold its server `{server}`",
            thread.name.value, component.name.value, written.value
        );
        let mut diagnostic = Diagnostic::new(Code::HeldElsewhere, message).at(written.span, "would never let it run");
        if let Some(server) = &thread.server {
            diagnostic = diagnostic.at(server.span, "is held by somebody else");
        }
        self.push(
            diagnostic.help("leave one of both out: a thread on a server that a scheduler holds is that scheduler's"),
        );
    }

    /// The number of the thread that takes a scheduler's events, or why there is none, and where that is written.
    fn takes_events(&self, scheduler: &Scheduler) -> Option<Result<usize, (String, Span)>> {
        let component = self.find(&scheduler.component)?;
        let first = self.first_thread(component);
        let threads = &self.file.component.get(component)?.threads;
        Some(match (&scheduler.thread, threads.len()) {
            (Some(name), _) => {
                let found = threads.iter().position(|thread| thread.name.value == name.value);
                found.map(|found| first + found).ok_or_else(|| (format!("has no thread `{}`", name.value), name.span))
            }
            (None, 1) => Ok(first),
            (None, 0) => Err(("has no thread".to_owned(), scheduler.component.span)),
            (None, _) => Err(("has several threads".to_owned(), scheduler.component.span)),
        })
    }

    /// The number of the thread that takes a scheduler's events.
    pub(super) fn leads(&self, scheduler: &Scheduler) -> Option<usize> {
        self.takes_events(scheduler)?.ok()
    }

    /// The same, and reports why there is none.
    fn own_thread(&mut self, scheduler: &Located<Scheduler>) -> Option<usize> {
        let (problem, place) = match self.takes_events(scheduler)? {
            Ok(thread) => return Some(thread),
            Err(problem) => problem,
        };
        let message = format!(
            "component `{}` {problem}, and scheduler `{}` needs one that takes its events",
            scheduler.component.value, scheduler.name.value
        );
        let diagnostic = Diagnostic::new(Code::SchedulerThread, message).at(place, "");
        self.push(diagnostic.help("give the component one thread, or name it: `thread = \"main\"`"));
        None
    }

    /// Every scheduler has a component, and its parents end somewhere.
    fn tree(&mut self) {
        let file = self.file;
        let names: Vec<&str> = file.scheduler.iter().map(|one| one.name.as_str()).collect();
        for server in &file.server {
            let unknown = server.holder.as_ref().filter(|holder| !names.contains(&holder.as_str()));
            if let Some(holder) = unknown {
                let message = format!("there is no scheduler `{}`", holder.value);
                self.unknown(Code::UnknownPayer, message, holder.span, holder, &names);
            }
        }
        for scheduler in &file.scheduler {
            let component = &scheduler.component;
            if self.find(component).is_none() {
                let known: Vec<&str> = self.component_names().collect();
                let message = format!("there is no component `{}`", component.value);
                self.unknown(Code::UnknownComponent, message, component.span, component, &known);
            }
            let mut above = scheduler;
            for depth in 1.. {
                let Some(parent) = &above.parent else { break };
                let Some(next) = file.scheduler.iter().find(|one| one.name.value == parent.value) else {
                    if depth == 1 {
                        let message = format!("there is no scheduler `{}`", parent.value);
                        self.unknown(Code::UnknownPayer, message, parent.span, parent, &names);
                    }
                    break;
                };
                if next.name == scheduler.name || depth >= MAX_SCHEDULER_DEPTH {
                    let message = match next.name == scheduler.name {
                        true => format!("scheduler `{}` is above itself", scheduler.name.value),
                        false => {
                            format!("scheduler `{}` is deeper than {MAX_SCHEDULER_DEPTH} levels", scheduler.name.value)
                        }
                    };
                    let diagnostic = Diagnostic::new(Code::SchedulerTree, message).at(scheduler.name.span, "");
                    self.push(diagnostic.at(parent.span, "by this one"));
                    break;
                }
                above = next;
            }
        }
    }
}
