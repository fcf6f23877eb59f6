//! Several vCPUs on one fake machine: who is loaded, what is kept for those that are not, and what the EL2 timer is for.

use super::*;
use crate::interrupts::{HYPERVISOR_TIMER, list_value};
use crate::sharing::scheduler::{NEVER, Scheduler};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::schedule::*;
use bulkhead_arch::fake::Event;
use std::cell::Cell;

const GICR: u64 = 0x080a_0000;
pub(super) const SGI_FRAME: u64 = GICR + 0x1_0000;
const USAGE: u64 = 0x5000_f000;
/// Pages of stolen time, by slot.
pub(super) const STOLEN_TIME: u64 = 0x5200_0000;
/// ESR_EL2 of a trapped WFI, and of a trapped use of floating point.
pub(super) const WFI: u64 = 0x01 << 26 | 1 << 25;
const FLOATING_POINT: u64 = 0x07 << 26 | 1 << 25;
/// ICC_SGI1R_EL1 := x0, an MSR at EL1.
pub(super) const SEND_SGI: u64 = 0x18 << 26 | 1 << 25 | 3 << 20 | 5 << 17 | 12 << 10 | 11 << 1;
const TIMER: u32 = 27;
const VIRTUAL_COMPARE: usize = bulkhead_arch::GuestContext::TIMERS;
const VIRTUAL_CONTROL: usize = VIRTUAL_COMPARE + 1;

/// One shared core.
pub(super) struct Core {
    pub(super) machine: FakeMachine,
    pub(super) vcpus: Vec<Vcpu<FakeMachine>>,
    pub(super) loaded: usize,
    /// Interrupts take the general way only.
    pub(super) is_general: bool,
    /// What loading a vCPU takes.
    pub(super) load_ticks: u64,
}

pub(super) fn server(slot: u32, priority: u32) -> ServerPlan {
    ServerPlan { slot, priority, payer: NO_SERVER, ..Default::default() }
}

pub(super) fn budgeted(slot: u32, priority: u32, budget_ticks: u64, period_ticks: u64) -> ServerPlan {
    ServerPlan { rule: Rule::Polling.number(), budget_ticks, period_ticks, ..server(slot, priority) }
}

pub(super) fn schedule(servers: &[ServerPlan], slots: u32) -> SchedulePlan {
    let mut plan = SchedulePlan::new_zeroed();
    plan.magic = SCHEDULE_PLAN_MAGIC;
    plan.kind = ScheduleKind::FixedPriority.number();
    plan.slot_count = slots;
    plan.server_count = servers.len() as u32;
    plan.servers[..servers.len()].copy_from_slice(servers);
    for (number, slot) in (0u32..).zip(&mut plan.slots).take(slots as usize) {
        (slot.partition, slot.preemptible) = (number, 1);
        slot.stolen_time = PhysicalAddress(STOLEN_TIME + 0x1000 * u64::from(number));
        slot.stolen_time_guest = bulkhead_abi::GuestAddress(0x1000_8000);
    }
    plan.tick_length = 16 << 32;
    plan.quantum_ticks = 1000;
    plan.usage = PhysicalAddress(USAGE);
    plan
}

/// A partition of one vCPU with the device interrupt 40 + 10 * slot, a doorbell right behind it, and the RAM behind it.
fn tenant(slot: u32, change: &impl Fn(u32, &mut PartitionPlan)) -> &'static PartitionPlan {
    let mut plan = super::partition(1);
    plan.index = slot;
    plan.vcpu_mpidr[0] = 2;
    plan.interrupts = [InterruptPlan::default(); MAX_INTERRUPTS];
    plan.interrupts[0] = InterruptPlan { intid: 40 + 10 * slot, kind: INTERRUPT_DEVICE, ..Default::default() };
    plan.interrupts[1] =
        InterruptPlan { intid: 41 + 10 * slot, kind: INTERRUPT_DOORBELL, edge: 1, ..Default::default() };
    plan.interrupt_count = 2;
    plan.windows[0] =
        Window { guest: bulkhead_abi::GuestAddress(GICR), bytes: 0x2_0000, kind: WINDOW_GICR, ..Default::default() };
    plan.window_count = 1;
    plan.ram[0].physical = PhysicalAddress(RAM + 0x20_0000 * u64::from(slot));
    plan.entry = bulkhead_abi::GuestAddress(0x4008_0000 + 0x1000 * u64::from(slot));
    change(slot, &mut plan);
    Box::leak(Box::new(plan))
}

