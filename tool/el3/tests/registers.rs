//! Every register of EL3 of an Armv8.0-A core, by its encoding, and who sets it: the boot of the secure monitor, before anything below runs, or nobody,
//! with the reason why that is no hole. QEMU resets more of them than a core does.

use bulkhead_el3::Program;
use bulkhead_el3::instruction::{Instruction, read};
use bulkhead_el3::registers::{encoding, name};
use bulkhead_world::context::REGISTERS;
use bulkhead_world::control::NON_SECURE_RESET;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use Set::{Boot, Nobody};

/// Who sets a register.
enum Set {
    /// The boot, in every configuration.
    Boot,
    /// Nobody before it is used, because.
    Nobody(&'static str),
}

/// op1, CRn, CRm and op2 of each (op0 is 3); Arm ARM D17 and IHI 0069, 12.2.
const OF_EL3: &[(&str, [u16; 4], Set)] = &[
    ("SCTLR_EL3", [6, 1, 0, 0], Boot),
    (
        "ACTLR_EL3",
        [6, 1, 0, 1],
        Nobody("zero after reset of a Cortex-A53: lower levels do not write its control registers"),
    ),
    ("SCR_EL3", [6, 1, 1, 0], Boot),
    (
        "SDER32_EL3",
        [6, 1, 1, 1],
        Nobody("debugging of AArch32 at secure EL0, which the payload has not; zero after reset"),
    ),
    ("CPTR_EL3", [6, 1, 1, 2], Boot),
    ("MDCR_EL3", [6, 1, 3, 1], Boot),
    ("TTBR0_EL3", [6, 2, 0, 0], Nobody("stage 1 is off")),
    ("TCR_EL3", [6, 2, 0, 2], Nobody("stage 1 is off")),
    ("SPSR_EL3", [6, 4, 0, 0], Boot),
    ("ELR_EL3", [6, 4, 0, 1], Boot),
    ("SP_EL2", [6, 4, 1, 0], Nobody("of the other world, which sets it before it uses it")),
    ("AFSR0_EL3", [6, 5, 1, 0], Nobody("reads as zero")),
    ("AFSR1_EL3", [6, 5, 1, 1], Nobody("reads as zero")),
    ("ESR_EL3", [6, 5, 2, 0], Nobody("set by the exception behind which it is read")),
    ("FAR_EL3", [6, 6, 0, 0], Nobody("set by the exception behind which it is read")),
    ("MAIR_EL3", [6, 10, 2, 0], Nobody("stage 1 is off")),
    ("AMAIR_EL3", [6, 10, 3, 0], Nobody("reads as zero")),
    ("VBAR_EL3", [6, 12, 0, 0], Boot),
    ("RVBAR_EL3", [6, 12, 0, 1], Nobody("cannot be written")),
    ("RMR_EL3", [6, 12, 0, 2], Nobody("asks for a reset when it is written, which it is not")),
    ("ICC_CTLR_EL3", [6, 12, 12, 4], Boot),
    ("ICC_SRE_EL3", [6, 12, 12, 5], Boot),
    ("ICC_IGRPEN1_EL3", [6, 12, 12, 7], Boot),
    ("TPIDR_EL3", [6, 13, 0, 2], Nobody("read by `multi` alone, whose boot sets it")),
    ("CNTPS_TVAL_EL1", [7, 14, 2, 0], Nobody("another view of CNTPS_CVAL_EL1")),
    ("CNTPS_CTL_EL1", [7, 14, 2, 1], Nobody("the payload's, or set by a watch; its interrupt is off before")),
    ("CNTPS_CVAL_EL1", [7, 14, 2, 2], Nobody("the payload's, or set by a watch; its interrupt is off before")),
];

/// Written besides: by the boot, in the secure state, and by what only `multi` has.
const BESIDES: &[&str] = &[
    "S3_0_C12_C12_6", // ICC_IGRPEN0_EL1
    "S3_3_C14_C0_0",  // CNTFRQ_EL0
    "S3_0_C12_C8_1",  // ICC_EOIR0_EL1
    "S3_0_C12_C11_7", // ICC_SGI0R_EL1
    "S3_0_C12_C11_5", // ICC_SGI1R_EL1
    "spsr_el2",
    "elr_el2",
    "cntp_ctl_el0",
    "cntv_ctl_el0",
];

fn of(fields: [u16; 4]) -> u16 {
    let [op1, crn, crm, op2] = fields;
    3 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}

fn program(configuration: &str) -> Program {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    let guests = std::env::var_os("BULKHEAD_GUESTS").map_or_else(usual, PathBuf::from);
    let file = guests.join(format!("../secure-monitor/{configuration}.elf"));
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run ./x build first", file.display()));
    Program::read(&bytes).unwrap_or_else(|why| panic!("{why}"))
}

/// System registers that instructions between two addresses write.
fn written(program: &Program, from: u64, to: u64) -> BTreeSet<u16> {
    let all = program.instructions().filter(|(at, _)| (from..to).contains(at));
    let system = all.filter_map(|(at, word)| match read(word, at) {
        Some(Instruction::WriteSystem { system, .. }) => Some(system),
        _ => None,
    });
    system.collect()
}

/// SG-2, SG-6, SG-9.
#[test]
fn every_register_of_el3_is_set_at_boot_or_has_its_reason() {
    for configuration in ["dual", "multi"] {
        let program = program(configuration);
        let boot = written(&program, 0, 0x200);
        let all = written(&program, 0, u64::MAX);
        for (register, fields, set) in OF_EL3 {
            let number = of(*fields);
            match set {
                Boot => assert!(
                    boot.contains(&number),
                    "the boot of {configuration} leaves {register} as it is after reset"
                ),
                Nobody(why) => {
                    let is_used = ["TPIDR_EL3", "CNTPS_CTL_EL1", "CNTPS_CVAL_EL1"].contains(register);
                    assert!(is_used || !all.contains(&number), "{configuration} writes {register}, although {why}");
                }
            }
        }
        // And nothing is written that is in no list.
        let switched = REGISTERS.iter().chain(NON_SECURE_RESET.iter().map(|(register, _)| register));
        let switched = switched.filter_map(|register| encoding(register.operand));
        let besides = BESIDES.iter().map(|operand| encoding(operand).expect("an operand"));
        let listed: BTreeSet<u16> =
            OF_EL3.iter().map(|(_, fields, _)| of(*fields)).chain(switched).chain(besides).collect();
        let others: Vec<String> = all.difference(&listed).map(|number| name(*number)).collect();
        assert_eq!(others, [] as [&str; 0], "registers that {configuration} writes and nobody lists");
    }
}

/// No row is there twice, and an encoding that the program's reader knows by name is the same here.
#[test]
fn the_table_agrees_with_the_reader() {
    let numbers: BTreeSet<u16> = OF_EL3.iter().map(|(_, fields, _)| of(*fields)).collect();
    assert_eq!(numbers.len(), OF_EL3.len());
    for (register, fields, _) in OF_EL3 {
        if let Some(known) = encoding(&register.to_lowercase()) {
            assert_eq!(known, of(*fields), "{register}");
        }
    }
}
