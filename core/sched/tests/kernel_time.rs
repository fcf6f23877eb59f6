//! Who pays in the kernel, and who may take the core: what `kernel.md` changes in the published rules, with the published defect
//! beside it.

mod support;

use bulkhead_sched::budget::{Anchor, Budget, BudgetRule, Client, Pibs, PibsRule, Share};
use bulkhead_sched::kernel::{Agreement, KernelCore, MAX_VETOED, Next, Stint};
use bulkhead_sched::tcap::{ALL, Claims, KERNEL};
use support::random::{Random, check, stair};
use support::{ALWAYS, Pairs, dispatched, eligible, most_in, pairs, sporadic};

/// A core with one slot per budget, at levels 0, 1 and so on.
fn core_of(budgets: impl IntoIterator<Item = (Budget, bool)>) -> KernelCore<16> {
    let budgets: Vec<_> = budgets.into_iter().collect();
    let mut core = KernelCore::empty();
    assert!(core.configure(0, (0..budgets.len()).map(|level| 1 << level)));
    for (slot, (budget, goes_on)) in (0..).zip(budgets) {
        core.activate(0, slot, budget, goes_on).expect("free");
    }
    core
}

fn chunks(core: &KernelCore<16>, slot: u8) -> Pairs {
    match core.budget(slot).expect("a server") {
        Budget::Sporadic(rule) => pairs(rule.chunks()),
        _ => panic!("server {slot} is not sporadic"),
    }
}

/// Runs jobs `(time, slot, amount)`; returns the runs of each slot with budget, and without.
fn simulate(core: &mut KernelCore<16>, jobs: &[(u64, u8, u64)], until: u64) -> [Vec<Pairs>; 2] {
    let mut runs = [vec![Pairs::new(); 16], vec![Pairs::new(); 16]];
    let mut left = [0u64; 16];
    let mut now = 0;
    while now < until {
        for (_, slot, amount) in jobs.iter().filter(|job| job.0 == now) {
            left[usize::from(*slot)] += amount;
            core.wake(now, *slot);
        }
        let Next { stint, deadline_ticks } = core.next(now);
        let arrival = jobs.iter().map(|job| job.0).filter(|time| *time > now).min().unwrap_or(until);
        let mut next = arrival.min(until).min(deadline_ticks);
        if stint != Stint::IDLE {
            let slot = usize::from(stint.server());
            next = next.min(now + left[slot]);
            left[slot] -= next - now;
            let list = &mut runs[usize::from(stint.is_background())][slot];
            match list.last_mut().filter(|last| last.1 == now) {
                Some(last) => last.1 = next,
                None => list.push((now, next)),
            }
            if left[slot] == 0 {
                core.advance(next);
                core.block(next, stint.server());
            }
        }
        now = next;
    }
    core.advance(until);
    runs
}

