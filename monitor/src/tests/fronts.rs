//! Fronts of virtio over the life of their partition (QV-50, QV-53): trapped registers, notifications, and restarts beside a back end.

use super::instances::{self, Before, Cause, begin, give_manager, histories, manage, manage_shared};
use super::shared::{Core, schedule, server};
use super::*;
use crate::interrupts::HYPERVISOR_TIMER;
use bulkhead_abi::devices::*;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status;
use bulkhead_abi::virtio::*;
use bulkhead_arch::fake::Event;

const FRAME: u64 = 0x1900_0000 + FRAME_OFFSET;
const PAGE: u64 = 0x5300_0000;
const POOL: u64 = 0x5310_0000;
const POOL_BYTES: u64 = 0x1_0000;
/// How long a back end may take.
const LEAVE_TICKS: u64 = 6_400;
const CONFIGURATION_OF_DISK: [u32; CONFIGURATION_WORDS] = [64, 0, 0, 126];
/// What a guest or a back end left behind.
const OLD: u32 = 0xdead_beef;

/// Two disks and a card.
fn plan() -> DevicePlan {
    let mut plan = DevicePlan::new_zeroed();
    (plan.pool, plan.pool_bytes, plan.leave_ticks) = (PhysicalAddress(POOL), POOL_BYTES, LEAVE_TICKS);
    for (index, (device, features)) in
        [(DEVICE_BLOCK, BLOCK_FLUSH), (DEVICE_NET, NET_MAC), (DEVICE_BLOCK, 0)].into_iter().enumerate()
    {
        plan.fronts[index] = DeviceFront {
            page: PhysicalAddress(page(index)),
            plan: FrontPlan { device, features, doorbell: 0, padding: 0 },
            configuration: CONFIGURATION_OF_DISK.map(|word| word << index),
        };
    }
    plan.front_count = 3;
    plan
}

const fn page(index: usize) -> u64 {
    PAGE + 0x1000 * index as u64
}

/// A partition that a manager asks, and that its policy restarts.
fn front_partition(partition: &mut PartitionPlan) {
    give_manager(partition);
    for index in 0..3 {
        partition.windows[index as usize] = Window {
            guest: bulkhead_abi::GuestAddress(FRAME + 0x2000 * u64::from(index)),
            bytes: PAGE_REGISTER.into(),
            kind: WINDOW_VIRTIO,
            index,
        };
    }
    partition.window_count = 3;
}

/// The memory that the partition is started in.
fn with_fronts(plan: DevicePlan, refused: u64, memory: impl Fn(&FakeMachine)) -> Vcpu<FakeMachine> {
    let mut partition = partition(1);
    front_partition(&mut partition);
    let mut core = cores(partition).remove(0);
    core.machine.now.set(5_000);
    memory(&core.machine);
    begin(&mut core, plan, refused);
    core
}

fn front() -> Vcpu<FakeMachine> {
    with_fronts(plan(), 0, |_| ())
}

fn word(machine: &FakeMachine, index: usize, offset: u32) -> u32 {
    machine.load32(PhysicalAddress(page(index) + u64::from(offset)))
}

fn set_word(machine: &FakeMachine, index: usize, offset: u32, value: u32) {
    machine.store32(PhysicalAddress(page(index) + u64::from(offset)), value);
}

fn generations(machine: &FakeMachine) -> [u32; 3] {
    [0, 1, 2].map(|index| word(machine, index, GENERATION))
}

/// Starts that found the back end busy.
fn busy(core: &Vcpu<FakeMachine>) -> u32 {
    status32(core, offset_of!(StatusPage, back_end_busy))
}

/// An access of the guest to the frame of a front, by x0; returns what x0 has then.
fn access(core: &mut Vcpu<FakeMachine>, index: u64, register: u64, bytes: u64, write: Option<u64>) -> u64 {
    instances::access(core, (FRAME + 0x2000 * index).wrapping_add(register), bytes, write)
}

