//! Lines of code that are linked at EL2, for each part of the monitor.
//!
//! What counts is every item of ours that is compiled for the part, used or not, after rustfmt with its defaults, so that nobody
//! gains lines by packing them: a line counts if something is left of it without comments, tests and white space. Data and
//! declarations count like statements: a reader of the trusted code reads them too. The scheduler, the facts of the architecture
//! and assembly are in it.

use crate::source::{Source, items_under, test_items};
use bulkhead_abi::Part;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Crates linked at EL2: name and folder.
pub const EL2_CRATES: &[(&str, &str)] = &[
    ("bulkhead-abi", "core/abi/src"),
    ("bulkhead-arch", "arch/src"),
    ("bulkhead-arm", "core/arm/src"),
    ("bulkhead-device", "core/device/src"),
    ("bulkhead-emulation", "core/emulation/src"),
    ("bulkhead-monitor", "monitor/src"),
    ("bulkhead-sched", SCHED_FOLDER),
    ("bulkhead-schedule", "core/schedule/src"),
    ("bulkhead-words", "core/words/src"),
];

/// Files of these folders that are not linked at EL2: host tests, what tools alone ask, and the lists of registers that documentation and
/// tests are made from.
const LEFT_OUT: &[&str] = &[
    "arch/src/el1",
    "arch/src/fake",
    "arch/src/kernel.rs",
    "core/emulation/src/own_registers.rs",
    "core/emulation/src/registers.rs",
    "core/emulation/src/state.rs",
    "core/schedule/src/shared/slot/tests.rs",
    "monitor/src/tests",
];

/// Files of `bulkhead-sched` for host tests alone.
pub(crate) const OF_SCHED_TESTS: [&str; 2] = ["core/sched/src/budget/mutant.rs", "core/sched/src/dispatch/decision.rs"];

/// Modules of `bulkhead-sched` that EL2 uses. The monitor shares the crate with analyser and simulator, and each function of it that
/// nobody at EL2 calls is left out by the linker. The test below compares the list with what EL2 names.
const SCHED_AT_EL2: &[&str] = &["budget", "cyclic", "dates", "dispatch", "limiter", "quantum", "ready", "server"];
const SCHED_FOLDER: &str = "core/sched/src";

/// How items are marked that only one part has.
const OF_SHARED: &str = "#[cfg(feature = \"shared\")]";
const OF_OWN: &str = "#[cfg(not(feature = \"shared\"))]";
const OF_HYBRID: &str = "#[cfg(feature = \"hybrid\")]";
const OF_NO_GATE: &str = "#[cfg(not(feature = \"hybrid\"))]";
/// What only a part with PCI functions has.
const OF_DEVICES: &str = "#[cfg(feature = \"devices\")]";
/// What only `shared` has.
const SHARED_PATHS: &[&str] =
    &["core/abi/src/schedule.rs", "core/schedule/src", "monitor/src/sharing", "monitor/src/entry/shared.rs"];
/// What `shared` does not have.
const OWN_PATHS: &[&str] = &["monitor/src/alone.rs", "monitor/src/entry/own.rs"];
/// What only `hybrid` has.
const HYBRID_PATHS: &[&str] = &["arch/src/el2/gate.rs", "monitor/src/gate"];
/// What only `devices` has.
const DEVICE_PATHS: &[&str] = &[
    "arch/src/el2/devices.s",
    "core/abi/src/devices.rs",
    "core/abi/src/virtio.rs",
    "core/device/src",
    "core/emulation/src/pci/device.rs",
    "core/emulation/src/virtio.rs",
    "monitor/src/devices/fronts.rs",
    "monitor/src/devices/functions.rs",
    "monitor/src/entry/devices.rs",
];
/// How items are marked that no monitor has: for tools, for guests, for the real-time kernel, and the mistakes that tests put into the
/// scheduler.
const OF_NO_PART: [&str; 5] = [
    "#[cfg(not(target_os = \"none\"))]",
    "#[cfg(any(test, feature = \"el1\"))]",
    "#[cfg(feature = \"kernel\")]",
    "#[cfg(any(not(target_os = \"none\"), feature = \"kernel\"))]",
    "#[cfg(feature = \"mutants\")]",
];

