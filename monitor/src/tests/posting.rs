//! What siblings tell a vCPU that shares its core, from cores of their own.

use super::calls::{CPU_OFF, CPU_ON, call};
use super::shared::{Core, SEND_SGI, STOLEN_TIME, WFI, schedule, server};
use super::*;
use crate::life::powers::Stop;
use crate::state::vcpu_state;
use bulkhead_abi::status;
use bulkhead_arch::fake::Event;
use std::sync::atomic::Ordering::Relaxed;

/// The machine's interrupt by which siblings call partition 1, and where it goes.
const CALL: u32 = 1;
const SHARED_CORE: u64 = 2;
const SGI: u32 = 3;
const ENTRY: u64 = 0x4010_0000;
/// The device interrupt of partition 1.
const DEVICE: u32 = 50;

/// Partition 1 has vCPU 0, which leads, on a core of its own, and vCPU 1 in slot 1 of a shared core, below slot 0.
struct Pair {
    core: Core,
    lead: Vcpu<FakeMachine>,
}

/// A plan of vCPU `vcpu` of partition 1 on core `mpidr`, which it has to itself.
pub(super) fn alone(core: &Core, vcpu: u32, mpidr: u64) -> Vcpu<FakeMachine> {
    let mut plan = VcpuPlan::new_zeroed();
    (plan.core, plan.vcpu, plan.partition, plan.mode, plan.mpidr) = (mpidr as u32, vcpu, 1, MODE_MAPPED, mpidr);
    (plan.status, plan.counters) = (core.vcpus[1].plan.status, PhysicalAddress(COUNTERS + 0x80_0000));
    (plan.gicd, plan.gicr) = (PhysicalAddress(GICD), PhysicalAddress(0x080c_0000 + 0x2_0000 * u64::from(vcpu)));
    let plan: &'static VcpuPlan = Box::leak(Box::new(plan));
    let machine = super::machine(plan.gicr);
    machine.crc.set(Some(0));
    Vcpu::new(machine, 0, plan, core.vcpus[1].partition, core.vcpus[1].shared)
}

/// Makes a partition one with the cores 3, 2, 4, of which the second is shared.
pub(super) fn brothers(plan: &mut PartitionPlan) {
    (plan.vcpu_count, plan.shared_vcpus) = (3, 0b10);
    plan.windows[0].bytes = 0x6_0000;
    plan.manage[3] = PhysicalAddress(PEER_MANAGE);
    plan.vcpu_mpidr = [3, SHARED_CORE, 4, 0, 0, 0, 0, 0];
}

impl Pair {
    /// vCPU 1 is off, and the neighbour runs.
    fn off() -> Self {
        let core = Core::with(schedule(&[server(0, 1), server(1, 5)], 2), |slot, plan| {
            if slot == 1 {
                brothers(plan);
            }
        });
        let mut lead = alone(&core, 0, 3);
        lead.begin();
        lead.machine.take_events();
        Self { core, lead }
    }

    /// vCPU 1 is on and loaded, its guest listens to [`SGI`], and the neighbour sleeps.
    fn on() -> Self {
        let mut pair = Self::off();
        assert_eq!(call(&mut pair.lead, CPU_ON, [1, ENTRY, 7]), 0);
        assert_eq!(pair.hear(), 1);
        pair.core.exit(WFI);
        assert_eq!((pair.core.loaded, pair.core.own().head.frame.x[0]), (1, 7));
        pair.listen();
        pair
    }

    /// How often the lead has called the shared core, and nobody else.
    fn calls(&self) -> usize {
        let sent = |event: &Event| match event {
            Event::SendSgi(value) => Some((value >> 24 & 15, value & 0xffff)),
            _ => None,
        };
        let sent: Vec<_> = self.lead.machine.take_events().iter().filter_map(sent).collect();
        assert!(sent.iter().all(|call| *call == (u64::from(CALL), 1 << SHARED_CORE)), "{sent:?}");
        sent.len()
    }

    /// The shared core takes what the lead has sent, one interrupt however often; returns how often.
    fn hear(&mut self) -> usize {
        let calls = self.calls();
        // The partition's status page is in the memory of both fake machines.
        let generation = self.lead.status_place(offset_of!(StatusPage, generation));
        self.core.machine.store32(generation, self.lead.machine.load32(generation));
        if calls != 0 {
            self.core.interrupt(CALL);
        }
        calls
    }

