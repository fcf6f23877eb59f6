//! Stock Linux as the non-secure world, on the payload's core.

use bulkhead_flash::{NonSecure, World, device_tree};
use bulkhead_system_tests::secure::{MEMORY, OTHER, Worlds, flash};
use bulkhead_system_tests::system::guest;
use bulkhead_world::context::EntryLevel;

const IMAGE: u64 = MEMORY.0 + (2 << 20);
const DEVICE_TREE: u64 = MEMORY.0 + (128 << 20);
const INITRD: u64 = DEVICE_TREE + (2 << 20);

fn with_linux(level: EntryLevel, mode: &str) -> Vec<u8> {
    let (image, initrd) = (guest("linux/Image"), guest("linux/initramfs.cpio.gz"));
    let tree = device_tree(&World {
        memory: MEMORY,
        interrupt_controller: [(0x0800_0000, 0x1_0000), (0x080a_0000, 0x2_0000)],
        console: (0x0900_0000, 33, 24_000_000),
        initrd: Some((INITRD, initrd.len() as u64)),
        command_line: &format!("console=ttyAMA0 quiet panic=1 bulkhead.mode={mode}"),
    });
    let segments = vec![(IMAGE, image.as_slice()), (DEVICE_TREE, tree.as_slice()), (INITRD, initrd.as_slice())];
    let world = NonSecure { memory: MEMORY, segments, entry: IMAGE, argument: DEVICE_TREE, level };
    flash(&guest("dual-world.elf"), Some(world))
}

/// The numbers of the payload's last report: how often and how late its ticks came in itself, and in the other world; calls.
fn report(lines: &[String]) -> Vec<u64> {
    let line = lines.iter().rev().find(|line| line.starts_with("rtos: ticks")).expect("a report");
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// SG-1, SG-5, SG-6, SG-12, SG-21, SG-23, SG-24, SG-26: stock Linux boots, works and switches itself off below the payload, at either level. The
/// payload's fast task misses no tick (it compares), and each of its ticks finds its vector after the same number of instructions: 2 in
/// the payload, 114 more in the other world, which cannot mask it.
#[test]
fn linux_runs_below_the_payload_at_both_levels() {
    for level in [EntryLevel::El2, EntryLevel::El1] {
        let mut worlds = Worlds::start(with_linux(level, "hello"));
        let lines = worlds.end();
        let said = worlds.texts(OTHER);
        assert!(
            said.iter().any(|line| line.starts_with("linux: 6.1.0-") && line.ends_with("with 1 CPUs says hello")),
            "{said:?}"
        );
        assert!(said.iter().any(|line| line.contains("reboot: Power down")), "{said:?}");
        assert_eq!(lines[1], "rtos: the other world is off", "{lines:?}");
        let [in_payload, 2, 2, in_other, 116, 116, calls] = report(&lines)[..] else { panic!("{lines:?}") };
        assert!(in_payload > 100 && in_other > 10_000 && (8..40).contains(&calls), "{lines:?}");
    }
}

/// A segment that is not what was built is copied nowhere it could run from.
#[test]
fn a_damaged_segment_starts_no_linux() {
    let mut file = with_linux(EntryLevel::El2, "hello");
    let last = file.len() - 1000;
    file[last] ^= 1;
    let mut worlds = Worlds::start(file);
    assert_eq!(worlds.end().last().map(String::as_str), Some("rtos: FAILED: CRC of a segment of the other world"));
    assert!(worlds.texts(OTHER).is_empty());
}
