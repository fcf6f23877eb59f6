//! A network card of virtio behind PCI, on the pages of a component for DMA ([`crate::dma`]).
//!
//! ```text
//! let card = Card::new(card::registers(), configuration::registers(), memory::place())?;
//! ```
//!
//! `virtio-drivers` has the queues; it asks [`Pages`] for memory, which hands the pages out once and never takes one back: a driver sets its queues up
//! once in a life. Whatever the device writes into its queues, that crate keeps its own copies of what it gave away.

use crate::dma::Place;
use crate::driver::Registers;
use bulkhead_kernel_abi::image::COMPONENT_DMA;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::transport::pci::bus::{Command, ConfigurationAccess, DeviceFunction, PciRoot};
use virtio_drivers::transport::pci::{PciTransport, VirtioPciError};
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{BufferDirection, Error, Hal, PAGE_SIZE, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Where devices find the component's pages, and how many of them were handed out; the address of the function's registers.
static PHYSICAL: AtomicU64 = AtomicU64::new(0);
static NEXT_PAGE: AtomicU64 = AtomicU64::new(0);
static REGISTERS: AtomicU64 = AtomicU64::new(0);

/// Bytes behind the register of a virtio function (`boards/`): it is aligned to as many.
const REGISTER_BYTES: u64 = 16 << 10;
/// Frames that can wait on each side, and bytes of one with its header.
pub const FRAMES: usize = 8;
/// Bytes of a frame with its header.
pub const FRAME_BYTES: usize = 2048;
/// Pages that a card needs: two queues of one page for each direction's half, and its frames.
pub const CARD_PAGES: u64 = 4 + 2 * (FRAMES * FRAME_BYTES) as u64 / PAGE_SIZE as u64;

/// Takes pages that nobody has yet. With none left the first access behind the last one is a fault, which ends this component alone.
fn take_pages(pages: u64) -> (u64, NonNull<u8>) {
    let offset = NEXT_PAGE.fetch_add(pages, Ordering::Relaxed) * PAGE_SIZE as u64;
    let address = core::ptr::with_exposed_provenance_mut::<u8>((COMPONENT_DMA + offset) as usize);
    (PHYSICAL.load(Ordering::Relaxed) + offset, NonNull::new(address).unwrap_or(NonNull::dangling()))
}

/// Memory for `virtio-drivers`.
struct Pages;

// SAFETY: `dma_alloc` hands out pages of this component, each once, which the writer of the instance maps at `COMPONENT_DMA` in one piece and devices
// find at `PHYSICAL` in one piece; they are zeroed here, since a former life may have used them. Registers are those of the function that the
// component has alone, at their place within their power of two. What is shared lies in the same pages, as `share` looks.
unsafe impl Hal for Pages {
    fn dma_alloc(pages: usize, _direction: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let (physical, address) = take_pages(pages as u64);
        // SAFETY: whole pages that were handed out to nobody else; without that many the store is a fault, which ends this component.
        unsafe { address.write_bytes(0, pages * PAGE_SIZE) };
        (physical, address)
    }

    unsafe fn dma_dealloc(_physical: PhysAddr, _address: NonNull<u8>, _pages: usize) -> i32 {
        0
    }

    unsafe fn mmio_phys_to_virt(physical: PhysAddr, _bytes: usize) -> NonNull<u8> {
        let address = REGISTERS.load(Ordering::Relaxed) + physical % REGISTER_BYTES;
        NonNull::new(core::ptr::with_exposed_provenance_mut(address as usize)).unwrap_or(NonNull::dangling())
    }

    unsafe fn share(buffer: NonNull<[u8]>, _direction: BufferDirection) -> PhysAddr {
        let offset = (buffer.cast::<u8>().as_ptr().expose_provenance() as u64).wrapping_sub(COMPONENT_DMA);
        // What is not in the pages has an address that the SMMU lets no device reach.
        if offset < NEXT_PAGE.load(Ordering::Relaxed) * PAGE_SIZE as u64 {
            PHYSICAL.load(Ordering::Relaxed) + offset
        } else {
            u64::MAX
        }
    }

    unsafe fn unshare(_physical: PhysAddr, _buffer: NonNull<[u8]>, _direction: BufferDirection) {}
}

/// Configuration space of the one function.
struct Configuration(Registers);

impl ConfigurationAccess for Configuration {
    fn read_word(&self, _function: DeviceFunction, offset: u8) -> u32 {
        self.0.read32(offset.into())
    }

    fn write_word(&mut self, _function: DeviceFunction, offset: u8, word: u32) {
        self.0.write32(offset.into(), word);
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Self(self.0)
    }
}

/// `VIRTIO_F_ACCESS_PLATFORM` (virtio 1.2, 6): what the device reads and writes goes through the SMMU.
const ACCESS_PLATFORM: u64 = 1 << 33;

/// The transport, which accepts that translation is in between: a device that offers it does not work without.
struct Translated(PciTransport);

impl Transport for Translated {
    fn device_type(&self) -> DeviceType {
        self.0.device_type()
    }
    fn read_device_features(&mut self) -> u64 {
        self.0.read_device_features()
    }
    fn write_driver_features(&mut self, features: u64) {
        let offered = self.0.read_device_features() & ACCESS_PLATFORM;
        self.0.write_driver_features(features | offered);
    }
    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.0.max_queue_size(queue)
    }
    fn notify(&mut self, queue: u16) {
        self.0.notify(queue);
    }
    fn get_status(&self) -> DeviceStatus {
        self.0.get_status()
    }
    fn set_status(&mut self, status: DeviceStatus) {
        self.0.set_status(status);
    }
    fn set_guest_page_size(&mut self, bytes: u32) {
        self.0.set_guest_page_size(bytes);
    }
    fn requires_legacy_layout(&self) -> bool {
        self.0.requires_legacy_layout()
    }
    fn queue_set(&mut self, queue: u16, size: u32, descriptors: PhysAddr, driver: PhysAddr, device: PhysAddr) {
        self.0.queue_set(queue, size, descriptors, driver, device);
    }
    fn queue_unset(&mut self, queue: u16) {
        self.0.queue_unset(queue);
    }
    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.queue_used(queue)
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        self.0.ack_interrupt()
    }
    fn read_config_generation(&self) -> u32 {
        self.0.read_config_generation()
    }
    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T, Error> {
        self.0.read_config_space(offset)
    }
    fn write_config_space<T: IntoBytes + Immutable>(&mut self, offset: usize, value: T) -> Result<(), Error> {
        self.0.write_config_space(offset, value)
    }
}

