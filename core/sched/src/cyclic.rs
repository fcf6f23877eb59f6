//! Time tables: a major frame of windows (minor frames) that repeats on an absolute grid (`real-time.md` 3.6; SG-50).
//!
//! A table owns no time. It is a gate above the servers: a server with a window gate may run only while one of its
//! windows is open. Where a window begins is computed from the origin and never from where the last one ended, so a late
//! entry shortens that window alone and the rounds do not drift (ARINC-02).
//!
//! Rejected: simulating a table with budgets. Budgets drift against each other, and the supply in a window would depend
//! on what ran before it.

use crate::budget::MAX_PERIOD_TICKS;

/// Most windows of a table.
pub const MAX_WINDOWS: usize = 32;
/// Windows are named by numbers below this, so that a gate is a bit set.
pub const MAX_WINDOW_NAMES: u8 = 64;

/// One minor frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Start within the major frame.
    pub offset_ticks: u64,
    /// Length.
    pub length_ticks: u64,
    /// Name: the bit that opens gates. Several windows of one partition share a name.
    pub name: u8,
}

/// Why a table was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The major frame is empty or longer than [`MAX_PERIOD_TICKS`].
    MajorFrame,
    /// More than [`MAX_WINDOWS`] windows, or none.
    WindowCount,
    /// The window with this number is empty, ends after the major frame, or its name is too large.
    Window(usize),
    /// The window with this number begins before the one in front of it ends.
    Overlap(usize),
}

/// What the table says about an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Name of the open window; `None` between windows.
    pub window: Option<u8>,
    /// When that changes, always later than the instant asked about.
    pub until_ticks: u64,
}

/// A checked table.
#[derive(Clone, Debug)]
pub struct CyclicTable {
    origin_ticks: u64,
    major_ticks: u64,
    windows: [Window; MAX_WINDOWS],
    count: usize,
}

impl CyclicTable {
    /// Checks a table whose first major frame begins at `origin_ticks`.
    ///
    /// # Errors
    ///
    /// When windows are empty, out of order, overlap, or leave the major frame.
    pub fn new(origin_ticks: u64, major_ticks: u64, windows: &[Window]) -> Result<Self, TableError> {
        if major_ticks == 0 || major_ticks > MAX_PERIOD_TICKS {
            return Err(TableError::MajorFrame);
        }
        if windows.is_empty() || windows.len() > MAX_WINDOWS {
            return Err(TableError::WindowCount);
        }
        let mut table = [Window::default(); MAX_WINDOWS];
        let mut free_from_ticks = 0;
        for (number, (place, window)) in (0..MAX_WINDOWS).zip(table.iter_mut().zip(windows)) {
            let end_ticks = window.offset_ticks.saturating_add(window.length_ticks);
            if window.length_ticks == 0 || end_ticks > major_ticks || window.name >= MAX_WINDOW_NAMES {
                return Err(TableError::Window(number));
            }
            if window.offset_ticks < free_from_ticks {
                return Err(TableError::Overlap(number));
            }
            free_from_ticks = end_ticks;
            *place = *window;
        }
        Ok(Self { origin_ticks, major_ticks, windows: table, count: windows.len() })
    }

    /// When the major frame of an instant ends: later than the instant, and the only moment at which another table may take over.
    #[cfg(not(target_os = "none"))]
    #[must_use]
    pub fn frame_end_ticks(&self, now: u64) -> u64 {
        let Some(since_ticks) = now.checked_sub(self.origin_ticks) else {
            return self.origin_ticks;
        };
        let offset = since_ticks.checked_rem(self.major_ticks).unwrap_or(0);
        now.saturating_sub(offset).saturating_add(self.major_ticks)
    }

    /// The window of an instant and its end. The answer depends on the instant alone, not on earlier questions.
    ///
    /// One division and a walk over the windows; the scheduler asks once per boundary and keeps the answer until then.
    #[must_use]
    pub fn slot(&self, now: u64) -> Slot {
        let Some(since_ticks) = now.checked_sub(self.origin_ticks) else {
            return Slot { window: None, until_ticks: self.origin_ticks };
        };
        let offset = since_ticks.checked_rem(self.major_ticks).unwrap_or(0);
        let frame_ticks = now.saturating_sub(offset);
        for window in self.windows.iter().take(self.count) {
            let end_ticks = window.offset_ticks.saturating_add(window.length_ticks);
            if offset < window.offset_ticks {
                return Slot { window: None, until_ticks: frame_ticks.saturating_add(window.offset_ticks) };
            }
            if offset < end_ticks {
                return Slot { window: Some(window.name), until_ticks: frame_ticks.saturating_add(end_ticks) };
            }
        }
        Slot { window: None, until_ticks: frame_ticks.saturating_add(self.major_ticks) }
    }
}
