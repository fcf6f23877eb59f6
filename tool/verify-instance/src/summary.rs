//! What an instance consists of, as its bytes say: for reports, once it was examined.

use crate::finding::Findings;
use crate::walk::{Map, walk};
use crate::wires::exports;
use crate::{Expected, PAGE, open};
use bulkhead_kernel_abi::Kind;
use bulkhead_kernel_abi::boot::{DeviceRow, ProgramRow, QuotaRow, SegmentRow, Tables};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::{COMPONENT_DMA, MAGIC};

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// By number.
    pub components: Vec<Component>,
    /// Pages of the kernel's own memory.
    pub kernel_pages: u64,
    /// Pages of translation tables.
    pub table_pages: usize,
    /// Interrupts that are bound, but for the kernel's second timer.
    pub interrupts: Vec<u32>,
    /// Wires, by number.
    pub wires: Vec<Wire>,
    /// Bytes of the pool, which nobody has at boot.
    pub pool_bytes: u64,
    /// Programs of processes, by number.
    pub programs: Vec<Program>,
}

/// A program of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Bytes of the pool that a process of it takes at its start: stack, what it may write, and translation tables.
    pub start_bytes: u64,
    /// Bytes of its first thread's stack.
    pub stack_bytes: u64,
    /// Its segments; what can be written is copied for each process.
    pub segments: Vec<Page>,
}

/// What a component may make at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of the pool.
    pub bytes: u64,
    /// Processes.
    pub components: u16,
    /// Threads.
    pub threads: u16,
    /// Regions of memory.
    pub regions: u16,
}

/// This instance's end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Address of the channel's window; 0 of one that only rings.
    pub window: u64,
    /// It is written here.
    pub is_source: bool,
    /// Of one that is written: what the partition's doorbell is called by.
    pub doorbell: u32,
    /// Of one that is taken from: INTID of the doorbell.
    pub intid: u32,
    /// Bits that can be sent, by index.
    pub exports: Vec<u64>,
}

/// A component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// What it maps, joined where rights and places follow each other.
    pub pages: Vec<Page>,
    /// Its slots that are not empty: number, and what the capability is.
    pub slots: Vec<(usize, String)>,
    /// Numbers of components that it can call, each once.
    pub calls: Vec<u16>,
    /// Numbers of components whose end points it can send to, each once.
    pub sends: Vec<u16>,
    /// Stacks for threads of others.
    pub stacks: u32,
    /// Functions that others can call.
    pub entries: u32,
    /// Threads whose home it is.
    pub threads: usize,
    /// Devices whose registers it has.
    pub devices: Vec<Device>,
    /// Its pages for DMA: address and bytes, zero without.
    pub dma: (u64, u64),
    /// Ends of channels that it has.
    pub ports: Vec<Port>,
    /// What it may make at run time, if anything.
    pub quota: Option<Quota>,
}

/// A port of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Address of the channel's window for the kernel.
    pub window: u64,
    /// Bytes of the window.
    pub bytes: u64,
    /// The component writes it.
    pub is_source: bool,
    /// Kind, payload bytes of a message, and slots.
    pub shape: (u32, u32, u32),
    /// Of one that is read: INTID of the doorbell, or 0.
    pub intid: u32,
    /// Of one that is written: what the partition's doorbell is called by.
    pub doorbell: Option<u32>,
}

/// A device of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Physical address of its registers.
    pub physical: u64,
    /// Bytes.
    pub bytes: u64,
    /// The component is trusted with all memory that the device reads and writes by itself.
    pub reaches_all: bool,
}

/// Pages of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// First address.
    pub address: u64,
    /// Physical.
    pub output: u64,
    /// Bytes.
    pub bytes: u64,
    /// They can be written.
    pub write: bool,
    /// They can be executed.
    pub execute: bool,
}

/// Reads an instance; `None` when it cannot be read at all. Whether it is sound is [`crate::verify`]'s matter.
#[must_use]
pub fn summary(bytes: &[u8]) -> Option<Summary> {
    let mut findings = Findings::default();
    let kernel_pages = bytes.chunks(PAGE as usize).position(|page| page.starts_with(&MAGIC.to_le_bytes()))? as u64;
    let view = open(bytes, &Expected { bytes: kernel_pages * PAGE, ..Expected::default() }, &mut findings)?;
    let mut table_pages = [view.head.kernel_root, view.head.boot_root]
        .map(|root| walk(&view, root, "", &mut findings).tables.len())
        .iter()
        .sum();
    let mut components = Vec::new();
    for (number, row) in view.tables.components.iter().enumerate() {
        let map = walk(&view, row.root, "", &mut findings);
        table_pages += map.tables.len();
        let slots = view.tables.slots(row).iter().enumerate().filter(|(_, slot)| slot.kind != 0);
        let reached = |kind: Kind| {
            let slots = view.tables.slots(row).iter().filter(|slot| slot.kind() == Some(kind));
            let mut reached: Vec<u16> =
                slots.filter_map(|slot| component_of(kind, slot.object, &view.tables)).collect();
            reached.sort_unstable();
            reached.dedup();
            reached
        };
        components.push(Component {
            name: name_of(&row.name),
            pages: pages(&map),
            slots: slots.map(|(slot, capability)| (slot, words(capability, &view.tables))).collect(),
            calls: reached(Kind::Call),
            sends: reached(Kind::Send),
            stacks: row.stacks,
            entries: row.entries,
            devices: devices(&view.tables, number),
            dma: dma(&view.tables, number),
            ports: ports(&view.tables, number),
            quota: quota(&view.tables, number),
            threads: view.tables.threads.iter().filter(|thread| usize::from(thread.component) == number).count(),
        });
    }
    let intids = view.tables.bindings.iter().filter(|row| row.period_ticks == 0).map(|row| row.intid);
    let wires = view.tables.wires.iter().map(|row| Wire {
        window: row.window,
        is_source: row.source == 1,
        doorbell: row.doorbell,
        intid: row.intid,
        exports: exports(row, &view.tables).iter().map(|export| export.bits).collect(),
    });
    Some(Summary {
        components,
        kernel_pages,
        table_pages,
        interrupts: intids.collect(),
        wires: wires.collect(),
        pool_bytes: u64::from(view.tables.header.pool_pages) * PAGE,
        programs: programs(&view.tables),
    })
}

