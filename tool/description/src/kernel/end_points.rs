//! End points with their signals, and the interrupts that set them.

use super::file::{Component, Interrupt};
use super::resolve::Resolver;
use super::servers::Servers;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::{BindingRow, EndPointRow};

/// Name of the kernel's second timer, and its INTID.
const PERIODIC: &str = "periodic";
const PERIODIC_INTID: u32 = 30;
/// Signals of one end point: bits of a word.
const MAX_SIGNALS: usize = 64;

/// An end point that was resolved.
#[derive(Clone, Debug)]
struct Resolved {
    /// Its component.
    component: usize,
    /// Name of the thread that takes from it.
    thread: String,
    /// Names of its bits.
    signals: Vec<String>,
    /// It has a claim of its own, for what others give it.
    takes_time: bool,
    row: EndPointRow,
}

/// All of an instance, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct EndPoints(Vec<Resolved>);

impl EndPoints {
    /// Their rows.
    pub(super) fn rows(&self) -> Vec<EndPointRow> {
        self.0.iter().map(|one| one.row).collect()
    }

    /// Threads whose end points take time, in their order.
    pub(super) fn takers(&self) -> Vec<u16> {
        self.0.iter().filter(|one| one.takes_time).map(|one| one.row.thread).collect()
    }

    /// Gives the end points that take time their claims.
    pub(super) fn take(&mut self, claims: &[u16]) {
        let takers = self.0.iter_mut().filter(|one| one.takes_time);
        takers.zip(claims).for_each(|(one, claim)| one.row.tcap = *claim);
    }

    /// The number and the bit of a signal.
    fn signal(&self, component: usize, name: &str) -> Option<(u16, u64)> {
        let own = |(number, one): (u16, &Resolved)| {
            let bit = one.signals.iter().position(|signal| signal == name)?;
            (one.component == component).then_some((number, 1 << bit))
        };
        (0..).zip(&self.0).find_map(own)
    }

    /// Names of a component's signals.
    fn signals(&self, component: usize) -> Vec<&str> {
        let own = self.0.iter().filter(|one| one.component == component);
        own.flat_map(|one| one.signals.iter().map(String::as_str)).collect()
    }
}

impl<'r> Resolver<'r> {
    /// Resolves the end points of every component.
    pub(super) fn end_points(&mut self) -> EndPoints {
        let file = self.file;
        let (mut all, mut first_thread) = (EndPoints::default(), 0);
        for (number, component) in file.component.iter().enumerate() {
            let mut taken: Vec<(&str, Span)> = Vec::new();
            for end_point in &component.end_points {
                let name = &end_point.thread;
                let found = component.threads.iter().position(|thread| thread.name.value == name.value);
                let Some(thread) = found else {
                    let known: Vec<&str> = component.threads.iter().map(|thread| thread.name.as_str()).collect();
                    let message = format!("component `{}` has no thread `{}`", component.name.value, name.value);
                    self.unknown(Code::UnknownThread, message, name.span, name, &known);
                    continue;
                };
                if let Some((_, first)) = taken.iter().find(|(other, _)| *other == name.as_str()) {
                    let message = format!("thread `{}` has two end points", name.value);
                    let diagnostic = Diagnostic::new(Code::EndPointTwice, message)
                        .at(name.span, "a second one")
                        .at(*first, "the first one");
                    self.push(diagnostic.help("give one of them all signals: an end point has up to 64"));
                    continue;
                }
                taken.push((name.as_str(), name.span));
                if let Some(extra) = end_point.signals.value.get(MAX_SIGNALS) {
                    let message = format!("an end point has {} signals", end_point.signals.value.len());
                    let label = format!("the first one too many; at most {MAX_SIGNALS}");
                    self.push(Diagnostic::new(Code::TooManySignals, message).at(extra.span, label));
                    continue;
                }
                let row = EndPointRow {
                    thread: u16::try_from(first_thread + thread).unwrap_or(NONE),
                    component: u16::try_from(number).unwrap_or(NONE),
                    // It wakes its thread on that one's own time.
                    tcap: NONE,
                    ..EndPointRow::default()
                };
                let signals = end_point.signals.value.iter().map(|signal| signal.value.clone()).collect();
                let takes_time = end_point.takes_time.as_ref().is_some_and(|state| state.value);
                all.0.push(Resolved { component: number, thread: name.value.clone(), signals, takes_time, row });
            }
            first_thread += component.threads.len();
        }
        all
    }

