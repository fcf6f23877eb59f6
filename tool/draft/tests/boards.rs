//! Drafts of both QEMU machines, made from the trees that QEMU itself gives them, beside the board files of the repository.
//!
//! Whatever differs is in a table with the reason; a difference that is gone is a failure as well.

use bulkhead_description::board::{built_in_board, examine};
use bulkhead_draft::draft;
use bulkhead_run::qemu;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::de::{DeTable, DeValue};

/// What differs on purpose: key, value in the draft, value in the board file (`-`: none), reason.
type Difference = (&'static str, &'static str, &'static str, &'static str);

const UNKNOWN: &str = "no device tree says it";
const SPARE: &str = "what no node names may be wired all the same; for QEMU its source says what is free";
const QEMU: &str = "how QEMU is told to be the machine is no fact of the machine";
const SIZE: &str = "the tree has the memory of the run that wrote it, the board file the most that QEMU is given";
const FLASH: &str = "QEMU keeps firmware there; no partition asked for it";
const NAME: &str = "QEMU calls its machine otherwise than its tree does";
const LOADED: &str = "QEMU's own start-up code is at the start of RAM, so it adds 2 MiB to a text offset of 0";

#[rustfmt::skip]
const VIRT: &[Difference] = &[
    ("counter_hz", "TODO", "0x3b9aca0", UNKNOWN),
    ("device[0].address", "0", "-", FLASH),
    ("device[0].compatible[0]", "cfi-flash", "-", FLASH),
    ("device[0].name", "flash", "-", FLASH),
    ("device[0].size", "64 MiB", "-", FLASH),
    ("device[0x4000000].address", "0x4000000", "-", FLASH),
    ("device[0x4000000].compatible[0]", "cfi-flash", "-", FLASH),
    ("device[0x4000000].name", "flash-part2", "-", FLASH),
    ("device[0x4000000].size", "64 MiB", "-", FLASH),
    ("enters_at", "TODO", "el2", UNKNOWN),
    ("interrupt_controller.list_registers", "TODO", "4", UNKNOWN),
    ("interrupt_controller.security_states", "TODO", "1", UNKNOWN),
    ("interrupt_controller.shared_interrupts", "TODO", "224", UNKNOWN),
    ("interrupt_controller.spare", "TODO", "-", SPARE),
    ("interrupt_controller.spare[0].first", "-", "42", SPARE),
    ("interrupt_controller.spare[0].last", "-", "47", SPARE),
    ("interrupt_controller.spare[1].first", "-", "80", SPARE),
    ("interrupt_controller.spare[1].last", "-", "105", SPARE),
    ("load_address", "0x40000000", "0x40200000", LOADED),
    ("memory[0x40000000].size", "4 GiB", "8 GiB", SIZE),
    ("name", "linux-dummy-virt", "qemu-virt", NAME),
    ("qemu.arguments[0]", "-", "-rtc", QEMU),
    ("qemu.arguments[1]", "-", "clock=vm", QEMU),
    ("qemu.bare_machine", "-", "virt,gic-version=3", QEMU),
    ("qemu.boot_loader", "-", "/usr/lib/u-boot/qemu_arm64/u-boot.bin", QEMU),
    ("qemu.cpu", "-", "cortex-a53", QEMU),
    ("qemu.machine", "-", "virt,gic-version=3,virtualization=on", QEMU),
    ("qemu.pci_machine", "-", "virt,gic-version=3,virtualization=on,iommu=smmuv3", QEMU),
    ("qemu.root_port", "-", "pcie-root-port", QEMU),
];

#[rustfmt::skip]
const VERSAL: &[Difference] = &[
    ("counter_hz", "TODO", "0x3b9aca0", UNKNOWN),
    ("enters_at", "TODO", "el2", UNKNOWN),
    ("interrupt_controller.list_registers", "TODO", "4", UNKNOWN),
    ("interrupt_controller.security_states", "TODO", "2", UNKNOWN),
    ("interrupt_controller.shared_interrupts", "TODO", "160", UNKNOWN),
    ("interrupt_controller.spare", "TODO", "-", SPARE),
    ("interrupt_controller.spare[0].first", "-", "100", SPARE),
    ("interrupt_controller.spare[0].last", "-", "110", SPARE),
    ("interrupt_controller.spare[1].first", "-", "112", SPARE),
    ("interrupt_controller.spare[1].last", "-", "142", SPARE),
    ("interrupt_controller.spare[2].first", "-", "176", SPARE),
    ("interrupt_controller.spare[2].last", "-", "191", SPARE),
    ("memory[0x800000000].size", "2 GiB", "32 GiB", SIZE),
    ("qemu.arguments[0]", "-", "-rtc", QEMU),
    ("qemu.arguments[1]", "-", "clock=vm", QEMU),
    ("qemu.cores", "-", "4", QEMU),
    ("qemu.machine", "-", "xlnx-versal-virt", QEMU),
];

