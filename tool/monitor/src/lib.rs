//! The parts of the monitor, the secure monitor, and the real-time kernel that this build of the tool contains.
//!
//! `./x build` builds the monitor first and the tool after it, so each tool knows the monitor that its images are made of:
//! `bulkhead build` takes the smallest part that serves a plan, and `bulkhead verify` refuses an image whose monitor differs from
//! the part that its header names. A crate of its own, because writer and verifier share nothing else than layouts. The rejected
//! alternative, a hash of the monitor, would not let the verifier say where an image differs.
#![forbid(unsafe_code)]

mod recorded;

pub use recorded::code_lines;

use bulkhead_abi::Part;

static OWN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/own.elf"));
static SHARED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shared.elf"));
static HYBRID: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hybrid.elf"));
static DEVICES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/devices.elf"));
static DUAL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dual.elf"));
static KERNEL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel.elf"));
static TRACED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/traced.elf"));
static MULTI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/multi.elf"));

/// Returns a part's ELF file; `None` when the tool was compiled before a monitor was (plain cargo on a fresh clone).
#[must_use]
pub fn elf(part: Part) -> Option<&'static [u8]> {
    let elf = match part {
        Part::Own => OWN,
        Part::Shared => SHARED,
        Part::Hybrid => HYBRID,
        Part::Devices => DEVICES,
    };
    (!elf.is_empty()).then_some(elf)
}

/// Returns the ELF file of the secure monitor of several cores, `multi`; `None` when the tool was compiled before it was.
#[must_use]
pub fn secure_elf_of_cores() -> Option<&'static [u8]> {
    (!MULTI.is_empty()).then_some(MULTI)
}

/// Returns the ELF file of the real-time kernel that records; `None` when the tool was compiled before it was.
#[must_use]
pub fn traced_kernel_elf() -> Option<&'static [u8]> {
    (!TRACED.is_empty()).then_some(TRACED)
}

/// Returns the ELF file of the real-time kernel; `None` when the tool was compiled before it was.
#[must_use]
pub fn kernel_elf() -> Option<&'static [u8]> {
    (!KERNEL.is_empty()).then_some(KERNEL)
}

/// Returns the secure monitor's ELF file in the configuration `dual`; `None` when the tool was compiled before it was.
#[must_use]
pub fn secure_elf() -> Option<&'static [u8]> {
    (!DUAL.is_empty()).then_some(DUAL)
}
