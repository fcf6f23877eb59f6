//! What is behind PCI functions on the host: disks and networks.

use super::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::host::{Disk, Forward, HostSide};
use crate::pci::{Network, PciFunction};
use bulkhead_plan::model::{PciBacking, PciHost};
use std::path::PathBuf;

/// Bytes of a sector: QEMU rounds a file up to whole ones, and a guest would see bytes that are not in it.
const SECTOR_BYTES: u64 = 512;

/// Disks and ports that functions before have.
#[derive(Default)]
struct Taken<'d> {
    disks: Vec<(PathBuf, bool, &'d Located<String>)>,
    ports: Vec<(Forward, &'d Located<String>)>,
}

impl Resolver<'_> {
    /// Resolves what is behind all functions; a function of an unknown model is passed over.
    pub(super) fn backings(&mut self, host: &PciHost) -> Option<Vec<HostSide>> {
        let description = self.description;
        let mut taken = Taken::default();
        let all: Vec<_> = description
            .pci
            .iter()
            .map(|written| {
                let model = host.models.iter().find(|model| model.name == written.model.value)?;
                self.backing(written, model.backing, &mut taken)
            })
            .collect();
        self.hubs();
        all.into_iter().collect()
    }

    fn backing<'d>(&mut self, written: &'d PciFunction, needs: PciBacking, taken: &mut Taken<'d>) -> Option<HostSide> {
        let (disk, net) = (written.disk.as_ref(), written.net.as_ref());
        if let Some(disk) = disk.filter(|_| needs != PciBacking::Disk) {
            self.unused(written, "disk", disk.span);
        }
        if let Some(net) = net.filter(|_| needs != PciBacking::Network) {
            self.unused(written, "net", net.span);
        }
        match (needs, disk, net) {
            (PciBacking::Nothing, ..) => Some(HostSide::Nothing),
            (PciBacking::Disk, Some(disk), _) => {
                let read_only = disk.read_only.as_ref().is_some_and(|state| state.value);
                self.disk(&disk.value.file, read_only, taken).map(HostSide::Disk)
            }
            (PciBacking::Network, _, Some(net)) => self.network(&net.value, taken),
            (PciBacking::Disk, None, _) => self.missing(written, "disk", "disk = { file = \"FILE\" }"),
            (PciBacking::Network, _, None) => {
                self.missing(written, "network", "net = { forward = [] }` or `net = { hub = \"NAME\" }")
            }
        }
    }

    fn unused(&mut self, written: &PciFunction, key: &str, place: crate::source::Span) {
        let message = format!("function `{}` has no use of `{key}`", written.name.value);
        let diagnostic = Diagnostic::new(Code::BackingUnused, message).at(place, "remove it");
        self.push(diagnostic.at(written.model.span, "this model does without"));
    }

    fn missing(&mut self, written: &PciFunction, what: &str, help: &str) -> Option<HostSide> {
        let message = format!("function `{}` has no {what} behind it", written.name.value);
        let diagnostic = Diagnostic::new(Code::BackingMissing, message).at(written.model.span, "this model needs one");
        self.push(diagnostic.help(format!("add `{help}`")));
        None
    }

    /// Checks the file of a disk.
    fn disk<'d>(&mut self, name: &'d Located<String>, read_only: bool, taken: &mut Taken<'d>) -> Option<Disk> {
        let bad = |why: &str| {
            let message = format!("`{}` cannot be a disk: {why}", name.value);
            Diagnostic::new(Code::BadDisk, message).at(name.span, "")
        };
        let Some(file) = self.files.path(name) else {
            self.push(bad("there is no directory of built guests").help("`--guests DIR` or BULKHEAD_GUESTS names it"));
            return None;
        };
        let facts = match std::fs::metadata(&file) {
            Ok(facts) => facts,
            Err(error) => {
                let diagnostic = bad(&crate::reason(&error)).note(format!("looked for it at {}", file.display()));
                self.push(
                    diagnostic
                        .help("paths are relative to the description; `truncate -s 64M FILE` makes an empty disk"),
                );
                return None;
            }
        };
        if !facts.is_file() {
            self.push(bad("it is not a regular file").help("devices of the host are not given away: name a file"));
            return None;
        }
        if facts.len() == 0 || !facts.len().is_multiple_of(SECTOR_BYTES) {
            let message = format!(
                "disk `{}` has {} bytes, which are no whole sectors of {SECTOR_BYTES}",
                name.value,
                facts.len()
            );
            let diagnostic = Diagnostic::new(Code::DiskSize, message).at(name.span, "");
            let next = facts.len().max(1).next_multiple_of(SECTOR_BYTES);
            self.push(diagnostic.help(format!("`truncate -s {next} FILE` makes it longer, with zeros")));
            return None;
        }
        let path = file.canonicalize().unwrap_or_else(|_| file.clone());
        let shared = taken.disks.iter().find(|(other, other_reads, _)| *other == path && !(read_only && *other_reads));
        if let Some((.., other)) = shared {
            let diagnostic = bad("two functions have it").at(other.span, "the other one");
            self.push(diagnostic.help("copy it, or let all of them only read: `read_only = true`"));
            return None;
        }
        taken.disks.push((path, read_only, name));
        Some(Disk { file, read_only })
    }

    fn network<'d>(&mut self, net: &'d Network, taken: &mut Taken<'d>) -> Option<HostSide> {
        if let Some(hub) = &net.hub {
            super::name(hub, "hub", self.report);
            self.does_not_apply(
                net.forward.first().map(|one| one.span),
                "forward",
                "a hub, which leads to functions alone",
            );
            return Some(HostSide::Hub(hub.value.clone()));
        }
        let forwards: Vec<_> = net.forward.iter().map(|one| self.forward(one, taken)).collect();
        forwards.into_iter().collect::<Option<_>>().map(HostSide::Ports)
    }

    fn forward<'d>(&mut self, written: &'d Located<String>, taken: &mut Taken<'d>) -> Option<Forward> {
        let Some(forward) = Forward::parse(&written.value) else {
            let message = format!("`{}` is no forwarded port", written.value);
            let diagnostic = Diagnostic::new(Code::BadForward, message).at(written.span, "");
            self.push(
                diagnostic
                    .help("expected ADDRESS:PORT -> PORT, such as `127.0.0.1:8080 -> 80`, with ports from 1 to 65535"),
            );
            return None;
        };
        if !forward.address.is_loopback() {
            let message = format!("{} is not an address of the loopback", forward.address);
            let diagnostic = Diagnostic::new(Code::BadForward, message)
                .at(written.span, "others than this host would reach the guest");
            let own = Forward { address: std::net::Ipv4Addr::LOCALHOST, ..forward };
            self.push(diagnostic.suggest(written.span, format!("\"{own}\""), "let this host alone reach it"));
            return None;
        }
        let is_same = |(other, _): &&(Forward, _)| (other.address, other.port) == (forward.address, forward.port);
        if let Some((_, other)) = taken.ports.iter().find(is_same) {
            let message = format!("port {} of {} is forwarded twice", forward.port, forward.address);
            let diagnostic = Diagnostic::new(Code::BadForward, message).at(written.span, "the port is taken");
            self.push(diagnostic.at(other.span, "by this one"));
            return None;
        }
        taken.ports.push((forward, written));
        Some(forward)
    }

    /// Refuses a hub that joins nothing.
    fn hubs(&mut self) {
        let description = self.description;
        let hubs: Vec<_> = description.pci.iter().filter_map(|one| one.net.as_ref()?.hub.as_ref()).collect();
        for hub in &hubs {
            if hubs.iter().filter(|other| other.value == hub.value).count() > 1 {
                continue;
            }
            let message = format!("hub `{}` joins one function", hub.value);
            let diagnostic = Diagnostic::new(Code::LonelyHub, message).at(hub.span, "nobody else names it");
            let others: Vec<&str> =
                hubs.iter().map(|hub| hub.value.as_str()).filter(|other| *other != hub.value).collect();
            self.push(match crate::suggest::closest(hub, others.iter().copied()) {
                Some(meant) => diagnostic.suggest(hub.span, format!("\"{meant}\""), format!("did you mean `{meant}`?")),
                None => diagnostic.help("give a second function the same hub"),
            });
        }
    }
}
