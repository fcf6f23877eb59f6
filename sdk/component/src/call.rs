//! The kernel's calls. Arguments are in x0 to x7; the code is in x0 and values are in x1 to x7; x8 to x30 stay as they are.

use crate::{Code, packed};
use bulkhead_kernel_abi::PRINT_BYTES;
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::call::{Call, ComponentOperation, Flag};
use core::arch::asm;
use core::fmt;

/// Makes call `NUMBER`.
#[inline]
pub fn call<const NUMBER: u16>(arguments: [u64; 8]) -> [u64; 8] {
    let [mut x0, mut x1, mut x2, mut x3, mut x4, mut x5, mut x6, mut x7] = arguments;
    // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component. Not `nomem`: a call may hand memory on that was written before.
    unsafe {
        asm!(
            "svc #{number}",
            number = const NUMBER,
            inout("x0") x0, inout("x1") x1, inout("x2") x2, inout("x3") x3,
            inout("x4") x4, inout("x5") x5, inout("x6") x6, inout("x7") x7,
            options(nostack),
        );
    }
    [x0, x1, x2, x3, x4, x5, x6, x7]
}

/// The code of an answer; a number that this version does not know is `BadCall`.
fn code(number: u64) -> Code {
    Code::from_number(number).unwrap_or(Code::BadCall)
}

/// States that a call is done, or its code.
pub(crate) fn done(answer: [u64; 8]) -> Result<[u64; 8], Code> {
    match code(answer[0]) {
        Code::Ok => Ok(answer),
        other => Err(other),
    }
}

/// What `version` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Version of the kernel's ABI.
    pub abi: u64,
    /// Build of the kernel.
    pub build: u64,
    /// Frequency of the counter that EL0 reads (CNTVCT_EL0).
    pub counter_hz: u64,
}

/// Asks which kernel this is: also the null call.
///
/// # Errors
/// None that this version knows.
pub fn version() -> Result<Version, Code> {
    let [_, abi, build, counter_hz, ..] = done(call::<{ Call::Version.number() }>([0; 8]))?;
    Ok(Version { abi, build, counter_hz })
}

/// Prints text to the partition's console. What the console has no room for is lost, and counted by the kernel.
pub fn print(text: &str) {
    print_bytes(text.as_bytes());
}

fn print_bytes(bytes: &[u8]) {
    for chunk in bytes.chunks(PRINT_BYTES) {
        let [x1, x2, x3, x4, x5, x6, x7] = packed(chunk);
        let _ = call::<{ Call::Print.number() }>([chunk.len() as u64, x1, x2, x3, x4, x5, x6, x7]);
    }
}

/// The console as a formatting target: pieces are printed together, as much as one call takes, so others who print meanwhile cut a line at few places.
pub struct Writer {
    bytes: [u8; PRINT_BYTES],
    used: usize,
}

impl Writer {
    /// One without text.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; PRINT_BYTES], used: 0 }
    }

    /// Prints what was written.
    pub fn flush(&mut self) {
        print_bytes(self.bytes.get(..self.used).unwrap_or(&[]));
        self.used = 0;
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.used == PRINT_BYTES {
                self.flush();
            }
            if let Some(place) = self.bytes.get_mut(self.used) {
                *place = byte;
                self.used += 1;
            }
        }
        Ok(())
    }
}

/// Prints formatted text and a line end to the console.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => {{
        use ::core::fmt::Write as _;
        let mut writer = $crate::call::Writer::new();
        // Writing to the console cannot fail.
        let _ = ::core::writeln!(writer, $($argument)*);
        writer.flush();
    }};
}

/// Ends the thread; inside a call, returns to the caller.
pub fn finish() -> ! {
    loop {
        call::<{ Call::Return.number() }>([0; 8]);
    }
}

/// Waits for what was sent to the end point of a slot, until the counter reaches `deadline_ticks` (0: for ever). Returns the bits and how often;
/// slot 0 only sleeps.
///
/// # Errors
/// `TimedOut`; `BadCapability` without a right to receive; `Denied` for another thread's.
pub fn receive(slot: u64, deadline_ticks: u64) -> Result<(u64, u64), Code> {
    let [_, bits, count, ..] =
        done(call::<{ Call::Receive.number() }>([slot, Flag::All.number(), deadline_ticks, 0, 0, 0, 0, 0]))?;
    Ok((bits, count))
}

/// The latest fault of the component of a slot; its number says whether it is a new one.
///
/// # Errors
/// `BadCapability`; `Denied` without a right to read; `Gone`.
pub fn component_fault(slot: u64) -> Result<FaultRecord, Code> {
    let [_, kind, thread, number, syndrome, address, program_counter, _] =
        done(call::<{ Call::Component.number() }>([ComponentOperation::Fault.number(), slot, 0, 0, 0, 0, 0, 0]))?;
    Ok(FaultRecord {
        kind: kind as u32,
        thread: thread as u16,
        number: number as u16,
        syndrome,
        address,
        program_counter,
    })
}

/// Begins the component of a slot again: who is inside is brought out, and its first thread starts.
///
/// # Errors
/// `BadCapability`; `Denied` for one that may only look; `Gone`.
pub fn component_reset(slot: u64) -> Result<(), Code> {
    done(call::<{ Call::Component.number() }>([ComponentOperation::Reset.number(), slot, 0, 0, 0, 0, 0, 0])).map(|_| ())
}

/// Reads the counter (CNTVCT_EL0), in ticks of [`Version::counter_hz`].
#[inline]
#[must_use]
pub fn counter_ticks() -> u64 {
    let ticks: u64;
    // ISB: the counter is read after what comes before.
    // SAFETY: reads a counter, which the kernel lets EL0 read.
    unsafe { asm!("isb", "mrs {}, CNTVCT_EL0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}
