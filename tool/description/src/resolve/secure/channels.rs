//! Channels between the worlds: their pools, and where these lie.
//!
//! A pool is memory of the machine that is neither world's own: behind the memory of the world below, so that its kernel takes nothing of it
//! and lets a program map it (Debian's kernel refuses `/dev/mem` for its own memory alone).

use super::hybrid::has_partitions;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::resolve::partition::span;
use crate::secure::{MOST_BLOCK_BYTES, MOST_BLOCKS, Secure, WorldChannel, WorldDirection};
use crate::source::Span;
use crate::unit::{format_duration, format_size};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_plan::model::{self, KERNEL_TICK_NS, World};
use bulkhead_plan::tables::BLOCK_BYTES;
use bulkhead_world::flash::MOST_CHANNELS;
use bulkhead_world::pool::Geometry;

impl Resolver<'_> {
    /// The channels, with offsets from the first of their pages in place of addresses.
    pub(super) fn world_channels(&mut self, secure: &Secure) -> Option<Vec<model::WorldChannel>> {
        let first = secure.channel.first()?;
        if secure.non_secure.is_none() {
            let message = format!("channel `{}` has no world to lead to", first.name.value);
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(first.span, "remove it");
            self.push(diagnostic.help("or add a section `[secure.non_secure]`"));
        }
        crate::resolve::unique_names(secure.channel.iter().map(|channel| &channel.name), "channel", self.report);
        if let Some(extra) = secure.channel.get(MOST_CHANNELS) {
            let message = format!("{} channels are too many: a world plan holds {MOST_CHANNELS}", secure.channel.len());
            self.bad_channel(message, extra.span, "the first one too many");
        }
        self.channel_interrupts_once(secure);
        let mut offset = 0_u64;
        let mut channels = Vec::new();
        let mut is_good = true;
        for written in &secure.channel {
            match self.world_channel(secure, written, offset) {
                Some((channel, bytes)) => {
                    channels.push(channel);
                    offset = offset.saturating_add(bytes);
                }
                None => is_good = false,
            }
        }
        is_good.then_some(channels)
    }

    /// A channel, and the bytes of its pages.
    fn world_channel(
        &mut self,
        secure: &Secure,
        written: &Located<WorldChannel>,
        offset: u64,
    ) -> Option<(model::WorldChannel, u64)> {
        let blocks = self.channel_number(&written.blocks, MOST_BLOCKS, "blocks");
        let block_bytes = self.channel_number(&written.block_bytes, MOST_BLOCK_BYTES, "bytes of a block");
        let (direction, beside) = match written.direction.value {
            WorldDirection::ToWorld => (model::WorldDirection::ToWorld, "a channel to the world"),
            WorldDirection::ToPayload => (model::WorldDirection::ToPayload, "a channel to the payload"),
        };
        let interrupt = match direction {
            model::WorldDirection::ToWorld => {
                self.does_not_apply(span(&written.poll), "poll", beside);
                self.channel_interrupt(written)
            }
            model::WorldDirection::ToPayload => {
                self.does_not_apply(span(&written.interrupt), "interrupt", beside);
                Some(None)
            }
        };
        let poll_ns = self.channel_poll(written);
        let partition = self.channel_partition(secure, written);
        let (blocks, block_bytes) = (blocks?, block_bytes?);
        let words = Geometry::new(blocks, block_bytes)?.words() as u64;
        let pool_bytes = words.saturating_mul(8).next_multiple_of(PAGE_BYTES);
        let channel = model::WorldChannel {
            name: written.name.value.clone(),
            direction,
            blocks,
            block_bytes,
            partition: partition?,
            address: PhysicalAddress(offset),
            pool_bytes,
            interrupt: interrupt?,
            poll_ns: poll_ns?,
        };
        Some((channel, pool_bytes))
    }

    /// The partition at the other end; `None` within where one image is below.
    fn channel_partition(&mut self, secure: &Secure, written: &Located<WorldChannel>) -> Option<Option<usize>> {
        let description = self.description;
        if !secure.non_secure.as_ref().is_some_and(|world| has_partitions(world)) {
            self.does_not_apply(span(&written.partition), "partition", "a world without partitions");
            return Some(None);
        }
        let name = written.name.as_str();
        if written.direction.value == WorldDirection::ToPayload && written.poll.is_none() {
            let message = format!("partitions cannot ring the payload, and it does not look for messages of `{name}`");
            let diagnostic = Diagnostic::new(Code::ChannelRung, message)
                .at(written.span, "needs `poll`")
                .note("what partitions do must not decide how often the payload is interrupted");
            self.push(diagnostic.help("add how often it looks, for example `poll = \"2 ms\"`"));
        }
        let Some(partition) = &written.partition else {
            let message = format!("channel `{name}` does not say which partition it leads to");
            let diagnostic = Diagnostic::new(Code::ChannelOfNobody, message).at(written.span, "needs `partition`");
            self.push(diagnostic.help("add the name of a partition, for example `partition = \"linux\"`"));
            return None;
        };
        let found = description.partition.iter().position(|one| one.name.value == partition.value);
        let Some((index, owner)) = found.and_then(|index| Some((index, description.partition.get(index)?))) else {
            let known: Vec<&str> = description.partition.iter().map(|one| one.name.as_str()).collect();
            let message = format!("channel `{name}` leads to no partition");
            let mut diagnostic = Diagnostic::new(Code::ChannelOfNobody, message).at(partition.span, "there is none");
            diagnostic = match crate::suggest::closest(partition, known.iter().copied()) {
                Some(meant) => {
                    diagnostic.suggest(partition.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"))
                }
                None => diagnostic.help(format!("the partitions are {}", crate::suggest::list(&known))),
            };
            self.push(diagnostic);
            return None;
        };
        if let Some(port) = owner.ports.iter().find(|port| port.name.value == written.name.value) {
            let message = format!("partition `{}` has two ports `{name}`", owner.name.value);
            let diagnostic = Diagnostic::new(Code::DuplicateName, message).at(written.name.span, "this channel is one");
            self.push(diagnostic.at(port.name.span, "and this port is one").help("give one of them another name"));
        }
        Some(Some(index))
    }

    /// A partition has room for the channels that lead to it.
    pub(super) fn channels_fit(&mut self, channels: &[model::WorldChannel], secure: &Secure) {
        let description = self.description;
        for (index, partition) in description.partition.iter().enumerate() {
            let most = crate::resolve::channel::most_ports(partition);
            let left = most.saturating_sub(partition.ports.len());
            let mut own = channels.iter().zip(&secure.channel).filter(|(channel, _)| channel.partition == Some(index));
            if let Some((_, extra)) = own.nth(left) {
                let name = partition.name.value.as_str();
                let message = format!("partition `{name}` has more ports with its channels to the payload than {most}");
                self.push(Diagnostic::new(Code::TooManyPorts, message).at(extra.name.span, "the first one too many"));
            }
        }
    }

    fn channel_number(&mut self, number: &Located<u64>, most: u64, what: &str) -> Option<u32> {
        let found = u32::try_from(number.value).ok().filter(|_| (1..=most).contains(&number.value));
        if found.is_none() {
            self.bad_channel(
                format!("a channel cannot have {} {what}", number.value),
                number.span,
                &format!("expected 1 to {most}"),
            );
        }
        found
    }

    /// A shared interrupt that no device raises.
    fn channel_interrupt(&mut self, written: &WorldChannel) -> Option<Option<u32>> {
        let Some(interrupt) = &written.interrupt else { return Some(None) };
        let spares = &self.board.board.spare_interrupts;
        let found = u32::try_from(interrupt.value).ok().filter(|intid| spares.contains(intid));
        if found.is_none() {
            let (first, last) = (spares.first().copied().unwrap_or(0), spares.last().copied().unwrap_or(0));
            let message = format!("interrupt {} is no spare one of the board", interrupt.value);
            self.bad_channel(
                message,
                interrupt.span,
                &format!("spare ones are from {first} to {last}; `bulkhead board show` lists them"),
            );
            return None;
        }
        Some(found)
    }

    fn channel_interrupts_once(&mut self, secure: &Secure) {
        let mut seen: Vec<(u64, Span)> = Vec::new();
        for interrupt in secure.channel.iter().filter_map(|channel| channel.interrupt.as_ref()) {
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == interrupt.value) {
                let message = format!("interrupt {} is given twice", interrupt.value);
                let diagnostic = Diagnostic::new(Code::InterruptTwice, message).at(interrupt.span, "here");
                self.push(diagnostic.at(*first, "and here"));
            }
            seen.push((interrupt.value, interrupt.span));
        }
    }

    fn channel_poll(&mut self, written: &WorldChannel) -> Option<Option<u64>> {
        let Some(poll) = written.poll.as_ref().filter(|_| written.direction.value == WorldDirection::ToPayload) else {
            return Some(None);
        };
        let poll_ns = self.duration(poll)?;
        if poll_ns == 0 || !poll_ns.is_multiple_of(KERNEL_TICK_NS) {
            let message = format!("nobody looks for messages every {}", format_duration(poll_ns));
            let label = format!("expected whole ticks of the payload's kernel, {}", format_duration(KERNEL_TICK_NS));
            self.bad_channel(message, poll.span, &label);
            return None;
        }
        Some(Some(poll_ns))
    }

    fn bad_channel(&mut self, message: String, place: Span, label: &str) {
        self.push(Diagnostic::new(Code::BadWorldChannel, message).at(place, label));
    }
}

