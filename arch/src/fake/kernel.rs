//! A core at EL1 made of ordinary memory, for host tests of the kernel's logic: a counter that moves while the core waits, two timers with levels, and a
//! controller in which what is active is not signalled again.

use crate::kernel::{KernelMachine, Seen};
use bulkhead_abi::observe::TraceRecord;
use bulkhead_arm::Intid;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Waits after which a test is one of a core that never rests.
const MOST_WAITS: u64 = 100_000;

/// The core; tests change and read its fields.
#[derive(Clone, Debug)]
pub struct FakeCore {
    /// The virtual counter.
    pub now_ticks: u64,
    /// When the kernel's timer rings; `u64::MAX`: off.
    pub timer_ticks: u64,
    /// When the second one does.
    pub periodic_ticks: u64,
    /// Interrupts of devices that are pending.
    pub pending: BTreeSet<u32>,
    /// Acknowledged and not deactivated.
    pub active: BTreeSet<u32>,
    /// Pending again as soon as they are acknowledged: somebody rings without end.
    pub ringing: BTreeSet<u32>,
    /// How often an interrupt was acknowledged.
    pub acknowledged: BTreeMap<u32, u64>,
    /// Enabled.
    pub enabled: BTreeSet<u32>,
    /// Said to be signalled by an edge.
    pub edges: BTreeSet<u32>,
    /// Acknowledged, and the priority not dropped: the core takes none meanwhile.
    pub running: Option<u32>,
    /// The address space that is loaded.
    pub space: u64,
    /// What was printed.
    pub console: String,
    /// Entries of the console's ring; 0 for a UART.
    pub console_entries: u64,
    /// Who was said to print, and how many bytes the console had then.
    pub writers: Vec<(u16, usize)>,
    /// EL0 may use floating-point registers; tests close them at an entry, as vectors do.
    pub is_open: bool,
    /// What is in them: one stands for all.
    pub floating: u64,
    /// Whose they are.
    pub owner: Option<u16>,
    /// Threads that have a place for them.
    pub places: u16,
    /// What was kept of them, by thread.
    pub kept: BTreeMap<u16, u64>,
    /// The words beside what was kept, by thread.
    pub stays: BTreeMap<u16, u64>,
    /// How long it takes to acknowledge an interrupt.
    pub acknowledging_ticks: u64,
    /// How long a slice takes, and the look behind it for an interrupt that is not there.
    pub looking_ticks: u64,
    /// How long it takes to load an address space.
    pub loading_ticks: u64,
    /// How often the core was told to wait.
    pub waits: u64,
    /// Memory of channels, by address; a word that is not there is 0.
    pub shared: RefCell<BTreeMap<u64, u64>>,
    /// Somebody else who writes there, at each moment at which this core reads.
    pub peer: Option<fn(&mut BTreeMap<u64, u64>)>,
    /// Doorbells that were rung, in order.
    pub rung: Vec<u32>,
    /// The level below holds doorbells back.
    pub is_limited: bool,
    /// Words of the pool's pages that are not zero, by page and index.
    pub pool: BTreeMap<(u32, u16), u64>,
    /// What was copied from the image: page, and physical address.
    pub copied: Vec<(u32, u64)>,
    /// Pages of components that were made what they were, and from where; `None` for zeros.
    pub restored: Vec<(u64, Option<u64>)>,
    /// What was forgotten: the ASID, and an address or all.
    pub forgotten: Vec<(u16, Option<u64>)>,
    /// What was told of last.
    pub seen: Seen,
    /// What was recorded.
    pub records: Vec<TraceRecord>,
}

impl Default for FakeCore {
    fn default() -> Self {
        Self {
            now_ticks: 0,
            timer_ticks: u64::MAX,
            periodic_ticks: u64::MAX,
            pending: BTreeSet::new(),
            active: BTreeSet::new(),
            ringing: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            enabled: BTreeSet::new(),
            edges: BTreeSet::new(),
            running: None,
            space: 0,
            console: String::new(),
            console_entries: 1 << 14,
            writers: Vec::new(),
            is_open: false,
            floating: 0,
            owner: None,
            places: 0,
            kept: BTreeMap::new(),
            stays: BTreeMap::new(),
            acknowledging_ticks: 0,
            looking_ticks: 0,
            loading_ticks: 0,
            waits: 0,
            shared: RefCell::default(),
            peer: None,
            rung: Vec::new(),
            is_limited: false,
            pool: BTreeMap::new(),
            copied: Vec::new(),
            restored: Vec::new(),
            forgotten: Vec::new(),
            seen: Seen::default(),
            records: Vec::new(),
        }
    }
}

impl FakeCore {
    /// The interrupt that is signalled, by number: pending or a level that is up, enabled, not active.
    #[must_use]
    pub fn signalled(&self) -> Option<u32> {
        let levels = [(Intid::VIRTUAL_TIMER, self.timer_ticks), (Intid::PHYSICAL_TIMER, self.periodic_ticks)];
        let up = levels.into_iter().filter(|(_, ticks)| *ticks <= self.now_ticks).map(|(intid, _)| intid.0);
        let can = |intid: &u32| self.enabled.contains(intid) && !self.active.contains(intid);
        up.chain(self.pending.iter().copied()).filter(can).min()
    }
}

impl KernelMachine for FakeCore {
    fn space(&self) -> u64 {
        self.space
    }

    fn load_space(&mut self, space: u64) {
        self.space = space;
        self.now_ticks += self.loading_ticks;
    }

    fn counter_ticks(&self) -> u64 {
        self.now_ticks
    }

