//! Block requests (5.2.6): read, write, flush, identity.
//!
//! A request that cannot be done ends with a status, as the specification says; the queue stops only where there is no place for one.
//! Every request is judged before the disk is touched, so a refused one changes nothing.

use crate::chain::Chain;
use crate::queue::{Interrupted, Queue, Ring};
use crate::{COPY_BYTES, Fault, Memory, Step, Window};

/// Bytes of a sector, whatever the disk's own are.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of the answer to "identity".
pub const IDENTITY_BYTES: usize = 20;

/// Type, reserved, sector.
const HEADER_BYTES: usize = 16;
const TYPE_READ: u32 = 0;
const TYPE_WRITE: u32 = 1;
const TYPE_FLUSH: u32 = 4;
const TYPE_IDENTITY: u32 = 8;

const STATUS_OK: u8 = 0;
const STATUS_ERROR: u8 = 1;
const STATUS_UNSUPPORTED: u8 = 2;

/// The disk could not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskError;

/// What a block device keeps its sectors in.
pub trait Disk {
    /// Returns the sectors that there are.
    fn sectors(&self) -> u64;

    /// Reads bytes that are all on the disk.
    ///
    /// # Errors
    ///
    /// When the disk cannot; the front is told.
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), DiskError>;

    /// Writes bytes to where the disk has them, so that they survive a restart of this partition: a front cannot be told that
    /// a cache was lost.
    ///
    /// # Errors
    ///
    /// As for [`Disk::read`].
    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), DiskError>;

    /// Makes everything written so far as durable as the disk can.
    ///
    /// # Errors
    ///
    /// As for [`Disk::read`].
    fn flush(&mut self) -> Result<(), DiskError>;
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    Flush,
    Identity,
    /// Refused, with this status.
    Refused(u8),
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    head: u16,
    kind: Kind,
    /// First byte on the disk.
    at: u64,
    /// Bytes of data.
    bytes: u64,
    /// Bytes done.
    done: u64,
}

/// A block device with one queue.
#[derive(Debug)]
pub struct Block {
    queue: Queue,
    chain: Chain,
    request: Option<Request>,
    buffer: [u8; COPY_BYTES],
    is_read_only: bool,
    identity: [u8; IDENTITY_BYTES],
}

impl Block {
    /// A device that has not looked at its front yet. `identity` is what the front shows as the disk's serial number.
    #[must_use]
    pub const fn new(is_read_only: bool, identity: [u8; IDENTITY_BYTES]) -> Self {
        let (queue, chain) = (Queue::new(0), Chain::new());
        Self { queue, chain, request: None, buffer: [0; COPY_BYTES], is_read_only, identity }
    }

    /// Does a bounded piece of work: at most [`COPY_BYTES`] of data, at most one access to the disk.
    pub fn step<M: Memory>(&mut self, window: &Window<M>, disk: &mut impl Disk) -> Step {
        if self.queue.follow(window) {
            self.request = None;
            if let Some(fault) = self.queue.fault() {
                return Step::Stopped { queue: self.queue.index(), fault };
            }
        }
        let Some(ring) = self.queue.ring() else { return Step::Idle };
        match self.work(window, ring, disk) {
            Ok(step) => step,
            // The next step follows the front.
            Err(Interrupted::Gone) => Step::Worked,
            Err(Interrupted::Fault(fault)) => Step::Stopped { queue: self.queue.index(), fault },
        }
    }