fn programs(tables: &Tables<'_>) -> Vec<Program> {
    let one = |row: &ProgramRow| {
        let own = tables.segments.iter().skip(row.first_segment as usize).take(row.segments as usize);
        let has = |segment: &SegmentRow, bit: u8| segment.rights & u32::from(bit) != 0;
        let segments = own.map(|segment| Page {
            address: segment.address,
            output: segment.physical,
            bytes: u64::from(segment.pages) * PAGE,
            write: has(segment, right::WRITE),
            execute: has(segment, right::EXECUTE),
        });
        Program {
            name: name_of(&row.name),
            start_bytes: u64::from(row.pages) * PAGE,
            stack_bytes: u64::from(row.stack_pages) * PAGE,
            segments: segments.collect(),
        }
    };
    tables.programs.iter().map(one).collect()
}

fn quota(tables: &Tables<'_>, component: usize) -> Option<Quota> {
    let row = tables.quotas.iter().find(|row| usize::from(row.component) == component)?;
    let QuotaRow { pages, components, threads, regions, .. } = *row;
    Some(Quota { bytes: u64::from(pages) * PAGE, components, threads, regions })
}

/// Its pages for DMA: address and bytes, zero without.
fn dma(tables: &Tables<'_>, component: usize) -> (u64, u64) {
    let is_its = |row: &&DeviceRow| usize::from(row.component) == component && row.address == COMPONENT_DMA;
    tables.devices.iter().find(is_its).map_or((0, 0), |row| (row.physical, u64::from(row.pages) * PAGE))
}

/// The ports of a component.
fn ports(tables: &Tables<'_>, component: usize) -> Vec<Port> {
    let own = tables.ports.iter().filter(|row| usize::from(row.component) == component);
    own.map(|row| Port {
        name: name_of(&row.name),
        window: row.physical,
        bytes: u64::from(row.pages) * PAGE,
        is_source: row.source == 1,
        shape: (row.kind.into(), row.message_bytes, row.slots),
        intid: row.intid,
        doorbell: tables.wires.get(usize::from(row.wire)).map(|wire| wire.doorbell),
    })
    .collect()
}

/// The devices of a component.
fn devices(tables: &Tables<'_>, component: usize) -> Vec<Device> {
    let own =
        tables.devices.iter().filter(|row| usize::from(row.component) == component && row.address != COMPONENT_DMA);
    own.map(|row| Device {
        name: name_of(&row.name),
        physical: row.physical,
        bytes: u64::from(row.pages) * PAGE,
        reaches_all: row.reaches_all != 0,
    })
    .collect()
}

/// Whose the object of a capability is.
fn component_of(kind: Kind, object: u16, tables: &Tables<'_>) -> Option<u16> {
    match kind {
        Kind::Call => Some(object),
        Kind::Send => tables.end_points.get(usize::from(object)).map(|row| row.component),
        _ => None,
    }
}

fn name_of(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// What a capability is, for people.
fn words(capability: &bulkhead_kernel_abi::Capability, tables: &Tables<'_>) -> String {
    let name =
        |number: u16| tables.components.get(usize::from(number)).map_or_else(String::new, |row| name_of(&row.name));
    let object = capability.object;
    match capability.kind() {
        Some(Kind::Call) => format!("calls entry {} of {}", capability.entry(), name(object)),
        Some(Kind::Send) => {
            let owner = component_of(Kind::Send, object, tables).map(name).unwrap_or_default();
            format!("sends {:#x} to end point {object} of {owner}", capability.word)
        }
        Some(Kind::RemoteSend) if tables.wires.get(usize::from(object)).is_some_and(|wire| wire.window == 0) => {
            let port = tables.ports.iter().find(|row| row.wire == object);
            format!("rings for port {}", port.map_or_else(String::new, |row| name_of(&row.name)))
        }
        Some(Kind::RemoteSend) => {
            format!("sends {:#x} to export {} of wire {object}", capability.token(), capability.entry())
        }
        Some(Kind::Receive) => format!("takes from end point {object}"),
        Some(Kind::Component) => format!("begins {} again", name(object)),
        Some(Kind::Interrupt) => {
            let intid = tables.bindings.get(usize::from(object)).map_or(0, |row| row.intid);
            format!("handles interrupt {intid}")
        }
        Some(kind) => format!("{} {object}", kind.name()),
        None => format!("of kind {}, which is none", capability.kind),
    }
}

/// Pages that follow each other with the same rights, as one.
fn pages(map: &Map) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    for (address, mapping) in &map.mappings {
        let (write, execute, output) = (mapping.write, mapping.execute_el0, mapping.output);
        let follows = |last: &Page| {
            last.address + last.bytes == *address
                && last.output + last.bytes == output
                && (last.write, last.execute) == (write, execute)
        };
        match pages.last_mut().filter(|last| follows(last)) {
            Some(last) => last.bytes += mapping.bytes,
            None => pages.push(Page { address: *address, output, bytes: mapping.bytes, write, execute }),
        }
    }
    pages
}
