//! Further vCPUs of a guest.

use crate::{cpu, psci};
use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering},
};

/// What `start.s` reads at a secondary's entry: the stack pointer at offset 0.
#[repr(C)]
struct SecondaryStart {
    stack_top: u64,
    main: fn(),
}

/// Stack and start record of one further vCPU. Make one `static` for each.
#[repr(C, align(16))]
pub struct SecondaryStack<const BYTES: usize> {
    stack: UnsafeCell<[u8; BYTES]>,
    start: UnsafeCell<SecondaryStart>,
    is_used: AtomicBool,
}

// SAFETY: `start` claims the stack once for one vCPU (`is_used`); the record is written before the vCPU runs and only read
// by it afterwards.
unsafe impl<const BYTES: usize> Sync for SecondaryStack<BYTES> {}

impl<const BYTES: usize> Default for SecondaryStack<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BYTES: usize> SecondaryStack<BYTES> {
    /// Makes a stack of `BYTES` bytes, a multiple of 16.
    #[must_use]
    pub const fn new() -> Self {
        assert!(BYTES.is_multiple_of(16) && BYTES >= 1024, "a stack has a multiple of 16 bytes, at least 1024");
        Self {
            stack: UnsafeCell::new([0; BYTES]),
            start: UnsafeCell::new(SecondaryStart { stack_top: 0, main: psci_off }),
            is_used: AtomicBool::new(false),
        }
    }

    /// Starts vCPU number `vcpu` in `main`; the vCPU switches itself off when `main` returns.
    ///
    /// # Errors
    /// The PSCI error; -4 (already on) when this stack was used before.
    pub fn start(&'static self, vcpu: u32, main: fn()) -> Result<(), psci::PsciError> {
        if self.is_used.swap(true, Ordering::AcqRel) {
            return Err(psci::PsciError::AlreadyOn);
        }
        let stack_top = self.stack.get() as u64 + BYTES as u64;
        // SAFETY: `is_used` gives this call alone the record, and no vCPU reads it yet.
        unsafe { *self.start.get() = SecondaryStart { stack_top, main } };
        let entry = bulkhead_sdk_secondary as *const () as u64;
        // SAFETY: the entry is the SDK's own, made for exactly this record.
        let result = unsafe { psci::cpu_on(u64::from(vcpu), entry, self.start.get() as u64) };
        if result.is_err() {
            self.is_used.store(false, Ordering::Release);
        }
        result
    }
}

unsafe extern "C" {
    fn bulkhead_sdk_secondary();
}

fn psci_off() {
    psci::cpu_off()
}

/// Rust end of `bulkhead_sdk_secondary`.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_sdk_start_secondary(start: &'static SecondaryStart) -> ! {
    (start.main)();
    cpu::mask_interrupts();
    psci::cpu_off()
}
