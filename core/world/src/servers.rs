//! Which tasks of the payload may run the non-secure world now (SG-41, SG-44, SG-45, SG-50, SG-80 to SG-84, SG-86).
//!
//! The payload's kernel chooses the most important of them that is ready; here is who is ready. Budgets are counted elsewhere
//! ([`crate::overrun`]) and reported: used up, filled. So the published ITask, RTask and BTask, and the later latency tasks, are one table.
//!
//! Nobody suspends a server. What may not run any more waits at its own next turn: every interrupt of the payload brings the core back
//! to the server's own loop, which asks [`Servers::may_run`] before it gives the core away again. Rejected: a manager's task above all
//! of them, as SafeG 0.3 has, which costs two switches of tasks for each event.

use crate::flash::{MOST_SERVERS, PriorityPlan, ServerKind, ServerPlan, WishPlan};

/// Thread priorities of the non-secure world that want one latency task (SG-81).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// First priority, as that world counts.
    pub from: u32,
    /// Last priority.
    pub to: u32,
    /// Place of the latency task.
    pub server: u32,
}

/// What a world wants whose thread of this priority runs, for [`Servers::yielded`]: the first range that has it, else the background task
/// (SG-81).
#[must_use]
pub fn wanted_by_priority(ranges: &[PriorityRange], priority: u32) -> u64 {
    let range = ranges.iter().find(|range| range.from <= priority && priority <= range.to);
    range.map_or(u64::MAX, |range| u64::from(range.server))
}

/// The same of a word that is the other world's to write: any number, read once. What is no priority of a thread wants the background task
/// (SG-82).
#[must_use]
pub fn wanted_by_word(plan: &WishPlan, word: u64) -> u64 {
    let Some(priority) = u32::try_from(word).ok().filter(|priority| *priority <= MOST_PRIORITY) else {
        return u64::MAX;
    };
    let holds = |range: &PriorityPlan| range.from != 0 && range.from <= priority && priority <= range.to;
    plan.priorities.iter().zip(0..).find(|(range, _)| holds(range)).map_or(u64::MAX, |(_, server)| server)
}

/// The highest priority of a thread of Linux.
pub const MOST_PRIORITY: u32 = 99;

/// The servers of a plan, by what they are and what holds them back: a bit for each in every set, so that who is ready is a formula and no
/// loop. It is asked on the way of an urgent interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// In this order what a decision reads is in pairs: two instructions on the way of an urgent interrupt.
#[repr(C)]
pub struct Servers {
    interrupt: u32,
    /// An urgent interrupt started it, and its activation has not ended.
    active: u32,
    reserved: u32,
    /// The background servers, and that whose window is open.
    standing: u32,
    latency: u32,
    /// The latency task that the world wants to run in, or that an urgent interrupt wants, and all places behind it.
    wanted: u32,
    /// Its account is empty.
    used_up: u32,
    /// All that may run while switched on (SG-86): the background servers alone, or all.
    allowed: u32,
    background: u32,
    windowed: u32,
    /// An activation ends when the world says so.
    voluntary: u32,
    /// What the world's word wants, without what an interrupt raised.
    wish: u32,
    /// The world says by a word what it wants, and makes no call: what an interrupt raised ends with the budget.
    by_word: bool,
    /// The world may run at all: it is loaded, and nobody has suspended or ended it.
    has_world: bool,
    /// Those that may give the core to the world: follows from all of the above.
    ready: u32,
    count: usize,
}

