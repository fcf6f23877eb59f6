//! Instances of the real-time kernel: where they run, what they print there, and two components that call each other.

pub mod chaos;
pub mod cores;
pub mod figure;
pub mod files;
pub mod remote;
pub mod servers;

use crate::system::guest;
use crate::{Running, System};
use bulkhead_description::Options;
use bulkhead_description::kernel::{Laid, load_native_text};
use bulkhead_instance::{Callers, Component, Import, Instance, Interface, Policy, Thread, write};
use bulkhead_kernel_abi::boot::EndPointRow;
use bulkhead_kernel_abi::capability::{entry_word, right};
use bulkhead_kernel_abi::{Capability, Kind, NONE};
use bulkhead_run::{End, MachineOptions};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where an instance is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The bare board.
    Board,
    /// The board with all that QEMU has of newer cores: PAN among it, so each exception sets it.
    NewerBoard,
    /// A partition with its interrupts to itself.
    Direct,
    /// One whose interrupts the monitor hands on.
    Mapped,
    /// One on a shared core.
    Shared,
    /// In `mapped`, with a virtual PL011 in the place of a ring.
    Uart,
}

impl Place {
    /// Partitions.
    pub const PARTITIONS: [Self; 4] = [Self::Direct, Self::Mapped, Self::Shared, Self::Uart];
}

/// Runs an instance to its end, on one core with instruction counting, and returns what it printed.
#[must_use]
pub fn run(image: &[u8], place: Place) -> Vec<String> {
    match place {
        Place::Board | Place::NewerBoard => {
            let machine = run_bare(image, place == Place::NewerBoard);
            plain(machine.serial_text())
        }
        _ => {
            let mut running = start(image, place);
            assert_eq!(running.end(), End::AllEnded);
            running.assert_no_crash();
            let status = running.status("kernel");
            assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{place:?}");
            let texts = running.texts("kernel");
            // A virtual UART has no more than the board's.
            if place == Place::Uart { plain(texts.join("\n").as_bytes()) } else { texts }
        }
    }
}

/// Lines of a UART without who printed them, as a ring has them.
#[must_use]
pub fn plain(serial: &[u8]) -> Vec<String> {
    let text = |line: &str| -> String {
        let named = line.strip_prefix('[').and_then(|line| line.split_once("] "));
        named.map(|(_, text)| text).or_else(|| line.strip_prefix("| ")).unwrap_or(line).trim_end().to_owned()
    };
    String::from_utf8_lossy(serial).lines().map(text).collect()
}

/// Runs an instance on the bare board to its end.
pub fn run_bare(image: &[u8], is_newer: bool) -> Running {
    let mut options = MachineOptions::bare(image.to_vec());
    options.icount_shift = Some(4);
    if is_newer {
        options.facts.cpu = Some("max".to_owned());
    }
    let mut machine = Running::start(options);
    machine.end();
    machine
}

/// Starts it as a partition.
pub fn start(image: &[u8], place: Place) -> Running {
    let (schedule, rest) = match place {
        Place::Direct => ("", "interrupts = \"direct\""),
        Place::Shared => (
            "[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n",
            "servers = [{ priority = 1, budget = \"5 ms\", period = \"10 ms\" }]",
        ),
        Place::Uart => ("", "interrupts = \"mapped\"\nconsole = \"pl011\""),
        Place::Mapped | Place::Board | Place::NewerBoard => ("", "interrupts = \"mapped\""),
    };
    // Tests run beside one another.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("bulkhead-kernel-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the image");
    let file = directory.join("instance.bin");
    std::fs::write(&file, image).expect("the image is written");
    let text = format!(
        "version = 1\nname = \"kernel\"\nboard = \"qemu-virt\"\nmemory = \"128 MiB\"\n{schedule}\
         [[partition]]\nname = \"kernel\"\ntrust = \"trusted\"\ncores = [0]\nmemory = \"8 MiB\"\n\
         image = {{ kind = \"raw\", file = {file:?}, load = 0x4008_0000 }}\n{rest}\n"
    );
    let running = System::from_text("kernel", &text).start_exact(4);
    std::fs::remove_dir_all(&directory).expect("the directory goes");
    running
}

/// An instance as this text describes it.
///
/// # Panics
/// When it is not accepted.
#[must_use]
pub fn described(text: &str) -> Laid {
    load_native_text(Path::new("test.kernel.toml"), text, &Options::from_environment(None))
        .unwrap_or_else(|report| panic!("{}", report.to_text(false)))
}

/// The caller shows what both do.
pub const SHOWS: u64 = 0;
/// It looks at registers on both sides.
pub const REGISTERS: u64 = 1;
/// It makes calls that fail.
pub const FAILS: u64 = 2;
/// It counts instructions, as often as the number above the lowest byte says.
pub const COUNTS: u64 = 3;
/// It makes random trees of calls, of the seed above the lowest byte.
pub const RANDOM: u64 = 4;

const CALLER: u16 = 0;
const CALLEE: u16 = 1;
/// What the capability to add says.
const TOKEN: u64 = 1000;

