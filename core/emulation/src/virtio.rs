//! The front of a virtio device whose back end is another partition: the trapped part of a virtio-mmio register frame (Virtual I/O
//! Device 1.2, 4.2.2), and a restart of the front.
//!
//! Below register 0x60 every access traps and is answered here; the rest of the frame is RAM that front and back end map
//! ([`bulkhead_abi::virtio`]). So the driver's way through a request costs one exit, the notification: status, acknowledgement,
//! addresses and configuration are loads and stores. What the back end has to know is copied at QueueReady, when all of it is there.
//!
//! **Record.** QueueReady = 1 copies number and addresses into the record of the queue, between an odd and an even sequence number;
//! QueueReady = 0 ends the record in the same way. A stock driver resets by Status = 0, which nobody sees, and switches each queue off
//! by QueueReady afterwards, before it takes the memory back; this is what the back end notices.
//!
//! **Restart.** [`Front::stop`] withdraws the generation, and [`Front::is_left`] says when no store of the back end can come any more.
//! Then the monitor clears pool and page, and [`Front::start`] gives them to the next incarnation.
//!
//! The sequence is counted here and not read from the page, which both partitions may write. Two vCPUs that switch one queue at the same
//! time may leave an odd number or a mixture behind; that queue then stays off or is refused by the back end, which believes nothing of
//! it anyway.
//!
//! Rejected: a record that the back end reads from the registers, as they are in the page already. They are those of the queue
//! selected last, so the back end of a network card would see one queue of two.

use bulkhead_abi::virtio::{
    COPYING, FEATURES_HIGH, FrontPlan, GENERATION, MAX_QUEUE_SIZE, MAX_QUEUES, QUEUE_AVAILABLE, QUEUE_DESCRIPTORS,
    QUEUE_USED, QueueRecord, record_offset,
};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use zerocopy::FromBytes;

const MAGIC_VALUE: u32 = 0x00;
const VERSION: u32 = 0x04;
const DEVICE_ID: u32 = 0x08;
const VENDOR_ID: u32 = 0x0c;
const DEVICE_FEATURES: u32 = 0x10;
const DEVICE_FEATURES_SELECT: u32 = 0x14;
const QUEUE_SELECT: u32 = 0x30;
const QUEUE_NUMBER_MOST: u32 = 0x34;
const QUEUE_NUMBER: u32 = 0x38;
const QUEUE_READY: u32 = 0x44;
const QUEUE_NOTIFY: u32 = 0x50;

/// "virt".
const MAGIC: u32 = u32::from_le_bytes(*b"virt");
/// The version without legacy interface.
const VERSION_2: u32 = 2;
/// "BULK".
const VENDOR: u32 = u32::from_le_bytes(*b"BULK");

/// The device page, by 32-bit words. An offset comes from [`bulkhead_abi::virtio`] and is a multiple of 4 within the page.
pub trait DevicePage {
    /// Loads a word.
    fn load(&self, offset: u32) -> u32;
    /// Stores a word.
    fn store(&self, offset: u32, value: u32);
    /// Orders every earlier access before every later one, also for the core of the back end (`dmb ish`).
    fn full_barrier(&self);
}

/// What the monitor does after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEffect {
    /// Nothing.
    None,
    /// Ring this doorbell of the plan.
    Doorbell(u32),
}

/// Registers that a guest can change. All-zero memory is the reset state.
#[derive(Debug, FromBytes)]
#[repr(C)]
pub struct FrontState {
    /// DeviceFeaturesSel.
    features_selected: AtomicU32,
    /// QueueSel.
    queue_selected: AtomicU32,
    queues: [QueueState; MAX_QUEUES],
}

#[derive(Debug, FromBytes)]
#[repr(C)]
struct QueueState {
    /// QueueNum.
    number: AtomicU32,
    /// QueueReady.
    ready: AtomicU32,
    /// Sequence number of the record; counts on through restarts.
    sequence: AtomicU32,
}

/// A front: what the plan says of it, and what its guest changed.
#[derive(Clone, Copy)]
pub struct Front<'a, P> {
    /// The plan.
    pub plan: &'a FrontPlan,
    /// The state.
    pub state: &'a FrontState,
    /// The device page.
    pub page: &'a P,
}

