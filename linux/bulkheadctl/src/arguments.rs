//! The command line.

use crate::failure::{Failure, USAGE};
use crate::sysfs::Machine;
use lexopt::{Arg, Parser, ValueExt};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Text of `--help`.
pub const HELP: &str = "\
Use Bulkhead from inside a Linux partition.

Usage: bulkheadctl [OPTIONS] COMMAND

Commands:
  channel list                    ports of this partition
  channel show NAME               one port, its counters and its peer's state
  channel read NAME               print the newest value, or take the next message
  channel watch NAME              print every new value or message until stopped
  channel write NAME [DATA | -]   write one message (standard input without DATA) and ring the doorbell
  channel wait NAME               wait for a doorbell
  channel ring NAME               ring the doorbell without writing
  partition list                  partitions and their states
  partition status NAME
  partition suspend NAME
  partition resume NAME
  partition restart NAME
  world list                      channels with the payload of the secure world
  world receive NAME              take the next message of the payload
  world send NAME [DATA | -]      send one message to the payload (standard input without DATA)
  world priority [N]              show the payload's latency tasks, or want the one for threads of priority N from now on
  serve NAME FILE                 be the disk of another partition: its sectors are FILE's, or those of a block device
  serve NAME --tap INTERFACE      be the network card of another partition: its frames go through a TAP interface
  pool                            say whether this kernel keeps other things out of its virtio devices' memory
  heartbeat --every TIME          reset this partition's watchdog until stopped
  latency --every TIME --count N  sleep to N instants and print how late the kernel woke this program

Options:
  --format text|json|raw  text (default), one JSON value per line, or payload bytes alone (read, watch, receive)
  --count N               read, watch, receive: end after N messages (watch: never); heartbeat: after N beats; latency: samples
  --timeout TIME          wait at most this long (read, write, receive, send: 0; watch, wait: for ever), e.g. 500ms, 2s;
                          world priority: until the payload has read it (default: do not wait);
                          serve: end when nothing was asked for so long (default: never)
  --hex                   write, send: DATA is hexadecimal
  --lines                 write, send: each line of standard input is a message
  --tag N                 send: the tag of the messages (default 0)
  --tap INTERFACE         serve: the TAP interface, which the kernel makes if there is none
  --read-only             serve: nothing is written to FILE
  --no-ring               write: do not ring the doorbell
  --each                  latency: print each instant too, with the system counter behind it
  --sysfs DIR             instead of /sys
  --devices DIR           instead of /dev
  --processes DIR         instead of /proc
  -h, --help              print this
  -V, --version           print the version

Exit codes: 0 done, 1 the machine refused (permission, driver, device), 2 wrong command line, 3 no such channel or
partition, 4 nothing arrived in time or the peer's end is closed, 5 queue full, 6 the peer's memory is rubbish,
7 the monitor refused.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Print a text and end.
    Print(String),
    /// Do something.
    Run(Invocation),
}

/// A command with what all commands have.
#[derive(Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Where the machine is described.
    pub machine: Machine,
    /// Form of the output.
    pub format: Format,
    /// The command.
    pub command: Command,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON value per line.
    Json,
    /// Payload bytes alone.
    Raw,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `channel list`
    ChannelList,
    /// `channel show`
    ChannelShow {
        /// Port.
        name: String,
    },
    /// `channel read` and `channel watch`
    ChannelRead(ReadOptions),
    /// `channel write`
    ChannelWrite(WriteOptions),
    /// `channel wait`
    ChannelWait {
        /// Port.
        name: String,
        /// `None` = for ever.
        timeout: Option<Duration>,
    },
    /// `channel ring`
    ChannelRing {
        /// Port.
        name: String,
    },
    /// `partition list`
    PartitionList,
    /// `partition status`
    PartitionStatus {
        /// Partition.
        name: String,
    },
    /// `partition suspend`, `resume`, `restart`
    PartitionManage {
        /// Partition.
        name: String,
        /// Which.
        action: Action,
    },
    /// `world list`
    WorldList,
    /// `world receive`
    WorldReceive(ReadOptions),
    /// `world send`
    WorldSend {
        /// The message.
        options: WriteOptions,
        /// Its tag.
        tag: u32,
    },
    /// `world priority`
    WorldPriority {
        /// `None` = show.
        priority: Option<u32>,
        /// Longest wait until the payload has read it; `None` = do not wait.
        timeout: Option<Duration>,
    },
    /// `serve`
    Serve(ServeOptions),
    /// `pool`
    Pool,
    /// `heartbeat`
    Heartbeat {
        /// Period.
        every: Duration,
        /// `None` = for ever.
        count: Option<u64>,
    },
    /// `latency`
    Latency {
        /// Period.
        every: Duration,
        /// Samples, 1 or more.
        count: u64,
        /// Print each of them.
        each: bool,
    },
}

