//! Instructions from one to another at EL0, by the counter: with `-icount shift=4` each is one tick.

use crate::callee;
use bulkhead_component::println;
use bulkhead_component::range::Range;
use core::arch::asm;

/// Measures something this often, and prints it without what the measurement itself takes.
fn measure(name: &str, times: u64, without: u64, once: impl Fn() -> u64) {
    let mut range = Range::EMPTY;
    for _ in 0..times {
        range.add(once() - without);
    }
    range.print(name);
}

/// Reads the counter, where it stands in the text.
macro_rules! now {
    () => {{
        let ticks: u64;
        // No ISB, which would be counted: with `-icount` the counter is that of the instruction.
        // SAFETY: reads a counter.
        unsafe { asm!("mrs {}, CNTVCT_EL0", out(reg) ticks, options(nostack)) };
        ticks
    }};
}

pub(crate) fn run(times: u64) {
    measure("empty", times, 0, || {
        let before = now!();
        now!() - before
    });
    // From here on without the reading instruction itself.
    measure("version", times, 1, version);
    let slot = callee::instant::slot();
    // Nor the SVC instructions, and of both together nor the callee's reading.
    measure("call", times, 2, || call_and_return(slot).0);
    measure("return", times, 2, || call_and_return(slot).1);
    measure("call_and_return", times, 4, || {
        let (call, back) = call_and_return(slot);
        call + back
    });
    measure("stub_to_stub", times, 1, || {
        let before = now!();
        let answer = callee::add(2, 3);
        let after = now!();
        if answer.is_ok() { after - before } else { u64::MAX }
    });
    println!("bench done");
}

fn version() -> u64 {
    let (before, after): (u64, u64);
    // SAFETY: a call that answers in x0 to x3 and changes no other register.
    unsafe {
        asm!(
            "mrs {before}, CNTVCT_EL0",
            "svc #15",
            "mrs {after}, CNTVCT_EL0",
            before = out(reg) before,
            after = out(reg) after,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            options(nostack),
        );
    }
    after - before
}

/// By hand, up to the callee's entry and from there: the callee is two instructions, which change x0 and no register but those that the kernel clears.
fn call_and_return(slot: u64) -> (u64, u64) {
    let (before, inside, after): (u64, u64, u64);
    let code: u64;
    // SAFETY: the callee keeps x19 to x30, and the others are named.
    unsafe {
        asm!(
            "mrs x2, CNTVCT_EL0",
            "svc #0",
            "mrs x1, CNTVCT_EL0",
            out("x0") inside, out("x1") after, out("x2") before, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            inout("x8") slot => code,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _,
            out("x17") _, out("x18") _,
            options(nostack),
        );
    }
    if code == 0 { (inside - before, after - inside) } else { (u64::MAX, 0) }
}