/// Why there is no card.
#[derive(Clone, Debug)]
pub enum CardError {
    /// The function is no virtio device that can be used.
    Function(VirtioPciError),
    /// The device refuses.
    Device(Error),
}

type Frame = UnsafeCell<[u8; FRAME_BYTES]>;

/// Frames of one direction, in the pages for DMA; `None` for those that the device has not.
struct Frames {
    first: NonNull<Frame>,
    /// By token of the queue.
    tokens: [Option<u16>; FRAMES],
}

impl Frames {
    fn new() -> Self {
        let (_, first) = take_pages((FRAMES * FRAME_BYTES / PAGE_SIZE) as u64);
        Self { first: first.cast(), tokens: [None; FRAMES] }
    }

    /// The bytes of a frame that the device has not.
    ///
    /// # Safety
    /// Nobody else uses the frame, and the device has it not or has given it back.
    unsafe fn bytes(&self, number: usize) -> &'static mut [u8; FRAME_BYTES] {
        // SAFETY: a frame of the pages that were taken in `new`, by its number (`FRAMES` at most, as callers have it from `tokens`); the caller says that it is
        // used alone.
        unsafe { &mut *UnsafeCell::raw_get(self.first.as_ptr().add(number % FRAMES)) }
    }
}

/// A network card of virtio.
pub struct Card {
    net: VirtIONetRaw<Pages, Translated, FRAMES>,
    received: Frames,
    sent: Frames,
}

