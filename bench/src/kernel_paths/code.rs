//! What the instructions of the kernel are: functions and lines by `addr2line`, and text by `objdump`.
//!
//! Both are of the tool chain for C that `./x` asks for. The symbols alone would not do: the compiler puts the kernel's functions into each other, and
//! then half a signal is one function. So an instruction belongs to the innermost function that is of this repository; what it calls of Rust's own library is its own.

use crate::Failure;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The tool chain's prefix.
const PREFIX: &str = "aarch64-linux-gnu-";
/// What a function in assembly has for a file.
pub(super) const ASSEMBLY: &str = "assembly";

/// Whose an instruction is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub function: String,
    /// Below the repository.
    pub file: String,
    /// Empty where the compiler knows none.
    pub line: String,
    /// It is not of the kernel but of the component that is called.
    pub is_called: bool,
}

fn run(tool: &str, arguments: &[&str], elf: &Path, addresses: &[String]) -> Result<String, Failure> {
    let tool = format!("{PREFIX}{tool}");
    let output = Command::new(&tool).args(arguments).arg(elf).args(addresses).output();
    let output = output.map_err(|cause| {
        Failure::host(format!("cannot run `{tool}`: {cause}; it comes with the compiler, gcc-aarch64-linux-gnu"))
    })?;
    if !output.status.success() {
        return Err(Failure::host(format!("`{tool}` cannot read {}", elf.display())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whose each of these instructions is.
pub(super) fn owners(elf: &Path, addresses: &[u64]) -> Result<HashMap<u64, Owner>, Failure> {
    let texts: Vec<String> = addresses.iter().map(|address| format!("{address:x}")).collect();
    let output = run("addr2line", &["-a", "-i", "-f", "-C", "-e"], elf, &texts)?;
    Ok(read_owners(&output, &bulkhead_ledger::repository()))
}

/// Reads an address, then a function and its line for each level, the innermost first.
fn read_owners(output: &str, repository: &Path) -> HashMap<u64, Owner> {
    let (mut found, mut address, mut function) = (HashMap::new(), None, None);
    // The compiler noted its paths below the repository, where products are built.
    for line in output.lines() {
        if let Some(digits) = line.strip_prefix("0x").filter(|_| function.is_none()) {
            address = u64::from_str_radix(digits, 16).ok();
        } else if let Some(function) = function.take() {
            let Some(address) = address else { continue };
            let owner = owner(function, line, repository);
            let known: &mut Owner = found.entry(address).or_insert_with(|| owner.clone());
            if known.file == LIBRARY && owner.file != LIBRARY {
                *known = owner;
            }
        } else {
            function = Some(line);
        }
    }
    found
}

/// Said of files that are not of this repository.
const LIBRARY: &str = "library";

fn owner(function: &str, place: &str, repository: &Path) -> Owner {
    let place = place.split(' ').next().unwrap_or(place);
    let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
    let ours = Path::new(file).strip_prefix(repository).ok().and_then(Path::to_str);
    // Of assembly the compiler notes no folder.
    let file = ours.unwrap_or(if file.contains('/') { LIBRARY } else { ASSEMBLY });
    let line = if line == "?" || line == "0" { "" } else { line };
    Owner { function: short(function), file: file.to_owned(), line: line.to_owned(), is_called: false }
}

/// The last part of a function's name, without what it is generic over.
fn short(name: &str) -> String {
    let mut depth = 0_usize;
    let mut out = String::new();
    for one in name.chars() {
        match one {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(one),
            _ => {}
        }
    }
    // A closure is of the function that it is in, if the compiler says which.
    let last = out.rsplit("::").find(|part| !part.is_empty() && !part.starts_with('{'));
    last.unwrap_or(&out).to_owned()
}

/// The text of each instruction.
pub(super) fn texts(elf: &Path) -> Result<HashMap<u64, String>, Failure> {
    let output = run("objdump", &["-d", "--no-show-raw-insn"], elf, &[])?;
    let one = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        Some((u64::from_str_radix(address.trim(), 16).ok()?, text.replace('\t', " ")))
    };
    Ok(output.lines().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_of_the_innermost_function_of_ours() {
        let output = "0xffffff8000000010\nwrapping_add\n/rustc/1/library/core/src/num/mod.rs:7\nbudget::charge<core::Time>::{closure#0}\n/a/core/sched/src/budget.rs:9 (discriminator 2)\nouter\n/a/kernel/src/entry.rs:1\n\
                      0xffffff8000000014\nbulkhead_kernel_slow\n??:?\n";
        let found = read_owners(output, Path::new("/a"));
        let owner = |function: &str, file: &str, line: &str| Owner {
            function: function.to_owned(),
            file: file.to_owned(),
            line: line.to_owned(),
            is_called: false,
        };
        assert_eq!(found[&0xffff_ff80_0000_0010], owner("charge", "core/sched/src/budget.rs", "9"));
        assert_eq!(found[&0xffff_ff80_0000_0014], owner("bulkhead_kernel_slow", ASSEMBLY, ""));
        assert_eq!(found.len(), 2);
    }
}
