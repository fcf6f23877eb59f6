//! Claims on the time of servers: the published test of preemption, and random histories against a model that keeps maps and adds up.

mod support;

use bulkhead_sched::tcap::{ALL, Claims, KERNEL, MAX_NUMBER, MAX_WORDS, Root, TcapError, Vector};
use std::collections::BTreeMap;
use support::random::{Random, check};

const CLAIMS: u8 = 16;
const ROOTS: u8 = 4;

fn root(server: u8, capacity_ticks: u64, expires_ticks: u64) -> Root {
    Root { server, level: server, capacity_ticks, smallest_ticks: 1, expires_ticks: Some(expires_ticks) }
}

fn numbers(vector: &Vector) -> Vec<(u16, u64)> {
    vector.entries().collect()
}

/// A claim with numbers of schedulers 1 (root's), 2 and so on, got by delegation through each of them.
fn passed_through(claims: &mut Claims<16, 4>, number: u8, own: u16, through: &[(u16, u64)], root: &Root) {
    claims.create(number, own, 50).expect("free");
    for (place, (scheduler, priority)) in through.iter().enumerate() {
        let helper = 8 + place as u8;
        claims.create(helper, *scheduler, *priority).expect("free");
        claims.delegate(helper, 0, 1, 0, root, 0).expect("room");
        claims.merge(number, helper, root, 0).expect("room");
    }
}

/// TCAP-01, CH-51: {root 2, vm 7} may not follow {root 3, vm 5}, {root 3, vm 5} may, {root 9, net 1} may not.
#[test]
fn tcap_01_a_worse_number_of_one_common_scheduler_forbids() {
    const ROOT: u16 = 1;
    const VM: u16 = 2;
    const NET: u16 = 3;
    let test = |own: u16, numbers: &[(u16, u64)]| {
        let mut claims = Claims::<16, 4>::new();
        let root = root(0, 100, 1_000);
        claims.make_own(0, 0, KERNEL, 1).expect("free");
        passed_through(&mut claims, 1, VM, &[(ROOT, 3)], &root);
        claims.set_number(1, VM, 5).expect("its own");
        passed_through(&mut claims, 2, own, &numbers[..1], &root);
        claims.set_number(2, own, numbers[1].1).expect("its own");
        let of = |claim: u8| claims.claim(claim).expect("made").vector();
        assert_eq!(of(1).entries().skip(1).collect::<Vec<_>>(), [(ROOT, 3), (VM, 5)]);
        claims.outranks((2, &root), (1, &root), 0)
    };
    assert!(!test(VM, &[(ROOT, 2), (VM, 7)]));
    assert!(test(VM, &[(ROOT, 3), (VM, 5)]));
    assert!(!test(NET, &[(ROOT, 9), (NET, 1)]));
    assert!(test(NET, &[(ROOT, 2), (NET, 60)]), "what one alone has does not count");
}

/// CH-51, CH-53: what the host says of schedulers above one is in the vector, the worse number where both say one, and it is passed on.
#[test]
fn a_claim_has_the_words_of_schedulers_above_its_own() {
    let mut claims = Claims::<16, 4>::new();
    let root = root(0, 100, 1_000);
    claims.make_own(0, 0, 1, 1).expect("free");
    claims.create(1, 3, 7).expect("free");
    claims.delegate(1, 0, ALL, 0, &root, 0).expect("room");
    let of = |claims: &Claims<16, 4>| claims.claim(1).map(|claim| numbers(claim.vector())).expect("made");
    assert_eq!(of(&claims), [(KERNEL, 0), (1, 1), (3, 7)]);
    for (scheduler, number) in [(2, 5), (1, 20), (2, 4)] {
        claims.pass_through(1, scheduler, number).expect("room");
    }
    assert_eq!(of(&claims), [(KERNEL, 0), (1, 20), (2, 5), (3, 7)]);
    for (scheduler, number) in [(2, 0), (2, MAX_NUMBER + 1)] {
        assert_eq!(claims.pass_through(1, scheduler, number), Err(TcapError::Priority));
    }
    assert_eq!(claims.pass_through(9, 2, 5), Err(TcapError::Number));
    for scheduler in 4..16 {
        claims.pass_through(1, scheduler, 9).expect("room for 16");
    }
    let before = of(&claims);
    assert_eq!((claims.pass_through(1, 16, 9), of(&claims)), (Err(TcapError::Full), before));
}

