//! Partitions below a payload: the image of their monitor is the only segment, and what it says of the machine agrees with the world plan.

use super::channels;
use super::layout::SHARED_FIRST;
use super::plan::Plan;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Core, View};
use crate::{Expected, Extent};
use bulkhead_abi::Part;

/// Checks the image below: by itself, as `verify` checks an image, and against the plan above it.
pub(super) fn check(file: &[u8], plan: &Plan, expected: &Expected, findings: &mut Findings) -> Option<Extent> {
    let Some(cores) = &plan.cores else {
        findings.add(Code::WorldBelow, "the plan has one core, and partitions are below a secure monitor of several");
        return None;
    };
    cores.check(plan.counter_hz, findings);
    let [segment] = plan.segments.as_slice() else {
        findings.add(Code::WorldBelow, "the image of the monitor at EL2 is not the only segment");
        return None;
    };
    let image = segment.content(file)?;
    let (verdict, pools) = crate::verify_below(image, expected);
    let is_accepted = verdict.is_accepted();
    findings.0.extend(verdict.findings);
    // What is wrong in it was said.
    let mut said = Findings::default();
    let view = View::open(image, &mut said)?;
    let contents = Contents::read(&view, &mut said).filter(|_| said.0.is_empty())?;
    findings.require(view.header.part == Part::Hybrid as u32, Code::WorldBelow, || {
        String::from("the image below is not of the part `hybrid`, which knows of a payload above")
    });
    let start = view.header.image_start.0;
    findings.require(
        (segment.to, plan.entry, plan.argument, plan.level) == (start, start, 0, 2),
        Code::WorldBelow,
        || {
            format!(
                "the image for {start:#x} goes to {:#x} and is entered at {:#x}, EL{}",
                segment.to, plan.entry, plan.level
            )
        },
    );
    let window = plan.window..plan.window.saturating_add(plan.window_bytes);
    for bank in view.banks() {
        findings.require(window.start <= bank.start && bank.end <= window.end, Code::WorldBelow, || {
            format!(
                "RAM of the partitions, {:#x} to {:#x}, is not in the other world's memory",
                bank.start,
                bank.end - 1
            )
        });
    }
    let statuses: Vec<u64> = contents.partitions.iter().map(|partition| partition.entry.status.0).collect();
    findings.require(plan.partitions == statuses, Code::WorldBelow, || {
        format!("the payload looks at {:x?} for how partitions are, and they have {statuses:x?}", plan.partitions)
    });
    channels::check_below(plan, &pools, findings);
    cores.check_below(&contents, plan.redistributor, findings);
    for partition in &contents.partitions {
        for interrupt in partition.plan.interrupts().iter().filter(|one| plan.interrupts.contains(&one.intid)) {
            let message =
                format!("INTID {} is the payload's and partition \"{}\"'s", interrupt.intid, partition.name());
            findings.add(Code::WorldInterrupt, message);
        }
    }
    let (frame, rate) = (view.header.gicd, view.header.counter_hz);
    findings.require((plan.distributor, plan.counter_hz) == (frame.0, rate), Code::WorldBelow, || {
        format!(
            "the payload has its distributor at {:#x} and a counter of {} Hz, and the image below {frame} and {rate} Hz",
            plan.distributor, plan.counter_hz
        )
    });
    check_urgent(plan, &contents, findings);
    let uarts = contents.cores.iter().filter_map(|core| core.receiver()).map(|vcpu| vcpu.plan.uart_interrupt);
    if let Some(intid) = uarts.into_iter().find(|intid| plan.interrupts.contains(intid)) {
        findings.add(Code::WorldInterrupt, format!("INTID {intid} is the payload's and that of the monitor's console"));
    }
    is_accepted.then_some(verdict.extent)
}

/// A shared interrupt that changes hands would be taken to EL3 of a core without a payload, while the payload has it: so it comes to the payload's
/// core alone, as those of a partition there do.
fn check_urgent(plan: &Plan, contents: &Contents, findings: &mut Findings) {
    for intid in plan.urgent.iter().filter(|intid| **intid >= SHARED_FIRST) {
        let owner =
            contents.partitions.iter().position(|one| one.plan.interrupts().iter().any(|has| has.intid == *intid));
        let is_owners = |core: &&Core| core.vcpus.iter().any(|vcpu| Some(vcpu.plan.partition as usize) == owner);
        let mut cores = contents.cores.iter().filter(is_owners);
        findings.require(owner.is_some() && cores.all(|core| core.boot.mpidr == 0), Code::WorldInterrupt, || {
            format!("the urgent INTID {intid} is of no partition on the payload's core alone")
        });
    }
}
