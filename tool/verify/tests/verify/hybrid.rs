//! Flash files with partitions below a payload: a good one is accepted, and each change of one fact is refused with its code.

use crate::worlds::Changed;
use bulkhead_abi::Part;
use bulkhead_abi::image::{IMAGE_MAGIC, ImageHeader};
use bulkhead_flash::{ImageBelow, of_hybrid};
use bulkhead_image::assemble;
use bulkhead_plan::model::System;
use bulkhead_plan::{MonitorImage, samples};
use bulkhead_verify::world::{FlashVerdict, SecureMonitor, has_partitions, verify_flash, verify_hybrid};
use bulkhead_verify::{Code, Expected, Monitor};
use zerocopy::FromBytes;

const LOAD: u64 = 0x4020_0000;
const STATE: u64 = 0x0e00_1000;

pub(super) fn monitor(part: Part) -> MonitorImage {
    let mut monitor = samples::monitor();
    monitor.text.splice(64..72, part.mark());
    MonitorImage { part, ..monitor }
}

fn image(system: &System, part: Part) -> Vec<u8> {
    assemble(system, &monitor(part)).expect("a plan").bytes
}

/// The flash file of the sample with this image in it.
fn with_image(image: &[u8]) -> Vec<u8> {
    flash(&samples::hybrid(), image, &[])
}

/// The pages in which the monitor of an image says how its partitions are, by the header of the image.
fn statuses(image: &[u8]) -> Vec<u64> {
    let is_header = |page: &&[u8]| page.starts_with(&IMAGE_MAGIC.to_le_bytes());
    let page = image.chunks(4096).find(is_header).expect("a header");
    let (header, _) = ImageHeader::read_from_prefix(page).expect("a whole header");
    header.partitions().iter().map(|partition| partition.status.0).collect()
}

/// The flash file of a system with this image in it, and the pools that it has.
pub(super) fn flash(system: &System, image: &[u8], pools: &[u64]) -> Vec<u8> {
    let statuses = statuses(image);
    let below = ImageBelow { start: LOAD, bytes: image, pools, statuses: &statuses };
    of_hybrid(system, &samples::secure_monitor(), below).expect("it fits").bytes
}

/// INTIDs of partitions on other cores than the payload's: their doorbells and devices.
pub(super) fn elsewhere() -> Vec<u32> {
    Vec::new()
}

pub(super) fn good() -> Vec<u8> {
    with_image(&image(&samples::hybrid(), Part::Hybrid))
}

pub(super) fn verify(file: &[u8]) -> FlashVerdict {
    let expected = SecureMonitor::of_elf(&samples::secure_monitor()).expect("a secure monitor");
    let part = monitor(Part::Hybrid);
    verify_hybrid(file, &expected, &Expected::only(Monitor::new(&part.text, &part.rodata)))
}

#[test]
fn partitions_below_a_payload_are_accepted() {
    let file = good();
    assert!(has_partitions(&file));
    let verdict = verify(&file);
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    let below = verdict.extent.below.expect("an image below");
    assert_eq!((below.cores, below.partitions, verdict.extent.segments), (4, 3, 1));
    // Who verifies a system of one core does not take it for one.
    let expected = SecureMonitor::of_elf(&samples::secure_monitor()).expect("a secure monitor");
    assert!(verify_flash(&file, &expected).has(Code::WorldPlan));
}

/// Offsets of fields of the plan.
mod at {
    pub(super) const COUNTER: usize = 8;
    pub(super) const WINDOW_BYTES: usize = 64;
    pub(super) const ENTRY: usize = 72;
    pub(super) const ARGUMENT: usize = 80;
    pub(super) const LEVEL: usize = 88;
    pub(super) const DISTRIBUTOR: usize = 96;
    pub(super) const INTERRUPTS: usize = 112;
    pub(super) const SEGMENT: usize = 248;
    pub(super) const URGENT: usize = 624;
    pub(super) const CORES: usize = 688;
    pub(super) const REDISTRIBUTOR: usize = CORES + 8;
    pub(super) const CLOSED: usize = CORES + 32;
    pub(super) const KICKS: usize = CORES + 48;
    pub(super) const WATCH: usize = CORES + 64;
    pub(super) const PARTITIONS: usize = 2416;
    pub(super) const WINDOWS: usize = 1584;
}