/// TCAP-01, CH-52, CH-50: 4 of 10 are delegated, 6 and 4 remain; the receiver keeps its own scheduler and gets the giver's.
#[test]
fn tcap_01_four_of_ten() {
    let mut claims = Claims::<16, 4>::new();
    let root = root(0, 10, 100);
    claims.make_own(0, 0, 1, 9).expect("free");
    claims.create(1, 2, 1).expect("free");
    claims.create(2, 3, 5).expect("free");
    assert_eq!(claims.delegate(1, 0, 0, 0, &root, 0), Ok(10));
    assert_eq!(claims.delegate(2, 1, 4, 0, &root, 0), Ok(4));
    assert_eq!([1, 2].map(|number| claims.claim(number).expect("made").left_ticks()), [6, 4]);
    assert_eq!(numbers(claims.claim(2).expect("made").vector()), [(0, 0), (1, 9), (2, 1), (3, 5)]);
    assert_eq!(claims.reserved_ticks(0), 10, "all of it is somebody's");
    assert_eq!(claims.usable_ticks(0, &root, 0), 0, "the server itself has nothing beside");
    assert!(!claims.outranks((0, &root), (0, &root), 0), "no time, no core");
    let empty = Root { capacity_ticks: 0, ..root };
    assert_eq!(
        [0, 1].map(|number| claims.usable_if_it_asks(number, &root, 0).is_some()),
        [false, true],
        "all of it is reserved"
    );
    assert_eq!(
        [0, 1].map(|number| claims.usable_if_it_asks(number, &empty, 0).is_some()),
        [true, false],
        "the server itself waits for its budget"
    );
    assert!(claims.outranks((2, &root), (2, &root), 0), "a claim may follow itself");
    assert_eq!(claims.expire(99), None);
    assert!(!claims.expire_one(0, 100), "a claim on everything never does");
    assert!(claims.clone().expire_one(2, 100) && !claims.expire_one(2, 99), "one of them, before the others");
    assert_eq!([(); 3].map(|()| claims.expire(100)), [Some((1, 0)), Some((2, 0)), None], "and whose time it was");
    assert_eq!(claims.usable_ticks(0, &root, 100), 10, "what expired is the server's again");
}

/// CH-52: the seventeenth scheduler is refused, and nothing has changed. CH-50: sixteen fit, the kernel's among them.
#[test]
fn the_seventeenth_word_is_refused() {
    let mut claims = Claims::<64, 4>::new();
    let root = root(0, 1_000, 10_000);
    claims.make_own(0, 0, KERNEL, 1).expect("free");
    let last = MAX_WORDS as u8;
    for number in 1..=last {
        claims.create(number, u16::from(number), 7).expect("free");
        let before = claims.clone();
        let given = claims.delegate(number, number - 1, 1_000 - u64::from(number), 0, &root, 0);
        if number == last {
            assert_eq!(given, Err(TcapError::Full), "the kernel and 16 others");
            assert!(claims == before, "a refused call changes nothing");
        } else {
            given.expect("room");
        }
    }
    let words = numbers(claims.claim(last - 1).expect("made").vector());
    let expected: Vec<_> = (0..last).map(|own| (u16::from(own), if own == 0 { 0 } else { 7 })).collect();
    assert_eq!(words, expected);
    assert!(claims.outranks((last - 1, &root), (last - 1, &root), 0));
}