/// What a part does not have: whole files and folders, and items under these attributes.
struct Absent {
    paths: &'static [&'static [&'static str]],
    items: &'static [&'static str],
}

const fn absent(part: Part) -> Absent {
    match part {
        Part::Own => {
            Absent { paths: &[SHARED_PATHS, HYBRID_PATHS, DEVICE_PATHS], items: &[OF_SHARED, OF_HYBRID, OF_DEVICES] }
        }
        Part::Shared => {
            Absent { paths: &[OWN_PATHS, HYBRID_PATHS, DEVICE_PATHS], items: &[OF_OWN, OF_HYBRID, OF_DEVICES] }
        }
        Part::Devices => Absent { paths: &[OWN_PATHS, HYBRID_PATHS], items: &[OF_OWN, OF_HYBRID] },
        Part::Hybrid => Absent {
            paths: &[SHARED_PATHS, &["monitor/src/no_gate.rs"], DEVICE_PATHS],
            items: &[OF_SHARED, OF_NO_GATE, OF_DEVICES],
        },
    }
}

/// States whether a file is compiled for a part.
fn is_compiled(path: &str, part: Part) -> bool {
    let absent = absent(part).paths;
    if LEFT_OUT
        .iter()
        .chain(&OF_SCHED_TESTS)
        .chain(absent.iter().copied().flatten())
        .any(|left_out| path.starts_with(left_out))
    {
        return false;
    }
    let Some(module) = path.strip_prefix(SCHED_FOLDER).and_then(|rest| rest.strip_prefix('/')) else { return true };
    let module = module.split(['/', '.']).next().unwrap_or_default();
    match part {
        // Doorbells have limits on every core.
        Part::Own | Part::Hybrid => matches!(module, "lib" | "limiter"),
        Part::Shared | Part::Devices => module == "lib" || SCHED_AT_EL2.contains(&module),
    }
}

/// Code lines of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeLines {
    /// Rust.
    pub rust: usize,
    /// Assembly files.
    pub assembly: usize,
}

impl CodeLines {
    /// Returns both together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rust + self.assembly
    }
}

/// Counts the code lines of each crate in a part.
///
/// # Errors
/// When rustfmt is missing or refuses a file.
pub fn of_part(part: Part) -> Result<Vec<(&'static str, CodeLines)>, String> {
    EL2_CRATES.iter().map(|(name, folder)| Ok((*name, of_folder(folder, part)?))).collect()
}

/// Counts the code lines of a part.
///
/// # Errors
/// As [`of_part`].
pub fn total(part: Part) -> Result<usize, String> {
    Ok(of_part(part)?.iter().map(|(_, lines)| lines.total()).sum())
}

/// Counts the code lines of the secure monitor, with the program that writes its lists.
///
/// # Errors
/// As [`of_part`].
pub fn of_secure_monitor() -> Result<CodeLines, String> {
    of_folder("secure-monitor", Part::Own)
}

fn of_folder(folder: &str, part: Part) -> Result<CodeLines, String> {
    let files = crate::files(&[folder], &[".rs", ".s"]).into_iter().filter(|(path, _)| is_compiled(path, part));
    let absent: Vec<&str> = OF_NO_PART.iter().chain(absent(part).items).copied().collect();
    of_files(files, &absent)
}

/// Counts files, without items under these attributes.
pub(crate) fn of_files(
    files: impl IntoIterator<Item = (String, String)>,
    absent: &[&str],
) -> Result<CodeLines, String> {
    let mut lines = CodeLines::default();
    for (path, text) in files {
        if path.ends_with(".s") {
            lines.assembly += assembly(&text);
        } else {
            let text = absent.iter().fold(text, |text, attribute| without_items(attribute, &text));
            lines.rust += rust(&formatted(&text).map_err(|error| format!("{path}: {error}"))?);
        }
    }
    Ok(lines)
}

