//! A hostile front against `bulkheadctl serve` in stock Debian Linux and against a bare back end, and a hostile back end against Debian's drivers (H18 to H22): the one that is
//! attacked stays, or fails alone, and others are served meanwhile.

use super::dma::others::{BESIDE, is_in_time, is_undisturbed, victims};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress, virtio::MAX_QUEUE_SIZE};
use bulkhead_guest_abi::guest::GUEST_CHANNELS;
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::{LIMIT, Running, System};

/// Words of the intruder's memory that the host writes and reads (`guests/intruder/src/front.rs`).
const ALLOWED: u64 = 16 << 20;
const SERVED: u64 = ALLOWED + 8;
const RAM: u64 = 0x4000_0000;
const OWN: u64 = RAM + (32 << 20);
const POOL: u64 = 0x3000_0000;

/// Rounds in which everything changes while the back end serves, of 2 ms for each of three queues.
const ROUNDS: u64 = 60;

/// What each attack on a queue comes to, in the order of the guest.
fn queues(end: u64, area: u64) -> Vec<String> {
    let number = |number: u64| format!("the queue has {number} descriptors, not a power of two up to {MAX_QUEUE_SIZE}");
    let outside = |what: &str, address: u64| format!("the {what} at {address:#x} is not aligned or not in the pool");
    vec![
        number(3),
        number(512),
        number(0xffff_ffff),
        outside("descriptor table", area + 8),
        outside("descriptor table", OWN),
        outside("available ring", end - 4),
        outside("used ring", u64::MAX - 3),
        "the available index jumped to 10 where 0 chains were done".to_owned(),
    ]
}

/// What each attack by a chain comes to.
fn chains(end: u64) -> Vec<String> {
    let buffer = |bytes: u64, address: u64| format!("a buffer of {bytes} bytes at {address:#x} is not in the pool");
    let index = |verb: &str, index: u64| format!("a chain {verb} at descriptor {index}, which the queue does not have");
    let flags = |flags: u64| format!("a descriptor has the flags {flags:#x}, which were not negotiated");
    let endless = "a chain has more links than the queue has descriptors".to_owned();
    vec![
        index("begins", 8),
        index("begins", 0xffff),
        index("continues", 8),
        endless.clone(),
        endless,
        buffer(16, OWN),
        buffer(16, POOL - 1),
        buffer(16, end - 15),
        buffer(0xffff_ffff, POOL),
        buffer(0xffff_ffff, end - 1),
        buffer(1, u64::MAX),
        flags(4),
        flags(0xffff),
        "a buffer to read from comes behind one to write to".to_owned(),
        "a request of 4 bytes is shorter than its header".to_owned(),
    ]
}

/// What the attacks on all queues come to: the device, its queue, and what its back end says.
fn attacks(end: u64) -> Vec<String> {
    let area = |number: u64| POOL + number * 0x2_0000;
    let disk = [queues(end, area(0)), chains(end), vec!["a block request has no byte for its status".to_owned()]];
    let transmit = [queues(end, area(3)), chains(end)];
    let receive = vec![
        "the available index jumped to 10 where 0 chains were done".to_owned(),
        "a buffer for frames has 1525 bytes, not 1526".to_owned(),
        format!("a buffer of 2048 bytes at {OWN:#x} is not in the pool"),
    ];
    let say = |queue: u32, device: &'static str| {
        move |fault: String| format!("queue {queue} of {device} has stopped until its driver starts again: {fault}")
    };
    let disk = disk.into_iter().flatten().map(say(0, "disk"));
    let transmit = transmit.into_iter().flatten().map(say(1, "card"));
    disk.chain(transmit).chain(receive.into_iter().map(say(0, "card"))).collect()
}

/// Serves three devices, and looks at the end whether the three processes are those of the beginning. Frames for the card wait without end.
const SERVE: &str = "dd if=/dev/zero of=/tmp/a bs=4k count=256 2>/dev/null; tr '\\0' z </tmp/a >/tmp/b; \
bulkheadctl serve disk /tmp/b & a=$!; bulkheadctl serve card --tap tap0 & b=$!; bulkheadctl serve other /tmp/a & c=$!; \
until ip link set tap0 up 2>/dev/null; do sleep 0.1; done; ip address add 10.1.0.1/24 dev tap0; \
ip neigh add 10.1.0.2 lladdr 02:42:48:00:00:01 dev tap0; (while :; do ping -c 1 -W 1 10.1.0.2; done >/dev/null) & \
until bulkheadctl partition status front | grep -q '^state: *off'; do sleep 0.2; done; \
kill -0 $a && kill -0 $b && kill -0 $c && echo linux: three serve; sha256sum /tmp/b";

