//! The fake of time.

use super::Fake;
use bulkhead_objects::Time;

impl Time for Fake {
    fn root(&self, tcap: u16) -> Option<u16> {
        self.roots.get(usize::from(tcap)).copied()
    }
    fn usable_ticks(&mut self, tcap: u16, _: u64) -> u64 {
        self.usable.get(usize::from(tcap)).copied().unwrap_or(0)
    }
    fn outranks(&mut self, tcap: u16, other: u16, _: u64) -> bool {
        let rank = |tcap: u16| self.ranks.get(usize::from(tcap)).copied().unwrap_or(u64::MAX);
        self.usable.get(usize::from(tcap)).is_some_and(|left| *left != 0)
            && (tcap == other || rank(tcap) <= rank(other))
    }
    fn filled(&mut self, server: u16, tcap: u16, _: u64) {
        assert_eq!(self.root(tcap), Some(server), "the time of a position is its server's");
        self.filled[usize::from(server)] = Some(tcap);
    }
    fn emptied(&mut self, server: u16, _: u64) {
        self.filled[usize::from(server)] = None;
    }
    fn set_priority(&mut self, tcap: u16, scheduler: u16, priority: u64) {
        self.priorities.push((tcap, scheduler, priority));
    }
    fn set_date(&mut self, server: u16, date_ticks: u64) {
        self.dates[usize::from(server)] = date_ticks;
    }
    fn due(&self, now: u64) -> Option<u16> {
        (0..).zip(&self.dates).find(|(_, date)| **date <= now).map(|(server, _)| server)
    }
    fn has_budget(&mut self, _: u16, _: u64) -> bool {
        self.has_budget
    }
    fn request(&mut self, server: u16, client: u16, _: u64) -> bool {
        self.requests.push((server, client, true));
        true
    }
    fn complete(&mut self, server: u16, client: u16, _: u64) -> bool {
        let is_under_way = self.requests.contains(&(server, client, true));
        self.requests.retain(|request| *request != (server, client, true));
        is_under_way
    }
}
