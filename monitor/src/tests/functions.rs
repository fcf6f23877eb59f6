//! PCI functions over the life of their partition (QV-74, SG-62): boot, stop, suspend, restart, and DMA that was refused.

use super::calls::{SYSTEM_OFF, call};
use super::instances::{self, Before, Cause, begin, give_manager, histories, manage, manage_shared};
use super::shared::{Core, schedule, server};
use super::*;
use crate::devices::functions::{Booted, boot};
use crate::interrupts::HYPERVISOR_TIMER;
use bulkhead_abi::devices::*;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{self, DmaRecord};
use bulkhead_arch::fake::Event;

const FUNCTION: u64 = 0x40_1000_8000;
const COMMAND: u64 = FUNCTION + 4;
/// Status of virtio, behind a base address register.
const RESET: u64 = 0x1000_0014;
const PRODUCED: u64 = 0x0906_00a8;
const CONSUMED: u64 = 0x0906_00ac;
const EVENTS: u64 = 0x5200_0000;
const STREAM: u32 = 8;
const MASTER: u16 = 4;
const ECAM: u64 = 0x3f00_0000;
/// Reads that a wait of the scripts below may have.
const LIMIT: u32 = 6;

fn step(operation: u16, width: u16, address: u64, mask: u64, value: u64, limit: u32) -> Step {
    Step { operation, width, limit, address: PhysicalAddress(address), mask, value }
}

/// The script of a function of virtio, as the planner writes it.
fn script() -> Vec<Step> {
    vec![
        step(STEP_UPDATE, 2, COMMAND, 0x406, 0x402, 0),
        step(STEP_WAIT, 2, COMMAND, 4, 0, LIMIT),
        step(STEP_EXPECT, 4, FUNCTION, u64::MAX, 0x1042_1af4, 0),
        step(STEP_WRITE, 2, RESET, 0, 0, 0),
        step(STEP_WAIT, 2, RESET, 0xff, 0, LIMIT),
        step(STEP_WRITE, 4, FUNCTION + 0x10, 0, 0x1000_0000, 0),
        step(STEP_WRITE, 2, COMMAND, 0, 0x402, 0),
    ]
}

fn functions(steps: &[Step]) -> DevicePlan {
    let mut plan = DevicePlan::new_zeroed();
    plan.silence_count = 2;
    plan.step_count = steps.len() as u32;
    plan.quiesce[..steps.len()].copy_from_slice(steps);
    plan.functions[1].configuration = PhysicalAddress(FUNCTION);
    plan.functions[1].stream = STREAM;
    plan.functions[1].header[0] = 0x1042_1af4;
    plan.events = PhysicalAddress(EVENTS);
    plan.event_registers = PhysicalAddress(0x0906_0000);
    plan
}

/// The function as it comes out of the boot core's scripts.
fn plug(machine: &FakeMachine) {
    machine.store32(PhysicalAddress(FUNCTION), 0x1042_1af4);
    machine.store32(PhysicalAddress(COMMAND), 0x0010_0402);
}

fn command(core: &Vcpu<FakeMachine>) -> u16 {
    core.machine.words.borrow().get(&(COMMAND & !7)).map_or(0, |word| (word >> 32) as u16)
}

fn set_command(machine: &FakeMachine, command: u16) {
    machine.store16(PhysicalAddress(COMMAND), command);
}

/// A partition that a manager asks, and that its policy restarts, with a function.
fn with_function(plan: DevicePlan, refused: u64) -> Vcpu<FakeMachine> {
    let mut partition = partition(1);
    give_manager(&mut partition);
    partition.pci_count = 2;
    partition.pci[1].kind = PCI_DEVICE;
    partition.windows[0] =
        Window { guest: bulkhead_abi::GuestAddress(ECAM), bytes: 1 << 20, kind: WINDOW_ECAM, ..Default::default() };
    partition.window_count = 1;
    let mut core = cores(partition).remove(0);
    plug(&core.machine);
    core.machine.ticks_per_reading.set(1);
    begin(&mut core, plan, refused);
    core
}

