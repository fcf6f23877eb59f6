//! Channels: both ends exist, point the right way and agree.

use super::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::description::{self, Channel, Direction, Doorbell, ImageKind, Partition, Port};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::suggest;
use crate::unit::format_duration;
use bulkhead_abi::plan::{MAX_DOORBELLS, MAX_PCI_FUNCTIONS};
use bulkhead_guest_abi::guest::MAX_PORTS;
use bulkhead_plan::model;

/// Payload bytes of a message: a slot with its head fits into a page.
const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 1..=4032;
/// Slots of a queue.
const DEPTH: std::ops::RangeInclusive<u64> = 2..=1024;
/// Limiter windows that the doorbell word can count without wrapping within a day.
const LIMITER_NS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;
/// Notifications per window: the doorbell word has 24 bits for them.
const LIMITER_EVENTS: std::ops::RangeInclusive<u64> = 1..=0xff_ffff;
/// Ports of a Linux partition: one PCI function each, and one function is the management device.
const MAX_LINUX_PORTS: usize = MAX_PCI_FUNCTIONS - 1;

/// How many ports a partition can have.
pub(super) fn most_ports(partition: &Partition) -> usize {
    if partition.image.kind.value == ImageKind::Linux { MAX_LINUX_PORTS } else { MAX_PORTS }
}

/// Source and destination of a channel, as far as they were found.
type Ends<'d> = (Option<End<'d>>, Option<End<'d>>);

/// A channel end that was found.
#[derive(Clone, Copy)]
struct End<'d> {
    partition: usize,
    port: &'d Port,
    span: Span,
}

impl<'r> Resolver<'r> {
    /// Resolves every channel; one that cannot be resolved is `None`.
    pub(super) fn channels(&mut self) -> Vec<Option<model::Channel>> {
        let description = self.description;
        for partition in &description.partition {
            for port in &partition.ports {
                self.port(port);
            }
            let most = most_ports(partition);
            if let Some(extra) = partition.ports.get(most) {
                let message = format!(
                    "partition `{}` has {} ports and can have {most}",
                    partition.name.value,
                    partition.ports.len()
                );
                self.push(Diagnostic::new(Code::TooManyPorts, message).at(extra.name.span, "the first one too many"));
            }
        }
        let ends: Vec<Ends<'r>> = description.channel.iter().map(|channel| self.ends(channel)).collect();
        self.used_once(&ends);
        let channels: Vec<_> =
            description.channel.iter().zip(&ends).map(|(channel, ends)| self.channel(channel, *ends)).collect();
        channels
    }

    /// Checks one port by itself.
    fn port(&mut self, port: &Port) {
        if !MESSAGE_BYTES.contains(&port.message_bytes.value) {
            let message = format!("a message cannot have {} bytes", port.message_bytes.value);
            self.push(Diagnostic::new(Code::BadMessageSize, message).at(port.message_bytes.span, "expected 1 to 4032"));
        }
        if port.direction.value == Direction::Source {
            let polls = port.polls.as_ref().map(|polls| polls.span);
            self.does_not_apply(polls, "polls", "`direction = \"source\"`, at which nobody looks");
        }
        match (port.kind.value, &port.depth) {
            (description::PortKind::Sampling, depth) => {
                self.does_not_apply(
                    depth.as_ref().map(|depth| depth.span),
                    "depth",
                    "`kind = \"sampling\"`, which keeps one value",
                );
            }
            (description::PortKind::Queuing, None) => {
                let message = format!("queuing port `{}` has no depth", port.name.value);
                self.push(
                    Diagnostic::new(Code::BadDepth, message)
                        .at(port.kind.span, "needs `depth`")
                        .help("for example `depth = 16`"),
                );
            }
            (description::PortKind::Queuing, Some(depth)) if !DEPTH.contains(&depth.value) => {
                let message = format!("a queue cannot keep {} messages", depth.value);
                self.push(Diagnostic::new(Code::BadDepth, message).at(depth.span, "expected 2 to 1024"));
            }
            (description::PortKind::Queuing, Some(_)) => {}
        }
    }

