//! Wires: what other instances may send to, and what this one sends, by channels of its partition (`kernel.md` 6; CH-39, CH-40).
//!
//! The instance that takes entries says what can be sent to, by names. The one that sends binds functions to these names and says nothing else of the wire: so there is one
//! place where the numbers of exports are made, and [`exports`] reads it for both.

use super::devices::KnownPort;
use super::end_points::EndPoints;
use super::file::{KernelFile, Wire};
use super::resolve::Resolver;
use super::servers::Servers;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_instance::WireEnd;
use bulkhead_kernel_abi::boot::ExportRow;
use bulkhead_kernel_abi::capability::{TOKEN_MASK, remote_word, right};
use bulkhead_kernel_abi::{Capability, Kind, MAX_EXPORTS, MAX_WIRES, NONE};

/// What a function is bound to that sends by a wire.
pub(super) const WIRE: &str = "wire:";

/// What can be sent to by a port: names, and the bits that each sets.
pub(crate) type Exports = Vec<(String, u64)>;

/// What the instance of a file takes from a port of its partition; `None` when it takes nothing. What it names and has not is left out: its own check says so.
pub(crate) fn exports(file: &KernelFile, port: &str) -> Option<Exports> {
    let wire = file.wire.iter().find(|wire| wire.port.value == port)?;
    let bits = |target: &str| {
        let (component, signal) = target.split_once('.')?;
        let component = file.component.iter().find(|one| one.name.value == component)?;
        let bit = |signals: &[Located<String>]| signals.iter().position(|one| one.value == signal);
        let bit = component.end_points.iter().find_map(|one| bit(&one.signals.value))?;
        1_u64.checked_shl(u32::try_from(bit).ok()?)
    };
    let named = wire.exports.value.0.iter();
    Some(named.map(|(name, target)| (name.value.clone(), bits(target).unwrap_or(0))).collect())
}

/// The wires of an instance: those that it takes from, then those that it sends by.
#[derive(Clone, Debug, Default)]
pub(super) struct Wires {
    all: Vec<bulkhead_instance::Wire>,
    /// Names of ports that are written, with the numbers of their wires.
    sources: Vec<(String, u16)>,
}

impl Wires {
    /// What the writer takes.
    pub(super) fn all(&self) -> &[bulkhead_instance::Wire] {
        &self.all
    }

    /// Adds a wire that rings a doorbell and does nothing else, and returns its number.
    pub(super) fn ring(&mut self, doorbell: u32) -> u16 {
        let number = u16::try_from(self.all.len()).unwrap_or(NONE);
        self.all.push(bulkhead_instance::Wire { window: 0, end: WireEnd::Source { doorbell }, exports: Vec::new() });
        number
    }
}

impl<'r> Resolver<'r> {
    /// Resolves the wires.
    pub(super) fn wires(&mut self, end_points: &EndPoints, servers: &Servers) -> Wires {
        let file = self.file;
        let mut wires = Wires::default();
        let mut taken: Vec<&Located<String>> = Vec::new();
        for wire in &file.wire {
            if let Some(first) = taken.iter().find(|other| other.value == wire.port.value) {
                let message = format!("two wires take from port `{}`", wire.port.value);
                let diagnostic = Diagnostic::new(Code::WireTwice, message).at(wire.port.span, "a second one");
                self.push(diagnostic.at(first.span, "the first one").help("give one of them all exports"));
                continue;
            }
            taken.push(&wire.port);
            wires.all.extend(self.taken(wire, end_points, servers));
        }
        let bindings = file.component.iter().flat_map(|one| &one.bind).flat_map(|bind| &bind.value.0);
        for (_, target) in bindings {
            let named = port_of(target);
            let Some(port) = named.filter(|port| wires.sources.iter().all(|(name, _)| name != port)) else {
                continue;
            };
            let Some(known) = self.around.port(port).filter(|known| known.is_source) else { continue };
            let exports = known.exports.iter().flatten();
            let exports = exports.map(|(_, bits)| ExportRow { bits: *bits, end_point: NONE, ..ExportRow::default() });
            let end = WireEnd::Source { doorbell: known.doorbell.unwrap_or_default() };
            let number = u16::try_from(wires.all.len()).unwrap_or(NONE);
            wires.all.push(bulkhead_instance::Wire { window: known.window, end, exports: exports.collect() });
            wires.sources.push((port.to_owned(), number));
            if wires.all.len() == MAX_WIRES + 1 {
                let message = format!("an instance has at most {MAX_WIRES} wires");
                self.push(Diagnostic::new(Code::TooManyObjects, message).at(target.span, "needs one more"));
            }
        }
        wires
    }

    /// A wire that is taken from.
    fn taken(&mut self, wire: &Wire, end_points: &EndPoints, servers: &Servers) -> Option<bulkhead_instance::Wire> {
        let names: Vec<&str> = self.file.server.iter().map(|server| server.name.as_str()).collect();
        let server = servers.number(&wire.server);
        if server.is_none() {
            let message = format!("there is no server `{}`", wire.server.value);
            self.unknown(Code::UnknownPayer, message, wire.server.span, &wire.server, &names);
        }
        let exports = self.exports(wire, end_points);
        let known = self.wired((&wire.port, wire.port.span), false)?;
        let end = WireEnd::Destination { intid: known.intid.unwrap_or_default(), server: server? };
        Some(bulkhead_instance::Wire { window: known.window, end, exports: exports? })
    }

