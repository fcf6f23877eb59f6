//! The facts of a board that is entered at EL3: what only the secure world reaches.
//!
//! A section of the file and not flags at `device`: nothing of it can be given to a partition, and a board has all of it or nothing.

use super::{BoardFile, ExceptionLevel, Secure, resolve};
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_arm::Intid;
use bulkhead_plan::model::{self, SecureDevice, SecureFacts, SecureGpio};
use bulkhead_world::flash::{MONITOR, SECURE_CONSOLE, secure_ram};

/// Lines of a PL061.
const GPIO_LINES: u64 = 8;

/// Turns the written section into the resolved one.
pub(super) fn resolve(secure: &Secure, report: &mut Report) -> Option<SecureFacts> {
    let device = |name: &Located<String>, address: &Located<u64>, intid| SecureDevice {
        name: name.value.clone(),
        address: PhysicalAddress(address.value),
        intid,
    };
    let line = |number: &Located<u64>| u32::try_from(number.value).unwrap_or(u32::MAX);
    let gpio = secure.gpio.as_ref().map(|gpio| SecureGpio {
        device: device(&gpio.name, &gpio.address, None),
        power_off: line(&gpio.power_off),
        restart: line(&gpio.restart),
    });
    Some(SecureFacts {
        ram: resolve::range(&secure.ram, report)?,
        flash: resolve::range(&secure.flash, report)?,
        timer: u32::try_from(secure.timer.value).unwrap_or(u32::MAX),
        uart: device(&secure.uart.name, &secure.uart.address, Some(resolve::intid(&secure.uart.interrupt, report)?)),
        gpio,
    })
}

/// The secure console as QEMU connects it.
pub(super) fn qemu_uart(file: &BoardFile) -> Option<model::QemuUart> {
    let name = file.secure.as_ref()?.uart.name.value.clone();
    Some(model::QemuUart { name, is_monitors: false })
}

/// First addresses, bytes, names and places of what the section takes.
pub(super) fn ranges((written, facts): (&Located<Secure>, &SecureFacts)) -> Vec<(u64, u64, String, Span)> {
    let mut ranges = vec![
        (facts.ram.start.0, facts.ram.bytes, String::from("secure RAM"), written.ram.span),
        (facts.flash.start.0, facts.flash.bytes, String::from("the flash"), written.flash.span),
        (facts.uart.address.0, PAGE_BYTES, format!("the UART `{}`", facts.uart.name), written.uart.span),
    ];
    if let (Some(gpio), Some(written)) = (&facts.gpio, &written.gpio) {
        ranges.push((gpio.device.address.0, PAGE_BYTES, format!("the GPIO `{}`", gpio.device.name), written.span));
    }
    ranges
}

/// Checks that the section is there if it is needed, and that its facts fit those of the board.
pub(super) fn check(file: &BoardFile, board: &model::Board, report: &mut Report) {
    let mut refuse = |span: Span, message: &str| report.push(Diagnostic::new(Code::BadBoard, message).at(span, ""));
    let (Some(written), Some(facts)) = (&file.secure, &board.secure) else {
        if file.enters_at.value == ExceptionLevel::El3 {
            refuse(file.enters_at.span, "a board that is entered at EL3 has a section `[secure]`");
        }
        return;
    };
    if file.enters_at.value != ExceptionLevel::El3 {
        refuse(written.span, "only a board with `enters_at = \"el3\"` has a section `[secure]`");
    }
    let gic = &file.interrupt_controller.value;
    if gic.security_states.value == 1 {
        refuse(gic.security_states.span, "with a section `[secure]` an interrupt controller has 2 security states");
    }
    let private = Intid::SOFTWARE_END..Intid::FIRST_SHARED;
    let others = [Intid::PHYSICAL_TIMER, Intid::VIRTUAL_TIMER, Intid::HYPERVISOR_TIMER];
    if !private.contains(&facts.timer) || others.iter().any(|other| other.0 == facts.timer) {
        refuse(written.timer.span, "the secure timer has a private interrupt of its own, INTID 16 to 31");
    }
    if let Some(intid) = facts.uart.intid {
        let is_others = board.devices.iter().flat_map(|device| &device.interrupts).any(|other| other.intid == intid);
        if is_others || board.uart.is_some_and(|uart| uart.intid == intid) || board.spare_interrupts.contains(&intid) {
            refuse(
                written.uart.interrupt.span,
                "the interrupt of the secure UART is another device's, or listed as spare",
            );
        }
        if intid - Intid::FIRST_SHARED >= board.shared_interrupts {
            refuse(written.uart.interrupt.span, "this interrupt does not exist: there are fewer `shared_interrupts`");
        }
    }
    if let (Some(gpio), Some(place)) = (&facts.gpio, &written.gpio) {
        if u64::from(gpio.power_off.max(gpio.restart)) >= GPIO_LINES || gpio.power_off == gpio.restart {
            refuse(place.span, "a PL061 has the lines 0 to 7, and these are two of them");
        }
        if gpio.device.name == facts.uart.name {
            refuse(place.span, "UART and GPIO have one name");
        }
    }
    let names: Vec<&str> = board.devices.iter().map(|device| device.name.as_str()).collect();
    for (device, span) in facts.devices().zip([Some(written.uart.span), written.gpio.as_ref().map(|gpio| gpio.span)]) {
        if names.contains(&device.name.as_str()) {
            refuse(span.unwrap_or(written.span), "a device of the non-secure world has this name");
        }
    }
}

/// What keeps the secure monitor, which is linked for its place, from running on a board: where it is written, and why.
pub(super) fn limit(file: &BoardFile, board: &model::Board) -> Option<(Span, String)> {
    let (written, facts) = file.secure.as_ref().zip(board.secure.as_ref())?;
    let expected = [
        (written.ram.span, "secure RAM", facts.ram.start.0, secure_ram::CONTEXTS),
        (written.flash.span, "the flash", facts.flash.start.0, MONITOR),
        (written.uart.span, "the secure UART", facts.uart.address.0, SECURE_CONSOLE),
    ];
    let other = expected.into_iter().find(|(.., found, expected)| found != expected);
    if let Some((span, what, found, expected)) = other {
        return Some((span, format!("{what} is at {found:#x}, and the secure monitor has it at {expected:#x}")));
    }
    None
}
