//! Limits of notifications: what the description says of a program's ways (CH-30, CH-37).

use super::file::Component;
use super::programs::Program;
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use bulkhead_kernel_abi::image::{LIMIT_SIGNATURE, MAX_WINDOW_TICKS, limit_word};
use bulkhead_plan::ticks;

impl Resolver<'_> {
    /// The word of a limit that a program asks for; 0 where the description says nothing.
    pub(super) fn limit(&mut self, component: &Component, import: &str) -> u64 {
        let mut said = component.limits.iter().filter(|limit| limit.name.value == import);
        let Some(limit) = said.next() else { return 0 };
        if let Some(second) = said.next() {
            let diagnostic = Diagnostic::new(Code::BadLimit, format!("`{import}` has two limits"));
            self.push(diagnostic.at(limit.name.span, "the first one").at(second.name.span, "and another one"));
        }
        let Some(window_ns) = self.duration(&limit.window) else { return 0 };
        // Rounded up, so that no more pass.
        let window_ticks = ticks::round_up(window_ns, self.around.counter_hz);
        if window_ticks == 0 || window_ticks > MAX_WINDOW_TICKS {
            let diagnostic =
                Diagnostic::new(Code::BadLimit, "a limit without a window, or with one of many days, is none");
            self.push(diagnostic.at(limit.window.span, "").help("write how long a window is, for example \"10 ms\""));
        }
        let Ok(events) = u16::try_from(limit.events.value) else {
            let diagnostic = Diagnostic::new(
                Code::BadLimit,
                format!("{} notifications in a window are too many", limit.events.value),
            );
            self.push(diagnostic.at(limit.events.span, format!("expected at most {}", u16::MAX)));
            return 0;
        };
        if events == 0 {
            let diagnostic = Diagnostic::new(
                Code::NoLimit,
                format!("nothing limits what component `{}` sends by `{import}`", component.name.value),
            );
            self.push(diagnostic.at(limit.events.span, "0 is no limit").help(
                "who notifies decides how much time the receiver's server spends; write how many may pass in a window",
            ));
        }
        limit_word(events, window_ticks)
    }

    /// Limits of what the program does not have.
    pub(super) fn unused_limits(&mut self, component: &Located<Component>, program: &Program) {
        let imports = program.interface.imports.iter().filter(|import| import.signature == LIMIT_SIGNATURE);
        let known: Vec<&str> = imports.map(|import| import.name.as_str()).collect();
        for limit in component.limits.iter().filter(|limit| !known.contains(&limit.name.as_str())) {
            let name = &limit.name;
            let message = format!(
                "the program of component `{}` limits nothing by the name `{}`",
                component.name.value, name.value
            );
            self.unknown(Code::UnknownLimit, message, name.span, name, &known);
        }
    }
}
