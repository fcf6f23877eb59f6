//! Plans and tables of payloads, changed at random, with their checksums right again. What `verify` accepts is given to those who will read it on the
//! machine: the library's own functions, and a walk of the payload's tables. They know the board, and whatever they would do must be what a
//! payload may do. So this finds rules that `verify` lacks, where a list of mutants finds those that it has.
//!
//! The seed is printed; `BULKHEAD_SEED` and `BULKHEAD_CASES` replace it and the number of cases.

#[path = "../../../../core/sched/tests/support/random.rs"]
mod random;

use crate::worlds::Changed;
use crate::{hybrid, worlds};
use bulkhead_sched::budget::Filled;
use bulkhead_verify::world::verify_flash;
use bulkhead_world::calls::Window;
use bulkhead_world::cores::MOST_CORES;
use bulkhead_world::flash::{
    ChannelPlan, Head, PLAN, PLAN_BYTES, ServerPlan, UrgentPlan, WindowPlan, WorldPlan, secure_ram,
};
use bulkhead_world::health::HealthPlan;
use bulkhead_world::interrupts::{RestartWrite, of_distributor, of_other_core, of_redistributor, of_restart};
use bulkhead_world::restart::{Restart, Scope, Step};
use bulkhead_world::servers::Servers;
use bulkhead_world::windows::Windows;
use random::Random;
use std::mem::offset_of;
use std::ops::Range;

/// One case is tried where other tests try this number: each reads a whole file.
const DIVISOR: u64 = 50;
/// Ticks of the payload's kernel in a second.
const KERNEL_HZ: u64 = 1_000;

/// What is true of the machine, whatever a file says.
struct Facts {
    distributor: Range<u64>,
    redistributors: Vec<Range<u64>>,
    ram: Range<u64>,
    counter_hz: u64,
    /// Interrupts that come to the payload's core: of no partition on another core.
    elsewhere: Vec<u32>,
}

fn facts(cores: u64, elsewhere: &[u32]) -> Facts {
    let frame = |core: u64| 0x080a_0000 + core * 0x2_0000..0x080a_0000 + (core + 1) * 0x2_0000;
    Facts {
        distributor: 0x0800_0000..0x0801_0000,
        redistributors: (0..cores).map(frame).collect(),
        ram: 0x4000_0000..0x8000_0000,
        counter_hz: 62_500_000,
        elsewhere: elsewhere.to_vec(),
    }
}

