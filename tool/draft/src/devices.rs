//! What has registers: UARTs, SMMUs, PCI host bridges, and devices that could be given away.
//!
//! A board file has no two devices at one address, and real trees have: a block of system registers with nodes for its parts, two UARTs in
//! a page. What overlaps becomes one device with all interrupts, since who gets the registers of one gets those of both. What shares a
//! page with RAM, the interrupt controller, an SMMU or a host bridge is not listed, because nobody may have that page.

use crate::address::{Budget, Extent, place};
use crate::interrupt::{Interrupt, Lines, short};
use crate::kinds::{Dma, dma, is_iommu, is_pci, is_smmu, uart};
use crate::memory::MOST_ENTRIES;
use crate::tree::{Node, Tree};
use bulkhead_description::board::MOST_DEVICES;
use std::collections::{BTreeMap, BTreeSet};

/// Something with registers.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Name in the board file; unique.
    pub(crate) name: String,
    /// Place of its node in the tree.
    node: usize,
    /// Which of the node's registers they are, from 0.
    part: usize,
    /// Its node's name, as far as it can be a name here.
    stem: String,
    /// Registers.
    pub(crate) registers: Extent,
    /// Nodes that it stands for, the first gave the name.
    pub(crate) nodes: Vec<String>,
    /// Shared interrupts with "signals by an edge".
    pub(crate) interrupts: Vec<(u32, bool)>,
    /// Interrupts that cannot be written down, and why.
    pub(crate) unknown: Vec<String>,
    /// `compatible`.
    pub(crate) compatible: Vec<String>,
    /// Frequency of its clock where it is fixed.
    pub(crate) clock_hz: Option<u32>,
    /// Whether it is a bus master.
    pub(crate) dma: Dma,
    /// An SMMU of the tree stands in front of it.
    pub(crate) confinable: bool,
    /// Its kind, if it is a UART.
    pub(crate) uart: Option<&'static str>,
    /// The tree's `stdout-path` names it.
    pub(crate) is_console: bool,
    /// Equal devices behind it, at equal distances, with interrupts that count up.
    pub(crate) more: u32,
}

/// Everything with registers.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// UARTs that have a page for themselves and one shared interrupt.
    pub(crate) uarts: Vec<Device>,
    /// SMMUs and other IOMMUs.
    pub(crate) smmus: Vec<Device>,
    /// Registers and windows of PCI host bridges.
    pub(crate) bridges: Vec<Device>,
    /// The rest.
    pub(crate) devices: Vec<Device>,
    /// Nodes that are not listed, and why.
    pub(crate) left_out: Vec<String>,
    /// Nodes with registers that are switched off.
    pub(crate) disabled: usize,
    /// Windows of PCI host bridges: taken, though no registers.
    pub(crate) windows: Vec<Extent>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Device,
    Smmu,
    Bridge,
}

struct Found {
    class: Class,
    device: Device,
}

