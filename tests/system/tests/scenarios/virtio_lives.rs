//! Fronts that end in the middle of everything: 1,000 lives of a front, each of which looks for bytes of those before it (QV-50, QV-51).

use bulkhead_abi::status::{STATE_OFF, STATE_SUSPENDED};
use bulkhead_plan::{AreaKind, model};
use bulkhead_system_tests::disk::Disk;
use bulkhead_system_tests::{Running, System};

/// Times that the front is restarted.
const RESTARTS: u64 = 1000;
/// Memory of the front.
const FRONT_BYTES: u64 = 64 << 20;
/// Words of the disk, and of what its back end writes at once.
const WORDS: usize = (512 << 10) / 8;
const PIECE_WORDS: usize = 4096 / 8;
/// Words of a place.
const PLACE_WORDS: usize = WORDS / 8;

/// The life in a word of the disk (`guests/lives/src/mark.rs`).
fn life_of(word: u64) -> u64 {
    word >> 16 & 0xffff_ffff
}

fn is_mark(word: u64, number: usize) -> bool {
    word >> 48 == 0x5eed && word & 0xffff == number as u64
}

/// Each piece of the disk is the mark of one life that writes there.
fn assert_marked(words: &[u64], restarts: u64) {
    assert_eq!(words.len(), WORDS);
    for (piece, words) in words.chunks(PIECE_WORDS).enumerate() {
        let first = piece * PIECE_WORDS;
        let life = life_of(words[0]);
        let has_place = life == 1 || life % 8 == (first / PLACE_WORDS) as u64;
        assert!(has_place && (1..=restarts + 1).contains(&life), "piece {piece} is of life {life}");
        for (number, word) in (first..).zip(words) {
            assert!(
                is_mark(*word, number) && life_of(*word) == life,
                "word {number} is {word:#x} in a piece of life {life}"
            );
        }
    }
    let newest = words.iter().copied().map(life_of).max();
    assert!(newest >= Some(restarts), "the newest mark is of life {newest:?}");
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

/// Lets the front of `lives` live and end, and judges what each life said.
fn live(restarts: u64, replacements: &[(&str, &str)]) -> (System, Running) {
    let pool = format!("{:x}", model::pool_bytes(FRONT_BYTES));
    let count = format!("restarts={restarts}");
    let own = [("POOL", pool.as_str()), ("restarts=1000", &count)];
    let system = System::changed("lives", &[&own, replacements].concat());
    let mut running = system.start();
    let summary = running.line("manager", "words found");
    println!("{summary}");
    assert!(summary.starts_with(&format!("lives: {restarts} restarts, 0 words found in the pool, 0 words wrong, ")));
    running.wait_for_state("front", STATE_SUSPENDED);
    running.assert_no_crash();
    for partition in ["front", "manager"] {
        let texts = running.texts(partition);
        assert!(!texts.iter().any(|line| line.contains("FAILED")), "{partition}: {texts:#?}");
    }
    let front = running.status("front");
    assert_eq!((u64::from(front.generation), front.faults), (restarts + 1, 0));
    // A host that gives the back end no time for 100 ms is no fault of anybody here, and judges nothing.
    assert!(summary.ends_with(&format!(" reads, {} beside a busy back end", front.back_end_busy)), "{summary}");
    assert!(u64::from(front.back_end_busy) * 2 <= restarts, "{summary}");
    (system, running)
}

/// A front is restarted a thousand times while it reads 64 KiB at a time. No life finds a byte in pool or device page, none reads or writes anything of
/// another one's requests, and the disk has whole marks alone: no zeros of a pool that was cleared under a write.
#[test]
fn a_thousand_restarts_leave_nothing_of_older_requests() {
    let (system, running) = live(RESTARTS, &[]);
    let texts = running.texts("store");
    assert_eq!(texts.len(), 1, "no queue has stopped: {texts:#?}");
    let ram = system.area(AreaKind::Ram(0));
    let memory = words_of(&running.copy(ram.address, ram.bytes));
    let is_disk = |words: &[u64]| (0..WORDS).step_by(PIECE_WORDS).all(|number| is_mark(words[number], number));
    let disk = memory.windows(WORDS).find(|words| is_mark(words[0], 0) && is_disk(words));
    assert_marked(disk.expect("the disk is somewhere in the memory of its back end"), RESTARTS);
}

/// Restarts beside `bulkheadctl serve`, whose disk is slower.
const SERVED_RESTARTS: u64 = 100;
/// The back end of `lives`, and a stock Debian Linux in its place.
const STORE: &str = r#"name = "store"
cores = [0]
memory = "20 MiB"
image = { kind = "elf", file = "guest:ramdisk.elf" }
"#;
const LINUX: &str = r#"name = "store"
cores = [0]
memory = "128 MiB"
image = { kind = "linux", file = "guest:linux/Image", initrd = "guest:linux/initramfs-devices.cpio.gz", command_line = "console=ttyAMA0 quiet panic=1 bulkhead.mode=hello bulkhead.mount=/dev/vda:/disk bulkhead.run=sh,/disk/back.sh" }

[[pci]]
name = "disk"
model = "virtio-blk"
partition = "store"
disk = { file = "DISK" }
"#;

/// The same beside a process of a stock Linux, which is interrupted between any two of its instructions.
#[test]
fn restarts_beside_bulkheadctl_leave_nothing_of_older_requests() {
    let back = "bulkheadctl serve marks /disk/marks.img --timeout 5s\nmount -o remount,ro /disk\necho linux: served\n";
    let marks = vec![0; WORDS * 8];
    let disk = Disk::with("16M", &[("back.sh", back.as_bytes(), false), ("marks.img", &marks, false)]);
    let linux = LINUX.replace("DISK", &disk.path().display().to_string());
    let (_, mut running) = live(SERVED_RESTARTS, &[(STORE, &linux)]);
    running.line("store", "linux: served");
    running.wait_for_state("store", STATE_OFF);
    let texts = running.texts("store");
    assert!(!texts.iter().any(|line| line.contains("has stopped")), "{texts:#?}");
    drop(running.quit());
    disk.assert_whole();
    assert_marked(&words_of(&disk.read("/marks.img")), SERVED_RESTARTS);
}
