//! Reads what the guest `experiment` left in the machine's memory and on its console.

use crate::Failure;
use crate::lab::partition_lines;
use crate::model::statistics::Served;
use bulkhead_abi::PhysicalAddress;
use bulkhead_run::Machine;

/// Nanoseconds of a tick of the board's counter (62.5 MHz).
pub(super) const TICK_NS: u64 = 16;

/// Value of `key=` in a line.
fn field(line: &str, key: &str) -> Option<u64> {
    let word = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Finds a number in the line of a partition that begins with `start`.
pub(super) fn printed(machine: &Machine, partition: &str, start: &str, key: &str) -> Result<u64, Failure> {
    let lines = partition_lines(machine, partition);
    let line = lines.iter().find(|line| line.starts_with(start));
    line.and_then(|line| field(line, key)).ok_or_else(|| {
        let last = lines.last().map_or("nothing", String::as_str);
        Failure::wrong(format!("partition {partition} printed no `{start}` with `{key}=`; it printed last: {last}"))
    })
}

/// The log of a partition: records of 64-bit words.
pub(super) fn records(machine: &Machine, partition: &str) -> Result<Vec<Vec<u64>>, Failure> {
    let get = |key| printed(machine, partition, "log ", key);
    let (address, words, count, lost) = (get("address")?, get("words")?, get("records")?, get("lost")?);
    if lost != 0 {
        return Err(Failure::wrong(format!("the log of partition {partition} had no room for {lost} records")));
    }
    let physical = |guest: u64| -> Option<u64> {
        let plan = machine.observer()?.plan();
        let number = plan.partition_named(partition)?;
        let regions = plan.partitions.get(number)?.ram;
        let region = regions.iter().find(|region| guest.wrapping_sub(region.guest.0) < region.bytes)?;
        Some(region.physical.0 + (guest - region.guest.0))
    };
    let word = |index: u64| -> Option<u64> {
        let at = physical(address + index * 8)?;
        machine.ram().load_u64(PhysicalAddress(at))
    };
    let record = |number: u64| (0..words).map(|place| word(number * words + place)).collect::<Option<Vec<u64>>>();
    (0..count)
        .map(record)
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Failure::wrong(format!("the log of partition {partition} at {address:#x} is not in its RAM")))
}

/// The requests of a wire.
pub(super) fn served(machine: &Machine, partition: &str) -> Result<Vec<Served>, Failure> {
    let served = |record: Vec<u64>| -> Option<Served> {
        let [request, entered, done] = record.try_into().ok()?;
        Some(Served { request_ns: request * TICK_NS, entered_ns: entered * TICK_NS, done_ns: done * TICK_NS })
    };
    let all: Option<Vec<Served>> = records(machine, partition)?.into_iter().map(served).collect();
    all.filter(|all| !all.is_empty()).ok_or_else(|| Failure::wrong(format!("partition {partition} served no request")))
}

/// The quanta of a ring, as a peer that computes saw them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// Start of a turn of that peer, at which no request waits.
    pub(super) turn_ns: u64,
    /// Distance of the ends of quanta: the quantum, and what ending one takes.
    pub(super) quantum_ns: u64,
    /// Requests before that turn.
    pub(super) earlier: usize,
}

/// Finds the grid in the log of a hog; a peer resumes at the start of its own turns only.
///
/// The log is precise to half a block of the hog, 16 us. The straight line through all turns is much more so.
pub(super) fn grid(machine: &Machine, partition: &str, quantum_ns: u64, served: &[Served]) -> Result<Grid, Failure> {
    // Shorter absences are exits in its own turn.
    let away = |gap: &Vec<u64>| Some((gap.first()? * TICK_NS, gap.get(1)? * TICK_NS));
    // After the last request guests end, and leave the ring smaller.
    let end_ns = served.last().map_or(0, |last| last.done_ns);
    let resumes: Vec<f64> = records(machine, partition)?
        .iter()
        .filter_map(away)
        .filter(|(from, to)| to - from >= quantum_ns * 9 / 10 && *to <= end_ns)
        .map(|(_, to)| to as f64)
        .collect();
    // What stands before the first turn is the start of the experiment.
    line_through(resumes.get(1..).unwrap_or_default(), quantum_ns as f64, served)
        .ok_or_else(|| Failure::wrong(format!("partition {partition} had too few turns to see the ring's grid")))
}

/// Least squares over (quanta since the first turn, start of the turn), and the first turn at which nothing waits.
fn line_through(resumes: &[f64], quantum_ns: f64, served: &[Served]) -> Option<Grid> {
    let first = *resumes.first()?;
    let mut number = 0.0;
    let mut points = vec![(0.0, 0.0)];
    for pair in resumes.windows(2) {
        number += ((pair[1] - pair[0]) / quantum_ns).round();
        points.push((number, pair[1] - first));
    }
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let (mean_number, mean) =
        points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let covariance: f64 = points.iter().map(|(number, at)| (number - mean_number) * (at - mean)).sum();
    let variance: f64 = points.iter().map(|(number, _)| (number - mean_number).powi(2)).sum();
    let quantum = covariance / variance;
    points.iter().find_map(|(number, _)| {
        let turn_ns = (first + mean + (number - mean_number) * quantum) as u64;
        let earlier = served.partition_point(|one| one.request_ns <= turn_ns);
        let is_quiet = earlier.checked_sub(1).is_none_or(|last| served[last].done_ns <= turn_ns);
        is_quiet.then_some(Grid { turn_ns, quantum_ns: quantum.round() as u64, earlier })
    })
}

#[cfg(test)]
mod tests {
    use super::{Grid, Served, field, line_through};

    #[test]
    fn a_grid_is_found_through_imprecise_and_missing_turns() {
        let turns = (0..100).filter(|turn| turn % 7 != 3);
        let resumes: Vec<f64> = turns.map(|turn| 1e6 + f64::from(turn) * 6e7 + f64::from(turn % 3) * 10.0).collect();
        // The first request is still being served at the first turn.
        let served = [(0, 2_000_000), (50_000_000, 50_000_000), (90_000_000, 90_000_000)]
            .map(|(request_ns, done_ns)| Served { request_ns, entered_ns: request_ns, done_ns });
        let grid = line_through(&resumes, 3e7, &served).expect("a straight line");
        assert_eq!((grid.quantum_ns, grid.earlier), (30_000_000, 2));
        assert!(grid.turn_ns.abs_diff(61_000_000) < 20, "{grid:?}");
        assert_eq!(line_through(&resumes[..2], 3e7, &served), None::<Grid>);
    }

    #[test]
    fn numbers_are_found_by_their_whole_key() {
        let line = "log address=0x40a0 words=3 records=12 lost=0";
        assert_eq!(field(line, "address"), Some(0x40a0));
        assert_eq!(field(line, "words"), Some(3));
        assert_eq!(field(line, "word"), None);
    }
}
