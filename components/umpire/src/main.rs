//! Says which attack is next, judges how it ended by the table of `tests/hostile-kernel`, and begins the attacker again where it ended its life. It has the attacker's
//! fault and nothing else of it; what it found goes to the host, in counts.
//!
//! An attack is over when the attacker asks for the next one, when it has faulted, or when neither has come within as many milliseconds as the argument
//! says. Those that a supervisor of another component cannot judge are left out: what needs slots of its own, an accomplice, or many lives.
#![no_std]
#![no_main]

use bulkhead_component::{call, println};
use bulkhead_hostile_kernel::attacks;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where it is told that the attacker has faulted.
    told;
    /// The attacker.
    attacker;
}

bulkhead_component::counts! {
    /// Attacks that were tried.
    tried;
    /// Those that ended in another way than the table says.
    unexpected;
    /// How often the attacker was begun again.
    resets;
    /// How often it asked what is next.
    calls;
}

/// No attack is left.
const NONE_LEFT: u64 = u64::MAX;
/// It ends its thread by `return`, so it never asks again.
const RETURNS: u64 = 76;

/// The attack that is tried now.
static NOW: AtomicU64 = AtomicU64::new(1);
/// When it was begun.
static BEGUN_TICKS: AtomicU64 = AtomicU64::new(0);

/// How an attack ended.
#[derive(Clone, Copy)]
enum End {
    /// The attacker asked for the next one.
    CameBack,
    /// It faulted: kind and syndrome.
    Fault(u64, u64),
    /// Nothing was heard of it.
    Silent,
}

/// Attacks that can be judged here: no memory of another life (70, 77), no send (80), no accomplice (152, 153), no text without an end of line, which others would
/// finish (155).
const fn is_fit(number: u64) -> bool {
    matches!(number, 1..=69 | 71..=76 | 78 | 79 | 102..=133 | 150 | 151 | 154 | 156)
}

/// The one behind it in the table.
fn following(number: u64) -> u64 {
    let later = attacks().map(|attack| attack.number).filter(|other| *other > number && is_fit(*other));
    later.min().unwrap_or(NONE_LEFT)
}

/// `fault KIND SYNDROME` of the table.
fn fault_of(said: &str) -> Option<(u64, u64)> {
    let (kind, syndrome) = said.strip_prefix("fault ")?.split_once(" 0x")?;
    Some((kind.parse().ok()?, u64::from_str_radix(syndrome, 16).ok()?))
}

/// States whether the table says that an attack ends so.
fn is_expected(number: u64, end: End) -> bool {
    let found = attacks().find(|attack| attack.number == number);
    let Some(said) = found.and_then(|attack| attack.says.last()) else { return false };
    match end {
        End::CameBack => *said == "ended",
        End::Silent => *said == "waits" || number == RETURNS,
        End::Fault(kind, syndrome) => fault_of(said) == Some((kind, syndrome)),
    }
}

/// An attack is over: counts it, if it was the one that is tried now.
fn finish(number: u64, end: End) {
    // The first of two has judged it: the attacker's thread is here, or the umpire's own.
    if NOW.compare_exchange(number, following(number), Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    tried::count().add(1);
    if !is_expected(number, end) {
        unexpected::count().add(1);
        match end {
            End::CameBack => println!("umpire: attack {number} came back"),
            End::Silent => println!("umpire: attack {number} was not heard of"),
            End::Fault(kind, syndrome) => println!("umpire: attack {number}: fault {kind} {syndrome:#x}"),
        }
    }
}

bulkhead_component::export! {
    /// The number of the attack to try, when this one has come back (0: none has); 0 for none.
    fn next(_token, finished) {
        calls::count().add(1);
        finish(finished, End::CameBack);
        BEGUN_TICKS.store(call::counter_ticks(), Ordering::Relaxed);
        match NOW.load(Ordering::Relaxed) {
            NONE_LEFT => 0,
            number => number,
        }
    }
}

/// Begins the attacker again.
fn begin() {
    BEGUN_TICKS.store(call::counter_ticks(), Ordering::Relaxed);
    resets::count().add(1);
    if let Err(code) = call::component_reset(attacker()) {
        println!("umpire: the attacker cannot be begun again: {code:?}");
    }
}

fn main(patience_ms: u64) {
    let Ok(version) = call::version() else { return };
    let patience_ticks = patience_ms * (version.counter_hz / 1000);
    BEGUN_TICKS.store(call::counter_ticks(), Ordering::Relaxed);
    let mut faults = 0;
    loop {
        let number = NOW.load(Ordering::Relaxed);
        if number == NONE_LEFT {
            break;
        }
        let end_ticks = BEGUN_TICKS.load(Ordering::Relaxed) + patience_ticks;
        match call::receive(told(), end_ticks) {
            Ok(_) => {
                let Ok(record) = call::component_fault(attacker()) else { return };
                if record.number != faults {
                    faults = record.number;
                    finish(NOW.load(Ordering::Relaxed), End::Fault(record.kind.into(), record.syndrome));
                    begin();
                }
            }
            // Another one may have begun meanwhile.
            Err(_) if end_ticks == BEGUN_TICKS.load(Ordering::Relaxed) + patience_ticks => {
                finish(number, End::Silent);
                begin();
            }
            Err(_) => {}
        }
    }
    println!("umpire: {} attacks tried, {} unexpected", tried::count().get(), unexpected::count().get());
}