/// From now on the register shows these bits for this number of reads after they were cleared.
fn answer_late(machine: &FakeMachine, register: u64, reads: u32, bits: u16) {
    machine.late.borrow_mut().insert(register, (reads, bits));
}

fn scrubs(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Scrub(..))).count()
}

/// What the function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    AtOnce,
    /// In the last read that it may have.
    Late,
    /// It never says that it is silent.
    NeverSilent,
    /// Its reset never ends.
    NeverReset,
    /// Somebody else answers.
    Gone,
}

/// A partition with a function that its driver uses, brought there.
fn bring(before: Before) -> Vcpu<FakeMachine> {
    let mut core = with_function(functions(&script()), 0);
    assert_eq!((core.run, state(&core).0), (RunState::Running, status::STATE_RUNNING));
    set_command(&core.machine, 0x406);
    before.bring(&mut core);
    assert_eq!(command(&core) & MASTER != 0, before == Before::Running, "{before:?}: silenced at once");
    core.machine.take_events();
    core
}

impl Answer {
    const ALL: [Self; 5] = [Self::AtOnce, Self::Late, Self::NeverSilent, Self::NeverReset, Self::Gone];

    fn give(self, machine: &FakeMachine) {
        match self {
            Self::AtOnce => {}
            Self::Late => {
                answer_late(machine, COMMAND, LIMIT - 1, MASTER);
                answer_late(machine, RESET, LIMIT - 1, 1);
            }
            Self::NeverSilent => answer_late(machine, COMMAND, u32::MAX, MASTER),
            Self::NeverReset => answer_late(machine, RESET, u32::MAX, 1),
            Self::Gone => machine.store32(PhysicalAddress(FUNCTION), u32::MAX),
        }
    }

    /// Why the partition is stopped at the start that comes next.
    fn reason(self) -> Option<u32> {
        match self {
            Self::AtOnce | Self::Late => None,
            Self::NeverSilent | Self::NeverReset => Some(status::REASON_DEVICE_STUCK),
            Self::Gone => Some(status::REASON_DEVICE_MISSING),
        }
    }
}

/// The table of all run states, of what happens in them, and of what the function answers: DMA ends with its instance, and nothing is
/// started beside a function that did not answer.
#[test]
fn in_every_state_functions_are_silent_before_memory_is_touched() {
    let mut rows = 0;
    for (before, cause) in histories() {
        for answer in Answer::ALL {
            let what = format!("{before:?}, {cause:?}, {answer:?}");
            let mut core = bring(before);
            answer.give(&core.machine);
            cause.happen(&mut core);
            assert_eq!(command(&core) & MASTER, 0, "{what}: mastering is off when the handler ends");
            let stops_silently =
                answer == Answer::NeverSilent && !(before != Before::Running && cause == Cause::Suspend);
            if stops_silently {
                assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_DEVICE_STUCK), "{what}");
                assert_eq!(command(&core), 0x400, "{what}: memory off, INTx silent");
            }
            // Whatever ends the back-off, and a manager who insists.
            core.machine.now.set(core.machine.now.get() + 1_000);
            if core.run == RunState::BackOff {
                core.end_back_off();
            }
            manage(&mut core, status::MANAGE_RESTART);
            manage(&mut core, status::MANAGE_RESUME);
            let events = core.machine.take_events();
            match answer.reason() {
                None => {
                    assert_eq!((core.run, state(&core).0), (RunState::Running, status::STATE_RUNNING), "{what}");
                    assert_eq!(command(&core), 0x402, "{what}: what the new driver finds");
                    assert!(scrubs(&events) >= 1, "{what}");
                }
                Some(reason) => {
                    assert_ne!(core.run, RunState::Running, "{what}");
                    assert_eq!(state(&core), (status::STATE_STOPPED, reason), "{what}");
                    assert_eq!(scrubs(&events), 0, "{what}: its memory may still be written");
                    assert_eq!(command(&core), 0x400, "{what}");
                }
            }
            rows += 1;
        }
    }
    assert_eq!(rows, 5 * 5 + 3 * 2 * 5);
}

