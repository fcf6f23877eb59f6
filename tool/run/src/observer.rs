//! A live view of a system: counters, states, crash records, rings, read from RAM while the machine runs.
//!
//! Reading costs the guests and the monitor nothing: nobody is stopped, asked or interrupted. The price is that a larger
//! value may be half-old, half-new; every single word is whole. Which words may be believed together is said at the
//! methods. Addresses come from the image file, never from RAM, so no guest can point the host anywhere.

use crate::image_file::ImagePlan;
use crate::ram::{Ram, behind};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{COUNTERS_MAGIC, CRASH_MAGIC, Counter, CounterPage, CrashRecord, TRACE_MAGIC, TraceHeader};
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_abi::schedule::{USAGE_MAGIC, UsagePage};
use bulkhead_abi::status::{STATE_INITIAL, STATE_OFF, STATE_RUNNING, STATE_STOPPED, StatusPage};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::FromZeros;

/// How long an update of a usage page is waited for.
const UPDATE_PATIENCE: Duration = Duration::from_secs(2);

/// What one look at a usage page finds.
enum Look {
    /// All of it from one update.
    Whole(Box<UsagePage>),
    /// An update is under way.
    Changing,
}

/// What was seen of a partition when it was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    state: u32,
    generation: u32,
    faults: u64,
    /// Number of the last start that was seen, or noticed afterwards.
    noticed: u32,
}

impl Seen {
    /// Takes what counts from a status page, after what was seen before.
    pub(crate) fn next(self, page: &StatusPage) -> Self {
        let now = Self { state: page.state, generation: page.generation, faults: page.faults, noticed: self.noticed };
        let is_noticed = now.state == STATE_RUNNING || self.missed_start(now);
        Self { noticed: if is_noticed { now.generation } else { self.noticed }, ..now }
    }

    /// Whether there is another state, or another start, to speak of. That it is about to start is none: it is restarting, as before.
    pub(crate) fn differs(self, now: Self) -> bool {
        let is_started = now.state == STATE_RUNNING && self.generation != now.generation;
        self.state != now.state || is_started || self.missed_start(now)
    }

    /// Whether the partition ran and no longer did at the next look, without a look in between: a guest that faults at once runs for
    /// less time than lies between two. The number of starts changes a little before the state does, and a look may fall there.
    pub(crate) fn missed_start(self, now: Self) -> bool {
        let has_ended = matches!(now.state, STATE_OFF | STATE_STOPPED) || now.faults > self.faults;
        now.generation > self.noticed && now.state != STATE_RUNNING && has_ended
    }
}

/// What the monitor of a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The core's monitor has not written its counter page yet.
    NotStarted,
    /// Its plan was checked.
    PlanChecked,
    /// Its guest was entered.
    GuestEntered,
    /// It waits for its guest to switch the vCPU on.
    WaitsForCpuOn,
    /// A number this tool does not know.
    Unknown(u64),
}

impl Phase {
    fn from_number(number: u64) -> Self {
        match number {
            0 => Self::NotStarted,
            1 => Self::PlanChecked,
            2 => Self::GuestEntered,
            3 => Self::WaitsForCpuOn,
            other => Self::Unknown(other),
        }
    }
}

/// A live view of a system in RAM.
#[derive(Clone)]
pub struct Observer {
    ram: Arc<Ram>,
    plan: Arc<ImagePlan>,
}

impl Observer {
    /// Makes a view of RAM that a system with this plan runs in.
    #[must_use]
    pub fn new(ram: Arc<Ram>, plan: Arc<ImagePlan>) -> Self {
        Self { ram, plan }
    }