/// What both partitions write to what they share.
fn litter(machine: &FakeMachine) {
    for index in 0..3 {
        for offset in (0..GENERATION).step_by(4).chain((COPYING + 4..DEVICE_PAGE_BYTES).step_by(4)) {
            set_word(machine, index, offset, OLD);
        }
    }
    for offset in (0..POOL_BYTES).step_by(8) {
        machine.store64(PhysicalAddress(POOL + offset), u64::MAX);
    }
}

/// Every page is as the plan says and the pool is empty.
fn assert_clean(machine: &FakeMachine, what: &str) {
    for index in 0..3 {
        for offset in (0..DEVICE_PAGE_BYTES).step_by(4).filter(|offset| ![GENERATION, COPYING].contains(offset)) {
            let configured = offset.checked_sub(CONFIGURATION).map(|at| at as usize / 4).filter(|at| *at < 4);
            let expected = match (offset, configured) {
                (INTERRUPT_STATUS, _) => INTERRUPT_USED,
                (_, Some(at)) => CONFIGURATION_OF_DISK[at] << index,
                _ => 0,
            };
            assert_eq!(word(machine, index, offset), expected, "{what}: front {index}, {offset:#x}");
        }
    }
    assert_eq!(pool(machine), 0, "{what}: pool");
}

/// Words of the pool that are not zero.
fn pool(machine: &FakeMachine) -> usize {
    machine.words.borrow().range(POOL..POOL + POOL_BYTES).filter(|(_, word)| **word != 0).count()
}

#[test]
fn a_guest_finds_its_devices_and_switches_a_queue_on() {
    let mut core = front();
    assert_clean(&core.machine, "first start");
    for (index, device) in [2, 1, 2].into_iter().enumerate() {
        let found = [0, 4, 8, 12].map(|register| access(&mut core, index as u64, register, 4, None));
        assert_eq!(found, [0x7472_6976, 2, device, 0x4b4c_5542]);
    }
    set_word(&core.machine, 1, QUEUE_DESCRIPTORS, 0x3000_1000);
    for (register, value) in [(0x30, 1), (0x38, 128), (0x44, 1)] {
        access(&mut core, 1, register, 4, Some(value));
    }
    let record = |core: &Vcpu<FakeMachine>, index, field| word(&core.machine, index, record_offset(1) + field);
    assert_eq!([0, 4, 8].map(|field| record(&core, 1, field)), [2, 128, 0x3000_1000]);
    assert_eq!([0, 4, 8].map(|field| record(&core, 0, field)), [0; 3], "another front");
    assert_eq!(access(&mut core, 1, 0x44, 4, None), 1);
    assert_eq!(core.counter(Counter::PciRegisters), 12 + 4);
    assert_eq!(core.run, RunState::Running);
}

/// H23: other widths read as zero and change nothing, in the whole trapped half; what is in front of it is nobody's.
#[test]
fn other_widths_are_ignored_and_what_is_in_front_of_the_frame_is_a_fault() {
    let mut core = front();
    core.machine.take_events();
    let before = core.machine.words.borrow().clone();
    for register in 0..u64::from(PAGE_REGISTER) {
        for bytes in [1, 2, 8] {
            assert_eq!(access(&mut core, 0, register, bytes, None), 0, "{register:#x}, {bytes}");
            access(&mut core, 0, register, bytes, Some(u64::MAX));
        }
        if !register.is_multiple_of(4) {
            assert_eq!(access(&mut core, 0, register, 4, None), 0, "{register:#x}");
            access(&mut core, 0, register, 4, Some(1));
        }
    }
    assert_eq!(core.counter(Counter::DoorbellSent), 0);
    let in_pages = |words: &std::collections::BTreeMap<u64, u64>| {
        words.range(PAGE..PAGE + 0x3000).map(|(at, word)| (*at, *word)).collect::<Vec<_>>()
    };
    assert_eq!(in_pages(&core.machine.words.borrow()), in_pages(&before));
    assert_eq!(core.run, RunState::Running);
    access(&mut core, 0, 0u64.wrapping_sub(4), 4, None);
    assert_eq!(state(&core), (status::STATE_RESTARTING, status::REASON_DATA_ABORT));
}

