//! The roles of a demonstration: who must be there, and which of them must share a core, so that what it says at its end can be true.

use super::Resolver;
use super::partition::{is_direct, is_trusted};
use crate::code::Code;
use crate::decode::Located;
use crate::description::{DEVICE_ROLES, ImageKind, OPTIONAL_ROLE, OnFault, Partition, ROLES};
use crate::diagnostic::Diagnostic;
use crate::secure::{Secure, WorldServer};

/// The partition whose core is looked at in a run of its own.
const SHARING_ROLE: &str = "rtos";

impl Resolver<'_> {
    /// Checks that a system which says that it is a demonstration has the roles.
    pub(crate) fn roles(&mut self) {
        let description = self.description;
        let Some(key) = description.demonstration.as_ref().filter(|state| state.value) else { return };
        if description.secure.is_some() {
            return self.roles_below(key);
        }
        // The roles there are components of an instance, and they are those that keep the numbers which it is judged by.
        if description.partition.iter().any(|one| one.image.kind.value == ImageKind::Kernel) {
            return;
        }
        let named = |name: &str| description.partition.iter().find(|partition| partition.name.value == name);
        let has_devices = !description.virtio.is_empty();
        let roles = if has_devices { DEVICE_ROLES } else { ROLES };
        for role in roles {
            if named(role).is_none() {
                let message = format!("the demonstration has no partition `{role}`");
                let known = roles.iter().map(|role| format!("`{role}`")).collect::<Vec<_>>().join(", ");
                self.push(Diagnostic::new(Code::RoleMissing, message).at(key.span, "asked for here").help(format!(
                    "a demonstration is about {known}; without `demonstration` the system runs as any other"
                )));
            }
        }
        if has_devices {
            return;
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

/// Partitions that a demonstration below a payload is about, each with what it is to be there.
const ROLES_BELOW: [(&str, &str); 3] = [
    ("control", "is on the payload's core"),
    ("linux", "has two cores or more"),
    ("intruder", "has `interrupts = \"direct\"`, a `watchdog`, a `health` that restarts it, and nobody's trust"),
];

fn restarts(partition: &Partition) -> bool {
    partition.health.as_ref().is_some_and(|health| health.on_fault.value == OnFault::Restart)
}

impl Resolver<'_> {
    /// States whether a partition with the name of a role below a payload is what [`ROLES_BELOW`] says.
    fn plays_below(&self, one: &Partition) -> bool {
        match one.name.value.as_str() {
            "control" => self.is_below_payload(one),
            "linux" => one.cores.len() > 1,
            _ => is_direct(one) && !is_trusted(one) && one.watchdog.is_some() && restarts(one),
        }
    }

    /// The roles below a payload.
    fn roles_below(&mut self, key: &Located<bool>) {
        let description = self.description;
        let known = ROLES_BELOW.map(|(role, _)| format!("`{role}`")).join(", ");
        for (role, is_what) in ROLES_BELOW {
            match description.partition.iter().find(|partition| partition.name.value == role) {
                None => {
                    let message = format!("the demonstration has no partition `{role}`");
                    let help = format!(
                        "below a payload it is about {known}; without `demonstration` the system runs as any other"
                    );
                    self.push(Diagnostic::new(Code::RoleMissing, message).at(key.span, "asked for here").help(help));
                }
                Some(one) if !self.plays_below(one) => {
                    let message = format!("partition `{role}` of the demonstration is not what it is about");
                    let help = format!("below a payload `{role}` {is_what}");
                    self.push(Diagnostic::new(Code::RoleMissing, message).at(one.name.span, "").help(help));
                }
                Some(_) => {}
            }
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
