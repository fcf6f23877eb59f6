//! virtio between partitions: single corruptions of an image with fronts and back ends, each refused with its own code (QV-50, QV-51). Of
//! the sample: partition 0 linux serves a disk and a network card of 1 office, 2 server (native) serves a disk of 3 lab.

use crate::functions::{PAGE, devices, edit, verify};
use crate::functions_changed::seeded;
use crate::mutants::Mutant;
use crate::support::{EL2_DATA_PAGE, Editor, GUEST_WRITE, READ_ONLY, XN};
use bulkhead_abi::devices::{DeviceFront, DevicePlan};
use bulkhead_abi::plan::{WINDOW_VIRTIO, Window};
use bulkhead_abi::virtio::NET_MAC;
use bulkhead_guest_abi::channel::PORT_NET;
use bulkhead_guest_abi::guest::DIRECTION_DESTINATION;
use bulkhead_plan::{AreaKind, samples};
use bulkhead_verify::Code;
use proptest::prelude::Rng;
use std::mem::offset_of;

const LINUX: usize = 0;
const OFFICE: usize = 1;
const SERVER: usize = 2;
const LAB: usize = 3;
/// The pool at a front, and the device page of its first device.
const POOL: u64 = 0x3000_0000;
const DEVICE_PAGE: u64 = 0x1900_1000;
/// Windows of the back ends: the third function of `linux`, and the first port of `server`.
const DISK: u64 = 0x2000_0000 + (2 << 24);
const STORE: u64 = 0x1010_0000;
/// Stage 2: memory type of normal memory that is cached, in all bits of MemAttr; a page that a guest may read.
const WRITE_BACK: u64 = 0xf << 2;
/// Stage 2: a page of memory as guests share it, Normal non-cacheable.
const SHARED_READ: u64 = 1 << 10 | 3 << 8 | 1 << 6 | 5 << 2 | XN | 3;

fn front(image: &mut Editor, partition: usize, change: impl FnOnce(&mut DeviceFront)) {
    devices(image, partition, |plan| change(&mut plan.fronts[0]));
}

fn window(image: &mut Editor, change: impl FnOnce(&mut Window)) {
    image.partition(OFFICE, |plan| {
        change(plan.windows.iter_mut().find(|window| window.kind == WINDOW_VIRTIO).expect("it has fronts"));
    });
}

/// Changes how a guest maps a page.
fn page(image: &mut Editor, partition: usize, input: u64, change: impl FnOnce(u64) -> u64) {
    let root = image.guest_root(partition);
    image.change(root, input, change);
}

