//! The thin layer between monitor logic and the machine.
//!
//! [`Machine`] is everything that the monitor asks of hardware, the sum of six small traits. `el2` implements it with registers and assembly; [`fake`]
//! implements it with ordinary memory, so that all monitor logic runs as host tests (hafnium `src/arch/fake`). Which one
//! is compiled is decided in this file alone. Monitor logic never contains `unsafe` for hardware access: it names physical
//! addresses, and the identity map that the host planned decides what they reach.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(
    target_os = "none",
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

use bulkhead_abi::PhysicalAddress;
use bulkhead_arm::{Intid, ListRegister, timer};
use core::sync::atomic::AtomicU64;

#[cfg(all(target_os = "none", feature = "el1"))]
pub mod el1;
#[cfg(all(target_os = "none", feature = "el2"))]
pub mod el2;
#[cfg(not(target_os = "none"))]
pub mod fake;
#[cfg(feature = "kernel")]
pub mod kernel;

/// General registers of the guest, saved at each exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GuestFrame {
    /// x0 to x30.
    pub x: [u64; 31],
}

impl GuestFrame {
    /// A frame of zeros.
    #[must_use]
    pub const fn zero() -> Self {
        Self { x: [0; 31] }
    }

    /// Returns register `number`; 31 is the zero register.
    #[must_use]
    pub fn register(&self, number: u8) -> u64 {
        self.x.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Sets register `number`; a write to 31 is lost.
    pub fn set_register(&mut self, number: u8, value: u64) {
        if let Some(slot) = self.x.get_mut(usize::from(number)) {
            *slot = value;
        }
    }
}

/// First part of a core's private data, at offsets that the vectors know. While a guest runs, SP_EL2 points here.
#[derive(Debug)]
#[repr(C)]
pub struct CoreHead {
    /// The guest's general registers; must stay first.
    pub frame: GuestFrame,
    /// Stack for handlers.
    pub stack_top: u64,
    /// Address of 256 priorities by INTID; 0 sends that interrupt to the slow path (guests cannot have priority 0).
    pub fast_table: u64,
    /// Address of the first counter value ([`bulkhead_abi::observe::Counter::Exits`], then `Interrupt`).
    pub counters: u64,
}

/// Registers of a vCPU that stay in the machine while it is loaded, in the order of `el2/switch.s`. All zeros is what a
/// vCPU has before its first start, which resets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct GuestContext {
    /// ELR_EL2 and SPSR_EL2, the system registers of EL1 and EL0, ICH_AP1R0_EL2, and from [`Self::TIMERS`] on the timers.
    pub registers: [u64; 30],
    /// ICH_VMCR_EL2.
    pub virtual_interface: u64,
    /// List registers, meaningful when `list_used`.
    pub list: [u64; 4],
    /// Some list register was in use.
    pub list_used: bool,
}

impl GuestContext {
    /// Place of CNTV_CVAL_EL0, CNTV_CTL_EL0, CNTP_CVAL_EL0 and CNTP_CTL_EL0.
    pub const TIMERS: usize = 26;

    /// When the earliest of the vCPU's timers raises its interrupt; `u64::MAX` when none will. A timer whose interrupt is in a
    /// list register has raised it already.
    // In both ways out of the machine, `shared.switch` among them; without it this is a function, and a call there.
    #[inline]
    #[must_use]
    pub fn timer_ticks(&self) -> u64 {
        let [.., virtual_ticks, virtual_control, physical_ticks, physical_control] = self.registers;
        let when = |ticks, control, intid| {
            if timer::is_armed(control) && !(self.list_used && self.lists(intid)) { ticks } else { u64::MAX }
        };
        when(virtual_ticks, virtual_control, Intid::VIRTUAL_TIMER).min(when(
            physical_ticks,
            physical_control,
            Intid::PHYSICAL_TIMER,
        ))
    }

    /// A saved list register has this interrupt, pending or active.
    fn lists(&self, intid: Intid) -> bool {
        self.list.iter().any(|value| ListRegister(*value).is_in_use() && ListRegister(*value).intid() == intid)
    }
}

/// Floating-point and SIMD registers of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct FloatingPoint {
    /// v0 to v31, then FPCR and FPSR.
    pub words: [u64; 66],
}

impl Default for FloatingPoint {
    fn default() -> Self {
        Self { words: [0; 66] }
    }
}

/// Facts of the exit that are in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitRegisters {
    /// FAR_EL2.
    pub fault_address: u64,
    /// HPFAR_EL2.
    pub fault_page: u64,
}

/// Why a PSCI call to the firmware below failed (Arm DEN 0022).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareError(pub i64);

