//! Time of an instance: its servers on `core/sched`, the dates of who sleeps, and the accounts of both (`kernel.md` 3, 6 and 10; QV-20 to QV-24, QV-41).
//!
//! A row of the boot tables is a server of the same number. Time runs from report to report: an entry of the kernel charges who ran up to
//! the instant of entry, so who is chosen pays for the choice, and who gives the core away pays for loading its successor. A top half is charged to
//! the server of its binding.
//!
//! A temporal capability is everything that its root server has, unless there are schedulers in user space: [`crate::claims`].

use crate::claims::ShareRoom;
use crate::rows::{budget, goes_on, levels};
use bulkhead_kernel_abi::accounts::{ACCOUNTS_MAGIC, Accounts, ServerAccount};
use bulkhead_kernel_abi::boot::{ServerRow, Tables, TcapRow};
use bulkhead_kernel_abi::{KERNEL_ABI_VERSION, MAX_SERVERS, NONE};
use bulkhead_sched::Members;
use bulkhead_sched::kernel::{KernelCore, Next, Sleepers, Stint};

/// Budgets that come back at one entry: all of an instance may be due at one instant, and those of the most important servers are first. Who runs while a more important one is due
/// runs for no time: the timer rings at once.
const BACK_AT_ONCE: u8 = 2;

/// Memory for time, as large as an instance can need it.
#[derive(Debug)]
pub struct TimeRoom<'a> {
    /// The servers.
    pub core: &'a mut KernelCore<MAX_SERVERS>,
    /// Dates of who sleeps, by server.
    pub sleepers: &'a mut Sleepers<MAX_SERVERS>,
    /// What is told to those that watch.
    pub accounts: &'a mut Accounts,
    /// Claims on their time, and reserves for more of them.
    pub shares: ShareRoom<'a>,
}

/// The servers of an instance.
#[derive(Debug)]
pub(crate) struct Servers<'a> {
    pub(crate) room: TimeRoom<'a>,
    /// There is more to say of claims than that each is all of its server's ([`crate::claims`]).
    pub(crate) divides: bool,
    pub(crate) rows: &'a [ServerRow],
    tcaps: &'a [TcapRow],
    /// Servers that pay for interrupts, a bit each.
    drivers: u64,
    /// Up to when the accounts of threads and claims are right: the instant of this entry. Those of servers are as far as the core was told.
    now_ticks: u64,
    /// Who gave the core away since the last choice.
    leaver: Stint,
    /// Who was chosen last, as the accounts know it.
    chosen: Stint,
    /// When the earliest sleeper that matters while this one runs is to be woken, until a date changes.
    asleep: Option<(Stint, u64)>,
}

const fn bit(number: u16) -> u64 {
    if number < 64 { 1u64.wrapping_shl(number as u32) } else { 0 }
}

impl<'a> Servers<'a> {
    /// Makes the servers of the boot tables. `None` when their rows contradict each other: they are not what a host writes.
    pub(crate) fn new(mut room: TimeRoom<'a>, tables: &Tables<'a>, now: u64) -> Option<Self> {
        let rows = tables.servers;
        if !room.shares.make_bands(tables) {
            return None;
        }
        (room.accounts.magic, room.accounts.abi_version) = (ACCOUNTS_MAGIC, KERNEL_ABI_VERSION);
        if !room.core.configure(now, rows.iter().map(|row| levels(row, rows))) {
            return None;
        }
        room.core.bring_back_in_slices();
        for (slot, row) in (0..u8::MAX).zip(rows).filter(|(_, row)| row.band == NONE) {
            room.core.activate(now, slot, budget(row, rows, now)?, goes_on(row)).ok()?;
        }
        let drivers = tables.bindings.iter().fold(0, |set, row| set | bit(row.server));
        let tcaps = tables.tcaps;
        let divides = room.shares.is_used();
        let (now_ticks, leaver, chosen, asleep) = (now, Stint::IDLE, Stint::IDLE, None);
        let mut this = Self { room, divides, rows, tcaps, drivers, now_ticks, leaver, chosen, asleep };
        if this.divides {
            this.make_claims(tcaps)?;
        }
        Some(this)
    }

    /// The instant of this entry.
    pub(crate) const fn now_ticks(&self) -> u64 {
        self.now_ticks
    }

    /// A thread and a claim were told what they used up to now; the server itself is charged with the next report.
    pub(crate) const fn accounts_are_right_until(&mut self, now: u64) {
        self.now_ticks = now;
    }

