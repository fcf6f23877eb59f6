//! Channels: each is two ends that agree, one source and one destination, with the peer's status page between them.

use crate::area::{Maps, overlap};
use crate::code::Code;
use crate::finding::Findings;
use crate::fronts::{self, Back};
use crate::image::{Contents, PAGE, Partition, View, in_plan};
use crate::walk::Map;
use crate::world::layout::{MOST_BLOCK_BYTES, MOST_BLOCKS, POOL_RING_WORDS};
use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::plan::{
    INTERRUPT_DOORBELL, InterruptPlan, PCI_IVSHMEM, PciFunction, WINDOW_GICD, WINDOW_GICR, WINDOW_UART,
};
use bulkhead_abi::{ABI_VERSION, GuestAddress, Name, Part, PhysicalAddress};
use bulkhead_guest_abi::channel::{
    CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET, PORT_POOL, PORT_QUEUING, PORT_SAMPLING,
    writer_bytes,
};
use bulkhead_guest_abi::guest::{
    DIRECTION_DESTINATION, DIRECTION_SOURCE, GUEST_CONSOLE, GUEST_INFORMATION, GUEST_MAGIC, GuestInformation, MAX_PORTS,
};
use bulkhead_guest_abi::name_text;
use std::ops::Range;

/// One end of a channel as its partition's stage 2 shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) partition: usize,
    pub(crate) is_source: bool,
    /// First guest address of the window.
    pub(crate) window: u64,
    /// Physical page of the peer's status.
    pub(crate) status: u64,
    /// Physical page of the destination.
    pub(crate) reader: u64,
    /// Physical pages of the source.
    pub(crate) writer: Range<u64>,
    /// Source: INTID that its doorbell raises. Destination: INTID that it waits for. 0 without doorbell.
    pub(crate) interrupt: u32,
    /// Source: partition that its doorbell reaches.
    pub(crate) rings: Option<u32>,
    /// Kind, message bytes and slots.
    pub(crate) shape: (u32, u32, u32),
}

/// The end of a channel to the payload of the secure world as its partition's stage 2 shows it. The other end is in the world plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) partition: usize,
    pub(crate) name: Name,
    pub(crate) is_source: bool,
    /// First guest address of the window.
    pub(crate) window: u64,
    /// Physical pages of the pool.
    pub(crate) pages: Range<u64>,
    /// INTID that tells of a message, or 0.
    pub(crate) interrupt: u32,
    /// Blocks, and bytes of a block.
    pub(crate) shape: (u32, u32),
}

/// The ends of all partitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// Of channels between partitions.
    pub(crate) channels: Vec<End>,
    /// Of channels to the payload.
    pub(crate) pools: Vec<Pool>,
    /// Of virtio devices, those that serve them.
    pub(crate) backs: Vec<Back>,
}

/// Finds each partition's information page through its stage 2.
pub(crate) fn information_pages(view: &View<'_>, contents: &Contents, maps: &mut Maps, findings: &mut Findings) {
    for partition in &contents.partitions {
        let page = maps.guests.get(partition.index).and_then(|map| map.translate(GUEST_INFORMATION.0));
        let has_pci = partition.plan.pci_count > 0;
        findings.require(page.is_some() || has_pci, Code::Information, || {
            format!("partition \"{}\" has neither an information page nor a PCI bus", partition.name())
        });
        let good = page.is_none_or(|page| {
            in_plan(view, PhysicalAddress(page))
                && read(view, page).is_some_and(|information| information.partition as usize == partition.index)
        });
        findings.require(good, Code::Information, || {
            format!(
                "partition \"{}\" sees {:#x} at {GUEST_INFORMATION}, which is no information page for it",
                partition.name(),
                page.unwrap_or(0)
            )
        });
        maps.information.push(page.filter(|_| good));
    }
}

/// Reads an information page.
fn read(view: &View<'_>, page: u64) -> Option<GuestInformation> {
    view.read::<GuestInformation>(PhysicalAddress(page))
        .filter(|information| information.magic == GUEST_MAGIC && information.abi_version == ABI_VERSION)
}

