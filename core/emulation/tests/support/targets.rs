//! The bodies of the fuzz targets: bytes in, assertions inside. `cargo test` runs them on seeded bytes, `fuzz/` under
//! libFuzzer.

use super::bus::{Monitor, at, bus};
use super::input::Input;
use super::page::Page;
use super::plan;
use super::shadow::{Frame, Shadow, States};
use bulkhead_abi::virtio::{DEVICE_BLOCK, DEVICE_NET, FEATURES_HIGH, FrontPlan, QUEUE_DESCRIPTORS};
use bulkhead_emulation::gic::{FRAME_BYTES, Filter, OwnedInterrupts};
use bulkhead_emulation::pci::{Bus, PciEffect, PciState};
use bulkhead_emulation::pl011::{LineEffect, Pl011State};
use bulkhead_emulation::psci::{self, Call};
use bulkhead_emulation::sysreg::{self, SystemAction};
use bulkhead_emulation::trap::{ExceptionClass, Syndrome, encoding};
use bulkhead_emulation::virtio::{Front, FrontEffect, FrontState};
use zerocopy::FromZeros;

/// A body by name.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// Every body.
pub(crate) const TARGETS: &[Target] =
    &[("trap", trap), ("gic", gic), ("pci", pci), ("pl011", pl011), ("virtio", virtio)];

/// Any ESR_EL2 and any call: decoded without a panic, and only what the allow-lists name does something (QV-13, QV-16).
pub(crate) fn trap(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let syndrome = Syndrome(input.value());
        assert_eq!(u64::from(syndrome.exception_class().0), syndrome.0 >> 26 & 0x3f);
        let abort = syndrome.data_abort();
        assert!(abort.register < 32 && matches!(abort.bytes, 1 | 2 | 4 | 8));
        assert!(!abort.valid || syndrome.0 & (1 << 7) == 0);
        assert_eq!(abort.unmapped, syndrome.0 & 0xbc == 4);
        let value = input.value();
        if abort.bytes < 8 {
            assert_eq!(abort.stored(value) >> (8 * u32::from(abort.bytes)), 0);
        }
        let mask = if abort.bytes == 8 { u64::MAX } else { (1 << (8 * u32::from(abort.bytes))) - 1 };
        let wide = abort.sixty_four || abort.bytes < 8;
        assert!(!wide || abort.loaded(value) & mask == value & mask);
        let access = syndrome.system_access();
        if sysreg::classify(access) == SystemAction::SendSgi1 {
            assert_eq!((access.encoding, access.read), (encoding(3, 0, 12, 11, 5), false));
        }
        let (sender, count) = (input.below(8) as u32, 1 + input.below(8) as u32);
        let targets = sysreg::sgi_targets(value, sender, count);
        assert!(u64::from(targets.vcpus) < 1 << count && targets.intid < 16);
        assert!(targets.vcpus == 0 || targets.intid < 15);
        let power = (value >> 40 & 1 != 0).then_some(());
        match psci::decode(power, value, input.value(), input.value(), input.value()) {
            Call::NotSupported | Call::Answer(_) | Call::Features(_) => {}
            Call::CpuOn { target, .. } | Call::AffinityInfo(target) => {
                assert!(psci::vcpu_of(target, count).is_none_or(|vcpu| vcpu < count));
            }
            Call::Manage(..) => assert!(power.is_some(), "nobody else may"),
            _ => assert!(matches!(value as u32 >> 24, 0x84 | 0xc4 | 0xc6)),
        }
        assert!(syndrome.exception_class() <= ExceptionClass(0x3f));
    }
}

