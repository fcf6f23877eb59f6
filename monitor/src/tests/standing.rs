//! A partition that was told to stand stands: every order of what its vCPUs do meanwhile (QV-9, QV-74, SG-60, SG-62).
//!
//! Three cores run the monitor's own code; a manager beside them posts requests. At each instruction of a guest the world
//! checks that the partition was not told to stand, and that the instruction is not one of an instance before.

use super::calls::{AFFINITY_INFO, CPU_OFF, CPU_ON, SYSTEM_OFF, call};
use super::interleave::{Core, Stop, World, explore, stop};
use super::*;
use crate::interrupts::MONITOR_SGI;
use bulkhead_abi::status::{self, MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND};
use bulkhead_arch::fake::Event;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

const SYSTEM_RESET: u64 = 0x8400_0009;
const VCPUS: usize = 3;
const PREEMPTIONS: usize = 2;
/// Where CPU_ON of the first instance enters; each instance has a page of its own.
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
    /// SYSTEM_OFF.
    SystemOff,
    /// SYSTEM_RESET.
    Reset,
    /// A fault.
    Fault,
}
use Act::*;

/// Who is on at the beginning, what the vCPUs do, and what a manager asks for.
#[derive(Clone, Copy)]
struct Story<'a> {
    on: &'a [usize],
    acts: [&'a [Act]; VCPUS],
    requests: &'a [u32],
    policy: u32,
    /// The core of this vCPU is set up while the others live already; it loses the interrupts that it was sent before.
    late: Option<usize>,
    /// Tried in every order with at most this number of them.
    preemptions: usize,
}

const IDLE: Story<'static> =
    Story { on: &[], acts: [&[]; VCPUS], requests: &[], policy: POLICY_STOP, late: None, preemptions: PREEMPTIONS };

/// The world of a story: three cores of a partition, and a manager.
struct Partition {
    vcpus: Vec<RefCell<Vcpu<FakeMachine>>>,
    machines: Vec<FakeMachine>,
    pending: [Cell<bool>; VCPUS],
    shown: [Cell<bool>; VCPUS],
    ticks: [Cell<u64>; VCPUS],
    /// GICR_ICPENDR0 of each core.
    clear_pending: Vec<u64>,
    over: Cell<bool>,
    /// The lead lets the others run again.
    resumes: Cell<bool>,
    /// Instances made: scrubs of the memory.
    instance: Cell<u64>,
    /// The instance whose code a core runs.
    code: [Cell<u64>; VCPUS],
}

thread_local! {
    /// The world of the story that is told on this thread.
    static STAGE: RefCell<Option<Rc<Partition>>> = const { RefCell::new(None) };
}

fn stage() -> Rc<Partition> {
    STAGE.with_borrow(|stage| stage.clone().expect("a story is told"))
}

impl Partition {
    fn new(vcpus: Vec<Vcpu<FakeMachine>>) -> Self {
        Self {
            clear_pending: vcpus.iter().map(|vcpu| vcpu.plan.gicr.0 + 0x1_0280).collect(),
            machines: vcpus.iter().map(|vcpu| vcpu.machine.clone()).collect(),
            vcpus: vcpus.into_iter().map(RefCell::new).collect(),
            pending: Default::default(),
            shown: Default::default(),
            ticks: Default::default(),
            over: Cell::new(false),
            resumes: Cell::new(false),
            instance: Cell::new(1),
            code: std::array::from_fn(|_| Cell::new(1)),
        }
    }

    fn into_vcpus(self) -> Vec<Vcpu<FakeMachine>> {
        self.vcpus.into_iter().map(RefCell::into_inner).collect()
    }

    fn state(&self) -> u32 {
        self.machines[0].load32(PhysicalAddress(STATUS + offset_of!(StatusPage, state) as u64))
    }

