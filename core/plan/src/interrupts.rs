//! Interrupt routes: which shared peripheral interrupt belongs to which partition (record 0002).
//!
//! Spare interrupts are given out in a fixed order, consoles by partition, then doorbells by receiver, then virtio devices, so that a
//! change of one partition's channels does not move the consoles.

use crate::devices;
use crate::error::PlanError;
use crate::model::{Channel, Route, System};
use crate::ticks;
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::plan::{INTERRUPT_CONSOLE, INTERRUPT_DEVICE, INTERRUPT_DOORBELL, InterruptPlan, MAX_INTERRUPTS};

/// First INTID of shared peripheral interrupts.
pub const FIRST_SPI: u32 = 32;

/// Who owns which interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// INTID of each partition's virtual PL011.
    pub console: Vec<Option<u32>>,
    /// INTID of each channel's doorbell, owned by the receiver.
    pub doorbell: Vec<Option<u32>>,
    /// INTIDs of each virtio device: its notification, owned by the back end, and its interrupt, owned by the front.
    pub virtio: Vec<(u32, u32)>,
}

impl Routes {
    /// Gives out the board's spare interrupts.
    ///
    /// # Errors
    /// When the board lists too few.
    pub fn assign(system: &System) -> Result<Self, PlanError> {
        // Descriptions name those of channels to the payload, which tells programs of them too.
        let is_named = |intid: &u32| system.pools().any(|(_, channel)| channel.interrupt == Some(*intid));
        let mut spares = system.board.spare_interrupts.iter().copied().filter(|intid| !is_named(intid));
        let consoles = system.partitions.iter().filter(|partition| partition.virtual_uart).count();
        let doorbells = system.channels.iter().filter(|channel| channel.doorbell.is_some()).count();
        let needed = consoles + doorbells + 2 * system.virtio.len();
        let shortage = PlanError::SpareInterrupts { needed, available: system.board.spare_interrupts.len() };
        let mut console = Vec::new();
        for partition in &system.partitions {
            console.push(match partition.virtual_uart {
                true => Some(spares.next().ok_or_else(|| shortage.clone())?),
                false => None,
            });
        }
        let mut doorbell = vec![None; system.channels.len()];
        for receiver in 0..system.partitions.len() {
            for (slot, channel) in doorbell.iter_mut().zip(&system.channels) {
                if channel.doorbell.is_some() && channel.destination.partition == receiver {
                    *slot = Some(spares.next().ok_or_else(|| shortage.clone())?);
                }
            }
        }
        let mut virtio = Vec::new();
        for _ in &system.virtio {
            let mut next = || spares.next().ok_or_else(|| shortage.clone());
            virtio.push((next()?, next()?));
        }
        Ok(Self { console, doorbell, virtio })
    }

    /// Returns the INTID of a partition's virtual PL011.
    #[must_use]
    pub fn console(&self, partition: usize) -> Option<u32> {
        self.console.get(partition).copied().flatten()
    }

    /// Returns the INTID of a channel's doorbell.
    #[must_use]
    pub fn doorbell(&self, channel: usize) -> Option<u32> {
        self.doorbell.get(channel).copied().flatten()
    }

    /// Returns the INTID of a virtio device's notification, at its back end.
    #[must_use]
    pub fn notification(&self, device: usize) -> u32 {
        self.virtio.get(device).map_or(0, |(notification, _)| *notification)
    }

    /// Returns the INTID of a virtio device's interrupt, at its front.
    #[must_use]
    pub fn interrupt(&self, device: usize) -> u32 {
        self.virtio.get(device).map_or(0, |(_, interrupt)| *interrupt)
    }

