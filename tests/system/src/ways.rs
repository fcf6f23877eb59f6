//! How long the real-time kernel takes from one thread to another, and for calls about time: instances of the component `ways`, which counts instructions.

use crate::kernel::{Counted, Place, rows, run};
use crate::system::guest;
use bulkhead_instance::{Component, Instance, Member, Shares, Thread, write};
use bulkhead_kernel_abi::boot::{BandRow, BindingRow, EndPointRow, SchedulerRow, ServerRow, TcapRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{ALL_TICKS, Capability, Kind, MAX_SERVERS, NONE};
use bulkhead_words::{Rule, ServerFlag};

/// What is counted, with threads of one component and between budgets that last, but for two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A signal to a thread of the same server, which its threads hold: it waits its turn.
    SignalPeer,
    /// A signal to a sleeping thread of a less important server.
    SignalLess,
    /// A signal to a thread of a more important server, up to its first instruction.
    SignalMore,
    /// A signal to a thread of the same server, which a scheduler holds and in which it is more important, up to its first instruction.
    SignalHeld,
    /// `switch` of a thread that its scheduler allows that to another one, up to that one's first instruction.
    Switch,
    /// [`Self::SignalHeld`] where a part of the server's time is for somebody else: not by the short way.
    SignalDivided,
    /// [`Self::Switch`] where that is so.
    SwitchDivided,
    /// The interrupt of a device, up to the first instruction of its driver on a sporadic server.
    Interrupt,
    /// The same on a PIBS server.
    InterruptPibs,
    /// A budget comes back, up to the first instruction of the more important thread.
    ComesBack,
    /// A budget is used up, up to the first instruction of the less important thread.
    UsedUp,
    /// `delegate` between claims that have been through one scheduler.
    Delegate,
    /// The same through fifteen: with the kernel's there are sixteen words, as many as there can be.
    DelegateAll,
    /// A server made in a band.
    Create,
    /// The same with the published test, beside 63 others.
    CreateTested,
    /// The null call of a thread that computes with floating point, up to its next use of a register.
    NullComputing,
    /// [`Self::SignalMore`] between two threads that compute, up to the first use of a register.
    SignalMoreComputing,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::SignalPeer,
        Self::SignalLess,
        Self::SignalMore,
        Self::SignalHeld,
        Self::Switch,
        Self::SignalDivided,
        Self::SwitchDivided,
        Self::Interrupt,
        Self::InterruptPibs,
        Self::ComesBack,
        Self::UsedUp,
        Self::Delegate,
        Self::DelegateAll,
        Self::Create,
        Self::CreateTested,
        Self::NullComputing,
        Self::SignalMoreComputing,
    ];

    /// Nothing but the kernel's state decides how long it takes, and that is the same each time.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        !matches!(
            self,
            Self::Interrupt | Self::InterruptPibs | Self::ComesBack | Self::UsedUp | Self::Create | Self::CreateTested
        )
    }
}

/// The second timer of a core, CNTP, stands for the device: it rings each 400 us, and the top half arms it again.
const DEVICE: u32 = 30;
const DEVICE_TICKS: u64 = 25_000;
/// The period of every server, but for those whose budgets end: some visits of a server fall into it, and each comes back alone.
const PERIOD_TICKS: u64 = 50_000;
/// The period of servers that are made.
const MADE_TICKS: u64 = 625_000;
/// The number of the scheduler in vectors.
const ID: u16 = 1;

/// A sporadic server without turns; budget and period in ticks.
#[must_use]
pub fn sporadic(level: u8, budget_ticks: u64, period_ticks: u64) -> ServerRow {
    ServerRow {
        rule: Rule::Sporadic.number(),
        flags: ServerFlag::DispatchAnchor.number(),
        budget_ticks,
        period_ticks,
        smallest_chunk_ticks: 1000,
        chunks: 16,
        level,
        background: 255,
        holder: NONE,
        band: NONE,
        ..ServerRow::default()
    }
}

/// One whose budget lasts as long as it sleeps now and then, or somebody else runs.
fn lasting(level: u8) -> ServerRow {
    sporadic(level, PERIOD_TICKS - 1_000, PERIOD_TICKS)
}

/// One whose budget never ends.
pub(crate) fn endless() -> ServerRow {
    sporadic(0, 1 << 50, 1 << 51)
}

