//! The core of a kernel against a model of it that does everything the obvious way: lists instead of sets, queues and trees, and no
//! usual case. Whatever happens to both, they choose the same, set the same timer and keep the same accounts.

mod support;

use bulkhead_sched::budget::{
    Anchor, Budget, BudgetRule, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_sched::kernel::{ActivateError, BACKGROUND, KernelCore, Next, Sleepers, Stint, Usage};
use support::random::{Random, check};

const SLOTS: usize = 8;
/// Level of each slot. The last one has a server for clients at two levels, one of which it shares.
const LEVELS: [u64; SLOTS] = [1 << 0, 1 << 2, 1 << 2, 1 << 3, 1 << 5, 1 << 5, 1 << 6, 1 << 6 | 1 << 9];
const CLIENTS: usize = 7;

#[derive(Clone)]
struct Entry {
    budget: Budget,
    level: u8,
    goes_on: bool,
    asking: bool,
    vetoed: bool,
    /// Level and place in the order of queueing.
    queued: Option<(u8, u64)>,
    date: Option<u64>,
    usage: Usage,
}

struct Model {
    entries: Vec<Option<Entry>>,
    running: Option<(usize, u8)>,
    now: u64,
    order: u64,
    idle: u64,
    exhausted: u64,
}

impl Model {
    fn place(&mut self, slot: usize, now: u64) {
        self.order += 1;
        let order = self.order;
        let Some(entry) = &mut self.entries[slot] else { return };
        let mut level = None;
        entry.date = None;
        if entry.asking && entry.budget.capacity_ticks(now) > 0 {
            level = (!entry.vetoed).then_some(entry.level);
        } else if entry.asking {
            entry.date = entry.budget.next_event_ticks(now);
            level = entry.goes_on.then_some(entry.level + BACKGROUND);
        }
        if entry.queued.map(|queued| queued.0) != level {
            entry.queued = level.map(|level| (level, order));
        }
    }

    fn advance(&mut self, now: u64) {
        let used = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        if used > 0 {
            match self.running {
                None => self.idle += used,
                Some((slot, level)) if level >= BACKGROUND => {
                    self.entries[slot].as_mut().expect("it runs").usage.background_ticks += used;
                }
                Some((slot, _)) => self.charge(slot, now, used),
            }
        }
        while let Some(slot) = (0..SLOTS)
            .find(|slot| self.entries[*slot].as_ref().is_some_and(|entry| entry.date.is_some_and(|date| date <= now)))
        {
            self.place(slot, now);
        }
    }

    fn charge(&mut self, slot: usize, now: u64, used: u64) {
        let entry = self.entries[slot].as_mut().expect("it is charged");
        let beyond = used.saturating_sub(entry.budget.capacity_ticks(now - used));
        entry.budget.charge(now, used);
        entry.usage.budgeted_ticks += used;
        if entry.budget.capacity_ticks(now) == 0 {
            entry.usage.longest_overrun_ticks = entry.usage.longest_overrun_ticks.max(beyond);
            self.exhausted |= 1 << slot;
        }
        if entry.asking {
            self.place(slot, now);
        }
    }

    fn charge_for(&mut self, until: u64, slot: usize) {
        let runs = self.running.is_some_and(|(running, level)| running == slot && level < BACKGROUND);
        if runs || self.entries[slot].is_none() {
            return self.advance(until);
        }
        let (from, used) = (self.now, until - self.now);
        if used == 0 {
            return;
        }
        self.now = until;
        let entry = self.entries[slot].as_mut().expect("just seen");
        let sleeps = !entry.asking;
        if sleeps {
            entry.budget.wake(from);
        }
        entry.budget.dispatch(from);
        self.charge(slot, until, used);
        if sleeps {
            self.entries[slot].as_mut().expect("just seen").budget.block(until);
        }
        if let Some((running, level)) = self.running
            && level < BACKGROUND
        {
            self.entries[running].as_mut().expect("it runs").budget.dispatch(until);
        }
    }

    fn set_asking(&mut self, now: u64, slot: usize, asking: bool) {
        self.advance(now);
        let Some(entry) = self.entries[slot].as_mut().filter(|entry| entry.asking != asking) else { return };
        entry.asking = asking;
        if asking {
            entry.budget.wake(now);
        } else {
            entry.vetoed = false;
            entry.budget.block(now);
        }
        self.place(slot, now);
    }

    fn pick(&mut self, now: u64) -> Next {
        self.advance(now);
        let dates = |entries: &[Option<Entry>], below: u8| {
            let above = entries.iter().zip(LEVELS).filter(|(_, levels)| (levels.trailing_zeros() as u8) < below);
            above.filter_map(|(entry, _)| entry.as_ref()?.date).min().unwrap_or(u64::MAX)
        };
        let queued = |slot: usize| self.entries[slot].as_ref().and_then(|entry| entry.queued).map(|at| (at, slot));
        let Some(((level, _), slot)) = (0..SLOTS).filter_map(queued).min() else {
            self.running = None;
            return Next { stint: Stint::IDLE, deadline_ticks: dates(&self.entries, u8::MAX) };
        };
        let number = slot as u8;
        let stint = Stint::new(number, number, level, level >= BACKGROUND);
        let starts = self.running.replace((slot, level)) != Some((slot, level));
        if level >= BACKGROUND {
            return Next { stint, deadline_ticks: dates(&self.entries, u8::MAX) };
        }
        let budget = &mut self.entries[slot].as_mut().expect("queued").budget;
        if starts {
            budget.dispatch(now);
        }
        let end = now.saturating_add(budget.capacity_ticks(now));
        Next { stint, deadline_ticks: end.min(dates(&self.entries, level)) }
    }
}

fn any_budget(random: &mut Random, now: u64) -> Budget {
    let period_ticks = random.within(3, 40);
    let budget_ticks = random.within(1, period_ticks);
    match random.within(0, 9) {
        0 => Budget::Unlimited,
        1 => Budget::Deferrable(Deferrable::new(budget_ticks, period_ticks, now).expect("valid")),
        2 => Budget::Polling(Polling::new(budget_ticks, period_ticks, now).expect("valid")),
        _ => {
            let smallest_chunk_ticks = random.within(1, budget_ticks);
            let chunks = [2, 3, 8, 16][random.index(4)];
            let anchor = if random.flip() { Anchor::Eligible } else { Anchor::Dispatch };
            let lag_clamp = random.flip();
            let parameters =
                SporadicParameters { budget_ticks, period_ticks, smallest_chunk_ticks, chunks, anchor, lag_clamp };
            Budget::Sporadic(Sporadic::new(parameters, now).expect("valid"))
        }
    }
}

fn for_clients(random: &mut Random, now: u64) -> Budget {
    let clients = [Client { period_ticks: 20, priority: 6 }, Client { period_ticks: 50, priority: 9 }];
    let share = Share { numerator: 1, denominator: random.within(3, 10) as u32 };
    Budget::Pibs(Pibs::new(share, PibsRule::Corrected, &clients, 1, now).expect("valid"))
}

/// One thing happens to both.
fn step(core: &mut KernelCore<16>, model: &mut Model, random: &mut Random, now: u64) -> Option<Next> {
    let slot = random.index(SLOTS);
    let number = slot as u8;
    match random.within(0, 15) {
        0 | 1 => {
            let budget = if slot == CLIENTS { for_clients(random, now) } else { any_budget(random, now) };
            let goes_on = random.flip();
            let is_free = model.entries[slot].is_none();
            let made = core.activate(now, number, budget.clone(), goes_on);
            assert_eq!(made, if is_free { Ok(()) } else { Err(ActivateError::Slot) });
            if is_free {
                model.advance(now);
                let (level, queued, date) = (LEVELS[slot].trailing_zeros() as u8, None, None);
                let (asking, vetoed, usage) = (false, false, Usage::default());
                model.entries[slot] = Some(Entry { budget, level, goes_on, asking, vetoed, queued, date, usage });
            }
        }
        2 => {
            assert_eq!(core.retire(now, number), model.entries[slot].is_some());
            if model.entries[slot].is_some() {
                model.set_asking(now, slot, false);
                model.entries[slot] = None;
                model.exhausted &= !(1 << slot);
                model.running = model.running.filter(|(running, _)| *running != slot);
            }
        }
        3 => {
            core.block(now, number);
            if model.entries[slot].is_some() {
                model.set_asking(now, slot, false);
            } else {
                model.advance(now);
            }
        }
        4 | 5 => {
            core.charge_for(now, number);
            model.charge_for(now, slot);
        }
        6 | 7 => {
            let client = random.index(2);
            let begins = random.flip();
            let known = if begins {
                core.request(now, CLIENTS as u8, client)
            } else {
                core.complete(now, CLIENTS as u8, client)
            };
            model.advance(now);
            let Some(entry) = &mut model.entries[CLIENTS] else { return None };
            let Budget::Pibs(rule) = &mut entry.budget else { unreachable!() };
            assert_eq!(known, if begins { rule.request(now, client) } else { rule.complete(client) });
            entry.level = rule.priority();
            if known {
                model.place(CLIENTS, now);
            }
        }
        8 => {
            // The choice would be another one.
            core.advance(now);
            core.veto(number);
            model.advance(now);
            if let Some(entry) = model.entries[slot].as_mut().filter(|entry| entry.asking) {
                entry.vetoed = true;
                model.place(slot, now);
            }
        }
        9 if random.flip() => {
            core.advance(now);
            core.lift(now);
            model.advance(now);
            for slot in 0..SLOTS {
                if model.entries[slot].as_mut().is_some_and(|entry| std::mem::take(&mut entry.vetoed)) {
                    model.place(slot, now);
                }
            }
        }
        10 => {
            while core.bring_back(now, 1) {}
            model.advance(now);
        }
        11 => {
            core.wake(now, number);
            model.set_asking(now, slot, true);
        }
        12 | 13 => {
            if !core.wake_behind(now, number) {
                core.wake(now, number);
            }
            model.set_asking(now, slot, true);
        }
        _ => {
            let chosen = core.signal(now, number);
            model.set_asking(now, slot, true);
            return Some(chosen);
        }
    }
    None
}

/// QV-20, QV-21, QV-22, QV-23, QV-35, QV-41.
#[test]
fn the_core_does_what_the_obvious_model_does() {
    check("kernel core", |random| {
        let mut core = KernelCore::<16>::empty();
        assert!(core.configure(0, LEVELS));
        let entries = vec![None; SLOTS];
        let mut model = Model { entries, running: None, now: 0, order: 0, idle: 0, exhausted: 0 };
        let mut now = 0;
        let mut deadline = u64::MAX;
        for _ in 0..60 {
            // To the deadline, or before it, or too late.
            let latest = deadline.min(now + 12);
            now = match random.within(0, 5) {
                0 | 1 => latest,
                2 => latest + random.within(0, 4),
                3 => now,
                _ => random.within(now, latest),
            };
            let chosen = step(&mut core, &mut model, random, now);
            let expected = model.pick(now);
            let chosen = chosen.unwrap_or_else(|| core.next(now));
            assert_eq!(chosen, expected, "at {now}: {core:#?}");
            assert!(chosen.deadline_ticks > now, "a deadline lies in the future");
            assert_eq!(core.take_exhausted(), std::mem::take(&mut model.exhausted), "at {now}");
            deadline = chosen.deadline_ticks;
        }
        assert_eq!(core.idle_ticks(), model.idle);
        for (slot, entry) in model.entries.iter().enumerate() {
            if let Some(entry) = entry {
                assert_eq!(core.usage(slot as u8), entry.usage, "server {slot}");
            }
        }
    });
}

#[test]
fn slots_and_servers_that_cannot_be_are_refused() {
    for wrong in [vec![1, 0], vec![4, 2], vec![1; 17]] {
        assert!(!KernelCore::<16>::empty().configure(0, wrong));
    }
    let mut core = KernelCore::<16>::empty();
    assert!(core.configure(0, LEVELS));
    let mut random = Random(1);
    assert_eq!(core.activate(0, 8, Budget::Unlimited, false), Err(ActivateError::Slot), "no such slot");
    assert_eq!(core.activate(0, 1, for_clients(&mut random, 0), false), Err(ActivateError::Level));
    assert_eq!(core.activate(0, 7, Budget::Unlimited, false), Err(ActivateError::Level), "which of its levels?");
    assert_eq!(core.activate(0, 1, Budget::Unlimited, false), Ok(()));
    assert_eq!(core.activate(0, 1, Budget::Unlimited, false), Err(ActivateError::Slot), "taken");
    let parameters = *support::sporadic(2, 10, Anchor::Dispatch).parameters();
    assert_eq!(core.reconfigure(0, 1, parameters), Err(ActivateError::Budget(None)), "it has no parameters");
    assert!(core.retire(0, 1) && !core.retire(0, 1), "gone once");
    assert_eq!(core.reconfigure(0, 1, parameters), Err(ActivateError::Slot));
}

/// QV-23, CH-56: sleepers of a less important server set no timer while somebody runs on a budget, and one for all of them otherwise.
#[test]
fn only_sleepers_that_could_preempt_set_the_timer() {
    check("sleepers", |random| {
        let mut core = KernelCore::<16>::empty();
        assert!(core.configure(0, LEVELS));
        for slot in 0..7 {
            core.activate(0, slot, any_budget(random, 0), random.flip()).expect("free");
        }
        let mut sleepers = Sleepers::<16>::new();
        let mut dates = [u64::MAX; SLOTS];
        let mut now = 0;
        for _ in 0..12 {
            now += random.within(0, 5);
            let slot = random.index(SLOTS);
            dates[slot] = if random.flip() { now + random.within(1, 20) } else { u64::MAX };
            sleepers.set(slot as u8, dates[slot]);
            let stint = core.signal(now, random.below(7) as u8).stint;
            let matters = |slot: usize| stint.is_background() || (LEVELS[slot].trailing_zeros() as u8) <= stint.level();
            let expected = (0..SLOTS).filter(|slot| matters(*slot)).map(|slot| dates[slot]).min();
            assert_eq!(Some(sleepers.next_ticks(&core)), expected, "{stint:?} {dates:?}");
            let due = (0..SLOTS).find(|slot| dates[*slot] <= now).map(|slot| slot as u8);
            assert_eq!(sleepers.due(now), due);
        }
    });
}
