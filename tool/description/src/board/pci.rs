//! The PCI host bridge of a board and the kinds of functions behind it: what is written, and what it means.
//!
//! A model is written as the bytes that its function shows after reset, because the monitor reads no capability: the host takes a
//! header from them. `tool/run/tests/pci_models.rs` compares those of the reference board with what QEMU shows. The list of an older file,
//! `[[pci]]`, is still read: bridges that are known and in nobody's map.

use super::{BoardFile, Range, Registers, resolve};
use crate::code::Code;
use crate::decode::{Decode, Duration, Located, Reader, Size, Value, table, words};
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use crate::unit::parse_duration;
use bulkhead_abi::devices::{HEADER_WORDS, MAX_BARS};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_arm::Intid;
use bulkhead_plan::model;
use schemars::JsonSchema;
use toml::de::DeValue;

/// Bytes of configuration space of a bus (PCI Express 7.2.2).
const BUS_BYTES: u64 = 1 << 20;
/// Bytes of an SMMUv3's registers: two pages of 64 KiB (IHI 0070, 6.1).
const SMMU_BYTES: u64 = 0x2_0000;
/// Lines that the pins of all slots are spread over.
const LINES: u32 = 4;
/// Device numbers of a bus.
const SLOTS: u64 = 32;
/// Bytes of a function's header that a model can say.
const HEADER_BYTES: usize = HEADER_WORDS * 4;
/// Where capabilities begin at the earliest.
const FIRST_CAPABILITY: u64 = 0x40;
/// Longest delay after a reset.
const LONGEST_DELAY_NS: u64 = 10_000_000_000;

/// Host bridges: one whose functions partitions may have, or a list of what is known and in nobody's map.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Pci {
    /// Known, and in nobody's map.
    Known(Vec<Located<Registers>>),
    /// Partitions may have functions behind it.
    Host(Box<HostBridge>),
}

impl Decode for Pci {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => HostBridge::decode(value, key, reader).map(|host| Self::Host(Box::new(host))),
            _ => Vec::decode(value, key, reader).map(Self::Known),
        }
    }
}

table! {
    /// A host bridge whose functions partitions may have.
    pub struct HostBridge {
        /// Configuration space (ECAM), from bus 0 on.
        ecam: Located<Range>,
        /// The window of 32-bit addresses where base address registers may point.
        window: Located<Range>,
        /// INTID of INTA of slot 0. The line of a pin is this plus (slot + pin - 1) modulo 4, level-sensitive.
        first_interrupt: Located<u64>,
        /// Slots of bus 0 that functions may have, in the order of their use; what is not here belongs to the board.
        #[schemars(inner(range(min = 0, max = 31)))]
        slots: Located<Vec<Located<u64>>>,
        /// Slot of bus 0 of a root port in front of bus 1, if there may be one.
        #[schemars(range(min = 0, max = 31))]
        root_port: Option<Located<u64>>,
        /// The SMMU in front of memory, whose StreamIDs are bus, device and function; without one nothing confines DMA.
        smmu: Option<Located<BoardSmmu>>,
        /// Most reads of a wait for a function or for the SMMU.
        #[schemars(range(min = 1, max = u32::MAX))]
        wait_limit: Located<u64>,
        /// Time after a function-level reset before the function is looked at.
        reset_delay: Located<Duration>,
        /// Further host bridges: known, and in nobody's map.
        #[schemars(default)]
        others: Vec<Located<Registers>>,
    }
}

table! {
    /// An SMMUv3.
    pub struct BoardSmmu {
        /// Its registers, two pages of 64 KiB.
        address: Located<u64>,
        /// The stage that it translates with, 1 or 2.
        #[schemars(range(min = 1, max = 2))]
        stage: Located<u64>,
    }
}

table! {
    /// A kind of function, as it comes out of reset. Its interrupt is INTA.
    pub struct PciModel {
        /// Name used in descriptions.
        name: Located<String>,
        /// Argument of QEMU's `-device`; its place and what is behind it are added.
        qemu: Option<Located<String>>,
        /// Vendor.
        #[schemars(range(max = 0xffff))]
        vendor: Located<u64>,
        /// Device.
        #[schemars(range(max = 0xffff))]
        device: Located<u64>,
        /// Revision; default 0.
        #[schemars(range(max = 0xff))]
        revision: Option<Located<u64>>,
        /// Class, subclass and programming interface, 24 bits.
        #[schemars(range(max = 0xff_ffff))]
        class: Located<u64>,
        /// Subsystem vendor; default 0.
        #[schemars(range(max = 0xffff))]
        subsystem_vendor: Option<Located<u64>>,
        /// Subsystem; default 0.
        #[schemars(range(max = 0xffff))]
        subsystem: Option<Located<u64>>,
        /// Base address registers.
        #[schemars(default)]
        bars: Vec<Located<BaseAddress>>,
        /// Capabilities, in the order of their chain.
        #[schemars(default)]
        capabilities: Vec<Located<Capability>>,
        /// How it is put back into its first state.
        reset: Located<Reset>,
        /// The SMMU confines its DMA.
        confined: Located<bool>,
        /// It sits behind the root port, on bus 1; default false.
        behind_root_port: Option<Located<bool>>,
        /// What it needs of the host; default nothing.
        backing: Option<Located<Backing>>,
    }
}

