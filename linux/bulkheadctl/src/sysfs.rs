//! What the kernel says about the machine: PCI functions, their resources, configuration and drivers.

use crate::failure::{Failure, MACHINE};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Vendor of the functions (Red Hat, as QEMU's ivshmem).
const VENDOR: u64 = 0x1af4;
/// Device ID of a channel end.
pub(crate) const DEVICE_CHANNEL: u64 = 0x1110;
/// Device ID of the management device.
pub(crate) const DEVICE_MANAGEMENT: u64 = 0x1111;

/// Driver through which doorbells are waited for.
const DRIVER: &str = "uio_pci_generic";
/// Offset of the Command register in configuration space.
const COMMAND: u64 = 4;
/// Command: INTx is masked.
const COMMAND_INTX_DISABLE: u16 = 1 << 10;

/// Where the machine is described; other directories in tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    sysfs: PathBuf,
    devices: PathBuf,
    processes: PathBuf,
}

impl Machine {
    /// Names the directories; `None` is `/sys`, `/dev` and `/proc`.
    #[must_use]
    pub fn new(sysfs: Option<PathBuf>, devices: Option<PathBuf>, processes: Option<PathBuf>) -> Self {
        Self {
            sysfs: sysfs.unwrap_or_else(|| "/sys".into()),
            devices: devices.unwrap_or_else(|| "/dev".into()),
            processes: processes.unwrap_or_else(|| "/proc".into()),
        }
    }

    /// A path in sysfs.
    pub(crate) fn sysfs(&self, path: &str) -> PathBuf {
        self.sysfs.join(path)
    }

    /// A path in the directory of processes.
    pub(crate) fn processes(&self, path: &str) -> PathBuf {
        self.processes.join(path)
    }

    /// Opens a device for reading and writing.
    pub(crate) fn open_device(&self, name: &str) -> Result<File, Failure> {
        let path = self.devices.join(name);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        file.map_err(|error| Failure::machine(format_args!("cannot open {}", path.display()), &error))
    }

    /// Finds the functions with a device ID, in the order of their addresses.
    pub(crate) fn functions(&self, device: u64) -> Result<Vec<Function>, Failure> {
        let directory = self.sysfs.join("bus/pci/devices");
        let entries = fs::read_dir(&directory).map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::NotFound { " (is sysfs mounted?)" } else { "" };
            Failure::new(MACHINE, format!("cannot list PCI functions in {}: {error}{hint}", directory.display()))
        })?;
        let mut functions: Vec<Function> = entries
            .filter_map(|entry| entry.ok())
            .map(|entry| Function { address: entry.file_name().to_string_lossy().into_owned(), path: entry.path() })
            .filter(|function| function.number("vendor") == Some(VENDOR) && function.number("device") == Some(device))
            .collect();
        functions.sort_by(|left, right| left.address.cmp(&right.address));
        Ok(functions)
    }

    /// Makes sure that `uio_pci_generic` drives the function and opens its device.
    pub(crate) fn open_uio(&self, function: &Function) -> Result<File, Failure> {
        if function.uio_name().is_none() {
            self.bind(function)?;
        }
        let name = function.uio_name().ok_or_else(|| {
            Failure::new(MACHINE, format!("{}: {DRIVER} is bound but made no uio device", function.address))
        })?;
        self.open_device(&name)
    }

    /// Binds by name (`driver_override`), which concerns this function only; an entry in the driver's `new_id` would take
    /// every channel end of the partition.
    fn bind(&self, function: &Function) -> Result<(), Failure> {
        if let Some(driver) = function.driver().filter(|driver| driver != DRIVER) {
            let address = &function.address;
            return Err(Failure::new(MACHINE, format!("{address} is used by driver {driver}; unbind it first")));
        }
        let driver = self.sysfs.join("bus/pci/drivers").join(DRIVER);
        if !driver.is_dir() {
            let message = format!("doorbells need the kernel module {DRIVER}; load it with: modprobe {DRIVER}");
            return Err(Failure::new(MACHINE, message));
        }
        function.write("driver_override", DRIVER)?;
        let bind = driver.join("bind");
        fs::write(&bind, &function.address).map_err(|error| {
            Failure::machine(format_args!("cannot write {} to {}", function.address, bind.display()), &error)
        })
    }
}

