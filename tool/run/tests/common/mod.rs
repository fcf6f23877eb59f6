//! A hand-made system for tests without the monitor: an image with a header and plans, and a program of a few words.
//!
//! The program stands where the monitor would be. It stores words at addresses, as the monitor would, and ends in a loop
//! or by PSCI. So the tests see real QEMU, real RAM and the real file format without depending on the monitor.
#![allow(dead_code, reason = "each test file uses a part")]

use bulkhead_abi::console::{CONSOLE_MAGIC, ConsoleHeader};
use bulkhead_abi::image::ARM64_IMAGE_MAGIC;
use bulkhead_abi::image::RamBank;
use bulkhead_abi::image::{CoreBoot, IMAGE_MAGIC, ImageHeader, PartitionEntry};
use bulkhead_abi::observe::COUNTERS_MAGIC;
use bulkhead_abi::plan::{MODE_MAPPED, PARTITION_PLAN_MAGIC, PCI_DEVICE, PartitionPlan, VCPU_PLAN_MAGIC, VcpuPlan};
use bulkhead_abi::{ABI_VERSION, GuestAddress, PhysicalAddress};
use bulkhead_description::board::BUILT_IN;
use bulkhead_guest_abi::name_from;
use bulkhead_run::{ImagePlan, Ram, image_file::header_crc};
use std::mem::offset_of;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

pub(crate) const RAM_START: PhysicalAddress = PhysicalAddress(0x4000_0000);
pub(crate) const BANK: RamBank = RamBank { start: RAM_START, bytes: RAM_BYTES };
pub(crate) const RAM_BYTES: u64 = 64 << 20;
pub(crate) const IMAGE_START: u64 = 0x4020_0000;
const TEXT_BYTES: u64 = 0x4000;
const HEADER: u64 = IMAGE_START + TEXT_BYTES;
const CORE_PLANS: u64 = HEADER + 0x1000;
const PARTITION_PLANS: u64 = CORE_PLANS + 0x8000;
const COUNTERS: u64 = PARTITION_PLANS + 0x8000;
const STATUS: u64 = COUNTERS + 0x8000;
/// Counters and states are in the image, so that a test can begin with some: see [`preset`].
const IMAGE_END: u64 = STATUS + 0x8000;
const CONSOLES: u64 = IMAGE_END;
const TRACES: u64 = CONSOLES + 0x40_0000;
pub(crate) const CONSOLE_BYTES: u64 = 0x1000;
pub(crate) const TRACE_BYTES: u64 = 4096 + 16 * 32;

/// A partition of the hand-made system.
pub(crate) struct FakePartition {
    pub(crate) name: &'static str,
    pub(crate) vcpus: usize,
    pub(crate) own_console: bool,
}

/// Addresses of what a core's or partition's writers would write.
pub(crate) fn counters(core: usize) -> PhysicalAddress {
    PhysicalAddress(COUNTERS + core as u64 * 0x1000)
}
pub(crate) fn status(partition: usize) -> PhysicalAddress {
    PhysicalAddress(STATUS + partition as u64 * 0x1000)
}
pub(crate) fn vcpu_console(partition: usize, vcpu: usize) -> PhysicalAddress {
    PhysicalAddress(CONSOLES + (partition * 9 + vcpu) as u64 * CONSOLE_BYTES)
}
pub(crate) fn guest_console(partition: usize) -> PhysicalAddress {
    vcpu_console(partition, 8)
}
pub(crate) fn trace(core: usize) -> PhysicalAddress {
    PhysicalAddress(TRACES + core as u64 * 0x2000)
}