#[rustfmt::skip]
pub(crate) const FRONT_MUTANTS: &[Mutant] = &[
    ("pool in three partitions", Code::FrontMemory, |image| {
        let pool = image.at(AreaKind::FrontPool(OFFICE));
        image.add_guest_page(SERVER, pool, SHARED_READ | GUEST_WRITE);
    }),
    ("pool that a third partition reads", Code::FrontMemory, |image| {
        let pool = image.at(AreaKind::FrontPool(OFFICE));
        image.add_guest_page(SERVER, pool + PAGE, SHARED_READ);
    }),
    ("device page that a third partition reads", Code::FrontMemory, |image| {
        let page = image.at(AreaKind::DevicePage(0));
        image.add_guest_page(LAB, page, SHARED_READ);
    }),
    ("a page of the pool that a third partition may write as well", Code::TwoWriters, |image| {
        let pool = image.at(AreaKind::FrontPool(OFFICE));
        image.add_guest_page(SERVER, pool, SHARED_READ | GUEST_WRITE);
    }),
    ("pool twice at its back end", Code::FrontMemory, |image| {
        let pool = image.at(AreaKind::FrontPool(LAB));
        image.add_guest_page(SERVER, pool, SHARED_READ | GUEST_WRITE);
    }),
    ("pool cached at its back end", Code::FrontMemory, |image| page(image, LINUX, DISK + PAGE, |entry| entry | WRITE_BACK)),
    ("device page cached at its front", Code::FrontMemory, |image| page(image, OFFICE, DEVICE_PAGE, |entry| entry | WRITE_BACK)),
    ("pool executed at its front", Code::FrontMemory, |image| {
        let root = image.guest_root(OFFICE);
        let entry = image.entry(root, POOL, 2);
        assert_eq!(entry & 3, 1, "a block");
        image.set(root, POOL, 2, entry & !XN);
    }),
    ("device page executed at its back end", Code::FrontMemory, |image| page(image, LINUX, DISK, |entry| entry & !XN)),
    ("device page that its front cannot write", Code::FrontMemory, |image| page(image, OFFICE, DEVICE_PAGE, |entry| entry & !GUEST_WRITE)),
    ("a page of the pool left out at the back end", Code::FrontMemory, |image| page(image, SERVER, STORE + 2 * PAGE, |_| 0)),
    ("pages of two devices exchanged at their front", Code::FrontMemory, |image| {
        let [disk, net] = [0, 1].map(|device| image.at(AreaKind::DevicePage(device)));
        page(image, OFFICE, DEVICE_PAGE, |entry| entry - disk + net);
        page(image, OFFICE, DEVICE_PAGE + 2 * PAGE, |entry| entry - net + disk);
    }),
    ("pages of two pools exchanged at the back end", Code::FrontMemory, |image| {
        let pool = image.at(AreaKind::FrontPool(OFFICE));
        page(image, SERVER, STORE + PAGE, |entry| entry & !0x0000_ffff_ffff_f000 | pool);
    }),
    ("device page at the trapped half", Code::WindowMapped, |image| {
        let root = image.guest_root(OFFICE);
        let entry = image.entry(root, DEVICE_PAGE, 3);
        image.set(root, DEVICE_PAGE, 3, 0);
        image.set(root, DEVICE_PAGE - PAGE, 3, entry);
    }),
    ("trapped half at the device page", Code::Window, |image| window(image, |window| window.guest.0 += PAGE)),
    ("more of the frame that traps", Code::Window, |image| window(image, |window| window.bytes += 4)),
    ("a frame of another device", Code::Window, |image| window(image, |window| window.index = 1)),

    ("a front that no plan counts", Code::DevicePlan, |image| devices(image, OFFICE, |plan| plan.front_count -= 1)),
    ("a front behind the count", Code::DevicePlan, |image| devices(image, LAB, |plan| plan.fronts[1] = plan.fronts[0])),
    ("a restart that its back end may hold up", Code::DevicePlan, |image| devices(image, LAB, |plan| plan.leave_ticks *= 2)),
    ("a restart that waits for nobody", Code::DevicePlan, |image| devices(image, LAB, |plan| plan.leave_ticks = 0)),
    ("a restart that clears no pool", Code::DevicePlan, |image| devices(image, LAB, |plan| (plan.pool.0, plan.pool_bytes) = (0, 0))),
    ("a script without a function", Code::DeviceScript, |image| devices(image, LAB, |plan| {
        plan.quiesce[0] = bulkhead_abi::devices::Step {
            operation: bulkhead_abi::devices::STEP_WRITE, width: 4, address: bulkhead_abi::PhysicalAddress(0x0800_0000), ..Default::default()
        };
        plan.step_count = 1;
    })),
    ("a restart that clears half of the pool", Code::FrontPair, |image| devices(image, LAB, |plan| plan.pool_bytes /= 2)),
    ("a restart that clears RAM of another one", Code::RamPlace, |image| {
        let ram = image.at(AreaKind::Ram(OFFICE));
        devices(image, LAB, |plan| plan.pool.0 = ram);
    }),
    ("a restart that writes to the monitor", Code::AreaPlace, |image| {
        let header = image.at(AreaKind::Header);
        front(image, LAB, |front| front.page.0 = header);
    }),
    ("two fronts with one page", Code::FrontPair, |image| {
        devices(image, OFFICE, |plan| plan.fronts[1].page = plan.fronts[0].page);
    }),
    ("a front without a back end", Code::FrontPair, |image| {
        let guard = image.at(AreaKind::DevicePage(2)) + PAGE;
        front(image, LAB, |front| front.page.0 = guard);
    }),
    ("a second back end in another partition", Code::FrontPair, |image| {
        let net = image.at(AreaKind::DevicePage(1));
        page(image, SERVER, STORE, |entry| entry & !0x0000_ffff_ffff_f000 | net);
    }),
    ("a disk that is served as a network card", Code::FrontPair, |image| {
        image.information(SERVER, |information| information.ports[0].kind = PORT_NET);
    }),
    ("a pool of another size at its back end", Code::Information, |image| {
        image.information(SERVER, |information| information.ports[0].slots -= 1);
    }),
    ("a back end that is a destination", Code::Information, |image| {
        image.information(SERVER, |information| information.ports[0].direction = DIRECTION_DESTINATION);
    }),

    ("a device that nobody serves", Code::FrontRegisters, |image| front(image, LAB, |front| front.plan.device = 4)),
    ("indirect descriptors", Code::FrontRegisters, |image| front(image, LAB, |front| front.plan.features |= 1 << 28)),
    ("a network card's features on a disk", Code::FrontRegisters, |image| front(image, LAB, |front| front.plan.features = NET_MAC)),
    ("a disk of no sectors", Code::FrontRegisters, |image| front(image, LAB, |front| front.configuration[0] = 0)),
    ("more pieces than a queue holds", Code::FrontRegisters, |image| front(image, LAB, |front| front.configuration[3] = 256)),
    ("a group's address", Code::FrontRegisters, |image| devices(image, OFFICE, |plan| plan.fronts[1].configuration[0] |= 1)),

    ("notifications of another device", Code::FrontDoorbells, |image| front(image, OFFICE, |front| front.plan.doorbell = 1)),
    ("notifications that ring nobody", Code::FrontDoorbells, |image| front(image, OFFICE, |front| front.plan.doorbell = 7)),
    ("a back end that interrupts a third partition", Code::FrontDoorbells, |image| {
        image.partition(SERVER, |plan| plan.doorbells[0].peer = OFFICE as u32);
    }),
    ("notifications to a third partition", Code::FrontDoorbells, |image| {
        image.partition(LAB, |plan| plan.doorbells[0].peer = OFFICE as u32);
    }),
    ("a back end that waits for what it does not own", Code::DoorbellTarget, |image| {
        image.information(SERVER, |information| information.ports[0].interrupt += 1);
    }),

    ("the pool in the monitor of its back end", Code::ForeignPartition, |image| {
        let root = image.el2_root(2);
        let (words, page) = (image.at(AreaKind::Interrupts(2)), image.at(AreaKind::DevicePage(2)));
        image.change(root, words, |_| page | EL2_DATA_PAGE);
    }),
    ("a device page cached by the monitor", Code::MemoryType, |image| {
        let (root, page) = (image.el2_root(3), image.at(AreaKind::DevicePage(2)));
        image.change(root, page, |entry| entry & !(7 << 2) | EL2_DATA_PAGE);
    }),
    ("a device page that the monitor cannot clear", Code::El2Rights, |image| {
        let (root, page) = (image.el2_root(3), image.at(AreaKind::DevicePage(2)));
        image.change(root, page, |entry| entry | READ_ONLY);
    }),
];

