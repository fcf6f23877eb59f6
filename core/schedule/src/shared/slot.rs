//! One vCPU of a shared core: the states that it can be in, and every step from one to another.
//!
//! | state | says | changes |
//! | --- | --- | --- |
//! | [`Guest`] | what its guest does | with WFI, and with the interrupts that wake it |
//! | [`Turn`] | what the policy was told of it, and how it waits for the core | with reports and decisions |
//! | [`Role`] | what its interrupts do beside waking it, and what they have opened | with its interrupts |
//!
//! Guest and policy are states apart, because every pair of them happens. A sleeper of which the policy was told has
//! work at EL2. A guest that could go on, of which the policy was told nothing, is stopped, or woke without the policy
//! being asked first ([`super::prepared`]). What cannot happen has no value: work at EL2 that the policy was not told
//! of, a date of waiting for one that has nothing to do, a gate of a vCPU without one, a used-up budget behind a gate
//! that is closed.
//!
//! Rejected: [`Option`] for the dates of timers. What is asked of them is which is the earliest, and [`NEVER`] is later
//! than all others.

use super::{INTIDS, NEVER};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::PartitionPlan;
use bulkhead_abi::schedule::SlotUsage;
use bulkhead_sched::dispatch::Prospect;
use core::mem::replace;

#[cfg(test)]
mod tests;

/// Interrupts that wait at EL2 for a vCPU that is not loaded. One is the usual case, and needs no search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// None.
    #[default]
    Nothing,
    /// This one.
    One(u32),
    /// Those in [`Slot::waiting`].
    Several,
}

/// What a guest does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Guest {
    /// It computes, or would if it had the core; or its partition is stopped.
    #[default]
    Runs,
    /// It waits for an interrupt.
    Sleeps,
    /// It stands at EL2 because its partition does: no interrupt wakes it.
    Stands,
}

/// What a vCPU that has something to do has had of the core.
// With a tag of a byte, so that the flag beside it in [`Slot::told`] says in one byte what every decision asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Turn {
    /// Nothing since it woke; it waits since this date.
    Woken(u64),
    /// It was stopped, and waits since this date.
    Waits(u64),
    /// It has the core.
    Runs,
}

/// What the interrupts of a vCPU do beside waking it.
// With a tag of its own, and after it when a gate closes: paths of asserted length ask for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    /// Nothing.
    #[default]
    Plain,
    /// Those of its timers end the turns of others (round robin).
    Preempts,
    /// They open a gate.
    Gated(Closes, Gate),
    /// They are requests to its PIBS server, and open the gate of a server of it that has one. That gate closes when
    /// the requests are done.
    Serves(Option<Closes>, Clients),
}

/// When an interrupt gate closes. Of a vCPU that has both kinds, all close at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closes {
    /// When the budget behind it is used up or the guest sleeps (SG-45).
    Late,
    /// When the guest has ended its interrupt: voluntary return.
    AtEnd,
}

/// An interrupt gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// No interrupt has opened it.
    Closed,
    /// One has.
    Open,
    /// One has, and the budget behind it was used up since.
    Spent,
}

/// The clients of a PIBS server, in sets with bit k + 1 for client k.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clients {
    /// Number of the server.
    pub(super) server: u8,
    /// The client of whatever no client's doorbell asked for: the one with the longest period.
    pub(super) default: u8,
    /// Those whose doorbells rang and of whom the server was not told yet.
    pub(super) asked: u8,
    /// Those whose requests the server was told of and that wait or are served.
    pub(super) served: u8,
}

impl Clients {
    /// Returns the clients whose requests come with an interrupt, or are done.
    const fn note_pending(&mut self, pending: bool, ready: bool) -> u8 {
        // A request is done when its guest sleeps, which may be long after it ended the interrupt. Nor does one begin
        // while its guest may not run: it wakes the server, which would be chosen and have nobody to run.
        let changed = match pending {
            _ if pending != ready => 0,
            false => self.served,
            // What no client's doorbell says is the default client's.
            true if self.asked | self.served == 0 => self.default,
            true => self.asked & !self.served,
        };
        if changed != 0 {
            self.asked = 0;
        }
        self.served ^= changed;
        changed
    }
}

