//! The instance: an umpire, an attacker with an accomplice, and a victim.

use crate::places::{Place, run};
use bulkhead_instance::{Callers, Component, Instance, Policy, Thread, write};
use bulkhead_kernel_abi::boot::EndPointRow;
use bulkhead_kernel_abi::capability::{entry_word, right};
use bulkhead_kernel_abi::{Capability, Kind};
use bulkhead_system_tests::system::guest;

/// Numbers of components, and of their first threads.
const UMPIRE: u16 = 0;
const ATTACKER: u16 = 1;
const VICTIM: u16 = 2;
const SERVICE: u16 = 3;
const HAND: u16 = 1;
const ACCOMPLICE: u16 = 2;
const VICTIMS_THREAD: u16 = 3;
/// End points: the victim's, the accomplice's, the attacker's, and the umpire's, which is told of faults.
const END: u16 = 0;
const WAKES: u16 = 1;
const OWN: u16 = 2;
const FAULTS: u16 = 3;

/// The attacker's slot of a Call of the service.
const CALL_SERVICE: usize = 20;

fn capability(kind: Kind, object: u16, rights: u8) -> Capability {
    Capability { kind: kind.number(), rights, object, grant: 1, word: u64::from(matches!(kind, Kind::Send)) }
}

/// What the attacker has: two that it may use, and one of every kind without a right, or that is none.
fn attackers() -> Vec<Capability> {
    let mut slots = vec![
        Capability::NULL,
        capability(Kind::Send, WAKES, right::USE),
        capability(Kind::Receive, OWN, right::USE),
        // Somebody else's end point, with the right to receive: who takes from it is decided by the end point.
        capability(Kind::Receive, END, right::USE),
        capability(Kind::Thread, VICTIMS_THREAD, 0),
        capability(Kind::Thread, HAND, 0),
        capability(Kind::Component, VICTIM, 0),
        capability(Kind::Component, ATTACKER, 0),
        capability(Kind::Table, VICTIM, 0),
        capability(Kind::Server, 0, 0),
        capability(Kind::TCap, 0, 0),
        // Stale: of another grant.
        Capability { grant: 9, ..capability(Kind::Send, END, right::USE) },
        // No kind's number.
        Capability { kind: 0x55, ..capability(Kind::Send, END, 0x7f) },
        // No object's number.
        capability(Kind::Send, 0xfffe, 0x7f),
        capability(Kind::Call, VICTIM, 0x7f),
        capability(Kind::Call, 0xfffe, 0x7f),
        capability(Kind::Interrupt, 0, 0x7f),
        capability(Kind::Scheduler, 0, 0x7f),
        capability(Kind::Receive, WAKES, right::USE),
        capability(Kind::Send, END, 0),
    ];
    slots.resize(24, Capability::NULL);
    slots
}

/// An instance in which an attacker's program is tried with some attacks.
pub(super) fn image(program: &str, attacks: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    image_with(program, attacks, None)
}

/// One in which the attacker can call a service that is as hostile, has all power over itself, its caller and that one's thread, and as many stacks as a thread
/// has frames.
pub(super) fn image_with_service(attacks: std::ops::RangeInclusive<u64>, needs_ticks: u64) -> Vec<u8> {
    image_with("kernel/hostile.elf", attacks, Some(needs_ticks))
}

fn image_with(program: &str, attacks: std::ops::RangeInclusive<u64>, service: Option<u64>) -> Vec<u8> {
    let (kernel, hostile, attacker) = (guest("kernel/kernel.elf"), guest("kernel/hostile.elf"), guest(program));
    let thread = |argument: u64| Thread { argument, stack_bytes: 8192, server: 0 };
    let all = |kind: Kind, object: u16| capability(kind, object, kind.rights());
    let umpires = vec![
        Capability::NULL,
        all(Kind::Thread, HAND),
        all(Kind::Component, ATTACKER),
        all(Kind::Send, END),
        all(Kind::Thread, ACCOMPLICE),
    ];
    let victims = vec![Capability::NULL, all(Kind::Receive, END)];
    let component = |name: &str, program, threads, capabilities| Component {
        name: name.to_owned(),
        program,
        threads,
        capabilities,
        ..Component::default()
    };
    let end_point = |thread: u16| EndPointRow { thread, ..EndPointRow::default() };
    let call = |rights: u8| Capability { word: entry_word(0, 1), ..capability(Kind::Call, SERVICE, rights) };
    let mut slots = attackers();
    if service.is_some() {
        slots[CALL_SERVICE] = call(right::USE);
    }
    let services = service.map(|needs_ticks| Component {
        callers: Callers { stacks: 8, stack_bytes: 4096 },
        policy: Policy { needs_ticks, is_abortable: true, supervisor: FAULTS, supervisor_bits: 2, ..Policy::default() },
        ..component(
            "service",
            &hostile,
            vec![],
            vec![
                Capability::NULL,
                call(right::USE),
                all(Kind::Component, SERVICE),
                all(Kind::Component, ATTACKER),
                all(Kind::Thread, HAND),
            ],
        )
    });
    let instance = Instance {
        server_names: Vec::new(),
        kernel: &kernel,
        components: [
            component("umpire", &hostile, vec![thread(1 << 32 | attacks.start() << 16 | attacks.end())], umpires),
            // The umpire is told of its faults, so the kernel prints nothing of them.
            Component {
                policy: Policy { supervisor: FAULTS, supervisor_bits: 1, ..Policy::default() },
                ..component("attacker", &attacker, vec![thread(0), thread(3 << 32)], slots)
            },
            component("victim", &hostile, vec![thread(2 << 32)], victims),
        ]
        .into_iter()
        .chain(services)
        .collect(),
        end_points: [VICTIMS_THREAD, ACCOMPLICE, HAND, UMPIRE].map(end_point).to_vec(),
        bindings: Vec::new(),
        shares: bulkhead_instance::Shares::default(),
        wires: Vec::new(),
        processes: bulkhead_instance::Processes::default(),
        servers: Vec::new(),
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// What a run printed: of each attack, by number, and of the victim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) attacks: Vec<(u64, Vec<String>)>,
    pub(super) victim: Vec<String>,
}

/// Runs it, and takes apart what was printed.
pub(super) fn said(image: &[u8], place: Place) -> Said {
    let lines = run(image, place);
    let mut said = Said::default();
    let mut now = Vec::new();
    let mut is_over = false;
    for line in lines {
        // What a storm of text left in front of it has no line end.
        let line = line.trim_start_matches(['.', '~']);
        if let Some(text) = line.strip_prefix("victim: ") {
            said.victim.push(text.to_owned());
        } else if let Some((number, text)) = line.strip_prefix("attack ").and_then(|rest| rest.split_once(": ")) {
            now.push(text.to_owned());
            said.attacks.push((number.parse().expect("a number"), core::mem::take(&mut now)));
        } else if line == "umpire: over" {
            is_over = true;
        } else if !line.is_empty() {
            now.push(line.to_owned());
        }
    }
    assert!(is_over && now.is_empty(), "{place:?}: {said:?} {now:?}");
    said
}
