//! What a driver needs: the registers of its device, and the device's interrupt.
//!
//! A component names a device, and the description of the instance says which one it is, as it does for functions (`bind = { clock = "device:rtc" }`). So the
//! program has no address, and is the same on another board.
//!
//! ```text
//! bulkhead_component::devices! {
//!     /// The clock.
//!     clock;
//! }
//! let seconds = clock::registers().read32(0);
//! ```

use crate::Code;
use crate::call::{call, done};
use bulkhead_kernel_abi::call::{Call, InterruptOperation};
use core::arch::asm;

/// Bytes of a page, in which all registers are.
const PAGE_BYTES: u64 = 4096;

/// The first page of a device's registers.
#[derive(Clone, Copy, Debug)]
pub struct Registers(u64);

impl Registers {
    /// For [`crate::devices`] alone.
    ///
    /// # Safety
    /// The address is what the writer of the instance wrote for a device: a page of registers that is this component's alone.
    #[doc(hidden)]
    #[must_use]
    pub const unsafe fn new(address: u64) -> Self {
        Self(address)
    }

    /// Where they begin.
    #[cfg(feature = "virtio")]
    pub(crate) const fn base(self) -> u64 {
        self.0
    }

    /// The address of a register: within the page, and aligned.
    const fn at(self, offset: u64) -> u64 {
        self.0 + offset % PAGE_BYTES / 4 * 4
    }

    /// Reads a register of 32 bits.
    #[inline]
    #[must_use]
    pub fn read32(self, offset: u64) -> u32 {
        let value: u32;
        // A plain load: should a monitor stand between, it gets a syndrome that it can decode.
        // SAFETY: (1) a page of registers that this component has alone (`new`), in which the offset stays; (2) no object of the language is there. Not
        // `nomem`: what it does to the device may be about memory.
        unsafe { asm!("ldr {:w}, [{}]", out(reg) value, in(reg) self.at(offset), options(nostack, preserves_flags)) };
        value
    }

    /// Writes a register of 32 bits.
    #[inline]
    pub fn write32(self, offset: u64, value: u32) {
        // A plain store, for the same reason.
        // SAFETY: as for `read32`. A device that writes memory by itself can be told to write this component's own: `check` names it.
        unsafe { asm!("str {:w}, [{}]", in(reg) value, in(reg) self.at(offset), options(nostack, preserves_flags)) };
    }
}

/// Names devices whose registers the component has: `NAME::registers()`.
#[macro_export]
macro_rules! devices {
    ($($(#[$about:meta])* $visibility:vis $name:ident;)+) => {$(
        $(#[$about])*
        $visibility mod $name {
            static ADDRESS: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record =
                $crate::interface::Record::device(stringify!($name), ::core::ptr::from_ref(&ADDRESS).cast());

            /// Its registers.
            #[inline]
            pub fn registers() -> $crate::driver::Registers {
                // SAFETY: the writer of the instance has put the address of a device's registers into the word that the record names.
                unsafe { $crate::driver::Registers::new($crate::interface::slot(&ADDRESS)) }
            }
        }
    )+};
}

fn interrupt(operation: InterruptOperation, slot: u64, client: u64) -> Result<(), Code> {
    done(call::<{ Call::Interrupt.number() }>([operation.number(), slot, client, 0, 0, 0, 0, 0])).map(|_| ())
}

/// Tells the kernel that the interrupt of a slot is served: it may come again. Who was begun again says it first, since the kernel has masked it.
///
/// # Errors
/// `Busy` when it is neither held nor masked: it may come already. `Denied` to a thread that runs on the time of another server than that which pays for the interrupt: the one of the
/// thread that takes its signal.
pub fn interrupt_done(slot: u64) -> Result<(), Code> {
    interrupt(InterruptOperation::Done, slot, 0)
}

/// The next interrupt of a slot is an answer to the thread that calls this, and is charged to its server (QV-35).
///
/// # Errors
/// `BadArgument` when that server is no client of the interrupt's; `Full` when it expects it already.
pub fn interrupt_expect(slot: u64) -> Result<(), Code> {
    interrupt(InterruptOperation::Expect, slot, 0)
}

/// It is not, after all.
///
/// # Errors
/// As [`interrupt_expect`]; `Busy` when it was not expected.
pub fn interrupt_cancel(slot: u64) -> Result<(), Code> {
    interrupt(InterruptOperation::Cancel, slot, 0)
}