/// CH-52, CH-53: what cannot be given, and to whom it cannot be given.
#[test]
fn refusals() {
    let mut claims = Claims::<16, 4>::new();
    let (first, second) = (root(0, 10, 100), root(1, 10, 100));
    let unlimited = Root { capacity_ticks: u64::MAX, expires_ticks: None, ..root(2, 0, 0) };
    for server in 0..3 {
        claims.make_own(server, server, KERNEL, 1).expect("free");
        claims.create(server + 4, 1 + u16::from(server), 5).expect("free");
    }
    assert_eq!(claims.create(4, 1, 5), Err(TcapError::Number), "taken");
    assert_eq!(claims.create(9, u16::MAX, 5), Err(TcapError::Priority), "marks the end");
    assert_eq!(claims.create(9, 1, 0), Err(TcapError::Priority));
    assert_eq!(claims.create(9, 1, MAX_NUMBER + 1), Err(TcapError::Priority));
    assert_eq!(claims.make_own(9, 4, 1, 1), Err(TcapError::Number), "no such server");
    assert_eq!(claims.delegate(5, 4, 1, 0, &first, 0), Err(TcapError::NoTime), "an empty claim gives nothing");
    assert_eq!(claims.delegate(9, 0, 1, 0, &first, 0), Err(TcapError::Number));
    assert_eq!(claims.delegate(4, 0, 1, MAX_NUMBER + 1, &first, 0), Err(TcapError::Priority));
    assert_eq!(claims.delegate(4, 0, 3, 0, &first, 0), Ok(3));
    assert_eq!(claims.delegate(4, 1, 3, 0, &second, 0), Err(TcapError::Busy), "one claim, one payer");
    assert_eq!(claims.delegate(5, 4, ALL, 0, &first, 0), Err(TcapError::Amount), "everything only of everything");
    assert_eq!(claims.delegate(6, 2, 3, 0, &unlimited, 0), Err(TcapError::Amount), "no budget to divide");
    assert_eq!(claims.delegate(6, 2, 0, 0, &unlimited, 0), Err(TcapError::Amount));
    assert_eq!(claims.delegate(6, 2, ALL, 0, &unlimited, 0), Ok(ALL));
    assert_eq!(claims.claim(6).map(|claim| claim.expires_ticks()), Some(u64::MAX), "never expires");
    assert_eq!(claims.transfer(5, 4, 1, &first, 0), Err(TcapError::Scheduler));
    assert_eq!(claims.merge(4, 0, &first, 0), Err(TcapError::Busy), "it goes with its server");
    assert_eq!((claims.delete(0), claims.delete(12)), (Err(TcapError::Busy), Err(TcapError::Number)));
    assert_eq!(claims.set_number(4, 9, 1), Err(TcapError::Scheduler), "it has not passed through that one");
    assert_eq!(claims.delegate(4, 4, 5, 8, &first, 0), Ok(0), "to itself: the number alone (CH-53)");
    assert_eq!(claims.claim(4).and_then(|claim| claim.vector().number(1)), Some(8));
    assert_eq!(claims.delegate(4, 4, 5, 0, &first, 0), Ok(0));
    assert_eq!(claims.claim(4).and_then(|claim| claim.vector().number(1)), Some(5), "0 is the permanent one");
    assert_eq!([(); 4].map(|()| claims.drop_one(0)), [true, false, false, false], "one has something of it");
    claims.drop_own(0);
    claims.drop_own(4);
    assert_eq!(claims.free(), 0xff89, "1, 2, 4, 5 and 6 are taken");
    assert_eq!((claims.claim(0).is_none(), claims.claim(4).and_then(|claim| claim.root())), (true, None));
    assert_eq!(claims.reserved_ticks(0), 0);
}

