//! What servers say about each other: payers and clients. All servers are resolved by themselves before.

use super::Resolver;
use super::server::Servers;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::sharing::{Gate, Server};
use bulkhead_abi::schedule::MAX_SERVER_CLIENTS;
use bulkhead_plan::model::{self, ServerReference};
use bulkhead_plan::ticks;

/// Servers by partition, each by itself.
type Drafts = [Vec<Option<model::Server>>];

/// A client that was found: where it is named, its period and its priority.
type Client<'d> = (&'d Located<String>, u64, u8);

impl<'r> Resolver<'r> {
    /// Adds payers and clients, and checks what depends on them.
    pub(super) fn references(&mut self, drafts: &Drafts) -> Servers {
        let mut servers = Vec::new();
        for (partition, own) in drafts.iter().enumerate() {
            let mut resolved = Vec::new();
            for (server, draft) in own.iter().enumerate() {
                let own = ServerReference { partition, server };
                resolved.push(draft.clone().and_then(|draft| self.with_references(drafts, own, draft)));
            }
            servers.push(resolved.into_iter().collect());
        }
        servers
    }

    fn written(&self, reference: ServerReference) -> Option<&'r Located<Server>> {
        self.description.partition.get(reference.partition)?.servers.get(reference.server)
    }

    /// The core of a server's vCPU.
    fn core_of(&self, drafts: &Drafts, reference: ServerReference) -> Option<u64> {
        let vcpu = drafts.get(reference.partition)?.get(reference.server)?.as_ref()?.vcpu;
        self.description.partition.get(reference.partition)?.cores.get(vcpu).map(|core| core.value)
    }

    fn with_references(
        &mut self,
        drafts: &Drafts,
        own: ServerReference,
        mut draft: model::Server,
    ) -> Option<model::Server> {
        let written = self.written(own)?;
        if let Some(share) = draft.rule.share() {
            let (names, list) = self.pibs_clients(drafts, own, written)?;
            let lowest = list.iter().map(|(_, _, priority)| *priority).max()?;
            self.background_behind(written, lowest, draft.on_empty);
            let shortest = list.iter().map(|(_, period_ns, _)| *period_ns).min()?;
            let grant = u128::from(shortest) * u128::from(share.0) / u128::from(share.1);
            let grant_ns = u64::try_from(grant).unwrap_or(u64::MAX);
            if ticks::round_down(grant_ns, self.board.board.counter_hz) == 0 {
                let message = "this share of the shortest period of a client is nothing";
                let place = written.share.as_ref().map_or(written.span, |share| share.span);
                self.push(Diagnostic::new(Code::BadShare, message).at(place, "a larger one is needed"));
                return None;
            }
            let (limit, least_charge_ns) = self.minimum(written, grant_ns, "a grant")?;
            draft.rule.set_clients(names, limit);
            draft.least_charge_ns = least_charge_ns;
        } else if let Some(name) = &written.payer {
            draft.payer = Some(self.payer(drafts, own, written, name)?);
        }
        Some(draft)
    }

    fn payer(
        &mut self,
        drafts: &Drafts,
        own: ServerReference,
        written: &Located<Server>,
        name: &Located<String>,
    ) -> Option<ServerReference> {
        let found = self.find_server(name)?;
        let donor = self.written(found)?;
        let mut refuse = |message: &str, label: &str, help: &str| {
            let diagnostic = Diagnostic::new(Code::BadPayer, format!("`{}` {message}", name.value)).at(name.span, "");
            self.push(diagnostic.at(donor.span, label).help(help));
            None
        };
        if found == own {
            return refuse("is this server itself", "pays for itself anyway", "remove `payer`");
        }
        if let Some(payer) = &donor.payer {
            let help = format!("name `{}` here: whose budget is spent must not depend on a chain", payer.value);
            return refuse("does not pay for itself", "lets another pay", &help);
        }
        if donor.rule.as_ref().is_some_and(|rule| rule.value.serves_clients()) {
            return refuse("works for clients", "its time belongs to them", "name one of its clients here");
        }
        // A payer with a mistake of its own is reported already.
        drafts.get(found.partition)?.get(found.server)?.as_ref()?;
        let (here, there) = (self.core_of(drafts, own)?, self.core_of(drafts, found)?);
        if here != there {
            let message = format!("`{}` is on core {there}, this server on core {here}", name.value);
            let diagnostic = Diagnostic::new(Code::BadPayer, message).at(name.span, "").at(donor.span, "is there");
            self.push(diagnostic.help("a core pays with its own time: name a server of the same core"));
            return None;
        }
        let is_gated = written.gate.as_ref().is_some_and(|gate| gate.value == Gate::Interrupt);
        let is_unlimited = donor.budget.is_none();
        if is_gated && is_unlimited {
            self.open_gate(written, Some(donor));
            return None;
        }
        Some(found)
    }

    /// Finds the clients of a PIBS server.
    fn pibs_clients(
        &mut self,
        drafts: &Drafts,
        own: ServerReference,
        written: &'r Located<Server>,
    ) -> Option<(Vec<ServerReference>, Vec<Client<'r>>)> {
        let names = written.clients.as_ref()?;
        if let Some(extra) = names.get(MAX_SERVER_CLIENTS) {
            let message = format!("a PIBS server can have {MAX_SERVER_CLIENTS} clients, not {}", names.len());
            self.push(
                Diagnostic::new(Code::BadClient, message)
                    .at(extra.span, "the first one too many")
                    .help("use one server for each class of periods"),
            );
            return None;
        }
        let found: Vec<Option<(ServerReference, Client<'r>)>> =
            names.iter().map(|name| self.pibs_client(drafts, own, name)).collect();
        let found: Vec<(ServerReference, Client<'r>)> = found.into_iter().collect::<Option<_>>()?;
        let (references, mut list): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        list.sort_by_key(|(_, period_ns, priority)| (*period_ns, *priority));
        for pair in list.windows(2) {
            if let [(shorter, short_ns, first), (longer, long_ns, second)] = pair
                && short_ns < long_ns
                && first > second
            {
                let message = format!(
                    "client `{}` has a longer period than `{}` and is more important",
                    longer.value, shorter.value
                );
                let diagnostic = Diagnostic::new(Code::BadClient, message)
                    .at(longer.span, format!("priority {second}"))
                    .at(shorter.span, format!("priority {first}"))
                    .note("the server works at the priority of the waiting client with the shortest period");
                self.push(diagnostic.help("give shorter periods the more important priorities, or use two servers"));
                return None;
            }
        }
        Some((references, list))
    }

    fn pibs_client(
        &mut self,
        drafts: &Drafts,
        own: ServerReference,
        name: &'r Located<String>,
    ) -> Option<(ServerReference, Client<'r>)> {
        let found = self.find_server(name)?;
        // A client with a mistake of its own is reported already.
        let draft = drafts.get(found.partition)?.get(found.server)?.as_ref()?;
        let there = self.written(found)?.span;
        let Some((_, period_ns)) = draft.rule.budget_and_period_ns() else {
            let message = format!("`{}` has no budget and no period", name.value);
            let diagnostic = Diagnostic::new(Code::BadClient, message).at(name.span, "").at(there, "this server");
            self.push(diagnostic.note("the grant of a PIBS server is its share of a client's period"));
            return None;
        };
        let (here_core, there_core) = (self.core_of(drafts, own)?, self.core_of(drafts, found)?);
        if here_core != there_core {
            let message = format!("`{}` is on core {there_core}, this server on core {here_core}", name.value);
            let diagnostic = Diagnostic::new(Code::BadClient, message).at(name.span, "").at(there, "is there");
            self.push(diagnostic.help("put driver and clients on one core"));
            return None;
        }
        Some((found, (name, period_ns, draft.priority)))
    }
}
