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
    use bulkhead_abi::plan::{PartitionPlan, VcpuPlan};
    use bulkhead_abi::schedule::SchedulePlan;
    use bulkhead_arch::aarch64::{self, HandlerReturn, Hardware};
    use bulkhead_arch::{CoreHead, Machine};
    use bulkhead_monitor::life::boot;
    use bulkhead_monitor::sharing::scheduler::Scheduler;
    use bulkhead_monitor::state::{RunState, Shared, Vcpu};
    use core::mem::offset_of;

    type ThisVcpu = Vcpu<Hardware>;

    /// First Rust code of a core: MMU and caches on, own stack, private data zeroed.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_core_main(
        boot_record: &'static CoreBoot,
        header: &'static ImageHeader,
        plan_crc: u32,
        is_boot_core: u64,
        text_crc: u32,
    ) -> ! {
        let machine = Hardware;
        if is_boot_core != 0 {
            // SAFETY: the plan page is mapped read-only on this core, never written, and every bit pattern is a valid plan.
            let shared_bytes = unsafe { (*(boot_record.plan.0 as *const VcpuPlan)).shared_bytes };
            let fits = shared_bytes as usize >= size_of::<Shared>() && aarch64::zeroes_64_byte_blocks();
            if !(boot::is_image_sound(header, plan_crc, text_crc) && fits) {
                crash(boot_record.counters, CRASH_BAD_PLAN, 0, None);
            }
            boot::start_distributor(&machine, header);
        }
        // The boot code made TPIDR_EL2 point at the core's private data, which starts with this vCPU's.
        let vcpu = make_vcpu(aarch64::core_head().cast(), boot_record.stack_top.0, boot_record.plan);
        if is_boot_core != 0 {
            start_others(vcpu, header);
        }
        if boot_record.schedule.0 != 0 {
            share_core(vcpu, boot_record);
        } else {
            vcpu.begin();
        }
        let head = continue_with(vcpu);
        // SAFETY: the head is TPIDR_EL2's, and the controls and the registers of its guest are loaded.
        unsafe { aarch64::enter(head) }
    }

    /// Makes a vCPU's data in its page of the core's private data.
    fn make_vcpu(place: *mut ThisVcpu, stack_top: u64, plan: PhysicalAddress) -> &'static mut ThisVcpu {
        let machine = Hardware;
        // SAFETY: the plan page is mapped read-only on this core, never written, and every bit pattern is a valid plan.
        let plan: &'static VcpuPlan = unsafe { &*(plan.0 as *const VcpuPlan) };
        // SAFETY: mapped read-only on this core, never written, every bit pattern is a valid plan.
        let partition: &'static PartitionPlan = unsafe { &*(plan.partition_plan.0 as *const PartitionPlan) };
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
        // SAFETY: the place is a page of this core's private data that is planned for this vCPU alone (`bulkhead verify`), large
        // enough (asserted below), and nothing else refers to it yet.
        let vcpu = unsafe {
            place.write(Vcpu::new(machine, stack_top, plan, partition, shared));
            &mut *place
        };
        vcpu.prepare_rings();
        vcpu
    }

    fn start_others(vcpu: &ThisVcpu, header: &ImageHeader) {
        for other in header.cores.iter().take(header.core_count as usize) {
            if other.mpidr != vcpu.plan.mpidr && vcpu.machine.start_core(other.mpidr).is_err() {
                // The partition of that core stays in its initial state, which the host reports by name.
                vcpu.count(bulkhead_abi::observe::Counter::DeniedCall);
            }
        }
    }

    #[inline(never)]
    /// Makes the other vCPUs of a shared core and its scheduler, and puts all first starts under way.
    fn share_core(first: &mut ThisVcpu, boot_record: &CoreBoot) {
        // SAFETY: mapped read-only on this core, never written, every bit pattern is a valid plan.
        let schedule: &'static SchedulePlan = unsafe { &*(boot_record.schedule.0 as *const SchedulePlan) };
        let Ok(made) = Scheduler::new(schedule, first.machine.counter_ticks()) else {
            crash(boot_record.counters, CRASH_BAD_PLAN, 0, None)
        };
        let place = schedule.scheduler.0 as *mut Scheduler;
        // SAFETY: the plan set these bytes of the core's private data aside for the scheduler alone (`bulkhead verify`), enough
        // of them (asserted where it is made), and nothing else refers to them yet.
        let scheduler: &'static mut Scheduler = unsafe {
            place.write(made);
            &mut *place
        };
        first.begin_core();
        first.join(scheduler);
        for slot in schedule.slots.iter().take(schedule.slot_count as usize).skip(1) {
            make_vcpu(slot.data.0 as *mut ThisVcpu, boot_record.stack_top.0, slot.plan).join(scheduler);
        }
        // Budgets, tables and waits begin when everything is ready to be chosen.
        if scheduler.configure(first.machine.counter_ticks()).is_err() {
            crash(boot_record.counters, CRASH_BAD_PLAN, 0, None)
        }
        scheduler.begin(first.machine.counter_ticks());
        first.scheduler = Some(scheduler);
    }

    /// Loads vCPU after vCPU until one of them has a guest that can go on; returns its head.
    #[inline(always)]
    fn continue_with(vcpu: &mut ThisVcpu) -> *mut CoreHead {
        match vcpu.settle() {
            None => &raw mut vcpu.head,
            Some(slot) => exchange(vcpu, slot),
        }
    }

    fn exchange(vcpu: &mut ThisVcpu, mut slot: u8) -> *mut CoreHead {
        let mut before = vcpu;
        loop {
            let loaded = hand_over(before, slot);
            match loaded.settle() {
                None => {
                    loaded.note_loaded();
                    return &raw mut loaded.head;
                }
                Some(other) => slot = other,
            }
            before = loaded;
        }
    }

    /// Loads the vCPU of a slot. `before`, the loaded one until now, is not used any more.
    #[inline(always)]
    fn hand_over(before: &mut ThisVcpu, slot: u8) -> &'static mut ThisVcpu {
        let scheduler = before.scheduler.take();
        let planned = scheduler.as_ref().and_then(|scheduler| scheduler.plan.slots.get(usize::from(slot)));
        let Some(next) = planned.map(|planned| planned.data.0 as *mut ThisVcpu) else {
            crash(before.plan.counters, CRASH_BAD_PLAN, u64::from(slot), None)
        };
        // SAFETY: (1) the page holds this slot's vCPU since boot; (2) it is another page than `before`, because a vCPU is never
        // exchanged for itself; (3) nobody else refers to it: only the loaded vCPU is ever borrowed, and `before`, the
        // only one until now, is not used after this turn of the loop.
        let next = unsafe { &mut *next };
        next.scheduler = scheduler;
        next.trace_ring.written = before.trace_ring.written;
        // SAFETY: it is the head of a vCPU of this core.
        unsafe { aarch64::set_core_head(&raw mut next.head) };
        next.load(slot);
        next
    }

    const _: () = assert!(size_of::<ThisVcpu>() <= 4096, "a core's private data is one page");
    const _: () = assert!(size_of::<Shared>() <= 4096, "what the cores of a partition share is one page");

    /// Synchronous exit.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_synchronous(vcpu: &mut ThisVcpu, syndrome: u64) -> *mut CoreHead {
        vcpu.other_exception(syndrome);
        continue_with(vcpu)
    }

    /// Data abort of the guest.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_data_abort(core: &mut ThisVcpu, syndrome: u64) -> HandlerReturn {
        core.data_abort(syndrome);
        // ISS.SRT: a load into one of the registers that the lean return does not load.
        let high = (syndrome >> 16) & 0x1f > 18;
        // As with a call: only a vCPU that left its run makes room for another one.
        if core.run == RunState::Running {
            return HandlerReturn { head: &raw mut core.head, whole_frame: u64::from(high) };
        }
        HandlerReturn { head: continue_with(core), whole_frame: 1 }
    }

    /// HVC from an AArch64 guest.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_call(core: &mut ThisVcpu) -> HandlerReturn {
        core.call();
        // Only a vCPU that left its run can come back with another frame or make room for another vCPU: no call of a guest that
        // goes on makes the core decide.
        if core.run == RunState::Running {
            return HandlerReturn { head: &raw mut core.head, whole_frame: 0 };
        }
        HandlerReturn { head: continue_with(core), whole_frame: 1 }
    }

    /// Interrupt that the vectors did not finish.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_interrupt(vcpu: &mut ThisVcpu, intid: u64) -> *mut CoreHead {
        let intid = intid as u32 & 0xff_ffff;
        if let Some(slot) = vcpu.jump(intid) {
            return &raw mut hand_over(vcpu, slot).head;
        }
        vcpu.interrupt(intid);
        continue_with(vcpu)
    }

    /// SError from the guest.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_serror(vcpu: &mut ThisVcpu, syndrome: u64) -> *mut CoreHead {
        vcpu.system_error(syndrome);
        continue_with(vcpu)
    }

    /// An exception from EL2 itself: the monitor is wrong.
    #[unsafe(no_mangle)]
    extern "C" fn bulkhead_handle_fatal(vector: u64, core: &ThisVcpu) -> ! {
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
        let core = unsafe { &*head.cast::<ThisVcpu>() };
        crash(core.plan.counters, CRASH_PANIC, 0, info.location())
    }
}
