//! One bit changed at random in what an image says about devices: refused, or listed here with the reason why nothing rests on it. So this
//! finds rules that `verify` lacks, where the mutants of `functions` find those that it has.

use crate::functions::{DESCRIPTORS, ENTRY, PAGE, SMMU, boot, devices, edit, verify};
use bulkhead_abi::devices::{
    BootDevices, DeviceFunction, DevicePlan, STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step,
};
use bulkhead_plan::{AreaKind, samples};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::mem::offset_of;
use std::ops::Range;

/// Bits tried in each run, each with a look at the whole image.
const FLIPS: u64 = 1_500;

/// A seed, what is random by it, and a number of cases; `BULKHEAD_SEED` (a byte) and `BULKHEAD_CASES` replace seed and number.
pub(super) fn seeded(seed: u8, cases: u64) -> (u64, TestRng, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("BULKHEAD_SEED").unwrap_or(seed.into());
    (seed, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed as u8; 32]), number("BULKHEAD_CASES").unwrap_or(cases))
}

/// States whether a step is about a slot that no function of the sample has.
fn is_unnamed(step: &Step) -> bool {
    let page = (step.address.0 & !0xfff).wrapping_sub(0x40_1000_0000) / PAGE;
    page < 512 && samples::functions().functions.iter().all(|function| u64::from(function.stream()) != page)
}

/// States whether a changed bit of a step changes nothing that isolation rests on: how long is waited, what more is looked at.
fn is_patience(step: &Step, byte: usize, bit: u8) -> bool {
    let is_in = |offset: usize, bytes: usize| (offset..offset + bytes).contains(&byte);
    match step.operation {
        STEP_DELAY => is_in(offset_of!(Step, value), 8),
        STEP_EXPECT if step.mask == 0 && is_in(offset_of!(Step, address), 8) => true,
        STEP_WAIT if is_in(offset_of!(Step, limit), 4) => true,
        // Commands that are taken one step earlier are the same.
        STEP_WRITE if step.address.0 == SMMU + 0x98 && byte == offset_of!(Step, value) => matches!(bit, 1 | 2),
        // Bits of the SMMU's registers that say nothing here; hints to its caches.
        STEP_WAIT if (SMMU..SMMU + 0x1_0000).contains(&step.address.0) && is_in(offset_of!(Step, mask), 8) => {
            let needed: u64 = match step.address.0 - SMMU {
                0x24 => 0xf,
                0x54 => 7,
                _ => 0x7f00_001f,
            };
            needed.to_le_bytes()[byte - offset_of!(Step, mask)] & bit == 0
        }
        STEP_WRITE if [0x80, 0x90, 0xa0].contains(&step.address.0.wrapping_sub(SMMU)) => {
            byte == offset_of!(Step, value) + 7 && bit == 0x40
        }
        // A function that does not even answer is as silent.
        STEP_UPDATE if step.address.0 & 0xfff == 4 && byte == offset_of!(Step, value) && bit == 2 => true,
        // A slot without a function is off as it is. Ports stay closed.
        STEP_WRITE if is_unnamed(step) && (step.width, step.value) == (2, 0) && is_in(offset_of!(Step, address), 8) => {
            true
        }
        STEP_WRITE if is_unnamed(step) && [0x1c, 0x24, 0x28, 0x2c, 0x30].contains(&(step.address.0 & 0xfff)) => {
            is_in(offset_of!(Step, value), 8)
        }
        // To look at more than is needed, or to clear more.
        STEP_WAIT | STEP_EXPECT | STEP_UPDATE if is_in(offset_of!(Step, mask), 8) => {
            step.mask.to_le_bytes()[byte - offset_of!(Step, mask)] & bit == 0
        }
        _ => false,
    }
}