/// Collects everything with registers; `taken` is what belongs to others: RAM and the interrupt controller.
#[must_use]
pub(crate) fn devices<'t, 'a>(tree: &'t Tree<'a>, lines: &Lines<'t, 'a>, taken: &[Extent], budget: &Budget) -> Devices {
    let mut all = Devices::default();
    let console = console(tree);
    let smmus: BTreeSet<usize> = tree.nodes().filter(|node| is_smmu(*node)).map(|node| node.index()).collect();
    let mut found = Vec::new();
    for node in tree.nodes().filter(|node| has_registers(*node)) {
        if !node.is_enabled() {
            all.disabled = all.disabled.saturating_add(1);
            continue;
        }
        let placed = place(node, budget);
        if let Some(trouble) = placed.trouble {
            all.left_out.push(format!("{}: {trouble}", short(node)));
        }
        let class = match () {
            () if is_iommu(node) => Class::Smmu,
            () if is_pci(node) => Class::Bridge,
            () => Class::Device,
        };
        if class == Class::Bridge {
            all.windows.extend(crate::address::windows(node, budget));
        }
        let is_console = console == Some(node.index());
        for (part, registers) in placed.extents.into_iter().enumerate() {
            let mut device = describe(node, registers, lines, &smmus);
            device.is_console = is_console;
            if part > 0 {
                device.part = part;
                device.interrupts.clear();
                device.unknown.clear();
                device.uart = None;
                device.nodes = vec![format!("{} (part {} of its registers)", short(node), part.saturating_add(1))];
            }
            found.push(Found { class, device });
        }
    }
    let found = without_overlaps(found);
    let guards = guards(&found, taken);
    let (devices, others): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|one| one.class == Class::Device);
    let taken = union(taken.iter().copied().map(Extent::pages).collect());
    for one in others {
        let list = match one.class {
            _ if touches(&taken, one.device.registers) => {
                let nodes = one.device.nodes.join(", ");
                all.left_out.push(format!("{nodes}: in a page of RAM or the interrupt controller"));
                continue;
            }
            Class::Smmu => &mut all.smmus,
            Class::Bridge | Class::Device => &mut all.bridges,
        };
        list.push(one.device);
    }
    let (free, guarded): (Vec<Device>, Vec<Device>) =
        devices.into_iter().map(|one| one.device).partition(|device| !touches(&guards, device.registers));
    all.left_out.extend(guarded.iter().map(|device| {
        format!("{}: in a page of RAM, the interrupt controller, an SMMU or a host bridge", device.nodes.join(", "))
    }));
    split_uarts(free, &mut all);
    name_all(&mut all);
    all.devices = families(std::mem::take(&mut all.devices));
    for list in [&mut all.uarts, &mut all.smmus, &mut all.bridges, &mut all.devices] {
        if list.len() > MOST_ENTRIES {
            all.left_out.push(format!(
                "{} more, since a board file has {MOST_ENTRIES} of a kind",
                list.len().saturating_sub(MOST_ENTRIES)
            ));
            list.truncate(MOST_ENTRIES);
        }
    }
    let mut count = all.uarts.len();
    let fits = |device: &Device| {
        count = count.saturating_add(usize::try_from(device.more).unwrap_or(usize::MAX)).saturating_add(1);
        count <= MOST_DEVICES
    };
    let kept = all.devices.iter().map(fits).take_while(|fits| *fits).count();
    if kept < all.devices.len() {
        let more = all.devices.len().saturating_sub(kept);
        all.left_out.push(format!("{more} more, since a board file has {MOST_DEVICES} devices with those of families"));
        all.devices.truncate(kept);
    }
    all
}

/// States whether a node could have registers of a device.
fn has_registers(node: Node<'_, '_>) -> bool {
    let is_special = |one: Node<'_, '_>| {
        matches!(one.base_name(), "cpus" | "reserved-memory" | "chosen" | "aliases" | "memory")
            || one.text("device_type") == Some("memory")
            || crate::controller::is_controller(one)
    };
    // What is on a PCI bus is found by asking the bus.
    let on_pci = node.line().skip(1).any(is_pci);
    let is_bus = node.is_compatible(&["simple-bus", "simple-pm-bus"]) && node.has("ranges");
    node.has("reg") && !on_pci && !is_bus && !node.line().any(is_special)
}

fn describe<'t, 'a>(node: Node<'t, 'a>, registers: Extent, lines: &Lines<'t, 'a>, smmus: &BTreeSet<usize>) -> Device {
    let mut interrupts: Vec<(u32, bool)> = Vec::new();
    let mut unknown = Vec::new();
    for interrupt in lines.of(node) {
        match interrupt {
            Interrupt::Shared { intid, edge } if interrupts.iter().all(|(other, _)| *other != intid) => {
                interrupts.push((intid, edge));
            }
            Interrupt::Shared { .. } => {}
            Interrupt::Private { intid } => unknown.push(format!("INTID {intid} is private to each core")),
            Interrupt::Unknown(why) => unknown.push(why),
        }
    }
    unknown.dedup();
    unknown.truncate(4);
    let uart = uart(node);
    let clock = if uart.is_some() { "uartclk" } else { "apb_pclk" };
    let wants_clock = uart.is_some() || node.is_compatible(&["arm,primecell"]);
    let behind = |node: Node<'t, 'a>| node.words("iommus").and_then(|list| lines.tree().by_phandle(*list.first()?));
    Device {
        name: String::new(),
        node: node.index(),
        part: 0,
        stem: stem(node),
        registers,
        nodes: vec![short(node)],
        interrupts,
        unknown,
        compatible: node.texts("compatible").map(str::to_owned).collect(),
        clock_hz: wants_clock.then(|| clock_hz(lines.tree(), node, clock)).flatten(),
        dma: dma(node),
        confinable: node.line().filter_map(behind).any(|smmu| smmus.contains(&smmu.index())),
        uart,
        is_console: false,
        more: 0,
    }
}

