//! Connects the monitor's logic to the vectors. Everything here is target-only and unsafe by nature; it decides nothing.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("bulkhead-monitor runs at EL2; build it for aarch64-unknown-none-softfloat (see ./x build)");
}

#[cfg(target_os = "none")]
mod target {
    use bulkhead_abi::PhysicalAddress;
    use bulkhead_abi::image::{CoreBoot, ImageHeader};
    use bulkhead_abi::observe::{CRASH_BAD_PLAN, CRASH_EXCEPTION, CRASH_MAGIC, CRASH_PANIC, CounterPage, CrashRecord};
    use bulkhead_abi::plan::{CorePlan, PartitionPlan};
    use bulkhead_arch::aarch64::{self, HandlerReturn, Hardware};
    use bulkhead_arch::{CoreHead, Machine};
    use bulkhead_monitor::boot;
    use bulkhead_monitor::state::{Core, RunState, Shared};
    use core::mem::offset_of;

    type ThisCore = Core<Hardware>;

    /// First Rust code of a core: MMU and caches on, own stack, private data zeroed.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_core_main(
        boot_record: &'static CoreBoot,
        header: &'static ImageHeader,
        plan_crc: u32,
        is_boot_core: u64,
    ) -> ! {
        let machine = Hardware;
        // SAFETY: the plan page is mapped read-only on this core, never written, and every bit pattern is a valid plan.
        let plan: &'static CorePlan = unsafe { &*(boot_record.plan.0 as *const CorePlan) };
        // SAFETY: as above.
        let partition: &'static PartitionPlan = unsafe { &*(plan.partition_plan.0 as *const PartitionPlan) };
        if is_boot_core != 0 {
            let fits = plan.shared_bytes as usize >= size_of::<Shared>() && aarch64::zeroes_64_byte_blocks();
            if boot::check_image(header, plan_crc).is_err() || !fits {
                crash(boot_record.counters, CRASH_BAD_PLAN, 0, None);
            }
            boot::start_distributor(&machine, header);
        }
        if plan.vcpu == 0 {
            let mut offset = 0;
            while offset < plan.shared_bytes {
                machine.store64(PhysicalAddress(plan.shared.0.wrapping_add(offset)), 0);
                offset = offset.wrapping_add(8);
            }
            machine.barrier();
        }
        // SAFETY: (1) the pages are mapped on the cores of this partition alone and hold only atomics, valid for any bytes;
        // (2) siblings touch them only after vCPU 0's core has cleared them and sent its first SGI.
        let shared: &'static Shared = unsafe { &*(plan.shared.0 as *const Shared) };
        let head = aarch64::core_head().cast::<ThisCore>();
        // SAFETY: TPIDR_EL2 is this core's private data, large enough (asserted below), aligned to a page, and nothing else
        // refers to it yet.
        let core = unsafe {
            head.write(Core::new(machine, boot_record.stack_top.0, plan, partition, shared));
            &mut *head
        };
        core.prepare_rings();
        if is_boot_core != 0 {
            for other in header.cores.iter().take(header.core_count as usize) {
                if other.mpidr != plan.mpidr && machine.start_core(other.mpidr).is_err() {
                    // The partition of that core stays in its initial state, which the host reports by name.
                    core.count(bulkhead_abi::observe::Counter::DeniedCall);
                }
            }
        }
        core.begin();
        // SAFETY: the head is TPIDR_EL2's, `begin` has loaded the controls and the guest's registers.
        unsafe { aarch64::enter(&raw mut core.head) }
    }

    const _: () = assert!(size_of::<ThisCore>() <= 4096, "a core's private data is one page");
    const _: () = assert!(size_of::<Shared>() <= 4096, "what the cores of a partition share is one page");

    /// Synchronous exit.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_synchronous(core: &mut ThisCore, syndrome: u64) {
        core.other_exception(syndrome);
        core.settle();
    }

    /// Data abort of the guest.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_data_abort(core: &mut ThisCore, syndrome: u64) -> HandlerReturn {
        core.data_abort(syndrome);
        // ISS.SRT: a load into one of the registers that the lean return does not load.
        let high = (syndrome >> 16) & 0x1f > 18;
        let left = core.run != RunState::Running;
        core.settle();
        HandlerReturn { head: &raw mut core.head, whole_frame: u64::from(left || high) }
    }

    /// HVC from an AArch64 guest.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_call(core: &mut ThisCore) -> HandlerReturn {
        core.call();
        // Only a vCPU that left its run can come back with another frame.
        let left = core.run != RunState::Running;
        core.settle();
        HandlerReturn { head: &raw mut core.head, whole_frame: u64::from(left) }
    }

    /// Interrupt that the vectors did not finish.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_interrupt(core: &mut ThisCore, intid: u64) {
        core.interrupt(intid as u32 & 0xff_ffff);
        core.settle();
    }

    /// SError from the guest.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_serror(core: &mut ThisCore, syndrome: u64) {
        core.system_error(syndrome);
        core.settle();
    }

    /// An exception from EL2 itself: the monitor is wrong.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_fatal(vector: u64, core: &ThisCore) -> ! {
        crash(core.plan.counters, CRASH_EXCEPTION, vector, None)
    }

    /// Leaves an epitaph in the counter page and stops this core. Touches nothing of any other core.
    fn crash(counters: PhysicalAddress, kind: u64, detail: u64, location: Option<&core::panic::Location<'_>>) -> ! {
        let machine = Hardware;
        let base = counters.0.wrapping_add(offset_of!(CounterPage, crash) as u64);
        let word =
            |offset: usize, value: u64| machine.store64(PhysicalAddress(base.wrapping_add(offset as u64)), value);
        let registers = machine.exit_registers();
        word(offset_of!(CrashRecord, kind), kind);
        word(offset_of!(CrashRecord, syndrome), aarch64::syndrome());
        word(offset_of!(CrashRecord, address), registers.fault_address);
        word(offset_of!(CrashRecord, program_counter), machine.guest_program_counter());
        word(offset_of!(CrashRecord, stack_pointer), detail);
        if let Some(location) = location {
            word(offset_of!(CrashRecord, line), u64::from(location.line()));
            let file = location.file().as_bytes();
            let tail = file.get(file.len().saturating_sub(64)..).unwrap_or(file);
            for (offset, byte) in (offset_of!(CrashRecord, file) as u64..).zip(tail) {
                machine.store8(PhysicalAddress(base.wrapping_add(offset)), *byte);
            }
        }
        machine.publish64(PhysicalAddress(base), CRASH_MAGIC);
        machine.barrier();
        loop {
            machine.wait_for_interrupt();
        }
    }

    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
        let head: *mut CoreHead = aarch64::core_head();
        // SAFETY: TPIDR_EL2 points at this core's data; it is only read, and only this core runs.
        let core = unsafe { &*head.cast::<ThisCore>() };
        crash(core.plan.counters, CRASH_PANIC, 0, info.location())
    }
}