    /// Reads how often the receiver looks at its port. `None` for a bad one.
    fn polls(&mut self, port: &Port) -> Option<Option<u64>> {
        let Some(written) = &port.polls else {
            return Some(None);
        };
        let polls_ns = self.duration(written)?;
        if LIMITER_NS.contains(&polls_ns) {
            return Some(Some(polls_ns));
        }
        let message = format!("nobody looks at a port every {}", format_duration(polls_ns));
        let label =
            format!("expected {} to {}", format_duration(*LIMITER_NS.start()), format_duration(*LIMITER_NS.end()));
        self.push(Diagnostic::new(Code::BadPolls, message).at(written.span, label));
        None
    }

    /// Finds both ends of a channel.
    fn ends(&mut self, channel: &'r Channel) -> Ends<'r> {
        let mut find = |end: &'r Option<Located<String>>, direction: Direction| match end {
            Some(name) => self.end(name, direction),
            None => {
                let word = direction.word();
                let message = format!("channel `{}` has no {word}", channel.name.value);
                self.push(
                    Diagnostic::new(Code::OneEnd, message)
                        .at(channel.name.span, format!("needs `{word} = \"partition.port\"`")),
                );
                None
            }
        };
        let ends = (find(&channel.source, Direction::Source), find(&channel.destination, Direction::Destination));
        if let (Some(source), Some(destination)) = ends
            && source.partition == destination.partition
        {
            let message = format!(
                "channel `{}` leads from partition `{}` to itself",
                channel.name.value,
                self.partition_name(source.partition)
            );
            self.push(
                Diagnostic::new(Code::LoopChannel, message)
                    .at(destination.span, "")
                    .at(source.span, "the same partition")
                    .note("a guest needs no monitor to talk to itself"),
            );
        }
        ends
    }

