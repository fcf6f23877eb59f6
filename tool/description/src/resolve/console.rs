//! Which virtual UARTs get console input.

use super::Resolver;
use super::device::has_virtual_uart;
use super::partition::is_direct;
use crate::code::Code;
use crate::decode::Located;
use crate::description::Partition;
use crate::diagnostic::Diagnostic;

impl Resolver<'_> {
    /// Warns of virtual UARTs that only write: the focus goes round cores, so on a shared core one partition has it; and a core hands it over to
    /// one `direct` partition at most.
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
                    let note = format!("core {core} has one console input, and partition `{first}` comes first");
                    let help = format!("put `{name}` before `{first}` to change places, or on another core");
                    self.gets_no_input(partition, note, help);
                }
            }
        }
        self.handed_input();
    }

    /// Of `direct` partitions those get input to which the core of the one before them in the focus can hand it over (`bulkhead_plan::maps`).
    fn handed_input(&mut self) {
        let description = self.description;
        let has_console = |partition: &&Located<Partition>| has_virtual_uart(partition);
        let consoles: Vec<_> = description.partition.iter().filter(has_console).collect();
        let first = consoles.iter().position(|partition| !is_direct(partition)).unwrap_or(0);
        let mut giver: Option<&str> = None;
        for partition in consoles[first..].iter().chain(&consoles[..first]).copied() {
            if !is_direct(partition) {
                giver = Some(partition.name.value.as_str());
            } else if self.is_kicked(partition) && giver.take().is_none() {
                let note = String::from(
                    "the core of a `mapped` partition with a virtual UART hands input over, to one partition that follows it",
                );
                let help = String::from("put it behind such a partition that none with `direct` interrupts follows");
                self.gets_no_input(partition, note, help);
            }
        }
    }

    fn gets_no_input(&mut self, partition: &Partition, note: String, help: String) {
        let message = format!("the console of partition `{}` gets no input", partition.name.value);
        let span = partition.console.as_ref().map_or(partition.name.span, |console| console.span);
        self.push(Diagnostic::new(Code::OneReceiver, message).at(span, "").note(note).help(help));
    }
}
