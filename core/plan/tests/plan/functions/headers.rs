//! What guests read of configuration space.

use super::planned;
use bulkhead_abi::devices::{Bar, HEADER_WORDS, MAX_BARS};
use bulkhead_abi::{GuestAddress, PhysicalAddress};
use bulkhead_plan::devices::{bars, header};
use bulkhead_plan::model::{ModelBar, PciModel};
use bulkhead_plan::samples;
use proptest::prelude::*;

fn header_of(partition: usize, function: usize) -> [u32; HEADER_WORDS] {
    planned(&samples::functions()).partitions[partition].devices.unwrap().functions[function].header
}

fn used(header: [u32; HEADER_WORDS]) -> Vec<(usize, u32)> {
    header.into_iter().enumerate().filter(|(_, word)| *word != 0).collect()
}

/// QV-13: the four structures of virtio, and neither its access window at 0x84 nor MSI-X at 0x98.
#[test]
fn a_virtio_function_shows_its_structures_alone() {
    let expected = [
        (0, 0x1042_1af4),
        (1, 0x0010_0000),
        (2, 0x0100_0001),
        (8, 0x2800_000c),
        (11, 0x1100_1af4),
        (13, 0x70),
        (15, 0x100),
        (16, 0x0110_0009),
        (17, 4),
        (19, 0x1000),
        (20, 0x0310_4009),
        (21, 4),
        (22, 0x1000),
        (23, 0x1000),
        (24, 0x0410_5009),
        (25, 4),
        (26, 0x2000),
        (27, 0x1000),
        (28, 0x0214_6009),
        (29, 4),
        (30, 0x3000),
        (31, 0x1000),
        (32, 4),
    ];
    assert_eq!(used(header_of(1, 3)), expected, "behind management and two channels");
}

/// Registers in a wide BAR, MSI-X, PCI Express and power management: none of these capabilities is there, so there is no list.
#[test]
fn a_function_without_vendors_capabilities_has_no_list() {
    let nvme = [(0, 0x0010_1b36), (2, 0x0108_0201), (4, 0x2810_0004), (11, 0x1100_1af4), (15, 0x100)];
    assert_eq!(used(header_of(0, 1)), nvme);
    let edu = [(0, 0x11e8_1234), (2, 0xff00_0001), (4, 0x2800_0000), (11, 0x1100_1af4), (15, 0x100)];
    assert_eq!(used(header_of(0, 0)), edu, "no ports, nothing of less than a page, no MSI");
}

/// The NVMe controller's tables of messages are in the third and fourth page of its registers: a guest reaches the first two.
#[test]
fn tables_of_messages_are_on_no_page_of_a_guest() {
    let host = samples::pci_host();
    assert_eq!(bars::reached(&host.models[2], 0, 0x4000), [(0, 0x2000)]);
    assert_eq!(bars::reached(&host.models[0], 4, 0x4000), [(0, 0x4000)], "virtio's are behind another register");
    let mut model = host.models[2].clone();
    // 2,048 vectors from 0x1000 on: eight pages; their pending bits in the last page but one.
    model.configuration[0x40 / 4] = 0x07ff_8011;
    model.configuration[0x44 / 4] = 0x1000;
    model.configuration[0x48 / 4] = 0xe000;
    assert_eq!(bars::reached(&model, 0, 0x1_0000), [(0, 0x1000), (0x9000, 0x5000), (0xf000, 0x1000)]);
}

#[test]
fn what_lies_where_a_guest_sees_nothing_is_left_out() {
    let mut model = samples::pci_host().models[0].clone();
    // The ISR is moved behind the register of messages.
    model.configuration[0x54 / 4] = 1;
    let places = [Bar { guest: GuestAddress(0x2800_0000), physical: PhysicalAddress(0), bytes: 0x4000 }; MAX_BARS];
    let header = header::build(&model, &places);
    assert_eq!([header[13], header[0x60 / 4] >> 8 & 0xff, header[0x50 / 4]], [0x70, 0x40, 0]);
    // A vendor's own bytes mean something else elsewhere.
    model.configuration[0] = 0x1042_1af5;
    assert_eq!(header::build(&model, &places)[0x60 / 4] >> 8 & 0xff, 0x50);
    // One that says it is longer than what there is.
    model.configuration[0x60 / 4] = 0x03a0_5009;
    assert_eq!(header::build(&model, &places)[0x70 / 4] >> 8 & 0xff, 0x60, "up to the last byte");
    model.configuration[0x60 / 4] = 0x03a1_5009;
    assert_eq!(header::build(&model, &places)[0x70 / 4] >> 8 & 0xff, 0x50, "and no further");
}

