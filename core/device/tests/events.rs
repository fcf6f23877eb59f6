//! All orders of two owners who look into the event queue and an SMMU that fills it (`devices.md` section 3).
//!
//! The owners run the code of the crate. A look is a function of what its accesses answered, so it is replayed up to its next access
//! each time: that access is one step of the search, and so is each store of the SMMU. States that were seen are not
//! searched again, so the search is exhaustive: every order, and every choice of whose function is refused next.

use bulkhead_device::events::{Cursor, Queue};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// Entries of the queue. The rules are about its size, not about how large it is.
const SIZE: u32 = 2;
const OVERFLOW: u32 = 1 << 31;
const INDEX: u32 = 2 * SIZE - 1;
/// StreamIDs of the two owners.
const STREAMS: [u32; 2] = [8, 0x100];

/// What a look does to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Produced,
    Entry(u32),
    Consume(u32),
}

/// What it answered.
type Answer = [u64; 2];

/// Answers a look from what is recorded. The first access behind that is the one that is next; the look then runs on, without effect, to
/// an end that nobody sees.
struct Replay<'a> {
    answers: &'a [Answer],
    asked: Cell<usize>,
    next: Cell<Option<Access>>,
}

impl Replay<'_> {
    fn answer(&self, access: Access) -> Answer {
        let asked = self.asked.replace(self.asked.get() + 1);
        self.answers.get(asked).copied().unwrap_or_else(|| {
            self.next.set(self.next.get().or(Some(access)));
            [0, 0]
        })
    }
}

impl Queue for Replay<'_> {
    const ENTRIES: u32 = SIZE;
    const PER_LOOK: u32 = 1;

    fn produced(&self) -> u32 {
        self.answer(Access::Produced)[0] as u32
    }
    fn entry(&self, index: u32) -> [u64; 2] {
        self.answer(Access::Entry(index))
    }
    fn consume(&self, produced: u32) {
        self.answer(Access::Consume(produced));
    }
}

/// An owner: where it is, and what its look has been told so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    cursor: (u32, u64, u64, Answer),
    answers: Vec<Answer>,
    looks_left: u32,
    /// Own events of the SMMU, dropped ones too.
    refused: u64,
    /// It may be deceived, as the caveats say: the queue is twice around since its place, or the flag since its last look.
    excused: bool,
    /// Entries before its place since the beginning, and entries before what it read first in its look.
    place: u32,
    first: u32,
    /// Changes of the flag since its last look began.
    flags: u32,
}

/// The SMMU and its queue. The indices are those of the registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    produced: u32,
    consumed: u32,
    slots: [Answer; SIZE as usize],
    /// An entry of which the first word alone is written.
    half: Option<Answer>,
    /// Entries written.
    total: u32,
    events_left: u32,
    number: u64,
    owners: [Owner; 2],
}

