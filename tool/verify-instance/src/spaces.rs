//! Address spaces: the kernel's half, the one of the switch-on, and one for each component.

use crate::finding::{Findings, Kind};
use crate::walk::{Map, Mapping, walk};
use crate::{Expected, PAGE, View, hash};
use bulkhead_guest_abi::guest::{
    GUEST_CHANNELS, GUEST_CONSOLE, GUEST_DEVICES, GUEST_ECAM, GUEST_GICD, GUEST_GICR, GUEST_INFORMATION,
    GUEST_PCI_DEVICES, GUEST_UART,
};
use bulkhead_kernel_abi::accounts::ACCOUNTS_BYTES;
use bulkhead_kernel_abi::boot::DeviceRow;
use bulkhead_kernel_abi::image::{
    ACCOUNTS_BYTES_BEFORE_HEAD, COMPONENT_ACCOUNTS, COMPONENT_DEVICES, COMPONENT_DEVICES_END, COMPONENT_DMA,
    COMPONENT_DMA_END, COMPONENT_STACKS, COMPONENT_TEXT, LOAD, RAM,
};
use std::collections::BTreeMap;

/// Bytes of a distributor's registers, and of a redistributor's.
const DISTRIBUTOR: u64 = 0x1_0000;
const REDISTRIBUTOR: u64 = 0x2_0000;

/// Bytes of the configuration space of a bus.
const BUS: u64 = 1 << 20;

/// Name of the UART that the kernel prints with, where a component drives it.
const CONSOLE: &[u8] = b"uart\0";

/// Text, constants and data of the kernel, as (write, execute).
const TEXT: (bool, bool) = (false, true);
const CONSTANTS: (bool, bool) = (false, false);
const DATA: (bool, bool) = (true, false);

/// Walks all roots and compares. Returns what each component maps.
pub(crate) fn check(view: &View<'_>, expected: &Expected, findings: &mut Findings) -> Vec<Map> {
    let kernel = walk(view, view.head.kernel_root, "the kernel's half", findings);
    kernel_half(view, &kernel, expected, findings);
    let boot = walk(view, view.head.boot_root, "the tables of the switch-on", findings);
    let only = Mapping {
        output: RAM,
        bytes: 2 << 20,
        el0: false,
        write: false,
        execute_el1: true,
        execute_el0: false,
        is_global: false,
        memory: 1,
    };
    findings.require(boot.mappings == BTreeMap::from([(RAM, only)]), Kind::BootHalf, || {
        format!("the tables of the switch-on map other than 2 MiB from {RAM:#x} on, read-only for EL1")
    });
    let components = view.tables.components.iter().enumerate();
    let spaces: Vec<Map> = components
        .map(|(number, row)| {
            let place = format!("component {number}");
            walk(view, row.root, &place, findings)
        })
        .collect();
    devices(view, &spaces, findings);
    accounts(view, &spaces, findings);
    pages(view, &kernel, &boot, &spaces, findings);
    spaces
}

