//! Doorbells that ring as often as their limiters let them, on the kernel's own scheduler: with any payer, no server waits longer than its bound with the
//! term for limited interrupts says, and without that term some do (CH-32, CH-37; `real-time.md` 4.2). The same of interrupts, which ring again when their driver has run (QV-35).

#[path = "../../sched/tests/support/random.rs"]
mod random;

use bulkhead_analysis::core_bounds::{CoreBounds, Verdict};
use bulkhead_analysis::core_model::{CoreModel, Rule, Server};
use bulkhead_analysis::demand::Demand;
use bulkhead_analysis::steps::Steps;
use bulkhead_sched::budget::{Anchor, Budget, Sporadic, SporadicParameters};
use bulkhead_sched::kernel::KernelCore;
use random::{Random, check};
use std::cell::Cell;

/// As long as any period, and longer than any window.
const LEAD: u64 = 100;

/// A limiter, and what a doorbell takes.
#[derive(Clone, Copy, Debug)]
struct Wire {
    cost: u64,
    events: u64,
    window: u64,
    /// Where its grid begins.
    phase: u64,
    /// The server that pays.
    payer: u8,
}

impl Wire {
    fn any(random: &mut Random, servers: u64) -> Self {
        let window = random.within(10, 60);
        let payer = random.within(0, servers - 1) as u8;
        Self {
            cost: random.within(1, 3),
            events: random.within(1, 3),
            window,
            phase: random.within(0, window - 1),
            payer,
        }
    }

    /// Doorbells at an instant: all of a window at its end or at its beginning, in turns, so that twice as many come at once; or spread.
    fn rings(&self, random: &mut Random, now: u64, sent: &mut u64) -> u64 {
        let (number, place) = ((now + self.phase) / self.window, (now + self.phase) % self.window);
        if place == 0 {
            *sent = 0;
        }
        let all = self.events - *sent;
        let rings = match number % 3 {
            0 if place == self.window - 1 => all,
            1 if place == 0 => all,
            2 if random.below(4) == 0 => all.min(1),
            _ => 0,
        };
        *sent += rings;
        rings
    }
}

/// The interrupt of a driver.
#[derive(Clone, Copy, Debug)]
struct Line {
    cost: u64,
    /// The driver's server.
    payer: u8,
    /// It may ring.
    is_armed: bool,
}

impl Line {
    /// At any instant, and at the worst one at the latest. The driver, which ran on its own time then, may have said that it may ring again.
    fn rings(&mut self, random: &mut Random, is_worst: bool, ran: Option<u8>) -> bool {
        self.is_armed |= ran == Some(self.payer) && random.flip();
        let rings = self.is_armed && (is_worst || random.below(8) == 0);
        self.is_armed &= !rings;
        rings
    }
}

fn budget(rule: &Rule) -> Budget {
    let Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, .. } = *rule else { unreachable!() };
    let anchor = if dispatch_anchor { Anchor::Dispatch } else { Anchor::Eligible };
    let parameters =
        SporadicParameters { budget_ticks, period_ticks, smallest_chunk_ticks: 1, chunks: 16, anchor, lag_clamp: true };
    Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
}

/// How long the victim needs for a whole budget that it wants at `released`. At each instant `rings` says whose work is done above all servers, and how much; it is told the instant and who
/// ran before it.
fn response(
    model: &CoreModel,
    victim: u8,
    released: u64,
    random: &mut Random,
    mut rings: impl FnMut(&mut Random, u64, Option<u8>) -> Vec<(u8, u64)>,
) -> u64 {
    let mut core = KernelCore::<16>::empty();
    assert!(core.configure(0, (0..model.servers.len()).map(|level| 1 << level)));
    for (slot, server) in (0..).zip(&model.servers) {
        core.activate(0, slot, budget(&server.rule), false).expect("free");
        // Others always want to run, from any instant on.
        if slot != victim && random.flip() {
            core.wake(0, slot);
        }
    }
    let (mut left, _) = model.servers[usize::from(victim)].rule.budget().expect("it has one");
    let (mut due, mut now, mut ran) = (Vec::new(), 0, None);
    // Whose work runs above every server, and how much of it is left.
    let mut above: Option<(u8, u64)> = None;
    loop {
        if now == released {
            for slot in 0..model.servers.len() as u8 {
                core.wake(now, slot);
            }
        }
        due.extend(rings(random, now, ran));
        if above.is_none() && !due.is_empty() {
            core.advance(now);
            above = Some(due.remove(0));
        }
        let chosen = if above.is_some() { None } else { Some(core.next(now).stint.server()) };
        (now, ran) = (now + 1, chosen);
        match (&mut above, chosen) {
            (Some((payer, more)), _) => {
                *more -= 1;
                if *more == 0 {
                    core.charge_for(now, *payer);
                    above = None;
                }
            }
            (None, Some(slot)) if slot == victim && now > released => {
                left -= 1;
                if left == 0 {
                    return now - released;
                }
            }
            _ => {}
        }
        assert!(now < released + 10_000, "{model:?}: it never had its budget");
    }
}

