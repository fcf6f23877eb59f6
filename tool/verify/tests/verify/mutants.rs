//! Single corruptions of a good image, each refused with its own code (QV-1, QV-2, QV-7, QV-50).
//!
//! Checksums are made right again after each change, so that it is the rule that catches it and not the checksum. Partitions of the sample: 0
//! control (direct, native), 1 rtos (native), 2 linux (PCI, manages, cores 2 and 3, device rtc), 3 intruder (native).

use crate::board::BOARD_MUTANTS;
use crate::fronts::FRONT_MUTANTS;
use crate::functions::FUNCTION_MUTANTS;
use crate::shared::SHARED_MUTANTS;
use crate::support::*;
use bulkhead_abi::plan::{INTERRUPT_DEVICE, POLICY_RESTART};
use bulkhead_abi::{GuestAddress, Part};
use bulkhead_guest_abi::guest::GUEST_CHANNELS;

use bulkhead_plan::AreaKind;
use bulkhead_verify::Code;
use std::collections::BTreeSet;

/// As [`Mutant`], for the file as a whole.
type FileMutant = (&'static str, Code, fn(&mut Vec<u8>));

/// What is broken, the code that must be reported, how.
pub(crate) type Mutant = (&'static str, Code, fn(&mut Editor));

const GUEST_RAM: u64 = 0x4000_0000;
const PAGE: u64 = 4096;

#[rustfmt::skip]
const PLAN_MUTANTS: &[Mutant] = &[
    ("counters not on a page", Code::AreaPlace, |image| {
        image.header.cores[1].counters.0 += 8;
        image.core(1, |plan| plan.counters.0 += 8);
    }),
    ("trace ring of no power of two", Code::PlanValue, |image| {
        image.header.cores[1].trace_bytes -= 32;
        image.core(1, |plan| plan.trace_bytes -= 32);
    }),
    ("console ring longer than it is", Code::PlanValue, |image| image.header.partitions[1].console_bytes += 8),
    ("another layout version", Code::Version, |image| image.header.abi_version += 1),
    ("nine cores", Code::Count, |image| image.header.core_count = 9),
    ("boot core that does not exist", Code::Count, |image| image.header.boot_core = 5),
    ("too many segments", Code::Count, |image| image.partition(1, |plan| plan.segment_count = 13)),
    ("text shorter than it is", Code::HeaderLayout, |image| image.header.text_bytes -= PAGE),
    ("one instruction of the monitor", Code::OtherMonitor, |image| image.bytes[0x1000] ^= 1),
    ("one constant of the monitor", Code::OtherMonitor, |image| {
        let rodata = image.header.rodata.0;
        image.slice(rodata)[8] ^= 1;
    }),
    ("a page of constants made text", Code::OtherMonitor, |image| {
        image.header.text_bytes += PAGE;
        image.header.rodata.0 += PAGE;
        image.header.rodata_bytes -= PAGE;
    }),
    ("monitor memory beyond RAM", Code::MonitorOutsideRam, |image| image.header.memory_bytes = 4 << 30),
    ("core plan of another core", Code::VcpuPlan, |image| image.header.cores[1].plan = image.header.cores[0].plan),
    ("one MPIDR for two cores", Code::Mpidr, |image| {
        image.header.cores[1].mpidr = 0;
        image.core(1, |plan| plan.mpidr = 0);
    }),
    ("counters of another core", Code::BootRecord, |image| {
        let other = image.header.cores[0].counters;
        image.core(1, |plan| plan.counters = other);
    }),
    ("redistributor of another core", Code::BootRecord, |image| image.core(1, |plan| plan.gicr.0 -= 0x2_0000)),
    ("partition plan of another partition", Code::PartitionPlan, |image| image.header.partitions[1].plan = image.header.partitions[0].plan),
    ("vCPU that runs elsewhere", Code::VcpuCore, |image| image.partition(2, |plan| plan.vcpu_core[1] = 4)),
    ("VMPIDR of another vCPU", Code::VcpuCore, |image| image.core(3, |plan| plan.vmpidr = 1 << 31)),
    ("HCR_EL2 without stage 2", Code::Hcr, |image| image.core(4, |plan| plan.hcr &= !1)),
    ("HCR_EL2 of direct for an untrusted partition", Code::Hcr, |image| image.core(4, |plan| plan.hcr &= !(1 << 3 | 1 << 4))),
    ("VTCR_EL2 with another address size", Code::Vtcr, |image| image.core(4, |plan| plan.vtcr ^= 1)),
    ("VMID of another partition", Code::Vmid, |image| image.core(4, |plan| plan.vttbr = plan.vttbr & ((1 << 48) - 1) | 1 << 48)),
    ("stage-2 root of another partition", Code::Stage2Root, |image| {
        let other = image.guest_root(0);
        image.core(4, |plan| plan.vttbr = 4 << 48 | other);
    }),
    ("debug registers not trapped", Code::Mdcr, |image| image.core(4, |plan| plan.mdcr &= !(1 << 9))),
    ("trace registers not trapped", Code::Cptr, |image| image.core(4, |plan| plan.cptr &= !(1 << 20))),
    ("mode that does not exist", Code::PlanValue, |image| image.partition(3, |plan| plan.mode = 3)),
    ("restart policy without limit", Code::PlanValue, |image| image.partition(3, |plan| plan.health.policy = POLICY_RESTART)),
    ("direct partition that can be managed", Code::PlanValue, |image| image.partition(0, |plan| plan.flags |= 2)),
    ("header that names another part", Code::Part, |image| image.header.part = Part::Own as u32),
    ("header that names no part", Code::Part, |image| image.header.part = 3),
    ("something behind a plan", Code::Padding, |image| {
        let plan = image.at(AreaKind::VcpuPlan(1, 0));
        image.slice(plan)[PAGE as usize - 1] = 1;
    }),
    ("one segment left out", Code::Leftover, |image| image.partition(1, |plan| plan.segment_count -= 1)),
    ("stack over another core's data", Code::AreaOverlap, |image| image.header.cores[2].stack_top.0 -= PAGE),
    ("shared state of another partition", Code::AreaOverlap, |image| {
        let other = image.at(AreaKind::Shared(0));
        image.core(1, |plan| plan.shared = physical(other));
    }),
    ("data in the file's part", Code::AreaPlace, |image| {
        let stale = image.at(AreaKind::Pristine(0));
        image.header.cores[0].data = physical(stale);
    }),
    ("RAM of two partitions overlaps", Code::RamPlace, |image| {
        let other = image.at(AreaKind::Ram(0));
        image.partition(1, |plan| plan.ram[0].physical = physical(other + 0x1000));
    }),
    ("RAM over the monitor", Code::RamPlace, |image| image.partition(1, |plan| plan.ram[0].physical = physical(0x4020_0000))),
    ("UART window elsewhere", Code::Window, |image| image.partition(3, |plan| plan.windows[2].guest.0 += 8)),
    ("no window for the redistributors", Code::Window, |image| image.partition(3, |plan| plan.windows[1] = plan.windows[0])),
    ("status readable without right", Code::Management, |image| {
        let status = image.at(AreaKind::Status(0));
        image.partition(3, |plan| plan.status[0] = physical(status));
    }),
    ("requests of a partition that manages nobody", Code::Management, |image| {
        let page = image.at(AreaKind::Manage(2));
        image.partition(1, |plan| plan.manage[3] = physical(page));
    }),
    ("manager without a limit", Code::Management, |image| image.partition(2, |plan| plan.manage_period_ticks = 0)),
    ("manager that may ask for nothing", Code::Management, |image| image.partition(2, |plan| plan.manage_events = 0)),
    ("limit of a partition that manages nobody", Code::Management, |image| {
        image.partition(1, |plan| plan.manage_events = 1);
    }),
    ("signal to a direct partition's core", Code::Management, |image| image.partition(2, |plan| plan.lead_mpidr[0] = 0)),
];

#[rustfmt::skip]
const EL2_MUTANTS: &[Mutant] = &[
    ("table outside the plan area", Code::Table, |image| {
        let root = image.el2_root(0);
        let ram = image.at(AreaKind::Ram(0));
        image.set(root, 0x8000_0000, 1, ram | 3);
    }),
    ("table shared by two ranges", Code::Table, |image| {
        let root = image.guest_root(1);
        let table = image.entry(root, GUEST_RAM, 1);
        image.set(root, 0x8000_0000, 1, table);
    }),
    ("privileged-execute bit in a descriptor", Code::Table, |image| {
        let (root, data) = (image.el2_root(0), image.at(AreaKind::Data(0)));
        image.change(root, data, |entry| entry | 1 << 53);
    }),
    ("page below the stack mapped", Code::Guard, |image| {
        let guard = image.at(AreaKind::Guard);
        image.add_el2_page(0, guard, EL2_DATA_PAGE);
    }),
    ("text writable", Code::WriteExecute, |image| {
        let root = image.el2_root(1);
        image.change(root, 0x4020_0000, |entry| entry & !READ_ONLY);
    }),
    ("data executable", Code::WriteExecute, |image| {
        let (root, data) = (image.el2_root(1), image.at(AreaKind::Data(1)));
        image.change(root, data, |entry| entry & !XN);
    }),
    ("read-only data executable", Code::Executable, |image| {
        let (root, rodata) = (image.el2_root(1), image.at(AreaKind::Rodata));
        image.change(root, rodata, |entry| entry & !XN);
    }),
    ("map not identity", Code::NotIdentity, |image| {
        let (root, data) = (image.el2_root(1), image.at(AreaKind::Data(1)));
        image.change(root, data, |entry| entry + PAGE);
    }),
    ("another core's data", Code::ForeignCore, |image| {
        let data = image.at(AreaKind::Data(0));
        image.add_el2_page(2, data + PAGE, EL2_DATA_PAGE);
    }),
    ("another core's plan, even read-only", Code::ForeignCore, |image| {
        let plan = image.at(AreaKind::VcpuPlan(0, 0));
        image.add_el2_page(2, plan, EL2_DATA_PAGE | READ_ONLY);
    }),
    ("another partition's RAM", Code::ForeignPartition, |image| {
        let (root, ram) = (image.el2_root(2), image.at(AreaKind::Ram(0)));
        image.set(root, ram, 2, ram | EL2_DATA_BLOCK);
    }),
    ("own translation table", Code::TableMapped, |image| {
        let table = image.el2_root(2);
        image.add_el2_page(2, table, EL2_DATA_PAGE);
    }),
    ("device that nobody planned", Code::UnknownMapped, |image| image.add_el2_page(0, 0x0801_0000, EL2_DEVICE_PAGE)),
    ("plan writable", Code::El2Rights, |image| {
        let (root, plan) = (image.el2_root(0), image.at(AreaKind::PartitionPlan(0)));
        image.change(root, plan, |entry| entry & !READ_ONLY);
    }),
    ("another's status writable", Code::El2Rights, |image| {
        let (root, status) = (image.el2_root(2), image.at(AreaKind::Status(0)));
        image.change(root, status, |entry| entry & !READ_ONLY);
    }),
    ("counters not mapped", Code::El2Missing, |image| {
        let (root, counters) = (image.el2_root(3), image.at(AreaKind::Counters(2, 1)));
        image.set(root, counters, 3, 0);
    }),
    ("status page cacheable", Code::MemoryType, |image| {
        let (root, status) = (image.el2_root(0), image.at(AreaKind::Status(0)));
        image.change(root, status, |entry| entry & !(7 << 2) | 1 << 2);
    }),
];

#[rustfmt::skip]
const GUEST_MUTANTS: &[Mutant] = &[
    ("monitor data mapped", Code::MonitorReachable, |image| {
        let data = image.at(AreaKind::Data(4));
        image.add_guest_page(3, data, GUEST_READ_PAGE);
    }),
    ("gap in monitor memory mapped", Code::MonitorReachable, |image| {
        let guard = image.at(AreaKind::Guard);
        image.add_guest_page(3, guard, GUEST_READ_PAGE | GUEST_WRITE);
    }),
    ("own pristine image mapped", Code::MonitorReachable, |image| {
        let pristine = image.at(AreaKind::Pristine(3));
        image.add_guest_page(3, pristine, GUEST_READ_PAGE);
    }),
    ("own stage-2 table mapped", Code::TableReachable, |image| {
        let table = image.guest_root(3);
        image.add_guest_page(3, table, GUEST_READ_PAGE | GUEST_WRITE);
    }),
    ("another partition's RAM readable", Code::ForeignRam, |image| {
        let ram = image.at(AreaKind::Ram(0));
        image.add_guest_page(3, ram, GUEST_READ_PAGE);
    }),
    ("another partition's RAM writable", Code::TwoWriters, |image| {
        let ram = image.at(AreaKind::Ram(0));
        image.add_guest_page(3, ram, GUEST_READ_PAGE | GUEST_WRITE);
    }),
    ("channel page of the reader writable by the source", Code::TwoWriters, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_CHANNELS.0 + PAGE, |entry| entry | GUEST_WRITE);
    }),
    ("peer's status writable", Code::GuestRights, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_CHANNELS.0, |entry| entry | GUEST_WRITE);
    }),
    ("information page writable", Code::GuestRights, |image| {
        let root = image.guest_root(1);
        image.change(root, 0x1000_0000, |entry| entry | GUEST_WRITE);
    }),
    ("channel executable", Code::GuestExecute, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_CHANNELS.0 + 2 * PAGE, |entry| entry & !XN);
    }),
    ("channel cacheable", Code::MemoryType, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_CHANNELS.0 + 2 * PAGE, |entry| entry | 0xf << 2);
    }),
    ("part of RAM not mapped", Code::RamMapping, |image| {
        let root = image.guest_root(1);
        image.set(root, GUEST_RAM + (2 << 20), 2, 0);
    }),
    ("RAM led to another block", Code::RamMapping, |image| {
        let root = image.guest_root(1);
        let entry = image.entry(root, GUEST_RAM, 2);
        image.set(root, GUEST_RAM + (2 << 20), 2, entry);
    }),
    ("RAM that no plan gives", Code::RamMapping, |image| image.add_guest_page(3, 0xb000_0000, GUEST_READ_PAGE)),
    ("virtual UART's page mapped", Code::WindowMapped, |image| {
        let root = image.guest_root(2);
        image.set(root, 0x0900_0000, 3, 0x0900_0000 | GUEST_DEVICE_PAGE);
    }),
    ("redistributor of an unused core mapped", Code::GicMapped, |image| image.add_guest_page(3, 0x080a_0000 + 7 * 0x2_0000, GUEST_DEVICE_PAGE)),
    ("private interrupts of another core for a direct guest", Code::GicMapped, |image| {
        let (root, frame) = (image.guest_root(0), 0x080a_0000 + 0x1_0000);
        image.change(root, frame, |entry| entry + 0x2_0000);
    }),
    ("interrupt controller for a mapped guest", Code::WindowMapped, |image| {
        let root = image.guest_root(3);
        image.set(root, 0x0800_0000, 2, 0x0800_0000 | GUEST_DEVICE_PAGE & !2);
    }),
    ("another partition's device", Code::DeviceMapping, |image| {
        // At its own address, so that only its owner speaks against it: the level-2 entry covers the device's 2 MiB.
        let root = image.guest_root(3);
        image.set(root, 0x0900_0000, 2, 0x0900_0000 | GUEST_DEVICE_PAGE & !2);
    }),
    ("device executable", Code::DeviceMapping, |image| {
        let root = image.guest_root(2);
        image.change(root, 0x0901_0000, |entry| entry & !XN);
    }),
];

