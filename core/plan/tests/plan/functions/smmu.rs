//! The memory of the SMMU, word by word and as a walk that this file has to itself.

use super::{bytes, planned, words};
use bulkhead_abi::PhysicalAddress;
use bulkhead_plan::model::{Reach, SmmuStage, System};
use bulkhead_plan::{AreaKind, Plan, samples};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const ADDRESS: u64 = 0xffff_ffff_f000;
/// AP RW for all, inner shareable, AF, nG, never executable.
const LEAF: u64 = 1 << 6 | 3 << 8 | 1 << 10 | 1 << 11 | 3 << 53;

fn streams(plan: &Plan) -> Vec<[u64; 8]> {
    let entries = bytes(plan, AreaKind::StreamTable).chunks(64);
    let word = |entry: &[u8], index: usize| u64::from_le_bytes(entry[index * 8..][..8].try_into().unwrap());
    entries.map(|entry| core::array::from_fn(|index| word(entry, index))).collect()
}

/// What a stage-1 table of 39 bits maps, page by page.
fn walk(plan: &Plan, root: u64) -> BTreeMap<u64, u64> {
    let mut pages = BTreeMap::new();
    let table = |address: u64| words(plan, PhysicalAddress(address), 512);
    let mut map = |input: u64, entry: u64, bytes: u64, kind: u64| {
        assert_eq!(entry & !ADDRESS & !kind, LEAF, "the attributes of {input:#x}");
        pages.extend((0..bytes).step_by(PAGE as usize).map(|at| (input + at, (entry & ADDRESS) + at)));
    };
    for (first, entry) in (0..).zip(table(root)).filter(|(_, entry)| *entry != 0) {
        if entry & 3 == 1 {
            map(first << 30, entry, 1 << 30, 1);
            continue;
        }
        assert_eq!(entry & !ADDRESS, 3);
        for (second, entry) in (0..).zip(table(entry & ADDRESS)).filter(|(_, entry)| *entry != 0) {
            let input = first << 30 | second << 21;
            if entry & 3 == 1 {
                map(input, entry, 2 << 20, 1);
                continue;
            }
            assert_eq!(entry & !ADDRESS, 3);
            let third = (0..).zip(table(entry & ADDRESS)).filter(|(_, entry)| *entry != 0);
            third.for_each(|(third, entry)| map(input | third << 12, entry, PAGE, 3));
        }
    }
    pages
}

/// QV-10: a stream aborts, or goes through a descriptor of its own partition to RAM of that partition at the guest's addresses: all of it, or the
/// regions of its function.
pub(super) fn streams_reach_what_they_may(system: &System, plan: &Plan) {
    let table = streams(plan);
    assert_eq!(table.len(), 512);
    assert!(plan.layout.address(AreaKind::StreamTable).0.is_multiple_of(32 << 10));
    let mut asids = BTreeMap::new();
    for (stream, entry) in table.iter().enumerate() {
        let Some(function) = system.functions.iter().find(|function| function.stream() as usize == stream) else {
            assert_eq!(*entry, [1, 0, 0, 0, 0, 0, 0, 0], "stream {stream:#x} aborts");
            continue;
        };
        assert_eq!(entry[1..], [1 << 2 | 1 << 4 | 3 << 6 | 1 << 44, 0, 0, 0, 0, 0, 0]);
        assert_eq!(entry[0] & 0x3f, 5 << 1 | 1);
        let descriptor = words(plan, PhysicalAddress(entry[0] & !0x3f), 8);
        let asid = descriptor[0] >> 48;
        assert_eq!(descriptor[0] & 0xffff_ffff_ffff, 0xe202_c000_3519);
        assert_eq!((descriptor[2], descriptor[3], &descriptor[4..]), (0, 0xff, [0; 4].as_slice()));
        let owner = asids.insert(asid, descriptor[1]);
        assert!(owner.is_none_or(|root| root == descriptor[1]), "two tables have ASID {asid}");
        let partition = &system.partitions[function.partition];
        let ram = plan.layout.address(AreaKind::Ram(function.partition)).0;
        let ranges = match &function.reach {
            Reach::Partition => vec![(partition.guest_ram.0, partition.memory_bytes)],
            Reach::Regions(regions) => regions.iter().map(|region| (region.start.0, region.bytes)).collect(),
            Reach::Everything => panic!("nothing confines it"),
        };
        let pages = ranges.iter().flat_map(|(start, bytes)| (*start..start + bytes).step_by(PAGE as usize));
        let expected: BTreeMap<u64, u64> = pages.map(|guest| (guest, ram + (guest - partition.guest_ram.0))).collect();
        assert!(walk(plan, descriptor[1]) == expected, "what {} reaches", function.name);
    }
}

