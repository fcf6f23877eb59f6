//! Words for the numbers in records: states, reasons, exception classes, calls.

use bulkhead_abi::status;
use bulkhead_emulation::psci::CALLS;

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
        status::REASON_DEVICE_MISSING => "device missing",
        status::REASON_DEVICE_STUCK => "device stuck",
        status::REASON_DMA => "DMA outside its memory",
        status::REASON_BACK_END_BUSY => "back end busy",
        _ => "unknown",
    }
}

/// Where the exception class is in a syndrome (Arm ARM D17.2.38).
pub const CLASS_SHIFT: u32 = 26;

/// Returns the name of the exception class in an ESR_EL2 value (Arm ARM D17.2.38), as far as EL2 can take it.
#[must_use]
pub fn exception_class_name(syndrome: u64) -> &'static str {
    match (syndrome >> CLASS_SHIFT) & 0x3f {
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

/// Returns the name of a call that the monitor answers, or its number.
#[must_use]
pub fn call_name(function: u64) -> String {
    let call = CALLS.iter().find(|(.., ids)| ids.iter().any(|id| u64::from(*id) == function));
    call.map_or_else(|| format!("{function:#x}"), |(name, ..)| (*name).to_owned())
}

/// Writes a time or duration with the unit that suits it, without losing a digit: `1.25 ms`, `16 ns`.
#[must_use]
pub fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (size, unit) = units.into_iter().find(|(size, _)| ns >= *size).unwrap_or((1, "ns"));
    let digits = size.ilog10() as usize;
    let fraction = format!("{:0digits$}", ns % size);
    let fraction = fraction.trim_end_matches('0');
    if digits == 0 || fraction.is_empty() {
        format!("{} {unit}", ns / size)
    } else {
        format!("{}.{fraction} {unit}", ns / size)
    }
}
