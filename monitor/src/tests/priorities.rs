//! The interrupt controller in each form that EL2 can find it in: with one security state, or the non-secure half of one with two.

use super::*;
use crate::life::boot::security_states;
use bulkhead_arch::fake::Event;
use bulkhead_emulation::gic::MOST_URGENT_PHYSICAL;

const PRIVATE: u64 = 0x080b_0000;
/// Priorities of five bits.
const LEVELS: [u8; 32] = {
    let mut levels = [0; 32];
    let mut level = 0;
    while level < 32 {
        levels[level] = 8 * level as u8;
        level += 1;
    }
    levels
};

fn with_windows(mode: u32) -> PartitionPlan {
    let mut plan = partition(1);
    plan.mode = mode;
    for (window, (kind, guest)) in plan.windows.iter_mut().zip([(WINDOW_GICD, GICD), (WINDOW_GICR, 0x080a_0000)]) {
        *window = Window { guest: bulkhead_abi::GuestAddress(guest), bytes: 0x2_0000, kind, ..Default::default() };
    }
    plan.window_count = 2;
    plan
}

fn access(core: &mut Vcpu<FakeMachine>, address: u64, is_write: bool) {
    core.machine.exit.set((address, address >> 12 << 4));
    // A data abort of one byte, to or from x1, with nothing mapped there.
    core.data_abort(0x24 << 26 | 1 << 25 | 1 << 24 | 1 << 16 | u64::from(is_write) << 6 | 0x05);
}

/// The guest writes a priority and reads it back.
fn write_and_read(core: &mut Vcpu<FakeMachine>, intid: u32, priority: u8) -> u8 {
    let address = if intid < 32 { PRIVATE } else { GICD } + 0x400 + u64::from(intid);
    core.head.frame.set_register(1, priority.into());
    access(core, address, true);
    core.head.frame.set_register(1, u64::MAX);
    access(core, address, false);
    core.head.frame.register(1) as u8
}

/// A guest has 32 levels whatever the interrupt controller has; what it wrote is what it reads and what its list
/// registers and the vectors have.
#[test]
fn a_guest_has_32_levels() {
    in_every_view(|_| {
        let mut core = running(with_windows(MODE_MAPPED));
        for level in LEVELS {
            for intid in [3, 27, 41] {
                assert_eq!(write_and_read(&mut core, intid, level | 5), level, "interrupt {intid}");
                let fast = core.fast_entries()[intid as usize].load(std::sync::atomic::Ordering::Relaxed);
                assert_eq!(fast, if intid == 3 { 0 } else { level }, "interrupt {intid}");
                core.interrupt(intid);
                assert_eq!(core.machine.list[0].take() >> 48 & 0xff, u64::from(level), "interrupt {intid}");
            }
        }
    });
}

/// MZ-18: on a shared core each vCPU has levels of its own for its private interrupts, and the redistributor's are the same for all.
#[cfg(feature = "shared")]
#[test]
fn vcpus_of_a_core_have_levels_of_their_own() {
    in_every_view(|_| {
        let mut core = super::shared::with_the_first_asleep();
        core.write_private(0x100, u32::MAX);
        for level in LEVELS {
            core.write_private(0x400, u32::from(level) << 24);
            core.write_private(0x418, u32::from(level) << 24);
            // No guest's software-generated interrupt comes from the machine.
            core.own().head.frame.set_register(0, 3 << 24 | 1);
            for intid in [3, 27] {
                if intid == 3 {
                    core.exit(super::shared::SEND_SGI)
                } else {
                    core.interrupt(intid)
                }
                assert_eq!(core.machine.list[0].take() >> 48 & 0xff, u64::from(level), "interrupt {intid}");
                core.machine.deactivate(intid);
            }
        }
        for (vcpu, level) in core.vcpus.iter().zip([0xa0, 0xf8]) {
            assert_eq!([3, 27].map(|intid| vcpu.priority_of(intid)), [level; 2]);
        }
        let physical = core.machine.load32(PhysicalAddress(PRIVATE + 0x400 + 24));
        assert_eq!(physical, 0xa000_00a0, "24 and 27; 25 and 26 are the monitor's");
    });
}

