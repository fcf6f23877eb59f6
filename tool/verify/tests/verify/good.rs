//! Good images of several shapes are accepted.

use crate::support::verify_bytes;
use bulkhead_abi::GuestAddress;
use bulkhead_image::assemble;
use bulkhead_plan::model::{InterruptMode, PortKind, System};
use bulkhead_plan::samples;

fn accepted(what: &str, system: &System) {
    let image = assemble(system, &samples::monitor()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let verdict = verify_bytes(&image.bytes);
    assert!(verdict.is_accepted(), "{what}: {:#?}", verdict.findings);
    assert_eq!(verdict.extent.partitions, system.partitions.len());
    assert_eq!(verdict.extent.channels, system.channels.len());
}

#[test]
fn one_native_partition_is_accepted() {
    accepted("solo", &samples::system(vec![samples::native("solo", &[0])], vec![]));
}

#[test]
fn one_linux_partition_is_accepted() {
    accepted("linux", &samples::system(vec![samples::linux("linux", &[0, 1])], vec![]));
}

#[test]
fn device_trees_at_places_of_their_own_are_accepted() {
    let mut native = samples::native("native", &[0]);
    // The second half of a unit that the monitor copies.
    native.device_tree_address = Some(GuestAddress(native.guest_ram.0 + 8));
    let mut linux = samples::linux("linux", &[1]);
    linux.device_tree_address = Some(GuestAddress(linux.guest_ram.0 + (60 << 20)));
    accepted("placed trees", &samples::system(vec![native, linux], vec![]));
}

#[test]
fn demo_is_accepted() {
    accepted("demo", &samples::demo());
}

#[test]
fn shared_cores_are_accepted() {
    accepted("two on one core", &samples::shared());
    accepted("one core of each kind", &samples::shared_cores());
    accepted("one of two vCPUs on a shared core", &samples::siblings());
    let mut alone = samples::system(vec![samples::native("alone", &[0])], vec![]);
    alone.partitions[0].servers = vec![samples::sporadic(3, 1_000_000, 10_000_000)];
    alone.schedules = samples::shared().schedules;
    accepted("one vCPU with a budget", &alone);
}

#[test]
fn large_ram_and_eight_cores_are_accepted() {
    let mut big = samples::native("big", &[0]);
    big.memory_bytes = 1 << 30;
    let partitions = vec![big, samples::native("wide", &[1, 2, 3, 4, 5, 6, 7])];
    accepted("big", &samples::system(partitions, vec![samples::channel("one", 0, 1, PortKind::Sampling, 4032)]));
}

#[test]
fn direct_partition_with_devices_is_accepted() {
    let mut direct = samples::native("direct", &[0]);
    direct.mode = InterruptMode::Direct;
    direct.devices = vec![0, 1, 2];
    direct.device_routes = vec![bulkhead_plan::model::Route::default(); 3];
    accepted("direct", &samples::system(vec![direct], vec![]));
}