#[test]
fn a_start_scrubs_only_behind_the_last_step() {
    // The reset is over in the fifth read; before the scrub nothing is left of it.
    let mut core = bring(Before::Running);
    answer_late(&core.machine, RESET, 5, 1);
    core.machine.late.borrow_mut().insert(COMMAND, (3, MASTER));
    let left = |core: &Vcpu<FakeMachine>| core.machine.late.borrow().values().map(|(reads, _)| reads).sum::<u32>();
    manage(&mut core, status::MANAGE_RESTART);
    assert_eq!(left(&core), 0);
    assert_eq!(command(&core), 0x402);
    assert_eq!(core.machine.load32(PhysicalAddress(FUNCTION + 0x10)), 0x1000_0000, "its base address is back");
}

#[test]
fn what_the_boot_core_refuses_never_starts() {
    for refused in [1, u64::MAX] {
        let mut core = with_function(functions(&script()), refused);
        for _ in 0..2 {
            assert_eq!(core.run, RunState::Off);
            assert_eq!(state(&core), (status::STATE_STOPPED, status::REASON_DEVICE_MISSING));
            assert_eq!(scrubs(&core.machine.take_events()), 0);
            manage(&mut core, status::MANAGE_RESTART);
        }
        // One without functions does not care.
        let mut other = cores(partition(1)).remove(0);
        other.attach_functions(None, refused);
        other.begin();
        assert_eq!(state(&other).0, status::STATE_RUNNING);
    }
    let core = with_function(functions(&script()), 2);
    assert_eq!(state(&core).0, status::STATE_RUNNING, "another partition's");
}

#[test]
fn scripts_of_the_boot_core_end_with_what_may_be_used() {
    const SMMU: u64 = 0x0905_0020;
    let steps = [
        step(STEP_WRITE, 2, COMMAND, 0, 0, 0),
        step(STEP_WRITE, 2, COMMAND + 0x1000, 0, 0, 0),
        step(STEP_WRITE, 4, SMMU, 0, 0xd, 0),
        step(STEP_WAIT, 4, SMMU + 4, 0xd, 0xd, LIMIT),
        step(STEP_EXPECT, 4, FUNCTION, u64::MAX, 0x1042_1af4, 0),
        step(STEP_WRITE, 2, COMMAND, 0, 0x402, 0),
        step(STEP_EXPECT, 4, FUNCTION + 0x1000, u64::MAX, 0x1041_1af4, 0),
        step(STEP_WRITE, 2, COMMAND + 0x1000, 0, 0x402, 0),
    ];
    let mut plan = BootDevices::new_zeroed();
    plan.steps[..8].copy_from_slice(&steps);
    plan.step_count = 8;
    let scripts = [(0, 2, ALL_PARTITIONS), (2, 2, ALL_PARTITIONS), (4, 2, 0), (6, 2, 3)];
    plan.script_count = 4;
    for (place, (first, count, partition)) in plan.scripts.iter_mut().zip(scripts) {
        *place = BootScript { first, count, partition, reserved: 0 };
    }
    let run = |smmu_answers: bool, first: u32, second: u32| {
        let machine = machine(PhysicalAddress(0x080a_0000));
        plug(&machine);
        machine.store32(PhysicalAddress(FUNCTION), first);
        machine.store32(PhysicalAddress(FUNCTION + 0x1000), second);
        machine.store32(PhysicalAddress(COMMAND + 0x1000), 6);
        machine.store32(PhysicalAddress(SMMU + 4), if smmu_answers { 0xd } else { 0 });
        let booted = boot(&machine, &plan);
        (booted, [COMMAND, COMMAND + 0x1000].map(|place| machine.load16(PhysicalAddress(place))))
    };
    let (there, gone) = ((0x1042_1af4, 0x1041_1af4), u32::MAX);
    assert_eq!(run(true, there.0, there.1), (Booted::default(), [0x402, 0x402]));
    assert_eq!(run(true, there.0, gone), (Booted { refused: 1 << 3, failed: None }, [0x402, 0]));
    assert_eq!(run(true, gone, gone), (Booted { refused: 1 << 3 | 1, failed: None }, [0, 0]));
    let failed = Some(1 | 1 << 32);
    assert_eq!(run(false, there.0, there.1), (Booted { refused: u64::MAX, failed }, [0, 0]), "all functions are off");
}