#[rustfmt::skip]
const ROUTE_MUTANTS: &[Mutant] = &[
    ("interrupt with two owners", Code::InterruptTwice, |image| {
        let taken = image.plan_of(2).interrupts[0];
        image.partition(1, |plan| {
            plan.interrupts[0] = taken;
            plan.interrupt_count = 1;
        });
    }),
    ("monitor's own interrupt given away", Code::InterruptNumber, |image| image.partition(1, |plan| {
        plan.interrupts[0].intid = 26;
        plan.interrupts[0].kind = INTERRUPT_DEVICE;
        plan.interrupt_count = 1;
    })),
    ("doorbell level-triggered", Code::InterruptKind, |image| image.partition(0, |plan| plan.interrupts[0].edge = 0)),
    ("distributor set up otherwise", Code::InterruptKind, |image| image.header.gicd_icfgr[5] = 0),
    ("guest shown too few interrupts", Code::InterruptLimit, |image| image.partition(2, |plan| plan.highest_intid = 31)),
    ("doorbell routed to the wrong partition", Code::DoorbellTarget, |image| image.partition(3, |plan| plan.doorbells[0].peer = 1)),
    ("doorbell raises a device's interrupt", Code::DoorbellTarget, |image| image.partition(3, |plan| plan.doorbells[0].intid = 34)),
    ("limiter word inside another page", Code::DoorbellWords, |image| image.partition(3, |plan| plan.doorbells[0].words.0 += 8)),
    ("limiter that lets nothing through", Code::Limiter, |image| image.partition(3, |plan| plan.doorbells[0].events = 0)),
    ("limiter word of another sender, whom the core does not serve", Code::El2Missing, |image| {
        let other = image.plan_of(0).doorbells[0].words;
        image.partition(3, |plan| plan.doorbells[0].words = other);
    }),
    ("limiter word of another receiver's doorbell", Code::AreaOverlap, |image| {
        let other = image.plan_of(0).doorbells[0].words;
        image.partition(1, |plan| plan.doorbells[0].words = other);
    }),
    ("console input for a direct partition", Code::ConsoleInput, |image| image.core(0, |plan| plan.uart.0 = 0x0900_0000)),
    ("console focus that never comes back", Code::ConsoleInput, |image| image.core(2, |plan| plan.uart_next_mpidr = 2)),
    ("two cores with the console at boot", Code::ConsoleInput, |image| image.core(4, |plan| plan.uart_first = 1)),
    ("UART's interrupt given away", Code::InterruptTwice, |image| {
        image.core(2, |plan| plan.uart_interrupt = 34);
        image.core(4, |plan| plan.uart_interrupt = 34);
    }),
    ("UART as a guest's device", Code::DeviceMapping, |image| {
        let root = image.guest_root(0);
        image.set(root, 0x0900_0000, 2, 0x0900_0000 | GUEST_DEVICE_PAGE & !2);
    }),
    ("channel led to another channel's pages", Code::ChannelEnds, |image| {
        let (root, other) = (image.guest_root(1), image.at(AreaKind::ChannelReader(0)));
        image.change(root, GUEST_CHANNELS.0 + PAGE, |entry| entry & !0xffff_f000 | other);
    }),
    ("status of a third partition", Code::ChannelStatus, |image| {
        let (root, other) = (image.guest_root(1), image.at(AreaKind::Status(3)));
        image.change(root, GUEST_CHANNELS.0, |entry| entry & !0xffff_f000 | other);
    }),
    ("information page of another partition", Code::Information, |image| image.information(1, |page| page.partition = 0)),
    ("information page names more RAM", Code::Information, |image| image.information(1, |page| page.ram_bytes += 1)),
    ("information page without terminated arguments", Code::Information, |image| image.information(1, |page| page.arguments = [b'x'; 256])),
    ("information page with another redistributor", Code::Information, |image| image.information(1, |page| page.gicr.0 += 0x2_0000)),
    ("BAR smaller than the channel", Code::PciFunction, |image| image.partition(2, |plan| plan.pci[2].memory_bytes /= 2)),
    ("port that differs from its BAR", Code::PciFunction, |image| image.partition(2, |plan| plan.ports[1].window.0 += 0x1000)),
    ("ends with different message sizes", Code::ChannelEnds, |image| image.partition(2, |plan| plan.ports[1].message_bytes -= 1)),
    ("port behind no function", Code::Leftover, |image| image.partition(2, |plan| plan.ports[7].slots = 4)),
    ("PCI function of an unknown kind", Code::PciFunction, |image| image.partition(2, |plan| plan.pci[1].kind = 3)),
    ("BAR over RAM", Code::PciFunction, |image| image.partition(2, |plan| plan.pci[1].memory = GuestAddress(GUEST_RAM))),
    ("restart clears the peer's page", Code::ChannelClear, |image| image.partition(0, |plan| plan.channel_clear[0].bytes += PAGE)),
];

