//! Each rule of the GIC filter, on a GIC model that panics on any access that the partition may not cause.

mod support;

use bulkhead_abi::plan::PartitionPlan;
use bulkhead_emulation::gic::*;
use support::plan;
use support::shadow::{Frame, Shadow, States};

/// Interrupts at word boundaries and in between.
const OWN: [u32; 5] = [32, 63, 64, 100, 255];

fn distributor(states: States) -> (OwnedInterrupts, PartitionPlan, Shadow) {
    let plan = plan(&OWN);
    (OwnedInterrupts::from_plan(&plan), plan, Shadow::new(states, Frame::Distributor, &plan))
}

fn filter<'a>(owned: &'a OwnedInterrupts, plan: &'a PartitionPlan, port: &'a Shadow) -> Filter<'a, &'a Shadow> {
    Filter { owned, plan, port }
}

fn redistributor(states: States) -> (OwnedInterrupts, PartitionPlan, Shadow) {
    let plan = plan(&OWN);
    (OwnedInterrupts::from_plan(&plan), plan, Shadow::new(states, Frame::Redistributor, &plan))
}

#[test]
fn hardware_bits_of_others_are_invisible() {
    for states in States::BOTH {
        let (owned, plan, shadow) = distributor(states);
        for offset in (0x100..0x800).chain(0xc00..0xd00).step_by(4) {
            shadow.set(offset, u32::MAX);
        }
        let read = |offset| filter(&owned, &plan, &shadow).distributor_read(offset, 4).unwrap();
        for register in [0x080u64, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380] {
            assert_eq!(read(register), 0, "word 0 is RES0 under affinity routing");
            assert_eq!(read(register + 4), 1 << 31 | 1);
            assert_eq!(read(register + 8), 1);
            assert_eq!(read(register + 12), 1 << 4);
            assert_eq!(read(register + 28), 1 << 31);
            assert_eq!(read(register + 32), 0);
        }
        // ICFGR: bit 1 of each pair; INTID 32 is the first of word 2, 63 the last of word 3, 100 the fifth of word 6.
        assert_eq!(read(0xc08), 0b10);
        assert_eq!(read(0xc0c), 1 << 31);
        assert_eq!(read(0xc18), 1 << 9);
        assert_eq!(read(0xc3c), 1 << 31);
    }
}

#[test]
fn a_word_without_own_bits_costs_no_hardware_access() {
    for states in States::BOTH {
        let (owned, plan, shadow) = distributor(states);
        for register in [0x100u64, 0x180, 0x200, 0x280, 0x300, 0x380] {
            assert!(!filter(&owned, &plan, &shadow).distributor_write(register + 16, 4, 0xffff_ffff));
            assert_eq!(filter(&owned, &plan, &shadow).distributor_read(register + 16, 4), Some(0));
        }
        assert_eq!(shadow.accesses.get(), 0);
    }
}

#[test]
fn writes_are_compared_and_counted() {
    for states in States::BOTH {
        let (owned, plan, shadow) = distributor(states);
        let write = |offset, value| filter(&owned, &plan, &shadow).distributor_write(offset, 4, value);
        assert!(write(0x104, 1 << 31));
        assert!(!write(0x104, 0b11)); // INTID 33 is foreign
        assert!(write(0x084, 1 << 31 | 1)); // Group 1 already
        assert!(!write(0x084, 0)); // Group 0 is not for guests (A10)
        assert!(write(0xc08, 0)); // level already
        assert!(!write(0xc08, 0b10));
        // A11: the distributor cannot be switched off.
        assert!(!write(0, 0));
        assert!(write(0, 0x52));
        assert_eq!(filter(&owned, &plan, &shadow).distributor_read(0, 4), Some(0x52));
    }
}

#[test]
fn priorities_are_kept_as_written() {
    for states in States::BOTH {
        // A8: that nothing of a guest has the monitor's priority is what the model demands of each write.
        let (owned, plan, shadow) = distributor(states);
        let read = |offset, bytes| filter(&owned, &plan, &shadow).distributor_read(offset, bytes);
        assert!(!filter(&owned, &plan, &shadow).distributor_write(0x400 + 60, 4, 0x00a0_a0a0));
        assert_eq!((read(0x400 + 60, 4), read(0x400 + 63, 1)), (Some(0), Some(0)));
        assert!(filter(&owned, &plan, &shadow).distributor_write(0x400 + 100, 1, 0xa0));
        assert_eq!((read(0x400 + 100, 4), read(0x400 + 100, 1)), (Some(0xa0), Some(0xa0)));
        assert_eq!(shadow.priorities.borrow().iter().collect::<Vec<_>>(), [(&63, &0), (&100, &0xa0)]);
        for level in (0..=0xff).step_by(8) {
            assert!(filter(&owned, &plan, &shadow).distributor_write(0x400 + 63, 1, level | 7));
            assert_eq!((read(0x400 + 60, 4), read(0x400 + 63, 1)), (Some(level << 24), Some(level)), "32 levels");
        }
        let (owned, plan, shadow) = redistributor(states);
        assert!(filter(&owned, &plan, &shadow).redistributor_write(1, FRAME_BYTES + 0x1_0400 + 24, 4, 0x4000_0000));
        assert_eq!(shadow.priorities.borrow().iter().collect::<Vec<_>>(), [(&27, &0x40)]); // 24, 25, 26 are not the guest's
        assert_eq!(
            filter(&owned, &plan, &shadow).redistributor_read(1, FRAME_BYTES + 0x1_0400 + 24, 4),
            Some(0x4000_0000)
        );
    }
}