    /// The guest of vCPU 1 enables [`SGI`]; its redistributor is the second one.
    fn listen(&mut self) {
        self.core.write_private(0x2_0000 + bulkhead_arm::gic::ISENABLER, 1 << SGI);
    }

    fn send(&mut self) {
        self.lead.head.frame.set_register(0, u64::from(SGI) << 24 | 2);
        self.lead.other_exception(SEND_SGI);
    }

    /// The neighbour takes the core until it sleeps.
    fn take_core(&mut self) {
        self.core.interrupt(40);
        assert_eq!(self.core.loaded, 0);
        self.core.machine.list[0].set(0);
    }

    fn state(&self) -> u32 {
        self.core.vcpus[1].own_vcpu().state.load(Relaxed)
    }

    /// The partition is told to stand, and stands: the shared core hears of it while the lead waits.
    fn stand(&mut self) {
        let words = self.core.vcpus[1].own_vcpu();
        words.state.fetch_or(vcpu_state::STAND, Relaxed);
        self.core.interrupt(CALL);
        self.lead.machine.take_events();
        assert!(self.lead.stand(Stop::OF_TEST), "it did not have to wait");
        assert_eq!(self.calls(), 0, "who stands is not told again");
    }
}

/// H24: a storm to a vCPU that is away enters its core once, and all of it is there when it is loaded.
#[test]
fn a_storm_in_an_absence_enters_once() {
    let mut pair = Pair::on();
    pair.take_core();
    (0..100_000).for_each(|_| pair.send());
    assert_eq!(pair.hear(), 1);
    (0..1000).for_each(|_| pair.send());
    assert_eq!((pair.core.loaded, pair.hear()), (0, 0), "it waits, and no further post wakes its core");
    pair.core.exit(WFI);
    assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![SGI]));
    pair.send();
    assert_eq!(pair.hear(), 1, "the next absence, or none");
    assert_eq!(pair.core.listed(), vec![SGI]);
}

/// A sleeper wakes for a post, whether it is loaded or not; nobody else's list registers see it.
#[test]
fn a_posted_sleeper_wakes() {
    let mut pair = Pair::on();
    // The interrupt comes while the core idles.
    pair.send();
    assert_eq!(pair.calls(), 1);
    pair.core.machine.pending.borrow_mut().push_back(CALL);
    pair.core.exit(WFI);
    assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![SGI]));
    assert!(!pair.core.scheduler().slots[1].is_asleep());
    pair.core.machine.list[0].set(0);
    pair.core.machine.pending.borrow_mut().push_back(40);
    pair.core.exit(WFI);
    assert_eq!((pair.core.loaded, pair.core.listed()), (0, vec![40]));
    pair.send();
    assert_eq!((pair.hear(), pair.core.listed()), (1, vec![40]));
    assert!(pair.core.scheduler().slots[1].is_ready());
    pair.core.machine.list[0].set(0);
    pair.core.exit(WFI);
    assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![SGI]));
}

/// CPU_ON is done in the vCPU's own time; storms of CPU_ON and CPU_OFF enter its core once for each start. What is posted before the start
/// is done is there after it, and what was posted for an earlier run is not.
#[test]
fn a_start_waits_for_its_turn() {
    let mut pair = Pair::on();
    pair.core.own().head.frame.set_register(0, CPU_OFF);
    pair.core.machine.pending.borrow_mut().push_back(40);
    call(pair.core.own(), CPU_OFF, [0; 3]);
    pair.core.go_on();
    assert_eq!((pair.core.loaded, pair.state()), (0, vcpu_state::OFF));
    pair.core.machine.list[0].set(0);
    pair.core.machine.take_events();
    pair.send();
    assert_eq!(pair.hear(), 1);
    let answers: Vec<u64> = (0..1000).map(|_| call(&mut pair.lead, CPU_ON, [1, ENTRY, 9])).collect();
    assert_eq!(pair.lead.unless_heard(1), 1, "until its core has heard, a report calls once more");
    assert_eq!((answers[0], pair.hear()), (0, 1), "one of them");
    assert!(answers[1..].iter().all(|answer| *answer as i64 == -5), "ON_PENDING");
    assert_eq!((pair.core.loaded, pair.state()), (0, vcpu_state::ON_PENDING), "the neighbour runs on");
    assert_eq!(pair.lead.unless_heard(1), u32::MAX, "reports of others call it no more");
    pair.core.machine.pending.borrow_mut().push_back(40);
    pair.core.exit(WFI);
    assert_eq!((pair.core.loaded, pair.state()), (1, vcpu_state::ON));
    pair.listen();
    assert_eq!((pair.core.own().head.frame.x[0], pair.core.listed()), (9, vec![]), "an earlier run's");
}

