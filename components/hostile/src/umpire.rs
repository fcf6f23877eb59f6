//! Starts the attacks one after the other and says what came of each. It shares nothing with the attacker but the kernel: it knows the state of
//! the attacker's thread and the latest fault of its component.

use bulkhead_component::{Code, println};
use bulkhead_hostile::kernel::{STOPPED, fault, invoke, start, state, stop, yield_now};

/// The attacker's thread, with every right.
const HAND: u64 = 1;
/// Its component.
const COMPONENT: u64 = 2;
/// The victim's end point: it is to end.
const VICTIM: u64 = 3;
/// The accomplice's thread.
const ACCOMPLICE: u64 = 4;

/// Times that the others get the core before an attack that has not ended is one that waits.
const MOST_YIELDS: u32 = 64;
/// Numbers of attacks that are begun again until they say that they are over.
const REPEATED: core::ops::Range<u64> = 200..300;
/// How they say it: syndrome of BRK with this immediate.
const OVER: u64 = 0xf200_0d0e;
/// Most beginnings.
const MOST_BEGINNINGS: u64 = 1 << 20;

enum End {
    Ended,
    Waits,
    Fault(u64, u64),
}

/// Tries all attacks from one number to another.
pub(crate) fn run(numbers: u64) {
    for number in numbers >> 16..=numbers & 0xffff {
        if REPEATED.contains(&number) { repeated(number) } else { once(number) }
    }
    stop(ACCOMPLICE);
    invoke(VICTIM);
    println!("umpire: over");
}

fn once(number: u64) {
    match attempt(number) {
        End::Ended => println!("attack {number}: ended"),
        End::Waits => println!("attack {number}: waits"),
        End::Fault(kind, syndrome) => println!("attack {number}: fault {kind} {syndrome:#x}"),
    }
}

/// Begins an attack again until it is over, and counts how its lives ended: faults by class.
fn repeated(number: u64) {
    let (mut ended, mut waited, mut classes) = (0, 0, [0u32; 64]);
    for _ in 0..MOST_BEGINNINGS {
        match attempt(number) {
            End::Fault(_, OVER) => break,
            End::Fault(_, syndrome) => {
                if let Some(class) = classes.get_mut((syndrome >> 26 & 63) as usize) {
                    *class += 1;
                }
            }
            End::Ended => ended += 1,
            End::Waits => waited += 1,
        }
    }
    for (class, count) in classes.iter().enumerate().filter(|(_, count)| **count != 0) {
        println!("class {class:#x}: {count}");
    }
    println!("attack {number}: over, ended {ended}, waited {waited}");
}

fn attempt(number: u64) -> End {
    let [_, before, _] = fault(COMPONENT);
    // The life that it has at boot ends first.
    while start(HAND, number) == Code::Busy {
        yield_now();
    }
    for _ in 0..MOST_YIELDS {
        yield_now();
        if state(HAND) == STOPPED {
            let [kind, now, syndrome] = fault(COMPONENT);
            return if now == before { End::Ended } else { End::Fault(kind, syndrome) };
        }
    }
    stop(HAND);
    End::Waits
}