    /// A guest executes an instruction now.
    fn executes(&self, core: usize) {
        // "Restarting" is published before the others are told; what matters there is the scrub, a new instance.
        let stands = !matches!(self.state(), status::STATE_RUNNING | status::STATE_RESTARTING) && !self.resumes.get();
        assert!(!stands, "vCPU {core} executes in state {}, after its partition was told to stand", self.state());
        assert_eq!(self.code[core].get(), self.instance.get(), "vCPU {core} executes code of an instance before");
    }

    fn live(&self, me: usize, acts: &[Act], is_late: bool) {
        let vcpu = &mut *self.vcpus[me].borrow_mut();
        if is_late {
            stop(Stop::Access);
            vcpu.begin_core();
            stop(Stop::Access);
            vcpu.begin_partition();
        }
        let mut rest = acts.iter();
        loop {
            // A back-off may end before or after an interrupt that is pending.
            let goes_on = vcpu.run == RunState::BackOff || vcpu.run == RunState::Running && rest.len() != 0;
            stop(Stop::Poll(goes_on));
            if self.over.get() {
                return;
            }
            if self.pending[me].get() && self.shown[me].get() {
                self.pending[me].set(false);
                let posted = vcpu.machine.load64(PhysicalAddress(PEER_MANAGE)) as u32 & 0xff;
                self.resumes.set(self.resumes.get() || me == 0 && posted == MANAGE_RESUME);
                vcpu.interrupt(MONITOR_SGI);
                self.resumes.set(self.resumes.get() && me != 0);
            } else if vcpu.run == RunState::BackOff {
                vcpu.end_back_off();
            } else if vcpu.run == RunState::Running
                && let Some(act) = rest.next()
            {
                self.act(vcpu, *act);
            }
        }
    }

    fn act(&self, vcpu: &mut Vcpu<FakeMachine>, act: Act) {
        let entry = ENTRY + self.instance.get() * INSTANCE_BYTES;
        // What one that does not stand yet does a moment later, too.
        if matches!(act, Work) {
            stop(Stop::Access);
        }
        self.executes(vcpu.plan.vcpu as usize);
        match act {
            Work => {}
            On(target) => {
                call(vcpu, CPU_ON, [target, entry, 0]);
            }
            Off => {
                call(vcpu, CPU_OFF, [0; 3]);
            }
            SystemOff => {
                call(vcpu, SYSTEM_OFF, [0; 3]);
            }
            Reset => {
                call(vcpu, SYSTEM_RESET, [0; 3]);
            }
            Fault => vcpu.fault(crate::life::health::Fault::new(status::REASON_SERROR, 0)),
        }
        // The vectors load all registers for a guest that left its run, and for no other: no handler starts its own
        // guest again.
        let is_over = matches!(act, Off | SystemOff | Reset | Fault);
        assert!(
            !is_over || vcpu.run != RunState::Running,
            "vCPU {} starts in the handler that ends it",
            vcpu.plan.vcpu
        );
    }

    fn manage(&self, requests: &[u32]) {
        for request in requests {
            stop(Stop::Access);
            let place = PhysicalAddress(PEER_MANAGE);
            let word = status::next_request(self.machines[0].load64(place), *request);
            self.machines[0].store64(place, word);
            self.pending[0].set(true);
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
                    for (core, pending) in self.pending.iter().enumerate() {
                        pending.set(pending.get() || value & 1 << (2 + core) != 0);
                    }
                }
                Event::Scrub(..) => self.instance.set(self.instance.get() + 1),
                Event::ResetGuest(entry) if entry >= ENTRY => self.code[index].set((entry - ENTRY) / INSTANCE_BYTES),
                Event::ResetGuest(_) => self.code[index].set(self.instance.get()),
                _ => {}
            }
        }
        let cleared = PhysicalAddress(self.clear_pending[index]);
        if machine.load32(cleared) & 1 << MONITOR_SGI != 0 {
            machine.store32(cleared, 0);
            self.pending[index].set(false);
        }
        machine.now.get() != self.ticks[index].replace(machine.now.get())
    }
    fn let_time_pass(&self) {
        self.machines.iter().for_each(|machine| machine.now.set(machine.now.get() + (1 << 31)));
    }
    fn quit(&self) {
        self.over.set(true);
    }
}

