//! The front of a virtio device as the stock driver `virtio_mmio` uses it, and as a hostile one does (QV-50, QV-53).

mod support;

use bulkhead_abi::virtio::*;
use bulkhead_emulation::virtio::{Front, FrontEffect, FrontState};
use support::page::Page;
use zerocopy::FromZeros;

const NET: FrontPlan = FrontPlan { device: DEVICE_NET, features: NET_MAC, doorbell: 3, padding: 0 };
const BLOCK: FrontPlan =
    FrontPlan { device: DEVICE_BLOCK, features: BLOCK_FLUSH | BLOCK_READ_ONLY, doorbell: 5, padding: 0 };

fn parts() -> (FrontState, Page) {
    (FrontState::new_zeroed(), Page::new())
}

/// Three addresses into the page, as the driver does before it switches the selected queue on.
fn addresses(page: &Page, [descriptors, available, used]: [u64; 3]) {
    for (at, address) in [(QUEUE_DESCRIPTORS, descriptors), (QUEUE_AVAILABLE, available), (QUEUE_USED, used)] {
        page.poke(at, address as u32);
        page.poke(at + 4, (address >> 32) as u32);
    }
}

#[test]
fn linux_finds_the_device() {
    let (state, page) = parts();
    for (plan, device, low) in [(NET, 1, 1 << 5), (BLOCK, 2, 1 << 9 | 1 << 5)] {
        let front = Front { plan: &plan, state: &state, page: &page };
        assert_eq!([0x00, 0x04, 0x08, 0x0c].map(|at| front.read(at, 4)), [0x7472_6976, 2, device, 0x4b4c_5542]);
        for (select, features) in [(1, 0b11), (0, low), (2, 0), (u32::MAX, 0)] {
            assert_eq!(front.write(0x14, 4, select), FrontEffect::None);
            assert_eq!(front.read(0x10, 4), features, "selection {select}");
        }
        assert_eq!(front.write(0x24, 4, 1), FrontEffect::None);
        assert_eq!(front.write(0x20, 4, u32::MAX), FrontEffect::None, "the driver's features are ignored");
    }
    assert!(page.stored.borrow().is_empty());
}

/// A network card has two queues and a block device one; all others are absent.
#[test]
fn absent_queues_have_no_size_and_are_not_switched_on() {
    let (state, page) = parts();
    for (plan, queues) in [(NET, 2), (BLOCK, 1)] {
        let front = Front { plan: &plan, state: &state, page: &page };
        for queue in [0, 1, 2, 3, 255, u32::MAX] {
            assert_eq!(front.write(0x30, 4, queue), FrontEffect::None);
            assert_eq!(front.read(0x34, 4), if queue < queues { 256 } else { 0 }, "queue {queue}");
            if queue >= queues {
                assert_eq!(front.write(0x38, 4, 16), FrontEffect::None);
                assert_eq!(front.write(0x44, 4, 1), FrontEffect::None);
                assert_eq!(front.read(0x44, 4), 0);
            }
        }
    }
    assert!(page.stored.borrow().is_empty());
}

#[test]
fn a_queue_is_recorded_when_it_goes_on_and_its_record_ends_when_it_goes_off() {
    let (state, page) = parts();
    let front = Front { plan: &NET, state: &state, page: &page };
    let write = |offset, value| assert_eq!(front.write(offset, 4, value), FrontEffect::None);
    for (queue, places) in [(0, [0x3000_0000, 0x3000_1000, 0x3000_2000]), (1, [u64::MAX, 1 << 63, 0x1_0000_0001])] {
        write(0x30, queue);
        assert_eq!(front.read(0x44, 4), 0, "the driver refuses a queue that is ready");
        write(0x38, 128 + queue);
        addresses(&page, places);
        assert_eq!(page.record(queue), QueueRecord::default());
        write(0x44, 1);
        assert_eq!(front.read(0x44, 4), 1);
        let [descriptors, available, used] = places;
        let expected =
            QueueRecord { sequence: 2, number: 128 + queue, descriptors, available, used, ..QueueRecord::default() };
        assert_eq!(page.record(queue), expected);
    }
    addresses(&page, [7, 8, 9]);
    assert_eq!(page.record(0).descriptors, 0x3000_0000, "the record does not follow the registers");
    // The reset of a stock driver: Status = 0 in the page, then each queue.
    page.poke(0x70 - PAGE_REGISTER, 0);
    for queue in [0, 1] {
        write(0x30, queue);
        write(0x44, 0);
        assert_eq!(front.read(0x44, 4), 0);
        assert_eq!(page.record(queue), QueueRecord { sequence: 4, ..QueueRecord::default() });
    }
    // And bound again.
    write(0x30, 0);
    write(0x44, 1);
    assert_eq!((page.record(0).sequence, page.record(0).number), (6, 128), "another number for each change");
}

