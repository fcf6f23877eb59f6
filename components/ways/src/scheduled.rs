//! A server that a scheduler in user space holds: the scheduler, which is as short as one can be, and threads that give the core to each other by `switch`.

use bulkhead_component::range::Range;
use bulkhead_component::{Code, call, println, schedule};
use bulkhead_kernel_abi::call::Call;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::FROM;

/// The scheduler, and the first of the two threads, which have labels 0 and 1.
const SCHEDULER: u64 = 5;
const THREADS: u64 = 6;
/// The server's own claim, and one without time.
const CLAIM_OF_SERVER: u64 = 8;
const CLAIM_OF_NOBODY: u64 = 9;
/// As little as can be, of a server whose budget never ends.
const DIVIDED_TICKS: u64 = 10_000;
/// What an event says.
const CAN_RUN: u8 = 1;
const WAITS: u8 = 2;
const ENDED: u8 = 32;
/// A scheduler looks again after this long, if nothing happens.
const PATIENCE: u64 = 62_500_000;
/// The first are not counted.
const FIRST: u64 = 16;

/// The newest token.
static TOKEN: AtomicU64 = AtomicU64::new(0);

/// Lets the first thread run that can, until both have ended.
pub(crate) fn schedule() {
    let (mut able, mut ended) = (0_u64, 0);
    while ended < 2 {
        let deadline_ticks = (able == 0).then(|| call::counter_ticks() + PATIENCE);
        match schedule::events(SCHEDULER, deadline_ticks) {
            Ok(event) => {
                TOKEN.store(event.token, Ordering::Relaxed);
                let bit = 1 << event.label;
                if event.what & CAN_RUN != 0 {
                    able |= bit;
                } else if event.what & (WAITS | ENDED) != 0 {
                    able &= !bit;
                    ended += u32::from(event.what & ENDED != 0);
                }
            }
            Err(Code::WouldBlock) => {
                let first = u64::from(able.trailing_zeros());
                // What it does not know yet is in an event that it takes next.
                let _ = schedule::switch(SCHEDULER, THREADS + first, 0, 0, TOKEN.load(Ordering::Relaxed));
            }
            Err(_) => {}
        }
    }
}

/// Gives the core to the other thread, behind a note of when; the code, and the counter at the first instruction when it is back.
fn switch_to(thread: u64) -> (u64, u64) {
    let (code, now): (u64, u64);
    // SAFETY: writes a word that is there; the kernel keeps x8 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "mrs {now}, CNTVCT_EL0",
            "str {now}, [{note}]",
            "svc #{number}",
            "mrs {now}, CNTVCT_EL0",
            number = const Call::Switch.number(),
            now = out(reg) now,
            note = in(reg) FROM.as_ptr(),
            inout("x0") SCHEDULER => code,
            inout("x1") thread => _,
            inout("x2") 0_u64 => _,
            inout("x3") 0_u64 => _,
            inout("x4") 0_u64 => _,
            inout("x5") TOKEN.load(Ordering::Relaxed) => _,
            out("x6") _, out("x7") _,
            options(nostack),
        );
    }
    (code, now)
}

/// The two threads give the core to each other. `me` is 0 or 1, and the first one says what it took.
pub(crate) fn switch(times: u64, me: u64) {
    let mut range = Range::EMPTY;
    for time in 0..times + FIRST {
        let (code, now) = switch_to(THREADS + 1 - me);
        if code != Code::Ok.number() {
            // The token was older than what the scheduler has not seen yet, or the other one is through.
            continue;
        }
        if time >= FIRST {
            // Without reading the counter, the note of it and the SVC.
            range.add(now - FROM.load(Ordering::Relaxed) - 3);
        }
    }
    if me == 0 {
        range.print("switch");
    }
}

/// Gives a part of the server's time to a claim on which nobody runs.
pub(crate) fn divide() {
    if let Err(code) = schedule::delegate(CLAIM_OF_NOBODY, CLAIM_OF_SERVER, DIVIDED_TICKS, 0, false) {
        println!("a part of the time was refused: {code:?}");
    }
}
