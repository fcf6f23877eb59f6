//! What a board must have so that the monitor can run on it, and what is said of one that lacks it.

use super::{BoardFile, Conduit, ExceptionLevel, Timer, addresses, pci, resolve, secure};
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::{Diagnostic, Report};
use crate::source::Span;
use bulkhead_abi::MAX_CORES;
use bulkhead_abi::image::{MAX_BANKS, MAX_RESERVED};
use bulkhead_abi::plan::MAX_INTID;
use bulkhead_arm::Intid;
use bulkhead_arm::core_type::CoreType;
use bulkhead_plan::model;

/// Most redistributor frames that are looked at; more than any board has cores.
pub(super) const MOST_FRAMES: u64 = 1024;
/// List registers that the monitor uses.
const LIST_REGISTERS: u64 = 4;

/// What can keep the monitor from running on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The image is not entered at EL2.
    ExceptionLevel,
    /// Cores cannot be started by an SMC.
    Psci,
    /// The interrupt controller is no GICv3.
    InterruptController,
    /// Redistributor frames at another distance, or fewer of them than cores.
    Frames,
    /// Fewer list registers than the monitor uses.
    ListRegisters,
    /// More INTIDs than the monitor holds.
    Intids,
    /// Timers at other private interrupts than the monitor takes them at.
    Timer,
    /// More cores than an image can use.
    Cores,
    /// A core type that the register list does not know.
    CoreType,
    /// RAM beyond the monitor's tables.
    Memory,
    /// A UART for the monitor that it cannot drive.
    Uart,
    /// Secure RAM, flash or UART elsewhere than the secure monitor has them.
    SecurePlaces,
}

impl Limit {
    /// Every limit.
    pub const ALL: &'static [Self] = &[
        Self::ExceptionLevel,
        Self::Psci,
        Self::InterruptController,
        Self::Frames,
        Self::ListRegisters,
        Self::Intids,
        Self::Timer,
        Self::Cores,
        Self::CoreType,
        Self::Memory,
        Self::Uart,
        Self::SecurePlaces,
    ];

    /// Returns what it is about, in a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::ExceptionLevel => "not entered at EL2",
            Self::Psci => "no PSCI by SMC",
            Self::InterruptController => "no GICv3",
            Self::Frames => "redistributor frames",
            Self::ListRegisters => "list registers",
            Self::Intids => "INTIDs",
            Self::Timer => "interrupts of the timer",
            Self::Cores => "number of cores",
            Self::CoreType => "core type",
            Self::Memory => "memory",
            Self::Uart => "UART of the monitor",
            Self::SecurePlaces => "places of the secure world",
        }
    }
}

/// Reports everything that a board lacks.
pub(super) fn report(file: &BoardFile, board: &model::Board, report: &mut Report) {
    for (limit, span, why) in of(file, board) {
        let message = format!("Bulkhead cannot run on this board ({}): {why}", limit.title());
        report.push(Diagnostic::new(Code::BoardLimit, message).at(span, ""));
    }
}

