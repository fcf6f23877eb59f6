//! What is done to the SMMU and to functions, as steps (record 0037): by the boot core before another core starts, and by an owner before
//! the memory of its partition is scrubbed.

use super::bars::{self, Places};
use super::pci::{self, bridge};
use super::smmu::{self, register};
use super::{configuration, configuration_of};
use crate::model::{Bank, PciFunction, PciHost, PciModel, PciReset, Smmu, SmmuStage, System};
use crate::narrow;
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{
    ALL_PARTITIONS, Bar, MAX_BARS, STEP_DELAY, STEP_EXPECT, STEP_UPDATE, STEP_WAIT, STEP_WRITE, Step,
};

/// A script of the boot core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The partition that is stopped if it fails, or [`ALL_PARTITIONS`].
    pub partition: u32,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// Where the memory of the SMMU is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmmuMemory {
    /// The stream table.
    pub streams: PhysicalAddress,
    /// The page of commands and context descriptors.
    pub commands: PhysicalAddress,
    /// The event queue.
    pub events: PhysicalAddress,
}

/// Most reads until a function says that it is no master any more. The write that told it so has been answered before the first of them, so that
/// one is enough for a function that works; a core that is shared does nothing else meanwhile, and the analysis counts them all.
pub const SILENCE_READS: u32 = 16;

/// The whole of a register of this width.
const fn all(width: u16) -> u64 {
    match width {
        1 => 0xff,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => u64::MAX,
    }
}

fn write(width: u16, address: u64, value: u64) -> Step {
    Step { operation: STEP_WRITE, width, address: PhysicalAddress(address), value, ..Step::default() }
}

fn update(width: u16, address: u64, mask: u64, value: u64) -> Step {
    Step { operation: STEP_UPDATE, mask, ..write(width, address, value) }
}

fn wait(limit: u32, width: u16, address: u64, mask: u64, value: u64) -> Step {
    Step { operation: STEP_WAIT, limit, mask, ..write(width, address, value) }
}

fn expect(width: u16, address: u64, mask: u64, value: u64) -> Step {
    Step { operation: STEP_EXPECT, mask, ..write(width, address, value) }
}

/// Reads and looks at nothing: what was written before has arrived when the read returns.
fn read_back(width: u16, address: u64) -> Step {
    expect(width, address, 0, 0)
}

/// Returns the scripts of the boot core in their order: all functions off, then the SMMU on, then the root port, then one function after the
/// other. With
/// SMMU_CR0.SMMUEN 0 everything passes, so no other order is safe.
#[must_use]
pub fn boot(system: &System, places: &Places, memory: SmmuMemory) -> Vec<Script> {
    let Some(host) = system.board.pci.as_ref().filter(|_| !system.functions.is_empty()) else { return Vec::new() };
    let mut scripts = vec![Script { partition: ALL_PARTITIONS, steps: functions_off(host) }];
    if let Some(smmu) = host.smmu {
        scripts.push(Script { partition: ALL_PARTITIONS, steps: smmu_on(host, smmu, memory) });
    }
    if let (Some(slot), Some(window)) = (host.root_port, places.bridge) {
        let behind = system.functions.iter().filter(|function| function.bus != 0);
        let port = |function: &PciFunction| (function.partition, root_port(host, slot, window, function));
        scripts.extend(behind.map(port).map(|(partition, steps)| Script { partition: narrow(partition), steps }));
    }
    for (index, function) in system.functions.iter().enumerate() {
        let Some(model) = super::model(system, function) else { continue };
        let steps = function_ready(host, function, model, &places.of(index));
        scripts.push(Script { partition: narrow(function.partition), steps });
    }
    scripts
}

/// 1: no function of bus 0 masters the bus, whether a partition has it or not. The root port passes nothing on then either, so what is
/// behind it waits for its bus number.
fn functions_off(host: &PciHost) -> Vec<Step> {
    let commands = super::root_bus(host).into_iter().map(|device| configuration(host, 0, device).0 + pci::COMMAND);
    commands.flat_map(|command| [write(2, command, 0), read_back(2, command)]).collect()
}

