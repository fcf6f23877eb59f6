//! Sizes and durations as people write them: `"4 MiB"`, `"100 ms"`.
//!
//! A quantity always has a unit. The rejected alternative, a bare number with a unit in the key (`memory_mib = 4`), makes
//! the format longer and the mistakes silent.

/// Why a quantity was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuantity {
    /// What is wrong.
    pub problem: String,
    /// What to write instead, if that can be guessed.
    pub replacement: Option<String>,
}

/// Units of memory, with bytes.
pub const SIZE_UNITS: &[(&str, u64)] = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
/// Units of time, with nanoseconds.
pub const DURATION_UNITS: &[(&str, u64)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

/// Reads a size in bytes.
///
/// # Errors
/// Says what is wrong and, where it can be guessed, what was meant.
pub fn parse_size(text: &str) -> Result<u64, BadQuantity> {
    parse(text, SIZE_UNITS, "MiB", "a size")
}

/// Reads a duration in nanoseconds.
///
/// # Errors
/// Says what is wrong and, where it can be guessed, what was meant.
pub fn parse_duration(text: &str) -> Result<u64, BadQuantity> {
    parse(text, DURATION_UNITS, "ms", "a duration")
}

/// Reads a duration in nanoseconds from the command line; `usual_unit` is what a number without one is likely to mean there.
///
/// # Errors
/// One sentence that says what is wrong and, where it can be guessed, what was meant.
pub fn duration_option(text: &str, usual_unit: &str) -> Result<u64, String> {
    parse(text, DURATION_UNITS, usual_unit, "a duration").map_err(|bad| match bad.replacement {
        Some(meant) => format!("{}; did you mean \"{meant}\"?", bad.problem),
        None => bad.problem,
    })
}

/// Writes a size with the largest unit that keeps it whole.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    format(bytes, SIZE_UNITS)
}

/// Writes a duration with the largest unit below a minute that keeps it whole.
#[must_use]
pub fn format_duration(nanoseconds: u64) -> String {
    format(nanoseconds, DURATION_UNITS.split_last().map_or(DURATION_UNITS, |(_, rest)| rest))
}

fn format(amount: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().rev().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{} {name}", amount / factor),
        None => format!("0 {}", units.first().map_or("", |(name, _)| name)),
    }
}

fn parse(text: &str, units: &[(&str, u64)], usual_unit: &str, what: &str) -> Result<u64, BadQuantity> {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let trimmed = text.trim();
    let split = trimmed
        .find(|letter: char| !(letter.is_ascii_digit() || letter == '_' || letter == '.'))
        .unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(split);
    let unit = unit.trim();
    let refuse = |problem: String, replacement: Option<String>| Err(BadQuantity { problem, replacement });
    if digits.is_empty() {
        return refuse(format!("`{text}` is not {what}: it must be a whole number and a unit"), None);
    }
    if digits == "0" && unit.starts_with(['x', 'X']) {
        return refuse(
            format!("`{text}` is hexadecimal: write a decimal number and one of {}", crate::suggest::list(&names)),
            hexadecimal_bytes(unit, units),
        );
    }
    if unit.is_empty() {
        return refuse(
            format!("`{text}` has no unit: write one of {}", crate::suggest::list(&names)),
            without_unit(digits, units, usual_unit),
        );
    }
    let Some((name, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let meant = usual_misspelling(unit)
            .filter(|meant| names.contains(meant))
            .or_else(|| crate::suggest::closest(unit, names.iter().copied()));
        return refuse(
            format!("`{unit}` is not a unit here: use one of {}", crate::suggest::list(&names)),
            meant.map(|meant| format!("{digits} {meant}")),
        );
    };
    let Ok(number) = digits.replace('_', "").parse::<u64>() else {
        return refuse(format!("`{digits}` is not a whole number"), whole(digits, name, units));
    };
    match number.checked_mul(*factor) {
        Some(amount) => Ok(amount),
        None => refuse(format!("`{text}` does not fit in 64 bits"), None),
    }
}

/// From here on a number without a unit is taken for one of the smallest unit, as programs write it: nobody means 100,000 MiB
/// or 100,000 ms.
const LARGE: u64 = 65_536;

/// What a number without a unit means.
fn without_unit(digits: &str, units: &[(&str, u64)], usual_unit: &str) -> Option<String> {
    match digits.replace('_', "").parse::<u64>() {
        Ok(number) if number >= LARGE => Some(format(number, units)),
        Ok(_) => Some(format!("{digits} {usual_unit}")),
        // A decimal fraction: its unit comes first, then what is whole of it.
        Err(_) => digits.contains('.').then(|| format!("{digits} {usual_unit}")),
    }
}

/// What a hexadecimal number means: bytes, where a size is asked for. `digits` begins with its `x`.
fn hexadecimal_bytes(digits: &str, units: &[(&str, u64)]) -> Option<String> {
    let digits = digits.trim_start_matches(['x', 'X']).replace('_', "");
    let is_size = units == SIZE_UNITS;
    // `B` is a digit as well: only after a space it is the unit.
    let digits = digits.strip_suffix(" B").unwrap_or(&digits);
    let bytes = u64::from_str_radix(digits, 16).ok().filter(|_| is_size)?;
    Some(format(bytes, units))
}

/// Spellings that differ by more than a slip: decimal unit names for binary sizes, other names of time units.
fn usual_misspelling(unit: &str) -> Option<&'static str> {
    Some(match unit.to_lowercase().as_str() {
        "k" | "kb" | "ki" => "KiB",
        "m" | "mb" | "mi" => "MiB",
        "g" | "gb" | "gi" => "GiB",
        "b" | "byte" | "bytes" => "B",
        "sec" | "secs" | "second" | "seconds" => "s",
        "msec" | "millisecond" | "milliseconds" => "ms",
        "µs" | "μs" | "usec" | "microsecond" | "microseconds" => "us",
        "nsec" | "nanosecond" | "nanoseconds" => "ns",
        "m." | "minute" | "minutes" => "min",
        _ => return None,
    })
}

/// Turns `1.5 GiB` into `1536 MiB` when that is exact.
fn whole(digits: &str, unit: &str, units: &[(&str, u64)]) -> Option<String> {
    let (integer, fraction) = digits.split_once('.')?;
    let integer: u64 = integer.parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let scale = 10u64.checked_pow(places)?;
    let numerator = integer.checked_mul(scale)?.checked_add(fraction.parse().ok()?)?;
    let index = units.iter().position(|(name, _)| *name == unit)?;
    let (_, factor) = units.get(index)?;
    let (smaller, smaller_factor) = units.get(index.checked_sub(1)?)?;
    let amount = numerator.checked_mul(factor / smaller_factor)?;
    amount.is_multiple_of(scale).then(|| format!("{} {smaller}", amount / scale))
}
