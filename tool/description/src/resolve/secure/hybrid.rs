//! Partitions below a payload: the monitor at EL2 with the partitions of the description is the world below.
//!
//! Partitions are resolved as those of any other system. What differs is here: the payload's core takes turns with one partition, cores are
//! not shared among partitions (EL2's accounts would charge the time that the payload takes), and the secure monitor knows four cores.

use super::world::DEFAULT_NAME;
use super::{SecureFacts, System, spans};
use crate::code::Code;
use crate::decode::Located;
use crate::description::{Device, Partition};
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::resolve::partition::{is_direct, is_filtered, is_trusted, span};
use crate::secure::{NonSecure, Secure, Urgent};
use crate::spans::Spans;
use bulkhead_arm::Intid;
use bulkhead_plan::model::{self, Bank, Below, Hybrid};
use bulkhead_world::cores::MOST_CORES;

/// States whether the world below is partitions.
pub(super) fn has_partitions(world: &NonSecure) -> bool {
    world.partitions.as_ref().is_some_and(|state| state.value)
}

/// Resolves a system whose partitions run below a payload.
pub(super) fn system(
    resolver: &mut Resolver<'_>,
    secure: &Secure,
    facts: &SecureFacts,
    world: &Located<NonSecure>,
) -> Option<(System, Spans)> {
    resolver.names_with_secure(secure);
    resolver.console_names();
    resolver.not_with_partitions(secure, world);
    resolver.no_floating_point(secure);
    resolver.cores_below(secure);
    resolver.firewall();
    let above = resolver.above(secure, facts);
    resolver.foreign_ends(secure, facts, above.interrupts.as_deref());
    resolver.sgi_of_kicks();
    if let Some(interrupts) = &above.interrupts {
        // What is the payload's is no spare interrupt of the monitor's.
        resolver.board.board.spare_interrupts.retain(|intid| !interrupts.contains(intid));
    }
    let turns = resolver.turns(secure, &above);
    resolver.urgent_below(secure);
    let name = world.name.as_ref().map_or(DEFAULT_NAME, |name| name.as_str()).to_owned();
    let start = resolver.board.board.ram_start();
    let bytes = crate::unit::parse_size(&resolver.description.memory.value.0).ok();
    let below = bytes.map(|bytes| Below::Partitions(Hybrid { name, memory: Bank { start, bytes } }));
    let channels = if secure.channel.is_empty() { Some(Vec::new()) } else { resolver.world_channels(secure) };
    resolver.channels_fit(channels.as_deref().unwrap_or_default(), secure);
    let section = below.zip(channels).and_then(|(below, channels)| above.with(below, turns, None, (channels, None)));
    let (system, places) = resolver.of_partitions(section)?;
    resolver.flash_holds(secure, facts, &system);
    Some((system, Spans { secure: Some(spans(secure)), ..places }))
}