table! {
    /// A base address register.
    pub struct BaseAddress {
        /// Its number, 0 to 5.
        #[schemars(range(max = 5))]
        register: Located<u64>,
        /// Bytes behind it, a power of two.
        size: Located<Size>,
        /// It has 64 bits and takes the next register too; default false.
        wide: Option<Located<bool>>,
        /// Reads have no side effects; default false.
        prefetchable: Option<Located<bool>>,
        /// What is behind it; default `memory`.
        holds: Option<Located<Behind>>,
    }
}

words! {
    /// What is behind a base address register.
    pub enum Behind {
        /// Registers or memory.
        Memory = "memory",
        /// Tables of message-signalled interrupts and nothing else: neither shown nor mapped.
        Messages = "messages",
        /// Ports: never enabled, and the guest does not see it.
        Ports = "ports",
    }
}

table! {
    /// A capability of configuration space.
    pub struct Capability {
        /// Where it begins.
        offset: Located<u64>,
        /// Its bytes in hexadecimal digits; zeros at the end may be left out.
        bytes: Located<String>,
    }
}

words! {
    /// How a function is put back into its first state.
    pub enum Reset {
        /// Function-level reset, by its PCI Express capability.
        FunctionLevel = "flr",
        /// A zero in the status register of virtio.
        Virtio = "virtio",
        /// Not at all: a partition with it is started once.
        None = "none",
    }
}

words! {
    /// What a function needs of the host.
    pub enum Backing {
        /// A disk.
        Disk = "disk",
        /// A network.
        Network = "network",
    }
}

/// Registers that are in nobody's map.
pub(super) struct Nobodys {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) span: Span,
}

/// What is known and in nobody's map: SMMUs, host bridges, and of the one whose functions are used its window.
pub(super) fn nobodys(file: &BoardFile, report: &mut Report) -> Vec<Nobodys> {
    let pci = file.pci.as_ref().map(|pci| &pci.value);
    let bridges = match pci {
        Some(Pci::Known(list)) => list.as_slice(),
        Some(Pci::Host(host)) => host.others.as_slice(),
        None => &[],
    };
    let listed =
        file.smmu.iter().chain(bridges).map(|one| (one.name.value.as_str(), one.address.value, one.span, &one.size));
    let mut all: Vec<_> = listed
        .map(|(name, start, span, size)| Nobodys {
            name: format!("`{name}`"),
            start,
            bytes: resolve::size(size, report).unwrap_or_default(),
            span,
        })
        .collect();
    if let Some(Pci::Host(host)) = pci {
        let ranges = [(&host.ecam, "the configuration space of PCI"), (&host.window, "the window of PCI")];
        all.extend(ranges.map(|(range, name)| Nobodys {
            name: name.to_owned(),
            start: range.address.value,
            bytes: resolve::size(&range.size, report).unwrap_or_default(),
            span: range.span,
        }));
        all.extend(host.smmu.iter().map(|smmu| Nobodys {
            name: String::from("the SMMU of PCI"),
            start: smmu.address.value,
            bytes: SMMU_BYTES,
            span: smmu.span,
        }));
    }
    all
}

fn refuse(report: &mut Report, span: Span, message: impl Into<String>) {
    report.push(Diagnostic::new(Code::BadBoard, message.into()).at(span, ""));
}

/// Resolves host bridge and models. The inner `None`: partitions can have no functions.
pub(super) fn resolve(file: &BoardFile, report: &mut Report) -> Option<Option<model::PciHost>> {
    let Some(Pci::Host(host)) = file.pci.as_ref().map(|pci| &pci.value) else {
        if let Some(model) = file.pci_model.first() {
            refuse(report, model.name.span, "models of PCI functions need a table `[pci]`");
            return None;
        }
        return Some(None);
    };
    let before = report.diagnostics.len();
    let (ecam, window) = (resolve::range(&host.ecam, report)?, resolve::range(&host.window, report)?);
    places(host, ecam, window, report);
    let slots = slots(host, report);
    let first_interrupt = first_interrupt(file, host, report);
    let smmu = host.smmu.as_ref().map(|smmu| model::Smmu {
        address: PhysicalAddress(smmu.address.value),
        stage: if smmu.stage.value == 2 { model::SmmuStage::Two } else { model::SmmuStage::One },
    });
    let delay_ns = match parse_duration(&host.reset_delay.value.0) {
        Ok(delay) => delay,
        Err(bad) => {
            report.push(Diagnostic::new(Code::BadQuantity, bad.problem).at(host.reset_delay.span, ""));
            return None;
        }
    };
    if delay_ns > LONGEST_DELAY_NS {
        refuse(report, host.reset_delay.span, "a function is reset within 10 s");
    }
    let mut models: Vec<model::PciModel> = Vec::new();
    for written in &file.pci_model {
        if models.iter().any(|other| other.name == written.name.value) {
            refuse(report, written.name.span, format!("two models are called `{}`", written.name.value));
        }
        models.extend(resolve_model(written, host, report));
    }
    let ticks = u128::from(delay_ns) * u128::from(file.counter_hz.value);
    (report.diagnostics.len() == before).then(|| {
        Some(model::PciHost {
            configuration: ecam.start,
            buses: 1 + u32::from(host.root_port.is_some()),
            window,
            first_interrupt,
            slots,
            root_port: host.root_port.as_ref().and_then(|slot| u32::try_from(slot.value).ok()),
            smmu,
            reset_delay_ticks: u64::try_from(ticks.div_ceil(1_000_000_000)).unwrap_or(u64::MAX),
            wait_limit: u32::try_from(host.wait_limit.value).unwrap_or(u32::MAX),
            models,
        })
    })
}