fn front(name: &str, core: u32, arguments: &str) -> String {
    format!(
        r#"
[[partition]]
name = "{name}"
cores = [{core}]
memory = "64 MiB"
image = {{ kind = "elf", file = "guest:intruder.elf" }}
arguments = "{arguments}"
console = "pl011"
"#
    )
}

fn device(name: &str, kind: &str, front: &str, back: &str) -> String {
    format!("[[virtio]]\nname = \"{name}\"\nfront = \"{front}\"\nback = \"{back}\"\nkind = {kind}\n")
}

/// A Linux whose command is this, with commas in place of spaces on its command line.
fn linux(core: u32, more: &str, words: &str, command: &str) -> String {
    let command = command.replace(' ', ",").replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        r#"
[[partition]]
name = "linux"
cores = [{core}]
memory = "128 MiB"
{more}
image = {{ kind = "linux", file = "guest:linux/Image", initrd = "guest:linux/initramfs-devices.cpio.gz", command_line = "console=ttyAMA0 quiet panic=1 bulkhead.mode=hello {words} bulkhead.run={command}" }}
"#
    )
}

fn hostile_front() -> System {
    let size = "\"block\"\nsize = \"1 MiB\"";
    let text = [
        "version = 1\nname = \"hostile-front\"\nboard = \"qemu-virt\"\nmemory = \"512 MiB\"\n",
        &linux(0, "manages = true", "", SERVE),
        &front("front", 1, &format!("attack=front rounds={ROUNDS} pool=POOL")),
        &front("other", 2, "attack=honest"),
        &device("disk", size, "front", "linux"),
        &device("card", "\"net\"\nmac = \"02:42:48:00:00:01\"", "front", "linux"),
        &device("other", size, "other", "linux"),
    ];
    let text = text.concat();
    let plain = System::from_text("hostile-front", &text.replace("POOL", "0"));
    let bytes = plain.area(AreaKind::FrontPool(1)).bytes;
    System::from_text("hostile-front", &text.replace("POOL", &bytes.to_string()))
}

/// Where a word of a front's memory is.
fn word(running: &Running, partition: &str, offset: u64) -> PhysicalAddress {
    PhysicalAddress(running.watch().plan().partitions[running.index(partition)].ram[0].physical.0 + offset)
}

fn allow(running: &Running, partition: &str, attacks: u64) {
    let place = word(running, partition, ALLOWED);
    running.ram().write_at(place, &attacks.to_le_bytes()).expect("it is in RAM");
}

/// Lines of Linux about its fronts.
fn reports(running: &Running) -> Vec<String> {
    running.texts("linux").into_iter().filter(|line| line.contains("has stopped")).collect()
}

