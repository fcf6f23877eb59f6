//! A PID controller and a heater that it controls, as a host computes them as well: sums, products and quotients of binary64, which IEEE 754 rounds in one way only. Nothing is
//! contracted to a fused operation, so each result is the same bit for bit on every machine.
#![no_std]
#![forbid(unsafe_code)]

mod smoothing;

pub use smoothing::{Kelvin, Smoothing};

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pid {
    /// Factors of the error, of its sum and of its change.
    pub gains: [f64; 3],
    /// Sum of the errors, each times the period, in kelvin seconds.
    pub sum: f64,
    /// The error before, in kelvin.
    pub before: f64,
}

impl Pid {
    /// One that has seen nothing.
    #[must_use]
    pub const fn new(gains: [f64; 3]) -> Self {
        Self { gains, sum: 0.0, before: 0.0 }
    }

    /// What is to be done about an error, a period after the one before.
    pub fn step(&mut self, error: f64, period_seconds: f64) -> f64 {
        let [proportional, integral, derivative] = self.gains;
        self.sum += error * period_seconds;
        let change = (error - self.before) / period_seconds;
        self.before = error;
        proportional * error + integral * self.sum + derivative * change
    }
}

/// Seconds between two steps.
pub const PERIOD_SECONDS: f64 = 0.01;
/// What the heater loses of its temperature above the room's each second.
const LOSS: f64 = 0.3;

/// A loop of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    controller: Pid,
    /// Kelvin above the room.
    temperature: f64,
    target: f64,
}

impl Loop {
    /// One that shall reach a temperature, in kelvin above the room.
    #[must_use]
    pub fn new(target: f64) -> Self {
        Self { controller: Pid::new([2.25, 0.75, 0.015_625]), temperature: 0.0, target }
    }

    /// One period with a measurement that was smoothed by somebody; returns what there is to measure.
    pub fn step(&mut self, measured: f64) -> f64 {
        let power = self.controller.step(self.target - measured, PERIOD_SECONDS);
        self.temperature += (power - LOSS * self.temperature) * PERIOD_SECONDS;
        self.temperature
    }
}

/// Smooths a value: an eighth of the new one and the rest of the one before.
#[must_use]
pub fn smoothed(before: f64, value: f64) -> f64 {
    before + (value - before) / 8.0
}

/// The bits of all temperatures of all periods, mixed into one word: each bit of each of them decides it.
#[must_use]
pub fn trajectory(target: f64, periods: u64, mut smooth: impl FnMut(f64, f64) -> f64) -> u64 {
    let (mut control, mut measured, mut word) = (Loop::new(target), 0.0, 0);
    for _ in 0..periods {
        let temperature = control.step(measured);
        measured = smooth(measured, temperature);
        word = mixed(word, temperature.to_bits());
        word = mixed(word, measured.to_bits());
    }
    word
}

/// SplitMix64's last step, as the SDK has it.
fn mixed(word: u64, with: u64) -> u64 {
    bulkhead_component::mixed(word, with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_reaches_its_target() {
        let (mut control, mut measured) = (Loop::new(40.0), 0.0);
        for _ in 0..4000 {
            measured = smoothed(measured, control.step(measured));
        }
        assert!((measured - 40.0).abs() < 0.01, "{measured}");
    }

    #[test]
    fn each_bit_of_each_step_is_in_the_word() {
        let word = trajectory(40.0, 100, smoothed);
        let flip = |at: u32| {
            let mut step = 0;
            trajectory(40.0, 100, |before, value| {
                step += 1;
                let value = smoothed(before, value);
                if step == at { f64::from_bits(value.to_bits() ^ 1) } else { value }
            })
        };
        assert!((1..=100).all(|at| flip(at) != word));
    }
}