/// Any access to the GIC of any plan: the model panics when a foreign bit is touched or seen (A8, A10, A11, QV-13).
pub(crate) fn gic(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let intids: Vec<u32> = (0..input.below(6)).map(|_| input.below(300) as u32).collect();
    let mut plan = plan(&intids);
    plan.vcpu_count = 1 + input.below(8) as u32;
    for (mpidr, affinity) in
        plan.vcpu_mpidr.iter_mut().zip([0x8000_0003, 2, 1, 0x100, 0x101, 0x1_0000, 0x1_0000_0000, 7u64])
    {
        *mpidr = affinity;
    }
    let owned = OwnedInterrupts::from_plan(&plan);
    let states = States::BOTH[input.below(2) as usize];
    let distributor = Shadow::filled(states, Frame::Distributor, &plan, u32::MAX);
    let redistributor = Shadow::filled(states, Frame::Redistributor, &plan, u32::MAX);
    let filter = |port| Filter { owned: &owned, plan: &plan, port };
    while !input.is_empty() {
        let (offset, width, value) = (gic_offset(&mut input), input.width(), input.value());
        let vcpu = input.below(u64::from(plan.vcpu_count)) as u32;
        match input.byte() & 3 {
            0 => _ = filter(&distributor).distributor_write(offset, width, value),
            1 => {
                if let Some(seen) = filter(&distributor).distributor_read(offset, width) {
                    distributor.check_seen(offset, width, seen);
                    assert!(!(0x6000..0x8000).contains(&offset) || seen < u64::from(plan.vcpu_count));
                }
            }
            2 => _ = filter(&redistributor).redistributor_write(vcpu, offset, width, value),
            _ => {
                let seen = filter(&redistributor).redistributor_read(vcpu, offset, width);
                let short = filter(&redistributor).own_set_clear_read(vcpu, offset, width);
                assert!(short.is_none() || short == seen, "both ways come to the same");
                if let Some(seen) = seen
                    && offset & 0x1_0000 != 0
                {
                    redistributor.check_seen(offset & 0xffff, width, seen);
                }
            }
        }
    }
}

/// Anywhere, a route, or a bit register of the distributor or of some redistributor.
fn gic_offset(input: &mut Input) -> u64 {
    match input.byte() & 7 {
        0 => input.word(),
        1 => input.below(0x1_0000),
        2 | 3 => 0x6000 + 8 * input.below(300) + 4 * (u64::from(input.byte()) / 200),
        4 | 5 => 0x80 * input.below(32) + input.below(32),
        _ => input.below(9) * FRAME_BYTES + 0x1_0000 + 0x80 * input.below(32) + input.below(12),
    }
}

/// Any access to the virtual bus: identities and addresses stay, effects name own interrupts and doorbells only, foreign
/// partitions are not looked at (the monitor of the model panics).
pub(crate) fn pci(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (plan, state) = bus();
    let bus = Bus { plan: &plan, state: &state };
    let monitor = Monitor::new(if input.byte() & 1 == 0 { 1 } else { 5 });
    while !input.is_empty() {
        let (width, index, value) = (input.width(), input.below(4) as u32, input.value());
        let effect = match input.byte() & 7 {
            0 => {
                let _ = bus.config_read(input.word(), width);
                bus.config_write(input.word(), width, value)
            }
            1..=3 => {
                let offset = at(input.below(5), input.below(0x44));
                let seen = bus.config_read(offset, width);
                assert!(width == 8 || seen >> (8 * u32::from(width)) == 0);
                bus.config_write(offset, width, value)
            }
            4 => {
                let _ = bus.register_read(index, input.below(0x1000), width, &monitor);
                PciEffect::None
            }
            5 | 6 => bus.register_write(index, 4 * input.below(20), width, value, &monitor),
            _ => {
                let injected = state.doorbell_arrived(&plan, index);
                assert!(!injected || index < plan.pci_count);
                PciEffect::None
            }
        };
        assert!(
            matches!(effect, PciEffect::None | PciEffect::Pend(40) | PciEffect::Doorbell(0) | PciEffect::Heartbeat),
            "{effect:?}"
        );
    }
    for register in [0x10, 0x18, 0x1c] {
        for device in 1..4 {
            assert_eq!(bus.config_write(at(device, register), 4, 0), PciEffect::None);
        }
    }
    let fresh = PciState::new_zeroed();
    for device in 0..4 {
        for register in [0, 8, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x2c, 0x30, 0x34] {
            let seen = |state| Bus { plan: &plan, state }.config_read(at(device, register), 4);
            assert_eq!(seen(&state), seen(&fresh), "device {device}, register {register:#x}");
        }
    }
}

