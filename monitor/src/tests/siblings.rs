//! Every order in which a partition's cores can come to the words of a vCPU that shares its core (H24, H25): who posts, starts, suspends and
//! restarts, and when its core is its.
//!
//! As in [`standing`](super::standing), on three cores: vCPU 0, which leads, and vCPU 2 have theirs to themselves; vCPU 1 is on a shared core
//! between a neighbour above, which takes the core and gives it back, and one below, which always runs.

use super::calls::{AFFINITY_INFO, CPU_OFF, CPU_ON, call};
use super::interleave::{Core as Body, Stop, World, explore, stop};
use super::posting::{alone, brothers};
use super::shared::{Core, SEND_SGI, WFI, schedule, server};
use super::*;
use crate::interrupts::MONITOR_SGI;
use crate::life::manage::request_offset;
use crate::state::vcpu_state;
use bulkhead_abi::status::{self, MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND};
use bulkhead_arch::fake::Event;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// Cores of the story: that of vCPU 0, the shared one, that of vCPU 2.
const CORES: usize = 3;
const SHARED: usize = 1;
/// Their MPIDRs.
const MPIDR: [u64; CORES] = [3, 2, 4];
/// The machine's interrupt by which siblings call.
const CALL: u32 = 1;
const SGI: u32 = 3;
const ENTRY: u64 = 0x4010_0000;
const INSTANCE_BYTES: u64 = 0x1000;

/// What a guest does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Any instruction.
    Work,
    /// CPU_ON of a vCPU.
    On(u64),
    /// CPU_OFF.
    Off,
    /// A software-generated interrupt to vCPU 1.
    Send,
    /// WFI of vCPU 1.
    Sleep,
    /// SYSTEM_RESET.
    Reset,
}
use Act::*;

#[derive(Clone, Copy)]
struct Story<'a> {
    /// vCPU 1 is on at the beginning, and vCPU 2.
    on: [bool; 2],
    acts: [&'a [Act]; CORES],
    requests: &'a [u32],
    /// How often the neighbour takes the shared core or gives it back.
    changes: usize,
    preemptions: usize,
}

const IDLE: Story<'static> = Story { on: [true, true], acts: [&[]; CORES], requests: &[], changes: 0, preemptions: 2 };

struct Partition {
    lead: RefCell<Vcpu<FakeMachine>>,
    core: RefCell<Core>,
    third: RefCell<Vcpu<FakeMachine>>,
    machines: [FakeMachine; CORES],
    pending: [Cell<bool>; CORES],
    shown: [Cell<bool>; CORES],
    ticks: [Cell<u64>; CORES],
    /// The neighbour wants the core.
    wants: Cell<bool>,
    over: Cell<bool>,
    resumes: Cell<bool>,
    instance: Cell<u64>,
    code: [Cell<u64>; CORES],
}

thread_local! {
    static STAGE: RefCell<Option<Rc<Partition>>> = const { RefCell::new(None) };
}

fn stage() -> Rc<Partition> {
    STAGE.with_borrow(|stage| stage.clone().expect("a story is told"))
}

impl Partition {
    fn new() -> Self {
        let plan = schedule(&[server(0, 1), server(1, 5), server(2, 9)], 3);
        let core = Core::with(plan, |slot, plan| {
            if slot == 1 {
                brothers(plan);
                plan.health.policy = POLICY_RESTART;
                (plan.health.max_restarts, plan.health.within_ticks) = (10, 1000);
            }
        });
        let (mut lead, third) = (alone(&core, 0, MPIDR[0]), alone(&core, 2, MPIDR[2]));
        lead.begin();
        let machines = [lead.machine.clone(), core.machine.clone(), third.machine.clone()];
        machines[0].ticks_per_spin.set(1);
        Self {
            lead: RefCell::new(lead),
            core: RefCell::new(core),
            third: RefCell::new(third),
            ticks: std::array::from_fn(|core| Cell::new(machines[core].now.get())),
            machines,
            pending: Default::default(),
            shown: Default::default(),
            wants: Cell::new(true),
            over: Cell::new(false),
            resumes: Cell::new(false),
            instance: Cell::new(1),
            code: std::array::from_fn(|_| Cell::new(1)),
        }
    }

