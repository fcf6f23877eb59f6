//! Address spaces: the kernel's own blocks, which all share, and two pages of a process.

use core::arch::asm;
use core::cell::UnsafeCell;

/// How many there are.
pub(crate) const PROCESSES: usize = 2;
/// Where the program is seen: the first address behind the kernel's blocks.
pub(crate) const USER_TEXT: u64 = 0x1_0000_0000;
/// Where its page of data is seen.
pub(crate) const WINDOW: u64 = USER_TEXT + PAGE_BYTES;

const PAGE_BYTES: u64 = 4096;
const ENTRIES: usize = 512;
/// Blocks of the kernel's own level 1 table (`bulkhead_sdk::memory`).
const KERNEL_BLOCKS: usize = 4;
/// Level 1 entry of [`USER_TEXT`].
const USER_BLOCK: usize = 4;
const FRAMES: usize = 2;

const TABLE: u64 = 3;
/// A page of Normal memory with the access flag, inner shareable, for one address space alone (nG), that EL0 may read.
const USER_PAGE: u64 = 3 | (1 << 2) | (1 << 6) | (3 << 8) | (1 << 10) | (1 << 11);
const READ_ONLY: u64 = 1 << 7;
const NEVER_EXECUTE: u64 = (1 << 53) | (1 << 54);

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u64; ENTRIES]>);

// SAFETY: there is one vCPU, and a page is changed only by code that has the `Space` that it belongs to.
unsafe impl Sync for Page {}

impl Page {
    const fn empty() -> Self {
        Self(UnsafeCell::new([0; ENTRIES]))
    }

    fn address(&self) -> u64 {
        self.0.get() as u64
    }

    fn set(&self, index: usize, value: u64) {
        let word = self.0.get().cast::<u64>().wrapping_add(index % ENTRIES);
        // SAFETY: the index is within the page. Volatile, because the reader is the table walk or the process.
        unsafe { word.write_volatile(value) };
    }

    fn get(&self, index: usize) -> u64 {
        let word = self.0.get().cast::<u64>().wrapping_add(index % ENTRIES);
        // SAFETY: as above; the writer is the process.
        unsafe { word.read_volatile() }
    }
}

/// Tables of levels 1 to 3 and frames of each process.
static TABLES: [[Page; 3]; PROCESSES] = [const { [const { Page::empty() }; 3] }; PROCESSES];
static DATA: [[Page; FRAMES]; PROCESSES] = [const { [const { Page::empty() }; FRAMES] }; PROCESSES];

unsafe extern "C" {
    static bulkhead_process_user: [u64; ENTRIES];
}

/// The address space of a process.
pub(crate) struct Space {
    process: usize,
    /// Frame that is mapped.
    frame: usize,
    /// Word in it; another one with each change.
    word: u64,
}

impl Space {
    /// Makes the address space of a process; each number once.
    pub(crate) fn new(process: usize) -> Self {
        let [level1, level2, level3] = &TABLES[process % PROCESSES];
        let kernel: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, TTBR0_EL1", out(reg) kernel, options(nomem, nostack, preserves_flags)) };
        for index in 0..KERNEL_BLOCKS {
            // SAFETY: the SDK's level 1 table has these entries, and memory is seen at its own address.
            level1.set(index, unsafe { (kernel as *const u64).add(index).read_volatile() });
        }
        level1.set(USER_BLOCK, level2.address() | TABLE);
        level2.set(0, level3.address() | TABLE);
        level3.set(0, (&raw const bulkhead_process_user) as u64 | USER_PAGE | READ_ONLY);
        let mut space = Self { process: process % PROCESSES, frame: 0, word: process as u64 };
        space.map_other_frame();
        space
    }

    const fn asid(&self) -> u64 {
        self.process as u64 + 1
    }

    fn data(&self) -> &'static Page {
        &DATA[self.process][self.frame]
    }

    /// States whether the process read the word of the frame that is mapped and wrote it behind.
    pub(crate) fn is_read_and_written(&self, read: u64) -> bool {
        read == self.word && self.data().get(1) == self.word
    }

    /// Maps the other frame, with a new word in it, at [`WINDOW`].
    pub(crate) fn map_other_frame(&mut self) {
        self.frame = (self.frame + 1) % FRAMES;
        self.word += PROCESSES as u64;
        self.data().set(0, self.word);
        let [_, _, level3] = &TABLES[self.process];
        let page = (self.asid() << 48) | (WINDOW / PAGE_BYTES);
        level3.set(1, 0);
        // SAFETY: the entry is gone before its translations are, and both before the new one comes ("break before make").
        unsafe {
            asm!("dsb ishst", "tlbi vae1is, {}", "dsb ish", "isb", in(reg) page, options(nostack, preserves_flags))
        };
        level3.set(1, self.data().address() | USER_PAGE | NEVER_EXECUTE);
        // SAFETY: lets the table walk see the entry.
        unsafe { asm!("dsb ishst", "isb", options(nostack, preserves_flags)) };
    }

    /// Makes it the current one.
    pub(crate) fn activate(&self) {
        let [level1, ..] = &TABLES[self.process];
        let base = (self.asid() << 48) | level1.address();
        // SAFETY: all address spaces have the kernel's blocks; what differs has an ASID of its own.
        unsafe { asm!("dsb ishst", "msr TTBR0_EL1, {}", "isb", in(reg) base, options(nostack, preserves_flags)) };
    }
}
