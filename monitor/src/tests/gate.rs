//! Below a payload: kicks in place of SGI 15, watches in place of the timer, and `direct` guests that are stopped and filtered.

use super::*;
use bulkhead_abi::hypercall::CALL_HEARTBEAT;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{
    MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND, ManagePage, REASON_MANAGED, REASON_NONE, REASON_WATCHDOG,
    STATE_RESTARTING, STATE_RUNNING, STATE_STOPPED, STATE_SUSPENDED, next_request,
};
use bulkhead_arch::fake::Event;
use bulkhead_arm::el2::interface::EVERY_PRIORITY;
use std::sync::atomic::Ordering::Relaxed;

/// The payload has core 0.
const PAYLOAD: u64 = 0;

fn direct(change: impl Fn(&mut PartitionPlan)) -> Vcpu<FakeMachine> {
    let mut plan = partition(1);
    plan.mode = MODE_DIRECT;
    plan.flags = FLAG_MANAGEABLE;
    plan.manage[1] = PhysicalAddress(PEER_MANAGE);
    change(&mut plan);
    let mut core = cores(plan).remove(0);
    core.machine.payload_mpidr.set(Some(PAYLOAD));
    core.begin();
    assert_eq!(core.run, RunState::Running);
    core.machine.take_events();
    core
}

/// What EL3 does to a core that runs its guest: the vector of an FIQ, which acknowledges nothing.
fn kick(core: &mut Vcpu<FakeMachine>) {
    core.interrupt(1023);
}

fn post(core: &Vcpu<FakeMachine>, request: u32) {
    let word = PhysicalAddress(PEER_MANAGE + offset_of!(ManagePage, requests) as u64);
    core.machine.store64(word, next_request(core.machine.load64(word), request));
}

fn watches(core: &Vcpu<FakeMachine>) -> Vec<u64> {
    let watch = |event| if let Event::Watch(ticks) = event { Some(ticks) } else { None };
    core.machine.take_events().into_iter().filter_map(watch).collect()
}

/// QV-5, CF-9: a request reaches a guest that has all interrupts to itself, at the next kick; nothing is acknowledged that may be the guest's.
#[test]
fn a_direct_guest_is_suspended_resumed_and_restarted() {
    let mut core = direct(|_| {});
    core.machine.pending.borrow_mut().push_back(40);
    post(&core, MANAGE_SUSPEND);
    kick(&mut core);
    assert_eq!((core.run, state(&core)), (RunState::Parked, (STATE_SUSPENDED, REASON_MANAGED)));
    post(&core, MANAGE_RESUME);
    kick(&mut core);
    assert_eq!((core.run, state(&core)), (RunState::Running, (STATE_RUNNING, REASON_NONE)));
    post(&core, MANAGE_RESTART);
    kick(&mut core);
    assert_eq!((core.run, state(&core)), (RunState::Running, (STATE_RUNNING, REASON_MANAGED)));
    assert_eq!(core.machine.pending.borrow().front(), Some(&40), "the guest's own interrupt still waits for it");
}

/// A core that stands at EL2 looks at the words after its watch was asked for, and before it waits: what is posted while it waits brings a kick, and
/// what was posted before is seen.
#[test]
fn a_core_that_waits_hears_of_requests() {
    let mut core = direct(|_| {});
    post(&core, MANAGE_SUSPEND);
    kick(&mut core);
    core.machine.take_events();
    core.machine.on_wait.set(Some(|machine| {
        let word = PhysicalAddress(PEER_MANAGE + offset_of!(ManagePage, requests) as u64);
        machine.store64(word, next_request(machine.load64(word), MANAGE_RESUME));
    }));
    assert_eq!(core.settle(), None);
    assert_eq!((core.run, state(&core)), (RunState::Running, (STATE_RUNNING, REASON_NONE)));
    assert!(watches(&core).first().is_some_and(|ticks| *ticks > 1 << 60), "the longest that EL3 allows");
}

/// A suspended guest's own interrupt is not signalled while its core waits, which would not sleep otherwise; the guest has its setting back after that.
#[test]
fn a_pending_interrupt_does_not_end_the_wait_of_a_suspended_guest() {
    for signals in [false, true] {
        let mut core = direct(|_| {});
        core.machine.signals.set(signals);
        post(&core, MANAGE_SUSPEND);
        kick(&mut core);
        core.machine.on_wait.set(Some(|machine| {
            assert!(!machine.signals.get(), "a masked interrupt that is signalled ends a WFI");
            let word = PhysicalAddress(PEER_MANAGE + offset_of!(ManagePage, requests) as u64);
            machine.store64(word, next_request(machine.load64(word), MANAGE_RESUME));
        }));
        core.settle();
        assert_eq!((core.run, core.machine.signals.get()), (RunState::Running, signals));
    }
}