    /// Switches on who is to be, before the story.
    fn begin(mut self, story: &Story<'_>) -> Self {
        let (lead, core, third) = (self.lead.get_mut(), self.core.get_mut(), self.third.get_mut());
        third.begin_core();
        third.begin_partition();
        for (vcpu, _) in (1..).zip(story.on).filter(|(_, on)| *on) {
            assert_eq!(call(lead, CPU_ON, [vcpu, ENTRY + INSTANCE_BYTES, 0]), 0);
            if vcpu == 1 { core.interrupt(CALL) } else { third.interrupt(MONITOR_SGI) }
        }
        // The neighbour gives the core away, so that a start is done, and takes it back.
        core.exit(WFI);
        // Its guest listens to what it is sent.
        core.vcpus[1].private.enabled.set(1 << SGI);
        core.interrupt(40);
        core.machine.list[0].set(0);
        self.machines.iter().for_each(|machine| drop(machine.take_events()));
        self
    }

    fn state(&self) -> u32 {
        let place = self.lead.try_borrow().map_or(STATUS + 0x10_0000, |lead| lead.plan.status.0);
        self.machines[0].load32(PhysicalAddress(place + offset_of!(StatusPage, state) as u64))
    }

    fn executes(&self, core: usize) {
        let stands = !matches!(self.state(), status::STATE_RUNNING | status::STATE_RESTARTING) && !self.resumes.get();
        assert!(!stands, "core {core} executes in state {}, after its partition was told to stand", self.state());
        assert_eq!(self.code[core].get(), self.instance.get(), "core {core} executes code of an instance before");
    }

    fn arguments(&self, act: Act) -> (u64, [u64; 3]) {
        match act {
            On(target) => (CPU_ON, [target, ENTRY + self.instance.get() * INSTANCE_BYTES, 0]),
            Off => (CPU_OFF, [0; 3]),
            _ => (0x8400_0009, [0; 3]),
        }
    }

    fn act(&self, me: usize, vcpu: &mut Vcpu<FakeMachine>, act: Act) {
        if matches!(act, Work) {
            stop(Stop::Access);
        }
        self.executes(me);
        match act {
            Work => {}
            Send => {
                vcpu.head.frame.set_register(0, u64::from(SGI) << 24 | 2);
                vcpu.other_exception(SEND_SGI);
            }
            Sleep => vcpu.other_exception(WFI),
            _ => {
                let (function, arguments) = self.arguments(act);
                call(vcpu, function, arguments);
            }
        }
    }

    /// A core that a vCPU has to itself.
    fn live_alone(&self, me: usize, acts: &[Act]) {
        let vcpu = &mut *if me == 0 { &self.lead } else { &self.third }.borrow_mut();
        let mut rest = acts.iter();
        loop {
            let goes_on = vcpu.run == RunState::BackOff || vcpu.run == RunState::Running && rest.len() != 0;
            stop(Stop::Poll(goes_on));
            if self.over.get() {
                return;
            }
            if self.pending[me].get() && self.shown[me].get() {
                self.pending[me].set(false);
                let posted = self.machines[0].load64(PhysicalAddress(PEER_MANAGE + request_offset(1))) as u32 & 0xff;
                self.resumes.set(self.resumes.get() || me == 0 && posted == MANAGE_RESUME);
                vcpu.interrupt(MONITOR_SGI);
                self.resumes.set(self.resumes.get() && me != 0);
            } else if vcpu.run == RunState::BackOff {
                vcpu.end_back_off();
            } else if vcpu.run == RunState::Running
                && let Some(act) = rest.next()
            {
                self.act(me, vcpu, *act);
            }
        }
    }