/// Memory and device registers, by physical address.
///
/// Duties of an implementer: a load or store reaches exactly the given address, once, with the given width, in program order for
/// each address.
pub trait Memory {
    /// Reads a byte of memory or of a device register.
    fn load8(&self, address: PhysicalAddress) -> u8;
    /// Reads a 32-bit word.
    fn load32(&self, address: PhysicalAddress) -> u32;
    /// Reads a 64-bit word.
    fn load64(&self, address: PhysicalAddress) -> u64;
    /// Writes a byte.
    fn store8(&self, address: PhysicalAddress, value: u8);
    /// Writes a 32-bit word.
    fn store32(&self, address: PhysicalAddress, value: u32);
    /// Writes a 64-bit word.
    fn store64(&self, address: PhysicalAddress, value: u64);
    /// Reads a register of 16 bits.
    #[cfg(feature = "devices")]
    fn load16(&self, address: PhysicalAddress) -> u16;
    /// Writes a register of 16 bits.
    #[cfg(feature = "devices")]
    fn store16(&self, address: PhysicalAddress, value: u16);
    /// Writes four 64-bit words, 32-byte aligned.
    fn store_record(&self, address: PhysicalAddress, words: [u64; 4]);
    /// Writes a 64-bit word after all earlier writes have become visible (store-release).
    fn publish64(&self, address: PhysicalAddress, value: u64);
    /// Writes a 32-bit word after all earlier writes have become visible (store-release).
    fn publish32(&self, address: PhysicalAddress, value: u32);
    /// Orders all earlier accesses before all later ones, for observers on other cores and devices.
    fn barrier(&self);
    /// Views a 64-bit word in monitor memory as an atomic.
    fn atomic(&self, address: PhysicalAddress) -> &'static AtomicU64;
    /// Fills memory with zeros and writes it back (page-aligned, whole pages).
    fn scrub(&self, address: PhysicalAddress, bytes: u64);
    /// Copies `bytes`, rounded up to 64, writes the destination back, and returns the CRC-32C of the source's `bytes`
    /// appended to bytes whose CRC-32C is `crc` (0 for none).
    fn copy_and_check(&self, destination: PhysicalAddress, source: PhysicalAddress, bytes: u64, crc: u32) -> u32;
    /// Makes copied instructions visible to fetches.
    fn synchronise_instructions(&self);
}

/// The counter, the timer of EL2, and waiting for time to pass.
pub trait Clock {
    /// Reads the physical counter.
    fn counter_ticks(&self) -> u64;
    /// Arms the EL2 physical timer (one shot) for an absolute counter value; `u64::MAX` switches it off.
    fn set_timer(&self, deadline_ticks: u64);
    /// Waits for an interrupt with interrupts masked (returns at once when one is pending).
    fn wait_for_interrupt(&self);
    /// Tells the emulator and SMT siblings that this is a wait loop.
    fn spin_hint(&self);
}

/// The physical CPU interface of the calling core.
pub trait PhysicalInterrupts {
    /// Sets up the CPU interface; `mapped` with split priority drop and the virtual interface on. Nothing is signalled yet.
    fn start_interrupts(&self, mapped: bool);
    /// Lets the CPU interface signal the interrupts that are EL2's, those of group 1 (ICC_IGRPEN1_EL1): with two security states
    /// the non-secure ones.
    fn signal_interrupts(&self);
    /// Acknowledges the highest pending interrupt; 1023 when none.
    fn acknowledge(&self) -> u32;
    /// Drops the running priority of an acknowledged interrupt.
    fn priority_drop(&self, intid: u32);
    /// Deactivates an interrupt.
    fn deactivate(&self, intid: u32);
    /// Sends a software-generated interrupt: an ICC_SGI1R_EL1 value.
    fn send_sgi(&self, value: u64);
    /// Lets only interrupts be signalled to this core that are more urgent than this (ICC_PMR_EL1, as EL2 sees it); the others stay
    /// pending.
    fn set_priority_mask(&self, mask: u8);
    /// Reads that mask.
    fn priority_mask(&self) -> u8;
    /// A physical interrupt waits to be acknowledged.
    fn interrupt_waits(&self) -> bool;
}

/// The virtual CPU interface of the calling core: what its guest is given.
pub trait VirtualInterrupts {
    /// Bit n = list register n is free.
    fn free_list_registers(&self) -> u32;
    /// Reads list register `index` (0..4).
    fn list_register(&self, index: u32) -> u64;
    /// Writes list register `index` (0..4).
    fn set_list_register(&self, index: u32, value: u64);
    /// Bit n = list register n was made with [`ListRegister::END_OF_INTERRUPT`] and the guest has ended its interrupt.
    fn ended_list_registers(&self) -> u32;
    /// Asks for (or stops) a maintenance interrupt when at most one list register is in use.
    fn set_underflow_interrupt(&self, on: bool);
    /// Switches the virtual interface on or off, its list registers kept. While it is on, a virtual interrupt that is
    /// pending for the guest ends every wait of the monitor.
    fn enable_virtual_interface(&self, on: bool);
    /// Clears list registers, active priorities and the guest's view of the CPU interface.
    fn reset_virtual_interface(&self, mapped: bool);
}

