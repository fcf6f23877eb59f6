//! Puts what the host sees into words: names of states, reasons and phases, crash records, the state of a silent machine.

use crate::observer::{Observer, Phase};
use bulkhead_abi::observe::{CRASH_BAD_PLAN, CRASH_EXCEPTION, CRASH_PANIC, Counter, CrashRecord};
use bulkhead_abi::status;
use std::fmt;

/// Returns the word for a partition state.
#[must_use]
pub fn state_name(state: u32) -> &'static str {
    match state {
        status::STATE_INITIAL => "initial",
        status::STATE_RUNNING => "running",
        status::STATE_SUSPENDED => "suspended",
        status::STATE_OFF => "off",
        status::STATE_RESTARTING => "restarting",
        status::STATE_STOPPED => "stopped",
        _ => "unknown",
    }
}

/// Returns the words for the reason of a state.
#[must_use]
pub fn reason_name(reason: u32) -> &'static str {
    match reason {
        status::REASON_NONE => "none",
        status::REASON_DATA_ABORT => "data access outside its memory",
        status::REASON_INSTRUCTION_ABORT => "instruction fetch outside its memory",
        status::REASON_UNKNOWN_EXCEPTION => "exception without an answer",
        status::REASON_FORBIDDEN_CALL => "forbidden call",
        status::REASON_WATCHDOG => "watchdog",
        status::REASON_REQUESTED => "requested by itself",
        status::REASON_MANAGED => "requested by a manager",
        status::REASON_SERROR => "SError",
        status::REASON_IMAGE_DAMAGED => "pristine image damaged",
        status::REASON_BAD_ACCESS => "bad access to an emulated device",
        status::REASON_CORE_STUCK => "one of its cores did not stop",
        _ => "unknown",
    }
}

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
    /// Partition of that core.
    pub partition: String,
    /// The record.
    pub record: CrashRecord,
    /// Where the program counter is in the image: bytes from the start of the monitor's text, if it is in there.
    pub text_offset: Option<u64>,
}

impl CrashReport {
    /// Returns the report of the first core that crashed.
    #[must_use]
    pub fn find(observer: &Observer) -> Option<Self> {
        (0..observer.core_count()).find_map(|core| Self::of_core(observer, core))
    }

    /// Returns the report of one core, if it crashed.
    #[must_use]
    pub fn of_core(observer: &Observer, core: usize) -> Option<Self> {
        let record = observer.crash(core)?;
        let header = &observer.plan().header;
        let offset = record.program_counter.checked_sub(header.text.0).filter(|offset| *offset < header.text_bytes);
        let partition = observer.plan().cores.get(core).map_or(usize::MAX, |plan| plan.partition as usize);
        let partition = observer.plan().partition_name(partition).to_owned();
        Some(Self { core, partition, record, text_offset: offset })
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.record;
        write!(f, "the monitor of core {} (partition {}) failed: ", self.core, self.partition)?;
        match record.kind {
            CRASH_EXCEPTION => write!(
                f,
                "exception at EL2, {} (ESR_EL2 {:#x}, FAR_EL2 {:#x})",
                exception_class_name(record.syndrome),
                record.syndrome,
                record.address
            )?,
            CRASH_PANIC => {
                let end = record.file.iter().position(|byte| *byte == 0).unwrap_or(record.file.len());
                write!(f, "panic at {}:{}", String::from_utf8_lossy(&record.file[..end]).escape_debug(), record.line)?;
            }
            CRASH_BAD_PLAN => write!(f, "the image header or plan failed its check at boot")?,
            other => write!(f, "crash of unknown kind {other}")?,
        }
        write!(f, ", pc {:#x}", record.program_counter)?;
        if let Some(offset) = self.text_offset {
            write!(f, " (monitor text + {offset:#x})")?;
        }
        write!(f, ", sp {:#x}. The other cores are not touched by it.", record.stack_pointer)
    }
}

/// Returns the name of the exception class in an ESR value (Arm ARM D17.2.37), as far as EL2 can take it.
#[must_use]
pub fn exception_class_name(syndrome: u64) -> &'static str {
    match (syndrome >> 26) & 0x3f {
        0x00 => "unknown reason",
        0x01 => "WFI or WFE",
        0x07 => "FP or SIMD access",
        0x0e => "illegal execution state",
        0x15 => "SVC",
        0x16 => "HVC",
        0x17 => "SMC",
        0x18 => "system register access",
        0x20 => "instruction abort from a lower level",
        0x21 => "instruction abort",
        0x22 => "misaligned PC",
        0x24 => "data abort from a lower level",
        0x25 => "data abort",
        0x26 => "misaligned SP",
        0x2c => "floating-point exception",
        0x2f => "SError",
        0x30 | 0x31 => "breakpoint",
        0x32 | 0x33 => "software step",
        0x34 | 0x35 => "watchpoint",
        0x3c => "BRK",
        _ => "other",
    }
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
                ", {} faults, latest: {} at pc {:#x}, guest address {:#x}",
                status.faults,
                reason_name(fault.reason),
                fault.program_counter,
                fault.guest_address
            ));
        }
        lines.push(line);
        for core in observer.plan().cores_of(partition) {
            let exits = observer.counter(core, Counter::Exits);
            lines.push(format!("  core {core}: {}, {exits} exits", phase_name(observer.phase(core))));
        }
    }
    lines
}