/// QV-21, QV-22, QV-24, QV-32: the figure of Quest on servers of a kernel, background and all.
#[test]
fn ss_03_the_figure_of_quest() {
    let client = [Client { period_ticks: 50, priority: 1 }];
    let share = Share { numerator: 4, denominator: 100 };
    let io = Pibs::new(share, PibsRule::Corrected, &client, 1, 0).expect("valid");
    let mut core = core_of([(eligible(10, 40), true), (Budget::Pibs(io), false), (eligible(20, 50), true)]);
    let mut first = simulate(&mut core, &[(1, 0, ALWAYS), (0, 2, ALWAYS)], 25);
    assert!(core.request(25, 1, 0));
    // What is left of the jobs continues, and three ticks of input and output come.
    let mut runs = [vec![Pairs::new(); 16], vec![Pairs::new(); 16]];
    let mut now = 25;
    let mut left = 3;
    core.wake(25, 1);
    while now < 125 {
        let Next { stint, deadline_ticks } = core.next(now);
        let mut next = deadline_ticks.min(125);
        if stint.server() == 1 {
            next = next.min(now + left);
            left -= next - now;
        }
        let list = &mut runs[usize::from(stint.is_background())][usize::from(stint.server())];
        match list.last_mut().filter(|last| last.1 == now) {
            Some(last) => last.1 = next,
            None => list.push((now, next)),
        }
        if stint.server() == 1 && left == 0 {
            assert!(core.complete(next, 1, 0));
            core.block(next, 1);
        }
        now = next;
    }
    let of = |first: &mut Pairs, then: &Pairs| {
        for run in then {
            match first.last_mut().filter(|last| last.1 == run.0) {
                Some(last) => last.1 = run.1,
                None => first.push(*run),
            }
        }
        first.clone()
    };
    assert_eq!(of(&mut first[0][2], &runs[0][2]), [(0, 1), (11, 25), (27, 32), (51, 71), (100, 120)]);
    assert_eq!(of(&mut first[0][0], &runs[0][0]), [(1, 11), (41, 51), (81, 91), (121, 125)]);
    assert_eq!(runs[0][1], [(25, 27), (75, 76)]);
    // Without budget the more important one continues first: the background has the same order.
    assert_eq!(runs[1][0], [(32, 41), (71, 75), (76, 81), (91, 100), (120, 121)]);
    assert_eq!(runs[1][2], []);
}

/// Starts and lengths of the runs when each end of a budget is noticed `late`.
fn runs_noticed_late(core: &mut KernelCore<16>, late: u64, until: u64) -> Pairs {
    let mut runs = Pairs::new();
    let mut now = 0;
    core.wake(0, 0);
    while now < until {
        let Next { stint, deadline_ticks } = core.next(now);
        let is_run = stint != Stint::IDLE;
        let next = if is_run { deadline_ticks + late } else { deadline_ticks };
        if is_run {
            runs.push((now, next - now));
        }
        now = next;
    }
    runs
}

/// CH-54, QV-29. Published: a capability that is overrun is set to zero, and its next filling is whole: 12 in each 100 for ever. Here
/// it is a debt of the server that pays, whichever claim was used.
#[test]
fn an_overrun_is_a_debt_of_the_root() {
    let published = |late: u64| {
        let run = |period: u64| {
            let budget = 10u64;
            let used = budget + late;
            // Charged to the purse, which keeps no debt.
            let left = budget.saturating_sub(used);
            (period * 100, used, left)
        };
        (0..4).map(run).collect::<Vec<_>>()
    };
    assert_eq!(published(2), [(0, 12, 0), (100, 12, 0), (200, 12, 0), (300, 12, 0)], "the defect");
    let mut core = core_of([(dispatched(10, 100), false)]);
    assert_eq!(runs_noticed_late(&mut core, 2, 400), [(0, 12), (102, 10), (202, 10), (302, 10)]);

    let mut core = core_of([(dispatched(10, 100), false)]);
    let mut claims = Claims::<4, 16>::new();
    claims.make_own(0, 0, 5, 1).expect("free");
    claims.create(1, 7, 3).expect("free");
    let root = core.root(0, 0).expect("a server");
    assert_eq!(claims.delegate(1, 0, 6, 4, &root, 0), Ok(6));
    let words = |claims: &Claims<4, 16>| claims.claim(1).expect("made").vector().entries().collect::<Vec<_>>();
    assert_eq!(words(&claims), [(KERNEL, 0), (5, 4), (7, 3)]);
    core.wake(0, 0);
    core.next(0);
    core.advance(9);
    assert!(claims.charge(1, 9), "its scheduler is told");
    let claim = claims.claim(1).expect("made");
    assert_eq!((claim.left_ticks(), claim.used_ticks(), claim.root()), (0, 9, None));
    assert_eq!(words(&claims), [(KERNEL, 0), (7, 3)], "CH-54: its own scheduler's word is left");
    let root = core.root(0, 9).expect("a server");
    assert_eq!(claims.usable_ticks(0, &root, 9), 1, "three ticks more than it had: the server has 1 of 10, and not 4");
}