    /// The shared core.
    fn live_shared(&self, acts: &[Act]) {
        let core = &mut *self.core.borrow_mut();
        let mut rest = acts.iter();
        loop {
            stop(Stop::Poll(core.loaded == 1 && rest.len() != 0 || self.wants.get() != (core.loaded == 0)));
            if self.over.get() {
                return;
            }
            if self.pending[SHARED].get() && self.shown[SHARED].get() {
                self.pending[SHARED].set(false);
                core.interrupt(CALL);
            } else if self.wants.get() && core.loaded != 0 {
                core.interrupt(40);
                core.machine.list[0].set(0);
            } else if !self.wants.get() && core.loaded == 0 {
                core.exit(WFI);
            } else if core.loaded == 1
                && let Some(act) = rest.next()
            {
                self.act(SHARED, core.own(), *act);
                core.go_on();
            }
        }
    }

    fn manage(&self, requests: &[u32]) {
        for request in requests {
            stop(Stop::Access);
            let place = PhysicalAddress(PEER_MANAGE + request_offset(1));
            let word = status::next_request(self.machines[0].load64(place), *request);
            self.machines[0].store64(place, word);
            self.pending[0].set(true);
        }
    }

    fn be_neighbour(&self, changes: usize) {
        for _ in 0..changes {
            stop(Stop::Access);
            self.wants.set(!self.wants.get());
        }
    }
}

impl World for Partition {
    fn has_interrupt(&self, index: usize) -> bool {
        self.pending.get(index).is_some_and(Cell::get)
    }
    fn show_interrupt(&self, index: usize, shown: bool) {
        if let Some(place) = self.shown.get(index) {
            place.set(shown);
        }
    }
    fn stopped(&self, index: usize) -> bool {
        let Some(machine) = self.machines.get(index) else { return false };
        for event in machine.take_events() {
            match event {
                Event::SendSgi(value) => {
                    let core = MPIDR.iter().position(|mpidr| value & 1 << mpidr != 0).expect("a core of the story");
                    let intid = if core == SHARED { CALL } else { MONITOR_SGI };
                    assert_eq!(value >> 24 & 15, u64::from(intid), "to core {core}");
                    self.pending[core].set(true);
                }
                Event::Scrub(..) if index == 0 => self.instance.set(self.instance.get() + 1),
                Event::ResetGuest(entry) if entry >= ENTRY => self.code[index].set((entry - ENTRY) / INSTANCE_BYTES),
                Event::ResetGuest(_) if index == 0 => self.code[0].set(self.instance.get()),
                _ => {}
            }
        }
        if index == SHARED {
            return false;
        }
        let frame = if index == 0 { 0x080c_0000 } else { 0x0810_0000 };
        let cleared = PhysicalAddress(frame + 0x1_0280);
        if machine.load32(cleared) & 1 << MONITOR_SGI != 0 {
            machine.store32(cleared, 0);
            self.pending[index].set(false);
        }
        machine.now.get() != self.ticks[index].replace(machine.now.get())
    }
    fn let_time_pass(&self) {
        self.machines[0].now.set(self.machines[0].now.get() + (1 << 31));
    }
    fn quit(&self) {
        self.over.set(true);
    }
}

/// What has become of them: the lead, the shared core, and the state of the partition.
struct End {
    lead: Vcpu<FakeMachine>,
    core: Core,
    state: u32,
}

impl End {
    /// The neighbours sleep: whether vCPU 1 executes then, which must be what the others are told of it.
    fn executes(&mut self) -> bool {
        if self.core.loaded == 0 {
            self.core.exit(WFI);
        }
        let words = self.core.vcpus[1].own_vcpu().state.load(Relaxed);
        let asleep = self.core.scheduler().slots[1].is_asleep();
        let runs = self.core.loaded == 1;
        if self.state != status::STATE_RUNNING {
            assert!(!runs, "vCPU 1 runs in state {}", self.state);
        } else {
            assert_eq!(words & !vcpu_state::ON, 0, "nothing is under way");
            assert_eq!(runs || asleep, words == vcpu_state::ON, "it runs: {runs}, it sleeps: {asleep}, {words:#x}");
            let said = call(&mut self.lead, AFFINITY_INFO, [1, 0, 0]);
            assert_eq!(said, u64::from(words != vcpu_state::ON));
        }
        runs
    }

    /// The guest of vCPU 1, which executes, has what was sent, or will have it when it enables it.
    fn has_post(&mut self) -> bool {
        assert!(self.executes(), "it was sent something, and sleeps");
        self.core.own().waiting_of(0, 1 << SGI) != 0 || self.core.listed().contains(&SGI)
    }
}

