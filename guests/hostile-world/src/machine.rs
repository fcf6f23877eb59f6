//! The machine as an attacker sees it: memory, single instructions with their exceptions, filled registers, the console.

use crate::SMC;
use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

global_asm!(include_str!("start.s"));

unsafe extern "C" {
    fn execute(registers: *mut u64, code: *const u32) -> u64;
    fn descend(registers: *mut u64, code: *const u32, state: u64);
    fn filled_call(registers: *mut u64);
    fn filled_count_in_x0(registers: *mut u64);
    fn filled_count_in_x30(registers: *mut u64);
    fn filled_floating(registers: *mut u64, rounds: u64);
    static mut caught: [u64; 4];
    static mut interrupts_taken: [u64; 3];
    static endless: u8;
}

/// The non-secure console, a PL011.
const UART: u64 = 0x0900_0000;
const UART_FLAGS: u64 = 0x18;
const UART_FULL: u32 = 1 << 5;

/// Instructions of a trial: it is written here, and runs here.
static mut CODE: [u32; 16] = [0; 16];
const RET: u32 = 0xd65f_03c0;

/// Class of a data abort at the same level, and what its syndrome may say of the access (ISV to AR, 24:14): QEMU does at EL2.
const DATA_ABORT: u64 = 0x25;
const ABORT_ACCESS: u64 = 0x7ff << 14;

/// An exception that a trial came back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    /// ESR of this level.
    pub(crate) syndrome: u64,
    /// FAR.
    pub(crate) address: u64,
    /// ELR.
    pub(crate) place: u64,
}

impl Exception {
    /// Its class, bits 31:26 of the syndrome.
    pub(crate) fn class(self) -> u64 {
        self.syndrome >> 26
    }
}

/// Reads 32 bits of a device.
pub(crate) fn read32(address: u64) -> u32 {
    // SAFETY: the caller names a device of the non-secure world, or its memory; the attacker has nothing to lose.
    unsafe { core::ptr::with_exposed_provenance::<u32>(address as usize).read_volatile() }
}

/// Writes 32 bits.
pub(crate) fn write32(address: u64, value: u32) {
    // SAFETY: as for `read32`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(address as usize).write_volatile(value) }
}

/// Reads 64 bits.
pub(crate) fn read64(address: u64) -> u64 {
    // SAFETY: as for `read32`.
    unsafe { core::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
}

/// Writes 64 bits.
pub(crate) fn write64(address: u64, value: u64) {
    // SAFETY: as for `read32`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(address as usize).write_volatile(value) }
}

/// Writes instructions where they can run, and returns where.
fn write_code(words: &[u32]) -> *const u32 {
    let code = &raw mut CODE;
    for (index, word) in words.iter().chain(&[RET]).enumerate().take(16) {
        // SAFETY: within the array, and nobody else has it: this world has one thread.
        unsafe { code.cast::<u32>().add(index).write_volatile(*word) };
    }
    // SAFETY: makes the processor fetch what was written. Maintenance changes no value.
    unsafe { asm!("dsb sy", "ic iallu", "dsb sy", "isb", options(nostack)) };
    code.cast()
}

/// Runs instructions with these x0 to x2, and returns the three afterwards, or the exception. The instructions may change x0 to x15.
pub(crate) fn run(words: &[u32], registers: [u64; 3]) -> Result<[u64; 3], Exception> {
    let mut registers = registers;
    let code = write_code(words);
    // SAFETY: `execute` keeps what the calling convention says, comes back by RET or by an exception, and writes three words.
    match unsafe { execute(registers.as_mut_ptr(), code) } {
        0 => Ok(registers),
        _ => Err(latest_exception()),
    }
}

fn latest_exception() -> Exception {
    let place = &raw const caught;
    // SAFETY: four words that only the vectors write, between instructions of this thread.
    let [mut syndrome, address, place, _] = unsafe { place.read_volatile() };
    if syndrome >> 26 == DATA_ABORT {
        syndrome &= !ABORT_ACCESS;
    }
    Exception { syndrome, address, place }
}

/// Runs instructions at a lower level until they come back by an exception, with these x0 to x15, which are changed.
pub(crate) fn run_below(words: &[u32], registers: &mut [u64; 16], state: u64) -> Exception {
    let code = write_code(words);
    // SAFETY: as for `execute`; the state is one of a lower level, or the return is an illegal one, which is an exception here.
    unsafe { descend(registers.as_mut_ptr(), code, state) };
    latest_exception()
}

/// How filled registers wait for switches of worlds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// A call.
    Call,
    /// That many rounds, counted down in x0.
    CountInX0(u64),
    /// The same in x30.
    CountInX30(u64),
}

/// Fills x0 to x30 and NZCV, waits, and returns what they are then.
pub(crate) fn filled(before: &[u64; 32], wait: Wait) -> [u64; 32] {
    let mut words = [0; 64];
    words[..32].copy_from_slice(before);
    // SAFETY: each keeps what the calling convention says, reads 32 words and writes the 32 behind them.
    unsafe {
        match wait {
            Wait::Call => filled_call(words.as_mut_ptr()),
            Wait::CountInX0(rounds) => {
                words[0] = rounds;
                filled_count_in_x0(words.as_mut_ptr());
            }
            Wait::CountInX30(rounds) => {
                words[30] = rounds;
                filled_count_in_x30(words.as_mut_ptr());
            }
        }
    }
    core::array::from_fn(|index| words[32 + index])
}

