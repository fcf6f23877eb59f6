//! Console input on its way to the machine: sent as guests read it.
//!
//! The monitor takes whatever its UART receives, and drops what finds the virtual UART of the partition in focus full: a
//! `Ctrl-]` must not wait behind bytes that nobody reads. So the waiting is done here. [`Flow`] is what the monitors have
//! counted, and there is never more on its way than the FIFO in focus has room for: nothing is dropped there, however much is
//! pasted, and the serial line is free for a `Ctrl-]` at all times. One that comes drops what waits in front of it, because that
//! was for the partition which loses the focus; how much that was is counted.

use crate::error::RunError;
use crate::focus::{self, NEXT};
use crate::machine::Machine;
use crate::observer::Observer;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_INITIAL;
use std::collections::VecDeque;

/// Bytes in the FIFO of a virtual UART (`core/emulation/src/pl011.rs`).
const FIFO_BYTES: u64 = 32;

/// How far the input is, by what the monitors have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Bytes that came for any partition.
    received: u64,
    /// Bytes of them that wait in the FIFO in focus.
    in_fifo: u64,
    /// Times that the focus moved on.
    turns: u64,
}

impl Flow {
    /// Reads the counts; `None` while nobody can receive.
    pub(crate) fn of(observer: &Observer) -> Option<Self> {
        let ring = focus::ring(observer.plan());
        let given = || ring.iter().map(|member| observer.status(*member).focus_given);
        let in_focus = *ring.get(focus::place(given(), ring.len()))?;
        if observer.status(in_focus).state == STATE_INITIAL {
            return None;
        }
        let count = |partition: usize, counter| observer.partition_counter(partition, counter);
        // What left the FIFO is read first, so that it never seems to have more room than it has.
        let left = count(in_focus, Counter::ConsoleRead) + count(in_focus, Counter::ConsoleLost);
        let received = ring.iter().map(|member| count(*member, Counter::ConsoleReceived)).sum();
        let in_fifo = count(in_focus, Counter::ConsoleReceived).saturating_sub(left);
        Some(Self { received, in_fifo, turns: given().map(u64::from).sum() })
    }
}

/// Input that was not sent yet.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    waiting: VecDeque<u8>,
    /// Bytes sent, without [`NEXT`].
    sent: u64,
    /// Times that [`NEXT`] was sent.
    turns: u64,
    dropped: u64,
}

