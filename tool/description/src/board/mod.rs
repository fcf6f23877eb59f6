//! Board files: the facts of a machine, `boards/NAME.toml`, version 2.
//!
//! The files of the repository are built into the tool, so an installed tool needs no data directory; a path to another
//! board file works the same. A file may describe a board that cannot run: [`limits`] says what such a board lacks, for
//! `bulkhead board check` and for everything else that reads a board. A device line with `count` describes several equal devices at
//! equal distances, because QEMU's `virt` has 32 of a kind and a table of 32 copies hides the one that differs.

mod addresses;
mod built_in;
pub mod command;
mod limits;
mod pci;
mod resolve;
mod secure;

pub use built_in::{BUILT_IN, BuiltIn, built_in, built_in_board};
pub use limits::Limit;
pub use pci::{Backing, BaseAddress, Behind, BoardSmmu, Capability, HostBridge, Pci, PciModel, Reset};
pub use resolve::MOST_DEVICES;

use crate::code::Code;
use crate::decode::{Located, Reader, Size, entry, table, words};
use crate::diagnostic::{Diagnostic, Report};
use crate::source::{FileId, Span};
use bulkhead_plan::model;
use toml::de::{DeTable, DeValue};

/// Version of the format that this tool reads.
pub const BOARD_VERSION: u64 = 2;

table! {
    /// Facts of a machine.
    pub struct BoardFile {
        /// Version of the format: 2.
        version: Located<u64>,
        /// Name, as in `board = "..."` of a description.
        name: Located<String>,
        /// Exception level at which firmware enters the image.
        enters_at: Located<ExceptionLevel>,
        /// How firmware's PSCI is called.
        psci: Located<Conduit>,
        /// Banks of RAM of the largest configuration, in the order of their addresses.
        memory: Located<Vec<Located<Range>>>,
        /// Memory that belongs to firmware or to other processors: in nobody's map.
        #[schemars(default)]
        reserved: Vec<Located<Reserved>>,
        /// Where the image is loaded.
        load_address: Located<u64>,
        /// Bits of a physical address, as the cores have them (ID_AA64MMFR0_EL1.PARange).
        physical_address_bits: Located<u64>,
        /// Cores by type; a core's index is its place in this list.
        cores: Located<Vec<Located<Cores>>>,
        /// CNTFRQ_EL0 in Hz.
        counter_hz: Located<u64>,
        /// Private interrupts of the generic timer, where they are not those of Arm's base system architecture.
        timer: Option<Located<Timer>>,
        /// The interrupt controller.
        interrupt_controller: Located<InterruptController>,
        /// UARTs.
        #[schemars(default)]
        uart: Vec<Located<Uart>>,
        /// SMMUs: known, and in nobody's map.
        #[schemars(default)]
        smmu: Vec<Located<Registers>>,
        /// The PCI host bridge whose functions partitions may have, or a list of host bridges that are known and in nobody's map.
        pci: Option<Located<Pci>>,
        /// Kinds of functions behind the host bridge.
        #[schemars(default)]
        pci_model: Vec<Located<PciModel>>,
        /// What only the secure world reaches: for a board that is entered at EL3.
        secure: Option<Located<Secure>>,
        /// How QEMU is told to be this machine; absent for a machine that QEMU does not emulate.
        qemu: Option<Located<Qemu>>,
        /// Devices that can be passed through.
        #[schemars(default)]
        device: Vec<Located<BoardDevice>>,
    }
}

words! {
    /// Exception levels.
    pub enum ExceptionLevel {
        /// EL1: the board has no hypervisor mode, or firmware does not give it.
        El1 = "el1",
        /// EL2.
        El2 = "el2",
        /// EL3: there is no firmware, and the board is for systems with two worlds.
        El3 = "el3",
    }
}