/// Servers, the most important one first.
fn servers(random: &mut Random, count: u64) -> CoreModel {
    let rule = |random: &mut Random, number: u64| {
        let budget_ticks = random.within(1, 6);
        let period_ticks = random.within(20 + 10 * number, 60 + 10 * number);
        Rule::Sporadic {
            budget_ticks,
            period_ticks,
            dispatch_anchor: random.flip(),
            lag_clamp: true,
            chunks: 16,
            minimum_ticks: 1,
        }
    };
    let servers = (0..count).map(|number| Server::new(number as usize, number as u8, rule(random, number)));
    CoreModel { servers: servers.collect(), ..CoreModel::default() }
}

/// By when the victim has its budget, if it is certain.
fn bound(model: &CoreModel, victim: u8) -> Option<u64> {
    match CoreBounds::of(model, &Steps::default()).servers[usize::from(victim)].verdict {
        Verdict::Fits { response_ticks } => Some(response_ticks),
        _ => None,
    }
}

/// QV-35: one top half of each driver's interrupt, whenever it comes, and none more. A driver behind cannot run before the victim is done; of one in front it is what is beyond its budget,
/// and repaid.
#[test]
fn no_interrupt_of_another_driver_makes_a_server_wait_longer_than_its_bound() {
    let judged = Cell::new(0);
    // How often it was longer than with no top half, with the longest alone, and with those of drivers behind.
    let beyond = Cell::new([0; 3]);
    check("top halves", |random| {
        let count = random.within(2, 4);
        let alone = servers(random, count);
        let victim = random.within(0, count - 1) as u8;
        let line = |random: &mut Random| Line {
            cost: random.within(1, 3),
            payer: (u64::from(victim) + random.within(1, count - 1)) as u8 % count as u8,
            is_armed: true,
        };
        let mut lines: Vec<Line> = (0..random.within(1, 3)).map(|_| line(random)).collect();
        let blocked = |blocking_ticks: u64| CoreModel { blocking_ticks, ..alone.clone() };
        let all = blocked(lines.iter().map(|line| line.cost).sum());
        let longest = blocked(lines.iter().map(|line| line.cost).max().unwrap_or(0));
        let behind = blocked(lines.iter().filter(|line| line.payer > victim).map(|line| line.cost).sum());
        let Some(all_bound) = bound(&all, victim) else { return };
        let fewer = [&alone, &longest, &behind].map(|model| bound(model, victim).unwrap_or(0));
        judged.set(judged.get() + 1);
        let worst = (0..2).map(|_| {
            let released = LEAD + random.within(0, 60);
            let late = random.below(4);
            response(&all, victim, released, random, |random, now, ran| {
                let rung = lines.iter_mut().filter_map(|line| {
                    line.rings(random, now == released + late, ran).then_some((line.payer, line.cost))
                });
                rung.collect()
            })
        });
        let worst = worst.max().unwrap_or(0);
        assert!(worst <= all_bound, "{worst} > {all_bound}: {all:?} {lines:?}");
        let before = beyond.get();
        beyond.set([0, 1, 2].map(|place| before[place] + u64::from(worst > fewer[place])));
    });
    let found = (judged.get(), beyond.get());
    println!("{found:?}");
    assert!(found.0 > 0 && found.1.iter().all(|count| *count > 0), "{found:?}");
}

#[test]
fn no_flood_makes_a_server_wait_longer_than_its_bound() {
    let (judged, beyond) = (Cell::new(0), Cell::new(0));
    check("floods", |random| {
        let count = random.within(2, 4);
        let alone = servers(random, count);
        let wires: Vec<Wire> = (0..random.within(1, 2)).map(|_| Wire::any(random, count)).collect();
        let event =
            |wire: &Wire| Demand::Events { cost_ticks: wire.cost, events: wire.events, period_ticks: wire.window };
        let rung = CoreModel { events: wires.iter().map(event).collect(), ..alone.clone() };
        let victim = random.within(0, count - 1) as u8;
        // What a wire's own server has is used by the kernel.
        if wires.iter().any(|wire| wire.payer == victim) {
            return;
        }
        let (Some(before), Some(bound)) = (bound(&alone, victim), bound(&rung, victim)) else { return };
        judged.set(judged.get() + 1);
        let worst = (0..2).map(|_| {
            let released = LEAD + random.within(0, 60);
            let mut sent = vec![0; wires.len()];
            response(&rung, victim, released, random, |random, now, _| {
                let rung = wires
                    .iter()
                    .zip(&mut sent)
                    .flat_map(|(wire, sent)| vec![(wire.payer, wire.cost); wire.rings(random, now, sent) as usize]);
                rung.collect()
            })
        });
        let worst = worst.max().unwrap_or(0);
        assert!(worst <= bound, "{worst} > {bound}: {rung:?} {wires:?}");
        beyond.set(beyond.get() + u64::from(worst > before));
    });
    assert!(
        judged.get() > 0 && beyond.get() > 0,
        "{} judged, {} beyond the bound without wires",
        judged.get(),
        beyond.get()
    );
}
