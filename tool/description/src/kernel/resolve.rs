//! From the written description to an instance. Every check reports and continues; what could not be resolved is `None`, and later checks skip it.

use super::calls::Edge;
use super::devices::{Around, Devices};
use super::end_points::EndPoints;
use super::file::{Component, KernelFile};
use super::ports::{PORT, Ports};
use super::programs::Program;
use super::servers::Servers;
use super::shares::Shares;
use super::supervision::Supervision;
use super::wires::{WIRE, Wires};
use crate::code::{Code, Severity};
use crate::decode::{Duration, Located, Size};
use crate::diagnostic::{Diagnostic, Report};
use crate::guest_file::GuestFiles;
use crate::source::Span;
use crate::suggest;
use crate::unit::{BadQuantity, parse_duration, parse_size};
use bulkhead_instance::{DMA_PLACE, Import};
use bulkhead_kernel_abi::capability::{entry_word, right};
use bulkhead_kernel_abi::image::{
    ACCOUNTS_SIGNATURE, COMPONENT_ACCOUNTS, DEVICE_SIGNATURE, DMA_SIGNATURE, LIMIT_SIGNATURE, PortUse,
};
use bulkhead_kernel_abi::{Capability, Kind, MAX_FRAMES};
use bulkhead_plan::model;

/// What the checks share.
pub(super) struct Resolver<'r> {
    pub(super) file: &'r KernelFile,
    pub(super) around: &'r Around,
    pub(super) files: &'r mut GuestFiles,
    pub(super) report: &'r mut Report,
}

/// A component's capability table, and what its calls lead to.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Slot 0 is empty.
    pub(super) capabilities: Vec<Capability>,
    /// In which slots its program finds what it calls.
    pub(super) imports: Vec<Import>,
    /// Who is told of its faults.
    pub(super) supervisor: Option<Supervision>,
    /// Its program reads the accounts.
    pub(super) has_accounts: bool,
}

/// What bindings lead to.
pub(super) struct Known<'k> {
    programs: &'k [Option<Program>],
    end_points: &'k EndPoints,
    devices: &'k Devices,
    supervisors: &'k [Option<Supervision>],
    servers: &'k Servers,
    shares: &'k Shares,
    wires: &'k Wires,
}

/// An instance that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// A flat arm64 Image.
    pub(crate) bytes: Vec<u8>,
    /// What is in it.
    pub(crate) components: Vec<model::Component>,
    /// Its servers.
    pub(crate) servers: Vec<model::InstanceServer>,
}

/// Resolves an instance and lays it out; `None` after at least one mistake.
pub(crate) fn instance(
    file: &KernelFile,
    around: &Around,
    files: &mut GuestFiles,
    report: &mut Report,
) -> Option<Made> {
    let before = report.count(Severity::Error);
    let mut resolver = Resolver { file, around, files, report };
    resolver.names();
    resolver.counts();
    let servers = resolver.servers();
    resolver.payers();
    resolver.schedulers();
    resolver.sizes();
    let programs = resolver.programs();
    let process_programs = resolver.process_programs();
    let mut end_points = resolver.end_points();
    let (shares, given) = resolver.shares(&servers, &end_points.takers());
    end_points.take(&given);
    let devices = resolver.devices();
    resolver.dma_pages();
    let interrupts = resolver.interrupts(&end_points, &servers);
    let supervisors = resolver.supervisors(&end_points);
    let mut wires = resolver.wires(&end_points, &servers);
    let mut ports = resolver.ports(&mut wires);
    let known = Known {
        programs: &programs,
        end_points: &end_points,
        devices: &devices,
        supervisors: &supervisors,
        servers: &servers,
        shares: &shares,
        wires: &wires,
    };
    let (tables, edges) = resolver.tables(&known, &mut ports);
    resolver.calls(&edges);
    resolver.callers(&edges);
    if resolver.report.count(Severity::Error) > before {
        return None;
    }
    resolver.lay_out(
        (&programs, &process_programs),
        (&servers, &end_points, &interrupts),
        (tables, devices, shares, (&wires, &ports)),
    )
}

