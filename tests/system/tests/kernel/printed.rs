//! Who printed a line of an instance, and how much of the console is whose (record 0067).

use crate::described::Described;
use bulkhead_run::End;
use bulkhead_run::command::{stats_json, stats_text};
use bulkhead_system_tests::kernel::run_bare;

/// One that prints 400 times as much as a call takes, with lines that are somebody else's, and a more important one that prints eight.
const TEXT: &str = r#"version = 1
server = [{ name = "quiet", budget = "2 ms", period = "10 ms" }, { name = "rest" }]

[[component]]
name = "quiet"
program = "component:probe.elf"
threads = [{ name = "main", server = "quiet", argument = 141 }]

[[component]]
name = "hog"
program = "component:probe.elf"
threads = [{ name = "main", server = "rest", argument = 140 }]
"#;

/// What the quiet one prints: in each line more than a call takes, so in parts between which the other one prints, and in all no more than its share.
fn quiet() -> Vec<String> {
    (0..8).map(|number| format!("line {number} of eight, one each half millisecond, and none is cut")).collect()
}

/// In a partition each line is of one component, and who prints without end neither takes the others' room nor is uncounted.
#[test]
fn a_storm_of_text_is_counted_and_forges_nothing() {
    let described = Described::new("printers", TEXT);
    let mut running = described.system("").start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    let lines = |component: Option<&str>| -> Vec<String> {
        let of = running.lines("kernel").filter(|line| line.component.as_deref() == component);
        of.map(|line| line.text.clone()).collect()
    };
    assert_eq!(lines(Some("quiet")), quiet());
    assert_eq!((lines(None), lines(Some("?"))), (vec![], vec![]));
    let hog = lines(Some("hog"));
    let observer = running.watch();
    let instance = observer.instance(0).expect("an instance");
    let (all, of) = (instance.accounts.accounts.print_busy, instance.accounts.accounts.print_busy_of);
    // Three line ends in each call, each of which was printed or counted.
    assert_eq!((hog.len() / 3 + of[1] as usize, of[0], all), (400, 0, of[1].into()));
    // A share of 512 of its own and 6,144 that nobody else wanted but for the quiet one, or twice that when it took longer than 20 ms.
    assert!((100..=240).contains(&(hog.len() / 3)), "{}", hog.len());
    assert!(stats_text(observer).contains(&format!("prints without room: {all} (hog {all})")));
    assert_eq!(stats_json(observer)["instances"][0]["print_busy_of"][0]["component"], "hog");
}

/// On the bare board all is printed, and each line begins with who printed it.
#[test]
fn lines_on_the_board_say_who_printed_them() {
    let machine = run_bare(&Described::new("printers-on-board", TEXT).laid().bytes, false);
    let text = String::from_utf8_lossy(machine.serial_text()).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let count = |wanted: &str| lines.iter().filter(|line| **line == wanted).count();
    assert_eq!((count("[hog] [quiet] line 3 of all"), count("| kernel: component 0x0, fault 0x1")), (400, 400));
    let of_quiet: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("[quiet] ")).collect();
    assert_eq!(of_quiet, quiet());
    assert_eq!(lines.iter().filter(|line| !line.is_empty() && !line.starts_with(['[', '|'])).count(), 0);
}