/// Builds the image of a system of these partitions; cores are given out in order.
pub(crate) fn image(partitions: &[FakePartition], program: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; (IMAGE_END - IMAGE_START) as usize];
    put(&mut bytes, IMAGE_START, 0x1400_0010_u32.as_bytes()); // b to byte 64
    put(&mut bytes, IMAGE_START + 8, 0x20_0000_u64.as_bytes()); // text_offset
    put(&mut bytes, IMAGE_START + 16, (IMAGE_END - IMAGE_START).as_bytes()); // image_size
    put(&mut bytes, IMAGE_START + 24, 0xa_u64.as_bytes()); // little-endian, 4 KiB pages, anywhere
    put(&mut bytes, IMAGE_START + 56, ARM64_IMAGE_MAGIC.as_bytes());
    assert!(64 + program.len() * 4 <= TEXT_BYTES as usize, "the program does not fit");
    put(&mut bytes, IMAGE_START + 64, program.as_bytes());

    let mut header = ImageHeader::new_zeroed();
    header.magic = IMAGE_MAGIC;
    header.abi_version = ABI_VERSION;
    header.image_start = PhysicalAddress(IMAGE_START);
    header.image_bytes = IMAGE_END - IMAGE_START;
    header.text = PhysicalAddress(IMAGE_START);
    header.text_bytes = TEXT_BYTES;
    header.counter_hz = 62_500_000;
    header.board = name_from(BUILT_IN.default);
    header.banks[0] = BANK;
    header.bank_count = 1;
    header.partition_count = partitions.len() as u32;
    for (index, partition) in partitions.iter().enumerate() {
        add_partition(&mut bytes, &mut header, index, partition);
    }
    header.header_crc = header_crc(&header);
    put(&mut bytes, HEADER, header.as_bytes());
    bytes
}

fn add_partition(bytes: &mut [u8], header: &mut ImageHeader, index: usize, partition: &FakePartition) {
    let mut plan = PartitionPlan::new_zeroed();
    plan.magic = PARTITION_PLAN_MAGIC;
    plan.index = index as u32;
    plan.mode = MODE_MAPPED;
    plan.name = name_from(partition.name);
    plan.vcpu_count = partition.vcpus as u32;
    plan.entry = GuestAddress(0x4000_0000);
    let plan_address = PARTITION_PLANS + index as u64 * 0x1000;
    let mut entry = PartitionEntry::new_zeroed();
    entry.name = name_from(partition.name);
    entry.plan = PhysicalAddress(plan_address);
    entry.status = status(index);
    entry.console_bytes = CONSOLE_BYTES;
    if partition.own_console {
        entry.guest_console = guest_console(index);
    }
    for vcpu in 0..partition.vcpus {
        let core = header.core_count as usize;
        header.core_count += 1;
        plan.vcpu_core[vcpu] = core as u32;
        entry.vcpu_counters[vcpu] = counters(core);
        entry.vcpu_console[vcpu] = vcpu_console(index, vcpu);
        let core_plan_address = CORE_PLANS + core as u64 * 0x1000;
        header.cores[core] = CoreBoot {
            mpidr: core as u64,
            plan: PhysicalAddress(core_plan_address),
            counters: counters(core),
            trace: trace(core),
            trace_bytes: TRACE_BYTES,
            ..CoreBoot::new_zeroed()
        };
        let mut core_plan = VcpuPlan::new_zeroed();
        core_plan.magic = VCPU_PLAN_MAGIC;
        core_plan.core = core as u32;
        core_plan.partition = index as u32;
        core_plan.vcpu = vcpu as u32;
        put(bytes, core_plan_address, core_plan.as_bytes());
        put(bytes, counters(core).0, COUNTERS_MAGIC.as_bytes());
    }
    header.partitions[index] = entry;
    put(bytes, plan_address, plan.as_bytes());
}

/// Gives a partition of an image a PCI function of the board.
pub(crate) fn add_function(image: &mut [u8], partition: u64) {
    let plan = PARTITION_PLANS + partition * 0x1000;
    put(image, plan + offset_of!(PartitionPlan, pci) as u64, PCI_DEVICE.as_bytes());
    put(image, plan + offset_of!(PartitionPlan, pci_count) as u64, 1_u32.as_bytes());
}

/// Makes words of counters or states part of the image: they are so before the first instruction.
pub(crate) fn preset(image: &mut [u8], words: &[(u64, u64)]) {
    for (address, word) in words {
        put(image, *address, word.as_bytes());
    }
}

