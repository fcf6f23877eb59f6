//! The core against a model of it that does everything the obvious way: lists instead of sets, queues and trees, and no usual
//! case. Whatever happens to both, they choose the same, set the same timer and keep the same accounts.

mod support;

use bulkhead_sched::budget::{
    Anchor, Budget, BudgetRule, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_sched::cyclic::{CyclicTable, Slot, Window};
use bulkhead_sched::dispatch::{Choice, Core, Decision, Prospect, Usage};
use bulkhead_sched::server::{Gate, OnEmpty, Payer, Server};
use support::random::{Random, check};

#[derive(Clone)]
struct Entry {
    vcpu: u8,
    server: Server,
    asking: bool,
    /// Priority and place in the order of queueing.
    queued: Option<(u8, u64)>,
    date: Option<u64>,
    usage: Usage,
    /// It woke, or its budget is back, and it was not chosen since.
    entering: bool,
    /// What its activation misses to its least charge.
    missing: u64,
}

struct Model {
    entries: Vec<Entry>,
    awake: [bool; 4],
    pending: [u64; 4],
    /// Quantum, what is left of the turn, whose turn; by priority.
    turns: Vec<(u8, u64, u64, usize)>,
    table: Option<CyclicTable>,
    window: Slot,
    running: Option<(usize, u8)>,
    now: u64,
    order: u64,
    idle: u64,
    exhausted: u64,
}

impl Model {
    fn new(servers: &[(u8, Server)]) -> Self {
        let entry = |(vcpu, server): &(u8, Server)| Entry {
            vcpu: *vcpu,
            server: server.clone(),
            asking: false,
            queued: None,
            date: None,
            usage: Usage::default(),
            entering: false,
            missing: 0,
        };
        Self {
            entries: servers.iter().map(entry).collect(),
            awake: [false; 4],
            pending: [0; 4],
            turns: Vec::new(),
            table: None,
            window: Slot { window: None, until_ticks: u64::MAX },
            running: None,
            now: 0,
            order: 0,
            idle: 0,
            exhausted: 0,
        }
    }

    fn payer(&self, slot: usize) -> usize {
        match self.entries[slot].server.payer {
            Payer::Own => slot,
            Payer::Donor(donor) => usize::from(donor),
        }
    }

    fn is_open(&self, slot: usize) -> bool {
        let Entry { vcpu, server, .. } = &self.entries[slot];
        self.awake[usize::from(*vcpu)]
            && match server.gate {
                Gate::Always => true,
                Gate::InterruptPending(sources) => self.pending[usize::from(*vcpu)] & sources != 0,
                Gate::Window(names) => self.window.window.is_some_and(|name| names >> name & 1 != 0),
                Gate::Never => false,
            }
    }

    /// Opens or closes a server. Where its budget hears of that, everybody who spends it moves to where they belong.
    fn refresh(&mut self, slot: usize, now: u64) {
        let open = self.is_open(slot);
        let payer = self.payer(slot);
        self.entries[slot].asking = open;
        self.entries[slot].entering = open;
        if !open {
            self.end_activation(slot, now);
        }
        if open {
            self.entries[payer].server.budget.wake(now);
        } else if payer == slot || !self.entries[payer].asking {
            self.entries[payer].server.budget.block(now);
        } else {
            return self.place(slot, now);
        }
        self.place_spenders(slot, now);
    }

    /// What is missing is charged.
    fn end_activation(&mut self, slot: usize, now: u64) {
        let missing = std::mem::take(&mut self.entries[slot].missing);
        if missing > 0 {
            let payer = self.payer(slot);
            self.entries[payer].server.budget.charge_unused(now, missing);
            self.place_spenders(slot, now);
        }
    }

    fn place_spenders(&mut self, slot: usize, now: u64) {
        let payer = self.payer(slot);
        for spender in 0..self.entries.len() {
            if self.payer(spender) == payer {
                self.place(spender, now);
            }
        }
    }

    fn place(&mut self, slot: usize, now: u64) {
        let payer = self.payer(slot);
        let (mut level, mut date) = (None, None);
        if self.entries[slot].asking {
            let budget = &mut self.entries[payer].server.budget;
            if budget.capacity_ticks(now) > 0 {
                let entry = &mut self.entries[slot];
                entry.entering |= entry.date.is_some() && entry.missing == 0;
                level = Some(self.entries[slot].server.current_priority());
            } else {
                date = budget.next_event_ticks(now);
                if let OnEmpty::Background(background) = self.entries[slot].server.on_empty {
                    level = Some(background);
                }
            }
        }
        self.entries[slot].date = date;
        if self.entries[slot].queued.map(|queued| queued.0) != level {
            self.requeue(slot, level);
        }
    }

    fn requeue(&mut self, slot: usize, level: Option<u8>) {
        self.order += 1;
        self.entries[slot].queued = level.map(|level| (level, self.order));
    }

    fn advance(&mut self, now: u64) {
        let used = now - self.now;
        self.now = now;
        if used == 0 {
            return;
        }
        match self.running {
            None => self.idle += used,
            Some((slot, level)) => self.charge(slot, level, used, now),
        }
        if let Some(table) = self.table.as_ref().filter(|_| now >= self.window.until_ticks) {
            self.window = table.slot(now);
            self.refresh_windows(now);
        }
        while let Some(slot) = self.entries.iter().position(|entry| entry.date.is_some_and(|date| date <= now)) {
            self.place(slot, now);
        }
    }

    fn refresh_windows(&mut self, now: u64) {
        for closing in [true, false] {
            for slot in 0..self.entries.len() {
                let is_window = matches!(self.entries[slot].server.gate, Gate::Window(_));
                if is_window && self.entries[slot].asking == closing && self.is_open(slot) != closing {
                    self.refresh(slot, now);
                }
            }
        }
    }

    fn charge(&mut self, slot: usize, level: u8, used: u64, now: u64) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.0 == level) {
            turn.2 = turn.2.saturating_sub(used);
            if turn.2 == 0 {
                turn.2 = turn.1;
                if self.entries[slot].queued.is_some_and(|queued| queued.0 == level) {
                    self.requeue(slot, Some(level));
                }
            }
        }
        if self.is_background(slot, level) {
            self.entries[slot].usage.background_ticks += used;
            return;
        }
        self.entries[slot].usage.budgeted_ticks += used;
        self.entries[slot].missing = self.entries[slot].missing.saturating_sub(used);
        let payer = self.payer(slot);
        let budget = &mut self.entries[payer].server.budget;
        let capacity = budget.capacity_ticks(now - used);
        let beyond = used.saturating_sub(capacity);
        budget.charge(now, used);
        if budget.capacity_ticks(now) == 0 {
            if used >= capacity {
                self.end_activation(slot, now);
            }
            self.exhausted |= 1 << slot;
            let usage = &mut self.entries[slot].usage;
            usage.longest_overrun_ticks = usage.longest_overrun_ticks.max(beyond);
        }
        self.place_spenders(slot, now);
    }

    fn is_background(&self, slot: usize, level: u8) -> bool {
        self.entries[slot].server.on_empty == OnEmpty::Background(level)
    }

    fn pick(&mut self, now: u64) -> Decision {
        self.advance(now);
        let first = (0..self.entries.len())
            .filter_map(|slot| self.entries[slot].queued.map(|queued| (queued, slot)))
            .min_by_key(|(queued, _)| *queued);
        let mut deadline = self.window.until_ticks;
        let Some(((level, _), slot)) = first else {
            self.running = None;
            let dates = self.entries.iter().filter_map(|entry| entry.date);
            deadline = dates.fold(deadline, u64::min);
            return Decision { choice: None, deadline_ticks: (deadline != u64::MAX).then_some(deadline) };
        };
        let background = self.is_background(slot, level);
        if !background {
            let payer = self.payer(slot);
            let budget = &mut self.entries[payer].server.budget;
            if self.running != Some((slot, level)) {
                budget.dispatch(now);
            }
            deadline = deadline.min(now.saturating_add(budget.capacity_ticks(now)));
            let entry = &mut self.entries[slot];
            if std::mem::take(&mut entry.entering) {
                entry.missing = entry.server.least_charge_ticks;
            }
        }
        self.running = Some((slot, level));
        let mut rivals = level;
        let equals = self.entries.iter().filter(|entry| entry.queued.is_some_and(|queued| queued.0 == level)).count();
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.0 == level) {
            if turn.3 != slot {
                (turn.2, turn.3) = (turn.1, slot);
            }
            if equals > 1 {
                deadline = deadline.min(now + turn.2);
            }
            rivals += 1;
        }
        let above = self.entries.iter().filter(|entry| entry.server.best_priority() < rivals);
        deadline = above.filter_map(|entry| entry.date).fold(deadline, u64::min);
        let choice = Choice { vcpu: self.entries[slot].vcpu, server: slot as u8, background };
        Decision { choice: Some(choice), deadline_ticks: (deadline != u64::MAX).then_some(deadline) }
    }

    fn set_awake(&mut self, now: u64, vcpu: u8, awake: bool) {
        self.advance(now);
        self.awake[usize::from(vcpu)] = awake;
        for slot in 0..self.entries.len() {
            if self.entries[slot].vcpu == vcpu && self.is_open(slot) != self.entries[slot].asking {
                self.refresh(slot, now);
            }
        }
    }

    fn set_pending(&mut self, now: u64, vcpu: u8, sources: u64) {
        self.advance(now);
        self.pending[usize::from(vcpu)] = sources;
        for closing in [true, false] {
            for slot in 0..self.entries.len() {
                let entry = &self.entries[slot];
                if entry.vcpu == vcpu && entry.asking == closing && self.is_open(slot) != closing {
                    self.refresh(slot, now);
                }
            }
        }
    }

    fn request(&mut self, now: u64, slot: usize, client: usize) {
        self.advance(now);
        let Budget::Pibs(rule) = &mut self.entries[slot].server.budget else { unreachable!() };
        assert!(rule.request(now, client));
        self.place(slot, now);
        self.set_awake(now, self.entries[slot].vcpu, true);
    }

    fn complete(&mut self, now: u64, slot: usize, client: usize) -> bool {
        self.advance(now);
        let Budget::Pibs(rule) = &mut self.entries[slot].server.budget else { unreachable!() };
        let known = rule.complete(client);
        let idle = rule.next_client().is_none();
        if known {
            self.place(slot, now);
            if idle {
                self.set_awake(now, self.entries[slot].vcpu, false);
            }
        }
        known
    }
}

