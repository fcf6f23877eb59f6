//! What QEMU executed, one instruction after the other, and the stretches of it between two looks at the counter.
//!
//! With `-singlestep -d exec,nochain` each line of the log is one instruction. A stretch begins with the last look at the counter at EL0 whose next
//! instruction was executed at EL0 as well, and ends in front of the first look behind the kernel. So it has as many instructions as the counter says that
//! it took: a look that the kernel cut off from its note is not where the component counts from.
//!
//! Components have the same addresses, and the log says nothing of address spaces. Where a second component is on the way, what was executed at EL0
//! between two visits of the kernel is of the one whose instructions lead from each address to the next ([`Program`]).

use crate::Failure;
use crate::symbols::functions;
use bulkhead_system_tests::kernel::Counted;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;

/// `mrs xN, CNTVCT_EL0` without its register.
const LOOK: u32 = 0xd53b_e040;
const REGISTER: u32 = 0x1f;
/// The kernel is in the upper half.
const KERNEL: u64 = 1 << 63;
/// Marks addresses at EL0 of another component than the one that looks. Those of the kernel have the bit as well.
pub(super) const OTHER: u64 = 1 << 62;
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
    /// Those of the kernel and of another component, marked; the rest is of the component that looks.
    pub(super) fn beside_the_component(&self) -> impl Iterator<Item = u64> + '_ {
        self.executed.iter().copied().filter(|address| is_kernel(*address) || is_other(*address))
    }
}

/// The instructions of a component.
pub(super) struct Program(HashMap<u64, u32>);

impl Program {
    pub(super) fn read(elf: &[u8]) -> Self {
        let all = functions(elf).unwrap_or_default();
        Self(all.iter().flat_map(|code| (code.start..).step_by(4).zip(code.words(elf))).collect())
    }

    /// Where it looks at the counter.
    pub(super) fn looks(&self) -> BTreeSet<u64> {
        self.0.iter().filter(|(_, word)| *word & !REGISTER == LOOK).map(|(address, _)| *address).collect()
    }

    /// States whether all of this can have been executed of it, one after the other.
    fn leads_through(&self, run: &[u64]) -> bool {
        let leads = |step: &[u64]| {
            let [from, to] = step[..] else { return false };
            self.0.get(&from).is_some_and(|word| leads(*word, from, to))
        };
        run.windows(2).all(leads) && run.last().is_some_and(|last| self.0.contains_key(last))
    }
}

/// States whether the instruction behind this one can be there: one behind the other, or where a branch leads.
fn leads(word: u32, from: u64, to: u64) -> bool {
    /// `from` and a signed number of words, which are these bits.
    fn target(word: u32, from: u64, shift: u32, bits: u32) -> u64 {
        let offset = (word >> shift << (32 - bits)).cast_signed() >> (32 - bits);
        from.wrapping_add_signed(i64::from(offset) * 4)
    }
    let is_next = to == from + 4;
    match word {
        // B and BL; B.cond; CBZ and CBNZ; TBZ and TBNZ; BR, BLR and RET.
        _ if word & 0x7c00_0000 == 0x1400_0000 => to == target(word, from, 0, 26),
        _ if word & 0xff00_0000 == 0x5400_0000 => is_next || to == target(word, from, 5, 19),
        _ if word & 0x7e00_0000 == 0x3400_0000 => is_next || to == target(word, from, 5, 19),
        _ if word & 0x7e00_0000 == 0x3600_0000 => is_next || to == target(word, from, 5, 14),
        _ if word & 0xff80_0000 == 0xd600_0000 => true,
        // SVC leads into the kernel.
        _ if word & 0xffe0_001f == 0xd400_0001 => false,
        _ => is_next,
    }
}

fn is_kernel(address: u64) -> bool {
    address & KERNEL != 0
}

/// States whether the address is of another component than the one that looks.
pub(super) fn is_other(address: u64) -> bool {
    address & (KERNEL | OTHER) == OTHER
}

/// The stretches through the kernel in a log, in order, by the looks of the first program. The second one is on the way, if there is one.
pub(super) fn stretches(
    log: impl BufRead,
    looking: &Program,
    other: Option<&Program>,
) -> Result<Vec<Stretch>, Failure> {
    let looks = looking.looks();
    let reader = Reader { looks: &looks, found: Vec::new(), current: Vec::new(), pending: None };
    let (mut split, mut before) = (Split { looking, other, run: Vec::new(), reader }, None);
    for line in log.lines() {
        let line = line.map_err(|cause| Failure::host(format!("cannot read what QEMU executed: {cause}")))?;
        if line.starts_with("Stopped execution") {
            // What it says on the line before was not executed: an interrupt came first.
            before = None;
        } else if let Some(address) = address(&line) {
            // QEMU logs an instruction in front of it, and once more when a timer's date made it look up there first. None jumps to itself.
            if let Some(before) = before.replace(address).filter(|before| *before != address) {
                split.take(before)?;
            }
        }
    }
    if let Some(last) = before {
        split.take(last)?;
    }
    split.end_run()?;
    Ok(split.reader.found)
}