/// The kernel's half maps its own memory, the head and the boot tables, and the machine; all at their physical addresses, nothing for EL0.
fn kernel_half(view: &View<'_>, kernel: &Map, expected: &Expected, findings: &mut Findings) {
    let wrong = |address: &u64, mapping: &Mapping| {
        *address != mapping.output || mapping.el0 || mapping.execute_el0 || !mapping.is_global || mapping.bytes != PAGE
    };
    if let Some((address, _)) = kernel.mappings.iter().find(|(address, mapping)| wrong(address, mapping)) {
        findings.add(
            Kind::KernelHalf,
            format!("the kernel's half maps {address:#x} for EL0, for one component alone, or at another address"),
        );
    }
    let both = kernel.mappings.iter().find(|(_, mapping)| mapping.write && mapping.execute_el1);
    if let Some((address, _)) = both {
        findings.add(Kind::WritableExecutable, format!("the kernel's page at {address:#x} is writable and executable"));
    }
    let rights = |address: u64| kernel.at(address).map(|mapping| (mapping.write, mapping.execute_el1));
    let memory = |address: u64| kernel.at(address).map(|mapping| mapping.memory);
    let mut own: Vec<Option<(bool, bool)>> = (LOAD..view.head_address).step_by(PAGE as usize).map(rights).collect();
    own.dedup();
    findings.require(own == [Some(TEXT), Some(CONSTANTS), None, Some(DATA)], Kind::KernelHalf, || {
        "the kernel's memory is not text, constants, an empty page below its stack, and data".to_owned()
    });
    let text =
        (LOAD..view.head_address).step_by(PAGE as usize).take_while(|address| rights(*address) == Some(TEXT)).count();
    let bytes = view.bytes.get(..text * PAGE as usize).unwrap_or_default();
    findings.require(hash(bytes) == expected.text, Kind::Kernel, || {
        "the kernel's text is not that of the kernel that this tool has".to_owned()
    });
    let build = expected.text.first_chunk().copied().map(u64::from_le_bytes);
    findings.require(build == Some(view.tables.header.kernel_build), Kind::Kernel, || {
        format!("the boot tables are for a kernel of build {:#x}", view.tables.header.kernel_build)
    });
    let first_data = (LOAD..view.head_address).step_by(PAGE as usize).find(|address| rights(*address) == Some(DATA));
    let data = first_data.and_then(|first| view.bytes.get((first - LOAD) as usize..expected.bytes as usize));
    findings.require(data.is_some_and(|data| data.iter().all(|byte| *byte == 0)), Kind::Kernel, || {
        "the kernel's data does not begin as zeros".to_owned()
    });
    // (addresses, write, memory type) of all the rest.
    let mut others = vec![
        (view.head_address..view.tables_end(), false, 1),
        (GUEST_GICD.0..GUEST_GICD.0 + DISTRIBUTOR, true, 0),
        (GUEST_GICR.0..GUEST_GICR.0 + REDISTRIBUTOR, true, 0),
        (GUEST_UART.0..GUEST_UART.0 + PAGE, true, 0),
        (GUEST_INFORMATION.0..GUEST_INFORMATION.0 + PAGE, false, 2),
        (GUEST_CONSOLE.0..GUEST_CHANNELS.0, true, 2),
    ];
    others.extend(crate::wires::pages(&view.tables).map(|(range, write)| (range, write, 2)));
    others.extend(crate::data::written(view).map(|range| (range, true, 1)));
    let owned = crate::processes::owned(view).into_iter().chain(crate::data::kept(view));
    others.extend(owned.filter_map(|one| Some((one.pages, one.kernel_writes?, 1))));
    for (range, write, kind) in &others {
        let is_so = |address: u64| rights(address) == Some((*write, false)) && memory(address) == Some(*kind);
        if let Some(address) = range.clone().step_by(PAGE as usize).find(|address| !is_so(*address)) {
            let message = format!("the kernel's half does not map {address:#x} as it must for the kernel to work");
            findings.add(Kind::KernelHalf, message);
        }
    }
    let is_known = |address: &u64| {
        (LOAD..view.head_address).contains(address) && memory(*address) == Some(1)
            || others.iter().any(|(range, ..)| range.contains(address))
    };
    if let Some(address) = kernel.mappings.keys().find(|address| !is_known(address)) {
        findings
            .add(Kind::KernelHalf, format!("the kernel's half maps {address:#x}, which is nothing of the kernel's"));
    }
}

/// Whether a component's address is one for registers of devices.
fn is_for_devices(address: u64) -> bool {
    (COMPONENT_DEVICES..COMPONENT_DEVICES_END).contains(&address)
}

