//! CH-23, CH-60: a choice that schedulers have a word in is made in pieces, and anything may happen between two of them. It comes to what one in a single piece comes to,
//! written here from the rule alone; and when something happened in between, nobody has lost the core to one who may not have it.

mod support;

use bulkhead_sched::budget::{Anchor, Budget, Client, Pibs, PibsRule, Share, Sporadic, SporadicParameters};
use bulkhead_sched::kernel::{Agreement, KernelCore, Stint};
use bulkhead_sched::tcap::{ALL, Claims, KERNEL};
use support::random::{Random, check};

const SLOTS: u8 = 8;

/// A server with budget, or who runs with it: slot and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    slot: u8,
    level: u8,
}

struct World {
    core: KernelCore<16>,
    claims: Claims<16, 16>,
    agreement: Agreement,
    /// Claims of the positions; each server has two that it may be in.
    positions: [u8; 16],
    /// Nobody is kept away by one of these.
    unlimited: u64,
    /// Of these the level depends on who waits.
    of_clients: u64,
    now: u64,
}

impl World {
    fn new(random: &mut Random) -> Self {
        let mut core = KernelCore::empty();
        let mut claims = Claims::new();
        let of_clients = random.below(1 << SLOTS) & random.below(1 << SLOTS);
        let levels = |slot: u8| 1u64 << slot | (of_clients >> slot & 1) << (slot + SLOTS);
        assert!(core.configure(0, (0..SLOTS).map(levels)));
        let mut unlimited = 0;
        let schedulers = random.within(1, 4);
        for slot in 0..SLOTS {
            let budget = if of_clients >> slot & 1 != 0 {
                let client = |period_ticks, priority| Client { period_ticks, priority };
                let share = Share { numerator: 1, denominator: random.within(2, 4) as u32 };
                let clients = [client(20, slot), client(random.within(21, 60), slot + SLOTS)];
                Budget::Pibs(Pibs::new(share, PibsRule::Corrected, &clients, 1, 0).expect("valid"))
            } else if random.below(12) == 0 {
                unlimited |= 1 << slot;
                Budget::Unlimited
            } else {
                let parameters = SporadicParameters {
                    budget_ticks: random.within(1, 9),
                    period_ticks: random.within(9, 40),
                    smallest_chunk_ticks: 1,
                    chunks: 4,
                    anchor: if random.flip() { Anchor::Dispatch } else { Anchor::Eligible },
                    lag_clamp: random.flip(),
                };
                Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid"))
            };
            core.activate(0, slot, budget, random.below(4) == 0).expect("free");
            let scheduler =
                |random: &mut Random| if random.below(8) == 0 { KERNEL } else { 1 + random.below(schedulers) as u16 };
            claims.make_own(slot, slot, scheduler(random), random.within(1, 4)).expect("free");
            for _ in 0..random.below(3) {
                let _ = claims.pass_through(slot, scheduler(random), random.within(1, 4));
            }
            let other = slot + SLOTS;
            claims.create(other, scheduler(random), random.within(1, 4)).expect("free");
            let root = core.root(slot, 0).expect("it is active");
            claims.delegate(other, slot, ALL, 0, &root, 0).expect("it has all");
        }
        let positions = core::array::from_fn(|slot| slot as u8);
        Self { core, claims, agreement: Agreement::new(), positions, unlimited, of_clients, now: 0 }
    }

    /// The servers that ask and have budget, the most important first.
    fn ready(&mut self) -> Vec<Place> {
        let now = self.now;
        let asking = self.core.asking();
        let mut ready = Vec::new();
        for slot in (0..SLOTS).filter(|slot| asking >> slot & 1 != 0) {
            if let Some(root) = self.core.root(slot, now).filter(|root| root.capacity_ticks > 0) {
                ready.push(Place { slot, level: root.level });
            }
        }
        ready.sort_by_key(|place| place.level);
        ready
    }

    fn may(&self, taker: Place, from: Place) -> bool {
        self.claims.agree(self.positions[usize::from(taker.slot)], self.positions[usize::from(from.slot)])
    }

    /// Keeps others away.
    fn protects(&self, place: Place) -> bool {
        let claim = self.claims.claim(self.positions[usize::from(place.slot)]).expect("each has one");
        self.unlimited >> place.slot & 1 == 0 && !claim.vector().is_of_the_kernel_alone()
    }

    /// Who runs and keeps others away, if it could go on.
    fn holder(&mut self) -> Option<Place> {
        let running = self.core.running();
        let could = running != Stint::IDLE && !running.is_background();
        let ready = self.ready();
        let place = ready.into_iter().find(|place| could && place.slot == running.server())?;
        self.protects(place).then_some(place)
    }