/// The plan, by the layout that the library is compiled with.
fn plan(file: &[u8]) -> WorldPlan {
    let page = &file[PLAN as usize..(PLAN + PLAN_BYTES) as usize];
    let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
    let head = Head {
        magic: word(0),
        counter_hz: word(offset_of!(Head, counter_hz)),
        payload_from: word(offset_of!(Head, payload_from)),
        payload_to: word(offset_of!(Head, payload_to)),
        payload_bytes: word(offset_of!(Head, payload_bytes)),
        payload_entry: word(offset_of!(Head, payload_entry)),
    };
    let mut plan = WorldPlan::new(head, word(offset_of!(WorldPlan, tables)));
    plan.window = word(offset_of!(WorldPlan, window));
    plan.window_bytes = word(offset_of!(WorldPlan, window_bytes));
    plan.entry = word(offset_of!(WorldPlan, entry));
    plan.argument = word(offset_of!(WorldPlan, argument));
    plan.level = word(offset_of!(WorldPlan, level));
    plan.distributor = word(offset_of!(WorldPlan, distributor));
    plan.redistributor = word(offset_of!(WorldPlan, redistributor));
    plan.secure_interrupts = std::array::from_fn(|place| half(offset_of!(WorldPlan, secure_interrupts) + 4 * place));
    plan.segment_count = word(offset_of!(WorldPlan, segment_count));
    for (place, segment) in plan.segments.iter_mut().enumerate() {
        let at = offset_of!(WorldPlan, segments) + 32 * place;
        (segment.from, segment.to, segment.bytes, segment.crc) = (word(at), word(at + 8), word(at + 16), word(at + 24));
    }
    plan.servers = std::array::from_fn(|place| {
        let at = offset_of!(WorldPlan, servers) + size_of::<ServerPlan>() * place;
        let (kind, priority, period, voluntary) = (half(at), half(at + 4), half(at + 16), half(at + 20));
        ServerPlan { kind, priority, budget_ticks: word(at + 8), period, voluntary }
    });
    plan.urgent = std::array::from_fn(|place| {
        let at = offset_of!(WorldPlan, urgent) + size_of::<UrgentPlan>() * place;
        UrgentPlan { intid: half(at), server: half(at + 4) }
    });
    let cores = offset_of!(WorldPlan, cores);
    plan.cores.count = half(cores);
    plan.cores.redistributors = std::array::from_fn(|place| word(cores + 8 + 8 * place));
    plan.cores.closed = std::array::from_fn(|place| half(cores + 32 + 4 * place));
    plan.cores.kicks = std::array::from_fn(|place| half(cores + 48 + 4 * place));
    plan.channels = std::array::from_fn(|place| {
        let at = offset_of!(WorldPlan, channels) + size_of::<ChannelPlan>() * place;
        let mut channel = ChannelPlan::NONE;
        channel.name.copy_from_slice(&page[at..at + 32]);
        (channel.address, channel.direction, channel.blocks) = (word(at + 32), half(at + 40), half(at + 44));
        (channel.block_bytes, channel.interrupt, channel.poll) = (half(at + 48), half(at + 52), half(at + 56));
        channel
    });
    let health = offset_of!(WorldPlan, health);
    plan.health = HealthPlan {
        heartbeat_ticks: word(health),
        missed: half(health + 8),
        stuck_samples: half(health + 12),
        policy: half(health + 16),
        max_restarts: half(health + 20),
        within_ticks: word(health + 24),
        backoff_ticks: word(health + 32),
    };
    let windows = offset_of!(WorldPlan, windows);
    (plan.windows.major_ticks, plan.windows.count) = (word(windows), half(windows + 8));
    plan.windows.interrupt = half(windows + 12);
    plan.windows.windows = std::array::from_fn(|place| {
        let at = windows + 16 + size_of::<WindowPlan>() * place;
        let (offset_ticks, length_ticks) = (word(at), word(at + 8));
        WindowPlan { offset_ticks, length_ticks, server: half(at + 16), reserved: half(at + 20) }
    });
    plan.wish.address = word(offset_of!(WorldPlan, wish));
    plan.partitions = std::array::from_fn(|place| word(offset_of!(WorldPlan, partitions) + 8 * place));
    plan
}

/// What an address of the payload leads to: (may be written, is a device, is the other world's). By itself: no line of the verifier's walk.
fn reach(file: &[u8], plan: &WorldPlan, address: u64) -> Option<(bool, bool, bool)> {
    let mut table = plan.tables;
    for level in 1..=3 {
        let offset =
            plan.head.payload_from + (table - plan.head.payload_to) + (address >> (39 - 9 * level) & 0x1ff) * 8;
        let entry = u64::from_le_bytes(file.get(offset as usize..offset as usize + 8)?.try_into().ok()?);
        let is_table = entry & 3 == 3 && level < 3;
        if entry & 1 == 0 || is_table != (entry & 2 == 2) && level < 3 {
            return None;
        }
        if !is_table {
            let below = (1_u64 << (39 - 9 * level)) - 1;
            assert_eq!(entry & 0xffff_ffff_f000 & !below, address & !below, "an address is mapped to another one");
            return Some((entry >> 7 & 1 == 0, entry >> 2 & 7 == 0, entry >> 5 & 1 == 1));
        }
        table = entry & 0xffff_ffff_f000;
    }
    None
}

/// What is wrong with a file for this machine.
struct Wrong<'a> {
    file: &'a [u8],
    plan: WorldPlan,
    facts: &'a Facts,
    found: Vec<String>,
}