/// A8: whatever a guest writes, its interrupts are signalled, and the monitor's own are more urgent: alone they pass the mask of a core
/// whose guest does not run.
#[test]
fn no_guest_is_as_urgent_as_the_monitor() {
    const OWN: &[u32] = if IS_KICKED { &[25, 26] } else { &[15, 25, 26] };
    in_every_view(|view| {
        for level in LEVELS {
            let mut core = running(with_windows(MODE_MAPPED));
            let machine = core.machine.clone();
            let taken = || {
                machine.pending.borrow_mut().clear();
                machine.pending.borrow_mut().extend([3, 27, 41].into_iter().chain(OWN.iter().copied()));
                std::iter::from_fn(|| Some(machine.acknowledge()).filter(|intid| *intid < 1020)).collect::<Vec<_>>()
            };
            for intid in [3, 27, 41] {
                write_and_read(&mut core, intid, level);
            }
            assert_eq!(taken().len(), 3 + OWN.len(), "{view:?}, level {level:#x}");
            core.mask_guest_interrupts();
            assert_eq!(taken(), OWN, "{view:?}, level {level:#x}");
        }
    });
}

/// The masks of a `direct` guest are those of the physical interface, so its priorities are the interrupt controller's, as it gives
/// them back.
#[test]
fn a_direct_guest_has_the_levels_of_the_board() {
    in_every_view(|view| {
        let mut core = running(with_windows(MODE_DIRECT));
        for level in LEVELS {
            let has = if view == View::One { level } else { level & 0xf0 };
            assert_eq!(write_and_read(&mut core, 41, level), has);
            assert_eq!(core.machine.load8(PhysicalAddress(GICD + 0x400 + 41)), has);
        }
        assert!(!core.machine.signals.get(), "and nothing is signalled before it says so");
    });
}

/// The boot core looks before it touches anything.
#[test]
fn security_states_are_found() {
    in_every_view(|view| {
        let fresh = FakeMachine::with_controller(view, PhysicalAddress(GICD), PhysicalAddress(0x080a_0000));
        for machine in [fresh, machine(PhysicalAddress(0x080a_0000))] {
            assert_eq!(security_states(&machine, PhysicalAddress(GICD)), view.security_states());
        }
        let nothing = FakeMachine::default();
        assert_eq!(security_states(&nothing, PhysicalAddress(GICD)), 0, "no interrupt controller answers with zeros");
    });
}

/// Boot loaders and firmware may have left affinity routing on, which must not be switched off again, and groups enabled.
#[test]
fn the_distributor_is_set_up_whatever_it_was() {
    in_every_view(|view| {
        let machine = FakeMachine::with_controller(view, PhysicalAddress(GICD), PhysicalAddress(0x080a_0000));
        machine.store32(PhysicalAddress(GICD), 0x12);
        let mut header = ImageHeader::new_zeroed();
        header.gicd = PhysicalAddress(GICD);
        start_distributor(&machine, &header);
        let own = if view == View::One { 0x52 } else { 0x12 };
        assert_eq!(machine.load32(PhysicalAddress(GICD)), own, "affinity routing and group 1");
        let group = if view == View::One { u32::MAX } else { 0 };
        assert_eq!(machine.load32(PhysicalAddress(GICD + 0x84)), group);
    });
}

/// Firmware may have kept an interrupt that the plan uses for the secure world.
#[test]
fn an_interrupt_that_firmware_kept_is_named() {
    in_every_view(|view| {
        for intid in [0, 14, 15, 25, 26, 27, 30, 40, 46, 80] {
            let kept = |kept: bool| {
                let core = cores(partition(1)).remove(0);
                core.machine.secure.borrow_mut().clear();
                if kept {
                    core.machine.secure.borrow_mut().insert(intid);
                }
                // The boot core sets the distributor up on the board as firmware left it.
                let mut header = ImageHeader::new_zeroed();
                header.gicd = PhysicalAddress(GICD);
                core.machine.words.borrow_mut().clear();
                start_distributor(&core.machine, &header);
                core.begin_core();
                core.refused_interrupt()
            };
            assert_eq!(kept(false), None);
            let is_used = view != View::One && !(IS_KICKED && intid < 16);
            assert_eq!(kept(true), Some(intid).filter(|_| is_used), "{view:?}");
        }
        let other = cores(partition(1)).remove(0);
        other.machine.secure.borrow_mut().extend([29, 39, 47, 255]);
        other.begin_core();
        assert_eq!(other.refused_interrupt(), None, "what it does not use");
    });
}

