//! Console input: the board's UART goes round the cores that may receive its characters, one of them at a time.
//!
//! Only the monitor of a `mapped` partition with a virtual PL011 maps the UART, on the core of vCPU 0. Of
//! several such partitions on one shared core the first gets the input. The cores form one ring, so that the focus comes back to everyone, and one of them has it at boot.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Vcpu};
use bulkhead_abi::plan::{MAX_INTID, MODE_MAPPED, WINDOW_UART};
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
            findings.require((plan.uart.0 != 0) == (receiver == Some(vcpu.slot)), Code::ConsoleInput, || {
                format!("core {}: the UART at {} is given or withheld against the rule", core.index, plan.uart)
            });
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

fn check_ring(contents: &Contents, first: &Vcpu, ring: &[&Vcpu], findings: &mut Findings) {
    let same =
        |vcpu: &&Vcpu| vcpu.plan.uart == first.plan.uart && vcpu.plan.uart_interrupt == first.plan.uart_interrupt;
    let marked = ring.iter().filter(|core| core.plan.uart_first == 1).count();
    let known = ring.iter().all(|core| core.plan.uart_first <= 1);
    findings.require(ring.iter().all(same) && marked == 1 && known, Code::ConsoleInput, || {
        format!("the cores with the UART differ in its address or interrupt, or {marked} of them have it at boot")
    });
    let mut seen = HashSet::new();
    let mut here = Some(first);
    while let Some(core) = here.filter(|core| seen.insert(core.plan.mpidr)) {
        here = ring.iter().copied().find(|other| other.plan.mpidr == core.plan.uart_next_mpidr);
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
