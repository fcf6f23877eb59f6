//! AArch64 at EL1 as the real-time kernel has it: entry by both halves of translation (`boot.s`), vectors and contexts (`vectors.s`), the fast path of three calls (`calls.s`), the controller with
//! priority drop apart from deactivation ([`controller`]), the console ([`console`]), and all of it as one [`Core`].
//!
//! Memory by halves (Arm ARM D8.2): TTBR1 is the kernel's, its addresses are physical ones with the upper bits set ([`HALF`]); TTBR0 is that of the
//! component that runs, with its ASID. Both have 39 bits and pages of 4 KiB. The host writes all tables but those of processes, which are pages of the
//! [`pool`].

pub mod console;
pub mod controller;
pub mod floating_point;
pub mod pool;
#[cfg(feature = "trace")]
mod ring;

use crate::kernel::{Fast, GATE_MASK, GATE_NEEDS, KernelMachine, component, registers, thread};
use bulkhead_abi::hypercall::{CALL_DOORBELL, SUCCESS};
#[cfg(feature = "trace")]
use bulkhead_abi::observe::TraceRecord;
use bulkhead_arm::{Intid, timer};
use bulkhead_guest_abi::guest::{GUEST_INFORMATION, GUEST_MAGIC, GuestInformation};
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::console::writer_entry;
use bulkhead_kernel_abi::image::{self, Epitaph, Head};
use bulkhead_kernel_abi::{Kind, MAX_COMPONENTS};
use console::Console;
use controller::Controller;
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use pool::Pool;

pub use image::KERNEL_HALF as HALF;

/// MAIR_EL1, by the numbers that the tables have: 0 Device-nGnRnE, 1 Normal write-back, 2 Normal non-cacheable.
const MAIR: u64 = 0x0044_ff00;
/// TCR_EL1: both halves of 39 bits (T0SZ, T1SZ 25), pages of 4 KiB (TG1 0b10), walks write-back inner-shareable, ASID of 8 bits from TTBR0_EL1,
/// output addresses of 40 bits.
const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 25 << 16 | 1 << 24 | 1 << 26 | 3 << 28 | 2 << 30 | 2 << 32;
/// SCTLR_EL1: RES1 bits, M, C, SA and SA0 (stack alignment), I, WXN (what is writable is never executable). Clear, so faults at EL0: UMA, DZE, UCT, nTWI,
/// nTWE, UCI.
const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 12 | 1 << 19;
/// CNTKCTL_EL1.EL0VCTEN: EL0 reads the virtual counter, and nothing else of the timers.
const COUNTER_ACCESS: u64 = 1 << 1;

global_asm!(
    include_str!("vectors.s"),
    all_slow = const cfg!(feature = "trace") as u64,
    stack_pointer = const registers::STACK_POINTER - 8,
    program_counter = const registers::PROGRAM_COUNTER,
    thread_pointer = const registers::THREAD_POINTER,
    fast = const size_of::<Fast>(),
    switch = const Call::Switch as u64,
);
global_asm!(
    include_str!("calls.s"),
    place = const thread::PLACE,
    depth = const thread::DEPTH,
    nothing = const thread::NOTHING,
    frames = const thread::FRAMES,
    below = const thread::BELOW,
    component_shift = const component::SHIFT,
    free_stacks = const component::FREE_STACKS,
    space = const component::SPACE,
    needs = const component::NEEDS,
    gate = const component::GATE,
    life = const component::LIFE,
    slots = const component::SLOTS,
    first_entry = const component::FIRST_ENTRY,
    entries = const component::ENTRIES,
    gate_mask = const GATE_MASK,
    gate_needs = const GATE_NEEDS,
    send = const Kind::Send as u64 | (right::USE as u64) << 8,
    remote_send = const Kind::RemoteSend as u64 | (right::USE as u64) << 8,
    stack_pointer = const registers::STACK_POINTER,
    program_counter = const registers::PROGRAM_COUNTER,
    thread_pointer = const registers::THREAD_POINTER,
    all_components = const MAX_COMPONENTS << component::SHIFT,
    count_invoke = const fast(offset_of!(Fast, calls)),
    count_return = const fast(offset_of!(Fast, calls) + 8),
    count_version = const fast(offset_of!(Fast, calls) + 15 * 8),
    all_entries = const fast(offset_of!(Fast, entries)),
    version = const fast(offset_of!(Fast, version)),
    until = const fast(offset_of!(Fast, until_ticks)),
    abi_version = const bulkhead_kernel_abi::KERNEL_ABI_VERSION,
);
global_asm!(include_str!("memory.s"));
global_asm!(
    ".arch_extension crc",
    include_str!("boot.s"),
    magic = const image::MAGIC,
    magic_offset = const offset_of!(Head, magic),
    version = const bulkhead_kernel_abi::KERNEL_ABI_VERSION,
    version_offset = const offset_of!(Head, abi_version),
    checksum_offset = const offset_of!(Head, checksum),
    bytes_offset = const offset_of!(Head, image_bytes),
    kernel_root_offset = const offset_of!(Head, kernel_root),
    boot_root_offset = const offset_of!(Head, boot_root),
    load = const image::LOAD,
    refused_place = const image::REFUSED_PLACE,
    refused_magic = const image::REFUSED_MAGIC,
    refused_version = const image::REFUSED_VERSION,
    refused_bytes = const image::REFUSED_BYTES,
    refused_checksum = const image::REFUSED_CHECKSUM,
    epitaph = const image::EPITAPH_MAGIC,
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR,
    counter_access = const COUNTER_ACCESS,
);

