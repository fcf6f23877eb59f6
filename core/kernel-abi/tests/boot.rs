//! Boot tables are read as they are: nothing that they say makes a reader panic or look outside.

use bulkhead_kernel_abi::boot::{BOOT_MAGIC, BootError, BootHeader, ComponentRow, Span, Tables, ThreadRow};
use bulkhead_kernel_abi::{Capability, KERNEL_ABI_VERSION, Kind};
use zerocopy::IntoBytes;

/// Sum of bytes: a checksum is the reader's own.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum.rotate_left(3) ^ u32::from(*byte))
}

#[repr(C, align(16))]
struct Aligned([u8; 1024]);

/// One component with two slots, and a thread.
fn sample() -> (Aligned, usize) {
    let mut bytes = Aligned([0; 1024]);
    let mut at = size_of::<BootHeader>();
    let mut put = |row: &[u8]| {
        at = at.next_multiple_of(16);
        bytes.0[at..at + row.len()].copy_from_slice(row);
        at += row.len();
        u32::try_from(at - row.len()).expect("small")
    };
    let component = ComponentRow { first_slot: 0, slots: 2, root: 0x4000_0000, ..Default::default() };
    let slots = [Capability::NULL, Capability { kind: Kind::Call.number(), ..Capability::NULL }];
    let mut header = BootHeader { magic: BOOT_MAGIC, abi_version: KERNEL_ABI_VERSION, ..Default::default() };
    header.components = Span { offset: put(component.as_bytes()), count: 1 };
    header.capabilities = Span { offset: put(slots.as_bytes()), count: 2 };
    header.threads = Span { offset: put(ThreadRow { entry: 5, ..Default::default() }.as_bytes()), count: 1 };
    header.bytes = at as u64;
    bytes.0[..size_of::<BootHeader>()].copy_from_slice(header.as_bytes());
    let crc = sum(&bytes.0[16..at]);
    bytes.0[12..16].copy_from_slice(&crc.to_le_bytes());
    (bytes, at)
}

#[test]
fn boot_tables_are_spans_of_rows() {
    let (bytes, length) = sample();
    let tables = Tables::read(&bytes.0, sum).expect("good");
    assert_eq!((tables.components.len(), tables.threads[0].entry, tables.servers.len()), (1, 5, 0));
    let slots = tables.slots(&tables.components[0]);
    assert_eq!(slots.iter().map(Capability::kind).collect::<Vec<_>>(), [Some(Kind::Null), Some(Kind::Call)]);
    // A row that says what is not there has nothing.
    let beyond =
        ComponentRow { first_slot: 1, slots: 2, first_stack: u32::MAX, stacks: u32::MAX, ..Default::default() };
    assert!(tables.slots(&beyond).is_empty() && tables.stacks(&beyond).is_empty());
    assert!(Tables::read(&bytes.0[..length], sum).is_ok());
    assert_eq!(Tables::read(&bytes.0[..length - 1], sum).err(), Some(BootError::Truncated));
}

#[test]
fn damaged_boot_tables_are_refused() {
    let (good, length) = sample();
    for at in 0..length {
        for bit in 0..8 {
            let mut bytes = Aligned(good.0);
            bytes.0[at] ^= 1 << bit;
            let error = Tables::read(&bytes.0, sum).err();
            assert!(error.is_some(), "byte {at}");
            if at < 8 {
                assert_eq!(error, Some(BootError::Magic));
            } else if at < 12 {
                assert!(matches!(error, Some(BootError::Version(_))));
            }
        }
    }
    // Right checksum, wrong spans: too many, outside, not aligned.
    for (offset, count, place) in [(32u32, u32::MAX, 4), (u32::MAX, 0, 4), (length as u32, 1, 4), (33, 1, 4)] {
        let mut bytes = Aligned(good.0);
        let at = core::mem::offset_of!(BootHeader, threads);
        bytes.0[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        bytes.0[at + 4..at + 8].copy_from_slice(&count.to_le_bytes());
        let crc = sum(&bytes.0[16..length]);
        bytes.0[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Tables::read(&bytes.0, sum).err(), Some(BootError::Span(place)), "{offset} {count}");
    }
    assert_eq!(Tables::read(&good.0[1..], sum).err(), Some(BootError::Truncated), "not aligned");
    assert_eq!(Tables::read(&[], sum).err(), Some(BootError::Truncated));
}
