//! The description of an instance as it is written: `NAME.kernel.toml`, version 1. The doc comments are what editors show.

use crate::decode::{Decode, Duration, Located, Reader, Size, Value, WordSchema, as_table, table, words};
use crate::description::Trust;
use crate::sharing::Share;
use crate::source::Span;
use bulkhead_kernel_abi::{MAX_SCHEDULERS, MAX_STACKS, MAX_WIRES};
use bulkhead_words::{Anchor, OnEmpty, Rule};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;
use toml::de::DeValue;

/// Version of the format that this tool reads.
pub const KERNEL_FILE_VERSION: u64 = 1;

table! {
    /// An instance of the real-time kernel: components, what pays for their threads, and who may call whom.
    pub struct KernelFile {
        /// Version of the format: 1.
        version: Located<u64>,
        /// Its kernel records what happens, for `bulkhead trace`; default false. It takes longer for everything.
        trace: Option<Located<bool>>,
        /// Memory for what is made at run time.
        pool: Option<Located<Size>>,
        /// Servers, which own time.
        #[schemars(default)]
        server: Vec<Located<KernelServer>>,
        /// Reserves of servers that are made at run time.
        #[schemars(default)]
        band: Vec<Located<Band>>,
        /// Schedulers, which are components that say who runs next.
        #[schemars(default, length(max = MAX_SCHEDULERS))]
        scheduler: Vec<Located<Scheduler>>,
        /// Wires that are taken from: what other instances may send to.
        #[schemars(default, length(max = MAX_WIRES))]
        wire: Vec<Located<Wire>>,
        /// Programs of which components make processes at run time.
        #[schemars(default)]
        program: Vec<Located<Program>>,
        /// Components; the order gives their numbers.
        #[schemars(default)]
        component: Vec<Located<Component>>,
    }
}

table! {
    /// A wire: signals of this instance that another one may send, by a channel that ends here. Its doorbell tells the kernel of them.
    pub struct Wire {
        /// End of a channel of the partition, with `direction = "destination"`. The wire takes the place of the port's messages.
        port: Located<String>,
        /// Server that pays for taking entries.
        server: Located<String>,
        /// What may be sent to: a name for the others, and the signal, `"COMPONENT.SIGNAL"`. They bind functions to `"wire:PORT.NAME"`, where the port is theirs.
        exports: Located<Bindings>,
    }
}

impl KernelFile {
    /// Reads the root table of a file.
    pub(crate) fn decode_root(table: &toml::de::DeTable<'_>, whole: Span, reader: &mut Reader) -> Option<Self> {
        Self::decode_table(table, whole, reader)
    }
}

words! {
    /// Whose work a server pays for.
    pub enum ServerKind {
        /// Its own threads'.
        Main = "main",
        /// That of drivers, on behalf of clients.
        Io = "io",
    }
}

words! {
    /// What decides whether a server is made in a band.
    pub enum Admission {
        /// What the band has left.
        Band = "band",
        /// The published test of all servers, too.
        EquationOne = "equation-1",
    }
}

words! {
    /// What a fault of a caller inside a component comes to.
    pub enum OnFault {
        /// The caller is told, and the component stays.
        Return = "return",
        /// All leave, and the component begins again.
        Reset = "reset",
        /// All leave, and the component stops.
        Stop = "stop",
    }
}

table! {
    /// A server: time that its threads run on. Without a budget it has no limit. Those with shorter periods are more important, unless they have priorities;
    /// those without a limit come last.
    pub struct KernelServer {
        /// Name, unique among servers.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Default `main`.
        kind: Option<Located<ServerKind>>,
        /// How its time is spent and comes back.
        #[schemars(with = "Option<WordSchema<Rule>>")]
        rule: Option<Located<Rule>>,
        /// Time per period.
        budget: Option<Located<Duration>>,
        /// The period.
        period: Option<Located<Duration>>,
        /// Its place in the order: the smallest number is the most important. If one has it, all have it that have a budget, and all bands.
        priority: Option<Located<u64>>,
        /// Which instant dates a piece of the budget: `eligible` is a guarantee for its threads, `dispatch` a cap for the others' sake. Default `eligible`, if all
        /// its threads are of trusted components, none of them takes an interrupt, and they take turns; otherwise `dispatch`.
        #[schemars(with = "Option<WordSchema<Anchor>>")]
        anchor: Option<Located<Anchor>>,
        /// Of an `io` server: its share of the core, such as `"4 %"`.
        share: Option<Located<Share>>,
        /// Of an `io` server: on whose behalf it works, up to 8 servers with different periods. Its work has their levels.
        #[schemars(default)]
        clients: Vec<Located<String>>,
        /// Scheduler that says which of its threads runs; default they take turns.
        holder: Option<Located<String>>,
        /// What its threads do without budget: `stop` (default of `io`), or `background` (default of others), which is what nobody else wants.
        #[schemars(with = "Option<WordSchema<OnEmpty>>")]
        on_empty: Option<Located<OnEmpty>>,
        /// How long a turn is; default 1 ms.
        quantum: Option<Located<Duration>>,
    }
}

