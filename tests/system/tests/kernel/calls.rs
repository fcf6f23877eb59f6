//! Calls between two components of an instance: what they do, what registers are on either side, what follows a fault, and that the fast path in assembly
//! does what the objects do (CH-4, CH-5, CH-7, CH-8, CH-60, CH-61, CH-E4).

use crate::places::{Place, run, run_bare};
use bulkhead_abi::PhysicalAddress;
use bulkhead_instance::Policy;
use bulkhead_kernel_abi::accounts::Accounts;
use bulkhead_kernel_abi::image::KERNEL_HALF;
use bulkhead_system_tests::kernel::{
    COUNTS, Counted, FAILS, RANDOM, REGISTERS, SHOWS, counted, pair, pair_in_c, pair_on, plain,
};
use bulkhead_system_tests::system::guest;
use elf::ElfBytes;
use elf::endian::LittleEndian;

/// CH-4, CH-5, CH-7, CH-8: a function that is exported by one component and imported by another one is called, and calls back, wherever the instance runs.
#[test]
fn two_components_call_each_other_everywhere() {
    let image = pair(SHOWS, Policy::default());
    for place in [Place::Board, Place::NewerBoard].into_iter().chain(Place::PARTITIONS) {
        assert_eq!(run(&image, place), ["2 + 3 = Ok(1005)", "40 and 2 more: Ok(42)"], "{place:?}");
    }
}

/// CH-4, CH-5, CH-7: a component in C calls one in Rust and is called by it: neither sees a register of the other, a fault is an answer, and the calls of the header
/// are those of the kernel.
#[test]
fn components_in_c_and_rust_call_each_other() {
    let image = pair_in_c(41);
    let board = run(&image, Place::Board);
    let (faults, rest): (Vec<&str>, Vec<&str>) =
        board.iter().map(String::as_str).partition(|line| line.starts_with("kernel: "));
    let expected = [
        "add: 0 1005",
        "twice: 0 42",
        "seen: 1112131415161718 0",
        "faults: 4",
        "add: 0 1042",
        "slept",
        "receive without an end point: 6 0",
        "interrupt without one: 6 0",
        "limit without a thread: 6 6",
        "abort without one: 6 0",
    ];
    // The first fault of a component is said, and the others are counted.
    assert_eq!((faults.len(), rest.as_slice()), (1, &expected[..]));
    assert_eq!(run(&image, Place::Direct), board);
}

/// CH-61: arguments and answers are all that passes in x0 to x18; x19 to x30 pass as they are, and the stubs hide them.
#[test]
fn registers_are_what_a_call_says_on_both_sides() {
    let lines = run(&pair(REGISTERS, Policy::default()), Place::Board);
    // One past the callee's first stack: it has no thread, so it lies highest.
    let expected =
        ["token 0x3e8, stack 0x40000000", "callee: TPIDR_EL0 0x0, flags 0x0", "caller: TPIDR_EL0 0xaaaa, flags 0x0"];
    assert_eq!(lines, expected);
}

/// A callee that faults is left, its stack is free again, and the caller has its registers and continues.
#[test]
fn a_fault_of_the_callee_is_an_answer_of_the_call() {
    let image = pair(FAILS, Policy::default());
    let board = run(&image, Place::Board);
    let (faults, rest): (Vec<String>, Vec<String>) =
        board.iter().cloned().partition(|line| line.starts_with("kernel: "));
    // The first of eight is said, and the others are counted.
    assert!(faults.len() == 1 && faults[0].starts_with("kernel: component 0x1, thread 0x0, fault 0x2,"), "{faults:?}");
    let mut expected = vec!["fault: Err(Faulted), overrun: Err(Faulted)"; 4];
    expected.push("1 + 1 = Ok(1002)");
    assert_eq!(rest, expected);
    assert_eq!(run(&image, Place::Direct), board);
}

/// The kernel with its fast path switched off: the branches to it do nothing.
fn slow_kernel() -> Vec<u8> {
    const NO_OPERATION: u32 = 0xd503_201f;
    let mut file = guest("kernel/kernel.elf");
    for name in ["invoke", "return", "version", "switch"].map(|call| format!("bulkhead_kernel_is_{call}")) {
        let address = symbol(&name);
        let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
        let mut segments = elf.segments().expect("program headers").iter();
        let of = |segment: &elf::segment::ProgramHeader| {
            (segment.p_vaddr..segment.p_vaddr + segment.p_filesz).contains(&address)
        };
        let segment = segments.find(of).expect("the segment of the vectors");
        let place = (segment.p_offset + address - segment.p_vaddr) as usize;
        file[place..place + 4].copy_from_slice(&NO_OPERATION.to_le_bytes());
    }
    file
}

