//! [`Machine`] on real registers.

use crate::{Clock, Firmware, GuestRegisters, MayPowerOff, Memory, PhysicalInterrupts, VirtualInterrupts};
use crate::{ExitRegisters, FirmwareError, FloatingPoint, GuestContext};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_arm::el2::interface::{
    EOI_MODE_SPLIT, IAR_INTID, ICH_ENABLE, ICH_NO_GROUP_0, ICH_UNDERFLOW, IDLE_PRIORITY, SYSTEM_REGISTERS,
    SYSTEM_REGISTERS_FOR_EL1,
};
use bulkhead_arm::el2::{ISR_INTERRUPT, cptr};
use bulkhead_arm::psci::Function;
use bulkhead_arm::{exception, timer};
use core::sync::atomic::AtomicU64;

/// The machine this monitor runs on. Holds nothing: state is in registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware;

pub(super) fn firmware_call(function: u64, first: u64, second: u64, third: u64) -> i64 {
    let result: u64;
    // SMC and not HVC: the firmware is at EL3, and an HVC from EL2 comes back to EL2.
    // SAFETY: an SMC to the PSCI firmware changes x0-x17 at most (SMCCC 1.1) and no memory of ours.
    unsafe {
        core::arch::asm!(
            "smc #0",
            inout("x0") function => result,
            inout("x1") first => _, inout("x2") second => _, inout("x3") third => _,
            out("x4") _, out("x5") _, out("x6") _, out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _,
            out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
            options(nostack)
        );
    }
    result as i64
}

macro_rules! accessors {
    ($load:ident, $store:ident, $type:ty) => {
        // One instruction each, on every path: shorter than a call to it would be. The compiler inlines them by itself
        // today.
        #[inline(always)]
        fn $load(&self, address: PhysicalAddress) -> $type {
            // SAFETY: (1) the EL2 map is identity and was checked by `bulkhead verify`: an address outside it faults into
            // the epitaph, it cannot corrupt; (2) callers name only planned words, aligned; (3) volatile, so that
            // memory written by other observers is read once.
            unsafe { core::ptr::read_volatile(address.0 as *const $type) }
        }
        // One instruction, as in the load above.
        #[inline(always)]
        fn $store(&self, address: PhysicalAddress, value: $type) {
            // SAFETY: as for the load; (4) no Rust reference to these words exists: they are only reached by address.
            unsafe { core::ptr::write_volatile(address.0 as *mut $type, value) }
        }
    };
}

impl Memory for Hardware {
    accessors!(load32, store32, u32);

    accessors!(load64, store64, u64);

    accessors!(load8, store8, u8);

    #[cfg(feature = "devices")]
    accessors!(load16, store16, u16);