/// An offset in [`Fast`] from its end, which TPIDR_EL1 names.
const fn fast(offset: usize) -> i64 {
    (offset as i64).wrapping_sub(size_of::<Fast>() as i64)
}

/// Tells the fast path where components are, behind its own words and in front of the slots. Before it no thread may run.
///
/// # Safety
/// The address is that of `MAX_COMPONENTS` components of `core/objects`, with a [`Fast`] in front of them and their capability slots behind, that stay where they
/// are; each component's slots, entries and stacks lie in their arrays, and `Fast` names those; while EL0 runs nobody else uses them.
pub unsafe fn set_fast(components: u64) {
    // A register of EL1 that nothing else uses: one instruction finds all that the fast path works on.
    // SAFETY: writes a register that the vectors alone read, of what the caller promises.
    unsafe { asm!("msr TPIDR_EL1, {}", in(reg) components, options(nostack, preserves_flags)) };
}

/// Bytes of a page.
const PAGE: usize = 4096;

unsafe extern "C" {
    /// First byte behind the kernel's own memory (`kernel.ld`).
    static __bulkhead_kernel_end: Head;
    /// Of `vectors.s`.
    fn bulkhead_kernel_probe(address: u64) -> Probed;
}

/// What `vectors.s` says of a load that may fault.
#[repr(C)]
struct Probed {
    word: u64,
    is_there: u64,
}

/// Boot tables of the instance that this kernel is part of.
#[must_use]
pub fn tables() -> &'static [u8] {
    // SAFETY: (1) the linker script aligns the symbol to a page, which the writer of the instance maps read-only; (2) entry has compared magic, version
    // and the checksum over all, so it is a head, and every bit pattern is a value of the type; (3) nobody writes it.
    let head = unsafe { &__bulkhead_kernel_end };
    // Entry has compared the length of all, below 1 GiB, and nothing of it is outside.
    let bytes = head.tables_bytes.min(head.image_bytes) as usize;
    let start = core::ptr::from_ref(head).cast::<u8>();
    // SAFETY: (1) the writer maps the tables read-only from a page behind the head on, and the checksum says that this is what it wrote; (2) bytes have no
    // alignment and every value is one; (3) nobody writes them.
    unsafe { core::slice::from_raw_parts(start.add(PAGE), bytes) }
}

/// Root of the tables of the switch-on.
fn boot_root() -> u64 {
    // SAFETY: as in `tables`.
    unsafe { &__bulkhead_kernel_end }.boot_root
}

/// Physical addresses of the image.
#[must_use]
pub fn image_range() -> core::ops::Range<u64> {
    // SAFETY: as in `tables`.
    let bytes = unsafe { &__bulkhead_kernel_end }.image_bytes;
    image::LOAD..image::LOAD.saturating_add(bytes)
}

/// CRC-32C by the core's own instructions.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        // The instruction that boot.s had for the whole image: no table of 1 KiB for one use.
        // SAFETY: computes with registers alone.
        unsafe {
            asm!(".arch_extension crc", "crc32cb {crc:w}, {crc:w}, {byte:w}", crc = inout(reg) crc, byte = in(reg) u32::from(*byte), options(nomem, nostack, pure, preserves_flags));
        }
    }
    !crc
}

