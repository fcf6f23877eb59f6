//! Processes on a core: made, forked, replaced, ended and begun again, from quotas that add up, by a component that is told of each end (`kernel.md` 7; QV-E6, CH-62).

use crate::described::Described;
use crate::places::{Place, run};
use bulkhead_instance::{Component, Import, Instance, Interface, ProcessProgram, Processes, Shares, Thread, write};
use bulkhead_kernel_abi::boot::{EndPointRow, QuotaRow, ServerRow};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Kind, NONE};
use bulkhead_system_tests::system::guest;
use bulkhead_verify::instance::{kernel, verify_instance};

/// What the spawner imports, in the order of its slots from 1 on; the program's number is none.
const SLOTS: [&str; 3] = ["told", "quota", "jobs"];
/// Servers: of children of one that counts, of the spawner, of its children.
const MORE: u16 = 0;
const OWN: u16 = 1;
const JOBS: u16 = 2;
/// Slots of the spawner.
const TABLE: usize = 64;
/// The end of the list of children.
const END: u8 = 0xff;

/// A spawner that makes these children, one after the other, with a quota of that number of pages; their server is less important, and that of children of one that counts
/// more.
fn image(children: &[u8], pages: u32) -> Vec<u8> {
    let files = ["kernel", "spawner", "worker"].map(|name| guest(&format!("kernel/{name}.elf")));
    let mut list = [END; 8];
    list[..children.len()].copy_from_slice(children);
    let of = |kind: Kind, rights: u8| Capability { kind: kind.number(), rights, grant: 1, ..Capability::NULL };
    let server = |object| Capability { object, ..of(Kind::Server, right::BIND) };
    let mut capabilities = vec![Capability::NULL, of(Kind::Receive, right::USE), of(Kind::Quota, right::USE)];
    capabilities.extend([JOBS, MORE].map(server));
    capabilities.resize(TABLE, Capability::NULL);
    let import = |name: &str, slot: u64| Import { name: name.to_owned(), slot };
    let mut imports: Vec<Import> = SLOTS.iter().zip(1..).map(|(name, slot)| import(name, slot)).collect();
    imports.extend([import("worker", 0), import("room", 40)]);
    let worker = Interface::read(&files[2]).expect("a program");
    assert_eq!(worker.imports.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["payer"]);
    let level = |level: u8| ServerRow { holder: NONE, band: NONE, background: 255, level, ..ServerRow::default() };
    let instance = Instance {
        server_names: Vec::new(),
        kernel: &files[0],
        components: vec![Component {
            name: "spawner".to_owned(),
            program: &files[1],
            threads: vec![Thread { argument: u64::from_le_bytes(list), stack_bytes: 8192, server: OWN }],
            capabilities,
            imports,
            ..Component::default()
        }],
        servers: vec![level(0), level(1), level(2)],
        end_points: vec![EndPointRow { tcap: NONE, ..EndPointRow::default() }],
        bindings: vec![],
        shares: Shares::default(),
        wires: vec![],
        processes: Processes {
            programs: vec![ProcessProgram {
                name: "worker".to_owned(),
                file: &files[2],
                imports: vec![import("payer", 2)],
                stack_bytes: 16 << 10,
                floating_point: false,
            }],
            quotas: vec![QuotaRow {
                pages,
                components: 8,
                threads: 12,
                regions: 2,
                programs: 1,
                ..QuotaRow::default()
            }],
        },
    };
    let bytes = write(&instance).unwrap_or_else(|error| panic!("{error}"));
    let expected = kernel(&files[0]).expect("a kernel");
    assert_eq!(verify_instance(&bytes, Some(&expected)).findings, []);
    bytes
}

/// Lines of the spawner that are the same whatever its children do.
const BEGINS: [&str; 2] = ["spawner: too small Err(Full)", "spawner: no program Err(BadArgument)"];

/// The board and a partition say the same of these children.
fn said(children: &[u8]) -> Vec<String> {
    let image = image(children, 256);
    let board = run(&image, Place::Board);
    assert_eq!(run(&image, Place::Direct), board, "{children:?}");
    board
}

fn assert_said(children: &[u8], lines: &[&str]) {
    let expected: Vec<&str> = BEGINS.iter().chain(lines).chain(&["spawner: over"]).copied().collect();
    assert_eq!(said(children), expected, "{children:?}");
}

