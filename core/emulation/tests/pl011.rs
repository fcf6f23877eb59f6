//! The virtual PL011 as drivers see it (Arm DDI 0183).

mod support;

use bulkhead_emulation::pl011::*;
use std::sync::atomic::{AtomicU32, Ordering::Release};
use support::random::Random;
use support::spin_until;
use zerocopy::FromZeros;

fn device() -> Pl011State {
    Pl011State::new_zeroed()
}

fn value(device: &Pl011State, offset: u64) -> u32 {
    device.read(offset).value
}

fn line(device: &Pl011State, offset: u64, value: u32) -> LineEffect {
    device.write(offset, value).interrupt
}

#[test]
fn zeroed_memory_is_the_reset_state() {
    // DDI 0183, table 3-1, reset values; FR: transmit empty, receive empty.
    let device = device();
    for (offset, reset) in [
        (0x000, 0),
        (0x004, 0),
        (0x018, 0x90),
        (0x024, 0),
        (0x028, 0),
        (0x02c, 0),
        (0x030, 0x300),
        (0x034, 0x12),
        (0x038, 0),
        (0x03c, 0),
        (0x040, 0),
        (0x048, 0),
        (0xff8, 0x05),
    ] {
        assert_eq!(value(&device, offset), reset, "{offset:#x}");
    }
    // What Linux matches: AMBA id 0x00041011 under mask 0x000fffff, cell id 0xb105f00d.
    let word = |first: u64| (0..4u64).fold(0, |word, n| word | value(&device, first + 4 * n) << (8 * n));
    assert_eq!(word(0xfe0) & 0x000f_ffff, 0x0004_1011);
    assert_eq!(word(0xfe0) >> 20 & 0xf, 3, "revision r1p5: FIFOs of 32 bytes");
    assert_eq!(word(0xff0), 0xb105_f00d);
}

#[test]
fn reset_forgets_everything() {
    let (device, fresh) = (device(), device());
    for offset in (0..0x60).step_by(4) {
        device.write(offset, u32::MAX);
    }
    device.push_input(b'x');
    assert_ne!(value(&device, 0x40), 0);
    assert_eq!(device.reset(), 1, "a byte that nobody read is lost");
    assert_eq!(device.reset(), 0);
    for offset in (0..0x1000).step_by(4) {
        assert_eq!(value(&device, offset), value(&fresh, offset), "{offset:#x}");
    }
}

#[test]
fn every_byte_leaves_at_once() {
    let device = device();
    for byte in 0..=255u8 {
        let effect = device.write(0, 0xabcd_ef00 | u32::from(byte));
        assert_eq!(effect, Pl011Effect { output: Some(byte), interrupt: LineEffect::None });
        assert_eq!(value(&device, 0x18) & (1 << 5 | 1 << 3), 0, "never full, never busy");
    }
    assert_eq!(value(&device, 0x3c), 1 << 5, "transmit interrupt is raw");
}

#[test]
fn settings_read_back() {
    let device = device();
    for (offset, mask) in [(0x24, 0xffff), (0x28, 0x3f), (0x2c, 0xff), (0x30, 0xff87), (0x34, 0x3f), (0x38, 0x7ff)] {
        for pattern in [u32::MAX, 0, 0x5555_5555] {
            assert_eq!(device.write(offset, pattern).output, None);
            assert_eq!(value(&device, offset), pattern & mask, "{offset:#x}");
        }
    }
}

#[test]
fn transmit_interrupt_as_linux_uses_it() {
    // amba-pl011.c: fill, unmask, serve in the handler, mask when nothing is left.
    let device = device();
    assert_eq!(line(&device, 0, u32::from(b'a')), LineEffect::None);
    assert_eq!(line(&device, 0x38, 1 << 5), LineEffect::Pend);
    assert_eq!(value(&device, 0x40), 1 << 5);
    assert_eq!(line(&device, 0, u32::from(b'b')), LineEffect::Pend);
    assert_eq!(line(&device, 0x38, 0), LineEffect::Clear);
    assert_eq!(line(&device, 0x38, 0), LineEffect::None);
    // Other drivers clear it by UARTICR.
    assert_eq!(line(&device, 0x38, 1 << 5), LineEffect::Pend);
    assert_eq!(line(&device, 0x44, 1 << 5), LineEffect::Clear);
    assert_eq!(value(&device, 0x3c), 0);
    assert_eq!(line(&device, 0, u32::from(b'c')), LineEffect::Pend);
}

