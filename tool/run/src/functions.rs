//! PCI functions of a machine: how QEMU is told of them, and what of the host is held while it runs.
//!
//! What is behind a function is a fact of a run, not of an image ([`bulkhead_description::host`]). A disk is locked for as long as the
//! machine lives, so that a second run cannot write the same file system; the lock is the kernel's and ends with this process and QEMU, however
//! they end. Networks are hubs between functions, or QEMU's user network with `restrict=on`: nothing leaves the machine but answers at the
//! loopback ports that the description names.

use crate::disks::{Held, PREFIX};
use crate::error::RunError;
use bulkhead_description::host::{Disk, Forward, HostSide};
use bulkhead_plan::model::{PciFunction, System};
use std::net::TcpListener;

/// PCI functions of a machine, and what is behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    arguments: Vec<String>,
    disks: Vec<(String, Disk)>,
    forwards: Vec<Forward>,
}

impl Functions {
    /// The functions of a system with what its description says is behind them, in the same order.
    ///
    /// # Errors
    /// When the board does not say what QEMU needs to know.
    pub fn of(system: &System, host: &[HostSide]) -> Result<Self, RunError> {
        let mut all = Self::default();
        if let Some(first) = system.functions.iter().find(|function| function.bus != 0) {
            let port = system.board.qemu.as_ref().and_then(|qemu| qemu.root_port.as_ref());
            let slot = system.board.pci.as_ref().and_then(|pci| pci.root_port);
            let (Some(port), Some(slot)) = (port, slot) else {
                let message = format!(
                    "the board file says in no `root_port` of `[qemu]` how function `{}` is reached",
                    first.name
                );
                return Err(RunError::Other(message));
            };
            all.add("-device", format!("{port},id={PORT},bus={BUS},chassis=1,addr={slot:#x}"));
        }
        let hubs = hubs(host);
        for (function, side) in system.functions.iter().zip(host) {
            all.function(system, function, side, &hubs);
        }
        Ok(all)
    }

    /// Arguments for QEMU.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The disks, with the names of their functions.
    #[must_use]
    pub fn disks(&self) -> &[(String, Disk)] {
        &self.disks
    }

    /// Ports of the loopback that lead to guests.
    #[must_use]
    pub fn forwards(&self) -> &[Forward] {
        &self.forwards
    }

    /// Puts a device of QEMU behind each disk that answers at once and keeps nothing, for measurements of everything else: a file's answers
    /// come when the host likes, and ticks of the guest meanwhile.
    pub fn answer_at_once(&mut self, bytes: u64) {
        for (_, disk) in self.disks.drain(..) {
            let file = format!("file.driver=file,file.filename={}", quote_option(&disk.file.to_string_lossy()));
            for argument in &mut self.arguments {
                *argument =
                    argument.replace(&file, &format!("file.driver=null-co,file.size={bytes},file.read-zeroes=on"));
            }
        }
    }

    fn add(&mut self, option: &str, value: String) {
        self.arguments.extend([option.to_owned(), value]);
    }

    fn function(&mut self, system: &System, function: &PciFunction, side: &HostSide, hubs: &[&str]) {
        let id = format!("{PREFIX}{}", function.name);
        let behind = match side {
            HostSide::Nothing => String::new(),
            HostSide::Disk(disk) => {
                // Not `file=`: there a name with a colon would be a protocol. What the host cannot do is an error of the guest that wants
                // it: QEMU would stop the machine, and with it all others, when the host is full.
                let file = quote_option(&disk.file.to_string_lossy());
                let read_only = if disk.read_only { ",readonly=on" } else { "" };
                self.add(
                    "-drive",
                    format!("if=none,id={id},format=raw,werror=report,rerror=report,file.driver=file,file.filename={file}{read_only}"),
                );
                self.disks.push((function.name.clone(), disk.clone()));
                format!(",drive={id}")
            }
            HostSide::Ports(forwards) => {
                let mut network = format!("user,id={id},restrict=on");
                for Forward { address, port, guest_port } in forwards {
                    network.push_str(&format!(",hostfwd=tcp:{address}:{port}-:{guest_port}"));
                }
                self.add("-netdev", network);
                self.forwards.extend(forwards);
                format!(",netdev={id}")
            }
            HostSide::Hub(name) => {
                let number = hubs.iter().position(|hub| hub == name).unwrap_or_default();
                self.add("-netdev", format!("hubport,id={id},hubid={number}"));
                format!(",netdev={id}")
            }
        };
        let models = system.board.pci.as_ref().map(|pci| pci.models.as_slice()).unwrap_or_default();
        let model = models.get(function.model).map_or("", |model| model.qemu.as_str());
        let bus = if function.bus == 0 { BUS } else { PORT };
        self.add("-device", format!("{model}{behind},bus={bus},addr={:#x}", function.device));
    }

    /// Locks disks and looks whether ports are free.
    pub(crate) fn hold(&self) -> Result<Held, RunError> {
        let held = Held::lock(&self.disks)?;
        for forward in &self.forwards {
            TcpListener::bind((forward.address, forward.port)).map_err(|cause| match cause.kind() {
                std::io::ErrorKind::AddrInUse => RunError::PortInUse(*forward),
                _ => RunError::Host { doing: format!("cannot listen at {}:{}", forward.address, forward.port), cause },
            })?;
        }
        Ok(held)
    }
}

/// The host bridge's bus, as QEMU calls it.
const BUS: &str = "pcie.0";
/// The root port.
const PORT: &str = "pci-root-port";

/// Names of hubs, each once; their places are QEMU's numbers.
fn hubs(host: &[HostSide]) -> Vec<&str> {
    let mut hubs: Vec<&str> = Vec::new();
    for side in host {
        if let HostSide::Hub(name) = side
            && !hubs.contains(&name.as_str())
        {
            hubs.push(name);
        }
    }
    hubs
}

/// Doubles commas, as QEMU's option syntax wants.
pub(crate) fn quote_option(text: &str) -> String {
    text.replace(',', ",,")
}
