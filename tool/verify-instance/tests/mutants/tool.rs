//! The same corruptions through `bulkhead verify`: in a partition of a system, and as a file for the bare board.

use crate::ports::port;
use crate::sample::{Mutant, expected, sample, sender};
use crate::scheduled;
use crate::{CORRUPTIONS, Kind, wire};
use bulkhead_abi::GuestAddress;
use bulkhead_image::assemble;
use bulkhead_kernel_abi::boot::{ExportRow, WireRow};
use bulkhead_kernel_abi::image::LOAD;
use bulkhead_plan::model::{GuestImage, Route, System};
use bulkhead_plan::samples;
use bulkhead_verify::instance::{code_of, verify_instance};
use bulkhead_verify::{Code, Expected, Monitor, Verdict, verify_bytes};
use std::collections::BTreeSet;

/// What it shows, the place, and the changes of the instance and of the system.
type Change = (&'static str, usize, fn(&mut Mutant), fn(&mut System));

/// A system of which the first partition has these bytes as its guest.
pub(crate) fn system(bytes: Vec<u8>) -> System {
    let mut system = samples::demo();
    let (components, servers) = (Vec::new(), Vec::new());
    (system.partitions[0].devices, system.partitions[0].device_routes) = (vec![1], vec![Route::default()]);
    system.partitions[0].image = GuestImage::Kernel { bytes, load: GuestAddress(LOAD), components, servers };
    system
}

/// The verdict on its image.
fn judge(bytes: Vec<u8>) -> Verdict {
    let monitor = samples::monitor();
    let image = assemble(&system(bytes), &monitor).unwrap_or_else(|error| panic!("{error}"));
    let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
    verify_bytes(&image.bytes, &expected)
}

#[test]
fn an_instance_in_a_partition_is_accepted_and_counted() {
    let verdict = judge(sample());
    assert_eq!(verdict.findings, []);
    assert_eq!((verdict.extent.instances, verdict.extent.components), (1, 3));
    let alone = verify_instance(&sample(), Some(&expected()));
    assert_eq!((alone.findings.as_slice(), alone.extent.components), (&[][..], 3));
}

/// Without a kernel to compare with nothing is claimed.
#[test]
fn an_unknown_kernel_is_refused() {
    let monitor = samples::monitor();
    let image = assemble(&system(sample()), &monitor).unwrap_or_else(|error| panic!("{error}"));
    let verdict = verify_bytes(&image.bytes, &Expected::only(Monitor::new(&monitor.text, &monitor.rodata)));
    assert_eq!(verdict.findings.iter().map(|one| one.code).collect::<Vec<_>>(), [Code::NoKernel]);
    assert!(verify_instance(&sample(), None).has(Code::NoKernel));
}

/// A partition whose guest is no instance has none of its findings.
#[test]
fn another_guest_is_no_instance() {
    let monitor = samples::monitor();
    let image = assemble(&samples::demo(), &monitor).unwrap_or_else(|error| panic!("{error}"));
    let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
    let verdict = verify_bytes(&image.bytes, &expected);
    assert_eq!((verdict.findings.as_slice(), verdict.extent.instances), (&[][..], 0));
}

/// CH-61: what the reader refuses, the tool refuses, with its code, wherever the instance is.
#[test]
fn each_corruption_is_refused_by_the_tool() {
    // Of ports a few: the bytes are judged by the reader, and each takes an image of its own.
    let of_ports = crate::ports::CORRUPTIONS.iter().step_by(8);
    let of_data = crate::data::CORRUPTIONS.iter().step_by(8);
    for (name, kind, change) in CORRUPTIONS.iter().chain(crate::processes::CORRUPTIONS).chain(of_ports).chain(of_data) {
        let mut mutant = Mutant(sample());
        change(&mut mutant);
        let bytes = if *kind == Kind::Image { mutant.0 } else { mutant.sealed().0 };
        let code = code_of(*kind);
        let alone = verify_instance(&bytes, Some(&expected()));
        assert!(alone.has(code), "{name}: {:?}", alone.findings);
        let inside = judge(bytes);
        assert!(inside.has(code), "{name} in a partition: {:?}", inside.findings);
        assert_eq!(inside.extent.instances, 1, "{name}");
        assert!(inside.findings.iter().all(|one| one.message.starts_with("partition \"control\": ")), "{name}");
    }
}

#[test]
fn a_byte_that_was_changed_on_the_way_is_a_wrong_checksum() {
    let mut bytes = sample();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(verify_instance(&bytes, Some(&expected())).has(Code::InstanceChecksum));
    assert!(judge(bytes).has(Code::InstanceChecksum));
}

/// What a component has of devices is the partition's: the same bytes in another partition are refused, for the registers and for the interrupt.
#[test]
fn what_the_partition_has_not_no_component_has() {
    let monitor = samples::monitor();
    let mut other = system(sample());
    (other.partitions[0].devices, other.partitions[0].device_routes) = (Vec::new(), Vec::new());
    let image = assemble(&other, &monitor).unwrap_or_else(|error| panic!("{error}"));
    let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
    let verdict = verify_bytes(&image.bytes, &expected);
    let found: Vec<_> = verdict.findings.iter().map(|one| (one.code, one.message.as_str())).collect();
    let place = "partition \"control\": ";
    let device = format!("{place}component `first` has the device `gpio`, which the partition has not");
    let interrupt = format!("{place}a component has the interrupt 39, which the partition has not");
    assert_eq!(found, [(Code::InstanceForeign, device.as_str()), (Code::InstanceForeign, interrupt.as_str())]);
}

/// CH-39: a wire is an end of a channel of its partition, and what is sent by it is what the other instance exports.
#[test]
fn both_ends_of_a_wire_fit() {
    let found = |partition: usize, change: fn(&mut Mutant), image: fn(&mut System)| {
        let mut system = system(sample());
        let sender = GuestImage::Kernel {
            bytes: sender(),
            load: GuestAddress(LOAD),
            components: Vec::new(),
            servers: Vec::new(),
        };
        (system.partitions[1].devices, system.partitions[1].device_routes) = (vec![2], vec![Route::default()]);
        system.partitions[1].image = sender;
        image(&mut system);
        if let GuestImage::Kernel { bytes, .. } = &mut system.partitions[partition].image {
            let mut mutant = Mutant(core::mem::take(bytes));
            change(&mut mutant);
            *bytes = mutant.sealed().0;
        }
        let monitor = samples::monitor();
        let image = assemble(&system, &monitor).unwrap_or_else(|error| panic!("{error}"));
        let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
        let findings = verify_bytes(&image.bytes, &expected).findings.into_iter();
        // The other partition has not the sample's device.
        let ends = findings.filter(|one| one.code != Code::InstanceForeign);
        ends.map(|one| (one.code, one.message)).collect::<Vec<_>>()
    };
    let nothing: fn(&mut Mutant) = |_| ();
    assert_eq!(found(1, nothing, |_| ()), []);
    let changes: [Change; 5] = [
        (
            "partition \"rtos\": wire 0 sends [7], and the other end takes Some([3])",
            1,
            |mutant| bits(mutant, 0b111),
            |_| (),
        ),
        (
            "partition \"rtos\": wire 0 sends [3], and the other end takes Some([1])",
            0,
            |mutant| bits(mutant, 0b01),
            |_| (),
        ),
        ("partition \"rtos\": wire 0 sends [3], and the other end takes None", 1, nothing, |system| {
            system.partitions[0].image = samples::demo().partitions[0].image.clone()
        }),
        (
            "partition \"control\": wire 0 is at 0x10120000, where the partition has no such end of a channel with this doorbell",
            0,
            |mutant| wire(mutant, |row| row.intid = 81),
            |_| (),
        ),
        (
            "partition \"rtos\": wire 0 is at 0x10100000, where the partition has no such end of a channel with this doorbell",
            1,
            |mutant| wire(mutant, |row| row.doorbell = 1),
            |_| (),
        ),
    ];
    for (message, partition, change, image) in changes {
        let found = found(partition, change, image);
        assert!(found.iter().any(|one| *one == (Code::InstanceWireEnds, message.to_owned())), "{found:?}");
    }
}

/// QV-50: a port of a component is one of its partition's, with its shape, its direction and its doorbell.
#[test]
fn a_port_is_the_partitions() {
    let found = |change: fn(&mut Mutant), image: fn(&mut System)| {
        let mut mutant = Mutant(sample());
        change(&mut mutant);
        let mut system = system(mutant.sealed().0);
        image(&mut system);
        let monitor = samples::monitor();
        let image = assemble(&system, &monitor).unwrap_or_else(|error| panic!("{error}"));
        let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata)).with_kernel(expected());
        verify_bytes(&image.bytes, &expected).findings
    };
    let said = |port: &str, place: u64| {
        format!(
            "partition \"control\": component `third` has the port `{port}` at {place:#x}, where the partition has no such end of a channel with this doorbell"
        )
    };
    let (telemetry, orders) = (said("telemetry", 0x1010_0000), said("orders", 0x1011_0000));
    let nothing: fn(&mut Mutant) = |_| ();
    assert_eq!(found(nothing, |_| ()), []);
    type Change<'a> = (&'a str, &'a String, fn(&mut Mutant), fn(&mut System));
    let changes: [Change<'_>; 4] = [
        ("values of another size", &telemetry, nothing, |system| system.channels[0].message_bytes = 48),
        ("messages of another size", &orders, nothing, |system| system.channels[1].message_bytes = 199),
        ("the doorbell of another channel", &telemetry, |mutant| doorbell(mutant, 1), |_| ()),
        ("an interrupt that nobody raises", &orders, |mutant| port(mutant, 1, |row| row.intid = 82), |_| ()),
    ];
    for (what, message, change, image) in changes {
        let found = found(change, image);
        let is_said = found.iter().any(|one| (one.code, &one.message) == (Code::InstancePortEnds, message));
        assert!(is_said, "{what}: {found:?}");
    }
}

