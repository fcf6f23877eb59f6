//! The secure world: payload, the world below, servers, health.
//!
//! What is below is one image, or partitions: then [`hybrid`] asks for these as for those of any other system.

mod channels;
mod hazards;
mod health;
mod hybrid;
mod interrupts;
mod payload;
mod servers;
mod world;

use super::Resolver;
use super::partition::span;
use crate::code::Code;
use crate::decode::Located;
use crate::description::Description;
use crate::diagnostic::Diagnostic;
use crate::secure::{Secure, WorldWindow};
use crate::source::Span;
use crate::spans::{SecureSpans, Spans, TaskSpans, WorldServerSpans};
use bulkhead_abi::PhysicalAddress;
use bulkhead_plan::model::{self, Below, SecureFacts, System};
use bulkhead_world::records::{DEFAULT_RING_RECORDS, RING_RECORDS};

/// Says that a board needs a system with a secure section.
pub(super) fn needed(description: &Description, board: &str) -> Diagnostic {
    let message = format!("`{board}` is entered at EL3, and the system has no section `[secure]`");
    Diagnostic::new(Code::SecureNeeded, message)
        .at(description.board.span, "nothing here would start the partitions")
        .help("for a system of partitions name a board without EL3; for one with two worlds say in `[secure]` what the payload is")
}

/// Says that a board cannot have a system with a secure section.
pub(super) fn impossible(description: &Description, secure: Span, board: &str) -> Diagnostic {
    let message = format!("`{board}` has no secure world for this section");
    let known = super::board::built_in();
    let known: Vec<&str> =
        known.iter().filter(|board| board.secure.is_some()).map(|board| board.name.as_str()).collect();
    Diagnostic::new(Code::NoSecureWorld, message)
        .at(secure, "needs a board that is entered at EL3")
        .at(description.board.span, "this one is entered at EL2")
        .help(format!("built-in boards with `enters_at = \"el3\"`: {}", crate::suggest::list(&known)))
}

/// Resolves a system with a secure section, of which everything that is wrong is reported.
pub(super) fn system(resolver: &mut Resolver<'_>, secure: &Secure, facts: &SecureFacts) -> Option<(System, Spans)> {
    match &secure.non_secure {
        Some(world) if hybrid::has_partitions(world) => hybrid::system(resolver, secure, facts, world),
        _ => with_image(resolver, secure, facts),
    }
}

/// A payload that is alone, or above one image.
fn with_image(resolver: &mut Resolver<'_>, secure: &Secure, facts: &SecureFacts) -> Option<(System, Spans)> {
    let description = resolver.description;
    super::name(&description.name, "system", resolver.report);
    resolver.names_with_secure(secure);
    resolver.not_with_secure(secure);
    resolver.no_floating_point(secure);
    super::demonstration::of_worlds(resolver, secure);
    let memory_bytes = resolver.machine_memory();
    let above = resolver.above(secure, facts);
    let channels = if secure.channel.is_empty() { Some(Vec::new()) } else { resolver.world_channels(secure) };
    let has_wish = secure.latency_tasks.iter().any(|task| task.threads.is_some());
    let reserved_bytes = channels::reserved_bytes(channels.as_deref().unwrap_or_default(), has_wish);
    let below = match &secure.non_secure {
        Some(world) => memory_bytes.and_then(|bytes| resolver.world(world, bytes, reserved_bytes)).map(Below::Image),
        None => Some(Below::Nobody),
    };
    let turns = resolver.turns(secure, &above);
    let health = resolver.world_health(secure);
    if let (Some(payload), Some(Below::Image(world))) = (&above.payload, &below) {
        let image = secure.non_secure.as_ref().and_then(|world| world.image.as_ref());
        let place = image.map_or(secure.memory.span, |image| image.span);
        resolver.flash_fits(secure, facts, payload, (place, world.image.content_bytes()));
    }
    let shared = channels.and_then(|mut channels| {
        let wish = match &below {
            Some(Below::Image(world)) => {
                resolver.place_channels(secure, (&mut channels, has_wish), world, memory_bytes?)?
            }
            _ => None,
        };
        Some((channels, wish))
    });
    // Time is judged of a system without any mistake: what a payload's tasks leave depends on all of it.
    let (trace_enabled, trace_records) = resolver.trace(&RING_RECORDS, DEFAULT_RING_RECORDS);
    let system = System {
        name: description.name.value.clone(),
        board: resolver.board.board.clone(),
        memory_bytes: memory_bytes?,
        trace_records: trace_records?,
        trace_enabled,
        partitions: Vec::new(),
        channels: Vec::new(),
        schedules: Vec::new(),
        functions: Vec::new(),
        virtio: Vec::new(),
        secure: Some(above.with(below?, turns, health?, shared?)?),
        source_hash: [0; 32],
    };
    Some((system, Spans { secure: Some(spans(secure)), ..Spans::default() }))
}

/// What is in the secure world; what could not be resolved is `None`.
struct Above {
    core: Option<usize>,
    payload: Option<model::Payload>,
    devices: Option<Vec<usize>>,
    interrupts: Option<Vec<u32>>,
    tasks: Option<Vec<model::PayloadTask>>,
    handlers: Option<Vec<model::PayloadHandler>>,
}

