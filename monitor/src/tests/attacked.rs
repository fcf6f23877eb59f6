//! Guests of a shared core that do anything at random, on a machine whose interrupts come as hardware's do. After each
//! step the monitor's books are compared with what must be so.

use super::calls::{SYSTEM_OFF, call};
use super::prepared::sporadic;
use super::shared::{Core, WFI, budgeted, schedule, server};
use super::*;
use crate::interrupts::{HYPERVISOR_TIMER, MAINTENANCE, MONITOR_SGI, list_value};
use crate::life::health::Fault;
use crate::sharing::scheduler::{Held, NEVER, Policy, Scheduler};
use bulkhead_abi::schedule::*;
use bulkhead_abi::status::{REASON_DATA_ABORT, STATE_SUSPENDED};
use bulkhead_arm::ListRegister;
use std::cell::RefCell;
use std::collections::BTreeSet;

const SLOTS: u64 = 3;
const MANAGER: u64 = 0x5100_0000;
const TIMER: u32 = 27;
const DEFER: u32 = RouteRule::Defer.number();

/// What is outside the core: devices and other cores.
#[derive(Default)]
struct World {
    seed: u64,
    pending: BTreeSet<u32>,
    next: u64,
    waits: u32,
}

thread_local! {
    static WORLD: RefCell<World> = const { RefCell::new(World { seed: 1, next: u64::MAX, waits: 0, pending: BTreeSet::new() }) };
}

fn random(below: u64) -> u64 {
    WORLD.with_borrow_mut(|world| world.random(below))
}

fn pend(intid: u32) {
    WORLD.with_borrow_mut(|world| world.pending.insert(intid));
}

/// When the timer of the guest in the machine is signalled.
fn timer_ticks(machine: &FakeMachine) -> u64 {
    let is_signalled = machine.enabled.get() & 1 << TIMER != 0 && !machine.active.borrow().contains(&TIMER);
    if is_signalled { machine.guest_timer_ticks() } else { NEVER }
}

impl World {
    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    /// The interrupt that is signalled now, if any.
    fn signalled(&mut self, machine: &FakeMachine, idle: bool) -> Option<u32> {
        while self.next <= machine.now.get() {
            self.next += 1 + self.random(3000);
            let intid = 40 + 10 * self.random(SLOTS) as u32 + self.random(2) as u32;
            self.pending.insert(intid);
        }
        // Interrupts of a partition that does not run are disabled.
        let place =
            |intid: u32| STATUS + 0x10_0000 * u64::from((intid - 40) / 10) + offset_of!(StatusPage, state) as u64;
        let is_silent = |intid| machine.load32(PhysicalAddress(place(intid))) > STATE_SUSPENDED;
        self.pending.retain(|intid| *intid < 40 || !is_silent(*intid));
        let now = machine.now.get();
        let is_low = machine.underflow.get() && machine.free_list_registers().count_ones() >= 3;
        if machine.deadline.get().is_some_and(|deadline| deadline <= now) {
            Some(HYPERVISOR_TIMER)
        } else if !idle && (is_low || machine.ended_list_registers() != 0) {
            Some(MAINTENANCE)
        } else if timer_ticks(machine) <= now {
            Some(TIMER)
        } else {
            let first = self.pending.iter().copied().find(|intid| !machine.active.borrow().contains(intid))?;
            self.pending.remove(&first);
            Some(first)
        }
    }
}

fn on_wait(machine: &FakeMachine) {
    WORLD.with_borrow_mut(|world| {
        world.waits += 1;
        assert!(world.waits < 200, "the core never runs anybody");
        let intid = world.signalled(machine, true).or_else(|| {
            let date = world.next.min(timer_ticks(machine)).min(machine.deadline.get().unwrap_or(NEVER));
            machine.now.set(machine.now.get().max(date));
            world.signalled(machine, true)
        });
        machine.pending.borrow_mut().extend(intid);
    });
}

struct Attack {
    core: Core,
    ran: [u64; SLOTS as usize],
}

fn gate(slot: u32, flags: u32) -> ServerPlan {
    ServerPlan { gate: Gate::Interrupt.number(), flags, ..budgeted(slot, 2 + slot, 500, 4000) }
}

fn pibs(slot: u32, client_count: u32) -> ServerPlan {
    let client = |period_ticks, priority| ClientPlan { period_ticks, priority, reserved: 0 };
    let mut clients = [ClientPlan::default(); MAX_SERVER_CLIENTS];
    let both = [client(3000, 1 + slot), client(20_000, 7 + slot)];
    clients[..client_count as usize].copy_from_slice(&both[2 - client_count as usize..]);
    let mut plan = ServerPlan { rule: Rule::Pibs.number(), client_count, clients, ..server(slot, clients[0].priority) };
    (plan.share_numerator, plan.share_denominator, plan.minimum_ticks) = (1, 3, 10);
    plan
}