fn call(component: u16, entry: u16, token: u64) -> Capability {
    Capability {
        kind: Kind::Call.number(),
        rights: right::USE,
        object: component,
        grant: 1,
        word: entry_word(entry, token),
    }
}

/// Caller and callee bound to each other, with a kernel.
///
/// # Panics
/// When a program is not there or has another interface.
#[must_use]
pub fn pair_on(kernel: &[u8], argument: u64, policy: Policy) -> Vec<u8> {
    pair_of("caller", kernel, argument, policy)
}

/// The same with a caller that is written in C, and shows what it does.
///
/// # Panics
/// When a program is not there or has another interface.
#[must_use]
pub fn pair_in_c(argument: u64) -> Vec<u8> {
    pair_of("c-caller", &guest("kernel/kernel.elf"), argument, Policy::default())
}

fn pair_of(caller: &str, kernel: &[u8], argument: u64, policy: Policy) -> Vec<u8> {
    let programs = [guest(&format!("kernel/{caller}.elf")), guest("kernel/callee.elf")];
    let interfaces = programs.each_ref().map(|file| Interface::read(file).unwrap_or_else(|error| panic!("{error}")));
    let (mut capabilities, mut imports) = ([vec![Capability::NULL], vec![Capability::NULL]], [vec![], vec![]]);
    for (own, interface) in (0_u16..).zip(&interfaces) {
        for function in &interface.imports {
            // `again` is the component itself, by the function that is its part of a random tree.
            let (name, component) = match (function.name.as_str(), own) {
                ("again", CALLER) => ("up", CALLER),
                ("again", _) => ("down", CALLEE),
                (name, own) => (name, 1 - own),
            };
            let other = &interfaces[usize::from(component)];
            let entry = other.entry(name).unwrap_or_else(|| panic!("nobody exports `{name}`"));
            assert_eq!(other.exports[usize::from(entry)].signature, function.signature, "{name}");
            let slot = capabilities[usize::from(own)].len() as u64;
            imports[usize::from(own)].push(Import { name: function.name.clone(), slot });
            capabilities[usize::from(own)].push(call(component, entry, TOKEN));
        }
    }
    // What random calls also find in the caller's slots: a notification, and capabilities that are no good.
    capabilities[0].extend([
        Capability { kind: Kind::Send.number(), rights: right::USE, grant: 1, word: 1, ..Capability::NULL },
        Capability { rights: 0, ..call(CALLEE, 0, 1) },
        Capability { grant: 2, ..call(CALLEE, 0, 1) },
        call(CALLEE, 99, 1),
        call(9, 0, 1),
        call(64, 0, 1),
    ]);
    let [caller, callee] = capabilities;
    let [of_caller, of_callee] = imports;
    let callers = |stacks: u32| Callers { stacks, stack_bytes: 4096 };
    let instance = Instance {
        server_names: Vec::new(),
        kernel,
        components: vec![
            Component {
                name: "caller".to_owned(),
                program: &programs[0],
                threads: vec![Thread { argument, stack_bytes: 8192, server: 0 }],
                capabilities: caller,
                imports: of_caller,
                callers: callers(4),
                policy: Policy::default(),
                ..Component::default()
            },
            Component {
                name: "callee".to_owned(),
                program: &programs[1],
                threads: vec![],
                capabilities: callee,
                imports: of_callee,
                callers: callers(3),
                policy,
                ..Component::default()
            },
        ],
        servers: Vec::new(),
        end_points: vec![EndPointRow { thread: NONE, ..EndPointRow::default() }],
        bindings: vec![],
        shares: bulkhead_instance::Shares::default(),
        wires: Vec::new(),
        processes: bulkhead_instance::Processes::default(),
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// [`pair_on`] the kernel that was built.
#[must_use]
pub fn pair(argument: u64, policy: Policy) -> Vec<u8> {
    pair_on(&guest("kernel/kernel.elf"), argument, policy)
}

/// What the caller counted of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// What.
    pub name: String,
    /// Fewest instructions.
    pub least: u64,
    /// Most.
    pub most: u64,
    /// Of all together.
    pub sum: u64,
    /// How often.
    pub times: u64,
}

/// Runs an instance whose caller counts, and returns what it found.
///
/// # Panics
/// When it does not come to its end.
#[must_use]
pub fn counted(image: &[u8], place: Place) -> Vec<Counted> {
    let lines = run(image, place);
    assert_eq!(lines.last().map(String::as_str), Some("bench done"), "{lines:?}");
    rows(&lines)
}

/// What was counted, as components say it.
pub fn rows(lines: &[String]) -> Vec<Counted> {
    let rows = lines.iter().filter_map(|line| line.strip_prefix("bench ")).filter(|line| *line != "done");
    rows.map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| -> u64 {
            let value =
                words.get(place).and_then(|word| word.split_once('=')).and_then(|(_, value)| value.parse().ok());
            value.unwrap_or_else(|| panic!("{line:?} has no number at {place}"))
        };
        Counted { name: words[0].to_owned(), least: number(1), most: number(2), sum: number(3), times: number(4) }
    })
    .collect()
}
