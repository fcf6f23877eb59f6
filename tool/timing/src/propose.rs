//! Least charges that keep what guests execute near what they are charged.
//!
//! An untrusted guest may sleep and wake as fast as its budget allows, and each time takes the core from somebody less important; and
//! its budget may come back in as many pieces as it has chunks. Where a vCPU is promised less than nine tenths of its charged
//! supply, a few values are tried for all untrusted servers of the core, the mildest first, and the first one that is enough is proposed.
//! What is proposed was analysed before it is shown. Nothing is refused for its absence.

use crate::bounds::{CoreTiming, long_run_ppm};
use crate::clock::Clock;
use crate::cores::{SharedCore, SharedModel};
use bulkhead_analysis::core_bounds::{self, CoreBounds};
use bulkhead_analysis::core_model::{CoreModel, Gate, Server};
use bulkhead_analysis::steps::{STEPS_OF_ADVICE, Steps};
use bulkhead_analysis::supply::Supply;
use bulkhead_plan::model::{ServerReference, System};

/// Chunks and least charges in microseconds that are tried, the mildest first; 16 chunks keep what is described.
const TRIED: [(u32, u64); 9] =
    [(16, 200), (4, 200), (4, 500), (3, 200), (3, 500), (2, 200), (2, 500), (2, 1_000), (2, 2_000)];
/// Steps for each share, of those for advice.
const STEPS_OF_A_SHARE: u64 = 500_000;

/// The allowance for the shares and the proposals of all cores of a system together.
#[must_use]
pub const fn allowance() -> Steps {
    Steps::new(STEPS_OF_ADVICE, STEPS_OF_A_SHARE)
}

/// What a vCPU is promised in the long run, in millionths of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Slot of the vCPU.
    pub slot: usize,
    /// What its servers are charged at least.
    pub charged_ppm: u64,
    /// What its guest executes of that at least.
    pub executed_ppm: u64,
    /// What the anchor `dispatch` takes of its budgets: time comes back a period after the guest ran, and later where it had to wait.
    pub anchor_ppm: u64,
}

impl Shares {
    /// States whether at least nine tenths of what is charged are executed.
    #[must_use]
    pub const fn is_near(&self) -> bool {
        self.executed_ppm.saturating_mul(10) >= self.charged_ppm.saturating_mul(9)
    }
}

/// Values for the untrusted servers of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The servers.
    pub servers: Vec<ServerReference>,
    /// `least_charge` of each, at most a quarter of its budget.
    pub least_charge_ns: u64,
    /// `chunks` of each at most; `None` leaves them.
    pub chunks: Option<u32>,
    /// What every vCPU is promised then.
    pub shares: Vec<Shares>,
}

/// What the vCPUs of a core are promised. Trusted guests that name their tasks are judged by those and are not among them.
#[must_use]
pub fn shares(system: &System, core: &CoreTiming, steps: &Steps) -> Vec<Shares> {
    match (&core.core.model, &core.ticks) {
        (SharedModel::Servers(model), Some(bounds)) => judged(system, &core.core, of_bounds(model, bounds, steps)),
        _ => Vec::new(),
    }
}

/// Values with which every vCPU executes nine tenths of what it is charged; `None` when that is so without, or none was found.
#[must_use]
pub fn proposal(system: &System, core: &CoreTiming, steps: &Steps) -> Option<Proposal> {
    let SharedModel::Servers(model) = &core.core.model else { return None };
    let before = judged(system, &core.core, of_bounds(model, core.ticks.as_ref()?, steps));
    let untrusted = untrusted(system, &core.core, model);
    if before.iter().all(Shares::is_near) || untrusted.is_empty() {
        return None;
    }
    let clock = Clock::new(system.board.counter_hz);
    TRIED.iter().find_map(|(chunks, microseconds)| {
        let least_charge_ns = microseconds * 1_000;
        let mut changed = model.clone();
        for number in &untrusted {
            apply(changed.servers.get_mut(*number)?, *chunks, clock.ticks_up(least_charge_ns));
        }
        let bounds = CoreBounds::of(&changed, steps);
        let shares = judged(system, &core.core, of_bounds(&changed, &bounds, steps));
        let servers = untrusted.iter().filter_map(|number| core.core.servers.get(*number).copied()).collect();
        let promised = |shares: &[Shares]| shares.iter().filter(|one| one.charged_ppm > 0).count();
        let good = bounds.is_accepted() && shares.iter().all(Shares::is_near) && promised(&shares) >= promised(&before);
        let chunks = Some(*chunks).filter(|chunks| *chunks < 16);
        good.then_some(Proposal { servers, least_charge_ns, chunks, shares })
    })
}

/// The servers of untrusted partitions that have a budget of their own.
fn untrusted(system: &System, core: &SharedCore, model: &CoreModel) -> Vec<usize> {
    let is_one = |(number, server): &(usize, &Server)| {
        let reference = core.servers.get(*number);
        let partition = reference.and_then(|reference| system.partitions.get(reference.partition));
        let budgeted = server.budget().is_some() && server.rule.pibs().is_none();
        budgeted && server.payer.is_none() && partition.is_some_and(|partition| !partition.trusted)
    };
    model.servers.iter().enumerate().filter(is_one).map(|(number, _)| number).collect()
}

fn judged(system: &System, core: &SharedCore, mut shares: Vec<Shares>) -> Vec<Shares> {
    shares.retain(|one| {
        let vcpu = core.core_use.vcpus.get(one.slot);
        let partition = vcpu.and_then(|vcpu| system.partitions.get(vcpu.partition));
        partition.is_none_or(|partition| !partition.trusted || partition.tasks.is_empty())
    });
    shares
}

fn apply(server: &mut Server, most_chunks: u32, least_ticks: u64) {
    let quarter = server.budget().map_or(0, |(budget_ticks, _)| budget_ticks / 4);
    let least_ticks = least_ticks.min(quarter);
    server.least_charge_ticks = server.least_charge_ticks.max(least_ticks);
    server.rule.limit_chunks(most_chunks, least_ticks);
}

fn of_bounds(model: &CoreModel, bounds: &CoreBounds, steps: &Steps) -> Vec<Shares> {
    let each = bounds.vcpus.iter().map(|vcpu| {
        let charged = match &vcpu.supply {
            Supply::Net { charged, .. } => charged,
            supply => supply,
        };
        let ppm = |supply: &Supply| steps.bound(|steps| long_run_ppm(supply, steps)).0;
        let servers = model.servers.iter().zip(&bounds.servers).filter(|(server, _)| server.vcpu == vcpu.vcpu);
        let taken = servers.filter(|(server, _)| is_anchored(server)).map(|(server, bounds)| {
            let certain = core_bounds::certain(server).map_or(0, |(budget, period)| share_ppm(budget, period));
            certain.saturating_sub(ppm(&bounds.supply))
        });
        Shares { slot: vcpu.vcpu, charged_ppm: ppm(charged), executed_ppm: ppm(&vcpu.supply), anchor_ppm: taken.sum() }
    });
    each.collect()
}

fn is_anchored(server: &Server) -> bool {
    server.rule.chunks().is_some() && server.rule.is_dated_by_its_use() && server.gate == Gate::Always
}

fn share_ppm(amount: u64, of: u64) -> u64 {
    let millionths = u128::from(amount).saturating_mul(1_000_000).checked_div(u128::from(of)).unwrap_or(0);
    u64::try_from(millionths).unwrap_or(u64::MAX)
}
