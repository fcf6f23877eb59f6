//! What an exception of EL0 that is no call comes to (Arm ARM D17.2.37, ESR_EL1.EC).

use bulkhead_arm::exception::ExceptionClass;
use bulkhead_kernel_abi::accounts::FaultKind;

/// SVC from AArch64: a call; bits 15:0 of the syndrome are its number.
pub(crate) const CALL: ExceptionClass = ExceptionClass(0x15);
const PROGRAM_COUNTER_ALIGNMENT: ExceptionClass = ExceptionClass(0x22);
const STACK_ALIGNMENT: ExceptionClass = ExceptionClass(0x26);
const WATCHPOINT: ExceptionClass = ExceptionClass(0x34);
/// Debug exceptions from a lower level: breakpoint, step, watchpoint, BRK.
const DEBUG: [ExceptionClass; 4] = [ExceptionClass(0x30), ExceptionClass(0x32), WATCHPOINT, ExceptionClass(0x3c)];
/// DFSC of a data abort: alignment.
const STATUS_ALIGNMENT: u64 = 0x21;
const STATUS: u64 = 0x3f;

/// The kind of a fault.
#[must_use]
pub fn kind(syndrome: u64) -> FaultKind {
    match ExceptionClass::of_syndrome(syndrome) {
        ExceptionClass::DATA_ABORT if syndrome & STATUS == STATUS_ALIGNMENT => FaultKind::Alignment,
        ExceptionClass::DATA_ABORT | ExceptionClass::INSTRUCTION_ABORT => FaultKind::Memory,
        PROGRAM_COUNTER_ALIGNMENT | STACK_ALIGNMENT => FaultKind::Alignment,
        ExceptionClass::FLOATING_POINT => FaultKind::FloatingPoint,
        class if DEBUG.contains(&class) => FaultKind::Debug,
        _ => FaultKind::Instruction,
    }
}

/// Whether FAR_EL1 belongs to the exception; otherwise it is what another one left there, of another component perhaps.
#[must_use]
pub fn has_address(syndrome: u64) -> bool {
    let class = ExceptionClass::of_syndrome(syndrome);
    [ExceptionClass::DATA_ABORT, ExceptionClass::INSTRUCTION_ABORT, PROGRAM_COUNTER_ALIGNMENT, WATCHPOINT]
        .contains(&class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// each class that EL0 can raise is one kind, and none is left out.
    #[test]
    fn each_class_is_of_one_kind() {
        let of = |class: u64, status: u64| kind(class << 26 | status);
        assert_eq!([of(0x24, 0x07), of(0x24, 0x0f), of(0x20, 0x0d)], [FaultKind::Memory; 3]);
        assert_eq!([of(0x24, 0x21), of(0x22, 0), of(0x26, 0)], [FaultKind::Alignment; 3]);
        assert_eq!([of(0x00, 0), of(0x01, 0), of(0x0e, 0), of(0x18, 0)], [FaultKind::Instruction; 4]);
        assert_eq!(of(0x07, 0), FaultKind::FloatingPoint);
        assert_eq!([of(0x30, 0), of(0x32, 0), of(0x34, 0), of(0x3c, 0)], [FaultKind::Debug; 4]);
        assert!(has_address(0x24 << 26) && !has_address(0x18 << 26));
        // What nobody knows ends the thread as well.
        assert_eq!(of(0x3f, 0), FaultKind::Instruction);
    }
}