/// The levels that the GIC has are in the order of the guest's, and none of them is the monitor's or one that is never signalled, on
/// which the model looks at each write.
#[test]
fn physical_priorities_keep_the_order() {
    let physical: Vec<u8> = (0..=0xff).map(physical_priority).collect();
    assert!(physical.is_sorted());
    assert_eq!(
        (physical[0], physical[0x10], physical[0xa0], physical[0xe0], physical[0xff]),
        (0x10, 0x10, 0xa0, 0xe0, 0xe0)
    );
}

#[test]
fn identification_is_what_the_plan_says() {
    let (owned, mut plan, shadow) = distributor(States::One);
    let read = |plan: &PartitionPlan, offset| filter(&owned, plan, &shadow).distributor_read(offset, 4).unwrap();
    for (highest, lines) in [(31, 0), (32, 1), (63, 1), (64, 2), (255, 7), (u32::MAX, 31)] {
        plan.highest_intid = highest;
        assert_eq!(read(&plan, 4) & 0x1f, lines, "ITLinesNumber for {highest}");
    }
    // SecurityExtn 10, MBIS 16, LPIS 17, DVIS 18, ESPI 8: absent.
    assert_eq!(read(&plan, 4) & (1 << 10 | 1 << 16 | 1 << 17 | 1 << 18 | 1 << 8), 0);
    assert_eq!(read(&plan, 8), 0x4200_043b);
    assert_eq!(read(&plan, 0xc), 0); // TYPER2
    assert_eq!(read(&plan, 0x10), 0); // STATUSR
    assert_eq!(read(&plan, 0xffe8), 0x3b);
    assert_eq!(shadow.accesses.get(), 0);
}

#[test]
fn routes_are_virtual_affinities_of_own_cores() {
    // QV-12: one owner, and only its cores.
    let (owned, plan, shadow) = distributor(States::One);
    let at = |intid: u64| 0x6000 + 8 * intid;
    let write = |offset, bytes, value| filter(&owned, &plan, &shadow).distributor_write(offset, bytes, value);
    let read = |offset, bytes| filter(&owned, &plan, &shadow).distributor_read(offset, bytes);
    let hardware = |intid| shadow.words.borrow().get(&at(intid)).copied();
    assert!(write(at(100), 8, 1));
    assert_eq!(hardware(100), Some(0x101));
    assert_eq!(read(at(100), 8), Some(1));
    assert_eq!(read(at(100), 4), Some(1));
    assert_eq!(read(at(100) + 4, 4), Some(0));
    // Any core: vCPU 0.
    assert!(write(at(100), 4, 1 << 31));
    assert_eq!(hardware(100), Some(2));
    assert_eq!(read(at(100), 8), Some(0));
    // Outside the partition: nothing changes.
    for target in [2, 0x101, 1 << 32, 0x8_0000_0002] {
        assert!(!write(at(100), 8, target), "{target:#x}");
    }
    assert!(!write(at(100) + 4, 4, 1));
    assert_eq!(hardware(100), Some(2));
    // Foreign SPI.
    assert!(!write(at(101), 8, 1));
    assert_eq!(read(at(101), 8), Some(0));
    assert_eq!(hardware(101), None);
}

#[test]
fn access_widths_follow_the_manual() {
    for states in States::BOTH {
        let (owned, plan, shadow) = distributor(states);
        for (offset, bytes) in [
            (0x104, 8),
            (0x104, 1),
            (0x104, 2),
            (0x106, 4),
            (0x420, 2),
            (0x420, 8),
            (0x6100, 1),
            (0x6104, 8),
            (4, 8),
            (0xffe8, 1),
        ] {
            assert_eq!(filter(&owned, &plan, &shadow).distributor_read(offset, bytes), None, "{offset:#x}");
            assert!(!filter(&owned, &plan, &shadow).distributor_write(offset, bytes, 1), "{offset:#x}");
        }
        assert_eq!(filter(&owned, &plan, &shadow).redistributor_read(0, 0x70, 8), None);
        assert_eq!(filter(&owned, &plan, &shadow).redistributor_read(0, 2 * FRAME_BYTES, 4), None);
        assert_eq!(filter(&owned, &plan, &shadow).redistributor_read(0, u64::MAX - 3, 4), None);
    }
}

