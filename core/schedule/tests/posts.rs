//! Software-generated interrupts to a vCPU that shares its core, as a model: every order of the steps of two senders, of the core that
//! receives, and of the core that parks, resumes and starts its vCPU. Each step is one access that others can see.
//!
//! What is shown of every state, see [`State::check`]: no post is lost, a posted sleeper is woken, and the core is entered for
//! it once in each absence. Every [`Break`] of the protocol turns one of these red.

use bulkhead_schedule::posts::{self, Word};
use std::cell::Cell;
use std::collections::HashSet;

/// The word of the vCPU's state, as `monitor/src/state.rs` has it.
const CLAIMED: u8 = 1;
const POSTED: u8 = 2;
const ON: u8 = 4;
const STAND: u8 = 8;
const PARKED: u8 = 16;

/// The protocol as it is, or with one mistake in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Nothing,
    /// A sender wakes the core with each post.
    AlwaysWakes,
    /// A sender wakes the core before it posts.
    WakesFirst,
    /// The core looks at the word before it acknowledges the interrupt.
    LooksFirst,
    /// The core empties the word of a vCPU that is not loaded and keeps what it found.
    EmptiesWhileAway,
    /// A vCPU that is resumed in its sleep sleeps on, whatever was posted.
    ResumesBlindly,
    /// A start empties the word after it can be seen.
    StartsFirst,
    /// A vCPU takes its posts when it is loaded, though its start waits because its partition is to stand.
    TakesWhileOff,
    /// A vCPU that starts forgets what it took when it was loaded.
    TakesBeforeReset,
}

/// What happens next on a sending core: it posts, or it has posted and wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sender {
    left: u8,
    wakes: bool,
}

/// Where the receiving core is. All but `Open` is one handler, in which no interrupt is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// A guest runs, or nobody does.
    Open,
    /// The interrupt is acknowledged: the state word is next.
    Follow,
    /// The words of posts are next; with what was seen of it too early.
    Posts(Option<bool>),
    /// The interrupt is acknowledged next (the broken order).
    Acknowledge(bool),
    /// The vCPU is loaded: its start is next, if it has to.
    Start,
    /// Its posts are next.
    Take,
}

/// What the core of vCPU 0 does next for this vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Leader {
    Free,
    /// It sends the monitor's interrupt, and is free then.
    Wakes,
    /// The vCPU is claimed: the word is emptied next.
    Clears,
    /// The start becomes visible next.
    Shows,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    posted: u8,
    /// The monitor's interrupt is pending at the receiving core.
    pending: bool,
    senders: [Sender; 2],
    leader: Leader,
    /// What the leader may still begin.
    orders: u8,
    at: At,
    /// The vCPU: its state word, whether it is loaded, can use the core, sleeps, stands, and what its list registers have.
    word: u8,
    loaded: bool,
    ready: bool,
    asleep: bool,
    stands: bool,
    listed: u8,
    /// CPU_OFF and sleeps that the guest has left.
    offs: u8,
    /// Bits that were posted when the vCPU was on or about to be, and that its guest has not handled.
    owed: u8,
    /// In this absence: posts that found the word empty, entries, and interrupts that may have caused them.
    found_empty: u8,
    entries: u8,
    causes: u8,
}

struct Model(Cell<u8>);

impl Word for Model {
    fn fill(&self, bits: u32) -> u32 {
        u32::from(self.0.replace(self.0.get() | bits as u8))
    }
    fn empty(&self) -> u32 {
        u32::from(self.0.replace(0))
    }
    fn peek(&self) -> u32 {
        u32::from(self.0.get())
    }
}

impl State {
    fn first() -> Self {
        Self {
            posted: 0,
            pending: false,
            senders: [2, 1].map(|left| Sender { left, wakes: false }),
            leader: Leader::Free,
            orders: 2,
            at: At::Open,
            word: ON,
            loaded: true,
            ready: true,
            asleep: false,
            stands: false,
            listed: 0,
            offs: 1,
            owed: 0,
            found_empty: 0,
            entries: 0,
            causes: 0,
        }
    }

    /// One access to the word by the protocol itself.
    fn access<R>(&mut self, access: impl FnOnce(&Model) -> R) -> R {
        let model = Model(Cell::new(self.posted));
        let result = access(&model);
        self.posted = model.0.get();
        result
    }

    fn on_the_way(&self) -> u8 {
        let senders = self.senders.iter().filter(|sender| sender.wakes).count() as u8;
        senders + u8::from(self.pending) + u8::from(self.leader == Leader::Wakes)
    }

    fn wake_core(&mut self) {
        self.pending = true;
    }

    fn leave(&mut self) {
        self.loaded = false;
        (self.found_empty, self.entries, self.causes) = (0, 0, self.on_the_way());
    }

    fn take(&mut self) {
        let taken = self.access(posts::take) as u8;
        self.listed |= taken;
        if taken != 0 {
            (self.asleep, self.ready) = (false, true);
        }
    }

