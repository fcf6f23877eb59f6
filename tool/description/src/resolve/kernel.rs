//! Partitions whose image is an instance of the real-time kernel.

use super::Resolver;
use super::image::tree_at_the_end;
use super::memory::PartitionMemory;
use crate::code::Code;
use crate::decode::{Duration, Located};
use crate::description::{Channel, Device, Direction, Doorbell, ImageKind, Limit, Partition, Port, PortKind};
use crate::diagnostic::{Diagnostic, Report};
use crate::guest_file::GuestFiles;
use crate::kernel::{self, Around, ENDING, KernelFile, KnownPort, Rings};
use crate::unit::{format_duration, parse_duration};
use bulkhead_abi::GuestAddress;
use bulkhead_guest_abi::channel::SAMPLING_SLOTS;
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_RAM};
use bulkhead_kernel_abi::image::{LOAD, PortUse};
use bulkhead_plan::channels::ends;
use bulkhead_plan::interrupts::{FIRST_SPI, Routes};
use bulkhead_plan::model::{GuestImage, InstanceServer, Limiter, System};

/// Distance of stand-ins for windows.
const STAND_IN_BYTES: u64 = 64 << 10;
/// Bytes of a message and slots that are taken for more, which is reported: a window of both has less than 2 to the 30 bytes.
const MOST_OF_A_WINDOW: u32 = 4096;

/// Reads the description of the instance that a partition runs.
fn instance_of(partition: &Partition, files: &mut GuestFiles, report: &mut Report) -> Option<KernelFile> {
    let name = &partition.image.file;
    let bytes = files.read(name, report)?;
    let Ok(text) = String::from_utf8(bytes) else {
        let message = format!("`{}` is not text in UTF-8", name.value);
        report.push(Diagnostic::new(Code::GuestFileMissing, message).at(name.span, ""));
        return None;
    };
    let shown = files.path(name).map_or_else(|| name.value.clone(), |path| path.display().to_string());
    let file = report.sources.add(shown, text.as_str());
    kernel::read(file, &text, report)
}

/// A limit, if it can be one; what cannot be is reported where channels and partitions are.
fn limiter(limit: &Limit) -> Option<Limiter> {
    let period_ns = parse_duration(&limit.per.value.0).ok().filter(|period_ns| *period_ns > 0)?;
    Some(Limiter { events: u32::try_from(limit.limit.value).ok()?, period_ns })
}

