//! The quick tests of the literature for one core: information beside the verdict (`real-time.md` 4.1, QV-37).

use bulkhead_analysis::admission;
use bulkhead_analysis::core_model::CoreModel;
use bulkhead_analysis::ratio::Ratio;

/// What the quick tests say. Shares are in ten-thousandths of the core, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickTests {
    /// Servers with a budget, without those that work for others.
    pub servers: usize,
    /// Sum of their shares.
    pub sum: u64,
    /// Liu and Layland: the sum is at most n(2^(1/n) - 1).
    pub liu_layland: bool,
    /// n(2^(1/n) - 1).
    pub limit: u64,
    /// Hyperbolic: the product of 1 + U is at most 2.
    pub hyperbolic: bool,
    /// Left side of equation (1) of Quest-V.
    pub equation_one: u64,
    /// Equation (1) accepts.
    pub accepts_equation_one: bool,
    /// The hyperbolic form of equation (1) accepts.
    pub accepts_hyperbolic_form: bool,
    /// Where the most important server is deferrable and the only one: the test for servers below it (DS-03).
    pub below_deferrable: Option<bool>,
}

/// Runs the quick tests; `None` when no server has a budget.
#[must_use]
pub fn quick_tests(model: &CoreModel) -> Option<QuickTests> {
    let mut servers: Vec<_> = model.servers.iter().filter(|server| server.payer.is_none()).collect();
    servers.sort_by_key(|server| server.best_priority());
    let ratio = |(budget, period): (u64, u64)| Ratio::new(u128::from(budget), u128::from(period));
    let mains: Vec<Ratio> = servers
        .iter()
        .filter(|server| server.rule.pibs().is_none())
        .filter_map(|server| server.budget().map(ratio))
        .collect();
    let others: Vec<Ratio> = servers
        .iter()
        .filter_map(|server| server.rule.pibs())
        .map(|pibs| admission::io_share(pibs.numerator, pibs.denominator))
        .collect();
    if mains.is_empty() {
        return None;
    }
    let sum = admission::sum(&mains);
    let left = admission::equation_one(&mains, &others);
    let only_top = servers.iter().filter(|server| server.rule.hits_twice()).count() == 1
        && servers.first().is_some_and(|server| server.rule.hits_twice());
    Some(QuickTests {
        servers: mains.len(),
        sum: sum.in_units(10_000),
        liu_layland: admission::liu_layland(&sum, mains.len()),
        limit: admission::liu_layland_limit_in_ten_thousandths(mains.len()),
        hyperbolic: admission::hyperbolic(&mains),
        equation_one: left.in_units(10_000),
        accepts_equation_one: admission::liu_layland(&left, mains.len()),
        accepts_hyperbolic_form: admission::equation_one_hyperbolic(&mains, &others),
        below_deferrable: mains
            .split_first()
            .filter(|_| only_top && others.is_empty())
            .map(|(top, below)| admission::below_a_deferrable_server(top, below)),
    })
}
