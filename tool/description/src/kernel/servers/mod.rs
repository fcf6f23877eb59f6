//! Servers and bands: in which order they come, their numbers for the kernel, and what is certain of their time (`kernel.md` 3; QV-20, QV-21, QV-22, QV-32).
//!
//! Shorter periods come first, equal ones by their place in the file, servers without a limit last; or smaller priorities, where the file has them. A server that
//! works for others is one level in front of the client that it works for, so that its work is done before the client continues.

mod bands;
mod clients;
mod doorbells;
mod read;
mod times;
mod top_halves;

pub(crate) use times::most_ns;
pub use times::{EXCHANGE, PASSAGE, TOP_HALF};

use super::file::{KernelServer, ServerKind};
use super::resolve::Resolver;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_analysis::core_model::Rule;
use bulkhead_kernel_abi::boot::{BandRow, ServerRow};
use bulkhead_kernel_abi::{MAX_SERVERS, NONE};
use bulkhead_plan::model::InstanceServer;
use bulkhead_plan::ticks;
use bulkhead_words::{Rule as Word, ServerFlag};

/// No level without budget.
const NO_BACKGROUND: u8 = 255;
/// What is added to a level for work without budget, and how many levels there are with one.
const BACKGROUND: u8 = 64;

/// A server that was read.
#[derive(Clone, Debug)]
pub(super) struct Line {
    name: String,
    /// Where its budget is written, or the whole of it.
    span: Span,
    /// How its time is spent, in ticks; of one that works for others without its clients until the levels are known.
    rule: Rule,
    word: Word,
    has_background: bool,
    quantum_ticks: u64,
    smallest_ticks: u64,
    priority: Option<u64>,
    /// Servers that can be made in it, if it is a band.
    slots: Option<u16>,
    /// Of a band: the longest period of a server in it, and whether the published test decides as well.
    longest_ticks: u64,
    has_published_test: bool,
    /// Number of the scheduler that holds it.
    holder: Option<usize>,
    /// Names of those for whom it works.
    clients: Vec<String>,
    /// Level with budget; of one that works for others the best.
    level: u8,
    /// Number for the kernel.
    number: u16,
}

/// The servers of an instance, the most important one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Servers {
    lines: Vec<Line>,
    /// What reports say of them.
    pub(super) facts: Vec<InstanceServer>,
}

impl Line {
    /// By what those without clients are put into their order; those without a limit come last.
    fn order(&self) -> (u64, u64) {
        let period_ticks = self.rule.budget().map_or(u64::MAX, |(_, period_ticks)| period_ticks);
        (self.priority.unwrap_or(if self.rule == Rule::Unlimited { u64::MAX } else { 0 }), period_ticks)
    }

    /// The row of one server.
    fn row(&self, clients: u64) -> ServerRow {
        let share = self.rule.pibs().map(|pibs| (pibs.numerator, pibs.denominator));
        let (budget_ticks, period_ticks) = share.or(self.rule.budget()).unwrap_or_default();
        let chunks = self.rule.chunks().unwrap_or(0);
        let is_dispatched = ServerFlag::DispatchAnchor.bits_if(self.rule.is_dated_by_its_use());
        let flags = if chunks == 0 { 0 } else { is_dispatched | ServerFlag::LagClamp.number() };
        ServerRow {
            rule: self.word.number(),
            flags,
            budget_ticks,
            period_ticks,
            smallest_chunk_ticks: self.smallest_ticks,
            quantum_ticks: self.quantum_ticks,
            clients,
            chunks: u16::try_from(chunks).unwrap_or(0),
            level: self.level,
            background: if self.has_background { BACKGROUND.saturating_add(self.level) } else { NO_BACKGROUND },
            holder: self.holder.and_then(|holder| u16::try_from(holder).ok()).unwrap_or(NONE),
            band: NONE,
            ..ServerRow::default()
        }
    }
}

impl Servers {
    /// The number of a server.
    pub(super) fn number(&self, name: &str) -> Option<u16> {
        self.lines.iter().find(|line| line.name == name && line.slots.is_none()).map(|line| line.number)
    }

    /// The clients of a server as a set of numbers, and the one that it works for when nobody says for whom: the one with the longest period.
    pub(super) fn clients(&self, number: u16) -> (u64, u16) {
        let numbers = self.lines.iter().find(|line| line.number == number).into_iter().flat_map(|line| &line.clients);
        let numbers: Vec<u16> = numbers.filter_map(|client| self.number(client)).collect();
        (numbers.iter().fold(0, |set, number| set | 1 << number), numbers.last().copied().unwrap_or(NONE))
    }

    /// How many numbers they have, those of bands included.
    pub(super) fn count(&self) -> u16 {
        self.lines.iter().map(|line| line.slots.unwrap_or(1)).sum()
    }

    /// Their rows; a band has one for each server that can be made in it.
    pub(super) fn rows(&self) -> Vec<ServerRow> {
        let mut bands = 0_u16;
        let rows = |line: &Line| {
            let row = line.row(self.clients(line.number).0);
            let Some(slots) = line.slots else { return vec![row] };
            bands += 1;
            // What they have is said when they are made.
            let (budget_ticks, period_ticks) = (0, 0);
            let band = bands - 1;
            vec![ServerRow { band, budget_ticks, period_ticks, smallest_chunk_ticks: 0, ..row }; slots.into()]
        };
        self.lines.iter().flat_map(rows).collect()
    }

