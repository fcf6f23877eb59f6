//! Servers: what the vCPUs of shared cores ask for. Rules are in `rule`, payers and clients in `reference`.

use super::Resolver;
use super::partition::span;
use crate::code::Code;
use crate::decode::Located;
use crate::description::Partition;
use crate::diagnostic::Diagnostic;
use crate::sharing::{Gate, OnEmpty, Schedule, ScheduleKind, Server};
use crate::suggest;
use bulkhead_abi::schedule::MAX_CORE_SERVERS;
use bulkhead_plan::model;
use bulkhead_plan::sharing::MAX_VCPU_SERVERS;

/// Servers of every partition; `None` where one of its servers cannot be resolved.
pub(super) type Servers = Vec<Option<Vec<model::Server>>>;

impl<'r> Resolver<'r> {
    /// Resolves the servers of every partition.
    pub(super) fn servers(&mut self) -> Servers {
        let description = self.description;
        for partition in &description.partition {
            self.count_servers(partition);
        }
        self.count_servers_of_cores();
        let drafts: Vec<Vec<Option<model::Server>>> = description
            .partition
            .iter()
            .map(|partition| partition.servers.iter().map(|server| self.server(partition, server)).collect())
            .collect();
        self.references(&drafts)
    }

    /// Checks that each vCPU of a core with priorities has 1 to 4 servers.
    fn count_servers(&mut self, partition: &Partition) {
        for (vcpu, core) in partition.cores.iter().enumerate() {
            let Some(schedule) = self.schedule_of(core.value) else { continue };
            if schedule.kind.value == ScheduleKind::RoundRobin {
                continue;
            }
            let own: Vec<&Located<Server>> =
                partition.servers.iter().filter(|one| vcpu_of(one) == vcpu as u64).collect();
            let what = format!("vCPU {vcpu} of partition `{}`", partition.name.value);
            if own.is_empty() {
                let message = format!("{what} has no server on core {}", core.value);
                let diagnostic = Diagnostic::new(Code::NoServer, message)
                    .at(core.span, "would never run")
                    .at(schedule.kind.span, "this core is given by servers");
                self.push(
                    diagnostic
                        .help("for example `servers = [{ priority = 1, budget = \"2 ms\", period = \"10 ms\" }]`"),
                );
            }
            if let Some(extra) = own.get(MAX_VCPU_SERVERS) {
                let message = format!("{what} has {} servers and can have {MAX_VCPU_SERVERS}", own.len());
                self.push(Diagnostic::new(Code::TooManyServers, message).at(extra.span, "the first one too many"));
            }
        }
    }

