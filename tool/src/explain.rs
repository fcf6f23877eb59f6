//! `bulkhead explain`: the long text of a code, of whichever command gives it.

use bulkhead_description::Code;
use bulkhead_description::command::EXIT_USAGE;
use bulkhead_files::output;
use bulkhead_verify::Code as Finding;
use std::process::ExitCode;

/// Prints the long text of a code, or the list of all codes.
pub(crate) fn explain(code: Option<&str>) -> ExitCode {
    let Some(text) = code else {
        output::print(&list());
        return ExitCode::SUCCESS;
    };
    // A finding begins with its letter; of a diagnostic the number alone is enough.
    let explanation = Finding::parse(text)
        .map(Finding::explanation)
        .or_else(|| Code::parse(text).map(|code| code.explanation().into()));
    match explanation {
        Some(explanation) => {
            output::print(&explanation);
            ExitCode::SUCCESS
        }
        None => {
            bulkhead_files::complain!(
                "error: `{text}` is no code: those of `check` are BH and four digits, those of `verify` V and three; `bulkhead explain` lists all"
            );
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn list() -> String {
    let diagnostics = Code::ALL.iter().map(|code| (code.name(), code.severity().word(), code.title()));
    let findings = Finding::ALL.iter().map(|code| (code.name(), "finding", code.title()));
    diagnostics.chain(findings).map(|(name, kind, title)| format!("{name:<6} {kind:<7} {title}\n")).collect()
}
