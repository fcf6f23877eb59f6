//! PCI functions of a description: places, interrupt lines, what DMA reaches, and what is behind them on the host.

mod support;

use bulkhead_description::host::{Disk, Forward, HostSide};
use bulkhead_description::{Loaded, load_text_unchecked, load_unchecked};
use bulkhead_plan::model::{DeviceEvents, PciFunction, PciReset, Reach};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

const GOOD: &str = "tests/good/functions.toml";

fn good() -> Loaded {
    load_unchecked(Path::new(GOOD), &support::options()).unwrap_or_else(|report| panic!("{}", report.to_text(false)))
}

/// Everything of the partition, or these of its pages, next to each other as one; lines as the board wires them.
#[test]
fn functions_are_resolved() {
    let system = good().system;
    let host = system.board.pci.as_ref().expect("a host bridge");
    assert_eq!((host.buses, host.first_interrupt, host.root_port, host.reset_delay_ticks), (2, 35, Some(16), 0));
    let place = |one: &PciFunction| (one.name.clone(), one.partition, one.bus, one.device, one.interrupt);
    let places: Vec<_> = system.functions.iter().map(place).collect();
    let expected = [
        // Each partition has a line; `linux` has the one that is left too.
        ("disk", 0, 0, 1, 36),
        ("web", 0, 0, 2, 37),
        ("inside", 0, 0, 5, 36),
        ("random", 1, 0, 3, 38),
        ("other", 1, 0, 7, 38),
        ("mirror", 1, 0, 11, 38),
        // The line of the root port's slot.
        ("teaching", 2, 0, 4, 35),
        ("flr", 2, 1, 0, 35),
    ];
    let expected = expected.map(|(name, partition, bus, slot, line)| (name.to_owned(), partition, bus, slot, line));
    assert_eq!(places, expected);
    assert_eq!(system.functions.last().map(PciFunction::stream), Some(0x100));
    let events = system.partitions.iter().map(|partition| partition.device_events).collect::<Vec<_>>();
    let none = DeviceEvents::default();
    assert_eq!(events, [none, DeviceEvents { look_ns: Some(10_000_000), are_faults: true }, none]);
    let models: Vec<_> = system.functions.iter().map(|one| &host.models[one.model]).collect();
    assert_eq!(models[0].reset, PciReset::Virtio { bar: 4, offset: 0x14 });
    assert_eq!((models[5].reset, models[6].reset), (PciReset::FunctionLevel { capability: 0x80 }, PciReset::None));
    assert_eq!(models[7].reset, PciReset::FunctionLevel { capability: 0x40 });
    let Reach::Regions(banks) = &system.functions[2].reach else { panic!("{:?}", system.functions[2].reach) };
    let banks: Vec<_> = banks.iter().map(|bank| (bank.start.0, bank.bytes)).collect();
    assert_eq!(banks, [(0x4010_0000, 0x3000), (0x4020_0000, 0x1000)]);
    assert!(system.functions.iter().enumerate().all(|(index, one)| index == 2 || one.reach == Reach::Partition));
}

#[test]
fn check_counts_functions() {
    let summary = bulkhead_description::command::summary(&good());
    assert_eq!(
        summary,
        "functions: accepted: 3 partitions on 3 of 8 cores of qemu-virt, 0 channels, 8 PCI functions\n"
    );
}

#[test]
fn what_is_behind_functions_is_kept_beside_the_system() {
    let disk = support::options().guests.expect("a directory").join("disk.img");
    let disk = HostSide::Disk(Disk { file: disk, read_only: true });
    let forward = |last, guest_port| Forward { address: Ipv4Addr::new(127, 0, 0, last), port: 8080, guest_port };
    let hub = HostSide::Hub("inside".to_owned());
    let expected = [
        disk.clone(),
        HostSide::Ports(vec![forward(1, 80), forward(2, 81)]),
        hub.clone(),
        HostSide::Nothing,
        hub,
        disk,
        HostSide::Nothing,
        HostSide::Ports(Vec::new()),
    ];
    assert_eq!(good().host, expected);
}

/// However many functions four partitions have, each line has one owner and each slot one function, and none that fits is refused.
#[test]
fn every_line_has_one_owner() {
    let mut arrangements = 0;
    for code in 0..81_u32 {
        let counts: Vec<u32> = (0..4).map(|index| [0, 1, 3][(code / 3_u32.pow(index) % 3) as usize]).collect();
        let mut text = String::from("version = 1\nname = \"s\"\nboard = \"qemu-virt\"\nmemory = \"64 MiB\"\n");
        for (index, count) in counts.iter().enumerate() {
            let image = "image = { kind = \"raw\", file = \"guest:tiny.bin\" }";
            writeln!(text, "[[partition]]\nname = \"p{index}\"\ncores = [{index}]\nmemory = \"1 MiB\"\n{image}")
                .expect("text");
            for number in 0..*count {
                let table = "[[pci]]\nmodel = \"virtio-rng\"";
                writeln!(text, "{table}\nname = \"f{index}-{number}\"\npartition = \"p{index}\"").expect("text");
            }
        }
        let loaded = load_text_unchecked(Path::new(GOOD), &text, &support::options())
            .unwrap_or_else(|report| panic!("{counts:?}: {}", report.to_text(false)));
        let functions = loaded.system.functions;
        let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
        for one in &functions {
            assert_eq!(*owners.entry(one.interrupt).or_insert(one.partition), one.partition, "{counts:?}");
            assert_eq!(one.interrupt, 35 + one.device % 4, "{counts:?}");
        }
        let places: BTreeSet<_> = functions.iter().map(PciFunction::stream).collect();
        assert_eq!(places.len() as u32, counts.iter().sum::<u32>(), "{counts:?}");
        // Functions share a line when all lines have owners, and not before.
        let shared = functions.len() > owners.len();
        assert!(!shared || owners.len() == 4, "{counts:?}: {owners:?}");
        arrangements += 1;
    }
    assert_eq!(arrangements, 81);
}