impl Core {
    pub(super) fn new(plan: SchedulePlan) -> Self {
        Self::with(plan, |_, _| ())
    }

    pub(super) fn with(plan: SchedulePlan, change: impl Fn(u32, &mut PartitionPlan)) -> Self {
        let plan: &'static SchedulePlan = Box::leak(Box::new(plan));
        let machine = super::machine(PhysicalAddress(GICR));
        machine.now.set(1_000_000);
        machine.crc.set(Some(0));
        let scheduler = Box::leak(Box::new(Scheduler::new(plan, machine.now.get()).expect("the plan is sound")));
        let mut vcpus: Vec<_> = (0..plan.slot_count)
            .map(|slot| {
                let mut vcpu = VcpuPlan::new_zeroed();
                (vcpu.core, vcpu.slot, vcpu.partition) = (2, slot, slot);
                vcpu.mode = MODE_MAPPED;
                vcpu.mpidr = 2;
                vcpu.vttbr = u64::from(slot) << 48 | 0x7000_0000;
                vcpu.status = PhysicalAddress(STATUS + 0x10_0000 * u64::from(slot));
                vcpu.counters = PhysicalAddress(COUNTERS + 0x10_0000 * u64::from(slot));
                (vcpu.gicd, vcpu.gicr) = (PhysicalAddress(GICD), PhysicalAddress(GICR));
                vcpu.schedule = PhysicalAddress(0x5000_e000);
                let partition = tenant(slot, &change);
                // One of several vCPUs, where a test says so.
                vcpu.vcpu = partition.shared_vcpus.checked_ilog2().unwrap_or(0);
                Vcpu::new(machine.clone(), 0, Box::leak(Box::new(vcpu)), partition, super::shared())
            })
            .collect();
        vcpus[0].begin_core();
        vcpus.iter_mut().for_each(|vcpu| vcpu.join(scheduler));
        scheduler.configure(machine.now.get()).expect("the plan is sound");
        scheduler.begin(machine.now.get());
        vcpus[0].core.scheduler = Some(scheduler);
        let mut core = Self { machine, vcpus, loaded: 0, is_general: false, load_ticks: 0 };
        core.go_on();
        core
    }

    /// What the connection to the vectors does when another vCPU is to be loaded.
    fn hand_over(&mut self, slot: u8) {
        let next = usize::from(slot);
        assert_ne!(next, self.loaded, "a vCPU is never exchanged for itself");
        let [before, after] = self.vcpus.get_disjoint_mut([self.loaded, next]).expect("two vCPUs");
        after.core.take_over(&mut before.core);
        self.loaded = next;
        self.vcpus[next].load(slot);
        self.pass(self.load_ticks);
    }

    /// And after each handler.
    pub(super) fn go_on(&mut self) {
        let mut is_exchanged = false;
        while let Some(slot) = self.vcpus[self.loaded].settle() {
            self.hand_over(slot);
            is_exchanged = true;
        }
        if is_exchanged {
            self.own().note_loaded();
        }
        let vcpu = &self.vcpus[self.loaded];
        assert_eq!(vcpu.run, RunState::Running);
        assert_eq!(self.machine.translation_root.get(), vcpu.plan.vttbr, "the memory of who runs");
    }

    pub(super) fn own(&mut self) -> &mut Vcpu<FakeMachine> {
        &mut self.vcpus[self.loaded]
    }

