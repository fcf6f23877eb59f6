//! Devices passed through, and the interrupts that come with them.
//!
//! Stage 2 gives whole pages, so devices that share a page go together: to one partition with a note, to two never.

use super::Resolver;
use super::partition::is_trusted;
use crate::code::Code;
use crate::decode::Located;
use crate::description::{Console, Device, Dma, Doorbell, ImageKind, Partition};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::suggest;
use bulkhead_abi::{PAGE_BYTES, plan::MAX_INTERRUPTS};
use bulkhead_plan::model;
use std::collections::BTreeSet;

/// A device given to a partition.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// Index in the board's devices.
    pub(super) index: usize,
    /// Where the description says so.
    pub(super) span: Span,
    /// INTIDs that the partition gets.
    pub(super) interrupts: Vec<u32>,
}

impl Resolver<'_> {
    /// Resolves the devices of every partition.
    pub(super) fn devices(&mut self) -> Vec<Vec<Given>> {
        let description = self.description;
        let given: Vec<Vec<Given>> = description.partition.iter().map(|partition| self.devices_of(partition)).collect();
        self.given_once(&given);
        self.pages(&given);
        given
    }

    fn devices_of(&mut self, partition: &Partition) -> Vec<Given> {
        let given: Vec<Given> = partition.devices.iter().filter_map(|device| self.device(partition, device)).collect();
        self.dma_hazard(partition, &given);
        given
    }

    fn device(&mut self, partition: &Partition, device: &Located<Device>) -> Option<Given> {
        let (name, wanted) = match &device.value {
            Device::Name(name) => (name, None),
            Device::Table(table) => (&table.name, table.interrupts.as_ref()),
        };
        let Some(index) = self.board.board.devices.iter().position(|one| one.name == name.value) else {
            self.unknown_device(name);
            return None;
        };
        let (facts, confinable) = (
            self.board.board.devices.get(index)?.clone(),
            self.board.dma_confinable.get(index).copied().unwrap_or(true),
        );
        self.dma_rules(partition, device, &facts, confinable);
        let interrupts = match wanted {
            None => facts.interrupts.iter().map(|interrupt| interrupt.intid).collect(),
            Some(wanted) => wanted.iter().filter_map(|intid| self.wanted_interrupt(partition, &facts, intid)).collect(),
        };
        Some(Given { index, span: device.span, interrupts })
    }

    fn unknown_device(&mut self, name: &Located<String>) {
        let board = &self.board.board;
        if board.secure.iter().flat_map(|facts| facts.devices()).any(|device| device.name == name.value) {
            let message = format!("device `{}` would be one of both worlds", name.value);
            let diagnostic = Diagnostic::new(Code::DeviceOfBoth, message).at(name.span, "of the secure world");
            return self.push(diagnostic.note("a partition does not reach its registers"));
        }
        let mut diagnostic =
            Diagnostic::new(Code::UnknownDevice, format!("board `{}` has no device `{}`", board.name, name.value))
                .at(name.span, "");
        if name.contains("uart") || name.contains("serial") || name.contains("pl011") {
            diagnostic = diagnostic
                .help("the UART belongs to the console: every partition can have a virtual one, `console = \"pl011\"`");
        } else if let Some(meant) = suggest::closest(name, board.devices.iter().map(|device| device.name.as_str())) {
            diagnostic = diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"));
        } else {
            diagnostic = diagnostic.help(format!("its devices are {}", short_list(&board.devices)));
        }
        self.push(diagnostic);
    }

    /// Checks the promises that a device with DMA needs.
    fn dma_rules(
        &mut self,
        partition: &Partition,
        given: &Located<Device>,
        device: &model::BoardDevice,
        confinable: bool,
    ) {
        let place = given.span;
        let dma = promise(given);
        let given = &given.value;
        if !device.dma {
            self.does_not_apply(
                dma.map(|dma| dma.span),
                "dma",
                &format!("device `{}`, which cannot write memory by itself", device.name),
            );
            return;
        }
        let why =
            "it can read and write any RAM of the machine, the monitor's included, whatever the translation tables say";
        if !is_trusted(partition) && !confinable {
            let message = format!(
                "device `{}` has DMA that nothing can confine, and partition `{}` is not trusted",
                device.name, partition.name.value
            );
            self.push(
                Diagnostic::new(Code::DmaUntrustedPartition, message)
                    .at(place, "")
                    .at(partition.name.span, "nothing is promised of this guest")
                    .note(why),
            );
        } else if dma.is_none() {
            let message = format!("device `{}` can write memory by itself", device.name);
            let replacement = match given {
                Device::Name(_) => (place, format!("{{ name = \"{}\", dma = \"trusted\" }}", device.name)),
                // Only the name is replaced, so that the other keys of the table stay.
                Device::Table(table) => (table.name.span, format!("\"{}\", dma = \"trusted\"", device.name)),
            };
            let diagnostic =
                Diagnostic::new(Code::DmaNotTrusted, message).at(place, "its DMA is not confined").note(why);
            self.push(diagnostic.suggest(
                replacement.0,
                replacement.1,
                "if you trust the guest that drives it, say so; the report then lists it as a hazard",
            ));
        }
    }

    /// Warns of devices whose DMA was accepted, once for a partition.
    fn dma_hazard(&mut self, partition: &Partition, given: &[Given]) {
        let is_hazard = |device: &&Given| {
            let has_dma = self.board.board.devices.get(device.index).is_some_and(|facts| facts.dma);
            let is_promised = partition.devices.iter().any(|one| one.span == device.span && promise(one).is_some());
            let is_refused = !is_trusted(partition) && self.board.dma_confinable.get(device.index) == Some(&false);
            has_dma && is_promised && !is_refused
        };
        let hazards: Vec<&Given> = given.iter().filter(is_hazard).collect();
        let Some(first) = hazards.first() else {
            return;
        };
        let names: Vec<&str> = hazards.iter().map(|device| self.device_name(device.index)).collect();
        let message = format!("nothing confines the DMA of {}", shorten(&names));
        let note =
            format!("the isolation of this system rests on the good behaviour of partition `{}`", partition.name.value);
        self.push(
            Diagnostic::new(Code::DmaHazard, message)
                .at(first.span, "accepted because it is declared trusted")
                .note(note),
        );
    }

    /// Checks one INTID of an explicit list.
    fn wanted_interrupt(
        &mut self,
        partition: &Partition,
        device: &model::BoardDevice,
        intid: &Located<u64>,
    ) -> Option<u32> {
        if let Some(found) = device.interrupts.iter().find(|interrupt| u64::from(interrupt.intid) == intid.value) {
            return Some(found.intid);
        }
        let owner = self
            .board
            .board
            .devices
            .iter()
            .find(|other| other.interrupts.iter().any(|interrupt| u64::from(interrupt.intid) == intid.value));
        let label = match owner {
            Some(owner) => format!("belongs to device `{}`", owner.name),
            None => String::from("belongs to no device of the board"),
        };
        let own: Vec<String> = device.interrupts.iter().map(|interrupt| interrupt.intid.to_string()).collect();
        let message = format!(
            "partition `{}` does not get interrupt {} with device `{}`",
            partition.name.value, intid.value, device.name
        );
        self.push(Diagnostic::new(Code::ForeignInterrupt, message).at(intid.span, label).help(format!(
            "the interrupts of `{}` are {}",
            device.name,
            suggest::list(&own)
        )));
        None
    }

    /// Checks that each device and each interrupt has one owner.
    fn given_once(&mut self, given: &[Vec<Given>]) {
        let all: Vec<(usize, &Given)> = given
            .iter()
            .enumerate()
            .flat_map(|(owner, devices)| devices.iter().map(move |device| (owner, device)))
            .collect();
        for (place, (owner, device)) in all.iter().enumerate() {
            let name = self.device_name(device.index).to_owned();
            for (other_owner, other) in all.iter().take(place) {
                let labels = |diagnostic: Diagnostic, resolver: &Self| {
                    diagnostic
                        .at(device.span, format!("to `{}`", resolver.partition_name(*owner)))
                        .at(other.span, format!("and to `{}`", resolver.partition_name(*other_owner)))
                };
                if other.index == device.index {
                    let diagnostic =
                        labels(Diagnostic::new(Code::DeviceTwice, format!("device `{name}` is given twice")), self);
                    self.push(diagnostic);
                } else if let Some(shared) = device.interrupts.iter().find(|intid| other.interrupts.contains(intid)) {
                    let message = format!(
                        "interrupt {shared} of `{name}` and `{}` is given twice",
                        self.device_name(other.index)
                    );
                    let diagnostic = labels(Diagnostic::new(Code::InterruptTwice, message), self)
                        .note("an interrupt has one owner; a shared line would let one partition mask the other's");
                    self.push(diagnostic);
                }
            }
        }
    }

    /// Checks pages that hold several devices.
    fn pages(&mut self, given: &[Vec<Given>]) {
        let all: Vec<(usize, &Given)> = given
            .iter()
            .enumerate()
            .flat_map(|(owner, devices)| devices.iter().map(move |device| (owner, device)))
            .collect();
        let mut noted: Vec<(usize, u64)> = Vec::new();
        for (place, (owner, device)) in all.iter().enumerate() {
            let Some(page) = self.pages_of(device.index).map(|(first, _)| first) else {
                continue;
            };
            let neighbours: Vec<usize> = (0..self.board.board.devices.len())
                .filter(|other| *other != device.index && self.share_a_page(device.index, *other))
                .collect();
            let conflict = all
                .iter()
                .take(place)
                .find(|(other_owner, other)| other_owner != owner && neighbours.contains(&other.index));
            if let Some((other_owner, other)) = conflict {
                let message = format!(
                    "devices `{}` and `{}` share the page at {page:#x}",
                    self.device_name(device.index),
                    self.device_name(other.index)
                );
                let diagnostic = Diagnostic::new(Code::SharedPage, message)
                    .at(device.span, format!("goes to `{}`", self.partition_name(*owner)))
                    .at(other.span, format!("goes to `{}`", self.partition_name(*other_owner)))
                    .note("a page is the smallest piece of memory that can be given to one partition");
                self.push(diagnostic);
                continue;
            }
            let is_given = |other: &usize| all.iter().any(|(_, device)| device.index == *other);
            let quiet: Vec<usize> = neighbours.into_iter().filter(|other| !is_given(other)).collect();
            if !quiet.is_empty() && !noted.contains(&(*owner, page)) {
                noted.push((*owner, page));
                self.quiet_neighbours(*owner, device, &quiet, page);
            }
        }
    }

    /// Reports devices that come along because they are in the page of a given one.
    fn quiet_neighbours(&mut self, owner: usize, device: &Given, quiet: &[usize], page: u64) {
        let has_dma = |index: &usize| self.board.board.devices.get(*index).is_some_and(|facts| facts.dma);
        let (name, partition) = (self.device_name(device.index).to_owned(), self.partition_name(owner).to_owned());
        if let Some(neighbour) = quiet.iter().find(|index| has_dma(index)).filter(|_| !has_dma(&device.index)) {
            let neighbour = self.device_name(*neighbour).to_owned();
            let message =
                format!("the page of device `{name}` also holds `{neighbour}`, which can write memory by itself");
            let note =
                format!("partition `{partition}` would get the whole page at {page:#x}, and with it that device");
            let help = format!("if that is wanted, give it too: `{{ name = \"{neighbour}\", dma = \"trusted\" }}`");
            self.push(Diagnostic::new(Code::DmaNotTrusted, message).at(device.span, "").note(note).help(help));
            return;
        }
        let names: Vec<&str> = quiet.iter().map(|other| self.device_name(*other)).collect();
        let message = format!("with device `{name}` partition `{partition}` gets its whole page");
        let note = format!("the page at {page:#x} also holds {}, without their interrupts", shorten(&names));
        self.push(Diagnostic::new(Code::PageNeighbours, message).at(device.span, "").note(note));
    }

    /// First and one past the last page address of a device.
    fn pages_of(&self, index: usize) -> Option<(u64, u64)> {
        let device = self.board.board.devices.get(index)?;
        let end = device.address.0.checked_add(device.bytes)?;
        Some((device.address.0 - device.address.0 % PAGE_BYTES, end.next_multiple_of(PAGE_BYTES)))
    }

    fn share_a_page(&self, one: usize, other: usize) -> bool {
        let (Some(one), Some(other)) = (self.pages_of(one), self.pages_of(other)) else {
            return false;
        };
        one.0 < other.1 && other.0 < one.1
    }

    fn device_name(&self, index: usize) -> &str {
        self.board.board.devices.get(index).map_or("?", |device| device.name.as_str())
    }

    /// Counts interrupts: of the board's spare ones, and per partition.
    pub(super) fn interrupts(
        &mut self,
        devices: &[Vec<Given>],
        channels: &[Option<model::Channel>],
        functions: &[model::PciFunction],
        virtio: &[model::VirtioDevice],
    ) {
        let description = self.description;
        let doorbells: Vec<&model::Channel> =
            channels.iter().flatten().filter(|channel| channel.doorbell.is_some()).collect();
        let consoles = description.partition.iter().filter(|partition| has_virtual_uart(partition)).count();
        // One at either end of a virtio device.
        let rung = doorbells.len() + 2 * virtio.len();
        let (needed, spare) = (rung + consoles, self.board.board.spare_interrupts.len());
        if needed > spare {
            let message =
                format!("{needed} spare interrupts are needed and board `{}` has {spare}", self.board.board.name);
            let note = format!("{rung} doorbells and {consoles} virtual UARTs take one each");
            let last = description.channel.iter().rfind(|channel| {
                matches!(
                    channel.doorbell.as_ref().map(|one| &one.value),
                    Some(Doorbell::Plain(true) | Doorbell::Limited(_))
                )
            });
            let span = last.map_or(description.board.span, |channel| channel.name.span);
            self.push(
                Diagnostic::new(Code::SparesExhausted, message)
                    .at(span, "")
                    .note(note)
                    .help("let receivers poll some channels, or set `console = \"none\"` or `\"ring\"`"),
            );
        }
        for (index, partition) in description.partition.iter().enumerate() {
            let of_devices: usize =
                devices.get(index).map_or(0, |devices| devices.iter().map(|device| device.interrupts.len()).sum());
            let of_channels = doorbells.iter().filter(|channel| channel.destination.partition == index).count();
            let of_virtio = virtio.iter().filter(|device| device.front == index || device.back == index).count();
            let of_doorbells = of_channels + of_virtio;
            let own = functions.iter().filter(|function| function.partition == index);
            let of_functions = own.map(|function| function.interrupt).collect::<BTreeSet<_>>().len();
            let count = of_devices + of_doorbells + of_functions + usize::from(has_virtual_uart(partition));
            if count > MAX_INTERRUPTS {
                let message = format!(
                    "partition `{}` would own {count} interrupts and can own {MAX_INTERRUPTS}",
                    partition.name.value
                );
                let note = format!(
                    "{of_devices} of devices, {of_doorbells} of doorbells, {of_functions} of PCI functions, {} of its virtual UART",
                    usize::from(has_virtual_uart(partition))
                );
                self.push(Diagnostic::new(Code::TooManyInterrupts, message).at(partition.name.span, "").note(note));
            }
        }
    }

    /// The board with only those interrupts left at given devices that the description asks for.
    pub(super) fn board_with_interrupts(&self, given: &[Vec<Given>]) -> model::Board {
        let mut board = self.board.board.clone();
        for device in given.iter().flatten() {
            if let Some(facts) = board.devices.get_mut(device.index) {
                facts.interrupts.retain(|interrupt| device.interrupts.contains(&interrupt.intid));
            }
        }
        board
    }
}

/// What is promised about the DMA of a given device.
fn promise(device: &Located<Device>) -> Option<&Located<Dma>> {
    match &device.value {
        Device::Name(_) => None,
        Device::Table(table) => table.dma.as_ref(),
    }
}

/// States whether the partition has a virtual UART, without reporting anything.
pub(super) fn has_virtual_uart(partition: &Partition) -> bool {
    match &partition.console {
        Some(console) => console.value == Console::Pl011,
        None => partition.image.kind.value == ImageKind::Linux,
    }
}

/// Names of devices, numbered families once.
fn short_list(devices: &[model::BoardDevice]) -> String {
    let mut names: Vec<String> = Vec::new();
    for device in devices {
        let family = device.name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let name = if devices.iter().filter(|other| other.name.starts_with(family)).count() > 1 {
            format!("{family}N")
        } else {
            device.name.clone()
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    suggest::list(&names)
}

/// The first names and how many more.
fn shorten(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(3) {
        0 => match shown.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => shown.concat(),
        },
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