/// Any use of the UART: an edge-triggered interrupt that follows its effects is pending exactly while the masked status is
/// not zero, and every byte written comes out.
pub(crate) fn pl011(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let device = Pl011State::new_zeroed();
    let mut pending = false;
    while !input.is_empty() {
        let offset = match input.byte() & 7 {
            0 | 1 => 0,
            2 => 0x38,
            3 => 0x44,
            4 => input.word(),
            _ => 4 * input.below(0x400),
        };
        let effect = match input.byte() & 3 {
            0 => device.read(offset).interrupt,
            1 if device.push_input(input.byte()) => LineEffect::Pend,
            1 => LineEffect::None,
            _ => {
                let value = input.value() as u32;
                let effect = device.write(offset, value);
                assert_eq!(effect.output, (offset == 0).then_some(value as u8));
                effect.interrupt
            }
        };
        match effect {
            LineEffect::Pend => pending = true,
            LineEffect::Clear => pending = false,
            LineEffect::None => {}
        }
        assert_eq!(pending, device.read(0x40).value != 0);
        assert_eq!(device.read(0x18).value & 0x28, 0, "busy or full");
    }
}

/// Any access to a front, while both partitions write to the device page: the page of the model panics when the monitor stores to
/// anything but a record or the generation; identity and features stay; numbers of records alternate (H23, QV-53).
pub(crate) fn virtio(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let device = if input.byte() & 1 == 0 { DEVICE_NET } else { DEVICE_BLOCK };
    let plan = FrontPlan { device, features: input.word() as u32, doorbell: 3, padding: 0 };
    let (state, page) = (FrontState::new_zeroed(), Page::new());
    let front = Front { plan: &plan, state: &state, page: &page };
    let mut changes = [0; 2];
    while !input.is_empty() {
        let (width, value) = (input.width(), input.value() as u32);
        let known = [0x10, 0x14, 0x20, 0x24, 0x30, 0x34, 0x38, 0x44, 0x50];
        let action = input.byte() & 7;
        match action {
            0 => page.poke(input.below(1024) as u32 * 4, value),
            1 => page.poke(QUEUE_DESCRIPTORS + input.below(12) as u32 * 4, value),
            2 => {
                front.stop();
                let _ = front.is_left();
                front.start(value);
            }
            3 => _ = front.read(input.value() as u32, width),
            _ => {
                let named = known[input.below(known.len() as u64) as usize];
                let offset = if action == 4 { input.word() as u32 } else { named };
                page.stored.borrow_mut().clear();
                let effect = front.write(offset, width, value & input.below(0x1_0000) as u32);
                assert_eq!(effect == FrontEffect::Doorbell(3), offset == 0x50 && width == 4);
                let stored = page.stored.borrow();
                assert!(stored.is_empty() || (offset, width, stored.len()) == (0x44, 4, 9));
                if let Some(at) = stored.first() {
                    let queue = (at - bulkhead_abi::virtio::RECORDS) / bulkhead_abi::virtio::RECORD_BYTES;
                    assert!(queue < plan.queues());
                    changes[queue as usize] += 2;
                    assert_eq!(page.record(queue).sequence, changes[queue as usize]);
                }
            }
        }
    }
    let read = |offset| front.read(offset, 4);
    assert_eq!([0, 4, 8, 0xc].map(read), [0x7472_6976, 2, device, 0x4b4c_5542]);
    for (select, features) in [(0, plan.features), (1, FEATURES_HIGH)] {
        let _ = front.write(0x14, 4, select);
        assert_eq!(read(0x10), features);
    }
}
