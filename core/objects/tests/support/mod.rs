//! A fake of machine and time, and an instance with some of everything.
#![allow(dead_code)] // Each test program uses a part of it.

pub(crate) mod model;
pub(crate) mod pool;
pub(crate) mod state;
pub(crate) mod time;

use bulkhead_kernel_abi::boot::{
    BindingRow, BootHeader, ComponentRow, EndPointRow, EntryRow, ProgramRow, QuotaRow, RegionRow, SchedulerRow,
    SegmentRow, ServerRow, StackRow, Tables, TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::call::{Call, ROWS};
use bulkhead_kernel_abi::capability::{entry_word, remote_word, right};
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_objects::{
    Binding, Choice, Component, Counters, EndPoint, Machine, NEVER, Objects, Outcome, Page, Position, Process, Quota,
    Region, Room, Scheduler, Thread,
};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The reference of calls is made of a table: it has every code that a call was seen to answer.
#[track_caller]
pub(crate) fn assert_in_table(call: Call, operation: u64, code: Code) {
    let is_it = |number: u64| number == operation;
    let row = ROWS.iter().find(|row| row.call == call && row.operation.is_none_or(|(number, ..)| is_it(number)));
    let codes = row.map_or(&[Code::BadCall][..], |row| row.codes);
    let is_in_table = codes.contains(&code) || row.is_some() && Code::COMMON.contains(&code);
    assert!(is_in_table, "{} {operation} answers {code:?}, which the table of calls does not have", call.name());
}

/// Ticks of a day that never comes in these tests.
pub(crate) const SOON: u64 = 1_000;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fake {
    pub(crate) now: u64,
    /// Looks for interrupts until one waits; 0 for none.
    pub(crate) looks: Cell<u32>,
    pub(crate) printed: Vec<u8>,
    pub(crate) is_full: bool,
    pub(crate) wire: Vec<(u16, u16, u64)>,
    pub(crate) masked: BTreeSet<u32>,
    pub(crate) deactivated: Vec<u32>,
    pub(crate) restored: Vec<(u16, u32)>,
    pub(crate) pages: u32,
    /// Root of each temporal capability, what can be used of it, and its rank: the lower the better.
    pub(crate) roots: Vec<u16>,
    pub(crate) usable: Vec<u64>,
    pub(crate) ranks: Vec<u64>,
    /// What time was told of each position.
    pub(crate) filled: Vec<Option<u16>>,
    pub(crate) priorities: Vec<(u16, u16, u64)>,
    /// Servers whose claims ask though nothing can be used, and claims that have passed through no scheduler that switches, a bit each.
    pub(crate) goes_on: u64,
    pub(crate) foreign: u64,
    /// Schedulers whose parents are to be told, and who pays.
    pub(crate) told_later: Vec<(u16, Option<u16>)>,
    /// Permanent numbers of claims.
    pub(crate) permanent: [u64; 8],
    /// The claim that `tcap create` makes is there.
    pub(crate) has_made: bool,
    /// Servers of a band whose time is due to be the band's again.
    pub(crate) to_give_back: u32,
    /// Budget and period of servers in the band.
    pub(crate) made: [Option<[u64; 2]>; 2],
    pub(crate) dates: Vec<u64>,
    pub(crate) has_budget: bool,
    pub(crate) requests: Vec<(u16, u16, bool)>,
    /// Pages of the pool; a copy of the world shares those that nobody writes.
    pub(crate) pool: Vec<Rc<Vec<u64>>>,
    /// What the core was told to forget, and when a page was written over: see [`pool`].
    pub(crate) log: Vec<pool::Log>,
    /// How often something was written to a page.
    pub(crate) changes: u64,
}

impl Machine for Fake {
    fn now_ticks(&self) -> u64 {
        self.now
    }
    fn is_interrupted(&self) -> bool {
        let left = self.looks.get();
        self.looks.set(left.saturating_sub(1));
        left == 1
    }
    fn print(&mut self, _component: u16, bytes: &[u8]) -> bool {
        if !self.is_full {
            self.printed.extend(bytes);
        }
        !self.is_full
    }
    fn build_and_frequency(&self) -> (u64, u64) {
        (0xb1d, 62_500_000)
    }
    fn remote_send(&mut self, wire: u16, index: u16, bits: u64) -> Result<(), Code> {
        if self.is_full {
            return Err(Code::Busy);
        }
        self.wire.push((wire, index, bits));
        Ok(())
    }
    fn set_masked(&mut self, intid: u32, is_masked: bool) {
        if is_masked {
            self.masked.insert(intid)
        } else {
            self.masked.remove(&intid)
        };
    }
    fn deactivate(&mut self, intid: u32) {
        self.deactivated.push(intid);
    }
    fn restore(&mut self, component: u16, page: u32) -> bool {
        self.restored.push((component, page));
        page < self.pages
    }
}

/// Components of the instance.
pub(crate) const APP: u16 = 0;
pub(crate) const SERVICE: u16 = 1;
pub(crate) const RT: u16 = 2;
pub(crate) const SUPERVISOR: u16 = 3;
pub(crate) const CHILD: u16 = 4;

/// Slots that every component's table has; those from [`EMPTY`] on are empty.
pub(crate) const CALL_SERVICE: u64 = 1;
pub(crate) const CALL_RT: u64 = 2;
pub(crate) const SEND_APP: u64 = 3;
pub(crate) const SEND_SUPERVISOR: u64 = 4;
/// Receive of end point 0; those of 1 to 4 follow.
pub(crate) const RECEIVE: u64 = 5;
pub(crate) const SCHEDULER: u64 = 10;
pub(crate) const CHILD_SCHEDULER: u64 = 11;
pub(crate) const TABLE_SERVICE: u64 = 12;
pub(crate) const COMPONENT_SERVICE: u64 = 13;
pub(crate) const COMPONENT_APP: u64 = 14;
pub(crate) const INTERRUPT: u64 = 15;
pub(crate) const SERVER: u64 = 16;
pub(crate) const TCAP_TASK: u64 = 17;
pub(crate) const REMOTE: u64 = 18;
pub(crate) const SEND_TASK: u64 = 19;
pub(crate) const SEND_GUEST: u64 = 20;
pub(crate) const CALL_APP: u64 = 21;
pub(crate) const WEAK_CALL: u64 = 22;
pub(crate) const SERVER_RT: u64 = 23;
pub(crate) const SEND_CHILD_TASK: u64 = 24;
pub(crate) const CALL_NOWHERE: u64 = 25;
pub(crate) const TCAP_APP: u64 = 26;
/// Thread 0; those of 1 to 7 follow.
pub(crate) const THREAD: u64 = 28;
pub(crate) const EMPTY: u64 = 36;
pub(crate) const SLOTS: u32 = 41;

/// A capability with every right.
pub(crate) fn capability(kind: Kind, object: u16, word: u64) -> Capability {
    Capability { kind: kind.number(), rights: kind.rights(), object, grant: 1, word }
}

fn table() -> Vec<Capability> {
    let mut slots = vec![Capability::NULL; SLOTS as usize];
    let mut put = |slot: u64, capability: Capability| slots[slot as usize] = capability;
    put(CALL_SERVICE, capability(Kind::Call, SERVICE, entry_word(1, 0x1234)));
    put(CALL_RT, capability(Kind::Call, RT, entry_word(0, 0x77)));
    put(CALL_APP, capability(Kind::Call, APP, entry_word(0, 1)));
    put(WEAK_CALL, Capability { rights: 0, ..capability(Kind::Call, SERVICE, 0) });
    put(CALL_NOWHERE, capability(Kind::Call, SERVICE, entry_word(2, 0)));
    put(SEND_APP, capability(Kind::Send, 0, 1));
    put(SEND_SUPERVISOR, capability(Kind::Send, 1, 2));
    put(SEND_TASK, capability(Kind::Send, 2, 4));
    put(SEND_CHILD_TASK, capability(Kind::Send, 3, 8));
    put(SEND_GUEST, capability(Kind::Send, 4, 16));
    for end_point in 0..5 {
        put(RECEIVE + u64::from(end_point), capability(Kind::Receive, end_point, 0));
    }
    put(SCHEDULER, capability(Kind::Scheduler, 0, 0));
    put(CHILD_SCHEDULER, capability(Kind::Scheduler, 1, 0));
    put(TABLE_SERVICE, capability(Kind::Table, SERVICE, 0));
    put(COMPONENT_SERVICE, capability(Kind::Component, SERVICE, 0));
    put(COMPONENT_APP, capability(Kind::Component, APP, 0));
    put(INTERRUPT, capability(Kind::Interrupt, 0, 0));
    put(SERVER, capability(Kind::Server, 0, 0));
    put(SERVER_RT, capability(Kind::Server, 2, 0));
    put(TCAP_TASK, capability(Kind::TCap, 3, 0));
    put(TCAP_APP, capability(Kind::TCap, 0, 0));
    put(REMOTE, capability(Kind::RemoteSend, 0, remote_word(5, 0x60)));
    for thread in 0..8 {
        put(
            THREAD + u64::from(thread),
            Capability { rights: Kind::Thread.rights() & !right::REVOKE, ..capability(Kind::Thread, thread, 0) },
        );
    }
    slots
}

/// Threads: two of the application, the scheduler's, its task, the supervisor's, the child scheduler's, its task, a driver that is also
/// notified on time of the scheduler.
const HOMES: [u16; 8] = [APP, APP, RT, RT, SUPERVISOR, CHILD, CHILD, SUPERVISOR];
const TCAPS: [u16; 8] = [0, 0, 2, 3, 0, 4, 5, 1];
/// Root servers of the temporal capabilities; number 6 is a delegated one.
const ROOTS: [u16; 7] = [0, 1, 2, 2, 2, 2, 2];
/// All claims: of the host, one that can be made, and those of the band's servers.
const CLAIMS: usize = ROOTS.len() + 3;

pub(crate) struct Rows {
    header: BootHeader,
    pub(crate) components: Vec<ComponentRow>,
    entries: Vec<EntryRow>,
    stacks: Vec<StackRow>,
    capabilities: Vec<Capability>,
    pub(crate) threads: Vec<ThreadRow>,
    pub(crate) servers: Vec<ServerRow>,
    pub(crate) schedulers: Vec<SchedulerRow>,
    pub(crate) end_points: Vec<EndPointRow>,
    pub(crate) bindings: Vec<BindingRow>,
    /// As many as the host made: their rows are the fake's.
    tcaps: Vec<TcapRow>,
    quotas: Vec<QuotaRow>,
    regions: Vec<RegionRow>,
    programs: Vec<ProgramRow>,
    segments: Vec<SegmentRow>,
}

impl Rows {
    pub(crate) fn new() -> Self {
        let mut components: Vec<ComponentRow> = (0..5)
            .map(|number| ComponentRow {
                root: 0x4000_0000 + u64::from(number) * 0x1000,
                first_slot: number * SLOTS,
                slots: SLOTS,
                first_entry: number * 2,
                entries: 2,
                first_stack: number * 2,
                stacks: 2,
                supervisor: NONE,
                quota: NONE,
                ..Default::default()
            })
            .collect();
        let service = &mut components[usize::from(SERVICE)];
        (service.needs_ticks, service.abortable, service.supervisor, service.supervisor_bits) = (20, 1, 1, 0x100);
        let threads = (0..8usize).map(|number| ThreadRow {
            entry: 0x1000 * (number as u64 + 1),
            stack: 0x10_0000 + number as u64 * 0x1000,
            argument: 7,
            label: 100 + number as u64,
            component: HOMES[number],
            server: ROOTS[usize::from(TCAPS[number])],
            scheduler: match number {
                3 => 0,
                6 => 1,
                _ => NONE,
            },
            tcap: TCAPS[number],
            end_point: NONE,
            ..Default::default()
        });
        let server = |holder: u16, tcap: u16, quantum_ticks: u64| ServerRow {
            holder,
            tcap,
            quantum_ticks,
            ..Default::default()
        };
        let end_point = |thread: u16, tcap: u16| EndPointRow { thread, tcap, ..Default::default() };
        let binding = |intid: u32, end_point: u16| BindingRow {
            bits: 0x8000,
            clients: 5,
            intid,
            end_point,
            server: 0,
            default_client: 2,
            ..Default::default()
        };
        Self {
            header: BootHeader::default(),
            components,
            entries: (0..10).map(|number| EntryRow { address: 0x40_0000 + number * 0x100, signature: 0 }).collect(),
            stacks: (0..20).map(|number| StackRow { top: 0x80_0000 + number * 0x2000 }).collect(),
            capabilities: (0..5).flat_map(|_| table()).collect(),
            threads: threads.collect(),
            // A row says how long a turn is even where a scheduler says who runs.
            servers: vec![server(NONE, 0, 10), server(NONE, 1, 0), server(0, 2, 10)],
            schedulers: vec![
                SchedulerRow { thread: 2, parent: NONE, id: 1, reserved: 0 },
                SchedulerRow { thread: 5, parent: 0, id: 2, reserved: 0 },
            ],
            end_points: vec![
                end_point(0, NONE),
                end_point(4, NONE),
                end_point(3, NONE),
                end_point(6, NONE),
                end_point(7, 6),
            ],
            bindings: (0..6u32).map(|number| binding(40 + number, 1)).collect(),
            tcaps: vec![TcapRow::default(); ROOTS.len()],
            quotas: vec![],
            regions: vec![],
            programs: vec![],
            segments: vec![],
        }
    }

    /// Other tables, of the same sizes.
    pub(crate) fn set_capabilities(&mut self, capabilities: Vec<Capability>) {
        self.capabilities = capabilities;
    }

    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables {
            header: &self.header,
            components: &self.components,
            entries: &self.entries,
            stacks: &self.stacks,
            capabilities: &self.capabilities,
            threads: &self.threads,
            servers: &self.servers,
            bands: &[],
            schedulers: &self.schedulers,
            tcaps: &self.tcaps,
            end_points: &self.end_points,
            bindings: &self.bindings,
            wires: &[],
            exports: &[],
            quotas: &self.quotas,
            regions: &self.regions,
            programs: &self.programs,
            segments: &self.segments,
            devices: &[],
            ports: &[],
            data: &[],
            names: &[],
        }
    }
}