impl<'r> Resolver<'r> {
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.report.push(diagnostic);
    }

    /// Reads a size; a bad one is reported.
    pub(super) fn size(&mut self, text: &Located<Size>) -> Option<u64> {
        self.quantity(text.span, parse_size(&text.value.0))
    }

    /// Reads a duration; a bad one is reported.
    pub(super) fn duration(&mut self, text: &Located<Duration>) -> Option<u64> {
        self.quantity(text.span, parse_duration(&text.value.0))
    }

    fn quantity(&mut self, span: Span, result: Result<u64, BadQuantity>) -> Option<u64> {
        result.map_err(|bad| self.push(crate::resolve::bad_quantity(bad, span))).ok()
    }

    /// The number of a component.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.file.component.iter().position(|component| component.name.value == name)
    }

    /// The names of the components.
    pub(super) fn component_names(&self) -> impl Iterator<Item = &'r str> + use<'r> {
        self.file.component.iter().map(|component| component.name.as_str())
    }

    /// Reports a name that is none of the known ones.
    pub(super) fn unknown(&mut self, code: Code, message: String, span: Span, word: &str, known: &[&str]) {
        self.unknown_part(code, message, (span, "\"", "\""), word, known);
    }

    /// As [`Self::unknown`] of a part of a text, with what is before and behind it.
    pub(super) fn unknown_part(
        &mut self,
        code: Code,
        message: String,
        (span, before, behind): (Span, &str, &str),
        word: &str,
        known: &[&str],
    ) {
        let mut diagnostic = Diagnostic::new(code, message).at(span, "");
        diagnostic = match suggest::closest(word, known.iter().copied()) {
            Some(meant) => {
                diagnostic.suggest(span, format!("{before}{meant}{behind}"), format!("did you mean `{meant}`?"))
            }
            None if known.is_empty() => diagnostic.help("there is none"),
            None => diagnostic.help(match known.split_at_checked(MOST_NAMES) {
                Some((first, rest)) if !rest.is_empty() => {
                    let names: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
                    format!("there are {} and {} more", names.join(", "), rest.len())
                }
                _ => format!("there are {}", suggest::list(known)),
            }),
        };
        self.push(diagnostic);
    }

    /// Fills the capability tables: a slot for each function that a program calls, in its order.
    fn tables(&mut self, known: &Known<'_>, ports: &mut Ports) -> (Vec<Table>, Vec<Edge>) {
        let (mut tables, mut edges) = (Vec::new(), Vec::new());
        let file = self.file;
        for (number, component) in file.component.iter().enumerate() {
            let mut table = Table {
                capabilities: vec![Capability::NULL],
                supervisor: known.supervisors.get(number).copied().flatten(),
                ..Table::default()
            };
            let program = known.programs.get(number).and_then(Option::as_ref);
            let bindings = component.bind.as_ref().map_or(&[][..], |bind| &bind.value.0);
            for import in program.iter().flat_map(|program| &program.interface.imports) {
                if import.signature == LIMIT_SIGNATURE {
                    let slot = self.limit(component, &import.name);
                    table.imports.push(Import { name: import.name.clone(), slot });
                    continue;
                }
                if import.signature == DMA_SIGNATURE {
                    // Which pages these are needs no word: a component has its own.
                    let has = self.has_dma(component, &import.name);
                    table.imports.extend(has.then(|| Import { name: import.name.clone(), slot: DMA_PLACE }));
                    continue;
                }
                let mut targets = bindings.iter().filter(|(function, _)| function.value == import.name).peekable();
                let Some((_, first)) = targets.peek() else {
                    self.unbound(component, &import.name);
                    continue;
                };
                let signature = import.signature;
                if signature == DEVICE_SIGNATURE || first.starts_with("device:") {
                    let address = self.registers(number, first, signature, known.devices);
                    table.imports.extend(address.map(|slot| Import { name: import.name.clone(), slot }));
                    continue;
                }
                if PortUse::of_signature(signature).is_some() || first.starts_with(PORT) {
                    let slot = table.capabilities.len() as u64;
                    table.capabilities.extend(self.port((number, &import.name), first, signature, (&mut *ports, slot)));
                    continue;
                }
                if signature == ACCOUNTS_SIGNATURE || first.value == ACCOUNTS {
                    let reads = self.reads_accounts(first, signature);
                    table.has_accounts |= reads;
                    table.imports.extend(reads.then(|| Import { name: import.name.clone(), slot: COMPONENT_ACCOUNTS }));
                    continue;
                }
                if let Some(name) = first.strip_prefix("program:") {
                    let found = self.program_number(component, first, name);
                    table.imports.extend(found.map(|slot| Import { name: import.name.clone(), slot }));
                    continue;
                }
                table.imports.push(Import { name: import.name.clone(), slot: table.capabilities.len() as u64 });
                for (_, target) in targets {
                    let Some((capabilities, callee)) = self.slots(number, target, signature, known) else { continue };
                    table.capabilities.extend(capabilities);
                    edges.extend(callee.map(|callee| Edge { caller: number, callee, span: target.span }));
                }
            }
            if let Some(program) = program {
                self.unused(component, program, bindings);
                self.unused_limits(component, program);
            }
            tables.push(table);
        }
        (tables, edges)
    }

    /// States whether an import that reads the accounts is bound to them, and no other one is.
    fn reads_accounts(&mut self, target: &Located<String>, signature: u64) -> bool {
        let (what, help) = match (signature == ACCOUNTS_SIGNATURE, target.value == ACCOUNTS) {
            (true, true) => return true,
            (true, false) => ("the accounts, and is bound to something else", "write \"accounts\""),
            _ => ("a function, and is bound to the accounts", "a program names them by `accounts!` of the SDK"),
        };
        let message = format!("what the program calls so is {what}");
        self.push(Diagnostic::new(Code::BadBinding, message).at(target.span, "").help(help));
        false
    }

    /// A function that the program calls and nothing binds.
    fn unbound(&mut self, component: &Located<Component>, function: &str) {
        let name = component.name.as_str();
        let message = format!("nothing says what `{function}` of component `{name}` leads to");
        let place = component.bind.as_ref().map_or(component.name.span, |bind| bind.span);
        let diagnostic = Diagnostic::new(Code::Unbound, message)
            .at(component.program.span, format!("this program calls `{function}`"))
            .at(place, "and it is not here");
        self.push(diagnostic.help(format!("for example `bind = {{ {function} = \"COMPONENT.FUNCTION\" }}`")));
    }

    /// Bindings of functions that the program does not call.
    fn unused(
        &mut self,
        component: &Located<Component>,
        program: &Program,
        bindings: &[(Located<String>, Located<String>)],
    ) {
        let known: Vec<&str> = program.interface.imports.iter().map(|import| import.name.as_str()).collect();
        let mut unknown: Vec<&Located<String>> = bindings.iter().map(|(function, _)| function).collect();
        unknown.retain(|function| !known.contains(&function.as_str()));
        unknown.dedup();
        for function in unknown {
            let message =
                format!("the program of component `{}` calls no function `{}`", component.name.value, function.value);
            self.unknown_part(Code::BindUnused, message, (function.span, "", ""), function, &known);
        }
    }

    /// The slots that a binding fills, and the component that is called.
    fn slots(
        &mut self,
        number: usize,
        target: &Located<String>,
        signature: u64,
        known: &Known<'_>,
    ) -> Option<(Vec<Capability>, Option<usize>)> {
        if let Some((name, thread)) = target.strip_prefix("thread:").and_then(|rest| rest.split_once('.')) {
            let thread = self.childs_thread(number, target, (name, thread), known.supervisors)?;
            // All but what pays for it.
            let rights = right::USE | right::STOP | right::LIMIT | right::READ;
            return Some((vec![Capability { rights, ..granted(Kind::Thread, thread, 0) }], None));
        }
        if let Some(handed) = self.handed(number, target, (known.servers, known.shares)) {
            return handed.map(|capabilities| (capabilities, None));
        }
        if let Some(name) = target.strip_prefix("component:") {
            // It looks at its child's fault, and begins it again.
            let child = self.child(number, target, name, known.supervisors)?;
            let rights = right::USE | right::READ;
            return Some((vec![Capability { rights, ..granted(Kind::Component, child, 0) }], None));
        }
        if let Some(rest) = target.strip_prefix(WIRE) {
            return Some((vec![self.remote(target, rest, known.wires)?], None));
        }
        let (capability, callee) = self.target(number, target, signature, known)?;
        Some((vec![capability], callee))
    }

    /// What a binding leads to, and the component that is called.
    fn target(
        &mut self,
        number: usize,
        target: &Located<String>,
        signature: u64,
        known: &Known<'_>,
    ) -> Option<(Capability, Option<usize>)> {
        let (of, end_points) = (granted, known.end_points);
        // A driver works for the threads that call it, and says so when they ask.
        let driven =
            |binding: u16| Capability { rights: right::USE | right::EXPECT, ..of(Kind::Interrupt, binding, 0) };
        if let Some(rest) = target.strip_prefix("send:") {
            let (end_point, bits) = self.signal_of(target, rest, end_points)?;
            return Some((of(Kind::Send, end_point, bits), None));
        }
        if let Some(rest) = target.strip_prefix("receive:") {
            let end_point = self.received(number, target, rest, end_points)?;
            return Some((of(Kind::Receive, end_point, 0), None));
        }
        if let Some(rest) = target.strip_prefix("interrupt:") {
            let binding = self.handled(number, target, rest)?;
            return Some((driven(binding), None));
        }
        if let Some(rest) = target.strip_prefix("expect:") {
            let binding = self.expected(target, rest)?;
            let expects = Capability { rights: right::EXPECT, ..of(Kind::Interrupt, binding, 0) };
            return Some((expects, None));
        }
        let (callee, token) = self.token_of(target)?;
        let Some((component, function)) = callee.split_once('.') else {
            let message = format!("`{}` is nothing that a function can be bound to", target.value);
            self.push(Diagnostic::new(Code::BadBinding, message).at(target.span, "").help(
                "write \"COMPONENT.FUNCTION\" for a call, \"send:COMPONENT.SIGNAL\", \"receive:THREAD\", \"interrupt:NAME\", \"expect:COMPONENT.NAME\", \"device:NAME\", \"port:NAME\", \"component:NAME\", \"quota\", \"program:NAME\", \"scheduler:NAME\", \"threads:SCHEDULER\", \"thread:NAME\", \"tcap:THREAD\", \"server:NAME\", \"band:NAME\", \"empty:COUNT\", \"accounts\" or \"wire:PORT.NAME\"",
            ));
            return None;
        };
        let callee = self.component_of(target, component)?;
        let entry = self.function(target, callee, function, signature, known.programs)?;
        let token = token.unwrap_or_else(|| self.token(number, callee, known.shares));
        Some((of(Kind::Call, u16::try_from(callee).ok()?, entry_word(entry, token)), Some(callee)))
    }

    /// The component that a binding names.
    pub(super) fn component_of(&mut self, target: &Located<String>, name: &str) -> Option<usize> {
        let found = self.find(name);
        if found.is_none() {
            let known: Vec<&str> = self.component_names().collect();
            let message = format!("there is no component `{name}`");
            let (before, behind) = target.split_once(name).unwrap_or_default();
            let quoted = (format!("\"{before}"), format!("{behind}\""));
            self.unknown_part(Code::UnknownComponent, message, (target.span, &quoted.0, &quoted.1), name, &known);
        }
        found
    }

    /// The entry of a function, if its component exports it and means the same by it.
    fn function(
        &mut self,
        target: &Located<String>,
        callee: usize,
        function: &str,
        signature: u64,
        programs: &[Option<Program>],
    ) -> Option<u16> {
        let written = self.file.component.get(callee)?;
        let exports = &programs.get(callee)?.as_ref()?.interface.exports;
        let Some(entry) = exports.iter().position(|export| export.name == function) else {
            let known: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
            let message = format!("component `{}` exports no function `{function}`", written.name.value);
            let before = format!("\"{}.", written.name.value);
            self.unknown_part(Code::NotExported, message, (target.span, &before, "\""), function, &known);
            return None;
        };
        if exports.get(entry).is_some_and(|export| export.signature != signature) {
            let message = format!("`{function}` has other arguments or answers than its caller thinks");
            let diagnostic = Diagnostic::new(Code::SignatureDiffers, message)
                .at(target.span, "called with one signature")
                .at(written.program.span, "exported with another one");
            self.push(diagnostic.help("build both programs with the same declaration of the interface"));
            return None;
        }
        u16::try_from(entry).ok()
    }
}

/// A capability as components have it at boot, for what its kind is for.
pub(super) const fn granted(kind: Kind, object: u16, word: u64) -> Capability {
    Capability { kind: kind.number(), rights: right::USE, object, grant: 1, word }
}

/// What leads to what the kernel counts.
const ACCOUNTS: &str = "accounts";

/// Most names that a sentence lists.
const MOST_NAMES: usize = 8;

/// Most calls that a thread is inside at once, for sentences.
pub(super) const DEPTH: usize = MAX_FRAMES;
