//! What an engineer types: an instance that is described, on the board and as a partition.

use crate::places::{Place, Probes, run};
use bulkhead_description::Options;
use bulkhead_description::kernel::{Laid, load_native};
use bulkhead_plan::model::GuestImage;
use bulkhead_run::End;
use bulkhead_system_tests::System;
use bulkhead_system_tests::kernel::files::Files;
use bulkhead_system_tests::system::guest;
use bulkhead_verify::instance::{kernel, verify_instance};
use std::path::PathBuf;

/// Two probes, the second of which loads from page 0.
const PROBES: &str = r#"version = 1
server = [{ name = "main" }]

[[component]]
name = "probe-0"
program = "component:probe.elf"
threads = [{ name = "main", server = "main", stack = "8 KiB" }]

[[component]]
name = "probe-1"
program = "component:probe.elf"
threads = [{ name = "main", server = "main", argument = 1, stack = "8 KiB" }]
"#;

/// The description of one.
pub(crate) struct Described(Files);

impl Described {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self(Files::new(name, &[("probes", text)]))
    }

    fn path(&self) -> PathBuf {
        self.0.path("probes")
    }

    pub(crate) fn laid(&self) -> Laid {
        load_native(&self.path(), &Options::from_environment(None))
            .unwrap_or_else(|report| panic!("{}", report.to_text(false)))
    }

    /// It as a partition of a system, with these other keys.
    pub(crate) fn system(&self, rest: &str) -> System {
        System::from_text("kernel", &self.system_text("qemu-virt", rest))
    }

    /// The text of such a system for a board.
    pub(crate) fn system_text(&self, board: &str, rest: &str) -> String {
        let file = self.path();
        format!(
            "version = 1\nname = \"kernel\"\nboard = \"{board}\"\nmemory = \"128 MiB\"\n\
             [[partition]]\nname = \"kernel\"\ncores = [0]\nmemory = \"8 MiB\"\n\
             image = {{ kind = \"kernel\", file = {file:?} }}\n{rest}\n"
        )
    }
}

/// The description says no more and no less than what a program would hand to the writer; on the board and in a partition it is the same bytes, which
/// `bulkhead verify` takes, and which print the same.
#[test]
fn a_described_instance_is_the_same_everywhere() {
    let described = Described::new("probes", PROBES);
    let laid = described.laid();
    let written = Probes::of(0..2).bytes();
    // The writer of the tests leaves slot 0 out; an instance that is described has it in each component.
    assert!(laid.bytes.len() >= written.len() && laid.bytes[..4096] == written[..4096]);
    let expected = kernel(&guest("kernel/kernel.elf")).expect("a kernel");
    let verdict = verify_instance(&laid.bytes, Some(&expected));
    assert_eq!((verdict.findings.as_slice(), verdict.extent.components), (&[][..], 2));
    let board = run(&laid.bytes, Place::Board);
    assert_eq!(board[..2], [0, 1].map(|number| format!("component {number}: ABI version 6, counter 62500000 Hz")));
    assert!(board[2].starts_with("kernel: component 0x1, thread 0x1, fault 0x1,"), "{board:?}");
    let system = described.system("");
    let GuestImage::Kernel { bytes, components, .. } = &system.model.partitions[0].image else { panic!("an instance") };
    assert_eq!((bytes, components), (&laid.bytes, &laid.components));
    let mut running = system.start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    assert_eq!(running.texts("kernel"), board);
}

/// QV-21, QV-22: a budget that is described is what the thread has, beside one that never stops and has no limit: 2 of each 10 ms.
#[test]
fn described_servers_keep_their_budgets() {
    let component = |name: &str, argument: u64, server: &str| {
        format!(
            "\n[[component]]\nname = \"{name}\"\nprogram = \"component:probe.elf\"\n\
             threads = [{{ name = \"main\", server = \"{server}\", argument = {argument} }}]\n"
        )
    };
    // A server for others has the level in front of its client, and takes nothing as long as nobody asks.
    let servers = "{ name = \"rest\" }, { name = \"control\", budget = \"2 ms\", period = \"10 ms\", on_empty = \"stop\" }, \
                   { name = \"disk\", kind = \"io\", share = \"4 %\", clients = [\"control\"] }";
    let text = format!(
        "version = 1\nserver = [{servers}]\n{}{}",
        component("control", 110, "control"),
        component("hog", 111, "rest")
    );
    let described = Described::new("servers", &text);
    let board = run(&described.laid().bytes, Place::Board);
    let line = board.iter().find_map(|line| line.strip_prefix("spun: ")).unwrap_or_else(|| panic!("{board:?}"));
    let numbers: Vec<u64> =
        line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [ran, absences, longest] = numbers[..] else { panic!("{board:?}") };
    const MILLISECOND: u64 = 62_500;
    assert_eq!((absences, ran.div_ceil(MILLISECOND)), (10, 20), "{board:?}");
    // The end of a budget and the loading are in it, as in the rows that are written by hand.
    assert!(longest.abs_diff(8 * MILLISECOND) < 2000, "{longest}");
}