/// Registers of the guest that is loaded on the calling core, and what confines it.
pub trait GuestRegisters {
    /// Fault addresses of the current exit.
    fn exit_registers(&self) -> ExitRegisters;
    /// ELR_EL2.
    fn guest_program_counter(&self) -> u64;
    /// Sets ELR_EL2.
    fn set_guest_program_counter(&self, value: u64);
    /// SPSR_EL2: the guest's processor state at the exit.
    fn guest_state(&self) -> u64;
    /// Sets SPSR_EL2.
    fn set_guest_state(&self, value: u64);
    /// Makes the guest take an exception to its EL1: synchronous, with this ESR_EL1 value.
    fn inject_synchronous(&self, syndrome: u64);
    /// Resets the guest's system, floating-point and timer registers to architectural values and sets its entry point.
    fn reset_guest(&self, entry: u64);
    /// Loads HCR_EL2 and the other control registers of the core's plan.
    fn load_controls(&self, plan: &bulkhead_abi::plan::VcpuPlan);
    /// Moves the registers of the vCPU that is loaded into `context`, list registers apart.
    fn save_guest(&self, context: &mut GuestContext);
    /// Loads a vCPU: its registers, list registers apart, and what of its plan differs between vCPUs of a core.
    fn load_guest(&self, context: &GuestContext, plan: &bulkhead_abi::plan::VcpuPlan);
    /// Copies the floating-point registers out.
    fn save_floating_point(&self, registers: &mut FloatingPoint);
    /// Loads the floating-point registers.
    fn load_floating_point(&self, registers: &FloatingPoint);
    /// Makes the guest's use of floating point an exit, or no exit.
    fn trap_floating_point(&self, on: bool);
    /// A timer of the loaded vCPU raises its interrupt now.
    fn guest_timer_asserted(&self) -> bool;
    /// Counter ticks at which the earliest enabled timer of the loaded vCPU raises its interrupt; `u64::MAX` when none will.
    fn guest_timer_ticks(&self) -> u64;
    /// Drops all cached translations of the current VMID on this core's inner-shareable domain.
    fn invalidate_guest_translations(&self);
}

/// A value that only code can make that may power the board off. The monitor has one such type, which its room `life` alone makes.
pub trait MayPowerOff {}

/// The firmware below.
pub trait Firmware {
    /// Starts a core at the monitor's secondary entry (PSCI CPU_ON), which is told one word. The part `devices` alone hears it.
    ///
    /// # Errors
    /// The firmware's answer when it is not success.
    fn start_core(&self, mpidr: u64, word: u64) -> Result<(), FirmwareError>;
    /// Powers the board off (PSCI SYSTEM_OFF). Returns only if the firmware refuses.
    fn power_off(&self, power: impl MayPowerOff);
}

/// What EL3 does for EL2 below a payload, and the registers of a physical CPU interface that EL2 answers for the guest that has it.
#[cfg(feature = "hybrid")]
pub trait Gate {
    /// Makes a core leave what it does below EL2 and come to its EL2, whatever is masked there. False when EL3 kicks no such core: then it is
    /// the payload's.
    fn kick(&self, mpidr: u64) -> bool;
    /// Has the calling core kicked when this number of ticks is over, within EL3's limits; a kick before ends it. Not on the payload's core.
    fn watch(&self, ticks: u64);
    /// Waits while no interrupt of the guest, which has the physical interface, is signalled. The guest's interrupts stay pending. EL3 ends it: by a
    /// kick, or, on the payload's core, where nobody is kicked, when the payload gives the core back.
    fn wait_for_kick(&self);
    /// Resets what else the guest has of the physical interface, and makes its accesses to the registers below, and to those that send SGIs,
    /// exits (ICH_HCR_EL2.TC) or not.
    fn reset_interface(&self, traps: bool);
    /// Reads ICC_RPR_EL1.
    fn running_priority(&self) -> u64;
    /// Reads ICC_CTLR_EL1.
    fn interface_control(&self) -> u64;
    /// Writes ICC_CTLR_EL1.
    fn set_interface_control(&self, value: u64);
}

/// Everything the monitor asks of a machine.
#[cfg(feature = "hybrid")]
pub trait Machine: Memory + Clock + PhysicalInterrupts + VirtualInterrupts + GuestRegisters + Firmware + Gate {}

#[cfg(feature = "hybrid")]
impl<All: Memory + Clock + PhysicalInterrupts + VirtualInterrupts + GuestRegisters + Firmware + Gate> Machine for All {}

/// Everything the monitor asks of a machine.
#[cfg(not(feature = "hybrid"))]
pub trait Machine: Memory + Clock + PhysicalInterrupts + VirtualInterrupts + GuestRegisters + Firmware {}

#[cfg(not(feature = "hybrid"))]
impl<All: Memory + Clock + PhysicalInterrupts + VirtualInterrupts + GuestRegisters + Firmware> Machine for All {}
