//! The body of the fuzz target `description` and of the seeded tests: any text is either refused with a reason or accepted
//! without one, and every form of the report can be made.

use bulkhead_description::{Options, Report, load_text_unchecked};
use std::path::Path;

/// Checks a description of any content; returns whether it was accepted.
pub(crate) fn description(path: &Path, text: &str, options: &Options) -> bool {
    match load_text_unchecked(path, text, options) {
        Ok(loaded) => {
            assert!(!loaded.warnings.has_errors(), "accepted with an error:\n{}", loaded.warnings.to_text(false));
            render(&loaded.warnings);
            true
        }
        Err(report) => {
            assert!(report.has_errors(), "refused without a reason");
            render(&report);
            false
        }
    }
}

/// Makes every form of a report, because the renderers have panics of their own.
fn render(report: &Report) {
    assert_eq!(report.to_text(true).is_empty(), report.diagnostics.is_empty());
    assert_eq!(report.to_text(false).is_empty(), report.diagnostics.is_empty());
    assert!(report.to_json()["version"].is_u64());
}
