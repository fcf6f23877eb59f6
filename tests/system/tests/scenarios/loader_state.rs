//! The state of the core at the image's first instruction: the monitor needs what the arm64 boot protocol promises (EL2, MMU off,
//! interrupts masked, the image at its place and in memory) and nothing else.
//!
//! A boot loader of a few words leaves behind what a careless one could: every EL2 register that it may write with another value, a timer
//! that rang, interrupts enabled, pending and one of them active, no device tree. It lies behind the image, whose first word branches to
//! it: so it runs on every board, at EL2, with firmware below. It puts the first word back and jumps there.

use crate::hello;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::observe::Counter;
use bulkhead_run::{End, MachineOptions};
use bulkhead_system_tests::System;
use bulkhead_system_tests::assemble::Program;

/// A system register: op0, op1, CRn, CRm, op2.
pub(crate) type Register = (u32, u32, u32, u32, u32);

const ICC_IAR1_EL1: Register = (3, 0, 12, 12, 0);
/// From a redistributor to its frame of private interrupts.
const PRIVATE: u64 = 0x1_0000;

/// Values that no monitor would choose. Translation, traps and the virtual interface are those of a hypervisor that ended.
const REGISTERS: &[(Register, u64)] = &[
    ((3, 4, 1, 1, 0), 0x0000_0000_8000_003f | 1 << 27), // HCR_EL2: a guest's, with all exceptions routed to EL2, and TGE
    ((3, 4, 1, 1, 1), 0x0000_0fff),                     // MDCR_EL2: everything is trapped
    ((3, 4, 1, 1, 2), 0xffff_ffff),                     // CPTR_EL2
    ((3, 4, 1, 1, 3), 0xffff),                          // HSTR_EL2
    ((3, 4, 2, 0, 0), 0xdead_f000),                     // TTBR0_EL2
    ((3, 4, 2, 0, 2), 0x8080_3520),                     // TCR_EL2
    ((3, 4, 2, 1, 0), 0x00ff_dead_f000),                // VTTBR_EL2
    ((3, 4, 2, 1, 2), 0x8002_3559),                     // VTCR_EL2
    ((3, 4, 10, 2, 0), 0x0123_4567_89ab_cdef),          // MAIR_EL2
    ((3, 4, 12, 0, 0), 0xdead_f800),                    // VBAR_EL2
    ((3, 4, 13, 0, 2), 0xdead_f000),                    // TPIDR_EL2
    ((3, 4, 0, 0, 0), 0x1234_5678),                     // VPIDR_EL2
    ((3, 4, 0, 0, 5), 0x8000_0077),                     // VMPIDR_EL2
    ((3, 4, 14, 1, 0), 0),                              // CNTHCTL_EL2: the guest's counters are trapped
    ((3, 4, 14, 0, 3), 0x0123_4567_89ab),               // CNTVOFF_EL2
    ((3, 4, 14, 2, 2), 0),                              // CNTHP_CVAL_EL2: long ago
    ((3, 4, 14, 2, 1), 1),                              // CNTHP_CTL_EL2: on, so it rings
    ((3, 3, 14, 2, 2), 0),                              // CNTP_CVAL_EL0
    ((3, 3, 14, 2, 1), 1),                              // CNTP_CTL_EL0
    ((3, 3, 14, 3, 2), 0),                              // CNTV_CVAL_EL0
    ((3, 3, 14, 3, 1), 1),                              // CNTV_CTL_EL0
    ((3, 0, 1, 0, 0), 0x30d0_1985 & !1),                // SCTLR_EL1
    ((3, 0, 12, 0, 0), 0xdead_f800),                    // VBAR_EL1
    ((3, 3, 9, 12, 0), 0x41),                           // PMCR_EL0: counting
    ((3, 4, 12, 9, 5), 0xf),                            // ICC_SRE_EL2
    ((3, 0, 12, 12, 4), 2),                             // ICC_CTLR_EL1: EOImode
    ((3, 0, 12, 12, 3), 3),                             // ICC_BPR1_EL1
    ((3, 0, 4, 6, 0), 0xff),                            // ICC_PMR_EL1
    ((3, 0, 12, 12, 7), 1),                             // ICC_IGRPEN1_EL1
    ((3, 4, 12, 11, 0), 1),                             // ICH_HCR_EL2: on
    ((3, 4, 12, 11, 7), 0xf80c_0012),                   // ICH_VMCR_EL2
    ((3, 4, 12, 9, 0), 0x8000),                         // ICH_AP1R0_EL2: a virtual interrupt is active
    ((3, 4, 12, 12, 0), 0x5010_0000_0000_0022),         // ICH_LR0_EL2: one is pending
    ((3, 4, 12, 12, 3), 0x9010_0000_0000_0023),         // ICH_LR3_EL2: one is active
];

