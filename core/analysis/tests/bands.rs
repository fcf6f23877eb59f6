//! Servers made at run time against the bounds that were printed before: whatever a band admits, nobody waits longer (QV-37), and the
//! published test in whole numbers against exact fractions.

#[path = "../../sched/tests/support/random.rs"]
mod random;

use bulkhead_analysis::admission::{equation_one, io_share, liu_layland, sum};
use bulkhead_analysis::core_bounds::{CoreBounds, Verdict};
use bulkhead_analysis::core_model::{CoreModel, Rule, Server};
use bulkhead_analysis::ratio::Ratio;
use bulkhead_analysis::steps::Steps;
use bulkhead_sched::band::{Band, Bands, LIMITS, ONE, Quick};
use bulkhead_sched::budget::{Anchor, Budget, Share, Sporadic, SporadicParameters};
use bulkhead_sched::kernel::{KernelCore, Stint};
use random::{Random, check, check_some, stair};

const ABOVE: u8 = 0;
const VICTIM: u8 = 7;
const BAND_SLOTS: std::ops::Range<u8> = 1..7;
const END: u64 = 400;

fn rule(budget_ticks: u64, period_ticks: u64, dispatch_anchor: bool) -> Rule {
    Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, lag_clamp: true, chunks: 16, minimum_ticks: 1 }
}

fn budget(rule: &Rule) -> Budget {
    let Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor, .. } = *rule else { unreachable!() };
    let anchor = if dispatch_anchor { Anchor::Dispatch } else { Anchor::Eligible };
    let parameters =
        SporadicParameters { budget_ticks, period_ticks, smallest_chunk_ticks: 1, chunks: 16, anchor, lag_clamp: true };
    Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
}

/// A server above, a band as one server, a victim below; each with its bound.
struct System {
    model: CoreModel,
    band: Band,
    response_of_band: u64,
    response_of_victim: u64,
}

fn any_system(random: &mut Random) -> Option<System> {
    let shortest_ticks = random.within(10, 40);
    let band = Band {
        first_slot: 1,
        slots: 6,
        shortest_ticks,
        longest_ticks: 3 * shortest_ticks,
        budget_ticks: random.within(2, shortest_ticks / 2),
        smallest_ticks: 1,
        chunks: 16,
    };
    let above = rule(random.within(1, 4), random.within(8, 30), random.flip());
    let victim = rule(random.within(1, 8), random.within(30, 90), random.flip());
    let counted = rule(band.budget_ticks, shortest_ticks, true);
    let servers = vec![Server::new(0, 0, above), Server::new(1, 1, counted), Server::new(2, 2, victim)];
    let model = CoreModel { servers, ..CoreModel::default() };
    let bounds = CoreBounds::of(&model, &Steps::default());
    let response = |number: usize| match bounds.servers[number].verdict {
        Verdict::Fits { response_ticks } => Some(response_ticks),
        _ => None,
    };
    let (response_of_band, response_of_victim) = (response(1)?, response(2)?);
    response(0)?;
    Some(System { model, band, response_of_band, response_of_victim })
}

/// A job that may not end later than this.
struct Job {
    slot: u8,
    left: u64,
    latest: u64,
}

/// Servers of the band come, change, go and run at random.
fn disturb(
    bands: &mut Bands<16>,
    core: &mut KernelCore<16>,
    random: &mut Random,
    band: &Band,
    now: u64,
    probe: Option<u8>,
) {
    if random.below(3) == 0 {
        let (budget, period) =
            (random.within(1, band.budget_ticks), random.within(band.shortest_ticks, band.longest_ticks));
        let slot = random.within(1, 6) as u8;
        let is_other = probe != Some(slot);
        match random.below(4) {
            0 | 1 => {
                if let Ok(slot) = bands.create(core, now, 0, budget, period)
                    && random.flip()
                {
                    core.wake(now, slot);
                }
            }
            2 if is_other => {
                let _ = bands.set(core, now, slot, budget, period);
            }
            _ if is_other => {
                let _ = bands.destroy(core, now, slot);
            }
            _ => {}
        }
    }
    for slot in [ABOVE, random.within(1, 6) as u8, random.within(1, 6) as u8] {
        if probe != Some(slot) && random.below(3) == 0 {
            if random.below(3) > 0 { core.wake(now, slot) } else { core.block(now, slot) }
        }
    }
}

