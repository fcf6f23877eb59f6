//! virtio devices between partitions: who has them, who serves them, and what they are.

use super::Resolver;
use super::partition::{is_direct, span};
use crate::code::Code;
use crate::decode::Located;
use crate::description::{Channel, Doorbell, Partition};
use crate::diagnostic::Diagnostic;
use crate::suggest;
use crate::unit::format_size;
use crate::virtio::{VirtioDevice, VirtioKind};
use bulkhead_abi::devices::MAX_FRONTS;
use bulkhead_guest_abi::guest::GUEST_POOL;
use bulkhead_plan::model::{self, GuestImage, Limiter};

/// First bytes of MAC addresses that the tool gives: locally administered, "BH".
const OWN_ADDRESSES: [u8; 3] = [0x02, 0x42, 0x48];
/// First bytes of an archive of files that is not compressed (`cpio -H newc`).
const ARCHIVE: &[u8] = b"070701";
/// The program that serves devices, by its name.
const SERVER: &[u8] = b"bulkheadctl";

impl Resolver<'_> {
    /// Resolves the virtio devices of all partitions; `None` if one cannot be.
    pub(super) fn virtio(&mut self, partitions: &[Option<model::Partition>]) -> Option<Vec<model::VirtioDevice>> {
        let description = self.description;
        if let (Some(first), Some(secure)) = (description.virtio.first(), &description.secure) {
            let message = "virtio devices and a payload of the secure world exclude each other";
            let diagnostic = Diagnostic::new(Code::VirtioBelowPayload, message).at(first.name.span, "");
            self.push(diagnostic.at(secure.span, "the payload"));
            return None;
        }
        let devices: Vec<_> =
            description.virtio.iter().zip(0..).map(|(one, index)| self.virtio_device(one, index)).collect();
        let devices = devices.into_iter().collect::<Option<Vec<_>>>()?;
        let written = || devices.iter().zip(&description.virtio);
        for (index, partition) in description.partition.iter().enumerate() {
            let fronts: Vec<_> = written().filter(|(device, _)| device.front == index).map(|(_, one)| one).collect();
            let resolved = partitions.get(index).and_then(Option::as_ref);
            self.front(partition, resolved, &fronts);
            self.rung_by_others(partition, &fronts);
            for (_, one) in written().filter(|(device, _)| device.back == index) {
                self.port_of_that_name(partition, one);
            }
            if let Some((_, first)) = written().find(|(device, _)| device.back == index) {
                self.back(partition, resolved, first);
            }
        }
        self.addresses(&devices);
        Some(devices)
    }

    fn virtio_device(&mut self, written: &VirtioDevice, index: u16) -> Option<model::VirtioDevice> {
        let front = self.virtio_end(&written.front);
        let back = self.virtio_end(&written.back);
        let kind = self.virtio_kind(written, index);
        let limiter = match &written.doorbell {
            None => Some(Limiter::OF_VIRTIO),
            Some(limit) => self.limiter(limit, "leave `doorbell` out for a limit that stock drivers do not reach"),
        };
        let (front, back) = (front?, back?);
        if front == back {
            let message = format!("partition `{}` would serve its own device", written.back.value);
            let diagnostic = Diagnostic::new(Code::ServesItself, message).at(written.back.span, "");
            self.push(diagnostic.at(written.front.span, "the same partition").help("name another partition as `back`"));
            return None;
        }
        Some(model::VirtioDevice { name: written.name.value.clone(), kind: kind?, front, back, limiter: limiter? })
    }

    fn virtio_end(&mut self, name: &Located<String>) -> Option<usize> {
        let description = self.description;
        let found = description.partition.iter().position(|partition| partition.name.value == name.value);
        if found.is_none() {
            let known: Vec<&str> = description.partition.iter().map(|one| one.name.value.as_str()).collect();
            let diagnostic = Diagnostic::new(Code::UnknownEnd, format!("there is no partition `{}`", name.value));
            let diagnostic = diagnostic.at(name.span, "");
            self.push(match suggest::closest(name, known.iter().copied()) {
                Some(meant) => {
                    diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"))
                }
                None => diagnostic.help(format!("the partitions are {}", suggest::list(&known))),
            });
        }
        found
    }

    fn virtio_kind(&mut self, written: &VirtioDevice, index: u16) -> Option<model::VirtioKind> {
        match written.kind.value {
            VirtioKind::Net => {
                let beside = "`kind = \"net\"`";
                self.does_not_apply(span(&written.size), "size", beside);
                self.does_not_apply(span(&written.read_only), "read_only", beside);
                self.mac(written, index).map(|address| model::VirtioKind::Net { address })
            }
            VirtioKind::Block => {
                self.does_not_apply(span(&written.mac), "mac", "`kind = \"block\"`");
                let bytes = self.disk_bytes(written)?;
                let is_read_only = written.read_only.as_ref().is_some_and(|state| state.value);
                Some(model::VirtioKind::Block { bytes, is_read_only })
            }
        }
    }

    fn disk_bytes(&mut self, written: &VirtioDevice) -> Option<u64> {
        const SECTOR_BYTES: u64 = 512;
        let name = &written.name.value;
        let Some(size) = &written.size else {
            let message = format!("disk `{name}` has no size");
            let diagnostic = Diagnostic::new(Code::VirtioSize, message).at(written.kind.span, "needs `size`");
            self.push(diagnostic.help("for example `size = \"64 MiB\"`, as much as the file that serves it"));
            return None;
        };
        let bytes = self.size(size)?;
        if bytes != 0 && bytes.is_multiple_of(SECTOR_BYTES) {
            return Some(bytes);
        }
        let nearest = bytes.max(1).checked_next_multiple_of(SECTOR_BYTES).unwrap_or(SECTOR_BYTES);
        let message = format!("disk `{name}` does not consist of whole sectors");
        let diagnostic = Diagnostic::new(Code::VirtioSize, message).at(size.span, "no multiple of 512 bytes");
        self.push(diagnostic.suggest(size.span, format!("\"{}\"", format_size(nearest)), "the next one that is"));
        None
    }

    fn mac(&mut self, written: &VirtioDevice, index: u16) -> Option<[u8; 6]> {
        let Some(text) = &written.mac else {
            let [first, second, third] = OWN_ADDRESSES;
            let [high, low] = index.wrapping_add(1).to_be_bytes();
            return Some([first, second, third, 0, high, low]);
        };
        let is_pair = |text: &&str| text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = |text: &str| Some(text).filter(is_pair).and_then(|text| u8::from_str_radix(text, 16).ok());
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let address = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        let why = match address {
            None => "expected six pairs of hexadecimal digits, such as `02:42:48:00:00:01`",
            Some([first, ..]) if first & 1 != 0 => "that of a group: the lowest bit of the first byte must be 0",
            Some([0, 0, 0, 0, 0, 0]) => "nobody's",
            Some(address) => return Some(address),
        };
        let message = format!("`{}` cannot be the address of a network card", text.value);
        self.push(Diagnostic::new(Code::BadMac, message).at(text.span, why));
        None
    }

    /// Checks a partition with these devices.
    fn front(&mut self, partition: &Partition, resolved: Option<&model::Partition>, fronts: &[&Located<VirtioDevice>]) {
        let Some((first, rest)) = fronts.split_first() else { return };
        let name = &partition.name.value;
        if let Some(other) = rest.iter().find(|other| other.back.value != first.back.value) {
            let message = format!("two partitions serve the virtio devices of `{name}`");
            let why =
                "all devices of a partition share one pool of memory with who serves them, and nobody else may see it";
            let diagnostic = Diagnostic::new(Code::TwoBacks, message)
                .at(other.back.span, format!("serves `{}`", other.name.value))
                .at(first.back.span, format!("serves `{}`", first.name.value));
            self.push(diagnostic.note(why).suggest(
                other.back.span,
                format!("\"{}\"", first.back.value),
                "let one serve them all",
            ));
        }
        if let Some(extra) = fronts.get(MAX_FRONTS) {
            let message = format!("partition `{name}` has {} virtio devices and can have {MAX_FRONTS}", fronts.len());
            self.push(Diagnostic::new(Code::TooManyFronts, message).at(extra.name.span, "the first one too many"));
        }
        if is_direct(partition) {
            let message = format!("partition `{name}` has direct interrupts and a virtio device");
            let why = "what interrupts it is a doorbell, which its monitor must see";
            let place = partition.interrupts.as_ref().map_or(partition.name.span, |interrupts| interrupts.span);
            let diagnostic = Diagnostic::new(Code::FrontDirect, message).at(first.front.span, "").note(why);
            self.push(diagnostic.suggest(place, "\"mapped\"", "let its interrupts go through the monitor"));
        }
        let Some(resolved) = resolved.filter(|resolved| resolved.memory_bytes != 0) else { return };
        let least = model::LEAST_FRONT_BYTES;
        if resolved.memory_bytes < least {
            let message = format!(
                "partition `{name}` has {} and a virtio device, which needs {}",
                format_size(resolved.memory_bytes),
                format_size(least)
            );
            let why = "a kernel with less would put other things into the pool that the device's back end sees";
            let diagnostic = Diagnostic::new(Code::FrontTooSmall, message).at(partition.memory.span, "too small");
            self.push(diagnostic.at(first.front.span, "the device").note(why));
        }
        let pool_end = GUEST_POOL.0 + model::pool_bytes(resolved.memory_bytes);
        if resolved.guest_ram.0 < pool_end {
            let message = format!("RAM of partition `{name}` is not above the pool of its virtio devices");
            let label = format!("expected an address from {pool_end:#x} on");
            let why = "a kernel keeps what its devices reach in its lowest memory";
            self.push(Diagnostic::new(Code::RamBelowPool, message).at(partition.memory.span, label).note(why));
        }
    }

    /// Where all doorbells to a front count together, a third partition can ring until none of its devices' interrupts arrives (CH-36).
    fn rung_by_others(&mut self, partition: &Partition, fronts: &[&Located<VirtioDevice>]) {
        let (Some(first), Some(together)) = (fronts.first(), &partition.doorbell_limit) else { return };
        let name = &partition.name.value;
        let is_by_other = |channel: &&Located<Channel>| {
            let rings =
                matches!(channel.doorbell.as_ref().map(|doorbell| &doorbell.value), Some(Doorbell::Plain(true)));
            let end = |end: &Option<Located<String>>| {
                end.as_ref().and_then(|end| Some(end.value.split_once('.')?.0.to_owned()))
            };
            let source = end(&channel.source);
            rings
                && end(&channel.destination).is_some_and(|destination| destination == *name)
                && source.is_some_and(|source| source != *name && source != first.back.value)
        };
        let Some(channel) = self.description.channel.iter().find(is_by_other) else { return };
        let Some(source) = &channel.source else { return };
        let message = format!(
            "doorbells of channel `{}` can keep the interrupts of `{}` from `{name}`",
            channel.name.value, first.name.value
        );
        let diagnostic = Diagnostic::new(Code::FrontRungDry, message)
            .at(together.span, format!("all doorbells to `{name}` count here together"))
            .at(source.span, "who can use that up")
            .at(first.name.span, "its interrupts are doorbells, too")
            .note("an interrupt that the limit drops does not come again by itself: a stock driver with nothing else to ask waits for good");
        let help = format!(
            "leave `doorbell_limit` out: the devices have limits of their own; then give each channel to `{name}` one"
        );
        self.push(diagnostic.help(help));
    }

    /// Looks whether a Linux that is to serve a device has the program for it, as far as that can be known: an archive of files that
    /// is compressed, or a root file system elsewhere, says nothing.
    fn back(&mut self, partition: &Partition, resolved: Option<&model::Partition>, first: &VirtioDevice) {
        let Some(GuestImage::Linux { initrd, .. }) = resolved.map(|resolved| &resolved.image) else { return };
        if initrd.starts_with(ARCHIVE) && !initrd.windows(SERVER.len()).any(|bytes| bytes == SERVER) {
            let message =
                format!("partition `{}` serves `{}` and has no `bulkheadctl`", partition.name.value, first.name.value);
            let place = partition.image.initrd.as_ref().map_or(partition.name.span, |initrd| initrd.span);
            let diagnostic = Diagnostic::new(Code::BackWithoutServer, message).at(place, "no file of that name in it");
            self.push(
                diagnostic
                    .at(first.back.span, "is to serve it")
                    .note("until `bulkheadctl serve` runs there, requests of the front wait")
                    .help("use `guest:initramfs.cpio`, or put `bulkheadctl` into yours"),
            );
        }
    }

    /// A guest finds the devices that it serves among its ports, by their names.
    fn port_of_that_name(&mut self, partition: &Partition, device: &VirtioDevice) {
        if let Some(port) = partition.ports.iter().find(|port| port.name.value == device.name.value) {
            let message = format!(
                "partition `{}` serves `{}` and has a port of that name",
                partition.name.value, device.name.value
            );
            let diagnostic = Diagnostic::new(Code::DuplicateName, message).at(device.name.span, "the name is taken");
            self.push(diagnostic.at(port.name.span, "by this port"));
        }
    }

    /// No two network cards have one address: frames would go to either.
    fn addresses(&mut self, devices: &[model::VirtioDevice]) {
        let description = self.description;
        let place = |written: &VirtioDevice| written.mac.as_ref().map_or(written.name.span, |mac| mac.span);
        for (index, (device, written)) in devices.iter().zip(&description.virtio).enumerate() {
            let is_same = |other: &&model::VirtioDevice| {
                matches!(device.kind, model::VirtioKind::Net { .. }) && other.kind == device.kind
            };
            let before = devices.get(..index).unwrap_or_default();
            let Some(first) = before.iter().position(|other| is_same(&other)) else { continue };
            let Some(other) = description.virtio.get(first) else { continue };
            let message = format!("network cards `{}` and `{}` have one address", other.name.value, written.name.value);
            let diagnostic = Diagnostic::new(Code::MacTwice, message).at(place(written), "the address is taken");
            self.push(diagnostic.at(place(other), "by this one").help("leave `mac` out for an address of the tool's"));
        }
    }
}
