//! PCI functions at boot: the boot core runs its scripts and tells every other core what came of them.

use super::ThisVcpu;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{BootDevices, DevicePlan};
use bulkhead_abi::image::CoreBoot;
use bulkhead_abi::observe::{CRASH_DEVICES, CRASH_MAGIC, CounterPage, CrashRecord};
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_arch::Memory;
use bulkhead_arch::el2::{self, Hardware};
use bulkhead_monitor::devices::functions;
use core::mem::offset_of;

/// Runs the scripts of the boot core, before another one is started. When one fails that is about all functions, its record says so,
/// and this core continues: partitions without functions run.
pub(super) fn boot(boot_record: &CoreBoot) {
    // SAFETY: the plan page is mapped read-only on this core, never written, and every bit pattern is a valid plan.
    let planned = unsafe { (*(boot_record.plan.0 as *const VcpuPlan)).boot_devices };
    let mut refused = 0;
    if planned.0 != 0 {
        // SAFETY: mapped read-only on this core, never written, and every bit pattern is a valid plan.
        let devices = unsafe { &*(planned.0 as *const BootDevices) };
        let booted = functions::boot(&Hardware, devices);
        refused = booted.refused;
        if let Some(detail) = booted.failed {
            let record = boot_record.counters.0.wrapping_add(offset_of!(CounterPage, crash) as u64);
            let word = |offset: usize| PhysicalAddress(record.wrapping_add(offset as u64));
            Hardware.store64(word(offset_of!(CrashRecord, kind)), CRASH_DEVICES);
            Hardware.store64(word(offset_of!(CrashRecord, detail)), detail);
            Hardware.publish64(word(offset_of!(CrashRecord, magic)), CRASH_MAGIC);
        }
    }
    el2::tell_oneself(refused);
}

/// Gives a vCPU the functions of its partition.
pub(super) fn attach(vcpu: &mut ThisVcpu) {
    let planned = vcpu.plan.devices;
    // SAFETY: mapped read-only on this core, never written, and every bit pattern is a valid plan.
    let plan = (planned.0 != 0).then(|| unsafe { &*(planned.0 as *const DevicePlan) });
    vcpu.attach_functions(plan, el2::told());
}