/// What an instance has for a way.
#[derive(Debug, Default)]
struct Setting {
    /// Role of each thread, as the component numbers them, and its server.
    threads: Vec<(u64, u16)>,
    /// Which of them receives.
    receiver: Option<u16>,
    servers: Vec<ServerRow>,
    bindings: Vec<BindingRow>,
    shares: Shares,
    /// What is in the slots from this one on.
    more: Option<(usize, Vec<Capability>)>,
    /// The component declares floating point.
    computes: bool,
}

impl Setting {
    fn of(way: Way) -> Self {
        match way {
            // Nobody else is there, and none of the two ever sleeps.
            Way::SignalPeer => Self::signal([(1, 0), (3, 0)], 1, vec![endless()]),
            Way::SignalLess => Self::signal([(2, 0), (3, 1)], 1, Self::half_and_lasting()),
            Way::SignalMore => Self::signal([(5, 0), (4, 1)], 0, Self::half_and_lasting()),
            Way::SignalHeld => Self { receiver: Some(0), ..Self::held(5, 4, 11) },
            Way::Switch => Self::held(12, 13, 11),
            Way::SignalDivided => Self { receiver: Some(0), ..Self::held(5, 4, 20) },
            Way::SwitchDivided => Self::held(12, 13, 20),
            Way::Interrupt => Self::device([(6, 0), (7, 1)], Self::half_and_lasting(), false),
            Way::InterruptPibs => {
                let rule = Rule::Pibs.number();
                let share = ServerRow { rule, budget_ticks: 1, period_ticks: 2, clients: 1 << 1, ..lasting(1) };
                Self::device([(10, 0), (7, 1)], vec![share, lasting(2)], true)
            }
            Way::ComesBack => Self::budgets([(8, 0), (7, 1)]),
            Way::UsedUp => Self::budgets([(7, 0), (9, 1)]),
            Way::Delegate => Self::claims(14),
            Way::DelegateAll => Self::claims(15),
            Way::Create => Self::band(1, 0),
            Way::CreateTested => Self::band(MAX_SERVERS as u16 - 1, 1),
            Way::NullComputing => {
                Self { threads: vec![(17, 0)], servers: vec![endless()], computes: true, ..Self::default() }
            }
            Way::SignalMoreComputing => {
                Self { computes: true, ..Self::signal([(19, 0), (18, 1)], 0, Self::half_and_lasting()) }
            }
        }
    }

    fn half_and_lasting() -> Vec<ServerRow> {
        vec![sporadic(0, PERIOD_TICKS / 2, PERIOD_TICKS), lasting(1)]
    }

    fn signal(threads: [(u64, u16); 2], receiver: u16, servers: Vec<ServerRow>) -> Self {
        Self { threads: threads.to_vec(), receiver: Some(receiver), servers, ..Self::default() }
    }

    fn budgets(threads: [(u64, u16); 2]) -> Self {
        let servers = vec![sporadic(0, PERIOD_TICKS / 16, PERIOD_TICKS / 4), lasting(1)];
        Self { threads: threads.to_vec(), servers, ..Self::default() }
    }

    fn device(threads: [(u64, u16); 2], servers: Vec<ServerRow>, is_for_client: bool) -> Self {
        let (default_client, clients) = if is_for_client { (1, 1 << 1) } else { (NONE, 0) };
        let period_ticks = DEVICE_TICKS;
        let binding =
            BindingRow { intid: DEVICE, default_client, clients, bits: 1, period_ticks, ..BindingRow::default() };
        let more = Some((4, vec![capability(Kind::Interrupt, 0)]));
        Self { bindings: vec![binding], more, ..Self::signal(threads, 0, servers) }
    }

    /// A server that a scheduler holds, whose thread is the last one; the first one of its two threads is the more important one.
    fn held(more: u64, less: u64, schedules: u64) -> Self {
        let claim = |left_ticks, priority| TcapRow {
            scheduler: ID,
            left_ticks,
            expires_ticks: ALL_TICKS,
            end_point: NONE,
            priority,
            ..TcapRow::default()
        };
        let member = |thread: u16| Member { thread, scheduler: 0, tcap: 1 + thread, label: thread.into() };
        let own = Member { thread: 2, scheduler: NONE, tcap: 0, label: 0 };
        // The server's own claim, and one without time.
        let kinds = [Kind::Scheduler, Kind::Thread, Kind::Thread, Kind::TCap, Kind::TCap];
        let more_slots = kinds.into_iter().zip([0, 0, 1, 0, 3]);
        Self {
            threads: vec![(more, 0), (less, 0), (schedules, 0)],
            servers: vec![ServerRow { holder: 0, ..endless() }],
            shares: Shares {
                schedulers: vec![SchedulerRow { thread: 2, parent: NONE, id: ID, reserved: 0 }],
                numbers: Vec::new(),
                tcaps: vec![claim(ALL_TICKS, 2), claim(ALL_TICKS, 3), claim(0, 4)],
                bands: Vec::new(),
                members: vec![member(0), member(1), own],
            },
            more: Some((5, more_slots.map(|(kind, object)| capability(kind, object)).collect())),
            ..Self::default()
        }
    }