impl<P: DevicePage> Front<'_, P> {
    /// Reads a trapped register. Anything but an aligned 32-bit read is answered with 0, as is what cannot be read.
    #[must_use]
    pub fn read(&self, offset: u32, bytes: u8) -> u32 {
        if bytes != 4 {
            return 0;
        }
        match offset {
            MAGIC_VALUE => MAGIC,
            VERSION => VERSION_2,
            DEVICE_ID => self.plan.device,
            VENDOR_ID => VENDOR,
            DEVICE_FEATURES => match self.state.features_selected.load(Relaxed) {
                0 => self.plan.features,
                1 => FEATURES_HIGH,
                _ => 0,
            },
            QUEUE_NUMBER_MOST => self.queue().map_or(0, |_| u32::from(MAX_QUEUE_SIZE)),
            QUEUE_READY => self.queue().map_or(0, |(_, queue)| queue.ready.load(Relaxed)),
            _ => 0,
        }
    }

    /// Writes a trapped register. What is not writable is ignored: among it the driver's features, of which the back end needs none.
    #[must_use = "the monitor acts on the effect"]
    pub fn write(&self, offset: u32, bytes: u8, value: u32) -> FrontEffect {
        if bytes != 4 {
            return FrontEffect::None;
        }
        match offset {
            DEVICE_FEATURES_SELECT => self.state.features_selected.store(value, Relaxed),
            QUEUE_SELECT => self.state.queue_selected.store(value, Relaxed),
            QUEUE_NUMBER => {
                if let Some((_, queue)) = self.queue() {
                    queue.number.store(value, Relaxed);
                }
            }
            QUEUE_READY => {
                if let Some((index, queue)) = self.queue() {
                    self.switch(index, queue, value & 1);
                }
            }
            QUEUE_NOTIFY => return FrontEffect::Doorbell(self.plan.doorbell),
            _ => {}
        }
        FrontEffect::None
    }

    /// Ends the incarnation of a front whose vCPUs all stand still, for a restart. Registers are reset.
    ///
    /// From here on the back end stores nothing any more, except what it announced before: it announces a store, looks at
    /// the generation and stores only if that is still the one it serves. So either it finds none, or [`Front::is_left`] finds
    /// its announcement; both ends have a full barrier between their store and their load.
    pub fn stop(&self) {
        let FrontState { features_selected, queue_selected, queues } = self.state;
        for word in [features_selected, queue_selected] {
            word.store(0, Relaxed);
        }
        for QueueState { number, ready, sequence: _ } in queues {
            number.store(0, Relaxed);
            ready.store(0, Relaxed);
        }
        self.page.store(GENERATION, 0);
        self.page.full_barrier();
    }

    /// States, after [`Front::stop`], whether the back end has left pool and page, so that they can be cleared. The page is cleared up
    /// to [`GENERATION`].
    #[must_use]
    pub fn is_left(&self) -> bool {
        let left = self.page.load(COPYING) == 0;
        // What is cleared comes after this look.
        self.page.full_barrier();
        left
    }

    /// Begins an incarnation, after pool and page were cleared. `generation` is neither 0 nor one that the page had before; low bits of
    /// the counter cannot be guessed by a guest that would like to speak for its successor.
    ///
    /// Not before the clear: a back end that finds a new generation takes over whatever records there are, and those of the
    /// older incarnation would be served in the name of the new one.
    pub fn start(&self, generation: u32) {
        self.page.full_barrier();
        self.page.store(GENERATION, generation);
    }

    /// The selected queue, if the device has it.
    fn queue(&self) -> Option<(u32, &QueueState)> {
        let index = self.state.queue_selected.load(Relaxed);
        let queue = self.state.queues.get(index as usize)?;
        (index < self.plan.queues()).then_some((index, queue))
    }

    /// Writes the record of a queue: number and addresses, or zeros when it goes off.
    fn switch(&self, index: u32, queue: &QueueState, ready: u32) {
        let at = |field: usize| record_offset(index).wrapping_add(field as u32);
        let sequence = at(offset_of!(QueueRecord, sequence));
        let next = || queue.sequence.fetch_add(1, Relaxed).wrapping_add(1);
        // 1 and 0 as masks of all and of no bits.
        let kept = ready.wrapping_neg();
        self.page.store(sequence, next() | 1);
        self.page.full_barrier();
        self.page.store(at(offset_of!(QueueRecord, number)), queue.number.load(Relaxed) & kept);
        for (field, register) in [
            (offset_of!(QueueRecord, descriptors), QUEUE_DESCRIPTORS),
            (offset_of!(QueueRecord, available), QUEUE_AVAILABLE),
            (offset_of!(QueueRecord, used), QUEUE_USED),
        ] {
            for half in [0, 4] {
                self.page.store(at(field).wrapping_add(half), self.page.load(register.wrapping_add(half)) & kept);
            }
        }
        self.page.full_barrier();
        self.page.store(sequence, next() & !1);
        queue.ready.store(ready, Relaxed);
    }
}
