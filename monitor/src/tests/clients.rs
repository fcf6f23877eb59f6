//! A PIBS server with two clients: it works at the priority of the most urgent one whose doorbell rang (QV-32, QV-34).

use super::shared::{Core, WFI, schedule, server};
use bulkhead_abi::schedule::*;

const FAST: u32 = 41;
/// The driver's device, which is no client's.
const DEVICE: u32 = 40;

/// Slot 0 is the driver, for a fast client above slot 1 and a slow one below it. Slot 1 is between them, slot 2
/// below all.
fn driven() -> Core {
    let client = |period_ticks, priority| ClientPlan { period_ticks, priority, reserved: 0 };
    let mut clients = [ClientPlan::default(); MAX_SERVER_CLIENTS];
    clients[..2].copy_from_slice(&[client(10_000, 1), client(1_000_000, 5)]);
    let driver = ServerPlan {
        rule: Rule::Pibs.number(),
        share_numerator: 1,
        share_denominator: 2,
        client_count: 2,
        clients,
        minimum_ticks: 10,
        ..server(0, 1)
    };
    let mut core = Core::with(schedule(&[driver, server(1, 3), server(2, 9)], 3), |slot, partition| {
        if slot == 0 {
            partition.interrupts[1].client = 1;
        }
    });
    // From boot on the driver has no request; it gets to its first sleep for the slow client, when slot 1 sleeps.
    core.interrupt(DEVICE);
    assert_eq!(core.loaded, 1);
    sleep(&mut core);
    sleep(&mut core);
    assert_eq!(core.loaded, 2);
    core.interrupt(50);
    assert_eq!(core.loaded, 1);
    core
}

/// The loaded guest ends its interrupts and sleeps.
fn sleep(core: &mut Core) {
    core.machine.list.iter().for_each(|register| register.set(0));
    core.exit(WFI);
}

#[test]
fn the_client_whose_doorbell_rang_decides() {
    let mut core = driven();
    core.interrupt(FAST);
    assert_eq!((core.loaded, core.listed()), (0, vec![FAST]), "the fast client's work is more important");
    sleep(&mut core);
    core.interrupt(DEVICE);
    assert_eq!(core.loaded, 1, "the request before is done, and what nobody rang for is the slow client's");
    core.interrupt(FAST);
    assert_eq!(core.loaded, 0, "the fast client raises what waits for the slow one");
    let mut listed = core.listed();
    listed.sort_unstable();
    assert_eq!(listed, [DEVICE, FAST]);
    sleep(&mut core);
    core.interrupt(DEVICE);
    assert_eq!(core.loaded, 1, "the priority falls again");
}

/// The fast vectors would not tell the scheduler of a doorbell that the running driver takes itself.
#[test]
fn a_doorbell_during_the_slow_clients_work_raises_it() {
    for rings in [false, true] {
        let mut core = driven();
        sleep(&mut core);
        core.interrupt(DEVICE);
        assert_eq!(core.loaded, 0, "slot 1 sleeps");
        if rings {
            core.interrupt(FAST);
        }
        core.interrupt(50);
        assert_eq!(core.loaded, usize::from(!rings), "slot 1 is between the clients");
    }
}
