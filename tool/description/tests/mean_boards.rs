//! Board files with numbers at the extremes, and facts that contradict each other in ways that a person overlooks: each is refused, by its
//! place, and none takes long. Every one of them was accepted, or was not answered, before somebody attacked the reader.

use bulkhead_abi::image::MAX_RESERVED;
use bulkhead_description::board::{Examined, examine};

const GOOD: &str = include_str!("../../../boards/qemu-virt.toml");
const REGIONS: &str = "redistributors = [{ address = 0x080a_0000, size = \"15744 KiB\" }]";

fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

fn messages(examined: &Examined) -> Vec<&str> {
    examined.report.diagnostics.iter().map(|one| one.message.as_str()).collect()
}

/// States that a file is refused for this reason and no other.
fn refused(text: &str, why: &str) {
    let examined = examine("mean.toml", text);
    let messages = messages(&examined);
    assert!(examined.board.is_none(), "accepted: {why}");
    assert!(!messages.is_empty() && messages.iter().all(|message| message.contains(why)), "{why}: {messages:?}");
    let has_place = |one: &bulkhead_description::Diagnostic| !one.labels.is_empty();
    assert!(examined.report.diagnostics.iter().all(has_place), "{why}: no place");
}

#[test]
fn numbers_that_no_board_has_are_refused() {
    for (from, to, why) in [
        ("list_registers = 4", "list_registers = 17", "at most 16 list registers"),
        ("list_registers = 4", "list_registers = 0x7fff_ffff_ffff_ffff", "at most 16 list registers"),
        ("mpidr = [0, 1, ", "mpidr = [0x8000_0000, 1, ", "without them it is 0x0"),
        ("mpidr = [0, 1, ", "mpidr = [0x100_0000_0000, 1, ", "no affinity fields"),
        ("security_states", "redistributor_stride = 0\nsecurity_states", "0x20000 bytes or more apart"),
        ("security_states", "redistributor_stride = 0x1_0000\nsecurity_states", "0x20000 bytes or more apart"),
        ("security_states", "redistributor_stride = 0x2_0001\nsecurity_states", "by multiples of 0x10000"),
        ("shared_interrupts = 224", "shared_interrupts = 0x1_0000_0000", "4294967296 shared interrupts"),
        ("interrupt = 33", "interrupt = 256", "interrupt 256 of the UART does not exist"),
        ("first = 42, last = 47", "first = 33, last = 33", "interrupt 33 of the UART is listed as spare"),
    ] {
        refused(&changed(from, to), why);
    }
}

/// What is listed to be in nobody's map is in no device's pages, in no RAM and beside no frame that the monitor uses.
#[test]
fn what_is_nobodys_is_not_given_away() {
    let beside = |kind: &str, address: u64, size: &str| match kind {
        "pci" => {
            let others = format!("others = [{{ name = \"guarded\", address = {address}, size = \"{size}\" }}]");
            changed("[pci]\n", &format!("[pci]\n{others}\n"))
        }
        _ => format!("{GOOD}\n[[{kind}]]\nname = \"guarded\"\naddress = {address}\nsize = \"{size}\"\n"),
    };
    for kind in ["smmu", "pci"] {
        refused(&beside(kind, 0x0901_0800, "512 B"), "`guarded` and device `rtc` are in one page");
        refused(&beside(kind, 0x5000_0000, "128 KiB"), "`guarded` is in the bank of RAM at 0x40000000");
        refused(&beside(kind, 0x0800_8000, "4 KiB"), "the distributor and `guarded` are in one page");
        refused(&beside(kind, 0x080f_0000, "4 KiB"), "the redistributors and `guarded` are in one page");
        refused(&beside(kind, 0x0900_0000, "4 KiB"), "the UART and `guarded` are in one page");
        refused(&beside(kind, 0x0905_0000, "banana"), "banana");
        assert!(examine("good.toml", &beside(kind, 0x0905_0000, "128 KiB")).board.is_some(), "{kind}");
        assert!(examine("good.toml", &beside(kind, 0x40_1000_0000, "4 KiB")).board.is_some(), "beside its like");
    }
}