/// The frequency of a clock of a node, where a fixed clock gives it.
fn clock_hz(tree: &Tree<'_>, node: Node<'_, '_>, name: &str) -> Option<u32> {
    if let Some(frequency) = node.word("clock-frequency") {
        return Some(frequency);
    }
    let clocks = node.words("clocks")?;
    let wanted = node.texts("clock-names").position(|other| other == name).unwrap_or(0);
    let mut rest = clocks.as_slice();
    let mut index = 0;
    while let [phandle, behind @ ..] = rest {
        let clock = tree.by_phandle(*phandle)?;
        if index == wanted {
            return clock.word("clock-frequency").filter(|_| clock.is_compatible(&["fixed-clock"]));
        }
        let cells = usize::try_from(clock.word("#clock-cells")?).ok()?;
        rest = behind.get(cells..)?;
        index = index.saturating_add(1);
    }
    None
}

/// The node that `stdout-path` of `/chosen` names, by path or by alias.
fn console(tree: &Tree<'_>) -> Option<usize> {
    let chosen = tree.at_path("/chosen")?;
    let path = chosen.text("stdout-path").or_else(|| chosen.text("linux,stdout-path"))?;
    // Behind a colon is the baud rate.
    let path = path.split(':').next()?;
    let path = if path.starts_with('/') { path } else { tree.at_path("/aliases")?.text(path)? };
    tree.at_path(path).map(|node| node.index())
}

/// Sorts by address and makes one of those that overlap.
fn without_overlaps(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|one| (one.device.registers.start(), std::cmp::Reverse(one.device.registers.end())));
    let mut apart: Vec<Found> = Vec::new();
    for one in found {
        match apart.last_mut() {
            Some(last) if last.device.registers.overlaps(one.device.registers) => join(last, one),
            _ => apart.push(one),
        }
    }
    apart
}

fn join(last: &mut Found, one: Found) {
    // SMMUs and bridges win: nobody may have what is in their registers.
    if last.class == Class::Device {
        last.class = one.class;
    }
    let (device, other) = (&mut last.device, one.device);
    let end = device.registers.end().max(other.registers.end());
    device.registers = Extent::between(device.registers.start(), end).unwrap_or(device.registers);
    for interrupt in other.interrupts {
        if device.interrupts.iter().all(|(intid, _)| *intid != interrupt.0) {
            device.interrupts.push(interrupt);
        }
    }
    device.dma = device.dma.max(other.dma);
    device.confinable &= other.confinable || other.dma == Dma::None;
    device.is_console |= other.is_console;
    device.uart = None;
    // A hostile tree could have any number of them in one place.
    if device.nodes.len() < 16 {
        device.nodes.extend(other.nodes);
        device.unknown.extend(other.unknown);
        device.unknown.dedup();
    }
}

/// Pages that nobody may have, by address.
fn guards(found: &[Found], taken: &[Extent]) -> Vec<Extent> {
    let others = found.iter().filter(|one| one.class != Class::Device).map(|one| one.device.registers);
    union(taken.iter().copied().chain(others).map(Extent::pages).collect())
}

/// Sorts extents and joins those that overlap or touch.
#[must_use]
pub(crate) fn union(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.sort();
    let mut joined: Vec<Extent> = Vec::new();
    for extent in extents {
        match joined.last_mut() {
            Some(last) if extent.start() <= last.end() => {
                *last = Extent::between(last.start(), last.end().max(extent.end())).unwrap_or(*last);
            }
            _ => joined.push(extent),
        }
    }
    joined
}

/// States whether a page of the registers is among sorted extents.
fn touches(guards: &[Extent], registers: Extent) -> bool {
    let pages = registers.pages();
    let place = guards.partition_point(|guard| guard.end() <= pages.start());
    guards.get(place).is_some_and(|guard| guard.overlaps(pages))
}

/// Tells UARTs that can be written as such from devices: a UART of a board file is one page with one interrupt.
fn split_uarts(devices: Vec<Device>, all: &mut Devices) {
    let mut before = 0;
    let mut devices = devices.into_iter().peekable();
    while let Some(mut device) = devices.next() {
        let pages = device.registers.pages();
        let is_alone =
            before <= pages.start() && devices.peek().is_none_or(|next| pages.end() <= next.registers.start());
        let starts_a_page = device.registers.start() == pages.start();
        before = device.registers.end();
        let is_written_as_uart = device.uart.is_some()
            && is_alone
            && starts_a_page
            && device.interrupts.len() == 1
            && device.dma == Dma::None;
        if is_written_as_uart {
            all.uarts.push(device);
        } else {
            device.uart = None;
            all.devices.push(device);
        }
    }
}

