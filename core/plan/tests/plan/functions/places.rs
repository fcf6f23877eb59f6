//! Where base address registers point.

use super::planned;
use bulkhead_plan::model::System;
use bulkhead_plan::{Plan, samples};

/// Each register has pages of its own, aligned to its size, in the window of its bus and, if it is seen, in that of guests.
pub(super) fn are_apart(system: &System, plan: &Plan) {
    let host = system.board.pci.as_ref().unwrap();
    let mut physical: Vec<(u64, u64, u32)> = Vec::new();
    for (index, function) in system.functions.iter().enumerate() {
        let bars = plan.places.of(index).into_iter().zip(host.models[function.model].bars);
        for (place, model) in bars {
            let is_memory = model.bytes != 0 && !model.is_ports;
            assert_eq!(place.bytes, if is_memory { model.bytes } else { 0 });
            assert_eq!(place.guest.0 != 0, is_memory && model.bytes >= 4096 && !model.is_messages);
            if is_memory {
                assert!(place.physical.0.is_multiple_of(place.bytes.max(4096)));
                physical.push((place.physical.0, place.physical.0 + place.bytes.max(4096), function.bus));
            }
        }
    }
    physical.sort_unstable();
    assert!(physical.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{physical:x?}");
    for (start, end, bus) in physical {
        assert!(host.window.start.0 <= start && end <= host.window.end());
        let is_passed = plan.places.bridge.is_some_and(|window| window.start.0 < end && start < window.end());
        assert_eq!(is_passed, bus == 1, "{start:#x}");
    }
    if let Some(window) = plan.places.bridge {
        assert!((window.start.0 | window.bytes).is_multiple_of(1 << 20));
    }
    for partition in 0..system.partitions.len() {
        let own = (0..system.functions.len()).filter(|index| system.functions[*index].partition == partition);
        let seen = own.flat_map(|index| plan.places.of(index)).filter(|place| place.guest.0 != 0);
        let mut guest: Vec<(u64, u64)> = seen.map(|place| (place.guest.0, place.guest.0 + place.bytes)).collect();
        guest.sort_unstable();
        assert!(guest.iter().all(|(start, end)| start.is_multiple_of(end - start)));
        assert!(guest.iter().all(|(start, end)| 0x2800_0000 <= *start && *end <= 0x3000_0000));
        assert!(guest.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}

/// The largest first; what is behind the root port in a window of its own.
#[test]
fn the_sample_has_these_places() {
    let plan = planned(&samples::functions());
    let found: Vec<Vec<(usize, u64, u64, u64)>> = (0..5)
        .map(|index| {
            let used = plan.places.of(index).into_iter().enumerate().filter(|(_, bar)| bar.bytes != 0);
            used.map(|(register, bar)| (register, bar.guest.0, bar.physical.0, bar.bytes)).collect()
        })
        .collect();
    let expected = [
        vec![(1, 0, 0x1010_c000, 0x1000), (4, 0x2800_0000, 0x1010_0000, 0x4000)],
        vec![(0, 0x2800_0000, 0x1000_0000, 1 << 20), (3, 0, 0x1010_e000, 0x100)],
        vec![(1, 0, 0x1010_d000, 0x1000), (4, 0x2800_4000, 0x1010_4000, 0x4000)],
        vec![(0, 0x2810_0000, 0x1010_8000, 0x4000)],
        vec![(1, 0, 0x1020_4000, 0x1000), (4, 0x2800_0000, 0x1020_0000, 0x4000)],
    ];
    assert_eq!(found, expected, "disk, copier, net, store, far");
    let window = plan.places.bridge.unwrap();
    assert_eq!((window.start.0, window.bytes), (0x1020_0000, 1 << 20));
}
