//! Damaged descriptions and board files never make the checker panic, and what it accepts it can lay out.
//!
//! A stable stand-in for fuzzing: the same seeds give the same texts on every machine, so a failure can be repeated. Each
//! text is a good fixture with a few random changes of the kinds that people and editors make.

#[path = "support/attack.rs"]
mod attack;
#[path = "../../../core/sched/tests/support/random.rs"]
mod random;
mod support;

use bulkhead_description::Options;
use random::Random;
use std::path::{Path, PathBuf};

/// Mutants of boards.
const MEAN_BOARDS: u64 = 400;

/// Things that replace a value or are put in between.
const PIECES: &[&str] = &[
    "0",
    "-1",
    "1",
    "18446744073709551615",
    "9223372036854775807",
    "0xffff_ffff_ffff_f000",
    "0x7fff_ffff_ffff_ffff",
    "\"\"",
    "\"0 B\"",
    "\"1 B\"",
    "\"4 KiB\"",
    "\"16777215 GiB\"",
    "\"999999 GiB\"",
    "\"9999999999 s\"",
    "\"é\"",
    "\"a.b.c\"",
    "\".\"",
    "\"guest:\"",
    "\"guest:../../..\"",
    "\"/\"",
    "true",
    "false",
    "[]",
    "{}",
    "[[]]",
    "nan",
    "1979-05-27",
    "\"linux\"",
    "\"elf\"",
    "\"raw\"",
    "\"direct\"",
    "\"restart\"",
    "\"queuing\"",
    "\"guest:Image\"",
    "\"guest:tiny.elf\"",
    "\"guest:extra.dtbo\"",
    "\u{feff}",
    "\0",
    "\n[[partition]]\n",
    "\n[[channel]]\n",
    "\"boards/x.toml\"",
    "\"qemu-virt\"",
    "\n[[schedule]]\n",
    "\"control\"",
    "\"pibs\"",
    "\"sporadic\"",
    "\"cyclic\"",
    "\"round-robin\"",
    "\"5 %\"",
    "\"99.9999 %\"",
    "\"0 ns\"",
    "\"1 ns\"",
    "63",
];

/// Changes a text at a random place.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = random.index(lines.len());
    let piece = PIECES[random.index(PIECES.len())];
    match random.index(7) {
        0 => drop(lines.remove(line)),
        1 => lines.insert(line, lines[random.index(lines.len())].clone()),
        2 | 3 => {
            if let Some((key, _)) = lines[line].clone().split_once('=') {
                lines[line] = format!("{key}= {piece}");
            }
        }
        4 => {
            let place = char_boundary(&lines[line], random);
            lines[line].insert_str(place, piece);
        }
        5 => {
            let place = char_boundary(&lines[line], random);
            lines[line].truncate(place);
        }
        _ => {
            // A digit becomes another one: addresses, sizes, cores.
            let changed = lines[line].chars().map(|letter| {
                if letter.is_ascii_digit() && random.index(3) == 0 {
                    char::from(b'0' + (random.next() % 10) as u8)
                } else {
                    letter
                }
            });
            lines[line] = changed.collect();
        }
    }
    lines.join("\n")
}

fn char_boundary(line: &str, random: &mut Random) -> usize {
    let mut place = random.index(line.len() + 1);
    while !line.is_char_boundary(place) {
        place -= 1;
    }
    place
}

#[test]
fn damaged_descriptions_never_panic() {
    let options = support::options();
    let (mut accepted, mut refused) = (0, 0);
    for (number, name) in [
        "tests/good/everything.toml",
        "tests/good/smallest.toml",
        "tests/bad/page-shared-by-partitions.toml",
        "tests/good/shared-cores.toml",
    ]
    .into_iter()
    .enumerate()
    {
        let good = std::fs::read_to_string(name).expect("a fixture can be read");
        for seed in 0..600 {
            let mut random = Random(seed * 31 + number as u64);
            let mut text = good.clone();
            for _ in 0..=random.index(3) {
                text = mutate(&text, &mut random);
            }
            if attack::description(Path::new(name), &text, &options) {
                accepted += 1;
            } else {
                refused += 1;
            }
        }
    }
    assert!(
        accepted > 100 && refused > 400,
        "the changes are no mixture any more: {accepted} accepted, {refused} refused"
    );
}

