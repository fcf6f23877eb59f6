//! Scenarios of an instance of the real-time kernel: its servers by way of its image, so that what is simulated is what boots.

use super::scenario::describe;
use super::{Resolver, find_board};
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::{Diagnostic, Report};
use crate::guest_file::GuestFiles;
use crate::kernel::load_native;
use crate::resolve::partition::span;
use crate::scenario::{
    Arrival, InstanceArrival, InstanceScenario, Made, MadeServer, Scenario, SimulatedInstance, Target,
};
use crate::source::{FileId, Span};
use crate::{Check, Options, board, suggest};
use bulkhead_kernel_abi::boot::{ALIGNMENT, Tables};
use bulkhead_kernel_abi::image::{Head, MAGIC};
use bulkhead_plan::model::{Component, GuestImage, InstanceServer};
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// Where a head can begin.
const PAGE: usize = 4096;

/// Checks a scenario of an instance. `Ok(None)` and an error in the report go together; `Err` is the report of a description that is refused.
pub(crate) fn load(
    scenario: &Scenario,
    named: &Located<String>,
    (path, file): (&Path, FileId),
    options: &Options,
    check: &dyn Check,
    report: &mut Report,
) -> Result<Option<InstanceScenario>, Report> {
    let description = describe(scenario, Span::new(file, 0..0));
    let mut files = GuestFiles::new(path, options);
    let Some(board) = find_board(&description.board, path, &mut files, report) else { return Ok(None) };
    let mut resolver = Resolver { description: &description, report, board, files, host: Vec::new(), places: None };
    let unused = [
        ("partition", scenario.partition.first().map(|one| one.span)),
        ("schedule", scenario.schedule.first().map(|one| one.span)),
        ("board", span(&scenario.board)),
    ];
    for (key, place) in unused {
        resolver.does_not_apply(place, key, "`instance`, which has its own servers");
    }
    let directory = path.parent().unwrap_or_else(|| Path::new(""));
    let instance = match &scenario.system {
        Some(system) => resolver.in_system(named, &directory.join(&system.value), options, check)?,
        None => Some(native(&directory.join(&named.value), options)?),
    };
    let Some(instance) = instance else { return Ok(None) };
    let made: Vec<Option<MadeServer>> = scenario.made.iter().map(|made| resolver.made(&instance, made)).collect();
    let arrivals: Vec<Option<InstanceArrival>> =
        scenario.arrival.iter().map(|arrival| resolver.at(&instance, &scenario.made, arrival)).collect();
    let until_ns = scenario.until.as_ref().and_then(|text| resolver.duration(text));
    let (Some(made), Some(arrivals)) = (made.into_iter().collect(), arrivals.into_iter().collect()) else {
        return Ok(None);
    };
    Ok(Some(InstanceScenario { instance, arrivals, made, until_ns, warnings: Report::default() }))
}

/// The instance of a description by itself, as it is on the board.
pub(crate) fn native(path: &Path, options: &Options) -> Result<SimulatedInstance, Report> {
    let laid = load_native(path, options)?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = name.strip_suffix(crate::kernel::ENDING).unwrap_or(&name).to_owned();
    let counter_hz = board::built_in_board(board::BUILT_IN.default).map_or(0, |board| board.counter_hz);
    Ok(simulated(name, counter_hz, &laid.bytes, &laid.components, laid.servers))
}

/// Reads what an image boots from. It was written by this tool, so its checksums are right.
fn simulated(
    name: String,
    counter_hz: u64,
    bytes: &[u8],
    components: &[Component],
    facts: Vec<InstanceServer>,
) -> SimulatedInstance {
    let names = components
        .iter()
        .flat_map(|component| component.threads.iter().map(move |thread| format!("{}.{thread}", component.name)));
    let threads = names.collect();
    let (thread_rows, tcaps, servers, bands) = Default::default();
    let mut instance = SimulatedInstance { name, counter_hz, threads, thread_rows, tcaps, servers, bands, facts };
    let is_head = |page: &&[u8]| page.starts_with(&MAGIC.to_le_bytes());
    let pages = bytes.chunks(PAGE).zip((0..bytes.len()).step_by(PAGE));
    let Some((page, offset)) = pages.into_iter().find(|(page, _)| is_head(page)) else { return instance };
    let Ok((head, _)) = Head::read_from_prefix(page) else { return instance };
    let length = usize::try_from(head.tables_bytes).unwrap_or(usize::MAX);
    let written = bytes.get(offset + PAGE..).and_then(|rest| rest.get(..length)).unwrap_or_default();
    // Rows are where they are aligned.
    let mut room = vec![0_u128; written.len().div_ceil(ALIGNMENT)];
    let Some(room) = room.as_mut_bytes().get_mut(..written.len()) else { return instance };
    room.copy_from_slice(written);
    let crc = room.get(12..16).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes);
    if let Ok(tables) = Tables::read(room, |_| crc) {
        instance.thread_rows = tables.threads.to_vec();
        instance.tcaps = tables.tcaps.to_vec();
        instance.servers = tables.servers.to_vec();
        instance.bands = tables.bands.to_vec();
    }
    instance
}

