//! What a core does once at boot, after the assembly: check, set up interrupts, start the partition or wait.

use crate::interrupts::{DEFAULT_PRIORITY, MONITOR_SGI};
use crate::life::powers::{Route, Stop};
use crate::observe::at;
use crate::state::{RunState, Vcpu};
use bulkhead_abi::image::{CoreBoot, ImageHeader};
use bulkhead_abi::observe::{CRASH_ADDRESS_BITS, CRASH_CACHE_LINES, CRASH_CORE_TYPE};
use bulkhead_abi::plan::MAX_INTID;
use bulkhead_abi::status::{self, StatusPage};
use bulkhead_abi::{ABI_VERSION, PAGE_BYTES, PhysicalAddress};
use bulkhead_arch::Machine;
use bulkhead_arm::core_type::MIDR_TYPE;
use bulkhead_arm::el2::TCR_PHYSICAL_SHIFT;
use bulkhead_arm::el2::interface::EVERY_PRIORITY;
use bulkhead_arm::{Intid, gic};
use core::mem::offset_of;
use zerocopy::IntoBytes;

/// States whether the image has this build's layouts, an intact header, and the plan area and the monitor that the header says:
/// the boot code found `plan_crc` and `text_crc` for them.
pub fn is_image_sound(header: &ImageHeader, plan_crc: u32, text_crc: u32) -> bool {
    let copy = ImageHeader { header_crc: 0, ..*header };
    header.abi_version == ABI_VERSION
        && crc32c(copy.as_bytes()) == header.header_crc
        && (plan_crc, text_crc) == (header.plan_crc, header.text_crc)
}

/// Says why a core cannot run its plan, if it cannot: the kind of crash, and the register that shows it. The numbers are MIDR_EL1,
/// ID_AA64MMFR0_EL1, CTR_EL0 and DCZID_EL0 of the core.
///
/// Another type has registers that the list of what guests reach does not know, and fewer bits of an address would make another map of
/// the tables. `scrub` writes one line back for each block that it zeroes, eight blocks in a page; `copy_and_check` one for 64 bytes.
pub fn misfit(header: &ImageHeader, record: &CoreBoot, [midr, memory, cache, zeroing]: [u64; 4]) -> Option<(u64, u64)> {
    // PARange 3:0; DminLine 19:16; DZP 4, with which there is no DC ZVA, and BS 3:0. Both sizes as powers of two, of four bytes.
    let (physical, line, block) = (memory & 15, cache >> 16 & 15, zeroing & 31);
    if midr & MIDR_TYPE != record.midr {
        Some((CRASH_CORE_TYPE, midr))
    } else if header.tcr >> TCR_PHYSICAL_SHIFT & 7 > physical {
        Some((CRASH_ADDRESS_BITS, memory))
    } else if line < 4 || block > line.min(7) {
        Some((CRASH_CACHE_LINES, cache << 32 | zeroing))
    } else {
        None
    }
}

/// CRC-32C bit by bit: runs once over one page, so a table would only cost memory.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// Security states of the interrupt controller: two where firmware at EL3 has a world of its own, so that EL2 sees the non-secure half.
/// 0 when what answers contradicts itself and so is no GICv3 (IHI 0069, 12.9: GICD_CTLR.DS, GICD_TYPER.SecurityExtn).
pub fn security_states<M: Machine>(machine: &M, gicd: PhysicalAddress) -> u32 {
    let is_one = machine.load32(gicd) & gic::GICD_CTLR_ONE_SECURITY_STATE != 0;
    let is_two = machine.load32(at(gicd, gic::GICD_TYPER)) & gic::GICD_TYPER_SECURITY_STATES != 0;
    u32::from(is_one != is_two) << u32::from(is_two)
}

/// Sets up the distributor; done by the boot core before any other core runs. Registers that pack several owners'
/// interrupts into one word without a set/clear form (IGROUPR, ICFGR, CTLR) are written here and never again. With two
/// security states groups are firmware's, and a write to IGROUPR has no effect. All interrupts that the distributor has are
/// disabled, beyond those that a plan can name, too: nobody would end one that a boot loader left enabled.
pub fn start_distributor<M: Machine>(machine: &M, header: &ImageHeader) {
    let gicd = header.gicd;
    let lines = (machine.load32(at(gicd, gic::GICD_TYPER)) & gic::GICD_TYPER_LINES).saturating_add(1);
    // Affinity routing, where firmware has switched it on, is not to be switched off again (IHI 0069, GICD_CTLR.ARE_NS).
    machine.store32(gicd, machine.load32(gicd) & gic::GICD_CTLR_AFFINITY_ROUTING);
    wait_until_clear(machine, gicd, gic::GICD_CTLR_WRITE_PENDING);
    for word in 1..u64::from(lines) {
        let offset = word.wrapping_mul(4);
        for register in [gic::IGROUPR, gic::ICENABLER, gic::ICPENDR, gic::ICACTIVER] {
            machine.store32(at(gicd, offset.wrapping_add(register)), u32::MAX);
        }
    }
    for intid in Intid::FIRST_SHARED..lines.wrapping_mul(32) {
        machine.store8(at(gicd, gic::priority_byte(Intid(intid))), DEFAULT_PRIORITY);
    }
    for (index, word) in
        (0..header.gicd_icfgr.len() as u64).zip(header.gicd_icfgr).take((lines as usize).saturating_mul(2)).skip(2)
    {
        machine.store32(at(gicd, index.wrapping_mul(4).wrapping_add(gic::ICFGR)), word);
    }
    machine.store32(gicd, gic::GICD_CTLR_AFFINITY_ROUTING | gic::GICD_CTLR_GROUP_1);
    wait_until_clear(machine, gicd, gic::GICD_CTLR_WRITE_PENDING);
}

