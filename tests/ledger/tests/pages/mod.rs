//! Texts of the reference chapters.

mod boards;
mod calls;
mod commands;
mod experiments;
mod interface;
mod kernel_attacks;
mod largest;
mod schema;
mod suite;

use bulkhead_description::Code;
use bulkhead_ledger::page;
use bulkhead_ledger::table::{cell, head, row};
use std::fmt::Write;

/// Returns every generated chapter: file name and text.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    vec![
        ("commands.md", commands::page()),
        ("exit-codes.md", commands::exit_codes()),
        ("system-description.md", schema::system()),
        ("kernel-file.md", schema::kernel()),
        ("board-file.md", schema::board()),
        ("diagnostics.md", diagnostics()),
        ("verify-codes.md", verify_codes()),
        ("guest-interface.md", interface::guest()),
        ("kernel-calls.md", calls::page()),
        ("kernel-largest.md", largest::page()),
        ("counters.md", interface::counters()),
        ("registers.md", registers()),
        ("limits.md", interface::limits()),
        ("experiments.md", experiments::page()),
        ("boards.md", boards::page()),
        ("suite.md", suite::page()),
        ("kernel-attacks.md", kernel_attacks::page()),
    ]
}

/// The note under each title.
fn generated(from: &str) -> String {
    format!("Generated from {from}; `BULKHEAD_BLESS=1 cargo test -p bulkhead-ledger` writes it again.\n\n")
}

fn diagnostics() -> String {
    let mut text = String::from("# Diagnostics of `bulkhead check`\n\n")
        + &generated("`tool/description/src/code.rs` and `tool/description/codes/`");
    text += "A code keeps its meaning for good. `bulkhead explain CODE` prints the same text.\n\n";
    text += &head(&["code", "severity", "meaning"]);
    for code in Code::ALL {
        text +=
            &row(&[&format!("[{0}](#{1})", code.name(), anchor(code)), code.severity().word(), &cell(code.title())]);
    }
    for code in Code::ALL {
        text.push('\n');
        let mut is_example = false;
        for line in code.explanation().lines() {
            is_example ^= line.starts_with("```");
            let deeper = if line.starts_with('#') && !is_example { "#" } else { "" };
            writeln!(text, "{deeper}{line}").expect("a String");
        }
    }
    text
}

/// The anchor that mdbook and GitHub make of a code's heading.
fn anchor(code: &Code) -> String {
    let title = format!("{}: {}", code.name(), code.title()).to_lowercase();
    title
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
        .collect::<String>()
        .replace(' ', "-")
}

fn verify_codes() -> String {
    let mut text = String::from("# Findings of `bulkhead verify`\n\n") + &generated("`tool/verify/src/code.rs`");
    text +=
        "Each finding refuses the image. The message after the code says where in the image and what was expected.\n\n";
    text += &head(&["code", "title", "what is wrong"]);
    let items = bulkhead_ledger::items::entries(&page::read("tool/verify/src/code.rs"));
    for code in bulkhead_verify::Code::ALL {
        let quoted = format!("\"{}\"", code.name());
        let item = items.iter().find(|item| item.value.starts_with(&quoted)).expect("a documented code");
        text += &row(&[code.name(), &cell(code.title()), &cell(&item.documentation)]);
    }
    text
}

fn registers() -> String {
    let committed = page::read("core/emulation/REGISTERS.md");
    assert!(committed.contains("PAR_EL1"), "core/emulation/REGISTERS.md is the source of this chapter");
    committed
}