impl Attack {
    fn new(story: u64) -> Self {
        WORLD.set(World {
            seed: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(story + 1),
            next: 1_000_100,
            ..World::default()
        });
        use_view(View::ALL[story as usize % View::ALL.len()]);
        let mut servers = vec![];
        let kinds: [u64; SLOTS as usize] = std::array::from_fn(|_| random(7));
        for slot in 0..SLOTS as u32 {
            let (plain, below) = (server(slot, 4 + slot), server(slot, 14 + slot));
            servers.extend(match kinds[slot as usize] {
                0 => vec![plain],
                1 => vec![sporadic(slot, 4 + slot, 300, 2000)],
                2 => vec![gate(slot, 0), below],
                3 => vec![gate(slot, ServerFlag::VoluntaryReturn.number()), below],
                4 => vec![pibs(slot, 2)],
                5 => vec![pibs(slot, 1), below],
                _ => vec![budgeted(slot, 4 + slot, 500, 3000)],
            });
        }
        servers.sort_by_key(|server| server.priority);
        let mut plan = schedule(&servers, SLOTS as u32);
        plan.slots.iter_mut().for_each(|slot| slot.timer_route = random(4) as u32 / 3 * DEFER);
        let routes: [u64; SLOTS as usize] = std::array::from_fn(|_| random(4));
        let core = Core::with(plan, |slot, partition| {
            let route = routes[slot as usize];
            partition.interrupts[0].route = u32::from(route == 0) * DEFER;
            let limited = &mut partition.interrupts[1];
            (limited.limit_events, limited.limit_period_ticks) = if route == 1 { (1, 4000) } else { (0, 0) };
            partition.interrupts[1].client = u32::from(kinds[slot as usize] == 4);
            partition.ram[0].bytes = 3 << 12;
            partition.manage[7] = PhysicalAddress(MANAGER);
            (partition.health.policy, partition.health.max_restarts) = (POLICY_RESTART, 1 << 20);
            (partition.health.within_ticks, partition.health.backoff_ticks) = (1, routes[0] * 300);
            partition.health.watchdog_ticks = if route == 3 { 20_000 } else { 0 };
        });
        core.machine.on_wait.set(Some(on_wait));
        core.machine.ticks_per_reading.set(1 + story % 3);
        Self { core, ran: Default::default() }
    }

    /// An interrupt of the machine: what the vectors do with it, or the monitor.
    fn take(&mut self, intid: u32) {
        let vcpu = self.core.own();
        let fast = vcpu.fast_entries();
        let in_use = vcpu.head.fast_table == fast.as_ptr() as usize as u64;
        let priority = fast.get(intid as usize).map_or(0, |entry| entry.load(std::sync::atomic::Ordering::Relaxed));
        if !in_use || priority == 0 || vcpu.machine.free_list_registers() & 1 == 0 {
            return self.core.interrupt(intid);
        }
        vcpu.machine.priority_drop(intid);
        vcpu.machine.list[0].set(list_value(intid, priority).0);
    }

    fn take_all(&mut self) {
        let next = |machine: &FakeMachine| WORLD.with_borrow_mut(|world| world.signalled(machine, false));
        let mut most = 0..500;
        while let Some(intid) = next(&self.core.machine) {
            assert!(most.next().is_some(), "the core only takes interrupts");
            self.take(intid);
        }
    }

    fn handle(&mut self) {
        let register = &self.core.machine.list[random(4) as usize];
        let value = ListRegister(register.get());
        if value.0 & ListRegister::PENDING != 0 {
            register.set(value.0 & !ListRegister::PENDING | ListRegister::ACTIVE);
        } else if value.is_in_use() {
            register.set(value.0 & !ListRegister::ACTIVE);
            if value.is_hardware() {
                self.core.machine.deactivate(value.intid().0);
            }
        }
    }

    fn act(&mut self) {
        let now = self.core.machine.now.get();
        let last = self.core.loaded as u64 == SLOTS - 1;
        match random(64) {
            0..16 => self.core.exit(WFI),
            16..36 => (0..random(8)).for_each(|_| self.handle()),
            36..41 => self.core.set_timer((now + random(2000)).saturating_sub(500), random(4)),
            41..50 => {
                let register = [0x100, 0x180, 0x200, 0x280, 0x300, 0x380][random(6) as usize];
                self.core.write_private(register, [1 << TIMER, 0xffff, u32::MAX][random(3) as usize]);
            }
            50..54 => pend(41 + 10 * random(SLOTS) as u32),
            54 if !last => drop(call(self.core.own(), SYSTEM_OFF, [0; 3])),
            55 if !last => self.core.own().fault(Fault::new(REASON_DATA_ABORT, 0)),
            56 | 57 => {
                let (target, request) = (random(SLOTS - 1), random(4));
                self.core.machine.store64(PhysicalAddress(MANAGER + 8 * target), now << 8 | request);
                pend(MONITOR_SGI);
            }
            _ => {}
        }
        self.core.go_on();
    }

