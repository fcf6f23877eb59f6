//! An instance on a fake core with one component and one thread for each server, and who ran how long.

use crate::support::{room, time_room};
use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::Entry;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::boot::{
    BindingRow, BootHeader, ComponentRow, EndPointRow, ServerRow, Tables, TcapRow, ThreadRow,
};
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_words::{Rule, ServerFlag};

pub(crate) const DEVICE: u32 = 40;
/// The end point and the interrupt of thread 0, in the table of its component.
pub(crate) const END_POINT: u64 = 1;
pub(crate) const INTERRUPT: u64 = 2;

/// A sporadic server that is dated when it executes.
pub(crate) fn sporadic(level: u8, budget_ticks: u64, period_ticks: u64, background: bool) -> ServerRow {
    ServerRow {
        rule: Rule::Sporadic.number(),
        flags: ServerFlag::DispatchAnchor.number(),
        budget_ticks,
        period_ticks,
        smallest_chunk_ticks: 1,
        chunks: 8,
        level,
        background: if background { 64 + level } else { 255 },
        ..unlimited(level)
    }
}

pub(crate) fn unlimited(level: u8) -> ServerRow {
    ServerRow { level, background: 255, holder: NONE, band: NONE, ..ServerRow::default() }
}

/// One component and one thread for each of these servers. Thread 0 takes from an end point that the device's interrupt sends to, and
/// the server of this number pays for its top half.
pub(crate) fn tables(servers: &[ServerRow], threads: &[u16], payer: u16) -> Tables<'static> {
    let capability = |kind: Kind| Capability { kind: kind.number(), rights: right::USE, grant: 1, ..Capability::NULL };
    let component = |number: usize| ComponentRow {
        root: 0x1000 * (number as u64 + 1),
        slots: if number == 0 { 3 } else { 0 },
        supervisor: NONE,
        ..ComponentRow::default()
    };
    let thread = |(number, server): (usize, &u16)| ThreadRow {
        component: number as u16,
        server: *server,
        tcap: *server,
        entry: 0x40_0010,
        started: 1,
        scheduler: NONE,
        end_point: if number == 0 { 0 } else { NONE },
        ..ThreadRow::default()
    };
    let tcap = |server: usize| TcapRow { server: server as u16, ..TcapRow::default() };
    let server = |(number, row): (usize, &ServerRow)| ServerRow { tcap: number as u16, ..*row };
    Tables {
        header: Box::leak(Box::new(BootHeader::default())),
        components: Vec::leak((0..threads.len()).map(component).collect()),
        entries: &[],
        stacks: &[],
        capabilities: Vec::leak(vec![Capability::NULL, capability(Kind::Receive), capability(Kind::Interrupt)]),
        threads: Vec::leak(threads.iter().enumerate().map(thread).collect()),
        servers: Vec::leak(servers.iter().enumerate().map(server).collect()),
        bands: &[],
        schedulers: &[],
        tcaps: Vec::leak((0..servers.len()).map(tcap).collect()),
        end_points: Vec::leak(vec![EndPointRow { tcap: NONE, ..EndPointRow::default() }]),
        bindings: Vec::leak(vec![BindingRow {
            intid: DEVICE,
            bits: 1,
            server: payer,
            default_client: NONE,
            ..BindingRow::default()
        }]),
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

pub(crate) struct Test {
    pub(crate) kernel: Kernel<'static, FakeCore>,
    pub(crate) running: u16,
    /// Who ran how long, one after the other; `None` is nobody.
    pub(crate) ran: Vec<(Option<u16>, u64)>,
}

impl Test {
    pub(crate) fn new(servers: &[ServerRow], threads: &[u16]) -> Self {
        Self::with_payer(servers, threads, 0)
    }

    pub(crate) fn with_payer(servers: &[ServerRow], threads: &[u16], payer: u16) -> Self {
        Self::of(&tables(servers, threads, payer))
    }

    pub(crate) fn of(tables: &Tables<'static>) -> Self {
        let kernel = Kernel::new(FakeCore::default(), room(), time_room(), tables, 62_500_000).expect("servers");
        let mut this = Self { kernel, running: 0, ran: Vec::new() };
        let next = this.kernel.choose();
        this.take(next);
        this
    }

    pub(crate) fn take(&mut self, next: Next) {
        match next {
            Next::Thread(thread) => self.running = thread,
            Next::Nobody => panic!("a thread is left"),
        }
    }

    pub(crate) fn enter(&mut self, entry: Entry) {
        let before = self.core().now_ticks;
        let next = self.kernel.enter(entry);
        let waited = self.core().now_ticks - before;
        if waited != 0 {
            self.ran.push((None, waited));
        }
        self.take(next);
    }

    pub(crate) fn core(&mut self) -> &mut FakeCore {
        self.kernel.machine()
    }

    /// Everybody spins until then; the timer interrupts.
    pub(crate) fn spin(&mut self, until: u64) {
        while self.core().now_ticks < until {
            let now = self.core().now_ticks;
            let next = self.core().timer_ticks.clamp(now, until);
            self.core().now_ticks = next;
            let running = self.running;
            match self.ran.last_mut().filter(|(who, _)| *who == Some(running)) {
                Some((_, ticks)) => *ticks += next - now,
                None => self.ran.push((Some(running), next - now)),
            }
            if self.core().timer_ticks <= next {
                self.enter(Entry::Interrupt);
            }
        }
    }

    pub(crate) fn call(&mut self, call: Call, arguments: &[u64]) -> u16 {
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..8].fill(0);
        registers.x[..arguments.len()].copy_from_slice(arguments);
        self.enter(Entry::Synchronous { syndrome: 0x15 << 26 | 1 << 25 | u64::from(call.number()), address: 0 });
        self.running
    }

    /// The thread that runs sleeps; returns who runs then.
    pub(crate) fn sleep(&mut self, until: u64) -> u16 {
        self.call(Call::Receive, &[0, 0, until])
    }

    pub(crate) fn code(&self, thread: usize) -> Code {
        Code::from_number(self.kernel.objects().room().threads[thread].registers.x[0]).expect("a code")
    }

    /// Ticks charged to a server, and in the background.
    pub(crate) fn charged(&self, server: usize) -> (u64, u64) {
        let account = &self.kernel.accounts().servers[server];
        (account.charged_ticks, account.background_ticks)
    }
}
