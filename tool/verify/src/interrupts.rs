//! Interrupts and doorbells: every interrupt has one owner, every doorbell reaches the one that waits for it.

use crate::channel::Pool;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, Partition, View};
use bulkhead_abi::plan::{
    DoorbellPlan, INTERRUPT_CONSOLE, INTERRUPT_DEVICE, INTERRUPT_DOORBELL, InterruptPlan, MAX_INTID, PCI_DEVICE,
    RouteRule, WINDOW_UART,
};
use bulkhead_abi::schedule::{ScheduleKind, SchedulePlan, ServerPlan};
use std::collections::{HashMap, HashSet};

const FIRST_SPI: u32 = 32;
/// The limiter's count has 24 bits.
const MOST_EVENTS: u32 = (1 << 24) - 1;

/// Returns the used interrupts of a partition.
fn owned(partition: &Partition) -> impl Iterator<Item = &InterruptPlan> {
    partition.plan.interrupts().iter()
}

/// Checks owners, kinds, the distributor's words and doorbells.
pub(crate) fn check(view: &View<'_>, contents: &Contents, pools: &[Pool], findings: &mut Findings) {
    let mut owners: HashMap<u32, usize> = HashMap::new();
    let mut words = [0_u32; 16];
    for partition in &contents.partitions {
        let name = partition.name();
        let mut last = 0;
        for interrupt in owned(partition) {
            let intid = interrupt.intid;
            if let Some(other) = owners.insert(intid, partition.index) {
                findings.add(
                    Code::InterruptTwice,
                    format!("interrupt {intid} belongs to partitions {other} and {}", partition.index),
                );
            }
            let number = (FIRST_SPI..MAX_INTID).contains(&intid) && intid > last;
            findings.require(number, Code::InterruptNumber, || {
                format!(
                    "partition \"{name}\" owns interrupt {intid}: it must be a shared one, {FIRST_SPI} to {}, in \
                 ascending order",
                    MAX_INTID - 1
                )
            });
            last = intid;
            check_kind(partition, interrupt, findings);
            check_route(contents, partition, interrupt, findings);
            check_client(contents, partition, interrupt, findings);
            if let Some(word) = words.get_mut(intid as usize / 16).filter(|_| interrupt.edge == 1) {
                *word |= 2 << (intid % 16 * 2);
            }
        }
        let consoles = owned(partition).filter(|interrupt| interrupt.kind == INTERRUPT_CONSOLE).count();
        let uarts = partition.plan.windows.iter().filter(|window| window.kind == WINDOW_UART).count();
        findings.require(consoles == uarts && uarts <= 1, Code::InterruptKind, || {
            format!("partition \"{name}\" has {uarts} virtual PL011 and {consoles} interrupts for it")
        });
        let highest = owned(partition).map(|interrupt| interrupt.intid).max().unwrap_or(FIRST_SPI - 1);
        findings.require(partition.plan.highest_intid == highest, Code::InterruptLimit, || {
            format!(
                "partition \"{name}\" is shown interrupts up to {}, it owns up to {highest}",
                partition.plan.highest_intid
            )
        });
    }
    findings.require(view.header.gicd_icfgr == words, Code::InterruptKind, || {
        String::from("the distributor's trigger words do not match the interrupts of the partitions")
    });
    check_doorbells(contents, pools, findings);
    check_words(contents, findings);
}

fn check_kind(partition: &Partition, interrupt: &InterruptPlan, findings: &mut Findings) {
    let spare = matches!(interrupt.kind, INTERRUPT_CONSOLE | INTERRUPT_DOORBELL);
    let good = match interrupt.edge {
        0 => interrupt.kind == INTERRUPT_DEVICE,
        1 => spare || interrupt.kind == INTERRUPT_DEVICE,
        _ => false,
    };
    findings.require(good, Code::InterruptKind, || {
        format!(
            "interrupt {} of partition \"{}\" has kind {} and trigger {}; spare interrupts are edge-triggered",
            interrupt.intid,
            partition.name(),
            interrupt.kind,
            interrupt.edge
        )
    });
    let plan = &partition.plan;
    let function = interrupt.pci_function.checked_sub(1).map(|index| plan.pci().get(index as usize));
    let named = match function {
        None => true,
        Some(function) => {
            let kind = function.map_or(0, |function| function.kind);
            let of_device = interrupt.kind == INTERRUPT_DEVICE && kind == PCI_DEVICE;
            (interrupt.kind == INTERRUPT_DOORBELL && kind != PCI_DEVICE || of_device)
                && function.is_some_and(|function| function.interrupt == interrupt.intid)
        }
    };
    findings.require(named, Code::PciFunction, || {
        format!(
            "interrupt {} of partition \"{}\" names PCI function {}, which does not raise it",
            interrupt.intid,
            partition.name(),
            interrupt.pci_function
        )
    });
}

/// Routes matter on shared cores alone, so there they must be possible and elsewhere at least known.
fn check_route(contents: &Contents, partition: &Partition, interrupt: &InterruptPlan, findings: &mut Findings) {
    let takes_turns = contents.cores.iter().any(|core| {
        core.runs(partition.index) && core.schedule.is_some_and(|plan| plan.kind() == Some(ScheduleKind::RoundRobin))
    });
    let known = match interrupt.route() {
        Some(RouteRule::Priority | RouteRule::Defer) => true,
        Some(RouteRule::Preempt) => takes_turns,
        None => false,
    };
    let limited = interrupt.limit_period_ticks > 0 && (1..=MOST_EVENTS).contains(&interrupt.limit_events);
    let unlimited = interrupt.limit_period_ticks == 0 && interrupt.limit_events == 0;
    findings.require(known && (limited || unlimited), Code::InterruptRoute, || {
        format!(
            "interrupt {} of partition \"{}\" has route {} and lets {} events act per {} ticks",
            interrupt.intid,
            partition.name(),
            interrupt.route,
            interrupt.limit_events,
            interrupt.limit_period_ticks
        )
    });
}

