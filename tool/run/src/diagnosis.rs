//! Puts what the host sees into words: names of states, reasons and phases, crash records, the state of a silent machine.

use crate::image_file::ImagePlan;
use crate::observer::{Observer, Phase};
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::observe::{
    CRASH_ADDRESS_BITS, CRASH_BAD_PLAN, CRASH_CACHE_LINES, CRASH_CORE_TYPE, CRASH_DEVICES, CRASH_EXCEPTION,
    CRASH_INTERRUPT, CRASH_PANIC, CRASH_SECURITY_STATES, Counter, CrashRecord,
};
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_abi::status::{self, FaultRecord};
use bulkhead_arm::Intid;
use bulkhead_description::board::built_in_board;
use bulkhead_guest_abi::guest::GUEST_UART;
use bulkhead_guest_abi::name_text;
use bulkhead_plan::model::{Board, CoreType};
use std::fmt;

pub use bulkhead_trace::words::{exception_class_name, reason_name, state_name};

/// Returns the words for what a core's monitor is doing.
#[must_use]
pub fn phase_name(phase: Phase) -> String {
    match phase {
        Phase::NotStarted => "its monitor has not started".to_owned(),
        Phase::PlanChecked => "its monitor checked the plan but has not entered the guest".to_owned(),
        Phase::GuestEntered => "its guest was entered".to_owned(),
        Phase::WaitsForCpuOn => "waits for its guest to switch the vCPU on".to_owned(),
        Phase::Unknown(number) => format!("in a phase this tool does not know ({number})"),
    }
}

/// A monitor's crash record with the core it was found on.
#[derive(Clone, Debug)]
pub struct CrashReport {
    /// Core index.
    pub core: usize,
    /// Partition of that core, or of a shared core the one in whose counter page the record is.
    pub partition: String,
    /// The record.
    pub record: CrashRecord,
    /// Where the program counter is in the image: bytes from the start of the monitor's text, if it is in there.
    pub text_offset: Option<u64>,
    /// What the core lacks, if it was refused for what it is.
    pub misfit: Option<String>,
}

impl CrashReport {
    /// Returns the report of the first core that crashed.
    #[must_use]
    pub fn find(observer: &Observer) -> Option<Self> {
        (0..observer.core_count()).find_map(|core| Self::of_core(observer, core))
    }

    /// States whether the core is dead. If functions could not be set up, its record says so, and it continues.
    #[must_use]
    pub const fn is_crash(&self) -> bool {
        self.record.kind != CRASH_DEVICES
    }

    /// Returns the report of one core, if it crashed.
    #[must_use]
    pub fn of_core(observer: &Observer, core: usize) -> Option<Self> {
        let record = observer.crash(core)?;
        let header = &observer.plan().header;
        let offset = record.program_counter.checked_sub(header.text.0).filter(|offset| *offset < header.text_bytes);
        let vcpus = observer.plan().cores.get(core).map_or(&[] as &[VcpuPlan], |plan| &plan.vcpus);
        let has_record = |plan: &&VcpuPlan| observer.vcpu_crash(plan.partition as usize, plan.vcpu as usize).is_some();
        let owner = vcpus.iter().find(has_record).or(vcpus.first());
        let partition = owner.map_or(usize::MAX, |plan| plan.partition as usize);
        let partition = observer.plan().partition_name(partition).to_owned();
        let misfit = misfit(&record, header, core);
        Some(Self { core, partition, record, text_offset: offset, misfit })
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.record;
        if let Some(misfit) = &self.misfit {
            let (core, partition) = (self.core, &self.partition);
            return write!(f, "the monitor of core {core} (partition {partition}) does not enter a guest: {misfit}");
        }
        if !self.is_crash() {
            let (script, step) = (record.detail & u64::from(u32::MAX), record.detail >> 32);
            return write!(
                f,
                "the boot core could not set up the SMMU and the PCI functions: step {step} of its script {script} failed. All \
                 functions are off, and partitions that have some are not started (device missing); the others run. Compare \
                 `[pci]` in the board file with the machine"
            );
        }
        write!(f, "the monitor of core {} (partition {}) failed: ", self.core, self.partition)?;
        match record.kind {
            CRASH_EXCEPTION => write!(
                f,
                "exception at EL2, {} (ESR_EL2 {:#x}, FAR_EL2 {:#x}, vector {})",
                exception_class_name(record.syndrome),
                record.syndrome,
                record.address,
                record.detail
            )?,
            CRASH_PANIC => {
                let end = record.file.iter().position(|byte| *byte == 0).unwrap_or(record.file.len());
                write!(f, "panic at {}:{}", String::from_utf8_lossy(&record.file[..end]).escape_debug(), record.line)?;
            }
            CRASH_BAD_PLAN => write!(f, "the image header or plan failed its check at boot")?,
            CRASH_SECURITY_STATES => f.write_str(&security_states(record.detail))?,
            CRASH_INTERRUPT if record.detail == u64::from(Intid::NONE.0) => f.write_str(
                "it cannot set the priority mask, so no interrupt would reach it: firmware takes interrupts of its own \
                 (SCR_EL3.FIQ) and left ICC_PMR_EL1 below 0x80. Let the firmware set it to 0xff before it enters the image",
            )?,
            CRASH_INTERRUPT if record.detail == u64::from(Intid::MESSAGE_SIGNALLED.0) => f.write_str(
                "it cannot switch message-signalled interrupts off, which its redistributor keeps in memory that the boot loader \
                 gave it (GICR_CTLR.EnableLPIs), and so would write there. Let the boot loader leave them off",
            )?,
            CRASH_INTERRUPT => write!(
                f,
                "it cannot set interrupt {}: firmware kept it for the secure world, or the interrupt controller has none of \
                 that number. Let the firmware put it into non-secure group 1, or compare `shared_interrupts`, `spare` and the \
                 interrupts of devices in the board file with the board's manual",
                record.detail
            )?,
            other => write!(f, "crash of unknown kind {other}")?,
        }
        write!(f, ", pc {:#x}", record.program_counter)?;
        if let Some(offset) = self.text_offset {
            write!(f, " (monitor text + {offset:#x})")?;
        }
        write!(f, ". The other cores are not touched by it.")
    }
}

