//! Frames between a front and a network (5.1.6), without offloads and without mergeable buffers.
//!
//! A frame that cannot pass is dropped and counted, as networks do; the queue stops only where the front's memory is wrong.

use crate::chain::Chain;
use crate::queue::{Interrupted, Queue, Ring};
use crate::{Fault, Memory, Step, Window};

/// Bytes of `virtio_net_hdr` of VERSION_1.
pub const HEADER_BYTES: usize = 12;
/// Most bytes of a frame: 1,500 of payload and its head.
pub const FRAME_BYTES: usize = 1514;
/// Fewest bytes of a frame: its head.
const HEAD_BYTES: u64 = 14;
/// Header and frame.
const ROOM_BYTES: usize = HEADER_BYTES + FRAME_BYTES;
/// Header of a received frame: nothing was offloaded, one buffer holds all of it.
const RECEIVED: [u8; HEADER_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// Where frames come from and go to.
pub trait Network {
    /// Takes the next frame, if one waits; returns its bytes. A longer one than fits is dropped.
    fn receive(&mut self, into: &mut [u8; FRAME_BYTES]) -> Option<usize>;

    /// Sends a frame of 14 to [`FRAME_BYTES`] bytes. One that cannot be sent now is dropped.
    fn send(&mut self, frame: &[u8]);
}

/// A network card with two queues.
#[derive(Debug)]
pub struct Net {
    receive: Queue,
    transmit: Queue,
    chain: Chain,
    frame: [u8; FRAME_BYTES],
    is_hungry: bool,
    dropped: u64,
}

impl Net {
    /// A device that has not looked at its front yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            receive: Queue::new(0),
            transmit: Queue::new(1),
            chain: Chain::new(),
            frame: [0; FRAME_BYTES],
            is_hungry: false,
            dropped: 0,
        }
    }

    /// Does a bounded piece of work: at most one frame to the front and one from it.
    pub fn step<M: Memory>(&mut self, window: &Window<M>, network: &mut impl Network) -> Step {
        self.is_hungry = false;
        let received = self.serve(window, network, Self::receive_one, |net| &mut net.receive);
        if let Step::Stopped { .. } = received {
            return received;
        }
        match self.serve(window, network, Self::transmit_one, |net| &mut net.transmit) {
            Step::Idle => received,
            other => other,
        }
    }

    /// States whether the front has room for a frame, so that it makes sense to wait for one.
    #[must_use]
    pub fn is_hungry(&self) -> bool {
        self.is_hungry
    }

    /// Returns how many frames were dropped for what they were: too short or too long, or with work for a device that has no offloads.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns why a queue has stopped: receive, transmit.
    #[must_use]
    pub fn faults(&self) -> [Option<Fault>; 2] {
        [self.receive.fault(), self.transmit.fault()]
    }

    /// States whether the front waits for an interrupt. A doorbell that was refused stays due.
    #[must_use]
    pub fn interrupt_is_due(&self) -> bool {
        self.receive.interrupt_is_due() || self.transmit.interrupt_is_due()
    }

    /// Takes note that the doorbell was rung.
    pub fn interrupt_was_sent(&mut self) {
        self.receive.interrupt_was_sent();
        self.transmit.interrupt_was_sent();
    }

    /// Follows a queue and does one piece of its work.
    fn serve<M: Memory, N: Network>(
        &mut self,
        window: &Window<M>,
        network: &mut N,
        work: impl Fn(&mut Self, &Window<M>, Ring, &mut N) -> Result<Step, Interrupted>,
        of: impl Fn(&mut Self) -> &mut Queue,
    ) -> Step {
        let queue = of(self);
        let index = queue.index();
        if queue.follow(window)
            && let Some(fault) = queue.fault()
        {
            return Step::Stopped { queue: index, fault };
        }
        let Some(ring) = queue.ring() else { return Step::Idle };
        match work(self, window, ring, network) {
            Ok(step) => step,
            Err(Interrupted::Gone) => Step::Worked,
            Err(Interrupted::Fault(fault)) => Step::Stopped { queue: index, fault },
        }
    }

    /// Puts a frame of the network into the front's next buffer.
    fn receive_one<M: Memory>(
        &mut self,
        window: &Window<M>,
        ring: Ring,
        network: &mut impl Network,
    ) -> Result<Step, Interrupted> {
        // Nothing is taken from the network that has no room.
        if !self.receive.has_next(window, ring)? {
            return Ok(if self.receive.rest(window, ring)? { Step::Idle } else { Step::Worked });
        }
        self.is_hungry = true;
        let Some(bytes) = network.receive(&mut self.frame) else { return Ok(Step::Idle) };
        let Some(head) = self.receive.take(window, ring, &mut self.chain)? else { return Ok(Step::Worked) };
        let room = self.chain.writable_bytes();
        if room < ROOM_BYTES as u64 {
            return Err(self.receive.stop(window, Fault::Room { bytes: room }));
        }
        let frame = self.frame.get(..bytes).unwrap_or_default();
        let written = HEADER_BYTES.saturating_add(frame.len()) as u32;
        let chain = &self.chain;
        self.receive.give_back(window, ring, (head, written), |memory| {
            chain.write(memory, 0, &RECEIVED);
            chain.write(memory, HEADER_BYTES as u64, frame);
        })?;
        Ok(Step::Worked)
    }

    /// Sends the front's next frame.
    fn transmit_one<M: Memory>(
        &mut self,
        window: &Window<M>,
        ring: Ring,
        network: &mut impl Network,
    ) -> Result<Step, Interrupted> {
        let Some(head) = self.transmit.take(window, ring, &mut self.chain)? else {
            return Ok(if self.transmit.rest(window, ring)? { Step::Idle } else { Step::Worked });
        };
        let given = self.chain.readable_bytes();
        let Some(bytes) = given.checked_sub(HEADER_BYTES as u64) else {
            return Err(self.transmit.stop(window, Fault::Header { bytes: given }));
        };
        let mut header = [0; HEADER_BYTES];
        self.chain.read(window.memory(), 0, &mut header);
        let passes = (HEAD_BYTES..=FRAME_BYTES as u64).contains(&bytes);
        let frame = self.frame.get_mut(..if passes { bytes as usize } else { 0 }).unwrap_or_default();
        self.transmit.read(window, &self.chain, HEADER_BYTES as u64, frame)?;
        // Flags and kind of segmentation: checksums and segments are left to the device only if it offers that.
        if passes && matches!(header, [0, 0, ..]) {
            network.send(frame);
        } else {
            self.dropped = self.dropped.wrapping_add(1);
        }
        self.transmit.give_back(window, ring, (head, 0), |_| ())?;
        Ok(Step::Worked)
    }
}

impl Default for Net {
    fn default() -> Self {
        Self::new()
    }
}