thread_local! {
    /// The core did all that it had to before the other request was posted.
    static PLACES_ARE_OVER: Cell<bool> = const { Cell::new(false) };
}

/// A manager posts the other request.
fn post_late(machine: &FakeMachine) {
    let word = PhysicalAddress(PEER_MANAGE + offset_of!(ManagePage, requests) as u64);
    // Not by its methods, which would be accesses of the core under test.
    let before = machine.words.borrow().get(&word.0).copied().unwrap_or(0);
    machine.words.borrow_mut().insert(word.0, next_request(before, MANAGE_RESTART));
    machine.kick_finds_el2();
}

/// The core waits at EL2: EL3 comes at its date. Where it has none, and nobody has posted anything yet, the request comes now.
fn wait_at_el2(machine: &FakeMachine) {
    if let Some((_, world)) = machine.at_access.take() {
        PLACES_ARE_OVER.set(true);
        world(machine);
    }
    let date = machine.kick_date.take().expect("a request is lost: nobody comes for it");
    assert!(date <= machine.now.get() + FakeMachine::WATCH_LIMITS_TICKS[0], "a request waits for a watch");
    machine.now.set(machine.now.get().max(date));
}

fn second_request_at(place: u64, watchdog: u64, first: Option<u32>) {
    let mut core = direct(|plan| plan.health.watchdog_ticks = watchdog);
    // Who starts it again looks soon.
    core.machine.now.set(FakeMachine::WATCH_LIMITS_TICKS[0]);
    first.into_iter().for_each(|first| post(&core, first));
    core.machine.kick_date.set(None);
    core.machine.on_wait.set(Some(wait_at_el2));
    core.machine.at_access.set(Some((place, post_late)));
    kick(&mut core);
    core.settle();
    if core.machine.at_access.take().is_some() {
        PLACES_ARE_OVER.set(true);
        return;
    }
    // The guest runs until EL3 comes.
    let is_seen = |core: &Vcpu<FakeMachine>| {
        let word = PEER_MANAGE + offset_of!(ManagePage, requests) as u64;
        core.machine.words.borrow()[&word] == core.manage_seen[1]
    };
    if !is_seen(&core) {
        let date = core.machine.kick_date.take().expect("nobody comes");
        let now = core.machine.now.get();
        assert!(date <= now + FakeMachine::WATCH_LIMITS_TICKS[0], "{watchdog} {first:?} {place}: in {}", date - now);
        core.machine.now.set(now.max(date));
        kick(&mut core);
        core.settle();
    }
    assert!(is_seen(&core), "{watchdog} {first:?} {place}");
    assert_eq!(core.run, RunState::Running, "the second request is a restart");
}

