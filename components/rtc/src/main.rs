//! Drives a PL031 real-time clock: a component calls [`set_alarm`] and is sent a signal when the time has come.
//!
//! There is one request at a time, in one word: seconds of the clock, and a bit that says that there is one. A caller sets the word and the registers with its
//! own thread, and a caller may vanish in between, at any instruction: its component may be ended. So the driver's own thread looks once a second
//! whether what was asked for is what the clock was told, and repairs it. Nothing here waits for a caller.
//!
//! The argument says when the driver ends, each with 0 for never: after so many alarms (bits 15:0), by a fault in the middle of one (31:16, for those who
//! want to see what a supervisor does), or when nobody has asked for so many seconds (47:32). A driver that is begun again finds the interrupt masked, quiets the
//! clock, and says `done` for what its former life left.
#![no_std]
#![no_main]

mod pl031;

use bulkhead_component::driver::{Registers, interrupt_cancel, interrupt_done, interrupt_expect};
use bulkhead_component::{Code, call, println};
use core::sync::atomic::{AtomicU64, Ordering};
use pl031::{BIT, RTCCR, RTCDR, RTCICR, RTCIMSC, RTCMIS, RTCMR};

bulkhead_component::entry!(main);

bulkhead_component::devices! {
    /// The clock.
    clock;
}

bulkhead_component::import! {
    /// Tells the client that its alarm has come.
    fn answer();
    /// Where the interrupt is signalled.
    fn alarm();
    /// The interrupt.
    fn line();
}

bulkhead_component::counts! {
    /// How often it was called.
    calls;
    /// Alarms that it answered, in all of its lives.
    answered;
}

/// The request: [`ASKED`] and the second in which it is due, or 0.
static REQUEST: AtomicU64 = AtomicU64::new(0);
const ASKED: u64 = 1 << 32;
/// The longest alarm, in seconds: a later one would look as if it had passed.
const LONGEST: u64 = 1 << 31;

bulkhead_component::export! {
    /// Asks for an alarm after this number of seconds. Answers the number of a code: `Ok`; `BadArgument` for no time or too much; `Busy` while another alarm is due.
    fn set_alarm(_token, seconds) {
        calls::count().add(1);
        ask(seconds).map_or_else(|code| code.number(), |()| Code::Ok.number())
    }
}

fn ask(seconds: u64) -> Result<(), Code> {
    if seconds == 0 || seconds > LONGEST {
        return Err(Code::BadArgument);
    }
    let clock = clock::registers();
    clock.write32(RTCCR, BIT);
    let due = clock.read32(RTCDR).wrapping_add(seconds as u32);
    let request = ASKED | u64::from(due);
    if REQUEST.compare_exchange(0, request, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Code::Busy);
    }
    // Whose server is no client of an io server has nothing to expect: then the driver's own pays.
    let _ = interrupt_expect(line::slot());
    arm(clock, due);
    Ok(())
}

/// Tells the clock when the alarm is; to do it twice is to do it once.
fn arm(clock: Registers, due: u32) {
    clock.write32(RTCMR, due);
    clock.write32(RTCIMSC, BIT);
}

fn main(argument: u64) {
    let (last, fails, idle_s) = (argument & 0xffff, argument >> 16 & 0xffff, argument >> 32 & 0xffff);
    let clock = clock::registers();
    clock.write32(RTCIMSC, 0);
    clock.write32(RTCICR, BIT);
    // `Busy` in the first life: nothing came yet.
    let _ = interrupt_done(line::slot());
    let second = call::version().map_or(0, |version| version.counter_hz);
    let (mut alarms, mut spurious, mut repaired, mut quiet_s) = (0_u64, 0_u64, 0_u64, 0_u64);
    // Somebody may have asked before the driver's first instruction.
    if matches!(repair(clock), Repair::Late) {
        alarms += u64::from(finish());
    }
    while (last == 0 || alarms < last) && (idle_s == 0 || quiet_s < idle_s) {
        match call::receive(alarm::slot(), call::counter_ticks() + second) {
            Ok(_) => {
                assert!(fails == 0 || alarms + 1 != fails, "it was told to fail in the middle of alarm {fails}");
                match serve(clock) {
                    true => alarms += 1,
                    false => spurious += 1,
                }
            }
            Err(Code::TimedOut) if REQUEST.load(Ordering::Acquire) == 0 => quiet_s += 1,
            Err(Code::TimedOut) => match repair(clock) {
                Repair::None => {}
                Repair::Armed => repaired += 1,
                Repair::Late => {
                    repaired += 1;
                    alarms += u64::from(finish());
                }
            },
            Err(code) => {
                println!("rtc: {code:?}");
                return;
            }
        }
    }
    println!("rtc: {alarms} alarms, {spurious} spurious, {repaired} repaired");
}

/// Ends the alarm at the clock, answers who asked, and lets the interrupt come again. False when the clock had none.
fn serve(clock: Registers) -> bool {
    let is_alarm = clock.read32(RTCMIS) & BIT != 0;
    // At its source first: a level that is up would come again at once.
    clock.write32(RTCICR, BIT);
    clock.write32(RTCIMSC, 0);
    let is_answered = is_alarm && finish();
    let _ = interrupt_done(line::slot());
    is_answered
}

/// Answers the request, if there is one.
fn finish() -> bool {
    let is_asked = REQUEST.swap(0, Ordering::AcqRel) != 0;
    if is_asked {
        answered::count().add(1);
        // A client that is gone is told nothing.
        let _ = answer();
    }
    is_asked
}

/// What the driver found on its round.
enum Repair {
    /// All is well.
    None,
    /// A caller vanished before it told the clock.
    Armed,
    /// The same, and its alarm is due already.
    Late,
}

/// Looks whether the clock knows what was asked for.
fn repair(clock: Registers) -> Repair {
    let request = REQUEST.load(Ordering::Acquire);
    if request == 0 || clock.read32(RTCIMSC) & BIT != 0 {
        return Repair::None;
    }
    let due = request as u32;
    if due.wrapping_sub(clock.read32(RTCDR)).wrapping_sub(1) >= LONGEST as u32 {
        let _ = interrupt_cancel(line::slot());
        return Repair::Late;
    }
    arm(clock, due);
    Repair::Armed
}
