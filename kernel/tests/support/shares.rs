//! A kernel on a fake core whose servers have claims of several, and who runs is made to call: for tests of time that is given away.
#![allow(dead_code)] // Each test program uses a part of it.

use crate::support::{room, time_room};
use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::Entry;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::boot::{
    BandRow, BindingRow, BootHeader, ComponentRow, EndPointRow, SchedulerRow, ServerRow, Tables, TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::call::{Call, Flag};
use bulkhead_kernel_abi::{ALL_TICKS, Capability, Code, Kind, NONE};
use bulkhead_words::{Rule, ServerFlag};

/// Slots of the one table that all components have.
pub(crate) const RECEIVE: u64 = 1;
pub(crate) const SEND: u64 = 2;
pub(crate) const BAND: u64 = 3;
pub(crate) const SCHEDULER: u64 = 4;
/// Temporal capability 0; the others follow.
pub(crate) const TCAP: u64 = 5;
/// Thread 0; the others follow.
pub(crate) const THREAD: u64 = 12;
pub(crate) const EMPTY: u64 = 16;
pub(crate) const INTERRUPT: u64 = 17;
pub(crate) const NOTIFY: u64 = Flag::Notify.number();

pub(crate) fn sporadic(level: u8, budget_ticks: u64, period_ticks: u64) -> ServerRow {
    ServerRow {
        rule: Rule::Sporadic.number(),
        flags: ServerFlag::DispatchAnchor.number(),
        budget_ticks,
        period_ticks,
        smallest_chunk_ticks: 1,
        chunks: 8,
        level,
        background: 255,
        holder: NONE,
        band: NONE,
        ..ServerRow::default()
    }
}

pub(crate) fn unlimited(level: u8) -> ServerRow {
    ServerRow { level, background: 255, holder: NONE, band: NONE, ..ServerRow::default() }
}

/// A claim of a scheduler, on everything of a server or, without one, on nothing.
pub(crate) fn claim(server: u16, scheduler: u16, priority: u64) -> TcapRow {
    let left_ticks = if server == NONE { 0 } else { ALL_TICKS };
    TcapRow { left_ticks, server, scheduler, priority, ..TcapRow::default() }
}

#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) servers: Vec<ServerRow>,
    pub(crate) tcaps: Vec<TcapRow>,
    /// Temporal capability and scheduler of each thread.
    pub(crate) threads: Vec<(u16, u16)>,
    pub(crate) schedulers: Vec<SchedulerRow>,
    pub(crate) bands: Vec<BandRow>,
    pub(crate) bindings: Vec<BindingRow>,
}

impl Rows {
    pub(crate) fn tables(&self) -> Tables<'static> {
        let capability = |kind: Kind, object: u16| Capability {
            kind: kind.number(),
            rights: kind.rights(),
            object,
            grant: 1,
            word: 1,
        };
        let mut slots = vec![Capability::NULL; 32];
        for (slot, kind) in
            [(RECEIVE, Kind::Receive), (SEND, Kind::Send), (BAND, Kind::Band), (SCHEDULER, Kind::Scheduler)]
        {
            slots[slot as usize] = capability(kind, 0);
        }
        if !self.bindings.is_empty() {
            slots[INTERRUPT as usize] = capability(Kind::Interrupt, 0);
        }
        for number in 0..7 {
            slots[TCAP as usize + usize::from(number)] = capability(Kind::TCap, number);
        }
        for number in 0..4 {
            slots[THREAD as usize + usize::from(number)] = capability(Kind::Thread, number);
        }
        let thread = |(number, (tcap, scheduler)): (u64, &(u16, u16))| ThreadRow {
            tcap: *tcap,
            scheduler: *scheduler,
            label: 100 + number,
            server: self.tcaps[usize::from(*tcap)].server,
            entry: 0x40_0010,
            started: 1,
            end_point: if number == 0 { 0 } else { NONE },
            ..ThreadRow::default()
        };
        let server = |(number, row): (u16, &ServerRow)| ServerRow { tcap: number, ..*row };
        let last = (self.tcaps.len() - 1) as u16;
        Tables {
            header: Box::leak(Box::new(BootHeader::default())),
            components: Vec::leak(vec![ComponentRow {
                root: 0x1000,
                slots: 32,
                supervisor: NONE,
                ..ComponentRow::default()
            }]),
            entries: &[],
            stacks: &[],
            capabilities: Vec::leak(slots),
            threads: Vec::leak((0..).zip(&self.threads).map(thread).collect()),
            servers: Vec::leak((0..).zip(&self.servers).map(server).collect()),
            bands: Vec::leak(self.bands.clone()),
            schedulers: Vec::leak(self.schedulers.clone()),
            tcaps: Vec::leak(self.tcaps.clone()),
            end_points: Vec::leak(vec![EndPointRow { tcap: last, ..EndPointRow::default() }]),
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

pub(crate) struct Test {
    pub(crate) kernel: Kernel<'static, FakeCore>,
    pub(crate) running: Option<u16>,
    pub(crate) ran: Vec<(u16, u64)>,
}

impl Test {
    pub(crate) fn new(rows: &Rows) -> Self {
        let tables = rows.tables();
        let kernel = Kernel::new(FakeCore::default(), room(), time_room(), &tables, 62_500_000).expect("rows");
        let mut this = Self { kernel, running: None, ran: Vec::new() };
        let next = this.kernel.choose();
        this.take(next);
        this
    }

    pub(crate) fn take(&mut self, next: Next) {
        let Next::Thread(thread) = next else { panic!("a thread is left") };
        self.running = Some(thread);
    }

    pub(crate) fn now(&mut self) -> u64 {
        self.kernel.machine().now_ticks
    }

    /// Everybody spins until then.
    pub(crate) fn spin(&mut self, until: u64) {
        let mut entries = 0;
        while self.now() < until {
            entries += 1;
            assert!(entries < 10_000, "time does not pass");
            let now = self.now();
            let core = self.kernel.machine();
            let next = core.timer_ticks.clamp(now, until);
            core.now_ticks = next;
            let rings = core.timer_ticks <= next;
            let running = self.running.expect("somebody runs");
            match self.ran.last_mut().filter(|(who, _)| *who == running) {
                Some((_, ticks)) => *ticks += next - now,
                None => self.ran.push((running, next - now)),
            }
            if rings {
                let next = self.kernel.enter(Entry::Interrupt);
                self.take(next);
            }
        }
        self.ran.retain(|(_, ticks)| *ticks != 0);
    }

    /// A call of who runs; returns its code, if it continues.
    pub(crate) fn call(&mut self, call: Call, arguments: &[u64]) -> Code {
        let caller = self.running.expect("somebody runs");
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..8].fill(0);
        registers.x[..arguments.len()].copy_from_slice(arguments);
        let syndrome = 0x15 << 26 | 1 << 25 | u64::from(call.number());
        // As the vectors do it.
        let short = if call == Call::Switch { self.kernel.exchange() } else { None };
        let next = short.unwrap_or_else(|| self.kernel.enter(Entry::Synchronous { syndrome, address: 0 }));
        self.take(next);
        self.code(caller)
    }

    pub(crate) fn code(&self, thread: u16) -> Code {
        Code::from_number(self.x(thread, 0)).expect("a code")
    }

    pub(crate) fn x(&self, thread: u16, register: usize) -> u64 {
        self.kernel.objects().room().threads[usize::from(thread)].registers.x[register]
    }

    /// What server and background were charged.
    pub(crate) fn charged(&self, server: usize) -> (u64, u64) {
        let account = &self.kernel.accounts().servers[server];
        (account.charged_ticks, account.background_ticks)
    }
}