/// Gives each its name: that of its node, with a number where several nodes have it; further registers of a node have their part behind it.
fn name_all(all: &mut Devices) {
    let lists = [&mut all.uarts, &mut all.smmus, &mut all.bridges, &mut all.devices];
    let mut devices: Vec<&mut Device> = lists.into_iter().flatten().collect();
    let mut nodes_of: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for device in &devices {
        nodes_of.entry(device.stem()).or_default().insert(device.node);
    }
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    let mut next: BTreeMap<String, usize> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for device in &mut devices {
        let stem = device.stem();
        let separator = if stem.ends_with(|last: char| last.is_ascii_digit()) { "-" } else { "" };
        let name = names.entry(device.node).or_insert_with(|| {
            let number = next.entry(stem.clone()).or_default();
            let is_alone = nodes_of.get(&stem).is_some_and(|nodes| nodes.len() == 1);
            let name = if is_alone { stem.clone() } else { format!("{stem}{separator}{number}") };
            *number = number.saturating_add(1);
            name
        });
        device.name = match device.part {
            0 => name.clone(),
            part => format!("{name}-part{}", part.saturating_add(1)),
        };
        // `dma` twice makes `dma0`, which may be the name of a third node.
        while !used.insert(device.name.clone()) {
            device.name.push('x');
        }
    }
}

impl Device {
    /// The INTIDs of all devices that an entry stands for.
    pub(crate) fn all_interrupts(&self) -> impl Iterator<Item = u32> {
        self.interrupts.iter().flat_map(|(intid, _)| *intid..=intid.saturating_add(self.more))
    }

    /// The name without a number: what it is, or letters, digits and hyphens of its node's name.
    fn stem(&self) -> String {
        let is = |kind: &str| self.compatible.iter().any(|other| other == kind);
        match () {
            () if self.uart.is_some() => String::from("uart"),
            () if is("arm,pl031") => String::from("rtc"),
            () if is("arm,pl061") => String::from("gpio"),
            () => self.stem.clone(),
        }
    }
}

/// Letters, digits and hyphens of a node's name.
fn stem(node: Node<'_, '_>) -> String {
    let letters = node
        .base_name()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
    let name: String = letters.take(24).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { String::from("device") } else { name.to_owned() }
}

/// Makes one entry of equal devices that follow each other, as QEMU has dozens of the same transport.
fn families(devices: Vec<Device>) -> Vec<Device> {
    let mut used: BTreeSet<String> = devices.iter().map(|device| device.name.clone()).collect();
    let mut entries = Vec::new();
    let mut run: Vec<Device> = Vec::new();
    for device in devices {
        if !run.first().is_some_and(|first| is_next(first, run.len(), &device)) {
            finish(std::mem::take(&mut run), &mut used, &mut entries);
        }
        run.push(device);
    }
    finish(run, &mut used, &mut entries);
    entries
}

/// States whether a device is the next one behind `count` equal ones.
fn is_next(first: &Device, count: usize, device: &Device) -> bool {
    let Ok(count) = u32::try_from(count) else { return false };
    let size = first.registers.bytes();
    let next = size.checked_mul(u64::from(count)).and_then(|offset| first.registers.start().checked_add(offset));
    let interrupts = first.interrupts.iter().map(|(intid, edge)| (intid.saturating_add(count), *edge));
    next == Some(device.registers.start())
        && size == device.registers.bytes()
        && first.compatible == device.compatible
        && first.stem() == device.stem()
        && first.interrupts.len() == 1
        && interrupts.eq(device.interrupts.iter().copied())
        && [first, device].iter().all(|one| one.nodes.len() == 1 && one.unknown.is_empty() && !one.is_console)
        && (first.dma, first.confinable, first.clock_hz) == (device.dma, device.confinable, device.clock_hz)
}

/// Ends a run of equal devices: as a family, unless the names of its members are taken.
fn finish(run: Vec<Device>, used: &mut BTreeSet<String>, entries: &mut Vec<Device>) {
    let more = u32::try_from(run.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let Some(first) = run.first().filter(|_| more > 0) else { return entries.extend(run) };
    let prefixes = [format!("{}-", first.stem()), format!("{}-", first.name)];
    let members = |prefix: &str| (0..=more).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>();
    let prefix = prefixes.into_iter().find(|prefix| members(prefix).iter().all(|name| !used.contains(name)));
    match prefix {
        Some(name) => {
            used.extend(members(&name));
            entries.push(Device { name, more, ..first.clone() });
        }
        None => entries.extend(run),
    }
}
