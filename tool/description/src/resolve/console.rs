//! Which virtual UARTs get console input.

use super::Resolver;
use super::device::has_virtual_uart;
use super::partition::is_direct;
use crate::code::Code;
use crate::diagnostic::Diagnostic;

impl Resolver<'_> {
    /// Warns of virtual UARTs that only write: the focus goes round cores, so on a shared core one partition has it.
    pub(super) fn console_receivers(&mut self) {
        let description = self.description;
        let mut receivers: Vec<(u64, &str)> = Vec::new();
        for partition in &description.partition {
            let Some(core) = partition.cores.first().map(|core| core.value) else { continue };
            if !has_virtual_uart(partition) || is_direct(partition) {
                continue;
            }
            let name = partition.name.value.as_str();
            match receivers.iter().find(|(other, _)| *other == core) {
                None => receivers.push((core, name)),
                Some((_, first)) => {
                    let message = format!("the console of partition `{name}` gets no input");
                    let note = format!("core {core} has one console input, and partition `{first}` comes first");
                    let span = partition.console.as_ref().map_or(partition.name.span, |console| console.span);
                    let help = format!("put `{name}` before `{first}` to change places, or on another core");
                    self.push(Diagnostic::new(Code::OneReceiver, message).at(span, "").note(note).help(help));
                }
            }
        }
    }
}