#[rustfmt::skip]
const LOADING_MUTANTS: &[Mutant] = &[
    ("segment into another partition's RAM", Code::SegmentDestination, |image| {
        let other = image.at(AreaKind::Ram(0));
        image.partition(1, |plan| plan.segments[0].destination = physical(other));
    }),
    ("segment past the end of RAM", Code::SegmentDestination, |image| image.partition(1, |plan| plan.segments[0].bytes = 8 << 20)),
    ("segment taken from the plan area", Code::SegmentSource, |image| {
        let plan = image.header.plan;
        image.partition(1, |partition| partition.segments[0].source = plan);
    }),
    ("segment taken from another partition's image", Code::AreaOverlap, |image| {
        let other = image.plan_of(0).segments[0].source;
        image.partition(1, |plan| plan.segments[0].source = other);
    }),
    ("one bit of a pristine image", Code::SegmentCrc, |image| {
        let source = image.plan_of(2).segments[0].source.0;
        image.slice(source + 1_000_000)[0] ^= 0x10;
    }),
    ("two segments over each other", Code::SegmentOverlap, |image| image.partition(1, |plan| plan.segments[1].destination = plan.segments[0].destination)),
    ("entry where nothing is loaded", Code::Entry, |image| image.partition(1, |plan| plan.entry = GuestAddress(GUEST_RAM + 0x20_0000))),
    ("device tree that is none", Code::Entry, |image| image.partition(1, |plan| plan.device_tree = plan.entry)),
];

