//! The calls of the real-time kernel, from `core/kernel-abi`.

use super::generated;
use bulkhead_kernel_abi::call::{Bound, Flag, ROWS, Register, Row};
use bulkhead_kernel_abi::{Code, KERNEL_ABI_VERSION, Kind};
use bulkhead_ledger::table::{cell, head, row};

fn registers(list: &[Register]) -> String {
    let one = |(register, meaning): &Register| {
        // A span of registers says which.
        if meaning.starts_with('x') { (*meaning).to_owned() } else { format!("`x{register}` {meaning}") }
    };
    let all: Vec<String> = list.iter().map(one).collect();
    if all.is_empty() { "–".to_owned() } else { cell(&all.join("; ")) }
}

fn bound(bound: Bound) -> String {
    match bound {
        Bound::Constant => "constant".to_owned(),
        Bound::Steps(most) => format!("at most {most} steps"),
        Bound::Slices => "slices of a page or an object".to_owned(),
    }
}

fn line(call: &Row) -> String {
    let number = format!("{}", call.call.number());
    let (name, meaning) = match call.operation {
        None => (format!("`{}`", call.call.name()), call.call.meaning()),
        Some((number, name, meaning)) => (format!("`{}` x0 = {number} `{name}`", call.call.name()), meaning),
    };
    let codes: Vec<&str> = call.codes.iter().map(|code| code.name()).collect();
    let codes = if codes.is_empty() { "–".to_owned() } else { codes.join(" ") };
    let (takes, answers) = (registers(call.arguments), registers(call.answers));
    row(&[&number, &name, &cell(meaning), &takes, &answers, &codes, &bound(call.bound)])
}

/// The chapter about the kernel's calls.
pub(super) fn page() -> String {
    let mut text = String::from("# Calls of the kernel\n\n") + &generated("`core/kernel-abi`");
    text += &format!(
        "Version {KERNEL_ABI_VERSION} of the kernel's ABI. A component makes call *n* by `svc #n`. Arguments are in x0 to x7, the code is in x0 and values are in x1 to x7; \
         x8 to x30 are preserved. `invoke` and `return` leave x0 to x7 to caller and callee, and have their code in x8. No argument is an address that the kernel follows. \
         Besides the codes of its line a call may answer {}. One that answers another code than `Ok` has changed nothing.\n\n",
        Code::COMMON.map(Code::name).join(", ")
    );
    text += "Components in Rust make them by `sdk/component`. How many instructions each takes at most is in [another chapter](kernel-largest.md).\n\n";
    text += "## Calls\n\n";
    text += &head(&["n", "call", "what it does", "takes", "answers", "codes", "how long"]);
    ROWS.iter().for_each(|call| text += &line(call));
    text += "\n## Codes\n\n";
    text += &head(&["number", "code", "meaning"]);
    Code::ALL.iter().for_each(|one| text += &row(&[&one.number().to_string(), one.name(), &cell(one.meaning())]));
    text += "\n## Flags\n\n";
    text += &head(&["bit", "flag", "meaning"]);
    Flag::ALL.iter().for_each(|one| text += &row(&[&one.number().to_string(), one.name(), &cell(one.meaning())]));
    text += "\n## Kinds of capabilities\n\n";
    text += &head(&["number", "kind", "what it is", "fork copies it"]);
    for kind in Kind::ALL.iter().skip(1) {
        let copied = if kind.is_copied_by_fork() { "yes" } else { "no" };
        text += &row(&[&kind.number().to_string(), kind.name(), &cell(kind.meaning()), copied]);
    }
    text
}
