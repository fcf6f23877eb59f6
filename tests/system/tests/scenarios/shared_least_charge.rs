//! Shared cores: a guest that sleeps and wakes as fast as it can, against the least charge of its server (`real-time.md` 1.5).

use crate::shared_hostile::GICR_SGI;
use bulkhead_abi::schedule::ServerUsage;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, Supply, TICKS_PER_MILLISECOND as MS, WAY_IN, finish};
use bulkhead_system_tests::wakes::{Relay, Wakes};
use bulkhead_system_tests::{Running, System};
use bulkhead_timing::propose::{self, Proposal, Shares};
use bulkhead_timing::{Assumptions, bounds};

const PERIOD: u64 = 10 * MS;
const ANCHORS: [&str; 2] = ["dispatch", "eligible"];
/// How long it sleeps each time: less than an exchange takes, so it asks for the core again as soon as others have it.
const NAP: u64 = 500;
const CNTV_CVAL_FROM_X4: u32 = 0xd51b_e344;
const CNTV_CTL_FROM_X1: u32 = 0xd51b_e321;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// From a date on until another one: sleeps, and computes for this many turns of a loop between two sleeps.
fn napper(from: u64, until: u64, turns: u64) -> Program {
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15: it reads what woke it, and needs no vectors
    program.constant(1, 0xff).word(0xd518_4601); // MSR ICC_PMR_EL1, x1
    program.constant(1, 1).word(0xd518_cce1); // MSR ICC_IGRPEN1_EL1, x1
    program.constant(0, GICR_SGI + 0x100).constant(1, 1 << 27).store32(1, 0, 0); // GICR_ISENABLER0
    program.constant(6, until).constant(4, from);
    let again = program.here();
    program.word(CNTV_CVAL_FROM_X4).constant(1, 1).word(CNTV_CTL_FROM_X1);
    program.wait().constant(1, 0).word(CNTV_CTL_FROM_X1);
    program.word(0xd538_cc01).word(0xd518_cc21); // MRS x1, ICC_IAR1_EL1; MSR ICC_EOIR1_EL1, x1
    program.constant(5, turns);
    let turn = program.here();
    program.subtract(5, 5, 1).branch_not_zero(5, turn);
    program.counter(4).add(4, 4, NAP as u32).compare(4, 6).branch_below(again);
    program.constant(0, SYSTEM_OFF).call();
    program
}

fn servers(priority: u32, budget_ms: u64, anchor: &str, more: &str) -> String {
    format!(
        "servers = [ {{ priority = {priority}, rule = \"sporadic\", budget = \"{budget_ms} ms\", period = \"10 ms\", \
         anchor = \"{anchor}\"{more} }} ]"
    )
}

fn usage(running: &Running, partition: &str) -> ServerUsage {
    running.final_usage(0).servers[running.server(0, partition, 0)]
}

/// Dates of the victim and its work at each.
const DATES: u64 = 100;
const WORK: u64 = MS;
const FIRST: u64 = 100 * MS;

/// A guest with work at each of its dates; above it one that naps all the time, or only after everything is over.
fn worker(anchor: &str, is_attacked: bool) -> ServerUsage {
    let end = FIRST + DATES * PERIOD;
    let from = if is_attacked { FIRST / 2 } else { end };
    let description = Description::unjudged("least-charge").schedule(0, BY_PRIORITY);
    let victim = Relay::by_timer(FIRST, PERIOD, DATES).with("work", WORK);
    let description = description.relay("victim", &victim, &servers(5, 4, anchor, ", least_charge = \"500 us\""));
    let description = description.program("napper", 0, "napper", &servers(1, 8, anchor, ""));
    let running = finish(&description.build_with(&[("napper", &napper(from, end + MS, 1))]));
    Wakes::of(&running, "victim").assert_dates("victim", FIRST, PERIOD, DATES);
    usage(&running, "victim")
}

/// QV-28, QV-39: a guest that is pre-empted ten thousand times is charged for its work, the least charge of each
/// wake-up at most once, and its part of each exchange: pre-emptions cost it no least charge.
#[test]
fn pre_emptions_take_no_least_charge_of_their_victim() {
    for anchor in ANCHORS {
        let [alone, attacked] = [false, true].map(|is_attacked| worker(anchor, is_attacked));
        let pre_emptions = attacked.starts - alone.starts;
        let more = attacked.budgeted_ticks - alone.budgeted_ticks;
        println!("{anchor}: {pre_emptions} pre-emptions cost {more} of {} ticks", alone.budgeted_ticks);
        assert!(pre_emptions >= 10_000, "{pre_emptions} pre-emptions");
        assert!(more <= pre_emptions * WAY_IN, "{more} ticks for {pre_emptions} pre-emptions");
        assert!(alone.budgeted_ticks <= DATES * (WORK + MS / 2) + 4 * MS, "{} ticks", alone.budgeted_ticks);
        assert_eq!(attacked.exhaustions, alone.exhaustions, "its budget is never used up");
    }
}

