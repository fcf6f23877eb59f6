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
}
