//! The monitor that this build of the tool contains.
//!
//! `./x build` builds the monitor first and the tool after it, so each tool knows the one monitor that its images are made of:
//! `bulkhead build` takes it, and `bulkhead verify` refuses an image whose monitor differs from it. A crate of its own, because
//! writer and verifier share nothing else than layouts. The rejected alternative, a hash of the monitor, would not let the
//! verifier say where an image differs.
#![forbid(unsafe_code)]

static ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/monitor.elf"));

/// Returns the monitor's ELF file; `None` when the tool was compiled before a monitor was (plain cargo on a fresh clone).
#[must_use]
pub fn elf() -> Option<&'static [u8]> {
    (!ELF.is_empty()).then_some(ELF)
}