/// A doorbell may ask a PIBS server on behalf of a client: of one that it has, and whose period is that of a server of a partition which
/// rings it. Otherwise one client's work would be done at another's priority (QV-34).
fn check_client(contents: &Contents, partition: &Partition, interrupt: &InterruptPlan, findings: &mut Findings) {
    let rings = |sender: u32| {
        let sender = contents.partitions.get(sender as usize);
        let is_this = |bell: &DoorbellPlan| bell.intid == interrupt.intid && bell.peer as usize == partition.index;
        sender.is_some_and(|sender| sender.doorbells().any(is_this))
    };
    let is_a_client = |plan: &SchedulePlan, place: u32| {
        let partition_of = |server: &ServerPlan| plan.slots().get(server.slot as usize).map(|slot| slot.partition);
        let mut own = plan.servers().iter().filter(|server| partition_of(server) == Some(partition.index as u32));
        let client = own.find_map(|server| server.clients().get(place as usize));
        let is_it = |server: &ServerPlan| client.is_some_and(|client| client.period_ticks == server.period_ticks);
        plan.servers().iter().any(|server| is_it(server) && partition_of(server).is_some_and(rings))
    };
    let schedules = || contents.cores.iter().filter_map(|core| core.schedule.as_ref());
    let known = interrupt
        .client
        .checked_sub(1)
        .is_none_or(|place| interrupt.kind == INTERRUPT_DOORBELL && schedules().any(|plan| is_a_client(plan, place)));
    findings.require(known && interrupt.reserved == 0, Code::InterruptRoute, || {
        format!(
            "interrupt {} of partition \"{}\" asks a PIBS server for client {}, which is nobody who rings it",
            interrupt.intid,
            partition.name(),
            interrupt.client
        )
    });
}

/// Doorbells count in one word when their receiver limits them together (CH-36). Then they are all of its doorbells, in the
/// same measure; otherwise one partition could use up what another may send, or reach the receiver past its limit.
fn check_words(contents: &Contents, findings: &mut Findings) {
    let all: Vec<&DoorbellPlan> = contents.partitions.iter().flat_map(Partition::doorbells).collect();
    for (place, one) in all.iter().enumerate() {
        let measure = |doorbell: &DoorbellPlan| (doorbell.peer, doorbell.period_ticks, doorbell.events);
        let mut together = all.iter().skip(place + 1).filter(|other| other.words == one.words);
        findings.require(together.all(|other| measure(other) == measure(one)), Code::DoorbellWords, || {
            format!(
                "doorbell {} to partition {} shares its words at {} with one of another receiver, period or limit",
                one.intid, one.peer, one.words
            )
        });
    }
    for receiver in &contents.partitions {
        let words: Vec<u64> =
            all.iter().filter(|one| one.peer as usize == receiver.index).map(|one| one.words.0).collect();
        let pages = words.iter().collect::<HashSet<_>>().len();
        findings.require(pages <= 1 || pages == words.len(), Code::DoorbellWords, || {
            format!(
                "{} doorbells to partition \"{}\" count in {pages} places: all of them in one, or each by itself",
                words.len(),
                receiver.name()
            )
        });
    }
}

fn check_doorbells(contents: &Contents, pools: &[Pool], findings: &mut Findings) {
    // The payload rings those of its channels.
    let mut rung: HashSet<u32> = pools.iter().map(|pool| pool.interrupt).filter(|intid| *intid != 0).collect();
    for partition in &contents.partitions {
        let name = partition.name();
        for doorbell in partition.doorbells() {
            let peer = contents.partitions.get(doorbell.peer as usize).filter(|peer| peer.index != partition.index);
            let waits = peer.is_some_and(|peer| {
                owned(peer).any(|interrupt| interrupt.intid == doorbell.intid && interrupt.kind == INTERRUPT_DOORBELL)
            });
            findings.require(waits, Code::DoorbellTarget, || {
                format!(
                    "partition \"{name}\" rings interrupt {} of partition {}, which does not own it as a doorbell",
                    doorbell.intid, doorbell.peer
                )
            });
            findings.require(rung.insert(doorbell.intid), Code::DoorbellTarget, || {
                format!("two doorbells ring interrupt {}", doorbell.intid)
            });
            // Where the page lies, and that nothing else lies there, is checked with all areas.
            findings.require(doorbell.words.0 != 0 && doorbell.words.0 % PAGE == 0, Code::DoorbellWords, || {
                format!("a doorbell of partition \"{name}\" has its words at {}, which is no page", doorbell.words)
            });
            let limited = doorbell.period_ticks > 0 && (1..=MOST_EVENTS).contains(&doorbell.events);
            let unlimited = doorbell.period_ticks == 0 && doorbell.events == 0;
            findings.require(limited || unlimited, Code::Limiter, || {
                format!(
                    "a doorbell of partition \"{name}\" lets {} events through per {} ticks: both must be \
                 positive, or both zero",
                    doorbell.events, doorbell.period_ticks
                )
            });
        }
    }
    for partition in &contents.partitions {
        for interrupt in owned(partition).filter(|interrupt| interrupt.kind == INTERRUPT_DOORBELL) {
            findings.require(rung.contains(&interrupt.intid), Code::DoorbellTarget, || {
                format!("partition \"{}\" waits for doorbell {}, which nobody rings", partition.name(), interrupt.intid)
            });
        }
    }
}