impl Resolver<'_> {
    /// Reads the description of the instance, checks it and lays it out.
    pub(super) fn kernel(&mut self, partition: &Partition, memory: PartitionMemory) -> Option<GuestImage> {
        let is_placed = self.kernel_place(partition, memory);
        let name = &partition.image.file;
        if !name.ends_with(ENDING) {
            let message = format!("`{}` is no description of an instance of the kernel", name.value);
            let diagnostic = Diagnostic::new(Code::GuestFileMissing, message).at(name.span, "");
            self.push(diagnostic.help(format!("its name ends in `{ENDING}`; an ELF file has `kind = \"elf\"`")));
            return None;
        }
        let written = instance_of(partition, &mut self.files, self.report)?;
        let around = self.around(partition, &mut |_| ());
        let made = kernel::instance(&written, &around, &mut self.files, self.report)?;
        self.kernel_shares(partition, &written, &made.servers);
        let bytes = made.bytes;
        is_placed?;
        let needed = LOAD - GUEST_RAM.0 + bytes.len() as u64 + tree_at_the_end(partition);
        self.fits(partition, memory, needed)?;
        Some(GuestImage::Kernel { bytes, load: GuestAddress(LOAD), components: made.components, servers: made.servers })
    }

    /// An instance has one core, and its RAM begins where that of the board does: its bytes have addresses in them.
    fn kernel_place(&mut self, partition: &Partition, memory: PartitionMemory) -> Option<()> {
        let name = partition.name.value.as_str();
        let kind = partition.image.kind.span;
        if partition.cores.len() > 1 {
            let message =
                format!("partition `{name}` runs the real-time kernel and has {} cores", partition.cores.len());
            let diagnostic = Diagnostic::new(Code::KernelCores, message)
                .at(partition.cores.span, "one core is possible")
                .at(kind, "an instance has one core");
            self.push(diagnostic.help("describe an instance for each core, in a partition of its own"));
        }
        if memory.guest != GUEST_RAM {
            let message = format!(
                "the RAM of `{name}` begins at {}, and an instance of the kernel lies at {GUEST_RAM}",
                memory.guest
            );
            let diagnostic = Diagnostic::new(Code::KernelPlace, message).at(partition.memory.span, "");
            self.push(
                diagnostic
                    .at(kind, "its bytes are the same on the board and in a partition")
                    .help("leave `guest_address` out"),
            );
        }
        (partition.cores.len() <= 1 && memory.guest == GUEST_RAM).then_some(())
    }

    /// On a shared core the kernel's clock would go on while others run. So it must come first, and take no more than its partition has.
    fn kernel_shares(&mut self, partition: &Partition, written: &kernel::KernelFile, servers: &[InstanceServer]) {
        let description = self.description;
        let Some(core) = partition.cores.first() else { return };
        let Some(schedule) = self.schedule_of(core.value) else { return };
        let own = partition.servers.iter().filter_map(|server| server.priority.as_ref());
        let Some(best) = own.min_by_key(|priority| priority.value) else {
            return self.kernel_is_late(partition, schedule.kind.span, "gives it turns that it cannot see");
        };
        let others = description.partition.iter().filter(|one| one.name != partition.name);
        let others = others.filter(|one| one.cores.iter().any(|other| other.value == core.value));
        let priorities = others.flat_map(|one| &one.servers).filter_map(|server| server.priority.as_ref());
        if let Some(first) = priorities.filter(|priority| priority.value <= best.value).min_by_key(|one| one.value) {
            return self.kernel_is_late(partition, first.span, "comes before it, or at the same time");
        }
        let Some(server) = partition.servers.iter().find(|server| server.budget.is_some()) else { return };
        let (Some(budget), Some(period)) = (&server.budget, &server.period) else { return };
        let read = |text: &Located<Duration>| parse_duration(&text.value.0).unwrap_or(0);
        let (budget_ns, period_ns) = (read(budget), read(period));
        match kernel::most_ns(servers, period_ns) {
            Ok(taken_ns) if taken_ns > budget_ns => {
                let taken = format_duration(taken_ns);
                let label = format!("ends, and the servers of the instance can take {taken} in that time");
                self.kernel_is_late(partition, budget.span, &label);
            }
            Ok(_) => {}
            Err(own) => {
                let label = match own.time_ns {
                    Some(_) => "runs without budget as well: `on_empty = \"stop\"` keeps it from that",
                    None => "has no limit, and the partition has one",
                };
                let place = written.server.iter().find(|server| server.name.value == own.name);
                let span = place.map_or(partition.image.file.span, |server| server.span);
                self.kernel_is_late(partition, span, label);
            }
        }
    }

    fn kernel_is_late(&mut self, partition: &Partition, span: crate::source::Span, label: &str) {
        let message =
            format!("the real-time kernel of `{}` cannot keep its time on a shared core", partition.name.value);
        let diagnostic = Diagnostic::new(Code::KernelShared, message)
            .at(span, label)
            .at(partition.image.kind.span, "")
            .note("the counter runs on while another partition runs, and the kernel would charge that time to its own threads");
        self.push(diagnostic.help(
            "give the partition a core of its own; or make its server the most important one, with all the time that its instance can take",
        ));
    }

    /// Lays instances with ports out again, once it is known where the windows of channels are and what their doorbells are called by. What is wrong with
    /// them was said when they were read first.
    pub(super) fn place_wires(&mut self, system: &mut System) {
        // Too few interrupts are reported by who plans.
        let Ok(routes) = Routes::assign(system) else { return };
        let description = self.description;
        for (index, partition) in description.partition.iter().enumerate().filter(|(_, one)| !one.ports.is_empty()) {
            let channels = ends(system, &routes, index);
            let Some(model) = system.partitions.get_mut(index) else { continue };
            let GuestImage::Kernel { bytes, .. } = &mut model.image else { continue };
            let around = self.around(partition, &mut |ports| {
                for end in &channels {
                    let Some(channel) = system.channels.get(end.channel) else { continue };
                    let own = if end.is_source { &channel.source } else { &channel.destination };
                    let Some(port) = ports.iter_mut().find(|port| port.name == own.name) else { continue };
                    port.window = end.window.0;
                    port.doorbell = port.doorbell.map(|_| end.doorbell);
                    port.intid = port.intid.map(|_| end.interrupt);
                }
            });
            let (mut files, mut report) = (self.files.again(), Report::default());
            let written = instance_of(partition, &mut files, &mut report);
            let made = written.and_then(|written| kernel::instance(&written, &around, &mut files, &mut report));
            let Some(made) = made else { continue };
            let needed = LOAD - GUEST_RAM.0 + made.bytes.len() as u64 + tree_at_the_end(partition);
            *bytes = made.bytes;
            let (bytes, span) = (model.memory_bytes, partition.memory.span);
            let _ = self.fits(partition, PartitionMemory { bytes, guest: GUEST_RAM, physical: None, span }, needed);
        }
    }

    /// A port as far as the description says; places and numbers are stand-ins that differ from each other.
    fn known_port(&self, partition: &Partition, port: &Port, number: u32) -> KnownPort {
        let description = self.description;
        let own = format!("{}.{}", partition.name.value, port.name.value);
        let is_source = port.direction.value == Direction::Source;
        let ends = |channel: &Channel| {
            let both = [&channel.source, &channel.destination].map(|end| end.as_ref().map(|end| end.value.clone()));
            if is_source {
                both
            } else {
                let [source, destination] = both;
                [destination, source]
            }
        };
        let channel = description.channel.iter().find(|channel| ends(channel)[0].as_ref() == Some(&own));
        let doorbell = channel.and_then(|channel| channel.doorbell.as_ref());
        let rings = doorbell.is_some_and(|doorbell| doorbell.value != Doorbell::Plain(false));
        let other = channel.and_then(|channel| ends(channel)[1].clone()).filter(|_| is_source);
        let does = match (port.kind.value, is_source) {
            (PortKind::Sampling, true) => PortUse::SamplingSource,
            (PortKind::Sampling, false) => PortUse::SamplingDestination,
            (PortKind::Queuing, true) => PortUse::QueuingSource,
            (PortKind::Queuing, false) => PortUse::QueuingDestination,
        };
        let word = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).min(MOST_OF_A_WINDOW);
        KnownPort {
            name: port.name.value.clone(),
            is_source,
            does,
            message_bytes: word(port.message_bytes.value),
            slots: port.depth.as_ref().map_or(SAMPLING_SLOTS, |depth| word(depth.value)),
            window: GUEST_CHANNELS.0 + u64::from(number) * STAND_IN_BYTES,
            doorbell: (rings && is_source).then_some(number),
            intid: (rings && !is_source).then_some(FIRST_SPI + number),
            rings: match doorbell.filter(|_| !is_source).map(|doorbell| &doorbell.value) {
                None | Some(Doorbell::Plain(false)) => Rings::Never,
                Some(Doorbell::Limited(limit)) => limiter(limit).map_or(Rings::Never, Rings::Own),
                Some(Doorbell::Plain(true)) => match &partition.doorbell_limit {
                    None => Rings::Unlimited,
                    Some(limit) => limiter(limit).map_or(Rings::Never, Rings::Together),
                },
            },
            exports: other.and_then(|other| self.exports_of(&other)),
        }
    }

    /// What an instance at the other end of a channel exports by its port there. Its own mistakes are said where it is checked.
    fn exports_of(&self, end: &str) -> Option<kernel::Exports> {
        let (partition, port) = end.split_once('.')?;
        let partition = self.description.partition.iter().find(|one| one.name.value == partition)?;
        let is_instance = partition.image.kind.value == ImageKind::Kernel;
        let mut files = self.files.again();
        let written = instance_of(partition, &mut files, &mut Report::default()).filter(|_| is_instance)?;
        kernel::exports(&written, port)
    }

    /// What an instance finds around it.
    fn around(&self, partition: &Partition, place: &mut dyn FnMut(&mut [KnownPort])) -> Around {
        let devices: Vec<_> = partition
            .devices
            .iter()
            .filter_map(|device| {
                let (name, chosen): (&Located<String>, Option<Vec<u32>>) = match &device.value {
                    Device::Name(name) => (name, None),
                    Device::Table(table) => {
                        let list = |list: &Located<Vec<Located<u64>>>| {
                            list.value.iter().filter_map(|intid| u32::try_from(intid.value).ok()).collect()
                        };
                        (&table.name, table.interrupts.as_ref().map(list))
                    }
                };
                let known = self.board.board.devices.iter().find(|known| known.name == name.value)?;
                let is_chosen = |intid: u32| chosen.as_ref().is_none_or(|chosen| chosen.contains(&intid));
                Some((known, known.interrupts.iter().filter(|one| is_chosen(one.intid)).copied().collect()))
            })
            .collect();
        let mut ports: Vec<KnownPort> =
            (0..).zip(&partition.ports).map(|(number, port)| self.known_port(partition, port, number)).collect();
        place(&mut ports);
        let index = self.description.partition.iter().position(|one| one.name.span == partition.name.span);
        let functions = index.map_or_else(Vec::new, |index| self.guest_functions(index));
        Around::partition(&partition.name.value, &devices, &functions, ports, self.board.board.counter_hz)
    }
}
