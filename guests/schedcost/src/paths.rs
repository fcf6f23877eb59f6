//! Fixed stories. Rounds of each are far enough apart for every budget to be whole again.

use crate::{Range, advance, block, count, pick, set_pending, wake};
use bulkhead_sched::dispatch::{Core, Next, Stint};

/// Rounds of each story.
const ROUNDS: u64 = 200;
/// No date.
const NEVER: u64 = u64::MAX;

const fn start_of(round: u64, servers: usize) -> u64 {
    round * 10_000 * servers as u64
}

/// The vCPU of the nth reserved server.
const fn reserved<const SERVERS: usize, const VCPUS: usize>(number: usize) -> u8 {
    ((SERVERS / 4 + number) % VCPUS) as u8
}

/// A reserved vCPU runs; one that is more important wakes and is picked; it blocks again and the first one continues.
#[inline(never)]
pub(crate) fn wake_above<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let (above, below) = (reserved::<SERVERS, VCPUS>(0), reserved::<SERVERS, VCPUS>(1));
    let (mut woken, mut picked, mut both, mut blocked, mut again) =
        (Range::new(), Range::new(), Range::new(), Range::new(), Range::new());
    for round in 0..ROUNDS {
        let start = start_of(round, SERVERS);
        wake(core, start, below);
        pick(core, start);
        let waking = count(|| wake(core, start + 30, above));
        let picking = count(|| pick(core, start + 30));
        woken.add(waking);
        picked.add(picking);
        both.add(waking + picking);
        blocked.add(count(|| block(core, start + 50, above)));
        again.add(count(|| pick(core, start + 50)));
        block(core, start + 60, below);
        pick(core, start + 60);
    }
    woken.print("wake", SERVERS);
    picked.print("pick_after_wake", SERVERS);
    both.print("wake_and_pick", SERVERS);
    blocked.print("block", SERVERS);
    again.print("pick_after_block", SERVERS);
}

/// As [`wake_above`], with a vCPU that has nothing but its reserved server.
#[inline(never)]
pub(crate) fn wake_alone<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let (above, below) = (VCPUS as u8 - 1, reserved::<SERVERS, VCPUS>(1));
    let mut both = Range::new();
    for round in 0..ROUNDS {
        let start = start_of(round, SERVERS);
        wake(core, start, below);
        pick(core, start);
        let waking = count(|| wake(core, start + 30, above));
        both.add(waking + count(|| pick(core, start + 30)));
        block(core, start + 50, above);
        block(core, start + 60, below);
        pick(core, start + 60);
    }
    both.print("wake_and_pick_alone", SERVERS);
}

/// A reserved vCPU runs; an interrupt opens the gate of another one, which is ready and waits.
#[inline(never)]
pub(crate) fn interrupt_above<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let (above, below) = (0, reserved::<SERVERS, VCPUS>(1));
    let (mut opened, mut picked, mut both) = (Range::new(), Range::new(), Range::new());
    for round in 0..ROUNDS {
        let start = start_of(round, SERVERS);
        wake(core, start, below);
        pick(core, start);
        let opening = count(|| set_pending(core, start + 30, above, 1));
        let waking = count(|| wake(core, start + 30, above));
        let picking = count(|| pick(core, start + 30));
        opened.add(opening);
        picked.add(picking);
        both.add(opening + waking + picking);
        set_pending(core, start + 50, above, 0);
        block(core, start + 60, above);
        block(core, start + 60, below);
        pick(core, start + 60);
    }
    opened.print("set_pending", SERVERS);
    picked.print("pick_after_pending", SERVERS);
    both.print("set_pending_wake_and_pick", SERVERS);
}

/// A reserved vCPU runs until its budget is gone, and the core picks somebody else.
#[inline(never)]
pub(crate) fn exhaustion<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let mut spent = Range::new();
    for round in 0..ROUNDS {
        let start = start_of(round, SERVERS);
        let vcpu = reserved::<SERVERS, VCPUS>(round as usize % 2);
        wake(core, start, vcpu);
        let end = pick(core, start).deadline_ticks;
        if end != NEVER {
            spent.add(count(|| pick(core, end)));
        }
        block(core, start + 5_000, vcpu);
        pick(core, start + 5_000);
    }
    spent.print("exhaust_and_pick", SERVERS);
}

/// Time passes and nothing happens: the accounts are brought up to date and the same server continues.
#[inline(never)]
pub(crate) fn nothing_happens<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let (mut nothing, mut advanced, mut picked) = (Range::new(), Range::new(), Range::new());
    let vcpu = reserved::<SERVERS, VCPUS>(0);
    for round in 0..ROUNDS {
        let start = start_of(round, SERVERS);
        wake(core, start, vcpu);
        pick(core, start);
        nothing.add(count(|| ()));
        advanced.add(count(|| advance(core, start + 30)));
        picked.add(count(|| pick(core, start + 30)));
        block(core, start + 40, vcpu);
        pick(core, start + 40);
    }
    nothing.print("nothing", SERVERS);
    advanced.print("charge", SERVERS);
    picked.print("pick_again", SERVERS);
}

/// All reserved servers wait for their budgets, each with a date of its own; one comes back while somebody
/// runs who pays nothing. Then the core picks it, and all the others still have dates.
#[inline(never)]
pub(crate) fn replenishment<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let (mut replenished, mut picked) = (Range::new(), Range::new());
    let quarter = SERVERS / 4;
    for round in 0..ROUNDS {
        let mut now = start_of(round, SERVERS);
        let reserved = (quarter..SERVERS - quarter).map(|server| (server % VCPUS) as u8);
        for vcpu in reserved.clone() {
            // Alone, so that it takes no budget but its own; its less important servers have none to lose.
            wake(core, now, vcpu);
            now = match pick(core, now).deadline_ticks {
                NEVER => now + 1,
                end => end,
            };
            pick(core, now);
            now += 10;
        }
        // All are ready and wait; each server with a budget uses it up. The time of one without ends at a date.
        for _ in 0..SERVERS {
            let Next { stint, deadline_ticks } = pick(core, now);
            let has_budget = stint != Stint::IDLE
                && !stint.is_background()
                && (quarter..SERVERS - quarter).contains(&usize::from(stint.server()));
            if deadline_ticks == NEVER {
                break;
            }
            now = deadline_ticks;
            if has_budget {
                advance(core, now);
            } else {
                // What the date adds to bringing the accounts up to date.
                let accounts = count(|| advance(core, now - 1));
                replenished.add(count(|| advance(core, now)).saturating_sub(accounts));
                picked.add(count(|| pick(core, now)));
            }
        }
        for vcpu in reserved {
            block(core, now, vcpu);
        }
        pick(core, now);
    }
    replenished.print("replenish", SERVERS);
    picked.print("pick_after_date", SERVERS);
}
