//! The payload's ends of channels between the worlds, for a kernel in C (SG-70 to SG-72).
//!
//! Nothing here waits, and no interrupt is masked while bytes are copied: an end is taken by who comes first, and who comes meanwhile is told
//! that it is busy. The loader of the other world closes all ends, which works when nobody has one, and opens new ones over memory that it fills
//! with zeros; so no task holds on to what was before a restart. Everything that comes from the other world is `core/world`'s to judge.
//!
//! Rejected: to mask interrupts instead of the three states. A block has up to 4 KiB, and a tick would wait for its copy.

use crate::cell::Cell;
use bulkhead_arm::Intid;
use bulkhead_arm::gic::{ISPENDR, bit_word};
use bulkhead_channel::{MappedWindow, SharedMemory};
use bulkhead_world::flash::{ChannelDirection, ChannelPlan, MOST_CHANNELS, WorldPlan};
use bulkhead_world::pool::{Events, Filter, Geometry, Held, PoolError, Receiver, Sender};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering};

/// Why something was not done; `bulkhead_messages.h` has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
enum Refusal {
    /// No message, or no free block.
    Nothing = -1,
    /// The block or message is not the caller's.
    Block = -2,
    /// More bytes than a block or the buffer takes.
    Length = -3,
    /// The other world wrote nonsense.
    Corrupt = -4,
    /// There is no such channel in this direction, or the other world is not loaded.
    Closed = -5,
    /// Another task is in the middle of a call of this channel.
    Busy = -6,
}

impl From<PoolError> for Refusal {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Memory => Self::Closed,
            PoolError::Nothing => Self::Nothing,
            PoolError::Block => Self::Block,
            PoolError::Length => Self::Length,
            PoolError::Corrupt => Self::Corrupt,
        }
    }
}

