//! virtio between partitions: each device has one front and one back end, which share its device page and the front's pool with each
//! other and with nobody else, and whose doorbells lead to each other.
//!
//! The front says in its device plan where pages and pool are; its stage 2 shows them there, and the back end's in one window. That nobody
//! else maps them is the rule for every mapping (module `guest`): what is not expected is refused. Here is what is expected, and who may
//! write beside whom.

use crate::area::Use;
use crate::channel::Ends;
use crate::code::Code;
use crate::dma::Devices;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, Partition, View};
use crate::walk::Map;
use bulkhead_abi::devices::{DeviceFront, DevicePlan};
use bulkhead_abi::plan::{INTERRUPT_DOORBELL, InterruptPlan, PortInformation, WINDOW_VIRTIO};
use bulkhead_abi::virtio::{
    BLOCK_FLUSH, BLOCK_READ_ONLY, BLOCK_SEGMENTS, DEVICE_BLOCK, DEVICE_NET, FRAME_OFFSET, MAX_QUEUE_SIZE, NET_MAC,
    PAGE_REGISTER,
};
use bulkhead_abi::{Part, PhysicalAddress};
use bulkhead_guest_abi::channel::{PORT_BLOCK, PORT_NET};
use bulkhead_guest_abi::guest::{DIRECTION_SOURCE, GUEST_FRONT_STEP, GUEST_FRONTS, GUEST_POOL};
use bulkhead_guest_abi::name_text;
use std::ops::Range;

/// Largest window of a PCI function.
const MOST_WINDOW_BYTES: u64 = 16 << 20;

/// The back end of a device as its partition's stage 2 shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Back {
    pub(crate) partition: usize,
    /// First guest address of the window.
    pub(crate) window: u64,
    /// Physical page at its front.
    pub(crate) page: u64,
    /// Bytes of the pool behind it.
    pool_bytes: u64,
    /// [`DEVICE_NET`] or [`DEVICE_BLOCK`].
    device: u32,
    /// What its doorbell rings: partition and INTID.
    rings: Option<(u32, u32)>,
    /// INTID that it waits for.
    interrupt: u32,
    name: String,
}

/// A front and its back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) front: usize,
    pub(crate) back: usize,
    /// Guest address of the device page at the front.
    page_at_front: u64,
    /// First guest address of the window at the back end.
    window: u64,
    /// Physical device page and pool.
    page: u64,
    pool: Range<u64>,
}

/// Where registers that trap must be.
pub(crate) const fn registers(index: u64) -> u64 {
    GUEST_FRONTS.0 + index * GUEST_FRONT_STEP + FRAME_OFFSET
}

/// Follows the back end of a device through stage 2.
pub(crate) fn back(
    view: &View<'_>,
    partition: &Partition,
    port: &PortInformation,
    map: &Map,
    findings: &mut Findings,
) -> Option<Back> {
    let place = || format!("port \"{}\" of partition \"{}\"", name_text(&port.name), partition.name());
    let possible = view.header.part == Part::Devices as u32
        && port.direction == DIRECTION_SOURCE
        && port.message_bytes == 0
        && port.slots > 0
        && port.window_bytes == (u64::from(port.slots) + 1) * PAGE
        && port.window_bytes <= MOST_WINDOW_BYTES;
    findings.require(possible, Code::Information, || {
        format!("{} has a direction, size or window that no back end has, or the monitor serves no fronts", place())
    });
    let doorbell = partition.doorbells().nth(port.doorbell as usize);
    let is_own = |one: &InterruptPlan| one.intid == port.interrupt && one.kind == INTERRUPT_DOORBELL;
    let rung = doorbell.is_some() && partition.plan.interrupts().iter().any(is_own);
    findings.require(rung, Code::DoorbellTarget, || {
        format!("{} has no doorbell {}, or {} is not its own", place(), port.doorbell, port.interrupt)
    });
    let page = map.translate(port.window.0).filter(|_| possible);
    findings
        .require(page.is_some() || !possible, Code::FrontMemory, || format!("{}: its window is not mapped", place()));
    Some(Back {
        partition: partition.index,
        window: port.window.0,
        page: page?,
        pool_bytes: port.window_bytes - PAGE,
        device: if port.kind == PORT_NET { DEVICE_NET } else { DEVICE_BLOCK },
        rings: doorbell.map(|doorbell| (doorbell.peer, doorbell.intid)),
        interrupt: port.interrupt,
        name: place(),
    })
}

/// States whether a port is a back end's.
pub(crate) const fn is_back(port: &PortInformation) -> bool {
    matches!(port.kind, PORT_NET | PORT_BLOCK)
}

/// Memory of the monitor that belongs to fronts: start, bytes, use.
pub(crate) fn areas(devices: &Devices) -> Vec<(u64, u64, Use)> {
    let mut areas = Vec::new();
    for (partition, (_, plan)) in &devices.plans {
        areas.push((plan.pool.0, plan.pool_bytes, Use::FrontPool(*partition)));
        areas.extend(plan.fronts().iter().map(|front| (front.page.0, PAGE, Use::DevicePage(*partition))));
    }
    areas
}

