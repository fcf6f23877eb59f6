//! Host tests of the monitor's logic on the fake machine. What needs no shared core is tried in both parts.

#[cfg(feature = "hybrid")]
mod again;
#[cfg(feature = "shared")]
mod attacked;
mod calls;
#[cfg(feature = "shared")]
mod charged;
#[cfg(feature = "shared")]
mod clients;
#[cfg(feature = "shared")]
mod deferred;
mod faults;
#[cfg(feature = "devices")]
mod fronts;
#[cfg(feature = "devices")]
mod functions;
#[cfg(feature = "hybrid")]
mod gate;
#[cfg(feature = "hybrid")]
mod input;
#[cfg(feature = "devices")]
mod instances;
#[cfg(feature = "shared")]
mod instructions;
pub(crate) mod interleave;
mod interrupts;
mod manage;
mod misfit;
#[cfg(feature = "shared")]
mod noted;
#[cfg(feature = "shared")]
mod posting;
#[cfg(feature = "shared")]
mod prepared;
mod priorities;
#[cfg(feature = "shared")]
mod publication;
#[cfg(feature = "shared")]
mod requests;
#[cfg(feature = "shared")]
mod shared;
#[cfg(feature = "shared")]
mod siblings;
mod standing;
#[cfg(feature = "shared")]
mod stolen;
#[cfg(feature = "shared")]
mod target;

use crate::life::boot::start_distributor;
use crate::state::{FAST_ENTRIES, RunState, Shared, Vcpu};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::plan::*;
use bulkhead_abi::status::StatusPage;
#[cfg(feature = "shared")]
use bulkhead_arch::VirtualInterrupts;
use bulkhead_arch::fake::{FakeMachine, View};
use bulkhead_arch::{GuestRegisters, Memory, PhysicalInterrupts};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU8, AtomicU64};
use zerocopy::FromZeros;

/// Other cores reach this one by kicks: no SGI is the monitor's (part `hybrid`, on cores without the payload).
pub(crate) const IS_KICKED: bool = cfg!(feature = "hybrid");
pub(crate) const STATUS: u64 = 0x5000_0000;
pub(crate) const COUNTERS: u64 = 0x5000_1000;
pub(crate) const GICD: u64 = 0x0800_0000;
pub(crate) const RAM: u64 = 0x6000_0000;
pub(crate) const PRISTINE: u64 = 0x5100_0000;
pub(crate) const OWN_MANAGE: u64 = 0x5000_3000;
pub(crate) const PEER_MANAGE: u64 = 0x5000_4000;
pub(crate) const PEER_STATUS: u64 = 0x5000_5000;

/// A partition of `vcpus` cores with SPI 40-46 (devices), SPI 80 (doorbell), RAM of 2 MiB at guest 0x4000_0000.
pub(crate) fn partition(vcpus: u32) -> PartitionPlan {
    let mut plan = PartitionPlan::new_zeroed();
    plan.magic = PARTITION_PLAN_MAGIC;
    plan.mode = MODE_MAPPED;
    plan.name[..6].copy_from_slice(b"tested");
    plan.vcpu_count = vcpus;
    for vcpu in 0..vcpus as usize {
        plan.vcpu_mpidr[vcpu] = 2 + vcpu as u64;
        plan.vcpu_core[vcpu] = 2 + vcpu as u32;
    }
    for index in 0..7 {
        plan.interrupts[index] = InterruptPlan {
            intid: 40 + index as u32,
            kind: INTERRUPT_DEVICE,
            edge: 0,
            pci_function: 0,
            ..Default::default()
        };
    }
    plan.interrupts[7] =
        InterruptPlan { intid: 80, kind: INTERRUPT_DOORBELL, edge: 1, pci_function: 0, ..Default::default() };
    plan.interrupt_count = 8;
    plan.highest_intid = 80;
    plan.ram[0] =
        RamRegion { guest: bulkhead_abi::GuestAddress(0x4000_0000), physical: PhysicalAddress(RAM), bytes: 0x20_0000 };
    plan.ram_count = 1;
    plan.entry = bulkhead_abi::GuestAddress(0x4008_0000);
    plan.device_tree = bulkhead_abi::GuestAddress(0x400f_0000);
    plan.health.policy = POLICY_STOP;
    plan.lead_mpidr = [u64::MAX; 8];
    plan.doorbells[0] = DoorbellPlan {
        intid: 81,
        peer: 1,
        words: PhysicalAddress(0x5000_2000),
        period_ticks: 100,
        events: 2,
        channel: 0,
    };
    plan.doorbell_count = 1;
    plan
}

