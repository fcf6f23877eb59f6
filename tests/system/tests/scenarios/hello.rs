//! The smallest guest on 1, 4 and 8 cores: every monitor starts, every guest runs behind its own map, the host reads along.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_NONE, STATE_OFF};
use bulkhead_run::{End, Phase};
use bulkhead_system_tests::{Running, System, boards};

/// A description with one hello partition on each of `cores` cores.
pub(crate) fn system(cores: usize) -> System {
    let head = "version = 1\nname = \"hello\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n";
    let partition = |core: usize| {
        format!(
            "[[partition]]\nname = \"hello-{core}\"\ncores = [{core}]\nmemory = \"4 MiB\"\n\
             image = {{ kind = \"elf\", file = \"guest:hello.elf\" }}\narguments = \"seat={core}\"\n"
        )
    };
    let partitions: String = (0..cores).map(partition).collect();
    System::from_text("hello", &format!("{head}{partitions}"))
}

fn everybody_says_hello(cores: usize) {
    judge(system(cores).start(), cores);
}

/// Waits for the end of such a system and asserts what it comes to, however it was started.
pub(crate) fn judge(mut running: Running, cores: usize) {
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    for core in 0..cores {
        let name = format!("hello-{core}");
        let expected = [
            format!("hello from {name}, ABI version {}", bulkhead_abi::ABI_VERSION),
            format!("arguments \"seat={core}\", vCPUs 1"),
            "goodbye".to_owned(),
        ];
        assert_eq!(running.texts(&name), expected, "{name}");
        let status = running.status(&name);
        assert_eq!((status.state, status.reason), (STATE_OFF, REASON_NONE), "{name}");
        assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{name}");
        assert_eq!(bulkhead_guest_abi::name_text(&status.name), name);
        assert_eq!(running.watch().phase(core), Phase::GuestEntered, "{name}");
        // One question about the version; the switch-off is the one exit that nothing else explains.
        assert_eq!(running.counter(&name, Counter::Hypercall), 1, "{name}");
        assert_eq!(running.counter(&name, Counter::Psci), 1, "{name}");
        assert_eq!(running.counter(&name, Counter::DeniedCall), 0, "{name}");
    }
}

/// QV-1: a partition on a core of its own, entered by its monitor.
#[test]
fn one_core_says_hello() {
    everybody_says_hello(1);
}

/// QV-1, QV-2: the least that needs a second monitor, on every board.
#[test]
fn two_cores_say_hello() {
    everybody_says_hello(2);
}

/// QV-1, QV-2: four monitors start through PSCI and share nothing that one of them would have to hand on.
#[test]
fn four_cores_say_hello() {
    everybody_says_hello(4);
}

/// QV-1, QV-2: as many partitions and cores as an image can hold.
#[test]
fn eight_cores_say_hello() {
    everybody_says_hello(8);
}

/// QV-2: the words of each core are in pages of that core alone, and all cores' pages are read while they run.
#[test]
fn each_core_writes_counters_of_its_own() {
    let cores = boards::board().core_mpidr.len().min(4);
    let system = system(cores);
    let plan = system.plan();
    let mut pages: Vec<_> = plan.header.cores.iter().take(cores).map(|core| core.counters.0).collect();
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), cores);
    let mut running = system.start();
    running.end();
    for core in 0..cores {
        assert_eq!(
            running.watch().counter(core, Counter::Hypercall),
            1,
            "core {core} counted its own guest's call alone"
        );
    }
}

/// The monitor is the same file at every load address; another board file is all that says where it runs. Both parts, and a core that
/// another one starts.
#[test]
fn another_load_address_says_hello() {
    let board = include_str!("../../../../boards/qemu-virt.toml");
    let moved = board.replace("load_address = 0x4020_0000", "load_address = 0x4640_0000");
    assert_ne!(board, moved);
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved.toml");
    std::fs::write(&file, moved).expect("the board file is written");
    let head =
        format!("version = 1\nname = \"moved\"\nboard = {:?}\nmemory = \"256 MiB\"\n", file.to_str().expect("UTF-8"));
    let partition = |name: &str, core: usize, rest: &str| {
        format!(
            "[[partition]]\nname = \"{name}\"\ncores = [{core}]\nmemory = \"4 MiB\"\n\
             image = {{ kind = \"elf\", file = \"guest:hello.elf\" }}\n{rest}"
        )
    };
    let own = partition("first", 0, "") + &partition("second", 1, "");
    let server = |priority| {
        format!(
            "servers = [{{ priority = {priority}, budget = \"2 ms\", period = \"10 ms\", minimum = \"140 us\" }}]\n"
        )
    };
    let shared = "[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n".to_owned()
        + &partition("first", 0, &server(1))
        + &partition("second", 0, &server(2));
    for partitions in [own, shared] {
        let system = System::from_text("moved", &format!("{head}{partitions}"));
        assert_eq!(system.plan().header.image_start.0, 0x4640_0000);
        let mut running = system.start();
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        for name in ["first", "second"] {
            assert_eq!(running.texts(name).last().map(String::as_str), Some("goodbye"), "{name}");
        }
    }
}
