//! Board files: the facts of a machine, `boards/NAME.toml`, version 1.
//!
//! The files of the repository are built into the tool, so an installed tool needs no data directory; a path to another
//! board file works the same. A device line with `count` describes several equal devices at equal distances, because
//! QEMU's `virt` has 32 of a kind and a table of 32 copies hides the one that differs.

use crate::code::Code;
use crate::decode::{Located, Reader, Size, table, words};
use crate::diagnostic::{Diagnostic, Report};
use crate::source::{FileId, Span};
use crate::unit::parse_size;
use bulkhead_abi::{MAX_CORES, PAGE_BYTES, PhysicalAddress, plan::MAX_INTID};
use bulkhead_plan::model;
use toml::de::DeTable;

/// Version of the format that this tool reads.
pub const BOARD_VERSION: u64 = 1;

/// Board files that are built into the tool.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Name and text of each.
    pub files: &'static [(&'static str, &'static str)],
    /// Name of the board that is meant where none is named: by a scenario, or by a guest without a monitor.
    pub default: &'static str,
}

/// The list.
pub const BUILT_IN: BuiltIn =
    BuiltIn { files: &[("qemu-virt", include_str!("../../../boards/qemu-virt.toml"))], default: "qemu-virt" };

/// Distance of redistributor frames that the monitor's code knows (GICv3 without GICv4).
const GICR_STRIDE_BYTES: u64 = 0x2_0000;
/// Bytes of the distributor.
const GICD_BYTES: u64 = 0x1_0000;

table! {
    /// Facts of a machine.
    pub struct BoardFile {
        /// Version of the format: 1.
        version: Located<u64>,
        /// Name, as in `board = "..."` of a description.
        name: Located<String>,
        /// RAM of the largest configuration.
        ram: Located<Range>,
        /// Where the image is loaded.
        load_address: Located<u64>,
        /// MPIDR affinity fields of each core.
        cores: Located<Vec<Located<u64>>>,
        /// CNTFRQ_EL0 in Hz.
        counter_hz: Located<u64>,
        /// GICv3 distributor.
        gicd: Located<u64>,
        /// GICv3 redistributors.
        gicr: Located<Redistributors>,
        /// UART (PL011).
        uart: Located<Uart>,
        /// Shared peripheral interrupts that no device raises.
        #[schemars(default)]
        spare_interrupts: Vec<Located<InterruptRange>>,
        /// How QEMU is told to be this machine; absent for a machine that QEMU does not emulate.
        qemu: Option<Located<Qemu>>,
        /// Devices that can be passed through.
        #[schemars(default)]
        device: Vec<Located<BoardDevice>>,
    }
}

table! {
    /// A range of addresses.
    pub struct Range {
        /// First byte.
        address: Located<u64>,
        /// Bytes.
        size: Located<Size>,
    }
}

table! {
    /// GICv3 redistributors, one frame per core.
    pub struct Redistributors {
        /// First frame.
        address: Located<u64>,
        /// Bytes from frame to frame: 0x2_0000.
        stride: Located<u64>,
    }
}

table! {
    /// The UART.
    pub struct Uart {
        /// Registers, 4 KiB.
        address: Located<u64>,
        /// INTID.
        interrupt: Located<u64>,
    }
}

table! {
    /// Interrupts `first` to `last`, both included.
    pub struct InterruptRange {
        /// First INTID.
        first: Located<u64>,
        /// Last INTID.
        last: Located<u64>,
    }
}

table! {
    /// How QEMU is told to be this machine.
    pub struct Qemu {
        /// Argument of `-M`.
        machine: Located<String>,
        /// Argument of `-cpu`.
        cpu: Located<String>,
        /// Further arguments.
        #[schemars(default)]
        arguments: Vec<Located<String>>,
    }
}

words! {
    /// How a device signals.
    pub enum Trigger {
        /// By an edge.
        Edge = "edge",
        /// By a level.
        Level = "level",
    }
}

