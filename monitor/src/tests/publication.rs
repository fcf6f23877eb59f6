//! When the host is told what a core has used: not when that would keep a handler waiting (SP-14, QV-41).

use super::shared::{Core, WFI, schedule, server};
use super::*;
use crate::interrupts::HYPERVISOR_TIMER;
use bulkhead_abi::schedule::{PUBLICATION_TICKS, UsagePage};

/// Sooner than a publication and an exchange are over.
const SOON: u64 = 1_000;
/// Late enough for both.
const LATER: u64 = 50_000;

/// The date of the usage page.
fn published(core: &mut Core) -> u64 {
    let page = core.own().core.scheduler.as_deref().expect("the loaded vCPU has the scheduler").plan.usage;
    core.machine.load64(PhysicalAddress(page.0 + offset_of!(UsagePage, time_ticks) as u64))
}

/// The more important guest, which is loaded, sleeps until its own timer wakes it; returns whether the page was written meanwhile.
fn sleeps(core: &mut Core, ticks: u64) -> bool {
    assert_eq!(core.loaded, 0);
    let (before, begin) = (published(core), core.machine.now.get());
    core.set_timer(begin + ticks, 1);
    core.exit(WFI);
    let now = published(core);
    assert!(now == before || now >= begin);
    if core.loaded == 1 {
        core.pass((begin + ticks).saturating_sub(core.machine.now.get()));
        core.interrupt(HYPERVISOR_TIMER);
    }
    assert_eq!(core.loaded, 0, "its date wakes it");
    core.set_timer(0, 0);
    core.machine.list.iter().for_each(|slot| slot.set(0));
    now != before
}

#[test]
fn a_switch_publishes_only_when_nobody_wakes_soon() {
    let mut core = Core::new(schedule(&[server(0, 1), server(1, 5)], 2));
    core.pass(2 * PUBLICATION_TICKS);
    assert!(!sleeps(&mut core, SOON), "its handler would wait");
    assert!(sleeps(&mut core, LATER));
    assert!(!sleeps(&mut core, LATER), "once in a while is enough");
    core.pass(2 * PUBLICATION_TICKS);
    assert!(!sleeps(&mut core, SOON));
    core.pass(16 * PUBLICATION_TICKS);
    assert!(sleeps(&mut core, SOON), "short sleeps do not hide for ever what was used");
}

#[test]
fn an_idle_core_publishes_only_when_nobody_wakes_soon() {
    let mut core = Core::new(schedule(&[server(0, 1)], 1));
    let idles = |core: &mut Core, ticks: u64| {
        core.pass(10);
        core.machine.pending.borrow_mut().push_back(27);
        sleeps(core, ticks)
    };
    core.pass(2 * PUBLICATION_TICKS);
    assert!(!idles(&mut core, SOON));
    assert!(idles(&mut core, LATER) && idles(&mut core, LATER), "as often as it is idle");
    core.pass(17 * PUBLICATION_TICKS);
    assert!(idles(&mut core, SOON));
}
