//! Random descriptions at the limits of the format: as many partitions, servers, windows, ports and tasks as it allows, with times
//! that are hard for a search: far apart, nearly equal, a core that is all but full. Half of them are calm enough to be accepted
//! now and then, so that images of such a size are built and verified, too.

use crate::random::Random;
use std::fmt::Write;

/// Servers of a core, windows of a table and so on, as the format allows.
const PARTITIONS: u64 = 8;
const CORE_SERVERS: u64 = 16;
const VCPU_SERVERS: u64 = 4;
const WINDOWS: u64 = 32;
const LIST_ENTRIES: u64 = 1_024;
/// The board has interrupts for this many doorbells.
const DOORBELLS: usize = 24;

/// One core in most cases, because servers of one core meet.
struct Shape {
    cores: u64,
    partitions: u64,
    times: Times,
    /// Every partition has a channel to every other one, not only to the next.
    all_talk: bool,
    /// Nobody is in a hurry: long periods, small budgets, wide limits.
    calm: bool,
    /// Tasks of each partition.
    tasks: u64,
    /// How full each core is meant to be, in thousandths.
    full: u64,
    /// Shorter periods are more important.
    by_period: bool,
}

/// How the periods of a description relate.
#[derive(Clone, Copy)]
enum Times {
    /// From a millisecond to a second.
    Usual,
    /// Every order of magnitude that can be written.
    Wide,
    /// All nearly the same, and without a common divisor.
    Near,
    /// Short ones and very long ones.
    Apart,
    /// From a fifth of a second to four.
    Long,
}

impl Times {
    fn period_ns(self, random: &mut Random) -> u64 {
        match self {
            Self::Usual => random.within(1_000, 1_000_000) * 1_000,
            Self::Wide => {
                let bits = random.within(8, 56);
                (1 << bits) + random.below(1 << bits)
            }
            Self::Near => 10_000_000 + random.below(100) * 16,
            Self::Apart if random.flip() => random.within(1_000, 50_000),
            Self::Apart => random.within(1_000, 1_000_000) * 1_000_000,
            Self::Long => random.within(200, 4_000) * 1_000_000,
        }
    }
}

/// The text of a description that a seed stands for.
pub(crate) fn description(random: &mut Random) -> String {
    let partitions = random.within(1, PARTITIONS);
    let calm = random.flip();
    let times = [Times::Usual, Times::Wide, Times::Near, Times::Apart][random.below(4) as usize];
    let shape = Shape {
        cores: if random.below(4) == 0 { random.within(1, partitions) } else { 1 },
        partitions,
        times: if calm { Times::Long } else { times },
        all_talk: random.below(4) == 0,
        calm,
        tasks: [0, 1, 8, 64, LIST_ENTRIES][random.below(5) as usize],
        by_period: calm || random.flip(),
        full: match (calm, random.flip()) {
            (true, _) => random.within(50, 300),
            (false, true) => random.within(50, 900),
            (false, false) => random.within(900, 1_010),
        },
    };
    let mut text = String::from("version = 1\nname = \"limits\"\nboard = \"qemu-virt\"\nmemory = \"8 GiB\"\n");
    if random.below(4) == 0 {
        text.push_str("trace = { enabled = true }\n");
    }
    let kinds: Vec<u64> = (0..shape.cores).map(|_| if shape.calm { 3 } else { random.below(8) }).collect();
    for (core, kind) in kinds.iter().enumerate() {
        schedule(&mut text, random, &shape, core as u64, *kind);
    }
    let mut left = vec![CORE_SERVERS; kinds.len()];
    for number in 0..shape.partitions {
        partition(&mut text, random, &shape, number, &kinds, &mut left);
    }
    for (place, (source, destination)) in pairs(&shape).into_iter().enumerate() {
        let rings = place < DOORBELLS;
        let _ = write!(
            text,
            "\n[[channel]]\nname = \"c{source}-{destination}\"\nsource = \"p{source}.to{destination}\"\n\
             destination = \"p{destination}.from{source}\"\n{}",
            if rings { doorbell(random, &shape) } else { String::new() }
        );
    }
    text
}

