//! How long the real-time kernel takes from one thread to another: instances of the component `ways`, which counts instructions.

use crate::kernel::{Counted, Place, rows, run};
use crate::system::guest;
use bulkhead_instance::{Component, Instance, Thread, write};
use bulkhead_kernel_abi::boot::{BindingRow, EndPointRow, ServerRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Kind, NONE};
use bulkhead_words::{Rule, ServerFlag};

/// What is counted, always with two threads of one component and between budgets that last, but for the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A signal to a thread of the same server, which its threads hold: it waits its turn.
    SignalPeer,
    /// A signal to a sleeping thread of a less important server.
    SignalLess,
    /// A signal to a thread of a more important server, up to its first instruction.
    SignalMore,
    /// The interrupt of a device, up to the first instruction of its driver on a sporadic server.
    Interrupt,
    /// The same on a PIBS server.
    InterruptPibs,
    /// A budget comes back, up to the first instruction of the more important thread.
    ComesBack,
    /// A budget is used up, up to the first instruction of the less important thread.
    UsedUp,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::SignalPeer,
        Self::SignalLess,
        Self::SignalMore,
        Self::Interrupt,
        Self::InterruptPibs,
        Self::ComesBack,
        Self::UsedUp,
    ];
}

/// The second timer of a core, CNTP, stands for the device: it rings each 400 us, and the top half arms it again.
const DEVICE: u32 = 30;
const DEVICE_TICKS: u64 = 25_000;
/// The period of every server, but for those whose budgets end: some visits of a server fall into it, and each comes back alone.
const PERIOD_TICKS: u64 = 50_000;

/// A sporadic server without turns.
fn sporadic(level: u8, budget_ticks: u64, period_ticks: u64) -> ServerRow {
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

/// The instance that counts a way this often.
///
/// # Panics
/// When a program is not there.
#[must_use]
pub fn image(way: Way, times: u64) -> Vec<u8> {
    let (kernel, program) = (guest("kernel/kernel.elf"), guest("kernel/ways.elf"));
    // Roles of the two threads, as the component numbers them, their servers, and which of them receives.
    let (roles, server_of, receiver) = match way {
        Way::SignalPeer => ([1, 3], [0, 0], 1),
        Way::SignalLess => ([2, 3], [0, 1], 1),
        Way::SignalMore => ([5, 4], [0, 1], 0),
        Way::Interrupt => ([6, 7], [0, 1], 0),
        Way::InterruptPibs => ([10, 7], [0, 1], 0),
        Way::ComesBack => ([8, 7], [0, 1], NONE),
        Way::UsedUp => ([7, 9], [0, 1], NONE),
    };
    let servers = match way {
        // Nobody else is there, and none of the two ever sleeps.
        Way::SignalPeer => vec![sporadic(0, 1 << 40, 1 << 41)],
        Way::InterruptPibs => {
            let rule = Rule::Pibs.number();
            let share = ServerRow { rule, budget_ticks: 1, period_ticks: 2, clients: 1 << 1, ..lasting(1) };
            vec![share, lasting(2)]
        }
        Way::ComesBack | Way::UsedUp => vec![sporadic(0, PERIOD_TICKS / 16, PERIOD_TICKS / 4), lasting(1)],
        _ => vec![sporadic(0, PERIOD_TICKS / 2, PERIOD_TICKS), lasting(1)],
    };
    let is_device = matches!(way, Way::Interrupt | Way::InterruptPibs);
    let default_client = if way == Way::InterruptPibs { 1 } else { NONE };
    let clients = if way == Way::InterruptPibs { 1 << 1 } else { 0 };
    let period_ticks = DEVICE_TICKS;
    let binding = BindingRow { intid: DEVICE, default_client, clients, bits: 1, period_ticks, ..BindingRow::default() };
    let capability = |kind: Kind, word: u64| Capability {
        kind: kind.number(),
        rights: right::USE,
        grant: 1,
        word,
        ..Capability::NULL
    };
    let thread =
        |place: usize| Thread { argument: roles[place] | times << 8, stack_bytes: 8192, server: server_of[place] };
    let mut capabilities =
        vec![Capability::NULL, capability(Kind::Receive, 0), capability(Kind::Send, 1), capability(Kind::Send, 2)];
    if is_device {
        capabilities.push(capability(Kind::Interrupt, 0));
    }
    let instance = Instance {
        kernel: &kernel,
        components: vec![Component {
            name: "ways".to_owned(),
            program: &program,
            threads: vec![thread(0), thread(1)],
            capabilities,
            ..Component::default()
        }],
        servers,
        end_points: vec![EndPointRow { thread: receiver, tcap: NONE, ..EndPointRow::default() }],
        bindings: if is_device { vec![binding] } else { Vec::new() },
        shares: bulkhead_instance::Shares::default(),
        wires: Vec::new(),
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