impl Servers {
    /// No server, and no world to run.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            count: 0,
            interrupt: 0,
            reserved: 0,
            background: 0,
            latency: 0,
            windowed: 0,
            voluntary: 0,
            used_up: 0,
            active: 0,
            wanted: 0,
            wish: 0,
            by_word: false,
            standing: 0,
            allowed: u32::MAX,
            has_world: false,
            ready: 0,
        }
    }

    /// The servers of a plan, up to the first of an unknown kind.
    #[must_use]
    pub fn new(plan: &[ServerPlan; MOST_SERVERS]) -> Self {
        let mut servers = Self::none();
        for (place, server) in plan.iter().enumerate() {
            let kind = match server.kind {
                kind if kind == ServerKind::Interrupt as u32 => &mut servers.interrupt,
                kind if kind == ServerKind::Reserved as u32 => &mut servers.reserved,
                kind if kind == ServerKind::Background as u32 => &mut servers.background,
                kind if kind == ServerKind::Latency as u32 => &mut servers.latency,
                kind if kind == ServerKind::Window as u32 => &mut servers.windowed,
                _ => break,
            };
            *kind |= bit(place);
            servers.voluntary |= if server.voluntary != 0 { bit(place) } else { 0 };
            servers.count = place.saturating_add(1);
        }
        servers.standing = servers.background;
        servers
    }

    /// How many there are: those behind the last are none.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The servers that may give the core to the non-secure world, a bit for each.
    #[must_use]
    pub fn ready(&self) -> u32 {
        self.ready
    }

    /// The server may give the core to the non-secure world.
    #[must_use]
    pub fn may_run(&self, place: usize) -> bool {
        self.ready & bit(place) != 0
    }

    // Inline: as `fired`.
    #[inline(always)]
    fn decide(&mut self) {
        // The latency task that runs the world: from the wanted one downward the first that has budget (SG-83). If none, the background one.
        let latency = self.latency & !self.used_up & self.wanted;
        let wanting = self.interrupt & self.active | self.reserved | latency & latency.wrapping_neg();
        let all = self.standing | wanting & !self.used_up;
        self.ready = if self.has_world { all & self.allowed } else { 0 };
    }

    /// An urgent interrupt of this server arrived while the world did not run (SG-44): an activation begins, or goes on.
    // Inline: it is on the way of that interrupt, whose length is promised.
    #[inline(always)]
    pub fn fired(&mut self, place: usize) {
        if self.latency & bit(place) != 0 {
            self.wanted |= from(place);
        }
        self.active |= bit(place) & self.interrupt;
        self.decide();
    }

    /// The world has nothing urgent left; it ran in this server (SG-45). With latency tasks it names the one that it wants from now on,
    /// which may be any number.
    pub fn yielded(&mut self, place: usize, wanted: u64) {
        self.active &= !(bit(place) & self.voluntary);
        self.wanted = usize::try_from(wanted).map_or(0, from);
        self.decide();
    }

    /// The word of the world says that it wants this latency task from now on, which may be any number (SG-82). A more urgent one that an interrupt wanted
    /// is wanted still.
    pub fn wishes(&mut self, wanted: u64) {
        self.by_word = true;
        let raised = if self.wanted & !self.wish != 0 { self.wanted } else { 0 };
        self.wish = usize::try_from(wanted).map_or(0, from);
        self.wanted = self.wish | raised;
        self.decide();
    }

    /// A window begins, of this server, or ends (SG-50).
    pub fn open_window(&mut self, place: Option<usize>) {
        self.standing = self.background | place.map_or(0, bit) & self.windowed;
        self.decide();
    }

    /// The budget of a server is used up, which ends its activation.
    pub fn used_up(&mut self, place: usize) {
        self.used_up |= bit(place);
        self.active &= !bit(place);
        if self.by_word && self.latency & bit(place) != 0 {
            self.wanted = self.wish;
        }
        self.decide();
    }

    /// A server has budget again.
    pub fn filled(&mut self, place: usize) {
        self.used_up &= !bit(place);
        self.decide();
    }

    /// The world may run, or may not: it is being loaded, suspended, or off. What it was activated for is forgotten.
    pub fn set_world(&mut self, may_run: bool) {
        self.has_world = may_run;
        if !may_run {
            (self.wanted, self.wish, self.active) = (0, 0, 0);
        }
        self.decide();
    }

    /// Switches all servers but the background one on or off (SG-86).
    pub fn set_on(&mut self, is_on: bool) {
        self.allowed = if is_on { u32::MAX } else { self.background };
        self.decide();
    }
}

/// A place and all behind it, as a set.
fn from(place: usize) -> u32 {
    bit(place).wrapping_neg()
}