type Look = fn(&mut Cursor, &Replay<'_>, u32) -> u64;

fn look(cursor: &mut Cursor, queue: &Replay<'_>, stream: u32) -> u64 {
    cursor.look(queue, |one| one == stream)
}

thread_local! {
    /// A cursor is made of what is public and its place, which only its own code can set.
    static CURSORS: RefCell<Vec<Cursor>> = const { RefCell::new(Vec::new()) };
}

/// The number of a cursor: equal ones have the same.
fn number(cursor: Cursor) -> u32 {
    CURSORS.with_borrow_mut(|all| {
        all.iter().position(|one| *one == cursor).unwrap_or_else(|| {
            all.push(cursor);
            all.len() - 1
        }) as u32
    })
}

fn cursor(number: u32) -> Cursor {
    CURSORS.with_borrow(|all| all[number as usize])
}

impl Owner {
    fn new(looks: u32) -> Self {
        let fresh = (number(Cursor::default()), 0, 0, [0, 0]);
        Self {
            cursor: fresh,
            answers: Vec::new(),
            looks_left: looks,
            refused: 0,
            excused: false,
            place: 0,
            first: 0,
            flags: 0,
        }
    }
}

impl World {
    fn new(events: u32, looks: u32) -> Self {
        let owners = [Owner::new(looks), Owner::new(looks)];
        let slots = [[u64::from(u32::MAX) << 32, 0]; SIZE as usize];
        Self { produced: 0, consumed: 0, slots, half: None, total: 0, events_left: events, number: 0, owners }
    }

    /// The SMMU refuses a DMA of a function of this owner, or ends what it was writing.
    fn smmu(&self, owner: usize) -> Self {
        let mut next = self.clone();
        if let Some(entry) = next.half.take() {
            next.slots[(next.produced & (SIZE - 1)) as usize] = entry;
            next.produced = (next.produced + 1) & INDEX | next.produced & OVERFLOW;
            next.total += 1;
        } else {
            next.events_left -= 1;
            next.number += 1;
            next.owners[owner].refused += 1;
            let entry = [u64::from(STREAMS[owner]) << 32 | 0x10, next.number << 1 | owner as u64];
            if (next.produced ^ next.consumed) & INDEX == SIZE {
                // Full: it is dropped, and the flag says so until it is acknowledged.
                if (next.produced ^ next.consumed) & OVERFLOW == 0 {
                    next.produced ^= OVERFLOW;
                    next.owners.iter_mut().for_each(|owner| owner.flags += 1);
                }
            } else {
                // Its words come one after the other.
                next.slots[(next.produced & (SIZE - 1)) as usize][0] = entry[0];
                next.half = Some(entry);
            }
        }
        for owner in &mut next.owners {
            owner.excused |= owner.flags >= 2;
        }
        next
    }

    /// An owner makes its next access.
    fn step(&self, me: usize, look: Look) -> Self {
        let mut next = self.clone();
        let owner = &mut next.owners[me];
        let before = owner.cursor;
        let replay = |answers: &[Answer]| {
            let queue = Replay { answers, asked: Cell::new(0), next: Cell::new(None) };
            let mut cursor = cursor(before.0);
            look(&mut cursor, &queue, STREAMS[me]);
            (queue.next.get(), cursor)
        };
        let (access, _) = replay(&owner.answers);
        let answer = match access.expect("a look has an access") {
            Access::Produced => {
                if owner.answers.is_empty() {
                    (owner.first, owner.flags) = (self.total, 0);
                }
                owner.excused |= self.total - owner.place >= 2 * SIZE;
                [u64::from(self.produced), 0]
            }
            Access::Entry(index) => self.slots[index as usize],
            Access::Consume(value) => {
                next.consumed = value;
                [0, 0]
            }
        };
        let mut answers = owner.answers.clone();
        answers.push(answer);
        let (more, cursor) = replay(&answers);
        let owner = &mut next.owners[me];
        owner.answers = answers;
        if more.is_none() {
            let around = |answer: &Answer| (answer[0] as u32).wrapping_sub(owner.place) & INDEX >= SIZE;
            // The producer's index, an entry, the producer's index again, the store.
            let behind =
                owner.answers.first().is_some_and(around) || owner.answers.len() > 2 && around(&owner.answers[2]);
            let taken = u32::from(owner.answers.len() > 2);
            owner.place = if behind { owner.first } else { owner.place + taken };
            owner.cursor = (number(cursor), cursor.events, cursor.lost, cursor.last.0);
            owner.answers = Vec::new();
            owner.looks_left -= 1;
        }
        next
    }
}

/// Goes through every order and returns what is wrong first, and how many states there are.
fn search(events: u32, looks: u32, look: Look) -> (Option<String>, usize) {
    let mut seen = HashSet::new();
    let mut waiting = vec![World::new(events, looks)];
    while let Some(world) = waiting.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if let Some(wrong) = judge(&world, look) {
            return (Some(wrong), seen.len());
        }
        if world.half.is_some() {
            waiting.push(world.smmu(0));
        } else if world.events_left != 0 {
            waiting.extend([world.smmu(0), world.smmu(1)]);
        }
        let lookers = (0..2).filter(|me| world.owners[*me].looks_left != 0);
        waiting.extend(lookers.map(|me| world.step(me, look)));
    }
    (None, seen.len())
}

/// At no time more is counted than there was, and nobody else's; in the end, when each owner has looked as often as it takes,
/// everything is counted or said to be lost.
fn judge(world: &World, look: Look) -> Option<String> {
    for (me, owner) in world.owners.iter().enumerate() {
        let (_, counted, lost, last) = owner.cursor;
        if counted > owner.refused {
            return Some(format!("owner {me} counted {counted} of {}", owner.refused));
        }
        // Each event's address says whose it is, so that halves of two events are seen.
        let is_own = last[0] == u64::from(STREAMS[me]) << 32 | 0x10 && last[1] & 1 == me as u64 && last[1] > 1;
        if !(is_own || last == [0, 0] && counted == 0 || owner.excused) {
            return Some(format!("owner {me} believes {last:x?}"));
        }
        let is_over = world.events_left == 0 && world.half.is_none();
        if is_over && owner.looks_left == 0 && owner.answers.is_empty() && !owner.excused && lost == 0 {
            // The rest of the queue, with nobody else about.
            let mut rest = World { events_left: 0, ..world.clone() };
            rest.owners[me].looks_left = 8;
            while rest.owners[me].looks_left != 0 {
                rest = rest.step(me, look);
            }
            let rest = &rest.owners[me];
            let (_, counted, lost, _) = rest.cursor;
            if !rest.excused && counted != owner.refused && lost == 0 {
                return Some(format!("owner {me} counted {counted} of {} and missed nothing", owner.refused));
            }
        }
    }
    None
}

