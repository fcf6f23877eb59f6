//! Devices with DMA: what their functions reach, and that scripts bring the hardware where that is true.
//!
//! An image says by tables which memory each stream reaches and by scripts how SMMU and functions get there. Tables are walked as
//! those of cores are; scripts are executed on a model ([`machine`]), and the state that they end in is what is judged: no function is a
//! master of the bus before the SMMU translates, and each is where its plan says. What the bytes cannot show is a fact of the board:
//! which functions there are that no plan names, and that their DMA goes through this SMMU.

mod header;
mod machine;
mod plans;
mod registers;
mod streams;
#[cfg(test)]
mod tests;

pub(crate) use plans::{Devices, Function};
pub use streams::Reached;
pub(crate) use streams::{Master, Streams, areas, check as streams};

use crate::area::overlap;
use crate::code::Code;
use crate::el2::GICD_BYTES;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, Partition, View};
use bulkhead_abi::devices::{BootDevices, BootScript, MAX_BARS, STEP_DELAY, Step};
use bulkhead_abi::plan::{FLAG_MANAGEABLE, FLAG_MANAGES, MODE_DIRECT, POLICY_RESTART};
use machine::{Machine, Scope, State, base_addresses, is_in_place};
use registers::{pci, smmu};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What the boot core's scripts lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The SMMU's first register.
    pub(crate) smmu: u64,
    /// Where it finds streams, commands and room for events.
    pub(crate) streams: u64,
    pub(crate) commands: u64,
    pub(crate) events: u64,
    /// The stage that it has for certain, because the script expects it: 1 or 2.
    pub(crate) stages: [bool; 2],
    /// What base address registers hold when the scripts are through, by stream.
    pub(crate) bars: BTreeMap<u32, [u64; MAX_BARS]>,
}

/// Most reads of a wait in the front part of a script, where functions are silenced.
const SILENCE_READS: u32 = 16;

/// The pages that a script touches, as addresses of pages.
pub(crate) fn touched(steps: &[Step]) -> BTreeSet<u64> {
    steps.iter().filter(|step| step.address.0 != 0).map(|step| step.address.0 - step.address.0 % PAGE).collect()
}

/// Executes all scripts and judges where they end.
pub(crate) fn check(view: &View<'_>, contents: &Contents, devices: &Devices, findings: &mut Findings) -> Translation {
    let mut translation = Translation::default();
    if let Some((_, boot)) = &devices.boot {
        translation = check_boot(view, devices, boot, findings);
        check_places(view, contents, devices, &translation, findings);
    }
    for partition in &contents.partitions {
        check_partition(view.header.counter_hz, contents, devices, partition, &translation, findings);
    }
    for function in &devices.functions {
        header::check(contents, function, findings);
    }
    check_lines(contents, devices, findings);
    translation
}

/// Slots of bus 0 have four lines in turn, so the line of one says where all others are.
fn check_lines(contents: &Contents, devices: &Devices, findings: &mut Findings) {
    let mut first = None;
    for function in devices.functions.iter().filter(|function| function.plan.stream >> 8 == 0) {
        let partition = contents.partitions.get(function.partition);
        let plan = partition.and_then(|partition| partition.plan.pci().get(function.index));
        let line = plan.map_or(0, |plan| plan.interrupt).checked_sub(function.plan.stream >> 3 & 3);
        let expected = *first.get_or_insert(line);
        findings.require(line.is_some() && line == expected, Code::FunctionLine, || {
            format!("{}: its interrupt is not the line of its slot, as the others' are", function.name())
        });
    }
}

/// The SMMU that scripts set up: the one whose stream table they name.
fn smmu_of(devices: &Devices, boot: &BootDevices) -> u64 {
    let names = |step: &&Step| {
        step.width == 8
            && step.address.0 % (64 << 10) == smmu::STRTAB_BASE
            && !devices.configuration().contains(&step.address.0)
    };
    boot.steps().iter().find(names).map_or(0, |step| step.address.0 - smmu::STRTAB_BASE)
}

