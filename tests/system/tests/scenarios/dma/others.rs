//! Those who must not notice, and how that is judged: by the memory of all, by what EL2 did on their cores, and by their own clocks.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_OFF;
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::{Running, System};

/// What an `edu` of the intruder writes, as a word; any 15 bytes of it have one.
const WEAPON: u64 = 0xa5a5_a5a5_a5a5_a5a5;
/// Each word of a test's disk is this with its place in the low half.
const DISK: u64 = 0x5aa5_5aa5_5aa5_5aa5;

/// What `check` was told about the one beside the intruder: on one core, whose clock counts instructions, time is exact.
const DEADLINE_NS: u64 = 1_000_000;

/// Two that must not notice, on cores 1 and 2: one asleep and one awake for a number of periods of 10 ms.
pub(crate) fn victims(periods: u32) -> String {
    format!(
        r#"
[[partition]]
name = "asleep"
cores = [1]
memory = "4 MiB"
image = {{ kind = "elf", file = "guest:hello.elf" }}

[[partition]]
name = "awake"
cores = [2]
memory = "4 MiB"
image = {{ kind = "elf", file = "guest:control.elf" }}
arguments = "periods={periods} report=10"
"#
    )
}

/// Who has core 0 with the intruder, by a better priority.
pub(crate) const BESIDE: &str = r#"
[[partition]]
name = "beside"
criticality = "high"
trust = "trusted"
cores = [0]
memory = "4 MiB"
image = { kind = "elf", file = "guest:control.elf" }
arguments = "periods=200 report=10 response=1"
tasks = [{ name = "loop", cost = "100 us", period = "10 ms", deadline = "1 ms" }]
servers = [{ priority = 1, budget = "2 ms", period = "10 ms", minimum = "140 us", chunks = 16 }]
"#;

/// Waits for the end of the one beside the intruder: it answered each release within its deadline.
pub(crate) fn is_in_time(running: &mut Running) {
    running.wait_for_state("beside", STATE_OFF);
    let texts = running.texts("beside");
    let response = texts.iter().find_map(|text| text.strip_prefix("response most_ns=")).expect("it says so");
    println!("beside: {response} ns");
    assert!(response.parse::<u64>().expect("a number") <= DEADLINE_NS, "{response} ns");
}

/// Waits for the end of the one that is awake, which was to serve the periods that its arguments name. It catches up after a delay, so its last line shows no lateness; and the
/// clock of a machine with several cores counts what all of them execute, and where disks are slow what the host does. What is exact
/// is what its own core executed: EL2 brought it its own timer and answered its own accesses, and did not enter for anybody else. So
/// counted in instructions of its core it was never late.
pub(crate) fn is_undisturbed(running: &mut Running, periods: u64) {
    running.wait_for_state("awake", STATE_OFF);
    let done = format!("done iterations={periods} releases_due={periods}");
    assert_eq!(running.texts("awake").last(), Some(&done));
    let count = |counter| running.counter("awake", counter);
    let accesses = [Counter::Distributor, Counter::Redistributor, Counter::SystemRegister, Counter::Console];
    let (exits, own) = (count(Counter::Exits), count(Counter::Interrupt) + accesses.map(count).iter().sum::<u64>());
    println!("awake: {exits} exits, {accesses:?}", accesses = accesses.map(count));
    assert!(exits >= periods, "{exits}");
    assert_eq!((exits, count(Counter::MonitorInterrupt)), (own, 0), "EL2 was there for somebody else");
}

/// What the intruder's functions write is nowhere in memory but in its own RAM: not in what stays as it was built, nor where others and the
/// monitor work all the time: RAM, channels, pools, consoles, status pages, stacks.
pub(super) fn nothing_landed(running: &Running, system: &System, intruder: usize) {
    running.assert_image_intact(system);
    for area in system.areas.iter().filter(|area| area.kind != AreaKind::Ram(intruder)) {
        let bytes = running.copy(area.address, area.bytes);
        let word = |piece: &[u8]| u64::from_le_bytes(piece.try_into().expect("eight bytes"));
        let is_foreign = |word: u64| word == WEAPON || word >> 32 == DISK >> 32;
        let place = bytes.chunks_exact(8).position(|piece| is_foreign(word(piece)));
        assert_eq!(place, None, "the word of {:?} in which something landed", area.kind);
    }
    running.assert_no_crash();
}

/// An NVMe controller and a virtio disk of the intruder, with the same file.
pub(super) fn disks(file: &str) -> String {
    let one = |name, model| {
        format!(
            "\n[[pci]]\nname = \"{name}\"\nmodel = \"{model}\"\npartition = \"intruder\"\n\
             disk = {{ file = \"{file}\", read_only = true }}\n"
        )
    };
    one("nvme", "nvme") + &one("disk", "virtio-blk")
}
