//! A core that is not what its plan says enters no guest, and the record says by which register.

use crate::life::boot::misfit;
use bulkhead_abi::image::{CoreBoot, ImageHeader};
use bulkhead_abi::observe::{CRASH_ADDRESS_BITS, CRASH_CACHE_LINES, CRASH_CORE_TYPE};
use bulkhead_arm::core_type::CoreType;
use bulkhead_arm::el2::tcr;
use zerocopy::FromZeros;

/// What QEMU's models say of themselves: MIDR_EL1, ID_AA64MMFR0_EL1, CTR_EL0, DCZID_EL0.
const CORTEX_A53: [u64; 4] = [0x410f_d034, 0x1122, 0x8444_8004, 4];
const CORTEX_A72: [u64; 4] = [0x410f_d083, 0x1124, 0x8444_c004, 4];

/// What comes of a plan for a type with this many bits of a physical address.
fn judged(kind: &str, bits: u32, core: [u64; 4]) -> Option<(u64, u64)> {
    let midr = CoreType::named(kind).map_or(0, |kind| kind.midr);
    let header = ImageHeader { tcr: tcr(39, bits), ..ImageHeader::new_zeroed() };
    misfit(&header, &CoreBoot { midr, ..CoreBoot::new_zeroed() }, core)
}

#[test]
fn a_core_of_the_type_that_the_plan_says_is_taken_whatever_its_revision() {
    for variant in [0, 1 << 20, 7] {
        for (kind, bits, mut core) in [("cortex-a53", 40, CORTEX_A53), ("cortex-a72", 44, CORTEX_A72)] {
            core[0] ^= variant;
            assert_eq!(judged(kind, bits, core), None, "{kind}, {:#x}", core[0]);
        }
    }
}

#[test]
fn a_core_of_another_type_is_refused_by_its_main_id_register() {
    assert_eq!(judged("cortex-a72", 40, CORTEX_A53), Some((CRASH_CORE_TYPE, CORTEX_A53[0])));
    assert_eq!(judged("cortex-a53", 40, CORTEX_A72), Some((CRASH_CORE_TYPE, CORTEX_A72[0])));
    // A type that nobody knows, one that no board file can name, and the same part number of another implementer.
    let [_, memory, cache, zeroing] = CORTEX_A53;
    for midr in [0x410f_d0b0, 0, 0x510f_d034] {
        let core = [midr, memory, cache, zeroing];
        assert_eq!(judged("cortex-a53", 40, core), Some((CRASH_CORE_TYPE, midr)));
        assert_eq!(judged("none", 40, CORTEX_A53), Some((CRASH_CORE_TYPE, CORTEX_A53[0])));
    }
}

#[test]
fn a_core_with_fewer_bits_of_an_address_is_refused() {
    assert_eq!(judged("cortex-a53", 44, CORTEX_A53), Some((CRASH_ADDRESS_BITS, CORTEX_A53[1])));
    let narrow = [CORTEX_A72[0], 0x1122, CORTEX_A72[2], 4];
    assert_eq!(judged("cortex-a72", 44, narrow), Some((CRASH_ADDRESS_BITS, 0x1122)));
    for bits in [32, 36, 40] {
        assert_eq!(judged("cortex-a72", bits, narrow), None, "more than the board uses");
    }
}

/// 4 << n bytes: lines of 64 bytes and more, blocks that are no longer than a line and of which a page has eight.
#[test]
fn a_core_whose_lines_or_blocks_do_not_fit_the_loops_is_refused() {
    for line in 0..16 {
        for block in 0..32 {
            let cache = 0x8440_8004 | line << 16;
            let found = judged("cortex-a53", 40, [CORTEX_A53[0], CORTEX_A53[1], cache, block]);
            let (line_bytes, block_bytes) = (4u64 << line, 4u64 << (block & 15));
            let fits = line_bytes >= 64 && block < 16 && block_bytes <= line_bytes && 8 * block_bytes <= 4096;
            let expected = (!fits).then_some((CRASH_CACHE_LINES, cache << 32 | block));
            assert_eq!(found, expected, "lines of {line_bytes} bytes, DCZID_EL0 {block:#x}");
        }
    }
}