    /// What a wire exports.
    fn exports(&mut self, wire: &Wire, end_points: &EndPoints) -> Option<Vec<ExportRow>> {
        let named = &wire.exports.value.0;
        if !(1..=MAX_EXPORTS).contains(&named.len()) {
            let message = format!("a wire cannot export {} signals", named.len());
            let label = format!("expected 1 to {MAX_EXPORTS}");
            self.push(Diagnostic::new(Code::BadExport, message).at(wire.exports.span, label));
            return None;
        }
        let twice = (1..named.len()).find(|at| named.iter().take(*at).any(|(name, _)| *name == named[*at].0));
        if let Some((name, _)) = twice.and_then(|at| named.get(at)) {
            let message = format!("export `{}` is several signals", name.value);
            self.push(Diagnostic::new(Code::BadExport, message).at(name.span, "write one"));
            return None;
        }
        let export = |(_, target): &(Located<String>, Located<String>)| {
            let (end_point, bits) = self.signal_of(target, target, end_points)?;
            if bits & !TOKEN_MASK != 0 {
                let message = format!("signal `{}` cannot be sent by a wire", target.value);
                let diagnostic = Diagnostic::new(Code::BadExport, message);
                let label = format!("is number {} of its end point", bits.trailing_zeros());
                self.push(
                    diagnostic
                        .at(target.span, label)
                        .help("a wire sends signals 0 to 47: name it earlier in `signals`"),
                );
                return None;
            }
            Some(ExportRow { bits, end_point, ..ExportRow::default() })
        };
        named.iter().map(export).collect()
    }

    /// What `wire:PORT.EXPORT` leads to.
    pub(super) fn remote(&mut self, target: &Located<String>, rest: &str, wires: &Wires) -> Option<Capability> {
        let Some((port, name)) = rest.split_once('.') else {
            let message = format!("`{}` names no export", target.value);
            let diagnostic = Diagnostic::new(Code::BadBinding, message).at(target.span, "");
            self.push(diagnostic.help("write \"wire:PORT.EXPORT\""));
            return None;
        };
        let known = self.wired((port, target.span), true)?;
        let Some(exports) = &known.exports else {
            let message = format!("nobody takes what is sent by port `{port}`");
            let diagnostic = Diagnostic::new(Code::WireOfNobody, message).at(target.span, "");
            self.push(diagnostic.help(
                "at the other end of the channel there is no instance of the kernel with a `[[wire]]` for its port",
            ));
            return None;
        };
        let Some(index) = exports.iter().position(|(export, _)| export == name) else {
            let names: Vec<&str> = exports.iter().map(|(export, _)| export.as_str()).collect();
            let message = format!("the other end of port `{port}` exports no `{name}`");
            let before = format!("\"{WIRE}{port}.");
            self.unknown_part(Code::UnknownExport, message, (target.span, &before, "\""), name, &names);
            return None;
        };
        let (_, number) = wires.sources.iter().find(|(source, _)| source == port)?;
        let (_, bits) = exports.get(index)?;
        let word = remote_word(u16::try_from(index).ok()?, *bits);
        Some(Capability { kind: Kind::RemoteSend.number(), rights: right::USE, object: *number, grant: 1, word })
    }

    /// The port that a wire uses: it is the partition's, has its direction, and rings.
    fn wired(&mut self, (port, span): (&str, Span), is_source: bool) -> Option<&'r KnownPort> {
        let around = self.around;
        let Some(known) = around.port(port) else {
            let message = format!("{} has no port `{port}` for a wire", around.owner());
            let diagnostic = Diagnostic::new(Code::WireWithoutChannel, message).at(span, "");
            self.push(match &around.ports {
                None => diagnostic.help("on the board there is one instance, and no channel to another one"),
                Some(ports) if ports.is_empty() => diagnostic.help("declare it in `ports` of the partition"),
                Some(ports) => {
                    let names: Vec<&str> = ports.iter().map(|known| known.name.as_str()).collect();
                    diagnostic.help(format!("its ports are {}", crate::suggest::list(&names)))
                }
            });
            return None;
        };
        if known.is_source != is_source {
            let (does, needed) = if is_source { ("reads", "source") } else { ("writes", "destination") };
            let message = format!("{} {does} port `{port}`", around.owner());
            let diagnostic = Diagnostic::new(Code::WireDirection, message);
            let label = format!("needs a port with `direction = \"{needed}\"`");
            self.push(diagnostic.at(span, label).help("a wire goes one way: use another channel for the other one"));
            return None;
        }
        if known.doorbell.is_none() && known.intid.is_none() {
            let message = format!("the channel of port `{port}` has no doorbell, and nobody would look at the wire");
            let diagnostic = Diagnostic::new(Code::WireWithoutDoorbell, message).at(span, "");
            self.push(diagnostic.help("for example `doorbell = { limit = 10, per = \"10 ms\" }` in its `[[channel]]`"));
            return None;
        }
        Some(known)
    }
}

/// The port that a binding sends by.
fn port_of(target: &str) -> Option<&str> {
    target.strip_prefix(WIRE)?.split_once('.').map(|(port, _)| port)
}

/// Ports that are wires, and where the file says so.
pub(super) fn wired(file: &KernelFile) -> impl Iterator<Item = (&str, Span)> {
    let taken = file.wire.iter().map(|wire| (wire.port.as_str(), wire.port.span));
    let targets = file.component.iter().flat_map(|one| &one.bind).flat_map(|bind| &bind.value.0);
    taken.chain(targets.filter_map(|(_, target)| Some((port_of(target)?, target.span))))
}
