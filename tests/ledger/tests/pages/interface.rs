//! What guests and observers see, from `core/abi` and `core/guest-abi`.

use super::generated;
use bulkhead_abi::observe::COUNTER_NAMES;
use bulkhead_ledger::items::{Item, constants, entries};
use bulkhead_ledger::page;
use bulkhead_ledger::table::{cell, head, row};

fn source(name: &str) -> String {
    page::read(&format!("core/abi/src/{name}.rs"))
}

/// Addresses and limits that EL2 does not know.
fn guest_layout() -> String {
    page::read("core/guest-abi/src/guest.rs")
}

fn table(titles: &[&str], items: &[Item]) -> String {
    assert!(!items.is_empty(), "{titles:?}: a constant was renamed");
    let rows = items
        .iter()
        .map(|item| row(&[&format!("`{}`", item.name), &format!("`{}`", item.value), &cell(&item.documentation)]));
    head(titles) + &rows.collect::<String>()
}

/// The chapter about what a guest sees.
pub(super) fn guest() -> String {
    let hypercall = source("hypercall");
    let (calls, management) = hypercall.split_once("pub mod management").expect("the module of registers");
    let answers: Vec<Item> = constants(calls, "").into_iter().filter(|item| !item.name.starts_with("CALL_")).collect();
    let status = source("status");
    let mut text = String::from("# Interface of guests\n\n") + &generated("`core/abi` and `core/guest-abi`");
    text += "A guest makes calls with HVC or SMC, which are the same: function id in `x0`, arguments from `x1`, answer in `x0`. Bulkhead's own calls and\n\
             PSCI 1.1 are answered; every other function id gets `NOT_SUPPORTED`. The SDK and its C header wrap all of this.\n\n";
    text += &format!(
        "## Calls\n\n{}\n",
        table(&["call", "function id", "arguments and answer"], &constants(calls, "CALL_"))
    );
    text += &format!("## Answers\n\n{}\n", table(&["answer", "value", "meaning"], &answers));
    text += &format!("## Addresses in a guest\n\n{}\n", table(&["what", "guest address", "meaning"], &addresses()));
    text += "## Registers of the management function\n\nFor programs at EL0, which cannot make calls: BAR 0 of the PCI function 1af4:1111. `bulkheadctl` uses it.\n\n";
    text += &table(&["register", "offset", "meaning"], &registers(management));
    text += &format!(
        "\n## States of a partition\n\n{}\n",
        table(&["state", "value", "meaning"], &constants(&status, "STATE_"))
    );
    text += &format!("## Reasons\n\n{}\n", table(&["reason", "value", "meaning"], &constants(&status, "REASON_")));
    text += &format!(
        "## Requests of a managing partition\n\n{}",
        table(&["request", "value", "meaning"], &constants(&status, "MANAGE_"))
    );
    text
}

fn addresses() -> Vec<Item> {
    let strip = |item: Item| {
        let value = item.value.strip_prefix("GuestAddress(")?.strip_suffix(')')?.to_owned();
        Some(Item { value, ..item })
    };
    constants(&guest_layout(), "GUEST_").into_iter().filter_map(strip).collect()
}

/// The offsets among the constants of the management function.
fn registers(management: &str) -> Vec<Item> {
    constants(management, "").into_iter().filter(|item| item.value.starts_with("0x")).collect()
}

/// The chapter about counters and trace records.
pub(super) fn counters() -> String {
    let observe = source("observe");
    let documented = entries(&observe);
    let mut text = String::from("# Counters and trace records\n\n") + &generated("`core/abi/src/observe.rs`");
    text += "Each core has one page of counters, written by its monitor alone and readable while the system runs (`bulkhead stats`).\n\n";
    text += &head(&["index", "name", "what is counted"]);
    for (counter, name) in COUNTER_NAMES {
        let item = documented.iter().find(|item| item.name == format!("{counter:?}")).expect("a documented counter");
        text += &row(&[&(*counter as usize).to_string(), name, &cell(&item.documentation)]);
    }
    text += "\n## Kinds of trace records\n\nA record has 32 bytes: time, kind, core, partition and three arguments (`TraceRecord`).\n\n";
    text + &table(&["kind", "number", "meaning"], &trace_kinds(&observe))
}

fn trace_kinds(observe: &str) -> Vec<Item> {
    let is_number = |item: &Item| item.value.parse::<u16>().is_ok();
    constants(observe, "TRACE_")
        .into_iter()
        .filter(|item| is_number(item) && item.name != "TRACE_HEADER_BYTES")
        .collect()
}

/// The chapter about limits.
pub(super) fn limits() -> String {
    let mut text = String::from("# Limits\n\n") + &generated("`core/abi` and `core/guest-abi`");
    text += "The plan has fixed-size tables, so that the monitor needs no parser. `bulkhead check` refuses what does not fit, with a code.\n\n";
    let all = [source("lib"), source("plan"), guest_layout()].concat();
    text += &table(&["limit", "value", "meaning"], &constants(&all, "MAX_"));
    text += "\n## Files that the tool reads\n\n\
         What is read is a regular file: a device or a pipe is refused, and so is a file with more bytes than these \
         (`tool/files/src/read.rs`; exit code 3, for a guest file 1). A list in a description, board file or scenario has at most \
         1,024 entries (BH0016), and a report shows 100 diagnostics and counts the rest.\n\n";
    text += &head(&["file", "at most"]);
    for kind in bulkhead_files::read::KINDS {
        text += &row(&[kind.name, &format!("{} MiB", kind.limit_bytes >> 20)]);
    }
    text
}
