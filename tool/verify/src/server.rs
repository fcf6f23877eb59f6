//! Servers of a shared core: every claim on its time is well formed and, where a guest could keep it open, bounded.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::Core;
use crate::schedule::{MOST_TICKS, PRIORITIES};
use bulkhead_abi::schedule::{
    ClientPlan, Gate, MAX_SERVER_CLIENTS, NO_SERVER, OnEmpty, Rule, ScheduleKind, SchedulePlan, ServerFlag, ServerPlan,
};

/// Most servers of one vCPU (`core/sched`).
const MOST_OF_A_VCPU: usize = 4;
/// Most chunks of a sporadic server (`core/sched`).
const MOST_CHUNKS: u32 = 16;

/// Checks the servers of a core.
pub(crate) fn check(core: &Core, plan: &SchedulePlan, findings: &mut Findings) {
    let servers = plan.servers();
    check_counts(core, plan, servers, findings);
    let mut best = 0;
    for (number, server) in servers.iter().enumerate() {
        let ordered = server.priority >= best && server.priority < PRIORITIES;
        findings.require(ordered && server.slot < plan.slot_count, Code::Server, || {
            format!(
                "core {}: server {number} has priority {} and slot {}: it is out of order or out of range",
                core.index, server.priority, server.slot
            )
        });
        best = best.max(server.priority);
        findings.require(rule(server), Code::Server, || {
            format!("core {}: server {number} has rule {} with words that it does not have", core.index, server.rule)
        });
        findings.require(gate(plan, server), Code::Server, || {
            format!("core {}: server {number} has gate {} with other windows or flags", core.index, server.gate)
        });
        findings.require(on_empty(server), Code::Server, || {
            format!(
                "core {}: server {number} goes to background priority {} from {}",
                core.index, server.background_priority, server.priority
            )
        });
        check_payer(core, number, server, servers, findings);
    }
}

fn check_counts(core: &Core, plan: &SchedulePlan, servers: &[ServerPlan], findings: &mut Findings) {
    for slot in 0..plan.slot_count {
        let count = servers.iter().filter(|server| server.slot == slot).count();
        let good = match plan.kind() {
            Some(ScheduleKind::RoundRobin) => count == 0,
            _ => (1..=MOST_OF_A_VCPU).contains(&count),
        };
        findings.require(good, Code::Server, || {
            format!("core {}: slot {slot} has {count} servers under a schedule of kind {}", core.index, plan.kind)
        });
    }
}

/// States whether budget, period and the words of a rule fit each other.
fn rule(server: &ServerPlan) -> bool {
    let budget =
        server.budget_ticks > 0 && server.budget_ticks <= server.period_ticks && server.period_ticks <= MOST_TICKS;
    let no_budget = server.budget_ticks == 0 && server.period_ticks == 0;
    let no_chunks = server.chunks == 0;
    let no_minimum = server.minimum_ticks == 0;
    let no_clients = server.client_count == 0
        && server.share_numerator == 0
        && server.share_denominator == 0
        && server.clients.iter().all(|client| *client == ClientPlan::default());
    let minimum = (1..=server.budget_ticks).contains(&server.minimum_ticks);
    // More than there is when it is chosen for the first time would be owed even by a guest that does nothing.
    let least_charge = match server.rule() {
        _ if server.payer != NO_SERVER => server.least_charge_ticks == 0,
        Some(Rule::Sporadic | Rule::Pibs) => server.least_charge_ticks <= server.minimum_ticks,
        _ => server.least_charge_ticks <= server.budget_ticks,
    };
    if !least_charge {
        return false;
    }
    match server.rule() {
        Some(Rule::Unlimited) => no_budget && no_chunks && no_minimum && no_clients,
        Some(Rule::Sporadic) => budget && minimum && no_clients && (2..=MOST_CHUNKS).contains(&server.chunks),
        Some(Rule::Deferrable | Rule::Polling) => budget && no_chunks && no_minimum && no_clients,
        Some(Rule::Pibs) => {
            let count = (1..=MAX_SERVER_CLIENTS).contains(&(server.client_count as usize));
            let unused = server.clients.iter().skip(server.client_count as usize);
            let empty = unused.into_iter().all(|client| *client == ClientPlan::default());
            count && empty && no_budget && no_chunks && pibs(server, server.clients())
        }
        None => false,
    }
}

