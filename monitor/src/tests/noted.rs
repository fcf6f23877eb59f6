//! What is active in the interrupt controller is noted for somebody, and private interrupts for nobody but the loaded vCPU: A2 and
//! A3 of docs/base-findings.md (QV-8, MZ-18). Whatever order guests, devices and the core do their things in.

use super::calls::call;
use super::shared::{Core, SEND_SGI, WFI, budgeted, schedule, server};
use super::*;
use crate::interrupts::{HYPERVISOR_TIMER, MAINTENANCE, MONITOR_SGI};
use crate::life::health::Fault;
use bulkhead_abi::schedule::{Gate, ServerFlag, ServerPlan};
use bulkhead_abi::status::{self, MANAGE_RESTART, MANAGE_RESUME, MANAGE_SUSPEND, REASON_DATA_ABORT};
use bulkhead_arch::GuestContext;
use bulkhead_arch::fake::Event;
use bulkhead_arm::ListRegister;
use std::collections::BTreeSet;

const TIMERS: [u32; 2] = [27, 30];
const HARDWARE: u64 = 1 << 61;
const SLOTS: u32 = 3;
const CPU_ON: u64 = 0xc400_0003;
const CPU_OFF: u64 = 0x8400_0002;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// Three vCPUs: an important one, one whose gate closes at the end of an interrupt, and one that never sleeps.
fn three() -> Core {
    let gated = ServerPlan {
        gate: Gate::Interrupt.number(),
        flags: ServerFlag::VoluntaryReturn.number(),
        ..budgeted(1, 3, 2000, 10_000)
    };
    Core::with(schedule(&[server(0, 1), gated, server(2, 5), server(1, 6)], SLOTS), |_, partition| {
        partition.health.policy = POLICY_RESTART;
        partition.health.max_restarts = 8;
        partition.ram[0].bytes = 0x1000;
        partition.manage[3] = PhysicalAddress(PEER_MANAGE);
        partition.windows[1] = Window {
            guest: bulkhead_abi::GuestAddress(GICD),
            bytes: 0x1_0000,
            kind: WINDOW_GICD,
            ..Default::default()
        };
        partition.window_count = 2;
    })
}

/// The interrupt that a list register stands for in the interrupt controller.
fn stands_for(value: u64) -> Option<u32> {
    let is_ended = value >> 62 == 0 && value & ListRegister::END_OF_INTERRUPT != 0 && value & HARDWARE == 0;
    Some(value as u32).filter(|intid| *intid >= 16 && (value >> 62 != 0 || is_ended))
}

