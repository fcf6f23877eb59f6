//! Ports of components: ends of channels of the partition, each of which one component has for itself (`kernel.md` 9; QV-50).
//!
//! A component says which ports it has (`ports = ["telemetry"]`), and its program names what it uses and how, as it names devices; `bind` says which is which
//! (`out = "port:telemetry"`). Who rings a doorbell gets a capability that does nothing else; whom a doorbell tells takes it as an interrupt.

use super::devices::KnownPort;
use super::file::{Component, Interrupt};
use super::resolve::{Resolver, granted};
use super::wires::{Wires, wired};
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_instance::Port;
use bulkhead_kernel_abi::image::PortUse;
use bulkhead_kernel_abi::{Capability, Kind, MAX_WIRES, NONE};

/// What a name is bound to that is a port.
pub(super) const PORT: &str = "port:";

/// The ports of every component, by its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports(Vec<Vec<Port>>);

impl Ports {
    /// What the writer takes.
    pub(super) fn of(&self, component: usize) -> Vec<Port> {
        self.0.get(component).cloned().unwrap_or_default()
    }
}

impl Resolver<'_> {
    /// Resolves the ports of every component: each is there, and nobody else's. Each doorbell that a component rings is a wire without a window.
    pub(super) fn ports(&mut self, wires: &mut Wires) -> Ports {
        let (file, around) = (self.file, self.around);
        let wired = wired(file).map(|(port, span)| (port, String::from("a wire's"), span));
        let mut owners: Vec<(&str, String, Span)> = wired.collect();
        let mut all = Ports::default();
        for component in &file.component {
            let mut own = Vec::new();
            for name in &component.ports {
                let Some(known) = around.port(&name.value) else {
                    self.no_port(name);
                    continue;
                };
                if let Some((_, owner, first)) = owners.iter().find(|(other, ..)| *other == name.as_str()) {
                    let message = format!("port `{}` is given twice", name.value);
                    let diagnostic = Diagnostic::new(Code::WireTwice, message).at(name.span, "a second time");
                    let diagnostic = diagnostic.at(*first, format!("it is {owner}"));
                    self.push(
                        diagnostic.help("declare a port and a channel for each: a port has one writer and one reader"),
                    );
                    continue;
                }
                owners.push((name.as_str(), format!("`{}`'s", component.name.value), name.span));
                let wire = known.doorbell.map_or(NONE, |doorbell| wires.ring(doorbell));
                if wire != NONE && usize::from(wire) == MAX_WIRES {
                    let message = format!("an instance has at most {MAX_WIRES} wires and doorbells of ports");
                    self.push(Diagnostic::new(Code::TooManyObjects, message).at(name.span, "needs one more"));
                }
                own.push(port(known, wire));
            }
            all.0.push(own);
        }
        all
    }

    fn no_port(&mut self, name: &Located<String>) {
        let message = format!("{} has no port `{}`", self.around.owner(), name.value);
        let Some(ports) = &self.around.ports else {
            let diagnostic = Diagnostic::new(Code::UnknownPort, message).at(name.span, "");
            self.push(diagnostic.help("on the board there is one instance, and no channel to another partition"));
            return;
        };
        let known: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        self.unknown(Code::UnknownPort, message, name.span, name, &known);
    }

    /// Binds an import to `port:NAME`; returns the capability for `slot` that rings the doorbell, if there is one.
    pub(super) fn port(
        &mut self,
        (component, import): (usize, &str),
        target: &Located<String>,
        signature: u64,
        (ports, slot): (&mut Ports, u64),
    ) -> Option<Capability> {
        let does = PortUse::of_signature(signature);
        let (Some(name), Some(does)) = (target.strip_prefix(PORT), does) else {
            let (what, help) = match does {
                Some(_) => ("a port, and is bound to something else", "write \"port:NAME\""),
                None => ("no port, and is bound to one", "a program names a port by `ports!` of the SDK"),
            };
            let message = format!("what the program calls so is {what}");
            self.push(Diagnostic::new(Code::BadBinding, message).at(target.span, "").help(help));
            return None;
        };
        let own = ports.0.get_mut(component)?;
        let Some(port) = own.iter_mut().find(|port| port.name == name) else {
            // One that is not there was reported where the component says that it has it.
            let known: Vec<&str> = own.iter().map(|port| port.name.as_str()).collect();
            let message = format!("the component has no port `{name}`");
            let says =
                self.file.component.get(component).is_some_and(|one| one.ports.iter().any(|it| it.value == name));
            if !says {
                self.unknown_part(Code::UnknownPort, message, (target.span, "\"port:", "\""), name, &known);
            }
            return None;
        };
        if port.does != does {
            let message = format!("the program {}, and port `{name}` {}", means(does), is(port.does));
            let diagnostic = Diagnostic::new(Code::PortOtherwise, message).at(target.span, "");
            self.push(diagnostic.help("name another port, or change `direction` and `kind` of this one in the system"));
            return None;
        }
        if let Some(other) = &port.import {
            let message = format!("port `{name}` is bound to `{other}` already");
            let diagnostic = Diagnostic::new(Code::WireTwice, message).at(target.span, "a second time");
            self.push(diagnostic.help("each would number its messages alike: use it by one name"));
            return None;
        }
        port.import = Some(import.to_owned());
        if port.wire == NONE {
            return None;
        }
        port.bell = slot;
        Some(granted(Kind::RemoteSend, port.wire, 0))
    }

    /// The interrupt of a port's doorbell, if the component takes that and not the one of a device.
    pub(super) fn doorbell(&mut self, component: &Component, interrupt: &Interrupt) -> Option<Option<u32>> {
        let name = &interrupt.name;
        let known = self.around.port(&name.value)?;
        let has = component.ports.iter().any(|port| port.value == name.value);
        if !has && self.around.devices.iter().any(|device| device.name == name.value) {
            return None;
        }
        if !has {
            let message = format!(
                "component `{}` has the doorbell of port `{}` and not the port",
                component.name.value, name.value
            );
            let diagnostic = Diagnostic::new(Code::InterruptWithoutDevice, message).at(name.span, "tells of nothing");
            self.push(diagnostic.help(format!("add `ports = [\"{}\"]`", name.value)));
            return Some(None);
        }
        if known.intid.is_none() {
            let why = if known.is_source { "is written here, and tells others" } else { "has no doorbell" };
            let message = format!("port `{}` {why}", name.value);
            let diagnostic = Diagnostic::new(Code::ForeignInterrupt, message).at(name.span, "");
            self.push(if known.is_source {
                diagnostic
            } else {
                diagnostic.help("for example `doorbell = { limit = 10, per = \"10 ms\" }` in its `[[channel]]`")
            });
        }
        Some(known.intid)
    }
}

/// A port without a program.
fn port(known: &KnownPort, wire: u16) -> Port {
    Port {
        name: known.name.clone(),
        does: known.does,
        window: known.window,
        message_bytes: known.message_bytes,
        slots: known.slots,
        intid: known.intid.unwrap_or(0),
        wire,
        bell: 0,
        import: None,
    }
}

const fn means(does: PortUse) -> &'static str {
    match does {
        PortUse::SamplingSource => "publishes values",
        PortUse::SamplingDestination => "reads values",
        PortUse::QueuingSource => "sends messages",
        PortUse::QueuingDestination => "receives messages",
    }
}

const fn is(does: PortUse) -> &'static str {
    match does {
        PortUse::SamplingSource => "is a `sampling` `source`",
        PortUse::SamplingDestination => "is a `sampling` `destination`",
        PortUse::QueuingSource => "is a `queuing` `source`",
        PortUse::QueuingDestination => "is a `queuing` `destination`",
    }
}
