//! Compares a walked map with what it must be, address by address.

use crate::walk::{Map, Memory, Rights, Run};

/// A range that must be mapped in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected<Tag> {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) bytes: u64,
    pub(crate) rights: Rights,
    pub(crate) memory: Memory,
    /// What it is, for messages and codes.
    pub(crate) tag: Tag,
}

impl<Tag> Expected<Tag> {
    fn end(&self) -> u64 {
        self.input.saturating_add(self.bytes)
    }
}

/// How a map differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Difference<'a, Tag> {
    /// Mapped, but nothing says that it should be.
    Extra(Run),
    /// Mapped otherwise than expected.
    Other(Run, &'a Expected<Tag>),
    /// Expected from this input address on, not mapped.
    Missing(u64, &'a Expected<Tag>),
}

/// Cuts a run to the input addresses from `start` to `end`.
fn cut(run: &Run, start: u64, end: u64) -> Run {
    Run { input: start, output: run.output + (start - run.input), bytes: end - start, ..*run }
}

/// Returns every difference between `map` and `expected`, in order of addresses.
pub(crate) fn differences<'a, Tag>(map: &Map, expected: &'a [Expected<Tag>]) -> Vec<Difference<'a, Tag>> {
    let mut differences = Vec::new();
    for run in &map.runs {
        let mut cursor = run.input;
        while cursor < run.input_end() {
            let here = expected.iter().find(|one| one.input <= cursor && cursor < one.end());
            let next = expected.iter().map(|one| one.input).filter(|start| *start > cursor).min().unwrap_or(u64::MAX);
            let end = here.map_or(next, Expected::end).min(run.input_end());
            let piece = cut(run, cursor, end);
            match here {
                None => differences.push(Difference::Extra(piece)),
                Some(one) => {
                    let same = piece.output == one.output.wrapping_add(cursor - one.input)
                        && piece.rights == one.rights
                        && piece.memory == one.memory;
                    if !same {
                        differences.push(Difference::Other(piece, one));
                    }
                }
            }
            cursor = end;
        }
    }
    for one in expected {
        let mut cursor = one.input;
        while cursor < one.end() {
            match map.find(cursor) {
                Some(run) => cursor = run.input_end(),
                None => {
                    differences.push(Difference::Missing(cursor, one));
                    cursor = one.end();
                }
            }
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Memory = Memory::Normal;

    fn run(input: u64, bytes: u64) -> Run {
        Run { input, output: input, bytes, rights: Rights::READ, memory: NORMAL }
    }

    fn expected(input: u64, bytes: u64) -> Expected<()> {
        Expected { input, output: input, bytes, rights: Rights::READ, memory: NORMAL, tag: () }
    }

    fn map(runs: &[Run]) -> Map {
        Map { runs: runs.to_vec(), tables: vec![] }
    }

    #[test]
    fn one_run_over_two_expectations_is_no_difference() {
        let expected = [expected(0, 0x1000), expected(0x1000, 0x2000)];
        assert_eq!(differences(&map(&[run(0, 0x3000)]), &expected), []);
    }

    #[test]
    fn extra_tail_is_found() {
        let expected = [expected(0, 0x1000)];
        assert_eq!(differences(&map(&[run(0, 0x3000)]), &expected), [Difference::Extra(run(0x1000, 0x2000))]);
    }

    #[test]
    fn hole_is_found() {
        let expected = [expected(0, 0x3000)];
        let found = differences(&map(&[run(0, 0x1000), run(0x2000, 0x1000)]), &expected);
        assert_eq!(found, [Difference::Missing(0x1000, &expected[0])]);
    }

    #[test]
    fn shifted_output_is_found() {
        let expected = [expected(0, 0x1000)];
        let shifted = Run { output: 0x5000, ..run(0, 0x1000) };
        assert_eq!(differences(&map(&[shifted]), &expected), [Difference::Other(shifted, &expected[0])]);
    }
}
