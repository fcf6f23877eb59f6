//! Numbers as text.

/// Unit of a column of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    /// Returns the unit in which the longest of several durations is at least one, or a smaller one in which the shortest
    /// is not lost behind the point.
    pub(crate) fn for_all(durations: impl Iterator<Item = u64>) -> Self {
        let (mut longest, mut shortest) = (0, u64::MAX);
        for ns in durations.filter(|ns| *ns > 0) {
            (longest, shortest) = (longest.max(ns), shortest.min(ns));
        }
        let units = [Self::Seconds, Self::Milliseconds, Self::Microseconds];
        let fits = |unit: &Self| longest >= unit.ns() && shortest >= unit.ns() / 100;
        units.into_iter().find(fits).unwrap_or(Self::Nanoseconds)
    }

    /// Returns the unit for an axis up to this time.
    pub(crate) fn for_axis(ns: u64) -> Self {
        match ns {
            0..10_000 => Self::Nanoseconds,
            10_000..10_000_000 => Self::Microseconds,
            10_000_000..100_000_000_000 => Self::Milliseconds,
            _ => Self::Seconds,
        }
    }

    /// Returns its sign.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "\u{b5}s",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// Returns its length.
    pub(crate) fn ns(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
        }
    }

    /// Returns a duration without its unit: three digits after the point, except for nanoseconds.
    pub(crate) fn text(self, ns: u64) -> String {
        let whole = grouped(ns / self.ns());
        if self == Self::Nanoseconds {
            return whole;
        }
        // Cut, not rounded: a measurement is never shown larger than it was.
        format!("{whole}.{:03}", ns % self.ns() * 1000 / self.ns())
    }
}

/// Returns a duration for prose: in its own unit, cut after three digits behind the point.
pub(crate) fn rough(ns: u64) -> String {
    let units = [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds];
    let unit = units.into_iter().find(|unit| ns >= unit.ns()).unwrap_or(TimeUnit::Nanoseconds);
    let text = unit.text(ns);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}\u{202f}{}", unit.name())
}

/// Returns a number with thin spaces between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a ratio with two digits. Rounded up, so that 1.00 is never less than one.
pub(crate) fn ratio_text(ratio: f64) -> String {
    format!("{:.2}", (ratio * 100.0).ceil() / 100.0)
}

/// Returns a share as percent with one digit.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.1}\u{202f}%", part as f64 * 100.0 / whole as f64) }
}

/// Returns a size in the largest unit that it fills.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, name) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit {
            let tenths = bytes.saturating_mul(10) / unit;
            let point = if tenths.is_multiple_of(10) { String::new() } else { format!(".{}", tenths % 10) };
            return format!("{}{point} {name}", grouped(tenths / 10));
        }
    }
    format!("{bytes} B")
}

/// Unit of a column of sizes: name and bytes.
pub(crate) type SizeUnit = (&'static str, u64);

/// Returns the largest unit of which all sizes are whole multiples.
pub(crate) fn size_unit(sizes: impl Iterator<Item = u64>) -> SizeUnit {
    let all = sizes.fold(0, |all, bytes| all | bytes);
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    units.into_iter().find(|(_, bytes)| all != 0 && all.is_multiple_of(*bytes)).unwrap_or(("B", 1))
}

/// Returns an address.
pub(crate) fn address(value: u64) -> String {
    format!("0x{:04x}_{:04x}", value >> 16, value & 0xffff)
}

/// Returns a count with the word for the thing.
pub(crate) fn plural(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Returns a remark as a sentence.
pub(crate) fn sentence(text: &str) -> String {
    let mut characters = text.trim().chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let rest = characters.as_str();
    let stop = if rest.ends_with(['.', '!', '?']) || text.trim().is_empty() { "" } else { "." };
    format!("{first}{rest}{stop}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_choose_a_unit_and_never_round_up() {
        let unit = |durations: &[u64]| TimeUnit::for_all(durations.iter().copied());
        assert_eq!(unit(&[0, 12, 999]).text(999), "999");
        assert_eq!(unit(&[10_000, 8_020_000]).text(8_029_999), "8.029");
        assert_eq!(unit(&[400, 8_020_000]).text(8_020_016), "8\u{202f}020.016", "the shortest is not lost");
        assert_eq!(unit(&[2_000_000_000, 30_000_000]).name(), "s");
        assert_eq!(unit(&[]).name(), "ns");
        assert_eq!((rough(3_233_388_416), rough(20_000_000)), ("3.233\u{202f}s".into(), "20\u{202f}ms".into()));
        assert_eq!(ratio_text(0.9901), "1.00");
        assert_eq!(
            (size(4 << 20), size(1536), size(0x1800_0000)),
            ("4 MiB".into(), "1.5 KiB".into(), "384 MiB".into())
        );
        assert_eq!(address(0x4020_0000), "0x4020_0000");
        let unit = |sizes: &[u64]| size_unit(sizes.iter().copied()).0;
        assert_eq!(
            [unit(&[4 << 20, 3 << 30]), unit(&[4 << 20, 4096]), unit(&[4097]), unit(&[])],
            ["MiB", "KiB", "B", "B"]
        );
    }
}