fn check_boot(view: &View<'_>, devices: &Devices, boot: &BootDevices, findings: &mut Findings) -> Translation {
    let base = smmu_of(devices, boot);
    let commands = |queue: u64, index: u64| {
        let entry = (queue & !smmu::HINT & !0x1f).checked_add(index % (1 << smmu::COMMANDS_LOG2) * 16)?;
        Some([view.word(entry)?, view.word(entry.checked_add(8)?)?])
    };
    let mut machine = Machine::new(devices, base, &commands);
    for (number, script) in boot.scripts().iter().enumerate() {
        let scope = match script.partition {
            bulkhead_abi::devices::ALL_PARTITIONS => Scope::All,
            partition => Scope::Boot(partition as usize),
        };
        for (index, step) in boot.steps_of(script).iter().enumerate() {
            if let Err(why) = machine.execute(step, scope) {
                findings.add(Code::DeviceScript, format!("step {index} of script {number} of the boot core {why}"));
            }
        }
    }
    check_translation(&machine, findings);
    for function in &devices.functions {
        let state = machine.state(function);
        check_end(function, &state, "the boot core's scripts", findings);
        findings.require(state.identity == [true; 2], Code::DeviceScript, || {
            format!("{}: no script looks whether it is there and what it is", function.name())
        });
        findings.require(own_script(devices, boot, function), Code::DeviceScript, || {
            format!("{}: a script that brings it up would not stop its partition alone", function.name())
        });
    }
    let expects = |bit: u64| machine.expected.get(&smmu::IDR0).is_some_and(|(mask, value)| mask & value & bit != 0);
    check_ports(devices, &machine, findings);
    let bars = devices.functions.iter().map(|function| (function.plan.stream, machine.state(function).bars)).collect();
    Translation {
        bars,
        smmu: base,
        streams: machine.register(smmu::STRTAB_BASE) & !smmu::HINT,
        commands: machine.register(smmu::CMDQ_BASE) & !smmu::HINT & !0x1f,
        events: machine.register(smmu::EVENTQ_BASE) & !smmu::HINT & !0x1f,
        stages: [expects(smmu::IDR0_S1P), expects(smmu::IDR0_S2P)],
    }
}

/// States whether the base addresses of a function are written in scripts of its own partition alone.
fn own_script(devices: &Devices, boot: &BootDevices, function: &Function) -> bool {
    let writes = |script: &&BootScript| {
        boot.steps_of(script).iter().any(|step| {
            let offset = step.address.0.wrapping_sub(function.plan.configuration.0);
            (pci::BASE_ADDRESS_0..pci::BASE_ADDRESS_END).contains(&offset) || offset == pci::IDENTITY
        })
    };
    let mut scripts = boot.scripts().iter().filter(writes);
    devices.plans.contains_key(&function.partition)
        && scripts.all(|script| script.partition as usize == function.partition)
}

