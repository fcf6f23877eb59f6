//! Programs of components: found, read, and looked at by the writer of instances.

use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::floating_point;
use bulkhead_instance::{Interface, ProgramError, examine};
use bulkhead_kernel_abi::image::{COMPONENT_TEXT, ComponentHead};

/// Prefix of programs in the directory of built components.
const COMPONENT_PREFIX: &str = "component:";
/// Where they are below that of built guests.
const COMPONENT_FOLDER: &str = "guest:kernel/";
/// The kernel's own file there.
const KERNEL: &str = "guest:kernel/kernel.elf";
/// That of the kernel that records.
const TRACED: &str = "guest:kernel/traced.elf";

/// A program that can be a component's.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) bytes: Vec<u8>,
    pub(super) interface: Interface,
}

impl Resolver<'_> {
    /// The program of every component; `None` where it cannot be one.
    pub(super) fn programs(&mut self) -> Vec<Option<Program>> {
        let file = self.file;
        let programs: Vec<_> = file.component.iter().map(|component| self.program(&component.program)).collect();
        for (component, program) in file.component.iter().zip(&programs) {
            self.floating_point(&component.program, component.floating_point.as_ref(), program.as_ref());
        }
        programs
    }

    /// Who uses floating-point registers has declared it; an explicit `false` says that their use is meant to be a fault.
    pub(super) fn floating_point(
        &mut self,
        name: &Located<String>,
        declared: Option<&Located<bool>>,
        program: Option<&Program>,
    ) {
        let Some(program) = program else { return };
        // Behind the head, which is no instruction.
        let first =
            floating_point::first_use(&program.bytes, COMPONENT_TEXT + size_of::<ComponentHead>() as u64, false);
        match (declared, first) {
            (None, Some(address)) => {
                let message = format!("`{}` uses floating-point registers", name.value);
                let diagnostic = Diagnostic::new(Code::ComponentFloatingPoint, message)
                    .at(name.span, format!("the instruction at {address:#x} is the first one"))
                    .note("where it is not declared their use is a fault of the component");
                self.push(diagnostic.help(
                    "`floating_point = true` lets it; or build it without: the target aarch64-unknown-none-softfloat, in C `-mgeneral-regs-only`",
                ));
            }
            (Some(state), None) if state.value => {
                let message = format!("no instruction of `{}` uses a floating-point register", name.value);
                let diagnostic = Diagnostic::new(Code::UnusedFloatingPoint, message).at(state.span, "not needed");
                self.push(diagnostic.help("leave it out, or build the program for the target aarch64-unknown-none"));
            }
            _ => {}
        }
    }

    pub(super) fn program(&mut self, name: &Located<String>) -> Option<Program> {
        let path = name.strip_prefix(COMPONENT_PREFIX).map(|rest| format!("{COMPONENT_FOLDER}{rest}"));
        let place = Located { value: path.unwrap_or_else(|| name.value.clone()), span: name.span };
        let bytes = self.files.read(&place, self.report)?;
        match examine(&bytes) {
            Ok(interface) => Some(Program { bytes, interface }),
            Err(error) => {
                self.push(refused(name, &error));
                None
            }
        }
    }

    /// The kernel's file.
    pub(super) fn kernel(&mut self) -> Option<Vec<u8>> {
        let (name, span) = match &self.file.trace {
            Some(trace) if trace.value => (TRACED, trace.span),
            _ => (KERNEL, self.file.version.span),
        };
        let place = Located { value: name.to_owned(), span };
        self.files.read(&place, self.report)
    }
}

/// Why a program cannot be one.
fn refused(name: &Located<String>, error: &ProgramError) -> Diagnostic {
    let (code, help) = match error {
        ProgramError::WritableText(_) => (
            Code::ProgramWritableText,
            "link text and data into segments of their own, as `component.ld` of the SDK does",
        ),
        ProgramError::Overlap(_) => {
            (Code::ProgramOverlap, "align segments to pages, as `component.ld` of the SDK does")
        }
        ProgramError::Outside(..) | ProgramError::Stacks => {
            (Code::ProgramOutside, "link it with `component.ld` of the SDK")
        }
        ProgramError::Version(_) => {
            (Code::ProgramVersion, "`./x guests` builds the components of this repository again")
        }
        ProgramError::Twice(..) => (Code::ExportedTwice, "give one of them another name"),
        ProgramError::Elf(_)
        | ProgramError::Entry(_)
        | ProgramError::NoComponent
        | ProgramError::Interface(_)
        | ProgramError::Binding(_) => (
            Code::NotComponent,
            "a component is an ELF file for aarch64-unknown-none-softfloat, or aarch64-unknown-none where it declares floating point, that links `sdk/component`",
        ),
    };
    Diagnostic::new(code, format!("`{}` cannot be the program of a component: {error}", name.value))
        .at(name.span, "")
        .help(help)
}
