//! What components, programs, threads, servers, devices and ports are called: text that can be shown, with zeros behind it. Findings and reports print it.

use crate::finding::{Findings, Kind};
use bulkhead_kernel_abi::boot::Tables;

/// Judges all names.
pub(crate) fn check(tables: &Tables<'_>, findings: &mut Findings) {
    let count = tables.names.len();
    let is_so = count == 0 || count == tables.threads.len() + tables.servers.len();
    findings.require(is_so, Kind::Row, || {
        format!("{count} names are not those of {} threads and {} servers", tables.threads.len(), tables.servers.len())
    });
    let kinds: [(&str, Vec<&[u8; 16]>); 5] = [
        ("component", tables.components.iter().map(|row| &row.name).collect()),
        ("thread or server", tables.names.iter().map(|row| &row.name).collect()),
        ("program", tables.programs.iter().map(|row| &row.name).collect()),
        ("device", tables.devices.iter().map(|row| &row.name).collect()),
        ("port", tables.ports.iter().map(|row| &row.name).collect()),
    ];
    for (what, names) in kinds {
        for (number, _) in names.iter().enumerate().filter(|(_, name)| !is_text(name)) {
            findings.add(Kind::Row, format!("the name of {what} {number} is no text"));
        }
    }
}

/// States whether it is text without control characters, with a zero behind it and nothing behind that.
fn is_text(name: &[u8; 16]) -> bool {
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let (text, rest) = name.split_at(length);
    let text = core::str::from_utf8(text);
    !rest.is_empty() && rest.iter().all(|byte| *byte == 0) && text.is_ok_and(|text| !text.chars().any(char::is_control))
}
