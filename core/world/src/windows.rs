//! Cyclic mode: windows of time in which a server of the non-secure world is raised, and what disturbs them (SG-50 to SG-52).
//!
//! The table is that of `core/sched`: windows lie on an absolute grid, so that a late entry shortens one window and no other, and a table whose windows
//! overlap is refused. A server of the kind [`crate::flash::ServerKind::Window`] may run while one of its windows is open, at its priority. That is the black
//! box; *integrated* scheduling announces each start to the world besides, by an interrupt that the plan spares ([`Change::starts`]), so that its own
//! periodic work begins there.
//!
//! A window is not exclusive: handlers of interrupts and more important tasks of the payload run in it too. How long that was, by window, is
//! recorded here and compared with what the analysis says ([`Disturbance`]). The server of a window says when it runs, by the hook of the switch.
//!
//! Rejected: one server whose priority is moved at each boundary. A kernel changes priorities in tasks alone, so each boundary would cost two
//! switches more; another server of the same world is ready or not, which the handler of the timer decides.
//!
//! Rejected: windows as budgets on the grid of accounts. What a server got would depend on what ran before its window.

use crate::flash::{MOST_SERVERS, WindowsPlan};
use bulkhead_sched::cyclic::{CyclicTable, MAX_WINDOWS, TableError, Window};

/// What the caller has to do at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The server that gets its own priority back, first.
    pub lower: Option<usize>,
    /// The server that is raised.
    pub raise: Option<usize>,
    /// A window begins: in integrated mode the world is told.
    pub starts: bool,
}

/// What one window of the table has suffered, over all rounds so far in all of which the world could run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Disturbance {
    /// Rounds in which the window ended.
    pub rounds: u64,
    /// The longest time from its start on the grid to the first instant at which its server ran; its length if it never did.
    pub latest_start_ticks: u64,
    /// The most of its length that its server did not have.
    pub most_lost_ticks: u64,
}

/// The window that is open, or the gap.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Its place in the table, and its server.
    window: Option<(usize, usize)>,
    from_ticks: u64,
    until_ticks: u64,
    first_run_ticks: Option<u64>,
    ran_ticks: u64,
    /// The world could run in it from its start on.
    is_counted: bool,
}

/// The windows of one world.
#[derive(Clone, Debug)]
pub struct Windows {
    table: CyclicTable,
    windows: [Window; MAX_WINDOWS],
    origin_ticks: u64,
    major_ticks: u64,
    open: Open,
    /// Until when time was looked at.
    seen_ticks: u64,
    running: Option<usize>,
    has_world: bool,
    record: [Disturbance; MAX_WINDOWS],
}

impl Windows {
    /// Checks a table whose windows are named by their servers' places in the plan; its first round begins at `origin_ticks`. Before, no
    /// window is open.
    ///
    /// # Errors
    ///
    /// When windows are empty, out of order, overlap, leave the major frame, or name no server.
    pub fn new(origin_ticks: u64, major_ticks: u64, windows: &[Window]) -> Result<Self, TableError> {
        let table = CyclicTable::new(origin_ticks, major_ticks, windows)?;
        if let Some(wrong) = windows.iter().position(|window| usize::from(window.name) >= MOST_SERVERS) {
            return Err(TableError::Window(wrong));
        }
        let mut copy = [Window::default(); MAX_WINDOWS];
        copy.iter_mut().zip(windows).for_each(|(to, from)| *to = *from);
        let open = Open {
            window: None,
            from_ticks: 0,
            until_ticks: origin_ticks,
            first_run_ticks: None,
            ran_ticks: 0,
            is_counted: false,
        };
        Ok(Self {
            table,
            windows: copy,
            origin_ticks,
            major_ticks,
            open,
            seen_ticks: 0,
            running: None,
            has_world: true,
            record: [Disturbance::default(); MAX_WINDOWS],
        })
    }

    /// The table of a world plan; its first round begins at `origin_ticks`. `None` when there is none, or it makes no sense.
    #[must_use]
    pub fn of_plan(origin_ticks: u64, plan: &WindowsPlan) -> Option<Self> {
        let used = plan.windows.get(..usize::try_from(plan.count).ok()?)?;
        let mut windows = [Window::default(); MAX_WINDOWS];
        for (to, from) in windows.iter_mut().zip(used) {
            let name = u8::try_from(from.server).ok()?;
            *to = Window { offset_ticks: from.offset_ticks, length_ticks: from.length_ticks, name };
        }
        Self::new(origin_ticks, plan.major_ticks, windows.get(..used.len())?).ok()
    }

