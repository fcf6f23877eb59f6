//! Each kind of fault that EL0 can make ends the thread that made it, and the next component runs as if nothing had been.

use crate::places::{Place, Probes, run};

/// By argument of the probe, from 1 on: kind of the fault (`FaultKind`) and class of the syndrome (ESR_EL1.EC).
const FAULTS: &[(u64, u64)] = &[
    (1, 0x24), // page 0
    (1, 0x24), // the kernel's text, in its half
    (1, 0x24), // a store to the component's own text
    (1, 0x24), // the kernel where it is physically
    (1, 0x24), // the last page of the component's half
    (1, 0x24), // between the halves
    (1, 0x20), // a jump into the kernel
    (1, 0x20), // a jump to the stack
    (4, 0x22), // a program counter that is not aligned
    (2, 0x00), // UDF
    (5, 0x3c), // BRK
    (2, 0x00), // HVC
    (2, 0x00), // SMC
    (2, 0x01), // WFI
    (2, 0x00), // MSR CNTKCTL_EL1
    (2, 0x00), // MRS TTBR0_EL1
    (2, 0x00), // MSR TTBR1_EL1
    (2, 0x18), // MSR DAIFSet
    (2, 0x18), // MSR CNTV_CTL_EL0
    (2, 0x18), // MRS CNTPCT_EL0
    (2, 0x00), // IC IALLU
    (2, 0x00), // TLBI VMALLE1
    (2, 0x18), // DC ZVA
    (2, 0x00), // MRS ICC_IAR1_EL1
    (3, 0x07), // floating point
    (2, 0x00), // ERET
    (2, 0x00), // MRS MPIDR_EL1
    (2, 0x00), // MSR SPSel
    (2, 0x18), // MRS CTR_EL0
];

fn field(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("{name} 0x")).unwrap_or_else(|| panic!("{line:?} has no {name}"));
    let digits = rest.split(',').next().expect("a number");
    u64::from_str_radix(digits.trim(), 16).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// CH-61: what is not a component's own is a fault, of the kind and class that the table says, on the board and in a partition alike.
#[test]
fn each_fault_ends_its_thread_alone_everywhere() {
    let probes = Probes::of(0..=FAULTS.len() as u64);
    let image = probes.bytes();
    let board = run(&image, Place::Board);
    let expected = |argument: u64| format!("component {argument}: ABI version 6, counter 62500000 Hz");
    assert_eq!(board[0], expected(0));
    for (argument, ((kind, class), lines)) in (1..).zip(FAULTS.iter().zip(board[1..].chunks(2))) {
        assert_eq!(lines[0], expected(argument));
        let found = ["component", "thread", "fault"].map(|name| field(&lines[1], name));
        assert_eq!(found, [argument, argument, *kind], "{}", lines[1]);
        assert_eq!(field(&lines[1], "syndrome") >> 26, *class, "{}", lines[1]);
    }
    assert_eq!(board.len(), 1 + 2 * FAULTS.len());
    for place in Place::PARTITIONS {
        assert_eq!(run(&image, place), board, "{place:?}");
    }
}