    /// Returns the interrupts of a partition, sorted by INTID; `pci_function` is filled in by the caller.
    ///
    /// # Errors
    /// When there are more than a partition plan holds.
    pub fn of_partition(&self, system: &System, index: usize) -> Result<Vec<InterruptPlan>, PlanError> {
        let Some(partition) = system.partitions.get(index) else { return Ok(Vec::new()) };
        let hz = system.board.counter_hz;
        let mut interrupts = Vec::new();
        for (device, route) in partition.devices.iter().zip(&partition.device_routes) {
            let Some(device) = system.board.devices.get(*device) else { continue };
            interrupts.extend(device.interrupts.iter().map(|interrupt| InterruptPlan {
                intid: interrupt.intid,
                kind: INTERRUPT_DEVICE,
                edge: u32::from(interrupt.edge),
                ..routed(route, hz)
            }));
        }
        for (_, function) in devices::of_partition(system, index) {
            // INTx of PCI is level-sensitive, and functions of one partition may share a line.
            let line =
                InterruptPlan { intid: function.interrupt, kind: INTERRUPT_DEVICE, ..routed(&partition.route, hz) };
            if interrupts.iter().all(|interrupt| interrupt.intid != line.intid) {
                interrupts.push(line);
            }
        }
        let spare = |intid, kind| InterruptPlan { intid, kind, edge: 1, ..routed(&partition.route, hz) };
        interrupts.extend(self.console(index).map(|intid| spare(intid, INTERRUPT_CONSOLE)));
        for (channel_index, channel) in system.channels.iter().enumerate() {
            if channel.destination.partition == index {
                let client = crate::schedule::client_place(system, index, channel.source.partition);
                let doorbell = |intid| InterruptPlan { client, ..spare(intid, INTERRUPT_DOORBELL) };
                interrupts.extend(self.doorbell(channel_index).map(doorbell));
            }
        }
        let of_virtio = |intid, sender| {
            let client = crate::schedule::client_place(system, index, sender);
            InterruptPlan { client, ..spare(intid, INTERRUPT_DOORBELL) }
        };
        interrupts.extend(system.fronts_of(index).map(|(place, one)| of_virtio(self.interrupt(place), one.back)));
        interrupts.extend(system.backs_of(index).map(|(place, one)| of_virtio(self.notification(place), one.front)));
        let pools = system.pools().filter(|(_, channel)| channel.partition == Some(index));
        interrupts.extend(pools.filter_map(|(_, channel)| Some(spare(channel.interrupt?, INTERRUPT_DOORBELL))));
        crate::limits::at_most("interrupts", &partition.name, interrupts.len(), MAX_INTERRUPTS)?;
        interrupts.sort_by_key(|interrupt| interrupt.intid);
        Ok(interrupts)
    }
}

/// Returns how many interrupts of a partition have a rate limit, each of which takes a place on a shared core (MZ-26).
#[must_use]
pub fn limited_count(system: &System, index: usize) -> usize {
    let Some(partition) = system.partitions.get(index) else { return 0 };
    let routes = partition.devices.iter().zip(&partition.device_routes);
    let limited = routes.filter(|(_, route)| route.limit.is_some());
    let devices = limited.filter_map(|(device, _)| system.board.devices.get(*device));
    let of_devices: usize = devices.map(|device| device.interrupts.len()).sum();
    if partition.route.limit.is_none() {
        return of_devices;
    }
    let rings = |channel: &&Channel| channel.destination.partition == index && channel.doorbell.is_some();
    let pools = system.pools().filter(|(_, one)| one.partition == Some(index) && one.interrupt.is_some()).count();
    let mut lines: Vec<u32> = devices::of_partition(system, index).map(|(_, function)| function.interrupt).collect();
    lines.sort_unstable();
    lines.dedup();
    of_devices
        + lines.len()
        + usize::from(partition.virtual_uart)
        + system.channels.iter().filter(rings).count()
        + system.fronts_of(index).count()
        + system.backs_of(index).count()
        + pools
}

/// Returns an entry that has a route and nothing else yet. The window of a limit is rounded up: it must not let more
/// through.
fn routed(route: &Route, hz: u64) -> InterruptPlan {
    InterruptPlan {
        route: route.rule.number(),
        limit_events: route.limit.map_or(0, |limit| limit.events),
        limit_period_ticks: route.limit.map_or(0, |limit| ticks::round_up(limit.period_ns, hz)),
        ..InterruptPlan::default()
    }
}

/// Returns the GICD_ICFGR words that make each owned interrupt edge-triggered or level-sensitive.
#[must_use]
pub fn configuration_words<'a>(interrupts: impl Iterator<Item = &'a InterruptPlan>) -> [u32; 16] {
    let mut words = [0; 16];
    for interrupt in interrupts.filter(|interrupt| interrupt.edge != 0) {
        let word = usize::try_from(interrupt.intid / 16).ok().and_then(|index| words.get_mut(index));
        if let Some(word) = word {
            *word |= 0b10 << (interrupt.intid % 16 * 2);
        }
    }
    words
}
