//! Partitions below a payload: the image of the monitor at EL2 as the only segment of the other world, and what the secure monitor of several
//! cores is told of its cores (`docs/specification/secure-world.md`, part 11).

use crate::{Error, NonSecure};
use bulkhead_plan::model::{Hybrid, InterruptMode, Partition, Secure, System};
use bulkhead_world::context::EntryLevel;
use bulkhead_world::cores::{CoresPlan, MOST_CORES, WATCH_LIMITS_US};
use bulkhead_world::interrupts::EVENT;

/// The image of the monitor at EL2 with its partitions: an arm64 Image, entered at its first byte.
#[derive(Clone, Copy, Debug)]
pub struct ImageBelow<'a> {
    /// Where it belongs.
    pub start: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where it has the pools of channels to the payload, in their order.
    pub pools: &'a [u64],
    /// Where its monitor says how each partition is.
    pub statuses: &'a [u64],
}

/// Calls from below EL2 come to EL2.
const CALLER_LEVEL: u32 = 2;
/// The SGI by which monitors ask each other where nobody kicks: to the payload's core.
const OF_MONITORS: u32 = 1 << 15;
/// What vCPUs of one partition send to each other: all but EL3's kick, and what monitors have.
const OF_KERNELS: u32 = 0x7eff;
/// All that a kernel with direct interrupts needs to interrupt itself.
const OF_DIRECT_LINUX: u32 = 0xff;
/// The one by which EL3 tells the payload of events, on its core.
const OF_EVENTS: u32 = 1 << EVENT;
/// All SGIs.
const EVERY: u32 = 0xffff;

/// The world that the secure monitor starts: the monitor of EL2 finds all it needs in its image, so x0 says nothing.
pub(crate) fn non_secure<'a>(hybrid: &Hybrid, image: ImageBelow<'a>) -> NonSecure<'a> {
    NonSecure {
        memory: (hybrid.memory.start.0, hybrid.memory.bytes),
        segments: vec![(image.start, image.bytes)],
        entry: image.start,
        argument: 0,
        level: EntryLevel::El2,
    }
}

/// What the secure monitor is told of the cores.
pub(crate) fn cores(system: &System, secure: &Secure) -> Result<CoresPlan, Error> {
    let used = system.used_cores();
    let count = used.last().map_or(1, |last| last + 1);
    let all: Vec<u64> = system.board.gicr.iter().take(count).map(|frame| frame.0).collect();
    if count > MOST_CORES || all.len() != count {
        return Err(Error::Cores);
    }
    let mut redistributors = [0; MOST_CORES - 1];
    redistributors.iter_mut().zip(all.into_iter().skip(1)).for_each(|(place, frame)| *place = frame);
    // The payload's core is never kicked.
    let kicked = used.iter().filter(|core| **core != secure.core).fold(0, |mask, core| mask | 1 << core);
    let mut kicks = [0; MOST_CORES];
    kicks.iter_mut().enumerate().filter(|(core, _)| used.contains(core)).for_each(|(_, mask)| *mask = kicked);
    let [watch_least_ticks, watch_most_ticks] =
        WATCH_LIMITS_US.map(|limit| system.board.counter_hz.saturating_mul(limit).div_ceil(1_000_000));
    Ok(CoresPlan {
        count: count as u32,
        caller_level: CALLER_LEVEL,
        redistributors,
        closed: std::array::from_fn(|core| EVERY & !open(system, secure, core)),
        kicks,
        watch_least_ticks,
        watch_most_ticks,
    })
}

/// Which SGIs of others arrive at a core, bit n = number n (QV-16).
///
/// The receiver's groups are the firewall: what is not open to it arrives from nobody.
fn open(system: &System, secure: &Secure, core: usize) -> u32 {
    let on_core = |partition: &&Partition| partition.cores.contains(&core);
    let of_partition = |partition: &Partition| match (partition.mode, partition.cores.len()) {
        // The monitor sends them, and to its own cores alone.
        (InterruptMode::Direct, _) if partition.sgi_filtered => OF_KERNELS,
        (InterruptMode::Direct, _) if partition.is_native() => 0,
        (InterruptMode::Direct, _) => OF_DIRECT_LINUX,
        // Those of one vCPU to itself, too: whether one is enabled is what the redistributor says, which has no bits of one that is closed.
        (InterruptMode::Mapped, _) => OF_KERNELS,
    };
    let of_guests = system.partitions.iter().filter(on_core).map(of_partition).fold(0, |all, one| all | one);
    // Nobody kicks the payload's core.
    if core == secure.core { of_guests & !OF_EVENTS | OF_MONITORS } else { of_guests }
}

#[cfg(test)]
mod tests {
    use super::cores;
    use bulkhead_abi::PhysicalAddress;
    use bulkhead_plan::model::InterruptMode;
    use bulkhead_plan::samples;

    /// SG-13, QV-16: cores up to the last one in use; each opens what its own vCPUs send to each other, the payload's what monitors ask, and nobody
    /// kicks the payload's.
    #[test]
    fn cores_open_what_their_own_guests_send() {
        let mut system = samples::hybrid();
        let secure = system.secure.clone().expect("a payload");
        let plan = cores(&system, &secure).expect("four cores");
        let gicr = |core: usize| system.board.gicr[core].0;
        assert_eq!((plan.count, plan.caller_level, plan.redistributors), (4, 2, [1, 2, 3].map(gicr)));
        assert_eq!(plan.closed, [0x0300, 0x8100, 0x8100, 0xffff]);
        assert_eq!(plan.kicks, [0b1110; 4]);
        assert_eq!((plan.watch_least_ticks, plan.watch_most_ticks), (625, 625_000_000));
        // One core less, and nobody on core 1.
        system.partitions.pop();
        system.partitions[1].cores = vec![2];
        let plan = cores(&system, &secure).expect("three cores");
        assert_eq!((plan.count, plan.redistributors[2], plan.kicks), (3, 0, [0b100, 0, 0b100, 0]));
        assert_eq!(plan.closed, [0x0300, 0xffff, 0x8100, 0xffff]);
        system.partitions[1].mode = InterruptMode::Direct;
        system.partitions[1].pci_channels = true;
        assert_eq!(cores(&system, &secure).expect("three cores").closed[2], 0xff00);
        system.partitions[1].sgi_filtered = true;
        assert_eq!(cores(&system, &secure).expect("three cores").closed[2], 0x8100);
        system.board.gicr[2..].fill(PhysicalAddress(0));
        system.partitions[1].cores = vec![4];
        assert_eq!(cores(&system, &secure), Err(crate::Error::Cores));
    }
}