/// H22: a storm of notifications costs the back end what its limiter says.
#[test]
fn a_notification_is_a_doorbell_with_its_limiter() {
    let mut core = front();
    core.machine.take_events();
    for _ in 0..10 {
        access(&mut core, 0, 0x50, 4, Some(0));
    }
    assert_eq!((core.counter(Counter::DoorbellSent), core.counter(Counter::DoorbellLimited)), (2, 8));
    core.machine.now.set(core.machine.now.get() + 100);
    access(&mut core, 2, 0x50, 4, Some(0));
    assert_eq!(core.counter(Counter::DoorbellSent), 3);
}

/// A partition with fronts that was brought there.
fn bring(before: Before) -> Vcpu<FakeMachine> {
    let mut core = front();
    before.bring(&mut core);
    let lives = matches!(before, Before::Running | Before::Suspended);
    assert!(generations(&core.machine).iter().all(|generation| (*generation != 0) == lives), "{before:?}");
    core
}

/// The table of run states and of what happens in them: what is shared is withdrawn at once and clean at the next start.
#[test]
fn in_every_state_a_restart_leaves_nothing_of_the_instance_before() {
    let mut rows = 0;
    for (before, cause) in histories() {
        let what = format!("{before:?}, {cause:?}");
        let mut core = bring(before);
        let kept = generations(&core.machine);
        access(&mut core, 0, 0x38, 4, Some(16));
        access(&mut core, 0, 0x44, 4, Some(1));
        litter(&core.machine);
        cause.happen(&mut core);
        let ends = !matches!((before, cause), (Before::Running | Before::Suspended, Cause::Suspend));
        if cause == Cause::Restart {
            assert!(generations(&core.machine).iter().all(|generation| *generation != 0), "{what}");
        } else {
            assert_eq!(generations(&core.machine), if ends { [0; 3] } else { kept }, "{what}");
        }
        core.machine.now.set(core.machine.now.get() + 1_000);
        if core.run == RunState::BackOff {
            core.end_back_off();
        }
        manage(&mut core, status::MANAGE_RESTART);
        manage(&mut core, status::MANAGE_RESUME);
        assert_eq!((core.run, state(&core).0), (RunState::Running, status::STATE_RUNNING), "{what}");
        assert_clean(&core.machine, &what);
        let new = generations(&core.machine);
        assert!(new[0] != 0 && new == [new[0]; 3] && new[0] != kept[0], "{what}: {new:?} after {kept:?}");
        assert_eq!(access(&mut core, 0, 0x44, 4, None), 0, "{what}: registers are reset");
        assert_eq!(busy(&core), 0, "{what}");
        rows += 1;
    }
    assert_eq!(rows, 5 + 3 * 2);
}

#[test]
fn a_suspended_front_keeps_its_queues_and_its_requests() {
    let mut core = front();
    let before = generations(&core.machine);
    access(&mut core, 0, 0x38, 4, Some(16));
    access(&mut core, 0, 0x44, 4, Some(1));
    manage(&mut core, status::MANAGE_SUSPEND);
    // The back end does what was asked for.
    core.machine.store64(PhysicalAddress(POOL), 7);
    manage(&mut core, status::MANAGE_RESUME);
    assert_eq!(generations(&core.machine), before);
    assert_eq!((access(&mut core, 0, 0x44, 4, None), pool(&core.machine)), (1, 1));
}

/// A generation is neither 0 nor the one before, even where the counter's low bits are.
#[test]
fn generations_differ() {
    for now in [0, 1, 0xffff_ffff, 1 << 32, 0x1_0000_0001] {
        let mut core = front();
        let mut seen = vec![generations(&core.machine)[0]];
        for _ in 0..3 {
            core.machine.now.set(now);
            manage(&mut core, status::MANAGE_RESTART);
            let [generation, ..] = generations(&core.machine);
            assert!(generation != 0 && Some(&generation) != seen.last(), "{now:#x}: {generation:#x} after {seen:x?}");
            seen.push(generation);
        }
    }
}