/// A model with any bytes, and with a chain through some of them.
fn any_model() -> impl Strategy<Value = PciModel> {
    let id = prop_oneof![Just(9_u8), 0_u8..0x14];
    let capability = (id, 0_u8..10, 0_u8..8, 3_u8..24);
    (any::<[u8; 32]>(), proptest::collection::vec(capability, 0..8), any::<bool>(), 0..6_usize).prop_map(
        |(noise, capabilities, is_virtio, wide)| {
            let mut bytes: Vec<u8> = noise.iter().copied().cycle().take(256).collect();
            bytes[0..4].copy_from_slice(if is_virtio { &[0xf4, 0x1a, 0x42, 0x10] } else { &[1, 2, 3, 4] });
            bytes[6] = if capabilities.is_empty() { 0 } else { 0x10 };
            bytes[0x34] = 0x40;
            for (index, (id, kind, register, length)) in capabilities.iter().enumerate() {
                let at = 0x40 + index * 24;
                let next = if index + 1 < capabilities.len() { at + 24 } else { 0 };
                bytes[at..at + 5].copy_from_slice(&[*id, next as u8, *length, *kind, *register]);
            }
            let mut model = samples::pci_host().models[0].clone();
            for (word, bytes) in model.configuration.iter_mut().zip(bytes.chunks(4)) {
                *word = u32::from_le_bytes(bytes.try_into().unwrap());
            }
            model.bars[4].is_messages = wide > 3;
            model
        },
    )
}

/// What a capability of virtio says that a guest may see: all of it is there, and so is what it points to.
fn may_be_seen(model: &PciModel, bytes: &[u8], at: usize) -> bool {
    let is_shown = |bar: &ModelBar| bar.bytes >= 4096 && !bar.is_messages;
    bytes[0] != 0xf4 || bytes[at + 2] >= 16 && model.bars.get(usize::from(bytes[at + 4])).is_some_and(is_shown)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// QV-13: whatever a function shows, its guest finds a chain of vendors' capabilities that ends, without virtio's window, and nothing outside.
    #[test]
    fn no_capability_but_vendors_own_is_left(model in any_model()) {
        let places = [Bar { guest: GuestAddress(0x2800_0000), physical: PhysicalAddress(0), bytes: 0x4000 }; MAX_BARS];
        let header = header::build(&model, &places);
        let shown: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        let original: Vec<u8> = model.configuration.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut rest = shown.clone();
        let mut at = usize::from(shown[0x34]);
        prop_assert_eq!(shown[6], if at == 0 { 0 } else { 0x10 });
        let mut found = Vec::new();
        while at != 0 {
            prop_assert!(found.len() < 8 && shown[at] == 9 && shown[at + 3] != 5);
            let length = usize::from(shown[at + 2]);
            prop_assert_eq!(&shown[at + 2..at + length], &original[at + 2..at + length]);
            prop_assert!(may_be_seen(&model, &shown, at));
            rest[at..at + length].fill(0);
            found.push(at);
            at = usize::from(shown[at + 1]);
        }
        for range in [0..4, 6..7, 8..12, 0x10..0x28, 0x2c..0x30, 0x34..0x35, 0x3d..0x3e] {
            rest[range].fill(0);
        }
        prop_assert_eq!(rest, vec![0; 256]);
        prop_assert_eq!(shown[0x3d], 1);
        let mut expected = Vec::new();
        let mut at = if original[6] & 0x10 == 0 { 0 } else { 0x40 };
        while at != 0 {
            let kept = original[at] == 9 && original[at + 3] != 5;
            expected.extend((kept && may_be_seen(&model, &original, at)).then_some(at));
            at = usize::from(original[at + 1]);
        }
        prop_assert_eq!(found, expected);
    }
}
