//! Random subsystems, each from a seed: schedulers below each other, servers of all rules, claims on their time, and threads that make random calls about all of them, with dates on a
//! grid so that much falls into one instant (`components/swarm`, `random.rs`), and a device that rings on it. Beside them a more important thread of another component is woken again and again.
//!
//! `hostile::swarm` builds states that somebody thought of; this one looks for those that nobody has thought of. `BULKHEAD_CASES` says how many subsystems, and `BULKHEAD_SEED` which.

use super::passages::passages;
use super::swarm::{MILLISECOND, Swarm, capability, image};
use crate::servers::numbers;
use bulkhead_description::kernel::{EXCHANGE, PASSAGE, TOP_HALF};
use bulkhead_instance::{Member, Shares};
use bulkhead_kernel_abi::boot::{BandRow, BindingRow, EndPointRow, SchedulerRow, ServerRow, TcapRow};
use bulkhead_kernel_abi::{ALL_TICKS, Capability, Kind, MAX_SCHEDULER_DEPTH, MAX_TCAPS, NONE};
use bulkhead_system_tests::ways::sporadic;
use bulkhead_words::Rule;
use random::{Random, check_some};

#[path = "../../../../../core/sched/tests/support/random.rs"]
mod random;

/// The role of each thread.
const ACTS: u64 = 11;
/// That of the thread which says what came of it, and for how many milliseconds it sleeps before: the others are stopped by then.
const REPORTS: u64 = 15;
const REPORTS_AFTER: u64 = 200;
/// The second timer of a core, CNTP.
const DEVICE: u32 = 30;
/// Kinds of calls that it tells of, and of each how many of 1,000 are obeyed at least: about half of what was seen. A search that is refused everywhere would show nothing.
const FLOORS: [(&str, u64); 9] = [
    ("receive", 900),
    ("delegate", 100),
    ("tcap", 150),
    ("switch", 80),
    ("send", 900),
    ("thread", 300),
    ("server", 120),
    ("bind", 200),
    ("done", 60),
];
/// Threads with an end point, at most: slots for more are not there.
const ENDS: u16 = 40;
/// Other tests have this many cases for each of these: each is a run of the emulator.
const DIVISOR: u64 = 25_000;

/// Schedulers, each the parent of some behind it; their threads are the first ones.
fn schedulers(random: &mut Random) -> Vec<SchedulerRow> {
    let mut rows: Vec<SchedulerRow> = Vec::new();
    let mut depths: Vec<usize> = Vec::new();
    for number in 0..random.below(9) as u16 {
        // Often below the one before: chains are where it is deep.
        let parent = if random.flip() { number.checked_sub(1) } else { (0..number).nth(random.index(number.into())) };
        let depth = parent.map_or(1, |parent| depths[usize::from(parent)] + 1);
        let (parent, depth) = if depth > MAX_SCHEDULER_DEPTH { (NONE, 1) } else { (parent.unwrap_or(NONE), depth) };
        rows.push(SchedulerRow { thread: 1 + number, parent, id: 1 + number, reserved: 0 });
        depths.push(depth);
    }
    rows
}

/// The victim's server, others of all rules, and those of a band.
fn servers(random: &mut Random, holders: &[u16], in_band: u16) -> Vec<ServerRow> {
    let mut rows = vec![sporadic(0, MILLISECOND, 2 * MILLISECOND)];
    rows.extend((0..in_band).map(|_| ServerRow { band: 0, ..sporadic(1, 0, 10 * MILLISECOND) }));
    let first = rows.len();
    for number in 0..holders.len() + random.index(12) + 1 {
        let period_ticks = [4, 8, 20][random.index(3)] * MILLISECOND;
        let budget_ticks = random.within(MILLISECOND / 20, period_ticks);
        let rule = [Rule::Sporadic, Rule::Sporadic, Rule::Deferrable, Rule::Polling][random.index(4)];
        let background = if random.below(4) == 0 { 64 } else { 255 };
        rows.push(ServerRow {
            rule: rule.number(),
            background,
            holder: holders.get(number).copied().unwrap_or(NONE),
            ..sporadic((number + 2) as u8, budget_ticks, period_ticks)
        });
    }
    // Who holds which says nothing about how important it is.
    for place in first..rows.len() {
        let other = first + random.index(rows.len() - first);
        let (one, two) = (rows[place].holder, rows[other].holder);
        (rows[place].holder, rows[other].holder) = (two, one);
    }
    rows
}