/// Changes of the file itself; checksums are left as they are.
#[rustfmt::skip]
const FILE_MUTANTS: &[FileMutant] = &[
    ("file cut off", Code::FileLength, |bytes| bytes.truncate(bytes.len() - 4096)),
    ("file cut off before the header", Code::NoHeader, |bytes| bytes.truncate(4096)),
    ("one byte too many", Code::FileLength, |bytes| bytes.push(0)),
    ("empty file", Code::NoHeader, Vec::clear),
    ("no magic number for boot loaders", Code::Arm64Header, |bytes| bytes[56] = 0),
    ("place of another load address", Code::Arm64Header, |bytes| bytes[9] ^= 1),
    ("size field too small", Code::Arm64Header, |bytes| bytes[16..24].fill(0)),
    ("one bit of the header", Code::HeaderCrc, |bytes| flip_behind_magic(bytes, 0x80)),
    ("one bit of the plan area", Code::PlanCrc, |bytes| flip_behind_magic(bytes, 4096 + 0x40)),
    ("one bit of the monitor", Code::TextCrc, |bytes| bytes[0x1000] ^= 4),
    ("one bit behind the header", Code::Padding, |bytes| flip_behind_magic(bytes, 4095)),
    ("one bit at the end of the file", Code::Padding, |bytes| bytes.last_mut().into_iter().for_each(|byte| *byte ^= 1)),
];