/// Collects the ends of all partitions.
pub(crate) fn ends(view: &View<'_>, contents: &Contents, maps: &Maps, findings: &mut Findings) -> Ends {
    let mut ends = Ends::default();
    for partition in &contents.partitions {
        let Some(map) = maps.guests.get(partition.index) else { continue };
        let page = maps.information.get(partition.index).copied().flatten();
        if let Some(information) = page.and_then(|page| read(view, page)) {
            check_information(view, partition, &information, findings);
            for port in information.ports.iter().take((information.port_count as usize).min(MAX_PORTS)) {
                ends.add(view, partition, port, map, findings);
            }
        }
        for (index, function) in partition.plan.pci().iter().enumerate() {
            let port = partition.plan.ports.get(index).copied().unwrap_or_default();
            check_function_port(partition, index, function, &port, findings);
            if function.kind == PCI_IVSHMEM {
                ends.add(view, partition, &port, map, findings);
            }
        }
    }
    ends
}

impl Ends {
    fn add(
        &mut self,
        view: &View<'_>,
        partition: &Partition,
        port: &PortInformation,
        map: &Map,
        findings: &mut Findings,
    ) {
        if fronts::is_back(port) {
            self.backs.extend(fronts::back(view, partition, port, map, findings));
        } else if port.kind == PORT_POOL {
            self.pools.extend(pool(view, partition, port, map, findings));
        } else {
            self.channels.extend(end(partition, port, map, findings));
        }
    }
}

/// Bytes of a pool in whole pages; `None` for a shape that none has.
pub(crate) fn pool_bytes(blocks: u32, block_bytes: u32) -> Option<u64> {
    if !(1..=MOST_BLOCKS).contains(&blocks) || !(1..=MOST_BLOCK_BYTES).contains(&block_bytes) {
        return None;
    }
    let rings = 2 * u64::from(blocks.next_power_of_two());
    let words = POOL_RING_WORDS + rings + u64::from(blocks) * u64::from(block_bytes).div_ceil(8);
    Some((8 * words).next_multiple_of(PAGE))
}

/// Follows the end of a channel to the payload through stage 2.
fn pool(
    view: &View<'_>,
    partition: &Partition,
    port: &PortInformation,
    map: &Map,
    findings: &mut Findings,
) -> Option<Pool> {
    let place = || format!("port \"{}\" of partition \"{}\"", name_text(&port.name), partition.name());
    let is_source = port.direction == DIRECTION_SOURCE;
    let possible = view.header.part == Part::Hybrid as u32
        && (is_source || port.direction == DIRECTION_DESTINATION)
        && pool_bytes(port.slots, port.message_bytes) == Some(port.window_bytes)
        && port.doorbell == u32::MAX;
    let possible = findings.require(possible, Code::Information, || {
        format!("{} has a direction, size or window that no pool has, or there is no payload", place())
    });
    let Some(start) = map.translate(port.window.0).filter(|_| possible) else {
        findings.require(!possible, Code::ChannelEnds, || format!("{}: its pool is not mapped", place()));
        return None;
    };
    let mut owned = partition.plan.interrupts().iter();
    let is_doorbell = |one: &InterruptPlan| one.intid == port.interrupt && one.kind == INTERRUPT_DOORBELL;
    let waits = port.interrupt == 0 || !is_source && owned.any(is_doorbell);
    findings.require(waits, Code::DoorbellTarget, || {
        format!("{} waits for interrupt {}, which is not its doorbell", place(), port.interrupt)
    });
    Some(Pool {
        partition: partition.index,
        name: port.name,
        is_source,
        window: port.window.0,
        pages: start..start.saturating_add(port.window_bytes),
        interrupt: port.interrupt,
        shape: (port.slots, port.message_bytes),
    })
}