table! {
    /// An interrupt of a device.
    pub struct BoardInterrupt {
        /// INTID.
        intid: Located<u64>,
        /// How it signals.
        trigger: Located<Trigger>,
    }
}

table! {
    /// A device, or with `count` several: device n is called `NAMEn`, lies n sizes further and signals n INTIDs further.
    pub struct BoardDevice {
        /// Name.
        name: Located<String>,
        /// First register.
        address: Located<u64>,
        /// Bytes of registers.
        size: Located<Size>,
        /// Devices of this kind; default one.
        count: Option<Located<u64>>,
        /// Interrupts.
        #[schemars(default)]
        interrupts: Vec<Located<BoardInterrupt>>,
        /// `compatible` strings for the guest's device tree.
        #[schemars(default)]
        compatible: Vec<Located<String>>,
        /// Frequency of its bus clock in the guest's device tree.
        clock_hz: Option<Located<u64>>,
        /// It can write memory by itself; default false.
        dma: Option<Located<bool>>,
        /// An SMMU of the machine is able to confine its DMA; default true.
        dma_confinable: Option<Located<bool>>,
    }
}

/// A board with the facts that the planner does not need.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedBoard {
    /// What the planner needs.
    pub(crate) board: model::Board,
    /// Per device: its DMA can be confined by an SMMU.
    pub(crate) dma_confinable: Vec<bool>,
}

/// Returns the boards that the tool knows without a file, for commands that look at a machine and have no description.
#[must_use]
pub fn built_in() -> Vec<model::Board> {
    let read = |(name, text): &(&str, &str)| {
        let mut report = Report::default();
        let file = report.sources.add(format!("boards/{name}.toml"), *text);
        read(file, text, &mut report).map(|resolved| resolved.board)
    };
    BUILT_IN.files.iter().filter_map(read).collect()
}

/// Returns the built-in board of a name.
#[must_use]
pub fn built_in_board(name: &str) -> Option<model::Board> {
    built_in().into_iter().find(|board| board.name == name)
}

/// Reads the text of a board file; what is wrong goes to the report.
pub(crate) fn read(file: FileId, text: &str, report: &mut Report) -> Option<ResolvedBoard> {
    let mut reader = Reader::new(file);
    let (root, errors) = DeTable::parse_recoverable(text);
    let syntax_is_wrong = !errors.is_empty();
    crate::push_syntax_errors(file, &errors, report);
    let board = if syntax_is_wrong {
        None
    } else {
        BoardFile::decode_table(root.get_ref(), Span::new(file, 0..0), &mut reader)
    };
    let complete = !reader.incomplete;
    let errors_before = report.diagnostics.len();
    reader.diagnostics.into_iter().for_each(|diagnostic| report.push(diagnostic));
    let resolved = resolve(&board.filter(|_| complete)?, report)?;
    (report.diagnostics.len() == errors_before).then_some(resolved)
}

