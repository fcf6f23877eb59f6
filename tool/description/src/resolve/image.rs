//! Images: what is loaded into a partition, and whether it fits.

use super::Resolver;
use super::memory::PartitionMemory;
use super::partition::span;
use crate::code::Code;
use crate::decode::Located;
use crate::description::{ImageKind, Partition};
use crate::diagnostic::Diagnostic;
use crate::guest_file;
use crate::unit::format_size;
use bulkhead_abi::{GuestAddress, PAGE_BYTES};
use bulkhead_plan::loading::DEVICE_TREE_BYTES;
use bulkhead_plan::model::GuestImage;

/// Bytes of the Linux command line (arm64 COMMAND_LINE_SIZE), zero included.
pub(super) const COMMAND_LINE_BYTES: usize = 2048;
/// Bytes of a native guest's arguments, zero included.
const ARGUMENT_BYTES: usize = 256;
/// Alignment of a Linux kernel's load address.
const LINUX_ALIGNMENT: u64 = 0x20_0000;

/// Bytes at the end of the RAM of a guest that says itself where it goes: its device tree, unless that has another place.
pub(super) fn tree_at_the_end(partition: &Partition) -> u64 {
    if partition.image.device_tree_address.is_some() { 0 } else { DEVICE_TREE_BYTES }
}