/// As above, posted between CPU_ON and the start.
#[test]
fn a_post_waits_for_a_start() {
    let mut pair = Pair::off();
    assert_eq!(call(&mut pair.lead, CPU_ON, [1, ENTRY, 0]), 0);
    pair.send();
    assert_eq!(pair.hear(), 1, "both with one");
    assert_eq!(pair.core.loaded, 0);
    pair.core.exit(WFI);
    pair.listen();
    assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![SGI]));
}

/// A core that was set up after CPU_ON is told again when it says so.
#[test]
fn a_core_that_was_late_is_told_again() {
    let mut pair = Pair::off();
    assert_eq!(call(&mut pair.lead, CPU_ON, [1, ENTRY, 0]), 0);
    assert_eq!(pair.calls(), 1);
    pair.lead.interrupt(15);
    assert_eq!(pair.hear(), 1, "the first one was lost");
    pair.lead.interrupt(15);
    assert_eq!(pair.calls(), 0);
}

/// H25: parking never waits for a turn: neither of one that was pre-empted, nor of a sleeper, nor of one that is loaded; and nothing wakes
/// it then. Resumed, it has what came meanwhile.
#[test]
fn a_vcpu_is_parked_without_a_turn() {
    for case in ["pre-empted", "asleep", "loaded", "idle"] {
        println!("{case}");
        let mut pair = Pair::on();
        match case {
            "pre-empted" => pair.take_core(),
            "asleep" => {
                pair.core.machine.pending.borrow_mut().push_back(40);
                pair.core.exit(WFI);
                pair.core.machine.list[0].set(0);
            }
            _ => {}
        }
        if matches!(case, "loaded" | "idle") {
            pair.core.machine.pending.borrow_mut().push_back(40);
        }
        if case == "idle" {
            pair.core.machine.pending.borrow_mut().push_front(CALL);
            pair.core.vcpus[1].own_vcpu().state.fetch_or(vcpu_state::STAND, Relaxed);
            pair.core.exit(WFI);
        }
        pair.stand();
        assert_eq!(pair.state(), vcpu_state::ON | vcpu_state::STAND | vcpu_state::PARKED);
        assert_eq!(pair.core.loaded, 0);
        assert!(!pair.core.scheduler().slots[1].is_ready());
        // An interrupt of it, a post of a sibling that does not stand yet, and the date of its timer.
        let wakes = pair.core.scheduler().slots[1].usage.wakes;
        pair.core.interrupt(DEVICE);
        pair.send();
        assert_eq!(pair.hear(), 1);
        pair.core.machine.list[0].set(0);
        pair.core.machine.pending.borrow_mut().push_back(40);
        pair.core.exit(WFI);
        assert_eq!(pair.core.loaded, 0, "nobody else can run, and it may not");
        assert_eq!(pair.core.scheduler().slots[1].usage.wakes, wakes);
        pair.core.machine.list[0].set(0);
        pair.lead.let_go();
        let events = pair.lead.machine.take_events();
        assert!(events.contains(&Event::SendSgi(u64::from(CALL) << 24 | 1 << SHARED_CORE)), "{events:?}");
        pair.core.interrupt(CALL);
        assert_eq!(pair.core.loaded, 0, "its turn comes");
        pair.core.exit(WFI);
        assert_eq!((pair.core.loaded, pair.core.own().run, pair.state()), (1, RunState::Running, vcpu_state::ON));
        let mut listed = pair.core.listed();
        listed.sort_unstable();
        assert_eq!(listed, [SGI, DEVICE]);
    }
}

