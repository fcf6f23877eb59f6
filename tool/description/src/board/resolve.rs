//! From the written board to the resolved one.

use super::{BoardDevice, BoardFile, Range, ResolvedBoard, Trigger, Uart, addresses, pci, secure};
use crate::code::Code;
use crate::decode::{Located, Size};
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use crate::unit::parse_size;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_arm::Intid;
use bulkhead_arm::core_type::CoreType;
use bulkhead_plan::model;

/// Distance of redistributor frames when the file does not say it (GICv3 without GICv4).
pub(super) const GICR_STRIDE_BYTES: u64 = 0x2_0000;
/// Most devices, UARTs among them. They are compared with each other, and that must not take long with a hostile file.
pub const MOST_DEVICES: usize = 4096;
/// Kind of UART that the monitor can use.
pub(super) const PL011: &str = "pl011";

/// Turns the written board into the resolved one and checks that its facts fit together.
pub(super) fn resolve(file: &BoardFile, report: &mut Report) -> Option<ResolvedBoard> {
    let banks = file.memory.value.iter().map(|bank| range(bank, report)).collect::<Option<Vec<_>>>()?;
    let mut reserved = Vec::new();
    for one in &file.reserved {
        let bytes = size(&one.size, report)?;
        let bank = model::Bank { start: PhysicalAddress(one.address.value), bytes };
        reserved.push(model::Reserved { name: one.name.value.clone(), range: bank });
    }
    let cores = file.cores.value.iter();
    let cores = cores.flat_map(|group| group.mpidr.value.iter().map(|mpidr| (mpidr.value, group.kind.as_str())));
    let (core_mpidr, core_types) = cores.map(|(mpidr, kind)| (mpidr, CoreType::named(kind))).unzip();
    let (devices, places, dma_confinable) = devices(file, report)?;
    let monitor_uart = monitor_uart(file);
    let gic = &file.interrupt_controller.value;
    let board = model::Board {
        name: file.name.value.clone(),
        banks,
        reserved,
        load_address: PhysicalAddress(file.load_address.value),
        physical_address_bits: u32::try_from(file.physical_address_bits.value).unwrap_or(u32::MAX),
        core_mpidr,
        core_types,
        counter_hz: file.counter_hz.value,
        gicd: PhysicalAddress(gic.distributor.value),
        gicr: redistributors(file, report)?,
        security_states: u32::try_from(gic.security_states.value).unwrap_or(u32::MAX),
        shared_interrupts: u32::try_from(gic.shared_interrupts.value).unwrap_or(u32::MAX),
        spare_interrupts: spares(file, report)?,
        uart: match monitor_uart {
            Some(uart) => Some(model::BoardUart {
                address: PhysicalAddress(uart.address.value),
                intid: intid(&uart.interrupt, report)?,
            }),
            None => None,
        },
        devices,
        pci: pci::resolve(file, report)?,
        secure: match &file.secure {
            Some(secure) => Some(secure::resolve(secure, report)?),
            None => None,
        },
        qemu: file.qemu.as_ref().map(|qemu| model::QemuFacts {
            machine: qemu.machine.value.clone(),
            bare_machine: qemu.bare_machine.as_ref().map(|text| text.value.clone()),
            pci_machine: qemu.pci_machine.as_ref().map(|text| text.value.clone()),
            root_port: qemu.root_port.as_ref().map(|text| text.value.clone()),
            cpu: qemu.cpu.as_ref().map(|text| text.value.clone()),
            cores: qemu.cores.as_ref().and_then(|number| usize::try_from(number.value).ok()),
            arguments: qemu.arguments.iter().map(|argument| argument.value.clone()).collect(),
            uarts: file.uart.iter().map(|uart| qemu_uart(uart)).chain(secure::qemu_uart(file)).collect(),
            boot_loader: qemu.boot_loader.as_ref().map(|text| text.value.clone()),
        }),
    };
    addresses::check(file, &board, &places, report);
    let uart_name = monitor_uart.map(|uart| uart.name.value.clone());
    let uart_clock_hz = monitor_uart.and_then(|uart| uart.clock_hz.as_ref()).map(|clock| clock.value);
    Some(ResolvedBoard { board, dma_confinable, uart_name, uart_clock_hz })
}

/// The UART that the monitor may use.
pub(super) fn monitor_uart(file: &BoardFile) -> Option<&Located<Uart>> {
    file.uart.iter().find(|uart| uart.monitor.as_ref().is_some_and(|state| state.value))
}

fn qemu_uart(uart: &Uart) -> model::QemuUart {
    let is_monitors = uart.monitor.as_ref().is_some_and(|state| state.value);
    model::QemuUart { name: uart.name.value.clone(), is_monitors }
}

pub(super) fn range(written: &Located<Range>, report: &mut Report) -> Option<model::Bank> {
    Some(model::Bank { start: PhysicalAddress(written.address.value), bytes: size(&written.size, report)? })
}

/// The frame of each core, in the order of the cores.
fn redistributors(file: &BoardFile, report: &mut Report) -> Option<Vec<PhysicalAddress>> {
    let gic = &file.interrupt_controller.value;
    let stride = gic.redistributor_stride.as_ref().map_or(GICR_STRIDE_BYTES, |stride| stride.value.max(1));
    let mut frames = Vec::new();
    for region in &gic.redistributors {
        let bytes = size(&region.size, report)?;
        let count = (bytes / stride).min(super::limits::MOST_FRAMES.saturating_sub(frames.len() as u64));
        let frame = |index: u64| region.address.value.saturating_add(index * stride);
        frames.extend((0..count).map(|index| PhysicalAddress(frame(index))));
    }
    Some(frames)
}