/// Memory that the pools take of a machine whose world has the rest: whole blocks, so that tables stay small.
pub(super) fn reserved_bytes(channels: &[model::WorldChannel], has_wish: bool) -> u64 {
    shared_bytes(channels, has_wish).next_multiple_of(BLOCK_BYTES)
}

/// The pools, and behind them the page of the wish.
fn shared_bytes(channels: &[model::WorldChannel], has_wish: bool) -> u64 {
    pool_bytes(channels).saturating_add(if has_wish { PAGE_BYTES } else { 0 })
}

fn pool_bytes(channels: &[model::WorldChannel]) -> u64 {
    channels.last().map_or(0, |last| last.address.0.saturating_add(last.pool_bytes))
}

impl Resolver<'_> {
    /// Puts the pools behind the memory of the world below, and the page of its wish behind them. Returns where that is.
    pub(super) fn place_channels(
        &mut self,
        secure: &Secure,
        (channels, has_wish): (&mut [model::WorldChannel], bool),
        world: &World,
        machine_bytes: u64,
    ) -> Option<Option<PhysicalAddress>> {
        let bytes = shared_bytes(channels, has_wish);
        let wish = has_wish.then(|| PhysicalAddress(pool_bytes(channels).saturating_add(world.memory.end())));
        let left = machine_bytes.saturating_sub(world.memory.bytes);
        let channel = secure.channel.first().map(|channel| (channel.span, "the first channel"));
        let task = secure.latency_tasks.iter().find_map(|task| task.threads.as_ref());
        let first = channel.or(task.map(|threads| (threads.span, "the shared word of these")));
        if let Some((place, what)) = first.filter(|_| bytes > left) {
            let message = format!("the channels need {} of memory that is not the world's", format_size(bytes));
            let memory = secure.non_secure.as_ref().and_then(|world| span(&world.memory));
            let diagnostic = Diagnostic::new(Code::MemoryOutsideRam, message)
                .at(memory.unwrap_or(self.description.memory.span), format!("leaves {}", format_size(left)))
                .at(place, what);
            self.push(
                diagnostic
                    .help("give the world less memory, or leave its `memory` out: then it has what the channels leave"),
            );
            return None;
        }
        for channel in channels {
            channel.address.0 = channel.address.0.saturating_add(world.memory.end());
        }
        Some(wish)
    }
}