#[test]
fn another_frame_shows_its_identification_only() {
    for states in States::BOTH {
        let (owned, plan, shadow) = redistributor(states);
        let read = |vcpu, offset, bytes| filter(&owned, &plan, &shadow).redistributor_read(vcpu, offset, bytes);
        for vcpu in 0..2 {
            assert_eq!(read(vcpu, 8, 8), Some(0)); // vCPU 0: affinity 0, not last
            assert_eq!(read(vcpu, FRAME_BYTES + 8, 8), Some(1 << 32 | 1 << 8 | 1 << 4));
            assert_eq!(read(vcpu, FRAME_BYTES + 8, 4), Some(1 << 8 | 1 << 4));
            assert_eq!(read(vcpu, FRAME_BYTES + 12, 4), Some(1));
            assert_eq!(read(vcpu, FRAME_BYTES + 0xffe8, 4), Some(0x3b));
            assert_eq!(read(vcpu, FRAME_BYTES + 4, 4), Some(0x4200_043b));
        }
        for offset in [0x14, 0x1_0080, 0x1_0100, 0x1_0400, 0x1_0c04] {
            assert_eq!(read(0, FRAME_BYTES + offset, 4), None);
            assert!(!filter(&owned, &plan, &shadow).redistributor_write(0, FRAME_BYTES + offset, 4, 1));
        }
        assert_eq!(shadow.accesses.get(), 0);
    }
}

#[test]
fn own_frame_is_masked_to_own_private_interrupts() {
    for states in States::BOTH {
        let (owned, plan, shadow) = redistributor(states);
        for offset in (0x1_0100..0x1_0800).chain(0x1_0c00..0x1_0d00).step_by(4) {
            shadow.set(offset, u32::MAX);
        }
        let read = |offset| filter(&owned, &plan, &shadow).redistributor_read(1, FRAME_BYTES + offset, 4).unwrap();
        assert_eq!(read(0x14), 0, "WAKER: awake");
        assert_eq!(read(0), 0);
        assert_eq!(read(0x1_0080), 0x4800_7fff);
        assert_eq!(read(0x1_0100), 0x4800_7fff);
        assert_eq!(read(0x1_0104), 0, "one word of private interrupts");
        assert_eq!(read(0x1_0c04), 1 << 23 | 1 << 29);
        assert!(!filter(&owned, &plan, &shadow).redistributor_write(1, FRAME_BYTES + 0x1_0180, 4, 0xffff_ffff));
        assert!(filter(&owned, &plan, &shadow).redistributor_write(1, FRAME_BYTES + 0x1_0100, 4, 1 << 27));
    }
}

/// QV-13: the short way reads what the long one does, and nothing but the asking vCPU's own write-one registers.
#[test]
fn the_short_way_to_own_registers_reads_nothing_else() {
    for states in States::BOTH {
        let (owned, plan, shadow) = redistributor(states);
        for offset in (0..0x2_0000).step_by(4) {
            shadow.set(offset, u32::MAX);
        }
        for vcpu in 0..2u32 {
            for offset in (0..4 * FRAME_BYTES).step_by(2).chain([u64::MAX - 3, u64::MAX, 1 << 32 | 0x1_0100]) {
                for bytes in [1, 2, 4, 8] {
                    let short = filter(&owned, &plan, &shadow).own_set_clear_read(vcpu, offset, bytes);
                    let own = offset.checked_sub(FRAME_BYTES * u64::from(vcpu) + 0x1_0000);
                    let meant = own.is_some_and(|own| (0x100..0x400).contains(&own) && own % 4 == 0) && bytes == 4;
                    assert_eq!(short.is_some(), meant, "vCPU {vcpu}, {offset:#x}, {bytes} bytes");
                    if meant {
                        assert_eq!(short, filter(&owned, &plan, &shadow).redistributor_read(vcpu, offset, bytes));
                    }
                }
            }
        }
    }
}

#[test]
fn ownership_comes_from_the_plan_alone() {
    let mut plan = plan(&[40, 31, 256, u32::MAX, 41]);
    plan.interrupt_count = 4; // 41 is not counted
    let owned = OwnedInterrupts::from_plan(&plan);
    let all: Vec<u32> = (0..300).filter(|intid| owned.owns(*intid)).collect();
    assert_eq!(all, (0..15).chain([27, 30, 40]).collect::<Vec<_>>());
    assert!(!owned.owns(u32::MAX));
}
