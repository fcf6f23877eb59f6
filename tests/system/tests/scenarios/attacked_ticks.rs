//! Every attack of the list, beside victims that live by a 1 kHz interrupt alone and by interrupts that wake each other: each
//! tick and each chain is checked against the bound that `check` computes for that system (A12 of docs/base-findings.md).

use bulkhead_soak::{ARRANGEMENTS, Arrangement, Attack, Promise, Seen, Siege, watch};
use bulkhead_system_tests::Running;
use bulkhead_system_tests::sharing::field;

fn arrangement(name: &str) -> &'static Arrangement {
    ARRANGEMENTS.iter().find(|arrangement| arrangement.name == name).expect("there is such an arrangement")
}

fn survive(arrangement: &Arrangement, attack: Attack) -> Seen {
    let siege =
        Siege::prepare(arrangement, attack, None).unwrap_or_else(|error| panic!("{}: {error}", arrangement.name));
    let mut running = Running::start(siege.options().unwrap_or_else(|error| panic!("{error}")));
    let seen = watch(&mut running, &siege).unwrap_or_else(|failure| panic!("{failure}"));
    let [tick, wake, _] = seen.victims;
    let [tick_bounds, wake_bounds] = siege.bounds;
    println!(
        "{}: {} ticks, latest {} of {}; {} chains, longest {} of {}; {} restarts, {} steps",
        arrangement.name,
        tick.ticks,
        tick.latest,
        tick_bounds.tick,
        wake.ended,
        wake.longest,
        wake_bounds.chain,
        seen.restarts,
        seen.steps
    );
    if arrangement.promise != Promise::Counts {
        assert!(tick_bounds.tick != 0 && wake_bounds.tick != 0 && wake_bounds.chain != 0, "there are bounds");
        assert!(
            tick.latest <= tick_bounds.tick && wake.latest <= wake_bounds.tick && wake.longest <= wake_bounds.chain
        );
    }
    seen
}

/// Attacks of the list that are not tried here, by name: there is no PCI bus, and CPU_OFF ends the run, as SYSTEM_OFF does after the
/// last look.
const SKIPPED: [&str; 4] = [
    "PCI: write all configuration space",
    "PCI: odd widths in configuration space",
    "PCI: write all registers of all functions",
    "PSCI: CPU_OFF of the last core",
];
/// Attacks of the list that are tried here.
const TRIED: u64 = 173;

/// QV-5, QV-8, SG-48: beside every attack, restarts included, each tick and each chain is in time.
fn beside_every_attack(name: &str) {
    let seen = survive(arrangement(name), Attack::List);
    assert_eq!((field(&seen.done, "unexpected"), field(&seen.done, "escaped")), (0, 0), "{}", seen.done);
    assert_eq!(seen.skipped, SKIPPED);
    assert_eq!((field(&seen.done, "tried"), field(&seen.done, "contained")), (TRIED, TRIED), "{}", seen.done);
    assert!(seen.restarts > 40, "{} restarts", seen.restarts);
}

/// The attacker is less important and has no limit.
#[test]
fn every_tick_above_every_attack_is_in_time() {
    beside_every_attack("below");
}

/// The attacker has a budget above its victims.
#[test]
fn every_tick_below_every_attack_is_in_time() {
    beside_every_attack("above-sporadic");
}

/// The attacker runs above its victims when an interrupt waits for it.
#[test]
fn every_tick_beside_attacks_behind_a_gate_is_in_time() {
    beside_every_attack("gate-returns");
}

/// Everybody in turn.
#[test]
fn every_tick_in_turn_with_every_attack_is_in_time() {
    beside_every_attack("turns");
}

/// Seeds of each arrangement that every run of the tests tries.
const SEEDS: u64 = 20;

/// QV-5, QV-8: random steps of every kind, restarts included; each arrangement's seeds share a boot.
fn beside_random_steps(place: usize) {
    let attack = Attack::Seeds { first: place as u64, count: SEEDS };
    let seen = survive(&ARRANGEMENTS[place], attack);
    assert!(seen.restarts >= SEEDS && seen.steps > 20 * SEEDS, "{} restarts, {} steps", seen.restarts, seen.steps);
    // An attacker that does not reach what it was given attacks less than these tests say.
    println!(
        "{} times an own shared interrupt held, {} doorbells, {} accesses to the UART, {} to the device",
        seen.held, seen.received, seen.uart, seen.device
    );
    assert!(seen.held >= SEEDS, "an own shared interrupt was pending or active {} times", seen.held);
    // Most come while it has them disabled, or waits to be restarted.
    assert!(seen.received > 0, "no doorbell came");
    let extras = ARRANGEMENTS[place].extras;
    assert_eq!(
        (seen.uart >= SEEDS, seen.uart_answered > seen.uart),
        (extras.has_uart, extras.has_uart),
        "{}",
        seen.uart
    );
    let [configuration, registers] = seen.pci;
    let is_pci_attacked = configuration >= SEEDS && registers >= SEEDS;
    assert_eq!(is_pci_attacked, extras.has_pci, "{configuration} to PCI configuration space, {registers} to registers");
    assert_eq!(seen.device >= SEEDS, extras.device.is_some(), "{} accesses to the device", seen.device);
}

/// On a shared core and on own ones there are attackers with a virtual UART and with a device; none is without a doorbell.
#[test]
fn attackers_have_what_there_is_to_attack() {
    for shares in [true, false] {
        let count = |has: fn(&Arrangement) -> bool| {
            ARRANGEMENTS.iter().filter(|one| (one.own_cores == 0) == shares && has(one)).count()
        };
        let [uarts, devices] = [count(|one| one.extras.has_uart), count(|one| one.extras.device.is_some())];
        assert!(ARRANGEMENTS.iter().any(|one| one.extras.has_pci), "a PCI bus");
        assert!(uarts >= 2 && devices >= 2, "{uarts} virtual UARTs and {devices} devices");
    }
}

macro_rules! random_steps {
    ($($name:ident $place:literal)+) => {$(
        #[test]
        fn $name() {
            beside_random_steps($place);
        }
    )+

        /// Every arrangement has its test.
        #[test]
        fn every_arrangement_is_tried() {
            assert_eq!([$($place),+].len(), ARRANGEMENTS.len());
            assert!(ARRANGEMENTS.len() as u64 * SEEDS >= 300);
        }
    };
}

random_steps! {
    random_steps_below 0
    random_steps_below_with_a_budget 1
    random_steps_above_by_a_sporadic_budget 2
    random_steps_above_and_in_the_background 3
    random_steps_above_by_a_deferrable_budget 4
    random_steps_above_by_a_polling_budget 5
    random_steps_behind_a_gate 6
    random_steps_behind_a_gate_that_returns 7
    random_steps_by_a_share 8
    random_steps_beside_a_victim_that_computes 9
    random_steps_in_a_time_table 10
    random_steps_in_turn 11
    random_steps_in_turns_that_are_recycled 12
    random_steps_on_two_other_cores 13
    random_steps_on_three_other_cores 14
    random_steps_on_four_other_cores 15
}