fn any_budget(random: &mut Random) -> Budget {
    let period = random.within(3, 40);
    let budget = random.within(1, period);
    match random.within(0, 9) {
        0 | 1 => Budget::Unlimited,
        2 => Budget::Deferrable(Deferrable::new(budget, period, 0).expect("valid")),
        3 => Budget::Polling(Polling::new(budget, period, 0).expect("valid")),
        _ => {
            let parameters = SporadicParameters {
                budget_ticks: budget,
                period_ticks: period,
                smallest_chunk_ticks: random.within(1, budget),
                chunks: [2, 3, 8, 16][random.within(0, 3) as usize],
                anchor: if random.flip() { Anchor::Eligible } else { Anchor::Dispatch },
                lag_clamp: random.flip(),
            };
            Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
        }
    }
}

/// Up to eight servers of three vCPUs; vCPU 3 has the PIBS server, if there is one. Priorities of one vCPU differ, and those of
/// several vCPUs are often the same.
fn any_servers(random: &mut Random, windows: bool) -> Vec<(u8, Server)> {
    let mut servers = Vec::new();
    for vcpu in 0..3u8 {
        let mut priority = random.within(0, 3) as u8;
        for _ in 0..random.within(1, 2) {
            let mut server = Server::new(priority, any_budget(random));
            let unlimited = matches!(server.budget, Budget::Unlimited);
            server.gate = match random.within(0, 7) {
                0 | 1 if !unlimited => Gate::InterruptPending(random.within(1, 3)),
                2 | 3 if windows => Gate::Window(random.within(1, 3)),
                4 if random.flip() => Gate::Never,
                _ => Gate::Always,
            };
            server.on_empty = match random.within(0, 3) {
                0 => OnEmpty::Background(random.within(20, 22) as u8),
                1 => OnEmpty::Notify,
                _ => OnEmpty::Stop,
            };
            if random.next().is_multiple_of(3) {
                server.least_charge_ticks = random.within(1, 12);
            }
            servers.push((vcpu, server));
            priority += random.within(1, 3) as u8;
        }
    }
    if random.flip() {
        let clients = [Client { period_ticks: 20, priority: 1 }, Client { period_ticks: 50, priority: 4 }];
        let share = Share { numerator: 1, denominator: random.within(3, 10) as u32 };
        let rule = Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("valid");
        let least = if random.flip() { random.within(1, 4) } else { 0 };
        servers.push((3, Server::new(0, Budget::Pibs(rule)).charged_at_least(least)));
    }
    servers.sort_by_key(|(_, server)| server.best_priority());
    // Somebody may spend another one's budget.
    let donor = servers.iter().position(|(_, server)| matches!(server.budget, Budget::Sporadic(_)));
    if let Some(donor) = donor.filter(|_| random.next().is_multiple_of(3)) {
        for (slot, (_, server)) in servers.iter_mut().enumerate() {
            if slot != donor && matches!(server.budget, Budget::Unlimited) {
                server.payer = Payer::Donor(donor as u8);
            }
        }
    }
    servers
}