    /// Charges who ran up to `now`; returns the time since the last report. What is used up by that is in [`Self::take_exhausted`].
    pub(crate) fn advance(&mut self, now: u64) -> u64 {
        let _ = self.room.core.bring_back(now, BACK_AT_ONCE);
        self.settle()
    }

    /// Tells the accounts what the core knows already; returns the time since the last report.
    pub(crate) fn settle(&mut self) -> u64 {
        let now = self.room.core.now_ticks();
        let ticks = now.saturating_sub(self.now_ticks);
        self.now_ticks = now;
        let stint = self.chosen;
        if self.divides {
            self.use_claims(stint, ticks);
        }
        if stint == Stint::IDLE {
            self.room.accounts.idle_ticks = self.room.core.idle_ticks();
        } else {
            self.note_usage(stint.server());
        }
        ticks
    }

    fn account(&mut self, slot: u8) -> Option<&mut ServerAccount> {
        self.room.accounts.servers.get_mut(usize::from(slot))
    }

    fn note_usage(&mut self, slot: u8) {
        let usage = self.room.core.usage(slot);
        if let Some(account) = self.account(slot) {
            (account.charged_ticks, account.background_ticks) = (usage.budgeted_ticks, usage.background_ticks);
        }
    }

    /// Servers that pay for interrupts and have used up their budgets since the last call.
    pub(crate) fn take_exhausted(&mut self) -> Members {
        let exhausted = self.room.core.take_exhausted();
        for slot in Members(exhausted) {
            if let Some(account) = self.account(slot) {
                account.exhaustions = account.exhaustions.wrapping_add(1);
            }
        }
        Members(exhausted & self.drivers)
    }

    /// The time up to `until` was work for this server, not for who was interrupted (QV-35).
    #[inline(always)] // On the way of each interrupt, which is counted.
    pub(crate) fn charge_for(&mut self, until: u64, server: u16) {
        let ticks = until.saturating_sub(self.now_ticks);
        // A number that is none charges who ran.
        let slot = u8::try_from(server).unwrap_or(u8::MAX);
        self.charge_work(until, slot);
        if let Some(account) = self.account(slot) {
            account.top_half_ticks = account.top_half_ticks.wrapping_add(ticks);
        }
    }

    /// The same of work that is no interrupt's.
    #[inline(always)] // For the same reason.
    pub(crate) fn charge_work(&mut self, until: u64, slot: u8) {
        self.now_ticks = self.now_ticks.max(until);
        self.room.core.charge_for(until, slot);
        self.note_usage(slot);
        if self.divides {
            self.time_changed(slot);
        }
    }

    /// Who was chosen last.
    pub(crate) const fn chosen(&self) -> Stint {
        self.chosen
    }

    /// The last choice, if nothing has happened since that could change it.
    pub(crate) fn standing(&mut self) -> Option<Next> {
        let next = self.room.core.standing().filter(|next| next.stint == self.chosen)?;
        let stands = self.leaver == Stint::IDLE && (!self.divides || self.claim_stands(next.stint));
        stands.then_some(next)
    }

    /// The date for which the timer was set while who was chosen last runs on; another one if a sleeper's has changed since, or the time-out of a `switch`.
    #[inline]
    pub(crate) fn dates_again(&mut self, dates_ticks: u64) -> u64 {
        if self.asleep.is_some() {
            return dates_ticks;
        }
        let deadline_ticks = self.room.core.standing().map_or(dates_ticks, |next| next.deadline_ticks);
        self.next_date_ticks(Next { stint: self.chosen, deadline_ticks })
    }

    /// Chooses which server runs from this entry on.
    pub(crate) fn choose(&mut self) -> Next {
        let next = if self.divides { self.choose_by_claims() } else { self.room.core.next(self.now_ticks) };
        let before = core::mem::replace(&mut self.chosen, next.stint);
        if next.stint != before
            && next.stint != Stint::IDLE
            && let Some(account) = self.account(next.stint.server())
        {
            account.dispatches = account.dispatches.wrapping_add(1);
        }
        next
    }

    /// Who gave the core away since the last choice, if it was not taken.
    pub(crate) fn take_leaver(&mut self) -> Option<Stint> {
        let leaver = core::mem::replace(&mut self.leaver, Stint::IDLE);
        (leaver != Stint::IDLE).then_some(leaver)
    }