impl Resolver<'_> {
    /// Reads and checks the image of a partition.
    pub(super) fn image(&mut self, partition: &Partition, memory: PartitionMemory) -> Option<GuestImage> {
        let image = &partition.image;
        let beside = format!("`kind = \"{}\"`", image.kind.word());
        if image.kind.value != ImageKind::Linux {
            self.does_not_apply(span(&image.initrd), "initrd", &beside);
            self.does_not_apply(span(&image.command_line), "command_line", &beside);
        }
        if image.kind.value != ImageKind::Raw {
            self.does_not_apply(span(&image.load), "load", &beside);
        }
        match image.kind.value {
            ImageKind::Linux => self.linux(partition, memory),
            ImageKind::Elf => self.elf(partition, memory),
            ImageKind::Raw => self.raw(partition, memory),
            ImageKind::Kernel => self.kernel(partition, memory),
        }
    }

    fn linux(&mut self, partition: &Partition, memory: PartitionMemory) -> Option<GuestImage> {
        let image = &partition.image;
        let initrd = match &image.initrd {
            Some(name) => self.files.read(name, self.report),
            None => Some(Vec::new()),
        };
        let command_line = match &image.command_line {
            Some(text) => self.text(text, COMMAND_LINE_BYTES, "the kernel command line"),
            None => Some(String::new()),
        };
        let kernel = self.files.read(&image.file, self.report)?;
        let header = guest_file::linux_header(&image.file, &kernel, self.report)?;
        let initrd = initrd?;
        // As the planner places it: kernel, device tree on the next multiple of 2 MiB, initial RAM file system.
        let kernel_end = header
            .text_offset
            .saturating_add(header.image_bytes)
            .checked_next_multiple_of(LINUX_ALIGNMENT)
            .unwrap_or(u64::MAX);
        let needed = kernel_end.saturating_add(DEVICE_TREE_BYTES).saturating_add(initrd.len() as u64);
        self.fits(partition, memory, needed)?;
        Some(GuestImage::Linux { kernel, initrd, command_line: command_line? })
    }

    fn elf(&mut self, partition: &Partition, memory: PartitionMemory) -> Option<GuestImage> {
        let name = &partition.image.file;
        let bytes = self.files.read(name, self.report)?;
        let executable = guest_file::executable(name, &bytes, self.report)?;
        let mut inside = true;
        for segment in &executable.segments {
            let end = segment.address.0.checked_add(segment.memory_bytes);
            if segment.address < memory.guest || end.is_none_or(|_| segment.address.0 >= memory.guest_end()) {
                inside = false;
                let message = format!("a segment of `{}` is outside the RAM of `{}`", name.value, partition.name.value);
                let label = format!(
                    "loads {} to {:#x}",
                    segment.address,
                    segment.address.0.saturating_add(segment.memory_bytes).saturating_sub(1)
                );
                self.outside(partition, memory, message, name, label);
            }
        }
        let end = executable
            .segments
            .iter()
            .map(|segment| segment.address.0.saturating_add(segment.memory_bytes))
            .max()
            .unwrap_or(0);
        if inside {
            let tree_bytes = tree_at_the_end(partition);
            self.fits(partition, memory, end.saturating_sub(memory.guest.0).saturating_add(tree_bytes))?;
        }
        inside.then_some(GuestImage::Elf { segments: executable.segments, entry: executable.entry })
    }

    fn raw(&mut self, partition: &Partition, memory: PartitionMemory) -> Option<GuestImage> {
        let image = &partition.image;
        let bytes = self.files.read(&image.file, self.report)?;
        let load = GuestAddress(image.load.as_ref().map_or(memory.guest.0, |address| address.value));
        if bytes.is_empty() {
            let message = format!("`{}` is empty: there is nothing to enter", image.file.value);
            self.push(Diagnostic::new(Code::BadEntry, message).at(image.file.span, ""));
            return None;
        }
        if let Some(address) = image.load.as_ref().filter(|address| !address.value.is_multiple_of(4)) {
            let message = "raw bytes are entered at their first byte, which must be a multiple of 4";
            self.push(Diagnostic::new(Code::BadEntry, message).at(address.span, ""));
            return None;
        }
        let end = load.0.checked_add(bytes.len() as u64);
        if load < memory.guest || end.is_none_or(|_| load.0 >= memory.guest_end()) {
            let message = format!("`{}` is loaded outside the RAM of `{}`", image.file.value, partition.name.value);
            let label = format!("{} from {load}", format_size(bytes.len() as u64));
            let place = image.load.as_ref().map_or_else(
                || image.file.clone(),
                |address| Located { value: image.file.value.clone(), span: address.span },
            );
            self.outside(partition, memory, message, &place, label);
            return None;
        }
        self.fits(partition, memory, load.0 - memory.guest.0 + bytes.len() as u64 + tree_at_the_end(partition))?;
        Some(GuestImage::Raw { bytes, load })
    }

    /// Reports an image outside its partition's RAM.
    fn outside(
        &mut self,
        partition: &Partition,
        memory: PartitionMemory,
        message: String,
        place: &Located<String>,
        label: String,
    ) {
        let ram = format!(
            "RAM of `{}` is {} to {:#x} as the guest sees it",
            partition.name.value,
            memory.guest,
            memory.guest_end().saturating_sub(1)
        );
        self.push(
            Diagnostic::new(Code::OutsidePartition, message).at(place.span, label).at(memory.span, ram).help(
                "link the guest for its RAM, or move the RAM with `memory = { size = ..., guest_address = ... }`",
            ),
        );
    }

    /// Reports an image that does not fit.
    pub(super) fn fits(&mut self, partition: &Partition, memory: PartitionMemory, needed: u64) -> Option<()> {
        if needed <= memory.bytes {
            return Some(());
        }
        let message = format!(
            "the image of `{}` needs {} and its RAM has {}",
            partition.name.value,
            format_size(needed.checked_next_multiple_of(PAGE_BYTES).unwrap_or(needed)),
            format_size(memory.bytes)
        );
        let enough = format_size(needed.checked_next_multiple_of(LINUX_ALIGNMENT).unwrap_or(needed));
        let diagnostic = Diagnostic::new(Code::ImageTooBig, message)
            .at(partition.image.span, "with its zeroed data and its device tree at the end")
            .at(memory.span, "too small");
        self.push(diagnostic.suggest(
            memory.span,
            format!("\"{enough}\""),
            "the least that loads; the guest will want more",
        ));
        None
    }

    /// Checks a text that is handed to a guest.
    pub(super) fn text(&mut self, text: &Located<String>, bytes: usize, what: &str) -> Option<String> {
        let problem = if text.len() >= bytes {
            format!("{what} has {} bytes and may have {}", text.len(), bytes - 1)
        } else if text.contains('\0') {
            format!("{what} contains a zero byte, which would end it")
        } else {
            return Some(text.value.clone());
        };
        self.push(Diagnostic::new(Code::TextTooLong, problem).at(text.span, ""));
        None
    }

    /// Checks the arguments of a native guest.
    pub(super) fn arguments(&mut self, partition: &Partition) -> Option<String> {
        let Some(arguments) = &partition.arguments else {
            return Some(String::new());
        };
        if partition.image.kind.value == ImageKind::Linux {
            let message = "`arguments` means nothing with `kind = \"linux\"`";
            self.push(
                Diagnostic::new(Code::KeyDoesNotApply, message)
                    .at(arguments.span, "remove it")
                    .help("Linux gets `command_line` in `image`"),
            );
            return None;
        }
        self.text(arguments, ARGUMENT_BYTES, "the argument text")
    }

    /// Reads the device-tree overlay: `None` for a bad one.
    pub(super) fn overlay(&mut self, partition: &Partition) -> Option<Option<Vec<u8>>> {
        let Some(name) = &partition.device_tree_overlay else {
            return Some(None);
        };
        let bytes = self.files.read(name, self.report)?;
        let total = bytes.get(4..8).and_then(|size| size.try_into().ok()).map(u32::from_be_bytes);
        if !bytes.starts_with(&[0xd0, 0x0d, 0xfe, 0xed]) || total.is_none_or(|total| total as usize > bytes.len()) {
            let message = format!("`{}` is not a compiled device-tree overlay", name.value);
            self.push(
                Diagnostic::new(Code::NotOverlay, message)
                    .at(name.span, "expected a `.dtbo` file")
                    .help("compile it: `dtc -@ -I dts -O dtb -o overlay.dtbo overlay.dtso`"),
            );
            return None;
        }
        Some(Some(bytes))
    }
}