/// A neighbour that gives a tick with bad numbers to a server's own claim spoils nothing, and what it gives is free again.
#[test]
fn a_claim_on_everything_keeps_its_numbers() {
    let mut claims = Claims::<16, 4>::new();
    let root = root(0, 10, 100);
    claims.make_own(0, 0, 1, 3).expect("free");
    claims.create(1, 2, 900).expect("free");
    claims.delegate(1, 0, 5, 700, &root, 0).expect("time");
    assert_eq!(claims.usable_ticks(0, &root, 0), 5);
    assert_eq!(claims.delegate(0, 1, 2, 900, &root, 0), Ok(2));
    assert_eq!(numbers(claims.claim(0).expect("own").vector()), [(0, 0), (1, 3)]);
    assert_eq!((claims.usable_ticks(0, &root, 0), claims.usable_ticks(1, &root, 0)), (7, 3));
}

/// A claim as the obvious model has it.
#[derive(Clone, Debug)]
struct ModelClaim {
    own: u16,
    permanent: u64,
    goes_with_server: bool,
    root: Option<u8>,
    left: u64,
    expires: u64,
    numbers: BTreeMap<u16, u64>,
}

impl ModelClaim {
    fn fresh(own: u16, permanent: u64) -> Self {
        let numbers = BTreeMap::from([(0, 0), (own, if own == 0 { 0 } else { permanent })]);
        Self { own, permanent, goes_with_server: false, root: None, left: 0, expires: u64::MAX, numbers }
    }

    fn without_time(&self) -> Self {
        Self { goes_with_server: self.goes_with_server, ..Self::fresh(self.own, self.permanent) }
    }
}

#[derive(Clone, Debug)]
struct Model {
    claims: BTreeMap<u8, ModelClaim>,
    roots: Vec<Root>,
    now: u64,
}

impl Model {
    fn reserved(&self, server: u8) -> u64 {
        let finite = self.claims.values().filter(|claim| claim.root == Some(server) && claim.left != ALL);
        finite.map(|claim| claim.left).sum()
    }

    fn usable(&self, number: u8) -> u64 {
        let Some(claim) = self.claims.get(&number) else { return 0 };
        let Some(root) = claim.root.map(|server| self.roots[usize::from(server)]) else { return 0 };
        let usable = match claim.left {
            ALL => root.capacity_ticks.saturating_sub(self.reserved(root.server)),
            left if self.now < claim.expires => left.min(root.capacity_ticks),
            _ => 0,
        };
        if usable < root.smallest_ticks { 0 } else { usable }
    }

    /// Settles a change: who has nothing left keeps nothing of the others.
    fn put(&mut self, number: u8, claim: ModelClaim) {
        let claim = if claim.left == 0 { claim.without_time() } else { claim };
        self.claims.insert(number, claim);
    }

    fn delegate(&mut self, to: u8, from: u8, ticks: u64, priority: u64) -> Option<u64> {
        let mut giver = self.claims.get(&from)?.clone();
        let mut receiver = self.claims.get(&to)?.clone();
        let given_number = if priority == 0 { giver.permanent } else { priority };
        let own_number = if giver.own == 0 { 0 } else { given_number };
        if to == from {
            receiver.numbers.insert(receiver.own, own_number);
            self.claims.insert(to, receiver);
            return Some(0);
        }
        let usable = self.usable(from);
        if usable == 0 {
            return None;
        }
        let root = self.roots[usize::from(giver.root?)];
        let amount = match (ticks, giver.left, root.expires_ticks) {
            (ALL, ALL, _) => ALL,
            (ALL, ..) | (_, _, None) => return None,
            (0, ..) => usable,
            (_, ALL, _) => ticks.min(usable),
            (_, left, _) => ticks.min(left),
        };
        if receiver.left != 0 && receiver.left != ALL && receiver.expires <= self.now {
            receiver = receiver.without_time();
        }
        if receiver.left == 0 {
            receiver.root = giver.root;
            receiver.expires = u64::MAX;
        } else if receiver.root != giver.root {
            return None;
        }
        if receiver.left != ALL {
            for (scheduler, number) in &giver.numbers {
                let number = if *scheduler == giver.own { own_number } else { *number };
                let worse = receiver.numbers.get(scheduler).map_or(number, |mine| number.max(*mine));
                receiver.numbers.insert(*scheduler, worse);
            }
            if receiver.numbers.len() > MAX_WORDS {
                return None;
            }
            receiver.expires = receiver.expires.min(giver.expires).min(root.expires_ticks.unwrap_or(u64::MAX));
        }
        receiver.left = receiver.left.saturating_add(amount);
        if receiver.left == ALL {
            receiver.expires = u64::MAX;
        }
        if giver.left != ALL {
            giver.left -= amount;
        }
        self.put(from, giver);
        self.put(to, receiver);
        Some(amount)
    }