/// Reads a word of a page that may not be there.
fn probe(address: u64) -> Option<u64> {
    // SAFETY: one aligned load of a page that the kernel's tables map read-only; if nothing answers, the vectors return zero in the second register.
    let probed = unsafe { bulkhead_kernel_probe(HALF | address) };
    (probed.is_there != 0).then_some(probed.word)
}

/// The partition's information page; `None` on the bare board. Probes it once.
#[must_use]
pub fn information() -> Option<&'static GuestInformation> {
    let version = GUEST_INFORMATION.0.checked_add(offset_of!(GuestInformation, abi_version) as u64)?;
    // The version follows the magic and is read only when the page is there.
    let is_there = probe(GUEST_INFORMATION.0) == Some(GUEST_MAGIC)
        && probe(version).is_some_and(|word| word & 0xffff_ffff == u64::from(bulkhead_abi::ABI_VERSION));
    // SAFETY: (1) the page is there, with its magic and version, and larger than the type (asserted in its crate); (2) it is page-aligned; (3) every bit
    // pattern is a value; (4) it is read-only at stage 2, and no monitor writes it while the guest runs.
    is_there.then(|| unsafe { &*((HALF | GUEST_INFORMATION.0) as *const GuestInformation) })
}

/// The core with its controller, its console and the pool.
pub struct Core {
    controller: Controller,
    console: Console,
    pool: Pool,
    #[cfg(feature = "trace")]
    ring: ring::Ring,
}

impl Core {
    /// Looks once for the partition's information page and starts controller and console as it says; without one, as the board has them.
    #[must_use]
    pub fn start(pool: Pool) -> Self {
        let information = information();
        Self {
            controller: Controller::start(information),
            console: Console::start(information),
            pool,
            #[cfg(feature = "trace")]
            ring: ring::Ring::start(),
        }
    }
}

impl KernelMachine for Core {
    fn space(&self) -> u64 {
        let space: u64;
        // The register and no copy: the fast path writes it as well.
        // SAFETY: reads a register that no other core has.
        unsafe { asm!("mrs {}, TTBR0_EL1", out(reg) space, options(nomem, nostack, preserves_flags)) };
        space
    }

    fn load_space(&mut self, space: u64) {
        // No barrier: the return to EL0 synchronises, and the kernel does not use this half.
        // SAFETY: a root of the boot tables, whose tables the host wrote and nobody writes; the kernel's own accesses are to the other half.
        unsafe { asm!("msr TTBR0_EL1, {}", in(reg) space, options(nostack, preserves_flags)) };
    }

    fn counter_ticks(&self) -> u64 {
        crate::el1::cpu::counter_ticks()
    }

    fn set_timer(&mut self, deadline_ticks: u64) {
        match deadline_ticks {
            u64::MAX => crate::el1::timer::stop(),
            ticks => crate::el1::timer::set_compare_ticks(ticks),
        }
    }

    fn set_periodic(&mut self, deadline_ticks: u64) {
        let control = if deadline_ticks == u64::MAX { 0 } else { timer::ENABLE };
        // The value first: enabled with the former one it could ring at once. ISB: the condition is gone before the interrupt is deactivated.
        // SAFETY: the second timer of this core, which is the kernel's.
        unsafe {
            asm!("msr CNTP_CVAL_EL0, {}", "msr CNTP_CTL_EL0, {}", "isb", in(reg) deadline_ticks, in(reg) control, options(nostack, preserves_flags));
        }
    }

    fn enable_interrupt(&mut self, intid: Intid) {
        self.controller.enable(intid);
    }

    fn set_edge(&mut self, intid: Intid, edge: bool) {
        self.controller.set_edge(intid, edge);
    }

    fn disable_interrupt(&mut self, intid: Intid) {
        self.controller.disable(intid);
    }

    fn is_interrupted(&self) -> bool {
        let waiting: u64;
        // The register and not the controller: asking that one acknowledges what waits.
        // SAFETY: reads which interrupts are pending; no memory is touched.
        unsafe { asm!("mrs {}, ISR_EL1", out(reg) waiting, options(nomem, nostack, preserves_flags)) };
        waiting != 0
    }

