//! The instances of these tests are what the independent reader takes, with the kernel that was built.

use crate::places::{Probes, with_timer};
use bulkhead_system_tests::system::guest;
use bulkhead_verify_instance::{Expected, Kind, verify};
use elf::ElfBytes;
use elf::abi::{PF_X, PT_LOAD};
use elf::endian::LittleEndian;

/// The built kernel: text in whole pages, and the bytes of its memory.
fn kernel() -> Expected {
    let file = guest("kernel/kernel.elf");
    let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
    let segments = elf.segments().expect("program headers").iter();
    let segments: Vec<_> = segments.filter(|segment| segment.p_type == PT_LOAD).collect();
    let text = segments.iter().find(|segment| segment.p_flags & PF_X != 0).expect("text");
    let mut bytes = elf.segment_data(text).expect("its bytes").to_vec();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    let end = segments.iter().map(|segment| segment.p_vaddr + segment.p_memsz).max().expect("segments");
    Expected::of(&bytes, end - text.p_vaddr)
}

#[test]
fn the_reader_takes_what_runs_and_no_other_kernel() {
    let expected = kernel();
    for image in [Probes::of(0..30).bytes(), with_timer(&[100, 101], 0).bytes()] {
        assert_eq!(verify(&image, &expected), []);
        let other = Expected { text: [0; 32], ..expected };
        assert!(verify(&image, &other).iter().any(|finding| finding.kind == Kind::Kernel));
    }
}

/// Row 15 promises 48 KiB. The kernel has had more since it has servers, whose rules are `core/sched`'s: 60,644 bytes, and no more without a reason. The
/// last 900 of them mend what attacks found: idle time and dates that were charged to the wrong one, turns that did not end, positions that two had. 20,000 more are
/// claims on the servers' time and bands, whose rules are in `core/sched` as well and whose calls are three. 3,000 let signals take a fifth of
/// what they took.
/// 6,000 are processes and memory that is mapped at run time, 2,500 wires, 1,500 say who prints a line and how much, 2,800 are floating point, of which a second table of vectors is 2,048.
/// 3,200 give components their data back, let them read accounts, and end what ends at one instant in slices; 700 tell schedulers above each other one at a time, and 1,800 remember who is to be asked again for time;
/// 600 see dates while the timer is off and make a call's entry a passage of its own; 1,300 bring budgets back in slices, leave who may not run either passed over, and look between more parts. That
/// the compiler does not know that the kernel is a static took 1,950 away. 3,600 put a thread into the place of another one without a charge and a choice.
#[test]
fn the_kernel_is_as_large_as_is_known() {
    const LARGEST: u64 = 109 * 1024;
    let bytes = bytes_of(&[".text", ".rodata"]);
    assert!((40 * 1024..=LARGEST).contains(&bytes), "{bytes}");
}

/// Row 16: 160 KiB are promised: stack, objects and time, and what is watched or used by the fast path.
#[test]
fn the_state_is_as_large_as_is_known() {
    assert_eq!(bytes_of(&[".stack", ".bss", ".area"]), 160 * 1024);
}

/// What sections of the kernel take.
fn bytes_of(sections: &[&str]) -> u64 {
    let file = guest("kernel/kernel.elf");
    let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
    let (headers, names) = elf.section_headers_with_strtab().expect("readable");
    let (headers, names) = (headers.expect("sections"), names.expect("names"));
    let is_one = |name: &str| sections.contains(&name);
    let counted = headers.iter().filter(|one| names.get(one.sh_name as usize).is_ok_and(is_one));
    counted.map(|one| one.sh_size).sum()
}

/// No path of the kernel ends in a panic: nothing of it is linked.
#[test]
fn the_kernel_cannot_panic() {
    let file = guest("kernel/kernel.elf");
    let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
    let (symbols, names) = elf.symbol_table().expect("readable").expect("symbols");
    let names: Vec<&str> = symbols.iter().filter_map(|symbol| names.get(symbol.st_name as usize).ok()).collect();
    assert!(names.contains(&"bulkhead_kernel_enter"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("panic")), "{names:?}");
}