/// States whether a plan says of fronts what one can say, and nothing where there is none.
pub(crate) fn is_sound(plan: &DevicePlan, partition: &Partition, counter_hz: u64) -> bool {
    let count = plan.front_count as usize;
    let windows = partition.plan.windows().iter().filter(|window| window.kind == WINDOW_VIRTIO).count();
    let rest = plan.fronts.get(count..).is_some_and(|rest| rest.iter().all(|front| *front == DeviceFront::default()));
    let numbers = match count {
        0 => (plan.pool.0, plan.pool_bytes, plan.leave_ticks) == (0, 0, 0),
        // Longer, a back end could hold up the restart of a front.
        _ => plan.pool.0 != 0 && plan.pool_bytes != 0 && plan.leave_ticks == counter_hz.div_ceil(10),
    };
    rest && windows == count && numbers && (plan.pool.0 | plan.pool_bytes).is_multiple_of(PAGE)
}

/// What the trapped registers answer, and what a restart writes, is one of the two devices that the back ends serve.
fn is_a_device(front: &DeviceFront) -> bool {
    let [first, second, third, fourth] = front.configuration;
    let good = match front.plan.device {
        DEVICE_NET => front.plan.features == NET_MAC && first & 1 == 0 && (second >> 16, third, fourth) == (0, 0, 0),
        DEVICE_BLOCK => {
            let features = front.plan.features & !BLOCK_READ_ONLY;
            let segments = u32::from(MAX_QUEUE_SIZE) - 2;
            features == BLOCK_SEGMENTS | BLOCK_FLUSH && (first | second) != 0 && (third, fourth) == (0, segments)
        }
        _ => false,
    };
    good && front.plan.padding == 0
}

/// Finds the back end of each front, and judges what is between them.
pub(crate) fn check(contents: &Contents, devices: &Devices, ends: &Ends, findings: &mut Findings) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut used: Vec<u64> = Vec::new();
    for (index, (_, plan)) in &devices.plans {
        let Some(partition) = contents.partitions.get(*index) else { continue };
        let mut backs = Vec::new();
        for (place, front) in plan.fronts().iter().enumerate() {
            let name = format!("front {place} of partition \"{}\"", partition.name());
            findings.require(is_a_device(front), Code::FrontRegisters, || {
                format!("{name} is a device, or has features or a configuration, that no back end serves")
            });
            let again = used.contains(&front.page.0);
            used.push(front.page.0);
            let mut found = ends.backs.iter().filter(|back| back.page == front.page.0);
            let (Some(back), None, false) = (found.next(), found.next(), again) else {
                findings.add(Code::FrontPair, format!("{name} has no back end, several, or that of another front"));
                continue;
            };
            backs.push(back.partition);
            let agree =
                back.partition != *index && back.device == front.plan.device && back.pool_bytes == plan.pool_bytes;
            findings.require(agree, Code::FrontPair, || {
                format!(
                    "{name} and {} are one partition, or differ about the device or the size of the pool",
                    back.name
                )
            });
            check_doorbells(partition, front, back, &name, findings);
            pairs.push(Pair {
                front: *index,
                back: back.partition,
                page_at_front: registers(place as u64) + u64::from(PAGE_REGISTER),
                window: back.window,
                page: front.page.0,
                pool: plan.pool.0..plan.pool.0.saturating_add(plan.pool_bytes),
            });
        }
        let one = backs.windows(2).all(|pair| matches!(pair, [first, second] if first == second));
        findings.require(one, Code::FrontPair, || {
            format!("two partitions serve fronts of partition \"{}\", which have one pool", partition.name())
        });
    }
    for back in ends.backs.iter().filter(|back| !used.contains(&back.page)) {
        findings.add(Code::FrontPair, format!("{} is the back end of no front", back.name));
    }
    pairs
}

/// A notification interrupts the back end, and what that rings the front.
fn check_doorbells(partition: &Partition, front: &DeviceFront, back: &Back, name: &str, findings: &mut Findings) {
    let notification = partition.doorbells().nth(front.plan.doorbell as usize);
    let reaches = notification.is_some_and(|one| (one.peer as usize, one.intid) == (back.partition, back.interrupt));
    let answers = back.rings.is_some_and(|(peer, _)| peer as usize == partition.index);
    findings.require(reaches && answers, Code::FrontDoorbells, || {
        format!("the doorbells of {name} and of {} do not lead to each other", back.name)
    });
}

/// What a partition must see of a pair.
pub(crate) fn expected(pair: &Pair, partition: usize) -> Vec<(u64, u64, u64)> {
    let pool_bytes = pair.pool.end - pair.pool.start;
    let mut expected = Vec::new();
    if pair.front == partition {
        expected.push((pair.page_at_front, pair.page, PAGE));
        expected.push((GUEST_POOL.0, pair.pool.start, pool_bytes));
    }
    if pair.back == partition {
        expected.push((pair.window, pair.page, PAGE));
        expected.push((pair.window.saturating_add(PAGE), pair.pool.start, pool_bytes));
    }
    expected
}

/// States whether pages are those of a pair of these two partitions: the one exception to "no page has two writers".
pub(crate) fn may_both_write(pairs: &[Pair], page: PhysicalAddress, first: usize, second: usize) -> bool {
    pairs.iter().any(|pair| {
        let ends = [pair.front, pair.back];
        let is_shared = pair.pool.contains(&page.0) || (pair.page..pair.page.saturating_add(PAGE)).contains(&page.0);
        is_shared && (ends == [first, second] || ends == [second, first])
    })
}