/// QV-35, CH-54. Published: the time of an interrupt goes to who is on the core. Here the server of its driver pays, empty or
/// not, and the victim keeps its own.
#[test]
fn a_top_half_is_charged_to_its_driver() {
    const VICTIM: u8 = 0;
    const DRIVER: u8 = 1;
    // An interrupt every 5 ticks takes 1 tick. Returns what the victim got for itself, when its budget ended, and the core.
    let storm = |published: bool| {
        let mut core = core_of([(dispatched(10, 50), false), (dispatched(2, 50), false)]);
        core.wake(0, VICTIM);
        core.next(0);
        let (mut now, mut own) = (0, 0);
        loop {
            if now % 5 == 0 {
                let chosen = core.signal(now, DRIVER);
                assert_eq!(chosen.stint.server(), VICTIM, "the driver is less important");
                now += 1;
                if published {
                    core.advance(now);
                } else {
                    core.charge_for(now, DRIVER);
                }
            } else {
                now += 1;
                own += 1;
            }
            if core.next(now).stint.server() != VICTIM {
                return (own, now, core);
            }
        }
    };
    let (own, end, _) = storm(true);
    assert_eq!((own, end), (8, 10), "the defect: the device took a fifth of a budget that it has nothing to do with");
    let (own, end, core) = storm(false);
    assert_eq!((own, end), (10, 13));
    assert_eq!(core.usage(VICTIM).budgeted_ticks, 10);
    assert_eq!(core.usage(DRIVER).budgeted_ticks, 3, "one more than it had");
    assert_eq!(chunks(&core, DRIVER), [(55, 1), (100, 1)], "and a debt: the first piece is late by a period");
    // A driver that sleeps gets no credit for it: the work is dated when it was done.
    let mut core = core_of([(dispatched(10, 50), false), (dispatched(2, 50), false)]);
    core.wake(0, VICTIM);
    core.next(30);
    core.charge_for(31, DRIVER);
    assert_eq!(chunks(&core, DRIVER), [(31, 1), (80, 1)]);
}

/// CH-52, TCAP-02. Published: time that was given away is hoarded until its giver's budget is back: 15 in 15 ticks of a server with 10 in
/// 100; with an expiry it is still 11. A claim is charged when it is used: 10 in any 100.
#[test]
fn tcap_02_hoarding_gains_nothing() {
    let purses = |expiry: Option<u64>| {
        let mut server = sporadic(10, 100, Anchor::Eligible);
        // Five are taken out of the server and lie in a purse. The server wakes when they are about to be spent.
        server.charge(0, 5);
        let spent_from = expiry.map_or(95, |expiry| expiry - 1);
        let mut runs = vec![(spent_from, 100)];
        server.wake(100);
        runs.push((100, 100 + server.capacity_ticks(100)));
        most_in(&runs, 15)
    };
    assert_eq!((purses(None), purses(Some(100))), (15, 11), "the defects");

    let mut core = core_of([(dispatched(10, 100), false)]);
    let mut claims = Claims::<4, 16>::new();
    claims.make_own(0, 0, KERNEL, 1).expect("free");
    claims.create(1, 7, 1).expect("free");
    let root = core.root(0, 0).expect("a server");
    claims.delegate(1, 0, 5, 0, &root, 0).expect("time");
    let mut runs = Pairs::new();
    let mut now = 95;
    core.wake(95, 0);
    while now < 400 {
        while claims.expire(now).is_some() {}
        let root = core.root(0, now).expect("a server");
        let claim = if claims.usable_ticks(1, &root, now) > 0 { 1 } else { 0 };
        let usable = claims.usable_ticks(claim, &root, now);
        let Next { deadline_ticks, .. } = core.next(now);
        let next = if usable > 0 { (now + usable).min(claims.next_expiry_ticks()) } else { deadline_ticks };
        if usable > 0 {
            runs.push((now, next));
            claims.charge(claim, next - now);
        }
        now = next;
    }
    assert_eq!(runs[..3], [(95, 100), (100, 105), (195, 205)]);
    assert_eq!((most_in(&runs, 15), most_in(&runs, 100)), (10, 10));
}

