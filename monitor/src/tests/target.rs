//! A partition in any state, on a core of its own or a shared one, and a manager that asks something of it.

use super::calls::{CPU_ON, SYSTEM_OFF, call};
use super::shared::{Core, WFI, schedule, server};
use super::*;
use crate::interrupts::{HYPERVISOR_TIMER, MONITOR_SGI};
use crate::life::health::Fault;
use crate::sharing::decide::RESTART_SLICE_BYTES;
use bulkhead_abi::hypercall::{DENIED, SUCCESS};
use bulkhead_abi::status::{self, MANAGE_SUSPEND, ManagePage};
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn state_name(state: u32) -> &'static str {
    ["initial", "running", "suspended", "off", "restarting", "stopped"][state as usize]
}

/// Where the vCPU of a partition is that a manager asks for something.
pub(super) enum Place {
    /// On a core of its own. One that is loaded there hears of nothing until its guest is to run.
    Own { core: Box<Vcpu<FakeMachine>>, begin: Option<fn(&mut Vcpu<FakeMachine>)> },
    /// In slot 1 of a shared core, below a vCPU that sleeps until interrupt 40 comes, and above one that always runs. The SGI comes
    /// while the first one runs, or while the target does what it does.
    Shared { core: Box<Core>, is_meanwhile: bool },
}

/// A partition in a state that is given by its name (`requests.rs: STATES`), and its manager.
pub(super) struct Target {
    pub(super) place: Place,
    pub(super) manager: Vcpu<FakeMachine>,
}

pub(super) const MANAGER: usize = 3;
/// Slices of a load that are done before it is interrupted.
pub(super) const SLICES: u32 = 5;

impl Target {
    pub(super) fn new(place: Place) -> Self {
        let vcpu = place.vcpu();
        let target = vcpu.partition.index as usize;
        let mut partition = partition(1);
        partition.index = MANAGER as u32;
        partition.flags = FLAG_MANAGES;
        partition.manage[MANAGER] = PhysicalAddress(PEER_MANAGE);
        partition.status[target] = vcpu.plan.status;
        partition.lead_mpidr[target] = vcpu.plan.mpidr;
        (partition.manage_period_ticks, partition.manage_events) = (1000, 1000);
        let mut plan = VcpuPlan::new_zeroed();
        (plan.status, plan.counters) = (PhysicalAddress(PEER_STATUS), PhysicalAddress(PEER_STATUS + 0x1000));
        let (plan, partition) = (Box::leak(Box::new(plan)), Box::leak(Box::new(partition)));
        let manager = Vcpu::new(vcpu.machine.clone(), 0, plan, partition, super::shared());
        Self { place, manager }
    }

    /// On a core of its own.
    pub(super) fn own(state: &str) -> Self {
        let mut plan = partition(if state.contains("core") { 2 } else { 1 });
        plan.manage[MANAGER] = PhysicalAddress(PEER_MANAGE);
        if state.starts_with("restarting") {
            plan.health = restarting(plan.health);
        }
        let mut both = cores(plan);
        let mut sibling = (both.len() > 1).then(|| both.remove(1));
        let mut core = both.remove(0);
        let mut begin: Option<fn(&mut Vcpu<FakeMachine>)> = None;
        match state {
            "not set up" => begin = Some(Vcpu::begin),
            "initial (loading)" => {
                core.begin_core();
                core.clear_published_pages();
                begin = Some(|core| core.start_partition(status::REASON_NONE));
            }
            _ => core.begin(),
        }
        match state {
            "suspended" => serve_posted(&mut core, MANAGE_SUSPEND),
            "off" => drop(call(&mut core, SYSTEM_OFF, [0; 3])),
            "restarting (loading)" => {
                core.fault(Fault::new(status::REASON_SERROR, 0));
                begin = Some(Vcpu::end_back_off);
            }
            "restarting (back-off)" | "stopped" => core.fault(Fault::new(status::REASON_SERROR, 0)),
            _ => {}
        }
        if let Some(sibling) = &mut sibling {
            call(&mut core, CPU_ON, [1, 0x4010_0000, 0]);
            sibling.interrupt(MONITOR_SGI);
            core.machine.ticks_per_spin.set(1 << 20);
            core.fault(Fault::new(status::REASON_SERROR, 0));
            if state.ends_with("came)") {
                sibling.interrupt(MONITOR_SGI);
            }
        }
        Self::new(Place::Own { core: Box::new(core), begin })
    }

    /// On a shared core; none for the states of partitions with several vCPUs, and for one without a monitor.
    pub(super) fn shared(state: &str, is_meanwhile: bool) -> Option<Self> {
        if state == "not set up" || state.contains("core") {
            return None;
        }
        let servers = [server(0, 1), server(1, 5), server(2, 9)];
        let mut core = Core::with(schedule(&servers, 3), |slot, partition| {
            partition.ram[0].bytes = 4 * u64::from(SLICES) * RESTART_SLICE_BYTES;
            if slot == 1 {
                partition.manage[MANAGER] = PhysicalAddress(PEER_MANAGE);
                if state.starts_with("restarting") {
                    partition.health = restarting(partition.health);
                }
            }
        });
        assert_eq!((core.loaded, core.vcpus[1].run), (0, RunState::Restoring), "nothing of it is loaded yet");
        if state == "initial (loading)" {
            load_in_part(&mut core, |core| core.exit(WFI));
        } else {
            core.exit(WFI);
            assert_eq!((core.loaded, core.vcpus[1].run), (1, RunState::Running));
        }
        match state {
            "suspended" => {
                post(&core.vcpus[1], MANAGE_SUSPEND);
                core.interrupt(MONITOR_SGI);
            }
            "off" => {
                call(core.own(), SYSTEM_OFF, [0; 3]);
                core.go_on();
            }
            "stopped" | "restarting (back-off)" | "restarting (loading)" => {
                core.own().fault(Fault::new(status::REASON_SERROR, 0));
                core.go_on();
            }
            _ => {}
        }
        if state == "restarting (loading)" {
            core.machine.now.set(core.vcpus[1].backoff_until);
            load_in_part(&mut core, |core| core.interrupt(HYPERVISOR_TIMER));
        } else if core.loaded != 0 {
            core.interrupt(40);
        }
        assert_eq!(core.loaded, 0);
        Some(Self::new(Place::Shared { core: Box::new(core), is_meanwhile }))
    }

