//! Where the machine's console input goes: the focus that monitors pass round with `Ctrl-]`.
//!
//! The focus is not stored anywhere. Each monitor counts, in its partition's status page, how often it gave the focus to
//! the next partition; the sum says where it is (see `monitor/src/devices/console_input.rs`).

use crate::image_file::ImagePlan;
use crate::observer::Observer;
use bulkhead_abi::plan::{MODE_DIRECT, MODE_MAPPED};

/// The byte that makes the monitor give the focus to the next partition.
pub const NEXT: u8 = 0x1d;

/// Returns the partitions that can have the focus, in its order.
#[must_use]
pub fn ring(plan: &ImagePlan) -> Vec<usize> {
    let members = || plan.vcpus().map(|(_, vcpu)| vcpu).filter(|vcpu| vcpu.uart.0 != 0);
    let mut ring: Vec<usize> = Vec::new();
    let mut here = members().find(|vcpu| vcpu.uart_first != 0);
    while let Some(vcpu) = here.filter(|vcpu| !ring.contains(&(vcpu.partition as usize))) {
        ring.push(vcpu.partition as usize);
        // To a `direct` partition the focus goes while the route stays.
        let handed = || {
            members()
                .find(|next| vcpu.mode == MODE_MAPPED && next.mode == MODE_DIRECT && next.status == vcpu.handed_status)
        };
        here =
            handed().or_else(|| members().find(|next| next.mode == MODE_MAPPED && next.mpidr == vcpu.uart_next_mpidr));
    }
    ring
}

/// Returns the place of the focus in a ring, from the number of times that each member gave it away.
#[must_use]
pub fn place(given: impl IntoIterator<Item = u32>, members: usize) -> usize {
    let sum: u64 = given.into_iter().map(u64::from).sum();
    usize::try_from(sum % (members.max(1) as u64)).unwrap_or(0)
}

/// Returns how many [`NEXT`] bytes bring the focus to a partition; `None` when it has no console input.
#[must_use]
pub fn steps_to(observer: &Observer, partition: usize) -> Option<usize> {
    let ring = ring(observer.plan());
    let target = ring.iter().position(|member| *member == partition)?;
    let now = place(ring.iter().map(|member| observer.status(*member).focus_given), ring.len());
    Some((target + ring.len() - now) % ring.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_focus_goes_round() {
        assert_eq!(place([0, 0, 0], 3), 0);
        assert_eq!(place([1, 0, 0], 3), 1);
        assert_eq!(place([1, 1, 1], 3), 0);
        assert_eq!(place([u32::MAX, u32::MAX], 2), 0);
        assert_eq!(place([], 0), 0);
    }
}
