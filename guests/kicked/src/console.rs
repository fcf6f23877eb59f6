//! The non-secure console, a PL011, which core 0 alone prints to.

const UART: usize = 0x0900_0000;
const UART_FLAGS: usize = 0x18;
const UART_FULL: u32 = 1 << 5;

pub(crate) fn print(text: &str) {
    for byte in text.bytes() {
        // SAFETY: registers of the console, which is this world's.
        unsafe {
            let flags = core::ptr::with_exposed_provenance::<u32>(UART + UART_FLAGS);
            while flags.read_volatile() & UART_FULL != 0 {}
            core::ptr::with_exposed_provenance_mut::<u32>(UART).write_volatile(byte.into());
        }
    }
}

pub(crate) fn print_number(number: u64) {
    let mut divisor = 1;
    while number / divisor >= 10 {
        divisor *= 10;
    }
    while divisor != 0 {
        let digit = [b'0' + (number / divisor % 10) as u8];
        print(core::str::from_utf8(&digit).unwrap_or("?"));
        divisor /= 10;
    }
}
