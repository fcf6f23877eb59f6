//! Several cores (SG-13): the payload on the first, and a world of `guests/kicked` on all, which is stopped, watched and refused.

use bulkhead_flash::{NonSecure, flat};
use bulkhead_system_tests::secure::{
    BACKGROUND, MEMORY, OTHER, Payload, Worlds, flash_of_cores, four_cores, secure_monitor_of_cores,
};
use bulkhead_system_tests::system::guest;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::health::HealthPlan;

/// Where the world reads what it is to do.
const PARAMETERS: u64 = 0x4100_0000;
const WINDOW: (u64, u64) = (MEMORY.0, 32 << 20);
/// Nobody sends to the payload's core, nor to core 1; core 2 has one number open, core 3 the lower half.
const CLOSED: [u32; 4] = [0xffff, 0xffff, 0xffff & !(1 << 5), 0xff00];
/// Core 0 kicks all others, core 1 itself and core 2, core 2 nobody.
const KICKS: [u32; 4] = [0b1110, 0b0110, 0, 0b0010];
/// 2 ms.
const WATCH_MOST: u64 = 125_000;
const SHORTEST_WATCH: u64 = 625;

fn flash(seed: u64, calls: u64, kicks: u64) -> Vec<u8> {
    let world = flat(&guest("kicked.elf"), "the kicked world").unwrap_or_else(|error| panic!("{error}"));
    let masks = |four: [u32; 4]| [0, 2].map(|one| u64::from(four[one]) | u64::from(four[one + 1]) << 32);
    let [allowed, more] = masks(KICKS);
    let [closed, others] = masks(CLOSED);
    let words = [seed, calls, kicks, allowed, more, closed, others, WINDOW.0, WINDOW.1, WATCH_MOST];
    let parameters: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let segments = vec![(world.base, world.bytes.as_slice()), (PARAMETERS, parameters.as_slice())];
    let other = NonSecure { memory: WINDOW, segments, entry: world.entry, argument: 0, level: EntryLevel::El2 };
    let again = format!("{:x}", world.entry);
    let payload = Payload {
        file: "multi-world.elf",
        servers: &BACKGROUND,
        urgent: &[],
        health: HealthPlan::nobody(),
        arguments: &again,
    };
    flash_of_cores(&secure_monitor_of_cores(), payload, four_cores(CLOSED, KICKS, WATCH_MOST), other)
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// SG-13, SG-14, QV-16, CF-2: a core whose EL1 masks everything is stopped 1,000 times of 1,000; a kick of EL2 itself comes when that leaves; watches
/// fire in their limits; every call of every core at both levels is answered as a model says, by table and at random; closed SGIs arrive
/// nowhere; cores go off and on, and one whose world ended waits for the payload, which misses no tick meanwhile.
#[test]
fn cores_without_payload_are_stopped_and_refused() {
    let mut worlds = Worlds::start_with(flash(7, 500, 1_000), |options| {
        options.cores = 4;
        options.icount_shift = Some(4);
    });
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
    for (found, wanted) in watches.iter().zip([SHORTEST_WATCH, 10_000, WATCH_MOST, WATCH_MOST]) {
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