    fn charge(&mut self, number: u8, ticks: u64) -> bool {
        let Some(mut claim) = self.claims.get(&number).cloned() else { return false };
        let had = claim.left;
        if had == ALL || had == 0 {
            return false;
        }
        claim.left = had.saturating_sub(ticks);
        let empty = claim.left == 0;
        self.put(number, claim);
        empty
    }

    fn expire(&mut self) -> Vec<u8> {
        let due = |claim: &ModelClaim| claim.left != ALL && claim.left > 0 && claim.expires <= self.now;
        let due: Vec<u8> = self.claims.iter().filter(|(_, claim)| due(claim)).map(|(number, _)| *number).collect();
        for number in &due {
            let claim = self.claims[number].without_time();
            self.claims.insert(*number, claim);
        }
        due
    }

    /// CH-51, in words.
    fn outranks(&self, candidate: u8, current: u8) -> bool {
        let (a, c) = (&self.claims[&candidate], &self.claims[&current]);
        if self.usable(candidate) == 0 {
            return false;
        }
        let level = |claim: &ModelClaim| claim.root.map_or(0, |server| self.roots[usize::from(server)].level);
        let worse = |(scheduler, number): (&u16, &u64)| {
            *scheduler != 0 && c.numbers.get(scheduler).is_some_and(|other| number > other)
        };
        candidate == current || level(a) <= level(c) && !a.numbers.iter().any(worse)
    }
}

fn compare(claims: &Claims<16, 4>, model: &Model) {
    for number in 0..CLAIMS {
        let (ours, theirs) = (claims.claim(number), model.claims.get(&number));
        let ours = ours.map(|claim| {
            (claim.root(), claim.left_ticks(), claim.expires_ticks(), numbers(claim.vector()), claim.vector().len())
        });
        let theirs = theirs.map(|claim| {
            let numbers: Vec<_> = claim.numbers.iter().map(|(id, number)| (*id, *number)).collect();
            (claim.root, claim.left, claim.expires, numbers.clone(), numbers.len() as u8)
        });
        assert_eq!(ours, theirs, "claim {number} of {model:#?}");
    }
    for server in 0..ROOTS {
        assert_eq!(claims.reserved_ticks(server), model.reserved(server), "reserved of {server}: {model:#?}");
    }
    let finite = model.claims.values().filter(|claim| claim.left != ALL && claim.left > 0);
    assert_eq!(claims.next_expiry_ticks(), finite.map(|claim| claim.expires).min().unwrap_or(u64::MAX));
}

/// Two of four roots have a budget, one has none to divide, one is hardly ever usable.
fn any_roots(random: &mut Random, now: u64) -> Vec<Root> {
    let mut roots = Vec::new();
    for server in 0..ROOTS {
        let level = random.within(0, 3) as u8;
        let smallest_ticks = random.within(1, 3);
        let capacity_ticks = if server == 3 { random.within(0, 4) } else { random.within(0, 60) };
        let expires_ticks = (server != 2).then_some(now + random.within(1, 40));
        roots.push(Root { server, level, capacity_ticks, smallest_ticks, expires_ticks });
    }
    roots
}

