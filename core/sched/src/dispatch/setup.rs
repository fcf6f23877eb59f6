//! Building a core. The host decides the order; what contradicts itself is refused and never repaired.

use super::{Core, Entry, Turn, Usage, Vcpu};
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
    /// The donor does not exist, does not pay for itself, or is a PIBS server, whose time belongs to its clients.
    Donor(usize),
}

const NO_WINDOW: Slot = Slot { window: None, until_ticks: NEVER };
const NO_TURN: Turn = Turn { quantum_ticks: 0, left_ticks: 0, owner: u8::MAX };

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// A core at `start_ticks` whose vCPUs are all blocked. `servers` names each server's vCPU and is sorted by best
    /// priority, the most important first; the place in the list is the server's number from now on.
    ///
    /// # Errors
    ///
    /// When the list contradicts itself ([`SetupError`]).
    pub fn new(start_ticks: u64, servers: impl IntoIterator<Item = (u8, Server)>) -> Result<Self, SetupError> {
        let mut core = Self {
            entries: [const { None }; SERVERS],
            count: 0,
            vcpus: [Vcpu::default(); VCPUS],
            above: [0; LEVELS + 1],
            turns: [NO_TURN; LEVELS],
            ready: ReadySet::new(),
            dates: Dates::new(),
            table: None,
            window: NO_WINDOW,
            running: None,
            now_ticks: start_ticks,
            idle_ticks: 0,
            overruns: 0,
        };
        for (vcpu, server) in servers {
            core.add(vcpu, server)?;
        }
        core.check_donors()?;
        Ok(core)
    }

    fn add(&mut self, vcpu: u8, server: Server) -> Result<(), SetupError> {
        let number = self.count;
        if number >= SERVERS || number >= u64::BITS as usize {
            return Err(SetupError::TooManyServers);
        }
        if usize::from(vcpu) >= VCPUS {
            return Err(SetupError::Vcpu(number));
        }
        let best = server.best_priority();
        let lowest = server.lowest_priority();
        let background_fits = match server.on_empty {
            OnEmpty::Background(level) => level > lowest && level < PRIORITIES,
            OnEmpty::Stop | OnEmpty::Notify => true,
        };
        if lowest >= PRIORITIES || !background_fits {
            return Err(SetupError::Priority(number));
        }
        let entries = self.entries.iter().flatten();
        if entries.clone().any(|entry| entry.server.best_priority() > best) {
            return Err(SetupError::Order(number));
        }
        if entries.filter(|entry| entry.vcpu == vcpu).count() >= MAX_SERVERS_PER_VCPU {
            return Err(SetupError::TooManyForVcpu(number));
        }
        for above in self.above.iter_mut().skip(usize::from(best).saturating_add(1)) {
            *above = above.saturating_add(1);
        }
        if let Some(place) = self.entries.get_mut(number) {
            *place = Some(Entry { server, vcpu, asking: false, usage: Usage::default() });
        }
        self.count = number.saturating_add(1);
        Ok(())
    }

    /// A donor pays for itself and is neither a PIBS server nor, for an interrupt gate, unlimited.
    fn check_donors(&self) -> Result<(), SetupError> {
        for (number, entry) in self.entries.iter().flatten().enumerate() {
            let payer = match entry.server.payer {
                Payer::Own => Some(&entry.server),
                Payer::Donor(donor) => self
                    .server(donor)
                    .filter(|server| server.payer == Payer::Own && !matches!(server.budget, Budget::Pibs(_))),
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
    pub fn set_quantum(&mut self, priority: u8, quantum_ticks: u64) {
        if let Some(turn) = self.turns.get_mut(usize::from(priority)) {
            *turn = Turn { quantum_ticks, left_ticks: quantum_ticks, owner: u8::MAX };
        }
    }

    /// Puts the core under a time table. Servers behind window gates run in their windows only; the others as before.
    pub fn set_table(&mut self, now: u64, table: CyclicTable) {
        self.advance(now);
        self.table = Some(table);
        self.enter_window(now);
    }
}