    fn check(&mut self, name: &str, deep: bool) {
        let loaded = self.core.loaded;
        let scheduler = self.core.vcpus[loaded].core.scheduler.as_deref().expect("the loaded vCPU has it");
        if deep {
            check_policy(scheduler, name);
        }
        let dates = scheduler.deadline_ticks.min(scheduler.next_date_ticks);
        assert!(scheduler.armed_ticks <= dates, "{name}: armed for {}, to be {dates}", scheduler.armed_ticks);
        for (number, slot) in scheduler.slots.iter().enumerate().take(SLOTS as usize) {
            let is_running = self.core.vcpus[number].run == RunState::Running;
            let date = slot.monitor_ticks.min(slot.timer_ticks);
            assert!(scheduler.next_date_ticks <= date, "{name}: a date of slot {number}");
            if number == loaded {
                let is_known = slot.is_ready() || scheduler.owed_ticks != 0;
                assert!(is_running && is_known && !slot.is_asleep(), "{name}: slot {number} cannot run");
            } else if is_running {
                let context = &slot.registers.context;
                let listed = context.list_used && context.list.iter().any(|value| ListRegister(*value).is_in_use());
                let would_wake = slot.held != Held::Nothing || listed || slot.timer_ticks != context.timer_ticks();
                let sleeps_on = slot.is_asleep() && would_wake && !format!("{slot:?}").contains("deferred: true");
                assert!(!sleeps_on, "{name}: slot {number} sleeps on");
                let waits = slot.is_watched() && slot.is_ready() && !slot.is_asleep() && listed;
                assert!(!waits || slot.has_acted(), "{name}: slot {number} has an interrupt and a closed gate");
            }
        }
    }
}

/// The number behind a name in what a state says of itself.
fn number(text: &str, name: &str) -> u64 {
    let digits = text.split(name).nth(1).and_then(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).expect("it has such a number")
}

/// The policy knows what the slots say, and lets nobody wait for the core who does not ask for it.
fn check_policy(scheduler: &Scheduler, name: &str) {
    let Policy::Servers(servers) = &scheduler.policy else { panic!("servers") };
    let text = format!("{servers:?}");
    let (awake, asking) = (number(&text, " awake: "), number(&text, " asking: "));
    let queues = text.split("links: [").nth(1).expect("queues").split("level: ").skip(1);
    for (place, queue) in (0..scheduler.plan.server_count).zip(queues) {
        assert!(queue.starts_with("255") || asking >> place & 1 != 0, "{name}: server {place} waits and does not ask");
    }
    for slot in (0..SLOTS as u8).filter(|slot| *slot != scheduler.loaded || scheduler.owed_ticks == 0) {
        let is_ready = scheduler.slots[usize::from(slot)].is_ready();
        assert_eq!(is_ready, awake >> slot & 1 != 0, "{name}: the policy knows of slot {slot}");
    }
}

/// QV-41, SP-16, SG-45: nobody's wake-up is lost, nobody waits for the core who has nothing to do, gates are what the
/// guests' interrupts say, and all time is somebody's.
#[test]
fn random_guests() {
    for story in 0..400 {
        let mut attack = Attack::new(story);
        for step in 0..400 {
            let ticks = random(150);
            WORLD.with_borrow_mut(|world| world.waits = 0);
            attack.core.pass(ticks);
            attack.ran[attack.core.loaded] += ticks;
            attack.take_all();
            attack.act();
            attack.take_all();
            attack.check(&format!("story {story}, step {step}"), step % 16 == 0);
        }
        let (ran, now) = (attack.ran, attack.core.machine.now.get());
        let scheduler = attack.core.own().core.scheduler.as_deref_mut().expect("the loaded vCPU has it");
        scheduler.catch_up();
        let Policy::Servers(servers) = &mut scheduler.policy else { panic!("servers") };
        servers.advance(now);
        let mut used = [0; SLOTS as usize];
        for (number, server) in (0..).zip(scheduler.plan.servers()) {
            let usage = servers.usage(number);
            used[server.slot as usize] += usage.budgeted_ticks + usage.background_ticks;
        }
        let sum = used.iter().sum::<u64>() + servers.idle_ticks();
        // At first time passes before the policy has anybody to choose.
        assert!(now - 1_000_000 - sum <= 1000, "story {story}: {sum} ticks of {now} are somebody's");
        assert!((0..3).all(|slot| used[slot] >= ran[slot]), "story {story}: they ran for {ran:?}, paid {used:?}");
    }
}
