//! A cart on a rail and the controller that moves it, in fixed point: the same numbers on every machine and in every run.
//!
//! Positions are in micrometres, time in periods. The computation is small on purpose: the loop is about being on time.

/// Micrometres between the two places the cart travels between.
const TRAVEL_MICROMETRES: i64 = 100_000;
/// Periods at one place before it travels to the other.
const PERIODS_PER_LEG: u64 = 130;
/// Gains have this many fraction bits.
const FRACTION_BITS: u32 = 10;
const GAIN_PROPORTIONAL: i64 = 30;
const GAIN_INTEGRAL: i64 = 1;
const GAIN_DERIVATIVE: i64 = 330;
/// Largest force, in micrometres per period squared.
const FORCE_LIMIT: i64 = 400;
/// Bound of the integral, so that it cannot wind up.
const INTEGRAL_LIMIT: i64 = 20_000;
/// Friction takes away one part in this many of the speed each period.
const FRICTION_DIVISOR: i64 = 16;

/// State of cart and controller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plant {
    position_micrometres: i64,
    speed_micrometres: i64,
    integral: i64,
    previous_error: i64,
}

impl Plant {
    /// Returns the cart's position.
    pub(crate) fn position_micrometres(&self) -> i64 {
        self.position_micrometres
    }

    /// Does one period: reads the position, decides a force, moves the cart.
    pub(crate) fn step(&mut self, period: u64) {
        let is_away = (period / PERIODS_PER_LEG) % 2 == 1;
        let target = if is_away { TRAVEL_MICROMETRES } else { 0 };
        let error = target - self.position_micrometres;
        self.integral = (self.integral + error).clamp(-INTEGRAL_LIMIT, INTEGRAL_LIMIT);
        let change = error - self.previous_error;
        self.previous_error = error;
        let force =
            (GAIN_PROPORTIONAL * error + GAIN_INTEGRAL * self.integral + GAIN_DERIVATIVE * change) >> FRACTION_BITS;
        let force = force.clamp(-FORCE_LIMIT, FORCE_LIMIT);
        self.speed_micrometres += force - self.speed_micrometres / FRICTION_DIVISOR;
        self.position_micrometres += self.speed_micrometres;
    }
}
