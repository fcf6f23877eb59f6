//! Mappings of PCI resources and of physical memory, device registers, the system counter and one request to a driver: all code of the program
//! that needs `unsafe`.
//!
//! Registers of the emulated functions trap to the monitor, which can decode a load or store only when the CPU describes it
//! in the syndrome. Forms with write-back are not described, and a compiler may choose them for a volatile access in a
//! loop; so on AArch64 the instruction is spelled out. Channel memory is mapped by stage 2 and has no such limit.

use bulkhead_channel::{MappedBytes, MappedWindow};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ptr;

/// A shared mapping of a `resource` file, from its start.
#[derive(Debug)]
pub struct Mapping {
    address: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps the first `bytes` bytes.
    ///
    /// # Errors
    ///
    /// When the file is shorter than that, or the kernel refuses.
    pub fn new(file: &File, bytes: usize) -> io::Result<Self> {
        let length = file.metadata()?.len();
        if bytes == 0 || length < bytes as u64 {
            return Err(io::Error::other(format!("the resource has {length} bytes, {bytes} are needed")));
        }
        Self::at(file, 0, bytes)
    }

    /// Maps `bytes` bytes at an offset, whole pages: of a file that has them, or of physical memory.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn at(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so no memory of this program is replaced.
        let address = unsafe {
            mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, offset)?
        };
        Ok(Self { address: address.cast(), bytes })
    }

    /// Loads a 32-bit register; `None` outside the mapping or unaligned.
    #[must_use]
    pub fn read_register(&self, offset: u64) -> Option<u32> {
        let address = self.register(offset)?;
        // SAFETY: the address is inside the mapping and aligned; the mapping lives as long as `self`. Other parties may
        // change the register, which a volatile access allows for.
        Some(unsafe { load_register(address) })
    }

    /// Stores a 32-bit register; `None` outside the mapping or unaligned.
    pub fn write_register(&self, offset: u64, value: u32) -> Option<()> {
        let address = self.register(offset)?;
        // SAFETY: as for `read_register`; the mapping is writable.
        unsafe { store_register(address, value) };
        Some(())
    }

    /// Views the mapping as a channel window.
    #[must_use]
    pub fn window(&self) -> Option<MappedWindow<'_>> {
        // SAFETY: 1. the range is mapped readable in one piece while `self` is borrowed. 2. it is mapped writable for this
        // program, and stage 2 makes this end's area writable. 3. the bytes are private to this type, which touches them
        // by register accesses or through this window only.
        unsafe { MappedWindow::new(self.address, self.bytes) }
    }

    /// Views the mapping as a window whose bytes both ends write. One view at a time is used, by one thread.
    #[must_use]
    pub fn bytes(&self) -> Option<MappedBytes<'_>> {
        // SAFETY: as for `window`, and stage 2 makes all of it writable for both ends. `Mapping` is not `Sync`, since it holds a
        // pointer, so views of it are in one thread.
        unsafe { MappedBytes::new(self.address, self.bytes) }
    }

    fn register(&self, offset: u64) -> Option<*mut u32> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(4)?;
        (offset.is_multiple_of(4) && end <= self.bytes).then(|| self.address.wrapping_add(offset).cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and every view of it borrowed `self`. A failure leaves it mapped.
        let _ = unsafe { munmap(self.address.cast(), self.bytes) };
    }
}

/// Loads a register by an instruction that a hypervisor can decode.
///
/// # Safety
///
/// `address` is valid for an aligned volatile read.
#[cfg(target_arch = "aarch64")]
unsafe fn load_register(address: *mut u32) -> u32 {
    let value: u32;
    // SAFETY: the caller promises a readable, aligned address. No stack, no flags.
    unsafe {
        core::arch::asm!("ldr {value:w}, [{address}]", value = out(reg) value, address = in(reg) address,
            options(nostack, preserves_flags));
    }
    value
}

/// Stores a register by an instruction that a hypervisor can decode.
///
/// # Safety
///
/// `address` is valid for an aligned volatile write.
#[cfg(target_arch = "aarch64")]
unsafe fn store_register(address: *mut u32, value: u32) {
    // SAFETY: the caller promises a writable, aligned address. No stack, no flags. The barrier orders channel data, which
    // is normal memory, before a doorbell, which is device memory.
    unsafe {
        core::arch::asm!("dmb ish", "str {value:w}, [{address}]", value = in(reg) value, address = in(reg) address,
            options(nostack, preserves_flags));
    }
}

/// Loads a register (host: tests on files).
///
/// # Safety
///
/// `address` is valid for an aligned volatile read.
#[cfg(not(target_arch = "aarch64"))]
unsafe fn load_register(address: *mut u32) -> u32 {
    // SAFETY: the caller promises it.
    unsafe { address.read_volatile() }
}

/// Stores a register (host: tests on files).
///
/// # Safety
///
/// `address` is valid for an aligned volatile write.
#[cfg(not(target_arch = "aarch64"))]
unsafe fn store_register(address: *mut u32, value: u32) {
    // SAFETY: the caller promises it.
    unsafe { address.write_volatile(value) }
}

/// Reads the system counter that time stamps in channels use.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn counter_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user programs read the virtual counter (its vDSO does); no memory is touched. The barrier keeps the
    // read behind earlier loads.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Reads the counter's frequency in Hz.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn counter_hz() -> u64 {
    let hz: u64;
    // SAFETY: as for `counter_ticks`.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

/// Reads a counter in nanoseconds (host: tests).
#[cfg(not(target_arch = "aarch64"))]
#[must_use]
pub fn counter_ticks() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the frequency of the host's counter in Hz.
#[cfg(not(target_arch = "aarch64"))]
#[must_use]
pub fn counter_hz() -> u64 {
    1_000_000_000
}

/// Request of the driver `tun` (`linux/if_tun.h`): become this interface.
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
/// Frames with their heads, and nothing before them.
const TAP_WITHOUT_INFORMATION: i16 = 0x0002 | 0x1000;

/// `struct ifreq` of `linux/if.h`, as [`TUNSETIFF`] reads it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// Makes an open `/dev/net/tun` the other end of a TAP interface.
///
/// # Errors
///
/// When the kernel refuses, or the name has more than 15 bytes.
pub fn attach_tap(file: &File, interface: &str) -> io::Result<()> {
    let mut request = InterfaceRequest { name: [0; 16], flags: TAP_WITHOUT_INFORMATION, rest: [0; 22] };
    if interface.len() >= request.name.len() {
        return Err(io::Error::other("an interface's name has at most 15 bytes"));
    }
    request.name.iter_mut().zip(interface.bytes()).for_each(|(to, from)| *to = from);
    // SAFETY: the kernel reads a `struct ifreq` at the pointer that this opcode comes with: 40 bytes, as the type has. It writes
    // nothing to it that this program reads.
    unsafe { ioctl(file, Setter::<TUNSETIFF, InterfaceRequest>::new(request)) }.map_err(io::Error::from)
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);