#[test]
fn the_sample_has_these_streams_and_descriptors() {
    let plan = planned(&samples::functions());
    let table = streams(&plan);
    let commands = plan.layout.address(AreaKind::Commands).0;
    // Descriptors of intruder, linux and office, then that of the copier.
    let descriptor = |index: u64| commands + 0x100 + index * 64;
    let of = |stream: usize| table[stream][0] & !0x3f;
    let found = [0x08, 0x10, 0x28, 0x30, 0x100].map(of);
    assert_eq!(found, [descriptor(1), descriptor(3), descriptor(1), descriptor(0), descriptor(2)]);
    assert_eq!(table[0x08], [descriptor(1) | 0xb, 0x1000_0000_00d4, 0, 0, 0, 0, 0, 0]);
    let asids = [0, 1, 2, 3].map(|index| words(&plan, PhysicalAddress(descriptor(index)), 1)[0] >> 48);
    assert_eq!(asids, [1, 2, 3, bulkhead_abi::MAX_PARTITIONS as u64 + 2]);
    let root = plan.layout.address(AreaKind::DeviceTables(1)).0;
    let expected = [0x0002_e202_c000_3519, root, 0, 0xff, 0, 0, 0, 0];
    assert_eq!(words(&plan, PhysicalAddress(descriptor(1)), 8), expected);
    // 32 blocks of 2 MiB in the GiB of the guest's RAM, and nothing else.
    assert_eq!(words(&plan, PhysicalAddress(root), 512).iter().filter(|entry| **entry != 0).count(), 1);
    let ram = plan.layout.address(AreaKind::Ram(1)).0;
    let blocks = words(&plan, PhysicalAddress(root + PAGE), 512);
    assert_eq!(blocks[..2], [ram | 0x0060_0000_0000_0f41, (ram + (2 << 20)) | 0x0060_0000_0000_0f41]);
    assert!(blocks[..32].iter().all(|entry| *entry != 0) && blocks[32..].iter().all(|entry| *entry == 0));
}

/// CFGI_ALL, TLBI_NSNH_ALL, SYNC: written here, so that the boot script has to move an index alone.
#[test]
fn three_commands_are_there_before_boot() {
    let plan = planned(&samples::functions());
    let commands = plan.layout.address(AreaKind::Commands);
    assert_eq!(words(&plan, commands, 6), [0x04, 31, 0x30, 0, 0x46, 0]);
    assert_eq!(words(&plan, PhysicalAddress(commands.0 + 48), 26), [0; 26]);
    assert!(plan.layout.address(AreaKind::Events).0.is_multiple_of(8 << 10));
    assert!(
        plan.layout.address(AreaKind::Events) >= plan.layout.file_end,
        "what the SMMU writes is not in the checksum"
    );
}

#[test]
fn a_partition_of_gibibytes_takes_a_page_of_tables() {
    let mut system = samples::functions();
    system.partitions[1].memory_bytes = 1 << 30;
    let plan = planned(&system);
    assert_eq!(plan.layout.area(AreaKind::DeviceTables(1)).unwrap().bytes, PAGE);
    streams_reach_what_they_may(&system, &plan);
}

/// Stage 2: the stream goes through the very tables that the partition's cores use.
#[test]
fn stage_2_streams_name_the_root_of_their_partition() {
    let mut system = samples::functions();
    system.board.pci.as_mut().unwrap().smmu.as_mut().unwrap().stage = SmmuStage::Two;
    system.functions[1].reach = Reach::Partition;
    let plan = planned(&system);
    assert_eq!(plan.layout.area(AreaKind::DeviceTables(0)), None);
    let root = plan.layout.address(AreaKind::Stage2Tables(1)).0;
    assert_eq!(plan.vcpus[1][0].vttbr, 2 << 48 | root);
    assert_eq!(streams(&plan)[0x08], [0xd, 1 << 44, 0x042a_3559_0000_0002, root, 0, 0, 0, 0]);
    let boot = plan.boot_devices.unwrap();
    assert_eq!(boot.steps_of(&boot.scripts[1])[0].value, 0x19, "S2P, not S1P");
    assert_eq!(words(&plan, plan.layout.address(AreaKind::Commands), 512)[6..], [0; 506]);
}

/// A board with larger physical addresses says so in its descriptors.
#[test]
fn descriptors_have_the_boards_physical_addresses() {
    let mut system = samples::functions();
    system.board.physical_address_bits = 44;
    let plan = planned(&system);
    let descriptor = PhysicalAddress(plan.layout.address(AreaKind::Commands).0 + 0x100);
    assert_eq!(words(&plan, descriptor, 1)[0] >> 32 & 7, 4);
}

/// What no SMMU confines has an entry all the same, should it ever come by: an abort.
#[test]
fn trusted_functions_have_no_descriptor() {
    let mut system = samples::functions();
    for index in [0, 2] {
        system.functions[index].reach = Reach::Everything;
    }
    for model in &mut system.board.pci.as_mut().unwrap().models[..2] {
        model.is_confined = false;
    }
    let plan = planned(&system);
    assert_eq!([streams(&plan)[0x08], streams(&plan)[0x28]], [[1, 0, 0, 0, 0, 0, 0, 0]; 2]);
}
