//! Boards on which something is not as on the reference one, whatever board the other scenarios run on: cores that are not what the board
//! file says, RAM in two banks, and RAM beyond 512 GiB.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{CALL_PARTITION_RESTART, SUCCESS};
use bulkhead_abi::observe::{CRASH_CORE_TYPE, Counter};
use bulkhead_abi::status::{STATE_INITIAL, STATE_OFF};
use bulkhead_run::{CrashReport, Phase};
use bulkhead_system_tests::remote;
use bulkhead_system_tests::{LIMIT, Remote, System};

const VIRT: &str = include_str!("../../../../boards/qemu-virt.toml");
const VERSAL: &str = "xlnx-versal-virt";

/// Writes the board file of `virt` with some of its text replaced, and returns its path.
fn virt_with(name: &str, replacements: &[(&str, &str)]) -> String {
    let board = replacements.iter().fold(VIRT.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "the board file does not contain {old:?}");
        text.replace(old, new)
    });
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    std::fs::write(&file, board).expect("the board file is written");
    file.to_str().expect("UTF-8").to_owned()
}

/// A description of a machine with this much memory, and of partitions.
fn description(memory: &str, partitions: &[String]) -> String {
    let head = format!("version = 1\nname = \"boards\"\nboard = \"qemu-virt\"\nmemory = \"{memory}\"\n");
    partitions.iter().fold(head, |text, partition| text + "[[partition]]\n" + partition + "\n")
}

fn hello(name: &str, core: u32, memory: &str) -> String {
    let image = "image = { kind = \"elf\", file = \"guest:hello.elf\" }";
    format!("name = \"{name}\"\ncores = [{core}]\nmemory = {memory}\n{image}")
}

/// Starts hello on two cores of such a board and returns what is said of a core whose monitor refuses to go on.
fn refusal(board: &str, core: usize) -> String {
    let partitions = [hello("first", 0, "\"4 MiB\""), hello("second", 1, "\"4 MiB\"")];
    let system = System::on_board(board, "boards", &description("256 MiB", &partitions), &[]);
    let mut running = system.start();
    running.tolerates_crashes = true;
    let report = running.wait_for("a refusal", LIMIT, |view| CrashReport::of_core(view.observer?, core));
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.record.kind, CRASH_CORE_TYPE, "{report}");
    assert_eq!(running.watch().phase(core), Phase::NotStarted);
    assert_eq!(running.watch().counter_page(core).entered_ticks, 0);
    let partition = ["first", "second"][core];
    assert_eq!(running.status(partition).generation, 0);
    assert!(running.texts(partition).is_empty());
    if core == 0 {
        assert_eq!(running.status("second").state, STATE_INITIAL, "nobody started the other core");
    } else {
        running.wait_for_state("first", STATE_OFF);
        assert_eq!(running.texts("first").last().map(String::as_str), Some("goodbye"));
    }
    report.to_string()
}

/// The list of registers that a guest can reach is one of types of cores: on another one nobody knows what it would have to trap.
#[test]
fn a_core_of_another_type_than_the_board_file_says_is_refused_by_name() {
    let (kind, cpu) = ("kind = \"cortex-a53\"", "cpu = \"cortex-a53\"");
    let said = refusal(&virt_with("claims-a72", &[(kind, "kind = \"cortex-a72\"")]), 0);
    assert!(said.contains("says that it is a cortex-a72, and it is a cortex-a53 (MIDR_EL1 0x410fd034)"), "{said}");
    let said = refusal(&virt_with("claims-a53", &[(cpu, "cpu = \"cortex-a72\"")]), 0);
    assert!(said.contains("says that it is a cortex-a53, and it is a cortex-a72 (MIDR_EL1 0x410fd083)"), "{said}");
    let said = refusal(&virt_with("unknown", &[(cpu, "cpu = \"cortex-a57\"")]), 0);
    assert!(said.contains("does not know (implementer 0x41, part 0xd07)"), "{said}");
}

/// Every core looks at itself: here the second one is not what the file says, and the first one runs.
#[test]
fn a_further_core_of_another_type_does_not_enter_its_guest() {
    let groups = "cores = [{ kind = \"cortex-a53\", mpidr = [0] }, { kind = \"cortex-a72\", mpidr = [1] }]";
    let one = "cores = [{ kind = \"cortex-a53\", mpidr = [0, 1, 2, 3, 4, 5, 6, 7] }]";
    let said = refusal(&virt_with("mixed", &[(one, groups)]), 1);
    assert!(
        said.contains("core 1 (partition second)") && said.contains("is a cortex-a72, and it is a cortex-a53"),
        "{said}"
    );
}