#[test]
fn an_image_with_fronts_is_accepted() {
    let verdict = verify(edit(&samples::virtio()));
    assert_eq!(verdict.findings, []);
    assert_eq!((verdict.extent.virtio_devices, verdict.extent.channels), (3, 1));
}

#[test]
fn every_change_of_fronts_is_refused_with_its_code() {
    let base = edit(&samples::virtio());
    let complaints = FRONT_MUTANTS.iter().filter_map(|(what, code, change)| {
        let mut image = base.clone();
        change(&mut image);
        let verdict = verify(image);
        let reported: Vec<&str> = verdict.findings.iter().map(|finding| finding.code.name()).collect();
        (!verdict.has(*code)).then(|| format!("{what}: expected {}, reported {reported:?}", code.name()))
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
    assert!(FRONT_MUTANTS.len() >= 10, "at least 10 are promised");
}

/// Both at once: a front that has functions of its own, and a back end that has some.
#[test]
fn an_image_with_functions_and_fronts_is_accepted() {
    let mut system = samples::functions();
    system.partitions[2].memory_bytes = 64 << 20;
    let disk = bulkhead_plan::model::VirtioKind::Block { bytes: 1 << 20, is_read_only: true };
    system.virtio = vec![samples::virtio_device("shared", disk, (2, 1))];
    let verdict = verify(edit(&system));
    assert_eq!(verdict.findings, []);
    let office = verdict.reaches.iter().find(|one| one.partition == "office").expect("it has a function");
    assert_eq!(office.bytes, 64 << 20, "RAM alone: no function reaches the pool");
}

/// One changed bit anywhere in what a plan says of fronts is refused, or says nothing that isolation rests on.
#[test]
fn changed_bits_of_fronts_are_refused_or_harmless() {
    let base = edit(&samples::virtio());
    let (seed, mut random, cases) = seeded(50, 300);
    let mut accepted = Vec::new();
    for _ in 0..cases {
        let partition = if random.next_u64() & 1 == 0 { OFFICE } else { LAB };
        // All of the head, with the fronts; steps and functions are zero, of which a few are tried.
        let offset = (random.next_u64() % offset_of!(DevicePlan, quiesce) as u64) as usize;
        let bit = 1 << (random.next_u64() & 7);
        let within = offset.checked_sub(offset_of!(DevicePlan, fronts));
        let (place, byte) = within.map_or((9, 0), |at| (at / size_of::<DeviceFront>(), at % size_of::<DeviceFront>()));
        let is_net = partition == OFFICE && place == 1;
        let is_used = place < if partition == OFFICE { 2 } else { 1 };
        let configuration = byte.checked_sub(offset_of!(DeviceFront, configuration));
        let features = byte.checked_sub(offset_of!(DeviceFront, plan)).and_then(|at| at.checked_sub(4));
        let harmless = is_used
            && match (configuration, features) {
                // Another address of a single card; another size of a disk.
                (Some(at), _) if is_net => at < 6 && (at, bit) != (0, 1),
                (Some(at), _) => at < 8,
                // Read-only or not.
                (None, Some(0)) => !is_net && bit == 1 << 5,
                _ => false,
            };
        let mut image = base.clone();
        let address = image.at(AreaKind::DevicePlan(partition)) + offset as u64;
        image.slice(address)[0] ^= bit;
        if !harmless && verify(image).is_accepted() {
            accepted.push(format!("partition {partition} + {offset:#x} (front {place}, byte {byte}), bit {bit:#x}"));
        }
    }
    assert_eq!(accepted, Vec::<String>::new(), "with seed {seed}");
}

/// The pool of a partition would be in three.
#[test]
fn two_back_partitions_of_one_front_are_named() {
    let mut image = edit(&samples::virtio());
    let store = image.at(AreaKind::DevicePage(2));
    devices(&mut image, OFFICE, |plan| plan.fronts[1].page.0 = store);
    let verdict = verify(image);
    let mut pairs = verdict.findings.iter().filter(|finding| finding.code == Code::FrontPair);
    assert!(pairs.any(|one| one.message.contains("two partitions serve")), "{:?}", verdict.findings);
}
