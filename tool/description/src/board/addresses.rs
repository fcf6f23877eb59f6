//! Whether the facts of a board fit together: addresses, names, interrupts.

use super::resolve::GICR_STRIDE_BYTES;
use super::{BoardFile, pci, resolve, secure};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_arm::{Affinity, Intid};
use bulkhead_plan::model;

/// Bytes of the distributor of a GICv3, and what redistributor frames are aligned to; that of a GICv2 is a page.
const GIC_FRAME_BYTES: u64 = 0x1_0000;
/// What the image is aligned to.
const IMAGE_ALIGNMENT: u64 = 0x20_0000;
/// How many bits a physical address can have (Arm ARM D17.2, ID_AA64MMFR0_EL1.PARange).
const ADDRESS_BITS: [u64; 7] = [32, 36, 40, 42, 44, 48, 52];

/// Most list registers that a GICv3 can have (IHI 0069, ICH_VTR_EL2.ListRegs).
const MOST_LIST_REGISTERS: u64 = 16;

/// A range of addresses with its name and where it is written.
struct Used {
    start: u64,
    end: u64,
    name: String,
    span: Span,
    /// Whose pages it is in.
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It owns its pages whole: nothing that can be given away may begin or end in them.
    WholePages,
    /// Likewise, but beside its like: it is in nobody's map, and nothing of it is used.
    Nobodys,
    /// It can be given to a partition, and then its whole pages go there.
    Given,
}

/// Checks that the facts of a board do not contradict each other; `places` says where each device is written.
pub(super) fn check(file: &BoardFile, board: &model::Board, places: &[Span], report: &mut Report) {
    check_memory(file, board, report);
    let mut refuse = |span: Span, message: String| report.push(Diagnostic::new(Code::BadBoard, message).at(span, ""));
    let gic = &file.interrupt_controller.value;
    let uart = resolve::monitor_uart(file);
    let mut aligned = vec![(gic.distributor.value, gic.distributor.span, distributor_bytes(file), "the distributor")];
    let regions = gic.redistributors.iter();
    aligned.extend(regions.map(|one| (one.address.value, one.span, GIC_FRAME_BYTES, "the redistributors")));
    aligned.extend(uart.map(|uart| (uart.address.value, uart.address.span, PAGE_BYTES, "the UART")));
    for (address, span, alignment, what) in aligned {
        if !address.is_multiple_of(alignment) {
            refuse(span, format!("the address of {what} must be a multiple of {alignment:#x}"));
        }
    }
    if !(1..=2).contains(&gic.security_states.value) {
        refuse(gic.security_states.span, String::from("an interrupt controller has 1 or 2 security states"));
    }
    let cores: Vec<_> = file.cores.value.iter().flat_map(|group| group.mpidr.value.iter()).collect();
    for (index, core) in cores.iter().enumerate() {
        if cores.iter().take(index).any(|other| other.value == core.value) {
            refuse(core.span, format!("two cores have the affinity {:#x}", core.value));
        }
    }
    for core in cores.iter().filter(|core| core.value & !Affinity::FIELDS != 0) {
        let fields = Affinity::of_mpidr(core.value).0;
        refuse(
            core.span,
            format!(
                "{:#x} has bits of MPIDR_EL1 that are no affinity fields: without them it is {fields:#x}",
                core.value
            ),
        );
    }
    if cores.is_empty() {
        refuse(file.cores.span, String::from("a board has a core"));
    }
    if gic.list_registers.value > MOST_LIST_REGISTERS {
        refuse(
            gic.list_registers.span,
            format!("an interrupt controller has at most {MOST_LIST_REGISTERS} list registers"),
        );
    }
    if let Some(stride) = gic.redistributor_stride.as_ref()
        && (stride.value < GICR_STRIDE_BYTES || !stride.value.is_multiple_of(GIC_FRAME_BYTES))
    {
        refuse(
            stride.span,
            format!(
                "redistributors are {GICR_STRIDE_BYTES:#x} bytes or more apart, by multiples of {GIC_FRAME_BYTES:#x}"
            ),
        );
    }
    if board.counter_hz == 0 || board.counter_hz > 1_000_000_000 {
        refuse(file.counter_hz.span, String::from("the counter must run at 1 Hz to 1 GHz"));
    }
    if let Some(second) = file.uart.iter().filter(|uart| uart.monitor.as_ref().is_some_and(|state| state.value)).nth(1)
    {
        refuse(second.span, String::from("the monitor uses one UART at most"));
    }
    check_overlaps(file, board, places, report);
    check_devices(file, board, places, report);
    secure::check(file, board, report);
}

fn distributor_bytes(file: &BoardFile) -> u64 {
    if file.interrupt_controller.value.version.value < 3 { PAGE_BYTES } else { GIC_FRAME_BYTES }
}

