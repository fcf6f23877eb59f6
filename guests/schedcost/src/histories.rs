//! Long random stories on every server: what any call can cost.

use crate::{Range, advance, block, count, pick, set_pending, wake};
use bulkhead_sched::dispatch::Core;

/// Reports of a story.
const STEPS: u64 = 20_000;

pub(crate) fn run<const SERVERS: usize, const VCPUS: usize>(core: &mut Core<SERVERS, VCPUS>) {
    let mut state = 88_172_645_463_325_252u64;
    let mut now = 0;
    let mut deadline = u64::MAX;
    let (mut reported, mut picked, mut replenished) = (Range::new(), Range::new(), Range::new());
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let vcpu = (state % VCPUS as u64) as u8;
        let step = (state >> 8) % 60;
        match deadline {
            // What the timer brings: a budget that is used up or comes back.
            date if date != u64::MAX && (date <= now + step || state & 128 != 0) => {
                now = date;
                // First the accounts, so that what is counted is the dates that are due.
                replenished.add(count(|| advance(core, now)));
            }
            _ => {
                now += step;
                reported.add(match (state >> 16) % 4 {
                    0 => count(|| block(core, now, vcpu)),
                    1 => count(|| set_pending(core, now, vcpu, (state >> 20) & 1)),
                    _ => count(|| wake(core, now, vcpu)),
                });
            }
        }
        picked.add(count(|| pick(core, now)));
        deadline = core.next(now).deadline_ticks;
    }
    reported.print("any_report", SERVERS);
    replenished.print("any_date", SERVERS);
    picked.print("any_pick", SERVERS);
}