    fn count_servers_of_cores(&mut self) {
        let description = self.description;
        for schedule in &description.schedule {
            let core = schedule.core.value;
            let here = |partition: &&'r Located<Partition>, server: &Located<Server>| {
                let vcpu = usize::try_from(vcpu_of(server)).ok();
                vcpu.and_then(|vcpu| partition.cores.get(vcpu)).is_some_and(|one| one.value == core)
            };
            let all: Vec<&Located<Server>> = description
                .partition
                .iter()
                .flat_map(|partition| partition.servers.iter().filter(move |server| here(&partition, server)))
                .collect();
            if let Some(extra) = all.get(MAX_CORE_SERVERS) {
                let message = format!("core {core} has {} servers and can have {MAX_CORE_SERVERS}", all.len());
                self.push(
                    Diagnostic::new(Code::TooManyServers, message)
                        .at(extra.span, "the first one too many")
                        .at(schedule.core.span, "on this core"),
                );
            }
        }
    }

    /// Resolves a server by itself; payer and clients follow when all servers are known.
    fn server(&mut self, partition: &'r Partition, server: &'r Located<Server>) -> Option<model::Server> {
        let vcpu = self.server_vcpu(partition, server)?;
        let schedule = self.server_schedule(partition, server, vcpu)?;
        let gate = self.gate(partition, server, schedule);
        let with_clients = server.rule.as_ref().map(|rule| rule.value).filter(|rule| rule.serves_clients());
        let priority = if let Some(rule) = with_clients {
            let beside = format!("`rule = \"{}\"`, whose clients decide", rule.name());
            self.does_not_apply(span(&server.priority), "priority", &beside);
            Some(0)
        } else {
            let priority = self.needed(&server.priority, "priority", server.span, "a server");
            priority.and_then(|priority| self.priority(priority))
        };
        let rule = self.rule(partition, server, gate?);
        let on_empty = self.on_empty(server);
        let (priority, gate, (rule, least_charge_ns), on_empty) = (priority?, gate?, rule?, on_empty?);
        if with_clients.is_none() {
            self.background_behind(server, priority, on_empty);
        }
        if let (model::Gate::Interrupt { .. }, model::BudgetRule::Unlimited, None) = (gate, &rule, &server.payer) {
            self.open_gate(server, None);
        }
        Some(model::Server { vcpu, priority, rule, gate, payer: None, on_empty, least_charge_ns })
    }

    fn server_vcpu(&mut self, partition: &Partition, server: &Located<Server>) -> Option<usize> {
        let count = partition.cores.len();
        let vcpu = usize::try_from(vcpu_of(server)).ok().filter(|vcpu| *vcpu < count);
        if vcpu.is_none() {
            let message = format!("partition `{}` has no vCPU {}", partition.name.value, vcpu_of(server));
            let label = format!("it has {count}, numbered from 0");
            let place = span(&server.vcpu).unwrap_or(server.span);
            self.push(
                Diagnostic::new(Code::UnknownVcpu, message).at(place, label).at(partition.cores.span, "one for each"),
            );
        }
        vcpu
    }

    /// Checks that the vCPU runs on a core that is given by servers.
    fn server_schedule(
        &mut self,
        partition: &Partition,
        server: &Located<Server>,
        vcpu: usize,
    ) -> Option<&'r Located<Schedule>> {
        let core = partition.cores.get(vcpu)?;
        let what = format!("a server of vCPU {vcpu} of partition `{}`", partition.name.value);
        match self.schedule_of(core.value) {
            None => {
                let message = format!("{what} means nothing: core {} belongs to it alone", core.value);
                let diagnostic = Diagnostic::new(Code::ServerNotHere, message);
                let help =
                    format!("remove it, or share the core by a table `[[schedule]]` with `core = {}`", core.value);
                self.push(diagnostic.at(server.span, "").at(core.span, "has no schedule").help(help));
                None
            }
            Some(schedule) if schedule.kind.value == ScheduleKind::RoundRobin => {
                let message = format!("{what} means nothing: core {} goes round", core.value);
                let diagnostic = Diagnostic::new(Code::ServerNotHere, message);
                let help = "remove it, or choose `kind = \"fixed-priority\"`";
                self.push(diagnostic.at(server.span, "").at(schedule.kind.span, "has no servers").help(help));
                None
            }
            schedule => schedule,
        }
    }

    fn gate(
        &mut self,
        partition: &Partition,
        server: &Located<Server>,
        schedule: &Located<Schedule>,
    ) -> Option<model::Gate> {
        let has_window = schedule.windows.iter().any(|window| window.partition.value == partition.name.value);
        let is_cyclic = schedule.kind.value == ScheduleKind::Cyclic;
        let default = if is_cyclic && has_window { Gate::Window } else { Gate::Always };
        let gate = server.gate.as_ref().map_or(default, |gate| gate.value);
        if gate != Gate::Interrupt {
            let beside = format!("`gate = \"{}\"`", gate.name());
            self.does_not_apply(span(&server.voluntary_return), "voluntary_return", &beside);
        }
        if let Some(written) = server.gate.as_ref().filter(|gate| gate.value == Gate::Window)
            && !(is_cyclic && has_window)
        {
            let name = partition.name.value.as_str();
            let message = format!("no window opens this gate of partition `{name}`");
            let label = match is_cyclic {
                true => "has no window of it",
                false => "has no time table",
            };
            let diagnostic =
                Diagnostic::new(Code::WindowGate, message).at(written.span, "").at(schedule.kind.span, label);
            self.push(match is_cyclic {
                true => diagnostic.help(format!("add a window with `partition = \"{name}\"`, or remove the gate")),
                false => diagnostic.help("remove the gate, or choose `kind = \"cyclic\"`"),
            });
            return None;
        }
        Some(match gate {
            Gate::Always => model::Gate::Always,
            Gate::Window => model::Gate::Window,
            Gate::Never => model::Gate::Never,
            Gate::Interrupt => model::Gate::Interrupt {
                voluntary_return: server.voluntary_return.as_ref().is_some_and(|state| state.value),
            },
        })
    }

    fn on_empty(&mut self, server: &Located<Server>) -> Option<model::OnEmpty> {
        let word = server.on_empty.as_ref().map_or(OnEmpty::Stop, |word| word.value);
        if word != OnEmpty::Background {
            let beside = format!("`on_empty = \"{}\"`", word.name());
            self.does_not_apply(span(&server.background_priority), "background_priority", &beside);
        }
        match word {
            OnEmpty::Stop => Some(model::OnEmpty::Stop),
            OnEmpty::Notify => Some(model::OnEmpty::Notify),
            OnEmpty::Background => {
                let place = span(&server.on_empty).unwrap_or(server.span);
                let number = self.needed(&server.background_priority, "background_priority", place, "a background")?;
                self.priority(number).map(model::OnEmpty::Background)
            }
        }
    }

    /// Checks that a background priority is less important than `lowest`.
    pub(super) fn background_behind(&mut self, server: &Server, lowest: u8, on_empty: model::OnEmpty) {
        let (model::OnEmpty::Background(background), Some(written)) = (on_empty, &server.background_priority) else {
            return;
        };
        if background > lowest {
            return;
        }
        let message = format!("background priority {background} is not behind {lowest}");
        let own = span(&server.priority).or(span(&server.clients)).unwrap_or(written.span);
        let diagnostic = Diagnostic::new(Code::BadBackground, message)
            .at(written.span, format!("expected more than {lowest}"))
            .at(own, "with budget")
            .note("a server without budget must give way to everybody who has some");
        self.push(diagnostic.help("larger numbers are less important; 63 is the last"));
    }

    /// Reports an interrupt gate that nothing bounds.
    pub(super) fn open_gate(&mut self, server: &Located<Server>, payer: Option<&Located<Server>>) {
        let place = span(&server.gate).unwrap_or(server.span);
        let mut diagnostic = Diagnostic::new(Code::OpenGate, "an interrupt gate without a budget")
            .at(place, "opens with the first interrupt");
        if let Some(payer) = payer {
            diagnostic = diagnostic.at(payer.span, "pays, and has no limit");
        }
        let why = "a guest that never ends its interrupt would keep the gate open and the core for ever";
        self.push(diagnostic.note(why).help("for example `budget = \"1 ms\", period = \"20 ms\"`"));
    }

    /// Finds a server by `partition` (its first one with a budget) or `partition.server`.
    pub(super) fn find_server(&mut self, name: &Located<String>) -> Option<model::ServerReference> {
        let description = self.description;
        let (partition_name, server_name) = match name.split_once('.') {
            Some((partition, server)) => (partition, Some(server)),
            None => (name.as_str(), None),
        };
        let found = description.partition.iter().enumerate().find(|(_, one)| one.name.value == partition_name);
        let Some((partition, written)) = found else {
            let names = description.partition.iter().map(|one| one.name.as_str());
            let rest = server_name.map_or_else(String::new, |server| format!(".{server}"));
            let meant = suggest::closest(partition_name, names).map(|meant| format!("{meant}{rest}"));
            self.unknown_server(name, format!("there is no partition `{partition_name}`"), meant);
            return None;
        };
        let place = match server_name {
            None => written.servers.iter().position(|server| server.budget.is_some()),
            Some(server_name) => written
                .servers
                .iter()
                .position(|server| server.name.as_ref().is_some_and(|one| one.value == server_name)),
        };
        let Some(server) = place else {
            let message = match server_name {
                None => format!("partition `{partition_name}` has no server with a budget"),
                Some(server_name) => format!("partition `{partition_name}` has no server `{server_name}`"),
            };
            let names = written.servers.iter().filter_map(|server| server.name.as_ref()).map(|one| one.as_str());
            let meant = server_name.and_then(|word| suggest::closest(word, names));
            self.unknown_server(name, message, meant.map(|meant| format!("{partition_name}.{meant}")));
            return None;
        };
        Some(model::ServerReference { partition, server })
    }

    fn unknown_server(&mut self, name: &Located<String>, message: String, meant: Option<String>) {
        let mut diagnostic = Diagnostic::new(Code::UnknownServer, message).at(name.span, "");
        diagnostic = match meant {
            Some(meant) => diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?")),
            None => diagnostic.help("write `partition`, or `partition.server` for a server with a `name`"),
        };
        self.push(diagnostic);
    }
}

/// The vCPU of a server as written.
fn vcpu_of(server: &Server) -> u64 {
    server.vcpu.as_ref().map_or(0, |vcpu| vcpu.value)
}
