//! Machine and time of the tests.

use bulkhead_kernel_abi::Code;
use bulkhead_objects::{Claims, Machine, NEVER, Pages, Time};

/// One server; temporal capability n is thread n's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake {
    pub(crate) now: u64,
    /// Permanent numbers for the scheduler.
    permanent: Vec<u64>,
    /// Number of the one that was switched to last, while it runs.
    current: Option<(u16, u64)>,
    /// Temporal capabilities without time.
    pub(crate) empty: u64,
    /// Times that somebody got the core.
    pub(crate) switches: u64,
    /// The earliest date of the server.
    pub(crate) date_ticks: u64,
}

impl Fake {
    /// Threads of the scheduler and of tasks with these priorities.
    pub(crate) fn new(priorities: &[u8]) -> Self {
        let tasks = priorities.iter().map(|priority| 2 * u64::from(*priority) + 4);
        let permanent = std::iter::once(1).chain(tasks).collect();
        Self { now: 10, permanent, date_ticks: NEVER, ..Default::default() }
    }
}

/// There is no pool.
impl Pages for Fake {
    fn word(&self, _: u32, _: u16) -> u64 {
        0
    }
    fn set_word(&mut self, _: u32, _: u16, _: u64) {}
    fn clear(&mut self, _: u32) {}
    fn copy(&mut self, _: u32, _: u32) {}
    fn copy_image(&mut self, _: u32, _: u64) {}
    fn forget(&mut self, _: u16, _: u64) {}
    fn forget_all(&mut self, _: u16) {}
}

/// Nobody delegates, and there is no band.
impl Claims for Fake {
    fn tell_parent_later(&mut self, _: u16, _: Option<u16>) {
        unreachable!("no scheduler is below another one here");
    }
    fn delegate(&mut self, _: u16, _: u16, _: u64, _: u64, _: u64) -> Result<(), Code> {
        Err(Code::NoTime)
    }
    fn transfer(&mut self, _: u16, _: u16, _: u64, _: u64) -> Result<(), Code> {
        Err(Code::NoTime)
    }
    fn merge(&mut self, _: u16, _: u16, _: u64) -> Result<(), Code> {
        Err(Code::NoTime)
    }
    fn create_claim(&mut self, _: u16, _: u16) -> Result<(), Code> {
        Err(Code::Full)
    }
    fn set_permanent(&mut self, _: u16, _: u64) -> Result<(), Code> {
        Err(Code::BadArgument)
    }
    fn claim(&self, _: u16) -> Option<[u64; 3]> {
        None
    }
    fn create_server(&mut self, _: u16, _: [u64; 2], _: u64) -> Result<u16, Code> {
        Err(Code::NotAdmitted)
    }
    fn set_server(&mut self, _: u16, _: [u64; 2], _: u64) -> Result<(), Code> {
        Err(Code::Denied)
    }
    fn give_back(&mut self, _: u64) -> bool {
        false
    }
    fn claims_on(&self, _: u16) -> u64 {
        0
    }
    fn drop_claim(&mut self, _: u16) -> bool {
        false
    }
    fn free_claims(&self) -> u64 {
        0
    }
    fn destroy_server(&mut self, _: u16, _: u64) -> Result<(), Code> {
        Err(Code::Denied)
    }
    fn server(&self, _: u16) -> Option<[u64; 3]> {
        None
    }
}

impl Machine for Fake {
    fn now_ticks(&self) -> u64 {
        self.now
    }
    fn is_interrupted(&self) -> bool {
        false
    }
    fn print(&mut self, _: u16, _: &[u8]) -> bool {
        true
    }
    fn build_and_frequency(&self) -> (u64, u64) {
        (0, 62_500_000)
    }
    fn remote_send(&mut self, _: u16, _: u16, _: u64) -> Result<(), Code> {
        Err(Code::BadCapability)
    }
    fn set_masked(&mut self, _: u32, _: bool) {}
    fn deactivate(&mut self, _: u32) {}
    fn restore(&mut self, _: u16, _: u32) -> bool {
        false
    }
}

impl Time for Fake {
    fn root(&self, tcap: u16) -> Option<u16> {
        (usize::from(tcap) < self.permanent.len()).then_some(0)
    }
    fn fixed_root(&self, tcap: u16) -> Option<u16> {
        self.root(tcap)
    }
    fn usable_ticks(&mut self, tcap: u16, _: u64) -> u64 {
        if self.empty >> tcap & 1 == 0 { 1_000 } else { 0 }
    }
    fn outranks(&mut self, tcap: u16, other: u16, now: u64) -> bool {
        let number = |tcap: u16| self.permanent[usize::from(tcap)];
        let others = self.current.filter(|(current, _)| *current == other).map_or(number(other), |(_, number)| number);
        let is_so = tcap == other || number(tcap) <= others;
        is_so && self.usable_ticks(tcap, now) != 0
    }
    fn filled(&mut self, _: u16, tcap: u16, _: u64) {
        self.switches += 1;
        self.current = self.current.filter(|(current, _)| *current == tcap);
    }
    fn emptied(&mut self, _: u16, _: u64) {
        self.current = None;
    }
    fn asks(&mut self, tcap: u16, now: u64) -> bool {
        self.usable_ticks(tcap, now) != 0
    }
    fn set_priority(&mut self, tcap: u16, _: u16, priority: u64) -> Result<(), Code> {
        self.current = (priority != 0).then_some((tcap, priority));
        Ok(())
    }
    fn exchange(&mut self, _: u16, _: [u16; 2], _: (u16, u64), _: u64) -> bool {
        false
    }
    fn hand_over(&mut self, _: u16, _: [u16; 2], _: u64) -> Option<bool> {
        None
    }
    fn set_date(&mut self, _: u16, date_ticks: u64) {
        self.date_ticks = date_ticks;
    }
    fn due(&self, now: u64) -> Option<u16> {
        (self.date_ticks <= now).then_some(0)
    }
    fn has_budget(&mut self, _: u16, _: u64) -> bool {
        true
    }
    fn request(&mut self, _: u16, _: u16, _: u64) -> bool {
        false
    }
    fn complete(&mut self, _: u16, _: u16, _: u64) -> bool {
        false
    }
}
