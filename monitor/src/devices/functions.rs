//! PCI functions of partitions (part `devices`): scripts at boot and at each start, configuration space, refused DMA.
//!
//! Nothing is decided here. What is done to a function, and to the SMMU, are steps of the plan; what its guest reads of it is data of the
//! plan but for two registers. So there is no driver, no list of capabilities that is read, and no SMMU command after boot.
//!
//! **DMA never outlives its instance.** As soon as a partition stops or is suspended its functions are silenced: mastering off, and a
//! wait until they say so. Before its memory is touched for a start the script of the plan is run, which silences them again, resets
//! them and gives them their places. A function that does not answer ends in a state from which the partition is never started
//! again. On a shared core the script runs in slices of the partition's own time, and a delay of it is a date.
//!
//! **Refused DMA** is found by looking, on the owner's core, as often as the plan says: an interrupt would spend one core's time on
//! another's function (`devices.md` section 3).

use super::fronts::Fronts;
use crate::life::health::Fault;
use crate::observe::at;
use crate::state::{RunState, Vcpu};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{ALL_PARTITIONS, BootDevices, DeviceFunction, DevicePlan, EVENT_BYTES, STEP_WRITE};
use bulkhead_abi::plan::MAX_PCI_FUNCTIONS;
use bulkhead_abi::status::{self, StatusPage};
use bulkhead_arch::Machine;
use bulkhead_device::events::{Cursor, Queue};
use bulkhead_device::script::{self, Failure, Progress, Registers, Run};
use bulkhead_emulation::pci::ConfigurationPort;
use core::mem::offset_of;

/// Offset of Command in configuration space.
const COMMAND: u64 = 4;
/// Command: memory off, mastering off, INTx silent.
const COMMAND_OFF: u16 = 1 << 10;
/// Offsets of the indices in page 1 of the SMMU: SMMU_EVENTQ_PROD and SMMU_EVENTQ_CONS (IHI 0070, 6.3).
const EVENTQ_PROD: u64 = 0xa8;
const EVENTQ_CONS: u64 = 0xac;
/// No date.
pub(super) const NEVER: u64 = u64::MAX;

/// What a vCPU knows of its partition's functions.
#[derive(Debug)]
pub struct Functions {
    /// What the host decided; `None` without functions.
    pub(super) plan: Option<&'static DevicePlan>,
    /// Why the partition is never started again, if it is not: a `REASON_` constant, or 0.
    refused: u32,
    /// The script before a start, while it is under way.
    script: Option<Run>,
    /// Nothing of a start is to be done before this date.
    pub(super) rests_until: u64,
    /// Command of each function when the partition was suspended.
    commands: [u16; MAX_PCI_FUNCTIONS],
    /// How far its fronts of virtio are.
    pub(super) fronts: Fronts,
    /// Where this partition is in the event queue.
    cursor: Cursor,
    /// When to look there again.
    look_ticks: u64,
    /// The date that everything else of this vCPU waits for.
    other_ticks: u64,
}

impl Functions {
    /// No functions.
    pub(crate) const fn new() -> Self {
        let (cursor, commands) = (Cursor::new(), [0; MAX_PCI_FUNCTIONS]);
        Self {
            plan: None,
            refused: 0,
            script: None,
            rests_until: 0,
            commands,
            fronts: Fronts::new(),
            cursor,
            look_ticks: NEVER,
            other_ticks: NEVER,
        }
    }

    /// The date at which this vCPU has something to do, when everything but refused DMA waits for `ticks`.
    pub(crate) fn date(&mut self, ticks: u64) -> u64 {
        self.other_ticks = ticks;
        ticks.min(self.look_ticks)
    }

    fn all(&self) -> impl Iterator<Item = &'static DeviceFunction> + use<> {
        let functions = self.plan.map_or(&[][..], |plan| &plan.functions);
        functions.iter().filter(|function| function.configuration.0 != 0)
    }
}

/// Registers of functions and of the SMMU, by address.
struct Port<'a, M>(&'a M);

impl<M: Machine> Registers for Port<'_, M> {
    fn read(&self, address: PhysicalAddress, bytes: u16) -> u64 {
        match bytes {
            1 => self.0.load8(address).into(),
            2 => self.0.load16(address).into(),
            4 => self.0.load32(address).into(),
            _ => self.0.load64(address),
        }
    }
    fn write(&self, address: PhysicalAddress, bytes: u16, value: u64) {
        match bytes {
            1 => self.0.store8(address, value as u8),
            2 => self.0.store16(address, value as u16),
            4 => self.0.store32(address, value as u32),
            _ => self.0.store64(address, value),
        }
    }
    fn now_ticks(&self) -> u64 {
        self.0.counter_ticks()
    }
}