/// All interleavings of a second request with what the first one causes: wherever EL2 is when it is posted and its kick is put off, the core looks at
/// it within the time after which EL3 tries again.
#[test]
fn a_request_is_never_lost_behind_a_watch() {
    let watchdogs = [0, 1_000, 700_000_000];
    let firsts = [None, Some(MANAGE_SUSPEND), Some(MANAGE_RESUME), Some(MANAGE_RESTART)];
    let mut tried = 0;
    for (watchdog, first) in watchdogs.into_iter().flat_map(|watchdog| firsts.map(|first| (watchdog, first))) {
        PLACES_ARE_OVER.set(false);
        for place in (0..).take_while(|_| !PLACES_ARE_OVER.get()) {
            second_request_at(place, watchdog, first);
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried} places");
}

/// A guest that calls all the time is never found below EL2: its calls end with the look that a kick is for.
#[test]
fn each_exit_ends_with_a_look() {
    let mut core = direct(|_| {});
    post(&core, MANAGE_RESTART);
    core.head.frame.set_register(0, CALL_HEARTBEAT);
    core.call();
    let before = status32(&core, offset_of!(StatusPage, generation));
    assert!(core.looks_at_each_exit());
    core.settle();
    assert_eq!(status32(&core, offset_of!(StatusPage, generation)), before + 1);
    assert!(!cores(partition(1))[0].looks_at_each_exit(), "a mapped guest has an interrupt for it");
}

/// What a run left in the triggers of its private interrupts is not the next one's.
#[test]
fn triggers_of_private_interrupts_are_reset() {
    let mut core = direct(|_| {});
    let place = PhysicalAddress(0x080a_0000 + 0x1_0c04);
    core.machine.store32(place, u32::MAX);
    post(&core, MANAGE_RESTART);
    kick(&mut core);
    assert_eq!(core.machine.load32(place), 0);
}

/// QV-5: the watchdog of a `direct` guest is the watch call. Each date is asked for in the look that a kick causes.
#[test]
fn the_watchdog_of_a_direct_guest_is_a_watch() {
    let mut core = direct(|plan| plan.health.watchdog_ticks = 1_000);
    core.machine.now.set(400);
    kick(&mut core);
    assert_eq!(watches(&core), [600], "since the start at 0");
    core.head.frame.set_register(0, CALL_HEARTBEAT);
    core.call();
    core.machine.now.set(1_000);
    kick(&mut core);
    assert_eq!((watches(&core), core.run), (vec![400], RunState::Running));
    core.machine.now.set(1_399);
    kick(&mut core);
    assert_eq!((watches(&core), core.run), (vec![1], RunState::Running));
    core.machine.now.set(1_400);
    kick(&mut core);
    assert_eq!((core.run, state(&core)), (RunState::Off, (STATE_STOPPED, REASON_WATCHDOG)));
}

/// A date that is new is not watched for at once, which could take the place of a kick that EL3 is about to try again, but after a kick.
#[test]
fn a_start_with_a_watchdog_asks_for_a_kick() {
    let mut core = direct(|_| {});
    assert_eq!(watches(&core), [], "nothing is due, so nobody comes");
    kick(&mut core);
    assert_eq!(watches(&core), [], "and the guest is left alone after a kick for nothing");
    let mut plan = partition(1);
    plan.mode = MODE_DIRECT;
    plan.health.watchdog_ticks = 1_000;
    core = cores(plan).remove(0);
    core.machine.payload_mpidr.set(Some(PAYLOAD));
    core.begin();
    assert_eq!(watches(&core), [0, 1_000], "the end of the start looks by itself");
}

/// A restart after a back-off needs no interrupt, and a request that comes meanwhile is served.
#[test]
fn a_back_off_ends_and_is_ended() {
    let policy = |plan: &mut PartitionPlan| {
        plan.health = HealthPlan {
            policy: POLICY_RESTART,
            max_restarts: 3,
            within_ticks: 1 << 40,
            backoff_ticks: 500,
            watchdog_ticks: 100,
        };
    };
    for is_asked in [false, true] {
        let mut core = direct(policy);
        core.machine.now.set(100);
        kick(&mut core);
        assert_eq!((core.run, state(&core).0), (RunState::BackOff, STATE_RESTARTING));
        if is_asked {
            post(&core, MANAGE_RESTART);
        } else {
            core.machine.ticks_per_spin.set(100);
        }
        core.settle();
        assert_eq!(core.run, RunState::Running);
        assert_eq!(core.machine.now.get() < 600, is_asked);
    }
}

/// Requests between monitors are kicks, but to the payload's core, whose SGI 15 is open; SGIs of guests stay what they are.
#[test]
fn requests_are_kicks() {
    let mut plan = partition(2);
    plan.vcpu_mpidr[1] = 3;
    let mut cores = cores(plan);
    let machine = cores[0].machine.clone();
    machine.payload_mpidr.set(Some(PAYLOAD));
    cores[0].begin();
    machine.take_events();
    cores[0].send_sgi_to_vcpu(1, 15);
    cores[0].send_sgi_to_vcpu(1, 3);
    assert_eq!(machine.take_events(), [Event::Kick(3), Event::SendSgi(3 << 24 | 1 << 3)]);
    machine.payload_mpidr.set(Some(3));
    cores[0].send_sgi_to_vcpu(1, 15);
    assert_eq!(machine.take_events(), [Event::SendSgi(15 << 24 | 1 << 3)]);
}

fn access(core: &mut Vcpu<FakeMachine>, (crn, crm, op2): (u64, u64, u64), write: Option<u64>) -> u64 {
    core.head.frame.set_register(5, write.unwrap_or(0x5555));
    let read = u64::from(write.is_none());
    core.synchronous(0x18 << 26 | 1 << 25 | 3 << 20 | op2 << 17 | crn << 10 | 5 << 5 | crm << 1 | read);
    core.head.frame.register(5)
}

/// QV-16: what a filtered guest sends stays in its partition, and it ends its own interrupts alone; the rest of its interface is its own.
#[test]
fn a_filtered_guest_has_its_interface_and_nobody_elses() {
    let mut core = direct(|plan| plan.flags |= FLAG_FILTERED);
    assert!(core.machine.interface_traps.get());
    access(&mut core, (4, 6, 0), Some(0x80));
    assert_eq!(access(&mut core, (4, 6, 0), None), 0x80);
    access(&mut core, (12, 12, 4), Some(2));
    assert_eq!(access(&mut core, (12, 12, 4), None), 2);
    assert_eq!(access(&mut core, (12, 11, 3), None), u64::from(EVERY_PRIORITY));
    core.machine.take_events();
    for (value, sent) in [(3 << 24 | 1, vec![Event::SendSgi(3 << 24 | 1 << 2)]), (1 << 40 | 3 << 24, vec![])] {
        access(&mut core, (12, 11, 5), Some(value));
        assert_eq!(core.machine.take_events(), sent, "{value:#x}");
    }
    // Of other cores, and the monitor's.
    for value in [3 << 24 | 0xfffe, 15 << 24 | 1, 1 << 16 | 1, u64::MAX] {
        access(&mut core, (12, 11, 5), Some(value));
        access(&mut core, (12, 11, 6), Some(value));
        access(&mut core, (12, 11, 7), Some(value));
        assert_eq!(core.machine.take_events(), [], "{value:#x}");
    }
    for (intid, is_own) in
        [(27, true), (40, true), (80, true), (39, false), (81, false), (1020, false), (1 << 24 | 40, true)]
    {
        access(&mut core, (12, 11, 1), Some(intid));
        let wanted = if is_own { vec![Event::Deactivate(intid as u32 & 0xff_ffff)] } else { vec![] };
        assert_eq!(core.machine.take_events(), wanted, "{intid}");
    }
}

/// QV-16: a guest's SGI 8 is refused and counted as 15 is, whichever kind of guest it is, and 9 where a vCPU on the payload's core is to have it.
#[test]
fn nobody_sends_what_is_el3s() {
    let of_two = |place| {
        let mut plan = partition(2);
        (plan.vcpu_mpidr[0], plan.vcpu_mpidr[1]) = (PAYLOAD, PAYLOAD + 1);
        cores_of_mpidr(plan, PAYLOAD).remove(place)
    };
    let filtered = direct(|plan| plan.flags |= FLAG_FILTERED);
    for (mut core, targets, refused, others_take_9) in [
        (cores(partition(2)).remove(0), 0b1, vec![8, 15], true),
        (filtered, 0b1, vec![8, 15], true),
        (of_two(0), 0b1, vec![8, 9, 15], false),
        (of_two(0), 0b10, vec![8, 15], true),
        (of_two(1), 0b1, vec![8, 9, 15], false),
        (of_two(1), 0b11, vec![8, 9, 15], true),
    ] {
        if core.is_lead() {
            core.begin();
        }
        core.run = RunState::Running;
        core.machine.take_events();
        for intid in 0..16 {
            let before = core.counter(Counter::SgiOutside);
            access(&mut core, (12, 11, 5), Some(intid << 24 | targets));
            let is_refused = refused.contains(&intid);
            assert_eq!(core.counter(Counter::SgiOutside) - before, u64::from(is_refused), "{intid}");
            let sent = core.machine.take_events();
            assert_eq!(
                sent.is_empty(),
                is_refused && !(intid == 9 && others_take_9),
                "{intid} to {targets:#b}: {sent:?}"
            );
        }
    }
}

/// Without the flag nothing is answered for it, nor for a `mapped` guest whose plan has it.
#[test]
fn others_are_not_filtered() {
    let mut core = direct(|_| {});
    assert!(!core.machine.interface_traps.get());
    access(&mut core, (12, 11, 1), Some(40));
    assert!(matches!(core.machine.take_events()[..], [Event::Inject(_)]));
    let mut plan = partition(1);
    plan.flags = FLAG_FILTERED;
    let mut core = running(plan);
    assert!(!core.machine.interface_traps.get());
    access(&mut core, (12, 11, 1), Some(40));
    assert!(matches!(core.machine.take_events()[..], [Event::Inject(_)]));
    assert_eq!(core.shared.heartbeats.load(Relaxed), 0);
}
