//! Text output: into the partition's own ring without an exit, or through a PL011 where there is no ring.

use crate::{cpu, information, mmio, ring::Ring};
use bulkhead_arm::pl011;
use bulkhead_guest_abi::guest::GUEST_UART;
use core::{
    cell::UnsafeCell,
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

/// UART of the bare board (QEMU `virt`), which guests find at the same place.
const BOARD_UART: u64 = GUEST_UART.0;

/// Where text goes.
enum Sink {
    /// Nowhere: not started, or the description says `console = "none"`.
    None,
    /// The partition's own ring.
    Ring(Ring),
    /// A PL011 at this guest address.
    Uart(u64),
}

/// The sink with the lock that vCPUs and interrupt handlers share.
struct Console {
    is_locked: AtomicBool,
    sink: UnsafeCell<Sink>,
}

// SAFETY: `sink` is reached through `with_sink` alone, which holds the lock with interrupts masked.
unsafe impl Sync for Console {}

static CONSOLE: Console = Console { is_locked: AtomicBool::new(false), sink: UnsafeCell::new(Sink::None) };

fn with_sink(work: impl FnOnce(&mut Sink)) {
    cpu::without_interrupts(|| {
        while CONSOLE.is_locked.swap(true, Ordering::Acquire) {
            cpu::yield_now();
        }
        // SAFETY: the lock is held and interrupts are masked, so nobody else on any vCPU has a reference.
        work(unsafe { &mut *CONSOLE.sink.get() });
        CONSOLE.is_locked.store(false, Ordering::Release);
    });
}

/// Chooses the sink; runs once, on vCPU 0, after the probe of the information page.
pub(crate) fn start() {
    let sink = match information::information() {
        None => Sink::Uart(BOARD_UART),
        Some(page) if page.console.0 != 0 => {
            // SAFETY: the information page names a ring of this many bytes that stage 2 maps for this guest alone, and
            // this is the only writer made of it.
            unsafe { Ring::open(page.console.0 as *mut u64, page.console_bytes) }.map_or(Sink::None, Sink::Ring)
        }
        Some(page) if page.uart.0 != 0 => Sink::Uart(page.uart.0),
        Some(_) => Sink::None,
    };
    with_sink(|slot| *slot = sink);
}

/// Writes bytes to the console.
pub fn write_bytes(bytes: &[u8]) {
    with_sink(|sink| match sink {
        Sink::None => {}
        Sink::Ring(ring) => bytes.iter().for_each(|byte| ring.write(*byte, cpu::counter_ticks())),
        Sink::Uart(address) => bytes.iter().for_each(|byte| write_uart(*address, *byte)),
    });
}

fn write_uart(address: u64, byte: u8) {
    // SAFETY: a PL011 of this guest; writing its data register sends a byte.
    unsafe {
        while mmio::read32(address + pl011::UARTFR) & pl011::FLAG_TRANSMIT_FULL != 0 {
            cpu::yield_now();
        }
        mmio::write32(address + pl011::UARTDR, u32::from(byte));
    }
}

/// The console as a formatting target.
pub struct Writer;

impl fmt::Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_bytes(text.as_bytes());
        Ok(())
    }
}

/// Prints formatted text to the console.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => {{
        use ::core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = ::core::write!($crate::console::Writer, $($argument)*);
    }};
}

/// Prints formatted text and a line end to the console.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => {{
        use ::core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = ::core::writeln!($crate::console::Writer, $($argument)*);
    }};
}