    /// A server and claims on it: its own, and those that it gives to, each of another scheduler but for the last two of the first ones.
    fn claims(role: u64) -> Self {
        let claim = |scheduler| TcapRow { scheduler, end_point: NONE, priority: 2, ..TcapRow::default() };
        let tcaps: Vec<TcapRow> = [ID, ID].into_iter().chain(ID + 1..=15).map(claim).collect();
        let slots = (0..=tcaps.len() as u16).map(|number| capability(Kind::TCap, number)).collect();
        Self {
            threads: vec![(role, 0)],
            servers: vec![endless()],
            shares: Shares { tcaps, ..Shares::default() },
            more: Some((8, slots)),
            ..Self::default()
        }
    }

    /// A band of one server above others, the last of which is the thread's.
    fn band(others: u16, admission: u16) -> Self {
        // Together they want a tenth of what the published test lets them have.
        let small = sporadic(1, 1_000, 1_000 * 1_024);
        let last = ServerRow { level: 2, budget_ticks: 1 << 46, ..endless() };
        let in_band = ServerRow { band: 0, ..sporadic(0, 0, MADE_TICKS) };
        let band = BandRow {
            shortest_period_ticks: MADE_TICKS,
            longest_period_ticks: MADE_TICKS,
            budget_ticks: MADE_TICKS / 100,
            smallest_budget_ticks: 1_000,
            servers: 1,
            admission,
            ..BandRow::default()
        };
        let servers = [vec![in_band], vec![small; usize::from(others) - 1], vec![last]].concat();
        Self {
            threads: vec![(16, others)],
            servers,
            shares: Shares { bands: vec![band], ..Shares::default() },
            more: Some((8, vec![capability(Kind::Band, 0), Capability::NULL])),
            ..Self::default()
        }
    }

    fn capabilities(&self) -> Vec<Capability> {
        let send = |word| Capability { word, ..capability(Kind::Send, 0) };
        let mut slots = vec![Capability::NULL, capability(Kind::Receive, 0), send(1), send(2)];
        if let Some((first, more)) = &self.more {
            slots.resize(*first, Capability::NULL);
            slots.extend(more);
        }
        slots
    }
}

fn capability(kind: Kind, object: u16) -> Capability {
    let rights = if matches!(kind, Kind::TCap | Kind::Band) { kind.rights() } else { right::USE };
    Capability { kind: kind.number(), rights, object, grant: 1, ..Capability::NULL }
}

/// The instance that counts a way this often.
///
/// # Panics
/// When a program is not there.
#[must_use]
pub fn image(way: Way, times: u64) -> Vec<u8> {
    let (kernel, program) = (guest("kernel/kernel.elf"), guest("kernel/ways.elf"));
    let setting = Setting::of(way);
    let thread =
        |(role, server): &(u64, u16)| Thread { argument: role | times << 8, stack_bytes: 8192, server: *server };
    let receiver = EndPointRow { thread: setting.receiver.unwrap_or(NONE), tcap: NONE, ..EndPointRow::default() };
    let instance = Instance {
        server_names: Vec::new(),
        kernel: &kernel,
        components: vec![Component {
            name: "ways".to_owned(),
            program: &program,
            threads: setting.threads.iter().map(thread).collect(),
            capabilities: setting.capabilities(),
            floating_point: setting.computes,
            ..Component::default()
        }],
        servers: setting.servers,
        end_points: vec![receiver],
        bindings: setting.bindings,
        shares: setting.shares,
        wires: Vec::new(),
        processes: bulkhead_instance::Processes::default(),
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// Counts a way this often.
///
/// # Panics
/// When the component does not say what it counted.
#[must_use]
pub fn count(way: Way, times: u64, place: Place) -> Counted {
    let lines = run(&image(way, times), place);
    let mut found = rows(&lines);
    assert_eq!(found.len(), 1, "{way:?}: {lines:?}");
    found.remove(0)
}
