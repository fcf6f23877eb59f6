//! Pieces of system descriptions that a page shows and no command reads.

use bulkhead_description::{Code, Options, load_text};
use bulkhead_timing::Assumptions;
use std::path::Path;

/// A description around a piece of one.
const HEAD: &str = "version = 1\nname = \"around\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n\n";
/// A partition around a piece of one.
const PARTITION: &str = "[[partition]]\nname = \"piece\"\ncores = [0]\nmemory = \"4 MiB\"\nimage = { kind = \"elf\", file = \"guest:hello.elf\" }\n";
/// Mistakes of form that cannot come from what a piece leaves out.
const MISTAKES: &[Code] = &[
    Code::Syntax,
    Code::UnknownKey,
    Code::WrongType,
    Code::UnknownWord,
    Code::BadQuantity,
    Code::BadName,
    Code::TooManyEntries,
];

/// Whether a listing is a whole description.
#[must_use]
pub fn is_whole(text: &str) -> bool {
    let has_guests = ["[[partition]]", "[secure]"].iter().any(|table| text.contains(table));
    has_guests && text.lines().any(|line| line.starts_with("version = "))
}

/// Says what is wrong with a listing of a description: for a whole one everything that `bulkhead check` refuses apart from guests
/// that were not built, for a piece every mistake of form. A piece that starts with a table is put behind a head, another one into
/// a partition.
#[must_use]
pub fn mistakes(text: &str) -> Vec<String> {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    let whole = match (is_whole(text), first.starts_with('[')) {
        (true, _) => text.to_owned(),
        (false, true) => format!("{HEAD}{text}"),
        (false, false) => format!("{HEAD}{PARTITION}{text}"),
    };
    let outcome = load_text(Path::new("page.toml"), &whole, &Options::default(), &Assumptions::default());
    let report = outcome.map_or_else(|report| report, |loaded| loaded.warnings);
    let counts = |code: Code| if is_whole(text) { code != Code::GuestFileMissing } else { MISTAKES.contains(&code) };
    report.diagnostics.iter().filter(|one| counts(one.code)).map(|one| one.message.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_judged_by_their_form() {
        assert_eq!(mistakes("route = \"priority\"\nwatchdog = \"10 ms\"\n"), [""; 0]);
        assert_eq!(mistakes("[trace]\nenabled = true\nrecords = 4096\n"), [""; 0]);
        assert_eq!(mistakes("[[partition]]\nname = \"display\"\nmanages = true\n"), [""; 0], "the rest is left out");
        assert_eq!(mistakes("rute = \"priority\"\n").len(), 1);
        assert_eq!(mistakes("route = \"prority\"\n").len(), 1);
        assert_eq!(mistakes("[trace]\nenabled = 4\n").len(), 1);
    }

    #[test]
    fn whole_descriptions_are_judged_as_check_does() {
        let whole = format!("{HEAD}{PARTITION}");
        assert_eq!(mistakes(&whole), [""; 0]);
        assert_eq!(mistakes(&whole.replace("cores = [0]", "cores = [0, 9]")).len(), 1);
    }
}