    /// The steps of a sender of one bit.
    fn send(&self, number: usize, broken: Break) -> Option<Self> {
        let mut next = self.clone();
        let bit = 1 << number;
        let sender = next.senders[number];
        let wakes_first = broken == Break::WakesFirst;
        match sender {
            Sender { wakes: false, left: 0 } => return None,
            // The broken order: `wakes` says that the post is next.
            Sender { wakes: false, .. } if wakes_first => {
                next.senders[number].wakes = true;
                next.causes += 1;
                next.wake_core();
            }
            Sender { wakes: true, left } if wakes_first => {
                next.senders[number] = Sender { wakes: false, left: left - 1 };
                let _ = next.post(bit);
            }
            Sender { wakes: false, left } => {
                let empty = next.post(bit);
                next.senders[number] = Sender { wakes: empty || broken == Break::AlwaysWakes, left: left - 1 };
            }
            Sender { wakes: true, .. } => {
                next.senders[number].wakes = false;
                next.wake_core();
            }
        }
        Some(next)
    }

    fn post(&mut self, bit: u8) -> bool {
        let empty = self.access(|word| posts::post(word, u32::from(bit)));
        if self.word & (ON | POSTED) != 0 {
            self.owed |= bit;
        }
        if empty && !self.loaded {
            self.found_empty += 1;
            self.causes += 1;
        }
        empty
    }

    /// The steps of the core of vCPU 0.
    fn lead(&self, broken: Break) -> Vec<Self> {
        let step = |change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            next
        };
        let wakes = |next: &mut Self| {
            next.leader = Leader::Wakes;
            next.causes += 1;
        };
        // What comes after a start is counted for itself: it is another run of the guest.
        let clear = |next: &mut Self| (next.posted, next.found_empty) = (0, 0);
        match self.leader {
            Leader::Wakes => vec![step(&|next| {
                next.leader = Leader::Free;
                next.wake_core();
            })],
            Leader::Clears if broken == Break::StartsFirst => vec![step(&|next| {
                next.word |= POSTED;
                next.leader = Leader::Shows;
            })],
            Leader::Shows if broken == Break::StartsFirst => vec![step(&|next| {
                clear(next);
                wakes(next);
            })],
            Leader::Clears => vec![step(&|next| {
                clear(next);
                next.leader = Leader::Shows;
            })],
            Leader::Shows => vec![step(&|next| {
                next.word |= POSTED;
                wakes(next);
            })],
            // A partition that stands is let go, always.
            Leader::Free if self.word & STAND != 0 => {
                let stands = self.word & PARKED != 0 || self.word & ON == 0;
                let go = step(&|next| {
                    next.word &= !(STAND | PARKED);
                    wakes(next);
                });
                if stands { vec![go] } else { vec![] }
            }
            Leader::Free if self.orders == 0 => vec![],
            Leader::Free => {
                let park = step(&|next| {
                    next.orders -= 1;
                    next.word |= STAND;
                    wakes(next);
                });
                let start = step(&|next| {
                    next.orders -= 1;
                    next.word = CLAIMED;
                    next.leader = Leader::Clears;
                });
                match self.word {
                    0 => vec![park, start],
                    _ => vec![park],
                }
            }
        }
    }

    /// The steps of the receiving core.
    fn receive(&self, broken: Break) -> Vec<Self> {
        let mut next = self.clone();
        match self.at {
            At::Open => return self.choose(broken),
            At::Acknowledge(seen) => {
                next.pending = false;
                next.follow();
                next.at = At::Posts(Some(seen));
            }
            At::Follow => {
                let stood = next.stands;
                next.follow();
                let blind = broken == Break::ResumesBlindly && stood && !next.stands;
                next.at = if blind { At::Open } else { At::Posts(None) };
            }
            At::Posts(seen) => {
                let may_run = next.word & ON != 0 && !next.stands;
                let posted = seen.unwrap_or_else(|| next.access(posts::is_posted));
                if may_run && next.loaded && seen != Some(false) {
                    next.take();
                } else if may_run && posted && !next.loaded {
                    (next.asleep, next.ready) = (false, true);
                    if broken == Break::EmptiesWhileAway {
                        next.take();
                    }
                }
                next.at = At::Open;
            }
            At::Start => {
                if broken == Break::TakesBeforeReset {
                    next.take();
                }
                if next.word == CLAIMED | POSTED {
                    next.word = ON;
                    (next.asleep, next.listed) = (false, 0);
                }
                next.at = if broken == Break::TakesBeforeReset { At::Open } else { At::Take };
            }
            At::Take => {
                // What comes before its start is for the start to keep.
                if next.word & ON != 0 || broken == Break::TakesWhileOff {
                    next.take();
                }
                next.at = At::Open;
            }
        }
        vec![next]
    }

    /// What the state word asks for, also of a vCPU that is not loaded: no budget is needed to stand or to be ready.
    fn follow(&mut self) {
        match self.word {
            word if word & (ON | STAND | PARKED) == ON | STAND => {
                self.word |= PARKED;
                (self.stands, self.ready) = (true, false);
            }
            ON if self.stands => {
                self.stands = false;
                self.ready = !self.asleep;
            }
            word if word == CLAIMED | POSTED => self.ready = true,
            _ => {}
        }
    }

    /// Between handlers: the interrupt is taken, somebody is chosen, or the guest does something.
    fn choose(&self, broken: Break) -> Vec<Self> {
        let mut steps = Vec::new();
        let mut step = |change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            steps.push(next);
        };
        if self.pending {
            step(&|next| {
                next.entries += u8::from(!next.loaded);
                if broken == Break::LooksFirst {
                    next.at = At::Acknowledge(next.posted != 0);
                } else {
                    next.pending = false;
                    next.at = At::Follow;
                }
            });
        }
        if !self.loaded && self.ready {
            step(&|next| (next.loaded, next.at) = (true, At::Start));
        }
        // Its turn ends, or it cannot use the core and another one can.
        if self.loaded {
            step(&Self::leave);
        }
        if self.loaded && self.word & ON != 0 && !self.stands && !self.asleep {
            step(&|next| {
                next.owed &= !next.listed;
                next.listed = 0;
            });
            if self.listed == 0 {
                step(&|next| (next.asleep, next.ready) = (true, false));
            }
            if self.offs > 0 {
                step(&|next| {
                    next.offs -= 1;
                    next.word &= !ON;
                    (next.ready, next.owed) = (false, 0);
                });
            }
        }
        steps
    }

    /// What holds in every state.
    fn check(&self, broken: Break) -> Result<(), String> {
        let lost = self.owed & !(self.posted | self.listed);
        if lost != 0 {
            return Err(format!("a post is lost: {lost:#b}"));
        }
        let comes = self.on_the_way() > 0 && broken != Break::WakesFirst || self.pending;
        let is_on = self.word & (ON | STAND) == ON && !self.stands;
        if self.at == At::Open && is_on && self.asleep && !self.ready && self.posted != 0 && !comes {
            return Err("it is posted, on and asleep, and nobody wakes it".to_owned());
        }
        if self.at == At::Open && self.word == CLAIMED | POSTED && !self.ready && !comes && self.leader == Leader::Free
        {
            return Err("it is to start, and nobody says so".to_owned());
        }
        if self.found_empty > 1 {
            return Err("two posts of an absence found the word empty".to_owned());
        }
        if self.entries > self.causes {
            return Err(format!("{} entries in an absence, of {} interrupts", self.entries, self.causes));
        }
        Ok(())
    }
}

