//! Windows of a time table: validity, supply and gaps (`real-time.md` 3.6; SG-50).

use crate::arithmetic::{divide_down, remainder};
use alloc::vec::Vec;

/// A window of a major frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start within the major frame.
    pub offset_ticks: u64,
    /// Length.
    pub length_ticks: u64,
    /// Whose window it is.
    pub owner: usize,
}

impl Window {
    /// End within the major frame.
    #[must_use]
    pub const fn end_ticks(&self) -> u64 {
        self.offset_ticks.saturating_add(self.length_ticks)
    }
}

/// What is wrong with a table. The number is the window's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFault {
    /// The window is empty.
    Empty(usize),
    /// It ends after the major frame.
    Outside(usize),
    /// It begins before the one in front of it ends.
    Overlap(usize),
    /// The time in front of it is shorter than a switch with the longest passage that cannot be pre-empted; the window loses
    /// that many ticks.
    NoGap {
        /// The window.
        window: usize,
        /// What it loses.
        lost_ticks: u64,
    },
}

/// A demand of an owner: its period has to divide the major frame, and its duration has to lie in every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose.
    pub owner: usize,
    /// Period.
    pub period_ticks: u64,
    /// Duration in each.
    pub duration_ticks: u64,
}

/// What is wrong with a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareFault {
    /// The period does not divide the major frame.
    Period,
    /// In the period that starts here, the windows add up to less than the duration.
    Short {
        /// Start of the period in the major frame.
        period_start_ticks: u64,
        /// What the windows give.
        given_ticks: u64,
    },
}

/// Every fault of a table; `passage_ticks` is what a switch takes at worst.
#[must_use]
pub fn faults(major_ticks: u64, windows: &[Window], passage_ticks: u64) -> Vec<TableFault> {
    let mut faults = Vec::new();
    let mut free_from_ticks = 0;
    for (number, window) in windows.iter().enumerate() {
        if window.length_ticks == 0 {
            faults.push(TableFault::Empty(number));
        }
        if window.end_ticks() > major_ticks {
            faults.push(TableFault::Outside(number));
        }
        if window.offset_ticks < free_from_ticks {
            faults.push(TableFault::Overlap(number));
        }
        free_from_ticks = free_from_ticks.max(window.end_ticks());
    }
    if faults.is_empty() {
        let lost = windows
            .iter()
            .enumerate()
            .map(|(number, _)| (number, lost_ticks(major_ticks, windows, number, passage_ticks)));
        faults.extend(
            lost.filter(|(_, lost)| *lost > 0).map(|(window, lost_ticks)| TableFault::NoGap { window, lost_ticks }),
        );
    }
    faults
}

/// What a window loses because the one in front of it ends too close to it. The same owner loses nothing.
fn lost_ticks(major_ticks: u64, windows: &[Window], number: usize, passage_ticks: u64) -> u64 {
    let Some(window) = windows.get(number) else {
        return 0;
    };
    let before = number.checked_sub(1).map_or_else(|| windows.last(), |place| windows.get(place));
    let Some(before) = before.filter(|before| before.owner != window.owner) else {
        return 0;
    };
    let wrapped_ticks = if number == 0 { major_ticks } else { 0 };
    let gap_ticks = window.offset_ticks.saturating_add(wrapped_ticks).saturating_sub(before.end_ticks());
    passage_ticks.saturating_sub(gap_ticks)
}

/// What is wrong with a share, first in time; windows count in full.
#[must_use]
pub fn share_fault(major_ticks: u64, windows: &[Window], share: &Share) -> Option<ShareFault> {
    if share.period_ticks == 0 || !major_ticks.is_multiple_of(share.period_ticks) {
        return Some(ShareFault::Period);
    }
    let table = Table::of_owner(major_ticks, windows, share.owner, 0);
    (0..divide_down(major_ticks, share.period_ticks)).find_map(|number| {
        let start = number.saturating_mul(share.period_ticks);
        let given_ticks =
            table.open_until(start.saturating_add(share.period_ticks)).saturating_sub(table.open_until(start));
        (given_ticks < share.duration_ticks).then_some(ShareFault::Short { period_start_ticks: start, given_ticks })
    })
}

/// The windows of one owner, for ever repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    major_ticks: u64,
    /// Starts and ends, in order, disjoint, inside the major frame.
    windows: Vec<(u64, u64)>,
    /// Open time in a frame before each window.
    before: Vec<u64>,
    /// Open time in a frame.
    open_ticks: u64,
}

/// Looking a place up costs about so much more than a division.
const LOOK_STEPS: usize = 4;

