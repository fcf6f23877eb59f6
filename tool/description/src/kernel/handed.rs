//! Capabilities for who schedules, gives time or makes servers: what `bind` says of schedulers, threads, temporal capabilities, servers, bands and empty slots
//! (`kernel.md` 1, 3 and 4; CH-61, CH-63, QV-37).
//!
//! A scheduler and its threads are in the slots of its own component and of no other: who has both says who runs. A component has capabilities to its own threads and
//! to what they run on, and to a server or a band where the description names it.

use super::resolve::{Resolver, granted};
use super::servers::Servers;
use super::shares::{Shares, short};
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use bulkhead_kernel_abi::capability::{TOKEN_MASK, right};
use bulkhead_kernel_abi::image::SLOTS;
use bulkhead_kernel_abi::{Capability, Kind, NONE};

/// What else a component may do with its own threads: stop them, bind them, limit and look at them.
const OWN_THREAD: u8 = right::USE | right::STOP | right::BIND | right::LIMIT | right::READ;
/// And with what they run on: be put on it, give of it, be given, look at it.
const OWN_TIME: u8 = right::USE | right::DELEGATE | right::BIND | right::READ;
/// Threads may be bound to a server, and its budget looked at.
const SERVER: u8 = right::BIND | right::READ;

impl Resolver<'_> {
    /// What a binding to one of these leads to, slot by slot; `None` where it is to something else, `Some(None)` after a mistake.
    pub(super) fn handed(
        &mut self,
        component: usize,
        target: &Located<String>,
        (servers, shares): (&Servers, &Shares),
    ) -> Option<Option<Vec<Capability>>> {
        let (kind, name) = target.value.split_once(':').unwrap_or((target.value.as_str(), ""));
        let with = |rights: u8, capability: Capability| vec![Capability { rights, ..capability }];
        Some(match kind {
            "scheduler" => {
                self.own_scheduler(component, target, name).map(|number| vec![granted(Kind::Scheduler, number, 0)])
            }
            "threads" => self.own_scheduler(component, target, name).map(|number| {
                let own = shares.schedulers.get(usize::from(number)).map_or(NONE, |one| one.thread);
                let others = shares.threads_of(number).map(|member| member.thread);
                core::iter::once(own).chain(others).map(|thread| granted(Kind::Thread, thread, 0)).collect()
            }),
            "thread" => {
                let thread = self.own(component, target, name);
                thread.map(|thread| with(OWN_THREAD, granted(Kind::Thread, short(thread), 0)))
            }
            "tcap" => {
                let thread = self.own(component, target, name);
                thread.map(|thread| with(OWN_TIME, granted(Kind::TCap, shares.claim(thread), 0)))
            }
            "server" => {
                let server = self.known_server(target, name, servers);
                server.map(|server| with(SERVER, granted(Kind::Server, server, 0)))
            }
            "band" => self.known_band(target, name, servers).map(|band| vec![granted(Kind::Band, band, 0)]),
            "empty" => self.empty(target, name),
            "quota" if name.is_empty() => {
                let component = self.file.component.get(component)?;
                self.own_quota(component, target).map(|number| vec![super::processes::quota(number)])
            }
            _ => return None,
        })
    }

    /// The number of a scheduler whose events this component's thread takes.
    fn own_scheduler(&mut self, component: usize, target: &Located<String>, name: &str) -> Option<u16> {
        let file = self.file;
        let Some(number) = self.scheduler_number(name) else {
            let known: Vec<&str> = file.scheduler.iter().map(|one| one.name.as_str()).collect();
            self.unknown_name(target, "scheduler", name, &known);
            return None;
        };
        let scheduler = file.scheduler.get(number)?;
        if self.find(&scheduler.component) != Some(component) {
            let message = format!("scheduler `{name}` is not this component's");
            let diagnostic = Diagnostic::new(Code::SchedulerElsewhere, message)
                .at(target.span, "would say who of its threads runs")
                .at(scheduler.component.span, "takes its events");
            self.push(
                diagnostic.help(
                    "bind it in the component that takes its events; others call that one (\"COMPONENT.FUNCTION\")",
                ),
            );
            return None;
        }
        u16::try_from(number).ok()
    }

    /// The number of a thread of the component.
    fn own(&mut self, component: usize, target: &Located<String>, name: &str) -> Option<usize> {
        let written = self.file.component.get(component)?;
        let found = written.threads.iter().position(|thread| thread.name.value == name);
        let Some(found) = found else {
            let known: Vec<&str> = written.threads.iter().map(|thread| thread.name.as_str()).collect();
            let message = format!("component `{}` has no thread `{name}`", written.name.value);
            let before = format!("\"{}", target.strip_suffix(name).unwrap_or_default());
            self.unknown_part(Code::UnknownThread, message, (target.span, &before, "\""), name, &known);
            return None;
        };
        Some(self.first_thread(component) + found)
    }

    fn known_server(&mut self, target: &Located<String>, name: &str, servers: &Servers) -> Option<u16> {
        let file = self.file;
        if !file.server.iter().any(|server| server.name.value == name) {
            let known: Vec<&str> = file.server.iter().map(|server| server.name.as_str()).collect();
            self.unknown_name(target, "server", name, &known);
        }
        servers.number(name)
    }

    fn known_band(&mut self, target: &Located<String>, name: &str, servers: &Servers) -> Option<u16> {
        let file = self.file;
        if !file.band.iter().any(|band| band.name.value == name) {
            let known: Vec<&str> = file.band.iter().map(|band| band.name.as_str()).collect();
            self.unknown_name(target, "band", name, &known);
        }
        servers.band(name)
    }

    fn unknown_name(&mut self, target: &Located<String>, what: &str, name: &str, known: &[&str]) {
        let message = format!("there is no {what} `{name}`");
        let before = format!("\"{}", target.strip_suffix(name).unwrap_or_default());
        self.unknown_part(Code::UnknownHanded, message, (target.span, &before, "\""), name, known);
    }

    /// Slots for capabilities that the component makes itself.
    fn empty(&mut self, target: &Located<String>, count: &str) -> Option<Vec<Capability>> {
        let found = count.parse::<usize>().ok().filter(|count| (1..SLOTS).contains(count));
        if found.is_none() {
            let message = format!("`{count}` is no number of slots");
            let diagnostic = Diagnostic::new(Code::BadBinding, message).at(target.span, "");
            self.push(diagnostic.help("for example \"empty:4\": the first of four slots for what the component makes"));
        }
        found.map(|count| vec![Capability::NULL; count])
    }

    /// A target without its token, and the token that it says.
    pub(super) fn token_of<'t>(&mut self, target: &'t Located<String>) -> Option<(&'t str, Option<u64>)> {
        let Some((callee, written)) = target.value.split_once('#') else { return Some((&target.value, None)) };
        let token = match written.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => written.parse(),
        };
        match token.ok().filter(|token| *token <= TOKEN_MASK) {
            Some(token) => Some((callee, Some(token))),
            None => {
                let message = format!("`{written}` is no token");
                let diagnostic = Diagnostic::new(Code::BadBinding, message).at(target.span, "expected 48 bits");
                self.push(diagnostic.help("for example \"rt.notify#1\" or \"rt.give_way#0x6\""));
                None
            }
        }
    }
}
