//! Random instances: a few servers of all rules, schedulers or none, claims, a band, and a table of capabilities that has everything.

use crate::random::Random;
use bulkhead_arm::Intid;
use bulkhead_kernel_abi::boot::{
    BandRow, BindingRow, BootHeader, ComponentRow, EndPointRow, EntryRow, SchedulerRow, ServerRow, StackRow, Tables,
    TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::{ALL_TICKS, Capability, Kind, NONE};
use bulkhead_words::{Rule, ServerFlag};

/// Threads that can be attacked, and one beside them that cannot: it is the least important of all, and somebody who runs is left.
pub(crate) const THREADS: usize = 8;
pub(crate) const IMMORTAL: u16 = THREADS as u16;
/// Servers: one for clients, four of the host, two slots of a band, and that of the last thread.
pub(crate) const SERVERS: usize = 8;
const LAST_SERVER: u16 = SERVERS as u16 - 1;
const BAND_SERVER: u16 = 5;
pub(crate) const END_POINTS: usize = 8;
/// Own claims of servers, and two more.
pub(crate) const TCAPS: usize = SERVERS + 2;
pub(crate) const FIRST_INTID: u32 = 40;

/// Slots.
pub(crate) const RECEIVE: u64 = 1;
pub(crate) const SEND: u64 = 9;
pub(crate) const THREAD: u64 = 17;
pub(crate) const SERVER: u64 = 25;
pub(crate) const TCAP: u64 = 33;
pub(crate) const SCHEDULER: u64 = 43;
pub(crate) const BAND: u64 = 45;
pub(crate) const INTERRUPT: u64 = 46;
pub(crate) const COMPONENT: u64 = 49;
pub(crate) const CALL: u64 = 53;
pub(crate) const EMPTY: u64 = 58;

/// An instance.
#[derive(Debug)]
pub(crate) struct Instance {
    servers: Vec<ServerRow>,
    tcaps: Vec<TcapRow>,
    threads: Vec<ThreadRow>,
    schedulers: Vec<SchedulerRow>,
    end_points: Vec<EndPointRow>,
    bindings: Vec<BindingRow>,
}

fn rule(random: &mut Random, level: u8) -> ServerRow {
    let budget_ticks = 2 + random.below(40);
    let row = ServerRow { level, background: 255, holder: NONE, band: NONE, ..ServerRow::default() };
    let rule = [Rule::Sporadic, Rule::Sporadic, Rule::Sporadic, Rule::Deferrable, Rule::Polling, Rule::Unlimited];
    let flags = [0, ServerFlag::DispatchAnchor.number(), ServerFlag::LagClamp.number()][random.index(3)];
    ServerRow {
        rule: rule[random.index(6)].number(),
        flags,
        budget_ticks,
        period_ticks: budget_ticks + random.below(150),
        smallest_chunk_ticks: 1 + random.below(2),
        chunks: 2 + random.below(7) as u16,
        background: if random.flip() { 64 + level } else { 255 },
        quantum_ticks: if random.flip() { 3 + random.below(20) } else { 0 },
        ..row
    }
}

/// Servers in the order of their best levels.
fn servers(random: &mut Random) -> Vec<ServerRow> {
    let mut level = 2;
    let mut servers: Vec<_> = (0..4)
        .map(|_| {
            level += random.below(3) as u8;
            rule(random, level)
        })
        .collect();
    // Clients are in the order of their periods.
    servers[0].period_ticks = 60 + random.below(60);
    servers[1].period_ticks = 121 + random.below(100);
    // Works for two of those, and is more important than both.
    let for_clients = ServerRow {
        rule: Rule::Pibs.number(),
        budget_ticks: 1 + random.below(2),
        period_ticks: 4 + random.below(10),
        clients: 0b110,
        smallest_chunk_ticks: 1 + random.below(3),
        level: servers[0].level - 1,
        background: 255,
        ..rule(random, 1)
    };
    servers.insert(0, for_clients);
    let slot =
        |level: u8| ServerRow { level, background: 255, holder: NONE, band: 0, chunks: 4, ..ServerRow::default() };
    servers.extend([slot(level), slot(level)]);
    servers.push(ServerRow { level: 63, background: 255, holder: NONE, band: NONE, ..ServerRow::default() });
    (0..).zip(servers).map(|(tcap, row)| ServerRow { tcap, ..row }).collect()
}

/// Who schedules what: nobody, one scheduler, or two, of which the second is below the first one, on the same server or on another one.
struct Shape {
    schedulers: u64,
    /// The server of the first one, and that of the second.
    held: u16,
    second: u16,
}

fn tcap(server: u16) -> TcapRow {
    TcapRow { server, left_ticks: ALL_TICKS, priority: 1 + u64::from(server) % 3, ..TcapRow::default() }
}

/// Schedulers, the servers that they hold, and claims: own ones of the servers; and with a scheduler one on all of its server, and one without time.
fn schedulers(shape: &Shape, servers: &mut [ServerRow], random: &mut Random) -> (Vec<SchedulerRow>, Vec<TcapRow>) {
    let mut tcaps: Vec<_> = (0..SERVERS as u16).map(tcap).collect();
    let mut schedulers = Vec::new();
    let Shape { held, second, .. } = *shape;
    if shape.schedulers >= 1 {
        servers[usize::from(held)].holder = 0;
        schedulers.push(SchedulerRow { thread: 2, parent: NONE, id: 1, reserved: 0 });
        tcaps.push(TcapRow { scheduler: 1, ..tcap(held) });
        tcaps.push(TcapRow { scheduler: 1, server: NONE, left_ticks: 0, priority: 2, ..TcapRow::default() });
        tcaps[usize::from(held)].scheduler = 1;
    }
    if shape.schedulers >= 2 {
        schedulers.push(SchedulerRow { thread: 5, parent: 0, id: 2, reserved: 0 });
        if second != held {
            servers[usize::from(second)].holder = 1;
            // The first one has a word in it, or has not.
            tcaps[usize::from(second)].scheduler = [1, 2][random.index(2)];
        }
    }
    (schedulers, tcaps)
}

fn thread(number: usize, shape: &Shape, servers: &[ServerRow], random: &mut Random) -> ThreadRow {
    let server = match number {
        2..=4 if shape.schedulers >= 1 => shape.held,
        5 | 6 if shape.schedulers >= 2 => shape.second,
        7 => 0,
        THREADS => LAST_SERVER,
        _ => 1 + random.below(4) as u16,
    };
    let is_schedulers = number == 2 && shape.schedulers >= 1 || number == 5 && shape.schedulers >= 2;
    let scheduler = match number {
        _ if is_schedulers => NONE,
        6 if shape.schedulers >= 2 => 1,
        // A thread on a server that a scheduler holds is its.
        _ => servers[usize::from(server)].holder,
    };
    let is_on_other = (3..5).contains(&number) && shape.schedulers >= 1 && random.flip();
    ThreadRow {
        entry: 0x1000 * (number as u64 + 1),
        component: if number == THREADS { 3 } else { number as u16 % 3 },
        server,
        scheduler,
        tcap: if is_on_other { SERVERS as u16 } else { server },
        label: 100 + number as u64,
        end_point: if number < END_POINTS { number as u16 } else { NONE },
        started: u16::from(number == THREADS || random.below(4) != 0),
        ..ThreadRow::default()
    }
}

fn end_point(number: usize, claims: usize, random: &mut Random) -> EndPointRow {
    let tcap = match random.below(4) {
        0 if claims > SERVERS => SERVERS as u16 + random.below((claims - SERVERS) as u64) as u16,
        1 => random.below(BAND_SERVER.into()) as u16,
        _ => NONE,
    };
    EndPointRow { thread: number as u16, tcap, ..EndPointRow::default() }
}

fn binding(intid: u32, end_point: u16, server: u16) -> BindingRow {
    BindingRow {
        intid,
        bits: 0x100,
        end_point,
        server,
        clients: if server == 0 { 0b110 } else { 0 },
        default_client: if server == 0 { 1 } else { NONE },
        period_ticks: if intid == Intid::PHYSICAL_TIMER.0 { 37 } else { 0 },
        ..BindingRow::default()
    }
}

impl Instance {
    pub(crate) fn new(random: &mut Random) -> Self {
        let schedulers = [0, 1, 2, 2][random.index(4)];
        Self::with_schedulers(schedulers, random)
    }

    fn with_schedulers(schedulers_count: u64, random: &mut Random) -> Self {
        let mut servers = servers(random);
        let held = 1 + random.below(4) as u16;
        let second = if random.flip() { held } else { 1 + random.below(4) as u16 };
        let shape = Shape { schedulers: schedulers_count, held, second };
        let (schedulers, tcaps) = schedulers(&shape, &mut servers, random);
        let threads = (0..=THREADS).map(|number| thread(number, &shape, &servers, random)).collect();
        let end_points = (0..END_POINTS).map(|number| end_point(number, tcaps.len(), random)).collect();
        let bindings = vec![
            binding(FIRST_INTID, 7, 0),
            binding(FIRST_INTID + 1, 1, 1 + random.below(4) as u16),
            binding(Intid::PHYSICAL_TIMER.0, 0, random.below(5) as u16),
        ];
        Self { servers, tcaps, threads, schedulers, end_points, bindings }
    }

    /// The same with schedulers, where it does not matter at which instants a budget is charged. Who is of one level runs in the order in which budgets were seen to come back. And it does to a sporadic one, where less than a chunk may be left, or a part has come back since.
    pub(crate) fn without_chunks(random: &mut Random) -> Self {
        let mut this = Self::with_schedulers(1 + random.below(2), random);
        for row in this.servers.iter_mut().filter(|row| row.rule == Rule::Sporadic.number()) {
            row.rule = Rule::Deferrable.number();
        }
        for (level, row) in (0..).zip(&mut this.servers).take(SERVERS - 1) {
            (row.level, row.background) = (level, if row.background == 255 { 255 } else { 64 + level });
        }
        for thread in &mut this.threads {
            thread.started = 1;
        }
        this
    }

    /// The level of a server of the host's with budget, if it has one only and runs with it always.
    pub(crate) fn level(&self, server: u16) -> Option<u8> {
        let row = self.servers.get(usize::from(server))?;
        (row.rule != Rule::Pibs.number() && row.background == 255).then_some(row.level)
    }

    pub(crate) fn tables(&self) -> Tables<'static> {
        let component = |number: u64| ComponentRow {
            root: 0x1000 * (number + 1),
            slots: 64,
            entries: 1,
            stacks: 2,
            first_stack: 2 * number as u32,
            first_entry: number as u32,
            needs_ticks: if number == 1 { 4 } else { 0 },
            abortable: 1,
            on_fault: [0, 1, 0, 0][number as usize],
            supervisor: if number == 1 { 0 } else { NONE },
            supervisor_bits: 0x80,
            quota: NONE,
            ..ComponentRow::default()
        };
        let band = BandRow {
            shortest_period_ticks: 100,
            longest_period_ticks: 300,
            budget_ticks: 50,
            smallest_budget_ticks: 1,
            first_server: BAND_SERVER,
            servers: 2,
            ..BandRow::default()
        };
        Tables {
            header: Box::leak(Box::new(BootHeader::default())),
            components: Vec::leak((0..4).map(component).collect()),
            entries: Vec::leak(
                (0..4).map(|number| EntryRow { address: 0x40_0000 + number * 0x100, signature: 0 }).collect(),
            ),
            stacks: Vec::leak((0..8).map(|number| StackRow { top: 0x80_0000 + number * 0x2000 }).collect()),
            capabilities: Vec::leak(capabilities()),
            threads: Vec::leak(self.threads.clone()),
            servers: Vec::leak(self.servers.clone()),
            bands: Vec::leak(vec![band]),
            schedulers: Vec::leak(self.schedulers.clone()),
            tcaps: Vec::leak(self.tcaps.clone()),
            end_points: Vec::leak(self.end_points.clone()),
            bindings: Vec::leak(self.bindings.clone()),
            wires: &[],
            exports: &[],
            quotas: &[],
            regions: &[],
            programs: &[],
            segments: &[],
            devices: &[],
            ports: &[],
            data: &[],
            names: &[],
        }
    }
}

/// One table, of all components: everything but the thread, the server and the component of the one who is never stopped.
fn capabilities() -> Vec<Capability> {
    let mut slots = vec![Capability::NULL; 64];
    let mut put = |first: u64, kind: Kind, count: u16| {
        for object in 0..count {
            slots[first as usize + usize::from(object)] =
                Capability { kind: kind.number(), rights: kind.rights(), object, grant: 1, word: 1 << object };
        }
    };
    put(RECEIVE, Kind::Receive, END_POINTS as u16);
    put(SEND, Kind::Send, END_POINTS as u16);
    put(THREAD, Kind::Thread, THREADS as u16);
    put(SERVER, Kind::Server, LAST_SERVER);
    put(TCAP, Kind::TCap, TCAPS as u16);
    put(SCHEDULER, Kind::Scheduler, 2);
    put(BAND, Kind::Band, 1);
    put(INTERRUPT, Kind::Interrupt, 3);
    put(COMPONENT, Kind::Component, 3);
    put(CALL, Kind::Call, 4);
    for slot in &mut slots[CALL as usize..CALL as usize + 4] {
        // Entry 0, token 0.
        slot.word = 0;
    }
    slots
}