/// Says what is wrong with a core that was refused for what it is, and what to do.
fn misfit(record: &CrashRecord, header: &ImageHeader, core: usize) -> Option<String> {
    let found = record.detail;
    let board = name_text(&header.board);
    match record.kind {
        CRASH_CORE_TYPE => {
            let planned = header.cores().get(core).map_or(0, |core| core.midr);
            Some(format!(
                "board `{board}` says that it is a {}, and it is {} (MIDR_EL1 {found:#x}); correct `cores` in the board file, or \
                 start another machine",
                CoreType::of(planned).map_or("core of no known type", |kind| kind.name),
                type_of(found)
            ))
        }
        CRASH_ADDRESS_BITS => Some(format!(
            "board `{board}` says that a physical address has {} bits, and the core has fewer (ID_AA64MMFR0_EL1 {found:#x}, PARange \
             {}); correct `physical_address_bits` in the board file",
            header.physical_address_bits,
            found & 15
        )),
        CRASH_CACHE_LINES => Some(format!(
            "it clears memory by DC ZVA, in blocks of at most 512 bytes that are no longer than a line, and lines have at least 64; \
             the core has DCZID_EL0 {:#x} and CTR_EL0 {:#x}. Bulkhead cannot run on it",
            found & u64::from(u32::MAX),
            found >> 32
        )),
        _ => None,
    }
}

/// The type of a core in words.
fn type_of(midr: u64) -> String {
    match CoreType::of(midr) {
        Some(kind) => format!("a {}", kind.name),
        None => format!(
            "of a type that the list of registers does not know (implementer {:#x}, part {:#x})",
            midr >> 24 & 0xff,
            midr >> 4 & 0xfff
        ),
    }
}

/// What it means that the interrupt controller has this many security states, and not those that the board file says.
fn security_states(found: u64) -> String {
    let (has, says) = match found {
        1 => ("one security state", "two"),
        2 => ("two security states", "one"),
        _ => {
            return String::from(
                "no GICv3 answers at the address of the distributor. Compare `distributor` in the board file's \
                 `[interrupt_controller]` with the board's manual or device tree",
            );
        }
    };
    format!(
        "the interrupt controller has {has}, and the board file says {says}. Set `security_states = {found}` in the board \
         file's `[interrupt_controller]` and build again"
    )
}

/// Says where a fault was, and where it was at a device of the board that its guest does not have, which one and what to do.
#[must_use]
pub fn place_of(plan: &ImagePlan, fault: &FaultRecord) -> String {
    let place = format!("pc {:#x}, guest address {:#x}", fault.program_counter, fault.guest_address);
    let is_access = fault.reason == status::REASON_DATA_ABORT;
    let board = built_in_board(name_text(&plan.header.board)).filter(|_| is_access);
    match board.and_then(|board| device_of(&board, fault.guest_address)) {
        Some(device) => format!("{place}: {device}"),
        None => place,
    }
}