    /// The choice in one piece: who has the core with budget, and who is passed over.
    fn in_one_piece(&mut self) -> (Option<u8>, u64) {
        let ready = self.ready();
        let mut holder = self.holder();
        let mut over = self.core.vetoed();
        loop {
            // Passed over is who is better and may not.
            for place in &ready {
                let stays = holder.is_some_and(|from| place.level < from.level && !self.may(*place, from));
                over &= if stays { u64::MAX } else { !(1 << place.slot) };
            }
            let best = ready.iter().find(|place| over >> place.slot & 1 == 0).copied();
            match (best, holder) {
                (Some(best), Some(from)) if best.level < from.level => {
                    if self.may(best, from) {
                        holder = Some(best).filter(|best| self.protects(*best));
                    } else {
                        over |= 1 << best.slot;
                    }
                }
                _ => return (best.map(|best| best.slot), over & ready.iter().fold(0, |all, one| all | 1 << one.slot)),
            }
        }
    }

    /// One piece of the choice; returns whether there is another.
    fn piece(&mut self) -> bool {
        let (before, ready) = (self.holder(), self.ready());
        let positions = self.positions;
        let position = |slot: u8| positions.get(usize::from(slot)).copied();
        let stint = self.agreement.next(&mut self.core, &self.claims, position, self.now).stint;
        let Some(from) = before.filter(|from| from.slot != stint.server()) else {
            return self.agreement.is_unfinished();
        };
        // One took it from the other, each more important than the one before.
        let mut reached = vec![from];
        for place in ready.iter().rev().filter(|place| place.level < from.level) {
            if reached.iter().any(|one| !self.protects(*one) || self.may(*place, *one)) {
                reached.push(*place);
            }
        }
        assert!(reached.iter().any(|one| one.slot == stint.server()), "{stint:?} took the core from {from:?}");
        self.agreement.is_unfinished()
    }

    /// Something happens at this instant.
    fn event(&mut self, random: &mut Random) {
        let (now, slot) = (self.now, random.below(SLOTS.into()) as u8);
        match random.below(11) {
            0..=3 => self.core.wake(now, slot),
            4 | 5 => self.core.block(now, slot),
            10 if self.core.running() != Stint::IDLE => {
                self.now += random.within(1, 3);
                self.core.charge_for(self.now, slot);
            }
            7 => {
                let place = &mut self.positions[usize::from(slot)];
                *place = if *place == slot { slot + SLOTS } else { slot };
                self.core.runs_on_another(now, slot);
            }
            6 if random.below(4) == 0 => drop(self.core.retire(now, slot)),
            8 | 9 if self.of_clients >> slot & 1 != 0 => {
                let client = random.index(2);
                let _ = if random.flip() {
                    self.core.request(now, slot, client)
                } else {
                    self.core.complete(now, slot, client)
                };
            }
            _ => {}
        }
    }

    /// The choice has ended: nobody waits for anything but the word of a scheduler.
    fn judge(&mut self) {
        let running = self.core.running();
        let over = self.core.vetoed();
        let best = self.ready().into_iter().find(|place| over >> place.slot & 1 == 0);
        match best {
            Some(best) => assert_eq!((running.server(), running.is_background()), (best.slot, false), "not the best"),
            None => assert!(running == Stint::IDLE || running.is_background()),
        }
        for place in self.ready().into_iter().filter(|place| over >> place.slot & 1 != 0) {
            let from = self.holder().expect("passed over for nobody");
            // One that became less important meanwhile would wait anyway.
            assert!(place.level >= from.level || !self.may(place, from), "{place:?} waits for {from:?}");
        }
    }
}

#[test]
fn a_choice_in_pieces_comes_to_what_one_in_a_single_piece_does() {
    let (mut cut, mut over) = (0, 0);
    check("choices in pieces", |random| {
        let mut world = World::new(random);
        for _ in 0..60 {
            world.now += random.below(6);
            world.core.advance(world.now);
            for _ in 0..random.below(4) {
                world.event(random);
            }
            let happens = random.flip();
            let expected = world.in_one_piece();
            let mut pieces = 0;
            while world.piece() {
                pieces += 1;
                assert!(pieces <= u32::from(SLOTS) * 4, "it never ends");
                if happens && pieces < 8 {
                    world.event(random);
                }
            }
            world.judge();
            cut += u64::from(pieces > 0);
            over += u64::from(world.core.vetoed() != 0);
            if !happens || pieces == 0 {
                let running = world.core.running();
                let with_budget = (running != Stint::IDLE && !running.is_background()).then_some(running.server());
                let level = if with_budget.is_some() { running.level() } else { u8::MAX };
                // One that became less important meanwhile would wait anyway.
                let is_better = |place: &&Place| place.level < level;
                let is_ready = world.ready().iter().filter(is_better).fold(0, |all, one| all | 1 << one.slot);
                assert_eq!((with_budget, world.core.vetoed() & is_ready), expected, "{pieces} pieces");
            }
        }
    });
    println!("{cut} choices in pieces, {over} with somebody passed over");
    assert!(cut > 100 && over > 1000, "{cut} choices in pieces, {over} with somebody passed over");
}