/// One judged system in which a guest naps as fast as it can and a victim computes.
struct Pair {
    victim: &'static str,
    napper_priority: u32,
    budget_ms: u64,
}

impl Pair {
    fn build(&self, anchor: &str, more: &str, turns: u64) -> System {
        let victim = match self.victim {
            "" => servers(5, self.budget_ms, anchor, more),
            unlimited => unlimited.to_owned(),
        };
        let hog = "role=hog start_us=100000 end_us=900000";
        let description = Description::new("least-charge").schedule(0, BY_PRIORITY);
        let description = description.guest("victim", 0, "experiment", hog, &victim);
        let server = servers(self.napper_priority, self.budget_ms, anchor, more);
        description.program("napper", 0, "napper", &server).build_with(&[("napper", &napper(50 * MS, 950 * MS, turns))])
    }
}

fn judged(system: &System) -> (Vec<Shares>, Option<Proposal>) {
    let assumptions = Assumptions::default();
    let bounds = bounds(&system.model, &assumptions);
    let (core, steps) = (&bounds.cores[0], propose::allowance());
    (propose::shares(&system.model, core, &steps), propose::proposal(&system.model, core, &steps))
}

/// The window that is measured: the shares of the long run show in many periods.
const WINDOW: u64 = 40 * PERIOD;

/// Runs a pair; returns what the victim had in the worst window, and how often the other one was started.
fn run(system: &System) -> (u64, u64) {
    let running = finish(system);
    (Supply::of(&running, "victim").least_in(WINDOW), usage(&running, "napper").starts)
}

/// Turns of two instructions between two naps: none, less and more than a least charge, and the whole time.
const TURNS: [u64; 4] = [1, 3_000, 40_000, 100_000_000];

/// The pair without a least charge, and with the one that `check` proposes, which it promises to be enough.
fn hold(pair: &Pair) {
    for anchor in ANCHORS {
        let (_, proposal) = judged(&pair.build(anchor, "", 1));
        let proposal = proposal.expect("something is proposed");
        let chunks = proposal.chunks.map_or_else(String::new, |chunks| format!(", chunks = {chunks}"));
        let more = format!(", least_charge = \"{} us\"{chunks}", proposal.least_charge_ns / 1_000);
        let (shares, none) = judged(&pair.build(anchor, &more, 1));
        assert_eq!(none, None, "nothing is left to propose");
        let share = shares.iter().find(|share| share.slot == 0).expect("the victim is promised something");
        let promised = share.executed_ppm;
        let all = TURNS.map(|turns| run(&pair.build(anchor, &more, turns)));
        let worst = all.iter().map(|(supply, _)| *supply).min().expect("there are some");
        let measured = worst * 1_000_000 / WINDOW;
        let [(_, attacks), (_, starts)] = [run(&pair.build(anchor, "", 1)), all[0]];
        println!(
            "{anchor}{more}: promised {promised} ppm, measured {measured}; {attacks} starts without, {starts} with it"
        );
        // The share is one of the long run: a window may begin at the worst moment of a period.
        assert!(worst + PERIOD >= promised * WINDOW / 1_000_000, "{anchor}: {measured} of {promised} ppm");
        assert!(anchor == "dispatch" || promised * 10 >= measured * 7, "{anchor}: {promised} of {measured} ppm");
        assert!(attacks > 10_000 && starts * 10 < attacks, "{attacks} starts without, {starts} with it");
    }
}

/// QV-39, SG-48: below a guest of 8 ms in 10 ms.
#[test]
fn a_guest_below_a_large_budget_has_what_it_is_promised() {
    hold(&Pair { victim: "servers = [ { priority = 9 } ]", napper_priority: 1, budget_ms: 8 });
}

/// QV-39, SG-48: two equals of 4 ms in 10 ms.
#[test]
fn an_equal_has_what_it_is_promised() {
    hold(&Pair { victim: "", napper_priority: 5, budget_ms: 4 });
}
