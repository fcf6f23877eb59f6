//! A machine made of ordinary memory, for host tests of monitor logic (house rule 7).
//!
//! Memory is a sparse map of 64-bit words. A distributor and redistributor are words as well, so a test states what the monitor wrote,
//! but EL2 sees them in the form that the board has ([`View`]). Interrupts are queued by the test and acknowledged by the code under
//! test, if they are signalled.

mod clock;
mod controller;
mod firmware;
#[cfg(feature = "hybrid")]
mod gate;
mod guest;
#[cfg(feature = "kernel")]
pub mod kernel;
mod memory;
mod physical;
mod virtual_interface;

pub use controller::View;

use crate::{
    Clock, ExitRegisters, Firmware, FirmwareError, FloatingPoint, GuestContext, GuestRegisters, MayPowerOff, Memory,
    PhysicalInterrupts, VirtualInterrupts,
};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_arm::{Intid, ListRegister, gic, pl011};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// What the code under test did to the machine, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An interrupt's priority was dropped.
    PriorityDrop(u32),
    /// An interrupt was deactivated.
    Deactivate(u32),
    /// ICC_SGI1R_EL1 was written.
    SendSgi(u64),
    /// The guest got a synchronous exception with this ESR_EL1.
    Inject(u64),
    /// The guest's registers were reset to this entry point.
    ResetGuest(u64),
    /// A range was scrubbed.
    Scrub(u64, u64),
    /// A segment was copied: destination, source, bytes.
    Copy(u64, u64, u64),
    /// A core was started.
    StartCore(u64),
    /// The board was powered off.
    PowerOff,
    /// EL3 kicked the core of this MPIDR_EL1.
    #[cfg(feature = "hybrid")]
    Kick(u64),
    /// EL3 was asked to kick this core when this number of ticks is over.
    #[cfg(feature = "hybrid")]
    Watch(u64),
    /// The EL2 timer was armed (`Some`) or stopped.
    Timer(Option<u64>),
}

/// The fake machine: a handle, so that the vCPUs of a shared core are on one machine.
#[derive(Clone, Debug, Default)]
pub struct FakeMachine(Rc<FakeState>);

impl Deref for FakeMachine {
    type Target = FakeState;

    fn deref(&self) -> &FakeState {
        &self.0
    }
}

/// What the world around a core does.
type World = fn(&FakeMachine);

/// What the fake machine consists of.
#[derive(Debug, Default)]
pub struct FakeState {
    /// Memory by 8-byte word address.
    pub words: RefCell<BTreeMap<u64, u64>>,
    /// Everything that happened.
    pub events: RefCell<Vec<Event>>,
    /// Interrupts waiting to be acknowledged.
    pub pending: RefCell<VecDeque<u32>>,
    /// Times that is asked whether an interrupt waits before those in [`Self::pending`] do.
    pub quiet_polls: Cell<u32>,
    /// Interrupts that are active in the interrupt controller: acknowledged and not deactivated.
    pub active: RefCell<BTreeSet<u32>>,
    /// The interrupt controller: the distributor and the frame of private interrupts.
    pub frames: Cell<[u64; 2]>,
    /// Shared interrupts that were disabled and not enabled again.
    pub disabled: RefCell<BTreeSet<u32>>,
    /// What the frame of private interrupts in [`Self::frames`] has enabled of its first word.
    pub enabled: Cell<u32>,
    /// List registers.
    pub list: [Cell<u64>; 4],
    /// The counter; a wait advances it to the armed deadline.
    pub now: Cell<u64>,
    /// FAR_EL2 and HPFAR_EL2.
    pub exit: Cell<(u64, u64)>,
    /// ELR_EL2.
    pub program_counter: Cell<u64>,
    /// ICH_HCR_EL2.UIE.
    pub underflow: Cell<bool>,
    /// Answer of `copy_and_check`; `None` = the CRC of the fake memory's bytes.
    pub crc: Cell<Option<u32>>,
    /// Registers of the loaded vCPU, as in [`GuestContext::registers`].
    pub registers: Cell<[u64; 30]>,
    /// VTTBR_EL2 of the vCPU that was loaded last.
    pub translation_root: Cell<u64>,
    /// Floating-point registers.
    pub floating_point: Cell<FloatingPoint>,
    /// CPTR_EL2.TFP.
    pub floating_point_traps: Cell<bool>,
    /// The form of the interrupt controller.
    pub view: Cell<View>,
    /// Interrupts that firmware kept for the secure world.
    pub secure: RefCell<BTreeSet<u32>>,
    /// ICC_PMR_EL1, the physical value.
    pub mask: Cell<u8>,
    /// ICC_IGRPEN1_EL1.
    pub signals: Cell<bool>,
    /// Counter ticks that pass at each turn of a wait loop.
    pub ticks_per_spin: Cell<u64>,
    /// Counter ticks that pass behind each reading of the counter.
    pub ticks_per_reading: Cell<u64>,
    /// Counter ticks that pass at each store of 32 bits.
    pub ticks_per_store: Cell<u64>,
    /// What the world does while the core waits for an interrupt, in place of advancing the counter to the deadline.
    pub on_wait: Cell<Option<World>>,
    /// The MPIDR_EL1 of the core that EL3 kicks for nobody, because it is the payload's; `None`: there is no EL3 that answers.
    #[cfg(feature = "hybrid")]
    pub payload_mpidr: Cell<Option<u64>>,
    /// ICH_HCR_EL2.TC.
    #[cfg(feature = "hybrid")]
    pub interface_traps: Cell<bool>,
    /// ICC_CTLR_EL1.
    #[cfg(feature = "hybrid")]
    pub interface_control: Cell<u64>,
    /// When EL3 kicks this core: the end of a watch, or of the time after which a kick that found EL2 is tried again.
    #[cfg(feature = "hybrid")]
    pub kick_date: Cell<Option<u64>>,
    /// What the world does before an access, behind the number of others that come first: loads, stores of words, readings of the counter, and calls.
    pub at_access: Cell<Option<(u64, World)>>,
    /// The address of a UART (PL011), of which there are the flags and what it received; 0: there is none.
    pub uart: Cell<u64>,
    /// What that UART received and nobody has read.
    pub received: RefCell<VecDeque<u8>>,
    /// Registers of 16 bits that notice late what was written: bits that they show for this number of reads after they were cleared.
    #[cfg(feature = "devices")]
    pub late: RefCell<BTreeMap<u64, (u32, u16)>>,
    /// The date that the EL2 timer is armed for.
    pub deadline: Cell<Option<u64>>,
    atomics: RefCell<BTreeMap<u64, &'static AtomicU64>>,
}

