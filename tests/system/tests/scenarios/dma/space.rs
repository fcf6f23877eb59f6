//! Configuration space and tables of messages in the hands of a hostile guest (H7, H8, H11, H12, H17): its functions are the same
//! afterwards, and stay where the plan put them.

use super::DiskFile;
use super::others::{disks, is_undisturbed, nothing_landed, victims};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_DATA_ABORT, STATE_OFF};
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::{Running, System};
use serde_json::json;

/// Bytes of configuration space that are compared: the header and capabilities.
const SPACE_BYTES: u64 = 256;
const ECAM: u64 = 0x40_1000_0000;
/// Command and Status, which the guest's driver may change.
const COMMAND: usize = 1;

/// An intruder with an `edu`, an NVMe controller and a virtio disk.
fn system(arguments: &str, weapon: &str, health: &str, disk: &DiskFile) -> System {
    let text = format!(
        r#"
version = 1
name = "space"
board = "qemu-virt"
memory = "256 MiB"

[[partition]]
name = "intruder"
cores = [0]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:intruder.elf" }}
arguments = "{arguments} ram=0x200000"
console = "pl011"
health = {{ {health}, dma_poll = "10 ms" }}
{}
{weapon}
{}"#,
        victims(200),
        disks(&disk.path())
    );
    System::from_text("space", &text)
}

const EDU: &str = "[[pci]]\nname = \"weapon\"\nmodel = \"edu\"\npartition = \"intruder\"\n";

/// What the machine itself says of a function's configuration space, or of anything else, as words.
fn words(running: &mut Running, address: u64, bytes: u64) -> Vec<u32> {
    let command = json!({ "command-line": format!("xp /{}wx {address:#x}", bytes / 4) });
    let answer = running.qmp().execute_with("human-monitor-command", command).unwrap_or_else(|error| panic!("{error}"));
    let text = answer.as_str().expect("text").to_owned();
    let words = text.lines().flat_map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>());
    words.map(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).expect("a word")).collect()
}

/// Configuration space of all functions of the intruder, but for Command and Status.
fn spaces(running: &mut Running, system: &System) -> Vec<Vec<u32>> {
    let all = system.model.functions.iter().map(|function| ECAM + (u64::from(function.device) << 15));
    let places: Vec<u64> = all.collect();
    let mut spaces: Vec<Vec<u32>> = places.iter().map(|place| words(running, *place, SPACE_BYTES)).collect();
    spaces.iter_mut().for_each(|space| space[COMMAND] = 0);
    spaces
}

/// H7, H11, H12, H17: every place of configuration space by every width, of functions that are there and of those that are not, base addresses moved onto RAM, the interrupt controller, the UART
/// and other functions, and mastering switched under a transfer. Nothing of it reaches a function but mastering itself.
#[test]
fn configuration_space_gives_nothing_away() {
    let disk = DiskFile::create("space");
    let targets = "0x8000000,0x8080000,0x8090040,0x9000000,0x9050000,0x10000000,0x40200000";
    let system = system(&format!("attack=space targets={targets}"), EDU, "on_fault = \"stop\"", &disk);
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(6);
        options.paused = true;
    });
    running.resume().unwrap_or_else(|error| panic!("{error}"));
    running.line("intruder", "own RAM written and read");
    let before = spaces(&mut running, &system);
    assert!(
        before.iter().all(|space| space[0] != u32::MAX && space[4..10].iter().any(|base| *base != 0)),
        "{before:x?}"
    );
    running.wait_for_state("asleep", STATE_OFF);
    let asleep = system.area(AreaKind::Ram(1));
    let memory = running.copy(asleep.address, asleep.bytes);
    running.wait_for_state("intruder", STATE_OFF);
    let texts = running.texts("intruder");
    for line in [
        "4 functions after 4325088 accesses, changed=false",
        "base addresses moved=0 changed=false",
        "leaked=0 while mastering was toggled",
        "weapon works=true",
    ] {
        assert!(texts.contains(&format!("intruder: {line}")), "{texts:#?}");
    }
    assert_eq!(spaces(&mut running, &system), before, "as the machine itself sees them");
    assert!(running.copy(asleep.address, asleep.bytes) == memory, "memory of a guest that sleeps changed");
    assert!(running.counter("intruder", Counter::PciConfig) > 4_325_088);
    is_undisturbed(&mut running, 200);
    nothing_landed(&running, &system, 0);
}

/// H8: tables of messages and their pending bits, in the NVMe controller's own registers and behind a register of their own, the SMMU, physical
/// configuration space and the places of others: no page of it is the guest's, so that each is a fault.
#[test]
fn tables_of_messages_are_nobodys() {
    let disk = DiskFile::create("tables");
    // By guest addresses: the NVMe controller is function 0 of its bus, with 16 KiB of registers.
    let plain = system("attack=tables own=0", "", "on_fault = \"restart\", max = 20, within = \"600 s\"", &disk);
    let plan = plain.plan();
    let functions = plan.devices[0].as_ref().expect("it has functions");
    let nvme = functions.functions.iter().find(|one| one.header[0] == 0x0010_1b36).expect("it has the controller");
    let tables = nvme.bars[0].guest.0 + 0x2000;
    let (physical, messages) = (nvme.bars[0].physical.0 + 0x2000, functions.functions[1].bars[4].physical.0);
    let targets = [tables, tables + 0x1000, tables + 0x1ffc, physical, messages, 0x0905_0000, 0x0906_00ac, 0x0809_0040];
    let list = targets.map(|target| format!("{target:#x}")).join(",");
    let arguments = format!("attack=tables own=0 targets={list}");
    let system = system(&arguments, "", "on_fault = \"restart\", max = 20, within = \"600 s\"", &disk);
    let mut running = system.start_exact(6);
    running.wait_for_state("intruder", STATE_OFF);
    let texts = running.texts("intruder");
    let mut expected: Vec<String> =
        (1..).zip(targets).map(|(start, target)| format!("intruder: start {start} touches {target:#x}")).collect();
    expected.push(format!("intruder: touched all before start {}", targets.len() + 1));
    assert_eq!(texts, expected);
    let status = running.status("intruder");
    assert_eq!((status.faults, status.fault.reason), (targets.len() as u64, REASON_DATA_ABORT));
    assert_eq!(status.dma.events, 0, "no message was ever sent");
    running.assert_image_intact(&system);
    running.assert_no_crash();
}