/// H25: a restart while its vCPU is away leaves nothing of the run before, and it does not execute one instruction until it is started; one
/// whose start was pending is not started.
#[test]
fn a_restart_ends_the_run_of_one_that_is_away() {
    for case in ["pre-empted", "being started", "resumed"] {
        println!("{case}");
        let mut pair = if case == "being started" { Pair::off() } else { Pair::on() };
        match case {
            "being started" => assert_eq!((call(&mut pair.lead, CPU_ON, [1, ENTRY, 0]), pair.hear()), (0, 1)),
            _ => pair.take_core(),
        }
        pair.send();
        pair.core.interrupt(DEVICE);
        pair.hear();
        pair.stand();
        if case == "resumed" {
            pair.lead.let_go();
            pair.lead.machine.take_events();
            pair.core.interrupt(CALL);
            pair.stand();
        }
        let place = PhysicalAddress(PEER_MANAGE + crate::life::manage::request_offset(1));
        let word = status::next_request(pair.lead.machine.load64(place), status::MANAGE_RESTART);
        pair.lead.machine.store64(place, word);
        pair.lead.interrupt(15);
        assert_eq!(pair.lead.state(), status::STATE_RUNNING);
        pair.lead.machine.take_events();
        // Its turn comes, and there is nothing for it to do.
        pair.core.machine.pending.borrow_mut().push_back(40);
        pair.core.exit(WFI);
        assert_eq!((pair.core.loaded, pair.state()), (0, vcpu_state::OFF), "{case}");
        pair.core.machine.list[0].set(0);
        pair.core.machine.store64(PhysicalAddress(STOLEN_TIME + 0x1008), 77);
        assert_eq!((call(&mut pair.lead, CPU_ON, [1, ENTRY, 5]), pair.hear()), (0, 1));
        pair.core.exit(WFI);
        assert_eq!((pair.core.loaded, pair.core.own().run), (1, RunState::Running));
        pair.listen();
        assert_eq!(pair.core.listed(), [], "of the instance before");
        assert!(pair.core.machine.load64(PhysicalAddress(STOLEN_TIME + 0x1008)) != 77);
    }
}

/// An interrupt that the guest routed to a vCPU and that came while it was off comes when it is on again.
#[test]
fn an_interrupt_of_one_that_is_off_comes_at_its_start() {
    let mut pair = Pair::on();
    pair.core.machine.pending.borrow_mut().push_back(40);
    call(pair.core.own(), CPU_OFF, [0; 3]);
    pair.core.go_on();
    pair.core.machine.list[0].set(0);
    pair.core.interrupt(DEVICE);
    assert!(!pair.core.scheduler().slots[1].is_ready(), "it is off");
    assert_eq!((call(&mut pair.lead, CPU_ON, [1, ENTRY, 0]), pair.hear()), (0, 1));
    pair.core.machine.take_events();
    pair.core.exit(WFI);
    let pending = PhysicalAddress(GICD + 0x200 + 4);
    assert_eq!(pair.core.machine.load32(pending), 1 << (DEVICE - 32), "back in the distributor");
    assert!(pair.core.machine.take_events().contains(&Event::Deactivate(DEVICE)));
}

/// H24: an interrupt that waits at EL2 for a vCPU that is away is active, and so comes once. A sibling cannot change that: not one bit of its
/// clearing reaches the controller, which would let it come again at once.
#[test]
fn a_sibling_cannot_let_an_interrupt_come_again() {
    let mut pair = Pair::on();
    pair.take_core();
    pair.core.interrupt(DEVICE);
    assert_eq!(pair.lead.forget_cleared(bulkhead_arm::gic::ICACTIVER + 4, u32::MAX), 0);
    assert_eq!(pair.lead.forget_cleared(bulkhead_arm::gic::ICPENDR + 4, u32::MAX), u32::MAX, "pending is the guest's");
    assert!(pair.core.machine.active.borrow().contains(&DEVICE));
    pair.core.exit(WFI);
    assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![DEVICE]));
    // Its own core ends it, whether the guest handles it or takes it back.
    let bit = 1 << (DEVICE - 32);
    pair.core.machine.list[0].set(pair.core.machine.list[0].get() ^ 3 << 62);
    assert_eq!(pair.core.own().forget_cleared(bulkhead_arm::gic::ICACTIVER + 4, bit), 0);
    assert!(!pair.core.machine.active.borrow().contains(&DEVICE));
}

/// H24: siblings call a vCPU that is loaded as fast as it answers, by an interrupt that is as urgent as any. With each of these
/// calls another one's interrupt is taken, too.
#[test]
fn others_come_before_the_next_call() {
    let mut pair = Pair::on();
    pair.send();
    assert_eq!(pair.calls(), 1);
    pair.core.machine.take_events();
    pair.core.machine.pending.borrow_mut().push_back(40);
    pair.core.interrupt(CALL);
    assert_eq!((pair.core.loaded, pair.core.listed()), (0, vec![40]), "the neighbour has waited for one call");
    let events = pair.core.machine.take_events();
    let order = [Event::PriorityDrop(CALL), Event::PriorityDrop(40), Event::Deactivate(CALL)];
    let found: Vec<_> = events.into_iter().filter(|event| order.contains(event)).collect();
    assert_eq!(found, order, "before that it cannot come again");
}

