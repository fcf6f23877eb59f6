//! The one line of text that the kernel itself prints: about a fault that nobody else is told of.

use bulkhead_arch::kernel::KernelMachine;

/// Digits of a word.
const DIGITS: u32 = 16;

/// Prints text.
pub(crate) fn print<M: KernelMachine>(machine: &mut M, text: &str) {
    text.bytes().for_each(|byte| machine.write_console(byte));
}

/// Prints a number in hexadecimal, without leading zeros.
pub(crate) fn print_hexadecimal<M: KernelMachine>(machine: &mut M, number: u64) {
    print(machine, "0x");
    let leading = (number.leading_zeros() / 4).min(DIGITS.saturating_sub(1));
    for digit in leading..DIGITS {
        let shift = DIGITS.saturating_sub(1).saturating_sub(digit).saturating_mul(4);
        let value = number.wrapping_shr(shift) as u8 & 0xf;
        machine.write_console(if value < 10 { b'0'.wrapping_add(value) } else { (b'a' - 10).wrapping_add(value) });
    }
}