/// Checks that no two channels to the payload are one pool.
pub(crate) fn check_pools(pools: &[Pool], findings: &mut Findings) {
    for (place, pool) in pools.iter().enumerate() {
        let mut others = pools.iter().take(place);
        let is_apart = others.all(|other| {
            !overlap(&pool.pages, &other.pages) && (pool.interrupt == 0 || pool.interrupt != other.interrupt)
        });
        findings.require(is_apart, Code::ChannelEnds, || {
            format!(
                "the pool at {:#x} of partition {} or its interrupt is that of another channel",
                pool.window, pool.partition
            )
        });
    }
}

/// Checks that a PCI function and the description of its port are of one channel end.
fn check_function_port(
    partition: &Partition,
    index: usize,
    function: &PciFunction,
    port: &PortInformation,
    findings: &mut Findings,
) {
    let same = match function.kind {
        PCI_IVSHMEM => {
            function.memory == port.window
                && port.window_bytes.checked_next_power_of_two() == Some(function.memory_bytes)
                && (function.position == 0) == (port.direction == DIRECTION_SOURCE)
                && function.doorbell == port.doorbell
                && function.interrupt == port.interrupt
        }
        _ => *port == PortInformation::default(),
    };
    findings.require(same, Code::PciFunction, || {
        format!("PCI function {index} of partition \"{}\" differs from the port behind it", partition.name())
    });
}

/// States whether a port has a direction, a kind and sizes that exist.
fn is_possible(port: &PortInformation) -> bool {
    matches!(port.kind, PORT_SAMPLING | PORT_QUEUING)
        && matches!(port.direction, DIRECTION_SOURCE | DIRECTION_DESTINATION)
        && (1..=4032).contains(&port.message_bytes)
        && (2..=65536).contains(&port.slots)
        && port.window_bytes == CHANNEL_WRITER_OFFSET + writer_bytes(port.message_bytes, port.slots)
}

/// Follows an end through stage 2.
fn end(partition: &Partition, port: &PortInformation, map: &Map, findings: &mut Findings) -> Option<End> {
    let place = || format!("port \"{}\" of partition \"{}\"", name_text(&port.name), partition.name());
    let possible = findings.require(is_possible(port), Code::Information, || {
        format!("{} has a direction, kind, size or window that does not fit", place())
    });
    if !possible {
        return None;
    }
    let is_source = port.direction == DIRECTION_SOURCE;
    let at = |offset: u64| map.translate(port.window.0.saturating_add(offset));
    let pages = (at(CHANNEL_STATUS_OFFSET), at(CHANNEL_READER_OFFSET), at(CHANNEL_WRITER_OFFSET));
    let (Some(status), Some(reader), Some(writer)) = pages else {
        findings.add(Code::ChannelEnds, format!("{}: its window at {} is not mapped", place(), port.window));
        return None;
    };
    let writer = writer..writer.saturating_add(port.window_bytes - CHANNEL_WRITER_OFFSET);
    let doorbell = partition.doorbells().nth(port.doorbell as usize);
    let known = port.doorbell == u32::MAX || doorbell.is_some() && is_source;
    findings.require(known, Code::DoorbellTarget, || {
        format!("{} names doorbell {}, which it does not have", place(), port.doorbell)
    });
    let owned = partition.plan.interrupts().iter();
    let is_doorbell = |one: &InterruptPlan| one.intid == port.interrupt && one.kind == INTERRUPT_DOORBELL;
    let waits = port.interrupt == 0 || !is_source && owned.clone().any(is_doorbell);
    findings.require(waits, Code::DoorbellTarget, || {
        format!("{} waits for interrupt {}, which is not its doorbell", place(), port.interrupt)
    });
    Some(End {
        partition: partition.index,
        is_source,
        window: port.window.0,
        status,
        reader,
        writer,
        interrupt: doorbell.map_or(port.interrupt, |doorbell| doorbell.intid),
        rings: doorbell.map(|doorbell| doorbell.peer),
        shape: (port.kind, port.message_bytes, port.slots),
    })
}

