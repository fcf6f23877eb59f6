//! The largest count of every call of the real-time kernel (CH-60): instances of the component `largest`, which makes each in the longest state that its bound names, and what the
//! page of the reference says of it.

use crate::kernel::{Counted, Place, rows, run};
use crate::system::guest;
use crate::ways::{Way, count, endless, sporadic};
use bulkhead_instance::{
    Callers, Component, Import, Instance, Member, Policy, ProcessProgram, Processes, Shares, Thread, write,
};
use bulkhead_kernel_abi::boot::{BandRow, BindingRow, EndPointRow, QuotaRow, SchedulerRow, ServerRow, TcapRow};
use bulkhead_kernel_abi::call::{ROWS, Row};
use bulkhead_kernel_abi::capability::{entry_word, right};
use bulkhead_kernel_abi::{ALL_TICKS, Capability, Kind, MAX_SERVERS, NONE};
use bulkhead_words::Rule;

/// The file that the page of the reference is made of, in the repository.
pub const RECORD: &str = "docs/largest-counts.json";

/// How many instructions a call may take for which this many were measured: with a little room, because the compiler places code otherwise when something else changes, and because a date of
/// some budget falls due within a call or beside it.
#[must_use]
pub const fn ceiling(count: u64) -> u64 {
    if count <= 500 {
        return (count + 5).next_multiple_of(10);
    }
    let room = if count > 2_500 { count / 50 } else { 50 };
    (count + room).next_multiple_of(50)
}

/// What a row of the table of calls is called here: `CALL` or `CALL.OPERATION`.
#[must_use]
pub fn name_of(row: &Row) -> String {
    let call = row.call.name();
    row.operation.map_or_else(|| call.to_owned(), |(_, operation, _)| format!("{call}.{operation}"))
}

/// Slots of a component of these instances.
const TABLE: usize = 256;
/// Where the program finds the other component's function.
const DEEPER: u64 = 11;
/// The second timer of a core, CNTP, stands for a device.
const DEVICE: u32 = 30;
/// The longest name that there can be: on a UART it stands in front of what is printed.
const NAME: &str = "counts-on-calls";
/// The least important server.
const JOBS: u16 = MAX_SERVERS as u16 - 1;
/// Servers that the driver's server works for: that of who counts, and the least important one.
const CLIENTS: u64 = 1 << 1 | 1 << JOBS;
/// 10 ms, of servers that are made and of the device.
const PERIOD_TICKS: u64 = 625_000;

/// A call by the name that `ROWS` gives it, its largest count, and the state in which it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Largest {
    /// `CALL` or `CALL.OPERATION`.
    pub name: String,
    /// Instructions, on the board or in `direct`.
    pub count: u64,
    /// What was as long as it can be.
    pub state: &'static str,
}

/// What each was counted in. "Next" is the first look at the counter of the thread that runs next.
const STATES: &[(&str, &str)] = &[
    (
        "invoke",
        "a signal to a more important thread of a server that a scheduler holds and of whose time a part is for somebody else, to its first instruction; a call and its return are row 2",
    ),
    ("return", "the end of the thread, to the next one's first look"),
    ("receive", "a sleep, with 61 other servers, to the next one's first look"),
    ("events", "none is there: to the first look of a less important server's thread"),
    (
        "switch",
        "from one thread to another one, of whose server's time a part is for somebody else, to its first instruction",
    ),
    ("yield", "to the next thread of the server, to its first look"),
    ("delegate", "between claims with 16 words"),
    ("tcap.create", "until there are as many as there can be"),
    ("tcap.transfer", "between two of one scheduler"),
    ("tcap.merge", "beside 62 other claims"),
    ("tcap.priority", "a claim that nobody runs on"),
    ("tcap.read", "a claim that has time"),
    ("interrupt.done", "held, by its driver on a PIBS server"),
    ("interrupt.expect", "a client of a PIBS server"),
    ("interrupt.cancel", "a client that expects one"),
    ("interrupt.serve", "by its driver on a PIBS server, which a more urgent client raises"),
    ("interrupt.finish", "by its driver on a PIBS server, which falls to a less urgent client"),
    ("thread.create", "the last one that there can be"),
    ("thread.start", "on a less important server"),
    ("thread.suspend", "inside eight calls"),
    ("thread.resume", "inside eight calls"),
    ("thread.stop", "inside eight calls"),
    ("thread.abort", "inside eight calls"),
    ("thread.bind", "inside eight calls"),
    ("thread.limit", "inside eight calls"),
    ("thread.unlimit", "a limit that runs"),
    ("thread.read", "inside eight calls"),
    ("server.create", "with the published test, beside 63 others"),
    ("server.set", "with the published test, beside 63 others"),
    ("server.destroy", "beside 63 others"),
    ("server.read", "a server of a band"),
    ("memory.map", "one page, which is zeroed, and one of translation tables"),
    ("memory.unmap", "one page"),
    ("memory.protect", "one page"),
    ("memory.share", "a part of a region"),
    ("memory.create", "a region of 512 pages, of which none is there yet"),
    ("capability.copy", "into another component's table"),
    ("capability.move", "out of another component's table"),
    ("capability.delete", "the own table"),
    ("capability.revoke", "one that others have"),
    ("capability.read", "another component's table"),
    ("component.spawn", "the whole process of the program `largest`, in slices"),
    ("component.fork", "the whole process of the program `largest`, in slices"),
    ("component.exec", "the whole program `largest`, to its first instructions, in slices"),
    ("component.exit", "to the first look of its maker, which is more important"),
    ("component.destroy", "the whole process, with a child in its quota, in slices"),
    ("component.reset", "the whole process, in slices"),
    ("component.fault", "a process that has ended"),
    ("component.read", "a process that has ended"),
    ("print", "28 lines of a letter behind an unfinished one of somebody else, on the board"),
    ("version", "the fast path"),
];