/// Memory as firmware leaves it: a generation that somebody might serve, and an announcement of nobody.
#[test]
fn the_first_start_waits_for_nobody_and_clears_what_it_finds() {
    let core = with_fronts(plan(), 0, |machine| {
        litter(machine);
        for index in 0..3 {
            set_word(machine, index, GENERATION, OLD);
            set_word(machine, index, COPYING, OLD);
        }
    });
    assert_eq!((busy(&core), state(&core)), (0, (status::STATE_RUNNING, status::REASON_NONE)));
    assert_clean(&core.machine, "first start");
    assert_eq!(word(&core.machine, 0, COPYING), OLD, "it is the back end's");
}

#[test]
fn what_the_boot_core_refuses_is_functions_and_not_fronts() {
    let core = with_fronts(plan(), u64::MAX, |_| ());
    assert_eq!(state(&core).0, status::STATE_RUNNING);
}

/// A back end that died while it copied: the start waits as long as the plan says, is counted, and comes.
#[test]
fn a_back_end_that_never_leaves_is_counted_and_the_front_starts() {
    for index in 0..3 {
        let mut core = front();
        core.machine.ticks_per_reading.set(10);
        litter(&core.machine);
        let old = word(&core.machine, index, GENERATION);
        set_word(&core.machine, index, COPYING, old);
        let begun = core.machine.now.get();
        manage(&mut core, status::MANAGE_RESTART);
        let took = core.machine.now.get() - begun;
        assert!((LEAVE_TICKS..LEAVE_TICKS + 500).contains(&took), "{took}");
        assert_eq!(state(&core), (status::STATE_RUNNING, status::REASON_BACK_END_BUSY));
        assert_eq!(busy(&core), 1);
        assert_clean(&core.machine, "busy");
        assert_eq!(word(&core.machine, index, COPYING), old, "it is the back end's");
        assert_eq!(core.machine.deadline.get(), None, "no date is left");
        set_word(&core.machine, index, COPYING, 0);
        manage(&mut core, status::MANAGE_RESTART);
        assert_eq!((busy(&core), state(&core).1), (1, status::REASON_MANAGED));
    }
}

thread_local! {
    /// Steps that the back end has made.
    static STEPS: Cell<usize> = const { Cell::new(0) };
    /// Accesses of the monitor between its announcement and its store, and from there to the withdrawal.
    static GAPS: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    /// The generation that it serves.
    static SERVED: Cell<u32> = const { Cell::new(0) };
    /// It has stored.
    static STORED: Cell<bool> = const { Cell::new(false) };
}

/// The next step of a back end that stores once: announcement and look, then the store if the look found its generation, then the
/// withdrawal. (Orders of announcement and look themselves are `core/virtqueue`'s.)
fn back_end(machine: &FakeMachine) {
    let step = STEPS.get();
    STEPS.set(step + 1);
    let page = |offset: u32| PhysicalAddress(page(2) + u64::from(offset));
    match step {
        0 => {
            machine.store32(page(COPYING), SERVED.get());
            STORED.set(machine.load32(page(GENERATION)) == SERVED.get());
        }
        1 if STORED.get() => machine.store64(PhysicalAddress(POOL + POOL_BYTES - 8), OLD.into()),
        1 => {}
        _ => return machine.store32(page(COPYING), 0),
    }
    machine.at_access.set(Some((GAPS.get()[step], back_end)));
}

/// A restart beside a back end that is storing, in every order of the restart's accesses up to the clear and the back end's steps. Nothing
/// of an older request is in the pool of the new instance.
#[test]
fn in_every_order_a_store_ends_before_the_clear() {
    const ACCESSES: u64 = 90;
    let (mut stored, mut refused) = (0, 0);
    for first in 0..ACCESSES {
        for gaps in [0, 1, 2, 3, 5, 8, 13, 21, 34].into_iter().flat_map(|store| [0, 1, 4, 30].map(|end| [store, end])) {
            let mut core = front();
            core.machine.ticks_per_reading.set(100);
            SERVED.set(generations(&core.machine)[2]);
            STEPS.set(0);
            GAPS.set(gaps);
            core.machine.take_events();
            core.machine.at_access.set(Some((first, back_end)));
            manage(&mut core, status::MANAGE_RESTART);
            core.machine.at_access.set(None);
            assert_eq!(STEPS.get(), 3, "{first}, {gaps:?}: the restart is longer than that");
            assert_eq!((pool(&core.machine), busy(&core)), (0, 0), "{first}, {gaps:?}");
            *(if STORED.get() { &mut stored } else { &mut refused }) += 1;
        }
    }
    assert!(stored > 500 && refused > 500, "{stored} stored, {refused} refused");
}

