//! Refused DMA, as `bulkhead stats` shows it.

use crate::observer::Observer;
use crate::refused::{Refused, kind_name, refused};
use bulkhead_device::events::Event;
use bulkhead_files::table::table;
use serde_json::{Value, json};

/// Returns the table for people; nothing without functions.
pub(super) fn text(observer: &Observer) -> String {
    let all = refused(observer);
    if all.is_empty() {
        return String::new();
    }
    let mut rows =
        vec![["partition", "refused DMA", "lost", "latest", "stream", "address"].map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|one| row(observer, one)));
    format!("\n{}", table(&rows, 1, 0))
}

fn row(observer: &Observer, one: &Refused) -> Vec<String> {
    let none = || "-".to_owned();
    let latest = |of: fn(Event) -> String| one.latest.map_or_else(none, of);
    vec![
        observer.plan().partition_name(one.partition).to_owned(),
        one.events.to_string(),
        one.lost.map_or_else(|| "nobody looks".to_owned(), |lost| lost.to_string()),
        latest(|event| format!("{} ({:#x})", kind_name(event.kind()), event.kind())),
        latest(|event| format!("{:#x}", event.stream())),
        latest(|event| format!("{:#x}", event.address())),
    ]
}

/// Returns the same for programs, by partition.
pub(super) fn json(observer: &Observer) -> Value {
    let entry = |one: &Refused| {
        let latest = one.latest.map(|event| {
            json!({
                "type": event.kind(),
                "means": kind_name(event.kind()),
                "stream": event.stream(),
                "address": event.address(),
            })
        });
        let name = observer.plan().partition_name(one.partition).to_owned();
        (name, json!({ "events": one.events, "lost": one.lost, "owner_looks": one.lost.is_some(), "latest": latest }))
    };
    Value::Object(refused(observer).iter().map(entry).collect())
}