/// A share below one, clients by period with priorities in the same order, and a grant that is worth a switch.
fn pibs(server: &ServerPlan, clients: &[ClientPlan]) -> bool {
    let (numerator, denominator) = (server.share_numerator, server.share_denominator);
    let share = 0 < numerator && numerator < denominator && denominator <= u64::from(u32::MAX);
    let sorted =
        clients.is_sorted_by(|one, next| one.period_ticks < next.period_ticks && one.priority <= next.priority);
    let known = clients.iter().all(|client| {
        (1..=MOST_TICKS).contains(&client.period_ticks) && client.priority < PRIORITIES && client.reserved == 0
    });
    let shortest = clients.first().map_or(0, |client| client.period_ticks);
    let grant = u128::from(shortest) * u128::from(numerator) / u128::from(denominator.max(1));
    let minimum = server.minimum_ticks > 0 && u128::from(server.minimum_ticks) <= grant;
    let leads = clients.first().is_some_and(|client| client.priority == server.priority);
    share && sorted && known && minimum && leads
}

/// A window gate opens with the windows of its own slot and exists under a time table alone.
fn gate(plan: &SchedulePlan, server: &ServerPlan) -> bool {
    let flags = match server.rule() {
        Some(Rule::Sporadic) => ServerFlag::DispatchAnchor.number() | ServerFlag::LagClamp.number(),
        Some(Rule::Pibs) => ServerFlag::PublishedPibs.number(),
        _ => 0,
    };
    let flags = flags | ServerFlag::VoluntaryReturn.bits_if(server.gate() == Some(Gate::Interrupt));
    let windows = match server.gate() {
        Some(Gate::Always | Gate::Interrupt | Gate::Never) => server.windows == 0,
        Some(Gate::Window) => {
            plan.kind() == Some(ScheduleKind::Cyclic)
                && 1_u64.checked_shl(server.slot).is_some_and(|bit| bit == server.windows)
        }
        None => false,
    };
    windows && server.flags & !flags == 0
}

/// A background priority is less important than every priority that the server has with budget.
fn on_empty(server: &ServerPlan) -> bool {
    let clients = server.clients().iter();
    let lowest = clients.map(|client| client.priority).max().unwrap_or(server.priority);
    match server.on_empty() {
        Some(OnEmpty::Stop | OnEmpty::Notify) => server.background_priority == 0,
        Some(OnEmpty::Background) => server.background_priority > lowest && server.background_priority < PRIORITIES,
        None => false,
    }
}

/// A server that pays for another has no payer itself and is no PIBS server; the payer of a server behind an interrupt
/// gate has a budget.
fn check_payer(core: &Core, number: usize, server: &ServerPlan, servers: &[ServerPlan], findings: &mut Findings) {
    let payer = match server.payer {
        NO_SERVER => Some(server),
        donor => servers
            .get(donor as usize)
            .filter(|payer| donor as usize != number && payer.payer == NO_SERVER && payer.rule() != Some(Rule::Pibs)),
    };
    let Some(payer) = payer else {
        findings.add(
            Code::Payer,
            format!("core {}: server {number} is paid for by {}, who cannot pay", core.index, server.payer),
        );
        return;
    };
    findings.require(
        server.gate() != Some(Gate::Interrupt) || payer.rule() != Some(Rule::Unlimited),
        Code::OpenGate,
        || format!("core {}: server {number} is behind an interrupt gate and nothing bounds it", core.index),
    );
}
