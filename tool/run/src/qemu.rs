//! QEMU as a program: where it is, whether it is new enough, and the command line of a machine.

use crate::console::ConsoleNames;
use crate::error::RunError;
use crate::functions::{Functions, quote_option};
use crate::image_file::{ImagePlan, image_below};
use crate::plugin::CountingOptions;
use crate::ram::bytes_of;
use crate::worlds::TracePlan;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::image::RamBank;
use bulkhead_description::board::{BUILT_IN, built_in, built_in_board};
use bulkhead_description::host::HostSide;
use bulkhead_guest_abi::name_text;
pub use bulkhead_plan::model::QemuFacts;
use bulkhead_plan::model::{Board, System};
use bulkhead_world::flash::{PLAN, WorldPlan};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Oldest QEMU that Bulkhead is tested with.
pub const OLDEST_VERSION: (u32, u32) = (7, 2);

/// The first QEMU that a guest cannot end by `ICC_BPR1_EL1 = 8`. None is known: the sources of 7.2.22, 10.0.13, 10.2.2 and of
/// the development in February 2026 were read (`write_vbpr` in `hw/intc/arm_gicv3_cpuif.c` compares the value before it keeps
/// three bits of it), and 7.2.22 was seen to end.
const GUESTS_CANNOT_END_IT: Option<(u32, u32)> = None;

/// How an image comes to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Boot {
    /// QEMU loads and enters it by itself.
    #[default]
    Kernel,
    /// A boot loader in this file finds it on a disk.
    Loader(PathBuf),
    /// It is what the machine's flash holds, from which every core leaves reset.
    Flash,
}

impl Boot {
    /// The boot loader's file.
    #[must_use]
    pub fn loader(&self) -> Option<&Path> {
        match self {
            Self::Loader(file) => Some(file),
            Self::Kernel | Self::Flash => None,
        }
    }
}

/// Everything that decides how a machine is started.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// The program.
    pub qemu: PathBuf,
    /// Bytes of the boot image (arm64 Image or ELF).
    pub image: Vec<u8>,
    /// The plan in that image; `None` for a bare-board guest without a monitor.
    pub plan: Option<ImagePlan>,
    /// How QEMU is told to be the board.
    pub facts: QemuFacts,
    /// How the image comes to run.
    pub boot: Boot,
    /// Cores of the machine.
    pub cores: usize,
    /// Banks of RAM.
    pub banks: Vec<RamBank>,
    /// `-icount shift=N`: each instruction takes 2^N virtual nanoseconds and runs repeat exactly.
    pub icount_shift: Option<u8>,
    /// With `icount_shift`, guests' sleeps end exactly at their dates, by a plugin; QEMU alone is late now and then.
    pub exact_sleeps: bool,
    /// TCP port for a debugger; the machine then waits for it.
    pub gdb_port: Option<u16>,
    /// PCI functions of partitions, and what is behind them.
    pub functions: Functions,
    /// Start with all cores halted, until [`crate::Machine::resume`].
    pub paused: bool,
    /// Emulator plugins: argument strings for `-plugin`.
    pub plugins: Vec<String>,
    /// Count instructions with our own plugin.
    pub counting: Option<CountingOptions>,
    /// Further arguments.
    pub extra: Vec<String>,
}

impl MachineOptions {
    /// Makes options for a Bulkhead image: cores, RAM and board as its header says, if the board is one of the built-in ones.
    pub fn for_image(image: Vec<u8>) -> Result<Self, RunError> {
        let plan = ImagePlan::from_bytes(&image)?;
        let cores = cores_of(&plan);
        let banks = plan.header.banks().to_vec();
        let facts = built_in_board(name_text(&plan.header.board)).and_then(|board| board.qemu);
        let bare = Self::bare(image);
        let facts = facts.unwrap_or_else(|| bare.facts.clone());
        Ok(Self { plan: Some(plan), cores: facts.cores.unwrap_or(cores), facts, banks, ..bare })
    }

    /// Makes options for the image of a system, on the board that its description names.
    pub fn for_system(system: &System, image: Vec<u8>) -> Result<Self, RunError> {
        let board = &system.board;
        let facts = board.qemu.clone().ok_or_else(|| not_emulated(board))?;
        let options = Self::for_image(image)?;
        Ok(Self { cores: facts.cores.unwrap_or(options.cores), facts, ..options })
    }

