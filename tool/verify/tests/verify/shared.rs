//! Corruptions of an image with shared cores, each refused with its own code.
//!
//! Core 0 has fixed priorities: slots 0 control, 1 driver, 2 other; servers 0 control's interrupts, 1 control, 2 the
//! driver (PIBS for 1 and 3), 3 other (deferrable), 4 other (interrupts, paid by 1). Core 1 has a time table for 0 table and
//! 1 plain; servers 0 and 1 table, 2 plain. Core 2 goes round 0 first and 1 second. Core 3 is partition 7's own.

use crate::mutants::{Mutant, complaint};
use crate::support::{EL2_DATA_PAGE, Editor, READ_ONLY, XN, physical, verify_bytes};
use bulkhead_abi::plan::MODE_DIRECT;
use bulkhead_abi::schedule::{Gate, NO_SERVER, Rule, ScheduleKind, ServerFlag, ServerPlan, WindowPlan};
use bulkhead_abi::{PART_OFFSET, Part};
use bulkhead_guest_abi::guest::GUEST_STOLEN_TIME;
use bulkhead_plan::AreaKind;
use bulkhead_verify::Code;
use std::collections::BTreeSet;

const PAGE: u64 = 4096;

fn server(image: &mut Editor, core: usize, number: usize, change: impl FnOnce(&mut ServerPlan)) {
    image.schedule(core, |plan| change(&mut plan.servers[number]));
}

fn window(image: &mut Editor, number: usize, change: impl FnOnce(&mut WindowPlan)) {
    image.schedule(1, |plan| change(&mut plan.windows[number]));
}

