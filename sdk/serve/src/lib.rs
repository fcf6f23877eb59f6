//! Being the back end of a disk of another partition (`[[virtio]]`, `back`): `bulkhead_virtqueue` on the windows of a native guest's information page.
//!
//! The front has stock drivers and may be hostile; nothing that it writes is believed. A guest brings a [`Disk`], opens a [`DiskServer`] with it, and calls
//! [`DiskServer::work`] when the server's interrupt came, and at least each [`LOOK_NS`]: a notification beyond the front's limit is lost. Nothing
//! waits. If this partition is restarted, the front's requests wait, and the next server does them in their order.
//!
//! A crate of its own, so that guests which serve nothing are built without what it needs, and stay as they are byte for byte.
#![no_std]
#![cfg(target_os = "none")]

use bulkhead_abi::plan::PortInformation;
use bulkhead_channel::MappedBytes;
use bulkhead_guest_abi::channel::PORT_BLOCK;
use bulkhead_guest_abi::guest::{GUEST_POOL, MAX_PORTS};
use bulkhead_guest_abi::name_text;
use bulkhead_sdk::hypercall::{self, Doorbell};
use bulkhead_sdk::interrupt::InterruptId;
use bulkhead_sdk::{cpu, information};
use bulkhead_virtqueue::{Block, IDENTITY_BYTES, Window};
pub use bulkhead_virtqueue::{Disk, DiskError, Fault, LOOK_NS, SECTOR_BYTES, Step};
use core::fmt;
use core::sync::atomic::{AtomicU16, Ordering};

/// Steps until the front is interrupted, although there is more to do.
const STEPS: u32 = 64;

/// Ports that this guest serves, a bit for each.
static SERVED: AtomicU16 = AtomicU16::new(0);
const _: () = assert!(MAX_PORTS == u16::BITS as usize);

/// Why a disk is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeError {
    /// The partition is the back end of no disk of that name (or the guest runs on the bare board).
    NoSuchDisk,
    /// This guest serves it already.
    InUse,
    /// The window's address is not usable, or it has no pool.
    BadWindow,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchDisk => "this partition is the back end of no disk of that name",
            Self::InUse => "this guest serves the disk already",
            Self::BadWindow => "the window of the disk cannot be used",
        })
    }
}

/// Returns the ticks of the counter until a server has to look again.
#[must_use]
pub fn look_ticks() -> u64 {
    cpu::frequency_hz().saturating_mul(LOOK_NS) / 1_000_000_000
}

/// A disk of another partition.
#[derive(Debug)]
pub struct DiskServer<D> {
    /// Device page and pool of the front.
    window: Window<MappedBytes<'static>>,
    port: &'static PortInformation,
    block: Block,
    disk: D,
}

impl<D: Disk> DiskServer<D> {
    /// Takes over a disk by its name, with its sectors in `disk`. `is_read_only` is what the description says.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn open(name: &str, is_read_only: bool, disk: D) -> Result<Self, ServeError> {
        let (window, port) = open(name)?;
        let mut identity = [0; IDENTITY_BYTES];
        identity.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Ok(Self { window, port, block: Block::new(is_read_only, identity), disk })
    }

    /// Returns the interrupt that a notification of the front is, for [`bulkhead_sdk::interrupt::enable`].
    #[must_use]
    pub fn interrupt(&self) -> InterruptId {
        InterruptId(self.port.interrupt)
    }

    /// Does a bounded piece of work, and interrupts the front if it waits for that: an interrupt that the limiter held back stays due.
    /// [`Step::Idle`]: it is time to wait.
    pub fn work(&mut self) -> Step {
        let mut step = Step::Worked;
        for _ in 0..STEPS {
            step = self.block.step(&self.window, &mut self.disk);
            if step != Step::Worked {
                break;
            }
        }
        if self.block.interrupt_is_due() && hypercall::doorbell(self.port.doorbell) == Ok(Doorbell::Sent) {
            self.block.interrupt_was_sent();
        }
        step
    }
}

/// Finds a disk, and takes its window.
fn open(name: &str) -> Result<(Window<MappedBytes<'static>>, &'static PortInformation), ServeError> {
    let is_it = |port: &PortInformation| port.kind == PORT_BLOCK && name_text(&port.name) == name;
    let mut ports = (0..).zip(information::ports());
    let (number, port) = ports.find(|(_, port)| is_it(port)).ok_or(ServeError::NoSuchDisk)?;
    let bytes = usize::try_from(port.window_bytes).map_err(|_| ServeError::BadWindow)?;
    let bit = 1_u16 << number;
    if SERVED.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
        return Err(ServeError::InUse);
    }
    // SAFETY: (1, 2) the information page names windows that stage 2 maps for as long as the guest runs, those of disks writable as a
    // whole, and the SDK's translation maps them as Normal memory; (3) the SDK opens no port of this kind, and here each is opened once,
    // since the bit was not set before: so one value has the window, and one thread at a time has that value.
    let memory = unsafe { MappedBytes::new(port.window.0 as *mut u8, bytes) };
    let window = memory.and_then(|memory| Window::new(memory, GUEST_POOL.0)).ok_or(ServeError::BadWindow)?;
    Ok((window, port))
}