/// A guest that prints, ends, is restarted by a manager beside it and prints again. What it wrote into its RAM before is gone, and the host
/// reads console, counters, trace and RAM of both all the while.
fn runs_and_is_restarted(system: &System) {
    let mut running = system.start();
    let mut manager = Remote::new(&mut running, "manager");
    let printed = ["arguments \"\", vCPUs 1", "goodbye"];
    let ram = running.watch().plan().partitions[running.index("printer")].ram[0];
    let (first, last) = (ram.physical, PhysicalAddress(ram.physical.0 + ram.bytes - 8));
    for generation in 1..=3 {
        running.wait_for_status("printer", "the end", |status| {
            status.generation == generation && status.state == STATE_OFF
        });
        let texts = running.texts("printer");
        assert_eq!(texts.len(), 3 * generation as usize, "{texts:?}");
        assert_eq!(texts[texts.len() - 2..], printed);
        for place in [first, last] {
            assert_eq!(running.copy(place, 8), [0; 8], "what a start finds at {place}");
            running.ram().write_at(place, &[0xa5; 8]).expect("the RAM of the guest");
        }
        assert_eq!(running.counter("printer", Counter::Psci), u64::from(generation));
        assert!(manager.answers(&mut running));
        let printer = running.index("printer") as u64;
        assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, printer)[0], SUCCESS);
    }
    running.wait_for_status("printer", "the end", |status| status.generation == 4 && status.state == STATE_OFF);
    assert_eq!(running.copy(last, 8), [0; 8]);
    let timeline = bulkhead_run::trace::Trace::read(running.watch()).timeline(running.watch(), "");
    assert!(timeline.runs(0).len() >= 4, "a run of each instance");
    running.assert_no_crash();
}

/// `printer` at a fixed place, and `manager` on the other core.
fn pair(board: &str, memory: &str, places: [Option<u64>; 2]) -> System {
    let at = |place: Option<u64>| match place {
        Some(address) => format!("{{ size = \"4 MiB\", physical_address = {address:#x} }}"),
        None => "\"4 MiB\"".to_owned(),
    };
    let manager = format!(
        "name = \"manager\"\ncores = [1]\nmemory = {}\nmanages = true\nmanage_limit = {{ limit = 1000, per = \"100 ms\" }}\n\
         image = {{ kind = \"raw\", file = \"remote.bin\", load = 0x4008_0000 }}\nconsole = \"none\"",
        at(places[1])
    );
    let text = description(memory, &[hello("printer", 0, &at(places[0])), manager]);
    let text = text + "[trace]\nenabled = true\nrecords = 4096\n";
    System::on_board(board, "boards", &text, &[("remote", &remote::program())])
}

/// Versal has RAM at 0 and at 32 GiB. Each partition in either, at the first and at the last addresses that there are.
#[test]
fn partitions_run_in_either_bank_of_ram() {
    const HIGH: u64 = 0x8_0000_0000;
    let end = HIGH + (2 << 30);
    for (places, expected) in
        [([Some(HIGH), None], HIGH), ([None, Some(HIGH)], 0), ([Some(end - (4 << 20)), Some(HIGH)], end - (4 << 20))]
    {
        let system = pair(VERSAL, "4 GiB", places);
        let header = system.plan().header;
        assert_eq!(
            header.banks().iter().map(|bank| (bank.start.0, bank.bytes)).collect::<Vec<_>>(),
            [(0, 2 << 30), (HIGH, 2 << 30)]
        );
        assert_eq!(header.tcr & 0x3f, 25, "it ends below 512 GiB");
        let ram = system.plan().partitions[0].ram[0].physical.0;
        assert!(if expected == 0 { (1..2 << 30).contains(&ram) } else { ram == expected }, "{ram:#x}");
        runs_and_is_restarted(&system);
    }
}

/// RAM beyond 512 GiB that the machine could have, and has not: the monitor's tables begin at level 0 all the same.
#[test]
fn a_map_of_the_monitor_with_a_level_more_runs() {
    let bank = "memory = [{ address = 0x4000_0000, size = \"8 GiB\" }]";
    let banks =
        "memory = [{ address = 0x4000_0000, size = \"8 GiB\" }, { address = 0xf0_0000_0000, size = \"64 GiB\" }]";
    let system = pair(&virt_with("far", &[(bank, banks)]), "256 MiB", [None, None]);
    let header = system.plan().header;
    assert_eq!((header.tcr & 0x3f, header.bank_count), (24, 1), "40 bits, and one bank in this machine");
    runs_and_is_restarted(&system);
}
