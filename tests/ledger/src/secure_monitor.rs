//! The page about the program at EL3: its size, its branches and its ways, from its bytes.

use crate::table::{cell, head, row};
use bulkhead_el3::Program;
use bulkhead_el3::branches::{self, Direction};
use bulkhead_el3::configuration::Configuration;
use bulkhead_el3::promises::{self, Kind, Known};
use bulkhead_el3::ways::{PARKED, WOKEN};
use bulkhead_world::context::{CORE_BYTES, Context, NOT_SWITCHED, REGISTERS};
use std::fmt::Write;

/// SafeG's own figures, as its paper has them.
const PAPER_SIZE: &str = "1,520 text + 0 data + 448 bss = 1,968";

/// Makes the page of a program.
///
/// # Errors
/// With everything that the program promises and does not hold.
pub fn page(program: &Program) -> Result<String, Vec<String>> {
    let known = promises::check(program)?;
    let configuration = Configuration::of(program);
    let (title, what) = match configuration.name {
        "dual" => ("The secure monitor, from its bytes", "a system of two worlds, configuration `dual`"),
        _ => (
            "The secure monitor of several cores, from its bytes",
            "a system of one to four cores, configuration `multi`",
        ),
    };
    let mut text = format!(
        "# {title}\n\n\
         What runs at EL3 in {what}, read from the program that was built and not from its source. \
         `cargo test -p bulkhead-ledger` reads\n\
         it again and fails when this page is wrong, by one byte or one instruction; `BULKHEAD_BLESS=1 cargo test -p bulkhead-ledger` writes \
         it, but not\n\
         beyond a ceiling. How it is read: the crate in `tool/el3`. Numbers are instructions, not cycles.\n",
    );
    sizes(&mut text, program, configuration);
    table_of_branches(&mut text, program, configuration)?;
    table_of_ways(&mut text, program, &known);
    privileged_words(&mut text, program, configuration);
    if configuration.name == "dual" {
        registers(&mut text);
    } else {
        text += "\nWhat is switched on the payload's core is what [`dual`](secure-monitor.md) switches.\n";
    }
    Ok(text)
}

fn sizes(text: &mut String, program: &Program, configuration: &Configuration) {
    let size = program.size();
    let contexts = promises::context_bytes();
    *text += "\n## Size\n\n";
    *text += &head(&["what", "bytes", "at most", "SafeG's paper"]);
    let sections =
        [".text", ".rodata", ".data", ".bss"].map(|name| program.section_bytes(name).to_string()).join(" + ");
    let most = |bytes: u64| bytes.to_string();
    *text += &row(&[
        "text + rodata + data + bss, boot and padding counted",
        &format!("{sections} = {}", size.bytes),
        &most(configuration.most_bytes),
        if configuration.most_unpadded_bytes == u64::MAX { "–" } else { "1,664 without its contexts" },
    ]);
    if configuration.most_unpadded_bytes != u64::MAX {
        *text += &row(&[
            "the same without padding, and both contexts",
            &format!("{} + {contexts} = {}", size.unpadded_bytes(), size.unpadded_bytes() + contexts),
            &most(configuration.most_unpadded_bytes),
            PAPER_SIZE,
        ]);
    }
    *text += &row(&[
        "contexts of a core, with what lies between them",
        &CORE_BYTES.to_string(),
        &most(promises::MOST_CONTEXT_BYTES),
        "304",
    ]);
    writeln!(
        text,
        "\n{} instructions, {} bytes of texts for the console, {} bytes of padding between the vectors. A context is {} words.",
        size.instructions,
        size.constant_bytes,
        size.padding_bytes(),
        size_of::<Context>() / 8
    )
    .expect("a String");
}

fn table_of_branches(text: &mut String, program: &Program, configuration: &Configuration) -> Result<(), Vec<String>> {
    let listed = branches::listed(program)?;
    let at_run_time = listed.iter().filter(|(_, branch)| !branch.is_boot).count();
    writeln!(
        text,
        "\n## Conditional branches\n\n{} at run time, at most {}; {} at boot. SafeG's paper counts 4 forks. Each direction names the \
         scenario of the test\n`{}` in which an emulator plugin sees it taken.\n",
        at_run_time,
        configuration.most_branches,
        listed.len() - at_run_time,
        branches::TEST
    )
    .expect("a String");
    *text += &head(&["address", "behind", "branch", "when", "decides", "taken", "not taken"]);
    let direction = |one: &Direction| cell(&format!("{}: *{}*", one.when, one.scenario.name()));
    for (found, branch) in &listed {
        *text += &row(&[
            &format!("{:#05x}", found.address),
            &format!("`{}`", branch.label),
            &format!("`{} {}`", branch.form, branch.target),
            if branch.is_boot { "boot" } else { "run time" },
            &cell(branch.decides),
            &direction(&branch.taken),
            &direction(&branch.not_taken),
        ]);
    }
    Ok(())
}