/// Waits for a bit of a register to be clear, a bounded number of times.
fn wait_until_clear<M: Machine>(machine: &M, register: PhysicalAddress, bit: u32) {
    for _ in 0..1_000_000 {
        if machine.load32(register) & bit == 0 {
            break;
        }
    }
}

impl<M: Machine> Vcpu<M> {
    /// Wakes this core's redistributor and enables the monitor's own interrupts on it (`mapped`).
    pub fn start_redistributor(&self) {
        let waker = at(self.plan.gicr, gic::GICR_WAKER);
        self.machine.store32(waker, self.machine.load32(waker) & !gic::GICR_WAKER_PROCESSOR_SLEEP);
        wait_until_clear(&self.machine, waker, gic::GICR_WAKER_CHILDREN_ASLEEP);
        // A boot loader may have left message-signalled interrupts on, and with them tables in memory that is now somebody's.
        self.machine.store32(self.plan.gicr, 0); // GICR_CTLR
        let frame = at(self.plan.gicr, gic::SGI_FRAME);
        for register in [gic::ICENABLER, gic::ICPENDR, gic::ICACTIVER] {
            self.machine.store32(at(frame, register), u32::MAX);
        }
        self.begin_private_interrupts();
        self.machine.start_interrupts(self.is_mapped());
        // Under `direct`, until its guest starts, only to see that it can be written.
        self.machine.set_priority_mask(EVERY_PRIORITY);
        if self.is_mapped() {
            self.machine.signal_interrupts();
        }
        // This core is not to wait or to enter a guest before its redistributor has been told what is its own.
        self.machine.barrier();
    }

    /// Clears the pages that this core writes for others: the partition's status and its manage page.
    pub fn clear_published_pages(&self) {
        let manage = self.partition.manage.get(self.partition.index as usize).copied().unwrap_or_default();
        for page in [self.plan.status, manage] {
            let mut offset = 0;
            while page.0 != 0 && offset < PAGE_BYTES {
                self.machine.store64(at(page, offset), 0);
                offset = offset.wrapping_add(8);
            }
        }
        for (offset, byte) in (0u64..).zip(self.partition.name) {
            self.machine.store8(at(self.plan.status, (offset_of!(StatusPage, name) as u64).wrapping_add(offset)), byte);
        }
    }

    /// Sets this core up for its vCPU, or for the first of them.
    pub fn begin_core(&self) {
        self.machine.load_controls(self.plan);
        self.start_redistributor();
    }

    /// The first interrupt of the monitor on this core, or of this vCPU's guest, that is not EL2's to set. Of one that firmware kept
    /// for the secure world, or that does not exist, enable and priority read as zero (IHI 0069, 12.9: GICD_IPRIORITYR), and
    /// what they are looked for was written when the distributor and this redistributor were set up. So does a priority mask
    /// that firmware keeps for itself, under which no interrupt would come (ICC_PMR_EL1, with SCR_EL3.FIQ): [`Intid::NONE`].
    /// Message-signalled interrupts, where the redistributor does not let them be switched off any more, are one, too.
    /// The console's is looked for by who takes the focus first, because the monitor's own priority reads as zero as well.
    pub fn refused_interrupt(&self) -> Option<u32> {
        if self.machine.priority_mask() == 0 {
            return Some(Intid::NONE.0);
        }
        // GICR_CTLR.
        if self.machine.load32(self.plan.gicr) & gic::GICR_CTLR_MESSAGE_SIGNALLED != 0 {
            return Some(Intid::MESSAGE_SIGNALLED.0);
        }
        let enabled = self.machine.load32(at(self.plan.gicr, gic::SGI_FRAME.wrapping_add(gic::ISENABLER)));
        let disabled = if self.is_mapped() { self.own_interrupts() & !enabled } else { 0 };
        let is_disabled = |intid| disabled.checked_shr(intid).is_some_and(|bits| bits & 1 != 0);
        let is_used = |intid| self.owned.owns(intid) || self.plan.uart_first != 0 && intid == self.plan.uart_interrupt;
        let has_none = |intid| is_used(intid) && self.machine.load8(self.priority_place(intid)) == 0;
        (0..MAX_INTID).find(|intid| is_disabled(*intid) || has_none(*intid) && !self.may_be_kept(*intid))
    }

    /// Puts the partition's first start under way.
    pub fn begin_partition(&mut self) {
        if self.is_lead() {
            self.clear_published_pages();
            self.reset_shared_interrupts(Stop(()), Route(()));
            self.start_console_input(Route(()));
            self.start_partition(status::REASON_NONE);
        } else {
            self.run = RunState::Off;
            self.set_phase(3);
            // It may have been told to start already: only now an interrupt reaches it.
            self.send_sgi_to_vcpu(0, MONITOR_SGI);
        }
    }
}
