//! Random attacks, which a seed repeats, and sweeps over all registers.

use super::interrupts::read;
use super::{Outcome, all, expect};
use crate::machine::{Encoding, Exception, Wait, filled, mrs, msr, run, show_life, stay, wait_for_switches};
use crate::numbers::Numbers;
use crate::{World, say};

/// Functions that end the world (CPU_OFF, SYSTEM_OFF, SYSTEM_RESET and RESET2), with or without 64 bits, or mean something to the test.
const LEFT_OUT: [u32; 6] = [0x8400_0002, 0x8400_0008, 0x8400_0009, 0x8400_0012, 0x8300_0001, 0x8300_0002];
/// The owners of functions that have answers: architecture, standard services, hypervisor.
const ANSWERED: [u32; 3] = [0, 4, 6];

pub(super) fn calls(world: &World) -> Outcome {
    static mut STREAM: Option<Numbers> = None;
    let place = &raw mut STREAM;
    // SAFETY: this world has one thread.
    let numbers = unsafe { (*place).get_or_insert(Numbers::new(world.seed)) };
    let mut words = [0; 32];
    for word in &mut words[..31] {
        // Large ones, small ones, addresses of the secure world, and what looks like an identifier.
        *word = match numbers.below(4) {
            0 => numbers.next(),
            1 => numbers.below(0x100),
            2 => 0x0e00_0000 + numbers.below(1 << 24),
            _ => numbers.below(4) << 30 | numbers.below(64) << 24 | numbers.below(0x40),
        };
    }
    words[31] = numbers.below(16) << 28;
    if LEFT_OUT.contains(&(words[0] as u32 & !(1 << 30))) {
        words[0] = !0;
    }
    let after = filled(&words, Wait::Call);
    let changed = (1..32).find(|index| words[*index] != after[*index]);
    all([
        expect(after[0] == !0 || ANSWERED.contains(&(words[0] as u32 >> 24 & 0x3f)), "an answer", after[0]),
        changed.map_or(Outcome::Contained, |index| Outcome::Escaped("a register is another", after[index])),
    ])
}

pub(super) fn controller(world: &World) -> Outcome {
    static mut STREAM: Option<Numbers> = None;
    let place = &raw mut STREAM;
    // SAFETY: this world has one thread.
    let numbers = unsafe { (*place).get_or_insert(Numbers::new(world.seed)) };
    for _ in 0..64 {
        // STRB, STR of 32 and of 64 bits: x0, [x1]. The distributor, or both frames of the redistributor.
        let (word, bytes) = [(0x3900_0020, 1), (0xb900_0020, 4), (0xf900_0020, 8)][numbers.below(3) as usize];
        let (frame, size) = [(0x0800_0000, 0x1_0000), (0x080a_0000, 0x2_0000)][numbers.below(2) as usize];
        let address = frame + numbers.below(size / bytes) * bytes;
        let value = [0, !0, numbers.next(), 0x8080_8080_8080_8080][numbers.below(4) as usize];
        let _ = run(&[word], [value, address, 0]);
    }
    Outcome::Contained
}

/// Every encoding of a register: op0 is 2 or 3. Sweeps take long.
fn encodings() -> impl Iterator<Item = Encoding> {
    (0..1 << 15).map(|number: u32| {
        let field = |shift: u32, bits: u32| number >> shift & ((1 << bits) - 1);
        if number.is_multiple_of(128) {
            show_life();
        }
        (2 + field(14, 1), field(11, 3), field(7, 4), field(3, 4), field(0, 3))
    })
}

fn name((op0, op1, n, m, op2): Encoding) -> impl core::fmt::Display {
    struct Name(Encoding);
    impl core::fmt::Display for Name {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            let (op0, op1, n, m, op2) = self.0;
            write!(f, "S{op0}_{op1}_C{n}_C{m}_{op2}")
        }
    }
    Name((op0, op1, n, m, op2))
}

/// EL3's registers have op1 = 6, those of the secure EL1 op1 = 7.
fn is_secure((_, op1, ..): Encoding) -> bool {
    op1 >= 6
}

/// Two words that no register holds together.
const MARKS: [u64; 2] = [0x5e7f_0000_1234_5678, 0x0bad_5eed_0000_4321];

