//! The management device: states of partitions, suspend, resume and restart, heartbeats.

use crate::arguments::{Action, Format};
use crate::failure::{Failure, MACHINE, NOT_FOUND, REFUSED};
use crate::hardware::Mapping;
use crate::json::{Object, array};
use crate::port::{map_registers, read_name};
use crate::sysfs::{DEVICE_MANAGEMENT, Machine};
use bulkhead_abi::hypercall::management as register;
use bulkhead_abi::{MAX_PARTITIONS, status};
use bulkhead_guest_abi::name_text;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// Names a `STATE_` constant.
pub(crate) fn state_text(state: u64) -> &'static str {
    match u32::try_from(state) {
        Ok(status::STATE_INITIAL) => "initial",
        Ok(status::STATE_RUNNING) => "running",
        Ok(status::STATE_SUSPENDED) => "suspended",
        Ok(status::STATE_OFF) => "off",
        Ok(status::STATE_RESTARTING) => "restarting",
        Ok(status::STATE_STOPPED) => "stopped",
        _ => "unknown",
    }
}

/// Names a `REASON_` constant.
pub(crate) fn reason_text(reason: u64) -> &'static str {
    match u32::try_from(reason) {
        Ok(status::REASON_NONE) => "no reason",
        Ok(status::REASON_DATA_ABORT) => "data abort",
        Ok(status::REASON_INSTRUCTION_ABORT) => "instruction abort",
        Ok(status::REASON_UNKNOWN_EXCEPTION) => "unknown exception",
        Ok(status::REASON_FORBIDDEN_CALL) => "forbidden call",
        Ok(status::REASON_WATCHDOG) => "watchdog",
        Ok(status::REASON_REQUESTED) => "requested",
        Ok(status::REASON_MANAGED) => "managed",
        Ok(status::REASON_SERROR) => "SError",
        Ok(status::REASON_IMAGE_DAMAGED) => "image damaged",
        Ok(status::REASON_BAD_ACCESS) => "bad access",
        Ok(status::REASON_CORE_STUCK) => "core stuck",
        Ok(status::REASON_DEVICE_MISSING) => "device missing",
        Ok(status::REASON_DEVICE_STUCK) => "device stuck",
        Ok(status::REASON_DMA) => "DMA outside",
        Ok(status::REASON_BACK_END_BUSY) => "back end busy",
        _ => "unknown reason",
    }
}

/// The device, held by this process alone: what SELECT chooses is shared by all users.
struct Device {
    registers: Mapping,
    _lock: File,
}

/// One partition as the device describes it.
struct Entry {
    index: u32,
    name: String,
    is_own: bool,
    state: u32,
    reason: u32,
    generation: u32,
    restarts: u32,
}

impl Device {
    fn open(machine: &Machine) -> Result<Self, Failure> {
        let Some(function) = machine.functions(DEVICE_MANAGEMENT)?.into_iter().next() else {
            return Err(Failure::new(MACHINE, "this partition has no management device (PCI function 1af4:1111)"));
        };
        function.enable()?;
        let lock = function.open_resource("resource0")?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| Failure::machine("cannot lock the management device", &error.into()))?;
        let registers = map_registers(&function)?;
        let device = Self { registers, _lock: lock };
        if device.read(register::MAGIC) != register::MAGIC_VALUE {
            let address = &function.address;
            return Err(Failure::new(
                MACHINE,
                format!("{address} is not the management device of this version of Bulkhead"),
            ));
        }
        Ok(device)
    }

    fn read(&self, offset: u64) -> u32 {
        // Inside the mapping by construction.
        self.registers.read_register(offset).unwrap_or(0)
    }

    fn write(&self, offset: u64, value: u32) {
        let _ = self.registers.write_register(offset, value);
    }

    fn entry(&self, index: u32) -> Entry {
        self.write(register::SELECT, index);
        Entry {
            index,
            name: name_text(&read_name(&self.registers, register::NAME)).to_owned(),
            is_own: self.read(register::OWN) == index,
            state: self.read(register::STATE),
            reason: self.read(register::REASON),
            generation: self.read(register::GENERATION),
            restarts: self.read(register::RESTARTS),
        }
    }

    /// All partitions that this one may see: every one if it manages, otherwise itself.
    fn entries(&self) -> Vec<Entry> {
        let count = self.read(register::COUNT).min(MAX_PARTITIONS as u32);
        if count <= 1 {
            vec![self.entry(self.read(register::OWN))]
        } else {
            (0..count).map(|index| self.entry(index)).collect()
        }
    }

    fn find(&self, name: &str) -> Result<Entry, Failure> {
        let mut entries = self.entries();
        match entries.iter().position(|entry| entry.name == name) {
            Some(position) => Ok(entries.swap_remove(position)),
            None => {
                let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
                let hint =
                    if names.len() == 1 { " (this partition may see itself only: no `manages = true`)" } else { "" };
                Err(Failure::new(NOT_FOUND, format!("no partition {name:?}; there is {}{hint}", names.join(", "))))
            }
        }
    }
}