/// What is accepted of an instance is one that the independent reader takes as well.
#[test]
fn damaged_instances_never_panic_and_what_is_accepted_is_sound() {
    let options = support::options();
    let (mut accepted, mut refused) = (0, 0);
    for (number, name) in ["everything", "servers", "io"].into_iter().enumerate() {
        let path = PathBuf::from(format!("tests/kernels/good/{name}.kernel.toml"));
        let good = std::fs::read_to_string(&path).expect("a fixture can be read");
        for seed in 0..600 {
            let mut random = Random(seed * 37 + number as u64);
            let mut text = good.clone();
            for _ in 0..=random.index(3) {
                text = mutate(&text, &mut random);
            }
            match bulkhead_description::kernel::load_native_text(&path, &text, &options) {
                Ok(laid) => {
                    assert_eq!(
                        bulkhead_verify_instance::verify(&laid.bytes, &support::kernel::expected_kernel()),
                        [],
                        "{text}"
                    );
                    accepted += 1;
                }
                Err(report) => {
                    assert!(
                        report.has_errors() && !report.to_text(false).is_empty(),
                        "refused without a reason: {text}"
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > 100 && refused > 300, "no mixture any more: {accepted} accepted, {refused} refused");
}

#[test]
fn damaged_board_files_never_panic() {
    let options = support::options();
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("boards-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the test directory can be made");
    let description = std::fs::read_to_string("tests/good/smallest.toml")
        .expect("a fixture can be read")
        .replace("\"qemu-virt\"", "\"board.toml\"");
    let good = include_str!("../../../boards/qemu-virt.toml");
    let mut refused = 0;
    for seed in 0..400 {
        let mut random = Random(seed + 1_000_000);
        let text = mutate(&mutate(good, &mut random), &mut random);
        std::fs::write(directory.join("board.toml"), text).expect("a board file can be written");
        refused += usize::from(!attack::description(&directory.join("system.toml"), &description, &options));
    }
    assert!(refused > 50, "the changes do nothing any more: {refused} refused");
}

/// Numbers at the extremes of their types and of what a board can have.
const MEAN: &[&str] = &[
    "0",
    "1",
    "2",
    "31",
    "33",
    "48",
    "99",
    "988",
    "1019",
    "1020",
    "0xfff",
    "0x1000",
    "0x1_0000",
    "0x20_0000",
    "0x7fff_ffff",
    "0xffff_ffff",
    "0x1_0000_0000",
    "0xfff_ffff_f000",
    "0xf_ffff_ffff_f000",
    "0x7fff_ffff_ffff_f000",
    "0x7fff_ffff_ffff_ffff",
];
const MEAN_SIZES: &[&str] =
    &["0 B", "1 B", "4095 B", "4 KiB", "64 KiB", "2 MiB", "1 TiB", "8388607 TiB", "17179869183 GiB"];

/// The numbers and the sizes of a text, by their places in it.
fn values(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut values = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let code = if line.starts_with('#') { "" } else { line };
        for (place, piece) in code.split([' ', '=', ',', '[', ']', '{', '}', '\n']).scan(0, |place, piece| {
            let here = *place;
            *place += piece.len() + 1;
            Some((here, piece))
        }) {
            let quote = usize::from(piece.starts_with('"'));
            if piece[quote..].starts_with(|first: char| first.is_ascii_digit()) {
                values.push(start + place + quote..start + place + piece.len());
            }
        }
        start += line.len();
    }
    values
}

#[test]
fn boards_with_mean_numbers_are_answered() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("mean-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the test directory can be made");
    let board = directory.join("board.toml");
    let options = Options { board: Some(board.display().to_string()), ..support::options() };
    let description = std::fs::read_to_string("tests/good/smallest.toml").expect("a fixture can be read");
    let files = [include_str!("../../../boards/qemu-virt.toml"), include_str!("../../../boards/xlnx-versal-virt.toml")];
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..MEAN_BOARDS {
        let mut random = Random(seed + 3_000_000);
        let mut text = files[random.index(files.len())].to_owned();
        for _ in 0..=random.index(3) {
            let values = values(&text);
            let place = values[random.index(values.len())].clone();
            let is_size = text[..place.start].ends_with('"');
            // A size is a number and a unit.
            let (place, list) = if is_size {
                let end = place.start + text[place.start..].find('"').expect("a text ends");
                (place.start..end, MEAN_SIZES)
            } else {
                (place, MEAN)
            };
            text.replace_range(place, list[random.index(list.len())]);
        }
        std::fs::write(&board, &text).expect("a board file can be written");
        if attack::description(Path::new("tests/good/smallest.toml"), &description, &options) {
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(accepted > 20 && refused > 100, "no mixture any more: {accepted} accepted, {refused} refused");
}

#[test]
fn damaged_guest_files_never_panic() {
    let good = support::options().guests.expect("a directory of guests");
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("damaged-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the test directory can be made");
    let options = Options { guests: Some(directory.clone()), board: None };
    let text = std::fs::read_to_string("tests/good/everything.toml").expect("a fixture can be read");
    let names = ["tiny.elf", "Image", "extra.dtbo", "tiny.bin"];
    let mut refused = 0;
    for seed in 0..120 {
        let mut random = Random(seed + 2_000_000);
        let victim = names[random.index(3)];
        for name in names {
            let mut bytes = std::fs::read(good.join(name)).expect("a guest file can be read");
            if name == victim {
                damage(&mut bytes, &mut random);
            }
            std::fs::write(directory.join(name), bytes).expect("a guest file can be written");
        }
        refused += usize::from(!attack::description(Path::new("tests/good/everything.toml"), &text, &options));
    }
    assert!(refused > 30, "the damage does nothing any more: {refused} refused");
}

/// Changes some bytes where headers are, or cuts the file.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if random.index(8) == 0 {
        bytes.truncate(random.index(bytes.len()));
        return;
    }
    let header_bytes = bytes.len().min(256);
    for _ in 0..=random.index(3) {
        let place = random.index(header_bytes);
        bytes[place] = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.index(6)];
    }
}