#[test]
fn in_every_order_an_event_is_counted_or_lost_moves() {
    for (events, looks) in [(3, 2), (4, 2), (5, 1)] {
        let (wrong, states) = search(events, looks, look);
        println!("{events} events, {looks} looks: {states} states");
        assert_eq!(wrong, None);
        assert!(states > 1_000);
    }
}

/// Breaks of a look that the search must see: it can fail.
#[test]
fn the_search_sees_what_is_left_out() {
    struct WithoutFlag<'a, 'b>(&'a Replay<'b>);
    impl Queue for WithoutFlag<'_, '_> {
        const ENTRIES: u32 = SIZE;
        const PER_LOOK: u32 = 1;
        fn produced(&self) -> u32 {
            self.0.produced() & !OVERFLOW
        }
        fn entry(&self, index: u32) -> [u64; 2] {
            self.0.entry(index)
        }
        fn consume(&self, produced: u32) {
            self.0.consume(produced);
        }
    }
    let broken: [(&str, Look); 3] = [
        ("the overflow flag is not looked at", |cursor, queue, stream| {
            cursor.look(&WithoutFlag(queue), |one| one == stream)
        }),
        ("everybody's events are counted", |cursor, queue, _| cursor.look(queue, |_| true)),
        ("what is overwritten is believed", |cursor, queue, stream| {
            struct Sure<'a, 'b>(&'a Replay<'b>, Cell<Option<u32>>);
            impl Queue for Sure<'_, '_> {
                const ENTRIES: u32 = SIZE;
                const PER_LOOK: u32 = 1;
                fn produced(&self) -> u32 {
                    // The second question is answered as the first one was.
                    let first = self.1.get().unwrap_or_else(|| self.0.produced());
                    self.1.set(Some(first));
                    first
                }
                fn entry(&self, index: u32) -> [u64; 2] {
                    self.0.entry(index)
                }
                fn consume(&self, produced: u32) {
                    self.0.consume(produced);
                }
            }
            cursor.look(&Sure(queue, Cell::new(None)), |one| one == stream)
        }),
    ];
    for (what, look) in broken {
        let (wrong, states) = search(5, 2, look);
        println!("{what}: {wrong:?} after {states} states");
        assert!(wrong.is_some(), "{what}");
    }
}

/// The queue of the board, which one owner alone looks into.
struct Board {
    produced: u32,
    consumed: Cell<u32>,
    slots: Vec<[u64; 2]>,
}

impl Queue for Board {
    fn produced(&self) -> u32 {
        self.produced
    }
    fn entry(&self, index: u32) -> [u64; 2] {
        self.slots[index as usize]
    }
    fn consume(&self, produced: u32) {
        self.consumed.set(produced);
    }
}

#[test]
fn a_look_takes_sixteen_entries_and_knows_the_latest_of_its_own() {
    let slot = |index: u64| [(if index.is_multiple_of(2) { 8 } else { 9 }) << 32 | 0x10, 0x1000 * index];
    let mut board = Board { produced: 40, consumed: Cell::new(0), slots: (0..256).map(slot).collect() };
    let mut cursor = Cursor::default();
    let looks: Vec<u64> = (0..4).map(|_| cursor.look(&board, |stream| stream == 8)).collect();
    assert_eq!(looks, [8, 8, 4, 0]);
    assert_eq!((cursor.events, cursor.lost), (20, 0));
    assert_eq!((cursor.last.kind(), cursor.last.stream(), cursor.last.address()), (0x10, 8, 0x26000));
    assert_eq!(board.consumed.get(), 40, "all that was there is given back at once");
    // Around the end, with the flag: 250 more, then 20 that cross it.
    board.produced = 250;
    while cursor.look(&board, |_| false) != 0 || board.consumed.get() != 250 {}
    for _ in 0..20 {
        cursor.look(&board, |_| false);
    }
    board.produced = 270 | OVERFLOW;
    assert_eq!((cursor.look(&board, |_| true), cursor.lost), (16, 1), "the SMMU dropped some");
    assert_eq!((cursor.look(&board, |_| true), cursor.lost), (4, 1));
    assert_eq!(board.consumed.get(), 270 | OVERFLOW, "the overflow is acknowledged");
    board.produced = ((270 + 256) % 512) | OVERFLOW;
    assert_eq!((cursor.look(&board, |_| true), cursor.lost), (0, 2), "a whole queue behind");
    assert_eq!((cursor.look(&board, |_| true), cursor.lost), (0, 2));
    board.produced = (270 + 256 + 30) % 512;
    cursor.skip(&board);
    assert_eq!((cursor.look(&board, |_| true), cursor.lost), (0, 2), "what was before is nobody's");
}