/// One vCPU of the core.
#[derive(Debug, Default)]
pub struct Slot<Registers> {
    /// Its registers while they are not in the machine.
    pub registers: Registers,
    /// Interrupts acknowledged for it while it was not loaded.
    pub held: Held,
    /// Their INTIDs as a bitmap, when there are several.
    pub waiting: [u64; INTIDS / 64],
    guest: Guest,
    /// An interrupt that may not pre-empt waits for a moment when nobody has anything to do. The guest may have been
    /// woken by another one meanwhile: then it is woken once more for nothing.
    deferred: bool,
    /// What the policy was told: nothing, or that it has something to do. Then whether that begins with work at EL2,
    /// which is a manager's request, console input or a date that has passed.
    told: Option<(Turn, bool)>,
    /// By its plan; a gate or requests in it open and close.
    pub(super) role: Role,
    /// When a timer of its guest raises its interrupt, while it is not loaded and that matters; else [`NEVER`].
    pub timer_ticks: u64,
    /// When the monitor has something to do for it: watchdog, end of a back-off.
    pub monitor_ticks: u64,
    /// What its timers do when another vCPU runs.
    pub timer_route: u32,
    /// What it has seen.
    pub usage: SlotUsage,
    /// Its partition.
    pub partition: Option<&'static PartitionPlan>,
    /// What it runs with when an interrupt wakes it; unknown also when something else has to be done then.
    pub(super) prospect: Prospect,
    /// Sum of the managers' requests to it that it was asked to serve.
    pub requests_seen: u64,
    /// Time in which its guest could have gone on and had not the core, since its partition started.
    pub stolen_ticks: u64,
    /// Where its guest reads that ([`crate::stolen_time`]).
    pub stolen_time: PhysicalAddress,
}

impl<Registers: Default> Slot<Registers> {
    pub(super) fn new() -> Self {
        Self { timer_ticks: NEVER, monitor_ticks: NEVER, ..Self::default() }
    }
}

impl<Registers> Slot<Registers> {
    /// States whether its guest waits for an interrupt.
    pub fn is_asleep(&self) -> bool {
        self.guest == Guest::Sleeps
    }

    /// Its guest waits for an interrupt from now on.
    pub(super) const fn fall_asleep(&mut self) {
        self.guest = Guest::Sleeps;
    }

    /// An interrupt wakes its guest. Returns whether it slept.
    pub(super) fn rouse(&mut self) -> bool {
        let slept = self.is_asleep();
        if slept {
            self.guest = Guest::Runs;
        }
        slept
    }

    /// States whether its guest stands.
    pub fn stands(&self) -> bool {
        self.guest == Guest::Stands
    }

    /// Its guest stands from now on.
    pub const fn stand(&mut self) {
        (self.guest, self.deferred, self.prospect) = (Guest::Stands, false, Prospect::UNKNOWN);
    }

    /// It has nothing to do, and there is nothing at EL2 for it either. Returns whether the policy is to be told.
    pub(super) const fn give_up(&mut self) -> bool {
        self.told.take().is_some()
    }

    /// Its guest stands no longer. One that slept is awake: a wait for an interrupt may end without one (DDI 0487, D1.7.2).
    pub fn go_on(&mut self) {
        if self.stands() {
            self.guest = Guest::Runs;
        }
    }

    /// An interrupt that may not pre-empt has come, which matters to a sleeper.
    pub(super) fn defer(&mut self) {
        self.deferred |= self.is_asleep();
    }

