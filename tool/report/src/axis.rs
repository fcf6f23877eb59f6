//! Axes: round numbers at even distances, and where they are in a figure.

/// A linear or logarithmic scale from values to places in a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    /// Makes a linear scale: `from` is at `start`, `to` at `end`.
    pub(crate) fn linear(from: f64, to: f64, start: f64, end: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, start, end, logarithmic: false }
    }

    /// Makes a logarithmic scale; `from` must be more than zero.
    pub(crate) fn logarithmic(from: f64, to: f64, start: f64, end: f64) -> Self {
        let from = from.max(f64::MIN_POSITIVE);
        Self { from, to: if to > from { to } else { from * 10.0 }, start, end, logarithmic: true }
    }

    /// Returns where a value is.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + share * (self.end - self.start)
    }

    /// Returns round values on the scale, at most about this many.
    pub(crate) fn ticks(&self, most: u32) -> Vec<f64> {
        if self.logarithmic { self.decades(most) } else { self.even(most) }
    }

    fn even(&self, most: u32) -> Vec<f64> {
        let step = round_step((self.to - self.from) / f64::from(most.max(1)));
        let first = (self.from / step).ceil();
        let count = ((self.to - first * step) / step + 1e-9).floor().max(0.0) as u32;
        (0..=count.min(50)).map(|index| (first + f64::from(index)) * step).collect()
    }

    fn decades(&self, most: u32) -> Vec<f64> {
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let stride = (last - first).max(1).unsigned_abs().div_ceil(most.max(1)).max(1) as usize;
        let within = |value: &f64| (self.from * 0.999..=self.to * 1.001).contains(value);
        (first..=last).step_by(stride).map(|power| 10_f64.powi(power)).filter(within).collect()
    }
}

/// Returns the smallest of 1, 2, 5, 10, 20, 50, ... that is at least this.
fn round_step(least: f64) -> f64 {
    if !(least.is_finite() && least > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= least * 0.999_999).unwrap_or(10.0);
    digit * power
}

/// Returns a value of a tick with as many digits as it needs.
pub(crate) fn tick_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&value.abs()) {
        return format!("{value:e}");
    }
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::linear(3.0, 47.0, 0.0, 100.0);
        assert_eq!(scale.ticks(5), [10.0, 20.0, 30.0, 40.0]);
        assert_eq!(Scale::linear(0.0, 1.0, 0.0, 1.0).ticks(5).len(), 6);
        assert_eq!(Scale::logarithmic(0.5, 2000.0, 0.0, 1.0).ticks(10), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Scale::linear(5.0, 5.0, 0.0, 1.0).place(5.0), 0.0, "an empty range has a length all the same");
        assert_eq!(
            (tick_text(0.25), tick_text(-3.0), tick_text(1e9)),
            ("0.25".into(), "\u{2212}3".into(), "1e9".into())
        );
    }
}