/// The SMMU translates, with the tables and queues that are judged elsewhere, and without interrupts.
fn check_translation(machine: &Machine<'_>, findings: &mut Findings) {
    let is_on = smmu::SMMUEN | smmu::EVENTQEN | smmu::CMDQEN;
    for (register, value, name) in [
        (smmu::CR0, is_on, "CR0"),
        (smmu::CR1, smmu::CR1_VALUE, "CR1"),
        (smmu::CR2, 0, "CR2"),
        (smmu::IRQ_CTRL, 0, "IRQ_CTRL"),
        (smmu::STRTAB_BASE_CFG, smmu::STREAMS_LOG2, "STRTAB_BASE_CFG"),
        (smmu::EVENTQ_PROD, 0, "EVENTQ_PROD"),
        (smmu::EVENTQ_CONS, 0, "EVENTQ_CONS"),
    ] {
        let found = machine.registers.get(&register).copied();
        findings.require(found == Some(value), Code::DeviceScript, || {
            format!("after the boot core's scripts the SMMU's {name} is {found:x?}, must be {value:#x}")
        });
    }
    findings.require(machine.acknowledged == is_on, Code::DeviceScript, || {
        String::from("no script waits until the SMMU translates")
    });
    let queue = |register: u64, log2: u64| machine.register(register) & 0x1f == log2;
    let events = u64::from(bulkhead_abi::devices::EVENT_ENTRIES.trailing_zeros());
    // Hardware takes a queue to begin at a multiple of its size, whatever lower bits say (6.3, SMMU_EVENTQ_BASE).
    let aligned = |register: u64, bytes: u64| (machine.register(register) & !smmu::HINT & !0x1f).is_multiple_of(bytes);
    let event_bytes = u64::from(bulkhead_abi::devices::EVENT_ENTRIES) * bulkhead_abi::devices::EVENT_BYTES;
    let sizes = queue(smmu::CMDQ_BASE, smmu::COMMANDS_LOG2)
        && queue(smmu::EVENTQ_BASE, events)
        && aligned(smmu::CMDQ_BASE, 16 << smmu::COMMANDS_LOG2)
        && aligned(smmu::EVENTQ_BASE, event_bytes);
    let idle = machine.register(smmu::CMDQ_PROD) == machine.register(smmu::CMDQ_CONS);
    findings.require(sizes && idle && machine.forgotten == [true; 2], Code::CommandQueue, || {
        String::from(
            "a queue of the SMMU has another size, or it was not told to forget configuration and translations",
        )
    });
    let at_least = |register: u64, field: u64, least: u64| {
        machine.expected.get(&register).is_some_and(|(mask, value)| mask & value & field >= least)
    };
    let facts = at_least(smmu::IDR0, smmu::IDR0_AARCH64, 1)
        && at_least(smmu::IDR0, smmu::IDR0_COHACC, 1)
        && at_least(smmu::IDR0, smmu::IDR0_S1P | smmu::IDR0_S2P, 1)
        && at_least(smmu::IDR1, smmu::IDR1_SIDSIZE, smmu::STREAMS_LOG2)
        && at_least(smmu::IDR5, smmu::IDR5_GRAN4K, 1)
        && at_least(smmu::IDR5, smmu::IDR5_OAS, 2);
    findings.require(facts, Code::DeviceScript, || {
        String::from("no script looks whether the SMMU can do what its tables need (IDR0, IDR1, IDR5)")
    });
}

/// A port passes to its bus what is behind the base addresses of functions there, and of no others.
fn check_ports(devices: &Devices, machine: &Machine<'_>, findings: &mut Findings) {
    let behind_port = |function: &Function| function.plan.stream >> 8 != 0;
    let ports: Vec<&State> = machine.states.values().filter(|state| state.is_port).collect();
    let [of_ports, memory, prefetchable] = ports.first().map_or([None; 3], |port| port.windows);
    let memory = memory.unwrap_or(0xfff0);
    let window = (memory & 0xfff0) << 16..((memory >> 16 & 0xfff0) << 16).saturating_add(1 << 20);
    let needed = devices.functions.iter().any(behind_port);
    // A base above its limit: nothing passes.
    let closed = |window: Option<u64>, bits: u64| {
        window.is_some_and(|window| window & ((1 << bits) - 1) & !0xf > (window >> bits) & !0xf)
    };
    // The last place behind the port: of what guests do not see the beginning is known alone.
    let starts = devices.functions.iter().filter(|one| behind_port(one)).flat_map(|one| machine.state(one).bars);
    let ends = devices.functions.iter().filter(|one| behind_port(one)).flat_map(Function::bars);
    let ends = ends
        .map(|(_, bar)| bar.physical.0.saturating_add(bar.bytes))
        .chain(starts.map(|start| start.saturating_add(1)));
    let last = ends.max().unwrap_or(0).checked_next_multiple_of(1 << 20);
    let is_on = |port: &&State| port.command == Some(pci::MEMORY | pci::MASTER | pci::SILENT);
    let mut good =
        ports.len() == usize::from(needed) && ports.iter().all(is_on) && (!needed || Some(window.end) == last);
    good &= !needed || closed(of_ports, 8) && closed(prefetchable, 16);
    for function in &devices.functions {
        for (_, bar) in function.bars() {
            let range = bar.physical.0..bar.physical.0.saturating_add(bar.bytes);
            let inside = window.start <= range.start && range.end <= window.end;
            good &= if behind_port(function) { inside } else { !overlap(&range, &window) };
        }
    }
    findings.require(good, Code::DeviceScript, || {
        format!(
            "the root port passes {:#x}..{:#x}, which is not what is behind the functions of its bus",
            window.start, window.end
        )
    });
}

