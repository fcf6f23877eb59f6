//! Scenarios: their cores by way of a system description, and their arrivals.

use super::{Resolver, find_board, names};
use crate::code::Code;
use crate::decode::{Duration, Located, Size};
use crate::description::{Description, Image, ImageKind, Memory, Partition, Trust};
use crate::diagnostic::{Diagnostic, Report};
use crate::guest_file::GuestFiles;
use crate::resolve::partition::span;
use crate::scenario::{Arrival, ArrivalKind, CheckedArrival, LoadedScenario, Pattern, Scenario, ScenarioPartition};
use crate::source::{FileId, Span};
use crate::{Check, Options, suggest};
use bulkhead_abi::{GuestAddress, PhysicalAddress};
use bulkhead_plan::model::{self, System};
use std::path::Path;

/// Most arrivals of one burst: enough for any storm, and a slip of the pen does not fill the memory.
const MAX_BURST: u64 = 1_000_000;

/// Checks a scenario. `Ok(None)` and an error in the report go together; `Err` is the report of a description that is refused.
pub(crate) fn load(
    scenario: &Scenario,
    path: &Path,
    file: FileId,
    options: &Options,
    check: &dyn Check,
    report: &mut Report,
) -> Result<Option<LoadedScenario>, Report> {
    let start = Span::new(file, 0..0);
    let description = describe(scenario, start);
    let mut files = GuestFiles::new(path, options);
    let Some(board) = find_board(&description.board, path, &mut files, report) else {
        return Ok(None);
    };
    let mut resolver = Resolver { description: &description, report, board, files, host: Vec::new(), places: None };
    let own_tables = [
        ("partition", scenario.partition.first().map(|one| one.span)),
        ("schedule", scenario.schedule.first().map(|one| one.span)),
    ];
    resolver.does_not_apply(scenario.made.first().map(|one| one.span), "made", "shared cores: an `instance` has bands");
    let system = match &scenario.system {
        Some(named) => {
            for (key, place) in own_tables {
                resolver.does_not_apply(place, key, "`system`, which has them");
            }
            resolver.does_not_apply(span(&scenario.board), "board", "`system`, which has the board");
            if resolver.report.has_errors() {
                return Ok(None);
            }
            let directory = path.parent().unwrap_or_else(|| Path::new(""));
            let system = crate::load(&directory.join(&named.value), options, check)?.system;
            if system.schedules.is_empty() {
                let message = format!("no core of `{}` is shared, so there is nothing to simulate", system.name);
                let help = match system.secure {
                    Some(_) => "servers of a secure section cannot be simulated yet",
                    None => "add a table `[[schedule]]` to the description",
                };
                resolver.push(Diagnostic::new(Code::KeyNeeded, message).at(named.span, "this system").help(help));
            }
            Some(system)
        }
        None => resolver.own_system(start),
    };
    let until_ns = scenario.until.as_ref().map(|text| resolver.duration(text));
    let Some(system) = system else { return Ok(None) };
    let arrivals: Vec<Option<CheckedArrival>> =
        scenario.arrival.iter().map(|arrival| resolver.arrival(&system, arrival)).collect();
    let Some(arrivals) = arrivals.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(Some(LoadedScenario { system, arrivals, until_ns: until_ns.flatten(), warnings: Report::default() }))
}

/// The scenario as a description whose other parts are placeholders.
pub(super) fn describe(scenario: &Scenario, start: Span) -> Description {
    let text = |value: &str| Located { value: value.to_owned(), span: start };
    Description {
        version: Located { value: crate::description::DESCRIPTION_VERSION, span: start },
        name: text("scenario"),
        board: scenario.board.clone().unwrap_or_else(|| text(crate::board::BUILT_IN.default)),
        memory: Located { value: Size(String::from("1 GiB")), span: start },
        demonstration: None,
        trace: None,
        partition: scenario.partition.iter().map(one_partition).collect(),
        channel: Vec::new(),
        schedule: scenario.schedule.clone(),
        pci: Vec::new(),
        virtio: Vec::new(),
        secure: None,
    }
}

