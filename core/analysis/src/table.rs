//! Windows of a time table: validity, supply and gaps (`real-time.md` 3.6; SG-50).

use crate::arithmetic::{divide_down, least, remainder};
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
}

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
        Self { major_ticks, windows: usable.filter(|(start, end)| start < end).collect() }
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
    pub fn open_in_frame(&self) -> u64 {
        self.open_until(self.major_ticks)
    }

    /// Time in windows from the origin until `ticks`.
    fn open_until(&self, ticks: u64) -> u64 {
        let total: u64 = self.windows.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
        let inside = remainder(ticks, self.major_ticks);
        let part: u64 = self.windows.iter().map(|(start, end)| inside.min(*end).saturating_sub(*start)).sum();
        divide_down(ticks, self.major_ticks).saturating_mul(total).saturating_add(part)
    }

    /// Least time in windows in any window of `window_ticks`. The least is reached when the window begins at the end of a
    /// table window or ends at the start of one, because in between the overlap is a straight line.
    #[must_use]
    pub fn supply(&self, window_ticks: u64) -> u64 {
        self.overlaps(window_ticks).min().unwrap_or(0)
    }

    /// Most time in windows in any window of `window_ticks`, by the same argument.
    #[must_use]
    pub fn most(&self, window_ticks: u64) -> u64 {
        self.overlaps(window_ticks).max().unwrap_or(0)
    }

    /// Time in windows for every start that matters.
    fn overlaps(&self, window_ticks: u64) -> impl Iterator<Item = u64> {
        let frame = self.major_ticks;
        let late = remainder(window_ticks, frame);
        let edges = self.windows.iter().flat_map(|(start, end)| [*start, *end]);
        let starts = edges.flat_map(move |edge| {
            let before = edge.saturating_add(frame).saturating_sub(late);
            [remainder(edge, frame), remainder(before, frame)]
        });
        starts.map(move |start: u64| {
            self.open_until(start.saturating_add(window_ticks)).saturating_sub(self.open_until(start))
        })
    }

    /// Shortest window of time in which `ticks` of open windows are certain; `None` without windows. Every major frame gives
    /// the same, so only the last one is searched.
    #[must_use]
    pub fn least_window(&self, ticks: u64) -> Option<u64> {
        let total = self.open_until(self.major_ticks);
        if ticks == 0 || total == 0 {
            return (ticks == 0).then_some(0);
        }
        let frames = divide_down(ticks.saturating_sub(1), total);
        let rest = ticks.saturating_sub(frames.saturating_mul(total));
        let inside = least(self.major_ticks.saturating_mul(2), |window| self.supply(window) >= rest)?;
        Some(frames.saturating_mul(self.major_ticks).saturating_add(inside))
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