impl<M: Machine> ConfigurationPort for Port<'_, M> {
    fn command_status(&self, configuration: PhysicalAddress) -> u32 {
        self.0.load32(at(configuration, COMMAND))
    }
    fn set_command(&self, configuration: PhysicalAddress, command: u16) {
        self.0.store16(at(configuration, COMMAND), command);
    }
}

/// The event queue, as one owner reaches it.
struct Events<'a, M> {
    machine: &'a M,
    plan: &'a DevicePlan,
}

impl<M: Machine> Queue for Events<'_, M> {
    fn produced(&self) -> u32 {
        // A register before and behind words in memory: only a barrier puts them in order.
        self.machine.barrier();
        let produced = self.machine.load32(at(self.plan.event_registers, EVENTQ_PROD));
        // The entries that it speaks of are read after it.
        self.machine.barrier();
        produced
    }
    fn entry(&self, index: u32) -> [u64; 2] {
        let entry = at(self.plan.events, u64::from(index).wrapping_mul(EVENT_BYTES));
        [self.machine.load64(entry), self.machine.load64(at(entry, 16))]
    }
    fn consume(&self, produced: u32) {
        self.machine.store32(at(self.plan.event_registers, EVENTQ_CONS), produced);
    }
}

/// What the scripts of the boot core came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Booted {
    /// Partitions whose functions must not be used, as bits.
    pub refused: u64,
    /// The script about all functions that failed, and its step, as the detail of a crash record.
    pub failed: Option<u64>,
}

/// Runs the scripts of the boot core, before it starts another one: from here on the SMMU confines every function that may ever master the
/// bus. If one fails that is about all functions, what the first one writes is written once more, which switches them off, and none is
/// set up.
pub fn boot<M: Machine>(machine: &M, devices: &BootDevices) -> Booted {
    let mut booted = Booted::default();
    for (number, planned) in (0u64..).zip(devices.scripts()) {
        let Err(failure) = script::run(devices.steps_of(planned), &Port(machine)) else { continue };
        if planned.partition == ALL_PARTITIONS {
            let off = devices.scripts().iter().take(1).flat_map(|first| devices.steps_of(first));
            for step in off.filter(|step| step.operation == STEP_WRITE) {
                Port(machine).write(step.address, step.width, step.value);
            }
            let (Failure::Missing(step) | Failure::Stuck(step)) = failure;
            return Booted { refused: u64::MAX, failed: Some(number | (step as u64) << 32) };
        }
        booted.refused |= 1u64.checked_shl(planned.partition).unwrap_or(u64::MAX);
    }
    booted
}

impl<M: Machine> Vcpu<M> {
    /// Gives the vCPU its partition's functions, unless the boot core found that they must not be used.
    pub fn attach_functions(&mut self, plan: Option<&'static DevicePlan>, refused: u64) {
        let is_refused = refused.checked_shr(self.partition.index).unwrap_or(1) & 1 != 0;
        self.functions.plan = plan;
        let has_function = self.functions.all().next().is_some();
        self.functions.refused = if has_function && is_refused { status::REASON_DEVICE_MISSING } else { 0 };
    }

    /// Reads configuration space of a function, if there is one at this offset.
    pub(crate) fn function_read(&self, offset: u64, bytes: u8) -> Option<u64> {
        self.pci().device_read(self.functions.plan?, &Port(&self.machine), offset, bytes)
    }

    /// Writes it; false when there is no function.
    pub(crate) fn function_write(&self, offset: u64, bytes: u8, value: u64) -> bool {
        let Some(plan) = self.functions.plan else { return false };
        self.pci().device_write(plan, &Port(&self.machine), offset, bytes, value)
    }

    /// The instance ends: its functions are to be silent before anything else is done.
    pub(crate) fn silence_functions(&mut self) {
        self.look_at_events();
        self.silence();
    }

    /// The partition stands: its functions are silent from here on.
    fn silence(&mut self) {
        let Some(plan) = self.functions.plan else { return };
        self.functions.look_ticks = NEVER;
        self.set_own_date(NEVER);
        // Past its silence the script has seen all of them silent, nobody ran since, and some may be in the middle of a reset, where
        // they answer nothing: it is continued where it is.
        if self.functions.script.is_some_and(|run| run.is_past(plan.silence_count as usize)) {
            return;
        }
        self.functions.script = None;
        let silence = plan.quiesce().get(..plan.silence_count as usize).unwrap_or(plan.quiesce());
        if self.functions.refused == 0 && script::run(silence, &Port(&self.machine)).is_err() {
            self.refuse(status::REASON_DEVICE_STUCK);
        }
    }

    /// The partition is suspended: its functions keep what they are, but are silent. What was refused until now is looked for when it continues:
    /// seen here, it could be no fault.
    pub(crate) fn suspend_functions(&mut self) {
        let commands = self.functions.all().map(|function| self.machine.load16(at(function.configuration, COMMAND)));
        let mut kept = [0; MAX_PCI_FUNCTIONS];
        kept.iter_mut().zip(commands).for_each(|(place, command)| *place = command);
        self.functions.commands = kept;
        self.silence();
    }

