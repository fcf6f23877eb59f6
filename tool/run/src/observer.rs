//! A live view of a system: counters, states, crash records, rings, read from RAM while the machine runs.
//!
//! Reading costs the guests and the monitor nothing: nobody is stopped, asked or interrupted. The price is that a larger
//! value may be half-old, half-new; every single word is whole. Which words may be believed together is said at the
//! methods. Addresses come from the image file, never from RAM, so no guest can point the host anywhere.

use crate::image_file::ImagePlan;
use crate::ram::Ram;
use bulkhead_abi::observe::{COUNTERS_MAGIC, CRASH_MAGIC, Counter, CounterPage, CrashRecord, TRACE_MAGIC, TraceHeader};
use bulkhead_abi::status::{STATE_INITIAL, STATE_OFF, STATE_STOPPED, StatusPage};
use std::sync::Arc;
use zerocopy::FromZeros;

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

    /// Reads a core's counter page; all zero until its monitor has started, and for a core that is not in use.
    #[must_use]
    pub fn counter_page(&self, core: usize) -> CounterPage {
        let page = self.plan.header.cores.get(core).and_then(|boot| self.ram.read_at::<CounterPage>(boot.counters));
        page.filter(|page| page.magic == COUNTERS_MAGIC).unwrap_or_else(CounterPage::new_zeroed)
    }

    /// Reads one counter of a core.
    #[must_use]
    pub fn counter(&self, core: usize, counter: Counter) -> u64 {
        self.counter_page(core).values[counter as usize]
    }

    /// Reads one counter of a partition: the sum over its cores.
    #[must_use]
    pub fn partition_counter(&self, partition: usize, counter: Counter) -> u64 {
        self.plan.cores_of(partition).into_iter().map(|core| self.counter(core, counter)).fold(0, u64::wrapping_add)
    }

    /// Reads what a core's monitor is doing.
    #[must_use]
    pub fn phase(&self, core: usize) -> Phase {
        match self.counter_page(core).phase {
            0 => Phase::NotStarted,
            1 => Phase::PlanChecked,
            2 => Phase::GuestEntered,
            3 => Phase::WaitsForCpuOn,
            other => Phase::Unknown(other),
        }
    }

    /// Reads a core's crash record, if its monitor failed. The record is complete: its magic number is written last.
    #[must_use]
    pub fn crash(&self, core: usize) -> Option<CrashRecord> {
        let boot = self.plan.header.cores.get(core)?;
        // The monitor may fail before it writes the page's own magic number, so that one is not asked for.
        let offset = core::mem::offset_of!(CounterPage, crash) as u64;
        let address = boot.counters.checked_add(offset)?;
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

    /// Reads a partition's status page. `state` is written last, so the fields belong to it or to a newer state.
    #[must_use]
    pub fn status(&self, partition: usize) -> StatusPage {
        let Some(entry) = self.plan.header.partitions.get(partition) else { return StatusPage::default() };
        // Acquire the state first, then the rest: what belongs to that state is then visible.
        let state = self.ram.load_u32(entry.status).unwrap_or(STATE_INITIAL);
        let rest = self.ram.read_at::<StatusPage>(entry.status).unwrap_or_default();
        StatusPage { state, ..rest }
    }

    /// States whether no partition can run any more by itself: each is off or stopped.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        (0..self.partition_count()).all(|partition| matches!(self.status(partition).state, STATE_OFF | STATE_STOPPED))
    }
}
