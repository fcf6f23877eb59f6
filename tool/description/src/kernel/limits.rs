//! Names, counts and sizes; and what the kernel cannot run yet.

use super::file::{Component, KernelServer};
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::resolve::unique_names;
use crate::source::Span;
use crate::unit::format_size;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_kernel_abi::image::SLOTS;
use bulkhead_kernel_abi::{
    MAX_BANDS, MAX_BINDINGS, MAX_COMPONENTS, MAX_END_POINTS, MAX_SCHEDULERS, MAX_SERVERS, MAX_STACKS, MAX_THREADS,
    MAX_WIRES,
};
use bulkhead_words::OnEmpty;

/// Bytes of a component's name.
const NAME_BYTES: usize = 15;
/// Most bytes of one stack.
const MAX_STACK_BYTES: u64 = 1 << 20;
/// Bytes of a thread's stack when the description does not say.
pub(super) const DEFAULT_STACK_BYTES: u64 = 16 << 10;

impl Resolver<'_> {
    /// Checks every name.
    pub(super) fn names(&mut self) {
        let file = self.file;
        unique_names(file.server.iter().map(|one| &one.name), "server", self.report);
        unique_names(file.band.iter().map(|one| &one.name), "band", self.report);
        unique_names(file.scheduler.iter().map(|one| &one.name), "scheduler", self.report);
        unique_names(file.component.iter().map(|one| &one.name), "component", self.report);
        unique_names(file.program.iter().map(|one| &one.name), "program", self.report);
        for component in &file.component {
            let name = &component.name;
            if (NAME_BYTES + 1..=31).contains(&name.len()) {
                let message = format!("`{}` is too long for the name of a component", name.value);
                let label = format!("{} bytes, expected at most {NAME_BYTES}", name.len());
                self.push(Diagnostic::new(Code::BadName, message).at(name.span, label));
            }
            unique_names(component.threads.iter().map(|one| &one.name), "thread", self.report);
            let signals = component.end_points.iter().flat_map(|one| &one.signals.value);
            unique_names(signals, "signal", self.report);
        }
        if file.component.is_empty() {
            let diagnostic = Diagnostic::new(Code::NoComponent, "the instance has no component");
            self.push(diagnostic.at(file.version.span, "this instance").help("add a table `[[component]]`"));
        }
    }

    /// What the kernel has room for.
    pub(super) fn counts(&mut self) {
        let file = self.file;
        let each = |of: fn(&Component) -> Vec<Span>| file.component.iter().flat_map(|one| of(one)).collect::<Vec<_>>();
        let counts: [(&str, Vec<Span>, usize); 8] = [
            ("components", file.component.iter().map(|one| one.span).collect(), MAX_COMPONENTS),
            ("threads", each(|one| one.threads.iter().map(|one| one.span).collect()), MAX_THREADS),
            ("end points", each(|one| one.end_points.iter().map(|one| one.span).collect()), MAX_END_POINTS),
            ("interrupts", each(|one| one.interrupts.iter().map(|one| one.span).collect()), MAX_BINDINGS),
            ("servers", file.server.iter().map(|one| one.span).collect(), MAX_SERVERS),
            ("bands", file.band.iter().map(|one| one.span).collect(), MAX_BANDS),
            ("schedulers", file.scheduler.iter().map(|one| one.span).collect(), MAX_SCHEDULERS),
            ("wires", file.wire.iter().map(|one| one.span).collect(), MAX_WIRES),
        ];
        for (what, places, most) in counts {
            if let Some(extra) = places.get(most) {
                let message = format!("an instance has at most {most} {what}, and this one has {}", places.len());
                self.push(Diagnostic::new(Code::TooManyObjects, message).at(*extra, "the first one too many"));
            }
        }
        let bound = |one: &Component| one.bind.as_ref().map_or(0, |bind| bind.value.0.len());
        let slots: usize = file.component.iter().map(|one| 1 + bound(one)).sum();
        if slots > SLOTS {
            let message = format!("an instance has at most {SLOTS} capability slots, and this one has {slots}");
            self.push(Diagnostic::new(Code::TooManyObjects, message).at(file.version.span, "this instance"));
        }
    }

    /// Sizes of stacks.
    pub(super) fn sizes(&mut self) {
        let file = self.file;
        for component in &file.component {
            let stacks = component.threads.iter().filter_map(|thread| thread.stack.as_ref());
            for size in stacks.chain(component.callers.iter().map(|callers| &callers.bytes)) {
                let Some(bytes) = self.size(size) else { continue };
                self.stack_size(size.span, bytes);
            }
            if let Some(callers) = &component.callers {
                let stacks = &callers.stacks;
                if !(1..=MAX_STACKS as u64).contains(&stacks.value) {
                    let message = format!("a component cannot have {} stacks for callers", stacks.value);
                    let label = format!("expected 1 to {MAX_STACKS}");
                    self.push(Diagnostic::new(Code::BadStack, message).at(stacks.span, label));
                }
            }
        }
        for size in file.program.iter().filter_map(|program| program.stack.as_ref()) {
            if let Some(bytes) = self.size(size) {
                self.stack_size(size.span, bytes);
            }
        }
        self.quotas();
        self.pool();
    }

    /// A stack is whole pages, and not too many.
    fn stack_size(&mut self, span: Span, bytes: u64) {
        let is_whole = bytes > 0 && bytes.is_multiple_of(PAGE_BYTES) && bytes <= MAX_STACK_BYTES;
        if !is_whole {
            let message = format!("a stack of {} is none", format_size(bytes));
            let most = format_size(MAX_STACK_BYTES);
            let nearest = bytes.clamp(PAGE_BYTES, MAX_STACK_BYTES).next_multiple_of(PAGE_BYTES);
            let diagnostic = Diagnostic::new(Code::BadStack, message)
                .at(span, format!("expected whole pages of 4 KiB, at most {most}"));
            let replacement = format!("\"{}\"", format_size(nearest));
            self.push(diagnostic.suggest(span, replacement, "the next one that works"));
        }
    }

    /// Quotas are parts of the pool.
    fn pool(&mut self) {
        let file = self.file;
        let pool = file.pool.as_ref().map(|pool| (pool.span, self.size(pool)));
        let mut sum = 0_u64;
        for quota in file.component.iter().filter_map(|component| component.quota.as_ref()) {
            sum = sum.saturating_add(self.size(quota).unwrap_or(0));
            let (place, given) = pool.map_or((None, Some(0)), |(span, bytes)| (Some(span), bytes));
            if given.is_some_and(|given| sum > given) {
                let message = format!("quotas of {} are more than the pool has", format_size(sum));
                let mut diagnostic = Diagnostic::new(Code::PoolTooSmall, message).at(quota.span, "with this one");
                diagnostic = match place {
                    Some(place) => diagnostic.at(place, "this is all"),
                    None => diagnostic.help("for example `pool = \"2 MiB\"`"),
                };
                self.push(diagnostic);
                return;
            }
        }
    }

    /// Each thread has a server or a scheduler that there is.
    pub(super) fn payers(&mut self) {
        let file = self.file;
        let servers: Vec<&str> = file.server.iter().map(|server| server.name.as_str()).collect();
        let schedulers: Vec<&str> = file.scheduler.iter().map(|scheduler| scheduler.name.as_str()).collect();
        for (component, thread) in
            file.component.iter().flat_map(|one| one.threads.iter().map(move |thread| (one, thread)))
        {
            let payer = match (&thread.server, &thread.scheduler) {
                (None, None) => {
                    let message = format!(
                        "nothing pays for thread `{}` of component `{}`",
                        thread.name.value, component.name.value
                    );
                    let help = match servers.first() {
                        Some(server) => format!("for example `server = \"{server}\"`"),
                        None => String::from(
                            "add `server = [{ name = \"main\" }]` at the top, and `server = \"main\"` here",
                        ),
                    };
                    self.push(Diagnostic::new(Code::NoPayer, message).at(thread.span, "would never run").help(help));
                    continue;
                }
                // Whether the one holds the other is looked at where schedulers are.
                (Some(server), _) => (server, "server", &servers),
                (None, Some(scheduler)) => (scheduler, "scheduler", &schedulers),
            };
            if let Some(scheduler) = thread.scheduler.as_ref().filter(|_| thread.server.is_some()) {
                self.known_payer(scheduler, "scheduler", &schedulers);
            }
            let (name, what, known) = payer;
            self.known_payer(name, what, known);
        }
    }

    fn known_payer(&mut self, name: &Located<String>, what: &str, known: &[&str]) {
        if !known.contains(&name.as_str()) {
            let message = format!("there is no {what} `{}`", name.value);
            self.unknown(Code::UnknownPayer, message, name.span, name, known);
        }
    }

    fn later(&mut self, span: Span, what: &str) {
        let message = format!("this version of the kernel cannot run {what}");
        self.push(Diagnostic::new(Code::InstanceNotYet, message).at(span, "not built yet"));
    }

    /// What of servers the kernel cannot run yet.
    pub(super) fn servers_later(&mut self, server: &KernelServer) {
        let notice = server.on_empty.as_ref().filter(|word| word.value == OnEmpty::Notify);
        if let Some(notice) = notice {
            self.later(notice.span, "a notice of an empty budget");
        }
    }
}