/// Who talks to whom.
fn pairs(shape: &Shape) -> Vec<(u64, u64)> {
    let (count, distances) =
        (shape.partitions, if shape.all_talk { shape.partitions } else { shape.partitions.min(2) });
    (0..count).flat_map(|from| (1..distances).map(move |distance| (from, (from + distance) % count))).collect()
}

fn doorbell(random: &mut Random, shape: &Shape) -> String {
    let (least_us, most_us) = if shape.calm { (1_000_000, 9_000_000) } else { (100, 100_000) };
    match random.flip() {
        true if !shape.calm => "doorbell = true\n".to_owned(),
        _ => format!(
            "doorbell = {{ limit = {}, per = \"{} us\" }}\n",
            random.within(1, 9),
            random.within(least_us, most_us)
        ),
    }
}

/// A schedule: one core in eight goes round, two have a time table.
fn schedule(text: &mut String, random: &mut Random, shape: &Shape, core: u64, kind: u64) {
    let _ = write!(text, "\n[[schedule]]\ncore = {core}\n");
    match kind {
        0 => {
            let _ = write!(text, "kind = \"round-robin\"\nquantum = \"{} us\"\n", random.within(100, 100_000));
        }
        1 | 2 => {
            let here: Vec<u64> = (core..shape.partitions).step_by(shape.cores as usize).collect();
            let count = random.within(here.len() as u64, WINDOWS);
            let step_ns = 16 * random.within(2_000, 200_000);
            let _ = write!(text, "kind = \"cyclic\"\nmajor_frame = \"{} ns\"\nwindows = [\n", step_ns * count);
            for number in 0..count {
                let owner =
                    here[if number < here.len() as u64 { number } else { random.below(here.len() as u64) } as usize];
                let length_ns = step_ns / 16 * random.within(8, 15);
                let offset_ns = number * step_ns;
                let _ = writeln!(
                    text,
                    "  {{ partition = \"p{owner}\", offset = \"{offset_ns} ns\", length = \"{} ns\" }},",
                    length_ns / 16 * 16
                );
            }
            text.push_str("]\n");
        }
        _ => {
            text.push_str("kind = \"fixed-priority\"\n");
            if random.below(3) == 0 {
                let level = |random: &mut Random, priority: u64| {
                    format!("{{ priority = {priority}, quantum = \"{} us\" }}", random.within(50, 50_000))
                };
                let quanta: Vec<_> = (0..8).map(|place| level(random, 10 + place * 7)).collect();
                let _ = writeln!(text, "quanta = [{}]", quanta.join(", "));
            }
        }
    }
}

fn partition(text: &mut String, random: &mut Random, shape: &Shape, number: u64, kinds: &[u64], left: &mut [u64]) {
    let trusted = shape.calm || random.below(3) != 0;
    let core = number % shape.cores;
    let most_pages = if random.flip() { 1_000 } else { 200_000 };
    let _ = write!(
        text,
        "\n[[partition]]\nname = \"p{number}\"\ncores = [{core}]\nmemory = \"{} KiB\"\n\
         image = {{ kind = \"raw\", file = \"guest:tiny.bin\" }}\ntrust = \"{}\"\n",
        4 * random.within(64, most_pages),
        if trusted { "trusted" } else { "untrusted" }
    );
    ports(text, shape, number);
    if trusted && random.below(4) == 0 {
        let _ = write!(
            text,
            "manages = true\nmanage_limit = {{ limit = {}, per = \"{} us\" }}\n",
            random.within(1, 100),
            if shape.calm { 10_000_000 } else { random.within(100, 1_000_000) }
        );
    }
    if trusted && !shape.calm {
        devices(text, random, number);
    }
    let place = core as usize;
    if kinds[place] != 0 {
        // Every later partition needs one.
        let most = left[place].saturating_sub(shape.partitions - 1 - number).clamp(1, VCPU_SERVERS);
        let count = random.within(1, most);
        left[place] = left[place].saturating_sub(count);
        text.push_str("servers = [\n");
        (0..count).for_each(|server| one_server(text, random, shape, number, server));
        text.push_str("]\n");
    }
    if shape.tasks > 0 {
        tasks(text, random, shape);
    }
}