    /// The scheduler, with its books up to date.
    pub(super) fn scheduler(&mut self) -> &Scheduler {
        let scheduler =
            self.vcpus[self.loaded].core.scheduler.as_deref_mut().expect("the loaded vCPU has the scheduler");
        scheduler.catch_up();
        scheduler
    }

    pub(super) fn interrupt(&mut self, intid: u32) {
        if let Some(slot) = if self.is_general { None } else { self.own().jump(intid) } {
            return self.hand_over(slot);
        }
        self.own().interrupt(intid);
        self.go_on();
    }

    pub(super) fn exit(&mut self, syndrome: u64) {
        self.own().other_exception(syndrome);
        self.go_on();
    }

    /// The guest writes a 32-bit register of its redistributor's frame of private interrupts.
    pub(super) fn write_private(&mut self, register: u64, value: u32) {
        self.write(SGI_FRAME + register, value);
    }

    /// The guest writes a 32-bit register.
    pub(super) fn write(&mut self, address: u64, value: u32) {
        self.machine.exit.set((address, address >> 12 << 4));
        self.own().head.frame.set_register(1, u64::from(value));
        self.own().data_abort(0x24 << 26 | 1 << 25 | 1 << 24 | 2 << 22 | 1 << 16 | 1 << 6 | 0x05);
        self.go_on();
    }

    pub(super) fn set_timer(&mut self, compare: u64, control: u64) {
        let mut registers = self.machine.registers.get();
        (registers[VIRTUAL_COMPARE], registers[VIRTUAL_CONTROL]) = (compare, control);
        self.machine.registers.set(registers);
    }

    pub(super) fn pass(&self, ticks: u64) {
        self.machine.now.set(self.machine.now.get() + ticks);
    }

    pub(super) fn listed(&self) -> Vec<u32> {
        self.machine.list.iter().map(Cell::get).filter(|value| value >> 62 != 0).map(|value| value as u32).collect()
    }

    /// Date for which the EL2 timer is armed.
    pub(super) fn armed(&mut self) -> Option<u64> {
        Some(self.scheduler().armed_ticks).filter(|ticks| *ticks != NEVER)
    }
}

fn two_by_priority() -> Core {
    Core::new(schedule(&[server(0, 1), server(1, 5)], 2))
}

/// Puts the more important guest to sleep.
pub(super) fn with_the_first_asleep() -> Core {
    let mut core = two_by_priority();
    assert_eq!(core.loaded, 0);
    core.exit(WFI);
    assert_eq!(core.loaded, 1);
    core.machine.take_events();
    core
}

/// SP-11, SP-14: WFI gives the core away; the owner's interrupt takes it back, and is in its list registers.
#[test]
fn an_interrupt_wakes_a_more_important_sleeper() {
    let mut core = with_the_first_asleep();
    core.interrupt(40);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]));
    assert!(core.machine.take_events().contains(&Event::PriorityDrop(40)));
}

/// MZ-17, MZ-18: an interrupt of a less important vCPU waits at EL2, out of the runner's list registers, until its owner runs;
/// several do, each once.
#[test]
fn interrupts_of_others_are_held() {
    let mut core = with_the_first_asleep();
    core.interrupt(40);
    core.machine.list[0].set(0);
    for intid in [50, 51] {
        core.interrupt(intid);
        assert_eq!((core.loaded, core.listed()), (0, vec![]));
    }
    assert_eq!(core.scheduler().slots[1].usage.interrupts_held, 2);
    assert!(!core.machine.take_events().contains(&Event::Deactivate(50)), "it stays active, and so silent");
    core.exit(WFI);
    assert_eq!((core.loaded, core.listed()), (1, vec![50, 51]));
}

/// SP-16: with an interrupt in a list register, or its timer up, WFI does not give the core away.
#[test]
fn a_pending_interrupt_ends_a_wait_at_once() {
    let mut core = two_by_priority();
    core.interrupt(40);
    core.exit(WFI);
    assert_eq!(core.loaded, 0);
    let mut core = two_by_priority();
    core.set_timer(core.machine.now.get(), 1);
    core.exit(WFI);
    assert_eq!(core.loaded, 0);
    core.set_timer(core.machine.now.get(), 3);
    core.exit(WFI);
    assert_eq!(core.loaded, 1, "a masked timer raises nothing");
}

