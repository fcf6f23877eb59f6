//! A split virtqueue, served in order (2.7).

use crate::chain::{Chain, DESCRIPTOR_BYTES};
use crate::window::Incarnation;
use crate::{Area, Fault, Memory, Window};
use bulkhead_abi::virtio::{MAX_QUEUE_SIZE, QueueRecord};

/// Offset of the index in both rings; flags are before it.
const RING_INDEX: u32 = 2;
/// Offset of the entries in both rings.
const RING_ENTRIES: u32 = 4;
/// Bytes of an entry of the available ring.
const AVAILABLE_BYTES: u32 = 2;
/// Bytes of an entry of the used ring.
const USED_BYTES: u32 = 8;
/// VIRTQ_AVAIL_F_NO_INTERRUPT, and VIRTQ_USED_F_NO_NOTIFY.
const FLAG_SILENT: u16 = 1;

/// Where a queue is in the window, judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    number: u16,
    descriptors: u32,
    available: u32,
    used: u32,
}

#[derive(Clone, Copy, Debug)]
enum Service {
    Off,
    On(Ring),
    Stopped(Fault),
}

/// Why a piece of work ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// The front was restarted, or has switched the queue off: nothing was stored, and what was loaded means nothing.
    Gone,
    /// The front's memory is wrong; the queue has stopped.
    Fault(Fault),
}

/// A queue of a device, and how far it was served.
#[derive(Debug)]
pub(crate) struct Queue {
    index: u32,
    incarnation: Incarnation,
    service: Service,
    /// Chains returned, modulo 2^16: `used.idx`, of which the front's memory has a copy.
    done: u16,
    /// What the front was told about notifications, if anything.
    is_quiet: Option<bool>,
    interrupt_is_due: bool,
}