impl Wrong<'_> {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(what());
        }
    }

    /// A write of the library to the interrupt controller, which is for this frame.
    fn is_register(&mut self, frame: &Range<u64>, address: u64, what: &str) {
        let reached = reach(self.file, &self.plan, address);
        let is_good = frame.contains(&address) && reached == Some((true, true, false));
        self.unless(is_good, || format!("{what}: a write to {address:#x}, where it is {reached:x?}"));
    }

    /// Memory that the library changes for the other world.
    fn is_worlds(&mut self, address: u64, bytes: u64, what: &str) {
        let (ram, plan) = (self.facts.ram.clone(), self.plan);
        let last = address.checked_add(bytes.max(1) - 1);
        let is_ram = last.is_some_and(|last| ram.contains(&address) && ram.contains(&last));
        let mapped = (address..address.saturating_add(bytes))
            .step_by(4096)
            .all(|at| reach(self.file, &plan, at) == Some((true, false, true)));
        self.unless(is_ram && mapped, || format!("{what}: {bytes:#x} bytes at {address:#x}"));
    }

    fn interrupts(&mut self) {
        let (plan, facts) = (self.plan, self.facts);
        for write in of_distributor(plan.distributor, 9, &plan.secure_interrupts) {
            self.is_register(&facts.distributor, write.address, "the distributor");
        }
        let own = &facts.redistributors[0];
        for write in of_redistributor(plan.redistributor, &plan.secure_interrupts, plan.cores.closed[0]) {
            self.is_register(own, write.address, "the own redistributor");
        }
        for word in 1..9 {
            for write in of_restart(plan.distributor, word, &plan.secure_interrupts, plan.cores.closed[0]) {
                let address = match write {
                    RestartWrite::Word(write) => write.address,
                    RestartWrite::Byte(address, _) => address,
                };
                self.is_register(&facts.distributor, address, "a restart");
            }
        }
        for core in 1..(plan.cores.count as usize).min(MOST_CORES) {
            for write in of_other_core(plan.cores.redistributors[core - 1], plan.cores.closed[core]) {
                self.is_register(&facts.redistributors[core], write.address, "another core");
            }
            self.unless(plan.cores.kicks[core] & 1 == 0, || format!("core {core} kicks the payload"));
        }
        let secure = |intid: u32| plan.secure_interrupts[intid as usize / 32] >> (intid % 32) & 1 == 1;
        for intid in (0..29).chain([30, 31]).chain(facts.elsewhere.iter().copied()) {
            self.unless(!secure(intid), || {
                format!("INTID {intid}, which the other world raises as it likes, is the payload's")
            });
        }
        self.unless(secure(29), || String::from("the secure timer is not the payload's"));
        for urgent in plan.urgent.iter().filter(|one| one.intid != 0) {
            self.unless(!facts.elsewhere.contains(&urgent.intid) && !secure(urgent.intid), || {
                format!("INTID {} changes hands, and is another core's or the payload's", urgent.intid)
            });
        }
    }

    fn time(&mut self) {
        let plan = self.plan;
        let servers = plan.servers.iter().take_while(|server| server.kind != 0).count();
        self.unless(Servers::new(&plan.servers).count() == servers, || String::from("a server of no kind"));
        for server in plan.servers.iter().filter(|server| server.budget_ticks != 0) {
            // The library asserts that it has its account.
            let period = u64::from(server.period) * (self.facts.counter_hz / KERNEL_HZ);
            self.unless(Filled::<true>::new(server.budget_ticks, period, 0).is_ok(), || {
                format!("a server that no account holds: {server:?}")
            });
        }
        for urgent in plan.urgent.iter().filter(|one| one.intid != 0) {
            self.unless((urgent.server as usize) < servers, || {
                format!("INTID {} wakes server {}", urgent.intid, urgent.server)
            });
        }
        let table = plan.windows;
        self.unless(table.count == 0 || Windows::of_plan(0, &table).is_some(), || {
            format!("a table of windows that the library does not take: {table:?}")
        });
        let is_signal = |intid: u32| {
            plan.secure_interrupts.get(intid as usize / 32).is_some_and(|word| word >> (intid % 32) & 1 == 0)
        };
        self.unless(is_signal(table.interrupt), || {
            format!("windows are told by the payload's INTID {}", table.interrupt)
        });
        let health = plan.health;
        if health.is_watched() {
            let is_slow = |ticks: u64| ticks == 0 || ticks >= self.facts.counter_hz / KERNEL_HZ;
            let is_patient =
                is_slow(health.heartbeat_ticks) && (health.stuck_samples == 0 || health.stuck_samples >= 10);
            self.unless(is_patient, || format!("a healthy world is taken for a dead one: {health:?}"));
        }
    }

    fn memory(&mut self) {
        let plan = self.plan;
        let (to, bytes) = (plan.head.payload_to, plan.head.payload_bytes);
        let in_ram = to >= secure_ram::TABLES && bytes <= 0x0f00_0000 - secure_ram::TABLES && to + bytes <= 0x0f00_0000;
        self.unless(in_ram && bytes % 16 == 0 && bytes != 0, || format!("EL3 copies {bytes:#x} bytes to {to:#x}"));
        if plan.entry == 0 {
            return;
        }
        let window = Window { first: plan.window, bytes: plan.window_bytes };
        self.unless(window.holds(plan.entry, 4) && plan.entry.is_multiple_of(4), || {
            format!("it is entered at {:#x}", plan.entry)
        });
        let mut restart = Restart::begin();
        let scope = Scope { interrupt_words: 0, masters: 0 };
        for _ in 0..200_000 {
            let crc = match restart.step(&plan) {
                Step::Scrub { address, bytes } => {
                    // Each first page of a block of 2 MiB: the window has thousands.
                    if address % (1 << 21) == 0 || address + bytes == plan.window + plan.window_bytes {
                        self.is_worlds(address, bytes, "a page that is filled");
                    }
                    0
                }
                Step::Copy { from, to, bytes, crc } => {
                    self.is_worlds(to, bytes, "a page that is copied");
                    let source = usize::try_from(from).ok().and_then(|from| self.file.get(from..from + bytes as usize));
                    self.unless(source.is_some(), || format!("a copy from {from:#x}"));
                    crc32c::crc32c_append(!crc, source.unwrap_or_default())
                }
                Step::Check { address, bytes, crc } => {
                    let segment = plan.segments.iter().find(|one| (one.to..one.to + one.bytes).contains(&address));
                    let from = segment.map_or(0, |one| (one.from + address - one.to) as usize);
                    crc32c::crc32c_append(!crc, &self.file[from..from + bytes as usize])
                }
                Step::Run => return,
                Step::Damaged { segment, .. } => return self.unless(false, || format!("segment {segment} is damaged")),
                _ => 0,
            };
            restart.done(&plan, &scope, !crc);
        }
        self.unless(false, || String::from("a start without an end"));
    }

    fn channels(&mut self) {
        let (plan, facts) = (self.plan, self.facts);
        let mut taken = Vec::from([Range { start: plan.window, end: plan.window + plan.window_bytes }]);
        for channel in plan.channels.iter().filter(|one| one.name[0] != 0) {
            let Some(bytes) = channel.pool_bytes() else {
                self.found.push(format!("a channel of no pool: {channel:?}"));
                continue;
            };
            let pool = channel.address..channel.address.saturating_add(bytes);
            let is_apart = taken.iter().all(|other| pool.end <= other.start || other.end <= pool.start);
            let is_there = facts.ram.contains(&pool.start) && pool.end <= facts.ram.end && is_apart;
            let is_reached =
                pool.clone().step_by(4096).all(|at| reach(self.file, &plan, at) == Some((true, true, true)));
            self.unless(is_there && is_reached, || format!("a pool at {pool:x?}"));
            let is_signal = channel.interrupt == 0
                || plan.secure_interrupts[channel.interrupt as usize / 32] >> (channel.interrupt % 32) & 1 == 0;
            self.unless(is_signal, || format!("a signal that is the payload's: {}", channel.interrupt));
            taken.push(pool);
        }
        if plan.wish.address != 0 {
            let reached = reach(self.file, &plan, plan.wish.address);
            let page = plan.wish.address..plan.wish.address.saturating_add(4096);
            let is_apart = taken.iter().all(|other| page.end <= other.start || other.end <= page.start);
            self.unless(
                facts.ram.contains(&page.start) && is_apart && reached.is_some_and(|(write, _, other)| write && other),
                || format!("the page of the wish at {page:x?}, where it is {reached:x?}"),
            );
        }
        for status in plan.partitions.iter().filter(|page| **page != 0) {
            let reached = reach(self.file, &plan, *status);
            self.unless(facts.ram.contains(status) && reached == Some((true, false, true)), || {
                format!("what EL2 says of a partition at {status:#x}, where it is {reached:x?}")
            });
        }
    }
}

