//! Claims on time that another instance has left in the memory of this one.

use super::*;
use bulkhead_kernel_abi::{MAX_SERVERS, MAX_TCAPS, NONE};
use bulkhead_sched::tcap::{ALL, Claims, Root};

/// Claims as another instance may have left them: every number is taken, time is given and reserved, dates are filed, and vectors are of several words.
fn used(random: &mut Random) -> Claims<MAX_TCAPS, MAX_SERVERS> {
    let mut claims = Claims::new();
    for number in 0..MAX_TCAPS as u8 {
        let (own, permanent) = (random.below(4) as u16, 1 + random.below(6));
        let server = number / 2 % MAX_SERVERS as u8;
        let made = if number % 2 == 0 {
            claims.make_own(number, server, own, permanent)
        } else {
            claims.create(number, own, permanent)
        };
        made.expect("it is free");
    }
    for _ in 0..400 {
        let [claim, to] = [0; 2].map(|_| random.below(MAX_TCAPS as u64) as u8);
        let Some(server) = claims.claim(claim).and_then(|one| one.root()) else { continue };
        let root = Root {
            server,
            level: server,
            capacity_ticks: 500,
            smallest_ticks: 1,
            expires_ticks: Some(1 + random.below(2_000)),
        };
        let ticks = if random.below(4) == 0 { ALL } else { 1 + random.below(50) };
        // Refusals change nothing.
        let _ = match random.below(4) {
            0 => claims.pass_through(claim, random.below(8) as u16, 1 + random.below(9)),
            1 => claims.set_number(claim, random.below(8) as u16, 1 + random.below(9)),
            _ => claims.delegate(to, claim, ticks, random.below(5), &root, 0).map(|_| ()),
        };
    }
    let reserved: u64 = (0..MAX_SERVERS as u8).map(|server| claims.reserved_ticks(server)).sum();
    assert!(claims.free() == 0 && reserved != 0 && claims.next_expiry_ticks() < 2_001, "they are used");
    claims
}

/// What can be seen of a kernel.
fn seen_of(search: &mut Search) -> String {
    let (now, timer_ticks) = (search.now(), search.kernel.machine().timer_ticks);
    let threads = search.kernel.objects().room().threads.iter().take(THREADS + 1);
    let threads: Vec<_> = threads.map(|one| (one.state, one.server, one.tcap, one.runs_on, one.registers)).collect();
    format!("{} runs at {now}, timer {timer_ticks}, {threads:?}", search.running)
}

/// CH-50, CH-61: the kernel's memory is zeros when it begins (`boot.s`). Where claims are those of another instance nevertheless, none of them is left, with schedulers or without: all that can be seen
/// is as with fresh ones.
#[test]
fn claims_that_another_instance_has_left_are_nobodys() {
    let (mut seen, mut with_schedulers) = (Seen::default(), 0_u64);
    let cases = random::check_some("used claims", DIVISOR, |random| {
        let left = used(random);
        let mut same = random.clone();
        let mut fresh = Search::new(&mut same);
        let room = time_room();
        *room.shares.claims = left;
        let mut again = Search::with(random, room);
        let schedulers = &fresh.kernel.objects().room().schedulers;
        with_schedulers += u64::from(schedulers.iter().any(|one| one.thread != NONE));
        for number in 0..STEPS {
            step(&mut fresh, &mut same, &mut seen);
            step(&mut again, random, &mut Seen::default());
            assert_eq!(seen_of(&mut fresh), seen_of(&mut again), "step {number}");
        }
        fresh.check_time(&mut seen);
        again.check_time(&mut Seen::default());
        let servers = |search: &Search| format!("{:?}", search.kernel.accounts().servers);
        assert_eq!(servers(&fresh), servers(&again));
    });
    println!("{with_schedulers} of {cases} with schedulers, {:?}", seen.done);
    let gave = seen.done.get(&(Call::Delegate, 0)).copied().unwrap_or(0);
    assert!(random::is_short() || (1..cases).contains(&with_schedulers) && gave != 0, "{with_schedulers} {gave}");
}