    /// The successor of who gave the core away was loaded at `at`. Who runs now is to be asked again: that took time.
    pub(crate) fn loaded(&mut self, at: u64, leaver: Stint) {
        self.room.core.loaded(at, leaver);
        if self.divides {
            self.use_leavers_claim(leaver, at.saturating_sub(self.now_ticks));
            self.time_changed(leaver.server());
        }
        self.now_ticks = self.now_ticks.max(at);
        self.note_usage(leaver.server());
    }

    /// When the timer is to ring for the server that was chosen: at the end of its budget, or when somebody comes who is not less important.
    pub(crate) fn earliest_ticks(&mut self, next: Next) -> u64 {
        let earliest_ticks = self.next_date_ticks(next);
        if self.divides { earliest_ticks.min(self.claims_end_ticks(next.stint)) } else { earliest_ticks }
    }

    /// The same without what claims say.
    #[inline]
    pub(crate) fn next_date_ticks(&mut self, next: Next) -> u64 {
        let sleeper_ticks = match self.asleep {
            Some((stint, ticks)) if stint == next.stint => ticks,
            _ => self.room.sleepers.next_ticks(self.room.core),
        };
        self.asleep = Some((next.stint, sleeper_ticks));
        next.deadline_ticks.min(sleeper_ticks)
    }

    /// Forgets all that the last choice is remembered by, so that the next one looks at everything.
    pub(crate) const fn forget_choice(&mut self) {
        self.asleep = None;
        self.room.core.forget_choice();
        self.forget_answers();
    }

    /// Counts the ticks that a thread ran.
    pub(crate) fn count_ran(&mut self, thread: u16, ticks: u64) {
        if let Some(account) = self.room.accounts.threads.get_mut(usize::from(thread)) {
            account.ran_ticks = account.ran_ticks.wrapping_add(ticks);
        }
    }

    /// Counts that a thread was loaded.
    pub(crate) fn count_switch(&mut self, thread: u16) {
        if let Some(account) = self.room.accounts.threads.get_mut(usize::from(thread)) {
            account.switches = account.switches.wrapping_add(1);
        }
    }

    pub(crate) fn root(&self, tcap: u16) -> Option<u16> {
        if self.divides {
            return self.room.shares.claims.claim(u8::try_from(tcap).ok()?)?.root().map(u16::from);
        }
        let server = self.tcaps.get(usize::from(tcap))?.server;
        (usize::from(server) < self.rows.len()).then_some(server)
    }

    pub(crate) fn usable_ticks(&mut self, tcap: u16) -> u64 {
        if self.divides {
            return self.claim_usable_ticks(tcap);
        }
        let server = self.root(tcap);
        server.map_or(0, |server| self.room.core.capacity_ticks(server as u8, self.now_ticks))
    }

    /// The earliest sleeper of a server is to be woken then.
    pub(crate) fn set_date(&mut self, server: u16, date_ticks: u64) {
        self.asleep = None;
        self.room.sleepers.set(server as u8, date_ticks);
    }

    pub(crate) fn has_budget(&mut self, server: u16) -> bool {
        u8::try_from(server).is_ok_and(|slot| self.room.core.capacity_ticks(slot, self.now_ticks) != 0)
    }

    pub(crate) fn wake(&mut self, server: u16) {
        // Schedulers may have a word in the choice.
        if self.divides {
            return self.room.core.wake(self.now_ticks, server as u8);
        }
        // Who takes the core is charged from here on; the choice at the end finds this one.
        let _ = self.room.core.signal(self.now_ticks, server as u8);
    }

    pub(crate) fn block(&mut self, server: u16) {
        let stint = self.room.core.running();
        if stint != Stint::IDLE && u16::from(stint.server()) == server {
            self.leaver = stint;
        }
        self.room.core.block(self.now_ticks, server as u8);
    }

    /// A client's request begins or is done; clients of a budget are numbered by themselves.
    pub(crate) fn tell_of_client(&mut self, server: u16, client: u16, begins: bool) -> bool {
        let Some(row) = self.rows.get(usize::from(server)) else { return false };
        if row.clients & bit(client) == 0 {
            return false;
        }
        let place = (row.clients & bit(client).wrapping_sub(1)).count_ones() as usize;
        self.time_changed(server as u8);
        let (core, now) = (&mut *self.room.core, self.now_ticks);
        if begins { core.request(now, server as u8, place) } else { core.complete(now, server as u8, place) }
    }
}