fn ports(text: &mut String, shape: &Shape, number: u64) {
    let kind = "kind = \"queuing\", message_bytes = 64, depth = 4";
    text.push_str("ports = [\n");
    for (source, destination) in pairs(shape) {
        if source == number {
            let _ = writeln!(text, "  {{ name = \"to{destination}\", direction = \"source\", {kind} }},");
        } else if destination == number {
            let _ = writeln!(text, "  {{ name = \"from{source}\", direction = \"destination\", {kind} }},");
        }
    }
    text.push_str("]\n");
}

/// Eight transports share a page, and so go to one partition.
fn devices(text: &mut String, random: &mut Random, number: u64) {
    let count = if number < 4 && random.flip() { 8 } else { 0 };
    text.push_str("devices = [\n");
    for place in 0..count {
        let _ = writeln!(
            text,
            "  {{ name = \"virtio-mmio-{}\", dma = \"trusted\", handler = \"{} us\", deadline = \"{} ms\" }},",
            number * 8 + place,
            random.within(1, 1_000),
            random.within(10, 100_000)
        );
    }
    text.push_str("]\n");
}

fn one_server(text: &mut String, random: &mut Random, shape: &Shape, number: u64, server: u64) {
    let period_ns = shape.times.period_ns(random).max(64);
    // Some are large and some are small, and all together fill the core as far as is wanted.
    let least = if shape.calm { shape.full / 2 } else { 1 };
    let share = 2 * random.within(least, shape.full) / (shape.partitions.max(2) * if random.flip() { 1 } else { 2 });
    let budget_ns = (u128::from(period_ns) * u128::from(share.min(1_000)) / 1_000).max(32) as u64;
    let times = format!("budget = \"{budget_ns} ns\", period = \"{period_ns} ns\"");
    let priority = if shape.by_period { u64::from(period_ns.ilog2()).min(59) } else { random.below(60) };
    let gate = if random.below(5) == 0 { ", gate = \"interrupt\"" } else { "" };
    let _ = write!(text, "  {{ name = \"s{server}\", ");
    // The first one has a budget, so that it can be a client.
    let choice = match server {
        _ if shape.calm => random.within(4, 11),
        0 => random.within(4, 11),
        _ => random.below(12),
    };
    let _ = match choice {
        0 => writeln!(text, "priority = {} }},", random.within(55, 63)),
        1 => writeln!(text, "priority = {priority}, rule = \"deferrable\", {times}{gate} }},"),
        2 => writeln!(text, "priority = {priority}, rule = \"polling\", {times} }},"),
        3 if number >= shape.cores => writeln!(
            text,
            "rule = \"pibs\", share = \"{}.{:04} %\", clients = [\"p{}\"] }},",
            share.min(990) / 10,
            random.within(1, 9_999),
            number % shape.cores
        ),
        4 => writeln!(
            text,
            "priority = {priority}, {times}, on_empty = \"background\", background_priority = {} }},",
            random.within(60, 63)
        ),
        _ => writeln!(
            text,
            "priority = {priority}, {times}{gate}, chunks = {}, anchor = \"{}\" }},",
            random.within(2, 16),
            if random.flip() { "eligible" } else { "dispatch" }
        ),
    };
}

fn tasks(text: &mut String, random: &mut Random, shape: &Shape) {
    let share = random.within(1, if shape.calm { 20 } else { shape.full });
    text.push_str("tasks = [\n");
    for task in 0..shape.tasks {
        let period_ns = shape.times.period_ns(random).max(64);
        let part = u128::from(share * random.within(1, 20)) / u128::from(10 * shape.partitions.min(4));
        let cost_ns = (u128::from(period_ns) * part / 1_000 / u128::from(shape.tasks)).max(1) as u64;
        let _ = writeln!(text, "  {{ name = \"t{task}\", cost = \"{cost_ns} ns\", period = \"{period_ns} ns\" }},");
    }
    text.push_str("]\n");
}