/// Flips a bit at an offset from the header.
fn flip_behind_magic(bytes: &mut [u8], offset: usize) {
    let header = bytes.windows(8).position(|window| window == b"BULKHEAD").unwrap();
    bytes[header + offset] ^= 4;
}

fn all() -> impl Iterator<Item = &'static Mutant> {
    [PLAN_MUTANTS, EL2_MUTANTS, GUEST_MUTANTS, ROUTE_MUTANTS, LOADING_MUTANTS].into_iter().flatten()
}

/// Says what is wrong with the verdict on a mutant, if anything is.
pub(crate) fn complaint(what: &str, code: Code, bytes: &[u8]) -> Option<String> {
    let verdict = verify_bytes(bytes);
    let reported: BTreeSet<&str> = verdict.findings.iter().map(|finding| finding.code.name()).collect();
    (!verdict.has(code)).then(|| format!("{what}: expected {} ({}), reported {reported:?}", code.name(), code.title()))
}

#[test]
fn untouched_image_is_accepted_after_its_checksums_were_written_again() {
    assert_eq!(verify_bytes(&Editor::demo().finish()).findings, []);
}

#[test]
fn every_mutant_is_refused_with_its_code() {
    let base = Editor::demo();
    let complaints = all().filter_map(|(what, code, change)| {
        let mut image = base.clone();
        change(&mut image);
        complaint(what, *code, &image.finish())
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn every_damaged_file_is_refused_with_its_code() {
    let base = Editor::demo().finish();
    let complaints = FILE_MUTANTS.iter().filter_map(|(what, code, change)| {
        let mut bytes = base.clone();
        change(&mut bytes);
        complaint(what, *code, &bytes)
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn every_code_has_a_mutant() {
    let of_devices = FUNCTION_MUTANTS.iter().chain(FRONT_MUTANTS);
    let codes = all().chain(SHARED_MUTANTS).chain(BOARD_MUTANTS).chain(of_devices).map(|(_, code, _)| *code);
    let files = FILE_MUTANTS.iter().map(|(_, code, _)| *code);
    let covered: BTreeSet<Code> =
        codes.chain(files).chain(crate::worlds::shown()).chain(crate::hybrid::shown()).collect();
    // Group V4 is about instances of the real-time kernel: the crate of their reader has the mutants, and takes them through this one.
    let own = Code::ALL.iter().filter(|code| !code.name().starts_with("V4"));
    let missing: Vec<&str> = own.filter(|code| !covered.contains(code)).map(|code| code.name()).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(all().count() + FILE_MUTANTS.len() >= 25, "at least 25 are promised");
}

#[test]
fn mutants_have_names_of_their_own() {
    let names: BTreeSet<&str> = all().map(|(what, _, _)| *what).collect();
    assert_eq!(names.len(), all().count());
}