    /// Finds one end.
    fn end(&mut self, name: &'r Located<String>, direction: Direction) -> Option<End<'r>> {
        let description = self.description;
        let Some((partition_name, port_name)) = name.split_once('.') else {
            let message = format!("`{}` does not name a port", name.value);
            self.push(Diagnostic::new(Code::UnknownPort, message).at(name.span, "expected `partition.port`"));
            return None;
        };
        let Some((partition, found)) =
            description.partition.iter().enumerate().find(|(_, one)| one.name.value == partition_name)
        else {
            let names: Vec<&str> = description.partition.iter().map(|one| one.name.as_str()).collect();
            let meant = suggest::closest(partition_name, names.iter().copied());
            self.unknown(
                name,
                format!("there is no partition `{partition_name}`"),
                meant.map(|meant| format!("{meant}.{port_name}")),
                format!("the partitions are {}", suggest::list(&names)),
            );
            return None;
        };
        let Some(port) = found.ports.iter().find(|port| port.name.value == port_name) else {
            let names: Vec<&str> = found.ports.iter().map(|port| port.name.as_str()).collect();
            let meant = suggest::closest(port_name, names.iter().copied());
            self.unknown(
                name,
                format!("partition `{partition_name}` has no port `{port_name}`"),
                meant.map(|meant| format!("{partition_name}.{meant}")),
                match names.as_slice() {
                    [] => String::from("declare it in `ports` of the partition"),
                    names => format!("its ports are {}", suggest::list(names)),
                },
            );
            return None;
        };
        if port.direction.value != direction {
            let message = format!("port `{}` cannot be the {} of a channel", name.value, direction.word());
            let label = format!("is declared as {}", port.direction.word());
            self.push(
                Diagnostic::new(Code::WrongDirection, message)
                    .at(name.span, format!("used as {}", direction.word()))
                    .at(port.direction.span, label),
            );
            return None;
        }
        Some(End { partition, port, span: name.span })
    }

    fn unknown(&mut self, name: &Located<String>, message: String, meant: Option<String>, otherwise: String) {
        let diagnostic = Diagnostic::new(Code::UnknownPort, message).at(name.span, "");
        self.push(match meant {
            Some(meant) => diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?")),
            None => diagnostic.help(otherwise),
        });
    }

    /// Checks that each port has exactly one channel.
    fn used_once(&mut self, ends: &[Ends<'r>]) {
        let description = self.description;
        let all: Vec<End<'r>> =
            ends.iter().flat_map(|(source, destination)| [*source, *destination]).flatten().collect();
        for (place, end) in all.iter().enumerate() {
            let same =
                |other: &&End<'_>| other.partition == end.partition && other.port.name.value == end.port.name.value;
            if let Some(first) = all.iter().take(place).find(same) {
                let message =
                    format!("port `{}.{}` has two channels", self.partition_name(end.partition), end.port.name.value);
                self.push(
                    Diagnostic::new(Code::PortTwice, message)
                        .at(end.span, "")
                        .at(first.span, "the other one")
                        .help("declare one port for each channel"),
                );
            }
        }
        // An end that was misspelt is reported already, and then the port it meant is not missing a channel.
        let is_port = |end: &str| {
            end.split_once('.').is_some_and(|(partition, port)| {
                description
                    .partition
                    .iter()
                    .any(|one| one.name.value == partition && one.ports.iter().any(|other| other.name.value == port))
            })
        };
        if !description
            .channel
            .iter()
            .flat_map(|channel| [&channel.source, &channel.destination])
            .flatten()
            .all(|end| is_port(end))
        {
            return;
        }
        for partition in &description.partition {
            for port in &partition.ports {
                let full_name = format!("{}.{}", partition.name.value, port.name.value);
                // Looked up by text: an end with another mistake uses its port all the same.
                let is_used = description.channel.iter().any(|channel| {
                    [&channel.source, &channel.destination].into_iter().flatten().any(|end| end.value == full_name)
                });
                if !is_used {
                    let key = port.direction.word();
                    let diagnostic =
                        Diagnostic::new(Code::UnconnectedPort, format!("no channel uses port `{full_name}`"))
                            .at(port.name.span, "");
                    self.push(
                        diagnostic
                            .help(format!("add a `[[channel]]` with `{key} = \"{full_name}\"`, or remove the port")),
                    );
                }
            }
        }
    }

    /// Resolves a channel whose ends were found.
    fn channel(&mut self, channel: &Channel, (source, destination): Ends<'r>) -> Option<model::Channel> {
        let doorbell = self.doorbell(channel, destination);
        let polls_ns = destination.map(|end| self.polls(end.port));
        let (source, destination) = (source?, destination?);
        self.agree(channel, source, destination);
        let message_bytes = u32::try_from(source.port.message_bytes.value).ok()?;
        let kind = match (source.port.kind.value, &source.port.depth) {
            (description::PortKind::Sampling, _) => model::PortKind::Sampling,
            (description::PortKind::Queuing, depth) => {
                model::PortKind::Queuing { depth: u32::try_from(depth.as_ref()?.value).ok()? }
            }
        };
        let port = |end: End<'_>| model::Port { partition: end.partition, name: end.port.name.value.clone() };
        let name = channel.name.value.clone();
        Some(model::Channel {
            name,
            source: port(source),
            destination: port(destination),
            kind,
            message_bytes,
            doorbell: doorbell?,
            polls_ns: polls_ns??,
        })
    }

    /// Checks that both ports describe the same messages.
    fn agree(&mut self, channel: &Channel, source: End<'_>, destination: End<'_>) {
        let name = channel.name.value.as_str();
        let (from, to) = (&source.port.message_bytes, &destination.port.message_bytes);
        if from.value != to.value {
            let message = format!("the ports of channel `{name}` have different message sizes");
            let diagnostic = Diagnostic::new(Code::SizeMismatch, message)
                .at(to.span, format!("destination: {} bytes", to.value))
                .at(from.span, format!("source: {} bytes", from.value));
            self.push(diagnostic.suggest(to.span, from.value.to_string(), "the size of the source"));
        }
        let (from, to) = (&source.port.kind, &destination.port.kind);
        if from.value != to.value {
            let message = format!("the ports of channel `{name}` are of different kinds");
            let diagnostic =
                Diagnostic::new(Code::KindMismatch, message).at(to.span, to.word()).at(from.span, from.word());
            self.push(
                diagnostic
                    .help("a sampling port keeps the newest value, a queuing port keeps messages in order: choose one"),
            );
        } else if let (Some(from), Some(to)) = (&source.port.depth, &destination.port.depth)
            && from.value != to.value
        {
            let message = format!("the ports of channel `{name}` have different depths");
            let diagnostic = Diagnostic::new(Code::KindMismatch, message)
                .at(to.span, format!("destination: {}", to.value))
                .at(from.span, format!("source: {}", from.value));
            self.push(diagnostic.suggest(
                to.span,
                from.value.to_string(),
                "there is one queue: give both ports its depth",
            ));
        }
    }

    /// Resolves a doorbell: `None` for a bad one.
    fn doorbell(&mut self, channel: &Channel, destination: Option<End<'r>>) -> Option<Option<model::Doorbell>> {
        let name = channel.name.value.as_str();
        let description = self.description;
        let receiver = destination.and_then(|end| description.partition.get(end.partition));
        let together = receiver.and_then(|receiver| receiver.doorbell_limit.as_ref());
        let Some(doorbell) = &channel.doorbell else {
            return Some(None);
        };
        let table = match &doorbell.value {
            Doorbell::Plain(false) => return Some(None),
            Doorbell::Plain(true) if together.is_some() => return Some(Some(model::Doorbell { limiter: None })),
            Doorbell::Plain(true) => {
                let message = format!("the doorbell of channel `{name}` has no limiter");
                let why = "its source can interrupt the destination as often as it likes: the destination's time is not protected from it (CH-37)";
                let diagnostic = Diagnostic::new(Code::UnlimitedDoorbell, message).at(doorbell.span, "").note(why);
                self.push(diagnostic.suggest(
                    doorbell.span,
                    "{ limit = 10, per = \"100 ms\" }",
                    "limit it, for example",
                ));
                return Some(Some(model::Doorbell { limiter: None }));
            }
            Doorbell::Limited(table) => table,
        };
        let limiter = self.limiter(table, "leave `doorbell` out for a channel that is only polled")?;
        if let (Some(together), Some(receiver)) = (together, receiver) {
            self.limited_twice(name, doorbell.span, receiver, together.span);
            return None;
        }
        Some(Some(model::Doorbell { limiter: Some(limiter) }))
    }

    /// Refuses a limiter of its own for a doorbell that its receiver limits together with others (CH-36).
    fn limited_twice(&mut self, channel: &str, own: Span, receiver: &Partition, together: Span) {
        let receiver = receiver.name.value.as_str();
        let message = format!("the doorbell of channel `{channel}` has two limits");
        let diagnostic = Diagnostic::new(Code::LimitedTwice, message)
            .at(own, "its own limit")
            .at(together, format!("all doorbells to `{receiver}` count here together"))
            .note(
                "a doorbell is counted in one limiter: what one sender may do must not depend on which of two is asked",
            );
        self.push(
            diagnostic
                .suggest(own, "true", format!("let it count with the others to `{receiver}`"))
                .help("to limit each channel by itself, remove `doorbell_limit`"),
        );
    }

    /// Resolves a limit.
    pub(super) fn limiter(&mut self, table: &description::Limit, help: &str) -> Option<model::Limiter> {
        let period_ns = self.duration(&table.per);
        if !LIMITER_EVENTS.contains(&table.limit.value) {
            let message = format!("a limiter cannot let {} notifications through", table.limit.value);
            self.push(
                Diagnostic::new(Code::BadLimiter, message).at(table.limit.span, "expected 1 to 16777215").help(help),
            );
        }
        let period_ns = period_ns?;
        if !LIMITER_NS.contains(&period_ns) {
            let message = format!("a limiter cannot have windows of {}", format_duration(period_ns));
            self.push(Diagnostic::new(Code::BadLimiter, message).at(table.per.span, "expected 1 us to 60 min"));
        }
        Some(model::Limiter { events: u32::try_from(table.limit.value).ok()?, period_ns })
    }

    /// Checks how many doorbells each partition can ring.
    pub(super) fn count_doorbells(&mut self, channels: &[Option<model::Channel>], virtio: &[model::VirtioDevice]) {
        let description = self.description;
        for (index, partition) in description.partition.iter().enumerate() {
            let count = channels
                .iter()
                .flatten()
                .filter(|channel| channel.source.partition == index && channel.doorbell.is_some())
                .count();
            let count = count + virtio.iter().filter(|device| device.front == index || device.back == index).count();
            if count > MAX_DOORBELLS {
                let message = format!(
                    "partition `{}` has {count} doorbells to ring and can have {MAX_DOORBELLS}",
                    partition.name.value
                );
                self.push(
                    Diagnostic::new(Code::TooManyDoorbells, message)
                        .at(partition.name.span, "")
                        .help("let some receivers poll"),
                );
            }
        }
    }
}