/// Turns the written board into the resolved one and checks that its facts fit together.
fn resolve(file: &BoardFile, report: &mut Report) -> Option<ResolvedBoard> {
    if file.version.value != BOARD_VERSION {
        let message = format!("board file version {} is not supported", file.version.value);
        report.push(
            Diagnostic::new(Code::UnsupportedVersion, message)
                .at(file.version.span, format!("this tool reads version {BOARD_VERSION}")),
        );
        return None;
    }
    let ram_bytes = size(&file.ram.size, report)?;
    let mut devices = Vec::new();
    let mut places = Vec::new();
    let mut dma_confinable = Vec::new();
    for device in &file.device {
        let group = expand(device, report)?;
        places.extend(group.iter().map(|_| device.name.span));
        dma_confinable.extend(group.iter().map(|_| device.dma_confinable.as_ref().is_none_or(|state| state.value)));
        devices.extend(group);
    }
    let board = model::Board {
        name: file.name.value.clone(),
        banks: vec![model::Bank { start: PhysicalAddress(file.ram.address.value), bytes: ram_bytes }],
        reserved: Vec::new(),
        load_address: PhysicalAddress(file.load_address.value),
        physical_address_bits: 40,
        core_mpidr: file.cores.iter().map(|core| core.value).collect(),
        core_types: vec![model::CoreType::named("cortex-a53"); file.cores.len()],
        counter_hz: file.counter_hz.value,
        gicd: PhysicalAddress(file.gicd.value),
        gicr: (0..file.cores.len() as u64)
            .map(|core| PhysicalAddress(file.gicr.address.value.saturating_add(core * GICR_STRIDE_BYTES)))
            .collect(),
        security_states: 1,
        shared_interrupts: MAX_INTID - 32,
        spare_interrupts: spares(file, report)?,
        uart: Some(model::BoardUart {
            address: PhysicalAddress(file.uart.address.value),
            intid: intid(&file.uart.interrupt, report)?,
        }),
        devices,
        qemu: file.qemu.as_ref().map(|qemu| model::QemuFacts {
            machine: qemu.machine.value.clone(),
            bare_machine: Some(String::from("virt,gic-version=3")),
            cpu: Some(qemu.cpu.value.clone()),
            cores: None,
            arguments: qemu.arguments.iter().map(|argument| argument.value.clone()).collect(),
        }),
    };
    check(file, &board, &places, report);
    Some(ResolvedBoard { board, dma_confinable })
}