/// An end, and what belongs to it.
enum End {
    None,
    Sender(Sender<MappedWindow<'static>>, Signal),
    /// With the message that was dequeued and is not freed yet.
    Receiver(Receiver<MappedWindow<'static>>, Option<Held>),
}

/// The interrupt that tells the other world.
#[derive(Clone, Copy)]
pub(crate) struct Signal {
    pub(crate) distributor: u64,
    pub(crate) intid: u32,
}

impl Signal {
    /// Nobody is told.
    pub(crate) const fn none() -> Self {
        Self { distributor: 0, intid: 0 }
    }

    /// Makes it pending. The barrier puts the message before it.
    pub(crate) fn give(self) {
        if self.intid == 0 {
            return;
        }
        let intid = Intid(self.intid);
        let address = self.distributor.wrapping_add(bit_word(ISPENDR, intid));
        let register = core::ptr::with_exposed_provenance_mut::<u32>(address as usize);
        // SAFETY: orders what was stored before the register.
        unsafe { core::arch::asm!("dsb ishst", options(nostack, preserves_flags)) };
        // SAFETY: a register of the distributor, which the plan gives and the host's tables map; an interrupt of the other world.
        unsafe { register.write_volatile(intid.bit()) };
    }
}

/// States of a channel: nobody may use it; anybody may; somebody does.
const CLOSED: u32 = 0;
const OPEN: u32 = 1;
const USED: u32 = 2;

struct Channel {
    state: AtomicU32,
    end: UnsafeCell<End>,
}

// SAFETY: `end` is touched by who has changed `state` from OPEN to USED, or from OPEN to CLOSED until it is OPEN again: one at a time.
unsafe impl Sync for Channel {}

static CHANNELS: [Channel; MOST_CHANNELS] =
    [const { Channel { state: AtomicU32::new(CLOSED), end: UnsafeCell::new(End::None) } }; MOST_CHANNELS];
static EVENTS: Cell<Events> = Cell::new(Events::new());

/// Does something with an end, unless it is closed or in use.
fn with(channel: u32, what: impl FnOnce(&mut End) -> Result<u64, Refusal>) -> i64 {
    let result = CHANNELS.get(channel as usize).ok_or(Refusal::Closed).and_then(|channel| {
        // Acquire: what the user before has left. Release below: what this one leaves.
        match channel.state.compare_exchange(OPEN, USED, Ordering::Acquire, Ordering::Relaxed) {
            Err(USED) => return Err(Refusal::Busy),
            Err(_) => return Err(Refusal::Closed),
            Ok(_) => {}
        }
        // SAFETY: this made the state USED, so nobody else is here.
        let result = what(unsafe { &mut *channel.end.get() });
        channel.state.store(OPEN, Ordering::Release);
        result
    });
    match result {
        Ok(value) => i64::try_from(value).unwrap_or(i64::MAX),
        Err(refusal) => refusal as i64,
    }
}

fn with_sender(
    channel: u32,
    what: impl FnOnce(&mut Sender<MappedWindow<'static>>, Signal) -> Result<u64, PoolError>,
) -> i64 {
    with(channel, |end| match end {
        End::Sender(sender, signal) => what(sender, *signal).map_err(Refusal::from),
        End::None | End::Receiver(..) => Err(Refusal::Closed),
    })
}

fn with_receiver(
    channel: u32,
    what: impl FnOnce(&mut Receiver<MappedWindow<'static>>, &mut Option<Held>) -> Result<u64, PoolError>,
) -> i64 {
    with(channel, |end| match end {
        End::Receiver(receiver, held) => what(receiver, held).map_err(Refusal::from),
        End::None | End::Sender(..) => Err(Refusal::Closed),
    })
}

/// The number of a channel by its name; negative when there is none.
///
/// # Safety
/// `plan` is what the payload was given in x0, and `name` a zero-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_find(plan: *const WorldPlan, name: *const c_char) -> i64 {
    // SAFETY: EL3 put the plan there and checked it; the caller's text.
    let (plan, name) = unsafe { (&*plan, CStr::from_ptr(name)) };
    let is_it = |channel: &ChannelPlan| CStr::from_bytes_until_nul(&channel.name).is_ok_and(|one| one == name);
    let found = plan.channels.iter().position(|channel| channel.direction != 0 && is_it(channel));
    found.map_or(Refusal::Closed as i64, |number| number as i64)
}

/// Ticks of the kernel between two looks for messages; 0 when the other world calls.
///
/// # Safety
/// As for [`bulkhead_messages_find`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_poll(plan: *const WorldPlan, channel: u32) -> u32 {
    // SAFETY: as above.
    unsafe { &*plan }.channels.get(channel as usize).map_or(0, |channel| channel.poll)
}

/// Closes all channels: the other world is going to be loaded. Returns false when somebody is in the middle of a call, and has to be let go on.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_close() -> bool {
    // Acquire: what the last user has left.
    let close = |channel: &Channel| {
        channel.state.compare_exchange(OPEN, CLOSED, Ordering::Acquire, Ordering::Relaxed) != Err(USED)
    };
    CHANNELS.iter().all(close)
}

/// Fills the memory of all channels with zeros and makes their ends new.
///
/// # Safety
/// As for [`bulkhead_messages_find`]; [`bulkhead_messages_close`] returned true, and the other world does not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_open(plan: *const WorldPlan) {
    // SAFETY: as above.
    let plan = unsafe { &*plan };
    for (channel, place) in plan.channels.iter().zip(&CHANNELS) {
        if place.state.load(Ordering::Acquire) != CLOSED {
            continue;
        }
        // SAFETY: the channel is closed, so nobody else touches its end.
        let end = unsafe { &mut *place.end.get() };
        *end = new_end(plan, channel).unwrap_or(End::None);
        if !matches!(end, End::None) {
            // Release: the end is there.
            place.state.store(OPEN, Ordering::Release);
        }
    }
}

fn new_end(plan: &WorldPlan, channel: &ChannelPlan) -> Option<End> {
    let geometry = Geometry::new(channel.blocks, channel.block_bytes)?;
    let bytes = channel.pool_bytes()?;
    let address = core::ptr::with_exposed_provenance_mut::<u8>(channel.address as usize);
    // SAFETY: whole pages that the plan gives to this channel alone (the builder and `verify` see to it), mapped by the host's tables readable
    // and writable as a device, on which aligned loads and stores of 64 bits work; the payload touches them here alone.
    let memory = unsafe { MappedWindow::new(address, bytes as usize) }?;
    (0..memory.words()).for_each(|word| memory.store(word, 0));
    if channel.direction == ChannelDirection::ToWorld as u32 {
        let signal = Signal { distributor: plan.distributor, intid: channel.interrupt };
        Sender::new(memory, geometry).ok().map(|sender| End::Sender(sender, signal))
    } else {
        Receiver::new(memory, geometry, Filter::default()).ok().map(|receiver| End::Receiver(receiver, None))
    }
}

/// Takes a free block; returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_allocate(channel: u32) -> i64 {
    with_sender(channel, |sender, _| sender.allocate().map(u64::from))
}

/// Gives an allocated block back.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_free(channel: u32, block: u32) -> i64 {
    with_sender(channel, |sender, _| sender.free(block).map(|()| 0))
}

/// Writes an allocated block from its beginning.
///
/// # Safety
/// `bytes` are as many as `length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_write(channel: u32, block: u32, bytes: *const u8, length: u32) -> i64 {
    // SAFETY: the caller's.
    let bytes = unsafe { slice(bytes, length) };
    with_sender(channel, |sender, _| sender.write(block, bytes).map(|()| 0))
}