#[test]
fn input_is_delivered_in_order_and_interrupts_until_it_is_read() {
    let device = device();
    assert!(!device.push_input(b'1'), "masked");
    assert_eq!(line(&device, 0x38, 1 << 4 | 1 << 6), LineEffect::Pend);
    assert!(device.push_input(b'2'));
    assert_eq!(value(&device, 0x18) & (1 << 4), 0);
    // A handler of one byte per interrupt is called again.
    assert_eq!(device.read(0), Pl011Read { value: u32::from(b'1'), interrupt: LineEffect::Pend, taken: true });
    assert_eq!(device.read(0), Pl011Read { value: u32::from(b'2'), interrupt: LineEffect::Clear, taken: true });
    assert_eq!(device.read(0), Pl011Read { value: 0, interrupt: LineEffect::None, taken: false });
    assert_eq!(value(&device, 0x18), 0x90);
}

#[test]
fn overrun_loses_the_newest_byte_and_says_so() {
    let device = device();
    for byte in 0..33 {
        device.push_input(byte);
    }
    assert_eq!(value(&device, 0x18) & (1 << 6), 1 << 6);
    assert_eq!(value(&device, 0x3c), 1 << 4 | 1 << 6 | 1 << 10);
    assert_eq!(value(&device, 0x04), 1 << 3);
    device.write(0x04, 0);
    assert_eq!(value(&device, 0x04), 0);
    let read: Vec<u32> = (0..33).map(|_| value(&device, 0)).collect();
    assert_eq!(read, (0..32).chain([0]).collect::<Vec<u32>>());
}

#[test]
fn counts_wrap_without_loss() {
    let device = device();
    for round in 0..70_000u32 {
        device.push_input(round as u8);
        device.push_input(!round as u8);
        assert_eq!(value(&device, 0), round & 0xff, "round {round}");
        assert_eq!(value(&device, 0), !round & 0xff);
    }
    assert_eq!(value(&device, 0x18), 0x90);
}

#[test]
fn the_line_is_pending_whenever_the_status_is_not_zero() {
    // Hostile or not: after any sequence, an edge interrupt that follows `LineEffect` was raised since the last change that
    // made the masked status non-zero, and none is left over once it is zero.
    let device = device();
    let mut random = Random::new(7);
    let mut pending = false;
    for _ in 0..200_000 {
        let offset = [0, 0, 0x38, 0x44, 0x18, 0x04, 0x30, random.below(0x1000)][random.below(8) as usize];
        let line = match random.below(3) {
            0 => device.read(offset).interrupt,
            1 => device.write(offset, random.hostile() as u32).interrupt,
            _ if device.push_input(random.next() as u8) => LineEffect::Pend,
            _ => LineEffect::None,
        };
        match line {
            LineEffect::Pend => pending = true,
            LineEffect::Clear => pending = false,
            LineEffect::None => {}
        }
        assert_eq!(pending, value(&device, 0x40) != 0);
    }
}

#[test]
fn no_input_is_left_without_an_interrupt() {
    // One core receives a byte while another unmasks the interrupt: in each round at least one of the two must pend it.
    const ROUNDS: u32 = 50_000;
    let device = device();
    let (started, finished) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut pended = Vec::new();
            for round in 1..=ROUNDS {
                spin_until(&started, round);
                pended.push(device.push_input(b'x'));
                finished.store(round, Release);
            }
            pended
        });
        let mut pended = Vec::new();
        for round in 1..=ROUNDS {
            let _lost = device.reset();
            started.store(round, Release);
            pended.push(line(&device, 0x38, 1 << 4) == LineEffect::Pend);
            spin_until(&finished, round);
        }
        let received = receiver.join().expect("the receiver");
        for (round, (received, unmasked)) in received.into_iter().zip(pended).enumerate() {
            assert!(received || unmasked, "round {round}: the input was lost");
        }
    });
}
