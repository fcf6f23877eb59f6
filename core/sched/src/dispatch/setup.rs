//! Building a core. The host decides the order; what contradicts itself is refused and never repaired.

use super::{Core, Entry, MAX_QUANTA, NO_LEVEL, Stint, Turn, Usage, bit};
use crate::Members;
use crate::budget::Budget;
use crate::cyclic::{CyclicTable, Slot};
use crate::dates::{Dates, NEVER};
use crate::ready::{LEVELS, ReadySet};
use crate::server::{Gate, MAX_SERVERS_PER_VCPU, OnEmpty, PRIORITIES, Payer, Server};

/// Why a core's servers were refused. The number is the server's place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// More servers than the core has room for.
    TooManyServers,
    /// The vCPU's number is too large.
    Vcpu(usize),
    /// The vCPU has more than [`MAX_SERVERS_PER_VCPU`] servers.
    TooManyForVcpu(usize),
    /// A priority is not below [`PRIORITIES`], or a background priority is not less important than the server's own.
    Priority(usize),
    /// The server is more important than the one before it.
    Order(usize),
    /// A server behind an interrupt gate has no bound, so a guest that never acknowledges would keep the core.
    UnlimitedBehindInterrupt(usize),
    /// The donor does not exist, does not pay for itself, or works for clients, to whom its time belongs.
    Donor(usize),
}