    /// Makes options for the flash file of a system with a secure section, on the board that its description names. The consoles have
    /// the names of the worlds; those of partitions below the payload are read as the plan in the image of their monitor says.
    ///
    /// # Errors
    /// When QEMU does not emulate the board, or the image is none.
    pub fn for_worlds(system: &System, flash: Vec<u8>, below: Option<&[u8]>) -> Result<Self, RunError> {
        let (board, name) = (&system.board, system.secure.as_ref().and_then(|secure| secure.world()));
        let name = name.map(|world| world.name.clone());
        let banks = board.banks_of(system.memory_bytes);
        let banks = banks.into_iter().map(|bank| RamBank { start: bank.start, bytes: bank.bytes }).collect();
        let plan = below.map(ImagePlan::from_bytes).transpose()?;
        Self::of_flash(board, flash, banks, name, plan)
    }

    /// Makes options for a flash file, on the first built-in board that is entered at EL3; the file does not say more of its board.
    ///
    /// # Errors
    /// When the file is none.
    pub fn for_flash(flash: Vec<u8>) -> Result<Self, RunError> {
        let word = |offset: usize| {
            let start = usize::try_from(PLAN).ok()?.checked_add(offset)?;
            Some(u64::from_le_bytes(flash.get(start..)?.first_chunk().copied()?))
        };
        let window = [offset_of!(WorldPlan, window), offset_of!(WorldPlan, window_bytes)].map(word);
        let [Some(start), Some(bytes)] = window else {
            return Err(RunError::Image(String::from("the flash file is cut off in its world plan")));
        };
        let boards = built_in();
        let board = boards.iter().find(|board| board.secure.is_some());
        let board = board.ok_or_else(|| RunError::Image(String::from("no built-in board is entered at EL3")))?;
        let alone = RamBank { start: board.ram_start(), bytes: LEAST_RAM_BYTES };
        let bank = if bytes == 0 { alone } else { RamBank { start: PhysicalAddress(start), bytes } };
        let plan = image_below(&flash).map(ImagePlan::from_bytes).transpose()?;
        Self::of_flash(board, flash, vec![bank], None, plan)
    }

    fn of_flash(
        board: &Board,
        flash: Vec<u8>,
        banks: Vec<RamBank>,
        world: Option<String>,
        plan: Option<ImagePlan>,
    ) -> Result<Self, RunError> {
        let mut facts = board.qemu.clone().ok_or_else(|| not_emulated(board))?;
        let secure = board.secure.as_ref().map(|secure| secure.uart.name.as_str());
        for uart in &mut facts.uarts {
            if Some(uart.name.as_str()) == secure {
                uart.name = SECURE_CONSOLE.to_owned();
            } else if uart.is_monitors && plan.is_none() {
                // No monitor reads it here: it is the world's own.
                uart.is_monitors = false;
                uart.name = world.clone().unwrap_or_else(|| uart.name.clone());
            }
        }
        let cores = facts.cores.unwrap_or_else(|| plan.as_ref().map_or(1, cores_of));
        Ok(Self { boot: Boot::Flash, cores, facts, banks, plan, ..Self::bare(flash) })
    }

    /// Reads an image file and makes options for it.
    pub fn for_image_file(path: &Path) -> Result<Self, RunError> {
        let bytes = bulkhead_files::read::bytes(path, bulkhead_files::read::IMAGE)
            .map_err(RunError::host(format!("cannot read the image {}", path.display())))?;
        Self::for_image(bytes)
    }

    /// Makes options for a guest without a monitor, entered at EL1 as it would be in a partition: one core, 256 MiB, the
    /// board that is meant where none is named. The image is an arm64 Image, or an ELF file that begins at least 1 MiB into RAM: QEMU
    /// puts its device tree at the start of RAM.
    #[must_use]
    pub fn bare(image: Vec<u8>) -> Self {
        let board = built_in_board(BUILT_IN.default);
        let facts = board.as_ref().and_then(|board| board.qemu.clone()).unwrap_or_default();
        let start = board.map_or(PhysicalAddress(0), |board| board.ram_start());
        Self {
            qemu: program(),
            image,
            plan: None,
            facts: QemuFacts { machine: facts.bare_machine.clone().unwrap_or_default(), ..facts },
            boot: Boot::Kernel,
            cores: 1,
            banks: vec![RamBank { start, bytes: 256 << 20 }],
            icount_shift: None,
            exact_sleeps: true,
            gdb_port: None,
            functions: Functions::default(),
            paused: false,
            plugins: Vec::new(),
            counting: None,
            extra: Vec::new(),
        }
    }