/// The tree that QEMU makes for a built-in board.
fn tree(board: &str, directory: &Path) -> Vec<u8> {
    let facts = built_in_board(board).and_then(|board| board.qemu).expect("a board of QEMU");
    let (output, kernel) = (directory.join("tree.dtb"), directory.join("kernel"));
    // The Versal's tree describes PSCI only when QEMU is the boot loader.
    std::fs::write(&kernel, [0; 4096]).expect("a file can be written");
    let mut command = Command::new(qemu::program());
    command.args(["-nodefaults", "-display", "none", "-m", "4G"]);
    command.args(["-M", &format!("{},dumpdtb={}", facts.machine, output.display())]);
    command.args(facts.cpu.iter().flat_map(|cpu| ["-cpu", cpu]));
    if facts.cores.is_none() {
        command.args(["-smp", "8"]);
    }
    let done = command.arg("-kernel").arg(&kernel).output().expect("QEMU can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read(&output).expect("QEMU wrote the tree")
}

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

/// Every value of a table with its key; what has an address is named by it.
fn values(table: &DeTable<'_>, place: &str, all: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        one(value.get_ref(), &format!("{place}{}", key.get_ref()), all);
    }
}

fn one(value: &DeValue<'_>, place: &str, all: &mut BTreeMap<String, String>) {
    match value {
        DeValue::Table(table) => values(table, &format!("{place}."), all),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let address = item.get_ref().as_table().and_then(|table| table.get("address"));
                let name = address.map_or_else(|| index.to_string(), |address| scalar(address.get_ref()));
                one(item.get_ref(), &format!("{place}[{name}]"), all);
            }
        }
        scalar_value => {
            let text = scalar(scalar_value);
            let text = if text.starts_with("TODO") { String::from("TODO") } else { text };
            all.insert(place.to_owned(), text);
        }
    }
}

fn scalar(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => {
            let value = u64::from_str_radix(number.as_str(), number.radix()).expect("a number");
            if value < 0x1_0000 { value.to_string() } else { format!("{value:#x}") }
        }
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(state) => state.to_string(),
        other => panic!("no value of a board file: {other:?}"),
    }
}

fn all(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    values(DeTable::parse(text).expect("TOML").get_ref(), "", &mut all);
    all
}

/// A tree says where a host bridge is; that partitions may have functions behind it, and which, is found out by a person. Takes out what was
/// compared.
fn compare_bridges(made: &mut BTreeMap<String, String>, written: &mut BTreeMap<String, String>) {
    let is_of_host = |key: &str| key.starts_with("pci.") || key.starts_with("pci_model[");
    let Some(ecam) = written.get("pci.ecam.address").cloned() else { return };
    for key in ["address", "size"] {
        let drafted = made.remove(&format!("pci[{ecam}].{key}"));
        assert_eq!(drafted.as_ref(), written.get(&format!("pci.ecam.{key}")), "{key} of configuration space");
    }
    assert_eq!(made.remove(&format!("pci[{ecam}].name")).as_deref(), Some("pcie"));
    written.retain(|key, _| !is_of_host(key));
}

fn compare(board: &str, expected: &[Difference]) {
    let directory = directory(board);
    let draft = draft(&tree(board, &directory), "QEMU").expect("a device tree");
    assert_eq!(draft.warnings, [""; 0]);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../boards").join(format!("{board}.toml"));
    let file = std::fs::read_to_string(path).expect("a board file");
    let (mut made, mut written) = (all(&draft.text), all(&file));
    compare_bridges(&mut made, &mut written);
    let keys: BTreeSet<&String> = made.keys().chain(written.keys()).collect();
    let value =
        |all: &BTreeMap<String, String>, key: &str| all.get(key).map_or_else(|| String::from("-"), String::clone);
    let found: Vec<(String, String, String)> = keys
        .into_iter()
        .map(|key| (key.clone(), value(&made, key), value(&written, key)))
        .filter(|(_, made, written)| made != written)
        .collect();
    let is_listed = |(key, made, written): &(String, String, String)| {
        expected.iter().any(|one| (one.0, one.1, one.2) == (key.as_str(), made.as_str(), written.as_str()))
    };
    let unlisted: Vec<String> = found
        .iter()
        .filter(|one| !is_listed(one))
        .map(|(key, made, written)| format!("(\"{key}\", \"{made}\", \"{written}\", ),"))
        .collect();
    assert!(unlisted.is_empty(), "{board}: differences without a reason:\n{}", unlisted.join("\n"));
    assert_eq!(found.len(), expected.len(), "{board}: a difference of the table is gone");
    assert!(expected.iter().all(|(.., reason)| !reason.is_empty()), "each has a reason");

    // Everything that is to be found out is named, and nothing else is in the way.
    let todos = examine("draft", &draft.text).report;
    assert!(todos.diagnostics.iter().all(|one| one.code.name() == "BH0017"), "{}", todos.to_text(false));
    assert_eq!(todos.diagnostics.len(), draft.todos);
    let filled = examine("filled", &draft.filled.expect("there is room"));
    assert!(filled.board.is_some(), "{}", filled.report.to_text(false));
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn the_draft_of_qemu_virt_is_its_board_file_but_for_what_is_listed() {
    compare("qemu-virt", VIRT);
}

#[test]
fn the_draft_of_the_versal_is_its_board_file_but_for_what_is_listed() {
    compare("xlnx-versal-virt", VERSAL);
}