/// Everything that a board lacks: where it is written, and why it matters.
pub(super) fn of(file: &BoardFile, board: &model::Board) -> Vec<(Limit, Span, String)> {
    let mut limits = Vec::new();
    let mut lacks = |limit, span: Span, why: String| limits.push((limit, span, why));
    if file.enters_at.value == ExceptionLevel::El1 {
        lacks(
            Limit::ExceptionLevel,
            file.enters_at.span,
            "the monitor runs at EL2 and must be entered there".to_owned(),
        );
    }
    if let Some((span, why)) = secure::limit(file, board) {
        lacks(Limit::SecurePlaces, span, why);
    }
    if file.psci.value != Conduit::Smc {
        let why = "the monitor starts the other cores and powers the board off by PSCI calls, made by SMC";
        lacks(Limit::Psci, file.psci.span, why.to_owned());
    }
    for group in &file.cores.value {
        if CoreType::named(&group.kind).is_none() {
            let known: Vec<&str> = CoreType::KNOWN.iter().map(|kind| kind.name).collect();
            let why = format!(
                "the list of registers that a guest can reach does not know the core `{}`; it knows {}",
                group.kind.value,
                crate::suggest::list(&known)
            );
            lacks(Limit::CoreType, group.kind.span, why);
        }
    }
    if board.core_mpidr.len() > MAX_CORES {
        let why = format!("{} cores, and an image can use {MAX_CORES}", board.core_mpidr.len());
        lacks(Limit::Cores, file.cores.span, why);
    }
    let end = board.banks.iter().map(model::Bank::end).max().unwrap_or(0);
    let most = board.physical_address_end();
    if end > most {
        let why = format!("RAM ends at {end:#x}, and tables of 4 KiB pages reach to {most:#x}");
        lacks(Limit::Memory, file.memory.span, why);
    }
    let (banks, reserved) = (board.banks.len(), board.reserved_in(&board.banks).len());
    if banks > MAX_BANKS || reserved > MAX_RESERVED {
        let why = format!(
            "{banks} banks of RAM and {reserved} reserved regions, and an image lists {MAX_BANKS} and {MAX_RESERVED}"
        );
        lacks(Limit::Memory, file.memory.span, why);
    }
    if !addresses::has_place(board) {
        let why = "the first bank of RAM has no 2 MiB for an image beside what is reserved";
        lacks(Limit::Memory, file.memory.span, why.to_owned());
    }
    for one in pci::nobodys(file, &mut Report::default()) {
        let end = one.start.saturating_add(one.bytes);
        let is_there = |bank: &&model::Bank| bank.start.0 < end && one.start < bank.end();
        if let Some(bank) = board.banks.iter().find(is_there) {
            let why = format!("{} is in the bank of RAM at {}, which would be given away", one.name, bank.start);
            lacks(Limit::Memory, one.span, why);
        }
    }
    if let Some(uart) = resolve::monitor_uart(file).filter(|uart| uart.kind.value != resolve::PL011) {
        let why = "the monitor drives a PL011; without `monitor = true` it has no console input and runs nevertheless";
        lacks(Limit::Uart, uart.kind.span, why.to_owned());
    }
    limits.extend(file.timer.as_ref().and_then(of_timer));
    limits.extend(of_interrupts(file, board));
    limits
}

fn of_timer(timer: &Located<Timer>) -> Option<(Limit, Span, String)> {
    let written = [&timer.el1_physical, &timer.el1_virtual, &timer.el2_physical];
    let expected = [Intid::PHYSICAL_TIMER, Intid::VIRTUAL_TIMER, Intid::HYPERVISOR_TIMER];
    let (found, intid) = written.into_iter().zip(expected).find(|(found, intid)| found.value != u64::from(intid.0))?;
    let why = format!("a timer interrupts with INTID {}, and the monitor takes it at {}", found.value, intid.0);
    Some((Limit::Timer, found.span, why))
}

fn of_interrupts(file: &BoardFile, board: &model::Board) -> Vec<(Limit, Span, String)> {
    let mut limits = Vec::new();
    let mut lacks = |limit, span: Span, why: String| limits.push((limit, span, why));
    let gic = &file.interrupt_controller.value;
    if gic.version.value < 3 {
        let why =
            format!("it has a GICv{}, and list registers with system registers begin with GICv3", gic.version.value);
        // What follows is about GICv3 alone.
        return vec![(Limit::InterruptController, gic.version.span, why)];
    }
    if let Some(stride) = gic.redistributor_stride.as_ref().filter(|one| one.value != resolve::GICR_STRIDE_BYTES) {
        let why =
            format!("its frames are {:#x} bytes apart, and {:#x} is known", stride.value, resolve::GICR_STRIDE_BYTES);
        lacks(Limit::Frames, stride.span, why);
    } else if board.gicr.len() < board.core_mpidr.len() {
        let why = format!("{} cores, and redistributor frames for {}", board.core_mpidr.len(), board.gicr.len());
        lacks(Limit::Frames, file.interrupt_controller.span, why);
    }
    if gic.list_registers.value < LIST_REGISTERS {
        let why = format!("{} list registers, and the monitor uses {LIST_REGISTERS}", gic.list_registers.value);
        lacks(Limit::ListRegisters, gic.list_registers.span, why);
    }
    let most = MAX_INTID - Intid::FIRST_SHARED;
    if board.shared_interrupts > most {
        let why = format!("{} shared interrupts, and the monitor holds {most}", gic.shared_interrupts.value);
        lacks(Limit::Intids, gic.shared_interrupts.span, why);
    }
    limits
}