/// P2, CH-52, CH-54, CH-56: whatever is delegated to whom and used when, nobody uses more of a server than the server has in any
/// window, and what all claims used is what the server was charged for.
#[test]
fn no_history_of_delegations_exceeds_the_envelope_of_the_root() {
    check("claims on a core", |random| {
        let period = random.within(4, 40);
        let budget = random.within(1, period);
        let late = random.within(0, 2);
        let mut core = core_of([
            (eligible(random.within(1, 5), random.within(6, 20)), false),
            (dispatched(budget, period), false),
        ]);
        let mut claims = Claims::<16, 16>::new();
        claims.make_own(1, 1, random.below(4) as u16, 3).expect("free");
        for number in 2..6 {
            claims.create(number, random.below(6) as u16, 3).expect("free");
        }
        let (mut now, mut runs) = (0, Pairs::new());
        let mut on = None;
        for _ in 0..40 {
            while claims.expire(now).is_some() {}
            core.advance(now);
            let root = core.root(1, now).expect("a server");
            for _ in 0..random.below(3) {
                let (to, from) = (random.within(1, 5) as u8, random.within(1, 5) as u8);
                let _ = claims.delegate(to, from, [0, 1, 2, 5, ALL][random.index(5)], random.below(3), &root, now);
            }
            if random.flip() {
                core.wake(now, 0);
            } else {
                core.block(now, 0);
            }
            let usable: Vec<u8> = (1..6).filter(|number| claims.usable_ticks(*number, &root, now) > 0).collect();
            let claim = usable.get(random.index(usable.len().max(1))).copied().filter(|_| random.below(5) > 0);
            if claim.is_some() {
                core.wake(now, 1);
            } else {
                core.block(now, 1);
            }
            let Next { stint, deadline_ticks } = core.next(now);
            let mut latest = deadline_ticks.min(now + 15).min(claims.next_expiry_ticks()).max(now + 1);
            let runs_on = claim.filter(|_| stint.server() == 1);
            if let Some(claim) = runs_on {
                let root = core.root(1, now).expect("a server");
                latest = latest.min(now + claims.usable_ticks(claim, &root, now)).max(now + 1);
            }
            let next = if random.flip() { random.within(now + 1, latest) } else { latest + random.within(0, late) };
            if let Some(claim) = runs_on {
                claims.charge(claim, next - now);
                runs.push((now, next));
            }
            on = runs_on.or(on);
            now = next;
        }
        core.advance(now);
        for window in [1, period / 2, period - 1, period, period + 1, 2 * period, 3 * period + 5] {
            let bound = stair(window, budget, period) + late;
            assert!(most_in(&runs, window.max(1)) <= bound.max(1), "{budget} in {period}, window {window}: {runs:?}");
        }
        let used: u64 = (1..6).filter_map(|number| claims.claim(number)).map(|claim| claim.used_ticks()).sum();
        assert_eq!(used, core.usage(1).budgeted_ticks, "{runs:?}");
    });
}

/// A core and the claims on which its servers run: each on its own.
struct Pairing {
    core: KernelCore<16>,
    claims: Claims<16, 16>,
    agreement: Agreement,
}

impl Pairing {
    /// Servers with scheduler and number of their own claims.
    fn new(servers: impl IntoIterator<Item = (Budget, bool, u16, u64)>) -> Self {
        let servers: Vec<_> = servers.into_iter().collect();
        let mut claims = Claims::new();
        for (number, (_, _, own, priority)) in (0..).zip(&servers) {
            claims.make_own(number, number, *own, *priority).expect("free");
        }
        let core = core_of(servers.into_iter().map(|(budget, goes_on, ..)| (budget, goes_on)));
        Self { core, claims, agreement: Agreement::new() }
    }

    fn next(&mut self, now: u64) -> u8 {
        let position = |server: u8| Some(server);
        // Each turn lets a more important one take the core from the one before.
        for _ in 0..16 {
            let next = self.agreement.next(&mut self.core, &self.claims, position, now).stint.server();
            if !self.agreement.is_unfinished() {
                return next;
            }
        }
        panic!("it never ends");
    }