pub(super) fn every_read(world: &World) -> Outcome {
    world.needs_ticks(600);
    let mut outcome = Outcome::Contained;
    for encoding in encodings() {
        let tried = MARKS.map(|mark| run(&[mrs(encoding)], [mark, 0, 0]));
        match tried {
            [Err(exception), _] if exception.class() == 0 => {}
            [Err(Exception { syndrome, .. }), _] => say!("trap {} ESR {syndrome:#x}", name(encoding)),
            [Ok([first, ..]), Ok([second, ..])] if [first, second] == MARKS => say!("skip {}", name(encoding)),
            _ if is_secure(encoding) => {
                outcome = Outcome::Escaped("a register of EL3 was read", u64::from(mrs(encoding)))
            }
            _ => say!("read {}", name(encoding)),
        }
    }
    world.conclude(outcome);
    stay()
}

/// Registers whose write changes how this world runs, or makes no state.
const LEFT_ALONE: [Encoding; 14] = [
    // NZCV, DAIF, SPSel, SCTLR_EL1, SCTLR_EL2; CPACR and CPTR_EL2, which make access to other registers an exception.
    (3, 3, 4, 2, 0),
    (3, 3, 4, 2, 1),
    (3, 0, 4, 2, 0),
    (3, 0, 1, 0, 0),
    (3, 4, 1, 0, 0),
    (3, 0, 1, 0, 2),
    (3, 4, 1, 1, 2),
    // CTL and TVAL of CNTP, CNTV and CNTHP, and PMCCNTR change by themselves.
    (3, 3, 14, 2, 1),
    (3, 3, 14, 3, 1),
    (3, 4, 14, 2, 1),
    (3, 3, 14, 2, 0),
    (3, 3, 14, 3, 0),
    (3, 4, 14, 2, 0),
    (3, 3, 9, 13, 0),
];

pub(super) fn every_write(world: &World) -> Outcome {
    world.needs_ticks(600);
    let mut outcome = Outcome::Contained;
    for encoding in encodings().filter(|encoding| !LEFT_ALONE.contains(encoding)) {
        // What it has, where that can be read: it is the acceptance that counts.
        let value = run(&[mrs(encoding)], [0; 3]).map_or(0, |values| values[0]);
        match run(&[msr(encoding)], [value, 0, 0]) {
            Err(exception) if exception.class() == 0 => {}
            Err(exception) => say!("trap {} ESR {:#x}", name(encoding), exception.syndrome),
            Ok(_) if is_secure(encoding) => {
                outcome = Outcome::Escaped("a register of EL3 was written", u64::from(msr(encoding)));
            }
            Ok(_) => {}
        }
    }
    world.conclude(outcome);
    stay()
}

/// Most registers that keep what is written.
const MOST_KEPT: usize = 400;

/// Plants the inverse of its value in every register that keeps it, all at once, and looks again after switches of worlds.
pub(super) fn every_register_over_a_switch(world: &World) -> Outcome {
    world.needs_ticks(600);
    let mut kept = [((0, 0, 0, 0, 0), 0, 0); MOST_KEPT];
    let mut count = 0;
    for encoding in encodings().filter(|encoding| !LEFT_ALONE.contains(encoding)) {
        let Ok([before, ..]) = run(&[mrs(encoding)], [MARKS[0], 0, 0]) else { continue };
        // MSR x0; ISB; MRS x1; MSR x2; ISB.
        let words = [msr(encoding), 0xd503_3fdf, mrs(encoding) | 1, msr(encoding) | 2, 0xd503_3fdf];
        let Ok([_, after, _]) = run(&words, [!before, before, before]) else { continue };
        if after != before && before != MARKS[0] && count < MOST_KEPT {
            say!("keep {}", name(encoding));
            kept[count] = (encoding, before, after);
            count += 1;
        }
    }
    let kept = &mut kept[..count];
    for (encoding, before, planted) in kept.iter_mut() {
        let _ = run(&[msr(*encoding), 0xd503_3fdf], [!*before, 0, 0]);
        *planted = read(*encoding);
    }
    wait_for_switches(5);
    let mut values = [0; MOST_KEPT];
    values.iter_mut().zip(kept.iter()).for_each(|(value, (encoding, ..))| *value = read(*encoding));
    for (encoding, before, _) in kept.iter() {
        let _ = run(&[msr(*encoding), 0xd503_3fdf], [*before, 0, 0]);
    }
    let mut outcome = Outcome::Contained;
    for ((encoding, _, planted), value) in kept.iter().zip(values) {
        if value != *planted {
            say!("differs {} {planted:#x} {value:#x}", name(*encoding));
            outcome = Outcome::Escaped("a register is another", value);
        }
    }
    world.conclude(outcome);
    stay()
}
