//! The world below the payload: what it is, and where it lies.

use crate::code::Code;
use crate::decode::Located;
use crate::description::{Image, ImageKind};
use crate::diagnostic::Diagnostic;
use crate::guest_file;
use crate::resolve::Resolver;
use crate::resolve::image::COMMAND_LINE_BYTES;
use crate::resolve::partition::span;
use crate::secure::{NonSecure, WorldEntry};
use crate::unit::format_size;
use bulkhead_abi::{GuestAddress, PAGE_BYTES};
use bulkhead_plan::error::PlanError;
use bulkhead_plan::loading;
use bulkhead_plan::model::{Bank, GuestImage, World, WorldLevel};

/// Name of a world whose description does not say one.
pub(super) const DEFAULT_NAME: &str = "world";
/// Clock of a console whose board file does not say one.
const DEFAULT_CLOCK_HZ: u64 = 24_000_000;

impl Resolver<'_> {
    /// Resolves the world below; without a size of its own it has what is not reserved of the machine's memory.
    pub(super) fn world(
        &mut self,
        world: &Located<NonSecure>,
        machine_bytes: u64,
        reserved_bytes: u64,
    ) -> Option<World> {
        let image = self.needed(&world.image, "image", world.span, "a world without partitions")?;
        let memory = self.world_memory(world, machine_bytes, reserved_bytes);
        let loaded = self.world_image(image);
        let (memory, loaded) = (memory?, loaded?);
        let name = world.name.as_ref().map_or(DEFAULT_NAME, |name| name.as_str()).to_owned();
        let level = match world.entry.as_ref().map(|entry| entry.value) {
            Some(WorldEntry::El1) => WorldLevel::El1,
            Some(WorldEntry::El2) | None => WorldLevel::El2,
        };
        let console_clock_hz = self.board.uart_clock_hz.unwrap_or(DEFAULT_CLOCK_HZ);
        let resolved = World { name, memory, image: loaded, level, console_clock_hz };
        self.world_fits(world, image, &resolved)?;
        Some(resolved)
    }

    /// Memory of the world: the first of the machine's.
    fn world_memory(&mut self, world: &NonSecure, machine_bytes: u64, reserved_bytes: u64) -> Option<Bank> {
        let start = self.board.board.ram_start();
        let Some(memory) = &world.memory else {
            return Some(Bank { start, bytes: machine_bytes.saturating_sub(reserved_bytes) });
        };
        let bytes = self.size(memory)?;
        self.aligned(bytes, PAGE_BYTES, memory.span, "the size of a world")?;
        if bytes == 0 || bytes > machine_bytes {
            let message = format!("the non-secure world cannot have {} of memory", format_size(bytes));
            let diagnostic = Diagnostic::new(Code::MemoryOutsideRam, message)
                .at(memory.span, "expected some, and at most the machine's")
                .at(self.description.memory.span, "all there is");
            self.push(diagnostic);
            return None;
        }
        Some(Bank { start, bytes })
    }

    fn world_image(&mut self, image: &Located<Image>) -> Option<GuestImage> {
        let beside = format!("`kind = \"{}\"`", image.kind.word());
        if image.kind.value != ImageKind::Linux {
            self.does_not_apply(span(&image.initrd), "initrd", &beside);
            self.does_not_apply(span(&image.command_line), "command_line", &beside);
        }
        if image.kind.value != ImageKind::Raw {
            self.does_not_apply(span(&image.load), "load", &beside);
        }
        self.does_not_apply(span(&image.device_tree_address), "device_tree_address", "`[secure.non_secure]`");
        match image.kind.value {
            ImageKind::Linux => {
                let initrd = match &image.initrd {
                    Some(name) => self.files.read(name, self.report),
                    None => Some(Vec::new()),
                };
                let command_line = match &image.command_line {
                    Some(text) => self.text(text, COMMAND_LINE_BYTES, "the kernel command line"),
                    None => Some(String::new()),
                };
                let kernel = self.files.read(&image.file, self.report)?;
                guest_file::linux_header(&image.file, &kernel, self.report)?;
                Some(GuestImage::Linux { kernel, initrd: initrd?, command_line: command_line? })
            }
            ImageKind::Elf => {
                let bytes = self.files.read(&image.file, self.report)?;
                let executable = guest_file::executable(&image.file, &bytes, self.report)?;
                Some(GuestImage::Elf { segments: executable.segments, entry: executable.entry })
            }
            ImageKind::Kernel => {
                let message = "the real-time kernel cannot be the world below a payload yet";
                self.push(Diagnostic::new(Code::InstanceNotYet, message).at(image.kind.span, "not built yet"));
                None
            }
            ImageKind::Raw => {
                let bytes = self.files.read(&image.file, self.report)?;
                let start = self.board.board.ram_start().0;
                let load = image.load.as_ref().map_or(start, |address| address.value);
                if bytes.is_empty() || !load.is_multiple_of(4) {
                    let message = "raw bytes are entered at their first byte: there must be one, at a multiple of 4";
                    let place = span(&image.load).filter(|_| !bytes.is_empty()).unwrap_or(image.file.span);
                    self.push(Diagnostic::new(Code::BadEntry, message).at(place, ""));
                    return None;
                }
                Some(GuestImage::Raw { bytes, load: GuestAddress(load) })
            }
        }
    }

    /// Asks who places images whether this one has a place.
    fn world_fits(&mut self, written: &NonSecure, image: &Located<Image>, world: &World) -> Option<()> {
        let Err(error) = loading::place(world) else { return Some(()) };
        let (first, last) = (world.memory.start.0, world.memory.end().saturating_sub(1));
        let label = match &error {
            // Its text names a partition.
            PlanError::TooBig { what, bytes, .. } => {
                let what = what.replace(&format!(" of partition \"{}\"", world.name), "");
                format!("{what} has {bytes:#x} bytes")
            }
            other => other.to_string(),
        };
        let message = format!("`{}` does not lie in the memory of the non-secure world", image.file.value);
        let place = span(&image.load).unwrap_or(image.span);
        let memory = span(&written.memory).unwrap_or(self.description.memory.span);
        let diagnostic = Diagnostic::new(Code::WorldOutside, message)
            .at(place, label)
            .at(memory, format!("{first:#x} to {last:#x}"))
            .note("the payload copies it there before the world begins, and it may name nothing else");
        self.push(diagnostic.help("link or load it there; with its device tree it needs 64 KiB more"));
        None
    }
}
