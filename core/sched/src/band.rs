//! Servers made at run time: a band is a reserve of slots at one level that the host has counted as one server (QV-20, QV-37).
//!
//! The host's analysis takes a band as one sporadic server with the band's budget and its shortest period. A server is admitted when its
//! period lies in the band's range, its budget is not below the smallest chunk, and the budgets of all the band's servers together
//! stay within the band's. Because `sum ceil(t / T_i) C_i <= ceil(t / T_min) C_band`, every bound that was printed stays true whatever
//! is made, and the band's own bound holds for each server in it. One comparison decides, however many servers there are.
//!
//! What a server may have used counts until it would be back: a period after the server's end, or after its budget was made smaller, and
//! until its debts are paid. Without that, one whose budget is used up could be replaced by a fresh one at once, and the band would
//! take more than it has.
//!
//! [`Quick`] is the published test, for continuity and the experiments.

mod quick;

pub use quick::{LIMITS, ONE, Quick};

use crate::Members;
use crate::budget::{Anchor, MAX_PERIOD_TICKS, SporadicParameters};
use crate::dates::{Dates, NEVER};
use crate::kernel::{ActivateError, KernelCore, bit};

/// Most bands of an instance.
pub const MAX_BANDS: usize = 8;
/// No band.
const NO_BAND: u8 = u8::MAX;

/// Why a server was not made or changed. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandError {
    /// There is no such band, or the slot has none of its servers.
    Number,
    /// Period or budget lie outside what the band offers, or the band, or the published test, has no room for it.
    NotAdmitted,
    /// The band has no free slot.
    Full,
    /// The core refused the server; bands and core were not configured for each other.
    Core(ActivateError),
}

/// What the host reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// First slot of the core; the others follow it. All of them are at one level.
    pub first_slot: u8,
    /// Number of slots.
    pub slots: u8,
    /// Shortest period of a server.
    pub shortest_ticks: u64,
    /// Longest period.
    pub longest_ticks: u64,
    /// What all servers together have at most; no more than the shortest period.
    pub budget_ticks: u64,
    /// Smallest budget, and the smallest chunk that a server keeps.
    pub smallest_ticks: u64,
    /// Chunks of each server.
    pub chunks: u8,
}

/// Budget, and share of the published test, that are counted for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    budget_ticks: u64,
    share: u64,
}

/// The bands of an instance; `SERVERS` is that of its core.
#[derive(Clone, Debug)]
pub struct Bands<const SERVERS: usize> {
    bands: [Band; MAX_BANDS],
    /// What is counted in each band.
    taken_ticks: [u64; MAX_BANDS],
    /// Slots without a server, by band.
    free: [u64; MAX_BANDS],
    count: u8,
    band_of: [u8; SERVERS],
    /// Slots with a server.
    live: u64,
    /// What is counted for each slot until its date, and from then on.
    counted: [Counted; SERVERS],
    then: [Counted; SERVERS],
    dates: Dates<SERVERS>,
    /// The published test, where it decides as well.
    quick: Option<Quick>,
}