    /// What `send:COMPONENT.SIGNAL` leads to.
    pub(super) fn signal_of(&mut self, target: &Located<String>, rest: &str, all: &EndPoints) -> Option<(u16, u64)> {
        let Some((component, signal)) = rest.split_once('.') else {
            let message = format!("`{}` names no signal", target.value);
            let diagnostic = Diagnostic::new(Code::BadBinding, message).at(target.span, "");
            self.push(diagnostic.help("write \"send:COMPONENT.SIGNAL\""));
            return None;
        };
        let number = self.component_of(target, component)?;
        self.signal(number, signal, target.span, &format!("\"send:{component}."), all)
    }

    /// The end point and the bit of a signal of a component.
    pub(super) fn signal(
        &mut self,
        component: usize,
        name: &str,
        span: Span,
        before: &str,
        all: &EndPoints,
    ) -> Option<(u16, u64)> {
        let found = all.signal(component, name);
        if found.is_none() {
            let of = self.file.component.get(component).map_or("", |component| component.name.as_str());
            let message = format!("component `{of}` has no signal `{name}`");
            self.unknown_part(Code::UnknownSignal, message, (span, before, "\""), name, &all.signals(component));
        }
        found
    }

    /// What `receive:THREAD` leads to.
    pub(super) fn received(
        &mut self,
        component: usize,
        target: &Located<String>,
        thread: &str,
        all: &EndPoints,
    ) -> Option<u16> {
        let own = |one: &&Resolved| one.component == component;
        let found = (0..).zip(&all.0).find(|(_, one)| own(one) && one.thread == thread).map(|(number, _)| number);
        if found.is_none() {
            let known: Vec<&str> = all.0.iter().filter(own).map(|one| one.thread.as_str()).collect();
            let message = format!("no end point is of a thread `{thread}`");
            self.unknown_part(Code::UnknownThread, message, (target.span, "\"receive:", "\""), thread, &known);
        }
        found
    }

    /// What `interrupt:NAME` leads to.
    pub(super) fn handled(&mut self, component: usize, target: &Located<String>, name: &str) -> Option<u16> {
        let file = self.file;
        let all =
            file.component.iter().enumerate().flat_map(|(owner, one)| one.interrupts.iter().map(move |it| (owner, it)));
        let found = (0..).zip(all).find(|(_, (owner, one))| *owner == component && one.name.value == name);
        if found.is_none() {
            let own = file.component.get(component).map_or(&[][..], |one| &one.interrupts);
            let known: Vec<&str> = own.iter().map(|one| one.name.as_str()).collect();
            let message = format!("the component has no interrupt `{name}`");
            let before = format!("\"{}", target.strip_suffix(name).unwrap_or_default());
            self.unknown_part(Code::ForeignInterrupt, message, (target.span, &before, "\""), name, &known);
        }
        found.map(|(number, _)| number)
    }

    /// What `expect:COMPONENT.NAME` leads to: a client's requests end in such an interrupt.
    pub(super) fn expected(&mut self, target: &Located<String>, rest: &str) -> Option<u16> {
        let Some((component, name)) = rest.split_once('.') else {
            let message = format!("`{}` names no interrupt", target.value);
            let diagnostic = Diagnostic::new(Code::BadBinding, message).at(target.span, "");
            self.push(diagnostic.help("write \"expect:COMPONENT.NAME\""));
            return None;
        };
        let driver = self.component_of(target, component)?;
        self.handled(driver, target, name)
    }

    /// The server that pays for an interrupt: that of the thread that takes its signal.
    fn payer_of(&self, component: &'r Component, end_points: &EndPoints, end_point: u16, servers: &Servers) -> u16 {
        let taker = end_points.0.get(usize::from(end_point)).map(|one| one.thread.as_str());
        let thread = component.threads.iter().find(|thread| Some(thread.name.as_str()) == taker);
        let name = thread.and_then(|thread| self.server_of(thread));
        name.and_then(|name| servers.number(name)).unwrap_or(0)
    }