/// Options of `channel read` and `channel watch`.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Port.
    pub name: String,
    /// Messages; `None` = without end.
    pub count: Option<u64>,
    /// Longest wait for each message; `None` = for ever.
    pub timeout: Option<Duration>,
    /// Continues after bad messages and restarts of the source.
    pub is_watch: bool,
}

/// Options of `channel write`.
#[derive(Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Port.
    pub name: String,
    /// The message; `None` = standard input.
    pub data: Option<Vec<u8>>,
    /// Each line is a message.
    pub lines: bool,
    /// Ring the doorbell.
    pub ring: bool,
    /// Longest wait for a free slot; `None` = for ever.
    pub timeout: Option<Duration>,
}

/// Options of `serve`.
#[derive(Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The device.
    pub name: String,
    /// What is behind it.
    pub backing: Backing,
    /// End when nothing was asked for so long; `None` = never.
    pub timeout: Option<Duration>,
}

/// What is behind a device of another partition.
#[derive(Debug, PartialEq, Eq)]
pub enum Backing {
    /// A file or a block device.
    File {
        /// Where it is.
        path: PathBuf,
        /// It is not written.
        is_read_only: bool,
    },
    /// A TAP interface.
    Tap(String),
}

/// What a managing partition can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Suspend.
    Suspend,
    /// Resume.
    Resume,
    /// Restart.
    Restart,
}

/// Options and words as they stand, before they make sense together.
#[derive(Default)]
struct Collected {
    words: Vec<String>,
    format: Option<Format>,
    count: Option<u64>,
    timeout: Option<Duration>,
    every: Option<Duration>,
    hexadecimal: bool,
    lines: bool,
    tag: Option<u32>,
    no_ring: bool,
    tap: Option<String>,
    read_only: bool,
    each: bool,
    sysfs: Option<PathBuf>,
    devices: Option<PathBuf>,
    processes: Option<PathBuf>,
    print: Option<String>,
}

/// Understands a command line (without the program's name).
///
/// # Errors
///
/// When it makes no sense; the message says what to write instead.
pub fn parse(arguments: Vec<OsString>) -> Result<Request, Failure> {
    let mut collected = collect(arguments).map_err(|error| usage(error.to_string()))?;
    if let Some(text) = collected.print.take() {
        return Ok(Request::Print(text));
    }
    let machine = Machine::new(collected.sysfs.take(), collected.devices.take(), collected.processes.take());
    let format = collected.format.unwrap_or(Format::Text);
    let words = std::mem::take(&mut collected.words);
    let command = match words.first().map(String::as_str) {
        Some("channel") => channel(words, &collected)?,
        Some("partition") => partition(words)?,
        Some("world") => world(words, &collected)?,
        Some("serve") => serve(words, &collected)?,
        Some("pool") if words.len() == 1 => Command::Pool,
        Some("heartbeat") if words.len() == 1 => Command::Heartbeat {
            every: collected.every.ok_or_else(|| usage("heartbeat needs --every TIME, e.g. --every 50ms"))?,
            count: collected.count,
        },
        Some("latency") if words.len() == 1 => match (collected.every, collected.count) {
            (Some(every), Some(count)) if count > 0 && !every.is_zero() => {
                Command::Latency { every, count, each: collected.each }
            }
            _ => return Err(usage("latency needs --every TIME and --count N, e.g. --every 1ms --count 1000")),
        },
        Some(other) => return Err(usage(format!("unknown command {other:?}"))),
        None => return Err(usage("a command is missing")),
    };
    if format == Format::Raw && !matches!(command, Command::ChannelRead(_) | Command::WorldReceive(_)) {
        return Err(usage("--format raw is for channel read and channel watch, and for world receive"));
    }
    Ok(Request::Run(Invocation { machine, format, command }))
}

