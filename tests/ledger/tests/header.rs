//! Numbers that the header of the secure world's library says once more, for C.

use bulkhead_abi::MAX_PARTITIONS;
use bulkhead_ledger::repository;
use bulkhead_world::flash::MOST_SERVERS;

#[test]
fn the_header_has_the_numbers_of_the_library() {
    let header = std::fs::read_to_string(repository().join("sdk/world/bulkhead_world.h")).expect("the header");
    let said = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        line.and_then(|value| value.trim().parse::<usize>().ok())
    };
    assert_eq!(said("BULKHEAD_WORLD_PARTITIONS"), Some(MAX_PARTITIONS));
    assert_eq!(said("BULKHEAD_WORLD_SERVERS"), Some(MOST_SERVERS));
}
