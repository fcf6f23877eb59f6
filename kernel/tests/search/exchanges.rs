//! The short ways of `switch` and of a notification where a scheduler says who runs, on the whole kernel.

use super::*;
use bulkhead_objects::{Position, Thread};

/// CH-23, CH-41: what nobody charges at a `switch` is charged by the next entry, to the same threads, claims and servers. Two instances with the same history: in one each `switch`
/// goes the way of all calls.
#[test]
fn a_switch_by_its_short_way_is_a_switch() {
    let (mut exchanged, mut handed_over) = (0, 0);
    random::check_some("exchanges", DIVISOR / 2, |random| {
        let seed = random.next();
        let pair = [false, true].map(|exchanges| {
            let mut random = Random(seed);
            // What an entry itself takes is not compared.
            let mut search = Search::on(FakeCore::default(), Instance::without_chunks(&mut random), time_room());
            (search.exchanges, search.favours_switches) = (exchanges, true);
            (search, random)
        });
        let [(mut long, mut of_long), (mut short, mut of_short)] = pair;
        for _ in 0..STEPS {
            step(&mut long, &mut of_long, &mut Seen::default());
            step(&mut short, &mut of_short, &mut Seen::default());
            compare(&mut long, &mut short);
            // A part of a budget may have come back since the choice by which the timer is set: it rings, and is set again. An entry of both does that here.
            if long.kernel.machine().timer_ticks != short.kernel.machine().timer_ticks {
                for search in [&mut long, &mut short] {
                    let _ = search.call(Call::Version, [0; 8], 0);
                }
                assert_eq!(long.kernel.machine().timer_ticks, short.kernel.machine().timer_ticks);
            }
        }
        exchanged += short.exchanged;
        handed_over += short.handed_over;
        for search in [&mut long, &mut short] {
            search.check_time(&mut Seen::default());
        }
        compare(&mut long, &mut short);
        let [long, short] = [&long, &short].map(|search| search.kernel.accounts());
        assert_eq!(long.servers, short.servers);
        assert_eq!(long.threads, short.threads);
    });
    println!("{exchanged} switches and {handed_over} notifications by the short way");
    assert!(random::is_short() || exchanged > 1_000 && handed_over > 200, "{exchanged}, {handed_over}");
}

fn compare(long: &mut Search, short: &mut Search) {
    assert_eq!(long.now(), short.now());
    assert_eq!(long.running, short.running);
    let [latest, timer] = [&mut *long, &mut *short].map(|search| search.kernel.machine().timer_ticks);
    assert!(timer <= latest, "the timer rings at {timer} and not at {latest}");
    let running = usize::from(long.running);
    let [long, short] = [&long, &short].map(|search| search.kernel.objects().room());
    for (number, (long, short)) in long.threads.iter().zip(&*short.threads).enumerate() {
        // The one that runs was charged up to the last entry, and they are at different instants when a timer rang early.
        let charged = |one: &Thread| if number == running { None } else { Some((one.used_ticks, one.limit_ticks)) };
        assert_eq!(charged(long), charged(short), "thread {number}");
        let uncharged = |one: &Thread| {
            let mut one = Thread { used_ticks: 0, limit_ticks: 0, ..*one };
            // The vectors write it.
            one.registers.x[8] = 0;
            one
        };
        if uncharged(long) == uncharged(short) {
            continue;
        }
        let [long, short] = [long, short].map(|one| format!("{:?}", uncharged(one)));
        let differs = long.split(", ").zip(short.split(", ")).find(|(long, short)| long != short);
        assert_eq!(differs, None, "thread {number}");
    }
    assert!(long.schedulers == short.schedulers);
    let uncharged = |one: &Position| Position { turn_ticks: 0, ..*one };
    assert!(long.servers.iter().map(uncharged).eq(short.servers.iter().map(uncharged)));
}