    /// Resolves the interrupts of every component.
    pub(super) fn interrupts(&mut self, end_points: &EndPoints, servers: &Servers) -> Vec<BindingRow> {
        let file = self.file;
        let mut rows = Vec::new();
        let mut owners: Vec<(u32, Span)> = Vec::new();
        for (number, component) in file.component.iter().enumerate() {
            for interrupt in &component.interrupts {
                let found = self.intid(component, interrupt);
                let signal = &interrupt.signal;
                let signal = self.signal(number, signal, signal.span, "\"", end_points);
                let period_ticks = self.period(interrupt);
                let (Some((intid, edge)), Some((end_point, bits)), Some(period_ticks)) = (found, signal, period_ticks)
                else {
                    continue;
                };
                if let Some((_, first)) = owners.iter().find(|(other, _)| *other == intid) {
                    let message = format!("interrupt {intid} is given twice");
                    let diagnostic = Diagnostic::new(Code::InterruptTwice, message).at(interrupt.name.span, "");
                    self.push(diagnostic.at(*first, "it is this one's"));
                }
                owners.push((intid, interrupt.name.span));
                self.on_own_time(component, interrupt);
                let server = self.payer_of(component, end_points, end_point, servers);
                let (clients, default_client) = servers.clients(server);
                rows.push(BindingRow {
                    bits,
                    period_ticks,
                    clients,
                    intid,
                    end_point,
                    server,
                    edge: edge.into(),
                    default_client,
                    ..BindingRow::default()
                });
            }
        }
        rows
    }

    /// Warns where the driver may run on time that somebody gave it: its interrupt comes again when it says so on its own.
    fn on_own_time(&mut self, component: &Component, interrupt: &Interrupt) {
        let takes = |signal: &Located<String>| signal.value == interrupt.signal.value;
        let end_point = component.end_points.iter().find(|one| one.signals.value.iter().any(takes));
        let Some(span) = end_point.and_then(|one| one.takes_time.as_ref()).filter(|takes| takes.value) else { return };
        let message = format!("interrupt `{}` goes to a thread that runs on time of others", interrupt.name.value);
        let diagnostic = Diagnostic::new(Code::InterruptTakesTime, message)
            .at(interrupt.signal.span, "")
            .at(span.span, "who sends may give it time");
        self.push(
            diagnostic
                .note("an interrupt comes again when its driver has done with it, which it can say on time of its own server only")
                .help("let another thread of the component take the interrupt"),
        );
    }

    /// The number of an interrupt that is the instance's, and whether the device signals it by an edge.
    fn intid(&mut self, component: &Component, interrupt: &Interrupt) -> Option<(u32, bool)> {
        let name = &interrupt.name;
        if name.value == PERIODIC {
            return Some((PERIODIC_INTID, false));
        }
        if let Some(doorbell) = self.doorbell(component, interrupt) {
            return doorbell.map(|intid| (intid, true));
        }
        let found = self.around.devices.iter().find(|device| device.name == name.value);
        match found.map(|device| device.interrupts.as_slice()) {
            Some([interrupt]) => {
                let found = (interrupt.intid, interrupt.edge);
                self.drives(component, &name.value, name.span).then_some(found)
            }
            Some(interrupts) => {
                let message = format!("the device `{}` has {} interrupts", name.value, interrupts.len());
                self.push(Diagnostic::new(Code::ForeignInterrupt, message).at(name.span, "expected one"));
                None
            }
            None => {
                let owner = self.around.owner();
                let message = format!("the interrupt of `{}` is none of {owner}", name.value);
                let mut known: Vec<&str> = self.around.devices.iter().map(|device| device.name.as_str()).collect();
                known.extend(
                    self.around
                        .ports
                        .iter()
                        .flatten()
                        .filter(|port| port.intid.is_some())
                        .map(|port| port.name.as_str()),
                );
                known.push(PERIODIC);
                self.unknown(Code::ForeignInterrupt, message, name.span, name, &known);
                None
            }
        }
    }

    /// The period of the second timer, which devices have not.
    fn period(&mut self, interrupt: &Interrupt) -> Option<u64> {
        let is_periodic = interrupt.name.value == PERIODIC;
        let Some(period) = interrupt.period.as_ref() else {
            if is_periodic {
                let message = "the second timer needs a period";
                let diagnostic = Diagnostic::new(Code::BadPeriod, message).at(interrupt.name.span, "how often?");
                self.push(diagnostic.help("for example `period = \"10 ms\"`"));
            }
            return (!is_periodic).then_some(0);
        };
        if !is_periodic {
            let message = "a device interrupts when it wants to";
            self.push(Diagnostic::new(Code::BadPeriod, message).at(period.span, "remove it"));
            return None;
        }
        let period_ns = self.duration(period)?;
        let ticks = u128::from(period_ns) * u128::from(self.around.counter_hz) / 1_000_000_000;
        match u64::try_from(ticks).ok().filter(|ticks| (1..1 << 56).contains(ticks)) {
            Some(ticks) => Some(ticks),
            None => {
                let message = "a period is at least one tick of the counter, and less than 2 to the 56";
                self.push(Diagnostic::new(Code::BadPeriod, message).at(period.span, ""));
                None
            }
        }
    }
}
