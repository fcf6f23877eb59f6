//! The second UART: the host is at its other end, answers what Linux asks there, and compares what came.
//!
//! What Linux writes is said in the mode `uart` of `linux/initramfs/init`.

use crate::facts::value_of;

/// What Linux writes when it wants a line.
pub(crate) const REQUEST: &str = "linux: a line, please";
/// What it gets: more than a FIFO holds.
pub(crate) const ANSWER: &str = "a line of the host, which is longer than what the FIFO of a PL011 holds";
/// What Linux says on its console of each line that it read.
const READ: &str = "linux: uart: read: ";

/// What was counted at both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UartFacts {
    /// Lines that Linux wrote, as it says.
    pub written: u64,
    /// Lines that came as they were written, in order.
    pub whole: u64,
    /// Lines that came otherwise, at either end.
    pub damaged: u64,
    /// Lines that Linux read, as it says.
    pub read: u64,
    /// Lines that Linux read as they were sent.
    pub answered: u64,
    /// Interrupts of the UART that Linux counted.
    pub interrupts: u64,
}

impl UartFacts {
    /// Collects them from what came from the UART and what Linux said on its console.
    pub(crate) fn of<'a>(uart: impl Iterator<Item = &'a str>, console: impl Iterator<Item = &'a str>) -> Self {
        let mut facts = Self::default();
        let mut latest = 0;
        for line in uart.filter(|line| *line != REQUEST) {
            match number_of(line).filter(|number| *number == latest + 1 || *number == 1) {
                Some(number) => (facts.whole, latest) = (facts.whole + 1, number),
                None => facts.damaged += 1,
            }
        }
        for line in console {
            match line.strip_prefix(READ) {
                Some(ANSWER) => facts.answered += 1,
                Some(_) => facts.damaged += 1,
                None => facts.note_end(line),
            }
        }
        facts
    }

    /// Reads `linux: uart: written=5 read=1 interrupts=4 tty=ttyAMA1`.
    fn note_end(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("linux: uart: ") else { return };
        let count = |key| value_of(rest, key).unwrap_or(0);
        self.written += count("written");
        self.read += count("read");
        self.interrupts += count("interrupts");
    }

    /// States whether lines went both ways, all of them whole, and by interrupts.
    #[must_use]
    pub fn holds(&self) -> bool {
        let is_whole = (self.whole, self.answered, self.damaged) == (self.written, self.read, 0);
        is_whole && self.written > 0 && self.read > 0 && self.interrupts > 0
    }
}

/// The number of a line that is exactly one of those that Linux writes.
fn number_of(line: &str) -> Option<u64> {
    let (number, rest) = line.strip_prefix("linux: line ")?.split_once(" of ")?;
    let tail = rest.split_once(" over ")?.1.split_once(',')?.1;
    (tail == " which is longer than what its FIFO holds").then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> String {
        format!("linux: line {number} of 2 over ttyAMA1, which is longer than what its FIFO holds")
    }

    fn facts(uart: &[String], console: &[String]) -> UartFacts {
        UartFacts::of(uart.iter().map(String::as_str), console.iter().map(String::as_str))
    }

    #[test]
    fn lines_are_compared_at_both_ends() {
        let uart = [line(1), line(2), REQUEST.to_owned(), line(1), line(2), REQUEST.to_owned()];
        let end = "linux: uart: written=2 read=1 interrupts=4 tty=ttyAMA1".to_owned();
        let console = [format!("{READ}{ANSWER}"), end.clone(), "linux: end".to_owned(), format!("{READ}{ANSWER}"), end];
        let good = facts(&uart, &console);
        assert_eq!(good, UartFacts { written: 4, whole: 4, damaged: 0, read: 2, answered: 2, interrupts: 8 });
        assert!(good.holds());
        assert!(!facts(&[], &[]).holds(), "nothing is not enough");
        for spoilt in [
            facts(&uart[1..], &console),
            facts(&[line(1), line(2), line(2), line(2)], &console),
            facts(&[line(1), line(2).replace("longer", "lnger"), line(1), line(2)], &console),
            facts(&uart, &console[1..]),
            facts(&uart, &[format!("{READ}x"), console[1].clone(), console[3].clone(), console[4].clone()]),
            facts(&uart, &console.clone().map(|line| line.replace("interrupts=4", "interrupts=0"))),
        ] {
            assert!(!spoilt.holds(), "{spoilt:?}");
        }
    }
}
