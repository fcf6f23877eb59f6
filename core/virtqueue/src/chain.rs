//! A chain of descriptors, copied and judged (2.7.5).

use crate::{Fault, Memory, Window};
use bulkhead_abi::virtio::MAX_QUEUE_SIZE;

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: u32 = 16;
/// VIRTQ_DESC_F_NEXT.
const FLAG_NEXT: u16 = 1;
/// VIRTQ_DESC_F_WRITE.
const FLAG_WRITE: u16 = 2;

/// A buffer in the window.
#[derive(Clone, Copy, Debug)]
struct Link {
    at: u32,
    bytes: u32,
}

/// The buffers of a chain in own memory: first those to read from, then those to write to. Each group is one row of bytes; how the
/// front divides it means nothing (2.7.4.1, VERSION_1).
#[derive(Debug)]
pub(crate) struct Chain {
    links: [Link; MAX_QUEUE_SIZE as usize],
    /// Links in use.
    count: usize,
    /// Links of them that are read.
    readable: usize,
    readable_bytes: u64,
    writable_bytes: u64,
}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self {
            links: [Link { at: 0, bytes: 0 }; MAX_QUEUE_SIZE as usize],
            count: 0,
            readable: 0,
            readable_bytes: 0,
            writable_bytes: 0,
        }
    }

    /// Bytes that the front gives.
    pub(crate) fn readable_bytes(&self) -> u64 {
        self.readable_bytes
    }

    /// Bytes that the front takes.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.writable_bytes
    }

    /// Copies the chain that begins at `head` of a table of `number` descriptors, each of them once.
    pub(crate) fn walk<M: Memory>(
        &mut self,
        window: &Window<M>,
        descriptors: u32,
        number: u16,
        head: u16,
    ) -> Result<(), Fault> {
        (self.count, self.readable, self.readable_bytes, self.writable_bytes) = (0, 0, 0, 0);
        if head >= number {
            return Err(Fault::Head(head));
        }
        let mut index = head;
        for slot in self.links.iter_mut().take(usize::from(number)) {
            let mut bytes = [0; DESCRIPTOR_BYTES as usize];
            window.memory().read(descriptors.wrapping_add(u32::from(index).wrapping_mul(DESCRIPTOR_BYTES)), &mut bytes);
            let (address, length, flags, next) = fields(u128::from_le_bytes(bytes));
            if flags & !(FLAG_NEXT | FLAG_WRITE) != 0 {
                return Err(Fault::Flags(flags));
            }
            let at = window.place(address, length).ok_or(Fault::Buffer { address, bytes: length })?;
            *slot = Link { at, bytes: length };
            self.count = self.count.saturating_add(1);
            if flags & FLAG_WRITE != 0 {
                self.writable_bytes = self.writable_bytes.saturating_add(u64::from(length));
            } else if self.readable.saturating_add(1) == self.count {
                self.readable = self.count;
                self.readable_bytes = self.readable_bytes.saturating_add(u64::from(length));
            } else {
                return Err(Fault::Order);
            }
            if flags & FLAG_NEXT == 0 {
                return Ok(());
            }
            if next >= number {
                return Err(Fault::Next(next));
            }
            index = next;
        }
        Err(Fault::Loop)
    }

    /// Copies bytes that the front gives, from a place in their row. What is not there stays as it was.
    pub(crate) fn read<M: Memory>(&self, memory: &M, from: u64, into: &mut [u8]) {
        let links = self.links.get(..self.readable).unwrap_or_default();
        let mut rest = into;
        pieces(links, from, rest.len(), |at, bytes| {
            let (piece, behind) = core::mem::take(&mut rest).split_at_mut_checked(bytes).unwrap_or_default();
            memory.read(at, piece);
            rest = behind;
        });
    }

    /// Stores bytes that the front takes, to a place in their row. What has no place is not stored.
    pub(crate) fn write<M: Memory>(&self, memory: &M, to: u64, from: &[u8]) {
        let links = self.links.get(self.readable..self.count).unwrap_or_default();
        let mut rest = from;
        pieces(links, to, rest.len(), |at, bytes| {
            let (piece, behind) = rest.split_at_checked(bytes).unwrap_or_default();
            memory.write(at, piece);
            rest = behind;
        });
    }
}

/// Address, length, flags and index of the next one (2.7.5).
const fn fields(descriptor: u128) -> (u64, u32, u16, u16) {
    (descriptor as u64, (descriptor >> 64) as u32, (descriptor >> 96) as u16, (descriptor >> 112) as u16)
}

/// Calls `each` with the pieces of a row of links that hold `length` bytes from a place on, in order.
fn pieces(links: &[Link], from: u64, length: usize, mut each: impl FnMut(u32, usize)) {
    let (mut skip, mut left) = (from, length);
    for link in links {
        if left == 0 {
            break;
        }
        let Some(room) = u64::from(link.bytes).checked_sub(skip).filter(|room| *room != 0) else {
            skip = skip.saturating_sub(u64::from(link.bytes));
            continue;
        };
        let bytes = left.min(room as usize);
        // `skip` is below `bytes` of this link, so both fit.
        each(link.at.wrapping_add(skip as u32), bytes);
        left = left.saturating_sub(bytes);
        skip = 0;
    }
}
