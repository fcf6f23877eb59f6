//! The table of windows, and the word in which stock Linux says which latency task it wants.

use super::layout::{
    FIRST_SPECIAL, LATENCY, MOST_SERVERS, MOST_THREAD_PRIORITY, MOST_WINDOWS, PAGE, SHARED_FIRST, WINDOW_TABLE,
    WINDOW_TABLE_BYTES, WINDOWED, WISH, half, word,
};
use super::plan::Plan;
use crate::code::Code;
use crate::finding::Findings;

/// Compares the table with itself and with the servers.
pub(super) fn check(page: &[u8], plan: &Plan, findings: &mut Findings) -> Option<()> {
    let table = page.get(WINDOW_TABLE..WINDOW_TABLE + WINDOW_TABLE_BYTES)?;
    let (major, count, interrupt) = (word(table, 0)?, half(table, 8)?, half(table, 12)?);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let (mut free_from, mut is_good, mut served) = (0, count <= MOST_WINDOWS, [false; MOST_SERVERS]);
    for place in 0..MOST_WINDOWS {
        let start = 16 + 24 * place;
        let entry = table.get(start..start + 24)?;
        if place >= count {
            is_good &= entry.iter().all(|byte| *byte == 0);
            continue;
        }
        let (offset, length, server, reserved) = (word(entry, 0)?, word(entry, 8)?, half(entry, 16)?, half(entry, 20)?);
        let end = offset.checked_add(length).filter(|end| *end <= major);
        let is_windowed = plan.kinds.get(server as usize) == Some(&WINDOWED);
        is_good &= length != 0 && offset >= free_from && end.is_some() && reserved == 0 && is_windowed;
        free_from = end.unwrap_or(u64::MAX);
        if let Some(one) = served.get_mut(server as usize) {
            *one = true;
        }
    }
    let is_table = (count == 0) == (major == 0) && (count != 0 || interrupt == 0);
    let all_served = plan.kinds.iter().zip(served).all(|(kind, served)| (*kind == WINDOWED) == served);
    findings.require(is_good && is_table && all_served, Code::WorldWindows, || {
        String::from("the table of windows has a window that is empty, overlaps, leaves its round or is of no server with windows, or such a server has none")
    });
    let is_shared = (SHARED_FIRST..FIRST_SPECIAL).contains(&interrupt);
    let is_own = !plan.interrupts.contains(&interrupt)
        && !plan.urgent.contains(&interrupt)
        && plan.channels.iter().all(|one| one.interrupt != interrupt);
    // The monitor at EL2 has every interrupt that its partitions do not.
    let is_heard = plan.entry != 0 && plan.cores.is_none();
    findings.require(interrupt == 0 || (is_shared && is_own && is_heard), Code::WorldInterrupt, || {
        format!("INTID {interrupt} of the windows is no shared one, is the payload's, an urgent one or a channel's too, or nobody hears it")
    });
    check_wish(page, plan, findings)
}

/// The page of the wish is memory that nothing else lies in, and priorities want latency tasks.
fn check_wish(page: &[u8], plan: &Plan, findings: &mut Findings) -> Option<()> {
    let mut wanted: Vec<(u32, u32)> = Vec::new();
    let mut is_good = true;
    for place in 0..MOST_SERVERS {
        let (from, to) = (half(page, WISH + 8 + 8 * place)?, half(page, WISH + 12 + 8 * place)?);
        if (from, to) == (0, 0) {
            continue;
        }
        let is_range = 1 <= from && from <= to && to <= MOST_THREAD_PRIORITY;
        is_good &= is_range && plan.kinds.get(place) == Some(&LATENCY);
        is_good &= wanted.iter().all(|(first, last)| to < *first || *last < from);
        wanted.push((from, to));
    }
    let (start, end) = (plan.wish, plan.wish.saturating_add(PAGE));
    let is_behind = plan.entry != 0
        && start.is_multiple_of(PAGE)
        && start >= plan.window.saturating_add(plan.window_bytes)
        && plan.channels.iter().all(|one| end <= one.start || one.end <= start);
    let has_page = if start == 0 { wanted.is_empty() } else { is_behind && !wanted.is_empty() };
    findings.require(is_good && has_page, Code::WorldWish, || {
        format!("the page {start:#x} of the wish is not behind the other world's memory, or a priority wants no latency task, or two")
    });
    Some(())
}