/// What a board has at an address outside its RAM. The guest was refused it, so it is not one of the guest's own.
fn device_of(board: &Board, address: u64) -> Option<String> {
    let name = &board.name;
    if address.checked_sub(GUEST_UART.0).is_some_and(|offset| offset < PAGE_BYTES) {
        let text = "a guest with a console has its UART there; give this one a UART with `console = \"pl011\"`";
        return Some(text.to_owned());
    }
    let device =
        board.devices.iter().find(|one| address.checked_sub(one.address.0).is_some_and(|offset| offset < one.bytes))?;
    Some(format!(
        "`{name}` has its device `{0}` there, which this guest does not have; give it `devices = [\"{0}\"]`",
        device.name
    ))
}

/// Describes each core and partition in one line, for the message of a run that got stuck.
#[must_use]
pub fn describe_state(observer: &Observer) -> Vec<String> {
    let mut lines = Vec::new();
    for partition in 0..observer.partition_count() {
        let status = observer.status(partition);
        let mut line = format!("partition {}: {}", observer.plan().partition_name(partition), state_name(status.state));
        if status.reason != status::REASON_NONE {
            line.push_str(&format!(" ({})", reason_name(status.reason)));
        }
        if status.faults > 0 {
            let fault = &status.fault;
            line.push_str(&format!(
                ", {} faults, latest: {} at {}",
                status.faults,
                reason_name(fault.reason),
                place_of(observer.plan(), fault)
            ));
        }
        lines.push(line);
        for (vcpu, core) in observer.plan().cores_of(partition).into_iter().enumerate() {
            let exits = observer.vcpu_counter(partition, vcpu, Counter::Exits);
            let phase = phase_name(observer.vcpu_phase(partition, vcpu));
            lines.push(format!("  core {core}: {phase}, {exits} exits"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_abi::image::CoreBoot;
    use zerocopy::FromZeros;

    fn said(kind: u64, found: u64) -> String {
        let mut header = ImageHeader { core_count: 1, physical_address_bits: 44, ..ImageHeader::new_zeroed() };
        header.cores[0] = CoreBoot { midr: 0x4100_d080, ..CoreBoot::new_zeroed() };
        header.board[..4].copy_from_slice(b"mine");
        let record = CrashRecord { kind, detail: found, ..CrashRecord::new_zeroed() };
        let misfit = misfit(&record, &header, 0);
        CrashReport { core: 0, partition: "control".to_owned(), record, text_offset: None, misfit }.to_string()
    }

    #[test]
    fn a_core_that_is_not_what_the_board_file_says_is_called_by_both_names() {
        assert_eq!(
            said(CRASH_CORE_TYPE, 0x410f_d034),
            "the monitor of core 0 (partition control) does not enter a guest: board `mine` says that it is a cortex-a72, and it is a \
             cortex-a53 (MIDR_EL1 0x410fd034); correct `cores` in the board file, or start another machine"
        );
        let unknown = said(CRASH_CORE_TYPE, 0x412f_d0b1);
        assert!(unknown.contains("does not know (implementer 0x41, part 0xd0b) (MIDR_EL1 0x412fd0b1)"), "{unknown}");
        let bits = said(CRASH_ADDRESS_BITS, 0x1122);
        assert!(bits.contains("has 44 bits") && bits.contains("0x1122, PARange 2"), "{bits}");
        let lines = said(CRASH_CACHE_LINES, 0x8440_8004 << 32 | 0x14);
        assert!(lines.contains("DCZID_EL0 0x14 and CTR_EL0 0x84408004"), "{lines}");
        assert!(said(CRASH_BAD_PLAN, 0).contains("failed its check at boot"));
        let devices = said(CRASH_DEVICES, 1 | 7 << 32);
        assert!(devices.contains("step 7 of its script 1 failed. All functions are off"), "{devices}");
    }

    #[test]
    fn a_device_of_the_board_is_named_with_what_to_do() {
        let boards = bulkhead_description::board::built_in();
        let board = boards.first().expect("a built-in board");
        let uart = device_of(board, 0x900_0018).expect("the UART");
        assert_eq!(uart, "a guest with a console has its UART there; give this one a UART with `console = \"pl011\"`");
        let rtc = device_of(board, 0x901_0fff).expect("the clock");
        assert!(rtc.contains("device `rtc`") && rtc.contains("`devices = [\"rtc\"]`"), "{rtc}");
        assert!(device_of(board, 0xa00_0200).is_some_and(|text| text.contains("`virtio-mmio-1`")));
        assert_eq!(
            (device_of(board, 0x8ff_ffff), device_of(board, 0x900_1000), device_of(board, 0)),
            (None, None, None)
        );
    }
}