impl Card {
    /// Sets the function up: its registers, its configuration space, and pages that it may reach, [`CARD_PAGES`] at least. It may write memory from here on.
    ///
    /// # Errors
    /// When it is no card, or the device refuses.
    pub fn new(registers: Registers, configuration: Registers, place: Place) -> Result<Self, CardError> {
        PHYSICAL.store(place.physical(), Ordering::Relaxed);
        REGISTERS.store(registers.base(), Ordering::Relaxed);
        let function = DeviceFunction { bus: 0, device: 0, function: 0 };
        let mut root = PciRoot::new(Configuration(configuration));
        let transport = PciTransport::new::<Pages, _>(&mut root, function).map_err(CardError::Function)?;
        // Memory and mastering; the line is told.
        root.set_command(function, Command::MEMORY_SPACE | Command::BUS_MASTER);
        let net = VirtIONetRaw::new(Translated(transport)).map_err(CardError::Device)?;
        let mut card = Self { net, received: Frames::new(), sent: Frames::new() };
        for number in 0..FRAMES {
            card.offer(number).map_err(CardError::Device)?;
        }
        Ok(card)
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> [u8; 6] {
        self.net.mac_address()
    }

    /// Lets the interrupt's line fall, which the device raised.
    pub fn acknowledge(&mut self) {
        self.net.ack_interrupt();
    }

    /// Gives a frame to the device, to be filled.
    fn offer(&mut self, number: usize) -> Result<(), Error> {
        // SAFETY: the device has it not: it was never given, or came back. From here on nobody touches it until its token is used.
        let token = unsafe { self.net.receive_begin(self.received.bytes(number))? };
        if let Some(slot) = self.received.tokens.get_mut(number) {
            *slot = Some(token);
        }
        Ok(())
    }

    /// States whether a frame waits.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.net.poll_receive().is_some()
    }

    /// Hands the next frame that came to `take`; `None` when there is none, or what the device says of it makes no sense.
    pub fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let token = self.net.poll_receive()?;
        let number = self.received.tokens.iter().position(|one| *one == Some(token))?;
        // SAFETY: the frame that was given with this token, which the device has filled.
        let (header, length) = unsafe { self.net.receive_complete(token, self.received.bytes(number)).ok()? };
        // SAFETY: it came back, and is used here alone.
        let bytes = unsafe { self.received.bytes(number) };
        let answer = bytes.get(header..header.saturating_add(length)).map(take);
        self.received.tokens.get_mut(number).map(Option::take);
        let _ = self.offer(number);
        answer
    }

    /// States whether a frame can be sent.
    pub fn can_send(&mut self) -> bool {
        while let Some(token) = self.net.poll_transmit() {
            let Some(number) = self.sent.tokens.iter().position(|one| *one == Some(token)) else { break };
            // SAFETY: the frame that was given with this token, which the device has read.
            if unsafe { self.net.transmit_complete(token, self.sent.bytes(number)) }.is_err() {
                break;
            }
            self.sent.tokens.get_mut(number).map(Option::take);
        }
        self.sent.tokens.contains(&None)
    }

    /// States whether the device has read all that was sent.
    pub fn has_sent_all(&mut self) -> bool {
        let _ = self.can_send();
        self.sent.tokens.iter().all(Option::is_none)
    }

    /// Sends a frame of `length` bytes, which `fill` writes. `None` when the device has all frames, or `length` is too much for one.
    pub fn send<R>(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let number = self.sent.tokens.iter().position(Option::is_none)?;
        // SAFETY: the device has it not, and it is used here alone.
        let bytes = unsafe { self.sent.bytes(number) };
        let header = self.net.fill_buffer_header(bytes).ok()?;
        let answer = fill(bytes.get_mut(header..header.checked_add(length)?)?);
        // SAFETY: from here on nobody touches the frame until its token is used; what is completed is the same piece, as its length is the device's matter alone.
        let token = unsafe { self.net.transmit_begin(bytes.get(..header + length)?).ok()? };
        *self.sent.tokens.get_mut(number)? = Some(token);
        Some(answer)
    }
}
