//! The machine's RAM as the host sees it: a sparse file that QEMU maps shared, read live and never written. Banks of RAM lie in it one
//! behind the other.
//!
//! The file is created with mode 0600 in a private directory (0700), opened, and unlinked with its directory at once; QEMU
//! gets it as an inherited descriptor. So from then on the file has no name, and the kernel frees it whatever ends the run:
//! a normal end, a panic, SIGKILL, a crash of QEMU. The rejected alternative, a named file with a clean-up handler, cannot
//! cover SIGKILL.

use crate::error::RunError;
use crate::os::Mapping;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::RamBank;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zerocopy::FromBytes;

/// Room left over on the file system for others, in bytes.
const MARGIN_BYTES: u64 = 16 << 20;
/// Kind of a file system in memory (`statfs(2)`).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A machine's RAM: the file and its mapping.
pub struct Ram {
    file: File,
    mapping: Mapping,
    /// In the order of their addresses; they lie one behind the other in the file.
    banks: Vec<RamBank>,
}

/// Returns the address behind an offset; none when the sum does not fit in 64 bits.
pub(crate) fn behind(address: PhysicalAddress, offset_bytes: u64) -> Option<PhysicalAddress> {
    address.0.checked_add(offset_bytes).map(PhysicalAddress)
}

/// Returns the bytes of all banks.
pub(crate) fn bytes_of(banks: &[RamBank]) -> u64 {
    banks.iter().fold(0, |sum: u64, bank| sum.saturating_add(bank.bytes))
}

impl Ram {
    /// Creates zeroed RAM for a board with these banks.
    pub fn create(banks: &[RamBank]) -> Result<Self, RunError> {
        Self::create_in(&candidate_directories(), banks)
    }

    /// Creates RAM in the first of `parents` that has room for all of it.
    pub fn create_in(parents: &[PathBuf], banks: &[RamBank]) -> Result<Self, RunError> {
        let bytes = bytes_of(banks);
        let parent = directory_with_room(parents, bytes)?;
        let file = unnamed_file(&parent, bytes).map_err(|cause| RunError::RamFile { parent: parent.clone(), cause })?;
        Self::over(file, banks, bytes).map_err(|cause| RunError::RamFile { parent, cause })
    }

    /// Maps RAM that a running machine holds, for example through `/proc/PID/fd/N`.
    pub fn open(path: &Path, banks: &[RamBank]) -> Result<Self, RunError> {
        let open = || -> io::Result<Self> {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Self::over(file, banks, bytes)
        };
        open().map_err(|cause| RunError::RamFile { parent: path.to_path_buf(), cause })
    }

    fn over(file: File, banks: &[RamBank], bytes: u64) -> io::Result<Self> {
        let size = usize::try_from(bytes)
            .map_err(|_| io::Error::other("the RAM does not fit in this host's address space"))?;
        let mapping = Mapping::new(&file, size)?;
        Ok(Self { file, mapping, banks: banks.to_vec() })
    }

    /// Returns the file, for QEMU to inherit.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the first physical address of RAM.
    pub fn start(&self) -> PhysicalAddress {
        self.banks.first().map_or(PhysicalAddress(0), |bank| bank.start)
    }

    /// Returns the size of RAM.
    pub fn bytes(&self) -> u64 {
        self.mapping.bytes() as u64
    }

    fn offset(&self, address: PhysicalAddress) -> Option<usize> {
        let mut before = 0;
        for bank in &self.banks {
            match address.0.checked_sub(bank.start.0) {
                Some(offset) if offset < bank.bytes => return usize::try_from(offset.checked_add(before)?).ok(),
                _ => before = u64::checked_add(before, bank.bytes)?,
            }
        }
        None
    }

    /// Reads a value at a physical address; `None` when it is not wholly in RAM.
    ///
    /// Each aligned 8 bytes are read by one atomic load; a larger value may mix old and new words.
    pub fn read_at<T: FromBytes>(&self, address: PhysicalAddress) -> Option<T> {
        let mut bytes = vec![0; size_of::<T>()];
        self.copy_at(address, &mut bytes).then(|| T::read_from_bytes(&bytes).ok())?
    }

    /// Copies bytes from a physical address; false, with nothing copied, when the range is not wholly in RAM.
    #[must_use]
    pub fn copy_at(&self, address: PhysicalAddress, out: &mut [u8]) -> bool {
        self.offset(address).is_some_and(|offset| self.mapping.copy(offset, out))
    }

    /// Loads an aligned 64-bit word with acquire order: what its writer stored before it can be read after it.
    pub fn load_u64(&self, address: PhysicalAddress) -> Option<u64> {
        self.mapping.load_u64(self.offset(address)?)
    }

    /// Loads an aligned 32-bit word with acquire order.
    pub fn load_u32(&self, address: PhysicalAddress) -> Option<u32> {
        self.mapping.load_u32(self.offset(address)?)
    }

    /// Writes bytes into the RAM of a machine. Tests inject damage with it; a run never does.
    pub fn write_at(&self, address: PhysicalAddress, bytes: &[u8]) -> io::Result<()> {
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "the range is not in RAM");
        let offset = self.offset(address).ok_or_else(outside)?;
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.mapping.bytes()) {
            return Err(outside());
        }
        self.file.write_all_at(bytes, offset as u64)
    }
}

/// Returns where RAM files may go, best first: memory, then the directory for temporary files.
pub fn candidate_directories() -> Vec<PathBuf> {
    vec![PathBuf::from("/dev/shm"), std::env::temp_dir()]
}

fn directory_with_room(parents: &[PathBuf], bytes: u64) -> Result<PathBuf, RunError> {
    let needed = bytes.saturating_add(MARGIN_BYTES);
    let mut seen = Vec::new();
    for parent in parents {
        let Ok(free) = free_bytes(parent) else { continue };
        if free >= needed {
            return Ok(parent.clone());
        }
        seen.push((parent.clone(), free));
    }
    Err(RunError::TooLittleSpace { needed, seen })
}

/// Returns how much a file in this directory can hold. A file system in memory has no more than the memory left.
fn free_bytes(directory: &Path) -> io::Result<u64> {
    let facts = rustix::fs::statvfs(directory)?;
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    let is_memory = rustix::fs::statfs(directory)?.f_type == TMPFS_MAGIC;
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_memory(&text));
    Ok(available.filter(|_| is_memory).map_or(free, |available| free.min(available)))
}

/// Finds the memory that can be used without swapping, in the text of `/proc/meminfo`.
fn available_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Creates the file in its private directory, then removes both names.
fn unnamed_file(parent: &Path, bytes: u64) -> io::Result<File> {
    let directory = PrivateDirectory::create(parent)?;
    let path = directory.path().join("ram");
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(bytes)?;
    Ok(file)
}

/// A directory that only this user may enter; removed on drop with what is in it, also on an early return.
pub(crate) struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        // The random state of the standard library's hash maps: enough to avoid a collision; creation fails on one.
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let path = parent.join(format!("bulkhead-{}-{random:016x}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // Nobody else may enter, so all that is in there is ours; a failure leaves an empty directory at worst.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_kibibytes() {
        let text = "MemTotal:       24576000 kB\nMemFree:          100 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available_memory(text), Some(2 << 20));
        for damaged in ["", "MemAvailable: x kB", "MemAvailable: 5", "MemAvailable: 99999999999999999999 kB"] {
            assert_eq!(available_memory(damaged), None, "{damaged:?}");
        }
    }
}