/// Looks at each access, from the clear on: who finds a generation finds nothing of the instance before.
fn look(machine: &FakeMachine) {
    let is_pool = |event: &Event| matches!(event, Event::Scrub(POOL, _));
    if machine.events.borrow().iter().any(is_pool) {
        let records = (0..3).any(|index| {
            let place = page(index) + u64::from(RECORDS);
            machine.words.borrow().range(place..place + 128).any(|(_, word)| *word != 0)
        });
        if records || pool(machine) != 0 {
            assert_eq!(generations(machine), [0; 3], "{}", STEPS.get());
        }
        STEPS.set(STEPS.get() + 1);
    }
    machine.at_access.set(Some((0, look)));
}

#[test]
fn nobody_finds_a_generation_before_all_is_clear() {
    let garbage = |machine: &FakeMachine| {
        litter(machine);
        (0..3).for_each(|index| set_word(machine, index, GENERATION, OLD));
    };
    STEPS.set(0);
    let mut core = with_fronts(plan(), 0, |machine| {
        garbage(machine);
        machine.at_access.set(Some((0, look)));
    });
    let first = STEPS.get();
    assert!(first > 3 * 500, "{first}");
    core.machine.at_access.set(None);
    garbage(&core.machine);
    core.machine.take_events();
    core.machine.at_access.set(Some((0, look)));
    manage(&mut core, status::MANAGE_RESTART);
    assert!(STEPS.get() > first + 3 * 500);
}

/// On a shared core the wait is a date and the clear comes in slices; the other one runs meanwhile.
#[test]
fn a_shared_core_waits_by_a_date_and_clears_in_slices() {
    let mut core = Core::with(schedule(&[server(0, 1), server(1, 2)], 2), |slot, partition| {
        if slot == 0 {
            front_partition(partition);
        }
        partition.manage[3] = PhysicalAddress(PEER_MANAGE);
    });
    core.vcpus[0].attach_functions(Some(Box::leak(Box::new(plan()))), 0);
    manage_shared(&mut core, status::MANAGE_RESTART);
    let generation = generations(&core.machine)[0];
    assert_ne!(generation, 0);
    let is_pool = |event: &&Event| matches!(event, Event::Scrub(place, _) if (POOL..POOL + POOL_BYTES).contains(place));
    assert_eq!(core.machine.take_events().iter().filter(is_pool).count(), 16, "slices of 4 KiB");
    set_word(&core.machine, 0, COPYING, generation);
    assert_eq!(core.loaded, 0);
    manage_shared(&mut core, status::MANAGE_RESTART);
    for _ in 0..3 {
        assert_eq!((core.vcpus[0].run, core.loaded), (RunState::Restoring, 1), "meanwhile the other one runs");
        assert_eq!(generations(&core.machine), [0; 3]);
        assert_eq!(core.machine.take_events().iter().filter(is_pool).count(), 0);
        let date = core.machine.deadline.get().expect("a date");
        assert_eq!(date - core.machine.now.get(), LEAVE_TICKS / 64);
        core.machine.now.set(date);
        core.interrupt(HYPERVISOR_TIMER);
    }
    set_word(&core.machine, 0, COPYING, 0);
    core.pass(LEAVE_TICKS / 64);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!((core.vcpus[0].run, core.loaded), (RunState::Running, 0));
    assert_eq!(core.machine.take_events().iter().filter(is_pool).count(), 16);
    assert_eq!(busy(&core.vcpus[0]), 0);
}
