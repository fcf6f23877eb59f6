//! Who is told of a component's faults, and may begin it again (`kernel.md` 5, 7 and 9).

use super::end_points::EndPoints;
use super::file::Component;
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;

/// A component's supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Supervision {
    /// Its number.
    component: usize,
    /// End point and bit that it is told by.
    pub(super) end_point: u16,
    pub(super) bits: u64,
}

impl Resolver<'_> {
    /// The supervisor of every component; `None` where there is none, or a mistake.
    pub(super) fn supervisors(&mut self, end_points: &EndPoints) -> Vec<Option<Supervision>> {
        let file = self.file;
        file.component.iter().map(|component| self.supervisor(component, end_points)).collect()
    }

    fn supervisor(&mut self, component: &Located<Component>, end_points: &EndPoints) -> Option<Supervision> {
        let target = component.supervisor.as_ref()?;
        let Some((name, signal)) = target.split_once('.') else {
            let message = format!("`{}` names no signal", target.value);
            let diagnostic = Diagnostic::new(Code::BadBinding, message).at(target.span, "");
            self.push(diagnostic.help("write \"COMPONENT.SIGNAL\""));
            return None;
        };
        let number = self.component_of(target, name)?;
        if self.find(&component.name.value) == Some(number) {
            let message = format!("component `{name}` would supervise itself");
            let diagnostic = Diagnostic::new(Code::OwnSupervisor, message).at(target.span, "");
            self.push(diagnostic.help("name another component: who has faulted cannot begin itself again"));
            return None;
        }
        let (end_point, bits) = self.signal(number, signal, target.span, &format!("\"{name}."), end_points)?;
        Some(Supervision { component: number, end_point, bits })
    }

    /// What `component:NAME` leads to: a child of this component.
    pub(super) fn child(
        &mut self,
        number: usize,
        target: &Located<String>,
        name: &str,
        supervisors: &[Option<Supervision>],
    ) -> Option<u16> {
        let child = self.component_of(target, name)?;
        let is_its = supervisors.get(child).copied().flatten().is_some_and(|one| one.component == number);
        if !is_its {
            let written = self.file.component.get(child)?;
            let own = self.file.component.get(number).map_or("", |component| component.name.as_str());
            let message = format!("component `{name}` is not supervised by `{own}`");
            let place = written.supervisor.as_ref().map_or(written.name.span, |supervisor| supervisor.span);
            let diagnostic = Diagnostic::new(Code::NotSupervised, message)
                .at(target.span, "could begin it again")
                .at(place, "says who may");
            self.push(diagnostic.help(format!("give `{name}` a line `supervisor = \"{own}.SIGNAL\"`")));
            return None;
        }
        u16::try_from(child).ok()
    }

    /// What `thread:COMPONENT.THREAD` leads to: a thread of a child of this component.
    pub(super) fn childs_thread(
        &mut self,
        number: usize,
        target: &Located<String>,
        (name, thread): (&str, &str),
        supervisors: &[Option<Supervision>],
    ) -> Option<u16> {
        let child = self.component_of(target, name)?;
        if supervisors.get(child).copied().flatten().is_none_or(|one| one.component != number) {
            self.foreign_thread(number, target, child);
            return None;
        }
        let written = self.file.component.get(child)?;
        let Some(found) = written.threads.iter().position(|one| one.name.value == thread) else {
            let known: Vec<&str> = written.threads.iter().map(|one| one.name.as_str()).collect();
            let message = format!("component `{name}` has no thread `{thread}`");
            let before = format!("\"thread:{name}.");
            self.unknown_part(Code::UnknownThread, message, (target.span, &before, "\""), thread, &known);
            return None;
        };
        u16::try_from(self.first_thread(child) + found).ok()
    }

    fn foreign_thread(&mut self, number: usize, target: &Located<String>, owner: usize) {
        let file = self.file;
        let (Some(written), Some(own)) = (file.component.get(owner), file.component.get(number)) else { return };
        let name = &written.name.value;
        let message = format!("component `{name}` is not supervised by `{}`", own.name.value);
        let place = written.supervisor.as_ref().map_or(written.name.span, |supervisor| supervisor.span);
        let diagnostic = Diagnostic::new(Code::ForeignThread, message)
            .at(target.span, "could stop its thread, and end its calls")
            .at(place, "says who may");
        let help =
            format!("name a thread of `{}`, or give `{name}` a line `supervisor = \"{0}.SIGNAL\"`", own.name.value);
        self.push(diagnostic.help(help));
    }
}