fn check_end(function: &Function, state: &State, after: &str, findings: &mut Findings) {
    let command = state.command == Some(pci::MEMORY | pci::SILENT);
    findings.require(command && is_in_place(function, &state.bars), Code::DeviceScript, || {
        format!(
            "{}: {after} leave it with Command {:x?} and base addresses {:x?}: it must see memory, master nothing, and be \
             at {:x?}",
            function.name(),
            state.command,
            state.bars,
            base_addresses(function)
        )
    });
}

/// States whether a partition can be started a second time.
fn starts_again(contents: &Contents, partition: &Partition) -> bool {
    let manager = contents.partitions.iter().any(|other| other.plan.flags & FLAG_MANAGES != 0);
    partition.plan.health.policy == POLICY_RESTART || manager && partition.plan.flags & FLAG_MANAGEABLE != 0
}

fn check_partition(
    counter_hz: u64,
    contents: &Contents,
    devices: &Devices,
    partition: &Partition,
    translation: &Translation,
    findings: &mut Findings,
) {
    let Some((_, plan)) = devices.plans.get(&partition.index) else { return };
    let name = partition.name();
    let none = |_: u64, _: u64| None;
    let mut machine = Machine::new(devices, translation.smmu, &none);
    let own = || devices.functions.iter().filter(|function| function.partition == partition.index);
    let at_boot = |function: &Function| translation.bars.get(&function.plan.stream).copied().unwrap_or_default();
    own().for_each(|function| machine.is_driven(function, at_boot(function)));
    for (index, step) in plan.quiesce().iter().enumerate() {
        // It runs where others wait, so nothing in it lets time pass; a reset takes less than a second.
        let may = index >= plan.silence_count as usize && step.value <= counter_hz;
        findings.require(step.operation != STEP_DELAY || may, Code::DeviceScript, || {
            format!("step {index} of the script of partition \"{name}\" lets {} ticks pass", step.value)
        });
        // All of it is one passage of a shared core.
        let is_short = index >= plan.silence_count as usize || step.limit <= SILENCE_READS;
        findings.require(is_short, Code::DeviceScript, || {
            format!("step {index} of the script of partition \"{name}\" may read {} times before its core does anything else", step.limit)
        });
        if index == plan.silence_count as usize {
            check_silence(&machine, own(), name, translation, findings);
        }
        if let Err(why) = machine.execute(step, Scope::Partition(partition.index)) {
            findings.add(Code::DeviceScript, format!("step {index} of the script of partition \"{name}\" {why}"));
        }
    }
    if plan.silence_count == plan.step_count {
        check_silence(&machine, own(), name, translation, findings);
    }
    for function in own() {
        let state = machine.state(function);
        let after = format!("the script of partition \"{name}\"");
        check_end(function, &state, &after, findings);
        findings.require(state.bars == at_boot(function), Code::DeviceScript, || {
            format!("{}: {after} leaves it elsewhere than the boot core's scripts do", function.name())
        });
        // That both are the capability of the hardware is a fact of the board.
        findings.require(state.reset_by == u64::from(function.plan.device_control), Code::DeviceScript, || {
            format!(
                "{}: {after} resets it by register {:#x}, its plan says {:#x}",
                function.name(),
                state.reset_by,
                function.plan.device_control
            )
        });
        findings.require(state.is_reset || !starts_again(contents, partition), Code::DeviceScript, || {
            format!("{}: {after} does not reset it, and the partition can be started again", function.name())
        });
    }
    let polls = plan.poll_ticks != 0;
    let registers = if polls { translation.smmu.saturating_add(smmu::PAGE_1) } else { 0 };
    let events = if polls { translation.events } else { 0 };
    let good = plan.event_registers.0 == registers
        && plan.events.0 == events
        && !(polls && partition.plan.mode == MODE_DIRECT)
        && (polls || plan.events_are_faults == 0);
    findings.require(good, Code::DevicePlan, || {
        format!(
            "partition \"{name}\" looks for events each {} ticks at {} and {}",
            plan.poll_ticks, plan.event_registers, plan.events
        )
    });
}

