//! Calls about memory and processes. The one that makes them is more important than they are, and told of their ends.

use crate::{PROCESS, Row, counted, once};
use bulkhead_component::call::{self, component_fault, counter_ticks};
use bulkhead_component::{println, process};
use bulkhead_kernel_abi::call::{Call, ComponentOperation as Process, MemoryOperation as Memory};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{PROCESS_QUOTA_SLOT, PROCESS_SLOTS};

/// Of the maker.
const TOLD: u64 = 1;
const QUOTA: u64 = 2;
const JOBS: u64 = 3;
const GIVEN: u64 = 16;
const CHILD: u64 = 17;
/// Of a process: what pays for its children's threads, and empty slots.
const PAYER: u64 = 2;
const FORKED: u64 = PROCESS_SLOTS as u64 - 1;
const REGION: u64 = PROCESS_SLOTS as u64 - 2;
const PART: u64 = PROCESS_SLOTS as u64 - 3;
/// Where memory is mapped: in a part of the address space that has no translation tables yet.
const ADDRESS: u64 = 0x1000_0000;
/// Pages that a process is given, and the rest of its quota as `spawn` takes it.
const SHARE: u64 = 96 | 1 << 32 | 1 << 40 | 2 << 48;
/// What is left for its child.
const SHARE_OF_CHILD: u64 = 40;

/// What a process does.
const EXITS: u64 = 0;
const EXECS: u64 = 1;
const BECAME: u64 = 2;
const FORKS: u64 = 3;
const MAPS: u64 = 4;

const COMPONENT: u16 = Call::Component.number();

pub(crate) fn count() {
    if let Err(code) = process::copy_capability(JOBS, GIVEN, right::BIND) {
        return println!("no server for children, {code:?}");
    }
    let mut rows =
        ["component.spawn", "component.read", "component.fault", "component.reset", "component.destroy"].map(Row::new);
    let mut answers = ["component.exit", "component.exec", "component.fork"].map(Row::new);
    let [spawn, read, fault, reset, destroy] = &mut rows;
    for role in [EXITS, EXECS, FORKS, MAPS] {
        let of = |operation: Process| [operation.number(), CHILD, 0, 0, 0, 0, 0, 0];
        let program = (PROCESS + role) << 16;
        let give = [Process::Spawn.number(), program, QUOTA, JOBS, GIVEN, 1, CHILD, SHARE];
        spawn.add(counted::<COMPONENT>(give));
        let _ = call::receive(TOLD, 0);
        let now = counter_ticks();
        let said = component_fault(CHILD).map_or(0, |record| record.syndrome);
        match role {
            EXITS => answers[0].range.add(now - said),
            EXECS => answers[1].range.add(said),
            FORKS => answers[2].range.add(said),
            _ => {}
        }
        read.add(counted::<COMPONENT>(of(Process::Read)));
        fault.add(counted::<COMPONENT>(of(Process::Fault)));
        reset.add(counted::<COMPONENT>(of(Process::Reset)));
        destroy.add(counted::<COMPONENT>(of(Process::Destroy)));
        crate::empty(CHILD);
    }
    rows.iter().chain(&answers).for_each(Row::say);
    println!("bench done");
}

/// What a process does.
pub(crate) fn run(role: u64, argument: u64) -> ! {
    match role {
        EXITS => process::exit(counter_ticks()),
        EXECS => {
            let _ = process::exec(0, (PROCESS + BECAME) | (counter_ticks() << 8));
        }
        BECAME => process::exit(counter_ticks() - argument),
        FORKS => {
            let fork = [Process::Fork.number(), PROCESS_QUOTA_SLOT, PAYER, FORKED, SHARE_OF_CHILD, 0, 0, 0];
            let answer = counted::<COMPONENT>(fork);
            process::exit(if answer.code == 0 { answer.took } else { u64::MAX });
        }
        _ => map(),
    }
    process::exit(0)
}

/// One page of a region: with the translation tables that it needs, and taken back.
fn map() {
    const MEMORY: u16 = Call::Memory.number();
    let rights = u64::from(right::READ | right::WRITE);
    let of = |operation: Memory, x: [u64; 5]| {
        let [x1, x2, x3, x4, x5] = x;
        [operation.number(), x1, x2, x3, x4, x5, 0, 0]
    };
    once::<MEMORY>("memory.create", of(Memory::Create, [PROCESS_QUOTA_SLOT, 512, REGION, 0, 0]));
    once::<MEMORY>("memory.share", of(Memory::Share, [REGION, 1, 1, rights, PART]));
    once::<MEMORY>("memory.map", of(Memory::Map, [REGION, 0, ADDRESS, 1, rights]));
    once::<MEMORY>("memory.protect", of(Memory::Protect, [0, ADDRESS, 1, right::READ.into(), 0]));
    once::<MEMORY>("memory.unmap", of(Memory::Unmap, [0, ADDRESS, 1, 0, 0]));
}
