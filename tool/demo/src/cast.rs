//! Who plays in a demonstration, and how: what a system's description says of the roles.

use crate::{CONTROL, LINUX};
use bulkhead_description::description::OPTIONAL_ROLE;
use bulkhead_plan::model::{InterruptMode, Partition, System};

/// What of the story a system can show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cast {
    /// `control` owns its core and the interrupts of it, so that nothing of the monitor runs there.
    pub control_is_direct: bool,
    /// There is an `office`.
    pub has_office: bool,
    /// The UART of the board that belongs to `linux`.
    pub uart: Option<String>,
}

impl Cast {
    /// Reads the roles of a system.
    #[must_use]
    pub fn of(system: &System) -> Self {
        let named = |name: &str| system.partitions.iter().find(|partition| partition.name == name);
        Self {
            control_is_direct: named(CONTROL).is_some_and(|control| control.mode == InterruptMode::Direct),
            has_office: named(OPTIONAL_ROLE).is_some(),
            uart: named(LINUX).and_then(|linux| uart_of(system, linux)),
        }
    }
}

/// The first UART among a partition's devices.
fn uart_of(system: &System, partition: &Partition) -> Option<String> {
    let uarts = &system.board.qemu.as_ref()?.uarts;
    let devices = partition.devices.iter().filter_map(|index| system.board.devices.get(*index));
    devices.map(|device| &device.name).find(|name| uarts.iter().any(|uart| uart.name == **name)).cloned()
}