fn bitmap(words: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u32> {
    let bits =
        |(index, word): (u32, u64)| (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit);
    (0u32..).zip(words).flat_map(bits)
}

impl Core {
    /// Interrupts that are noted for a vCPU, wherever.
    fn noted(&mut self, number: usize) -> Vec<u32> {
        let is_loaded = number == self.loaded;
        let vcpu = &self.vcpus[number];
        let mut noted: Vec<u32> = bitmap(vcpu.waiting.iter().map(|word| word.get())).collect();
        let slot = &self.scheduler().slots[number];
        let context = slot.registers.context;
        match slot.held {
            crate::sharing::scheduler::Held::Nothing => {}
            crate::sharing::scheduler::Held::One(intid) => noted.push(intid),
            crate::sharing::scheduler::Held::Several => noted.extend(bitmap(slot.waiting)),
        }
        if is_loaded {
            noted.extend(self.machine.list.iter().filter_map(|value| stands_for(value.get())));
        } else if context.list_used {
            noted.extend(context.list.into_iter().filter_map(stands_for).filter(|intid| *intid >= 32));
        }
        noted.retain(|intid| *intid >= 16);
        noted
    }

    fn assert_noted(&mut self, after: &str) {
        let mut all = Vec::new();
        for number in 0..self.vcpus.len() {
            let noted = self.noted(number);
            assert!(number == self.loaded || noted.iter().all(|intid| *intid >= 32), "{after}: {number} has {noted:?}");
            all.extend(noted);
        }
        let once: BTreeSet<u32> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len(), "{after}: twice in {all:?}");
        assert_eq!(*self.machine.active.borrow(), once, "{after}: active is what is noted");
    }

    /// A device or a timer of the loaded vCPU raises an interrupt, unless it is active and so silent.
    fn raise(&mut self, intid: u32) {
        if intid < 32 {
            if self.own().private.enabled.get() & 1 << intid == 0 {
                return;
            }
            let mut registers = self.machine.registers.get();
            let at = GuestContext::TIMERS + if intid == 27 { 0 } else { 2 };
            (registers[at], registers[at + 1]) = (0, 1);
            self.machine.registers.set(registers);
        }
        let is_active = self.machine.active.borrow().contains(&intid);
        if !is_active {
            self.interrupt(intid);
        }
    }

    /// The loaded guest takes an interrupt, or ends one.
    fn handle(&mut self, index: usize, is_end: bool) {
        let value = self.machine.list[index].get();
        match value >> 62 {
            1 if !is_end => self.machine.list[index].set(value ^ 3 << 62),
            2 | 3 if is_end => {
                self.machine.list[index].set(value & !(1 << 63));
                if value & HARDWARE != 0 {
                    self.machine.deactivate(value as u32);
                }
            }
            _ => {}
        }
    }

    fn state(&self, slot: u32) -> u32 {
        let page = STATUS + 0x10_0000 * u64::from(slot);
        self.machine.load32(PhysicalAddress(page + offset_of!(StatusPage, state) as u64))
    }

    /// A manager on another core asks something of the partition of a slot.
    fn manage(&mut self, slot: u32, request: u32) {
        let place = PhysicalAddress(PEER_MANAGE + 8 * u64::from(slot));
        let word = status::next_request(self.machine.load64(place), request);
        self.machine.store64(place, word);
        self.interrupt(MONITOR_SGI);
    }

    fn step(&mut self, random: &mut impl FnMut(u32) -> u32) -> &'static str {
        let bits = if random(2) == 0 { 1 << 27 | 1 << 30 } else { random(1 << 31) };

        match random(24) {
            0..=2 => self.raise(TIMERS[random(2) as usize]),
            3 | 18 => {
                let slot = random(SLOTS);
                // The interrupts of a partition that is off are disabled.
                if self.state(slot) != status::STATE_OFF {
                    self.raise(40 + 10 * slot + random(2));
                }
            }
            4..=5 => {
                self.own().head.frame.set_register(0, u64::from(random(6)) << 24 | 1);
                self.exit(SEND_SGI);
                return "SGI";
            }
            6 => self.handle(random(4) as usize, false),
            7 => self.handle(random(4) as usize, true),
            8 => self.interrupt(MAINTENANCE),
            9..=10 => {
                let register = [0x100, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380][random(7) as usize];
                self.write_private(register, bits);
                return "a write to the redistributor";
            }
            11 => {
                // SPIs 32 to 63: of slots 0 and 1.
                self.write(GICD + [0x284, 0x384][random(2) as usize], bits);
                return "a write to the distributor";
            }
            12 | 15..=17 if self.loaded != 2 => {
                for index in 0..4 {
                    self.handle(index, false);
                    self.handle(index, true);
                }
                self.interrupt(MAINTENANCE);
                self.exit(WFI);
            }
            13 => {
                self.pass(u64::from(random(3000)));
                self.interrupt(HYPERVISOR_TIMER);
            }
            14 if random(8) == 0 => {
                self.own().fault(Fault::new(REASON_DATA_ABORT, 0));
                self.go_on();
                return "a restart";
            }
            // Not of the one that never sleeps, so that somebody runs.
            20..=22 => {
                let slot = random(2);
                let is_off = self.state(slot) == status::STATE_OFF;
                let request = [MANAGE_RESTART, MANAGE_SUSPEND, MANAGE_RESUME, MANAGE_RESUME][random(4) as usize];
                self.manage(slot, if is_off { MANAGE_RESTART } else { request });
                return "a manager's request";
            }
            23 if self.loaded != 2 => {
                let function = [CPU_OFF, SYSTEM_OFF][random(2) as usize];
                call(self.own(), function, [0; 3]);
                self.go_on();
                return if function == CPU_OFF { "CPU_OFF" } else { "SYSTEM_OFF" };
            }
            _ => {}
        }
        "an interrupt, its handling or a sleep"
    }
}

#[test]
fn what_is_active_is_noted_for_the_loaded_vcpu() {
    let (mut exchanges, mut ends, mut suspended) = (0, 0, 0);
    for seed in 1..=200u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as u32 % below
        };
        use_view(View::ALL[seed as usize % View::ALL.len()]);
        let mut core = three();
        core.assert_noted("the start");
        for step in 0..400 {
            let before = core.loaded;
            let what = core.step(&mut random);
            core.assert_noted(&std::format!("seed {seed}, step {step}, {what}, {before} to {}", core.loaded));
            exchanges += u32::from(before != core.loaded);
            if what == "CPU_OFF" || what == "SYSTEM_OFF" {
                ends += 1;
            }
            suspended += u32::from((0..SLOTS).any(|slot| core.state(slot) == status::STATE_SUSPENDED));
        }
    }
    println!("{exchanges} exchanges, {ends} ends, {suspended} steps beside one that is suspended");
    assert!(exchanges > 4000 && ends > 500 && suspended > 10_000);
}

/// A3: what waits for a list register is forgotten when the guest clears it, and comes again when it is raised again.
#[test]
fn what_waits_is_cleared_too() {
    let mut core = running(partition(1));
    for intid in [40, 41, 42, 43, 44, 27] {
        core.interrupt(intid);
    }
    core.machine.take_events();
    assert_eq!(
        core.forget_cleared(0x380 + 4, 1 << (44 - 32)),
        0,
        "only pending to the guest, so not for it to deactivate"
    );
    core.forget_cleared(0x280 + 4, 1 << (44 - 32));
    core.forget_cleared(0x280, u32::MAX);
    assert_eq!(core.machine.take_events(), [Event::Deactivate(44), Event::Deactivate(27)]);
    core.machine.list.iter().for_each(|value| value.set(0));
    core.interrupt(MAINTENANCE);
    assert!(core.machine.list.iter().all(|value| value.get() == 0) && !core.machine.underflow.get());
}