    fn signal(&mut self, now: u64, server: u8) -> u8 {
        let position = |server: u8| Some(server);
        let next = self.agreement.signal(&mut self.core, &self.claims, position, now, server).stint.server();
        if self.agreement.is_unfinished() { self.next(now) } else { next }
    }
}

const IDLE: u8 = Stint::IDLE.server();

/// CH-23: a scheduler that both have says that the receiver is worse, so it waits until the pair loses the core; and loses no date.
#[test]
fn a_veto_holds_as_long_as_the_pair_has_the_core() {
    // A and P share scheduler 9, for which P is more important; B has none in common with anybody.
    let three = || {
        let servers = [(9, 5), (KERNEL, 1), (9, 1)].map(|(own, number)| (dispatched(10, 100), false, own, number));
        let mut pairing = Pairing::new(servers);
        assert_eq!(pairing.signal(0, 2), 2);
        assert_eq!(pairing.signal(3, 0), 2, "A is vetoed");
        assert_eq!((pairing.core.vetoed(), pairing.core.asking()), (1, 0b101));
        assert_eq!(pairing.next(4), 2, "and stays so");
        assert_eq!(chunks(&pairing.core, 0), [(3, 10)], "no date has moved");
        pairing
    };
    let mut pairing = three();
    assert_eq!(pairing.next(10), 0, "the budget of P is used up");
    assert_eq!((pairing.core.vetoed(), chunks(&pairing.core, 0)), (0, vec![(10, 10)]));
    let mut pairing = three();
    pairing.core.block(6, 2);
    assert_eq!(pairing.next(6), 0, "P sleeps");
    let mut pairing = three();
    assert_eq!(pairing.signal(5, 1), 0, "B took the core from P, and nobody forbids A to take it from B");
    let mut pairing = three();
    pairing.core.block(5, 0);
    assert_eq!(pairing.core.vetoed(), 0, "who sleeps is not passed over");
    assert_eq!(pairing.next(5), 2);
    // One that is dated by eligibility keeps the date at which it woke.
    let servers = [(eligible(10, 100), false, 9, 5), (dispatched(10, 100), false, 9, 1)];
    let mut pairing = Pairing::new(servers);
    assert_eq!((pairing.signal(0, 1), pairing.signal(3, 0), pairing.next(10)), (1, 1, 0));
    assert_eq!(chunks(&pairing.core, 0), [(3, 10)]);
    // With an equal number it preempts, as published.
    let mut pairing = Pairing::new([(9, 1), (9, 1)].map(|(own, number)| (dispatched(10, 100), false, own, number)));
    assert_eq!((pairing.signal(0, 1), pairing.signal(3, 0)), (1, 0));
}

/// CH-23: in the background, or without a limit, a pair keeps nobody away. As published it could for ever.
#[test]
fn background_and_unlimited_pairs_veto_nobody() {
    let mut pairing = Pairing::new([(dispatched(10, 100), false, 9, 5), (dispatched(10, 100), true, 9, 1)]);
    assert_eq!(pairing.signal(0, 1), 1);
    assert_eq!(pairing.next(10), 1);
    assert!(pairing.core.running().is_background());
    assert_eq!(pairing.signal(20, 0), 0);
    let mut pairing = Pairing::new([(dispatched(10, 100), false, 9, 5), (Budget::Unlimited, false, 9, 1)]);
    assert_eq!((pairing.signal(0, 1), pairing.signal(20, 0)), (1, 0));
}

