//! Changes one thing in a finished image and makes its checksums right again.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::plan::{PartitionPlan, VcpuPlan};
use bulkhead_abi::schedule::SchedulePlan;
use bulkhead_guest_abi::guest::{GUEST_INFORMATION, GuestInformation};
use bulkhead_image::assemble;
use bulkhead_plan::layout::Layout;
use bulkhead_plan::model::System;
use bulkhead_plan::{AreaKind, MonitorImage, samples};
use bulkhead_verify::{Expected, Monitor, Verdict};
use std::sync::LazyLock;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The monitor of the samples.
static MONITOR: LazyLock<Expected> = LazyLock::new(|| {
    let sample = samples::monitor();
    Expected::only(Monitor::new(&sample.text, &sample.rodata))
});

/// Verifies an image of a sample.
pub(crate) fn verify_bytes(bytes: &[u8]) -> Verdict {
    bulkhead_verify::verify_bytes(bytes, &MONITOR)
}

/// Output address of a descriptor.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// EL2 descriptor bits, written from the Arm ARM: AF, SH inner, AP[1].
const EL2: u64 = 1 << 10 | 3 << 8 | 1 << 6;
/// Never executable.
pub(crate) const XN: u64 = 1 << 54;
/// EL2: read-only.
pub(crate) const READ_ONLY: u64 = 1 << 7;
/// EL2: normal memory, read and write, never executable; a page.
pub(crate) const EL2_DATA_PAGE: u64 = EL2 | 1 << 2 | XN | 3;
/// EL2: the same as a 2 MiB block.
pub(crate) const EL2_DATA_BLOCK: u64 = EL2 | 1 << 2 | XN | 1;
/// EL2: a device page.
pub(crate) const EL2_DEVICE_PAGE: u64 = EL2 | XN | 3;
/// Stage 2: normal memory that a guest may read; a page.
pub(crate) const GUEST_READ_PAGE: u64 = 1 << 10 | 3 << 8 | 1 << 6 | 0xf << 2 | XN | 3;
/// Stage 2: write permission.
pub(crate) const GUEST_WRITE: u64 = 1 << 7;
/// Stage 2: a device page.
pub(crate) const GUEST_DEVICE_PAGE: u64 = 1 << 10 | 3 << 8 | 3 << 6 | 1 << 2 | XN | 3;

/// An image under change.
#[derive(Clone)]
pub(crate) struct Editor {
    pub(crate) bytes: Vec<u8>,
    pub(crate) header: ImageHeader,
    pub(crate) layout: Layout,
    header_offset: usize,
}

impl Editor {
    /// Starts from the image of the demo sample.
    pub(crate) fn demo() -> Self {
        Self::of(&samples::demo())
    }

    /// Starts from the image of the sample with two banks, on a board of 44 bits.
    pub(crate) fn far() -> Self {
        Self::of(&samples::far())
    }

    /// Starts from the image of the sample with shared cores.
    pub(crate) fn shared() -> Self {
        Self::of(&samples::shared_cores())
    }

    /// Starts from the image of a system.
    pub(crate) fn of(system: &System) -> Self {
        Self::with(system, &samples::monitor())
    }

    /// Starts from the image of a system with this monitor.
    pub(crate) fn with(system: &System, monitor: &MonitorImage) -> Self {
        let image = assemble(system, monitor).unwrap();
        let header = image.plan.header;
        let header_offset = (header.text_bytes + header.rodata_bytes) as usize;
        Self { bytes: image.bytes, header, layout: image.plan.layout, header_offset }
    }

