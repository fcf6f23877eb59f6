//! The program at EL3 is what its committed page says.

use bulkhead_el3::Program;
use bulkhead_ledger::{page, repository, secure_monitor};
use std::path::PathBuf;

#[test]
fn the_page_of_the_secure_monitor_is_current() {
    let guests = std::env::var_os("BULKHEAD_GUESTS").map_or_else(|| repository().join("target/guests"), PathBuf::from);
    for (file, name) in [("dual.elf", "docs/secure-monitor.md"), ("multi.elf", "docs/secure-monitor-multi.md")] {
        let file = guests.join("../secure-monitor").join(file);
        let bytes =
            std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run ./x build first", file.display()));
        let program = Program::read(&bytes).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        let text = secure_monitor::page(&program).unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
        page::check(name, &text);
    }
}
