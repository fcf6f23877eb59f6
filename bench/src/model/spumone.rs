//! What a second operating system on the core costs, in terms (SP-E2, SP-E3, SP-E4).

/// The terms of one tick of the RTOS, in instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// From the interrupt in the general-purpose guest to the RTOS's first instruction.
    pub forced_switch: f64,
    /// What the RTOS does.
    pub work: f64,
    /// From its WFI to the general-purpose guest's next instruction.
    pub voluntary_switch: f64,
    /// Its share of what is written down for the host, less often than once a tick.
    pub publication: f64,
}

impl Tick {
    /// Share of the core in percent that ticks take, at these numbers of ticks and instructions a second.
    #[must_use]
    pub fn loss_percent(&self, ticks_per_second: f64, instructions_per_second: f64) -> f64 {
        let instructions = self.forced_switch + self.work + self.voluntary_switch + self.publication;
        instructions * ticks_per_second / instructions_per_second * 100.0
    }
}

/// Delay of an interrupt of the RTOS in three cases, in instructions (SP-E2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    /// Native.
    pub native: f64,
    /// With the layer, while the RTOS runs.
    pub own: f64,
    /// With the layer, while the other guest runs.
    pub switched: f64,
}

impl Delays {
    /// Bound of the delay: the switch, and the longest time in which the monitor takes no interrupt. What the other guest
    /// masks is no part of it (SP-15, SP-E4 claim (i)).
    #[must_use]
    pub fn bound(&self, longest_monitor_path: f64) -> f64 {
        self.switched + longest_monitor_path
    }

    /// The order that the experiment claims.
    #[must_use]
    pub fn are_ordered(&self) -> bool {
        self.native < self.own && self.own < self.switched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP-E3: 1 ms ticks of 1,500 instructions in all cost 0.15 % at 1 GIPS.
    #[test]
    fn ticks_cost_their_share() {
        let tick = Tick { forced_switch: 400.0, work: 580.0, voluntary_switch: 400.0, publication: 120.0 };
        assert!((tick.loss_percent(1e3, 1e9) - 0.15).abs() < 1e-12);
    }

    /// SP-E2: three constants in order, and a bound that does not know the other guest.
    #[test]
    fn delays_are_ordered_and_bounded() {
        let delays = Delays { native: 2.0, own: 60.0, switched: 350.0 };
        assert!(delays.are_ordered());
        assert!(!Delays { own: 400.0, ..delays }.are_ordered());
        assert!((delays.bound(200.0) - 550.0).abs() < f64::EPSILON);
    }
}