/// Components have the registers that the boot tables say, as device memory of EL0 that is never executed, and no others. What a partition and the
/// board pass to a guest is at these addresses and nothing else: neither the kernel's controller and information page nor RAM. The page of the UART
/// is there as well: on the board a component may drive what the kernel prints with, and what it can do with it is to garble and delay that.
fn devices(view: &View<'_>, spaces: &[Map], findings: &mut Findings) {
    let rows = view.tables.devices;
    for (number, row) in rows.iter().enumerate() {
        if is_for_dma(row.address) {
            dma(view, (number, row), spaces, findings);
            continue;
        }
        let bytes = u64::from(row.pages) * PAGE;
        let lies_in = |start: u64, first: u64, end: u64| {
            start.is_multiple_of(PAGE) && start >= first && start.checked_add(bytes).is_some_and(|last| last <= end)
        };
        let is_sound = row.pages > 0
            && row.reaches_all <= 1
            && (lies_in(row.physical, GUEST_DEVICES.start, GUEST_DEVICES.end)
                || lies_in(row.physical, GUEST_PCI_DEVICES.start, GUEST_PCI_DEVICES.end)
                || lies_in(row.physical, GUEST_ECAM.0, GUEST_ECAM.0 + BUS)
                || row.name.starts_with(CONSOLE) && lies_in(row.physical, GUEST_UART.0, GUEST_UART.0 + PAGE))
            && lies_in(row.address, COMPONENT_DEVICES, COMPONENT_DEVICES_END);
        if !findings.require(is_sound, Kind::Device, || {
            format!(
                "device {number} is {bytes:#x} bytes from {:#x} on, where no device of a component can be",
                row.physical
            )
        }) {
            continue;
        }
        let space = spaces.get(usize::from(row.component));
        let is_so = |offset: u64| {
            space.and_then(|space| space.at(row.address + offset)).is_some_and(|it| it.output == row.physical + offset)
        };
        findings.require((0..bytes).step_by(PAGE as usize).all(is_so), Kind::Device, || {
            format!("device {number} is not where component {} would find it, at {:#x}", row.component, row.address)
        });
    }
    for (number, space) in spaces.iter().enumerate() {
        for (address, mapping) in space.mappings.range(COMPONENT_DEVICES..COMPONENT_DEVICES_END) {
            let has = |row: &&DeviceRow| {
                usize::from(row.component) == number
                    && address.checked_sub(row.address).is_some_and(|offset| offset < u64::from(row.pages) * PAGE)
            };
            findings.require(rows.iter().filter(has).count() == 1, Kind::Device, || {
                format!("component {number} maps registers at {address:#x} that the boot tables do not give it once")
            });
            let is_registers = mapping.memory == 0 && mapping.write && !mapping.execute_el0;
            findings.require(is_registers, Kind::Device, || {
                format!(
                    "component {number} has registers at {address:#x} as memory, to be read only, or to be executed"
                )
            });
        }
    }
}

/// Whether a component's address is one for the pages of the accounts.
fn is_for_accounts(address: u64) -> bool {
    (COMPONENT_ACCOUNTS..COMPONENT_ACCOUNTS + ACCOUNTS_BYTES as u64).contains(&address)
}

/// The accounts are two pages of the kernel, which the components that have them read, and neither write nor execute; no other one has an address for them.
fn accounts(view: &View<'_>, spaces: &[Map], findings: &mut Findings) {
    let first = view.head_address.wrapping_sub(ACCOUNTS_BYTES_BEFORE_HEAD);
    for (number, (row, space)) in view.tables.components.iter().zip(spaces).enumerate() {
        let bytes = if row.accounts == 1 { ACCOUNTS_BYTES as u64 } else { 0 };
        let expected = (0..bytes).step_by(PAGE as usize).map(|offset| {
            let mapping = Mapping {
                output: first.wrapping_add(offset),
                bytes: PAGE,
                el0: true,
                write: false,
                execute_el1: false,
                execute_el0: false,
                is_global: false,
                memory: 1,
            };
            (COMPONENT_ACCOUNTS + offset, mapping)
        });
        let found = space.mappings.range(COMPONENT_ACCOUNTS..COMPONENT_ACCOUNTS + ACCOUNTS_BYTES as u64);
        let is_so = found.map(|(address, mapping)| (*address, *mapping)).eq(expected);
        findings.require(is_so, Kind::Accounts, || {
            format!("component {number} does not have the accounts as the boot tables say: to be read, or not at all")
        });
    }
}

/// Whether a component's address is one for its pages for DMA.
fn is_for_dma(address: u64) -> bool {
    (COMPONENT_DMA..COMPONENT_DMA_END).contains(&address)
}

/// Pages for DMA are pages of the image that the component has, to read and write, one behind the other on both sides: devices see one piece. That nobody
/// else has them is looked at with all other pages.
fn dma(view: &View<'_>, (number, row): (usize, &DeviceRow), spaces: &[Map], findings: &mut Findings) {
    let bytes = u64::from(row.pages) * PAGE;
    let end = row.physical.saturating_add(bytes);
    let is_inside = row.physical >= view.tables_end() && end <= view.end() && row.physical.is_multiple_of(PAGE);
    let is_sound = row.address == COMPONENT_DMA && row.pages > 0 && bytes <= COMPONENT_DMA_END - COMPONENT_DMA;
    if !findings.require(is_inside && is_sound && row.reaches_all == 0, Kind::Dma, || {
        format!(
            "row {number} of the devices is {bytes:#x} bytes for DMA from {:#x} on, which are no component's",
            row.physical
        )
    }) {
        return;
    }
    let is_again = |one: &DeviceRow| is_for_dma(one.address) && one.component == row.component;
    // What devices reach is compared with one piece.
    findings.require(!view.tables.devices.iter().take(number).any(is_again), Kind::Dma, || {
        format!("component {} has pages for DMA twice, by row {number} of the devices", row.component)
    });
    let space = spaces.get(usize::from(row.component));
    let is_so = |offset: u64| {
        let mapping = space.and_then(|space| space.at(row.address + offset));
        mapping.is_some_and(|it| it.output == row.physical + offset && it.write && it.memory == 1 && !it.execute_el0)
    };
    findings.require((0..bytes).step_by(PAGE as usize).all(is_so), Kind::Dma, || {
        format!("component {} does not have what row {number} says of its pages for DMA", row.component)
    });
}

