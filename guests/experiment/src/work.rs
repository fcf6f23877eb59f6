//! Work in instructions, and waits that end with an interrupt whose first instruction reads the counter.
//!
//! A core that computes is made of NOPs: they are instructions like others, so a block takes the same time on every run and in
//! every place, and an emulator goes through them fifty times faster than through arithmetic. Blocks carry no YIELD,
//! which would give the emulator's other cores a turn: these guests are for one core. The functions are not inlined: the compiler
//! takes a repetition in assembly for a few instructions and would branch across it with instructions that do not reach.

use bulkhead_sdk::cpu;
use core::arch::{asm, global_asm};

global_asm!(include_str!("vectors.s"));

unsafe extern "C" {
    static bulkhead_experiment_vectors: [u8; 0];
}

/// Makes the vectors of this guest the current ones.
pub(crate) fn install_vectors() {
    // SAFETY: the table is a whole, aligned vector table; everything but interrupts goes to the SDK's. Interrupts are
    // unmasked in this file alone, where the registers that the handler changes are declared.
    unsafe {
        asm!("msr VBAR_EL1, {}", "isb", in(reg) &raw const bulkhead_experiment_vectors, options(nostack, preserves_flags))
    };
}

/// A long block: about 2000 instructions.
#[inline(never)]
pub(crate) fn long_block() {
    // SAFETY: does nothing.
    unsafe { asm!(".rept 2000", "nop", ".endr", options(nomem, nostack, preserves_flags)) };
}

/// A short block: about 200 instructions.
#[inline(never)]
pub(crate) fn short_block() {
    // SAFETY: does nothing.
    unsafe { asm!(".rept 200", "nop", ".endr", options(nomem, nostack, preserves_flags)) };
}

/// Blocks of 128 instructions, as in the handler.
#[inline(never)]
fn blocks(count: u64) {
    // SAFETY: counts down a register; `count` is not 0.
    unsafe {
        asm!(
            "2:", ".rept 126", "nop", ".endr",
            "subs {count}, {count}, #1",
            "b.ne 2b",
            count = inout(reg) count.max(1) => _,
            options(nomem, nostack),
        );
    }
}

/// How many blocks take a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    ticks_per_100: u64,
}

impl Pace {
    /// Measures it; the shortest of some short tries, because others may run in between.
    pub(crate) fn measure() -> Self {
        let once = || {
            let before = cpu::counter_ticks();
            blocks(100);
            cpu::counter_ticks() - before
        };
        let ticks_per_100 = (0..8).map(|_| once()).min().unwrap_or(1).max(1);
        Self { ticks_per_100 }
    }

    /// Blocks that take so long, rounded to the nearest.
    pub(crate) fn blocks(self, ticks: u64) -> u64 {
        (ticks * 100 + self.ticks_per_100 / 2) / self.ticks_per_100
    }

    /// Works for this many ticks of this guest's own time.
    pub(crate) fn work(self, ticks: u64) {
        let count = self.blocks(ticks);
        if count != 0 {
            blocks(count);
        }
    }
}

/// A request and how it was served.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Record {
    /// When its interrupt is raised; in a closed row, from the second one on, how long after the answer before.
    pub(crate) request_ticks: u64,
    /// Counter at the first instruction of its handler.
    pub(crate) entered_ticks: u64,
    /// Counter after the handler's work.
    pub(crate) done_ticks: u64,
}

const _: () = assert!(size_of::<Record>() == 24, "vectors.s steps by this");

/// How a row of requests is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// Work of the handler.
    pub(crate) handler_blocks: u64,
    /// Requests count from the answer before.
    pub(crate) closed: bool,
    /// The guest gives the core away by WFI between requests, rather than compute.
    pub(crate) sleeps: bool,
    /// Ends there even if requests are left.
    pub(crate) until_ticks: u64,
}

/// Serves requests in order; returns how many.
pub(crate) fn serve(records: &mut [Record], service: &Service) -> usize {
    let Some(first) = records.first() else { return 0 };
    let first_ticks = first.request_ticks;
    let range = records.as_mut_ptr_range();
    let (start, end) = (range.start as u64, range.end as u64);
    // SAFETY: the records are borrowed mutably until the end of this function and the handler stays within them.
    let reached = unsafe {
        if service.sleeps { sleep(first_ticks, start, end, service) } else { compute(first_ticks, start, end, service) }
    };
    ((reached - start) / size_of::<Record>() as u64) as usize
}

/// Serves requests in the timer's handler until all are served or the time is over, with these lines in between; returns the next
/// record's address. The registers are those of the handler (`vectors.s`), and interrupts are masked outside.
macro_rules! serve_between {
    ($first_ticks:ident, $start:ident, $end:ident, $service:ident, $($line:literal),+) => {{
        let reached: u64;
        asm!(
            "msr CNTV_CVAL_EL0, {first}",
            "msr CNTV_CTL_EL0, {one}",
            "2:",
            $($line,)+
            "cmp x26, x28",
            "b.hs 3f",
            "mrs {now}, CNTVCT_EL0",
            "cmp {now}, {until}",
            "b.lo 2b",
            "3:",
            "msr DAIFSet, #2",
            "msr CNTV_CTL_EL0, xzr",
            first = in(reg) $first_ticks,
            one = in(reg) 1u64,
            now = out(reg) _,
            until = in(reg) $service.until_ticks,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x23") _,
            in("x24") $service.handler_blocks,
            inout("x26") $start => reached,
            in("x27") u64::from($service.closed),
            in("x28") $end,
            options(nostack),
        );
        reached
    }};
}

/// Computes until all records are served or the time is over; returns the next record's address.
///
/// # Safety
/// Records lie from `start` to `end`, and nobody else uses them. The vectors of this guest are installed (`main`).
#[inline(never)]
unsafe fn compute(first_ticks: u64, start: u64, end: u64, service: &Service) -> u64 {
    // SAFETY: all registers that the handler changes are declared, and memory is treated as changed. Interrupts are masked
    // outside.
    unsafe { serve_between!(first_ticks, start, end, service, "msr DAIFClr, #2", ".rept 2000", "nop", ".endr") }
}

/// As [`compute`], with the core given away by WFI meanwhile.
///
/// The WFI is masked, as in idle loops of operating systems: unmasked, the interrupt could come just before it.
///
/// # Safety
/// As for [`compute`].
#[inline(never)]
unsafe fn sleep(first_ticks: u64, start: u64, end: u64, service: &Service) -> u64 {
    // SAFETY: as in `compute`.
    unsafe { serve_between!(first_ticks, start, end, service, "wfi", "msr DAIFClr, #2", "msr DAIFSet, #2") }
}

/// Waits for a time; returns the counter at the first instruction of the timer's handler.
fn wait(ticks: u64, sleeps: bool) -> u64 {
    let mut record = [Record { request_ticks: ticks, ..Record::default() }];
    serve(&mut record, &Service { handler_blocks: 0, closed: false, sleeps, until_ticks: u64::MAX });
    record[0].entered_ticks
}

/// Sleeps until a time.
pub(crate) fn sleep_until(ticks: u64) -> u64 {
    wait(ticks, true)
}

/// Computes until a time, with interrupts unmasked.
pub(crate) fn compute_until(ticks: u64) -> u64 {
    wait(ticks, false)
}