#[rustfmt::skip]
const SLOT_MUTANTS: &[Mutant] = &[
    ("shared core in the hands of `own`", Code::Part, |image| {
        image.header.part = Part::Own as u32;
        let text = image.at(AreaKind::Text);
        image.slice(text)[PART_OFFSET..PART_OFFSET + 8].copy_from_slice(&Part::Own.mark());
    }),
    ("schedule without its magic", Code::Schedule, |image| image.schedule(0, |plan| plan.magic ^= 1)),
    ("schedule without slots", Code::Schedule, |image| image.schedule(0, |plan| plan.slot_count = 0)),
    ("more slots than there are", Code::Schedule, |image| image.schedule(0, |plan| plan.slot_count = 9)),
    ("more servers than there are", Code::Schedule, |image| image.schedule(0, |plan| plan.server_count = 17)),
    ("schedule of unknown kind", Code::Schedule, |image| image.schedule(0, |plan| plan.kind = 4)),
    ("quantum of a round robin under fixed priorities", Code::Schedule, |image| {
        image.schedule(0, |plan| plan.quantum_ticks = 5);
    }),
    ("unknown switch of floating point", Code::Schedule, |image| image.schedule(0, |plan| plan.floating_point = 2)),
    ("scheduler over the last slot's data", Code::Schedule, |image| image.schedule(0, |plan| plan.scheduler.0 -= PAGE)),
    ("quantum of nothing", Code::Schedule, |image| image.schedule(0, |plan| plan.quanta[0].quantum_ticks = 0)),
    ("quantum of a priority that there is not", Code::Schedule, |image| {
        image.schedule(0, |plan| plan.quanta[0].priority = 64);
    }),
    ("round robin without a quantum", Code::Schedule, |image| image.schedule(2, |plan| plan.quantum_ticks = 0)),
    ("unknown interrupt policy", Code::Schedule, |image| image.schedule(2, |plan| plan.on_interrupt = 4)),
    ("server past the count", Code::Leftover, |image| server(image, 0, 9, |server| server.priority = 1)),
    ("window past the count", Code::Leftover, |image| window(image, 5, |window| window.name = 1)),
    ("slot with the plan of another core", Code::VcpuPlan, |image| {
        let other = image.at(AreaKind::VcpuPlan(4, 0));
        image.schedule(0, |plan| plan.slots[1].plan = physical(other));
    }),
    ("two slots with one plan", Code::Slot, |image| {
        image.schedule(0, |plan| plan.slots[1].plan = plan.slots[0].plan);
    }),
    ("a vCPU in two slots", Code::VcpuCore, |image| {
        image.schedule(0, |plan| plan.slots[1].plan = plan.slots[0].plan);
    }),
    ("slot with data of the one before", Code::Slot, |image| {
        image.schedule(0, |plan| plan.slots[1].data = plan.slots[0].data);
    }),
    ("slot with data in the scheduler", Code::Slot, |image| {
        image.schedule(0, |plan| plan.slots[2].data = plan.scheduler);
    }),
    ("slot of another partition", Code::Slot, |image| image.schedule(0, |plan| plan.slots[1].partition = 2)),
    ("partition that keeps its turn without turns", Code::Slot, |image| {
        image.schedule(0, |plan| plan.slots[1].preemptible = 0);
    }),
    ("timer that preempts without turns", Code::Slot, |image| image.schedule(0, |plan| plan.slots[1].timer_route = 1)),
    ("vCPU that believes in another slot", Code::Slot, |image| image.vcpu(1, 0, |plan| plan.slot = 2)),
    ("vCPU that believes that it is alone", Code::Slot, |image| image.vcpu(1, 0, |plan| plan.schedule.0 = 0)),
    ("direct interrupts on a shared core", Code::Slot, |image| image.vcpu(1, 0, |plan| plan.mode = MODE_DIRECT)),
    ("idle guest that keeps a shared core", Code::Hcr, |image| image.vcpu(1, 0, |plan| plan.hcr &= !(1 << 13))),
    ("trap of WFI on an own core", Code::Hcr, |image| image.vcpu(7, 0, |plan| plan.hcr |= 1 << 13)),
    ("tables of the neighbour on the core", Code::Stage2Root, |image| {
        let other = image.guest_root(0);
        image.vcpu(1, 0, |plan| plan.vttbr = plan.vttbr >> 48 << 48 | other);
    }),
    ("VMID of the neighbour on the core", Code::Vmid, |image| {
        image.vcpu(1, 0, |plan| plan.vttbr = plan.vttbr << 16 >> 16 | 1 << 48);
    }),
    ("counters of the neighbour on the core", Code::BootRecord, |image| {
        let other = image.at(AreaKind::Counters(0, 0));
        image.vcpu(1, 0, |plan| plan.counters = physical(other));
    }),
    ("redistributor of another core in one slot", Code::BootRecord, |image| {
        image.vcpu(1, 0, |plan| plan.gicr.0 += 128 << 10);
    }),
    ("private data too short for the scheduler", Code::BootRecord, |image| image.header.cores[0].data_bytes -= PAGE),
    ("private data too large on an own core", Code::BootRecord, |image| image.header.cores[3].data_bytes += PAGE),
    ("boot record of the second slot", Code::BootRecord, |image| {
        image.header.cores[0].plan = physical(image.at(AreaKind::VcpuPlan(1, 0)));
    }),
    ("usage page over a stack", Code::AreaOverlap, |image| {
        let stack = image.at(AreaKind::Stack(0));
        image.schedule(0, |plan| plan.usage = physical(stack));
    }),
    ("vCPU on a shared core not named as such", Code::SharedVcpus, |image| {
        image.partition(3, |plan| plan.shared_vcpus = 0);
    }),
    ("vCPU on its own core named as shared", Code::SharedVcpus, |image| {
        image.partition(7, |plan| plan.shared_vcpus = 1);
    }),
    ("vCPU on a shared core that is told of no stolen time", Code::StolenTime, |image| {
        image.schedule(0, |plan| plan.slots[1].stolen_time.0 = 0);
    }),
    ("stolen time where its guest does not look", Code::StolenTime, |image| {
        image.schedule(0, |plan| plan.slots[1].stolen_time_guest.0 += PAGE);
    }),
    ("stolen time of the neighbour on the core", Code::AreaOverlap, |image| {
        let page = image.at(AreaKind::StolenTime(0, 0));
        image.schedule(0, |plan| plan.slots[1].stolen_time = physical(page));
    }),
    ("stolen time by another clock", Code::StolenTime, |image| image.schedule(0, |plan| plan.tick_length += 1)),
    ("a second vCPU beside one on a shared core", Code::SeveralShared, |image| image.partition(3, |plan| {
        plan.vcpu_count = 2;
        (plan.vcpu_core[1], plan.vcpu_mpidr[1]) = (3, 3);
    })),
    ("two vCPUs of a partition on one core", Code::SeveralShared, |image| image.vcpu(1, 0, |plan| {
        (plan.partition, plan.vcpu) = (0, 1);
    })),
    ("second receiver of the console on a core", Code::ConsoleInput, |image| {
        image.vcpu(6, 0, |plan| plan.uart = physical(0x0900_0000));
    }),
    ("route that does not exist", Code::InterruptRoute, |image| {
        image.partition(0, |plan| plan.interrupts[0].route = 3);
    }),
    ("route that preempts without turns", Code::InterruptRoute, |image| {
        image.partition(0, |plan| plan.interrupts[0].route = 1);
    }),
    ("client of a server that has none", Code::InterruptRoute, |image| {
        image.partition(0, |plan| plan.interrupts[0].client = 1);
    }),
    ("doorbell that asks for another client", Code::InterruptRoute, |image| {
        image.partition(1, |plan| {
            let bell = plan.interrupts.iter_mut().find(|interrupt| interrupt.client == 2).expect("`other` is client 1");
            bell.client = 1;
        });
    }),
    ("word behind the client of an interrupt", Code::InterruptRoute, |image| {
        image.partition(0, |plan| plan.interrupts[0].reserved = 1);
    }),
    ("half a limit of an interrupt", Code::InterruptRoute, |image| {
        image.partition(0, |plan| plan.interrupts[0].limit_events = 0);
    }),
];