fn table_of_ways(text: &mut String, program: &Program, known: &[Known]) {
    *text += "\n## Ways\n\n\
              Every way from a vector to its end, followed both ways at each branch. There are no others, none has a loop, and none calls within\n\
              a call, so each has one length. Paths 1 and 3, an interrupt of the world that runs, have none: 0 instructions.\n\n";
    *text += &head(&["path", "vector", "what", "instructions", "at most", "branches taken / not"]);
    let mut known: Vec<&Known> = known.iter().collect();
    let paths = Configuration::of(program).paths;
    known.sort_by_key(|one| paths.iter().position(|path| std::ptr::eq(path, one.path)));
    for one in known {
        let decisions = one.way.decisions.iter().map(|(at, taken)| {
            let what = if *taken { "taken" } else { "not" };
            format!("{at:#x} {what}")
        });
        let decisions = decisions.collect::<Vec<_>>().join(", ");
        *text += &row(&[
            one.path.name,
            &if one.path.slot == WOKEN { PARKED.to_owned() } else { program.place(one.path.slot) },
            what(one.path.kind),
            &one.way.steps.len().to_string(),
            &one.path.ceiling.map_or_else(|| "–".to_owned(), |most| most.to_string()),
            if decisions.is_empty() { "–" } else { &decisions },
        ]);
    }
    *text += "\nOf each way it is shown from the words what it leaves: every register of the world that goes is in its word, every register of\n\
              the world that comes is from its own, nothing else is written, and SP_EL3 moves to the context of the world that comes.\n";
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::ToSecure(bulkhead_world::control::Reason::Interrupt) => {
            "secure interrupt while the non-secure world runs"
        }
        Kind::ToSecure(bulkhead_world::control::Reason::Call) => "call of the non-secure world",
        Kind::ToNonSecure => "the secure world gives the core away",
        Kind::Skip => "access to a register of group 0: nothing is done",
        Kind::Reset => "the secure world resets registers of the other",
        Kind::Fault => "cannot happen: it is written down, and the core stops",
        Kind::Kick => "a kick, or the end of a watch: the core comes to its EL2, which is told of an interrupt",
        Kind::Again => "a kick that finds EL2 itself, which goes on: tried again after the shortest watch",
        Kind::Answer { .. } => "EL3 answers: x0 alone changes",
        Kind::End => "CPU_OFF, SYSTEM_OFF, SYSTEM_RESET on a core without a payload: it is parked",
        Kind::Nothing => "a kick of a core without a world: it stays parked",
        Kind::Begin => "a core without a world begins one: nothing of the last one is left in what is switched",
    }
}

fn privileged_words(text: &mut String, program: &Program, configuration: &Configuration) {
    let places = |labels: &[&str]| labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    let configurations =
        configuration.secure_configurations.iter().map(|(label, value)| format!("`{label}` {value:#x}"));
    let instructions = program.instructions().count();
    writeln!(
        text,
        "\n## Words with power\n\n\
         - ERET behind {}, and nowhere else.\n\
         - SCR_EL3 is written behind {}, and nowhere else.\n\
         - No SMC, HVC or SVC, no branch to an address in a register, no instruction that the reader does not know: {instructions} of \
         {instructions} are known.\n\
         - {}",
        places(configuration.exception_returns),
        configurations.collect::<Vec<_>>().join(", "),
        match configuration.name {
            "dual" =>
                "At run time memory is read and written in the contexts alone, by whole words at constant distances from SP_EL3; a fault in \
                 EL3\n  writes to the core's state line.",
            _ =>
                "At run time memory is written in the core's context, by whole words at constant distances from SP_EL3; in its own line, its \
                 turn and its\n  end; and in the lines of others nothing but requests to start them. Besides, the world plan is read. Every \
                 address is known to be one\n  of a few, whatever the caller says.",
        }
    )
    .expect("a String");
}

fn registers(text: &mut String) {
    let names: Vec<&str> = REGISTERS.iter().map(|register| register.name).collect();
    writeln!(
        text,
        "\n## Registers\n\nSwitched: x0 to x30 and {}. The secure world gives the core away by a call, which keeps x19 to x30.\n\nNot \
         switched:\n",
        names.join(", ")
    )
    .expect("a String");
    *text += &head(&["registers", "why"]);
    for (names, why) in NOT_SWITCHED {
        *text += &row(&[&cell(&names.replace('<', "\\<").replace('*', "\\*")), &cell(why)]);
    }
}
