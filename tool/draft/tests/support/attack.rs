//! The body of the fuzz target `device_tree` and of the seeded tests: any bytes are either refused with a reason, or become a draft that
//! is TOML.

use bulkhead_description::Code;
use bulkhead_description::board::examine;
use bulkhead_draft::draft;

/// Makes a draft of any bytes; returns whether they were accepted.
pub(crate) fn device_tree(bytes: &[u8]) -> bool {
    match draft(bytes, "a test") {
        Ok(draft) => {
            let (_, errors) = toml::de::DeTable::parse_recoverable(&draft.text);
            assert!(errors.is_empty(), "{errors:?}\n{}", draft.text);
            // Whatever the tree says, the rest is well-formed: accepted, or refused for what the board lacks.
            let Some(filled) = draft.filled else { return true };
            let examined = examine("filled", &filled);
            let is_limit = examined.report.diagnostics.iter().all(|one| one.code == Code::BoardLimit);
            assert!(is_limit, "{}\n{filled}", examined.report.to_text(false));
            // What is to be found out is all that differs.
            let lines = draft.text.lines().zip(filled.lines()).filter(|(one, other)| one != other);
            assert!(lines.clone().all(|(line, _)| line.contains("\"TODO: ")), "{}", draft.text);
            assert_eq!(draft.text.lines().count(), filled.lines().count());
            assert_eq!(lines.count(), draft.todos);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
