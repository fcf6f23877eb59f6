//! Rows of the boot tables: threads, end points, bindings and capabilities.

use crate::finding::{Findings, Kind};
use crate::walk::Map;
use crate::{PAGE, View};
use bulkhead_kernel_abi::boot::{ComponentRow, Tables, ThreadRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::{COMPONENT_MAGIC, COMPONENT_TEXT, ComponentHead};
use bulkhead_kernel_abi::{Capability, KERNEL_ABI_VERSION, Kind as Object, MAX_STACKS, NONE};
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::FromBytes;

/// The kernel's own timer, and the one that a binding may have as its periodic one.
const KERNEL_TIMER: u32 = 27;
const PERIODIC_TIMER: u32 = 30;
/// Interrupts of a core's lines and of devices; below are those of software, above are special numbers.
const INTIDS: core::ops::Range<u32> = 16..1020;

pub(crate) fn check(view: &View<'_>, spaces: &[Map], findings: &mut Findings) {
    let tables = &view.tables;
    crate::servers::check(tables, findings);
    crate::schedulers::check(tables, findings);
    crate::wires::check(tables, findings);
    let mut bottoms = BTreeSet::new();
    for (number, (row, space)) in tables.components.iter().zip(spaces).enumerate() {
        component(view, number, row, space, findings);
        callers(view, number, row, space, &mut bottoms, findings);
    }
    let counts = tables
        .components
        .iter()
        .map(|row| [row.entries, row.stacks, row.slots].map(u64::from))
        .fold([0; 3], |sum, row| [sum[0] + row[0], sum[1] + row[1], sum[2] + row[2]]);
    let there = [tables.entries.len(), tables.stacks.len(), tables.capabilities.len()].map(|count| count as u64);
    findings.require(counts == there, Kind::Row, || {
        "there are entries, stacks for callers or capability slots of no component".to_owned()
    });
    for (number, row) in tables.threads.iter().enumerate() {
        match spaces.get(usize::from(row.component)) {
            Some(space) => thread(number, row, space, &mut bottoms, findings),
            None => findings
                .add(Kind::Row, format!("thread {number} is of component {}, which is not there", row.component)),
        }
    }
    end_points(view, findings);
    bindings(view, findings);
    capabilities(view, findings);
}

/// A component's text begins as one, and its slots are its own.
fn component(view: &View<'_>, number: usize, row: &ComponentRow, space: &Map, findings: &mut Findings) {
    let page = space.at(COMPONENT_TEXT).and_then(|mapping| view.page(mapping.output));
    let head = page.and_then(|page| ComponentHead::read_from_prefix(page).ok()).map(|(head, _)| head);
    let is_one = head.is_some_and(|head| (head.magic, head.abi_version) == (COMPONENT_MAGIC, KERNEL_ABI_VERSION));
    findings.require(is_one, Kind::Component, || {
        format!("component {number} does not begin as one of version {KERNEL_ABI_VERSION} of the kernel's ABI does")
    });
    let earlier = |of: fn(&ComponentRow) -> u32| -> u64 {
        view.tables.components.iter().take(number).map(|row| u64::from(of(row))).sum()
    };
    let is_own = u64::from(row.first_slot) == earlier(|row| row.slots) && row.root.is_multiple_of(PAGE);
    findings
        .require(is_own, Kind::Row, || format!("the capability slots of component {number} are another one's, too"));
    let is_apart = u64::from(row.first_entry) == earlier(|row| row.entries)
        && u64::from(row.first_stack) == earlier(|row| row.stacks);
    findings.require(is_apart, Kind::Row, || {
        format!("entries or stacks for callers of component {number} are another one's, too")
    });
    let is_there = row.supervisor == NONE || usize::from(row.supervisor) < view.tables.end_points.len();
    let is_supervised = is_there && (row.supervisor == NONE) == (row.supervisor_bits == 0);
    let is_plain = row.on_fault <= 2 && row.trust <= 1 && row.abortable <= 1 && row.floating_point <= 1;
    let is_plain = is_plain
        && row.quota == NONE
        && row.reserved == [0; 3]
        && row.accounts <= 1
        && row.stacks as usize <= MAX_STACKS;
    findings.require(is_supervised && is_plain, Kind::Row, || {
        format!("component {number} has a policy, a quota, a supervisor or a number of stacks that none can have")
    });
}

/// Callers enter in text, and each of them has a stack of its own.
fn callers(
    view: &View<'_>,
    number: usize,
    row: &ComponentRow,
    space: &Map,
    bottoms: &mut BTreeSet<(u16, u64)>,
    findings: &mut Findings,
) {
    for (entry, function) in view.tables.entries(row).iter().enumerate() {
        findings.require(is_text(space, function.address), Kind::Entry, || {
            format!("entry {entry} of component {number} is {:#x}, where it has no text", function.address)
        });
    }
    let component = u16::try_from(number).unwrap_or(NONE);
    for (place, caller) in view.tables.stacks(row).iter().enumerate() {
        let owner = format!("caller {place} of component {number}");
        stack(&owner, (component, caller.top), space, bottoms, findings);
    }
}

/// States whether an instruction is there that EL0 may execute.
fn is_text(space: &Map, address: u64) -> bool {
    space.at(address).is_some_and(|mapping| mapping.execute_el0) && address.is_multiple_of(4)
}

/// Its entry is text; its stack is data, with an empty page at each end, and nobody else's.
fn thread(number: usize, row: &ThreadRow, space: &Map, bottoms: &mut BTreeSet<(u16, u64)>, findings: &mut Findings) {
    findings.require(is_text(space, row.entry), Kind::Entry, || {
        format!("thread {number} starts at {:#x}, where its component has no text", row.entry)
    });
    stack(&format!("thread {number}"), (row.component, row.stack), space, bottoms, findings);
    let is_plain = row.started <= 1 && row.reserved == 0;
    findings.require(is_plain, Kind::Row, || format!("thread {number} has bits that mean nothing"));
}

/// The lowest page of a stack. What is mapped otherwise than by single pages is no component's memory.
pub(crate) fn bottom(space: &Map, top: u64) -> u64 {
    let is_data = |address: u64| space.at(address).is_some_and(|mapping| mapping.write && mapping.bytes == PAGE);
    let mut bottom = top;
    while bottom >= PAGE && is_data(bottom - PAGE) {
        bottom -= PAGE;
    }
    bottom
}

/// A stack: data with an empty page at each end, and nobody else's.
fn stack(
    owner: &str,
    (component, top): (u16, u64),
    space: &Map,
    bottoms: &mut BTreeSet<(u16, u64)>,
    findings: &mut Findings,
) {
    let is_data = |address: u64| space.at(address).is_some_and(|mapping| mapping.write);
    let is_stack = top.is_multiple_of(16) && top >= PAGE && is_data(top - PAGE) && space.at(top).is_none();
    findings.require(is_stack, Kind::Stack, || {
        format!("{owner} has no memory for a stack below {top:#x}, or some above it")
    });
    // Down to the first page that is not data: it must be empty.
    let bottom = bottom(space, top);
    let has_guard = bottom >= PAGE && space.at(bottom - PAGE).is_none();
    findings.require(has_guard, Kind::Stack, || format!("{owner} has no empty page below its stack, at {bottom:#x}"));
    findings.require(bottoms.insert((component, bottom)), Kind::Stack, || {
        format!("{owner} shares its stack with another one")
    });
}

/// An end point is of a thread that has no other one, and of that thread's component; and a thread has one that is its own, or none.
fn end_points(view: &View<'_>, findings: &mut Findings) {
    let (mut owners, tables) = (BTreeSet::new(), &view.tables);
    for (number, row) in tables.end_points.iter().enumerate() {
        let thread = tables.threads.get(usize::from(row.thread));
        let is_its = thread.is_some_and(|one| (usize::from(one.end_point), one.component) == (number, row.component));
        findings.require(is_its && row.reserved == 0 && owners.insert(row.thread), Kind::Row, || {
            format!(
                "end point {number} is of thread {} of component {}, which is not there or has another one, or has bits that mean nothing",
                row.thread, row.component
            )
        });
    }
    for (number, row) in (0_u16..).zip(tables.threads).filter(|(_, row)| row.end_point != NONE) {
        let its = tables.end_points.get(usize::from(row.end_point));
        findings.require(its.is_some_and(|one| one.thread == number), Kind::Row, || {
            format!("thread {number} takes from end point {}, which is not there or another one's", row.end_point)
        });
    }
}

/// Each interrupt once, none of them the kernel's, one periodic at most.
fn bindings(view: &View<'_>, findings: &mut Findings) {
    let mut intids = BTreeSet::new();
    for (number, row) in view.tables.bindings.iter().enumerate() {
        let is_free = INTIDS.contains(&row.intid) && row.intid != KERNEL_TIMER && intids.insert(row.intid);
        findings.require(is_free, Kind::Interrupt, || {
            format!("binding {number} has interrupt {}, which is the kernel's, another binding's or none", row.intid)
        });
        let is_periodic = row.period_ticks != 0;
        findings.require(is_periodic == (row.intid == PERIODIC_TIMER), Kind::Interrupt, || {
            format!("binding {number} has interrupt {} and a period of {} ticks", row.intid, row.period_ticks)
        });
        findings.require(row.edge <= 1 && (row.reserved, row.more) == ([0; 2], 0), Kind::Row, || {
            format!("binding {number} has bits that mean nothing")
        });
        let is_bound = usize::from(row.end_point) < view.tables.end_points.len() && row.bits != 0;
        let clients = view.tables.servers.get(usize::from(row.server)).map(|server| server.clients);
        let is_client = row.default_client < 64 && row.clients & 1 << row.default_client != 0;
        let has_default = if row.clients == 0 { row.default_client == NONE } else { is_client };
        findings.require(clients == Some(row.clients) && has_default, Kind::Row, || {
            format!("binding {number} is of server {}, which is not there, or has other clients", row.server)
        });
        findings.require(is_bound, Kind::Row, || {
            format!("binding {number} sends {:#x} to end point {}, which is nothing to nobody", row.bits, row.end_point)
        });
    }
}

/// States whether a component may have an end point to take from, which is its own; a call, to who is trusted as it is, or is not and can be aborted (CH-8); or a scheduler, a thread, a claim or a server: its own; threads of its schedulers; and of a server of the host the right to run threads on it.
fn may_have(tables: &Tables<'_>, component: usize, kind: Object, capability: &Capability) -> bool {
    let object = usize::from(capability.object);
    let is_home = |thread: u16| {
        tables.threads.get(usize::from(thread)).is_some_and(|row| usize::from(row.component) == component)
    };
    let leads = |scheduler: u16| tables.schedulers.get(usize::from(scheduler)).is_some_and(|row| is_home(row.thread));
    match kind {
        // Who has it may say which of its threads the end point wakes.
        Object::Receive => tables.end_points.get(object).is_some_and(|row| usize::from(row.component) == component),
        Object::Call => {
            let (caller, callee) = (tables.components.get(component), tables.components.get(object));
            caller.zip(callee).is_some_and(|(caller, callee)| caller.trust <= callee.trust || callee.abortable == 1)
        }
        Object::Scheduler => leads(capability.object),
        Object::Thread => {
            let is_led = tables.threads.get(object).is_some_and(|row| leads(row.scheduler));
            // Who is told of a component's faults controls its threads, and does not decide what pays for them.
            let home = tables.threads.get(object).and_then(|row| tables.components.get(usize::from(row.component)));
            let told = home.and_then(|home| tables.end_points.get(usize::from(home.supervisor)));
            let is_childs = told.is_some_and(|row| usize::from(row.component) == component);
            let controls = is_childs && capability.rights & right::BIND == 0;
            is_home(capability.object) || controls || is_led && capability.rights == right::USE
        }
        Object::TCap => {
            let mut own = tables.threads.iter().filter(|row| usize::from(row.component) == component);
            own.any(|row| row.tcap == capability.object)
        }
        Object::Server => {
            let is_hosts = tables.servers.get(object).is_some_and(|row| row.band == NONE);
            is_hosts && capability.rights & !(right::BIND | right::READ) == 0
        }
        Object::Quota => tables.quotas.get(object).is_some_and(|row| usize::from(row.component) == component),
        _ => true,
    }
}

/// Each capability is empty, or names an object with rights that its kind has; who has an interrupt has it alone.
fn capabilities(view: &View<'_>, findings: &mut Findings) {
    let tables = &view.tables;
    let mut drivers: BTreeMap<u16, usize> = BTreeMap::new();
    for (number, row) in tables.components.iter().enumerate() {
        let slots = tables.slots(row);
        findings.require(slots.len() == row.slots as usize, Kind::Row, || {
            format!("the {} capability slots of component {number} do not lie in the table", row.slots)
        });
        findings.require(slots.first().is_none_or(|slot| *slot == Capability::NULL), Kind::Capability, || {
            format!("slot 0 of component {number} is not empty")
        });
        for (slot, capability) in slots.iter().enumerate().filter(|(_, slot)| **slot != Capability::NULL) {
            let place = format!("slot {slot} of component {number}");
            let Some(kind) = capability.kind() else {
                findings.add(
                    Kind::Capability,
                    format!("{place} has a capability of kind {}, which is none", capability.kind),
                );
                continue;
            };
            let objects = match kind {
                Object::Receive | Object::Send => tables.end_points.len(),
                Object::Interrupt => tables.bindings.len(),
                Object::Call | Object::Component => tables.components.len(),
                Object::Scheduler => tables.schedulers.len(),
                Object::Thread => tables.threads.len(),
                Object::TCap => tables.tcaps.len(),
                Object::Server => tables.servers.len(),
                Object::Band => tables.bands.len(),
                Object::RemoteSend => tables.wires.len(),
                Object::Quota => tables.quotas.len(),
                _ => 0,
            };
            findings.require(usize::from(capability.object) < objects, Kind::Capability, || {
                format!("{place} names {kind:?} {}, and there are {objects}", capability.object)
            });
            // Nobody begins with the right to make what others have void.
            let most = kind.rights() & !right::REVOKE;
            findings.require(capability.rights & !most == 0, Kind::Capability, || {
                format!("{place} has rights {:#x} of {kind:?}, which has {most:#x} at most", capability.rights)
            });
            let callee = tables.components.get(usize::from(capability.object)).filter(|_| kind == Object::Call);
            let can_enter = callee.is_none_or(|row| u32::from(capability.entry()) < row.entries && row.stacks > 0);
            findings.require(can_enter, Kind::Capability, || {
                format!(
                    "{place} calls entry {} of component {}, which has none or no stack for callers",
                    capability.entry(),
                    capability.object
                )
            });
            findings.require(may_have(tables, number, kind, capability), Kind::Capability, || {
                format!("{place} names {kind:?} {}, which is not in this component's hands", capability.object)
            });
            if kind == Object::Component {
                let child = tables.components.get(usize::from(capability.object));
                let told = child.and_then(|child| tables.end_points.get(usize::from(child.supervisor)));
                findings.require(
                    told.is_some_and(|row| usize::from(row.component) == number),
                    Kind::Capability,
                    || {
                        format!(
                            "{place} can begin component {} again, and is not told of its faults",
                            capability.object
                        )
                    },
                );
            }
            let is_signal = (kind == Object::Send) == (capability.word != 0);
            let has_word = match kind {
                Object::Call => true,
                Object::RemoteSend => crate::wires::can_send(capability, tables),
                _ => is_signal,
            };
            findings.require(has_word, Kind::Capability, || {
                format!("{place} has the word {:#x}, which means nothing or sends nothing", capability.word)
            });
            findings.require(capability.grant == 1, Kind::Capability, || format!("{place} was not granted at boot"));
            if kind == Object::Interrupt && capability.has(right::USE) {
                let other = *drivers.entry(capability.object).or_insert(number);
                findings.require(other == number, Kind::Interrupt, || {
                    format!("components {other} and {number} both have the interrupt of binding {}", capability.object)
                });
            }
        }
    }
}