/// One entry of `[[device]]` as the devices it stands for.
fn expand(device: &BoardDevice, report: &mut Report) -> Option<Vec<model::BoardDevice>> {
    let bytes = size(&device.size, report)?;
    let count = device.count.as_ref().map_or(1, |count| count.value);
    let last_intid =
        device.interrupts.iter().map(|interrupt| interrupt.intid.value.saturating_add(count)).max().unwrap_or(0);
    if !(1..=u64::from(MAX_INTID)).contains(&count)
        || bytes == 0
        || last_intid > u64::from(MAX_INTID)
        || bytes.checked_mul(count).and_then(|all| all.checked_add(device.address.value)).is_none()
    {
        let span = device.count.as_ref().map_or(device.size.span, |count| count.span);
        let message = format!(
            "device `{}` does not fit: sizes and counts are 1 or more, INTIDs below {MAX_INTID}",
            device.name.value
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
fn size(text: &Located<Size>, report: &mut Report) -> Option<u64> {
    match parse_size(&text.value.0) {
        Ok(bytes) => Some(bytes),
        Err(bad) => {
            report.push(Diagnostic::new(Code::BadQuantity, bad.problem).at(text.span, ""));
            None
        }
    }
}

/// Reads the INTID of a shared peripheral interrupt.
fn intid(number: &Located<u64>, report: &mut Report) -> Option<u32> {
    let found = u32::try_from(number.value).ok().filter(|intid| (32..MAX_INTID).contains(intid));
    if found.is_none() {
        let message = format!("{} is not the INTID of a shared peripheral interrupt", number.value);
        report.push(
            Diagnostic::new(Code::BadBoard, message).at(number.span, format!("expected 32 to {}", MAX_INTID - 1)),
        );
    }
    found
}

/// The spare interrupts in order.
fn spares(file: &BoardFile, report: &mut Report) -> Option<Vec<u32>> {
    let mut spares = Vec::new();
    for range in &file.spare_interrupts {
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

/// Checks that the facts of a board do not contradict each other; `places` says where each device is written.
fn check(file: &BoardFile, board: &model::Board, places: &[Span], report: &mut Report) {
    let mut refuse = |span: Span, message: String| report.push(Diagnostic::new(Code::BadBoard, message).at(span, ""));
    let Some(ram_end) = file.ram.address.value.checked_add(board.ram_bytes()).filter(|end| *end <= 1 << 39) else {
        return refuse(file.ram.span, String::from("RAM ends above 512 GiB, the most that the monitor's tables reach"));
    };
    if !file.ram.address.value.is_multiple_of(PAGE_BYTES) || !board.ram_bytes().is_multiple_of(PAGE_BYTES) {
        refuse(file.ram.span, String::from("RAM is not whole pages of 4 KiB"));
    }
    if !board.load_address.0.is_multiple_of(0x20_0000)
        || !(file.ram.address.value..ram_end).contains(&board.load_address.0)
    {
        refuse(file.load_address.span, String::from("the load address must be inside RAM and a multiple of 2 MiB"));
    }
    if file.gicr.stride.value != GICR_STRIDE_BYTES {
        refuse(file.gicr.stride.span, format!("redistributor frames must be {GICR_STRIDE_BYTES:#x} bytes apart"));
    }
    for (address, span, alignment, what) in [
        (board.gicd.0, file.gicd.span, GICD_BYTES, "the distributor"),
        (file.gicr.address.value, file.gicr.address.span, GICD_BYTES, "the redistributors"),
        (file.uart.address.value, file.uart.address.span, PAGE_BYTES, "the UART"),
    ] {
        if !address.is_multiple_of(alignment) {
            refuse(span, format!("the address of {what} must be a multiple of {alignment:#x}"));
        }
    }
    for (index, core) in file.cores.iter().enumerate() {
        if file.cores.iter().take(index).any(|other| other.value == core.value) {
            refuse(core.span, format!("two cores have the affinity {:#x}", core.value));
        }
    }
    if board.counter_hz == 0 || board.counter_hz > 1_000_000_000 {
        refuse(file.counter_hz.span, String::from("the counter must run at 1 Hz to 1 GHz"));
    }
    if !(1..=MAX_CORES).contains(&board.core_mpidr.len()) {
        refuse(file.cores.span, format!("a board has 1 to {MAX_CORES} cores here"));
    }
    check_addresses(file, board, ram_end, places, report);
    check_devices(board, places, report);
}

/// Checks that no two things of a board have one address, and no device a page with RAM, interrupt controller or UART.
fn check_addresses(file: &BoardFile, board: &model::Board, ram_end: u64, places: &[Span], report: &mut Report) {
    let gicr_bytes = GICR_STRIDE_BYTES * board.core_mpidr.len() as u64;
    let mut used: Vec<(u64, u64, String, Span)> = vec![
        (file.ram.address.value, ram_end, String::from("RAM"), file.ram.span),
        (board.gicd.0, board.gicd.0.saturating_add(GICD_BYTES), String::from("the distributor"), file.gicd.span),
        (
            file.gicr.address.value,
            file.gicr.address.value.saturating_add(gicr_bytes),
            String::from("the redistributors"),
            file.gicr.span,
        ),
        (
            file.uart.address.value,
            file.uart.address.value.saturating_add(PAGE_BYTES),
            String::from("the UART"),
            file.uart.span,
        ),
    ];
    let not_devices = used.len();
    let devices = board.devices.iter().zip(places);
    used.extend(devices.map(|(device, place)| {
        (device.address.0, device.address.0.saturating_add(device.bytes), format!("device `{}`", device.name), *place)
    }));
    for (index, (start, end, name, span)) in used.iter().enumerate() {
        // A device can be given to a partition, and then its whole pages go there.
        let granule = if index < not_devices { PAGE_BYTES } else { 1 };
        let touches = |(from, to, ..): &&(u64, u64, String, Span)| {
            *start < to.checked_next_multiple_of(granule).unwrap_or(u64::MAX) && from - from % granule < *end
        };
        for (_, _, other, place) in used.iter().skip(index + 1).filter(touches) {
            let message = if granule == 1 {
                format!("addresses of {name} and {other} overlap")
            } else {
                format!("{name} and {other} are in one page")
            };
            report.push(Diagnostic::new(Code::BadBoard, message).at(*place, "").at(*span, "this has them already"));
        }
    }
}

/// Checks names and interrupts of a board's devices.
fn check_devices(board: &model::Board, places: &[Span], report: &mut Report) {
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
                _ => continue,
            };
            let message = format!("interrupt {} of device `{}` {owner}", interrupt.intid, device.name);
            report.push(Diagnostic::new(Code::BadBoard, message).at(*place, ""));
        }
    }
}
