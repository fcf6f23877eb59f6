//! A channel end: its function, its registers and what they say about the port.

use crate::failure::{Failure, MACHINE, NOT_FOUND};
use crate::hardware::Mapping;
use crate::sysfs::{DEVICE_CHANNEL, Function, Machine};
use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::{GuestAddress, NAME_BYTES, PAGE_BYTES};
use bulkhead_channel::Geometry;
use bulkhead_guest_abi::channel::{PORT_BLOCK, PORT_NET, PORT_POOL};
use bulkhead_guest_abi::guest::{DIRECTION_DESTINATION, DIRECTION_SOURCE};
use bulkhead_guest_abi::name_text;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::mem::offset_of;

/// Bytes of BAR 0.
const REGISTER_BYTES: usize = 4096;
/// Register: interrupt mask, 1 lets doorbells through.
const INTERRUPT_MASK: u64 = 0x0;
/// Register: interrupt status, cleared by reading.
const INTERRUPT_STATUS: u64 = 0x4;
/// Register: the destination's position in bits 31:16, the vector in bits 15:0.
const DOORBELL: u64 = 0xc;
/// Position of the destination's end.
const DESTINATION_POSITION: u32 = 1;
/// Registers from here: an image of [`PortInformation`].
const PORT_INFORMATION: u64 = 0x100;

/// Doorbells of both directions: registers of BAR 0.
#[derive(Debug)]
pub(crate) struct Doorbells(Mapping);

impl Doorbells {
    /// Rings the peer's.
    pub(crate) fn ring(&self) {
        // Inside the mapping by construction, so there is no error to report.
        let _ = self.0.write_register(DOORBELL, DESTINATION_POSITION << 16);
    }

    /// Lets the own one through to the interrupt line.
    pub(crate) fn unmask(&self) {
        let _ = self.0.write_register(INTERRUPT_MASK, 1);
    }

    /// Clears the interrupt's level; returns whether a doorbell had been rung.
    pub(crate) fn take(&self) -> bool {
        self.0.read_register(INTERRUPT_STATUS).is_some_and(|status| status != 0)
    }
}

/// A channel end of this partition.
#[derive(Debug)]
pub(crate) struct Port {
    function: Function,
    pub(crate) information: PortInformation,
    pub(crate) geometry: Geometry,
    doorbells: Doorbells,
}

impl Port {
    /// Finds all ports of channels between partitions.
    pub(crate) fn all(machine: &Machine) -> Result<Vec<Self>, Failure> {
        let of_others = |kind| matches!(kind, PORT_POOL | PORT_NET | PORT_BLOCK);
        let functions = functions(machine)?.into_iter().filter(|(_, _, information)| !of_others(information.kind));
        functions.map(Self::new).collect()
    }

    /// Finds a port by name.
    pub(crate) fn find(machine: &Machine, name: &str) -> Result<Self, Failure> {
        let ports = Self::all(machine)?;
        let names: Vec<String> = ports.iter().map(|port| port.name().to_owned()).collect();
        ports.into_iter().find(|port| port.name() == name).ok_or_else(|| {
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            Failure::new(NOT_FOUND, format!("this partition has no port {name:?}; {known}"))
        })
    }

    fn new((function, registers, information): (Function, Mapping, PortInformation)) -> Result<Self, Failure> {
        let geometry = Geometry::from_port(&information).map_err(|error| {
            let address = &function.address;
            Failure::new(MACHINE, format!("{address} is not a channel end of this version of Bulkhead: {error}"))
        })?;
        Ok(Self { function, information, geometry, doorbells: Doorbells(registers) })
    }

    /// Returns the port's name.
    pub(crate) fn name(&self) -> &str {
        name_text(&self.information.name)
    }

    /// Returns the PCI function.
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// States whether this end writes.
    pub(crate) fn is_source(&self) -> bool {
        self.information.direction == DIRECTION_SOURCE
    }

    /// States whether this end can ring.
    pub(crate) fn has_doorbell(&self) -> bool {
        self.is_source() && self.information.doorbell != u32::MAX
    }

    /// States whether this end can be rung.
    pub(crate) fn has_interrupt(&self) -> bool {
        self.information.direction == DIRECTION_DESTINATION && self.information.interrupt != 0
    }

    /// Maps the channel's memory: write-combining (Normal non-cacheable, as the other end has it) or else as the kernel
    /// maps devices, which is slower and just as correct for aligned words.
    pub(crate) fn map_window(&self) -> Result<Mapping, Failure> {
        let file = self.function.open_first_resource(["resource2_wc", "resource2"])?;
        usize::try_from(self.geometry.window_bytes())
            .map_err(std::io::Error::other)
            .and_then(|bytes| Mapping::new(&file, bytes))
            .map_err(|error| Failure::machine(format_args!("cannot map BAR 2 of {}", self.function.address), &error))
    }

