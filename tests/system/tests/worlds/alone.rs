//! The payload alone: what leaves reset, and what does not start.

use bulkhead_system_tests::secure::{SECURE, Worlds, flash};
use bulkhead_system_tests::system::guest;
use bulkhead_world::flash::{PLAN, secure_ram};

fn payload() -> Vec<u8> {
    guest("dual-world.elf")
}

/// SG-20, SG-E4, CF-8: the payload alone, by CNTPS. Its interrupts cost EL3 nothing: the vector reads the counter two
/// instructions after the tick was due, every time.
#[test]
fn stock_freertos_runs_in_the_secure_world() {
    let lines = Worlds::start(flash(&payload(), None)).end();
    assert_eq!(lines[0], "rtos: FreeRTOS V11.2.0 in the secure world", "{lines:?}");
    assert_eq!(
        lines[lines.len() - 2],
        "rtos: ticks in the payload: 500 late 2 to 2; in the other world: 0 late 0 to 0; calls 0",
        "{lines:?}"
    );
    assert_eq!(lines[lines.len() - 1], "rtos: end");
}

/// Nothing starts of a flash file in which one bit is not what it was, and the secure console says what differs.
#[test]
fn a_damaged_flash_file_starts_no_world() {
    let whole = flash(&payload(), None);
    let payload_from = (PLAN + 0x1000 + (secure_ram::PAYLOAD - secure_ram::TABLES)) as usize;
    for (place, said) in [(PLAN as usize + 8, "BH: CRC plan"), (payload_from + 100, "BH: CRC payload")] {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        let mut worlds = Worlds::start_with(damaged, |_| ());
        assert_eq!(worlds.line(SECURE, "BH"), said);
        assert_eq!(worlds.texts(SECURE).len(), 1);
    }
}