impl<const SERVERS: usize> Default for Bands<SERVERS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SERVERS: usize> Bands<SERVERS> {
    /// No bands, and no published test.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bands: [Band {
                first_slot: 0,
                slots: 0,
                shortest_ticks: 0,
                longest_ticks: 0,
                budget_ticks: 0,
                smallest_ticks: 0,
                chunks: 0,
            }; MAX_BANDS],
            taken_ticks: [0; MAX_BANDS],
            free: [0; MAX_BANDS],
            count: 0,
            band_of: [NO_BAND; SERVERS],
            live: 0,
            counted: [Counted { budget_ticks: 0, share: 0 }; SERVERS],
            then: [Counted { budget_ticks: 0, share: 0 }; SERVERS],
            dates: Dates::new(),
            quick: None,
        }
    }

    /// Makes it what [`Self::new`] is, with this test if there is one, where it lies: the value of the whole is large for a kernel's stack.
    pub fn clear(&mut self, quick: Option<Quick>) {
        let Self { bands, taken_ticks, free, count, band_of, live, counted, then, dates, quick: test } = self;
        (*bands, *taken_ticks, *free) = ([Band::default(); MAX_BANDS], [0; MAX_BANDS], [0; MAX_BANDS]);
        (*count, *band_of, *live) = (0, [NO_BAND; SERVERS], 0);
        for place in counted.iter_mut().chain(then) {
            *place = Counted::default();
        }
        (*dates, *test) = (Dates::new(), quick);
    }

    /// Lets the published test decide as well. `quick` holds the servers that the host made.
    #[must_use]
    pub const fn with_published_test(mut self, quick: Quick) -> Self {
        self.quick = Some(quick);
        self
    }

    /// Adds a band; its number is the count of those before it. Returns false, and adds nothing, when there are [`MAX_BANDS`], or the
    /// band contradicts itself or another one.
    #[must_use]
    pub fn add(&mut self, band: Band) -> bool {
        let slots = u32::from(band.first_slot)..u32::from(band.first_slot).saturating_add(u32::from(band.slots));
        let fits = slots.end <= u32::try_from(SERVERS).unwrap_or(u32::MAX).min(64) && band.slots > 0;
        let is_range = band.shortest_ticks <= band.longest_ticks && band.longest_ticks <= MAX_PERIOD_TICKS;
        let has_budget = band.smallest_ticks > 0
            && band.smallest_ticks <= band.budget_ticks
            && band.budget_ticks <= band.shortest_ticks
            && (2..=16).contains(&band.chunks);
        let taken = |slot: u32| self.band_of.get(slot as usize).is_none_or(|of| *of != NO_BAND);
        if !fits || !is_range || !has_budget || slots.clone().any(taken) || usize::from(self.count) >= MAX_BANDS {
            return false;
        }
        let number = usize::from(self.count);
        let set = slots.fold(0, |set, slot| set | 1u64.wrapping_shl(slot));
        for slot in Members(set) {
            if let Some(of) = self.band_of.get_mut(usize::from(slot)) {
                *of = self.count;
            }
        }
        if let (Some(place), Some(free)) = (self.bands.get_mut(number), self.free.get_mut(number)) {
            (*place, *free) = (band, set);
        }
        self.count = self.count.saturating_add(1);
        true
    }

    /// What is counted in a band: its servers, and what has to come back of others.
    #[must_use]
    pub fn taken_ticks(&self, band: u8) -> u64 {
        self.taken_ticks.get(usize::from(band)).copied().unwrap_or(0)
    }

    /// The published test as it stands.
    #[must_use]
    pub const fn published_test(&self) -> Option<&Quick> {
        self.quick.as_ref()
    }

    fn counted(&self, slot: u8) -> Counted {
        self.counted.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// States whether the slot has a server that was made at run time.
    #[must_use]
    pub fn is_server(&self, slot: u8) -> bool {
        usize::from(slot) < SERVERS && self.live & bit(slot) != 0
    }

    /// The parameters of a server with this budget and period, if the band offers such.
    fn parameters(band: &Band, budget_ticks: u64, period_ticks: u64) -> Result<SporadicParameters, BandError> {
        let offered = (band.shortest_ticks..=band.longest_ticks).contains(&period_ticks)
            && budget_ticks >= band.smallest_ticks
            && budget_ticks <= period_ticks;
        let parameters = SporadicParameters {
            budget_ticks,
            period_ticks,
            smallest_chunk_ticks: band.smallest_ticks,
            chunks: band.chunks,
            anchor: Anchor::Dispatch,
            lag_clamp: false,
        };
        if offered { Ok(parameters) } else { Err(BandError::NotAdmitted) }
    }

    /// Its share, where a test asks for it.
    fn share(&self, budget_ticks: u64, period_ticks: u64) -> u64 {
        if self.quick.is_some() { quick::share(budget_ticks, period_ticks) } else { 0 }
    }

    /// What will be counted for a slot if it asks for this; nothing has changed yet.
    fn admit(&self, number: u8, slot: u8, budget_ticks: u64, period_ticks: u64) -> Result<Counted, BandError> {
        let band = self.bands.get(usize::from(number)).ok_or(BandError::Number)?;
        let before = self.counted(slot);
        let share = self.share(budget_ticks, period_ticks);
        let counted = Counted { budget_ticks: budget_ticks.max(before.budget_ticks), share: share.max(before.share) };
        let others_ticks = self.taken_ticks(number).saturating_sub(before.budget_ticks);
        let has_room = others_ticks.saturating_add(counted.budget_ticks) <= band.budget_ticks;
        let passes = self.quick.is_none_or(|quick| quick.admits(before.share, counted.share));
        if has_room && passes { Ok(counted) } else { Err(BandError::NotAdmitted) }
    }

    /// Counts this for a slot from now on.
    fn count(&mut self, slot: u8, counted: Counted) {
        let before = self.counted(slot);
        let number = self.band_of.get(usize::from(slot)).copied().unwrap_or(NO_BAND);
        if let Some(taken) = self.taken_ticks.get_mut(usize::from(number)) {
            *taken = taken.saturating_sub(before.budget_ticks).saturating_add(counted.budget_ticks);
        }
        if let Some(quick) = &mut self.quick {
            quick.replace(before.share, counted.share);
        }
        if let Some(place) = self.counted.get_mut(usize::from(slot)) {
            *place = counted;
        }
    }

    /// Makes a server in a band, with all of its budget; it does not ask yet. Returns its slot.
    ///
    /// # Errors
    ///
    /// [`BandError`]; nothing is changed then.
    pub fn create(
        &mut self,
        core: &mut KernelCore<SERVERS>,
        now: u64,
        band: u8,
        budget_ticks: u64,
        period_ticks: u64,
    ) -> Result<u8, BandError> {
        if band >= self.count {
            return Err(BandError::Number);
        }
        while self.give_back(now) {}
        let rules = self.bands.get(usize::from(band)).ok_or(BandError::Number)?;
        let parameters = Self::parameters(rules, budget_ticks, period_ticks)?;
        let free = self.free.get(usize::from(band)).copied().unwrap_or(0);
        if free == 0 {
            return Err(BandError::Full);
        }
        let slot = free.trailing_zeros() as u8;
        let counted = self.admit(band, slot, budget_ticks, period_ticks)?;
        core.activate_in_place(now, slot, parameters).map_err(BandError::Core)?;
        self.count(slot, counted);
        if let Some(free) = self.free.get_mut(usize::from(band)) {
            *free &= !bit(slot);
        }
        self.live |= bit(slot);
        Ok(slot)
    }

    /// Gives a server another budget and period. What it had counts for one more period, as after [`Self::destroy`].
    ///
    /// # Errors
    ///
    /// [`BandError`]; nothing is changed then.
    pub fn set(
        &mut self,
        core: &mut KernelCore<SERVERS>,
        now: u64,
        slot: u8,
        budget_ticks: u64,
        period_ticks: u64,
    ) -> Result<(), BandError> {
        let number = self.band_of.get(usize::from(slot)).copied().unwrap_or(NO_BAND);
        if !self.is_server(slot) {
            return Err(BandError::Number);
        }
        while self.give_back(now) {}
        let band = self.bands.get(usize::from(number)).ok_or(BandError::Number)?;
        let parameters = Self::parameters(band, budget_ticks, period_ticks)?;
        let counted = self.admit(number, slot, budget_ticks, period_ticks)?;
        core.advance(now);
        let back_ticks = back_at_ticks(core, now, slot);
        core.reconfigure(now, slot, parameters).map_err(BandError::Core)?;
        self.count(slot, counted);
        self.plan(slot, back_ticks, Counted { budget_ticks, share: self.share(budget_ticks, period_ticks) });
        Ok(())
    }

    /// Ends a server. Its slot and what was counted for it are free again when what it used is back: a period later, or later if it
    /// has debts.
    ///
    /// # Errors
    ///
    /// The slot has no server of a band.
    pub fn destroy(&mut self, core: &mut KernelCore<SERVERS>, now: u64, slot: u8) -> Result<(), BandError> {
        if !self.is_server(slot) {
            return Err(BandError::Number);
        }
        core.advance(now);
        let back_ticks = back_at_ticks(core, now, slot);
        core.retire(now, slot);
        self.live &= !bit(slot);
        self.plan(slot, back_ticks, Counted::default());
        Ok(())
    }

    /// From `at` on this is counted; an earlier plan for the slot waits as long.
    fn plan(&mut self, slot: u8, at: u64, counted: Counted) {
        let planned_ticks = if self.dates.has(slot) { self.dates.get(slot).max(at) } else { at };
        if let Some(then) = self.then.get_mut(usize::from(slot)) {
            *then = counted;
        }
        self.dates.set(slot, planned_ticks);
    }

    /// Frees what one slot has to give back by `now`. Returns false when there is none.
    pub fn give_back(&mut self, now: u64) -> bool {
        let Some(slot) = self.dates.due(now) else { return false };
        self.dates.set(slot, NEVER);
        let then = self.then.get(usize::from(slot)).copied().unwrap_or_default();
        self.count(slot, then);
        if self.live & bit(slot) == 0 {
            let number = self.band_of.get(usize::from(slot)).copied().unwrap_or(NO_BAND);
            if let Some(free) = self.free.get_mut(usize::from(number)) {
                *free |= bit(slot);
            }
        }
        true
    }
}

/// When everything that a server may have used by `now` is back.
fn back_at_ticks<const SERVERS: usize>(core: &KernelCore<SERVERS>, now: u64, slot: u8) -> u64 {
    let (newest_ticks, period_ticks) = core.all_back_ticks(slot).unwrap_or((now, 0));
    newest_ticks.max(now.saturating_add(period_ticks))
}