/// An access of the guest to its virtual bus.
fn access(core: &mut Vcpu<FakeMachine>, register: u64, bytes: u64, write: Option<u64>) -> u64 {
    instances::access(core, ECAM + (2 << 15) + register, bytes, write)
}

#[test]
fn a_guest_reads_the_header_and_sets_its_master_bit() {
    let mut core = with_function(functions(&script()), 0);
    assert_eq!(access(&mut core, 0, 4, None), 0x1042_1af4);
    assert_eq!(access(&mut core, 4, 2, None), 0x402);
    access(&mut core, 4, 2, Some(0xffff));
    assert_eq!(command(&core), 0x406);
    access(&mut core, 0x10, 4, Some(0x4000_0000));
    assert_eq!(core.machine.load32(PhysicalAddress(FUNCTION + 0x10)), 0x1000_0000, "base addresses stay");
    assert_eq!(access(&mut core, 0x8000, 4, None), u64::from(u32::MAX), "nobody there");
    assert_eq!(core.counter(Counter::PciConfig), 5);
}

#[test]
fn a_suspended_partition_gets_its_master_bit_back() {
    for driver in [0x406, 0x402, 0x006] {
        let mut core = with_function(functions(&script()), 0);
        set_command(&core.machine, driver);
        manage(&mut core, status::MANAGE_SUSPEND);
        assert_eq!((state(&core).0, command(&core)), (status::STATE_SUSPENDED, 0x402));
        manage(&mut core, status::MANAGE_SUSPEND);
        manage(&mut core, status::MANAGE_RESUME);
        assert_eq!((state(&core).0, command(&core)), (status::STATE_RUNNING, driver));
        // A new instance begins without it.
        manage(&mut core, status::MANAGE_SUSPEND);
        manage(&mut core, status::MANAGE_RESTART);
        assert_eq!((state(&core).0, command(&core)), (status::STATE_RUNNING, 0x402));
    }
}

/// The SMMU refused something.
fn refuse(machine: &FakeMachine, index: u32, stream: u32, address: u64) {
    let entry = EVENTS + 32 * u64::from(index % EVENT_ENTRIES);
    machine.store64(PhysicalAddress(entry), u64::from(stream) << 32 | 0x10);
    machine.store64(PhysicalAddress(entry + 16), address);
    machine.store32(PhysicalAddress(PRODUCED), index + 1);
}

fn dma(core: &Vcpu<FakeMachine>) -> [u64; 4] {
    let place = |offset: usize| STATUS + (offset_of!(StatusPage, dma) + offset) as u64;
    [
        offset_of!(DmaRecord, events),
        offset_of!(DmaRecord, lost),
        offset_of!(DmaRecord, latest),
        offset_of!(DmaRecord, address),
    ]
    .map(|offset| core.machine.load64(PhysicalAddress(place(offset))))
}

/// Time passes, to the date that the EL2 timer is armed for.
fn ring(core: &mut Vcpu<FakeMachine>) {
    let deadline = core.machine.deadline.get().expect("the timer is armed");
    core.machine.now.set(core.machine.now.get().max(deadline));
    core.interrupt(HYPERVISOR_TIMER);
}