/// So may it have kept the interrupt of the UART that the monitor reads; who takes the focus first sees to it.
#[test]
fn an_interrupt_of_the_console_that_firmware_kept_is_named() {
    in_every_view(|view| {
        for (first, kept) in [(1, 33), (0, 33), (1, 34)] {
            let mut core = cores(partition(1)).remove(0);
            let plan =
                VcpuPlan { uart: PhysicalAddress(0x0900_0000), uart_interrupt: 33, uart_first: first, ..*core.plan };
            core.plan = Box::leak(Box::new(plan));
            core.machine.secure.borrow_mut().insert(kept);
            core.begin_core();
            let is_named = view != View::One && (first, kept) == (1, 33);
            assert_eq!(core.refused_interrupt(), is_named.then_some(33), "{view:?}, first {first}, kept {kept}");
        }
    });
}

/// Firmware that takes the interrupts of group 0 and enters the image with a secure mask lets EL2 write none: no interrupt would ever come.
#[test]
fn a_mask_that_firmware_kept_is_found() {
    for mode in [MODE_MAPPED, MODE_DIRECT] {
        in_every_view(|view| {
            let mut plan = partition(1);
            plan.mode = mode;
            let mut core = cores(plan).remove(0);
            core.begin_core();
            assert_eq!(core.refused_interrupt(), None, "{view:?}");
            core.begin_partition();
            assert_eq!(
                core.machine.mask.get() == 0xf8,
                mode == MODE_MAPPED,
                "a direct guest finds the mask of a reset"
            );
            let other = cores(plan).remove(0);
            other.machine.mask.set(0x78);
            other.begin_core();
            assert_eq!(other.refused_interrupt(), (view == View::Two).then_some(1023), "{view:?}");
        });
    }
}

/// A controller may have more interrupts than the monitor holds, and a boot loader may have left one of them enabled: nobody would end it.
#[test]
fn no_interrupt_is_left_enabled() {
    in_every_view(|view| {
        let machine = FakeMachine::with_controller(view, PhysicalAddress(GICD), PhysicalAddress(0x080a_0000));
        machine.store32(PhysicalAddress(GICD + 4), 0x1f);
        let mut header = ImageHeader::new_zeroed();
        header.gicd = PhysicalAddress(GICD);
        start_distributor(&machine, &header);
        for word in 1..32 {
            assert_eq!(machine.load32(PhysicalAddress(GICD + 0x180 + 4 * word)), u32::MAX, "{view:?}, word {word}");
        }
        assert_eq!(machine.load32(PhysicalAddress(GICD + 0xc40)), 0, "triggers beyond the plan's are left alone");
    });
}

/// A boot loader may have left message-signalled interrupts on, with tables in memory that redistributors write.
#[test]
fn no_redistributor_writes_memory() {
    in_every_view(|view| {
        let core = cores(partition(1)).remove(0);
        core.machine.store32(core.plan.gicr, 1);
        core.begin_core();
        assert_eq!((core.machine.load32(core.plan.gicr), core.refused_interrupt()), (0, None), "{view:?}");
        // There are redistributors that keep it on.
        core.machine.store32(core.plan.gicr, 1);
        assert_eq!(core.refused_interrupt(), Some(8192), "{view:?}");
    });
}

/// Whatever number is acknowledged, unless it means that there is nothing, its priority is dropped: otherwise it would be the last one.
#[test]
fn every_interrupt_is_ended() {
    for intid in (0..1040).chain([4096, 8191, 8192, 0xff_ffff]) {
        let mut core = running(partition(1));
        core.interrupt(intid);
        let drops = core.machine.take_events().into_iter().filter(|event| *event == Event::PriorityDrop(intid)).count();
        assert_eq!(drops, usize::from(!(1020..1024).contains(&intid)), "INTID {intid}");
    }
}

/// With two security states the smallest mask of guests is the monitor's only way to hear of nothing else, wherever its view begins.
#[test]
fn the_mask_is_the_same_priority_in_every_view() {
    in_every_view(|view| {
        let core = running(partition(1));
        core.mask_guest_interrupts();
        let physical = if view == View::One { MOST_URGENT_PHYSICAL } else { 0x88 };
        assert_eq!(core.machine.mask.get(), physical);
    });
}
