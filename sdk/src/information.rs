//! The information page, where there is one.
//!
//! A guest learns at run time whether Bulkhead is below it: it probes the page's address once and looks for the magic. On
//! the bare QEMU board that address is an empty part of the PCI window (reads give ones), on other boards the probe may
//! abort, which the vectors turn into "not there". The rejected alternative, a search of the device tree, needs a parser
//! in each guest, and an ELF file started by QEMU gets no device tree at all.

use crate::exception;
use bulkhead_abi::{
    ABI_VERSION,
    guest::{GUEST_INFORMATION, GUEST_MAGIC, GuestInformation, PortInformation},
    name_text,
};
use core::sync::atomic::{AtomicBool, Ordering};

static IS_PRESENT: AtomicBool = AtomicBool::new(false);

/// Looks for the page; runs once, on vCPU 0, before the guest's own code.
pub(crate) fn probe() {
    let is_present = exception::probe_read64(GUEST_INFORMATION.0) == Ok(GUEST_MAGIC);
    // The version follows the magic and is read only when the page is there.
    let version = core::mem::offset_of!(GuestInformation, abi_version) as u64;
    let is_known = is_present && exception::probe_read64(GUEST_INFORMATION.0 + version).is_ok_and(|word| word & 0xffff_ffff == u64::from(ABI_VERSION));
    IS_PRESENT.store(is_known, Ordering::Release);
}

/// Returns the information page; `None` on the bare board.
#[must_use]
pub fn information() -> Option<&'static GuestInformation> {
    if !IS_PRESENT.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: (1) the probe found the page with its magic and version, so it is mapped, and it is a whole page, larger
    // than the type (asserted in the ABI crate); (2) it is page-aligned; (3) every bit pattern is a value of the type
    // (`FromBytes`); (4) it is read-only at stage 2 and no monitor writes it while the guest runs.
    Some(unsafe { &*(GUEST_INFORMATION.0 as *const GuestInformation) })
}

/// Returns the partition's name; `"bare"` on the bare board.
#[must_use]
pub fn name() -> &'static str {
    information().map_or("bare", |page| name_text(&page.name))
}

/// Returns the arguments from the system description; empty on the bare board.
#[must_use]
pub fn arguments() -> &'static str {
    information().map_or("", |page| crate::arguments::text(&page.arguments))
}

/// Returns the ports of the partition.
#[must_use]
pub fn ports() -> &'static [PortInformation] {
    information().map_or(&[], |page| {
        let count = usize::try_from(page.port_count).unwrap_or(usize::MAX).min(page.ports.len());
        page.ports.split_at(count).0
    })
}

/// Finds a port by its name.
#[must_use]
pub fn port(name: &str) -> Option<&'static PortInformation> {
    ports().iter().find(|port| name_text(&port.name) == name)
}
