//! The crate's only unsafe code: a shared mapping of the machine's RAM, and what a child does between `fork` and `exec`.
//!
//! The machine writes its RAM while the host reads it. So no Rust reference to the mapping ever exists: every read is an
//! atomic load through a raw pointer, and callers get copies. The rejected alternative, `pread` on the file, needs no
//! unsafe code but costs a system call per word and gives no ordering between two words.

use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A read-only shared mapping of a whole file.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is only read, by atomic loads, and stays mapped until `drop`, which needs exclusive access.
unsafe impl Send for Mapping {}
// SAFETY: as above; atomic loads from several threads are allowed.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`; the file must not be shorter (a read past its end would raise SIGBUS).
    pub(crate) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file is shorter than the memory it should hold",
            ));
        }
        // SAFETY: a null hint and no MAP_FIXED, so no existing mapping is replaced; `bytes` is checked by the kernel.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned a null address"))?;
        Ok(Self { base, bytes })
    }

    /// Returns the size of the mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns a pointer to `size` mapped bytes at a multiple of `size`, or `None` outside the mapping or misaligned.
    fn pointer(&self, offset: usize, size: usize) -> Option<*mut u8> {
        let end = offset.checked_add(size)?;
        if end > self.bytes || !offset.is_multiple_of(size) {
            return None;
        }
        // SAFETY: offset + size <= bytes, so the result stays inside the one mapping.
        Some(unsafe { self.base.as_ptr().add(offset) })
    }

    /// Loads a 64-bit word with acquire order.
    pub(crate) fn load_u64(&self, offset: usize) -> Option<u64> {
        let pointer = self.pointer(offset, 8)?.cast::<u64>();
        // SAFETY: `pointer` is inside the mapping and 8-aligned (page-aligned base plus a multiple of 8); this process
        // only ever loads from it, and an atomic load of 8 bytes is defined on read-only memory on 64-bit hosts.
        Some(u64::from_le(unsafe { AtomicU64::from_ptr(pointer) }.load(Ordering::Acquire)))
    }

    /// Loads a 32-bit word with acquire order.
    pub(crate) fn load_u32(&self, offset: usize) -> Option<u32> {
        let pointer = self.pointer(offset, 4)?.cast::<u32>();
        // SAFETY: as in `load_u64`, with 4 bytes.
        Some(u32::from_le(unsafe { AtomicU32::from_ptr(pointer) }.load(Ordering::Acquire)))
    }

    /// Copies bytes out, eight at a time where the address allows, each piece by one atomic load.
    ///
    /// Returns false, and copies nothing, when the range is not wholly inside the mapping.
    pub(crate) fn copy(&self, offset: usize, out: &mut [u8]) -> bool {
        match offset.checked_add(out.len()) {
            Some(end) if end <= self.bytes => {}
            _ => return false,
        }
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            if at.is_multiple_of(8) && rest.len() >= 8 {
                let (piece, tail) = rest.split_at_mut(8);
                piece.copy_from_slice(&self.load_u64(at).unwrap_or(0).to_le_bytes());
                (at, rest) = (at + 8, tail);
            } else {
                let (piece, tail) = rest.split_at_mut(1);
                piece[0] = self.load_u8(at).unwrap_or(0);
                (at, rest) = (at + 1, tail);
            }
        }
        true
    }

    fn load_u8(&self, offset: usize) -> Option<u8> {
        let pointer = self.pointer(offset, 1)?;
        // SAFETY: as in `load_u64`, with 1 byte.
        Some(unsafe { AtomicU8::from_ptr(pointer) }.load(Ordering::Relaxed))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are exactly what `mmap` returned, and no pointer into the mapping outlives `self`.
        // A failure would leak the mapping until the process ends, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Makes the child die with this process, and hands it the given file descriptors under their own numbers.
///
/// The caller keeps the descriptors open until the child was spawned. The death signal is bound to the *thread* that
/// spawns, so that thread must live as long as the child (see `child.rs`).
pub(crate) fn prepare_child(command: &mut Command, inherited: Vec<RawFd>) {
    let parent: Pid = getpid();
    let prepare = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            return Err(io::Error::other("the parent ended before its child started"));
        }
        for descriptor in &inherited {
            // SAFETY: the caller keeps the descriptor open across the spawn; this is the child's copy of it.
            let descriptor = unsafe { BorrowedFd::borrow_raw(*descriptor) };
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes plain system calls only; on its success path it neither allocates
    // nor takes a lock, and it touches no memory that another thread could have left half-changed.
    unsafe { command.pre_exec(prepare) };
}
