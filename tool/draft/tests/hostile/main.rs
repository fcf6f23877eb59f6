//! Device trees that contradict themselves: each is answered with one clear message, by an error or by a draft that says what is missing.
//!
//! Every tree is a file of the fuzzer's corpus as well. After a wanted change of a tree run
//! `BULKHEAD_UPDATE_SNAPSHOTS=1 cargo test -p bulkhead-draft --test hostile`.

#[path = "../support/attack.rs"]
mod attack;
mod edit;
mod mutation;
#[path = "../../../../core/sched/tests/support/random.rs"]
mod random;

use bulkhead_draft::{Draft, TreeError, draft};
use dtoolkit::Node;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use std::path::PathBuf;

const VERSAL: &[u8] = include_bytes!("../../../../fuzz/corpus/device_tree/xlnx-versal-virt.dtb");

/// What becomes of a tree.
enum Answer {
    /// It is refused, and the message has this.
    Refused(&'static str),
    /// There is a draft, a warning with the first, and a line with the second.
    Warned(&'static str, &'static str),
    /// There is a draft without a warning, and a line with this.
    Written(&'static str),
}
use Answer::{Refused, Warned, Written};

/// Changes a good tree.
type Edit = fn(&mut DeviceTree);
/// Makes the bytes of a bad one.
type Make = fn() -> Vec<u8>;

/// A property of cells.
fn cells(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// The node of a path; addresses of nodes may be left out.
fn node<'a>(tree: &'a mut DeviceTree, path: &str) -> &'a mut DeviceTreeNode {
    let is = |node: &DeviceTreeNode, name: &str| node.name() == name || node.name_without_address() == name;
    path.split('/').skip(1).fold(&mut tree.root, |node, name| {
        node.children_mut().find(|child| is(child, name)).expect("a node of the tree")
    })
}

/// The Versal's tree with what the tests need.
fn versal() -> DeviceTree {
    const KEPT: [&str; 7] = ["memory", "cpus", "psci", "timer", "gic", "uart", "rtc"];
    let mut tree = edit::parts(VERSAL).tree;
    let names: Vec<String> = tree.root.children().map(|child| child.name().to_owned()).collect();
    for name in names.iter().filter(|name| !KEPT.contains(&name.split('@').next().unwrap_or_default())) {
        tree.root.remove_child(name);
    }
    tree
}

fn set(node: &mut DeviceTreeNode, name: &str, value: Vec<u8>) {
    node.remove_property(name);
    node.add_property(DeviceTreeProperty::new_unchecked(name, value));
}

fn add(parent: &mut DeviceTreeNode, name: &str, properties: &[(&str, Vec<u8>)]) {
    let mut node = DeviceTreeNode::new_unchecked(name);
    properties.iter().for_each(|(name, value)| set(&mut node, name, value.clone()));
    parent.add_child(node);
}

/// Trees that are changes of the Versal's. Its interrupt controller has the phandle 0x8000.
const EDITS: &[(&str, Edit, Answer)] = &[
    (
        "interrupt-parents-in-a-circle",
        |tree| {
            add(&mut tree.root, "one", &[("phandle", cells(&[1])), ("interrupt-parent", cells(&[2]))]);
            add(&mut tree.root, "two", &[("phandle", cells(&[2])), ("interrupt-parent", cells(&[1]))]);
            set(node(tree, "/rtc"), "interrupt-parent", cells(&[1]));
        },
        Written("An interrupt of it is not known: no node is its interrupt parent."),
    ),
    (
        "interrupt-maps-in-a-circle",
        |tree| {
            for (name, own, other) in [("one", 1, 2), ("two", 2, 1)] {
                let map = cells(&[0, other, 0]);
                let own = [
                    ("phandle", cells(&[own])),
                    ("#interrupt-cells", cells(&[1])),
                    ("#address-cells", cells(&[0])),
                    ("interrupt-map", map),
                ];
                add(&mut tree.root, name, &own);
            }
            let rtc = node(tree, "/rtc");
            set(rtc, "interrupt-parent", cells(&[1]));
            set(rtc, "interrupts", cells(&[0]));
        },
        Written("An interrupt of it is not known: its interrupt parents lead in a circle, or too far: /one."),
    ),
    (
        "interrupt-of-an-unknown-kind",
        |tree| set(node(tree, "/rtc"), "interrupts", cells(&[7, 1, 4])),
        Written("An interrupt of it is not known: kind 7 is neither a shared nor a private interrupt"),
    ),
    (
        "interrupt-beyond-the-last",
        |tree| set(node(tree, "/rtc"), "interrupts", cells(&[0, 988, 4])),
        Written("An interrupt of it is not known: number 988 is out of range."),
    ),
    (
        "interrupt-through-another-controller",
        |tree| {
            let gpio = [("phandle", cells(&[1])), ("#interrupt-cells", cells(&[2])), ("interrupt-controller", vec![])];
            add(&mut tree.root, "gpio", &gpio);
            set(node(tree, "/rtc"), "interrupts-extended", cells(&[1, 5, 4]));
        },
        Written("An interrupt of it is not known: through /gpio, which is not followed."),
    ),
    (
        "no-address-cells",
        |tree| set(&mut tree.root, "#address-cells", cells(&[0])),
        Warned("the `#address-cells` and `#size-cells` of its bus are of no use", "memory = \"TODO: "),
    ),
    (
        "four-address-cells",
        |tree| set(&mut tree.root, "#address-cells", cells(&[4])),
        Warned("/memory@0: `reg` is no whole number of entries", "memory = \"TODO: "),
    ),
    (
        "absurd-address-cells",
        |tree| set(&mut tree.root, "#address-cells", cells(&[u32::MAX])),
        Warned("the `#address-cells` and `#size-cells` of its bus are of no use", "memory = \"TODO: "),
    ),
    (
        "absurd-sizes",
        |tree| {
            set(node(tree, "/memory"), "reg", cells(&[0, 0x8000_0000, u32::MAX, u32::MAX]));
            set(node(tree, "/rtc"), "reg", cells(&[u32::MAX, u32::MAX, 0, 2]));
        },
        Warned("/memory@0: it ends beyond the last physical address", "memory = \"TODO: "),
    ),
    (
        "overlapping-memory",
        |tree| set(node(tree, "/memory"), "reg", cells(&[0, 0, 0, 0x8000_0000, 0, 0x4000_0000, 0, 0x8000_0000])),
        Warned(
            "banks of RAM overlap: /memory@0 (0x0 to 0x80000000) and /memory@0 (0x40000000 to 0xc0000000)",
            "memory = \"TODO: ",
        ),
    ),
    (
        "memory-without-a-size",
        |tree| set(node(tree, "/memory"), "reg", cells(&[0, 0x8000_0000, 0, 0])),
        Written("# /memory@0: begins at 0x80000000; a boot loader fills the size in."),
    ),
    (
        "no-timer",
        |tree| drop(tree.root.remove_child("timer")),
        Warned("no timer: no node is of kind arm,armv8-timer", "counter_hz = \"TODO: "),
    ),
    (
        "timer-at-other-interrupts",
        |tree| set(node(tree, "/timer"), "interrupts", cells(&[1, 1, 8, 1, 2, 8, 1, 3, 8, 1, 0, 8])),
        Written("timer = { el1_physical = 18, el1_virtual = 19, el2_physical = 16 }"),
    ),
    (
        "no-interrupt-controller",
        |tree| set(node(tree, "/gic"), "compatible", b"acme,interrupts\0".to_vec()),
        Warned(
            "no interrupt controller that is known (GICv3, GICv2): /gic@f9000000 (acme,interrupts) is none",
            "version = 0",
        ),
    ),
    (
        "no-cores",
        |tree| drop(tree.root.remove_child("cpus")),
        Warned("no cores: /cpus has no readable node", "cores = \"TODO: "),
    ),
    (
        "two-cores-of-one-affinity",
        |tree| set(node(tree, "/cpus/cpu@1"), "reg", cells(&[0])),
        Warned("/cpus/cpu@1: left out, another core has the affinity 0x0", "mpidr = [0] }"),
    ),
    (
        "psci-without-a-method",
        |tree| set(node(tree, "/psci"), "method", b"telepathy\0".to_vec()),
        Written("psci = \"none\""),
    ),
    (
        "overlay",
        |tree| {
            tree.root = DeviceTreeNode::new_unchecked("");
            add(&mut tree.root, "fragment@0", &[]);
            add(node(tree, "/fragment@0"), "__overlay__", &[]);
        },
        Refused("it is an overlay, a change to a device tree; apply it first"),
    ),
    (
        "fit-image",
        |tree| {
            tree.root = DeviceTreeNode::new_unchecked("");
            ["images", "configurations"].into_iter().for_each(|name| add(&mut tree.root, name, &[]));
        },
        Refused("it is a FIT image that contains other files; take the tree out first"),
    ),
    (
        "no-machine",
        |tree| tree.root = DeviceTreeNode::new_unchecked(""),
        Refused("it describes no machine: neither cores nor an interrupt controller nor memory"),
    ),
    (
        "too-much-work",
        |tree| {
            // A thousand nodes that each look through a thousand windows.
            let windows: Vec<u8> = (0..4_000).flat_map(|window| cells(&[window * 2, 0, window * 2, 1])).collect();
            let bus = [("#address-cells", cells(&[1])), ("#size-cells", cells(&[1])), ("ranges", windows)];
            add(&mut tree.root, "bus", &bus);
            (0..2_000).for_each(|child| add(node(tree, "/bus"), &format!("x{child}"), &[("reg", cells(&[7, 1]))]));
        },
        Refused("lead through more translations than any board has"),
    ),
];

/// Trees whose bytes are wrong.
const BYTES: &[(&str, Make, Answer)] = &[
    ("empty", Vec::new, Refused("it is empty")),
    (
        "source",
        || b"/dts-v1/;\n/ { };\n".to_vec(),
        Refused("it is the source of a device tree, not the tree itself; compile it: dtc"),
    ),
    ("compressed", || vec![0x1f, 0x8b, 8, 0], Refused("it is compressed; unpack it first")),
    ("swapped", || vec![0xed, 0xfe, 0x0d, 0xd0], Refused("its magic number has the bytes in the wrong order")),
    (
        "program",
        || b"\x7fELF".to_vec(),
        Refused("it is no flattened device tree (.dtb): it does not begin with d0 0d fe ed"),
    ),
    (
        "truncated",
        || VERSAL[..VERSAL.len() / 2].to_vec(),
        Refused("it is cut off: its header says 6435 bytes, and 3217 are there; copy it again"),
    ),
    (
        "of-another-version",
        || with_field(5, 3),
        Refused("it has version 3, readable from version 16 on, and version 17 is what is known"),
    ),
    (
        "absurd-total",
        || with_field(1, u32::MAX),
        Refused("its header says 4294967295 bytes, and a device tree has at most 2097152"),
    ),
    (
        "structure-outside",
        || with_field(2, 0x7fff_fffc),
        Refused("it is damaged: its structure would be at byte 0x7ffffffc, outside the file"),
    ),
    (
        "strings-outside",
        || with_field(3, 0x2000),
        Refused("it is damaged: its strings would be at byte 0x2000, outside the file"),
    ),
    ("reservations-without-end", || with_field(4, 6432), Refused("at byte 0x1920 the memory reservations have no end")),
    ("deep", || nested(&[1, 0x6100_0000], 200), Refused("nodes lie inside each other more than 64 deep")),
    ("without-end", || nested(&[1, 0x6100_0000], 20), Refused("it ends without the token that ends it")),
    ("unknown-token", || nested(&[0x55], 1), Refused("there is no token")),
    ("end-of-nothing", || nested(&[2], 1), Refused("a node ends that did not begin")),
    (
        "endless-name",
        || nested(&[[1].as_slice(), &[0x6161_6161; 100]].concat(), 1),
        Refused("a node has no readable name of at most 255 bytes"),
    ),
    ("absurd-property", || nested(&[1, 0, 3, u32::MAX - 2, 0], 1), Refused("a property is larger than the tree")),
];

/// The Versal's tree with another field of the header.
fn with_field(field: usize, value: u32) -> Vec<u8> {
    let mut file = VERSAL.to_vec();
    file[field * 4..field * 4 + 4].copy_from_slice(&value.to_be_bytes());
    file
}

/// A tree whose structure is some cells, several times.
fn nested(part: &[u32], times: usize) -> Vec<u8> {
    let structure = cells(part).repeat(times);
    let (start, length) = (56, u32::try_from(structure.len()).expect("a small structure"));
    let end = start + length;
    let mut file = cells(&[0xd00d_feed, end, start, end, 40, 17, 16, 0, 0, length]);
    file.extend([0; 16]);
    file.extend(structure);
    file
}

/// Every tree with its name and its answer.
fn trees() -> impl Iterator<Item = (&'static str, Vec<u8>, &'static Answer)> {
    let edited = EDITS.iter().map(|(name, edit, answer)| {
        let mut tree = versal();
        edit(&mut tree);
        (*name, tree.to_dtb(), answer)
    });
    edited.chain(BYTES.iter().map(|(name, bytes, answer)| (*name, bytes(), answer)))
}

fn is_as_expected(found: &Result<Draft, TreeError>, expected: &Answer) -> bool {
    match (found, expected) {
        (Err(error), Refused(message)) => error.to_string().contains(message),
        (Ok(draft), Warned(warning, line)) => {
            draft.warnings.iter().any(|text| text.contains(warning)) && draft.text.contains(line)
        }
        (Ok(draft), Written(line)) => draft.warnings.is_empty() && draft.text.contains(line),
        _ => false,
    }
}

#[test]
fn every_contradiction_has_its_message() {
    let mut failures = Vec::new();
    for (name, bytes, answer) in trees() {
        attack::device_tree(&bytes);
        let found = draft(&bytes, name);
        if !is_as_expected(&found, answer) {
            failures.push(match found {
                Ok(draft) => format!("{name}: {:?}\n{}", draft.warnings, draft.text),
                Err(error) => format!("{name}: {error}"),
            });
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn the_corpus_of_the_fuzzer_has_them() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/device_tree");
    for (name, bytes, _) in trees() {
        // Large ones add nothing to a corpus that mutation would not find.
        let path = folder.join(format!("{name}.dtb"));
        if bytes.len() > 16_384 {
            continue;
        }
        if std::env::var_os("BULKHEAD_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &bytes).expect("a tree can be written");
        }
        assert!(std::fs::read(&path).is_ok_and(|found| found == bytes), "{} is another one", path.display());
    }
}
