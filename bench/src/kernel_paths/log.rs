//! What QEMU executed, one instruction after the other, and the stretches of it between two looks at the counter.
//!
//! With `-singlestep -d exec,nochain` each line of the log is one instruction. A stretch begins with the last look at the counter at EL0 whose next
//! instruction was executed at EL0 as well, and ends in front of the first look behind the kernel. So it has as many instructions as the counter says that
//! it took: a look that the kernel cut off from its note is not where the component counts from.

use crate::Failure;
use crate::symbols::functions;
use bulkhead_system_tests::kernel::Counted;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

/// `mrs xN, CNTVCT_EL0` without its register.
const LOOK: u32 = 0xd53b_e040;
const REGISTER: u32 = 0x1f;
/// The kernel is in the upper half.
const KERNEL: u64 = 1 << 63;
/// No row is longer: what is, is a sleep.
const LONGEST: usize = 50_000;

/// Instructions from a look at the counter to the next one, which is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Addresses of what was executed, in order.
    pub executed: Vec<u64>,
    /// Where the look is that ends it.
    pub end: u64,
}

impl Stretch {
    /// Those of the kernel; the rest is of the component.
    pub(super) fn in_kernel(&self) -> impl Iterator<Item = u64> + '_ {
        self.executed.iter().copied().filter(|address| is_kernel(*address))
    }
}

fn is_kernel(address: u64) -> bool {
    address & KERNEL != 0
}

/// Where a program looks at the counter.
pub(super) fn looks(elf: &[u8]) -> BTreeSet<u64> {
    let all = functions(elf).unwrap_or_default();
    let of = |code: &crate::symbols::Code| {
        let words = (code.start..).step_by(4).zip(code.words(elf));
        words.filter(|(_, word)| word & !REGISTER == LOOK).map(|(address, _)| address).collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}

/// The stretches through the kernel in a log, in order.
pub(super) fn stretches(log: impl BufRead, looks: &BTreeSet<u64>) -> Result<Vec<Stretch>, Failure> {
    let (mut reader, mut before) = (Reader { looks, found: Vec::new(), current: Vec::new(), pending: None }, None);
    for line in log.lines() {
        let line = line.map_err(|cause| Failure::host(format!("cannot read what QEMU executed: {cause}")))?;
        if line.starts_with("Stopped execution") {
            // What it says on the line before was not executed: an interrupt came first.
            before = None;
        } else if let Some(address) = address(&line) {
            // QEMU logs an instruction in front of it, and once more when a timer's date made it look up there first. None jumps to itself.
            if let Some(before) = before.replace(address).filter(|before| *before != address) {
                reader.take(before);
            }
        }
    }
    if let Some(last) = before {
        reader.take(last);
    }
    Ok(reader.found)
}

/// `Trace 0: 0x7f.. [cs_base/address/flags/cflags] symbol`.
fn address(line: &str) -> Option<u64> {
    let inside = line.strip_prefix("Trace ")?.split_once('[')?.1;
    u64::from_str_radix(inside.split('/').nth(1)?, 16).ok()
}

struct Reader<'a> {
    looks: &'a BTreeSet<u64>,
    found: Vec<Stretch>,
    /// Executed since the look from which is counted; empty without one.
    current: Vec<u64>,
    /// A look whose next instruction is not known yet.
    pending: Option<u64>,
}

impl Reader<'_> {
    fn take(&mut self, address: u64) {
        if let Some(look) = self.pending.take() {
            if address == look + 4 {
                self.current = vec![look];
            } else if !self.current.is_empty() {
                self.current.push(look);
            }
        }
        if self.looks.contains(&address) {
            if self.current.iter().copied().any(is_kernel) {
                self.found.push(Stretch { executed: std::mem::take(&mut self.current), end: address });
            }
            self.pending = Some(address);
        } else if self.current.len() >= LONGEST {
            self.current.clear();
        } else if !self.current.is_empty() {
            self.current.push(address);
        }
    }
}