    /// Writes the header back and makes all its checksums right.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let start = (self.header.plan.0 - self.header.image_start.0) as usize;
        if let Some(plan) = self.bytes.get(start..start + self.header.plan_bytes as usize) {
            self.header.plan_crc = crc32c::crc32c(plan);
        }
        if let Some(text) = self.bytes.get(..self.header_offset) {
            self.header.text_crc = crc32c::crc32c(text);
        }
        self.header.header_crc = 0;
        self.header.header_crc = crc32c::crc32c(self.header.as_bytes());
        let slot = self.header_offset..self.header_offset + size_of::<ImageHeader>();
        if let Some(slot) = self.bytes.get_mut(slot) {
            slot.copy_from_slice(self.header.as_bytes());
        }
        self.bytes
    }

    /// Returns the address of an area.
    pub(crate) fn at(&self, kind: AreaKind) -> u64 {
        self.layout.area(kind).unwrap_or_else(|| panic!("{kind:?} does not exist")).address.0
    }

    fn offset(&self, address: u64) -> usize {
        (address - 0x4020_0000) as usize
    }

    /// Returns the bytes from a physical address on.
    pub(crate) fn slice(&mut self, address: u64) -> &mut [u8] {
        let offset = self.offset(address);
        &mut self.bytes[offset..]
    }

    /// Changes a structure in place.
    pub(crate) fn edit<T: FromBytes + IntoBytes + Immutable + KnownLayout>(
        &mut self,
        address: u64,
        change: impl FnOnce(&mut T),
    ) {
        let slot = &mut self.slice(address)[..size_of::<T>()];
        let mut value = T::read_from_bytes(slot).unwrap();
        change(&mut value);
        slot.copy_from_slice(value.as_bytes());
    }

    pub(crate) fn core(&mut self, core: usize, change: impl FnOnce(&mut VcpuPlan)) {
        self.edit(self.header.cores[core].plan.0, change);
    }

    pub(crate) fn schedule(&mut self, core: usize, change: impl FnOnce(&mut SchedulePlan)) {
        self.edit(self.header.cores[core].schedule.0, change);
    }

    /// Changes the plan of a vCPU of any core.
    pub(crate) fn vcpu(&mut self, partition: usize, vcpu: usize, change: impl FnOnce(&mut VcpuPlan)) {
        self.edit(self.at(AreaKind::VcpuPlan(partition, vcpu)), change);
    }

    pub(crate) fn partition(&mut self, partition: usize, change: impl FnOnce(&mut PartitionPlan)) {
        self.edit(self.header.partitions[partition].plan.0, change);
    }

    pub(crate) fn plan_of(&self, partition: usize) -> PartitionPlan {
        let offset = self.offset(self.header.partitions[partition].plan.0);
        PartitionPlan::read_from_prefix(&self.bytes[offset..]).unwrap().0
    }

    pub(crate) fn information(&mut self, partition: usize, change: impl FnOnce(&mut GuestInformation)) {
        let root = self.guest_root(partition);
        let page = self.entry(root, GUEST_INFORMATION.0, 3) & ADDRESS;
        self.edit(page, change);
    }

    pub(crate) fn el2_root(&self, core: usize) -> u64 {
        self.header.cores[core].el2_root.0
    }

    pub(crate) fn guest_root(&self, partition: usize) -> u64 {
        self.header.partitions[partition].stage2_root.0
    }

    /// VTCR_EL2 of a partition.
    pub(crate) fn vcpu_vtcr(&self, partition: usize) -> u64 {
        let offset = self.offset(self.at(AreaKind::VcpuPlan(partition, 0)));
        VcpuPlan::read_from_prefix(&self.bytes[offset..]).unwrap().0.vtcr
    }

    fn word(&self, address: u64) -> u64 {
        let offset = self.offset(address);
        u64::from_le_bytes(self.bytes[offset..offset + 8].try_into().unwrap())
    }

    /// Level of the table at a root: TCR_EL2 says it of EL2's.
    fn root_level(&self, root: u64) -> u32 {
        let is_el2 = self.header.cores.iter().any(|core| core.el2_root.0 == root);
        u32::from(!is_el2 || self.header.tcr & 0x3f == 25)
    }

    /// Returns the address of the descriptor for `input` at `level`.
    fn descriptor(&self, root: u64, input: u64, level: u32) -> u64 {
        let mut table = root;
        for current in self.root_level(root)..=3 {
            let slot = table + (input >> (12 + 9 * (3 - current)) & 511) * 8;
            if current == level {
                return slot;
            }
            let entry = self.word(slot);
            assert_eq!(entry & 3, 3, "there is no level-{} table for {input:#x}", current + 1);
            table = entry & ADDRESS;
        }
        unreachable!("levels end at 3")
    }

    /// Returns the descriptor for `input` at `level`.
    pub(crate) fn entry(&self, root: u64, input: u64, level: u32) -> u64 {
        self.word(self.descriptor(root, input, level))
    }

    /// Replaces the descriptor for `input` at `level`.
    pub(crate) fn set(&mut self, root: u64, input: u64, level: u32, value: u64) {
        let address = self.descriptor(root, input, level);
        self.slice(address)[..8].copy_from_slice(&value.to_le_bytes());
    }

    /// Changes the page descriptor for `input`.
    pub(crate) fn change(&mut self, root: u64, input: u64, change: impl FnOnce(u64) -> u64) {
        let entry = self.entry(root, input, 3);
        assert_eq!(entry & 3, 3, "{input:#x} is not mapped by a page");
        self.set(root, input, 3, change(entry));
    }

    /// Adds an identity page to a core's map.
    pub(crate) fn add_el2_page(&mut self, core: usize, address: u64, bits: u64) {
        let root = self.el2_root(core);
        assert_eq!(self.entry(root, address, 3), 0, "{address:#x} is mapped already");
        self.set(root, address, 3, address | bits);
    }

    /// Adds a page to a native guest's map, beside its information page.
    pub(crate) fn add_guest_page(&mut self, partition: usize, output: u64, bits: u64) {
        let (root, input) = (self.guest_root(partition), GUEST_INFORMATION.0 + 0x2000);
        assert_eq!(self.entry(root, input, 3), 0);
        self.set(root, input, 3, output | bits);
    }
}

/// A physical address from a number.
pub(crate) fn physical(address: u64) -> PhysicalAddress {
    PhysicalAddress(address)
}