fn any_table(random: &mut Random) -> CyclicTable {
    let first = random.within(2, 20);
    let second = first + random.within(0, 8);
    let windows = [
        Window { offset_ticks: 0, length_ticks: first, name: 0 },
        Window { offset_ticks: second, length_ticks: random.within(1, 20), name: 1 },
    ];
    CyclicTable::new(0, 60, &windows).expect("valid")
}

/// What the core said of a sleeper when it fell asleep still holds, however much has happened to the others since: it runs at
/// once, and not shorter than said.
fn assert_foreseen(core: &Core<16, 4>, vcpu: u8, prospect: Prospect, now: u64) {
    if !core.is_outranked_by(prospect) {
        return;
    }
    let foreseen = core.deadline_of(prospect, now);
    let mut told = core.clone();
    told.wake(now, vcpu);
    let decision = told.pick(now);
    assert_eq!(decision.choice.map(|choice| choice.vcpu), Some(vcpu), "{prospect:?} at {now}");
    assert_eq!(told.next(now).stint.level(), prospect.level, "{prospect:?} at {now}");
    let latest = decision.deadline_ticks.unwrap_or(u64::MAX);
    assert!(foreseen <= latest, "{prospect:?} at {now}: {foreseen}, and it is {latest}");
    assert!(foreseen >= latest.min(now.saturating_add(prospect.capacity_ticks)), "{prospect:?} at {now}: {foreseen}");
}