fn watcher(are_faults: u32) -> Vcpu<FakeMachine> {
    let mut plan = functions(&script());
    (plan.poll_ticks, plan.events_are_faults) = (1_000, are_faults);
    with_function(plan, 0)
}

#[test]
fn refused_dma_is_counted_where_its_owner_looks() {
    let mut core = watcher(0);
    refuse(&core.machine, 0, STREAM, 0x4000_0000);
    refuse(&core.machine, 1, 16, 0x5000_0000);
    ring(&mut core);
    assert_eq!(dma(&core), [1, 0, u64::from(STREAM) << 32 | 0x10, 0x4000_0000]);
    assert_eq!(core.machine.load32(PhysicalAddress(CONSUMED)), 2, "the queue is given back");
    assert_eq!(state(&core).0, status::STATE_RUNNING);
    for index in 2..5 {
        refuse(&core.machine, index, STREAM, u64::from(index));
        ring(&mut core);
    }
    assert_eq!(dma(&core)[..2], [4, 0]);
    core.machine.store32(PhysicalAddress(PRODUCED), 5 | 1 << 31);
    ring(&mut core);
    assert_eq!(dma(&core)[..2], [4, 1], "the SMMU dropped some");
    // Nobody looks while nobody runs; what was refused before a start is not the new instance's.
    call(&mut core, SYSTEM_OFF, [0; 3]);
    assert_eq!(core.machine.deadline.get(), None);
    refuse(&core.machine, 5, STREAM, 0);
    manage(&mut core, status::MANAGE_RESTART);
    ring(&mut core);
    assert_eq!(dma(&core)[0], 4 + 1, "seen when it was silenced once more, before the start");
}

#[test]
fn refused_dma_is_a_fault_where_the_plan_says_so() {
    let mut core = watcher(1);
    refuse(&core.machine, 0, 16, 0);
    ring(&mut core);
    assert_eq!(state(&core).0, status::STATE_RUNNING, "somebody else's");
    set_command(&core.machine, 0x406);
    refuse(&core.machine, 1, STREAM, 0x4000_0000);
    ring(&mut core);
    assert_eq!(state(&core), (status::STATE_RESTARTING, status::REASON_DMA));
    assert_eq!(command(&core) & MASTER, 0);
    core.machine.now.set(core.machine.now.get() + 1_000);
    core.end_back_off();
    assert_eq!(state(&core).0, status::STATE_RUNNING);
    ring(&mut core);
    assert_eq!(state(&core).0, status::STATE_RUNNING, "one fault, not two");
}

/// A manager that suspends and resumes before the next look hides no fault.
#[test]
fn refused_dma_before_a_suspend_is_a_fault_behind_it() {
    for are_faults in [0, 1] {
        let mut core = watcher(are_faults);
        refuse(&core.machine, 0, STREAM, 0x4000_0000);
        manage(&mut core, status::MANAGE_SUSPEND);
        assert_eq!(state(&core).0, status::STATE_SUSPENDED);
        assert_eq!(core.machine.deadline.get(), None, "nobody looks while nobody runs");
        manage(&mut core, status::MANAGE_RESUME);
        ring(&mut core);
        assert_eq!(dma(&core)[..2], [1, 0]);
        let fault = (status::STATE_RESTARTING, status::REASON_DMA);
        let state = state(&core);
        assert_eq!(state == fault, are_faults == 1, "{state:?}");
    }
}

#[test]
fn the_watchdog_keeps_its_date_beside_the_looks() {
    let mut plan = partition(1);
    plan.health.watchdog_ticks = 2_500;
    let mut core = cores(plan).remove(0);
    plug(&core.machine);
    let mut devices = functions(&script());
    devices.poll_ticks = 1_000;
    core.attach_functions(Some(Box::leak(Box::new(devices))), 0);
    core.begin();
    let started = core.machine.now.get();
    let mut rings = 0;
    while state(&core).0 == status::STATE_RUNNING {
        ring(&mut core);
        rings += 1;
    }
    assert_eq!(state(&core).1, status::REASON_WATCHDOG);
    assert_eq!((core.machine.now.get() - started, rings), (2_500, 3), "two looks, and the date itself");
    assert_eq!(core.counter(Counter::Watchdog), 1);
}

