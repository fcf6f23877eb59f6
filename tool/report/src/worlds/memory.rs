//! What each world reaches, and what lies in flash.

use super::{Worlds, WorldsInput, world_name};
use crate::figure::{WIDTH, figure, label, legend, rectangle};
use crate::html::Html;
use crate::memory;
use crate::table::{Cell, Table};
use crate::words::{address, size};
use bulkhead_image::Range;
use bulkhead_plan::model::Bank;

pub(crate) fn write(html: &mut Html, input: &Worlds<'_>) {
    let name = world_name(input.secure);
    picture(html, input);
    html.leaf("h3", &[], "What the payload reaches");
    ranges(html, &input.maps.payload);
    if let Some(world) = input.secure.world() {
        html.leaf("h3", &[], format!("What is in the memory of {name} when it begins"));
        let text = format!(
            "{} from {} are its own, and every device that is not the payload\u{2019}s.",
            size(world.memory.bytes),
            address(world.memory.start.0)
        );
        html.leaf("p", &[], text);
        ranges(html, &input.maps.world);
    }
    if let Some(context) = &input.partitions {
        html.leaf("h3", &[], format!("What lies in the memory of {name}: the monitor at EL2 and its partitions"));
        memory::write(html, input.system, context.input.plan);
    }
    html.leaf("h3", &[], "What lies in flash");
    let note =
        "Neither world can write it; a restart of the other world begins from here, with the bytes compared by CRC.";
    html.leaf("p", &[], note);
    ranges(html, &input.maps.flash);
}

fn ranges(html: &mut Html, list: &[Range]) {
    let mut table = Table::new(&["from", "to", "size", "rights", "use"]);
    for range in list {
        table.row(vec![
            Cell::Code(address(range.start)),
            Cell::Code(address(range.start.saturating_add(range.bytes))),
            Cell::text(size(range.bytes)),
            Cell::Code(range.rights.to_owned()),
            Cell::text(&range.what),
        ]);
    }
    table.write(html);
}

/// Height of a bar, and from one to the next.
const BAR: f64 = 46.0;
const STEP: f64 = 92.0;

/// The split of RAM: one bar per bank, each to its own scale, because the secure one is small. RAM of partitions has a picture of its own.
fn picture(html: &mut Html, input: &WorldsInput<'_>) {
    let Some(facts) = &input.system.board.secure else { return };
    let mut bars = vec![(facts.ram, "secure RAM", pieces_of_payload(input))];
    let payload = class(input.payload());
    if input.secure.hybrid().is_some() {
        let title =
            "Secure RAM, to scale. It is out of reach of the monitor at EL2, of every partition and of their devices.";
        bars_of(html, &bars, title);
        legend(html, &[(payload.as_str(), "payload")]);
        return;
    }
    let (name, below) = (world_name(input.secure), class(input.world()));
    let world = input.secure.world().into_iter().map(|world| (world.memory, below.clone(), world.name.clone()));
    let channels = input.maps.payload.iter().filter(|range| range.what.starts_with("channel "));
    let channels: Vec<_> = channels.map(|range| (bank(range), CHANNEL.to_owned(), range.what.clone())).collect();
    let open: Vec<_> = world.chain(channels).collect();
    bars.extend(
        input.system.board.banks_of(input.system.memory_bytes).into_iter().map(|bank| (bank, "RAM", open.clone())),
    );
    let title = "Both kinds of RAM, each to its own scale. Secure RAM is out of the other world\u{2019}s reach and of its devices\u{2019}.";
    bars_of(html, &bars, title);
    legend(html, &[(payload.as_str(), "payload"), (below.as_str(), name), (CHANNEL, "both: channels")]);
}

fn bars_of(html: &mut Html, bars: &[(Bank, &str, Vec<Piece>)], title: &str) {
    figure(html, bars.len() as f64 * STEP, title, |html| {
        for (place, (bank, name, pieces)) in bars.iter().enumerate() {
            bar(html, place as f64 * STEP + 20.0, *bank, name, pieces);
        }
    });
}

/// Class of what both worlds reach.
const CHANNEL: &str = "m-channel";

/// Class of a world's colour.
fn class(owner: usize) -> String {
    format!("p{}", owner % 8)
}

/// What of a picture's bar is whose, as a class, and what it is.
type Piece = (Bank, String, String);

fn bank(range: &Range) -> Bank {
    Bank { start: bulkhead_abi::PhysicalAddress(range.start), bytes: range.bytes }
}

fn pieces_of_payload(input: &WorldsInput<'_>) -> Vec<Piece> {
    let Some(facts) = &input.system.board.secure else { return Vec::new() };
    let inside = |range: &&Range| range.start >= facts.ram.start.0 && range.start < facts.ram.end();
    let list = input.maps.payload.iter().filter(inside);
    list.map(|range| (bank(range), class(input.payload()), range.what.clone())).collect()
}

fn bar(html: &mut Html, top: f64, whole: Bank, name: &str, pieces: &[Piece]) {
    let place = |value: u64| {
        let share = value.saturating_sub(whole.start.0) as f64 / whole.bytes.max(1) as f64;
        1.0 + share.clamp(0.0, 1.0) * (WIDTH - 2.0)
    };
    rectangle(html, [1.0, top, WIDTH - 2.0, BAR], "free", "free");
    for (bank, owner, what) in pieces {
        let (left, right) = (place(bank.start.0), place(bank.end()));
        let title = format!("{what}: {} from {}", size(bank.bytes), address(bank.start.0));
        rectangle(html, [left, top, (right - left).max(1.5), BAR], &format!("{owner} edge"), &title);
    }
    label(html, 1.0, top - 7.0, "tick", &format!("{name}, {} from {}", size(whole.bytes), address(whole.start.0)));
    label(html, WIDTH - 1.0, top - 7.0, "tick end", &address(whole.end()));
}