    /// Their names, as many as rows: each server that can be made in a band has that of the band.
    pub(super) fn names(&self) -> Vec<String> {
        let names = |line: &Line| vec![line.name.clone(); line.slots.unwrap_or(1).into()];
        self.lines.iter().flat_map(names).collect()
    }

    /// Rows of the bands, the most important one first.
    pub(super) fn bands(&self) -> Vec<BandRow> {
        let row = |line: &Line| {
            let (slots, (budget_ticks, shortest_period_ticks)) = (line.slots?, line.rule.budget()?);
            Some(BandRow {
                shortest_period_ticks,
                longest_period_ticks: line.longest_ticks,
                budget_ticks,
                smallest_budget_ticks: line.smallest_ticks,
                first_server: line.number,
                servers: slots,
                admission: line.has_published_test.into(),
                reserved: 0,
            })
        };
        self.lines.iter().filter_map(row).collect()
    }

    /// The number of a band.
    pub(super) fn band(&self, name: &str) -> Option<u16> {
        let mut bands = self.lines.iter().filter(|line| line.slots.is_some());
        bands.position(|line| line.name == name).and_then(|number| u16::try_from(number).ok())
    }
}

impl Resolver<'_> {
    /// Reads the servers, puts them into their order, and computes what is certain of their time.
    pub(super) fn servers(&mut self) -> Servers {
        let file = self.file;
        let mut lines: Vec<Line> = Vec::new();
        for server in &file.server {
            self.servers_later(server);
            lines.extend(self.server(server));
        }
        for band in &file.band {
            lines.extend(self.band(band));
        }
        let is_whole = lines.len() == file.server.len() + file.band.len();
        self.priorities();
        let (io, mut lines): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| line.word.serves_clients());
        // Stable: equals stay in the order of the file.
        lines.sort_by_key(Line::order);
        let (Some(io), true) = (self.clients(io, &lines), is_whole) else {
            return Servers { lines, facts: Vec::new() };
        };
        number(&mut lines, io);
        if let Some(line) = lines.iter().find(|line| {
            usize::from(line.number) + usize::from(line.slots.unwrap_or(1)) > MAX_SERVERS || line.level >= BACKGROUND
        }) {
            let message = format!("an instance has at most {MAX_SERVERS} servers and {BACKGROUND} levels");
            let diagnostic =
                Diagnostic::new(Code::TooManyObjects, message).at(line.span, "there is no room for this one");
            self.push(
                diagnostic.note("each client of an `io` server has a level more, for the work that is done for it"),
            );
            return Servers { lines, facts: Vec::new() };
        }
        let facts = self.times(&lines);
        Servers { lines, facts }
    }

    /// Either all that have a budget have a priority, or none.
    fn priorities(&mut self) {
        let file = self.file;
        let is_main = |server: &&crate::Located<KernelServer>| {
            server.kind.as_ref().is_none_or(|kind| kind.value == ServerKind::Main)
        };
        let of_bands = file.band.iter().map(|band| (&band.name, band.priority.as_ref()));
        let of_servers = file.server.iter().filter(is_main).map(|server| (&server.name, server.priority.as_ref()));
        let with = of_servers.chain(of_bands.clone()).find_map(|(_, priority)| priority);
        let budgeted = file.server.iter().filter(|server| server.budget.is_some());
        let budgeted = budgeted.filter(is_main).map(|server| (&server.name, server.priority.as_ref()));
        let without = budgeted.chain(of_bands).find(|(_, priority)| priority.is_none()).map(|(name, _)| name);
        if let (Some(with), Some(without)) = (with, without) {
            let message = format!("`{}` has no priority, and another one has", without.value);
            let diagnostic = Diagnostic::new(Code::KeyNeeded, message).at(without.span, "how important is it?");
            self.push(diagnostic.at(with.span, "with this one, priorities decide").help(
                "give a priority to each server with a budget and each band, or to none: then those with shorter periods come first",
            ));
        }
    }
}

/// Gives levels and numbers, and puts those that work for others in front of their best clients.
fn number(lines: &mut Vec<Line>, io: Vec<Line>) {
    let mut level = 0_u8;
    for line in lines.iter_mut() {
        // The level in front of a client is that of work which is done for it.
        let is_client = io.iter().any(|one| line.slots.is_none() && one.clients.contains(&line.name));
        line.level = level.saturating_add(is_client.into());
        level = line.level.saturating_add(1);
    }
    for mut one in io {
        let known = |name: &String| lines.iter().find(|line| line.name == *name && line.slots.is_none());
        let clients = one.clients.iter().filter_map(known).map(|client| bulkhead_analysis::core_model::Client {
            period_ticks: client.rule.budget().unwrap_or_default().1,
            priority: client.level.saturating_sub(1),
        });
        let clients: Vec<_> = clients.collect();
        one.level = clients.iter().map(|client| client.priority).min().unwrap_or(0);
        one.rule.set_clients(clients);
        let place = lines.iter().position(|line| line.level > one.level).unwrap_or(lines.len());
        lines.insert(place, one);
    }
    let mut number = 0_u16;
    for line in lines {
        line.number = number;
        number = number.saturating_add(line.slots.unwrap_or(1));
    }
}

/// Ticks of a time that may not be less.
fn at_least(time_ns: u64, counter_hz: u64) -> u64 {
    ticks::round_up(time_ns, counter_hz)
}