/// SP-14, QV-23, MZ-6: the timer of a sleeper is what the EL2 timer is armed for, and nothing else is; at its date it wakes.
#[test]
fn a_sleepers_timer_wakes_it() {
    let mut core = two_by_priority();
    assert_eq!(core.armed(), None, "nothing to decide");
    let date = core.machine.now.get() + 5000;
    core.set_timer(date, 1);
    core.exit(WFI);
    assert_eq!((core.loaded, core.armed()), (1, Some(date)));
    core.pass(4999);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!((core.loaded, core.armed()), (1, Some(date)), "an early interrupt changes nothing");
    core.pass(1);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!((core.loaded, core.armed()), (0, None));
    assert_eq!(core.scheduler().slots[0].usage.wakes, 2, "its start, and this");
}

/// The timer of one that is ready and merely pre-empted needs no EL2 timer: it is up when its vCPU is loaded.
#[test]
fn a_ready_ones_timer_needs_no_date() {
    let mut core = with_the_first_asleep();
    core.set_timer(core.machine.now.get() + 300, 1);
    core.interrupt(40);
    assert_eq!((core.loaded, core.armed()), (0, None));
}

/// SP-10: registers, list registers and the interface of the one are not the other's; a timer's interrupt that is active goes
/// and comes with its vCPU.
#[test]
fn an_exchange_exchanges_registers_and_list_registers() {
    let mut core = with_the_first_asleep();
    let mut registers = [7; 30];
    registers[VIRTUAL_CONTROL] = 0;
    registers[VIRTUAL_CONTROL + 2] = 0;
    core.machine.registers.set(registers);
    let active_timer = list_value(TIMER, 0xa0).0 ^ 3 << 62;
    core.machine.list[0].set(active_timer);
    core.machine.list[2].set(list_value(3, 0x80).0);
    core.interrupt(40);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]));
    assert_ne!(core.machine.registers.get()[5], 7);
    assert!(
        core.machine.take_events().contains(&Event::Deactivate(TIMER)),
        "the runner's own timer must be able to fire"
    );
    // The first one ends its interrupt and sleeps.
    core.machine.list[0].set(0);
    core.exit(WFI);
    assert_eq!(core.loaded, 1);
    assert_eq!((core.machine.list[0].get(), core.machine.list[2].get()), (active_timer, list_value(3, 0x80).0));
    assert_eq!(core.machine.registers.get()[5], 7);
    assert_eq!(
        core.machine.load32(PhysicalAddress(SGI_FRAME + 0x300)),
        1 << TIMER,
        "active again, as its guest left it"
    );
}

/// QV-23, QV-24: a budget ends at the date that the EL2 timer was armed for, and comes back at its period.
#[test]
fn a_budget_ends_and_comes_back() {
    let mut core = Core::new(schedule(&[budgeted(0, 1, 2000, 10_000), server(1, 5)], 2));
    let begin = core.machine.now.get();
    assert_eq!((core.loaded, core.armed()), (0, Some(begin + 2000)));
    core.pass(2100);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!(core.loaded, 1);
    let back = core.armed().expect("the budget comes back");
    assert!((begin + 10_000..=begin + 10_100).contains(&back), "at {back}");
    core.machine.now.set(back);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!(core.loaded, 0);
    let end = core.armed().expect("the budget ends") - back;
    assert!((1900..=2000).contains(&end), "an overrun of 100 is a debt: {end} ticks of the next 2000");
    assert_eq!(core.scheduler().counts[0].exhaustions, 1);
}

