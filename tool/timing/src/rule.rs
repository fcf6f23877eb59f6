//! From the rule of a planned server to that of the analysis.

use crate::cores::narrow;
use bulkhead_abi::schedule::{Rule as Word, ServerFlag, ServerPlan};
use bulkhead_analysis::core_model::{Client, Pibs, Rule};

/// Reads the rule of a server; `None` when nothing limits it.
pub(crate) fn read(plan: &ServerPlan) -> Option<Rule> {
    let (budget_ticks, period_ticks) = (plan.budget_ticks, plan.period_ticks);
    Some(match plan.rule()? {
        Word::Unlimited => return None,
        Word::Sporadic => Rule::Sporadic {
            budget_ticks,
            period_ticks,
            dispatch_anchor: plan.has(ServerFlag::DispatchAnchor),
            lag_clamp: plan.has(ServerFlag::LagClamp),
            chunks: plan.chunks,
            minimum_ticks: plan.minimum_ticks,
        },
        Word::Deferrable => Rule::Deferrable { budget_ticks, period_ticks },
        Word::Polling => Rule::Polling { budget_ticks, period_ticks },
        Word::Pibs => Rule::Pibs(Pibs {
            numerator: plan.share_numerator,
            denominator: plan.share_denominator,
            clients: (plan.clients().iter())
                .map(|client| Client { period_ticks: client.period_ticks, priority: narrow(client.priority) })
                .collect(),
            published: plan.has(ServerFlag::PublishedPibs),
        }),
    })
}
