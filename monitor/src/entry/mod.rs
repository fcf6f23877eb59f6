//! Entry points of the assembly: a core's boot, its exits, and its end.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::{CoreBoot, ImageHeader};
use bulkhead_abi::observe::{
    CRASH_BAD_PLAN, CRASH_EXCEPTION, CRASH_INTERRUPT, CRASH_MAGIC, CRASH_PANIC, CRASH_SECURITY_STATES, CounterPage,
    CrashRecord,
};
use bulkhead_abi::plan::{PartitionPlan, VcpuPlan};
use bulkhead_arch::el2::{self, HandlerReturn, Hardware};
use bulkhead_arch::{Clock, CoreHead, Firmware, GuestRegisters, Memory};
use bulkhead_monitor::life::boot;
use bulkhead_monitor::state::{RunState, Shared, Vcpu};
use core::mem::offset_of;

#[cfg(feature = "devices")]
mod devices;
#[cfg(not(feature = "shared"))]
mod own;
#[cfg(feature = "shared")]
mod shared;

#[cfg(not(feature = "shared"))]
use own as part;
#[cfg(feature = "shared")]
use shared as part;

type ThisVcpu = Vcpu<Hardware>;

/// Tells builder and verifier which part this is.
// SAFETY: the section holds data that nothing executes or writes, and the linker script puts it behind the arm64 Image header.
#[unsafe(link_section = ".text.part")]
#[used]
static MARK: [u8; 8] = part::PART.mark();

/// First Rust code of a core: MMU and caches on, own stack, private data zeroed.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_core_main(
    boot_record: &'static CoreBoot,
    header: &'static ImageHeader,
    plan_crc: u32,
    is_boot_core: u64,
    text_crc: u32,
) -> ! {
    if is_boot_core != 0 {
        // SAFETY: the plan page is mapped read-only on this core, never written, and every bit pattern is a valid plan.
        let shared_bytes = unsafe { (*(boot_record.plan.0 as *const VcpuPlan)).shared_bytes };
        let fits = shared_bytes as usize >= size_of::<Shared>();
        if !(boot::is_image_sound(header, plan_crc, text_crc) && fits) {
            crash(boot_record.counters, CRASH_BAD_PLAN, 0, None);
        }
        let found = boot::security_states(&Hardware, header.gicd);
        if found != header.security_states {
            crash(boot_record.counters, CRASH_SECURITY_STATES, found.into(), None);
        }
        boot::start_distributor(&Hardware, header);
        #[cfg(feature = "devices")]
        devices::boot(boot_record);
    }
    if let Some((kind, found)) = boot::misfit(header, boot_record, el2::identity()) {
        crash(boot_record.counters, kind, found, None);
    }
    // The boot code made TPIDR_EL2 point at the core's private data, which starts with this vCPU's.
    let vcpu = make_vcpu(el2::core_head().cast(), boot_record.stack_top.0, boot_record.plan);
    if is_boot_core != 0 {
        start_others(vcpu, header);
    }
    vcpu.begin_core();
    check_interrupts(vcpu);
    part::begin(vcpu, boot_record);
    let head = part::continue_with(vcpu);
    // SAFETY: the head is TPIDR_EL2's, and the controls and the registers of its guest are loaded.
    unsafe { el2::enter(head) }
}

/// Makes a vCPU's data in its page of the core's private data.
fn make_vcpu(place: *mut ThisVcpu, stack_top: u64, plan: PhysicalAddress) -> &'static mut ThisVcpu {
    // SAFETY: the plan page is mapped read-only on this core, never written, and every bit pattern is a valid plan.
    let plan: &'static VcpuPlan = unsafe { &*(plan.0 as *const VcpuPlan) };
    // SAFETY: mapped read-only on this core, never written, every bit pattern is a valid plan.
    let partition: &'static PartitionPlan = unsafe { &*(plan.partition_plan.0 as *const PartitionPlan) };
    if plan.vcpu == 0 {
        let mut offset = 0;
        while offset < plan.shared_bytes {
            Hardware.store64(PhysicalAddress(plan.shared.0.wrapping_add(offset)), 0);
            offset = offset.wrapping_add(8);
        }
        // For the partition's other cores, which use these words after the first SGI.
        Hardware.barrier();
    }
    // SAFETY: (1) the pages are mapped on the cores of this partition alone and hold only atomics, valid for any bytes;
    // (2) siblings touch them only after vCPU 0's core has cleared them and sent its first SGI.
    let shared: &'static Shared = unsafe { &*(plan.shared.0 as *const Shared) };
    // SAFETY: the place is a page of this core's private data that is planned for this vCPU alone (`bulkhead verify`), large
    // enough (asserted below), and nothing else refers to it yet.
    let vcpu = unsafe {
        place.write(Vcpu::new(Hardware, stack_top, plan, partition, shared));
        &mut *place
    };
    vcpu.prepare_rings();
    #[cfg(feature = "devices")]
    devices::attach(vcpu);
    vcpu
}