table! {
    /// A band: servers that components make at run time.
    pub struct Band {
        /// Name, unique among bands.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Shortest and longest period of a server in it.
        #[schemars(length(min = 2, max = 2))]
        periods: Located<Vec<Located<Duration>>>,
        /// Most budget of all of them together.
        budget: Located<Duration>,
        /// Most servers.
        servers: Located<u64>,
        /// Its place in the order, where servers have one.
        priority: Option<Located<u64>>,
        /// What decides whether a server is made: the band's own rule alone (`band`, default), or the published test of all servers of the instance as well (`equation-1`).
        admission: Option<Located<Admission>>,
    }
}

table! {
    /// A scheduler.
    pub struct Scheduler {
        /// Name, unique among schedulers.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Component whose thread takes its events.
        component: Located<String>,
        /// Which of its threads that is; needed where it has several.
        thread: Option<Located<String>>,
        /// Scheduler above it.
        parent: Option<Located<String>>,
    }
}

table! {
    /// A program of processes. Its pages are in the image once; what a process writes is copied for each.
    pub struct Program {
        /// Name, unique among programs, at most 15 bytes.
        #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$"))]
        name: Located<String>,
        /// A path relative to this file; the prefix `component:` means the directory of built components.
        file: Located<String>,
        /// Its first thread's stack; default `"8 KiB"`.
        stack: Option<Located<Size>>,
        /// What each function that the program calls is given by who makes a process: names, of slot 2 and those behind it.
        #[schemars(default)]
        slots: Vec<Located<String>>,
        /// Its processes may use floating-point registers, as a component that says so.
        floating_point: Option<Located<bool>>,
    }
}

table! {
    /// A component: a program with an address space and a capability table of its own.
    pub struct Component {
        /// Name, unique among components, at most 15 bytes.
        #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$"))]
        name: Located<String>,
        /// Its program: a path relative to this file; the prefix `component:` means the directory of built components.
        program: Located<String>,
        /// Default `untrusted`.
        trust: Option<Located<Trust>>,
        /// Threads that run from the start.
        #[schemars(default)]
        threads: Vec<Located<Thread>>,
        /// What is sent to its threads.
        #[schemars(default)]
        end_points: Vec<Located<EndPoint>>,
        /// Devices and PCI functions of the partition, or devices of the board, whose registers it has, alone; `uart` is what the kernel prints with on the board.
        #[schemars(default)]
        devices: Vec<Located<String>>,
        /// Pages of its own that its devices may read and write by themselves; `dma` of a PCI function names the component.
        dma_bytes: Option<Located<Size>>,
        /// Interrupts that are signalled to its end points.
        #[schemars(default)]
        interrupts: Vec<Located<Interrupt>>,
        /// What each function that the program calls leads to: `"COMPONENT.FUNCTION"` (`"COMPONENT.FUNCTION#TOKEN"`), `"send:COMPONENT.SIGNAL"`,
        /// `"receive:THREAD"`, `"interrupt:NAME"`, `"expect:COMPONENT.NAME"`, `"device:NAME"`, `"port:NAME"`, `"component:NAME"`, `"quota"`, `"program:NAME"`, `"scheduler:NAME"`, `"threads:SCHEDULER"`,
        /// `"thread:NAME"`, `"thread:COMPONENT.NAME"`, `"tcap:THREAD"`, `"server:NAME"`, `"band:NAME"`, `"empty:COUNT"`, `"accounts"` or `"wire:PORT.NAME"`; a list fills slots one after the other.
        bind: Option<Located<Bindings>>,
        /// How threads of others come in; needed when others call it.
        callers: Option<Located<Callers>>,
        /// Who controls a thread that came in may abort its call; default false.
        abortable: Option<Located<bool>>,
        /// What a fault of a caller inside comes to; default `return`.
        on_fault: Option<Located<OnFault>>,
        /// Signal that is sent when it faults, `"COMPONENT.SIGNAL"`; that component may begin it again. Without one the kernel prints a line.
        supervisor: Option<Located<String>>,
        /// Threads inside may use floating-point registers. Without it their use is a fault, and a program that has such instructions is refused; an explicit `false` says that it
        /// is meant to be a fault.
        floating_point: Option<Located<bool>>,
        /// Memory of the pool that it may give out, whole pages.
        quota: Option<Located<Size>>,
        /// How many processes it may have at once, each with a thread; those of its processes among them. Default 0.
        processes: Option<Located<u64>>,
        /// Ends of channels of the partition that it has, alone; its program names them (`"port:NAME"`). The board has none.
        #[schemars(default)]
        ports: Vec<Located<String>>,
        /// How many notifications its program lets pass, by the names that the program has for its ways.
        #[schemars(default)]
        limits: Vec<Located<Limit>>,
    }
}