fn collect(arguments: Vec<OsString>) -> Result<Collected, lexopt::Error> {
    let mut collected = Collected::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(word) => collected.words.push(word.string()?),
            Arg::Short('h') | Arg::Long("help") => collected.print = Some(HELP.into()),
            Arg::Short('V') | Arg::Long("version") => {
                collected.print = Some(format!("bulkheadctl {}\n", env!("CARGO_PKG_VERSION")));
            }
            Arg::Long("format") => collected.format = Some(parser.value()?.parse_with(parse_format)?),
            Arg::Long("count") => collected.count = Some(parser.value()?.parse()?),
            Arg::Long("timeout") => collected.timeout = Some(parser.value()?.parse_with(parse_duration)?),
            Arg::Long("every") => collected.every = Some(parser.value()?.parse_with(parse_duration)?),
            Arg::Long("hex") => collected.hexadecimal = true,
            Arg::Long("lines") => collected.lines = true,
            Arg::Long("tag") => collected.tag = Some(parser.value()?.parse()?),
            Arg::Long("tap") => collected.tap = Some(parser.value()?.string()?),
            Arg::Long("read-only") => collected.read_only = true,
            Arg::Long("no-ring") => collected.no_ring = true,
            Arg::Long("each") => collected.each = true,
            Arg::Long("sysfs") => collected.sysfs = Some(parser.value()?.into()),
            Arg::Long("devices") => collected.devices = Some(parser.value()?.into()),
            Arg::Long("processes") => collected.processes = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(collected)
}

fn channel(words: Vec<String>, collected: &Collected) -> Result<Command, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["channel", "list"] => Ok(Command::ChannelList),
        ["channel", "show", name] => Ok(Command::ChannelShow { name: (*name).into() }),
        ["channel", "read", name] => Ok(Command::ChannelRead(ReadOptions {
            name: (*name).into(),
            count: Some(collected.count.unwrap_or(1)),
            timeout: Some(collected.timeout.unwrap_or_default()),
            is_watch: false,
        })),
        ["channel", "watch", name] => Ok(Command::ChannelRead(ReadOptions {
            name: (*name).into(),
            count: collected.count,
            timeout: collected.timeout,
            is_watch: true,
        })),
        ["channel", "write", name, data @ ..] if data.len() <= 1 => Ok(Command::ChannelWrite(WriteOptions {
            name: (*name).into(),
            data: data.first().filter(|text| **text != "-").map(|text| message(text, collected)).transpose()?,
            lines: collected.lines,
            ring: !collected.no_ring,
            timeout: Some(collected.timeout.unwrap_or_default()),
        })),
        ["channel", "wait", name] => Ok(Command::ChannelWait { name: (*name).into(), timeout: collected.timeout }),
        ["channel", "ring", name] => Ok(Command::ChannelRing { name: (*name).into() }),
        ["channel", "list", ..] => Err(usage("channel list takes no name")),
        ["channel", command @ ("show" | "read" | "watch" | "write" | "wait" | "ring"), ..] => {
            Err(usage(format!("channel {command} takes one NAME")))
        }
        _ => Err(usage("channel needs one of list, show, read, watch, write, wait, ring")),
    }
}

