//! What happens where `verify` is not asked: images that are broken on purpose, and how an attack lands in them.

use super::DiskFile;
use super::flight;
use super::others::is_undisturbed;
use bulkhead_abi::devices::{BootDevices, DevicePlan, STEP_EXPECT, STEP_UPDATE, STEP_WAIT};
use bulkhead_abi::status::{REASON_DEVICE_MISSING, STATE_RUNNING, STATE_STOPPED};
use bulkhead_plan::AreaKind;
use bulkhead_run::CrashReport;
use bulkhead_run::image_file::header_crc;
use bulkhead_system_tests::System;
use bulkhead_verify::{Code, Expected, Verdict};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Changes the device plan of the first partition, and makes the checksums right again.
pub(super) fn change(system: &mut System, change: impl FnOnce(&mut DevicePlan)) {
    change_area(system, AreaKind::DevicePlan(0), change);
}

/// Changes a structure of the plan.
fn change_area<T: FromBytes + IntoBytes + Immutable>(system: &mut System, kind: AreaKind, change: impl FnOnce(&mut T)) {
    let mut header = system.plan().header;
    let offset = |address: u64| usize::try_from(address - header.image_start.0).expect("it fits this host");
    let (place, plan) = (offset(system.area(kind).address.0), offset(header.plan.0));
    let header_at = offset(system.area(AreaKind::Header).address.0);
    let bytes = &mut system.image[place..place + size_of::<T>()];
    let mut changed = T::read_from_bytes(bytes).expect("it has its size");
    change(&mut changed);
    bytes.copy_from_slice(changed.as_bytes());
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
    let mut system = flight::system("reset", &disk, 60_000);
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
    // What is in flight stays there until the second instance runs, whose memory is clear by then and which watches it for a minute of its time.
    let mut running = flight::start_held(&system, 6);
    running.wait_for_status("intruder", "its second start", |status| {
        status.state == STATE_RUNNING && status.generation == 2
    });
    flight::release(&mut running);
    let line = running.line("intruder", "start 2, ");
    assert!(line.starts_with("intruder: start 2, DIRTY"), "{line}");
}

/// An SMMU that is not what the scripts expect: functions stay off and their partition is not started. The boot core says so and continues: its record is
/// no crash, and a wait for the others is not told that the machine is dead.
#[test]
fn without_its_smmu_who_has_no_function_runs() {
    let disk = DiskFile::create("another");
    let mut system = flight::system("off", &disk, 0);
    change_area::<BootDevices>(&mut system, AreaKind::BootDevices, |boot| {
        let expected = boot.steps.iter_mut().find(|step| step.operation == STEP_EXPECT && step.mask != 0);
        let step = expected.expect("the first one asks what the SMMU can");
        step.value ^= step.mask;
    });
    let mut running = flight::start(&system, 6);
    let status = running.wait_for_state("intruder", STATE_STOPPED);
    assert_eq!((status.reason, status.generation), (REASON_DEVICE_MISSING, 0));
    is_undisturbed(&mut running, 200);
    let report = CrashReport::find(running.watch()).expect("the boot core said something");
    assert!(!report.is_crash(), "{report}");
    assert!(
        report.to_string().starts_with("the boot core could not set up the SMMU and the PCI functions"),
        "{report}"
    );
}

/// What `verify` says of the image.
fn verdict(system: &System) -> Verdict {
    bulkhead_verify::verify_bytes(&system.image, &Expected::default())
}