/// One random step on both. Returns false when it was refused.
fn step(claims: &mut Claims<16, 4>, model: &mut Model, random: &mut Random) -> bool {
    let (to, from) = (random.below(14) as u8, random.below(14) as u8);
    let priority = if random.flip() { 0 } else { random.within(1, 9) };
    let root = model
        .claims
        .get(&from)
        .and_then(|claim| claim.root)
        .map_or(model.roots[0], |server| model.roots[usize::from(server)]);
    match random.below(12) {
        0 => {
            let own = random.below(20) as u16;
            let free = !model.claims.contains_key(&to);
            assert_eq!(claims.create(to, own, priority.max(1)).is_ok(), free);
            if free {
                model.claims.insert(to, ModelClaim::fresh(own, priority.max(1)));
            }
            free
        }
        1 if random.flip() => {
            let ends = model.claims.get(&to).is_some_and(|claim| !claim.goes_with_server);
            assert_eq!(claims.delete(to).is_ok(), ends);
            if ends {
                model.claims.remove(&to);
            }
            ends
        }
        2 | 3 => {
            let ticks = random.within(0, 12);
            assert_eq!(claims.charge(from, ticks), model.charge(from, ticks), "{from} uses {ticks}: {model:#?}");
            true
        }
        4 => {
            let fits = model.claims.get(&from).is_some_and(|giver| to != from && !giver.goes_with_server);
            let ticks = model.claims.get(&from).map_or(0, |giver| giver.left);
            let expected = if fits { model.delegate(to, from, ticks, 0) } else { None };
            if expected.is_some() {
                model.claims.remove(&from);
            }
            assert_eq!(claims.merge(to, from, &root, model.now).ok(), expected, "{from} into {to}: {model:#?}");
            expected.is_some()
        }
        _ => {
            let ticks = [0, 1, 3, 8, 30, ALL][random.index(6)];
            let expected = model.delegate(to, from, ticks, priority);
            let given = claims.delegate(to, from, ticks, priority, &root, model.now);
            assert_eq!(given.ok(), expected, "{from} gives {ticks} to {to} with {priority}, {given:?}: {model:#?}");
            expected.is_some()
        }
    }
}

/// CH-50..CH-54: claims do what the obvious model does; a refused call changes nothing; nothing improves a number that another
/// scheduler gave; `outranks` takes at most its steps whatever the words are.
#[test]
fn claims_do_what_the_obvious_model_does() {
    check("claims", |random| {
        let mut claims = Claims::<16, 4>::new();
        let mut model = Model { claims: BTreeMap::new(), roots: any_roots(random, 0), now: 0 };
        for server in 0..ROOTS {
            let own = random.below(4) as u16;
            claims.make_own(server, server, own, 2).expect("free");
            let claim = ModelClaim { left: ALL, root: Some(server), ..ModelClaim::fresh(own, 2) };
            model.claims.insert(server, ModelClaim { goes_with_server: true, ..claim });
        }
        for number in 0..30 {
            if random.below(4) == 0 {
                model.now += random.within(0, 15);
                model.roots = any_roots(random, model.now);
                let mut expired: Vec<u8> =
                    std::iter::from_fn(|| claims.expire(model.now)).map(|(number, _)| number).collect();
                expired.sort_unstable();
                assert_eq!(expired, model.expire());
            }
            let before = claims.clone();
            if !step(&mut claims, &mut model, random) {
                assert!(before == claims, "a refused call changes nothing: {model:#?}");
            }
            if number % 6 == 5 {
                compare(&claims, &model);
            }
            let (a, c) = (random.below(14) as u8, random.below(14) as u8);
            let root = |number: u8| {
                let server = model.claims[&number].root;
                server.map_or(Root { level: 0, ..model.roots[0] }, |server| model.roots[usize::from(server)])
            };
            if model.claims.contains_key(&a) && model.claims.contains_key(&c) {
                let ours = claims.outranks((a, &root(a)), (c, &root(c)), model.now);
                assert_eq!(ours, model.outranks(a, c), "{a} over {c}: {model:#?}");
            }
        }
    });
}
