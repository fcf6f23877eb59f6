//! DMA of a guest's own function against everybody (QV-10, QV-11): an `edu`, which copies wherever it is told, behind the SMMU that the boot
//! core set up before any function could master the bus.
//!
//! What the function reads is judged by the guest that owns it; what it writes by the memory that it was aimed at.

use bulkhead_abi::status::{STATE_OFF, STATE_STOPPED};
use bulkhead_plan::AreaKind;
use bulkhead_run::End;
use bulkhead_system_tests::System;

/// Registers that a write would do something to (H4 to H6): UART, SMMU, configuration space, the ITS, an interrupt by message, a
/// redistributor.
const REGISTERS: [u64; 6] = [0x0900_0000, 0x0905_0020, 0x40_1000_8004, 0x0809_0040, 0x0800_0040, 0x080a_0014];
/// What the guest adds by itself: edges of its RAM and of the address space (H9).
const EDGES: usize = 8;
/// F_TRANSLATION (Arm SMMUv3, 7.3).
const TRANSLATION: u64 = 0x10;

/// The system with these targets.
fn system(targets: &[u64]) -> System {
    let list = targets.iter().map(|target| format!("{target:#x}")).collect::<Vec<_>>().join(",");
    System::changed("dma", &[("TARGETS", &list)])
}

/// H1 to H6 and H9, and of H10 a status page: nothing of it lands or comes back, each refused transfer is counted for its owner, and others do
/// not notice.
#[test]
fn a_function_reaches_its_own_partition_alone() {
    let plain = system(&[]);
    // Monitor (H3): text, tables, streams, plan, a stack; memory of others (H1, H2), and its own by physical address; shared pages (H10).
    let kinds = [
        AreaKind::Text,
        AreaKind::StreamTable,
        AreaKind::Commands,
        AreaKind::Events,
        AreaKind::El2Tables(0),
        AreaKind::Stage2Tables(1),
        AreaKind::DevicePlan(0),
        AreaKind::Stack(1),
        AreaKind::Status(1),
        AreaKind::Ram(0),
        AreaKind::Ram(1),
        AreaKind::Ram(2),
    ];
    let targets: Vec<u64> = kinds.map(|kind| plain.area(kind).address.0).into_iter().chain(REGISTERS).collect();
    // To a device that is not its own RAM: an address there would reach that, and attack nobody.
    assert!(targets.iter().all(|target| !(0x4000_0000..0x4020_0000).contains(target)), "{targets:x?}");
    let system = system(&targets);
    for kind in kinds {
        assert_eq!(system.area(kind), plain.area(kind), "arguments move nothing");
    }
    let mut running = system.start_exact(6);
    running.line("intruder", "own RAM written and read");
    running.wait_for_state("asleep", STATE_OFF);
    let asleep = system.area(AreaKind::Ram(1));
    let before = running.copy(asleep.address, asleep.bytes);
    assert_eq!(running.end(), End::AllEnded);
    let texts = running.texts("intruder");
    let tried = targets.len() + EDGES;
    assert_eq!(texts.last().map(String::as_str), Some(&*format!("intruder: {tried} targets tried, 0 leaked")));
    assert!(running.copy(asleep.address, asleep.bytes) == before, "memory of a guest that sleeps changed");
    running.assert_image_intact(&system);
    running.assert_no_crash();
    assert_ne!(running.status("intruder").state, STATE_STOPPED);
    // The guest that is awake lost none of its periods.
    assert_eq!(running.texts("awake").last().map(String::as_str), Some("done iterations=1000 releases_due=1000"));
    let dma = running.status("intruder").dma;
    // A write and a read of each, and at the edges that cross a page two pieces of one of them may be told.
    assert!(dma.events >= 2 * targets.len() as u64, "{dma:?}");
    assert_eq!((dma.latest & 0xff, dma.lost), (TRANSLATION, 0), "{dma:?}");
    for partition in ["asleep", "awake"] {
        assert_eq!(running.status(partition).dma.events, 0, "{partition}");
    }
}