/// Enqueues an allocated block, and tells the other world if the plan says how.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_enqueue(channel: u32, block: u32, length: u32, tag: u32) -> i64 {
    with_sender(channel, |sender, signal| {
        sender.enqueue(block, length, tag)?;
        signal.give();
        Ok(0)
    })
}

/// Sends a message: a block is allocated, written and enqueued.
///
/// # Safety
/// As for [`bulkhead_messages_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_send(channel: u32, bytes: *const u8, length: u32, tag: u32) -> i64 {
    // SAFETY: the caller's.
    let bytes = unsafe { slice(bytes, length) };
    with_sender(channel, |sender, signal| {
        let block = sender.allocate()?;
        if let Err(error) = sender.write(block, bytes).and_then(|()| sender.enqueue(block, length, tag)) {
            sender.free(block)?;
            return Err(error);
        }
        signal.give();
        Ok(0)
    })
}

/// From now on only messages are taken whose tag has `value` in the bits of `mask`.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_filter(channel: u32, mask: u32, value: u32) -> i64 {
    with_receiver(channel, |receiver, _| {
        receiver.set_filter(Filter { mask, value });
        Ok(0)
    })
}

/// 1 when there is something to dequeue, 0 when not.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_look(channel: u32) -> i64 {
    with_receiver(channel, |receiver, _| Ok(u64::from(receiver.has_news())))
}

/// Takes the next message; returns its bytes. It is held until [`bulkhead_messages_done`], and no other one is taken meanwhile.
///
/// # Safety
/// `tag` is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_dequeue(channel: u32, tag: *mut u32) -> i64 {
    with_receiver(channel, |receiver, held| {
        if held.is_some() {
            return Err(PoolError::Block);
        }
        let message = receiver.dequeue()?;
        *held = Some(message);
        // SAFETY: the caller's.
        unsafe { tag.write(message.tag()) };
        Ok(message.bytes().into())
    })
}

/// Copies the message that is held; returns its bytes.
///
/// # Safety
/// `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_read(channel: u32, buffer: *mut u8, size: u32) -> i64 {
    // SAFETY: the caller's.
    let buffer = unsafe { slice_mut(buffer, size) };
    with_receiver(channel, |receiver, held| {
        let message = held.ok_or(PoolError::Block)?;
        receiver.read(&message, buffer).map(|bytes| bytes.len() as u64)
    })
}

/// Frees the message that is held.
#[unsafe(no_mangle)]
pub extern "C" fn bulkhead_messages_done(channel: u32) -> i64 {
    with_receiver(channel, |receiver, held| receiver.free(&held.take().ok_or(PoolError::Block)?).map(|()| 0))
}

/// Takes the next message, copies it and frees it; returns its bytes. One that is larger than the buffer is freed all the same.
///
/// # Safety
/// As for [`bulkhead_messages_dequeue`] and [`bulkhead_messages_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_receive(channel: u32, buffer: *mut u8, size: u32, tag: *mut u32) -> i64 {
    // SAFETY: the caller's.
    let buffer = unsafe { slice_mut(buffer, size) };
    with_receiver(channel, |receiver, held| {
        if held.is_some() {
            return Err(PoolError::Block);
        }
        let message = receiver.dequeue()?;
        let read = receiver.read(&message, buffer).map(|bytes| bytes.len() as u64);
        receiver.free(&message)?;
        // SAFETY: the caller's.
        unsafe { tag.write(message.tag()) };
        read
    })
}

/// A channel of a group was rung. Returns whether somebody has to be woken: it is the first event of the group since they were taken.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_ring(channel: u32, group: u32) -> bool {
    // SAFETY: the caller's.
    unsafe { EVENTS.get() }.ring(channel, group)
}

/// Takes the events of a group: a bit for each channel that was rung.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_messages_take(group: u32) -> u32 {
    // SAFETY: the caller's.
    unsafe { EVENTS.get() }.take(group)
}

/// # Safety
/// `bytes` are as many as `length` says, and live as long as the result.
unsafe fn slice<'a>(bytes: *const u8, length: u32) -> &'a [u8] {
    // SAFETY: the caller's; no bytes may have no address in C.
    if length == 0 { &[] } else { unsafe { core::slice::from_raw_parts(bytes, length as usize) } }
}

/// # Safety
/// As for [`slice`], and nobody else uses them.
unsafe fn slice_mut<'a>(bytes: *mut u8, length: u32) -> &'a mut [u8] {
    // SAFETY: the caller's.
    if length == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(bytes, length as usize) } }
}