    /// Lets deferred interrupts wake its guest. Returns whether there were any: once, because one that waits for its
    /// budget is ready already. Asked for again and again, it would keep the core from every other interrupt until
    /// then.
    pub(super) fn release(&mut self) -> bool {
        replace(&mut self.deferred, false).then(|| self.rouse()).is_some()
    }

    /// Its guest is started from nothing: no interrupt of it waits any longer.
    pub fn restart(&mut self) {
        (self.guest, self.deferred) = (Guest::Runs, false);
        (self.held, self.waiting) = Default::default();
    }

    /// Keeps an interrupt that is acknowledged while it is not loaded.
    #[inline(always)]
    pub fn hold(&mut self, intid: u32) {
        self.prospect = Prospect::UNKNOWN;
        self.usage.interrupts_held = self.usage.interrupts_held.wrapping_add(1);
        if self.held == Held::Nothing {
            self.held = Held::One(intid);
            return;
        }
        if let Held::One(first) = replace(&mut self.held, Held::Several) {
            self.note_waiting(first);
        }
        self.note_waiting(intid);
    }

    /// Something is posted for it while it is not loaded: its loading is to take that.
    pub fn hold_posts(&mut self) {
        self.prospect = Prospect::UNKNOWN;
        if let Held::One(first) = replace(&mut self.held, Held::Several) {
            self.note_waiting(first);
        }
    }

    fn note_waiting(&mut self, intid: u32) {
        if let Some(word) = self.waiting.get_mut((intid >> 6) as usize) {
            *word |= 1u64 << (intid & 63);
        }
    }

    /// States whether an interrupt will do nothing but wake its guest, which waits for one.
    pub(super) fn only_sleeps(&self) -> bool {
        self.is_asleep() && !self.has_work() && !self.is_watched() && self.held == Held::Nothing
    }

    /// States whether the policy knows that it has something to do.
    pub const fn is_ready(&self) -> bool {
        self.told.is_some()
    }

    /// States whether there is work at EL2 before its guest continues.
    pub const fn has_work(&self) -> bool {
        matches!(self.told, Some((_, true)))
    }

    /// It has something to do. Returns whether the policy is to be told.
    pub(super) fn set_ready(&mut self, now: u64) -> bool {
        if self.is_ready() {
            return false;
        }
        self.told = Some((Turn::Woken(now), false));
        // Woken for the monitor's work alone its guest sleeps on, and what was deferred still waits for an idle moment.
        self.deferred &= self.is_asleep();
        self.prospect = Prospect::UNKNOWN;
        self.usage.wakes = self.usage.wakes.wrapping_add(1);
        true
    }

    /// The policy is told of a wake-up afterwards, and of no wait.
    pub(super) fn book_wake(&mut self) {
        self.told.get_or_insert((Turn::Runs, false));
    }

    /// It has nothing to do, unless there is work at EL2. Returns whether the policy is to be told.
    pub(super) fn set_idle(&mut self) -> bool {
        self.told.take_if(|(_, work)| !*work).is_some()
    }

    /// There is work at EL2 for it, which is ready.
    pub(super) const fn give_work(&mut self) {
        if let Some((_, work)) = &mut self.told {
            *work = true;
        }
    }

    /// Takes what there is to do at EL2, if anything.
    pub(super) fn take_work(&mut self) -> bool {
        self.told.as_mut().is_some_and(|(_, work)| replace(work, false))
    }

    /// Another one has the core from now on.
    pub(super) const fn stop(&mut self, now: u64) {
        match &mut self.told {
            Some((Turn::Woken(since), _)) => *since = now,
            Some((turn, _)) => *turn = Turn::Waits(now),
            None => {}
        }
    }

