//! A machine made of ordinary memory, for host tests of monitor logic (house rule 7).
//!
//! Memory is a sparse map of 64-bit words. A distributor and redistributor are plain words, so a test states what the
//! monitor wrote. Interrupts are queued by the test and acknowledged by the code under test.

use crate::{ExitRegisters, FirmwareError, FloatingPoint, GuestContext, Machine};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_arm::{Intid, ListRegister, gic};
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
    /// Where writes to ISACTIVER and ICACTIVER reach [`Self::active`]: the distributor and the frame of private interrupts.
    pub frames: Cell<[u64; 2]>,
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
    /// Only the monitor's own interrupts are signalled: SGI 15, PPIs 25 and 26.
    pub guest_interrupts_masked: Cell<bool>,
    /// Counter ticks that pass at each turn of a wait loop.
    pub ticks_per_spin: Cell<u64>,
    /// Counter ticks that pass behind each reading of the counter.
    pub ticks_per_reading: Cell<u64>,
    /// Counter ticks that pass at each store of 32 bits.
    pub ticks_per_store: Cell<u64>,
    deadline: Cell<Option<u64>>,
    atomics: RefCell<BTreeMap<u64, &'static AtomicU64>>,
}

impl FakeState {
    /// Returns and forgets what happened so far.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.borrow_mut())
    }

    fn note(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    fn word(&self, address: u64) -> u64 {
        self.words.borrow().get(&(address & !7)).copied().unwrap_or(0)
    }

    /// Follows a write to ISACTIVER or ICACTIVER.
    fn set_active(&self, address: u64, bits: u32) {
        let [distributor, private] = self.frames.get();
        let active = |frame: u64| frame.wrapping_add(gic::ISACTIVER)..frame.wrapping_add(gic::IPRIORITYR);
        let (private, distributor) = (active(private), active(distributor));
        let Some(frame) = [private, distributor].into_iter().find(|frame| frame.contains(&address)) else { return };
        let place = address - frame.start;
        let mut active = self.active.borrow_mut();
        for bit in (0..32).filter(|bit| bits & 1 << bit != 0) {
            let intid = (place as u32 & 0x7c) * 8 + bit;
            if place < gic::BIT_REGISTER_BYTES {
                active.insert(intid)
            } else {
                active.remove(&intid)
            };
        }
    }

    fn merge(&self, address: u64, bytes: u32, value: u64) {
        let shift = (address & 7) * 8;
        let mask = if bytes == 8 { u64::MAX } else { ((1u64 << (bytes * 8)) - 1) << shift };
        let old = self.word(address);
        self.words.borrow_mut().insert(address & !7, (old & !mask) | ((value << shift) & mask));
    }

    fn bytes(&self, address: u64, count: u64) -> Vec<u8> {
        let byte = |address: u64| (self.word(address) >> ((address & 7) * 8)) as u8;
        (0..count).map(|offset| byte(address + offset)).collect()
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

impl Machine for FakeMachine {
    fn load8(&self, address: PhysicalAddress) -> u8 {
        (self.word(address.0) >> ((address.0 & 7) * 8)) as u8
    }
    fn load32(&self, address: PhysicalAddress) -> u32 {
        (self.word(address.0) >> ((address.0 & 4) * 8)) as u32
    }
    fn load64(&self, address: PhysicalAddress) -> u64 {
        self.word(address.0)
    }
    fn store8(&self, address: PhysicalAddress, value: u8) {
        self.merge(address.0, 1, u64::from(value));
    }
    fn store32(&self, address: PhysicalAddress, value: u32) {
        self.now.set(self.now.get() + self.ticks_per_store.get());
        self.set_active(address.0, value);
        self.merge(address.0, 4, u64::from(value));
    }
    fn store64(&self, address: PhysicalAddress, value: u64) {
        self.merge(address.0, 8, value);
    }
    fn store_record(&self, address: PhysicalAddress, words: [u64; 4]) {
        for (index, word) in (0..).zip(words) {
            self.store64(PhysicalAddress(address.0 + 8 * index), word);
        }
    }
    fn publish64(&self, address: PhysicalAddress, value: u64) {
        self.store64(address, value);
    }
    fn publish32(&self, address: PhysicalAddress, value: u32) {
        self.store32(address, value);
    }
    fn barrier(&self) {}
    fn atomic(&self, address: PhysicalAddress) -> &'static AtomicU64 {
        self.atomics.borrow_mut().entry(address.0).or_insert_with(|| Box::leak(Box::new(AtomicU64::new(0))))
    }
    fn counter_ticks(&self) -> u64 {
        let now = self.now.get();
        self.now.set(now + self.ticks_per_reading.get());
        now
    }
    fn set_timer(&self, deadline_ticks: u64) {
        let deadline = Some(deadline_ticks).filter(|deadline| *deadline != u64::MAX);
        self.deadline.set(deadline);
        self.note(Event::Timer(deadline));
    }
    fn wait_for_interrupt(&self) {
        if let Some(deadline) = self.deadline.get() {
            self.now.set(self.now.get().max(deadline));
        }
    }
    fn spin_hint(&self) {
        self.now.set(self.now.get() + self.ticks_per_spin.get());
    }
    fn start_interrupts(&self, _mapped: bool) {}
    fn acknowledge(&self) -> u32 {
        let mut pending = self.pending.borrow_mut();
        let signalled = |intid: &u32| {
            !self.guest_interrupts_masked.get()
                || matches!(Intid(*intid), Intid(15) | Intid::MAINTENANCE | Intid::HYPERVISOR_TIMER)
        };
        let first = pending.iter().position(signalled);
        first.and_then(|first| pending.remove(first)).unwrap_or(Intid::NONE.0)
    }
    fn priority_drop(&self, intid: u32) {
        self.active.borrow_mut().insert(intid);
        self.note(Event::PriorityDrop(intid));
    }
    fn deactivate(&self, intid: u32) {
        self.active.borrow_mut().remove(&intid);
        self.note(Event::Deactivate(intid));
    }
    fn send_sgi(&self, value: u64) {
        self.note(Event::SendSgi(value));
    }
    fn free_list_registers(&self) -> u32 {
        let asks = |value: ListRegister| value.0 & ListRegister::END_OF_INTERRUPT != 0 && !value.is_hardware();
        let held = |value: u64| ListRegister(value).is_in_use() || asks(ListRegister(value));
        (0..).zip(&self.list).fold(0, |bits, (index, value)| bits | u32::from(!held(value.get())) << index)
    }
    fn list_register(&self, index: u32) -> u64 {
        self.list.get(index as usize).map_or(0, Cell::get)
    }
    fn set_list_register(&self, index: u32, value: u64) {
        if let Some(slot) = self.list.get(index as usize) {
            slot.set(value);
        }
    }
    fn ended_list_registers(&self) -> u32 {
        let unused = |value: ListRegister| !value.is_in_use() && !value.is_hardware();
        let ended = |value: u64| unused(ListRegister(value)) && value & ListRegister::END_OF_INTERRUPT != 0;
        (0..).zip(&self.list).fold(0, |bits, (index, value)| bits | u32::from(ended(value.get())) << index)
    }
    fn set_underflow_interrupt(&self, on: bool) {
        self.underflow.set(on);
    }
    fn enable_virtual_interface(&self, _on: bool) {}
    fn mask_guest_interrupts(&self, masked: bool) {
        self.guest_interrupts_masked.set(masked);
    }
    fn reset_virtual_interface(&self, _mapped: bool) {
        for slot in &self.list {
            slot.set(0);
        }
        self.underflow.set(false);
    }
    fn exit_registers(&self) -> ExitRegisters {
        let (fault_address, fault_page) = self.exit.get();
        ExitRegisters { fault_address, fault_page }
    }
    fn guest_program_counter(&self) -> u64 {
        self.program_counter.get()
    }
    fn set_guest_program_counter(&self, value: u64) {
        self.program_counter.set(value);
    }
    fn guest_state(&self) -> u64 {
        self.registers.get()[1]
    }
    fn set_guest_state(&self, value: u64) {
        let mut registers = self.registers.get();
        registers[1] = value;
        self.registers.set(registers);
    }
    fn inject_synchronous(&self, syndrome: u64) {
        self.note(Event::Inject(syndrome));
    }
    fn reset_guest(&self, entry: u64) {
        self.program_counter.set(entry);
        self.note(Event::ResetGuest(entry));
    }
    fn load_controls(&self, plan: &VcpuPlan) {
        self.translation_root.set(plan.vttbr);
    }
    fn save_guest(&self, context: &mut GuestContext) {
        context.registers = self.registers.get();
        context.registers[0] = self.program_counter.get();
    }
    fn load_guest(&self, context: &GuestContext, plan: &VcpuPlan) {
        self.registers.set(context.registers);
        self.program_counter.set(context.registers[0]);
        self.translation_root.set(plan.vttbr);
    }
    fn save_floating_point(&self, registers: &mut FloatingPoint) {
        *registers = self.floating_point.get();
    }
    fn load_floating_point(&self, registers: &FloatingPoint) {
        self.floating_point.set(*registers);
    }
    fn trap_floating_point(&self, on: bool) {
        self.floating_point_traps.set(on);
    }
    fn guest_timer_asserted(&self) -> bool {
        self.guest_timer_ticks() <= self.now.get()
    }
    fn guest_timer_ticks(&self) -> u64 {
        GuestContext { registers: self.registers.get(), ..GuestContext::default() }.timer_ticks()
    }
    fn interrupt_waits(&self) -> bool {
        let quiet = self.quiet_polls.get();
        self.quiet_polls.set(quiet.saturating_sub(1));
        quiet == 0 && !self.pending.borrow().is_empty()
    }
    fn invalidate_guest_translations(&self) {}
    fn scrub(&self, address: PhysicalAddress, bytes: u64) {
        self.words.borrow_mut().retain(|word, _| *word < address.0 || *word >= address.0 + bytes);
        self.note(Event::Scrub(address.0, bytes));
    }
    fn copy_and_check(&self, destination: PhysicalAddress, source: PhysicalAddress, bytes: u64, crc: u32) -> u32 {
        let data = self.bytes(source.0, bytes);
        for (offset, byte) in data.iter().enumerate() {
            self.store8(PhysicalAddress(destination.0 + offset as u64), *byte);
        }
        self.note(Event::Copy(destination.0, source.0, bytes));
        self.crc.get().unwrap_or_else(|| crc32c(crc, &data))
    }
    fn synchronise_instructions(&self) {}
    fn start_core(&self, mpidr: u64) -> Result<(), FirmwareError> {
        self.note(Event::StartCore(mpidr));
        Ok(())
    }
    fn power_off(&self) {
        self.note(Event::PowerOff);
    }
}