/// The same before the first start of an instance; what an instance before was to have is not for this one.
#[test]
fn an_interrupt_comes_at_the_first_start_of_an_instance() {
    for is_stale in [false, true] {
        let mut pair = Pair::off();
        pair.core.interrupt(DEVICE);
        if is_stale {
            // What the lead's core does for all interrupts of the partition when it stops.
            pair.core.machine.store32(PhysicalAddress(GICD + bulkhead_arm::gic::ICACTIVER + 4), 1 << (DEVICE - 32));
        }
        assert_eq!((call(&mut pair.lead, CPU_ON, [1, ENTRY, 0]), pair.hear()), (0, 1));
        pair.core.machine.take_events();
        pair.core.exit(WFI);
        assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![]));
        let pending = pair.core.machine.load32(PhysicalAddress(GICD + 0x200 + 4));
        assert_eq!(pending, if is_stale { 0 } else { 1 << (DEVICE - 32) }, "{is_stale}");
        assert_eq!(pair.core.machine.take_events().contains(&Event::Deactivate(DEVICE)), !is_stale);
    }
}

/// What is posted for one that stands is not taken before it continues, also where it is loaded: a new instance may begin at any moment, and
/// then it is for that one.
#[test]
fn who_stands_takes_nothing() {
    let mut pair = Pair::on();
    // The core has nobody else to load.
    pair.core.machine.pending.borrow_mut().extend([CALL, 40]);
    pair.core.vcpus[1].own_vcpu().state.fetch_or(vcpu_state::STAND, Relaxed);
    pair.core.vcpus[1].own_vcpu().posted.fetch_or(1 << SGI, Relaxed);
    let listed = |core: &Core| core.vcpus[1].core.scheduler.is_some() && core.listed().contains(&SGI);
    pair.core.own().interrupt(CALL);
    assert_eq!((pair.state(), listed(&pair.core)), (vcpu_state::ON | vcpu_state::STAND | vcpu_state::PARKED, false));
    assert_eq!(pair.core.vcpus[1].own_vcpu().posted.load(Relaxed), 1 << SGI);
    pair.lead.let_go();
    pair.lead.machine.take_events();
    pair.core.machine.pending.borrow_mut().clear();
    pair.core.interrupt(CALL);
    pair.core.machine.list.iter().filter(|list| list.get() as u32 == 40).for_each(|list| list.set(0));
    if pair.core.loaded == 0 {
        pair.core.exit(WFI);
    }
    assert_eq!((pair.core.loaded, pair.core.listed()), (1, vec![SGI]));
}

/// Stock Linux asks its first vCPU whether there is stolen time, and wants a structure for each vCPU (DEN 0057A, 3.2.2): one with a core of its
/// own has zeroes.
#[test]
fn every_sibling_is_told_of_stolen_time() {
    let mut pair = Pair::off();
    let mut ask = |function: u64, argument: u64| {
        pair.lead.head.frame.set_register(0, function);
        pair.lead.head.frame.set_register(1, argument);
        pair.lead.call();
        pair.lead.head.frame.x[0]
    };
    assert_eq!([ask(0x8000_0001, 0xc500_0020), ask(0xc500_0020, 0xc500_0021)], [0, 0]);
    assert_eq!(ask(0xc500_0021, 0), 0x1000_9040, "behind that of vCPU 1, which begins at 0x1000_9000");
}

/// H24: who gives the core away to a vCPU does not pay for what its siblings have sent it.
#[test]
fn posts_are_paid_by_whom_they_are_for() {
    let paid = |posts: u32| {
        let mut pair = Pair::on();
        pair.core.write_private(0x2_0000 + bulkhead_arm::gic::ISENABLER, 0x7fff);
        pair.take_core();
        for intid in 0..posts {
            pair.lead.head.frame.set_register(0, u64::from(intid) << 24 | 2);
            pair.lead.other_exception(SEND_SGI);
        }
        pair.hear();
        let before = pair.core.charged();
        pair.core.machine.ticks_per_reading.set(7);
        pair.core.exit(WFI);
        assert_eq!(pair.core.loaded, 1);
        pair.core.machine.ticks_per_reading.set(0);
        let all = pair.core.own().waiting_of(0, 0x7fff).count_ones() as usize + pair.core.listed().len();
        assert_eq!(all, posts as usize);
        pair.core.interrupt(40);
        pair.core.charged() - before
    };
    assert_eq!([1, 15].map(paid)[0], paid(15));
}
