//! What can go wrong between a checked system and an image.

use bulkhead_plan::PlanError;
use std::fmt;
use std::path::PathBuf;

/// Why there is no image.
#[derive(Debug)]
pub enum Error {
    /// The monitor's ELF file cannot be used.
    Monitor(String),
    /// The monitor does not begin with an arm64 Image header.
    NoArm64Header,
    /// The system cannot be planned.
    Plan(PlanError),
    /// A file cannot be read or written.
    File {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The image would overwrite the file of its own symbols.
    OutputName(PathBuf),
    /// The disk would overwrite the image or its symbols.
    DiskName(PathBuf),
    /// The monitor was not found where it should be, or the tool contains none.
    MonitorMissing(Option<PathBuf>),
    /// The secure monitor was not found where it should be, or the tool contains none.
    SecureMonitorMissing(Option<PathBuf>),
    /// There is no flash file.
    Flash(bulkhead_flash::Error),
    /// Something that is not made of a system with a secure section.
    NotSecure(&'static str),
    /// The description of an instance of the kernel and `--native` belong together.
    Native(PathBuf),
    /// `--dts` names no partition.
    NoPartition {
        /// The name given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
}

impl Error {
    /// States whether the cause is the machine that runs the tool (exit code 3) rather than the description (exit code
    /// 1).
    #[must_use]
    pub fn is_environment(&self) -> bool {
        let is_descriptions = matches!(
            self,
            Self::Plan(_)
                | Self::OutputName(_)
                | Self::DiskName(_)
                | Self::NoPartition { .. }
                | Self::Flash(_)
                | Self::NotSecure(_)
                | Self::Native(_)
        );
        !is_descriptions
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Monitor(reason) => write!(f, "the monitor's ELF file cannot be used: {reason}; rebuild it with ./x"),
            Self::NoArm64Header => {
                write!(f, "the monitor does not begin with a 64-byte arm64 Image header; rebuild it with ./x")
            }
            Self::Plan(error) => write!(f, "the system cannot be laid out: {error}"),
            Self::File { doing, path, cause } => write!(f, "cannot {doing} {}: {cause}", path.display()),
            Self::OutputName(path) => write!(
                f,
                "the image {} would be overwritten by its own symbols; choose an ending other than `.elf`",
                path.display()
            ),
            Self::DiskName(path) => {
                write!(f, "the disk {} would overwrite the image or its symbols; choose another name", path.display())
            }
            Self::MonitorMissing(None) => write!(
                f,
                "this tool contains no monitor, because it was compiled before one was built; build both with ./x, or name \
                 the monitor by --monitor or BULKHEAD_MONITOR"
            ),
            Self::MonitorMissing(Some(path)) => write!(
                f,
                "the monitor is not at {}; build it with ./x, or name it with --monitor or BULKHEAD_MONITOR",
                path.display()
            ),
            Self::SecureMonitorMissing(None) => write!(
                f,
                "this tool contains no secure monitor, because it was compiled before one was built; build both with ./x, or name \
                 the secure monitor by --monitor or BULKHEAD_SECURE_MONITOR"
            ),
            Self::SecureMonitorMissing(Some(path)) => write!(
                f,
                "the secure monitor is not at {}; build it with ./x, or name it with --monitor or BULKHEAD_SECURE_MONITOR",
                path.display()
            ),
            Self::Flash(error) => write!(f, "there is no flash file of this system: {error}"),
            Self::NotSecure(what) => {
                write!(f, "{what} is not made of a system with a secure section: it starts from flash")
            }
            Self::Native(path) if bulkhead_description::kernel::is_kernel_file(path) => write!(
                f,
                "{} describes an instance of the real-time kernel: name it in a system as `image = {{ kind = \"kernel\", file = ... }}`, \
                 or build it for the bare board with --native",
                path.display()
            ),
            Self::Native(path) => write!(
                f,
                "--native is for the description of an instance of the real-time kernel, `NAME.kernel.toml`, and {} is another file",
                path.display()
            ),
            Self::NoPartition { name, known } => {
                write!(f, "there is no partition \"{name}\"; the system has: {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}
