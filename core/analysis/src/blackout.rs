//! How long somebody wants to run and gets nothing: what a sleep and a late end add to what a supply says of one who never sleeps.

use crate::arithmetic::{divide_down, scale_up};
use crate::core_bounds::ServerBounds;
use crate::core_model::{CoreModel, Rule, Server};
use crate::steps::Steps;
use crate::supply::{MAX_WINDOW_TICKS, Supply};

/// Longest time from a wake-up to the first tick, whatever its owner used before.
pub(crate) fn wait_after_sleep(
    model: &CoreModel,
    server: &Server,
    bounds: &ServerBounds,
    steps: &Steps,
) -> Option<u64> {
    let ticks = match &server.rule {
        // Nothing is promised where the opening of a window counts as a wake-up.
        Rule::Polling { .. } if bounds.supply == Supply::Nothing => None,
        // One that wakes right after a date of the grid has nothing until the next one.
        Rule::Polling { period_ticks, .. } => {
            Some(first_tick(bounds, steps)?.saturating_add(period_ticks.saturating_sub(1)))
        }
        _ => bounds.sleeper_supply.blackout(steps),
    };
    ticks.map(|ticks| ticks.saturating_add(debt_ticks(model, server)))
}

/// How much longer a server has nothing because the end of a budget was noticed late, which the next budget pays.
///
/// A budget on a grid ends so much sooner, and the grid does not move. The budget of a sporadic server comes back at its own date,
/// so that only a debt matters that swallows a whole budget, or all of it but a sliver. A debt of a PIBS server moves the date.
pub(crate) fn debt_ticks(model: &CoreModel, server: &Server) -> u64 {
    let late_ticks = model.lateness_ticks.saturating_add(server.least_charge_ticks);
    match (&server.rule, server.budget()) {
        (Rule::Pibs(pibs), _) => scale_up(late_ticks, pibs.denominator, pibs.numerator),
        (Rule::Sporadic { minimum_ticks, .. }, Some((budget_ticks, period_ticks))) => {
            let kept = late_ticks.saturating_add(minimum_ticks.saturating_sub(1));
            divide_down(kept, budget_ticks).saturating_mul(period_ticks)
        }
        (rule, Some((budget_ticks, period_ticks))) => {
            let swallowed_ticks = divide_down(late_ticks, budget_ticks).saturating_mul(period_ticks);
            // From date to date of the grid is the longest wait of a polling server anyway.
            let sooner_ticks = if matches!(rule, Rule::Polling { .. }) { 0 } else { late_ticks };
            swallowed_ticks.saturating_add(sooner_ticks)
        }
        (_, None) => 0,
    }
}

/// Longest wait for the first tick with a budget in hand.
pub(crate) fn first_tick(bounds: &ServerBounds, steps: &Steps) -> Option<u64> {
    let response = bounds.contention.as_ref()?.response(1, MAX_WINDOW_TICKS, steps)?;
    Some(response.saturating_sub(1))
}
