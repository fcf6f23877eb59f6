//! Lines of code that are linked at EL1 into the real-time kernel (row 15 of its numbers).
//!
//! What counts is the same as at EL2 ([`crate::code_lines`]): every item of ours that is compiled, used or not, after rustfmt with its defaults. Crates that the
//! kernel shares with monitor, host or guests count by module: those that it names, and what these name in turn; a test follows the names. Rejected: to count a shared
//! crate in full. The tables of a monitor's plan would then be lines of the kernel, though nothing of it names them. What only the kernel
//! that records has (feature `trace`) is left out: another kernel is built for it.

use crate::code_lines::{CodeLines, OF_SCHED_TESTS, of_files};

/// A crate linked at EL1.
#[derive(Clone, Copy, Debug)]
pub struct KernelCrate {
    /// Its name.
    pub name: &'static str,
    /// Where its sources are.
    pub folder: &'static str,
    /// Modules of it that are counted, `lib` among them; without any it is counted in full.
    modules: &'static [&'static str],
}

const fn part(name: &'static str, folder: &'static str, modules: &'static [&'static str]) -> KernelCrate {
    KernelCrate { name, folder, modules }
}

/// Crates that have budgets of lines of their own: the promise for all others stands beside the one for all.
const APART: [&str; 2] = ["bulkhead-channel", "bulkhead-sched"];

/// All of them.
pub const CRATES: &[KernelCrate] = &[
    part(
        "bulkhead-abi",
        "core/abi/src",
        &["lib", "address", "console", "hypercall", "observe", "plan", "readers", "status"],
    ),
    part("bulkhead-arch", "arch/src", &["lib", "el1", "kernel"]),
    part(
        "bulkhead-arm",
        "core/arm/src",
        &["lib", "affinity", "exception", "gic", "intid", "list_register", "pl011", "psci", "smccc", "timer"],
    ),
    part("bulkhead-channel", "core/channel/src", &[]),
    part("bulkhead-guest-abi", "core/guest-abi/src", &[]),
    part("bulkhead-kernel", "kernel/src", &[]),
    part("bulkhead-kernel-abi", "core/kernel-abi/src", &[]),
    part("bulkhead-objects", "core/objects/src", &[]),
    part(
        "bulkhead-sched",
        "core/sched/src",
        &["lib", "band", "budget", "cyclic", "dates", "dispatch", "kernel", "limiter", "ready", "server", "tcap"],
    ),
    part("bulkhead-words", "core/words/src", &[]),
];

/// How items are marked that the kernel does not have.
const ABSENT: &[&str] = &[
    "#[cfg(not(target_os = \"none\"))]",
    "#[cfg(feature = \"devices\")]",
    "#[cfg(feature = \"hybrid\")]",
    "#[cfg(feature = \"mutants\")]",
    "#[cfg(feature = \"trace\")]",
];

impl KernelCrate {
    fn has(&self, path: &str) -> bool {
        let module = path.strip_prefix(self.folder).and_then(|rest| rest.strip_prefix('/'));
        let module = module.and_then(|rest| rest.split(['/', '.']).next()).unwrap_or_default();
        (self.modules.is_empty() || self.modules.contains(&module)) && !OF_SCHED_TESTS.contains(&path)
    }

    /// Its files that are counted, with their text.
    fn files(&self) -> Vec<(String, String)> {
        let all = crate::files(&[self.folder], &[".rs", ".s"]);
        all.into_iter().filter(|(path, _)| self.has(path)).collect()
    }
}

/// Counts the code lines of each crate at EL1.
///
/// # Errors
/// When rustfmt is missing or refuses a file.
pub fn of_kernel() -> Result<Vec<(&'static str, CodeLines)>, String> {
    CRATES.iter().map(|one| Ok((one.name, of_files(one.files(), ABSENT)?))).collect()
}

/// All of these lines, and those besides scheduling and channels.
#[must_use]
pub fn totals(crates: &[(&'static str, CodeLines)]) -> [usize; 2] {
    let besides = crates.iter().filter(|(name, _)| !APART.contains(name));
    [crates.iter().map(|(_, lines)| lines.total()).sum(), besides.map(|(_, lines)| lines.total()).sum()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    /// What a counted file names is counted.
    #[test]
    fn the_modules_that_the_kernel_names_are_counted() {
        for user in CRATES {
            for (path, text) in user.files().iter().filter(|(path, _)| path.ends_with(".rs")) {
                let code = ABSENT
                    .iter()
                    .fold(text.clone(), |text, attribute| crate::code_lines::without_items(attribute, &text));
                let code = crate::code_lines::without_tests(&Source::new(&code).code());
                for used in CRATES {
                    let own = format!("{}::", used.name.replace('-', "_"));
                    let prefix = if used.name == user.name { "crate::" } else { &own };
                    for (start, _) in code.match_indices(prefix) {
                        let rest = &code[start + prefix.len()..];
                        let module: String =
                            rest.chars().take_while(|one| one.is_alphanumeric() || *one == '_').collect();
                        let file = format!("{}/{module}.rs", used.folder);
                        let is_module = crate::repository().join(&file).exists();
                        assert!(!is_module || used.has(&file), "{path} names {prefix}{module}, which is not counted");
                    }
                }
            }
        }
    }
}