/// All that is wrong with a file.
fn wrong(file: &[u8], facts: &Facts) -> Vec<String> {
    let mut wrong = Wrong { file, plan: plan(file), facts, found: Vec::new() };
    wrong.interrupts();
    wrong.time();
    wrong.memory();
    wrong.channels();
    wrong.found.truncate(4);
    wrong.found
}

/// One to three changes of a plan, or of a table of the payload.
fn change(random: &mut Random, file: &mut Changed) -> String {
    let (mut what, tables) = (String::new(), file.word(PLAN + 16));
    // Most words of tables are no entries.
    let entries: Vec<u64> = (0..0x1000)
        .map(|word| tables + 8 * word)
        .filter(|at| (*at as usize) < file.0.len() - 8 && file.word(*at) != 0)
        .collect();
    for _ in 0..random.within(1, 3) {
        // Most of a plan is empty, so the fields are found more often than their bytes say.
        let place = match random.below(10) {
            0 => PLAN + 4 * random.below(0x400),
            1 => tables + 8 * random.below(0x1000),
            5 => entries[random.index(entries.len())],
            6 => PLAN + 4 * random.within(1584 / 4, 1680 / 4),
            7 => PLAN + 4 * random.within(2368 / 4, 2480 / 4),
            2 => PLAN + 4 * random.within(504 / 4, 688 / 4),
            3 => PLAN + 4 * random.within(688 / 4, 768 / 4),
            4 => PLAN + 4 * random.within(1280 / 4, 1320 / 4),
            _ => PLAN + 4 * random.below(800 / 4),
        };
        let before = file.word(place);
        let other = file.word(PLAN + 8 * random.below(0x60));
        let after = match random.below(10) {
            0..4 => before ^ 1 << random.below(64),
            4 => other,
            5 => before & !0xffff_ffff | other & 0xffff_ffff,
            6 => before.wrapping_add(random.below(64)).wrapping_sub(32),
            7 => before.wrapping_add(random.below(64) << 12).wrapping_sub(32 << 12),
            8 => before & !0xffff_ffff | random.below(1 << 10),
            _ => [0, u64::MAX, 1 << 63, u64::from(u32::MAX), 0x0e00_0000, 0x0800_0000, 0x080a_0000][random.index(7)],
        };
        file.put(place, after);
        what += &format!("{before:#x} at {place:#x} is {after:#x}; ");
    }
    what
}

