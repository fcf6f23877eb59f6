//! Nodes of the device tree that describe memory which is nobody's, and that memory.

use crate::failure::{Failure, MACHINE};
use crate::hardware::Mapping;
use crate::sysfs::Machine;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel shows the device tree.
const BASE: &str = "firmware/devicetree/base";

/// The nodes below one of the root's that have this property; `None` without that one.
pub(crate) fn nodes(machine: &Machine, parent: &str, property: &str) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(machine.sysfs(BASE).join(parent)).ok()?;
    let nodes = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Some(nodes.filter(|path| path.join(property).exists()).collect())
}

/// A node that is not as it has to be.
pub(crate) fn damaged(node: &Path) -> Failure {
    Failure::new(MACHINE, format!("the device tree's {} is damaged", node.display()))
}

/// A property's bytes.
pub(crate) fn bytes(node: &Path, name: &str) -> Option<Vec<u8>> {
    fs::read(node.join(name)).ok()
}

/// Address and length of a node's memory (`reg`): two cells each, and nothing else.
pub(crate) fn memory(node: &Path) -> Option<(u64, usize)> {
    let cells: [u8; 16] = bytes(node, "reg")?.try_into().ok()?;
    let (address, size) = (cells.first_chunk::<8>()?, cells.last_chunk::<8>()?);
    Some((u64::from_be_bytes(*address), usize::try_from(u64::from_be_bytes(*size)).ok()?))
}

/// Maps memory that is outside of the kernel's own; `what` says for whom.
pub(crate) fn map(machine: &Machine, (address, bytes): (u64, usize), what: &str) -> Result<Mapping, Failure> {
    let file = machine.open_device("mem")?;
    Mapping::at(&file, address, bytes)
        .map_err(|error| Failure::machine(format_args!("cannot map {address:#x} of /dev/mem, {what}"), &error))
}