/// A host bridge and its models: facts that contradict each other, and numbers that no bridge has.
#[test]
fn host_bridges_that_cannot_be_are_refused() {
    let blk = "09 00 10 01 04 00 00 00 00 00 00 00 00 10\" },";
    for (from, to, why) in [
        ("size = \"256 MiB\"", "size = \"1 MiB\"", "0x100000 bytes for each bus"),
        ("0x40_1000_0000", "0x40_1000_1000", "begins at a multiple"),
        ("0x40_1000_0000", "0x4000_0000", "in the bank of RAM at 0x40000000"),
        ("\"769984 KiB\"", "\"0 KiB\"", "whole pages below 4 GiB"),
        ("address = 0x1000_0000", "address = 0xffff_f000", "whole pages below 4 GiB"),
        ("address = 0x1000_0000", "address = 0x0800_0000", "the window of PCI"),
        (
            "first_interrupt = 35",
            "first_interrupt = 39",
            "one of the four lines of PCI, 39 to 42, is another's or spare",
        ),
        ("first_interrupt = 35", "first_interrupt = 30", "30 is not the INTID of a shared peripheral interrupt"),
        ("first_interrupt = 35", "first_interrupt = 253", "fewer `shared_interrupts`"),
        ("slots = [1, ", "slots = [32, ", "a bus has slots 0 to 31"),
        ("slots = [1, ", "slots = [2, ", "slot 2 is listed twice"),
        ("root_port = 16", "root_port = 12", "slot 12 is listed twice"),
        ("root_port = 16\n", "", "needs a `root_port` in `[pci]`"),
        ("stage = 1", "stage = 3", "stage 1 or 2"),
        ("0x0905_0000", "0x0905_1000", "multiple of 64 KiB"),
        ("wait_limit = 10_000", "wait_limit = 0", "a wait has 1 to 1000000 reads"),
        ("reset_delay = \"0 ns\"", "reset_delay = \"11 s\"", "within 10 s"),
        ("name = \"virtio-net\"", "name = \"virtio-blk\"", "two models are called `virtio-blk`"),
        ("vendor = 0x1af4", "vendor = 0x1_0000", "this has 16 bits"),
        ("class = 0x01_0000", "class = 0x100_0000", "this has 24 bits"),
        ("register = 4,", "register = 5,", "a wide one takes two"),
        ("register = 4,", "register = 1,", "each is listed once"),
        ("register = 4,", "register = 0xffff_ffff_ffff_ffff,", "registers 0 to 5"),
        ("\"16 KiB\", wide", "\"12 KiB\", wide", "a power of two of bytes"),
        ("\"09 70 14 05\"", "\"09 60 14 05\"", "the second byte of this capability is the place of the next one, 0x70"),
        ("\"09 70 14 05\"", "\"09 7\"", "pairs of hexadecimal digits"),
        ("\"09 70 14 05\"", "\"09 +7\"", "pairs of hexadecimal digits"),
        (blk, "09 00 10 02\" },", "no common configuration of virtio"),
        ("offset = 0x98", "offset = 0x3c", "from 0x40 on"),
        ("offset = 0x98", "offset = 0xfc", "ends before 0x100"),
        ("offset = 0x98", "offset = 0x74", "none is over another"),
        ("offset = 0x98", "offset = 0xffff_ffff_ffff_fffc", "ends before 0x100"),
        ("10 60 92 00 00 80 00 10", "10 60 92 00 00 80 00 00", "function-level reset"),
    ] {
        refused(&changed(from, to), why);
    }
    let without = GOOD.split("[pci]\n").next().expect("a part").to_owned();
    let models = GOOD.split_once("[[pci_model]]").expect("models").1;
    refused(&format!("{without}\n[[pci_model]]{models}"), "need a table `[pci]`");
    // The list of older files.
    let listed = format!("{without}\n[[pci]]\nname = \"pcie\"\naddress = 0x40_1000_0000\nsize = \"256 MiB\"\n");
    assert!(examine("old.toml", &listed).board.is_some_and(|board| board.pci.is_none()));
}

/// Entries are compared with each other, those that a `count` or a size stands for one by one: counted before that is long.
#[test]
fn a_few_entries_that_stand_for_a_million_are_counted_first() {
    let family = |number: usize| {
        let address = 0x2_0000_0000 + 0x1000 * number;
        format!("[[device]]\nname = \"d{number}-\"\ncount = 980\naddress = {address}\nsize = \"1 B\"\n")
    };
    let families: String = (0..1000).map(family).collect();
    refused(&format!("{GOOD}\n{families}"), "there are more than 4096 devices");
    let region = |number: usize| format!("{{ address = {}, size = \"128 MiB\" }},", 0x1_0000_0000 + number * 0x1_0000);
    let regions: String = (0..1000).map(region).collect();
    let examined = examine("mean.toml", &changed(REGIONS, &format!("redistributors = [{regions}]")));
    assert!(examined.board.is_none() && messages(&examined).iter().all(|message| message.contains("redistributors")));
}

/// A draft of a damaged tree had such a board.
#[test]
fn a_bank_that_is_reserved_has_no_place_for_an_image() {
    let reserved =
        |size: &str| format!("{GOOD}\n[[reserved]]\nname = \"all\"\naddress = 0x4000_0000\nsize = \"{size}\"\n");
    refused(&reserved("8 GiB"), "no 2 MiB for an image");
    refused(&reserved("4 GiB"), "the load address is in the reserved region `all`");
}

/// Firmware and its parts reserve what lies side by side, in pages and in parts of pages: that is one region of an image.
#[test]
fn reserved_regions_side_by_side_are_one() {
    let region = |number: usize, bytes: usize| {
        let address = 0x5000_0000 + number * bytes;
        format!("[[reserved]]\nname = \"part{number}\"\naddress = {address}\nsize = \"{bytes} B\"\n")
    };
    for bytes in [512, 4096, 0x20_0000] {
        let regions: String = (0..3 * MAX_RESERVED).map(|number| region(number, bytes)).collect();
        let board = examine("good.toml", &format!("{GOOD}\n{regions}")).board.expect("accepted");
        let [one] = board.reserved_in(&board.banks)[..] else {
            panic!("{bytes}: {:?}", board.reserved_in(&board.banks))
        };
        let end = (3 * MAX_RESERVED * bytes).next_multiple_of(4096) as u64;
        assert_eq!((one.start.0, one.bytes), (0x5000_0000, end));
    }
    let apart: String = (0..=MAX_RESERVED).map(|number| region(2 * number, 4096)).collect();
    refused(&format!("{GOOD}\n{apart}"), "17 reserved regions");
}