/// What there is, by number.
struct Parts {
    schedulers: Vec<SchedulerRow>,
    servers: Vec<ServerRow>,
    /// The first one that is neither the victim's nor a band's.
    first: u16,
    /// The server on which each scheduler's thread is.
    homes: Vec<u16>,
    /// Claims behind those of the servers.
    tcaps: Vec<TcapRow>,
}

impl Parts {
    fn new(random: &mut Random) -> Self {
        let schedulers = schedulers(random);
        // Each holds a server of its own, or is on its parent's.
        let mut holders: Vec<u16> = Vec::new();
        let mut held_by: Vec<u16> = Vec::new();
        for (number, row) in (0..).zip(&schedulers) {
            let is_holder = row.parent == NONE || random.flip();
            held_by.push(if is_holder { number } else { held_by[usize::from(row.parent)] });
            holders.extend(is_holder.then_some(number));
        }
        let first = 1 + random.below(3) as u16 * 8;
        let servers = servers(random, &holders, first - 1);
        let slot_of = |holder: &u16| servers.iter().position(|row| row.holder == *holder).expect("it has one") as u16;
        let homes = held_by.iter().map(slot_of).collect();
        let mut this = Self { schedulers, servers, first, homes, tcaps: Vec::new() };
        for _ in 0..random.within(2, (MAX_TCAPS - this.servers.len()) as u64) {
            let claim = this.claim(random);
            this.tcaps.push(claim);
        }
        this
    }

    fn count(&self) -> u16 {
        self.servers.len() as u16
    }

    fn any_server(&self, random: &mut Random) -> u16 {
        self.first + random.index(usize::from(self.count() - self.first)) as u16
    }

    /// On all that a server has, or on nothing yet.
    fn claim(&self, random: &mut Random) -> TcapRow {
        let scheduler = self.schedulers.get(random.index(self.schedulers.len()));
        let server = if random.below(3) == 0 { NONE } else { self.any_server(random) };
        TcapRow {
            left_ticks: if server == NONE { 0 } else { ALL_TICKS },
            server,
            scheduler: scheduler.map_or(0, |row| row.id),
            expires_ticks: ALL_TICKS,
            end_point: NONE,
            priority: random.within(1, 3),
            ..TcapRow::default()
        }
    }

    /// A thread of a scheduler with one of its claims that have time, or one without a scheduler.
    fn member(&self, random: &mut Random, number: u16) -> Member {
        let (scheduler, tcap) = if let Some(row) = self.schedulers.get(usize::from(number)) {
            (row.parent, self.homes[usize::from(number)])
        } else if self.schedulers.is_empty() || random.below(3) == 0 {
            (NONE, self.any_server(random))
        } else {
            let scheduler = random.index(self.schedulers.len());
            let is_its = |row: &TcapRow| row.scheduler == self.schedulers[scheduler].id && row.server != NONE;
            let its = (self.count()..).zip(&self.tcaps).filter(|(_, row)| is_its(row));
            let its: Vec<u16> = its.map(|(number, _)| number).collect();
            (scheduler as u16, its.get(random.index(its.len())).copied().unwrap_or(self.homes[scheduler]))
        };
        Member { thread: 1 + number, scheduler, tcap, label: number.into() }
    }

    /// Slots of what the threads make calls about (`components/swarm`, `random.rs`).
    fn slots(&self, threads: u16, devices: u16) -> Vec<(usize, Vec<Capability>)> {
        let many = |kind: Kind, first: u16, count: u16| -> Vec<Capability> {
            (0..count).map(|number| capability(kind, first + number)).collect()
        };
        let claims = self.count() - self.first + self.tcaps.len() as u16;
        vec![
            (2, many(Kind::Band, 0, u16::from(self.first > 1))),
            (16, many(Kind::Scheduler, 0, self.schedulers.len() as u16)),
            (24, many(Kind::Receive, 0, threads.min(ENDS))),
            (64, many(Kind::Thread, 1, threads)),
            (128, many(Kind::TCap, self.first, claims)),
            (192, many(Kind::Send, 0, threads.min(ENDS))),
            (248, many(Kind::Interrupt, 0, devices)),
        ]
    }

    /// Mostly a device that rings on a grid, as dates are. It tells somebody's end point, and mostly that one's server pays for it.
    fn bindings(&self, random: &mut Random, members: &[Member]) -> Vec<BindingRow> {
        let grid = [MILLISECOND / 4, MILLISECOND, 4 * MILLISECOND];
        let driver = random.index(members.len().min(ENDS.into()));
        let own = self.server_of(members[driver].tcap);
        let row = BindingRow {
            intid: DEVICE,
            default_client: NONE,
            server: if own == NONE || random.below(4) == 0 { self.any_server(random) } else { own },
            end_point: driver as u16,
            bits: 1,
            period_ticks: grid[random.index(grid.len())],
            ..BindingRow::default()
        };
        if random.below(4) == 0 { Vec::new() } else { vec![row] }
    }