/// The largest of the stretches that a component counted: those with the same ends, one behind the other or every second one, whose fewest, most and
/// sum are what it printed. `own` instructions of each are those that it leaves out.
pub(super) fn counted<'a>(stretches: &'a [Stretch], printed: &Counted, own: u64) -> Result<&'a Stretch, Failure> {
    let mut groups: BTreeMap<(u64, u64), Vec<(u64, &Stretch)>> = BTreeMap::new();
    for one in stretches {
        let Some(value) = (one.executed.len() as u64).checked_sub(own) else { continue };
        let start = one.executed.first().copied().unwrap_or(0);
        groups.entry((start, one.end)).or_default().push((value, one));
    }
    let wanted = (printed.least, printed.most, printed.sum);
    let times = usize::try_from(printed.times).unwrap_or(usize::MAX).max(1);
    for group in groups.values() {
        for (stride, offset) in [(1, 0), (2, 0), (2, 1)] {
            let chosen: Vec<_> = group.iter().skip(offset).step_by(stride).collect();
            let fits = |window: &&[&(u64, &Stretch)]| {
                let values = || window.iter().map(|(value, _)| *value);
                (values().min(), values().max(), values().sum()) == (Some(wanted.0), Some(wanted.1), wanted.2)
            };
            let window = chosen.windows(times).find(fits);
            if let Some(found) = window.and_then(|window| window.iter().find(|(value, _)| *value == printed.most)) {
                return Ok(found.1);
            }
        }
    }
    let seen: BTreeSet<usize> = groups.values().flatten().map(|(_, one)| one.executed.len()).collect();
    Err(Failure::wrong(format!(
        "no {times} stretches of what QEMU executed have the counts that `{}` printed, {wanted:?}; lengths: {seen:?}",
        printed.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = KERNEL | 0x100;

    fn read(addresses: &[u64], looks: &[u64]) -> Vec<Stretch> {
        let line = |address: &u64| format!("Trace 0: 0x7f00 [00000000/{address:016x}/00000000/00000000] name\n");
        let text: String = addresses.iter().map(line).collect();
        stretches(text.as_bytes(), &looks.iter().copied().collect()).expect("it is read")
    }

    #[test]
    fn a_stretch_is_between_two_looks_with_the_kernel_between() {
        let found = read(&[4, 8, 12, 16, K, K + 4, 32, 36, 40], &[4, 12, 36]);
        assert_eq!(found, [Stretch { executed: vec![12, 16, K, K + 4, 32], end: 36 }]);
        assert_eq!(found[0].in_kernel().count(), 2);
    }

    /// The note of the second look was not made: who reads it counts from the first one.
    #[test]
    fn a_look_that_is_cut_off_is_no_start() {
        let found = read(&[4, 8, 4, K, 32, 36], &[4, 32]);
        assert_eq!(found, [Stretch { executed: vec![4, 8, 4, K], end: 32 }]);
    }

    #[test]
    fn what_was_stopped_was_not_executed() {
        let trace = |address: u64| format!("Trace 0: 0x7f00 [00000000/{address:016x}/0/0] name\n");
        let stopped = "Stopped execution of TB chain before 0x7f00 [0000000000000008] name\n";
        let text = [trace(4), trace(8), trace(8), trace(12), stopped.to_owned(), trace(K), trace(4)].concat();
        let found = stretches(text.as_bytes(), &BTreeSet::from([4])).expect("it is read");
        assert_eq!(found, [Stretch { executed: vec![4, 8, K], end: 4 }]);
    }

    #[test]
    fn the_counts_that_were_printed_are_found_or_refused() {
        let one = |length: usize| Stretch { executed: vec![4; length], end: 8 };
        let all = [one(9), one(5), one(50), one(7), one(60)];
        let printed = |least, most, sum| Counted { name: "row".to_owned(), least, most, sum, times: 2 };
        assert_eq!(counted(&all, &printed(3, 7, 10), 2).expect("the first two").executed.len(), 9);
        assert_eq!(counted(&all, &printed(3, 5, 8), 2).expect("every second one").executed.len(), 7);
        let refused = counted(&all, &printed(3, 5, 9), 2).expect_err("not that sum");
        assert!(refused.message.contains("`row`"), "{}", refused.message);
    }
}