/// The address of a symbol of the kernel.
fn symbol(name: &str) -> u64 {
    let file = guest("kernel/kernel.elf");
    let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
    let (symbols, names) = elf.symbol_table().expect("readable").expect("symbols");
    let found = symbols.iter().find(|symbol| names.get(symbol.st_name as usize).is_ok_and(|found| found == name));
    found.unwrap_or_else(|| panic!("the kernel has no `{name}`")).st_value
}

/// Where a thread says how long it ran.
const USED_TICKS: usize = 640;

/// Words of the fast path, all components and slots, and all threads, as an instance left them.
fn left(image: &[u8]) -> (Vec<String>, Vec<u64>) {
    let machine = run_bare(image, false);
    let text = plain(machine.serial_text());
    let mut words = Vec::new();
    // The words of the fast path end the pages of the accounts.
    let fast = symbol("bulkhead_kernel_area") + size_of::<Accounts>() as u64;
    for (start, bytes) in [(fast, 256 + 64 * 128 + 1024 * 16), (symbol("bulkhead_kernel_objects"), 2 * 688)] {
        let start = start - KERNEL_HALF;
        words.extend(
            (0..bytes)
                .step_by(8)
                .map(|offset| machine.ram().load_u64(PhysicalAddress(start + offset)).expect("it is RAM")),
        );
    }
    // Which kernel it is differs.
    words[18] = 0;
    // How long its one thread ran, and nothing else of it: the fast path is faster.
    words[(256 + 64 * 128 + 1024 * 16 + USED_TICKS) / 8] = 0;
    (text, words)
}

/// CH-8, CH-61: random trees of calls, refusals and faults: with the fast path and without it components compute the same, and the kernel's objects and counters are the same
/// byte for byte.
#[test]
fn the_fast_path_does_what_the_objects_do() {
    let slow = slow_kernel();
    for (seed, policy) in [
        (1, Policy::default()),
        (2, Policy { needs_ticks: 1000, ..Policy::default() }),
        (3, Policy::default()),
        (4, Policy { is_abortable: true, ..Policy::default() }),
    ] {
        let argument = RANDOM | seed << 8;
        let (fast, slow) = (left(&pair(argument, policy)), left(&pair_on(&slow, argument, policy)));
        assert_eq!(fast.0, slow.0, "seed {seed}");
        let different: Vec<usize> = (0..fast.1.len()).filter(|word| fast.1[*word] != slow.1[*word]).collect();
        assert!(different.is_empty(), "seed {seed}: words {different:?} differ");
        println!("seed {seed}: {:?}", &fast.1[..16]);
        // Calls came and went, and some threads were brought out.
        assert!(fast.1[0] > 100 && fast.1[1] > 100 && fast.1[0] > fast.1[1], "{:?}", &fast.1[..16]);
        assert!(fast.0.iter().any(|line| line.contains(", fault 0x")), "some of them fault");
    }
}

/// CH-60, CH-E4: rows 1 to 3 of the kernel's calls are equal in every run, and on the board and in partitions to the instruction.
#[test]
fn calls_take_what_is_promised_everywhere() {
    let policies = [Policy::default(), Policy { needs_ticks: 1000, ..Policy::default() }];
    let on = |place: Place| policies.map(|policy| counted(&pair(COUNTS | 10_000 << 8, policy), place));
    let board = on(Place::Board);
    println!("{board:?}");
    let row = |of: usize, name: &str| -> u64 {
        let Counted { least, most, .. } = *board[of].iter().find(|row| row.name == name).expect("it is measured");
        assert_eq!(least, most, "{name}");
        least
    };
    assert_eq!(row(0, "empty"), 1, "an instruction is a tick");
    let counts = [row(0, "version"), row(0, "call_and_return"), row(1, "call_and_return"), row(0, "stub_to_stub")];
    assert!(counts.iter().zip([65, 115, 140, 190]).all(|(count, ceiling)| *count <= ceiling), "{counts:?}");
    for place in [Place::Direct, Place::Mapped] {
        assert_eq!(on(place), board, "{place:?}");
    }
}