/// What a core of the vCPU's own forgets without deactivating it at CPU_OFF (its timer), its next start deactivates; a shared
/// interrupt that it was handling stays active until a guest clears it.
#[test]
fn a_start_leaves_no_private_interrupt_active() {
    in_every_view(|_| {
        let mut both = cores(partition(2));
        both[0].begin();
        let switch_on = |both: &mut [Vcpu<FakeMachine>]| {
            call(&mut both[0], CPU_ON, [1, 0x4010_0000, 0]);
            both[1].interrupt(MONITOR_SGI);
            assert_eq!(both[1].run, RunState::Running);
        };
        switch_on(&mut both);
        let core = &mut both[1];
        core.machine.active.borrow_mut().clear();
        core.interrupt(40);
        core.machine.list[0].set(core.machine.list[0].get() ^ 3 << 62); // the guest handles 40
        [30, 1, 2, 27, 41].into_iter().for_each(|intid| core.interrupt(intid));
        let active = |core: &Vcpu<FakeMachine>| core.machine.active.borrow().iter().copied().collect::<Vec<_>>();
        assert_eq!((active(core), core.waiting[0].get()), (vec![27, 30, 40, 41], 1 << 27 | 1 << 41));
        call(core, CPU_OFF, [0; 3]);
        assert_eq!((active(core), core.waiting[0].get()), (vec![27, 30, 40], 0));
        switch_on(&mut both);
        assert_eq!(active(&both[1]), [40]);
        assert_eq!(both[1].machine.free_list_registers(), 0xf);
    });
}

/// A2: four own software-generated interrupts, then both timers, then another vCPU.
#[test]
fn timers_that_wait_for_a_list_register_leave_with_their_vcpu() {
    in_every_view(|_| {
        let mut core = Core::new(schedule(&[server(0, 1), server(1, 5)], 2));
        core.exit(WFI);
        assert_eq!(core.loaded, 1);
        core.write_private(0x100, u32::MAX);
        core.write_private(0x200, 0xf);
        TIMERS.into_iter().for_each(|intid| core.raise(intid));
        assert_eq!(core.machine.active.borrow().iter().copied().collect::<Vec<_>>(), TIMERS);
        core.interrupt(40);
        assert_eq!(core.loaded, 0);
        core.assert_noted("an exchange");
        core.machine.list[0].set(0);
        core.machine.deactivate(40);
        core.exit(WFI);
        assert_eq!((core.loaded, core.machine.underflow.get()), (1, false), "they ring again by themselves");
    });
}

/// The guest ends all of its interrupts, and another vCPU is loaded before the maintenance interrupt that hands on what waits for a list
/// register. The request for that interrupt leaves with its vCPU and comes back with it.
#[test]
fn a_request_for_list_registers_leaves_with_its_vcpu() {
    in_every_view(|_| {
        let mut core = Core::new(schedule(&[server(0, 1), server(1, 5)], 2));
        core.exit(WFI);
        core.write_private(0x100, u32::MAX);
        core.write_private(0x200, 0x1f);
        assert_eq!((core.loaded, core.listed().len(), core.machine.underflow.get()), (1, 4, true));
        core.machine.list.iter().for_each(|value| value.set(0));
        core.interrupt(40);
        assert_eq!((core.loaded, core.machine.underflow.get()), (0, false), "the other one has asked for nothing");
        core.machine.list[0].set(0);
        core.machine.deactivate(40);
        core.exit(WFI);
        assert_eq!((core.loaded, core.machine.underflow.get()), (1, true), "it still waits");
        core.interrupt(MAINTENANCE);
        assert_eq!((core.listed(), core.machine.underflow.get()), (vec![4], false));
    });
}

/// A3: the guest has ended its timer's interrupt, and another vCPU is loaded before the maintenance interrupt comes.
#[test]
fn an_end_that_was_not_seen_leaves_nothing_active() {
    in_every_view(|_| {
        let gated = ServerPlan {
            gate: Gate::Interrupt.number(),
            flags: ServerFlag::VoluntaryReturn.number(),
            ..budgeted(1, 3, 2000, 10_000)
        };
        let mut core = Core::new(schedule(&[server(0, 1), gated, server(1, 6)], 2));
        core.exit(WFI);
        assert_eq!(core.loaded, 1);
        core.write_private(0x100, u32::MAX);
        core.raise(27);
        core.handle(0, false);
        core.handle(0, true);
        assert!(core.machine.active.borrow().contains(&27));
        core.interrupt(40);
        assert_eq!(core.loaded, 0);
        assert!(!core.machine.active.borrow().contains(&27));
        core.machine.list[0].set(0);
        core.machine.deactivate(40);
        core.exit(WFI);
        assert_eq!(
            (core.loaded, core.machine.ended_list_registers()),
            (1, 1),
            "the end is still to be seen: a gate closes"
        );
        core.interrupt(MAINTENANCE);
        core.assert_noted("the maintenance interrupt");
        assert_eq!(core.machine.list[0].get(), 0);
    });
}