/// No guest waits for an interrupt that firmware kept.
fn check_interrupts(vcpu: &ThisVcpu) {
    if let Some(intid) = vcpu.refused_interrupt() {
        crash(vcpu.plan.counters, CRASH_INTERRUPT, intid.into(), None);
    }
}

fn start_others(vcpu: &ThisVcpu, header: &ImageHeader) {
    let word = 0;
    #[cfg(feature = "devices")]
    let word = word | el2::told();
    for other in header.cores().iter() {
        if other.mpidr != vcpu.plan.mpidr && vcpu.machine.start_core(other.mpidr, word).is_err() {
            // The partition of that core stays in its initial state, which the host reports by name.
            vcpu.count(bulkhead_abi::observe::Counter::DeniedCall);
        }
    }
}

const _: () = assert!(size_of::<ThisVcpu>() <= 4096, "a core's private data is one page");
const _: () = assert!(size_of::<Shared>() <= 4096, "what the cores of a partition share is one page");

/// Synchronous exit.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_handle_synchronous(vcpu: &mut ThisVcpu, syndrome: u64) -> *mut CoreHead {
    vcpu.other_exception(syndrome);
    part::continue_with(vcpu)
}

/// Data abort of the guest.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_handle_data_abort(core: &mut ThisVcpu, syndrome: u64) -> HandlerReturn {
    core.data_abort(syndrome);
    // ISS.SRT: a load into one of the registers that the lean return does not load.
    let high = (syndrome >> bulkhead_arm::exception::data_abort::REGISTER_SHIFT) & 0x1f > 18;
    // As with a call: only a vCPU that left its run makes room for another one.
    if core.run == RunState::Running && !core.looks_at_each_exit() {
        return HandlerReturn { head: &raw mut core.head, whole_frame: u64::from(high) };
    }
    HandlerReturn { head: part::continue_with(core), whole_frame: 1 }
}

/// HVC from an AArch64 guest.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_handle_call(core: &mut ThisVcpu) -> HandlerReturn {
    core.call();
    // Only a vCPU that left its run can come back with another frame or make room for another vCPU: no call of a guest that
    // still runs makes the core decide.
    if core.run == RunState::Running && !core.looks_at_each_exit() {
        return HandlerReturn { head: &raw mut core.head, whole_frame: 0 };
    }
    HandlerReturn { head: part::continue_with(core), whole_frame: 1 }
}

/// Interrupt that the vectors did not finish.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_handle_interrupt(vcpu: &mut ThisVcpu, intid: u64) -> *mut CoreHead {
    let intid = intid as u32 & 0xff_ffff;
    if let Some(head) = part::jump(vcpu, intid) {
        return head;
    }
    vcpu.interrupt(intid);
    part::continue_with(vcpu)
}

/// SError from the guest.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_handle_serror(vcpu: &mut ThisVcpu, syndrome: u64) -> *mut CoreHead {
    vcpu.system_error(syndrome);
    part::continue_with(vcpu)
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
    let word = |offset: usize, value: u64| machine.store64(PhysicalAddress(base.wrapping_add(offset as u64)), value);
    let registers = machine.exit_registers();
    word(offset_of!(CrashRecord, kind), kind);
    word(offset_of!(CrashRecord, syndrome), el2::syndrome());
    word(offset_of!(CrashRecord, address), registers.fault_address);
    word(offset_of!(CrashRecord, program_counter), machine.guest_program_counter());
    word(offset_of!(CrashRecord, detail), detail);
    if let Some(location) = location {
        word(offset_of!(CrashRecord, line), u64::from(location.line()));
        let file = location.file().as_bytes();
        let tail = file.get(file.len().saturating_sub(64)..).unwrap_or(file);
        for (offset, byte) in (offset_of!(CrashRecord, file) as u64..).zip(tail) {
            machine.store8(PhysicalAddress(base.wrapping_add(offset)), *byte);
        }
    }
    machine.publish64(PhysicalAddress(base), CRASH_MAGIC);
    // The host reads the epitaph while this core sleeps for good.
    machine.barrier();
    loop {
        machine.wait_for_interrupt();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let head: *mut CoreHead = el2::core_head();
    // SAFETY: TPIDR_EL2 points at this core's data; it is only read, and only this core runs.
    let core = unsafe { &*head.cast::<ThisVcpu>() };
    crash(core.plan.counters, CRASH_PANIC, 0, info.location())
}