fn one_partition(written: &Located<ScenarioPartition>) -> Located<Partition> {
    let span = written.span;
    let image = Image {
        kind: Located { value: ImageKind::Raw, span },
        file: Located { value: String::new(), span },
        initrd: None,
        command_line: None,
        load: None,
        device_tree_address: None,
    };
    let partition = Partition {
        name: written.name.clone(),
        criticality: None,
        trust: written.trust.clone(),
        cores: written.cores.clone(),
        memory: Located { value: Memory::Size(Located { value: Size(String::from("1 MiB")), span }), span },
        image: Located { value: image, span },
        arguments: None,
        interrupts: None,
        devices: Vec::new(),
        region: Vec::new(),
        console: None,
        health: None,
        watchdog: None,
        manages: None,
        sgi: None,
        manage_limit: None,
        device_tree_overlay: None,
        ports: Vec::new(),
        route: None,
        doorbell_limit: None,
        servers: written.servers.clone(),
        preemptible: written.preemptible.clone(),
        tasks: Vec::new(),
    };
    Located { value: partition, span }
}

impl Resolver<'_> {
    /// The system of a scenario with tables of its own.
    fn own_system(&mut self, start: Span) -> Option<System> {
        let description = self.description;
        if description.schedule.is_empty() {
            let message = "the scenario has no shared core";
            let help = "name a description by `system = \"system.toml\"`, or add a table `[[schedule]]`";
            self.push(Diagnostic::new(Code::KeyNeeded, message).at(start, "needs one of both").help(help));
            return None;
        }
        names(description, self.report);
        self.cores();
        let schedules = self.schedules();
        let servers = self.servers();
        if self.report.has_errors() {
            return None;
        }
        let partitions = description.partition.iter().zip(servers).map(|(written, servers)| {
            Some(model::Partition {
                name: written.name.value.clone(),
                criticality: model::Criticality::Medium,
                trusted: written.trust.as_ref().is_some_and(|trust| trust.value == Trust::Trusted),
                cores: written.cores.iter().filter_map(|core| usize::try_from(core.value).ok()).collect(),
                memory_bytes: 0,
                guest_ram: GuestAddress(0),
                physical_ram: None::<PhysicalAddress>,
                image: model::GuestImage::Raw { bytes: Vec::new(), load: GuestAddress(0) },
                arguments: String::new(),
                mode: model::InterruptMode::Mapped,
                devices: Vec::new(),
                route: model::Route::default(),
                device_routes: Vec::new(),
                doorbell_limit: None,
                servers: servers?,
                preemptible: written.preemptible.as_ref().is_none_or(|state| state.value),
                tasks: Vec::new(),
                virtual_uart: false,
                own_console: false,
                pci_channels: false,
                health: model::HealthPolicy::Stop,
                watchdog_ns: None,
                manages: false,
                sgi_filtered: false,
                manage_limit: model::Limiter::OF_MANAGERS,
                device_tree_address: None,
                overlay: None,
                device_events: model::DeviceEvents::default(),
            })
        });
        Some(System {
            name: description.name.value.clone(),
            board: self.board.board.clone(),
            memory_bytes: 0,
            trace_records: 0,
            trace_enabled: false,
            partitions: partitions.collect::<Option<_>>()?,
            channels: Vec::new(),
            schedules: schedules.into_iter().collect::<Option<_>>()?,
            functions: Vec::new(),
            virtio: Vec::new(),
            secure: None,
            source_hash: [0; 32],
        })
    }

    fn arrival(&mut self, system: &System, arrival: &Located<Arrival>) -> Option<CheckedArrival> {
        let vcpu = self.needed(&arrival.vcpu, "vcpu", arrival.span, "an arrival");
        for (key, place) in [("thread", span(&arrival.thread)), ("server", span(&arrival.server))] {
            self.does_not_apply(place, key, "shared cores: an `instance` has them");
        }
        let place = vcpu.and_then(|vcpu| self.arrival_vcpu(system, vcpu));
        let timed = self.timed(arrival);
        let (partition, vcpu) = place?;
        let client = self.arrival_client(system, arrival, partition, vcpu);
        Some(CheckedArrival { partition, vcpu, client: client?, ..timed? })
    }

    /// What an arrival is, but for where it arrives.
    pub(super) fn timed(&mut self, arrival: &Located<Arrival>) -> Option<CheckedArrival> {
        let pattern = self.pattern(arrival);
        let is_busy = pattern == Some(Pattern::Busy);
        let work_ns = match &arrival.work {
            Some(work) if is_busy => {
                self.does_not_apply(Some(work.span), "work", "`busy`, which never ends");
                None
            }
            Some(work) => self.positive(work, "work"),
            None if is_busy || pattern.is_none() => Some(0),
            None => self.needed(&arrival.work, "work", arrival.span, "an arrival").map(|_| 0),
        };
        let offset_ns = arrival.offset.as_ref().map_or(Some(0), |text| self.duration(text));
        let spacing_ns = arrival.spacing.as_ref().map_or(Some(0), |text| self.duration(text));
        let is_interrupt = arrival.kind.as_ref().is_some_and(|kind| kind.value == ArrivalKind::Interrupt);
        if is_interrupt && is_busy {
            self.does_not_apply(span(&arrival.busy), "busy", "`kind = \"interrupt\"`: a handler ends");
        }
        let burst = arrival.burst.as_ref().map_or(1, |burst| burst.value);
        if burst == 0 || burst > MAX_BURST {
            let message = format!("{burst} arrivals at a time cannot be simulated");
            let place = span(&arrival.burst).unwrap_or(arrival.span);
            self.push(Diagnostic::new(Code::BadQuantity, message).at(place, format!("expected 1 to {MAX_BURST}")));
        }
        Some(CheckedArrival {
            partition: 0,
            vcpu: 0,
            is_interrupt,
            work_ns: work_ns?,
            offset_ns: offset_ns?,
            pattern: pattern?,
            burst,
            spacing_ns: spacing_ns?,
            client: None,
        })
    }

    /// Finds `partition` or `partition.vcpu` on a shared core.
    fn arrival_vcpu(&mut self, system: &System, name: &Located<String>) -> Option<(usize, usize)> {
        let (partition, vcpu) = match name.value.rsplit_once('.') {
            Some((partition, number)) => (partition, number.parse().ok()),
            None => (name.value.as_str(), Some(0)),
        };
        let known: Vec<&str> = system.partitions.iter().map(|partition| partition.name.as_str()).collect();
        let Some(found) = known.iter().position(|one| *one == partition) else {
            let message = format!("there is no partition `{partition}`");
            let mut diagnostic = Diagnostic::new(Code::UnknownVcpu, message).at(name.span, "something arrives here");
            diagnostic = match suggest::closest(partition, known.iter().copied()) {
                Some(meant) => {
                    diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"))
                }
                None => diagnostic.help(format!("the partitions are {}", suggest::list(&known))),
            };
            self.push(diagnostic);
            return None;
        };
        let cores = system.partitions.get(found).map_or(&[] as &[usize], |partition| &partition.cores);
        let Some((vcpu, core)) = vcpu.and_then(|vcpu: usize| cores.get(vcpu).map(|core| (vcpu, *core))) else {
            let message = format!("partition `{partition}` has no such vCPU");
            let label = format!("it has {}, numbered from 0", cores.len());
            self.push(Diagnostic::new(Code::UnknownVcpu, message).at(name.span, label));
            return None;
        };
        if !system.schedules.iter().any(|schedule| schedule.board_core == core) {
            let message = format!("vCPU {vcpu} of `{partition}` has core {core} for itself");
            let help = "arrivals of a vCPU that shares its core can be simulated";
            self.push(Diagnostic::new(Code::ServerNotHere, message).at(name.span, "nothing to decide").help(help));
            return None;
        }
        Some((found, vcpu))
    }

    /// Reads when arrivals come; exactly one of the ways must be given.
    fn pattern(&mut self, arrival: &Located<Arrival>) -> Option<Pattern> {
        let sporadic = span(&arrival.minimum).or(span(&arrival.maximum));
        let busy = arrival.busy.as_ref().filter(|busy| busy.value).map(|busy| busy.span);
        let given =
            [("period", span(&arrival.period)), ("at", span(&arrival.at)), ("minimum", sporadic), ("busy", busy)];
        let mut given = given.into_iter().filter_map(|(key, place)| place.map(|place| (key, place)));
        let Some((first, _)) = given.next() else {
            let message = "it is not said when these arrive";
            let help = "add `period`, or `at`, or `minimum` and `maximum`, or `busy = true`";
            self.push(Diagnostic::new(Code::KeyNeeded, message).at(arrival.span, "").help(help));
            return None;
        };
        if let Some((second, place)) = given.next() {
            self.does_not_apply(Some(place), second, &format!("`{first}`"));
            return None;
        }
        if first != "minimum" {
            self.does_not_apply(span(&arrival.seed), "seed", &format!("`{first}`"));
        }
        match first {
            "period" => {
                let period_ns = self.positive(arrival.period.as_ref()?, "period")?;
                Some(Pattern::Periodic { period_ns })
            }
            "at" => {
                let times = arrival.at.as_ref()?;
                let times: Option<Vec<u64>> = times.iter().map(|text| self.duration(text)).collect();
                let mut times = times?;
                times.sort_unstable();
                Some(Pattern::At(times))
            }
            "minimum" => self.sporadic_pattern(arrival),
            _ => Some(Pattern::Busy),
        }
    }

    fn sporadic_pattern(&mut self, arrival: &Located<Arrival>) -> Option<Pattern> {
        let minimum = self.needed(&arrival.minimum, "minimum", arrival.span, "`maximum`");
        let maximum = self.needed(&arrival.maximum, "maximum", arrival.span, "`minimum`");
        let (minimum, maximum) = (minimum?, maximum?);
        let (minimum_ns, maximum_ns) = (self.positive(minimum, "minimum"), self.positive(maximum, "maximum"));
        let (minimum_ns, maximum_ns) = (minimum_ns?, maximum_ns?);
        if minimum_ns > maximum_ns {
            let message = "the shortest distance is longer than the longest";
            let diagnostic = Diagnostic::new(Code::BadQuantity, message).at(minimum.span, "longer than");
            self.push(diagnostic.at(maximum.span, "this"));
            return None;
        }
        let seed = arrival.seed.as_ref().map_or(1, |seed| seed.value);
        Some(Pattern::Spaced { minimum_ns, maximum_ns, seed })
    }

    /// Reads a time that is more than nothing.
    pub(super) fn positive(&mut self, text: &Located<Duration>, key: &str) -> Option<u64> {
        let time_ns = self.duration(text)?;
        if time_ns == 0 {
            let message = format!("`{key}` cannot be nothing");
            self.push(Diagnostic::new(Code::BadQuantity, message).at(text.span, "expected a time such as \"1 ms\""));
            return None;
        }
        Some(time_ns)
    }

    /// Checks the client of a PIBS server.
    fn arrival_client(
        &mut self,
        system: &System,
        arrival: &Located<Arrival>,
        partition: usize,
        vcpu: usize,
    ) -> Option<Option<usize>> {
        let servers = system.partitions.get(partition).map_or(&[] as &[model::Server], |one| &one.servers);
        let clients = servers.iter().filter(|server| server.vcpu == vcpu).find_map(|server| server.rule.clients());
        let clients = clients.map(|clients| bulkhead_plan::schedule::clients(system, clients).len());
        match (&arrival.client, clients) {
            (None, None) => Some(None),
            (None, Some(_)) => Some(Some(0)),
            (Some(written), None) => {
                self.does_not_apply(Some(written.span), "client", "a vCPU without a PIBS server");
                None
            }
            (Some(written), Some(count)) => {
                let client = usize::try_from(written.value).ok().filter(|client| *client < count);
                if client.is_none() {
                    let message = format!("the PIBS server has no client {}", written.value);
                    let label = format!("it has {count}, numbered from 0 in the order of their periods");
                    self.push(Diagnostic::new(Code::BadClient, message).at(written.span, label));
                }
                client.map(Some)
            }
        }
    }
}
