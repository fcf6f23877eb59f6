//! Messages between the worlds: pools of blocks, with an honest, a hostile and a stock other end.

use bulkhead_description::{Options, load};
use bulkhead_run::MachineOptions;
use bulkhead_run::source::machine_of;
use bulkhead_system_tests::secure::{OTHER, Worlds};
use bulkhead_timing::Assumptions;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers of the payload's report, by the word before each.
fn counts(line: &str) -> BTreeMap<String, u64> {
    let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    words.windows(2).filter_map(|pair| Some((pair[0].to_owned(), pair[1].parse().ok()?))).collect()
}

/// SG-70, SG-63: stock Linux takes texts of FreeRTOS and sends them back, by a program of its own: each run of it goes on where the one before
/// stopped. The description says where the channels are, and the kernel lets the program map them.
#[test]
fn stock_linux_talks_with_the_payload() {
    let options = Options::from_environment(None);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/talking-worlds.toml");
    let loaded = load(&path, &options, &Assumptions::default());
    let loaded = loaded.unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let monitor = options.guests.expect("built guests; run `./x build`").join("../secure-monitor");
    let machine = machine_of(&loaded.system, Some(&monitor)).unwrap_or_else(|error| panic!("{}", error.message));
    let mut worlds = Worlds::of(MachineOptions { icount_shift: Some(4), ..machine });
    let lines = worlds.end();
    let said = worlds.texts(OTHER);
    let of_world: Vec<&String> = said.iter().filter(|line| line.starts_with("linux: world")).collect();
    assert_eq!(of_world.len(), 2, "{said:?}");
    assert!(said.iter().any(|line| line.contains("telemetry") && line.contains("to the world")), "{said:?}");
    let report = lines.iter().find(|line| line.starts_with("rtos: messages")).unwrap_or_else(|| panic!("{lines:?}"));
    let counts = counts(report);
    assert_eq!([counts["good"], counts["wrong"], counts["corrupt"]], [10, 0, 0], "{report}");
}