/// Everything of the interrupt controller is enabled and pending, at the best priority: PPIs and SGIs, and the first 32 SPIs. With two
/// security states groups and the redistributor's sleep are firmware's, and the writes change nothing.
const DISTRIBUTOR: &[(u64, u32)] = &[(0, 0x12), (0x84, u32::MAX), (0x420, 0), (0x104, u32::MAX), (0x204, u32::MAX)];
const REDISTRIBUTOR: &[(u64, u32)] = &[
    (0x14, 0),
    (PRIVATE + 0x80, u32::MAX),
    (PRIVATE + 0x400, 0),
    (PRIVATE + 0x100, u32::MAX),
    (PRIVATE + 0x200, u32::MAX),
];

/// Encodes MSR from x0; with bit 21 set it is MRS.
pub(crate) fn encoding(register: Register) -> u32 {
    let (op0, op1, crn, crm, op2) = register;
    0xd510_0000 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

/// The loader: as above, then the image's first word, on the stack pointer of EL0.
fn loader(system: &System) -> Program {
    let (board, image_start) = (&system.model.board, system.plan().header.image_start.0);
    let mut program = Program::new();
    program.word(0xd503_4fdf); // MSR DAIFSet, #15
    let first = u32::from_le_bytes(system.image[..4].try_into().expect("four bytes"));
    program.constant(0, u64::from(first)).constant(1, image_start).store32(0, 1, 0).barrier();
    program.word(0xd50b_7521).barrier().word(0xd503_3fdf); // IC IVAU, x1; ISB
    for (register, value) in REGISTERS {
        program.constant(0, *value).word(encoding(*register)).word(0xd503_3fdf); // MSR; ISB
    }
    let frames = [(board.gicd.0, DISTRIBUTOR), (board.gicr[0].0, REDISTRIBUTOR)];
    for (address, value) in
        frames.iter().flat_map(|(frame, words)| words.iter().map(move |word| (frame + word.0, word.1)))
    {
        program.constant(0, u64::from(value)).constant(1, address).store32(0, 1, 0);
    }
    // One interrupt is acknowledged and never ended.
    program.barrier().word(encoding(ICC_IAR1_EL1) | 1 << 21);
    for register in 0..30 {
        program.constant(register, 0x5a5a_0000_0000_0000 | u64::from(register) << 32);
    }
    program.word(0xd503_44ff).word(0xd500_40bf); // MSR DAIFClr, #4: SErrors, as U-Boot leaves them; MSR SPSel, #0
    program.constant(30, image_start).jump(30);
    program
}

/// Lets the machine start with the loader: the image's first word leads there.
fn start_by_loader(system: &System, options: &mut MachineOptions) {
    let place = options.image.len().next_multiple_of(PAGE_BYTES as usize);
    options.image.resize(place, 0);
    options.image.extend(loader(system).bytes());
    options.image[..4].copy_from_slice(&(0x1400_0000 | (place as u32 / 4)).to_le_bytes()); // B
}

/// QV-1, QV-2: whatever the boot core was left in, its guest starts, and so does one on a core that it starts.
#[test]
fn nothing_rests_on_what_a_loader_leaves_in_registers() {
    let system = hello::system(2);
    hello::judge(system.start_with(|options| start_by_loader(&system, options)), 2);
}

/// A control loop lives by its timer's interrupts: through list registers, through the physical interface and on a shared core it
/// takes as many as always, and nothing that a loader left reaches it.
#[test]
fn nothing_that_a_loader_left_reaches_a_guest() {
    let direct = "interrupts = \"direct\"";
    let server = "servers = [{ priority = 1, budget = \"500 us\", period = \"5 ms\", minimum = \"140 us\" }]\n\
                  [[schedule]]\ncore = 0\nkind = \"fixed-priority\"";
    for (name, delivery) in [("direct", direct), ("mapped", ""), ("shared", server)] {
        let system = System::changed("control", &[("report=20", "periods=200 report=50"), (direct, delivery)]);
        let facts = |is_by_loader: bool| {
            let mut running = system.start_with(|options| {
                options.icount_shift = Some(0);
                if is_by_loader {
                    start_by_loader(&system, options);
                }
            });
            assert_eq!(running.end(), End::AllEnded, "{name}");
            running.assert_no_crash();
            // The hypervisor's timer, which rang, may still be a monitor's first interrupt. It is no guest's.
            let of_monitor = running.counter("control", Counter::MonitorInterrupt);
            let guests =
                [Counter::Exits, Counter::Interrupt].map(|counter| running.counter("control", counter) - of_monitor);
            ((running.texts("control"), guests), of_monitor)
        };
        let ((usual, of_monitor), (loaded, of_monitor_loaded)) = (facts(false), facts(true));
        assert!(
            of_monitor_loaded <= of_monitor + 1,
            "{name}: {of_monitor_loaded} interrupts of the monitor, not {of_monitor}"
        );
        assert_eq!(usual.0.last().map(String::as_str), Some("done iterations=200 releases_due=200"), "{name}");
        assert_eq!(loaded, usual, "{name}");
    }
}
