//! Models of PCI functions: from written facts to the bytes that a function shows after reset.

use super::{Backing, Behind, HostBridge, PciModel, Reset, refuse};
use crate::board::resolve::size;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use bulkhead_abi::devices::{HEADER_WORDS, MAX_BARS};
use bulkhead_plan::model;

/// Bytes of a function's header that a model can say.
const HEADER_BYTES: usize = HEADER_WORDS * 4;
/// Where capabilities begin at the earliest.
const FIRST_CAPABILITY: u64 = 0x40;

/// Resolves a model.
pub(super) fn model(written: &PciModel, host: &HostBridge, report: &mut Report) -> Option<model::PciModel> {
    let name = &written.name;
    let is_behind = written.behind_root_port.as_ref().filter(|state| state.value);
    if let Some(state) = is_behind.filter(|_| host.root_port.is_none()) {
        refuse(report, state.span, format!("model `{}` needs a `root_port` in `[pci]`", name.value));
    }
    let qemu = written.qemu.as_ref().map_or("", |text| text.value.as_str());
    confined(written, qemu, host, report);
    let bars = bars(written, report)?;
    let bytes = configuration(written, &bars, report)?;
    let reset = reset(written, &bytes, &bars, report)?;
    let mut words = [0; HEADER_WORDS];
    for (word, four) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*four);
    }
    Some(model::PciModel {
        name: name.value.clone(),
        qemu: qemu.to_owned(),
        backing: match written.backing.as_ref().map(|one| one.value) {
            None => model::PciBacking::Nothing,
            Some(Backing::Disk) => model::PciBacking::Disk,
            Some(Backing::Network) => model::PciBacking::Network,
        },
        configuration: words,
        bars,
        reset,
        is_confined: written.confined.value,
        is_behind_root_port: is_behind.is_some(),
    })
}

/// Checks a model's claim that the SMMU confines it.
fn confined(written: &PciModel, qemu: &str, host: &HostBridge, report: &mut Report) {
    if !written.confined.value {
        return;
    }
    let name = &written.name.value;
    let mut not = |label: &str, span: Span, help: &str| {
        let message = format!("nothing confines the DMA of model `{name}`, which says `confined = true`");
        let diagnostic = Diagnostic::new(Code::ModelNotConfined, message).at(written.confined.span, "says so");
        report.push(diagnostic.at(span, label).help(help));
    };
    if host.smmu.is_none() {
        not("has no `smmu`", host.ecam.span, "say in `[pci]` where the SMMU is, or `confined = false`");
    } else if qemu.starts_with("virtio-") && !qemu.split(',').any(|option| option == "iommu_platform=on") {
        let span = written.qemu.as_ref().map_or(written.name.span, |text| text.span);
        not("goes past the SMMU", span, "add `iommu_platform=on`, or say `confined = false`");
    }
}

/// What is behind the base address registers.
fn bars(written: &PciModel, report: &mut Report) -> Option<[model::ModelBar; MAX_BARS]> {
    let mut bars = [model::ModelBar::default(); MAX_BARS];
    let mut taken = [false; MAX_BARS];
    for one in &written.bars {
        let bytes = size(&one.size, report)?;
        let says = |state: &Option<Located<bool>>| state.as_ref().is_some_and(|state| state.value);
        let (is_wide, holds) = (says(&one.wide), one.holds.as_ref().map(|word| word.value));
        let register = usize::try_from(one.register.value).unwrap_or(usize::MAX);
        let own = taken.get_mut(register..).and_then(|rest| rest.get_mut(..1 + usize::from(is_wide)));
        let is_free = own.is_some_and(|own| {
            let is_free = !own.contains(&true);
            own.fill(true);
            is_free
        });
        if !is_free {
            refuse(
                report,
                one.register.span,
                "a function has base address registers 0 to 5, a wide one takes two, and each is listed once",
            );
            return None;
        }
        if !bytes.is_power_of_two() || !(16..=1 << 31).contains(&bytes) {
            refuse(
                report,
                one.size.span,
                "what is behind a base address register has a power of two of bytes, 16 B to 2 GiB",
            );
            return None;
        }
        if let Some(bar) = bars.get_mut(register) {
            *bar = model::ModelBar {
                bytes,
                is_wide,
                is_prefetchable: says(&one.prefetchable),
                is_ports: holds == Some(Behind::Ports),
                is_messages: holds == Some(Behind::Messages),
            };
        }
    }
    Some(bars)
}