    /// Returns the RAM.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &ImagePlan {
        &self.plan
    }

    /// Returns the plan, to be kept.
    #[must_use]
    pub(crate) fn shared_plan(&self) -> Arc<ImagePlan> {
        Arc::clone(&self.plan)
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.plan.partitions.len()
    }

    /// Returns the number of cores in use.
    #[must_use]
    pub fn core_count(&self) -> usize {
        self.plan.cores.len()
    }

    /// Reads the counter page of a core's first vCPU; all zero until its monitor has started, and for a core that is not
    /// in use.
    #[must_use]
    pub fn counter_page(&self, core: usize) -> CounterPage {
        self.page_at(self.plan.header.cores.get(core).map(|boot| boot.counters))
    }

    /// States whether a monitor has started: one has written its counter page, or failed before it could.
    #[must_use]
    pub fn has_started(&self) -> bool {
        let boots = self.plan.header.cores.iter().take(self.core_count()).enumerate();
        boots.into_iter().any(|(core, boot)| self.is_counter_page(boot.counters) || self.crash(core).is_some())
    }

    fn is_counter_page(&self, address: PhysicalAddress) -> bool {
        self.ram.load_u64(address) == Some(COUNTERS_MAGIC)
    }

    /// Reads the counter page of a vCPU; all zero until its monitor has started.
    #[must_use]
    pub fn vcpu_counter_page(&self, partition: usize, vcpu: usize) -> CounterPage {
        let entry = self.plan.header.partitions.get(partition);
        self.page_at(entry.and_then(|entry| entry.vcpu_counters.get(vcpu).copied()))
    }

    fn page_at(&self, address: Option<PhysicalAddress>) -> CounterPage {
        let page =
            address.filter(|address| address.0 != 0).and_then(|address| self.ram.read_at::<CounterPage>(address));
        page.filter(|page| page.magic == COUNTERS_MAGIC).unwrap_or_else(CounterPage::new_zeroed)
    }

    fn vcpus_of(&self, core: usize) -> impl Iterator<Item = (usize, usize)> {
        let plans = self.plan.cores.get(core).map_or(&[] as &[VcpuPlan], |plan| &plan.vcpus);
        plans.iter().map(|plan| (plan.partition as usize, plan.vcpu as usize))
    }

    /// Reads one counter of a core: the sum over its vCPUs.
    #[must_use]
    pub fn counter(&self, core: usize, counter: Counter) -> u64 {
        self.vcpus_of(core)
            .map(|(partition, vcpu)| self.vcpu_counter(partition, vcpu, counter))
            .fold(0, u64::wrapping_add)
    }

    /// Reads one counter of a vCPU.
    #[must_use]
    pub fn vcpu_counter(&self, partition: usize, vcpu: usize, counter: Counter) -> u64 {
        self.vcpu_counter_page(partition, vcpu).values[counter as usize]
    }

    /// Reads one counter of a partition: the sum over its vCPUs.
    #[must_use]
    pub fn partition_counter(&self, partition: usize, counter: Counter) -> u64 {
        let vcpus = self.plan.vcpus().filter(|(_, plan)| plan.partition as usize == partition);
        vcpus.map(|(_, plan)| self.vcpu_counter(partition, plan.vcpu as usize, counter)).fold(0, u64::wrapping_add)
    }

    /// Reads what a core's monitor is doing with its first vCPU.
    #[must_use]
    pub fn phase(&self, core: usize) -> Phase {
        Phase::from_number(self.counter_page(core).phase)
    }

    /// Reads what its monitor is doing with a vCPU.
    #[must_use]
    pub fn vcpu_phase(&self, partition: usize, vcpu: usize) -> Phase {
        Phase::from_number(self.vcpu_counter_page(partition, vcpu).phase)
    }

    /// Reads what a shared core has given to whom, all of it from one update; `None` for a core that one vCPU owns, before
    /// its monitor has written the page, and when the monitor stands in the middle of an update, as in a machine that is
    /// paused or was ended.
    #[must_use]
    pub fn usage(&self, core: usize) -> Option<UsagePage> {
        let begun = Instant::now();
        loop {
            match self.look_at_usage(core)? {
                Look::Whole(page) => return Some(*page),
                Look::Changing if begun.elapsed() > UPDATE_PATIENCE => return None,
                // An update takes a microsecond, or as long as a busy host lets its emulator wait.
                Look::Changing => std::thread::yield_now(),
            }
        }
    }

    fn look_at_usage(&self, core: usize) -> Option<Look> {
        let address = self.plan.cores.get(core)?.schedule.as_ref()?.usage;
        let word = |offset: usize| self.ram.load_u64(behind(address, offset as u64)?);
        // The word that is written last, then everything, then the word that is written first.
        let time_ticks = word(offset_of!(UsagePage, time_ticks))?;
        let page = self.ram.read_at::<UsagePage>(address).filter(|page| page.magic == USAGE_MAGIC)?;
        let begun_ticks = word(offset_of!(UsagePage, begun_ticks))?;
        let whole = begun_ticks == time_ticks && page.time_ticks == time_ticks;
        Some(if whole { Look::Whole(Box::new(page)) } else { Look::Changing })
    }

    /// Reads a core's crash record, if its monitor failed. It is in the page of the vCPU that ran or was looked after.
    #[must_use]
    pub fn crash(&self, core: usize) -> Option<CrashRecord> {
        // Boot code fails before it knows the plan, into the page that the boot record names.
        let boot = self.plan.header.cores.get(core)?.counters;
        let pages = self.vcpus_of(core).map(|(partition, vcpu)| self.counters_address(partition, vcpu));
        std::iter::once(boot).chain(pages).find_map(|page| self.crash_at(page))
    }

    /// Reads the crash record in the page of a vCPU.
    #[must_use]
    pub fn vcpu_crash(&self, partition: usize, vcpu: usize) -> Option<CrashRecord> {
        self.crash_at(self.counters_address(partition, vcpu))
    }

    fn counters_address(&self, partition: usize, vcpu: usize) -> PhysicalAddress {
        let entry = self.plan.header.partitions.get(partition);
        entry.and_then(|entry| entry.vcpu_counters.get(vcpu).copied()).unwrap_or_default()
    }

    /// The record is complete: its magic number is written last.
    fn crash_at(&self, page: PhysicalAddress) -> Option<CrashRecord> {
        // The monitor may fail before it writes the page's own magic number, so that one is not asked for.
        let offset = offset_of!(CounterPage, crash) as u64;
        let address = behind(Some(page).filter(|page| page.0 != 0)?, offset)?;
        if self.ram.load_u64(address)? != CRASH_MAGIC {
            return None;
        }
        self.ram.read_at(address)
    }

    /// States whether a core writes trace records.
    #[must_use]
    pub fn traces(&self, core: usize) -> bool {
        let boot = self.plan.header.cores.get(core);
        let header = boot.and_then(|boot| self.ram.read_at::<TraceHeader>(boot.trace));
        header.is_some_and(|header| header.magic == TRACE_MAGIC && header.enabled == 1)
    }

    /// Reads a partition's status page. State and start (`generation`) did not change meanwhile, so what was written for them
    /// is that; what is counted while a partition runs, and what leads to its next state, may be newer. All zero until the monitor
    /// of its first vCPU has started: a boot loader may still have other things there.
    #[must_use]
    pub fn status(&self, partition: usize) -> StatusPage {
        let Some(entry) = self.plan.header.partitions.get(partition) else { return StatusPage::default() };
        if !self.is_counter_page(self.counters_address(partition, 0)) {
            return StatusPage::default();
        }
        let key = || {
            let generation = behind(entry.status, offset_of!(StatusPage, generation) as u64);
            // The state first: it is written last.
            let state = self.ram.load_u32(entry.status).unwrap_or(STATE_INITIAL);
            (state, generation.and_then(|address| self.ram.load_u32(address)).unwrap_or_default())
        };
        loop {
            let before = key();
            let page = self.ram.read_at::<StatusPage>(entry.status).unwrap_or_default();
            // Ends: a start takes much longer than this.
            if key() == before && (page.state, page.generation) == before {
                return page;
            }
        }
    }

    /// States whether no partition can run any more by itself: each is off or stopped.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        (0..self.partition_count()).all(|partition| matches!(self.status(partition).state, STATE_OFF | STATE_STOPPED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_abi::status::{STATE_RESTARTING, STATE_SUSPENDED};

    #[test]
    fn a_start_between_two_looks_is_noticed_and_none_is_invented() {
        let seen = |state, generation, faults| Seen { state, generation, faults, noticed: 2 };
        let before = seen(STATE_RESTARTING, 2, 2);
        assert!(before.missed_start(seen(STATE_STOPPED, 3, 3)), "it faulted at once, for the last time");
        assert!(before.missed_start(seen(STATE_RESTARTING, 3, 3)), "it faulted at once and is started again");
        assert!(before.missed_start(seen(STATE_OFF, 3, 2)), "it switched itself off at once");
        assert!(!before.missed_start(seen(STATE_RUNNING, 3, 2)), "this start was seen");
        assert!(!before.missed_start(seen(STATE_RESTARTING, 3, 2)), "it is about to run");
        assert!(!before.missed_start(seen(STATE_SUSPENDED, 3, 2)), "it was suspended before it ran");
        assert!(!before.missed_start(seen(STATE_STOPPED, 2, 2)), "it was not started any more");
    }

    #[test]
    fn a_restart_is_spoken_of_once() {
        let seen = |state, generation, faults| Seen { state, generation, faults, noticed: 2 };
        let before = seen(STATE_RESTARTING, 2, 2);
        assert!(!before.differs(seen(STATE_RESTARTING, 3, 2)), "it is about to run");
        assert!(before.differs(seen(STATE_RESTARTING, 3, 3)), "it ran, faulted at once, and is restarting again");
        assert!(before.differs(seen(STATE_RUNNING, 3, 2)), "it runs");
        assert!(seen(STATE_RUNNING, 2, 2).differs(seen(STATE_RUNNING, 3, 2)), "it was restarted between two looks");
    }

    #[test]
    fn a_look_right_before_a_start_hides_none() {
        let page = |state, generation| StatusPage { state, generation, ..StatusPage::default() };
        let looks = |pages: &[StatusPage]| {
            let mut seen = Seen::default();
            let missed = pages.iter().map(|page| {
                let before = seen;
                seen = before.next(page);
                before.missed_start(seen)
            });
            missed.collect::<Vec<_>>()
        };
        let (about_to_run, off) = (page(STATE_INITIAL, 1), page(STATE_OFF, 1));
        assert_eq!(looks(&[page(STATE_INITIAL, 0), about_to_run, off, off]), [false, false, true, false]);
        assert_eq!(looks(&[about_to_run, page(STATE_RUNNING, 1), off]), [false; 3], "it was seen running");
    }
}