/// Lets a function's INTx through. The driver masks it at each interrupt and leaves unmasking to its user; the rest of the Command register is
/// set when the driver is bound and stays, so it is read once: each access to configuration space is an entry into the monitor.
#[derive(Debug)]
pub(crate) struct InterruptSwitch {
    config: File,
    /// The Command register with INTx unmasked.
    unmasked: u16,
    path: PathBuf,
}

impl InterruptSwitch {
    /// Unmasks INTx.
    pub(crate) fn unmask(&self) -> Result<(), Failure> {
        self.config.write_all_at(&self.unmasked.to_le_bytes(), COMMAND).map_err(|error| {
            Failure::machine(format_args!("cannot unmask the interrupt in {}", self.path.display()), &error)
        })
    }
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Address, e.g. `0000:00:01.0`.
    pub(crate) address: String,
    path: PathBuf,
}

impl Function {
    /// Switches memory decoding on, unless a driver has done so.
    pub(crate) fn enable(&self) -> Result<(), Failure> {
        if self.number("enable").is_some_and(|users| users > 0) {
            return Ok(());
        }
        self.write("enable", "1")
    }

    /// Opens a resource for mapping.
    pub(crate) fn open_resource(&self, name: &str) -> Result<File, Failure> {
        let path = self.path.join(name);
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| Failure::machine(format_args!("cannot open {}", path.display()), &error))
    }

    /// Opens the first of two resources that exists.
    pub(crate) fn open_first_resource(&self, names: [&str; 2]) -> Result<File, Failure> {
        let [preferred, fallback] = names;
        let exists = self.path.join(preferred).exists();
        self.open_resource(if exists { preferred } else { fallback })
    }

    /// Where the kernel put a resource: the first number of its line.
    pub(crate) fn resource_address(&self, number: usize) -> Result<u64, Failure> {
        let path = self.path.join("resource");
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::machine(format_args!("cannot read {}", path.display()), &error))?;
        let address = text.lines().nth(number).and_then(|line| parse_number(line.split(' ').next()?));
        address.ok_or_else(|| Failure::new(MACHINE, format!("{} has no line of BAR {number}", path.display())))
    }

    /// Opens what lets INTx through.
    pub(crate) fn interrupt_switch(&self) -> Result<InterruptSwitch, Failure> {
        let path = self.path.join("config");
        let open = || -> io::Result<_> {
            let config = OpenOptions::new().read(true).write(true).open(&path)?;
            let mut command = [0; 2];
            config.read_exact_at(&mut command, COMMAND)?;
            Ok((config, u16::from_le_bytes(command) & !COMMAND_INTX_DISABLE))
        };
        let (config, unmasked) = open()
            .map_err(|error| Failure::machine(format_args!("cannot read the Command in {}", path.display()), &error))?;
        Ok(InterruptSwitch { config, unmasked, path })
    }

    /// Returns the driver's name.
    fn driver(&self) -> Option<String> {
        let target = fs::read_link(self.path.join("driver")).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns the name of the function's uio device.
    fn uio_name(&self) -> Option<String> {
        let entry = fs::read_dir(self.path.join("uio")).ok()?.next()?.ok()?;
        Some(entry.file_name().to_string_lossy().into_owned())
    }

    fn number(&self, attribute: &str) -> Option<u64> {
        parse_number(&fs::read_to_string(self.path.join(attribute)).ok()?)
    }

    fn write(&self, attribute: &str, value: &str) -> Result<(), Failure> {
        let path = self.path.join(attribute);
        write_existing(&path, value)
            .map_err(|error| Failure::machine(format_args!("cannot write {value} to {}", path.display()), &error))
    }
}

/// Writes to an attribute, and does not make a file where there is none.
fn write_existing(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all_at(value.as_bytes(), 0)
}

/// Reads `0x1af4` or `12`.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