/// Checks banks, reserved regions and the load address.
fn check_memory(file: &BoardFile, board: &model::Board, report: &mut Report) {
    let mut refuse = |span: Span, message: String| report.push(Diagnostic::new(Code::BadBoard, message).at(span, ""));
    let (bits, span) = (file.physical_address_bits.value, file.physical_address_bits.span);
    if !ADDRESS_BITS.contains(&bits) {
        return refuse(span, format!("a core has one of {ADDRESS_BITS:?} bits of a physical address"));
    }
    if let Some(kind) = board.core_types.iter().flatten().find(|kind| u64::from(kind.physical_address_bits) < bits) {
        let most = kind.physical_address_bits;
        refuse(span, format!("a {} has {most} bits of a physical address (ID_AA64MMFR0_EL1.PARange)", kind.name));
    }
    if board.banks.is_empty() {
        refuse(file.memory.span, String::from("a board has RAM"));
    }
    for (bank, written) in board.banks.iter().zip(&file.memory.value) {
        if !bank.start.0.is_multiple_of(PAGE_BYTES) || !bank.bytes.is_multiple_of(PAGE_BYTES) || bank.bytes == 0 {
            refuse(written.span, String::from("RAM is not whole pages of 4 KiB"));
        }
        if bank.start.0.checked_add(bank.bytes).is_none_or(|end| end > 1 << bits) {
            refuse(written.span, format!("RAM ends beyond the {bits} bits of a physical address"));
        }
    }
    let banks = board.banks.iter().zip(board.banks.iter().skip(1)).zip(file.memory.value.iter().skip(1));
    for ((one, next), written) in banks {
        if next.start.0 < one.end() {
            refuse(written.span, String::from("banks of RAM must be in the order of their addresses and not overlap"));
        }
    }
    for (one, written) in board.reserved.iter().zip(&file.reserved) {
        if !board.banks.iter().any(|bank| bank.start <= one.range.start && one.range.end() <= bank.end()) {
            refuse(written.span, format!("the reserved region `{}` is not in one bank of RAM", one.name));
        }
    }
    let load = board.load_address.0;
    let span = file.load_address.span;
    let bank = board.banks.iter().find(|bank| (bank.start.0..bank.end()).contains(&load));
    if !has_place(board) {
        // A limit: no load address is right.
    } else if !load.is_multiple_of(IMAGE_ALIGNMENT) || bank.is_none() {
        refuse(span, String::from("the load address must be inside RAM and a multiple of 2 MiB"));
    } else if load == 0 {
        refuse(
            span,
            String::from(
                "the load address must not be 0: page 0 is never mapped at EL2, so that a null pointer faults",
            ),
        );
    } else if bank != board.banks.first() {
        refuse(
            span,
            String::from("the load address must be in the first bank of RAM, where boot loaders put an image"),
        );
    } else if let Some(one) = board.reserved.iter().find(|one| (one.range.start.0..one.range.end()).contains(&load)) {
        refuse(span, format!("the load address is in the reserved region `{}`", one.name));
    }
}

/// States whether the first bank has 2 MiB for an image, in front of, between or behind what is reserved.
pub(super) fn has_place(board: &model::Board) -> bool {
    let Some(bank) = board.banks.first() else { return true };
    let next = |address: u64| address.checked_next_multiple_of(IMAGE_ALIGNMENT).unwrap_or(u64::MAX);
    let mut start = next(bank.start.0.max(PAGE_BYTES));
    for one in board.reserved_in(&board.banks) {
        if one.start.0 < start.saturating_add(IMAGE_ALIGNMENT) && start < one.end() {
            start = next(one.end());
        }
    }
    start < bank.end()
}

