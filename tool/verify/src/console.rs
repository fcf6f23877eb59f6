//! Console input: the board's UART goes round the cores that may receive its characters, one of them at a time.
//!
//! The monitor of a `mapped` partition with a virtual PL011 maps the UART, on the core of vCPU 0. Of
//! several such partitions on one shared core the first gets the input. Below a payload the monitor of a `direct` one may map it, too: one `mapped`
//! partition then hands it over, and each of the two names the other. The cores form one ring, so that the focus comes back to everyone, and one of them
//! has it at boot.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Vcpu};
use bulkhead_abi::Part;
use bulkhead_abi::plan::{MAX_INTID, MODE_DIRECT, MODE_MAPPED, WINDOW_UART};
use std::collections::HashSet;

/// Checks which vCPUs get the UART's input and how their cores hand it on.
pub(crate) fn check(contents: &Contents, findings: &mut Findings) {
    let mut ring: Vec<&Vcpu> = Vec::new();
    for core in &contents.cores {
        let may_receive = |vcpu: &&Vcpu| {
            let partition = contents.partitions.get(vcpu.plan.partition as usize);
            let windows = partition.map_or(&[] as &[_], |one| one.plan.windows.as_slice());
            let has_window = windows.iter().any(|window| window.kind == WINDOW_UART);
            has_window && vcpu.plan.mode == MODE_MAPPED && vcpu.plan.vcpu == 0
        };
        // Slots are in the order of the description, which decides among several.
        let receiver = core.vcpus.iter().find(may_receive).map(|vcpu| vcpu.slot);
        for vcpu in &core.vcpus {
            let plan = &vcpu.plan;
            let may =
                if plan.mode == MODE_MAPPED { receiver == Some(vcpu.slot) } else { gives_to(contents, vcpu).is_some() };
            findings.require((plan.uart.0 != 0) == may, Code::ConsoleInput, || {
                format!("core {}: the UART at {} is given or withheld against the rule", core.index, plan.uart)
            });
            check_handed(contents, vcpu, findings);
            if plan.uart.0 != 0 {
                ring.push(vcpu);
            } else {
                let empty = plan.uart_next_mpidr == 0 && plan.uart_interrupt == 0 && plan.uart_first == 0;
                findings.require(empty, Code::ConsoleInput, || {
                    format!("core {}: a vCPU has no UART but entries for one", core.index)
                });
            }
        }
    }
    if let Some(first) = ring.first() {
        check_ring(contents, first, &ring, findings);
    }
}

/// Checks what a vCPU says of the partition with which its own one hands the UART's interrupt over.
fn check_handed(contents: &Contents, vcpu: &Vcpu, findings: &mut Findings) {
    let plan = &vcpu.plan;
    let own = if contents.part == Part::Hybrid as u32 { plan.status.0 } else { 0 };
    let none = (plan.handed_status.0, plan.handed_mpidr) == (own, 0);
    let gives = receiver_from(contents, vcpu).is_some_and(|to| {
        // Its own core keeps the interrupt.
        plan.uart_next_mpidr == plan.mpidr && u64::from(plan.handed_mpidr) == to.plan.mpidr
    });
    let gets = plan.handed_mpidr == 0 && gives_to(contents, vcpu).is_some();
    findings.require(none || gives || gets, Code::ConsoleInput, || {
        format!("core {}: the UART would be handed over to or from somebody who does not agree", vcpu.core)
    });
}

/// The vCPU to which a `mapped` one hands the UART's interrupt over.
fn receiver_from<'a>(contents: &'a Contents, from: &Vcpu) -> Option<&'a Vcpu> {
    let is_from = from.plan.mode == MODE_MAPPED && from.plan.uart.0 != 0;
    contents.vcpus().find(|to| is_from && is_handed(contents, from, to))
}

/// The vCPU that hands the UART's interrupt over to a `direct` one.
fn gives_to<'a>(contents: &'a Contents, to: &Vcpu) -> Option<&'a Vcpu> {
    contents.vcpus().find(|from| from.plan.mode == MODE_MAPPED && is_handed(contents, from, to))
}

/// Both name each other, and EL3 brings the core of the one to its monitor.
fn is_handed(contents: &Contents, from: &Vcpu, to: &Vcpu) -> bool {
    let (from, to) = (&from.plan, &to.plan);
    let windows = |to: &&crate::image::Partition| to.plan.windows.iter().any(|window| window.kind == WINDOW_UART);
    let kicked = contents.part == Part::Hybrid as u32 && to.mpidr != 0 && to.mode == MODE_DIRECT;
    let known = contents.partitions.get(to.partition as usize).filter(windows).is_some();
    let named =
        from.handed_status == to.status && to.handed_status == from.status && u64::from(from.handed_mpidr) == to.mpidr;
    kicked && known && named && to.vcpu == 0
}

fn check_ring(contents: &Contents, first: &Vcpu, ring: &[&Vcpu], findings: &mut Findings) {
    let same =
        |vcpu: &&Vcpu| vcpu.plan.uart == first.plan.uart && vcpu.plan.uart_interrupt == first.plan.uart_interrupt;
    // At boot nothing is handed over.
    let marked = ring.iter().filter(|core| core.plan.uart_first == 1 && core.plan.mode == MODE_MAPPED).count();
    let known = ring.iter().all(|core| core.plan.uart_first <= u32::from(core.plan.mode == MODE_MAPPED));
    findings.require(ring.iter().all(same) && marked == 1 && known, Code::ConsoleInput, || {
        format!("the cores with the UART differ in its address or interrupt, or {marked} of them have it at boot")
    });
    let mut seen = HashSet::new();
    let mut here = Some(first);
    while let Some(core) = here.filter(|core| seen.insert(core.plan.mpidr)) {
        let routed = || ring.iter().copied().find(|other| other.plan.mpidr == core.plan.uart_next_mpidr);
        here = receiver_from(contents, core).or_else(routed);
    }
    let closed = seen.len() == ring.len() && here.is_some_and(|vcpu| vcpu.core == first.core);
    findings.require(closed, Code::ConsoleInput, || {
        String::from("the console focus would not go round all cores that have it")
    });
    let intid = first.plan.uart_interrupt;
    let owned = |partition: &crate::image::Partition| {
        let used = partition.plan.interrupts().iter();
        used.into_iter().any(|interrupt| interrupt.intid == intid)
    };
    let owner = contents.partitions.iter().find(|partition| owned(partition));
    findings.require(owner.is_none(), Code::InterruptTwice, || {
        format!("interrupt {intid} of the monitor's UART belongs to a partition too")
    });
    findings.require((32..MAX_INTID).contains(&intid), Code::InterruptNumber, || {
        format!("the UART's interrupt {intid} is no shared one")
    });
}