    fn acknowledge(&mut self) -> Intid {
        crate::el1::interface::acknowledge()
    }

    fn drop_priority(&mut self, intid: Intid) {
        // With ICC_CTLR_EL1.EOImode = 1 the end of an interrupt only drops the priority.
        crate::el1::interface::end(intid);
    }

    fn deactivate(&mut self, intid: Intid) {
        self.controller.deactivate(intid);
    }

    fn write_console(&mut self, text: &[u8]) {
        self.console.write(text);
    }

    fn console_entries(&self) -> u64 {
        self.console.entries()
    }

    fn write_writer(&mut self, writer: u16) {
        self.console.append(writer_entry(writer));
    }

    fn open_floating_point(&mut self) {
        floating_point::open();
    }

    fn floating_point_owner(&self) -> Option<u16> {
        floating_point::owner()
    }

    fn load_floating_point(&mut self, thread: u16, is_kept: bool) {
        floating_point::load(thread, is_kept);
    }

    fn floating_point_stay(&self, thread: u16) -> Option<u64> {
        floating_point::stay(thread)
    }

    fn set_floating_point_stay(&mut self, thread: u16, stay: u64) {
        floating_point::set_stay(thread, stay);
    }

    fn pool_word(&self, page: u32, index: u16) -> u64 {
        self.pool.word(page, index)
    }

    fn set_pool_word(&mut self, page: u32, index: u16, word: u64) {
        self.pool.set_word(page, index, word);
    }

    fn clear_page(&mut self, page: u32) {
        self.pool.clear(page);
    }

    fn copy_page(&mut self, to: u32, from: u32) {
        self.pool.copy(to, from);
    }

    fn copy_image(&mut self, to: u32, physical: u64) {
        self.pool.copy_image(to, physical);
    }

    fn restore_page(&mut self, to: u64, from: Option<u64>) {
        self.pool.restore_page(to, from);
    }

    fn forget(&mut self, asid: u16, address: u64) {
        pool::forget(asid, address);
    }

    fn forget_all(&mut self, asid: u16) {
        pool::forget_all(asid);
    }

    fn wait_for_interrupt(&mut self) {
        crate::el1::cpu::wait_for_interrupt();
    }

    fn load_shared(&self, address: u64) -> u64 {
        let word: u64;
        // One aligned load: the other end may store meanwhile. Acquire: what was written before it is seen behind it.
        // SAFETY: a word of a channel's window, whose pages the host maps in the kernel's half; no object of the language is there.
        unsafe { asm!("ldar {}, [{}]", out(reg) word, in(reg) HALF | address, options(nostack, preserves_flags)) };
        word
    }

    fn store_shared(&self, address: u64, word: u64) {
        // One aligned store. Release: who sees it sees what was written before.
        // SAFETY: as for `load_shared`, in a page that the host maps writable because this end writes it.
        unsafe { asm!("stlr {}, [{}]", in(reg) word, in(reg) HALF | address, options(nostack, preserves_flags)) };
    }

    fn ring(&mut self, doorbell: u32) -> bool {
        crate::el1::call::call(CALL_DOORBELL, [doorbell.into(), 0, 0])[0] == SUCCESS
    }

    #[cfg(feature = "trace")]
    fn seen(&mut self) -> Option<&mut crate::kernel::Seen> {
        Some(&mut self.ring.seen)
    }

    #[cfg(feature = "trace")]
    fn record(&mut self, kind: u16, small: u32, first: u64, second: u64) {
        let time_ticks = self.counter_ticks();
        self.ring.write(TraceRecord { time_ticks, kind, small, first, second, ..TraceRecord::default() });
    }
}

/// What is left of a kernel that could not go on; `boot.s` writes it, too. Who reads RAM finds it by its symbol.
#[unsafe(no_mangle)]
static mut bulkhead_kernel_epitaph: Epitaph =
    Epitaph { magic: 0, reason: 0, syndrome: 0, address: 0, program_counter: 0, stack_pointer: 0 };

/// Writes the epitaph.
pub fn bury(epitaph: Epitaph) {
    // SAFETY: one core, interrupts masked, and nobody comes back from here.
    unsafe { (&raw mut bulkhead_kernel_epitaph).write_volatile(epitaph) };
}