/// What a child of each kind comes to.
const HELLO: [&str; 3] = ["worker: hello", "spawner: 0 exited with 7", "spawner: 0 is taken apart Ok(())"];
const FORKS: [&str; 5] = [
    "child: 41 51",
    "parent: 40 50, child Ok(41)",
    "parent: destroys Ok(()), again Err(BadCapability)",
    "spawner: 1 exited with 8",
    "spawner: 1 is taken apart Ok(())",
];

/// QV-E6: the parent is told of an end and reads the code; what was taken apart can be made again, so nothing is lost.
#[test]
fn a_process_says_hello_and_its_maker_is_told_of_its_end() {
    assert_said(&[0, 0, 0, 0, 0, 0], &[HELLO; 6].concat());
}

/// QV-E6: both continue behind the fork, 0 is the child's answer, and neither sees what the other one writes.
#[test]
fn a_fork_has_memory_of_its_own() {
    assert_said(&[1, 0, 1], &[&FORKS[..], &HELLO, &FORKS].concat());
}

/// Text, data and stack are the program's again: its number is as the file has it.
#[test]
fn exec_replaces_the_memory() {
    assert_said(
        &[2],
        &["worker: became itself, number 1", "spawner: 2 exited with 10", "spawner: 2 is taken apart Ok(())"],
    );
}

/// A process that faults is begun again with the data that its program has, and not with what it had.
#[test]
fn a_process_that_faults_is_begun_again() {
    let faults = ["worker: begins with number 1", "spawner: 4 faulted, kind 5, address 0x0"];
    let again = ["spawner: again Ok(())"];
    let lines = [&faults[..], &again, &faults, &again, &faults, &["spawner: 4 is taken apart Ok(())"]].concat();
    assert_said(&[4], &lines);
}

/// CH-62: pages of a region are zeros, are seen wherever they are mapped, are never writable and executable, and after `protect` a store is a fault at once: the core has
/// forgotten what it knew.
#[test]
fn memory_is_mapped_shared_and_protected() {
    let lines = [
        "region: Ok(())",
        "map: Ok(2), again Err(Busy)",
        "writable and executable: Err(Denied)",
        "share: Ok(())",
        "more rights: Err(Denied)",
        "part: Ok(1)",
        "was 0, is 77",
        "protect: Ok(2)",
        "unmap: Ok(1), again Err(BadArgument)",
        "spawner: 5 faulted, kind 1, address 0x10001000",
        "spawner: 5 is taken apart Ok(())",
    ];
    assert_said(&[5], &lines);
}

/// Row 12: from the call of `fork`, of a process with 64 KiB of writable memory, to the first instruction of its child, which is more important.
const FORK: u64 = 15_750;

/// QV-E6, row 12: every fork takes the same, on the board and in a partition.
#[test]
fn a_fork_of_64_kib_takes_what_is_known() {
    // It is the only one, and forks 64 times.
    let said = said(&[7, 64, 0, 0, 0, 0, 0, 0]);
    println!("{said:#?}");
    let line = said.iter().find_map(|line| line.strip_prefix("fork: ")).expect("it was counted");
    let words: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    assert!(words[1] <= FORK && words[3..] == [64, 64], "{line}");
}

/// A component in C that makes a process of its own program.
const FAMILY: &str = r#"version = 1
pool = "512 KiB"
server = [{ name = "main" }, { name = "jobs" }]
program = [{ name = "family", file = "component:family.elf", slots = ["told", "quota", "jobs", "program", "room"] }]

[[component]]
name = "maker"
program = "component:family.elf"
threads = [{ name = "main", server = "main" }]
end_points = [{ thread = "main", signals = ["ends"] }]
quota = "512 KiB"
processes = 2
bind = { told = "receive:main", quota = "quota", jobs = "server:jobs", program = "program:family", room = "empty:2" }
"#;

/// QV-E6: the same calls in C, by a description: spawn, map, protect, fork, exit, fault, destroy; the parent's memory and the child's code are in what the maker finds.
#[test]
fn processes_in_c_do_the_same() {
    let image = Described::new("family", FAMILY).laid().bytes;
    let board = run(&image, Place::Board);
    assert_eq!(board, ["exited 8, 42", "over 0, 1"]);
    assert_eq!(run(&image, Place::Direct), board);
}
