//! The payload: its core, its program, its devices and tasks.

use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::floating_point;
use crate::guest_file::{self, Executable};
use crate::resolve::Resolver;
use crate::secure::{PAYLOAD_PRIORITIES, PayloadKind, PayloadTask, Secure};
use crate::sharing::Task;
use crate::source::Span;
use crate::unit::format_size;
use bulkhead_plan::model::{self, SecureFacts};
use bulkhead_world::flash::{ARGUMENT_BYTES, MOST_BYTES, PLAN, PLAN_BYTES, secure_ram};

impl Resolver<'_> {
    /// The core of the payload: with one core there is nobody who could start another one.
    pub(super) fn payload_core(&mut self, secure: &Secure) -> Option<usize> {
        let Some(core) = secure.core.as_ref().filter(|core| core.value != 0) else { return Some(0) };
        let count = self.board.board.core_mpidr.len();
        if core.value >= count as u64 {
            let message = format!("the board has no core {}", core.value);
            let label = format!("board `{}` has cores 0 to {}", self.board.board.name, count.saturating_sub(1));
            self.push(Diagnostic::new(Code::UnknownCore, message).at(core.span, label));
            return None;
        }
        self.not_built(core.span, "a payload on another core than 0, on which the machine starts", "write `core = 0`");
        None
    }

    /// The payload's program, in its memory.
    pub(super) fn payload(&mut self, secure: &Secure, facts: &SecureFacts) -> Option<model::Payload> {
        let memory_bytes = self.payload_memory(secure, facts);
        let name = &secure.payload.file;
        let elf = self.files.read(name, self.report)?;
        let executable = guest_file::executable(name, &elf, self.report)?;
        let arguments = match &secure.arguments {
            Some(text) => self.text(text, ARGUMENT_BYTES, "the argument text")?,
            None => String::new(),
        };
        let memory_bytes = memory_bytes?;
        self.payload_place(secure, &executable, memory_bytes)?;
        if secure.floating_point.as_ref().is_none_or(|state| !state.value) {
            self.payload_without_floating_point(secure, &elf)?;
        }
        let kind = match secure.payload.kind.value {
            PayloadKind::FreeRtos => model::PayloadKind::FreeRtos,
            PayloadKind::Elf => model::PayloadKind::Elf,
        };
        Some(model::Payload { kind, elf, memory_bytes, arguments })
    }

    fn payload_memory(&mut self, secure: &Secure, facts: &SecureFacts) -> Option<u64> {
        let bytes = self.size(&secure.memory)?;
        let most = facts.ram.end().saturating_sub(secure_ram::PAYLOAD);
        if bytes <= most {
            return Some(bytes);
        }
        let message = format!("{} is more secure RAM than a payload can have", format_size(bytes));
        let label = format!("at most {}", format_size(most));
        let taken = format_size(secure_ram::PAYLOAD.saturating_sub(facts.ram.start.0));
        let note = format!(
            "of {} the first {taken} are those of the secure monitor and of tables",
            format_size(facts.ram.bytes)
        );
        self.push(Diagnostic::new(Code::PayloadOutside, message).at(secure.memory.span, label).note(note));
        None
    }

    fn payload_place(&mut self, secure: &Secure, executable: &Executable, memory_bytes: u64) -> Option<()> {
        let (first, end) = (secure_ram::PAYLOAD, secure_ram::PAYLOAD.saturating_add(memory_bytes));
        let outside = executable
            .segments
            .iter()
            .find(|segment| segment.address.0 < first || segment.address.0.saturating_add(segment.memory_bytes) > end);
        let Some(segment) = outside else { return Some(()) };
        let last = segment.address.0.saturating_add(segment.memory_bytes).saturating_sub(1);
        let message = format!("the payload `{}` does not lie in its secure RAM", secure.payload.file.value);
        let diagnostic = Diagnostic::new(Code::PayloadOutside, message)
            .at(secure.payload.file.span, format!("has {} to {last:#x}", segment.address))
            .at(secure.memory.span, format!("{first:#x} to {:#x}", end.saturating_sub(1)));
        let ram_end = self.board.board.secure.as_ref().map_or(end, |facts| facts.ram.end());
        self.push(match !(first..ram_end).contains(&segment.address.0) {
            true => diagnostic.help(format!("link it at {first:#x}, as the linker script of the world library does")),
            false => diagnostic.help("give the payload more memory, or make it smaller"),
        });
        None
    }

    fn payload_without_floating_point(&mut self, secure: &Secure, elf: &[u8]) -> Option<()> {
        let is_freertos = secure.payload.kind.value == PayloadKind::FreeRtos;
        let Some(address) = floating_point::first_use(elf, 0, is_freertos) else { return Some(()) };
        let message = format!("the payload `{}` uses floating-point registers", secure.payload.file.value);
        let diagnostic = Diagnostic::new(Code::PayloadFloatingPoint, message)
            .at(secure.payload.file.span, format!("the instruction at {address:#x} is the first one"))
            .note(
                "nobody saves these registers when the worlds change, so each world would find those of the other one",
            );
        self.push(
            diagnostic.help("build it without: `-mgeneral-regs-only`, or the target aarch64-unknown-none-softfloat"),
        );
        None
    }

    /// The devices of the payload, by their places among those of the secure world.
    pub(super) fn payload_devices(&mut self, secure: &Secure, facts: &SecureFacts) -> Option<Vec<usize>> {
        let mut found: Vec<(usize, &Located<String>)> = Vec::new();
        for name in &secure.devices {
            let Some(place) = facts.devices().position(|device| device.name == name.value) else {
                self.not_secure(name, facts);
                continue;
            };
            if let Some((_, first)) = found.iter().find(|(other, _)| *other == place) {
                let message = format!("device `{}` is given twice", name.value);
                self.push(
                    Diagnostic::new(Code::DeviceTwice, message)
                        .at(name.span, "here")
                        .at(first.span, "and here, to the same payload"),
                );
                continue;
            }
            found.push((place, name));
        }
        (found.len() == secure.devices.len()).then(|| found.into_iter().map(|(place, _)| place).collect())
    }

    fn not_secure(&mut self, name: &Located<String>, facts: &SecureFacts) {
        let is_others = self.board.board.devices.iter().any(|device| device.name == name.value)
            || self.board.uart_name.as_deref() == Some(name.value.as_str());
        let known: Vec<&str> = facts.devices().map(|device| device.name.as_str()).collect();
        if is_others {
            let message = format!("device `{}` would be one of both worlds", name.value);
            let diagnostic = Diagnostic::new(Code::DeviceOfBoth, message)
                .at(name.span, "the non-secure world reaches its registers")
                .note(
                    "the address space of the board does not protect it, so a payload could not rely on what it says",
                );
            return self
                .push(diagnostic.help(format!("devices of the secure world: {}", crate::suggest::list(&known))));
        }
        let message = format!("the secure world has no device `{}`", name.value);
        let mut diagnostic = Diagnostic::new(Code::UnknownDevice, message).at(name.span, "");
        diagnostic = match crate::suggest::closest(name, known.iter().copied()) {
            Some(meant) => diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?")),
            None => diagnostic.help(format!("it has {}", crate::suggest::list(&known))),
        };
        self.push(diagnostic);
    }

    pub(super) fn payload_task(&mut self, task: &Located<PayloadTask>) -> Option<model::PayloadTask> {
        let priority = self.payload_priority(&task.priority);
        let written = Task {
            name: task.name.clone(),
            cost: task.cost.clone(),
            period: task.period.clone(),
            deadline: task.deadline.clone(),
        };
        let task = self.task(&Located { value: written, span: task.span })?;
        Some(model::PayloadTask { task, priority: priority? })
    }

    pub(super) fn payload_priority(&mut self, priority: &Located<u64>) -> Option<u32> {
        let found = u32::try_from(priority.value).ok().filter(|one| u64::from(*one) < PAYLOAD_PRIORITIES);
        if found.is_none() {
            let message = format!("{} is no priority of a payload", priority.value);
            let label = format!("expected 0 to {}; a higher number is more urgent", PAYLOAD_PRIORITIES - 1);
            self.push(Diagnostic::new(Code::BadPriority, message).at(priority.span, label));
        }
        found
    }

    /// Checks that everything has room in the flash, as far as it is known before the secure monitor is: the payload, and what is below
    /// with its place in the description.
    pub(super) fn flash_fits(
        &mut self,
        secure: &Secure,
        facts: &SecureFacts,
        payload: &model::Payload,
        (place, image): (Span, u64),
    ) {
        let payload_bytes = guest_file::loaded_bytes(&payload.elf);
        let before = PLAN + PLAN_BYTES + (secure_ram::PAYLOAD - secure_ram::TABLES);
        let needed = before.saturating_add(payload_bytes).saturating_add(image);
        let most = facts.flash.bytes.min(MOST_BYTES);
        if needed <= most {
            return;
        }
        let message = format!("the parts of the system need {} of flash", format_size(needed));
        let diagnostic = Diagnostic::new(Code::FlashFull, message)
            .at(place, format!("{} of them", format_size(image)))
            .at(secure.payload.span, format!("and {} here", format_size(payload_bytes)))
            .note(format!("board `{}` shows {} of its flash", self.board.board.name, format_size(most)));
        self.push(diagnostic.help("what is large belongs on a disk or in a compressed initial RAM file system"));
    }
}