#[rustfmt::skip]
const SERVER_MUTANTS: &[Mutant] = &[
    ("servers out of order", Code::Server, |image| image.schedule(0, |plan| plan.servers.swap(0, 1))),
    ("server of no slot", Code::Server, |image| server(image, 0, 3, |server| server.slot = 3)),
    ("slot without a server", Code::Server, |image| server(image, 0, 2, |server| server.slot = 0)),
    ("server under round robin", Code::Server, |image| image.schedule(2, |plan| plan.server_count = 1)),
    ("priority that there is not", Code::Server, |image| server(image, 0, 4, |server| server.priority = 64)),
    ("unknown rule", Code::Server, |image| server(image, 0, 1, |server| server.rule = 5)),
    ("budget of nothing", Code::Server, |image| server(image, 0, 1, |server| server.budget_ticks = 0)),
    ("budget longer than the period", Code::Server, |image| {
        server(image, 0, 1, |server| server.budget_ticks = server.period_ticks + 1);
    }),
    ("period without end", Code::Server, |image| server(image, 0, 1, |server| server.period_ticks = u64::MAX)),
    ("one chunk", Code::Server, |image| server(image, 0, 1, |server| server.chunks = 1)),
    ("no smallest remainder", Code::Server, |image| server(image, 0, 1, |server| server.minimum_ticks = 0)),
    ("smallest remainder above the budget", Code::Server, |image| {
        server(image, 0, 1, |server| server.minimum_ticks = server.budget_ticks + 1);
    }),
    ("least charge above the smallest remainder", Code::Server, |image| {
        server(image, 0, 1, |server| server.least_charge_ticks = server.minimum_ticks + 1);
    }),
    ("least charge of an unlimited server", Code::Server, |image| {
        server(image, 0, 4, |server| server.least_charge_ticks = 1);
    }),
    ("budget of an unlimited server", Code::Server, |image| server(image, 0, 4, |server| server.budget_ticks = 1)),
    ("share of a whole core", Code::Server, |image| server(image, 0, 2, |server| server.share_numerator = 20)),
    ("PIBS without clients", Code::Server, |image| server(image, 0, 2, |server| server.client_count = 0)),
    ("clients out of order", Code::Server, |image| server(image, 0, 2, |server| server.clients.swap(0, 1))),
    ("PIBS above its clients", Code::Server, |image| server(image, 0, 2, |server| server.clients[0].priority = 2)),
    ("published rule of a sporadic server", Code::Server, |image| server(image, 0, 1, |server| server.flags |= 8)),
    ("voluntary return without an interrupt gate", Code::Server, |image| {
        server(image, 0, 1, |server| server.flags |= ServerFlag::VoluntaryReturn.number());
    }),
    ("unknown gate", Code::Server, |image| server(image, 0, 1, |server| server.gate = 4)),
    ("window gate without a time table", Code::Server, |image| {
        server(image, 0, 1, |server| (server.gate, server.windows) = (Gate::Window.number(), 1));
    }),
    ("window of the neighbour", Code::Server, |image| server(image, 1, 1, |server| server.windows = 3)),
    ("unknown answer to an empty budget", Code::Server, |image| server(image, 0, 1, |server| server.on_empty = 3)),
    ("background above the foreground", Code::Server, |image| {
        server(image, 0, 3, |server| server.background_priority = 8);
    }),
    ("background of a server that stops", Code::Server, |image| {
        server(image, 0, 1, |server| server.background_priority = 30);
    }),
    ("payer that there is not", Code::Payer, |image| server(image, 0, 4, |server| server.payer = 5)),
    ("payer who does not pay for himself", Code::Payer, |image| server(image, 0, 1, |server| server.payer = 3)),
    ("payer who works for others", Code::Payer, |image| server(image, 0, 4, |server| server.payer = 2)),
    ("payer is oneself", Code::Payer, |image| server(image, 0, 3, |server| server.payer = 3)),
    ("interrupt gate paid by nobody", Code::OpenGate, |image| server(image, 0, 4, |server| server.payer = NO_SERVER)),
    ("interrupt gate without a limit", Code::OpenGate, |image| {
        server(image, 1, 1, |server| {
            assert_eq!(server.rule, Rule::Unlimited.number());
            (server.gate, server.windows) = (Gate::Interrupt.number(), 0);
        });
    }),
    ("windows that overlap", Code::TimeTable, |image| window(image, 1, |window| window.offset_ticks -= 1)),
    ("windows out of order", Code::TimeTable, |image| image.schedule(1, |plan| plan.windows.swap(0, 1))),
    ("window of nothing", Code::TimeTable, |image| window(image, 0, |window| window.length_ticks = 0)),
    ("window past the major frame", Code::TimeTable, |image| window(image, 1, |window| window.length_ticks <<= 2)),
    ("window with an end beyond all numbers", Code::TimeTable, |image| {
        window(image, 1, |window| window.length_ticks = u64::MAX);
    }),
    ("window of no slot", Code::TimeTable, |image| window(image, 1, |window| window.name = 2)),
    ("time table without windows", Code::TimeTable, |image| image.schedule(1, |plan| plan.window_count = 0)),
    ("time table under fixed priorities", Code::TimeTable, |image| {
        image.schedule(1, |plan| plan.kind = ScheduleKind::FixedPriority.number());
    }),
];

