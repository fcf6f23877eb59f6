//! Channels between a payload and partitions below it: what the world plan says, what the partition's stage 2 shows, and what the payload maps are one
//! pool, and each change of one fact is refused with its code (SG-70, SG-72).

use crate::hybrid::{flash, monitor, verify};
use crate::support::{Editor, GUEST_READ_PAGE, GUEST_WRITE, XN};
use crate::worlds::Changed;
use bulkhead_abi::Part;
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_PCI_MEMORY};
use bulkhead_plan::{AreaKind, samples};
use bulkhead_verify::Code;

/// Guest address of the second partition's pool: BAR 2 of its function behind that of management.
const BAR: u64 = GUEST_PCI_MEMORY.0 + (16 << 20);
/// Offset of the channels in the world plan, and of fields in one.
const CHANNEL: usize = 768;
const CHANNEL_BYTES: usize = 64;
const ADDRESS: usize = CHANNEL + 32;
const DIRECTION: usize = CHANNEL + 40;
const BLOCK_BYTES: usize = CHANNEL + 48;
const POLL: usize = CHANNEL + 56;

fn image() -> Editor {
    Editor::with(&samples::hybrid_with_channels(), &monitor(Part::Hybrid))
}

fn pools(image: &Editor) -> [u64; 2] {
    [0, 1].map(|place| image.at(AreaKind::Pool(place)))
}

fn with(image: Editor) -> Vec<u8> {
    let pools = pools(&image);
    flash(&samples::hybrid_with_channels(), &image.finish(), &pools)
}

#[test]
fn channels_to_partitions_are_accepted() {
    let verdict = verify(&with(image()));
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
    assert_eq!((verdict.extent.channels, verdict.extent.below.expect("an image").channels), (2, 0));
}

type InPlan = fn(&mut Changed);

/// Changes of the world plan and of the payload's tables, and the code that each must get.
const ABOVE: &[(&str, Code, InPlan)] = &[
    ("a channel in other pages than its partition's", Code::WorldChannel, |file| {
        file.plan(ADDRESS, |address| address + 0x1000);
    }),
    ("a channel in the other direction", Code::WorldChannel, |file| {
        file.plan(DIRECTION + CHANNEL_BYTES, |word| word - 1);
        file.plan(POLL + CHANNEL_BYTES, |_| 0);
    }),
    ("a channel of another name", Code::WorldChannel, |file| file.plan(CHANNEL, |word| word ^ 1)),
    ("a channel with an interrupt of nobody", Code::WorldChannel, |file| {
        file.plan(BLOCK_BYTES, |word| word + (1 << 32));
    }),
    ("a channel with smaller blocks", Code::WorldChannel, |file| file.plan(BLOCK_BYTES, |word| word - 1)),
    ("a channel that partitions ring", Code::WorldChannel, |file| file.plan(POLL + CHANNEL_BYTES, |_| 0)),
    ("a channel less than partitions have", Code::WorldChannel, |file| {
        (0..8).for_each(|place| file.plan(CHANNEL + CHANNEL_BYTES + 8 * place, |_| 0));
    }),
    ("a pool that the payload caches", Code::WorldChannel, |file| {
        let pool = file.word(0x1000 + ADDRESS as u64);
        file.leaf(pool, |entry| entry & !(7 << 2) | 1 << 2);
    }),
    ("a pool as a device", Code::WorldChannel, |file| {
        let pool = file.word(0x1000 + ADDRESS as u64);
        file.leaf(pool, |entry| entry & !(7 << 2));
    }),
    ("memory of the world without caches", Code::PayloadTable, |file| {
        file.leaf(0x4000_0000, |entry| entry & !(7 << 2) | 2 << 2);
    }),
];

type InImage = fn(&mut Editor);