/// Tells the story in every order and looks at each end.
fn tell(story: &Story<'_>, end: impl Fn(&mut [Vcpu<FakeMachine>])) -> usize {
    let mut plan = partition(VCPUS as u32);
    plan.manage[3] = PhysicalAddress(PEER_MANAGE);
    plan.health.policy = story.policy;
    (plan.health.max_restarts, plan.health.within_ticks) = (10, 1000);
    let plans = cores(plan);
    let orders = explore::<Partition>(story.preemptions, |run| {
        let shared = plans[0].shared;
        for words in &shared.vcpus {
            forget(words);
        }
        let mut vcpus: Vec<_> =
            plans.iter().map(|made| Vcpu::new(FakeMachine::default(), 0, made.plan, made.partition, shared)).collect();
        vcpus[0].begin();
        for index in story.on {
            call(&mut vcpus[0], CPU_ON, [*index as u64, ENTRY + INSTANCE_BYTES, 0]);
            vcpus[*index].interrupt(MONITOR_SGI);
        }
        for vcpu in &vcpus {
            vcpu.machine.take_events();
            vcpu.machine.store32(PhysicalAddress(vcpu.plan.gicr.0 + 0x1_0280), 0);
            vcpu.machine.ticks_per_spin.set(1);
        }
        let world = Rc::new(Partition::new(vcpus));
        STAGE.set(Some(world.clone()));
        let live = |me: usize| {
            let acts = story.acts[me].to_vec();
            let is_late = story.late == Some(me);
            Core::new(move || stage().live(me, &acts, is_late))
        };
        let requests = story.requests.to_vec();
        let mut bodies: Vec<_> = (0..VCPUS).map(live).collect();
        bodies.push(Core::new(move || stage().manage(&requests)));
        run(&world, bodies);
        STAGE.set(None);
        let mut vcpus = Rc::into_inner(world).expect("the story is over").into_vcpus();
        agree(&mut vcpus);
        end(&mut vcpus);
    });
    println!("{orders} orders");
    assert!(orders > 20, "only {orders} orders");
    orders
}

/// As [`Shared`] is at boot.
fn forget(words: &crate::state::VcpuShared) {
    for word in [&words.state, &words.report] {
        word.store(0, Relaxed);
    }
}

/// What must hold whenever nothing is under way: who runs is who is said to run.
fn agree(vcpus: &mut [Vcpu<FakeMachine>]) {
    let (state, reason) = state(&vcpus[0]);
    assert_ne!(reason, status::REASON_CORE_STUCK, "a core did not hear that it was to stand");
    for number in 0..vcpus.len() {
        let runs = vcpus[number].run == RunState::Running;
        if state != status::STATE_RUNNING {
            assert!(!runs, "vCPU {number} runs in state {state}");
            continue;
        }
        // The lead's frame is not used any more.
        let said = call(&mut vcpus[0], AFFINITY_INFO, [number as u64, 0, 0]);
        assert_eq!(said, u64::from(!runs), "AFFINITY_INFO of vCPU {number}, which is {:?}", vcpus[number].run);
    }
}

fn generation(vcpus: &[Vcpu<FakeMachine>]) -> u32 {
    status32(&vcpus[0], offset_of!(StatusPage, generation))
}

/// A sibling that stands already is switched on by one that does not stand yet.
const FLAPPING: Story<'static> = Story { on: &[2], acts: [&[], &[Work, Off], &[On(1), Work]], ..IDLE };

#[test]
fn suspended() {
    let story = Story { requests: &[MANAGE_SUSPEND], ..FLAPPING };
    let orders = tell(&story, |vcpus| assert_eq!(state(&vcpus[0]).0, status::STATE_SUSPENDED));
    assert!(orders > 14_000, "an explorer that misses orders is green: {orders}, and once 14,936");
}

