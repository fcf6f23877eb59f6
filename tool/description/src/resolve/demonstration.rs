//! The roles of a demonstration: who must be there, and which of them must share a core, so that what it says at its end can be true.

use super::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::description::{OPTIONAL_ROLE, Partition, ROLES};
use crate::diagnostic::Diagnostic;
use crate::secure::{Secure, WorldServer};

/// The partition whose core is looked at in a run of its own.
const SHARING_ROLE: &str = "rtos";

impl Resolver<'_> {
    /// Checks that a system which says that it is a demonstration has the roles.
    pub(crate) fn roles(&mut self) {
        let description = self.description;
        let Some(key) = description.demonstration.as_ref().filter(|state| state.value) else { return };
        let named = |name: &str| description.partition.iter().find(|partition| partition.name.value == name);
        for role in ROLES {
            if named(role).is_none() {
                let message = format!("the demonstration has no partition `{role}`");
                let known = ROLES.map(|role| format!("`{role}`")).join(", ");
                self.push(Diagnostic::new(Code::RoleMissing, message).at(key.span, "asked for here").help(format!(
                    "a demonstration is about {known}; without `demonstration` the system runs as any other"
                )));
            }
        }
        let Some(sharing) = named(SHARING_ROLE) else { return };
        let core = only_core(sharing);
        let is_shared =
            core.is_some_and(|core| description.schedule.iter().any(|schedule| schedule.core.value == core));
        if !is_shared {
            let message = format!("partition `{SHARING_ROLE}` of the demonstration shares no core");
            let help = "give it one core, and that core a `[[schedule]]`: what the others can take from it is part of the story";
            self.push(Diagnostic::new(Code::RoleMissing, message).at(sharing.name.span, "").help(help));
        } else if let Some(other) = named(OPTIONAL_ROLE).filter(|other| only_core(other) != core) {
            let message =
                format!("partition `{OPTIONAL_ROLE}` of the demonstration is not on the core of `{SHARING_ROLE}`");
            self.push(
                Diagnostic::new(Code::RoleMissing, message)
                    .at(other.name.span, "")
                    .help(format!("give it the core of `{SHARING_ROLE}`, or another name")),
            );
        }
    }
}

/// Checks that a system with a secure section which says that it is a demonstration has a world below, and what makes its delay
/// less than without.
pub(super) fn of_worlds(resolver: &mut Resolver<'_>, secure: &Secure) {
    let Some(key) = resolver.description.demonstration.as_ref().filter(|state| state.value) else { return };
    let is_urgent = |server: &Located<WorldServer>| !server.interrupts.is_empty();
    let missing = if secure.non_secure.is_none() {
        "no world below the payload"
    } else if !secure.servers.iter().any(is_urgent) {
        "no server with `interrupts`"
    } else if secure.servers.iter().all(is_urgent) {
        "no server without `interrupts`"
    } else {
        return;
    };
    let message = format!("the demonstration has {missing}");
    resolver.push(Diagnostic::new(Code::RoleMissing, message).at(key.span, "asked for here").help(
        "it compares how long Linux waits with a server that its interrupts wake, and without; leave `demonstration` out to run the system as any other",
    ));
}

/// The core of a partition with one.
fn only_core(partition: &Located<Partition>) -> Option<u64> {
    match partition.cores.as_slice() {
        [core] => Some(core.value),
        _ => None,
    }
}