fn shared() -> &'static Shared {
    Box::leak(Box::new(Shared {
        vcpus: Default::default(),
        heartbeat_ticks: AtomicU64::new(0),
        heartbeats: AtomicU64::new(0),
        uart: FromZeros::new_zeroed(),
        pci: FromZeros::new_zeroed(),
        fast: std::array::from_fn(|_| [const { AtomicU8::new(0) }; FAST_ENTRIES]),
        priorities: [const { AtomicU8::new(0) }; FAST_ENTRIES],
        #[cfg(feature = "devices")]
        fronts: FromZeros::new_zeroed(),
    }))
}

impl Vcpu<FakeMachine> {
    /// What a core that a vCPU owns does at boot: starts the partition or waits for CPU_ON, and returns when there is a guest to enter.
    pub(crate) fn begin(&mut self) {
        self.begin_core();
        self.begin_partition();
        self.settle();
    }
}

thread_local! {
    /// How EL2 sees the interrupt controller of the machines that this test makes.
    static VIEW: Cell<View> = const { Cell::new(View::One) };
}

/// Runs a test that touches priorities, groups or enables with each form of the interrupt controller.
pub(crate) fn in_every_view(test: impl Fn(View)) {
    for view in View::ALL {
        use_view(view);
        test(view);
    }
}

/// The machines that this test makes from now on have this form of the interrupt controller.
pub(crate) fn use_view(view: View) {
    println!("{view:?}"); // what a failed test was about
    VIEW.set(view);
}

/// A machine whose distributor the boot core has set up.
pub(crate) fn machine(gicr: PhysicalAddress) -> FakeMachine {
    let mut header = ImageHeader::new_zeroed();
    header.gicd = PhysicalAddress(GICD);
    let machine = FakeMachine::with_controller(VIEW.get(), header.gicd, gicr);
    start_distributor(&machine, &header);
    machine
}

/// The cores of a partition, all on machines of their own (they share only what the partition shares).
pub(crate) fn cores(partition: PartitionPlan) -> Vec<Vcpu<FakeMachine>> {
    cores_of_mpidr(partition, 2)
}

/// As [`cores`], from this one on.
pub(crate) fn cores_of_mpidr(partition: PartitionPlan, first: u64) -> Vec<Vcpu<FakeMachine>> {
    let partition: &'static PartitionPlan = Box::leak(Box::new(partition));
    let shared = shared();
    (0..partition.vcpu_count)
        .map(|vcpu| {
            let mut plan = VcpuPlan::new_zeroed();
            plan.core = 2 + vcpu;
            plan.vcpu = vcpu;
            plan.mode = partition.mode;
            plan.mpidr = first + u64::from(vcpu);
            plan.status = PhysicalAddress(STATUS);
            plan.handed_status = plan.status;
            plan.counters = PhysicalAddress(COUNTERS);
            plan.gicd = PhysicalAddress(GICD);
            plan.gicr = PhysicalAddress(0x080a_0000 + 0x2_0000 * u64::from(vcpu));
            let plan: &'static VcpuPlan = Box::leak(Box::new(plan));
            Vcpu::new(machine(plan.gicr), 0, plan, partition, shared)
        })
        .collect()
}

/// A started partition with one vCPU; the events of the start are forgotten.
pub(crate) fn running(partition: PartitionPlan) -> Vcpu<FakeMachine> {
    let mut core = cores(partition).remove(0);
    core.begin();
    assert_eq!(core.run, RunState::Running);
    core.machine.take_events();
    core
}

pub(crate) fn status32(core: &Vcpu<FakeMachine>, offset: usize) -> u32 {
    core.machine.load32(PhysicalAddress(STATUS + offset as u64))
}

pub(crate) fn state(core: &Vcpu<FakeMachine>) -> (u32, u32) {
    (status32(core, offset_of!(StatusPage, state)), status32(core, offset_of!(StatusPage, reason)))
}