impl Entry {
    fn object(&self) -> Object {
        Object::default()
            .number("index", self.index.into())
            .text("name", &self.name)
            .truth("own", self.is_own)
            .text("state", state_text(self.state.into()))
            .text("reason", reason_text(self.reason.into()))
            .number("generation", self.generation.into())
            .number("restarts", self.restarts.into())
    }
}

/// Prints all partitions.
pub(crate) fn list(machine: &Machine, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let entries = Device::open(machine)?.entries();
    if format == Format::Json {
        let objects: Vec<String> = entries.iter().map(|entry| entry.object().finish()).collect();
        writeln!(output, "{}", array(&objects))?;
        return Ok(());
    }
    writeln!(output, "  {:<20} {:<11} {:<18} {:>7} {:>8}", "NAME", "STATE", "REASON", "STARTED", "RESTARTS")?;
    for entry in &entries {
        print_row(entry, output)?;
    }
    Ok(())
}

/// Prints one partition.
pub(crate) fn status(machine: &Machine, name: &str, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let entry = Device::open(machine)?.find(name)?;
    if format == Format::Json {
        writeln!(output, "{}", entry.object().finish())?;
        return Ok(());
    }
    writeln!(output, "name:      {}{}", entry.name, if entry.is_own { " (this partition)" } else { "" })?;
    writeln!(output, "state:     {}", state_text(entry.state.into()))?;
    writeln!(output, "reason:    {}", reason_text(entry.reason.into()))?;
    writeln!(output, "started:   {} times", entry.generation)?;
    writeln!(output, "restarts:  {}", entry.restarts)?;
    Ok(())
}

fn print_row(entry: &Entry, output: &mut dyn Write) -> Result<(), Failure> {
    writeln!(
        output,
        "{} {:<20} {:<11} {:<18} {:>7} {:>8}",
        if entry.is_own { '*' } else { ' ' },
        entry.name,
        state_text(entry.state.into()),
        reason_text(entry.reason.into()),
        entry.generation,
        entry.restarts
    )?;
    Ok(())
}

/// Asks the monitor to suspend, resume or restart a partition. The request is posted; `status` shows its effect.
pub(crate) fn manage(machine: &Machine, name: &str, action: Action) -> Result<(), Failure> {
    let device = Device::open(machine)?;
    let entry = device.find(name)?;
    let command = match action {
        Action::Suspend => status::MANAGE_SUSPEND,
        Action::Resume => status::MANAGE_RESUME,
        Action::Restart => status::MANAGE_RESTART,
    };
    device.write(register::SELECT, entry.index);
    device.write(register::COMMAND, command);
    // 32-bit SMCCC values.
    match device.read(register::RESULT) as i32 {
        0 => Ok(()),
        -3 => Err(Failure::new(
            REFUSED,
            format!(
                "the monitor refused for {name}: this partition has no `manages = true`, or {name} cannot be managed (interrupts = \"direct\")"
            ),
        )),
        1 => Err(Failure::new(
            REFUSED,
            format!("limited: too many requests to {name} came before this one (`manage_limit`); try again later"),
        )),
        -1 => Err(Failure::new(REFUSED, "the monitor does not support this command")),
        other => Err(Failure::new(REFUSED, format!("the monitor answered {other} for {name}"))),
    }
}

/// Beats every period, at absolute times, so that delays do not add up.
pub(crate) fn heartbeat(machine: &Machine, every: Duration, count: Option<u64>) -> Result<(), Failure> {
    // The lock is not kept: HEARTBEAT does not depend on SELECT, and other users must get at the device.
    let Device { registers, _lock } = Device::open(machine)?;
    drop(_lock);
    let mut next = Instant::now();
    let mut beats = 0;
    loop {
        let _ = registers.write_register(register::HEARTBEAT, 1);
        beats += 1;
        if count.is_some_and(|count| beats >= count) {
            return Ok(());
        }
        next += every;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
