//! What was checked, about what, and what was found.

use crate::html::Html;
use crate::page::Context;
use crate::table::{Cell, Table, chip};
use crate::words::{grouped, plural, size};
use bulkhead_abi::Part;
use bulkhead_description::{Diagnostic, Report};
use bulkhead_verify::Finding;
use std::fmt::Write;

pub(crate) fn write(html: &mut Html, context: &Context<'_>) {
    let evidence = context.input.evidence;
    let verdict = &evidence.verdict;
    let extent = &verdict.extent;
    html.element("p", &[("class", &"lead")], |html| {
        let good = verdict.is_accepted();
        chip(html, if good { "good" } else { "bad" }, if good { "accepted" } else { "refused" });
        html.text(format!(
            " The finished image was read again, byte by byte, by a reader that shares only the layouts with its writer: \
             {} walked, {} of guest-writable memory compared, {} with one owner each.",
            plural(extent.table_pages, "table page"),
            size(extent.guest_writable_bytes),
            plural(extent.interrupts, "interrupt"),
        ));
    });
    findings(html, &verdict.findings);
    privileged(html, context);
    hashes(html, &context.input.system.source_hash, ("image", evidence.image_bytes, &evidence.image_hash));
    hazards(html, &evidence.warnings);
    clock(html, context);
}

/// What is wrong with an image, if anything is.
pub(crate) fn findings(html: &mut Html, findings: &[Finding]) {
    let mut table = Table::new(&["code", "finding"]);
    for finding in findings {
        table.row(vec![Cell::Code(finding.code.name().to_owned()), Cell::text(&finding.message)]);
    }
    if !table.is_empty() {
        table.write(html);
    }
}

/// What the page is about: the description's hash, and name, size and hash of the file made from it.
pub(crate) fn hashes(html: &mut Html, source_hash: &[u8], (file, bytes, hash): (&str, u64, &str)) {
    html.element("dl", &[("class", &"hashes")], |html| {
        let source = source_hash.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let file = format!("{file}, {} bytes", grouped(bytes));
        for (name, hash) in [("description and guests", source.as_str()), (&file, hash)] {
            html.leaf("dt", &[], format!("SHA-256 of {name}"));
            html.element("dd", &[], |html| html.leaf("code", &[], hash));
        }
    });
}

/// How much privileged code this system has: what an assessor reads.
pub(crate) fn privileged(html: &mut Html, context: &Context<'_>) {
    let header = &context.input.plan.header;
    // An image that is refused may hold any code.
    let part = Part::ALL.into_iter().find(|part| *part as u32 == header.part);
    let Some(part) = part.filter(|_| context.input.evidence.verdict.is_accepted()) else { return };
    html.element("p", &[], |html| {
        html.text("Privileged code of this system: the part ");
        html.leaf("code", &[], part.name());
        html.text(format!(
            " of the monitor, {} lines of Rust and assembly besides zerocopy, {} of text and constants in whole pages.",
            grouped(bulkhead_contained_monitor::code_lines(part) as u64),
            size(header.text_bytes.saturating_add(header.rodata_bytes)),
        ));
    });
}

/// Warnings of the description: where a claim is weaker than it could be.
pub(crate) fn hazards(html: &mut Html, warnings: &Report) {
    html.leaf("h3", &[], "Hazards");
    if warnings.diagnostics.is_empty() {
        html.leaf("p", &[], "None: no declaration of this system weakens a claim of isolation.");
        return;
    }
    let mut table = Table::new(&["code", "what", "where"]);
    for diagnostic in &warnings.diagnostics {
        let place = place(diagnostic, warnings);
        table.row(vec![
            Cell::Code(diagnostic.code.name().to_owned()),
            Cell::text(&diagnostic.message),
            Cell::Code(place),
        ]);
    }
    table.write(html);
}

fn place(diagnostic: &Diagnostic, report: &Report) -> String {
    let Some(label) = diagnostic.labels.first() else { return String::new() };
    // The file's name without its folder: a report must not tell where it was written.
    let name = report.sources.get(label.span.file).name.as_str();
    let name = name.rsplit('/').next().unwrap_or(name);
    format!("{name}:{}", report.sources.position(label.span.file, label.span.start).line)
}

/// What the measured numbers are.
fn clock(html: &mut Html, context: &Context<'_>) {
    let Some(timeline) = context.input.timeline else { return };
    html.leaf("h3", &[], "Measurement");
    html.element("p", &[], |html| {
        html.text("Times below are ");
        let clock = timeline.layout.clock.as_str();
        html.leaf("strong", &[], if clock.is_empty() { "of an unnamed clock" } else { clock });
        html.text(format!(". The trace has {} events", grouped(timeline.events.len() as u64)));
        let lost: u64 = timeline.lost.iter().sum();
        let missing = if lost == 0 {
            " and none is missing.".to_owned()
        } else {
            format!("; {} older ones were overwritten, so worst cases before them were not seen.", grouped(lost))
        };
        html.text(missing);
    });
    if !timeline.is_complete() {
        html.element("p", &[], |html| {
            chip(html, "warn", "trace incomplete");
            html.text(" Worst cases in what is missing were not seen; a verdict below is about the rest.");
        });
    }
    if !timeline.warnings.is_empty() {
        html.element("ul", &[], |html| {
            for warning in &timeline.warnings {
                html.leaf("li", &[("class", &"warning")], warning);
            }
        });
    }
}
