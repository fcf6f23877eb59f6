//! Partitions one by one, and their cores against each other.

use super::Resolver;
use super::memory::PartitionMemory;
use crate::code::Code;
use crate::decode::Located;
use crate::description::{self, Console, ImageKind, Interrupts, Partition, SgiRule, Trust};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_abi::GuestAddress;
use bulkhead_plan::model;

impl Resolver<'_> {
    /// Resolves every partition; one that cannot be resolved is `None`.
    pub(super) fn partitions(&mut self) -> Vec<Option<model::Partition>> {
        let description = self.description;
        description.partition.iter().map(|partition| self.partition(partition)).collect()
    }

    fn partition(&mut self, partition: &Partition) -> Option<model::Partition> {
        self.direct_rules(partition);
        let health = self.health(partition);
        let watchdog_ns = self.watchdog(partition);
        let device_events = self.device_events(partition);
        let memory = self.partition_memory(partition);
        let console = self.console(partition);
        // The image is checked against the RAM, so it needs it.
        let image = memory.and_then(|memory| self.image(partition, memory));
        let arguments = self.arguments(partition);
        let overlay = self.overlay(partition);
        let doorbell_limit = match &partition.doorbell_limit {
            None => Some(None),
            Some(limit) => self.limiter(limit, "leave `doorbell_limit` out to limit each channel by itself").map(Some),
        };
        let manage_limit = self.manage_limit(partition);
        // What time does not depend on gets a stand-in: the report has an error then, and the system is not built.
        let nowhere = PartitionMemory { bytes: 0, guest: GuestAddress(0), physical: None, span: partition.memory.span };
        let memory = memory.unwrap_or(nowhere);
        let image = image.unwrap_or(model::GuestImage::Raw { bytes: Vec::new(), load: memory.guest });
        Some(model::Partition {
            name: partition.name.value.clone(),
            criticality: criticality(partition),
            trusted: is_trusted(partition),
            cores: partition.cores.iter().filter_map(|core| usize::try_from(core.value).ok()).collect(),
            memory_bytes: memory.bytes,
            guest_ram: memory.guest,
            physical_ram: memory.physical,
            image,
            arguments: arguments.unwrap_or_default(),
            mode: if is_direct(partition) { model::InterruptMode::Direct } else { model::InterruptMode::Mapped },
            devices: Vec::new(),
            device_routes: Vec::new(),
            route: model::Route::default(),
            doorbell_limit: doorbell_limit?,
            servers: Vec::new(),
            preemptible: partition.preemptible.as_ref().is_none_or(|state| state.value),
            tasks: Vec::new(),
            virtual_uart: console == Console::Pl011,
            own_console: console == Console::Ring,
            pci_channels: partition.image.kind.value == ImageKind::Linux,
            health: health.unwrap_or(model::HealthPolicy::Stop),
            watchdog_ns: watchdog_ns.unwrap_or_default(),
            manages: partition.manages.as_ref().is_some_and(|state| state.value),
            sgi_filtered: is_filtered(partition),
            manage_limit: manage_limit?,
            device_tree_address: partition.image.device_tree_address.as_ref().map(|at| GuestAddress(at.value)),
            overlay: overlay.unwrap_or_default(),
            device_events: device_events.unwrap_or_default(),
        })
    }

    /// Resolves the limit of a manager's requests, and warns of a manager that nobody vouches for.
    fn manage_limit(&mut self, partition: &Partition) -> Option<model::Limiter> {
        let Some(manages) = partition.manages.as_ref().filter(|state| state.value) else {
            self.does_not_apply(span(&partition.manage_limit), "manage_limit", "`manages = false`");
            return Some(model::Limiter::OF_MANAGERS);
        };
        if !is_trusted(partition) {
            let message = format!("partition `{}` manages others and is not trusted", partition.name.value);
            let place = partition.trust.as_ref().map_or(partition.name.span, |trust| trust.span);
            let why = "it can suspend and restart every partition with mapped interrupts";
            self.push(
                Diagnostic::new(Code::ManagerUntrusted, message)
                    .at(manages.span, "gives it power over the others")
                    .at(place, "nothing is promised of this guest")
                    .note(why)
                    .help(
                        "let a small guest of its own manage, or promise that this one behaves: `trust = \"trusted\"`",
                    ),
            );
        }
        match &partition.manage_limit {
            None => Some(model::Limiter::OF_MANAGERS),
            Some(limit) => self.limiter(limit, "a partition that is to make no request does not manage"),
        }
    }

    /// Checks what `interrupts = "direct"` excludes.
    fn direct_rules(&mut self, partition: &Partition) {
        if !(is_direct(partition) && self.is_kicked(partition)) {
            self.does_not_apply(span(&partition.sgi), "sgi", "a core that EL3 does not bring to the monitor");
        }
        let Some(interrupts) = partition.interrupts.as_ref().filter(|_| is_direct(partition)) else {
            return;
        };
        let name = partition.name.value.as_str();
        let direct = "the guest owns the interrupts of its core";
        if !is_trusted(partition) && !self.is_below_payload(partition) && !self.is_kicked(partition) {
            let message = format!("partition `{name}` has direct interrupts and is not trusted");
            let span = partition.trust.as_ref().map_or(partition.name.span, |trust| trust.span);
            let why = "a guest that owns the physical CPU interface can block every interrupt of its core and end foreign ones";
            let diagnostic = Diagnostic::new(Code::DirectUntrusted, message)
                .at(interrupts.span, direct)
                .at(span, "nothing is promised of this guest")
                .note(why);
            self.push(
                diagnostic
                    .suggest(interrupts.span, "\"mapped\"", "let its interrupts go through the monitor")
                    .help("or promise that it behaves: `trust = \"trusted\"`"),
            );
        }
        if partition.cores.len() > 1 {
            let message = format!("partition `{name}` has direct interrupts and {} cores", partition.cores.len());
            let why = "its SGIs are not filtered, so a guest with several cores could send them to any core";
            let diagnostic = Diagnostic::new(Code::DirectSeveralCores, message)
                .at(partition.cores.span, "one core is possible")
                .at(interrupts.span, direct)
                .note(why);
            self.push(diagnostic);
        }
        if let Some(watchdog) = partition.watchdog.as_ref().filter(|_| !self.is_kicked(partition)) {
            let message = format!("partition `{name}` has direct interrupts and a watchdog");
            let why = "on a core with direct interrupts the monitor has no timer interrupt of its own";
            let diagnostic = Diagnostic::new(Code::DirectWatchdog, message)
                .at(watchdog.span, "cannot be kept")
                .at(interrupts.span, direct)
                .note(why);
            self.push(diagnostic);
        }
        if let Some(manages) = partition.manages.as_ref().filter(|state| state.value) {
            let message = format!("partition `{name}` has direct interrupts and manages others");
            let why = "its monitor has no interrupt of its own, so it could not be told that a request was served";
            let diagnostic = Diagnostic::new(Code::DirectManages, message)
                .at(manages.span, "")
                .at(interrupts.span, direct)
                .note(why);
            self.push(diagnostic);
        }
        self.direct_shared(partition, interrupts.span);
        self.direct_priorities(name, interrupts.span);
        if is_trusted(partition) && !is_filtered(partition) {
            let message = format!("partition `{name}` has direct interrupts: its SGIs are not filtered");
            let why = "it could send any SGI to any core, and block the interrupts of its own core";
            self.push(
                Diagnostic::new(Code::DirectHazard, message)
                    .at(interrupts.span, "accepted because the partition is trusted")
                    .note(why),
            );
        }
    }

    /// Warns of what two security states leave to a guest that has the board's own interrupt controller (IHI 0069, 4.8).
    fn direct_priorities(&mut self, name: &str, interrupts: Span) {
        let board = &self.board.board;
        if board.security_states == 2 {
            let message = format!("partition `{name}` has direct interrupts and 16 priority levels");
            let label = format!("board `{}` has two security states, and the guest its non-secure half", board.name);
            let why =
                "of 0x00, 0x10 and so on to 0xf0 the last never comes: the largest priority mask is no less urgent";
            self.push(
                Diagnostic::new(Code::DirectPriorities, message)
                    .at(interrupts, label)
                    .note(why)
                    .help("let the guest use 0x00 to 0xe0, or have 32 levels with `interrupts = \"mapped\"`"),
            );
        }
    }

    /// Refuses `interrupts = "direct"` on a core with a schedule.
    fn direct_shared(&mut self, partition: &Partition, interrupts: Span) {
        let name = partition.name.value.as_str();
        if let Some(schedule) = partition.cores.iter().find_map(|core| self.schedule_of(core.value)) {
            let message = format!("partition `{name}` has direct interrupts on a core with a schedule");
            let why = "the monitor takes the core away by an interrupt, which the guest could block";
            let diagnostic = Diagnostic::new(Code::DirectShared, message)
                .at(interrupts, "the guest owns the interrupts of its core")
                .at(schedule.core.span, "this core is shared")
                .note(why);
            self.push(diagnostic.suggest(interrupts, "\"mapped\"", "let its interrupts go through the monitor"));
        }
    }

    /// Refuses a partition with several vCPUs of which the first one runs on a core with a schedule.
    fn several_shared(&mut self, partition: &Partition) {
        let first = partition.cores.first().filter(|_| partition.cores.len() > 1);
        let Some((core, schedule)) = first.and_then(|core| Some((core, self.schedule_of(core.value)?))) else { return };
        let message = format!(
            "partition `{}` has {} cores, and the first is shared",
            partition.name.value,
            partition.cores.len()
        );
        let why = "the core of vCPU 0 starts and stops the others, and waits for their cores meanwhile";
        let diagnostic = Diagnostic::new(Code::SeveralShared, message)
            .at(core.span, "this core is shared")
            .at(schedule.core.span, "by this schedule")
            .note(why);
        self.push(diagnostic.help("name a core first that the partition has to itself"));
    }

    /// Resolves the console.
    fn console(&mut self, partition: &Partition) -> Console {
        let is_linux = partition.image.kind.value == ImageKind::Linux;
        let Some(console) = &partition.console else {
            return if is_linux { Console::Pl011 } else { Console::Ring };
        };
        if is_linux && console.value == Console::Ring {
            let message = "Linux does not write a console ring";
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(console.span, "for native guests only");
            self.push(diagnostic.suggest(console.span, "\"pl011\"", "give it a virtual PL011"));
        }
        console.value
    }

    /// Reports a key that means nothing next to another one.
    pub(super) fn does_not_apply(&mut self, place: Option<Span>, key: &str, beside: &str) {
        if let Some(place) = place {
            let message = format!("`{key}` means nothing with {beside}");
            self.push(Diagnostic::new(Code::KeyDoesNotApply, message).at(place, "remove it"));
        }
    }

    /// Checks that each core exists and is given once.
    pub(super) fn cores(&mut self) {
        let description = self.description;
        let count = self.board.board.core_mpidr.len();
        let mut seen: Vec<(&Located<u64>, &str)> = Vec::new();
        for partition in &description.partition {
            if partition.cores.is_empty() {
                let message = format!("partition `{}` has no core", partition.name.value);
                self.push(Diagnostic::new(Code::NoCore, message).at(partition.cores.span, "expected at least one"));
            }
            self.several_shared(partition);
            for core in &partition.cores.value {
                if core.value >= count as u64 {
                    let message = format!("the board has no core {}", core.value);
                    let label = format!("board `{}` has cores 0 to {}", self.board.board.name, count.saturating_sub(1));
                    self.push(Diagnostic::new(Code::UnknownCore, message).at(core.span, label));
                } else if let Some((first, owner)) = seen.iter().find(|(other, owner)| {
                    let is_shared = self.schedule_of(core.value).is_some() && *owner != partition.name.as_str();
                    other.value == core.value && !is_shared
                }) {
                    let owner = *owner;
                    let message = format!("core {} is given twice", core.value);
                    let diagnostic = Diagnostic::new(Code::CoreTwice, message)
                        .at(core.span, format!("to `{}`", partition.name.value))
                        .at(first.span, format!("and to `{owner}`"));
                    self.push(match owner == partition.name.as_str() {
                        true => diagnostic
                            .note("vCPUs of one partition wait for each other, so they need cores of their own"),
                        false if description.secure.is_some() => {
                            diagnostic.help("give each partition cores of its own")
                        }
                        false => diagnostic.help(format!(
                            "partitions share a core that has a schedule: add a table `[[schedule]]` with `core = {}`",
                            core.value
                        )),
                    });
                } else {
                    seen.push((core, partition.name.as_str()));
                }
            }
        }
        // With another mistake about cores, or without a partition, this one would only repeat it.
        let is_clear = !description.partition.is_empty()
            && description.partition.iter().all(|partition| !partition.cores.is_empty());
        if is_clear && !seen.iter().any(|(core, _)| core.value == 0) {
            let message = "no partition uses core 0, which starts the machine";
            let span = description.partition.first().map_or(description.name.span, |partition| partition.cores.span);
            self.push(
                Diagnostic::new(Code::BootCoreUnused, message)
                    .at(span, "")
                    .help("give core 0 to one of the partitions"),
            );
        }
    }
}

/// Where an optional value is.
pub(super) fn span<T>(value: &Option<Located<T>>) -> Option<Span> {
    value.as_ref().map(|value| value.span)
}

/// States whether the monitor sends the partition's SGIs.
pub(super) fn is_filtered(partition: &Partition) -> bool {
    partition.sgi.as_ref().is_some_and(|rule| rule.value == SgiRule::Filtered)
}

/// States whether the partition is declared trusted.
pub(super) fn is_trusted(partition: &Partition) -> bool {
    partition.trust.as_ref().is_some_and(|trust| trust.value == Trust::Trusted)
}

/// States whether the partition owns its CPU interface.
pub(super) fn is_direct(partition: &Partition) -> bool {
    partition.interrupts.as_ref().is_some_and(|mode| mode.value == Interrupts::Direct)
}

fn criticality(partition: &Partition) -> model::Criticality {
    match partition.criticality.as_ref().map(|one| one.value) {
        Some(description::Criticality::High) => model::Criticality::High,
        Some(description::Criticality::Low) => model::Criticality::Low,
        Some(description::Criticality::BestEffort) => model::Criticality::BestEffort,
        Some(description::Criticality::Medium) | None => model::Criticality::Medium,
    }
}