    /// The world may run from now on, or may not: it is loaded, suspended or off. Windows in which it could not are not recorded.
    pub fn set_world(&mut self, may_run: bool) {
        self.has_world = may_run;
        self.open.is_counted = false;
    }

    /// The next boundary: the caller's timer is to ring then.
    #[must_use]
    pub const fn next_event_ticks(&self) -> u64 {
        self.open.until_ticks
    }

    /// The server whose window is open.
    #[must_use]
    pub fn raised(&self) -> Option<usize> {
        self.open.window.map(|(_, server)| server)
    }

    /// From now on this server runs the world, or none. To be called by the hook of every switch, after [`Windows::elapse`].
    pub fn switch(&mut self, server: Option<usize>, now: u64) {
        self.charge(now);
        self.running = server;
    }

    /// Time has passed. Returns what changes if a boundary was reached. Windows that were missed altogether are recorded as lost, up to one round
    /// of them; nothing is raised for them afterwards.
    pub fn elapse(&mut self, now: u64) -> Option<Change> {
        if now < self.open.until_ticks {
            self.charge(now);
            return None;
        }
        let before = self.raised();
        for _ in 0..MAX_WINDOWS.saturating_mul(2) {
            if now < self.open.until_ticks {
                break;
            }
            let boundary_ticks = self.open.until_ticks;
            self.charge(boundary_ticks);
            self.close();
            self.begin(boundary_ticks);
        }
        if now >= self.open.until_ticks {
            // More than a round late: what was between is counted nowhere, and the grid is as it was.
            self.begin(now);
        }
        self.charge(now);
        let raise = self.raised();
        Some(Change { lower: before, raise, starts: raise.is_some() })
    }

    /// What the window at this place of the table has suffered.
    #[must_use]
    pub fn disturbance(&self, window: usize) -> Option<&Disturbance> {
        self.record.get(window)
    }

    /// The slot of an instant is open from then on.
    fn begin(&mut self, at_ticks: u64) {
        let slot = self.table.slot(at_ticks);
        let offset = at_ticks.saturating_sub(self.origin_ticks).checked_rem(self.major_ticks).unwrap_or(0);
        let is_here = |window: &Window| {
            window.offset_ticks <= offset && offset < window.offset_ticks.saturating_add(window.length_ticks)
        };
        let place = self.windows.iter().position(is_here).filter(|_| slot.window.is_some());
        let window = place.and_then(|place| slot.window.map(|server| (place, usize::from(server))));
        self.open = Open {
            window,
            from_ticks: at_ticks,
            until_ticks: slot.until_ticks,
            first_run_ticks: None,
            ran_ticks: 0,
            is_counted: self.has_world,
        };
        self.seen_ticks = at_ticks;
    }

    /// Counts what the open window's server had until now.
    fn charge(&mut self, now: u64) {
        let from_ticks = self.seen_ticks;
        self.seen_ticks = self.seen_ticks.max(now);
        if now > from_ticks && self.running.is_some() && self.running == self.raised() {
            self.open.first_run_ticks = self.open.first_run_ticks.or(Some(from_ticks));
            self.open.ran_ticks = self.open.ran_ticks.saturating_add(now.saturating_sub(from_ticks));
        }
    }

    fn close(&mut self) {
        let counted = self.open.window.filter(|_| self.open.is_counted);
        let Some(record) = counted.and_then(|(place, _)| self.record.get_mut(place)) else { return };
        let length_ticks = self.open.until_ticks.saturating_sub(self.open.from_ticks);
        let first_ticks = self.open.first_run_ticks.unwrap_or(self.open.until_ticks);
        record.rounds = record.rounds.saturating_add(1);
        record.latest_start_ticks = record.latest_start_ticks.max(first_ticks.saturating_sub(self.open.from_ticks));
        record.most_lost_ticks = record.most_lost_ticks.max(length_ticks.saturating_sub(self.open.ran_ticks));
    }
}