    /// Gives the machine the PCI functions of a system, with what is behind them on the host; without any it is the machine that it was.
    ///
    /// # Errors
    /// When the board does not say what QEMU needs to know.
    pub fn give(&mut self, system: &System, host: &[HostSide]) -> Result<(), RunError> {
        if !system.functions.is_empty() {
            self.functions = Functions::of(system, host)?;
            self.facts.machine = self.facts.pci_machine.clone().unwrap_or_else(|| self.facts.machine.clone());
        }
        Ok(())
    }

    /// What the flash file says of the payload's records; `None` when it keeps none.
    pub(crate) fn trace_plan(&self) -> Option<TracePlan> {
        if self.boot == Boot::Flash { TracePlan::of_flash(&self.image) } else { None }
    }

    /// The serial lines in QEMU's order: the UARTs that are devices, by name, and `None` for the machine's own line. A machine whose
    /// UARTs are not known has that one.
    #[must_use]
    pub fn serial_lines(&self) -> Vec<Option<&str>> {
        match self.facts.uarts.as_slice() {
            [] => vec![None],
            uarts => uarts.iter().map(|uart| (!uart.is_monitors).then_some(uart.name.as_str())).collect(),
        }
    }

    /// Names of what prints.
    #[must_use]
    pub fn console_names(&self) -> ConsoleNames {
        let partitions = self.plan.as_ref().map(ImagePlan::partition_names).unwrap_or_default();
        ConsoleNames::new(partitions, self.serial_lines().into_iter().flatten())
    }

    /// Returns the arguments for QEMU.
    #[must_use]
    pub fn arguments(&self, endpoints: &Endpoints) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        add(&["-M", &format!("{},memory-backend=ram", self.facts.machine)]);
        let ram_bytes = bytes_of(&self.banks);
        let ram_path = quote_option(&endpoints.ram);
        let backend = format!("memory-backend-file,id=ram,size={ram_bytes},mem-path={ram_path},share=on");
        add(&["-object", &backend]);
        if let Some(cpu) = &self.facts.cpu {
            add(&["-cpu", cpu]);
        }
        if self.facts.cores.is_none() {
            add(&["-smp", &self.cores.to_string()]);
        }
        add(&["-m", &memory_argument(ram_bytes)]);
        match self.icount_shift {
            Some(shift) => add(&["-icount", &format!("shift={shift},sleep=off")]),
            None if self.cores > 1 => add(&["-accel", "tcg,thread=multi"]),
            None => add(&["-accel", "tcg"]),
        }
        match &endpoints.streams {
            Streams::Inherited { qmp, serial } => {
                add(&["-chardev", &format!("socket,id=qmp,fd={qmp}"), "-mon", "chardev=qmp,mode=control"]);
                for (number, descriptor) in serial.iter().enumerate() {
                    add(&["-chardev", &format!("socket,id=serial{number},fd={descriptor}")]);
                    add(&["-serial", &format!("chardev:serial{number}")]);
                }
            }
            Streams::Terminal => {
                add(&["-monitor", "none"]);
                for line in self.serial_lines() {
                    let destination = line.map_or_else(|| "stdio".to_owned(), |uart| format!("file:{uart}.log"));
                    add(&["-serial", &destination]);
                }
            }
        }
        if let Some(port) = self.gdb_port {
            add(&["-gdb", &format!("tcp:127.0.0.1:{port}")]);
        }
        if self.paused || self.gdb_port.is_some() {
            add(&["-S"]);
        }
        for plugin in &self.plugins {
            add(&["-plugin", plugin]);
        }
        // Before the disk of a boot loader, which takes a place that is left.
        add(&self.functions.arguments().iter().map(String::as_str).collect::<Vec<_>>());
        match &self.boot {
            Boot::Kernel => add(&["-kernel", &endpoints.boot]),
            Boot::Flash => add(&["-bios", &endpoints.boot]),
            // On PCI, which no partition has: transports of virtio-mmio may be somebody's devices.
            Boot::Loader(loader) => {
                let disk = quote_option(&endpoints.boot);
                let drive = format!("if=none,id=boot,format=raw,readonly=on,file={disk}");
                add(&["-bios", &loader.to_string_lossy(), "-drive", &drive, "-device", "virtio-blk-pci,drive=boot"]);
            }
        }
        arguments.extend(self.facts.arguments.iter().chain(&self.extra).cloned());
        arguments
    }

    /// Returns the command as a person can run it by hand, with a RAM file of this name in the current directory. `boot` is the
    /// image, or with a boot loader the disk.
    #[must_use]
    pub fn shell_command(&self, boot: &str, ram: &str) -> String {
        let endpoints = Endpoints { ram: ram.to_owned(), boot: boot.to_owned(), streams: Streams::Terminal };
        let mut command = quote_word(&self.qemu.to_string_lossy());
        for argument in self.arguments(&endpoints) {
            command.push_str(if argument.starts_with('-') { " \\\n    " } else { " " });
            command.push_str(&quote_word(&argument));
        }
        command
    }
}