/// CH-22: a low client's time makes a high server's thread run at the client's level and on the client's budget.
#[test]
fn delegated_time_runs_at_the_level_of_who_gave_it() {
    let mut pairing = Pairing::new([(dispatched(10, 100), false, KERNEL, 1), (dispatched(5, 50), false, KERNEL, 1)]);
    pairing.claims.create(7, 3, 2).expect("free");
    let root = pairing.core.root(1, 0).expect("a server");
    assert_eq!(pairing.claims.delegate(7, 1, 0, 4, &root, 0), Ok(5));
    // The thread of server 0 with this claim stands in the position of the client's server.
    let position = |server: u8| Some(if server == 1 { 7 } else { server });
    let Pairing { core, claims, agreement } = &mut pairing;
    let chosen = agreement.signal(core, claims, position, 0, 1);
    assert_eq!((chosen.stint.server(), chosen.stint.level()), (1, 1));
    let chosen = agreement.signal(core, claims, position, 2, 0);
    assert_eq!(chosen.stint.server(), 0, "the server's own work is more important than what it does for the client");
    assert_eq!((core.usage(1).budgeted_ticks, core.usage(0).budgeted_ticks), (2, 0));
}

/// CH-23, whatever happens: who is passed over waits for the pair that has the core and for nobody else; a pair that could go on loses
/// the core only to one that may, or to one that took it from that one; at most eight wait.
#[test]
fn nobody_is_preempted_against_a_common_scheduler() {
    let mut vetoes = 0;
    check("agreement", |random| {
        let count = random.within(3, 12);
        let budget = |random: &mut Random| match random.below(6) {
            0 => Budget::Unlimited,
            _ => dispatched(random.within(1, 9), random.within(9, 40)),
        };
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push((budget(random), random.flip(), random.below(4) as u16, random.within(1, 4)));
        }
        let mut pairing = Pairing::new(servers);
        let mut now = 0;
        let mut running = IDLE;
        for _ in 0..40 {
            now += random.within(1, 6);
            let server = random.below(count) as u8;
            pairing.core.advance(now);
            let before = pairing.core.running();
            let could_go_on = |core: &mut KernelCore<16>| {
                let slot = before.server();
                before != Stint::IDLE
                    && !before.is_background()
                    && core.capacity_ticks(slot, now) > 0
                    && core.asking() >> slot & 1 != 0
            };
            let next = if random.flip() {
                pairing.signal(now, server)
            } else {
                if random.flip() {
                    pairing.core.block(now, server);
                }
                pairing.next(now)
            };
            let goes_on = could_go_on(&mut pairing.core);
            let is_unlimited = |slot: u8| matches!(pairing.core.budget(slot), Some(Budget::Unlimited));
            if goes_on && next != running && running != IDLE && !is_unlimited(running) {
                let may = |taker: u8, from: u8| is_unlimited(from) || pairing.claims.agree(taker, from);
                let asks = |slot: u8| pairing.core.asking() >> slot & 1 != 0;
                let by_a_third = (0..count as u8).any(|third| asks(third) && third < running && may(third, running));
                assert!(may(next, running) || by_a_third, "{next} took the core from {running}");
            }
            let vetoed = pairing.core.vetoed();
            vetoes += u64::from(vetoed != 0);
            assert!(vetoed.count_ones() <= MAX_VETOED);
            if vetoed != 0 {
                assert_eq!(
                    pairing.agreement.protected(),
                    Some((pairing.core.running(), next)),
                    "they wait for who runs"
                );
                let may = |slot: &u8| pairing.claims.agree(*slot, next);
                assert!(!(0..count as u8).filter(|slot| vetoed >> slot & 1 != 0).any(|slot| may(&slot)));
            }
            running = next;
        }
    });
    assert!(vetoes > 0, "nobody was ever passed over");
}

/// A core that was used is an empty one again, as far as anything of it can be seen.
#[test]
fn a_cleared_core_is_an_empty_one() {
    let mut core = core_of([(eligible(2, 10), true), (Budget::Unlimited, false)]);
    core.wake(3, 0);
    core.wake(3, 1);
    core.next(4);
    core.veto(1);
    core.advance(9);
    assert_ne!(format!("{core:?}"), format!("{:?}", KernelCore::<16>::empty()));
    core.clear();
    assert_eq!(format!("{core:?}"), format!("{:?}", KernelCore::<16>::empty()));
}