/// Each attack stops the queue that it was made on, with its own message and once; the same process serves the next driver, and another front
/// all the time. Then everything that both ends share changes while it works.
#[test]
fn a_hostile_front_stops_its_own_queues_alone() {
    let system = hostile_front();
    let pool = system.area(AreaKind::FrontPool(1));
    let mut running = system.start();
    running.line("other", "uses its disk");
    let served = |running: &Running| running.counter("other", Counter::DoorbellSent);
    let wanted = attacks(POOL + pool.bytes);
    let before = served(&running);
    let linux = running.index("linux");
    for (number, wanted) in wanted.iter().enumerate() {
        allow(&running, "front", number as u64 + 1);
        let flag = word(&running, "front", SERVED);
        let found = running.wait_for(wanted, LIMIT, |view| {
            let mut lines = view.lines[linux].since(0).map(|(_, line)| &line.text);
            let line = lines.by_ref().filter(|line| line.contains("has stopped")).nth(number).cloned();
            line.or_else(|| (view.ram.load_u64(flag)? != 0).then(|| "served".to_owned()))
        });
        assert_eq!(&found.unwrap_or_else(|error| panic!("{error}")), wanted, "attack {number}");
    }
    let between = served(&running);
    allow(&running, "front", wanted.len() as u64 + 1);
    let own = running.line("front", "own memory changed=");
    assert!(own.ends_with(&format!("{} attacks and {ROUNDS} rounds, own memory changed=0", wanted.len())), "{own}");
    assert_eq!(running.line("front", "served="), "intruder: served=true 0x7a7a7a7a7a7a7a7a");
    let after = served(&running);
    running.wait_for_state("front", STATE_OFF);
    running.line("linux", "three serve");
    let honest = running.status("other");
    allow(&running, "other", 1);
    let requests = running.line("other", "requests, ");
    assert!(requests.ends_with(" requests, 0 wrong"), "{requests}");
    println!("served meanwhile: {} and {} requests; {requests}", between - before, after - between);
    assert!(between > before && after > between);
    // What was reported of three queues is bounded, however often they were wrong.
    let reports = reports(&running);
    let of = |device: &str| reports.iter().filter(|line| line.contains(&format!(" of {device} "))).count();
    println!("{} lines of the disk, {} of the card", of("disk"), of("card"));
    assert_eq!(of("other"), 0);
    // It was wrong more than 300 times. There may be a line for each second of this host's time beside those at once.
    assert!((24..200).contains(&of("disk")), "{reports:#?}");
    assert_eq!((honest.state, honest.faults, honest.generation), (STATE_RUNNING, 0, 1));
    let linux = running.status("linux");
    assert_eq!((linux.faults, linux.generation), (0, 1));
    running.assert_image_intact(&system);
    running.assert_no_crash();
}

/// What `attack=aim` writes to its disk.
const WEAPON: u64 = 0xa5a5_a5a5_a5a5_a5a5;
const SECTOR_BYTES: usize = 512;

/// H18: a front aims at its bare back end, whose window is below its RAM: each address is so far behind the pool that, were it only added to the
/// window, what is there would be RAM of the back end, or nobody's. None is served, the sector is in memory once, which is the disk, nothing of
/// the back end's memory is in a sector, and the disk can still be used.
#[test]
fn a_hostile_front_does_not_reach_its_back_ends_memory() {
    let build = |targets: &str| {
        let text = [
            "version = 1\nname = \"aim\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n",
            &front("front", 0, &format!("attack=aim targets={targets}")),
            "\n[[partition]]\nname = \"store\"\ncores = [1]\nmemory = \"20 MiB\"\nimage = { kind = \"elf\", file = \"guest:ramdisk.elf\" }\n",
            &device("disk", "\"block\"\nsize = \"16 MiB\"", "front", "store"),
        ];
        System::from_text("aim", &text.concat())
    };
    // Its only window, which is a device page and the pool.
    let window = GUEST_CHANNELS.0;
    let end = window + PAGE_BYTES + build("0").area(AreaKind::FrontPool(0)).bytes;
    assert!(end <= RAM, "the window is below RAM");
    let behind_window = |place: u64| POOL + place - window - PAGE_BYTES;
    // Behind what is loaded and served, its stack and what is loaded, and the first byte that is nobody's.
    let places = [RAM + (19 << 20), RAM + (20 << 20) - PAGE_BYTES, RAM, end];
    let targets = places.map(|place| format!("{:#x}", behind_window(place)));
    let system = build(&targets.join(","));
    let mut running = system.start_exact(4);
    running.wait_for_state("front", STATE_OFF);
    let count = |kind| {
        let area = system.area(kind);
        let bytes = running.copy(area.address, area.bytes);
        bytes.as_chunks().0.iter().filter(|word| u64::from_le_bytes(**word) == WEAPON).count()
    };
    assert_eq!(count(AreaKind::Ram(1)), SECTOR_BYTES / 8, "words of the sector in RAM of the back end");
    let texts = running.texts("front");
    let expected = format!("intruder: {} aimed, 0 served, 0 words leaked, used=true", 2 * places.len());
    assert_eq!(texts.last(), Some(&expected));
    let store = running.status("store");
    assert_eq!((store.state, store.faults, store.generation), (STATE_RUNNING, 0, 1));
    running.assert_image_intact(&system);
    running.assert_no_crash();
}

/// Disks and a card of a Debian whose back end lies, each in another way; what becomes of them is its own.
const USE: &str = "while :; do ping -c 1 -W 1 10.1.0.1; done >/dev/null & \
for d in a b c; do (dd if=/dev/vd$d of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null; echo linux: vd$d ends with $?) & done; wait";