/// QV-8: a guest's writes to the redistributor that it shares change nothing in it but the enables of its own timers, and
/// those only while it is loaded.
#[test]
fn the_redistributor_keeps_nothing_of_a_guest() {
    in_every_view(|_| {
        let mut core = with_the_first_asleep();
        let before = |core: &Core, register: u64| core.machine.load32(PhysicalAddress(SGI_FRAME + register));
        for register in [0x200, 0x300, 0x400, 0x41c, 0xc04] {
            core.machine.store32(PhysicalAddress(SGI_FRAME + register), 0);
            core.write_private(register, u32::MAX);
            assert_eq!(before(&core, register), 0, "register {register:#x}");
        }
        let mut core = with_the_first_asleep();
        core.write_private(0x100, u32::MAX);
        assert_eq!(before(&core, 0x100), 1 << 27 | 1 << 30);
        assert_eq!(core.vcpus[1].private.enabled.get(), 0x4800_7fff);
        core.interrupt(40);
        assert_eq!((core.loaded, core.vcpus[0].private.enabled.get()), (0, 0));
        assert_eq!(before(&core, 0x180), 1 << 27 | 1 << 30, "disabled for the one that has not enabled them");
    });
}

/// QV-8: a software-generated interrupt that is pending and disabled asks for nothing: no list register, no maintenance
/// interrupt, which would come again and again. Enabled, it is delivered.
#[test]
fn a_disabled_interrupt_waits_silently() {
    in_every_view(|_| {
        let mut core = two_by_priority();
        core.own().head.frame.set_register(0, 3 << 24 | 1);
        core.exit(SEND_SGI);
        core.write_private(0x200, 1 << 4);
        assert!(core.listed().is_empty());
        assert!(!core.machine.underflow.get(), "nothing could be done in a maintenance interrupt");
        core.exit(WFI);
        assert_eq!((core.loaded, core.machine.underflow.get()), (1, false));
        core.interrupt(40);
        core.machine.list[0].set(0);
        core.write_private(0x100, 1 << 3 | 1 << 4);
        assert_eq!((core.loaded, core.listed()), (0, vec![3, 4]));
    });
}

/// SP-18: with lazy floating point the first use after an exchange brings the own registers, later ones cost nothing; who
/// never uses them never has them.
#[test]
fn floating_point_follows_its_user() {
    let mut core = with_the_first_asleep();
    let word = |core: &Core| core.machine.floating_point.get().words[9];
    let set = |core: &Core, value: u64| {
        let mut registers = core.machine.floating_point.get();
        registers.words[9] = value;
        core.machine.floating_point.set(registers);
    };
    core.exit(FLOATING_POINT);
    set(&core, 22);
    core.interrupt(40);
    assert!(core.machine.floating_point_traps.get());
    core.exit(FLOATING_POINT);
    assert_eq!(word(&core), 0, "its own, not the neighbour's");
    set(&core, 11);
    core.machine.list[0].set(0);
    core.exit(WFI);
    core.exit(FLOATING_POINT);
    assert_eq!(word(&core), 22);
    // Pre-empted by one that does not use it: nothing is moved, and nothing traps afterwards.
    core.interrupt(40);
    core.machine.list[0].set(0);
    core.exit(WFI);
    assert!(!core.machine.floating_point_traps.get());
    assert_eq!(word(&core), 22);
}

/// SP-18, QV-74: with eager floating point a restart of the one leaves the saved registers of the other alone.
#[test]
fn a_start_leaves_the_neighbours_floating_point_alone() {
    let mut plan = schedule(&[server(0, 1), server(1, 5)], 2);
    plan.floating_point = FloatingPoint::Eager.number();
    let mut core = Core::with(plan, |_, partition| {
        partition.health.policy = POLICY_RESTART;
        partition.health.max_restarts = 8;
        partition.health.within_ticks = 1 << 40;
    });
    for slot in [0, 1] {
        let mut registers = core.machine.floating_point.get();
        registers.words = [100 + slot; 66];
        core.machine.floating_point.set(registers);
        core.exit(if slot == 0 { WFI } else { FLOATING_POINT });
    }
    assert_eq!(core.loaded, 1);
    core.own().fault(crate::life::health::Fault::new(bulkhead_abi::status::REASON_DATA_ABORT, 0));
    core.go_on();
    assert_eq!(core.loaded, 1, "restarted");
    core.interrupt(40);
    assert_eq!(core.loaded, 0);
    assert_eq!(core.machine.floating_point.get().words, [100; 66]);
}

