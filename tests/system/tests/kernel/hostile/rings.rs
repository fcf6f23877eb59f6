//! Top halves of interrupts whose drivers are less important than who is interrupted. They are paid by the driver's server, so they are in no budget in front of who is interrupted:
//! `check` counts one for each ([`TOP_HALF`]).
//!
//! That it is one is the kernel's doing: what has rung rings again when the driver's server says so, which runs behind. A thread of the driver's component on a more important server would
//! else have an interrupt ring as often as it likes, and its own budget, which is in the bounds, would be multiplied by that of the driver, which is not.

use super::passages::passages;
use super::swarm::{MILLISECOND, Swarm, capability, image, nested};
use crate::places::{Place, run};
use crate::servers::numbers;
use bulkhead_description::kernel::{EXCHANGE, PASSAGE, TOP_HALF};
use bulkhead_kernel_abi::boot::{BindingRow, EndPointRow, ServerRow};
use bulkhead_kernel_abi::{Capability, Kind, MAX_BINDINGS, MAX_SCHEDULER_DEPTH, NONE};
use bulkhead_system_tests::ways::sporadic;
use bulkhead_words::Rule;

/// Roles of threads.
const SPINS: u64 = 2;
const RINGS: u64 = 12;
const SERVES: u64 = 13;
const LOOKS: u64 = 14;
/// The second timer of a core, CNTP.
const DEVICE: u32 = 30;
/// Shared interrupts that no device of the board has.
const NOBODYS: u32 = 100;
/// What who rings may use in each of its periods.
const BUDGET_TICKS: u64 = MILLISECOND;

/// A server without an end.
fn endless(level: u8) -> ServerRow {
    sporadic(level, 1 << 50, 1 << 51)
}

/// As many bindings as there can be, the last of which rings.
fn bindings(server: u16, clients: u64, period_ticks: u64) -> Vec<BindingRow> {
    let default_client = if clients == 0 { NONE } else { clients.ilog2() as u16 };
    let binding = |intid: u32, period_ticks: u64| BindingRow {
        intid,
        default_client,
        clients,
        server,
        bits: 1,
        period_ticks,
        ..BindingRow::default()
    };
    let silent = (NOBODYS..).take(MAX_BINDINGS - 1).map(|intid| binding(intid, 0));
    silent.chain([binding(DEVICE, period_ticks)]).collect()
}

/// What the driver's threads have.
fn slots() -> (usize, Vec<Capability>) {
    (3, vec![capability(Kind::Interrupt, MAX_BINDINGS as u16 - 1), capability(Kind::Receive, 0)])
}

/// Who rings is in front of who looks, who serves is behind.
fn ringing() -> Swarm {
    // Deferrable, because pieces of a sporadic budget that are too small to be worth a switch are given up.
    let rings = ServerRow { rule: Rule::Deferrable.number(), ..sporadic(0, BUDGET_TICKS, 10 * MILLISECOND) };
    Swarm {
        victim: Some((LOOKS, 1)),
        threads: vec![(RINGS | 100 << 16, 0), (SERVES, 2)],
        servers: vec![rings, endless(1), sporadic(2, MILLISECOND / 20, 20 * MILLISECOND)],
        end_points: vec![EndPointRow { thread: 2, tcap: NONE, component: 1, reserved: 0 }],
        bindings: bindings(2, 0, 1),
        slots: vec![slots()],
        stops: 2,
        ..Swarm::default()
    }
}

/// The driver behind who looks, on a server of a rule.
fn behind(driver: ServerRow) -> Swarm {
    let clients = driver.clients;
    let mut servers = vec![endless(0), driver];
    // Its clients, the shortest period first; its work for each is one level in front.
    servers.extend((1..=clients.count_ones()).map(|number| {
        let periods = u64::from(number) * 20;
        sporadic(2 * number as u8, MILLISECOND, periods * MILLISECOND)
    }));
    Swarm {
        victim: Some((LOOKS, 0)),
        threads: vec![(SERVES, 1)],
        servers,
        end_points: vec![EndPointRow { thread: 1, tcap: NONE, component: 1, reserved: 0 }],
        bindings: bindings(1, clients, MILLISECOND / 4),
        slots: vec![slots()],
        stops: 1,
        ..Swarm::default()
    }
}

/// The driver below as many schedulers as there can be below each other, all of which are told.
fn below() -> Swarm {
    let mut swarm = nested(true);
    let depth = MAX_SCHEDULER_DEPTH as u16;
    let driver = swarm.threads.last_mut().expect("the one that sleeps");
    driver.0 = SERVES;
    let server = driver.1;
    for row in &mut swarm.servers {
        row.budget_ticks = 15 * row.period_ticks / 20;
    }
    swarm.servers[0] = endless(0);
    swarm.end_points = vec![EndPointRow { thread: 1 + depth, tcap: NONE, component: 1, reserved: 0 }];
    swarm.slots.push(slots());
    // For the first time while somebody looks, who has waited that long for all to begin.
    Swarm { victim: Some((LOOKS, 0)), bindings: bindings(server, 0, 80 * MILLISECOND), stops: 1 + depth, ..swarm }
}

/// The driver has used up all that it has, so its interrupt is masked when it comes.
fn spent() -> Swarm {
    let swarm = behind(sporadic(1, MILLISECOND, 10_000 * MILLISECOND));
    Swarm { threads: vec![(SPINS, 1)], bindings: bindings(1, 0, 80 * MILLISECOND), ..swarm }
}

/// How long who looks was away at most.
fn away(lines: &[String]) -> u64 {
    let [away] = numbers(lines, "away: ")[..] else { panic!("{lines:?}") };
    away
}

/// QV-35, QV-22: who is between is away for as long as the budgets in front of it say.
#[test]
fn nobody_rings_on_the_time_of_somebody_else() {
    let (found, lines) = passages(&image(ringing(), 200));
    let (away, longest) = (away(&lines), found.longest);
    println!(
        "away for {away}, of which {BUDGET_TICKS} are the budget of who is in front; longest passage {longest}; {lines:?}"
    );
    assert!(away > BUDGET_TICKS / 2, "who rings did not run");
    assert!(away <= BUDGET_TICKS + PASSAGE + EXCHANGE);
}

/// QV-35: what `check` counts for an interrupt of a less important driver, with as many bindings as there can be, of which the last one rings.
#[test]
fn a_top_half_takes_what_bounds_count_for_it() {
    let pibs = ServerRow {
        rule: Rule::Pibs.number(),
        budget_ticks: 1,
        period_ticks: 2,
        clients: 0xff << 2,
        ..sporadic(1, 0, 0)
    };
    let runs = [
        ("sporadic", behind(sporadic(1, 15 * MILLISECOND, 20 * MILLISECOND))),
        ("PIBS", behind(pibs)),
        ("below schedulers", below()),
        ("nothing left", spent()),
    ];
    let mut all = Vec::new();
    for (what, swarm) in runs {
        let image = image(swarm, 200);
        for place in [Place::Board, Place::Direct, Place::Mapped] {
            let away = away(&run(&image, place));
            println!("{what}, {place:?}: away for {away}");
            all.push((what, place, away));
        }
    }
    // At least a vector and what it charges: it did ring.
    assert!(all.iter().all(|(_, _, away)| (300..=TOP_HALF).contains(away)), "{all:?}");
}