table! {
    /// A limit: a number of notifications that pass in each window of an absolute grid.
    pub struct Limit {
        /// Name of the way in the program: `way_0` and `way_1` of `chaosrt.elf`.
        name: Located<String>,
        /// Notifications that pass in a window, at most 65,535; 0 for no limit.
        events: Located<u64>,
        /// Length of a window.
        window: Located<Duration>,
    }
}

table! {
    /// A thread of a component. It starts at the program's entry.
    pub struct Thread {
        /// Name, unique in its component.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Server that pays for it.
        server: Option<Located<String>>,
        /// Scheduler whose it is; default the one that holds its server.
        scheduler: Option<Located<String>>,
        /// Of a scheduler's thread: the permanent number of its temporal capability for that scheduler. The smallest is the most important; default 2. The thread
        /// that takes the events of the scheduler which holds the server has 1.
        #[schemars(range(min = 1, max = 0xffff_ffff_ffff_u64))]
        priority: Option<Located<u64>>,
        /// Number that its program is started with; default 0.
        argument: Option<Located<u64>>,
        /// Its stack; default `"16 KiB"`.
        stack: Option<Located<Size>>,
    }
}

table! {
    /// Where one thread is told what has happened: up to 64 signals, which have names.
    pub struct EndPoint {
        /// Thread that takes them; it has one end point.
        thread: Located<String>,
        /// Names of the signals, unique in the component; the first one is bit 0.
        #[schemars(length(min = 1, max = 64))]
        signals: Located<Vec<Located<String>>>,
        /// Who may send to it may give it time, on which its thread then runs; default false.
        takes_time: Option<Located<bool>>,
    }
}

table! {
    /// An interrupt of a component.
    pub struct Interrupt {
        /// Name of one of its devices, of one of its ports that is read and has a doorbell, or `periodic` for the kernel's second timer.
        name: Located<String>,
        /// Signal of one of the component's end points that it sets.
        signal: Located<String>,
        /// Of `periodic`: how often.
        period: Option<Located<Duration>>,
    }
}

table! {
    /// How threads of others come in.
    pub struct Callers {
        /// How many can be inside at once.
        #[schemars(range(min = 1, max = MAX_STACKS))]
        stacks: Located<u64>,
        /// Bytes of the stack that each of them gets, whole pages.
        bytes: Located<Size>,
        /// Time that a caller must have in hand to come in.
        needs: Option<Located<Duration>>,
    }
}

/// Names, and what each of them leads to; one name several times for slots that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(pub Vec<(Located<String>, Located<String>)>);

impl Decode for Bindings {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        let table = as_table(value, key, reader)?;
        let mut bindings = Vec::new();
        for (name, target) in table.iter() {
            let function = Located { value: name.get_ref().to_string(), span: reader.span(name) };
            if let DeValue::Array(_) = target.get_ref() {
                let targets = Vec::<Located<String>>::decode(target, &function.value, reader);
                bindings.extend(targets.into_iter().flatten().map(|target| (function.clone(), target)));
            } else if let Some(target) = Located::decode(target, &function.value, reader) {
                bindings.push((function, target));
            }
        }
        // In the order of the text: a table has none.
        bindings.sort_by_key(|(function, target)| (function.span.start, target.span.start));
        Some(Self(bindings))
    }
}

impl JsonSchema for Bindings {
    fn schema_name() -> Cow<'static, str> {
        "Bindings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "Names, and what each of them leads to.",
            "type": "object",
            "additionalProperties": { "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ] },
        })
    }
}