type Change = fn(&mut Changed);

/// What is changed, how, and the code that it must get.
const MUTANTS: &[(&str, Code, Change)] = &[
    ("one core less", Code::WorldCores, |file| file.plan(at::CORES, |word| word - 1)),
    ("five cores", Code::WorldCores, |file| file.plan(at::CORES, |word| word + 1)),
    ("calls of EL1 that EL3 answers", Code::WorldCores, |file| file.plan(at::CORES, |word| word - (1 << 32))),
    ("no redistributor of a core", Code::WorldCores, |file| file.plan(at::REDISTRIBUTOR + 8, |_| 0)),
    ("another core's redistributor", Code::WorldCores, |file| file.plan(at::REDISTRIBUTOR, |frame| frame + 0x2_0000)),
    ("a kick of the payload's core", Code::WorldCores, |file| file.plan(at::KICKS, |word| word | 1 << 32)),
    ("a kick of a core that is not there", Code::WorldCores, |file| file.plan(at::KICKS, |word| word | 1 << 4)),
    ("a core that kicks nobody", Code::WorldCores, |file| file.plan(at::KICKS + 8, |word| word >> 32 << 32)),
    ("an SGI of another partition opened", Code::WorldCores, |file| {
        file.plan(at::CLOSED + 8, |word| word & !(1 << (32 + 12)));
    }),
    ("EL3's kick opened", Code::WorldCores, |file| file.plan(at::CLOSED, |word| word & !(1 << (32 + 8)))),
    ("the payload's event opened", Code::WorldCores, |file| file.plan(at::CLOSED, |word| word & !(1 << 9))),
    ("SGI 15 of the payload's core closed", Code::WorldCores, |file| file.plan(at::CLOSED, |word| word | 1 << 15)),
    ("an SGI closed that kernels send", Code::WorldCores, |file| file.plan(at::CLOSED + 8, |word| word | 1)),
    ("lines of cores that are not mapped", Code::PayloadReach, |file| file.leaf(STATE, |_| 0)),
    ("a distributor in redistributors", Code::WorldBelow, |file| file.plan(at::DISTRIBUTOR, |_| 0x0810_0000)),
    ("a counter that runs otherwise below", Code::WorldBelow, |file| file.plan(at::COUNTER, |rate| rate + 1)),
    ("an urgent interrupt of nobody on the payload's core", Code::WorldInterrupt, |file| file.plan(at::URGENT, |_| 34)),
    ("a watch of no time", Code::WorldCores, |file| file.plan(at::WATCH, |_| 0)),
    ("a watch without an end", Code::WorldCores, |file| file.plan(at::WATCH + 8, |_| u64::MAX)),
    ("an image that goes elsewhere", Code::WorldBelow, |file| {
        file.plan(at::SEGMENT + 8, |_| LOAD + 0x1000);
        file.plan(at::ENTRY, |_| LOAD + 0x1000);
    }),
    ("an image that is entered behind its beginning", Code::WorldBelow, |file| file.plan(at::ENTRY, |_| LOAD + 4)),
    ("an image that is entered at EL1", Code::WorldBelow, |file| file.plan(at::LEVEL, |_| 1)),
    ("something in x0", Code::WorldBelow, |file| file.plan(at::ARGUMENT, |_| LOAD)),
    ("a window that ends in RAM of the partitions", Code::WorldBelow, |file| {
        file.plan(at::WINDOW_BYTES, |bytes| bytes - 0x1000);
    }),
    ("a page about a partition that is another one's", Code::WorldBelow, |file| {
        let other = file.word(0x1000 + at::PARTITIONS as u64 + 8);
        file.plan(at::PARTITIONS, |_| other);
    }),
    ("a partition of which the payload is not told", Code::WorldBelow, |file| file.plan(at::PARTITIONS + 16, |_| 0)),
    ("a page about a partition that no start can fill", Code::PayloadTable, |file| {
        let page = file.word(0x1000 + at::PARTITIONS as u64);
        file.leaf(page, |entry| entry | 1 << 7);
    }),
    ("a page about a partition that the payload caches", Code::PayloadTable, |file| {
        let page = file.word(0x1000 + at::PARTITIONS as u64);
        file.leaf(page, |entry| entry & !(7 << 2) | 1 << 2);
    }),
    ("windows that are told to the monitor below", Code::WorldInterrupt, |file| {
        file.plan(at::WINDOWS + 8, |word| word | 43 << 32);
    }),
    ("a page about a partition in a block without caches", Code::PayloadTable, |file| {
        let page = file.word(0x1000 + at::PARTITIONS as u64);
        // No cache, NS, inner shareable, used, never executed.
        file.block(page, 2 << 2 | 1 << 5 | 3 << 8 | 1 << 10 | 3 << 53);
    }),
    ("a byte of a partition's plan", Code::PlanCrc, |file| {
        let from = file.word(0x1000 + at::SEGMENT as u64);
        let place = from + 0x8000;
        let word = file.word(place);
        file.put(place, word ^ 1);
    }),
];