impl Resolver<'_> {
    /// States whether the partition is below a payload, on its core.
    pub(in crate::resolve) fn is_below_payload(&self, partition: &Partition) -> bool {
        let secure = self.description.secure.as_ref();
        secure.is_some_and(|secure| partition.cores.iter().any(|core| core.value == payload_core(secure)))
    }

    /// States whether EL3 brings the cores of the partition to the monitor, whatever its guest masks.
    pub(in crate::resolve) fn is_kicked(&self, partition: &Partition) -> bool {
        let secure = self.description.secure.as_ref();
        let is_hybrid = secure.is_some_and(|one| one.non_secure.as_ref().is_some_and(|world| has_partitions(world)));
        is_hybrid && !self.is_below_payload(partition)
    }

    /// Refuses an untrusted guest that sends SGIs by itself where they would arrive at another partition's core: one of several `mapped` vCPUs,
    /// which interrupt each other, or the payload's, where the monitor has its own (QV-16).
    fn firewall(&mut self) {
        let description = self.description;
        let sends = |one: &&Located<Partition>| is_direct(one) && !is_trusted(one) && !is_filtered(one);
        let Some(sender) = description.partition.iter().find(sends) else { return };
        let is_open = |one: &&Located<Partition>| {
            one.name.value != sender.name.value
                && (one.cores.len() > 1 && !is_direct(one) || self.is_below_payload(one))
        };
        let Some(receiver) = description.partition.iter().find(is_open) else { return };
        let (from, to) = (sender.name.value.as_str(), receiver.name.value.as_str());
        let message = format!("partition `{from}` could send software-generated interrupts to the cores of `{to}`");
        let place = span(&sender.interrupts).unwrap_or(sender.name.span);
        let why = "an interrupt that a guest sends by itself arrives wherever its number is open, and a core takes them from every sender alike";
        let diagnostic = Diagnostic::new(Code::SgiUnfiltered, message)
            .at(place, "sends them past the monitor, and is not trusted")
            .at(receiver.cores.span, "some are open here")
            .note(why);
        self.push(diagnostic.help("write `sgi = \"filtered\"` into its partition: an exit for each SGI that it sends, and for each write of its priority mask"));
    }

    /// No partition's console has the name of the payload's.
    fn console_names(&mut self) {
        for partition in &self.description.partition {
            if partition.name.value == PAYLOADS_CONSOLE {
                let message = format!("`{PAYLOADS_CONSOLE}` is the name of the payload's console");
                let diagnostic = Diagnostic::new(Code::DuplicateName, message).at(partition.name.span, "taken");
                self.report.push(diagnostic.help("give the partition another name"));
            }
        }
    }

    /// Refuses what means nothing beside partitions, and what is not built beside them.
    fn not_with_partitions(&mut self, secure: &Secure, world: &NonSecure) {
        let beside = "`partitions = true`";
        self.does_not_apply(span(&world.image), "image", beside);
        self.does_not_apply(span(&world.memory), "memory", beside);
        self.does_not_apply(span(&world.entry), "entry", beside);
        if let Some(health) = &secure.health {
            let help = "leave it out: the monitor at EL2 watches the partitions, each with its own `health`, and the payload is told what \
                        happens to them (`partitions_watch`)";
            self.not_built(health.span, "the health of a world of partitions", help);
        }
    }

    /// Checks which cores partitions have.
    fn cores_below(&mut self, secure: &Secure) {
        let description = self.description;
        for schedule in &description.schedule {
            let message = format!("partitions would share core {} below a payload", schedule.core.value);
            let why = "the monitor would charge the time that the payload takes to the partition that runs then";
            let diagnostic = Diagnostic::new(Code::SharedBelow, message)
                .at(schedule.span, "a schedule")
                .at(secure.payload.span, "the payload")
                .note(why);
            self.push(diagnostic.help("give each partition cores of its own"));
        }
        for partition in &description.partition {
            if let Some(core) = partition.cores.iter().find(|core| core.value >= MOST_CORES as u64) {
                let message = format!("core {} is behind those that the secure monitor serves", core.value);
                let label = format!("expected 0 to {}", MOST_CORES - 1);
                self.push(Diagnostic::new(Code::CoreBeyond, message).at(core.span, label));
            }
            let payloads = partition.cores.iter().find(|core| core.value == payload_core(secure));
            if let Some(core) = payloads.filter(|_| is_direct(partition) && !is_trusted(partition)) {
                let name = partition.name.value.as_str();
                let message =
                    format!("partition `{name}` has direct interrupts, is not trusted, and is on the payload's core");
                let why = "nothing takes this core away from a guest with direct interrupts but the payload itself";
                let diagnostic = Diagnostic::new(Code::DirectBelow, message)
                    .at(core.span, "the payload's core")
                    .at(span(&partition.interrupts).unwrap_or(partition.name.span), "owns the interrupts of its core")
                    .note(why);
                self.push(diagnostic.help("give it another core, or let its interrupts go through the monitor"));
            }
        }
    }

    /// Refuses urgent interrupts that do not come to the payload's core: they could not wake what runs there.
    fn urgent_below(&mut self, secure: &Secure) {
        let core = payload_core(secure);
        let latency = secure.latency_tasks.iter().flat_map(|task| &task.interrupts);
        for urgent in secure.servers.iter().flat_map(|server| &server.interrupts).chain(latency) {
            if !self.comes_to(core, &urgent.value) {
                let message = match &urgent.value {
                    Urgent::Device(name) => format!("interrupts of `{name}` do not come to the payload's core"),
                    Urgent::Intid(intid) => format!("interrupt {intid} does not come to the payload's core"),
                };
                let diagnostic = Diagnostic::new(Code::UrgentElsewhere, message)
                    .at(urgent.span, "would wake the server")
                    .note("it goes to the core of the partition that has it, which the payload does not take away");
                self.push(
                    diagnostic.help(format!("name what the partition of core {core} has, or a timer: 26, 27, 30")),
                );
            }
        }
    }

    /// States whether an urgent interrupt is one of this core: a private one, or of a device of the partition that has this core alone.
    fn comes_to(&self, core: u64, urgent: &Urgent) -> bool {
        let is_alone = |partition: &Located<Partition>| partition.cores.iter().all(|one| one.value == core);
        let of_channel = |intid: u64| {
            let channels = self.description.secure.iter().flat_map(|secure| &secure.channel);
            let mut own = channels.filter(|one| one.interrupt.as_ref().is_some_and(|own| own.value == intid));
            own.find_map(|channel| channel.partition.as_ref())
        };
        let name = match urgent {
            Urgent::Intid(intid) if *intid < u64::from(Intid::FIRST_SHARED) => return true,
            Urgent::Intid(intid) if of_channel(*intid).is_some() => {
                let name = of_channel(*intid).map(|name| name.value.as_str());
                return self.description.partition.iter().any(|one| Some(one.name.as_str()) == name && is_alone(one));
            }
            Urgent::Intid(intid) => {
                let has =
                    |device: &&model::BoardDevice| device.interrupts.iter().any(|one| u64::from(one.intid) == *intid);
                self.board.board.devices.iter().find(has).map(|device| device.name.as_str())
            }
            Urgent::Device(name) => Some(name.as_str()),
        };
        let has = |partition: &&Located<Partition>| {
            partition.devices.iter().any(|device| Some(device_name(device).value.as_str()) == name)
        };
        let owner = self.description.partition.iter().find(has);
        owner.is_some_and(is_alone)
    }

    /// Checks that the images of all partitions have room in the flash.
    fn flash_holds(&mut self, secure: &Secure, facts: &model::SecureFacts, system: &System) {
        let Some(section) = &system.secure else { return };
        let bytes = system.partitions.iter().map(|partition| partition.image.content_bytes());
        let largest = bytes.clone().zip(&self.description.partition).max_by_key(|(bytes, _)| *bytes);
        let place = largest.map_or(secure.memory.span, |(_, partition)| partition.image.span);
        self.flash_fits(secure, facts, &section.payload, (place, bytes.sum()));
    }
}

/// Name of the payload's console (`tool/run`).
const PAYLOADS_CONSOLE: &str = "secure";

fn payload_core(secure: &Secure) -> u64 {
    secure.core.as_ref().map_or(0, |core| core.value)
}

fn device_name(device: &Located<Device>) -> &Located<String> {
    match &device.value {
        Device::Name(name) => name,
        Device::Table(table) => &table.name,
    }
}