impl InputQueue {
    /// Adds input. Before a [`NEXT`] nothing waits but others of them.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == NEXT {
                let before = self.waiting.len();
                self.waiting.retain(|byte| *byte == NEXT);
                self.dropped += (before - self.waiting.len()) as u64;
            }
            self.waiting.push_back(*byte);
        }
    }

    /// Returns what can be sent now: those of [`NEXT`], or as much as the FIFO in focus has room for when all before has arrived.
    pub(crate) fn piece(&self, flow: Flow) -> Vec<u8> {
        let turns: Vec<u8> = self.waiting.iter().copied().take_while(|byte| *byte == NEXT).collect();
        if !turns.is_empty() {
            return turns;
        }
        if flow.turns != self.turns {
            return Vec::new();
        }
        let on_its_way = self.sent.saturating_sub(flow.received);
        let room = FIFO_BYTES.saturating_sub(flow.in_fifo).saturating_sub(on_its_way) as usize;
        self.waiting.iter().copied().take_while(|byte| *byte != NEXT).take(room).collect()
    }

    /// Notes that this many of the oldest bytes were sent.
    pub(crate) fn note_sent(&mut self, count: usize) {
        for byte in self.waiting.drain(..count.min(self.waiting.len())) {
            *(if byte == NEXT { &mut self.turns } else { &mut self.sent }) += 1;
        }
    }

    /// Bytes that were dropped because the focus left.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// States whether something waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Machine {
    /// Sends bytes to the machine's serial line; returns how many were taken. Without a monitor its buffer may be full; with
    /// one all are taken, and sent as the partitions in focus read them ([`Self::poll`]). A `Ctrl-]` drops what waits before it.
    pub fn send_serial(&mut self, bytes: &[u8]) -> Result<usize, RunError> {
        if self.observer.is_none() {
            return self.send_own(bytes);
        }
        self.input.push(bytes);
        self.forward_input()?;
        Ok(bytes.len())
    }

    /// Sends as much of the input as has room.
    pub(crate) fn forward_input(&mut self) -> Result<(), RunError> {
        if self.input.is_empty() {
            return Ok(());
        }
        let Some(flow) = self.observer.as_ref().and_then(Flow::of) else { return Ok(()) };
        let piece = self.input.piece(flow);
        if !piece.is_empty() {
            self.input.note_sent(self.send_own(&piece)?);
        }
        Ok(())
    }

    /// Sends bytes to the machine's own line, if it has one; returns how many were taken.
    fn send_own(&self, bytes: &[u8]) -> Result<usize, RunError> {
        let serial = self.serial.as_ref();
        let serial = serial.ok_or_else(|| RunError::Other("the machine has no serial line of its own".to_owned()))?;
        serial.send(bytes)
    }

    /// Returns how many bytes of input were dropped because the focus left before their partition read them.
    #[must_use]
    pub fn dropped_input(&self) -> u64 {
        self.input.dropped()
    }

    /// States whether input waits for a partition to read.
    #[must_use]
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{FIFO_BYTES, Flow, InputQueue, NEXT};

    /// Sends what can be sent.
    fn send(queue: &mut InputQueue, flow: Flow) -> Vec<u8> {
        let piece = queue.piece(flow);
        queue.note_sent(piece.len());
        piece
    }

    #[test]
    fn a_reader_gets_everything_in_order_and_never_more_than_fits() {
        let text: Vec<u8> = (0..65_536u32).map(|number| number as u8).filter(|byte| *byte != NEXT).collect();
        let mut queue = InputQueue::default();
        queue.push(&text);
        let (mut wire, mut fifo, mut read) = (Vec::new(), Vec::new(), Vec::new());
        let mut received = 0;
        for step in 0..100_000usize {
            let flow = Flow { received, in_fifo: fifo.len() as u64, turns: 0 };
            wire.extend(send(&mut queue, flow));
            // The machine takes some bytes, the guest reads some.
            let moved = wire.len().min(step % 7);
            received += moved as u64;
            fifo.extend(wire.drain(..moved));
            assert!(fifo.len() as u64 <= FIFO_BYTES, "none is lost");
            let taken = fifo.len().min(step % 5);
            read.extend(fifo.drain(..taken));
        }
        assert_eq!(read, text);
        assert_eq!(queue.dropped(), 0);
    }

    /// Whatever waits, a Ctrl-] is the next byte on the line, and the line holds no more than 32 bytes.
    #[test]
    fn the_focus_leaves_a_partition_that_does_not_read() {
        let mut queue = InputQueue::default();
        queue.push(&[b'x'; 65_536]);
        let first = send(&mut queue, Flow::default());
        assert_eq!(first.len() as u64, FIFO_BYTES);
        let full = Flow { received: FIFO_BYTES, in_fifo: FIFO_BYTES, turns: 0 };
        assert!(send(&mut queue, full).is_empty());
        queue.push(&[NEXT, NEXT]);
        queue.push(b"hello");
        assert_eq!(send(&mut queue, full), [NEXT, NEXT]);
        assert_eq!(queue.dropped(), 65_536 - FIFO_BYTES);
        assert!(send(&mut queue, Flow { turns: 1, ..full }).is_empty(), "the focus is still on its way");
        let moved = Flow { received: FIFO_BYTES, in_fifo: 0, turns: 2 };
        assert_eq!(send(&mut queue, moved), b"hello");
        assert!(queue.is_empty());
    }
}
