//! Cores of several vCPUs: their vCPUs and scheduler at boot, and the exchange of one vCPU for another.

use super::{ThisVcpu, check_interrupts, crash, make_vcpu};
use bulkhead_abi::Part;
use bulkhead_abi::image::CoreBoot;
use bulkhead_abi::observe::CRASH_BAD_PLAN;
use bulkhead_abi::schedule::SchedulePlan;
use bulkhead_arch::el2;
use bulkhead_arch::{Clock, CoreHead};
use bulkhead_monitor::sharing::scheduler::Scheduler;

/// This part.
pub(super) const PART: Part = if cfg!(feature = "devices") { Part::Devices } else { Part::Shared };

/// Puts the first start of the core's vCPU, or of all of them, under way.
pub(super) fn begin(first: &mut ThisVcpu, boot_record: &CoreBoot) {
    if boot_record.schedule.0 != 0 {
        share_core(first, boot_record);
    } else {
        first.begin_partition();
    }
}

/// Makes the other vCPUs of a shared core and its scheduler, and puts all first starts under way.
// The scheduler is made on the stack, 36 KiB with what it is moved through. In the frame of the boot code that would
// overflow the stack of each core that is not shared, which has 4 KiB.
#[inline(never)]
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
    first.join(scheduler);
    for slot in schedule.slots().iter().skip(1) {
        let vcpu = make_vcpu(slot.data.0 as *mut ThisVcpu, boot_record.stack_top.0, slot.plan);
        check_interrupts(vcpu);
        vcpu.join(scheduler);
    }
    // Budgets, tables and waits begin when everything is ready to be chosen.
    if scheduler.configure(first.machine.counter_ticks()).is_err() {
        crash(boot_record.counters, CRASH_BAD_PLAN, 0, None)
    }
    scheduler.begin(first.machine.counter_ticks());
    first.core.scheduler = Some(scheduler);
}

/// Loads vCPU after vCPU until one of them has a guest that can go on; returns its head.
// Every handler ends here, in most cases without an exchange: a call would be on the way out of each.
#[inline(always)]
pub(super) fn continue_with(vcpu: &mut ThisVcpu) -> *mut CoreHead {
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
// Both ways from an interrupt to another vCPU's guest go through here, and `shared.switch` has a ceiling.
#[inline(always)]
fn hand_over(before: &mut ThisVcpu, slot: u8) -> &'static mut ThisVcpu {
    let scheduler = before.core.scheduler.as_deref();
    let planned = scheduler.and_then(|scheduler| scheduler.plan.slots.get(usize::from(slot)));
    let Some(next) = planned.map(|planned| planned.data.0 as *mut ThisVcpu) else {
        crash(before.plan.counters, CRASH_BAD_PLAN, u64::from(slot), None)
    };
    // SAFETY: (1) the page holds this slot's vCPU since boot; (2) it is another page than `before`, because a vCPU is never
    // exchanged for itself; (3) nobody else refers to it: only the loaded vCPU is ever borrowed, and `before`, the
    // only one until now, is not used after this turn of the loop.
    let next = unsafe { &mut *next };
    next.core.take_over(&mut before.core);
    // SAFETY: it is the head of a vCPU of this core.
    unsafe { el2::set_core_head(&raw mut next.head) };
    next.load(slot);
    next
}

/// The vCPU that an interrupt wakes for certain, loaded.
// Asked for each interrupt that the vectors do not finish, and all of `shared.switch` when it has an answer.
#[inline(always)]
pub(super) fn jump(vcpu: &mut ThisVcpu, intid: u32) -> Option<*mut CoreHead> {
    let slot = vcpu.jump(intid)?;
    Some(&raw mut hand_over(vcpu, slot).head)
}