#[rustfmt::skip]
const MAP_MUTANTS: &[Mutant] = &[
    ("schedule of another core mapped", Code::ForeignCore, |image| {
        let schedule = image.at(AreaKind::Schedule(0));
        image.add_el2_page(3, schedule, EL2_DATA_PAGE | READ_ONLY);
    }),
    ("plan of the neighbour core's vCPU mapped", Code::ForeignCore, |image| {
        let plan = image.at(AreaKind::VcpuPlan(4, 0));
        image.add_el2_page(0, plan, EL2_DATA_PAGE | READ_ONLY);
    }),
    ("state of a partition of another core mapped", Code::ForeignPartition, |image| {
        let shared = image.at(AreaKind::Shared(5));
        image.add_el2_page(0, shared, EL2_DATA_PAGE);
    }),
    ("state of the second slot not mapped", Code::El2Missing, |image| {
        let (root, shared) = (image.el2_root(0), image.at(AreaKind::Shared(1)));
        image.set(root, shared, 3, 0);
    }),
    ("schedule writable", Code::El2Rights, |image| {
        let (root, schedule) = (image.el2_root(0), image.at(AreaKind::Schedule(0)));
        image.change(root, schedule, |entry| entry & !READ_ONLY);
    }),
    ("usage page only readable", Code::El2Rights, |image| {
        let (root, usage) = (image.el2_root(0), image.at(AreaKind::Usage(0)));
        image.change(root, usage, |entry| entry | READ_ONLY);
    }),
    ("stolen time only readable at EL2", Code::El2Rights, |image| {
        let (root, page) = (image.el2_root(0), image.at(AreaKind::StolenTime(0, 0)));
        image.change(root, page, |entry| entry | READ_ONLY);
    }),
    ("stolen time that its guest can write", Code::GuestRights, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_STOLEN_TIME.0, |entry| entry | 1 << 7);
    }),
    ("stolen time that its guest sees past the cache", Code::MemoryType, |image| {
        let root = image.guest_root(0);
        image.change(root, GUEST_STOLEN_TIME.0, |entry| entry & !(0b1111 << 2) | 0b0101 << 2);
    }),
    ("data of a slot executable", Code::WriteExecute, |image| {
        let (root, data) = (image.el2_root(0), image.at(AreaKind::Data(0)));
        image.change(root, data + PAGE, |entry| entry & !XN);
    }),
];

/// All of them, for the test that every code has a mutant.
pub(crate) const SHARED_MUTANTS: &[Mutant] = &{
    const COUNT: usize = SLOT_MUTANTS.len() + SERVER_MUTANTS.len() + MAP_MUTANTS.len();
    let mut all = [SLOT_MUTANTS[0]; COUNT];
    let mut place = 0;
    let lists = [SLOT_MUTANTS, SERVER_MUTANTS, MAP_MUTANTS];
    let mut list = 0;
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            all[place] = lists[list][index];
            place += 1;
            index += 1;
        }
        list += 1;
    }
    all
};

#[test]
fn untouched_image_with_shared_cores_is_accepted() {
    let verdict = verify_bytes(&Editor::shared().finish());
    assert_eq!(verdict.findings, []);
    assert_eq!((verdict.extent.shared_cores, verdict.extent.shared_vcpus, verdict.extent.servers), (3, 7, 8));
}

/// QV-22, MZ-10, SG-40: what the schedules say holds in the bytes, or the image is refused.
#[test]
fn every_mutant_of_a_shared_core_is_refused_with_its_code() {
    let base = Editor::shared();
    let complaints = SHARED_MUTANTS.iter().filter_map(|(what, code, change)| {
        let mut image = base.clone();
        change(&mut image);
        complaint(what, *code, &image.finish())
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn mutants_of_shared_cores_have_names_of_their_own() {
    let names: BTreeSet<&str> = SHARED_MUTANTS.iter().map(|(what, _, _)| *what).collect();
    assert_eq!(names.len(), SHARED_MUTANTS.len());
}
