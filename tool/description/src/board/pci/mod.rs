//! The PCI host bridge of a board and the kinds of functions behind it: what is written, and what it means.
//!
//! A model is written as the bytes that its function shows after reset, because the monitor reads no capability: the host takes a
//! header from them. `tool/run/tests/pci_models.rs` compares those of the reference board with what QEMU shows. The list of an older file,
//! `[[pci]]`, is still read: bridges that are known and in nobody's map.

mod bytes;

use super::{BoardFile, Range, Registers, resolve};
use crate::code::Code;
use crate::decode::{Decode, Duration, Located, Reader, Size, Value, table, words};
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use crate::unit::parse_duration;
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
/// Most reads of a wait: more are no register that answers late but one that never will, and `verify` refuses them.
const MOST_READS: u64 = 1_000_000;
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
        #[schemars(range(min = 1, max = MOST_READS))]
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
        models.extend(bytes::model(written, host, report));
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
    if !(1..=MOST_READS).contains(&host.wait_limit.value) {
        refuse(report, host.wait_limit.span, format!("a wait has 1 to {MOST_READS} reads"));
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