/// SG-61: the watchdog of one that computes alone is looked at when its date comes: nothing else makes the core decide.
#[test]
fn a_watchdog_bites_the_loaded_one() {
    let mut core = Core::with(schedule(&[server(0, 1), server(1, 5)], 2), |_, partition| {
        partition.health.watchdog_ticks = 50_000;
    });
    let date = core.armed().expect("a watchdog has a date");
    core.machine.now.set(date + 10);
    core.interrupt(HYPERVISOR_TIMER);
    assert_eq!(core.vcpus[0].run, RunState::Off);
    assert_eq!(core.vcpus[0].counter(Counter::Watchdog), 1);
    assert_eq!(core.loaded, 1, "the other one was watched too, and has not been chosen yet");
}

/// MZ-26: an interrupt beyond its rate waits for an idle moment, and is counted.
#[test]
fn an_interrupt_beyond_its_rate_waits() {
    let mut core = Core::with(schedule(&[server(0, 1), server(1, 5)], 2), |slot, partition| {
        if slot == 0 {
            (partition.interrupts[0].limit_events, partition.interrupts[0].limit_period_ticks) = (2, 1_000_000);
        }
    });
    // Begins in the middle of a window of the limiter's grid.
    core.machine.now.set(5_500_000);
    core.exit(WFI);
    for round in 0..4 {
        core.interrupt(40);
        let expected = if round < 2 { 0 } else { 1 };
        assert_eq!(core.loaded, expected, "arrival {round}");
        if core.loaded == 0 {
            core.machine.list[0].set(0);
            core.exit(WFI);
        }
    }
    assert_eq!(core.scheduler().slots[0].usage.interrupts_limited, 2);
    // When the other one sleeps too, those that wait have their turn.
    core.exit(WFI);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]));
}

/// MZ-17: the route `defer` waits for an idle moment whatever the priorities are.
#[test]
fn a_deferred_interrupt_waits_for_idle_time() {
    let mut core = Core::with(schedule(&[server(0, 1), server(1, 5)], 2), |slot, partition| {
        if slot == 0 {
            partition.interrupts[0].route = RouteRule::Defer.number();
        }
    });
    core.exit(WFI);
    core.interrupt(40);
    assert_eq!(core.loaded, 1);
    core.interrupt(41);
    assert_eq!((core.loaded, core.listed()), (0, vec![40, 41]), "the doorbell, which is not deferred, brings both");
    core.machine.list.iter().for_each(|slot| slot.set(0));
    core.exit(WFI);
    core.interrupt(40);
    core.exit(WFI);
    assert_eq!((core.loaded, core.listed()), (0, vec![40]), "nobody else has anything to do");
}

/// QV-41: all time is somebody's or idle.
#[test]
fn accounts_add_up() {
    let mut core = Core::new(schedule(&[budgeted(0, 1, 2000, 10_000), server(1, 5)], 2));
    let begin = core.machine.now.get();
    for step in 1..40u64 {
        core.pass(137 * step);
        match step % 4 {
            0 => core.exit(WFI),
            1 => core.interrupt(40),
            2 => core.interrupt(HYPERVISOR_TIMER),
            _ => core.interrupt(50),
        }
        core.machine.list.iter().for_each(|slot| slot.set(0));
    }
    core.pass(200_000);
    core.exit(WFI);
    let word = |offset: usize| core.machine.load64(PhysicalAddress(USAGE + offset as u64));
    let mut used = word(offset_of!(UsagePage, idle_ticks));
    for number in 0..2 {
        let server = offset_of!(UsagePage, servers) + number * size_of::<ServerUsage>();
        used += word(server) + word(server + 8);
    }
    assert_eq!(used, word(offset_of!(UsagePage, time_ticks)) - begin);
}
