//! What a guest can do to the emulator itself, which is part of the machine and not of Bulkhead: the one known case.

use bulkhead_run::{RunError, exit_code};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::{LIMIT, System};

/// Sends itself an SGI with a binary point of 8, which the architecture cuts to three bits, and takes it.
fn binary_point_of_eight() -> Program {
    let mut program = Program::new();
    program.constant(0, 0x080b_0000).constant(1, 1).store32(1, 0, 0x100); // GICR_ISENABLER0: SGI 0
    program.constant(1, 0xff).word(0xd518_4601); // MSR ICC_PMR_EL1, x1
    program.constant(1, 1).word(0xd518_cce1); // MSR ICC_IGRPEN1_EL1, x1
    program.constant(1, 8).word(0xd518_cc61).word(0xd503_3fdf); // MSR ICC_BPR1_EL1, x1; ISB
    program.constant(1, 1).word(0xd518_cba1).word(0xd503_3fdf); // MSR ICC_SGI1R_EL1, x1; ISB
    program.word(0xd538_cc02); // MRS x2, ICC_IAR1_EL1
    program.stay();
    program
}

/// QEMU keeps three bits of a binary point that it compared before it cut it, and ends itself over the zero that is left, at the
/// next interrupt. Nothing but a trap on every interrupt would keep a `mapped` guest from it (docs/caveats.md), so this is what
/// the tool says when it happens. Should this test find a QEMU that survives it, the claim is out of date.
#[test]
fn a_guest_can_end_this_emulator_and_the_tool_says_so() {
    let system = System::with_programs("remote", &[], &[("remote", &binary_point_of_eight())]);
    let mut running = system.start();
    let error =
        running.wait_for_end(LIMIT).expect_err("this QEMU outlives ICC_BPR1_EL1 = 8: say since when in qemu.rs");
    assert!(matches!(error, RunError::QemuEnded { .. }), "{error}");
    assert_eq!(error.exit_code(), exit_code::QEMU);
    let text = error.to_string();
    for part in ["killed by signal 6", "icv_gprio_mask", "A guest did this", "ICC_BPR1_EL1"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}
