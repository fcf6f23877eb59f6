//! Several cores (SG-13): the payload on the first, and a world of `guests/kicked` on all, which is stopped, watched and refused.

use bulkhead_system_tests::secure::{Kicked, LONGEST_WATCH, OTHER, Worlds, kicked_world, secure_monitor_of_cores};

/// The shortest watch.
const SHORTEST: u64 = 625;

fn numbers(line: &str) -> Vec<u64> {
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// SG-13, SG-14, QV-16, CF-2, CF-9, CF-11: a core whose EL1 masks everything is stopped 1,000 times of 1,000; a kick of EL2 itself comes when that leaves; watches
/// fire in their limits; every call of every core at both levels is answered as a model says, by table and at random; closed SGIs arrive
/// nowhere; cores go off and on, and one whose world ended waits for the payload, which misses no tick meanwhile.
#[test]
fn cores_without_payload_are_stopped_and_refused() {
    let mut worlds = Worlds::start_with(
        kicked_world(&secure_monitor_of_cores(), Kicked { seed: 7, calls: 500, kicks: 1_000 }),
        |options| {
            options.cores = 4;
            options.icount_shift = Some(4);
        },
    );
    let secure = worlds.end();
    let other = worlds.texts(OTHER);
    let line = |start: &str| {
        other.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {other:#?} {secure:#?}"))
    };
    assert_eq!(line("starts"), "starts: 3 cores, refused 72");
    for core in 1..4 {
        assert_eq!(line(&format!("kicks of core {core}")), &format!("kicks of core {core}: 1000 of 1000 stopped"));
    }
    assert_eq!(line("kicks of EL2"), "kicks of EL2: 20 of 20 came when it left");
    let watches = numbers(line("watches"));
    for (found, wanted) in watches.iter().zip([SHORTEST, 10_000, LONGEST_WATCH, LONGEST_WATCH]) {
        // The other cores' turns come between.
        assert!((wanted..wanted + 62_500).contains(found), "{watches:?}");
    }
    assert!(line("table").starts_with("table: 1172 calls as the model says, "), "{other:#?}");
    assert_eq!(line("SGIs"), "SGIs that arrived: 0 0 32 255");
    assert_eq!(line("unknown"), "unknown calls: 500 refused");
    assert_eq!(line("ends"), "ends: 5 of CPU_OFF, 2 of the payload");
    assert_eq!(other.last().map(String::as_str), Some("end"));
    assert!(secure.contains(&"rtos: core 3 is off".to_owned()), "{secure:#?}");
    assert!(secure.contains(&"rtos: core 3 wants to be reset".to_owned()), "{secure:#?}");
    let [rounds, ticks, events] = numbers(&secure[secure.len() - 3])[..] else { panic!("{secure:#?}") };
    assert!(rounds == ticks || rounds == ticks + 1, "{secure:#?}");
    assert_eq!(events, 2, "{secure:#?}");
    assert_eq!(numbers(&secure[secure.len() - 2]), [0; 8], "closed SGIs that the other world cannot see");
    assert_eq!(secure.last().map(String::as_str), Some("rtos: end"));
}