    /// The suspended partition continues.
    pub(crate) fn resume_functions(&self) {
        for (function, command) in self.functions.all().zip(self.functions.commands) {
            self.machine.store16(at(function.configuration, COMMAND), command);
        }
    }

    /// State and reason to publish in place of these, when the functions do not allow them.
    pub(crate) const fn allowed_state(&self, state: u32, reason: u32) -> (u32, u32) {
        match self.functions.refused {
            0 => (state, reason),
            refused => (status::STATE_STOPPED, refused),
        }
    }

    fn refuse(&mut self, reason: u32) {
        self.functions.refused = reason;
        for function in self.functions.all() {
            self.machine.store16(at(function.configuration, COMMAND), COMMAND_OFF);
        }
    }

    /// Before a start: the script is to be run, from where it is if an earlier start did not come to its end, or the start is refused and
    /// said to be. Returns whether the start is under way.
    pub(crate) fn begin_functions(&mut self) -> bool {
        self.functions.rests_until = 0;
        self.functions.script = self.functions.plan.map(|_| self.functions.script.unwrap_or_default());
        if self.functions.refused == 0 {
            self.begin_fronts();
            return true;
        }
        self.end_refused_start();
        false
    }

    fn end_refused_start(&mut self) {
        self.functions.script = None;
        self.run = RunState::Off;
        self.publish_state(status::STATE_STOPPED, self.functions.refused);
    }

    /// Does the next access of the script, or the next piece of what is done to fronts after it, which clears at most `most_bytes`; false
    /// when nothing is left.
    pub(crate) fn functions_step(&mut self, most_bytes: u64) -> bool {
        let Some(plan) = self.functions.plan else { return false };
        let Some(run) = self.functions.script.as_mut() else { return self.fronts_step(plan, most_bytes) };
        match run.advance(plan.quiesce(), &Port(&self.machine)) {
            Ok(Progress::More) => {}
            Ok(Progress::Later(date)) => {
                if self.functions.rests_until != date {
                    self.functions.rests_until = date;
                    self.set_own_date(date);
                }
            }
            Ok(Progress::Done) => {
                self.functions.script = None;
                // What the queue holds is about the instance before.
                if plan.poll_ticks != 0 {
                    self.functions.cursor.skip(&Events { machine: &self.machine, plan });
                }
                self.set_own_date(NEVER);
            }
            Err(failure) => {
                self.refuse(match failure {
                    Failure::Missing(_) => status::REASON_DEVICE_MISSING,
                    Failure::Stuck(_) => status::REASON_DEVICE_STUCK,
                });
                self.end_refused_start();
            }
        }
        true
    }

    /// The start waits for a date, and its core has nothing to do for this partition.
    pub(crate) fn functions_rest(&self) -> bool {
        let waits = self.functions.script.is_some() || self.functions.fronts.is_waiting();
        waits && self.machine.counter_ticks() < self.functions.rests_until
    }

    /// The guest runs from now on.
    pub(crate) fn start_looking(&mut self) {
        if let Some(plan) = self.functions.plan.filter(|plan| plan.poll_ticks != 0) {
            self.look_again(plan);
        }
    }

    fn look_again(&mut self, plan: &DevicePlan) {
        self.functions.look_ticks = self.machine.counter_ticks().wrapping_add(plan.poll_ticks);
        self.set_own_date(self.functions.other_ticks);
    }

    /// The date of this vCPU passed: looks for refused DMA if that is due. Returns whether nothing else is.
    pub(crate) fn look_when_due(&mut self) -> bool {
        let Some(plan) = self.functions.plan.filter(|_| self.machine.counter_ticks() >= self.functions.look_ticks)
        else {
            return false;
        };
        let found = self.look_at_events();
        if found != 0 && plan.events_are_faults != 0 {
            self.fault(Fault::new(status::REASON_DMA, self.functions.cursor.last.0[0]));
            return true;
        }
        self.look_again(plan);
        self.functions.other_ticks > self.machine.counter_ticks()
    }

    /// Takes what is new in the event queue and publishes what is known. Returns how many events were about own functions.
    fn look_at_events(&mut self) -> u64 {
        let Some(plan) = self.functions.plan.filter(|plan| plan.poll_ticks != 0) else { return 0 };
        let is_own = |stream| self.functions.all().any(|function| function.stream == stream);
        let mut cursor = self.functions.cursor;
        let found = cursor.look(&Events { machine: &self.machine, plan }, is_own);
        self.functions.cursor = cursor;
        let [latest, address] = cursor.last.0;
        let place = self.status_place(offset_of!(StatusPage, dma));
        // In the order of `DmaRecord`.
        for (offset, value) in (0u64..).step_by(8).zip([cursor.events, cursor.lost, latest, address]) {
            self.machine.store64(at(place, offset), value);
        }
        found
    }
}