impl FakeMachine {
    /// Before each access.
    fn before_access(&self) {
        match self.at_access.get() {
            Some((0, world)) => {
                self.at_access.set(None);
                world(self);
            }
            Some((others, world)) => self.at_access.set(Some((others - 1, world))),
            None => {}
        }
    }
}

impl FakeState {
    /// Returns and forgets what happened so far.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.borrow_mut())
    }

    fn note(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    /// Reads the UART's flags, or the oldest byte that it received; `None` for every other address.
    fn uart_read(&self, address: u64) -> Option<u32> {
        let uart = self.uart.get();
        let mut received = self.received.borrow_mut();
        match address.checked_sub(uart).filter(|_| uart != 0)? {
            pl011::UARTFR => Some(if received.is_empty() { pl011::FLAG_RECEIVE_EMPTY } else { 0 }),
            pl011::UARTDR => Some(received.pop_front().map_or(0, u32::from)),
            _ => None,
        }
    }

    fn word(&self, address: u64) -> u64 {
        self.words.borrow().get(&(address & !7)).copied().unwrap_or(0)
    }

    /// Follows a write to ISACTIVER, ICACTIVER, ISENABLER or ICENABLER.
    fn set_active(&self, address: u64, bits: u32) {
        let [distributor, private] = self.frames.get();
        match address.wrapping_sub(private) {
            gic::ISENABLER => self.enabled.set(self.enabled.get() | bits),
            gic::ICENABLER => self.enabled.set(self.enabled.get() & !bits),
            _ => {}
        }
        let active = |frame: u64| frame.wrapping_add(gic::ISACTIVER)..frame.wrapping_add(gic::IPRIORITYR);
        if let Some(frame) = [active(private), active(distributor)].into_iter().find(|frame| frame.contains(&address)) {
            let place = address - frame.start;
            set_members(&mut self.active.borrow_mut(), place, place < gic::BIT_REGISTER_BYTES, bits);
        }
        let enable = distributor.wrapping_add(gic::ISENABLER)..distributor.wrapping_add(gic::ISPENDR);
        if distributor != 0 && enable.contains(&address) {
            let place = address - enable.start;
            set_members(&mut self.disabled.borrow_mut(), place, place >= gic::BIT_REGISTER_BYTES, bits);
        }
    }

    /// What is read of the distributor's ISACTIVER.
    fn active_word(&self, address: u64) -> Option<u32> {
        let [distributor, _] = self.frames.get();
        let place = address.wrapping_sub(distributor.wrapping_add(gic::ISACTIVER));
        let first = (place < gic::BIT_REGISTER_BYTES && distributor != 0).then(|| place as u32 * 8)?;
        let active = self.active.borrow();
        Some((0..32).filter(|bit| active.contains(&(first + bit))).fold(0, |word, bit| word | 1 << bit))
    }

    fn merge(&self, address: u64, bytes: u32, value: u64) {
        let shift = (address & 7) * 8;
        let mask = if bytes == 8 { u64::MAX } else { ((1u64 << (bytes * 8)) - 1) << shift };
        let mut words = self.words.borrow_mut();
        let word = words.entry(address & !7).or_default();
        *word = (*word & !mask) | ((value << shift) & mask);
    }

    fn bytes(&self, address: u64, count: u64) -> Vec<u8> {
        let byte = |address: u64| (self.word(address) >> ((address & 7) * 8)) as u8;
        (0..count).map(|offset| byte(address + offset)).collect()
    }
}

/// Puts the interrupts of a register into a set or takes them out. `place` is the register's, in a pair of those that set and those that clear.
fn set_members(set: &mut BTreeSet<u32>, place: u64, are_in: bool, bits: u32) {
    for bit in (0..32).filter(|bit| bits & 1 << bit != 0) {
        let intid = (place as u32 & 0x7c) * 8 + bit;
        if are_in {
            set.insert(intid)
        } else {
            set.remove(&intid)
        };
    }
}

fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!before, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |value, _| if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 },
        )
    })
}
