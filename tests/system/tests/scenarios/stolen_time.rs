//! Stolen time (Arm DEN 0057A): what stock Linux shows of the time that another guest of its core had.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::status::{REASON_DATA_ABORT, STATE_STOPPED};
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::System;

/// Three of ten milliseconds are the rival's, whenever it wants them, and it always does.
const SYSTEM: &str = r#"
version = 1
name = "stolen-time"
board = "qemu-virt"
memory = "512 MiB"

[[schedule]]
core = 0
kind = "fixed-priority"

[[partition]]
name = "rival"
cores = [0]
memory = "4 MiB"
image = { kind = "elf", file = "guest:experiment.elf" }
arguments = "role=hog start_us=0 end_us=END log=0"
servers = [ { priority = 1, rule = "polling", budget = "3 ms", period = "10 ms" } ]

[[partition]]
name = "linux"
cores = [0]
memory = "256 MiB"
image = { kind = "linux", file = "guest:linux/Image", initrd = "guest:linux/initramfs.cpio.gz", command_line = "console=ttyAMA0 quiet panic=1 bulkhead.mode=hello bulkhead.run=LOOK;dd,if=/dev/zero,bs=65536,count=256|sha256sum;LOOK;devmem,0x10008008,64,1" }
servers = [ { priority = 5 } ]
"#;
/// Prints the kernel's numbers of its CPU, and before and behind them the word that the monitor writes, in one line.
const LOOK: &str = "echo,look,$(devmem,0x10008008,64),$(grep,cpu0,/proc/stat),$(devmem,0x10008008,64)";
/// What the kernel shows times in, USER_HZ: 10 ms.
const UNIT_NS: u64 = 10_000_000;
/// How often it looks at the word while it computes, HZ: 250.
const KERNEL_TICK_NS: u64 = 4_000_000;
const END_US: u64 = 60_000_000;

/// What the guest saw.
#[derive(Debug)]
struct Look {
    /// User, nice, system, idle, iowait, irq, softirq and steal.
    stat: [u64; 8],
    /// The monitor's word before and after that.
    words: [u64; 2],
}

fn looks(lines: &[String]) -> Vec<Look> {
    let parse = |line: &str| {
        let (first, rest) = line.split_once(" cpu0 ").expect("a line of /proc/stat");
        let mut numbers = rest.split(' ');
        let stat = std::array::from_fn(|_| numbers.next().and_then(|one| one.parse().ok()).expect("units"));
        let last = numbers.next_back().expect("a word");
        let words = [first, last].map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("a word"));
        Look { stat, words }
    };
    lines.iter().filter_map(|line| line.strip_prefix("look ")).map(parse).collect()
}

/// DEN 0057A with a stock kernel: it finds the structure by itself, and of a CPU hog it shows as stolen what the monitor accounts, within a
/// tick; that is what the rival was given.
#[test]
fn linux_shows_as_stolen_what_the_monitor_accounts() {
    let text = SYSTEM.replace("LOOK", LOOK).replace("END", &END_US.to_string());
    let system = System::unjudged("stolen-time", &text, &[]);
    let mut running = system.start_exact(4);
    // The guest may read the page and no more: what it does last is to write there.
    let status = running.wait_for_state("linux", STATE_STOPPED);
    assert_eq!(status.reason, REASON_DATA_ABORT);
    let lines = running.texts("linux");
    let [before, after] = &looks(&lines)[..] else { panic!("two looks: {lines:#?}") };
    println!("{before:?}\n{after:?}");
    for Look { stat: [.., steal], words: [earlier, later] } in [before, after] {
        let shown = steal * UNIT_NS;
        assert!(shown <= *later && *earlier < shown + UNIT_NS + KERNEL_TICK_NS, "{shown} of {earlier} to {later} ns");
    }
    let passed: u64 = after.stat.iter().sum::<u64>() - before.stat.iter().sum::<u64>();
    let stolen = after.stat[7] - before.stat[7];
    assert!(passed > 100 && after.stat[3] == before.stat[3], "a hog for {passed} units, never idle");
    assert!((stolen * 100).abs_diff(passed * 30) <= passed, "{stolen} of {passed} units are the rival's 3 of 10 ms");
    // Host and guest see one word.
    let page = system.area(AreaKind::StolenTime(1, 0)).address;
    let word = running.ram().load_u64(PhysicalAddress(page.0 + 8)).expect("RAM");
    assert!(word >= after.words[1], "{word} after {after:?}");
}