/// Goes through all states; returns how many there are, or the shortest way to one in which something is wrong.
fn search(broken: Break) -> Result<usize, (String, Vec<State>)> {
    let mut seen = HashSet::from([State::first()]);
    let mut all = vec![(State::first(), usize::MAX)];
    let mut place = 0;
    while let Some((state, _)) = all.get(place).cloned() {
        if let Err(what) = state.check(broken) {
            let mut way = Vec::new();
            let mut at = place;
            while let Some((state, before)) = all.get(at) {
                way.insert(0, state.clone());
                at = *before;
            }
            return Err((what, way));
        }
        let senders = (0..2).filter_map(|number| state.send(number, broken));
        for next in senders.chain(state.lead(broken)).chain(state.receive(broken)) {
            if seen.insert(next.clone()) {
                all.push((next, place));
            }
        }
        place += 1;
    }
    Ok(all.len())
}

/// A posted vCPU that is on and asleep has an interrupt on its way or a wake-up reported, no post is lost, and in one absence one post
/// enters the core: in every order with parking, resuming, off and start.
#[test]
fn every_order_of_posts_wakes_once_and_loses_nothing() {
    let states = search(Break::Nothing).unwrap_or_else(|(what, way)| panic!("{what}: {way:?}"));
    println!("{states} states");
    assert!(states > 100_000, "{states} states");
}

/// Each step is there for a reason, and this search sees it.
#[test]
fn each_mistake_is_seen() {
    for (broken, wanted) in [
        (Break::AlwaysWakes, "entries in an absence"),
        (Break::WakesFirst, "nobody wakes it"),
        (Break::LooksFirst, "nobody wakes it"),
        (Break::EmptiesWhileAway, "two posts of an absence"),
        (Break::ResumesBlindly, "nobody wakes it"),
        (Break::StartsFirst, "a post is lost"),
        (Break::TakesWhileOff, "a post is lost"),
        (Break::TakesBeforeReset, "a post is lost"),
    ] {
        let (what, way) = search(broken).expect_err("a mistake that is not seen");
        println!("{broken:?}: {what}, after {} steps", way.len() - 1);
        assert!(what.contains(wanted), "{broken:?}: {what}: {way:?}");
    }
}