fn tell(story: &Story<'_>, end: impl Fn(&mut End)) -> usize {
    let orders = explore::<Partition>(story.preemptions, |run| {
        let world = Rc::new(Partition::new().begin(story));
        STAGE.set(Some(world.clone()));
        let [first, shared, third] = story.acts.map(<[Act]>::to_vec);
        let (requests, changes) = (story.requests.to_vec(), story.changes);
        let bodies = vec![
            Body::new(move || stage().live_alone(0, &first)),
            Body::new(move || stage().live_shared(&shared)),
            Body::new(move || stage().live_alone(2, &third)),
            Body::new(move || stage().manage(&requests)),
            Body::new(move || stage().be_neighbour(changes)),
        ];
        run(&world, bodies);
        STAGE.set(None);
        let Partition { lead, core, .. } = Rc::into_inner(world).expect("the story is over");
        let (lead, core) = (lead.into_inner(), core.into_inner());
        let state = lead.state();
        let reason = lead.machine.load32(lead.status_place(offset_of!(StatusPage, reason)));
        assert_ne!(reason, status::REASON_CORE_STUCK, "a core did not hear that it was to stand");
        end(&mut End { lead, core, state });
    });
    println!("{orders} orders");
    assert!(orders > 20, "only {orders} orders");
    orders
}

/// A post finds it away, loaded, asleep or about to sleep.
#[test]
fn no_post_is_lost() {
    let acts = [&[Send][..], &[Work, Sleep], &[Send]];
    tell(&Story { acts, changes: 2, preemptions: 1, ..IDLE }, |end| assert!(end.has_post()));
}

/// It is suspended and resumed while it is away, loaded or asleep, and posted meanwhile.
#[test]
fn suspended_and_resumed() {
    let acts = [&[][..], &[Sleep], &[Send]];
    let requests = &[MANAGE_SUSPEND, MANAGE_RESUME];
    tell(&Story { acts, requests, changes: 1, preemptions: 1, ..IDLE }, |end| {
        assert_eq!(end.state, status::STATE_RUNNING);
        assert!(end.has_post());
    });
    let acts = [&[][..], &[Work], &[Work]];
    tell(&Story { acts, requests: &[MANAGE_SUSPEND], changes: 1, preemptions: 1, ..IDLE }, |end| {
        assert_eq!(end.state, status::STATE_SUSPENDED);
        end.executes();
    });
}

/// A start that was accepted is not lost, whether the partition is suspended and resumed or not.
#[test]
fn started_and_suspended() {
    let acts = [&[][..], &[Work], &[On(1), Send]];
    for requests in [&[][..], &[MANAGE_SUSPEND, MANAGE_RESUME]] {
        tell(&Story { on: [false, true], acts, requests, changes: 1, preemptions: 1 }, |end| {
            assert!(end.executes());
        });
    }
}

/// It switches itself off and is switched on again.
#[test]
fn switched_off_and_on() {
    let acts = [&[][..], &[Off, Work], &[On(1), Work, On(1)]];
    tell(&Story { acts, changes: 3, preemptions: 1, ..IDLE }, |end| {
        end.executes();
    });
}

/// H25: a restart by a manager or by a sibling while it is away, loaded, asleep or being started: nothing of the instance before executes.
#[test]
fn restarted() {
    for (on, acts) in [
        ([true, true], [&[][..], &[Sleep], &[Send]]),
        ([false, true], [&[][..], &[Work], &[On(1)]]),
        ([false, false], [&[On(1), Work][..], &[Work], &[]]),
    ] {
        tell(&Story { on, acts, requests: &[MANAGE_RESTART], changes: 1, preemptions: 1 }, |end| {
            assert_eq!(end.state, status::STATE_RUNNING);
            end.executes();
        });
    }
    let acts = [&[Reset][..], &[Work], &[Work]];
    tell(&Story { acts, changes: 1, preemptions: 1, ..IDLE }, |end| {
        assert_eq!(end.state, status::STATE_RUNNING);
        assert!(!end.executes(), "it is off");
    });
}