/// Cores of a machine that has those of a plan.
fn cores_of(plan: &ImagePlan) -> usize {
    let highest = plan.header.cores.iter().take(plan.cores.len()).map(|core| core.mpidr & 0xff).max();
    highest.map_or(1, |affinity| affinity as usize + 1)
}

/// Name of the payload's console.
pub const SECURE_CONSOLE: &str = "secure";
/// RAM of a machine whose payload is alone.
const LEAST_RAM_BYTES: u64 = 128 << 20;

fn not_emulated(board: &Board) -> RunError {
    RunError::Image(format!("the board {} is not one that QEMU emulates; `bulkhead build` makes its image", board.name))
}

/// Paths and descriptors that QEMU is given.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// Path of the RAM file.
    pub ram: String,
    /// Path of the boot image, or of the disk on which a boot loader finds it.
    pub boot: String,
    /// Control connection and serial lines.
    pub streams: Streams,
}

/// Where QEMU's control connection and serial lines go.
#[derive(Clone, Debug)]
pub enum Streams {
    /// Sockets that QEMU inherits.
    Inherited {
        /// Descriptor of the control connection.
        qmp: i32,
        /// Descriptors of the serial lines, in the order of [`MachineOptions::serial_lines`].
        serial: Vec<i32>,
    },
    /// No control connection; the machine's own serial line is the terminal, the others are files.
    Terminal,
}

/// Returns the QEMU program: `$BULKHEAD_QEMU`, or the usual name.
#[must_use]
pub fn program() -> PathBuf {
    std::env::var_os("BULKHEAD_QEMU").map_or_else(|| PathBuf::from("qemu-system-aarch64"), PathBuf::from)
}

/// A QEMU version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Micro.
    pub micro: u32,
}

impl Version {
    /// Returns what to know about this QEMU before untrusted guests run on it.
    #[must_use]
    pub fn warning(self) -> Option<String> {
        if GUESTS_CANNOT_END_IT.is_some_and(|repaired| (self.major, self.minor) >= repaired) {
            return None;
        }
        let Self { major, minor, micro } = self;
        Some(format!(
            "any guest can end QEMU {major}.{minor}.{micro}, and with it the machine: it aborts over ICC_BPR1_EL1 = 8, which the \
             monitor cannot keep from it without an exit for every interrupt (docs/caveats.md)"
        ))
    }
}

/// Finds the version in what `--version` prints, such as `QEMU emulator version 7.2.22 (Debian ...)`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    let rest = output.lines().next()?.strip_prefix("QEMU emulator version ")?;
    let number = rest.split(|character: char| !character.is_ascii_digit() && character != '.').next()?;
    let mut parts = number.split('.').map(str::parse);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let micro = parts.next().and_then(Result::ok).unwrap_or(0);
    Some(Version { major, minor, micro })
}

/// Programs that were found new enough, so that a process that starts many machines asks each only once.
static CHECKED: Mutex<Vec<(PathBuf, Version)>> = Mutex::new(Vec::new());

/// Asks the program for its version, once in this process, and refuses one that is too old.
pub fn check_version(program: &Path) -> Result<Version, RunError> {
    let mut checked = CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, version)) = checked.iter().find(|(known, _)| known == program) {
        return Ok(*version);
    }
    let version = ask_version(program)?;
    checked.push((program.to_path_buf(), version));
    Ok(version)
}

fn ask_version(program: &Path) -> Result<Version, RunError> {
    let output = Command::new(program).arg("--version").output().map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => RunError::QemuMissing { program: program.to_path_buf() },
        _ => RunError::Host { doing: format!("cannot run `{} --version`", program.display()), cause },
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(version) = parse_version(&text) else {
        let shown = format!("{}{}", text, String::from_utf8_lossy(&output.stderr)).chars().take(200).collect();
        return Err(RunError::QemuVersionUnknown { program: program.to_path_buf(), output: shown });
    };
    if (version.major, version.minor) < OLDEST_VERSION {
        let found = format!("{}.{}.{}", version.major, version.minor, version.micro);
        return Err(RunError::QemuTooOld { found });
    }
    Ok(version)
}

fn memory_argument(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}M", bytes >> 20) } else { format!("{}k", bytes.div_ceil(1024)) }
}

/// Quotes a word for a POSIX shell where it needs it.
fn quote_word(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=,./:+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