    /// Returns why the queue has stopped.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.queue.fault()
    }

    /// States whether the front waits for an interrupt. A back end rings when it rests or after some steps; a doorbell that was
    /// refused stays due.
    #[must_use]
    pub fn interrupt_is_due(&self) -> bool {
        self.queue.interrupt_is_due()
    }

    /// Takes note that the doorbell was rung.
    pub fn interrupt_was_sent(&mut self) {
        self.queue.interrupt_was_sent();
    }

    fn work<M: Memory>(&mut self, window: &Window<M>, ring: Ring, disk: &mut impl Disk) -> Result<Step, Interrupted> {
        let mut request = match self.request.take() {
            Some(request) => request,
            None => match self.queue.take(window, ring, &mut self.chain)? {
                Some(head) => self.begin(window, head, disk.sectors())?,
                None => return Ok(if self.queue.rest(window, ring)? { Step::Idle } else { Step::Worked }),
            },
        };
        let ended = match request.kind {
            Kind::Refused(status) => Some(status),
            Kind::Flush => Some(disk.flush().map_or(STATUS_ERROR, |()| STATUS_OK)),
            Kind::Identity => Some(self.identify(window, &request)?),
            Kind::Read | Kind::Write => self.copy(window, &mut request, disk)?,
        };
        match ended {
            Some(status) => self.end(window, ring, &request, status)?,
            None => self.request = Some(request),
        }
        Ok(Step::Worked)
    }

    /// Judges a request.
    fn begin<M: Memory>(&mut self, window: &Window<M>, head: u16, sectors: u64) -> Result<Request, Interrupted> {
        let (given, taken) = (self.chain.readable_bytes(), self.chain.writable_bytes());
        let Some(written) = given.checked_sub(HEADER_BYTES as u64) else {
            return Err(self.queue.stop(window, Fault::Header { bytes: given }));
        };
        let Some(read) = taken.checked_sub(1) else { return Err(self.queue.stop(window, Fault::Status)) };
        let mut header = [0; HEADER_BYTES];
        self.queue.read(window, &self.chain, 0, &mut header)?;
        let header = u128::from_le_bytes(header);
        let (kind, sector) = (header as u32, (header >> 64) as u64);
        let (kind, bytes) = match kind {
            TYPE_READ => (Kind::Read, read),
            TYPE_WRITE if self.is_read_only => (Kind::Refused(STATUS_ERROR), 0),
            TYPE_WRITE => (Kind::Write, written),
            TYPE_FLUSH => (Kind::Flush, 0),
            TYPE_IDENTITY => (Kind::Identity, read),
            _ => (Kind::Refused(STATUS_UNSUPPORTED), 0),
        };
        let request = Request { head, kind, at: sector.saturating_mul(SECTOR_BYTES), bytes, done: 0 };
        let is_refused = matches!(kind, Kind::Read | Kind::Write) && !is_on_disk(sector, bytes, sectors);
        Ok(if is_refused { Request { kind: Kind::Refused(STATUS_ERROR), ..request } } else { request })
    }

    /// Copies the next piece of data; returns the status when it was the last one.
    fn copy<M: Memory>(
        &mut self,
        window: &Window<M>,
        request: &mut Request,
        disk: &mut impl Disk,
    ) -> Result<Option<u8>, Interrupted> {
        let left = request.bytes.saturating_sub(request.done);
        let length = left.min(COPY_BYTES as u64) as usize;
        let piece = self.buffer.get_mut(..length).unwrap_or_default();
        let at = request.at.saturating_add(request.done);
        let done = if piece.is_empty() {
            Ok(())
        } else if let Kind::Read = request.kind {
            let done = disk.read(at, piece);
            if done.is_ok() {
                self.queue.store(window, |memory| self.chain.write(memory, request.done, piece))?;
            }
            done
        } else {
            let from = request.done.saturating_add(HEADER_BYTES as u64);
            self.queue.read(window, &self.chain, from, piece)?;
            disk.write(at, piece)
        };
        if done.is_err() {
            return Ok(Some(STATUS_ERROR));
        }
        request.done = request.done.saturating_add(length as u64);
        Ok((request.done == request.bytes).then_some(STATUS_OK))
    }

    /// Answers what the disk is called, as much of it as there is room for.
    fn identify<M: Memory>(&self, window: &Window<M>, request: &Request) -> Result<u8, Interrupted> {
        let length = request.bytes.min(IDENTITY_BYTES as u64) as usize;
        let name = self.identity.get(..length).unwrap_or_default();
        self.queue.store(window, |memory| self.chain.write(memory, 0, name))?;
        Ok(STATUS_OK)
    }

    /// Writes the status, which is the last byte that the front takes, and returns the chain.
    fn end<M: Memory>(
        &mut self,
        window: &Window<M>,
        ring: Ring,
        request: &Request,
        status: u8,
    ) -> Result<(), Interrupted> {
        let last = self.chain.writable_bytes().saturating_sub(1);
        let data = if matches!(request.kind, Kind::Read) { request.done } else { 0 };
        let written = u32::try_from(data.saturating_add(1)).unwrap_or(u32::MAX);
        let chain = &self.chain;
        self.queue.give_back(window, ring, (request.head, written), |memory| chain.write(memory, last, &[status]))
    }
}

/// States whether whole sectors from one on are all on a disk.
fn is_on_disk(sector: u64, bytes: u64, sectors: u64) -> bool {
    let count = bytes.checked_div(SECTOR_BYTES).unwrap_or(u64::MAX);
    bytes.is_multiple_of(SECTOR_BYTES) && sector.checked_add(count).is_some_and(|end| end <= sectors)
}