/// A fake in the state in which an instance boots.
pub(crate) fn fake() -> Fake {
    Fake {
        now: 10,
        roots: ROOTS.into_iter().chain([NONE; 3]).collect(),
        usable: vec![1_000; CLAIMS],
        ranks: vec![5; CLAIMS],
        filled: vec![None; 3],
        dates: vec![NEVER; 3],
        has_budget: true,
        pages: 3,
        ..Default::default()
    }
}

/// The instance, its world, and what a test does with them.
pub(crate) struct Bench<'a> {
    pub(crate) objects: Objects<'a>,
    pub(crate) world: Fake,
}

/// Runs a test on the instance; nothing is started.
pub(crate) fn bench(test: impl FnOnce(&mut Bench<'_>)) {
    bench_of(&Rows::new(), test);
}

/// The same with other rows.
pub(crate) fn bench_of(rows: &Rows, test: impl FnOnce(&mut Bench<'_>)) {
    // What is made at run time needs a pool, and numbers that the host left free.
    let pool = rows.header.pool_pages as usize;
    let free = if pool == 0 { 0 } else { pool::PROCESSES };
    let mut components = vec![Component::default(); rows.components.len() + free];
    let mut slots = vec![Capability::NULL; rows.capabilities.len() + free * 64];
    let mut threads = vec![Thread::default(); rows.threads.len() + free];
    let mut regions = vec![Region::EMPTY; rows.regions.len() + free];
    let mut quotas = vec![Quota::default(); rows.quotas.len() + free];
    let mut processes = vec![Process::EMPTY; components.len()];
    let mut pages = vec![Page::EMPTY; pool];
    let mut end_points = vec![EndPoint::EMPTY; rows.end_points.len()];
    let mut bindings = vec![Binding::default(); rows.bindings.len()];
    let mut servers = vec![Position::EMPTY; rows.servers.len()];
    let mut schedulers = vec![Scheduler::EMPTY; rows.schedulers.len()];
    let mut others = [Counters::default(); 3 * 8];
    let mut others = others.chunks_mut(8);
    let mut next = || others.next().expect("three");
    let room = Room {
        components: &mut components,
        slots: &mut slots,
        threads: &mut threads,
        end_points: &mut end_points,
        bindings: &mut bindings,
        servers: &mut servers,
        schedulers: &mut schedulers,
        wires: next(),
        tcaps: next(),
        bands: next(),
        regions: &mut regions,
        quotas: &mut quotas,
        processes: &mut processes,
        pages: &mut pages,
        entries: &[],
        stacks: &[],
        programs: &[],
        segments: &[],
    };
    let tables = rows.tables();
    let page = Rc::new(vec![0xdead; 512]);
    let world = Fake { pool: (0..pool).map(|_| page.clone()).collect(), ..fake() };
    test(&mut Bench { objects: Objects::new(room, &tables), world });
}

impl Bench<'_> {
    /// A thread of the instance.
    pub(crate) fn thread(&self, number: u16) -> &Thread {
        &self.objects.room().threads[usize::from(number)]
    }

    /// A component.
    pub(crate) fn component(&self, number: u16) -> &Component {
        &self.objects.room().components[usize::from(number)]
    }

    /// Picks a server until a thread runs there, or nobody; returns it. The end of a component, in slices, is paid by its server.
    pub(crate) fn pick(&mut self, server: u16) -> Option<u16> {
        for _ in 0..1_000 {
            match self.objects.choose(&mut self.world, server) {
                Choice::Run(thread) => return Some(thread),
                Choice::Nobody => return None,
                Choice::Again => {}
            }
        }
        panic!("it ends");
    }

    /// Starts a thread by the supervisor's power, from outside.
    pub(crate) fn start(&mut self, numbers: &[u16]) {
        let mut rows = Rows::new();
        for number in numbers {
            rows.threads[usize::from(*number)].started = 1;
        }
        self.objects.start_at_boot(&mut self.world, &rows.tables());
    }

    /// The thread that runs makes a call; returns its outcome.
    pub(crate) fn svc(&mut self, call: Call, x: &[u64]) -> Outcome {
        let registers = self.objects.registers().expect("somebody runs");
        registers.x[..x.len()].copy_from_slice(x);
        registers.pc = registers.pc.wrapping_add(4);
        // As the kernel does it: by its short way, if that is the usual case.
        let now = self.world.now;
        if call == Call::Switch && self.objects.exchange(&mut self.world, now, 0).is_some() {
            return Outcome::Done;
        }
        self.objects.call(&mut self.world, call.number())
    }

    /// The thread that runs has used time, and an interrupt looks whether its turn is over.
    pub(crate) fn used(&mut self, ticks: u64) {
        self.objects.used(&mut self.world, ticks);
        self.objects.end_turn_if_over(&mut self.world);
    }

    /// The earliest date of all.
    pub(crate) fn earliest_ticks(&self) -> u64 {
        self.world.dates.iter().copied().min().expect("servers")
    }

    /// The thread that runs sleeps.
    pub(crate) fn sleep(&mut self) {
        assert_eq!(self.svc(Call::Receive, &[0, 0, SOON]), Outcome::Done);
    }

    /// A call by this thread; returns the code in its x0.
    pub(crate) fn call(&mut self, call: Call, x: &[u64]) -> Code {
        let thread = self.objects.running().expect("somebody runs");
        assert_eq!(self.svc(call, x), Outcome::Done);
        let code = Code::from_number(self.thread(thread).registers.x[0]).expect("a code");
        if self.objects.running() == Some(thread) {
            assert_in_table(call, x.first().copied().unwrap_or(0), code);
        }
        code
    }

    /// The first answers.
    pub(crate) fn answers<const COUNT: usize>(&self, thread: u16) -> [u64; COUNT] {
        *self.thread(thread).registers.x[1..].first_chunk().expect("registers")
    }

    /// `invoke`; returns x8: the code, or in a callee its token.
    pub(crate) fn invoke(&mut self, slot: u64) -> u64 {
        let thread = self.objects.running().expect("somebody runs");
        self.objects.registers().expect("runs").x[8] = slot;
        assert_eq!(self.svc(Call::Invoke, &[]), Outcome::Done);
        self.thread(thread).registers.x[8]
    }
}