/// The place of a server in a set; none for what cannot be one.
fn bit(place: usize) -> u32 {
    if place < MOST_SERVERS { 1 << place } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn plan(kinds: &[(ServerKind, u32)]) -> [ServerPlan; MOST_SERVERS] {
        let mut plan = [ServerPlan::default(); MOST_SERVERS];
        for (place, (kind, voluntary)) in plan.iter_mut().zip(kinds) {
            *place = ServerPlan { kind: *kind as u32, voluntary: *voluntary, ..ServerPlan::default() };
        }
        plan
    }

    fn ready(servers: &Servers) -> Vec<usize> {
        (0..MOST_SERVERS + 2).filter(|place| servers.may_run(*place)).collect()
    }

    fn running(kinds: &[(ServerKind, u32)]) -> Servers {
        let mut servers = Servers::new(&plan(kinds));
        assert_eq!(ready(&servers), [], "no world is loaded");
        servers.set_world(true);
        servers
    }

    /// SG-41, SG-45: the published three.
    #[test]
    fn an_interrupt_task_runs_from_its_interrupt_to_the_end_of_its_budget() {
        let mut servers =
            running(&[(ServerKind::Interrupt, 0), (ServerKind::Reserved, 0), (ServerKind::Background, 0)]);
        assert_eq!(ready(&servers), [1, 2]);
        servers.fired(0);
        assert_eq!(ready(&servers), [0, 1, 2]);
        servers.yielded(0, 0);
        assert_eq!(ready(&servers), [0, 1, 2], "the published form knows no return");
        servers.used_up(0);
        servers.fired(0);
        assert_eq!(ready(&servers), [1, 2], "an interrupt without budget waits");
        servers.filled(0);
        assert_eq!(ready(&servers), [0, 1, 2], "for the next filling");
        servers.used_up(0);
        servers.used_up(1);
        servers.filled(0);
        assert_eq!(ready(&servers), [2], "the activation ended with its budget");
    }

    /// SG-45.
    #[test]
    fn a_voluntary_return_ends_an_activation_and_keeps_the_budget() {
        let mut servers = running(&[(ServerKind::Interrupt, 1), (ServerKind::Background, 0)]);
        servers.fired(0);
        servers.yielded(1, 0);
        assert_eq!(ready(&servers), [0, 1], "said while another server ran the world");
        servers.yielded(0, 0);
        assert_eq!(ready(&servers), [1]);
        servers.fired(0);
        assert_eq!(ready(&servers), [0, 1]);
    }

    /// SG-80, SG-83, SG-84: from the wanted one downward the first that is not overrun, else the background one.
    #[test]
    fn of_latency_tasks_one_runs() {
        use ServerKind::{Background, Latency};
        for used_up in 0..8_usize {
            for wanted in [0, 1, 2, 3, u64::MAX] {
                let mut servers = running(&[(Latency, 0), (Latency, 0), (Latency, 0), (Background, 0)]);
                (0..3).filter(|place| used_up >> place & 1 == 1).for_each(|place| servers.used_up(place));
                servers.yielded(3, wanted);
                let expected = (0..3).find(|place| *place as u64 >= wanted && used_up >> place & 1 == 0);
                let all: Vec<usize> = expected.into_iter().chain([3]).collect();
                assert_eq!(ready(&servers), all, "{used_up:b} {wanted}");
                servers.fired(0);
                let urgent = (0..3).find(|place| used_up >> place & 1 == 0);
                assert_eq!(ready(&servers), urgent.into_iter().chain([3]).collect::<Vec<_>>());
            }
        }
    }

    /// SG-86, SG-60.
    #[test]
    fn switched_off_the_background_task_alone_runs_and_without_a_world_none() {
        let mut servers =
            running(&[(ServerKind::Interrupt, 0), (ServerKind::Reserved, 0), (ServerKind::Background, 0)]);
        servers.fired(0);
        servers.set_on(false);
        assert_eq!(ready(&servers), [2]);
        servers.set_on(true);
        assert_eq!(ready(&servers), [0, 1, 2]);
        servers.set_world(false);
        assert_eq!(ready(&servers), []);
        servers.set_world(true);
        assert_eq!(ready(&servers), [1, 2], "a world that begins has no activation");
    }

    /// SG-81: the sample's map of thread priorities.
    #[test]
    fn priorities_want_their_tasks() {
        let range = |from, to, server| PriorityRange { from, to, server };
        let map = [range(95, 99, 0), range(88, 94, 1)];
        let wanted = [99, 95, 94, 88, 87, 0, 100, u32::MAX].map(|one| wanted_by_priority(&map, one));
        assert_eq!(wanted, [0, 0, 1, 1, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
    }

    /// SG-81, SG-82: a word wants what its priority wants in the plan; what is no priority wants nothing.
    #[test]
    fn a_word_wants_by_its_priority_and_nonsense_nothing() {
        let mut plan = WishPlan { address: 0x4000_0000, ..WishPlan::NONE };
        (plan.priorities[0].from, plan.priorities[0].to) = (95, 99);
        (plan.priorities[1].from, plan.priorities[1].to) = (88, 94);
        let none = u64::MAX;
        for (word, wanted) in [(99, 0), (95, 0), (94, 1), (88, 1), (87, none), (0, none), (100, none)] {
            assert_eq!(wanted_by_word(&plan, word), wanted, "{word}");
        }
        for hostile in [u64::MAX, 1 << 32 | 97, 97 << 32, u64::from(u32::MAX), 1 << 63] {
            assert_eq!(wanted_by_word(&plan, hostile), none, "{hostile:#x}");
        }
        assert_eq!(wanted_by_word(&WishPlan::NONE, 0), none, "a plan without priorities");
    }

    /// SG-82, SG-85: by a word the world sinks back to what it wished when the budget that an interrupt began is used up.
    #[test]
    fn of_a_world_with_a_word_an_interrupt_lasts_as_long_as_a_budget() {
        use ServerKind::{Background, Latency};
        let mut servers = running(&[(Latency, 0), (Latency, 0), (Background, 0)]);
        servers.wishes(u64::MAX);
        assert_eq!(ready(&servers), [2]);
        servers.fired(0);
        assert_eq!(ready(&servers), [0, 2]);
        servers.used_up(0);
        assert_eq!(ready(&servers), [2], "and not on in the next one");
        servers.filled(0);
        assert_eq!(ready(&servers), [2]);
        servers.wishes(1);
        assert_eq!(ready(&servers), [1, 2]);
        servers.fired(0);
        servers.wishes(u64::MAX);
        assert_eq!(ready(&servers), [0, 2], "the interrupt is still wanted");
        servers.used_up(0);
        assert_eq!(ready(&servers), [2]);
        servers.wishes(0);
        servers.set_world(false);
        servers.set_world(true);
        assert_eq!(ready(&servers), [2], "a world that begins has no wish");
    }

    /// SG-50: a server of windows runs in them, whatever else is; switched off it does not.
    #[test]
    fn a_server_of_windows_runs_in_them() {
        use ServerKind::{Background, Reserved, Window};
        let mut servers = running(&[(Window, 0), (Window, 0), (Reserved, 0), (Background, 0)]);
        assert_eq!(ready(&servers), [2, 3]);
        servers.open_window(Some(1));
        assert_eq!(ready(&servers), [1, 2, 3]);
        servers.set_on(false);
        assert_eq!(ready(&servers), [3]);
        servers.set_on(true);
        servers.set_world(false);
        assert_eq!(ready(&servers), []);
        servers.set_world(true);
        assert_eq!(ready(&servers), [1, 2, 3], "the window is open still");
        servers.open_window(Some(2));
        assert_eq!(ready(&servers), [2, 3], "a server of another kind has none");
        servers.open_window(None);
        assert_eq!(ready(&servers), [2, 3]);
    }

    #[test]
    fn numbers_of_nobody_change_nothing() {
        let mut servers = running(&[(ServerKind::Background, 0)]);
        let before = servers;
        servers.fired(7);
        servers.used_up(7);
        servers.filled(7);
        assert_eq!(servers, before);
        assert_eq!(Servers::new(&[ServerPlan { kind: 9, ..ServerPlan::default() }; MOST_SERVERS]), Servers::none());
    }
}