/// The codes that a change of this list shows.
pub(super) fn shown() -> impl Iterator<Item = Code> {
    MUTANTS.iter().map(|(_, code, _)| *code)
}

#[test]
fn every_mutant_is_refused_with_its_code() {
    let mut failures = Vec::new();
    for (what, code, change) in MUTANTS {
        let mut file = Changed(good());
        change(&mut file);
        let verdict = verify(&file.seal());
        if !verdict.has(*code) {
            failures.push(format!("{what}: not {}, but {:?}", code.name(), verdict.findings));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// An image for another system than the plan above it says is refused, although nothing is wrong with it by itself.
#[test]
fn an_image_of_another_system_is_refused() {
    let mut without = samples::hybrid();
    without.secure = None;
    assert!(verify(&with_image(&image(&without, Part::Shared))).has(Code::WorldBelow), "another part");
    let mut fewer = samples::hybrid();
    fewer.partitions.pop();
    assert!(verify(&with_image(&image(&fewer, Part::Hybrid))).has(Code::WorldCores), "a core without EL2 is kicked");
    let mut owner = samples::hybrid();
    owner.board.devices[0].interrupts.iter_mut().for_each(|interrupt| interrupt.intid = 60);
    owner.partitions[1].devices = vec![0];
    owner.partitions[1].device_routes = vec![Default::default()];
    let verdict = verify(&with_image(&image(&owner, Part::Hybrid)));
    assert!(verdict.has(Code::WorldInterrupt), "{:?}", verdict.findings);
    // An urgent interrupt is one of the partition on the payload's core.
    for (partition, is_good) in [(0, true), (1, false)] {
        let mut urgent = samples::hybrid();
        urgent.partitions[partition].devices = vec![0];
        urgent.partitions[partition].device_routes = vec![Default::default()];
        let mut file = Changed(with_image(&image(&urgent, Part::Hybrid)));
        file.plan(at::URGENT, |_| u64::from(urgent.board.devices[0].interrupts[0].intid));
        let verdict = verify(&file.seal());
        assert_eq!(verdict.is_accepted(), is_good, "{:?}", verdict.findings);
        assert_eq!(verdict.has(Code::WorldInterrupt), !is_good);
    }
    let mut console = samples::hybrid();
    console.partitions[0].virtual_uart = true;
    let mut file = Changed(with_image(&image(&console, Part::Hybrid)));
    let intid = console.board.uart.expect("a UART").intid;
    file.plan(at::INTERRUPTS, |word| word | 1 << intid);
    assert!(verify(&file.seal()).has(Code::WorldInterrupt), "the interrupt of console input");
    let mut direct = samples::hybrid();
    direct.partitions[1].cores = vec![1];
    direct.partitions[2].cores = vec![2];
    direct.partitions.push(samples::native("late", &[3]));
    let verdict = verify(&with_image(&image(&direct, Part::Hybrid)));
    assert!(verdict.has(Code::WorldCores), "SGIs of a core with another guest: {:?}", verdict.findings);
}