    /// It has the core from now on. Returns whether it was woken for it; `robbed` sees what was stolen from it, when that has become more.
    // With one caller in each decision that changes who runs.
    #[inline(always)]
    pub(super) fn start(&mut self, now: u64, robbed: impl FnOnce(PhysicalAddress, u64)) -> bool {
        let Some((turn, _)) = &mut self.told else { return false };
        let (since, woken) = match replace(turn, Turn::Runs) {
            Turn::Woken(since) => (since, true),
            Turn::Waits(since) => (since, false),
            Turn::Runs => return false,
        };
        let (waited, usage) = (now.saturating_sub(since), &mut self.usage);
        usage.longest_blackout_ticks = usage.longest_blackout_ticks.max(waited);
        if woken {
            usage.longest_wait_ticks = usage.longest_wait_ticks.max(waited);
        }
        // Of one that was woken for work at EL2 alone nothing is stolen: its guest sleeps on.
        if waited != 0 && self.guest == Guest::Runs {
            self.stolen_ticks = self.stolen_ticks.wrapping_add(waited);
            robbed(self.stolen_time, self.stolen_ticks);
        }
        woken
    }

    const fn closes(&self) -> Option<Closes> {
        match self.role {
            Role::Gated(closes, _) => Some(closes),
            Role::Serves(closes, _) => closes,
            Role::Plain | Role::Preempts => None,
        }
    }

    /// States whether the policy has to be told of its pending interrupts.
    pub const fn is_watched(&self) -> bool {
        matches!(self.role, Role::Gated(..) | Role::Serves(..))
    }

    /// States whether its timers' interrupts end the turns of others.
    pub const fn preempts(&self) -> bool {
        matches!(self.role, Role::Preempts)
    }

    /// States whether a gate of it closes when its guest ends its interrupt.
    pub fn closes_at_end(&self) -> bool {
        self.closes() == Some(Closes::AtEnd)
    }

    /// States whether it depends on the doorbell at what priority its PIBS server runs next.
    pub const fn has_clients(&self) -> bool {
        matches!(self.role, Role::Serves(_, clients) if clients.default > 2)
    }

    /// The doorbells of these clients rang.
    pub(super) const fn ask_for(&mut self, clients: u8) {
        if let Role::Serves(_, known) = &mut self.role {
            known.asked |= clients;
        }
    }

    /// Interrupts of it are pending, or none. Returns what the policy is to be told: whether its gate opens or closes,
    /// the number of its PIBS server, and the clients whose requests come or are done.
    pub(super) fn note_pending(&mut self, pending: bool) -> (bool, u8, u8) {
        let ready = self.is_ready();
        match &mut self.role {
            Role::Plain | Role::Preempts => (false, 0, 0),
            Role::Gated(closes, gate) => {
                let next = match *gate {
                    Gate::Closed if pending => Gate::Open,
                    Gate::Open if !pending && ready && *closes == Closes::Late => Gate::Open,
                    _ if !pending => Gate::Closed,
                    same => same,
                };
                let before = replace(gate, next);
                ((before == Gate::Closed) != (next == Gate::Closed), 0, 0)
            }
            Role::Serves(closes, clients) => {
                let changed = clients.note_pending(pending, ready);
                (changed != 0 && closes.is_some(), clients.server, changed)
            }
        }
    }

    /// The budget behind its gate is used up.
    pub(super) const fn spend(&mut self) {
        if let Role::Gated(_, gate @ Gate::Open) = &mut self.role {
            *gate = Gate::Spent;
        }
    }

    /// States whether the date of its timer matters while it is not loaded: it sleeps, or the interrupt opens a gate or
    /// ends a turn.
    #[inline(always)]
    pub const fn watches_timer(&self, asleep: bool) -> bool {
        asleep || self.preempts() || self.closes().is_some()
    }

    /// States whether a date that has passed has acted already, because it ended a turn or opened a gate. Two that
    /// watched theirs would take turns for ever, and an open gate would be opened again, at the cost of the one that runs
    /// next.
    pub fn has_acted(&self) -> bool {
        match self.role {
            Role::Plain => false,
            Role::Preempts => true,
            Role::Gated(_, gate) => gate != Gate::Closed,
            Role::Serves(_, clients) => clients.served != 0,
        }
    }
}
