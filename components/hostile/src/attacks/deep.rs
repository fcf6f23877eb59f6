//! Calls into another component that is as hostile: to the last frame, and out of it in every way but one that is asked for.

use crate::kernel::{component, stop, yield_now};
use crate::registers::{FLAGS, exchange, pattern};
use bulkhead_component::interface::invoke;
use bulkhead_component::{Code, println};
use bulkhead_kernel_abi::call::{Call, ComponentOperation, ThreadOperation};
use core::arch::asm;

/// The attacker's Call of the service.
const SERVICE: u64 = 20;
/// What the service has: a Call of itself, itself, its caller, its caller's thread.
const AGAIN: u64 = 1;
const ITSELF: u64 = 2;
const CALLER: u64 = 3;
const THREAD: u64 = 4;
/// Frames of a thread.
const FRAMES: u64 = 8;
/// Marks in patterns.
const CALLERS: u64 = 0xca11;
const SERVICES: u64 = 0x5e41;
/// What the service does when it is deep enough; with 0 it continues until it is refused.
const TRAP: u64 = 1;
const RECURSE: u64 = 2;
const STAY: u64 = 3;
const RESET_ITSELF: u64 = 4;
const RESET_CALLER: u64 = 5;
const STOP_THREAD: u64 = 6;
const ABORT: u64 = 7;
const SCRIBBLE: u64 = 8;
const DESTROY_ITSELF: u64 = 9;

pub(super) fn run(number: u64) {
    match number {
        300 | 307 | 309 | 312 | 314 | 316 | 318 => say(call(0, FRAMES + 1)),
        301 => say(call(TRAP, 1)),
        302 => say(call(TRAP, FRAMES)),
        303 => say(call(RECURSE, FRAMES)),
        304 => registers(),
        306 => say(call(STAY, 1)),
        308 => say(call(STAY, FRAMES)),
        310 => say(call(RESET_ITSELF, 1)),
        311 => say(call(RESET_ITSELF, FRAMES)),
        313 => say(call(RESET_CALLER, FRAMES)),
        315 => say(call(STOP_THREAD, FRAMES)),
        317 => say(call(ABORT, FRAMES)),
        319 => say(call(DESTROY_ITSELF, FRAMES)),
        320 => say(call(0, 1)),
        _ => {}
    }
}

fn call(what: u64, depth: u64) -> Result<[u64; 8], Code> {
    invoke(SERVICE, [what, 1, depth, 0, 0, 0, 0, 0])
}

/// Says what came back: a code, or of the innermost call that came to something how deep it was, and its code.
fn say(answer: Result<[u64; 8], Code>) {
    match answer {
        Ok([word, ..]) => println!("at depth {}: code {}", word >> 8, word & 0xff),
        Err(code) => println!("{code:?}"),
    }
}

/// The callee leaves a pattern of its own in all registers; the caller has its own where nothing passes.
fn registers() {
    let mut put = pattern(CALLERS, 1);
    (put[0], put[1], put[2], put[8]) = (SCRIBBLE, 1, 1, SERVICE);
    let found = exchange(usize::from(Call::Invoke.number()), &put);
    let left = pattern(SERVICES, 2);
    let passes = (0..8).chain(19..31).filter(|place| found.get(*place) == left.get(*place)).count();
    let zero = (8..19).chain([FLAGS]).filter(|place| found.get(*place) == Some(&0)).count();
    println!("from the callee {passes}, zero {zero}, own word kept {}", found[32] == put[32]);
}

bulkhead_component::export! {
    /// Calls itself until it is at a depth, and does something there; answers how deep that was.
    fn serve(_token, what, depth, end) {
        if depth < end {
            return match invoke(AGAIN, [what, depth + 1, end, 0, 0, 0, 0, 0]) {
                Ok([deeper, ..]) => deeper,
                Err(code) => depth << 8 | code.number(),
            };
        }
        act(what);
        depth << 8
    }
}

fn act(what: u64) {
    match what {
        // SAFETY: an exception that the kernel takes.
        TRAP => unsafe { asm!("udf #0") },
        RECURSE => {
            recurse(0);
        }
        STAY => loop {
            yield_now();
        },
        RESET_ITSELF => component(ComponentOperation::Reset, ITSELF),
        DESTROY_ITSELF => component(ComponentOperation::Destroy, ITSELF),
        RESET_CALLER => component(ComponentOperation::Reset, CALLER),
        STOP_THREAD => {
            stop(THREAD);
        }
        ABORT => {
            crate::kernel::thread(ThreadOperation::Abort, THREAD);
        }
        SCRIBBLE => {
            exchange(usize::from(Call::Return.number()), &pattern(SERVICES, 2));
        }
        _ => {}
    }
}

/// Until there is no stack.
#[inline(never)] // Each turn has a frame of its own.
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let words = core::hint::black_box([depth; 16]);
    recurse(depth + 1) + words[3]
}