/// 2 to 5: the SMMU is what the tables need, reads them again, and is on.
fn smmu_on(host: &PciHost, smmu: Smmu, memory: SmmuMemory) -> Vec<Step> {
    let at = |register: u64| smmu.address.0 + register;
    let stage = if smmu.stage == SmmuStage::One { smmu::IDR0_S1P } else { smmu::IDR0_S2P };
    let has = |register: u64, bits: u64| expect(4, at(register), bits, bits);
    let settled = |register: u64, value: u64| wait(host.wait_limit, 4, at(register), all(4), value);
    let switch = |value: u64| [write(4, at(register::CR0), value), settled(register::CR0ACK, value)];
    let commands = smmu::COMMANDS.len() as u64;
    let mut steps = vec![
        has(register::IDR0, stage | smmu::IDR0_AARCH64 | smmu::IDR0_COHERENT),
        expect(4, at(register::IDR1), smmu::IDR1_SIDSIZE_UPPER, smmu::IDR1_SIDSIZE_16),
        has(register::IDR5, smmu::IDR5_OAS_44 | smmu::IDR5_GRANULE_4K),
    ];
    steps.extend(switch(0));
    steps.extend([
        write(4, at(register::IRQ_CTRL), 0),
        settled(register::IRQ_CTRLACK, 0),
        write(4, at(register::CR1), smmu::CR1_CACHED),
        // RECINVSID 0: a StreamID beyond the table aborts and is not recorded.
        write(4, at(register::CR2), 0),
        write(8, at(register::STRTAB_BASE), memory.streams.0 | smmu::STRTAB_BASE_ALLOCATE),
        write(4, at(register::STRTAB_BASE_CFG), u64::from(smmu::STREAM_BITS)),
        write(8, at(register::CMDQ_BASE), memory.commands.0 | smmu::COMMAND_BITS),
        write(4, at(register::CMDQ_PROD), 0),
        write(4, at(register::CMDQ_CONS), 0),
        write(8, at(register::EVENTQ_BASE), memory.events.0 | smmu::EVENT_BITS),
        write(4, at(register::EVENTQ_PROD), 0),
        write(4, at(register::EVENTQ_CONS), 0),
    ]);
    steps.extend(switch(smmu::CR0_COMMANDS));
    // The commands are there already: whatever was cached before is gone when the third one is done.
    steps.push(write(4, at(register::CMDQ_PROD), commands));
    steps.push(wait(host.wait_limit, 4, at(register::CMDQ_CONS), smmu::COMMANDS_DONE, commands));
    steps.extend(switch(smmu::CR0_COMMANDS | smmu::CR0_EVENTS));
    steps.extend(switch(smmu::CR0_COMMANDS | smmu::CR0_EVENTS | smmu::CR0_TRANSLATE));
    steps
}

/// 5b: the root port has bus 1 behind it and passes on what that bus has places for. What is there is off before the port masters the bus
/// for it. The port is the monitor's, and its own stream aborts.
fn root_port(host: &PciHost, slot: u32, window: Bank, function: &PciFunction) -> Vec<Step> {
    let at = |register: u64| configuration(host, 0, slot).0 + register;
    let base = |address: u64| address >> 16 & 0xfff0;
    let last = window.end().saturating_sub(1);
    let command = configuration_of(host, function).0 + pci::COMMAND;
    let [base_upper, limit_upper] = bridge::PREFETCHABLE_UPPER;
    vec![
        expect(1, at(pci::HEADER_TYPE), bridge::TYPE_MASK, bridge::TYPE),
        write(4, at(bridge::BUSES), bridge::BUS_1),
        write(2, command, 0),
        read_back(2, command),
        write(2, at(bridge::PORTS), bridge::NO_PORTS),
        write(4, at(bridge::PORTS_UPPER), 0xffff),
        write(4, at(bridge::MEMORY), base(window.start.0) | base(last) << 16),
        write(4, at(bridge::PREFETCHABLE), bridge::NO_MEMORY),
        write(4, at(base_upper), all(4)),
        write(4, at(limit_upper), 0),
        write(2, at(pci::COMMAND), pci::MEMORY | pci::MASTER | pci::SILENT),
    ]
}