    fn server_of(&self, tcap: u16) -> u16 {
        self.tcaps.get(usize::from(tcap.wrapping_sub(self.count()))).map_or(tcap, |row| row.server)
    }

    fn bands(&self) -> Vec<BandRow> {
        let band = BandRow {
            shortest_period_ticks: 10 * MILLISECOND,
            longest_period_ticks: 10 * MILLISECOND,
            budget_ticks: 5 * MILLISECOND,
            smallest_budget_ticks: 1_000,
            first_server: 1,
            servers: self.first - 1,
            ..BandRow::default()
        };
        if self.first > 1 { vec![band] } else { Vec::new() }
    }
}

fn subsystem(random: &mut Random) -> Swarm {
    let parts = Parts::new(random);
    let threads = parts.schedulers.len() as u16 + random.within(4, 48) as u16;
    let members: Vec<Member> = (0..threads).map(|number| parts.member(random, number)).collect();
    let claims = parts.count() - parts.first + parts.tcaps.len() as u16;
    // A thread's end point wakes it on its own claim, or on another one.
    let end_point = |member: &Member| {
        let other = parts.first + random.index(claims.into()) as u16;
        let tcap = if random.flip() { member.tcap } else { other };
        EndPointRow { thread: member.thread, tcap, component: 1, reserved: 0 }
    };
    let end_points = members.iter().take(ENDS.into()).map(end_point).collect();
    let seed = random.below(1 << 24);
    let words = u64::from(threads) << 16 | u64::from(claims) << 24 | (parts.schedulers.len() as u64) << 32 | seed << 40;
    let thread = |(number, member): (u64, &Member)| (ACTS | number << 8 | words, parts.server_of(member.tcap));
    let bindings = parts.bindings(random, &members);
    // On the victim's server, and not stopped by it.
    let reports = (REPORTS | REPORTS_AFTER << 16, 0);
    Swarm {
        threads: (0..).zip(&members).map(thread).chain([reports]).collect(),
        slots: parts.slots(threads, bindings.len() as u16),
        stops: threads,
        bindings,
        end_points,
        shares: Shares {
            bands: parts.bands(),
            schedulers: parts.schedulers,
            numbers: Vec::new(),
            tcaps: parts.tcaps,
            members,
        },
        servers: parts.servers,
        ..Swarm::default()
    }
}

/// Row 13, CH-60, CH-63: whichever subsystem it is and with every call that it makes, the kernel looks for interrupts as often, and who is more important is woken in time.
#[test]
fn no_subsystem_delays_who_is_more_important() {
    let mut longest = 0;
    let mut acts = [[0; 2]; FLOORS.len()];
    check_some("subsystems", DIVISOR, |random| {
        let swarm = subsystem(random);
        let devices = swarm.bindings.len() as u64;
        let (schedulers, threads) = (swarm.shares.schedulers.len(), swarm.threads.len());
        let what = format!("{schedulers} schedulers, {threads} threads, {devices} devices");
        let (found, lines) = passages(&image(swarm, 200));
        let [late] = numbers(&lines, "woken: ")[..] else { panic!("{what}: {lines:?}") };
        println!(
            "{what}: longest of {} passages {}, from {}; woken {late} late",
            found.count, found.longest, found.longest_start
        );
        // As `check` counts it: a device may ring at the instant at which the victim is woken, and its top half is once before it.
        let bound = PASSAGE + EXCHANGE + devices * TOP_HALF;
        assert!(found.longest <= PASSAGE && late <= bound, "{what}: {found:?}, {late}");
        longest = longest.max(found.longest);
        for (number, [obeyed, made]) in acts.iter_mut().enumerate() {
            let [more, of] = numbers(&lines, &format!("acts {number}: "))[..] else { panic!("{what}: {lines:?}") };
            (*obeyed, *made) = (*obeyed + more, *made + of);
        }
    });
    for ((kind, floor), [obeyed, made]) in FLOORS.iter().zip(acts) {
        println!("{kind}: {obeyed} of {made} obeyed");
        assert!(obeyed > 0 && obeyed * 1_000 >= made * floor, "{kind}: {obeyed} of {made}");
    }
    println!("longest passage of all: {longest}");
}