    /// Takes the port for this process: an end has one writer. The lock ends with the returned file.
    pub(crate) fn lock(&self) -> Result<File, Failure> {
        lock(&self.function, self.name())
    }

    /// Returns the doorbells.
    pub(crate) fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }
}

/// The back end of a virtio device of another partition.
#[derive(Debug)]
pub(crate) struct BackEnd {
    function: Function,
    information: PortInformation,
    doorbells: Doorbells,
}

impl BackEnd {
    /// Finds one by its name.
    pub(crate) fn find(machine: &Machine, name: &str) -> Result<Self, Failure> {
        let is_back_end = |kind| matches!(kind, PORT_NET | PORT_BLOCK);
        let all = functions(machine)?.into_iter().filter(|(_, _, information)| is_back_end(information.kind));
        let new = |(function, registers, information)| Self { function, information, doorbells: Doorbells(registers) };
        let all: Vec<Self> = all.map(new).collect();
        let names: Vec<String> = all.iter().map(|back| back.name().to_owned()).collect();
        all.into_iter().find(|back| back.name() == name).ok_or_else(|| {
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            Failure::new(NOT_FOUND, format!("this partition is no back end of {name:?}; {known}"))
        })
    }

    /// Returns the device's name.
    pub(crate) fn name(&self) -> &str {
        name_text(&self.information.name)
    }

    /// States whether the device is a network card, and not a disk.
    pub(crate) fn is_net(&self) -> bool {
        self.information.kind == PORT_NET
    }

    /// Returns the PCI function.
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// Takes it for this process.
    pub(crate) fn lock(&self) -> Result<File, Failure> {
        lock(&self.function, self.name())
    }

    /// Maps device page and pool. What follows them in BAR 2 is not there.
    pub(crate) fn map_window(&self) -> Result<Mapping, Failure> {
        let file = self.function.open_first_resource(["resource2_wc", "resource2"])?;
        let pages = u64::from(self.information.slots).saturating_add(1);
        usize::try_from(pages.saturating_mul(PAGE_BYTES))
            .map_err(std::io::Error::other)
            .and_then(|bytes| Mapping::new(&file, bytes))
            .map_err(|error| Failure::machine(format_args!("cannot map BAR 2 of {}", self.function.address), &error))
    }

    /// Returns the doorbells.
    pub(crate) fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }
}

/// Takes a port for this process; the lock ends with the returned file.
fn lock(function: &Function, name: &str) -> Result<File, Failure> {
    let file = function.open_resource("resource2")?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
        if error == rustix::io::Errno::WOULDBLOCK {
            Failure::new(MACHINE, format!("port {name} is in use by another process"))
        } else {
            Failure::machine(format_args!("cannot lock port {name}"), &error.into())
        }
    })?;
    Ok(file)
}

/// All channel functions, with their registers and what these say.
fn functions(machine: &Machine) -> Result<Vec<(Function, Mapping, PortInformation)>, Failure> {
    let open = |function: Function| {
        function.enable()?;
        let registers = map_registers(&function)?;
        let information = read_information(&registers);
        Ok((function, registers, information))
    };
    machine.functions(DEVICE_CHANNEL)?.into_iter().map(open).collect()
}

/// Finds the ends of channels to the payload of the secure world.
pub(crate) fn pools(machine: &Machine) -> Result<Vec<(Function, PortInformation)>, Failure> {
    let pools = functions(machine)?.into_iter().filter(|(_, _, information)| information.kind == PORT_POOL);
    Ok(pools.map(|(function, _, information)| (function, information)).collect())
}

/// Maps BAR 0 of a function.
pub(crate) fn map_registers(function: &Function) -> Result<Mapping, Failure> {
    let file = function.open_resource("resource0")?;
    Mapping::new(&file, REGISTER_BYTES)
        .map_err(|error| Failure::machine(format_args!("cannot map BAR 0 of {}", function.address), &error))
}

/// Reads a name of 32 bytes from registers.
pub(crate) fn read_name(registers: &Mapping, offset: u64) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    for (chunk, at) in name.chunks_mut(4).zip((offset..).step_by(4)) {
        let word = registers.read_register(at).unwrap_or(0).to_le_bytes();
        chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
    }
    name
}

fn read_information(registers: &Mapping) -> PortInformation {
    let word = |offset: usize| registers.read_register(PORT_INFORMATION + offset as u64).unwrap_or(0);
    PortInformation {
        name: read_name(registers, PORT_INFORMATION + offset_of!(PortInformation, name) as u64),
        // Meaningless here: the window is BAR 2.
        window: GuestAddress(0),
        window_bytes: 0,
        direction: word(offset_of!(PortInformation, direction)),
        kind: word(offset_of!(PortInformation, kind)),
        message_bytes: word(offset_of!(PortInformation, message_bytes)),
        slots: word(offset_of!(PortInformation, slots)),
        doorbell: word(offset_of!(PortInformation, doorbell)),
        interrupt: word(offset_of!(PortInformation, interrupt)),
    }
}
