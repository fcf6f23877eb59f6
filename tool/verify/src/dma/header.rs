//! What a guest sees of a function: a header without anything by which it could raise a message or reach around its base addresses.

use super::Function;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, page_end};
use bulkhead_abi::devices::Bar;
use bulkhead_abi::plan::INTERRUPT_DEVICE;
use bulkhead_guest_abi::guest::GUEST_PCI_DEVICES;
use std::collections::BTreeSet;
use std::ops::Range;

/// Vendor-specific capability (PCI Local Bus 3.0, appendix H).
const VENDOR_SPECIFIC: u8 = 0x09;
/// virtio's type 5 reads and writes base addresses through configuration space (virtio 1.1, 4.1.4.8).
const VIRTIO_VENDOR: u32 = 0x1af4;
const VIRTIO_WINDOW: u8 = 5;
/// Status: there is a list of capabilities.
const HAS_CAPABILITIES: u32 = 1 << 20;
/// Where capabilities may be: behind the header proper.
const CAPABILITIES: Range<usize> = 0x40..0x100;

/// Checks header, base addresses and line of a function.
pub(super) fn check(contents: &Contents, function: &Function, findings: &mut Findings) {
    if let Err(why) = header(function).and_then(|()| capabilities(function)) {
        findings.add(Code::FunctionHeader, format!("the header of {} {why}", function.name()));
    }
    let Some(partition) = contents.partitions.get(function.partition) else { return };
    let Some(plan) = partition.plan.pci().get(function.index) else { return };
    let own = partition.plan.interrupts().iter().find(|interrupt| interrupt.intid == plan.interrupt);
    let line = own.is_some_and(|interrupt| interrupt.kind == INTERRUPT_DEVICE && interrupt.edge == 0);
    findings.require(line, Code::FunctionLine, || {
        format!("{}: interrupt {} is no level-sensitive one of its partition", function.name(), plan.interrupt)
    });
}

fn word(function: &Function, index: usize) -> u32 {
    function.plan.header.get(index).copied().unwrap_or(0)
}

fn header(function: &Function) -> Result<(), String> {
    let at = |index: usize| word(function, index);
    if at(0) & 0xffff == 0xffff || at(0) == 0 {
        return Err(String::from("has no identity"));
    }
    // Status says at most that there are capabilities; Command is live and reads as nothing here.
    let status = if at(13) == 0 { 0 } else { HAS_CAPABILITIES };
    if at(1) != status || at(3) != 0 {
        return Err(format!("has Status and Command {:#x} or a header type that is not 0", at(1)));
    }
    if at(10) != 0 || at(12) != 0 || at(14) != 0 || at(15) != 1 << 8 {
        return Err(String::from("has a CIS, an expansion ROM, another pin than INTA, or something reserved"));
    }
    let mut index = 0;
    while index < function.plan.bars.len() {
        index += base_address(function, index)?;
    }
    Ok(())
}

/// Checks the base address register at an index; gives how many registers it takes.
fn base_address(function: &Function, index: usize) -> Result<usize, String> {
    let shown = word(function, 4 + index);
    let Some(bar) = function.plan.bars.get(index) else { return Ok(1) };
    if bar.bytes == 0 {
        let empty = shown == 0 && bar.guest.0 == 0 && bar.physical.0 == 0;
        return if empty { Ok(1) } else { Err(format!("shows base address {index}, behind which there is nothing")) };
    }
    let aligned = bar.bytes.is_power_of_two() && bar.bytes >= 16 && bar.physical.0.is_multiple_of(bar.bytes.max(PAGE));
    if !aligned {
        return Err(format!("has base address {index} with {:#x} bytes at {}", bar.bytes, bar.physical));
    }
    // In place, and shown to nobody.
    if bar.guest.0 == 0 {
        return if shown == 0 {
            Ok(1)
        } else {
            Err(format!("shows base address {index}, which is at no guest address"))
        };
    }
    let end = bar.guest.0.saturating_add(bar.bytes);
    let inside = GUEST_PCI_DEVICES.start <= bar.guest.0 && end <= GUEST_PCI_DEVICES.end;
    if !inside || !bar.guest.0.is_multiple_of(bar.bytes.max(PAGE)) {
        return Err(format!("has base address {index} at guest address {}", bar.guest));
    }
    let is_wide = shown & 6 == 4;
    // A narrow register would drop the upper half, and the function would answer elsewhere.
    if !is_wide && bar.physical.0.saturating_add(bar.bytes) > 1 << 32 {
        return Err(format!("has base address {index} at {}, which its register cannot hold", bar.physical));
    }
    let good = shown & 1 == 0 && matches!(shown & 6, 0 | 4) && u64::from(shown & !0xf) == bar.guest.0;
    if !good || is_wide && word(function, 5 + index) != 0 {
        return Err(format!("shows base address {index} as {shown:#x}, it is memory at {}", bar.guest));
    }
    let upper = function.plan.bars.get(index + 1).filter(|_| is_wide);
    match upper {
        Some(upper) if *upper != Bar::default() => {
            Err(format!("has something behind the upper half of base address {index}"))
        }
        _ if is_wide && upper.is_none() => Err(format!("has no upper half for base address {index}")),
        _ => Ok(if is_wide { 2 } else { 1 }),
    }
}

/// Follows the chain: vendor-specific capabilities alone, and nothing between them.
fn capabilities(function: &Function) -> Result<(), String> {
    let bytes: Vec<u8> = function.plan.header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut used = BTreeSet::new();
    let mut at = usize::from(byte(0x34));
    if word(function, 13) > 0xff {
        return Err(String::from("has something beside its first capability"));
    }
    while at != 0 {
        let length = usize::from(byte(at + 2));
        let inside = at.is_multiple_of(4) && CAPABILITIES.start <= at && at + length <= CAPABILITIES.end && length >= 4;
        if !inside || !(at..at + length).all(|place| used.insert(place)) {
            return Err(format!("has a capability at {at:#x} outside its place, or in another one"));
        }
        if byte(at) != VENDOR_SPECIFIC {
            return Err(format!("shows capability {:#x}, which is not vendor-specific", byte(at)));
        }
        if word(function, 0) & 0xffff == VIRTIO_VENDOR {
            virtio(function, at, &byte)?;
        }
        at = usize::from(byte(at + 1));
    }
    match CAPABILITIES.clone().find(|place| byte(*place) != 0 && !used.contains(place)) {
        Some(place) => Err(format!("has a byte at {place:#x} that belongs to no capability")),
        None => Ok(()),
    }
}

/// A capability of virtio names a piece of a base address that the guest sees.
fn virtio(function: &Function, at: usize, byte: &impl Fn(usize) -> u8) -> Result<(), String> {
    let number = |at: usize| (0..4).rev().fold(0_u64, |value, place| value << 8 | u64::from(byte(at + place)));
    if byte(at + 3) == VIRTIO_WINDOW {
        return Err(format!("has virtio's window into base addresses at {at:#x}"));
    }
    let bar = function.plan.bars.get(usize::from(byte(at + 4))).filter(|bar| bar.guest.0 != 0);
    let end = number(at + 8).saturating_add(number(at + 12));
    if bar.is_none_or(|bar| end > page_end(bar.bytes)) {
        return Err(format!("has a capability at {at:#x} about a base address that the guest does not see"));
    }
    Ok(())
}