words! {
    /// Ways to call firmware.
    pub enum Conduit {
        /// By SMC: firmware is at EL3.
        Smc = "smc",
        /// By HVC: a hypervisor is below.
        Hvc = "hvc",
        /// Not at all.
        None = "none",
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
    /// Memory that is not for the plan.
    pub struct Reserved {
        /// What it is.
        name: Located<String>,
        /// First byte.
        address: Located<u64>,
        /// Bytes.
        size: Located<Size>,
    }
}

table! {
    /// Registers of something that the plan gives to nobody.
    pub struct Registers {
        /// Name.
        name: Located<String>,
        /// First register.
        address: Located<u64>,
        /// Bytes of registers.
        size: Located<Size>,
    }
}

table! {
    /// Cores of one type.
    pub struct Cores {
        /// Type, such as `cortex-a72`.
        kind: Located<String>,
        /// MPIDR affinity fields of each.
        mpidr: Located<Vec<Located<u64>>>,
    }
}

table! {
    /// Private interrupts of the generic timer.
    pub struct Timer {
        /// INTID of the physical timer of EL1 (CNTP).
        el1_physical: Located<u64>,
        /// INTID of the virtual timer of EL1 (CNTV).
        el1_virtual: Located<u64>,
        /// INTID of the physical timer of EL2 (CNTHP).
        el2_physical: Located<u64>,
    }
}

table! {
    /// The interrupt controller.
    pub struct InterruptController {
        /// Version of the architecture: 2, 3 or 4.
        version: Located<u64>,
        /// Distributor.
        distributor: Located<u64>,
        /// Regions of redistributors; their frames belong to the cores in the order of `cores`.
        #[schemars(default)]
        redistributors: Vec<Located<Range>>,
        /// Bytes from frame to frame; default 0x2_0000.
        redistributor_stride: Option<Located<u64>>,
        /// Security states: 1 when GICD_CTLR.DS is set, 2 when firmware at EL3 keeps one for itself.
        security_states: Located<u64>,
        /// Shared peripheral interrupts that the distributor has.
        shared_interrupts: Located<u64>,
        /// List registers of each core (ICH_VTR_EL2.ListRegs).
        list_registers: Located<u64>,
        /// Shared peripheral interrupts that no device raises.
        #[schemars(default)]
        spare: Vec<Located<InterruptRange>>,
    }
}

table! {
    /// A UART. With QEMU their order is that of its `-serial`.
    pub struct Uart {
        /// Name.
        name: Located<String>,
        /// Kind, such as `pl011`.
        kind: Located<String>,
        /// Registers, 4 KiB.
        address: Located<u64>,
        /// INTID.
        interrupt: Located<u64>,
        /// Frequency of its clocks in the guest's device tree.
        clock_hz: Option<Located<u64>>,
        /// The monitor may use it for console input (a PL011); default false, and the UART can be passed through.
        monitor: Option<Located<bool>>,
        /// `compatible` strings for the guest's device tree; those of a PL011 are known.
        #[schemars(default)]
        compatible: Vec<Located<String>>,
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
    /// What only the secure world reaches.
    pub struct Secure {
        /// Secure RAM.
        ram: Located<Range>,
        /// Flash from which every core leaves reset.
        flash: Located<Range>,
        /// INTID of the secure timer (CNTPS).
        timer: Located<u64>,
        /// The secure console: a PL011, 4 KiB. With QEMU its `-serial` follows those of `uart`.
        uart: Located<SecureUart>,
        /// A PL061, 4 KiB, with lines that end the machine.
        gpio: Option<Located<SecureGpio>>,
    }
}

table! {
    /// The secure console.
    pub struct SecureUart {
        /// Name.
        name: Located<String>,
        /// Registers.
        address: Located<u64>,
        /// INTID.
        interrupt: Located<u64>,
    }
}

table! {
    /// The secure GPIO.
    pub struct SecureGpio {
        /// Name.
        name: Located<String>,
        /// Registers.
        address: Located<u64>,
        /// Line that switches the machine off.
        power_off: Located<u64>,
        /// Line that resets it.
        restart: Located<u64>,
    }
}

table! {
    /// How QEMU is told to be this machine.
    pub struct Qemu {
        /// Argument of `-M`.
        machine: Located<String>,
        /// Argument of `-M` for a guest without a monitor, entered at EL1; absent if the machine cannot.
        bare_machine: Option<Located<String>>,
        /// Argument of `-M` for a system with PCI functions, with the SMMU in front of them; default `machine`.
        pci_machine: Option<Located<String>>,
        /// Argument of `-device` for the root port of `[pci]`; its place is added.
        root_port: Option<Located<String>>,
        /// Argument of `-cpu`; default the machine's own.
        cpu: Option<Located<String>>,
        /// Processors that the machine has always, those of other kinds included: it takes no `-smp`. Default: as many as are used.
        cores: Option<Located<u64>>,
        /// Further arguments.
        #[schemars(default)]
        arguments: Vec<Located<String>>,
        /// File of a boot loader for `run --boot-loader`: the argument of `-bios`. It reads a virtio disk on PCI.
        boot_loader: Option<Located<String>>,
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
    /// Name of the UART that the monitor may use.
    pub(crate) uart_name: Option<String>,
    /// Its clock.
    pub(crate) uart_clock_hz: Option<u64>,
}

/// Reads the text of a board file; what is wrong goes to the report.
pub(crate) fn read(file: FileId, text: &str, report: &mut Report) -> Option<ResolvedBoard> {
    let errors_before = report.diagnostics.len();
    let board = written(file, text, report)?;
    let resolved = resolve::resolve(&board, report)?;
    // Of facts that contradict each other nothing follows.
    if report.diagnostics.len() == errors_before {
        limits::report(&board, &resolved.board, report);
    }
    (report.diagnostics.len() == errors_before).then_some(resolved)
}

/// What is known of a board file after a look at it alone.
#[derive(Debug)]
pub struct Examined {
    /// What is wrong with it, and what the board lacks.
    pub report: Report,
    /// The board, if nothing is wrong and nothing is lacking.
    pub board: Option<model::Board>,
    /// What the board lacks; empty as well when the file is wrong.
    pub limits: Vec<Limit>,
}

/// Looks at the text of a board file; `name` is what messages call it.
#[must_use]
pub fn examine(name: &str, text: &str) -> Examined {
    let mut report = Report::default();
    let file = report.sources.add(name.to_owned(), text.to_owned());
    let resolved = read(file, text, &mut report);
    let mut limits = Vec::new();
    if report.has_errors()
        && let Some(written) = written(file, text, &mut Report::default())
        && let Some(board) = resolve::resolve(&written, &mut Report::default())
    {
        limits = limits::of(&written, &board.board).into_iter().map(|(limit, ..)| limit).collect();
    }
    Examined { report, board: resolved.map(|one| one.board), limits }
}

/// Reads the text of a board file as it is written.
fn written(file: FileId, text: &str, report: &mut Report) -> Option<BoardFile> {
    let mut reader = Reader::new(file);
    let (root, errors) = DeTable::parse_recoverable(text);
    let syntax_is_wrong = !errors.is_empty();
    crate::push_syntax_errors(file, &errors, report);
    if syntax_is_wrong {
        return None;
    }
    let table = root.get_ref();
    if let Some(version) = entry(table, "version")
        && let Some(number) = other_version(version.get_ref())
    {
        report.push(unsupported(number, reader.span(version)));
        return None;
    }
    todos(table, "", &mut reader);
    let board =
        if reader.incomplete { None } else { BoardFile::decode_table(table, Span::new(file, 0..0), &mut reader) };
    let complete = !reader.incomplete;
    reader.diagnostics.into_iter().for_each(|diagnostic| report.push(diagnostic));
    board.filter(|_| complete)
}

/// The version of a file whose version is another one than this tool reads.
fn other_version(version: &DeValue<'_>) -> Option<String> {
    let DeValue::Integer(number) = version else { return None };
    let read = u64::from_str_radix(number.as_str(), number.radix());
    (read != Ok(BOARD_VERSION)).then(|| number.as_str().to_owned())
}

fn unsupported(number: String, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::UnsupportedVersion, format!("board file version {number} is not supported"))
        .at(span, format!("this tool reads version {BOARD_VERSION}"));
    if number != "1" {
        return diagnostic;
    }
    diagnostic
        .note("version 2 says what version 1 took for granted: more banks, other firmware, other core types")
        .help("`ram = { .. }` is now `memory = [{ .. }]`, with `[[reserved]]` for what is in nobody's map")
        .help("`cores = [..]` is now `cores = [{ kind = \"cortex-a53\", mpidr = [..] }]`")
        .help(
            "`gicd`, `gicr` and `spare_interrupts` are now in `[interrupt_controller]`: `version`, `distributor`, \
             `redistributors = [{ .. }]`, `security_states`, `shared_interrupts`, `list_registers`, `spare`",
        )
        .help("`uart = { .. }` is now `[[uart]]` with `name`, `kind = \"pl011\"` and `monitor = true`")
        .help("new: `enters_at = \"el2\"`, `psci = \"smc\"`, `physical_address_bits`")
}

/// Reports every text that begins with `TODO`: what a draft could not know.
fn todos(table: &DeTable<'_>, place: &str, reader: &mut Reader) {
    for (key, value) in table {
        todo(value, &format!("{place}{}", key.get_ref()), reader);
    }
}

fn todo(value: &toml::Spanned<DeValue<'_>>, place: &str, reader: &mut Reader) {
    match value.get_ref() {
        DeValue::String(text) if text.starts_with("TODO") => {
            let message = format!("`{place}` is still to be found out");
            let sentence = text.trim_start_matches("TODO").trim_start_matches(':').trim();
            let diagnostic = Diagnostic::new(Code::BoardTodo, message).at(reader.span(value), "");
            reader.refuse(if sentence.is_empty() { diagnostic } else { diagnostic.help(sentence.to_owned()) });
        }
        DeValue::Table(table) => todos(table, &format!("{place}."), reader),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                todo(item, &format!("{place}[{index}]"), reader);
            }
        }
        _ => {}
    }
}
