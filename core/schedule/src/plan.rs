//! From the host's plan of a shared core to its policy: one translation for the monitor, the simulator and the analysis.
//!
//! The plan was checked by the host; what contradicts itself here comes from a tool that does not belong to this code, so
//! one error says all there is to say.

use bulkhead_abi::schedule::{
    Gate as GateWord, MAX_CORE_WINDOWS, MAX_SERVER_CLIENTS, NO_SERVER, OnEmpty as OnEmptyWord, Ring, Rule,
    ScheduleKind, SchedulePlan, ServerFlag, ServerPlan,
};
use bulkhead_sched::budget::{
    Anchor, Budget, Client, Deferrable, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_sched::cyclic::{CyclicTable, Window};
use bulkhead_sched::dispatch::Core;
use bulkhead_sched::quantum::{QuantumRing, RingParameters};
use bulkhead_sched::server::{Gate, OnEmpty, Payer, Server};

/// The plan contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPlan;

fn small(value: u32) -> Result<u8, BadPlan> {
    u8::try_from(value).map_err(|_| BadPlan)
}

fn budget(plan: &ServerPlan, start_ticks: u64) -> Result<Budget, BadPlan> {
    let (budget_ticks, period_ticks) = (plan.budget_ticks, plan.period_ticks);
    let made = match plan.rule().ok_or(BadPlan)? {
        Rule::Unlimited => Ok(Budget::Unlimited),
        Rule::Sporadic => Sporadic::new(
            SporadicParameters {
                budget_ticks,
                period_ticks,
                smallest_chunk_ticks: plan.minimum_ticks,
                chunks: small(plan.chunks)?,
                anchor: if plan.has(ServerFlag::DispatchAnchor) { Anchor::Dispatch } else { Anchor::Eligible },
                lag_clamp: plan.has(ServerFlag::LagClamp),
            },
            start_ticks,
        )
        .map(Budget::Sporadic),
        Rule::Deferrable => Deferrable::new(budget_ticks, period_ticks, start_ticks).map(Budget::Deferrable),
        Rule::Polling => Polling::new(budget_ticks, period_ticks, start_ticks).map(Budget::Polling),
        Rule::Pibs => return pibs(plan, start_ticks),
    };
    made.map_err(|_| BadPlan)
}

fn pibs(plan: &ServerPlan, start_ticks: u64) -> Result<Budget, BadPlan> {
    let mut clients = [Client::default(); MAX_SERVER_CLIENTS];
    for (client, planned) in clients.iter_mut().zip(&plan.clients) {
        *client = Client { period_ticks: planned.period_ticks, priority: small(planned.priority)? };
    }
    let clients = clients.get(..plan.client_count as usize).ok_or(BadPlan)?;
    let share = Share {
        numerator: u32::try_from(plan.share_numerator).map_err(|_| BadPlan)?,
        denominator: u32::try_from(plan.share_denominator).map_err(|_| BadPlan)?,
    };
    let rule = if plan.has(ServerFlag::PublishedPibs) { PibsRule::Published } else { PibsRule::Corrected };
    Pibs::new(share, rule, clients, plan.minimum_ticks, start_ticks).map(Budget::Pibs).map_err(|_| BadPlan)
}

/// Makes one server. Any interrupt source opens an interrupt gate: [`Core::set_pending`] with a bit of 1.
///
/// # Errors
///
/// When the plan contradicts itself.
pub fn server(plan: &ServerPlan, start_ticks: u64) -> Result<Server, BadPlan> {
    let gate = match plan.gate().ok_or(BadPlan)? {
        GateWord::Always => Gate::Always,
        GateWord::Interrupt => Gate::InterruptPending(1),
        GateWord::Window => Gate::Window(plan.windows),
        GateWord::Never => Gate::Never,
    };
    let on_empty = match plan.on_empty().ok_or(BadPlan)? {
        OnEmptyWord::Background => OnEmpty::Background(small(plan.background_priority)?),
        OnEmptyWord::Notify => OnEmpty::Notify,
        OnEmptyWord::Stop => OnEmpty::Stop,
    };
    let mut server = Server::new(small(plan.priority)?, budget(plan, start_ticks)?).gated(gate).on_empty(on_empty);
    server.least_charge_ticks = plan.least_charge_ticks;
    if plan.payer != NO_SERVER {
        server.payer = Payer::Donor(small(plan.payer)?);
    }
    Ok(server)
}

/// Gives an empty core ([`Core::empty`]) the servers, quanta and table of a plan.
///
/// # Errors
///
/// When the plan contradicts itself. The core is not to be used then.
pub fn configure<const SERVERS: usize, const VCPUS: usize>(
    core: &mut Core<SERVERS, VCPUS>,
    plan: &SchedulePlan,
    start_ticks: u64,
) -> Result<(), BadPlan> {
    let mut bad = false;
    let planned = plan.servers().iter();
    let servers = planned.map_while(|planned| {
        let made = server(planned, start_ticks).and_then(|made| Ok((small(planned.slot)?, made)));
        bad |= made.is_err();
        made.ok()
    });
    core.configure(start_ticks, servers).map_err(|_| BadPlan)?;
    for quantum in plan.quanta() {
        bad |= !core.set_quantum(small(quantum.priority)?, quantum.quantum_ticks);
    }
    if bad {
        return Err(BadPlan);
    }
    if plan.kind() == Some(ScheduleKind::Cyclic) {
        core.set_table(start_ticks, table(plan, start_ticks)?);
    }
    Ok(())
}

fn table(plan: &SchedulePlan, start_ticks: u64) -> Result<CyclicTable, BadPlan> {
    let mut windows = [Window::default(); MAX_CORE_WINDOWS];
    let used = windows.get_mut(..plan.window_count as usize).ok_or(BadPlan)?;
    for (window, planned) in used.iter_mut().zip(&plan.windows) {
        *window = Window {
            offset_ticks: planned.offset_ticks,
            length_ticks: planned.length_ticks,
            name: small(planned.name)?,
        };
    }
    CyclicTable::new(start_ticks, plan.major_ticks, used).map_err(|_| BadPlan)
}

/// Makes the ring of a round-robin core. Its guests are the slots of the plan.
///
/// # Errors
///
/// When the plan contradicts itself.
pub fn ring(plan: &SchedulePlan, start_ticks: u64) -> Result<QuantumRing, BadPlan> {
    let slots = (0u32..).zip(plan.slots());
    let preemptible =
        slots.filter(|(_, slot)| slot.preemptible != 0).fold(0, |set, (number, _)| set | 1u32.wrapping_shl(number));
    let parameters = RingParameters {
        guests: small(plan.slot_count)?,
        quantum_ticks: plan.quantum_ticks,
        on_interrupt: plan.on_interrupt().ok_or(BadPlan)?,
        reading: plan.reading().ok_or(BadPlan)?,
        ring_moves: plan.ring().ok_or(BadPlan)? == Ring::Moves,
        preemptible,
    };
    QuantumRing::new(start_ticks, parameters).ok_or(BadPlan)
}