fn put(bytes: &mut [u8], address: u64, value: &[u8]) {
    let offset = (address - IMAGE_START) as usize;
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// Two partitions: `linux` with two vCPUs, `control` with one and its own ring.
pub(crate) fn two_partitions() -> Vec<FakePartition> {
    vec![
        FakePartition { name: "linux", vcpus: 2, own_console: false },
        FakePartition { name: "control", vcpus: 1, own_console: true },
    ]
}

/// RAM without a machine, and the plan of `partitions`.
pub(crate) fn ram_and_plan(partitions: &[FakePartition]) -> (Arc<Ram>, Arc<ImagePlan>) {
    let plan = ImagePlan::from_bytes(&image(partitions, &[])).expect("the hand-made image is valid");
    let ram = Ram::create_in(&[std::env::temp_dir()], &[BANK]).expect("there is room for 64 MiB");
    (Arc::new(ram), Arc::new(plan))
}

/// Writes what a well-behaved writer has in its ring after writing `entries` (ticks, byte) since boot.
pub(crate) fn write_ring(ram: &Ram, address: PhysicalAddress, entries: &[(u64, u8)]) {
    let capacity = (CONSOLE_BYTES - 64) / 8;
    for (index, (ticks, byte)) in entries.iter().enumerate() {
        let slot = index as u64 % capacity;
        let word = (ticks << 8) | u64::from(*byte);
        ram.write_at(PhysicalAddress(address.0 + 64 + slot * 8), word.as_bytes()).expect("the slot is in RAM");
    }
    let header = ConsoleHeader { magic: CONSOLE_MAGIC, capacity, written: entries.len() as u64, reserved: 0 };
    ram.write_at(address, header.as_bytes()).expect("the header is in RAM");
}

/// Instructions that load a 64-bit constant into a register.
fn constant(register: u32, value: u64) -> [u32; 4] {
    let part = |index: u32| ((value >> (16 * index)) & 0xffff) as u32;
    // MOVZ, then MOVK with LSL 16, 32, 48.
    std::array::from_fn(|index| {
        let index = index as u32;
        let opcode = if index == 0 { 0xd280_0000 } else { 0xf280_0000 };
        opcode | (index << 21) | (part(index) << 5) | register
    })
}

/// A program that stores 64-bit words at physical addresses, in order.
pub(crate) fn stores(words: &[(u64, u64)]) -> Vec<u32> {
    let mut program = Vec::new();
    for (address, value) in words {
        program.extend(constant(0, *address));
        program.extend(constant(1, *value));
        program.push(0xf900_0001); // str x1, [x0]
    }
    program
}

/// The stores that leave `text` in a ring, with stamps from `first_ticks` on, one tick per byte.
pub(crate) fn console_stores(ring: PhysicalAddress, first_ticks: u64, text: &str) -> Vec<(u64, u64)> {
    let mut words = vec![(ring.0, CONSOLE_MAGIC), (ring.0 + 8, (CONSOLE_BYTES - 64) / 8)];
    for (index, byte) in text.bytes().enumerate() {
        words.push((ring.0 + 64 + index as u64 * 8, ((first_ticks + index as u64) << 8) | u64::from(byte)));
    }
    words.push((ring.0 + 16, text.len() as u64));
    words
}

/// `wfi` and a branch to it.
pub(crate) const WAIT_FOR_EVER: [u32; 2] = [0xd503_207f, 0x17ff_ffff];

/// PSCI SYSTEM_OFF by SMC.
pub(crate) fn power_off() -> Vec<u32> {
    let mut program = constant(0, 0x8400_0008).to_vec();
    program.push(0xd400_0003); // smc #0
    program
}

/// Waits for a process to end by a handle to it, not by time.
pub(crate) fn wait_until_gone(pid: &str) {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let number = Pid::from_raw(pid.parse().expect("a number")).expect("not zero");
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return };
    let limit = rustix::event::Timespec { tv_sec: 600, tv_nsec: 0 };
    let mut polled = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
    let ready = rustix::event::poll(&mut polled, Some(&limit)).expect("poll works");
    assert_eq!(ready, 1, "QEMU {pid} outlived its parent");
}
