//! Every register that a core lets a guest read, asked of the core itself: each encoding of MRS, and what is not UNDEFINED has to be in
//! the lists (`core/emulation`) of what traps, is switched, constant or harmless, or be one of this type of core's own.
//!
//! So a type of core is held against a model that others made, not against what the list's author remembered. QEMU 7.2 ignores
//! HCR_EL2.TIDCP, which is a help here: it shows what the type has of its own. What the model lacks (RAMINDEX and its data) is not
//! seen.

use crate::core_state::{access, skip_what_is_undefined};
use bulkhead_emulation::own_registers::{Access, OWN_REGISTERS, OwnRegister};
use bulkhead_emulation::registers::{REGISTER_GROUPS, Treatment, UNSAMPLED, is_identification};
use bulkhead_emulation::state::CORE_STATE;
use bulkhead_emulation::sysreg::{SystemAction, classify};
use bulkhead_emulation::trap::{SystemAccess, encoding};
use bulkhead_system_tests::LIMIT;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::sharing::Description;

/// Says that all were read, and behind it one word for each encoding.
const READY: u64 = GUEST_RAM + 0x20_0000;
const FOUND: u64 = READY + 8;
/// In place of what was read: the read was UNDEFINED.
const MARK: u64 = 0x5ca1_ab1e_0bad_0bad;

/// Each encoding of MRS: op0 is 2 or 3.
fn encodings() -> impl Iterator<Item = u32> {
    (0..1 << 15).map(|number: u32| {
        let field = |shift: u32, bits: u32| number >> shift & ((1 << bits) - 1);
        encoding(2 + field(14, 1), field(11, 3), field(7, 4), field(3, 4), field(0, 3))
    })
}

fn sweep() -> Program {
    let mut program = Program::new();
    skip_what_is_undefined(&mut program);
    // MSR CPACR_EL1, x1: floating point does not trap to EL1.
    program.constant(1, 3 << 20).word(0xd518_1041).constant(0, FOUND).constant(4, MARK);
    for encoding in encodings() {
        // MOV x1, x4; MRS x1, ...; STR x1, [x0], #8
        program.word(0xaa04_03e1).word(access(encoding, 1, true)).word(0xf800_8401);
    }
    program.constant(0, READY).constant(1, 1).store(1, 0, 0).spin();
    program
}

/// Whether the lists say what a core of this type does with a read.
fn is_listed(encoding: u32, kind: &str) -> bool {
    let traps = matches!(classify(SystemAccess { encoding, register: 0, read: true }), SystemAction::Read(_));
    let is_own = |own: &OwnRegister| {
        own.encoding == encoding
            && own.types.contains(&kind)
            && matches!(own.access, Access::ReadWrite | Access::ReadOnly)
    };
    let is_sample = REGISTER_GROUPS.iter().any(|group| {
        let is_reached = matches!(group.treatment, Treatment::Harmless | Treatment::Switched);
        is_reached && group.samples.contains(&encoding)
    });
    let is_unsampled = UNSAMPLED.iter().any(|(_, one)| *one == encoding);
    let is_state = CORE_STATE.iter().any(|one| one.encoding == encoding);
    let is_guests = is_sample || is_unsampled || is_state || is_identification(encoding);
    traps || is_guests || OWN_REGISTERS.iter().any(is_own)
}

/// QV-8: on this board's type of core, no register is within reach of a guest that the lists do not name.
#[test]
fn every_register_that_a_core_lets_a_guest_read_is_listed() {
    let description = Description::new("own-registers").program("first", 0, "one", "");
    let system = description.build_with(&[("one", &sweep())]);
    let kind = system.model.board.core_types[0].expect("a type that is known").name;
    let mut running = system.start();
    let ram = running.watch().plan().partitions[running.index("first")].ram[0].physical.0;
    let ready = bulkhead_abi::PhysicalAddress(ram + READY - GUEST_RAM);
    let waited = running.wait_for("the last register", LIMIT, |view| (view.ram.load_u64(ready)? == 1).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    let mut readable = 0;
    let mut unlisted = Vec::new();
    for (number, encoding) in (0u64..).zip(encodings()) {
        if running.guest_word("first", FOUND + 8 * number) == MARK {
            continue;
        }
        readable += 1;
        if !is_listed(encoding, kind) {
            let part = |shift: u32, bits: u32| encoding >> shift & ((1 << bits) - 1);
            let (op0, op1, op2) = (part(20, 2), part(14, 3), part(17, 3));
            unlisted.push(format!("S{op0}_{op1}_C{}_C{}_{op2}", part(10, 4), part(1, 4)));
        }
    }
    assert_eq!(unlisted, Vec::<String>::new(), "of the {readable} registers that a guest reads on a {kind}");
    assert!(readable >= 150, "only {readable} registers were read");
    running.assert_no_crash();
}
