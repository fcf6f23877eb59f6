//! What EL3 does for EL2, by its calls, and the registers of the CPU interface that EL2 answers for a guest (part `hybrid`).

use super::machine::{Hardware, firmware_call, isb};
use crate::{Clock, Gate, Memory};
use bulkhead_abi::hypercall::{CALL_KICK, CALL_WATCH, SUCCESS};
use bulkhead_arm::Affinity;
use bulkhead_arm::el2::interface::{ICH_TRAP_COMMON, SYSTEM_REGISTERS};

impl Gate for Hardware {
    fn kick(&self, mpidr: u64) -> bool {
        // What the other core is to find comes before the kick that makes it look.
        self.barrier();
        firmware_call(CALL_KICK, Affinity::of_mpidr(mpidr).0, 0, 0) as u64 == SUCCESS
    }

    fn watch(&self, ticks: u64) {
        firmware_call(CALL_WATCH, ticks, 0, 0);
    }

    fn wait_for_kick(&self) {
        let signals = read_register!("S3_0_C12_C12_7"); // ICC_IGRPEN1_EL1, which is the guest's
        // EL3's interrupts are of group 0. One of the guest that is pending would end the WFI at once, though it is masked.
        write_register!("S3_0_C12_C12_7", 0);
        // The interface has followed before the WFI looks.
        isb();
        self.wait_for_interrupt();
        // No ISB: the guest comes after an ERET, and another wait begins with this write again.
        write_register!("S3_0_C12_C12_7", signals);
    }

    fn reset_interface(&self, traps: bool) {
        // No ISB for any of them: the guest comes after an ERET.
        write_register!("S3_0_C12_C12_3", 0); // ICC_BPR1_EL1
        write_register!("S3_0_C12_C12_5", SYSTEM_REGISTERS); // ICC_SRE_EL1
        write_register!("S3_4_C12_C11_0", if traps { ICH_TRAP_COMMON } else { 0 }); // ICH_HCR_EL2
    }

    fn running_priority(&self) -> u64 {
        read_register!("S3_0_C12_C11_3") // ICC_RPR_EL1
    }

    fn interface_control(&self) -> u64 {
        // ICC_CTLR_EL1, as EL1 sees it: with two security states EL2 has the same one.
        read_register!("S3_0_C12_C12_4")
    }

    fn set_interface_control(&self, value: u64) {
        // ICC_CTLR_EL1: what the guest may set there is its own.
        write_register!("S3_0_C12_C12_4", value);
        // No need for the ISB is known: the guest comes after an ERET.
        isb();
    }
}
