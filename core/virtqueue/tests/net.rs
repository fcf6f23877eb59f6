//! Frames of an honest front: contents, order, drops, hunger (QV-50, QV-51).

mod support;

use bulkhead_abi::virtio::DEVICE_NET;
use bulkhead_virtqueue::{FRAME_BYTES, HEADER_BYTES, Net, Step, Window};
use support::front::{Driver, Monitor};
use support::parts::Frames;
use support::{POOL, Watched};

const BUFFERS: u64 = POOL + 0x1_0000;
/// What the stock driver gives for a frame: header, 1,500 bytes, head, and a tag.
const ROOM: u32 = 1530;

struct Pair<'a> {
    window: Window<&'a Watched>,
    net: Net,
    frames: Frames,
    receive: Driver<'a>,
    transmit: Driver<'a>,
}

impl<'a> Pair<'a> {
    fn new(memory: &'a Watched, monitor: &Monitor<'a>) -> Self {
        let (receive, transmit) = (Driver::new(monitor, 0, 8), Driver::new(monitor, 1, 8));
        let window = Window::new(memory, POOL).expect("a pool");
        Self { window, net: Net::new(), frames: Frames::default(), receive, transmit }
    }

    fn step(&mut self) -> Step {
        self.net.step(&self.window, &mut self.frames)
    }

    fn work(&mut self) {
        for _ in 0..100 {
            match self.step() {
                Step::Idle => return,
                Step::Worked => {}
                Step::Stopped { fault, .. } => panic!("{fault}"),
            }
        }
        panic!("there is no end");
    }

    /// Offers a frame to send, with a header.
    fn send(&mut self, header: [u8; HEADER_BYTES], frame: &[u8]) {
        let at = BUFFERS + 0x8000;
        self.transmit.put(at, &header);
        self.transmit.put(at + HEADER_BYTES as u64, frame);
        let _ = self.transmit.offer(&[(at, (HEADER_BYTES + frame.len()) as u32, false)]);
        self.work();
        let (_, written) = self.transmit.collect().expect("the buffer comes back");
        assert_eq!(written, 0);
    }
}

fn frame(number: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| number ^ at as u8).collect()
}

#[test]
fn frames_arrive_in_order_behind_a_header() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_NET);
    let mut pair = Pair::new(&memory, &monitor);
    let sent: Vec<Vec<u8>> = (0..20).map(|number| frame(number, [14, 60, 1514][usize::from(number) % 3])).collect();
    pair.frames.arriving.extend(sent.iter().cloned());
    let mut arrived = Vec::new();
    for round in 0..20u64 {
        let at = BUFFERS + round % 8 * 0x800;
        let head = pair.receive.offer(&[(at, ROOM, true)]);
        pair.work();
        let (used, written) = pair.receive.collect().expect("a frame");
        assert_eq!(used, u32::from(head));
        let bytes = pair.receive.get(at, written as usize);
        assert_eq!(bytes[..HEADER_BYTES], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], "one buffer, nothing offloaded");
        arrived.push(bytes[HEADER_BYTES..].to_vec());
    }
    assert_eq!(arrived, sent);
}

/// A frame stays in the network until the front has room; the back end says whether it makes sense to wait for one.
#[test]
fn nothing_is_taken_that_has_no_room() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_NET);
    let mut pair = Pair::new(&memory, &monitor);
    pair.frames.arriving.extend([frame(1, 60), frame(2, 60)]);
    pair.work();
    assert_eq!((pair.frames.arriving.len(), pair.net.is_hungry()), (2, false));
    assert!(!pair.receive.is_quiet(), "new room is to be notified");
    let _ = pair.receive.offer(&[(BUFFERS, 12, true), (BUFFERS + 0x800, 1514, true)]);
    pair.work();
    assert_eq!((pair.frames.arriving.len(), pair.net.is_hungry()), (1, false));
    assert_eq!(pair.receive.get(BUFFERS + 0x800, 60), frame(1, 60), "header and frame may be apart");
    for _ in 0..2 {
        let _ = pair.receive.offer(&[(BUFFERS, ROOM, true)]);
    }
    pair.work();
    assert_eq!((pair.frames.arriving.len(), pair.net.is_hungry()), (0, true));
    assert!(pair.receive.is_quiet(), "it has room");
    monitor.switch_off(0);
    pair.work();
    assert!(!pair.net.is_hungry());
}

#[test]
fn frames_are_sent_and_those_that_ask_for_more_are_dropped() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_NET);
    let mut pair = Pair::new(&memory, &monitor);
    let plain = [0; HEADER_BYTES];
    for bytes in [14, 60, FRAME_BYTES] {
        pair.send(plain, &frame(7, bytes));
        assert_eq!(pair.frames.sent.pop(), Some(frame(7, bytes)));
    }
    for (header, bytes) in [(plain, 0), (plain, 13), (plain, FRAME_BYTES + 1), (plain, 0x4000)] {
        pair.send(header, &vec![1; bytes]);
    }
    for (at, value) in [(0, 1), (0, 0x80), (1, 1), (1, 4)] {
        let mut header = plain;
        header[at] = value;
        pair.send(header, &frame(3, 60));
    }
    assert_eq!((pair.frames.sent.len(), pair.net.dropped()), (0, 8));
    pair.send(plain, &frame(9, 60));
    assert_eq!(pair.frames.sent, [frame(9, 60)], "one that is dropped stops nothing");
}

/// One front that stops a queue of its own keeps the other.
#[test]
fn the_other_queue_is_served_beside_one_that_has_stopped() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_NET);
    let mut pair = Pair::new(&memory, &monitor);
    pair.receive.set_available(9);
    assert!(matches!(pair.step(), Step::Stopped { queue: 0, .. }));
    assert!(pair.net.faults()[0].is_some());
    for round in 0..10 {
        pair.send([0; HEADER_BYTES], &frame(round, 60));
    }
    assert_eq!((pair.frames.sent.len(), pair.net.faults()[1]), (10, None));
    pair.receive = Driver::new(&monitor, 0, 8);
    let _ = pair.receive.offer(&[(BUFFERS, ROOM, true)]);
    pair.frames.arriving.push_back(frame(1, 60));
    pair.work();
    assert!(pair.receive.collect().is_some(), "switched on again it works");
}
