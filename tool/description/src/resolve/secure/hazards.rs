//! What is accepted below a payload, and what a reader of the description ought to know of it.

use crate::code::Code;
use crate::description::ImageKind;
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::resolve::partition::{is_direct, is_trusted, span};
use crate::secure::Secure;
use bulkhead_arm::Intid;
use bulkhead_plan::model::SecureFacts;

impl Resolver<'_> {
    /// Warns of an untrusted guest with direct interrupts beside a shared interrupt of the payload: its ends of interrupts are not filtered, so it
    /// takes the active state of any (attack A12).
    pub(super) fn foreign_ends(&mut self, secure: &Secure, facts: &SecureFacts, payloads: Option<&[u32]>) {
        let description = self.description;
        let is_shared = |intid: &&u32| **intid >= Intid::FIRST_SHARED;
        let Some(intid) = payloads.into_iter().flatten().find(is_shared).copied() else { return };
        let thief = description.partition.iter().find(|one| is_direct(one) && !is_trusted(one));
        let Some(thief) = thief else { return };
        let device = facts.devices().find(|device| device.intid == Some(intid)).map(|device| device.name.as_str());
        let named = secure.devices.iter().find(|one| Some(one.value.as_str()) == device).map(|one| one.span);
        let listed = secure.interrupts.iter().find(|one| one.intid().value == u64::from(intid)).map(|one| one.span);
        let whose = named.or(listed).unwrap_or(secure.payload.span);
        let name = thief.name.value.as_str();
        let message = format!("partition `{name}` can end interrupt {intid}, which is the payload's");
        let why = "the end that a guest with direct interrupts writes takes the active state of any shared interrupt; one that its device still asserts \
                   comes once more, though never inside its own handler";
        let diagnostic = Diagnostic::new(Code::ForeignEnds, message)
            .at(
                span(&thief.interrupts).unwrap_or(thief.name.span),
                "ends interrupts without the monitor, and is not trusted",
            )
            .at(whose, format!("has interrupt {intid}"))
            .note(why);
        self.push(diagnostic.help(
            "let the payload make its device quiet before it ends an interrupt of it, and take one that comes for nothing; or write `interrupts = \"mapped\"`",
        ));
    }

    /// Warns of guests that may send what is EL3's. Linux's kernel sends 0 to 7.
    pub(super) fn sgi_of_kicks(&mut self) {
        let description = self.description;
        let may_send = |kind| kind != ImageKind::Linux;
        let several = description.partition.iter().filter(|one| one.cores.len() > 1 && may_send(one.image.kind.value));
        for partition in several {
            let name = partition.name.value.as_str();
            let message = format!("partition `{name}` has no software-generated interrupt 8 below a payload");
            let diagnostic = Diagnostic::new(Code::SgiOfKicks, message)
                .at(partition.cores.span, "interrupt each other with 0 to 7 and 9 to 14")
                .note("EL3 brings cores to their monitor with it; what a guest sends of it is counted and goes nowhere, as 15 does");
            self.push(diagnostic.help("let its program use another number; stock Linux uses 0 to 7"));
        }
    }
}