/// Fills Q0 to Q31, FPCR and FPSR, waits for that many rounds (0: makes a call instead), and says whether one is another.
pub(crate) fn floating_is_kept(rounds: u64) -> bool {
    let mut words: [u64; 132] = core::array::from_fn(|index| 0xf10a_7000_0000_0000 + index as u64);
    // FPCR: rounding mode and flush to zero; FPSR: all exceptions and saturation.
    (words[64], words[65]) = (0x03c0_0000, 0x0800_009f);
    // SAFETY: reads 66 words and writes the 66 behind them; floating point belongs to nobody else here.
    unsafe { filled_floating(words.as_mut_ptr(), rounds) };
    words[..66] == words[66..]
}

/// How many interrupts were taken, and the latest one.
pub(crate) fn interrupts() -> (u64, u64) {
    let place = &raw const interrupts_taken;
    // SAFETY: words that the interrupt vector writes.
    let [count, latest, _] = unsafe { place.read_volatile() };
    (count, latest)
}

/// From now on interrupts are ended, or are not.
pub(crate) fn end_interrupts(is_ended: bool) {
    let place = &raw mut interrupts_taken;
    // SAFETY: a word that only the interrupt vector reads.
    unsafe { (&raw mut (*place)[2]).write_volatile(u64::from(!is_ended)) };
}

/// Where vectors are that fault in themselves.
pub(crate) fn endless_vectors() -> u64 {
    (&raw const endless) as u64
}

/// The level of this world.
pub(crate) fn level() -> u64 {
    let level: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {level}, CurrentEL", level = out(reg) level, options(nomem, nostack)) };
    level >> 2
}

/// The system counter.
pub(crate) fn counter() -> u64 {
    let now: u64;
    // SAFETY: reads a register.
    unsafe { asm!("isb", "mrs {now}, CNTPCT_EL0", now = out(reg) now, options(nomem, nostack)) };
    now
}

/// This is a partition.
static IS_PARTITION: AtomicBool = AtomicBool::new(false);

/// From now on no other world takes the core and gives it back.
pub(crate) fn be_partition() {
    IS_PARTITION.store(true, Ordering::Relaxed);
}

/// The first try of an attack has come to its end.
static IS_CONCLUDED: AtomicBool = AtomicBool::new(false);

/// From now on nothing shows life: the watchdog stops this world in the midst of an attack.
pub(crate) fn conclude() {
    IS_CONCLUDED.store(true, Ordering::Relaxed);
}

/// The first try continues below a watchdog, however long it takes (a partition's heartbeat).
pub(crate) fn show_life() {
    const CALL_HEARTBEAT: u64 = 0xc600_0001;
    if IS_PARTITION.load(Ordering::Relaxed) && !IS_CONCLUDED.load(Ordering::Relaxed) {
        let _ = run(&[SMC], [CALL_HEARTBEAT, 0, 0]);
    }
}

/// Waits for this number of switches to the other world and back: a gap in the time of this one. A partition waits for a moment.
pub(crate) fn wait_for_switches(count: u32) {
    const MOMENT: u64 = 2_000;
    let mut before = counter();
    let end = if IS_PARTITION.load(Ordering::Relaxed) { before.wrapping_add(MOMENT) } else { u64::MAX };
    let mut seen = 0;
    while seen < count && before < end {
        let now = counter();
        // Two reads are some ten instructions apart, and a detour is hundreds.
        seen += u32::from(now.wrapping_sub(before) > 150);
        before = now;
    }
}

/// Stays here, without an access to anything.
pub(crate) fn stay() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// A system register as (op0, op1, CRn, CRm, op2).
pub(crate) type Encoding = (u32, u32, u32, u32, u32);

/// MRS x0 of a register.
pub(crate) const fn mrs((op0, op1, n, m, op2): Encoding) -> u32 {
    0xd520_0000 | op0 << 19 | op1 << 16 | n << 12 | m << 8 | op2 << 5
}

/// MSR of x0.
pub(crate) const fn msr(encoding: Encoding) -> u32 {
    mrs(encoding) & !(1 << 21)
}

/// Writes to the console.
pub(crate) struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while read32(UART + UART_FLAGS) & UART_FULL != 0 {}
            write32(UART, u32::from(byte));
        }
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($part:tt)*) => {{
        use core::fmt::Write;
        // The console takes everything.
        let _ = writeln!($crate::machine::Console, $($part)*);
    }};
}

/// A panic ends the attack; the test misses its result.
#[panic_handler]
fn panic(why: &core::panic::PanicInfo<'_>) -> ! {
    say!("world: FAILED: {why}");
    stay()
}

#[unsafe(no_mangle)]
extern "C" fn unexpected_exception(what: &[u64; 4]) {
    say!("world: FAILED: exception ESR {:#x} FAR {:#x} ELR {:#x}", what[0], what[1], what[2]);
}