/// Changes of the image below.
const BELOW: &[(&str, Code, InImage)] = &[
    ("a pool that a third partition writes", Code::TwoWriters, |image| {
        let pool = image.at(AreaKind::Pool(0));
        image.add_guest_page(2, pool, GUEST_READ_PAGE | GUEST_WRITE);
    }),
    ("a pool that a third partition reads", Code::MonitorReachable, |image| {
        let pool = image.at(AreaKind::Pool(0));
        image.add_guest_page(2, pool, GUEST_READ_PAGE);
    }),
    ("a pool that its partition executes", Code::GuestExecute, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_CHANNELS.0, |entry| entry & !XN);
    }),
    ("a pool that its partition caches", Code::MemoryType, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_CHANNELS.0, |entry| entry | 0xf << 2);
    }),
    ("a pool that its partition cannot write", Code::GuestRights, |image| {
        let root = image.guest_root(1);
        image.change(root, BAR, |entry| entry & !GUEST_WRITE);
    }),
    ("a pool that is not mapped", Code::ChannelEnds, |image| {
        let root = image.guest_root(1);
        image.change(root, BAR, |_| 0);
    }),
    ("a pool over a page of the monitor", Code::AreaOverlap, |image| {
        let (root, status) = (image.guest_root(1), image.at(AreaKind::Status(0)));
        image.change(root, BAR, |entry| entry & !0xffff_f000 | status);
    }),
    ("two channels in one pool", Code::AreaOverlap, |image| {
        let (root, other) = (image.guest_root(1), image.at(AreaKind::Pool(0)));
        image.change(root, BAR, |entry| entry & !0xffff_f000 | other);
    }),
    ("a pool with more blocks than it has room for", Code::Information, |image| {
        image.information(0, |page| page.ports[0].message_bytes = 4096);
    }),
    ("a pool of no direction", Code::Information, |image| image.information(0, |page| page.ports[0].direction = 3)),
    ("a pool with a doorbell", Code::Information, |image| image.information(0, |page| page.ports[0].doorbell = 0)),
    ("a pool with an interrupt that its partition has not", Code::DoorbellTarget, |image| {
        image.information(0, |page| page.ports[0].interrupt = 51);
    }),
    ("an interrupt of a pool that no port names", Code::DoorbellTarget, |image| {
        image.information(0, |page| page.ports[0].interrupt = 0);
    }),
    ("a PCI function that is no end of its pool", Code::PciFunction, |image| {
        image.partition(1, |plan| plan.pci[1].position ^= 1);
    }),
];

#[test]
fn every_mutant_is_refused_with_its_code() {
    let mut failures = Vec::new();
    let mut judge = |what: &str, code: Code, file: &[u8]| {
        let verdict = verify(file);
        if !verdict.has(code) {
            failures.push(format!("{what}: not {}, but {:?}", code.name(), verdict.findings));
        }
    };
    for (what, code, change) in ABOVE {
        let mut file = Changed(with(image()));
        change(&mut file);
        judge(what, *code, &file.seal());
    }
    for (what, code, change) in BELOW {
        let mut image = image();
        change(&mut image);
        judge(what, *code, &with(image));
    }
    // An image that has none of the channels of the plan above it, and one that has more.
    let (without, all) = (samples::hybrid(), samples::hybrid_with_channels());
    let other = Editor::with(&without, &monitor(Part::Hybrid)).finish();
    judge("channels of nobody", Code::WorldChannel, &flash(&all, &other, &pools(&image())));
    judge("channels that the payload does not know", Code::WorldChannel, &flash(&without, &image().finish(), &[]));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Without a payload there is no other end.
#[test]
fn pools_without_a_payload_are_refused() {
    let mut alone = samples::demo();
    alone.partitions[1].pci_channels = false;
    let mut image = Editor::of(&alone);
    image.information(1, |page| page.ports[0].kind = bulkhead_guest_abi::channel::PORT_POOL);
    assert!(crate::support::verify_bytes(&image.finish()).has(Code::Information));
}
