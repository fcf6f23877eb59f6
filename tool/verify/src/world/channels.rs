//! Channels between the worlds: memory that both reach, and nothing else lies in.

use super::layout::{
    CHANNEL_BYTES, CHANNEL_NAME_BYTES, CHANNELS, FIRST_SPECIAL, MOST_CHANNELS, PAGE, SHARED_FIRST, half, word,
};
use super::plan::Plan;
use crate::channel::{Pool, pool_bytes};
use crate::code::Code;
use crate::finding::Findings;

/// A channel as the plan has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) start: u64,
    /// First byte behind its pages.
    pub(super) end: u64,
    pub(super) interrupt: u32,
    name: [u8; CHANNEL_NAME_BYTES],
    /// The world below sends.
    is_from_world: bool,
    /// Blocks, and bytes of a block.
    shape: (u32, u32),
    /// Ticks between two looks of the payload, or 0.
    poll: u32,
}

/// Reads the channels of a plan's page, each with numbers that one may have.
pub(super) fn read(page: &[u8], findings: &mut Findings) -> Option<Vec<Channel>> {
    let mut channels = Vec::new();
    let mut names: Vec<&[u8]> = Vec::new();
    for place in 0..MOST_CHANNELS {
        let first = CHANNELS + place * CHANNEL_BYTES;
        let entry = page.get(first..first + CHANNEL_BYTES)?;
        if entry.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (name, numbers) = entry.split_at_checked(CHANNEL_NAME_BYTES)?;
        let (address, direction, blocks) = (word(numbers, 0)?, half(numbers, 8)?, half(numbers, 12)?);
        let (block_bytes, interrupt) = (half(numbers, 16)?, half(numbers, 20)?);
        let (poll, reserved) = (half(numbers, 24)?, half(numbers, 28)?);
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        let is_named = length != 0 && name.iter().skip(length).all(|byte| *byte == 0) && !names.contains(&name);
        // The payload signals to the world, and looks for what the world sends.
        let is_signalled = match direction {
            1 => poll == 0 && (interrupt == 0 || (SHARED_FIRST..FIRST_SPECIAL).contains(&interrupt)),
            2 => interrupt == 0,
            _ => false,
        };
        let bytes = pool_bytes(blocks, block_bytes);
        let is_good = place == channels.len() && is_named && is_signalled && bytes.is_some() && reserved == 0;
        if !findings.require(is_good, Code::WorldChannel, || {
            format!("channel {place} has a name, direction, geometry, interrupt or poll that none has")
        }) {
            return Some(Vec::new());
        }
        names.push(name);
        channels.push(Channel {
            start: address,
            end: address.saturating_add(bytes?),
            interrupt,
            name: name.first_chunk().copied()?,
            is_from_world: direction == 2,
            shape: (blocks, block_bytes),
            poll,
        });
    }
    Some(channels)
}

/// Compares the channels of partitions with the ends that their image has: each is one pool of one partition, by name, place and shape, with an
/// interrupt of that partition. Nobody but the payload looks at how often it looks, so that a partition cannot interrupt it.
pub(super) fn check_below(plan: &Plan, pools: &[Pool], findings: &mut Findings) {
    let is_it = |channel: &Channel, pool: &Pool| {
        (channel.start, channel.end) == (pool.pages.start, pool.pages.end)
            && channel.name == pool.name
            && channel.is_from_world == pool.is_source
            && channel.shape == pool.shape
            && channel.interrupt == pool.interrupt
    };
    findings.require(plan.channels.len() == pools.len(), Code::WorldChannel, || {
        format!("{} channels, and partitions have {} ends of such", plan.channels.len(), pools.len())
    });
    for (place, channel) in plan.channels.iter().enumerate() {
        findings.require(pools.iter().any(|pool| is_it(channel, pool)), Code::WorldChannel, || {
            format!("channel {place} at {:#x} is not what a partition has there", channel.start)
        });
        findings.require(!channel.is_from_world || channel.poll != 0, Code::WorldChannel, || {
            format!("channel {place} lets partitions call the payload as often as they like")
        });
    }
}

/// Compares the channels with each other, with the world's memory and with the interrupts.
pub(super) fn check(plan: &Plan, findings: &mut Findings) {
    let window_end = plan.window.saturating_add(plan.window_bytes);
    for (place, channel) in plan.channels.iter().enumerate() {
        let others = plan.channels.iter().take(place);
        // Memory begins where the window does, and the window is the first of it. Those of partitions are within their monitor's.
        let is_behind = plan.entry != 0
            && channel.start.is_multiple_of(PAGE)
            && match plan.cores {
                None => channel.start >= window_end,
                Some(_) => plan.window <= channel.start && channel.end <= window_end,
            };
        let is_apart = others.clone().all(|other| channel.end <= other.start || other.end <= channel.start);
        findings.require(is_behind && is_apart, Code::WorldChannel, || {
            format!(
                "the pages of channel {place} at {:#x} are not behind the other world's memory, or overlap others",
                channel.start
            )
        });
        let is_own = others.clone().all(|other| other.interrupt != channel.interrupt)
            && !plan.interrupts.contains(&channel.interrupt);
        findings.require(channel.interrupt == 0 || is_own, Code::WorldInterrupt, || {
            format!("INTID {} of channel {place} is the payload's, or another channel's too", channel.interrupt)
        });
    }
}