/// The first bytes of configuration space, with capabilities, base addresses zero.
fn configuration(
    written: &PciModel,
    bars: &[model::ModelBar; MAX_BARS],
    report: &mut Report,
) -> Option<[u8; HEADER_BYTES]> {
    let mut bytes = [0; HEADER_BYTES];
    let mut put = |offset: usize, count: usize, value: Option<&Located<u64>>, report: &mut Report| {
        let Some(value) = value else { return Some(()) };
        if value.value >> (8 * count) != 0 {
            refuse(report, value.span, format!("this has {} bits", 8 * count));
            return None;
        }
        bytes.get_mut(offset..offset + count)?.copy_from_slice(value.value.to_le_bytes().get(..count)?);
        Some(())
    };
    put(0x00, 2, Some(&written.vendor), report)?;
    put(0x02, 2, Some(&written.device), report)?;
    put(0x08, 1, written.revision.as_ref(), report)?;
    put(0x09, 3, Some(&written.class), report)?;
    put(0x2c, 2, written.subsystem_vendor.as_ref(), report)?;
    put(0x2e, 2, written.subsystem.as_ref(), report)?;
    for (register, bar) in bars.iter().enumerate() {
        let kind = u8::from(bar.is_ports) | u8::from(bar.is_wide) << 2 | u8::from(bar.is_prefetchable) << 3;
        *bytes.get_mut(0x10 + 4 * register)? = kind;
    }
    // Interrupt pin: INTA.
    *bytes.get_mut(0x3d)? = 1;
    capabilities(written, &mut bytes, report)?;
    Some(bytes)
}

/// Puts the capabilities to their places and checks their chain.
fn capabilities(written: &PciModel, bytes: &mut [u8; HEADER_BYTES], report: &mut Report) -> Option<()> {
    let mut taken = [false; HEADER_BYTES];
    for (index, one) in written.capabilities.iter().enumerate() {
        let Some(content) = hexadecimal(&one.bytes.value) else {
            refuse(report, one.bytes.span, "a capability is two bytes or more in pairs of hexadecimal digits");
            return None;
        };
        let start = one.offset.value;
        let place = usize::try_from(start).ok().filter(|_| start >= FIRST_CAPABILITY && start.is_multiple_of(4));
        let place = place.and_then(|start| Some(start..start.checked_add(content.len())?));
        let (Some(own), Some(place)) = (place.clone().and_then(|place| taken.get_mut(place)), place) else {
            refuse(
                report,
                one.offset.span,
                "a capability begins at a multiple of 4 from 0x40 on and ends before 0x100",
            );
            return None;
        };
        let next = written.capabilities.get(index + 1).map_or(0, |next| next.offset.value);
        if own.contains(&true) || content.get(1).map(|next| u64::from(*next)) != Some(next) {
            let why = format!(
                "the second byte of this capability is the place of the next one, {next:#04x}, and none is over another"
            );
            refuse(report, one.span, why);
            return None;
        }
        own.fill(true);
        bytes.get_mut(place)?.copy_from_slice(&content);
    }
    if let Some(first) = written.capabilities.first() {
        // Status: there are capabilities.
        *bytes.get_mut(0x06)? = 0x10;
        *bytes.get_mut(0x34)? = u8::try_from(first.offset.value).ok()?;
    }
    Some(())
}

/// Reads bytes in pairs of hexadecimal digits, at least two.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text
        .split_ascii_whitespace()
        .map(|pair| u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2 && !pair.starts_with('+')))
        .collect();
    bytes.filter(|bytes| bytes.len() >= 2)
}

/// Finds what the reset of a model needs.
fn reset(
    written: &PciModel,
    bytes: &[u8; HEADER_BYTES],
    bars: &[model::ModelBar; MAX_BARS],
    report: &mut Report,
) -> Option<model::PciReset> {
    let word = |offset: usize| {
        bytes.get(offset..offset + 4).and_then(|four| four.first_chunk()).map(|four| u32::from_le_bytes(*four))
    };
    let mut places = written.capabilities.iter().filter_map(|one| usize::try_from(one.offset.value).ok());
    let found = match written.reset.value {
        Reset::None => Some(model::PciReset::None),
        Reset::FunctionLevel => places
            // Device capabilities, bit 28 (PCI Express 7.5.3.3).
            .find(|place| bytes.get(*place) == Some(&0x10) && word(place + 4).is_some_and(|one| one >> 28 & 1 == 1))
            .and_then(|place| u32::try_from(place).ok())
            .map(|capability| model::PciReset::FunctionLevel { capability }),
        Reset::Virtio => places
            // The common configuration; the status is its byte 0x14 (virtio 1.2, 4.1.4).
            .find(|place| bytes.get(*place) == Some(&0x09) && bytes.get(place + 3) == Some(&1))
            .and_then(|place| Some((usize::from(*bytes.get(place + 4)?), u64::from(word(place + 8)?) + 0x14)))
            .filter(|(bar, offset)| {
                bars.get(*bar).is_some_and(|bar| *offset < bar.bytes && !bar.is_ports && !bar.is_messages)
            })
            .map(|(bar, offset)| model::PciReset::Virtio { bar, offset }),
    };
    if found.is_none() {
        let what = match written.reset.value {
            Reset::Virtio => "common configuration of virtio behind a listed register",
            _ => "PCI Express capability with a function-level reset",
        };
        let message = format!("model `{}` has no {what}", written.name.value);
        refuse(report, written.reset.span, message);
    }
    found
}