fn capability(kind: Kind, object: u16) -> Capability {
    Capability { kind: kind.number(), rights: kind.rights(), object, grant: 1, word: 1 }
}

/// A table with these capabilities from slot 1 on.
fn table(list: &[Capability]) -> Vec<Capability> {
    let mut slots = [&[Capability::NULL], list].concat();
    slots.resize(TABLE, Capability::NULL);
    slots
}

fn imports() -> Vec<Import> {
    vec![Import { name: "deeper".to_owned(), slot: DEEPER }]
}

fn threads(list: &[(u64, u16)]) -> Vec<Thread> {
    list.iter().map(|(argument, server)| Thread { argument: *argument, stack_bytes: 8192, server: *server }).collect()
}

/// A server whose budget never ends, and of which the published test asks for next to nothing.
fn long(level: u8) -> ServerRow {
    ServerRow { level, budget_ticks: 1 << 46, ..endless() }
}

fn end_point(thread: u16) -> EndPointRow {
    EndPointRow { thread, tcap: NONE, ..EndPointRow::default() }
}

fn quota() -> QuotaRow {
    QuotaRow { pages: 512, components: 8, threads: 12, regions: 8, programs: 1, ..QuotaRow::default() }
}

/// All but calls of schedulers and of processes: as many servers as there can be, and a component into which a thread goes eight calls deep.
fn calls(program: &[u8], kernel: &[u8]) -> Vec<u8> {
    let share = ServerRow {
        rule: Rule::Pibs.number(),
        budget_ticks: 1,
        period_ticks: 8,
        clients: CLIENTS,
        ..sporadic(0, 0, 0)
    };
    let in_band = ServerRow { band: 0, ..sporadic(2, 0, PERIOD_TICKS) };
    let band = BandRow {
        shortest_period_ticks: PERIOD_TICKS,
        longest_period_ticks: PERIOD_TICKS,
        budget_ticks: PERIOD_TICKS / 100,
        smallest_budget_ticks: 1_000,
        first_server: 2,
        servers: 1,
        admission: 1,
        ..BandRow::default()
    };
    let small = sporadic(3, 1_000, 1_000 * 1_024);
    // A PIBS server wants to know its client's period.
    let main = ServerRow { budget_ticks: 1 << 35, period_ticks: 1 << 40, ..endless() };
    // In the order of their levels.
    let first = vec![share, ServerRow { level: 1, ..main }, in_band];
    let servers = [first, vec![small; MAX_SERVERS - 4], vec![long(4)]].concat();
    let call = Capability { word: entry_word(0, 0), ..capability(Kind::Call, 1) };
    let send = |end_point, word| Capability { word, ..capability(Kind::Send, end_point) };
    let slots = [
        capability(Kind::Receive, 0),
        capability(Kind::Receive, 1),
        send(0, 1),
        send(1, 1),
        send(1, 2),
        capability(Kind::Interrupt, 0),
        capability(Kind::Thread, 2),
        capability(Kind::Server, JOBS),
        capability(Kind::Band, 0),
        capability(Kind::Quota, 0),
        call,
        capability(Kind::Table, 1),
        send(2, 1),
        capability(Kind::Receive, 3),
        send(3, 2),
    ];
    let nothing = [Capability::NULL; DEEPER as usize - 1];
    let component = |name: &str, capabilities: Vec<Capability>| Component {
        name: name.to_owned(),
        program,
        capabilities,
        imports: imports(),
        ..Component::default()
    };
    let instance = Instance {
        kernel,
        components: vec![
            Component { threads: threads(&[(1, 1), (2, 1), (3, JOBS), (7, 0)]), ..component(NAME, table(&slots)) },
            Component {
                callers: Callers { stacks: 9, stack_bytes: 4096 },
                policy: Policy { is_abortable: true, ..Policy::default() },
                ..component("deep", table(&[&nothing[..], &[call]].concat()))
            },
        ],
        servers,
        end_points: vec![end_point(0), end_point(1), end_point(NONE), end_point(3)],
        bindings: vec![BindingRow {
            intid: DEVICE,
            server: 0,
            default_client: JOBS,
            clients: CLIENTS,
            end_point: 3,
            bits: 1,
            period_ticks: PERIOD_TICKS,
            ..BindingRow::default()
        }],
        shares: Shares { bands: vec![band], ..Shares::default() },
        wires: Vec::new(),
        server_names: Vec::new(),
        // With those of the host as many threads as there can be.
        processes: Processes { programs: Vec::new(), quotas: vec![QuotaRow { threads: 60, ..quota() }] },
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// A scheduler with two threads that can run, and a less important server.
fn scheduler(program: &[u8], kernel: &[u8]) -> Vec<u8> {
    let claim = |priority| TcapRow {
        scheduler: 1,
        left_ticks: ALL_TICKS,
        expires_ticks: ALL_TICKS,
        end_point: NONE,
        priority,
        ..TcapRow::default()
    };
    let member = |thread: u16| Member { thread, scheduler: 0, tcap: 2 + thread, label: thread.into() };
    let slots = [
        capability(Kind::Scheduler, 0),
        capability(Kind::TCap, 0),
        capability(Kind::Thread, 0),
        capability(Kind::Thread, 1),
    ];
    let instance = Instance {
        kernel,
        components: vec![Component {
            name: "schedules".to_owned(),
            program,
            threads: threads(&[(5, 0), (5, 0), (4, 0), (8, 1)]),
            capabilities: table(&slots),
            imports: imports(),
            ..Component::default()
        }],
        servers: vec![ServerRow { holder: 0, ..long(0) }, long(1)],
        end_points: Vec::new(),
        bindings: Vec::new(),
        shares: Shares {
            schedulers: vec![SchedulerRow { thread: 2, parent: NONE, id: 1, reserved: 0 }],
            numbers: Vec::new(),
            tcaps: vec![claim(2), claim(3)],
            bands: Vec::new(),
            members: vec![member(0), member(1), Member { thread: 2, scheduler: NONE, tcap: 0, label: 0 }],
        },
        wires: Vec::new(),
        server_names: Vec::new(),
        processes: Processes::default(),
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// One that makes processes, which are less important.
fn processes(program: &[u8], kernel: &[u8]) -> Vec<u8> {
    let server = Capability { rights: right::BIND, ..capability(Kind::Server, 1) };
    let instance = Instance {
        kernel,
        components: vec![Component {
            name: "makes".to_owned(),
            program,
            threads: threads(&[(6, 0)]),
            capabilities: table(&[capability(Kind::Receive, 0), capability(Kind::Quota, 0), server]),
            imports: imports(),
            ..Component::default()
        }],
        servers: vec![long(0), long(1)],
        end_points: vec![end_point(0)],
        bindings: Vec::new(),
        shares: Shares::default(),
        wires: Vec::new(),
        server_names: Vec::new(),
        processes: Processes {
            programs: vec![ProcessProgram {
                name: "largest".to_owned(),
                file: program,
                imports: imports(),
                stack_bytes: 16 << 10,
                floating_point: false,
            }],
            quotas: vec![quota()],
        },
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// The instances that count.
#[must_use]
pub fn images() -> [Vec<u8>; 3] {
    let (program, kernel) = (guest("kernel/largest.elf"), guest("kernel/kernel.elf"));
    [calls(&program, &kernel), scheduler(&program, &kernel), processes(&program, &kernel)]
}

/// What one of them counts. The last word is of who counts; somebody's line that never ends may be behind it.
fn counted(image: &[u8], place: Place) -> Vec<Counted> {
    let lines = run(image, place);
    assert!(lines.iter().any(|line| line == "bench done"), "{lines:#?}");
    rows(&lines)
}

/// The largest count of every call and operation, in the order of the table of calls.
///
/// # Panics
/// When one was refused, or nobody counts it.
#[must_use]
pub fn largest() -> Vec<Largest> {
    let images = images();
    let places = [Place::Board, Place::Direct];
    let mut found: Vec<Counted> =
        images.iter().flat_map(|image| places.into_iter().flat_map(|place| counted(image, place))).collect();
    for (name, way) in [("invoke", Way::SignalDivided), ("switch", Way::SwitchDivided), ("delegate", Way::DelegateAll)]
    {
        found.push(Counted { name: name.to_owned(), ..count(way, 50, Place::Board) });
    }
    let of = |row: &Row| {
        let name = name_of(row);
        let count = found.iter().filter(|one| one.name == name).map(|one| one.most).max();
        let state = STATES.iter().find(|(known, _)| *known == name).map(|(_, state)| *state);
        match (count, state) {
            (Some(count), Some(state)) => Largest { name, count, state },
            _ => panic!("nobody counts {name}: {found:#?}"),
        }
    };
    ROWS.iter().map(of).collect()
}
