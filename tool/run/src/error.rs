//! What can end a run, in words, with the exit code for each.

use crate::diagnosis::CrashReport;
use bulkhead_description::host::Forward;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Exit codes of `bulkhead run`, `attach`, `stats` and `trace`.
pub mod exit_code {
    /// The run ended as asked: every partition off, the machine powered off, or the asked-for partition off.
    pub const SUCCESS: u8 = 0;
    /// The description, image or run could not be used; the message says why.
    pub const FAILURE: u8 = 1;
    /// Wrong command line (given by the argument parser).
    pub const USAGE: u8 = 2;
    /// The host lacks something: QEMU missing or too old, too little space for RAM, no C compiler for the plugin,
    /// a file that cannot be read or written.
    pub const HOST: u8 = 3;
    /// QEMU itself failed.
    pub const QEMU: u8 = 4;
    /// A monitor failed and left a crash record, or none started.
    pub const MONITOR: u8 = 5;
    /// The time limit passed.
    pub const TIMEOUT: u8 = 6;
    /// All partitions ended, at least one of them stopped by its health policy after a fault.
    pub const STOPPED: u8 = 7;
}

/// Why a run cannot start or continue.
#[derive(Debug)]
pub enum RunError {
    /// No QEMU was found.
    QemuMissing {
        /// The program that was looked for.
        program: PathBuf,
    },
    /// QEMU is older than this tool was tested with.
    QemuTooOld {
        /// What `--version` said.
        found: String,
    },
    /// `--version` gave no version.
    QemuVersionUnknown {
        /// The program.
        program: PathBuf,
        /// What it printed.
        output: String,
    },
    /// No directory has room for the machine's RAM.
    TooLittleSpace {
        /// Bytes needed, with a margin.
        needed: u64,
        /// Directories looked at and their free bytes.
        seen: Vec<(PathBuf, u64)>,
    },
    /// The RAM file could not be made or mapped.
    RamFile {
        /// Where.
        parent: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The image cannot be used.
    Image(String),
    /// A host file or process operation failed.
    Host {
        /// What was being done.
        doing: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// QEMU ended when it should not have.
    QemuEnded {
        /// Exit status or signal, in words.
        status: String,
        /// The last lines it wrote to standard error.
        stderr: Vec<String>,
    },
    /// Another run has a disk.
    DiskInUse(PathBuf),
    /// Another program has a port that is to be forwarded.
    PortInUse(Forward),
    /// There is no boot loader where it should be.
    BootLoaderMissing(PathBuf),
    /// QEMU's control connection failed or refused a command.
    Qmp(String),
    /// A monitor failed.
    MonitorCrashed(Box<CrashReport>),
    /// No monitor started, and none will.
    NotStarted {
        /// Why.
        reason: String,
        /// The last lines of the machine's serial line.
        serial: Vec<String>,
    },
    /// A time limit passed.
    Timeout {
        /// What was waited for.
        waiting_for: String,
        /// For how long.
        after: Duration,
        /// State of each core and partition, one line each.
        state: Vec<String>,
    },
    /// The system ended before what was waited for.
    EndedEarly {
        /// What was waited for.
        waiting_for: String,
        /// State of each core and partition, one line each.
        state: Vec<String>,
    },
    /// A plugin of the emulator could not be built or read.
    Plugin(String),
    /// Everything else, as one message.
    Other(String),
}

impl RunError {
    /// Returns the exit code that stands for this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::QemuMissing { .. }
            | Self::QemuTooOld { .. }
            | Self::QemuVersionUnknown { .. }
            | Self::TooLittleSpace { .. }
            | Self::RamFile { .. }
            | Self::Host { .. }
            | Self::DiskInUse(_)
            | Self::PortInUse(_)
            | Self::BootLoaderMissing(_)
            | Self::Plugin(_) => exit_code::HOST,
            Self::QemuEnded { .. } | Self::Qmp(_) => exit_code::QEMU,
            Self::MonitorCrashed(_) | Self::NotStarted { .. } => exit_code::MONITOR,
            Self::Timeout { .. } => exit_code::TIMEOUT,
            Self::Image(_) | Self::EndedEarly { .. } | Self::Other(_) => exit_code::FAILURE,
        }
    }