    fn set_timer(&mut self, deadline_ticks: u64) {
        self.timer_ticks = deadline_ticks;
    }

    fn set_periodic(&mut self, deadline_ticks: u64) {
        self.periodic_ticks = deadline_ticks;
    }

    fn enable_interrupt(&mut self, intid: Intid) {
        self.enabled.insert(intid.0);
    }

    fn set_edge(&mut self, intid: Intid, edge: bool) {
        assert!(!self.enabled.contains(&intid.0), "{intid:?} is enabled already");
        if edge {
            self.edges.insert(intid.0);
        } else {
            self.edges.remove(&intid.0);
        }
    }

    fn disable_interrupt(&mut self, intid: Intid) {
        self.enabled.remove(&intid.0);
    }

    fn is_interrupted(&self) -> bool {
        self.signalled().is_some()
    }

    fn is_interrupted_behind_slice(&mut self) -> bool {
        let is_interrupted = self.is_interrupted();
        if !is_interrupted {
            self.now_ticks += self.looking_ticks;
        }
        is_interrupted
    }

    fn acknowledge(&mut self) -> Intid {
        assert_eq!(self.running, None, "the priority of the one before was not dropped");
        let Some(intid) = self.signalled() else { return Intid::NONE };
        if !self.ringing.contains(&intid) {
            self.pending.remove(&intid);
        }
        *self.acknowledged.entry(intid).or_default() += 1;
        self.active.insert(intid);
        self.running = Some(intid);
        self.now_ticks += self.acknowledging_ticks;
        Intid(intid)
    }

    fn drop_priority(&mut self, intid: Intid) {
        assert_eq!(self.running.take(), Some(intid.0), "only the running priority is dropped");
    }

    fn deactivate(&mut self, intid: Intid) {
        assert!(self.active.remove(&intid.0), "{intid:?} is not active");
    }

    fn write_console(&mut self, text: &[u8]) {
        self.console.extend(text.iter().copied().map(char::from));
    }

    fn console_entries(&self) -> u64 {
        self.console_entries
    }

    fn write_writer(&mut self, writer: u16) {
        self.writers.push((writer, self.console.len()));
    }

    fn open_floating_point(&mut self) {
        self.is_open = true;
    }

    fn floating_point_owner(&self) -> Option<u16> {
        self.owner
    }

    fn load_floating_point(&mut self, thread: u16, is_kept: bool) {
        assert!(self.is_open, "the kernel uses what is closed");
        if let Some(other) = self.owner.filter(|owner| *owner != thread) {
            self.kept.insert(other, self.floating);
        }
        self.floating = if is_kept { self.kept.get(&thread).copied().unwrap_or(0) } else { 0 };
        self.owner = Some(thread);
    }

    fn floating_point_stay(&self, thread: u16) -> Option<u64> {
        (thread < self.places).then(|| self.stays.get(&thread).copied().unwrap_or(0))
    }

    fn set_floating_point_stay(&mut self, thread: u16, stay: u64) {
        self.stays.insert(thread, stay);
    }

    fn pool_word(&self, page: u32, index: u16) -> u64 {
        self.pool.get(&(page, index)).copied().unwrap_or(0)
    }

    fn set_pool_word(&mut self, page: u32, index: u16, word: u64) {
        self.pool.insert((page, index), word);
    }

    fn clear_page(&mut self, page: u32) {
        self.pool.retain(|(one, _), _| *one != page);
    }

    fn copy_page(&mut self, to: u32, from: u32) {
        self.clear_page(to);
        let of = self.pool.range((from, 0)..=(from, u16::MAX)).map(|((_, index), word)| ((to, *index), *word));
        let words: Vec<_> = of.collect();
        self.pool.extend(words);
    }

    fn copy_image(&mut self, to: u32, physical: u64) {
        self.clear_page(to);
        self.copied.push((to, physical));
    }

    fn restore_page(&mut self, to: u64, from: Option<u64>) {
        self.restored.push((to, from));
    }

    fn forget(&mut self, asid: u16, address: u64) {
        self.forgotten.push((asid, Some(address)));
    }

    fn forget_all(&mut self, asid: u16) {
        if self.space >> 48 == u64::from(asid) {
            self.space = 0;
        }
        self.forgotten.push((asid, None));
    }

    /// Moves the counter to the next date.
    fn wait_for_interrupt(&mut self) {
        self.waits += 1;
        assert!(self.waits < MOST_WAITS, "the core turns instead of waiting");
        if self.signalled().is_none() {
            let dates = [self.timer_ticks, self.periodic_ticks].into_iter().filter(|ticks| *ticks > self.now_ticks);
            self.now_ticks = dates.min().filter(|ticks| *ticks != u64::MAX).expect("nothing would end this wait");
        }
    }

    fn load_shared(&self, address: u64) -> u64 {
        if let Some(peer) = self.peer {
            peer(&mut self.shared.borrow_mut());
        }
        self.shared.borrow().get(&address).copied().unwrap_or(0)
    }

    fn store_shared(&self, address: u64, word: u64) {
        self.shared.borrow_mut().insert(address, word);
    }

    fn ring(&mut self, doorbell: u32) -> bool {
        self.rung.push(doorbell);
        !self.is_limited
    }

    fn seen(&mut self) -> Option<&mut Seen> {
        Some(&mut self.seen)
    }

    fn record(&mut self, kind: u16, small: u32, first: u64, second: u64) {
        let time_ticks = self.now_ticks;
        self.records.push(TraceRecord { time_ticks, kind, small, first, second, ..TraceRecord::default() });
    }
}