fn check_information(view: &View<'_>, partition: &Partition, information: &GuestInformation, findings: &mut Findings) {
    let (plan, header) = (&partition.plan, &view.header);
    let ram = plan.ram.first().copied().unwrap_or_default();
    let window =
        |kind| plan.windows.iter().find(|window| window.kind == kind).map_or(GuestAddress(0), |window| window.guest);
    let has_console = partition.entry.guest_console.0 != 0;
    let console = if has_console { (GUEST_CONSOLE, partition.entry.console_bytes) } else { (GuestAddress(0), 0) };
    let terminated = information.arguments.last() == Some(&0);
    let facts = [
        ("name", information.name == plan.name),
        ("counter frequency", information.counter_hz == header.counter_hz),
        ("distributor", information.gicd == window(WINDOW_GICD)),
        ("RAM", information.ram == ram.guest && information.ram_bytes == ram.bytes),
        ("number of vCPUs", information.vcpu_count == plan.vcpu_count),
        ("redistributor", information.gicr == window(WINDOW_GICR)),
        ("UART", information.uart == window(WINDOW_UART)),
        ("console ring", (information.console, information.console_bytes) == console),
        ("number of ports", information.port_count as usize <= MAX_PORTS),
        ("end of the arguments", terminated),
    ];
    for (what, _) in facts.iter().filter(|(_, good)| !good) {
        findings.add(
            Code::Information,
            format!("the information page of partition \"{}\" has a wrong {what}", partition.name()),
        );
    }
}

/// Checks that ends pair up and clear lists match what is written.
pub(crate) fn check(contents: &Contents, ends: &[End], findings: &mut Findings) {
    for end in ends {
        let same = |other: &&End| other.reader == end.reader || other.writer.start == end.writer.start;
        let partners: Vec<&End> = ends.iter().filter(|other| !std::ptr::eq(*other, end)).filter(same).collect();
        let pair = match partners[..] {
            [other]
                if other.is_source != end.is_source
                    && other.partition != end.partition
                    && other.reader == end.reader
                    && other.writer == end.writer
                    && other.shape == end.shape =>
            {
                Some(other)
            }
            _ => None,
        };
        let what = format!("the channel at {:#x} of partition {}", end.window, end.partition);
        let Some(other) = pair else {
            findings.add(
                Code::ChannelEnds,
                format!("{what} does not have exactly one source and one destination that agree on its pages"),
            );
            continue;
        };
        let status = contents.partitions.get(other.partition).map(|partition| partition.entry.status.0);
        findings.require(status == Some(end.status), Code::ChannelStatus, || {
            format!("{what} shows {:#x} as the peer's status, which is not partition {}'s", end.status, other.partition)
        });
        let rings = end.rings.is_none_or(|peer| peer as usize == other.partition);
        findings.require(rings && end.interrupt == other.interrupt, Code::DoorbellTarget, || {
            format!(
                "{what}: interrupt {} at this end, {} at the other end in partition {}",
                end.interrupt, other.interrupt, other.partition
            )
        });
    }
    for partition in &contents.partitions {
        check_clear(partition, ends, findings);
    }
}

fn check_clear(partition: &Partition, ends: &[End], findings: &mut Findings) {
    let mut written: Vec<Range<u64>> = ends
        .iter()
        .filter(|end| end.partition == partition.index)
        .map(|end| if end.is_source { end.writer.clone() } else { end.reader..end.reader.saturating_add(PAGE) })
        .collect();
    let clear = partition.plan.channel_clear().iter();
    let mut cleared: Vec<Range<u64>> =
        clear.map(|region| region.physical.0..region.physical.0.saturating_add(region.bytes)).collect();
    let same = merge(&mut written) == merge(&mut cleared);
    findings.require(same, Code::ChannelClear, || {
        format!(
            "a restart of partition \"{}\" would not clear exactly the channel pages that it writes",
            partition.name()
        )
    });
}

/// Sorts ranges and joins those that touch.
fn merge(ranges: &mut [Range<u64>]) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range.clone()),
        }
    }
    merged
}