const NO_WINDOW: Slot = Slot { window: None, until_ticks: NEVER };
const NO_TURN: Turn = Turn { quantum_ticks: 0, left_ticks: 0, owner: u8::MAX };
const NO_ENTRY: Entry = Entry {
    server: Server::new(0, Budget::Unlimited),
    usage: Usage { budgeted_ticks: 0, background_ticks: 0, longest_overrun_ticks: 0 },
    spenders: 0,
    vcpu: 0,
    payer: 0,
    shares: false,
    level: NO_LEVEL,
    background: NO_LEVEL,
    least_until_ticks: 0,
};

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// A core at `start_ticks` whose vCPUs are all blocked. `servers` names each server's vCPU and is sorted by best
    /// priority, the most important first; the place in the list is the server's number from now on.
    ///
    /// A core is some kilobytes, and this moves it; a caller with a small stack uses [`Self::empty`] and [`Self::configure`].
    ///
    /// # Errors
    ///
    /// When the list contradicts itself ([`SetupError`]).
    #[cfg(not(target_os = "none"))]
    pub fn new(start_ticks: u64, servers: impl IntoIterator<Item = (u8, Server)>) -> Result<Self, SetupError> {
        let mut core = Self::empty();
        core.configure(start_ticks, servers)?;
        Ok(core)
    }

    /// A core without servers, to be configured where it lies.
    #[must_use]
    pub const fn empty() -> Self {
        const { assert!(SERVERS > 0 && SERVERS <= 64 && VCPUS > 0 && VCPUS <= 64, "sets are words of 64 bits") };
        Self {
            now_ticks: 0,
            quiet_until_ticks: NEVER,
            running: Stint::IDLE,
            count: 0,
            awake: 0,
            asking: 0,
            ungated: 0,
            simple: 0,
            foreseeable: 0,
            least: 0,
            entering: 0,
            interrupt_gated: 0,
            window_gated: 0,
            quanta: 0,
            idle_ticks: 0,
            exhausted: 0,
            window: NO_WINDOW,
            ready: ReadySet::new(),
            dates: Dates::new(),
            servers_of: [0; VCPUS],
            pending: [0; VCPUS],
            above: [0; LEVELS + 1],
            turn_of: [0; LEVELS],
            turns: [NO_TURN; MAX_QUANTA],
            table: None,
            entries: [const { NO_ENTRY }; SERVERS],
        }
    }

    /// Gives an empty core its servers, as [`Self::new`] does; its accounts begin at `start_ticks`. After an error the core is not to
    /// be used.
    ///
    /// # Errors
    ///
    /// When the list contradicts itself ([`SetupError`]).
    pub fn configure(
        &mut self,
        start_ticks: u64,
        servers: impl IntoIterator<Item = (u8, Server)>,
    ) -> Result<(), SetupError> {
        self.now_ticks = start_ticks;
        for (vcpu, server) in servers {
            self.add(vcpu, server)?;
        }
        self.check_donors()?;
        self.link_donors();
        self.find_exclusive_levels();
        self.find_simple_servers();
        Ok(())
    }

    fn add(&mut self, vcpu: u8, server: Server) -> Result<(), SetupError> {
        let number = usize::from(self.count);
        if number >= SERVERS {
            return Err(SetupError::TooManyServers);
        }
        let Some(servers_of) = self.servers_of.get_mut(usize::from(vcpu)) else {
            return Err(SetupError::Vcpu(number));
        };
        let best = server.best_priority();
        let lowest = server.lowest_priority();
        let (background, fits) = match server.on_empty {
            OnEmpty::Background(level) => (level, level > lowest && level < PRIORITIES),
            OnEmpty::Stop | OnEmpty::Notify => (NO_LEVEL, true),
        };
        if lowest >= PRIORITIES || !fits {
            return Err(SetupError::Priority(number));
        }
        if self.entries.iter().take(number).any(|entry| entry.server.best_priority() > best) {
            return Err(SetupError::Order(number));
        }
        if servers_of.count_ones() as usize >= MAX_SERVERS_PER_VCPU {
            return Err(SetupError::TooManyForVcpu(number));
        }
        *servers_of |= bit(self.count);
        for above in self.above.iter_mut().skip(usize::from(best).saturating_add(1)) {
            *above = above.saturating_add(1);
        }
        match server.gate {
            Gate::InterruptPending(_) => self.interrupt_gated |= bit(self.count),
            Gate::Window(_) => self.window_gated |= bit(self.count),
            Gate::Always => self.ungated |= bit(self.count),
            Gate::Never => {}
        }
        let payer = match server.payer {
            Payer::Own => self.count,
            Payer::Donor(donor) => donor,
        };
        let level = server.current_priority();
        if let Some(place) = self.entries.get_mut(number) {
            *place = Entry { server, vcpu, payer, level, background, ..NO_ENTRY };
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Says at each donor who spends its budget.
    fn link_donors(&mut self) {
        for slot in 0..self.count {
            let payer = self.entry(slot).map_or(slot, |entry| entry.payer);
            if let Some(donor) = self.entry_mut(payer) {
                donor.spenders |= bit(slot);
                donor.shares |= payer != slot;
            }
            if let Some(entry) = self.entry_mut(slot) {
                entry.shares |= payer != slot;
            }
        }
    }

    /// Finds the priorities that one server alone can ever have.
    fn find_exclusive_levels(&mut self) {
        let mut taken = 0;
        let mut shared = 0;
        for entry in self.entries.iter().take(usize::from(self.count)) {
            let levels = match entry.server.budget.clients() {
                Some(rule) => rule.priorities().fold(0, |set, level| set | bit(level)),
                None => bit(entry.level),
            };
            let background = if entry.background == NO_LEVEL { 0 } else { bit(entry.background) };
            shared |= taken & (levels | background);
            taken |= levels | background;
        }
        for slot in 0..self.count {
            let Some(entry) = self.entry(slot) else {
                continue;
            };
            let (level, background) = (entry.level, entry.background);
            let has_clients = entry.server.budget.clients().is_some();
            if !has_clients && shared & bit(level) == 0 {
                self.ready.set_exclusive(level, slot);
            }
            if background != NO_LEVEL && shared & bit(background) == 0 {
                self.ready.set_exclusive(background, slot);
            }
        }
    }

    fn find_simple_servers(&mut self) {
        (self.foreseeable, self.least) = (0, 0);
        for slot in 0..self.count {
            let turns = |entry: &Entry| {
                self.takes_turns(entry.level) || entry.background != NO_LEVEL && self.takes_turns(entry.background)
            };
            let is_simple = |entry: &Entry| !entry.shares && entry.server.budget.is_plain() && !turns(entry);
            if self.entry(slot).is_some_and(is_simple) {
                self.foreseeable |= bit(slot);
            }
            if self.entry(slot).is_some_and(|entry| entry.server.least_charge_ticks > 0) {
                self.least |= bit(slot);
            }
        }
        self.simple = self.foreseeable & !self.least;
    }

    /// A donor pays for itself and neither works for clients nor is, for an interrupt gate, unlimited.
    fn check_donors(&self) -> Result<(), SetupError> {
        for (number, entry) in self.entries.iter().take(usize::from(self.count)).enumerate() {
            let payer = match entry.server.payer {
                Payer::Own => Some(&entry.server),
                Payer::Donor(donor) => {
                    self.server(donor).filter(|server| server.payer == Payer::Own && server.budget.clients().is_none())
                }
            };
            let Some(payer) = payer else {
                return Err(SetupError::Donor(number));
            };
            let gated = matches!(entry.server.gate, Gate::InterruptPending(_));
            if gated && matches!(payer.budget, Budget::Unlimited) {
                return Err(SetupError::UnlimitedBehindInterrupt(number));
            }
        }
        Ok(())
    }

    /// Lets the servers of one priority take turns. 0 ends that: the first one then runs until it blocks or is empty.
    /// Returns false, and changes nothing, when [`MAX_QUANTA`] other priorities have a quantum or there is no such priority.
    pub fn set_quantum(&mut self, priority: u8, quantum_ticks: u64) -> bool {
        if priority >= PRIORITIES {
            return false;
        }
        if quantum_ticks == 0 {
            self.quanta &= !bit(priority);
            self.find_simple_servers();
            return true;
        }
        let in_use = |place: u8| Members(self.quanta & !bit(priority)).any(|level| self.turn_at(level) == place);
        let Some(free) = (0..MAX_QUANTA as u8).find(|place| !in_use(*place)) else {
            return false;
        };
        if let (Some(turn), Some(place)) =
            (self.turns.get_mut(usize::from(free)), self.turn_of.get_mut(usize::from(priority)))
        {
            *turn = Turn { quantum_ticks, left_ticks: quantum_ticks, owner: u8::MAX };
            *place = free;
            self.quanta |= bit(priority);
        }
        self.find_simple_servers();
        true
    }

    fn turn_at(&self, level: u8) -> u8 {
        self.turn_of.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// Gives a sporadic server another budget ([`crate::budget::Sporadic::reconfigure`]). Returns `None` when the server is not
    /// sporadic.
    ///
    /// # Errors
    ///
    /// When the parameters contradict each other; nothing is changed then.
    #[cfg(not(target_os = "none"))]
    pub fn reconfigure(
        &mut self,
        now: u64,
        slot: u8,
        parameters: crate::budget::SporadicParameters,
    ) -> Option<Result<(), crate::budget::BudgetError>> {
        self.advance(now);
        let changed = self.entry_mut(slot)?.server.budget.reconfigure(parameters, now)?;
        if changed.is_ok() {
            self.place_spenders(slot, now);
        }
        Some(changed)
    }

    /// Puts the core under a time table. Servers behind window gates run in their windows only; the others as before.
    ///
    /// It takes effect at once. A table that replaces another one is put in at the end of a major frame
    /// ([`CyclicTable::frame_end_ticks`]), which is then its origin: no window is cut.
    pub fn set_table(&mut self, now: u64, table: CyclicTable) {
        self.advance(now);
        self.table = Some(table);
        self.enter_window(now);
    }
}