/// 6: the function is the one that the plan means, is off, in its first state and at its places, and answers.
fn function_ready(host: &PciHost, function: &PciFunction, model: &PciModel, places: &[Bar; MAX_BARS]) -> Vec<Step> {
    let at = |register: u64| configuration_of(host, function).0 + register;
    let class = u64::from(model.configuration.get(2).copied().unwrap_or(0)) & pci::CLASS_MASK;
    let mut steps = vec![
        expect(4, at(pci::IDENTITY), all(4), identity(model)),
        expect(4, at(pci::CLASS), pci::CLASS_MASK, class),
        expect(2, at(pci::COMMAND), pci::PORTS | pci::MEMORY | pci::MASTER, 0),
    ];
    // Function-level reset clears the places, and the status register of virtio is behind one.
    let is_behind_a_place = matches!(model.reset, PciReset::Virtio { .. });
    let reset = reset(host, function, model, places);
    if !is_behind_a_place {
        steps.extend(reset.iter().copied());
    }
    steps.extend(at_places(host, function, model, places));
    if is_behind_a_place {
        steps.extend(reset);
    }
    steps
}

/// Returns what an owner does to its functions before its memory is scrubbed, and how many steps at the front silence them all.
#[must_use]
pub fn quiesce(system: &System, places: &Places, partition: usize) -> (Vec<Step>, usize) {
    let Some(host) = &system.board.pci else { return (Vec::new(), 0) };
    let mut steps = Vec::new();
    for (_, function) in super::of_partition(system, partition) {
        let command = configuration_of(host, function).0 + pci::COMMAND;
        // Memory answers: the status register of virtio may be behind it. The read's completion pushes what the function wrote ahead of it.
        let [mask, value] = [pci::MASTER | pci::SILENT | pci::MEMORY, pci::SILENT | pci::MEMORY];
        steps.push(update(2, command, mask, value));
        steps.push(wait(host.wait_limit.min(SILENCE_READS), 2, command, pci::MASTER, 0));
    }
    let silence = steps.len();
    for (index, function) in super::of_partition(system, partition) {
        let Some(model) = super::model(system, function) else { continue };
        steps.extend(reset(host, function, model, &places.of(index)));
        steps.extend(at_places(host, function, model, &places.of(index)));
    }
    (steps, silence)
}

fn identity(model: &PciModel) -> u64 {
    u64::from(model.configuration.first().copied().unwrap_or(0))
}

/// Returns where Device Control is if the function is reset by it, and 0 otherwise.
pub(super) fn device_control(model: &PciModel) -> u32 {
    match model.reset {
        PciReset::FunctionLevel { capability } => capability + pci::DEVICE_CONTROL as u32,
        PciReset::Virtio { .. } | PciReset::None => 0,
    }
}

/// Puts a function back into its first state.
fn reset(host: &PciHost, function: &PciFunction, model: &PciModel, places: &[Bar; MAX_BARS]) -> Vec<Step> {
    let at = |register: u64| configuration_of(host, function).0 + register;
    match model.reset {
        PciReset::FunctionLevel { capability } => {
            let express = |register: u64| at(u64::from(capability) + register);
            let pending = pci::TRANSACTIONS_PENDING;
            let mut steps = vec![
                wait(host.wait_limit, 2, express(pci::DEVICE_STATUS), pending, 0),
                // The rest as read: the size of a payload survives a reset, and the port above counts on it.
                update(2, express(pci::DEVICE_CONTROL), pci::RESET, pci::RESET),
            ];
            if host.reset_delay_ticks != 0 {
                let value = host.reset_delay_ticks;
                steps.push(Step { operation: STEP_DELAY, value, ..Step::default() });
            }
            steps.push(wait(host.wait_limit, 4, at(pci::IDENTITY), all(4), identity(model)));
            steps
        }
        PciReset::Virtio { bar, offset } => {
            let status = places.get(bar).map_or(0, |place| place.physical.0) + offset;
            vec![write(1, status, 0), wait(host.wait_limit, 1, status, all(1), 0)]
        }
        PciReset::None => Vec::new(),
    }
}

/// Gives a function its places and lets its memory answer: not as a master, and without INTx.
fn at_places(host: &PciHost, function: &PciFunction, model: &PciModel, places: &[Bar; MAX_BARS]) -> Vec<Step> {
    let at = |register: u64| configuration_of(host, function).0 + register;
    let mut steps = Vec::new();
    for (register, (bar, place)) in
        (0_u64..).zip(model.bars.iter().zip(places)).filter(|(_, (bar, _))| bars::is_memory(bar))
    {
        let low = at(pci::BAR + 4 * register);
        steps.push(write(4, low, place.physical.0 & all(4)));
        if bar.is_wide {
            steps.push(write(4, low + 4, place.physical.0 >> 32));
        }
    }
    steps.push(write(2, at(pci::COMMAND), pci::MEMORY | pci::SILENT));
    steps
}