/// Checks addresses and limits of the bridge.
fn places(host: &HostBridge, ecam: model::Bank, window: model::Bank, report: &mut Report) {
    let buses = 1 + u64::from(host.root_port.is_some());
    if !ecam.start.0.is_multiple_of(BUS_BYTES) || ecam.bytes < buses * BUS_BYTES {
        let why = format!("configuration space has {BUS_BYTES:#x} bytes for each bus and begins at a multiple of them");
        refuse(report, host.ecam.span, why);
    }
    let is_whole = window.start.0.is_multiple_of(PAGE_BYTES) && window.bytes.is_multiple_of(PAGE_BYTES);
    if !is_whole || window.bytes == 0 || window.end() > 1 << 32 {
        refuse(report, host.window.span, "the window of PCI has whole pages below 4 GiB");
    }
    if let Some(smmu) = &host.smmu {
        if !(1..=2).contains(&smmu.stage.value) {
            refuse(report, smmu.stage.span, "an SMMU translates with stage 1 or 2");
        }
        if !smmu.address.value.is_multiple_of(SMMU_BYTES / 2) {
            refuse(report, smmu.address.span, "the registers of an SMMU begin at a multiple of 64 KiB");
        }
    }
    if !(1..=u64::from(u32::MAX)).contains(&host.wait_limit.value) {
        refuse(report, host.wait_limit.span, format!("a wait has 1 to {} reads", u32::MAX));
    }
}

/// The slots of functions.
fn slots(host: &HostBridge, report: &mut Report) -> Vec<u32> {
    let mut slots: Vec<u32> = Vec::new();
    for slot in host.slots.value.iter().chain(&host.root_port) {
        let number = u32::try_from(slot.value).unwrap_or(u32::MAX);
        if slot.value >= SLOTS {
            refuse(report, slot.span, format!("a bus has slots 0 to {}", SLOTS - 1));
        } else if slots.contains(&number) {
            refuse(report, slot.span, format!("slot {number} is listed twice"));
        }
        slots.push(number);
    }
    if host.slots.value.is_empty() {
        refuse(report, host.slots.span, "a table `[pci]` has a slot for functions");
    }
    slots.truncate(host.slots.value.len());
    slots
}

/// The first of the four lines: they exist, and nothing else has them.
fn first_interrupt(file: &BoardFile, host: &HostBridge, report: &mut Report) -> u32 {
    let span = host.first_interrupt.span;
    let Some(first) = resolve::intid(&host.first_interrupt, report) else { return Intid::FIRST_SHARED };
    let lines = u64::from(first)..u64::from(first + LINES);
    let end = file.interrupt_controller.value.shared_interrupts.value.saturating_add(u64::from(Intid::FIRST_SHARED));
    if lines.end > end {
        refuse(report, span, "the four lines of PCI do not exist: there are fewer `shared_interrupts`");
    }
    let spares = file.interrupt_controller.value.spare.iter();
    let of_spares = spares.map(|range| range.first.value..range.last.value.saturating_add(1));
    let one = |intid: u64| intid..intid.saturating_add(1);
    let of_uarts = file.uart.iter().map(|uart| one(uart.interrupt.value));
    let of_devices = file.device.iter().flat_map(|device| {
        let count = device.count.as_ref().map_or(1, |count| count.value);
        device.interrupts.iter().map(move |line| line.intid.value..line.intid.value.saturating_add(count))
    });
    let mut others = of_spares.chain(of_uarts).chain(of_devices);
    if others.any(|other| other.start < lines.end && lines.start < other.end) {
        refuse(
            report,
            span,
            format!("one of the four lines of PCI, {first} to {}, is another's or spare", first + LINES - 1),
        );
    }
    first
}

/// Resolves a model.
fn resolve_model(written: &PciModel, host: &HostBridge, report: &mut Report) -> Option<model::PciModel> {
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
        let bytes = resolve::size(&one.size, report)?;
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
