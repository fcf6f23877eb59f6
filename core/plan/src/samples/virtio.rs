//! Systems with virtio devices between partitions.

use super::{channel, linux, native, system};
use crate::model::{Doorbell, Limiter, PortKind, System, VirtioDevice, VirtioKind};
use alloc::string::ToString;
use alloc::vec;

/// Returns a device of a front and a back end, with the limiter of descriptions that do not say one.
#[must_use]
pub fn virtio_device(name: &str, kind: VirtioKind, (front, back): (usize, usize)) -> VirtioDevice {
    VirtioDevice { name: name.to_string(), kind, front, back, limiter: Limiter::OF_VIRTIO }
}

/// Returns a system of four partitions and three devices. `linux` serves a disk and a network card of `office`, another Linux; `server`, a
/// native guest, serves a disk of `lab` that is never written. `linux` rings `office` by a channel, too, which `office` has in front of them.
#[must_use]
pub fn virtio() -> System {
    let mut lab = native("lab", &[3]);
    lab.memory_bytes = 512 << 20;
    let partitions = vec![linux("linux", &[0]), linux("office", &[1]), native("server", &[2]), lab];
    let mut news = channel("news", 0, 1, PortKind::Sampling, 64);
    news.doorbell = Some(Doorbell { limiter: Some(Limiter { events: 10, period_ns: 1_000_000 }) });
    let mut sample = system(partitions, vec![news]);
    let disk = VirtioKind::Block { bytes: 64 << 20, is_read_only: false };
    let store = VirtioKind::Block { bytes: 1536, is_read_only: true };
    sample.virtio = vec![
        virtio_device("disk", disk, (1, 0)),
        virtio_device("net", VirtioKind::Net { address: [0x02, 0x42, 0x48, 0, 0, 7] }, (1, 0)),
        virtio_device("store", store, (3, 2)),
    ];
    sample
}