impl Queue {
    pub(crate) const fn new(index: u32) -> Self {
        let incarnation = Incarnation::NONE;
        Self { index, incarnation, service: Service::Off, done: 0, is_quiet: None, interrupt_is_due: false }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn ring(&self) -> Option<Ring> {
        if let Service::On(ring) = self.service { Some(ring) } else { None }
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        if let Service::Stopped(fault) = self.service { Some(fault) } else { None }
    }

    /// Takes over the queue that the front has now; returns whether it is another one, so that what is under way is void.
    pub(crate) fn follow<M: Memory>(&mut self, window: &Window<M>) -> bool {
        let now = window.incarnation(self.index);
        if now == self.incarnation && now != Incarnation::NONE {
            return false;
        }
        *self = Self::new(self.index);
        window.withdraw();
        if now.generation == 0 {
            return true;
        }
        // A record that changes at this moment is looked for again.
        let Some(record) = window.record(self.index, now) else { return true };
        self.incarnation = now;
        match judge(window, &record) {
            Ok(None) => {}
            Ok(Some(ring)) => {
                self.done = window.memory().load_half(ring.used.wrapping_add(RING_INDEX));
                // A back end before this one may have died between returning a chain and its interrupt.
                self.interrupt_is_due = self.done != 0;
                self.service = Service::On(ring);
            }
            Err(fault) => self.service = Service::Stopped(fault),
        }
        true
    }

    /// Copies the next chain, or returns false when there is none. It stays the next one until it is returned.
    pub(crate) fn take<M: Memory>(
        &mut self,
        window: &Window<M>,
        ring: Ring,
        chain: &mut Chain,
    ) -> Result<Option<u16>, Interrupted> {
        if !self.has_next(window, ring)? {
            return Ok(None);
        }
        self.set_quiet(window, ring, true)?;
        let entry = entry(ring, ring.available, self.done, AVAILABLE_BYTES);
        let head = window.memory().load_half(entry);
        let walked = chain.walk(window, ring.descriptors, ring.number, head);
        walked.map_err(|fault| self.stop(window, fault))?;
        Ok(Some(head))
    }

    /// States whether a chain waits.
    pub(crate) fn has_next<M: Memory>(&mut self, window: &Window<M>, ring: Ring) -> Result<bool, Interrupted> {
        let available = window.memory().load_half(ring.available.wrapping_add(RING_INDEX));
        if available.wrapping_sub(self.done) > ring.number {
            return Err(self.stop(window, Fault::Jump { available, done: self.done }));
        }
        Ok(available != self.done)
    }

    /// Lets the front notify again; returns whether there is nothing to do.
    pub(crate) fn rest<M: Memory>(&mut self, window: &Window<M>, ring: Ring) -> Result<bool, Interrupted> {
        self.set_quiet(window, ring, false)?;
        // The front stores its index, then loads these flags; here it is the other way round. One of the two sees the other.
        window.memory().full_barrier();
        Ok(!self.has_next(window, ring)?)
    }

    /// Ends the service of a queue whose memory is wrong, unless it is wrong because a restart clears it.
    pub(crate) fn stop<M: Memory>(&mut self, window: &Window<M>, fault: Fault) -> Interrupted {
        if !window.is_current(self.index, self.incarnation) {
            return Interrupted::Gone;
        }
        self.service = Service::Stopped(fault);
        Interrupted::Fault(fault)
    }

    /// Copies bytes of a chain into own memory. They are the queue's when it says so.
    pub(crate) fn read<M: Memory>(
        &self,
        window: &Window<M>,
        chain: &Chain,
        from: u64,
        into: &mut [u8],
    ) -> Result<(), Interrupted> {
        chain.read(window.memory(), from, into);
        if window.is_current(self.index, self.incarnation) { Ok(()) } else { Err(Interrupted::Gone) }
    }

    /// Stores to the front's memory, at most [`crate::COPY_BYTES`].
    pub(crate) fn store<M: Memory>(&self, window: &Window<M>, store: impl FnOnce(&M)) -> Result<(), Interrupted> {
        if window.announce(self.index, self.incarnation, store) { Ok(()) } else { Err(Interrupted::Gone) }
    }

    /// Returns the chain that was taken last, together with the last bytes that are written to it.
    pub(crate) fn give_back<M: Memory>(
        &mut self,
        window: &Window<M>,
        ring: Ring,
        (head, written): (u16, u32),
        last: impl FnOnce(&M),
    ) -> Result<(), Interrupted> {
        let entry = entry(ring, ring.used, self.done, USED_BYTES);
        let used = u64::from(head) | u64::from(written) << 32;
        let next = self.done.wrapping_add(1);
        self.store(window, |memory| {
            last(memory);
            memory.write(entry, &used.to_le_bytes());
            memory.store_half(ring.used.wrapping_add(RING_INDEX), next);
        })?;
        self.done = next;
        // As in `rest`: the front stores its flags, then loads the index.
        window.memory().full_barrier();
        self.interrupt_is_due |= window.memory().load_half(ring.available) & FLAG_SILENT == 0;
        Ok(())
    }

    /// States whether the front waits for an interrupt.
    pub(crate) fn interrupt_is_due(&self) -> bool {
        self.interrupt_is_due
    }

    /// The interrupt was sent.
    pub(crate) fn interrupt_was_sent(&mut self) {
        self.interrupt_is_due = false;
    }

    /// Tells the front whether to notify.
    fn set_quiet<M: Memory>(&mut self, window: &Window<M>, ring: Ring, is_quiet: bool) -> Result<(), Interrupted> {
        if self.is_quiet != Some(is_quiet) {
            self.store(window, |memory| memory.store_half(ring.used, if is_quiet { FLAG_SILENT } else { 0 }))?;
            self.is_quiet = Some(is_quiet);
        }
        Ok(())
    }
}

/// Where the entry of chain number `number` is in a ring.
const fn entry(ring: Ring, at: u32, number: u16, bytes: u32) -> u32 {
    let slot = number & ring.number.wrapping_sub(1);
    at.wrapping_add(RING_ENTRIES).wrapping_add((slot as u32).wrapping_mul(bytes))
}

/// Places the parts of a queue; `None` when it is off.
fn judge<M: Memory>(window: &Window<M>, record: &QueueRecord) -> Result<Option<Ring>, Fault> {
    if record.number == 0 {
        return Ok(None);
    }
    let number = u16::try_from(record.number).ok().filter(|number| *number <= MAX_QUEUE_SIZE);
    let number = number.filter(|number| number.is_power_of_two()).ok_or(Fault::Number(record.number))?;
    let place = |area, address: u64, alignment: u64, head: u32, each: u32| {
        let bytes = u32::from(number).saturating_mul(each).saturating_add(head);
        let placed = window.place(address, bytes).filter(|_| address.is_multiple_of(alignment));
        placed.ok_or(Fault::Area { area, address })
    };
    Ok(Some(Ring {
        number,
        descriptors: place(Area::Descriptors, record.descriptors, 16, 0, DESCRIPTOR_BYTES)?,
        available: place(Area::Available, record.available, 2, RING_ENTRIES, AVAILABLE_BYTES)?,
        used: place(Area::Used, record.used, 4, RING_ENTRIES, USED_BYTES)?,
    }))
}
