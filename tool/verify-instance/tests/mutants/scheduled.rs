//! The same of an instance with schedulers in user space and a band: three schedulers, one below the other, on one server, and two tasks of the lowest one.

use crate::judge;
use crate::sample::{Mutant, kernel, program};
use bulkhead_instance::{Component, Instance, Member, Shares, Thread, write};
use bulkhead_kernel_abi::boot::{BandRow, EndPointRow, SchedulerRow, ServerRow, TcapRow, ThreadRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{ALL_TICKS, Capability, Kind as Object, NONE};
use bulkhead_verify_instance::Kind;
use std::collections::BTreeSet;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Servers: one that the first scheduler holds, two of a band, one that its threads hold.
const HELD: u16 = 0;
const BAND: u16 = 1;
const PLAIN: u16 = 3;
const SERVERS: usize = 4;
/// Threads: leaders of the three schedulers, two tasks, and one of another component.
const TASKS: usize = 3;
const OTHER: usize = 5;
/// Slots of the first component: its scheduler, the leader of the second one, a claim, a server, a band.
const SLOTS: [(Object, u8, u16); 5] = [
    (Object::Scheduler, right::USE, 0),
    (Object::Thread, right::USE | right::BIND, 1),
    (Object::TCap, right::USE | right::DELEGATE, 4),
    (Object::Server, right::BIND | right::READ, PLAIN),
    (Object::Band, right::USE, 0),
];

pub(crate) fn sample() -> Vec<u8> {
    let (kernel, program) = (kernel(), program());
    let component = |name: &str, servers: &[u16], capabilities: Vec<Capability>| Component {
        name: name.to_owned(),
        program: &program,
        threads: servers.iter().map(|server| Thread { argument: 0, stack_bytes: 8192, server: *server }).collect(),
        capabilities,
        ..Component::default()
    };
    let slot = |(kind, rights, object): (Object, u8, u16)| Capability {
        kind: kind.number(),
        rights,
        object,
        grant: 1,
        word: 0,
    };
    let slots = std::iter::once(Capability::NULL).chain(SLOTS.map(slot)).collect();
    let server = ServerRow { holder: NONE, band: NONE, background: 255, ..ServerRow::default() };
    let place = ServerRow { rule: 1, flags: 1, chunks: 8, level: 1, band: 0, ..server };
    let scheduler = |number: u16, parent: u16| SchedulerRow { thread: number, parent, id: number + 1, reserved: 0 };
    let claim = |server: u16, scheduler: u16| TcapRow {
        left_ticks: if server == NONE { 0 } else { ALL_TICKS },
        server,
        scheduler,
        end_point: NONE,
        priority: 9,
        expires_ticks: ALL_TICKS,
        ..TcapRow::default()
    };
    let member = |thread: u16, scheduler: u16, tcap: u16, label: u64| Member { thread, scheduler, tcap, label };
    let instance = Instance {
        server_names: Vec::new(),
        processes: bulkhead_instance::Processes::default(),
        kernel: &kernel,
        components: vec![component("rt", &[HELD; 5], slots), component("other", &[PLAIN], vec![Capability::NULL; 2])],
        servers: vec![server, place, place, ServerRow { level: 2, ..server }]
            .into_iter()
            .enumerate()
            .map(|(number, row)| if number == usize::from(HELD) { ServerRow { holder: 0, ..row } } else { row })
            .collect(),
        end_points: vec![EndPointRow { thread: 3, tcap: 8, ..EndPointRow::default() }],
        bindings: vec![],
        wires: Vec::new(),
        shares: Shares {
            schedulers: vec![scheduler(0, NONE), scheduler(1, 0), scheduler(2, 1)],
            numbers: vec![1, 9, 9],
            tcaps: vec![claim(HELD, 1), claim(HELD, 2), claim(HELD, 3), claim(HELD, 3), claim(NONE, 3)],
            bands: vec![BandRow {
                shortest_period_ticks: 100,
                longest_period_ticks: 500,
                budget_ticks: 50,
                smallest_budget_ticks: 5,
                first_server: BAND,
                servers: 2,
                ..BandRow::default()
            }],
            members: vec![
                member(0, NONE, HELD, 0),
                member(1, 0, 4, 0),
                member(2, 1, 5, 0),
                member(3, 2, 6, 0),
                member(4, 2, 7, 1),
            ],
        },
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

fn change<T: FromBytes + IntoBytes + Immutable>(
    mutant: &mut Mutant,
    (offset, number): (u32, usize),
    change: impl FnOnce(&mut T),
) {
    let (place, mut row) = mutant.row(offset, number);
    change(&mut row);
    mutant.put(place, &row);
}

fn scheduler(mutant: &mut Mutant, number: usize, with: impl FnOnce(&mut SchedulerRow)) {
    change(mutant, (mutant.tables().schedulers.offset, number), with);
}

fn server(mutant: &mut Mutant, number: u16, with: impl FnOnce(&mut ServerRow)) {
    change(mutant, (mutant.tables().servers.offset, number.into()), with);
}

fn band(mutant: &mut Mutant, with: impl FnOnce(&mut BandRow)) {
    change(mutant, (mutant.tables().bands.offset, 0), with);
}

/// A claim that does not go with a server: 0 is the second leader's.
fn claim(mutant: &mut Mutant, number: usize, with: impl FnOnce(&mut TcapRow)) {
    change(mutant, (mutant.tables().tcaps.offset, SERVERS + number), with);
}

fn thread(mutant: &mut Mutant, number: usize, with: impl FnOnce(&mut ThreadRow)) {
    change(mutant, (mutant.tables().threads.offset, number), with);
}

fn end_point(mutant: &mut Mutant, with: impl FnOnce(&mut EndPointRow)) {
    change(mutant, (mutant.tables().end_points.offset, 0), with);
}

/// Puts a capability of the first component into the other one, whose second slot is empty.
fn stolen(mutant: &mut Mutant, slot: usize) {
    let offset = mutant.tables().capabilities.offset;
    let (_, given) = mutant.row::<Capability>(offset, slot + 1);
    change(mutant, (offset, SLOTS.len() + 2), |place: &mut Capability| *place = given);
}

/// Its name, the kind that it is refused for, and the change.
pub(crate) type Corruption = (&'static str, Kind, fn(&mut Mutant));

pub(crate) const CORRUPTIONS: &[Corruption] = &[
    ("schedulers in a circle", Kind::Scheduler, |mutant| scheduler(mutant, 0, |row| row.parent = 2)),
    ("scheduler above itself", Kind::Scheduler, |mutant| scheduler(mutant, 2, |row| row.parent = 2)),
    ("scheduler below nobody", Kind::Scheduler, |mutant| scheduler(mutant, 1, |row| row.parent = 3)),
    ("events for nobody", Kind::Scheduler, |mutant| scheduler(mutant, 1, |row| row.thread = 6)),
    ("events of two for one", Kind::Scheduler, |mutant| scheduler(mutant, 1, |row| row.thread = 2)),
    ("number of another scheduler", Kind::Scheduler, |mutant| scheduler(mutant, 1, |row| row.id = 3)),
    ("number of the kernel", Kind::Scheduler, |mutant| scheduler(mutant, 0, |row| row.id = 0)),
    ("bits of a scheduler", Kind::Scheduler, |mutant| scheduler(mutant, 0, |row| row.reserved = 1)),
    ("held by nobody", Kind::Scheduler, |mutant| server(mutant, HELD, |row| row.holder = 3)),
    ("a band's server that is held", Kind::Scheduler, |mutant| server(mutant, BAND, |row| row.holder = 0)),
    ("label of two threads", Kind::Scheduler, |mutant| thread(mutant, TASKS + 1, |row| row.label = 0)),
    ("label for nobody", Kind::Scheduler, |mutant| thread(mutant, OTHER, |row| row.label = 1)),
    ("held by the wrong one", Kind::Claim, |mutant| server(mutant, PLAIN, |row| row.holder = 0)),
    ("held by its threads", Kind::Claim, |mutant| server(mutant, HELD, |row| row.holder = NONE)),
    ("held from below", Kind::Claim, |mutant| server(mutant, HELD, |row| row.holder = 2)),
    ("band of more", Kind::Band, |mutant| band(mutant, |row| row.servers = 3)),
    ("band of nothing", Kind::Band, |mutant| band(mutant, |row| row.servers = 0)),
    ("band beside its servers", Kind::Band, |mutant| band(mutant, |row| row.first_server = 2)),
    ("periods reversed", Kind::Band, |mutant| band(mutant, |row| row.longest_period_ticks = 99)),
    ("more than its period", Kind::Band, |mutant| band(mutant, |row| row.budget_ticks = 101)),
    ("smallest above all", Kind::Band, |mutant| band(mutant, |row| row.smallest_budget_ticks = 51)),
    ("servers of nothing", Kind::Band, |mutant| band(mutant, |row| row.smallest_budget_ticks = 0)),
    ("unknown test", Kind::Band, |mutant| band(mutant, |row| row.admission = 2)),
    ("server of another band", Kind::Band, |mutant| server(mutant, BAND, |row| row.band = 1)),
    ("a band that begins with a budget", Kind::Server, |mutant| server(mutant, BAND, |row| row.budget_ticks = 5)),
    ("a band in the background", Kind::Server, |mutant| server(mutant, BAND, |row| row.background = 65)),
    ("a band at two levels", Kind::Server, |mutant| {
        server(mutant, BAND + 1, |row| row.level = 2);
        server(mutant, PLAIN, |row| row.level = 3);
    }),
    ("vector out of order", Kind::Claim, |mutant| claim(mutant, 2, |row| row.vector.swap(0, 1))),
    ("vector with a scheduler twice", Kind::Claim, |mutant| claim(mutant, 2, |row| row.vector[1] = row.vector[0])),
    ("vector that is longer", Kind::Claim, |mutant| claim(mutant, 2, |row| row.words = 1)),
    ("vector without end", Kind::Claim, |mutant| claim(mutant, 2, |row| row.words = 17)),
    ("vector that forgets one", Kind::Claim, |mutant| claim(mutant, 1, |row| (row.words, row.vector[0]) = (0, 0))),
    ("word of nobody", Kind::Claim, |mutant| claim(mutant, 1, |row| row.vector[0] = 4 << 48 | 9)),
    ("word of the kernel", Kind::Claim, |mutant| claim(mutant, 1, |row| row.vector[0] = 9)),
    ("word without a number", Kind::Claim, |mutant| claim(mutant, 1, |row| row.vector[0] = 1 << 48)),
    ("word of its own", Kind::Claim, |mutant| claim(mutant, 1, |row| row.vector[0] = 2 << 48 | 9)),
    ("claim without a number", Kind::Claim, |mutant| claim(mutant, 0, |row| row.priority = 0)),
    ("claim of a part", Kind::Claim, |mutant| claim(mutant, 0, |row| row.left_ticks = 7)),
    ("claim on a server of threads", Kind::Claim, |mutant| claim(mutant, 0, |row| row.server = PLAIN)),
    ("claim that expires", Kind::Claim, |mutant| claim(mutant, 0, |row| row.expires_ticks = 1)),
    ("claim of nobody's scheduler", Kind::Claim, |mutant| claim(mutant, 4, |row| row.scheduler = 4)),
    ("empty claim on a server", Kind::Claim, |mutant| claim(mutant, 4, |row| row.server = PLAIN)),
    ("claim of another scheduler", Kind::Claim, |mutant| claim(mutant, 0, |row| row.scheduler = 3)),
    ("two threads on one claim", Kind::Claim, |mutant| thread(mutant, TASKS + 1, |row| row.tcap = 6)),
    ("thread on its server's own", Kind::Claim, |mutant| thread(mutant, TASKS, |row| row.tcap = HELD)),
    ("thread of nobody", Kind::Claim, |mutant| thread(mutant, TASKS, |row| row.scheduler = NONE)),
    ("thread of a scheduler elsewhere", Kind::Claim, |mutant| thread(mutant, OTHER, |row| row.scheduler = 0)),
    ("thread on a place of a band", Kind::Claim, |mutant| {
        thread(mutant, OTHER, |row| (row.server, row.tcap) = (BAND, BAND))
    }),
    ("end point with the time of a thread", Kind::Claim, |mutant| end_point(mutant, |row| row.tcap = 6)),
    ("end point with the time of a server", Kind::Claim, |mutant| end_point(mutant, |row| row.tcap = PLAIN)),
    ("scheduler of another component", Kind::Capability, |mutant| stolen(mutant, 0)),
    ("thread of another component", Kind::Capability, |mutant| stolen(mutant, 1)),
    ("time of another component", Kind::Capability, |mutant| stolen(mutant, 2)),
    ("end of a server of the host", Kind::Capability, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        change(mutant, (offset, 4), |slot: &mut Capability| slot.rights |= right::STOP);
    }),
    ("server of a band", Kind::Capability, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        change(mutant, (offset, 4), |slot: &mut Capability| slot.object = BAND);
    }),
    ("band that is not there", Kind::Capability, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        change(mutant, (offset, 5), |slot: &mut Capability| slot.object = 1);
    }),
];

/// CH-51, CH-53, CH-61, CH-63, QV-37: who schedules whom, on what time, is in these bytes, and no part of it can be another unseen.
#[test]
fn each_corruption_of_who_schedules_is_refused() {
    assert_eq!(judge(&sample()), []);
    let mut messages = BTreeSet::new();
    for (name, kind, change) in CORRUPTIONS {
        let mut mutant = Mutant(sample());
        change(&mut mutant);
        let findings = judge(&mutant.sealed().0);
        let found = findings.iter().find(|finding| finding.kind == *kind);
        let message = found.unwrap_or_else(|| panic!("{name}: {findings:?}")).message.clone();
        println!("{name}: {message}");
        messages.insert(message);
    }
    assert!(messages.len() >= 25, "{} messages for {} corruptions", messages.len(), CORRUPTIONS.len());
}