type Devices = (Vec<model::BoardDevice>, Vec<Span>, Vec<bool>);

/// Everything that can be passed through: devices, and UARTs that are not the monitor's.
fn devices(file: &BoardFile, report: &mut Report) -> Option<Devices> {
    let (mut devices, mut places, mut dma_confinable) = (Vec::new(), Vec::new(), Vec::new());
    let monitors = monitor_uart(file);
    for uart in file.uart.iter().filter(|uart| monitors.is_none_or(|other| other.span != uart.span)) {
        let pl011: &[&str] = if uart.kind.value == PL011 { &["arm,pl011", "arm,primecell"] } else { &[] };
        devices.push(model::BoardDevice {
            name: uart.name.value.clone(),
            address: PhysicalAddress(uart.address.value),
            bytes: PAGE_BYTES,
            interrupts: vec![model::BoardInterrupt { intid: intid(&uart.interrupt, report)?, edge: false }],
            dma: false,
            compatible: match uart.compatible.as_slice() {
                [] => pl011.iter().map(|text| (*text).to_owned()).collect(),
                written => written.iter().map(|text| text.value.clone()).collect(),
            },
            clock_hz: uart.clock_hz.as_ref().map_or(0, |clock| clock.value),
        });
        places.push(uart.name.span);
        dma_confinable.push(true);
    }
    for device in &file.device {
        let group = expand(device, report)?;
        if devices.len() + group.len() > MOST_DEVICES {
            let message = format!("there are more than {MOST_DEVICES} devices, those of a `count` one by one");
            report.push(Diagnostic::new(Code::TooManyEntries, message).at(device.name.span, "the first one too many"));
            return None;
        }
        places.extend(group.iter().map(|_| device.name.span));
        dma_confinable.extend(group.iter().map(|_| device.dma_confinable.as_ref().is_none_or(|state| state.value)));
        devices.extend(group);
    }
    Some((devices, places, dma_confinable))
}

/// One entry of `[[device]]` as the devices it stands for.
fn expand(device: &BoardDevice, report: &mut Report) -> Option<Vec<model::BoardDevice>> {
    let bytes = size(&device.size, report)?;
    let count = device.count.as_ref().map_or(1, |count| count.value);
    let last_intid =
        device.interrupts.iter().map(|interrupt| interrupt.intid.value.saturating_add(count)).max().unwrap_or(0);
    if !(1..=u64::from(Intid::FIRST_SPECIAL)).contains(&count)
        || bytes == 0
        || last_intid > u64::from(Intid::FIRST_SPECIAL)
        || bytes.checked_mul(count).and_then(|all| all.checked_add(device.address.value)).is_none()
    {
        let span = device.count.as_ref().map_or(device.size.span, |count| count.span);
        let message = format!(
            "device `{}` does not fit: sizes and counts are 1 or more, INTIDs below {}",
            device.name.value,
            Intid::FIRST_SPECIAL
        );
        report.push(Diagnostic::new(Code::BadBoard, message).at(span, ""));
        return None;
    }
    let mut group = Vec::new();
    for index in 0..count {
        let mut interrupts = Vec::new();
        for interrupt in &device.interrupts {
            let first = intid(&interrupt.intid, report)?;
            let offset = u32::try_from(index).ok()?;
            interrupts.push(model::BoardInterrupt {
                intid: first.checked_add(offset)?,
                edge: interrupt.trigger.value == Trigger::Edge,
            });
        }
        group.push(model::BoardDevice {
            name: if device.count.is_some() {
                format!("{}{index}", device.name.value)
            } else {
                device.name.value.clone()
            },
            address: PhysicalAddress(device.address.value + index * bytes),
            bytes,
            interrupts,
            dma: device.dma.as_ref().is_some_and(|state| state.value),
            compatible: device.compatible.iter().map(|text| text.value.clone()).collect(),
            clock_hz: device.clock_hz.as_ref().map_or(0, |clock| clock.value),
        });
    }
    Some(group)
}

/// Reads a size of the board file.
pub(super) fn size(text: &Located<Size>, report: &mut Report) -> Option<u64> {
    match parse_size(&text.value.0) {
        Ok(bytes) => Some(bytes),
        Err(bad) => {
            report.push(Diagnostic::new(Code::BadQuantity, bad.problem).at(text.span, ""));
            None
        }
    }
}

/// Reads the INTID of a shared peripheral interrupt.
pub(super) fn intid(number: &Located<u64>, report: &mut Report) -> Option<u32> {
    let found =
        u32::try_from(number.value).ok().filter(|intid| (Intid::FIRST_SHARED..Intid::FIRST_SPECIAL).contains(intid));
    if found.is_none() {
        let message = format!("{} is not the INTID of a shared peripheral interrupt", number.value);
        report.push(
            Diagnostic::new(Code::BadBoard, message)
                .at(number.span, format!("expected 32 to {}", Intid::FIRST_SPECIAL - 1)),
        );
    }
    found
}

/// The spare interrupts in order.
fn spares(file: &BoardFile, report: &mut Report) -> Option<Vec<u32>> {
    let mut spares = Vec::new();
    for range in &file.interrupt_controller.spare {
        let (first, last) = (intid(&range.first, report)?, intid(&range.last, report)?);
        if first > last || spares.iter().any(|spare| (first..=last).contains(spare)) {
            let message = format!("spare interrupts {first} to {last} are no range, or partly listed before");
            report.push(Diagnostic::new(Code::BadBoard, message).at(range.span, ""));
            return None;
        }
        spares.extend(first..=last);
    }
    Some(spares)
}