/// Lets the wire that only rings ring another doorbell.
fn doorbell(mutant: &mut Mutant, doorbell: u32) {
    let (place, mut row) = mutant.row::<WireRow>(mutant.tables().wires.offset, 1);
    row.doorbell = doorbell;
    mutant.put(place, &row);
}

fn bits(mutant: &mut Mutant, bits: u64) {
    let (place, mut row) = mutant.row::<ExportRow>(mutant.tables().exports.offset, 0);
    row.bits = bits;
    mutant.put(place, &row);
}

/// Codes that the tests above show beside those of the corruptions, and those of [`crate::dma`] and [`crate::start`].
const OTHERS: [Code; 7] = [
    Code::NoKernel,
    Code::InstanceChecksum,
    Code::InstanceForeign,
    Code::InstanceWireEnds,
    Code::InstancePortEnds,
    Code::InstanceStreams,
    Code::InstanceStart,
];

#[test]
fn every_code_of_instances_has_a_mutant() {
    let all = CORRUPTIONS
        .iter()
        .chain(scheduled::CORRUPTIONS)
        .chain(crate::processes::CORRUPTIONS)
        .chain(crate::ports::CORRUPTIONS)
        .chain(crate::data::CORRUPTIONS)
        .chain(crate::accounts::CORRUPTIONS);
    let shown: BTreeSet<Code> = all.map(|(_, kind, _)| code_of(*kind)).chain(OTHERS).collect();
    let all: BTreeSet<Code> = Code::ALL.iter().copied().filter(|code| code.name().starts_with("V4")).collect();
    assert_eq!(shown, all);
}