fn check_silence<'a>(
    machine: &Machine<'_>,
    functions: impl Iterator<Item = &'a Function>,
    name: &str,
    translation: &Translation,
    findings: &mut Findings,
) {
    for function in functions {
        let state = machine.state(function);
        // The partition may stay like this, so it must be where it was.
        let in_place = translation.bars.get(&function.plan.stream) == Some(&state.bars);
        let silent = state.command.is_some_and(|command| command & pci::SILENT != 0);
        findings.require(state.is_quiet && silent && in_place, Code::DeviceScript, || {
            format!("{}: the silencing part of partition \"{name}\"'s script leaves it loud", function.name())
        });
    }
}

/// Registers that no guest may have but by the base addresses of its own functions.
pub(crate) fn places(devices: &Devices, translation: &Translation) -> Vec<(Range<u64>, String)> {
    if devices.boot.is_none() {
        return Vec::new();
    }
    let base = translation.smmu;
    let mut places: Vec<(Range<u64>, String)> = vec![
        (base..base.saturating_add(smmu::BYTES), String::from("the SMMU")),
        (devices.configuration(), String::from("configuration space")),
    ];
    for function in &devices.functions {
        for (index, bar) in function.bars() {
            let end = crate::image::page_end(bar.physical.0.saturating_add(bar.bytes));
            places.push((bar.physical.0..end, format!("base address {index} of {}", function.name())));
        }
    }
    // Of what guests do not see the bytes say where it begins alone.
    for function in &devices.functions {
        let bars = translation.bars.get(&function.plan.stream).copied().unwrap_or_default();
        let hidden =
            base_addresses(function).into_iter().zip(bars).enumerate().filter(|(_, (shown, _))| shown.is_none());
        for (index, (_, start)) in hidden.filter(|(_, (_, start))| *start != 0) {
            places.push((
                start..start.saturating_add(PAGE),
                format!("hidden base address {index} of {}", function.name()),
            ));
        }
    }
    places
}

/// Registers of the SMMU, configuration spaces and what is behind base addresses are apart, and are no memory.
fn check_places(
    view: &View<'_>,
    contents: &Contents,
    devices: &Devices,
    translation: &Translation,
    findings: &mut Findings,
) {
    let mut places = places(devices, translation);
    let gicd = view.header.gicd.0;
    places.push((gicd..gicd.saturating_add(GICD_BYTES), String::from("the distributor")));
    for core in &contents.cores {
        let gicr = core.gicr();
        places.push((
            gicr..gicr.saturating_add(crate::el2::GICR_BYTES),
            format!("the redistributor of core {}", core.index),
        ));
    }
    for vcpu in contents.vcpus().filter(|vcpu| vcpu.plan.uart.0 != 0) {
        let uart = vcpu.plan.uart.0;
        let place = (uart..uart.saturating_add(PAGE), String::from("the UART"));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    for (place, (range, name)) in places.iter().enumerate() {
        let other = places.iter().take(place).find(|(other, _)| overlap(range, other));
        let free = range.start != 0 && !view.touches_ram(range);
        findings.require(free && other.is_none(), Code::FunctionHeader, || {
            let with = other.map_or("memory", |(_, other)| other.as_str());
            format!("{name} at {:#x} is in the same place as {with}", range.start)
        });
    }
}