/// States whether a changed byte of a device plan is nothing that isolation rests on: how often is looked, and what of a header is a name.
fn is_name(offset: usize, bit: u8) -> bool {
    const REVISION: usize = 8;
    const SUBSYSTEM: Range<usize> = 0x2c..0x30;
    let functions = offset_of!(DevicePlan, functions);
    if (offset_of!(DevicePlan, poll_ticks)..offset_of!(DevicePlan, poll_ticks) + 8).contains(&offset) {
        return true;
    }
    let within = offset.checked_sub(functions).map(|offset| offset % size_of::<DeviceFunction>());
    let in_header = within.and_then(|offset| offset.checked_sub(offset_of!(DeviceFunction, header)));
    // Of base addresses whether they have an upper half, which is zero, and whether reads have no effect.
    let is_prefetchable =
        |place: usize| (0x10..0x28).contains(&place) && place.is_multiple_of(4) && matches!(bit, 4 | 8);
    in_header.is_some_and(|place| {
        place == REVISION || SUBSYSTEM.contains(&place) || (0x40..0x100).contains(&place) || is_prefetchable(place)
    })
}

/// One changed bit anywhere in what is said about devices is refused, or says nothing that isolation rests on.
#[test]
fn changed_bits_of_devices_are_refused_or_harmless() {
    let base = edit(&samples::functions());
    let mut places: Vec<(AreaKind, u64, u64)> = vec![
        (AreaKind::StreamTable, 0, 0x108 * ENTRY),
        (AreaKind::Commands, 0, DESCRIPTORS + 4 * ENTRY),
        (AreaKind::BootDevices, 0, size_of::<BootDevices>() as u64),
    ];
    places.extend((0..4).map(|context| (AreaKind::DeviceTables(context), 0, 3 * PAGE)));
    places.extend((0..3).map(|partition| (AreaKind::DevicePlan(partition), 0, size_of::<DevicePlan>() as u64)));
    let (seed, mut random, cases) = seeded(37, FLIPS);
    let mut accepted = Vec::new();
    for _ in 0..cases {
        let (kind, start, bytes) = places[(random.next_u64() % places.len() as u64) as usize];
        let bytes = bytes.min(base.layout.area(kind).expect("the sample has it").bytes);
        let offset = start + random.next_u64() % bytes;
        let bit = 1 << (random.next_u64() & 7);
        let mut image = base.clone();
        let address = image.at(kind) + offset;
        let (mut harmless, mut changed) = (false, String::new());
        match kind {
            AreaKind::BootDevices => boot(&mut image, |boot| {
                let step = (offset as usize).checked_sub(offset_of!(BootDevices, steps));
                let step = step.and_then(|at| Some((boot.steps.get(at / size_of::<Step>())?, at % size_of::<Step>())));
                harmless = step.is_some_and(|(step, byte)| is_patience(step, byte, bit));
                changed = format!("{step:x?}");
            }),
            AreaKind::DevicePlan(partition) => devices(&mut image, partition, |plan| {
                let step = (offset as usize).checked_sub(offset_of!(DevicePlan, quiesce));
                let step =
                    step.and_then(|at| Some((plan.quiesce.get(at / size_of::<Step>())?, at % size_of::<Step>())));
                // A function without a reset gets the Command that it has, and each the upper half of its place: zero, as all have.
                let is_again =
                    |step: &Step, byte: usize| matches!((step.width, step.value), (2, 0x402) | (4, 0)) && byte / 8 == 1;
                harmless = step.is_some_and(|(step, byte)| is_patience(step, byte, bit) || is_again(step, byte))
                    || is_name(offset as usize, bit)
                    // More may be done as soon as it stops.
                    || offset as usize == offset_of!(DevicePlan, silence_count) && plan.silence_count & u32::from(bit) == 0;
                changed = format!("{step:x?}");
            }),
            // Another address space is as good, if nobody has it.
            AreaKind::Commands => harmless = offset >= DESCRIPTORS && offset % ENTRY == 6,
            _ => {}
        }
        image.slice(address)[0] ^= bit;
        if !harmless && verify(image).is_accepted() {
            accepted.push(format!("{kind:?} + {offset:#x}, bit {bit:#x} {changed}"));
        }
    }
    assert_eq!(accepted, Vec::<String>::new(), "with seed {seed}");
}