fn world(words: Vec<String>, collected: &Collected) -> Result<Command, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["world", "list"] => Ok(Command::WorldList),
        ["world", "receive", name] => Ok(Command::WorldReceive(ReadOptions {
            name: (*name).into(),
            count: Some(collected.count.unwrap_or(1)),
            timeout: Some(collected.timeout.unwrap_or_default()),
            is_watch: false,
        })),
        ["world", "send", name, data @ ..] if data.len() <= 1 => Ok(Command::WorldSend {
            options: WriteOptions {
                name: (*name).into(),
                data: data.first().filter(|text| **text != "-").map(|text| message(text, collected)).transpose()?,
                lines: collected.lines,
                ring: false,
                timeout: Some(collected.timeout.unwrap_or_default()),
            },
            tag: collected.tag.unwrap_or(0),
        }),
        ["world", "priority"] => Ok(Command::WorldPriority { priority: None, timeout: None }),
        ["world", "priority", number] => {
            let wrong = |_| usage(format!("{number:?} is no priority: 0 to 99"));
            Ok(Command::WorldPriority { priority: Some(number.parse().map_err(wrong)?), timeout: collected.timeout })
        }
        _ => Err(usage("world needs one of list, receive NAME, send NAME [DATA], priority [N]")),
    }
}

fn serve(words: Vec<String>, collected: &Collected) -> Result<Command, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, backing) = match (words.as_slice(), &collected.tap) {
        (["serve", name, path], None) => (name, Backing::File { path: path.into(), is_read_only: collected.read_only }),
        (["serve", name], Some(interface)) if !collected.read_only => (name, Backing::Tap(interface.clone())),
        _ => return Err(usage("serve takes NAME FILE [--read-only], or NAME --tap INTERFACE")),
    };
    Ok(Command::Serve(ServeOptions { name: (*name).into(), backing, timeout: collected.timeout }))
}

fn message(text: &str, collected: &Collected) -> Result<Vec<u8>, Failure> {
    if !collected.hexadecimal {
        return Ok(text.into());
    }
    crate::payload::from_hexadecimal(text)
        .ok_or_else(|| usage(format!("{text:?} is not hexadecimal: two digits 0-9, a-f for each byte")))
}

fn partition(words: Vec<String>) -> Result<Command, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["partition", "list"] => Ok(Command::PartitionList),
        ["partition", "status", name] => Ok(Command::PartitionStatus { name: (*name).into() }),
        ["partition", "suspend", name] => manage(name, Action::Suspend),
        ["partition", "resume", name] => manage(name, Action::Resume),
        ["partition", "restart", name] => manage(name, Action::Restart),
        ["partition", "list", ..] => Err(usage("partition list takes no name")),
        ["partition", command @ ("status" | "suspend" | "resume" | "restart"), ..] => {
            Err(usage(format!("partition {command} takes one NAME")))
        }
        _ => Err(usage("partition needs one of list, status, suspend, resume, restart")),
    }
}

fn manage(name: &str, action: Action) -> Result<Command, Failure> {
    Ok(Command::PartitionManage { name: name.into(), action })
}

fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, format!("{message}; bulkheadctl --help lists the commands"))
}

fn parse_format(text: &str) -> Result<Format, String> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "raw" => Ok(Format::Raw),
        _ => Err("the formats are text, json and raw".into()),
    }
}

/// Reads a time with its unit: `50ms`, `2 s`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "a time is a whole number and a unit, e.g. 50ms".to_owned())?;
    let nanoseconds_per_unit: u64 = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" => return Err(format!("a time needs a unit (ns, us, ms, s); did you mean \"{number}ms\"?")),
        other => return Err(format!("unknown unit {other:?}; the units are ns, us, ms, s")),
    };
    number.checked_mul(nanoseconds_per_unit).map(Duration::from_nanos).ok_or_else(|| "the time is too long".into())
}