impl Table {
    /// The windows of `owner` in a table without faults. A window that follows another owner's too closely begins later:
    /// `passage_ticks` after the end of that one.
    #[must_use]
    pub fn of_owner(major_ticks: u64, windows: &[Window], owner: usize, passage_ticks: u64) -> Self {
        let mine = windows.iter().enumerate().filter(|(_, window)| window.owner == owner);
        let usable = mine.map(|(number, window)| {
            let lost = lost_ticks(major_ticks, windows, number, passage_ticks);
            (window.offset_ticks.saturating_add(lost), window.end_ticks())
        });
        let windows: Vec<(u64, u64)> = usable.filter(|(start, end)| start < end).collect();
        let mut open_ticks = 0u64;
        let mut before = Vec::with_capacity(windows.len());
        for (start, end) in &windows {
            before.push(open_ticks);
            open_ticks = open_ticks.saturating_add(end.saturating_sub(*start));
        }
        Self { major_ticks, windows, before, open_ticks }
    }

    /// The major frame.
    #[must_use]
    pub const fn major_ticks(&self) -> u64 {
        self.major_ticks
    }

    /// Length of the only window of each major frame; `None` when there are several or none.
    #[must_use]
    pub fn only_window(&self) -> Option<u64> {
        match self.windows.as_slice() {
            [(start, end)] => Some(end.saturating_sub(*start)),
            _ => None,
        }
    }

    /// Time in windows in each major frame.
    #[must_use]
    pub const fn open_in_frame(&self) -> u64 {
        self.open_ticks
    }

    /// Steps of one look.
    pub(crate) fn size(&self) -> usize {
        self.windows.len().saturating_mul(LOOK_STEPS)
    }

    /// Time in windows from the origin until `ticks`.
    fn open_until(&self, ticks: u64) -> u64 {
        let inside = remainder(ticks, self.major_ticks);
        // The windows that begin before; the last of them may be open.
        let begun = self.windows.partition_point(|(start, _)| *start < inside);
        let part = match begun.checked_sub(1).and_then(|last| Some((self.windows.get(last)?, self.before.get(last)?))) {
            Some(((start, end), before)) => before.saturating_add(inside.min(*end).saturating_sub(*start)),
            None => 0,
        };
        divide_down(ticks, self.major_ticks).saturating_mul(self.open_ticks).saturating_add(part)
    }

    /// Least time in windows in any window of `window_ticks`. One that gets the least can be moved to the end of a table window:
    /// back through a gap, or on through a table window, it gets no more.
    #[must_use]
    pub fn supply(&self, window_ticks: u64) -> u64 {
        self.windows.iter().map(|(_, end)| self.overlap(*end, window_ticks)).min().unwrap_or(0)
    }

    /// Most time in windows in any window of `window_ticks`, which begins with a table window by the same argument.
    #[must_use]
    pub fn most(&self, window_ticks: u64) -> u64 {
        self.windows.iter().map(|(start, _)| self.overlap(*start, window_ticks)).max().unwrap_or(0)
    }

    /// Time in windows from `start` on.
    fn overlap(&self, start: u64, window_ticks: u64) -> u64 {
        self.open_until(start.saturating_add(window_ticks)).saturating_sub(self.open_until(start))
    }

    /// Shortest window of time in which `ticks` of open windows are certain; `None` without windows. The worst of all begins
    /// at the end of a table window; every major frame gives the same.
    #[must_use]
    pub fn least_window(&self, ticks: u64) -> Option<u64> {
        if ticks == 0 || self.open_ticks == 0 {
            return (ticks == 0).then_some(0);
        }
        let frames = divide_down(ticks.saturating_sub(1), self.open_ticks);
        let rest = ticks.saturating_sub(frames.saturating_mul(self.open_ticks));
        let from_end = |(number, (start, end)): (usize, &(u64, u64))| {
            let open = self.before.get(number)?.saturating_add(end.saturating_sub(*start)).saturating_add(rest);
            Some(self.instant_of(open)?.saturating_sub(*end))
        };
        let longest = self.windows.iter().enumerate().filter_map(from_end).max()?;
        Some(frames.saturating_mul(self.major_ticks).saturating_add(longest))
    }

    /// The instant at which windows have been open for `ticks`, at most two major frames of them.
    fn instant_of(&self, ticks: u64) -> Option<u64> {
        let (frame_ticks, ticks) = match ticks.checked_sub(self.open_ticks) {
            Some(rest) if rest > 0 => (self.major_ticks, rest),
            _ => (0, ticks),
        };
        let number = self.before.partition_point(|before| *before < ticks).checked_sub(1)?;
        let inside = ticks.saturating_sub(*self.before.get(number)?);
        Some(frame_ticks.saturating_add(self.windows.get(number)?.0).saturating_add(inside))
    }

    /// Longest time outside the windows; `None` without windows.
    #[must_use]
    pub fn longest_gap(&self) -> Option<u64> {
        let (first, last) = (self.windows.first()?, self.windows.last()?);
        let around = self.major_ticks.saturating_sub(last.1).saturating_add(first.0);
        let between = self.windows.iter().zip(self.windows.iter().skip(1));
        Some(between.map(|(left, right)| right.0.saturating_sub(left.1)).fold(around, u64::max))
    }
}
