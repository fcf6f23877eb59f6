//! `pool`: whether this Linux keeps other things out of the memory that its virtio devices share with who serves them.
//!
//! The tool makes the pool the zone DMA of a stock kernel, and so small that the kernel reserves all of its free pages for who asks for that zone
//! (`lowmem_reserve`): a page for anything else is taken from the zone only if more pages are free than the zone is protected with. Both numbers
//! are in `/proc/zoneinfo`.

use crate::arguments::Format;
use crate::failure::{Failure, MACHINE, NOT_FOUND};
use crate::json::Object;
use crate::sysfs::Machine;
use std::fs;
use std::io::Write;

/// Where the kernel shows the root of the device tree, and the node of these devices in it.
const DEVICE_TREE: &str = "firmware/devicetree/base";
const NODE: &str = "virtio-bus@";

/// Pages of the zone DMA.
#[derive(Debug, PartialEq, Eq)]
struct Pool {
    /// That nobody has.
    free: u64,
    /// That must be free before an ordinary allocation takes one.
    protection: u64,
}

impl Pool {
    /// Reads what `/proc/zoneinfo` says of the zone.
    fn read(text: &str) -> Option<Self> {
        let is_head = |line: &&str| line.starts_with("Node ");
        let mut lines = text.lines().skip_while(|line| !(is_head(line) && line.trim_end().ends_with(" DMA")));
        lines.next()?;
        let (mut free, mut protection) = (None, None);
        for line in lines.take_while(|line| !is_head(line)).map(str::trim) {
            if let Some(pages) = line.strip_prefix("pages free") {
                free = pages.trim().parse().ok();
            } else if let Some(list) = line.strip_prefix("protection: (") {
                // Against each kind of allocation: ordinary ones are protected against most.
                protection = list.trim_end_matches(')').split(", ").filter_map(|pages| pages.parse().ok()).max();
            }
        }
        Some(Self { free: free?, protection: protection? })
    }

    fn is_kept(&self) -> bool {
        self.free <= self.protection
    }
}

/// Compares both numbers, prints them, and fails when something else may be put into the pool.
pub(crate) fn check(machine: &Machine, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let nodes = fs::read_dir(machine.sysfs(DEVICE_TREE)).into_iter().flatten().flatten();
    if !nodes.map(|node| node.file_name()).any(|name| name.to_string_lossy().starts_with(NODE)) {
        let message = "this partition has no virtio device of another one: its device tree has no node /virtio-bus";
        return Err(Failure::new(NOT_FOUND, message));
    }
    let path = machine.processes("zoneinfo");
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| Failure::machine(format_args!("cannot read {}", path.display()), &error))?;
    let pool = Pool::read(&text).ok_or_else(|| {
        Failure::new(MACHINE, format!("{} has no zone DMA: the kernel was built without one", path.display()))
    })?;
    let Pool { free, protection } = pool;
    if format == Format::Json {
        let object = Object::default().number("free", free).number("protection", protection);
        writeln!(output, "{}", object.truth("kept", pool.is_kept()).finish())?;
    } else {
        writeln!(output, "pool: {free} pages of its zone are free, {protection} are kept for devices")?;
    }
    if pool.is_kept() {
        return Ok(());
    }
    let message = format!(
        "the kernel may put other things into the pool, where who serves its devices sees them: {free} pages are free and only {protection} are kept \
         for devices; leave `swiotlb` and `lowmem_reserve_ratio` as they are, or give the partition more memory"
    );
    Err(Failure::new(MACHINE, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_is_found_among_others() {
        let zone = |name: &str, free: u64, protection: &str| {
            format!(
                "Node 0, zone {name:>8}\n  pages free     {free}\n        boost    0\n        min      9\n        protection: ({protection})\n"
            )
        };
        let text =
            [zone("DMA", 94, "0, 0, 117, 117"), zone("DMA32", 20_000, "0, 0, 0, 0"), zone("Movable", 0, "0, 0, 0, 0")];
        assert_eq!(Pool::read(&text.concat()), Some(Pool { free: 94, protection: 117 }));
        assert_eq!(Pool::read(&text[1..].concat()), None);
        assert_eq!(Pool::read("Node 0, zone      DMA\n  pages free     94\n"), None, "no protection");
        assert_eq!(Pool::read(""), None);
    }

    #[test]
    fn as_many_free_pages_as_are_protected_are_kept() {
        assert!(Pool { free: 117, protection: 117 }.is_kept());
        assert!(!Pool { free: 118, protection: 117 }.is_kept());
    }
}