/// The text with spaces in place of items under an attribute.
pub(crate) fn without_items(attribute: &str, text: &str) -> String {
    let mut kept = text.as_bytes().to_vec();
    for range in items_under(attribute, text, &Source::new(text).code()) {
        kept[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The text as rustfmt writes it without any configuration.
fn formatted(text: &str) -> Result<String, String> {
    // Most files are in all parts, which several tests count: to start rustfmt for each was most of what they took.
    static DONE: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let poisoned = |_| String::from("another count was ended in the middle");
    if let Some(done) = DONE.lock().map_err(poisoned)?.get(text) {
        return Ok(done.clone());
    }
    let done = by_rustfmt(text)?;
    DONE.lock().map_err(poisoned)?.insert(text.to_owned(), done.clone());
    Ok(done)
}

fn by_rustfmt(text: &str) -> Result<String, String> {
    let missing = |error| format!("cannot run rustfmt, which the toolchain of the project has: {error}");
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--quiet"])
        // rustfmt looks for its configuration here and above.
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let mut input = child.stdin.take().ok_or("rustfmt has no input")?;
    let output = std::thread::scope(|scope| {
        // On a thread of its own: rustfmt may write before it has read all.
        scope.spawn(move || input.write_all(text.as_bytes()));
        child.wait_with_output()
    });
    let output = output.map_err(missing)?;
    if !output.status.success() {
        return Err(String::from("rustfmt refuses it"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Counts lines of Rust without blanks, comments, attributes of the crate and items for tests.
#[must_use]
pub fn rust(text: &str) -> usize {
    without_tests(text).lines().filter(|line| !line.trim().is_empty()).count()
}

/// Returns Rust text with comments and items for tests as spaces.
#[must_use]
pub fn without_tests(text: &str) -> String {
    let source = Source::new(text);
    let mut kept = source.without_comments().into_bytes();
    let code = source.code();
    for range in test_items(&code).into_iter().chain(inner_attributes(&code)) {
        kept[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Attributes of a whole crate, such as the lints that it denies: they are no items.
fn inner_attributes(code: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    code.match_indices("#![").map(|(start, _)| {
        let mut depth = 0usize;
        let end = code[start..].find(|one| {
            depth = match one {
                '[' => depth + 1,
                ']' => depth - 1,
                _ => depth,
            };
            one == ']' && depth == 0
        });
        start..end.map_or(code.len(), |end| start + end + 1)
    })
}

/// Counts lines of assembly without blanks and comments.
#[must_use]
pub fn assembly(text: &str) -> usize {
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().trim().to_owned();
    text.lines().filter(|line| !without_comment(line).is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every module of `bulkhead-sched` that code at EL2 names is in the list, and what those use in turn.
    #[test]
    fn the_modules_of_sched_at_el2_are_listed() {
        for part in Part::ALL {
            for (_, folder) in EL2_CRATES {
                let prefix = if *folder == SCHED_FOLDER { "crate::" } else { "bulkhead_sched::" };
                for (path, text) in crate::files(&[folder], &[".rs"]).iter().filter(|(path, _)| is_compiled(path, part))
                {
                    let all = absent(part).items.iter();
                    let text = all.fold(text.clone(), |text, attribute| without_items(attribute, &text));
                    let code = Source::new(&text).code();
                    for (start, _) in code.match_indices(prefix) {
                        let name: String = code[start + prefix.len()..]
                            .chars()
                            .take_while(|one| one.is_alphanumeric() || *one == '_')
                            .collect();
                        let module = format!("{SCHED_FOLDER}/{name}.rs");
                        let is_module = crate::repository().join(&module).exists();
                        assert!(
                            !is_module || is_compiled(&module, part),
                            "{path} of `{}` uses bulkhead_sched::{name}",
                            part.name()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn packing_gains_no_lines() {
        let packed = "fn a() { if b() { c(); d() } }";
        assert_eq!(rust(&formatted(packed).unwrap()), 6);
        assert!(formatted("fn {").is_err());
    }

    #[test]
    fn only_code_counts() {
        let text = "//! Head.\n#![forbid(unsafe_code)]\n#![cfg_attr(\n    not(test),\n    deny(a)\n)]\n\n/// Doc.\nfn a() {\n    // why\n    b(); // what\n}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nconst S: &str = \"//\";\n";
        assert_eq!(rust(text), 4);
        assert_eq!(assembly("// head\nlabel:\n    mov x0, x1 // why\n\n"), 2);
    }
}