/// A shared core whose first partition has a function that its driver uses, and a delay in its script.
fn shared_with_delay() -> Core {
    let mut steps = script();
    steps.insert(5, step(STEP_DELAY, 0, 0, 0, 10_000, 0));
    let mut core = Core::with(schedule(&[server(0, 1), server(1, 2)], 2), |_, partition| {
        partition.manage[3] = PhysicalAddress(PEER_MANAGE);
    });
    plug(&core.machine);
    core.vcpus[0].attach_functions(Some(Box::leak(Box::new(functions(&steps)))), 0);
    set_command(&core.machine, 0x406);
    core
}

/// On a shared core the script of one continues while the other runs, and its delay costs nobody anything.
#[test]
fn a_shared_core_runs_the_script_in_slices() {
    let mut core = shared_with_delay();
    core.machine.take_events();
    assert_eq!(core.loaded, 0);
    manage_shared(&mut core, status::MANAGE_RESTART);
    assert_eq!(core.vcpus[0].run, RunState::Restoring, "the delay is not over");
    assert_eq!(core.vcpus[1].run, RunState::Running);
    assert_eq!(core.loaded, 1, "meanwhile the other one runs");
    assert_eq!(command(&core.vcpus[0]) & MASTER, 0);
    let own = |machine: &FakeMachine| {
        let is_own = |event: &&Event| matches!(event, Event::Scrub(place, _) if (RAM..RAM + 0x20_0000).contains(place));
        machine.take_events().iter().filter(is_own).count()
    };
    assert_eq!(own(&core.machine), 0, "nothing of its memory is touched before");
    let date = core.machine.deadline.get().expect("a date");
    core.machine.now.set(date);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!(core.vcpus[0].run, RunState::Running);
    assert_eq!((core.loaded, state(&core.vcpus[0]).0), (0, status::STATE_RUNNING));
    assert_eq!(command(&core.vcpus[0]), 0x402);
    assert_eq!(own(&core.machine), 512, "slices of 4 KiB");
}

/// A function answers nothing within the delay after its reset. Whatever a manager asks for meanwhile, nobody asks the function, and the start
/// comes to its end when the delay that began first is over.
#[test]
fn within_the_delay_of_a_reset_nobody_asks_the_function() {
    for requests in [
        &[status::MANAGE_RESTART][..],
        &[status::MANAGE_RESTART, status::MANAGE_RESTART],
        &[status::MANAGE_SUSPEND, status::MANAGE_RESUME],
        &[status::MANAGE_SUSPEND, status::MANAGE_RESTART, status::MANAGE_RESUME],
    ] {
        let mut core = shared_with_delay();
        manage_shared(&mut core, status::MANAGE_RESTART);
        let over = core.machine.deadline.get().expect("the end of the delay");
        answer_late(&core.machine, COMMAND, u32::MAX, MASTER);
        set_command(&core.machine, 0x406);
        for request in requests {
            core.pass(1_000);
            manage_shared(&mut core, *request);
            assert_eq!(core.vcpus[0].run, RunState::Restoring, "{requests:?}");
            assert_eq!(command(&core.vcpus[0]), 0x406, "{requests:?}: left alone");
        }
        assert_eq!(core.machine.deadline.get(), Some(over), "{requests:?}: one delay");
        core.machine.late.borrow_mut().clear();
        core.machine.now.set(over);
        core.interrupt(HYPERVISOR_TIMER);
        assert_eq!(state(&core.vcpus[0]).0, status::STATE_RUNNING, "{requests:?}");
        assert_eq!(command(&core.vcpus[0]), 0x402, "{requests:?}");
    }
}
