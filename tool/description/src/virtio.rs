//! virtio devices between partitions as they are written: `[[virtio]]` in `system.toml`.

use crate::decode::{Located, Size, table, words};
use crate::description::Limit;

words! {
    /// What a virtio device is.
    pub enum VirtioKind {
        /// Network card: stock `virtio_net` at the front, a TAP interface at the back end.
        Net = "net",
        /// Disk: stock `virtio_blk` at the front, a file or a block device at the back end.
        Block = "block",
    }
}

table! {
    /// A virtio device of one partition that another one serves.
    pub struct VirtioDevice {
        /// Name, unique; `bulkheadctl serve NAME` in the back partition.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// What it is.
        kind: Located<VirtioKind>,
        /// Partition that has the device. All devices of a partition have the same `back`: they share one pool of memory with it.
        front: Located<String>,
        /// Partition that serves it.
        back: Located<String>,
        /// Size of a disk, a multiple of 512 bytes.
        size: Option<Located<Size>>,
        /// A disk is never written; default false.
        read_only: Option<Located<bool>>,
        /// MAC address of a network card, such as `"02:42:48:00:00:01"`; default one of the tool's, from its place in the description.
        #[schemars(regex(pattern = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"))]
        mac: Option<Located<String>>,
        /// Most doorbells in each direction; default `{ limit = 1000, per = "10 ms" }`. Where a partition limits all doorbells to it together,
        /// that counts.
        doorbell: Option<Located<Limit>>,
    }
}