/// What a suspended partition was about to do, it does after it is resumed: a CPU_ON that was accepted is not lost.
#[test]
fn suspended_and_resumed() {
    let story = Story { requests: &[MANAGE_SUSPEND, MANAGE_RESUME], ..FLAPPING };
    let goes_on = |vcpus: &[_]| assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (status::STATE_RUNNING, 1));
    tell(&story, |vcpus| goes_on(vcpus));
    let acts = [&[On(1), Work][..], &[Work], &[On(1), Off]];
    tell(&Story { acts, ..story }, |vcpus| {
        goes_on(vcpus);
        assert_eq!(vcpus[1].run, RunState::Running, "one of two CPU_ON was accepted, whenever it was");
    });
}

/// Row A8: a vCPU whose monitor starts late comes up, whichever vCPU switched it on, and does not delay others that are
/// to stand.
#[test]
fn switched_on_before_its_core_is_set_up() {
    let comes = |vcpus: &[Vcpu<FakeMachine>]| {
        assert_eq!((state(&vcpus[0]).0, vcpus[1].run), (status::STATE_RUNNING, RunState::Running));
    };
    let acts = [&[On(1), Work][..], &[Work], &[]];
    tell(&Story { acts, requests: &[MANAGE_SUSPEND, MANAGE_RESUME], late: Some(1), ..IDLE }, |vcpus| comes(vcpus));
    let acts = [&[][..], &[Work], &[On(1), Off]];
    tell(&Story { on: &[2], acts, late: Some(1), ..IDLE }, |vcpus| comes(vcpus));
}

#[test]
fn restarted_by_a_manager() {
    tell(&Story { requests: &[MANAGE_RESTART], ..FLAPPING }, |vcpus| {
        assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (status::STATE_RUNNING, 2));
    });
}

/// Row A5: a suspend that is posted while the partition restarts is heard, whenever it comes.
#[test]
fn suspended_while_it_restarts() {
    tell(
        &Story { on: &[1], acts: [&[], &[Work], &[]], requests: &[MANAGE_RESTART, MANAGE_SUSPEND], ..IDLE },
        |vcpus| {
            assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (status::STATE_SUSPENDED, 2));
        },
    );
    let requests = &[MANAGE_SUSPEND];
    tell(&Story { on: &[1], acts: [&[Reset], &[Work], &[]], requests, policy: POLICY_RESTART, ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_SUSPENDED);
    });
}

#[test]
fn restarted_by_itself() {
    let [_, first, second] = FLAPPING.acts;
    for end in [Reset, Fault] {
        let acts = [&[Work, end][..], first, second];
        tell(&Story { acts, policy: POLICY_RESTART, ..FLAPPING }, |vcpus| {
            assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (status::STATE_RUNNING, 2));
        });
    }
}

#[test]
fn stopped() {
    let [_, first, second] = FLAPPING.acts;
    for (end, state_then) in [(Fault, status::STATE_STOPPED), (SystemOff, status::STATE_OFF)] {
        tell(&Story { acts: [&[Work, end][..], first, second], ..FLAPPING }, |vcpus| {
            assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (state_then, 1));
        });
    }
}

/// What a vCPU reported is served, though it is switched on again and calls CPU_OFF before the lead has looked. A later report may
/// take the place of an earlier one.
#[test]
fn a_report_outlives_a_later_cpu_off() {
    for (first, then, states) in [
        (Fault, Off, [status::STATE_STOPPED; 2]),
        (SystemOff, Off, [status::STATE_OFF; 2]),
        (Fault, SystemOff, [status::STATE_STOPPED, status::STATE_OFF]),
    ] {
        let acts = [&[][..], &[first, then], &[On(1)]];
        tell(&Story { on: &[1, 2], acts, preemptions: 1, ..IDLE }, |vcpus| {
            assert!(states.contains(&state(&vcpus[0]).0), "{} after {first:?}, {then:?}", state(&vcpus[0]).0);
        });
    }
}

