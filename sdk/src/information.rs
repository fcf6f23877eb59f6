//! The information page, where there is one.
//!
//! A guest learns at run time what is below it. It probes the page's address once and looks for the magic: on the bare
//! QEMU board that address is an empty part of the PCI window (reads give ones), on other boards the probe may abort,
//! which the vectors turn into "not there". A guest started the Linux way (its device tree has a PCI bus) has no page
//! and a probe would be its fault, so it takes its arguments from the device tree. The rejected alternative, the device tree
//! alone, leaves the ELF file started by QEMU with nothing: it gets no tree.

use crate::{device_tree, exception};
use bulkhead_abi::ABI_VERSION;
use bulkhead_abi::plan::PortInformation;
use bulkhead_guest_abi::guest::{GUEST_INFORMATION, GUEST_MAGIC, GuestInformation};
use bulkhead_guest_abi::name_text;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static IS_PRESENT: AtomicBool = AtomicBool::new(false);
static DEVICE_TREE: AtomicU64 = AtomicU64::new(0);

/// RAM that a device tree may lie in (`memory.rs`).
const RAM: core::ops::Range<u64> = 0x4000_0000..0x1_0000_0000;

/// Looks for the page; runs once, on vCPU 0, before the guest's own code. `address` is x0 at entry.
pub(crate) fn probe(address: u64) {
    if RAM.contains(&address) && address.is_multiple_of(8) {
        DEVICE_TREE.store(address, Ordering::Release);
    }
    if has_pci_bus() {
        return;
    }
    let is_present = exception::probe_read64(GUEST_INFORMATION.0) == Ok(GUEST_MAGIC);
    // The version follows the magic and is read only when the page is there.
    let version = core::mem::offset_of!(GuestInformation, abi_version) as u64;
    let is_known = is_present
        && exception::probe_read64(GUEST_INFORMATION.0 + version)
            .is_ok_and(|word| word & 0xffff_ffff == u64::from(ABI_VERSION));
    IS_PRESENT.store(is_known, Ordering::Release);
}

/// Returns the device tree given at entry, if it is one.
#[must_use]
pub fn device_tree() -> Option<&'static [u8]> {
    let address = DEVICE_TREE.load(Ordering::Acquire);
    if address == 0 {
        return None;
    }
    // SAFETY: a loader that starts a guest by the arm64 boot protocol gives the address of a tree in RAM; the first 8
    // bytes of any aligned RAM address can be read.
    let header = unsafe { core::slice::from_raw_parts(address as *const u8, 8) };
    let bytes = device_tree::total_bytes(header)?;
    // SAFETY: the header has the magic and a length of at most 2 MiB; nobody writes the tree.
    Some(unsafe { core::slice::from_raw_parts(address as *const u8, bytes) })
}

/// States whether this is a partition that was started the Linux way: it has a virtual PCI bus and no information page.
#[must_use]
pub fn has_pci_bus() -> bool {
    let Some(tree) = device_tree() else {
        return false;
    };
    let compatible = device_tree::property(tree, &[], "compatible").unwrap_or_default();
    compatible.starts_with(b"bulkhead,partition\0") && device_tree::property(tree, &["pcie"], "compatible").is_some()
}

/// Returns the information page; `None` on the bare board and in a partition started the Linux way.
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

/// Returns the partition's name; `"bare"` without an information page.
#[must_use]
pub fn name() -> &'static str {
    information().map_or("bare", |page| name_text(&page.name))
}

/// Returns the arguments from the system description or, without an information page, the device tree's command line.
#[must_use]
pub fn arguments() -> &'static str {
    match information() {
        Some(page) => crate::arguments::text(&page.arguments),
        None => device_tree()
            .and_then(|tree| device_tree::property(tree, &["chosen"], "bootargs"))
            .map_or("", crate::arguments::text),
    }
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