impl Resolver<'_> {
    /// The instance of a partition.
    fn in_system(
        &mut self,
        named: &Located<String>,
        path: &Path,
        options: &Options,
        check: &dyn Check,
    ) -> Result<Option<SimulatedInstance>, Report> {
        let system = crate::load(path, options, check)?.system;
        let instances = system.partitions.iter().filter_map(|partition| match &partition.image {
            GuestImage::Kernel { bytes, components, servers, .. } => Some((partition, bytes, components, servers)),
            _ => None,
        });
        let instances: Vec<_> = instances.collect();
        let found = instances.iter().find(|(partition, ..)| partition.name == named.value);
        let Some((partition, bytes, components, servers)) = found else {
            let known: Vec<&str> = instances.iter().map(|(partition, ..)| partition.name.as_str()).collect();
            let message = format!("no partition `{}` of `{}` has an instance of the kernel", named.value, system.name);
            self.unknown_name(message, named, &known);
            return Ok(None);
        };
        let (name, hz) = (partition.name.clone(), system.board.counter_hz);
        Ok(Some(simulated(name, hz, bytes, components, (*servers).clone())))
    }

    /// Reports a name that is none of the known ones.
    fn unknown_name(&mut self, message: String, name: &Located<String>, known: &[&str]) {
        let diagnostic = Diagnostic::new(Code::UnknownVcpu, message).at(name.span, "");
        self.push(match suggest::closest(&name.value, known.iter().copied()) {
            Some(meant) => diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?")),
            None if known.is_empty() => diagnostic.help("there is none"),
            None => diagnostic.help(format!("there are {}", suggest::list(known))),
        });
    }

    fn made(&mut self, instance: &SimulatedInstance, made: &Located<Made>) -> Option<MadeServer> {
        let bands: Vec<&str> =
            instance.facts.iter().filter(|fact| fact.band.is_some()).map(|one| one.name.as_str()).collect();
        let band = bands.iter().position(|name| *name == made.band.value);
        if band.is_none() {
            self.unknown_name(format!("there is no band `{}`", made.band.value), &made.band, &bands);
        }
        let budget_ns = self.positive(&made.budget, "budget");
        let period_ns = self.positive(&made.period, "period");
        let at_ns = made.at.as_ref().map_or(Some(0), |text| self.duration(text));
        let end_ns = made.end.as_ref().map(|text| self.duration(text));
        let name = made.name.value.clone();
        let end_ns = match end_ns {
            Some(end_ns) => Some(end_ns?),
            None => None,
        };
        Some(MadeServer { name, band: band?, budget_ns: budget_ns?, period_ns: period_ns?, at_ns: at_ns?, end_ns })
    }

    /// What arrives where.
    fn at(
        &mut self,
        instance: &SimulatedInstance,
        made: &[Located<Made>],
        arrival: &Located<Arrival>,
    ) -> Option<InstanceArrival> {
        self.does_not_apply(span(&arrival.vcpu), "vcpu", "`instance`: write `thread` or `server`");
        self.does_not_apply(span(&arrival.kind), "kind", "`instance`: a top half is not simulated");
        let timed = self.timed(arrival);
        let target = match (&arrival.thread, &arrival.server) {
            (Some(thread), None) => self.thread_target(instance, thread),
            (None, Some(server)) => self.server_target(instance, made, server),
            (Some(_), Some(server)) => {
                self.does_not_apply(Some(server.span), "server", "`thread`, which has one");
                None
            }
            (None, None) => self.needed(&arrival.thread, "thread", arrival.span, "an arrival of an instance").and(None),
        };
        let target = target?;
        let server = match target {
            Target::Thread(thread) => instance.server_of(thread),
            Target::Server(server) => Some(server),
            Target::Made(_) => None,
        };
        let count = server.map_or(0, |server| instance.clients(server));
        let client = match &arrival.client {
            Some(written) if count == 0 => {
                self.does_not_apply(Some(written.span), "client", "a server that works for nobody");
                None
            }
            Some(written) => {
                let client = usize::try_from(written.value).ok().filter(|client| *client < count);
                if client.is_none() {
                    let message = format!("the server has no client {}", written.value);
                    let label = format!("it has {count}, numbered from 0 in the order of their periods");
                    self.push(Diagnostic::new(Code::BadClient, message).at(written.span, label));
                }
                client
            }
            // As the kernel does: the one with the longest period.
            None => count.checked_sub(1),
        };
        let mut arrival = timed?;
        arrival.client = client;
        Some(InstanceArrival { target, arrival })
    }

    fn thread_target(&mut self, instance: &SimulatedInstance, thread: &Located<String>) -> Option<Target> {
        let Some(number) = instance.threads.iter().position(|name| *name == thread.value) else {
            let known: Vec<&str> = instance.threads.iter().map(String::as_str).collect();
            self.unknown_name(format!("there is no thread `{}`", thread.value), thread, &known);
            return None;
        };
        if instance.server_of(number).is_none() {
            let message = format!("thread `{}` has no server of its own", thread.value);
            let diagnostic = Diagnostic::new(Code::ServerNotHere, message).at(thread.span, "others give it time");
            self.push(diagnostic.help("let it arrive at the server that gives it time: `server = \"NAME\"`"));
            return None;
        }
        Some(Target::Thread(number))
    }

    fn server_target(
        &mut self,
        instance: &SimulatedInstance,
        made: &[Located<Made>],
        server: &Located<String>,
    ) -> Option<Target> {
        let fixed = || instance.facts.iter().filter(|fact| fact.band.is_none());
        if let Some(fact) = fixed().find(|fact| fact.name == server.value) {
            return Some(Target::Server(fact.number));
        }
        if let Some(place) = made.iter().position(|one| one.name.value == server.value) {
            return Some(Target::Made(place));
        }
        let made = made.iter().map(|one| one.name.value.as_str());
        let known: Vec<&str> = fixed().map(|fact| fact.name.as_str()).chain(made).collect();
        self.unknown_name(format!("there is no server `{}`", server.value), server, &known);
        None
    }
}
