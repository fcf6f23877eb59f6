//! What components may make at run time: programs of processes, and quotas as parts of the pool (`kernel.md` 7; QV-E6).

use super::file::{Component, Program as Written};
use super::programs::Program;
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::unit::parse_size;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_instance::{Import, ProcessProgram, Processes};
use bulkhead_kernel_abi::boot::QuotaRow;
use bulkhead_kernel_abi::{Capability, Kind, MAX_COMPONENTS, PROCESS_QUOTA_SLOT};

/// Bytes of the stack of a process when the description does not say.
pub(super) const DEFAULT_STACK_BYTES: u64 = 8 << 10;

impl Resolver<'_> {
    /// The programs of processes; `None` where one cannot be one.
    pub(super) fn process_programs(&mut self) -> Vec<Option<Program>> {
        let file = self.file;
        let programs: Vec<_> = file.program.iter().map(|written| self.program(&written.file)).collect();
        for (written, program) in file.program.iter().zip(&programs) {
            self.floating_point(&written.file, written.floating_point.as_ref(), program.as_ref());
            if let Some(program) = program {
                self.given(written, program);
            }
        }
        programs
    }

    /// What a program imports is what its makers give, name by name.
    fn given(&mut self, written: &Located<Written>, program: &Program) {
        let imports: Vec<&str> = program.interface.imports.iter().map(|import| import.name.as_str()).collect();
        for slot in written.slots.iter().filter(|slot| !imports.contains(&slot.as_str())) {
            let message = format!("program `{}` calls no function `{}`", written.name.value, slot.value);
            self.unknown(Code::ProcessSlots, message, slot.span, slot, &imports);
        }
        for import in imports.iter().filter(|import| !written.slots.iter().any(|slot| slot.as_str() == **import)) {
            let message = format!("nobody gives a process of program `{}` its `{import}`", written.name.value);
            let diagnostic = Diagnostic::new(Code::ProcessSlots, message)
                .at(written.file.span, format!("this program calls `{import}`"))
                .help(format!("for example `slots = [\"{import}\"]`: who makes a process gives it in slot 2"));
            self.push(diagnostic);
        }
    }

    /// The number of a program that a component's word names; it must have a quota to make something of it.
    pub(super) fn program_number(
        &mut self,
        component: &Component,
        target: &Located<String>,
        name: &str,
    ) -> Option<u64> {
        let found = self.file.program.iter().position(|program| program.name.value == name);
        if found.is_none() {
            let known: Vec<&str> = self.file.program.iter().map(|program| program.name.as_str()).collect();
            let message = format!("there is no program `{name}`");
            self.unknown_part(Code::UnknownProgram, message, (target.span, "\"program:", "\""), name, &known);
        }
        self.own_quota(component, target)?;
        found.map(|number| number as u64)
    }

    /// The number of a component's quota.
    pub(super) fn own_quota(&mut self, component: &Component, target: &Located<String>) -> Option<u16> {
        let mut owners = self.file.component.iter().filter(|one| one.quota.is_some());
        let found = owners.position(|one| one.name.value == component.name.value);
        if found.is_none() {
            let message = format!("component `{}` has no quota to make anything from", component.name.value);
            let diagnostic = Diagnostic::new(Code::NoQuota, message).at(target.span, "");
            self.push(diagnostic.help("for example `quota = \"256 KiB\"` and `processes = 2`"));
        }
        found.and_then(|number| u16::try_from(number).ok())
    }

    /// Sizes of quotas and counts of processes.
    pub(super) fn quotas(&mut self) {
        let file = self.file;
        for component in &file.component {
            let bytes = component.quota.as_ref().and_then(|quota| Some((quota.span, self.size(quota)?)));
            if let Some((span, bytes)) = bytes.filter(|(_, bytes)| *bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES)) {
                let message = format!("a quota of {bytes} bytes is not whole pages");
                self.push(Diagnostic::new(Code::BadQuota, message).at(span, "expected whole pages of 4 KiB"));
            }
            let Some(processes) = &component.processes else { continue };
            if component.quota.is_none() {
                let message = format!("component `{}` makes processes from no quota", component.name.value);
                let diagnostic = Diagnostic::new(Code::NoQuota, message).at(processes.span, "");
                self.push(diagnostic.help("for example `quota = \"256 KiB\"`"));
            }
            if named_programs(component).next().is_none() {
                let message = format!("component `{}` may make processes of no program", component.name.value);
                let diagnostic = Diagnostic::new(Code::NoProgram, message).at(processes.span, "processes of what?");
                self.push(
                    diagnostic.help(
                        "bind a function that its program calls to one, for example `worker = \"program:worker\"`",
                    ),
                );
            }
            if !(1..MAX_COMPONENTS as u64).contains(&processes.value) {
                let message = format!("a component cannot have {} processes", processes.value);
                self.push(Diagnostic::new(Code::BadQuota, message).at(processes.span, "expected 1 to 63"));
            }
        }
    }
}

/// The programs that a component's bindings name: those of which processes may be made from its quota.
fn named_programs(component: &Component) -> impl Iterator<Item = &str> {
    let bindings = component.bind.iter().flat_map(|bind| &bind.value.0);
    bindings.filter_map(|(_, target)| target.strip_prefix("program:"))
}

/// A capability to a quota.
pub(super) const fn quota(number: u16) -> Capability {
    super::resolve::granted(Kind::Quota, number, 0)
}

/// Programs and quotas as the writer takes them.
pub(super) fn processes<'p>(file: &super::file::KernelFile, programs: &'p [Option<Program>]) -> Option<Processes<'p>> {
    let program = |(written, program): (&Located<Written>, &'p Option<Program>)| {
        let slots = (PROCESS_QUOTA_SLOT + 1..).zip(&written.slots);
        let stack = written.stack.as_ref().and_then(|size| parse_size(&size.value.0).ok());
        Some(ProcessProgram {
            name: written.name.value.clone(),
            file: &program.as_ref()?.bytes,
            imports: slots.map(|(slot, name)| Import { name: name.value.clone(), slot }).collect(),
            stack_bytes: stack.unwrap_or(DEFAULT_STACK_BYTES),
            floating_point: written.floating_point.as_ref().is_some_and(|state| state.value),
        })
    };
    let quota = |(number, component): (u16, &Located<Component>)| {
        let bytes = parse_size(&component.quota.as_ref()?.value.0).ok()?;
        let most = component.processes.as_ref().map_or(0, |most| u16::try_from(most.value).unwrap_or(0));
        let pages = u32::try_from(bytes / PAGE_BYTES).ok()?;
        // As many regions as processes, and one for itself.
        let regions = most.saturating_add(1);
        let number_of = |name: &str| file.program.iter().position(|program| program.name.value == name);
        let bit = |number: usize| u32::try_from(number).ok().and_then(|number| 1u32.checked_shl(number)).unwrap_or(0);
        let programs = named_programs(component).filter_map(number_of).fold(0, |all, number| all | bit(number));
        let (components, threads) = (most, most);
        Some(QuotaRow { pages, components, threads, regions, component: number, programs, ..QuotaRow::default() })
    };
    Some(Processes {
        programs: file.program.iter().zip(programs).map(program).collect::<Option<_>>()?,
        quotas: (0..).zip(&file.component).filter_map(quota).collect(),
    })
}