/// `Trace 0: 0x7f.. [cs_base/address/flags/cflags] symbol`.
fn address(line: &str) -> Option<u64> {
    let inside = line.strip_prefix("Trace ")?.split_once('[')?.1;
    u64::from_str_radix(inside.split('/').nth(1)?, 16).ok()
}

/// Says of each address at EL0 whose it is.
struct Split<'a> {
    looking: &'a Program,
    other: Option<&'a Program>,
    /// Executed at EL0 since the kernel was left.
    run: Vec<u64>,
    reader: Reader<'a>,
}

impl Split<'_> {
    fn take(&mut self, address: u64) -> Result<(), Failure> {
        if self.other.is_some() && !is_kernel(address) {
            self.run.push(address);
            return Ok(());
        }
        self.end_run()?;
        self.reader.take(address);
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), Failure> {
        let run = std::mem::take(&mut self.run);
        let leads_through = |program: &Program| program.leads_through(&run);
        let mark = match (leads_through(self.looking), self.other.is_some_and(leads_through)) {
            (true, true) if run.iter().any(|address| self.reader.looks.contains(address)) => {
                return Err(Failure::wrong(format!("two components can have executed {run:#x?}")));
            }
            (true, false) => 0,
            _ => OTHER,
        };
        run.into_iter().for_each(|address| self.reader.take(address | mark));
        Ok(())
    }
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

    const NOP: u32 = 0xd503_201f;

    /// A program that looks at these addresses, and has this at others.
    fn program(looks: &[u64], others: &[(u64, u32)]) -> Program {
        Program(looks.iter().map(|address| (*address, LOOK)).chain(others.iter().copied()).collect())
    }

    fn log_of(addresses: &[u64]) -> String {
        let line = |address: &u64| format!("Trace 0: 0x7f00 [00000000/{address:016x}/00000000/00000000] name\n");
        addresses.iter().map(line).collect()
    }

    fn read(addresses: &[u64], looks: &[u64]) -> Vec<Stretch> {
        stretches(log_of(addresses).as_bytes(), &program(looks, &[]), None).expect("it is read")
    }

    #[test]
    fn a_stretch_is_between_two_looks_with_the_kernel_between() {
        let found = read(&[4, 8, 12, 16, K, K + 4, 32, 36, 40], &[4, 12, 36]);
        assert_eq!(found, [Stretch { executed: vec![12, 16, K, K + 4, 32], end: 36 }]);
        assert_eq!(found[0].beside_the_component().count(), 2);
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
        let found = stretches(text.as_bytes(), &program(&[4], &[]), None).expect("it is read");
        assert_eq!(found, [Stretch { executed: vec![4, 8, K], end: 4 }]);
    }

    /// The other component has an instruction where the first one looks, and is on the way from one look to the next one.
    #[test]
    fn what_another_component_executes_is_no_look() {
        let looking = program(&[4, 24], &[(8, NOP), (12, 0xd400_0001), (20, NOP), (28, NOP)]);
        let other = program(&[], &[(0, NOP), (4, 0x1400_0003), (16, NOP), (20, 0xd400_0001)]);
        let log = log_of(&[4, 8, 12, K, 0, 4, 16, 20, K, 20, 24, 28]);
        let found = stretches(log.as_bytes(), &looking, Some(&other)).expect("it is read");
        assert_eq!(
            found,
            [Stretch { executed: vec![4, 8, 12, K, OTHER, OTHER | 4, OTHER | 16, OTHER | 20, K, 20], end: 24 }]
        );
        assert_eq!(found[0].beside_the_component().count(), 6);
        let refused = stretches(log.as_bytes(), &looking, Some(&looking)).expect_err("both can have executed it");
        assert!(refused.message.contains("two components"), "{}", refused.message);
    }

    #[test]
    fn branches_lead_where_they_say() {
        for (word, to) in [
            (0x1400_0003, 0x10c),
            (0x97ff_ffff, 0xfc),
            (0x54ff_ffc1, 0xf8),
            (0xb400_0060, 0x10c),
            (0x3707_ffc0, 0xf8),
            (0xd65f_03c0, 0x777c),
            (NOP, 0x104),
        ] {
            assert!(leads(word, 0x100, to), "{word:#x}");
            assert!(word == 0xd65f_03c0 || !leads(word, 0x100, 0x200), "{word:#x}");
        }
        assert!(leads(0x54ff_ffc1, 0x100, 0x104) && !leads(0x1400_0003, 0x100, 0x104));
        assert!(!leads(0xd400_0001, 0x100, 0x104), "the kernel is behind it");
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