/// Runs a system; asserts the bounds of the victim and of a server that has just been made. Returns when the band ran.
fn run(system: &System, random: &mut Random) -> Vec<bool> {
    let mut core = KernelCore::<16>::empty();
    assert!(core.configure(0, [1, 2, 2, 2, 2, 2, 2, 4]));
    for (slot, server) in [(ABOVE, 0), (VICTIM, 2)] {
        core.activate(0, slot, budget(&system.model.servers[server].rule), false).expect("free");
    }
    let mut bands = Bands::new();
    assert!(bands.add(system.band));
    let Rule::Sporadic { budget_ticks, .. } = system.model.servers[2].rule else { unreachable!() };
    let released = random.within(50, END / 2);
    let probed = random.within(50, END / 2);
    let mut jobs: Vec<Job> = Vec::new();
    let mut ran = Vec::new();
    for now in 0..END {
        let probe = jobs.iter().map(|job| job.slot).find(|slot| *slot != VICTIM);
        disturb(&mut bands, &mut core, random, &system.band, now, probe);
        if now == released {
            jobs.push(Job { slot: VICTIM, left: budget_ticks, latest: now + system.response_of_victim });
            core.wake(now, VICTIM);
        }
        if now == probed {
            let left = random.within(1, system.band.budget_ticks);
            let period = random.within(system.band.shortest_ticks, system.band.longest_ticks);
            if let Ok(slot) = bands.create(&mut core, now, 0, left, period) {
                jobs.push(Job { slot, left, latest: now + system.response_of_band });
                core.wake(now, slot);
            }
        }
        let chosen = core.next(now).stint;
        ran.push(chosen != Stint::IDLE && BAND_SLOTS.contains(&chosen.server()));
        if let Some(place) = jobs.iter().position(|job| chosen != Stint::IDLE && job.slot == chosen.server()) {
            jobs[place].left -= 1;
            if jobs[place].left == 0 {
                let done = jobs.remove(place);
                assert!(
                    now < done.latest,
                    "{} is done at {}, not by {}: {:?}",
                    done.slot,
                    now + 1,
                    done.latest,
                    system.model
                );
                core.block(now + 1, done.slot);
            }
        }
    }
    ran
}

fn most_in(ran: &[bool], window: u64) -> u64 {
    let window = usize::try_from(window).expect("short").clamp(1, ran.len());
    ran.windows(window).map(|part| part.iter().filter(|ran| **ran).count() as u64).max().unwrap_or(0)
}

/// QV-20, QV-37, QV-38: after any history of servers that were made, changed and ended, every bound that was printed for the band as one
/// server holds: of the victim below it, of each server in it, and of what all of them take in any window.
#[test]
fn every_bound_holds_whatever_a_band_admits() {
    let mut systems = 0u64;
    let mut full = 0u64;
    let cases = check_some("bands", 10, |random| {
        let Some(system) = any_system(random) else { return };
        systems += 1;
        let ran = run(&system, random);
        let Band { budget_ticks, shortest_ticks, .. } = system.band;
        for window in
            [1, shortest_ticks - 1, shortest_ticks, shortest_ticks + 1, 2 * shortest_ticks, 3 * shortest_ticks]
        {
            let bound = stair(window, budget_ticks, shortest_ticks);
            assert!(most_in(&ran, window) <= bound, "{:?} in {window}", system.band);
        }
        full += u64::from(most_in(&ran, shortest_ticks) == budget_ticks);
    });
    assert!(
        systems > cases / 4 && full > systems / 20,
        "{full} of {systems} systems of {cases} cases used all of a band"
    );
}

fn ratio(numerator: u64, denominator: u64) -> Ratio {
    Ratio::new(u128::from(numerator), u128::from(denominator))
}

/// QV-37: the limits are the largest numbers of 2^-32 that do not exceed n(2^(1/n) - 1).
#[test]
fn the_limits_of_the_published_test_are_exact() {
    for (count, limit) in (1..).zip(LIMITS) {
        assert!(liu_layland(&ratio(limit, ONE), count), "{count}");
        assert!(!liu_layland(&ratio(limit + 1, ONE), count), "{count}");
    }
}

/// QV-37: nothing is admitted that the equation refuses, and nothing refused that is 2^-24 or more below its limit.
#[test]
fn the_published_test_is_exact_but_for_a_hair_below_the_limit() {
    let (mut refused, mut close) = (0, 0);
    check("equation 1", |random| {
        let count = random.within(1, 5) as usize;
        // Periods as they are in nanoseconds, or short ones.
        let longest = [100, 1 << 30, 1 << 56][random.index(3)];
        let mut quick = Quick::new();
        let mut mains = Vec::new();
        let mut others = Vec::new();
        if random.below(3) == 0 {
            let denominator = random.within(5, 1_000) as u32;
            let share = Share { numerator: random.within(1, u64::from(denominator) / 5) as u32, denominator };
            quick = quick.with_io(share);
            others.push(io_share(u64::from(share.numerator), u64::from(share.denominator)));
        }
        for number in 0..count {
            let period = random.within(longest / 2, longest);
            let left = LIMITS[count - 1].saturating_sub(quick.sum());
            let exact = ((u128::from(left) * u128::from(period)) >> 32) as u64;
            // The last one comes as close to the limit as its period allows.
            let budget = if number + 1 == count {
                (exact + random.within(0, 4)).saturating_sub(2)
            } else {
                random.below(exact / 2 + 1)
            };
            let budget = budget.clamp(1, period);
            quick = quick.with_main(budget, period);
            mains.push(ratio(budget, period));
        }
        let total = equation_one(&mains, &others);
        let exact = liu_layland(&total, count);
        if quick.holds() {
            assert!(exact, "{mains:?} {others:?}");
        } else {
            refused += 1;
            let hair = sum(&[total, ratio(1, 1 << 24)]);
            close += u64::from(exact);
            assert!(!liu_layland(&hair, count), "{mains:?} {others:?}");
        }
    });
    assert!(refused > 0 && close > 0, "{refused} refused, {close} of them below the limit");
}