    // `trace.record` is asserted, and has no room for a call.
    #[inline(always)]
    fn store_record(&self, address: PhysicalAddress, words: [u64; 4]) {
        let [first, second, third, fourth] = words;
        // Stores of pairs, by hand: the compiler merges no volatile ones, and two instructions more are above that
        // ceiling.
        // SAFETY: as for `store64`, for four neighbouring words.
        unsafe {
            core::arch::asm!("stp {w0}, {w1}, [{a}]", "stp {w2}, {w3}, [{a}, #16]", w0 = in(reg) first, w1 = in(reg) second,
                w2 = in(reg) third, w3 = in(reg) fourth, a = in(reg) address.0, options(nostack, preserves_flags));
        }
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn publish64(&self, address: PhysicalAddress, value: u64) {
        // Store-release: a reader, on another core or on the host, that sees this word sees what was written before it.
        // SAFETY: as for `store64`, with release order.
        unsafe {
            core::arch::asm!("stlr {v}, [{a}]", v = in(reg) value, a = in(reg) address.0, options(nostack, preserves_flags));
        }
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn publish32(&self, address: PhysicalAddress, value: u32) {
        // Store-release, for the readers that `publish64` has.
        // SAFETY: as for `store32`, with release order.
        unsafe {
            core::arch::asm!("stlr {v:w}, [{a}]", v = in(reg) value, a = in(reg) address.0, options(nostack, preserves_flags));
        }
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn barrier(&self) {
        // DSB and not DMB: a write of a system register may follow (an SGI, a deactivation), which a DMB does not
        // order. For the whole system: the interrupt controller and devices look on as well.
        // SAFETY: a barrier changes no state.
        unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    fn atomic(&self, address: PhysicalAddress) -> &'static AtomicU64 {
        // SAFETY: planned doorbell words are 8-byte aligned, stay mapped for ever, and are only used as atomics.
        unsafe { &*(address.0 as *const AtomicU64) }
    }

    fn scrub(&self, address: PhysicalAddress, bytes: u64) {
        // 4 << BS: DZP was looked at when the core came up, and the other bits are zero.
        let block = 4u64.wrapping_shl(read_register!("dczid_el0") as u32);
        // DC ZVA zeroes a block without reading it; DC CIVAC writes its line back, because a guest starts with its caches off
        // and reads memory past them. Eight blocks a turn: a restart is counted by the byte (`restart.linux`). The DSB
        // waits for the write-backs, which are complete only then.
        // SAFETY: (1) the range is RAM of the calling core's own partition, mapped write-back at EL2, whole pages, and no
        // Rust reference into it exists; (2) eight blocks of DC ZVA end in the page where the first one begins, and a line is
        // no shorter than a block (`life::boot::misfit`).
        unsafe {
            core::arch::asm!(
                "2:", ".rept 8", "dc zva, {a}", "dc civac, {a}", "add {a}, {a}, {b}", ".endr", "cmp {a}, {end}", "b.lo 2b", "dsb sy",
                a = inout(reg) address.0 => _, b = in(reg) block, end = in(reg) address.0.wrapping_add(bytes), options(nostack)
            );
        }
    }

    fn copy_and_check(&self, destination: PhysicalAddress, source: PhysicalAddress, bytes: u64, crc: u32) -> u32 {
        let mut crc = !crc;
        let whole = bytes & !63;
        // Copy and CRC in one pass, by the instruction that there is for it. Each line (of 64 bytes or more: `misfit`) is written
        // back at once, as in `scrub`, but without a DSB: `synchronise_instructions` begins with one, and comes before the guest.
        // SAFETY: (1) destination is RAM of the calling core's own partition, source its pristine copy, both mapped, both
        // 16-byte aligned, and they do not overlap (checked by `bulkhead verify`); (2) no Rust reference into either.
        unsafe {
            core::arch::asm!(
                ".arch_extension crc", "cbz {n}, 3f", "add {n}, {s}, {n}",
                "2:", "ldp {t0}, {t1}, [{s}]", "ldp {t2}, {t3}, [{s}, #16]",
                "crc32cx {c:w}, {c:w}, {t0}", "crc32cx {c:w}, {c:w}, {t1}",
                "stp {t0}, {t1}, [{d}]", "crc32cx {c:w}, {c:w}, {t2}", "crc32cx {c:w}, {c:w}, {t3}",
                "stp {t2}, {t3}, [{d}, #16]",
                "ldp {t0}, {t1}, [{s}, #32]", "ldp {t2}, {t3}, [{s}, #48]",
                "crc32cx {c:w}, {c:w}, {t0}", "crc32cx {c:w}, {c:w}, {t1}",
                "stp {t0}, {t1}, [{d}, #32]", "crc32cx {c:w}, {c:w}, {t2}", "crc32cx {c:w}, {c:w}, {t3}",
                "stp {t2}, {t3}, [{d}, #48]", "dc civac, {d}",
                "add {s}, {s}, #64", "add {d}, {d}, #64", "cmp {s}, {n}", "b.lo 2b", "3:",
                n = inout(reg) whole => _, s = inout(reg) source.0 => _, d = inout(reg) destination.0 => _,
                c = inout(reg) crc, t0 = out(reg) _, t1 = out(reg) _, t2 = out(reg) _, t3 = out(reg) _,
                options(nostack)
            );
        }
        // The tail, at most 63 bytes.
        let mut offset = whole;
        while offset < bytes {
            let byte = self.load8(PhysicalAddress(source.0.wrapping_add(offset)));
            self.store8(PhysicalAddress(destination.0.wrapping_add(offset)), byte);
            // The CRC takes one byte after the other.
            // SAFETY: computes on registers only.
            unsafe {
                core::arch::asm!(".arch_extension crc\n crc32cb {c:w}, {c:w}, {b:w}", c = inout(reg) crc, b = in(reg) u32::from(byte),
                    options(nostack, nomem, preserves_flags, pure));
            }
            offset = offset.wrapping_add(1);
        }
        // For a guest that starts with its caches off, the tail's line too.
        // SAFETY: writing a line of the partition's RAM back to memory changes nothing.
        unsafe {
            core::arch::asm!("dc civac, {}", in(reg) destination.0.wrapping_add(whole), options(nostack, preserves_flags));
        }
        !crc
    }

    fn synchronise_instructions(&self) {
        // DSB: the copies are written back first, or fetches would get what was there before. IC IALLUIS for the
        // partition's other cores too, which fetched the instance before. DSB: it is complete only then. ISB: this core
        // drops what it has fetched ahead.
        // SAFETY: cache maintenance changes no memory content.
        unsafe { core::arch::asm!("dsb sy", "ic ialluis", "dsb sy", "isb", options(nostack, preserves_flags)) };
    }
}

impl Clock for Hardware {
    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn counter_ticks(&self) -> u64 {
        read_register!("cntpct_el0")
    }

    fn set_timer(&self, deadline_ticks: u64) {
        // The date first: enabled with the former one the timer could ring at once.
        write_register!("cnthp_cval_el2", deadline_ticks);
        write_register!("cnthp_ctl_el2", if deadline_ticks == u64::MAX { 0 } else { timer::ENABLE });
    }

    fn wait_for_interrupt(&self) {
        // DSB: what this core has written is seen by others, which may wait for it, before it sleeps.
        // SAFETY: waiting changes no state.
        unsafe { core::arch::asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
    }

    fn spin_hint(&self) {
        // The core that is waited for may share this one's pipeline or, emulated, its host thread.
        // SAFETY: a hint changes no state.
        unsafe { core::arch::asm!("yield", options(nostack, preserves_flags)) };
    }
}

impl PhysicalInterrupts for Hardware {
    fn start_interrupts(&self, mapped: bool) {
        // ICC_SRE_EL2. Without Enable a guest cannot switch the system registers off for the next guest of the core.
        let for_el1 = if mapped { 0 } else { SYSTEM_REGISTERS_FOR_EL1 };
        // First of all, and in force by the ISB: without SRE the other registers of the CPU interface cannot be
        // accessed.
        write_register!("S3_4_C12_C9_5", SYSTEM_REGISTERS | for_el1);
        isb();
        // The guest's copy. No need is known for the ISB behind it, since EL2 goes by its own.
        write_register!("S3_0_C12_C12_5", SYSTEM_REGISTERS); // ICC_SRE_EL1
        isb();
        // Registers of group 0 stay as they are: with two security states they are firmware's, and an access may trap to it.
        // Under `direct` the interface is the guest's, masked and off as after a reset.
        write_register!("S3_0_C12_C12_3", 0); // ICC_BPR1_EL1
        write_register!("S3_0_C12_C12_4", if mapped { EOI_MODE_SPLIT } else { 0 }); // ICC_CTLR_EL1
        self.reset_virtual_interface(mapped);
    }

    fn signal_interrupts(&self) {
        // After mask and mode. No need for the ISB is known: the first interrupt may come later.
        write_register!("S3_0_C12_C12_7", 1); // ICC_IGRPEN1_EL1
        isb();
    }

    // One instruction and a mask, for each interrupt that is taken while no guest runs.
    #[inline(always)]
    fn acknowledge(&self) -> u32 {
        (read_register!("S3_0_C12_C12_0") & IAR_INTID) as u32 // ICC_IAR1_EL1
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn priority_drop(&self, intid: u32) {
        // From here on interrupts that are not more urgent are signalled again; this one stays active.
        write_register!("S3_0_C12_C12_1", u64::from(intid)); // ICC_EOIR1_EL1
    }

    fn deactivate(&self, intid: u32) {
        // From here on it can come again. Apart from the drop, because an interrupt that a guest has yet to handle is
        // not over.
        write_register!("S3_0_C12_C11_1", u64::from(intid)); // ICC_DIR_EL1
    }

    fn send_sgi(&self, value: u64) {
        // DSB: what the other core is to find comes before the interrupt that makes it look. ISB: it is sent now,
        // before this core waits for an answer.
        self.barrier();
        write_register!("S3_0_C12_C11_5", value); // ICC_SGI1R_EL1
        isb();
    }

    fn set_priority_mask(&self, mask: u8) {
        // No need is known for the ISB: a write of the mask is in force at once (IHI 0069, ICC_PMR_EL1:
        // self-synchronising).
        write_register!("S3_0_C4_C6_0", u64::from(mask)); // ICC_PMR_EL1
        isb();
    }

    fn priority_mask(&self) -> u8 {
        read_register!("S3_0_C4_C6_0") as u8
    }

    fn interrupt_waits(&self) -> bool {
        // A pending SError is not asked for: it is taken by a guest, and acknowledging interrupts would never end it.
        read_register!("isr_el1") & ISR_INTERRUPT != 0
    }
}

impl VirtualInterrupts for Hardware {
    // One instruction and a mask, in each exchange.
    #[inline(always)]
    fn free_list_registers(&self) -> u32 {
        read_register!("S3_4_C12_C11_5") as u32 & 0xf // ICH_ELRSR_EL2
    }

    fn list_register(&self, index: u32) -> u64 {
        match index {
            0 => read_register!("S3_4_C12_C12_0"),
            1 => read_register!("S3_4_C12_C12_1"),
            2 => read_register!("S3_4_C12_C12_2"),
            _ => read_register!("S3_4_C12_C12_3"),
        }
    }

    fn set_list_register(&self, index: u32, value: u64) {
        // The guest has it from the ERET on, but ICH_ELRSR_EL2 is read again in the same handler when several interrupts
        // are noted: if it still showed this one free, the next interrupt would take its place and one would be lost.
        // Hence the ISB.
        match index {
            0 => write_register!("S3_4_C12_C12_0", value),
            1 => write_register!("S3_4_C12_C12_1", value),
            2 => write_register!("S3_4_C12_C12_2", value),
            _ => write_register!("S3_4_C12_C12_3", value),
        }
        isb(); // before ICH_ELRSR_EL2 is read again
    }

    fn ended_list_registers(&self) -> u32 {
        read_register!("S3_4_C12_C11_3") as u32 & 0xf // ICH_EISR_EL2
    }

    // ICH_NO_GROUP_0 is in every value of ICH_HCR_EL2. Guests have no interrupts of group 0, but with ICC_AP0R0_EL1, which no exchange
    // would save, one of them could stop the interrupts of every other vCPU of its core.
    fn set_underflow_interrupt(&self, on: bool) {
        let underflow = if on { ICH_UNDERFLOW } else { 0 };
        // No ISB: a maintenance interrupt is taken from the guest, so the ERET before it is early enough.
        write_register!("S3_4_C12_C11_0", ICH_NO_GROUP_0 | ICH_ENABLE | underflow); // ICH_HCR_EL2
    }

    fn enable_virtual_interface(&self, on: bool) {
        // The ISB, because a wait comes next, and no virtual interrupt is to end it.
        write_register!("S3_4_C12_C11_0", ICH_NO_GROUP_0 | u64::from(on)); // ICH_HCR_EL2
        isb();
    }

    fn reset_virtual_interface(&self, mapped: bool) {
        for index in 0..4 {
            self.set_list_register(index, 0);
        }
        // What the run before left. An active priority stops every virtual interrupt that is not more urgent; the
        // physical one, which a `direct` guest can write (attack A9 of `platform-facts.md`), would stop all of the
        // core's interrupts.
        write_register!("S3_4_C12_C9_0", 0); // ICH_AP1R0_EL2
        write_register!("S3_4_C12_C8_0", 0); // ICH_AP0R0_EL2
        write_register!("S3_4_C12_C11_7", 0); // ICH_VMCR_EL2
        write_register!("S3_4_C12_C11_0", if mapped { ICH_NO_GROUP_0 | ICH_ENABLE } else { 0 }); // ICH_HCR_EL2
        write_register!("S3_0_C12_C9_0", 0); // ICC_AP1R0_EL1
        // QEMU drops that write where there are two security states. There the end of any interrupt takes away the most urgent
        // active priority; on a real controller none is left.
        for _ in 0..u32::BITS {
            // The write and each end are to be seen by the read.
            isb();
            if read_register!("S3_0_C12_C11_3") == IDLE_PRIORITY {
                break; // ICC_RPR_EL1
            }
            self.priority_drop(0);
        }
        if !mapped {
            // The interface is the guest's own, and is as after a reset.
            write_register!("S3_0_C12_C12_7", 0); // ICC_IGRPEN1_EL1
            write_register!("S3_0_C4_C6_0", 0); // ICC_PMR_EL1
            write_register!("S3_0_C12_C12_4", 0); // ICC_CTLR_EL1
        }
        // ICH_ELRSR_EL2 is to show these list registers free when the next interrupt is noted.
        isb();
    }
}

impl GuestRegisters for Hardware {
    fn exit_registers(&self) -> ExitRegisters {
        ExitRegisters { fault_address: read_register!("far_el2"), fault_page: read_register!("hpfar_el2") }
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn guest_program_counter(&self) -> u64 {
        read_register!("elr_el2")
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn set_guest_program_counter(&self, value: u64) {
        // No ISB, here and in the next one: the ERET sees ELR_EL2 and SPSR_EL2 without it, as special-purpose
        // registers.
        write_register!("elr_el2", value);
    }

    // One instruction: shorter than a call to it would be.
    #[inline(always)]
    fn guest_state(&self) -> u64 {
        read_register!("spsr_el2")
    }

    fn set_guest_state(&self, value: u64) {
        // No ISB, for the reason given for ELR_EL2.
        write_register!("spsr_el2", value);
    }

    /// Arm ARM D1.10.2: vector offset by the mode the exception comes from.
    fn inject_synchronous(&self, syndrome: u64) {
        let state = read_register!("spsr_el2");
        let offset = match state & exception::STATE_MODE {
            exception::STATE_EL1H => exception::VECTOR_SAME_LEVEL,
            exception::STATE_EL1T => exception::VECTOR_SAME_LEVEL_EL0_STACK,
            mode if mode & exception::STATE_AARCH32 == 0 => exception::VECTOR_LOWER_LEVEL,
            _ => exception::VECTOR_LOWER_LEVEL_AARCH32,
        };
        // What hardware does when EL1 takes an exception. The guest is at its own vector after the ERET.
        write_register!("spsr_el1", state);
        write_register!("elr_el1", read_register!("elr_el2"));
        write_register!("esr_el1", syndrome);
        write_register!("elr_el2", read_register!("vbar_el1").wrapping_add(offset));
        write_register!("spsr_el2", exception::STATE_MASKED | exception::STATE_EL1H);
    }

    fn reset_guest(&self, entry: u64) {
        super::reset::guest_registers(entry);
        // No need for it is known: the guest alone uses these registers, from the ERET on.
        isb();
    }

    fn load_controls(&self, plan: &VcpuPlan) {
        // What confines the guest, before anything of it is loaded. No need for the ISB is known: the guest comes after
        // an ERET, and a TLBI, which goes by the VMID in VTTBR_EL2, after an ISB of its own.
        write_register!("hcr_el2", plan.hcr);
        write_register!("vtcr_el2", plan.vtcr);
        write_register!("vttbr_el2", plan.vttbr);
        write_register!("mdcr_el2", plan.mdcr);
        write_register!("cptr_el2", plan.cptr);
        write_register!("vmpidr_el2", plan.vmpidr);
        isb();
    }

    fn save_guest(&self, context: &mut GuestContext) {
        // SAFETY: writes the context and nothing else, and clobbers only what the C calling convention lets it.
        unsafe { super::bulkhead_save_guest(context) };
    }

    fn load_guest(&self, context: &GuestContext, plan: &VcpuPlan) {
        // SAFETY: reads the context; the registers it writes belong to the guest, and none is used by EL2 code.
        unsafe { super::bulkhead_load_guest(context) };
        // Of what confines guests, vCPUs of a core differ in these alone. No ISB: EL2 translates by registers of its
        // own, and the TLBI of a start has one before it.
        write_register!("vttbr_el2", plan.vttbr);
        write_register!("vmpidr_el2", plan.vmpidr);
    }

    fn save_floating_point(&self, registers: &mut FloatingPoint) {
        // SAFETY: writes the registers' copy and nothing else; EL2 code is compiled without floating point.
        unsafe { super::bulkhead_save_floating_point(registers) };
    }

    fn load_floating_point(&self, registers: &FloatingPoint) {
        // SAFETY: as above; no Rust value lives in floating-point registers.
        unsafe { super::bulkhead_load_floating_point(registers) };
    }

    fn trap_floating_point(&self, on: bool) {
        // The ISB, because the trap is for EL2 too, which moves these registers next when it was switched off.
        write_register!("cptr_el2", if on { cptr::GUEST | cptr::FLOATING_POINT } else { cptr::GUEST });
        isb();
    }

    fn guest_timer_asserted(&self) -> bool {
        timer::is_asserted(read_register!("cntv_ctl_el0")) || timer::is_asserted(read_register!("cntp_ctl_el0"))
    }

    fn guest_timer_ticks(&self) -> u64 {
        let date = |control: u64, ticks: u64| if timer::is_armed(control) { ticks } else { u64::MAX };
        let virtual_ticks = date(read_register!("cntv_ctl_el0"), read_register!("cntv_cval_el0"));
        virtual_ticks.min(date(read_register!("cntp_ctl_el0"), read_register!("cntp_cval_el0")))
    }

    fn invalidate_guest_translations(&self) {
        // DSB: the tables of the guest have been overwritten first. Inner shareable: the partition's other cores walked
        // them too. DSB and ISB: this core continues once that is complete.
        // SAFETY: dropping cached translations of the guest changes no memory.
        unsafe { core::arch::asm!("dsb sy", "tlbi vmalls12e1is", "dsb sy", "isb", options(nostack, preserves_flags)) };
    }
}

impl Firmware for Hardware {
    fn start_core(&self, mpidr: u64, word: u64) -> Result<(), FirmwareError> {
        let entry = super::bulkhead_secondary as *const () as usize as u64;
        #[cfg(feature = "devices")]
        let (_, entry) = (entry, super::bulkhead_secondary_told as *const () as usize as u64);
        match firmware_call(Function::CpuOn64.id(), mpidr, entry, word) {
            0 => Ok(()),
            error => Err(FirmwareError(error)),
        }
    }

    fn power_off(&self, _: impl MayPowerOff) {
        firmware_call(Function::SystemOff.id(), 0, 0, 0);
    }
}

pub(super) fn isb() {
    // A write of a system register is certain to act on the instructions behind it only from here on.
    // SAFETY: a barrier changes no state.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}