/// The record is between an odd and an even number: a reader that sees the same even number before and after has one record.
#[test]
fn the_number_is_odd_while_the_record_changes() {
    let (state, page) = parts();
    let front = Front { plan: &BLOCK, state: &state, page: &page };
    let _ = front.write(0x44, 4, 1);
    let stored = page.stored.borrow();
    let sequence = record_offset(0);
    assert_eq!(stored.first(), Some(&sequence));
    assert_eq!(stored.last(), Some(&sequence));
    assert_eq!(stored.iter().filter(|offset| **offset == sequence).count(), 2);
    assert_eq!(stored.len(), 9, "seven words of the record between them");
}

/// H23: 1, 2, 8 and 16 bytes, across the middle of the frame, and every offset of it. Reads are 0 and writes nothing.
#[test]
fn other_widths_and_registers_do_nothing() {
    let (state, page) = parts();
    let front = Front { plan: &NET, state: &state, page: &page };
    for offset in 0..0x200 {
        for bytes in [0, 1, 2, 3, 5, 8, 16, 255] {
            assert_eq!(front.read(offset, bytes), 0, "{offset:#x}");
            assert_eq!(front.write(offset, bytes, u32::MAX), FrontEffect::None, "{offset:#x}");
        }
        let known = [0x00, 0x04, 0x08, 0x0c, 0x10, 0x34, 0x44];
        assert!(known.contains(&offset) || front.read(offset, 4) == 0, "{offset:#x}");
        if !matches!(offset, 0x14 | 0x30 | 0x38 | 0x44) {
            let expected = if offset == 0x50 { FrontEffect::Doorbell(3) } else { FrontEffect::None };
            assert_eq!(front.write(offset, 4, 1), expected, "{offset:#x}");
        }
    }
    assert!(page.stored.borrow().is_empty());
    assert_eq!(front.read(0x34, 4), 256, "queue 0 is selected as before");
}

/// Every notification rings the front's doorbell, whatever queue it names; the limiter is the doorbell's.
#[test]
fn a_notification_is_a_doorbell() {
    let (state, page) = parts();
    let front = Front { plan: &BLOCK, state: &state, page: &page };
    for value in [0, 1, u32::MAX] {
        assert_eq!(front.write(0x50, 4, value), FrontEffect::Doorbell(5));
    }
    assert_eq!(front.read(0x50, 4), 0);
}

#[test]
fn a_restart_resets_the_registers_and_waits_for_the_back_end() {
    let (state, page) = parts();
    let front = Front { plan: &NET, state: &state, page: &page };
    for (offset, value) in [(0x30, 1), (0x38, 64), (0x44, 1), (0x14, 1)] {
        assert_eq!(front.write(offset, 4, value), FrontEffect::None);
    }
    page.poke(COPYING, 7);
    page.stored.borrow_mut().clear();
    page.poke(GENERATION, 7);
    front.stop();
    assert_eq!(page.word(GENERATION), 0);
    assert_eq!(*page.stored.borrow(), [GENERATION], "the page is cleared when the back end has left it");
    assert!(!front.is_left());
    page.poke(COPYING, 0);
    assert!(front.is_left());
    front.start(8);
    assert_eq!(page.word(GENERATION), 8, "the last that is stored");
    assert_eq!(front.read(0x10, 4), NET_MAC);
    let _ = front.write(0x30, 4, 1);
    assert_eq!(front.read(0x44, 4), 0);
    let _ = front.write(0x44, 4, 1);
    assert_eq!((page.record(1).sequence, page.record(1).number), (4, 0), "numbers of records count on");
}