/// A sleeper that would run at once does until `to`, which the core is told in one piece and the model step by step; where the core
/// refuses, as a wake-up. Returns whether it did not.
fn visit(core: &mut Core<16, 4>, model: &mut Model, vcpu: u8, now: u64, to: u64) -> bool {
    let visited = core.visit(vcpu, now, to);
    model.set_awake(now, vcpu, true);
    match visited {
        None => core.wake(now, vcpu),
        Some(stint) => {
            let chosen = model.pick(now);
            let expected = Choice { vcpu, server: stint.server(), background: false };
            assert_eq!((chosen.choice, stint.is_background()), (Some(expected), false));
            assert!(chosen.deadline_ticks.is_none_or(|deadline| to < deadline), "{chosen:?}, told at {to}");
            model.set_awake(to, vcpu, false);
            if let Some(Budget::Sporadic(rule)) = core.server(stint.server()).map(|server| &server.budget) {
                assert!(rule.chunks().all(|chunk| chunk.amount_ticks > 0), "{rule:?}");
            }
        }
    }
    visited.is_some()
}

/// QV-22, QV-23, QV-41.
#[test]
fn the_core_does_what_the_obvious_model_does() {
    let mut visits = 0;
    check("reference", |random| {
        let windows = random.flip();
        let servers = any_servers(random, windows);
        let pibs = servers.iter().position(|(_, server)| matches!(server.budget, Budget::Pibs(_)));
        let mut model = Model::new(&servers);
        let mut core = Core::<16, 4>::new(0, servers.iter().cloned()).expect("valid");
        for level in [0, 1, 2, 20] {
            if random.next().is_multiple_of(4) {
                let quantum = random.within(1, 12);
                assert!(core.set_quantum(level, quantum));
                model.turns.push((level, quantum, quantum, usize::MAX));
            }
        }
        if windows {
            let table = any_table(random);
            model.window = table.slot(0);
            model.table = Some(table.clone());
            core.set_table(0, table);
        }
        let mut now = 0;
        let mut deadline = None;
        let mut story = Vec::new();
        let mut prospects = [Prospect::UNKNOWN; 4];
        for _ in 0..40 {
            // To the deadline, or before it, or too late.
            let latest = deadline.map_or(now + 10, |deadline: u64| deadline.min(now + 30));
            now = match random.within(0, 5) {
                0 | 1 => latest,
                2 => latest + random.within(0, 4),
                3 => now,
                _ => random.within(now, latest),
            };
            let vcpu = random.within(0, 2) as u8;
            if deadline.is_none_or(|deadline| now < deadline) {
                (0..4u8).zip(prospects).for_each(|(sleeper, prospect)| assert_foreseen(&core, sleeper, prospect, now));
            }
            let at_once = core.is_outranked_by(prospects[usize::from(vcpu)]);
            match random.within(0, 9) {
                8 | 9 if at_once && deadline.is_none_or(|deadline| now < deadline) => {
                    let to = now + random.within(0, 6);
                    visits += u64::from(visit(&mut core, &mut model, vcpu, now, to));
                    prospects[usize::from(vcpu)] = Prospect::UNKNOWN;
                    now = model.now;
                }
                0 | 1 => {
                    core.wake(now, vcpu);
                    model.set_awake(now, vcpu, true);
                }
                2 => {
                    core.block(now, vcpu);
                    model.set_awake(now, vcpu, false);
                }
                3 => {
                    let sources = random.within(0, 3);
                    core.set_pending(now, vcpu, sources);
                    model.set_pending(now, vcpu, sources);
                }
                4 | 5 if pibs.is_some() => {
                    let (slot, client) = (pibs.expect("just seen"), random.within(0, 1) as usize);
                    if random.flip() {
                        assert!(core.request(now, slot as u8, client));
                        model.request(now, slot, client);
                    } else {
                        assert_eq!(core.complete(now, slot as u8, client), model.complete(now, slot, client));
                    }
                }
                6 => {
                    core.advance(now);
                    model.advance(now);
                }
                _ => {}
            }
            let decision = core.pick(now);
            let expected = model.pick(now);
            story.push((now, vcpu, decision, expected));
            assert_eq!(decision, expected, "{story:#?} {:?} {servers:#?}", model.turns);
            assert_eq!(core.take_exhausted(), std::mem::take(&mut model.exhausted), "at {now}");
            let waiting = |slot: usize| model.entries[slot].date.is_some();
            let expected = (0..servers.len()).filter(|slot| waiting(*slot)).fold(0, |set, slot| set | 1 << slot);
            assert_eq!(core.waiting(), expected, "at {now}");
            deadline = decision.deadline_ticks;
            for (sleeper, prospect) in (0..4u8).zip(&mut prospects) {
                let awake = model.awake[usize::from(sleeper)];
                // Known once; a later answer may be better.
                let renew = !awake && (*prospect == Prospect::UNKNOWN || random.within(0, 9) == 0);
                *prospect = if awake {
                    Prospect::UNKNOWN
                } else if renew {
                    core.prospect(sleeper)
                } else {
                    *prospect
                };
            }
        }
        assert_eq!(core.idle_ticks(), model.idle);
        for (slot, entry) in model.entries.iter().enumerate() {
            assert_eq!(core.usage(slot as u8), entry.usage, "server {slot}");
        }
    });
    assert!(visits > 0 || std::env::var_os("BULKHEAD_SEED").is_some(), "no visit was ever told in one piece");
}