/// What is accepted of these files changed at random is good; some is, or the search finds nothing.
fn search(name: &str, good: &[u8], facts: &Facts, is_accepted: impl Fn(&[u8]) -> bool) {
    assert!(is_accepted(good));
    assert_eq!(wrong(good, facts), [] as [&str; 0], "the file as it was built");
    let mut accepted = 0;
    random::check_some(name, DIVISOR, |random| {
        let mut file = Changed(good.to_vec());
        let what = change(random, &mut file);
        let file = file.seal();
        if file != good && is_accepted(&file) {
            accepted += 1;
            assert_eq!(wrong(&file, facts), [] as [&str; 0], "{what}");
        }
    });
    println!("{name}: {accepted} changed files were accepted");
    assert!(accepted > 0 || std::env::var_os("BULKHEAD_CASES").is_some());
}

#[test]
fn what_is_accepted_of_changed_plans_is_good() {
    let expected = worlds::expected();
    search("changed plans", &worlds::good(true), &facts(1, &[]), |file| verify_flash(file, &expected).is_accepted());
}

#[test]
fn what_is_accepted_of_changed_plans_of_cores_is_good() {
    let elsewhere = hybrid::elsewhere();
    search("changed plans of cores", &hybrid::good(), &facts(4, &elsewhere), |file| hybrid::verify(file).is_accepted());
}