    /// Makes a closure for `map_err` that says what was being done.
    pub(crate) fn host(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |cause| Self::Host { doing, cause }
    }
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QemuMissing { program } => write!(
                f,
                "QEMU was not found: there is no `{}`. On Debian or Ubuntu install it with `apt-get install qemu-system-arm`; \
                 if it is elsewhere, set BULKHEAD_QEMU to its path.",
                program.display()
            ),
            Self::QemuTooOld { found } => write!(
                f,
                "QEMU {found} is too old; Bulkhead needs 7.2 or newer. On Debian 12 `apt-get install qemu-system-arm` gives \
                 7.2; set BULKHEAD_QEMU to use another one."
            ),
            Self::QemuVersionUnknown { program, output } => write!(
                f,
                "`{} --version` did not name a QEMU version but printed {output:?}. Set BULKHEAD_QEMU to a QEMU 7.2 or newer.",
                program.display()
            ),
            Self::TooLittleSpace { needed, seen } => {
                write!(f, "there is too little space for the machine's RAM: {} MiB are needed", mebibytes(*needed))?;
                for (directory, free) in seen {
                    write!(f, ", {} has {} MiB free", directory.display(), free >> 20)?;
                }
                write!(f, ". Free some, set TMPDIR to a directory with room, or give the system less `memory`.")
            }
            Self::RamFile { parent, cause } => {
                write!(f, "cannot use the machine's RAM file in {}: {cause}", parent.display())
            }
            Self::Image(message) | Self::Plugin(message) | Self::Other(message) => f.write_str(message),
            Self::Host { doing, cause } => write!(f, "{doing}: {cause}"),
            Self::QemuEnded { status, stderr } => {
                write!(f, "QEMU ended unexpectedly ({status}).")?;
                write_indented(
                    f,
                    if stderr.is_empty() { " It printed nothing." } else { " It printed last:" },
                    stderr,
                )?;
                if stderr.iter().any(|line| line.to_lowercase().contains("iommu")) {
                    f.write_str(
                        "\nThis system has PCI functions, whose DMA an SMMU confines, and this QEMU has none: the board file asks for it in \
                         `pci_machine`. Set BULKHEAD_QEMU to a QEMU with `iommu=smmuv3`, as Debian's 7.2 is.",
                    )?;
                }
                if stderr.iter().any(|line| line.contains("_gprio_mask")) {
                    f.write_str(
                        "\nA guest did this: it wrote a value above 7 to ICC_BPR1_EL1, over which QEMU aborts at the next interrupt. \
                         No hardware does; docs/caveats.md has what is known of it.",
                    )?;
                }
                Ok(())
            }
            Self::DiskInUse(path) => write!(
                f,
                "the disk {} is in use by another run; end that one, or give this system a copy",
                path.display()
            ),
            Self::PortInUse(forward) => write!(
                f,
                "port {} of {} is in use by another program, and `{forward}` is to be forwarded; end that one, or choose another port",
                forward.port, forward.address
            ),
            Self::BootLoaderMissing(path) => write!(
                f,
                "there is no boot loader at {}. On Debian or Ubuntu `apt-get install u-boot-qemu` gives QEMU's machines one; if it \
                 is elsewhere, name it: `--boot-loader=FILE`.",
                path.display()
            ),
            Self::NotStarted { reason, serial } => {
                write!(f, "no monitor started: {reason}.")?;
                write_indented(f, if serial.is_empty() { "" } else { " The serial line said last:" }, serial)
            }
            Self::Qmp(message) => write!(f, "QEMU's control connection: {message}"),
            Self::MonitorCrashed(report) => report.fmt(f),
            Self::EndedEarly { waiting_for, state } => {
                write!(f, "the system ended while waiting for {waiting_for}.")?;
                write_indented(f, if state.is_empty() { "" } else { " State of the machine:" }, state)
            }
            Self::Timeout { waiting_for, after, state } => {
                write!(f, "waited {:.1} s for {waiting_for}, in vain.", after.as_secs_f64())?;
                write_indented(f, if state.is_empty() { "" } else { " State of the machine:" }, state)
            }
        }
    }
}

fn write_indented(f: &mut fmt::Formatter<'_>, head: &str, lines: &[String]) -> fmt::Result {
    f.write_str(head)?;
    for line in lines {
        write!(f, "\n  {line}")?;
    }
    Ok(())
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::RamFile { cause, .. } | Self::Host { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