/// Checks that no two things of a board have one address, and no device a page with RAM, interrupt controller or UART.
fn check_overlaps(file: &BoardFile, board: &model::Board, places: &[Span], report: &mut Report) {
    let mut used: Vec<Used> = Vec::new();
    let mut add = |start: u64, bytes: u64, name: String, span, kind| {
        used.push(Used { start, end: start.saturating_add(bytes), name, span, kind });
    };
    for (bank, written) in board.banks.iter().zip(&file.memory.value) {
        add(bank.start.0, bank.bytes, String::from("RAM"), written.span, Kind::WholePages);
    }
    let gic = &file.interrupt_controller.value;
    let (distributor, span) = (String::from("the distributor"), gic.distributor.span);
    // What is no interrupt controller that is known, which a draft calls version 0, has no distributor.
    let bytes = if gic.version.value == 0 { 0 } else { distributor_bytes(file) };
    add(board.gicd.0, bytes, distributor, span, Kind::WholePages);
    for region in &gic.redistributors {
        let bytes = resolve::size(&region.size, report).unwrap_or_default();
        add(region.address.value, bytes, String::from("the redistributors"), region.span, Kind::WholePages);
    }
    if let (Some(uart), Some(written)) = (&board.uart, resolve::monitor_uart(file)) {
        add(uart.address.0, PAGE_BYTES, String::from("the UART"), written.span, Kind::WholePages);
    }
    for one in pci::nobodys(file, report) {
        add(one.start, one.bytes, one.name, one.span, Kind::Nobodys);
    }
    for (start, bytes, name, span) in
        file.secure.as_ref().zip(board.secure.as_ref()).map(secure::ranges).into_iter().flatten()
    {
        add(start, bytes, name, span, Kind::WholePages);
    }
    for (device, place) in board.devices.iter().zip(places) {
        add(device.address.0, device.bytes, format!("device `{}`", device.name), *place, Kind::Given);
    }
    let bits = file.physical_address_bits.value;
    // RAM was looked at with its banks.
    let is_mapped = |one: &&Used| one.kind != Kind::Nobodys;
    for one in used.iter().skip(board.banks.len()).filter(is_mapped).filter(|one| one.end > 1 << bits.min(63)) {
        let message = format!("{} ends at {:#x}, beyond the {bits} bits of a physical address", one.name, one.end);
        report.push(Diagnostic::new(Code::BadBoard, message).at(one.span, ""));
    }
    for (index, one) in used.iter().enumerate() {
        let granule = if one.kind == Kind::Given { 1 } else { PAGE_BYTES };
        let touches = |other: &&Used| {
            let is_between_nobodys = one.kind == Kind::Nobodys && other.kind == Kind::Nobodys;
            one.start - one.start % granule < other.end.checked_next_multiple_of(granule).unwrap_or(u64::MAX)
                && other.start - other.start % granule < one.end.checked_next_multiple_of(granule).unwrap_or(u64::MAX)
                && !is_between_nobodys
        };
        // That RAM is apart from what is nobody's is a limit, since a draft can have such a board; that banks are was checked with their
        // order.
        let banks = board.banks.len();
        let others = used.iter().skip(if index < banks { banks } else { index + 1 });
        for other in others.filter(|other| index >= banks || other.kind != Kind::Nobodys).filter(touches) {
            let message = if one.kind != Kind::Given {
                format!("{} and {} are in one page", one.name, other.name)
            } else {
                format!("addresses of {} and {} overlap", one.name, other.name)
            };
            report.push(
                Diagnostic::new(Code::BadBoard, message).at(other.span, "").at(one.span, "this has them already"),
            );
        }
    }
}

/// Checks names and interrupts of a board's devices.
fn check_devices(file: &BoardFile, board: &model::Board, places: &[Span], report: &mut Report) {
    let exists = |intid: u32| intid - Intid::FIRST_SHARED < board.shared_interrupts;
    if let (Some(uart), Some(written)) = (&board.uart, resolve::monitor_uart(file)) {
        let trouble = match uart.intid {
            intid if !exists(intid) => "does not exist: there are fewer `shared_interrupts`",
            intid if board.spare_interrupts.contains(&intid) => "is listed as spare",
            _ => "",
        };
        if !trouble.is_empty() {
            let message = format!("interrupt {} of the UART {trouble}", uart.intid);
            report.push(Diagnostic::new(Code::BadBoard, message).at(written.interrupt.span, ""));
        }
    }
    for (index, (device, place)) in board.devices.iter().zip(places).enumerate() {
        if let Some((_, other)) =
            board.devices.iter().zip(places).take(index).find(|(other, _)| other.name == device.name)
        {
            let message = format!("two devices are called `{}`", device.name);
            report.push(Diagnostic::new(Code::BadBoard, message).at(*place, "").at(*other, "the other one"));
        }
        for interrupt in &device.interrupts {
            let owner = match interrupt.intid {
                intid if board.spare_interrupts.contains(&intid) => "is listed as spare",
                intid if board.uart.is_some_and(|uart| uart.intid == intid) => "belongs to the UART",
                intid if !exists(intid) => "does not exist: there are fewer `shared_interrupts`",
                _ => continue,
            };
            let message = format!("interrupt {} of device `{}` {owner}", interrupt.intid, device.name);
            report.push(Diagnostic::new(Code::BadBoard, message).at(*place, ""));
        }
    }
    if let Some(spare) = board.spare_interrupts.iter().find(|intid| !exists(**intid)) {
        let message = format!("the spare interrupt {spare} does not exist: there are fewer `shared_interrupts`");
        report.push(Diagnostic::new(Code::BadBoard, message).at(file.interrupt_controller.shared_interrupts.span, ""));
    }
}
