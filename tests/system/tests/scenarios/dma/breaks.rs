//! What happens where `verify` is not asked: images that are broken on purpose, and how an attack lands in them.

use super::DiskFile;
use super::flight::{self, STARTS};
use bulkhead_abi::devices::{DevicePlan, STEP_UPDATE, STEP_WAIT};
use bulkhead_plan::AreaKind;
use bulkhead_run::image_file::header_crc;
use bulkhead_system_tests::System;
use bulkhead_verify::{Code, Expected, Verdict};
use zerocopy::{FromBytes, IntoBytes};

/// Changes the device plan of the first partition, and makes the checksums right again.
pub(super) fn change(system: &mut System, change: impl FnOnce(&mut DevicePlan)) {
    let mut header = system.plan().header;
    let offset = |address: u64| usize::try_from(address - header.image_start.0).expect("it fits this host");
    let (place, plan) = (offset(system.area(AreaKind::DevicePlan(0)).address.0), offset(header.plan.0));
    let header_at = offset(system.area(AreaKind::Header).address.0);
    let bytes = &mut system.image[place..place + size_of::<DevicePlan>()];
    let mut devices = DevicePlan::read_from_bytes(bytes).expect("it has its size");
    change(&mut devices);
    bytes.copy_from_slice(devices.as_bytes());
    header.plan_crc = crc32c::crc32c(&system.image[plan..plan + usize::try_from(header.plan_bytes).expect("it fits")]);
    header.header_crc = header_crc(&header);
    let bytes = header.as_bytes();
    system.image[header_at..header_at + bytes.len()].copy_from_slice(bytes);
}

/// The reset left out of the script: mastering is off, but a read that a disk has begun is written to memory all the same, which is its
/// successor's by now. With nothing left out the same system is clean (`flight.rs`).
#[test]
fn without_the_reset_what_is_in_flight_lands() {
    let disk = DiskFile::create("broken");
    let mut system = flight::system("reset", &disk, 3000);
    assert!(!verdict(&system).has(Code::DeviceScript));
    change(&mut system, |plan| {
        let silence = plan.silence_count as usize;
        let is_reset = |(place, step): &(usize, bulkhead_abi::devices::Step)| {
            *place >= silence && (matches!(step.operation, STEP_WAIT | STEP_UPDATE) || step.width == 1)
        };
        let steps: Vec<_> = plan.quiesce().iter().copied().enumerate().filter(|one| !is_reset(one)).collect();
        assert_eq!(plan.step_count as usize - steps.len(), 5, "three steps of the controller, two of the disk");
        plan.quiesce.fill(Default::default());
        plan.quiesce.iter_mut().zip(&steps).for_each(|(place, (_, step))| *place = *step);
        plan.step_count = u32::try_from(steps.len()).expect("few");
    });
    assert!(verdict(&system).has(Code::DeviceScript));
    let mut running = flight::start(&system, 6);
    let line = running.line("intruder", "DIRTY");
    assert!((2..=STARTS).any(|start| line.starts_with(&format!("intruder: start {start}, DIRTY"))), "{line}");
}

/// What `verify` says of the image.
fn verdict(system: &System) -> Verdict {
    bulkhead_verify::verify_bytes(&system.image, &Expected::default())
}