/// What a vCPU reported before a restart says nothing about the instance after it.
#[test]
fn a_late_report_does_not_restart_the_new_instance() {
    let acts = [&[][..], &[Fault], &[Work, Fault]];
    tell(&Story { on: &[1, 2], acts, requests: &[MANAGE_RESTART], policy: POLICY_RESTART, ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]), (status::STATE_RUNNING, status::REASON_MANAGED), "the manager came last");
    });
}

/// A sibling faults while another one, which does not stand yet, may switch it on again.
#[test]
fn stopped_by_a_sibling() {
    let acts = [&[Work][..], &[Work, Fault], &[On(1), Work]];
    tell(&Story { on: &[1, 2], acts, preemptions: 1, ..IDLE }, |vcpus| {
        assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (status::STATE_STOPPED, 1));
    });
}

/// Two vCPUs fault at the same time: one restart.
#[test]
fn two_faults_of_one_instance_are_one() {
    let acts = [&[][..], &[Fault], &[Fault]];
    tell(&Story { on: &[1, 2], acts, policy: POLICY_RESTART, ..IDLE }, |vcpus| {
        assert_eq!((state(&vcpus[0]).0, generation(vcpus)), (status::STATE_RUNNING, 2));
    });
}

/// The partition is off when all of its vCPUs are, and not when the one that was the last has just switched on another one.
#[test]
fn the_last_cpu_off_is_exact() {
    let acts = [&[Off][..], &[Work], &[On(1), Off]];
    tell(&Story { on: &[2], acts, ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_RUNNING, "vCPU 1 is on");
        assert_eq!(vcpus[1].run, RunState::Running);
    });
    let acts = [&[Off][..], &[Work, Off], &[Off]];
    tell(&Story { on: &[1, 2], acts, ..IDLE }, |vcpus| assert_eq!(state(&vcpus[0]).0, status::STATE_OFF));
}

/// vCPU 0 is switched off and on like the others, and its core speaks for the partition meanwhile.
#[test]
fn vcpu_0_is_switched_on_by_another_one() {
    let acts = [&[Off, Work][..], &[On(0), Work, On(0), Work], &[]];
    for requests in [&[MANAGE_SUSPEND][..], &[MANAGE_SUSPEND, MANAGE_RESUME], &[MANAGE_RESTART]] {
        tell(&Story { on: &[1], acts, requests, ..IDLE }, |_| ());
    }
    // The last one switches vCPU 0 on and leaves, while vCPU 0 looks whether anybody is left.
    let acts = [&[Off, Work][..], &[On(0), Off], &[]];
    tell(&Story { on: &[1], acts, ..IDLE }, |_| ());
    let acts = [&[Off][..], &[On(0), Fault], &[]];
    tell(&Story { on: &[1], acts, ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_STOPPED);
        // A request that changes nothing makes the lead look at its own word.
        vcpus[0].interrupt(MONITOR_SGI);
        assert_eq!(vcpus[0].run, RunState::Off, "what was under way is over");
    });
}

/// A fault beside a suspend and a resume: the policy has the last word, and a suspend outlives it.
#[test]
fn a_fault_beside_requests() {
    let acts = [&[][..], &[Work, Fault], &[]];
    tell(&Story { on: &[1], acts, requests: &[MANAGE_SUSPEND, MANAGE_RESUME], ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_STOPPED);
    });
    tell(&Story { on: &[1], acts, requests: &[MANAGE_SUSPEND], policy: POLICY_RESTART, ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_SUSPENDED);
    });
    let acts = [&[On(1), Work][..], &[Work], &[]];
    tell(&Story { acts, requests: &[MANAGE_RESTART], late: Some(1), ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_RUNNING);
    });
    let acts = [&[Off][..], &[Work, Off], &[]];
    tell(&Story { on: &[1], acts, requests: &[MANAGE_SUSPEND, MANAGE_RESUME], ..IDLE }, |vcpus| {
        assert_eq!(state(&vcpus[0]).0, status::STATE_OFF);
    });
}
