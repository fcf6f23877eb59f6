//! Which interrupt belongs to which world.

use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::secure::{PayloadInterrupt, Secure, Urgent, WorldChannel, WorldServer};
use crate::source::Span;
use bulkhead_arm::Intid;
use bulkhead_plan::model::{BoardDevice, PayloadHandler, SecureFacts};

/// Least urgent priority of the secure world, and the distance of two: the other world's begin at 0x80 (IHI 0069, 4.8).
const LAST_SECURE_PRIORITY: u64 = 0x78;
const PRIORITY_STEP: u64 = 8;

/// Timers of the non-secure world, and its maintenance interrupt.
const NON_SECURE_PRIVATE: [Intid; 4] =
    [Intid::MAINTENANCE, Intid::HYPERVISOR_TIMER, Intid::VIRTUAL_TIMER, Intid::PHYSICAL_TIMER];

impl Resolver<'_> {
    /// The payload's INTIDs, ascending.
    pub(super) fn payload_interrupts(
        &mut self,
        secure: &Secure,
        facts: &SecureFacts,
        devices: &[usize],
    ) -> Option<Vec<u32>> {
        let mut intids: Vec<u32> = vec![facts.timer];
        intids.extend(devices.iter().filter_map(|place| facts.devices().nth(*place)?.intid));
        let mut written: Vec<(u32, Span)> = Vec::new();
        let mut is_good = true;
        for interrupt in &secure.interrupts {
            is_good &= self.secure_priority(interrupt);
            let Some(intid) = self.payload_interrupt(interrupt.intid(), facts) else {
                is_good = false;
                continue;
            };
            if let Some((_, first)) = written.iter().find(|(other, _)| *other == intid) {
                let message = format!("interrupt {intid} is given twice");
                self.push(
                    Diagnostic::new(Code::InterruptTwice, message).at(interrupt.span, "here").at(*first, "and here"),
                );
                is_good = false;
            }
            written.push((intid, interrupt.span));
        }
        intids.extend(written.iter().map(|(intid, _)| *intid));
        intids.sort_unstable();
        intids.dedup();
        is_good.then_some(intids)
    }

    /// An INTID that the description gives to the payload: nobody else's.
    fn payload_interrupt(&mut self, written: &Located<u64>, facts: &SecureFacts) -> Option<u32> {
        let board = &self.board.board;
        let last = u64::from(Intid::FIRST_SHARED + board.shared_interrupts - 1);
        let intid = u32::try_from(written.value)
            .ok()
            .filter(|intid| (Intid::SOFTWARE_END..Intid::FIRST_SPECIAL).contains(intid) && u64::from(*intid) <= last);
        let Some(intid) = intid else {
            let message = format!("{} is no interrupt of the board", written.value);
            let label = format!("expected {} to {last}", Intid::SOFTWARE_END);
            self.push(Diagnostic::new(Code::InterruptOfBoth, message).at(written.span, label));
            return None;
        };
        if intid == facts.timer || facts.devices().any(|device| device.intid == Some(intid)) {
            return Some(intid);
        }
        let spare = board.spare_interrupts.contains(&intid);
        let owner = self.non_secure_owner(intid);
        if owner.is_none() && spare {
            return Some(intid);
        }
        // A line of the PCI bus, say, or of the performance counters: no file names it, and the other world raises it as often as it likes.
        let owner = owner.unwrap_or_else(|| String::from("nobody that is known, and is no spare one of the board"));
        let message = format!("interrupt {intid} would be one of both worlds");
        let diagnostic =
            Diagnostic::new(Code::InterruptOfBoth, message).at(written.span, format!("belongs to {owner}"));
        self.push(diagnostic.note("each interrupt has one group, and with it one world").help("leave it out"));
        None
    }

    /// Who has an INTID in the non-secure world, if anybody has.
    fn non_secure_owner(&self, intid: u32) -> Option<String> {
        let board = &self.board.board;
        if NON_SECURE_PRIVATE.contains(&Intid(intid)) {
            return Some(String::from("a timer of the non-secure world, or its maintenance interrupt"));
        }
        if board.uart.is_some_and(|uart| uart.intid == intid) {
            return Some(format!(
                "the console `{}` of the non-secure world",
                self.board.uart_name.as_deref().unwrap_or("uart")
            ));
        }
        let channels = self.description.secure.iter().flat_map(|secure| &secure.channel);
        let of_channel = |channel: &&Located<WorldChannel>| {
            channel.interrupt.as_ref().is_some_and(|interrupt| interrupt.value == u64::from(intid))
        };
        if let Some(channel) = channels.into_iter().find(of_channel) {
            return Some(format!("the channel `{}`", channel.name.value));
        }
        let has = |device: &&BoardDevice| device.interrupts.iter().any(|interrupt| interrupt.intid == intid);
        board.devices.iter().find(has).map(|device| format!("`{}`, a device of the non-secure world", device.name))
    }

    /// What is known of the time of an interrupt's handler.
    pub(super) fn payload_handler(&mut self, interrupt: &PayloadInterrupt) -> Option<Option<PayloadHandler>> {
        let PayloadInterrupt::Table(table) = interrupt else { return Some(None) };
        let (cost, period) = match (&table.cost, &table.period) {
            (None, None) => return Some(None),
            (Some(cost), Some(period)) => (cost, period),
            (Some(cost), None) => {
                self.needed(&table.period, "period", cost.span, "the cost of a handler")?;
                return None;
            }
            (None, Some(period)) => {
                self.does_not_apply(Some(period.span), "period", "an interrupt without `cost`");
                return None;
            }
        };
        let (cost_ns, period_ns) = (self.duration(cost), self.duration(period));
        let (cost_ns, period_ns) = (cost_ns?, period_ns?);
        if cost_ns == 0 || cost_ns > period_ns {
            let message = String::from("a handler takes some of the time between two interrupts");
            self.push(
                Diagnostic::new(Code::BadTask, message)
                    .at(cost.span, "takes this")
                    .at(period.span, "and comes as often"),
            );
            return None;
        }
        let intid = u32::try_from(table.intid.value).ok()?;
        Some(Some(PayloadHandler { intid, cost_ns, period_ns }))
    }

    fn secure_priority(&mut self, interrupt: &PayloadInterrupt) -> bool {
        let PayloadInterrupt::Table(table) = interrupt else { return true };
        let Some(priority) = &table.priority else { return true };
        let is_good = priority.value <= LAST_SECURE_PRIORITY && priority.value.is_multiple_of(PRIORITY_STEP);
        if !is_good {
            let message = format!("{:#x} is no priority of the secure world", priority.value);
            let diagnostic = Diagnostic::new(Code::SecurePriority, message)
                .at(priority.span, "expected 0x00 to 0x78, in steps of 8; a lower number is more urgent");
            let why = "from 0x80 on priorities are the non-secure world's, which could then hold the interrupt up";
            self.push(diagnostic.note(why));
        }
        is_good
    }

    /// INTIDs of the non-secure world that wake a server.
    pub(super) fn urgent(&mut self, server: &WorldServer, payloads: &[u32]) -> Option<Vec<u32>> {
        let mut intids: Vec<u32> = Vec::new();
        let mut is_good = true;
        for urgent in &server.interrupts {
            match self.urgent_intids(urgent, payloads) {
                Some(found) => intids.extend(found),
                None => is_good = false,
            }
        }
        intids.sort_unstable();
        intids.dedup();
        is_good.then_some(intids)
    }

    fn urgent_intids(&mut self, urgent: &Located<Urgent>, payloads: &[u32]) -> Option<Vec<u32>> {
        let found: Vec<u32> = match &urgent.value {
            Urgent::Device(name) => self.non_secure_interrupts(name).unwrap_or_default(),
            Urgent::Intid(intid) => u32::try_from(*intid).into_iter().collect(),
        };
        let is_there = |intid: &u32| !payloads.contains(intid) && self.non_secure_owner(*intid).is_some();
        if !found.is_empty() && found.iter().all(is_there) {
            return Some(found);
        }
        let (what, label) = match &urgent.value {
            Urgent::Device(name) if found.is_empty() => (format!("`{name}`"), "no device with an interrupt"),
            Urgent::Device(name) => (format!("`{name}`"), "its interrupt is the payload's"),
            Urgent::Intid(intid) if found.iter().any(|one| payloads.contains(one)) => {
                (format!("interrupt {intid}"), "the payload's own")
            }
            Urgent::Intid(intid) => (format!("interrupt {intid}"), "no device or channel raises it"),
        };
        let message = format!("{what} is no urgent interrupt of the non-secure world");
        let diagnostic = Diagnostic::new(Code::NobodysInterrupt, message).at(urgent.span, label);
        let names = self.board.board.devices.iter().filter(|device| !device.interrupts.is_empty());
        let names: Vec<&str> = names.map(|device| device.name.as_str()).collect();
        let diagnostic = match &urgent.value {
            Urgent::Device(name) => {
                match crate::suggest::closest(name, names.into_iter().chain(self.board.uart_name.as_deref())) {
                    Some(meant) if found.is_empty() => {
                        diagnostic.suggest(urgent.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"))
                    }
                    _ => diagnostic,
                }
            }
            Urgent::Intid(_) => {
                diagnostic.help("timers of the non-secure world are 26 (EL2), 27 (EL1 virtual) and 30 (EL1 physical)")
            }
        };
        self.push(diagnostic);
        None
    }

    /// The interrupts of a device of the non-secure world, by its name.
    fn non_secure_interrupts(&self, name: &str) -> Option<Vec<u32>> {
        let board = &self.board.board;
        if self.board.uart_name.as_deref() == Some(name) {
            return board.uart.map(|uart| vec![uart.intid]);
        }
        let device = board.devices.iter().find(|device| device.name == name)?;
        Some(device.interrupts.iter().map(|interrupt| interrupt.intid).collect())
    }
}
