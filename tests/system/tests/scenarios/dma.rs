//! DMA of a guest's own function against everybody (QV-10, QV-11): an `edu`, which copies wherever it is told, behind the SMMU that the boot
//! core set up before any function could master the bus.
//!
//! What the function reads is judged by the guest that owns it; what it writes by the memory that it was aimed at.

mod breaks;
mod flight;
pub(super) mod others;
mod space;
mod storms;

use bulkhead_abi::status::{STATE_OFF, STATE_STOPPED};
use bulkhead_guest_abi::guest::{GUEST_PCI_MEMORY, GUEST_PCI_REGISTERS};
use bulkhead_plan::AreaKind;
use bulkhead_run::End;
use bulkhead_system_tests::System;
use others::{is_undisturbed, nothing_landed};

/// Registers that a write would do something to (H4 to H6): UART, SMMU, configuration space, the ITS, an interrupt by message, a
/// redistributor.
const REGISTERS: [u64; 6] = [0x0900_0000, 0x0905_0020, 0x40_1000_8004, 0x0809_0040, 0x0800_0040, 0x080a_0014];
/// Where RAM begins, of the machine and of each partition.
const RAM: u64 = 0x4000_0000;
/// What the guest adds by itself: edges of its RAM and of the address space (H9).
const EDGES: usize = 8;
/// F_TRANSLATION (Arm SMMUv3, 7.3).
const TRANSLATION: u64 = 0x10;

/// A disk of 2 MiB in which each word says where it is, as `guests/intruder` expects; removed at the end of the test.
struct DiskFile(std::path::PathBuf);

impl DiskFile {
    fn create(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bulkhead-dma-{name}-{}.disk", std::process::id()));
        let words = (0..2_u64 << 20).step_by(8).map(|offset| offset ^ 0x5aa5_5aa5_5aa5_5aa5);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        std::fs::write(&path, bytes).expect("a temporary file can be written");
        Self(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The system with these targets. `is_exchanged`: the one that sleeps comes before the intruder, so that each has the memory, the tables
/// and the number that the other one had.
fn system(targets: &[u64], is_exchanged: bool) -> System {
    // Arguments are short: pages of RAM have fewer digits.
    let (pages, addresses): (Vec<u64>, Vec<u64>) =
        targets.iter().partition(|target| (RAM..RAM + (1 << 28)).contains(*target) && target.is_multiple_of(0x1000));
    let list = |words: Vec<String>| words.join(",");
    let addresses = list(addresses.iter().map(|target| format!("{target:x}")).collect());
    let pages = list(pages.iter().map(|target| format!("{:x}", (target - RAM) >> 12)).collect());
    let text = include_str!("../../systems/dma.toml").replace("TARGETS", &addresses).replace("PAGES", &pages);
    let mut pieces: Vec<&str> = text.split("[[partition]]").collect();
    if is_exchanged {
        pieces.swap(1, 2);
    }
    System::from_text("dma", &pieces.join("[[partition]]"))
}

/// What the monitor and others have (H1 to H3), and what the intruder shares with others or with the monitor (H10): its own places by their
/// physical addresses too.
fn memory(intruder: usize, asleep: usize, awake: usize) -> Vec<AreaKind> {
    vec![
        AreaKind::Text,
        AreaKind::StreamTable,
        AreaKind::Commands,
        AreaKind::Events,
        AreaKind::El2Tables(0),
        AreaKind::Stage2Tables(asleep),
        AreaKind::DeviceTables(0),
        AreaKind::DevicePlan(intruder),
        AreaKind::Pristine(asleep),
        AreaKind::Stack(1),
        AreaKind::Shared(asleep),
        AreaKind::Counters(asleep, 0),
        AreaKind::Status(asleep),
        AreaKind::Status(intruder),
        AreaKind::ChannelWriter(0),
        AreaKind::ChannelReader(0),
        AreaKind::ChannelWriter(1),
        AreaKind::ChannelReader(1),
        AreaKind::Doorbell(0),
        AreaKind::GuestConsole(asleep),
        AreaKind::GuestConsole(awake),
        AreaKind::VcpuConsole(intruder, 0),
        AreaKind::Ram(intruder),
        AreaKind::Ram(asleep),
        AreaKind::Ram(awake),
    ]
}

/// H1 to H6, H9 and H10, and H14 with the partitions exchanged: nothing of it lands or comes back, each refused transfer is counted for its
/// owner, and others do not notice.
///
/// Exchanged partitions are two boots, because nothing less exchanges them: a restart puts a partition where it was, with its own tables and its own
/// ASID. What a boot finds of the one before, its first commands forget before the SMMU is switched on; that they are there
/// is what `verify` shows ("translations not forgotten", V125), and QEMU's own reset forgets as well, so one machine that boots
/// twice would show no more.
#[test]
fn a_function_reaches_its_own_partition_alone() {
    for is_exchanged in [false, true] {
        reaches_its_own_partition_alone(is_exchanged);
    }
}

fn reaches_its_own_partition_alone(is_exchanged: bool) {
    let plain = system(&[], is_exchanged);
    let number = |name: &str| plain.model.partitions.iter().position(|one| one.name == name).expect("it is there");
    let (intruder, asleep, awake) = (number("intruder"), number("asleep"), number("awake"));
    assert_eq!((intruder, asleep), if is_exchanged { (1, 0) } else { (0, 1) });
    let kinds = memory(intruder, asleep, awake);
    let areas = kinds.iter().map(|kind| plain.area(*kind).address.0);
    // Its channel and its registers, by the addresses that it has for them.
    let shared = [GUEST_PCI_MEMORY.0, GUEST_PCI_REGISTERS.0];
    let targets: Vec<u64> = areas.chain(shared).chain(REGISTERS).collect();
    // To a device that is not its own RAM: an address there would reach that, and attack nobody.
    assert!(targets.iter().all(|target| !(0x4000_0000..0x4020_0000).contains(target)), "{targets:x?}");
    let system = system(&targets, is_exchanged);
    for kind in kinds {
        assert_eq!(system.area(kind), plain.area(kind), "arguments move nothing");
    }
    let mut running = system.start_exact(8);
    running.line("intruder", "own RAM written and read");
    running.wait_for_state("asleep", STATE_OFF);
    let ram = system.area(AreaKind::Ram(asleep));
    let before = running.copy(ram.address, ram.bytes);
    assert_eq!(running.end(), End::AllEnded);
    let texts = running.texts("intruder");
    let tried = targets.len() + EDGES;
    assert_eq!(texts.last().map(String::as_str), Some(&*format!("intruder: {tried} targets tried, 0 leaked")));
    assert!(running.copy(ram.address, ram.bytes) == before, "memory of a guest that sleeps changed");
    nothing_landed(&running, &system, intruder);
    assert_ne!(running.status("intruder").state, STATE_STOPPED);
    is_undisturbed(&mut running, 1000);
    let dma = running.status("intruder").dma;
    // A write and a read of each, and at the edges that cross a page two pieces of one of them may be told.
    assert!(dma.events >= 2 * targets.len() as u64, "{dma:?}");
    assert_eq!((dma.latest & 0xff, dma.lost), (TRANSLATION, 0), "{dma:?}");
    for partition in ["asleep", "awake"] {
        assert_eq!(running.status(partition).dma.events, 0, "{partition}");
    }
}
