//! The attacks on the kernel from EL0.

use super::generated;
use bulkhead_hostile_kernel::{ALLOWED, GROUPS, attacks};
use bulkhead_ledger::table::{cell, head, row};
use std::fmt::Write;

/// The chapter with every attack and what it comes to, and what EL0 may execute.
pub(super) fn page() -> String {
    let mut text = String::from("# Attacks on the kernel\n\n") + &generated("`tests/hostile-kernel`");
    writeln!(
        text,
        "A component of the real-time kernel attacks it from EL0, {} times by number. A second thread helps it, a victim on the same instance computes and\n\
         prints, and an umpire in a third component begins each attack and says what came of it. The victim compares its registers, flags and memory,\n\
         and its rounds take the same number of instructions from the first to the last. The tests in `tests/system/tests/kernel/hostile` compare what is said\n\
         with these tables: on the board, in `direct`, in `mapped` with both kinds of console, where all is equal to the instruction, and on a shared\n\
         core. No attack makes the partition fault.\n\n\
         `fault KIND SYNDROME`: the thread is over; the kind is that of the component's fault record, the syndrome ESR_EL1. `ended`: the thread came to its\n\
         end. `waits`: it does, and the umpire stopped it. What is begun again after each fault says how many there were of each class of syndromes, and `over`.",
        attacks().count()
    )
    .expect("a String");
    for group in GROUPS {
        writeln!(text, "\n## {}\n\n{}\n", group.title, group.about).expect("a String");
        text += &head(&["number", "attack", "what came of it"]);
        for attack in group.attacks {
            text += &row(&[&attack.number.to_string(), &cell(attack.what), &cell(&attack.says.join("; "))]);
        }
    }
    text += "\n## What EL0 may execute\n\n\
             Of the 131,072 encodings of system instructions these come back; each other one is a fault. Attacks 250 and 251 execute all, on a Cortex-A53 and on\n\
             all that QEMU has of newer cores.\n\n";
    text += &head(&["bits 20:5", "what", "as", "cores", "why it is harmless"]);
    for one in ALLOWED {
        let bits = if one.any == 0 {
            format!("`{:#06x}`", one.encoding)
        } else {
            format!("`{:#06x}`, any of `{:#04x}`", one.encoding, one.any)
        };
        let way = match (one.writes, one.reads) {
            (true, true) => "MRS, MSR",
            (false, true) => "MRS",
            _ => "instruction",
        };
        text += &row(&[&bits, &cell(one.what), way, if one.is_newer { "newer" } else { "all" }, &cell(one.why)]);
    }
    text
}