/// Each page of the image is the kernel's, a boot table's, one component's or a translation table, and of one of them alone.
fn pages(view: &View<'_>, kernel: &Map, boot: &Map, spaces: &[Map], findings: &mut Findings) {
    let mut owners: BTreeMap<u64, String> = BTreeMap::new();
    let mut own = |page: u64, owner: String, kind: Kind, findings: &mut Findings| {
        if let Some(other) = owners.insert(page, owner.clone()) {
            findings.add(kind, format!("the page at {page:#x} is in {other} and in {owner}"));
        }
    };
    for page in (LOAD..view.tables_end()).step_by(PAGE as usize) {
        own(page, "the kernel".to_owned(), Kind::Reach, findings);
    }
    let of_data = crate::data::kept(view).map(|one| (one, Kind::Data));
    for (one, kind) in crate::processes::owned(view).into_iter().map(|one| (one, Kind::Program)).chain(of_data) {
        for page in one.pages.step_by(PAGE as usize) {
            own(page, one.owner.clone(), kind, findings);
        }
    }
    let numbered = spaces.iter().enumerate().map(|(number, map)| (map, format!("the tables of component {number}")));
    let fixed = [(kernel, "the tables of the kernel".to_owned()), (boot, "the tables of the switch-on".to_owned())];
    for (map, owner) in fixed.into_iter().chain(numbered) {
        map.tables.iter().for_each(|table| own(*table, owner.clone(), Kind::Descriptor, findings));
    }
    for (number, map) in spaces.iter().enumerate() {
        for (address, mapping) in &map.mappings {
            let place = || format!("component {number} at {address:#x}");
            let is_of_el0 = mapping.el0 && !mapping.execute_el1 && !mapping.is_global && mapping.bytes == PAGE;
            let is_device = is_for_devices(*address);
            let is_port = crate::ports::is_for_ports(*address);
            if is_for_accounts(*address) {
                // Judged by itself: it is the kernel's, and of each component that has it.
                continue;
            }
            findings.require(is_of_el0 && (is_device || is_port || mapping.memory == 1), Kind::Reach, || {
                format!("{} has a page that is not memory of EL0 and of this component alone", place())
            });
            let is_memory = (COMPONENT_TEXT..COMPONENT_STACKS).contains(address) || is_for_dma(*address);
            let is_inside = is_memory && (LOAD..view.end()).contains(&mapping.output);
            let has_row = |row: &DeviceRow| {
                usize::from(row.component) == number
                    && address.checked_sub(row.address).is_some_and(|offset| offset < u64::from(row.pages) * PAGE)
            };
            findings.require(!is_for_dma(*address) || view.tables.devices.iter().any(has_row), Kind::Dma, || {
                format!("{} has a page for DMA that the boot tables do not say", place())
            });
            findings.require(is_inside || is_device || is_port, Kind::Reach, || {
                format!("{} maps {:#x}, and one or the other is no component's", place(), mapping.output)
            });
            findings.require(!(mapping.write && mapping.execute_el0), Kind::WritableExecutable, || {
                format!("{} is writable and executable", place())
            });
            let is_kernels = mapping.output < view.tables_end() && !is_device && !is_port;
            let kind = if is_kernels { Kind::Reach } else { Kind::Shared };
            own(mapping.output, format!("component {number}"), kind, findings);
        }
    }
    let unused = (LOAD..view.end()).step_by(PAGE as usize).find(|page| !owners.contains_key(page));
    if let Some(page) = unused {
        findings.add(Kind::Unused, format!("the page at {page:#x} is nobody's"));
    }
}
