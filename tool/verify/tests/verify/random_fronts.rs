//! Random systems with virtio devices are planned and accepted, with each partition on cores of its own or on shared ones.

use crate::functions::{edit, verify};
use crate::random::{Link, links, shape, shared, system};
use bulkhead_plan::model::{InterruptMode, LEAST_FRONT_BYTES, System, VirtioKind};
use bulkhead_plan::samples;
use proptest::prelude::*;

/// Choices for one partition: how many devices it has, how far its back end is, whether they are disks.
type Front = (usize, usize, bool);

/// Gives devices to partitions. All of one partition have one back end.
fn with_devices(mut system: System, fronts: &[Front]) -> System {
    let count = system.partitions.len();
    for (front, (devices, step, are_disks)) in
        fronts.iter().enumerate().filter(|(front, _)| *front < count && count > 1)
    {
        let back = (front + 1 + step % (count - 1)) % count;
        for device in 0..*devices {
            let address = [2, 0, 0, 0, front as u8, device as u8];
            let kind = match are_disks {
                true => VirtioKind::Block { bytes: 512 << device, is_read_only: device == 1 },
                false => VirtioKind::Net { address },
            };
            system.virtio.push(samples::virtio_device(&format!("device{front}{device}"), kind, (front, back)));
        }
        if *devices > 0
            && let Some(partition) = system.partitions.get_mut(front)
        {
            partition.memory_bytes = partition.memory_bytes.max(LEAST_FRONT_BYTES + *step as u64 * 4096);
            partition.mode = InterruptMode::Mapped;
        }
    }
    system
}

fn is_accepted(system: &System) -> Result<(), TestCaseError> {
    // Without a device another part of the monitor is enough, which other tests have.
    prop_assume!(!system.virtio.is_empty());
    let verdict = verify(edit(system));
    prop_assert!(verdict.is_accepted(), "{:#?}", verdict.findings);
    prop_assert_eq!(verdict.extent.virtio_devices, system.virtio.len());
    Ok(())
}

fn fronts() -> impl Strategy<Value = Vec<Front>> {
    prop::collection::vec((0..=1_usize, 0..4_usize, any::<bool>()), 3..=4).prop_map(|mut fronts| {
        // One of them has two.
        if let Some(first) = fronts.first_mut() {
            first.0 *= 2;
        }
        fronts
    })
}

fn few(links: &[Link]) -> &[Link] {
    links.get(..2).unwrap_or(links)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// QV-50, QV-51 for systems nobody wrote by hand.
    #[test]
    fn random_systems_with_fronts_are_accepted(
        shapes in prop::collection::vec(shape(), 2..=4),
        links in links(),
        fronts in fronts(),
        together in any::<bool>(),
    ) {
        let mut system = with_devices(system(&shapes, few(&links), false), &fronts);
        together.then(|| samples::limit_together(&mut system, 0));
        is_accepted(&system)?;
    }

    /// The same where one core's monitor maps what several partitions need, front and back end among them.
    #[test]
    fn random_shared_systems_with_fronts_are_accepted(
        partitions in prop::collection::vec((0..3_usize, any::<bool>(), any::<bool>()), 2..=4),
        servers in prop::collection::vec((0..60_u8, 1..1_000_u64, 1..10_u64, 0..4_u8), 3..=24),
        links in links(),
        fronts in fronts(),
        together in any::<bool>(),
    ) {
        let mut system = with_devices(shared(&partitions, &servers, few(&links), false), &fronts);
        together.then(|| samples::limit_together(&mut system, 0));
        is_accepted(&system)?;
    }
}