/// When the world below may run.
struct Turns {
    servers: Option<Vec<model::WorldServer>>,
    windows: Option<Option<model::WorldWindows>>,
}

impl Above {
    /// The whole section; `None` when a part of it could not be resolved.
    fn with(
        self,
        below: Below,
        turns: Turns,
        health: Option<model::WorldHealth>,
        (channels, wish): (Vec<model::WorldChannel>, Option<PhysicalAddress>),
    ) -> Option<model::Secure> {
        Some(model::Secure {
            payload: self.payload?,
            core: self.core?,
            devices: self.devices?,
            interrupts: self.interrupts?,
            tasks: self.tasks?,
            handlers: self.handlers?,
            below,
            servers: turns.servers?,
            windows: turns.windows?,
            health,
            channels,
            wish,
        })
    }
}

fn spans(secure: &Secure) -> SecureSpans {
    let tasks = secure.tasks.iter().map(|task| TaskSpans {
        whole: task.span,
        cost: task.cost.span,
        period: task.period.span,
        deadline: span(&task.deadline),
    });
    let servers = secure.servers.iter().map(|server| WorldServerSpans {
        whole: server.span,
        budget: span(&server.budget),
        period: span(&server.period),
    });
    let latency = secure.latency_tasks.iter().map(|task| WorldServerSpans {
        whole: task.span,
        budget: Some(task.budget.span),
        period: Some(task.period.span),
    });
    let offset =
        |window: &&Located<WorldWindow>| crate::unit::parse_duration(&window.offset.value.0).unwrap_or(u64::MAX);
    let mut windows: Vec<_> = secure.windows.iter().collect();
    windows.sort_by_key(offset);
    let windows = windows.into_iter().map(|window| window.span);
    SecureSpans { tasks: tasks.collect(), servers: servers.chain(latency).collect(), windows: windows.collect() }
}

impl Resolver<'_> {
    /// Resolves what is in the secure world.
    fn above(&mut self, secure: &Secure, facts: &SecureFacts) -> Above {
        let core = self.payload_core(secure);
        let payload = self.payload(secure, facts);
        let devices = self.payload_devices(secure, facts);
        let interrupts = devices.as_ref().and_then(|devices| self.payload_interrupts(secure, facts, devices));
        let tasks: Vec<_> = secure.tasks.iter().map(|task| self.payload_task(task)).collect();
        let handlers: Vec<_> = secure.interrupts.iter().map(|interrupt| self.payload_handler(interrupt)).collect();
        let handlers = handlers.into_iter().collect::<Option<Vec<_>>>();
        let handlers = handlers.map(|all| all.into_iter().flatten().collect());
        Above { core, payload, devices, interrupts, tasks: tasks.into_iter().collect(), handlers }
    }

    /// Resolves when the world below may run.
    fn turns(&mut self, secure: &Secure, above: &Above) -> Turns {
        let servers = self.world_servers(secure, above.interrupts.as_deref().unwrap_or_default());
        Turns { servers, windows: self.world_windows(secure) }
    }

    /// Checks every name of a secure section.
    fn names_with_secure(&mut self, secure: &Secure) {
        let tasks = secure.tasks.iter().map(|task| &task.name);
        let servers = secure.servers.iter().map(|server| &server.name);
        let servers = servers.chain(secure.latency_tasks.iter().map(|task| &task.name));
        // One kind: a server is a task of the payload.
        super::unique_names(tasks.chain(servers), "task", self.report);
        if let Some(name) = secure.non_secure.as_ref().and_then(|world| world.name.as_ref()) {
            super::name(name, "world", self.report);
        }
    }

    /// Refuses what is not built beside a secure section without partitions.
    fn not_with_secure(&mut self, secure: &Secure) {
        let description = self.description;
        let others = [
            ("partition", description.partition.first().map(|one| one.span)),
            ("channel", description.channel.first().map(|one| one.span)),
            ("schedule", description.schedule.first().map(|one| one.span)),
            ("pci", description.pci.first().map(|one| one.span)),
        ];
        for (key, place) in others {
            if let Some(place) = place {
                let message = format!("`{key}` beside a secure section without partitions is not built yet");
                let (written, label) = match &secure.non_secure {
                    Some(world) => (world.span, "an image runs below the payload"),
                    None => (secure.payload.span, "the payload is alone"),
                };
                let diagnostic = Diagnostic::new(Code::NotBuiltYet, message).at(place, "").at(written, label);
                let help = "remove it, or let partitions run below the payload: `non_secure = { partitions = true }`";
                self.push(diagnostic.help(help));
            }
        }
    }

    /// Refuses a payload that says that it has floating-point registers.
    fn no_floating_point(&mut self, secure: &Secure) {
        if let Some(state) = secure.floating_point.as_ref().filter(|state| state.value) {
            let help = "build the payload without floating point, with `-mgeneral-regs-only`";
            self.not_built(state.span, "a payload with floating point", help);
        }
    }

    /// Refuses what the form has a place for and this version does not build.
    fn not_built(&mut self, place: Span, what: &str, help: &str) {
        let message = format!("{what} is not built yet");
        self.push(Diagnostic::new(Code::NotBuiltYet, message).at(place, "").help(help.to_owned()));
    }
}
