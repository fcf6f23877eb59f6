//! PCI functions of partitions as they are written: `[[pci]]` in `system.toml`.

use crate::decode::{Decode, Located, Reader, Size, Value, table};
use crate::description::Dma;
use schemars::JsonSchema;
use toml::de::DeValue;

table! {
    /// A PCI function of a partition.
    pub struct PciFunction {
        /// Name, unique.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Model in the board file.
        model: Located<String>,
        /// Partition that owns it.
        partition: Located<String>,
        /// The disk behind it, for a model that needs one.
        disk: Option<Located<Disk>>,
        /// The network behind it, for a model that needs one.
        net: Option<Located<Network>>,
        /// What its DMA reaches; default all RAM of the partition. `"trusted"` for a model that nothing confines.
        dma: Option<Located<Reach>>,
        /// Slot of bus 0, one of the board's; default chosen by the tool.
        #[schemars(range(max = 31))]
        slot: Option<Located<u64>>,
    }
}

table! {
    /// A disk of a PCI function.
    pub struct Disk {
        /// A file of whole sectors of 512 bytes; the path is relative to this file, the prefix `guest:` means the directory of built guests.
        file: Located<String>,
        /// It is never written; default false.
        read_only: Option<Located<bool>>,
    }
}

table! {
    /// A network of a PCI function: a hub with others, or a user network that lets in what is forwarded and nothing out.
    pub struct Network {
        /// TCP ports of the host's loopback that lead to the guest, such as `"127.0.0.1:8080 -> 80"`.
        #[schemars(default)]
        forward: Vec<Located<String>>,
        /// Name of the hub that joins it with the other functions that name it.
        #[schemars(regex(pattern = crate::schema::NAME))]
        hub: Option<Located<String>>,
    }
}

/// What the DMA of a function reaches.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Reach {
    /// A promise in place of an SMMU.
    Promise(Dma),
    /// Regions of the partition by name, and nothing else.
    Regions(Vec<Located<String>>),
}

impl Decode for Reach {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(_) => Dma::decode(value, key, reader).map(Self::Promise),
            _ => Vec::decode(value, key, reader).map(Self::Regions),
        }
    }
}

table! {
    /// Pages of a partition's RAM that have a name.
    pub struct Region {
        /// Name, unique in the partition.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Where the guest sees the first byte.
        guest_address: Located<u64>,
        /// Bytes.
        size: Located<Size>,
    }
}
