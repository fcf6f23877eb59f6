//! How long somebody wants to run and gets nothing: what a sleep and a late end add to what a supply says of one who never sleeps.

use crate::core_bounds::ServerBounds;
use crate::core_model::{CoreModel, Server};
use crate::steps::Steps;
use crate::supply::{MAX_WINDOW_TICKS, Supply};

/// Longest time from a wake-up to the first tick, whatever its owner used before.
pub(crate) fn wait_after_sleep(
    model: &CoreModel,
    server: &Server,
    bounds: &ServerBounds,
    steps: &Steps,
) -> Option<u64> {
    let ticks = match server.budget().filter(|_| server.rule.forgets_what_is_not_wanted()) {
        // Nothing is promised where the opening of a window counts as a wake-up.
        Some(_) if bounds.supply == Supply::Nothing => None,
        // One that wakes right after a date of the grid has nothing until the next one.
        Some((_, period_ticks)) => Some(first_tick(bounds, steps)?.saturating_add(period_ticks.saturating_sub(1))),
        None => bounds.sleeper_supply.blackout(steps),
    };
    ticks.map(|ticks| ticks.saturating_add(debt_ticks(model, server)))
}

/// How much longer a server has nothing because the end of a budget was noticed late, which the next budget pays.
pub(crate) fn debt_ticks(model: &CoreModel, server: &Server) -> u64 {
    server.rule.debt_ticks(model.lateness_ticks.saturating_add(server.least_charge_ticks))
}

/// Longest wait for the first tick with a budget in hand.
pub(crate) fn first_tick(bounds: &ServerBounds, steps: &Steps) -> Option<u64> {
    let response = bounds.contention.as_ref()?.response(1, MAX_WINDOW_TICKS, steps)?;
    Some(response.saturating_sub(1))
}