/// What Debian says of what it was told: an identity that it never gave, a request that failed, an index in front of what it asked for.
const TOLD: [&str; 3] = ["req.0:id ", "linux: vdb ends with 1", "output.0:id "];

fn lying_back() -> System {
    let size = "\"block\"\nsize = \"1 MiB\"";
    let text = [
        "version = 1\nname = \"lying-back\"\nboard = \"qemu-virt\"\nmemory = \"512 MiB\"\n",
        &linux(0, "", "bulkhead.address=eth0:10.1.0.2/24", USE),
        &front("back", 1, "attack=back after=40 a=ids b=status c=never card=lengths second=jump")
            .replace("64 MiB", "4 MiB"),
        "\n[[partition]]\nname = \"awake\"\ncores = [2]\nmemory = \"4 MiB\"\nimage = { kind = \"elf\", file = \"guest:control.elf\" }\n",
        "arguments = \"periods=1000 report=100\"\n",
        &device("a", size, "linux", "back"),
        &device("b", size, "linux", "back"),
        &device("c", size, "linux", "back"),
        &device("card", "\"net\"", "linux", "back"),
    ];
    System::from_text("lying-back", &text.concat())
}

/// Debian's drivers are told of requests that were never made, of indices far ahead, of a status that does not exist, of frames of 4 GiB, and of nothing at all.
/// The one who is lied to may lose its devices; the third partition loses none of its periods.
#[test]
fn a_lying_back_end_harms_its_front_alone() {
    let system = lying_back();
    let mut running = system.start_exact(3);
    let linux = running.index("linux");
    let told = running.wait_for("Debian's complaints", LIMIT, |view| {
        let is_said = |text: &&str| view.lines[linux].since(0).any(|(_, line)| line.text.contains(*text));
        TOLD.iter().all(is_said).then_some(())
    });
    told.unwrap_or_else(|error| panic!("{error}"));
    is_undisturbed(&mut running, 1000);
    running.assert_image_intact(&system);
    running.assert_no_crash();
}

/// Rings of either side, and what its limiter lets through in a window of 10 ms.
const RINGS: u64 = 100_000;
const LIMIT_EVENTS: u64 = 10;
const WINDOW_TICKS: u64 = 625_000;

/// H22: both ends ring each other as often as they can. No more comes through than the two limiters allow; the one who shares the front's core answers each of its
/// releases in time, and the one that is awake elsewhere loses none.
#[test]
fn storms_of_both_ends_are_limited() {
    let servers = "servers = [{ priority = 5, budget = \"6 ms\", period = \"10 ms\", minimum = \"140 us\" }]\nconsole = \"pl011\"";
    let text = [
        "version = 1\nname = \"storms\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n",
        "[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n",
        &front("front", 0, &format!("attack=ring fronts=1 rings={RINGS}")).replace("console = \"pl011\"", servers),
        BESIDE,
        &front("back", 3, &format!("attack=ring rings={RINGS}")).replace("64 MiB", "4 MiB"),
        &victims(200),
        &device("disk", "\"block\"\nsize = \"1 MiB\"\ndoorbell = { limit = 10, per = \"10 ms\" }", "front", "back"),
    ];
    let system = System::from_text("storms", &text.concat());
    let mut running = system.start_exact(4);
    for partition in ["front", "back"] {
        let line = running.line(partition, "in ticks=");
        let ticks: u64 = line.rsplit('=').next().and_then(|ticks| ticks.parse().ok()).expect("a number");
        running.wait_for_state(partition, STATE_OFF);
        let [sent, limited] =
            [Counter::DoorbellSent, Counter::DoorbellLimited].map(|counter| running.counter(partition, counter));
        println!("{partition}: {sent} of {RINGS} came through in {ticks} ticks");
        assert_eq!(sent + limited, RINGS, "{partition}");
        // All of each whole window, and no more of the two at the ends.
        let windows = ticks / WINDOW_TICKS;
        assert!(
            (LIMIT_EVENTS * windows..=LIMIT_EVENTS * (windows + 2)).contains(&sent),
            "{partition}: {sent} in {windows} windows"
        );
    }
    is_in_time(&mut running);
    is_undisturbed(&mut running, 200);
    running.assert_image_intact(&system);
    running.assert_no_crash();
}