    pub(super) fn vcpu(&self) -> &Vcpu<FakeMachine> {
        self.place.vcpu()
    }

    pub(super) fn word(&self, offset: usize) -> u32 {
        self.vcpu().machine.load32(PhysicalAddress(self.vcpu().plan.status.0 + offset as u64))
    }

    pub(super) fn generation(&self) -> u32 {
        self.word(offset_of!(StatusPage, generation))
    }

    pub(super) fn state(&self) -> &'static str {
        state_name(self.vcpu().state())
    }

    /// The manager asks; false when it is told that nobody would hear it.
    pub(super) fn ask(&mut self, function: u64) -> bool {
        let target = u64::from(self.vcpu().partition.index);
        match call(&mut self.manager, function, [target, 0, 0]) {
            SUCCESS => {}
            DENIED => return false,
            other => panic!("{other:#x}"),
        }
        // The fake machine keeps atomic words beside the others.
        let word = request_word(self.vcpu());
        self.vcpu().machine.store64(word, self.vcpu().machine.atomic(word).load(Relaxed));
        true
    }

    /// The partition's core looks, where it can.
    pub(super) fn look(&mut self) {
        match &mut self.place {
            Place::Own { begin: Some(_), .. } => {}
            Place::Own { core, .. } => core.interrupt(MONITOR_SGI),
            Place::Shared { core, is_meanwhile } => {
                if *is_meanwhile {
                    core.machine.pending.borrow_mut().push_back(MONITOR_SGI);
                    core.machine.quiet_polls.set(SLICES);
                } else {
                    core.interrupt(MONITOR_SGI);
                    assert_eq!(core.loaded, 0, "the more important one still runs");
                }
                core.machine.pending.borrow_mut().push_back(40);
                fall_asleep(core);
                loop {
                    let next = core.machine.pending.borrow_mut().pop_front();
                    let Some(intid) = next else { break };
                    core.interrupt(intid);
                }
                assert_eq!(core.loaded, 0);
            }
        }
    }

    /// Lets what is under way come to its end.
    pub(super) fn finish(&mut self) {
        match &mut self.place {
            Place::Own { core, begin } => {
                if let Some(begin) = begin.take() {
                    begin(core);
                    core.interrupt(MONITOR_SGI);
                }
                if core.run == RunState::BackOff {
                    core.end_back_off();
                }
            }
            Place::Shared { core, .. } => {
                fall_asleep(core);
                if core.vcpus[1].run == RunState::BackOff {
                    core.machine.now.set(core.vcpus[1].backoff_until);
                    core.interrupt(HYPERVISOR_TIMER);
                }
            }
        }
        assert!(!matches!(self.vcpu().run, RunState::Restoring | RunState::BackOff), "nothing is under way");
        assert_eq!(self.vcpu().run == RunState::Running, self.state() == "running");
    }
}

impl Place {
    pub(super) fn vcpu(&self) -> &Vcpu<FakeMachine> {
        match self {
            Self::Own { core, .. } => core,
            Self::Shared { core, .. } => &core.vcpus[1],
        }
    }
}

pub(super) fn restarting(health: HealthPlan) -> HealthPlan {
    HealthPlan { policy: POLICY_RESTART, max_restarts: 9, within_ticks: 9, backoff_ticks: 1000, ..health }
}

/// Where the manager's requests to a partition are.
pub(super) fn request_word(target: &Vcpu<FakeMachine>) -> PhysicalAddress {
    let offset = offset_of!(ManagePage, requests) as u64 + 8 * u64::from(target.partition.index);
    PhysicalAddress(PEER_MANAGE + offset)
}

/// A manager has posted a request.
pub(super) fn post(target: &Vcpu<FakeMachine>, request: u32) {
    let place = request_word(target);
    let word = status::next_request(target.machine.load64(place), request);
    target.machine.store64(place, word);
    target.machine.atomic(place).store(word, Relaxed);
}

pub(super) fn serve_posted(core: &mut Vcpu<FakeMachine>, request: u32) {
    post(core, request);
    core.interrupt(MONITOR_SGI);
}

/// The first vCPU of a shared core has done its work.
pub(super) fn fall_asleep(core: &mut Core) {
    core.machine.list[0].set(0);
    core.exit(WFI);
}

/// Lets the vCPU of slot 1 load some of its memory before the first one wakes.
pub(super) fn load_in_part(core: &mut Core, begin: impl FnOnce(&mut Core)) {
    core.machine.quiet_polls.set(SLICES);
    core.machine.pending.borrow_mut().push_back(40);
    begin(core);
    assert_eq!((core.loaded, core.vcpus[1].run), (0, RunState::Restoring));
    assert_eq!(core.vcpus[1].restore.offset, u64::from(SLICES) * RESTART_SLICE_BYTES, "in the middle of it");
}
